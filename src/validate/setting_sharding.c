/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validate/setting_parts.h"

/** The stage in "stage 3", "sharding (stage=2)"; -1: none is named, another one behind it, or one of a pipeline. */
static int32_t bare_stage(const char *text)
{
    int32_t stage = -1;
    for (const char *at = strcasestr(text, "stage"); at != NULL; at = strcasestr(at + 1, "stage")) {
        const char *digit = at + strlen("stage");
        digit += strspn(digit, " -_=:");
        if (!isdigit((unsigned char)*digit))
            continue;
        if (*digit > '3' || isdigit((unsigned char)digit[1]) || (stage >= 0 && stage != *digit - '0'))
            return -1;
        stage = *digit - '0';
    }
    return strcasestr(text, "pipeline") == NULL && strcasestr(text, "PP") == NULL ? stage : -1;
}

/** The stage in "ZeRO-3", "zero2", "ZeRO Stage 1", "DeepSpeed stage 3", "stage 3"; -1: none is named. */
static int32_t zero_stage(const char *text)
{
    static const char *const names[] = {"zero", "deepspeed"};
    const char *zero = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && zero == NULL; i++) {
        zero = strcasestr(text, names[i]);
        zero = zero == NULL ? NULL : zero + strlen(names[i]);
    }
    if (zero == NULL)
        return bare_stage(text);
    zero += strspn(zero, " -_");
    return '0' <= *zero && *zero <= '3' ? *zero - '0' : bare_stage(text);
}

/** A row whose gradients every replica has whole. */
static bool says_unsharded(const struct cells *cells)
{
    static const char *const words[] = {"no distributed optim", "not shard", "unshard", "no shard", "without shard"};
    static const char *const cells_of_none[] = {"none", "no", "0", "off", "false", "DP", "data parallel", "plain DP"};
    const char *text = cell_text(cells, "sharding");
    for (size_t i = 0; i < sizeof cells_of_none / sizeof *cells_of_none; i++)
        if (strcasecmp(text, cells_of_none[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasestr(text, words[i]) != NULL)
            return true;
    return cell_has(cells, "notes", "no distributed optimizer") || cell_has(cells, "notes", "gradient all-reduce");
}

/** A row that leaves sharding to the recipes of Megatron-Bridge. */
static bool is_bridge_default(const struct cells *cells)
{
    return *cell_text(cells, "sharding") == '\0' && cell_has(cells, "framework", "Megatron-Bridge") &&
           !says_unsharded(cells);
}

/** Whether FSDP keeps parameters between forward and backward: "reshard_after_forward=False", "no reshard". */
static bool keeps_parameters(const struct cells *cells)
{
    static const char *const columns[] = {"sharding", "notes"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        const char *option = strcasestr(cell_text(cells, columns[i]), "reshard_after_forward");
        if (option != NULL) {
            option += strlen("reshard_after_forward");
            if (isdigit((unsigned char)option[strspn(option, " =:")]))
                cell_skip(cells, "%s: resharding to groups after the forward has no model", columns[i]);
        }
        if (cell_has(cells, columns[i], "reshard"))
            return !cell_says(cells, columns[i], "reshard");
    }
    return false;
}

/** What the sharding column says; false: nothing that has a model. */
static bool read_states(const struct cells *cells, struct scenario_plan *plan)
{
    static const struct {
        const char *text;
        int32_t sharding;
    } words[] = {{"NO_SHARD", SCENARIO_UNSHARDED},
                 {"SHARD_GRAD_OP", SCENARIO_ZERO2},
                 {"FSDP", SCENARIO_ZERO3},
                 {"HSDP", SCENARIO_ZERO3},
                 {"HYBRID_SHARD", SCENARIO_ZERO3},
                 {"hybrid shard", SCENARIO_ZERO3},
                 {"distributed optim", SCENARIO_ZERO1},
                 {"distributed_optim", SCENARIO_ZERO1},
                 {"distributed-optim", SCENARIO_ZERO1},
                 {"DistributedOptim", SCENARIO_ZERO1},
                 {"DistOpt", SCENARIO_ZERO1},
                 {"dist opt", SCENARIO_ZERO1},
                 {"dist. opt", SCENARIO_ZERO1},
                 {"dist-opt", SCENARIO_ZERO1},
                 {"sharded optim", SCENARIO_ZERO1},
                 {"optimizer shard", SCENARIO_ZERO1},
                 {"optimizer state shard", SCENARIO_ZERO1},
                 {"FULL_SHARD", SCENARIO_ZERO3},
                 {"full shard", SCENARIO_ZERO3},
                 {"fully shard", SCENARIO_ZERO3},
                 {"DDP", SCENARIO_UNSHARDED}};
    static const int32_t stages[] = {SCENARIO_UNSHARDED, SCENARIO_ZERO1, SCENARIO_ZERO2, SCENARIO_ZERO3};
    int32_t stage = zero_stage(cell_text(cells, "sharding"));
    const char *name = cell_has(cells, "sharding", "zero")        ? "zero"
                       : cell_has(cells, "sharding", "deepspeed") ? "deepspeed"
                                                                  : "stage";
    if (stage >= 0 && cell_says(cells, "sharding", name)) {
        plan->sharding = stages[stage];
        return true;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (cell_says(cells, "sharding", words[i].text)) {
            plan->sharding = words[i].sharding;
            if (plan->sharding == SCENARIO_ZERO3 && plan->pp == 1 && keeps_parameters(cells))
                plan->sharding = SCENARIO_ZERO2;
            return true;
        }
    if (is_bridge_default(cells)) {
        cell_assume(cells, "distributed optimizer, overlapped");
        plan->sharding = SCENARIO_ZERO1;
        return true;
    }
    plan->sharding = SCENARIO_UNSHARDED;
    return says_unsharded(cells) || (*cell_text(cells, "sharding") == '\0' && plan->dp == 1);
}

/** FSDP in the stages of torchtitan's pipelines, reshard_after_forward by its default: off. */
static bool is_pipelined_fsdp(const struct cells *cells, const struct scenario_plan *plan)
{
    return plan->pp > 1 && cell_has(cells, "framework", "titan") && cell_has(cells, "sharding", "SDP") &&
           !cell_says(cells, "sharding", "reshard") && !cell_says(cells, "notes", "reshard");
}

/** PyTorch's names of sharding in groups, and FSDP that is said to end at a node or to have replicas. */
static bool is_hybrid(const struct cells *cells)
{
    static const char *const words[] = {"dp_shard",        "dp_replicate",   "replicate=",       "replicate ",
                                        "replicas",        "within node",    "within a node",    "inside node",
                                        "inside a node",   "intra-node",     "within each node", "inside each node",
                                        "inside the node", "within the node"};
    bool hybrid = cell_has(cells, "sharding", "HSDP") || cell_has(cells, "sharding", "hybrid");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        hybrid = hybrid || (cell_has(cells, "sharding", "FSDP") && cell_says(cells, "sharding", words[i]));
    return hybrid;
}

/** Whether one of the words ends before `at`. */
static bool is_behind(const char *text, const char *at, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strlen(words[i]);
        if ((size_t)(at - text) >= bytes && strncasecmp(at - bytes, words[i], bytes) == 0)
            return true;
    }
    return false;
}

/** Whether the number at `at` counts nothing: it is part of a type ("bf16"), a version ("FSDP2", "2.4") or a stage
 * ("ZeRO-3"). */
static bool is_of_name(const char *text, const char *at)
{
    static const char *const names[] = {"bf", "fp", "float", "SDP", "."}, *const stages[] = {"zero", "stage"};
    const char *end = at + strspn(at, "0123456789"), *name = at;
    while (name > text && strchr(" -_", name[-1]) != NULL)
        name--;
    return (*end == '.' && isdigit((unsigned char)end[1])) ||
           is_behind(text, at, names, sizeof names / sizeof *names) ||
           is_behind(text, name, stages, sizeof stages / sizeof *stages);
}

/** strtol, at most INT32_MAX. */
static int64_t number_at(const char *text, char **end)
{
    long value = strtol(text, end, 10);
    return value < INT32_MAX ? value : INT32_MAX;
}

/** The number of "shard=8", "dp_shard_degree 8", "hybrid sharding (8)", "8 shards", "8-way shard", of nodes ("shard 2
 * nodes") their ranks; 0: there is none. */
static int64_t ranks_of_shard(const char *text, int64_t ranks_of_node)
{
    for (const char *at = strcasestr(text, "shard"); at != NULL; at = strcasestr(at + 1, "shard")) {
        const char *behind = at + strlen("shard"), *before = at;
        while (isalpha((unsigned char)*behind))
            behind++;
        behind += strncasecmp(behind, "_degree", 7) == 0 || strncasecmp(behind, " degree", 7) == 0 ? 7 : 0;
        behind += strspn(behind, " =:(");
        while (before > text && strchr(" -way", before[-1]) != NULL)
            before--;
        while (before > text && isdigit((unsigned char)before[-1]))
            before--;
        const char *number = isdigit((unsigned char)*behind) && !is_of_name(text, behind) ? behind : before;
        if (!isdigit((unsigned char)*number) || is_of_name(text, number))
            continue;
        char *end;
        int64_t ranks = number_at(number, &end);
        return strncasecmp(end + strspn(end, " -"), "node", strlen("node")) == 0 ? ranks * ranks_of_node : ranks;
    }
    return 0;
}

/** N of "N-way"; 0: there is none. */
static int64_t ranks_of_way(const char *text)
{
    const char *way = strcasestr(text, "way"), *number = way;
    while (number != NULL && number > text && strchr(" -", number[-1]) != NULL)
        number--;
    while (number != NULL && number > text && isdigit((unsigned char)number[-1]))
        number--;
    return way != NULL && isdigit((unsigned char)*number) ? number_at(number, NULL) : 0;
}

/** N of "over N", of "over N nodes" their ranks, N of "N-way", "FSDP N" and "FSDP=N" but for the versions 1 and 2; 0:
 * none. */
static int64_t ranks_over(const struct cells *cells, const struct scenario_plan *plan)
{
    const char *text = cell_text(cells, "sharding"), *over = strcasestr(text, "over "),
               *fsdp = strcasestr(text, "FSDP");
    char *end = NULL;
    int64_t ranks = over == NULL ? 0 : number_at(over + strlen("over "), &end);
    if (ranks > 0 && strncasecmp(end + strspn(end, " "), "node", strlen("node")) == 0)
        return ranks * (SETTING_NODE_GPUS / plan->tp);
    bool times_cp = cell_has(cells, "sharding", "x CP") || cell_has(cells, "framework", "titan");
    if (ranks > 0)
        return ranks * (times_cp && ranks <= plan->dp ? plan->cp : 1);
    ranks = is_hybrid(cells) ? 0 : ranks_of_way(text);
    if (ranks > 0)
        return ranks;
    fsdp = fsdp == NULL ? NULL : fsdp + strlen("FSDP");
    ranks = fsdp != NULL && *fsdp != '\0' && strchr(" =-", *fsdp) != NULL ? strtol(fsdp + 1, NULL, 10) : 0;
    return ranks > 2 ? ranks : 0;
}

/** Whether a number stands in a text that may count something else than the ranks of a group, of which a node has so
 * many: another number or a second one, or one of replicas, nodes and the like. */
static bool has_other_number(const char *text, int64_t ranks_of_node)
{
    static const char digits[] = "0123456789";
    int32_t n = 0;
    for (const char *at = strpbrk(text, digits); at != NULL; at = strpbrk(at + strspn(at, digits), digits)) {
        char *end;
        if (is_of_name(text, at))
            continue;
        bool other = n++ > 0 || number_at(at, &end) != ranks_of_node || strcasestr(text, "replic") != NULL;
        if (other || strchr(");,", end[strspn(end, " ")]) == NULL) /* or the text ends */
            return true;
    }
    return false;
}

/** Whether a text counts ranks, "8 x 8", "groups of 6", "4 nodes" (their GPUs), and is not about all: of a group or of
 * the run. */
static bool counts_some(const char *text, int64_t group, int64_t run)
{
    static const char digits[] = "0123456789";
    static const char *const behind[] = {"rank", "GPU", "node", "replica", "shard", "in a group"};
    static const char *const before[] = {"group of ", "groups of ", "group size ", "group=", "group_size="};
    for (const char *at = strpbrk(text, digits); at != NULL; at = strpbrk(at + strspn(at, digits), digits)) {
        char *end;
        int64_t number = number_at(at, &end);
        const char *word = end + strspn(end, " -");
        number *= strncasecmp(word, "node", strlen("node")) == 0 ? SETTING_NODE_GPUS : 1;
        bool counts = is_behind(text, at, before, sizeof before / sizeof *before) ||
                      (*word == 'x' && isdigit((unsigned char)word[1 + strspn(word + 1, " ")]));
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
            counts = counts || strncasecmp(word, behind[i], strlen(behind[i])) == 0;
        if (counts && number != group && number != run && !is_of_name(text, at))
            return true;
    }
    return false;
}

/** Ranks of PyTorch's sharding in groups where "over N" does not say them. */
static int64_t ranks_of_hybrid(const struct cells *cells, const struct scenario_plan *plan)
{
    const char *text = cell_text(cells, "sharding");
    int64_t ranks_of_node = SETTING_NODE_GPUS / plan->tp, ranks = ranks_of_shard(text, ranks_of_node);
    if (ranks > 0)
        return ranks;
    if (has_other_number(text, ranks_of_node))
        cell_skip(cells, "sharding '%s': how many ranks share is not given", text);
    if (!cell_has(cells, "sharding", "node"))
        cell_assume(cells, "HSDP inside nodes");
    return ranks_of_node;
}

/** Ranks that share: "zero1=N" and "over N" say so, else with HSDP those of a node; 0: all. */
static int64_t read_shard_group(const struct cells *cells, const struct scenario_plan *plan)
{
    const char *text = cell_text(cells, "sharding"), *zero1 = strcasestr(text, "zero1=");
    int64_t replicas = plan->dp * plan->cp, over = zero1 != NULL ? 0 : ranks_over(cells, plan),
            group = zero1 != NULL ? strtol(zero1 + strlen("zero1="), NULL, 10) : over;
    bool nodes = cell_has(cells, "sharding", "node"), all = over == replicas * plan->tp * plan->pp;
    if (over > replicas && !all && !nodes)
        cell_skip(cells, "sharding '%s': %lld ranks are more than dp x cp", text, (long long)over);
    if (group == 0 && is_hybrid(cells))
        group = ranks_of_hybrid(cells, plan);
    bool fsdp = plan->sharding == SCENARIO_ZERO2 || plan->sharding == SCENARIO_ZERO3;
    if (fsdp && group == 0 && counts_some(text, replicas, replicas * plan->tp * plan->pp))
        cell_skip(cells, "sharding '%s': how many ranks share is not given", text);
    if (group <= 0 || group >= replicas)
        return 0;
    if (replicas % group != 0)
        cell_skip(cells, "sharding '%s': %lld ranks do not divide dp x cp", text, (long long)group);
    return group;
}

/** Whose copies: torchtitan shards by fully_shard (parallelize_llama.py); other rows name FSDP2 if they take it. */
static int64_t read_fsdp(const struct cells *cells, const struct scenario_plan *plan)
{
    static const char *const known[] = {"llm-foundry", "fms-fsdp", "DeepSpeed"};
    bool two = cell_has(cells, "framework", "titan") || cell_has(cells, "framework", "FSDP2") ||
               cell_has(cells, "sharding", "FSDP2");
    bool one = cell_has(cells, "framework", "FSDP1") || cell_has(cells, "sharding", "FSDP1");
    if (plan->sharding != SCENARIO_ZERO2 && plan->sharding != SCENARIO_ZERO3)
        return 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        one = one || cell_has(cells, "framework", known[i]);
    if (!one && !two)
        cell_assume(cells, "copies of FSDP1");
    return two ? 2 : 1;
}

/** When FSDP1 gathers the next layer in the backward: the row's word, else Composer's default or PyTorch's. */
static enum scenario_prefetch read_prefetch(const struct cells *cells, const struct scenario_plan *plan)
{
    if (plan->fsdp == 2 || (plan->sharding != SCENARIO_ZERO2 && plan->sharding != SCENARIO_ZERO3))
        return SCENARIO_BACKWARD_PRE;
    bool post = cell_says(cells, "sharding", "BACKWARD_POST"), pre = cell_says(cells, "sharding", "BACKWARD_PRE");
    return post || (!pre && cell_has(cells, "framework", "llm-foundry")) ? SCENARIO_BACKWARD_POST
                                                                         : SCENARIO_BACKWARD_PRE;
}

/** llm-foundry's table of 128 GPUs and more, of 2024. */
static bool is_large_scale(const struct cells *cells)
{
    return cell_has(cells, "framework", "llm-foundry") && cell_has(cells, "source", "Large Scale");
}

/** Whether a column says that gradients are summed or reduced in a type: "bf16 gradients", "reduce_dtype=bf16". */
static bool says_gradients(const struct cells *cells, const char *type)
{
    static const char *const columns[] = {"sharding", "precision", "notes"};
    static const char *const before[] = {"reduce in ", "reduction in ", "reduced in ", "reduce_dtype=", "reduce dtype ",
                                         "reduce: ",   "gradients in ", "grads in ",   "reduce="};
    static const char *const behind[] = {" grad", " reduc", " main grad"};
    char phrase[32];
    for (size_t column = 0; column < sizeof columns / sizeof *columns; column++) {
        for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
            snprintf(phrase, sizeof phrase, "%s%s", before[i], type);
            if (cell_says(cells, columns[column], phrase))
                return true;
        }
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            snprintf(phrase, sizeof phrase, "%s%s", type, behind[i]);
            if (cell_says(cells, columns[column], phrase))
                return true;
        }
    }
    return false;
}

/** What gradients are summed and reduced in: the row's word, else the framework's default. */
static enum scenario_gradients read_gradients(const struct cells *cells)
{
    static const char *const half[] = {"llm-foundry", "fms-fsdp", "DeepSpeed", "InternEvo"};
    bool bf16 = says_gradients(cells, "bf16") || says_gradients(cells, "bfloat16");
    if (bf16 || says_gradients(cells, "fp32") || says_gradients(cells, "float32"))
        return bf16 ? SCENARIO_BF16 : SCENARIO_FP32;
    for (size_t i = 0; i < sizeof half / sizeof *half; i++)
        bf16 = bf16 || (cell_has(cells, "framework", half[i]) && !is_large_scale(cells));
    cell_assume(cells, bf16 ? "gradients of 2 bytes" : "fp32 gradients");
    return bf16 ? SCENARIO_BF16 : SCENARIO_FP32;
}

/** Whether gradients stand in memory all the time: of DeepSpeed's stage 3, of PyTorch's DDP (its buckets). */
static enum scenario_gradient_buffers read_gradient_buffers(const struct cells *cells, const struct scenario_plan *plan)
{
    static const char *const frees[] = {"llm-foundry", "fms-fsdp",     "titan",    "Transformers", "HF",
                                        "HuggingFace", "Hugging Face", "PyTorch",  "compile",      "MaxText",
                                        "Paxml",       "JAX",          "InternEvo"};
    if (cell_is_megatron(cells) || cell_has(cells, "framework", "nanotron"))
        return SCENARIO_GRADIENTS_KEPT;
    if (cell_has(cells, "framework", "DeepSpeed"))
        return plan->sharding == SCENARIO_ZERO3 ? SCENARIO_GRADIENTS_KEPT : SCENARIO_GRADIENTS_FREED;
    for (size_t i = 0; i < sizeof frees / sizeof *frees; i++)
        if (cell_has(cells, "framework", frees[i]))
            return plan->sharding == SCENARIO_UNSHARDED && plan->dp > 1 ? SCENARIO_GRADIENTS_KEPT
                                                                        : SCENARIO_GRADIENTS_FREED;
    cell_assume(cells, "gradients kept in buffers");
    return SCENARIO_GRADIENTS_KEPT;
}

/** FSDP in pipeline stages: torchtitan's holds parameters from the first forward to the last backward of an iteration,
 * sums gradients whole until that and reduces them behind it, so that what is sent, and held, is zero1's. */
static void read_pipelined_shards(const struct cells *cells, struct scenario_plan *plan)
{
    if (plan->pp == 1 || (plan->sharding != SCENARIO_ZERO2 && plan->sharding != SCENARIO_ZERO3))
        return;
    if (!is_pipelined_fsdp(cells, plan))
        cell_skip(cells, "sharding '%s' with pipeline stages has no model", cell_text(cells, "sharding"));
    cell_assume(cells, "parameters gathered and gradients reduced once an iteration");
    plan->sharding = SCENARIO_ZERO1;
}

void setting_read_sharding(const struct cells *cells, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    if (!read_states(cells, plan))
        cell_skip(cells, "sharding %s%s%s; known: ZeRO-0 to ZeRO-3, DDP, FSDP, HSDP, distributed optimizer",
                  *cell_text(cells, "sharding") == '\0' ? "is missing" : "'", cell_text(cells, "sharding"),
                  *cell_text(cells, "sharding") == '\0' ? "" : "' has no model");
    static const char *const others[] = {"CPU", "offload", "ZeRO++", "Infinity", "MiCS", "hpZ", "NVMe"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (cell_says(cells, "sharding", others[i]))
            cell_skip(cells, "sharding '%s': %s has no model", cell_text(cells, "sharding"), others[i]);
    if (cell_has(cells, "sharding", "+DP"))
        cell_skip(cells, "sharding '%s': how many ranks share is not given", cell_text(cells, "sharding"));
    read_pipelined_shards(cells, plan);
    plan->shard_group = plan->sharding == SCENARIO_UNSHARDED ? 0 : read_shard_group(cells, plan);
    plan->fsdp = read_fsdp(cells, plan);
    plan->fsdp_prefetch = (int32_t)read_prefetch(cells, plan);
    plan->fsdp_ends =
        plan->fsdp == 2 && cell_has(cells, "notes", "groups of their own") ? SCENARIO_ENDS_OWN : SCENARIO_ENDS_ROOT;
    plan->gradients = read_gradients(cells);
    plan->gradient_buffers = (int32_t)read_gradient_buffers(cells, plan);
    plan->optimizer = cell_has(cells, "framework", "llm-foundry") ? SCENARIO_EAGER : SCENARIO_FUSED;
}

/** PyTorch's DDP, which reduces its buckets beside the backward. */
static bool is_torch_ddp(const struct cells *cells, const struct scenario_plan *plan)
{
    static const char *const torch[] = {"PyTorch", "titan", "Transformers", "HF", "HuggingFace", "Hugging Face"};
    for (size_t i = 0; i < sizeof torch / sizeof *torch; i++)
        if (plan->sharding == SCENARIO_UNSHARDED && plan->dp > 1 && cell_has(cells, "framework", torch[i]))
            return true;
    return false;
}

static enum scenario_data_overlap read_data_overlap(const struct cells *cells, const struct setting *setting)
{
    bool deepspeed = cell_has(cells, "framework", "DeepSpeed");
    if (setting->plan.sharding == SCENARIO_ZERO3 || (setting->plan.sharding == SCENARIO_ZERO2 && !deepspeed))
        return SCENARIO_OVERLAP_BOTH;
    if (is_bridge_default(cells))
        return SCENARIO_OVERLAP_BOTH;
    if (cell_says(cells, "sharding", "overlap"))
        return cell_says(cells, "sharding", "param") ? SCENARIO_OVERLAP_BOTH : SCENARIO_OVERLAP_GRADIENTS;
    if (cell_has(cells, "sharding", "overlap"))
        return SCENARIO_OVERLAP_NONE;
    if (!deepspeed && is_torch_ddp(cells, &setting->plan)) {
        cell_assume(cells, "gradients reduced beside the backward");
        return SCENARIO_OVERLAP_GRADIENTS;
    }
    if (deepspeed)
        cell_assume(cells, "gradients not reduced beside the backward");
    if (!cell_has(cells, "framework", "InternEvo"))
        return SCENARIO_OVERLAP_NONE;
    cell_assume(cells, "gradients reduced beside the backward, parameters gathered behind it");
    return SCENARIO_OVERLAP_GRADIENTS;
}

/** What of tensor-parallel collectives runs beside GEMMs. */
static enum scenario_tensor_overlap read_tensor_overlap(const struct cells *cells, const struct scenario_plan *plan)
{
    bool titan = cell_has(cells, "framework", "titan");
    bool recipe = cell_has(cells, "framework", "NeMo") || cell_has(cells, "framework", "Megatron-Bridge");
    if (cell_flag(cells, "tp_comm_overlap", false) || (titan && cell_says(cells, "notes", "async TP")))
        return SCENARIO_CHUNKED;
    if (recipe && plan->tp > 1 && plan->sequence_parallel && *cell_text(cells, "tp_comm_overlap") == '\0') {
        cell_assume(cells, "tensor-parallel collectives overlapped, as in the framework's recipes");
        return SCENARIO_CHUNKED;
    }
    return titan ? SCENARIO_EXPOSED : SCENARIO_BULK;
}

void setting_read_overlaps(const struct cells *cells, struct setting *setting)
{
    setting->communication = (struct scenario_communication){
        .tp_overlap = (int32_t)read_tensor_overlap(cells, &setting->plan),
        .cp_overlap = true,
        .pp_overlap = setting->plan.vpp > 1,
        .dp_overlap = (int32_t)read_data_overlap(cells, setting),
    };
}

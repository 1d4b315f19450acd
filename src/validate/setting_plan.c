/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "validate/setting_parts.h"

enum { MOST_TOKENS = 1 << 30 };

/** N of "every Nth layer" and of torchtitan's "selective (N)", whose N-th layers recompute all; 0: neither. */
static int64_t every_nth_layer(const struct cells *cells)
{
    const char *text = cell_text(cells, "recompute"), *every = strcasestr(text, "every ");
    const char *list = strcasestr(text, "selective (");
    if (every != NULL && strcasestr(every, " layer") != NULL)
        return strtol(every + strlen("every "), NULL, 10);
    return list != NULL && cell_has(cells, "framework", "titan") ? strtol(list + strlen("selective ("), NULL, 10) : 0;
}

/** torchtitan's selective op, by its name, by what it saves, or by neither: its configurations have it. */
static bool is_selective_op(const struct cells *cells)
{
    static const char *const words[] = {"per-op", "per op", "(op", "selective op", "matmul"};
    static const char *const bare[] = {"selective", "SAC", "selective AC", "selective activation checkpointing"};
    if (!cell_has(cells, "framework", "titan"))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (cell_has(cells, "recompute", words[i]))
            return true;
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++)
        if (strcasecmp(cell_text(cells, "recompute"), bare[i]) == 0) {
            cell_assume(cells, "torchtitan's selective op");
            return true;
        }
    return false;
}

/** What frameworks of PyTorch call the recomputation of whole layers. */
static bool names_whole_layers(const char *text)
{
    static const char *const words[] = {"gradient checkpointing", "activation checkpointing", "gradient_checkpointing",
                                        "activation_checkpointing"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncasecmp(text, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static int32_t read_recompute(const struct cells *cells)
{
    const char *text = cell_text(cells, "recompute");
    if (is_selective_op(cells))
        return RECOMPUTE_SELECTIVE | RECOMPUTE_ALTERNATE_GEMMS;
    if (cell_has(cells, "framework", "MaxText") && strcasestr(text, "minimal_flash") != NULL)
        return RECOMPUTE_SELECTIVE;
    if (*text == '\0')
        cell_assume(cells, "no recomputation");
    bool some = cell_says(cells, "recompute", "full") || cell_says(cells, "recompute", "selective");
    if (*text == '\0' || (cell_is_none(cells, "recompute") && !some))
        return RECOMPUTE_NONE;
    if (strcasestr(text, "core attention") != NULL || strcasestr(text, "core_attn") != NULL ||
        strcasestr(text, "core attn") != NULL)
        return RECOMPUTE_ATTENTION_CORE;
    if (strncasecmp(text, "SwiGLU act", 10) == 0)
        return RECOMPUTE_SELECTIVE;
    if (strcasecmp(text, "selective") == 0 && cell_is_megatron(cells)) {
        cell_assume(cells, "selective recomputation of core attention");
        return RECOMPUTE_ATTENTION_CORE;
    }
    if (names_whole_layers(text) && !cell_is_megatron(cells)) {
        cell_assume(cells, "whole layers recomputed");
        return RECOMPUTE_FULL;
    }
    if (strncasecmp(text, "full", 4) != 0 && every_nth_layer(cells) < 1)
        cell_skip(cells,
                  cell_has(cells, "framework", "fms-fsdp")
                      ? "recompute '%s': the share of layers (selective_checkpointing) is not given"
                      : "recompute '%s' has no model; none, full, every Nth layer and core attention have",
                  text);
    return RECOMPUTE_FULL;
}

/** Whether "N of M", "N in M" or "N/M" stands in the text, and N is not M: a share of layers. */
static bool names_share(const char *text)
{
    for (const char *at = strpbrk(text, "0123456789"); at != NULL; at = strpbrk(at, "0123456789")) {
        long part = strtol(at, NULL, 10);
        at += strspn(at, "0123456789");
        const char *word = at + strspn(at, " ");
        size_t bytes = *word == '/' ? 1 : strncasecmp(word, "of ", 3) == 0 || strncasecmp(word, "in ", 3) == 0 ? 3 : 0;
        word += bytes;
        word += strspn(word, " ");
        if (bytes > 0 && isdigit((unsigned char)*word) && strtol(word, NULL, 10) != part)
            return true;
    }
    return false;
}

/** Layers of a stage that recompute, by "block, N" of each virtual stage, or by every_nth_layer of the model, which
 * must leave each virtual stage as many; 0: all. */
static int64_t read_recompute_layers(const struct cells *cells, int32_t recompute, const struct setting *setting)
{
    int64_t vpp = setting->plan.vpp, pp = setting->plan.pp, nth = every_nth_layer(cells);
    if (recompute == RECOMPUTE_FULL && nth > 1) {
        int64_t layers = setting->model.layers / nth;
        if (layers < 1 || layers % (pp * vpp) != 0)
            cell_skip(cells, "recompute '%s': stages do not recompute equally many layers",
                      cell_text(cells, "recompute"));
        return layers / pp;
    }
    const char *block = strcasestr(cell_text(cells, "recompute"), "block");
    if (cell_has(cells, "recompute", "per block"))
        block = NULL;
    if (recompute == RECOMPUTE_FULL && block == NULL && names_share(cell_text(cells, "recompute")))
        cell_skip(cells, "recompute '%s': a share of layers is read as 'block, N' or 'every Nth layer'",
                  cell_text(cells, "recompute"));
    if (recompute != RECOMPUTE_FULL || block == NULL)
        return 0;
    const char *number = strpbrk(block, "0123456789");
    int64_t layers = number == NULL ? 0 : strtol(number, NULL, 10);
    if (layers < 1 || layers > INT32_MAX)
        cell_skip(cells, "recompute '%s': how many layers is not given", cell_text(cells, "recompute"));
    return layers * vpp;
}

/** Runs whose checkpoints are PyTorch's without reentrance, from 2.1 on. */
static bool stops_early(const struct cells *cells, int32_t recompute)
{
    bool later = cell_has(cells, "gpu", "H100") || cell_has(cells, "precision", "amp_bf16");
    if (recompute != RECOMPUTE_FULL)
        return false;
    if (cell_has(cells, "recompute", "use_reentrant=False"))
        return true;
    if (!cell_has(cells, "framework", "llm-foundry"))
        return cell_has(cells, "framework", "titan") || cell_has(cells, "framework", "fms-fsdp");
    if (later)
        cell_assume(cells, "recomputation that stops early (PyTorch 2.1)");
    return later;
}

static double read_offload(const struct cells *cells)
{
    const char *text =
        cell_has(cells, "recompute", "alpha") ? cell_text(cells, "recompute") : cell_text(cells, "offload");
    const char *alpha = strcasestr(text, "alpha");
    if (alpha != NULL) {
        const char *number = alpha + strlen("alpha") + strspn(alpha + strlen("alpha"), " =");
        char *end;
        double share = strtod(number, &end);
        if (end == number || !(0 <= share && share <= 1))
            cell_skip(cells, "offload '%s': alpha is a share from 0 to 1", text);
        return share;
    }
    if (*text != '\0' && !cell_is_none(cells, "offload") && text == cell_text(cells, "offload"))
        cell_skip(cells, "offload '%s' has no model", text);
    return 0;
}

/** Equal stages, or where pp x vpp only divides the layers so, embedding and head count as layers (Megatron's option;
 * so Llama 3, arXiv:2407.21783, section 3.3.2). */
static void read_stages(const struct cells *cells, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    const struct scenario_stages both = {.count_embedding = true, .count_head = true};
    int64_t layers = setting->model.layers, n_virtual = plan->pp * plan->vpp;
    if (n_virtual <= layers && layers % n_virtual == 0)
        return;
    plan->stages = both;
    if (n_virtual <= layers + 2 && scenario_stages_fit(&both, layers, (int32_t)plan->pp, (int32_t)plan->vpp))
        cell_assume(cells, "embedding and head counted as layers of the pipeline");
    else
        cell_skip(cells, "pp x vpp does not divide layers");
}

/** A rank's whole batch of torchtitan in a pipeline, which cuts it into single sequences by default (its option
 * pipeline_parallel_microbatch_size). */
static bool is_cut_batch(const struct cells *cells, const struct setting *setting, int64_t n)
{
    return cell_has(cells, "framework", "titan") && setting->plan.pp > 1 && n <= 1 && setting->micro_batch > 1 &&
           setting->global_batch == setting->micro_batch * setting->plan.dp;
}

/** Micro-batch and global batch: of the three numbers of which one is the product of the others, one may be missing. */
static void read_batch(const struct cells *cells, struct setting *setting)
{
    int64_t n = cell_whole(cells, "n_microbatch"), dp = setting->plan.dp;
    setting->micro_batch = cell_whole(cells, "mbs");
    setting->global_batch = cell_whole(cells, "gbs");
    if (setting->micro_batch * setting->seq_len > MOST_TOKENS || n * dp > MOST_TOKENS) {
        cell_skip(cells, "seq_len x mbs, or n_microbatch x dp, is above %d", MOST_TOKENS);
        return;
    }
    if (setting->global_batch == 0)
        setting->global_batch = setting->micro_batch * n * dp;
    if (setting->micro_batch == 0 && n > 0 && setting->global_batch % (n * dp) == 0)
        setting->micro_batch = setting->global_batch / (n * dp);
    if (setting->micro_batch == 0 && n == 0 && setting->global_batch == dp)
        setting->micro_batch = 1;
    bool once = cell_has(cells, "framework", "titan") || cell_has(cells, "framework", "fms-fsdp");
    bool titan_pipeline = setting->plan.pp > 1 && cell_has(cells, "framework", "titan");
    if (setting->global_batch == 0 && once && (setting->plan.pp == 1 || titan_pipeline) && setting->micro_batch > 0) {
        cell_assume(cells, titan_pipeline ? "mbs is a rank's batch" : "one micro-batch an iteration");
        setting->global_batch = setting->micro_batch * dp;
    }
    if (is_cut_batch(cells, setting, n)) {
        cell_assume(cells, "a pipeline's micro-batches of one sequence");
        setting->micro_batch = 1;
        n = 0;
    }
    if (setting->micro_batch == 0)
        cell_skip(cells, "mbs is missing");
    else if (setting->global_batch % (setting->micro_batch * dp) != 0)
        cell_skip(cells, "gbs is not a multiple of mbs x dp");
    else if (n > 0 && setting->global_batch != setting->micro_batch * n * dp)
        cell_skip(cells, "n_microbatch is not gbs / (mbs x dp)");
}

/** What Megatron's option cp_comm_type in the notes says; -1: it is not there. */
static int32_t read_context_option(const struct cells *cells)
{
    static const struct {
        const char *word;
        int32_t type;
    } words[] = {{"p2p", SCENARIO_RING},
                 {"all_gather", SCENARIO_ALL_GATHER},
                 {"all-gather", SCENARIO_ALL_GATHER},
                 {"allgather", SCENARIO_ALL_GATHER},
                 {"a2a", SCENARIO_ULYSSES}};
    const char *option = strcasestr(cell_text(cells, "notes"), "cp_comm_type");
    if (option == NULL)
        option = strcasestr(cell_text(cells, "notes"), "cp-comm-type");
    if (option == NULL)
        return -1;
    option += strlen("cp_comm_type") + strspn(option + strlen("cp_comm_type"), " =:'\"");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t bytes = strlen(words[i].word);
        if (strncasecmp(option, words[i].word, bytes) == 0 && option[bytes] != '+')
            return words[i].type;
    }
    cell_skip(cells, "notes: '%.40s' has no model", option);
    return -1;
}

/** How context ranks exchange keys and values. */
static enum scenario_context read_context(const struct cells *cells)
{
    static const char *const columns[] = {"framework", "sharding", "notes"};
    int32_t option = cell_degree(cells, "cp") > 1 ? read_context_option(cells) : -1;
    if (option >= 0)
        return (enum scenario_context)option;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (cell_says(cells, columns[i], "Ulysses"))
            return SCENARIO_ULYSSES;
    bool gathers = cell_has(cells, "framework", "titan");
    if (cell_degree(cells, "cp") > 1)
        cell_assume(cells, gathers ? "all-gathers of context parallelism" : "a ring of context parallelism");
    return gathers ? SCENARIO_ALL_GATHER : SCENARIO_RING;
}

void setting_read_plan(const struct cells *cells, struct setting *setting)
{
    struct scenario_plan *plan = &setting->plan;
    *plan = (struct scenario_plan){
        .tp = cell_tensor(cells),
        .pp = cell_count(cells, "pp"),
        .cp = cell_degree(cells, "cp"),
        .cp_type = (int32_t)read_context(cells),
        .vpp = cell_degree(cells, "vpp"),
        .sequence_parallel = cell_flag(cells, "sp", true),
        .recompute = read_recompute(cells),
        .offload = read_offload(cells),
    };
    if (!scenario_recompute_fits(plan->recompute, &setting->model))
        cell_skip(cells, "recompute '%s' has a model for swiglu without dropout alone", cell_text(cells, "recompute"));
    plan->early_stop = stops_early(cells, plan->recompute);
    setting->seq_len = cell_whole(cells, "seq_len");
    if (plan->tp > 1 && *cell_text(cells, "sp") == '\0')
        cell_assume(cells, "sequence parallelism");
    int64_t dp = cell_count(cells, "dp");
    if (plan->pp == 0 && dp == 0)
        cell_skip(cells, "pp is missing");
    if (plan->pp == 0)
        plan->pp = dp > 0 ? setting->n_gpus / plan->tp / plan->cp / dp : 1;
    if (plan->pp == 0)
        plan->pp = 1;
    plan->recompute_layers = read_recompute_layers(cells, plan->recompute, setting);
    plan->dp = setting->n_gpus / plan->tp / plan->pp / plan->cp;
    if (plan->dp * plan->tp * plan->pp * plan->cp != setting->n_gpus || (dp > 0 && dp != plan->dp))
        cell_skip(cells, "n_gpus is not tp x pp x cp x dp");
    if (setting->model.heads % plan->tp != 0 || setting->model.kv_heads % plan->tp != 0)
        cell_skip(cells, "tp does not divide heads or kv_groups");
    if (setting->platform.gpus_per_node % plan->tp != 0)
        cell_skip(cells, "tp is %lld: tensor parallelism that does not divide the %d GPUs of a node has no model",
                  (long long)plan->tp, (int)setting->platform.gpus_per_node);
    read_stages(cells, setting);
    if (plan->dp > 0)
        read_batch(cells, setting);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdlib.h>
#include <string.h>

#include "validate/setting_parts.h"

enum { MOST_TOKENS = 1 << 30 };

/** The share behind "alpha": "alpha=0.5", "alpha 50%". */
static double share_of(const struct cells *cells, const char *text, const char *alpha)
{
    const char *number = alpha + strlen("alpha") + strspn(alpha + strlen("alpha"), " =:");
    char *end;
    double share = strtod(number, &end);
    bool is_number = end != number;
    if (*end == '%')
        share /= 100;
    if (!is_number || !(0 <= share && share <= 1))
        cell_skip(cells, "offload '%s': alpha is a share from 0 to 1", text);
    return share;
}

/** Share of activations that goes to the host. Only that has a model, and a cell must say so by "alpha", or that there
 * is no offload: "cpu_offload=False", "0%". */
static double read_offload(const struct cells *cells)
{
    const char *text =
        cell_has(cells, "recompute", "alpha") ? cell_text(cells, "recompute") : cell_text(cells, "offload");
    const char *alpha = strcasestr(text, "alpha");
    if (alpha != NULL)
        return share_of(cells, text, alpha);
    bool nothing = text != cell_text(cells, "offload") || *text == '\0' || strcmp(text, "0%") == 0 ||
                   (cell_is_none(cells, "offload") && !cell_says(cells, "offload", "CPU")) ||
                   (cell_has(cells, "offload", "offload") && !cell_says(cells, "offload", "offload"));
    if (!nothing)
        cell_skip(cells, "offload '%s' has no model", text);
    if (*cell_text(cells, "offload") == '\0' &&
        (cell_says(cells, "notes", "offload") || cell_says(cells, "framework", "offload")))
        cell_assume(cells, "no offload, though notes or framework name it");
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
    if (setting->global_batch > MOST_TOKENS / setting->seq_len)
        cell_skip(cells, "gbs is %lld sequences of %lld tokens, above %d tokens", (long long)setting->global_batch,
                  (long long)setting->seq_len, MOST_TOKENS);
    if (setting->micro_batch == 0)
        cell_skip(cells, "mbs is missing");
    else if (setting->global_batch % (setting->micro_batch * dp) != 0)
        cell_skip(cells, "gbs is not a multiple of mbs x dp");
    else if (n > 0 && setting->global_batch != setting->micro_batch * n * dp)
        cell_skip(cells, "n_microbatch is not gbs / (mbs x dp)");
    else if (setting->plan.vpp > 1 && setting->global_batch % (setting->micro_batch * dp * setting->plan.pp) != 0)
        cell_skip(cells, "vpp is %lld, and a pipeline's micro-batches are not a multiple of pp",
                  (long long)setting->plan.vpp);
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

/** What a remark in the column cp says: "2 (Ulysses)", "4 (all-gather)"; -1: nothing. */
static int32_t read_context_remark(const struct cells *cells)
{
    static const struct {
        const char *word;
        int32_t type;
    } words[] = {{"p2p", SCENARIO_RING},
                 {"ring", SCENARIO_RING},
                 {"all_gather", SCENARIO_ALL_GATHER},
                 {"all-gather", SCENARIO_ALL_GATHER},
                 {"allgather", SCENARIO_ALL_GATHER},
                 {"a2a", SCENARIO_ULYSSES},
                 {"Ulysses", SCENARIO_ULYSSES}};
    int32_t found = -1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (cell_says(cells, "cp", words[i].word)) {
            if (found >= 0 && found != words[i].type)
                cell_skip(cells, "cp: '%.40s' has no model", cell_text(cells, "cp"));
            found = words[i].type;
        }
    return found;
}

/** How context ranks exchange keys and values. */
static enum scenario_context read_context(const struct cells *cells)
{
    static const char *const columns[] = {"framework", "sharding", "notes"};
    int32_t option = cell_degree(cells, "cp") > 1 ? read_context_option(cells) : -1;
    if (option < 0 && cell_degree(cells, "cp") > 1)
        option = read_context_remark(cells);
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
    const struct setting_recompute recompute = setting_read_recompute(cells, setting->model.layers);
    *plan = (struct scenario_plan){
        .tp = cell_tensor(cells),
        .pp = cell_count(cells, "pp"),
        .cp = cell_degree(cells, "cp"),
        .cp_type = (int32_t)read_context(cells),
        .vpp = cell_degree(cells, "vpp"),
        .sequence_parallel = cell_flag(cells, "sp", true),
        .recompute = recompute.parts,
        .offload = read_offload(cells),
    };
    if (!scenario_recompute_fits(plan->recompute, &setting->model))
        cell_skip(cells, "recompute '%s' has a model for swiglu without dropout alone", cell_text(cells, "recompute"));
    plan->early_stop = setting_stops_early(cells, plan->recompute);
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
    plan->recompute_layers = setting_recompute_layers(cells, recompute, setting);
    plan->dp = setting->n_gpus / plan->tp / plan->pp / plan->cp;
    if (plan->dp * plan->tp * plan->pp * plan->cp != setting->n_gpus || (dp > 0 && dp != plan->dp))
        cell_skip(cells, "n_gpus is not tp x pp x cp x dp");
    if (setting->model.heads % plan->tp != 0 || setting->model.kv_heads % plan->tp != 0)
        cell_skip(cells, "tp does not divide heads or kv_groups");
    if (plan->cp_type == SCENARIO_ULYSSES && plan->cp > 1 &&
        (setting->model.heads % (plan->tp * plan->cp) != 0 || setting->model.kv_heads % (plan->tp * plan->cp) != 0))
        cell_skip(cells, "Ulysses: tp x cp does not divide heads or kv_groups");
    if (setting->platform.gpus_per_node % plan->tp != 0)
        cell_skip(cells, "tp is %lld: tensor parallelism that does not divide the %d GPUs of a node has no model",
                  (long long)plan->tp, (int)setting->platform.gpus_per_node);
    read_stages(cells, setting);
    if (plan->dp > 0)
        read_batch(cells, setting);
}

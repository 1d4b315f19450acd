/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "bounds/lower_bound.h"

#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "dag/dag.h"

/* State of a stage in the walk. */
struct stage {
    int32_t next;   /* next step */
    double begin_s; /* start of the last pass */
    double end_s;   /* end of the last pass */
    double out_s;   /* end of the last copy to the host; of the last copy back */
    double in_s;
};

struct walk {
    const struct plan_pipeline *pipeline;
    struct dag_kinds kinds;
    int32_t n_virtual;        /* virtual stages: chunk x stages + stage */
    double *pass_s[N_PASSES]; /* [unit x kinds + kind] */
    double *copy_s;           /* [unit x kinds + kind] in each direction; NULL: nothing is offloaded */
    double *end_s[N_PASSES];  /* [unit x virtual stages + virtual stage], -1: not yet run */
    double *begin_s;          /* [unit x virtual stages + virtual stage] of backwards */
    double *out_s;            /* [unit x virtual stages + virtual stage] ends of copies to the host */
    struct stage *stages;
};

/* Return whether an earlier pipeline runs all of this pipeline's micro-batches with it. */
static bool repeats(const struct plan_phase *phase, int32_t i)
{
    const struct plan_partition *partition = &phase->pipelines[i].partition[PASS_FORWARD];
    int32_t group = partition->n_units > 0 ? partition->units[0].group : -1;
    for (int32_t unit = 1; unit < partition->n_units; unit++)
        group = partition->units[unit].group == group ? group : -1;
    return group >= 0 && phase->groups[group].pipelines[0] < i;
}

/* Return when a backward's activations are back, on stages of one chunk. */
static double copied_s(struct walk *walk, int32_t stage, int32_t unit)
{
    int32_t n_stages = walk->n_virtual, at = unit * n_stages + stage;
    struct stage *of = &walk->stages[stage];
    double copy_s = walk->copy_s[unit * walk->kinds.n + walk->kinds.kind[stage]];
    double ready_s = fmax(fmax(of->in_s, of->begin_s), walk->out_s[at]);
    if (copy_s <= 0)
        return 0;
    if (stage + 1 < n_stages)
        ready_s = fmax(ready_s, walk->begin_s[at + 1]);
    return of->in_s = ready_s + copy_s;
}

static void run_step(struct walk *walk, int32_t stage, const struct plan_step *step, double ready_s)
{
    struct stage *of = &walk->stages[stage];
    int32_t virtual = step->chunk * walk->pipeline->layout.stages + stage;
    int32_t at = step->unit * walk->n_virtual + virtual;
    int32_t cost = step->unit * walk->kinds.n + walk->kinds.kind[virtual];
    if (step->pass == PASS_BACKWARD && walk->copy_s != NULL)
        ready_s = fmax(ready_s, copied_s(walk, stage, step->unit));
    of->begin_s = fmax(of->end_s, ready_s);
    of->end_s = of->begin_s + walk->pass_s[step->pass][cost];
    walk->end_s[step->pass][at] = of->end_s;
    if (step->pass == PASS_BACKWARD)
        walk->begin_s[at] = of->begin_s;
    else if (walk->copy_s != NULL && walk->copy_s[cost] > 0)
        walk->out_s[at] = of->out_s = fmax(of->out_s, of->end_s) + walk->copy_s[cost];
}

/*
 * Run the steps of a stage whose passes on the neighbouring stage are done: the stage before, backward the one behind.
 * @return number of steps
 */
static int32_t advance(struct walk *walk, int32_t stage)
{
    const struct plan_pipeline *pipeline = walk->pipeline;
    int32_t n_virtual = walk->n_virtual, *next = &walk->stages[stage].next, before = *next;
    for (; *next < pipeline->step_first[stage + 1]; ++*next) {
        const struct plan_step *step = &pipeline->steps[*next];
        int32_t virtual = step->chunk * pipeline->layout.stages + stage;
        int32_t from = step->pass == PASS_FORWARD ? virtual - 1 : virtual + 1;
        double ready_s = from >= 0 && from < n_virtual ? walk->end_s[step->pass][step->unit * n_virtual + from] : 0;
        if (ready_s < 0)
            break;
        run_step(walk, stage, step, ready_s);
    }
    return *next - before;
}

/* Return whether each backward micro-batch has the slices of the forward micro-batch of the same number. */
static bool have_same_slices(const struct plan_partition *forward, const struct plan_partition *backward)
{
    bool same = forward->n_units == backward->n_units && forward->n_slices == backward->n_slices;
    for (int32_t i = 0; same && i < forward->n_units; i++)
        same = forward->units[i].n_slices == backward->units[i].n_slices;
    for (int32_t i = 0; same && i < forward->n_slices; i++) {
        struct slice a = forward->slices[i], b = backward->slices[i];
        same = a.sample == b.sample && a.begin == b.begin && a.end == b.end;
    }
    return same;
}

static void open_copies(const struct plan_pipeline *pipeline, const struct cost_setting *setting, struct walk *walk)
{
    const struct plan_partition *partition = &pipeline->partition[PASS_FORWARD];
    int32_t n_kinds = walk->kinds.n;
    if (pipeline->layout.chunks > 1 || pipeline->offload != NULL || !plan_offloads(pipeline) ||
        !have_same_slices(partition, &pipeline->partition[PASS_BACKWARD]))
        return;
    walk->copy_s = check_calloc((size_t)(partition->n_units * n_kinds), sizeof(double));
    for (int32_t i = 0; i < partition->n_units * n_kinds; i++) {
        int32_t unit = i / n_kinds, stage = walk->kinds.stage[i % n_kinds];
        struct cost_setting stage_setting = dag_setting(setting, &pipeline->layout, stage);
        int64_t tokens = plan_unit_tokens(partition, unit) + partition->units[unit].padding_tokens;
        double share = partition->units[unit].streams ? 0 : partition->units[unit].offload;
        double bytes = share > 0 ? share * dag_offloadable_bytes(pipeline, &stage_setting, unit, tokens, 0) : 0;
        walk->copy_s[i] = cost_of_transfer(setting, COST_PCIE, bytes, 1).duration_s;
    }
}

static void open_walk(const struct plan_pipeline *pipeline, const struct cost_setting *setting, struct walk *walk)
{
    int32_t n_stages = pipeline->layout.stages, n_virtual = n_stages * pipeline->layout.chunks;
    *walk =
        (struct walk){.pipeline = pipeline, .kinds = dag_kinds_of(setting, &pipeline->layout), .n_virtual = n_virtual};
    walk->stages = check_calloc((size_t)n_stages, sizeof *walk->stages);
    for (int32_t stage = 0; stage < n_stages; stage++)
        walk->stages[stage].next = pipeline->step_first[stage];
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        int32_t n = pipeline->partition[pass].n_units * walk->kinds.n;
        walk->pass_s[pass] = check_malloc((size_t)n * sizeof(double));
        dag_passes_s(pipeline, setting, &walk->kinds, pass, walk->pass_s[pass]);
        n = pipeline->partition[pass].n_units * n_virtual;
        walk->end_s[pass] = check_malloc((size_t)n * sizeof(double));
        for (int32_t i = 0; i < n; i++)
            walk->end_s[pass][i] = -1;
    }
    walk->begin_s = check_calloc((size_t)(pipeline->partition[PASS_BACKWARD].n_units * n_virtual), sizeof(double));
    walk->out_s = check_calloc((size_t)(pipeline->partition[PASS_FORWARD].n_units * n_virtual), sizeof(double));
    open_copies(pipeline, setting, walk);
}

static void close_walk(struct walk *walk)
{
    for (enum pass pass = PASS_FORWARD; pass < N_PASSES; pass++) {
        free(walk->pass_s[pass]);
        free(walk->end_s[pass]);
    }
    free(walk->kinds.kind);
    free(walk->stages);
    free(walk->copy_s);
    free(walk->begin_s);
    free(walk->out_s);
}

static double pipeline_s(const struct plan_pipeline *pipeline, const struct cost_setting *setting)
{
    struct walk walk;
    int32_t n_stages = pipeline->layout.stages;
    double end_s = 0;
    open_walk(pipeline, setting, &walk);
    for (int32_t left = pipeline->step_first[n_stages], before = 0; left != before;) {
        before = left;
        for (int32_t stage = 0; stage < n_stages; stage++)
            left -= advance(&walk, stage);
        for (int32_t stage = n_stages - 1; stage >= 0; stage--)
            left -= advance(&walk, stage);
    }
    for (int32_t stage = 0; stage < n_stages; stage++)
        end_s = fmax(end_s, walk.stages[stage].end_s);
    close_walk(&walk);
    return end_s;
}

/* Return whether a walk of the steps bounds a pipeline: passes are whole, and each stage computes its own attention. */
static bool can_walk(const struct plan_pipeline *pipeline)
{
    return pipeline->partition[PASS_FORWARD].n_units > 0 && !pipeline->splits_backward && pipeline->n_exchanges == 0;
}

double lower_bound_s(const struct plan *plan, const struct cost_setting *setting)
{
    double sum_s = 0;
    for (int32_t i = 0; i < plan->n_phases; i++) {
        const struct plan_phase *phase = &plan->phases[i];
        double most_s = 0;
        for (int32_t k = 0; k < phase->n_pipelines; k++)
            if (can_walk(&phase->pipelines[k]) && !repeats(phase, k))
                most_s = fmax(most_s, pipeline_s(&phase->pipelines[k], setting));
        sum_s += most_s;
    }
    return sum_s;
}

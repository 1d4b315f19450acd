/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/micro_batches.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"

static double micro_batch_flop(const struct plan_partition *partition, int32_t index, struct flop_curve curve)
{
    const struct plan_micro_batch *micro_batch = &partition->micro_batches[index];
    double flop = 0;
    for (int32_t i = micro_batch->first_slice; i < micro_batch->first_slice + micro_batch->n_slices; i++)
        flop += (double)flop_of_slice(curve, partition->slices[i].begin, partition->slices[i].end);
    return flop / micro_batch->context;
}

/* A mean over pipelines. */
struct mean {
    double sum;
    int32_t n;
};

static double value_of(struct mean mean, double of_none)
{
    return mean.n > 0 ? mean.sum / mean.n : of_none;
}

/* Add a pipeline's p95/p5. A pipeline with fewer than two values does not count. */
static void add_p95_over_p5(struct mean *mean, double *values, int32_t n)
{
    if (n < 2)
        return;
    gsl_sort(values, 1, (size_t)n);
    mean->sum += gsl_stats_quantile_from_sorted_data(values, 1, (size_t)n, 0.95) /
                 gsl_stats_quantile_from_sorted_data(values, 1, (size_t)n, 0.05);
    mean->n++;
}

/* Return the attention by blocks of a place, NULL: none. */
static const struct plan_attention *attention_of(const struct plan_phase *phase, enum pass pass,
                                                 struct plan_place place)
{
    for (int32_t i = 0; i < phase->n_attentions; i++)
        for (int32_t k = 0; phase->attentions[i].pass == pass && k < phase->attentions[i].n_blocks; k++) {
            const struct plan_block *block = &phase->blocks[phase->attentions[i].first_block + k];
            if (plan_same_place(block->from, place) || plan_same_place(block->to, place))
                return &phase->attentions[i];
        }
    return NULL;
}

double micro_batches_pass_s(const struct plan_phase *phase, int32_t pipeline, const struct cost_setting *setting,
                            enum pass pass, int32_t micro_batch)
{
    struct plan_place place = {pipeline, 0, micro_batch};
    const struct plan_attention *attention = attention_of(phase, pass, place);
    struct cost_pass cost = dag_pass_cost(&phase->pipelines[pipeline], setting, pass, micro_batch, 0);
    double computed_s = attention != NULL ? dag_blocks_s(phase, attention, place, setting) : cost.attention_s;
    return cost_pass_s(&cost) - cost.attention_s + computed_s;
}

/* Means of the fields of micro_batches_spread. */
struct means {
    struct mean flop, own_flop, time, imbalance;
};

static void add_pipeline(struct means *means, const struct plan_phase *phase, int32_t pipeline,
                         const struct cost_setting *setting, enum pass pass)
{
    const struct plan_partition *partition = &phase->pipelines[pipeline].partition[pass];
    struct flop_curve curve = flop_model_curve(setting->model, pass);
    double *flop = check_malloc((size_t)partition->n_micro_batches * sizeof *flop);
    double *time_s = check_malloc((size_t)partition->n_micro_batches * sizeof *time_s);
    double *own_flop = check_malloc((size_t)partition->n_micro_batches * sizeof *own_flop);
    int32_t n_flop = 0, n_own = 0;
    for (int32_t i = 0; i < partition->n_micro_batches; i++) {
        if (partition->micro_batches[i].n_slices > 0)
            flop[n_flop++] = micro_batch_flop(partition, i, curve);
        if (partition->micro_batches[i].n_slices > 0 && partition->micro_batches[i].group < 0)
            own_flop[n_own++] = flop[n_flop - 1];
        time_s[i] = micro_batches_pass_s(phase, pipeline, setting, pass, i);
    }
    means->imbalance.sum += gsl_stats_max(time_s, 1, (size_t)partition->n_micro_batches) /
                            gsl_stats_mean(time_s, 1, (size_t)partition->n_micro_batches);
    means->imbalance.n++;
    add_p95_over_p5(&means->flop, flop, n_flop);
    add_p95_over_p5(&means->own_flop, own_flop, n_own);
    add_p95_over_p5(&means->time, time_s, partition->n_micro_batches);
    free(flop);
    free(own_flop);
    free(time_s);
}

struct micro_batches_spread micro_batches_spread_of(const struct plan *plan, const struct cost_setting *setting,
                                                    enum pass pass)
{
    struct means means = {0};
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            if (plan->phases[i].pipelines[j].partition[pass].n_micro_batches >= 2)
                add_pipeline(&means, &plan->phases[i], j, setting, pass);
    return (struct micro_batches_spread){value_of(means.flop, NAN), value_of(means.own_flop, NAN),
                                         value_of(means.time, NAN), value_of(means.imbalance, 1)};
}

/** Return the seconds of passes of every rank. */
static double *busy_s_of(const struct dag *dag)
{
    double *busy_s = check_calloc((size_t)dag->n_ranks, sizeof *busy_s);
    for (int32_t i = 0; i < dag->n_tasks; i++)
        if (dag->tasks[i].kind == DAG_COMPUTE || dag->tasks[i].kind == DAG_ATTENTION)
            busy_s[dag->tasks[i].dag_rank] += dag->duration_s[i];
    for (int32_t i = 0; i < dag->n_ranks; i++)
        busy_s[i] = busy_s[dag->ranks[i].representative];
    return busy_s;
}

/** Return one past the last rank of the phase of rank `first`, or of its pipeline. */
static int32_t end_of(const struct dag *dag, int32_t first, bool of_pipeline)
{
    const struct dag_rank *ranks = dag->ranks;
    int32_t end = first + 1;
    while (end < dag->n_ranks && ranks[end].phase == ranks[first].phase &&
           (!of_pipeline || ranks[end].pipeline == ranks[first].pipeline))
        end++;
    return end;
}

double micro_batches_pipeline_imbalance(const struct dag *dag)
{
    double *busy_s = busy_s_of(dag), most_s = 0, mean_s = 0;
    for (int32_t first = 0; first < dag->n_ranks; first = end_of(dag, first, false)) {
        int32_t end = end_of(dag, first, false);
        double most_of_phase_s = 0, sum_s = 0;
        for (int32_t begin = first; begin < end; begin = end_of(dag, begin, true)) {
            int32_t n = end_of(dag, begin, true) - begin;
            double mean_of_pipeline_s = gsl_stats_mean(busy_s + begin, 1, (size_t)n);
            most_of_phase_s = fmax(most_of_phase_s, mean_of_pipeline_s);
            sum_s += n * mean_of_pipeline_s;
        }
        most_s += most_of_phase_s;
        mean_s += sum_s / (end - first);
    }
    free(busy_s);
    return mean_s > 0 ? most_s / mean_s : 1;
}

int32_t micro_batches_using(const struct plan *plan, enum plan_feature part)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            n += (plan->phases[i].pipelines[j].features & (int32_t)part) != 0;
    return n;
}

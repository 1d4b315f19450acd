/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/units.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <stdlib.h>

#include "base/check.h"
#include "dag/dag.h"

static double unit_flop(const struct plan_cut *cut, int32_t index, struct flop_curve curve)
{
    const struct plan_unit *unit = &cut->units[index];
    double flop = 0;
    for (int32_t i = unit->first_slice; i < unit->first_slice + unit->n_slices; i++)
        flop += (double)flop_of_slice(curve, cut->slices[i].begin, cut->slices[i].end);
    return flop / unit->context;
}

/* Fewer than two values are alike. */
static double p95_over_p5(double *values, int32_t n)
{
    if (n < 2)
        return 1;
    gsl_sort(values, 1, (size_t)n);
    return gsl_stats_quantile_from_sorted_data(values, 1, (size_t)n, 0.95) /
           gsl_stats_quantile_from_sorted_data(values, 1, (size_t)n, 0.05);
}

static struct units_spread pipeline_spread(const struct plan_pipeline *pipeline, const struct cost_setting *setting,
                                           enum pass pass)
{
    const struct plan_cut *cut = &pipeline->cut[pass];
    struct flop_curve curve = flop_layer_curve(setting->model, pass);
    double *flop = check_malloc((size_t)cut->n_units * sizeof *flop);
    double *time_s = check_malloc((size_t)cut->n_units * sizeof *time_s);
    int32_t n_flop = 0;
    for (int32_t i = 0; i < cut->n_units; i++) {
        struct cost_pass cost = dag_pass_cost(pipeline, setting, pass, i, 0);
        if (cut->units[i].n_slices > 0)
            flop[n_flop++] = unit_flop(cut, i, curve);
        time_s[i] = cost_pass_s(&cost);
    }
    struct units_spread spread = {p95_over_p5(flop, n_flop), p95_over_p5(time_s, cut->n_units)};
    free(flop);
    free(time_s);
    return spread;
}

struct units_spread units_spread_of(const struct plan *plan, const struct cost_setting *setting, enum pass pass)
{
    struct units_spread sum = {0, 0};
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++) {
            if (plan->phases[i].pipelines[j].cut[pass].n_units < 2)
                continue;
            struct units_spread one = pipeline_spread(&plan->phases[i].pipelines[j], setting, pass);
            sum.flop += one.flop;
            sum.time += one.time;
            n++;
        }
    return n > 0 ? (struct units_spread){sum.flop / n, sum.time / n} : (struct units_spread){1, 1};
}

int32_t units_using(const struct plan *plan, enum plan_part part)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_phases; i++)
        for (int32_t j = 0; j < plan->phases[i].n_pipelines; j++)
            n += (plan->phases[i].pipelines[j].parts & (int32_t)part) != 0;
    return n;
}

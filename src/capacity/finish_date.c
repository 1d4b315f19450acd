/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "capacity/finish_date.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"

static const double s_per_day = 86400;

/** Draws of one training, and the training that they belong to. */
struct drawing {
    const struct question *question;
    const struct candidate *candidate;
    const struct offer *offer;
    struct goodput_setting setting;
    struct reliability reliability; /* with the candidate's spare nodes */
    double deviation;               /* of the mean throughput over batches, relative */
    const struct model_error *error;
};

/** Return the throughput of all GPUs without the model's error [1/s]. @param batches  their error, in deviations */
static double rate_with(const struct drawing *drawing, double batches)
{
    const struct trace_candidate *row = &drawing->candidate->row;
    double rate = row->tokens_per_s_per_gpu * (double)offer_gpus(drawing->offer, row->nodes);
    return rate * fmax(0.01, 1 + drawing->deviation * batches);
}

/** Return the days at a throughput, with the closed form's goodput. */
static double days_at(const struct drawing *drawing, double rate)
{
    return drawing->question->tokens / (rate * drawing->candidate->row.goodput) / s_per_day;
}

/** Return whether a training that takes these days misses a limit. Money and energy grow with the days. */
static bool misses(const struct drawing *drawing, double days)
{
    struct candidate drawn = *drawing->candidate;
    double ratio = days / drawn.row.days;
    drawn.row.days = days;
    drawn.row.usd *= ratio;
    drawn.row.mwh *= ratio;
    return !candidate_meets(drawing->question, &drawn);
}

/** Simulate a training at a throughput. Without `reliability:` nothing fails. */
static struct training_run run_at(const struct drawing *drawing, double rate, int32_t index)
{
    double work_s = drawing->question->tokens / rate;
    if (!drawing->offer->scenario.reliability.present)
        return (struct training_run){.finish_s = work_s};
    return training_run(&drawing->setting, work_s, drawing->offer->scenario.seed, index);
}

/** Sort days and return their percentiles. A training that never ends counts as the slowest. */
static struct date_interval interval_of(double *days, int32_t n)
{
    gsl_sort(days, 1, (size_t)n);
    return (struct date_interval){gsl_stats_quantile_from_sorted_data(days, 1, (size_t)n, 0.05),
                                  gsl_stats_quantile_from_sorted_data(days, 1, (size_t)n, 0.5),
                                  gsl_stats_quantile_from_sorted_data(days, 1, (size_t)n, 0.95)};
}

static struct trace_date row_of(const struct drawing *drawing, double rate, const struct training_run *run)
{
    struct trace_date row = {
        .days = isinf(run->finish_s) ? NAN : run->finish_s / s_per_day,
        .tokens_per_s_per_gpu = rate / (double)offer_gpus(drawing->offer, drawing->candidate->row.nodes),
        .without_spares_days = run->without_spares_s / s_per_day,
    };
    for (int i = 0; i < FAILURE_N_CAUSES; i++)
        row.failures += run->failures[i];
    return row;
}

static void draw(const struct drawing *drawing, struct finish_date *date)
{
    size_t n = (size_t)date->n;
    double *all = check_calloc(n * (1 + DATE_N_PARTS), sizeof *all);
    struct rng *rng = rng_create(drawing->offer->scenario.seed, 0, RNG_DATES);
    int32_t missed = 0;
    for (int32_t i = 0; i < date->n; i++) {
        double batches = gsl_cdf_ugaussian_Pinv(rng_uniform(rng)), model = gsl_cdf_ugaussian_Pinv(rng_uniform(rng));
        double rate = model_error_measured(drawing->error, rate_with(drawing, batches), model);
        struct training_run run = run_at(drawing, rate, i);
        date->draws[i] = row_of(drawing, rate, &run);
        training_run_add_to_mean(&date->mean, &run, date->n);
        all[i] = run.finish_s / s_per_day;
        missed += misses(drawing, all[i]);
        double *part = all + n;
        part[DATE_BATCHES * n + (size_t)i] = days_at(drawing, rate_with(drawing, batches));
        part[DATE_FAILURES * n + (size_t)i] = run_at(drawing, rate_with(drawing, 0), i).finish_s / s_per_day;
        part[DATE_MODEL * n + (size_t)i] =
            days_at(drawing, model_error_measured(drawing->error, rate_with(drawing, 0), model));
    }
    date->all = interval_of(all, date->n);
    for (int i = 0; i < DATE_N_PARTS; i++)
        date->part[i] = interval_of(all + (size_t)(1 + i) * n, date->n);
    date->missed = (double)missed / date->n;
    rng_free(rng);
    free(all);
}

bool finish_date_may_draw(const struct scenario *scenario)
{
    return scenario->measured >= FINISH_DATE_LEAST_ITERATIONS || strcmp(scenario->data.lengths, "fixed") == 0;
}

/** Return the deviation of a candidate's mean throughput over batches, relative. */
static double batch_deviation(const struct trace_candidate *row)
{
    double interval = row->tokens_per_s_per_gpu_interval;
    return isnan(interval) ? 0 : interval / gsl_cdf_ugaussian_Pinv(0.975) / row->tokens_per_s_per_gpu;
}

double finish_date_margin(const struct question *question, const struct candidate *candidate)
{
    const struct scenario *scenario = &question->offers[candidate->row.offer].scenario;
    struct model_error error;
    struct error err = {0};
    if (!finish_date_may_draw(scenario) ||
        !model_error_read(scenario_data_dir(), scenario, candidate->row.cp, candidate->row.sharding, &error, &err))
        return NAN;
    return 1 + error.bias +
           gsl_cdf_ugaussian_Pinv(question->confidence) * hypot(error.deviation, batch_deviation(&candidate->row));
}

bool finish_date_draw(const struct question *question, const struct candidate *candidate, struct finish_date *date,
                      struct error *err)
{
    const struct offer *offer = &question->offers[candidate->row.offer];
    const struct date_interval unknown = {NAN, NAN, NAN};
    *date = (struct finish_date){.all = unknown, .part = {unknown, unknown, unknown}, .missed = NAN};
    if (!model_error_read(scenario_data_dir(), &offer->scenario, candidate->row.cp, candidate->row.sharding,
                          &date->model_error, err))
        return false;
    if (!finish_date_may_draw(&offer->scenario))
        return true;
    date->n = TRAINING_RUNS_DEFAULT;
    struct drawing drawing = {
        .question = question,
        .candidate = candidate,
        .offer = offer,
        .setting = offer_setting(offer, candidate->row.nodes),
        .reliability = offer->scenario.reliability,
        .deviation = batch_deviation(&candidate->row),
        .error = &date->model_error,
    };
    drawing.setting.reliability = &drawing.reliability;
    drawing.reliability.spares = (double)candidate->row.spare_nodes;
    date->draws = check_calloc((size_t)date->n, sizeof *date->draws);
    draw(&drawing, date);
    return true;
}

void finish_date_copy(const struct finish_date *from, struct finish_date *date)
{
    *date = *from;
    date->draws = check_calloc((size_t)date->n, sizeof *date->draws);
    memcpy(date->draws, from->draws, (size_t)date->n * sizeof *date->draws);
}

void finish_date_free(struct finish_date *date)
{
    free(date->draws);
    *date = (struct finish_date){0};
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests compare drawn dates with closed forms and with each other. */
#include "capacity/finish_date.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "hand_model.h"
#include "hand_reliability.h"
#include "harness.h"
#include "scenario_fixture.h"

/** Days without failures: 10^12 tokens at 32 x 10^4 tokens/s. */
static const double days_0 = 3.125e6 / 86400;

/** A question with one offer, and a candidate of 4 nodes. */
struct training {
    struct question question;
    struct offer offer;
    struct candidate candidate;
};

/** Make a training without failures. Measured runs like it are off by this bias and deviation. */
static void make(struct training *training, double bias, double deviation)
{
    char errors[1280];
    fixture_data("finish_date");
    snprintf(errors, sizeof errors,
             "source: a test\nrows: 20\nsources: 2\nbetween: 0.1\nwithin: 0.1\nbias: %.17g\ndeviation: %.17g\n"
             "varying: {rows: 20, sources: 2, between: 0.1, within: 0.1, bias: %.17g, deviation: %.17g}\n"
             "fp8: {rows: 20, sources: 2, between: 0.1, within: 0.1, bias: 0, deviation: 0.1}\n"
             "experts: {rows: 20, sources: 2, between: 0.1, within: 0.1, bias: 0, deviation: 0.1}\n"
             "blackwell: {rows: 20, sources: 2, between: 0.1, within: 0.1, bias: 0, deviation: 0.1}\n"
             "experts_blackwell: {rows: 20, sources: 2, between: 0.1, within: 0.1, bias: 0, deviation: 0.1}\n"
             "experts_fp8: {rows: 20, sources: 2, between: 0.1, within: 0.1, bias: 0, deviation: 0.1}\n",
             bias, deviation, bias, deviation);
    fixture_write("finish_date/model/model_error.yaml", errors);
    fixture_write(
        "finish_date/model/validated_range.yaml",
        "source: a test\ndevices: h800\nframeworks: nemo\nsystems: best-fit\nvarying_lengths: zero1\n"
        "gpus: 32\ntp: 8\npp: 4\nvpp: 2\ncp: 2\ncontext: 4096\n"
        "fp8: {precisions: fp8-tensor, devices: h800, frameworks: nemo, systems: best-fit, gpus: 32, tp: 8, pp: 4, "
        "vpp: 2, cp: 2, context: 4096}\n"
        "experts: {devices: h800, frameworks: nemo, systems: best-fit, gpus: 32, tp: 8, pp: 4, vpp: 2, cp: 2, "
        "context: 4096, experts: 8, top_k: 2, ep: 8}\n"
        "blackwell: {precisions: bf16, devices: gb200, frameworks: nemo, systems: best-fit, gpus: 32, tp: 8, pp: 4, "
        "vpp: 2, cp: 2, context: 4096}\n"
        "experts_blackwell: {precisions: bf16, devices: gb200, frameworks: nemo, systems: best-fit, gpus: 32, tp: 8, "
        "pp: 4, vpp: 2, cp: 2, context: 4096, experts: 8, top_k: 2, ep: 8}\n"
        "experts_fp8: {precisions: fp8-tensor, devices: h800, frameworks: nemo, systems: best-fit, gpus: 32, tp: 8, "
        "pp: 4, vpp: 2, cp: 2, context: 4096, experts: 8, top_k: 2, ep: 8}\n");
    *training = (struct training){.question = {.tokens = 1e12, .n_offers = 1, .offers = &training->offer},
                                  .candidate = {.row = {.nodes = 4,
                                                        .fits = 1,
                                                        .tokens_per_s_per_gpu = 1e4,
                                                        .tokens_per_s_per_gpu_interval = NAN,
                                                        .goodput = 1}}};
    for (enum capacity_limit i = 0; i < CAPACITY_N_LIMITS; i++)
        training->question.limit[i] = NAN;
    training->question.confidence = 0.9;
    training->candidate.row.days = days_0;
    struct scenario *scenario = &training->offer.scenario;
    strcpy(scenario->data.lengths, "github");
    scenario->measured = 8;
    scenario->seed = 1;
    strcpy(scenario->device.name, "h800");
    strcpy(scenario->framework_name, "nemo");
    scenario->model = hand_llama_13b;
    scenario->platform.gpus_per_node = scenario->platform.nvlink_domain = 8;
    scenario->platform.pcie_bytes_per_s = 64e9;
}

/** Let nodes fail, and have the closed form's goodput. */
static void let_fail(struct training *training, double failures)
{
    struct reliability *reliability = &training->offer.scenario.reliability;
    *reliability = hand_reliability(failures, 1200, 30, 3600);
    struct goodput_setting setting = hand_training(reliability, 4);
    training->candidate.row.goodput = goodput_of(&setting).ettr;
}

static struct finish_date date_of(const struct training *training)
{
    struct finish_date date;
    struct error err = {0};
    CHECK_TRUE(finish_date_draw(&training->question, &training->candidate, &date, &err));
    CHECK_TEXT(err.text, "");
    finish_date_free(&(struct finish_date){.draws = date.draws});
    date.draws = NULL;
    return date;
}

static void check_interval(const struct date_interval *interval, double p5, double p50, double p95, double tolerance)
{
    CHECK_CLOSE(interval->p5, p5, tolerance);
    CHECK_CLOSE(interval->p50, p50, tolerance);
    CHECK_CLOSE(interval->p95, p95, tolerance);
}

static double width(const struct date_interval *interval)
{
    return interval->p95 - interval->p5;
}

/* Nothing is drawn that differs, so the date is one number, and each part alone gives it, too. */
TEST(finish_date__is_one_number_if_nothing_is_unsure)
{
    struct training training;
    make(&training, 0, 0);
    training.question.limit[LIMIT_DAYS] = days_0 * (1 - 1e-9);
    struct finish_date date = date_of(&training);
    check_interval(&date.all, days_0, days_0, days_0, 1e-14);
    for (int i = 0; i < DATE_N_PARTS; i++)
        check_interval(&date.part[i], days_0, days_0, days_0, 1e-14);
    CHECK_TRUE(date.missed == 1 && date.mean.without_spares_s == 0);
    training.question.limit[LIMIT_DAYS] = days_0 * (1 + 1e-9);
    CHECK_TRUE(date_of(&training).missed == 0);
}

/* measured = predicted / (1 + error), so days = days_0 (1 + error), and the error is normal. A 5th percentile of 1000
 * draws has a standard error of 0.067 deviations, or 0.3% here. */
TEST(finish_date__has_the_model_error_of_the_formula)
{
    struct training training;
    make(&training, -0.02, 0.05);
    double spread = 0.05 * gsl_cdf_ugaussian_Pinv(0.95);
    training.question.limit[LIMIT_DAYS] = days_0 * 0.98;
    struct finish_date date = date_of(&training);
    check_interval(&date.all, days_0 * (0.98 - spread), days_0 * 0.98, days_0 * (0.98 + spread), 0.01);
    check_interval(&date.part[DATE_MODEL], date.all.p5, date.all.p50, date.all.p95, 1e-14);
    check_interval(&date.part[DATE_BATCHES], days_0, days_0, days_0, 1e-14);
    check_interval(&date.part[DATE_FAILURES], days_0, days_0, days_0, 1e-14);
    CHECK_CLOSE(date.missed, 0.5, 0.09);
}

/* Context parallelism beyond the measured runs adds the deviation between sources: 0.24^2 + 0.1^2 = 0.26^2. */
TEST(finish_date__is_less_sure_outside_the_measured_runs)
{
    struct training training;
    make(&training, 0, 0.24);
    training.candidate.row.cp = 2;
    CHECK_CLOSE(date_of(&training).model_error.deviation, 0.24, 1e-14);
    training.candidate.row.cp = 4;
    struct finish_date date = date_of(&training);
    CHECK_CLOSE(date.model_error.deviation, 0.26, 1e-14);
    CHECK_CLOSE(date.all.p95, days_0 * (1 + 0.26 * gsl_cdf_ugaussian_Pinv(0.95)), 0.05);
}

/* A 95% interval of +-4.9% has a standard deviation of 2.5%. */
TEST(finish_date__takes_batches_from_the_interval)
{
    struct training training;
    make(&training, 0, 0);
    training.candidate.row.tokens_per_s_per_gpu_interval = 1e4 * 0.025 * gsl_cdf_ugaussian_Pinv(0.975);
    double spread = 0.025 * gsl_cdf_ugaussian_Pinv(0.95);
    struct finish_date date = date_of(&training);
    check_interval(&date.all, days_0 / (1 + spread), days_0, days_0 / (1 - spread), 0.005);
}

TEST(finish_date__joins_all_parts)
{
    struct training training;
    make(&training, 0, 0.03);
    training.candidate.row.tokens_per_s_per_gpu_interval = 800;
    let_fail(&training, 1000);
    struct finish_date date = date_of(&training);
    double squares = 0;
    for (int i = 0; i < DATE_N_PARTS; i++) {
        CHECK_TRUE(width(&date.part[i]) > 0 && width(&date.part[i]) < width(&date.all));
        squares += width(&date.part[i]) * width(&date.part[i]);
    }
    CHECK_CLOSE(width(&date.all), sqrt(squares), 0.09);
    CHECK_CLOSE(date.part[DATE_FAILURES].p50, days_0 / training.candidate.row.goodput, 0.01);
    CHECK_TRUE(date.mean.failures[FAILURE_OTHER] > 0);
}

/* Failures have common random numbers, so twice as many move every percentile to a later date. */
TEST(finish_date__is_later_with_more_failures)
{
    struct training training;
    make(&training, 0, 0.03);
    struct finish_date last = date_of(&training);
    for (double failures = 50; failures < 1000; failures *= 2) {
        let_fail(&training, failures);
        struct finish_date date = date_of(&training);
        CHECK_TRUE(date.all.p5 > last.all.p5 && date.all.p50 > last.all.p50 && date.all.p95 > last.all.p95);
        CHECK_TRUE(date.part[DATE_FAILURES].p95 > last.part[DATE_FAILURES].p95);
        last = date;
    }
}

TEST(finish_date__is_stable_over_seeds)
{
    struct training training;
    struct date_interval least = {INFINITY, INFINITY, INFINITY}, most = {0, 0, 0};
    make(&training, 0, 0.05);
    let_fail(&training, 100);
    for (int64_t seed = 0; seed < 10; seed++) {
        training.offer.scenario.seed = seed;
        struct finish_date date = date_of(&training);
        least.p5 = fmin(least.p5, date.all.p5);
        most.p5 = fmax(most.p5, date.all.p5);
        least.p95 = fmin(least.p95, date.all.p95);
        most.p95 = fmax(most.p95, date.all.p95);
    }
    CHECK_TRUE(least.p5 < most.p5);
    CHECK_CLOSE(least.p5, most.p5, 0.02);
    CHECK_CLOSE(least.p95, most.p95, 0.02);
}

/* A cluster that fails every minute makes no progress. Its draws have no date, and all of them are late. */
TEST(finish_date__never_comes_if_failures_come_too_fast)
{
    struct training training;
    struct finish_date date;
    struct error err = {0};
    make(&training, 0, 0.05);
    let_fail(&training, 1000.0 * 1440 / 4);
    training.question.limit[LIMIT_DAYS] = 1000;
    CHECK_TRUE(finish_date_draw(&training.question, &training.candidate, &date, &err));
    CHECK_TRUE(date.missed == 1 && isinf(date.all.p50) && isnan(date.draws[0].days));
    finish_date_free(&date);
}

/* Money grows with the days. Half of the trainings take longer than the median, and cost more than its money. */
TEST(finish_date__misses_a_limit_of_money_or_energy_by_its_time)
{
    struct training training;
    make(&training, 0, 0.05);
    training.candidate.row.usd = 1000;
    training.candidate.row.mwh = 10;
    CHECK_TRUE(date_of(&training).missed == 0);
    for (enum capacity_limit limit = LIMIT_USD; limit <= LIMIT_MWH; limit++) {
        training.question.limit[LIMIT_USD] = limit == LIMIT_USD ? 1000 : NAN;
        training.question.limit[LIMIT_MWH] = limit == LIMIT_MWH ? 10 : NAN;
        CHECK_CLOSE(date_of(&training).missed, 0.5, 0.09);
    }
}

/* Seven iterations do not say how much batches differ. Fixed lengths make all batches alike. */
TEST(finish_date__needs_eight_iterations)
{
    struct training training;
    make(&training, 0, 0.05);
    training.offer.scenario.measured = 7;
    struct finish_date date = date_of(&training);
    CHECK_TRUE(date.n == 0 && isnan(date.all.p5) && isnan(date.part[DATE_MODEL].p95) && isnan(date.missed));
    CHECK_TRUE(isnan(finish_date_margin(&training.question, &training.candidate)));
    CHECK_CLOSE(date.model_error.deviation, 0.05, 1e-14);
    strcpy(training.offer.scenario.data.lengths, "fixed");
    CHECK_EQUAL(date_of(&training).n, 1000);
}

/* 1 + 0.02 + 1.2815516 x 0.05, and with batches of a deviation of 0.12: 0.13 = sqrt(0.05^2 + 0.12^2). */
TEST(finish_date_margin__is_the_quantile_of_a_normal_law)
{
    struct training training;
    make(&training, 0.02, 0.05);
    CHECK_CLOSE(finish_date_margin(&training.question, &training.candidate), 1.02 + 1.2815516 * 0.05, 1e-7);
    training.candidate.row.tokens_per_s_per_gpu_interval = 1e4 * 0.12 * 1.959963985;
    CHECK_CLOSE(finish_date_margin(&training.question, &training.candidate), 1.02 + 1.2815516 * 0.13, 1e-7);
    training.question.confidence = 0.5;
    CHECK_CLOSE(finish_date_margin(&training.question, &training.candidate), 1.02, 1e-14);
}

TEST(finish_date__needs_a_model_error)
{
    struct training training;
    struct finish_date date;
    struct error err = {0};
    make(&training, 0, 0);
    fixture_write("finish_date/model/model_error.yaml", "source: a test\nrows: 20\n");
    CHECK_TRUE(!finish_date_draw(&training.question, &training.candidate, &date, &err));
    CHECK_CONTAINS(err.text, "model_error.yaml");
    finish_date_free(&date);
}

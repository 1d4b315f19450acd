/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "simulate/model_error.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "document/schema.h"

/** Errors of dense runs in bf16 with lengths all alike, of those with varying lengths, of runs in fp8, with experts,
 * with experts in fp8, and on Blackwell without and with experts. */
struct errors {
    struct model_error fixed, varying, fp8, experts, experts_fp8, blackwell, experts_blackwell;
};

/* Keys of one struct model_error. */
#define ERRORS(prefix, of, runs)                                                                                       \
    {prefix "rows",                                                                                                    \
     SCHEMA_INT,                                                                                                       \
     "runs",                                                                                                           \
     2,                                                                                                                \
     INT32_MAX,                                                                                                        \
     NULL,                                                                                                             \
     NULL,                                                                                                             \
     "number of runs" runs,                                                                                            \
     offsetof(struct errors, of.rows)},                                                                                \
        {prefix "sources",                                                                                             \
         SCHEMA_INT,                                                                                                   \
         "-",                                                                                                          \
         2,                                                                                                            \
         INT32_MAX,                                                                                                    \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "number of their sources",                                                                                    \
         offsetof(struct errors, of.sources)},                                                                         \
        {prefix "bias",                                                                                                \
         SCHEMA_REAL,                                                                                                  \
         "-",                                                                                                          \
         -1,                                                                                                           \
         10,                                                                                                           \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "mean of predicted / measured - 1, each source once",                                                         \
         offsetof(struct errors, of.bias)},                                                                            \
        {prefix "between",                                                                                             \
         SCHEMA_REAL,                                                                                                  \
         "-",                                                                                                          \
         0,                                                                                                            \
         10,                                                                                                           \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "standard deviation between these sources",                                                                   \
         offsetof(struct errors, of.between)},                                                                         \
        {prefix "within",                                                                                              \
         SCHEMA_REAL,                                                                                                  \
         "-",                                                                                                          \
         0,                                                                                                            \
         10,                                                                                                           \
         NULL,                                                                                                         \
         NULL,                                                                                                         \
         "standard deviation within one of them",                                                                      \
         offsetof(struct errors, of.within)},                                                                          \
    {                                                                                                                  \
        prefix "deviation", SCHEMA_REAL, "-", 0, 10, NULL, NULL,                                                       \
            "standard deviation in a source" runs " that nobody has seen", offsetof(struct errors, of.deviation)       \
    }

static const struct schema_key keys[] = {
    ERRORS("", fixed, ""),
    ERRORS("varying.", varying, " with varying lengths"),
    ERRORS("fp8.", fp8, " with GEMMs in fp8"),
    ERRORS("experts.", experts, " with experts"),
    ERRORS("experts_fp8.", experts_fp8, " with experts in fp8"),
    ERRORS("blackwell.", blackwell, " on Blackwell"),
    ERRORS("experts_blackwell.", experts_blackwell, " with experts on Blackwell"),
};
static const char *const others[] = {
    "source", "held",       "held_fp8",       "held_experts",       "held_blackwell",   "held_experts_blackwell",
    "errors", "errors_fp8", "errors_experts", "errors_experts_fp8", "errors_blackwell", "errors_experts_blackwell",
    NULL};

/** Widen the deviation, and say what it rests on. Few sources may differ less than those of dense runs by chance. */
static void widen(const struct validated_range *range, const struct scenario *scenario, int64_t cp, int32_t sharding,
                  double dense_between, struct model_error *error)
{
    double between = fmax(error->between, dense_between);
    error->n_wider = validated_range_respects(range, scenario, cp, sharding, error->wider);
    error->deviation = sqrt(error->deviation * error->deviation + error->n_wider * between * between);
    int used = snprintf(error->basis, sizeof error->basis, "%d measured runs of %d sources%s%s%s%s", (int)error->rows,
                        (int)error->sources, error->varying ? " with varying lengths" : "", error->fp8 ? " in fp8" : "",
                        error->experts ? " with experts" : "", error->blackwell ? " on Blackwell" : "");
    for (int32_t i = 0; i < error->n_wider; i++)
        used += snprintf(error->basis + used, sizeof error->basis - (size_t)used, "%s%s",
                         i == 0 ? ", wider for " : ", ", error->wider[i]);
}

bool model_error_read(const char *data_dir, const struct scenario *scenario, int64_t cp, int32_t sharding,
                      struct model_error *error, struct error *err)
{
    char path[1024];
    struct validated_range range;
    struct errors errors = {0};
    snprintf(path, sizeof path, "%s/model/model_error.yaml", data_dir);
    *error = (struct model_error){0};
    if (!schema_read_file(path, keys, sizeof keys / sizeof *keys, others, &errors, err) ||
        !validated_range_read(data_dir, &range, err))
        return false;
    errors.varying.varying = validated_range_varies(&range, scenario, sharding);
    bool experts = model_has_experts(&scenario->model), fp8 = scenario->precision != PRECISION_BF16;
    errors.experts.experts = errors.experts_fp8.experts = errors.experts_blackwell.experts = experts;
    errors.blackwell.blackwell = errors.experts_blackwell.blackwell = true;
    errors.fp8.fp8 = errors.experts_fp8.fp8 = fp8;
    bool blackwell = device_is_blackwell(&scenario->device);
    *error = experts && blackwell     ? errors.experts_blackwell
             : experts                ? (fp8 ? errors.experts_fp8 : errors.experts)
             : errors.varying.varying ? errors.varying
             : blackwell              ? errors.blackwell
             : fp8                    ? errors.fp8
                                      : errors.fixed;
    double between = errors.fixed.between; /* sources of such runs differ by at least this */
    widen(&range, scenario, cp, sharding, experts ? fmax(between, errors.experts.between) : between, error);
    return true;
}

double model_error_measured(const struct model_error *error, double predicted, double deviations)
{
    return predicted / fmax(0.01, 1 + error->bias + error->deviation * deviations);
}

struct model_interval model_error_interval(const struct model_error *error, double predicted)
{
    double p95 = gsl_cdf_ugaussian_Pinv(0.95);
    return (struct model_interval){model_error_measured(error, predicted, p95),
                                   model_error_measured(error, predicted, -p95)};
}

void model_interval_write(FILE *file, const struct model_interval *interval)
{
    char p5[TEXT_NUMBER_SIZE], p95[TEXT_NUMBER_SIZE];
    int decimals = interval->p95 < 100;
    text_number(interval->p5, decimals, p5);
    text_number(interval->p95, decimals, p95);
    fprintf(file, "%s to %s", p5, p95);
}

void model_error_write(FILE *file, const struct model_error *error, double predicted, double half)
{
    struct model_interval interval = model_error_interval(error, predicted);
    char number[TEXT_NUMBER_SIZE];
    text_number(predicted, predicted < 100, number);
    fprintf(file, "%s tokens/s/GPU, ", number);
    text_number(half, predicted < 100, number);
    if (half > 1e-9 * predicted) /* not NaN */
        fprintf(file, "batches ± %s, ", number);
    fputs("model ", file);
    model_interval_write(file, &interval);
    fprintf(file, " (%+.0f%% to %+.0f%%, p5 to p95 of %s)", 100 * (interval.p5 / predicted - 1),
            100 * (interval.p95 / predicted - 1), error->basis);
}

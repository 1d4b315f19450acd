/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests solve robust least squares with exact, wrong and unsupported rows. */
#include "validate/fit.h"

#include "harness.h"

enum { N_ROWS = 40 };

/** Rows of y = a + b x. */
struct line {
    double x[N_ROWS];
};

static void predict(void *context, const double *values, double *predicted)
{
    const struct line *line = context;
    for (int32_t i = 0; i < N_ROWS; i++)
        predicted[i] = values[0] + values[1] * line->x[i];
}

static const struct fit_parameter unknowns[] = {{1, 100}, {1, 100}};

static struct fit_problem problem_of(struct line *line, const double *measured)
{
    return (struct fit_problem){2, N_ROWS, unknowns, measured, predict, line};
}

/* Without noise the unknowns come back, even if one is at its limit 0. All errors are then 0. */
TEST(fit_robust__gives_back_the_unknowns_of_exact_rows)
{
    const double truth[][2] = {{3, 0.5}, {20, 7}, {0, 2}, {99, 0.001}};
    for (int c = 0; c < 4; c++) {
        struct line line;
        double measured[N_ROWS], values[2];
        for (int32_t i = 0; i < N_ROWS; i++) {
            line.x[i] = 1 + i * i;
            measured[i] = truth[c][0] + truth[c][1] * line.x[i];
        }
        struct fit_problem problem = problem_of(&line, measured);
        fit_robust(&problem, values);
        if (truth[c][0] > 0)
            CHECK_CLOSE(values[0], truth[c][0], 1e-6);
        else
            CHECK_TRUE(values[0] < 1e-6);
        CHECK_CLOSE(values[1], truth[c][1], 1e-6);
        CHECK_TRUE(fit_quality_of(&problem, values).max < 1e-6);
    }
}

/* A fifth of the rows are twice too long. Plain least squares would move by tens of percent, Cauchy's weights move by
 * less than 1%. The errors are then those of the wrong rows, 1 - 1/2, and the median is that of the right rows. */
TEST(fit_robust__does_not_let_wrong_rows_bend_the_curve)
{
    struct line line;
    double measured[N_ROWS], values[2];
    for (int32_t i = 0; i < N_ROWS; i++) {
        line.x[i] = 1 + i;
        measured[i] = (10 + 2 * line.x[i]) * (i % 5 == 0 ? 2 : 1);
    }
    struct fit_problem problem = problem_of(&line, measured);
    fit_robust(&problem, values);
    struct fit_quality quality = fit_quality_of(&problem, values);
    CHECK_CLOSE(values[0], 10, 0.01);
    CHECK_CLOSE(values[1], 2, 0.01);
    CHECK_CLOSE(quality.max, 0.5, 0.01);
    CHECK_TRUE(quality.median < 0.005 && quality.worst % 5 == 0 && quality.bias < 0);
}

/* An unknown without support stays within its limits: a slope above 100 is found at 100. */
TEST(fit_robust__keeps_unknowns_within_their_limits)
{
    struct line line;
    double measured[N_ROWS], values[2];
    for (int32_t i = 0; i < N_ROWS; i++) {
        line.x[i] = 1 + i;
        measured[i] = 120 * line.x[i];
    }
    struct fit_problem problem = problem_of(&line, measured);
    fit_robust(&problem, values);
    CHECK_TRUE(0 <= values[0] && values[0] <= 100);
    CHECK_TRUE(90 < values[1] && values[1] <= 100);
}

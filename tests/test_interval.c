/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check confidence intervals of rates and speed-ups. */
#include "simulate/interval.h"

#include <math.h>

#include "harness.h"

/* Student's t of a 95% interval has a closed form. It is tan(0.475 pi) with one degree of freedom. It is 0.95 sqrt(2 /
 * 0.0975) with two (4 x 0.975 x 0.025 = 0.0975). */
static const double t_of_one = 12.706204736174707, t_of_two = 4.302652729749464;

static const struct point_iteration base[2] = {{.row = {.tokens = 800, .model_flop = 4e3, .time_s = 4}},
                                               {.row = {.tokens = 1600, .model_flop = 8e3, .time_s = 8}}};
static const struct point_iteration fast[2] = {{.row = {.tokens = 800, .model_flop = 4e3, .time_s = 2}},
                                               {.row = {.tokens = 1600, .model_flop = 8e3, .time_s = 5}}};

/* 2400 tokens take 7 s. The residuals 800 - 2400/7 x 2 = 800/7 and 1600 - 2400/7 x 5 = -800/7 are over the mean of 3.5
 * s +-1600/49. Their deviation is sqrt 2 times that, over the root of two iterations: 1600/49. */
TEST(interval_rate__narrows_with_small_residuals)
{
    CHECK_CLOSE(interval_of_tokens(fast, 2), t_of_one * 1600 / 49, 1e-12);
    CHECK_CLOSE(interval_of_tokens(base, 2) + 1, 1, 1e-12); /* 200 tokens/s in both */
}

/* One takes 12 s, the other 7 s. FLOPs are two thirds and four thirds of their mean, and base's times, too. The times
 * of `fast` are 4/7 and 10/7. They are off by 2/21 and -2/21, times 12/7. */
TEST(interval_speed_up__is_computed_from_pairs)
{
    CHECK_CLOSE(interval_of_speed_up(base, fast, 2), t_of_one * 12 / 7 * 2 / 21, 1e-12);
    CHECK_TRUE(interval_of_speed_up(fast, fast, 2) == 0);
}

/* In all it is twice as fast. Base's times are 1, 0.75 and 1.25 of their mean and its FLOPs likewise, so its rate is
 * the same in all. The other's times are equal. They are off by 0, -0.25 and 0.25, whose deviation is 0.25. */
TEST(interval__has_two_degrees_of_freedom_for_three_iterations)
{
    struct point_iteration first[3] = {{.row = {.model_flop = 8, .time_s = 4}},
                                       {.row = {.model_flop = 6, .time_s = 3}},
                                       {.row = {.model_flop = 10, .time_s = 5}}};
    struct point_iteration other[3] = {{.row = {.model_flop = 8, .time_s = 2}},
                                       {.row = {.model_flop = 6, .time_s = 2}},
                                       {.row = {.model_flop = 10, .time_s = 2}}};
    CHECK_CLOSE(interval_of_speed_up(first, other, 3), t_of_two * 2 * 0.25 / sqrt(3), 1e-12);
}

TEST(interval__is_zero_for_equal_batches_and_absent_for_one)
{
    struct point_iteration same[3], other[3];
    for (int i = 0; i < 3; i++) {
        same[i] = (struct point_iteration){.row = {.tokens = 1001, .model_flop = 1e15 / 3, .time_s = 0.1}};
        other[i] = (struct point_iteration){.row = {.tokens = 1001, .model_flop = 1e15 / 3, .time_s = 0.7}};
    }
    CHECK_TRUE(interval_of_tokens(same, 3) == 0);
    CHECK_TRUE(interval_of_speed_up(same, other, 3) == 0);
    CHECK_TRUE(isnan(interval_of_tokens(same, 1)));
    CHECK_TRUE(isnan(interval_of_speed_up(same, other, 1)));
}

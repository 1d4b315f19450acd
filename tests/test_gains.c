/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests compare the gains of pairs with gains by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "validate/gains.h"
#include "validate/statistics.h"

static struct validate_row row_of(const char *id, const char *pair, double measured, double predicted)
{
    struct validate_row row = {.measured = measured, .predicted = predicted, .varies = true};
    snprintf(row.id, sizeof row.id, "%s", id);
    snprintf(row.pair, sizeof row.pair, "%s", pair);
    return row;
}

/*
 * - b over a: +50% measured, +40% predicted. c over a: +4% and +6%, so null and not predicted null.
 * - d over b: -20% measured, +10% predicted, so the wrong one is ahead. e over d: 0% and +5%, null.
 * - f was not simulated, and g has a partner that is not there.
 * - Off by 10, 2, 30 and 5 points: the median is 7.5.
 */
TEST(gains__are_those_by_hand)
{
    struct validate_row rows[] = {row_of("a", "", 100, 100),  row_of("b", "a", 150, 140),   row_of("c", "a", 104, 106),
                                  row_of("d", "b", 120, 154), row_of("e", "d", 120, 161.7), row_of("f", "a", 1, 9),
                                  row_of("g", "h", 1, 9)};
    snprintf(rows[5].reason, sizeof rows[5].reason, "skipped");
    rows[2].ratio_only = true;
    const struct validate validate = {.n_rows = 7, .rows = rows};
    int32_t n;
    struct validate_pair *pairs = validate_pairs_of(&validate, &n);
    CHECK_EQUAL(n, 4);
    CHECK_CLOSE(pairs[0].measured, 0.5, 1e-12);
    CHECK_CLOSE(pairs[0].predicted, 0.4, 1e-12);
    struct validate_gains gains = validate_gains_of(pairs, n);
    CHECK_EQUAL(gains.n_null, 2);
    CHECK_EQUAL(gains.n_ahead, 1);
    CHECK_EQUAL(gains.n_null_right, 1);
    CHECK_CLOSE(gains.median, 0.075, 1e-9);
    struct validate_statistics all = validate_statistics_of(&validate, (struct validate_group){.varies = true});
    CHECK_EQUAL(all.n, 5); /* neither the row that counts beside its pair, nor the one that was not simulated */
    CHECK_EQUAL(validate_statistics_of(&validate, (struct validate_group){0}).n, 0);
    free(pairs);
}

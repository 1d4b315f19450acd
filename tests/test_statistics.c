/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests count hand-made rows with experts. tests/test_validate.c has the other statistics. */
#include "validate/statistics.h"

#include "harness.h"

/* A row with experts counts apart from the others, and in its group. */
TEST(statistics__count_experts_apart)
{
    struct validate_row rows[] = {
        {.measured = 1, .predicted = 1.1, .error = 0.1, .memory_bytes = 1},
        {.measured = 1, .predicted = 1.2, .error = 0.2, .memory_bytes = 1, .kind = VALIDATE_EXPERTS},
        {.measured = 1,
         .predicted = 1.3,
         .error = 0.3,
         .memory_bytes = 1,
         .kind = VALIDATE_EXPERTS,
         .group = "real-routing"}};
    const struct validate validate = {.n_rows = 3, .rows = rows};
    const struct validate_group groups[] = {{.group = NULL}, {.kind = VALIDATE_EXPERTS}, {.group = "real-routing"}};
    for (int i = 0; i < 3; i++) {
        struct validate_statistics statistics = validate_statistics_of(&validate, groups[i]);
        CHECK_EQUAL(statistics.n, 1);
        CHECK_CLOSE(statistics.mape, 0.1 * (i + 1), 1e-15);
    }
    CHECK_EQUAL(validate_statistics_of(&validate, (struct validate_group){.group = ""}).n, 0);
    CHECK_EQUAL(validate_outcomes_of(&validate, NULL).n, 1);
    CHECK_EQUAL(validate_outcomes_of(&validate, "").n, 0);
    CHECK_EQUAL(validate_outcomes_of_kind(&validate, VALIDATE_EXPERTS).n, 2);
}

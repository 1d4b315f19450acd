/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests find largest values of made-up rules that say what fits. */
#include "answer/largest_value.h"

#include <math.h>

#include "harness.h"

/** Values up to `most` fit, except those of a hole. It counts the trials. */
struct rule {
    int64_t most, hole_begin, hole_end;
    int64_t stop_at; /* this trial fails; 0: none */
    int32_t n_trials;
};

static bool rule_trial(void *context, int64_t value, bool *fits, struct error *err)
{
    struct rule *rule = context;
    rule->n_trials++;
    if (value == rule->stop_at)
        return error_set_status(err, ERROR_FAILED, "stopped at %d", (int)value);
    *fits = value <= rule->most && !(rule->hole_begin <= value && value < rule->hole_end);
    return true;
}

static struct largest_value find(struct rule *rule, struct largest_range range)
{
    struct largest_value largest = {0};
    struct error err = {0};
    CHECK_TRUE(largest_value_find(&range, rule_trial, rule, &largest, &err));
    return largest;
}

TEST(largest_value_find__finds_every_boundary)
{
    for (int64_t start = 1; start <= 40; start += 13)
        for (int64_t boundary = 0; boundary <= 110; boundary++) {
            struct rule rule = {.most = boundary};
            struct largest_value largest = find(&rule, (struct largest_range){false, start, 1, 100});
            CHECK_EQUAL(largest.value, boundary < 100 ? boundary : 100);
            CHECK_EQUAL(largest.next, boundary < 100 ? boundary + 1 : 0);
        }
}

/* From a power of two to the next there are four values, so that each is a multiple of a quarter of the first. */
TEST(quarters__are_four_values_an_octave)
{
    const struct largest_range range = {.quarters = true};
    static const int64_t values[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40};
    for (size_t i = 0; i + 1 < sizeof values / sizeof *values; i++) {
        CHECK_EQUAL(largest_next(&range, values[i]), values[i + 1]);
        for (int64_t value = values[i]; value < values[i + 1]; value++)
            CHECK_EQUAL(largest_at_most(&range, value), values[i]);
    }
    CHECK_EQUAL(largest_at_most(&range, 100000), 98304);
    CHECK_EQUAL(largest_next(&range, 98304), 114688);
}

TEST(quarters__bound_what_is_found)
{
    for (int64_t boundary = 1024; boundary <= 70000; boundary += 1001) {
        const struct largest_range range = {true, 5000, 1024, 65536};
        struct rule rule = {.most = boundary};
        struct largest_value largest = find(&rule, range);
        CHECK_EQUAL(largest.value, largest_at_most(&range, boundary < 65536 ? boundary : 65536));
        CHECK_EQUAL(largest.next, boundary < 65536 ? largest_next(&range, boundary) : 0);
    }
}

/* 8, 16 and 32 fit, 64 does not. 48 does not fit either, 40 and 44 do, 46 does not, 45 does. The neighbours of 45 are
 * 46 to 49. If the hole ends at 48, 49 fits, and its neighbours are 50 to 53. */
TEST(largest_value_find__crosses_a_hole_of_its_neighbours)
{
    struct rule rule = {.most = 53, .hole_begin = 46, .hole_end = 49};
    struct largest_value largest = find(&rule, (struct largest_range){false, 8, 1, 1000});
    CHECK_EQUAL(largest.value, 53);
    CHECK_EQUAL(largest.next, 54);
    rule = (struct rule){.most = 53, .hole_begin = 46, .hole_end = 50}; /* one wider than the neighbours reach */
    CHECK_EQUAL(find(&rule, (struct largest_range){false, 8, 1, 1000}).value, 45);
}

/* From 1 to 1024 there are 10 doublings and a start; 2048 is above the bound of 2000. Then there are 10 halvings of 976
 * values at most, and 4 neighbours. */
TEST(largest_value_find__takes_few_trials)
{
    for (int64_t boundary = 1024; boundary < 2000; boundary += 25) {
        struct rule rule = {.most = boundary};
        find(&rule, (struct largest_range){false, 1, 1, 2000});
        CHECK_TRUE(rule.n_trials <= 12 + 10 + LARGEST_NEIGHBOURS);
    }
}

TEST(largest_value_find__stops_with_an_error)
{
    struct rule rule = {.most = 100, .stop_at = 16};
    struct largest_range range = {false, 4, 1, 1000};
    struct largest_value largest;
    struct error err = {0};
    CHECK_TRUE(!largest_value_find(&range, rule_trial, &rule, &largest, &err));
    CHECK_TEXT(err.text, "stopped at 16");
    CHECK_EQUAL(rule.n_trials, 3);
}

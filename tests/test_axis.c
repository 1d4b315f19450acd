/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read the axes of sweeps and count their points. */
#include "sweep/axis.h"

#include <stdlib.h>
#include <string.h>

#include "document/document_read.h"
#include "harness.h"

static const char base[] = "data: {context: 8, batch: 4}\nseed: 5\nsystems: [{plan: {tp: 1, pp: 2}}]\n";

/** Read the sweep of `base` with this text below it. */
static bool read_sweep(const char *text, struct sweep *sweep, struct error *err)
{
    struct document document = {0};
    char whole[1024];
    *err = (struct error){0};
    *sweep = (struct sweep){0};
    snprintf(whole, sizeof whole, "%s%s", base, text);
    return document_parse(whole, strlen(whole), "file.yaml", &document, err) && sweep_read(&document, sweep, err);
}

/** Print all points as "value value; value value; ". */
static void print_points(const struct sweep *sweep, char text[1024])
{
    *text = '\0';
    for (int32_t i = 0; i < sweep->n_points; i++)
        for (int32_t c = 0; c < sweep->n_columns; c++) {
            char *value = sweep_value(sweep, i, c);
            size_t used = strlen(text);
            snprintf(text + used, 1024 - used, "%s%s", value, c + 1 < sweep->n_columns ? " " : "; ");
            free(value);
        }
}

static void check_points(const char *text, const char *expected)
{
    struct sweep sweep = {0};
    struct error err;
    char points[1024];
    if (CHECK_TRUE(read_sweep(text, &sweep, &err))) {
        print_points(&sweep, points);
        CHECK_TEXT(points, expected);
    }
    sweep_free(&sweep);
}

TEST(grid__varies_its_last_key_fastest)
{
    check_points("sweep: {a: [1, 2], b: [x, y, z]}\n", "1 x; 1 y; 1 z; 2 x; 2 y; 2 z; ");
    check_points("", "");
}

TEST(range__ends_at_or_before_its_bound)
{
    check_points("sweep: {a: {range: [1, 4]}}\n", "1; 2; 3; 4; ");
    check_points("sweep: {a: {range: [1, 8, 3]}}\n", "1; 4; 7; ");
    check_points("sweep: {a: {range: [0, 0.3, 0.1]}}\n", "0; 0.1; 0.2; 0.3; ");
    check_points("sweep: {a: {log2: [1Ki, 9Ki]}}\n", "1024; 2048; 4096; 8192; ");
}

TEST(zip__moves_its_keys_together)
{
    check_points("sweep: {zip: [{a: [1, 2], b: [3, 4]}], c: [x, y]}\n", "1 3 x; 1 3 y; 2 4 x; 2 4 y; ");
    check_points("sweep: {zip: [[{b: 3, a: {k: 1}}, {a: [2], b: 4}]]}\n", "3 {k: 1}; 4 [2]; ");
}

TEST(each__changes_one_key_at_a_time)
{
    check_points("sweep: {each: {data.context: [16, 32], seed: {range: [6, 7]}}}\n", "8 5; 16 5; 32 5; 8 6; 8 7; ");
    check_points("sweep: {each: {a: [1], data: [{batch: 2}]}}\n",
                 "default {context: 8, batch: 4}; 1 {context: 8, batch: 4}; default {batch: 2}; ");
}

TEST(each__is_one_axis_among_the_others)
{
    check_points("sweep: {a: [1, 2], each: {b: [x], c: [y]}, zip: [{d: [3, 4], e: [5, 6]}]}\n",
                 "1 default default 3 5; 1 default default 4 6; 1 x default 3 5; 1 x default 4 6; "
                 "1 default y 3 5; 1 default y 4 6; 2 default default 3 5; 2 default default 4 6; "
                 "2 x default 3 5; 2 x default 4 6; 2 default y 3 5; 2 default y 4 6; ");
    check_points("sweep: {each: {data.batch: [1]}, replicates: 2}\n", "4 5; 4 6; 1 5; 1 6; ");
    check_points("sweep: {each: {a: [1, 2], b: [3]}, exclude: [{where: {a: 1}, reason: why}, {where: {b: 3}, reason: "
                 "why}]}\n",
                 "default default; 2 default; ");
    /* the scenario's own value is that of the grid */
    check_points("sweep: {data: [{context: 1}, {batch: 2}], each: {data.context: [9]}}\n",
                 "{context: 1} 1; {context: 1} 9; {batch: 2} default; {batch: 2} 9; ");
}

TEST(replicates__count_up_from_the_seed)
{
    check_points("sweep: {replicates: 3, a: [1, 2]}\n", "1 5; 1 6; 1 7; 2 5; 2 6; 2 7; ");
}

TEST(exclude__holds_where_all_conditions_do)
{
    const char *grid = "sweep: {a: [1, 2], b: [1Ki, 2Ki], exclude: [{where: {%s}, reason: why}]}\n";
    static const char *const cases[][2] = {
        {"a: 1", "2 1Ki; 2 2Ki; "},
        {"a: 1, b: 1024", "1 2Ki; 2 1Ki; 2 2Ki; "},
        {"a: 1, b: \">1Ki\"", "1 1Ki; 2 1Ki; 2 2Ki; "},
        {"b: \"<= 1Ki\"", "1 2Ki; 2 2Ki; "},
        {"a: \"!=1\"", "1 1Ki; 1 2Ki; "},
        {"a: [1, 3], seed: 5, systems.0.plan.pp: 2, b: 2Ki", "1 1Ki; 2 1Ki; 2 2Ki; "},
        {"seed: 6", "1 1Ki; 1 2Ki; 2 1Ki; 2 2Ki; "},
    };
    char text[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text, grid, cases[i][0]);
        check_points(text, cases[i][1]);
    }
}

TEST(exclude__counts_what_no_earlier_one_left_out)
{
    struct sweep sweep = {0};
    struct error err;
    CHECK_TRUE(read_sweep("sweep: {a: [1, 2, 3], exclude: [{where: {a: 1}, reason: one}, {where: {a: \"<3\"}, reason: "
                          "two}]}\n",
                          &sweep, &err));
    CHECK_EQUAL(sweep.n_exclusions, 2);
    if (sweep.exclusions != NULL) {
        CHECK_EQUAL(sweep.exclusions[0].n_points, 1);
        CHECK_EQUAL(sweep.exclusions[1].n_points, 1);
        CHECK_TEXT(sweep.exclusions[1].reason, "two");
    }
    sweep_free(&sweep);
}

static const char *text_at(const struct document *document, const char *path)
{
    int32_t node = document_find(document, 0, path);
    return node >= 0 ? document->node[node].value : "nothing";
}

TEST(sweep_point__is_the_scenario_with_its_values)
{
    struct sweep sweep = {0};
    struct error err;
    struct document point;
    CHECK_TRUE(read_sweep("sweep:\n  systems.0.plan.tp: [4, 8]\n  data: [{context: 1}, {batch: 2}]\n  new.key: [z]\n",
                          &sweep, &err));
    CHECK_TRUE(sweep_point(&sweep, 3, &point, &err));
    CHECK_TEXT(text_at(&point, "systems.0.plan.tp"), "8");
    CHECK_TEXT(text_at(&point, "systems.0.plan.pp"), "2");
    CHECK_TEXT(text_at(&point, "data.batch"), "2");
    CHECK_TEXT(text_at(&point, "data.context"), "nothing"); /* the whole mapping was replaced */
    CHECK_TEXT(text_at(&point, "new.key"), "z");
    CHECK_TRUE(!sweep_present(&point));
    CHECK_EQUAL(point.node[document_find(&point, 0, "systems.0.plan.tp")].line, 5);
    CHECK_EQUAL(point.node[document_find(&point, 0, "systems.0.plan.tp")].column, 26);
    document_free(&point);
    sweep_free(&sweep);
}

TEST(sweep_point__keeps_what_each_does_not_change)
{
    struct sweep sweep = {0};
    struct error err;
    struct document point;
    CHECK_TRUE(read_sweep("sweep: {each: {systems.0.plan.tp: [4], new.key: [z]}}\n", &sweep, &err));
    CHECK_EQUAL(sweep.n_points, 3);
    CHECK_TRUE(sweep_point(&sweep, 0, &point, &err));
    CHECK_TEXT(text_at(&point, "systems.0.plan.tp"), "1");
    CHECK_TEXT(text_at(&point, "new.key"), "nothing");
    document_free(&point);
    CHECK_TRUE(sweep_point(&sweep, 1, &point, &err));
    CHECK_TEXT(text_at(&point, "systems.0.plan.tp"), "4");
    CHECK_TEXT(text_at(&point, "systems.0.plan.pp"), "2");
    CHECK_TEXT(text_at(&point, "new.key"), "nothing");
    document_free(&point);
    sweep_free(&sweep);
}

TEST(sweep_read__refuses_wrong_sweeps_with_their_place)
{
    static const char *const cases[][2] = {
        {"sweep: 3\n", "file.yaml:4:8: sweep: expected keys"},
        {"sweep: {a: []}\n", "file.yaml:4:12: a: expected a list of at least one value"},
        {"sweep: {a: {step: 1}}\n", "a: expected a list of values, {range:"},
        {"sweep: {a: {range: [1, 2, 0]}}\n", "step > 0"},
        {"sweep: {a: {range: [3, 1]}}\n", "from <= to"},
        {"sweep: {a: {log2: [0, 4]}}\n", "log2 doubles from a number above 0"},
        {"sweep: {a: {range: [0, 1e9]}}\n",
         "file.yaml:4:20: range: 1000000001 points; a sweep has at most 1000000, before `exclude`"},
        {"sweep: {a: {range: [0, 9999]}, b: {range: [0, 9999]}}\n", "sweep: 100000000 points; a sweep has at most"},
        {"sweep: {a: [1], zip: [{a: [2], b: [3]}]}\n", "'a' varies twice"},
        {"sweep: {zip: [{a: [1, 2], b: [3]}]}\n", "zip: b has 1 values, a has 2"},
        {"sweep: {zip: [[{a: 1}, {b: 2}]]}\n", "the same keys in all entries"},
        {"sweep: {a: [1], exclude: [{where: {a: 1}}]}\n", "exclude: expected {where: {key: value, ...}, reason: text}"},
        {"sweep: {a: [1, 2], exclude: [{where: {c: 1}, reason: r}]}\n", "file.yaml:4:39: exclude: 'c' is neither"},
        {"sweep: {a: [1], replicates: 0}\n", "replicates: expected a whole number"},
        {"sweep: {a: [1], replicates: 1000001}\n", "replicates: 1000001 points; a sweep has at most 1000000"},
        {"sweep: {name: [a, b]}\n", "'name' cannot vary"},
        {"sweep: {each: [1]}\n", "file.yaml:4:15: each: expected keys of the scenario, each with a list"},
        {"sweep: {each: {}}\n", "each: expected keys of the scenario"},
        {"sweep: {each: {a: 1}}\n", "file.yaml:4:19: a: expected a list of at least one value"},
        {"sweep: {a: [1], each: {b: [1], a: [2]}}\n", "file.yaml:4:36: sweep: 'a' varies twice"},
        {"sweep: {each: {a: {range: [1, 600000]}, b: {range: [1, 400000]}}}\n",
         "each: 1000001 points; a sweep has at most 1000000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sweep sweep = {0};
        struct error err;
        CHECK_TRUE(!read_sweep(cases[i][0], &sweep, &err));
        CHECK_CONTAINS(err.text, cases[i][1]);
        sweep_free(&sweep);
    }
}

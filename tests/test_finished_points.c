/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests keep finished points of a sweep in its journal, in order, and refuse damaged ones. */
#include "base/check.h"
#include "harness.h"
#include "sweep/finished_points.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A result of two systems and two iterations that a journal might hold. */
struct sample {
    char *label[2], text[9000];
    struct trace_summary summary[2];
    struct standing standings[2];
    struct trace_iteration iterations[2];
    struct point_result result;
};

static void make(struct sample *sample)
{
    *sample = (struct sample){.label = {"best-fit", "slimpack"}};
    sample->iterations[1].system = sample->standings[1].system = 1;
    sample->result = (struct point_result){
        .id = 7,
        .message = "",
        .scenario = "name: small\n",
        .n_systems = 2,
        .n_iterations = 2,
        .label = sample->label,
        .summary = sample->summary,
        .standings = sample->standings,
        .iterations = sample->iterations,
    };
}

static char *pack(const struct sample *sample, size_t *n_bytes)
{
    char *bytes = NULL;
    FILE *file = check_memstream(&bytes, n_bytes);
    point_result_pack(file, &sample->result);
    CHECK(fclose(file) == 0);
    return bytes;
}

/* Return whether the packed form of a sample is accepted. */
static bool is_taken(const struct sample *sample)
{
    size_t n_bytes;
    char *bytes = pack(sample, &n_bytes);
    struct point_result result;
    bool taken = point_result_unpack(bytes, n_bytes, &result);
    point_result_free(&result);
    free(bytes);
    return taken;
}

/* Costs at zero are there for each system or for none. */
TEST(point_result_unpack__takes_free_costs_of_all_systems_or_none)
{
    struct sample sample;
    struct free_costs costs[2] = {{.base_s = 3}, {.base_s = 5}};
    make(&sample);
    sample.result.free_costs = costs;
    sample.result.n_priced = 2;
    struct point_result copy = point_result_copy(&sample.result);
    CHECK_EQUAL(copy.n_priced, 2);
    CHECK_TRUE(copy.free_costs[0].base_s == 3 && copy.free_costs[1].base_s == 5);
    point_result_free(&copy);
    sample.result.n_priced = 1;
    CHECK_TRUE(!is_taken(&sample));
    sample.result.n_priced = 0;
    CHECK_TRUE(is_taken(&sample));
}

TEST(point_result_unpack__refuses_numbers_out_of_range)
{
    struct sample sample;
    make(&sample);
    CHECK_TRUE(is_taken(&sample));
    const int32_t systems[] = {2, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        make(&sample);
        sample.iterations[1].system = systems[i];
        CHECK_TRUE(!is_taken(&sample));
    }
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        make(&sample);
        sample.standings[1].system = systems[i];
        CHECK_TRUE(!is_taken(&sample));
        make(&sample);
        sample.standings[1].rank = i == 0 ? 3 : systems[i];
        CHECK_TRUE(!is_taken(&sample));
        make(&sample);
        sample.summary[1].exceeded_limit = i == 0 ? 1000 : systems[i];
        CHECK_TRUE(!is_taken(&sample));
    }
    make(&sample);
    sample.iterations[0].system = 1;
    sample.summary[0].recompute = -1;
    CHECK_TRUE(!is_taken(&sample));
}

TEST(point_result_unpack__takes_nan_in_optional_columns_alone)
{
    struct sample sample;
    make(&sample);
    sample.summary[0].simgrid_mean_s = sample.iterations[0].simgrid_s = NAN;
    sample.summary[0].context_bound_mean_s = sample.iterations[0].context_bound_s = NAN;
    CHECK_TRUE(is_taken(&sample));
    sample.summary[0].mfu = NAN;
    CHECK_TRUE(!is_taken(&sample));
    make(&sample);
    sample.iterations[1].time_s = INFINITY;
    CHECK_TRUE(!is_taken(&sample));
}

TEST(point_result_unpack__refuses_texts_that_are_too_long)
{
    struct sample sample;
    make(&sample);
    memset(sample.text, 'x', sizeof sample.text - 1);
    sample.result.message = sample.text;
    CHECK_TRUE(!is_taken(&sample));
    make(&sample);
    memset(sample.text, 'x', 64);
    sample.label[1] = sample.text;
    CHECK_TRUE(!is_taken(&sample));
}

TEST(point_result_unpack__refuses_a_status_that_its_systems_belie)
{
    struct sample sample;
    const int32_t statuses[] = {RESULT_FAILED, RESULT_KILLED, RESULT_N, -1};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        make(&sample);
        sample.result.status = (enum result_status)statuses[i];
        CHECK_TRUE(!is_taken(&sample));
        sample.result.n_systems = sample.result.n_iterations = 0;
        CHECK_EQUAL(is_taken(&sample), i < 2);
    }
    make(&sample);
    sample.result.n_systems = sample.result.n_iterations = 0;
    CHECK_TRUE(!is_taken(&sample));
}

TEST(point_result_unpack__refuses_bytes_that_are_cut_or_too_many)
{
    struct sample sample;
    struct point_result result;
    size_t n_bytes;
    make(&sample);
    char *bytes = pack(&sample, &n_bytes);
    bytes = check_realloc(bytes, n_bytes + 1);
    bytes[n_bytes] = '\0';
    for (size_t n = 0; n <= n_bytes + 1; n++) {
        CHECK_EQUAL(point_result_unpack(bytes, n, &result), n == n_bytes);
        point_result_free(&result);
    }
    free(bytes);
}

/* A manifest of one point, whose scenario is that of the sample. */
static const struct manifest manifest = {
    .name = "small", .command = "slimsim run small.yaml", .scenario = "", .n_points = 1, .id = (uint64_t[]){7}};

TEST(finished_points_resume__finds_what_was_appended)
{
    struct sample sample;
    struct finished_points points;
    struct point_result result;
    struct error err = {0};
    size_t n_bytes;
    char *path = check_strdup(harness_path("finished.journal"));
    unlink(path);
    make(&sample);
    char *bytes = pack(&sample, &n_bytes);
    CHECK_TRUE(finished_points_open(&manifest, &points, &err) && finished_points_resume(&points, path, &err));
    CHECK_EQUAL(points.entries[0].journal, -1);
    CHECK_TRUE(finished_points_append(&points, bytes, n_bytes, &err));
    finished_points_close(&points);
    CHECK_TRUE(finished_points_open(&manifest, &points, &err) && finished_points_resume(&points, path, &err));
    CHECK_TRUE(points.entries[0].journal == 0 && points.entries[0].status == RESULT_DONE);
    CHECK_TRUE(finished_points_result(&points, 0, &result, &err));
    CHECK_TEXT(result.label[1], "slimpack");
    point_result_free(&result);
    finished_points_close(&points);
    free(bytes);
    free(path);
}

TEST(finished_points_resume__refuses_a_record_that_is_no_result)
{
    struct finished_points points;
    struct journal *journal;
    struct error err = {0};
    const int64_t forged[] = {7, RESULT_N};
    char *path = check_strdup(harness_path("forged.journal"));
    unlink(path);
    CHECK_TRUE(finished_points_open(&manifest, &points, &err) && finished_points_resume(&points, path, &err));
    journal = &points.journals[0];
    CHECK_TRUE(journal_append(journal, JOURNAL_RESULT, forged, sizeof forged, &err));
    finished_points_close(&points);
    CHECK_TRUE(finished_points_open(&manifest, &points, &err) && !finished_points_resume(&points, path, &err));
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, "is damaged; remove this file");
    finished_points_close(&points);
    free(path);
}

/* Foreign bytes are in the place of the point's trace. */
TEST(finished_points_result__refuses_a_trace_that_is_none)
{
    struct sample sample;
    struct finished_points points;
    struct point_result result;
    struct error err = {0};
    size_t n_bytes;
    char *path = check_strdup(harness_path("traced.journal"));
    unlink(path);
    make(&sample);
    sample.result.image = (struct record_image){"no trace", 8};
    char *bytes = pack(&sample, &n_bytes);
    CHECK_TRUE(finished_points_open(&manifest, &points, &err) && finished_points_resume(&points, path, &err));
    CHECK_TRUE(finished_points_append(&points, bytes, n_bytes, &err));
    CHECK_TRUE(!finished_points_result(&points, 0, &result, &err) && err.status == ERROR_INVALID);
    CHECK_CONTAINS(err.text, "traced.journal: the result at byte");
    point_result_free(&result);
    finished_points_close(&points);
    free(bytes);
    free(path);
}

/* Eight of nine points fail, with seven messages. */
TEST(finished_points_failures__lists_five_messages_once)
{
    static const char *const messages[] = {"a: is wrong", "b", "a: is wrong", "c\nmore", "d", "e", "f", "g", NULL};
    enum { N = sizeof messages / sizeof *messages };
    uint64_t id[N];
    char *values[N] = {"1", "2", "3", "4", "5", "6", "7", "8", "9"}, *columns[] = {"seed"};
    struct manifest many = manifest;
    struct finished_points points;
    struct error err = {0}, failures = {0};
    char *path = check_strdup(harness_path("failed.journal"));
    many.n_points = N;
    many.n_columns = 1;
    many.column = columns;
    many.value = values;
    many.id = id;
    for (int i = 0; i < N; i++)
        id[i] = (uint64_t)i + 1;
    unlink(path);
    CHECK_TRUE(finished_points_open(&many, &points, &err) && finished_points_resume(&points, path, &err));
    for (int i = 0; i < N; i++) {
        struct sample sample;
        size_t n_bytes;
        make(&sample);
        sample.result.id = id[i];
        if (messages[i] != NULL)
            sample.result = (struct point_result){.id = id[i], .status = RESULT_FAILED, .message = (char *)messages[i]};
        char *bytes = pack(&sample, &n_bytes);
        CHECK_TRUE(finished_points_append(&points, bytes, n_bytes, &err));
        free(bytes);
    }
    CHECK_TRUE(finished_points_failures(&points, N, "small.points.csv", &failures, &err));
    CHECK_EQUAL(failures.status, ERROR_FAILED);
    CHECK_TEXT(failures.text, "8 of 9 points failed\n"
                              "point 0 (seed=1) and 1 more: a: is wrong\n"
                              "point 1 (seed=2): b\n"
                              "point 3 (seed=4): c\n"
                              "point 4 (seed=5): d\n"
                              "point 5 (seed=6): e\n"
                              "2 more points have other messages\n"
                              "small.points.csv has the messages of all points");
    finished_points_close(&points);
    free(path);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests search sizes of offers that are quick to simulate, and compare with a simulation of every size. */
#include "capacity/size_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "harness.h"
#include "scenario_fixture.h"

enum { MOST = 20 };

/* 840 samples of one length divide by most numbers of nodes up to 20. */
static const char text[] = "name: sizes\n"
                           "model: llama-13b\n"
                           "device: h800\n"
                           "platform: hopper\n"
                           "data: {lengths: fixed, context: 4Ki, global_batch: 840}\n"
                           "iterations: {warm_up: 0, measured: 1}\n"
                           "price: {usd_per_gpu_hour: 2}\n"
                           "engine: critical-path\n"
                           "framework: slimpack-paper\n"
                           "capacity:\n"
                           "  tokens: 1e11\n"
                           "  offers:\n"
                           "    - {name: one, nodes: {from: 1, to: 20}}\n"
                           "systems: [{name: best-fit, plan: {tp: 8, pp: 1, recompute: full}}]\n";

/** A question and the search of its sizes. */
struct searched {
    struct question question;
    struct size_search search;
};

/** Read the question with these --set; the last one may be NULL. */
static void ask(const char *first, const char *second, struct searched *searched)
{
    const char *set[] = {first, second};
    struct error err = {0};
    fixture_data("size_search");
    bool ok = question_read(fixture_write("size_search/sizes.yaml", text), second == NULL ? 1 : 2, set,
                            &searched->question, &err);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
}

/** Search with a journal that the tests share, so that each size runs once. */
static void search(const char *first, const char *second, struct searched *searched)
{
    static const volatile sig_atomic_t never = 0;
    static char *directory;
    struct error err = {0};
    if (directory == NULL) {
        directory = check_strdup(harness_path("size_search_points"));
        char *journal = check_asprintf("%s/sizes.journal", directory);
        mkdir(directory, 0777);
        remove(journal);
        free(journal);
    }
    struct progress progress = {.n = 0};
    struct journal lock = {.descriptor = -1};
    struct what_if_options options = {
        .directory = directory, .name = "sizes", .jobs = 2, .lock = &lock, .progress = &progress, .stop = &never};
    ask(first, second, searched);
    bool ok = size_search_run(&searched->question, &options, &searched->search, &err);
    journal_release(&lock);
    CHECK_TEXT(err.text, "");
    CHECK(ok);
}

static void end(struct searched *searched)
{
    size_search_free(&searched->search);
    question_free(&searched->question);
}

/** Return the answer's row and end the search; its nodes are 0 if nothing keeps all limits. */
static struct trace_candidate answer(struct searched *searched)
{
    struct candidates *candidates = &searched->search.candidates;
    int32_t chosen = candidates_choose(candidates, &searched->question);
    struct trace_candidate row = chosen >= 0 ? candidates->at[chosen].row : (struct trace_candidate){.usd = INFINITY};
    end(searched);
    return row;
}

static struct trace_candidate answer_in(double days, const char *setting)
{
    struct searched searched;
    char set[64];
    snprintf(set, sizeof set, "capacity.days=%.17g", days);
    search(set, setting, &searched);
    return answer(&searched);
}

/** Simulate every size: an offer for each. @param setting  a --set
 * @param all      [MOST + 1] by nodes */
static void simulate_all(const char *setting, struct trace_candidate *all)
{
    struct searched searched;
    char offers[MOST * 64] = "capacity.offers=[";
    for (int i = 1; i <= MOST; i++) {
        size_t used = strlen(offers);
        snprintf(offers + used, sizeof offers - used, "{name: n%d, nodes: {from: %d, to: %d}}%s", i, i, i,
                 i < MOST ? ", " : "]");
    }
    search(offers, setting, &searched);
    memset(all, 0, (MOST + 1) * sizeof *all);
    CHECK_EQUAL(searched.search.candidates.n, MOST);
    for (int32_t i = 0; i < searched.search.candidates.n; i++) {
        const struct trace_candidate *row = &searched.search.candidates.at[i].row;
        all[row->nodes] = *row;
        CHECK_TRUE(row->fits && row->days > 0 && row->usd > 0);
        const struct offer *offer = &searched.question.offers[row->offer];
        CHECK_TRUE(question_least_days(&searched.question, offer, row->nodes) <= row->days);
    }
    end(&searched);
}

/** Return the text of the grid's sweep. The caller frees it. */
static char *grid_text(const char *first, const char *second)
{
    struct searched searched = {0};
    struct document document;
    ask(first, second, &searched);
    size_search_grid(&searched.question, &document);
    char *grid = document_text(&document, 0);
    document_free(&document);
    question_free(&searched.question);
    return grid;
}

static bool grid_has(const char *grid, int nodes)
{
    char size[64], last[64];
    snprintf(size, sizeof size, "platform.nodes: %d}", nodes);
    snprintf(last, sizeof last, "platform.nodes: %d\n", nodes);
    return strstr(grid, size) != NULL || strstr(grid, last) != NULL;
}

TEST(size_search__grid_doubles_up_to_the_largest_size)
{
    static const int sizes[] = {3, 6, 12, 20};
    char *grid = grid_text("capacity.offers.0.nodes.from=3", NULL);
    for (int nodes = 1, i = 0; nodes <= 32; nodes++) {
        bool expected = i < 4 && nodes == sizes[i];
        CHECK_EQUAL(grid_has(grid, nodes), expected);
        i += expected;
    }
    free(grid);
}

/* 96 GPUs are 12 nodes. Fewer than 8 nodes cannot meet the days that 8 nodes take at their peak. */
TEST(size_search__grid_leaves_out_what_cannot_keep_a_limit)
{
    char *grid = grid_text("capacity.gpus=96", NULL);
    CHECK_TRUE(grid_has(grid, 1) && grid_has(grid, 8) && grid_has(grid, 12) && !grid_has(grid, 16));
    free(grid);
    struct searched searched = {0};
    char days[64];
    ask("capacity.gpus=96", NULL, &searched);
    double least_days = question_least_days(&searched.question, &searched.question.offers[0], 8);
    question_free(&searched.question);
    snprintf(days, sizeof days, "capacity.days=%.17g", least_days * 1.001);
    grid = grid_text(days, NULL);
    CHECK_TRUE(!grid_has(grid, 4) && grid_has(grid, 8) && grid_has(grid, 20));
    free(grid);
}

/* The largest size stays, so that the answer can say how far the deadline is. */
TEST(size_search__keeps_the_largest_size_for_an_impossible_deadline)
{
    struct searched searched;
    search("capacity.days=0.01", NULL, &searched);
    CHECK_EQUAL(searched.search.candidates.n, 1);
    CHECK_EQUAL(searched.search.candidates.at[0].row.nodes, 20);
    CHECK_EQUAL(searched.search.n, 6);
    CHECK_EQUAL(answer(&searched).nodes, 0);
}

/** Return the cheapest of all sizes that keeps the days, as the search should find it. */
static const struct trace_candidate *cheapest(const struct trace_candidate *all, double days)
{
    const struct trace_candidate *best = NULL;
    for (int i = 1; i <= MOST; i++)
        if (all[i].days <= days && (best == NULL || all[i].usd < best->usd))
            best = &all[i];
    return best;
}

/** Check that no size is left to try beside this one: the sizes next to it are within a sixteenth. */
static void check_neighbours(const struct size_search *search, int64_t nodes)
{
    int64_t below = 0, above = INT64_MAX;
    for (int32_t i = 0; i < search->n; i++) {
        int64_t size = search->sizes[i].nodes;
        below = size < nodes && size > below ? size : below;
        above = size > nodes && size < above ? size : above;
    }
    CHECK_TRUE(below == 0 || nodes - below == 1 || (nodes - below) * 16 <= nodes);
    CHECK_TRUE(above == INT64_MAX || above - nodes == 1 || (above - nodes) * 16 <= above);
}

/**
 * Compare answers to many deadlines with those of all sizes. A looser one is never dearer, and never needs more nodes.
 * @param setting  a --set
 */
static void check_deadlines(const char *setting)
{
    struct trace_candidate all[MOST + 1];
    double last_usd = INFINITY;
    int64_t last_nodes = INT64_MAX;
    simulate_all(setting, all);
    for (double days = all[MOST].days * 1.0001; days < 1.2 * all[1].days; days *= 1.09) {
        struct searched searched;
        char set[64];
        snprintf(set, sizeof set, "capacity.days=%.17g", days);
        search(set, setting, &searched);
        int32_t chosen = candidates_choose(&searched.search.candidates, &searched.question);
        CHECK_TRUE(chosen >= 0);
        const struct trace_candidate *found = &searched.search.candidates.at[chosen].row;
        const struct trace_candidate *expected = cheapest(all, days);
        check_neighbours(&searched.search, found->nodes);
        CHECK_EQUAL(found->nodes, expected->nodes);
        CHECK_TRUE(found->usd == expected->usd && found->usd <= last_usd && found->nodes <= last_nodes);
        last_usd = found->usd;
        last_nodes = found->nodes;
        end(&searched);
    }
    CHECK_EQUAL(last_nodes, cheapest(all, INFINITY)->nodes);
}

/*
 * A step is less efficient on more nodes, but 840 samples do not divide evenly by every number of them. So costs of
 * neighbouring sizes go up and down by up to 1%.
 */
TEST(size_search__answers_as_all_sizes_do)
{
    check_deadlines("price.usd_per_gpu_hour=2");
}

/* Two spare nodes cost much beside few nodes, and failures cost much on many. So 10 nodes are the cheapest. */
TEST(size_search__finds_the_cheapest_between_the_sizes_of_the_grid)
{
    check_deadlines("reliability={name: " SLIMSIM_SOURCE_DIR "/model/reliability/llama3.yaml, spares: 2, repair: 0, "
                    "failures: {other: 2000}}");
}

/* Prices have no part in the plans, so twice the price is twice the money of the same sizes. */
TEST(size_search__twice_the_price_moves_no_size)
{
    struct searched first, twice;
    search("capacity.days=30", NULL, &first);
    search("capacity.days=30", "price.usd_per_gpu_hour=4", &twice);
    CHECK_EQUAL(first.search.candidates.n, twice.search.candidates.n);
    for (int32_t i = 0; i < first.search.candidates.n; i++) {
        const struct trace_candidate *a = &first.search.candidates.at[i].row, *b = &twice.search.candidates.at[i].row;
        CHECK_TRUE(a->nodes == b->nodes && a->days == b->days);
        CHECK_CLOSE(2 * a->usd, b->usd, 1e-14);
    }
    CHECK_EQUAL(answer(&first).nodes, answer(&twice).nodes);
}

/* Without a deadline a budget is for the fastest. */
TEST(size_search__finds_the_fastest_within_a_budget)
{
    struct trace_candidate all[MOST + 1];
    struct searched searched;
    char set[64];
    simulate_all(NULL, all);
    for (int nodes = 2; nodes < MOST; nodes++) {
        double usd = all[nodes].usd;
        int fastest = 1;
        for (int i = 1; i <= MOST; i++)
            fastest = all[i].usd <= usd && all[i].days < all[fastest].days ? i : fastest;
        snprintf(set, sizeof set, "capacity.usd=%.17g", usd);
        search(set, NULL, &searched);
        CHECK_EQUAL(answer(&searched).nodes, fastest);
    }
}

/* Two offers of the same hardware differ in price alone, and share the results. A second offer is never dearer. */
TEST(size_search__offers_of_one_hardware_share_results)
{
    struct searched searched;
    struct trace_candidate alone = answer_in(30, NULL);
    search("capacity.days=30",
           "capacity.offers=[{name: a, nodes: {from: 1, to: 20}}, {name: b, price: {usd_per_gpu_hour: 1.5}, nodes: "
           "{from: 1, to: 20}}]",
           &searched);
    int32_t n = searched.search.n;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++)
            if (searched.search.sizes[i].nodes == searched.search.sizes[k].nodes)
                CHECK_TRUE(searched.search.sizes[i].results == searched.search.sizes[k].results);
    struct trace_candidate both = answer(&searched);
    CHECK_EQUAL(both.offer, 1);
    CHECK_CLOSE(both.usd, 0.75 * alone.usd, 1e-14);
}

/* The same hardware in fp8 is an offer of its own, and trains sooner at the same price. */
TEST(size_search__offers_may_differ_in_precision)
{
    struct searched searched;
    char *device = fixture_replace(fixture_device, "sources: [a, b]\n",
                                   "sources: [a, b]\nfp8_flop_per_s: 1979TFLOPS\n"
                                   "gemm_fp8_tensor: {efficiency: 0.7, small_tile: 0.1, wave: 0.25, launch_s: 7us, "
                                   "epilogue: 0, sum: 0.5, m_max: 8192}\n");
    fixture_data("size_search");
    fixture_write("size_search/model/gpu/fp8.yaml", device);
    free(device);
    search("capacity.days=30",
           "capacity.offers=[{name: a, device: fp8, nodes: {from: 1, to: 20}}, {name: b, device: fp8, precision: "
           "fp8-tensor, nodes: {from: 1, to: 20}}]",
           &searched);
    double days[2] = {0};
    for (int32_t i = 0; i < searched.search.candidates.n; i++) {
        const struct trace_candidate *row = &searched.search.candidates.at[i].row;
        days[row->offer] = row->nodes == 20 ? row->days : days[row->offer];
    }
    CHECK_EQUAL(answer(&searched).offer, 1);
    CHECK_TRUE(days[1] > 0 && days[0] > days[1]);
}

/* The second offer costs twice as much, so only its smallest size is refined. The first one's cheapest is, too. */
TEST(size_search__refines_only_offers_that_may_win)
{
    static const char *const offers[] = {
        "capacity.offers=[{name: a, nodes: {from: 1, to: 20}}, {name: b, nodes: {from: 1, to: 20}}]",
        "capacity.offers=[{name: a, nodes: {from: 1, to: 20}}, {name: b, price: {usd_per_gpu_hour: 4}, nodes: {from: "
        "1, to: 20}}]",
    };
    int64_t nodes[2];
    int n[2][2] = {{0}};
    for (int i = 0; i < 2; i++) {
        struct searched searched;
        search("capacity.days=8.5", offers[i], &searched);
        for (int32_t k = 0; k < searched.search.n; k++)
            n[i][searched.search.sizes[k].offer]++;
        nodes[i] = answer(&searched).nodes;
    }
    CHECK_EQUAL(nodes[0], nodes[1]);
    CHECK_EQUAL(n[0][0], n[0][1]);
    CHECK_EQUAL(n[1][0], n[0][0]);
    CHECK_TRUE(n[1][1] < n[1][0]);
}

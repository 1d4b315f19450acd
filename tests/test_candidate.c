/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests price sizes by hand, and choose among lists that are made up. */
#include "capacity/candidate.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "hand_model.h"
#include "hand_reliability.h"
#include "harness.h"

enum { N_OFFERS = 3, MOST = 16 };
static const double trillion = 1e12;

/** A question without limits, with offers of 8 GPUs a node that have neither price nor power. */
struct asked {
    struct question question;
    struct offer offers[N_OFFERS];
};

static void ask(struct asked *asked)
{
    *asked = (struct asked){.question = {.tokens = trillion, .n_offers = N_OFFERS, .offers = asked->offers}};
    for (enum capacity_limit i = 0; i < CAPACITY_N_LIMITS; i++)
        asked->question.limit[i] = NAN;
    for (int i = 0; i < N_OFFERS; i++) {
        struct scenario *scenario = &asked->offers[i].scenario;
        asked->offers[i].from = asked->offers[i].to = 1;
        scenario->platform.gpus_per_node = scenario->platform.nvlink_domain = 8;
        scenario->platform.pcie_bytes_per_s = 64e9;
        scenario->model = hand_llama_13b;
        scenario->price = (struct price){.usd_per_gpu_hour = NAN,
                                         .own = {NAN, NAN, NAN, NAN},
                                         .usd_per_kwh = NAN,
                                         .pue = NAN,
                                         .kg_co2_per_kwh = NAN};
    }
}

/** Give the first offer a rent, a site and nodes of 2 kW idle, 4 kW waiting and 8 kW busy. */
static void equip(struct asked *asked)
{
    struct scenario *scenario = &asked->offers[0].scenario;
    scenario->price.usd_per_gpu_hour = 2;
    scenario->price.pue = 1.2;
    scenario->price.kg_co2_per_kwh = 0.4;
    scenario->power = (struct power){.gpus = 8, .node = {2000, 4000, 8000}, .gpu = {NAN, NAN, NAN}, .network_w = NAN};
}

/** Return 4 nodes that train 10^4 tokens/s/GPU and compute for three quarters of the time. */
static struct trace_candidate four_nodes(void)
{
    return (struct trace_candidate){
        .nodes = 4, .ran = 1, .fits = 1, .tokens_per_s_per_gpu = 1e4, .busy_fraction = 0.75};
}

/* 32 GPUs train 3.2e5 tokens/s, so 10^12 tokens take 3.125e6 s. A node draws 7 kW = 0.75 x 8 + 0.25 x 4. */
TEST(candidate_price__without_failures_is_throughput_alone)
{
    struct asked asked;
    struct trace_candidate row = four_nodes();
    ask(&asked);
    equip(&asked);
    candidate_price(&asked.question, &asked.offers[0], &row);
    CHECK_TRUE(row.goodput == 1 && isnan(row.mttf_s) && isnan(row.checkpoint_interval_s));
    CHECK_EQUAL(row.spare_nodes, 0);
    CHECK_EQUAL(row.gpus, 32);
    CHECK_CLOSE(row.days, 3.125e6 / 86400, 1e-14);
    CHECK_CLOSE(row.gpu_hours, 32 * 3.125e6 / 3600, 1e-14);
    CHECK_CLOSE(row.mwh, 4 * 7000 * 1.2 * 3.125e6 / 3.6e9, 1e-14);
    CHECK_CLOSE(row.co2_t, row.mwh * 0.4, 1e-14);
    CHECK_CLOSE(row.usd, 2 * row.gpu_hours, 1e-14);
    CHECK_CLOSE(row.usd_per_1t_tokens, row.usd, 1e-14);
    asked.offers[0].scenario.price.usd_per_kwh = 0.1;
    candidate_price(&asked.question, &asked.offers[0], &row);
    CHECK_CLOSE(row.usd, 2 * row.gpu_hours + 0.1 * 1000 * row.mwh, 1e-14);
}

/* DeepSeek-V3 (arXiv 2412.19437): 2.788M H800-hours at $2 are $5.576M, 180K hours a trillion tokens, and 3.7 days a
 * trillion on 2,048 GPUs. */
TEST(candidate_price__gives_the_published_cost_of_deepseek_v3)
{
    struct asked asked;
    ask(&asked);
    equip(&asked);
    struct trace_candidate row = {.nodes = 256, .fits = 1, .tokens_per_s_per_gpu = 1e12 / 180e3 / 3600};
    candidate_price(&asked.question, &asked.offers[0], &row);
    CHECK_CLOSE(row.gpu_hours, 180e3, 1e-14);
    CHECK_CLOSE(row.days, 3.7, 0.05 / 3.7);
    CHECK_CLOSE(row.usd_per_1t_tokens, 360e3, 1e-14);
    asked.question.tokens = 2.788e6 / 180e3 * 1e12;
    candidate_price(&asked.question, &asked.offers[0], &row);
    CHECK_CLOSE(row.usd, 5.576e6, 1e-12);
}

/* Without a price there are hours and energy, and without power there are hours and money. */
TEST(candidate_price__leaves_out_what_nobody_gave)
{
    struct asked asked;
    struct trace_candidate row = four_nodes();
    ask(&asked);
    candidate_price(&asked.question, &asked.offers[0], &row);
    CHECK_CLOSE(row.gpu_hours, 32 * 3.125e6 / 3600, 1e-14);
    CHECK_TRUE(isnan(row.usd) && isnan(row.usd_per_1t_tokens) && isnan(row.mwh) && isnan(row.co2_t));
    equip(&asked);
    asked.offers[0].scenario.power = (struct power){0};
    candidate_price(&asked.question, &asked.offers[0], &row);
    CHECK_TRUE(isfinite(row.usd) && isnan(row.mwh) && isnan(row.co2_t));
}

/* Two spare nodes stand idle. Blocked GPUs wait, restarting ones are idle, and lost work computes as all work does. */
TEST(candidate_price__counts_failures_and_spare_nodes)
{
    struct asked asked;
    struct trace_candidate row = four_nodes();
    ask(&asked);
    equip(&asked);
    struct reliability *reliability = &asked.offers[0].scenario.reliability;
    *reliability = hand_reliability(50, 600, 30, 3600);
    row.spare_nodes = 2;
    reliability->spares = 2;
    struct goodput_setting setting = hand_training(reliability, 4);
    struct goodput goodput = goodput_of(&setting);
    const double *lost = goodput.lost_share;
    CHECK_TRUE(goodput.ettr < 0.99 && lost[GOODPUT_RESTART] > 0 && lost[GOODPUT_BLOCKED] > 0);
    candidate_price(&asked.question, &asked.offers[0], &row);
    double time_s = 3.125e6 / goodput.ettr, running = goodput.ettr + lost[GOODPUT_WORK];
    CHECK_CLOSE(row.goodput, goodput.ettr, 1e-11); /* saving 13e9 bytes takes 13 ns here */
    CHECK_EQUAL(row.spare_nodes, 2);
    CHECK_EQUAL(row.gpus, 48);
    CHECK_CLOSE(row.days, time_s / 86400, 1e-11);
    CHECK_CLOSE(row.usd, 2 * 48 * time_s / 3600, 1e-11);
    double node_w = 7000 * running + 4000 * lost[GOODPUT_BLOCKED] + 2000 * lost[GOODPUT_RESTART];
    CHECK_CLOSE(row.mwh, (4 * node_w + 2 * 2000) * 1.2 * time_s / 3.6e9, 1e-11);
    CHECK_CLOSE(row.goodput + row.blocked_fraction + row.lost_work_fraction + row.restart_fraction +
                    row.no_spares_fraction + row.slow_fraction,
                1, 1e-14);
}

/**
 * Let a failure strike four nodes each day, and a repair take half a day. So half a node is in repair on average, and
 * checkpoints cost nothing.
 */
static void wait_for_repairs(struct asked *asked)
{
    ask(asked);
    equip(asked);
    struct reliability *reliability = &asked->offers[0].scenario.reliability;
    *reliability = hand_reliability(250, 0, 0, 1e-3);
    reliability->spares = NAN;
    reliability->repair_s = 43200;
}

/**
 * Check the spare nodes beside four nodes, and their cost.
 * @param without  node-times of the training, in times without failures
 */
static void check_spares(struct asked *asked, int64_t spares, double without)
{
    struct trace_candidate row = four_nodes();
    candidate_price_with_spares(&asked->question, &asked->offers[0], &row);
    CHECK_EQUAL(row.spare_nodes, spares);
    CHECK_EQUAL(row.gpus, 8 * (4 + spares));
    CHECK_CLOSE(row.gpu_hours, 8 * without * 3.125e6 / 3600, 1e-5);
}

/*
 * With half a node in repair, no more than 0, 1, 2 nodes are in repair for e^-0.5 (1, 1.5, 1.625) of the time:
 * 0.606531, 0.909796, 0.985612. The cost of 4 + s nodes is then 4 / 0.606531 = 6.59488, 5 / 0.909796 = 5.49574, 6 /
 * 0.985612 = 6.08759. With a tenth of the repairs it is 4 / 0.951229 = 4.20508, 5 / 0.998791 = 5.00605.
 */
TEST(candidate_price_with_spares__finds_the_least_expected_cost)
{
    struct asked asked;
    wait_for_repairs(&asked);
    check_spares(&asked, 1, 5.49574);
    asked.offers[0].scenario.price.usd_per_gpu_hour = NAN;
    check_spares(&asked, 1, 5.49574);
    asked.offers[0].scenario.reliability.repair_s = 4320;
    check_spares(&asked, 0, 4.20508);
    asked.offers[0].scenario.reliability.present = false;
    check_spares(&asked, 0, 4);
}

/*
 * 36.16898 days without failures become 39.755, 36.6970, 36.2325, 36.1752 with 1 to 4 spare nodes, since at most 3 and
 * 4 nodes are in repair for 0.998248 and 0.999828 of the time. A fifth one is not tried: less than 0.1% would be
 * gained.
 */
TEST(candidate_price_with_spares__buys_more_for_a_deadline)
{
    struct asked asked;
    wait_for_repairs(&asked);
    asked.question.limit[LIMIT_DAYS] = 39.8;
    check_spares(&asked, 1, 5.49574);
    asked.question.limit[LIMIT_DAYS] = 39.7;
    check_spares(&asked, 2, 6.08759);
    asked.question.limit[LIMIT_DAYS] = 36.3;
    check_spares(&asked, 3, 7 / 0.998248);
    asked.question.limit[LIMIT_DAYS] = 36.2;
    check_spares(&asked, 4, 8 / 0.999828);
    asked.question.limit[LIMIT_DAYS] = 36.17;
    check_spares(&asked, 1, 5.49574); /* nothing keeps it */
    asked.question.limit[LIMIT_DAYS] = 39.7;
    asked.question.limit[LIMIT_GPUS] = 40;
    check_spares(&asked, 1, 5.49574);
}

TEST(candidate_price_with_spares__keeps_a_given_number)
{
    struct asked asked;
    wait_for_repairs(&asked);
    for (int64_t spares = 0; spares < 8; spares++) {
        struct trace_candidate row = four_nodes();
        asked.offers[0].scenario.reliability.spares = (double)spares;
        candidate_price_with_spares(&asked.question, &asked.offers[0], &row);
        CHECK_EQUAL(row.spare_nodes, spares);
    }
}

/* Twice the price changes money alone. Failures, tokens and nodes change days and money in one direction. Spare nodes
 * that are searched may end the training earlier when more fails, but never for less money. */
TEST(candidate_price__is_monotone_in_prices_failures_and_tokens)
{
    struct rng *rng = rng_create(34, 0, RNG_DATES);
    for (int i = 0; i < 200; i++) {
        struct asked asked;
        ask(&asked);
        equip(&asked);
        struct scenario *scenario = &asked.offers[0].scenario;
        struct trace_candidate first = four_nodes(), then;
        first.nodes = 1 + (int64_t)(2000 * rng_uniform(rng));
        first.busy_fraction = rng_uniform(rng);
        scenario->reliability =
            hand_reliability(20 * rng_uniform(rng), 900 * rng_uniform(rng), 60 * rng_uniform(rng), NAN);
        scenario->reliability.spares = NAN;
        scenario->reliability.repair_s = 86400 * rng_uniform(rng);
        struct trace_candidate searched = first;
        candidate_price_with_spares(&asked.question, &asked.offers[0], &searched);
        double least_usd = searched.usd;
        first.spare_nodes = rng_index(rng, 12);
        candidate_price(&asked.question, &asked.offers[0], &first);
        then = first;
        scenario->price.usd_per_gpu_hour *= 2;
        candidate_price(&asked.question, &asked.offers[0], &then);
        CHECK_CLOSE(then.usd, 2 * first.usd, 1e-14);
        then.usd = first.usd;
        then.usd_per_1t_tokens = first.usd_per_1t_tokens;
        CHECK_TRUE(memcmp(&then, &first, sizeof then) == 0);
        scenario->price.usd_per_gpu_hour /= 2;
        asked.question.tokens *= 1.01;
        candidate_price(&asked.question, &asked.offers[0], &then);
        CHECK_TRUE(then.usd > first.usd && then.days > first.days && then.mwh > first.mwh);
        asked.question.tokens = trillion;
        scenario->reliability.failures[FAILURE_OTHER] *= 1.5;
        candidate_price(&asked.question, &asked.offers[0], &then);
        CHECK_TRUE(then.days >= first.days);
        candidate_price_with_spares(&asked.question, &asked.offers[0], &searched);
        CHECK_TRUE(searched.usd >= least_usd);
    }
    rng_free(rng);
}

/** Candidates that are made up. Their tokens/s are 10^6 / days. */
struct made {
    struct asked asked;
    struct candidate at[MOST];
    struct candidates list;
};

static void make(struct made *made)
{
    *made = (struct made){.list = {.capacity = MOST, .at = made->at}};
    ask(&made->asked);
    made->asked.question.tokens = 1e6 * 86400;
}

/** Add a candidate; 0 days: it does not fit. */
static void add(struct made *made, int32_t offer, int64_t nodes, double days, double usd, double mwh)
{
    bool fits = days > 0;
    made->at[made->list.n++].row = (struct trace_candidate){.offer = offer,
                                                            .nodes = nodes,
                                                            .gpus = 8 * nodes,
                                                            .ran = 1,
                                                            .fits = fits,
                                                            .days = fits ? days : NAN,
                                                            .gpu_hours = fits ? 8 * (double)nodes * days * 24 : NAN,
                                                            .usd = fits ? usd : NAN,
                                                            .mwh = fits ? mwh : NAN,
                                                            .added_tokens_per_s = NAN,
                                                            .added_usd = NAN};
}

/** Make nine candidates of three offers. The power of the third one is unknown. */
static void make_nine(struct made *made)
{
    make(made);
    add(made, 0, 1, 16, 10, 5);
    add(made, 0, 2, 8, 10, 5);
    add(made, 0, 4, 5, 12, 6);
    add(made, 0, 8, 4, 16, 5.5);
    add(made, 0, 16, 0, 0, 0);
    add(made, 1, 3, 5, 12, 6.5);
    add(made, 1, 6, 4, 16, 5.5);
    add(made, 2, 5, 4.5, 15, NAN);
    add(made, 2, 6, 5, 13, NAN);
}

/* 1 node is beaten by 2, which are as cheap. 3 nodes of the second offer take more energy than 4 of the first. 8 and 6
 * nodes are equal. Unknown energy does not count: 5 nodes are faster than 4, and 6 are as fast and dearer. */
TEST(frontier__holds_what_nothing_beats)
{
    static const int32_t expected[] = {0, 1, 1, 1, 0, 0, 1, 1, 0};
    struct made made;
    make_nine(&made);
    candidates_choose(&made.list, &made.asked.question);
    for (int i = 0; i < made.list.n; i++)
        CHECK_EQUAL(made.at[i].row.frontier, expected[i]);
}

/* Tokens/s of the first offer: 62,500, 125,000, 200,000, 250,000. A node adds 62,500, 37,500, 12,500. Half of what the
 * first one gives is 31,250, so the knee is at 4. The second offer adds 50,000 / 3 from 3 to 6 nodes, less than half of
 * 200,000 / 3. */
TEST(knee__is_where_a_node_adds_half_of_what_the_first_gives)
{
    static const int32_t knee[] = {0, 0, 1, 0, 0, 1, 0, 0, 0};
    struct made made;
    make_nine(&made);
    candidates_choose(&made.list, &made.asked.question);
    for (int i = 0; i < made.list.n - 2; i++)
        CHECK_EQUAL(made.at[i].row.knee, knee[i]);
    CHECK_TRUE(isnan(made.at[0].row.added_tokens_per_s) && isnan(made.at[0].row.added_usd));
    CHECK_TRUE(isnan(made.at[4].row.added_tokens_per_s) && isnan(made.at[5].row.added_tokens_per_s));
    CHECK_CLOSE(made.at[1].row.added_tokens_per_s, 62500, 1e-14);
    CHECK_CLOSE(made.at[2].row.added_tokens_per_s, 37500, 1e-14);
    CHECK_CLOSE(made.at[3].row.added_tokens_per_s, 12500, 1e-14);
    CHECK_CLOSE(made.at[6].row.added_tokens_per_s, 5e4 / 3, 1e-13);
    CHECK_TRUE(made.at[1].row.added_usd == 0 && made.at[2].row.added_usd == 1 && made.at[3].row.added_usd == 1);
}

/* Tokens/s of 1, 2, 4 and 5 nodes: 100,000, 200,000, 205,000, 260,000. The fifth node adds 55,000, more than half of
 * 100,000. But from 2 nodes, the three added ones give 20,000 each. */
TEST(knee__is_not_a_size_behind_a_bad_one)
{
    static const int32_t knee[] = {0, 1, 0, 0};
    static const double nodes[] = {1, 2, 4, 5}, rate[] = {1e5, 2e5, 2.05e5, 2.6e5};
    struct made made;
    make(&made);
    for (int i = 0; i < 4; i++)
        add(&made, 0, (int64_t)nodes[i], 1e6 / rate[i], 10, 5);
    candidates_choose(&made.list, &made.asked.question);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(made.at[i].row.knee, knee[i]);
}

/** Choose within limits, and check that the answer alone is marked. */
static int32_t choose(struct made *made, double days, double usd, double mwh, double gpus)
{
    const double limits[] = {days, usd, mwh, gpus};
    memcpy(made->asked.question.limit, limits, sizeof limits);
    int32_t chosen = candidates_choose(&made->list, &made->asked.question);
    for (int32_t i = 0; i < made->list.n; i++)
        CHECK_EQUAL(made->at[i].row.chosen, i == chosen);
    return chosen;
}

/* Ties: fewer days, then the first. */
TEST(candidates_choose__takes_the_cheapest_or_the_fastest)
{
    struct made made;
    make_nine(&made);
    CHECK_EQUAL(choose(&made, NAN, NAN, NAN, NAN), 1);
    CHECK_EQUAL(choose(&made, 5, NAN, NAN, NAN), 2);
    CHECK_EQUAL(choose(&made, 4.9, NAN, NAN, NAN), 7);
    CHECK_EQUAL(choose(&made, NAN, 15, NAN, NAN), 7);
    CHECK_EQUAL(choose(&made, NAN, 14, NAN, NAN), 2);
    CHECK_EQUAL(choose(&made, NAN, NAN, 5.9, NAN), 3);
    CHECK_EQUAL(choose(&made, NAN, NAN, NAN, 32), 2);
    CHECK_EQUAL(choose(&made, 4.2, NAN, NAN, 48), 6);
    CHECK_EQUAL(choose(&made, 4.2, 15, NAN, NAN), -1);
    CHECK_EQUAL(choose(&made, 3.9, NAN, NAN, NAN), -1);
    CHECK_EQUAL(candidates_fastest(&made.list), 3);
}

TEST(candidates_choose__finds_nothing_if_nothing_fits)
{
    struct made made;
    make(&made);
    CHECK_EQUAL(candidates_choose(&made.list, &made.asked.question), -1);
    add(&made, 0, 1, 0, 0, 0);
    CHECK_EQUAL(candidates_choose(&made.list, &made.asked.question), -1);
    CHECK_EQUAL(candidates_fastest(&made.list), -1);
    CHECK_TRUE(made.at[0].row.frontier == 0 && made.at[0].row.knee == 0 && made.at[0].row.meets == 0);
}

/* One offer has no price, so GPU-hours decide: 3 nodes for 5 days are 15 node-days, the least. */
TEST(candidates_choose__counts_hours_if_a_price_is_missing)
{
    struct made made;
    make_nine(&made);
    CHECK_TRUE(candidates_have_money(&made.list));
    made.at[8].row.usd = NAN;
    CHECK_TRUE(!candidates_have_money(&made.list));
    CHECK_EQUAL(choose(&made, NAN, NAN, NAN, NAN), 5);
    CHECK_TRUE(made.at[5].row.frontier == 1 && made.at[1].row.frontier == 1);
}

/* In lists of random numbers a looser limit and one more candidate never make the answer dearer. */
TEST(candidates_choose__is_never_dearer_with_more_choice)
{
    struct rng *rng = rng_create(35, 0, RNG_DATES);
    for (int i = 0; i < 500; i++) {
        struct made made;
        make(&made);
        for (int k = 0; k < 6; k++)
            add(&made, k % 3, 1 + k, 1 + floor(5 * rng_uniform(rng)), 1 + floor(5 * rng_uniform(rng)),
                1 + floor(5 * rng_uniform(rng)));
        double days = 1 + 5 * rng_uniform(rng), least_usd = INFINITY;
        for (; days < 6; days += 1) {
            int32_t chosen = choose(&made, days, NAN, NAN, NAN);
            CHECK_TRUE(chosen >= 0 ? made.at[chosen].row.usd <= least_usd : isinf(least_usd));
            least_usd = chosen >= 0 ? made.at[chosen].row.usd : least_usd;
        }
        add(&made, 0, 9, 3, 1 + floor(5 * rng_uniform(rng)), 3);
        int32_t chosen = choose(&made, 6, NAN, NAN, NAN);
        CHECK_TRUE(made.at[chosen].row.usd <= least_usd);
    }
    rng_free(rng);
}

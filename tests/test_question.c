/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests read questions of capacity and refuse bad ones. */
#include "capacity/question.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "harness.h"
#include "scenario_fixture.h"

static const char text[] = "name: ask\n"
                           "model: llama-13b\n"
                           "device: h800\n"
                           "platform: hopper\n"
                           "data: {lengths: github, context: 64Ki, global_batch: 8}\n"
                           "price: {usd_per_gpu_hour: 2}\n"
                           "capacity:\n"
                           "  tokens: 2e12\n"
                           "  days: 30\n"
                           "  offers:\n"
                           "    - {name: rent, nodes: {from: 2, to: 32}}\n"
                           "    - {name: dear, price: {usd_per_gpu_hour: 3}, nodes: {from: 4, to: 4}}\n"
                           "systems: [{name: slimpack, plan: {tp: 2, pp: 1}}]\n";

/** Read the question with up to two --set. */
static bool read_with(const char *first, const char *second, struct question *question, struct error *err)
{
    const char *set[] = {first, second};
    *err = (struct error){0};
    fixture_data("question");
    return question_read(fixture_write("question/ask.yaml", text),
                         first == NULL    ? 0
                         : second == NULL ? 1
                                          : 2,
                         set, question, err);
}

TEST(question__reads_limits_and_offers)
{
    struct question question;
    struct error err;
    CHECK_TRUE(read_with("capacity.gpus=96", NULL, &question, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TRUE(question.tokens == 2e12 && question.limit[LIMIT_DAYS] == 30 && question.limit[LIMIT_GPUS] == 96);
    CHECK_TRUE(isnan(question.limit[LIMIT_USD]) && isnan(question.limit[LIMIT_MWH]));
    CHECK_EQUAL(question.n_offers, 2);
    CHECK_TEXT(question.offers[0].name, "rent");
    CHECK_TRUE(question.offers[0].from == 2 && question.offers[0].to == 32);
    CHECK_EQUAL(question.offers[1].scenario.platform.n_nodes, 4);
    CHECK_TRUE(question.offers[0].scenario.price.usd_per_gpu_hour == 2);
    CHECK_TRUE(question.offers[1].scenario.price.usd_per_gpu_hour == 3);
    CHECK_EQUAL(offer_gpus(&question.offers[0], 3), 24);
    CHECK_EQUAL(offer_least_spares(&question.offers[0]), 0);
    CHECK_EQUAL(offer_most_spares(&question.offers[0], 3), 0);
    question_free(&question);
}

/* Six FLOPs a token for each of 13e9 parameters, on 16 GPUs at their peak. */
TEST(question__least_days_are_those_at_the_peak)
{
    struct question question;
    struct error err;
    CHECK_TRUE(read_with(NULL, NULL, &question, &err));
    double peak = question.offers[0].scenario.device.peak_flop_per_s[PRECISION_BF16];
    CHECK_CLOSE(question_least_days(&question, &question.offers[0], 2), 2e12 * 6 * 13e9 / (16 * peak) / 86400, 0.03);
    CHECK_CLOSE(question_least_days(&question, &question.offers[0], 6),
                question_least_days(&question, &question.offers[0], 2) / 3, 1e-14);
    question_free(&question);
}

/* The sweep has neither money nor failures, so its points are the same for all of them. */
TEST(question__sizes_do_not_depend_on_money_and_limits)
{
    const int32_t offers[] = {0, 1, 0};
    const int64_t nodes[] = {2, 4, 32};
    static const char *const sets[] = {"price={usd_per_gpu_hour: 4}", "capacity.days=3", "engine=both",
                                       "capacity.usd=5e6"};
    struct question question;
    struct document document;
    struct error err;
    CHECK_TRUE(read_with(NULL, NULL, &question, &err));
    question_sizes(&question, 3, offers, nodes, &document);
    char *sizes = document_text(&document, 0);
    CHECK_CONTAINS(sizes, "ask.sizes");
    CHECK_CONTAINS(sizes, "critical-path");
    CHECK_CONTAINS(sizes, "platform.nodes: 32");
    CHECK_TRUE(strstr(sizes, "price") == NULL && strstr(sizes, "capacity") == NULL);
    document_free(&document);
    question_free(&question);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        CHECK_TRUE(read_with(sets[i], NULL, &question, &err));
        question_sizes(&question, 3, offers, nodes, &document);
        char *same = document_text(&document, 0);
        CHECK_TEXT(same, sizes);
        free(same);
        document_free(&document);
        question_free(&question);
    }
    free(sizes);
}

/* The first offer has 2 to 32 nodes of 8 GPUs. Only its sizes from 8 nodes on have GPU 63. */
TEST(question__a_fault_may_be_of_a_node_that_small_sizes_lack)
{
    struct question question;
    struct error err;
    CHECK_TRUE(read_with("faults=[{kind: gpu, gpus: [63], factor: 2}]", "capacity.offers.1.nodes={from: 8, to: 8}",
                         &question, &err));
    CHECK_TEXT(err.text, "");
    CHECK_EQUAL(question.offers[0].scenario.n_faults, 1);
    question_free(&question);
}

TEST(question__a_wrong_value_is_a_sentence)
{
    static const struct {
        const char *first, *second, *message;
    } wrong[] = {
        {"capacity.days=-1", NULL, "capacity.days: '-1' is out of range; allowed: a number [days], 0.001 to 1000000"},
        {"capacity.days=0", NULL, "capacity.days: '0' is out of range"},
        {"capacity.usd=-5", NULL, "capacity.usd: '-5' is out of range"},
        {"capacity.mwh=0", NULL, "capacity.mwh: '0' is out of range"},
        {"capacity.gpus=0", NULL, "capacity.gpus: '0' is out of range"},
        {"capacity.tokens=0", NULL, "capacity.tokens: '0' is out of range"},
        {"capacity.tokens=nan", NULL, "capacity.tokens: 'nan' is not a number"},
        {"capacity.dayz=3", NULL, "capacity.dayz: unknown key; did you mean 'days'?"},
        {"capacity.offers.0.nodes.from=0", NULL, "nodes.from: '0' is out of range"},
        {"capacity.offers.0.nodes.from=33", NULL, "nodes: from 33 to 32 is no size; allowed: from <= to"},
        {"capacity.offers.0.name=dear", NULL, "two offers have the name 'dear'"},
        {"capacity.offers.0.nodez=3", NULL, "nodez: unknown key; did you mean 'nodes'?"},
        {"capacity.offers.0.prize={}", NULL, "prize: unknown key; did you mean 'price'?"},
        {"capacity.offers.1.price={usd_per_gpu_hour: -2}", NULL, "price.usd_per_gpu_hour: '-2' is out of range"},
        {"capacity.offers.1.device=h801", NULL, "there is no device 'h801'; available: h800"},
        {"capacity.offers.1.platform=hoper", NULL, "there is no platform 'hoper'; did you mean 'hopper'?"},
        {"capacity.offers.1.platform={name: hopper, nic: -1GBps}", NULL, "platform.nic: '-1GBps' is out of range"},
        {"capacity.offers=[]", NULL, "capacity.offers: expected a list of at least one {name: ..., nodes:"},
        {"capacity.offers=none", NULL, "capacity.offers: expected a list of at least one {name: ..., nodes:"},
        {"capacity.usd=1e6", "price=~", "capacity.usd: the offer rent has no price"},
        {"capacity.usd=1e6", "price.usd_per_kwh=0.1",
         "capacity.usd: the offer rent has a tariff, but its power is unk"},
        {"capacity.confidence=0.4", NULL, "capacity.confidence: '0.4' is out of range; allowed: a number, 0.5 to 0.99"},
        {"faults=[{kind: uplink, nodes: [0], factor: 2}]", NULL, "faults: kind uplink has no meaning here"},
        {"faults=[{kind: gpu, gpus: [32], factor: 2}]", NULL,
         "faults: GPU 32 is not on the platform; allowed: 0 to 31"},
        {"capacity.mwh=100", NULL, "capacity.mwh: the power of the offer rent is unknown"},
        {"sweep={data.context: [16Ki, 32Ki]}", NULL, "sweep: is not allowed beside `capacity:`"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct question question;
        struct error err;
        CHECK_TRUE(!read_with(wrong[i].first, wrong[i].second, &question, &err));
        CHECK_CONTAINS(err.text, wrong[i].message);
        CHECK_EQUAL(err.status, ERROR_INVALID);
        question_free(&question);
    }
}

TEST(question__needs_capacity)
{
    struct question question;
    struct error err;
    char *without = fixture_replace(text, "capacity:\n", "sweep:\n");
    fixture_data("question");
    CHECK_TRUE(!question_read(fixture_write("question/none.yaml", without), 0, NULL, &question, &err));
    CHECK_CONTAINS(err.text, "capacity: is required; allowed: {tokens: 2e12, days: 30, offers:");
    question_free(&question);
    free(without);
    CHECK_TRUE(!question_read("question/absent.yaml", 0, NULL, &question, &err));
    CHECK_CONTAINS(err.text, "absent.yaml");
    question_free(&question);
}

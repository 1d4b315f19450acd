/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check power, energy and carbon dioxide against published runs. */
#include "operation/energy.h"

#include <math.h>

#include "harness.h"
#include "scenario/scenario.h"

static const struct price no_price = {
    .usd_per_gpu_hour = NAN, .own = {NAN, NAN, NAN, NAN}, .usd_per_kwh = NAN, .pue = NAN, .kg_co2_per_kwh = NAN};

static struct power shipped(const char *name)
{
    struct power power;
    struct error err = {0};
    CHECK_TRUE(power_read(scenario_data_dir(), name, &power, &err));
    CHECK_TEXT(err.text, "");
    return power;
}

/** Return a board that draws the same at each level, for model cards that count hours at a fixed power. */
static struct power board(double watts)
{
    return (struct power){.name = "board", .gpus = 1, .node = {watts, watts, watts}, .network_w = NAN};
}

static double carbon_t(double gpu_hours, double watts, double kg_per_kwh)
{
    struct price price = no_price;
    struct power power = board(watts);
    price.kg_co2_per_kwh = kg_per_kwh;
    struct energy_time time = {.busy_s = gpu_hours * 3600};
    return energy_kg_co2(&price, energy_j(&power, &price, &time)) / 1000;
}

/* Llama 2's model card: 31.22, 62.44 and 291.42 t for 7B, 13B and 70B. It cuts digits: no intensity rounds to all
 * three. */
TEST(energy__carbon_of_llama_2_has_the_printed_digits)
{
    static const struct {
        double hours, tonnes;
    } run[] = {{184320, 31.22}, {368640, 62.44}, {1720320, 291.42}};
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(floor(100 * carbon_t(run[i].hours, 400, 0.4235)), lround(100 * run[i].tonnes));
}

/* Llama 3.1's model card: 420, 2,040 and 8,930 t for 8B, 70B and 405B, in tens of tonnes. Its hours have three digits,
 * so each run implies an intensity of its own. */
TEST(energy__carbon_of_llama_3_1_has_the_printed_digits)
{
    static const struct {
        double hours, intensity, tonnes;
    } run[] = {{1.46e6, 0.411, 420}, {7.0e6, 0.416, 2040}, {30.84e6, 0.4137, 8930}};
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(lround(carbon_t(run[i].hours, 700, run[i].intensity) / 10), lround(run[i].tonnes / 10));
}

/* MLPerf Training v4.0, LoRA of Llama 2 70B: 7,157 W on one node, whose GPUs are always busy, and 5,086 W a node on 64
 * nodes, whose GPUs are busy 22% of the time. */
TEST(energy__a_node_of_h100_draws_what_mlperf_measured)
{
    struct power power = shipped("h100");
    struct energy_time busy = {.busy_s = 8}, mostly_waiting = {.waiting_s = 78, .busy_s = 22}, idle = {.idle_s = 1};
    CHECK_CLOSE(energy_node_w(&power, &busy), 7157, 1e-12);
    CHECK_CLOSE(energy_node_w(&power, &mostly_waiting), 5086, 0.01);
    CHECK_TRUE(energy_node_w(&power, &idle) >= 2000 && energy_node_w(&power, &idle) <= 2500);
}

/* A node of 2 GPUs with levels 100, 200 and 400 W and 10 W of switches. Half busy, a quarter waiting and a quarter idle
 * make 100 + 100/4 + 300/2 + 10 = 285 W. 20 GPU-seconds are 10 s of the node, and the site adds half. */
TEST(energy__is_node_power_times_node_time_times_pue)
{
    struct power power = {.name = "hand", .gpus = 2, .node = {100, 200, 400}, .network_w = 10};
    struct energy_time time = {.idle_s = 5, .waiting_s = 5, .busy_s = 10};
    struct price price = no_price;
    CHECK_CLOSE(energy_node_w(&power, &time), 285, 1e-12);
    CHECK_CLOSE(energy_j(&power, &price, &time), 2850, 1e-12);
    price.pue = 1.5;
    CHECK_CLOSE(energy_j(&power, &price, &time), 4275, 1e-12);
    CHECK_CLOSE(energy_kwh(7.2e6), 2, 1e-12);
    CHECK_TRUE(isnan(energy_kg_co2(&price, 4275)));
}

TEST(energy__without_levels_is_unknown)
{
    struct power none = {0};
    struct energy_time time = {.busy_s = 1};
    CHECK_TRUE(isnan(energy_node_w(&none, &time)) && isnan(energy_j(&none, &no_price, &time)));
}

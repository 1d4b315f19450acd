/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check money against published runs and by hand. */
#include "operation/money.h"

#include <math.h>
#include <string.h>

#include "document/document_read.h"
#include "harness.h"
#include "scenario/scenario.h"

static struct price price_of(const char *text)
{
    struct document document = {0};
    struct price price = {0};
    struct error err = {0};
    CHECK_TRUE(document_parse(text, strlen(text), "hand", &document, &err) &&
               price_read(&document, scenario_data_dir(), &price, &err));
    CHECK_TEXT(err.text, "");
    document_free(&document);
    return price;
}

/* DeepSeek-V3 (arXiv:2412.19437), table 1: 2.788M H800-hours at $2 are $5.576M. A trillion tokens take 180K hours,
 * which are 3.7 days on 2,048 GPUs. */
TEST(money__of_deepseek_v3_is_the_printed_one)
{
    struct price price = price_of("price: deepseek-v3-rent");
    CHECK_CLOSE(money_usd(&price, 8, 2.788e6, NAN), 5.576e6, 1e-12);
    CHECK_CLOSE(money_usd(&price, 8, 180e3, NAN), 360e3, 1e-12);
    CHECK_EQUAL(lround(10 * 180e3 / 2048 / 24), 37);
}

/* A node of 8 GPUs for $262,800 lasts 5 years of 8,760 h and is used for 75% of them: $8 an hour, and $1 a GPU. $13,140
 * a year for operation add $2 an hour, and $0.25 a GPU. */
TEST(money__of_an_own_node_is_shared_by_its_used_hours)
{
    struct price price = price_of("price: {own: {usd_per_node: 262800, years: 5, utilisation: 0.75}}");
    CHECK_CLOSE(money_usd_per_gpu_hour(&price, 8), 1, 1e-12);
    price = price_of("price: {own: {usd_per_node: 262800, years: 5, utilisation: 0.75, usd_per_node_year: 13140}, "
                     "usd_per_kwh: 0.5}");
    CHECK_CLOSE(money_usd_per_gpu_hour(&price, 8), 1.25, 1e-12);
    CHECK_CLOSE(money_usd(&price, 8, 100, 7.2e6), 100 * 1.25 + 2 * 0.5, 1e-12);
    CHECK_TRUE(isnan(money_usd(&price, 8, 100, NAN)));
}

TEST(money__without_a_price_of_gpus_is_not_known)
{
    struct price none = price_of("{}"), site = price_of("price: {usd_per_kwh: 0.1}");
    CHECK_TRUE(isnan(money_usd_per_gpu_hour(&none, 8)) && isnan(money_usd(&none, 8, 1, 1)));
    CHECK_TRUE(isnan(money_usd(&site, 8, 1, 1)));
}

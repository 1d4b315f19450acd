/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read prices from names, files and keys, and write them back. */
#include "scenario/price.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "document/document_read.h"
#include "document/document_set.h"
#include "harness.h"
#include "scenario_fixture.h"

/** Read a document with this text and --set assignment. */
static bool read_with(const char *text, const char *set, struct price *price, struct error *err)
{
    struct document document = {0};
    *err = (struct error){0};
    const char *data = fixture_data("price");
    fixture_write("price/model/price/site.yaml", "source: a test\nusd_per_kwh: 0.1\npue: 1.25\nkg_co2_per_kwh: 0\n");
    fixture_write("price/model/price/rent.yaml", "source: a test\nusd_per_gpu_hour: 2\n");
    bool ok = document_parse(text, strlen(text), "run.yaml", &document, err) &&
              (set == NULL || document_set(&document, set, err)) && price_read(&document, data, price, err);
    document_free(&document);
    return ok;
}

/* Keys beside a name change what its file says, also by --set of a scenario that names its price by one word. */
TEST(price__a_name_is_a_base_for_keys)
{
    struct price price;
    struct error err;
    CHECK_TRUE(read_with("price: site", "price.pue=1.5", &price, &err));
    CHECK_TEXT(err.text, "");
    CHECK_TEXT(price.name, "site");
    CHECK_TRUE(price.usd_per_kwh == 0.1 && price.pue == 1.5 && price.kg_co2_per_kwh == 0);
    CHECK_TRUE(isnan(price.usd_per_gpu_hour) && isnan(price.own.years));
    CHECK_TRUE(read_with("price: {name: rent, usd_per_gpu_hour: 3, usd_per_kwh: 0.2}", NULL, &price, &err));
    CHECK_TRUE(price.usd_per_gpu_hour == 3 && price.usd_per_kwh == 0.2 && isnan(price.pue));
}

TEST(price__is_not_given_without_the_key)
{
    struct price price;
    struct error err;
    static const char *const texts[] = {"{}", "price: ~", "price: {}"};
    for (int i = 0; i < 3; i++) {
        CHECK_TRUE(read_with(texts[i], NULL, &price, &err));
        CHECK_TRUE(isnan(price.usd_per_gpu_hour) && isnan(price.own.usd_per_node) && isnan(price.kg_co2_per_kwh));
    }
}

/* The written text holds every key, so a value that a scenario takes away from its file stays away. */
TEST(price__reads_back_what_it_writes)
{
    struct price price, again;
    struct error err;
    char *text = NULL, *rewritten = NULL;
    size_t n_bytes;
    CHECK_TRUE(read_with("price: {name: site, usd_per_kwh: none, own: {usd_per_node: 3e5, years: 4, utilisation: 0.9}}",
                         NULL, &price, &err));
    FILE *file = check_memstream(&text, &n_bytes);
    price_write(file, &price);
    CHECK(fclose(file) == 0);
    CHECK_CONTAINS(text, "kg_co2_per_kwh: 0\n");
    CHECK_CONTAINS(text, "usd_per_gpu_hour: none\n");
    CHECK_TRUE(read_with(text, NULL, &again, &err));
    CHECK_TRUE(isnan(again.usd_per_kwh) && again.pue == 1.25 && again.own.years == 4);
    file = check_memstream(&rewritten, &n_bytes);
    price_write(file, &again);
    CHECK(fclose(file) == 0);
    CHECK_TEXT(rewritten, text);
    free(text);
    free(rewritten);
}

TEST(price__a_wrong_value_is_one_sentence)
{
    static const struct {
        const char *line, *message;
    } wrong[] = {
        {"price: {usd_per_gpu_hour: 0}",
         "price.usd_per_gpu_hour: '0' is out of range; allowed: a number [$], 0.001 to"},
        {"price: {usd_per_gpu_hour: -2}", "price.usd_per_gpu_hour: '-2' is out of range"},
        {"price: {usd_per_kwh: -0.1}", "price.usd_per_kwh: '-0.1' is out of range"},
        {"price: {pue: 0.9}", "price.pue: '0.9' is out of range; allowed: a number, 1 to 10"},
        {"price: {own: {years: 3}}", "price.own: needs usd_per_node, years and utilisation"},
        {"price: {usd_per_gpu_hour: 2, own: {usd_per_node: 1, years: 3, utilisation: 1}}",
         "price: has both usd_per_gpu_hour, the rent of a GPU, and own; allowed: one of them"},
        {"price: {name: rent, own: {usd_per_node: 1, years: 3, utilisation: 1}}", "allowed: one of them"},
        {"price: nothing", "price: there is no price 'nothing'; available: rent, site"},
        {"price: {usd_per_hour: 2}", "price.usd_per_hour: unknown key; did you mean 'usd_per_gpu_hour'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct price price;
        struct error err;
        CHECK_TRUE(!read_with(wrong[i].line, NULL, &price, &err));
        CHECK_CONTAINS(err.text, wrong[i].message);
        CHECK_TRUE(strchr(err.text, '\n') == NULL || strchr(err.text, '\n')[1] == '\0');
    }
}

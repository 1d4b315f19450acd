/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests read and write numbers with micro-batches. */
#include "document/quantity.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static const struct {
    const char *text, *micro_batch;
    double value;
} good[] = {
    {"5", "-", 5},
    {"-2.5", "-", -2.5},
    {"+.5", "-", 0.5},
    {"1e3", "tokens", 1000},
    {"1E-3", "-", 0.001},
    {"256Ki", "tokens", 262144},
    {"25Gi", "bytes", 26843545600.0},
    {"4.35k", "-", 4350},
    {"80GiB", "bytes", 85899345920.0},
    {"80 GiB", "bytes", 85899345920.0},
    {"3.35TB/s", "bytes/s", 3.35e12},
    {"400Gbps", "bytes/s", 50e9},
    {"200GBps", "bytes/s", 200e9},
    {"400Gb/s", "bytes/s", 50e9},
    {"400Gbit/s", "bytes/s", 50e9},
    {"50GB/s", "bytes/s", 50e9},
    {"1.5GiB/s", "bytes/s", 1.5 * 0x1p30},
    {"3.2 Tbit/s", "bytes/s", 400e9},
    {"8bps", "bytes/s", 1},
    {"5e10", "bytes/s", 5e10},
    {"1e6", "bytes/s", 1e6},
    {"0", "bytes/s", 0},
    {"2us", "s", 2e-6},
    {"0.3 ms", "s", 3e-4},
    {"7ns", "s", 7e-9},
    {"1.5s", "s", 1.5},
    {"3", "s", 3},
    {"989.4TFLOPS", "flop/s", 989.4e12},
    {"989.4TFLOP/s", "flop/s", 989.4e12},
    {"989.4Tf", "flop/s", 989.4e12},
    {"1Mi", "documents", 1048576},
};

static const struct {
    const char *text, *micro_batch;
} bad[] = {
    {"", "-"},
    {"nan", "-"},
    {"inf", "-"},
    {"-inf", "-"},
    {"infinity", "s"},
    {"1e999", "-"},
    {"0x10", "-"},
    {"1_000", "-"},
    {"five", "-"},
    {"5 apples", "-"},
    {"1e", "-"},
    {".", "-"},
    {"-", "-"},
    {"5 5", "-"},
    {"64K", "tokens"},
    {"64KiB", "-"},
    {"80Gb", "bytes"},
    {"80GiB", "tokens"},
    {"5B/s", "bytes"},
    {"2m", "s"},
    {"2ks", "s"},
    {"5B", "bytes/s"},
    {"400 gbps", "bytes/s"},
    {"400G", "bytes/s"},
    {"400Gb", "bytes/s"},
    {"400GB", "bytes/s"},
    {"400Gbit", "bytes/s"},
    {"400gbit/s", "bytes/s"},
    {"1.2.3", "-"},
    {"1mB", "bytes"},
    {"5 ", "-"},
    {"1e300P", "-"},
    {"1,5", "-"},
};

TEST(quantity__has_the_exact_value_of_every_form)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = NAN;
        CHECK_TRUE(quantity_parse(good[i].text, good[i].micro_batch, &value));
        if (value != good[i].value)
            printf("    %s: %.17g is not %.17g\n", good[i].text, value, good[i].value);
        CHECK_TRUE(value == good[i].value);
    }
}

TEST(quantity__refuses_what_is_no_quantity_of_the_micro_batch)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = 0;
        if (quantity_parse(bad[i].text, bad[i].micro_batch, &value))
            printf("    taken: '%s' as %s\n", bad[i].text, bad[i].micro_batch);
        CHECK_TRUE(!quantity_parse(bad[i].text, bad[i].micro_batch, &value));
    }
}

/* The resolved scenario is written with %.17g, which must come back as the same double. The seed is 1. */
TEST(quantity__keeps_all_bits_of_seventeen_digits)
{
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        char text[64];
        double number, again;
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        memcpy(&number, &state, sizeof number);
        if (!isfinite(number))
            continue;
        snprintf(text, sizeof text, "%.17g", number);
        if (!quantity_parse(text, i % 2 ? "s" : "bytes", &again) || again != number) {
            printf("    case %d: %s\n", i, text);
            CHECK_TRUE(again == number);
        }
    }
    CHECK_TRUE(state != 1);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "harness.h"
#include "sweep/ledger.h"

TEST(ledger_enter__refuses_an_unknown_status)
{
    struct manifest manifest = {.n_points = 1, .id = (uint64_t[]){7}};
    struct ledger ledger;
    struct error err = {0};
    int64_t packed[] = {7, RESULT_KILLED, RESULT_N};
    CHECK_TRUE(ledger_open(&manifest, &ledger, &err));
    CHECK_EQUAL(ledger_find(&ledger, packed, sizeof packed), 0);
    CHECK_TRUE(ledger_enter(&ledger, 0, 0, 16, packed, sizeof packed));
    CHECK_EQUAL(ledger.entries[0].status, RESULT_KILLED);
    CHECK_TRUE(!ledger_enter(&ledger, 0, 0, 16, packed, 8));
    packed[1] = RESULT_N;
    CHECK_TRUE(!ledger_enter(&ledger, 0, 0, 16, packed, sizeof packed));
    packed[1] = -1;
    CHECK_TRUE(!ledger_enter(&ledger, 0, 0, 16, packed, sizeof packed));
    ledger_close(&ledger);
}

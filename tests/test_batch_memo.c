/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that a batch keeps values by their keys. */
#include "lengths/batch_memo.h"

#include <stdint.h>

#include "harness.h"

TEST(batch_memo__keeps_copies_by_the_bytes_of_a_key)
{
    struct batch_memo *memo = batch_memo_create();
    int32_t key[2] = {1, 2}, value = 5;
    CHECK_TRUE(batch_memo_find(memo, key, sizeof key) == NULL);
    batch_memo_keep(memo, key, sizeof key, &value, sizeof value);
    value = 6;
    batch_memo_keep(memo, key, sizeof *key, &value, sizeof value); /* a shorter key is another one */
    key[1] = 3;
    CHECK_TRUE(batch_memo_find(memo, key, sizeof key) == NULL);
    key[1] = 2;
    CHECK_EQUAL(*(const int32_t *)batch_memo_find(memo, key, sizeof key), 5);
    CHECK_EQUAL(*(const int32_t *)batch_memo_find(memo, key, sizeof *key), 6);
    batch_memo_free(memo);
}

TEST(batch_memo__none_keeps_nothing)
{
    const int32_t key = 1;
    batch_memo_keep(NULL, &key, sizeof key, &key, sizeof key);
    CHECK_TRUE(batch_memo_find(NULL, &key, sizeof key) == NULL);
    batch_memo_free(NULL);
}

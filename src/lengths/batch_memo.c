/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lengths/batch_memo.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct entry {
    struct entry *next;
    size_t key_bytes;
    void *key, *value;
};

struct batch_memo {
    struct entry *first;
};

struct batch_memo *batch_memo_create(void)
{
    return check_calloc(1, sizeof(struct batch_memo));
}

static void *copy_of(const void *bytes, size_t n_bytes)
{
    void *copy = check_malloc(n_bytes);
    memcpy(copy, bytes, n_bytes);
    return copy;
}

const void *batch_memo_find(const struct batch_memo *memo, const void *key, size_t key_bytes)
{
    for (const struct entry *entry = memo != NULL ? memo->first : NULL; entry != NULL; entry = entry->next)
        if (entry->key_bytes == key_bytes && memcmp(entry->key, key, key_bytes) == 0)
            return entry->value;
    return NULL;
}

void batch_memo_keep(struct batch_memo *memo, const void *key, size_t key_bytes, const void *value, size_t n_bytes)
{
    if (memo == NULL)
        return;
    struct entry *entry = check_malloc(sizeof *entry);
    *entry = (struct entry){memo->first, key_bytes, copy_of(key, key_bytes), copy_of(value, n_bytes)};
    memo->first = entry;
}

void batch_memo_free(struct batch_memo *memo)
{
    struct entry *entry = memo != NULL ? memo->first : NULL;
    while (entry != NULL) {
        struct entry *next = entry->next;
        free(entry->key);
        free(entry->value);
        free(entry);
        entry = next;
    }
    free(memo);
}

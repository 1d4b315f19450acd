/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/ledger.h"

#include <gsl/gsl_version.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/hash.h"
#include "dag/graph.h"
#include "execute/execute.h"
#include "sweep/pack.h"
#include "trace/trace.h"

struct ledger_id {
    uint64_t id;
    int32_t point;
};

static int compare_ids(const void *a, const void *b)
{
    const struct ledger_id *left = a, *right = b;
    return left->id != right->id ? COMPARE(left->id, right->id) : COMPARE(left->point, right->point);
}

/** Of bsearch: ids stand once. */
static int compare_id(const void *key, const void *entry)
{
    return COMPARE(*(const uint64_t *)key, ((const struct ledger_id *)entry)->id);
}

bool ledger_open(const struct manifest *manifest, struct ledger *ledger, struct error *err)
{
    size_t n = (size_t)manifest->n_points;
    *ledger = (struct ledger){.manifest = manifest};
    ledger->sorted = check_calloc(n, sizeof *ledger->sorted);
    ledger->entries = check_calloc(n, sizeof *ledger->entries);
    for (int32_t i = 0; i < manifest->n_points; i++) {
        ledger->sorted[i] = (struct ledger_id){manifest->id[i], i};
        ledger->entries[i].journal = -1;
    }
    qsort(ledger->sorted, n, sizeof *ledger->sorted, compare_ids);
    for (size_t i = 1; i < n; i++)
        if (ledger->sorted[i].id == ledger->sorted[i - 1].id)
            return error_set(err,
                             "sweep: points %d and %d are the same scenario; a value stands twice in a list, or one "
                             "key overrides another",
                             ledger->sorted[i - 1].point, ledger->sorted[i].point);
    return true;
}

int32_t ledger_find(const struct ledger *ledger, const void *payload, size_t n_bytes)
{
    struct unpack unpack = {.at = payload, .n_left = n_bytes, .ok = true};
    uint64_t id = (uint64_t)unpack_integer(&unpack);
    const struct ledger_id *found =
        bsearch(&id, ledger->sorted, (size_t)ledger->manifest->n_points, sizeof *ledger->sorted, compare_id);
    return unpack.ok && found != NULL ? found->point : -1;
}

bool ledger_enter(struct ledger *ledger, int32_t point, int32_t journal, int64_t offset, const void *payload,
                  size_t n_bytes)
{
    struct unpack unpack = {.at = payload, .n_left = n_bytes, .ok = true};
    unpack_integer(&unpack);
    int64_t status = unpack_integer(&unpack);
    if (!unpack.ok || status < 0 || status >= RESULT_N)
        return false;
    ledger->entries[point] = (struct ledger_entry){journal, (enum result_status)status, offset, n_bytes};
    return true;
}

bool ledger_damaged(const char *path, int64_t offset, struct error *err)
{
    return error_set(err,
                     "%s: the result at byte %" PRId64 " is damaged; remove this file, and its sweep computes the "
                     "points again",
                     path, offset);
}

bool ledger_source(void *context, int32_t point, struct result *result, struct error *err)
{
    const struct ledger *ledger = context;
    const struct ledger_entry *entry = &ledger->entries[point];
    if (ledger->stop != NULL && *ledger->stop != 0)
        return false;
    const struct journal *journal = &ledger->journals[entry->journal];
    void *payload = journal_payload(journal, entry->offset, entry->n_bytes, err);
    if (payload == NULL)
        return false;
    bool ok = result_unpack(payload, entry->n_bytes, result) && result->id == ledger->manifest->id[point];
    free(payload);
    return ok || ledger_damaged(journal->path, entry->offset, err);
}

void ledger_close(struct ledger *ledger)
{
    free(ledger->sorted);
    free(ledger->entries);
    *ledger = (struct ledger){0};
}

char *ledger_build(void)
{
    struct error err = {0};
    uint64_t hash = HASH_START;
    hash_file("/proc/self/exe", &hash, &err); /* without /proc the versions must do */
    return check_asprintf("slimsim %s (program %016" PRIx64 ", SimGrid %s, igraph %s, GSL %s, HDF5 %s)",
                          SLIMSIM_VERSION, hash, execute_simgrid_version(), graph_igraph_version(), gsl_version,
                          trace_hdf5_version());
}

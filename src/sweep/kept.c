/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/csv_rows.h"
#include "trace/output.h"
#include "trace/trace.h"

/** What the points in NAME.points.csv have in common with a sweep. */
struct kept {
    const struct manifest *sweep;
    uint64_t *ids;     /* of the sweep, ascending */
    int64_t n_rows;    /* the header among them */
    bool held, remade; /* all its points are in the sweep; one command made both */
};

static int compare_ids(const void *one, const void *other)
{
    return COMPARE(*(const uint64_t *)one, *(const uint64_t *)other);
}

/* Columns as `book` writes them: point, id, ..., command. */
static bool visit(void *context, const struct csv_row *row, struct error *err)
{
    struct kept *kept = context;
    (void)err;
    if (kept->n_rows++ == 0 || row->n_fields < 3)
        return true;
    uint64_t id = strtoull(row->fields[1], NULL, 16);
    kept->held = kept->held && bsearch(&id, kept->ids, (size_t)kept->sweep->n_points, sizeof id, compare_ids) != NULL;
    char *command = manifest_command(kept->sweep, (int32_t)strtol(row->fields[0], NULL, 10));
    kept->remade = kept->remade && strcmp(command, row->fields[row->n_fields - 1]) == 0;
    free(command);
    return true;
}

/** Whether the points of DIRECTORY/NAME.points.csv are this sweep's, as far as can be read. */
static bool is_of_sweep(const char *directory, const char *name, const struct manifest *sweep)
{
    char *path = check_asprintf("%s/%s.points.csv", directory, name);
    struct error wrong = {0};
    struct kept kept = {.sweep = sweep, .held = true, .remade = true};
    kept.ids = check_calloc((size_t)sweep->n_points, sizeof *kept.ids);
    memcpy(kept.ids, sweep->id, (size_t)sweep->n_points * sizeof *kept.ids);
    qsort(kept.ids, (size_t)sweep->n_points, sizeof *kept.ids, compare_ids);
    FILE *file = fopen(path, "re");
    bool ok = file != NULL && csv_rows_visit(file, path, false, visit, &kept, &wrong) && (kept.held || kept.remade);
    if (file != NULL)
        fclose(file);
    free(kept.ids);
    free(path);
    return ok;
}

static bool is_run_table(const char *path)
{
    return output_begins_with(path, "system,");
}

static bool is_sweep_table(const char *path)
{
    return output_begins_with(path, "point,");
}

static bool is_table(const char *path)
{
    return is_run_table(path) || is_sweep_table(path);
}

static const char another[] = "another folder (--output DIR) or name (--set name=NAME)";

/** Whether no foreign file has the name of one that is written. */
static bool none_is_foreign(const char *directory, const char *name, bool sweep, struct error *err)
{
    static const struct {
        const char *suffix, *what;
        output_recognizer *is_ours;
    } files[] = {{".h5", "trace", trace_is_at}, {".csv", "table", is_table}, {".points.csv", "table", is_sweep_table}};
    bool ok = true;
    for (int i = 0; i < 2 + sweep && ok; i++) {
        char *path = check_asprintf("%s/%s%s", directory, name, files[i].suffix);
        ok = output_may_replace(path, files[i].is_ours, files[i].what, another, err);
        free(path);
    }
    return ok;
}

bool kept_may_replace(const char *directory, const char *name, const struct manifest *sweep, struct error *err)
{
    if (!none_is_foreign(directory, name, sweep != NULL, err))
        return false;
    char *path = check_asprintf("%s/%s.csv", directory, name);
    const char *what = NULL;
    if (sweep == NULL)
        what = is_sweep_table(path) ? "the table of a sweep" : NULL;
    else if (is_run_table(path))
        what = "the table of a single run";
    else if (is_sweep_table(path) && !is_of_sweep(directory, name, sweep))
        what = "the table of another sweep";
    bool ok = what == NULL || error_set(err, "%s is %s, which this %s would replace; %s keeps both", path, what,
                                        sweep != NULL ? "sweep" : "run", another);
    free(path);
    return ok;
}

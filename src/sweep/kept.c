/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/kept.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/check.h"
#include "base/compare.h"
#include "base/csv_rows.h"

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

/** The first bytes of a file as text; none where there is no file. */
static void read_first(const char *path, size_t size, char *first)
{
    FILE *file = fopen(path, "re");
    first[file != NULL ? fread(first, 1, size - 1, file) : 0] = '\0';
    if (file != NULL)
        fclose(file);
}

/** A folder in the place of a file would be met only when all is computed. */
static bool no_folder(const char *directory, const char *name, bool sweep, struct error *err)
{
    static const char *const suffix[] = {".h5", ".csv", ".points.csv"};
    bool ok = true;
    for (int i = 0; i < 2 + sweep && ok; i++) {
        char *path = check_asprintf("%s/%s%s", directory, name, suffix[i]);
        struct stat status;
        if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode))
            ok = error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: %s", path, strerror(EISDIR));
        free(path);
    }
    return ok;
}

bool kept_may_replace(const char *directory, const char *name, const struct manifest *sweep, struct error *err)
{
    if (!no_folder(directory, name, sweep != NULL, err))
        return false;
    char *path = check_asprintf("%s/%s.csv", directory, name), first[16];
    const char *what = NULL;
    read_first(path, sizeof first, first);
    if (strncmp(first, "system,", strlen("system,")) == 0)
        what = sweep != NULL ? "the table of a single run" : NULL;
    else if (strncmp(first, "point,", strlen("point,")) == 0)
        what = sweep == NULL                          ? "the table of a sweep"
               : !is_of_sweep(directory, name, sweep) ? "the table of another sweep"
                                                      : NULL;
    else if (*first != '\0')
        what = "no table of slimsim";
    bool ok = what == NULL || error_set(err,
                                        "%s is %s, which this %s would replace; another folder (--output DIR) or name "
                                        "(--set name=NAME) keeps both",
                                        path, what, sweep != NULL ? "sweep" : "run");
    free(path);
    return ok;
}

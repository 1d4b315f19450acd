/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

bool kept_may_replace(const char *directory, const char *name, bool sweep, struct error *err)
{
    const char *own = sweep ? "point," : "system,", *other = sweep ? "system," : "point,";
    char *path, first[16] = "";
    CHECK(asprintf(&path, "%s/%s.csv", directory, name) > 0);
    FILE *file = fopen(path, "re");
    size_t n = file != NULL ? fread(first, 1, sizeof first - 1, file) : 0;
    bool ok = n == 0 || strncmp(first, own, strlen(own)) == 0;
    if (!ok)
        error_set_status(err, ERROR_CANT_CREATE,
                         "%s is %s, which this %s would replace; another folder (--output DIR) or name (--set "
                         "name=NAME) keeps both",
                         path,
                         strncmp(first, other, strlen(other)) != 0 ? "no table of slimsim"
                         : sweep                                   ? "the table of a single run"
                                                                   : "the table of a sweep",
                         sweep ? "sweep" : "run");
    if (file != NULL)
        fclose(file);
    free(path);
    return ok;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/unmodelled.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

struct row {
    const char *kind, *pattern, *text;
};

/* The patterns of a line are alternatives. */
#define UNMODELLED(kind, patterns, reason) {kind, "@(" patterns ")", reason},
#define ALSO_CALLED(kind, patterns, name)
static const struct row reasons[] = {
#include "base/unmodelled.def"
};
#undef UNMODELLED
#undef ALSO_CALLED

#define UNMODELLED(kind, patterns, reason)
#define ALSO_CALLED(kind, patterns, name) {kind, "@(" patterns ")", name},
static const struct row other_names[] = {
#include "base/unmodelled.def"
};
#undef UNMODELLED
#undef ALSO_CALLED

/** Return the text of the first row that has the name, or NULL. A key's hyphens count as underscores. */
static const char *find(const struct row *rows, size_t n_rows, const char *kind, const char *name)
{
    enum { LONGEST = 100 }; /* fnmatch takes the cube of the length, and no known name is longer */
    char spelled[LONGEST + 1];
    if (strlen(name) > LONGEST)
        return NULL;
    strcpy(spelled, name);
    for (char *at = spelled; strcmp(kind, "key") == 0 && (at = strchr(at, '-')) != NULL;)
        *at = '_';
    for (size_t i = 0; i < n_rows; i++)
        if (strcmp(kind, rows[i].kind) == 0 && fnmatch(rows[i].pattern, spelled, FNM_EXTMATCH | FNM_CASEFOLD) == 0)
            return rows[i].text;
    return NULL;
}

const char *unmodelled_reason(const char *kind, const char *name)
{
    return find(reasons, sizeof reasons / sizeof *reasons, kind, name);
}

const char *unmodelled_name_here(const char *kind, const char *name)
{
    return find(other_names, sizeof other_names / sizeof *other_names, kind, name);
}

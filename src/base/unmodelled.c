/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/unmodelled.h"

#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

/* The patterns of a line are alternatives. */
#define UNMODELLED(kind, patterns, reason) {kind, "@(" patterns ")", reason},
static const struct {
    const char *kind, *pattern, *reason;
} names[] = {
#include "base/unmodelled.def"
};
#undef UNMODELLED

const char *unmodelled_reason(const char *kind, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(kind, names[i].kind) == 0 && fnmatch(names[i].pattern, name, FNM_EXTMATCH | FNM_CASEFOLD) == 0)
            return names[i].reason;
    return NULL;
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 64, SHORTEST = 3 };

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/** Return the optimal string alignment distance of two names of at most LONGEST letters. */
static int32_t edit_distance(const char *a, const char *b)
{
    int32_t d[LONGEST + 1][LONGEST + 1];
    int32_t n = (int32_t)strlen(a), m = (int32_t)strlen(b);
    for (int32_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (int32_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (int32_t i = 1; i <= n; i++)
        for (int32_t j = 1; j <= m; j++) {
            int32_t replaced = d[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
            d[i][j] = smaller(replaced, 1 + smaller(d[i - 1][j], d[i][j - 1]));
            if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]))
                d[i][j] = smaller(d[i][j], 1 + d[i - 2][j - 2]);
        }
    return d[n][m];
}

const char *nearest_name(const char *name, const char *const *candidates, int32_t n_candidates)
{
    const char *best = NULL;
    int32_t best_distance = LONGEST + 1;
    size_t length = strlen(name);
    for (int32_t i = 0; i < n_candidates && length <= LONGEST; i++) {
        size_t other = strlen(candidates[i]);
        if (other > LONGEST)
            continue;
        int32_t allowed = (int32_t)(length > other ? length : other) / 3;
        int32_t distance = edit_distance(name, candidates[i]);
        if (distance <= (allowed > 1 ? allowed : 1) && distance < best_distance) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}

/** Write "did you mean 'x' or 'y'? " with as many candidates as fit. Each begins with the name. If none does, write
 * "". */
static void hint_beginnings(const char *name, const char *const *candidates, int32_t n_candidates,
                            char hint[NEAREST_HINT_BYTES])
{
    size_t length = strlen(name), used = 0;
    for (int32_t i = 0; i < n_candidates && length >= SHORTEST; i++) {
        size_t room = strlen(candidates[i]) + sizeof "did you mean ''? ";
        if (strncasecmp(name, candidates[i], length) == 0 && used + room <= NEAREST_HINT_BYTES)
            used += (size_t)sprintf(hint + used, "%s'%s'", used > 0 ? " or " : "did you mean ", candidates[i]);
    }
    strcpy(hint + used, used > 0 ? "? " : "");
}

void nearest_hint(const char *name, const char *const *candidates, int32_t n_candidates, char hint[NEAREST_HINT_BYTES])
{
    hint_beginnings(name, candidates, n_candidates, hint);
    if (hint[0] != '\0')
        return;
    const char *nearest = nearest_name(name, candidates, n_candidates);
    if (nearest != NULL)
        snprintf(hint, NEAREST_HINT_BYTES, "did you mean '%s'? ", nearest);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool colour_is_shown(FILE *file)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if ((none != NULL && *none != '\0') || terminal == NULL || *terminal == '\0' || strcmp(terminal, "dumb") == 0)
        return false;
    return isatty(fileno(file)); /* the descriptor of a memory stream is -1 */
}

void colour_write(FILE *file, enum colour colour, const char *text, size_t n_bytes)
{
    static const char *const begin[] = {[COLOUR_FIRST] = "\033[1;32m", [COLOUR_MISFIT] = "\033[31m"};
    bool shown = n_bytes > 0 && colour != COLOUR_NONE && colour_is_shown(file);
    if (shown)
        fputs(begin[colour], file);
    fwrite(text, 1, n_bytes, file);
    if (shown)
        fputs("\033[0m", file);
}

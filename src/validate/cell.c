/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "validate/cell.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *cell_text(const struct cells *cells, const char *column)
{
    return measured_known(cells->measured, cells->row, column);
}

bool cell_has(const struct cells *cells, const char *column, const char *part)
{
    return strcasestr(cell_text(cells, column), part) != NULL;
}

/** Whether one of the words stands at `at`, as long as `bytes`. */
static bool is_word(const char *at, size_t bytes, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(words[i]) == bytes && strncasecmp(at, words[i], bytes) == 0)
            return true;
    return false;
}

/** Whether "no", "not", "non", "without" or "w/o" stands before `at` in its clause, which "with" and "but" end; or "un"
 * in its word. */
static bool is_negated(const char *text, const char *at)
{
    static const char *const words[] = {"no", "not", "non", "un", "without", "w/o"}, *const ends[] = {"with", "but"};
    for (;;) {
        while (at > text && strchr(" -_/", at[-1]) != NULL)
            at--;
        const char *end = at;
        while (at > text && strchr(" -_/,;:(+", at[-1]) == NULL)
            at--;
        if (at - text >= 2 && strncasecmp(at - 2, "w/o", (size_t)(end - at) + 2) == 0)
            at -= 2;
        if (at == end || is_word(at, (size_t)(end - at), ends, sizeof ends / sizeof *ends))
            return false;
        if (is_word(at, (size_t)(end - at), words, sizeof words / sizeof *words))
            return true;
    }
}

/** Whether "off", "disabled", "false", "none", "never", "not used", or at the end of a clause "no", "not" or "0"
 * follows: behind the rest of an option's name ("_gather=False") and "grad", "param", "gather" or "reduce". */
static bool is_off(const char *behind)
{
    static const char *const words[] = {"off", "disabled", "false", "none", "never"}, *const last[] = {"no", "not",
                                                                                                       "0"};
    static const char *const between[] = {"grad", "param", "gather", "reduce"};
    while (isalnum((unsigned char)*behind) || (strchr("-_", *behind) != NULL && *behind != '\0'))
        behind++;
    for (;;) {
        behind += strspn(behind, " =:");
        size_t bytes = strcspn(behind, " =:,;()+");
        if (is_word(behind, bytes, words, sizeof words / sizeof *words) || strncasecmp(behind, "not used", 8) == 0)
            return true;
        if (is_word(behind, bytes, last, sizeof last / sizeof *last))
            return behind[bytes] == '\0' || strchr(",;)", behind[bytes]) != NULL;
        if (!is_word(behind, bytes, between, sizeof between / sizeof *between))
            return false;
        behind += bytes;
    }
}

bool cell_says(const struct cells *cells, const char *column, const char *part)
{
    const char *text = cell_text(cells, column);
    for (const char *at = strcasestr(text, part); at != NULL; at = strcasestr(at + 1, part))
        if (!is_negated(text, at) && !is_off(at + strlen(part)))
            return true;
    return false;
}

bool cell_is_none(const struct cells *cells, const char *column)
{
    static const char *const words[] = {"no", "off", "false", "none", "without", "disabled"};
    const char *text = cell_text(cells, column);
    size_t bytes = strcspn(text, " ,;:(");
    return strcmp(text, "0") == 0 || strncasecmp(text, "not used", 8) == 0 ||
           is_word(text, bytes, words, sizeof words / sizeof *words);
}

void cell_skip(const struct cells *cells, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (cells->reason[0] == '\0')
        vsnprintf(cells->reason, SETTING_REASON, format, arguments);
    va_end(arguments);
}

void cell_assume(const struct cells *cells, const char *format, ...)
{
    size_t used = strlen(cells->assumed);
    va_list arguments;
    va_start(arguments, format);
    if (used > 0)
        used += (size_t)snprintf(cells->assumed + used, SETTING_ASSUMED - used, "; ");
    if (used < SETTING_ASSUMED)
        vsnprintf(cells->assumed + used, SETTING_ASSUMED - used, format, arguments);
    va_end(arguments);
}

bool cell_flag(const struct cells *cells, const char *column, bool empty)
{
    static const char *const words[2][4] = {{"0", "no", "off", "false"}, {"1", "yes", "on", "true"}};
    const char *text = cell_text(cells, column);
    for (int value = 0; value < 2; value++)
        if (is_word(text, strcspn(text, " ,;:("), words[value], 4) || (value == 0 && cell_is_none(cells, column)))
            return value == 1;
    if (*text != '\0')
        cell_skip(cells, "%s '%s' is neither 0 nor 1", column, text);
    return empty;
}

int64_t cell_whole(const struct cells *cells, const char *column)
{
    double value;
    if (!measured_number(cells->measured, cells->row, column, &value, cells->err))
        return 0;
    if (value <= INT32_MAX && value == (double)(int64_t)value)
        return (int64_t)value;
    error_add(cells->err, "%s:%d: %s: '%s' is not a whole number up to %d", cells->measured->path,
              cells->measured->lines[cells->row], column, cell_text(cells, column), INT32_MAX);
    return 0;
}

int64_t cell_count(const struct cells *cells, const char *column)
{
    bool word = isalpha((unsigned char)*cell_text(cells, column)) != 0;
    return word && cell_is_none(cells, column) ? 1 : cell_whole(cells, column);
}

int64_t cell_degree(const struct cells *cells, const char *column)
{
    int64_t value = cell_is_none(cells, column) ? 0 : cell_whole(cells, column);
    return value > 0 ? value : 1;
}

int64_t cell_tensor(const struct cells *cells)
{
    int64_t n = cell_whole(cells, "n_gpus"), dp = cell_count(cells, "dp");
    int64_t others = dp * cell_degree(cells, "pp") * cell_degree(cells, "cp");
    if (*cell_text(cells, "tp") != '\0')
        return cell_degree(cells, "tp");
    bool told = n == dp || *cell_text(cells, "pp") != '\0';
    return told && others > 0 && n % others == 0 ? n / others : 0;
}

bool cell_is_megatron(const struct cells *cells)
{
    return cell_has(cells, "framework", "Megatron") || cell_has(cells, "framework", "NeMo");
}

bool cell_is_megatron_gpt(const struct cells *cells)
{
    const char *model = cell_text(cells, "model");
    bool rotary = measured_past_name(model, "GPT-NeoX") != model || measured_past_name(model, "GPT-J") != model ||
                  measured_past_name(model, "GPT-OSS") != model;
    return strncasecmp(model, "gpt", 3) == 0 && !rotary && cell_is_megatron(cells);
}

bool cell_is_mpt(const struct cells *cells)
{
    return strncasecmp(cell_text(cells, "model"), "MPT-", 4) == 0;
}

bool cell_is_before_flash(const struct cells *cells)
{
    return cell_has(cells, "gpu", "A100") && cell_has(cells, "framework", "Megatron") &&
           !cell_has(cells, "framework", "Core") && !cell_has(cells, "framework", "Bridge") &&
           !cell_has(cells, "framework", "NeMo");
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/quantity.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Suffixes that fit a unit. A value may also have none, except a bandwidth with a prefix (quantity.h). */
static const struct {
    const char *unit, *suffix;
    double parts; /* number of the suffix in one unit */
} suffixes[] = {
    {"bytes", "B", 1},       {"bytes/s", "B/s", 1},   {"bytes/s", "Bps", 1}, {"bytes/s", "bps", 8},
    {"bytes/s", "b/s", 8},   {"bytes/s", "bit/s", 8}, {"s", "s", 1},         {"flop/s", "FLOPS", 1},
    {"flop/s", "FLOP/s", 1}, {"flop/s", "f", 1}, /* "f" is SimGrid's */
    {"-", "%", 100},         {"-", ":1", 1},          {"days", "d", 1},
};
enum { N_SUFFIXES = sizeof suffixes / sizeof *suffixes };

/* Prefixes. "K" is left out because some mean 1000 and some 1024. Small prefixes divide, so 2us is the double nearest
 * to 2e-6. */
static const struct {
    const char *name;
    double factor, divisor;
} prefixes[] = {
    {"k", 1e3, 1},     {"M", 1e6, 1},     {"G", 1e9, 1},     {"T", 1e12, 1},    {"P", 1e15, 1},
    {"Ki", 0x1p10, 1}, {"Mi", 0x1p20, 1}, {"Gi", 0x1p30, 1}, {"Ti", 0x1p40, 1}, {"Pi", 0x1p50, 1},
    {"m", 1, 1e3},     {"u", 1, 1e6},     {"n", 1, 1e9},
};
enum { N_PREFIXES = sizeof prefixes / sizeof *prefixes };

static const char *skip_digits(const char *text)
{
    while (isdigit((unsigned char)*text))
        text++;
    return text;
}

/** Find the end of a decimal number. Hexadecimal digits, "inf" and "nan" are refused. @return `text` itself if there is
 * no number */
static const char *number_end(const char *text)
{
    const char *at = text + (*text == '+' || *text == '-');
    const char *fraction = skip_digits(at);
    size_t n_digits = (size_t)(fraction - at);
    const char *end = fraction;
    if (*fraction == '.') {
        end = skip_digits(fraction + 1);
        n_digits += (size_t)(end - fraction - 1);
    }
    if (n_digits == 0)
        return text;
    if (*end == 'e' || *end == 'E') {
        const char *exponent = end + 1 + (end[1] == '+' || end[1] == '-');
        if (isdigit((unsigned char)*exponent))
            return skip_digits(exponent);
    }
    return end;
}

/** Multiply `number` by a prefix of n letters, in parts of a unit. This is done in long double, so 4.35k is 4350 and
 * not its neighbour. */
static bool scale(const char *prefix, size_t n, bool small, long double number, double *value)
{
    for (int i = 0; i < N_PREFIXES; i++)
        if (strlen(prefixes[i].name) == n && strncmp(prefixes[i].name, prefix, n) == 0 &&
            (prefixes[i].divisor > 1) == small) {
            *value = (double)(number * prefixes[i].factor / prefixes[i].divisor);
            return isfinite(*value);
        }
    return false;
}

/** Return the length without the unit's own name, "days" or "day", and blanks before it. */
static size_t without_unit(const char *text, size_t n, const char *unit)
{
    size_t length = strlen(unit);
    for (int plural = 0; plural < 2; plural++, length--)
        if (length > 1 && n >= length && strncmp(text + n - length, unit, length) == 0) {
            n -= length;
            while (n > 0 && text[n - 1] == ' ')
                n--;
            return n;
        }
    return n;
}

/** Multiply a time in minutes, hours or days. @return whether the unit is one of these */
static bool long_time(const char *unit, double *value)
{
    double seconds = strcmp(unit, "min") == 0 ? 60 : strcmp(unit, "h") == 0 ? 3600 : strcmp(unit, "d") == 0 ? 86400 : 0;
    *value *= seconds;
    return seconds > 0 && isfinite(*value);
}

bool quantity_parse(const char *text, const char *unit, double *value)
{
    const char *rest = number_end(text);
    if (rest == text)
        return false;
    *value = strtod(text, NULL);
    long double number = strtold(text, NULL);
    bool blank = *rest == ' ';
    while (*rest == ' ')
        rest++;
    bool seconds = strcmp(unit, "s") == 0, bandwidth = strcmp(unit, "bytes/s") == 0;
    size_t n = strlen(rest);
    if (seconds && n > 0 && rest[n - 1] != 's')
        return long_time(rest, value);
    for (int i = 0; i < N_SUFFIXES; i++) {
        size_t suffix = strlen(suffixes[i].suffix);
        if (strcmp(suffixes[i].unit, unit) != 0 || n < suffix || strcmp(rest + n - suffix, suffixes[i].suffix) != 0)
            continue;
        *value /= suffixes[i].parts;
        return n == suffix ? isfinite(*value) : scale(rest, n - suffix, seconds, number / suffixes[i].parts, value);
    }
    size_t length = n;
    n = seconds ? n : without_unit(rest, n, unit);
    if (n == 0)
        return !(blank && length == 0) && isfinite(*value);
    bandwidth = bandwidth && n == length;
    return !seconds && !bandwidth && scale(rest, n, false, number, value);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

/** Return the name behind a maker's: "Qwen3-8B" of "Qwen/Qwen3-8B". Paths keep all. */
static const char *without_maker(const char *name)
{
    const char *slash = strchr(name, '/');
    bool maker = slash != NULL && slash > name && *name != '.' && slash[1] != '\0' && strchr(slash + 1, '/') == NULL;
    return maker ? slash + 1 : name;
}

/** Return the length of the word or number at the beginning, and 0 at a separator. */
static size_t part_length(const char *text)
{
    size_t n = 0;
    while (is_digit(*text) && (is_digit(text[n]) || (text[n] == '.' && is_digit(text[n + 1]))))
        n++;
    while (!is_digit(*text) && isalpha((unsigned char)text[n]))
        n++;
    return n;
}

static bool is_left_out(const char *part, size_t n)
{
    static const char *const words[] = {"meta", "nvidia", "hf", "base", "chat", "instruct", "it", "pt"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == n && strncasecmp(words[i], part, n) == 0)
            return true;
    return false;
}

void name_form(const char *name, char form[NAME_BYTES])
{
    size_t used = 0;
    for (const char *at = without_maker(name); *at != '\0';) {
        size_t n = part_length(at);
        if (n > 0 && !is_left_out(at, n) && used + n + 2 < NAME_BYTES) {
            if (used > 0)
                form[used++] = '-';
            for (size_t i = 0; i < n; i++)
                form[used++] = (char)tolower((unsigned char)at[i]);
        }
        at += n > 0 ? n : 1;
    }
    form[used] = '\0';
}

void name_plain(const char *name, char plain[NAME_BYTES])
{
    static const char maker[] = "nvidia-";
    snprintf(plain, NAME_BYTES, "%s", without_maker(name));
    for (char *c = plain; *c != '\0'; c++)
        if (*c == ' ' || *c == '_')
            *c = '-';
    if (strncasecmp(plain, maker, strlen(maker)) == 0)
        memmove(plain, plain + strlen(maker), strlen(plain + strlen(maker)) + 1);
}

int32_t name_find(const char *name, const char *const *candidates, int32_t n_candidates)
{
    char form[NAME_BYTES], other[NAME_BYTES];
    int32_t found = -1, n = 0;
    name_form(name, form);
    for (int32_t i = 0; i < n_candidates; i++) {
        name_form(candidates[i], other);
        if (*form != '\0' && strcmp(form, other) == 0) {
            found = i;
            n++;
        }
    }
    return n == 1 ? found : -1;
}

/** Copy the numbers of a form: "3-8-" of "qwen-3-8-b". */
static void copy_numbers(const char *form, char numbers[NAME_BYTES])
{
    size_t used = 0;
    for (const char *at = form; *at != '\0';) {
        size_t n = strcspn(at, "-");
        if (is_digit(*at)) {
            memcpy(numbers + used, at, n);
            used += n;
            numbers[used++] = '-';
        }
        at += n + (at[n] == '-');
    }
    numbers[used] = '\0';
}

/** Copy the first word of a form. */
static void copy_family(const char *form, char family[NAME_BYTES])
{
    size_t n = strcspn(form, "-");
    memcpy(family, form, n);
    family[n] = '\0';
}

bool name_same_family(const char *a, const char *b)
{
    char form[2][NAME_BYTES], family[2][NAME_BYTES];
    name_form(a, form[0]);
    name_form(b, form[1]);
    for (int i = 0; i < 2; i++)
        copy_family(form[i], family[i]);
    return *family[0] != '\0' && strcmp(family[0], family[1]) == 0;
}

/** Return whether a hint from one name to the other keeps family and numbers. The beginning of a name may mean it. */
static bool may_mean(const char *form, const char *candidate)
{
    char other[NAME_BYTES], numbers[2][NAME_BYTES], family[2][NAME_BYTES];
    name_form(candidate, other);
    copy_numbers(form, numbers[0]);
    copy_numbers(other, numbers[1]);
    copy_family(form, family[0]);
    copy_family(other, family[1]);
    const char *const only[] = {family[1]};
    size_t least = strlen(family[0]) < strlen(family[1]) ? strlen(family[0]) : strlen(family[1]);
    bool same_family = strcmp(family[0], family[1]) == 0 || (least >= 4 && nearest_name(family[0], only, 1) != NULL);
    size_t n = strlen(form);
    bool begins = strncmp(other, form, n) == 0 && other[n] == '-';
    return begins || (same_family && strcmp(numbers[0], numbers[1]) == 0);
}

void name_hint(const char *name, const char *const *candidates, int32_t n_candidates, char hint[NEAREST_HINT_BYTES])
{
    char form[NAME_BYTES];
    const char **possible = check_calloc((size_t)n_candidates + 1, sizeof *possible);
    int32_t n = 0;
    name_form(name, form);
    for (int32_t i = 0; i < n_candidates; i++)
        if (strpbrk(form, "0123456789") == NULL || may_mean(form, candidates[i]))
            possible[n++] = candidates[i];
    nearest_hint(name, possible, n, hint);
    free(possible);
}

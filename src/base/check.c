/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "base/check.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

_Noreturn void check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "slimsim: bug: %s does not hold (%s:%d)\n", condition, file, line);
    abort();
}

_Noreturn void check_out_of_memory(const char *wanted)
{
    struct rlimit limit;
    fprintf(stderr, "slimsim: out of memory (%s wanted", wanted);
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        fprintf(stderr, ", the limit of the process is %zu", (size_t)limit.rlim_cur);
    fputs(")\n", stderr);
    exit(ERROR_FAILED);
}

static void *check_memory(void *memory, size_t bytes)
{
    char wanted[32];
    if (memory != NULL)
        return memory;
    snprintf(wanted, sizeof wanted, "%zu bytes", bytes);
    check_out_of_memory(wanted);
}

void *check_malloc(size_t bytes)
{
    return check_memory(malloc(bytes > 0 ? bytes : 1), bytes);
}

void *check_calloc(size_t n, size_t size)
{
    return check_memory(calloc(n > 0 ? n : 1, size > 0 ? size : 1), n * size);
}

void *check_realloc(void *old, size_t bytes)
{
    return check_memory(realloc(old, bytes > 0 ? bytes : 1), bytes);
}

char *check_strdup(const char *text)
{
    return check_memory(strdup(text), strlen(text) + 1);
}

char *check_strndup(const char *text, size_t most_bytes)
{
    return check_memory(strndup(text, most_bytes), strnlen(text, most_bytes) + 1);
}

char *check_asprintf(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    int n = vsnprintf(NULL, 0, format, list);
    va_end(list);
    CHECK(n >= 0);
    size_t bytes = (size_t)n + 1;
    char *text = check_malloc(bytes);
    va_start(list, format);
    vsnprintf(text, bytes, format, list);
    va_end(list);
    return text;
}

FILE *check_memstream(char **text, size_t *n_bytes)
{
    return check_memory(open_memstream(text, n_bytes), BUFSIZ);
}

void *check_grow(void *array, size_t n, size_t *capacity, size_t size)
{
    if (n < *capacity)
        return array;
    *capacity = *capacity > 0 ? 2 * *capacity : 16;
    return check_realloc(array, *capacity * size);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These functions stop the program at once, in every build, on a bug or if memory runs out. */
#ifndef SLIMSIM_BASE_CHECK_H
#define SLIMSIM_BASE_CHECK_H

#include <stddef.h>
#include <stdio.h>

/** If the condition does not hold, print it with its file and line, and abort. Only a bug can break it. */
#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

_Noreturn void check_failed(const char *condition, const char *file, int line);

/**
 * Report that no memory is left, and end with ERROR_FAILED. Call it if a library reports that it found no memory.
 *
 * @param wanted  what the memory was for, such as "text of YAML"
 */
_Noreturn void check_out_of_memory(const char *wanted);

/** These never return NULL. A size of 0 gives a pointer that free() accepts. */
void *check_malloc(size_t bytes);
void *check_calloc(size_t n, size_t size);
void *check_realloc(void *old, size_t bytes);
char *check_strdup(const char *text);
char *check_strndup(const char *text, size_t most_bytes);

/** Return the formatted text, which may have any length. The caller frees it. */
char *check_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Call open_memstream. It never returns NULL. */
FILE *check_memstream(char **text, size_t *n_bytes);

/**
 * Make room for one more element at the end of a growing array. *capacity doubles when n reaches it.
 *
 * @return the array, which may have moved
 */
void *check_grow(void *array, size_t n, size_t *capacity, size_t size);

#endif

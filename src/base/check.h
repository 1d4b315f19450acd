/* SPDX-License-Identifier: GPL-3.0-or-later */
/** Stop at once on a bug or when memory runs out, in every build. */
#ifndef SLIMSIM_BASE_CHECK_H
#define SLIMSIM_BASE_CHECK_H

#include <stddef.h>
#include <stdio.h>

/** A condition that only a bug can break: print it with its place and abort. */
#define CHECK(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE__, __LINE__))

_Noreturn void check_failed(const char *condition, const char *file, int line);

/** Say that there is no memory and end with ERROR_FAILED: where a library returns that it found none.
 * @param wanted  for what: "text of YAML" */
_Noreturn void check_out_of_memory(const char *wanted);

/** malloc, calloc, realloc, strdup, strndup that never return NULL (size 0 gives a pointer that free takes). */
void *check_malloc(size_t bytes);
void *check_calloc(size_t n, size_t size);
void *check_realloc(void *old, size_t bytes);
char *check_strdup(const char *text);
char *check_strndup(const char *text, size_t most_bytes);

/** Formatted text, however long. Caller frees. */
char *check_asprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** open_memstream that never returns NULL. */
FILE *check_memstream(char **text, size_t *n_bytes);

/**
 * Room for one more element at the end of a growing array: doubles *capacity when n reaches it.
 * @return the array, perhaps moved
 */
void *check_grow(void *array, size_t n, size_t *capacity, size_t size);

#endif

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "document/library.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/nearest.h"
#include "base/unmodelled.h"

enum { PATH_BYTES = 1024 };

bool library_is_path(const char *name, const char *suffix)
{
    size_t n = strlen(name), length = strlen(suffix);
    return n > length && strcmp(name + n - length, suffix) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char **library_list(const char *folder, const char *suffix, size_t *n_names)
{
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return NULL;
    size_t capacity = 0;
    char **names = check_malloc(0);
    *n_names = 0;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (library_is_path(entry->d_name, suffix)) {
            names = check_grow(names, *n_names, &capacity, sizeof *names);
            names[*n_names] = check_strdup(entry->d_name);
            names[*n_names][strlen(entry->d_name) - strlen(suffix)] = '\0';
            (*n_names)++;
        }
    closedir(directory);
    qsort(names, *n_names, sizeof *names, compare_names);
    return names;
}

static bool refuse_name(const char *folder, const char *name, const char *suffix, const char *what, struct error *err)
{
    size_t n = 0;
    const char *reason = unmodelled_reason(what, name);
    if (reason != NULL && strstr(reason, "allowed: ") != NULL)
        return error_add(err, "there is no %s '%.100s'; %s", what, name, reason);
    char **names = library_list(folder, suffix, &n), hint[256] = "", available[2000] = "";
    if (names == NULL)
        return error_add(err, "there is no %s '%.100s', since the folder %.500s cannot be read: %s", what, name, folder,
                         strerror(errno));
    if (reason != NULL)
        snprintf(hint, sizeof hint, "%s; ", reason);
    else
        nearest_hint(name, (const char *const *)names, (int32_t)n, hint);
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(available);
        if (used + strlen(names[i]) + 2 < sizeof available)
            snprintf(available + used, sizeof available - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
    return error_add(err, "there is no %s '%.100s'; %savailable: %s, or the path of a file that ends in %s", what, name,
                     hint, n > 0 ? available : "none", suffix);
}

bool library_find(const char *folder, const char *name, const char *suffix, const char *what, char path[1024],
                  struct error *err)
{
    if (library_is_path(name, suffix)) {
        if (strlen(name) >= PATH_BYTES)
            return error_add(err, "the path of a %s is longer than %d bytes", what, PATH_BYTES - 1);
        snprintf(path, PATH_BYTES, "%s", name);
        return true;
    }
    int length = snprintf(path, PATH_BYTES, "%s/%s%s", folder, name, suffix);
    if (*name == '\0' || strchr(name, '/') != NULL || length >= PATH_BYTES || access(path, F_OK) != 0)
        return refuse_name(folder, name, suffix, what, err);
    return true;
}

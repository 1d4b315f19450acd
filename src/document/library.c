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
#include "base/name.h"
#include "base/unmodelled.h"

enum { PATH_BYTES = 1024, SHORT_LIST = 16 };

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

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; names != NULL && i < n; i++)
        free(names[i]);
    free(names);
}

/** Return whether a name is one of lengths. Their key and list are not called by what they name. */
static bool is_lengths(const char *what)
{
    return strstr(what, "law or table") != NULL;
}

/** Write the names to choose from: all of a short list, otherwise those of the same family and where all are listed. */
static void print_available(const char *name, char *const *names, size_t n, const char *what, char text[1000])
{
    size_t n_listed = 0, used = 0;
    *text = '\0';
    for (size_t i = 0; i < n; i++)
        if ((n <= SHORT_LIST || name_same_family(name, names[i])) && used + strlen(names[i]) + 3 < 1000)
            used += (size_t)sprintf(text + used, "%s%s", n_listed++ > 0 ? ", " : "", names[i]);
    bool lengths = is_lengths(what);
    if (n > SHORT_LIST)
        snprintf(text + used, 1000 - used, "%sthose of `slimsim list %s%s`", n_listed > 0 ? ", and all " : "",
                 lengths ? "lengths" : what, lengths ? "" : "s");
    else if (n == 0)
        strcpy(text, "none");
}

/** Write FOLDER/NAME.suffix. @return whether there is such a file */
static bool file_of(const char *folder, const char *name, const char *suffix, char path[PATH_BYTES])
{
    int length = snprintf(path, PATH_BYTES, "%s/%s%s", folder, name, suffix);
    return *name != '\0' && strchr(name, '/') == NULL && length < PATH_BYTES && access(path, F_OK) == 0;
}

/** Write the only shipped name that is meant by another way to write it. @return whether there is one */
static bool shipped_name(const char *folder, const char *name, const char *suffix, const char *what,
                         char shipped[NAME_BYTES])
{
    char path[PATH_BYTES], form[NAME_BYTES], plain[NAME_BYTES];
    name_form(name, form);
    name_plain(name, plain);
    const char *here = unmodelled_name_here(what, *form != '\0' ? form : plain); /* "hf" has no form */
    size_t n = 0;
    char **names = library_list(folder, suffix, &n);
    int32_t found = names != NULL ? name_find(name, (const char *const *)names, (int32_t)n) : -1;
    bool called = here != NULL && unmodelled_reason(what, plain) == NULL && file_of(folder, here, suffix, path);
    if (found >= 0 || called)
        snprintf(shipped, NAME_BYTES, "%s", found >= 0 ? names[found] : here);
    free_names(names, n);
    return found >= 0 || called;
}

static bool refuse_name(const char *folder, const char *name, const char *suffix, const char *what, struct error *err)
{
    size_t n = 0;
    char plain[NAME_BYTES], shipped[NAME_BYTES];
    name_plain(name, plain);
    const char *reason = unmodelled_reason(what, plain);
    if (reason != NULL && strstr(reason, "allowed: ") != NULL)
        return error_add(err, "there is no %s '%.100s'; %s", what, name, reason);
    char **names = library_list(folder, suffix, &n), hint[256] = "", available[1000];
    if (names == NULL)
        return error_add(err, "there is no %s '%.100s', since the folder %.500s cannot be read: %s", what, name, folder,
                         strerror(errno));
    if (reason != NULL)
        snprintf(hint, sizeof hint, "%s; ", reason);
    else if (shipped_name(folder, name, suffix, what, shipped))
        snprintf(hint, sizeof hint, "did you mean '%s'? ", shipped);
    else
        name_hint(name, (const char *const *)names, (int32_t)n, hint);
    if (strchr(name, ',') != NULL)
        snprintf(hint, sizeof hint, "one name is allowed, and --sweep %s=A,B takes several; ",
                 is_lengths(what) ? "data.lengths" : what);
    if (n > SHORT_LIST && strstr(hint, " or ") != NULL) /* the family is listed in full */
        *hint = '\0';
    print_available(name, names, n, what, available);
    free_names(names, n);
    return error_add(err, "there is no %s '%.100s'; %savailable: %s, or the path of a file that ends in %s%s", what,
                     name, hint, available, suffix, strcmp(what, "model") == 0 ? ", or of a config.json" : "");
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
    return file_of(folder, name, suffix, path) || refuse_name(folder, name, suffix, what, err);
}

void library_shipped(const char *folder, const char *suffix, const char *what, char *name, size_t size)
{
    char path[PATH_BYTES], shipped[NAME_BYTES];
    if (!library_is_path(name, suffix) && !file_of(folder, name, suffix, path) &&
        shipped_name(folder, name, suffix, what, shipped))
        snprintf(name, size, "%s", shipped);
}

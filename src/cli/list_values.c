/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "cli/list_values.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "capacity/question.h"
#include "document/library.h"
#include "scenario/scenario_read.h"
#include "system/system.h"

enum { KEY_BYTES = 256 };

/** Keys whose values are names of files in a folder of the data. */
static const struct {
    const char *key, *folder;
} named[] = {{"model", "model/llm"},
             {"device", "model/gpu"},
             {"platform", "platforms"},
             {"platform.name", "platforms"},
             {"framework", "model/framework"},
             {"data.lengths", "model/lengths"},
             {"power", "model/power"},
             {"price", "model/price"},
             {"price.name", "model/price"},
             {"reliability", "model/reliability"},
             {"reliability.name", "model/reliability"},
             {"plan_space.name", "model/plan_space"}};

/** Keys that are a word or a mapping of keys; the tables have only the keys below them. */
static const char *const words[] = {"platform", "price", "reliability", "systems.N.plan"};

/** Copy a key with N for each number: "systems.0.plan" becomes "systems.N.plan". */
static void number_free(const char *key, char text[KEY_BYTES])
{
    size_t n = 0;
    for (; *key != '\0' && n + 1 < KEY_BYTES; key++)
        if (!isdigit((unsigned char)*key) || n == 0 || (text[n - 1] != '.' && text[n - 1] != 'N'))
            text[n++] = *key;
        else if (text[n - 1] == '.')
            text[n++] = 'N';
    text[n] = '\0';
}

/** Return the text of `slimsim list keys`, or NULL. The caller frees it. */
static char *keys_text(struct error *err)
{
    char *text = NULL;
    size_t n_bytes;
    FILE *file = check_memstream(&text, &n_bytes);
    bool ok = scenario_list_keys(file, err);
    question_list_keys(file);
    CHECK(fclose(file) == 0);
    if (ok)
        return text;
    free(text);
    return NULL;
}

/** Take a line of the text, and its first and fourth column. Columns end with two blanks. @return false at the end */
static bool take_line(char **text, const char **key, const char **allowed)
{
    char *line = strsep(text, "\n"), *column[5] = {line};
    if (line == NULL)
        return false;
    for (int i = 1; i < 5 && column[i - 1] != NULL; i++) {
        column[i] = strstr(column[i - 1], "  ");
        if (column[i] != NULL) {
            *column[i]++ = '\0';
            column[i] += strspn(column[i], " ");
        }
    }
    bool row = islower((unsigned char)*line) && column[4] != NULL && strcmp(line, "key") != 0;
    *key = row ? line : NULL;
    *allowed = row ? column[3] : NULL;
    return true;
}

/** Print a key with 0 for N. */
static void print_key(const char *key)
{
    for (; *key != '\0'; key++)
        putchar(*key == 'N' ? '0' : *key);
    putchar('\n');
}

bool list_key_names(struct error *err)
{
    char *text = keys_text(err), *rest = text;
    const char *key, *allowed;
    for (size_t i = 0; text != NULL && i < sizeof words / sizeof *words; i++)
        print_key(words[i]);
    while (take_line(&rest, &key, &allowed))
        if (key != NULL)
            print_key(key);
    free(text);
    return text != NULL;
}

/** Print the names of files for a key that has such. @return whether it has */
static bool print_files(const char *key)
{
    const char *folder = NULL;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(named[i].key, key) == 0)
            folder = named[i].folder;
    if (folder == NULL)
        return false;
    size_t n = 0;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", scenario_data_dir(), folder);
    char **names = library_list(path, ".yaml", &n);
    for (size_t i = 0; names != NULL && i < n; i++) {
        puts(names[i]);
        free(names[i]);
    }
    free(names);
    return true;
}

/** Print the words of "none|[a|b]" or "1 to 8|none". */
static void print_choices(const char *allowed)
{
    for (const char *at = allowed; *at != '\0'; at += strspn(at, "|[]")) {
        at += strspn(at, "[");
        size_t n = strcspn(at, "|]");
        if (memchr(at, ' ', n) == NULL && strcmp(allowed, "-") != 0)
            printf("%.*s\n", (int)n, at);
        at += n;
    }
}

bool list_values(const char *key, struct error *err)
{
    static const char offer[] = "capacity.offers.N.", space[] = "systems.N.plan_space.";
    char wanted[KEY_BYTES];
    number_free(key, wanted);
    bool of_offer = strncmp(wanted, offer, strlen(offer)) == 0;
    const char *short_key = of_offer                                     ? wanted + strlen(offer)
                            : strncmp(wanted, space, strlen(space)) == 0 ? wanted + strlen("systems.N.")
                                                                         : wanted;
    bool found = print_files(short_key);
    if (strcmp(wanted, "data.lengths") == 0)
        puts("fixed");
    if (strcmp(wanted, "systems.N.plan") == 0) {
        puts("auto");
        found = true;
    }
    for (int i = 0; strcmp(wanted, "systems.N.name") == 0 && training_systems[i] != NULL; i++)
        puts(training_systems[i]->name);
    char *text = found ? NULL : keys_text(err), *rest = text;
    const char *name, *allowed;
    while (take_line(&rest, &name, &allowed))
        if (name != NULL && (strcmp(name, wanted) == 0 || strcmp(name, short_key) == 0)) {
            print_choices(allowed);
            found = true;
        }
    free(text);
    return found || error_set(err, "there is no key '%.100s'; `slimsim list values` names all", key);
}

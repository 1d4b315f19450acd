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
#include "document/schema_text.h"
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

/** Visit the columns of every key that `slimsim list keys` prints. */
static bool visit_keys(void (*visit)(void *context, const char *const text[SCHEMA_N_COLUMNS]), void *context,
                       struct error *err)
{
    char *prose = NULL;
    size_t n_bytes;
    struct schema_listing listing = {check_memstream(&prose, &n_bytes), visit, context};
    bool ok = scenario_list_keys(&listing, err);
    question_list_keys(&listing);
    CHECK(fclose(listing.file) == 0);
    free(prose);
    return ok;
}

/** Print a key with 0 for N. */
static void print_key(const char *key)
{
    for (; *key != '\0'; key++)
        putchar(*key == 'N' ? '0' : *key);
    putchar('\n');
}

static void visit_name(void *context, const char *const text[SCHEMA_N_COLUMNS])
{
    (void)context;
    if (*text[0] != ' ') /* a key of a model's file */
        print_key(text[0]);
}

bool list_key_names(struct error *err)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        print_key(words[i]);
    return visit_keys(visit_name, NULL, err);
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

/** A key that is looked up, in full and without what an offer or an entry stands for. */
struct wanted {
    const char *key, *short_key;
    bool found;
};

static void visit_wanted(void *context, const char *const text[SCHEMA_N_COLUMNS])
{
    struct wanted *wanted = context;
    if (strcmp(text[0], wanted->key) != 0 && strcmp(text[0], wanted->short_key) != 0)
        return;
    print_choices(text[3]);
    wanted->found = true;
}

bool list_values(const char *key, struct error *err)
{
    static const char offer[] = "capacity.offers.N.", space[] = "systems.N.plan_space.";
    char text[KEY_BYTES];
    number_free(key, text);
    bool of_offer = strncmp(text, offer, strlen(offer)) == 0;
    struct wanted wanted = {text, text, false};
    if (of_offer)
        wanted.short_key += strlen(offer);
    else if (strncmp(text, space, strlen(space)) == 0)
        wanted.short_key += strlen("systems.N.");
    wanted.found = print_files(wanted.short_key);
    if (strcmp(text, "data.lengths") == 0)
        puts("fixed");
    if (strcmp(text, "systems.N.plan") == 0) {
        puts("auto");
        wanted.found = true;
    }
    for (int i = 0; strcmp(text, "systems.N.name") == 0 && training_systems[i] != NULL; i++)
        puts(training_systems[i]->name);
    bool ok = wanted.found || visit_keys(visit_wanted, &wanted, err);
    return ok && (wanted.found || error_set(err, "there is no key '%.100s'; `slimsim list values` names all", key));
}

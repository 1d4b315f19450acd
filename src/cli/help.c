/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim help`. It prints a page of docs/ as text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/help_text.h"
#include "document/library.h"
#include "scenario/scenario.h"

/** A topic has a name to ask for, the heading of its text, and the text in Markdown. */
struct topic {
    char *name, *heading, *text;
};

struct topics {
    struct topic *topics;
    size_t n, capacity;
};

static const struct command commands[] = {
#define COMMAND(name, meaning) {#name, meaning, command_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/** Read docs/NAME. The caller frees the text. @return NULL with a message if it cannot be read */
static char *read_page(const char *name, struct error *err)
{
    char *path = check_asprintf("%s/docs/%s", scenario_data_dir(), name), *text = NULL;
    size_t capacity = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL || getdelim(&text, &capacity, '\0', file) < 0) {
        error_set(err, "%s: cannot read this page: %s", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (file != NULL)
        fclose(file);
    free(path);
    return text;
}

/** Add a topic whose text begins with its heading. @param text  it is copied, n bytes of it */
static void add(struct topics *all, const char *name, const char *text, size_t n)
{
    all->topics = check_grow(all->topics, all->n, &all->capacity, sizeof *all->topics);
    const char *heading = text + strspn(text, "# ");
    all->topics[all->n++] =
        (struct topic){check_strdup(name), check_strndup(heading, strcspn(heading, "\n")), check_strndup(text, n)};
}

/** Add docs/FOLDERNAME.md. */
static bool add_page(struct topics *all, const char *folder, const char *name, struct error *err)
{
    char *path = check_asprintf("%s%s.md", folder, name), *text = read_page(path, err);
    bool ok = text != NULL;
    if (ok)
        add(all, name, text, strlen(text));
    free(text);
    free(path);
    return ok;
}

/** Add each page of docs/FOLDER. */
static bool add_folder(struct topics *all, const char *folder, struct error *err)
{
    size_t n;
    char *path = check_asprintf("%s/docs/%s", scenario_data_dir(), folder), **names = library_list(path, ".md", &n);
    bool ok = names != NULL || error_set(err, "%s: cannot read this folder: %s", path, strerror(errno));
    for (size_t i = 0; names != NULL && i < n; i++) {
        ok = ok && add_page(all, folder, names[i], err);
        free(names[i]);
    }
    free(names);
    free(path);
    return ok;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    const char **name = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (*name != NULL)
        argp_error(state, "only one topic is allowed; '%s' is the second", argument);
    *name = argument;
    return 0;
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "[TOPIC|COMMAND]",
    .doc = "Print a page of the documentation, or the options of a command. Without a topic, list the topics."};

/** Print a page, or without one the list of all, through the pager if stdout is a terminal. */
static bool show(const struct topics *all, const struct topic *page, struct error *err)
{
    const char *pager = getenv("PAGER");
    if (pager == NULL)
        pager = "if command -v less >/dev/null; then exec less -FRX; fi; exec cat";
    bool paged = isatty(STDOUT_FILENO) && *pager != '\0' && strcmp(pager, "cat") != 0;
    fflush(stdout);
    FILE *file = paged ? popen(pager, "w") : stdout;
    if (file == NULL)
        return error_set(err, "cannot start the pager '%s': %s", pager, strerror(errno));
    if (page != NULL) {
        help_print(page->text, help_columns(), file);
    } else {
        fputs("`slimsim help TOPIC` prints one of these pages:\n\n", file);
        for (size_t i = 0; i < all->n; i++)
            fprintf(file, "  %-30s %s\n", all->topics[i].name, all->topics[i].heading);
        fputs("\n`slimsim --help` lists the commands, and `slimsim COMMAND --help` a command's options.\n", file);
    }
    int status = paged ? pclose(file) : 0;
    if (WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127))
        return error_set(err, "PAGER: no program can be run as '%s'; PAGER=cat prints without one", pager);
    return true;
}

/** Find a topic. Without one say which are near. @return NULL: there is none */
static const struct topic *find(const struct topics *all, const char *name)
{
    const char **names = check_malloc(all->n * sizeof *names);
    const struct topic *found = NULL;
    char hint[NEAREST_HINT_BYTES];
    for (size_t i = 0; i < all->n; i++) {
        names[i] = all->topics[i].name;
        if (strcmp(names[i], name) == 0)
            found = &all->topics[i];
    }
    if (found == NULL) {
        nearest_hint(name, names, (int32_t)all->n, hint);
        fprintf(stderr, "slimsim: there is no topic '%s'; %s`slimsim help' lists the topics\n", name, hint);
    }
    free(names);
    return found;
}

int command_help(int argc, char **argv)
{
    const char *name = NULL;
    struct error err = {0};
    struct topics all = {0};
    parse_arguments(&argp, argc, argv, &name);
    for (int i = 0; name != NULL && i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) {
            char *program = check_asprintf("slimsim %s", name), option[] = "--help";
            return commands[i].run(2, (char *[]){program, option, NULL}); /* argp prints and ends the program */
        }
    bool ok = add_page(&all, "", "start", &err) && add_folder(&all, "howto/", &err) &&
              add_page(&all, "", "reference", &err) && add_folder(&all, "reference/", &err) &&
              add_page(&all, "", "packages", &err) && add_page(&all, "", "python", &err) &&
              add_page(&all, "", "model", &err) && add_folder(&all, "model/", &err);
    const struct topic *page = ok && name != NULL ? find(&all, name) : NULL;
    int status = ok && name != NULL && page == NULL ? ERROR_USAGE
                 : !ok || !show(&all, page, &err)   ? command_fail(&err)
                                                    : EXIT_SUCCESS;
    for (size_t i = 0; i < all.n; i++) {
        free(all.topics[i].name);
        free(all.topics[i].heading);
        free(all.topics[i].text);
    }
    free(all.topics);
    return status;
}

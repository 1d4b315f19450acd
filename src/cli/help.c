/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is `slimsim help`. It prints a page of docs/ as text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/nearest.h"
#include "cli/commands.h"
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

/** Print Markdown without the targets of links. Blocks of code stay as they are. */
static void print_text(const char *text)
{
    bool code = false;
    for (const char *c = text; *c != '\0'; c++) {
        if ((c == text || c[-1] == '\n') && strncmp(c, "```", 3) == 0)
            code = !code;
        size_t name = *c == '[' && !code ? strcspn(c + 1, "[]") : 0;
        size_t target = name > 0 && strncmp(c + 1 + name, "](", 2) == 0 ? strcspn(c + name + 3, " )\n") : 0;
        if (target > 0 && c[name + 3 + target] == ')') {
            fwrite(c + 1, 1, name, stdout);
            c += name + 3 + target;
        } else {
            putchar(*c);
        }
    }
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

static void list_topics(const struct topics *all)
{
    puts("`slimsim help TOPIC` prints one of these pages:\n");
    for (size_t i = 0; i < all->n; i++)
        printf("  %-30s %s\n", all->topics[i].name, all->topics[i].heading);
    puts("\n`slimsim --help` lists the commands, and `slimsim COMMAND --help` a command's options.");
}

static int print_topic(const struct topics *all, const char *name)
{
    const char **names = check_malloc(all->n * sizeof *names);
    for (size_t i = 0; i < all->n; i++) {
        names[i] = all->topics[i].name;
        if (strcmp(names[i], name) == 0) {
            print_text(all->topics[i].text);
            free(names);
            return EXIT_SUCCESS;
        }
    }
    const char *near = nearest_name(name, names, (int32_t)all->n);
    if (near != NULL)
        fprintf(stderr, "slimsim: there is no topic '%s', did you mean '%s'?\n", name, near);
    else
        fprintf(stderr, "slimsim: there is no topic '%s'; `slimsim help' lists the topics\n", name);
    free(names);
    return ERROR_USAGE;
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
    int status = !ok ? command_fail(&err) : name != NULL ? print_topic(&all, name) : EXIT_SUCCESS;
    if (ok && name == NULL)
        list_topics(&all);
    for (size_t i = 0; i < all.n; i++) {
        free(all.topics[i].name);
        free(all.topics[i].heading);
        free(all.topics[i].text);
    }
    free(all.topics);
    return status;
}

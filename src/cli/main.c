/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This file is the program slimsim. It chooses the command and prints the help. */
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/check.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/stop.h"

static const struct command commands[] = {
#define COMMAND(name, meaning) {#name, meaning, command_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

/* --version of every command prints it. */
const char *argp_program_version = "slimsim " SLIMSIM_VERSION " (commit " SLIMSIM_COMMIT ")";

static void print_help(FILE *file)
{
    fputs("Usage: slimsim COMMAND [OPTION...]\n"
          "A discrete-event simulator of LLM training on GPU clusters.\n\n",
          file);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(file, "  %-11s %s\n", commands[i].name, commands[i].meaning);
    fputs("\n`slimsim COMMAND --help` lists a command's options, `slimsim help` the pages of the documentation.\n"
          "Exit status: 0 ok; 1 a simulation failed; 2 invalid input; 64 usage; 71 SimGrid was killed or had no "
          "memory, twice;\n"
          "73 an output cannot be created; 74 it cannot be written; 75 another run writes it; 130 stopped by SIGINT; "
          "143 stopped\n"
          "by SIGTERM.\n",
          file);
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = nearest_name(name, names, N_COMMANDS);
    fprintf(stderr, "slimsim: unknown command '%s'", name);
    if (near != NULL)
        fprintf(stderr, ", did you mean '%s'?", near);
    for (int i = 0; i < N_COMMANDS && near == NULL; i++)
        fprintf(stderr, "%s%s", i == 0 ? "; allowed: " : ", ", names[i]);
    if (*name == '-')
        fputs("; options come behind it", stderr);
    fputs("\nTry `slimsim --help'.\n", stderr);
    return ERROR_USAGE;
}

/**
 * Use the data beside an installed program, or else the sources of a built one, unless the caller has set SLIMSIM_DATA.
 * Both are named from the program's folder, so the program is the same wherever it was built.
 */
static void find_data(void)
{
    static const char *const places[] = {SLIMSIM_INSTALLED_DATA, SLIMSIM_SOURCES};
    const char *named = getenv("SLIMSIM_DATA");
    bool found = named != NULL && *named != '\0';
    char path[PATH_MAX], models[PATH_MAX + 1024], data[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n < 0 ? 0 : n] = '\0';
    const char *folder = dirname(path);
    for (int i = 0; i < 2 && !found; i++) {
        snprintf(models, sizeof models, "%s/%s/model", folder, places[i]);
        found = realpath(models, data) != NULL && setenv("SLIMSIM_DATA", dirname(data), 1) == 0;
    }
}

/**
 * Open standard input, output and error if the caller has closed them. Otherwise files and pipes would get their
 * numbers, and printed text would go there. They are opened for reading only, so writing to them still fails.
 */
static void keep_standard_files(void)
{
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++)
        if (fcntl(file, F_GETFD) < 0)
            CHECK(open("/dev/null", O_RDONLY) == file);
}

/** Return whether the stack may grow as far as commands need. Otherwise one ends by SIGSEGV and says nothing. */
static bool stack_suffices(void)
{
    enum { NEEDED_KIB = 512 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= (rlim_t)NEEDED_KIB * 1024)
        return true;
    fprintf(stderr, "slimsim: the limit of the stack is %d KiB; allowed: at least %d KiB (ulimit -s)\n",
            (int)(limit.rlim_cur / 1024), NEEDED_KIB);
    return false;
}

int main(int argc, char **argv)
{
    keep_standard_files();
    if (!stack_suffices())
        return ERROR_FAILED;
    signal(SIGXFSZ, SIG_IGN); /* then a file-size limit is a failed write, which has its own message */
    signal(SIGPIPE, SIG_IGN);
    stop_at_once();
    find_data();
    if (argc >= 2 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)) {
        puts(argp_program_version);
        return command_finish(EXIT_SUCCESS);
    }
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_help(stdout);
        return command_finish(EXIT_SUCCESS);
    }
    for (int i = 0; argc >= 2 && i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            char name[64];
            snprintf(name, sizeof name, "slimsim %s", commands[i].name);
            argv[1] = name;
            return command_finish(commands[i].run(argc - 1, argv + 1));
        }
    if (argc >= 2)
        return unknown_command(argv[1]);
    print_help(stderr);
    return ERROR_USAGE;
}

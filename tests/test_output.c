/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that output replaces its own files only, all or none. */
#include "base/check.h"
#include "harness.h"
#include "trace/output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Make a file of the test, or none if the text is NULL. The caller frees the path. */
static char *file_of(const char *name, const char *text)
{
    char *path = check_strdup(harness_path(name));
    unlink(path);
    FILE *file = text != NULL ? fopen(path, "w") : NULL;
    CHECK(text == NULL || (file != NULL && fputs(text, file) >= 0 && fclose(file) == 0));
    return path;
}

static void check_text(const char *path, const char *expected)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fread(text, 1, sizeof text - 1, file) > 0 && fclose(file) == 0);
    CHECK_TEXT(text, expected);
}

static bool is_table(const char *path)
{
    return output_begins_with(path, "point,");
}

TEST(output_may_replace__takes_ours_and_nothing_else)
{
    struct error err = {0};
    char *path = file_of("output.csv", NULL);
    CHECK_TRUE(output_may_replace(path, is_table, "table", "another name", &err));
    free(file_of("output.csv", ""));
    CHECK_TRUE(output_may_replace(path, is_table, "table", "another name", &err));
    free(file_of("output.csv", "point,id\n"));
    CHECK_TRUE(output_may_replace(path, is_table, "table", "another name", &err));
    free(file_of("output.csv", "poin"));
    CHECK_TRUE(!output_may_replace(path, is_table, "table", "another name", &err));
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(
        err.text,
        "output.csv is no table of slimsim, which this command would replace; to keep both choose another name");
    CHECK_TRUE(output_may_replace(path, NULL, NULL, NULL, &err));
    CHECK(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    CHECK_TRUE(!output_may_replace(path, NULL, NULL, NULL, &err) && err.status == ERROR_CANT_CREATE);
    CHECK_TRUE(!output_begins_with(path, "point,"));
    unlink(path);
    free(path);
}

/* The second name is that of a folder, so its rename fails after the first. */
TEST(output_commit__is_of_all_or_none)
{
    for (int old = 0; old < 2; old++) {
        struct error err = {0};
        char *one = file_of("output-one", old ? "old" : NULL), *two = check_strdup(harness_path("output-two"));
        unlink(two);
        mkdir(two, 0777);
        struct output outputs[2];
        for (int i = 0; i < 2; i++) {
            FILE *file = output_open(&outputs[i], i == 0 ? one : two, &err);
            CHECK(file != NULL && fputs("new", file) >= 0);
            CHECK_TRUE(output_end(&outputs[i], file, true, &err));
        }
        CHECK_TRUE(!output_commit(outputs, 2, &err) && err.status == ERROR_IO);
        CHECK_CONTAINS(err.text, "output-two: Is a directory");
        CHECK_TRUE((access(one, F_OK) == 0) == (old == 1));
        if (old)
            check_text(one, "old");
        CHECK(rmdir(two) == 0);
        free(one);
        free(two);
    }
}

TEST(output_clean__takes_files_of_dead_processes_alone)
{
    pid_t gone = fork();
    if (gone == 0)
        _exit(EXIT_SUCCESS);
    CHECK(gone > 0 && waitpid(gone, NULL, 0) == gone);
    const char *const rest[] = {".tmp-%ld-0123456789abcdef", ".tmp-%ld", ".tmp-%ld-0123456789abcdef.txt"};
    char *path[4];
    for (int i = 0; i < 4; i++) {
        char name[64];
        size_t used = (size_t)snprintf(name, sizeof name, "clean.h5");
        snprintf(name + used, sizeof name - used, rest[i % 3], (long)(i < 3 ? gone : getpid()));
        path[i] = file_of(name, "text");
    }
    char *whole = file_of("clean.h5", NULL);
    output_clean(whole);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(access(path[i], F_OK) == 0, i > 0);
        unlink(path[i]);
        free(path[i]);
    }
    free(whole);
}

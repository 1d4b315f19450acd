/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests check that output replaces its own files only, all or none. */
#include "base/check.h"
#include "harness.h"
#include "trace/output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

static pid_t dead_process(void)
{
    pid_t gone = fork();
    if (gone == 0)
        _exit(EXIT_SUCCESS);
    CHECK(gone > 0 && waitpid(gone, NULL, 0) == gone);
    return gone;
}

TEST(output_begin__removes_files_of_dead_processes_alone)
{
    const char *const rest[] = {".tmp-%ld-0123456789abcdef", ".tmp-%ld", ".tmp-%ld-0123456789abcdef.txt"};
    pid_t gone = dead_process();
    struct output output;
    struct error err = {0};
    char *path[4];
    for (int i = 0; i < 4; i++) {
        char name[64];
        size_t used = (size_t)snprintf(name, sizeof name, "clean.h5");
        snprintf(name + used, sizeof name - used, rest[i % 3], (long)(i < 3 ? gone : getpid()));
        path[i] = file_of(name, "text");
    }
    char *whole = file_of("clean.h5", NULL);
    CHECK_TRUE(output_begin(&output, whole, &err));
    output_abandon(&output);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(access(path[i], F_OK) == 0, i > 0);
        unlink(path[i]);
        free(path[i]);
    }
    free(whole);
}

/* Such a name may be a link of somebody or, on a shared disk, a file of a process of another machine. Its lock says so.
 * A second name of a whole file is no longer needed, though the file is locked. */
TEST(output_clean__leaves_foreign_files_and_files_in_use)
{
    enum { LINK, PIPE, IN_USE, SECOND_NAME, N };
    char *whole = file_of("clean.h5", NULL), *victim = file_of("victim", "text"), *path[N];
    for (int i = 0; i < N; i++) {
        char name[64];
        snprintf(name, sizeof name, "clean.h5.tmp-%ld-%016x", (long)dead_process(), i);
        path[i] = file_of(name, i >= IN_USE ? "text" : NULL);
    }
    struct output output = {0};
    struct error err = {0};
    char *other = file_of("other.h5", NULL);
    CHECK_TRUE(output_begin(&output, other, &err));
    CHECK(symlink(victim, path[LINK]) == 0 && mkfifo(path[PIPE], 0600) == 0);
    CHECK(unlink(path[IN_USE]) == 0 && rename(output.temporary, path[IN_USE]) == 0); /* as another machine sees it */
    FILE *locked = fopen(path[SECOND_NAME], "r+");
    unlink(other);
    CHECK(locked != NULL && flock(fileno(locked), LOCK_EX | LOCK_NB) == 0 && link(path[SECOND_NAME], other) == 0);
    output_clean(whole);
    for (int i = 0; i < N; i++) {
        struct stat status;
        CHECK_EQUAL(lstat(path[i], &status) == 0, i != SECOND_NAME);
    }
    check_text(victim, "text");
    output_abandon(&output);
    fclose(locked);
    output_clean(whole); /* the process on the other machine has ended, too */
    CHECK_TRUE(access(path[IN_USE], F_OK) != 0);
    for (int i = 0; i < N; i++) {
        unlink(path[i]);
        free(path[i]);
    }
    unlink(other);
    unlink(victim);
    free(other);
    free(victim);
    free(whole);
}

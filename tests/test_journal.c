/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests write, read and damage journals. */
#include "sweep/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "harness.h"

/** The records that a visitor saw: "kind:text " for each. */
struct seen {
    char text[256];
};

static bool see(void *context, enum journal_kind kind, int64_t offset, const void *payload, size_t n_bytes,
                struct error *err)
{
    struct seen *seen = context;
    size_t used = strlen(seen->text);
    (void)err;
    CHECK_TRUE(offset > 0);
    snprintf(seen->text + used, sizeof seen->text - used, "%d:%.*s ", kind, (int)n_bytes, (const char *)payload);
    return true;
}

static char *new_path(const char *name)
{
    char *path = check_strdup(harness_path(name));
    unlink(path);
    return path;
}

/** Write a journal of three records. */
static void write_three(const char *path)
{
    struct seen seen = {""};
    struct error err = {0};
    struct journal journal;
    CHECK_TRUE(journal_open(path, see, &seen, &journal, &err));
    CHECK_TRUE(journal_append(&journal, JOURNAL_BUILD, "one", 3, &err) &&
               journal_append(&journal, JOURNAL_RESULT, "two", 3, &err) &&
               journal_append(&journal, JOURNAL_RESULT, "three", 5, &err) && journal_sync(&journal, &err));
    CHECK_TEXT(seen.text, "");
    journal_close(&journal);
}

TEST(journal_open__visits_what_was_appended_in_order)
{
    char *path = new_path("appended.journal");
    struct seen seen = {""};
    struct error err = {0};
    struct journal journal;
    write_three(path);
    CHECK_TRUE(journal_open(path, see, &seen, &journal, &err));
    CHECK_TEXT(seen.text, "0:one 2:two 2:three ");
    char *last = journal_payload(&journal, journal.end - 5, 5, &err);
    CHECK_TRUE(last != NULL && memcmp(last, "three", 5) == 0);
    free(last);
    journal_close(&journal);
    free(path);
}

TEST(journal_open__cuts_off_a_torn_record_and_keeps_the_others)
{
    char *path = new_path("torn.journal");
    struct seen seen = {""}, again = {""};
    struct error err = {0};
    struct journal journal;
    write_three(path);
    FILE *file = fopen(path, "r+b");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    fclose(file);
    CHECK(truncate(path, size - 1) == 0);
    CHECK_TRUE(!journal_read(path, see, &seen, &journal, &err));
    CHECK_CONTAINS(err.text, "truncated or damaged at byte");
    journal_close(&journal);
    CHECK_TRUE(journal_open(path, see, &again, &journal, &err));
    CHECK_TEXT(again.text, "0:one 2:two ");
    CHECK_TRUE(journal.end < size);
    CHECK_TRUE(journal_append(&journal, JOURNAL_RESULT, "four", 4, &err));
    journal_close(&journal);
    seen.text[0] = '\0';
    CHECK_TRUE(journal_read(path, see, &seen, &journal, &err));
    CHECK_TEXT(seen.text, "0:one 2:two 2:four ");
    journal_close(&journal);
    free(path);
}

/* Shards of a question read one another's journals while they are written. */
TEST(journal_read__takes_the_whole_records_while_a_driver_writes_the_next)
{
    char *path = new_path("growing.journal");
    struct seen held = {""}, seen = {""}, ended = {""};
    struct error err = {0};
    struct journal writer, reader;
    write_three(path);
    CHECK_TRUE(journal_open(path, see, &held, &writer, &err));
    FILE *file = fopen(path, "ab");
    CHECK(file != NULL && fwrite("half", 1, 4, file) == 4 && fclose(file) == 0);
    CHECK_TRUE(journal_read(path, see, &seen, &reader, &err));
    CHECK_TEXT(seen.text, "0:one 2:two 2:three ");
    journal_close(&reader);
    journal_close(&writer);
    CHECK_TRUE(!journal_read(path, see, &ended, &reader, &err));
    CHECK_CONTAINS(err.text, "truncated or damaged at byte");
    journal_close(&reader);
    free(path);
}

/* The flipped bit may be any single bit of magic, head or payload. */
TEST(journal_read__finds_a_flipped_bit)
{
    char *path = new_path("flipped.journal"), bytes[4096];
    write_three(path);
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        struct seen seen = {""};
        struct error err = {0};
        struct journal journal;
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        file = fopen(path, "wb");
        CHECK(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
        CHECK_TRUE(!journal_read(path, see, &seen, &journal, &err));
        journal_close(&journal);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(path);
}

TEST(journal_open__refuses_a_second_writer_as_busy)
{
    char *path = new_path("busy.journal");
    struct seen seen = {""};
    struct error err = {0};
    struct journal first, second;
    CHECK_TRUE(journal_open(path, see, &seen, &first, &err));
    CHECK_TRUE(!journal_open(path, see, &seen, &second, &err));
    CHECK_EQUAL(err.status, ERROR_BUSY);
    journal_close(&second);
    journal_close(&first);
    CHECK_TRUE(journal_open(path, see, &seen, &second, &err));
    journal_close(&second);
    free(path);
}

TEST(journal_hold__leaves_a_journal_as_it_is_and_none_behind)
{
    char *path = new_path("held.journal");
    struct seen seen = {""};
    struct error err = {0};
    struct journal held, other;
    CHECK_TRUE(journal_hold(path, &held, &err) && access(path, F_OK) == 0);
    CHECK_TRUE(!journal_hold(path, &other, &err) && err.status == ERROR_BUSY);
    journal_release(&other);
    CHECK_TRUE(!journal_open(path, see, &seen, &other, &err) && err.status == ERROR_BUSY);
    journal_close(&other);
    CHECK_TRUE(access(path, F_OK) == 0);
    journal_release(&held);
    CHECK_TRUE(access(path, F_OK) != 0);
    write_three(path);
    CHECK_TRUE(journal_hold(path, &held, &err));
    journal_release(&held);
    CHECK_TRUE(journal_read(path, see, &seen, &other, &err));
    CHECK_TEXT(seen.text, "0:one 2:two 2:three ");
    journal_close(&other);
    free(path);
}

TEST(journal_hold__leaves_an_empty_file_of_somebody_else)
{
    char *path = new_path("empty.journal");
    struct error err = {0};
    struct journal held;
    FILE *file = fopen(path, "w");
    CHECK_TRUE(file != NULL && fclose(file) == 0);
    CHECK_TRUE(journal_hold(path, &held, &err));
    journal_release(&held);
    CHECK_TRUE(access(path, F_OK) == 0);
    free(path);
}

TEST(journal_open__does_not_touch_another_file)
{
    const char *const texts[] = {"a file of somebody else, longer than the mark", "a short one", "slimsim", ""};
    char *path = new_path("other.journal");
    for (int i = 0; i < 4; i++) {
        struct seen seen = {""};
        struct error err = {0};
        struct journal journal;
        char text[64] = "";
        FILE *file = fopen(path, "w");
        CHECK(file != NULL);
        fputs(texts[i], file);
        fclose(file);
        CHECK_TRUE(!journal_open(path, see, &seen, &journal, &err) && err.status == ERROR_INVALID);
        CHECK_CONTAINS(err.text, "not a journal of slimsim; to keep it choose another folder");
        journal_close(&journal);
        file = fopen(path, "r");
        CHECK(file != NULL);
        CHECK_EQUAL(fread(text, 1, sizeof text - 1, file), strlen(texts[i]));
        fclose(file);
        CHECK_TEXT(text, texts[i]);
    }
    free(path);
}

/* A process leaves this file if it is killed before it puts a new journal in its place. */
TEST(journal_open__removes_what_a_killed_maker_left)
{
    char *path = new_path("left.journal"), *left;
    struct seen seen = {""};
    struct error err = {0};
    struct journal journal;
    pid_t gone = fork();
    if (gone == 0)
        _exit(EXIT_SUCCESS);
    CHECK(gone > 0 && waitpid(gone, NULL, 0) == gone);
    left = check_asprintf("%s.tmp-%ld-0123456789abcdef", path, (long)gone);
    FILE *file = fopen(left, "w");
    CHECK(file != NULL && fclose(file) == 0);
    CHECK_TRUE(journal_open(path, see, &seen, &journal, &err));
    CHECK_TRUE(access(left, F_OK) != 0);
    journal_close(&journal);
    free(left);
    free(path);
}

TEST(journal_open__follows_no_link)
{
    char *path = new_path("link.journal"), *target = new_path("target.journal");
    struct seen seen = {""};
    struct error err = {0};
    struct journal journal;
    CHECK(symlink(target, path) == 0);
    CHECK_TRUE(!journal_open(path, see, &seen, &journal, &err) && err.status == ERROR_CANT_CREATE);
    CHECK_CONTAINS(err.text, "link.journal: not a regular file");
    journal_close(&journal);
    CHECK_TRUE(access(target, F_OK) != 0);
    CHECK(unlink(path) == 0);
    free(target);
    free(path);
}

TEST(journal_fields__are_taken_as_they_were_put)
{
    char *bytes = NULL;
    size_t n_bytes, n;
    FILE *file = check_memstream(&bytes, &n_bytes);
    journal_put_integer(file, -5);
    journal_put_text(file, "text");
    journal_put_block(file, (int64_t[]){1, 2, 3}, 24);
    CHECK(fclose(file) == 0);
    struct journal_fields fields = {bytes, n_bytes, true};
    CHECK_EQUAL(journal_take_integer(&fields, -5, 5), -5);
    char *text = journal_take_text(&fields, 5);
    int64_t *rows = journal_take_rows(&fields, sizeof *rows, 3, &n);
    CHECK_TEXT(text, "text");
    CHECK_TRUE(n == 3 && rows[2] == 3 && journal_took_all(&fields));
    free(rows);
    free(text);
    free(bytes);
}

/* Read an integer, a text and rows of which one may be out of its range. */
TEST(journal_fields__refuse_what_is_out_of_range)
{
    for (int wrong = -1; wrong < 6; wrong++) {
        char *bytes = NULL;
        size_t n_bytes, n;
        FILE *file = check_memstream(&bytes, &n_bytes);
        journal_put_integer(file, wrong == 0 ? 6 : 5);
        journal_put_block(file, "te\0t", wrong == 1 ? 4 : 2);
        journal_put_block(file, (int64_t[]){1, 2, 3}, wrong == 2 ? 23 : 24);
        if (wrong == 3)
            journal_put_integer(file, 0);
        CHECK(fclose(file) == 0);
        struct journal_fields fields = {bytes, n_bytes - (wrong == 4), true};
        journal_take_integer(&fields, -5, 5);
        free(journal_take_text(&fields, 5));
        free(journal_take_rows(&fields, sizeof(int64_t), wrong == 5 ? 2 : 3, &n));
        CHECK_EQUAL(journal_took_all(&fields), wrong < 0);
        free(bytes);
    }
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These tests write traces and read them back. */
#include "base/check.h"
#include "harness.h"
#include "sample_run.h"
#include "trace/csv.h"
#include "trace/trace.h"

#include <dirent.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Make an empty folder for the test. */
static const char *fresh_folder(const char *name)
{
    static char folder[1024];
    snprintf(folder, sizeof folder, "%s", harness_path(name));
    mkdir(folder, 0777);
    DIR *directory = opendir(folder);
    CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(directory);
    return folder;
}

static int n_files(const char *folder)
{
    int n = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory))
        n += entry->d_name[0] != '.';
    closedir(directory);
    return n;
}

static const char *path_in(const char *folder, const char *name)
{
    static char path[2048];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Read a whole file. *bytes is its size. The caller frees it. */
static char *whole_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL && fseek(file, 0, SEEK_END) == 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *content = check_calloc(*bytes + 1, 1);
    CHECK(fread(content, 1, *bytes, file) == *bytes);
    fclose(file);
    return content;
}

static struct trace_task task_number(int32_t t)
{
    return (struct trace_task){.system = t % 2,
                               .iteration = (int64_t)t << 32,
                               .task = t,
                               .kind = t % 5,
                               .start_s = t / 3.0,
                               .finish_s = t / 3.0 + 1e-9,
                               .slack_s = -0.0};
}

/* Write two and a half chunks of tasks, no edges, and all attributes that a file can hold. */
static void write_sample(const char *folder, const char *name)
{
    struct error err = {0};
    struct trace *trace = trace_create(folder, name, &err);
    CHECK(trace != NULL);
    CHECK_TRUE(trace_set_text(trace, "scenario", "name: é\n", &err));
    CHECK_TRUE(trace_set_text(trace, "empty", "", &err));
    CHECK_TRUE(trace_set_integers(trace, "traced_iterations", 2, (int64_t[]){5, 6}, &err));
    CHECK_TRUE(trace_set_systems(trace, 2, (const char *const[]){"best-fit", "slim, \"packed\""}, &err));
    for (int32_t t = 0; t < 40960; t++) {
        struct trace_task row = task_number(t);
        CHECK(trace_append(trace, TRACE_TASKS, &row, 1, &err));
    }
    CHECK_TRUE(trace_append(trace, TRACE_EDGES, NULL, 0, &err));
    if (!CHECK_TRUE(trace_close(trace, &err)))
        fprintf(stderr, "%s\n", err.text);
}

TEST(trace_tables__describe_every_column)
{
    for (int32_t t = 0; t < TRACE_N_TABLES; t++) {
        const struct trace_table *table = &trace_tables[t];
        CHECK_EQUAL(trace_table_find(table->name), t);
        for (int32_t c = 0; c < table->n_columns; c++) {
            const struct trace_column *column = &table->columns[c];
            CHECK_TRUE(strlen(column->unit) > 0 && strlen(column->meaning) > 0);
            CHECK_TRUE(column->offset + (column->type == TRACE_TEXT    ? column->bytes
                                         : column->type == TRACE_INT32 ? 4
                                                                       : 8) <=
                       table->row_bytes);
            for (int32_t n = 0; column->names != NULL && n < column->names->n; n++)
                CHECK_TRUE(column->names->text[n] != NULL);
            for (int32_t other = 0; other < c; other++)
                CHECK_TRUE(strcmp(column->name, table->columns[other].name) != 0);
        }
    }
    CHECK_EQUAL(trace_table_find("taxes"), -1);
}

TEST(trace__reads_rows_back_as_written)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-rows");
    write_sample(folder, "run");
    struct trace_reader *reader = trace_open(path_in(folder, "run.h5"), &err);
    CHECK(reader != NULL);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_TASKS), 40960);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_EDGES), 0);
    CHECK_EQUAL(trace_n_rows(reader, TRACE_MEMORY), -1);
    struct trace_task *rows = check_calloc(40960, sizeof *rows);
    CHECK_TRUE(trace_read(reader, TRACE_TASKS, 40960, rows, &err));
    int32_t n_equal = 0;
    for (int32_t t = 0; t < 40960; t++) {
        struct trace_task expected = task_number(t);
        n_equal += rows[t].start_s == expected.start_s && rows[t].finish_s == expected.finish_s &&
                   rows[t].iteration == expected.iteration && rows[t].kind == expected.kind && rows[t].task == t &&
                   rows[t].micro_batch == 0;
    }
    CHECK_EQUAL(n_equal, 40960);
    free(rows);
    trace_reader_close(reader);
    CHECK_EQUAL(n_files(folder), 1);
}

TEST(trace__reads_texts_and_labels_back)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-texts");
    write_sample(folder, "run");
    struct trace_reader *reader = trace_open(path_in(folder, "run.h5"), &err);
    CHECK(reader != NULL);
    CHECK_EQUAL(trace_n_systems(reader), 2);
    CHECK_TEXT(trace_system(reader, 1), "slim, \"packed\"");
    trace_reader_close(reader);
    const char *path = path_in(folder, "run.h5");
    char *scenario = sample_trace_text(path, "scenario"), *empty = sample_trace_text(path, "empty");
    CHECK_TEXT(scenario, "name: é\n");
    CHECK_TEXT(empty, "");
    CHECK_TRUE(sample_trace_text(path, "absent") == NULL);
    free(scenario);
    free(empty);
}

/* Above 64 KiB an attribute leaves the object's header. Scenarios may have 1 MB. */
TEST(trace__stores_a_scenario_of_a_megabyte)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-large");
    char *text = check_calloc(1000001, 1);
    memset(text, 'x', 1000000);
    struct trace *trace = trace_create(folder, "run", &err);
    CHECK_TRUE(trace_set_text(trace, "scenario", text, &err));
    CHECK_TRUE(trace_set_systems(trace, 1, (const char *const[]){"a"}, &err));
    CHECK_TRUE(trace_close(trace, &err));
    char *back = sample_trace_text(path_in(folder, "run.h5"), "scenario");
    CHECK_TRUE(back != NULL && strcmp(back, text) == 0);
    free(back);
    free(text);
}

/* A second lies between the two, so a time stored anywhere would differ. */
TEST(trace__has_equal_bytes_for_equal_runs)
{
    const char *folder = fresh_folder("trace-bytes");
    size_t bytes[2];
    write_sample(folder, "a");
    char *a = whole_file(path_in(folder, "a.h5"), &bytes[0]);
    sleep(1);
    write_sample(folder, "b");
    char *b = whole_file(path_in(folder, "b.h5"), &bytes[1]);
    CHECK_EQUAL(bytes[0], bytes[1]);
    CHECK_TRUE(bytes[0] == bytes[1] && memcmp(a, b, bytes[0]) == 0);
    free(a);
    free(b);
}

TEST(trace_create__names_a_missing_folder_in_one_sentence)
{
    struct error err = {0};
    char folder[2048];
    snprintf(folder, sizeof folder, "%s/absent", fresh_folder("trace-missing"));
    CHECK_TRUE(trace_create(folder, "run", &err) == NULL);
    CHECK_EQUAL(err.status, ERROR_CANT_CREATE);
    CHECK_CONTAINS(err.text, "absent/run.h5: No such file or directory");
}

static bool append_noise(struct trace *trace, int32_t n, struct error *err)
{
    uint64_t state = 1;
    bool ok = true;
    for (int32_t i = 0; i < n && ok; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX: bytes that do not compress */
        struct trace_length row = {(int64_t)state, (int32_t)(state >> 40), i, (int32_t)(state >> 20)};
        ok = trace_append(trace, TRACE_LENGTHS, &row, 1, err);
    }
    return ok;
}

/* Write noise under a limit on the size of files. It runs in a child, since HDF5 keeps an id of a file that it could
 * not close. @return its exit status: that of the error, 0 without one; the sentence goes to `says` */
static int write_within(const char *folder, rlim_t limit, char says[static 2048])
{
    int ends[2], status = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct error err = {0};
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit});
        signal(SIGXFSZ, SIG_IGN);
        struct trace *trace = trace_create(folder, "run", &err);
        bool ok = trace != NULL && trace_set_systems(trace, 1, (const char *const[]){"a"}, &err) &&
                  append_noise(trace, 60000, &err);
        if (ok)
            trace_close(trace, &err);
        else
            trace_abandon(trace);
        CHECK(write(ends[1], err.text, strlen(err.text)) >= 0);
        exit(err.status); /* not _exit: what HDF5 does at exit must not crash either */
    }
    close(ends[1]);
    ssize_t n = read(ends[0], says, 2047);
    says[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* write() fails with EFBIG from some byte on, as a full disk does with ENOSPC. Wherever it happens, nothing is left and
 * nothing has the final name. */
TEST(trace__leaves_nothing_on_a_full_disk)
{
    const char *folder = fresh_folder("trace-full");
    char says[2048];
    struct stat whole;
    CHECK_EQUAL(write_within(folder, 10000000, says), 0);
    CHECK(stat(path_in(folder, "run.h5"), &whole) == 0);
    unlink(path_in(folder, "run.h5"));
    for (int part = 0; part <= 12; part++) {
        rlim_t limit = (rlim_t)(part < 12 ? whole.st_size * part / 12 : whole.st_size - 1);
        int status = write_within(folder, limit, says);
        CHECK_EQUAL(status, ERROR_IO);
        CHECK_CONTAINS(says, "trace-full/run.h5: File too large");
        CHECK_EQUAL(n_files(folder), 0);
    }
}

TEST(trace__refuses_a_number_that_is_not_finite)
{
    const char *folder = fresh_folder("trace-finite");
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        struct error err = {0};
        struct trace *trace = trace_create(folder, "run", &err);
        struct trace_task rows[2] = {{.start_s = 1}, {.finish_s = bad[i]}};
        CHECK_TRUE(!trace_append(trace, TRACE_TASKS, rows, 2, &err));
        CHECK_EQUAL(err.status, ERROR_FAILED);
        CHECK_CONTAINS(err.text, "finish_s of row 1 of table tasks");
        trace_abandon(trace);
        CHECK_EQUAL(n_files(folder), 0);
    }
}

TEST(trace__lets_only_optional_numbers_be_missing)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-optional");
    struct trace *trace = trace_create(folder, "run", &err);
    struct trace_summary rows[2] = {{.speed_up_interval = NAN}, {.speed_up = NAN}};
    CHECK_TRUE(trace_append(trace, TRACE_SUMMARY, rows, 1, &err));
    CHECK_TRUE(!trace_append(trace, TRACE_SUMMARY, rows + 1, 1, &err));
    CHECK_CONTAINS(err.text, "speed_up of row 1 of table summary is nan");
    rows[0].speed_up_interval = INFINITY;
    CHECK_TRUE(!trace_append(trace, TRACE_SUMMARY, rows, 1, &err));
    CHECK_CONTAINS(err.text, "speed_up_interval of row 1 of table summary is inf");
    trace_abandon(trace);
}

TEST(trace__keeps_the_older_file_until_the_new_one_is_whole)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-older");
    write_sample(folder, "run");
    size_t bytes, bytes_after;
    char *before = whole_file(path_in(folder, "run.h5"), &bytes);
    struct trace *trace = trace_create(folder, "run", &err);
    CHECK_TRUE(trace_set_text(trace, "scenario", "other", &err));
    CHECK_EQUAL(n_files(folder), 2);
    trace_abandon(trace);
    CHECK_EQUAL(n_files(folder), 1);
    char *after = whole_file(path_in(folder, "run.h5"), &bytes_after);
    CHECK_TRUE(bytes == bytes_after && memcmp(before, after, bytes) == 0);
    free(before);
    free(after);
}

/* In a shared folder anybody may put links to the user's files there. */
TEST(trace_create__follows_no_planted_link)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-planted");
    char victim[2048], link[4096];
    snprintf(victim, sizeof victim, "%s/victim", folder);
    snprintf(link, sizeof link, "%s/run.h5.tmp-%ld", folder, (long)getpid());
    FILE *file = fopen(victim, "w");
    CHECK(file != NULL && fputs("mine", file) >= 0 && fclose(file) == 0 && symlink(victim, link) == 0);
    struct trace *trace = trace_create(folder, "run", &err);
    CHECK_TRUE(trace != NULL && trace_close(trace, &err));
    size_t bytes;
    char *text = whole_file(victim, &bytes);
    CHECK_TEXT(text, "mine");
    free(text);
}

TEST(trace_open__names_what_is_no_trace_in_one_sentence)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-foreign");
    CHECK_TRUE(trace_open(path_in(folder, "absent.h5"), &err) == NULL);
    CHECK_EQUAL(err.status, ERROR_INVALID);
    CHECK_CONTAINS(err.text, "absent.h5: cannot be read as HDF5: No such file or directory");
    FILE *file = fopen(path_in(folder, "text.h5"), "w");
    fputs("no HDF5", file);
    fclose(file);
    CHECK_TRUE(trace_open(path_in(folder, "text.h5"), &err) == NULL);
    CHECK_CONTAINS(err.text, "text.h5: cannot be read as HDF5: file signature not found");

    struct trace *trace = trace_create(folder, "run", &err); /* as a crash would leave it, under the final name */
    char pattern[2200];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s.tmp-%ld-*", path_in(folder, "run.h5"), (long)getpid());
    CHECK_TRUE(trace_append(trace, TRACE_TASKS, NULL, 0, &err));
    CHECK(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1);
    CHECK(link(found.gl_pathv[0], path_in(folder, "copy.h5")) == 0);
    globfree(&found);
    trace_abandon(trace);
    CHECK_TRUE(trace_open(path_in(folder, "copy.h5"), &err) == NULL);
    CHECK_CONTAINS(err.text, "copy.h5: it is not complete");
}

static bool save_csv(struct trace_reader *reader, enum trace_table_id table, const char *path, struct error *err)
{
    struct output output;
    FILE *file = output_open(&output, path, err);
    return file != NULL && output_close(&output, file, csv_print(reader, table, file, err), err);
}

/* A spreadsheet would compute the first texts. The others are numbers, a sign alone, or begin otherwise. */
TEST(csv__text_is_no_formula)
{
    static const char *const cases[][2] = {{"=1+1", "\"'=1+1\""},
                                           {"-x", "\"'-x\""},
                                           {"+a,b", "\"'+a,b\""},
                                           {"@SUM(\"A1\")", "\"'@SUM(\"\"A1\"\")\""},
                                           {"\t=1", "\"'\t=1\""},
                                           {"-1-1", "\"'-1-1\""},
                                           {"-1.5e3", "-1.5e3"},
                                           {"+2", "+2"},
                                           {"-", "-"},
                                           {"best-fit", "best-fit"},
                                           {"a\x1b[2J\x9b"
                                            "b\xc3\xbc",
                                            "a?[2J?b\xc3\xbc"},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text, apostrophe[64];
        size_t n_bytes;
        FILE *file = check_memstream(&text, &n_bytes);
        csv_print_text(cases[i][0], file);
        CHECK(fclose(file) == 0);
        CHECK_TEXT(text, cases[i][1]);
        CHECK_TEXT(csv_text(cases[i][0]), cases[i][0]);
        snprintf(apostrophe, sizeof apostrophe, "'%s", cases[i][0]);
        CHECK_TEXT(csv_text(apostrophe), strchr(text, '\'') != NULL ? cases[i][0] : apostrophe);
        free(text);
    }
}

/* The file has names for indices, quotes where CSV asks for them, and the shortest digits that read back. */
TEST(csv__is_readable)
{
    struct error err = {0};
    const char *folder = fresh_folder("trace-csv");
    struct trace *trace = trace_create(folder, "run", &err);
    struct trace_transfer rows[2] = {{.system = 1,
                                      .iteration = 5,
                                      .task = 3,
                                      .purpose = 2,
                                      .to_rank = -1,
                                      .bytes = 0.1,
                                      .start_s = 1.0 / 3.0,
                                      .finish_s = 0.1 + 0.2},
                                     {.system = 7, .purpose = 99, .bytes = 1e22}};
    CHECK_TRUE(trace_set_systems(trace, 2, (const char *const[]){"best-fit", "slim, \"packed\""}, &err));
    CHECK_TRUE(trace_append(trace, TRACE_TRANSFERS, rows, 2, &err));
    CHECK_TRUE(trace_close(trace, &err));
    struct trace_reader *reader = trace_open(path_in(folder, "run.h5"), &err);
    CHECK_TRUE(save_csv(reader, TRACE_TRANSFERS, path_in(folder, "t.csv"), &err));
    size_t bytes;
    char *text = whole_file(path_in(folder, "t.csv"), &bytes);
    CHECK_TEXT(text, "system,iteration,task,purpose,from_rank,to_rank,bytes,start_s,finish_s\n"
                     "\"slim, \"\"packed\"\"\",5,3,ring,0,-1,0.1,0.3333333333333333,0.30000000000000004\n"
                     "7,0,0,99,0,0,1e+22,0,0\n");
    free(text);
    CHECK_TRUE(!save_csv(reader, TRACE_MEMORY, path_in(folder, "m.csv"), &err));
    CHECK_CONTAINS(err.text, "no table memory");
    CHECK_TRUE(!save_csv(reader, TRACE_TRANSFERS, "/dev/full/t.csv", &err));
    CHECK_EQUAL(err.status, ERROR_CANT_CREATE);
    CHECK_EQUAL(n_files(folder), 2);
    trace_reader_close(reader);
}

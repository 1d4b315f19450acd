/* SPDX-License-Identifier: GPL-3.0-or-later */
/** These tests check the stored trace of a point before it is copied into a file. */
#include "base/check.h"
#include "harness.h"
#include "trace/trace.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A file in memory. */
struct image {
    void *bytes;
    size_t n_bytes;
};

/* Make a trace of two systems with iterations and one task, as slimsim writes it. */
static struct image make(void)
{
    const char *const labels[] = {"best-fit", "slimpack"};
    struct trace_iteration iterations[3] = {{.system = 0}, {.system = 1, .simgrid_s = NAN}, {.system = 1}};
    struct trace_task task = {.system = 1};
    struct image image;
    struct error err = {0};
    struct trace *trace = trace_create_image("image", &err);
    CHECK(trace != NULL && trace_set_text(trace, "name", "image", &err) && trace_set_systems(trace, 2, labels, &err));
    CHECK(trace_append(trace, TRACE_ITERATIONS, iterations, 3, &err) &&
          trace_append(trace, TRACE_TASKS, &task, 1, &err));
    CHECK(trace_append(trace, TRACE_PLANS, NULL, 0, &err));
    CHECK(trace_close_image(trace, &image.bytes, &image.n_bytes, &err));
    return image;
}

/* The type of a function that changes a trace. */
typedef void forger(hid_t file);

static void leave(hid_t file)
{
    CHECK(file >= 0);
}

/* Write one value into all rows of a column. */
static void set(hid_t file, const char *table, const char *column, hid_t type, const void *values)
{
    hid_t dataset = H5Dopen2(file, table, H5P_DEFAULT), row = H5Tcreate(H5T_COMPOUND, H5Tget_size(type));
    CHECK(H5Tinsert(row, column, 0, type) >= 0);
    CHECK(H5Dwrite(dataset, row, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Tclose(row);
    H5Dclose(dataset);
}

static void name_no_kind(hid_t file)
{
    set(file, "tasks", "kind", H5T_NATIVE_INT32, &(int32_t){1000});
}

static void name_no_system(hid_t file)
{
    set(file, "iterations", "system", H5T_NATIVE_INT32, (int32_t[]){0, 1, 2});
}

static void write_nan(hid_t file)
{
    set(file, "iterations", "time_s", H5T_NATIVE_DOUBLE, (double[]){1, NAN, 1});
}

static void claim_many_rows(hid_t file)
{
    hid_t dataset = H5Dopen2(file, "tasks", H5P_DEFAULT);
    CHECK(H5Dset_extent(dataset, &(hsize_t){UINT64_C(1) << 40}) >= 0);
    H5Dclose(dataset);
}

static void link_elsewhere(hid_t file)
{
    CHECK(H5Lcreate_external("/etc/slimsim.h5", "/", file, "faults", H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

static void link_softly(hid_t file)
{
    CHECK(H5Lcreate_soft("/tasks", file, "faults", H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

static void add_group(hid_t file)
{
    CHECK(H5Gclose(H5Gcreate2(file, "stages", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)) >= 0);
}

/* Add a data set of numbers. @param path  path of its bytes; NULL: they are in the file itself */
static void add_numbers(hid_t file, const char *name, const char *path)
{
    hid_t space = H5Screate_simple(1, &(hsize_t){4}, NULL), creation = H5Pcreate(H5P_DATASET_CREATE), text;
    text = H5Tcopy(H5T_C_S1);
    CHECK(path == NULL || H5Pset_external(creation, path, 0, 4) >= 0);
    CHECK(H5Dclose(H5Dcreate2(file, name, path != NULL ? text : H5T_NATIVE_INT, space, H5P_DEFAULT, creation,
                              H5P_DEFAULT)) >= 0);
    H5Tclose(text);
    H5Pclose(creation);
    H5Sclose(space);
}

static void add_unknown(hid_t file)
{
    add_numbers(file, "numbers", NULL);
}

static void replace_table(hid_t file)
{
    add_numbers(file, "memory", NULL);
}

static void read_another_file(hid_t file)
{
    add_numbers(file, "assumed", "/etc/passwd");
}

static void set_variable_text(hid_t file)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    CHECK(H5Tset_size(type, H5T_VARIABLE) >= 0);
    CHECK(H5Aclose(H5Acreate2(file, "device", type, space, H5P_DEFAULT, H5P_DEFAULT)) >= 0);
    H5Sclose(space);
    H5Tclose(type);
}

static void drop_mark(hid_t file)
{
    CHECK(H5Adelete(file, "complete") >= 0);
}

static void drop_systems(hid_t file)
{
    CHECK(H5Ldelete(file, "systems", H5P_DEFAULT) >= 0);
}

/* Return the image after a change. */
static struct image forge(struct image image, forger *how)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_core(access, 1 << 16, false) >= 0 && H5Pset_file_image(access, image.bytes, image.n_bytes) >= 0);
    hid_t file = H5Fopen("trace", H5F_ACC_RDWR, access);
    void **memory;
    hsize_t n;
    how(file);
    CHECK(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0 && H5Fget_filesize(file, &n) >= 0);
    CHECK(H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&memory) >= 0);
    struct image forged = {check_malloc((size_t)n), (size_t)n};
    memcpy(forged.bytes, *memory, forged.n_bytes);
    H5Fclose(file);
    H5Pclose(access);
    return forged;
}

TEST(trace_image_fits__takes_what_slimsim_writes_and_nothing_else)
{
    static const struct {
        const char *what;
        forger *how;
    } forgers[] = {{"", leave},
                   {"a kind without a name", name_no_kind},
                   {"a system that is not listed", name_no_system},
                   {"a number that is not finite", write_nan},
                   {"more rows than the file can hold", claim_many_rows},
                   {"a link to another file", link_elsewhere},
                   {"a soft link", link_softly},
                   {"a group", add_group},
                   {"a data set without a meaning", add_unknown},
                   {"a table of other columns", replace_table},
                   {"bytes of another file", read_another_file},
                   {"a text of variable length", set_variable_text},
                   {"no mark that it is complete", drop_mark},
                   {"no list of systems", drop_systems}};
    for (size_t i = 0; i < sizeof forgers / sizeof *forgers; i++) {
        struct image image = make(), forged = forge(image, forgers[i].how);
        const char *refused = i == 0 ? "nothing is forged" : forgers[i].what;
        CHECK_TEXT(trace_image_fits(forged.bytes, forged.n_bytes) ? "" : refused, forgers[i].what);
        free(forged.bytes);
        free(image.bytes);
    }
}

TEST(trace_image_fits__refuses_images_that_are_cut_or_damaged)
{
    struct image image = make();
    char *bytes = image.bytes;
    CHECK_TRUE(trace_image_fits(bytes, image.n_bytes));
    CHECK_TRUE(!trace_image_fits(bytes, image.n_bytes / 2));
    CHECK_TRUE(!trace_image_fits("no trace", 8));
    bytes[20] ^= 1; /* this byte is in the superblock, which has a checksum */
    CHECK_TRUE(!trace_image_fits(bytes, image.n_bytes));
    free(image.bytes);
}

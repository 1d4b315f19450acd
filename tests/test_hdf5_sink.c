/* SPDX-License-Identifier: GPL-3.0-or-later */
/* This test checks that a sink gives back the numbers that were written and remembers a failure. */
#include "base/check.h"
#include "harness.h"
#include "trace/hdf5_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Write a file of 1000 numbers through a descriptor of these flags, and read it before and after a flush. @return the
 * reason */
static int write_numbers(const char *path, int flags)
{
    enum { N = 1000 };
    struct hdf5_sink sink = {.descriptor = open(path, flags | O_CREAT | O_CLOEXEC, 0666)};
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), space = H5Screate_simple(1, &(hsize_t){N}, NULL);
    int written[N], found[N];
    CHECK(sink.descriptor >= 0);
    for (int i = 0; i < N; i++)
        written[i] = 3 * i;
    hdf5_sink_use(access, &sink);
    hid_t file = H5Fcreate("any name", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t dataset = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK_TRUE(H5Dwrite(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, written) >= 0);
    CHECK_TRUE(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0);
    CHECK_TRUE(H5Dread(dataset, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, found) >= 0);
    for (int i = 0; i < N; i++)
        CHECK_EQUAL(found[i], written[i]);
    CHECK_TRUE(H5Dclose(dataset) >= 0 && H5Fclose(file) >= 0);
    H5Sclose(space);
    H5Pclose(access);
    close(sink.descriptor);
    return sink.reason;
}

TEST(hdf5_sink__remembers_a_failure_and_lets_hdf5_go_on)
{
    char *path = check_strdup(harness_path("sink.h5"));
    unlink(path);
    CHECK_EQUAL(write_numbers(path, O_RDONLY), EBADF);
    CHECK_EQUAL(write_numbers(path, O_RDWR), 0);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK_TRUE(file >= 0 && H5Lexists(file, "x", H5P_DEFAULT) > 0);
    H5Fclose(file);
    free(path);
}

/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "trace/hdf5_sink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "trace/hdf5_type.h"

/** These bytes could not be written. */
struct unwritten {
    haddr_t address;
    size_t n;
    char *bytes;
};

/** It is a file as HDF5 knows it. */
struct sink_file {
    H5FD_t common; /* HDF5's fields, which must be first */
    struct hdf5_sink *sink;
    haddr_t allocated, end;
    size_t n_unwritten, capacity;
    struct unwritten *unwritten; /* in order of time */
};

static H5FD_t *sink_open(const char *name, unsigned flags, hid_t access, haddr_t most)
{
    struct sink_file *file = check_calloc(1, sizeof *file);
    struct hdf5_sink *const *sink = H5Pget_driver_info(access);
    (void)name;
    (void)flags;
    (void)most;
    CHECK(sink != NULL);
    file->sink = *sink;
    return &file->common;
}

static herr_t sink_close(H5FD_t *common)
{
    struct sink_file *file = (struct sink_file *)common;
    for (size_t i = 0; i < file->n_unwritten; i++)
        free(file->unwritten[i].bytes);
    free(file->unwritten);
    free(file);
    return 0;
}

/* Return the features of HDF5's own driver of plain files, so that files have the same layout. */
static herr_t sink_query(const H5FD_t *common, unsigned long *flags)
{
    (void)common;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t sink_allocated(const H5FD_t *common, H5FD_mem_t type)
{
    (void)type;
    return ((const struct sink_file *)common)->allocated;
}

static herr_t sink_allocate(H5FD_t *common, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((struct sink_file *)common)->allocated = address;
    return 0;
}

static haddr_t sink_end(const H5FD_t *common, H5FD_mem_t type)
{
    (void)type;
    return ((const struct sink_file *)common)->end;
}

/* Copy the bytes that two ranges share. */
static void copy_overlap(const struct unwritten *from, haddr_t address, size_t n, char *to)
{
    haddr_t begin = from->address > address ? from->address : address, from_end = from->address + from->n,
            to_end = address + n, end = from_end < to_end ? from_end : to_end;
    if (begin < end)
        memcpy(to + (begin - address), from->bytes + (begin - from->address), (size_t)(end - begin));
}

static herr_t sink_read(H5FD_t *common, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t n, void *bytes)
{
    const struct sink_file *file = (const struct sink_file *)common;
    (void)type;
    (void)transfer;
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(file->sink->descriptor, (char *)bytes + done, n - done, (off_t)(address + done));
        if (got < 0 && errno != EINTR)
            return -1;
        if (got == 0) { /* bytes after the end are zeros */
            memset((char *)bytes + done, 0, n - done);
            break;
        }
        done += got > 0 ? (size_t)got : 0;
    }
    for (size_t i = 0; i < file->n_unwritten; i++)
        copy_overlap(&file->unwritten[i], address, n, bytes);
    return 0;
}

static herr_t sink_write(H5FD_t *common, H5FD_mem_t type, hid_t transfer, haddr_t address, size_t n, const void *bytes)
{
    struct sink_file *file = (struct sink_file *)common;
    struct hdf5_sink *sink = file->sink;
    (void)type;
    (void)transfer;
    for (size_t done = 0; done < n && sink->reason == 0;) {
        ssize_t got = pwrite(sink->descriptor, (const char *)bytes + done, n - done, (off_t)(address + done));
        if (got < 0 && errno != EINTR)
            sink->reason = errno;
        done += got > 0 ? (size_t)got : 0;
    }
    if (sink->reason != 0) {
        file->unwritten = check_grow(file->unwritten, file->n_unwritten, &file->capacity, sizeof *file->unwritten);
        char *copy = memcpy(check_malloc(n), bytes, n);
        file->unwritten[file->n_unwritten++] = (struct unwritten){address, n, copy};
    }
    file->end = address + n > file->end ? address + n : file->end;
    return 0;
}

static herr_t sink_truncate(H5FD_t *common, hid_t transfer, hbool_t closing)
{
    struct sink_file *file = (struct sink_file *)common;
    (void)transfer;
    (void)closing;
    if (file->allocated == file->end)
        return 0;
    if (file->sink->reason == 0 && ftruncate(file->sink->descriptor, (off_t)file->allocated) != 0)
        file->sink->reason = errno;
    file->end = file->allocated;
    return 0;
}

static const H5FD_class_t sink_class = {
    .name = "slimsim sink",
    .maxaddr = ((haddr_t)1 << 63) - 1,
    .fc_degree = H5F_CLOSE_WEAK,
    .fapl_size = sizeof(struct hdf5_sink *),
    .open = sink_open,
    .close = sink_close,
    .query = sink_query,
    .get_eoa = sink_allocated,
    .set_eoa = sink_allocate,
    .get_eof = sink_end,
    .read = sink_read,
    .write = sink_write,
    .truncate = sink_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

void hdf5_sink_use(hid_t access, struct hdf5_sink *sink)
{
    hid_t driver = H5FDregister(&sink_class);
    HDF5_CHECK(driver >= 0 && H5Pset_driver(access, driver, &sink) >= 0);
    HDF5_CHECK(H5FDunregister(driver) >= 0); /* the access list holds the driver */
}

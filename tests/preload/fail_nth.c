/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * This library for LD_PRELOAD makes calls fail. It counts those that write, sync, rename or create below the folder
 * FAIL_UNDER. The FAIL_NTH-th of them fails as on a full disk (FAIL_ERRNO: another reason). With FAIL_ON each later one
 * fails, too. The file FAIL_MARK then exists. Likewise the FAIL_NTH-th malloc, calloc or realloc fails that the library
 * FAIL_LIBRARY calls, a part of its path.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_turn(void)
{
    static long n;
    const char *nth = getenv("FAIL_NTH"), *reason = getenv("FAIL_ERRNO");
    long turn = nth != NULL ? strtol(nth, NULL, 10) : 0;
    n++;
    if (n != turn && (n < turn || getenv("FAIL_ON") == NULL))
        return false;
    long mark = syscall(SYS_openat, AT_FDCWD, getenv("FAIL_MARK"), O_CREAT | O_WRONLY, 0600);
    if (mark >= 0)
        syscall(SYS_close, mark);
    errno = reason != NULL ? (int)strtol(reason, NULL, 10) : ENOSPC;
    return true;
}

static bool fails_below(const char *path)
{
    const char *folder = getenv("FAIL_UNDER");
    return folder != NULL && strncmp(path, folder, strlen(folder)) == 0 && is_turn();
}

static bool fails(int descriptor)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return fails_below(path);
}

/** Where a library lies in memory. */
struct range {
    const char *library;
    uintptr_t begin, end;
};

static int find_library(struct dl_phdr_info *info, size_t size, void *context)
{
    struct range *range = context;
    (void)size;
    if (strstr(info->dlpi_name, range->library) == NULL)
        return 0;
    range->begin = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            range->end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 1;
}

/* Whether an allocation fails that is called from here. */
static bool fails_at(void *caller)
{
    static struct range range;
    if (range.library == NULL) {
        const char *library = getenv("FAIL_LIBRARY");
        range.library = library != NULL ? library : "";
        if (library != NULL)
            dl_iterate_phdr(find_library, &range);
    }
    return range.begin <= (uintptr_t)caller && (uintptr_t)caller < range.end && is_turn();
}

/* These are the C library's own functions, whose parameters have other names there.
 * NOLINTBEGIN(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

void *malloc(size_t bytes)
{
    return fails_at(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
    return fails_at(__builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return fails_at(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}

ssize_t write(int descriptor, const void *bytes, size_t n)
{
    return fails(descriptor) ? -1 : syscall(SYS_write, descriptor, bytes, n);
}

ssize_t pwrite(int descriptor, const void *bytes, size_t n, off_t offset)
{
    return fails(descriptor) ? -1 : syscall(SYS_pwrite64, descriptor, bytes, n, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t n, off64_t offset)
{
    return pwrite(descriptor, bytes, n, offset);
}

int fsync(int descriptor)
{
    return fails(descriptor) ? -1 : (int)syscall(SYS_fsync, descriptor);
}

int fdatasync(int descriptor)
{
    return fails(descriptor) ? -1 : (int)syscall(SYS_fdatasync, descriptor);
}

int ftruncate(int descriptor, off_t n)
{
    return fails(descriptor) ? -1 : (int)syscall(SYS_ftruncate, descriptor, n);
}

int ftruncate64(int descriptor, off64_t n)
{
    return ftruncate(descriptor, n);
}

int rename(const char *from, const char *to)
{
    return fails_below(to) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int link(const char *from, const char *to)
{
    return fails_below(to) ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    if ((flags & O_CREAT) != 0 && fails_below(path))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
    va_end(list);
    return open(path, flags, mode);
}

/* A stream of the C library writes by calls of its own, which no other library can replace: it is given ours. */
static ssize_t stream_write(void *cookie, const char *bytes, size_t n)
{
    ssize_t written = write(*(int *)cookie, bytes, n);
    return written < 0 ? 0 : written;
}

static ssize_t stream_read(void *cookie, char *bytes, size_t n)
{
    return read(*(int *)cookie, bytes, n);
}

static int stream_close(void *cookie)
{
    int status = close(*(int *)cookie);
    free(cookie);
    return status;
}

FILE *fdopen(int descriptor, const char *mode)
{
    int *cookie = malloc(sizeof *cookie);
    if (cookie == NULL)
        return NULL;
    *cookie = descriptor;
    return fopencookie(cookie, mode,
                       (cookie_io_functions_t){.read = stream_read, .write = stream_write, .close = stream_close});
}
/* NOLINTEND(bugprone-reserved-identifier,readability-inconsistent-declaration-parameter-name) */

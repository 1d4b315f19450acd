/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "sweep/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/regular.h"
#include "trace/output.h"

static const char magic[16] = "slimsim journal"; /* and the terminating NUL */

enum { FORMAT = 1 };
static const double SYNC_S = 1, LOCK_S = 1; /* longest wait for the disk, for a driver that is just dying */

/** In front of a payload. `hash` is that of the fields before it and the payload. */
struct frame {
    uint32_t kind, format;
    uint64_t n_bytes;
    uint64_t hash;
};

static uint64_t frame_hash(const struct frame *frame, const void *payload)
{
    uint64_t hash = hash_bytes(HASH_START, frame, offsetof(struct frame, hash));
    return hash_bytes(hash, payload, frame->n_bytes);
}

/** Read all of a range; false at the end of the file or on failure. */
static bool read_at(int descriptor, void *bytes, size_t n_bytes, int64_t offset)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pread(descriptor, (char *)bytes + done, n_bytes - done, offset + (int64_t)done);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/** Visit whole frames; journal->end is the end of the last. */
static bool scan(struct journal *journal, int64_t size, journal_visitor *visitor, void *context, struct error *err)
{
    struct frame frame;
    char *payload = NULL;
    size_t capacity = 0;
    bool ok = true;
    journal->end = (int64_t)sizeof magic;
    while (ok && read_at(journal->descriptor, &frame, sizeof frame, journal->end)) {
        int64_t offset = journal->end + (int64_t)sizeof frame;
        if (frame.kind >= JOURNAL_N_KINDS || frame.format != FORMAT || frame.n_bytes > (uint64_t)(size - offset))
            break;
        if (frame.n_bytes > capacity) {
            capacity = 2 * frame.n_bytes;
            payload = check_realloc(payload, capacity);
        }
        if (!read_at(journal->descriptor, payload, frame.n_bytes, offset) || frame_hash(&frame, payload) != frame.hash)
            break;
        ok = visitor(context, (enum journal_kind)frame.kind, offset, payload, frame.n_bytes, err);
        journal->end = offset + (int64_t)frame.n_bytes;
    }
    free(payload);
    return ok;
}

/** Take the lock. A driver that was killed holds it until its last process is gone. */
static bool lock(const struct journal *journal, struct error *err)
{
    for (double begin_s = clock_wall_s(); flock(journal->descriptor, LOCK_EX | LOCK_NB) != 0;) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return error_set_status(err, ERROR_IO, "%s: cannot be locked: %s", journal->path, strerror(errno));
        if (clock_wall_s() - begin_s > LOCK_S)
            return error_set_status(err, ERROR_BUSY,
                                    "%s: another slimsim writes results of this name in this output folder",
                                    journal->path);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return true;
}

static bool write_failed(const struct journal *journal, struct error *err)
{
    return error_set_status(err, ERROR_IO, "cannot write %s: %s", journal->path, strerror(errno));
}

/** Write all at the end of the last whole frame; cut off again what a failure leaves. */
static bool write_end(struct journal *journal, const void *head, size_t n_head, const void *bytes, size_t n_bytes)
{
    const void *part[2] = {head, bytes};
    const size_t n_part[2] = {n_head, n_bytes};
    int64_t at = journal->end;
    for (int i = 0; i < 2; i++)
        for (size_t done = 0; done < n_part[i];) {
            ssize_t n = pwrite(journal->descriptor, (const char *)part[i] + done, n_part[i] - done, at);
            if (n < 0 && errno != EINTR) {
                int reason = errno;
                if (ftruncate(journal->descriptor, journal->end) != 0) /* then the next driver cuts it off */
                    errno = reason;
                errno = reason;
                return false;
            }
            done += n > 0 ? (size_t)n : 0;
            at += n > 0 ? n : 0;
        }
    journal->end = at;
    return true;
}

/** The begin of the file: written where it is empty, or torn. */
static bool open_begin(struct journal *journal, int64_t size, bool writable, struct error *err)
{
    char begin[sizeof magic];
    size_t n = size < (int64_t)sizeof magic ? (size_t)size : sizeof magic;
    if (!read_at(journal->descriptor, begin, n, 0) || memcmp(begin, magic, n) != 0)
        return error_set(err, "%s: not a journal of slimsim%s", journal->path,
                         writable ? "; another folder (--output DIR) or name (--set name=NAME) keeps it" : "");
    if (n == sizeof magic)
        return true;
    if (!writable)
        return error_set(err, "%s: truncated at byte %lld, before any point", journal->path, (long long)size);
    journal->end = 0; /* the folder must know the file before points are trusted to it */
    return (write_end(journal, magic, sizeof magic, NULL, 0) && output_sync_folder(journal->path)) ||
           write_failed(journal, err);
}

/** Whether the path still leads to the open file: who held the lock may have removed it. */
static bool is_at(const char *path, const struct stat *status)
{
    struct stat other;
    return lstat(path, &other) == 0 && other.st_dev == status->st_dev && other.st_ino == status->st_ino;
}

/** Open, made where it is missing. Somebody may have put a link there in a shared folder: it is not followed. */
static int open_or_make(const char *path, bool *made)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int descriptor;
    do { /* again if it was removed between the two calls */
        descriptor = open(path, flags | O_CREAT | O_EXCL, 0666);
        *made = descriptor >= 0;
        if (*made || errno != EEXIST)
            return descriptor;
        descriptor = open(path, flags);
    } while (descriptor < 0 && errno == ENOENT);
    return descriptor;
}

/** Open, made where it is missing, and take the lock. */
static bool open_locked(const char *path, struct journal *journal, struct stat *status, bool *made, struct error *err)
{
    *journal = (struct journal){.path = check_strdup(path), .descriptor = -1};
    do {
        if (journal->descriptor >= 0)
            close(journal->descriptor);
        journal->descriptor = open_or_make(path, made);
        if (journal->descriptor < 0 && errno != ELOOP)
            return error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: %s", path, strerror(errno));
        if (journal->descriptor < 0 || fstat(journal->descriptor, status) != 0 || !S_ISREG(status->st_mode))
            return error_set_status(err, ERROR_CANT_CREATE, "cannot create %s: not a regular file", path);
        if (!lock(journal, err))
            return false;
        if (fstat(journal->descriptor, status) != 0) /* once more: who held the lock wrote it */
            return write_failed(journal, err);
    } while (!is_at(path, status));
    return true;
}

bool journal_hold(const char *path, struct journal *journal, struct error *err)
{
    struct stat status = {0};
    bool made;
    char begin[sizeof magic];
    if (!open_locked(path, journal, &status, &made, err))
        return false;
    journal->guarded =
        made || (status.st_size == (int64_t)sizeof magic && read_at(journal->descriptor, begin, sizeof begin, 0) &&
                 memcmp(begin, magic, sizeof magic) == 0);
    if (journal->guarded)
        output_guard(journal->path);
    return !made || write_end(journal, magic, sizeof magic, NULL, 0) || write_failed(journal, err);
}

void journal_release(struct journal *journal)
{
    if (journal->guarded) {
        output_unguard(journal->path);
        unlink(journal->path);
    }
    journal_close(journal);
}

bool journal_open(const char *path, journal_visitor *visitor, void *context, struct journal *journal, struct error *err)
{
    struct stat status = {0};
    bool made;
    if (!open_locked(path, journal, &status, &made, err))
        return false;
    if (!open_begin(journal, status.st_size, true, err) || !scan(journal, status.st_size, visitor, context, err))
        return false;
    journal->n_dropped = status.st_size > journal->end ? status.st_size - journal->end : 0;
    if (journal->n_dropped > 0 && ftruncate(journal->descriptor, journal->end) != 0)
        return write_failed(journal, err);
    return true;
}

bool journal_read(const char *path, journal_visitor *visitor, void *context, struct journal *journal, struct error *err)
{
    struct stat status;
    *journal = (struct journal){.path = check_strdup(path), .descriptor = -1};
    if (!regular_check(path, err))
        return false;
    journal->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (journal->descriptor < 0 || fstat(journal->descriptor, &status) != 0)
        return error_set(err, "%s: cannot be read: %s", path, strerror(errno));
    if (!open_begin(journal, status.st_size, false, err) || !scan(journal, status.st_size, visitor, context, err))
        return false;
    return journal->end == status.st_size ||
           error_set(err,
                     "%s: truncated or damaged at byte %lld of %lld; the same command with its --shard mends the "
                     "journal and computes what is lost",
                     path, (long long)journal->end, (long long)status.st_size);
}

bool journal_append(struct journal *journal, enum journal_kind kind, const void *payload, size_t n_bytes,
                    struct error *err)
{
    struct frame frame = {.kind = kind, .format = FORMAT, .n_bytes = n_bytes};
    frame.hash = frame_hash(&frame, payload);
    if (!write_end(journal, &frame, sizeof frame, payload, n_bytes))
        return write_failed(journal, err);
    return clock_wall_s() - journal->synced_s < SYNC_S || journal_sync(journal, err);
}

bool journal_sync(struct journal *journal, struct error *err)
{
    journal->synced_s = clock_wall_s();
    return fdatasync(journal->descriptor) == 0 || write_failed(journal, err);
}

void *journal_payload(const struct journal *journal, int64_t offset, size_t n_bytes, struct error *err)
{
    void *payload = check_malloc(n_bytes);
    if (read_at(journal->descriptor, payload, n_bytes, offset))
        return payload;
    free(payload);
    error_set_status(err, ERROR_IO, "cannot read %s: %s", journal->path, strerror(errno));
    return NULL;
}

void journal_close(struct journal *journal)
{
    if (journal->descriptor >= 0)
        close(journal->descriptor);
    free(journal->path);
    *journal = (struct journal){.descriptor = -1};
}

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module writes the files of all scripts, by the rules of src/trace/output.h. It needs no library.

A file gets its name when it is complete. Until then it has a random name beside it, which no link can wait for. A file that
no script wrote is refused, and so is a folder, a pipe or a device.
"""
import os
import pathlib
import re
import secrets
import signal
import stat
import sys

NEAR = 4096  # bytes at both ends of a file, where its marks stand
LEFT_OVER = re.compile(r"\.tmp-([1-9]\d*)-[0-9a-f]{16}")


class Refused(Exception):
    """A sentence about a file, with the exit status that slimsim has for it."""

    def __init__(self, sentence, status):
        super().__init__(sentence)
        self.status = status


def is_ours(path, marks):
    """Whether a file begins with the first mark and has the others near its ends. An empty file belongs to nobody."""
    with open(path, "rb") as file:
        head = file.read(NEAR)
        file.seek(max(0, os.fstat(file.fileno()).st_size - NEAR))
        ends = head + file.read(NEAR)
    return not head or (head.startswith(marks[0]) and all(mark in ends for mark in marks))


def target_of(path, marks):
    """The file that an output may replace; of a link, what it leads to. Refused: it may not."""
    path = pathlib.Path(path)
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise Refused(f"cannot create {path}: {'Is a directory' if stat.S_ISDIR(mode) else 'it is not a regular file'}", 73)
        if not is_ours(path, marks):
            raise Refused(f"{path} is no file of this script, which would replace it; to keep both choose another --output", 2)
        return path.resolve()
    except FileNotFoundError:
        return path
    except OSError as error:
        raise Refused(f"cannot create {path}: {error.strerror}", 73) from None


def clean(target):
    """Remove what ended processes left of this output."""
    for path in target.parent.iterdir():
        found = LEFT_OVER.fullmatch(path.name, len(target.name)) if path.name.startswith(target.name) else None
        if found and not pathlib.Path("/proc", found[1]).exists():
            path.unlink(missing_ok=True)


def begin(target):
    """A new empty file beside the target: its descriptor and path."""
    temporary = target.with_name(f"{target.name}.tmp-{os.getpid()}-{secrets.token_hex(8)}")
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), temporary


def write(*files):
    """Write files, each of (path, bytes, marks): all of them, or none if one is refused or the disk is full."""
    temporaries, path, status = [], None, 73
    try:
        targets = [target_of(path, marks) for path, _, marks in files]
        for target, (path, data, _) in zip(targets, files):
            status = 73
            clean(target)
            descriptor, temporary = begin(target)
            temporaries.append(temporary)
            status = 74
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(descriptor)
        for temporary, target in zip(temporaries, targets):
            os.replace(temporary, target)
    except OSError as error:
        raise Refused(f"cannot {'create' if status == 73 else 'write'} {path}: {error.strerror}", status) from None
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)


def create(path):
    """A new table of measurements, which took hours: one that exists is never replaced, but Refused."""
    try:
        return open(path, "x", newline="", encoding="utf-8")
    except FileExistsError:
        raise Refused(f"{path} exists, and no measurement is replaced; choose another --output", 2) from None
    except OSError as error:
        raise Refused(f"cannot create {path}: {error.strerror}", 73) from None


def exit_with(main):
    """The process ends with main()'s status, with that of what was refused, or as slimsim when it is stopped: 130, 143, and
    the slimsim it waits for with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Refused as error:
        print(error, file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        sys.exit(130)

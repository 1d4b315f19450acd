# SPDX-License-Identifier: GPL-3.0-or-later
"""This module calls a command with the keywords of its function, and returns what it printed, its JSON or its files.

`given` are the keywords of a call. The names that follow it are those of operands, such as "scenario", which may be
lists. The others are options of the command.
"""
import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from slimsim import program
from slimsim.program import File, Json, Scenario
from slimsim.result import Result

# Lines on stderr that are no notes: progress, counts and files.
PROGRESS = re.compile(r": .*\b\d+ of \d+ |^written: |^\d+ (points?|runs?)\b")
WRITTEN = re.compile(r"^(?:.*; )?written: (.*?\.h5)(?:,| and |;|$)", re.MULTILINE)


def _started(command: str, given: Mapping[str, Any], names: tuple[str, ...], folder: File) -> tuple[str, str]:
    """Run a command. Arrays of lengths are saved into the folder. @return what it printed on stdout and on stderr"""
    try:
        given = _with_arrays(given, folder)
    except RecursionError:
        raise program.Error("values are nested too deeply, or hold themselves", 2) from None
    operands: list[Scenario] = []
    for name in names:
        value = given[name]
        operands += value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    done = program.start(command, operands, {key: value for key, value in given.items() if key not in names})
    return done.stdout, done.stderr


def text(command: str, given: Mapping[str, Any], *names: str, folder: File | None = None) -> str:
    """Return what a command prints. folder: of arrays of lengths; None: a temporary one"""
    with _folder(folder) as place:
        return _started(command, given, names, place)[0]


def answer(command: str, given: Mapping[str, Any], *names: str) -> Json:
    """Return what a command prints with --json. Without the keyword `output` its files go away."""
    with _folder(given.get("output")) as folder:
        given = {**given, "json": True, **({"output": folder} if "output" in given else {})}
        told: Json = json.loads(_started(command, given, names, folder)[0])
        return told


def files(command: str, given: Mapping[str, Any], *names: str) -> Result:
    """Return the file that a command wrote, whose name it prints on stderr, and what it printed on stdout.

    Without the keyword `output` the file goes away with the result.
    """
    output = given["output"]
    folder = _temporary_folder() if output is None else output
    try:
        printed, said = _started(command, {**given, "output": folder}, names, folder)
    except BaseException as error:
        if output is None:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, program.Error):
                raise program.Error(_without_file(str(error), folder), error.status) from None
        raise
    result = written(printed, said)
    if output is None:
        weakref.finalize(result, shutil.rmtree, folder, True)
    return result


def written(printed: str, said: str) -> Result:
    """Return the result of a command that printed this on stdout, and said on stderr which file it wrote."""
    file = WRITTEN.search(said)
    notes = [line for line in said.splitlines() if not PROGRESS.search(line)]
    return Result(file[1] if file else None, printed, notes)


def _with_arrays(value: Any, folder: File, of_lengths: bool = False) -> Any:
    """Return a value in which each array under a key `lengths` is the path of a file in the folder.

    of_lengths: the value is that of a key `lengths`, or is in its list, as the values of a sweep are
    """
    if isinstance(value, Mapping):
        return {key: _with_arrays(entry, folder, str(key).split(".")[-1] == "lengths") for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_arrays(entry, folder, of_lengths) for entry in value]
    is_array = hasattr(value, "tolist") and getattr(value, "ndim", 1) > 0  # a number of numpy has it, too
    return _saved(value, folder) if of_lengths and is_array else value


def _saved(lengths: Any, folder: File) -> str:
    """Save lengths as .npy under a name that follows from them, so that the same lengths have the same name.

    @return the absolute path
    TypeError: they are no numbers
    """
    import numpy  # whoever has an array has numpy; others need none
    array = numpy.asarray(lengths)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"lengths are whole numbers, but this array has the type {array.dtype}")
    array = array.astype("<f8" if array.dtype.kind == "f" else "<i8")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(os.path.abspath(folder), f"lengths-{hashlib.sha256(array.tobytes()).hexdigest()[:16]}.npy")
    numpy.save(path, array)
    return path


def _temporary_folder() -> str:
    try:
        return tempfile.mkdtemp(prefix="slimsim-")
    except OSError as error:
        raise program.Error(f"a temporary folder cannot be made: {error}", 73) from None


@contextlib.contextmanager
def _folder(folder: File | None) -> Iterator[File]:
    """Give this folder, or for None a temporary one."""
    place = _temporary_folder() if folder is None else folder
    try:
        yield place
    finally:
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


def _without_file(message: str, folder: File) -> str:
    """Leave out the line of a message that names a file of a folder which is no more."""
    return "\n".join(line for line in message.splitlines() if not line.startswith(f"{folder}/")) or message

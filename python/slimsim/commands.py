# SPDX-License-Identifier: GPL-3.0-or-later
"""Each function of this module is a command of slimsim.

A scenario is a dict of its keys (docs/reference.md), whose relative paths start at the working folder, or the path of a
.yaml file. Keywords are the options of the command: jobs=2 is --jobs=2, verbose=True is --verbose, and
set={"data.context": "64Ki"} is --set data.context=64Ki. `slimsim COMMAND --help` lists them. If the program fails, it
raises slimsim.Error.

Lengths of documents may be an array of numpy or a column of pandas, whose documents are drawn at random, as those of a
file are. A list is taken in its order.
"""
import hashlib
import json
import os
import re
import shutil
import tempfile
import weakref

from slimsim import program
from slimsim.result import Result

WRITTEN = re.compile(r"^written: (.*?\.h5)(?:,| and |;|$)", re.MULTILINE)


def run(scenario, output=None, **options):
    """Simulate a scenario, or a sweep if it has `sweep:`, and compare its training systems.

    output: folder of NAME.h5 and NAME.csv; None: a temporary folder, which goes away with the result
    @return slimsim.Result
    """
    return _with_files("run", scenario, output, options)


def sweep(scenario, axes=None, output=None, **options):
    """Run every point of a sweep.

    axes: keys and the values they take, beside those of the scenario's `sweep:` {"platform.nodes": [2, 4]}
    @return slimsim.Result, in whose tables the swept keys come first
    ValueError: the scenario is a dict that sweeps nothing, and there are no axes
    """
    if axes is None and isinstance(scenario, dict) and "sweep" not in scenario:
        raise ValueError("the scenario has no key sweep, and no axes are given")
    return _with_files("run", scenario, output, {"sweep": axes or {}, **options})


def capacity(scenario, output=None, **options):
    """Ask which cluster a training needs (`slimsim capacity`).

    @return slimsim.Result: verdict is the text of the command, answer its JSON (answer, date, changes, candidates), and
            tables are candidates, changes, dates
    """
    result = _with_files("capacity", scenario, output, options)
    if result.path is not None:  # the folder keeps the sizes that were computed, so the second call takes no time
        result.answer = _json("capacity", scenario, {**options, "output": result.path.parent})
    return result


def plan(scenario, **options):
    """Return what each system decides for an iteration, as a list with a dict for each system.

    Keywords: iteration=K, system=LABEL. Slices are [sample, begin, end, cp] in tokens.
    """
    return _json("plan", scenario, options)["systems"]


def cost(**options):
    """Return FLOPs, bytes and seconds of a unit of slices, kernel by kernel, as a dict.

    Keywords: model and slice ("0:4096", or a list) are needed; device, platform, tp, cp, ... see `slimsim cost --help`.
    """
    return _json("cost", None, options)


def lengths(scenario, **options):
    """Return how few samples hold how much of the tokens and FLOPs, as a dict."""
    return _json("lengths", scenario, options)


def explain(scenario, **options):
    """Return why systems are as fast as they are, as a dict. Keywords: system=LABEL; output=DIR keeps the runs there.

    scenario: a slimsim.Result, too, whose scenario runs again
    """
    folder = _temporary_folder()
    try:
        return _json("explain", scenario.path if isinstance(scenario, Result) else scenario, {"output": folder, **options})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _json(command, scenario, options):
    folder = options.get("output")
    temporary = _temporary_folder() if folder is None else None
    try:
        scenario, options = _placed(scenario, options, temporary or folder)
        printed = program.start(command, scenario, {"json": True, **options}).stdout
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    try:
        return json.loads(printed)
    except ValueError:
        raise program.Error(f"slimsim {command} printed no JSON with these options: {printed[:60]!r}", 64) from None


def _with_arrays(value, folder):
    """Return a value in which each array under a key `lengths` is the path of a file in the folder."""
    if isinstance(value, dict):
        return {key: _saved(entry, folder) if str(key).split(".")[-1] == "lengths" and hasattr(entry, "tolist")
                else _with_arrays(entry, folder) for key, entry in value.items()}
    return [_with_arrays(entry, folder) for entry in value] if isinstance(value, list) else value


def _placed(scenario, options, folder):
    """Return a scenario and options whose arrays of lengths are files in the folder."""
    try:
        return _with_arrays(scenario, folder), _with_arrays(options, folder)
    except RecursionError:
        raise program.Error("values are nested too deeply, or hold themselves", 2) from None


def _saved(lengths, folder):
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


def _temporary_folder():
    try:
        return tempfile.mkdtemp(prefix="slimsim-")
    except OSError as error:
        raise program.Error(f"a temporary folder cannot be made: {error}", 73) from None


def _without_file(message, folder):
    """Leave out the line of a message that names a file of a folder which is no more."""
    return "\n".join(line for line in message.splitlines() if not line.startswith(f"{folder}/")) or message


def _with_files(command, scenario, output, options):
    """Run a command that writes NAME.h5 into a folder. Without --quiet it prints the name of the file on stderr."""
    options = {name: value for name, value in options.items() if name != "quiet"}
    folder = _temporary_folder() if output is None else output
    try:
        scenario, options = _placed(scenario, options, folder)
        done = program.start(command, scenario, {"output": folder, **options})
        written = WRITTEN.search(done.stderr)
        result = Result(written[1] if written else None, done.stdout)
    except BaseException as error:
        if output is None:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, program.Error):
                raise program.Error(_without_file(str(error), folder), error.status) from None
        raise
    if output is None:
        weakref.finalize(result, shutil.rmtree, folder, True)
    return result

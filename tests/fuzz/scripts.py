#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test gives the scripts of analysis/ and the package slimsim damaged files. They must end by themselves, well or with
one sentence that names the file. SLIMSIM_FUZZ_SECONDS sets how long it runs. `scripts.py SEED-NUMBER` runs one mutant
again."""
import os
import pathlib
import random
import re
import resource
import runpy
import shutil
import signal
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "analysis"))
import mutate
from program import PROGRAM, QUESTION, SANITIZED, SCRATCH, run

os.environ["SLIMSIM"] = str(PROGRAM)
from common import slimsim  # noqa: E402  and all libraries, so that the process of a mutant begins at once

LIMIT_S, LIMIT_BYTES = 20, 4 << 30
SWEEP = mutate.SCENARIO.replace("tiny", "rivals").replace("both", "critical-path") + """\
sweep:
  model: [model.yaml]
  data.lengths: [4Ki 1000 300]
  data.context: [4Ki, 8Ki]
"""
RIVALS = ("rivals.py", "--no-run", "--output", ".", "--scenario", "rivals.yaml", "--page", "page.md")
KINDS = {  # file that is damaged: how, and the scripts that read it; None is the package
    "tiny.h5": (mutate.hdf5, (("report.py", "FILE"), ("report.py", "FILE"), ("timeline.py", "FILE"), ("timeline.py", "FILE", "--pipeline", "0"),
                              ("lengths.py", "FILE"), ("explain.py", "FILE"), None)),
    "swept.h5": (mutate.hdf5, (("report.py", "FILE"), None)),
    "question.capacity.h5": (mutate.hdf5, (("report.py", "FILE"), ("capacity.py", "FILE"), None)),
    "traces/rivals.h5": (mutate.hdf5, (RIVALS,)),
    "validation.h5": (mutate.hdf5, (("validation.py", "FILE"),)),
    "explain.json": (mutate.text, (("explain.py", "FILE"),)),
    "tiny.sensitivity.csv": (mutate.text, (("sensitivity.py", "FILE"),)),
    "stragglers.csv": (mutate.text, (("stragglers.py", "FILE"),)),
    "figures/amplifier.csv": (mutate.text, (("results.py", "--figures", "figures", "--output", "results.md"),)),
}


def make_seeds(folder):
    mutate.make_seeds(folder)
    (folder / "question.yaml").write_text(QUESTION)
    (folder / "rivals.yaml").write_text(SWEEP)
    (folder / "stragglers.yaml").write_text(mutate.FAULTS.replace("tiny", "stragglers"))
    for arguments in (("capacity", "question.yaml", "--output", "."), ("run", "rivals.yaml", "--output", "traces"),
                      ("run", "stragglers.yaml", "--output", ".", "--sweep", "faults.0.factor=1,2", "--sweep", "faults.1.factor=1,2"),
                      ("sensitivity", "base.yaml", "--output", "."), ("validate", "rows.csv", "--output", ".")):
        done = run(*arguments, "--quiet", cwd=folder)
        assert done.returncode == 0, done.stderr
    (folder / "explain.json").write_text(run("explain", "base.yaml", "--json", cwd=folder).stdout)
    assert call(("paper.py", "amplifier", "--output", "figures"), folder) == (0, "paper.py: amplifier\n")


def read_all(path):
    """Read each table and property of a file as an analyst does. An error that the package promises names the file."""
    result = slimsim.Result(path)
    names = [None] * 4
    try:
        with result.open() as file:
            names += list(file)
    except (OSError, ValueError, KeyError) as error:
        assert str(path) in str(error), error
    for number, name in enumerate(names):
        try:
            result.table(name) if name else getattr(result, ("summary", "iterations", "candidates", "scenario")[number])
        except (OSError, ValueError, KeyError) as error:
            assert str(path) in str(error), error


def child(command, folder):
    """Be the process of a script. It never returns."""
    status = 70
    try:
        os.chdir(folder)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        if not SANITIZED:  # a sanitizer reserves more
            resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
        sys.argv = list(command)
        runpy.run_path(str(ROOT / "analysis" / command[0]), run_name="__main__") if command[0].endswith(".py") else read_all(command[0])
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def call(command, folder, limit_s=3 * LIMIT_S):
    """Run a script in a process of its own. @return its status, None: it hangs, and what it says on stderr"""
    process = os.fork()
    if process == 0:
        child(command, folder)
    begin = time.monotonic()
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), (folder / "err").read_text(errors="replace")
        if time.monotonic() - begin > limit_s:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return None, ""
        time.sleep(0.01)


def make(seeds, case, folder):
    """Make the folder of a mutant and return its file and command."""
    rng = random.Random(case)
    name = sorted(KINDS)[int(case.split("-")[1]) % len(KINDS)]
    how, commands = KINDS[name]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(seeds, folder)
    if how is mutate.hdf5:
        how(rng, folder / name)
    else:
        (folder / name).write_bytes(how(rng, (folder / name).read_bytes()))
    return name, [word.replace("FILE", name) for word in rng.choice(commands) or ("FILE",)]


def fault(name, status, errors):
    """Find the fault in the end of a script, or None."""
    if status not in (0, 2):
        return f"status {status}"
    if status == 0:
        return f"it says {errors!r}" if errors and "says 'not run' of" not in errors else None
    if errors.count("\n") != 1 or not (name in errors or "holds no results" in errors) or not re.search(r"\w+ \w+", errors):
        return "no sentence that names the file"
    return "control characters on stderr" if re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", errors) else None


def try_one(seeds, case):
    folder = SCRATCH / "mutant"
    name, command = make(seeds, case, folder)
    status, errors = call(command, folder)
    wrong = fault(name, status, errors)
    if wrong is None:
        return status
    kept = SCRATCH / "failures" / case
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    print(f"mutant {case}: {wrong}\n  in {kept}: {command}\n  {errors[-3000:]}", flush=True)
    return None


def main():
    seed, seconds = os.environ.get("SLIMSIM_FUZZ_SEED", "1"), float(os.environ.get("SLIMSIM_FUZZ_SECONDS", "8"))
    seeds = SCRATCH / "seeds"
    shutil.rmtree(seeds, ignore_errors=True)
    seeds.mkdir(parents=True)
    make_seeds(seeds)
    if len(sys.argv) > 1:
        return try_one(seeds, sys.argv[1]) is None
    for name, (_, commands) in KINDS.items():  # undamaged files are read
        for command in commands:
            status, errors = call([word.replace("FILE", name) for word in command or ("FILE",)], seeds)
            assert status == 0, (name, command, status, errors)
    begin, number, ends = time.monotonic(), 0, {}
    while time.monotonic() - begin < seconds:
        status = try_one(seeds, f"{seed}-{number}")
        ends[status] = ends.get(status, 0) + 1
        number += 1
    print(f"seed {seed}: {number} mutants in {seconds:g} s, ends {ends}")
    if None in ends:
        print(f"SLIMSIM_FUZZ_SEED={seed}: {ends[None]} mutants failed, kept in {SCRATCH}/failures")
    return None in ends


if __name__ == "__main__":
    sys.exit(main())

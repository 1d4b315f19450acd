#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test gives slimsim damaged inputs of every kind. It must end by itself, with a status of its list and a
sentence, and print no NaN. SLIMSIM_FUZZ_SECONDS sets how long it runs. SLIMSIM_FUZZ_SEED gives another row of mutants.
`fuzz.py SEED-NUMBER` runs one mutant again."""
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import mutate
from program import PROGRAM, SCRATCH, run

LIMIT_S = 20  # of CPU; three times that of the clock, as other tests run beside
STATUSES = (0, 1, 2, 64, 71, 73, 74, 75)
SANITIZERS = {"LSAN_OPTIONS": f"suppressions={pathlib.Path(__file__).with_name('leaks.supp')}:print_suppressions=0",
              "ASAN_OPTIONS": "allocator_may_return_null=1:soft_rss_limit_mb=1500:max_allocation_size_mb=1500",
              "UBSAN_OPTIONS": "print_stacktrace=1"}
NO_MEMORY = re.compile(r"(?m)^==\d+==(WARNING: AddressSanitizer failed to allocate|AddressSanitizer: soft rss limit).*\n")
NOT_FINITE = re.compile(r"(?i)(?<![\w.-])[-+]?(?:nan|inf|infinity)(?![\w-])")
FEW = ("--set", "iterations.measured=3")  # a million iterations are valid, and take their time
LITTLE = ("--set", "data.global_batch=6", "--set", "data.context=8Ki")
RUN = ("run", "FILE", "--quiet", "--output", "out", "--time-limit", "8s")

SCENARIO_VERBS = ((*RUN, "--json"), (*RUN, "--json"), (*RUN, "--jobs", "2"), ("run", "FILE", "--list"), ("plan", "FILE", *LITTLE),
                  ("lengths", "FILE", "--json", *FEW), ("export", "FILE", "--dag", "dot", *LITTLE),
                  ("export", "FILE", "--dag", "graphml", *LITTLE),
                  ("submit", "FILE", "--shards", "2", "--dry-run", "--output", "out"))
LENGTHS = ("lengths", "base.yaml", "--json", "--set", "data.lengths=FILE")
KINDS = {  # file that is damaged: how, and the commands that read it
    **{name: (mutate.text, SCENARIO_VERBS) for name in
       ("base.yaml", "faults.yaml", "sweep.yaml", "others.yaml", "search.yaml", "base.json")},
    "model.yaml": (mutate.text, (("run", "base.yaml", *RUN[2:], "--json"), ("cost", "--model", "FILE", "--slice", "0:4096", "--json"))),
    "h800.yaml": (mutate.text, (("cost", "--model", "model.yaml", "--slice", "0:4096", "--tp", "2", "--device", "FILE", "--json"),
                                ("run", "base.yaml", *RUN[2:], "--json", "--set", "device=FILE"),
                                ("calibrate", "kernels.csv", "collectives.csv", "--device", "FILE"))),
    "space.yaml": (mutate.text, (("run", "search.yaml", *RUN[2:], "--json"),)),
    "composer.yaml": (mutate.text, (("run", "base.yaml", *RUN[2:], "--json", "--set", "framework=FILE"),
                                    ("run", "search.yaml", *RUN[2:], "--json", "--set", "framework=FILE"))),
    "llama3.yaml": (mutate.text, (("run", "base.yaml", *RUN[2:], "--json", "--set", "reliability=FILE"),)),
    "github.yaml": (mutate.text, (LENGTHS,)),
    "wikipedia-quantiles.yaml": (mutate.text, (LENGTHS,)),
    "platform.xml": (mutate.text, (("run", "base.yaml", *RUN[2:], "--json"), ("cost", "--model", "model.yaml", "--slice", "0:4096",
                                                                              "--tp", "2", "--platform", "FILE", "--json"))),
    "platform.yaml": (mutate.text, (("run", "base.yaml", *RUN[2:], "--json", "--set", "platform=FILE"), ("platform", "FILE"))),
    "nccl.xml": (mutate.text, (("import", "FILE"), ("import", "--nodes", "3", "FILE", "topology.conf"))),
    "topology.conf": (mutate.text, (("import", "FILE"), ("import", "FILE", "nccl.xml"), ("platform", "FILE"))),
    "astra.yml": (mutate.text, (("platform", "FILE"), ("run", "FILE"))),
    "simai": (mutate.text, (("platform", "FILE"), ("import", "FILE"))),
    "lengths.csv": (mutate.text, (LENGTHS, (*LENGTHS, "--set", "data.column=tokens"))),
    "lengths.txt": (mutate.text, (LENGTHS,)),
    "lengths.jsonl": (mutate.text, (LENGTHS, (*LENGTHS, "--set", "data.column=tokens"))),
    "lengths.idx": (mutate.flip, (LENGTHS, (*LENGTHS, "--set", "data.column=sequences"))),
    "lengths.npy": (mutate.npy, (LENGTHS,)),
    "lengths.h5": (mutate.hdf5, (LENGTHS, (*LENGTHS, "--set", "data.column=a/tokens"))),
    "rows.csv": (mutate.text, (("validate", "FILE", "--json", "--quiet", "--output", "out"),)),
    "layers.csv": (mutate.text, (("validate", "FILE", "--quiet", "--output", "out"),
                                 ("calibrate", "kernels.csv", "collectives.csv", "--training", "FILE", "--device", "h800.yaml"))),
    "kernels.csv": (mutate.text, (("validate", "FILE", "--json", "--quiet", "--output", "out"),
                                  ("calibrate", "FILE", "collectives.csv", "--device", "h800.yaml"))),
    "collectives.csv": (mutate.text, (("calibrate", "kernels.csv", "FILE", "--device", "h800.yaml"),)),
    "tiny.h5": (mutate.hdf5, (("export", "FILE", "--chrome"), ("export", "FILE", "--csv", "tasks"), ("export", "FILE", "--csv", "summary"),
                              ("export", "FILE", "--hta", "out/hta"),
                              (*RUN[:1], "base.yaml", *RUN[2:4], ".", *RUN[5:]))),
    "swept.h5": (mutate.hdf5, (("export", "FILE", "--chrome", "--point", "1"), ("export", "FILE", "--csv", "manifest"))),
    "swept.csv": (mutate.text, (("best", "FILE", "--json"), ("best", "FILE", "--pareto", "gpus,tokens_per_s", "--all"), ("best", "FILE", "--where", "peak_gib<80"))),
    "swept.journal": (mutate.journal, (("run", "sweep.yaml", *RUN[2:4], ".", *RUN[5:], "--set", "trace=full"),
                                       ("merge", "FILE", "--output", "out"))),
    "parts.shard-1-of-2.journal": (mutate.journal, (("merge", "FILE", "parts.shard-2-of-2.journal", "--output", "out"),
                                                   ("run", "sweep.yaml", *RUN[2:4], ".", *RUN[5:], "--set", "name=parts", "--shard", "1/2"))),
    "--set": (None, SCENARIO_VERBS),
}


def read_keys():
    """Find the keys of base.yaml and of others.yaml, which has knobs of each system, with the values that they
    allow."""
    table = r"(?m)^ *([a-z_N.]+) +[a-z]+ +\S+ +(\S+(?: to \S+)?) "
    listed = run("list", "keys").stdout.split("N counts the entries")[0]
    keys = [(key.replace("N", "0"), allowed) for key, allowed in re.findall(table, listed) if key != "key"]
    about = re.split(r"(?m)^(?=[a-z])", run("list", "systems").stdout)
    knobs = [(f"systems.{i}.{key}", allowed) for i, name in enumerate(mutate.SYSTEMS)
             for text in about if text.startswith(name + ":") for key, allowed in re.findall(table, text) if key != "key"]
    return {"base.yaml": keys, "others.yaml": knobs}


def settings(rng, keys):
    """Draw some keys of the command line, with values that they allow or not."""
    chosen = []
    for key, allowed in rng.sample(keys, rng.choice((1, 1, 2))):
        plausible = re.findall(r"[\w.-]+", allowed) + ["0", "1", "2", "4", "[1, 2]"]
        value = rng.choice((rng.choice(plausible), mutate.any_value(rng))).replace("\0", "")[:100000]
        chosen += ["--set", f"{key}={value}"]
    return chosen


def make(seeds, keys, case, folder):
    """Make the folder of a mutant and return its command."""
    rng = random.Random(case)
    names, number = sorted(KINDS), int(case.split("-")[1])
    name = "--set" if number % 4 == 0 else names[(number - number // 4) % len(names)]  # most of the program lies behind keys
    how, verbs = KINDS[name]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(seeds, folder)
    file = rng.choice(("base.yaml", "others.yaml")) if how is None else name
    extra = settings(rng, keys[file]) if how is None else []
    if how is mutate.hdf5:
        how(rng, folder / name)
    elif how is not None:
        (folder / name).write_bytes(how(rng, (folder / name).read_bytes()))
    command = [argument.replace("FILE", file) for argument in rng.choice(verbs)]
    return command[:2] + extra + command[2:]  # what LITTLE and FEW set stands behind, and counts


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def no_constant(text):
    raise ValueError(f"{text} in JSON")


def printed(folder, command, output):
    """Find the fault in the output of a command that went well, or None."""
    if output.startswith("{") or output.startswith("["):
        try:
            json.loads(output, parse_constant=no_constant)
        except ValueError as error:
            return f"no JSON: {error}"
        return None
    given = " ".join(command) + "".join(path.read_text(errors="replace") for path in folder.glob("*.*[lvt]"))
    for text in [output] + [path.read_text(errors="replace") for path in folder.glob("out/*.csv")]:
        for found in NOT_FINITE.finditer(text):
            if found[0] not in given:  # else it may be a name
                return f"{found[0]} in the output: {text[max(0, found.start() - 100):found.end() + 20]!r}"
    return None


def verdict(folder, command, done):
    """Find the fault in the end of a command, or None."""
    errors, n = NO_MEMORY.subn("", done.stderr)
    if done.returncode not in STATUSES:
        return f"status {done.returncode}"
    if "Sanitizer" in errors or "runtime error" in errors or "slimsim: bug" in errors:
        return "a sanitizer or a check speaks"
    if n > 0 and "out of memory" not in errors:
        return "memory ran out, and the message does not say so"
    if done.returncode == 0:
        return printed(folder, command, done.stdout)
    if not re.search(r"(?m)^slimsim[^\n]{10,}$", errors) or not errors.endswith("\n"):
        return "no sentence on stderr"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", errors):
        return "control characters on stderr"
    return None


def try_one(seeds, keys, case):
    folder = SCRATCH / "mutant"
    command = make(seeds, keys, case, folder)
    begin = time.monotonic()
    try:
        done = subprocess.run([PROGRAM, *command], cwd=folder, env={**os.environ, **SANITIZERS}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=3 * LIMIT_S, preexec_fn=limit)
        wrong = verdict(folder, command, done)
    except subprocess.TimeoutExpired as error:
        done = subprocess.CompletedProcess(command, None, "", str(error))
        wrong = "it hangs"
    if wrong is None:
        return done.returncode, time.monotonic() - begin
    kept = SCRATCH / "failures" / case
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept)
    (kept / "COMMAND").write_text(json.dumps([str(PROGRAM), *command]) + "\n")
    print(f"mutant {case}: {wrong}\n  in {kept}: {str(command)[:400]}\n  {done.stderr[-3000:]}", flush=True)
    return None, time.monotonic() - begin


def main():
    seed, seconds = os.environ.get("SLIMSIM_FUZZ_SEED", "1"), float(os.environ.get("SLIMSIM_FUZZ_SECONDS", "20"))
    seeds = SCRATCH / "seeds"
    shutil.rmtree(seeds, ignore_errors=True)
    seeds.mkdir(parents=True)
    mutate.make_seeds(seeds)
    keys = read_keys()
    if len(sys.argv) > 1:
        return try_one(seeds, keys, sys.argv[1])[0] is None
    begin, number, ends, slowest = time.monotonic(), 0, {}, (0, "")
    while time.monotonic() - begin < seconds:
        case = f"{seed}-{number}"
        status, took_s = try_one(seeds, keys, case)
        ends[status] = ends.get(status, 0) + 1
        slowest = max(slowest, (took_s, case))
        number += 1
    print(f"seed {seed}: {number} mutants in {seconds:g} s, ends {ends}, slowest {slowest[1]} in {slowest[0]:.1f} s")
    if None in ends:
        print(f"SLIMSIM_FUZZ_SEED={seed}: {ends[None]} mutants failed, kept in {SCRATCH}/failures")
    return None in ends


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python tests share the program under test, its files and its processes."""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import time

PROGRAM = pathlib.Path(os.environ["SLIMSIM"]).resolve()
SCRATCH = pathlib.Path(os.environ["SLIMSIM_SCRATCH"]).resolve()
AT_ONCE_S = 2
SANITIZED = b"__asan_init" in PROGRAM.read_bytes()

SMALL = """\
name: small
model: llama-7b
device: h800
platform: hopper-2x8
data: {lengths: github, context: 32Ki, global_batch: 48}
iterations: {warm_up: 0, measured: 2}
seed: 7
engine: critical-path
framework: slimpack-paper
systems:
  - {name: best-fit, plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}}
  - {name: slimpack, plan: {tp: 2, pp: 2, recompute: norm+activation}}
"""

FP8 = SMALL.replace("model: llama-7b\ndevice: h800", "model: llama3-8b\ndevice: h100-sxm\nprecision: fp8-tensor").replace("framework: slimpack-paper\n", "")

QUESTION = """\
name: question
model: llama-7b
device: h800
platform: hopper
data: {lengths: github, context: 16Ki, global_batch: 32}
iterations: {warm_up: 0, measured: 8}
seed: 7
engine: critical-path
framework: slimpack-paper
reliability: llama3
price: {usd_per_gpu_hour: 2, pue: 1.2}
capacity:
  tokens: 2e10
  days: 2
  offers:
    - {name: first, nodes: {from: 1, to: 4}}
    - {name: second, device: h200, platform: h100, price: {usd_per_gpu_hour: 5}, nodes: {from: 1, to: 2}}
systems:
  - {name: best-fit, plan: {tp: 2, pp: 2, recompute: norm+activation}}
  - {name: slimpack, plan: {tp: 2, pp: 2, recompute: norm+activation}}
"""


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def write(name, text):
    path = SCRATCH / name
    path.write_text(text)
    return path


def fresh(name):
    shutil.rmtree(SCRATCH / name, ignore_errors=True)
    return SCRATCH / name


def children(process):
    """Find the processes below this one."""
    below = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        below.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, todo = [], [process]
    while todo:
        todo += below.get(todo.pop(), [])
        found = todo + found
    return set(found)


def alive(processes):
    """Find the processes that still run after at most AT_ONCE_S. One that waits to be reaped is dead."""
    for _ in range(int(AT_ONCE_S / 0.02)):
        states = {}
        for process in processes:
            try:
                states[process] = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                pass
        if all(state in "ZX" for state in states.values()):
            return []
        time.sleep(0.02)
    return sorted(states)


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def point_of(text):
    """The only point of what `run --json` printed, with the keys beside the points."""
    report = json.loads(text)
    (point,) = report.pop("points")
    return {**report, **point}

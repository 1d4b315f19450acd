#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This script prints model/validated_range.yaml: the range of the measured training runs that `slimsim validate`
compares by their throughput. With the predictions of these runs it prints model/model_error.yaml: their errors by
framework and family of devices.

    range.py > model/validated_range.yaml
    slimsim validate --json | range.py --errors > model/model_error.yaml
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = ("tps_per_gpu", "tokens_per_s", "step_time_s", "tflops_per_gpu")
DEGREES = {"tp": "plan.tp", "pp": "plan.pp", "vpp": "plan.vpp", "cp": "plan.cp", "context": "data.context"}
FAMILIES = {"Ampere": ("a100-40g", "a100-80g"), "Hopper": ("h100-96g", "h100-sxm", "h200", "h800")}
LEAST = 8  # runs of a group
ERRORS_HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# Errors of predictions, predicted / measured - 1, by model/validation/range.py --errors. The first group that holds a
# scenario's framework and device counts.
source: >-
  throughput of {} training runs of model/validation/training_*.csv of trust A and A-, without the calibration rows, as
  `slimsim validate` predicts it; groups have at least {} runs
groups:
"""
HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# The range of the measured runs, by model/validation/range.py. A report names what lies outside.
source: >-
  {} training runs of model/validation/training_*.csv whose throughput `slimsim validate` compares; their sequences all
  have the same length, and best-fit packs whole ones
"""


def compared():
    rows = []
    for path in sorted(HERE.glob("training_*.csv")):
        with open(path, newline="") as file:
            rows += csv.DictReader(line for line in file if not line.startswith("#"))
    return [row for row in rows if not row["skip"] and any(row.get(column) for column in MEASURED)]


def text():
    rows = compared()
    frameworks = sorted({row["framework"] for row in rows} - {""})  # others are described key by key
    gpus = max(int(row["platform.nodes"]) * int(row["platform.gpus_per_node"]) for row in rows)
    lines = [f"devices: {' '.join(sorted({row['device'] for row in rows}))}",
             f"frameworks: {' '.join(frameworks)}",
             "systems: best-fit",
             "varying_lengths: false",
             f"gpus: {gpus}"]
    lines += [f"{key}: {max(int(row[column] or 1) for row in rows)}" for key, column in DEGREES.items()]
    return HEAD.format(len(rows)) + "\n".join(lines) + "\n"


def group(errors, framework=None, family=None):
    """A line of model_error.yaml. `errors` has (framework, device, error) of each run. A group of all devices names the
    family if all its runs lie in one."""
    devices = FAMILIES.get(family)
    like = [(device, error) for own, device, error in errors
            if framework in (None, own) and (devices is None or device in devices)]
    found = [error for _, error in like]
    if len(found) < LEAST:
        return []
    names = [f"framework: {framework}"] if framework else []
    names += [f"family: {name}" for name, members in FAMILIES.items() if all(device in members for device, _ in like)]
    names += [f"devices: {' '.join(devices)}"] if family else []
    numbers = [f"rows: {len(found)}", f"bias: {statistics.mean(found):.4f}", f"deviation: {statistics.stdev(found):.4f}"]
    return [f"  - {{{', '.join(names + numbers)}}}\n"]


def errors_text(report):
    """model_error.yaml of the output of `slimsim validate --json`."""
    framework = {row["id"]: row["framework"] for row in compared()}
    errors = [(framework[row["row"]], row["device"], row["error"]) for row in report["rows"]
              if row["row"] in framework and row["quantity"] == "tokens/s/GPU" and row["trust"] in ("A", "A-") and not row["calib"]]
    names = sorted({name for name, _, _ in errors} - {""})
    lines = [line for name in names for family in FAMILIES for line in group(errors, name, family)]
    lines += [line for name in names for line in group(errors, name)] + group(errors)
    return ERRORS_HEAD.format(len(errors), LEAST) + "".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true", help="read `slimsim validate --json` and print model_error.yaml")
    sys.stdout.write(errors_text(json.load(sys.stdin)) if parser.parse_args().errors else text())

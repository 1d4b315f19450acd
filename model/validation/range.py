#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This script prints model/validated_range.yaml: the range of the measured training runs that `slimsim validate`
compares by their throughput."""
import csv
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = ("tps_per_gpu", "tokens_per_s", "step_time_s", "tflops_per_gpu")
DEGREES = {"tp": "plan.tp", "pp": "plan.pp", "vpp": "plan.vpp", "cp": "plan.cp", "context": "data.context"}
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


if __name__ == "__main__":
    sys.stdout.write(text())

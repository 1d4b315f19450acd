#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This script makes rows for `slimsim validate` from measured steps of pipelines, and a table of passes for each job.

    replay.py STEPS.csv OPS.csv.gz --output FOLDER [--steps N]

STEPS.csv has a row for each measured step, with the columns job, step, dp, pp, tp, sp, microbatches, source and
measured_first_forward_to_last_backward_s. OPS.csv.gz has a row for each micro-batch on each DP rank and stage, with the
columns job, step, dp_rank, stage, microbatch, forward_ms and backward_ms. With --steps only N steps of each job are
taken, spread evenly.
"""
import argparse
import csv
import gzip
import pathlib

COLUMNS = ["step", "dp_rank", "stage", "microbatch", "forward_ms", "backward_ms"]
CONTEXT = 4096
ASSUMED = "model, GPU and lengths, which are not published and change no replayed span"


def evenly(rows, n):
    return rows if n is None else [rows[i * len(rows) // n] for i in range(min(n, len(rows)))]


def row_of(step):
    """@return the cells of a measured step, in the columns of a measured row"""
    dp, pp, tp, cp = (int(step[key]) for key in ("dp", "pp", "tp", "sp"))
    return {"id": f"{step['job']}{step['step']}", "trust": "A", "split": "open", "group": step["job"],
            "model": "llama3-8b", "model.name": "unknown", "device": "h100-sxm", "plan.tp": tp, "plan.pp": pp,
            "plan.cp": cp, "plan.dp": dp, "data.context": CONTEXT, "micro_batch": 1,
            "data.global_batch": dp * int(step["microbatches"]), "platform.nodes": dp * pp * tp * cp // 8,
            "platform.gpus_per_node": 8, "metric": "replayed-span",
            "value_ms": f"{1e3 * float(step['measured_first_forward_to_last_backward_s']):.1f}",
            "replay.file": f"replay_{step['job'].lower()}.csv", "replay.step": step["step"],
            "replay.communication": "none", "source": step["source"], "assumed": ASSUMED}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps_csv")
    parser.add_argument("ops_csv")
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--steps", type=int)
    options = parser.parse_args()
    with open(options.steps_csv, encoding="utf-8") as file:
        steps = list(csv.DictReader(file))
    jobs = dict.fromkeys(step["job"] for step in steps)
    taken = [step for job in jobs for step in evenly([step for step in steps if step["job"] == job], options.steps)]
    keys = {(step["job"], step["step"]) for step in taken}
    with gzip.open(options.ops_csv, "rt", encoding="utf-8") as file:
        passes = [row for row in csv.DictReader(file) if (row["job"], row["step"]) in keys]
    rows = [row_of(step) for step in taken]
    with open(options.output / "replay.csv", "w", encoding="utf-8") as file:
        file.write("# source: per row, column source: steps of production jobs; for checking only. Made by replay.py\n")
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for job in jobs:
        source = next(step["source"] for step in taken if step["job"] == job)
        with open(options.output / f"replay_{job.lower()}.csv", "w", encoding="utf-8") as file:
            file.write(f"# source: {source}. Made by replay.py\n")
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(row for row in passes if row["job"] == job)


if __name__ == "__main__":
    main()

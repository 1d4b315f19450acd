#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where SlimPack is slower than best-fit with the same plan and memory: a grid of cells, one row each.

Each cell is simulated by the critical path, both systems with the same layout, recomputation and memory, on the same
batches. A cell counts against SlimPack if best-fit fits and SlimPack is slower or does not fit.

    never_slower.py --slimsim build/release/slimsim [--documents 512] [--table never_slower.csv]
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import pandas

MODELS = {"llama-7b": "hopper-16x8", "llama-13b": "hopper-16x8", "llama-70b": "hopper-32x8"}
LENGTHS = ("github", "commoncrawl", "wikipedia")
CONTEXTS = ("64Ki", "128Ki", "256Ki")
PLANS = ({"tp": 8, "pp": 1, "recompute": "full"}, {"tp": 8, "pp": 4, "recompute": "full"},
         {"tp": 4, "pp": 4, "recompute": "full"}, {"tp": 8, "pp": 4, "recompute": "selective"},
         {"tp": 2, "pp": 8, "recompute": "full"})


def scenario_text(cell, documents):
    model, lengths, context, plan = cell
    layout = ", ".join(f"{key}: {value}" for key, value in plan.items())
    return f"""
name: cell
model: {model}
device: h800
platform: {MODELS[model]}
data: {{lengths: {lengths}, context: {context}, global_batch: {documents}}}
iterations: {{warm_up: 0, measured: 3}}
engine: critical-path
trace: none
systems:
  - {{name: best-fit, plan: {{{layout}}}}}
  - {{name: slimpack, plan: {{{layout}}}}}
"""


def row_of(cell, arguments, folder):
    path = pathlib.Path(folder) / "cell.yaml"
    path.write_text(scenario_text(cell, arguments.documents), encoding="utf-8")
    result = subprocess.run([arguments.slimsim, "run", path, "--json", "--quiet"], capture_output=True, text=True,
                            check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{cell}: {result.stderr.strip()}")
    best_fit, slimpack = json.loads(result.stdout)["systems"]
    model, lengths, context, plan = cell
    row = {"model": model, "lengths": lengths, "context": context, **plan,
           "best-fit [s]": best_fit["iteration_mean_s"], "slimpack [s]": slimpack["iteration_mean_s"],
           "best-fit fits": best_fit["fits"], "slimpack fits": slimpack["fits"],
           "speed-up": best_fit["iteration_mean_s"] / slimpack["iteration_mean_s"]}
    row["slower"] = row["best-fit fits"] and (not row["slimpack fits"] or row["speed-up"] < 1)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--slimsim", default="slimsim", help="the program")
    parser.add_argument("--documents", type=int, default=512, help="of a global batch")
    parser.add_argument("--table", help="all cells as CSV")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cells = list(itertools.product(MODELS, LENGTHS, CONTEXTS, PLANS))
        try:
            rows = pandas.DataFrame([row_of(cell, arguments, folder) for cell in cells])
        except (OSError, RuntimeError) as error:
            print(f"never_slower.py: {error}", file=sys.stderr)
            return 2
    if arguments.table:
        rows.to_csv(arguments.table, index=False)
    both = rows[rows["best-fit fits"] & rows["slimpack fits"]]
    print(f"{len(rows)} cells; both fit in {len(both)}: speed-up {both['speed-up'].min():.3f} to "
          f"{both['speed-up'].max():.3f}; only SlimPack fits in "
          f"{(~rows['best-fit fits'] & rows['slimpack fits']).sum()}, only best-fit in "
          f"{(rows['best-fit fits'] & ~rows['slimpack fits']).sum()}")
    slower = rows[rows["slower"]]
    print("SlimPack is slower in no cell" if slower.empty else slower.to_string(index=False))
    return 0 if slower.empty else 1


if __name__ == "__main__":
    sys.exit(main())

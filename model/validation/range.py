#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This script prints model/validated_range.yaml: the range of the measured training runs that `slimsim validate`
compares by their throughput. With the predictions of these runs and of public.csv it prints model/model_error.yaml: how
far predictions are off, from errors by source (docs/model.md, "How sure", has the steps).

    range.py > model/validated_range.yaml
    slimsim validate --json | range.py --errors > model/model_error.yaml
    slimsim validate --json | range.py --varying                          runs with varying lengths, by group and source
    range.py --reserve                                                    reserve_most of model/memory_pressure.yaml
"""
import argparse
import csv
import json
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = ("tps_per_gpu", "tokens_per_s", "step_time_s", "tflops_per_gpu")
DEGREES = {"tp": "plan.tp", "pp": "plan.pp", "vpp": "plan.vpp", "cp": "plan.cp", "context": "data.context"}
TRUSTED = ("A", "A-")
NAMES = ("bias", "between", "within", "deviation")
P95 = statistics.NormalDist().inv_cdf(0.95)
ERRORS_HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# Errors of predictions, predicted / measured - 1, by model/validation/range.py --errors. docs/model.md, "How sure", has
# the steps. held: shares of the rows within p5 to p95, and within one deviation, with their own source left out.
source: >-
  throughput of the runs of model/validation/training_*.csv and public.csv of trust A and A-, without the calibration
  rows, as `slimsim validate` predicts it. varying: the same of the runs of varying.csv, of any trust
"""
HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# The range of the measured runs, by model/validation/range.py. A report names what lies outside.
source: >-
  {} training runs of model/validation/training_*.csv whose throughput `slimsim validate` compares; their sequences all
  have the same length, and best-fit packs whole ones. The other systems, and varying lengths, are those of {} runs of
  varying.csv
"""


def compared(names="training_*.csv"):
    rows = []
    for path in sorted(HERE.glob(names)):
        with open(path, newline="") as file:
            rows += csv.DictReader(line for line in file if not line.startswith("#"))
    return [row for row in rows if not row.get("skip") and any(row.get(column) for column in MEASURED)]


def varying():
    """The runs of varying lengths that are compared by themselves."""
    return [row for row in compared("varying.csv") if row["system"] and row["compared"] != "ratio"]


def text():
    rows, others = compared(), varying()
    frameworks = sorted({row["framework"] for row in rows} - {""})  # others are described key by key
    gpus = max(int(row["platform.nodes"]) * int(row["platform.gpus_per_node"]) for row in rows)
    lines = [f"devices: {' '.join(sorted({row['device'] for row in rows}))}",
             f"frameworks: {' '.join(frameworks)}",
             f"systems: best-fit {' '.join(sorted({row['system'] for row in others} - {'best-fit'}))}",
             f"varying_lengths: {' '.join(sorted({row['plan.sharding'] for row in others} - {''}))}",
             f"gpus: {gpus}"]
    lines += [f"{key}: {max(int(row[column] or 1) for row in rows)}" for key, column in DEGREES.items()]
    return HEAD.format(len(rows), len(others)) + "\n".join(lines) + "\n"


def source_of(text):
    """The repository or paper of a row's `source`: the first part of a path with one slash, or arXiv:NUMBER."""
    return re.match(r"arXiv:[\d.]+|[\w.-]+/[\w.-]+", text)[0]


def sources_of(report):
    """Runs of each source: (error, framework, device, context, cp). The source with most runs comes first."""
    rows = {row["id"]: row for row in compared() + compared("public.csv")}
    sources = {}
    for found in report["rows"]:
        row = rows.get(found["row"])
        if row and found["quantity"] == "tokens/s/GPU" and found["trust"] in TRUSTED and not found["calib"]:
            run = (found["error"], row["framework"], found["device"], int(row["data.context"]), int(row["plan.cp"] or 1))
            sources.setdefault(source_of(row["source"]), []).append(run)
    return dict(sorted(sources.items(), key=lambda item: (-len(item[1]), item[0])))


def varying_of(report):
    """Errors of the runs with varying lengths, by source."""
    rows, sources = {row["id"]: row for row in varying()}, {}
    for found in report["rows"]:
        if found["row"] in rows and found["quantity"] == "tokens/s/GPU":
            sources.setdefault(source_of(rows[found["row"]]["source"]), []).append(found["error"])
    return sources


def model_of(sources):
    """(bias, between, within, deviation) of a random-effects model of the lists of errors, in which each source counts
    once."""
    means = [statistics.mean(errors) for errors in sources]
    spread = statistics.variance(means)
    within = statistics.mean(statistics.variance(errors) for errors in sources if len(errors) > 1)
    between = max(0, spread - statistics.mean(within / len(errors) for errors in sources))
    bias = statistics.mean(means)
    pooled = statistics.mean(statistics.mean((error - bias) ** 2 for error in errors) for errors in sources)
    return bias, between ** 0.5, within ** 0.5, max(between + within + spread / len(sources), pooled) ** 0.5


def outside(run, others):
    """The number of respects in which a run lies outside other runs: framework, device, context, cp."""
    return sum(run[i] not in {other[i] for other in others} for i in (1, 2)) + \
        sum(run[i] > max(other[i] for other in others) for i in (3, 4))


def distances(sources):
    """Distance of each run from the bias of the other sources, in deviations of these, widened as a scenario's is."""
    found = []
    for name, runs in sources.items():
        others = {other: own for other, own in sources.items() if other != name}
        bias, between, _, deviation = model_of([[run[0] for run in own] for own in others.values()])
        flat = [run for own in others.values() for run in own]
        found += [(run[0] - bias) / (deviation ** 2 + outside(run, flat) * between ** 2) ** 0.5 for run in runs]
    return found


def errors_text(report):
    """model_error.yaml of the output of `slimsim validate --json`."""
    sources = sources_of(report)
    lists = {name: [run[0] for run in runs] for name, runs in sources.items()}
    far = distances(sources)
    lines = [f"rows: {len(far)}", f"sources: {len(sources)}"]
    lines += [f"{name}: {value:.4f}" for name, value in zip(NAMES, model_of(lists.values()))]
    varied = varying_of(report)
    numbers = ", ".join(f"{name}: {value:.4f}" for name, value in zip(NAMES, model_of(varied.values())))
    lines.append(f"varying: {{rows: {sum(map(len, varied.values()))}, sources: {len(varied)}, {numbers}}}")
    held = [sum(abs(distance) < limit for distance in far) / len(far) for limit in (P95, 1)]
    lines += [f"held: {{p5_to_p95: {held[0]:.3f}, one_deviation: {held[1]:.3f}}}", "errors:"]
    for name, errors in lists.items():
        spread = f", deviation: {statistics.stdev(errors):.4f}" if len(errors) > 1 else ""
        lines.append(f'  - {{source: "{name}", rows: {len(errors)}, mean: {statistics.mean(errors):.4f}{spread}}}')
    return ERRORS_HEAD + "\n".join(lines) + "\n"


def varying_text(report):
    """A line for each group and source of varying.csv: errors of its runs, and how far gains of its pairs are off."""
    with open(HERE / "varying.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    place = {name: (row["group"], source_of(row["source"])) for name, row in rows.items()}
    alone = {row["id"] for row in varying()}
    text = ""
    for key in dict.fromkeys(place.values()):
        found = [row for row in report["rows"] if place.get(row["row"]) == key]
        runs = [abs(row["error"]) for row in found if row["row"] in alone]
        peaks = [abs(row["error"]) for row in found if row["quantity"] == "max_memory_allocated"]
        gains = [(pair["measured_gain"], pair["predicted_gain"]) for pair in report["pairs"] if place.get(pair["row"]) == key]
        text += "; ".join((*key, *(f"{len(errors)} {name}, mean error {100 * statistics.mean(errors):.1f}%"
                                   for name, errors in (("runs", runs), ("peaks", peaks)) if errors)))
        if gains:
            off = statistics.median(abs(measured - predicted) for measured, predicted in gains)
            right = sum(measured * predicted > 0 for measured, predicted in gains)
            text += f"; {right} of {len(gains)} pairs right, gains off by {100 * off:.1f} points"
        text += "\n"
    return text


def reserves():
    """Reserved over allocated memory, less 1, of the measured steps that are not padded and in no CUDA graph, sorted."""
    with open(HERE / "steps.csv", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return sorted(float(row["peak_reserved_bytes"]) / float(row["peak_allocated_bytes"]) - 1 for row in rows
                  if row["peak_allocated_bytes"] and not re.search("graph|reduce-overhead|padded", row["mode"]))


def reserve_text():
    """The number of steps, their least and largest reserve, the median, and the 90th percentile: reserve_most."""
    found = reserves()
    return (f"{len(found)} steps, {found[0]:.3f} to {found[-1]:.3f}, median {statistics.median(found):.3f}\n"
            f"reserve_most: {statistics.quantiles(found, n=10, method='inclusive')[-1]:.3f}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true", help="read `slimsim validate --json` and print model_error.yaml")
    parser.add_argument("--reserve", action="store_true", help="print what PyTorch's allocator reserved in measured steps")
    parser.add_argument("--varying", action="store_true", help="read `slimsim validate --json`, print runs with varying lengths by source")
    asked = parser.parse_args()
    sys.stdout.write(varying_text(json.load(sys.stdin)) if asked.varying else
                     errors_text(json.load(sys.stdin)) if asked.errors else reserve_text() if asked.reserve else text())

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each part of SlimPack gives: iteration times of a trace's systems as bars, and a table.

The systems are taken in the trace's order, each with one part more than the one before. Of the traced iteration (`trace:
full`) the table also says how far units are apart, as p95/p5: their FLOPs (one layer, without the head) and their
seconds (on the last stage, with the head), of units that one pipeline runs alone and that hold tokens.

    ablation.py results/ablation.h5 --output results/ablation.png results/ablation.svg [--table results/ablation.csv]
"""
import argparse
import sys

import h5py
import matplotlib
import numpy
import pandas

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402  after the choice of Agg

GIB = 2**30
COLOURS = ("#BBBBBB", "#4477AA")  # the baseline, what is built up
UNIT = ["pipeline", "direction", "unit"]
PASSES = ("forward", "backward")


def name_of(file, table, column, number):
    return file[table].attrs[column + "_names"][number].decode()


def flop_of_tokens(attributes, direction, tokens):
    """One layer's work on the first tokens of a sample: src/cost/flop.h."""
    quadratic, linear = attributes["layer_flop_quadratic"], attributes["layer_flop_linear"]
    if direction == "backward":
        quadratic, linear = 2.5 * quadratic, 2 * (linear - quadratic) + 2.5 * quadratic
    return tokens * (quadratic * tokens + linear)


def frame(file, table, system):
    rows = pandas.DataFrame(file[table][:])
    return rows[rows["system"] == system]


def unit_flop(file, system):
    """FLOPs of each unit that a pipeline runs alone."""
    units = frame(file, "units", system)
    units = units[units["group"] < 0].copy()
    units["direction"] = [name_of(file, "units", "direction", number) for number in units["direction"]]
    end, begin = (numpy.array([flop_of_tokens(file.attrs, direction, float(tokens)) for direction, tokens in
                               zip(units["direction"], units[column])]) for column in ("end", "begin"))
    units["flop"] = end - begin
    return units.groupby(UNIT)["flop"].sum()


def unit_seconds(file, system):
    """Seconds of each unit on the last stage."""
    tasks = frame(file, "tasks", system)
    kinds = [name_of(file, "tasks", "kind", number) for number in tasks["kind"]]
    last = tasks["stage"] == tasks["stage"].max()
    tasks = tasks[numpy.isin(kinds, ("compute", "attention")) & last & (tasks["context"] == 0)].copy()
    tasks["direction"] = [name_of(file, "tasks", "direction", number) for number in tasks["direction"]]
    return tasks.groupby(UNIT)["duration_s"].sum()


def spread(values):
    """Largest p95/p5 of a pipeline's units, over pipelines; 1 where none has two."""
    ratios = [numpy.percentile(rows, 95) / numpy.percentile(rows, 5)
              for _, rows in values.groupby("pipeline") if len(rows) > 1]
    return max(ratios, default=1.0)


def spreads(file, system):
    if "units" not in file or not len(frame(file, "units", system)):
        return {}
    flop = unit_flop(file, system)
    seconds = unit_seconds(file, system)
    seconds = seconds[seconds.index.isin(flop.index)]
    columns = {}
    for what, values in (("FLOPs", flop), ("seconds", seconds)):
        for direction in PASSES:
            columns[f"{direction} {what} p95/p5"] = spread(values[values.index.get_level_values(1) == direction])
    return columns


def row_of(file, system, baseline_s):
    summary = frame(file, "summary", system).iloc[0]
    measured = frame(file, "iterations", system)
    measured = measured[measured["measured"] == 1]
    row = {
        "system": file["systems"][system].decode(),
        "iteration [s]": summary["time_mean_s"],
        "p5 [s]": summary["time_p5_s"],
        "p95 [s]": summary["time_p95_s"],
        "speed-up": baseline_s / summary["time_mean_s"],
        "bubble [%]": 100 * summary["bubble_fraction"],
        "peak [GiB]": summary["peak_bytes"] / GIB,
        "fits": bool(summary["fits"]),
        "units of a pipeline": measured["forward_units"].mean() / summary["dp"],
        "merged samples": measured["merged_samples"].mean(),
    }
    row.update(spreads(file, system))
    return row


def table_of(path):
    with h5py.File(path, "r") as file:
        if file.attrs.get("complete", 0) != 1:
            raise ValueError("not a complete trace of slimsim")
        baseline_s = frame(file, "summary", 0)["time_mean_s"].iloc[0]
        rows = [row_of(file, system, baseline_s) for system in range(len(file["systems"]))]
        title = "{model} on {platform}, {lengths} lengths, context {context}, {global_batch} documents".format(
            **{key: value.decode() if isinstance(value, bytes) else value for key, value in file.attrs.items()})
        return pandas.DataFrame(rows).set_index("system"), title


def draw(table, title):
    figure, axes = pyplot.subplots(figsize=(1.2 + 1.1 * len(table), 4.2), layout="constrained")
    mean = table["iteration [s]"].to_numpy()
    whiskers = [numpy.maximum(mean - table["p5 [s]"], 0), numpy.maximum(table["p95 [s]"] - mean, 0)]
    bars = axes.bar(range(len(table)), mean, yerr=whiskers, capsize=3, color=[COLOURS[i > 0] for i in range(len(table))],
                    error_kw={"elinewidth": 0.8, "ecolor": "#333333"})
    for bar, (_, row) in zip(bars, table.iterrows()):
        note = f"{row['speed-up']:.2f}x" + ("" if row["fits"] else "\ndoes not fit")
        axes.annotate(note, (bar.get_x() + bar.get_width() / 2, max(row["p95 [s]"], row["iteration [s]"])), (0, 4),
                      textcoords="offset points", ha="center", fontsize=9)
    axes.set_xticks(range(len(table)), [("" if i < 2 else "+ ") + label for i, label in enumerate(table.index)],
                    rotation=20, ha="right")
    axes.set_ylabel("iteration time [s]: mean, p5 to p95")
    axes.set_ylim(0, 1.12 * max(table["p95 [s]"].max(), mean.max()))
    axes.set_title(title, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("trace", help="HDF5 file of `slimsim run`")
    parser.add_argument("--output", nargs="+", default=["ablation.png"], help="pictures: .png, .svg, .pdf")
    parser.add_argument("--table", help="the table as CSV")
    arguments = parser.parse_args()
    try:
        table, title = table_of(arguments.trace)
    except (OSError, KeyError, ValueError) as error:
        print(f"ablation.py: {arguments.trace}: {error}", file=sys.stderr)
        return 2
    print(table.T.to_string(float_format=lambda value: f"{value:.4g}"))
    if arguments.table:
        table.to_csv(arguments.table)
    figure = draw(table, title)
    for path in arguments.output:
        figure.savefig(path, dpi=150)
    return 0


if __name__ == "__main__":
    sys.exit(main())

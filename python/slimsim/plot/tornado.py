#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tornado of `slimsim sensitivity`: how much the first system gains or loses by each change, the largest first.
Marks show the other systems. A change that makes another system the first names it.

    slimsim sensitivity SCENARIO.yaml
    sensitivity.py results/NAME.sensitivity.csv --output tornado.png tornado.svg
"""
import argparse
import csv
import pathlib

from common import COLOURS, add_output, draw, pyplot, style
from output import exit_with

MARKS = "osD^vP*X<>"
ROWS_MOST = 40
COLUMNS = {"change", "system", "fits", "gain", "winner", "winner_changes", "refused"}


def changes_of(path):
    """[{name, gains: {system: percent, or None where it does not fit}, first: the new winner or None}], and the systems."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not COLUMNS <= set(reader.fieldnames or ()):
            raise ValueError("not a table of slimsim sensitivity")
        rows = list(reader)
    changes = {}
    for row in rows:
        change = changes.setdefault(row["change"], {"name": row["change"], "gains": {}, "first": None, "refused": row["refused"]})
        change["gains"][row["system"]] = 100 * float(row["gain"]) if row["gain"] else None
        if row["winner_changes"] == "1":
            change["first"] = row["winner"] or "none fits"
    before, *after = changes.values()
    return [change for change in after if not change["refused"]][:ROWS_MOST], list(before["gains"])


def make_figure(path):
    changes, systems = changes_of(path)
    figure, axes = pyplot.subplots(figsize=(9, 1.4 + 0.27 * len(changes)), layout="constrained")
    first, *others = systems
    for row, change in enumerate(changes):
        gain = change["gains"][first]
        if gain is None:
            axes.text(0, row, " does not fit", va="center", fontsize=8, color=COLOURS[1])
        else:
            axes.barh(row, gain, color=COLOURS[0] if gain >= 0 else COLOURS[1], height=0.72)
        if change["first"]:
            axes.text(1.01, row, f"first: {change['first']}", va="center", fontsize=8, transform=axes.get_yaxis_transform())
    for i, system in enumerate(others):
        points = [(change["gains"][system], row) for row, change in enumerate(changes) if change["gains"][system] is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], linestyle="none", marker=MARKS[i % len(MARKS)], markersize=4,
                  color=COLOURS[(i + 2) % len(COLOURS)], label=system if points else f"{system} (does not fit)")
    axes.axvline(0, color="#222222", linewidth=0.8)
    axes.set_yticks(range(len(changes)), [change["name"] for change in changes], fontsize=8)
    axes.set_ylim(len(changes) - 0.4, -0.6)
    axes.set_xlabel("% more tokens/s/GPU, one change at a time")
    name = pathlib.Path(path).name.removesuffix(".csv").removesuffix(".sensitivity")
    axes.set_title(f"{name}, bars: {first}", loc="left", fontsize=10)
    if others:
        axes.legend(fontsize=8, loc="best")
    style(axes, "x")
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FILE.csv", help="NAME.sensitivity.csv of slimsim sensitivity")
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.source], arguments.output, lambda: make_figure(arguments.source), ".png")


if __name__ == "__main__":
    exit_with(main)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a slow GPU or NIC spreads: the CSV of a sweep of scenarios/stragglers.yaml.

A panel per fault. Lines: how much longer an iteration takes than without faults, by how many times the device is as
slow. Of the GPU, dashed: all wait for it all the time; dotted: nobody does, its work is 1/n of all.

    stragglers.py results/stragglers.csv --output results/stragglers.png
"""
import argparse
import csv
import pathlib

from common import COLOURS, add_output, draw, pyplot, style
from output import exit_with

FAULTS = {"faults.0.factor": "one slow GPU", "faults.1.factor": "one slow NIC"}


def plan_texts(rows):
    """{system: its plan}"""
    return {row["system"]: " ".join(f"{name.upper()}{row[name]}" for name in ("tp", "pp", "cp", "dp")) for row in rows}


def slowdowns(rows, fault, other):
    """system -> [(factor, iteration time over that without faults)], ascending."""
    alone = [row for row in rows if row["status"] == "done" and float(row[other]) == 1]
    sound = {row["system"]: float(row["time_mean_s"]) for row in alone if float(row[fault]) == 1}
    curves = {system: [] for system in sound}
    if sound.keys() != {row["system"] for row in alone}:
        raise ValueError(f"no row of each system has both {fault} and {other} 1, to compare with")
    for row in alone:
        curves[row["system"]].append((float(row[fault]), float(row["time_mean_s"]) / sound[row["system"]]))
    return {system: sorted(points) for system, points in curves.items()}


def draw_panel(axes, curves, plans, title, gpus):
    last = max(points[-1][0] for points in curves.values())
    for (system, points), colour in zip(curves.items(), COLOURS):
        factors, times = zip(*points)
        axes.plot(factors, [100 * (time - 1) for time in times], "o-", color=colour,
                  label=f"{system}, {plans[system]}")
        print(title, system, " ".join(f"{factor:g}x:{100 * (time - 1):+.1f}%" for factor, time in points), sep=", ")
    if "GPU" in title:
        axes.plot([1, last], [0, 100 * (last - 1)], "--", color="#9A9A9A", label="all wait")
        axes.plot([1, last], [0, 100 * (last - 1) / gpus], ":", color="#9A9A9A", label="nobody waits")
    axes.set_title(f"{title} of {gpus}")
    axes.set_xlabel("times as slow")
    axes.set_ylabel("iteration longer by [%]")
    axes.set_ylim(bottom=-2, top=1.15 * max(100 * (time - 1) for points in curves.values() for _, time in points) + 2)
    style(axes)


def picture(path):
    if pathlib.Path(path).suffix != ".csv":
        raise ValueError("this takes the table of a sweep, NAME.csv")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not set(FAULTS) <= set(rows[0]):
        raise ValueError(f"no sweep over {' and '.join(FAULTS)}")
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axes, (fault, title) in zip(panels, FAULTS.items()):
        other, = set(FAULTS) - {fault}
        draw_panel(axes, slowdowns(rows, fault, other), plan_texts(rows), title, int(rows[0]["gpus"]))
    panels[0].legend(frameon=False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv")
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.csv], arguments.output, lambda: picture(arguments.csv))


exit_with(main)

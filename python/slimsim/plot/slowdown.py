# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws how a slow GPU or NIC spreads, a panel for each fault, of the table of a sweep.

Lines: how much longer an iteration takes than without faults, by how many times the device is as slow. Two more lines
stand beside a GPU. Dashed: all wait for it all the time. Dotted: nobody does, its work is 1/n of all. Both panels have one
scale, so that their faults compare.
"""
from __future__ import annotations

import csv
import os
import pathlib

from matplotlib import pyplot, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slimsim.plot.style import COLOURS, GREY, MARKS, WIDTH, drawn, legend_outside, style, title

FAULTS = {"faults.0.factor": "one slow GPU", "faults.1.factor": "one slow NIC"}


def plan_texts(rows: list[dict[str, str]]) -> dict[str, str]:
    """{system: its plan}"""
    return {row["system"]: " ".join(f"{name.upper()}{row[name]}" for name in ("tp", "pp", "cp", "dp")) for row in rows}


def slowdowns(rows: list[dict[str, str]], fault: str, other: str) -> dict[str, list[tuple[float, float]]]:
    """system -> [(factor, iteration time over that without faults)], ascending."""
    alone = [row for row in rows if row["status"] == "done" and float(row[other]) == 1]
    sound = {row["system"]: float(row["time_mean_s"]) for row in alone if float(row[fault]) == 1}
    curves: dict[str, list[tuple[float, float]]] = {system: [] for system in sound}
    if sound.keys() != {row["system"] for row in alone}:
        raise ValueError(f"no row of each system has both {fault} and {other} 1, to compare with")
    for row in alone:
        curves[row["system"]].append((float(row[fault]), float(row["time_mean_s"]) / sound[row["system"]]))
    return {system: sorted(points) for system, points in curves.items()}


def draw_panel(axes: Axes, curves: dict[str, list[tuple[float, float]]], plans: dict[str, str], gpus: int | None) -> None:
    """The curves of a fault. gpus: of a GPU the lines of all who wait and of nobody; None: no such lines"""
    last = max(points[-1][0] for points in curves.values())
    for (system, points), colour, mark in zip(curves.items(), COLOURS, MARKS):
        factors, times = zip(*points)
        axes.plot(factors, [100 * (time - 1) for time in times], marker=mark, color=colour, label=f"{system}, {plans[system]}")
    if gpus:
        axes.plot([1, last], [0, 100 * (last - 1)], "--", color=GREY, label="all wait for a GPU all the time")
        axes.plot([1, last], [0, 100 * (last - 1) / gpus], ":", color=GREY, label="nobody waits for a GPU")
    axes.set_xlabel("times as slow")
    axes.yaxis.set_major_formatter(ticker.PercentFormatter(decimals=0))
    style(axes)


@drawn
def make_figure(path: str | os.PathLike[str]) -> Figure:
    """The picture of a table NAME.csv. ValueError: it is of no sweep over these faults"""
    if pathlib.Path(path).suffix != ".csv":
        raise ValueError("this takes the table of a sweep, NAME.csv")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not set(FAULTS) <= set(rows[0]):
        raise ValueError(f"no sweep over {' and '.join(FAULTS)}")
    gpus = int(rows[0]["gpus"])
    figure, panels = pyplot.subplots(1, 2, figsize=(WIDTH, 4.2), layout="constrained", sharey=True)
    longest = 0.0
    for axes, (fault, name) in zip(panels, FAULTS.items()):
        (other,) = set(FAULTS) - {fault}
        curves = slowdowns(rows, fault, other)
        draw_panel(axes, curves, plan_texts(rows), gpus if "GPU" in name else None)
        axes.set_title(name, loc="left")
        longest = max(longest, *(100 * (time - 1) for points in curves.values() for _, time in points))
    panels[0].set_ylim(-0.03 * longest - 1, 1.1 * longest + 2)
    panels[0].set_ylabel("longer iteration")
    title(figure, f"{pathlib.Path(path).stem}: how much one slow device of {gpus} GPUs delays an iteration")
    legend_outside(figure, panels[0].get_legend_handles_labels()[0], 2)
    return figure

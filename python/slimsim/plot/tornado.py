# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws the tornado of `slimsim sensitivity`: how much the first system gains or loses by each change of the
scenario. Changes of one assumption share a row, the largest effect on top. Ties and new winners are drawn."""
from __future__ import annotations

import csv
import os
import pathlib
from typing import NamedTuple

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from slimsim.plot.style import BLACK, BLUE, GREY, LINE_GREY, ORANGE, WIDTH, drawn, legend_outside, shade, style, title

ROWS_MOST = 24
LETTER = 0.0118  # share of the axis that a letter takes
COLUMNS = {"change", "system", "fits", "gain", "tokens_per_s_per_gpu", "winner", "winner_changes", "tie", "refused"}


class Change(NamedTuple):
    """A change of one assumption. gain: of the first system [%], None if it does not fit; tie: who ties with the winner."""

    assumption: str
    value: str
    gain: float | None
    tie: str
    winner: str  # that was not the first before, or ""

    @property
    def effect(self) -> float:
        """How far it moves the first system [%]. A change by which it no longer fits moves it the most."""
        return numpy.inf if self.gain is None else abs(self.gain)

    @property
    def text(self) -> str:
        """The text at its bar."""
        if self.gain is None:
            return f"{self.value}: does not fit"
        return f"{self.value}: " + ("0" if abs(self.gain) < 0.05 else f"{self.gain:+.1f}%")


class Table(NamedTuple):
    """The table, with the first system and its tokens/s/GPU."""

    first: str
    speed: float
    rows: list[list[Change]]  # the changes of an assumption each
    refused: int  # changes
    smaller: int  # changes of the assumptions behind ROWS_MOST

    @property
    def left_out(self) -> str:
        """A second line for the label of the axis, 'left out: 1 refused, 2 smaller'; "" if nothing is."""
        parts = [f"{count} {name}" for count, name in ((self.refused, "refused"), (self.smaller, "smaller")) if count]
        return f"\nleft out: {', '.join(parts)}" if parts else ""


def read(path: str | os.PathLike[str]) -> Table:
    """Read the table. ValueError: it is not one of slimsim sensitivity"""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not COLUMNS <= set(reader.fieldnames or ()):
            raise ValueError("not a table of slimsim sensitivity")
        lines = list(reader)
    if not lines:
        raise ValueError("the table has no row")
    base = lines[0]
    rows: dict[str, list[Change]] = {}
    refused = 0
    for line in lines:
        if line["system"] != base["system"] or line["change"] == base["change"]:
            continue
        if line["refused"]:
            refused += 1
            continue
        assumption, _, value = line["change"].rpartition(" ")
        gain = 100 * float(line["gain"]) if line["gain"] else None
        winner = (line["winner"] or "none fits") if line["winner_changes"] == "1" else ""
        rows.setdefault(assumption, []).append(Change(assumption, value, gain, line["tie"], winner))
    if not rows:
        raise ValueError("the table has no change that was computed")
    ordered = sorted(rows.values(), key=lambda row: -max(change.effect for change in row))
    return Table(base["system"], float(base["tokens_per_s_per_gpu"]), ordered[:ROWS_MOST], refused, sum(map(len, ordered[ROWS_MOST:])))


def draw_row(axes: Axes, y: int, changes: list[Change]) -> None:
    """The bars of an assumption: in one line if they lie on both sides of the base, otherwise below each other."""
    sides = [change.gain is not None and change.gain >= 0 for change in changes]
    lines = 1 if len(changes) <= len(set(sides)) else len(changes)
    height = 0.78 / lines
    for number, (change, right) in enumerate(zip(changes, sides)):
        at = y if lines == 1 else y - 0.39 + (number + 0.5) * height
        if change.gain is None:
            axes.annotate(change.text, (0, at), xytext=(-4, 0), textcoords="offset points", ha="right", va="center",
                          fontsize=8)
            continue
        colour = BLUE if right else ORANGE
        axes.barh(at, change.gain, height=height * 0.94, color=shade(colour, "white", 0.55) if change.tie else colour,
                  hatch="////" if change.tie else "", edgecolor=BLACK if change.winner else colour if change.tie else "none",
                  linewidth=1.6 if change.winner else 0)
        axes.annotate(change.text, (change.gain, at), xytext=(4 if right else -4, 0), va="center",
                      textcoords="offset points", ha="left" if right else "right", fontsize=8 if lines < 3 else 7)


def limits_of(changes: list[Change]) -> tuple[float, float]:
    """The ends of the axis [%], so that each bar has room for its text on its side."""
    sides: dict[bool, list[tuple[float, int]]] = {False: [], True: []}
    for change in changes:
        sides[change.gain is not None and change.gain >= 0].append((abs(change.gain or 0), len(change.text)))
    low = high = 1.0
    for _ in range(20):  # the room of a letter grows with the ends
        letter = LETTER * (low + high)
        low, high = (max((size + letter * (1 + letters) for size, letters in sides[right]), default=0.5) for right in (False, True))
    return -low, high


def outcome(changes: list[Change]) -> str:
    """'x0.5: best-fit wins', of the changes of a row that have another outcome."""
    parts = []
    for change in changes:
        if change.winner:
            parts.append(f"{change.value}: {change.winner if change.winner == 'none fits' else change.winner + ' wins'}")
        elif change.tie:
            parts.append(f"{change.value}: {change.tie} ties")
    return "\n".join(parts)


@drawn
def make_figure(path: str | os.PathLike[str]) -> Figure:
    """The picture of a table NAME.sensitivity.csv."""
    table = read(path)
    figure, axes = pyplot.subplots(figsize=(WIDTH, 1.6 + 0.34 * len(table.rows)), layout="constrained")
    changes = [change for row in table.rows for change in row]
    for y, row in enumerate(table.rows):
        draw_row(axes, y, row)
        axes.text(1.01, y, outcome(row), va="center", fontsize=8, transform=axes.get_yaxis_transform(),
                  fontweight="bold" if any(change.winner for change in row) else "normal")
    axes.axvline(0, color=BLACK, linewidth=0.9)
    axes.set_xlim(limits_of(changes))
    axes.set_yticks(range(len(table.rows)), [row[0].assumption for row in table.rows])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(table.rows) - 0.4, -0.6)
    axes.set_xlabel(f"% more tokens/s/GPU than {table.speed:,.0f}, by one change at a time{table.left_out}")
    style(axes, "x")
    handles = [Patch(facecolor=BLUE, label="faster"), Patch(facecolor=ORANGE, label="slower")]
    if any(change.tie for change in changes):
        handles.append(Patch(facecolor=LINE_GREY, hatch="////", edgecolor=GREY, linewidth=0, label="another system ties"))
    if any(change.winner for change in changes):
        handles.append(Patch(facecolor="white", edgecolor=BLACK, linewidth=1.6, label="another system wins"))
    legend_outside(figure, handles, 4)
    name = pathlib.Path(path).name.removesuffix(".csv").removesuffix(".sensitivity")
    title(figure, f"{name}: what moves {table.first}, {table.speed:,.0f} tokens/s/GPU as the scenario is")
    return figure

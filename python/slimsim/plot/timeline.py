# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws what all GPUs of each system of a trace do in one iteration, the fastest system first.

A row is some lanes: pipeline stages of data-parallel replicas. It is as high as its GPUs are many, so equal areas are equal
GPU time. In a column as wide as a few points the shares of these GPUs' time lie on each other. So passes that are thinner
than that make no stripes.
"""
from __future__ import annotations

import collections
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from slimsim.plot import spans
from slimsim.plot.spans import COMPUTE, EXPERT, OPTIMIZER, PIPELINE, REPLICAS, RESHARD, RING, SHARD, SYNC, TENSOR
from slimsim.plot.style import (BLACK, DARK_BLUE, GREEN, GREY, LAVENDER, LIGHT_BLUE, OCHRE, ORANGE, PALE_GREY, PLUM, PURPLE,
                                VERMILLION, WAIT_GREY, WIDTH, YELLOW, drawn, title)
from slimsim.plot.trace import Key, Trace, unit_key

# short, long; forward, backward: from light to dark they are short forward, long forward, long backward, short backward
PASS_COLOURS = ((LIGHT_BLUE, DARK_BLUE), (ORANGE, VERMILLION))
LOOKS = {COMPUTE: (PASS_COLOURS[0][1], "computing"), TENSOR: (PURPLE, "tensor parallelism"),
         SHARD: (PLUM, "ZeRO-2/3"), EXPERT: (LAVENDER, "tokens to experts"),
         RING: (YELLOW, "context parallelism"), RESHARD: (OCHRE, "re-sharding"),
         SYNC: (GREEN, "gradients, parameters"), PIPELINE: (PALE_GREY, "waiting in the pipeline"),
         REPLICAS: (WAIT_GREY, "waiting for replicas"), OPTIMIZER: (BLACK, "optimizer")}
PASS_NAMES = (("forward", "backward"), ("forward, long sample", "backward, long sample"))
# From the bottom of a row to its top: (what, whether the sample is long, whether backward).
LAYERS = [(COMPUTE, 0, 0), (COMPUTE, 0, 1), (COMPUTE, 1, 0), (COMPUTE, 1, 1),
          *((what, 0, 0) for what in (OPTIMIZER, TENSOR, SHARD, EXPERT, RING, RESHARD, SYNC, REPLICAS, PIPELINE))]
COLUMN = 0.25  # points, the narrowest column
ROW = 9.0  # points, the lowest row
THIN = 1.6  # points, the median pass of a system whose columns hold many
PASSES_OF_COLUMN = 8  # of each lane in such a column, fewer with many lanes


class System(NamedTuple):
    """The part of a trace that a panel draws."""

    label: str
    summary: Any  # its row
    iteration: Any  # its row
    spans: dict[spans.Rank, list[spans.Span]]
    samples: dict[Key, set[int]]  # of a unit


def read_system(trace: Trace, number: int, iteration: int) -> System:
    """A system by its number in the trace."""
    samples: dict[Key, set[int]] = collections.defaultdict(set)
    for row in trace.rows("micro_batches", number, iteration):
        samples[unit_key(row)].add(int(row["sample"]))
    return System(trace.labels[number], trace.rows("summary", number)[0], trace.rows("iterations", number, iteration)[0],
                  spans.spans_of(trace, number, iteration), samples)


def long_samples(trace: Trace, iteration: int) -> tuple[dict[int, int], float]:
    """({sample: tokens} of the samples whose attention has most of their FLOPs, longest first; the tokens at which it
    has half, or with windows up to which it never has)."""
    lengths = trace.table("lengths")
    half = float(trace.attributes["layer_flop_linear"]) / max(float(trace.attributes["layer_flop_quadratic"]), 1)
    if "layer_flop_windows" in trace.attributes:
        tokens = numpy.arange(1.0, lengths["tokens"].max() + 1)
        half = 1.0 + numpy.count_nonzero(2 * trace.layer_flop(tokens, 0) <= trace.layer_flop(tokens))
    lengths = lengths[(lengths["iteration"] == iteration) & (lengths["tokens"] > half)]
    order = numpy.lexsort((lengths["sample"], -lengths["tokens"]))
    return {int(row["sample"]): int(row["tokens"]) for row in lengths[order]}, half


class Panel:
    """The rows of one system."""

    def __init__(self, axes: Axes, system: System, long: dict[int, int]) -> None:
        self.axes, self.system, self.long = axes, system, long
        self.gpus = int(system.summary["gpus"])
        width, height = axes.figure.get_size_inches() * axes.get_position().size
        self.points = 72 * width
        self.gpus_per_point = self.gpus / (72 * height)

    def draw(self, end_s: float) -> set[tuple[int, int, int]]:
        """@return the layers that were drawn"""
        found: set[tuple[int, int, int]] = set()
        rows = [self.rows_of(phase) for phase in sorted({rank.phase for rank in self.system.spans})]
        column_s = self.column_s(rows, end_s / self.points)
        for of_phase in rows:
            top = 0
            for ranks in of_phase:
                gpus = sum(rank.gpus for rank in ranks)
                found |= self.draw_row(ranks, top, gpus, column_s)
                top += gpus
        self.axes.set_ylim(self.gpus, 0)
        self.label_rows(rows[0])
        self.axes.tick_params(length=0, labelsize=7.5, labelbottom=False)
        self.axes.set_frame_on(False)
        return found

    def column_s(self, rows: list[list[list[spans.Rank]]], point_s: float) -> float:
        """The width of a column. It holds many passes if these are thin."""
        passes = [span.finish_s - span.start_s for of_rank in self.system.spans.values() for span in of_rank if span.what == COMPUTE]
        lanes = max(len({rank[:3] for rank in ranks}) for of_phase in rows for ranks in of_phase)
        median_s = float(numpy.median(passes)) if passes else 0.0
        if median_s >= THIN * point_s:
            return COLUMN * point_s
        return float(max(COLUMN * point_s, PASSES_OF_COLUMN * median_s / lanes**0.5))

    def rows_of(self, phase: int) -> list[list[spans.Rank]]:
        """Ranks of one row each: a stage of a replica, or whole replicas, so that a row has its height."""
        stages: dict[tuple[int, ...], list[spans.Rank]] = collections.defaultdict(list)
        for rank in sorted(rank for rank in self.system.spans if rank.phase == phase):
            stages[rank[:3]].append(rank)
        lowest = ROW * self.gpus_per_point
        if min(sum(rank.gpus for rank in ranks) for ranks in stages.values()) >= lowest:
            return list(stages.values())
        replicas: dict[int, list[spans.Rank]] = collections.defaultdict(list)
        for ranks in stages.values():
            replicas[ranks[0].pipeline] += ranks
        rows: list[list[spans.Rank]] = []
        for ranks in replicas.values():
            if rows and sum(rank.gpus for rank in rows[-1]) < lowest:
                rows[-1] += ranks
            else:
                rows.append(list(ranks))
        return rows

    def layer(self, span: spans.Span) -> tuple[int, int, int]:
        """The kind of a span, as one of LAYERS."""
        if span.what != COMPUTE or span.key is None:
            return span.what, 0, 0
        backward = int(span.key[2] > 0)
        key = (*span.key[:2], backward, span.key[3])  # gradients of weights are of a backward unit
        return COMPUTE, int(bool(self.system.samples[key] & self.long.keys())), backward

    def draw_row(self, ranks: list[spans.Rank], top: float, gpus: float, column_s: float) -> set[tuple[int, int, int]]:
        """The shares of GPUs in each column of a row. @return the layers that have some"""
        last_s = float(self.system.iteration["time_s"])
        ends = numpy.append(numpy.arange(0, last_s, column_s), last_s)
        filled = {layer: numpy.zeros(len(ends) - 1) for layer in LAYERS}
        for rank in ranks:
            for span in self.system.spans[rank]:
                inside = numpy.diff(numpy.clip(ends, span.start_s, span.finish_s))
                filled[self.layer(span)] += rank.gpus * inside / numpy.diff(ends)
        below = numpy.full(len(ends) - 1, float(top + gpus))
        for layer, share in filled.items():
            if share.any():
                above = below - share
                self.axes.fill_between(ends, numpy.append(below, below[-1]), numpy.append(above, above[-1]), step="post",
                                       facecolor=colour_of(layer), linewidth=0, antialiased=False)
                below = above
        self.axes.hlines(top, 0, last_s, colors="white", linewidth=min(0.8, 0.05 * gpus / self.gpus_per_point))
        return {layer for layer, share in filled.items() if share.any()}

    def label_rows(self, rows: list[list[spans.Rank]]) -> None:
        """Every row of the first phase, or so many that the texts do not touch."""
        ends = numpy.cumsum([0, *(sum(rank.gpus for rank in ranks) for ranks in rows)])
        places: list[float] = []
        names: list[str] = []
        replicas = len({rank.pipeline for ranks in rows for rank in ranks})
        for ranks, middle in zip(rows, (ends[1:] + ends[:-1]) / 2):
            if not places or middle - places[-1] >= 10 * self.gpus_per_point:
                places.append(middle)
                names.append(row_name(ranks, replicas))
        self.axes.set_yticks(places, names)


def row_name(ranks: list[spans.Rank], replicas: int) -> str:
    """'stage 2', 'replica 1, stage 2', 'replicas 2–3'"""
    first, last = ranks[0], ranks[-1]
    if first.pipeline != last.pipeline:
        return f"replicas {first.pipeline}–{last.pipeline}"
    if first.stage != last.stage:
        return f"replica {first.pipeline}"
    return f"stage {first.stage}" if replicas == 1 else f"replica {first.pipeline}, stage {first.stage}"


def colour_of(layer: tuple[int, int, int]) -> str:
    """The colour of one of LAYERS."""
    what, long, backward = layer
    return PASS_COLOURS[long][backward] if what == COMPUTE else LOOKS[what][0]


def layout_text(summary: Any) -> str:
    """'TP8 PP4 CP8 VPP5', without what is 1"""
    return " ".join(f"{name.upper()}{summary[name]}" for name in ("tp", "pp", "vpp", "cp", "dp") if summary[name] > 1)


def name_of(system: System) -> str:
    """The label, and how long an iteration takes in the mean if this one is over 5% off."""
    mean = float(system.summary["time_mean_s"])
    return system.label if abs(system.iteration["time_s"] / mean - 1) <= 0.05 else f"{system.label} (mean {mean:.3g} s)"


def speeds_text(system: System, base: System) -> str:
    """The mean of the system over all iterations. A base that does not fit is no measure, so no speed-up over it follows."""
    text = f"{system.summary['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU in the mean"
    return text if system is base or system.summary["first_exceeds_limit"] else f"{text}, {system.summary['speed_up']:.2f}x {base.label}"


def list_shares(axes: Axes, system: System) -> None:
    """Beside a panel: the shares of its GPUs' time. The words are the legend of its colours."""
    shares = spans.fractions_of(system.iteration)
    shown = [what for what in LOOKS if shares.get(what, 0) >= 0.0005]
    height = 72 * axes.figure.get_figheight() * axes.get_position().height
    for line, what in enumerate(shown):
        y = 1 - (line + 0.5) * 12 / height
        edge = GREY if what == PIPELINE else LOOKS[what][0]
        axes.plot(1.03, y, marker="s", markersize=6, color=LOOKS[what][0], markeredgecolor=edge, markeredgewidth=0.5,
                  clip_on=False, transform=axes.transAxes)
        axes.text(1.145, y, f"{100 * shares[what]:.1f}%", fontsize=8.5, ha="right", va="center", transform=axes.transAxes)
        axes.text(1.16, y, LOOKS[what][1], fontsize=8.5, va="center", transform=axes.transAxes)


def legend_handles(layers: set[tuple[int, int, int]]) -> Iterator[Patch]:
    """Entries for the kinds of passes that were drawn. The other colours stand beside the panels."""
    for layer in LAYERS:
        if layer in layers and layer[0] in (COMPUTE, OPTIMIZER):
            what, long, backward = layer
            yield Patch(facecolor=colour_of(layer), label=PASS_NAMES[long][backward] if what == COMPUTE else LOOKS[what][1])


@drawn
def make_figure(trace: Trace) -> Figure:
    """A panel for each system of a trace. ValueError: it holds no tasks"""
    iteration = trace.first_iteration()
    of_trace = [read_system(trace, number, iteration) for number in range(len(trace.labels))]
    base, systems = of_trace[0], [of_trace[number] for number in trace.ranking()]
    long, half = long_samples(trace, iteration)
    panel, left, right, top, bottom, gap = 1.35, 1.12, 2.2, 0.42, 0.95, 0.34
    total = top + bottom + len(systems) * (panel + gap)
    figure = pyplot.figure(figsize=(WIDTH, total))
    end_s = max(float(system.iteration["time_s"]) for system in systems)
    layers: set[tuple[int, int, int]] = set()
    axes: Any = None
    for number, system in enumerate(systems):
        at = total - top - (number + 1) * (panel + gap)
        axes = figure.add_axes((left / WIDTH, at / total, (WIDTH - left - right) / WIDTH, panel / total), sharex=axes)
        layers |= Panel(axes, system, long).draw(end_s)
        exceeded_limit = ", does not fit" if not system.summary["fits"] else ", fits tightly" if system.summary["tight"] else ""
        axes.set_title(name_of(system), loc="left", fontsize=10, fontweight="bold", pad=3)
        axes.annotate(f"{speeds_text(system, base)}; {layout_text(system.summary)}{exceeded_limit}", (1, 1), xycoords="axes fraction",
                      xytext=(2.1 * 72, 4), textcoords="offset points", ha="right", va="bottom", fontsize=8.5)
        list_shares(axes, system)
    axes.tick_params(labelbottom=True, length=2)
    axes.set_xlim(0, end_s)
    axes.set_xlabel("seconds since the iteration's start")
    title(figure, f"Share of GPUs in iteration {iteration}, the measured one nearest to the means: {trace.setting()}")
    columns = legend_handles(layers)
    figure.legend(handles=list(columns), loc="lower left", bbox_to_anchor=(0.01, 0.0), ncol=5, frameon=False,
                  alignment="left", columnspacing=1.2, handlelength=1.2,
                  title=f"long samples: over {half / 1024:.0f}Ki tokens, where attention outweighs the rest" if long else None,
                  title_fontsize=8.5)
    return figure

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws how few samples hold how much of the work: lengths of the samples of traces, beside each other.

Top: histogram and cumulative share of samples by length. Below, a panel per trace: the share of samples, of tokens
and of forward FLOPs (layers, without the head) in each power of two of the length.
"""
from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slimsim.plot.style import BLUE, COLOURS, GREEN, KI, ORANGE, WIDTH, drawn, ki, line_handle, style, tokens_axis
from slimsim.plot.trace import Trace

SHARE_COLOURS = {"samples": BLUE, "tokens": ORANGE, "forward FLOPs": GREEN}
BUCKET_ENDS = KI * 2 ** numpy.arange(12)  # 1Ki, 2Ki, ..., 2Mi; longer ones get a bucket of their own


class Source(NamedTuple):
    """The samples of a trace."""

    name: str
    detail: str
    tokens: Any  # one length a sample, sorted
    cost: Callable[[Any], Any]  # F of a layer, FLOPs of an array of lengths


def source_of(trace: Trace) -> Source:
    """All samples of the measured iterations, after cutting: those that `slimsim lengths` counts."""
    rows, iterations, attributes = trace.table("lengths"), trace.table("iterations"), trace.attributes
    rows = rows[numpy.isin(rows["iteration"], iterations["iteration"][iterations["measured"] == 1])]
    lengths = pathlib.Path(trace.text("lengths")).name
    count = len(numpy.unique(rows["iteration"]))
    detail = (f"{lengths} lengths, context {ki(attributes['context'])}, {count} iteration{'s' * (count > 1)} "
              f"of {trace.batch(attributes['global_batch'])}, {trace.text('model')}")
    return Source(trace.text("name"), detail, numpy.sort(rows["tokens"]).astype(float), trace.layer_flop)


def shares(source: Source) -> dict[str, Any]:
    """Share of samples, tokens and FLOPs by bucket, as name -> array."""
    tokens = source.tokens
    bucket = numpy.searchsorted(BUCKET_ENDS, tokens)  # ends belong to the bucket below
    weights = {"samples": numpy.ones_like(tokens), "tokens": tokens,
               "forward FLOPs": source.cost(tokens)}
    count = len(BUCKET_ENDS) + 1
    return {name: numpy.bincount(bucket, weight, count) / weight.sum() for name, weight in weights.items()}


def draw_histogram(axes: Axes, sources: list[Source]) -> None:
    """The share of samples in bins of half a doubling."""
    first = numpy.floor(numpy.log2(min(source.tokens.min() for source in sources)))
    last = max(numpy.log2(max(source.tokens.max() for source in sources)), first + 0.5)
    edges = 2.0 ** numpy.arange(first, last + 0.5, 0.5)
    for source, colour in zip(sources, COLOURS):
        counts, _ = numpy.histogram(source.tokens, edges)
        axes.stairs(100 * counts / len(source.tokens), edges, color=colour, linewidth=1.6)
        if len(sources) == 1:
            axes.stairs(100 * counts / len(source.tokens), edges, color=colour, alpha=0.12, fill=True)
    tokens_axis(axes, "length of a sample [tokens]")
    axes.set_ylabel("% of samples\n(two bins a doubling)")
    style(axes)


def draw_cumulative(axes: Axes, sources: list[Source]) -> None:
    """The share of samples up to each length."""
    for source, colour in zip(sources, COLOURS):
        tokens = numpy.sort(source.tokens)
        at = numpy.unique(numpy.linspace(0, len(tokens) - 1, 4000).astype(int))
        axes.step(tokens[at], 100 * (at + 1) / len(tokens), color=colour, linewidth=1.6, where="post")
    tokens_axis(axes, "length of a sample [tokens]")
    axes.set_ylim(0, 102)
    axes.set_ylabel("% of samples up to the length")
    style(axes)


def percent(share: float) -> str:
    """Three digits at most, none for an empty bucket."""
    if share == 0:
        return ""
    return f"{100 * share:.1f}" if share >= 0.001 else "<0.1"


def draw_shares(axes: Axes, source: Source, last: int) -> None:
    """The shares of one trace by powers of two of the length."""
    by_name = shares(source)
    x = numpy.arange(last + 1)
    width = 0.84 / len(by_name)
    for number, (name, share) in enumerate(by_name.items()):
        at = x + (number - (len(by_name) - 1) / 2) * width
        axes.bar(at, 100 * share[: last + 1], width, color=SHARE_COLOURS[name], label=f"% of {name}")
        for place, value in zip(at, share[: last + 1]):
            axes.text(place, 100 * value, percent(value), ha="center", va="bottom", fontsize=6)
    names = [f"≤ {ki(BUCKET_ENDS[0])}"] + [f"{ki(a)}–{ki(b)}" for a, b in zip(BUCKET_ENDS, BUCKET_ENDS[1:])]
    axes.set_xticks(x, (names + [f"> {ki(BUCKET_ENDS[-1])}"])[: last + 1])
    axes.set_ylabel("%", rotation=0, ha="right", va="center")
    axes.set_title(f"{source.name}: {source.detail}", loc="left", fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncol=len(by_name))
    axes.margins(x=0.01, y=0.15)
    style(axes)


@drawn
def make_figure(sources: list[Source]) -> Figure:
    """The picture of traces. ValueError: they are too many"""
    if not 0 < len(sources) <= len(COLOURS):
        raise ValueError(f"from 1 to {len(COLOURS)} traces fit one picture, not {len(sources)}")
    height = 3.6 + 2.6 * len(sources)
    figure = pyplot.figure(figsize=(WIDTH, height), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
    grid = figure.add_gridspec(1 + len(sources), 2, height_ratios=[3.2] + [2.6] * len(sources))
    draw_histogram(figure.add_subplot(grid[0, 0]), sources)
    cumulative = figure.add_subplot(grid[0, 1])
    draw_cumulative(cumulative, sources)
    if len(sources) > 1:
        handles = [line_handle(source.name, color=colour, linewidth=2)
                   for source, colour in zip(sources, COLOURS)]
        cumulative.legend(handles=handles, loc="lower right", frameon=False, fontsize=8)
    last = max(numpy.searchsorted(BUCKET_ENDS, source.tokens.max()) for source in sources)
    for row, source in enumerate(sources):
        draw_shares(figure.add_subplot(grid[1 + row, :]), source, int(last))
    return figure

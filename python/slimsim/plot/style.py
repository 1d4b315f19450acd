# SPDX-License-Identifier: GPL-3.0-or-later
"""This module holds the look of all pictures: the one table of colours, axes, titles, legends, and texts of numbers."""
from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec

import matplotlib
import numpy
from matplotlib import font_manager, pyplot, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, which readers with any colour blindness tell apart (jfly.uni-koeln.de/color).
BLUE, SKY, GREEN, YELLOW = "#0072B2", "#56B4E9", "#009E73", "#F0E442"
ORANGE, VERMILLION, PURPLE, BLACK = "#E69F00", "#D55E00", "#CC79A7", "#222222"
GREY, WAIT_GREY, LIGHT_GREY, LINE_GREY, PALE_GREY = "#8C8C8C", "#B8B8B8", "#D5D5D5", "#DDDDDD", "#EBEBEB"
# More kinds of what a GPU does than Okabe and Ito have colours.
LIGHT_BLUE, DARK_BLUE, PLUM, LAVENDER, OCHRE, CREAM = "#A9D4F0", "#00558A", "#7F3C6B", "#B5A7E6", "#8A6D00", "#F1EBDD"
# Paul Tol's scheme "muted", for nine samples.
MUTED = ["#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499"]
COLOURS = [BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, GREY, BLACK]  # of systems and other series, in this order
LIMIT_COLOUR = VERMILLION
MARKS = "os^Dv*PX<>"  # of series, so that a picture in grey tells them apart
LOOK = {"text.parse_math": False, "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "xtick.labelsize": 8.5,
        "ytick.labelsize": 8.5, "legend.fontsize": 8.5}  # a name may have two $
WIDTH = 8.0  # of a picture [inches], so that its texts can be read at half the width of a page
LETTERS = 13.5  # of a title in an inch
KI = 1024
GIB = 2**30

P = ParamSpec("P")


def drawn(make: Callable[P, Figure]) -> Callable[P, Figure]:
    """Let a function draw its figure with LOOK."""
    @functools.wraps(make)
    def with_look(*arguments: P.args, **options: P.kwargs) -> Figure:
        with matplotlib.rc_context(LOOK):
            return make(*arguments, **options)
    return with_look


def ki(tokens: float) -> str:
    """1536 -> '1.5Ki'"""
    for unit, name in ((KI * KI, "Mi"), (KI, "Ki")):
        if tokens >= unit:
            return f"{tokens / unit:g}{name}"
    return f"{tokens:g}"


def shade(colour: Any, towards: Any, share: float) -> tuple[float, ...]:
    """A colour mixed with another one."""
    rgb, other = (numpy.array(matplotlib.colors.to_rgb(c)) for c in (colour, towards))
    return tuple((1 - share) * rgb + share * other)


def style(axes: Axes, grid: str = "y") -> None:
    """The grid and the frame of a panel."""
    axes.grid(axis=grid, linewidth=0.4, color=LINE_GREY)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def title(figure: Figure, text: str, size: float = 10.5) -> None:
    """A title of the whole figure, in as many lines as its width needs (constrained layout)."""
    lines = textwrap.wrap(text, int(LETTERS * figure.get_figwidth() * 10.5 / size))
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=size)


def tokens_axis(axes: Axes, label: str) -> None:
    """A logarithmic axis of tokens."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticker.LogLocator(base=16, numticks=20))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: ki(value)))
    axes.set_xlabel(label)


def legend_outside(figure: Figure, handles: Sequence[Any], columns: int, top: bool = False, title: str | None = None) -> None:
    """A legend of the whole figure above or below its panels (constrained layout)."""
    lines = -(-len(handles) // columns) + (title is not None)
    points = font_manager.FontProperties(size=matplotlib.rcParams["legend.fontsize"]).get_size_in_points()
    share = (0.1 + 1.55 * points / 72 * lines) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0 if top else share, 1, 1 - share))
    figure.legend(handles=handles, loc=f"{'upper' if top else 'lower'} center", ncol=columns, frameon=False, title=title)


def line_handle(label: str, **look: Any) -> Any:
    """An entry of a legend: a line or a mark."""
    return pyplot.Line2D([], [], label=label, **look)


def spread(values: Iterable[float], limit: float | None) -> tuple[float, float]:
    """The least and the greatest of values and of a limit, if there is one."""
    found = [*values, *([limit] if limit else [])]
    return min(found), max(found)

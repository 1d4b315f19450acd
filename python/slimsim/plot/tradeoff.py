# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws an answer of `slimsim capacity`: days against cost of all candidates, cost and energy by size, the
distribution of the date, and a tornado of the changes."""
from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import numpy
from matplotlib import pyplot, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slimsim.plot.style import BLACK, BLUE, COLOURS, GREY, LIMIT_COLOUR, MARKS, ORANGE, WIDTH, drawn, spread, style
from slimsim.plot.trace import Trace

FILLS = ("full", "none", "left", "top", "right", "bottom")  # one an offer, so that a picture in black and white tells them apart
RING = {"marker": "o", "markersize": 14, "fillstyle": "none", "color": BLACK, "linestyle": "none"}
BELOW = {"fontsize": 8.5, "loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 5, "frameon": False}  # a legend
COST_NAMES = {"usd": "cost [$]", "gpu_hours": "GPU-hours"}
SMALLEST = 0.0005  # shares of days below it are no change
LETTERS = 90  # of a title below each other
NAME_WIDTH = 24  # of an offer or system
LINE = 1.2  # points: an interval that is wider has a bar


def amount(value: float) -> str:
    """1930000 -> '1.93M'"""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def clip(name: str) -> str:
    """A name that is not too long for a legend."""
    return name if len(name) <= NAME_WIDTH else name[:NAME_WIDTH - 1] + "…"


class Answer:
    """An answer of `slimsim capacity`, with the names of its offers, systems and changes."""

    def __init__(self, trace: Trace) -> None:
        for name in ("candidates", "changes", "dates", "offers"):
            if name not in trace.file:
                raise ValueError(f"not an answer of slimsim capacity, since it has no table {name}")
        self.trace = trace
        self.candidates = trace.file["candidates"][:]
        self.fitting = self.candidates[self.candidates["fits"] == 1]
        self.changes, self.dates = trace.file["changes"][:], trace.file["dates"][:]
        self.offers = trace.texts("offers")
        self.systems = trace.labels
        self.change_names = trace.texts("changes_names")
        # Money is known if each candidate has a price, which src/capacity/candidate.c says, too.
        self.cost = "usd" if numpy.isfinite(self.fitting["usd"]).all() else "gpu_hours"
        self.verdict = trace.text("verdict").splitlines()

    def limit(self, name: str) -> float | None:
        """A limit of the question; None: there is none."""
        return float(self.trace.text(f"limit_{name}")) if f"limit_{name}" in self.trace.attributes else None

    @property
    def budget(self) -> float | None:
        """The limit in money; None: there is none."""
        return self.limit("usd") if self.cost == "usd" else None

    @property
    def chosen(self) -> bool:
        """Whether a candidate keeps all limits."""
        return bool((self.candidates["chosen"] == 1).any())

    @property
    def subject(self) -> Any:
        """The answer, or the fastest candidate if none keeps all limits."""
        if not len(self.fitting):
            raise ValueError("no size of any offer trains, so there is nothing to draw")
        return self.fitting[numpy.argmax(self.fitting["chosen"]) if self.chosen else numpy.argmin(self.fitting["days"])]

    def is_subject(self, row: Any) -> bool:
        """Whether a candidate is the subject."""
        return all(row[key] == self.subject[key] for key in ("offer", "nodes", "system"))

    def subject_name(self) -> str:
        """The cluster and the system of the subject."""
        row = self.subject
        return f"{row['nodes']} nodes of {clip(self.offers[row['offer']])}, {clip(self.systems[row['system']])}"

    def subject_role(self) -> str:
        """Why it is the subject."""
        return "answer" if self.chosen else "fastest, misses a limit"

    def percentiles(self) -> list[tuple[int, float]]:
        """[(5, days), (50, days), (95, days)] of the date. A training that never ends counts as the slowest."""
        days = numpy.sort(numpy.where(numpy.isnan(self.dates["days"]), numpy.inf, self.dates["days"]))
        places = [(share, share / 100 * (len(days) - 1)) for share in (5, 50, 95)]
        return [(share, float(numpy.interp(place, range(len(days)), days))) for share, place in places
                if numpy.isfinite(days[int(numpy.ceil(place))])]

    def front(self) -> list[Any]:
        """The candidates that no other one beats in days and cost, by days."""
        rows = self.fitting[numpy.lexsort((self.fitting[self.cost], self.fitting["days"]))]
        front: list[Any] = []
        for row in rows:
            if not front or row[self.cost] < front[-1][self.cost]:
                front.append(row)
        return front

    def fastest_of_sizes(self, offer: int) -> list[Any]:
        """The fastest candidate of each size of an offer, by nodes."""
        rows = self.fitting[self.fitting["offer"] == offer]
        return [min(rows[rows["nodes"] == nodes], key=lambda row: float(row["days"])) for nodes in numpy.unique(rows["nodes"])]

    def change_shares(self) -> list[tuple[str, float]]:
        """[(name, days of the change / days - 1; NaN: it does not fit)], the largest effect first."""
        shares = [(self.change_names[row["change"]], row["days"] / self.subject["days"] - 1) for row in self.changes]
        return sorted(shares, key=lambda share: (not numpy.isnan(share[1]), -abs(share[1])))


def interval_share(rows: Any) -> Any:
    """Half widths of the 95% intervals over batches, as shares of days, cost and energy; 0 without several iterations."""
    return numpy.nan_to_num(rows["tokens_per_s_per_gpu_interval"] / rows["tokens_per_s_per_gpu"])


def draw_intervals(axes: Axes, rows: list[Any], names: tuple[str, str], look: dict[str, Any]) -> bool:
    """Bars of the intervals of a column over another one, where they are wider than a line. @return whether any is"""
    axes.figure.canvas.draw()
    found = False
    for row in rows:
        x, y, half = (float(value) for value in (row[names[0]], row[names[1]], row[names[1]] * interval_share(row)))
        (_, low), (_, high) = axes.transData.transform([(x, y - half), (x, y + half)])
        if half and abs(high - low) > LINE * axes.figure.dpi / 72:
            axes.errorbar(x, y, yerr=half, capsize=3, elinewidth=LINE, capthick=LINE, fmt="none", **look)
            found = True
    return found


def limit_line(axes: Axes, value: float, text: str, across: bool) -> None:
    """A dashed line at a limit, across the panel at a y or up at an x. Its name stands outside, where no mark is."""
    look = {"color": LIMIT_COLOUR, "linewidth": 1.2, "linestyle": (0, (5, 2))}
    name = {"fontsize": 8, "color": LIMIT_COLOUR, "annotation_clip": False, "textcoords": "offset points"}
    if across:
        axes.axhline(value, **look)
        axes.annotate(text.replace(": ", ":\n"), (1, value), xycoords=axes.get_yaxis_transform(), xytext=(3, 0), va="center",
                      **name)
    else:
        axes.axvline(value, **look)
        axes.annotate(text, (value, 1), xycoords=axes.get_xaxis_transform(), xytext=(0, 3), ha="center", va="bottom", **name)


def log_axis(axis: Any, set_scale: Callable[[str], None], values: Iterable[float], limit: float | None) -> None:
    """A logarithmic axis with plain numbers, if the values and their limit differ much."""
    low, high = spread(values, limit)
    if high < 4 * low:
        return
    set_scale("log")
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: amount(value)))
    axis.set_minor_locator(ticker.NullLocator())


def offer_look(offer: int) -> dict[str, Any]:
    """The colour and the fill of an offer's marks."""
    return {"color": COLOURS[offer % len(COLOURS)], "fillstyle": FILLS[offer % len(FILLS)], "markerfacecoloralt": "white"}


def draw_days(figure: Figure, answer: Answer) -> None:
    """Days against cost of all candidates that fit, the front, the limits, and the answer."""
    axes, cost = figure.subplots(), answer.cost
    for offer, _ in enumerate(answer.offers):
        for system, _ in enumerate(answer.systems):
            rows = answer.fitting[(answer.fitting["offer"] == offer) & (answer.fitting["system"] == system)]
            axes.plot(rows[cost], rows["days"], linestyle="none", marker=MARKS[system % len(MARKS)], markersize=6,
                      **offer_look(offer))
    for column, names in (("offer", answer.offers), ("system", answer.systems)):
        for i, name in enumerate(names):
            look = offer_look(i) if column == "offer" else {"color": GREY}
            absent = "" if (answer.fitting[column] == i).any() else " (does not fit)"
            marker = "h" if column == "offer" else MARKS[i % len(MARKS)]
            axes.plot([], [], linestyle="none", marker=marker, label=clip(name) + absent, **look)
    front, row = answer.front(), answer.subject
    axes.plot([one[cost] for one in front], [one["days"] for one in front], color=BLACK, linewidth=1, zorder=1,
              label="front: fewest days for the cost")
    axes.plot(row[cost], row["days"], label=f"{answer.subject_role()}: {answer.subject_name()}", **RING)
    log_axis(axes.yaxis, axes.set_yscale, answer.fitting["days"], answer.limit("days"))
    log_axis(axes.xaxis, axes.set_xscale, answer.fitting[cost], answer.budget)
    deadline = answer.limit("days")
    if deadline:
        limit_line(axes, deadline, f"deadline: {deadline:g} days", True)
    if answer.budget:
        limit_line(axes, answer.budget, f"budget: ${amount(answer.budget)}", False)
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: amount(value)))
    axes.set_xlabel(COST_NAMES[cost])
    axes.set_ylabel("days")
    axes.margins(0.18, 0.1)
    axes.set_title("Days against cost; a mark is a number of nodes", loc="left", fontsize=10, pad=18)
    if draw_intervals(axes, list(answer.fitting), (cost, "days"), {"color": BLACK, "zorder": 1}):
        axes.errorbar([], [], yerr=[], color=BLACK, capsize=3, elinewidth=LINE, fmt="none", label="95% interval of batches")
    axes.legend(ncol=3, **BELOW)
    style(axes, "both")
    label_nodes(axes, answer, front)


def make_room(axes: Axes, pixels: float, x: float) -> None:
    """Move the lower limit of the x axis, so that a text of so many pixels stands inside the axes on the left of x."""
    at, right = (float(axes.transScale.transform((value, 1))[0]) for value in (x, axes.get_xlim()[1]))
    share = pixels / axes.bbox.width
    left = axes.transScale.inverted().transform(((at - share * right) / (1 - share), 0))[0]
    axes.set_xlim(left=min(left, axes.get_xlim()[0]))


def label_nodes(axes: Axes, answer: Answer, front: list[Any]) -> None:
    """The nodes of the answer and the front. They stand left of and below a mark, since none has fewer days and costs less."""
    axes.figure.canvas.draw()
    taken: list[tuple[float, float]] = []
    for row in [answer.subject, *front]:
        at = row[answer.cost], row["days"]
        apart = [abs(axes.transData.transform(at) - axes.transData.transform(other)) / axes.figure.dpi for other in taken]
        if all(x > 0.7 or y > 0.16 for x, y in apart):
            name = f" of {clip(answer.offers[row['offer']])}" if len(answer.offers) > 1 else ""
            text = axes.annotate(f"{row['nodes']} node{'s' * (row['nodes'] > 1)}{name}", at, xytext=(-7, -5),
                                 textcoords="offset points", ha="right", va="top", fontsize=8)
            make_room(axes, text.get_window_extent().width + 20, row[answer.cost])
            taken.append(at)
    places = axes.transData.transform([(row[answer.cost], row["days"]) for row in front])
    if len(front) > 1:
        longest = int(numpy.argmax(numpy.hypot(*numpy.diff(places, axis=0).T)))
        middle = axes.transData.inverted().transform(places[longest:longest + 2].mean(axis=0))
        axes.annotate("front", middle, xytext=(6, 6),
                      textcoords="offset points", fontsize=8.5, fontstyle="italic")


def draw_size(figure: Figure, answer: Answer) -> None:
    """Cost and energy by nodes of the fastest system of each offer."""
    columns = [(answer.cost, COST_NAMES[answer.cost], answer.budget)]
    if numpy.isfinite(answer.fitting["mwh"]).any():
        columns.append(("mwh", "energy [MWh]", answer.limit("mwh")))
    panels = numpy.atleast_1d(figure.subplots(len(columns), 1, sharex=True))
    for axes, (column, name, limit) in zip(panels, columns):
        for offer, label in enumerate(answer.offers):
            rows = answer.fastest_of_sizes(offer)
            axes.plot([row["nodes"] for row in rows], [row[column] for row in rows], marker=MARKS[offer % len(MARKS)],
                      linestyle=("-", "--", "-.", ":")[offer % 4], linewidth=1.2, label=clip(label), **offer_look(offer))
            draw_intervals(axes, rows, ("nodes", column), {"color": offer_look(offer)["color"]})
        row = answer.subject
        axes.plot(row["nodes"], row[column], label=answer.subject_role(), **RING)
        if limit:
            limit_line(axes, limit, f"at most: {amount(limit)}", True)
        axes.set_ylabel(name)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: amount(value)))
        axes.margins(0.08)
        style(axes, "both")
    figure.align_ylabels(panels)
    panels[-1].set_xscale("log", base=2)
    panels[-1].xaxis.set_major_locator(ticker.LogLocator(base=2, numticks=12))
    panels[-1].xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    panels[-1].set_xlabel("nodes that train")
    panels[0].set_title("The whole training by size, with the fastest system of each offer and size", loc="left", fontsize=10)
    panels[-1].legend(ncol=4, **BELOW)


def draw_date(figure: Figure, answer: Answer) -> None:
    """The distribution of the date, its percentiles, and the deadline."""
    axes, deadline = figure.subplots(), answer.limit("days")
    days = answer.dates["days"]
    if not len(days):
        axes.set_title("No interval of dates from so few measured iterations", loc="left", fontsize=10)
        return
    ended = days[numpy.isfinite(days)]
    n, late = len(days), len(days) - (days <= deadline).sum() if deadline else 0
    low, high = spread(ended, None) if len(ended) else (0, 1)
    near = deadline is not None and 2 * low - high <= deadline <= 2 * high - low
    low, high = spread((low, high), deadline if near else None)
    axes.hist(ended, bins=40, color=COLOURS[0], edgecolor="white", linewidth=0.4)
    axes.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    axes.set_ylim(0, 1.35 * axes.get_ylim()[1])
    top, sides = 0.8 * axes.get_ylim()[1], {5: "right", 50: "center", 95: "left"}
    for share, value in answer.percentiles():
        axes.plot([value, value], [0, top], color=BLACK, linewidth=1, linestyle="-" if share == 50 else "--")
        axes.annotate(f"p{share}\n{value:.1f}", (value, top), xytext=(0, 2), textcoords="offset points", ha=sides[share],
                      fontsize=8)
    if deadline and near:
        limit_line(axes, deadline, f"deadline: {deadline:g} days", False)
    elif deadline:
        later = deadline > high
        axes.annotate(f"deadline: {deadline:g} days →" if later else f"← deadline: {deadline:g} days", (later, 1), xytext=(0, 3),
                      xycoords="axes fraction", textcoords="offset points", ha="right" if later else "left", fontsize=8,
                      color=LIMIT_COLOUR)
    words = [f"{100 * late / n:.0f}% miss the deadline"] if deadline else []
    words += [f"{100 * (n - len(ended)) / n:.0f}% never end"] if len(ended) < n else []
    axes.set_title("; ".join([f"When it ends: {n} simulated trainings", *words]), loc="left", fontsize=10, pad=18)
    axes.set_xlabel("days")
    axes.set_ylabel("trainings")
    style(axes)


def draw_changes(figure: Figure, answer: Answer) -> None:
    """The tornado of the changes."""
    axes, shares = figure.subplots(), answer.change_shares()
    low, high = spread([0, *(share for _, share in shares if not numpy.isnan(share))], 0.01)
    for row, (_, share) in enumerate(shares):
        if numpy.isnan(share):
            axes.annotate("does not fit in memory", (0, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
            continue
        slower = share > 0
        axes.barh(row, 100 * share, height=0.72, color=ORANGE if slower else BLUE, hatch="//" if slower else "",
                  edgecolor="white", linewidth=0)
        if abs(share) < SMALLEST:
            share = 0.0
        text = f"{100 * share:+.1f}" if share else "0"
        axes.annotate(text, (100 * share, row), xytext=(3 if share >= 0 else -3, 0), textcoords="offset points", va="center",
                      ha="left" if share >= 0 else "right", fontsize=8)
    axes.axvline(0, color=BLACK, linewidth=0.8)
    axes.set_yticks(range(len(shares)), [name for name, _ in shares], fontsize=8)
    axes.set_ylim(len(shares) - 0.4, -0.6)
    axes.set_xlim(100 * (low - 0.16 * (high - low)), 100 * (high + 0.16 * (high - low)))
    axes.set_xlabel("% more days (hatched) or fewer, one change at a time, at the same prices")
    axes.set_title(f"What would change the days of {answer.subject_name()}", loc="left", fontsize=10)
    style(axes, "x")


PANELS: dict[str, Callable[[Figure, Answer], None]] = {"days": draw_days, "size": draw_size, "date": draw_date, "changes": draw_changes}


@drawn
def make_figure(path: str, panel: str | None = None) -> Figure:
    """All panels of an answer, or one. ValueError: it is no answer, or there is no such panel"""
    if panel is not None and panel not in PANELS:
        raise ValueError(f"there is no panel {panel}, but {', '.join(PANELS)}")
    answer = Answer(Trace(path))
    names = [panel] if panel else list(PANELS)
    side = 2 if len(names) > 1 else 1
    figure = pyplot.figure(figsize=(WIDTH * side, 5.4 * side), layout="constrained")
    for part, name in zip(numpy.atleast_1d(figure.subfigures(side, side, hspace=0.06, wspace=0.04)).flat, names):
        PANELS[name](part, answer)
    lines = [answer.verdict[0], f"{answer.subject_role()}: {answer.subject_name()}"]
    title = "\n".join(part for line in lines for part in textwrap.wrap(line, LETTERS * side))
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws errors of the predicted throughput of measured runs: a strip of marks for each kind of runs.

The band is within 10%. Hollow marks are runs of trust B, whose settings are known in part; they count only where all runs of
any trust do. Calibration rows, and runs of which only the gain over their pair counts, are left out. Runs whose rows are
withheld have their statistics alone.
"""
from __future__ import annotations

import re
import textwrap
from typing import Any, NamedTuple

import numpy
from matplotlib import pyplot, ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from slimsim.plot import Withheld
from slimsim.plot.style import BLACK, BLUE, GREY, ORANGE, PALE_GREY, WIDTH, drawn, line_handle, style, title
from slimsim.plot.trace import Trace

BAND = 0.10
THROUGHPUT = 0  # of the column quantity
GOLDEN = (5**0.5 - 1) / 2  # neighbours in a strip get heights far from each other
KINDS = {  # columns experts, blackwell, fp8; on Blackwell both precisions stand together
    (0, 0, 0): "dense models in bf16", (0, 0, 1): "dense models in fp8", (0, 1, 0): "dense models on Blackwell",
    (1, 0, 0): "mixtures of experts in bf16", (1, 0, 1): "mixtures of experts in fp8", (1, 1, 0): "mixtures of experts on Blackwell"}
VARYING = "varying lengths"  # begins names of groups
NAME_LETTERS = 32
LEFT_OF = 80  # %: the name of a run that is further out stands towards the middle
COLUMNS = ((1.12, "runs"), (1.28, "mean\n|error|"), (1.44, "bias"), (1.59, "worst"))


class Strip(NamedTuple):
    """Runs of a kind. models: of each run; any_trust: runs of trust B count, too."""

    name: str
    rows: Any
    models: list[str]
    any_trust: bool

    @property
    def counts(self) -> Any:
        """Which runs count."""
        return numpy.ones(len(self.rows), bool) if self.any_trust else self.rows["full_plan"] == 1

    def statistics(self) -> Withheld:
        """The numbers of the runs that count."""
        errors = self.rows["error"][self.counts]
        if not len(errors):
            return Withheld(self.name, 0, numpy.nan)
        return Withheld(self.name, len(errors), float(abs(errors).mean()), float(errors.mean()), float(abs(errors).max()))


def read(path: str) -> list[Strip]:
    """The strips of a file: those of kinds, then groups, the least mean absolute error first. ValueError: it has none"""
    trace = Trace(path)
    if "validation" not in trace.file:
        raise ValueError("not a file of slimsim validate")
    rows = trace.file["validation"][:]
    rows = rows[(rows["quantity"] == THROUGHPUT) & (rows["calibration"] == 0) & (rows["only_beside_pair"] == 0)]
    if not len(rows):
        raise ValueError("no throughput row was simulated")
    names = {name: trace.texts(name) for name in ("rows", "frameworks", "devices", "groups", "models", "sources")}
    keys: dict[tuple[int, str, bool], list[int]] = {}
    for number, row in enumerate(rows):
        keys.setdefault(key_of(row, names), []).append(number)
    if set(keys) == {(0, KINDS[0, 0, 0], False)}:  # of one kind, they stand by framework and GPU
        keys = {}
        for number, row in enumerate(rows):
            name = f"{names['frameworks'][row['framework']] or 'no framework named'}, {names['devices'][row['device']]}"
            keys.setdefault((0, name, False), []).append(number)
    strips = [(part, Strip(name, rows[chosen], [names["models"][i] for i in rows["model"][chosen]], any_trust))
              for (part, name, any_trust), chosen in keys.items()]
    strips.sort(key=lambda entry: (entry[0], numpy.nan_to_num(entry[1].statistics().mean_absolute, nan=numpy.inf), entry[1].name))
    return [strip._replace(name=name_of(strip, names)) if part == 2 else strip for part, strip in strips]


def key_of(row: Any, names: dict[str, list[str]]) -> tuple[int, str, bool]:
    """(part of the picture, name or letters of ids, whether any trust counts) of the strip of a run"""
    group = names["groups"][row["group"]] if names["groups"] else ""
    if not group:
        return 0, KINDS[row["experts"], row["blackwell"], row["fp8"] * (1 - row["blackwell"])], False
    if group.startswith(VARYING):
        letters = re.match(r"\D*", names["rows"][row["row"]])
        return 2, letters[0] if letters else "", True
    if row["experts"]:
        return 1, f"mixtures of experts, {group} *", True
    return 1, "public runs elsewhere", False


def name_of(strip: Strip, names: dict[str, list[str]]) -> str:
    """The name of a strip of varying lengths: the source of most runs, and the GPUs."""
    source = names["sources"][numpy.bincount(strip.rows["source"]).argmax()].rpartition("/")[2]
    least, most = strip.rows["gpus"].min(), strip.rows["gpus"].max()
    device = names["devices"][strip.rows["device"][0]]
    return f"{VARYING}: {re.split('[@#]', source)[0]}, {least}{f' to {most}' if most > least else ''} {device} *"


def draw_strip(axes: Axes, number: int, strip: Strip) -> None:
    """The marks of a strip, and the model of its worst run."""
    order = numpy.argsort(strip.rows["error"], kind="stable")
    error, counts, full = (values[order] for values in (100 * strip.rows["error"], strip.counts, strip.rows["full_plan"] == 1))
    height = number + 0.6 * ((numpy.arange(len(error)) * GOLDEN + 0.5) % 1 - 0.5)
    axes.scatter(error[full], height[full], s=15, color=BLUE, alpha=0.65, linewidths=0)
    axes.scatter(error[~full], height[~full], s=15, color="none", edgecolors=GREY, linewidths=0.8)
    if counts.any():
        worst = int(numpy.argmax(numpy.where(counts, abs(error), -1)))
        right = 0 < error[worst] < LEFT_OF or error[worst] < -LEFT_OF
        axes.annotate(strip.models[order[worst]], (error[worst], height[worst]), xytext=(4 if right else -4, 0), fontsize=7.5, va="center",
                      ha="left" if right else "right", textcoords="offset points", zorder=4,
                      bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5})


def texts_of(numbers: Withheld) -> tuple[str, ...]:
    """'237', '3.5%', '+1.2%', '35.7%': the columns beside a strip"""
    if not numbers.rows:
        return "0", "", "", ""
    return (f"{numbers.rows}", f"{100 * numbers.mean_absolute:.1f}%", "" if numbers.bias is None else f"{100 * numbers.bias:+.1f}%",
            "" if numbers.worst is None else f"{100 * numbers.worst:.1f}%")


@drawn
def make_figure(path: str, withheld: tuple[Withheld, ...] = ()) -> Figure:
    """The picture of validation.h5, below runs whose rows are withheld."""
    strips = read(path)
    numbers = [*withheld, *(strip.statistics() for strip in strips)]
    height = 1.7 + 0.36 * len(numbers)
    figure, axes = pyplot.subplots(figsize=(WIDTH, height))
    figure.subplots_adjust(left=0.26, right=0.72, top=1 - 0.8 / height, bottom=0.9 / height)
    axes.axvspan(-100 * BAND, 100 * BAND, color=PALE_GREY, linewidth=0)
    axes.axvline(0, color=GREY, linewidth=0.8)
    for number, strip in enumerate(strips, len(withheld)):
        draw_strip(axes, number, strip)
    to_axes = axes.get_yaxis_transform()
    for x, text in COLUMNS:
        axes.text(x, -0.75, text, transform=to_axes, fontsize=8.5, ha="right", va="bottom", color=BLACK, linespacing=0.9)
    for number, row in enumerate(numbers):
        if row.bias is not None:
            axes.plot(100 * row.bias, number, marker="D", markersize=6, color=ORANGE, markeredgecolor=BLACK, markeredgewidth=0.8, zorder=5)
        if number < len(withheld) and not withheld[number].part:
            axes.text(100 * BAND + 2, number, "rows withheld", fontsize=7.5, va="center", color=BLACK, fontstyle="italic")
        for (x, _), text in zip(COLUMNS, texts_of(row)):
            axes.text(x, number, text, transform=to_axes, fontsize=8.5, ha="right", va="center")
    for border in sorted({len(withheld)} - {0}):
        axes.axhline(border - 0.5, color=BLACK, linewidth=0.6)
    axes.set_ylim(len(numbers) - 0.5, -0.5)
    axes.margins(x=0.12)
    axes.set_yticks(range(len(numbers)), ["\n".join(textwrap.wrap(row.name, NAME_LETTERS)) for row in numbers])
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:+.0f}%" if value else "0"))
    axes.set_xlabel("predicted over measured tokens/s/GPU, minus 1")
    axes.tick_params(axis="y", length=0)
    style(axes, grid="x")
    handles = [Patch(facecolor=PALE_GREY, label="within 10%"),
               line_handle("run of trust A or A-", linestyle="none", marker="o", color=BLUE, markersize=5),
               line_handle("bias: mean error", linestyle="none", marker="D", color=ORANGE, markeredgecolor=BLACK, markersize=6)]
    if any((strip.rows["full_plan"] == 0).any() for strip in strips):
        counts = "only counts at *" if any(strip.any_trust for strip in strips) else "does not count"
        handles.append(line_handle(f"trust B, known in part: {counts}", linestyle="none", marker="o", markerfacecolor="none",
                                   color=GREY, markersize=5))
    figure.legend(handles=handles, loc="lower center", ncol=4, frameon=False, columnspacing=1.2, handletextpad=0.4)
    count = sum(int(strip.counts.sum()) for strip in strips)
    blind = sum(row.rows for row in withheld if not row.part)
    title(figure, f"Errors of the predicted throughput of {count} runs" + (f", and of {blind} whose rows are withheld" if blind else ""))
    return figure

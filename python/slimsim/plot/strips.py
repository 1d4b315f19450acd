#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the predicted throughput of measured runs: a strip of marks for each framework and GPU, the best first.

The band is within 10%. Hollow marks are rows of trust B, whose settings are known in part. Crosses are calibration rows,
which count in no statistic. The worst row of a strip has its id beside it. The script reads the HDF5 file of
`slimsim validate`.

    validation.py results/validation.h5 --output results/validation.png results/validation.svg
"""
import argparse

from common import COLOURS, Trace, add_output, draw, numpy, pyplot, style, text_of, ticker
from output import exit_with

BAND = 0.10
THROUGHPUT = 0  # of the column quantity
GOLDEN = (5**0.5 - 1) / 2  # neighbours in a strip get heights far from each other


def read(path):
    """Throughput rows, their ids, and the names of frameworks and devices."""
    trace = Trace(path)
    if "validation" not in trace.file:
        raise ValueError("not a file of slimsim validate")
    rows = trace.file["validation"][:]
    names = {name: [text_of(text) for text in trace.file[name][:]] for name in ("rows", "frameworks", "devices")}
    rows = rows[rows["quantity"] == THROUGHPUT]
    if "groups" in trace.file:  # rows that name a group test what no constant is fitted to; they count apart
        named = numpy.array([bool(text_of(text)) for text in trace.file["groups"][:]])[rows["group"]]
        rows = rows if named.all() else rows[~named]
    apart = rows["experts"] == 1  # so do rows with experts
    rows = rows if apart.all() else rows[~apart]
    if not len(rows):
        raise ValueError("no throughput row was simulated")
    return rows, names


def counted(rows):
    return rows[rows["calibration"] == 0]


def mean_absolute(rows):
    return numpy.abs(rows["error"]).mean() if len(rows) else numpy.nan


def strips_of(rows, names):
    """[(name, rows)], the least mean absolute error first; strips of only calibration rows last."""
    groups = []
    for framework, device in numpy.unique(rows[["framework", "device"]]):
        name = f"{names['frameworks'][framework] or 'no framework named'}, {names['devices'][device]}"
        groups.append((name, rows[(rows["framework"] == framework) & (rows["device"] == device)]))
    return sorted(groups, key=lambda group: (len(counted(group[1])) == 0, mean_absolute(counted(group[1])), group[0]))


def draw_strip(axes, number, rows, ids):
    rows = rows[numpy.argsort(rows["error"], kind="stable")]
    error = 100 * rows["error"]
    height = number + 0.6 * ((numpy.arange(len(rows)) * GOLDEN + 0.5) % 1 - 0.5)
    full, fitted = rows["full_plan"] == 1, rows["calibration"] == 1
    look = {"s": 26, "color": COLOURS[0], "linewidths": 0.9}
    axes.scatter(error[full & ~fitted], height[full & ~fitted], alpha=0.75, **{**look, "linewidths": 0})
    axes.scatter(error[~full & ~fitted], height[~full & ~fitted], **{**look, "color": "none", "edgecolors": COLOURS[0]})
    axes.scatter(error[fitted], height[fitted], marker="x", **{**look, "color": COLOURS[6]})
    if (~fitted).any():
        worst = numpy.argmax(numpy.abs(numpy.where(fitted, 0, error)))
        side = 1 if error[worst] < 0 else -1  # towards the middle, where there is room
        axes.annotate(ids[rows["row"][worst]], (error[worst], height[worst]), xytext=(-5 * side, 0), ha="right" if side > 0 else "left",
                      va="center", textcoords="offset points", fontsize=7)


def list_numbers(axes, strips):
    """Beside the strips: the number of rows, the mean error, the mean of absolute errors."""
    columns = ((1.05, "rows"), (1.16, "mean error"), (1.28, "mean |error|"))
    to_axes = axes.get_yaxis_transform()
    for x, text in columns:
        axes.text(x, -0.85, text, transform=to_axes, fontsize=8, ha="right", va="center", color="#555555")
    for number, (_, rows) in enumerate(strips):
        rows = counted(rows)
        texts = (f"{len(rows)}", f"{100 * rows['error'].mean():+.1f}%", f"{100 * mean_absolute(rows):.1f}%") if len(rows) else ("0", "", "")
        for (x, _), text in zip(columns, texts):
            axes.text(x, number, text, transform=to_axes, fontsize=9, ha="right", va="center")


def make_figure(rows, names):
    strips = strips_of(rows, names)
    figure, axes = pyplot.subplots(figsize=(11, 1.5 + 0.42 * len(strips)))
    figure.subplots_adjust(left=0.21, right=0.77, top=1 - 0.7 / figure.get_figheight(), bottom=0.85 / figure.get_figheight())
    axes.axvspan(-100 * BAND, 100 * BAND, color="#E4E4E4", linewidth=0)
    axes.axvline(0, color="#888888", linewidth=0.8)
    for number, (_, of_strip) in enumerate(strips):
        draw_strip(axes, number, of_strip, names["rows"])
    axes.set_ylim(len(strips) - 0.5, -0.5)
    axes.set_yticks(range(len(strips)), [name for name, _ in strips])
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:+.0f}%" if value else "0"))
    axes.xaxis.set_major_locator(ticker.MultipleLocator(10))
    axes.set_xlabel("predicted over measured tokens/s/GPU, minus 1", fontsize=9)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.tick_params(axis="x", labelsize=9)
    style(axes, grid="x")
    list_numbers(axes, strips)
    count = counted(rows)
    within = (numpy.abs(count["error"]) <= BAND).sum()
    figure.suptitle(f"{len(count)} measured training runs: mean |error| {100 * mean_absolute(count):.1f}%, "
                    f"{within} of them within {100 * BAND:.0f}% (band)", x=0.01, ha="left", fontsize=11)
    handles = [pyplot.Line2D([], [], linestyle="none", marker="o", color=COLOURS[0], markersize=5, label="trust A and A-"),
               pyplot.Line2D([], [], linestyle="none", marker="o", markerfacecolor="none", color=COLOURS[0], markersize=5,
                             label="trust B: settings known in part")]
    if len(count) < len(rows):
        handles.append(pyplot.Line2D([], [], linestyle="none", marker="x", color=COLOURS[6], markersize=5,
                                     label="calibration: constants may be fitted to it, not counted"))
    figure.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.2, 0), ncol=3, frameon=False, fontsize=8)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("validation", help="validation.h5 of slimsim validate")
    add_output(parser)
    arguments = parser.parse_args()
    path = arguments.validation
    draw([path], arguments.output, lambda: make_figure(*read(path)))


if __name__ == "__main__":
    exit_with(main)

# SPDX-License-Identifier: GPL-3.0-or-later
"""This package draws the results of slimsim. Each function returns a figure of matplotlib.

A source is a slimsim.Result, or the path of a file; NAME.h5#3 is point 3 of a sweep with `trace: full`. `explain` takes
a dict instead, and `sensitivity` and `stragglers` the path of a table, which lies beside the file of a result.

The scripts of analysis/ draw the same pictures on a command line. A function imports matplotlib when it is called, so
that `import slimsim.plot` needs none. A file in which something is missing or damaged raises ValueError or OSError.
"""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from slimsim.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Withheld", "capacity", "errors", "explain", "lengths", "pipelines", "sensitivity", "stragglers", "waste"]
Source = Result | str | os.PathLike[str]


class Withheld(NamedTuple):
    """Statistics of runs whose rows are not published, as shares: 0.043 is 4.3%.

    worst: the largest absolute error; part: these runs are among those of an earlier one
    """

    name: str
    rows: int
    mean_absolute: float
    bias: float | None = None
    worst: float | None = None
    part: bool = False


def _path(source: Source) -> str:
    """The path of a source. ValueError: the command wrote no file"""
    if not isinstance(source, Result):
        return os.fspath(source)
    if source.path is None:
        raise ValueError("the command wrote no file, as with trace: none or list=True")
    return str(source.path)


def _table(source: Source, suffix: str) -> str:
    """The path of a table, which of a result NAME.h5 is NAME and the suffix."""
    return str(pathlib.Path(_path(source)).with_suffix(suffix)) if isinstance(source, Result) else _path(source)


def waste(source: Source) -> Figure:
    """Draw what the GPUs of each system do in one iteration, the fastest system first (`trace: full`)."""
    from slimsim.plot import timeline
    from slimsim.plot.trace import Trace
    return timeline.make_figure(Trace(_path(source)))


def pipelines(source: Source, numbers: Iterable[int] = (0,), transfers: bool = False) -> Figure:
    """Draw single pipelines of each system, pass by pass, and the memory of their stages, the fastest system first
    (`trace: full`).

    transfers: all transfers that a stage sends, not gradients alone
    """
    from slimsim.plot import closeup
    from slimsim.plot.trace import Trace
    trace = Trace(_path(source))
    return closeup.make_figure(trace, closeup.read_systems(trace, numbers, trace.ranking()), closeup.Look(transfers=transfers))


def sensitivity(source: Source) -> Figure:
    """Draw the table NAME.sensitivity.csv of `slimsim sensitivity` as a tornado about the scenario as it is.

    source: the table, or the result NAME.h5 of the same scenario in its folder
    """
    from slimsim.plot import tornado
    return tornado.make_figure(_table(source, ".sensitivity.csv"))


def capacity(source: Source, panel: str | None = None) -> Figure:
    """Draw an answer of `slimsim capacity`.

    panel: only days (against cost), size, date or changes
    """
    from slimsim.plot import tradeoff
    return tradeoff.make_figure(_path(source), panel)


def stragglers(source: Source) -> Figure:
    """Draw how a slow GPU or NIC spreads, of the table NAME.csv of a sweep of scenarios/stragglers.yaml."""
    from slimsim.plot import slowdown
    return slowdown.make_figure(_table(source, ".csv"))


def errors(source: Source, withheld: Iterable[Withheld] = ()) -> Figure:
    """Draw the errors of predicted throughput, of validation.h5 of `slimsim validate`.

    withheld: runs of which only statistics are published, which stand above the others
    """
    from slimsim.plot import strips
    return strips.make_figure(_path(source), tuple(withheld))


def lengths(*sources: Source) -> Figure:
    """Draw how few samples hold how much of the work, of each source (`trace: full`) beside the others."""
    from slimsim.plot import histogram
    from slimsim.plot.trace import Trace
    return histogram.make_figure([histogram.source_of(Trace(_path(source))) for source in sources])


def explain(explanation: dict[str, Any]) -> Figure:
    """Draw what slimsim.explain() returned: the steps from the GPUs' peak to MFU, and gains if one cost were zero."""
    from slimsim.plot import waterfall
    return waterfall.make_figure(explanation)

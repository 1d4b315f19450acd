#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waterfalls of `slimsim explain --json`: the steps from the GPUs' peak to MFU, a row per system. Beside each stands how
much faster the system were if one cost were zero. A trace is explained anew from the scenario that it holds.

    slimsim explain SCENARIO.yaml --json > explain.json
    explain.py explain.json --output explain.png explain.svg
"""
import json
import pathlib

from common import Trace, draw_one, point_of, slimsim
from output import exit_with
from slimsim import plot


def make_figure(path):
    """The JSON of slimsim explain, or a trace, which is explained anew: its plans are those that the run found."""
    name, _ = point_of(path)
    if name.endswith(".h5"):
        Trace(name)  # it names what is missing or damaged
        return plot.explain(slimsim.explain(path, verbose=True))
    return plot.explain(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))


if __name__ == "__main__":
    exit_with(lambda: draw_one(__doc__, "FILE", "JSON of slimsim explain, NAME.h5 of a run, or NAME.h5#3 of a sweep",
                               make_figure, ".explain.png"))

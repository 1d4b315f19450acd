#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waterfalls of `slimsim explain --json`: the steps from the GPUs' peak to MFU, a row per system. Beside each stands how
much faster the system were if one cost were zero. A trace is explained anew from the scenario that it holds.

    slimsim explain SCENARIO.yaml --json > explain.json
    explain.py explain.json --output explain.png explain.svg
"""
import json
import pathlib

from common import Trace, draw_one, slimsim
from output import exit_with
from slimsim import plot


def make_figure(path):
    """Of the JSON of slimsim explain, or of a trace, which is explained anew: its plans are those that the run found."""
    if path.endswith(".h5"):
        return plot.explain(slimsim.explain(Trace(path).file.filename, verbose=True))
    return plot.explain(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))


if __name__ == "__main__":
    exit_with(lambda: draw_one(__doc__, "FILE", "JSON of slimsim explain, or NAME.h5 of slimsim run", make_figure, ".explain.png"))

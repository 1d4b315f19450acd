#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tornado of `slimsim sensitivity`: how much the first system gains or loses by each change. Changes of one assumption
share a row, the largest effect on top. A hatched bar is a change by which another system ties. A framed one is a change by
which another system wins, and names it.

    slimsim sensitivity SCENARIO.yaml
    sensitivity.py results/NAME.sensitivity.csv --output tornado.png tornado.svg
"""
from common import draw_one
from output import exit_with
from slimsim import plot

if __name__ == "__main__":
    exit_with(lambda: draw_one(__doc__, "FILE.csv", "NAME.sensitivity.csv of slimsim sensitivity", plot.sensitivity))

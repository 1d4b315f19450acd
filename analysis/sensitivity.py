#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tornado of `slimsim sensitivity`: how much the first system gains or loses by each change. Changes of one assumption
share a row, the largest effect on top. A hatched bar is a change by which another system ties. A framed one is a change by
which another system wins, and names it.

    slimsim sensitivity SCENARIO.yaml
    sensitivity.py results/NAME.sensitivity.csv --output tornado.png tornado.svg
"""
import argparse

from common import add_output, draw
from output import exit_with
from slimsim import plot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FILE.csv", help="NAME.sensitivity.csv of slimsim sensitivity")
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.source], arguments.output, lambda: plot.sensitivity(arguments.source))


if __name__ == "__main__":
    exit_with(main)

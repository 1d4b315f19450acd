#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of an answer of `slimsim capacity`: days against cost of all candidates, cost and energy by size, the
distribution of the date, and a tornado of the changes. Bars are 95% intervals of batches that are wider than a line.

    slimsim capacity SCENARIO.yaml
    capacity.py results/NAME.capacity.h5 --output capacity.png capacity.svg
"""
import argparse

from common import add_output, draw
from output import exit_with
from slimsim import plot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FILE.h5", help="NAME.capacity.h5 of slimsim capacity")
    parser.add_argument("--panel", choices=("days", "size", "date", "changes"), help="draw only this panel (default: all)")
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.source], arguments.output, lambda: plot.capacity(arguments.source, arguments.panel))


if __name__ == "__main__":
    exit_with(main)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How few samples hold how much of the work: lengths of the samples of traces (`trace: full`), beside each other.

Top: histogram and cumulative share of samples by length. Below, a panel per trace: the share of samples, of tokens
and of forward FLOPs (layers, without the head) in each power of two of the length.

    lengths.py results/quickstart.h5 --output results/lengths.png results/lengths.svg
"""
import argparse

from common import COLOURS, add_output, draw
from output import exit_with
from slimsim import plot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE", help="NAME.h5 of slimsim run")
    add_output(parser)
    arguments = parser.parse_args()
    if len(arguments.traces) > len(COLOURS):
        parser.error(f"at most {len(COLOURS)} traces fit one picture")
    draw(arguments.traces, arguments.output, lambda: plot.lengths(*arguments.traces), ".lengths.png")


if __name__ == "__main__":
    exit_with(main)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Timeline of one iteration: what all GPUs of each system of a trace do, on one time axis, the fastest system first.

The iteration is the one that the trace holds: the measured one nearest to the means. The shares beside a panel are those
of this iteration. --pipeline draws single pipelines and their memory instead. The script needs only the HDF5 trace, which
must hold tasks (`trace: full`).

    timeline.py results/quickstart.h5 --output results/quickstart.png results/quickstart.svg
"""
import argparse

from common import add_output, draw
from output import exit_with
from slimsim import plot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="NAME.h5 of slimsim run")
    add_output(parser)
    parser.add_argument("--pipeline", type=int, nargs="+", metavar="N", help="draw these pipelines and their memory instead")
    parser.add_argument("--transfers", action="store_true", help="with --pipeline: all transfers a stage sends, not gradients alone")
    arguments = parser.parse_args()

    def make():
        if arguments.pipeline is None:
            return plot.waste(arguments.trace)
        return plot.pipelines(arguments.trace, arguments.pipeline, transfers=arguments.transfers)

    draw([arguments.trace], arguments.output, make)


if __name__ == "__main__":
    exit_with(main)

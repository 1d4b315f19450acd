#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waterfalls of `slimsim explain --json`: the steps from the GPUs' peak to MFU, a row per system. Beside each stands how
much faster the system were if one cost were zero. A trace is explained anew from the scenario that it holds.

    slimsim explain SCENARIO.yaml --json > explain.json
    explain.py explain.json --output explain.png explain.svg
"""
import argparse
import json
import pathlib

from common import Trace, add_output, draw, slimsim
from output import exit_with
from slimsim import plot


def explanation_of(path):
    """Read the JSON of slimsim explain, or explain a trace anew: its plans are those that the run found."""
    if path.suffix == ".h5":
        return slimsim.explain(Trace(path).file.filename, verbose=True)
    return json.loads(path.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FILE", help="JSON of slimsim explain, or NAME.h5 of slimsim run")
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.source], arguments.output, lambda: plot.explain(explanation_of(pathlib.Path(arguments.source))),
         ".explain.png")


if __name__ == "__main__":
    exit_with(main)

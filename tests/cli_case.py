# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the program share a scenario with full traces, the run of it and the folder of the sources."""
import pathlib

import program
from program import SCRATCH, run, write

SOURCE = pathlib.Path(__file__).resolve().parent.parent

SMALL = program.SMALL.replace("warm_up: 0", "warm_up: 1").replace("critical-path", "both\ntrace: full")


def simulate(folder, *arguments, scenario=SMALL):
    path = write("small.yaml", scenario)
    return run("run", path, "--json", "--quiet", "--output", SCRATCH / folder, *arguments)

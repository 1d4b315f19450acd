#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw all pages and pictures of results anew: docs/results.md, docs/rivals.md, and docs/images/.

Their results are kept in a folder, so sweeps that were stopped go on where they were. Results of another version of the
numbers are refused (analysis/numbers_version.py).

    pages.py --jobs 2                  three hours of CPU time
"""
import argparse
import pathlib
import subprocess
import sys

from common import PROGRAM, TOP
from output import exit_with


def commands(arguments):
    """The scripts, in the order in which they run."""
    paper, rivals = arguments.output / "paper", arguments.output / "rivals"
    program = ("--slimsim", arguments.slimsim)
    jobs = ("--jobs", arguments.jobs)
    yield "paper.py", "all", "--output", paper, *program, *jobs
    yield "results.py", "--figures", paper
    yield "rivals.py", "--output", rivals, *program, *jobs
    yield "../docs/images/draw.py", "--program", arguments.slimsim


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slimsim", default=PROGRAM, metavar="FILE", help="the program (%(default)s)")
    parser.add_argument("--output", default="results", type=pathlib.Path, metavar="DIR", help="folder of the results (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="points of a sweep side by side")
    parser.add_argument("--list", action="store_true", help="print the commands")
    arguments = parser.parse_args()
    for script, *words in commands(arguments):
        print("pages.py:", script, *words, file=sys.stdout if arguments.list else sys.stderr)
        if not arguments.list:
            status = subprocess.run([sys.executable, TOP / "analysis" / script, *map(str, words)], check=False).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    exit_with(main)

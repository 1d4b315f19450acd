#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the version of the program's numbers: 8 digits that follow from the plans, times and memory of analysis/numbers.yaml.

A page that is drawn carries the version of the numbers that it was drawn from. A test fails if the program's is another
one. analysis/pages.py draws the pages anew.

    numbers_version.py --slimsim build/release/slimsim
"""
import argparse
import hashlib
import json
import os
import pathlib

from common import PROGRAM, TOP, make_folder, reading, slimsim, write_text
from output import Refused, exit_with

NAME, TITLE = "numbers_version.txt", "version of the numbers"  # of the file in a folder of results
COLUMNS = ("critical_path_mean_s", "simgrid_mean_s", "peak_bytes")  # to three digits


def numbers_version(program, scenario=TOP / "analysis/numbers.yaml"):
    """The version of the numbers that this program computes."""
    os.environ["SLIMSIM"] = str(program)
    printed = slimsim.program.start("run", scenario, {"json": True, "quiet": True}).stdout
    point, = json.loads(printed)["points"]
    lines = [" ".join((system["system"], system["plan_text"], *(f"{system[column]:.2e}" for column in COLUMNS)))
             for system in point["systems"]]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def stored_version(folder):
    """The version of the numbers in a folder of results; None if it has none."""
    path = pathlib.Path(folder) / NAME
    with reading(path):
        return path.read_text(encoding="utf-8").splitlines()[-1] if path.exists() else None


def version_line(folder):
    """The line of a page that says from what numbers it is drawn."""
    return f"Version of the numbers: {stored_version(folder) or 'not known'} (`analysis/numbers_version.py`)."


def keep_version(folder, program, assignments=()):
    """Store the program's version in a folder of results. Refused: the folder has results of another version, or of none.

    assignments: KEY=VALUE that a user sets in every scenario, which make the results another version
    """
    today, stored = " with ".join((numbers_version(program), *assignments)), stored_version(folder)
    if stored is None and any(pathlib.Path(folder).glob("*")):
        raise Refused(f"{folder}: holds files, but no {NAME}; remove the folder, or choose another --output", 2)
    if stored not in (None, today):
        raise Refused(f"{folder}: holds results of the numbers' version {stored}, but this program's is {today}; remove the "
                      "folder, or choose another --output", 2)
    make_folder(pathlib.Path(folder))
    write_text(pathlib.Path(folder) / NAME, f"{TITLE}\n{today}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slimsim", default=PROGRAM, metavar="FILE", help="the program (%(default)s)")
    print(numbers_version(parser.parse_args().slimsim))


if __name__ == "__main__":
    exit_with(main)

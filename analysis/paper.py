#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redraw the figures of the SlimPack paper from simulation: scenarios/paper/*.yaml run, then drawn.

Each figure goes to results/paper as NAME.png and NAME.svg, its numbers as NAME.csv and NAME.h5 (data set `table`). The
HDF5 traces behind it go to results/paper/traces. Every number is from a trace of slimsim or printed by its commands.

    paper.py amplifier formation        some figures
    paper.py --list                     what there is, and how long the large ones take
    paper.py all                        every figure: 100 CPU minutes, shared by --jobs
"""
import argparse
import csv
import io
import os
import pathlib
import shutil
import sys

import paper_cells
import paper_schedules
import paper_units
from common import PROGRAM, TOP, Trace, h5py, make_folder, numpy, pictures, pyplot, reason, slimsim, write_text
from numbers_version import keep_version
from output import Refused, exit_with, write

FIGURES = {**paper_schedules.FIGURES, **paper_units.FIGURES, **paper_cells.FIGURES}


class Simulator:
    """This class runs the scenarios of the paper."""

    def __init__(self, output, assignments, jobs):
        self.traces, self.jobs = output / "traces", jobs
        self.assignments = assignments  # KEY=VALUE that the user sets in every scenario

    def run(self, scenario, name=None, jobs=None, **assignments):
        """scenarios/paper/SCENARIO.yaml, with keys set (data__lengths="github"). @return its trace"""
        name = name or scenario
        sets = [f"name={name}", *(f"{key.replace('__', '.')}={value}" for key, value in assignments.items())]
        slimsim.program.start("run", TOP / "scenarios/paper" / f"{scenario}.yaml",
                              {"output": self.traces, "set": sets + self.assignments, "jobs": jobs}, shown=sys.stderr.isatty())
        return Trace(self.traces / f"{name}.h5")

    def sweep(self, scenario, name=None, **assignments):
        """The same of a scenario with `sweep:`."""
        return self.run(scenario, name, self.jobs, **assignments)


def write_table(path, rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())


def write_hdf5(path, rows):
    """The same table, a compound data set; texts in UTF-8."""
    columns = {name: numpy.array([row[name] for row in rows]) for name in rows[0]}
    columns = {name: numpy.char.encode(column) if column.dtype.kind == "U" else column for name, column in columns.items()}
    table = numpy.rec.fromarrays(list(columns.values()), names=list(columns))
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        file["table"] = table
    write((path, data.getvalue(), (b"\x89HDF\r\n\x1a\n", b"\0table\0")))


def write_figure(folder, name, figure, rows):
    write(*pictures(figure, [folder / f"{name}.png", folder / f"{name}.svg"]))
    write_table(folder / f"{name}.csv", rows)
    write_hdf5(folder / f"{name}.h5", rows)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help="names of figures, or all")
    parser.add_argument("--list", action="store_true", help="print the figures")
    parser.add_argument("--slimsim", default=PROGRAM, metavar="FILE", help="the program (%(default)s)")
    parser.add_argument("--output", default="results/paper", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="in every scenario that is run")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="points of a sweep side by side")
    arguments = parser.parse_args()
    unknown = set(arguments.figures) - set(FIGURES) - {"all"}
    if unknown:
        parser.error(f"no figure {', '.join(sorted(unknown))}; there are {', '.join(FIGURES)} and all")
    if not arguments.figures and not arguments.list:
        parser.error("a figure, all or --list is needed")
    if arguments.figures and shutil.which(arguments.slimsim) is None:
        parser.error(f"--slimsim {arguments.slimsim}: there is no such program; ./quickstart.sh builds it")
    return arguments


def main():
    arguments = read_arguments()
    if arguments.list:
        width = max(map(len, FIGURES))
        print("\n".join(f"{name:{width}}  {make.__doc__.splitlines()[0]}" for name, make in FIGURES.items()))
        print("What names no time takes seconds. A sweep that was stopped goes on where it was.")
        if not arguments.figures:
            return 0
    os.environ["SLIMSIM"] = arguments.slimsim
    pyplot.rcParams.update({"font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 8})  # at a page's width
    keep_version(arguments.output, arguments.slimsim, arguments.set)
    simulator = Simulator(arguments.output, arguments.set, arguments.jobs)
    make_folder(simulator.traces)
    for name in FIGURES if "all" in arguments.figures else dict.fromkeys(arguments.figures):
        print(f"paper.py: {name}", file=sys.stderr)
        try:
            figure, rows = FIGURES[name](simulator)
        except Exception as error:
            raise Refused(f"{name}: {reason(error)}", 1) from error
        write_figure(arguments.output, name, figure, rows)


if __name__ == "__main__":
    exit_with(main)

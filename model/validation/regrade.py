#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sort rows of other people's tables into groups, and correct their settings, by the lines of regrades.csv.

    regrade.py TABLE.csv > FILE.csv              apply the lines
    regrade.py --delivered FILE.csv > TABLE.csv  take them back: the rows as they were delivered

A line holds for rows whose source begins with its `source` and whose cells are those of `when`. Lines apply in their
order. `keys` are set (KEY= empties one), and `group` names what the row tests; {COLUMN} in it is a cell. The column
`graded` keeps the reasons of changed settings, `delivered` the cells before. Regrading such a file takes the old lines
back first. `slimsim validate` of both files gives both results.
"""
import argparse
import csv
import pathlib
import re
import sys

OWN = ("group", "graded", "delivered")
LINES = pathlib.Path(__file__).resolve().parent / "regrades.csv"


def read(path):
    """The comments, the names of columns, and the rows of a table."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = file.readlines()
    n = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    reader = csv.DictReader(lines[n:], restval="")
    return lines[:n], list(reader.fieldnames), list(reader)


def pairs(text):
    return [pair.split("=", 1) for pair in text.split()]


def take_back(row):
    """Give the row the cells that it was delivered with."""
    cells = [cell.split("=", 1) for cell in row.pop("delivered", "").split(" | ") if cell]
    for name in OWN:
        row.pop(name, None)
    row.update(cells)


def regrade(row, lines):
    """Apply the lines to a row."""
    before, reasons = dict(row), []
    for line in lines:
        if not row["source"].startswith(line["source"]) or any(row.get(name, "") != text for name, text in pairs(line["when"])):
            continue
        changes = any(row.get(name, "") != cell for name, cell in pairs(line["keys"]))
        row.update(pairs(line["keys"]))
        row["group"] = re.sub(r"\{([\w.]+)\}", lambda match: row[match[1]], line["group"]) or row.get("group", "")
        reasons += [line["reason"]] if changes else []
    row["graded"] = "; ".join(reasons)
    row["delivered"] = " | ".join(f"{name}={before.get(name, '')}" for name in row
                                  if name not in OWN and row[name] != before.get(name, ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", help="rows of `slimsim validate`")
    parser.add_argument("--delivered", action="store_true", help="print the rows as they were delivered")
    arguments = parser.parse_args()
    comments, names, rows = read(arguments.table)
    lines = read(LINES)[2]
    for row in rows:
        take_back(row)
        if not arguments.delivered:
            regrade(row, lines)
    filled = {name for row in rows for name, cell in row.items() if cell}
    keys = [name for row in rows for name in row if name not in names and name not in OWN]
    names = [name for name in names if name not in OWN and name in filled]
    at = names.index("data.context")
    names[at:at] = sorted(filled & set(keys))
    names += [name for name in OWN if name in filled]
    sys.stdout.writelines(comments)
    writer = csv.DictWriter(sys.stdout, names, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()

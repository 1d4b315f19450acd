#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a slow GPU or NIC spreads: the table of a sweep of scenarios/stragglers.yaml.

A panel for each fault. Lines: how much longer an iteration takes than without faults, by how many times the device is as
slow. Two more lines stand beside a GPU. Dashed: all wait for it all the time. Dotted: nobody does, its work is 1/n of
all.

    stragglers.py results/stragglers.csv --output results/stragglers.png
"""
from common import draw_one
from output import exit_with
from slimsim import plot

if __name__ == "__main__":
    exit_with(lambda: draw_one(__doc__, "FILE.csv", "NAME.csv of a sweep of scenarios/stragglers.yaml", plot.stragglers))

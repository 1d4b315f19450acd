#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the predicted throughput of measured runs: a strip of marks for each kind of runs, the best first.

The band is within 10%. Hollow marks are runs of trust B, whose settings are known in part. Calibration rows are left out.
The worst run of a strip has its model's name beside it. The script reads the HDF5 file of `slimsim validate`.

    validation.py results/validation.h5 --output results/validation.png results/validation.svg
"""
from common import draw_one
from output import exit_with
from slimsim import plot

if __name__ == "__main__":
    exit_with(lambda: draw_one(__doc__, "FILE.h5", "validation.h5 of slimsim validate", plot.errors))

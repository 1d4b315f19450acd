# SPDX-License-Identifier: GPL-3.0-or-later
"""This package runs the program slimsim and reads its tables as pandas data frames.

Each command of the program is a function. slimsim.list() and slimsim.max() are two of them, whose names are Python's own
elsewhere. slimsim.plot draws pictures.
"""
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slimsim import plot as plot
from slimsim.commands import (best, calibrate, capacity, compare, cost, explain, export, import_, lengths, merge, plan, platform,
                              run, sensitivity, submit, sweep, validate)
from slimsim.commands import list as list, max as max  # `from slimsim import *` leaves Python's own in their place
from slimsim.program import Error
from slimsim.result import Result

__version__ = "0.2.0"
__all__ = ["Error", "Result", "best", "calibrate", "capacity", "compare", "cost", "explain", "export", "import_", "lengths",
           "merge", "plan", "platform", "run", "sensitivity", "submit", "sweep", "validate"]


if not TYPE_CHECKING:
    def __getattr__(name):
        """Import slimsim.plot when it is used, since it needs matplotlib."""
        if name == "plot":
            return importlib.import_module("slimsim.plot")
        raise AttributeError(f"module 'slimsim' has no attribute '{name}'")

# SPDX-License-Identifier: GPL-3.0-or-later
"""This package runs the program slimsim and reads its tables as pandas data frames."""
from slimsim.commands import capacity, cost, explain, lengths, plan, run, sweep
from slimsim.program import Error
from slimsim.result import Result

__all__ = ["Error", "Result", "capacity", "cost", "explain", "lengths", "plan", "run", "sweep"]

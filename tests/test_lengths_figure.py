#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check analysis/lengths.py: shares by hand, and pictures that are written."""
import os
import pathlib
import subprocess
import sys
import unittest

import h5py
import numpy

TOP = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = TOP / "analysis" / "lengths.py"
SCRATCH = pathlib.Path(os.environ["SLIMSIM_SCRATCH"])

sys.path.insert(0, str(SCRIPT.parent))

from common import Trace  # noqa: E402  after the path
from slimsim.plot import histogram as lengths  # noqa: E402


def write_trace(name, tokens, complete=1, windows=None):
    rows = numpy.zeros(len(tokens), [("iteration", "i8"), ("sample", "i4"), ("document", "i4"), ("tokens", "i4")])
    rows["tokens"] = tokens
    rows["iteration"] = 1
    warm_up = numpy.array([(0, 0, 0, 4000)] if tokens else [], rows.dtype)  # left out
    iterations = numpy.array([(0, 0), (1, 1)], [("iteration", "i8"), ("measured", "i4")])
    with h5py.File(SCRATCH / name, "w") as file:
        file["lengths"] = numpy.concatenate([warm_up, rows])
        file["iterations"] = iterations
        texts = {"name": "run", "lengths": "github", "model": "tiny"}
        file.attrs.update({key: numpy.bytes_(text) for key, text in texts.items()})
        file.attrs.update(complete=complete, context=4096, global_batch=3)
        file.attrs.update(layer_flop_quadratic=2, layer_flop_linear=10)
        if windows is not None:
            file.attrs["layer_flop_windows"] = numpy.bytes_(windows)
    return SCRATCH / name


class Figure(unittest.TestCase):
    def test_windows_bend_the_work_of_a_layer(self):
        """F(x) is 2 x^2 + 10 x, and 3 x^2 up to 4 tokens, 3 (7 x - 12) behind them."""
        trace = Trace(write_trace("windows.h5", [1], windows="3:4"))
        self.assertEqual(list(trace.layer_flop(numpy.array([3.0, 4.0, 10.0]))), [45 + 30, 80 + 40, 200 + 174 + 100])
        self.assertEqual(list(trace.layer_flop(numpy.array([10.0]), 0)), [374])

    def test_shares_are_those_counted_by_hand(self):
        """F(x) is 2 x^2 + 10 x. An end of a bucket belongs to it."""
        source = lengths.source_of(Trace(write_trace("hand.h5", [1024, 1025, 2048, 1])))
        flop = {x: 2 * x * x + 10 * x for x in (1, 1024, 1025, 2048)}
        shares = lengths.shares(source)
        numpy.testing.assert_allclose(shares["samples"][:3], [0.5, 0.5, 0])
        numpy.testing.assert_allclose(shares["tokens"][:3], [1025 / 4098, 3073 / 4098, 0])
        numpy.testing.assert_allclose(shares["forward FLOPs"][0], (flop[1] + flop[1024]) / sum(flop.values()))

    def test_pictures_are_written(self):
        pictures = [SCRATCH / "figure.png", SCRATCH / "figure.svg"]
        traces = write_trace("run.h5", [1]), write_trace("other.h5", [64, 3000])
        subprocess.run([sys.executable, SCRIPT, *traces, "--output", *pictures], check=True)
        self.assertTrue(all(picture.stat().st_size > 1000 for picture in pictures))

    def test_a_python_without_the_libraries_is_told_what_it_lacks(self):
        """-S: without the folders that packages go to. output.py needs none."""
        for script in sorted(set(SCRIPT.parent.glob("*.py")) - {SCRIPT.with_name("output.py")}):
            lacks = "torch: install PyTorch" if script.name.startswith("measure_") else "h5py: install python3-h5py"
            done = subprocess.run([sys.executable, "-S", script], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""), script)
            self.assertRegex(done.stderr, f"^{script}: {sys.executable} has no {lacks} [^\n]*\n$")

    def test_what_cannot_be_drawn_is_said(self):
        cases = {write_trace("part.h5", [1], complete=0): "not a complete trace", write_trace("none.h5", []): "trace: full",
                 SCRATCH / "missing.h5": "missing.h5: there is no such file\n", SCRIPT: "not an HDF5 file"}
        for trace, message in cases.items():
            output = ["--output", SCRATCH / "never.png"]
            run = subprocess.run([sys.executable, SCRIPT, trace, *output], stderr=subprocess.PIPE, check=False)
            self.assertEqual(run.returncode, 2)
            self.assertIn(message, run.stderr.decode())


if __name__ == "__main__":
    unittest.main()

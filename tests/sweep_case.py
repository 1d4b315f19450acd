# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of sweeps share a sweep of 20 points, which runs undisturbed, and its files to compare with."""
import filecmp
import unittest

from program import SMALL as BASE, fresh, run, write

GRID = BASE + """\
sweep:
  data.context: {log2: [16Ki, 64Ki]}
  zip:
    - {data.lengths: [github, wikipedia], data.global_batch: [48, 64]}
    - [{systems.0.plan.tp: 2, systems.1.plan.tp: 2}, {systems.0.plan.tp: 4, systems.1.plan.tp: 4}]
  exclude:
    - {where: {data.context: 16384, systems.0.plan.tp: 4}, reason: small contexts need no more}
  replicates: 2
"""
FILES = ("small.h5", "small.csv", "small.points.csv")


class Sweep(unittest.TestCase):
    def sweep(self, folder, *arguments, scenario=GRID, status=0):
        done = run("run", write("small.yaml", scenario), "--output", folder, *arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def same(self, one, other, files=FILES):
        for name in files:
            self.assertTrue(filecmp.cmp(one / name, other / name, shallow=False), f"{one / name} {other / name}")

    @classmethod
    def setUpClass(cls):
        cls.whole = fresh("whole")
        done = run("run", write("small.yaml", GRID), "--output", cls.whole, "--quiet", "--jobs", "1")
        assert done.returncode == 0, done.stderr

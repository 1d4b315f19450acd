#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces out: the examples of docs/howto/other-tools.md in SQL, R and Julia give the sums that the trace has."""
import re
import shutil
import subprocess
import unittest

import h5py

from cli_case import SMALL, SOURCE, simulate
from program import SCRATCH, run, write

PAGE = (SOURCE / "docs/howto/other-tools.md").read_text()


def example(kind):
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return text


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = simulate("tools", scenario=SMALL)
        assert done.returncode == 0, done.stderr
        table = run("export", SCRATCH / "tools/small.h5", "--csv", "tasks")
        assert (table.returncode, table.stderr) == (0, "")
        write("tasks.csv", table.stdout)
        cls.sums = {}
        with h5py.File(SCRATCH / "tools/small.h5") as file:
            tasks, systems = file["tasks"], [label.decode() for label in file["systems"]]
            kinds, purposes = ([text.decode() for text in tasks.attrs[name]] for name in ("kind_names", "purpose_names"))
            for task in tasks[:]:
                key = systems[task["system"]], kinds[task["kind"]], purposes[task["purpose"]]
                cls.sums[key] = cls.sums.get(key, 0) + (task["finish_s"] - task["start_s"]) * task["gpus"]

    def check(self, tool, *command, text=""):
        """Run an example and find each group of the trace once in what it prints, with its seconds."""
        if shutil.which(tool) is None:
            self.skipTest(f"{tool} is not installed")
        done = subprocess.run([tool, *command], input=text, capture_output=True, text=True, cwd=SCRATCH, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        printed = re.findall(r"(best-fit|slimpack)\W+([\w-]+)\W+([\w-]+)\W+(\d[\d.e+-]*)", done.stdout)
        self.assertEqual({tuple(words) for *words, _ in printed}, set(self.sums))
        self.assertEqual(len(printed), len(self.sums))
        for *words, seconds in printed:
            self.assertAlmostEqual(float(seconds), self.sums[tuple(words)], delta=1e-5 * self.sums[tuple(words)] + 1e-8)

    def test_tools__sql_of_duckdb(self):
        self.check("duckdb", "-csv", text=example("sql"))

    def test_tools__r(self):
        self.check("Rscript", "-", text=example("r"))

    def test_tools__julia(self):
        self.check("julia", "-", text=example("julia"))

    def test_tools__plain_readers_take_every_table(self):
        """Each table has a header of unique names, equal lines, and no line that a plain reader would not take."""
        with h5py.File(SCRATCH / "tools/small.h5") as file:
            tables = {name: file[name].shape[0] for name in file if file[name].dtype.names}
        self.assertGreaterEqual(len(tables), 8)
        for table, n_rows in tables.items():
            lines = run("export", SCRATCH / "tools/small.h5", "--csv", table).stdout.splitlines()
            names = lines[0].split(",")
            self.assertEqual((len(lines), len(set(names))), (n_rows + 1, len(names)), table)
            self.assertTrue(all(re.fullmatch(r"\w+", name) for name in names), table)
            self.assertEqual({line.count(",") for line in lines if '"' not in line}, {len(names) - 1}, table)


if __name__ == "__main__":
    unittest.main(verbosity=2)

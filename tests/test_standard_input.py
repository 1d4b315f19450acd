#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests give commands a scenario on standard input, by a pipe and by a file."""
import os
import subprocess
import unittest

from program import PROGRAM, SCRATCH, SMALL, fresh, rows, run, write

UNNAMED = SMALL.replace("name: small\n", "")


class StandardInput(unittest.TestCase):
    def test_standard_input__gives_the_results_of_the_file(self):
        path = write("small.yaml", SMALL)
        for command in (("run", "--json", "--quiet", "--output", fresh("same")), ("plan",), ("lengths",), ("explain", "--json"),
                        ("export", "--dag", "dot"), ("max", "data.global_batch", "--to", "64", "--json", "--output", fresh("max"))):
            by_path, by_pipe = run(*command, path), run(*command, "-", input=SMALL)
            self.assertEqual((by_path.returncode, by_pipe.returncode), (0, 0), by_pipe.stderr)
            self.assertNotEqual(by_pipe.stdout, "")
            self.assertEqual(by_pipe.stdout, by_path.stdout)
        with open(path) as file:
            file.readline()
            by_file = run("plan", "-", stdin=file)
        self.assertEqual(by_file.stdout, run("plan", path).stdout)

    def test_standard_input__names_results_stdin(self):
        folder = fresh("named")
        done = run("run", "-", "--output", folder, input=UNNAMED)
        self.assertEqual(sorted(path.name for path in folder.iterdir() if path.suffix != ".journal"), ["stdin.csv", "stdin.h5"], done.stderr)
        run("run", "-", "--output", folder, input=SMALL)
        self.assertTrue((folder / "small.h5").exists())

    def test_standard_input__starts_paths_at_the_working_folder(self):
        folder = SCRATCH / "paths"
        folder.mkdir(exist_ok=True)
        (folder / "mine.txt").write_text("100\n200\n")
        scenario = SMALL.replace("lengths: github", "lengths: mine.txt")
        self.assertEqual(run("lengths", "-", input=scenario, cwd=folder).returncode, 0)
        missing = run("lengths", "-", input=scenario, cwd=SCRATCH)
        self.assertEqual(missing.returncode, 2)
        self.assertIn(f"{SCRATCH}/mine.txt", missing.stderr)

    def test_standard_input__is_the_file_of_errors(self):
        done = run("run", "-", input=SMALL.replace("llama-7b", "lama"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("slimsim: standard input:2:8: model: there is no model 'lama'", done.stderr)
        self.assertIn("standard input:1:1: the file has no content", run("run", "-", input="").stderr)
        self.assertIn("standard input: is larger than the limit", run("run", "-", input="#" * (1 << 20) + "\n").stderr)
        folder = os.open(SCRATCH, os.O_RDONLY)
        done = subprocess.run([PROGRAM, "plan", "-"], stdin=folder, capture_output=True, text=True, timeout=60)
        os.close(folder)
        self.assertEqual((done.returncode, done.stderr), (2, "slimsim: standard input: cannot be read: Is a directory\n"))

    def test_standard_input__can_be_a_sweep_whose_points_say_so(self):
        folder = fresh("sweep")
        done = run("run", "-", "--quiet", "--output", folder, "--sweep", "seed=1,2", input=SMALL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row["command"] for row in rows(folder / "small.points.csv")],
                         [f"slimsim run - --sweep seed=1,2 --point {point}" for point in range(2)])

    def test_standard_input__cannot_be_submitted(self):
        done = run("submit", "-", "--shards", "2", "--dry-run", input=SMALL + "sweep: {seed: [1, 2]}\n")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("submit: each task reads the scenario again", done.stderr)


if __name__ == "__main__":
    unittest.main()

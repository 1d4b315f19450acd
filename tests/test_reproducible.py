#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test builds the release of the same sources in two folders, which takes minutes."""
import os
import shutil
import subprocess
import unittest

from cli_case import SOURCE
from program import fresh


def release_in(folder):
    """Copy the sources to a folder and build the program there as users do. @return the program"""
    shutil.copytree(SOURCE, folder, ignore=lambda path, _: {".git", "build", "results"} if path == str(SOURCE) else set())
    for command in (("--preset", "release"), ("--build", "--preset", "release", "--target", "slimsim", "--parallel", str(os.cpu_count()))):
        subprocess.run(["cmake", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "build/release/slimsim"


class Release(unittest.TestCase):
    def test_release__has_the_same_bytes_in_another_folder(self):
        folder = fresh("reproducible")
        programs = [release_in(folder / "one"), release_in(folder / "another/and-longer")]
        first, second = (program.read_bytes() for program in programs)
        self.assertTrue(first == second, f"{programs[0]} and {programs[1]} differ")
        self.assertNotIn(str(folder).encode(), first)
        listed = subprocess.run([programs[1], "list", "devices"], capture_output=True, text=True, check=False)
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))  # it finds its data
        self.assertIn("h100-sxm", listed.stdout)
        shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)

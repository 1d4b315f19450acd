#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check that the drawn pages carry the version of the numbers that the program computes today."""
import pathlib
import re
import sys
import unittest

from program import PROGRAM, fresh

TOP = pathlib.Path(__file__).resolve().parent.parent
PAGES = ("docs/results.md", "docs/rivals.md")
sys.path.insert(0, str(TOP / "analysis"))
import numbers_version  # noqa: E402  after the path
from output import Refused  # noqa: E402


class NumbersVersion(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.today = numbers_version.numbers_version(PROGRAM)

    def test_the_drawn_pages_have_the_numbers_of_today(self):
        """analysis/pages.py draws them anew."""
        for page in PAGES:
            found = re.findall("^Version of the numbers: (.*) \\(", (TOP / page).read_text(encoding="utf-8"), re.MULTILINE)
            self.assertEqual(found, [self.today], page)

    def test_results_of_another_version_are_refused(self):
        """A folder takes the first version. Then only that one may add to it."""
        folder = fresh("numbers-version")
        self.assertIn("not known", numbers_version.version_line(folder))
        numbers_version.keep_version(folder, PROGRAM)
        self.assertIn(self.today, numbers_version.version_line(folder))
        numbers_version.keep_version(folder, PROGRAM)
        (folder / numbers_version.NAME).write_text(f"{numbers_version.TITLE}\n01234567\n", encoding="utf-8")
        with self.assertRaisesRegex(Refused, f"version 01234567, but this program's is {self.today}"):
            numbers_version.keep_version(folder, PROGRAM)

    def test_results_without_a_version_are_refused(self):
        folder = fresh("no-version")
        folder.mkdir(parents=True)
        (folder / "old.csv").write_text("a\n", encoding="utf-8")
        with self.assertRaisesRegex(Refused, "holds files, but no numbers_version.txt"):
            numbers_version.keep_version(folder, PROGRAM)

    def test_a_number_that_moves_moves_the_version(self):
        """With NICs half as fast some result differs in its first three digits."""
        scenario = fresh("numbers-moved") / "numbers.yaml"
        scenario.parent.mkdir(parents=True)
        scenario.write_text((TOP / "analysis/numbers.yaml").read_text(encoding="utf-8").replace(
            "platform: hopper-2x8", "platform: {name: hopper-2x8, nic: 200Gbps}"), encoding="utf-8")
        self.assertNotEqual(numbers_version.numbers_version(PROGRAM, scenario), self.today)


if __name__ == "__main__":
    unittest.main(verbosity=2)

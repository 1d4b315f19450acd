#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests tell if the pictures of README.md show other numbers than the program of today."""
import csv
import pathlib
import subprocess
import sys
import unittest

from program import PROGRAM

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "docs/images"


class Images(unittest.TestCase):
    def test_images__show_the_numbers_of_today(self):
        """docs/images/draw.py draws them anew."""
        done = subprocess.run([sys.executable, IMAGES / "draw.py", "--program", PROGRAM, "--numbers"], capture_output=True, text=True,
                              timeout=500)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertMultiLineEqual((IMAGES / "numbers.txt").read_text(), done.stdout)

    def test_errors__are_those_of_the_table_beside_them(self):
        """README.md has the numbers of each strip of errors.png in one row of its table."""
        strips = (IMAGES / "numbers.txt").read_text().partition("errors.png\n")[2].partition("buy.png\n")[0].splitlines()
        page = (IMAGES.parent.parent / "README.md").read_text(encoding="utf-8")
        table = [list(filter(None, map(str.strip, line.split("|"))))[1:] for line in page.splitlines() if line.startswith("| ")]
        self.assertGreater(len(strips), 15)
        for strip in strips:
            self.assertIn(strip.split(" | ")[1:], table)

    def test_blind_test__is_the_same_in_the_data_and_on_the_page(self):
        with open(IMAGES.parent.parent / "model/validation/blind.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        page = (IMAGES.parent.parent / "README.md").read_text(encoding="utf-8")
        table = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")]
        self.assertEqual(len(rows), 4)
        for row in rows:
            shares = [f"{100 * float(row[name]):{sign}.1f}%" if row[name] else ""
                      for name, sign in (("mean_absolute", ""), ("bias", "+"), ("worst", ""))]
            self.assertIn([row["name"], row["rows"], *shares], table)

    def test_images__are_small_and_have_numbers(self):
        """The numbers of papers.png and rivals.png stand in docs/rivals.md."""
        pictures = sorted(IMAGES.glob("*.png"))
        self.assertEqual([path.name for path in pictures], ["buy.png", "errors.png", "experts-gemms.png", "experts-micro.png",
                                                              "experts-systems.png", "papers.png", "rivals.png", "waste.png"])
        numbers = (IMAGES / "numbers.txt").read_text() + (IMAGES.parent / "rivals.md").read_text()
        for path in pictures:
            self.assertLess(path.stat().st_size, 200_000)
            self.assertIn(path.name, numbers)


if __name__ == "__main__":
    unittest.main(verbosity=2)

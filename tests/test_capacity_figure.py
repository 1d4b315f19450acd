#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests hold the pictures of analysis/capacity.py against the table of the answer that they draw."""
import shutil
import subprocess
import sys
import unittest

from cli_case import SOURCE
from program import QUESTION, SCRATCH, fresh, rows, run, write

SCRIPT = SOURCE / "analysis" / "capacity.py"
sys.path.insert(0, str(SCRIPT.parent))

from common import h5py, matplotlib, numpy  # noqa: E402  after the path
from slimsim.plot import tradeoff as capacity  # noqa: E402
from slimsim.plot.style import MARKS  # noqa: E402
from slimsim.plot.trace import Trace  # noqa: E402

PRICES = ("price: {usd_per_gpu_hour: 2, pue: 1.2}\n", "price: {usd_per_gpu_hour: 5}, ")


def answer_of(name, question, *options):
    """Ask a question in a folder of its own. @return the path of the answer"""
    done = run("capacity", write(f"{name}.yaml", question), "--quiet", "--output", fresh(name), *options)
    assert done.returncode == 0, done.stderr
    return SCRATCH / name / "question.capacity.h5"


def without_prices(question):
    for price in PRICES:
        question = question.replace(price, "")
    return question


def texts(panel, path):
    """All texts of a panel: its axes, and the texts of all of them."""
    figure = capacity.make_figure(path, panel)
    figure.canvas.draw()
    found = figure.findobj(matplotlib.text.Text)
    return [text.get_text() for text in found if text.get_text()]


class CapacityFigure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = answer_of("met", QUESTION)
        cls.table = rows(cls.path.with_suffix(".csv"))
        cls.chosen = next(row for row in cls.table if row["chosen"] == "1")
        cls.name = f"{cls.chosen['nodes']} nodes of {cls.chosen['offer']}, {cls.chosen['system']}"

    def draw(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)

    def changed(self, name, change):
        """A copy of the answer that change(file) has changed."""
        path = SCRATCH / f"{name}.h5"
        shutil.copy(self.path, path)
        with h5py.File(path, "r+") as file:
            change(file)
        return path

    def test_files__are_written(self):
        pictures = [SCRATCH / "all.png", SCRATCH / "all.svg"]
        done = self.draw(self.path, "--output", *pictures)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(all(picture.stat().st_size > 20_000 for picture in pictures))
        self.assertEqual(self.draw(self.path).returncode, 0)
        beside = self.path.with_suffix(".png")
        self.assertEqual(beside.read_bytes(), pictures[0].read_bytes())

    def test_days__have_all_candidates_limits_and_the_answer(self):
        found = texts("days", self.path)
        self.assertIn(f"answer: {self.name}", found)
        self.assertIn(f"{self.chosen['nodes']} nodes of {self.chosen['offer']}", found)
        self.assertIn("1 node of first", found)
        self.assertIn("front", found)
        self.assertIn("deadline:\n2 days", found)
        self.assertTrue({"cost [$]", "days", "first", "second", "best-fit", "slimpack"} <= set(found), found)
        lines = capacity.make_figure(self.path, "days").axes[0].lines
        drawn = sorted((x, y) for line in lines if line.get_markersize() == 6 and line.get_marker() in tuple(MARKS)
                       for x, y in zip(line.get_xdata(), line.get_ydata()))
        self.assertEqual(drawn, sorted((float(row["usd"]), float(row["days"])) for row in self.table))

    def test_front__is_that_of_the_table(self):
        answer = capacity.Answer(Trace(self.path))
        points = [(float(row["days"]), float(row["usd"])) for row in self.table]
        front = [point for point in points
                 if not any(other[0] <= point[0] and other[1] <= point[1] and other != point for other in points)]
        self.assertEqual([(row["days"], row["usd"]) for row in answer.front()], sorted(front))

    def test_size__has_cost_and_energy_with_their_limits(self):
        found = texts("size", self.path)
        self.assertTrue({"cost [$]", "energy [MWh]", "nodes that train", "first", "second", "answer"} <= set(found), found)
        limited = texts("size", answer_of("limits", QUESTION.replace("days: 2", "days: 2\n  mwh: 1.5")))
        self.assertIn("at most:\n1.5", limited)
        unknown = self.changed("no_energy", lambda file: self.fill(file, "candidates", mwh=numpy.nan))
        self.assertNotIn("energy [MWh]", texts("size", unknown))

    @staticmethod
    def fill(file, table, **values):
        whole = file[table][:]
        for column, value in values.items():
            whole[column] = value
        file[table][:] = whole

    def test_date__has_percentiles_and_the_deadline(self):
        days = numpy.sort(Trace(self.path).file["dates"]["days"])
        found = texts("date", self.path)
        for share in (5, 50, 95):
            self.assertIn(f"p{share}\n{numpy.quantile(days, share / 100):.1f}", found)
        self.assertIn("deadline: 2 days", found)
        self.assertIn(f"When it ends: {len(days)} simulated trainings; {100 * (days > 2).mean():.0f}% miss the deadline", found)
        self.assertIn("deadline: 99 days →", texts("date", answer_of("far", QUESTION.replace("days: 2", "days: 99"))))

    def test_date__counts_trainings_that_never_end(self):
        def stop(file):
            days = numpy.linspace(1, 2, len(file["dates"]))
            days[-200:] = numpy.nan
            table = file["dates"][:]
            table["days"] = days
            file["dates"][:] = table
        found = texts("date", self.changed("endless", stop))
        self.assertIn("When it ends: 1000 simulated trainings; 20% miss the deadline; 20% never end", found)
        self.assertIn("p50\n1.5", found)
        self.assertFalse(any(text.startswith("p95") for text in found), found)

    def test_changes__are_those_of_the_table(self):
        trace = Trace(self.path)
        names, table = [name.decode() for name in trace.file["changes_names"][:]], trace.file["changes"][:]
        found = texts("changes", self.path)
        self.assertTrue(set(names) <= set(found), found)
        share = table["days"][names.index("NVLink x0.5")] / float(self.chosen["days"]) - 1
        self.assertGreater(share, 0.01)
        self.assertIn(f"{100 * share:+.1f}", found)
        self.assertNotIn("does not fit in memory", found)

        def exceeded_limit(file):
            changes = file["changes"][:]
            changes["fits"][0], changes["days"][0] = 0, numpy.nan
            file["changes"][:] = changes
        self.assertIn("does not fit in memory", texts("changes", self.changed("exceeded_limit", exceeded_limit)))

    def test_missed_deadline__names_the_fastest(self):
        path = answer_of("missed", QUESTION.replace("days: 2", "days: 0.4"))
        fastest = min((row for row in rows(path.with_suffix(".csv")) if row["fits"] == "1"), key=lambda row: float(row["days"]))
        name = f"{fastest['nodes']} nodes of {fastest['offer']}, {fastest['system']}"
        self.assertIn(f"fastest, misses a limit: {name}", texts("days", path))

    def test_question_without_prices__has_gpu_hours(self):
        found = texts("days", answer_of("hours", without_prices(QUESTION)))
        self.assertIn("GPU-hours", found)
        self.assertNotIn("cost [$]", found)

    def test_budget__is_a_line_of_money(self):
        self.assertIn("budget: $5k", texts("days", answer_of("budget", QUESTION.replace("days: 2", "usd: 5000"))))

    def test_names__are_no_formulas(self):
        path = answer_of("formula", QUESTION.replace("name: first,", "name: '$\\frac$ with more than thirty letters',"))
        self.assertIn("$\\frac$ with more than …", texts("days", path))
        self.assertEqual(self.draw(path, "--output", SCRATCH / "formula.png").returncode, 0)

    def test_mistakes__are_named(self):
        no_dates = self.changed("no_dates", lambda file: file.pop("dates"))
        none = self.changed("none", lambda file: self.fill(file, "candidates", fits=0))
        for path, message in ((SCRATCH / "missing.h5", "there is no such file"), (SCRIPT, "not an HDF5 file"),
                              (self.trace(), "not an answer of slimsim capacity, since it has no table candidates"),
                              (no_dates, "not an answer of slimsim capacity, since it has no table dates"),
                              (none, "no size of any offer trains, so there is nothing to draw")):
            done = self.draw(path)
            self.assertEqual((done.returncode, done.stderr), (2, f"{path}: {message}\n"))

    def trace(self):
        folder = fresh("run")
        scenario = QUESTION[:QUESTION.index("capacity:")] + QUESTION[QUESTION.index("systems:"):]
        done = run("run", write("run.yaml", scenario), "--output", folder, "--set", "platform=hopper-1x8")
        assert done.returncode == 0, done.stderr
        return next(folder.glob("*.h5"))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests hold the pictures of slimsim.plot against the tables that they draw."""
import os
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import h5py
import numpy

from cli_case import SOURCE
from program import FP8, SCRATCH, SMALL, fresh, run, write

sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python"))
os.environ["MPLBACKEND"] = "Agg"

import matplotlib  # noqa: E402  the path comes first
import slimsim  # noqa: E402
from slimsim import plot  # noqa: E402
from slimsim.plot import strips, timeline, tornado, waterfall  # noqa: E402
from slimsim.plot.trace import Trace  # noqa: E402

TABLE = """\
change,set,system,fits,tight,rank,tokens_per_s_per_gpu,gain,winner,winner_changes,tie,refused
as it is,,one,1,0,1,700,0,one,0,,
as it is,,two,1,0,2,600,0,one,0,,
NIC x0.5,platform.nic=25GBps,one,1,0,2,560,-0.2,two,1,,
NIC x2,platform.nic=100GBps,one,1,0,1,770,0.1,one,0,two,
batch x0.5,data.global_batch=8,one,1,0,1,665,-0.05,one,0,,
batch x2,data.global_batch=32,one,0,0,0,,,none,0,,
ep x2,systems.0.plan.ep=8,one,0,0,0,,,one,0,,no such plan
"""
SWEEP = """\
point,status,faults.0.factor,faults.1.factor,system,tp,pp,cp,dp,gpus,time_mean_s
0,done,1,1,one,1,1,1,8,8,2
1,done,2,1,one,1,1,1,8,8,3
2,done,1,4,one,1,1,1,8,8,2.2
"""


def texts(figure):
    figure.canvas.draw()
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


class Plot(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = fresh("plot")
        done = run("run", write("small.yaml", SMALL), "--quiet", "--output", cls.folder, "--set", "trace=full")
        assert done.returncode == 0, done.stderr
        cls.trace = cls.folder / "small.h5"
        done = run("validate", SOURCE / "model/validation/training_h100.csv", "--quiet", "--output", cls.folder)
        assert done.returncode == 0, done.stderr

    def tearDown(self):
        matplotlib.pyplot.close("all")

    def test_import__needs_no_matplotlib(self):
        code = "import sys; import slimsim.plot; print('matplotlib' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=SOURCE / "python")
        self.assertEqual(done.stdout, "False\n")

    def test_waste__has_the_order_of_the_ranking_and_areas_of_gpu_time(self):
        figure = plot.waste(slimsim.Result(self.trace))
        table = slimsim.Result(self.trace).summary.sort_values("tokens_per_s_per_gpu", ascending=False)
        self.assertEqual([axes.get_title("left") for axes in figure.axes], table["system"].tolist())
        trace = Trace(self.trace)
        systems = [timeline.read_system(trace, number, trace.first_iteration()) for number in trace.ranking()]
        for axes, system in zip(figure.axes, systems):
            areas = [area(polygon.vertices) for shape in axes.collections if isinstance(shape, matplotlib.collections.PolyCollection)
                     for polygon in shape.get_paths()]
            self.assertAlmostEqual(sum(areas) / float(system.iteration["total_s"]), 1, places=6)

    def test_ranking__is_that_of_the_file(self):
        """Systems of one rank stand by their speed, those that do not fit last, whatever their speed."""
        path = SCRATCH / "ranks.h5"
        shutil.copy(self.trace, path)
        for fits, rank, speed, order in (((1, 1), (1, 2), (600, 700), [0, 1]), ((1, 1), (2, 1), (700, 600), [1, 0]),
                                         ((1, 1), (1, 1), (600, 700), [1, 0]), ((1, 1), (1, 1), (700, 600), [0, 1]),
                                         ((0, 1), (0, 1), (700, 600), [1, 0]), ((1, 0), (1, 0), (600, 700), [0, 1])):
            with h5py.File(path, "r+") as file:
                table = file["summary"][:]
                table["fits"], table["rank"], table["tokens_per_s_per_gpu"] = fits, rank, speed
                file["summary"][:] = table
            self.assertEqual(Trace(path).ranking(), order)
            labels = [["best-fit", "slimpack"][number] for number in order]
            self.assertEqual([axes.get_title("left") for axes in plot.waste(path).axes], labels)
            self.assertEqual([axes.get_title("left") for axes in plot.pipelines(path).axes if axes.get_title("left")], labels)
            base = [text for text in texts(plot.pipelines(path)) if "the speed of" in text]
            self.assertTrue(all("the speed of best-fit" in text for text in base) and base, base)

    def test_speed_ups__are_left_out_over_a_base_that_does_not_fit(self):
        def speeds(path):
            found = texts(plot.waste(path)) + texts(plot.pipelines(path))
            return [text for text in found if re.search(r"[0-9]x (the speed of )?best-fit", text)]

        self.assertEqual(len(speeds(self.trace)), 2)
        path = SCRATCH / "exceeds.h5"
        shutil.copy(self.trace, path)
        with h5py.File(path, "r+") as file:
            table = file["summary"][:]
            table["fits"][0], table["first_exceeds_limit"] = 0, 1
            file["summary"][:] = table
        self.assertEqual(speeds(path), [])

    def test_pipelines_lengths_and_explanations__are_drawn_of_a_path_and_a_result(self):
        shown = texts(plot.pipelines(self.trace, iter([0])))
        self.assertTrue({"best-fit", "slimpack", "stage 1"} <= set(shown), shown)
        self.assertIn("% of tokens", texts(plot.lengths(slimsim.Result(self.trace), self.trace)))
        explained = slimsim.explain(self.folder.parent / "small.yaml")
        found = texts(plot.explain(explained))
        for system in explained["systems"]:
            self.assertTrue(any(text.startswith(f"{system['label']}: MFU {100 * system['mfu']:.1f}%") for text in found), found)

    def test_explanation__draws_a_negative_share(self):
        explained = slimsim.explain(write("fp8.yaml", FP8))
        for system, axes in zip(explained["systems"], plot.explain(explained).axes[::2]):
            steps = waterfall.steps_of(system)
            row = [key for key, *_ in steps].index("fp8_above_bf16_peak")
            bar, (*_, begin, end) = axes.patches[row], steps[row]
            self.assertLess(end, begin - 5)
            self.assertAlmostEqual(min(bar.get_bbox().intervalx), end)
            self.assertAlmostEqual(max(bar.get_bbox().intervalx), begin)
            self.assertAlmostEqual(begin, 100 * system["mfu"], delta=0.1)  # it ends at the MFU
            self.assertIn(f"{end - begin:.1f}", [text.get_text() for text in axes.texts])

    def test_tornado__has_a_row_of_an_assumption_with_ties_and_winners(self):
        path = write("small.sensitivity.csv", TABLE)
        table = tornado.read(path)
        self.assertEqual([[(change.assumption, change.value) for change in row] for row in table.rows],
                         [[("batch", "x0.5"), ("batch", "x2")], [("NIC", "x0.5"), ("NIC", "x2")]])
        figure = plot.sensitivity(path)
        shown = {"x0.5: two wins\nx2: two ties", "x2: does not fit", "x0.5: -20.0%", "x2: +10.0%"}
        self.assertTrue(shown <= set(texts(figure)), texts(figure))
        bars = {round(bar.get_width(), 9): bar for bar in figure.axes[0].patches}
        self.assertEqual(set(bars), {-20, 10, -5})
        self.assertEqual([bars[gain].get_hatch() for gain in (-20, 10, -5)], ["", "////", ""])
        self.assertGreater(bars[-20].get_linewidth(), 0)
        self.assertTrue(figure.axes[0].get_xlabel().endswith("by one change at a time\nleft out: 1 refused"))
        with unittest.mock.patch.object(tornado, "ROWS_MOST", 1):
            self.assertTrue(plot.sensitivity(path).axes[0].get_xlabel().endswith("\nleft out: 1 refused, 2 smaller"))
        full = plot.sensitivity(write("full.csv", TABLE.rsplit("ep x2", 1)[0]))
        self.assertTrue(full.axes[0].get_xlabel().endswith("by one change at a time"))
        result = slimsim.Result(path.with_name("small.h5"))
        self.assertEqual(texts(plot.sensitivity(result)), texts(figure))
        with self.assertRaisesRegex(FileNotFoundError, "none.sensitivity.csv"):
            plot.sensitivity(slimsim.Result(path.with_name("none.h5")))
        with self.assertRaisesRegex(ValueError, "not a table of slimsim sensitivity"):
            plot.sensitivity(write("other.csv", "a,b\n1,2\n"))

    def test_stragglers__have_one_scale(self):
        path = write("stragglers.csv", SWEEP)
        figure = plot.stragglers(path)
        self.assertEqual(texts(plot.stragglers(slimsim.Result(path.with_suffix(".h5")))), texts(figure))
        left, right = figure.axes
        self.assertEqual(left.get_ylim(), right.get_ylim())
        self.assertEqual([list(axes.lines[0].get_ydata().round(9)) for axes in (left, right)], [[0, 50], [0, 10]])

    def test_errors__are_those_of_the_rows_and_of_withheld_ones(self):
        path = self.folder / "validation.h5"
        rows = slimsim.Result(path).table("validation")
        rows = rows[(rows["quantity"] == "tokens/s/GPU") & (rows["calibration"] == 0) & (rows["full_plan"] == 1)]
        numbers = [strip.statistics() for strip in strips.read(path)]
        self.assertEqual(sum(row.rows for row in numbers), len(rows))
        self.assertAlmostEqual(sum(row.rows * row.mean_absolute for row in numbers if row.rows), rows["error"].abs().sum())
        self.assertAlmostEqual(max(row.worst for row in numbers if row.rows), rows["error"].abs().max())
        found = texts(plot.errors(path, [plot.Withheld("blind", 12, 0.043, -0.021, 0.3)]))
        self.assertTrue({"blind", "12", "4.3%", "-2.1%", "30.0%", "rows withheld"} <= set(found), found)
        title = f"Errors of the predicted throughput of {len(rows)} runs, and of 12 whose rows are withheld"
        self.assertIn(title, [text.replace("\n", " ") for text in found])
        worst = rows.loc[rows["error"].abs().idxmax()]
        self.assertIn(worst["model"], found)

    def test_errors__of_several_kinds_have_a_strip_each(self):
        path = SCRATCH / "kinds.h5"
        shutil.copy(self.folder / "validation.h5", path)
        with h5py.File(path, "r+") as file:
            table = file["validation"][:]
            table["fp8"][table["quantity"] == 0] = numpy.arange((table["quantity"] == 0).sum()) % 2
            file["validation"][:] = table
        self.assertEqual({strip.name for strip in strips.read(path)}, {"dense models in bf16", "dense models in fp8"})

    def test_mistakes__are_named(self):
        for call, message in ((lambda: plot.capacity(self.trace), "not an answer of slimsim capacity"),
                              (lambda: plot.capacity(self.trace, "month"), "there is no panel month, but days, size, date, changes"),
                              (lambda: plot.errors(self.trace), "not a file of slimsim validate"),
                              (lambda: plot.explain({"systems": [{}]}), "not the JSON of slimsim explain"),
                              (lambda: plot.waste(slimsim.Result(None)), "the command wrote no file"),
                              (plot.lengths, "from 1 to 8 traces fit one picture, not 0")):
            with self.assertRaisesRegex(ValueError, message):
                call()


def area(vertices):
    """The area of a polygon, by its corners."""
    x, y = vertices.T
    return abs(numpy.dot(x, numpy.roll(y, 1)) - numpy.dot(y, numpy.roll(x, 1))) / 2


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check the page that analysis/rivals.py writes from a sweep of two cells. They check what it names as
missing, and the scenarios behind it."""
import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import types
import unittest

import numpy

from program import PROGRAM, fresh, run, write

TOP = pathlib.Path(__file__).resolve().parent.parent
SCENARIO = """\
name: rivals
model: llama-13b
device: h800
framework: slimpack-paper
platform: hopper-2x8
data: {lengths: github, context: 64Ki, global_batch: 64}
iterations: {warm_up: 0, measured: 3}
engine: critical-path
systems:
  - {name: best-fit, plan: {tp: 8, pp: 1, cp: 2, recompute: full}}
  - {name: length-balanced, plan: {tp: 8, pp: 2, cp: 1, recompute: full}}
sweep:
  model: [llama-13b]
  data.lengths: [github]
  data.context: [64Ki, 128Ki]
"""


def sent(row):
    return sum(float(value) for name, value in row.items() if name.startswith("sent_"))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.output = fresh("rivals")
        (cls.output / "traces").mkdir(parents=True)
        done = run("run", write("rivals.yaml", SCENARIO), "--output", cls.output / "traces", "--quiet")
        assert done.returncode == 0, done.stderr
        page = cls.output / "page.md"
        subprocess.run([sys.executable, TOP / "analysis/rivals.py", "--no-run", "--slimsim", PROGRAM, "--scenario",
                        write("rivals.yaml", SCENARIO), "--output", cls.output, "--page", page], check=True)
        cls.page = page.read_text(encoding="utf-8")
        with open(cls.output / "traces/rivals.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        cls.rows = {(row["system"], row["data.context"]): row for row in rows}

    def cells(self, section, start):
        lines = self.page.split(f"## {section}")[1].split("\n")
        return [cell.strip() for cell in next(line for line in lines if line.startswith(start)).split("|")[1:-1]]

    def both(self, value):
        """Find the speed-ups of length-balanced over best-fit in the two cells."""
        return [value(self.rows["length-balanced", context]) / value(self.rows["best-fit", context])
                for context in ("65536", "131072")]

    def test_speed_ups_are_those_of_the_times(self):
        found = self.cells("Throughput", "| length-balanced")[1:]
        for text, ratio in zip(found, self.both(lambda row: 1 / float(row["time_mean_s"]))):
            self.assertRegex(text, f"^{ratio:.2f} ± ")
        self.assertEqual(len(found), 2)
        best = [f"{float(self.rows['best-fit', context]['tokens_per_s_per_gpu']):.0f}" for context in ("65536", "131072")]
        self.assertEqual(self.cells("Throughput", "| best-fit")[1:], best)

    def test_samples_that_wait_are_not_counted_as_trained(self):
        """Three iterations take 2 s against 4 s, but have half the FLOPs, so they are as fast. With equal FLOPs it is
        the times' ratio."""
        sys.path.insert(0, str(TOP / "analysis"))
        from paper_cells import speed_up_of, t_quantile
        from slimsim.plot.closeup import system_title

        def iterations(flop, time_s):
            return {"model_flop": numpy.array(flop), "time_s": numpy.array(time_s)}

        base = iterations([8.0, 6.0, 10.0], [4.0, 3.0, 5.0])
        self.assertEqual(speed_up_of(base, iterations([4.0, 3.0, 5.0], [2.0, 1.5, 2.5])), (1.0, 0.0))
        quotient, error = speed_up_of(base, iterations([8.0, 6.0, 10.0], [2.0, 2.0, 2.0]))
        self.assertEqual(quotient, 2.0)
        summary = {**dict.fromkeys(("tp", "pp", "cp", "dp"), 1), "first_exceeds_limit": 0}
        first, waits = (types.SimpleNamespace(label=label, summary=summary, pipelines=[(0, 0)],
                                              iteration={"time_s": 4.0, "model_flop": flop, "peak_bytes": 0, "bubble_fraction": 0})
                        for label, flop in (("best-fit", 8.0), ("wlb-llm", 6.0)))
        self.assertIn("0.75x the speed of best-fit", system_title(waits, first, False))
        self.assertAlmostEqual(error, t_quantile(3) * 2 * 0.25 / 3**0.5)  # of base's times over their mean: 1, 0.75, 1.25

    def test_the_summary_has_the_intervals_of_the_figures(self):
        sys.path.insert(0, str(TOP / "analysis"))
        from common import Trace
        from paper_cells import cell_rows
        for row in cell_rows(Trace(self.output / "traces/rivals.h5")):
            written = self.rows[row["system"], str(row["data.context"])]
            self.assertGreater(row["interval"], 0)
            self.assertAlmostEqual(float(written["tokens_per_s_per_gpu_interval"]) / row["interval"], 1, places=9)
            self.assertAlmostEqual(float(written["speed_up"]) / row["speed_up"], 1, places=12)
            self.assertAlmostEqual(float(written["speed_up_interval"]), row["speed_up_interval"], places=9)

    def test_table_one_holds_means_over_the_cells(self):
        line = self.cells("The SlimPack", "| length-balanced")
        peak = self.both(lambda row: float(row["peak_bytes"]))
        self.assertEqual(line[1], "2")
        self.assertEqual(line[3], f"{(peak[0] * peak[1]) ** 0.5:.2f}")
        rows = [self.rows["length-balanced", context] for context in ("65536", "131072")]
        self.assertEqual(line[4].split(" ")[0], f"{(sent(rows[0]) + sent(rows[1])) / 2 / 2**30:.0f}")
        self.assertEqual(line[8], f"{sum(float(row['dp_imbalance']) for row in rows) / 2:.2f}")
        self.assertEqual(line[6], "")  # it has no context groups
        bounds = [self.rows["best-fit", context] for context in ("65536", "131072")]
        gain = sum(float(row["critical_path_mean_s"]) / float(row["context_bound_mean_s"]) - 1 for row in bounds) / 2
        self.assertGreater(gain, 0.01)
        self.assertEqual(self.cells("The SlimPack", "| best-fit |")[6], f"+{100 * gain:.0f} (2 cells)")

    def test_what_is_missing_is_said(self):
        missing = self.page.split("## Not run")[1]
        self.assertIn("13B GitHub 256Ki", missing)
        self.assertNotIn("13B GitHub 64Ki", missing)
        self.assertIn("headline wlb-llm", missing)
        self.assertIn('"best-fit, CP 1" in 2 of 2 cells', missing)
        self.assertNotIn('"length-balanced"', missing)
        self.assertIn("not run", " ".join(self.cells("Each system", "| wlb-llm | wlb-llm |")))

    def test_a_page_is_whole_with_every_system_in_every_cell(self):
        """Systems that do not fit are there."""
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals
        labels = rivals.labels_of(TOP / "scenarios/rivals.yaml") + rivals.labels_of(TOP / "scenarios/rivals-cp1.yaml")
        self.assertLessEqual({"best-fit", "best-fit, wide", "best-fit, CP 1", "slimpack"}, set(labels))
        n_cells, tables = len(rivals.CELLS), {line[0]: [] for line in rivals.HEADLINES}
        rows = [{"model": model, "data.lengths": name, "data.context": context, "system": label, "fits": 0}
                for model, name, context in rivals.CELLS for label in labels]
        self.assertEqual(rivals.missing_of(rows, tables), [])
        self.assertEqual(rivals.missing_of([row for row in rows if row["system"] != rivals.ALONE], tables),
                         [f'"best-fit, CP 1" in {n_cells} of {n_cells} cells'])
        self.assertEqual(len(rivals.missing_of([row for row in rows if row["system"] == "best-fit"], tables)), len(labels) - 1)
        self.assertEqual(rivals.missing_of(rows[:-2] + rows[-1:], tables), [f'"slimpack" in 1 of {n_cells} cells'])

    def test_a_picture_that_cannot_be_written_is_one_sentence(self):
        output = fresh("rivals-no-picture")
        (output / "images/rivals.png").mkdir(parents=True)
        shutil.copytree(self.output / "traces", output / "traces")
        done = subprocess.run([sys.executable, TOP / "analysis/rivals.py", "--no-run", "--slimsim", PROGRAM, "--scenario",
                               write("rivals.yaml", SCENARIO), "--output", output, "--page", output / "page.md"],
                              check=False, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (73, 1), done.stderr)
        self.assertIn(f"cannot create {output}/images/rivals.png: Is a directory", done.stderr)

    def test_every_system_of_the_headlines_has_a_reason_and_its_range(self):
        """Without a headline run no range is claimed. With made-up rows it is theirs, if both fit."""
        self.assertEqual(self.cells("Each system", "| flexsp | up to")[2:4], ["", ""])
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals
        self.assertEqual(set(rivals.REASONS), {line[2] for line in rivals.HEADLINES})

        def row(point, system, speed_up, fits=True):
            return {"point": point, "system": system, "speed_up": speed_up, "fits": fits}

        tables = {"hotspa": [row("a", "baseline", 1), row("a", "baseline, one strategy", 0.5), row("a", "hotspa", 1.2),
                             row("b", "baseline", 1), row("b", "hotspa", 9, False)],
                  "bytescale-plan": [{**row("c", "baseline", 2), "data.lengths": "github"},
                                     {**row("c", "bytescale, no offload", 3), "data.lengths": "github"}]}
        self.assertEqual(rivals.gains(tables, "hotspa", False), "1.20x to 2.40x")
        self.assertEqual(rivals.gains(tables, "hotspa", True), "")
        self.assertEqual(rivals.gains(tables, "bytescale", True), "1.50x to 1.50x")

    def test_a_sentence_stands_at_the_picture_while_a_printed_gain_is_not_reached(self):
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals
        self.assertEqual(set(rivals.UNMET), {line[2] for line in rivals.HEADLINES if line[3] == "speed_up"})

        def tables(gain):
            return {"hotspa": [{"point": "a", "system": label, "speed_up": speed_up, "fits": True}
                               for label, speed_up in (("baseline", 2), ("hotspa", gain))]}

        self.assertIn("hotspa, printed up to 2.99x, predicted at most 1.05x: one strategy", rivals.unmet(tables(2.1)).replace("\n  ", " "))
        self.assertEqual(rivals.unmet(tables(6)), "Every printed gain that was run is reached.")
        self.assertEqual(rivals.unmet({}), "Not run.")
        wlb = [{"point": str(context), "system": label, "speed_up": speed_up, "fits": True, "data.context": context * 1024}
               for context, gain in ((64, 1.2), (128, 1.1), (160, 1.6)) for label, speed_up in (("baseline", 1), ("wlb-llm", gain))]
        self.assertIn("wlb-llm, printed 1.30x, predicted at most 1.10x: documents", rivals.unmet({"wlb-llm": wlb}))
        self.assertIn("length-balanced" if self.both(lambda row: 1 / float(row["time_mean_s"]))[0] < 1 else "Published", self.page)

    def test_the_page_on_what_to_try_first_has_the_means_of_the_rivals(self):
        text = (TOP / "docs/rivals.md").read_text(encoding="utf-8").split("## Throughput")[1].split("## The SlimPack")[0]
        cells = {}
        for number, table in enumerate(text.split("\n**")[1:]):
            for line in table.split("\n"):
                parts = [cell.strip() for cell in line.strip("|").split("|")]
                if len(parts) == 10 and " ± " in parts[1]:
                    cells[parts[0], number] = [float(cell.split(" ± ")[0]) for cell in parts[1:]]

        def mean(label, models=(0, 1, 2), columns=range(9)):
            values = [cells[label, model][column] for model in models for column in columns]
            return f"{numpy.exp(numpy.log(values).mean()):.2f}"

        page = (TOP / "docs/howto/which-system.md").read_text(encoding="utf-8")
        for names, models in ((("length-balanced", "flops-balanced"), (0, 1, 2)),
                              (("megatron-default-dynamic-cp", "megatron-dp-balanced"), (0, 1, 2)), (("wlb-llm",), (0, 1, 2)),
                              (("flexsp", "slimpack", "bytescale"), (0, 1)), (("slimpack", "megatron-default-dynamic-cp"), (2,))):
            self.assertIn(f"| {', '.join(mean(name, models) for name in names)} |", page)
        self.assertIn(f"`, {mean('best-fit, wide')} here)", page)
        self.assertIn(f"slimpack has {mean('slimpack', columns=[0])} at 64Ki and {mean('slimpack', columns=[2])} at 256Ki", page)
        all_cells = dict(re.findall(r"^\| ([\w-]+) \| 27 \| (\d\.\d\d) \|", (TOP / "docs/rivals.md").read_text(encoding="utf-8"), re.MULTILINE))
        contexts = f"{mean('distca', columns=[0, 3, 6])} at 64Ki, {mean('distca', columns=[2, 5, 8])} at 256Ki."
        self.assertIn(f"It has {all_cells['distca']} (slimpack {all_cells['slimpack']}): {contexts}", page)

    def test_a_reason_stands_where_the_predictions_bear_it_out(self):
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals

        def tables(gain):
            return {"hotspa": [{"point": "a", "system": label, "speed_up": speed_up, "fits": True}
                               for label, speed_up in (("baseline", 1), ("hotspa", gain))]}

        def n_reasons(tables):
            return rivals.reasons(tables).count("\n  - ")

        self.assertEqual(n_reasons(tables(0.9)), n_reasons(tables(1.2)) + 1)
        self.assertEqual(n_reasons({}), n_reasons(tables(1.2)))

    def test_remarks_tell_what_is_in_the_cells(self):
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals

        def row(system, speed_up, delay=0.0):
            return {"system": system, "model": "llama-7b", "data.lengths": "github", "data.context": 65536, "fits": 1,
                    "speed_up": speed_up, "token_delay": delay, "pp": 1}

        slow = rivals.remarks([row("best-fit", 1), row("best-fit, CP 1", 0.5), row("hotspa", 0.75, 2), row("flexsp", 0.9)])
        for numbers in ("0.75 to 0.75", "1.50 to 1.50", "2.00 to 2.00"):
            self.assertIn(numbers, slow)
        self.assertNotIn("(1 of 1 cells)", slow)
        fast = rivals.remarks([row("best-fit", 1), row("best-fit, CP 1", 0.5), row("hotspa", 1.2, 0.1), row("flexsp", 1.1)])
        self.assertNotRegex(fast, r"\d to \d")
        self.assertIn("(1 of 1 cells)", fast)

    def test_the_picture_sorts_systems_by_their_mean_over_cells_where_both_fit(self):
        """slimpack's mean is that of 1.21 and 1: its third cell does not fit, and in the fourth best-fit does not."""
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals

        def row(label, cell, speed_up, fits=True):
            return {"system": label, "model": "llama-7b", "data.lengths": "github", "data.context": cell, "speed_up": speed_up, "fits": fits}

        rows = [row("best-fit", cell, 1, cell != 4) for cell in (1, 2, 3, 4)]
        rows += [row("slimpack", cell, *cells) for cell, cells in enumerate(((1.21,), (1,), (9, False), (9,)), 1)]
        found = rivals.by_mean(rows)
        self.assertEqual([(label, number) for label, _, number in found], [("slimpack", 2), ("best-fit", 3)])
        self.assertAlmostEqual(found[0][1], 1.1)

    def test_printed_and_predicted_speed_ups_stand_on_one_line(self):
        """Systems that do not fit are left out, and so are values that are no speed-ups."""
        sys.path.insert(0, str(TOP / "analysis"))
        import rivals

        def row(system, speed_up, fits=1):
            return {"point": "", "system": system, "speed_up": speed_up, "fits": fits, "mfu": 0.4, "hfu": 0.5, "data.context": 512 * 1024}

        axes, = rivals.draw_papers({
            "dynapipe": [row("baseline", 0.5), row("dynapipe", 1), row("baseline, wide", 1, fits=0)],
            "flexsp": [row("baseline", 1), row("flexsp", 1.5)], "slimpipe-memory": [row("baseline", 1), row("slimpipe, full", 2)]}).axes
        points = {(line.get_marker(), x, y) for line in axes.lines for x, y in zip(*line.get_data()) if line.get_marker() != "None"}
        self.assertEqual(points, {("o", 2, 0), ("|", 3.25, 0), ("o", 1.5, 1), ("|", 1.98, 1), ("|", 1.72, 1)})
        self.assertEqual([text.get_text().split(":")[0] for text in axes.get_yticklabels()], ["dynapipe", "flexsp"])

    def test_the_picture_is_there(self):
        for name in ("images/rivals.png", "rivals.svg", "cells.csv"):
            self.assertGreater((self.output / name).stat().st_size, 0)

    def test_the_scenarios_are_sweeps(self):
        done = run("run", TOP / "scenarios/rivals.yaml", "--list")
        self.assertIn("27 points", done.stdout + done.stderr)
        alone = run("run", TOP / "scenarios/rivals-cp1.yaml", "--list")
        self.assertIn("27 points", alone.stdout + alone.stderr)
        for path in sorted((TOP / "scenarios/headlines").glob("*.yaml")):
            done = run("run", path, "--list")
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

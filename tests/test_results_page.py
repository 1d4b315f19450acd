#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check the page that analysis/results.py writes from tables made by hand."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

TOP = pathlib.Path(__file__).resolve().parent.parent
FIGURES = pathlib.Path(os.environ["SLIMSIM_SCRATCH"]) / "figures"
sys.path.insert(0, str(TOP / "analysis"))

import paper  # noqa: E402  after the path
import paper_cells  # noqa: E402
import results  # noqa: E402
from program import fresh  # noqa: E402

# There are 20 iterations: 15 with equal units, 5 with merged samples (1.2 and 1.4).
SPREADS = {"forward_own_flop_spread": 1.02, "backward_own_flop_spread": 1.03, "forward_flop_spread": 1.05, "backward_flop_spread": 1.1, "forward_time_spread": 1.5, "backward_time_spread": 1.75,
           "sliced": 1.0, "asymmetric": 0.75, "merged_samples": 0.5,
           "plain_iterations": 15, "plain_forward_flop_spread": 1.0, "plain_backward_flop_spread": 1.0,
           "merged_iterations": 5, "merged_forward_flop_spread": 1.2, "merged_backward_flop_spread": 1.4,
           "merged_forward_own_flop_spread": 1.01, "merged_backward_own_flop_spread": 1.02,
           **{f"{kind}_{name}_own_flop_spread": 1.0 for kind in ("plain", "uncut") for name in ("forward", "backward")},
           "uncut_iterations": 0, "uncut_forward_flop_spread": 1.0, "uncut_backward_flop_spread": 1.0,
           **{f"{kind}_{name}_{units}_iterations": n for kind, n in (("plain", 15), ("merged", 5), ("uncut", 0))
              for name in ("forward", "backward") for units in ("flop_spread", "own_flop_spread")}}
PLAN = {"gpus": 128, "tp": 8, "pp": 1, "cp": 4, "dp": 4, "vpp": 1, "sharding": "zero1", "recompute": "none", "offload": 0.5}


def write_cells(space, batch, speeds, engine="critical-path"):
    """Write the table of these speeds: {(model, lengths, context): (tokens/s/GPU of best-fit, of slimpack)}. SimGrid
    takes 10,000 s over the rate, the critical path of best-fit 10 s less."""
    rows = []
    for (model, lengths, context), pair in speeds.items():
        for system, rate in zip(("best-fit", "slimpack"), pair):
            rows.append({"plan_space": space, "global_batch": batch, "model": model, "data.lengths": lengths,
                         "data.context": context, "system": system, **PLAN, **SPREADS, "tokens_per_s_per_gpu": rate,
                         "speed_up": rate / pair[0], "speed_up_interval": 0.05, "simgrid_s": 1e4 / rate,
                         "critical_path_s": 1e4 / rate - (10 if system == "best-fit" else 0)})
    paper.write_table(FIGURES / (paper_cells.cells_name(space, batch, engine) + ".csv"), rows)


def write_parts():
    """Write speed-ups of two parts over best-fit, and one plan in four cells: both fit, SlimPack is slower, each fits
    alone."""
    paper.write_table(FIGURES / "ablation.csv", [
        {"data.context": context, "system": system, "speed_up": speed_up, "speed_up_interval": 0.1}
        for context, speeds in ((65536, (1, 1.5, 3)), (131072, (1, 2, 2.5)))
        for system, speed_up in zip(("best-fit", "slicing", "DP-Merge"), speeds)])
    paper.write_table(FIGURES / "same-plan.csv", [
        {"model": "llama-7b", "data.lengths": "github", "data.context": context, "system": system, **PLAN, "fits": fits,
         "tokens_per_s_per_gpu": 1000 * speed_up - context / 1024, "speed_up": speed_up, "speed_up_interval": 0.1}
        for context, speeds, both in ((65536, (1, 1.25), (1, 1)), (131072, (1, 0.9), (1, 1)), (262144, (1, 2), (1, 0)),
                                      (524288, (1, 3), (0, 1)))
        for system, speed_up, fits in zip(("best-fit", "slimpack"), speeds, both)])


def write_drawings():
    paper.write_table(FIGURES / "lengths.csv", [
        {"data_set": "GitHub", "tokens_up_to": end, "samples": samples, "tokens": 0, "forward_flop": work}
        for end, samples, work in ((2048, 0.3, 0.1), (4096, 0.5, 0.1), (131072, 0.195, 0.2), (262144, 0.005, 0.6))])
    paper.write_table(FIGURES / "unit-size.csv", [
        {"i": i, "tau_flop": 8e15 / i, "bubble_fraction": 0.4 / i, "time_s": time_s} for i, time_s in ((1, 9), (4, 5), (8, 6))])
    paper.write_table(FIGURES / "choice.csv", [
        {"model": "llama-7b", "system": system, **PLAN, "pp": pp, "tokens_per_s_per_gpu": 100, "interval": 10, "median_s": 1,
         "mean_s": 2, "longest_s": 4, "ring_fraction": 0.25} for system, pp in (("no pipelines", 1), ("TP2 pipelines", 8))])
    paper.write_table(FIGURES / "scaling.csv", [
        {"scaling": "weak", "gpus": gpus, "system": system, "tokens_per_s_per_gpu": rate, "speed_up": rate / 200}
        for gpus, pair in ((64, (200, 300)), (256, (200, 250))) for system, rate in zip(("best-fit", "slimpack"), pair)])


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        FIGURES.mkdir(parents=True, exist_ok=True)
        write_cells("free", 512, {("llama-13b", "github", 65536): (1000, 1100), ("llama-13b", "github", 262144): (500, 900)})
        write_cells("low-tp", 2048, {("llama-13b", "github", 262144): (400, 1000),
                                     ("llama-150b", "commoncrawl", 65536): (90, 80)})
        write_cells("megatron", 512, {("llama-7b", "github", 65536): (200, 400)}, "simgrid")
        write_cells("megatron", 512, {("llama-7b", "github", 131072): (200, 400)})
        write_parts()
        write_drawings()
        cls.page = results.page(results.Tables(FIGURES))

    def line(self, start):
        return next(line for line in self.page.split("\n") if line.startswith(start))

    def test_known_values_meet_the_nearest_cell(self):
        """The known value is 2.8x. 1.80 and 2.50 were found, and the second is nearer; both are below it."""
        line = self.line("| 13B | 256Ki |")
        self.assertIn("| 2.8x | 2.50 ± 0.05 | low-tp, B = 2048, GitHub | 1.80 to 1.80 |  | 2.50 to 2.50 | "
                      "The printed value is above the range of free and low-tp. | TP8 PP1 CP4 DP4 offload 50% /", line)
        self.assertEqual(results.in_a_sentence(1.5, {"free": [1.2, 1.6], "megatron": [2, 3], "low-tp": []}),
                         "The printed value is inside the range of free, below the range of megatron.")
        self.assertIn("| 0.89 ± 0.05 | low-tp, B = 2048, Common Crawl |", self.line("| 150B | 64Ki |"))
        self.assertIn("not run", self.line("| 150B | 256Ki |"))
        self.assertEqual("| low-tp, B = 2048 | 2.50 / – / – | – / 0.89 / – | – / – / – | – / – / – |",
                         self.line("| low-tp, B = 2048 | 2.50 /"))

    def test_each_setting_has_an_overview(self):
        """1.1 is alone, 1.8 alone; 0.89 alone, 2.5 alone. At 64Ki 10/9 and 4 are together: the root of 40/9."""
        self.assertIn("| free, B = 512 | 1.10 (1.10 to 1.10) |  | 1.80 (1.80 to 1.80) |", self.page)
        self.assertIn("| low-tp, B = 2048 | 0.89 (0.89 to 0.89) |  | 2.50 (2.50 to 2.50) |", self.page)
        cells = {("free", 512, model, "github", 65536): {"slimpack": {"speed_up": speed_up}}
                 for model, speed_up in (("llama-7b", 10 / 9), ("llama-13b", 4))}
        self.assertIn("| free, B = 512 | 2.11 (1.11 to 4.00) |", results.overview(cells))

    def test_trends_say_where_they_fail(self):
        self.assertIn("| 4 of 5; not: low-tp 2048 150B Common Crawl 64Ki | 1 of 2; not: TP8 PP1 512 7B GitHub 128Ki |",
                      self.page)
        self.assertIn("| 1 of 1 | 0 of 1; not: TP8 PP1 512 7B GitHub |", self.page)
        self.assertEqual(results.judged([(str(n), n < 2) for n in range(12)]), "2 of 12; not: 2, 3, 4, 5, 6, 7, 8, 9, 10, 11")

    def test_a_gain_that_shrinks_by_less_than_its_intervals_is_marked(self):
        for speed_up, mark in ((1.12, " (within the intervals)"), (1.05, "")):
            cells = {("free", 512, "llama-70b", "github", context): {
                system: {"speed_up": speed, "speed_up_interval": 0.04, "tokens_per_s_per_gpu": 1} for system in ("best-fit", "slimpack")}
                for context, speed in ((65536, 1.14), (262144, speed_up))}
            self.assertEqual(results.trend_rows(cells)[1][1], f"0 of 1; not: free 512 70B GitHub{mark}")

    def test_cells_are_listed_and_missing_ones_named(self):
        self.assertIn("| 1.10 ± 0.05 (1000 → 1100) | 1.80 ± 0.05 (500 → 900) |", self.page)
        self.assertIn("`throughput-megatron-512: 35 of 36 cells`", self.page.split("## Not run")[1])
        self.assertNotIn("`throughput-free-512`", self.page.split("## Not run")[1])

    def test_each_cell_tells_its_contention(self):
        """50 s and 25 s on SimGrid, 40 s and 25 s by critical path give 2.00 and 1.60. best-fit takes 10 / 40
        longer."""
        page = self.page.split("## With contention")[1]
        self.assertIn("### megatron, B = 512", page)
        self.assertIn("| 7B | GitHub | 1.60 → 2.00 ± 0.05 (+25.0%, +0.0%) |", page)
        self.assertIn("`throughput-megatron-512-simgrid: 35 of 36 cells`", page)

    def test_the_spread_of_units_is_told(self):
        """Five cells, all without pipelines, have 75 iterations with equal units, 25 with merged samples."""
        page = self.page.split("## Spread of units")[1]
        self.assertIn("| PP = 1 | 75 | 1.000 / 1.000 | 1.000 / 1.000 |", page)
        self.assertIn("| PP = 1 | 25 | 1.200 / 1.400 | 1.010 / 1.020 |", page)
        self.assertIn("| PP > 1 | 0 |  |  |", page)
        self.assertIn("| 7B GitHub 128Ki | 1.050 / 1.100 | 1.50 / 1.75 | 1.50 / 1.75 | 100% | 75% | 0.5 |", page)

    def test_spreads_are_judged_by_kind(self):
        """Two cells have pipelines. The first has 15 iterations at 1 and 5 at 1.08 or 1.1: 1.02 and 1.025. The second
        has no merged sample, and 2 iterations with a part switched off."""
        first = {**SPREADS, "pp": 4, "merged_forward_flop_spread": 1.08, "merged_backward_flop_spread": 1.1}
        second = {**first, "uncut_forward_flop_spread": 1.5,
                  **{f"{kind}_{name}_iterations": n for kind, n in (("merged", 0), ("uncut", 2))
                     for name in ("forward_flop_spread", "backward_flop_spread", "forward_own_flop_spread",
                                  "backward_own_flop_spread")}}
        cells = {n: {"slimpack": row} for n, row in enumerate((first, second))}
        self.assertEqual(re.findall(r"\d+ of \d+", results.spread_verdict(cells)), ["3 of 4", "4 of 4", "0 of 2", "1 of 2", "0 of 0"])
        alone = results.spread_verdict({n: {"slimpack": SPREADS | PLAN} for n in range(5)})  # none has pipelines
        self.assertEqual(re.findall(r"\d+ of \d+", alone), ["0 of 0"] * 4 + ["0 of 10"])

    def test_uneven_cells_are_named(self):
        """15 iterations are at 1 and 5 at 1.08 or 1.1: 1.02 and 1.025. Without merged units it is (15 + 5 x 1.02) / 20.
        Without pipelines, or with none, nothing is said."""
        row = {**PLAN, **SPREADS, "pp": 4, "merged_forward_flop_spread": 1.08, "merged_backward_flop_spread": 1.1}
        key = ("free", 512, "llama-7b", "github", 65536)
        self.assertIn("| free 512 7B GitHub 64Ki | TP8 PP4 CP4 DP4 offload 50% | backward | 20 | 5 | 1.0250 | 1.0050 |",
                      results.spread_misses({key: {"slimpack": row}}))
        self.assertEqual(results.spread_misses({key: {"slimpack": row}}).count("7B"), 1)
        for n, own in ((2, "1.0024"), (0, "1.0000")):  # so many with merged samples have two other units: (2 x 1.02 + 15) / 17
            row["merged_backward_own_flop_spread_iterations"] = n
            self.assertIn(f"| 1.0250 | {own} |", results.spread_misses({key: {"slimpack": row}}))
        row["plain_backward_own_flop_spread_iterations"] = 0
        self.assertIn("| 1.0250 | – |", results.spread_misses({key: {"slimpack": row}}))
        self.assertEqual(results.spread_misses({key: {"slimpack": {**row, "pp": 1}}}), "None.")

    def test_parts_are_compared_with_the_part_before(self):
        """They are 3 / 1.5 and 2.5 / 2."""
        self.assertIn("| 3.00 ± 0.10 | 2.50 ± 0.10 | +100.0% / +25.0% |", self.line("| DP-Merge |"))

    def test_cells_where_the_same_plan_is_slower_are_named(self):
        self.assertIn("| 4 | 2 | 1 | 0.90 to 1.25 | 7B GitHub 128Ki (0.900), 7B GitHub 256Ki (does not fit) |",
                      self.line("| TP8 PP1 |"))

    def test_scaling_is_told(self):
        self.assertIn("| weak | slimpack | 300 (1.50) | 250 (1.25) |", self.page)

    def test_the_choice_is_that_of_the_cell(self):
        """The plan that the search chooses is the cell's."""
        cells = {("megatron", 512, "llama-7b", "commoncrawl", 262144): {"slimpack": {**PLAN, "pp": 4, "vpp": 2, "sharding": "zero3"}}}
        text = results.choice(results.Tables(FIGURES), cells)
        self.assertIn("7B: TP8 PP4 CP4 DP4 VPP2 zero3 offload 50%", text)
        self.assertIn("| 7B | TP2 pipelines | TP8 PP8 CP4 DP4 offload 50% | 100 ± 10 | 1.0 | 2.0 | 4.0 | 25% |", text)

    def test_lengths_are_told_by_their_shares(self):
        """30% and 50% are up to 4Ki, 0.5% over 128Ki with 60% of the work."""
        self.assertRegex(self.page, r"GitHub: 80\.0% .*4Ki")
        self.assertRegex(self.page, r"GitHub: 0\.50% .*128Ki .*60%")

    def test_sizes_of_units_are_told(self):
        """The page has the first, the fastest and the last."""
        self.assertIn("i = 1: 8.00 PFLOP, bubbles 40.0%, 9.0 s; i = 4: 2.00 PFLOP, bubbles 10.0%, 5.0 s; "
                      "i = 8: 1.00 PFLOP, bubbles 5.0%, 6.0 s |", self.page)

    def test_the_script_writes_the_page(self):
        output = FIGURES / "results.md"
        subprocess.run([sys.executable, TOP / "analysis/results.py", "--figures", FIGURES, "--output", output], check=True)
        self.assertEqual(output.read_text(encoding="utf-8"), self.page)

    def test_no_tables_leave_the_page_as_it_is(self):
        output = FIGURES / "kept.md"
        output.write_text("kept", encoding="utf-8")
        done = subprocess.run([sys.executable, TOP / "analysis/results.py", "--figures", FIGURES / "nowhere", "--output",
                               output], check=False, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, output.read_text(encoding="utf-8")), (2, "kept"))
        self.assertIn("holds no tables; analysis/paper.py writes them: ablation, ", done.stderr)

    def test_foreign_tables_leave_the_page_as_it_is(self):
        """One sentence names the file: empty, a header alone, other columns, a row cut short or too long, no UTF-8."""
        folder, output = fresh("foreign_tables"), FIGURES / "kept.md"
        folder.mkdir(parents=True)
        output.write_text("kept", encoding="utf-8")
        for text in (b"", b"system,tp\n", b"a,b\n1,2\n", b"a,b\n1", b"a\n1,2\n", b"\xff\xfe\x00"):
            (folder / "amplifier.csv").write_bytes(text)
            done = subprocess.run([sys.executable, TOP / "analysis/results.py", "--figures", folder, "--output", output],
                                  check=False, stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, output.read_text(encoding="utf-8")), (2, "kept"), done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(str(folder / "amplifier.csv") if text[:1] != b"\xff" else "utf-8", done.stderr)

    def test_a_page_that_lacks_tables_is_not_the_shipped_one(self):
        """It is beside the tables, and says so."""
        folder, shipped = fresh("few_tables"), TOP / "docs/results.md"
        folder.mkdir(parents=True)
        (folder / "lengths.csv").write_bytes((FIGURES / "lengths.csv").read_bytes())
        before = shipped.read_bytes()
        try:
            done = subprocess.run([sys.executable, TOP / "analysis/results.py", "--figures", folder], check=False,
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, shipped.read_bytes() == before), (0, True))
        finally:
            shipped.write_bytes(before)
        self.assertIn(f"{folder / 'results.md'}: says 'not run' of ", done.stderr)
        self.assertIn("not run", (folder / "results.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()

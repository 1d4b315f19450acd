#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests hold `slimsim sensitivity` against runs with the same change made by hand."""
import json
import math
import re
import subprocess
import sys
import unittest

from cli_case import SOURCE
from program import SCRATCH, fresh, point_of, rows, run, write

BASE = """\
name: small
model: llama-7b
device: h800
platform: hopper-2x8
data: {lengths: github, context: 32Ki, global_batch: 48}
iterations: {warm_up: 0, measured: 2}
seed: 7
framework: slimpack-paper
systems:
"""
TENSOR = "  - {name: best-fit, label: tensor, plan: {tp: 8, pp: 1, cp: 1, recompute: norm+activation}}\n"
RING = "  - {name: best-fit, label: ring, plan: {tp: 2, pp: 1, cp: 8, recompute: norm+activation}}\n"
SEARCHED = "  - {name: best-fit, label: searched, plan: auto, plan_space: {tp: 8, pp: [1, 2], recompute: none}}\n"
ERRORS = (SOURCE / "model" / "model_error.yaml").read_text()


def sensitivity(scenario, *arguments):
    done = run("sensitivity", scenario, "--json", "--quiet", "--output", fresh("sensitivity"), *arguments)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return {change["name"]: change for change in json.loads(done.stdout)["changes"]}


def simulate(scenario, *options):
    sets = [word for option in ("engine=critical-path", *options) for word in ("--set", option)]
    done = run("run", scenario, *sets, "--json", "--quiet", "--output", fresh("runs"))
    assert done.returncode == 0, done.stderr
    return {system["label"]: system for system in point_of(done.stdout)["systems"]}


class Sensitivity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write("small.yaml", BASE + TENSOR + RING + SEARCHED)
        cls.changes = sensitivity(cls.path)

    def equals_runs(self, name, *options):
        """Hold a change against runs of the scenario before and after, on the critical path."""
        before, after = simulate(self.path), simulate(self.path, *options)
        for system in self.changes[name]["systems"]:
            old, new = before[system["label"]], after[system["label"]]
            self.assertEqual(system["tokens_per_s_per_gpu"], new["tokens_per_s_per_gpu"])
            self.assertEqual(system["fits"], new["fits"])
            self.assertAlmostEqual(system["gain"], new["tokens_per_s_per_gpu"] / old["tokens_per_s_per_gpu"] - 1, delta=1e-12)
        return {system["label"]: system["gain"] for system in self.changes[name]["systems"]}

    def test_links__are_those_of_runs_by_hand(self):
        """The NIC of hopper has 50 GB/s, and its NVLink 200 GB/s."""
        gains = self.equals_runs("NIC x0.5", "platform.nic=25GBps")
        self.assertLess(gains["ring"], -0.3)
        self.assertGreater(gains["tensor"], -0.1)
        gains = self.equals_runs("NVLink x2", "platform.nvlink=400GBps")
        self.assertGreater(gains["tensor"], 0.2)

    def test_batch_and_framework__are_those_of_runs_by_hand(self):
        self.equals_runs("batch x2", "data.global_batch=96")
        self.equals_runs("framework nemo", "framework=nemo")

    def test_lengths__are_those_of_a_run_by_hand(self):
        self.assertEqual(self.changes["lengths x1.2"]["set"], "data.length_scale=1.2")
        gains = self.equals_runs("lengths x1.2", "data.length_scale=1.2")
        self.assertTrue(any(abs(gain) > 0.001 for gain in gains.values()), gains)
        listed = run("lengths", self.path, "--json"), run("lengths", self.path, "--json", "--set", "data.length_scale=1.2")
        before, after = (json.loads(done.stdout)["document_mean_tokens"] for done in listed)
        self.assertAlmostEqual(after / before, 1.2, delta=1e-9)
        fixed = sensitivity(write("fixed.yaml", BASE.replace("github", "fixed") + TENSOR))
        self.assertNotIn("lengths x1.2", fixed)

    def test_experts__are_those_of_runs_by_hand(self):
        """Mixtral has 8 experts, so no plan has 16 GPUs that share them. A search chooses `ep` by itself."""
        path = write("experts.yaml", BASE.replace("llama-7b", "mixtral-8x7b").replace("github", "fixed").replace("32Ki", "4Ki") +
                     "  - {name: best-fit, label: four, plan: {tp: 2, pp: 2, ep: 4, recompute: full}}\n"
                     "  - {name: best-fit, label: eight, plan: {tp: 2, pp: 2, ep: 8, recompute: full}}\n"
                     "  - {name: best-fit, label: searched, plan: auto, plan_space: {tp: 2, pp: 2, recompute: full}}\n")
        changes = sensitivity(path)
        for name, sets in (("expert imbalance x1.5", "expert_imbalance=1.5"), ("ep x2", "systems.0.plan.ep=8"),
                           ("ep x0.5", "systems.0.plan.ep=2 systems.1.plan.ep=4")):
            self.assertEqual(changes[name]["set"], sets)
            ran = simulate(path, *sets.split())
            self.assertEqual({system["label"]: (system["fits"], system["tokens_per_s_per_gpu"]) for system in changes[name]["systems"]},
                             {label: (system["fits"], system["tokens_per_s_per_gpu"]) for label, system in ran.items()})
        gains = {system["label"]: system["gain"] for system in changes["expert imbalance x1.5"]["systems"]}
        self.assertTrue(all(gain < -0.1 for gain in gains.values()), gains)
        self.assertFalse({"ep x0.5", "ep x2", "expert imbalance x1.5"} & set(self.changes))

    def test_model_error__moves_all_systems_alike(self):
        """No measured run has the framework of the paper, varying lengths or CP 8, so three terms are added."""
        bias, between, deviation = (float(re.search(rf"^{key}: (\S+)$", ERRORS, re.MULTILINE)[1])
                                    for key in ("bias", "between", "deviation"))
        deviation = math.sqrt(deviation ** 2 + 3 * between ** 2)
        for sign in (-1, 1):
            change = self.changes[f"model error {100 * sign * deviation:+.1f}%"]
            self.assertEqual((change["set"], change["winner_changes"]), ("", False))
            for system in change["systems"]:
                self.assertAlmostEqual(system["gain"], sign * deviation, delta=1e-12)
        done = run("sensitivity", self.path, "--quiet", "--output", fresh("text"))
        first = self.changes["as it is"]["systems"][0]
        p5, p95 = (first["tokens_per_s_per_gpu"] / (1 + bias + sign * 1.6448536 * deviation) for sign in (1, -1))
        self.assertRegex(" ".join(done.stdout.split()),
                         rf"model error: mean \{100 * bias:+.1f}%, deviation {100 * deviation:.1f}%, \d+ measured runs of \d+ sources, "
                         rf"wider for varying lengths, framework, cp; it moves all systems alike; {first['label']}: "
                         rf"{p5:,.0f} to {p95:,.0f} tokens/s/GPU \(p5 to p95\)$")

    def test_assignments__make_the_change_in_a_run(self):
        for name in ("attention flash3", "tp_overlap none", "plan_space free", "dp_overlap both"):
            self.equals_runs(name, *self.changes[name]["set"].split())

    def test_memory__is_that_of_a_smaller_device(self):
        """At 90% of its memory, h800 is a file with 0.9 times the bytes."""
        text = (SOURCE / "model" / "gpu" / "h800.yaml").read_text()
        now = re.search(r"^memory_bytes: (\d+)$", text, re.MULTILINE)
        smaller = text.replace(now[0], f"memory_bytes: {0.9 * int(now[1])!r}")
        self.equals_runs("GPU memory -10%", f"device={write('smaller.yaml', smaller)}")

    def test_memory__that_is_more_costs_nothing(self):
        more = self.changes["GPU memory +10%"]["systems"]
        self.assertTrue(more and all(system["gain"] >= 0 for system in more), more)

    def test_order__is_that_of_the_effect_on_the_first_of_the_ranking(self):
        order = list(self.changes.values())
        first = order[0]["systems"][0]
        self.assertEqual((order[0]["name"], first["label"], first["rank"]), ("as it is", order[0]["winner"], 1))
        effects = [abs(change["systems"][0]["gain"]) for change in order[1:]]
        self.assertEqual(effects, sorted(effects, reverse=True))
        rates = [system["tokens_per_s_per_gpu"] for system in order[0]["systems"]]
        self.assertEqual(rates, sorted(rates, reverse=True))

    def test_values__of_the_scenario_are_no_changes(self):
        for name in ("attention flash2", "framework slimpack-paper", "plan_space wide", "dp_overlap none", "cp_overlap true"):
            self.assertNotIn(name, self.changes)
        fixed = sensitivity(write("fixed.yaml", BASE + TENSOR))
        self.assertFalse([name for name in fixed if name.startswith("plan_space")])

    def test_text__fits_a_screen_and_verbose_has_all(self):
        done = run("sensitivity", self.path, "--output", fresh("text"))
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(len(lines), 20, done.stdout)
        self.assertLessEqual(max(map(len, lines)), 100, done.stdout)
        self.assertIn("critical path", lines[0])
        self.assertTrue(any(line.startswith("the winner ties with: NVLink x0.5 (ring), ") for line in lines), done.stdout)
        self.assertEqual(done.stderr.splitlines()[-1], f"written: {SCRATCH / 'text' / 'small.sensitivity.csv'}")
        verbose = run("sensitivity", self.path, "-v", "--output", SCRATCH / "text").stdout
        for name, change in self.changes.items():
            row = next(line for line in verbose.splitlines() if line.startswith(name + " "))
            for system in change["systems"]:
                self.assertIn(f"{system['tokens_per_s_per_gpu']:,.0f}" if name == "as it is" else f"{100 * system['gain']:+.1f}%", row)

    def test_csv__has_a_row_for_each_change_and_system(self):
        run("sensitivity", self.path, "--quiet", "--output", fresh("table"))
        table = rows(SCRATCH / "table" / "small.sensitivity.csv")
        listed = [(name, system["label"], system["tokens_per_s_per_gpu"], system["gain"])
                  for name, change in self.changes.items() for system in change["systems"]]
        self.assertEqual([(row["change"], row["system"], float(row["tokens_per_s_per_gpu"]), float(row["gain"])) for row in table],
                         listed)

    def test_winner__changes_where_another_system_takes_the_first_place(self):
        """Fast links inside a node favour tensor parallelism, and slow ones a pipeline."""
        path = write("turns.yaml", BASE.replace("measured: 2", "measured: 1") + TENSOR +
                     "  - {name: best-fit, label: pipeline, plan: {tp: 1, pp: 4, cp: 4, recompute: full}}\n")
        changes = sensitivity(path)
        turned = {name for name, change in changes.items() if change["winner_changes"]}
        self.assertIn("NVLink x0.5", turned)
        half = simulate(path, "platform.nvlink=100GBps")
        self.assertGreater(half["pipeline"]["tokens_per_s_per_gpu"], half["tensor"]["tokens_per_s_per_gpu"])
        for change in changes.values():
            self.assertEqual(change["winner_changes"], change["winner"] != "tensor")
        done = run("sensitivity", path, "--quiet", "--output", fresh("text"))
        self.assertRegex(done.stdout, r"\nthe winner changes with: (.*, )?NVLink x0.5 \(pipeline\)")
        self.assertRegex(done.stdout, r"\nNVLink x0.5 .*  first: pipeline\n")

    def test_tie__names_who_shares_the_first_place(self):
        """With less memory, and with copies of weights in fp8, both searches are left with TP 8. Equal rates of one iteration tie."""
        space = "pp: 1, cp: [1, 2], recompute: norm+activation, offload: 0, sharding: zero1"
        path = write("tie.yaml", BASE.replace("measured: 2", "measured: 1").replace("seed:", "fits: tight\nseed:") +
                     f"  - {{name: best-fit, label: eight, plan: auto, plan_space: {{tp: 8, {space}}}}}\n"
                     f"  - {{name: best-fit, label: both, plan: auto, plan_space: {{tp: [4, 8], {space}}}}}\n")
        alone = simulate(path)
        self.assertEqual((alone["both"]["tp"], alone["eight"]["tp"]), (4, 8))
        limit = f"memory_limit={1.05 * alone['both']['peak_bytes'] / alone['both']['memory_bytes']:.6f}"
        changes = sensitivity(path, "--set", limit)
        self.assertEqual({name: change["tie"] for name, change in changes.items() if change["tie"] != ""},
                         {"GPU memory -10%": "eight", "precision fp8-tensor": "eight"})
        self.assertEqual([system["rank"] for system in changes["GPU memory -10%"]["systems"]], [1, 1])
        done = run("sensitivity", path, "--set", limit, "--quiet", "--output", fresh("text"))
        self.assertRegex(done.stdout, r"\nGPU memory -10% .*  tie: eight\n")
        self.assertIn("\nthe winner ties with: GPU memory -10% (eight), precision fp8-tensor (eight)\n", done.stdout)
        lead = alone["both"]["tokens_per_s_per_gpu"] / alone["eight"]["tokens_per_s_per_gpu"]
        done = run("sensitivity", path, "--quiet", "--output", fresh("text"))
        self.assertRegex(done.stdout, rf"\nno change alone changes the winner; its lead is {lead:.2f}x, the least 1\.\d\dx with ")

    def test_misfit__changes_the_winner_and_comes_first(self):
        """The memory lies between what the system needs and a tenth less."""
        peak = simulate(write("one.yaml", BASE + TENSOR))["tensor"]
        limit = f"memory_limit={1.05 * peak['peak_bytes'] / self.capacity():.6f}"
        changes = sensitivity(write("one.yaml", BASE + TENSOR), "--set", limit)
        less = list(changes.values())[1]
        smaller = changes["GPU memory -10%"]
        self.assertEqual((smaller["winner"], smaller["winner_changes"], smaller["systems"][0]["gain"]), (None, True, None))
        self.assertFalse(less["systems"][0]["fits"])
        done = run("sensitivity", write("one.yaml", BASE + TENSOR), "--set", limit, "--quiet", "--output", fresh("text"))
        self.assertRegex(done.stdout, r"\nGPU memory -10% +does not fit  first: none\n")

    def capacity(self):
        """The bytes that memory_limit is a share of."""
        ran = simulate(write("one.yaml", BASE + TENSOR), "memory_limit=0.01")["tensor"]
        return 100 * ran["memory_bytes"]

    def test_refusal__comes_last_with_its_reason(self):
        """A NIC has at most 1e15 bytes a second."""
        changes = sensitivity(write("one.yaml", BASE + TENSOR), "--set", "platform.nic=6e14")
        name, last = list(changes.items())[-1]
        self.assertEqual((name, last["systems"], last["winner"], last["winner_changes"]), ("NIC x2", [], None, False))
        self.assertIn("platform.nic: '1200000GBps' is out of range", last["refused"])
        self.assertEqual(sum(change["refused"] is not None for change in changes.values()), 1)

    def test_mistakes__are_named(self):
        done = run("sensitivity", write("none.yaml", BASE + TENSOR.replace("tp: 8", "tp: 3")), "--output", fresh("none"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("none.yaml", done.stderr)
        self.assertFalse((SCRATCH / "none").exists())
        (fresh("foreign")).mkdir()
        (SCRATCH / "foreign" / "small.sensitivity.csv").write_text("mine\n")
        done = run("sensitivity", self.path, "--output", SCRATCH / "foreign")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual((SCRATCH / "foreign" / "small.sensitivity.csv").read_text(), "mine\n")

    def test_picture__is_drawn_of_the_table(self):
        run("sensitivity", self.path, "--quiet", "--output", fresh("table"))
        table = SCRATCH / "table" / "small.sensitivity.csv"
        draw = [sys.executable, SOURCE / "analysis" / "sensitivity.py"]
        pictures = [SCRATCH / "table" / "tornado.png", SCRATCH / "table" / "tornado.svg"]
        done = subprocess.run([*draw, table, "--output", *pictures], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(all(picture.stat().st_size > 1000 for picture in pictures))
        other = write("other.csv", "a,b\n1,2\n")
        done = subprocess.run([*draw, other], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("not a table of slimsim sensitivity", done.stderr)


if __name__ == "__main__":
    unittest.main()

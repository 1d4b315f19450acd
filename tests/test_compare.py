#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests compare two scenarios, and check the gain of each difference against runs with this difference alone."""
import json
import re
import unittest

from program import SCRATCH, fresh, point_of, run, write

BASE = """\
name: small
model: llama-7b
device: h800
platform: {name: hopper-2x8}
data: {lengths: github, context: 32Ki, global_batch: 32}
iterations: {warm_up: 1, measured: 3}
framework: slimpack-paper
"""
BEST_FIT = "  - {name: best-fit, plan: auto, plan_space: {tp: [2, 8], pp: 1, sharding: zero1}}\n"
SLIMPACK = "  - {name: slimpack, plan: {tp: 2, pp: 2, recompute: norm+activation}}\n"
SMALL = BASE + "systems:\n" + BEST_FIT
CHANGES = ("data.context=64Ki", "platform.nic=100Gbps", "memory_limit=0.7")


def compare(*arguments):
    """Keep results in a folder of all tests, since many ask for the same."""
    return run("compare", *arguments, "--output", SCRATCH / "answers")


def compared(*arguments):
    done = compare(*arguments, "--json", "--quiet")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ran(path, *changes):
    """The systems of a run on the critical path, by their labels."""
    settings = [word for change in (*changes, "engine=critical-path") for word in ("--set", change)]
    done = run("run", path, *settings, "--json", "--quiet", "--output", fresh("compared"))
    assert done.returncode == 0, done.stderr
    return {system["label"]: system for system in point_of(done.stdout)["systems"]}


def rate(path, *changes, label="best-fit"):
    return ran(path, *changes)[label]["tokens_per_s_per_gpu"]


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.a = write("a.yaml", SMALL)
        cls.b = write("b.yaml", SMALL.replace("32Ki", "64Ki").replace("hopper-2x8", "hopper-2x8, nic: 100Gbps")
                      .replace("framework", "memory_limit: 0.7\nframework"))

    def test_each_difference_is_that_of_a_run_with_it_alone(self):
        result, base = compared(self.a, self.b), rate(self.a)
        self.assertEqual([one["key"] for one in result["differences"]], ["data.context", "memory_limit", "platform.nic"])
        gains = {one["key"]: one["gain"] for one in result["differences"]}
        for change in CHANGES:
            self.assertEqual(gains[change.split("=")[0]], rate(self.a, change) / base - 1)
        self.assertLess(gains["data.context"], -0.01)
        total = rate(self.a, *CHANGES) / base - 1
        self.assertEqual((result["gain"], result["b"]["tokens_per_s_per_gpu"]), (total, rate(self.b)))
        self.assertAlmostEqual(result["interaction"], total - sum(gains.values()), places=12)

    def test_names_that_were_taken_are_said_once_and_before_an_error(self):
        note = "model: 'llama2-7b-chat' is taken as llama2-7b\n"
        a = write("other_name.yaml", SMALL.replace("llama-7b", "llama2-7b-chat"))
        b = write("fails.yaml", a.read_text().replace("32Ki", "-1"))
        self.assertEqual(compare(a, write("batch.yaml", a.read_text().replace("batch: 32", "batch: 48")), "--quiet").stderr, note)
        for done in (compare(a, b, "--quiet"), run("run", b, "--quiet"), run("run", b, "--quiet", "--sweep", "seed=1,2")):
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, "^" + note + "slimsim: [^']*data.context: '-1'")
            self.assertEqual(done.stderr.count("is taken"), 1)

    def test_results_are_those_of_runs(self):
        result = compared(self.a, self.b)
        for side, path in (("a", self.a), ("b", self.b)):
            system = ran(path)["best-fit"]
            for key in ("tokens_per_s_per_gpu", "mfu", "peak_bytes"):
                self.assertEqual(result[side][key], system[key])
            self.assertEqual(result[side]["time_mean_s"], system["time_mean_s"])

    def test_the_same_scenario_has_no_difference(self):
        done = compare(self.a, self.a)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nothing differs", done.stdout)
        simgrid = write("simgrid.yaml", SMALL + "engine: simgrid\nall_tensor_ranks: true\nsimgrid_cfg: network/TCP-gamma:1e6\n")
        self.assertIn("nothing differs", compare(self.a, simgrid).stdout)
        self.assertIn("nothing differs", compare(self.a, write("path.yaml", SMALL + "engine: critical-path\n")).stdout)
        result = compared(self.a, self.a)
        self.assertEqual((result["differences"], result["gain"], result["interaction"]), ([], 0, 0))

    def test_a_trace_and_a_point_of_a_sweep_are_their_scenarios(self):
        folder = fresh("traced")
        planned = write("planned.yaml", BASE + "systems:\n" + SLIMPACK)
        self.assertEqual(run("run", planned, "--output", folder, "--quiet").returncode, 0)
        self.assertEqual(compared(folder / "small.h5", planned)["differences"], [])
        swept = write("swept.yaml", BASE + "systems:\n" + SLIMPACK + "sweep: {data.global_batch: [32, 48]}\n")
        self.assertEqual(compared(planned, f"{swept}#0")["differences"], [])
        points = fresh("points")
        self.assertEqual(run("run", swept, "--output", points, "--quiet").returncode, 0)
        for point in (f"{swept}#1", f"{points / 'small.h5'}#1"):
            one, = compared(folder / "small.h5", point)["differences"]
            self.assertEqual((one["key"], one["a"], one["b"]), ("data.global_batch", "32", "48"))
        for file, text in ((points, "there is no point 2; allowed: 0 to 1"), (folder, "no file of a sweep, so it has no point 2")):
            done = compare(planned, f"{file / 'small.h5'}#2")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(text, done.stderr)

    def test_another_winner_is_one_difference_with_its_interval(self):
        a, b = write("one.yaml", SMALL), write("other.yaml", BASE + "systems:\n" + SLIMPACK)
        both = ran(write("both.yaml", SMALL + SLIMPACK))["slimpack"]
        result = compared(a, b)
        one, = result["differences"]
        self.assertEqual((one["key"], one["a"], one["b"]), ("system", "best-fit", "slimpack"))
        self.assertAlmostEqual(1 + one["gain"], both["speed_up"], places=12)
        self.assertAlmostEqual(result["interval"], both["speed_up_interval"], places=12)
        self.assertIsNone(compared(self.a, self.b)["interval"])  # other batches

    def test_systems_pair_by_label_and_one_can_be_asked_for(self):
        a, b = write("a2.yaml", SMALL + SLIMPACK), write("b2.yaml", SMALL.replace("32Ki", "64Ki") + SLIMPACK)
        result, before, after = compared(a, b, "--system", "slimpack"), ran(a), ran(b)
        self.assertEqual((result["a"]["system"], result["b"]["system"]), ("slimpack", "slimpack"))
        self.assertEqual({pair["label"]: pair["gain"] for pair in result["pairs"]},
                         {label: after[label]["tokens_per_s_per_gpu"] / before[label]["tokens_per_s_per_gpu"] - 1 for label in before})

    def test_platforms_are_compared_key_by_key(self):
        platform = "platform: {nodes: 2, gpus_per_node: 8, nic: 25GB/s"
        a = write("plain.yaml", (BASE + "systems:\n" + SLIMPACK).replace("platform: {name: hopper-2x8", platform))
        b = write("rail.yaml", a.read_text().replace("25GB/s", "25GB/s, topology: rail, leaf: 4"))
        self.assertEqual([(one["key"], one["a"], one["b"]) for one in compared(a, b)["differences"]],
                         [("platform.leaf", "32", "4"), ("platform.topology", "fat-tree", "rail")])
        named, = compared(a, write("named.yaml", BASE + "systems:\n" + SLIMPACK))["differences"]
        self.assertEqual((named["key"], named["a"], named["b"]), ("platform", "nic: 2.5e+10", "name: hopper, nic: 5e+10"))

    def test_attention_that_nobody_chose_follows_the_device(self):
        text = SMALL.replace("slimpack-paper", "megatron-core").replace("h800", "h100-sxm")
        a, b = write("hopper.yaml", text), write("blackwell.yaml", text.replace("h100-sxm", "b200"))
        result = compared(a, b)
        device, = result["differences"]
        self.assertEqual((device["key"], device["gain"]), ("device", result["gain"]))
        self.assertEqual(result["b"]["tokens_per_s_per_gpu"], rate(b))
        chosen = compared(a, write("chosen.yaml", text + "attention: flash2\n"))["differences"]
        self.assertEqual([(one["key"], one["a"], one["b"]) for one in chosen], [("attention", "flash3", "flash2")])

    def test_what_cannot_change_alone_is_said(self):
        a = write("wide.yaml", BASE + "systems:\n  - {name: best-fit, plan: {tp: 2, pp: 8}}\n")
        b = write("narrow.yaml", BASE.replace("2x8", "1x8") + "systems:\n  - {name: best-fit, plan: {tp: 2, pp: 4}}\n")
        result = compared(a, b)
        nodes, plan = result["differences"]
        self.assertEqual((nodes["key"], plan["key"]), ("platform.nodes", "plan"))
        self.assertIn("plan", nodes["refused"])
        self.assertEqual((plan["a"], plan["b"]), ("pp 8", "pp 4"))
        self.assertAlmostEqual(result["interaction"], result["gain"] - plan["gain"], places=12)
        shown = compare(a, b).stdout
        self.assertLessEqual(max(map(len, shown.splitlines())), 100)
        self.assertIn("refused  platform.nodes: 2 -> 1; " + nodes["refused"], re.sub("\n +", " ", shown))
        self.assertNotIn(nodes["refused"], shown)  # it takes more than one line

    def test_what_does_not_fit_shows_no_throughput(self):
        text = BASE + "systems:\n  - {name: best-fit, plan: {tp: 2, pp: 1}}\n"
        a, b = write("fits.yaml", text), write("large.yaml", text + "memory_limit: 0.1\n")
        done = compare(a, b)
        self.assertRegex(done.stdout, "B best-fit +- .*does not fit; TP2 DP8")
        self.assertNotIn("by the model's error", done.stdout)
        self.assertIn(" if memory did not matter; 1 difference:", done.stdout)
        self.assertRegex(done.stdout, "memory_limit: 1 -> 0.1; does not fit")
        one, = compared(a, b)["differences"]
        self.assertFalse(one["fits"])

    def test_many_differences_fit_a_screen(self):
        other = write("many.yaml", "seed: 3\nmemory_limit: 0.8\n" + SMALL.replace("slimpack-paper", "megatron-core").replace("32Ki", "24Ki").replace("h800", "h100-sxm")
                      .replace("global_batch: 32", "global_batch: 24").replace("hopper-2x8", "hopper-2x8, nic: 100Gbps, nvlink: 300GB/s")
                      + SLIMPACK)
        done = compare(self.a, other, "--system", "best-fit")
        lines = done.stdout.splitlines()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(len(lines), 20, done.stdout)
        self.assertLessEqual(max(map(len, lines)), 100, done.stdout)
        self.assertEqual(sum(" -> " in line for line in lines), 8, done.stdout)
        self.assertGreater(len(compared(self.a, other, "--system", "best-fit")["differences"]), 8)
        self.assertIn("8 largest", done.stdout)

    def test_ranges_are_those_of_the_models_error(self):
        """measured = predicted / (1 + error), with the percentiles 1.645 deviations from the bias."""
        result, text = compared(self.a, self.b), " ".join(compare(self.a, self.b).stdout.split())
        for side in (result["a"], result["b"]):
            error = side["model_error"]
            for key, sign in (("p5", 1), ("p95", -1)):
                measured = side["tokens_per_s_per_gpu"] / (1 + error["bias"] + sign * 1.6448536 * error["deviation"])
                self.assertAlmostEqual(side["model_interval"][key] / measured, 1, places=6)
        a, b = ("{p5:,.0f} to {p95:,.0f}".format(**result[side]["model_interval"]) for side in "ab")
        wider = ", ".join(result["a"]["model_error"]["wider"])
        self.assertEqual(wider, "varying lengths, framework, cp")
        self.assertIn(f"tokens/s/GPU by the model's error, p5 to p95: A {a} (wider for {wider}); B {b} (wider for {wider}) all", text)

    def test_mistakes_are_named(self):
        swept = write("points.yaml", SMALL + "sweep: {seed: [1, 2]}\n")
        for arguments, status, text in (
                ((self.a,), 64, "two scenarios, traces or points of a sweep are needed"),
                ((self.a, self.b, self.a), 64, "only two are compared"),
                ((self.a, swept), 2, "#0 names the first"),
                ((self.a, f"{swept}#2"), 2, "there is no point 2; allowed: 0 to 1"),
                ((self.a, f"{self.b}#0"), 2, "has no `sweep:`"),
                ((self.a, self.b, "--system", "wlb-llm"), 2, "has no system 'wlb-llm'")):
            done = compare(*arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()

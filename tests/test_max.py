#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests ask for the largest values that fit, and compare them with runs at these values."""
import json
import unittest

from program import SCRATCH, fresh, point_of, run, write

SYSTEMS = """\
systems:
  - {name: best-fit, plan: auto, plan_space: {tp: [2, 8], pp: 1, sharding: zero1}}
  - {name: best-fit, label: planned, plan: {tp: 2, pp: 2, cp: 4}}
"""
BASE = """\
name: small
model: llama-7b
device: h800
platform: hopper-2x8
data: {lengths: fixed, context: 32Ki, global_batch: 16}
iterations: {warm_up: 0, measured: 2}
framework: slimpack-paper
memory_limit: 0.5
fits: tight
"""
SMALL = BASE + SYSTEMS


def ask(*arguments):
    """Keep results in a folder of all tests, since many ask for the same."""
    return run("max", *arguments, "--output", SCRATCH / "answers")


class Max(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write("small.yaml", SMALL)
        done = ask("data.context", cls.path, "--to", "4Mi", "--json")
        assert done.returncode == 0, done.stderr
        cls.json_text, cls.result = done.stdout, json.loads(done.stdout)

    def ran(self, value):
        """The systems of a run at a context."""
        done = run("run", self.path, "--set", f"data.context={value}", "--set", "engine=critical-path", "--json", "--quiet",
                   "--output", fresh("runs"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return {system["label"]: system for system in point_of(done.stdout)["systems"]}

    def test_runs_fit_at_the_largest_value_and_not_above(self):
        for system in self.result["systems"]:
            label, trials = system["label"], {trial["value"]: trial for trial in system["trials"]}
            self.assertLess(system["largest"], 4 << 20)
            fitting, above = self.ran(system["largest"])[label], self.ran(system["next"])[label]
            self.assertTrue(fitting["fits"])
            self.assertFalse(above["fits"])
            for found, ran in ((trials[system["largest"]], fitting), (trials[system["next"]], above)):
                self.assertEqual(found["peak_bytes"], ran["peak_bytes"])
                self.assertEqual(found["tokens_per_s_per_gpu"], ran["tokens_per_s_per_gpu"])
                self.assertEqual(found["plan_text"], ran["plan_text"])
            self.assertEqual((above["peak_stage"], above["peak_class"]),
                             (trials[system["next"]]["peak_stage"], trials[system["next"]]["peak_class"]))

    def test_neighbours_above_are_tried_and_no_value_twice(self):
        for system in self.result["systems"]:
            values = [trial["value"] for trial in system["trials"]]
            self.assertEqual(len(values), len(set(values)))
            above = sorted(value for value in values if value > system["largest"])[:4]
            self.assertEqual(above[0], system["next"])
            step = system["next"] - system["largest"]
            self.assertEqual(len(above), 4)
            self.assertLessEqual(max(above), system["largest"] + 8 * step)
            self.assertEqual([trial["fits"] for trial in system["trials"] if trial["value"] in above], [False] * 4)
        self.assertEqual(self.result["n_trials"], sum(len(system["trials"]) for system in self.result["systems"]))

    def test_the_answer_does_not_depend_on_threads_and_fills_a_screen_at_most(self):
        self.assertEqual(ask("data.context", self.path, "--to", "4Mi", "--json").stdout, self.json_text)
        done = ask("data.context", self.path, "--to", "4Mi", "--quiet")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for system in self.result["systems"]:
            trials = {trial["value"]: trial for trial in system["trials"]}
            row = next(line for line in done.stdout.splitlines() if line.startswith(system["label"] + " "))
            self.assertIn(f" {system['largest']:,} ", row)
            self.assertIn(f" {trials[system['largest']]['peak_bytes'] / 2**30:.1f} ", row)
            stop = trials[system["next"]]
            self.assertRegex(done.stdout, rf"{system['label']} at {system['next']:,}: stage {stop['peak_stage']} needs "
                             rf"{stop['peak_bytes'] / 2**30:.1f} of [0-9.]+ GiB, mostly {stop['peak_class']}")
        self.assertIn(f"{self.result['n_trials']} values tried", done.stdout)

    def test_a_value_fits_surely_or_tightly(self):
        """The largest value whose peak leaves room for the allocator's reserve, and the largest whose peak is in the memory.
        `fits: tight` finds the latter."""
        done = ask("data.context", self.path, "--to", "4Mi", "--json", "--set", "fits=sure", "--set", "systems=[{name: best-fit, plan: {tp: 2, pp: 2, cp: 4}}]")
        (system,) = json.loads(done.stdout)["systems"]
        trials = {trial["value"]: trial for trial in system["trials"]}
        surely, tightly = trials[system["largest"]], trials[system["largest_tight"]]
        self.assertLess(system["largest"], system["largest_tight"])
        self.assertLessEqual(1.163 * surely["peak_bytes"], surely["memory_bytes"] + 1)
        self.assertGreater(1.163 * tightly["peak_bytes"], tightly["memory_bytes"])
        self.assertLessEqual(tightly["peak_bytes"], tightly["memory_bytes"])
        self.assertEqual([(trial["fits"], trial["tight"]) for trial in (surely, tightly)], [(True, False), (True, True)])
        (of_all,) = [one for one in self.result["systems"] if one["label"] == "planned"]
        self.assertEqual((of_all["largest"], of_all["largest_tight"]), (system["largest_tight"], system["largest_tight"]))

    def test_many_systems_fit_a_screen(self):
        for n in (7, 8, 9, 11):
            entries = "".join(f"  - {{name: best-fit, label: megatron-dynamic-{i}, plan: {{tp: 8, pp: 1, cp: 2}}}}\n" for i in range(n))
            done = ask("data.context", write("many.yaml", BASE + "systems:\n" + entries), "--to", "256Ki")
            lines = done.stdout.splitlines()
            self.assertLessEqual(len(lines), 20, done.stdout)
            self.assertLessEqual(max(map(len, lines)), 100, done.stdout)
            self.assertNotIn("…", done.stdout)
            self.assertEqual(done.stdout.count("activations"), min(n, 9), done.stdout)
            self.assertEqual("and 2 more systems (--json)" in lines, n == 11)

    def test_a_batch_is_a_whole_number_up_to_the_limit(self):
        done = ask("data.global_batch", self.path, "--to", "21", "--set", "data.context=4Ki", "--json")
        for system in json.loads(done.stdout)["systems"]:
            self.assertEqual((system["largest"], system["next"]), (21, None))
            self.assertEqual([trial["value"] for trial in system["trials"]], [16, 21])
        done = ask("data.global_batch", self.path, "--to", "21", "--set", "data.context=4Ki")
        self.assertIn("planned: it fits up to the limit of --to", done.stdout)

    def test_the_first_of_eight_stages_holds_as_many_micro_batches_as_memory_takes(self):
        """A micro-batch is a document. With 1F1B the first stage holds all of them up to 8, each with the same bytes."""
        settings = ("--set", "data.context=16Ki", "--set", "engine=critical-path", "--set",
                    "systems=[{name: best-fit, plan: {tp: 2, pp: 8}}]")
        ran = {}
        for batch in (2, 3, 8):
            done = run("run", self.path, *settings, "--set", f"data.global_batch={batch}", "--json", "--quiet", "--output", fresh("runs"))
            ran[batch] = point_of(done.stdout)["systems"][0]
        two, each = ran[2]["peak_bytes"], ran[3]["peak_bytes"] - ran[2]["peak_bytes"]
        self.assertAlmostEqual(ran[8]["peak_bytes"], two + 6 * each, delta=1)
        held = 2 + int((ran[8]["memory_bytes"] - two) / each)
        done = ask("data.global_batch", self.path, "--to", "64", *settings, "--json")
        system = json.loads(done.stdout)["systems"][0]
        self.assertEqual((system["largest"], system["next"]), (held, held + 1))
        self.assertEqual(held, 7)

    def test_what_never_fits_is_said_with_its_reason(self):
        done = ask("data.context", self.path, "--to", "64Ki", "--set", "model=llama-70b", "--set", "systems.0.plan_space.tp=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "planned +none +none +- +- +-\n")
        self.assertRegex(done.stdout, r"planned at 1,024: stage \d needs [0-9.]+ of [0-9.]+ GiB, mostly\s+weights, gradients and")

    def test_a_longer_context_than_any_document_is_said(self):
        lengths = write("lengths.txt", "3000\n5000\n")
        done = ask("data.context", self.path, "--to", "64Ki", "--set", f"data.lengths={lengths}")
        self.assertIn("no sample of its iterations is longer than 5,000", done.stdout)

    def test_a_value_that_is_refused_stops_too(self):
        done = ask("data.context", self.path, "--to", "64Mi", "--set", "memory_limit=1", "--set",
                   "systems=[{name: slimpack, plan: {tp: 8, pp: 1, recompute: full, sharding: zero3}}]", "--set",
                   "data={lengths: github, context: 4Mi, global_batch: 1}", "--json")
        system = json.loads(done.stdout)["systems"][0]
        trials = {trial["value"]: trial for trial in system["trials"]}
        self.assertEqual((system["largest"], system["next"]), (8 << 20, 10 << 20))
        self.assertIn("data.context", trials[10 << 20]["refused"])

    def test_mistakes_are_named(self):
        for arguments, status, text in (
                (("model.layers", self.path, "--to", "80"), 2, "'model.layers' is no key that can be searched; allowed: data.context"),
                (("data.global_batch", self.path, "--to", "80", "--set", "data={lengths: github, context: 8Ki, global_batch_tokens: 1Mi}"),
                 2, "data.global_batch_tokens"),
                (("data.context", self.path), 64, "--to is missing"),
                (("data.context", self.path, "--to", "1.5"), 64, "'1.5' is not a whole number"),
                (("data.context",), 64, "a scenario is missing"),
                (("data.context", write("swept.yaml", SMALL + "sweep: {seed: [1, 2]}\n"), "--to", "64Ki"), 2, "sweep: is allowed only")):
            done = ask(*arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests ask `slimsim capacity` about trainings of two phases, and about each phase alone."""
import json
import math
import re
import unittest

from program import fresh, run, write

BASE = """\
name: phases
model: llama3.2-1b
device: h100-sxm
platform: h100
data: {lengths: github, context: 4Ki, global_batch: 64}
iterations: {warm_up: 0, measured: 8}
engine: critical-path
plan_space: {tp: [1, 2], pp: [1, 2], cp: [1, 2], recompute: [none, full], offload: 0}
reliability: {name: llama3, load: 60, spares: 1, checkpoint: {interval: 3600, blocked: 10, storage_bandwidth: 1e18}}
price: {usd_per_gpu_hour: 2, usd_per_kwh: 0.1, pue: 1.2}
systems:
  - {name: best-fit, plan: auto}
"""
SHORT, LONG = {"tokens": 4e11}, {"tokens": 5e10, "context": "64Ki", "lengths": "wikipedia", "batch": "2Mi"}
OFFERS = "[{name: h100, nodes: {from: 2, to: 2}}]"
TOKENS = (SHORT["tokens"], LONG["tokens"])


def ask(text, *arguments, status=0):
    done = run("capacity", write("phases.yaml", text), "--quiet", "--output", fresh("phases"), *arguments)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done


def phased(text=BASE, more=""):
    return f"{text}capacity:\n  days: 1000\n  phases: {json.dumps([SHORT, LONG])}\n  offers: {OFFERS}\n{more}"


def alone():
    """The answers of both phases, each as a training of its own, on the same nodes."""
    long = BASE.replace("lengths: github, context: 4Ki, global_batch: 64", "lengths: wikipedia, context: 64Ki, global_batch_tokens: 2Mi")
    questions = [f"{text}capacity: {{tokens: {tokens}, days: 1000, offers: {OFFERS}}}\n" for text, tokens in zip((BASE, long), TOKENS)]
    return [json.loads(ask(question, "--json").stdout)["answer"] for question in questions]


class Phases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = ask(phased()).stdout
        cls.both = json.loads(ask(phased(), "--json").stdout)
        cls.alone = alone()

    def test_days_money_and_energy__are_sums_of_the_phases_alone(self):
        answer = self.both["answer"]
        self.assertEqual(self.both["tokens"], sum(TOKENS))
        for key in ("days", "usd", "mwh", "gpu_hours"):
            self.assertAlmostEqual(answer[key] / sum(phase[key] for phase in self.alone), 1, delta=1e-12)
        self.assertEqual(len(answer["phases"]), 2)
        for phase, single, tokens in zip(answer["phases"], self.alone, TOKENS):
            self.assertEqual((phase["tokens"], phase["plan_text"]), (tokens, single["plan_text"]))
            for key in ("days", "usd", "mwh", "tokens_per_s_per_gpu"):
                self.assertAlmostEqual(phase[key] / single[key], 1, delta=1e-12)
        # The rate is that of all tokens in the time of all phases, and batches of phases vary on their own.
        time = [tokens / single["tokens_per_s_per_gpu"] for tokens, single in zip(TOKENS, self.alone)]
        self.assertAlmostEqual(answer["tokens_per_s_per_gpu"] / (sum(TOKENS) / sum(time)), 1, delta=1e-12)
        spread = [part * single["tokens_per_s_per_gpu_interval"] / single["tokens_per_s_per_gpu"] for part, single in zip(time, self.alone)]
        self.assertAlmostEqual(answer["tokens_per_s_per_gpu_interval"] / answer["tokens_per_s_per_gpu"],
                               (spread[0] ** 2 + spread[1] ** 2) ** 0.5 / sum(time), delta=1e-12)

    def test_limits__are_of_the_sum(self):
        days = self.both["answer"]["days"]
        for limit, met in ((0.999 * days, False), (1.001 * days, True)):
            got = json.loads(ask(phased(), "--json", "--set", f"capacity.days={limit}").stdout)
            self.assertEqual(got["met"], met)

    def test_verdict__has_a_line_for_each_phase_and_the_sum(self):
        lines = self.text.splitlines()
        self.assertEqual(lines[0] + lines[1], "phases: train llama3.2-1b on 400G tokens of github up to 4,096, then 50.0G tokens of wikipedia up to"
                         "  65,536, in 1000 days at most")
        found = [re.match(r"phase (\d), .*: ([0-9.]+) days, \$", line) for line in lines]
        days = [float(match[2]) for match in found if match]
        self.assertEqual([match[1] for match in found if match], ["1", "2"])
        for shown, single in zip(days, self.alone):
            self.assertAlmostEqual(shown / single["days"], 1, delta=5e-3)
        (together,) = [re.match(r"the phases of the cheapest together: ([0-9.]+) days, \$", line) for line in lines if line.startswith("the phases")]
        self.assertAlmostEqual(float(together[1]) / self.both["answer"]["days"], 1, delta=5e-3)

    def test_one_phase__is_the_training_itself(self):
        one = json.loads(ask(f"{BASE}capacity: {{days: 1000, phases: [{{tokens: 4e11}}], offers: {OFFERS}}}\n", "--json").stdout)["answer"]
        for key in ("days", "usd", "plan_text", "tokens_per_s_per_gpu"):
            self.assertEqual(one[key], self.alone[0][key])

    def test_one_plan__is_the_plan_of_a_phase_with_the_least_sum(self):
        """Each phase's plan runs both phases as scenarios of their own. The one with fewer days is the answer."""
        one = json.loads(ask(phased().replace("  days: 1000\n", "  days: 1000\n  one_plan: true\n"), "--json").stdout)["answer"]
        self.assertEqual(one["phases"][0]["plan_text"], one["phases"][1]["plan_text"])
        self.assertEqual(one["plan_text"], one["phases"][0]["plan_text"])
        self.assertIn(one["plan_text"], [phase["plan_text"] for phase in self.alone])
        self.assertNotEqual(self.alone[0]["plan_text"], self.alone[1]["plan_text"])
        days = []
        for single in self.alone:
            plan = {key: single[key] for key in ("tp", "pp", "cp", "dp", "vpp", "sharding", "recompute", "offload")}
            text = BASE.replace("plan: auto", f"plan: {json.dumps(plan)}").replace("plan_space", "# plan_space")
            done = run("capacity", write("phases.yaml", phased(text)), "--quiet", "--json", "--output", fresh("phases"))
            got = json.loads(done.stdout)["answer"] if done.returncode == 0 else None
            days.append(got["days"] if got is not None and got["fits"] else math.inf)
        self.assertAlmostEqual(one["days"] / min(days), 1, delta=1e-12)
        self.assertGreaterEqual(one["days"], self.both["answer"]["days"])

    def test_simgrid__runs_each_phase(self):
        got = json.loads(ask(phased(BASE.replace("critical-path", "simgrid")), "--json").stdout)
        self.assertAlmostEqual(got["answer"]["days"], sum(phase["days"] for phase in got["answer"]["phases"]), delta=1e-9)
        self.assertGreaterEqual(got["contention"], -1e-9)

    def test_mistakes__are_one_sentence(self):
        for phases, said in (
            ("tokens: 1e12, phases: [{tokens: 1e12}]", "capacity.tokens: the phases have tokens of their own, so leave it out"),
            ("tokens: 1e12, one_plan: true", "capacity.one_plan: there are no `phases:` that could have one plan; leave it out"),
            ("phases: []", "capacity.phases: expected a list such as [{tokens: 1.8e12, context: 4Ki}"),
            ("phases: [{context: 4Ki}]", "tokens: is required"),
            ("phases: [{tokens: 1e12, context: 99}, {tokens: 1e12, plan: auto}]", "plan: unknown key"),
            ("phases: [{tokens: 1e12, context: 9X}]", "9X"),
            (f"phases: [{', '.join(['{tokens: 1}'] * 9)}]", "capacity.phases: at most 8 are allowed"),
        ):
            done = ask(f"{BASE}capacity: {{days: 9, {phases}, offers: {OFFERS}}}\n", status=2)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()

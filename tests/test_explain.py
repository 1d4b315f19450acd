#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests hold `slimsim explain` against runs: its steps against results, its gains against changed scenarios."""
import json
import os
import re
import subprocess
import sys
import unittest

import h5py

from cli_case import SOURCE
from program import PROGRAM, SCRATCH, SMALL, fresh, point_of, run, write

sys.path.insert(0, str(SOURCE / "analysis"))
import common  # noqa: E402,F401  after the path: it knows where the package is
from slimsim.plot import waterfall as figures  # noqa: E402

PLANS = {  # of systems that do not take {tp: 2, pp: 2, recompute: norm+activation}
    "best-fit": "{tp: 2, pp: 2, cp: 2, recompute: full}",
    "flexsp": "{tp: 1, pp: 1, cp_type: ulysses, sharding: zero3, recompute: full}",
    "hotspa": "{tp: 4, pp: 2, recompute: full}",
    "odc": "{tp: 1, pp: 1, sharding: zero3, shard_communication: on-demand, recompute: full}",
}
OPTIONS = {  # what each kind of run sets
    "path": ("engine=critical-path",),
    "contention": ("engine=both",),
    "faults": ("engine=both", "faults=[{kind: gpu, gpus: [3], factor: 1.5}, {kind: nic, nodes: [1], factor: 3}]"),
    "tensor ranks": ("engine=critical-path", "all_tensor_ranks=true"),
    "fp8": ("engine=critical-path", "precision=fp8-tensor"),
    "tuned": ("engine=critical-path", "framework=megatron-core"),
}


def call(verb, scenario, options, *arguments):
    sets = [word for option in options for word in ("--set", option)]
    output = () if "--output" in arguments else ("--output", fresh("answer"))
    done = run(verb, scenario, *sets, *output, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def explain(scenario, *options, arguments=("-v",)):
    """Explain systems, by label."""
    return {system["label"]: system for system in json.loads(call("explain", scenario, options, "--json", *arguments))["systems"]}


def simulate(scenario, *options):
    text = call("run", scenario, options, "--json", "--quiet", "--output", fresh("explain"))
    return {system["label"]: system for system in point_of(text)["systems"]}


def shares(system):
    return {step["key"]: step["share"] for step in system["waterfall"]}


def scenario_of(name, entries):
    lines = "".join(f"  - {entry}\n" for entry in entries)
    return write(f"{name}.yaml", SMALL[:SMALL.index("systems:")] + "systems:\n" + lines)


def all_systems(without=()):
    names = re.findall(r"(?m)^(\S+): ", run("list", "systems").stdout)
    return scenario_of("all", [f"{{name: {name}, plan: {PLANS.get(name, '{tp: 2, pp: 2, recompute: norm+activation}')}}}"
                               for name in names if name not in without])


class Explain(unittest.TestCase):
    def check_steps(self, system, ran):
        share = shares(system)
        self.assertAlmostEqual(sum(share.values()), 1, delta=1e-9)
        above = share.pop("fp8_above_bf16_peak")  # 0 in bf16
        self.assertLess(above, 1e-9)
        self.assertEqual(above < 0, share["casts"] > 0)
        self.assertGreater(min(share.values()), -1e-9, share)
        for key, metric in (("tensor_collectives", "tensor"), ("context", "ring"), ("shard_collectives", "shard"),
                            ("warm_up", "warm_up"), ("imbalance", "imbalance"), ("cool_down", "cool_down"),
                            ("waiting", "dp_wait"), ("gradients_parameters", "sync"), ("resharding", "reshard")):
            self.assertAlmostEqual(share[key], ran[f"{metric}_s"] / ran["total_s"], delta=1e-9, msg=key)
        self.assertAlmostEqual(share["mfu"], ran["mfu"], delta=1e-9)
        self.assertLess(ran["mfu"] + share["uncounted_flop"] + above, ran["hfu"] + 1e-9)  # the rest is repeated or padding
        path = system["critical_path_s"]
        self.assertAlmostEqual(sum(path.values()), ran["critical_path_mean_s"], delta=1e-9 * ran["critical_path_mean_s"])
        self.assertGreater(min(path.values()), -1e-9, path)
        self.assertGreater(min(system["gain_if_free"].values()), -0.02, system["gain_if_free"])

    def test_steps__sum_to_the_peak_for_every_system_and_engine(self):
        for name, options in OPTIONS.items():
            without = ("flexsp", "hotspa") if name == "faults" else ()
            scenario = all_systems(without)
            explained, ran = explain(scenario, *options), simulate(scenario, *options)
            self.assertEqual(set(explained), set(ran))
            for label, system in explained.items():
                with self.subTest(options=name, system=label):
                    self.check_steps(system, ran[label])

    def test_gains__equal_runs_with_endless_links(self):
        """The platform's keys make a link so fast that its transfers take their latencies only."""
        scenario = scenario_of("links", ["{name: best-fit, plan: {tp: 2, pp: 2, cp: 4}}",
                                         "{name: best-fit, label: offload, plan: {tp: 2, pp: 4, cp: 2, offload: 1}}",
                                         "{name: best-fit, label: zero3, plan: {tp: 2, pp: 1, cp: 2, sharding: zero3}}"])
        explained, before = explain(scenario, "framework=megatron-core"), simulate(scenario, "framework=megatron-core")
        for key, label in (("nic", "best-fit"), ("nvlink", "best-fit"), ("pcie", "offload"), ("nic", "zero3")):
            with self.subTest(key, system=label):
                after = simulate(scenario, "framework=megatron-core", f"platform.{key}=1e15")
                gain = before[label]["critical_path_mean_s"] / after[label]["critical_path_mean_s"] - 1
                self.assertGreater(gain, 0.001)
                self.assertAlmostEqual(explained[label]["gain_if_free"][key], gain, delta=1e-4)
        self.assertEqual(explained["best-fit"]["gain_if_free"]["pcie"], 0)

    def test_gain__of_padding_is_a_run_that_pads_no_document(self):
        """Both systems have one random order, so without its padding one is the other."""
        plan = "plan: {tp: 2, pp: 2}, knobs: {micro_batch: 3}"
        scenario = scenario_of("random", [f"{{name: padded, {plan}}}", f"{{name: padding-free, {plan}}}"])
        explained, ran = explain(scenario, "engine=critical-path"), simulate(scenario, "engine=critical-path")
        gain = ran["padded"]["critical_path_mean_s"] / ran["padding-free"]["critical_path_mean_s"] - 1
        self.assertGreater(gain, 0.1)
        self.assertAlmostEqual(explained["padded"]["gain_if_free"]["padding"], gain, delta=1e-9)
        rate = [ran[label]["tokens_per_s"] for label in ("padding-free", "padded")]
        self.assertAlmostEqual(rate[0] / rate[1], 1 + gain, delta=1e-9)  # only real tokens count

    def test_gain__of_latency_equals_a_device_without_it(self):
        """The plan of best-fit does not depend on the device."""
        scenario = write("small.yaml", SMALL)
        device = (SOURCE / "model" / "gpu" / "h800.yaml").read_text()
        device = write("prompt.yaml", re.sub(r"\b((?:latency|step|hop|start|nvlink|nic)_s): [\d.e-]+", r"\1: 0", device))
        before, after = simulate(scenario)["best-fit"], simulate(scenario, f"device={device}")["best-fit"]
        gain = before["critical_path_mean_s"] / after["critical_path_mean_s"] - 1
        self.assertGreater(gain, 0.001)
        self.assertAlmostEqual(explain(scenario)["best-fit"]["gain_if_free"]["latency"], gain, delta=1e-9)

    def test_critical_path__counts_the_hosts_step_as_the_optimizer(self):
        """The CPUs' Adam of llama-7b takes longer than its copies, and PCIe at zero gains no more than the copies."""
        path = write("host.yaml", SMALL)
        options = ("engine=critical-path", "systems.0.plan.optimizer_offload=1")
        plain, moved = (explain(path, *sets, arguments=("--system", "best-fit"))["best-fit"] for sets in (options[:1], options))
        seconds, before = moved["critical_path_s"], plain["critical_path_s"]
        self.assertGreater(seconds["optimizer"], before["optimizer"] + seconds["host copies"])
        self.assertLess(moved["gain_if_free"]["pcie"], seconds["host copies"] / (moved["critical_path_mean_s"] - seconds["host copies"]) + 1e-9)

    def test_gain__of_recomputation_equals_the_same_plan_without_it(self):
        scenario = scenario_of("again", ["{name: best-fit, plan: {tp: 2, pp: 2, cp: 2, recompute: full}}"])
        (system,) = explain(scenario).values()
        (before,), (after,) = (simulate(scenario, f"systems.0.plan.recompute={of}").values() for of in ("full", "none"))
        gain = before["critical_path_mean_s"] / after["critical_path_mean_s"] - 1
        self.assertGreater(gain, 0.1)
        self.assertAlmostEqual(system["gain_if_free"]["recomputation"], gain, delta=1e-9)
        again = explain(scenario, "systems.0.plan.recompute=none")["best-fit"]
        self.assertEqual(shares(again)["recomputation"], 0)
        share, time_s = shares(system), (before["time_mean_s"], after["time_mean_s"])
        for key in ("gemms_below_peak", "attention_below_peak", "padding"):  # the same seconds in less time
            self.assertAlmostEqual(share[key] * time_s[0], shares(again)[key] * time_s[1], delta=1e-9, msg=key)

    def test_gain__of_padding_equals_bins_that_documents_fill(self):
        """best-fit pads each bin to the context. A context of 2000 tokens holds two documents of 1000, and so does one of
        2900 with 900 tokens of padding. The plans are the same but for these tokens."""
        for cp in (1, 2):
            with self.subTest(cp=cp):
                scenario = scenario_of("padded", [f"{{name: best-fit, plan: {{tp: 2, pp: 2, cp: {cp}, recompute: full}}}}"])
                options = "data={lengths: 1000, context: %d, global_batch: 64}"
                (system,), (full,) = (explain(scenario, options % context).values() for context in (2900, 2000))
                gain = system["critical_path_mean_s"] / full["critical_path_mean_s"] - 1
                self.assertGreater(gain, 0.1)
                self.assertAlmostEqual(system["gain_if_free"]["padding"], gain, delta=1e-9)
                self.assertGreater(shares(system)["padding"], 0.05)
                self.assertEqual((full["gain_if_free"]["padding"], shares(full)["padding"]), (0, 0))

    def test_gain__of_padding_equals_bins_without_it(self):
        """Three documents fill three bins of four ranks, so the last rank has a bin of padding only. `pad: false` has
        no such bin. Documents of 2000 tokens fill their bins. Three ranks have no padding, so by hand the passes gain
        nothing. The padded rank has no attention and hides 0.5% less of the gathers. Documents of 1500 leave 500 tokens of
        padding in each bin, a quarter."""
        plan = "{tp: 2, pp: 1, cp: 2, recompute: full}"
        scenario = scenario_of("empty", [f"{{name: best-fit, plan: {plan}, knobs: {{pad: true}}}}",
                                         f"{{name: best-fit, label: unpadded, plan: {plan}, knobs: {{pad: false}}}}"])
        for tokens in (2000, 1500):
            data = f"data={{lengths: {tokens}, context: 2000, global_batch: 3}}"
            options = (data, "framework=megatron-core")  # it hides gathers of parameters beside passes
            explained, ran = explain(scenario, *options), simulate(scenario, *options)
            system, times = explained["best-fit"], [ran[label]["critical_path_mean_s"] for label in ("best-fit", "unpadded")]
            self.assertAlmostEqual(system["gain_if_free"]["padding"], times[0] / times[1] - 1, delta=1e-9)
            self.assertEqual(system["gain_if_free"]["padding"] > 0.01, tokens == 1500)
            self.assertEqual(explained["unpadded"]["gain_if_free"]["padding"], 0)
            self.assertGreater(shares(system)["padding"], 0.05)

    def test_text__says_if_padding_does_not_delay_the_slowest_pipeline(self):
        """A document of 2000 tokens fills the bin of one rank of two; the other one's is padding only."""
        scenario = scenario_of("idle", ["{name: best-fit, plan: {tp: 8, pp: 1}}"])
        for documents, said in ((1, True), (2, False)):
            text = call("explain", scenario, (f"data={{lengths: 2000, context: 2000, global_batch: {documents}}}",))
            self.assertEqual(bool(re.search(r"(?s)padding is \d+\.\d% of the GPUs' time, but not of the slowest\s+pipeline's: "
                                            r"without\s+it \+0\.0%$", text.strip())), said, text)

    def test_gain__of_waiting_lets_each_replica_take_the_mean(self):
        """By hand: two replicas of one stage wait for the slower one, and gradients are not overlapped."""
        scenario = scenario_of("wait", ["{name: best-fit, plan: {tp: 8, pp: 1, cp: 1}}"])
        (system,) = explain(scenario, "iterations.measured=1").values()
        (ran,) = simulate(scenario, "iterations.measured=1").values()
        waiting = ran["dp_wait_s"] / ran["total_s"]
        self.assertGreater(waiting, 0.001)
        mean_s = ran["time_mean_s"] * (1 - waiting)
        self.assertAlmostEqual(system["gain_if_free"]["waiting"], ran["time_mean_s"] / mean_s - 1, delta=1e-9)

    def test_text__fits_twenty_lines(self):
        for name, options in (("quickstart.yaml", ("trace=none", "engine=critical-path", "iterations.measured=2")),
                              ("wlb-queues.yaml", ("iterations={warm_up: 2, measured: 2}",))):
            text = call("explain", SOURCE / "scenarios" / name, options)
            self.assertLessEqual(len(text.splitlines()), 20, text)
            self.assertLessEqual(max(map(len, text.splitlines())), 100, text)
            self.assertRegex(text, r"(?s)rank 1 of .*\nMFU .*\ncritical path of .*\ntokens/s if a cost were zero: NIC ")

    def test_system__is_chosen_by_its_label(self):
        scenario = write("small.yaml", SMALL)
        self.assertEqual(list(explain(scenario, arguments=("--system", "best-fit"))), ["best-fit"])
        self.assertEqual([system["rank"] for system in explain(scenario, arguments=()).values()], [1])
        done = run("explain", scenario, "--system", "best")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertEqual(done.stderr, f"slimsim: --system: {scenario} has no system 'best'; allowed: best-fit, slimpack\n")

    def test_trace__is_explained_as_its_scenario(self):
        """The trace holds the plan that the search found."""
        scenario = scenario_of("searched", ["{name: best-fit, plan: auto}"])
        simulate(scenario)
        trace = SCRATCH / "explain" / "small.h5"
        self.assertEqual(explain(trace), explain(scenario))
        done = run("explain", trace, "--json", "--output", fresh("again"))
        self.assertEqual(done.stderr, f"the scenario of {trace} runs again\n"
                         f"1 run: 1 computed, 0 found in {SCRATCH}/again/small.explain.journal\n")
        self.assertNotEqual(explain(trace, "platform.nvlink=1e11"), explain(scenario))
        with h5py.File(trace, "a") as file:
            del file.attrs["scenario"]
        done = run("explain", trace)
        self.assertEqual((done.returncode, done.stderr), (2, f"slimsim: {trace}: it holds no scenario of a single run\n"))


class Picture(unittest.TestCase):
    def test_picture__has_a_colour_for_each_step(self):
        steps = re.findall(r"^STEP\(\w+, (\w+),", (SOURCE / "src/answer/explain_step.def").read_text(), re.MULTILINE)
        self.assertGreater(len(steps), 15)
        self.assertEqual(set(figures.COLOURS), set(steps))

    def draw(self, source, *pictures):
        path = f"{PROGRAM.parent}:{os.environ['PATH']}"
        return subprocess.run([sys.executable, SOURCE / "analysis" / "explain.py", source, "--output", *pictures],
                              capture_output=True, text=True, check=False, env={**os.environ, "PATH": path})

    def test_steps__end_with_mfu_from_zero(self):
        system = {"waterfall": [{"key": "padding", "name": "padding", "share": 0.25},
                                {"key": "context", "name": "context parallelism", "share": 0},
                                {"key": "mfu", "name": "MFU", "share": 0.75}]}
        self.assertEqual(figures.steps_of(system), [("padding", "padding", 75, 100), ("mfu", "MFU", 0, 75)])

    def test_pictures__are_drawn_of_json_and_of_a_trace(self):
        scenario = write("drawn.yaml", SMALL.replace("name: small", "name: drawn"))
        source = write("drawn.json", call("explain", scenario, (), "--json", "-v"))
        simulate(scenario)
        call("run", scenario, (), "--quiet", "--sweep", "seed=7,8", "--output", SCRATCH / "swept")
        for of in (source, SCRATCH / "explain" / "drawn.h5", SCRATCH / "swept/drawn.h5#1"):
            pictures = [SCRATCH / f"drawn{of.suffix}.png", SCRATCH / f"drawn{of.suffix}.svg"]
            done = self.draw(of, *pictures)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(all(picture.stat().st_size > 1000 for picture in pictures))

    def test_pictures__say_what_cannot_be_drawn(self):
        for name, text, message in (("other.json", "{}", "not the JSON of slimsim explain"), ("list.json", "[1]", "not the JSON"),
                                    ("text.json", "text", "Expecting value")):
            done = self.draw(write(name, text), SCRATCH / "never.png")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
        self.assertIn("there is no such file", self.draw(SCRATCH / "none.h5", SCRATCH / "never.png").stderr)


if __name__ == "__main__":
    unittest.main()

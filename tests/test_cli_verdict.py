#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests read the verdict that `slimsim run` prints first."""
import importlib.util
import json
import re
import subprocess
import unittest

import h5py

from cli_case import SOURCE
from program import SCRATCH, SMALL, fresh, point_of, run, write

LINES, COLUMNS = 25, 100
SPEC = importlib.util.spec_from_file_location("measured_range", SOURCE / "model/validation/range.py")
RANGE = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(RANGE)
SHIPPED = {  # scenario: what shortens it
    "quickstart.yaml": ("--set", "iterations.measured=2", "--set", "engine=critical-path"),
    "llama2-70b.yaml": ("--set", "engine=critical-path"),
    "wlb-queues.yaml": ("--set", "iterations={warm_up: 2, measured: 3}"),
    "stragglers.yaml": ("--point", "2", "--set", "engine=critical-path"),
    "paper/choice.yaml": ("--point", "0", "--set", "iterations={warm_up: 0, measured: 2}"),
}


def verdict(scenario, *arguments):
    done = run("run", scenario, "--output", fresh("verdict"), "--set", "trace=summary", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def json_of(scenario, *arguments):
    return point_of(verdict(scenario, "--json", "--quiet", *arguments)[0])


def ranking(text):
    """Find rank, label and tokens of each system."""
    return [(int(rank), label, int(tokens.replace(",", "")))
            for rank, label, tokens in re.findall(r"(?m)^ ?(\d+) (\S+) +([\d,]+) ", text)]


def sweep_of(n_fitting, n_large):
    """Make a scenario of many systems, of which some do not fit."""
    entries = [f"  - {{name: best-fit, label: f{i}, plan: {{tp: 2, pp: 2, cp: 2, recompute: norm+activation}}}}\n"
               for i in range(n_fitting)]
    entries += [f"  - {{name: best-fit, label: m{i}, plan: {{tp: 1, pp: 2, cp: 1}}}}\n" for i in range(n_large)]
    return write("many.yaml", SMALL[:SMALL.index("systems:")] + "systems:\n" + "".join(entries))


class Verdict(unittest.TestCase):
    def check_size(self, text, name):
        lines = text.splitlines()
        self.assertLess(len(lines), LINES, f"{name}:\n{text}")
        self.assertLessEqual(max(map(len, lines)), COLUMNS, f"{name}:\n{text}")

    def test_verdict__fits_a_screen(self):
        for name, short in SHIPPED.items():
            with self.subTest(name):
                text, log = verdict(SOURCE / "scenarios" / name, *short)
                self.check_size(text, name)
                self.assertTrue(log.splitlines()[-1].startswith("written: "), log)
                self.assertIn("outside the measured runs: " if "70b" not in name else "within the range", text)
                self.assertRegex(text, r"\nframework \S+, attention \w+, ")
        for n_fitting, n_large in ((9, 0), (5, 5), (0, 9), (20, 0), (20, 20), (0, 40)):
            text, _ = verdict(sweep_of(n_fitting, n_large), "--set", "iterations.measured=1")
            self.check_size(text, (n_fitting, n_large))

    def test_verdict__names_a_network_of_keys_and_counts_an_own_model(self):
        """llama-7b has 32 layers of 12 h^2 with f = 11008 for 4h twice, 2 V h of the vocabulary, and 65 norms."""
        model = write("mine.yaml", (SOURCE / "model" / "llm" / "llama-7b.yaml").read_text().replace("name: llama-7b", "name: mine"))
        parameters = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 2 * 32000 * 4096 + 65 * 4096
        scenario = write("small.yaml", SMALL)
        for platform, network in (("{nodes: 2, nic: 200Gbit/s}", "2x8, NIC 200Gbps"),
                                  ("{nodes: 2, topology: rail, oversubscription: 1.5}",
                                   "2x8, NIC 400Gbps, rail, oversubscription 1.5"),
                                  ("hopper-2x8", "hopper-2x8")):
            text, _ = verdict(scenario, "--set", "iterations.measured=1", "--set", f"platform={platform}", "--set",
                              f"model={model}")
            self.assertIn(f"small: mine ({parameters / 1e9:.4g}B) on 16 x h800 ({network}), 48 ", " ".join(text.split()))
            self.check_size(text, platform)
        self.assertIn("small: llama-7b on 16 x h800 (hopper-2x8), 48 ", verdict(scenario, "--set", "iterations.measured=1")[0])

    def test_verdict__ranks_the_fastest_first(self):
        scenario = write("small.yaml", SMALL)
        text, _ = verdict(scenario, "--set", "iterations.measured=5")
        systems = json_of(scenario, "--set", "iterations.measured=5")["systems"]
        ranks = ranking(text)
        self.assertEqual([label for _, label, _ in ranks],
                         [of["label"] for of in sorted(systems, key=lambda of: -of["mfu"])])
        self.assertEqual({label: tokens for _, label, tokens in ranks},
                         {of["label"]: round(of["tokens_per_s_per_gpu"]) for of in systems})
        self.assertEqual({label: rank for rank, label, _ in ranks}, {of["label"]: of["rank"] for of in systems})
        first = max(systems, key=lambda of: of["mfu"])
        (speed_up,) = re.findall(rf"(?m)^1 {first['label']} .* (\d\.\d\d)x ", text)
        self.assertAlmostEqual(float(speed_up), first["speed_up"], delta=0.005)

    def test_verdict__sums_up_the_difference(self):
        """Points of the parts add up to the points of compute, to the rounding of each."""
        scenario = write("small.yaml", SMALL)
        text = " ".join(verdict(scenario, "--set", "iterations.measured=5")[0].split())
        (mine, other, parts), = re.findall(r"it computes (\d+)% of GPU time, not (\d+)% \((.*?)\)", text)
        points = [int(n) * (1 if word == "less" else -1) for n, word in re.findall(r"(\d+) (?:points? )?(less|more)", parts)]
        self.assertGreater(len(points), 0)
        self.assertAlmostEqual(sum(points), int(mine) - int(other), delta=2)

    def test_verdict__leaves_out_equal_shares_of_compute(self):
        """A single GPU computes all the time. Only the FLOPs differ."""
        system = "{name: best-fit, label: %s, plan: {tp: 1, pp: 1, recompute: %s}}"
        scenario = write("alone.yaml", SMALL[:SMALL.index("systems:")].replace("llama-7b", "llama3.2-1b")
                         .replace("hopper-2x8", "hopper-1x1").replace("github", "fixed").replace("32Ki", "2Ki")
                         + f"systems: [{system % ('few', 'norm+activation')}, {system % ('all', 'full')}]\n")
        text = " ".join(verdict(scenario)[0].split())
        self.assertRegex(text, r"few is 1\.\d\dx all: \d+% fewer FLOPs executed \(padding, recomputation\); \d+% slower kernels ")

    def test_plan__says_that_the_system_offloads(self):
        scenario = write("small.yaml", SMALL.replace("name: slimpack,", "name: slimpack, offload: auto,"))
        tight = ("--set", "memory_limit=0.3")
        text, system = verdict(scenario, *tight)[0], json_of(scenario, *tight)["systems"][1]
        self.assertGreater(system["host_peak_bytes"], 0)
        self.assertRegex(text, r"(?m)^\S* *slimpack .* TP2 PP2 DP4 norm\+activation offload$")
        self.assertNotIn("offload\n", verdict(scenario, "--set", "systems.1.offload=never")[0].replace("recompute, offload\n", ""))

    def test_verdict__explains_the_first_over_the_base_of_the_speed_ups(self):
        entries = ("{name: best-fit, label: base, plan: {tp: 4, pp: 2}}", "{name: best-fit, label: second, plan: {tp: 2, pp: 2, cp: 2}}",
                   "{name: slimpack, label: first, plan: {tp: 2, pp: 2}}")
        scenario = write("three.yaml", SMALL[:SMALL.index("systems:")] + "systems:\n" + "".join(f"  - {entry}\n" for entry in entries))
        text, _ = verdict(scenario, "--set", "iterations.measured=5", "--set", "memory_limit=1")
        self.assertEqual([label for _, label, _ in ranking(text)], ["first", "second", "base"])
        (speed_up,) = re.findall(r"(?m)^1 first .* (\d\.\d\d)x ", text)
        self.assertIn(f"\nfirst is {speed_up}x base: ", text)

    def test_verdict__says_how_many_documents_exceed_the_context(self):
        listed = write("listed.yaml", SMALL.replace("lengths: github", "lengths: 100 20Ki 33Ki 200"))
        fates = {"cut": "cut into samples of their own", "truncate": "truncated", "drop": "replaced by other draws"}
        for fate, said in fates.items():
            text, _ = verdict(listed, "--set", f"data.long_documents={fate}")
            self.assertIn(f"\n25% of documents exceed the context, 32,768 tokens, and are {said}\n", text)
        self.assertNotIn("exceed the context", verdict(listed, "--set", "data.context=64Ki")[0])

    def test_run__says_before_it_begins_that_most_documents_exceed_the_context(self):
        listed = write("listed.yaml", SMALL.replace("lengths: github", "lengths: 100 20Ki 33Ki 200"))
        said = "of documents exceed the context"
        self.assertTrue(run("run", listed, "--output", SCRATCH / "short", "--set", "data.context=64").stderr.startswith(f"100% {said}, 64 tokens, and are cut"))
        for quiet in ((), ("--set", "data.context=64", "--quiet")):
            self.assertNotIn(said, run("run", listed, "--output", SCRATCH / "short", *quiet).stderr)

    def test_verdict__says_that_tokens_wait(self):
        text = " ".join(verdict(SOURCE / "scenarios/wlb-queues.yaml", *SHIPPED["wlb-queues.yaml"])[0].split())
        report = json_of(SOURCE / "scenarios/wlb-queues.yaml", *SHIPPED["wlb-queues.yaml"])
        waits = re.search(r"a token waits (\d\.\d\d) iterations on average with (\S+?) \(its iterations have (\S+) to (\S+) tokens\),",
                          " ".join(report["verdict"]))
        (delay,) = [of["token_delay"] for of in report["systems"] if of["label"] == waits[2]]
        self.assertAlmostEqual(float(waits[1]), delay, delta=0.005)
        with h5py.File(SCRATCH / "verdict/wlb-queues.h5") as file:
            number = [label.decode() for label in file["systems"][:]].index(waits[2])
            tokens = [row["tokens"] for row in file["iterations"][:] if row["system"] == number and row["measured"]]
        self.assertEqual([waits[3], waits[4]], [f"{of(tokens) / 1e6:.3g}M" for of in (min, max)])
        self.assertIn("compare MFU, since tokens/s are those of other samples and may be too good", text)

    def test_verdict__says_first_that_a_doubled_batch_changes_the_winner(self):
        """32 documents fill two sequences or so: two replicas waste none, four do. In a run by hand of 64 they tie."""
        lab = "\n".join(("name: lab", "model: llama3-8b", "device: h100-sxm",
                         "platform: {nodes: 4, gpus_per_node: 8, nic: 200Gbps}",
                         "data: {lengths: github, context: 64Ki, global_batch: 32}", "engine: critical-path", "systems:",
                         "  - {name: best-fit, label: many, plan: {tp: 2, pp: 1, cp: 4, recompute: norm+activation}}",
                         "  - {name: best-fit, label: few, plan: {tp: 4, pp: 1, cp: 4, recompute: norm+activation}}", ""))
        path = write("lab.yaml", lab)
        points = [json_of(path, "--set", f"data.global_batch={batch}",
                          "--set", f"iterations={{warm_up: 5, measured: {measured}}}")
                  for batch, measured in ((32, 20), (64, 10))]
        rates = [{system["label"]: system["mfu"] for system in point["systems"]} for point in points]
        before, after = (rate["few"] / rate["many"] for rate in rates)
        self.assertIn(f"with 64 documents and these plans few and many tie ({after:.2f}x, not {before:.2f}x)",
                      points[0]["verdict"][0])
        self.assertIn("32 documents for 4 replicas of many leave 2 without any, 256 documents would give each 4",
                      points[0]["verdict"][0])
        self.assertEqual((points[0]["ties"], sorted(points[1]["ties"])), ([], ["few", "many"]))

    def test_verdict__says_what_dcp_gains_at_most(self):
        """Systems that fit have their gains in the order of the ranking. Warm-up has no bound, nor has a plan without CP."""
        entries = [f"  - {{name: best-fit, label: {label}, plan: {{tp: 2, pp: 2, cp: {cp}, cp_type: {kind}, recompute: norm+activation}}}}\n"
                   for label, cp, kind in (("ring", 2, "ring-contiguous"), ("alone", 1, "ring"), ("gather", 2, "all-gather"))]
        scenario = write("bound.yaml", SMALL[:SMALL.index("systems:")] + "systems:\n" + "".join(entries))
        options = ("--set", "iterations={warm_up: 1, measured: 2}", "--set", "fits=tight")
        systems = {of["label"]: of for of in json_of(scenario, *options)["systems"]}
        gains = {label: of["critical_path_mean_s"] / of["context_bound_mean_s"] - 1 for label, of in systems.items() if label != "alone"}
        self.assertIsNone(systems["alone"]["context_bound_mean_s"])
        self.assertAlmostEqual(systems["ring"]["context_bound_mean_s"] / systems["gather"]["context_bound_mean_s"], 1, places=12)
        self.assertGreater(gains["ring"], gains["gather"])
        text, _ = verdict(scenario, *options)
        said = "DCP (free placement of attention) gains at most: " + ", ".join(
            f"{label} +{100 * gains[label]:.1f}%" for _, label, _ in ranking(text) if label != "alone")
        self.assertIn(f"{said} (context groups in perfect balance, their communication free)", " ".join(text.split()))
        with h5py.File(SCRATCH / "verdict" / "small.h5") as file:
            rows = file["iterations"][:]
        self.assertEqual([label for label, row in zip("rrraaaggg", rows) if row["context_bound_s"] == row["context_bound_s"]], list("rrgg"))
        self.assertIn("\n  with DCP's bound, mean [s]", verdict(scenario, "--verbose", *options)[0])
        for more in ((), ("--verbose",)):
            self.assertNotIn("DCP", verdict(scenario, *options, *more, "--set", "systems.0.plan.cp=1", "--set", "systems.2.plan.cp=1")[0])

    def test_verdict__calls_equal_systems_a_tie(self):
        text, _ = verdict(sweep_of(2, 0))
        self.assertEqual([rank for rank, _, _ in ranking(text)], [1, 1])
        self.assertEqual([of["rank"] for of in json_of(sweep_of(2, 0))["systems"]], [1, 1])
        self.assertIn("equal ranks tie", text)
        text, _ = verdict(write("small.yaml", SMALL), "--set", "data.lengths=fixed", "--set", "iterations.measured=2")
        self.assertEqual([rank for rank, _, _ in ranking(text)], [1, 2])
        self.assertNotIn("±", text)
        self.assertIn("all alike", text)

    def test_verdict__says_that_one_iteration_has_no_interval(self):
        text, _ = verdict(write("small.yaml", SMALL), "--set", "iterations.measured=1")
        self.assertIn("1 iteration, seed 7, no interval", text)
        self.assertNotIn("±", text)

    def test_misfit__names_the_mildest_change_that_fits(self):
        """The change is set, and the system fits as was said, with the memory that was named. Only the zero2 plan's change
        leaves room for the allocator's reserve."""
        for model, plan, limit, mildest in (("llama-7b", "tp: 1, pp: 2, cp: 1", 0.5, "recompute=full"),
                                            ("llama-13b", "tp: 4, pp: 1, recompute: full", 0.3, "tp=8"),
                                            ("llama-13b", "tp: 4, pp: 1, recompute: full, sharding: zero2", 0.3, "sharding=zero3"),
                                            ("llama-13b", "tp: 2, pp: 1, cp: 2, sharding: none, recompute: full", 0.7,
                                             "sharding=zero1"),
                                            ("llama-7b", "tp: 1, pp: 2, recompute: full", 0.3, "tp=2")):
            entry = f"systems:\n  - {{name: best-fit, plan: {{{plan}}}}}\n"
            scenario = write("large.yaml", SMALL[:SMALL.index("systems:")].replace("llama-7b", model) + entry)
            options = ("--set", f"memory_limit={limit}")
            text, _ = verdict(scenario, *options)
            self.assertNotIn("tokens/s/GPU", text)
            need, has = re.search(r"best-fit does not fit: stage \d needs ([\d.]+) of ([\d.]+) GiB, mostly [\w ,]+\n", text).groups()
            (before,) = json_of(scenario, *options)["systems"]
            self.assertAlmostEqual(before["peak_bytes"] / 2**30, float(need), delta=0.051)
            self.assertAlmostEqual(before["memory_bytes"] / 2**30, float(has), delta=0.051)
            change, tightly, needed = re.search(r": plan\.(\S+)(?: with dp \d+)? would fit( tightly)?, ([\d.]+) GiB", text).groups()
            self.assertEqual(change, mildest)
            (after,) = json_of(scenario, *options, "--set", f"systems.0.plan.{change}")["systems"]
            self.assertEqual((after["fits"], after["tight"]), (True, tightly is not None), (plan, change))
            self.assertEqual(tightly is None, "zero2" in plan)
            self.assertAlmostEqual(after["peak_bytes"] / 2**30, float(needed), delta=0.051)

    def test_misfit__advises_sharding_only_where_it_helps(self):
        """Megatron has no zero2 and zero3, DeepSpeed has, and on one GPU nothing is shared."""
        entry = "systems:\n  - {name: best-fit, plan: {tp: 1, pp: 1, recompute: full}}\n"
        scenario = write("states.yaml", SMALL[:SMALL.index("systems:")].replace("framework: slimpack-paper\n", "") + entry)
        for framework, platform, limit, sharding in (("megatron-core", "hopper-2x8", 0.3, False), ("fsdp2", "hopper-2x8", 0.3, None),
                                                     ("deepspeed", "hopper-2x8", 0.5, True), ("deepspeed", "hopper-1x1", 0.3, False)):
            text, _ = verdict(scenario, "--set", f"framework={framework}", "--set", f"platform={platform}", "--set",
                              f"memory_limit={limit}")
            if sharding is None:  # zero3 is its default, so it fits or needs another change
                self.assertNotIn("sharding=zero", text)
            else:
                self.assertIn("does not fit", text)
                self.assertEqual("sharding=zero" in text, sharding, (framework, platform, text))

    def test_misfit__says_that_no_change_helps(self):
        text, _ = verdict(sweep_of(0, 1), "--set", "memory_limit=0.3")
        self.assertIn("no single change fits; nearest: plan.", text)

    def test_misfit__offers_nothing_that_is_far_too_large(self):
        text, _ = verdict(sweep_of(0, 1), "--set", "memory_limit=0.05")
        self.assertRegex(text, r"no single change fits: the nearest leaves [\d.]+ GiB; take more or larger GPUs\n")
        self.assertNotIn("plan.offload", text)

    def test_settings__give_what_they_promise(self):
        """The kernel is set, and the first iteration takes less by what was said."""
        scenario = write("slow.yaml", SMALL.replace("context: 32Ki", "context: 64Ki") + "attention: flash2\n")
        one = ("--set", "iterations.measured=1")
        text = " ".join(verdict(scenario, *one)[0].split())
        kernel, gain = re.search(r"faster settings \(tokens/s\): .*?attention (\w+) \+([\d.]+)% \(is flash2\)", text).groups()
        label = ranking(verdict(scenario, *one)[0])[0][1]
        before, after = ([of for of in json_of(scenario, *one, *more)["systems"] if of["label"] == label][0]["mfu"]
                         for more in ((), ("--set", f"attention={kernel}")))
        self.assertAlmostEqual(100 * (after / before - 1), float(gain), delta=0.6)
        text, _ = verdict(scenario, *one, "--set", f"attention={kernel}")
        self.assertNotIn(f"(is {kernel})", text)

    def test_verdict__says_which_curves_are_copied(self):
        scenario = write("small.yaml", SMALL)
        for device, said in (("h800", "h800 has the curves of h100-sxm, the same chip"),
                             ("a100-80g", "some of another chip: less sure"), ("h100-sxm", None)):
            for more in ((), ("--verbose",)):
                text, _ = verdict(scenario, "--set", f"device={device}", *more)
                head = text.split("tokens/s/GPU")[0]
                self.assertEqual("curves" in head, said is not None, device)
                self.assertIn(said or "", head)
            self.assertIn(said or "null", json.dumps(json_of(scenario, "--set", f"device={device}")["copied_curves"]))

    def test_nodes_without_nvlink_are_named_and_zero_is_refused(self):
        """A box with PCIe only must not silently have the data sheet's NVLink."""
        path = write("pcie.yaml", "model: llama3-8b\ndevice: h100-sxm\nplatform: {nodes: 2, gpus_per_node: 8, nvlink: 0}\n"
                     "data: {lengths: github, context: 32Ki, global_batch: 64}\niterations: {warm_up: 0, measured: 2}\n"
                     "engine: critical-path\nsystems:\n  - {name: best-fit, plan: {tp: 2, pp: 1, cp: 2}}\n")
        refused = run("run", path, "--output", fresh("pcie"))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("platform.nvlink: 0 does not switch it off; leave the key out for the value of the data sheet, or write none", refused.stderr)
        done = run("run", path, "--set", "platform.nvlink=none", "--output", fresh("pcie"))
        self.assertIn("(2x8, no NVLink, NIC 400Gbps)", done.stdout.splitlines()[0])

    def test_verbose__prints_every_number(self):
        text, log = verdict(write("small.yaml", SMALL), "--verbose")
        for part in ("HFU [%]", "assumed:", "critical path, mean [s]", "micro-batch FLOPs, p95/p5, forward", "speed-up"):
            self.assertIn(part, text)
        self.assertIn("best-fit: planned in ", log)

    def test_json__has_what_lies_outside(self):
        report = json_of(write("small.yaml", SMALL))
        self.assertEqual(report["outside_measured_runs"], ["varying lengths", "framework slimpack-paper", "system slimpack"])
        self.assertEqual(list(report), ["format_version", "name", "point", "id", "status", "model", "device", "platform", "framework", "copied_curves", "gpus",
                                        "memory_bytes", "systems", "assumed", "verdict", "ties", "reason", "faster_settings",
                                        "outside_measured_runs", "model_error"])

    def test_model__is_beside_the_batches(self):
        """measured = predicted / (1 + error), and the 5th percentile is 1.645 deviations above the bias."""
        text, _ = verdict(write("small.yaml", SMALL))
        report = json_of(write("small.yaml", SMALL))
        error, (first, *others) = report["model_error"], sorted(report["systems"], key=lambda system: -system["tokens_per_s_per_gpu"])
        self.assertEqual(error["wider"], ["varying lengths", "framework"])
        for system in (first, *others):
            for key, sign in (("p5", 1), ("p95", -1)):
                measured = system["tokens_per_s_per_gpu"] / (1 + error["bias"] + sign * 1.6448536 * error["deviation"])
                self.assertAlmostEqual(system["model_interval"][key] / measured, 1, places=6)
        half, (p5, p95) = first["tokens_per_s_per_gpu_interval"], first["model_interval"].values()
        self.assertIn(f"{first['label']}: {first['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU, batches ± {half:,.0f}, model {p5:,.0f} to {p95:,.0f} (", text)
        alike = verdict(write("small.yaml", SMALL), "--set", "data.lengths=fixed")[0]
        self.assertRegex(alike, r"\n\S+: [\d,]+ tokens/s/GPU, model [\d,]+ to [\d,]+ \(")


class Range(unittest.TestCase):
    def test_range_and_errors__are_those_of_validate(self):
        """Rows that cannot be predicted are in neither."""
        script = SOURCE / "model/validation/range.py"
        report = run("validate", "--json", "--quiet", "--output", SCRATCH / "validation").stdout
        done = subprocess.run([script, "--errors"], input=report, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, (SOURCE / "model/model_error.yaml").read_text(),
                         f"run slimsim validate --json | {script} --errors")
        done = subprocess.run([script], input=report, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, (SOURCE / "model/validated_range.yaml").read_text(), f"run slimsim validate --json | {script}")
        pairs = subprocess.run([script, "--fp8"], input=report, capture_output=True, text=True, check=True).stdout
        self.assertGreater(len(pairs.splitlines()), 2)
        for line in pairs.splitlines():
            self.assertIn(f"\n  {line}\n", (SOURCE / "docs/model/errors.md").read_text())
        far = RANGE.distances(RANGE.sources_of(json.loads(report), RANGE.DENSE, "public.csv"))
        within = [sum(abs(distance) < limit for distance in far) / len(far) for limit in (RANGE.P95, 1)]
        self.assertTrue(0.85 <= within[0] <= 0.95, within)
        self.assertTrue(0.60 <= within[1] <= 0.75, within)

    def test_expert_routing__is_that_of_pairs_and_holds_real_routing(self):
        """The range of the pairs' ratios, times a prediction with balanced routing, holds the runs with real routing."""
        script = SOURCE / "model/validation/range.py"
        done = subprocess.run([script, "--routing"], capture_output=True, text=True, check=True)
        shipped = (SOURCE / "model/expert_routing.yaml").read_text()
        self.assertEqual(done.stdout, shipped, f"run {script} --routing")
        report = json.loads(run("validate", SOURCE / "model/validation/training_experts.csv", "--json", "--quiet", "--output",
                                SCRATCH / "experts").stdout)
        pairs, least, most = (float(re.search(rf"^{key}: (\S+)$", shipped, re.MULTILINE)[1]) for key in ("pairs", "least", "most"))
        ratios = [row["measured"] / row["predicted"] for row in report["rows"] if row.get("group") == "real-routing"]
        self.assertEqual(len(ratios), pairs)
        self.assertGreaterEqual(sum(least <= ratio <= most for ratio in ratios) / len(ratios), 0.8, ratios)
        balanced = [row["row"] for row in report["rows"] if "group" not in row]
        (every,) = [entry for entry in report["experts"] if entry["source"] == entry["device"] == "all" and not entry["full_plan"]]
        self.assertEqual((every["rows"], report["statistics"]), (len(balanced), []))

    def test_verdict__says_what_experts_were_measured(self):
        """Balanced routing is counted with an imbalance of 1 only, and padding up to the capacity hides the routing."""
        moe = write("moe.yaml", """\
name: moe
model: qwen3-30b-a3b
device: h100-sxm
platform: h100-2x8
framework: megatron-core
data: {lengths: fixed, context: 4Ki, global_batch: 64}
engine: critical-path
systems:
  - {name: best-fit, plan: {tp: 1, pp: 1, cp: 1, ep: 8}}
""")
        report = json_of(moe)
        said = "experts: balanced routing is counted; real routing was 8 to 20% slower in 4 measured pairs"
        self.assertIn(said, report["verdict"])
        self.assertEqual(report["expert_routing"], {"pairs": 4, "least": 0.803, "most": 0.918})
        self.assertEqual((report["model_error"]["basis"], report["outside_measured_runs"]),
                         ("24 measured runs of 3 sources with experts", []))
        padded = ("--set", "systems.0.plan.capacity_factor=1", "--set", "systems.0.plan.pad_to_capacity=true")
        for changes in (("--set", "expert_imbalance=1.2"), padded, ("--set", "model=qwen3-4b", "--set", "systems.0.plan.ep=1")):
            other = json_of(moe, *changes)
            self.assertNotIn("expert_routing", other)
            self.assertNotIn(said, other["verdict"])

    def test_model_error__is_that_of_a_sum_by_hand(self):
        """Means 0.1, 0.2 and 0, so 0.1 overall and a variance of 0.01. Within the first two 0.0002 and 0.0008, so 0.0005.
        Between: 0.01 - (0.0005 / 2 + 0.0005 / 2 + 0.0005) / 3 = 0.01 - 0.001 / 3. The mean's own variance is 0.01 / 3."""
        found = RANGE.model_of([[0.09, 0.11], [0.18, 0.22], [0.0]])
        between = 0.01 - 0.001 / 3
        for got, wanted in zip(found, (0.1, between ** 0.5, 0.0005 ** 0.5, (between + 0.0005 + 0.01 / 3) ** 0.5)):
            self.assertAlmostEqual(got, wanted, places=12)

    def test_model_error__is_never_below_that_of_the_pool(self):
        """Bias 0.2. The pool has (0.4^2 + 2 (1 + 0.2^2)) / 3 = 2.24 / 3. Within is 200 / 99 / 3, between 0.12 less
        0.52 / 3 of it, and the mean's variance 0.12 / 3: 0.717 together."""
        found = RANGE.model_of([[0.6, 0.6], [1, -1] * 50, [1, -1] * 50])
        self.assertAlmostEqual(found[0], 0.2, places=12)
        self.assertAlmostEqual(found[3] ** 2, 2.24 / 3, places=12)

    def test_sources__are_repositories_and_papers(self):
        for text, source in (("mosaicml/llm-foundry@8c8dd48f72:scripts/README.md (A100)", "mosaicml/llm-foundry"),
                             ("arXiv:2205.05198 Table 3", "arXiv:2205.05198"), ("InternLM/xtuner docs legacy", "InternLM/xtuner")):
            self.assertEqual(RANGE.source_of(text), source)

    def test_distances__leave_the_own_source_out(self):
        """The others judge the third source, 0.3, by their bias 0.1, variances within 0.0002, between 0.02 - 0.0001 and of
        the mean 0.01; its device and its CP are outside, which adds twice that between."""
        def runs(*errors, device="a", cp=1):
            return [(error, "f", device, 4096, cp) for error in errors]
        far = RANGE.distances({"one": runs(0.19, 0.21), "two": runs(-0.01, 0.01), "three": runs(0.3, device="b", cp=2)})
        self.assertAlmostEqual(far[-1], 0.2 / (0.0199 + 0.0002 + 0.01 + 2 * 0.0199) ** 0.5, places=12)


if __name__ == "__main__":
    unittest.main(verbosity=2)

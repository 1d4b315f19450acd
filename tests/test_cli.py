#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as its users call it: results, files, messages, exit statuses."""
import csv
import filecmp
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py
import networkx

import program
from program import AT_ONCE_S, PROGRAM, SCRATCH, alive, children, fresh, run, write

SOURCE = pathlib.Path(__file__).resolve().parent.parent

SMALL = program.SMALL.replace("warm_up: 0", "warm_up: 1").replace("critical-path", "both\ntrace: full")


def simulate(folder, *arguments, scenario=SMALL):
    path = write("small.yaml", scenario)
    return run("run", path, "--json", "--quiet", "--output", SCRATCH / folder, *arguments)


def longest_path_s(tasks, edges):
    """The critical path by networkx: an edge weighs the duration of the task it leaves."""
    graph = networkx.DiGraph()
    duration = {int(row["task"]): float(row["duration_s"]) for row in tasks}
    graph.add_nodes_from(duration)
    for row in edges:
        graph.add_edge(int(row["from_task"]), int(row["to_task"]), weight=duration[int(row["from_task"])])
    for task in duration:
        graph.add_edge(task, "end", weight=duration[task])
    return networkx.dag_longest_path_length(graph)


class Results(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = simulate("first")
        assert done.returncode == 0, done.stderr
        cls.report = json.loads(done.stdout)
        cls.path = SCRATCH / "first" / "small.h5"

    def test_a_gpu_that_is_nearly_full_is_named_as_a_risk(self):
        """From 85% of what a rank may use up to all of it: device files of the same GPU with less memory."""
        sheet = (SOURCE / "model" / "gpu" / "h800.yaml").read_text()
        (peak,) = [system["peak_bytes"] for system in self.report["systems"] if system["label"] == "best-fit"]
        said, context = [], float(re.search("(?m)^context_bytes: (.*)", sheet)[1])
        for share in (0.84, 0.86, 1.01):
            memory = re.sub("(?m)^memory_bytes: .*", f"memory_bytes: {peak / share + context:.0f}", sheet)
            done = simulate("full", "--set", f"device={write('full.yaml', memory)}", "--set", "engine=critical-path")
            self.assertEqual(done.returncode, 0, done.stderr)
            said.append([line for line in json.loads(done.stdout)["assumed"] if "best-fit: its fullest" in line])
        self.assertEqual([len(lines) > 0 for lines in said], [False, True, False], said)
        self.assertIn("at 86% of its memory", "".join(said[1]))
        self.assertIn("of 42 published runs predicted at least 85% full 5 were predicted 6 to 33% too fast", said[1][0])

    def test_each_stage_says_what_memory_it_needs(self):
        """The most of the timeline's sums, by stage; printed, in JSON and in the trace."""
        report = json.loads(simulate("stages", "--set", "iterations.measured=1").stdout)
        with h5py.File(SCRATCH / "stages" / "small.h5") as file:
            stages, memory = file["stages"][:], file["memory"][:]
        classes = [name for name in memory.dtype.names if name.endswith("_bytes")]
        sums = sum(memory[name] for name in classes)
        for number, system in enumerate(report["systems"]):
            own = stages[stages["system"] == number]
            self.assertEqual(list(own["stage"]), list(range(2)))
            for row, told in zip(own, system["stages"]):
                most = sums[(memory["system"] == number) & (memory["stage"] == row["stage"])].max()
                self.assertAlmostEqual(row["peak_bytes"] / most, 1, delta=1e-12)
                self.assertAlmostEqual(sum(row[name] for name in classes) / most, 1, delta=1e-12)
                self.assertEqual((told["stage"], told["peak_bytes"], row["iteration"]), (row["stage"], row["peak_bytes"], 1))
                self.assertAlmostEqual(sum(told["peak_bytes_by_class"].values()) / most, 1, delta=1e-12)
            self.assertEqual(own["peak_bytes"].max(), system["peak_bytes"])
        printed = run("run", write("small.yaml", SMALL), "--quiet", "--output", SCRATCH / "stages").stdout
        self.assertRegex(printed, r"\nslimpack, peak memory of a GPU by stage \[GiB\]: [0-9.]+ [0-9.]+\n")

    def test_interleaved_and_sharded_plans_are_the_same_in_both_engines(self):
        text = SMALL.replace("github", "fixed").replace("global_batch: 48", "global_batch: 64").replace("2x8", "2x8-free")
        text = text[:text.index("systems:")] + """\
communication: {dp_overlap: both}
systems:
  - {name: best-fit, label: plain, plan: {tp: 4, pp: 2}}
  - {name: best-fit, label: interleaved, plan: {tp: 4, pp: 2, vpp: 4, recompute: full, recompute_layers: 8}}
  - {name: best-fit, label: sharded, plan: {tp: 4, pp: 1, cp: 2, sharding: zero3, gradients: bf16}}
"""
        for arguments in ((), ("--set", "all_tensor_ranks=true")):
            done = simulate("plans", *arguments, scenario=text)
            self.assertEqual(done.returncode, 0, done.stderr)
            plain, interleaved, sharded = systems = json.loads(done.stdout)["systems"]
            for system in systems:
                self.assertAlmostEqual(system["simgrid_mean_s"] / system["critical_path_mean_s"], 1, delta=1e-9)
            self.assertEqual(plain["shard_share"], 0)
            self.assertGreater(sharded["shard_share"], 0)
            self.assertLess(interleaved["bubble_fraction"], plain["bubble_fraction"])
            self.assertEqual(interleaved["plan"]["recompute_layers"], 8)

    def test_the_log_follows_the_report_and_all_of_it_leaves_the_warm_up_out(self):
        """Both go to one file, which agrees with itself."""
        path = write("small.yaml", SMALL)
        done = subprocess.run([PROGRAM, "run", path, "--output", SCRATCH / "one-file"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=300, check=True)
        report, log = done.stdout.split("\nbest-fit: planned in ")
        self.assertTrue(report.splitlines()[-1].startswith("- slimpack: sequence parallelism on"), report[-300:])
        with h5py.File(SCRATCH / "one-file" / "small.h5") as file:
            rows = file["iterations"][:]
        self.assertGreater(len(set(rows["forward_units"][rows["system"] == 1])), 1)
        for number, label in enumerate(("best-fit", "slimpack")):
            of = rows[(rows["system"] == number) & (rows["measured"] == 1)]
            dp = self.report["systems"][number]["plan"]["dp"]
            self.assertIn(f"{label}: {of['tokens'].sum() / of['forward_units'].sum():.6g} tokens and ", report)
            self.assertIn(f" {of['forward_units'].mean() / dp:.6g} micro-batches a pipeline, mean", report)
            self.assertRegex("best-fit: " + log, f"{label}: .* simulated {of['time_s'].mean():.4g} s\n")

    def test_what_offload_saves_stands_with_the_results_that_offload(self):
        """On one stage copies run beside the passes: memory is saved, and hardly any time is lost."""
        plain, offloads = [simulate("offloads", scenario=SMALL.replace("pp: 2, cp: 2", f"pp: 1, offload: {share}").replace(
            "pp: 2, recompute: selective}}", "pp: 1, recompute: selective}, knobs: {offload: plan}}")) for share in (0, 1)]
        plain, offloads = json.loads(plain.stdout), json.loads(offloads.stdout)
        told = [[line for line in report["assumed"] if line.startswith("offload: ")] for report in (plain, offloads)]
        self.assertEqual([len(lines) for lines in told], [0, 1])
        self.assertIn("with one stage", told[1][0])
        before, after = (report["systems"][0] for report in (plain, offloads))
        self.assertLess(after["peak_bytes"], 0.8 * before["peak_bytes"])
        self.assertLess(after["iteration_mean_s"], 1.02 * before["iteration_mean_s"])

    def test_mistakes_name_key_and_system(self):
        lengths = write("twice.csv", "tokens,tokens\n1,2\n")
        for assignment, said in ((f"data.lengths={lengths}", f"': data.lengths: {lengths}:1: two columns are called 'tokens'"),
                                 ("data.lengths=./absent.csv", "': data.lengths: "),
                                 ("platform=./absent.xml", "absent.xml: cannot be read: No such file"),
                                 ("device=h100", "did you mean 'h100-96g' or 'h100-sxm'? available: "),
                                 ("iterations=5", "iterations: expected a mapping of keys, found a single value; allowed: "
                                                  "warm_up, measured"),
                                 ("systems.0={name: best-fit, plan: {tp: 2, pp: 4, vpp: 2}, knobs: {pad: false}}",
                                  "best-fit: no plan for iteration 0: plan.vpp: ")):
            done = simulate("mistakes", "--set", assignment)
            self.assertEqual((done.returncode, done.stdout), (2, ""), assignment)
            self.assertIn(said, done.stderr)

    def test_a_context_that_cuts_most_documents_is_told(self):
        told = "; a document makes "
        short, usual = [" ".join(json.loads(simulate("short", "--set", f"data.context={context}", "--set",
                                                     "engine=critical-path").stdout)["assumed"])
                        for context in (512, "32Ki")]
        self.assertIn(told, short)
        self.assertNotIn(told, usual)

    def test_a_platform_with_another_nvlink_than_the_device_is_told(self):
        """Data sheets: 900 GB/s both directions of an H100, 400 of an H800, which the platform has."""
        told = "NVLink of platform hopper-2x8 is 200 GB/s each way, of device h100-sxm's data sheet 450 GB/s"
        path, other = write("small.yaml", SMALL.replace("both", "critical-path")), ("--set", "device=h100-sxm")
        done = run("run", path, "--output", fresh("nvlink"), *other)
        self.assertIn(told, done.stdout.split("best-fit")[0])
        self.assertNotIn("NVLink of platform", run("run", path, "--output", fresh("nvlink"), "--quiet").stdout)
        self.assertIn(told, " ".join(json.loads(simulate("nvlink", *other).stdout)["assumed"]))
        swept = run("run", path, *other, "--sweep", "seed=1,2", "--set", "trace=summary", "--output", fresh("nvlink"))
        self.assertEqual(swept.stderr.count(told), 1, "of two points")
        cost = ("cost", "--model", "llama-7b", "--slice", "0:4096", "--platform", "hopper-2x8", "--device")
        self.assertIn(told, run(*cost, "h100-sxm").stdout)
        self.assertNotIn("NVLink", run(*cost, "h800").stdout)

    def test_speed_ups_count_what_is_trained(self):
        """Of all tokens of the measured iterations, some of which wait in wlb-llm's queues: model FLOPs a second."""
        text = SMALL.replace("both", "critical-path").replace("slimpack, plan: {", "wlb-llm, plan: {cp: 1, ")
        done = simulate("waits", scenario=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)["systems"]
        with h5py.File(SCRATCH / "waits" / "small.h5") as file:
            rows = [of[of["measured"] == 1] for of in (file["iterations"][file["iterations"]["system"] == n] for n in (0, 1))]
        base, waits = [of["model_flop"].sum() / of["time_s"].sum() for of in rows]
        self.assertGreater(report[1]["token_delay"], 0)
        self.assertAlmostEqual(report[1]["speed_up"], waits / base, delta=1e-9)
        self.assertNotAlmostEqual(report[1]["speed_up"], report[1]["tokens_per_s_per_gpu"] / report[0]["tokens_per_s_per_gpu"],
                                  delta=1e-3)

    def test_intervals_stand_below_what_they_are_of(self):
        """In the table, JSON and CSV alike; none of one iteration."""
        systems = self.report["systems"]
        options = ("--quiet", "--output", SCRATCH / "intervals", "--set", "trace=summary")
        lines = run("run", write("small.yaml", SMALL), *options).stdout.splitlines()
        with open(SCRATCH / "intervals/small.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for label, key, form in (("tokens/s/GPU ", "tokens_per_s_per_gpu_interval", "{:.1f}"),
                                 ("speed-up ", "speed_up_interval", "{:.3f}")):
            (number,) = [n for n, line in enumerate(lines) if line.startswith(label)]
            self.assertEqual(lines[number + 1].split(), ["95%", "interval,", "+/-", *(form.format(of[key]) for of in systems)])
            self.assertEqual([float(row[key]) for row in rows], [of[key] for of in systems])
            self.assertGreater(systems[1][key], 0)
        self.assertEqual(systems[0]["speed_up_interval"], 0)
        one = ("--set", "iterations.measured=1")
        self.assertEqual(run("run", SCRATCH / "small.yaml", *options, *one).stdout.count("+/-                              -"), 2)
        with h5py.File(SCRATCH / "intervals/small.h5") as file:
            self.assertTrue(all(row["speed_up_interval"] != row["speed_up_interval"] for row in file["summary"]))
        told = json.loads(run("run", SCRATCH / "small.yaml", *options, *one, "--json").stdout)["systems"]
        self.assertEqual([(of["tokens_per_s_per_gpu_interval"], of["speed_up_interval"]) for of in told], [(None, None)] * 2)

    def test_pipelines_of_one_unit_have_no_spread(self):
        """Two replicas: of four samples of the context each has two, of two samples one."""
        for samples, spread in ((4, "1.000"), (2, "-")):
            scenario = write("one-unit.yaml", SMALL.replace("lengths: github", "lengths: fixed").replace(
                "global_batch: 48", f"global_batch: {samples}").replace("tp: 2, pp: 2, cp: 2", "tp: 8, pp: 1"))
            table = run("run", scenario, "--quiet", "--output", SCRATCH / "one-unit").stdout
            rows = [line.split()[-2] for line in table.splitlines() if line.startswith("unit ")]
            self.assertEqual(rows, [spread] * 4)
            done = run("run", scenario, "--quiet", "--json", "--output", SCRATCH / "one-unit")
            row = json.loads(done.stdout)["systems"][0]
            for name in ("forward_unit_flop_spread", "backward_unit_time_spread"):
                self.assertEqual(row[name], None if spread == "-" else 1)

    def test_the_same_batch_each_time_has_no_interval(self):
        told = json.loads(simulate("alike", "--set", "data.lengths=fixed", "--set", "trace=none").stdout)["systems"]
        self.assertEqual([(of["tokens_per_s_per_gpu_interval"], of["speed_up_interval"]) for of in told], [(0, 0)] * 2)

    def test_a_run_tells_the_gap_of_branch_and_bound(self):
        """The largest of the measured iterations, as `plan` tells each."""
        path, folder = write("milp.yaml", SMALL.replace("both", "critical-path")), fresh("milp")
        options = ("--set", "systems.1.knobs.packer=milp", "--set", "iterations.measured=1")
        planned = json.loads(run("plan", path, *options, "--iteration", "1", "--quiet", "--json").stdout)
        told = json.loads(run("run", path, *options, "--output", folder, "--quiet", "--json").stdout)["systems"]
        self.assertEqual(told[0]["search_gap_max"], 0)
        self.assertTrue(0 <= told[1]["search_gap_max"] < 1)
        self.assertGreater(told[1]["search_nodes_mean"], 0)
        self.assertEqual([(row["search_gap"], row["search_nodes"]) for row in planned],
                         [(row["search_gap_max"], row["search_nodes_mean"]) for row in told])
        self.assertRegex(run("run", path, *options, "--output", folder).stdout, r"\ngap of branch and bound \[%\] +- +\d+\.\d\d\n")
        self.assertNotIn("gap of branch", run("run", path, "--output", folder).stdout)

    def test_contention_never_makes_it_faster(self):
        for system in self.report["systems"]:
            self.assertGreaterEqual(system["simgrid_mean_s"], system["critical_path_mean_s"] * (1 - 1e-9))

    def test_without_contention_one_or_all_tensor_ranks_take_the_critical_path(self):
        folded = simulate("folded", "--set", "platform=hopper-2x8-free")
        ranks = simulate("ranks", "--set", "platform=hopper-2x8-free", "--set", "all_tensor_ranks=true")
        self.assertEqual(ranks.returncode, 0, ranks.stderr)
        for one, all_of_them in zip(json.loads(folded.stdout)["systems"], json.loads(ranks.stdout)["systems"]):
            for system in (one, all_of_them):
                self.assertAlmostEqual(system["simgrid_mean_s"] / one["critical_path_mean_s"], 1, delta=1e-9)

    def test_faults_make_it_slower_are_told_and_stand_in_the_trace(self):
        faults = ("faults:\n  - {kind: gpu, gpus: 5, factor: 2}\n  - {kind: nic, share: 0.25, seed: 3, factor: 4}\n"
                  "  - {kind: gpu, gpus: 5, factor: 1.5}\n")
        done = simulate("faults", scenario=SMALL + faults)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        for slow, sound in zip(report["systems"], self.report["systems"]):
            self.assertGreater(slow["critical_path_mean_s"], 1.2 * sound["critical_path_mean_s"])
            self.assertGreaterEqual(slow["simgrid_mean_s"], slow["critical_path_mean_s"] * (1 - 1e-9))
        with h5py.File(SCRATCH / "faults" / "small.h5") as file:
            self.assertEqual([line.decode() for line in file["assumed"]], report["assumed"])
        self.assertTrue(any("GPU 5 3 times as slow" in line and "unknown to plans" in line for line in report["assumed"]))
        with h5py.File(SCRATCH / "faults" / "small.h5") as file:
            rows, text = file["faults"][:], file.attrs["scenario"]
        gpu, nic = rows[rows["kind"] == 0], rows[rows["kind"] == 2]
        self.assertEqual([(row["rank"], row["node"], row["factor"]) for row in gpu], [(5, 0, 3)])
        self.assertEqual(len(nic), 4)  # a quarter of 16
        self.assertTrue(all(row["factor"] == 4 and row["node"] == row["rank"] // 8 for row in nic))
        again = run("run", write("again.yaml", text.decode()), "--json", "--quiet", "--output", SCRATCH / "faults-again")
        self.assertEqual(json.loads(again.stdout)["systems"], report["systems"])
        with h5py.File(self.path) as file:
            self.assertNotIn("faults", file)

    def test_critical_path_of_both_systems_equals_an_independent_longest_path(self):
        with h5py.File(self.path) as file:
            for system in (0, 1):
                tasks = [row for row in file["tasks"][:] if row["system"] == system]
                edges = [row for row in file["edges"][:] if row["system"] == system]
                traced = int(tasks[0]["iteration"])
                row = [r for r in file["iterations"][:] if r["system"] == system and r["iteration"] == traced][0]
                self.assertGreater(len(edges), len(tasks) / 2)
                self.assertAlmostEqual(longest_path_s(tasks, edges) / row["critical_path_s"], 1, delta=1e-12)

    def test_resolved_scenario_of_the_trace_runs_to_the_same_bytes(self):
        with h5py.File(self.path) as file:
            text = file.attrs["scenario"]
        text = text.decode() if isinstance(text, bytes) else text
        done = simulate("resolved", scenario=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("small.h5", "small.csv"):
            self.assertTrue(filecmp.cmp(SCRATCH / "first" / name, SCRATCH / "resolved" / name, shallow=False), name)

    def test_another_seed_gives_other_numbers(self):
        other = json.loads(simulate("seed", "--set", "seed=8").stdout)
        self.assertNotEqual(other["systems"][0]["iteration_mean_s"], self.report["systems"][0]["iteration_mean_s"])

    def test_the_script_of_the_reference_finds_the_figures_of_the_report_in_the_trace(self):
        script = (SOURCE / "docs/reference.md").read_text().split("```python\n")[1].split("```")[0]
        script = script.replace("results/quickstart.h5", str(self.path))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(self.report["systems"]))
        for line, system in zip(lines, self.report["systems"]):
            label, _, tokens, _, mfu, _, bubble, _, exposed = line.split()
            parts = [system[name] for name in ("ring_share", "tensor_share", "shard_share", "sync_share", "reshard_share")]
            self.assertEqual(label, system["label"])
            self.assertAlmostEqual(float(tokens) / system["tokens_per_s_per_gpu"], 1, places=12)
            self.assertAlmostEqual(float(mfu), system["mfu"], places=12)
            self.assertAlmostEqual(float(bubble), system["bubble_fraction"], places=12)
            self.assertAlmostEqual(float(exposed), sum(parts), places=12)

    def misfit(self, folder, kind, needed, *arguments):
        """Report, JSON and trace of a run whose first system does not fit; all name stage and class."""
        done = simulate(folder, "--set", "iterations.measured=1", "--set", "trace=summary", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        system = json.loads(done.stdout)["systems"][0]
        misfit = system["misfit"]
        self.assertFalse(system["fits"])
        self.assertEqual(misfit["memory"], kind)
        self.assertGreater(misfit["needed_bytes"], misfit["available_bytes"])
        self.assertEqual(misfit["needed_bytes"], system[needed])
        text = run("run", SCRATCH / "small.yaml", "--quiet", "--output", SCRATCH / folder, "--set",
                   "iterations.measured=1", "--set", "trace=summary", *arguments).stdout
        with h5py.File(SCRATCH / folder / "small.h5") as file:
            row = file["summary"][0]
        with open(SCRATCH / folder / "small.csv", newline="") as file:
            named = next(csv.DictReader(file))
        self.assertEqual(row["fits"], 0)
        self.assertEqual(named["misfit"], kind)
        self.assertEqual(row[needed], misfit["needed_bytes"])
        self.assertRegex(text, r"\nspeed-up +\(1\.000x\) +\(\d\.\d{3}x\)\n")
        self.assertIn("first system, best-fit, does not fit, so they are no gains\n", text)
        self.assertEqual((row["over_misfit"], json.loads(done.stdout)["systems"][1]["over_misfit"]), (1, True))
        return misfit, text, row, named

    def test_too_much_for_a_gpu_names_stage_and_class(self):
        misfit, text, row, named = self.misfit(
            "gpu", "GPU memory", "peak_bytes", "--set", "model=llama-13b", "--set", "systems.0.plan.recompute=none",
            "--set", "systems.0.plan.cp=1")
        self.assertEqual(misfit["class"], named["peak_class"])
        self.assertEqual(misfit["stage"], row["peak_stage"])
        self.assertEqual(max("states activations kv kv_gradients workspace communication libraries".split(),
                             key=lambda name: row[f"{name}_bytes"]), misfit["class"])
        self.assertIn(f"best-fit does not fit: stage {misfit['stage']} needs", text)
        self.assertIn(f"(most of it {misfit['class']})", text)

    def test_too_much_for_the_host_names_node_stage_and_class(self):
        misfit, text, row, _ = self.misfit(
            "host", "host memory", "host_peak_bytes", "--set", "platform.host_memory=1GB", "--set",
            "systems.0.plan.offload=0.5")
        self.assertEqual(misfit["class"], "activations")
        self.assertEqual(misfit["available_bytes"], 1e9)
        self.assertEqual(misfit["stage"], row["host_stage"])
        self.assertIn(f"best-fit does not fit: node {row['host_node']} needs", text)
        self.assertIn(f"of host memory (offloaded activations, most of them of stage {misfit['stage']})", text)
        _, text, row, _ = self.misfit("both", "GPU memory", "peak_bytes", "--set", "platform.host_memory=1GB", "--set",
                                      "systems.0.plan.offload=0.1", "--set", "model=llama-13b", "--set",
                                      "systems.0.plan.recompute=none", "--set", "systems.0.plan.cp=1")
        self.assertIn("best-fit does not fit: stage", text)
        self.assertIn(f"best-fit does not fit: node {row['host_node']} needs", text)


class Platforms(unittest.TestCase):
    def test_platform__the_printed_xml_gives_the_results_of_the_keys(self):
        scenario = write("printed.yaml", SMALL.replace("critical-path", "both") + "all_tensor_ranks: true\n")
        shared = "nodes: 4\nnvlink: 200GBps\nnic: 400Gbps\npcie: 64GBps\nhost_memory: 1TB\noversubscription: 2\n"
        for keys in ("leaf: 32\n", "leaf: 2\n", "leaf: 2\ntopology: rail\n", "leaf: 1\ntopology: dragonfly\n"):
            file = write("keys.yaml", shared + keys)
            printed = run("platform", file)
            self.assertEqual((printed.returncode, printed.stderr), (0, ""))
            told = []
            for platform in (file, write("printed.xml", printed.stdout)):
                done = run("run", scenario, "--output", fresh("printed"), "--json", "--quiet", "--set", f"platform={platform}")
                self.assertEqual(done.returncode, 0, done.stderr)
                told.append(json.loads(done.stdout)["systems"])
            self.assertEqual(*told)

    def test_platform__a_wrong_name_or_file_is_told(self):
        for arguments, status, part in ((["hoper-2x8"], 2, "did you mean 'hopper'?"), ([], 64, "is missing"),
                                        (["a.xml"], 2, "is SimGrid's XML already"), (["absent.yaml"], 2, "absent.yaml: "),
                                        (["hopper", "--device", "x"], 2, "no device 'x'")):
            done = run("platform", *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), arguments)
            self.assertIn(part, done.stderr)

    def test_platform__lists_name_what_is_shipped(self):
        self.assertEqual(run("list", "platforms").stdout.split(), sorted(path.stem for path in (SOURCE / "platforms").glob("*.yaml")))
        for key in ("platform.name", "platform.nic", "platform.topology"):
            self.assertRegex(run("list", "keys").stdout, rf"(?m)^{re.escape(key)}  ")


class Plans(unittest.TestCase):
    def test_plan_is_json_and_holds_every_token_once(self):
        done = run("plan", write("small.yaml", SMALL), "--json", "--system", "slimpack")
        self.assertEqual(done.returncode, 0, done.stderr)
        (plan,) = json.loads(done.stdout)
        for direction in ("forward", "backward"):
            covered = {}
            for index, pipeline in enumerate(plan["phases"][0]["pipelines"]):
                for unit in pipeline[direction]:
                    if index in (unit["shared_by_pipelines"] or [index])[:1]:
                        for sample, begin, end, _ in unit["slices"]:
                            covered.setdefault(sample, []).append((begin, end))
            for sample, entry in enumerate(plan["samples"]):
                pieces = sorted(covered[sample])
                self.assertEqual(pieces[0][0], 0)
                self.assertEqual(pieces[-1][1], entry["tokens"])
                self.assertTrue(all(a[1] == b[0] for a, b in zip(pieces, pieces[1:])))

    def test_only_what_goes_to_the_host_streams(self):
        for stages, share in ((1, 0), (1, 0.5), (2, 0.5)):
            options = ("--set", f"systems.0.plan.pp={stages}", "--set", f"systems.0.plan.offload={share}")
            done = run("plan", write("small.yaml", SMALL), "--json", "--system", "best-fit", *options)
            (plan,) = json.loads(done.stdout)
            for pipeline in plan["phases"][0]["pipelines"]:
                self.assertEqual({unit["streams"] for unit in pipeline["forward"]}, {stages == 1 and share > 0})
                self.assertEqual({unit["streams"] for unit in pipeline["backward"]}, {False})


AUTO = SMALL.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: selective}", "plan: auto").replace(
    "plan: {tp: 2, pp: 2, recompute: selective}", "plan: auto, plan_space: {pp: [2, 4], offload: [0, 1]}")


class PlanSearch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = simulate("searched", scenario=AUTO)
        assert done.returncode == 0, done.stderr
        cls.report = json.loads(done.stdout)
        cls.path = SCRATCH / "searched" / "small.h5"

    def test_the_plan_that_runs_is_the_first_of_its_ranking(self):
        for system in self.report["systems"]:
            search, plan = system["plan_search"], system["plan"]
            chosen = search["ranking"][0]
            self.assertEqual(chosen["verdict"], "chosen")
            self.assertEqual({key: plan[key] for key in chosen["plan"]}, chosen["plan"])
            self.assertEqual(sum(search["verdicts"].values()), search["plans"])
            self.assertTrue(search["fits"] and system["fits"])
            runners_up = [row["time_s"] for row in search["ranking"] if row["verdict"] in ("chosen", "runner-up")]
            self.assertEqual(runners_up, sorted(runners_up))
            self.assertEqual(chosen["iterations"], 5)
            self.assertAlmostEqual(sum(row["weight"] for row in search["iterations"]), 1)

    def test_the_table_holds_every_plan_and_the_ranking(self):
        with h5py.File(self.path) as file:
            rows, deciding = file["plans"][:], file["deciding"][:]
        for index, system in enumerate(self.report["systems"]):
            own = rows[rows["system"] == index]
            self.assertEqual(len(own), system["plan_search"]["plans"])
            ranked = own[own["rank"] >= 0]
            self.assertEqual(list(ranked["rank"]), list(range(len(ranked))))
            self.assertEqual([row["time_s"] for row in system["plan_search"]["ranking"]], list(ranked["time_s"]))
            self.assertEqual([(row["iteration"], row["weight"], row["model_flop"])
                              for row in system["plan_search"]["iterations"]],
                             deciding[deciding["system"] == index][["iteration", "weight", "model_flop"]].tolist())
            self.assertTrue((own["bound_time_s"] > 0).all() and (own["bound_peak_bytes"] > 0).all())

    def test_same_scenario_same_bytes_and_the_resolved_one_the_same_numbers(self):
        simulate("searched-again", scenario=AUTO)
        self.assertTrue(filecmp.cmp(self.path, SCRATCH / "searched-again" / "small.h5", shallow=False))
        with h5py.File(self.path) as file:
            text = file.attrs["scenario"].decode()
        self.assertNotIn("auto", text)
        simulate("resolved", scenario=text)
        self.assertTrue(filecmp.cmp(self.path.with_suffix(".csv"), SCRATCH / "resolved" / "small.csv", shallow=False))
        with h5py.File(self.path) as file, h5py.File(SCRATCH / "resolved" / "small.h5") as again:
            self.assertEqual(set(file) - set(again), {"plans", "deciding"})
            self.assertEqual(again.attrs["scenario"].decode(), text)
            for table in again:
                self.assertEqual(file[table][()].tobytes(), again[table][()].tobytes(), table)

    def test_plan_prints_what_the_searched_plan_decides(self):
        done = run("plan", write("auto.yaml", AUTO), "--system", "slimpack")
        self.assertEqual(done.returncode, 0, done.stderr)
        system = json.loads(done.stdout)[0]
        layout = system["phases"][0]["pipelines"][0]["layout"]
        chosen = self.report["systems"][1]["plan"]
        self.assertEqual((layout["tp"], layout["pp"]), (chosen["tp"], chosen["pp"]))
        self.assertEqual(system["plan_search"]["ranking"][0]["verdict"], "chosen")

    def test_virtual_stages_and_sharding_are_printed_and_stored(self):
        for space, printed, vpp, sharding in (("{tp: 2, pp: 2, vpp: 2}", "TP2 PP2 CP1 DP4 VPP2 ", 2, "zero1"),
                                              ("{tp: 2, pp: 1, sharding: zero3}", "TP2 PP1 CP1 DP8 zero3 ", 1, "zero3")):
            space = space.replace("}", ", cp: 1, recompute: full, offload: 0}")
            path = write("wide.yaml", AUTO.replace("name: best-fit, plan: auto", f"name: best-fit, plan: auto, plan_space: {space}"))
            done = run("run", path, "--output", SCRATCH / "wide", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"\n  chosen     {printed}", done.stdout)
            with h5py.File(SCRATCH / "wide" / "small.h5") as file:
                plan, names = file["plans"][0], file["plans"].attrs["sharding_names"]
                self.assertEqual((plan["vpp"], names[plan["sharding"]].decode()), (vpp, sharding))
                self.assertEqual(file["summary"][0]["vpp"], vpp)

    def test_plan_space__is_found_beside_the_scenario(self):
        folder = fresh("beside")
        (folder / "spaces").mkdir(parents=True)
        (folder / "spaces" / "mine.yaml").write_text("tp: 2\npp: 2\ncp: 1\nrecompute: full\nsource: this test\n")
        path = folder / "auto.yaml"
        path.write_text(AUTO + "plan_space: {name: spaces/mine.yaml}\n")
        quick = ("--quiet", "--set", "engine=critical-path", "--set", "trace=summary", "--output", folder)
        done = run("run", path, *quick, cwd=SCRATCH)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(folder / "small.h5") as file:
            plans = [plan for plan in file["plans"] if plan["system"] == 0]
        self.assertEqual({(int(plan["tp"]), int(plan["pp"])) for plan in plans}, {(2, 2)})
        done = run("run", path, *quick, "--set", "plan_space.name=beside/spaces/mine.yaml", cwd=SCRATCH)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_plan_that_fits_is_a_result(self):
        done = simulate("none", "--set", "model=llama-150b", "--set", "platform=hopper-1x8", "--set", "trace=none",
                        "--set", "data.context=4Ki", "--set", "data.global_batch=8", "--set", "engine=critical-path",
                        scenario=AUTO)
        self.assertEqual(done.returncode, 0, done.stderr)
        for system in json.loads(done.stdout)["systems"]:
            self.assertFalse(system["fits"] or system["plan_search"]["fits"])
            self.assertGreater(system["plan_search"]["ranking"][0]["peak_bytes"], 80e9)

    def test_a_space_without_a_plan_is_invalid(self):
        done = simulate("empty", "--set", "systems.1.plan_space.pp=7", scenario=AUTO)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the plan space free holds no plan of slimpack", done.stderr)


class Costs(unittest.TestCase):
    def test_embedding_and_sequence_parallelism(self):
        """h 4096, V 32000, TP 2, 1024 tokens. Forward rows 4h and half of them set to zero 2h/2 a token; backward 3h a
        token and 12 bytes of each of V/2 h parameters. Off: each TP rank sends all 2h bytes a token to the next stage."""
        arguments = ("cost", "--model", "llama-7b", "--slice", "0:1Ki", "--tp", "2", "--json")
        both = [json.loads(run(*arguments, "--sequence-parallel", state).stdout) for state in ("on", "off")]
        self.assertEqual([cost["sequence_parallel"] for cost in both], [True, False])
        for cost in both:
            moved = [sum(kernel["hbm_bytes"] for kernel in cost[name]["kernels_of_the_embedding"])
                     for name in ("forward", "backward")]
            self.assertEqual(moved, [1024 * 5 * 4096, 1024 * 3 * 4096 + 12 * 16000 * 4096])
        self.assertEqual([cost["forward"]["boundary_bytes"] for cost in both], [1024 * 4096, 1024 * 2 * 4096])
        self.assertEqual(json.loads(run(*arguments).stdout), both[0])
        self.assertIn("must be one of off|on", run(*arguments, "--sequence-parallel", "maybe").stderr)

    def test_context_parallelism_is_that_of_the_type(self):
        """4096 tokens on two ranks, 32 layers, q = k = h = 4096. Ring and all-gather send half of 4k L bytes a layer, ulysses
        half of (2q + 2k) x 2 bytes of each of L/2 tokens; a contiguous ring brings all gradients home in fp32, 8k L. Rings'
        transfers are tasks of their own, not seconds here."""
        arguments = ("cost", "--model", "llama-7b", "--slice", "0:4Ki", "--cp", "2", "--json")
        costs = {kind: json.loads(run(*arguments, "--cp-type", kind).stdout)
                 for kind in ("ring", "all-gather", "ulysses", "ring-contiguous")}
        self.assertEqual({kind: cost["cp_type"] for kind, cost in costs.items()}, {kind: kind for kind in costs})
        sent = 32 * 4096 * 4 * 4096 // 2
        self.assertEqual([cost["forward"]["ring_bytes"] for cost in costs.values()], [sent, sent, sent, sent])
        self.assertEqual([cost["backward"]["ring_bytes"] for cost in costs.values()], [2 * sent, 2 * sent, sent, 5 * sent])
        self.assertEqual([cost["forward"]["context_s"] > 0 for cost in costs.values()], [False, True, True, False])
        slower = [costs[kind]["forward"]["attention_s"] for kind in ("ring", "ring-contiguous")]
        self.assertAlmostEqual(slower[1] / slower[0], 2 - 1 / 2, delta=0.15)
        self.assertEqual(json.loads(run(*arguments).stdout), costs["ring"])
        self.assertIn("CP 2 (ulysses)", run(*arguments[:-1], "--cp-type", "ulysses").stdout)
        self.assertIn("--cp-type must be one of ring|", run(*arguments, "--cp-type", "star").stderr)
        for more, told in ((("--cp-type", "ulysses", "--cp", "64"), "ulysses needs tp x cp = 1 x 64 to divide the 32 heads"),
                           (("--tp", "16"), "--tp: 16 does not divide the 8 GPUs of a node of hopper-16x8")):
            done = run(*arguments, *more)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(told, done.stderr)

    def test_the_kernels_of_every_pass_are_its_seconds(self):
        cost = json.loads(run("cost", "--model", "gpt3-175b", "--slice", "0:1Ki", "--layers", "1", "--json").stdout)
        for name in ("forward", "backward", "input", "weight"):
            for kernels, seconds in (("of_a_layer", "layers_s"), ("of_the_embedding", "embedding_s"), ("of_the_head", "head_s")):
                listed_s = sum(kernel["seconds"] for kernel in cost[name][f"kernels_{kernels}"])
                self.assertAlmostEqual(listed_s, cost[name][seconds], delta=1e-9 * listed_s, msg=(name, kernels))

    def test_several_slices_are_one_unit(self):
        """Model FLOPs add up; a GEMM of all tokens is one kernel, of the time of as many tokens in one slice."""
        def cost(*slices, kernels="fused"):
            named = [word for text in slices for word in ("--slice", text)]
            return json.loads(run("cost", "--model", "llama-7b", *named, "--kernels", kernels, "--json").stdout)

        def gemm_s(result):
            return [kernel["seconds"] for kernel in result["forward"]["kernels_of_a_layer"] if "GEMM" in kernel["name"]]

        first, second, unit = cost("0:1Ki"), cost("8Ki:9Ki"), cost("0:1Ki", "8Ki:9Ki")
        self.assertEqual(unit["slices"], [[0, 1024], [8192, 9216]])
        for name, flop in unit["flop"].items():
            self.assertEqual(flop, first["flop"][name] + second["flop"][name], name)
        self.assertEqual(gemm_s(unit), gemm_s(cost("0:2Ki")))
        self.assertGreater(cost("0:1Ki", kernels="eager")["forward"]["layers_s"], first["forward"]["layers_s"])
        self.assertIn("tokens [0, 1024), [8192, 9216) of 2 samples",
                      run("cost", "--model", "llama-7b", "--slice", "0:1Ki", "--slice", "8Ki:9Ki").stdout)
        self.assertEqual(run("cost", "--model", "gpt3-175b", "--slice", "0:1Ki", "--slice", "1Ki:2049").returncode, 2)

    def test_what_is_not_exact_is_not_printed(self):
        done = run("cost", "--model", "gpt3-175b", "--slice", "1Ki:2049")
        self.assertEqual(done.returncode, 2)
        self.assertIn("learned positions for 2048 tokens, fewer than END, 2049", done.stderr)
        done = run("cost", "--model", "llama-7b", "--slice", "0:4Mi")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--layers", done.stderr)
        self.assertEqual(run("cost", "--model", "llama-7b", "--slice", "0:8Mi", "--layers", "1").returncode, 0)


class SeventyBillion(unittest.TestCase):
    """Llama-2 70B on 256 H100, TP8 PP4 DP8, 1024 x 4096 tokens: the answer names everything that moves it."""

    def simulate(self, *arguments):
        done = run("run", SOURCE / "scenarios" / "llama2-70b.yaml", "--json", "--quiet", "--output", SCRATCH / "70b",
                   "--set", "engine=critical-path", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        return report["systems"][0], "\n".join(report["assumed"])

    def test_everything_that_moves_the_answer_is_stated(self):
        system, assumed = self.simulate()
        self.assertEqual([system["plan"][degree] for degree in ("tp", "pp", "cp", "dp")], [8, 4, 1, 8])
        self.assertAlmostEqual(system["tokens_per_s_per_gpu"] * system["iteration_mean_s"] * 256, 1024 * 4096, delta=1)
        self.assertTrue(10 < system["iteration_mean_s"] < 30)
        for topic in ("attention kernel: cuDNN", "curves of device h100-sxm", "tensor-parallel collectives",
                      "sequence parallelism on", "beyond the shapes the curves were fitted to",
                      "gradient and parameter traffic", "cross-entropy fused", "no dropout, no biases",
                      "NVLink 450 GB/s, NIC 50 GB/s, PCIe 64 GB/s", "bf16 peak 989.4 TFLOP/s", "memory of a GPU",
                      "4096 tokens and 0 of padding a micro-batch, 128 micro-batches a",
                      "micro_batch 1", "1 virtual stage a rank (vpp), layers of the virtual stages: 20 x 4", "recompute none",
                      "offload 0%", "optimizer states (zero1) on 8 of 8 DP x CP ranks", "gradients fp32"):
            self.assertIn(topic, assumed)

    def test_what_is_set_is_what_is_stated_and_moves_the_answer(self):
        plain, _ = self.simulate()
        changes = {
            "attention=flash2": "attention kernel: flash-attention 2",
            "systems.0.plan.recompute=full": "recompute full,",
            "systems.0.plan.vpp=5": "5 virtual stages a rank (vpp), layers of the virtual stages: 4 x 20",
            "systems.0.plan.gradients=bf16": "gradients bf16",
            "systems.0.plan.sharding=none": "all states (none) on 1 of 8",
            "systems.0.plan.shard_group=2": "(zero1) on 2 of 8",
            "systems.0.plan.first_stage_layers=17": "17 x 1, 21 x 3",
            "systems.0.knobs.micro_batch=2": "8192 tokens and 0 of padding a micro-batch, 64 micro-batches",
            "platform=hopper-32x8": "NVLink 200 GB/s",
            "systems.0.plan.sequence_parallel=false": "collectives: without sequence parallelism two all-reduces a pass "
                                                      "and layer, those of the backward beside GEMMs",
        }
        for change, stated in changes.items():
            system, assumed = self.simulate("--set", change)
            self.assertIn(stated, assumed)
            self.assertNotEqual(system["iteration_mean_s"], plain["iteration_mean_s"], change)

    def test_freed_gradients_are_stated_and_move_memory_alone(self):
        plain, before = self.simulate()
        system, assumed = self.simulate("--set", "systems.0.plan.gradient_buffers=freed")
        self.assertNotIn("freed by the optimizer", before)
        self.assertIn("gradients fp32, freed by the optimizer", assumed)
        self.assertEqual(system["iteration_mean_s"], plain["iteration_mean_s"])
        self.assertEqual(system["plan"]["gradient_buffers"], "freed")
        self.assertEqual(plain["plan"]["gradient_buffers"], "kept")
        freed, kept = (sum(one["peak_bytes_by_class"].values()) for one in (system, plain))
        self.assertTrue(0.99 * kept < freed <= kept)  # 16 micro-batches: all but the first have all gradients


class Validation(unittest.TestCase):
    def validate(self, *arguments):
        return run("validate", "--quiet", "--output", SCRATCH / "validation", *arguments)

    def test_rows_statistics_file_and_picture_agree(self):
        done = self.validate("--json", "--filter", "framework=NeMo/Megatron-Core")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        rows = [row for row in report["rows"] if row["quantity"] == "tokens/s/GPU"]
        errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
        self.assertEqual(errors, sorted(errors, reverse=True))
        counted = [error for row, error in zip(rows, errors) if not row["calib"]]
        (all_rows,) = [entry for entry in report["statistics"] if entry["quantity"] == "tokens/s/GPU" and
                       entry["source"] == entry["device"] == "all" and not entry["full_plan"] and
                       not entry["calib"]]
        self.assertEqual(all_rows["rows"], len(counted))
        self.assertAlmostEqual(all_rows["mape"], sum(counted) / len(counted), delta=1e-12)
        apart = [entry["rows"] for entry in report["statistics"] if entry["quantity"] == "tokens/s/GPU" and entry["calib"]]
        self.assertEqual(apart, [len(rows) - len(counted)])
        self.assertTrue(all("attention" in row["assumed"] for row in rows if row["model"] == "Llama-3.1-8B"))
        self.assertTrue(report["skipped"] and all(row["skipped"] for row in report["skipped"]))
        path = SCRATCH / "validation" / "validation.h5"
        with h5py.File(path) as file:
            table = file["validation"][:]
            ids = [file["rows"][row["row"]].decode() for row in table if row["quantity"] == 0]
            self.assertEqual(sorted(ids), sorted(row["row"] for row in rows))
        pictures = [SCRATCH / "validation" / name for name in ("validation.png", "validation.svg")]
        subprocess.run([sys.executable, SOURCE / "analysis" / "validation.py", path, "--output", *pictures], check=True)
        self.assertTrue(all(picture.stat().st_size > 1000 for picture in pictures))

    def test_the_worst_rows_come_with_a_cause_where_one_is_known(self):
        """A line on the cause under each of the ten worst rows that has one, under no other."""
        report, done = (self.validate(*form, "--filter", "model=MPT-13B") for form in (["--json"], []))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [row for row in json.loads(report.stdout)["rows"] if row["quantity"] == "tokens/s/GPU"]
        self.assertGreater(len(rows), 10)
        expected = []
        for number, row in enumerate(rows):
            expected += [row["row"]] + (["why:"] if number < 10 and "cause" in row else [])
        self.assertIn("why:", expected)
        self.assertNotEqual(expected.count("why:"), 10)
        lines = done.stdout.splitlines()[2:]
        self.assertEqual([line.split()[0] for line in lines[:len(expected)]], expected)
        said = [line.removeprefix("      why: ") for line in lines if line.startswith("      why: ")]
        self.assertEqual(said, [row["cause"] for row in rows[:10] if "cause" in row])

    def test_what_a_row_does_not_say_is_stated_behind_it(self):
        report = self.validate("--filter", "model=InternLM-7B")
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertIn("assumed: missing sizes of model/llm/internlm-7b.yaml", report.stdout)

    def test_published_runs_fit_and_say_how_full_they_are(self):
        """350M: 16 bytes of each parameter over 8 GPUs are 0.7 GB; 32768 tokens of 24 layers x 32 x 1024 bytes 25.8 GB,
        their logits of 50368 and their gradient, 2 bytes each, 6.6 GB: together 33.1 GB of the 39.46 that a rank may use."""
        done, report = (self.validate(*form, "--filter", "model=MPT-350M") for form in ([], ["--json"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(report.stdout)["rows"]
        self.assertTrue(all(row["fits"] for row in rows))
        self.assertIn(f"predicted not to fit, though they ran: 0 of {len(rows)} runs\n", done.stdout)
        self.assertRegex(done.stdout, r"predicted at least 85% full, trust A and A-: \d+ runs, \d+ of them")
        (row,) = [row for row in rows if row["row"] == "O151"]
        self.assertAlmostEqual(row["peak_bytes"] / 33.1e9, 1, delta=0.02)
        share = 100 * row["peak_bytes"] / row["memory_bytes"]
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("O151")]
        self.assertIn(f"{share:8.1f}%", line)
        with h5py.File(SCRATCH / "validation" / "validation.h5") as file:
            table = file["validation"][:]
            self.assertEqual(set(table["misfit"]), {0})
            self.assertIn(row["peak_bytes"], table["peak_bytes"])

    def test_runs_that_only_fitted_or_not_are_counted(self):
        """One sequence a GPU of a small model fits, 256 do not (128 GiB): two rows say so, two say otherwise. A row with a
        throughput did fit; one that says no beside it, or something else, is skipped."""
        head = ("id,gpu,framework,model,hidden,layers,heads,kv_groups,ffn,vocab,activation,seq_len,n_gpus,tp,pp,dp,sharding,"
                "mbs,gbs,precision,fitted,tps_per_gpu\n")
        row = "%s,H100-SXM-80GB,titan,tiny,1024,4,8,8,4096,32000,gelu,2048,8,1,1,8,ZeRO-1,%d,2048,bf16,%s,%s\n"
        cells = [("A", 1, "yes", ""), ("B", 256, "No", ""), ("C", 1, "no", ""), ("D", 256, "yes", ""), ("E", 1, "", "100"),
                 ("F", 1, "no", "100"), ("G", 1, "OOM", "")]
        path = write("fitted.csv", head + "".join(row % cell for cell in cells))
        report = json.loads(self.validate("--json", path).stdout)
        self.assertEqual(report["outcomes"], {"rows": 5, "right": 3, "ran_out_of_memory": 2, "fitted_predicted_not_to": 1,
                                              "ran_out_predicted_to_fit": 1})
        told = [(one["row"], one["measured"], one["predicted"], one["error"]) for one in report["rows"]
                if one["quantity"] == "fitted"]
        self.assertEqual(told, [("C", 0, 1, 1), ("D", 1, 0, -1), ("A", 1, 1, 0), ("B", 0, 0, 0)])
        self.assertEqual({one["quantity"] for one in report["statistics"]}, {"tokens/s/GPU"})
        self.assertEqual({one["row"]: one["skipped"] for one in report["skipped"]},
                         {"F": "fitted is no, though the row has a measured value", "G": "fitted 'OOM' is neither yes nor no"})
        self.assertNotIn("unread_columns", report)
        lines = self.validate(path).stdout.splitlines()
        for line in ("whether runs fit: 3 of 5 predicted right", "predicted not to fit, though they ran: 1 of 3 runs: D",
                     "predicted to fit, though they ran out of memory: 1 of 2 runs: C"):
            self.assertIn(line, lines)
        (line,) = [line for line in lines if line.startswith("C ")]
        self.assertRegex(line, r" yes +no +wrong +\d+\.\d%  FITS, THOUGH IT RAN OUT OF MEMORY")

    def test_a_file_of_ones_own_is_listed_with_what_it_lacks(self):
        path = write("own.csv", "id,hidden,step_time_s\nX1,4096,2.5\n")
        done = self.validate(path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("layers is missing", done.stdout)
        self.assertIn("skipped: 1 of 1 rows", done.stdout)

    def test_wrong_files_and_filters_are_invalid(self):
        done = self.validate(write("other.csv", "id,x\n1,2\n"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("other.csv: has neither a column 'model' nor 'hidden'", done.stderr)
        for text in ("id,x\n1\n", "id,x\n1,\"2\n"):
            done = self.validate(write("wrong.csv", text))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("wrong.csv:2: ", done.stderr)
        self.assertIn("did you mean 'model'", self.validate("--filter", "modle=x").stderr)
        self.assertEqual(self.validate(SCRATCH / "nowhere.csv").returncode, 2)

    def test_a_cause_that_is_too_long_or_for_no_number_is_refused(self):
        shutil.copytree(SOURCE / "model", fresh("data") / "model")
        causes = SCRATCH / "data/model/validation/causes.csv"
        text = causes.read_text()
        causes.write_text(text + "X1,,,,,,," + "x" * 256 + "\n")
        done = run("validate", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"causes.csv:{text.count(chr(10)) + 1}: cause has 256 bytes; at most 255", done.stderr)
        causes.write_text(text + "X1,,,,,,64k,long\n")
        done = run("validate", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertIn(f"causes.csv:{text.count(chr(10)) + 1}: seq_from: '64k' is not a number", done.stderr)

    def test_a_broken_device_stops_all_rows(self):
        shutil.copytree(SOURCE / "model", fresh("data") / "model")
        device = SCRATCH / "data/model/gpu/h100-sxm.yaml"
        device.write_text(device.read_text().replace(", persistent_gemms: true", ""))
        done = run("validate", "--filter", "model=Llama-3.1-8B", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})
        self.assertEqual(done.returncode, 2, done.stdout[-300:])
        self.assertIn("training.persistent_gemms: is required", done.stderr)


class Calibrate(unittest.TestCase):
    """Fitting itself is checked in test_calibrate.c."""

    HEADER = "id,kind,split,gpu,dtype,library,op,pass,m,n,k,batch,seq_len,heads,head_dim,causal,shape_note,time_ms,tflops,gbps\n"

    def test_a_device_without_rows_is_a_copy_that_can_be_used(self):
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        device = SCRATCH / "calibrated.yaml"
        done = run("calibrate", kernels, "--device", "h800", "--output", device)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "no row is fitted to, as h800 names no rows: all curves are those of h100-sxm\n"))
        self.assertIn("gemm                       copied from h100-sxm", done.stdout)
        printed = run("calibrate", kernels, "--device", "h800")
        self.assertEqual(printed.stdout, device.read_text())
        again = run("calibrate", kernels, "--device", device)
        self.assertEqual(again.stdout, printed.stdout)
        cost = lambda name: run("cost", "--model", "llama-7b", "--device", name, "--platform", "hopper-2x8", "--slice", "0:4Ki")
        self.assertEqual(cost(device).stdout, cost("h800").stdout)

    def test_rows_that_no_curve_takes_are_named(self):
        """A GEMM by a misspelt kind, one without a time, and a norm whose curve needs more rows than one."""
        own = write("own.yaml", (SOURCE / "model/gpu/h800.yaml").read_text().replace("like:", 'rows: "H800"\nlike:', 1))
        gemms = [f"K{m},gemm,calib,H800,bf16,,gemm,,{m},4096,4096,,,,,,,{m / 4096},,\n" for m in range(1024, 1034)]
        others = ["L1,gem,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,1,,\n", "L2,gemm,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,,,\n",
                  "L5,memory-bound,calib,H800,bf16,cudnn,rms_norm,fwd,4096,4096,,,,,,,,0.1,,\n",
                  "L6,gemm,open,H800,bf16,,gemm,,4096,4096,4096,,,,,,,,,\n"]
        kernels = write("kernels.csv", self.HEADER + "".join(gemms + others))
        done = run("calibrate", kernels, "--device", own, "--output", SCRATCH / "left.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, f"{kernels}: 3 of the device's 13 rows of split calib are in no curve: L1-L2 L5; what is "
                                      "taken: docs/model.md, Calibrate\n")
        self.assertIn("memory.norm                copied from h100-sxm: 1 of at least 2 rows\n", done.stdout)

    def test_rows_without_an_identifier_are_named_by_their_line(self):
        """A thousand has its comma; a cell with letters behind its number is none."""
        own = write("own.yaml", (SOURCE / "model/gpu/h800.yaml").read_text().replace("like:", 'rows: "H800"\nlike:', 1))
        gemms = [f'gemm,calib,H800,"{m:,}",4096,4096,{m / 4096}\n' for m in range(1024, 1034)]
        kernels = write("kernels.csv", "kind,split,gpu,m,n,k,time_ms\n" + "".join(gemms) + "gemm,calib,H800,64x,4096,4096,1\n")
        done = run("calibrate", kernels, "--device", own, "--output", SCRATCH / "left.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of the device's 11 rows of split calib are in no curve: line 12; what is taken", done.stderr)
        self.assertIn("m_min: 1024\n", (SCRATCH / "left.yaml").read_text())

    def test_shipped_rows_give_the_shipped_devices(self):
        """Each device's file, byte for byte, from the rows in model/validation; docs/model.md has the command."""
        rows = SOURCE / "model" / "validation"
        training = ",".join(str(rows / name) for name in ("training_h100.csv", "training_a100.csv", "layers.csv"))
        devices = sorted((SOURCE / "model" / "gpu").glob("*.yaml"))
        self.assertGreaterEqual(len(devices), 5)
        for device in devices:
            output = SCRATCH / device.name
            done = run("calibrate", rows / "kernels.csv", rows / "collectives.csv", "--training", training,
                       "--device", device.stem, "--output", output)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(output.read_text(), device.read_text(), device.name)

    def test_wrong_files_and_devices_are_refused(self):
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        own = write("own.yaml", (SOURCE / "model/gpu/h800.yaml").read_text().replace("like:", 'rows: "H800"\nlike:', 1))
        fast = write("fast.csv", self.HEADER + "K1,gemm,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,0.1,,\n")
        collectives = SOURCE / "model/validation/collectives.csv"
        misspelt = write("misspelt.csv", self.HEADER + "K1,gem,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,1,,\n")
        for arguments, status, message in [
            ((kernels, "--device", "h801"), 2, "no device 'h801'; did you mean 'h800'?"),
            ((SCRATCH / "nowhere.csv", "--device", "h800"), 2, "nowhere.csv: cannot be read"),
            ((kernels, "--device", own), 2, "kernels.csv: no row is of this device; rows count where split is calib"),
            ((fast, "--device", own), 2, "fast.csv:2: K1: 1374 TFLOP/s, more than the peak of h800, 989.4 TFLOP/s"),
            ((misspelt, "--device", own), 2, "no curve can be fitted to the 1 rows of this device"),
            ((kernels,), 64, "--device NAME"),
            ((kernels, "--device", "h800", "--output", ""), 64, "--output needs the name of a file"),
            ((kernels, "--device", "h800", "--output", SCRATCH), 73, "Is a directory"),
            ((kernels, "--device", "h800", "--output", "/dev/full"), 73, "it is not a regular file"),
            (("/dev/full", "--device", "h800"), 2, "/dev/full:1: a line of more than 1048576 bytes"),
            ((collectives, "--device", "h800"), 2, "collectives.csv: has no column 'kind': no table of measured kernels"),
            ((kernels, kernels, "--device", "h800"), 2, "kernels.csv: has no column 'collective'"),
            ((kernels, "--device", "h800", "--training", kernels), 2, "kernels.csv: has no column 'model'"),
            ((kernels, "--device", "h800", "--training", ","), 2, "--training: no file is named"),
            ((kernels, "--device", "h100-sxm"), 2, "h100-sxm: memory.norm: 0 rows of split calib are of this device"),
            ((kernels, "--device", "h800", "--output", SCRATCH / "no" / "such" / "folder"), 73, "cannot create"),
        ]:
            done = run("calibrate", *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""))
            self.assertIn(message, done.stderr)


    def test_a_device_that_cannot_be_written_is_as_before(self):
        """Where a file may have 4 KiB; a link is followed."""
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        text = (SOURCE / "model/gpu/h800.yaml").read_text()
        own, link = write("kept.yaml", "# mine\n" + text), SCRATCH / "link.yaml"
        link.unlink(missing_ok=True)
        link.symlink_to(own)
        small = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$@"', "", PROGRAM, "calibrate", kernels, "--device", own,
                                "--output", link], capture_output=True, text=True, timeout=60)
        self.assertEqual((small.returncode, small.stdout), (74, ""), small.stderr)
        self.assertIn("File too large", small.stderr)
        self.assertEqual((own.read_text(), list(SCRATCH.glob("kept.yaml.*"))), ("# mine\n" + text, []))
        self.assertEqual(run("calibrate", kernels, "--device", own, "--output", link).returncode, 0)
        self.assertTrue(link.is_symlink() and own.read_text().startswith("# mine\n") and own.read_text() != "# mine\n" + text)


class Messages(unittest.TestCase):
    def refuse(self, expected, scenario=SMALL, *arguments):
        done = simulate("refused", *arguments, scenario=scenario)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for part in expected:
            self.assertIn(part, done.stderr)
        return done.stderr

    def test_all_mistakes_are_named_in_one_pass_with_their_places(self):
        text = SMALL.replace("seed: 7", "sed: 7").replace("global_batch: 48", "global_batch: many")
        self.refuse(["small.yaml:7:", "sed", "seed", "small.yaml:5:", "many"], text)

    def test_a_file_of_another_kind_is_one_sentence(self):
        model, device, scenario = SOURCE / "model/llm/llama-7b.yaml", SOURCE / "model/gpu/h800.yaml", write("other.yaml", SMALL)
        for arguments, named in ((("cost", "--slice", "0:8", "--model", device), device),
                                 (("run", scenario, "--set", f"model={scenario}"), scenario),
                                 (("run", scenario, "--set", f"device={model}"), model)):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"{named}:", done.stderr)
            self.assertIn("a file of another kind: of its keys ", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for other in (model, device):  # platform and systems, which are read by themselves, are missing, too
            done = run("run", other)
            self.assertIn(f"{other}:2:1: a file of another kind: of its keys ", done.stderr)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 3), done.stderr)

    def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(self):
        pipes = {ending: SCRATCH / f"pipe{ending}" for ending in (".yaml", ".xml", ".txt", ".csv", ".npy", ".h5", ".journal")}
        for pipe in pipes.values():
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        scenario = write("waits.yaml", SMALL)
        for ending, *arguments in ((".yaml", "run", pipes[".yaml"]), (".yaml", "run", scenario, "--set", f"model={pipes['.yaml']}"),
                                   (".xml", "run", scenario, "--set", f"platform={pipes['.xml']}"),
                                   (".h5", "export", pipes[".h5"], "--chrome"), (".journal", "merge", pipes[".journal"]),
                                   *((ending, "lengths", scenario, "--set", f"data.lengths={pipes[ending]}")
                                     for ending in (".txt", ".csv", ".npy", ".h5"))):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(f"{pipes[ending]}: is not a regular file", done.stderr)
        done = subprocess.run([PROGRAM, "run", "/dev/stdin"], input=SMALL, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/dev/stdin: is not a regular file", done.stderr)

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        lengths = write("escape.csv", "tokens\n12\x1b[2J\r\x08\n")
        done = run("lengths", write("escape.yaml", SMALL), "--set", f"data.lengths={lengths}")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^slimsim: [^\n]*escape.csv:2: '12\?\[2J[^\n]*\n$")
        self.assertNotRegex(done.stderr, "[\x00-\x09\x0b-\x1f\x7f]")

    def test_a_platform_on_which_simgrid_crashes_is_invalid(self):
        """SimGrid 3.32 dies of SIGSEGV where a zoneRoute stands twice."""
        text = run("platform", "hopper-2x8").stdout
        route = re.search(r" *<zoneRoute .*\n", text)[0]
        path = write("twice.xml", text.replace(route, 2 * route, 1))
        done = run("run", write("twice.yaml", SMALL), "--output", fresh("twice"), "--set", f"platform={path}")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^slimsim: \S+twice.xml: SimGrid cannot use this platform: .*\n$")

    def test_a_name_from_the_file_is_whole_or_refused(self):
        text = SMALL.replace("name: small\n", "")
        for stem, status in (("n" * 63, 0), ("n" * 64, 2)):
            done = run("lengths", write(f"{stem}.yaml", text))
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(f"{stem}.yaml: name: is not given, and that of the file is longer than 63 bytes", done.stderr)

    def test_faults_name_what_exists(self):
        for fault, expected in (("{kind: gpu, factor: 2}", ["one of gpus, nodes and share"]),
                                ("{kind: gpu, gpus: 1, nodes: 0, factor: 2}", ["one of gpus, nodes and share"]),
                                ("{kind: gpu, gpus: [3, 16], factor: 2}", ["GPU 16", "0 to 15"]),
                                ("{kind: nic, nodes: 2, factor: 2}", ["node 2", "0 to 1"]),
                                ("{kind: nic, gpus: 2, factor: 0.5}", ["factor", "0.5", "1 to 1000000"]),
                                ("{kind: disk, gpus: 2, factor: 2}", ["disk", "gpu, nvlink, nic, pcie"]),
                                ("{kind: gpu, share: 0.01, factor: 2}", ["0.01", "0.03125 to 1"]),
                                ("{kind: gpu, gpus: 2, seed: 1, factor: 2}", ["seed", "share"]),
                                ("{kind: gpu, gpus: 2}", ["factor"]),
                                ("{kind: gpu, leaves: 0, factor: 2}", ["kind gpu", "one of gpus, nodes and share"]),
                                ("{kind: uplink, gpus: 2, factor: 2}", ["kind uplink", "one of nodes and share"]),
                                ("{kind: uplink, nodes: 2, factor: 2}", ["node 2", "0 to 1"]),
                                ("{kind: spine, leaves: 0, factor: 2}", ["hopper-2x8", "up<leaf>_u", "spine"]),
                                ("{kind: uplink, nodes: 1, factor: 2}", ["all_tensor_ranks: true"])):
            self.refuse(["small.yaml:", *expected], SMALL + f"faults:\n  - {fault}\n")
        self.refuse(["faults", "list"], SMALL + "faults: {kind: gpu}\n")
        uplink = "faults: [{kind: uplink, nodes: 1, factor: 2}]\n"
        self.refuse(["uplink", "simgrid or both"], SMALL.replace("engine: both", "engine: critical-path") + uplink)

    def test_missing_names(self):
        self.refuse(["small.yaml:5:17: data.lengths", "'4x'"], SMALL.replace("lengths: github", "lengths: 8Ki 4x"))
        self.refuse(["best-fat", "best-fit"], SMALL.replace("name: best-fit", "name: best-fat"))
        self.refuse(["asymetric", "asymmetric"], SMALL.replace("slimpack, ", "slimpack, knobs: {asymetric: no}, "))
        auto = re.sub(r"plan: \{.*\}\}", "plan: auto}", SMALL) + "plan_space: {name: fre}\n"
        said = self.refuse(["plan_space.name", "did you mean 'free'"], auto)
        self.assertEqual(said.count("plan_space.name"), 1, "a mistake of both systems is told once")

    def test_systems_are_checked_before_any_of_them_runs(self):
        text = SMALL.replace("name: best-fit", "name: best-fat").replace("selective}}\n", "selective}, knobs: {x: 1}}\n")
        self.refuse(["small.yaml:11:", "best-fat", "small.yaml:12:", "knobs.x: unknown key"], text, "--set", "systems.0.knobs={}")
        self.refuse(["small.yaml:12:", "plan.cp: 2"], SMALL.replace("slimpack, plan: {", "slimpack, plan: {cp: 2, "))
        self.refuse(["small.yaml:12:", "plan.vpp: 2"], SMALL.replace("slimpack, plan: {", "slimpack, plan: {vpp: 2, "))
        self.refuse(["small.yaml:12:", "plan.schedule: slimpack has an order of its own"],
                    SMALL.replace("slimpack, plan: {", "slimpack, plan: {schedule: gpipe, "))
        offload = SMALL.replace("slimpack, plan: {", "slimpack, plan: {offload: 0.5, ")
        self.refuse(["small.yaml:12:", "plan.offload: 0.5, but slimpack takes only 0"], offload)
        self.assertEqual(run("plan", write("small.yaml", offload), "--set", "systems.1.knobs.offload=plan").returncode, 0)

    HUGE = SMALL.replace("global_batch: 48", "global_batch: 65536")
    LONG = (  # one iteration takes minutes: on SimGrid; in the plan of a system; while plans are searched
        HUGE.replace("both", "simgrid"),
        HUGE.replace("both", "critical-path").replace("slimpack,", "wlb-llm,"),
        HUGE.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: selective}", "plan: auto").replace("2x8", "512x8"))

    def test_signals_end_a_run_at_once_and_leave_nothing(self):
        for case, (number, text) in enumerate(zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self.LONG)):
            folder = fresh(f"stopped-{case}")
            process = subprocess.Popen([PROGRAM, "run", write("long.yaml", text), "--output", folder],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            begin = time.monotonic()
            while (time.monotonic() - begin < 1 or (case == 0 and not children(process.pid)) or
                   (case < 2 and not list(folder.glob("*.tmp-*")))):
                self.assertIsNone(process.poll(), case)
                time.sleep(0.01)
            self.assertEqual(len(list(folder.glob("*.tmp-*"))), case < 2)  # a search comes before the files
            below, begin = children(process.pid), time.monotonic()
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, AT_ONCE_S, case)
            self.assertEqual((process.returncode, output), (128 + number, ""), errors)
            self.assertIn(f"stopped by signal {number}\n", errors)
            self.assertFalse(alive(below))
            self.assertEqual(list(folder.iterdir()) if folder.exists() else [], [])

    def test_bad_set_is_invalid_and_unknown_option_is_usage(self):
        self.refuse(["sede"], SMALL, "--set", "sede=1")
        self.refuse(["nonsense"], SMALL, "--set", "nonsense")
        self.assertEqual(run("run", write("small.yaml", SMALL), "--frobnicate").returncode, 64)
        done = run("frobnicate")
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]), (64, "slimsim: unknown command 'frobnicate'"))
        self.assertIn("did you mean 'validate'?", run("vaildate").stderr)

    def test_every_command_has_help_and_version_and_takes_no_option_that_it_does_not_read(self):
        version = run("--version").stdout
        listed = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.MULTILINE)
        self.assertGreater(len(listed), 10)
        for command in listed:
            self.assertEqual(run(command, "--version").stdout, version)
            done = run(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(f"Usage: slimsim {command} [OPTION...]"), done.stdout)
            for option in ("--set=seed=1", "--output=x", "--json"):
                if option.rsplit("=", 1)[0].split("=")[0] not in done.stdout:
                    refused = run(command, option, "x")
                    self.assertEqual((refused.returncode, refused.stdout), (64, ""), (command, option))

    def test_an_installed_program_takes_the_data_beside_it(self):
        prefix = fresh("installed")
        (prefix / "bin").mkdir(parents=True)
        (prefix / "share/slimsim/model/llm").mkdir(parents=True)
        (prefix / "share/slimsim/model/llm/only-here.yaml").write_text("")
        shutil.copy(PROGRAM, prefix / "bin/slimsim")
        done = subprocess.run([prefix / "bin/slimsim", "list", "models"], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (0, "only-here\n"), done.stderr)

    def test_the_manual_and_completion_are_made_of_the_help(self):
        folder = SOURCE / "src/cli"
        page = subprocess.run([folder / "manual.sh", PROGRAM], capture_output=True, text=True, timeout=60)
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        for part in ("slimsim \\- A discrete\\-event simulator", ".SH SLIMSIM merge", "\\-\\-fail\\-fast", "Exit status: 0"):
            self.assertIn(part, page.stdout)
        for words, expected in (("slimsim ru", "run"), ("slimsim run --js", "--json"), ("slimsim list mo", "models"),
                                ("slimsim submit --ti", "--time= --time-limit="), ("slimsim submit --a", ""),
                                ("slimsim run --set k", "kernels="),
                                ("slimsim run --set data.l", "data.lengths= data.long_documents=")):
            script = (f'source {folder}/completion.bash; compopt() {{ :; }}; COMP_WORDS=({words}); '
                      'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _slimsim; echo ${COMPREPLY[*]}')
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"})
            self.assertEqual((done.stdout, done.stderr), (expected + "\n", ""), words)

    def test_what_is_no_table_is_told(self):
        simulate("tables", "--set", "trace=summary")
        done = run("export", SCRATCH / "tables" / "small.h5", "--csv", "iteration")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("did you mean 'iterations'? there are summary, iterations, stages, plans,", done.stderr)
        done = run("best", SCRATCH / "tables" / "small.csv")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("not the table of a sweep, which has the columns status", done.stderr)
        done = run("best", SCRATCH / "tables" / "small.h5")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("takes the table beside it", done.stderr)
        done = run("export", SCRATCH / "tables" / "small.h5", "--dag", "dot")
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn("--dag takes a scenario", done.stderr)

    def test_output_that_cannot_be_made(self):
        write("file", "")
        done = simulate("file/below")
        self.assertEqual(done.returncode, 73, done.stderr)
        reasons = [simulate(f"/sys{below}").stderr.rpartition(": ")[2] for below in ("/new", "/new/below")]
        self.assertEqual(reasons[0], reasons[1])  # that of the folder that could not be made, not of those below it


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run scenarios and read the report, the log and the trace."""
import csv
import filecmp
import json
import pathlib
import re
import subprocess
import sys
import unittest

import h5py
import networkx

import program
from cli_case import SMALL, SOURCE, simulate
from program import PROGRAM, QUESTION, SCRATCH, fresh, point_of, run, write

NARROW = ("nodes: 2\ngpus_per_node: 8\nnvlink: 200GBps\nnic: 400Gbps\npcie: 64GBps\nhost_memory: 1TB\n"
          "leaf: 1\noversubscription: 8\n")


def longest_path_s(tasks, edges):
    """Find the critical path by networkx. The weight of an edge is the duration of the task it leaves."""
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
        cls.report = point_of(done.stdout)
        cls.path = SCRATCH / "first" / "small.h5"

    def test_a_device_without_experts_says_how_their_kernels_run(self):
        device = (SOURCE / "model/gpu/h100-sxm.yaml").read_text()
        own = write("own-gpu.yaml", re.sub(r"(?m)^experts:\n(?: .*\n)+", "", device))
        said = "the device's file has no `experts:`, so their kernels run as others do"
        for name, number in ((own, 1), ("h100-sxm", 0)):
            done = run("run", write("experts.yaml", f"""\
name: experts
model: mixtral-8x7b
device: {name}
platform: {{nodes: 2, gpus_per_node: 8, nic: 400Gbps}}
data: {{lengths: fixed, context: 4Ki, global_batch: 16}}
iterations: {{warm_up: 0, measured: 1}}
engine: critical-path
systems: [{{name: best-fit, plan: {{tp: 2, pp: 2, ep: 4, recompute: full}}}}]
"""), "-v", "-q", "-o", fresh("experts"))
            self.assertEqual((done.returncode, done.stdout.count(said)), (0, number), done.stderr)

    def test_a_plan_fits_surely_tightly_or_not(self):
        """A peak of 85% of the memory fits surely, one of 87% tightly, since the allocator reserves 16% more, and one of
        101% does not fit. Device files have the same GPU with less memory."""
        sheet = (SOURCE / "model" / "gpu" / "h800.yaml").read_text()
        (peak,) = [system["peak_bytes"] for system in self.report["systems"] if system["label"] == "best-fit"]
        said, context = [], float(re.search("(?m)^context_bytes: (.*)", sheet)[1])
        for share in (0.85, 0.87, 1.01):
            memory = re.sub("(?m)^memory_bytes: .*", f"memory_bytes: {peak / share + context:.0f}", sheet)
            done = simulate("full", "--set", f"device={write('full.yaml', memory)}", "--set", "engine=critical-path")
            self.assertEqual(done.returncode, 0, done.stderr)
            point = point_of(done.stdout)
            (system,) = [system for system in point["systems"] if system["label"] == "best-fit"]
            said.append([line for line in point["assumed"] if "best-fit: fits tightly" in line])
            self.assertEqual((system["fits"], system["tight"]), (share < 1, share == 0.87))
            self.assertAlmostEqual(system["tight_bytes"], system["memory_bytes"] / 1.163, delta=1)
            self.assertEqual(any("fits tightly: best-fit" in line for line in point["verdict"]), share == 0.87)
        self.assertEqual([len(lines) > 0 for lines in said], [False, True, False], said)
        self.assertIn("at 87% of its memory", "".join(said[1]))
        self.assertIn("of 36 published runs that are predicted so, 5 were predicted 6 to 36% too fast", said[1][0])

    def test_a_question_of_what_to_buy_names_the_command_that_answers_it(self):
        path = write("question.yaml", QUESTION.replace("platform: hopper\n", "platform: hopper-2x8\n"))
        done = run("run", path, "--output", fresh("question"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"this scenario also asks what to buy: slimsim capacity {path}\n", done.stderr)
        write("question.yaml", QUESTION.replace("device: h800\n", ""))
        done = run("run", path, "--output", fresh("question"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("device: is required", done.stderr)
        self.assertIn(f"; `slimsim capacity {path}` answers it\n", done.stderr)

    def test_each_stage_says_what_memory_it_needs(self):
        """It is the most of the timeline's sums, by stage, printed, in JSON and in the trace."""
        report = point_of(simulate("stages", "--set", "iterations.measured=1").stdout)
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
                self.assertAlmostEqual(sum(told[name] for name in classes) / most, 1, delta=1e-12)
            self.assertEqual(own["peak_bytes"].max(), system["peak_bytes"])
        printed = run("run", write("small.yaml", SMALL), "--quiet", "--verbose", "--output", SCRATCH / "stages").stdout
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
            plain, interleaved, sharded = systems = point_of(done.stdout)["systems"]
            for system in systems:
                self.assertAlmostEqual(system["simgrid_mean_s"] / system["critical_path_mean_s"], 1, delta=1e-9)
            self.assertEqual(plain["shard_s"], 0)
            self.assertGreater(sharded["shard_s"], 0)
            self.assertLess(interleaved["bubble_fraction"], plain["bubble_fraction"])
            self.assertEqual(interleaved["recompute_layers"], 8)

    def test_the_log_follows_the_report_and_all_of_it_leaves_the_warm_up_out(self):
        """Both go to one file, which agrees with itself."""
        path = write("small.yaml", SMALL)
        done = subprocess.run([PROGRAM, "run", path, "--verbose", "--output", SCRATCH / "one-file"], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=300, check=True)
        report, log = done.stdout.split("\nbest-fit: planned in ")
        self.assertTrue(report.splitlines()[-1].startswith("- slimpack: sequence parallelism on"), report[-300:])
        with h5py.File(SCRATCH / "one-file" / "small.h5") as file:
            rows = file["iterations"][:]
        self.assertGreater(len(set(rows["tokens"][rows["system"] == 1])), 1)
        for number, label in enumerate(("best-fit", "slimpack")):
            of = rows[(rows["system"] == number) & (rows["measured"] == 1)]
            dp = self.report["systems"][number]["dp"]
            self.assertIn(f"{label}: {of['tokens'].sum() / of['forward_micro_batches'].sum():.6g} tokens and ", report)
            self.assertIn(f" {of['forward_micro_batches'].mean() / dp:.6g} micro-batches a pipeline, mean", report)
            self.assertRegex("best-fit: " + log, f"{label}: .* simulated {of['time_s'].mean():.4g} s\n")

    def test_what_offload_saves_stands_with_the_results_that_offload(self):
        """On one stage copies run beside the passes: memory is saved, and hardly any time is lost."""
        plain, offloads = [simulate("offloads", scenario=SMALL.replace("pp: 2, cp: 2", f"pp: 1, offload: {share}").replace(
            "pp: 2, recompute: norm+activation}}", "pp: 1, recompute: norm+activation}, offload: plan}")) for share in (0, 1)]
        plain, offloads = point_of(plain.stdout), point_of(offloads.stdout)
        told = [[line for line in report["assumed"] if line.startswith("offload: ")] for report in (plain, offloads)]
        self.assertEqual([len(lines) for lines in told], [0, 1])
        self.assertIn("with one stage", told[1][0])
        before, after = (report["systems"][0] for report in (plain, offloads))
        self.assertLess(after["peak_bytes"], 0.8 * before["peak_bytes"])
        self.assertLess(after["time_mean_s"], 1.02 * before["time_mean_s"])

    def test_mistakes_name_key_and_system(self):
        lengths = write("twice.csv", "tokens,tokens\n1,2\n")
        for assignment, said in ((f"data.lengths={lengths}", f"': data.lengths: {lengths}:1: two columns are called 'tokens'"),
                                 ("data.lengths=./absent.csv", "': data.lengths: "),
                                 ("platform=./absent.xml", "absent.xml: cannot be read: No such file"),
                                 ("device=a100", "did you mean 'a100-40g' or 'a100-80g'? available: "),
                                 ("iterations=5", "iterations: expected a mapping of keys, found a single value; allowed: "
                                                  "warm_up, measured"),
                                 ("systems=[slimpack]", "this entry: expected a mapping of keys, found a single value; allowed: "
                                                        "as in {name: slimpack}"),
                                 ("systems.0={name: best-fit, plan: {tp: 2, pp: 4, vpp: 2}, knobs: {pad: false}}",
                                  "best-fit: no plan for iteration 0: plan.vpp: ")):
            done = simulate("mistakes", "--set", assignment)
            self.assertEqual((done.returncode, done.stdout), (2, ""), assignment)
            self.assertIn(said, done.stderr)
        done = subprocess.run([PROGRAM, "run", "scenarios/quickstart.yaml"], capture_output=True, text=True, cwd=SCRATCH)
        self.assertEqual((done.returncode, done.stderr), (2, "slimsim: scenarios/quickstart.yaml: there is no such file; the shipped "
                                                          f"one is {SOURCE}/scenarios/quickstart.yaml\n"))

    def test_a_context_that_cuts_most_documents_is_told(self):
        told = "; a document makes "
        short, usual = [" ".join(point_of(simulate("short", "--set", f"data.context={context}", "--set",
                                                     "engine=critical-path").stdout)["assumed"])
                        for context in (512, "32Ki")]
        self.assertIn(told, short)
        self.assertNotIn(told, usual)

    def test_a_platform_with_another_nvlink_than_the_device_is_told(self):
        """The data sheets give 900 GB/s for both directions of an H100, and 400 for an H800, which the platform has."""
        told = "NVLink of platform hopper-2x8 is 200 GB/s each way, of device h100-sxm's data sheet 450 GB/s"
        path, other = write("small.yaml", SMALL.replace("both", "critical-path")), ("--set", "device=h100-sxm")
        for arguments in ((), ("--verbose",)):
            done = run("run", path, "--output", fresh("nvlink"), *other, *arguments)
            self.assertIn(told, " ".join(done.stdout.split("best-fit")[0].split()))
        self.assertNotIn("NVLink of platform", run("run", path, "--output", fresh("nvlink"), "--quiet").stdout)
        self.assertIn(told, " ".join(point_of(simulate("nvlink", *other).stdout)["assumed"]))
        swept = run("run", path, *other, "--sweep", "seed=1,2", "--set", "trace=summary", "--output", fresh("nvlink"))
        self.assertEqual(swept.stderr.count(told), 1, "of two points")
        cost = ("cost", "--model", "llama-7b", "--slice", "0:4096", "--platform", "hopper-2x8", "--device")
        self.assertIn(told, run(*cost, "h100-sxm").stdout)
        self.assertNotIn("NVLink", run(*cost, "h800").stdout)

    def test_speed_ups_count_what_is_trained(self):
        """They count model FLOPs a second of all tokens of the measured iterations. Some of these wait in wlb-llm's
        queues."""
        text = SMALL.replace("both", "critical-path").replace("slimpack, plan: {", "wlb-llm, plan: {cp: 1, ")
        done = simulate("waits", scenario=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = point_of(done.stdout)["systems"]
        with h5py.File(SCRATCH / "waits" / "small.h5") as file:
            rows = [of[of["measured"] == 1] for of in (file["iterations"][file["iterations"]["system"] == n] for n in (0, 1))]
        base, waits = [of["model_flop"].sum() / of["time_s"].sum() for of in rows]
        self.assertGreater(report[1]["token_delay"], 0)
        self.assertAlmostEqual(report[1]["speed_up"], waits / base, delta=1e-9)
        self.assertNotAlmostEqual(report[1]["speed_up"], report[1]["tokens_per_s_per_gpu"] / report[0]["tokens_per_s_per_gpu"],
                                  delta=1e-3)

    def test_intervals_stand_below_what_they_are_of(self):
        """They are in the table, in JSON and in CSV. One iteration has none."""
        systems = self.report["systems"]
        options = ("--quiet", "--verbose", "--output", SCRATCH / "intervals", "--set", "trace=summary")
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
        self.assertEqual(len(re.findall(r"\+/- +- +-$", run("run", SCRATCH / "small.yaml", *options, *one).stdout, re.MULTILINE)), 2)
        with h5py.File(SCRATCH / "intervals/small.h5") as file:
            self.assertTrue(all(row["speed_up_interval"] != row["speed_up_interval"] for row in file["summary"]))
        told = point_of(run("run", SCRATCH / "small.yaml", *options, *one, "--json").stdout)["systems"]
        self.assertEqual([(of["tokens_per_s_per_gpu_interval"], of["speed_up_interval"]) for of in told], [(None, None)] * 2)

    def test_pipelines_of_one_unit_have_no_spread(self):
        """There are two replicas. Each has two of four samples of the context, or one of two."""
        for samples, spread in ((4, "1.000"), (2, "-")):
            scenario = write("one-unit.yaml", SMALL.replace("lengths: github", "lengths: fixed").replace(
                "global_batch: 48", f"global_batch: {samples}").replace("tp: 2, pp: 2, cp: 2", "tp: 8, pp: 1"))
            table = run("run", scenario, "--quiet", "--verbose", "--output", SCRATCH / "one-unit").stdout
            rows = [line.split()[-2] for line in table.splitlines() if line.startswith("micro-batch ")]
            self.assertEqual(rows, [spread] * 4)
            done = run("run", scenario, "--quiet", "--json", "--output", SCRATCH / "one-unit")
            row = point_of(done.stdout)["systems"][0]
            for name in ("forward_micro_batch_flop_spread", "backward_micro_batch_time_spread"):
                self.assertEqual(row[name] is None, spread == "-")
                self.assertAlmostEqual(row[name] or 1, 1, delta=1e-12)

    def test_the_same_batch_each_time_has_no_interval(self):
        told = point_of(simulate("alike", "--set", "data.lengths=fixed", "--set", "trace=none").stdout)["systems"]
        self.assertEqual([(of["tokens_per_s_per_gpu_interval"], of["speed_up_interval"]) for of in told], [(0, 0)] * 2)

    def test_a_run_tells_the_gap_of_branch_and_bound(self):
        """It is the largest of the measured iterations, as `plan` tells each."""
        path, folder = write("milp.yaml", SMALL.replace("both", "critical-path")), fresh("milp")
        options = ("--set", "systems.1.knobs.packer=milp", "--set", "iterations.measured=1")
        planned = json.loads(run("plan", path, *options, "--iteration", "1", "--quiet", "--json").stdout)["systems"]
        told = point_of(run("run", path, *options, "--output", folder, "--quiet", "--json").stdout)["systems"]
        self.assertEqual(told[0]["search_gap_max"], 0)
        self.assertTrue(0 <= told[1]["search_gap_max"] < 1)
        self.assertGreater(told[1]["search_nodes_mean"], 0)
        self.assertEqual([(row["search_gap"], row["search_nodes"]) for row in planned],
                         [(row["search_gap_max"], row["search_nodes_mean"]) for row in told])
        self.assertRegex(run("run", path, *options, "--verbose", "--output", folder).stdout, r"\ngap of branch and bound \[%\] +- +\d+\.\d\d\n")
        self.assertNotIn("gap of branch", run("run", path, "--verbose", "--output", folder).stdout)

    def test_contention__stands_below_simgrids_time(self):
        done = run("run", write("small.yaml", SMALL), "--quiet", "--verbose", "--output", fresh("contention"))
        self.assertRegex(done.stdout, r"\nSimGrid, mean \[s\] .*\n  contention \[%\] ")

    def test_contention_never_makes_it_faster(self):
        for system in self.report["systems"]:
            self.assertGreaterEqual(system["simgrid_mean_s"], system["critical_path_mean_s"] * (1 - 1e-9))

    def test_without_contention_one_or_all_tensor_ranks_take_the_critical_path(self):
        folded = simulate("folded", "--set", "platform=hopper-2x8-free")
        ranks = simulate("ranks", "--set", "platform=hopper-2x8-free", "--set", "all_tensor_ranks=true")
        self.assertEqual(ranks.returncode, 0, ranks.stderr)
        for one, all_of_them in zip(point_of(folded.stdout)["systems"], point_of(ranks.stdout)["systems"]):
            for system in (one, all_of_them):
                self.assertAlmostEqual(system["simgrid_mean_s"] / one["critical_path_mean_s"], 1, delta=1e-9)

    def test_faults_make_it_slower_are_told_and_stand_in_the_trace(self):
        faults = ("faults:\n  - {kind: gpu, gpus: 5, factor: 2}\n  - {kind: nic, share: 0.25, seed: 3, factor: 4}\n"
                  "  - {kind: gpu, gpus: 5, factor: 1.5}\n")
        done = simulate("faults", scenario=SMALL + faults)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = point_of(done.stdout)
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
        self.assertEqual(point_of(again.stdout)["systems"], report["systems"])
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

    def test_resolved_choices_run_to_the_same_bytes(self):
        automatic = "{name: llama3, load: auto, spares: auto, checkpoint: {interval: auto, blocked: auto}}"
        for index, changes in enumerate((["attention=fastest"], ["attention=fastest", "device=a100-80g"],
                                         ["systems.0.offload=auto", "systems.1.offload=auto"],
                                         [f"reliability={automatic}"])):
            chosen, again = f"chosen-{index}", f"chosen-{index}-again"
            done = simulate(chosen, *(part for change in changes for part in ("--set", change)))
            self.assertEqual(done.returncode, 0, done.stderr)
            with h5py.File(SCRATCH / chosen / "small.h5") as file:
                text = file.attrs["scenario"].decode()
            self.assertNotIn("fastest", text)
            simulate(again, scenario=text)
            for name in ("small.h5", "small.csv"):
                self.assertTrue(filecmp.cmp(SCRATCH / chosen / name, SCRATCH / again / name, shallow=False), (changes, name))

    def test_another_seed_gives_other_numbers(self):
        other = point_of(simulate("seed", "--set", "seed=8").stdout)
        self.assertNotEqual(other["systems"][0]["time_mean_s"], self.report["systems"][0]["time_mean_s"])

    def test_the_script_of_the_reference_finds_the_figures_of_the_report_in_the_trace(self):
        script = (SOURCE / "docs/reference/traces.md").read_text().split("```python\n")[1].split("```")[0]
        script = script.replace("results/quickstart.h5", str(self.path))
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(self.report["systems"]))
        for line, system in zip(lines, self.report["systems"]):
            label, _, tokens, _, mfu, _, bubble, _, exposed = line.split()
            parts = [system[f"{part}_s"] / system["total_s"] for part in "ring tensor shard sync reshard".split()]
            self.assertEqual(label, system["label"])
            self.assertAlmostEqual(float(tokens) / system["tokens_per_s_per_gpu"], 1, places=12)
            self.assertAlmostEqual(float(mfu), system["mfu"], places=12)
            self.assertAlmostEqual(float(bubble), system["bubble_fraction"], places=12)
            self.assertAlmostEqual(float(exposed), sum(parts), places=12)

    def exceeded_limit(self, folder, kind, needed, limit, *arguments):
        """Take report, JSON and trace of a run whose first system does not fit. All name stage and class."""
        done = simulate(folder, "--set", "iterations.measured=1", "--set", "trace=summary", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        system = point_of(done.stdout)["systems"][0]
        self.assertFalse(system["fits"])
        self.assertEqual(system["exceeded_limit"], kind)
        self.assertGreater(system[needed], system[limit])
        text = run("run", SCRATCH / "small.yaml", "--quiet", "--verbose", "--output", SCRATCH / folder, "--set",
                   "iterations.measured=1", "--set", "trace=summary", *arguments).stdout
        with h5py.File(SCRATCH / folder / "small.h5") as file:
            row = file["summary"][0]
        with open(SCRATCH / folder / "small.csv", newline="") as file:
            named = next(csv.DictReader(file))
        self.assertEqual(row["fits"], 0)
        self.assertEqual(named["exceeded_limit"], kind)
        self.assertEqual(row[needed], system[needed])
        self.assertRegex(text, r"\nspeed-up +\(1\.000x\) +\(\d\.\d{3}x\)\n")
        self.assertIn("first system, best-fit, does not fit, so they are no gains\n", text)
        self.assertEqual((row["first_exceeds_limit"], point_of(done.stdout)["systems"][1]["first_exceeds_limit"]), (1, True))
        return system, text, row, named

    def test_too_much_for_a_gpu_names_stage_and_class(self):
        system, text, row, named = self.exceeded_limit(
            "gpu", "GPU memory", "peak_bytes", "memory_bytes", "--set", "model=llama-13b", "--set", "systems.0.plan.recompute=none",
            "--set", "systems.0.plan.cp=1")
        self.assertEqual(system["peak_class"], named["peak_class"])
        self.assertEqual(system["peak_stage"], row["peak_stage"])
        self.assertEqual(max("states activations kv kv_gradients workspace communication libraries".split(),
                             key=lambda name: row[f"{name}_bytes"]), system["peak_class"])
        self.assertIn(f"best-fit does not fit: stage {system['peak_stage']} needs", text)
        words = {"states": "weights, gradients and optimizer"}.get(system["peak_class"], system["peak_class"])
        self.assertRegex(text, rf"\nbest-fit does not fit: stage {system['peak_stage']} needs [\d.]+ of [\d.]+ GiB, mostly {words}\n")

    def test_too_much_for_the_host_names_node_stage_and_class(self):
        system, text, row, _ = self.exceeded_limit(
            "host", "host memory", "host_peak_bytes", "host_memory_bytes", "--set", "platform.host_memory=1GB", "--set",
            "systems.0.plan.offload=0.5")
        self.assertEqual(system["host_memory_bytes"], 1e9)
        self.assertEqual(system["host_stage"], row["host_stage"])
        self.assertRegex(text, rf"\nbest-fit does not fit: node {row['host_node']} needs \d+ of 1 GiB of host memory, mostly of stage {system['host_stage']}\n")
        _, text, row, _ = self.exceeded_limit("both", "GPU memory", "peak_bytes", "memory_bytes", "--set", "platform.host_memory=1GB", "--set",
                                      "systems.0.plan.offload=0.1", "--set", "model=llama-13b", "--set",
                                      "systems.0.plan.recompute=none", "--set", "systems.0.plan.cp=1")
        self.assertIn("best-fit does not fit: stage", text)
        self.assertRegex(text, rf"GiB, mostly [a-z, ]+; node {row['host_node']} needs \d+ of 1 GiB of host memory, mostly of stage {row['host_stage']}\n")


class SeventyBillion(unittest.TestCase):
    """Llama-2 70B runs on 256 H100 with TP8 PP4 DP8 and 1024 x 4096 tokens. The answer names everything that moves
    it."""

    def simulate(self, *arguments):
        done = run("run", SOURCE / "scenarios" / "llama2-70b.yaml", "--json", "--quiet", "--output", SCRATCH / "70b",
                   "--set", "engine=critical-path", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = point_of(done.stdout)
        return report["systems"][0], "\n".join(report["assumed"])

    def test_everything_that_moves_the_answer_is_stated(self):
        system, assumed = self.simulate()
        self.assertEqual([system[degree] for degree in ("tp", "pp", "cp", "dp")], [8, 4, 1, 8])
        self.assertAlmostEqual(system["tokens_per_s_per_gpu"] * system["time_mean_s"] * 256, 1024 * 4096, delta=1)
        self.assertTrue(10 < system["time_mean_s"] < 30)
        for topic in ("attention kernel: flash-attention 3", "attention flash3 takes the least time", "curves of device h100-sxm", "tensor-parallel collectives",
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
            "precision=fp8-tensor": "weights bf16, of layers in fp8, too, Adam",
            "precision=fp8-tensor fp8_params=true": "weights of layers in fp8 only, Adam",
            "systems.0.plan.shard_group=2": "(zero1) on 2 of 8",
            "systems.0.plan.first_stage_layers=17": "17 x 1, 21 x 3",
            "systems.0.knobs.micro_batch=2": "8192 tokens and 0 of padding a micro-batch, 64 micro-batches",
            "platform=hopper-32x8": "NVLink 200 GB/s",
            "systems.0.plan.sequence_parallel=false": "collectives: without sequence parallelism two all-reduces a pass "
                                                      "and layer, those of the backward beside GEMMs",
        }
        for change, stated in changes.items():
            system, assumed = self.simulate(*(word for one in change.split() for word in ("--set", one)))
            self.assertIn(stated, assumed)
            self.assertNotEqual(system["time_mean_s"], plain["time_mean_s"], change)

    def test_the_fastest_attention_is_stated_and_takes_least_time(self):
        system, assumed = self.simulate("--set", "attention=fastest")
        found = re.search(r"attention (\w+) takes the least time of flash2, flash3 and cudnn on the first batch \(time of attention alone: ", assumed)
        times = {kernel: self.simulate("--set", f"attention={kernel}")[0]["time_mean_s"]
                 for kernel in ("flash2", "flash3", "cudnn")}
        self.assertEqual(times[found[1]], min(times.values()))
        self.assertEqual(system["time_mean_s"], times[found[1]])

    def test_freed_gradients_are_stated_and_move_memory_alone(self):
        plain, before = self.simulate()
        system, assumed = self.simulate("--set", "systems.0.plan.gradient_buffers=freed")
        self.assertNotIn("freed by the optimizer", before)
        self.assertIn("gradients fp32, freed by the optimizer", assumed)
        self.assertEqual(system["time_mean_s"], plain["time_mean_s"])
        self.assertEqual(system["gradient_buffers"], "freed")
        self.assertEqual(plain["gradient_buffers"], "kept")
        freed, kept = (one["peak_bytes"] for one in (system, plain))
        self.assertTrue(0.99 * kept < freed <= kept)  # 16 micro-batches: all but the first have all gradients


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
                told.append(point_of(done.stdout)["systems"])
            self.assertEqual(*told)

    def test_oversubscription__makes_simgrid_run_every_tensor_rank(self):
        """An uplink carries one NIC, and both GPUs of a tensor-parallel group cross it."""
        told = "SimGrid ran every rank of tensor-parallel groups in 4 of 4 iterations"
        narrow = run("platform", write("keys.yaml", NARROW)).stdout
        for platform in (f"platform={write('keys.yaml', NARROW)}", f"platform={write('narrow.xml', narrow)}"):
            done, asked = simulate("one", "--set", platform), simulate("all", "--set", platform, "--set", "all_tensor_ranks=true")
            self.assertEqual((done.returncode, asked.returncode), (0, 0), done.stderr + asked.stderr)
            one, every = point_of(done.stdout), point_of(asked.stdout)
            self.assertEqual(one["systems"], every["systems"])
            self.assertIn(told, " ".join(one["assumed"]))
            self.assertNotIn(told, " ".join(every["assumed"]))
            with h5py.File(SCRATCH / "one" / "small.h5") as file:
                self.assertIn(told, " ".join(text.decode() for text in file["assumed"][:]))
                self.assertEqual(set(file["memory"]["gpus"]), {1})

    def test_oversubscription__searches_with_every_tensor_rank(self):
        text = program.SMALL.split("  - {name: slimpack")[0].replace("critical-path", "simgrid")
        text = text.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "plan: auto").replace("32Ki", "128Ki")
        done = simulate("auto", "--set", f"platform={write('keys.yaml', NARROW)}", scenario=text)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_oversubscription__without_effect_is_told(self):
        lines = {"all 2 nodes are on one leaf (platform.leaf 32)": ("oversubscription=2", "leaf=32"),
                 "has no effect: the platform has no contention": ("oversubscription=2", "leaf=1", "contention=false"),
                 "has no effect on the critical path": ("oversubscription=2", "leaf=1"),
                 "": ("oversubscription=1", "leaf=1")}
        path = write("small.yaml", program.SMALL)
        for line, keys in lines.items():
            options = [word for key in keys for word in ("--set", f"platform.{key}")]
            head = run("run", path, "--output", fresh("told"), *options).stdout.split("tokens/s/GPU")[0]
            assumed = " ".join(point_of(run("run", path, "--json", "--quiet", "--output", fresh("told"), *options).stdout)["assumed"])
            for text in (head, assumed):
                self.assertEqual("oversubscription" in text, line != "", options)
                self.assertIn(line, text)
        swept = run("run", path, "--set", "platform.leaf=1", "--sweep", "platform.oversubscription=1,2,4", "--output", fresh("told"))
        self.assertEqual(swept.stderr.count("oversubscription has no effect on the critical path"), 1, swept.stderr)
        self.assertNotIn("oversubscription", " ".join(point_of(simulate(
            "both", "--set", "platform.oversubscription=1.5", "--set", "platform.leaf=1").stdout)["assumed"]))

    def test_platform__a_wrong_name_or_file_is_told(self):
        xml = write("a.xml", run("platform", "hopper-2x8").stdout)
        for arguments, status, part in ((["hoper-2x8"], 2, "did you mean 'hopper'?"), ([], 64, "is missing"),
                                        ([xml], 2, "it is already SimGrid's XML"), (["absent.yaml"], 2, "absent.yaml: "),
                                        (["absent.xml"], 2, "absent.xml: cannot be read"),
                                        (["hopper", "--device", "x"], 2, "there is no device 'x'")):
            done = run("platform", *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), arguments)
            self.assertIn(part, done.stderr)

    def test_platform__lists_name_what_is_shipped(self):
        names = re.findall(r"(?m)^(\S+) +\d+ x \d+ ", run("list", "platforms").stdout)
        self.assertEqual(names, sorted(path.stem for path in (SOURCE / "platforms").glob("*.yaml")))
        for key in ("platform.name", "platform.nic", "platform.topology"):
            self.assertRegex(run("list", "keys").stdout, rf"(?m)^{re.escape(key)}  ")


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run sweeps as users do: points, results, shards, engines."""
import csv
import filecmp
import json
import math
import os
import random
import re
import shutil
import unittest

import h5py

from program import SCRATCH, fresh, point_of, rows, run, write
from sweep_case import BASE, GRID, Sweep


class Points(Sweep):
    def test_list_prints_every_point_and_runs_nothing(self):
        folder = fresh("listed")
        lines = self.sweep(folder, "--list").stdout.splitlines()
        self.assertEqual(lines[-2:], ["4 points excluded: small contexts need no more", "20 points"])
        self.assertFalse(folder.exists())
        listed = [dict(cell.split("=") for cell in line.split()[2:]) for line in lines[:-2]]
        for point, values in enumerate(listed):
            self.assertEqual(values["systems.0.plan.tp"], values["systems.1.plan.tp"])
            self.assertEqual(values["data.global_batch"], {"github": "48", "wikipedia": "64"}[values["data.lengths"]])
            self.assertFalse(values["data.context"] == "16384" and values["systems.0.plan.tp"] == "4")
            self.assertEqual(values["seed"], str(7 + point % 2))
        self.assertEqual(len({line.split()[1] for line in lines[:-2]}), 20)
        told = json.loads(self.sweep(folder, "--list", "--json").stdout)["points"]
        self.assertEqual([(entry.pop("point"), entry.pop("id")) for entry in told],
                         [(int(line.split()[0]), line.split()[1]) for line in lines[:-2]])
        self.assertEqual(told, [{key: int(value) if value.isdigit() else value for key, value in point.items()}
                                for point in listed])

    def test_a_point_alone_gives_the_numbers_of_its_row(self):
        for row in rows(self.whole / "small.csv")[5:15:3]:
            done = self.sweep(fresh("alone"), "--point", row["point"], "--json", "--quiet")
            (system,) = [entry for entry in point_of(done.stdout)["systems"] if entry["label"] == row["system"]]
            self.assertEqual(system["tokens_per_s_per_gpu"], float(row["tokens_per_s_per_gpu"]))
            self.assertEqual(system["peak_bytes"], float(row["peak_bytes"]))

    def test_fabric_that_changes_no_time_says_why(self):
        """With SimGrid one leaf, or full bandwidth above it, leaves NICs as the only limit of a transfer."""
        path = write("fabric.yaml", "name: fabric\nmodel: llama-7b\ndevice: h800\nplatform: {nodes: 4, gpus_per_node: 8, leaf: 2}\n"
                     "data: {lengths: github, context: 16Ki, global_batch: 64}\niterations: {warm_up: 0, measured: 1}\n"
                     "systems: [{name: best-fit, plan: {tp: 4, pp: 1, cp: 1, recompute: full}}]\n")
        for said, *words in (
            ("platform.topology changes no time: the critical path has no contention; `engine: simgrid` has", "engine=critical-path"),
            ("platform.topology changes no time: with oversubscription 1 the links above leaf switches", "engine=simgrid"),
            ("platform.topology changes no time: all nodes are on one leaf switch", "engine=simgrid", "platform.leaf=4"),
        ):
            sets = [word for option in words for word in ("--set", option)]
            done = run("run", path, *sets, "--sweep", "platform.topology=fat-tree,rail", "--quiet", "--output", fresh("fabric"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(said, done.stdout)
        done = run("run", path, "--sweep", "platform.nic=200Gbps,400Gbps", "--quiet", "--output", fresh("fabric"))
        self.assertNotIn("changes no time", done.stdout)

    def test_options_make_the_same_points_as_the_file(self):
        folder = fresh("options")
        scenario = BASE.replace("name: small", "name: options") + "sweep: {data.context: [16Ki, 32Ki], seed: [1, 2]}\n"
        self.sweep(folder, "--quiet", scenario=scenario)
        other = fresh("options2")
        self.sweep(other, "--quiet", "--sweep", "data.context=16Ki,32Ki", "--sweep", "seed={range: [1, 2]}",
                   scenario=BASE.replace("name: small", "name: options"))
        self.assertTrue(filecmp.cmp(folder / "options.csv", other / "options.csv", shallow=False))

    def test_sweep__varies_one_key_of_a_named_platform(self):
        """NICs of half the speed give the same times as a platform that has them, and these are slower."""
        folder = fresh("nics")
        self.sweep(folder, "--quiet", "--sweep", "platform.nic=200Gbps,400Gbps", scenario=BASE.replace("name: small", "name: nics"))
        table = rows(folder / "nics.csv")
        self.assertEqual([row["platform.nic"] for row in table], ["200Gbps"] * 2 + ["400Gbps"] * 2)
        for slow, fast in zip(table[:2], table[2:]):
            self.assertLess(float(slow["tokens_per_s_per_gpu"]), float(fast["tokens_per_s_per_gpu"]))
        for nic, those in (("200Gbps", table[:2]), ("400Gbps", table[2:])):
            alone = run("run", write("nics.yaml", BASE), "--output", fresh("nic"), "--json", "--quiet", "--set",
                        f"platform={{nodes: 2, gpus_per_node: 8, nvlink: 200GBps, nic: {nic}, pcie: 64GBps}}")
            self.assertEqual([entry["tokens_per_s_per_gpu"] for entry in point_of(alone.stdout)["systems"]],
                             [float(row["tokens_per_s_per_gpu"]) for row in those])

    def test_command__reads_a_file_that_begins_with_a_dash_as_a_file(self):
        folder = fresh("dash")
        folder.mkdir()
        (folder / "-a b.yaml").write_text(BASE)
        swept = ("--sweep", "seed=1,2", "--output", "out", "--quiet")
        self.assertEqual(run("run", *swept, "--", "-a b.yaml", cwd=folder).returncode, 0)
        commands = [row["command"] for row in rows(folder / "out" / "small.points.csv")]
        self.assertEqual(commands, [f"slimsim run ./'-a b.yaml' --sweep seed=1,2 --point {i}" for i in range(2)])
        script = run("submit", *swept, "--shards", "2", "--dry-run", "--", "-a b.yaml", cwd=folder)
        self.assertIn(" run ./'-a b.yaml' --sweep seed=1,2 --output out ", script.stdout, script.stderr)

    def test_results_are_tables_with_the_swept_keys_first(self):
        with h5py.File(self.whole / "small.h5") as file:
            self.assertEqual(file.attrs["complete"], 1)
            summary, table = file["summary"][:], rows(self.whole / "small.csv")
            self.assertEqual(summary.dtype.names[:4], ("point", "data.context", "data.lengths", "data.global_batch"))
            self.assertEqual(len(summary), 40)
            self.assertEqual(len(file["iterations"]), 80)
            for row, line in zip(summary, table):
                self.assertEqual((str(row["point"]), str(row["data.context"]), row["data.lengths"].decode()),
                                 (line["point"], line["data.context"], line["data.lengths"]))
                self.assertEqual(row["time_mean_s"], float(line["time_mean_s"]))
                self.assertTrue(math.isnan(row["simgrid_mean_s"]) and line["simgrid_mean_s"] == "", "it did not run")
                self.assertEqual(file["systems"][row["system"]].decode(), line["system"])
            text = file["scenarios"][7]["scenario"].decode()
        done = run("run", write("resolved.yaml", text), "--json", "--quiet", "--output", fresh("resolved"))
        row = [line for line in table if line["point"] == "7"][0]
        system = point_of(done.stdout)["systems"][0]
        self.assertEqual((system["time_mean_s"], system["rank"]), (float(row["time_mean_s"]), int(row["rank"])))

    def test_exported_tables_have_the_swept_keys_too(self):
        for table in ("summary", "iterations"):
            done = run("export", self.whole / "small.h5", "--csv", table)
            self.assertEqual(done.returncode, 0, done.stderr)
            exported = list(csv.DictReader(done.stdout.splitlines()))
            with h5py.File(self.whole / "small.h5") as file:
                self.assertEqual(tuple(exported[0]), file[table].dtype.names)
                self.assertEqual([row["point"] for row in exported], [str(point) for point in file[table]["point"]])
            if table == "summary":
                for row, line in zip(exported, rows(self.whole / "small.csv"), strict=True):
                    self.assertEqual(row, {key: line[key] for key in row})

    def test_a_table_that_is_not_there_is_said_with_what_writes_it(self):
        for table, writer in (("tasks", "--point N takes the full trace of a sweep's point; no point has one"),
                              ("faults", "`faults:` in the scenario"), ("plans", "`plan: auto`"), ("validation", "`slimsim validate`")):
            done = run("export", self.whole / "small.h5", "--csv", table)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"the trace holds no table {table}: ", done.stderr)
            self.assertIn(writer, done.stderr)
        done = run("export", self.whole / "small.h5", "--chrome")
        self.assertIn("--point N", done.stderr)
        done = self.sweep(fresh("nowhere"), "--point", "99", scenario=BASE + "sweep: {seed: [1, 2]}\n", status=2)
        self.assertIn("--point: there is no point 99; allowed: 0 to 1", done.stderr)

    def test_full_traces_of_points_are_those_of_single_runs(self):
        scenario = BASE + "trace: full\nsweep: {seed: [1, 2]}\n"
        folder, alone = fresh("full"), fresh("full-alone")
        self.sweep(folder, "--quiet", scenario=scenario)
        self.sweep(alone, "--quiet", "--point", "1", scenario=scenario)
        with h5py.File(folder / "small.h5") as file, h5py.File(alone / "small-1.h5") as single:
            group = file["points"][file["manifest"][1]["id"].decode()]
            for table in ("tasks", "micro_batches", "memory", "edges", "summary"):
                self.assertEqual(group[table][:].tobytes(), single[table][:].tobytes(), table)

    def test_a_point_of_a_full_trace_is_exported_as_a_run_of_it(self):
        scenario = BASE + "sweep: {zip: [{seed: [1, 2, 3, 4], trace: [full, summary, full, full]}]}\n"
        folder, alone = fresh("exported"), fresh("exported-alone")
        self.sweep(folder, "--quiet", scenario=scenario)
        self.sweep(alone, "--quiet", "--point", "2", scenario=scenario)
        for arguments in (("--chrome",), ("--csv", "tasks"), ("--csv", "summary")):
            one = run("export", folder / "small.h5", "--point", "2", *arguments)
            self.assertEqual((one.returncode, one.stderr), (0, ""))
            self.assertEqual(one.stdout, run("export", alone / "small-2.h5", *arguments).stdout)
        for path, arguments, said in (
                (folder / "small.h5", ("--chrome",), "no table tasks: .* --point N .*; these points have one: 0, 2-3$"),
                (folder / "small.h5", ("--chrome", "--point", "1"), "no full trace of point 1; these points have one: 0, 2-3$"),
                (folder / "small.h5", ("--chrome", "--point", "4"), "no full trace of point 4; these points have one: 0, 2-3$"),
                (self.whole / "small.h5", ("--chrome", "--point", "0"), "no point has a full trace; `trace: full` "),
                (alone / "small-2.h5", ("--chrome", "--point", "0"), "small-2.h5: it is no file of a sweep, so it has no point 0$")):
            done = run("export", path, *arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
            self.assertRegex(done.stderr, said)
        for arguments in ((folder / "small.h5", "--chrome", "--set", "seed=7"), (folder / "small.h5", "--chrome", "--system", "x"),
                          (write("small.yaml", BASE), "--dag", "dot", "--point", "0")):
            self.assertEqual(run("export", *arguments).returncode, 64)

    def test_each_changes_one_key_at_a_time(self):
        each = "each={seed: [8], platform: [hopper-4x8], platform.nic: [200Gbps]}"
        listed = self.sweep(fresh("each-listed"), "--list", "--sweep", each, scenario=BASE).stdout.splitlines()
        self.assertEqual([line.split()[2:] for line in listed[:-1]], [
            ["seed=7", "platform=hopper-2x8", "platform.nic=default"], ["seed=8", "platform=hopper-2x8", "platform.nic=default"],
            ["seed=7", "platform=hopper-4x8", "platform.nic=default"], ["seed=7", "platform=hopper-2x8", "platform.nic=200Gbps"]])
        text = BASE + "sweep: {data.context: [16Ki, 32Ki], each: {seed: [8], systems.0.plan.tp: [4], memory_limit: [0.9]}}\n"
        folder, parts, merged, single = fresh("each"), fresh("each-parts"), fresh("each-merged"), fresh("each-single")
        self.sweep(folder, "--quiet", scenario=text)
        table = [row for row in rows(folder / "small.csv") if row["system"] == "best-fit"]
        self.assertEqual([[row[key] for key in ("data.context", "seed", "systems.0.plan.tp", "memory_limit")] for row in table],
                         [[context, *values] for context in ("16384", "32768") for values in
                          (("7", "2", "default"), ("8", "2", "default"), ("7", "4", "default"), ("7", "2", "0.9"))])
        self.sweep(single, "--quiet", "--set", "data.context=16Ki", "--set", "systems.0.plan.tp=4", scenario=BASE)
        self.assertEqual(table[2]["time_mean_s"], rows(single / "small.csv")[0]["time_mean_s"])
        for k in (1, 2):
            self.sweep(parts, "--quiet", "--shard", f"{k}/2", scenario=text)
        self.assertEqual(run("merge", *parts.glob("*.journal"), "--output", merged).returncode, 0)
        self.same(folder, merged)
        self.assertIn("8 points: 0 computed, 8 kept", self.sweep(folder, scenario=text).stderr)

    def test_a_point_alone_has_its_whole_number_in_its_name(self):
        scenario = BASE + "sweep: {replicates: 30}\n"
        folder = fresh("longest")
        self.sweep(folder, "--quiet", "--point", "12", "--set", f"name={'n' * 60}", scenario=scenario)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), [f"{'n' * 60}-12.csv", f"{'n' * 60}-12.h5"])
        done = self.sweep(folder, "--point", "12", "--set", f"name={'n' * 61}", scenario=scenario, status=2)
        self.assertIn(f"name: '{'n' * 61}-12' is longer than 63 bytes", done.stderr)

    def test_a_point_alone_has_no_list_and_no_shard(self):
        for other in ("--list", "--shard=1/2"):
            error = self.sweep(fresh("neither"), "--point", "1", other, status=64).stderr
            self.assertIn(f"--point runs only one point, so {other[:6]}", error)
        self.assertFalse((SCRATCH / "neither").exists())

    def test_mistakes_are_named_with_their_places(self):
        for text, parts in (
                ("sweep: {data.contxt: [1, 2]}", ["small.yaml:13:", "contxt", "did you mean 'context'"]),
                ("sweep: {data.context: [16Ki, many]}", ["small.yaml:13:30", "many", "point 1"]),
                ("sweep: {replicates: 10000000}", ["small.yaml:13:", "10000000 points", "at most 1000000", "--set name=NAME"]),
                ("sweep: {seed: [1, 2, 1]}", ["points 0 and 2 are the same scenario"]),
                ("sweep: {seed: [1, 2], replicates: 2}", ["'seed' varies twice"]),
                ("sweep: {each: {seed: [7]}}", ["points 0 and 1 are the same scenario"]),
                ("sweep: {each: {data.contxt: [1]}}", ["small.yaml:13:", "contxt", "did you mean 'context'"]),
                ("sweep: {seed: [1, 2], exclude: [{where: {seed: [1, 2]}, reason: x}]}", ["leaves no point"]),
                ("sweep: {systems.0.plan.tp: [2, 3]}", ["small.yaml:13:", "plan.tp: 3", "point 1", "exclude"])):
            done = self.sweep(fresh("wrong"), scenario=BASE + text + "\n", status=2)
            for part in parts:
                self.assertIn(part, done.stderr, text)
        self.sweep(fresh("wrong"), "--set", "seed=7", scenario=BASE + "sweep: {seed: [1, 2]}\n", status=2)
        self.assertEqual(run("plan", write("small.yaml", GRID)).returncode, 2)


class Best(Sweep):
    def best(self, *arguments):
        done = run("best", self.whole / "small.csv", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def joined(self):
        """Rows of the table that differ in the seed only, in lists."""
        groups = {}
        for row in rows(self.whole / "small.csv"):
            groups.setdefault(tuple(row[key] for key in ("data.context", "data.lengths", "systems.0.plan.tp", "system")), []).append(row)
        return list(groups.values())

    def test_best__keeps_a_label_that_looks_like_a_number(self):
        folder = fresh("numbers")
        scenario = BASE.replace("best-fit,", 'best-fit, label: "95%",')
        self.assertEqual(run("run", write("numbers.yaml", scenario), "--sweep", "seed=1,2", "--output", folder).returncode, 0)
        found = json.loads(run("best", folder / "small.csv", "--where", "system!=slimpack", "--json").stdout)["rows"]
        self.assertEqual({row["system"] for row in found}, {"95%"})

    def test_best__reads_labels_as_they_are_and_prints_no_control_character(self):
        folder = fresh("labels")
        scenario = BASE.replace("best-fit,", 'best-fit, label: "=1+1",')
        self.assertEqual(run("run", write("labels.yaml", scenario), "--sweep", "seed=1,2", "--output", folder).returncode, 0)
        table = folder / "small.csv"
        self.assertIn(""","'=1+1",""", table.read_text())
        done = run("best", table, "--where", "system!=slimpack", "--json")
        self.assertEqual({row["system"] for row in json.loads(done.stdout)["rows"]}, {"=1+1"}, done.stderr)
        table.write_text(table.read_text().replace("'=1+1", "a\x1b[31mR\x9b31m"))
        done = run("best", table)
        self.assertIn("a?[31mR?31m", done.stdout)
        self.assertNotRegex(done.stdout, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")

    def test_rows_are_filtered_and_ranked(self):
        mean = lambda group, key: sum(float(row[key]) for row in group) / len(group)
        table = [group for group in self.joined() if max(float(row["peak_bytes"]) for row in group) < 30 * 2**30]
        wanted = sorted((mean(group, "tokens_per_s_per_gpu") for group in table), reverse=True)
        self.assertGreater(len(wanted), 3)
        self.assertLess(len(wanted), 20)
        got = self.best("--where", "peak_gib<30", "--top", "100")
        self.assertEqual(len(got), len(wanted))
        for row, rate in zip(got, wanted):
            self.assertAlmostEqual(row["tokens_per_s_per_gpu"] / rate, 1, places=14)
        self.assertEqual(len(self.best("--where", "system=slimpack", "--where", "data.context>16Ki", "--top", "99")), 8)
        self.assertEqual(len(self.best("--where", "seed=7", "--where", "system=slimpack", "--top", "99")), 10)
        self.assertEqual(self.best("--where", "seed=7", "--by", "peak_gib", "--least", "--top", "1")[0]["peak_bytes"],
                         min(float(row["peak_bytes"]) for row in rows(self.whole / "small.csv") if row["seed"] == "7"))

    def test_best__joins_replicates_with_their_interval(self):
        """Two values a, b have the standard error |a - b| / 2, and Student's t with one degree of freedom is 12.706."""
        got = self.best("--top", "99", "--all")
        self.assertEqual(len(got), len(self.joined()))
        for group in self.joined():
            row = next(row for row in got if str(row["point"]) == group[0]["point"] and row["system"] == group[0]["system"])
            rates = [float(of["tokens_per_s_per_gpu"]) for of in group]
            self.assertEqual((row["replicates"], row["seed"]), (2, " ".join(of["seed"] for of in group)))
            self.assertAlmostEqual(row["tokens_per_s_per_gpu"] / sum(rates) * 2, 1, places=14)
            self.assertAlmostEqual(row["tokens_per_s_per_gpu_interval"] / (12.706204736 * abs(rates[0] - rates[1]) / 2), 1, places=8)
        self.assertEqual({row["replicates"] for row in self.best("--where", "seed=7")}, {1})
        self.assertRegex(run("best", self.whole / "small.csv", "--quiet").stdout, r"replicates +GPUs")
        head = "point,id,status,seed,system,gpus,tp,dp,plan_text,tokens_per_s_per_gpu,tokens_per_s_per_gpu_interval,fits,message\n"
        path = write("seeds.csv", head + "0,00,done,1,x,8,2,4,TP2 DP4,10,1,1,\n1,01,done,2,x,8,4,2,TP4 DP2,20,1,0,\n"
                                         "2,02,done,1,y,8,2,4,TP2 DP4,9,1,1,\n")
        done = run("best", path, "--json", "--all")
        self.assertEqual([(row["tp"], row["fits"], row["replicates"], row["seed"]) for row in json.loads(done.stdout)["rows"]],
                         [("various", 0, 2, "1 2"), (2, 1, 1, 1)])
        self.assertRegex(run("best", path, "--all").stdout, r" x +various +2 ")
        self.assertIn("1 rows do not fit", run("best", path).stderr)

    def test_best__totals_are_those_of_the_cluster(self):
        for row in self.best("--where", "seed=7", "--top", "99"):
            self.assertAlmostEqual(row["tokens_per_s"] / row["tokens_per_s_per_gpu"] / row["gpus"], 1, places=14)
            self.assertAlmostEqual(row["model_flop_per_s"] / row["mfu"] / row["gpus"] / 989e12, 1, places=2)

    def test_the_table_tells_the_plan_and_json_whole_numbers(self):
        one = ("--top", "1", "--where", "system=slimpack", "--where", "seed=7")
        done, first = run("best", self.whole / "small.csv", *one), self.best(*one)[0]
        plan = "TP{tp} PP{pp} DP{dp} {recompute}".format(**first)
        self.assertEqual(plan, "TP2 PP2 DP4 norm+activation")
        self.assertRegex(done.stdout, rf"slimpack +{re.escape(plan)} +{first['gpus']} ")
        for row in rows(self.whole / "small.csv"):
            self.assertRegex(row["plan_text"], f"^TP{row['tp']} PP{row['pp']} (CP{row['cp']} )?DP{row['dp']} {re.escape(row['recompute'])}$")

    def test_speed_ups_over_what_does_not_fit_are_told(self):
        head = "point,id,status,system,gpus,tokens_per_s_per_gpu,fits,speed_up,first_exceeds_limit,message\n"
        path = write("gains.csv", head + "0,00,done,slim,8,9,1,1.5,1,\n1,01,done,slim,8,9,1,1.25,0,\n")
        done = run("best", path, "--by", "speed_up")
        self.assertIn("compare with a system that does not fit", done.stderr)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["point", "0", "1"])
        done = run("best", path, "--by", "speed_up", "--where", "first_exceeds_limit=0")
        self.assertEqual((done.stderr, done.stdout.count("\n")), ("", 2))
        self.assertEqual(run("best", path).stderr, "")

    def test_best_prints_the_interval_behind_its_rate(self):
        first, done = self.best("--top", "1")[0], run("best", self.whole / "small.csv", "--top", "1")
        self.assertRegex(done.stdout, rf" {first['tokens_per_s_per_gpu']:.1f} +{first['tokens_per_s_per_gpu_interval']:.1f} ")
        self.assertRegex(run("best", write("older.csv", "point,id,status,system,gpus,fits,tokens_per_s_per_gpu,message\n"
                                           "0,00,done,slim,8,1,9,\n")).stdout, r" 9\.0 +- ")

    def test_the_front_is_that_of_all_pairs(self):
        """Few values make ties. The first of equal rows represents all."""
        random.seed(5)
        for n in range(12):
            points = [(random.choice((8, 16, 32, 64)), random.randrange(1, 12), random.random() < 0.8)
                      for _ in range(random.randrange(1, 40))]
            path = write("front.csv", "point,id,status,system,gpus,tokens_per_s,fits,message\n" + "".join(
                f"{i},00,done,x,{gpus},{rate},{int(fits)},\n" for i, (gpus, rate, fits) in enumerate(points)))
            more = (1, -1)[n % 2]  # odd: fewer tokens are better
            better = lambda a, b: a[0] <= b[0] and more * a[1] >= more * b[1] and a != b
            fitting = [(gpus, rate) for gpus, rate, fits in points if fits]
            wanted = sorted({b for b in fitting if not any(better(a, b) for a in fitting)})
            done = run("best", path, "--pareto", ("gpus,tokens_per_s", "gpus,-tokens_per_s")[n % 2], "--json", "--quiet")
            self.assertEqual(done.returncode, 0, done.stderr)
            front = [(row["gpus"], row["tokens_per_s"], int(row["point"])) for row in json.loads(done.stdout)["rows"]]
            self.assertEqual([row[:2] for row in front], wanted)
            self.assertEqual([row[2] for row in front], [points.index((*row[:2], True)) for row in front])

    def test_best__takes_any_two_columns_for_its_front(self):
        path = write("two.csv", "point,id,status,system,gpus,tokens_per_s,peak_bytes,mfu,fits,message\n"
                     "0,00,done,x,8,9,3,0.5,1,\n1,01,done,x,8,9,2,0.4,1,\n2,02,done,x,8,9,4,0.4,1,\n")
        points = lambda columns: [row["point"] for row in json.loads(run("best", path, "--json", "--pareto", columns).stdout)["rows"]]
        self.assertEqual(points("mfu,peak_bytes"), [0, 1])
        self.assertEqual(points("peak_gib,mfu"), [1, 0])
        self.assertEqual(points("-mfu,+peak_bytes"), [2])
        self.assertEqual(run("best", path, "--pareto", "gpus,host_bytes").returncode, 2)
        for wrong in ("mfu", "mfu,", ",mfu", "mfu,gpus,gpus"):
            done = run("best", path, "--pareto", wrong)
            self.assertEqual(done.returncode, 64)
            self.assertIn(f"--pareto: '{wrong}' is not COLUMN,COLUMN", done.stderr)

    def test_a_sweep_names_its_best_point_and_those_within_its_interval(self):
        """A sweep over lengths asks several questions, so it names none."""
        path = write("most.yaml", "name: most\nmodel: llama-7b\ndevice: h800\nplatform: {nodes: 2, gpus_per_node: 8}\n"
                     "data: {lengths: github, context: 16Ki, global_batch: 64}\niterations: {warm_up: 0, measured: 3}\n"
                     "engine: critical-path\nsystems: [{name: best-fit, plan: {tp: 4, pp: 1, cp: 1, recompute: full}}]\n")
        said = {}
        for values in ("precision=bf16,fp8-tensor", "platform.nic=200Gbps,201Gbps", "data.context=8Ki,16Ki"):
            done = run("run", path, "--sweep", values, "--quiet", "--output", fresh("most"))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("\n+/-: half width of the 95% interval over batches", done.stdout)
            said[values.split("=")[0]] = done.stdout.splitlines()[-1]
        self.assertEqual(said["precision"], "most tokens/s/GPU: point 1 best-fit (--point 1: its verdict)")
        self.assertRegex(said["platform.nic"], r"^most tokens/s/GPU: point . best-fit .*; overlapping intervals: point . best-fit$")
        self.assertNotIn("most tokens", said["data.context"])

    def test_a_front_for_each_question(self):
        """A small model does not answer what a large one needs. Another platform, attention kernel or system does."""
        head = "point,id,status,model,data.context,platform,attention,system,gpus,tokens_per_s,tokens_per_s_per_gpu,fits,token_delay,message\n"
        table = [("large", 8, "a", 8, 1), ("small", 8, "a", 8, 9), ("large", 8, "b", 16, 2), ("small", 8, "b", 16, 4),
                 ("large", 4, "a", 8, 3), ("small", 8, "b", 16, 5), ("large", 8, "c", 16, 0.25)]

        def best(*arguments, rows=table, delay=0):
            path = write("questions.csv", head + "".join(
                f"{i},00,done,{model},{context},{platform},{i % 2},x,{gpus},{gpus * rate},{rate},1,{delay},\n"
                for i, (model, context, platform, gpus, rate) in enumerate(rows)))
            done = run("best", path, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done

        done = best("--pareto", "gpus,tokens_per_s", "--json")
        self.assertEqual([row["point"] for row in json.loads(done.stdout)["rows"]], [0, 2, 1, 5, 4])
        self.assertEqual(done.stderr, "rows differ in model, data.context, so each has a front\n")
        lines = best("--pareto", "gpus,tokens_per_s", "--quiet").stdout.split("\n")
        self.assertEqual([n for n, line in enumerate(lines) if not line], [3, 6, 8])
        self.assertIn("rows differ in model, data.context and are ranked together", best().stderr)
        self.assertEqual(best("--where", "model=small").stderr, "")
        self.assertEqual(best(rows=[table[0], table[2]]).stderr, "")
        self.assertEqual(best("--where", "gpus<0").stderr, "no row satisfies --where\n")
        self.assertIn("--by mfu", best("--where", "model=small", delay=0.5).stderr)
        self.assertEqual(best("--where", "model=small", "--by", "gpus", delay=0.5).stderr, "")

    def test_unknown_columns_and_conditions_are_refused(self):
        done = run("best", self.whole / "small.csv", "--by", "tokens_per_s_per_gp")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("did you mean 'tokens_per_s_per_gpu'", done.stderr)
        self.assertEqual(run("best", self.whole / "small.csv", "--where", "peak_gib").returncode, 64)


class Shards(Sweep):
    def shards(self, n, *arguments, **options):
        folder = fresh(f"shards-{n}")
        for k in range(1, n + 1):
            self.sweep(folder, "--quiet", "--shard", f"{k}/{n}", *arguments, **options)
        return folder

    def test_merged_shards_are_the_bytes_of_the_whole(self):
        for n in (1, 3):
            folder = self.shards(n)
            merged = fresh("merged")
            done = run("merge", *sorted(folder.glob("*.journal")), "--output", merged)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.same(self.whole, merged)

    def test_merged_files_lie_beside_the_journals(self):
        folder, elsewhere = self.shards(2), fresh("elsewhere")
        elsewhere.mkdir()
        journals = sorted(folder.glob("*.journal"))
        done = run("merge", *journals, cwd=elsewhere)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"written: {folder}/small.h5", done.stderr)
        self.same(self.whole, folder)
        self.assertEqual(run("merge", *(path.name for path in journals), cwd=folder).returncode, 0)
        journals[1] = journals[1].rename(elsewhere / journals[1].name)
        done = run("merge", *journals, cwd=SCRATCH)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"{journals[0]} and {journals[1]} are in different folders; --output DIR", done.stderr)
        self.assertEqual(list(elsewhere.iterdir()), journals[1:])

    def test_any_number_of_jobs_gives_the_same_bytes(self):
        folder = fresh("jobs")
        self.sweep(folder, "--quiet", "--jobs", "5")
        self.same(self.whole, folder)

    def test_schedulers_say_which_shard_this_is(self):
        folder = fresh("scheduled")
        for task in range(2):
            for process in range(2):
                environment = os.environ | {"SLURM_ARRAY_TASK_ID": str(task + 4), "SLURM_ARRAY_TASK_MIN": "4",
                                            "SLURM_ARRAY_TASK_COUNT": "2", "SLURM_PROCID": str(process),
                                            "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
                done = run("run", write("small.yaml", GRID), "--shard", "auto", "--output", folder, "--quiet",
                           env=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         [f"small.shard-{k}-of-4.journal" for k in range(1, 5)])
        self.assertEqual(run("merge", *folder.iterdir(), "--output", folder).returncode, 0)
        self.same(self.whole, folder)
        self.sweep(folder, "--shard", "auto", status=2)
        self.sweep(folder, "--shard", "4/3", status=64)

    def test_merge_refuses_what_is_not_whole(self):
        folder = self.shards(3)
        journals = sorted(folder.glob("*.journal"))
        bytes_of = {path: path.read_bytes() for path in journals}
        other = fresh("other")
        self.sweep(other, "--quiet", "--shard", "3/3", scenario=GRID.replace("replicates: 2", "replicates: 1"))

        def refuse(part, *paths):
            merged = fresh("refused")
            done = run("merge", *paths, "--output", merged)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(part, done.stderr)
            self.assertEqual(list(merged.iterdir()), [])

        refuse("6 of 20 points are missing (2, 5, 8, 11, 14, 17), of shard 3 of 3", *journals[:2])
        renamed = SCRATCH / "renamed.journal"
        shutil.copy(journals[1], renamed)
        refuse("6 of 20 points are missing (2, 5, 8, 11, 14, 17): a shard is missing", journals[0], renamed)
        refuse("13 of 20 points are missing (0, 2, 3, 5, 6, 8, 9, 11, ...), of shard 1, 3 of 3", journals[1])
        refuse("is also in", *journals, journals[0])
        refuse("different sweeps", *journals[:2], *other.glob("*.journal"))
        damaged = SCRATCH / "damaged.journal"
        whole = bytes_of[journals[1]]
        for keep in (5, 40, len(whole) - 1):
            damaged.write_bytes(whole[:keep])
            refuse("damaged.journal", journals[0], damaged, journals[2])
        random.seed(1)
        for _ in range(5):
            flipped = bytearray(whole)
            flipped[random.randrange(len(whole))] ^= 1 << random.randrange(8)
            damaged.write_bytes(flipped)
            refuse("damaged.journal", journals[0], damaged, journals[2])


class Engines(Sweep):
    """A point may ask for more than the critical path."""

    def test_simgrid_in_workers_gives_the_same_bytes_for_any_number_of_jobs(self):
        scenario = BASE.replace("critical-path", "both") + "sweep: {data.context: [16Ki, 32Ki], replicates: 3}\n"
        one = fresh("simgrid-1")
        self.sweep(one, "--quiet", "--jobs", "1", scenario=scenario)
        for row in rows(one / "small.csv"):
            self.assertGreaterEqual(float(row["simgrid_mean_s"]), float(row["critical_path_mean_s"]) * (1 - 1e-9))
        folder = fresh("simgrid-3")
        self.sweep(folder, "--quiet", "--jobs", "3", scenario=scenario)
        self.same(one, folder)

    def test_searched_plans_are_those_of_single_runs(self):
        scenario = BASE.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "plan: auto").replace(
            "engine: critical-path", "engine: simgrid\ntrace: full") + "sweep: {data.context: [4Ki, 64Ki]}\n"
        folder = fresh("auto")
        self.sweep(folder, "--quiet", "--jobs", "2", scenario=scenario)
        layouts = set()
        for point in (0, 1):
            self.sweep(folder, "--quiet", "--point", point, scenario=scenario)
            with h5py.File(folder / "small.h5") as file, h5py.File(folder / f"small-{point}.h5") as single:
                group = file["points"][file["manifest"][point]["id"].decode()]
                self.assertEqual(set(group), set(single))
                self.assertLessEqual({"ranking", "verdict", "would_fit"}, set(group))
                self.assertEqual(group.attrs["legend"], single.attrs["legend"])
                self.assertEqual(*(of.attrs["head"].partition(b": ")[2] for of in (group, single)))  # behind their names
                for table in group:
                    self.assertEqual(group[table][()].tobytes(), single[table][()].tobytes(), table)
                layouts.add(tuple(group["summary"][0][["tp", "pp", "cp"]]))
                self.assertNotIn("plan: auto", file["scenarios"][point]["scenario"].decode())
        self.assertEqual(len(layouts), 2)

if __name__ == "__main__":
    unittest.main(verbosity=2)

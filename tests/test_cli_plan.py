#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests print plans, search for them and take defaults from frameworks."""
import filecmp
import json
import re
import unittest

import h5py

import program
from cli_case import SMALL, SOURCE, simulate
from program import SCRATCH, fresh, point_of, run, write

AUTO = SMALL.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "plan: auto").replace(
    "plan: {tp: 2, pp: 2, recompute: norm+activation}", "plan: auto, plan_space: {pp: [2, 4], offload: [0, 1]}")

PLAN_KEYS = ("tp", "pp", "cp", "dp", "vpp", "sharding", "recompute", "offload")


class Plans(unittest.TestCase):
    def test_plan_is_json_and_holds_every_token_once(self):
        done = run("plan", write("small.yaml", SMALL), "--json", "--system", "slimpack")
        self.assertEqual(done.returncode, 0, done.stderr)
        (plan,) = json.loads(done.stdout)["systems"]
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
            (plan,) = json.loads(done.stdout)["systems"]
            for pipeline in plan["phases"][0]["pipelines"]:
                self.assertEqual({unit["streams"] for unit in pipeline["forward"]}, {stages == 1 and share > 0})
                self.assertEqual({unit["streams"] for unit in pipeline["backward"]}, {False})


class PlanSearch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = simulate("searched", scenario=AUTO)
        assert done.returncode == 0, done.stderr
        cls.report = point_of(done.stdout)
        cls.path = SCRATCH / "searched" / "small.h5"

    def test_the_plan_that_runs_is_the_first_of_its_ranking(self):
        for system in self.report["systems"]:
            search, plan = system["plan_search"], system
            chosen = search["ranking"][0]
            self.assertEqual(chosen["verdict"], "chosen")
            self.assertEqual([plan[key] for key in PLAN_KEYS], [chosen[key] for key in PLAN_KEYS])
            self.assertEqual(sum(search["verdicts"].values()), search["plans"])
            self.assertTrue(search["fits"] and system["fits"])
            decided = [row for row in search["ranking"] if row["verdict"] in ("chosen", "runner-up")]
            order = [(row["iterations"] < 5, row["time_s"]) for row in decided]  # those that stopped early come last
            self.assertEqual(order, sorted(order))
            self.assertEqual([row["slower_error"] is None for row in decided], [stopped for stopped, _ in order])
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

    def test_the_same_scenario_gives_the_same_bytes_and_the_resolved_one_the_same_numbers(self):
        simulate("searched-again", scenario=AUTO)
        self.assertTrue(filecmp.cmp(self.path, SCRATCH / "searched-again" / "small.h5", shallow=False))
        with h5py.File(self.path) as file:
            text = file.attrs["scenario"].decode()
        self.assertNotIn("plan: auto", text)
        simulate("resolved", scenario=text)
        self.assertTrue(filecmp.cmp(self.path.with_suffix(".csv"), SCRATCH / "resolved" / "small.csv", shallow=False))
        with h5py.File(self.path) as file, h5py.File(SCRATCH / "resolved" / "small.h5") as again:
            self.assertEqual(set(file) - set(again), {"plans", "deciding"})
            self.assertEqual({key: str(value) for key, value in again.attrs.items()},
                             {key: str(value) for key, value in file.attrs.items()})
            for table in again:
                self.assertEqual(file[table][()].tobytes(), again[table][()].tobytes(), table)

    def test_plan_prints_what_the_searched_plan_decides(self):
        done = run("plan", write("auto.yaml", AUTO), "--system", "slimpack")
        self.assertEqual(done.returncode, 0, done.stderr)
        system = json.loads(done.stdout)["systems"][0]
        layout = system["phases"][0]["pipelines"][0]["layout"]
        chosen = self.report["systems"][1]
        self.assertEqual((layout["tp"], layout["pp"]), (chosen["tp"], chosen["pp"]))
        self.assertEqual(system["plan_search"]["ranking"][0]["verdict"], "chosen")

    def test_virtual_stages_and_sharding_are_printed_and_stored(self):
        for space, printed, vpp, sharding in (("{tp: 2, pp: 2, vpp: 2}", "TP2 PP2 VPP2 DP4 full ", 2, "zero1"),
                                              ("{tp: 2, pp: 1, sharding: zero3}", "TP2 DP8 zero3 full ", 1, "zero3")):
            space = space.replace("}", ", cp: 1, recompute: full, offload: 0}")
            path = write("wide.yaml", AUTO.replace("name: best-fit, plan: auto", f"name: best-fit, plan: auto, plan_space: {space}"))
            done = run("run", path, "--output", SCRATCH / "wide", "--quiet", "--verbose")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"\n  chosen     {printed}", done.stdout)
            with h5py.File(SCRATCH / "wide" / "small.h5") as file:
                plan, names = file["plans"][0], file["plans"].attrs["sharding_names"]
                self.assertEqual((plan["vpp"], names[plan["sharding"]].decode()), (vpp, sharding))
                self.assertEqual(file["summary"][0]["vpp"], vpp)

    def test_a_plan_space_is_found_beside_the_scenario(self):
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
        for system in point_of(done.stdout)["systems"]:
            self.assertFalse(system["fits"] or system["plan_search"]["fits"])
            self.assertGreater(system["plan_search"]["ranking"][0]["peak_bytes"], 80e9)

    def test_a_space_without_a_plan_is_invalid(self):
        done = simulate("empty", "--set", "systems.1.plan_space.pp=7", scenario=AUTO)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the plan space wide holds no plan of slimpack", done.stderr)


class Frameworks(unittest.TestCase):
    """Presets of model/framework."""
    COMPOSER = AUTO.replace("plan: auto}", "plan: auto, plan_space: {pp: 1, sharding: zero3, recompute: full}}").replace(
        "pp: [2, 4], offload: [0, 1]", "pp: 2, recompute: norm+activation")

    def test_list__names_each_with_its_values_and_their_sources(self):
        done = run("list", "frameworks")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = re.findall(r"^(\S+)\n  source: .", done.stdout, re.MULTILINE)
        self.assertEqual(names, sorted(path.stem for path in (SOURCE / "model/framework").glob("*.yaml")))
        self.assertIn("\n  plan.fsdp_prefetch: backward-post  # Composer's FSDPConfig", done.stdout)
        values = [line for line in done.stdout.splitlines() if line.startswith("  ") and not line.startswith("  source: ")]
        self.assertTrue(all(re.fullmatch(r"  [a-z_.0-9]+: [a-z0-9+.-]+  # .+", line) for line in values))

    def test_list_keys__shows_the_defaults_of_the_default_framework(self):
        keys = {line.split()[0]: line.split() for line in run("list", "keys").stdout.splitlines() if line.strip()}
        self.assertEqual(keys["framework"][4], "megatron-core")
        self.assertEqual(keys["communication.tp_overlap"][4], "bulk")
        self.assertEqual(keys["systems.N.plan.sharding"][4], "zero1")

    def test_search__takes_from_the_framework_what_it_does_not_decide(self):
        done = simulate("composer", "--set", "framework=composer", scenario=self.COMPOSER)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(SCRATCH / "composer" / "small.h5") as file:
            text = file.attrs["scenario"].decode()
        self.assertIn("\nframework: composer\n", text)
        for values in ("gradients: bf16", "gradient_buffers: freed", "optimizer: eager"):
            self.assertEqual(text.count(f"    {values}\n"), 2, values)
        for key in ("fsdp_prefetch: backward-post", "early_stop: true"):  # with zero3, with recompute full
            self.assertEqual(text.count(f"    {key}\n"), 1, key)
        simulate("composer-again", scenario=text)
        self.assertTrue(filecmp.cmp(SCRATCH / "composer/small.csv", SCRATCH / "composer-again/small.csv", shallow=False))

    def test_sweep__knows_a_framework_by_its_values(self):
        folder = fresh("frameworks")
        folder.mkdir()
        mine = folder / "mine.yaml"
        text = SMALL.replace("engine: both\ntrace: full", "engine: critical-path") + (
            "sweep: {framework: [slimpack-paper, mine.yaml], seed: [7]}\n")
        (folder / "small.yaml").write_text(text)

        def ids(framework, scenario=text):
            mine.write_text(framework)
            (folder / "small.yaml").write_text(scenario)
            done = run("run", folder / "small.yaml", "--list", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            return [point["id"] for point in json.loads(done.stdout)["points"]]

        framework = "name: mine\nsource: a test\nplan: {gradients: bf16}\n"
        for scenario in (text, re.sub(r"plan: \{.*\}\}", "plan: auto}", text)):
            first = ids(framework, scenario)
            self.assertEqual(ids("# changed\n" + framework.replace("a test", "another test"), scenario), first)
            base, other = ids(framework.replace("bf16", "fp32"), scenario)
            self.assertEqual(base, first[0])
            self.assertNotEqual(other, first[1])
        ids(framework)
        done = run("run", folder / "small.yaml", "--output", folder, "--quiet")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = program.rows(folder / "small.csv")
        self.assertEqual([row["framework"] for row in rows], ["slimpack-paper"] * 2 + ["mine.yaml"] * 2)
        self.assertGreater(float(rows[2]["tokens_per_s_per_gpu"]), float(rows[0]["tokens_per_s_per_gpu"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check measured rows that name a system: runs with varying lengths, and pairs of them."""
import csv
import json
import unittest

from cli_case import SOURCE
from program import SCRATCH, fresh, point_of, run, write

KEYS = {"id": "V1", "trust": "A", "split": "open", "model": "tinyllama-1.1b", "device": "a100-80g", "framework": "fsdp1",
        "attention": "flash2", "system": "padding-free", "plan.tp": "1", "plan.pp": "1", "plan.sharding": "zero3",
        "plan.recompute": "full", "data.lengths": "github", "data.context": "4096", "data.global_batch": "32",
        "data.long_documents": "truncate", "iterations.measured": "3", "micro_batch": "4", "platform.nodes": "1",
        "platform.gpus_per_node": "8", "tokens_per_s": "8000", "step_time_s": "", "pair": "", "compared": "", "source": "a/b"}
SCENARIO = """\
name: row
model: tinyllama-1.1b
device: a100-80g
framework: fsdp1
attention: flash2
platform: {nodes: 1, gpus_per_node: 8}
data: {lengths: github, context: 4096, global_batch: 32, long_documents: truncate}
engine: critical-path
iterations: {warm_up: 0, measured: 3}
systems:
  - {name: padding-free, plan: {tp: 1, pp: 1, sharding: zero3, recompute: full}, knobs: {micro_batch: 4}}
"""


def validate(*rows, verbose=()):
    """Validate the usual row, with some cells changed."""
    path = SCRATCH / "varying.csv"
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, KEYS)
        table.writeheader()
        table.writerows({**KEYS, **row} for row in rows)
    return run("validate", path, "--quiet", "--output", SCRATCH / "varying", *verbose or ("--json",))


class Varying(unittest.TestCase):
    def test_row__is_predicted_as_its_scenario_runs(self):
        (row,) = json.loads(validate({}).stdout)["rows"]
        text = run("run", write("row.yaml", SCENARIO), "--json", "--quiet", "--output", fresh("row"))
        self.assertEqual(text.stderr, "")
        (system,) = point_of(text.stdout)["systems"]
        self.assertAlmostEqual(row["predicted"] / system["tokens_per_s_per_gpu"], 1, delta=1e-12)
        self.assertEqual(row["measured"], 1000)

    def test_step__has_the_tokens_of_the_simulated_ones(self):
        """Twice the seconds of a step are half the tokens a second, whatever the batches hold."""
        rows = json.loads(validate({"tokens_per_s": "", "step_time_s": "2"}, {"id": "V2", "tokens_per_s": "", "step_time_s": "4"}).stdout)["rows"]
        one, two = sorted(rows, key=lambda row: row["row"])
        self.assertAlmostEqual(one["measured"] / two["measured"], 2, delta=1e-12)
        self.assertAlmostEqual((one["error"] + 1) * 2 / (two["error"] + 1), 1, delta=1e-12)

    def test_pair__counts_its_gain_alone_if_asked(self):
        """Padding-free is measured 20% faster than padded. Only one row counts by itself."""
        rows = {"pair": "V2", "tokens_per_s": "9600"}, {"id": "V2", "system": "padded", "compared": "ratio"}
        report = json.loads(validate(*rows).stdout)
        (pair,) = report["pairs"]
        by = {row["row"]: row for row in report["rows"]}
        self.assertEqual((pair["row"], pair["over"]), ("V1", "V2"))
        self.assertAlmostEqual(pair["measured_gain"], 0.2, delta=1e-12)
        self.assertAlmostEqual(pair["predicted_gain"], by["V1"]["predicted"] / by["V2"]["predicted"] - 1, delta=1e-12)
        self.assertTrue(by["V2"]["only_beside_pair"] and "only_beside_pair" not in by["V1"])
        text = validate(*rows, verbose=("-v",)).stdout
        self.assertIn("pairs: the faster run is predicted faster in 1 of 1 with a gain above 5%,", text)
        self.assertIn("only beside its pair", text)

    def test_cells__that_are_wrong_are_refused(self):
        for row, text in (({"system": "padded-free"}, "varying.csv:2: name: there is no training system 'padded-free'"),
                          ({"system": "flexsp", "plan.sharding": "zero1"}, "micro_batch: unknown key"),
                          ({"pair": "V9"}, "varying.csv:2: pair: no row has the id 'V9'; allowed: the id of a row"),
                          ({"compared": "gain"}, "varying.csv:2: compared: 'gain' is not allowed; allowed: all|ratio"),
                          ({"micro_batch": "many"}, "micro_batch: 'many' is not a number")):
            done = validate(row)
            self.assertEqual((done.returncode, done.stdout), (2, ""), row)
            self.assertIn(text, done.stderr)

    def test_shipped_rows__say_what_is_assumed_and_whom_they_meet(self):
        with open(SOURCE / "model/validation/varying.csv", newline="") as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        ids = {row["id"] for row in rows}
        for row in rows:
            self.assertTrue(row["source"] and row["assumed"] and row["group"].startswith("varying lengths"), row["id"])
            self.assertTrue(not row["pair"] or row["pair"] in ids)
            self.assertIn(row["split"], "open")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests compare memory with what people elsewhere published: peaks, runs out of memory, Liger's two runs."""
import csv
import json
import unittest

from cli_case import SOURCE
from program import SCRATCH, point_of, run, write

# Liger's README: Llama 3 8B on 8 A100, FSDP1, 8 samples a GPU. 4,096 tokens run out of memory, with Liger 16,384 fit.
README = """\
name: readme
model: llama3-8b
device: a100-80g
platform: {nodes: 1}
data: {lengths: fixed, context: 4096, global_batch: 64}
engine: critical-path
iterations: {warm_up: 0, measured: 1}
systems:
  - {name: best-fit, knobs: {micro_batch: 8}, plan: {tp: 1, pp: 1, recompute: full}}
"""


class PublicMemory(unittest.TestCase):
    def share(self, *sets):
        """Return the share of the GPUs' memory that a run of the README needs."""
        sets = [argument for one in sets for argument in ("--set", one)]
        point = point_of(run("run", write("readme.yaml", README), *sets, "--json", "--quiet", "--output",
                             SCRATCH / "readme").stdout)
        return point["systems"][0]["peak_bytes"] / (point["memory_bytes"] / 0.95)

    def test_liger_never_holds_all_logits(self):
        """A run without Liger has 12 bytes a logit of 32,768 x 128,256 at the loss. With it none of these is there."""
        without, fits = self.share("framework=transformers"), self.share("framework=liger", "data.context=16384")
        self.assertGreater(without, 0.9)
        self.assertLess(fits, 0.85)
        logits = 32768 * 128256 / (81936665369)
        self.assertGreater(without - self.share("framework=liger"), 10 * logits)
        held = self.share("framework=liger", "loss=fused") - self.share("framework=liger", "loss=fused-linear")
        self.assertGreater(held, 2 * logits)

    def test_published_runs_out_of_memory_are_seen_and_no_other_run_is_refused(self):
        done = run("validate", "--json", SOURCE / "model/validation/public.csv", "--output", SCRATCH / "public_memory")
        outcomes = json.loads(done.stdout)["outcomes_of_groups"]
        self.assertEqual((outcomes["rows"], outcomes["ran_out_of_memory"], outcomes["fitted_predicted_not_to"]), (463, 246, 0))
        self.assertLessEqual(outcomes["ran_out_predicted_to_fit"], 0.2 * 246)

    def test_peaks_are_within_a_tenth_where_the_counter_is_known(self):
        path = SOURCE / "model/validation/public_memory.csv"
        rows = json.loads(run("validate", "--json", path, "--output", SCRATCH / "public_memory").stdout)["rows"]
        with path.open() as file:
            file.readline()
            given = {row["id"]: row for row in csv.DictReader(file)}
        self.assertEqual((len(given), len(rows)), (16, 12))
        self.assertTrue(all(row["split"] == "open" for row in given.values()))
        errors = [abs(row["error"]) for row in rows if "counter" not in given[row["row"]]["assumed"]]
        self.assertEqual(len(errors), 10)
        self.assertLess(max(errors), 0.1)
        self.assertLess(sum(errors) / len(errors), 0.05)


if __name__ == "__main__":
    unittest.main()

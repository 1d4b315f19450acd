#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests size batches by tokens instead of documents."""
import json
import subprocess
import sys
import unittest

import h5py

from cli_case import SMALL, SOURCE, simulate
from program import SCRATCH, fresh, run, write

sys.path.insert(0, str(SOURCE / "analysis"))
from common import Trace  # noqa: E402

TOKENS, CONTEXT = 192 * 1024, 32 * 1024
SEQUENCES = TOKENS // CONTEXT
BY_TOKENS = SMALL.replace("global_batch: 48", "global_batch_tokens: 192Ki").replace(
    "systems:\n", "plan_space: {tp: [2, 4], recompute: norm+activation}\nsystems:\n  - {name: wlb-llm, plan: auto}\n"
    "  - {name: best-fit, label: searched, plan: auto}\n")


class BatchTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = simulate("tokens", scenario=BY_TOKENS)
        assert done.returncode == 0, done.stderr
        cls.path = SCRATCH / "tokens/small.h5"
        with h5py.File(cls.path) as file:
            cls.iterations, cls.lengths = file["iterations"][:], file["lengths"][:]
            cls.attributes = dict(file.attrs)

    def test_batch_tokens__every_system_sees_the_same_documents(self):
        """wlb-llm delays documents, so it trains other tokens. The batches that arrive are those of `lengths`."""
        batches = {}
        for row in self.iterations:
            batches.setdefault(int(row["iteration"]), set()).add(int(row["documents"]))
        self.assertTrue(all(len(documents) == 1 for documents in batches.values()))
        self.assertGreater(len(set.union(*batches.values())), 1)
        for row in self.iterations:
            if row["delayed_tokens"] == 0 and row["system"] > 0:
                self.assertTrue(TOKENS // 2 < row["tokens"] <= TOKENS)
        told = json.loads(run("lengths", write("small.yaml", BY_TOKENS), "--json").stdout)
        measured = self.iterations[(self.iterations["measured"] == 1) & (self.iterations["system"] == 1)]
        self.assertEqual(told["tokens"], measured["tokens"].sum())
        self.assertEqual(told["samples"], measured["samples"].sum())

    def test_batch_tokens__are_named_where_documents_were(self):
        self.assertEqual((self.attributes["global_batch"], self.attributes["global_batch_tokens"]), (0, TOKENS))
        report = run("run", write("small.yaml", BY_TOKENS), "--quiet", "--output", SCRATCH / "report").stdout
        self.assertIn(f"{SEQUENCES} sequences of {CONTEXT:,} tokens packed from github documents", report.splitlines()[0])
        self.assertIn(f"of {SEQUENCES} packed sequences,", run("lengths", write("small.yaml", BY_TOKENS)).stdout.splitlines()[0])
        self.assertTrue(Trace(self.path).setting().endswith(", 192Ki tokens of whole sequences"))
        subprocess.run([sys.executable, SOURCE / "analysis/lengths.py", self.path], check=True, capture_output=True)

    def test_batch_tokens__a_plan_and_a_graph_have_the_documents_of_their_iteration(self):
        scenario = write("small.yaml", BY_TOKENS)
        done = run("plan", scenario, "--iteration", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        batches = [system["samples"] for system in json.loads(done.stdout)["systems"][1:]]
        self.assertTrue(all(samples == batches[0] for samples in batches))
        self.assertTrue(TOKENS // 2 < sum(sample["tokens"] for sample in batches[0]) <= TOKENS)
        done = run("export", scenario, "--dag", "dot", "--quiet", "--system", "best-fit")
        self.assertEqual((done.returncode, done.stdout[:8]), (0, "digraph "))

    def test_batch_tokens__can_be_swept(self):
        folder = fresh("swept")
        done = run("run", write("small.yaml", BY_TOKENS), "--set", "trace=summary", "--quiet", "--output", folder,
                   "--sweep", "data.global_batch_tokens=96Ki,192Ki")
        self.assertEqual(done.returncode, 0, done.stderr)
        best = json.loads(run("best", folder / "small.csv", "--json", "--quiet", "--all").stdout)["rows"]
        self.assertEqual({row["data.global_batch_tokens"] for row in best}, {TOKENS // 2, TOKENS})
        with h5py.File(folder / "small.h5") as file, h5py.File(self.path) as alone:
            rows = file["iterations"][:]
            rows = rows[rows["data.global_batch_tokens"] == TOKENS]
            self.assertEqual(list(rows["time_s"]), list(alone["iterations"]["time_s"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)

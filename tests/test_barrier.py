#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests add up the slowest passes of full traces, and compare the sum with the step of zero3."""
import unittest

import h5py
import numpy as np

from program import fresh, run, write

SCENARIO = """\
name: barrier
model: llama2-7b
device: h100-sxm
framework: fsdp1
platform: h100-2x8
data: {{lengths: {lengths}, context: 16Ki, long_documents: cut, global_batch: 96}}
iterations: {{warm_up: 1, measured: 1}}
engine: critical-path
trace: full
systems:
"""
PLANS = {
    "best-fit": "cp: 2", "length-balanced": "cp: 2", "flops-balanced": "cp: 2", "wlb-llm": "cp: 2, cp_type: all-gather",
    "megatron-dp-balanced": "cp: 2", "megatron-default-dynamic-cp": "cp: 1", "bytescale": "cp: 1", "slimpack": "cp: 1", "flexsp": "cp_type: ulysses",
}


def passes(tasks, kinds):
    """Return each rank's passes in their order: lists of [direction, seconds], with a collective before attention."""
    ranks, begin_s = {}, {}
    for task in tasks[np.argsort(tasks["start_s"], kind="stable")]:
        rank = task["pipeline"], task["context"]
        if kinds[task["kind"]] == "compute":
            ranks.setdefault(rank, []).append([task["direction"], task["finish_s"] - task["start_s"]])
            begin_s[rank] = task["start_s"]
        elif kinds[task["kind"]] == "attention":
            ranks[rank][-1][1] = task["finish_s"] - begin_s[rank]
    return list(ranks.values())


def sum_of_maxima(ranks):
    """Let the ranks run one kind of pass at a time, forwards first, and add up the slowest ones."""
    at, total = [0] * len(ranks), 0
    while any(k < len(rank) for k, rank in zip(at, ranks)):
        kind = min(rank[k][0] for k, rank in zip(at, ranks) if k < len(rank))
        here = [i for i, rank in enumerate(ranks) if at[i] < len(rank) and rank[at[i]][0] == kind]
        total += max(ranks[i][at[i]][1] for i in here)
        for i in here:
            at[i] += 1
    return total


class Barrier(unittest.TestCase):
    def test_zero3__lasts_as_long_as_the_sum_of_its_slowest_passes(self):
        for lengths in ("github", "wikipedia", "commoncrawl"):
            entries = "".join(f"  - {{name: {name}, plan: {{tp: 1, pp: 1, {keys}, sharding: zero3, recompute: full}}}}\n"
                              for name, keys in PLANS.items())
            folder = fresh("barrier")
            done = run("run", write("barrier.yaml", SCENARIO.format(lengths=lengths) + entries), "-o", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with h5py.File(folder / "barrier.h5") as file:
                tasks = file["tasks"][:]
                kinds = [text.decode() for text in file["tasks"].attrs["kind_names"]]
            for system, name in enumerate(PLANS):
                mine = tasks[tasks["system"] == system]
                work = [kinds[kind] in ("compute", "attention") for kind in mine["kind"]]
                ranks = passes(mine, kinds)
                self.assertGreater(len(ranks), 1)
                with self.subTest(lengths=lengths, system=name):
                    self.assertAlmostEqual(sum_of_maxima(ranks) / mine["finish_s"][work].max(), 1, delta=1e-3)


    def test_groups_of_shards__share_nics_once(self):
        """Groups of 8 shards fill nodes, so only gradients among groups leave them. All 8 GPUs send at once, and costs
        divide the NICs that they share. SimGrid divides no further."""
        text = SCENARIO.format(lengths="github").replace("critical-path", "both").replace("16Ki", "2Ki").replace("full\n", "summary\n")
        text = text.replace("h100-2x8", "{nodes: 4, gpus_per_node: 8, nic: 5GBps}")
        entry = "  - {name: padding-free, knobs: {micro_batch: 1}, plan: {tp: 1, pp: 1, cp: 1, sharding: zero3, shard_group: 8}}\n"
        for nics in (8, 4, 1):
            folder = fresh("nics")
            done = run("run", write("nics.yaml", text + entry), "-o", folder, "--set", f"platform.nics_per_node={nics}")
            self.assertEqual(done.returncode, 0, done.stderr)
            with h5py.File(folder / "barrier.h5") as file:
                row = file["summary"][0]
            self.assertAlmostEqual(row["simgrid_mean_s"] / row["critical_path_mean_s"], 1, delta=1e-9)


if __name__ == "__main__":
    unittest.main()

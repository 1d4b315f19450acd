#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests compare ODC's plans of 100 random batches with its steps, written a second time: the same parts, the same
micro-batches."""
import heapq
import itertools
import json
import math
import unittest

from program import run, write

SCENARIO = """\
name: odc
model: llama-7b
device: h800
framework: slimpack-paper
platform: {{nodes: 1, gpus_per_node: {ranks}}}
data: {{lengths: {lengths}, context: 16Ki, global_batch: {samples}}}
iterations: {{warm_up: 0, measured: 1}}
engine: critical-path
systems:
  - {{name: odc, plan: {{tp: 1, pp: 1, sharding: zero3, shard_communication: on-demand}}, knobs: {{max_tokens: 16Ki, quadratic: 4.348, linear: 8.768}}}}
  - {{name: odc, label: micro, plan: {{tp: 1, pp: 1, sharding: zero3}}, knobs: {{packing: lb-micro, max_tokens: 16Ki, quadratic: 4.348, linear: 8.768}}}}
"""


def cost_of(tokens):
    return 4.348 * (tokens / 32000) ** 2 + 8.768 * (tokens / 32000)


def differencing(cost, k, equal=False):
    """Divide the indices of cost into k lists by Karmarkar-Karp, the dearest first."""
    order = sorted(range(len(cost)), key=lambda i: (-cost[i], i))
    runs = [order[i:i + k] for i in range(0, len(order), k)] if equal else [[i] for i in range(len(cost))]
    heap = []

    def push(number, sets):
        sets.sort(key=lambda one: -one[0])
        heapq.heappush(heap, (sets[-1][0] - sets[0][0], number, sets))

    for number, one in enumerate(runs):
        push(number, [(cost[i], [i]) for i in one] + [(0.0, [])] * (k - len(one)))
    while len(heap) > 1:
        (_, number, first), (_, _, second) = heapq.heappop(heap), heapq.heappop(heap)
        push(number, [(a[0] + b[0], a[1] + b[1]) for a, b in zip(first, reversed(second))])
    return [sorted(items) for _, items in heap[0][2]]


def swapped(cost, parts):
    """Swap the best pair while that lowers the dearest part."""
    parts = [set(part) for part in parts]
    total = [sum(cost[i] for i in sorted(part)) for part in parts]
    part_of = {i: k for k, part in enumerate(parts) for i in part}
    while True:
        dearest = max(range(len(parts)), key=lambda k: (total[k], -k))
        pairs = [(max(total[dearest] - (cost[i] - cost[j]), total[part_of[j]] + (cost[i] - cost[j])), i, j)
                 for i in parts[dearest] for j in part_of if part_of[j] != dearest]
        least, i, j = min(pairs, default=(math.inf, 0, 0))
        if least >= total[dearest] * (1 - 1e-6):
            return [sorted(part) for part in parts]
        more, other = cost[i] - cost[j], part_of[j]
        total[dearest] -= more
        total[other] += more
        for sample, old, new in ((i, dearest, other), (j, other, dearest)):
            parts[old].remove(sample)
            parts[new].add(sample)
            part_of[sample] = new


def piles_of(tokens, part, n):
    part = sorted(part)
    return [[part[i] for i in pile] for pile in differencing([cost_of(tokens[i]) for i in part], n)] if part else [[]] * n


def fits(tokens, piles, most):
    return all(len(pile) < 2 or sum(tokens[i] for i in pile) <= most for pile in piles)


def divided(tokens, ranks, most, micro):
    """Return the micro-batches of each rank."""
    cost = [cost_of(length) for length in tokens]
    parts = swapped(cost, differencing(cost, ranks, equal=micro))
    needed = []
    for part in parts:
        n = math.ceil(sum(tokens[i] for i in part) / most)
        needed.append(next((k for k in itertools.count(n) if fits(tokens, piles_of(tokens, part, k), most)), 0) if part else 0)
    if micro:
        same = next(k for k in itertools.count(max(needed)) if all(fits(tokens, piles_of(tokens, part, k), most) for part in parts))
        needed = [same] * len(parts)
    return [[pile for pile in piles_of(tokens, part, n) if pile] for part, n in zip(parts, needed)]


class Rules(unittest.TestCase):
    def test_parts_and_micro_batches_are_those_of_the_steps(self):
        own_numbers = 0
        for seed in range(100):
            ranks, samples = (8, 4, 2)[seed % 3], (64, 39, 120, 7)[seed % 4]
            lengths = ("github", "wikipedia", "commoncrawl", "wlb-llm")[seed // 3 % 4]
            path = write("odc.yaml", SCENARIO.format(ranks=ranks, lengths=lengths, samples=samples))
            done = run("plan", path, "--quiet", "--set", f"seed={seed + 1}")
            self.assertEqual(done.returncode, 0, done.stderr)
            for plan in json.loads(done.stdout)["systems"]:
                tokens = [sample["tokens"] for sample in plan["samples"]]
                found = [[sorted(piece[0] for piece in unit["slices"]) for unit in pipeline["forward"]]
                         for pipeline in plan["phases"][0]["pipelines"]]
                expected = divided(tokens, ranks, 16384, plan["label"] == "micro")
                with self.subTest(seed=seed, label=plan["label"]):
                    self.assertEqual(found, expected)
                own_numbers += plan["label"] == "odc" and len({len(rank) for rank in found}) > 1
        self.assertGreater(own_numbers, 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)

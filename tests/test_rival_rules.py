# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check the rivals' decisions for random batches against their rules, written a second time. The rules are
those of their papers' restatements. They are packs of least load, ByteScale's groups and their ranks, and Megatron's
dynamic context parallelism step by step. They are also SlimPipe's slices, and who computes whose attention."""
import itertools
import json
import math
import unittest

from program import run, write

SCENARIO = """\
name: rules
model: llama-7b
device: h800
framework: slimpack-paper
platform: hopper-2x8
data: {lengths: github, context: 16Ki, global_batch: 70}
iterations: {warm_up: 0, measured: 1}
engine: critical-path
systems:
  - {name: length-balanced, plan: {tp: 2, pp: 1}}
  - {name: flops-balanced, plan: {tp: 2, pp: 1}, knobs: {max_tokens: 20000}}
  - {name: bytescale, offload: never, plan: {tp: 1, pp: 1}, knobs: {capacity: 3000}}
  - {name: bytescale, label: staged, offload: never, plan: {tp: 1, pp: 2}, knobs: {capacity: 3000, buckets: 4}}
  - {name: megatron-dynamic-cp, plan: {tp: 1, pp: 1}, knobs: {max_tokens: 500}}
  - {name: slimpipe, plan: {tp: 1, pp: 4}, knobs: {slices: 6}}
"""
HIDDEN, FFN, LAYERS = 4096, 11008, 32  # Llama 7B: as many keys and values as queries


def forward_flop(tokens):
    """Count one layer: GEMMs with two FLOPs a parameter and token, causal attention with 4 h for each query and key."""
    return 2 * tokens * (4 * HIDDEN**2 + 3 * HIDDEN * FFN) + 2 * HIDDEN * tokens * (tokens + 1)


def both_flop(tokens):
    """Count the backward, too: twice the GEMMs, 2.5 times the attention."""
    return 6 * tokens * (4 * HIDDEN**2 + 3 * HIDDEN * FFN) + 7 * HIDDEN * tokens * (tokens + 1)


def least_loaded(tokens, weight, n_packs, capacity):
    """Pack by longest processing time first. None: a sample finds no room."""
    packs = [[] for _ in range(n_packs)]
    for sample in sorted(range(len(tokens)), key=lambda i: (-weight[i], i)):
        open_packs = [k for k in range(n_packs) if sum(tokens[i] for i in packs[k]) + tokens[sample] <= capacity]
        if not open_packs:
            return None
        packs[min(open_packs, key=lambda k: (sum(weight[i] for i in packs[k]), k))].append(sample)
    return packs


def best_fit(tokens, samples, capacity):
    """Put each of the samples into the fullest pack that holds it."""
    packs = []
    for sample in samples:
        room = [capacity - sum(tokens[i] for i in pack) - tokens[sample] for pack in packs]
        fits = [k for k in range(len(packs)) if room[k] >= 0]
        if fits:
            packs[min(fits, key=lambda k: (room[k], k))].append(sample)
        else:
            packs.append([sample])
    return packs


def longest_first(tokens):
    return sorted(range(len(tokens)), key=lambda i: (-tokens[i], i))


def units_of(pipeline, direction="forward"):
    return [[piece[0] for piece in unit["slices"]] for unit in pipeline[direction]]


def dealt(packs, n_ranks):
    return [[pack for pack in packs[rank::n_ranks] if pack] for rank in range(n_ranks)]


def sequences_and_packs(tokens, capacity):
    """Sort ByteScale's items by descending FLOPs: (samples, ranks, FLOPs of all). Samples that fit one rank make
    best-fit packs."""
    order = longest_first(tokens)
    items = [([i], math.ceil(tokens[i] / capacity)) for i in order if tokens[i] > capacity]
    items += [(pack, 1) for pack in best_fit(tokens, [i for i in order if tokens[i] <= capacity], capacity)]
    items = [(samples, width, sum(both_flop(tokens[i]) for i in samples)) for samples, width in items]
    return [items[k] for k in sorted(range(len(items)), key=lambda k: (-items[k][2], k))]


def balanced(items, n_ranks, n_buckets, delta=0.05):
    """Run ByteScale's Algorithm 2: (samples, ranks) of each rank. The next item of each bucket goes in turn, to ranks that
    had it last if such may take it. 0 buckets: items go in their order."""
    load, level, given = [0.0] * n_ranks, [None] * n_ranks, [[] for _ in range(n_ranks)]
    upto = list(itertools.accumulate(item[2] for item in items))
    buckets = [[] for _ in range(max(1, n_buckets))]
    for number, item in enumerate(items):  # of about equal FLOPs: one ends where its share of all is reached
        before = upto[number - 1] if number > 0 else 0
        buckets[min(int(before * len(buckets) / upto[-1]), len(buckets) - 1)].append(item)
    turns = itertools.zip_longest(*buckets)
    for bucket, (samples, width, flop) in ((k, item) for turn in turns for k, item in enumerate(turn) if item):
        below = max(load) - delta * sum(load) / n_ranks
        targets = [one < below for one in load] if min(load) < below else [True] * n_ranks

        def rank_of(first):
            block = range(first, first + width)
            all_targets = all(targets[rank] for rank in block)
            strangers = sum(level[rank] not in (None, bucket) for rank in block) if n_buckets and all_targets else 0
            return not all_targets, strangers, max(load[rank] for rank in block), first

        first = min(range(n_ranks - width + 1), key=rank_of)
        for rank in range(first, first + width):
            load[rank] += flop / width
            level[rank] = bucket
            given[rank].append((samples, width))
    return given


class Step:
    """Make one step of dynamic context parallelism: groups [ranks, samples, work], and the samples that are left."""

    def __init__(self, tokens, left, n_ranks, room, delta):
        self.tokens, self.left, self.n_ranks, self.room, self.delta = tokens, left, n_ranks, room, delta
        self.groups, self.free = [], list(range(n_ranks))

    def degree(self, sample):
        return min(self.n_ranks, 2 ** math.ceil(math.log2(max(1, math.ceil(self.tokens[sample] / self.room)))))

    def work(self, sample, n_ranks):
        return self.tokens[sample] ** 2 / n_ranks

    def loads(self):
        return [group[2] for group in self.groups] + [0] * bool(self.free)

    def balanced(self):
        return max(self.loads()) - min(self.loads()) <= self.delta * max(self.loads())

    def buckets(self):
        works = [self.work(sample, self.degree(sample)) for sample in self.left]
        n = len({self.degree(sample) for sample in self.left})
        buckets = [[]]
        for sample, work in zip(self.left, works):
            held = sum(self.work(other, self.degree(other)) for other in buckets[-1])
            behind = len(self.left) - sum(map(len, buckets))
            if buckets[-1] and (held + work > 1.1 * sum(works) / n or behind <= n - 2 * (len(buckets) - 1)):
                buckets.append([])
            buckets[-1].append(sample)
        return buckets

    def place(self, sample):
        degree = self.degree(sample)
        alike = [group for group in self.groups if len(group[0]) == degree]
        if len(self.free) >= degree:
            self.groups.append([self.free[:degree], [], 0])
            self.free = self.free[degree:]
            group = self.groups[-1]
        elif alike:
            group = min(alike, key=lambda group: group[2])
        else:
            return False
        group[1].append(sample)
        group[2] += self.work(sample, degree)
        return True

    def fill(self):
        buckets, widest = self.buckets(), None
        narrower = False
        while True:
            taken = next((bucket for bucket in buckets if bucket and self.place(bucket[0])), None)
            if taken is None:
                break
            degree = self.degree(taken.pop(0))
            widest = widest or degree
            narrower = narrower or degree < widest
            if narrower and self.balanced():
                break
        self.left = [sample for bucket in buckets for sample in bucket]

    def trim(self):
        while not self.balanced() and min(self.loads()) > 0:
            fullest = max(self.groups, key=lambda group: group[2])
            gap = max(self.loads()) - min(self.loads())
            if len(fullest[1]) < 2:
                return
            before = fullest[2]
            fullest[2] -= self.work(fullest[1][-1], len(fullest[0]))
            if max(self.loads()) - min(self.loads()) >= gap:
                fullest[2] = before
                return
            self.left.append(fullest[1].pop())

    def spread(self):
        while self.free:
            group = min(self.groups, key=lambda group: len(group[0]))
            more = min(len(group[0]), len(self.free))
            group[0] += self.free[:more]
            self.free = self.free[more:]
        ranks = itertools.count()  # neighbours: the groups behind one that grew move up
        for group in self.groups:
            group[0] = [next(ranks) for _ in group[0]]


def moved(loads, threshold=0.01):
    """Give (from, to, share of the load of `from`) until all loads {stage: FLOPs} have their mean."""
    mean = sum(loads.values()) / len(loads)
    excess = {stage: load - mean for stage, load in loads.items()}
    moves = []
    while True:
        giver = max(sorted(excess), key=lambda stage: excess[stage])
        taker = min(sorted(excess), key=lambda stage: excess[stage])
        flop = min(excess[giver], -excess[taker])
        if flop <= threshold * mean:
            return moves
        moves.append((giver, taker, flop / loads[giver]))
        excess[giver] -= flop
        excess[taker] += flop


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        path = write("rules.yaml", SCENARIO)
        cls.plans = []
        for seed in (1, 2, 3):
            done = run("plan", path, "--quiet", "--set", f"seed={seed}")
            assert done.returncode == 0, done.stderr
            cls.plans.append({plan["label"]: plan for plan in json.loads(done.stdout)["systems"]})

    def each(self, system):
        """(plan, tokens of its samples) of each seed"""
        return [(plans[system], [sample["tokens"] for sample in plans[system]["samples"]]) for plans in self.plans]

    def test_the_flops_are_the_model_s(self):
        self.assertEqual(LAYERS * forward_flop(4096), 57450556293120)
        self.assertEqual(LAYERS * (both_flop(4096) - forward_flop(4096)), 117100672712704)

    def test_packs_take_the_least_loaded(self):
        for system, weigh, capacity in (("length-balanced", lambda x: x, 16384), ("flops-balanced", forward_flop, 20000)):
            for plan, tokens in self.each(system):
                pipelines = plan["phases"][0]["pipelines"]
                n_ranks, weight = len(pipelines), [weigh(length) for length in tokens]
                least = math.ceil(math.ceil(sum(tokens) / 16384) / n_ranks) * n_ranks
                packs = next(filter(None, (least_loaded(tokens, weight, n, capacity)
                                           for n in itertools.count(least, n_ranks))))
                self.assertEqual([units_of(pipeline) for pipeline in pipelines], dealt(packs, n_ranks))

    def test_bytescale_s_groups_have_the_ranks_that_have_least_to_do(self):
        for label, n_ranks in (("bytescale", 16), ("staged", 8)):
            for plan, tokens in self.each(label):
                items = sequences_and_packs(tokens, 3000)
                self.assertGreater(sum(width > 1 for _, width, _ in items), 3)
                expected = balanced(items, n_ranks, 4 if label == "staged" else 0)
                for rank, pipeline in enumerate(plan["phases"][0]["pipelines"]):
                    found = list(zip(units_of(pipeline), (unit["context"] for unit in pipeline["forward"])))
                    self.assertEqual(sorted(found), sorted(expected[rank]))

    def test_dynamic_cp_forms_steps(self):
        n_steps = 0
        for plan, tokens in self.each("megatron-dynamic-cp"):
            left = longest_first(tokens)
            for phase in plan["phases"]:
                step = Step(tokens, left, 16, 500, 0.05)
                step.fill()
                step.trim()
                step.spread()
                left, n_steps = step.left, n_steps + 1
                expected = {rank: [([sample], len(ranks)) for sample in samples]
                            for ranks, samples, _ in step.groups for rank in ranks}
                for rank, pipeline in enumerate(phase["pipelines"]):
                    found = list(zip(units_of(pipeline), (unit["context"] for unit in pipeline["forward"])))
                    self.assertEqual(found, expected[rank])
            self.assertEqual(left, [])
        self.assertGreater(n_steps, 6)

    def test_slimpipe_cuts_equal_slices(self):
        for plan, tokens in self.each("slimpipe"):
            pipelines = plan["phases"][0]["pipelines"]
            packs = best_fit(tokens, longest_first(tokens), 16384)
            for pipeline, own in zip(pipelines, dealt(packs, len(pipelines))):
                units = iter(pipeline["forward"])
                for pack in own:
                    lengths = []
                    for unit in itertools.islice(units, 6):
                        lengths.append(sum(end - begin for _, begin, end, _ in unit["slices"]))
                    self.assertEqual(sum(lengths), sum(tokens[i] for i in pack))
                    self.assertLessEqual(max(lengths) - min(lengths), 1)
                self.assertIsNone(next(units, None))

    def test_slimpipe_s_stages_share_out_what_runs_together(self):
        n_moves = 0
        for plan, _ in self.each("slimpipe"):
            for pipeline in plan["phases"][0]["pipelines"]:
                flop = {name: [sum(end * (end + 1) - begin * (begin + 1) for _, begin, end, _ in unit["slices"])
                               for unit in pipeline[name]] for name in ("forward", "backward")}
                last = pipeline["order_by_stage"][-1]
                ahead = [0]  # forwards of the last stage before each backward; behind the last one the pace goes on
                for at, step in enumerate(last):
                    if step[0] == "B":
                        ahead.append(max(sum(one[0] == "F" for one in last[:at]), ahead[-1] + 1))
                ahead = ahead[1:]
                stages, expected = len(pipeline["order_by_stage"]), []
                for tick in range(ahead[-1] + 2 * stages):
                    runs = {"forward": {s: tick - s for s in range(stages) if 0 <= tick - s < len(flop["forward"])},
                            "backward": {s: j for s in range(stages) for j, n in enumerate(ahead)
                                         if n == tick + 1 + s - 2 * (stages - 1)}}
                    for name, units in runs.items():
                        loads = {stage: flop[name][unit] for stage, unit in units.items()}
                        if len(loads) > 1:
                            expected += [(name, giver, units[giver], taker, units[taker], share)
                                         for giver, taker, share in moved(loads)]
                found = [(one["pass"], one["from_stage"], one["from_micro_batch"], one["to_stage"], one["to_micro_batch"], one["share"])
                         for one in pipeline["exchanges"]]
                self.assertEqual([one[:5] for one in found], [one[:5] for one in expected])
                for one, other in zip(found, expected):
                    self.assertAlmostEqual(one[5], other[5], places=9)
                n_moves += len(found)
        self.assertGreater(n_moves, 100)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check the rivals' decisions for random batches against their rules, written a second time. The rules are
those of their papers' restatements. They are packs of least load, ByteScale's groups and their ranks, and Megatron's
dynamic context parallelism step by step. They are also SlimPipe's slices, and who computes whose attention. Megatron's
two schedulers of 2026 are checked on more batches, since their rules have rare cases."""
import concurrent.futures
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
SCHEDULERS = """\
name: schedulers
model: llama-7b
device: h800
framework: slimpack-paper
platform: hopper-1x8
data: {lengths: github, context: 8Ki, long_documents: cut, global_batch: 30}
iterations: {warm_up: 0, measured: 1}
engine: critical-path
systems:
"""
# Entries are named by platform, CP, PP, vpp and tokens a rank. With 0 a pack holds one context.
DEALT = [(8, 1, 1, 1, 0), (8, 2, 1, 1, 2000), (8, 4, 1, 1, 3000), (8, 1, 2, 2, 9000), (6, 1, 1, 1, 4000), (6, 1, 2, 2, 0)]
GROUPED = [(8, 1, 1, 1, 1100, 1), (8, 1, 1, 1, 3000, 2), (8, 1, 2, 1, 4000, 1), (8, 1, 2, 2, 4000, 1), (8, 1, 4, 2, 9000, 1),
           (6, 1, 1, 1, 1400, 1), (6, 1, 1, 1, 9000, 2), (6, 1, 2, 2, 7000, 1)]
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


def dealt_packs(tokens, room, multiple):
    """Pack in order, and give last samples packs of their own until there are a multiple of packs."""
    packs = []
    for sample, length in enumerate(tokens):
        if packs and sum(tokens[i] for i in packs[-1]) + length <= room:
            packs[-1].append(sample)
        else:
            packs.append([sample])
    for pack in packs[::-1]:
        while len(packs) % multiple and len(pack) > 1:
            packs.append([pack.pop()])
    return packs


def filled(groups, sizes):
    """Let the groups [size, samples] grow until they have all ranks. False: they cannot."""
    while sum(size for size, _ in groups) < sizes[-1]:
        smallest = min(size for size, _ in groups)
        larger = sizes[sizes.index(smallest) + 1]
        if sum(size for size, _ in groups) + larger - smallest > sizes[-1]:
            return False
        next(group for group in groups if group[0] == smallest)[0] = larger
    return True


def grouped(tokens, left, room, sizes):
    """Make Megatron's next micro-batch of 2026: its groups [size, samples], and the samples that wait."""
    def need(sample):
        return next((size for size in sizes if tokens[sample] / size <= room), sizes[-1])

    def work(size, samples):
        return sum(tokens[i] ** 2 / size for i in samples)

    cap = tokens[left[0]] * room * 1.05
    groups, waiting = [[need(left[0]), [left[0]]]], []
    for sample in left[1:]:
        options = []
        for size in (size for size in sizes if size >= need(sample)):
            options += [(size, at) for at, (other, samples) in enumerate(groups)
                        if other == size and sum(tokens[i] for i in samples + [sample]) <= room * size]
            if sum(other for other, _ in groups) + size <= sizes[-1]:
                options.append((size, len(groups)))

        loads = [work(*group) for group in groups]

        def fullest(option):
            size, at = option
            return max(*loads, (loads[at] if at < len(groups) else 0) + work(size, [sample]))

        best = min(options, key=fullest, default=None)
        if best is None or fullest(best) > cap:
            waiting.append(sample)
        elif best[1] < len(groups):
            groups[best[1]][1].append(sample)
        else:
            groups.append([best[0], [sample]])
    if filled(groups, sizes):
        return groups, waiting
    taken, waiting = [left[0]], []
    for sample in left[1:]:
        fits = sum(tokens[i] for i in taken + [sample]) <= room * sizes[-1]
        (taken if fits else waiting).append(sample)
    return [[sizes[-1], taken]], waiting


def part(groups, sizes):
    own = [[size, samples] for size, samples in groups]
    return own if filled(own, sizes) else [[sizes[-1], [i for _, samples in groups for i in samples]]]


def grouped_batch(tokens, room, n_ranks, multiple, least):
    """Make all micro-batches of a batch, and count those before any was split. None: their number is no multiple, and
    none can be split."""
    sizes = sorted({2 ** k for k in range(10) if n_ranks % 2 ** k == 0} | {n_ranks})
    sizes = [size for size in sizes if size >= least]
    left, all_groups = longest_first(tokens), []
    while left:
        groups, left = grouped(tokens, left, room, sizes)
        all_groups.append(groups)
    n_formed = len(all_groups)
    at = n_formed - 1
    while len(all_groups) % multiple:
        if all(len(groups) == 1 for groups in all_groups):
            return None, n_formed
        groups = all_groups[at]
        if len(groups) > 1:
            ends = list(itertools.accumulate(size for size, _ in groups))
            cut = 1 + next(k for k, end in enumerate(ends) if end >= n_ranks // 2)
            all_groups[at] = part(groups[cut:], sizes)
            all_groups.append(part(groups[:cut], sizes))
        at = at - 1 if at > 0 else len(all_groups) - 1
    return all_groups, n_formed


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


class Schedulers(unittest.TestCase):
    """Megatron's schedulers of 2026 decide as their rules do, written a second time. Interleaved groups have scenarios of
    their own, since one entry that is refused ends a run."""
    @classmethod
    def setUpClass(cls):
        def entries(gpus, split):
            for of in [of for of in DEALT + GROUPED if of[0] == gpus and split == (len(of) > 5 and of[3] > 1)]:
                knobs = {"max_tokens": of[4]} | ({"min_cp": of[5]} if len(of) > 5 else {})
                name = "megatron-default-dynamic-cp" if len(of) > 5 else "megatron-dp-balanced"
                yield {"name": name, "label": str(of), "knobs": knobs, "plan": {"tp": 1, "cp": of[1], "pp": of[2], "vpp": of[3]}}

        def planned(of):
            gpus, split, seed = of
            done = run("plan", paths[gpus, split], "--quiet", "--set", f"seed={seed}", "--set", f"platform=hopper-1x{gpus}",
                       "--set", "data.lengths=" + ("github", "wikipedia", "commoncrawl")[seed % 3])
            if done.returncode == 0:
                return {plan["label"]: plan for plan in json.loads(done.stdout)["systems"]}
            assert split and "none has several groups to split" in done.stderr, done.stderr
            return next(str(entry) for entry in GROUPED if f"{entry}: no plan" in done.stderr)

        paths = {(gpus, split): write(f"schedulers{gpus}{split}.yaml", SCHEDULERS + "".join(
            f"  - {json.dumps(one)}\n" for one in entries(gpus, split))) for gpus in (6, 8) for split in (False, True)}
        cases = [(gpus, split, seed) for gpus, first in ((8, 0), (6, 50)) for split in (False, True)
                 for seed in range(first, first + (10 if split else 50))]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            cls.plans = dict(zip(cases, pool.map(planned, cases)))

    def each(self, entry):
        """(pipelines, tokens of its samples) of each batch. There are no pipelines if the entry was refused."""
        for (gpus, split, seed), plans in self.plans.items():
            if gpus == entry[0] and str(entry) in ([plans] if isinstance(plans, str) else plans):
                samples = next(iter(self.plans[gpus, False, seed].values()))["samples"]
                pipelines = None if isinstance(plans, str) else plans[str(entry)]["phases"][0]["pipelines"]
                yield pipelines, [sample["tokens"] for sample in samples]

    def test_dp_balanced_deals_out_packs_in_order(self):
        n_batches, n_moved = 0, 0
        for gpus, cp, pp, vpp, most in DEALT:
            for pipelines, tokens in self.each((gpus, cp, pp, vpp, most)):
                n_ranks = gpus // cp // pp
                room, multiple = cp * (most or 8192 // cp), n_ranks * (pp if vpp > 1 else 1)
                packs = dealt_packs(tokens, room, multiple)
                self.assertEqual([units_of(pipeline) for pipeline in pipelines], dealt(packs, n_ranks))
                self.assertEqual(len(packs) % multiple, 0)
                n_batches += 1
                n_moved += len(packs) - len(dealt_packs(tokens, room, 1))
        self.assertEqual(n_batches, 50 * len(DEALT))
        self.assertGreater(n_moved, 100)

    def test_default_dynamic_cp_forms_the_same_groups(self):
        sizes, n_batches, n_split, n_refused = set(), 0, 0, 0
        for gpus, cp, pp, vpp, most, least in GROUPED:
            for pipelines, tokens in self.each((gpus, cp, pp, vpp, most, least)):
                all_groups, n_formed = grouped_batch(tokens, min(most, 8192), gpus // pp, pp if vpp > 1 else 1, least)
                self.assertEqual(pipelines is None, all_groups is None)
                n_batches += 1
                n_refused += all_groups is None
                n_split += all_groups is not None and len(all_groups) > n_formed
                expected = [[] for _ in pipelines or []]
                for groups in all_groups or []:
                    ranks = itertools.count()
                    for size, samples in groups:
                        members = [next(ranks) for _ in range(size)]
                        sizes.add((gpus // pp, size))
                        for rank in members:
                            expected[rank].append((samples, size, members if size > 1 else []))
                for pipeline, own in zip(pipelines or [], expected):
                    found = zip(units_of(pipeline), (unit["context"] for unit in pipeline["forward"]),
                                (unit["shared_by_pipelines"] for unit in pipeline["forward"]))
                    self.assertEqual(list(found), own)
        self.assertLessEqual({(8, 1), (8, 2), (8, 4), (8, 8), (6, 1), (6, 2), (6, 6), (3, 1), (3, 3)}, sizes)
        self.assertGreater(n_batches, 240)
        self.assertGreater(n_split, 5)
        self.assertGreater(n_refused, 0)


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
            for number, pipeline in enumerate(plan["phases"][0]["pipelines"]):
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
                found = [(one["pass"], one["from"]["stage"], one["from"]["micro_batch"], one["to"]["stage"],
                          one["to"]["micro_batch"], one["share"])
                         for one in plan["phases"][0]["blocks"] if one["from"]["pipeline"] == number]
                self.assertEqual([one[:5] for one in found], [one[:5] for one in expected])
                for one, other in zip(found, expected):
                    self.assertAlmostEqual(one[5], other[5], places=9)
                n_moves += len(found)
        self.assertGreater(n_moves, 100)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests compare DistCA's plans with its rules, written a second time: the same micro-batches, pieces, ticks, and
queries and keys of each block."""
import collections
import itertools
import json
import math
import unittest
from fractions import Fraction

from program import run, write

BLOCK = 128
MODELS = {  # widths of queries and of keys; heads of keys; windows of layers (0: none) and how many layers have each
    "llama-7b": (4096, 4096, 32, {0: 1}),
    "llama3.2-1b": (2048, 512, 8, {0: 1}),
    "mistral-7b": (4096, 1024, 8, {4096: 1}),
    "gemma-3-1b": (1024, 256, 1, {512: 11, 0: 2}),
}
# Each row has a model, lengths, samples, nodes of 8 GPUs, and plans (tp, pp, pool, tolerance, micro-batches). Pool 0 is
# all replicas. 0 micro-batches are those of the context.
CASES = [
    ("llama-7b", "github", 40, 2, [(1, 1, 0, "0.05", 2), (1, 1, 4, "0.1", 2), (1, 2, 0, "0.05", 4), (2, 2, 1, "0", 3),
                                   (1, 4, 0, "0.02", 6), (1, 1, 1, "0", 3), (2, 1, 0, "1", 2), (1, 2, 2, "0.2", 5)]),
    ("llama3.2-1b", "wlb-llm", 25, 4, [(1, 1, 0, "0.05", 1), (1, 1, 4, "0", 2), (1, 2, 0, "0.01", 3), (1, 4, 2, "0.05", 3),
                                       (4, 1, 0, "0.05", 0), (4, 2, 0, "0.05", 0), (2, 1, 4, "0.1", 0)]),
    ("mistral-7b", "prolong", 12, 2, [(1, 1, 0, "0.05", 1), (1, 2, 2, "0.05", 2), (2, 4, 0, "0", 4), (8, 1, 0, "0.05", 5)]),
    ("gemma-3-1b", "github", 30, 2, [(1, 1, 0, "0.05", 2), (1, 2, 0, "0.3", 2), (2, 2, 0, "0", 1), (4, 1, 0, "0.01", 3)]),
    ("llama-7b", "fixed", 6, 2, [(1, 1, 0, "0.05", 2), (1, 2, 0, "0.05", 3), (1, 1, 2, "0", 1), (1, 4, 0, "0", 5)]),
    ("llama-7b", "128 256 256 1024 1 2 3 16384", 8, 2, [(1, 1, 0, "0", 1), (1, 2, 0, "0.05", 2), (1, 1, 4, "0.05", 2), (1, 1, 0, "0", 8)]),
]
SEEDS = 3


class Plan:
    """A plan as the rules make it. A server is (stage, replica)."""
    def __init__(self, model, tokens, tp, replicas, stages, pool, tolerance, n):
        self.query, kv, heads, self.windows = MODELS[model]
        self.kv = kv * max(1, tp // heads)  # of all TP ranks, each of which has at least one head
        self.tokens, self.pool, self.stages, self.tolerance = tokens, pool, stages, Fraction(tolerance)
        self.pools = replicas // pool
        bins = [[] for _ in range(n * self.pools)]
        for sample in sorted(range(len(tokens)), key=lambda i: (-tokens[i], i)):
            min(bins, key=lambda samples: sum(tokens[i] for i in samples)).append(sample)
        self.micro_batches = [[samples for samples in bins[first::self.pools] if samples] for first in range(self.pools)]

    def flop(self, *ranges):
        """Count the keys of each query, in units that make all FLOPs whole."""
        def prefix(x, window):
            return x * (x + 1) if window == 0 or x <= window else window * (window + 1) + 2 * window * (x - window)
        return sum(layers * (prefix(end, window) - prefix(begin, window))
                   for begin, end in ranges for window, layers in self.windows.items())

    def pieces(self, samples):
        """(replica, sample, head, tail) of the samples of a micro-batch: rule 3."""
        total = sum(self.tokens[i] for i in samples)
        bounds = [total * replica // self.pool for replica in range(self.pool + 1)]
        at = 0
        for sample in samples:
            low, high = 0, self.tokens[sample]
            for replica in range(self.pool):
                n = min(at + self.tokens[sample], bounds[replica + 1]) - max(at, bounds[replica])
                if n > 0:
                    yield replica, sample, (low, low + n // 2), (high - (n - n // 2), high)
                    low, high = low + n // 2, high - (n - n // 2)
            at += self.tokens[sample]

    def ticks(self, number):
        """(pass, the micro-batch that each stage runs or None) of a pool: rule 4."""
        n, last = len(self.micro_batches[number]), self.stages - 1
        for tick in range(n + 2 * last + 1):
            for name, runs in (("forward", [tick - s for s in range(self.stages)]),
                               ("backward", [tick + s - 2 * last for s in range(self.stages)])):
                runs = [one if 0 <= one < n else None for one in runs]
                if any(one is not None for one in runs):
                    yield name, tuple(runs)

    def given(self, piece, give):
        """The head and tail that a piece gives for so many FLOPs: rule 6. Both give as many blocks as the longer one."""
        (a, b), (c, d) = piece["head"], piece["tail"]
        blocks = math.ceil(Fraction(max(b - a, d - c) * give, piece["flop"] * BLOCK))
        return (a, min(b, a + BLOCK * blocks)), (max(c, d - BLOCK * blocks), d)

    def balanced(self, number, runs):
        """The pieces of a tick, where they are served: rules 5 and 6. FLOPs are times the servers, so means are whole."""
        servers = list(itertools.product(range(self.stages), range(self.pool)))
        pieces = []
        for stage, micro_batch in enumerate(runs):
            for replica, sample, head, tail in self.pieces(self.micro_batches[number][micro_batch] if micro_batch is not None else []):
                pieces.append({"sample": sample, "head": head, "tail": tail, "owner": (stage, replica), "server": (stage, replica),
                               "flop": self.flop(head, tail) * len(servers)})
        self.owned = [dict(piece) for piece in pieces]
        load = {server: sum(piece["flop"] for piece in pieces if piece["server"] == server) for server in servers}
        mean = sum(load.values()) // len(servers)
        waiting = list(servers)
        while waiting:
            taker = max(waiting, key=lambda server: (mean - load[server], [-x for x in server]))
            waiting.remove(taker)
            while mean - load[taker] > self.tolerance * mean:
                offers = []
                for at, piece in enumerate(pieces):
                    give = min(piece["flop"], load[piece["server"]] - mean, mean - load[taker])
                    if give > 0:
                        queries = sum(end - begin for begin, end in self.given(piece, give))
                        offers.append((Fraction(queries * self.query + piece["tail"][1] * 2 * self.kv, give), at, give))
                if not offers:
                    break
                _, at, give = min(offers)
                piece, (head, tail) = pieces[at], self.given(pieces[at], give)
                moved = dict(piece, head=head, tail=tail, server=taker, flop=self.flop(head, tail) * len(servers))
                load[piece["server"]] -= moved["flop"]
                load[taker] += moved["flop"]
                if (head, tail) == (piece["head"], piece["tail"]):
                    pieces[at] = moved
                else:
                    pieces.append(moved)
                    pieces[at] = dict(piece, head=(head[1], piece["head"][1]), tail=(piece["tail"][0], tail[0]),
                                      flop=piece["flop"] - moved["flop"])
        return pieces

    def blocks(self, pieces):
        """{(from, to): (keys, [queries])}, rule 7: each server has all keys up to the last query that it serves."""
        queries, keys, last = collections.defaultdict(list), collections.Counter(), collections.Counter()
        for piece in pieces:
            ranges = [(piece["sample"], *one) for one in (piece["head"], piece["tail"])]
            queries[piece["owner"], piece["server"]] += ranges
            end = max(high for _, low, high in ranges if high > low)
            last[piece["server"], piece["sample"]] = max(last[piece["server"], piece["sample"]], end)
        for (server, sample), end in last.items():
            for piece in self.owned:
                if piece["sample"] == sample and piece["owner"] != server:
                    keys[piece["owner"], server] += sum(max(0, min(high, end) - low) for low, high in (piece["head"], piece["tail"]))
        pairs = set(queries) | {pair for pair, n in keys.items() if n > 0}
        return {pair: (keys[pair], joined(queries[pair])) for pair in pairs}


def joined(slices):
    """Join the ranges that meet."""
    result = []
    for sample, begin, end in sorted(slices):
        if begin < end and result and result[-1][0] == sample and result[-1][2] == begin:
            result[-1][2] = end
        elif begin < end:
            result.append([sample, begin, end])
    return result


def place(server, runs, first):
    """A server as the plan prints it. A stage that runs nothing has -1."""
    stage, replica = server
    return first + replica, stage, -1 if runs[stage] is None else runs[stage]


def sets_of(phase, first, pool):
    """[(pass, {(from, to): (keys, queries)})] of the sets of a pool, in order."""
    sets = {}
    for block in phase["blocks"]:
        giver, taker = (tuple(block[end][key] for key in ("pipeline", "stage", "micro_batch")) for end in ("from", "to"))
        if first <= giver[0] < first + pool:
            name, blocks = sets.setdefault(block["set"], (block["pass"], {}))
            assert name == block["pass"] and (giver, taker) not in blocks and block["share"] == 0, block
            blocks[giver, taker] = block["keys"], joined(block["slices"])
    return [sets[number] for number in sorted(sets)]


def context_of(nodes):
    return 65536 if nodes > 2 else 16384


def planned(model, lengths, samples, nodes, systems, seed):
    path = write("distca.yaml", json.dumps({
        "name": "rules", "model": model, "device": "h800", "framework": "slimpack-paper", "engine": "critical-path",
        "platform": {"nodes": nodes, "gpus_per_node": 8}, "iterations": {"warm_up": 0, "measured": 1}, "systems": systems,
        "data": {"lengths": lengths, "context": context_of(nodes), "global_batch": samples}}))
    done = run("plan", path, "--quiet", "--set", f"seed={seed}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["systems"]


class Rules(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Ask for all plans, and make each a second time."""
        cls.plans = []
        for model, lengths, samples, nodes, entries in CASES:
            systems = [{"name": "distca", "label": str(at), "plan": {"tp": tp, "pp": pp, "recompute": "full"},
                        "knobs": {"pool": pool, "tolerance": float(tolerance), "micro_batches": n, "single_stream": at % 2 == 1}}
                       for at, (tp, pp, pool, tolerance, n) in enumerate(entries)]
            for seed in range(SEEDS if lengths[0].isalpha() and lengths != "fixed" else 1):
                plans = planned(model, lengths, samples, nodes, systems, seed + 1)
                for found, (tp, pp, pool, tolerance, n) in zip(plans, entries, strict=True):
                    tokens, replicas = [sample["tokens"] for sample in found["samples"]], 8 * nodes // tp // pp
                    n = n or math.ceil(math.ceil(sum(tokens) / context_of(nodes)) / replicas)
                    own = Plan(model, tokens, tp, replicas, pp, pool or replicas, tolerance, n)
                    own.case = (model, lengths, seed + 1, tp, pp, pool, tolerance, n)
                    cls.plans.append((found["phases"][0], own))

    def pools(self):
        """(plan, number of the pool, its first pipeline, its sets) of all pools."""
        for phase, own in self.plans:
            for number in range(own.pools):
                pipelines = phase["pipelines"][number * own.pool:(number + 1) * own.pool]
                yield own, number, pipelines, sets_of(phase, number * own.pool, own.pool)

    def test_samples_go_to_the_micro_batch_with_fewest_tokens(self):
        for own, number, pipelines, _ in self.pools():
            for pipeline, name in itertools.product(pipelines, ("forward", "backward")):
                self.assertEqual([unit["slices"] for unit in pipeline[name]],
                                 [[[i, 0, own.tokens[i], own.pool] for i in samples] for samples in own.micro_batches[number]], own.case)

    def test_stages_run_in_step(self):
        """Stage s of p runs j + 1 + 2(p - 1 - s) forwards before backward j."""
        for own, number, pipelines, _ in self.pools():
            n = len(own.micro_batches[number])
            for pipeline in pipelines:
                for stage, order in enumerate(pipeline["order_by_stage"]):
                    steps = []
                    for j in range(n):
                        most = min(n, j + 1 + 2 * (own.stages - 1 - stage))
                        steps += [f"F{i}" for i in range(sum(step[0] == "F" for step in steps), most)] + [f"B{j}"]
                    self.assertEqual(order, steps, own.case)

    def test_queries_and_keys_are_those_of_the_scheduler(self):
        n_moves = n_parts = n_idle = 0
        for own, number, _, sets in self.pools():
            ticks, made = list(own.ticks(number)), {}
            self.assertEqual([name for name, _ in sets], [name for name, _ in ticks], own.case)
            for (_, blocks), (_, runs) in zip(sets, ticks):
                if runs not in made:
                    pieces = own.balanced(number, runs)
                    made[runs] = own.blocks(pieces)
                    n_moves += sum(piece["owner"] != piece["server"] for piece in pieces)
                    n_parts += len(pieces) - len(own.owned)
                    n_idle += sum(runs[piece["server"][0]] is None for piece in pieces)
                expected = {tuple(place(server, runs, number * own.pool) for server in pair): block
                            for pair, block in made[runs].items()}
                self.assertEqual(blocks, expected, own.case)
        self.assertGreater(n_moves, 5000)
        self.assertGreater(n_parts, 5000)
        self.assertGreater(n_idle, 1000)

    def test_each_query_has_one_server(self):
        for own, number, _, sets in self.pools():
            served = collections.defaultdict(list)
            for name, blocks in sets:
                for (giver, _), (_, queries) in blocks.items():
                    served[name, giver[1], giver[2]] += queries
            expected = {(name, stage, j): [[i, 0, own.tokens[i]] for i in sorted(samples)] for name in ("forward", "backward")
                        for stage in range(own.stages) for j, samples in enumerate(own.micro_batches[number])}
            self.assertEqual({key: joined(queries) for key, queries in served.items()}, expected, own.case)

    def test_servers_lack_no_more_than_the_tolerance(self):
        """A server whose turn is over may give what it took. It falls below the mean only by what blocks round up: 128
        queries of a head and of a tail."""
        n_ticks = n_within = 0
        for own, _, _, sets in self.pools():
            for _, blocks in sets:
                load = collections.Counter()
                for (_, taker), (_, queries) in blocks.items():
                    load[taker] += own.flop(*(one[1:] for one in queries))
                mean = Fraction(sum(load.values()), own.pool * own.stages)
                least = min(load.values()) if len(load) == own.pool * own.stages else 0
                rounded = 2 * 2 * BLOCK * max(own.tokens) * sum(own.windows.values())
                self.assertLessEqual(mean - least, max(own.tolerance * mean, rounded), own.case)
                n_ticks, n_within = n_ticks + 1, n_within + (mean - least <= own.tolerance * mean)
        self.assertGreater(n_within, 0.6 * n_ticks)

    def test_a_sample_over_all_replicas_sends_three_quarters_of_its_keys_to_each(self):
        """Replica r of R attends up to token l(1 - r/2R) and has l/R of its own. The sum is 3/4 (R - 1) l. The paper counts
        pieces that are not cut from both ends: s of them have keys (s + 1)/2 l, their own among them, so 1/2 (s - 1) l."""
        degrees = (1, 2, 4, 8)
        systems = [{"name": "distca", "label": str(tp), "plan": {"tp": tp, "pp": 1, "recompute": "full"},
                    "knobs": {"tolerance": 1}} for tp in degrees]
        for tp, plan in zip(degrees, planned("llama-7b", "16384", 1, 2, systems, 1), strict=True):
            sets = sets_of(plan["phases"][0], 0, 16 // tp)
            self.assertEqual([sum(keys for keys, _ in blocks.values()) for _, blocks in sets], 2 * [3 * (16 // tp - 1) * 16384 // 4])


if __name__ == "__main__":
    unittest.main(verbosity=2)

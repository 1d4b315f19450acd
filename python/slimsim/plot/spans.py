# SPDX-License-Identifier: GPL-3.0-or-later
"""This module tells where the time of every GPU goes in the iteration of a trace that holds tasks.

It follows src/bounds/bubble.c, so that the spans of all GPUs add up to the columns of the table `iterations`. The
collectives inside a pass stand at its end, although they are spread over its layers.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy

from slimsim.plot.trace import Key, Rows, Trace, unit_key

# States of a GPU in a span, in the order of a picture's legend, and the columns of `iterations` that hold the sums.
COMPUTE, OPTIMIZER, TENSOR, SHARD, EXPERT, RING, RESHARD, SYNC, PIPELINE, REPLICAS = range(10)
COLUMNS = {TENSOR: ("tensor_s",), SHARD: ("shard_s",), EXPERT: ("expert_s",), RING: ("ring_s",),
           RESHARD: ("reshard_s",), SYNC: ("sync_s",),
           PIPELINE: ("warm_up_s", "imbalance_s", "cool_down_s"), REPLICAS: ("dp_wait_s",)}
RING_PURPOSES = ("ring", "tensor", "exchange")


class Rank(NamedTuple):
    """A rank of the graph with its number of GPUs."""

    phase: int
    pipeline: int
    stage: int
    context: int
    tensor: int
    gpus: int


class Span(NamedTuple):
    """A span of a rank. key: unit_key of a pass, otherwise None."""

    start_s: float
    finish_s: float
    what: int
    key: Key | None


class Marks(NamedTuple):
    """Ends of parts of a rank's iteration: what is idle before one of them has its meaning."""

    begin_s: float
    first_pass_s: float
    pipeline_s: float
    slowest_s: float
    end_s: float


def fractions_of(row: Any) -> dict[int, float]:
    """{what: share of all GPUs' time} by the columns of a row of `iterations`. COMPUTE includes the optimizer."""
    shares = {what: sum(row[column] for column in columns) / row["total_s"] for what, columns in COLUMNS.items()}
    return {COMPUTE: 1 - sum(shares.values()), **shares}


def spans_of(trace: Trace, system: int, iteration: int) -> dict[Rank, list[Span]]:
    """{rank: its spans in order of time}"""
    tasks, edges = trace.rows("tasks", system, iteration), trace.rows("edges", system, iteration)
    return Walk(trace, tasks, edges).spans()


class Walk:
    """The tasks of an iteration, by rank."""

    def __init__(self, trace: Trace, tasks: Rows, edges: Rows) -> None:
        self.tasks = tasks
        self.kind = {name: trace.index("tasks", "kind", name) for name in ("compute", "attention", "send", "sync", "optimizer")}
        self.purpose = {name: trace.index("tasks", "purpose", name) for name in (*RING_PURPOSES, "shards", "reshard")}
        self.direction = {name: trace.index("tasks", "direction", name) for name in ("forward", "backward")}
        places = tasks[["phase", "pipeline", "stage", "context", "tensor"]]
        found, first, self.rank_of = numpy.unique(places, return_index=True, return_inverse=True)
        # sends of a re-sharding may stand for fewer GPUs than their rank
        gpus = numpy.zeros(len(found), dtype=int)
        numpy.maximum.at(gpus, self.rank_of, tasks["gpus"])
        self.ranks = [Rank._make((*(int(place) for place in found[i]), int(gpus[i]))) for i in range(len(first))]
        self.close, self.send = self.ring_ends(edges)
        self.joined_s = self.joins(edges)

    def ring_ends(self, edges: Rows) -> tuple[Any, Any]:
        """(SYNC, SEND) of all rings: the tasks that close them, and those of the ranks that wait in them."""
        syncs = numpy.flatnonzero(self.tasks["kind"] == self.kind["sync"])
        close, send = edges["to_task"], edges["from_task"]
        before = numpy.append(numpy.array([-1]), syncs)[numpy.searchsorted(syncs, close)]
        purpose = self.tasks["purpose"][close]
        ring = ((self.tasks["kind"][close] == self.kind["sync"]) & (self.tasks["kind"][send] == self.kind["send"]) &
                (purpose == self.tasks["purpose"][send]) & (send > before) &
                numpy.isin(purpose, [self.purpose[name] for name in RING_PURPOSES]))
        return close[ring], send[ring]

    def joins(self, edges: Rows) -> dict[int, tuple[float, float]]:
        """{task: ends of the last pass and of the SYNC behind it, of zero2 or zero3, for which it waits}"""
        before, behind = self.tasks[edges["from_task"]], self.tasks[edges["to_task"]]
        joins, shards = ((rows["kind"] == self.kind["sync"]) & (rows["purpose"] == self.purpose["shards"])
                         for rows in (before, behind))
        last_s = numpy.zeros(len(self.tasks))
        passes = shards & (before["purpose"] != self.purpose["shards"])
        numpy.maximum.at(last_s, edges["to_task"][passes], before["finish_s"][passes])
        return {task: (last_s[sync], self.tasks["finish_s"][sync])
                for sync, task in zip(edges["from_task"][joins], edges["to_task"][joins])}

    def latest(self, groups: Any, n: int, chosen: Any, ring_chosen: Any) -> Any:
        """Per group of ranks, the end of its last chosen pass or ring; 0 if there is none."""
        last = numpy.zeros(n)
        numpy.maximum.at(last, groups[self.rank_of[chosen]], self.tasks["finish_s"][chosen])
        numpy.maximum.at(last, groups[self.rank_of[self.send[ring_chosen]]], self.tasks["finish_s"][self.close[ring_chosen]])
        return last

    def set_marks(self) -> None:
        """Marks of each rank, the start of its first backward and the end of its last forward."""
        tasks, n = self.tasks, len(self.ranks)
        passes = numpy.isin(tasks["kind"], [self.kind["compute"], self.kind["attention"]])
        rings = numpy.ones(len(self.close), dtype=bool)
        phases = numpy.array([rank.phase for rank in self.ranks])
        pipelines = numpy.unique([rank[:2] for rank in self.ranks], axis=0, return_inverse=True)[1].reshape(-1)
        forward = self.direction["forward"]
        self.last_forward = self.latest(numpy.arange(n), n, passes & (tasks["direction"] == forward),
                                        tasks["direction"][self.close] == forward)
        self.first_backward = numpy.full(n, numpy.inf)
        backward = (tasks["kind"] == self.kind["compute"]) & (tasks["direction"] == self.direction["backward"])
        numpy.minimum.at(self.first_backward, self.rank_of[backward], tasks["start_s"][backward])
        pipeline = self.latest(pipelines, n, passes, rings)
        slowest = self.latest(phases, phases.max() + 1, passes, rings)
        self.marks: dict[int, Marks] = {}
        begin_s = 0
        for phase in range(phases.max() + 1):
            of_phase = tasks[tasks["phase"] == phase]
            reshards = of_phase["finish_s"][of_phase["purpose"] == self.purpose["reshard"]]
            end_s, first_pass_s = of_phase["finish_s"].max(), max(begin_s, reshards.max(initial=0))
            for i in numpy.flatnonzero(phases == phase):
                self.marks[i] = Marks(begin_s, first_pass_s, max(first_pass_s, pipeline[pipelines[i]]),
                                      max(first_pass_s, slowest[phase]), end_s)
            begin_s = end_s

    def spans(self) -> dict[Rank, list[Span]]:
        """{rank: its spans in order of time}"""
        self.set_marks()
        works = numpy.flatnonzero(numpy.isin(self.tasks["kind"], [self.kind[name] for name in ("compute", "attention", "optimizer")]))
        rows = [(self.rank_of[t], t, t) for t in works]
        rows += [(self.rank_of[send], close, send) for close, send in zip(self.close, self.send)]
        rows.sort(key=lambda row: row[:2])
        found: dict[Rank, list[Span]] = {rank: [] for rank in self.ranks}
        now_s = {i: marks.begin_s for i, marks in self.marks.items()}
        for i, number, begins in rows:
            spans, start_s, finish_s = found[self.ranks[i]], self.tasks["start_s"][begins], self.tasks["finish_s"][number]
            for until_s, what in zip(self.joined_s.get(number, ()), (REPLICAS, SYNC)) if number == begins else ():
                if until_s > now_s[i]:
                    spans.append(Span(now_s[i], until_s, what, None))
                    now_s[i] = until_s
            spans += self.idle(i, now_s[i], start_s)
            now_s[i] = max(now_s[i], start_s)
            spans += self.work(self.tasks[number], now_s[i], finish_s)
            now_s[i] = max(now_s[i], finish_s)
        for i, marks in self.marks.items():
            found[self.ranks[i]] += self.idle(i, now_s[i], marks.end_s)
        return found

    def work(self, task: Any, start_s: float, finish_s: float) -> list[Span]:
        """A pass with its collectives behind it, a ring, or the optimizer."""
        if finish_s <= start_s:
            return []
        if task["kind"] == self.kind["sync"]:
            return [Span(start_s, finish_s, TENSOR if task["purpose"] == self.purpose["tensor"] else RING, None)]
        if task["kind"] == self.kind["optimizer"]:
            return [Span(start_s, finish_s, OPTIMIZER, None)]
        inside = [task["shard_s"], task["expert_s"], task["tensor_s"]]
        ends = numpy.cumsum([finish_s - start_s - sum(inside), *inside]) + start_s
        parts = zip((start_s, *ends[:3]), ends, (COMPUTE, SHARD, EXPERT, TENSOR))
        return [Span(begin_s, end_s, what, unit_key(task)) for begin_s, end_s, what in parts if end_s > begin_s]

    def idle(self, i: int, from_s: float, until_s: float) -> list[Span]:
        """Idle time of rank i by its meaning."""
        marks = self.marks[i]
        warm_s = min(self.first_backward[i], marks.pipeline_s)
        steady_s = min(max(warm_s, self.last_forward[i]), marks.pipeline_s)
        ends = (0, marks.first_pass_s, warm_s, steady_s, marks.pipeline_s, marks.slowest_s, numpy.inf)
        whats = (RESHARD, PIPELINE, PIPELINE, PIPELINE, REPLICAS, SYNC)
        parts = [(max(from_s, begin_s), min(until_s, end_s), what) for begin_s, end_s, what in zip(ends, ends[1:], whats)]
        return [Span(begin_s, end_s, what, None) for begin_s, end_s, what in parts if end_s > begin_s]

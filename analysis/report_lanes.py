# SPDX-License-Identifier: GPL-3.0-or-later
"""This module packs what all GPUs do in the traced iteration, for report_lanes.js.

A lane is a rank of the task graph. Ranks of a stage that do the same at the same time are one lane. Its spans have no gaps
between them, so each needs only its end.
"""
import base64
import collections

from common import matplotlib, numpy
from slimsim.plot import timeline
from slimsim.plot.spans import COMPUTE, OPTIMIZER

# The spans of all systems may take so much of a page; over that a lane stands for all ranks of its stage.
SPAN_BYTES = 2_400_000
NO_UNIT = 0xFFFF
LONG, NO_SPAN = 1 << 6, 15  # in a span's code, whose low bits are what it is, and bits 4 and 5 its direction


def packed(values, kind):
    return base64.b64encode(numpy.asarray(values, kind).tobytes()).decode()


class Lane:
    """The spans of a rank as bytes, so that equal ones are found."""

    def __init__(self, system, rank, spans, long):
        self.ranks, self.gpus = [rank], rank.gpus
        ends, codes, units, now_s = [], [], [], 0
        for span in spans:
            if span.start_s > now_s + 1e-9:  # of another phase
                ends, codes, units = ends + [span.start_s], codes + [NO_SPAN], units + [NO_UNIT]
            code, unit = span.what, NO_UNIT
            if span.key is not None:
                unit = span.key[3]
                key = (*span.key[:2], int(span.key[2] > 0), unit)  # gradients of weights are of a backward unit
                code |= span.key[2] << 4 | (LONG if system.samples[key] & long.keys() else 0)
            ends.append(span.finish_s)
            codes.append(code)
            units.append(unit)
            now_s = span.finish_s
        self.n = len(ends)
        self.parts = numpy.array(ends, "<f4").tobytes(), numpy.array(codes, "u1").tobytes(), numpy.array(units, "<u2").tobytes()

    def absorb(self, other):
        self.ranks += other.ranks
        self.gpus += other.gpus

    def place(self):
        rank = self.ranks[0]
        return [rank.phase, rank.pipeline, rank.stage, self.gpus, self.n, sorted({rank.context for rank in self.ranks})]


def lanes_of_system(system, long):
    """Its lanes, from top to bottom."""
    found = collections.defaultdict(dict)
    for rank in sorted(system.spans):
        lane = Lane(system, rank, system.spans[rank], long)
        same = found[rank[:3]].setdefault(lane.parts, lane)
        if same is not lane:
            same.absorb(lane)
    return [list(lanes.values()) for _, lanes in sorted(found.items())]


def first_of(lanes):
    """One lane for all ranks of a stage."""
    for lane in lanes[1:]:
        lanes[0].absorb(lane)
    return lanes[:1]


def forward_key(key):
    phase, pipeline, direction, unit = key.split(",")
    return f"{phase},{pipeline},0,{unit}" if direction != "0" else None


def units_of(trace, number, iteration):
    """{"phase,pipeline,direction,unit": [formation, group of pipelines or -1, sample, begin, end...]}, without what equals
    the forward unit of its number."""
    units = {}
    for row in trace.rows("micro_batches", number, iteration):
        key = ",".join(str(row[column]) for column in ("phase", "pipeline", "direction", "micro_batch"))
        unit = units.setdefault(key, [trace.name("micro_batches", "formation", row["formation"]), int(row["group"])])
        unit += [int(row["sample"]), int(row["begin"]), int(row["end"])]
    return {key: unit for key, unit in units.items() if unit != units.get(forward_key(key))}


def looks():
    """The colours and names of what a GPU does, as in the timeline."""
    colours = [[name, matplotlib.colors.to_hex(colour)] for _, (colour, name) in sorted(timeline.LOOKS.items())]
    return {"what": colours, "passes": timeline.PASS_COLOURS, "compute": COMPUTE, "optimizer": OPTIMIZER}


def lanes_of(trace, order):
    """The lanes of all systems, in this order of their numbers."""
    if "tasks" not in trace.file or not len(trace.file["tasks"]):
        return {"missing": "The trace holds no tasks, so there are no lanes. Run the scenario with --set trace=full."}
    iteration = trace.first_iteration()
    long, half = timeline.long_samples(trace, iteration)
    systems = [timeline.read_system(trace, number, iteration) for number in order]
    stages = [lanes_of_system(system, long) for system in systems]
    joined = sum(7 * lane.n for of_system in stages for lanes in of_system for lane in lanes) > SPAN_BYTES
    if joined:
        stages = [[first_of(lanes) for lanes in of_system] for of_system in stages]
    content = []
    for number, system, of_system in zip(order, systems, stages):
        lanes = [lane for lanes in of_system for lane in lanes]
        ends, codes, units = (b"".join(parts) for parts in zip(*(lane.parts for lane in lanes)))
        content.append({"label": system.label, "fits": bool(system.summary["fits"]), "time_s": float(system.iteration["time_s"]),
                        "places": [lane.place() for lane in lanes], "ends": base64.b64encode(ends).decode(),
                        "codes": base64.b64encode(codes).decode(), "span_units": base64.b64encode(units).decode(),
                        "micro_batches": units_of(trace, number, iteration)})
    lengths = trace.table("lengths")
    lengths = lengths[lengths["iteration"] == iteration]
    tokens = numpy.zeros(lengths["sample"].max(initial=-1) + 1, int)
    tokens[lengths["sample"]] = lengths["tokens"]
    return {"iteration": iteration, "half": half, "joined": joined, "looks": looks(), "systems": content,
            "tokens": packed(tokens, "<u4")}

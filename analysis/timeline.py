#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Timeline of one iteration: what all GPUs of each system of a trace do, on one time axis.

A lane is a pipeline stage of a data-parallel replica. It is as high as its GPUs are many, so equal areas are equal GPU
time. The iteration is the one that the trace holds: the measured one nearest to the means. The shares beside a panel
are those of this iteration. --pipeline draws single pipelines and their memory instead. The script needs only the HDF5
trace, which must hold tasks (`trace: full`).

    timeline.py results/quickstart.h5 --output results/quickstart.png results/quickstart.svg
"""
import argparse
import collections
import string

import pipelines
import spans
from common import Patch, Trace, add_output, draw, matplotlib, numpy, pyplot, unit_key
from output import exit_with
from spans import COMPUTE, EXPERT, OPTIMIZER, PIPELINE, REPLICAS, RESHARD, RING, SHARD, SYNC, TENSOR

PASS_COLOURS = (("#A9C8EA", "#3A6FA9"), ("#F8BE84", "#D2691E"))  # short, long; forward, backward
LOOKS = {COMPUTE: (PASS_COLOURS[0][1], "computing"), TENSOR: ("#8E5BA6", "tensor parallelism"),
         SHARD: ("#C99BD3", "ZeRO-2/3"), EXPERT: ("#5E3C99", "tokens to experts"),
         RING: ("#D81B60", "context parallelism"), RESHARD: ("#8A8A00", "re-sharding"),
         SYNC: ("#1B8A78", "gradients, parameters"), PIPELINE: ("#E9E9E9", "waiting in the pipeline"),
         REPLICAS: ("#C4C4C4", "waiting for replicas"), OPTIMIZER: ("#222222", "optimizer")}
NAMED_SAMPLES = 6  # of the long ones

# One panel draws this of a trace. spans: of each rank. samples: {key of a unit: its samples}. merged: {key of a
# unit that pipelines share: their group}.
System = collections.namedtuple("System", "label summary iteration spans samples merged")


def read_system(trace, number, iteration):
    units = trace.rows("micro_batches", number, iteration)
    samples = collections.defaultdict(set)
    for row in units:
        samples[unit_key(row)].add(int(row["sample"]))
    merged = {unit_key(row): int(row["group"]) for row in units[units["group"] >= 0]}
    return System(trace.labels[number], trace.rows("summary", number)[0], trace.rows("iterations", number, iteration)[0],
                  spans.spans_of(trace, number, iteration), samples, merged)


def long_samples(trace, iteration):
    """({sample: tokens} of the samples whose attention has most of their FLOPs, longest first; the tokens at which it
    has half, or with windows up to which it never has)."""
    lengths = trace.table("lengths")
    half = float(trace.attributes["layer_flop_linear"]) / max(float(trace.attributes["layer_flop_quadratic"]), 1)
    if "layer_flop_windows" in trace.attributes:
        tokens = numpy.arange(1.0, lengths["tokens"].max() + 1)
        half = 1.0 + numpy.count_nonzero(2 * trace.layer_flop(tokens, 0) <= trace.layer_flop(tokens))
    lengths = lengths[(lengths["iteration"] == iteration) & (lengths["tokens"] > half)]
    order = numpy.lexsort((lengths["sample"], -lengths["tokens"]))
    return {int(row["sample"]): int(row["tokens"]) for row in lengths[order]}, half


class Panel:
    """The lanes of one system."""

    def __init__(self, axes, system, long):
        self.axes, self.system, self.long = axes, system, long
        self.gpus = int(system.summary["gpus"])
        figure = axes.figure
        self.gpus_per_point = self.gpus / (72 * figure.get_figheight() * axes.get_position().height)
        self.top, self.blocks = {}, {}  # of ranks; (top, bottom) of a (phase, pipeline, stage); in GPUs
        for phase in {rank.phase for rank in system.spans}:
            below = 0
            for rank in sorted(rank for rank in system.spans if rank.phase == phase):
                self.top[rank] = below
                below += rank.gpus
                self.blocks[rank[:3]] = (self.blocks.get(rank[:3], (self.top[rank],))[0], below)
        self.passes = list(self.read_passes())

    def draw(self, end_s):
        self.seconds_per_point = end_s / (72 * self.axes.figure.get_figwidth() * self.axes.get_position().width)
        self.draw_spans()
        self.draw_merged()
        self.draw_borders()
        self.name_samples()
        self.axes.set_ylim(self.gpus, 0)
        self.label_replicas()
        self.axes.tick_params(length=0, labelsize=7, labelbottom=False)
        self.axes.set_frame_on(False)

    def colour(self, span):
        if span.what != COMPUTE:
            return LOOKS[span.what][0]
        backward = span.key[2] > 0
        key = (*span.key[:2], int(backward), span.key[3])  # gradients of weights are of a backward unit
        return PASS_COLOURS[bool(self.system.samples[key] & self.long.keys())][backward]

    def draw_spans(self):
        boxes = collections.defaultdict(list)
        for rank, of_rank in self.system.spans.items():
            for span in of_rank:
                boxes[self.colour(span)].append((span.start_s, span.finish_s, self.top[rank], self.top[rank] + rank.gpus))
        for colour, found in boxes.items():
            begin_s, end_s, top, bottom = numpy.array(found).T
            corners = numpy.array([[begin_s, end_s, end_s, begin_s], [top, top, bottom, bottom]]).T
            self.axes.add_collection(matplotlib.collections.PolyCollection(
                corners, facecolors=colour, edgecolors="none", antialiased=False), autolim=False)

    def read_passes(self):
        """(block, key, start, finish) of the passes of the ranks that lead a block, with their collectives."""
        for rank, of_rank in self.system.spans.items():
            current = None
            for span in of_rank if rank.context == rank.tensor == 0 else ():
                if current and span.key == current[1] and span.start_s == current[3]:
                    current = (*current[:3], span.finish_s)
                elif span.key is not None:
                    if current:
                        yield current
                    current = (rank[:3], span.key, span.start_s, span.finish_s)
                elif current and span.what in (RING, TENSOR) and span.start_s == current[3]:
                    current = (*current[:3], span.finish_s)
            if current:
                yield current

    def draw_merged(self):
        """Frames around passes of units that pipelines share: one around those of neighbours that start together."""
        frames = []
        found = [(self.system.merged[key], block[2], key[2], round(start_s / self.seconds_per_point), *self.blocks[block],
                  start_s, finish_s) for block, key, start_s, finish_s in self.passes if key in self.system.merged]
        for *together, top, bottom, start_s, finish_s in sorted(found):
            if frames and frames[-1][0] == together and frames[-1][2] == top:
                _, top, _, start_s, end_s = frames.pop()
                finish_s = max(finish_s, end_s)
            frames.append((together, top, bottom, start_s, finish_s))
        corners = [[(start_s, top), (finish_s, top), (finish_s, bottom), (start_s, bottom)]
                   for _, top, bottom, start_s, finish_s in frames]
        widths = [min(0.6, 0.15 * (bottom - top) / self.gpus_per_point, 0.15 * (finish_s - start_s) / self.seconds_per_point)
                  for _, top, bottom, start_s, finish_s in frames]
        self.axes.add_collection(matplotlib.collections.PolyCollection(
            corners, facecolors="none", edgecolors="black", linewidths=widths, zorder=3), autolim=False)

    def draw_borders(self):
        """White lines between passes, stages and replicas, where there is room for them."""
        height = min(bottom - top for top, bottom in self.blocks.values()) / self.gpus_per_point
        starts = [[(start_s, self.blocks[block][0]), (start_s, self.blocks[block][1])]
                  for block, _, start_s, finish_s in self.passes if finish_s - start_s > 3 * self.seconds_per_point]
        self.axes.add_collection(matplotlib.collections.LineCollection(starts, colors="white", linewidths=0.4), autolim=False)
        for rank, top in self.top.items():
            if top > 0 and rank.context == rank.tensor == 0:
                width = min(0.9, 0.16 * height) if rank.stage == 0 else min(0.3, 0.05 * height)
                own = self.system.spans[rank]
                self.axes.hlines(top, own[0].start_s, own[-1].finish_s, colors="white", linewidth=width)

    def name_samples(self):
        """The letters of the longest samples on their widest forward and backward pass."""
        letters = dict(zip(self.long, string.ascii_uppercase[:NAMED_SAMPLES]))
        widest = {}
        for block, key, start_s, finish_s in self.passes:
            for sample in self.system.samples.get(key, ()):
                at = (sample, key[2])
                if sample in letters and finish_s - start_s > widest.get(at, (0,))[0]:
                    widest[at] = (finish_s - start_s, (start_s + finish_s) / 2, sum(self.blocks[block]) / 2)
        for (sample, backward), (seconds, x, y) in widest.items():
            if seconds > 6 * self.seconds_per_point:
                text = self.axes.text(x, y, letters[sample], ha="center", va="center", fontsize=6.5, fontweight="bold", zorder=4)
                text.set_path_effects([matplotlib.patheffects.withStroke(linewidth=1.5, foreground="white")])

    def label_replicas(self):
        """Every replica of the first phase, or so many that the texts do not touch."""
        tops = collections.defaultdict(list)
        stages = 1 + max(rank.stage for rank in self.system.spans)
        for (phase, pipeline, _), block in self.blocks.items():
            if phase == 0:
                tops[pipeline] += block
        height = self.gpus / len(tops) / self.gpus_per_point
        step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1 << 30) if step * height > 9)
        shown = [(pipeline, block) for pipeline, block in sorted(tops.items()) if pipeline % step == 0]
        self.axes.set_yticks([(min(block) + max(block)) / 2 for _, block in shown],
                             [f"replica {pipeline}" for pipeline, _ in shown])
        if stages > 1:
            self.axes.set_ylabel(f"each with stages 0 to {stages - 1}", fontsize=6.5)


def layout_text(summary):
    names = ("tp", "pp", "cp", "dp", "vpp") if summary["vpp"] > 1 else ("tp", "pp", "cp", "dp")
    return " ".join(f"{name.upper()}{summary[name]}" for name in names)


def speeds_text(system, first):
    """The system's mean and this iteration's, so that nobody takes one for the other."""
    summary, iteration = system.summary, system.iteration
    number = int(summary["measured_iterations"])
    mean = f"mean of {number} iteration{'s' * (number > 1)}: {summary['tokens_per_s_per_gpu']:.1f} tokens/s/GPU"
    one = f"this iteration: {iteration['tokens'] / iteration['time_s'] / summary['gpus']:.1f}"
    if system.label != first.label:
        rate, of_first = (row["model_flop"] / row["time_s"] for row in (iteration, first.iteration))
        mean += f", {summary['speed_up']:.2f}x"
        one += f", {rate / of_first:.2f}x"
    return f"{mean}   ·   {one}, {iteration['time_s']:.2f} s"


def list_shares(axes, system):
    """Beside a panel: the shares of its GPUs' time. The words are the legend of its colours."""
    shares = spans.fractions_of(system.iteration)
    shown = [what for what in LOOKS if shares.get(what, 0) >= 0.0005]
    height = 72 * axes.figure.get_figheight() * axes.get_position().height
    axes.text(1.012, 1 + 4 / height, "GPU time of this iteration", fontsize=7.5, va="bottom", transform=axes.transAxes)
    for line, what in enumerate(shown):
        y = 1 - (line + 0.5) * 10.5 / height
        axes.text(1.012, y, "■", color=LOOKS[what][0], fontsize=9, va="center", transform=axes.transAxes)
        axes.text(1.068, y, f"{100 * shares[what]:.1f}%", fontsize=7.5, ha="right", va="center", transform=axes.transAxes)
        axes.text(1.075, y, LOOKS[what][1], fontsize=7.5, va="center", transform=axes.transAxes)


def legend_handles(systems, long, half):
    handles = [Patch(facecolor=PASS_COLOURS[0][0], label="forward"),
               Patch(facecolor=PASS_COLOURS[0][1], label="backward")]
    if long:
        handles += [Patch(facecolor=PASS_COLOURS[1][0], label=f"forward of a sample over {half / 1024:.0f}Ki tokens, whose attention outweighs the rest"),
                    Patch(facecolor=PASS_COLOURS[1][1], label="its backward")]
    handles.append(Patch(facecolor=LOOKS[OPTIMIZER][0], label="optimizer"))
    if any(system.merged for system in systems):
        handles.append(Patch(facecolor="none", edgecolor="black", linewidth=0.7, label="replicas share a merged sample"))
    return handles


def make_figure(trace, systems):
    iteration = int(systems[0].iteration["iteration"])
    long, half = long_samples(trace, iteration)
    end_s = max(system.iteration["time_s"] for system in systems)
    lanes = [len({rank[:3] for rank in system.spans}) for system in systems]
    height = min(2.6, max(1.2, 0.1 * max(lanes))) if len(systems) < 5 else 1.2
    width, left, right, top, bottom, title = 14, 0.95, 2.2, 0.22, 0.95, 0.36
    total = top + bottom + len(systems) * (height + title)
    figure = pyplot.figure(figsize=(width, total))
    first_axes = None
    for number, system in enumerate(systems):
        at = total - top - (number + 1) * (height + title)
        axes = figure.add_axes((left / width, at / total, (width - left - right) / width, height / total), sharex=first_axes)
        first_axes = first_axes or axes
        Panel(axes, system, long).draw(end_s)
        exceeded_limit = ", does not fit" if not system.summary["fits"] else ", fits tightly" if system.summary["tight"] else ""
        axes.set_title(f"{system.label}: {layout_text(system.summary)}{exceeded_limit}", loc="left", fontsize=9, fontweight="bold", pad=4)
        axes.set_title(speeds_text(system, systems[0]), loc="right", fontsize=8, pad=4)
        list_shares(axes, system)
    axes.tick_params(labelbottom=True, length=2)
    axes.set_xlim(0, end_s)
    axes.set_xlabel("seconds since the iteration's start", fontsize=8)
    names = ", ".join(f"{letter}: {tokens:,}" for letter, tokens in zip(string.ascii_uppercase[:NAMED_SAMPLES], long.values()))
    figure.suptitle(f"{trace.setting()}: iteration {iteration}, the measured one nearest to the means", fontsize=11, x=0.01, ha="left",
                    y=1 - 0.1 / total, va="top")
    figure.legend(handles=legend_handles(systems, long, half), loc="lower left", bbox_to_anchor=(left / width - 0.01, 0.0),
                  ncol=6, frameon=False, fontsize=7.5, alignment="left", title_fontsize=7.5,
                  title=f"longest samples [tokens]: {names}" if long else None)
    return figure


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="NAME.h5 of slimsim run")
    add_output(parser)
    parser.add_argument("--pipeline", type=int, nargs="+", metavar="N", help="draw these pipelines and their memory instead")
    parser.add_argument("--transfers", action="store_true", help="with --pipeline: all transfers a stage sends, not gradients alone")
    return parser.parse_args()


def main():
    arguments = read_arguments()

    def make():
        trace = Trace(arguments.trace)
        if arguments.pipeline is not None:
            systems = pipelines.read_systems(trace, arguments.pipeline)
            return pipelines.make_figure(trace, systems, pipelines.Look(transfers=arguments.transfers))
        iteration = trace.first_iteration()
        return make_figure(trace, [read_system(trace, number, iteration) for number in range(len(trace.labels))])

    draw([arguments.trace], arguments.output, make)


if __name__ == "__main__":
    exit_with(main)

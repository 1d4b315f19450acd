#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pipeline timeline of one iteration, all systems of a trace below each other on one time scale.

Of each system one pipeline (the slowest unless --pipeline says which): a lane per stage with forward and backward
passes coloured by their longest sample, idle time as the lane's background, and the memory of the stages below.
Reads the HDF5 trace alone; the trace must hold tasks (`trace: full`).

    timeline.py results/quickstart.h5 --output results/quickstart.png results/quickstart.svg
"""
import argparse
import collections
import pathlib
import sys

import h5py
import matplotlib
import numpy

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402  after the choice of Agg
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.patches import Patch  # noqa: E402

GIB = 2**30
# Paul Tol's "bright" scheme: told apart by colour-blind readers too. The longest samples get one each.
SAMPLE_COLOURS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377"]
OTHER_COLOUR = "#9A9A9A"
IDLE_COLOUR = "#F5E6CC"
OPTIMIZER_COLOUR = "#3B3B3B"
TRANSFER_COLOUR = "#7A5195"
SYNC_PURPOSES = (b"reduce-scatter", b"all-gather")

System = collections.namedtuple("System", "label summary iteration tasks units memory pipelines")


def shade(colour, towards, share):
    """A colour mixed with another one."""
    rgb, other = (numpy.array(matplotlib.colors.to_rgb(c)) for c in (colour, towards))
    return tuple((1 - share) * rgb + share * other)


def pass_colour(colour, backward):
    """Forward is the light shade of a sample's colour, backward the full one."""
    return shade(colour, "black", 0.08) if backward else shade(colour, "white", 0.50)


def text_of(value):
    return value.decode() if isinstance(value, bytes) else str(value)


class Trace:
    """What the picture needs of a file: tables with names for their indices."""

    def __init__(self, path):
        self.file = h5py.File(path, "r")
        if self.file.attrs.get("complete", 0) != 1:
            raise ValueError("not a complete trace of slimsim")
        if "tasks" not in self.file or not len(self.file["tasks"]):
            raise ValueError("the trace holds no tasks: `trace: full` in the scenario writes them")
        self.labels = [text_of(label) for label in self.file["systems"][:]]
        self.tables = {name: self.file[name][:] for name in ("summary", "iterations", "tasks", "units", "memory")}

    def index(self, table, column, name):
        """The number a name of a column stands for."""
        return list(self.file[table].attrs[column + "_names"]).index(name)

    def system(self, number, iteration, pipeline):
        """The rows of one system's pipeline: of the slowest one in each phase where `pipeline` is None."""
        rows = {name: table[table["system"] == number] for name, table in self.tables.items()}
        for name in ("tasks", "units", "memory", "iterations"):
            rows[name] = rows[name][rows[name]["iteration"] == iteration]
        if not len(rows["tasks"]):
            raise ValueError(f"the trace holds no tasks of {self.labels[number]} in iteration {iteration}")
        chosen = self.choose(rows["tasks"], pipeline)
        for name in ("tasks", "units", "memory"):
            of_chosen = [(rows[name]["phase"] == phase) & (rows[name]["pipeline"] == number)
                         for phase, number in chosen]
            rows[name] = rows[name][numpy.any(of_chosen, axis=0)]
        lead = {name: rows[name][(rows[name]["context"] == 0) & (rows[name]["tensor"] == 0)]
                for name in ("tasks", "memory")}
        return System(self.labels[number], rows["summary"][0], rows["iterations"][0], lead["tasks"], rows["units"],
                      lead["memory"], sorted(chosen))

    def choose(self, tasks, pipeline):
        """(phase, pipeline) of what is drawn."""
        passes = tasks[tasks["kind"] == self.index("tasks", "kind", b"compute")]
        chosen = set()
        for phase in numpy.unique(passes["phase"]):
            of_phase = passes[passes["phase"] == phase]
            number = of_phase["pipeline"][numpy.argmax(of_phase["finish_s"])] if pipeline is None else pipeline
            if number not in of_phase["pipeline"]:
                raise ValueError(f"there is no pipeline {number}, but 0 to {of_phase['pipeline'].max()}")
            chosen.add((int(phase), int(number)))
        return chosen


def unit_key(row):
    return int(row["phase"]), int(row["pipeline"]), int(row["direction"]), int(row["unit"])


def longest_samples(units):
    """{unit_key: (sample with the most tokens in it, these tokens, whether pipelines share the unit)}."""
    longest = {}
    for row in units:
        key, tokens = unit_key(row), row["end"] - row["begin"]
        if key not in longest or tokens > longest[key][1]:
            longest[key] = (int(row["sample"]), tokens, row["group"] >= 0)
    return longest


def sample_colours(systems):
    """{sample: (colour, tokens)} of the longest samples among those that lead a unit; ties by number."""
    leading, tokens = set(), {}
    for system in systems:
        leading |= {sample for sample, _, _ in longest_samples(system.units).values()}
        for sample, end in zip(system.units["sample"].tolist(), system.units["end"].tolist()):
            tokens[sample] = max(tokens.get(sample, 0), end)
    longest = sorted(leading, key=lambda sample: (-tokens[sample], sample))[:len(SAMPLE_COLOURS)]
    return {sample: (colour, tokens[sample]) for sample, colour in zip(longest, SAMPLE_COLOURS)}


class Gantt:
    """Lanes of one system's pipeline."""

    def __init__(self, axes, trace, system, colours, end_s):
        self.axes, self.trace, self.system, self.colours = axes, trace, system, colours
        self.samples = longest_samples(system.units)
        self.seconds_per_inch = end_s / axes.figure.get_size_inches()[0] / 0.8
        self.kinds = {name: trace.index("tasks", "kind", name) for name in (b"compute", b"attention", b"optimizer")}
        self.backward = trace.index("tasks", "direction", b"backward")

    def draw(self, transfers):
        stages = int(self.system.tasks["stage"].max()) + 1
        for stage in range(stages):
            self.draw_stage(stage, transfers)
        self.axes.set_ylim(stages - 0.5, -0.5)
        self.axes.set_yticks(range(stages), [f"stage {stage}" for stage in range(stages)])
        self.axes.tick_params(length=0, labelbottom=False)
        self.axes.set_frame_on(False)

    def draw_stage(self, stage, transfers):
        tasks = self.system.tasks[self.system.tasks["stage"] == stage]
        self.axes.broken_barh([(0, self.system.iteration["time_s"])], (stage - 0.42, 0.84), facecolors=IDLE_COLOUR)
        if transfers:
            self.draw_sends(tasks[tasks["bytes"] > 0], stage)
        self.draw_sync(tasks, stage)
        passes = self.passes(tasks)
        colours, edges = zip(*(self.looks(key) for key in passes))
        spans = [(start_s, finish_s - start_s) for start_s, finish_s in passes.values()]
        inches = float(numpy.median([seconds for _, seconds in spans])) / self.seconds_per_inch
        self.axes.broken_barh(spans, (stage - 0.36, 0.72), facecolors=colours, edgecolors=edges,
                              linewidths=min(0.6, 6 * inches))  # thin bars would be all border
        optimizer = tasks[tasks["kind"] == self.kinds[b"optimizer"]]
        self.axes.broken_barh(list(zip(optimizer["start_s"], optimizer["finish_s"] - optimizer["start_s"])),
                              (stage - 0.36, 0.72), facecolors=OPTIMIZER_COLOUR)
        self.number_units(passes, stage)

    def passes(self, tasks):
        """{(phase, pipeline, direction, unit): (start, finish)}: a pass may be GEMMs, then attention beside a ring."""
        spans = {}
        for task in tasks[numpy.isin(tasks["kind"], [self.kinds[b"compute"], self.kinds[b"attention"]])]:
            key = unit_key(task)
            start_s, finish_s = spans.get(key, (task["start_s"], task["finish_s"]))
            spans[key] = min(start_s, task["start_s"]), max(finish_s, task["finish_s"])
        return spans

    def looks(self, key):
        """Face and edge of a pass."""
        sample, _, shared = self.samples.get(key, (-1, 0, False))
        colour = self.colours.get(sample, (OTHER_COLOUR,))[0]
        return pass_colour(colour, key[2] == self.backward), "black" if shared else "white"

    def number_units(self, passes, stage):
        """Where passes are wide enough."""
        for (_, _, direction, unit), (start_s, finish_s) in passes.items():
            if finish_s - start_s > 0.075 * (len(str(unit)) + 0.6) * self.seconds_per_inch:
                self.axes.text((start_s + finish_s) / 2, stage, unit, ha="center", va="center_baseline", fontsize=6.5,
                               color="white" if direction == self.backward else "black")

    def draw_sync(self, tasks, stage):
        """Gradients and parameters on the wire after the passes."""
        purposes = [self.trace.index("tasks", "purpose", name) for name in SYNC_PURPOSES]
        self.draw_sends(tasks[numpy.isin(tasks["purpose"], purposes) & (tasks["bytes"] > 0)], stage)

    def draw_sends(self, sends, stage):
        spans = list(zip(sends["start_s"], sends["finish_s"] - sends["start_s"]))
        self.axes.broken_barh(spans, (stage + 0.36, 0.12), facecolors=TRANSFER_COLOUR)


def draw_memory(axes, system):
    """Live bytes of each stage as steps, and what the device may hold."""
    stages = numpy.unique(system.memory["stage"])
    shades = pyplot.get_cmap("viridis")(numpy.linspace(0.0, 0.88, len(stages)))
    classes = [name for name in system.memory.dtype.names if name.endswith("_bytes")]
    for stage, colour in zip(stages, shades):
        rows = system.memory[system.memory["stage"] == stage]
        rows = rows[numpy.argsort(rows["time_s"], kind="stable")]
        total = sum(rows[name] for name in classes) / GIB
        times = numpy.append(rows["time_s"], system.iteration["time_s"])
        last = times[:-1] < times[1:]  # of events at one time: what holds from then on
        last[-1] = True
        axes.step(numpy.append(times[:-1][last], times[-1]), numpy.append(total[last], total[-1]), where="post",
                  color=colour, linewidth=1.1, label=f"stage {stage}: peak {total.max():.1f} GiB")
    limit = system.summary["memory_bytes"] / GIB
    axes.axhline(limit, color="#BB2222", linewidth=1.0, linestyle=(0, (5, 2)), label=f"limit {limit:.1f} GiB")
    axes.set_ylim(0, 1.08 * max(limit, system.iteration["peak_bytes"] / GIB))
    axes.set_ylabel("GiB", rotation=0, ha="right", va="center")
    axes.grid(axis="y", linewidth=0.4, color="#DDDDDD")
    axes.legend(loc="center left", bbox_to_anchor=(1.005, 0.5), frameon=False, fontsize=7.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def system_title(system, first):
    """One line of real numbers of this iteration."""
    summary, iteration = system.summary, system.iteration
    layout = " ".join(f"{name.upper()}{summary[name]}" for name in ("tp", "pp", "cp", "dp"))
    pipelines = ", ".join(str(pipeline) for _, pipeline in system.pipelines)
    parts = [f"{layout}, pipeline {pipelines}", f"{iteration['time_s']:.3g} s",
             f"bubbles {100 * iteration['bubble_fraction']:.1f}%", f"peak {iteration['peak_bytes'] / GIB:.1f} GiB"]
    if first is not None:
        parts.append(f"{first.iteration['time_s'] / iteration['time_s']:.2f}x the speed of {first.label}")
    return "   ·   ".join(parts)


def page_title(trace, iteration):
    attributes = trace.file.attrs
    values = {name: text_of(attributes[name]) for name in ("model", "platform", "lengths", "device")}
    context = int(attributes["context"])
    context = f"{context // 1024}Ki" if context % 1024 == 0 else str(context)
    gpus = trace.tables["summary"]["gpus"][0]
    lengths = pathlib.Path(values["lengths"]).name
    return (f"{values['model']} on {gpus} x {values['device']} ({values['platform']}), {lengths} lengths up to {context} "
            f"tokens, {attributes['global_batch']} documents, iteration {iteration}")


def legend_handles(colours, transfers, shared):
    handles = []
    for sample, (colour, tokens) in colours.items():
        handles.append(Patch(facecolor=pass_colour(colour, True), label=f"sample {sample}: {tokens:,} tokens"))
    handles.append(Patch(facecolor=pass_colour(OTHER_COLOUR, False), label="shorter samples, forward"))
    handles.append(Patch(facecolor=pass_colour(OTHER_COLOUR, True), label="shorter samples, backward"))
    handles.append(Patch(facecolor=IDLE_COLOUR, label="idle (bubble)"))
    handles.append(Patch(facecolor=OPTIMIZER_COLOUR, label="optimizer"))
    handles.append(Line2D([], [], color=TRANSFER_COLOUR, linewidth=2.5,
                          label="transfers" if transfers else "gradients, parameters"))
    if shared:
        handles.append(Patch(facecolor="white", edgecolor="black", label="shared by pipelines"))
    return handles


def make_panels(systems):
    """Axes of lanes and of memory per system, placed in inches from the top, on one time axis."""
    stages = [int(system.tasks["stage"].max()) + 1 for system in systems]
    top, bottom, title, gap, memory_height, lane_height = 0.45, 1.45, 0.5, 0.12, 1.35, 0.36
    height = top + bottom + sum(title + count * lane_height + gap + memory_height for count in stages)
    figure = pyplot.figure(figsize=(15, height))
    panels, below = [], height - top
    for count in stages:
        lanes_at = below - title - count * lane_height
        memory_at = lanes_at - gap - memory_height
        share = panels[0][0] if panels else None
        lanes = figure.add_axes((0.055, lanes_at / height, 0.83, count * lane_height / height), sharex=share)
        memory = figure.add_axes((0.055, memory_at / height, 0.83, memory_height / height), sharex=lanes)
        panels.append((lanes, memory))
        below = memory_at - 0.1
    return figure, panels


def make_figure(trace, systems, iteration, transfers):
    """A lane panel and a memory panel per system."""
    figure, panels = make_panels(systems)
    end_s = max(system.iteration["time_s"] for system in systems)
    colours = sample_colours(systems)
    first = systems[0]
    for number, (system, (lanes, memory)) in enumerate(zip(systems, panels)):
        Gantt(lanes, trace, system, colours, end_s).draw(transfers)
        draw_memory(memory, system)
        lanes.set_title(system.label, loc="left", fontsize=11, fontweight="bold")
        lanes.set_title(system_title(system, None if number == 0 else first), loc="right", fontsize=9)
        for panel in (lanes, memory):
            panel.axvline(system.iteration["time_s"], color="black", linewidth=0.8, linestyle=":")
    memory.set_xlim(0, end_s * 1.005)
    memory.set_xlabel("seconds since the iteration's start")
    shared = any((system.units["group"] >= 0).any() for system in systems)
    figure.suptitle(page_title(trace, iteration), fontsize=11.5, x=0.055, ha="left", y=1 - 0.2 / figure.get_figheight())
    figure.legend(handles=legend_handles(colours, transfers, shared), loc="lower center", ncol=4, frameon=False,
                  fontsize=8)
    return figure


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="NAME.h5 of slimsim run")
    parser.add_argument("--output", nargs="+", required=True, metavar="FILE", help="pictures: .png, .svg, .pdf")
    parser.add_argument("--pipeline", type=int, help="number of the pipeline to draw (default: the slowest)")
    parser.add_argument("--iteration", type=int, help="iteration to draw (default: the first that was traced)")
    parser.add_argument("--transfers", action="store_true", help="draw all transfers a stage sends, not gradients alone")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    matplotlib.rcParams["svg.hashsalt"] = "slimsim"  # else ids of SVG elements are random
    try:
        trace = Trace(arguments.trace)
        iteration = arguments.iteration
        if iteration is None:
            iteration = int(trace.tables["tasks"]["iteration"].min())
        systems = [trace.system(number, iteration, arguments.pipeline) for number in range(len(trace.labels))]
    except (OSError, ValueError) as error:
        print(f"{arguments.trace}: {error}", file=sys.stderr)
        return 2
    figure = make_figure(trace, systems, iteration, arguments.transfers)
    for path in arguments.output:
        metadata = {"Software": None} if path.endswith(".png") else {"Date": None}
        figure.savefig(path, dpi=150, metadata=metadata)
    return 0


if __name__ == "__main__":
    sys.exit(main())

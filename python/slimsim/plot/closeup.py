# SPDX-License-Identifier: GPL-3.0-or-later
"""Close-up of single pipelines of one iteration, all systems of a trace below each other on one time scale.

A stage is a lane, whose forward and backward passes have the colour of their longest sample. Idle time is the lane's
background, and the memory of the stages is below.
"""
from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from slimsim.plot.style import BLACK, COLOURS, CREAM, GIB, GREY, LIMIT_COLOUR, PLUM, drawn, line_handle, shade, style
from slimsim.plot.trace import Key, Rows, Trace, unit_key

# The longest samples get a colour each.
SAMPLE_COLOURS, OTHER_COLOUR = COLOURS[:6], GREY
IDLE_COLOUR = CREAM
OPTIMIZER_COLOUR = BLACK
TRANSFER_COLOUR = PLUM
INJECTED_COLOUR = LIMIT_COLOUR
SYNC_PURPOSES = ("reduce-scatter", "all-gather")


class System(NamedTuple):
    """The part of a trace that one pair of panels draws."""

    label: str
    summary: Any  # its row
    iteration: Any  # its row
    tasks: Rows  # of the leading rank of each stage
    units: Rows
    memory: Rows  # of the leading rank of each stage
    pipelines: list[tuple[int, int]]  # (phase, pipeline)


class Look(NamedTuple):
    """How it is drawn. width: of the picture [inches]; samples: passes bear their samples' numbers, not the unit's."""

    width: float = 15
    transfers: bool = False
    memory: bool = True
    samples: bool = False
    injected: bool = False


Colours = dict[int, tuple[str, int]]  # {sample: (colour, tokens)}


def pass_colour(colour: str, backward: bool) -> tuple[float, ...]:
    """Forward is the light shade of a sample's colour, backward the full one."""
    return shade(colour, "black", 0.08) if backward else shade(colour, "white", 0.50)


def read_system(trace: Trace, number: int, iteration: int, pipeline: int) -> System:
    """One system's pipeline of this number in each phase."""
    rows = {name: trace.rows(name, number, iteration) for name in ("tasks", "micro_batches", "memory", "iterations")}
    if not len(rows["tasks"]):
        raise ValueError(f"the trace holds no tasks of {trace.labels[number]} in iteration {iteration}")
    chosen = choose(trace, rows["tasks"], pipeline)
    for name in ("tasks", "micro_batches", "memory"):
        of_chosen = [(rows[name]["phase"] == phase) & (rows[name]["pipeline"] == index) for phase, index in chosen]
        rows[name] = rows[name][numpy.any(of_chosen, axis=0)]
    lead = {name: rows[name][(rows[name]["context"] == 0) & (rows[name]["tensor"] == 0)]
            for name in ("tasks", "memory")}
    return System(trace.labels[number], trace.rows("summary", number)[0], rows["iterations"][0], lead["tasks"],
                  rows["micro_batches"], lead["memory"], sorted(chosen))


def read_systems(trace: Trace, pipelines: Iterable[int], order: Iterable[int]) -> list[System]:
    """Pipelines of the systems of a trace, by their numbers. order: the numbers of the systems, from the top"""
    iteration, numbers = trace.first_iteration(), list(pipelines)
    return [read_system(trace, number, iteration, pipeline) for number in order for pipeline in numbers]


def choose(trace: Trace, tasks: Rows, pipeline: int) -> set[tuple[int, int]]:
    """(phase, pipeline) of what is drawn."""
    passes = tasks[tasks["kind"] == trace.index("tasks", "kind", "compute")]
    chosen = set()
    for phase in numpy.unique(passes["phase"]):
        of_phase = passes[passes["phase"] == phase]
        if pipeline not in of_phase["pipeline"]:
            raise ValueError(f"there is no pipeline {pipeline}, but 0 to {of_phase['pipeline'].max()}")
        chosen.add((int(phase), pipeline))
    return chosen


def longest_samples(units: Rows) -> dict[Key, tuple[int, int, bool]]:
    """{unit_key: (sample with the most tokens in it, these tokens, whether pipelines share the unit)}."""
    longest: dict[Key, tuple[int, int, bool]] = {}
    for row in units:
        key, tokens = unit_key(row), row["end"] - row["begin"]
        if key not in longest or tokens > longest[key][1]:
            longest[key] = (int(row["sample"]), tokens, row["group"] >= 0)
    return longest


def sample_colours(systems: list[System]) -> Colours:
    """{sample: (colour, tokens)} of the longest samples among those that lead a unit; ties by number."""
    leading: set[int] = set()
    tokens: dict[int, int] = {}
    for system in systems:
        leading |= {sample for sample, _, _ in longest_samples(system.units).values()}
        for sample, end in zip(system.units["sample"].tolist(), system.units["end"].tolist()):
            tokens[sample] = max(tokens.get(sample, 0), end)
    longest = sorted(leading, key=lambda sample: (-tokens[sample], sample))[:len(SAMPLE_COLOURS)]
    return {sample: (colour, tokens[sample]) for sample, colour in zip(longest, SAMPLE_COLOURS)}


def runs_of(numbers: Iterable[int]) -> str:
    """[1, 2, 3, 5] -> '1-3,5'"""
    numbers, parts = sorted(numbers), []
    while numbers:
        n = next((i for i in range(1, len(numbers)) if numbers[i] != numbers[0] + i), len(numbers))
        parts.append(str(numbers[0]) if n == 1 else f"{numbers[0]}{'–' if n > 2 else ','}{numbers[n - 1]}")
        numbers = numbers[n:]
    return ",".join(parts)


def unit_texts(units: Rows) -> dict[Key, str]:
    """{unit_key: numbers of its samples, from 1, as in the paper}"""
    samples: dict[Key, set[int]] = collections.defaultdict(set)
    for row in units:
        samples[unit_key(row)].add(int(row["sample"]) + 1)
    return {key: runs_of(numbers) for key, numbers in samples.items()}


def injected_forwards(passes: list[tuple[Key, float, float]], backward: int) -> list[tuple[Key, float, float]]:
    """The forward passes, given in order of time, that follow another forward before the last backward starts. On the
    last stage 1F1B alone would run none."""
    return [after for before, after in zip(passes, passes[1:]) if before[0][2] != backward and after[0][2] != backward]


class Gantt:
    """Lanes of one system's pipeline."""

    def __init__(self, axes: Axes, trace: Trace, system: System, colours: Colours, look: Look) -> None:
        self.axes, self.trace, self.system, self.colours, self.look = axes, trace, system, colours, look
        self.samples = longest_samples(system.units)
        self.texts = unit_texts(system.units) if look.samples else {}
        self.seconds_per_inch = 0.0
        self.backward = trace.index("tasks", "direction", "backward")

    def draw(self, end_s: float) -> None:
        self.seconds_per_inch = end_s / (self.axes.figure.get_size_inches()[0] * self.axes.get_position().width)
        stages = int(self.system.tasks["stage"].max()) + 1
        for stage in range(stages):
            self.draw_stage(stage, last=stage == stages - 1)
        self.axes.set_ylim(stages - 0.5, -0.5)
        self.axes.set_yticks(range(stages), [f"stage {stage}" for stage in range(stages)])
        self.axes.tick_params(length=0, labelbottom=False)
        self.axes.set_frame_on(False)

    def draw_stage(self, stage: int, last: bool) -> None:
        tasks = self.system.tasks[self.system.tasks["stage"] == stage]
        self.axes.broken_barh([(0, self.system.iteration["time_s"])], (stage - 0.42, 0.84), facecolors=IDLE_COLOUR)
        if self.look.transfers:
            self.draw_sends(tasks[tasks["bytes"] > 0], stage)
        self.draw_sync(tasks, stage)
        passes = self.trace.passes(tasks)
        injected = injected_forwards(passes, self.backward) if last and self.look.injected else ()
        colours, edges = zip(*(self.looks(key) for key, _, _ in passes))
        spans = [(start_s, finish_s - start_s) for _, start_s, finish_s in passes]
        inches = float(numpy.median([seconds for _, seconds in spans])) / self.seconds_per_inch
        self.axes.broken_barh(spans, (stage - 0.36, 0.72), facecolors=colours, edgecolors=edges,
                              linewidths=min(0.6, 6 * inches))  # thin bars would be all border
        for _, start_s, finish_s in injected:
            self.axes.broken_barh([(start_s, finish_s - start_s)], (stage - 0.36, 0.72), facecolors="none",
                                  edgecolors=INJECTED_COLOUR, linewidths=1.6, zorder=3)
        optimizer = tasks[tasks["kind"] == self.trace.index("tasks", "kind", "optimizer")]
        self.axes.broken_barh(list(zip(optimizer["start_s"], optimizer["finish_s"] - optimizer["start_s"])),
                              (stage - 0.36, 0.72), facecolors=OPTIMIZER_COLOUR)
        self.number_units(passes, stage)

    def looks(self, key: Key) -> tuple[tuple[float, ...], str]:
        """Face and edge of a pass; gradients of weights are of a backward unit."""
        key = (*key[:2], min(key[2], self.backward), key[3])
        sample, _, shared = self.samples.get(key, (-1, 0, False))
        colour = self.colours.get(sample, (OTHER_COLOUR,))[0]
        return pass_colour(colour, key[2] == self.backward), "black" if shared else "white"

    def number_units(self, passes: list[tuple[Key, float, float]], stage: int) -> None:
        """Where passes are wide enough."""
        for key, start_s, finish_s in passes:
            text = self.texts.get(key, str(key[3]))
            if finish_s - start_s > 0.058 * (len(text) + 0.4) * self.seconds_per_inch:
                self.axes.text((start_s + finish_s) / 2, stage, text, ha="center", va="center_baseline", fontsize=6.5,
                               color="black" if key[2] < self.backward else "white")

    def draw_sync(self, tasks: Rows, stage: int) -> None:
        """Gradients and parameters on the wire after the passes."""
        purposes = [self.trace.index("tasks", "purpose", name) for name in SYNC_PURPOSES]
        self.draw_sends(tasks[numpy.isin(tasks["purpose"], purposes) & (tasks["bytes"] > 0)], stage)

    def draw_sends(self, sends: Rows, stage: int) -> None:
        spans = list(zip(sends["start_s"], sends["finish_s"] - sends["start_s"]))
        self.axes.broken_barh(spans, (stage + 0.36, 0.12), facecolors=TRANSFER_COLOUR)


def draw_memory(axes: Axes, system: System) -> None:
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
    axes.axhline(limit, color=LIMIT_COLOUR, linewidth=1.0, linestyle=(0, (5, 2)), label=f"limit {limit:.1f} GiB")
    axes.set_ylim(0, 1.08 * max(limit, system.iteration["peak_bytes"] / GIB))
    axes.set_ylabel("GiB", rotation=0, ha="right", va="center")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=7, handlelength=1.2)
    style(axes)


def system_title(system: System, first: System, short: bool) -> str:
    """One line of real numbers of this iteration."""
    summary, iteration = system.summary, system.iteration
    layout = " ".join(f"{name.upper()}{summary[name]}" for name in ("tp", "pp", "cp", "dp"))
    pipelines = ", ".join(str(pipeline) for _, pipeline in system.pipelines)
    parts = [f"{layout}, pipeline {pipelines}", f"{iteration['time_s']:.3g} s",
             f"bubbles{' of all pipelines' * int(summary['dp'] > 1)} {100 * iteration['bubble_fraction']:.1f}%"]
    if not short:
        parts.append(f"peak of any GPU {iteration['peak_bytes'] / GIB:.1f} GiB")
        if first.label != system.label and not summary["first_exceeds_limit"]:
            rate, of_first = (of["model_flop"] / of["time_s"] for of in (iteration, first.iteration))
            parts.append(f"in this iteration {rate / of_first:.2f}x the speed of {first.label}")
    return "   ·   ".join(parts)


def legend_handles(systems: list[System], colours: Colours, look: Look) -> list[Any]:
    """Entries for all that is drawn."""
    leading = {sample for system in systems for sample, _, _ in longest_samples(system.units).values()}
    handles = []
    for sample, (colour, tokens) in colours.items():
        number = f"S{sample + 1}" if look.samples else f"sample {sample}"
        handles.append(Patch(facecolor=pass_colour(colour, True), label=f"{number}: {tokens:,} tokens"))
    if leading - colours.keys():
        handles.append(Patch(facecolor=pass_colour(OTHER_COLOUR, False), label="other samples, forward"))
        handles.append(Patch(facecolor=pass_colour(OTHER_COLOUR, True), label="other samples, backward"))
    handles.append(Patch(facecolor=IDLE_COLOUR, label="idle (bubble)"))
    handles.append(Patch(facecolor=OPTIMIZER_COLOUR, label="optimizer"))
    if look.transfers or any(system.summary["dp"] * system.summary["cp"] > 1 for system in systems):
        handles.append(line_handle("transfers" if look.transfers else "gradients, parameters", color=TRANSFER_COLOUR, linewidth=2.5))
    most_shared = max(system.units["context"][system.units["group"] >= 0].max(initial=0) for system in systems)
    if most_shared:
        handles.append(Patch(facecolor="white", edgecolor="black", label=f"shared by pipelines (CP = {most_shared})"))
    if look.injected:
        handles.append(Patch(facecolor="white", edgecolor=INJECTED_COLOUR, label="injected forward"))
    return handles


def make_panels(systems: list[System], look: Look) -> tuple[Figure, list[tuple[Axes, Axes | None]]]:
    """Axes of lanes and of memory (or None) per system, placed in inches from the top, on one time axis."""
    stages = [int(system.tasks["stage"].max()) + 1 for system in systems]
    top, bottom, lane = 0.3, 1.4 if look.width > 10 else 1.2, 0.36 if look.width > 10 else 0.26
    title = 0.6 if look.memory else 0.42
    gap, memory_height = (0.12, 1.35 if look.width > 10 else 1.0) if look.memory else (0, 0)
    left, right = 0.65, 1.85 if look.memory else 0.1
    height = top + bottom + sum(title + count * lane + gap + memory_height for count in stages)
    figure = pyplot.figure(figsize=(look.width, height))
    width = (look.width - left - right) / look.width
    panels: list[tuple[Axes, Axes | None]] = []
    below = height - top
    for count in stages:
        lanes_at = below - title - count * lane
        below = lanes_at - gap - memory_height
        lanes = figure.add_axes((left / look.width, lanes_at / height, width, count * lane / height),
                                sharex=panels[0][0] if panels else None)
        memory = None
        if look.memory:
            memory = figure.add_axes((left / look.width, below / height, width, memory_height / height), sharex=lanes)
        panels.append((lanes, memory))
    return figure, panels


@drawn
def make_figure(trace: Trace, systems: list[System], look: Look) -> Figure:
    """A lane panel and a memory panel per system."""
    figure, panels = make_panels(systems, look)
    end_s = max(system.iteration["time_s"] for system in systems)
    colours = sample_colours(systems)
    first = next(system for system in systems if system.label == trace.labels[0])
    for system, (lanes, memory) in zip(systems, panels):
        Gantt(lanes, trace, system, colours, look).draw(end_s)
        lanes.set_title(system.label, loc="left", fontsize=9, fontweight="bold")
        lanes.set_title(system_title(system, first, look.width < 10), loc="right", fontsize=7.5)
        if memory:
            draw_memory(memory, system)
        for panel in (lanes, *([memory] if memory else [])):
            panel.tick_params(labelsize=7)
            panel.axvline(system.iteration["time_s"], color="black", linewidth=0.8, linestyle=":")
    last = memory or lanes
    last.tick_params(labelbottom=True)
    last.set_xlim(0, end_s * 1.005)
    last.set_xlabel("seconds since the iteration's start", fontsize=8)
    figure.suptitle(f"{trace.setting()}, iteration {systems[0].iteration['iteration']}", fontsize=11 if look.width > 10 else 7.5, x=0.01,
                    ha="left", y=1 - 0.12 / figure.get_figheight(), va="top")
    figure.legend(handles=legend_handles(systems, colours, look), loc="lower center", ncol=4, frameon=False, fontsize=7,
                  title="a pass has the colour of its longest sample, light forward, dark backward, and "
                        f"{'the numbers of its samples' if look.samples else 'the number of its micro-batch'}", title_fontsize=7)
    return figure

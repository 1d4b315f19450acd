# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of the paper that show who computes what when: analysis/paper.py draws them."""
import re

from common import BLUE, GIB, GREEN, GREY, PASSES, TOP, VERMILLION, numpy, pyplot, slimsim, unit_key
from slimsim.plot import closeup as close_up

WIDTH = 7.16  # of a page with two columns [inches]
RELATIONS = {"dashed": (VERMILLION, "between stages"), "dotted": (GREEN, "between slices"),
             "solid": (BLUE, "of the schedule")}  # styles of `slimsim export --dag dot`
BENDS = {"dashed": 0, "dotted": 0.2, "solid": -0.12}  # two kinds may join the same nodes


def slices_text(units):
    """'S1 0-24371, S2 0-512'"""
    return ", ".join(f"S{row['sample'] + 1} {row['begin']}-{row['end']}" for row in units)


def pass_rows(trace, systems):
    """A row per pass: the table behind a timeline."""
    rows = []
    for system in systems:
        for stage in numpy.unique(system.tasks["stage"]):
            for key, start_s, finish_s in trace.passes(system.tasks[system.tasks["stage"] == stage]):
                units = [row for row in system.units if unit_key(row) == key]
                rows.append({"system": system.label, "pipeline": key[1], "stage": int(stage), "pass": PASSES[key[2]],
                             "micro_batch": key[3], "slices": slices_text(units), "start_s": start_s, "finish_s": finish_s})
    return rows


def draw_schedule(trace, pipelines=(0,), memory=False, injected=False):
    systems = close_up.read_systems(trace, pipelines, range(len(trace.labels)))
    look = close_up.Look(width=WIDTH, memory=memory, samples=True, injected=injected)
    return close_up.make_figure(trace, systems, look), pass_rows(trace, systems)


def amplifier(simulator):
    """one outlier under data parallelism alone and with pipelines; the same batch without it beside"""
    trace = simulator.run("amplifier")
    even = simulator.run("amplifier", "amplifier-even", data__lengths="4Ki", data__global_batch=64)
    figure, _ = draw_schedule(trace, pipelines=(0, 1))
    rows = []
    for number, label in enumerate(trace.labels):
        row = {"system": label}
        for name, of in (("even", even), ("outlier", trace)):
            summary = of.rows("summary", number)[0]
            row[f"{name}_time_s"] = summary["time_mean_s"]
            row[f"{name}_bubble_fraction"] = summary["bubble_fraction"]
            row[f"{name}_dp_wait_fraction"] = summary["dp_wait_s"] / summary["total_s"]
        row["slowdown"] = row["outlier_time_s"] / row["even_time_s"]
        rows.append(row)
    text = ", ".join(f"{row['system']} {100 * (row['slowdown'] - 1):.1f}%" for row in rows)
    figure.text(0.01, 1 - 0.28 / figure.get_figheight(), f"slower by the outlier: {text}", va="top", fontsize=7.5,
                fontweight="bold")
    return figure, rows


def dp_merge(simulator):
    """an outlier shared by four data-parallel ranks (CP = 4), the other samples at home"""
    return draw_schedule(simulator.run("dp-merge"), pipelines=(0, 1, 2, 3))


def two_pipelines(simulator):
    """16 samples on two pipelines (10 and 6), 8 MicroPacks each"""
    return draw_schedule(simulator.run("two-pipelines"), pipelines=(0, 1))


def schedule(simulator):
    """ten samples in eight MicroPacks, 1F1B"""
    return draw_schedule(simulator.run("schedule"), injected=True)


def injection(simulator):
    """an extra forward MicroPack where the first backward one needs two samples"""
    return draw_schedule(simulator.run("injection"), injected=True)


def dag_timeline(simulator):
    """the schedule that the 2-stage graph resolves to"""
    return draw_schedule(simulator.run("dag"))


def memory_strategies(simulator):
    """memory of whole samples, of best-fit packing, of slices"""
    trace = simulator.run("memory-strategies")
    figure, _ = draw_schedule(trace, memory=True)
    rows = []
    for number, label in enumerate(trace.labels):
        row = trace.rows("summary", number)[0]
        rows.append({"system": label, "time_s": row["time_mean_s"], "bubble_fraction": row["bubble_fraction"],
                     "peak_GiB": row["peak_bytes"] / GIB, "activations_GiB": row["activations_bytes"] / GIB,
                     "kv_gradients_GiB": row["kv_gradients_bytes"] / GIB})
    return figure, rows


def parse_graph(dot):
    """{node: (stage, pass, unit)}, [(from, to, style)] of `slimsim export --dag dot`."""
    nodes = {name: (int(stage), letter, int(unit)) for name, stage, letter, unit
             in re.findall(r'(t\d+) \[label="(\d+), ([FB]), (\d+)"', dot)}
    edges = re.findall(r"(t\d+) -> (t\d+) \[[^\]]*style=(\w+)", dot)
    return nodes, edges


def data_names(trace):
    """{(pass, unit): '(0, 1)' for the second slice of the first sample, '1' for a whole one}, where units are slices."""
    slices = [(int(row["sample"]), int(row["begin"])) for row in trace.rows("micro_batches", 0)]
    names = {}
    for row, (sample, begin) in zip(trace.rows("micro_batches", 0), slices):
        begins = sorted({at for other, at in slices if other == sample})
        letter = PASSES[row["direction"]][0].upper()
        names[letter, int(row["micro_batch"])] = f"({sample}, {begins.index(begin)})" if len(begins) > 1 else f"{sample}"
    return names


def dag(simulator):
    """2 stages, 2 samples, the first in 2 slices: tasks and the three kinds of dependencies"""
    nodes, edges = parse_graph(slimsim.program.start("export", TOP / "scenarios/paper/dag.yaml", {"dag": "dot"}).stdout)
    names = data_names(simulator.run("dag"))
    level = {(0, "F"): 3, (0, "B"): 2, (1, "B"): 1, (1, "F"): 0}
    at = {name: (2 * unit + (0.9 if letter == "B" else 0), level[stage, letter])
          for name, (stage, letter, unit) in nodes.items()}
    figure, axes = pyplot.subplots(figsize=(WIDTH / 2, 2.9), layout="constrained")
    boxes = {name: axes.text(*at[name], f"{stage}, {letter}, {names[letter, unit]}", ha="center", va="center", fontsize=7,
                             bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": GREY,
                                   "linewidth": 0.6}) for name, (stage, letter, unit) in nodes.items()}
    for begin, end, style in edges:
        along = at[begin][1] == at[end][1]  # the same row
        bend = 0.25 if along and abs(at[end][0] - at[begin][0]) > 2.5 else BENDS[style]
        axes.annotate("", at[end], at[begin], arrowprops={
            "arrowstyle": "-|>", "color": RELATIONS[style][0], "linestyle": style, "linewidth": 1.1, "shrinkA": 1,
            "shrinkB": 1, "patchA": boxes[begin].get_bbox_patch(), "patchB": boxes[end].get_bbox_patch(),
            "connectionstyle": f"arc3,rad={bend}", "mutation_scale": 7})
    axes.set(xlim=(-0.6, 5.6), ylim=(-1.1, 3.4))
    axes.axis("off")
    handles = [pyplot.Line2D([], [], color=colour, linestyle=style, label=label)
               for style, (colour, label) in RELATIONS.items()]
    figure.legend(handles=handles, loc="lower center", ncol=3, frameon=False, fontsize=7,
                  title="a node: stage, pass, sample (sample, slice)", title_fontsize=7)
    return figure, [{"from": boxes[begin].get_text(), "to": boxes[end].get_text(), "relation": RELATIONS[style][1]}
                    for begin, end, style in edges]


FIGURES = {"amplifier": amplifier, "dp-merge": dp_merge, "two-pipelines": two_pipelines, "schedule": schedule,
           "injection": injection, "memory-strategies": memory_strategies, "dag": dag, "dag-timeline": dag_timeline}

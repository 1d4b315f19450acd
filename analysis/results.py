#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of results, docs/results.md: what the SlimPack paper prints beside what slimsim finds, from the tables of
analysis/paper.py. A table that is not there is said to be missing.

    paper.py all && results.py
"""
import argparse
import csv
import pathlib
import statistics

from common import PASSES, TOP, ki, reason, write_page
from numbers_version import version_line
from output import Refused, exit_with
from paper_cells import BATCHES, ITERATION_KINDS, MODELS, SIMGRID_CELLS, SPACES, cells_name, plan_text
from paper_units import DATA_SETS

# Speed-ups that the paper prints (abstract and section 6.2); it names no data set, batch or plan for them.
KNOWN = (("llama-13b", 262144, 2.8), ("llama-150b", 65536, 1.15), ("llama-150b", 131072, 1.54),
         ("llama-150b", 262144, 1.68))
GOOD_SPREAD = 1.02
N_CELLS = 36  # of a plan space and batch
N_EXPERIMENTS = 13
SAME_PLAN_BATCH = 512
SPREAD_CELLS = ("megatron", 512)  # plan space and batch whose units are shown cell by cell
CHOICE_CELL = ("megatron", 512, "commoncrawl", 262144)  # of each model of scenarios/paper/choice.yaml


class Tables:
    """The CSV files of the figures, numbers as numbers."""

    def __init__(self, folder):
        self.folder, self.missing, self.latest = folder, [], None

    def read(self, name):
        """Rows of a figure's table; [] where it was not drawn."""
        path = self.latest = self.folder / f"{name}.csv"
        if not path.exists():
            self.missing.append(name)
            return []
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, restval=""))
        if not rows or any(None in row for row in rows):
            raise ValueError("no table of analysis/paper.py")
        return [{key: number(text) for key, text in row.items()} for row in rows]

    def cells(self, sets=None, engine="critical-path"):
        """Cells of these (plan space, batch), all without: {(space, batch, model, lengths, context): {system: row}}."""
        cells = {}
        for space, batch in sets or [(space, batch) for space in SPACES for batch in BATCHES]:
            for row in self.read(cells_name(space, batch, engine)):
                key = space, batch, row["model"], row["data.lengths"], row["data.context"]
                cells.setdefault(key, {})[row["system"]] = row
        cells = {key: systems for key, systems in cells.items() if {"best-fit", "slimpack"} <= systems.keys()}
        for space, batch in dict.fromkeys(key[:2] for key in cells):
            n = sum(key[:2] == (space, batch) for key in cells)
            if n < N_CELLS:
                self.missing.append(f"{cells_name(space, batch, engine)}: {N_CELLS - n} of {N_CELLS} cells")
        return cells

    def same_plan_cells(self):
        """The same of both systems with one plan, which stands for the plan space."""
        cells = {}
        for row in self.read("same-plan"):
            key = plan_text(row), SAME_PLAN_BATCH, row["model"], row["data.lengths"], row["data.context"]
            cells.setdefault(key, {})[row["system"]] = row
        return cells


def number(text):
    try:
        return float(text) if not text.lstrip("-").isdigit() else int(text)
    except ValueError:
        return text


def markdown(header, rows):
    if not rows:
        return "Not run."
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *lines])


def sets_of(cells):
    """(plan space, batch) of the cells."""
    return sorted({key[:2] for key in cells}, key=lambda pair: (SPACES.index(pair[0]), pair[1]))


def speed(cell):
    return f"{cell['slimpack']['speed_up']:.2f} ± {cell['slimpack']['speed_up_interval']:.2f}"


def plan(row):
    text = "TP{tp} PP{pp} CP{cp} DP{dp}".format(**row)
    text += f" VPP{row['vpp']}" if row["vpp"] > 1 else ""
    text += "".join(f" {row[key]}" for key, usual in (("sharding", "zero1"), ("recompute", "none")) if row[key] != usual)
    return text + (f" offload {100 * row['offload']:.0f}%" if row["offload"] else "")


def known_values(cells):
    """The paper's speed-ups beside today's of the same model and context: the nearest, and the range of each plan space."""
    rows = []
    for model, context, value in KNOWN:
        ours = {key: cell for key, cell in cells.items() if (key[2], key[4]) == (model, context)}
        if not ours:
            rows.append((MODELS[model], ki(context), f"{value}x", "not run", *[""] * (len(SPACES) + 3)))
            continue
        key = min(ours, key=lambda key: (abs(ours[key]["slimpack"]["speed_up"] - value), key))
        speeds = {space: [cell["slimpack"]["speed_up"] for key, cell in ours.items() if key[0] == space] for space in SPACES}
        rows.append((MODELS[model], ki(context), f"{value}x", speed(ours[key]), f"{key[0]}, B = {key[1]}, {DATA_SETS[key[3]]}",
                     *(f"{min(of):.2f} to {max(of):.2f}" if of else "" for of in speeds.values()), in_a_sentence(value, speeds),
                     f"{plan(ours[key]['best-fit'])} / {plan(ours[key]['slimpack'])}"))
    return markdown(("model", "context", "printed", "nearest today", "plan space, batch, data", *SPACES, "in a sentence",
                     "plans of best-fit / slimpack in the nearest"), rows)


def in_a_sentence(value, speeds):
    """Where a printed speed-up lies in the ranges of the plan spaces: {space: speed-ups}."""
    places = {"inside": [], "above": [], "below": []}
    for space, of in speeds.items():
        if of:
            places["inside" if min(of) <= value <= max(of) else "above" if value > max(of) else "below"].append(space)
    texts = [f"{where} the range of {' and '.join(names)}" for where, names in places.items() if names]
    return f"The printed value is {', '.join(texts)}."


def known_by_setting(cells):
    """The same by plan space and batch, a number for each data set: all of the paper's speed-ups in one setting."""
    rows = []
    for space, batch in sets_of(cells):
        of_known = [[cells.get((space, batch, model, name, context)) for name in DATA_SETS] for model, context, _ in KNOWN]
        if any(cell for line in of_known for cell in line):
            rows.append((f"{space}, B = {batch}", *(" / ".join(
                f"{cell['slimpack']['speed_up']:.2f}" if cell else "–" for cell in line) for line in of_known)))
    return markdown(("plan space, batch", *(f"{MODELS[model]} {ki(context)} (paper {value}x)"
                                            for model, context, value in KNOWN)), rows)


def overview(cells):
    """Speed-ups of each plan space and batch: by context, geometric mean over models and data sets, least and largest."""
    rows = []
    contexts = sorted({key[4] for key in cells})
    for space, batch in sets_of(cells):
        texts = []
        for context in contexts:
            speeds = [cell["slimpack"]["speed_up"] for key, cell in cells.items() if key[:2] == (space, batch) and key[4] == context]
            texts.append(f"{statistics.geometric_mean(speeds):.2f} ({min(speeds):.2f} to {max(speeds):.2f})" if speeds else "")
        rows.append((f"{space}, B = {batch}", *texts))
    return markdown(("plan space, batch", *(ki(context) for context in contexts)), rows)


def speed_and_rates(cell):
    return (f"{speed(cell)} ({cell['best-fit']['tokens_per_s_per_gpu']:.0f} → "
            f"{cell['slimpack']['tokens_per_s_per_gpu']:.0f})")


def speeds_by_engine(cell):
    """Speed-ups of the same plans and batches by critical path and on SimGrid, and how much longer SimGrid takes."""
    base, slim = cell["best-fit"], cell["slimpack"]
    more = [100 * (row["simgrid_s"] / row["critical_path_s"] - 1) for row in (base, slim)]
    return f"{base['critical_path_s'] / slim['critical_path_s']:.2f} → {speed(cell)} ({more[0]:+.1f}%, {more[1]:+.1f}%)"


def cell_tables(cells, text_of=speed_and_rates):
    """A table for each plan space and batch, with the text of each cell."""
    parts = []
    for space, batch in sets_of(cells):
        contexts = sorted({key[4] for key in cells if key[:2] == (space, batch)})
        rows = []
        for model, name in ((model, name) for model in MODELS for name in DATA_SETS):
            of_row = [cells.get((space, batch, model, name, context)) for context in contexts]
            if any(of_row):
                rows.append((MODELS[model], DATA_SETS[name], *(cell and text_of(cell) or "" for cell in of_row)))
        parts.append(f"### {space}, B = {batch}\n\n" + markdown(
            ("model", "data", *(ki(context) for context in contexts)), rows))
    return "\n\n".join(parts) or "Not run."


def verdict(holds, fails):
    """'holds in 3 of 4; not in a, b'"""
    n = len(holds) + len(fails)
    return f"{len(holds)} of {n}" + (f"; not: {', '.join(fails)}" if fails else "") if n else "not run"


def judged(cases):
    """verdict() of (name, whether) pairs."""
    cases = list(cases)
    return verdict([name for name, good in cases if good], [name for name, good in cases if not good])


def series(cells):
    """{(space, batch, model, lengths): [cell of each context, ascending]} where all contexts were run."""
    lines = {}
    for key in sorted(cells):
        lines.setdefault(key[:4], []).append(cells[key])
    return {key: line for key, line in lines.items() if len(line) > 1}


def name_of(key):
    return f"{key[0]} {key[1]} {MODELS[key[2]]} {DATA_SETS[key[3]]}"


def trend_rows(cells):
    """(claim, in how many of these cells it holds)"""
    lines = series(cells)

    def rate(cell, system):
        return cell[system]["tokens_per_s_per_gpu"]

    def gain(key, line):
        first, last = line[0]["slimpack"], line[-1]["slimpack"]
        near = first["speed_up"] - last["speed_up"] <= first["speed_up_interval"] + last["speed_up_interval"]
        return name_of(key) + (" (within the intervals)" if near else ""), last["speed_up"] > first["speed_up"]
    rows = [("SlimPack is not slower than best-fit", judged(
        (f"{name_of(key)} {ki(key[4])}", cell["slimpack"]["speed_up"] >= 1) for key, cell in cells.items()))]
    rows.append(("the gain is larger at the longest context than at the shortest", judged(
        gain(key, line) for key, line in lines.items())))
    for system in ("best-fit", "slimpack"):
        rows.append((f"7B and 13B on GitHub lose tokens/s/GPU with longer context, {system}", judged(
            (name_of(key), all(rate(b, system) < rate(a, system) for a, b in zip(line, line[1:])))
            for key, line in lines.items() if key[2] in ("llama-7b", "llama-13b") and key[3] == "github")))
    return rows


def trends(cells, tables):
    """The paper's claims in words, and in how many of our cases it holds."""
    fit = {key: cell for key, cell in tables.same_plan_cells().items() if all(row["fits"] for row in cell.values())}
    rows = [(claim, searched, same) for (claim, searched), (_, same) in zip(trend_rows(cells), trend_rows(fit))]
    violins = [row["flop_p95_over_p5"] <= GOOD_SPREAD for name in DATA_SETS
               for row in tables.read(f"unit-times-{name}") if row["system"] == "slimpack"]
    rows.append((f"FLOPs of the units that SlimPack slices and cuts anew, in pipelines: p95/p5 of at most {GOOD_SPREAD} "
                 f"(cells and passes; {link('Spread of units')})", spread_verdict(cells),
                 f"{sum(violins)} of {len(violins)} (times of units)"))
    return markdown(("claim", "holds with the fastest plans in", "with one plan for both in"), rows)


def weighted_mean(pairs):
    """The mean of (value, weight); None: no weight."""
    n = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / n if n else None


def kinds_spread(row, kinds, name):
    """p95/p5 of one pass, mean over the iterations of these kinds that have one; None: there is none."""
    return weighted_mean([(row[f"{kind}_{name}_flop_spread"], row[f"{kind}_{name}_flop_spread_iterations"]) for kind in kinds])


def spread_verdict(cells):
    """In how many cells and passes units are even: those of the claim, and the others by what they are."""
    slim = [cell["slimpack"] for cell in cells.values()]
    texts, balanced = [], ("plain", "merged")
    for text, of_pp, kinds, units in (("{}", lambda pp: pp > 1, balanced, ""),
                                      ("without merged units {}", lambda pp: pp > 1, balanced, "_own"),
                                      ("of these with merged samples {}", lambda pp: pp > 1, ("merged",), ""),
                                      ("not counted: with a part switched off {}", lambda pp: pp > 1, ("uncut",), ""),
                                      ("without pipelines {}", lambda pp: pp == 1, tuple(ITERATION_KINDS), "")):
        spreads = [kinds_spread(row, kinds, name + units) for row in slim if of_pp(row["pp"]) for name in PASSES]
        spreads = [spread for spread in spreads if spread is not None]
        texts.append(text.format(f"{sum(spread <= GOOD_SPREAD for spread in spreads)} of {len(spreads)}"))
    return "; ".join(texts)


def spread_misses(cells):
    """The cells and passes of the claim whose units spread more, and what they have without merged units."""
    rows = []
    for key, cell in cells.items():
        row, balanced = cell["slimpack"], ("plain", "merged")
        for name in PASSES if row["pp"] > 1 else ():
            spread = kinds_spread(row, balanced, name)
            if spread is not None and spread > GOOD_SPREAD:
                n = row["plain_iterations"] + row["merged_iterations"]
                own = kinds_spread(row, balanced, name + "_own")
                rows.append((f"{name_of(key)} {ki(key[4])}", plan(row), name, n, row["merged_iterations"], f"{spread:.4f}",
                             "–" if own is None else f"{own:.4f}"))
    header = ("cell", "plan", "pass", "iterations", "with merged samples", "p95/p5 of FLOPs", "without merged units")
    return markdown(header, rows) if rows else "None."


def unit_times(tables):
    rows = [(row["data_set"], row["system"], row["pass"], row["micro_batches"], f"{row['median_s']:.3f}",
             f"{row['p95_over_p5']:.3f}", f"{row['flop_p95_over_p5']:.3f}")
            for name in DATA_SETS for row in tables.read(f"unit-times-{name}")]
    return markdown(("data", "system", "pass", "micro_batches", "median time [s]", "p95/p5 of time", "p95/p5 of FLOPs"), rows)


def spread_reasons(cells):
    """FLOPs of SlimPack's units in the iterations of each kind, all cells together, with pipelines and without."""
    rows = []
    for kind, text in ITERATION_KINDS.items():
        for where, of_pp in (("PP > 1", lambda pp: pp > 1), ("PP = 1", lambda pp: pp == 1)):
            slim = [cell["slimpack"] for cell in cells.values() if of_pp(cell["slimpack"]["pp"])]
            n = sum(row[f"{kind}_iterations"] for row in slim)
            means = [[weighted_mean([(row[f"{kind}_{name}_{units}"], row[f"{kind}_{name}_{units}_iterations"]) for row in slim])
                      for name in PASSES] for units in ("flop_spread", "own_flop_spread")]
            rows.append((text, where, n, *(" / ".join("–" if mean is None else f"{mean:.3f}" for mean in pair) if n else ""
                                           for pair in means)))
    return markdown(("iterations", "plan", "how many", "p95/p5 of FLOPs, F / B", "without merged units, F / B"), rows)


def spread_cells(cells):
    """Spread of the units of each cell of the first plan space and batch, and what SlimPack did there."""
    rows = []
    for key, cell in cells.items():
        if key[:2] != SPREAD_CELLS:
            continue
        base, slim = cell["best-fit"], cell["slimpack"]
        rows.append((f"{MODELS[key[2]]} {DATA_SETS[key[3]]} {ki(key[4])}",
                     " / ".join(f"{slim[f'{name}_flop_spread']:.3f}" for name in PASSES),
                     *(" / ".join(f"{row[f'{name}_time_spread']:.2f}" for name in PASSES) for row in (slim, base)),
                     f"{100 * slim['sliced']:.0f}%", f"{100 * slim['asymmetric']:.0f}%", f"{slim['merged_samples']:.1f}"))
    return markdown(("cell", "FLOPs, slimpack, F / B", "time, slimpack, F / B", "time, best-fit, F / B", "sliced pipelines",
                     "cut anew", "merged samples"), rows)


def lengths_rows(lengths):
    """Shares of the documents as they are, none cut."""
    if not lengths:
        return []
    short, long, work = {}, {}, {}
    for row in lengths:
        name = row["data_set"]
        short[name] = short.get(name, 0) + (row["samples"] if row["tokens_up_to"] <= 4096 else 0)
        long[name] = long.get(name, 0) + (row["samples"] if row["tokens_up_to"] > 131072 else 0)
        work[name] = work.get(name, 0) + (row["forward_flop"] if row["tokens_up_to"] > 131072 else 0)
    return [("nearly 80% of the samples may be shorter than 4K", "; ".join(
                f"{name}: {100 * share:.1f}% have at most 4Ki" for name, share in short.items())),
            ("some 1%, often over 128K, is nearly half of the work", "; ".join(
                f"{name}: {100 * long[name]:.2f}% over 128Ki are {100 * share:.0f}% of the forward FLOPs of 7B"
                for name, share in work.items()))]


def unit_size_rows(sizes):
    if not sizes:
        return []
    first, last, best = sizes[0], sizes[-1], min(sizes, key=lambda row: row["time_s"])
    return [("the more MicroPacks (m = i PP), the smaller they and the bubbles are", "; ".join(
        f"i = {row['i']}: {row['tau_flop'] / 1e15:.2f} PFLOP, bubbles {100 * row['bubble_fraction']:.1f}%, {row['time_s']:.1f} s"
        for row in (first, best, last)))]


def memory_rows(peaks):
    if not peaks:
        return []
    by_system = {}
    for row in peaks:
        by_system.setdefault(row["system"], []).append(row["peak_GiB"])
    return [("memory of iterations 2 to 12, predicted within 1.6% of the measured (13B, GitHub, 16 GPUs; its series is not "
             "printed)", "; ".join(f"{system}: {' to '.join(dict.fromkeys((f'{min(gib):.1f}', f'{max(gib):.1f}')))} GiB"
                               for system, gib in by_system.items()))]


def examples(tables):
    """Statements of the paper's drawings, with our numbers."""
    rows = []
    amplifier = tables.read("amplifier")
    if amplifier:
        rows.append(("one outlier costs more with pipelines than with data parallelism alone", "; ".join(
            f"{row['system']}: {100 * (row['slowdown'] - 1):.1f}% slower" for row in amplifier)))
    heaviest = {}
    for row in tables.read("asymmetry"):
        of_pass = heaviest.setdefault((row["system"], row["pass"]), {})
        of_pass[row["micro_batch"]] = of_pass.get(row["micro_batch"], 0) + row["flop"]
    if heaviest:
        rows.append(("packs of equal forward FLOPs differ in the backward pass (heaviest / lightest)", "; ".join(
            f"{system}, {name}: {max(flop.values()) / min(flop.values()):.3f}"
            for (system, name), flop in heaviest.items())))
    rows += lengths_rows(tables.read("lengths"))
    memory = tables.read("memory-strategies")
    if memory:
        rows.append(("packing raises the peak, slicing lowers it", "; ".join(
            f"{row['system']}: {row['peak_GiB']:.1f} GiB, bubbles {100 * row['bubble_fraction']:.1f}%" for row in memory)))
    rows += unit_size_rows(tables.read("unit-size")) + memory_rows(tables.read("memory"))
    at = {(row["model"], row["context"]): row for row in tables.read("attention")}
    for column, text in (("attention_share", "share of all FLOPs"), ("attention_to_rest", "FLOPs of attention over the rest")):
        if at:
            rows.append((f"attention weighs 3.0x more in 7B than in 150B: {text}", ", ".join(
                f"{ki(context)}: {at['llama-7b', context][column] / at['llama-150b', context][column]:.2f}"
                for context in (4096, 65536, 262144))))
    return markdown(("the paper", "ours"), rows)


def scaling(tables):
    """tokens/s/GPU and speed-ups by the number of GPUs."""
    rows = tables.read("scaling")
    at = {(row["scaling"], row["gpus"], row["system"]): row for row in rows}
    gpus = sorted({row["gpus"] for row in rows})
    lines = []
    for kind, system in dict.fromkeys((row["scaling"], row["system"]) for row in rows):
        cells = [at[kind, n, system] for n in gpus]
        lines.append((kind, system, *(f"{cell['tokens_per_s_per_gpu']:.0f}" + (
            f" ({cell['speed_up']:.2f})" if system == "slimpack" else "") for cell in cells)))
    return markdown(("scaling", "system", *(f"{n} GPUs" for n in gpus)), lines)


def ablation(tables):
    """Speed-ups by context; last, what each part makes of the row above it."""
    rows = tables.read("ablation")
    contexts = sorted({row["data.context"] for row in rows})
    speeds = {(row["system"], row["data.context"]): row for row in rows}
    labels, lines = list(dict.fromkeys(row["system"] for row in rows)), []
    for before, label in zip([None, *labels], labels):
        gains = [speeds[label, context]["speed_up"] / speeds[before, context]["speed_up"] for context in contexts if before]
        lines.append((label, *(f"{speeds[label, context]['speed_up']:.2f} ± {speeds[label, context]['speed_up_interval']:.2f}"
                               for context in contexts), " / ".join(f"{100 * (gain - 1):+.1f}%" for gain in gains)))
    return markdown(("part added", *(ki(context) for context in contexts), "over the row above"), lines)


def same_plan(tables):
    """Where SlimPack is slower than best-fit with the same plan and memory, or alone does not fit."""
    plans = {}
    for key, cell in tables.same_plan_cells().items():
        plans.setdefault(key[0], []).append((cell["best-fit"], cell["slimpack"]))
    lines = []
    for name, cells in plans.items():
        both = [slim["speed_up"] for base, slim in cells if base["fits"] and slim["fits"]]
        slower = [f"{MODELS[base['model']]} {DATA_SETS[base['data.lengths']]} {ki(base['data.context'])} " +
                  (f"({slim['speed_up']:.3f})" if slim["fits"] else "(does not fit)") for base, slim in cells
                  if base["fits"] and (slim["speed_up"] < 1 or not slim["fits"])]
        lines.append((name, len(cells), len(both), sum(slim["fits"] > base["fits"] for base, slim in cells),
                      f"{min(both):.2f} to {max(both):.2f}" if both else "", ", ".join(slower) or "nowhere"))
    return markdown(("plan of both", "cells", "both fit in", "SlimPack alone in", "speed-up", "SlimPack is slower in"), lines)


def experiments(tables):
    """One assumption changed at a time."""
    rows = tables.read("experiments")
    if 0 < len(rows) < 2 * N_EXPERIMENTS:
        tables.missing.append(f"experiments: {N_EXPERIMENTS - len(rows) // 2} of {N_EXPERIMENTS}")
    lines = []
    for base, slim in zip(rows[::2], rows[1::2]):
        lines.append((slim["change"], f"{base['tokens_per_s_per_gpu']:.0f}", f"{slim['tokens_per_s_per_gpu']:.0f}",
                      f"{slim['speed_up']:.2f} ± {slim['speed_up_interval']:.2f}",
                      f"{100 * (slim['speed_up'] / rows[1]['speed_up'] - 1):+.0f}%", plan(base), plan(slim)))
    return markdown(("changed", "best-fit", "slimpack", "speed-up", "against the first row", "plan of best-fit",
                     "plan of slimpack"), lines)


def choice(tables, cells):
    """Plans of SlimPack over the iterations that the search did not see, and those that it chooses in the cells."""
    keys = dict.fromkeys((*CHOICE_CELL[:2], row["model"], *CHOICE_CELL[2:]) for row in tables.read("choice"))
    found = [f"{MODELS[key[2]]}: {plan(cells[key]['slimpack'])}" for key in keys if key in cells]
    rows = [(MODELS[row["model"]], row["system"], plan(row), f"{row['tokens_per_s_per_gpu']:.0f} ± {row['interval']:.0f}",
             *(f"{row[name]:.1f}" for name in ("median_s", "mean_s", "longest_s")), f"{100 * row['ring_fraction']:.0f}%")
            for row in tables.read("choice")]
    note = f"The search chooses {', '.join(found)}.\n\n" if found else ""
    return note + markdown(("model", "plan of slimpack", "", "tokens/s/GPU", "median [s]", "mean [s]", "longest [s]",
                     "waits for context ring"), rows)


INTRODUCTION = """\
This page shows the SlimPack paper's evaluation (its section 6) in simulation. `analysis/paper.py all` and
`analysis/results.py` write it. Nothing is tuned to meet the paper.

- **Set-up.** Models, data sets, contexts, batches and numbers of GPUs are the paper's: 7B and 13B on 128 GPUs, 70B and
  150B on 256. Best-fit packing stands for its baseline, Megatron-LM.
- **Speed-up**: SlimPack's throughput over best-fit's in the same batches, over 20 iterations after 5 of warm-up, ± its
  95% confidence interval.
- **B**: documents of an iteration, before those longer than the context are cut.
- **F / B** in the head of a column: forward / backward passes.
- **Plans.** The paper names none. Both systems run the fastest plan (TP, PP, CP, recomputation, offload) that a search
  finds for them in a plan space:

| plan space | allows |
|---|---|
| free | any plan with TP inside a node |
| megatron | the same, but CP beyond a node only where no other plan fits, as the paper describes its baseline |
| low-tp | TP of at most 2; CP and full recomputation only where no other plan fits |"""

SPREAD = """\
The paper claims that SlimPack's units are equal in FLOPs. Here they nearly are in pipelines, with merged samples, too;
without pipelines most are not.

**Counting.** The claim is about units that SlimPack slices and cuts anew (another partition for the backward
pass) in pipelines, where a stage waits for an uneven unit. The paper's violins show one device; p95/p5 here is of all
units that a pipeline runs, those of merged samples included. Tables give its mean over pipelines and iterations, by
kind of iteration.

**Why units differ:**

- Units that one pipeline runs alone, sliced and cut anew, are equal to within a token.
- A merged sample shares no unit with others. So it gets whole units, and so does the rest; the more units, the less
  these two kinds differ.
- SlimPack takes few and uneven units where the iteration is faster for it. Other pipelines take the first partition
  that ends in time.
- Without pipelines no stage waits. One to five units of a merged sample are the fastest there, and they are uneven.

**Above 1.02 in pipelines.** These cells come of merged samples: as many units as would be even take longer."""

# Text above the tables of each section, in the order of the page.
NOTES = {
    "The paper's speed-ups": """\
The paper names neither data set, batch nor plans for the speed-ups that it prints. So every cell of that model and
context is compared: first the nearest and the range of each plan space, then all by setting (GitHub / Common Crawl /
Wikipedia).

The plans that best-fit may use decide. It needs context parallelism for the longest samples. Where that stays inside a
node (megatron), TP is small; then memory takes recomputation, offload or pipelines, and all wait for the one long
sample, in the bubbles of its pipeline or at the end. SlimPack's own plans hardly differ between the spaces.
[Influences on the speed-up](#influences-on-the-speed-up) changes one assumption at a time.""",
    "Speed-ups at a glance": """\
Geometric mean over models and data sets, in brackets the least and the largest; every cell: [All cells](#all-cells).""",
    "The paper's claims": """\
In how many cases each claim holds: with the fastest plan of each system, and with one plan for both
([The same plan](#the-same-plan)).""",
    "Influences on the speed-up": """\
13B, 256Ki, GitHub, 128 GPUs. The first row is the cell in plan space free with B = 512; each other row changes one
assumption (`analysis/paper.py experiments`). Columns best-fit and slimpack: tokens/s/GPU.""",
    "The paper's other figures": """\
Captions and text of the paper's other figures say these things; ours stand beside them. In `analysis/paper.py`:
amplifier, asymmetry, lengths, memory-strategies, unit-size, memory, attention. The 3.0x of the last two rows is the
ratio of the hidden dimensions, 12288 / 4096, which follows if all FLOPs but attention's are 24 h^2 a token.""",
    "Parts of SlimPack": """\
Each part gives so much: 13B on GitHub, 128 GPUs, all with TP4 PP4 DP8 and full recomputation, one part added at a time;
speed-up over best-fit (`analysis/paper.py ablation`). DP-Merge pays where single samples outweigh a rank. Before extra
injection the warm-up is static, and so long that no backward unit waits for a forward one.""",
    "The same plan": """\
Is SlimPack ever slower than best-fit with the same plan and memory? All models, data sets and contexts, 512 documents,
three iterations (`analysis/paper.py same-plan`).""",
    "Times of units": """\
The paper's violins: times of the forward and backward passes of one GPU (stage 0 of pipeline 0) in one iteration. Both
systems have the same layout, TP8 PP4, which is our choice; 13B, 64Ki, 2048 documents. No sample is merged there
(`analysis/paper.py unit-times-github`, and so on).""",
    "Spread of units": SPREAD,
    "Scaling": """\
Not in the paper, which stops at 256 GPUs: 13B, GitHub, 64Ki, TP4 PP4, full recomputation (`analysis/paper.py scaling`).
Weak: 4 documents a GPU; strong: 4096 documents. tokens/s/GPU, in brackets SlimPack's speed-up.""",
    "Five iterations of the search": """\
How far the plan search can be off: it decides on five batches that stand for 256 by their work. SlimPack, Common Crawl,
256Ki, 512 documents, plan space megatron (`analysis/paper.py choice`).

In the usual iteration a plan without pipelines is the fastest (first row of a model, which the search takes). In some
of the long iterations it is not; the search weighs those, too. Over 20 iterations another plan than the chosen one may
still be faster: the intervals of the cells are wide.""",
    "With contention": """\
Transfers that share links change the speed-up: by critical path → on SimGrid, with its 95% interval; in brackets
how much longer iterations take on SimGrid, of best-fit and of SlimPack. The search, too, counts the contention of the
plans that it decides among.""",
    "All cells": """\
Speed-up of SlimPack over best-fit with its 95% interval over the iterations, in brackets tokens/s/GPU of both; each
with the fastest plan found in the plan space. In low-tp, best-fit has no context parallelism where a plan without it
just fits. Such cells stand out; a longer context, which demands it, gains less.""",
}


def link(title):
    """To a section, as GitHub names its anchor."""
    return f"[{title}](#{''.join(c for c in title.lower() if c.isalnum() or c in ' -').replace(' ', '-')})"


def page(tables):
    cells = tables.cells()
    bodies = {
        "The paper's speed-ups": known_values(cells) + "\n\n" + known_by_setting(cells),
        "Speed-ups at a glance": overview(cells),
        "The paper's claims": trends(cells, tables),
        "Influences on the speed-up": experiments(tables),
        "The paper's other figures": examples(tables),
        "Parts of SlimPack": ablation(tables),
        "The same plan": same_plan(tables),
        "Times of units": unit_times(tables),
        "Spread of units": "Iterations of all cells, by kind:\n\n" + spread_reasons(cells) +
        f"\n\nCells above {GOOD_SPREAD} in pipelines, sliced and cut anew:\n\n" + spread_misses(cells) +
        f"\n\nCell by cell, plan space {SPREAD_CELLS[0]}, B = {SPREAD_CELLS[1]}:\n\n" + spread_cells(cells),
        "Scaling": scaling(tables),
        "Five iterations of the search": choice(tables, cells),
        "With contention": cell_tables(tables.cells(SIMGRID_CELLS, "simgrid"), speeds_by_engine),
        "All cells": cell_tables(cells),
    }
    text = ["# SlimPack's evaluation, simulated", INTRODUCTION, version_line(tables.folder), "Contents: " + ",\n".join(map(link, NOTES)) + "."]
    text += [f"## {title}\n\n{note}\n\n{bodies[title]}" for title, note in NOTES.items()]
    if tables.missing:
        text.append("## Not run\n\n" + ", ".join(f"`{name}`" for name in dict.fromkeys(tables.missing)))
    return "\n\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", type=pathlib.Path, default="results/paper", metavar="DIR", help="of analysis/paper.py")
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE",
                        help=f"(default: {TOP / 'docs/results.md'}; if tables are missing, results.md beside the others)")
    arguments = parser.parse_args()
    tables = Tables(arguments.figures)
    try:
        text, missing = page(tables), sorted(set(tables.missing))
    except Exception as error:
        raise Refused(f"{tables.latest}: {reason(error)}; analysis/paper.py draws the figure again", 2) from error
    if not list(arguments.figures.glob("*.csv")):
        raise Refused(f"{arguments.figures}: holds no tables; analysis/paper.py writes them: {', '.join(missing)}", 2)
    path = arguments.output or (arguments.figures / "results.md" if missing else TOP / "docs/results.md")
    write_page(path, text, missing)


if __name__ == "__main__":
    exit_with(main)

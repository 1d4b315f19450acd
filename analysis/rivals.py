#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rivals side by side: scenarios/rivals.yaml and scenarios/headlines/*.yaml run, then docs/rivals.md written.

To results/rivals go cells.csv (each system in each cell), rivals.png and rivals.svg, and the traces. Sweeps that are not
finished go on where they stopped; with --no-run what is there is drawn, cells and headlines that are not there are said
to be missing.

    rivals.py --jobs 2
"""
import argparse
import math
import pathlib
import subprocess
import sys

from common import COLOURS, GIB, KI, Trace, ki, legend_outside, pyplot, save, style
from paper import write_table
from paper_cells import MODELS, read_points, system_row
from paper_units import DATA_SETS
from results import markdown, plan

TOP = pathlib.Path(__file__).resolve().parent.parent
BASE = "best-fit"
CELLS = [(model, name, context) for model in list(MODELS)[:3] for name in DATA_SETS for context in (64 * KI, 128 * KI, 256 * KI)]
SENT = {"tensor": "tensor", "shard": "zero2/3", "context": "context", "boundary": "stages", "exchange": "exchange",
        "sync": "sync", "reshard": "re-sharding", "host": "host"}
EXPOSED = {"tensor_s": "tensor", "shard_s": "zero2/3", "ring_s": "context", "sync_s": "sync",
           "reshard_s": "re-sharding"}
# What each paper prints, as far as systems are compared there: scenario, key of the points, system (its label or how it
# begins), printed value (a speed-up, or else the column).
HEADLINES = (
    ("wlb-llm", {"data.context": 64 * KI}, "wlb-llm", "speed_up", "1.15x"),
    ("wlb-llm", {"data.context": 128 * KI}, "wlb-llm", "speed_up", "1.30x"),
    ("wlb-llm", {"data.context": 160 * KI}, "wlb-llm", "speed_up", "1.40x"),
    ("wlb-llm-replicas", {}, "wlb-llm", "speed_up", "1.30x"),
    ("dynamic-cp", {}, "megatron-dynamic-cp", "speed_up", "up to 1.48x"),
    ("dynamic-cp-plan", {}, "megatron-dynamic-cp", "speed_up", "up to 1.48x"),
    ("bytescale", {"data.lengths": "github"}, "bytescale", "speed_up", "up to 7.89x"),
    ("bytescale", {"data.lengths": "byted-like"}, "bytescale", "speed_up", "up to 4.26x"),
    ("bytescale-plan", {"data.lengths": "github"}, "bytescale", "speed_up", "up to 7.89x"),
    ("bytescale-plan", {"data.lengths": "byted-like"}, "bytescale", "speed_up", "up to 4.26x"),
    ("bytescale-baseline", {"data.lengths": "github"}, "bytescale", "speed_up", "up to 7.89x"),
    ("bytescale-baseline", {"data.lengths": "byted-like"}, "bytescale", "speed_up", "up to 4.26x"),
    ("dynapipe", {}, "dynapipe", "speed_up", "up to 3.25x"),
    ("flexsp", {}, "flexsp", "speed_up", "up to 1.98x (Megatron-LM), 1.72x (DeepSpeed)"),
    ("hotspa", {}, "hotspa", "speed_up", "up to 2.99x"),
    ("slimpipe", {"data.context": 512 * KI}, "slimpipe", "speed_up", "up to 1.57x"),
    ("slimpipe", {"data.context": 2048 * KI}, "slimpipe", "mfu", "over 45% MFU"),
    ("slimpipe-memory", {}, "slimpipe", "mfu", "over 45% MFU"),
)
EXPERIMENTS = ("wlb-llm-replicas", "dynamic-cp-plan", "bytescale-plan", "bytescale-baseline", "slimpipe-memory")
REASONS = {
    "wlb-llm": "The number of replicas decides (`wlb-llm-replicas.yaml`): at 128 Ki the same plan gains least with one replica "
               "and most with four, for documents as they come load replicas unequally, too; theirs is not known to us. "
               "Sharding by document, a faster attention kernel: each takes a part of the gain from both. Long documents are "
               "few, so intervals are wide.",
    "megatron-dynamic-cp": "What the baseline may use decides: over a context degree that holds the whole context or half of it "
                           "(`dynamic-cp-plan.yaml`) about as much as is printed is gained, or more; over best-fit's fastest plan "
                           "less, and nothing at 64 Ki. The public scheduler counts squared lengths, so ranks with short samples "
                           "get too much; by FLOPs it is faster. The tokens of a rank, which users choose, must be small: else "
                           "few ranks are left for all short samples.",
    "bytescale": "What the baseline may use decides: at 2 Mi, GitHub, the gain over a context degree of 128 (16 Ki of the "
                 "longest sample a rank) is above the printed one, over 64 below it, over 32, which the search finds, less "
                 "still (`bytescale-baseline.yaml`). The more documents a batch has, the fewer ranks wait in either; the "
                 "stand-in for Byted's lengths has so many long ones that with 16384 documents little is gained. With 4096 of "
                 "them at 2 Mi a quarter of the GPUs' time is waiting in ByteScale, too: a sequence of the whole context has "
                 "the fewest ranks that hold it, and there takes longer than all else takes the others. The capacity of a "
                 "rank decides (`bytescale-plan.yaml`): with as much as memory holds, the longest sequences run on few ranks "
                 "while the others wait; offloading by eq. 3 takes still fewer, and loses. Batch, plans and capacity are not "
                 "published.",
    "dynapipe": "FLANv2's lengths are not among ours; in the stand-in packing to the context is nearly even. Both keep attention "
                "inside documents: a baseline whose attention spans the packed window computes more (at 8 Ki, unfused, the "
                "baseline on `data.lengths: fixed` trains a quarter fewer tokens/s with the same plan).",
    "flexsp": "Over groups of one degree the gain is near the printed one, also if everything is recomputed in the published memory "
              "budget (`capacity` 5873), as their profiles have it: then all are slower. Best-fit's windows of 192 Ki and 384 Ki "
              "are few, with Wikipedia's lengths fewer than its replicas could run, so more is gained over it than is printed; how "
              "Megatron-LM was run is not known to us.",
    "hotspa": "The published strategies of 7B and 13B keep TP inside a node, so one strategy for all lengths loses little; that of "
              "32B spans nodes by TP 16, but is none of our models. Lengths and batch are not known to us. Best-fit's fastest plan "
              "beats the strategy of the longest bucket.",
    "slimpipe": "At 2 Mi all that fits recomputes attention, so MFU is two thirds of HFU. If attention is kept (selective, "
                "`slimpipe-memory.yaml`) MFU comes to what is printed with enough samples, but takes more than the 1000 GiB of a "
                "host; what theirs has is not known to us. Speed-ups are over best-fit with context parallelism, which has no "
                "bubbles on equal samples.",
}


def measured_row(trace, label, row, measured, base):
    """system_row and what the paper's Table 1 ticks; base: (row of summary, measured iterations) of best-fit."""
    n = len(measured)
    return {**system_row(trace, label, row, measured, base[1]),
            "peak_of_best_fit": row["peak_bytes"] / base[0]["peak_bytes"],
            **{f"sent_{name}_GiB": row[f"sent_{name}_bytes"] / GIB for name in SENT},
            "sent_GiB": sum(row[f"sent_{name}_bytes"] for name in SENT) / GIB,
            "sent_of_best_fit": sum(row[f"sent_{name}_bytes"] for name in SENT) / row["time_mean_s"]
            / (sum(base[0][f"sent_{name}_bytes"] for name in SENT) / base[0]["time_mean_s"]),
            **{f"exposed_{name}": row[name] / row["total_s"] * row["time_mean_s"] for name in EXPOSED},
            "exposed_s": sum(row[name] for name in EXPOSED) / row["total_s"] * row["time_mean_s"],
            "hfu": row["hfu"], "iteration_s": measured["time_s"].sum() / n, "token_delay": row["token_delay"],
            "dp_imbalance": row["dp_imbalance"], "forward_imbalance": row["forward_imbalance"],
            "backward_imbalance": row["backward_imbalance"]}


def rows_of(trace, base_label):
    """A row per point and system, of points that have the one to compare with."""
    rows = []
    for point in read_points(trace):
        base = point["systems"].get(base_label)
        text = ", ".join(f"{key.split('.')[-1]} {ki(value) if key == 'data.context' else value}"
                         for key, value in point["keys"].items())
        if base is not None:
            rows += [{"point": text, **point["keys"], **measured_row(trace, label, row, measured, base)}
                     for label, (row, measured) in point["systems"].items()]
    return rows


def run(arguments, scenario, again):
    """@return the trace of a sweep, None: it was not run"""
    output = arguments.output / "traces"
    output.mkdir(parents=True, exist_ok=True)
    name = next(line.split(":")[1].strip() for line in scenario.read_text().splitlines() if line.startswith("name:"))
    if again:
        options = ["--jobs", str(arguments.jobs), *([] if sys.stderr.isatty() else ["--quiet"])]
        subprocess.run([arguments.slimsim, "run", scenario, "--output", output, *options], check=True, stdout=subprocess.DEVNULL)
    path = output / f"{name}.h5"
    return Trace(path) if path.exists() else None


def cell_of(row):
    return row["model"], row["data.lengths"], row["data.context"]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def draw(rows):
    """Tokens/s/GPU of each system in each cell, the speed-up over best-fit behind it."""
    cells = [cell for cell in CELLS if any(cell_of(row) == cell for row in rows)]
    labels = list(dict.fromkeys(row["system"] for row in rows))
    columns = min(3, len(cells))
    lines = -(-len(cells) // columns)
    figure, panels = pyplot.subplots(lines, columns, figsize=(2.7 * columns, 0.55 + 0.19 * len(labels) * lines), sharey=True,
                                     squeeze=False, layout="constrained")
    for axes in panels.flat[len(cells):]:
        axes.set_visible(False)
    for cell, axes in zip(cells, panels.flat):
        for row in (row for row in rows if cell_of(row) == cell):
            number = labels.index(row["system"])
            axes.barh(number, row["tokens_per_s_per_gpu"], 0.72, color=COLOURS[row["system"] == "slimpack"],
                      xerr=row["interval"], hatch=None if row["fits"] else "////", edgecolor="white", linewidth=0,
                      error_kw={"linewidth": 0.7, "capsize": 1.5})
            axes.text(row["tokens_per_s_per_gpu"] + row["interval"], number, f" {row['speed_up']:.2f}×", va="center", fontsize=6)
        axes.set_title(f"{MODELS[cell[0]]}, {DATA_SETS[cell[1]]}, {ki(cell[2])}")
        axes.set_yticks(range(len(labels)), labels)
        axes.set_xlabel("tokens/s/GPU")
        axes.margins(x=0.25)
        style(axes, grid="x")
    panels[0][0].invert_yaxis()
    if not all(row["fits"] for row in rows):
        legend_outside(figure, [pyplot.Rectangle((0, 0), 1, 1, facecolor="#9A9A9A", edgecolor="white", hatch="////",
                                                 label="does not fit in memory")], 1)
    return figure


def speeds(rows):
    """tokens/s/GPU and speed-up of each system, a column per cell."""
    cells = [cell for cell in CELLS if any(cell_of(row) == cell for row in rows)]
    at = {(row["system"], cell_of(row)): row for row in rows}
    lines = []
    for label in dict.fromkeys(row["system"] for row in rows):
        line = [label]
        for cell in cells:
            row = at.get((label, cell))
            line.append("" if row is None else f"{row['tokens_per_s_per_gpu']:.0f} ({row['speed_up']:.2f} ± "
                        f"{row['speed_up_interval']:.2f})" if row["fits"] else "does not fit")
        lines.append(line)
    return markdown(("system", *(f"{MODELS[model]} {DATA_SETS[name]} {ki(context)}" for model, name, context in cells)), lines)


def table_one(rows):
    """What the paper ticks, measured: of each system the mean over the cells where it and best-fit fit."""
    base = {cell_of(row) for row in rows if row["system"] == BASE and row["fits"]}
    lines = []
    for label in dict.fromkeys(row["system"] for row in rows):
        of = [row for row in rows if row["system"] == label and row["fits"] and cell_of(row) in base]
        if not of:
            continue

        def mean(key):
            return sum(row[key] for row in of) / len(of)

        sent = {text: mean(f"sent_{name}_GiB") for name, text in SENT.items()}
        waits = {text: 100 * sum(row[f"exposed_{name}"] / row["iteration_s"] for row in of) / len(of)
                 for name, text in EXPOSED.items()}
        lines.append((label, len(of), f"{geometric_mean([row['speed_up'] for row in of]):.2f}",
                      f"{geometric_mean([row['peak_of_best_fit'] for row in of]):.2f}",
                      f"{sum(sent.values()):.0f} ({largest(sent, '.0f')})", f"{sum(waits.values()):.1f} ({largest(waits, '.1f')})",
                      f"{mean('token_delay'):.2f}", f"{mean('dp_imbalance'):.2f}", f"{mean('forward_imbalance'):.2f}",
                      f"{mean('backward_imbalance'):.2f}", f"{mean('backward_imbalance') / mean('forward_imbalance'):.3f}"))
    return markdown(("system", "cells", "speed-up", "peak memory over best-fit's", "sent [GiB]", "exposed [% of time]",
                     "delay of a token [iterations]", "DP ranks", "units, forward", "units, backward", "backward / forward"),
                    lines)


def largest(parts, form):
    """The two largest of named values, by name."""
    return ", ".join(f"{name} {value:{form}}" for name, value in sorted(parts.items(), key=lambda part: -part[1])[:2])


def plans(rows):
    cells = [cell for cell in CELLS if any(cell_of(row) == cell for row in rows)]
    at = {(row["system"], cell_of(row)): row for row in rows}
    return markdown(("system", *(f"{MODELS[model]} {DATA_SETS[name]} {ki(context)}" for model, name, context in cells)),
                    [(label, *(plan(at[label, cell]) if (label, cell) in at else "" for cell in cells))
                     for label in dict.fromkeys(row["system"] for row in rows)])


def compared(tables):
    """Of each printed value: what it is about, and the rows of our system and baseline at each point (None: not run)."""
    for scenario, keys, system, column, printed in HEADLINES:
        rows = [row for row in tables.get(scenario, []) if all(row[key] == value for key, value in keys.items())]
        ours = [row for row in rows if row["system"].startswith(system)]
        if not ours:
            yield scenario, system, column, printed, None, None
        for row in ours:
            for base in rows:
                if base["point"] == row["point"] and base["system"].startswith("baseline"):
                    yield scenario, system, column, printed, row, base


def headlines(tables):
    """Printed beside predicted: a line per point that a printed value is about and baseline."""
    lines = []
    for scenario, system, column, printed, row, base in compared(tables):
        if row is None:
            lines.append((system, scenario, "", printed, "not run", "", ""))
            continue
        value = (f"{row['speed_up'] / base['speed_up']:.2f}x" if column == "speed_up" else f"{100 * row['mfu']:.0f}% MFU, "
                 f"{100 * row['hfu']:.0f}% HFU")
        interval = f" ± {row['speed_up_interval']:.2f}" if column == "speed_up" and base["system"] == "baseline" else ""
        lines.append((row["system"], row["point"], base["system"], printed, value + interval, *map(fitting_plan, (base, row))))
    return markdown(("system", "point", "over", "printed", "predicted", "plan of the baseline", "plan of the system"), lines)


def gains(tables, system, experiment):
    """The range of what is predicted where both fit, as text."""
    values = [row["speed_up"] / base["speed_up"] for scenario, name, column, _, row, base in compared(tables)
              if name == system and column == "speed_up" and (scenario in EXPERIMENTS) == experiment
              and row is not None and row["fits"] and base["fits"]]
    return f"{min(values):.2f}x to {max(values):.2f}x" if values else ""


def reasons(tables):
    """Of each system: what is printed, the ranges of what is predicted for its own test bed and in experiments, and why."""
    return markdown(("system", "printed", "predicted", "in experiments", "why they differ, as far as experiments tell"),
                    [(system, ", ".join(dict.fromkeys(line[4] for line in HEADLINES if line[2] == system)),
                      gains(tables, system, False), gains(tables, system, True), reason) for system, reason in REASONS.items()])


def fitting_plan(row):
    return plan(row) + ("" if row["fits"] else " (does not fit)")


def page(rows, tables):
    missing = [f"{MODELS[model]} {DATA_SETS[name]} {ki(context)}" for model, name, context in CELLS
               if not any(cell_of(row) == (model, name, context) for row in rows)]
    missing += [f"headline {name}" for name in dict.fromkeys(line[0] for line in HEADLINES) if name not in tables]
    return "\n\n".join((
        "# The rivals, simulated",
        "Written by `analysis/rivals.py` from `scenarios/rivals.yaml` and `scenarios/headlines/`; nothing is tuned to meet a "
        "paper. Every system has the fastest plan of its own space (`plan: auto`), the same batches, and the critical-path "
        "engine: transfers do not share links. Systems that form groups of ranks as they go form them in no time: no paper "
        "that we hold says how long it takes.",
        "## Throughput", "tokens/s/GPU, in brackets the speed-up over best-fit with its 95% interval over 20 iterations.",
        speeds(rows),
        "flexsp's gathers (ZeRO-3) hide behind its passes more completely here than in published runs of FSDP with little work "
        "for each gather ([errors by source](model.md#errors-by-source)), and no engine sees them meet other traffic: its lead "
        "is an upper bound.",
        "## The SlimPack paper's Table 1, measured",
        "The paper ticks these properties; here they are means over the cells above in which the system and best-fit fit "
        "(speed-up and memory: geometric means). Sent: payload of all GPUs in an iteration, hidden or not, and its two "
        "largest purposes. Exposed: collectives that nothing hides, of all GPUs' time; sends between stages count as bubbles. "
        "Imbalance is max/mean of seconds of passes: of the ranks of pipelines side by side, and of a pipeline's units on its "
        "first stage, forward and backward; pipelines of one unit do not count.",
        table_one(rows),
        "## Plans", "dynapipe chooses for itself what it recomputes, unit by unit.", plans(rows),
        "## Each system on its own test bed",
        "As far as published; what is not stands in the scenario's first lines.", reasons(tables),
        "Point by point, experiments among them: one assumption differs (flash3: a faster attention kernel).",
        headlines(tables),
        "## Not run", ", ".join(missing) or "Nothing.")) + "\n"


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slimsim", default=TOP / "build/release/slimsim", type=pathlib.Path, metavar="FILE", help="the program")
    parser.add_argument("--scenario", default=TOP / "scenarios/rivals.yaml", type=pathlib.Path, metavar="FILE",
                        help="in place of scenarios/rivals.yaml: a part of it (exclude:)")
    parser.add_argument("--output", default="results/rivals", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--page", default=TOP / "docs/rivals.md", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--headlines", action="store_true", help="run scenarios/headlines/ alone, draw of the cells what is there")
    parser.add_argument("--no-run", dest="run", action="store_false", help="draw what is there")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="points of a sweep side by side")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    pyplot.rcParams.update({"font.size": 7.5, "axes.titlesize": 8, "axes.labelsize": 8})
    try:
        trace = run(arguments, arguments.scenario, arguments.run and not arguments.headlines)
        rows = rows_of(trace, BASE) if trace else []
        tables = {}
        for name in dict.fromkeys(line[0] for line in HEADLINES):
            trace = run(arguments, TOP / "scenarios/headlines" / f"{name}.yaml", arguments.run)
            if trace:
                tables[name] = rows_of(trace, "baseline")
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"rivals.py: {error}", file=sys.stderr)
        return 1
    if rows:
        save(draw(rows), [arguments.output / "rivals.png", arguments.output / "rivals.svg"])
        write_table(arguments.output / "cells.csv", rows)
    arguments.page.write_text(page(rows, tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

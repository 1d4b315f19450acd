# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of the paper about lengths and what units hold: analysis/paper.py draws them."""
from common import COLOURS, GREY, PASSES, ki, numpy, pyplot, shade, style, unit_key
from paper_schedules import WIDTH
from slimsim.plot import histogram as lengths
from slimsim.plot.style import MUTED

DATA_SETS = {"github": "GitHub", "commoncrawl": "Common Crawl", "wikipedia-quantiles": "Wikipedia"}
PFLOP = 1e15
FACTORS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # that SlimPack tries: src/system/slimpack.h


def distributions(simulator):
    """lengths of the documents of the three data sets"""
    traces = {name: simulator.run("lengths", f"lengths-{name}", data__lengths=name) for name in DATA_SETS}
    sources = [lengths.source_of(trace)._replace(name=DATA_SETS[name]) for name, trace in traces.items()]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(WIDTH, 2.6), layout="constrained")
    lengths.draw_histogram(left, sources)
    lengths.draw_cumulative(right, sources)
    handles = [pyplot.Line2D([], [], color=colour, label=source.name) for source, colour in zip(sources, COLOURS)]
    right.legend(handles=handles, loc="lower right", frameon=False)
    rows = []
    for source in sources:
        for end, *share in zip(lengths.BUCKET_ENDS, *lengths.shares(source).values()):
            rows.append({"data_set": source.name, "tokens_up_to": int(end),
                         **dict(zip(("samples", "tokens", "forward_flop"), share))})
    return figure, rows


def lead_tasks(trace, number):
    """The passes of the GPU that leads stage 0 of pipeline 0."""
    tasks = trace.rows("tasks", number, trace.first_iteration())
    return tasks[(tasks["pipeline"] == 0) & (tasks["stage"] == 0) & (tasks["context"] == 0) & (tasks["tensor"] == 0)]


def unit_table(trace, number):
    """A row per slice of pipeline 0's units, with the time of its unit's pass on stage 0."""
    units = trace.rows("micro_batches", number, trace.first_iteration())
    seconds = {key: finish_s - start_s for key, start_s, finish_s in trace.passes(lead_tasks(trace, number))}
    rows = []
    for row in units[units["pipeline"] == 0]:
        rows.append({"system": trace.labels[number], "pass": PASSES[row["direction"]], "micro_batch": int(row["micro_batch"]),
                     "formation": trace.name("micro_batches", "formation", row["formation"]), "sample": f"S{row['sample'] + 1}",
                     "begin": int(row["begin"]), "end": int(row["end"]), "flop": row["flop"],
                     "unit_time_s": seconds[unit_key(row)]})
    return rows


def unit_sums(rows, column):
    """{unit: sum} of one pass."""
    sums = {}
    for row in rows:
        sums[row["micro_batch"]] = sums.get(row["micro_batch"], 0) + row[column]
    return sums


def draw_units(axes, rows):
    """FLOPs of each unit of one pass, stacked by sample; below it, how it was formed."""
    below, top = {}, max(unit_sums(rows, "flop").values()) / PFLOP
    for row in rows:
        sample, height = int(row["sample"][1:]) - 1, row["flop"] / PFLOP
        bottom = below.get(row["micro_batch"], 0)
        colour = MUTED[sample % len(MUTED)]
        axes.bar(row["micro_batch"], height, 0.8, bottom, color=colour, edgecolor="white", linewidth=0.6)
        if height > 0.05 * top:
            dark = sum(int(colour[i:i + 2], 16) for i in (1, 3, 5)) < 380
            axes.text(row["micro_batch"], bottom + height / 2, row["sample"], ha="center", va="center", fontsize=6.5,
                      color="white" if dark else "black")
        below[row["micro_batch"]] = bottom + height
    axes.set_xticks(list(below), [f"{unit + 1}" for unit in below])
    axes.set_title(f"{rows[0]['system']}, {rows[0]['pass']}", loc="left")
    axes.set_xlabel("MicroPack")
    style(axes)


def passes_of(rows):
    return [[row for row in rows if row["pass"] == name] for name in PASSES]


def asymmetry(simulator):
    """packs of equal forward FLOPs whose backward passes differ; slices cut anew do not"""
    trace = simulator.run("asymmetry")
    tables = [unit_table(trace, number) for number in range(2)]
    figure, panels = pyplot.subplots(1, 4, figsize=(WIDTH, 2.4), layout="constrained")
    for axes, rows in zip(panels, [rows for table in tables for rows in passes_of(table)]):
        draw_units(axes, rows)
        sums = unit_sums(rows, "flop")
        axes.set_title(f"{rows[0]['system']}, {rows[0]['pass']}\nheaviest / lightest "
                       f"{max(sums.values()) / min(sums.values()):.3f}", loc="left")
    panels[0].set_ylabel("PFLOP")
    return figure, tables[0] + tables[1]


def formation(simulator):
    """S1 to S9 in five MicroPacks: slim, mix, pack"""
    rows = unit_table(simulator.run("formation"), 0)
    figure, panels = pyplot.subplots(1, 2, figsize=(WIDTH, 2.6), layout="constrained")
    for axes, of_pass in zip(panels, passes_of(rows)):
        draw_units(axes, of_pass)
        kinds = {row["micro_batch"]: row["formation"] for row in of_pass}
        axes.set_xticks(list(kinds), [f"{unit + 1}\n{kind}" for unit, kind in kinds.items()])
        axes.set_ylabel("PFLOP")
    return figure, rows


def unit_size(simulator):
    """FLOPs of a MicroPack, bubbles and time against the factor i (m = i x PP)"""
    trace = simulator.run("unit-size")
    rows = []
    for number, label in enumerate(trace.labels):
        summary = trace.rows("summary", number)[0]
        units = trace.rows("micro_batches", number)
        flop = units["flop"][units["direction"] == trace.index("micro_batches", "direction", "forward")].sum()
        rows.append({"i": int(label), "micro_batches": int(label) * int(summary["pp"]), "tau_flop":
                     flop / (int(label) * int(summary["pp"])), "bubble_fraction": summary["bubble_fraction"],
                     "time_s": summary["time_mean_s"], "peak_bytes": summary["peak_bytes"], "fits": int(summary["fits"])})
    figure, panels = pyplot.subplots(1, 3, figsize=(WIDTH, 2.4), layout="constrained")
    columns = (("tau_flop", PFLOP, "forward FLOPs of a MicroPack [PFLOP]"), ("bubble_fraction", 0.01, "bubbles [%]"),
               ("time_s", 1, "iteration time [s]"))
    for axes, (column, unit, label) in zip(panels, columns):
        x, y = [row["i"] for row in rows], [row[column] / unit for row in rows]
        axes.plot(x, y, color=GREY, linewidth=1, zorder=1, label="any i")
        tried = [n for n, i in enumerate(x) if i in FACTORS]
        for fits, face, name in ((1, COLOURS[1], "SlimPack tries it"), (0, "white", "does not fit")):
            of_kind = [n for n in tried if rows[n]["fits"] == fits]
            if of_kind:
                axes.scatter([x[n] for n in of_kind], [y[n] for n in of_kind], s=14, facecolor=face,
                             edgecolor=COLOURS[1], zorder=2, label=name)
        axes.set_xlabel("i = m / PP")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        style(axes)
    panels[0].legend(frameon=False)
    summary = trace.rows("summary", 0)[0]
    figure.suptitle(f"slimpack, {trace.setting()}; TP{summary['tp']} PP{summary['pp']} DP{summary['dp']}", fontsize=7.5)
    return figure, rows


def unit_times(trace, number, direction):
    """Seconds of the passes of one device, as in the paper: stage 0 of pipeline 0."""
    passes = trace.passes(lead_tasks(trace, number))
    return numpy.array([finish_s - start_s for key, start_s, finish_s in passes if PASSES[key[2]] == direction])


def unit_flop(trace, number, direction):
    """FLOPs of the units of the same device that hold anything."""
    rows = [row for row in unit_table(trace, number) if row["pass"] == direction]
    return list(unit_sums(rows, "flop").values())


def violins(name):
    def draw(simulator):
        trace = simulator.run("unit-times", f"unit-times-{name}", data__lengths=name)
        figure, axes = pyplot.subplots(figsize=(WIDTH / 2, 2.6), layout="constrained")
        rows = []
        for place, (direction, number) in enumerate((p, n) for p in PASSES for n in range(len(trace.labels))):
            seconds = unit_times(trace, number, direction)
            colour = shade(COLOURS[number], "white", 0.35)
            parts = axes.violinplot(seconds, [place], widths=0.85, showextrema=False, quantiles=[0.25, 0.5, 0.75])
            parts["bodies"][0].set(facecolor=colour, alpha=1, edgecolor="none")
            parts["cquantiles"].set(color="black", linewidth=0.8)
            p5, median, p95 = numpy.percentile(seconds, [5, 50, 95])
            flop_p5, flop_p95 = numpy.percentile(unit_flop(trace, number, direction), [5, 95])
            rows.append({"data_set": DATA_SETS[name], "system": trace.labels[number], "pass": direction,
                         "micro_batches": len(seconds), "shortest_s": seconds.min(), "p5_s": p5, "median_s": median, "p95_s": p95,
                         "longest_s": seconds.max(), "p95_over_p5": p95 / p5,
                         "flop_p95_over_p5": flop_p95 / flop_p5})
        axes.set_xticks(range(len(rows)), [f"{row['system']}\n{row['pass']}" for row in rows])
        axes.set_xlabel("lines: quartiles")
        axes.set_ylabel("time of a pass on stage 0 [s]")
        axes.set_title(f"{DATA_SETS[name]}, {trace.text('model')}, context {ki(trace.attributes['context'])}")
        axes.set_ylim(bottom=0)
        style(axes)
        return figure, rows

    draw.__doc__ = f"times of forward and backward units on {DATA_SETS[name]}, best-fit against SlimPack"
    return draw


FIGURES = {"lengths": distributions, "asymmetry": asymmetry, "formation": formation, "unit-size": unit_size,
           **{f"unit-times-{name}": violins(name) for name in DATA_SETS}}

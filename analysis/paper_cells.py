# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures of the paper about throughput, memory and scale: analysis/paper.py draws them."""
import math

from common import COLOURS, GIB, GREY, KI, LIMIT_COLOUR, Patch, ki, legend_outside, numpy, pyplot, slimsim, style, text_of
from paper_schedules import WIDTH
from paper_units import DATA_SETS

MODELS = {"llama-7b": "7B", "llama-13b": "13B", "llama-70b": "70B", "llama-150b": "150B"}
BATCHES = (512, 1024, 2048)
CPU_MINUTES = {512: "4 to 6", 1024: "8 to 10", 2048: "12 to 14"}  # that the cells of a batch took, on the critical path
SPACES = ("free", "megatron", "low-tp")
SIMGRID_CELLS = (("megatron", 512),)  # plan spaces and batches whose cells are run on SimGrid, too
FLOP_SPREADS = ("forward_flop_spread", "backward_flop_spread", "forward_own_flop_spread", "backward_own_flop_spread")
SPREADS = (*FLOP_SPREADS, "forward_time_spread", "backward_time_spread")
ITERATION_KINDS = {"plain": "all pipelines sliced and cut anew, no merged sample",
                   "merged": "the same, with merged samples",
                   "uncut": "a pipeline unsliced, or its backward not cut anew"}
CLASSES = {"states": "weights, gradients, optimizer", "activations": "activations", "kv": "keys and values",
           "kv_gradients": "gradients of keys and values", "workspace": "workspace",
           "communication": "buffers of exchanged attention", "libraries": "libraries"}
WHISKERS = {"linewidth": 0.7, "capsize": 1.5}
MISFIT = Patch(facecolor=GREY, edgecolor="white", hatch="////", label="does not fit in memory")


def t_quantile(n):
    """The quantile of Student's t for a 95% interval from n values: P(|T| <= t) of Abramowitz and Stegun 26.7.3 (an odd number of degrees
    of freedom) and 26.7.4 (even), solved by bisection."""
    degrees, odd, low, high = n - 1, (n - 1) % 2, 0.0, 13.0
    while high - low > 1e-12:
        t = (low + high) / 2
        angle = math.atan(t / math.sqrt(degrees))
        term, total = math.cos(angle) ** odd, 0.0
        for power in range(odd, degrees - 1, 2):
            total, term = total + term, term * math.cos(angle) ** 2 * (power + 1) / (power + 2)
        inside = 2 / math.pi * (angle + math.sin(angle) * total) if odd else math.sin(angle) * total
        low, high = (t, high) if inside < 0.95 else (low, t)
    return (low + high) / 2


def ratio(above, below):
    """sum(above) / sum(below) of paired values, and the half width of its 95% confidence interval (delta method)."""
    quotient, n = above.sum() / below.sum(), len(below)
    if n < 2:
        return quotient, 0.0
    error = numpy.std(above - quotient * below, ddof=1) / below.mean() / n**0.5
    return quotient, t_quantile(n) * error


def speed_up_of(base, measured):
    """Model FLOPs a second over those of the iterations `base` of the same batches, and the half width of its 95%
    confidence interval: where no sample waits for another iteration, base's time over measured's."""
    rate = measured["model_flop"].sum() / measured["time_s"].sum()
    quotient, n = rate / (base["model_flop"].sum() / base["time_s"].sum()), len(measured["time_s"])
    if n < 2:
        return quotient, 0.0

    def share(rows, column):
        return rows[column] / rows[column].mean()

    spread = (share(measured, "model_flop") - share(measured, "time_s") - share(base, "model_flop") + share(base, "time_s"))
    return quotient, t_quantile(n) * quotient * numpy.std(spread, ddof=1) / n**0.5


def read_points(trace):
    """The points of a sweep: a dict each, with its swept keys and {label: (row of summary, measured rows of iterations)}."""
    summary, iterations = trace.file["summary"][:], trace.file["iterations"][:]
    names = list(summary.dtype.names)
    swept = [name for name in names[:names.index("system")] if name != "point"]
    points = {}
    for row in summary:
        point = points.setdefault(int(row["point"]), {
            "keys": {name: text_of(row[name]) if summary.dtype[name].kind == "S" else row[name].item() for name in swept},
            "systems": {}})
        of_row = (iterations["point"] == row["point"]) & (iterations["system"] == row["system"])
        measured = iterations[of_row & (iterations["measured"] == 1)]
        point["systems"][trace.labels[row["system"]]] = (row, measured)
    return list(points.values())


def mean_of(values):
    """The mean of the values that are not NaN (1 if there are none), and their number."""
    values = values[~numpy.isnan(values)]
    return values.mean() if len(values) else 1.0, len(values)


def units_of(measured):
    """How units spread (p95/p5 within a pipeline, mean over iterations), what SlimPack did (shares of the pipelines that
    are sliced and cut anew, merged samples an iteration), and how far FLOPs spread in the iterations of each kind."""
    def share(column):
        return measured[column].sum() / max(measured["pipelines"].sum(), 1)
    row = {**{name: mean_of(measured[name])[0] for name in SPREADS}, "sliced": share("sliced_pipelines"),
           "asymmetric": share("asymmetric_pipelines"), "merged_samples": measured["merged_samples"].mean()}
    plain = ((measured["sliced_pipelines"] == measured["pipelines"]) &
             (measured["asymmetric_pipelines"] == measured["pipelines"]))
    merged = measured["merged_samples"] > 0
    for kind, of_kind in zip(ITERATION_KINDS, (plain & ~merged, plain & merged, ~plain)):
        row[f"{kind}_iterations"] = int(of_kind.sum())
        for name in FLOP_SPREADS:
            row[f"{kind}_{name}"], row[f"{kind}_{name}_iterations"] = mean_of(measured[name][of_kind])
    return row


def system_row(trace, label, row, measured, base):
    """Plan and results of one system; the speed-up is against the iterations `base` of the same batches."""
    rate, error = ratio(measured["tokens"] / row["gpus"], measured["time_s"])
    speed_up, speed_up_error = speed_up_of(base, measured)
    return {"system": label, **{name: int(row[name]) for name in ("gpus", "tp", "pp", "cp", "dp", "vpp")},
            **{name: trace.name("summary", name, row[name]) for name in ("sharding", "recompute")}, "offload": row["offload"],
            "tokens_per_s_per_gpu": rate, "interval": error, "speed_up": speed_up, "speed_up_interval": speed_up_error,
            "critical_path_s": row["critical_path_mean_s"], "simgrid_s": row["simgrid_mean_s"],
            **units_of(measured), "mfu": row["mfu"], "bubble_fraction": row["bubble_fraction"], "peak_GiB": row["peak_bytes"] / GIB,
            "fits": int(row["fits"])}


def cell_rows(trace, base_label="best-fit"):
    """A row per point and system of a sweep."""
    rows = []
    for point in read_points(trace):
        base = point["systems"].get(base_label, next(iter(point["systems"].values())))[1]
        for label, (row, measured) in point["systems"].items():
            rows.append({**point["keys"], **system_row(trace, label, row, measured, base)})
    return rows


def plan_text(row):
    """'TP8 PP4 full'"""
    return f"TP{row['tp']} PP{row['pp']}" + (f" {row['recompute']}" if row["recompute"] != "none" else "")


def draw_bars(axes, rows, labels):
    """Throughput by context, a bar per system, the speed-up above the later ones."""
    contexts = sorted({row["data.context"] for row in rows})
    for number, label in enumerate(labels):
        of_label = {row["data.context"]: row for row in rows if row["system"] == label}
        for place, row in ((contexts.index(context), row) for context, row in of_label.items()):
            x, height = place + (number - (len(labels) - 1) / 2) * 0.38, row["tokens_per_s_per_gpu"]
            axes.bar(x, height, 0.36, color=COLOURS[number], yerr=row["interval"], error_kw=WHISKERS, edgecolor="white",
                     linewidth=0, hatch=None if row["fits"] else MISFIT.get_hatch())
            if number > 0:
                axes.annotate(f"{row['speed_up']:.2f}×", (x, height + row["interval"]), (0, 1.5), ha="center", va="bottom",
                              textcoords="offset points", fontsize=6.5)
    axes.set_xticks(range(len(contexts)), [ki(context) for context in contexts])
    axes.margins(y=0.2)
    style(axes)


def draw_throughput(rows, title):
    labels = list(dict.fromkeys(row["system"] for row in rows))
    models = [name for name in MODELS if any(row["model"] == name for row in rows)]
    sets = [name for name in DATA_SETS if any(row["data.lengths"] == name for row in rows)]
    figure, panels = pyplot.subplots(len(models), len(sets), figsize=(WIDTH, 0.5 + 1.45 * len(models)), squeeze=False,
                                     layout="constrained")
    for line, model in zip(panels, models):
        for axes, name in zip(line, sets):
            of_panel = [row for row in rows if row["model"] == model and row["data.lengths"] == name]
            if of_panel:
                draw_bars(axes, of_panel, labels)
        line[0].set_ylabel(f"{MODELS[model]}\ntokens/s/GPU")
    for axes, name in zip(panels[0], sets):
        axes.set_title(DATA_SETS[name])
    for axes in panels[-1]:
        axes.set_xlabel("context [tokens]")
    handles = [Patch(color=COLOURS[number], label=label) for number, label in enumerate(labels)]
    if not all(row["fits"] for row in rows):
        handles.append(MISFIT)
    legend_outside(figure, handles, len(handles), top=True, title=title)
    return figure


def cells_name(space, batch, engine="critical-path"):
    return f"throughput-{space}-{batch}" + ("" if engine == "critical-path" else f"-{engine}")


def throughput(space, batch, engine="critical-path"):
    def draw(simulator):
        trace = simulator.sweep("throughput", cells_name(space, batch, engine), data__global_batch=batch,
                                plan_space__name=space, engine=engine)
        rows = [{"plan_space": space, "global_batch": batch, **row} for row in cell_rows(trace)]
        title = f"{trace.setting()}, plan space {space}, engine {engine}; whiskers: 95% interval, above: speed-up over best-fit"
        return draw_throughput(rows, title), rows

    minutes = CPU_MINUTES[batch] if engine == "critical-path" else "21"
    draw.__doc__ = (f"4 models x 3 data sets x 3 contexts, {batch} documents, plan space {space}, engine {engine}: "
                    f"{minutes} CPU minutes")
    return draw


def ablation(simulator):
    """what each part of SlimPack gives, one added at a time"""
    trace = simulator.sweep("ablation")
    rows = cell_rows(trace)
    contexts = sorted({row["data.context"] for row in rows})
    labels = list(dict.fromkeys(row["system"] for row in rows))
    figure, panels = pyplot.subplots(1, len(contexts), figsize=(WIDTH, 2.55), sharey=True, layout="constrained",
                                     squeeze=False)
    for axes, context in zip(panels[0], contexts):
        of_context = {row["system"]: row for row in rows if row["data.context"] == context}
        speeds = [of_context[label]["speed_up"] for label in labels]
        errors = [of_context[label]["speed_up_interval"] for label in labels]
        axes.barh(range(len(labels)), speeds, 0.7, xerr=errors, color=[COLOURS[0]] + [COLOURS[1]] * (len(labels) - 1),
                  error_kw=WHISKERS)
        for place, (speed, error) in enumerate(zip(speeds, errors)):
            axes.text(speed + error, place, f" {speed:.2f}×", va="center", fontsize=6.5)
        axes.set_yticks(range(len(labels)), [labels[0]] + [f"+ {label}" for label in labels[1:]])
        axes.set_title(f"context {ki(context)}")
        axes.set_xlabel("speed-up over best-fit")
        axes.margins(x=0.22)
        style(axes, grid="x")
    panels[0][0].invert_yaxis()
    figure.suptitle(f"{trace.setting()}\nall with {plan_text(rows[0])}; whiskers: 95% interval over iterations", fontsize=7.5)
    return figure, rows


def same_plan(simulator):
    """speed-up of SlimPack with best-fit's own plan: models x plans x data x contexts"""
    trace = simulator.sweep("same-plan")
    rows = cell_rows(trace)
    cells = list(zip(rows[::2], rows[1::2]))  # best-fit, slimpack
    plans = list(dict.fromkeys(plan_text(row) for row in rows))
    figure, axes = pyplot.subplots(figsize=(WIDTH / 2, 2.6), layout="constrained")
    for number, ((model, name), marker) in enumerate(zip(MODELS.items(), "osD^")):
        both = [slim for base, slim in cells if slim["model"] == model and base["fits"] and slim["fits"]]
        axes.scatter([plans.index(plan_text(slim)) + 0.18 * (number - 1.5) for slim in both],
                     [slim["speed_up"] for slim in both], s=9, color=COLOURS[number], marker=marker, linewidth=0, label=name)
    axes.axhline(1, color="black", linewidth=0.6, linestyle=":")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xticks(range(len(plans)), [plan.replace(" ", "\n") for plan in plans])
    axes.set_ylabel("speed-up over best-fit")
    axes.legend(frameon=False, loc="upper left", ncol=2, columnspacing=0.8, handletextpad=0.2)
    figure.suptitle(f"{trace.setting()}; a mark: a data set and context where both fit", fontsize=7)
    style(axes)
    return figure, rows


def change_of(keys, first):
    """The swept keys of a point that differ from the first point's."""
    changed = [f"{key} = {value}" for key, value in keys.items() if value != first[key]]
    return ", ".join(changed) or "nothing"


def change_label(keys, first):
    """The same, short, with what it was before: 'tp_overlap: bulk → chunked'."""
    changed = [f"{key.removesuffix('.name').rpartition('.')[2]}: {first[key]} → {value}" for key, value in keys.items()
               if value != first[key]]
    return ", ".join(changed) or "nothing changed"


def experiments(simulator):
    """what moves the speed-up of 13B at 256K: one assumption changed at a time: 1 CPU minute"""
    trace = simulator.sweep("experiments")
    points = read_points(trace)
    rows = []
    for point in points:
        change, base = change_of(point["keys"], points[0]["keys"]), point["systems"]["best-fit"][1]
        rows += [{"change": change, **system_row(trace, label, row, measured, base)}
                 for label, (row, measured) in point["systems"].items()]
    slim = [row for row in rows if row["system"] == "slimpack"]
    figure, axes = pyplot.subplots(figsize=(WIDTH / 2, 0.85 + 0.2 * len(slim)), layout="constrained")
    axes.barh(range(len(slim)), [row["speed_up"] for row in slim], 0.7, color=COLOURS[1],
              xerr=[row["speed_up_interval"] for row in slim], error_kw=WHISKERS)
    axes.axvline(slim[0]["speed_up"], color="black", linewidth=0.6, linestyle=":")
    axes.set_yticks(range(len(slim)), [change_label(point["keys"], points[0]["keys"]) for point in points])
    axes.invert_yaxis()
    axes.set_xlabel("speed-up over best-fit")
    style(axes, grid="x")
    figure.suptitle(trace.setting(), fontsize=7)
    return figure, rows


def choice(simulator):
    """iterations of plans among which the search chooses on five of them: Common Crawl, 256K"""
    trace = simulator.sweep("choice")
    points, rows = read_points(trace), []
    figure, panels = pyplot.subplots(1, len(points), figsize=(WIDTH, 2.4), sharey=True, layout="constrained")
    for axes, point in zip(panels, points):
        first = next(iter(point["systems"].values()))[1]
        for (label, (summary, measured)), colour in zip(point["systems"].items(), COLOURS):
            row = system_row(trace, label, summary, measured, first)
            time_s = numpy.sort(measured["time_s"])
            axes.plot(range(1, len(time_s) + 1), time_s, color=colour, marker="o", markersize=3, linewidth=1,
                      label=f"{label}: {plan_text(row)}")
            rows.append({"model": point["keys"]["model"], **row, "median_s": numpy.median(time_s), "mean_s": time_s.mean(),
                         "longest_s": time_s[-1], "ring_fraction": measured["ring_s"].sum() / measured["total_s"].sum()})
        axes.set_yscale("log")
        axes.set_yticks([2, 5, 10, 20, 50, 100], [2, 5, 10, 20, 50, 100])
        axes.set_yticks([], minor=True)
        axes.set(title=MODELS[point["keys"]["model"]], xlabel="iterations, shortest first",
                 xticks=range(5, len(time_s) + 1, 5))
        axes.legend(frameon=False)
        style(axes)
    panels[0].set_ylabel("iteration time [s]")
    figure.suptitle(f"slimpack, {trace.setting()}", fontsize=7.5)
    return figure, rows


def memory(simulator):
    """peak memory of every iteration: 13B, GitHub, 16 GPUs"""
    trace = simulator.run("memory")
    figure, panels = pyplot.subplots(1, len(trace.labels), figsize=(WIDTH, 2.6), sharey=True, layout="constrained",
                                     squeeze=False)
    rows = []
    for number, (label, axes) in enumerate(zip(trace.labels, panels[0])):
        iterations = trace.rows("iterations", number)
        iterations = iterations[iterations["measured"] == 1]
        bottom = numpy.zeros(len(iterations))
        for (name, text), colour in zip(CLASSES.items(), COLOURS):
            if not trace.table("iterations")[f"{name}_bytes"].any():
                continue
            height = iterations[f"{name}_bytes"] / GIB
            axes.bar(iterations["iteration"], height, 0.8, bottom, color=colour, label=text)
            bottom += height
        limit = trace.rows("summary", number)[0]["memory_bytes"] / GIB
        axes.axhline(limit, color=LIMIT_COLOUR, linewidth=1, linestyle=(0, (5, 2)), label="limit of a GPU")
        axes.set_title(label)
        axes.set_xlabel("iteration")
        style(axes)
        rows += [{"system": label, "iteration": int(row["iteration"]), "peak_GiB": row["peak_bytes"] / GIB,
                  **{f"{name}_GiB": row[f"{name}_bytes"] / GIB for name in CLASSES}, "peak_stage": int(row["peak_stage"])}
                 for row in iterations]
    panels[0][0].set_ylabel("peak memory of a GPU [GiB]")
    figure.suptitle(trace.setting(), fontsize=7.5)
    legend_outside(figure, panels[0][0].get_legend_handles_labels()[0], 3)
    return figure, rows


def attention(simulator):
    """attention's share of the forward FLOPs of a sample that fills the context, by model"""
    contexts = [KI * 2**n for n in range(2, 9)]
    rows = []
    for model, context in ((model, context) for model in MODELS for context in contexts):
        flop = slimsim.cost(model=model, slice=f"0:{context}", layers=1)["flop"]
        rows.append({"model": model, "context": context, "attention_flop": flop["forward_attention"],
                     "layer_flop": flop["forward"], "attention_share": flop["forward_attention"] / flop["forward"],
                     "attention_to_rest": flop["forward_attention"] / (flop["forward"] - flop["forward_attention"])})
    figure, axes = pyplot.subplots(figsize=(WIDTH / 2, 2.5), layout="constrained")
    for (model, name), colour, marker in zip(MODELS.items(), COLOURS, "osD^"):
        share = [100 * row["attention_share"] for row in rows if row["model"] == model]
        axes.plot(contexts, share, color=colour, marker=marker, markersize=3.5, linewidth=1.2, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(contexts, [ki(context) for context in contexts])
    axes.set(ylim=(0, 100), xlabel="context [tokens]", ylabel="attention, share of forward FLOPs [%]")
    axes.legend(frameon=False)
    style(axes)
    return figure, rows


def scaling(simulator):
    """weak (documents grow with the GPUs) and strong (they do not) scaling to 4096 GPUs"""
    figure, panels = pyplot.subplots(1, 2, figsize=(WIDTH, 2.5), layout="constrained")
    table, traces = [], {kind: simulator.sweep(f"scaling-{kind}") for kind in ("weak", "strong")}
    for axes, (kind, trace) in zip(panels, traces.items()):
        rows = cell_rows(trace)
        table += [{"scaling": kind, **row} for row in rows]
        for label, colour, marker in zip(dict.fromkeys(row["system"] for row in rows), COLOURS, "os"):
            of_label = sorted((row for row in rows if row["system"] == label), key=lambda row: row["gpus"])
            axes.errorbar([row["gpus"] for row in of_label], [row["tokens_per_s_per_gpu"] for row in of_label],
                          [row["interval"] for row in of_label], color=colour, marker=marker, markersize=3.5,
                          linewidth=1.2, capsize=1.5, label=label)
        axes.set_xscale("log", base=2)
        gpus = sorted({row["gpus"] for row in rows})
        axes.set_xticks(gpus, gpus)
        axes.set_ylim(bottom=0)
        documents = f"{trace.shared('global_batch')} documents" if kind == "strong" else "documents grow with the GPUs"
        axes.set(title=f"{kind} scaling: {documents}", xlabel="GPUs", ylabel="tokens/s/GPU")
        style(axes)
    panels[0].legend(frameon=False, loc="lower left")
    figure.suptitle(f"{traces['weak'].setting()}; all with {plan_text(table[0])}; whiskers: 95% interval over iterations",
                    fontsize=7.5)
    return figure, table


FIGURES = {**{cells_name(space, batch): throughput(space, batch) for space in SPACES for batch in BATCHES},
           **{cells_name(*cells, "simgrid"): throughput(*cells, "simgrid") for cells in SIMGRID_CELLS},
           "ablation": ablation, "same-plan": same_plan, "experiments": experiments,
           "choice": choice, "memory": memory,
           "attention": attention, "scaling": scaling}

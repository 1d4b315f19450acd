# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads what the report of a run shows, but for the lanes: texts and numbers for report.js."""
import explain
import lengths
from common import GIB, numpy, slimsim, value_of

MEMORY_CLASSES = {"states": "weights, gradients, optimizer", "activations": "activations", "kv": "keys, values",
                  "kv_gradients": "gradients of keys, values", "workspace": "workspace", "communication": "communication",
                  "libraries": "libraries"}
EXPOSED = ("ring_s", "tensor_s", "shard_s", "sync_s", "reshard_s")
WAITING = ("warm_up_s", "imbalance_s", "cool_down_s", "dp_wait_s")
TAIL = 0.05  # share of the longest samples


def share_of(row, column):
    return float(row[column] / row["total_s"])


def compute_share(row):
    return share_of(row, "busy_s") - share_of(row, "tensor_s") - share_of(row, "shard_s")


def waiting_share(row):
    return sum(share_of(row, column) for column in WAITING)


def exposed_share(row):
    return sum(share_of(row, column) for column in EXPOSED)


def plan_text(names, row):
    """'TP8 PP4 VPP5 CP8 DP1', and behind it what is not usual, as src/simulate/plan_text.c has it."""
    degrees = [f"{key.upper()}{row[key]}" for key in ("tp", "pp", "vpp", "cp", "dp") if row[key] > 1 or key == "dp"]
    sharding, recompute = names("sharding", row["sharding"]), names("recompute", row["recompute"])
    if "schedule" in row.dtype.names and names("schedule", row["schedule"]) != "1f1b":
        degrees.append(names("schedule", row["schedule"]))
    degrees += {"zero1": [], "none": ["unsharded"]}.get(sharding, [sharding])
    degrees += [recompute] if recompute != "none" else []
    if row["offload"] > 0:
        degrees.append(f"offload {100 * row['offload']:.0f}%")
    elif any(row[column] > 0 for column in ("host_peak_bytes", "host_bytes") if column in row.dtype.names):
        degrees.append("offload")
    return " ".join(degrees)


def standings_of(trace):
    """[(number of a system, rank)], the best first; 0 does not fit."""
    summary = trace.table("summary")
    order = sorted(range(len(summary)), key=lambda i: (not summary[i]["fits"], -summary[i]["mfu"] if summary[i]["fits"] else 0, i))
    return [(number, int(summary[number]["rank"])) for number in order]


def with_interval(value, half, digits):
    return f"{value:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half > 1e-9 * value else "")


def ranking_of(trace, standings):
    """The columns of `slimsim run`. A system that does not fit has no throughput."""
    summary, rows = trace.table("summary"), []
    base = next((number for number in range(len(summary)) if summary[number]["fits"]), 0)
    for number, rank in standings:
        row = summary[number]
        time_s, ratio = row["time_mean_s"], row["mfu"] / summary[base]["mfu"]
        half = row["speed_up_interval"] if base == 0 and number > 0 else 0
        speed = [with_interval(row["tokens_per_s_per_gpu"], row["tokens_per_s_per_gpu_interval"], int(row["tokens_per_s_per_gpu"] < 100)),
                 f"{time_s:,.{2 if time_s < 10 else 1 if time_s < 100 else 0}f} s", f"{100 * row['mfu']:.0f}%",
                 f"{100 * waiting_share(row):.0f}%", f"{100 * exposed_share(row):.0f}%"]
        faster = f"{ratio:.2f}x" + (f" ± {half:.2f}" if half > 1e-9 else "")
        rows.append([str(rank) if rank else "–", trace.labels[number], *(speed if rank else ["does not fit", "", "", "", ""]),
                     f"{row['peak_bytes'] / GIB:.1f}", faster if rank else "",
                     plan_text(lambda column, value: trace.name("summary", column, value), row)])
    return {"columns": ["", "system", "tokens/s/GPU", "time", "MFU", "idle", "comm", "GiB", "speed-up", "plan, recompute, offload"],
            "rows": rows,
            "note": "idle: bubbles; comm: exposed communication; both of GPU time. GiB: peak of the fullest GPU, of "
                    f"{summary[0]['memory_bytes'] / GIB:.1f} that a plan may use. speed-up: model FLOPs a second over "
                    f"{trace.labels[base]}. ±: half of a 95% interval. Systems of one rank tie."}


def misfit_of(trace, number):
    """A sentence: why a system does not fit."""
    row = trace.table("summary")[number]
    if trace.name("summary", "misfit", row["misfit"]) == "host memory":
        need, limit, where = row["host_peak_bytes"], row["host_memory_bytes"], f"host of node {row['host_node']}"
    else:
        need, limit, where = row["peak_bytes"], row["memory_bytes"], f"stage {row['peak_stage']}"
    filled = MEMORY_CLASSES[trace.name("summary", "peak_class", row["peak_class"])]
    most = f", mostly {filled}" if where.startswith("stage") else ""
    return f"{trace.labels[number]} does not fit: {where} needs {need / GIB:,.1f} of {limit / GIB:,.1f} GiB{most}."


def verdict_of(trace, standings):
    """Sentences: who is first and why, and what does not fit."""
    return first_of(trace, standings) + [misfit_of(trace, number) for number, rank in standings if not rank]


def first_of(trace, standings):
    """Sentences: who is first, and the three factors whose product is the ratio to the next."""
    summary, labels = trace.table("summary"), trace.labels
    fitting = [(number, rank) for number, rank in standings if rank]
    if not fitting:
        return ["No system fits."]
    first = fitting[0][0]
    tied = [labels[number] for number, rank in fitting if rank == 1]
    rate = f"{summary[first]['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU"
    if len(fitting) == 1:
        return [f"{labels[first]} gives {rate}, {100 * summary[first]['mfu']:.0f}% MFU."]
    lines = [f"{', '.join(tied[:-1])} and {tied[-1]} tie for the first place." if len(tied) > 1
             else f"{labels[first]} is the fastest: {rate}, {100 * summary[first]['mfu']:.0f}% MFU."]
    other = next((number for number, rank in fitting if rank > 1), fitting[1][0])
    a, b = summary[first], summary[other]
    computing, executed = compute_share(a) / compute_share(b), (b["hfu"] / b["mfu"]) / (a["hfu"] / a["mfu"])
    kernels = (a["hfu"] / compute_share(a)) / (b["hfu"] / compute_share(b))
    lines.append(f"{labels[first]} is {a['mfu'] / b['mfu']:.2f} times as fast as {labels[other]}. This is the product of {computing:.2f} "
                 f"for the share of GPU time that computes ({100 * compute_share(a):.0f}%, not {100 * compute_share(b):.0f}%), "
                 f"{executed:.2f} for padding and recomputation, and {kernels:.2f} for the speed of kernels.")
    return lines


def head_of(trace):
    scenario = trace.text("scenario")
    keys = {key: value_of(key, scenario) for key in ("framework", "attention", "engine", "measured", "warm_up", "seed")}
    engine = "critical path" if keys["engine"] == "critical-path" else "SimGrid"
    return (f"framework {keys['framework']}, attention {keys['attention']}, {engine}; {keys['measured']} measured iteration{'s' * (keys['measured'] != '1')} after "
            f"{keys['warm_up']} of warm-up, seed {keys['seed']}; {trace.text('program')}")


def faster_of(system):
    """A sentence: the settings with which a system would be faster. "": there are none."""
    settings = [f"{setting['key']} {setting['fastest']} {100 * setting['gain']:+.1f}% (is {setting['now']})" for setting in system["faster_settings"]]
    return f"{system['label']} would be faster with one of these settings: {', '.join(settings)}." if settings else ""


def time_of(path):
    """The steps of `slimsim explain` from peak to MFU of the systems that fit, and their gains if one cost were zero."""
    try:
        explained = slimsim.explain(path, verbose=True)["systems"]
    except slimsim.Error as error:
        return {"missing": f"slimsim explain cannot run the scenario again: {error}"}
    systems = [system for system in explained if system["fits"]]
    if not systems:
        return None
    *steps, _ = (step["key"] for step in systems[0]["waterfall"])  # the last one is the MFU
    shown = [i for i in range(len(steps)) if any(abs(system["waterfall"][i]["share"]) >= explain.SMALLEST for system in systems)]
    return {"names": [systems[0]["waterfall"][i]["name"] for i in shown], "colours": [explain.COLOURS[steps[i]] for i in shown],
            "mfu_colour": explain.COLOURS["mfu"], "faster": faster_of(explained[0]),
            "free": [explain.GAIN_NAMES.get(key, key) for key in systems[0]["gain_if_free"]],
            "systems": [{"label": system["label"], "mfu": system["mfu"], "shares": [system["waterfall"][i]["share"] for i in shown],
                         "gains": list(system["gain_if_free"].values())} for system in systems]}


def memory_of(trace, standings):
    if "stages" not in trace.file or not len(trace.file["stages"]):
        return None
    rows = trace.table("stages")
    used = [name for name in MEMORY_CLASSES if rows[f"{name}_bytes"].max() >= 0.005 * GIB]
    systems = [{"label": trace.labels[number], "limit": float(trace.table("summary")[number]["memory_bytes"] / GIB),
                "stages": [[float(row[f"{name}_bytes"] / GIB) for name in used] for row in rows[rows["system"] == number]]}
               for number, _ in standings]
    return {"classes": [MEMORY_CLASSES[name] for name in used], "systems": systems}


def lengths_of(trace):
    if "lengths" not in trace.file or not len(trace.file["lengths"]):
        return None
    source = lengths.source_of(trace)
    flop = source.cost[0] * source.tokens**2 + source.cost[1] * source.tokens
    tail = max(1, round(TAIL * len(flop)))  # tokens are sorted
    shares = lengths.shares(source)
    last = int(numpy.searchsorted(lengths.BUCKET_ENDS, source.tokens.max()))
    return {"detail": source.detail, "samples": len(flop), "shares": {name: list(share[:last + 1]) for name, share in shares.items()},
            "ends": [int(end) for end in lengths.BUCKET_ENDS[:last + 1]],
            "tail": [tail / len(flop), float(source.tokens[-tail:].sum() / source.tokens.sum()), float(flop[-tail:].sum() / flop.sum()),
                     int(source.tokens[-tail])]}


def plans_of(trace):
    """The points of every search. Plans that were excluded have the bounds that excluded them."""
    if "plans" not in trace.file or not len(trace.file["plans"]):
        return None
    points = []
    for row in trace.table("plans"):
        resolved = row["time_s"] > 0
        time_s, peak = (row["time_s"], row["peak_bytes"]) if resolved else (row["bound_time_s"], row["bound_peak_bytes"])
        if time_s > 0 and peak > 0:
            points.append([int(row["system"]), float(time_s), float(peak / GIB), int(resolved), trace.name("plans", "verdict", row["verdict"]),
                           plan_text(lambda column, value: trace.name("plans", column, value), row)])
    limits = {int(number): float(row["memory_bytes"] / GIB) for number, row in enumerate(trace.table("summary"))}
    return {"labels": trace.labels, "points": points, "limit": max(limits.values())} if points else None


def outside_of(trace):
    """A sentence: in which respects no measured run tests the numbers."""
    items = trace.text("outside_measured_runs")
    return f"Outside the measured runs: {items}." if items else "The settings are within the range of the measured runs."


def content_of(trace):
    standings = standings_of(trace)
    return {"kind": "run", "name": trace.text("name"), "setting": trace.setting(), "head": head_of(trace),
            "verdict": verdict_of(trace, standings),
            "outside": outside_of(trace), "ranking": ranking_of(trace, standings), "time": time_of(trace.file.filename),
            "memory": memory_of(trace, standings), "lengths": lengths_of(trace), "plans": plans_of(trace),
            "assumptions": trace.texts("assumed"), "scenario": trace.text("scenario")}

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads what the report of a run shows, but for the lanes: texts and numbers for report.js."""
import re

from common import GIB, numpy, slimsim, text_of
from slimsim.plot import histogram as lengths
from slimsim.plot import waterfall as explain

MEMORY_CLASSES = {"states": "weights, gradients, optimizer", "activations": "activations", "kv": "keys, values",
                  "kv_gradients": "gradients of keys, values", "workspace": "workspace", "communication": "communication",
                  "libraries": "libraries"}
EXPOSED = ("ring_s", "tensor_s", "shard_s", "expert_s", "sync_s", "reshard_s")
WAITING = ("warm_up_s", "imbalance_s", "cool_down_s", "dp_wait_s")
TAIL = 0.05  # share of the longest samples
BESIDE = 3  # options of the first screen


def share_of(row, column):
    return float(row[column] / row["total_s"])


def compute_share(row):
    return share_of(row, "busy_s") - share_of(row, "tensor_s") - share_of(row, "shard_s") - share_of(row, "expert_s")


def waiting_share(row):
    return sum(share_of(row, column) for column in WAITING)


def exposed_share(row):
    return sum(share_of(row, column) for column in EXPOSED)


def ranking_of(trace):
    """The ranking of `slimsim run`, as the trace holds it."""
    columns, *rows = (line.split("\t") for line in trace.texts("ranking"))
    return {"columns": columns, "rows": rows, "note": trace.text("legend")}


def option_of(columns, row):
    """A row of the ranking in words: {name, number, beside, unit, lines}. A system that does not fit has no unit."""
    cell = dict(zip(columns, row))
    number, _, half = cell["tokens/s/GPU"].partition(" ± ")
    if not cell["time"]:
        return {"name": row[0], "number": number, "lines": [f"needs {cell['GiB']} GiB of a GPU", row[-1]]}
    lines = [f"{cell['time']} an iteration, {cell['MFU']} of the GPUs' peak (MFU)", row[-1]]
    if "tight" in cell["GiB"]:
        lines.insert(1, "fits only tightly")
    return {"name": row[0], "number": number, "beside": half and f"± {half}", "unit": "tokens/s/GPU", "lines": lines,
            "speed_up": cell.get("speed-up", "")}


def first_of(ranking, verdict):
    """The first screen: the winner's throughput in large, and the first three systems beside it."""
    base = re.search(r"^speed-up: model FLOPs a second over (.*?)(?:; |$)", ranking["note"], re.MULTILINE)
    options = [option_of(ranking["columns"], row) for row in ranking["rows"][:BESIDE]]
    best = dict(options[0], unit="tokens a second on each GPU", options=options)
    if "unit" not in options[0]:
        return best | {"title": "No system fits in memory", "unit": ""}
    label, *ties = [options[0]["name"]]
    if base:
        ranks = [row[0].strip().split(maxsplit=1) for row in ranking["rows"]]
        label, *ties = [name[1] for name in ranks if name[0] == "1"]
        for option in filter(lambda option: "unit" in option, options):
            option["lines"].insert(0, f"{option.pop('speed_up')} as fast as {base[1]}")
    lines = [f"{found[1]} with the model's error (p5 to p95)" for found in
             (re.match(re.escape(f"{label}: {best['number']} tokens/s/GPU, ") + r".*?model (.+? to .+?) \(", line) for line in verdict) if found]
    title = f"{', '.join([label, *ties[:-1]])} and {ties[-1]} tie for the first place" if ties else f"{label} is the fastest" if base else label
    return best | {"title": title, "lines": options[0]["lines"][:-1] + lines}


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
            "mfu_colour": explain.COLOURS["mfu"],
            "free": [explain.GAIN_NAMES.get(key, key) for key in systems[0]["gain_if_free"]],
            "systems": [{"label": system["label"], "mfu": system["mfu"], "shares": [system["waterfall"][i]["share"] for i in shown],
                         "gains": list(system["gain_if_free"].values())} for system in systems]}


def memory_of(trace):
    if "stages" not in trace.file or not len(trace.file["stages"]):
        return None
    rows = trace.table("stages")
    used = [name for name in MEMORY_CLASSES if rows[f"{name}_bytes"].max() >= 0.005 * GIB]
    systems = [{"label": trace.labels[number], "limit": float(trace.table("summary")[number]["memory_bytes"] / GIB),
                "stages": [[float(row[f"{name}_bytes"] / GIB) for name in used] for row in rows[rows["system"] == number]]}
               for number in trace.ranking()]
    return {"classes": [MEMORY_CLASSES[name] for name in used], "systems": systems}


def lengths_of(trace):
    if "lengths" not in trace.file or not len(trace.file["lengths"]):
        return None
    source = lengths.source_of(trace)
    flop = source.cost(source.tokens)
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
                           text_of(row["plan_text"])])
    limits = {int(number): float(row["memory_bytes"] / GIB) for number, row in enumerate(trace.table("summary"))}
    return {"labels": trace.labels, "points": points, "limit": max(limits.values())} if points else None


def content_of(trace):
    if "ranking" not in trace.file:
        raise ValueError("an earlier slimsim wrote it without its verdict: run its scenario again")
    asked, notes = trace.text("head").split("\n", 1)
    ranking, verdict = ranking_of(trace), trace.texts("verdict")
    return {"kind": "run", "first": first_of(ranking, verdict), "name": trace.text("name"), "setting": asked.partition(": ")[2], "head": notes + trace.text("program"),
            "verdict": verdict, "ranking": ranking, "time": time_of(trace.path),
            "memory": memory_of(trace), "lengths": lengths_of(trace), "plans": plans_of(trace),
            "assumptions": trace.texts("assumed"), "scenario": trace.text("scenario")}

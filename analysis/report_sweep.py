# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads what the report of a sweep shows: its rows, the points that failed, and the scenarios."""
import collections

from common import GIB, numpy, text_of
from report_run import BESIDE, compute_share, exposed_share, waiting_share

# The scenarios of all points stay out of the page if they take more.
SCENARIO_BYTES = 1 << 21


def plain(value):
    """A cell as JSON has it. No text, no number: nothing."""
    if isinstance(value, bytes):
        return text_of(value)
    number = float(value)
    return None if not numpy.isfinite(number) else int(number) if number.is_integer() else float(f"{number:.8g}")


def rows_of(trace, swept):
    columns = ["point", *swept, "system", "tokens/s/GPU", "speed-up", "time [s]", "MFU [%]", "compute [%]", "idle [%]", "comm [%]",
               "peak [GiB]", "GPUs", "plan"]
    rows = []
    for row in trace.table("summary"):
        fits = bool(row["fits"])
        speed_up = numpy.nan if row["first_exceeds_limit"] else row["speed_up"]  # over a system that cannot run
        results = [row["tokens_per_s_per_gpu"], speed_up, row["time_mean_s"], 100 * row["mfu"], 100 * compute_share(row),
                   100 * waiting_share(row), 100 * exposed_share(row)]
        plan = text_of(row["plan_text"])
        rows.append([plain(row["point"]), *(plain(row[name]) for name in swept), trace.labels[row["system"]],
                     *(plain(value) if fits else None for value in results), plain(row["peak_bytes"] / GIB), plain(row["gpus"]),
                     plan + (", does not fit" if not fits else ", fits tightly" if row["tight"] else "")])
    return columns, rows


def option_of(trace, swept, row):
    """A row of the summary in words: {name, number, beside, unit, lines}."""
    half = row["tokens_per_s_per_gpu_interval"]
    keys = ", ".join(f"{name} {plain(row[name])}" for name in swept)
    lines = [f"point {row['point']}: {keys}", f"{row['time_mean_s']:.3f} s an iteration, {100 * row['mfu']:.1f}% of the GPUs' peak (MFU)",
             text_of(row["plan_text"])]
    if len(trace.labels) > 1 and not row["first_exceeds_limit"]:
        lines.insert(1, f"{row['speed_up']:.2f}x as fast as {trace.labels[0]} there")
    return {"name": trace.labels[row["system"]], "number": f"{row['tokens_per_s_per_gpu']:,.0f}",
            "beside": f"± {half:,.0f}" if half > 1e-9 * row["tokens_per_s_per_gpu"] else "", "unit": "tokens/s/GPU", "lines": lines}


def first_of(trace, swept):
    """The first screen: the row with the most tokens/s/GPU in large, and beside it the best rows of the three best points,
    without points of equal results."""
    fitting = trace.table("summary")
    fitting = fitting[fitting["fits"] == 1]
    rows = fitting[numpy.argsort(-fitting["tokens_per_s_per_gpu"], kind="stable")]
    for columns in (["point"], ["system", "tokens_per_s_per_gpu"]):
        _, firsts = numpy.unique(rows[columns], return_index=True)
        rows = rows[numpy.sort(firsts)]
    options = [option_of(trace, swept, row) for row in rows[:BESIDE]]
    if not options:
        return {"title": "No system fits in memory at any point", "number": "does not fit", "lines": [], "options": []}
    return options[0] | {"title": f"{options[0]['name']} at point {rows[0]['point']} has the most tokens/s/GPU",
                         "unit": "tokens a second on each GPU", "options": options}


def verdict_of(trace):
    """A sentence: at how many points each system is the fastest."""
    summary, wins = trace.table("summary"), collections.Counter()
    fitting = summary[summary["fits"] == 1]
    for point in numpy.unique(fitting["point"]):
        rows = fitting[fitting["point"] == point]
        wins[trace.labels[rows["system"][numpy.argmax(rows["mfu"])]]] += 1
    if not wins or len(trace.labels) == 1:
        return []
    return ["The fastest is " + ", ".join(f"{name} at {n} point{'s' * (n > 1)}" for name, n in wins.most_common()) + "."]


def content_of(trace):
    manifest = trace.table("manifest")
    swept = list(manifest.dtype.names[1:-3])  # between point, and id, status, message
    columns, rows = rows_of(trace, swept)
    failed = [[plain(row["point"]), trace.name("manifest", "status", row["status"]), text_of(row["message"])]
              for row in manifest if trace.name("manifest", "status", row["status"]) != "done"]
    scenarios = {int(row["point"]): text_of(row["scenario"]) for row in trace.table("scenarios") if len(row["scenario"])}
    if sum(map(len, scenarios.values())) > SCENARIO_BYTES:
        scenarios = {point: text for point, text in scenarios.items() if point == min(scenarios)}
    return {"kind": "sweep", "name": trace.text("name"), "setting": trace.setting(), "first": first_of(trace, swept), "verdict": verdict_of(trace),
            "head": f"{len(manifest)} points over {', '.join(swept)}; {trace.text('program')}", "points": len(manifest), "swept": swept, "columns": columns, "rows": rows, "failed": failed, "excluded": trace.texts("excluded"),
            "scenarios": scenarios, "command": trace.text("command")}

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads what the report of a sweep shows: its rows, the points that failed, and the scenarios."""
import collections

from common import GIB, numpy, text_of
from report_run import compute_share, exposed_share, waiting_share

# The scenarios of all points stay out of the page if they take more.
SCENARIO_BYTES = 1 << 21


def plain(value):
    """A cell as JSON has it. No text, no number: nothing."""
    if isinstance(value, bytes):
        return text_of(value)
    number = float(value)
    return None if not numpy.isfinite(number) else int(number) if number.is_integer() else float(f"{number:.6g}")


def rows_of(trace, swept):
    columns = ["point", *swept, "system", "tokens/s/GPU", "speed-up", "time [s]", "MFU [%]", "compute [%]", "idle [%]", "comm [%]",
               "peak [GiB]", "GPUs", "plan"]
    rows = []
    for row in trace.table("summary"):
        fits = bool(row["fits"])
        results = [row["tokens_per_s_per_gpu"], row["speed_up"], row["time_mean_s"], 100 * row["mfu"], 100 * compute_share(row),
                   100 * waiting_share(row), 100 * exposed_share(row)]
        plan = text_of(row["plan_text"])
        rows.append([plain(row["point"]), *(plain(row[name]) for name in swept), trace.labels[row["system"]],
                     *(plain(value) if fits else None for value in results), plain(row["peak_bytes"] / GIB), plain(row["gpus"]),
                     plan + (", does not fit" if not fits else ", fits tightly" if row["tight"] else "")])
    return columns, rows


def verdict_of(trace, swept):
    """Sentences: at how many points each system is the fastest, and where the fastest row of all is."""
    summary, wins = trace.table("summary"), collections.Counter()
    fitting = summary[summary["fits"] == 1]
    if not len(fitting):
        return ["No system fits into the memory at any point."]
    for point in numpy.unique(fitting["point"]):
        rows = fitting[fitting["point"] == point]
        wins[trace.labels[rows["system"][numpy.argmax(rows["mfu"])]]] += 1
    best = fitting[numpy.argmax(fitting["tokens_per_s_per_gpu"])]
    lines = ["The fastest is " + ", ".join(f"{name} at {n} point{'s' * (n > 1)}" for name, n in wins.most_common()) + "."]
    keys = ", ".join(f"{name} {plain(best[name])}" for name in swept)
    lines.append(f"{trace.labels[best['system']]} at point {best['point']} ({keys}) has the most tokens/s/GPU: "
                 f"{best['tokens_per_s_per_gpu']:,.0f}.")
    return lines if len(trace.labels) > 1 else lines[1:]


def content_of(trace):
    manifest = trace.table("manifest")
    swept = list(manifest.dtype.names[1:-3])  # between point, and id, status, message
    columns, rows = rows_of(trace, swept)
    failed = [[plain(row["point"]), trace.name("manifest", "status", row["status"]), text_of(row["message"])]
              for row in manifest if trace.name("manifest", "status", row["status"]) != "done"]
    scenarios = {int(row["point"]): text_of(row["scenario"]) for row in trace.table("scenarios") if len(row["scenario"])}
    if sum(map(len, scenarios.values())) > SCENARIO_BYTES:
        scenarios = {point: text for point, text in scenarios.items() if point == min(scenarios)}
    return {"kind": "sweep", "name": trace.text("name"), "setting": trace.setting(), "verdict": verdict_of(trace, swept),
            "head": f"{len(manifest)} points over {', '.join(swept)}; {trace.text('program')}", "points": len(manifest), "swept": swept, "columns": columns, "rows": rows, "failed": failed, "excluded": trace.texts("excluded"),
            "scenarios": scenarios, "command": trace.text("command")}

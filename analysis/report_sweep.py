# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads what the report of a sweep shows: its rows, the points that failed, and the scenarios."""
from common import GIB, numpy, text_of
from report_run import compute_share, exposed_share, plan_text, waiting_share

# The scenarios of all points stay out of the page if they take more.
SCENARIO_BYTES = 1 << 21


def plain(value):
    """A cell as JSON has it. No text, no number: nothing."""
    if isinstance(value, bytes):
        return text_of(value)
    number = float(value)
    return None if not numpy.isfinite(number) else int(number) if number.is_integer() else float(f"{number:.6g}")


def rows_of(trace, swept):
    columns = ["point", *swept, "system", "tokens/s/GPU", "speed-up", "time [s]", "MFU [%]", "compute [%]", "wait [%]", "comm [%]",
               "peak [GiB]", "GPUs", "plan"]
    rows = []
    for row in trace.table("summary"):
        fits = bool(row["fits"])
        results = [row["tokens_per_s_per_gpu"], row["speed_up"], row["time_mean_s"], 100 * row["mfu"], 100 * compute_share(row),
                   100 * waiting_share(row), 100 * exposed_share(row)]
        plan = plan_text(lambda column, value: trace.name("summary", column, value), row)
        rows.append([plain(row["point"]), *(plain(row[name]) for name in swept), trace.labels[row["system"]],
                     *(plain(value) if fits else None for value in results), plain(row["peak_bytes"] / GIB), plain(row["gpus"]),
                     plan if fits else f"{plan}, does not fit"])
    return columns, rows


def content_of(trace):
    manifest = trace.table("manifest")
    swept = list(manifest.dtype.names[1:-3])  # between point, and id, status, message
    columns, rows = rows_of(trace, swept)
    failed = [[plain(row["point"]), trace.name("manifest", "status", row["status"]), text_of(row["message"])]
              for row in manifest if trace.name("manifest", "status", row["status"]) != "ok"]
    scenarios = {int(row["point"]): text_of(row["scenario"]) for row in trace.table("scenarios") if len(row["scenario"])}
    if sum(map(len, scenarios.values())) > SCENARIO_BYTES:
        scenarios = {point: text for point, text in scenarios.items() if point == min(scenarios)}
    excluded = [text_of(note) for note in trace.file["excluded"][:]] if "excluded" in trace.file else []
    return {"kind": "sweep", "name": trace.text("name"), "setting": trace.setting(), "head": trace.text("program"),
            "points": len(manifest), "swept": swept, "columns": columns, "rows": rows, "failed": failed, "excluded": excluded,
            "scenarios": scenarios, "command": trace.text("command")}

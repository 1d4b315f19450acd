#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit the values of `experts:` of model/gpu/h100-sxm.yaml to rows of model/validation.

It prints each value as fitted and as in the file, with the mean errors of fitted rows and of rows held out:

    fit_experts.py

Rows of grouped GEMMs, routers and permutations are those of experts.csv. Rows of DeepEP are those of dispatch.csv. The
formulas are those of src/cost/kernel.c and src/cost/dispatch.c, and all other values are the device's own. To change a
value, edit the device's file by hand. Rows of dispatch_blackwell.csv give those of B200, B300 and GB200.
"""
import argparse
import math
import csv
import math
import re

from common import TOP, numpy
from output import exit_with

OWN = 0.92  # the device's GEMMs are fitted to times of our machine over this; fit.gemm.beside has it
ROBUST = 0.1  # errors of GEMMs far above this count less
CALIBRATED = (8, 32, 128)  # groups of GEMMs that are fitted; others are held out
HELD_TOKENS = (128, 1024)  # tokens of an expert that are held out
ROUTER_TOKENS = 16384  # tokens of the router's rows that are fitted


def numbers_of(text, section=""):
    """The numbers of a section of the device's file, or those outside sections, as key -> value."""
    if section:
        lines = re.search(rf"^{section}:(.*\n(?: .*\n)*)", text, re.MULTILINE)[1]
    else:
        lines = "\n".join(re.findall(r"^\w+: .*", text, re.MULTILINE))
    return {key: float(value) for key, value in re.findall(r"(\w+): ([\d.]+(?:e[-+]?\d+)?)\b", lines)}


def rows_of(name):
    with open(TOP / "model/validation" / name, encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def fit(seconds, rows, start, scale=math.inf):
    """Return the positive values that bring predicted times nearest to measured ones, by Levenberg and Marquardt.

    Errors are logarithms of ratios, and count by their squares. Errors far above `scale` count by their size.
    """
    def errors(logs):
        values = numpy.exp(logs)
        return numpy.array([math.log(seconds(values, row) / row["s"]) for row in rows])

    def cost(errors):
        return (2 * errors**2 / (1 + numpy.sqrt(1 + (errors / scale) ** 2))).sum()

    logs, damping, step = numpy.log(start), 1e-3, 1e-6
    for _ in range(100):
        now = errors(logs)
        slopes = numpy.array([(errors(logs + step * unit) - now) / step for unit in numpy.eye(len(logs))])
        weighted = slopes / numpy.sqrt(1 + (now / scale) ** 2)
        square = weighted @ slopes.T
        better = logs - numpy.linalg.solve(square + damping * numpy.diag(numpy.diag(square)), weighted @ now)
        if cost(errors(better)) < cost(now):
            logs, damping = better, damping / 10
        else:
            damping *= 10
    return numpy.exp(logs)


def say(names, values, shipped, fitted, held):
    """Print values and errors. fitted and held are relative errors of rows."""
    for name, value in zip(names, values):
        print(f"{name:32} {value:11.4g}   file {shipped.get(name, math.nan):11.4g}")
    for word, errors in (("fitted", fitted), ("held out", held)):
        sizes = numpy.abs(errors)
        print(f"    {word:9} {len(sizes):4} rows, mean error {sizes.mean():6.1%}, bias {numpy.mean(errors):+6.1%}, "
              f"worst {max(errors, key=abs):+6.1%}, within 15% {numpy.mean(sizes <= 0.15):4.0%}")


def errors_of(seconds, values, rows):
    """Relative errors of predicted times."""
    return [seconds(values, row) / row["s"] - 1 for row in rows]


class Gemm:
    """The curve of GEMMs of src/cost/kernel.c."""

    def __init__(self, device, curve):
        self.device, self.curve = device, curve

    def waves(self, tiles):
        even = tiles / self.device["multiprocessors"]
        return even + self.curve["wave"] * (math.ceil(even - 1e-9) - even)

    def positions(self, batch, m, n):
        rows, columns = batch * math.ceil(m / 128), math.ceil(n / 128)
        wide, tall = rows * math.ceil(n / 256), batch * math.ceil(m / 256) * columns
        square = 128 * 128 * (1 + self.curve["small_tile"]) * self.waves(rows * columns)
        return self.device["multiprocessors"] * min(square, 128 * 256 * self.waves(wide), 128 * 256 * self.waves(tall))

    def seconds(self, row, batch, efficiency, launch_s, memory, epilogue):
        """One kernel of `batch` products."""
        m, n, k = row["mnk"]
        work_s = 2 * k * self.positions(batch, m, n) / (self.device["peak_flop_per_s"] * self.curve["efficiency"] * efficiency)
        element_s = 2 * batch / (self.device["hbm_bytes_per_s"] * memory)
        input_s, output_s = element_s * (m + n) * k, element_s * m * n
        return launch_s + max(work_s + epilogue * output_s, input_s + output_s)


def gemm_rows(library):
    """Rows of equal experts. Forward, gradient of the input and gradient of the weight swap m, n and k."""
    rows = []
    for row in rows_of("experts.csv"):
        if row["kind"] == "grouped-gemm" and library in row["library"] and "tokens of" not in row["notes"]:
            m, n, k = (int(float(row[name])) for name in ("m_per_group", "n", "k"))
            mnk = {"fwd": (m, n, k), "dgrad": (m, k, n), "wgrad": (n, k, m)}[row["pass"]]
            groups = int(row["groups"])
            held = groups not in CALIBRATED or row["op"].startswith("Mixtral") or m in HELD_TOKENS
            rows.append({"mnk": mnk, "groups": groups, "held": held, "s": 1e-3 * float(row["time_ms"]) / OWN})
    return rows


def fit_gemms(device, curve, memory, shipped):
    """Experts in one kernel have a curve of four values, and experts on streams one of two."""
    gemm = Gemm(device, curve)

    def grouped(values, row):
        return gemm.seconds(row, row["groups"], *values)

    def streams(values, row):
        return row["groups"] * gemm.seconds(row, 1, *values, memory["copy"], curve["epilogue"])

    for name, library, seconds, start in (("multi_stream", "four streams", streams, (1, 2e-6)),
                                          ("grouped", "torch._grouped_mm", grouped, (1, 5e-6, 0.8, 0.5))):
        rows = gemm_rows(library)
        fitted, held = ([row for row in rows if row["held"] == wanted] for wanted in (False, True))
        values = fit(seconds, fitted, start, ROBUST)
        say([f"{name}.{key}" for key in ("efficiency", "launch_s", "memory", "epilogue")], values, shipped,
            errors_of(seconds, values, fitted), errors_of(seconds, values, held))


def fit_memory(device, memory, shipped):
    """Scores are bytes of a token at the rate of copies. Permutations read or write a token and its copies."""
    def scores(values, row):
        token, expert = values
        bytes_ = row["tokens"] * (token + expert * row["experts"])
        return bytes_ / (device["hbm_bytes_per_s"] * memory["copy"]) + device["launch_s"]

    def moved(values, row):
        bytes_ = 2 * row["tokens"] * row["hidden"] * (1 + row["topk"])
        return bytes_ / (device["hbm_bytes_per_s"] * values[0]) + device["launch_s"]

    def rows(*names):
        return [{**{key: int(row[key]) for key in ("tokens", "hidden", "topk", "experts")}, "s": 1e-3 * float(row["time_ms"])}
                for row in rows_of("experts.csv") if (row["op"].split(":")[0], row["pass"]) in names]

    routers = rows(("router softmax and top-k", "fwd"))
    fitted, held = ([row for row in routers if (row["tokens"] == ROUTER_TOKENS) == wanted] for wanted in (True, False))
    values = fit(scores, fitted, (5000, 100))
    say(("router.token", "router.expert"), values, shipped, errors_of(scores, values, fitted), errors_of(scores, values, held))
    for name, names in (("permute", [("permute", "fwd")]),
                        ("scatter", [("permute", "bwd"), ("unpermute, scatter_add", "fwd")])):
        all_rows = rows(*names)
        held = []  # each row by the fit to all others
        for i, row in enumerate(all_rows):
            held += errors_of(moved, fit(moved, all_rows[:i] + all_rows[i + 1:], (0.5,)), [row])
        values = fit(moved, all_rows, (0.5,))
        say((name,), values, shipped, errors_of(moved, values, all_rows), held)


def places(n, experts, k):
    """How many of n places with equally many experts hold one of a token's k (src/cost/dispatch.c)."""
    return n * (1 - math.comb(experts - experts // n, k) / math.comb(experts, k))


def dispatch_rows():
    """DeepEP's rows inside a node with 24 multiprocessors and on 2 and 4 nodes with 20. sent: bytes that leave a rank by
    NVLink. away: bytes that leave it by its NIC."""
    rows = []
    for row in rows_of("dispatch.csv"):
        ranks, wanted = int(row["ep"] or 0), "24" if row["ep"] == "8" else "20"
        if ranks not in (8, 16, 32) or row["multiprocessors"] != wanted or row["gpu"] != "H100-SXM-80GB":
            continue
        nodes = ranks // 8
        k, tokens, hidden, experts = (int(row[name]) for name in ("topk", "tokens", "hidden", "experts"))
        bytes_ = tokens * hidden * (2 if row["dtype"] == "bf16" else 1 + 4 / 128)
        rows.append({"nodes": nodes, "way": row["op"], "held": row["split"] == "open",
                     "s": 1e-6 * (float(row["time_us"]) + float(row["notify_us"])),
                     "sent": bytes_ * places(ranks, experts, k) * 7 / 8,
                     "away": bytes_ * places(nodes, experts, k) * (nodes - 1) / nodes})
    return rows


def fit_dispatch(links, shipped):
    """DeepEP inside a node by way, and between nodes both ways at once, since they share a rate of NICs."""
    def inside(values, row):
        latency_s, nvlink = values
        return latency_s + row["sent"] / (nvlink * links["nvlink"])

    def between(values, row):
        latency_s, forward = values[:2] if row["way"] == "dispatch" else values[2:4]
        return latency_s + max(row["away"] / (values[4] * links["nic"]), row["sent"] / (forward * links["nvlink"]))

    def parts(rows):
        return [[row for row in rows if row["held"] == wanted] for wanted in (False, True)]

    rows = dispatch_rows()
    for way in ("dispatch", "combine"):
        fitted, held = parts([row for row in rows if row["nodes"] == 1 and row["way"] == way])
        values = fit(inside, fitted, (3e-5, 0.6))
        say((f"{way}.latency_s", f"{way}.nvlink"), values, shipped,
            errors_of(inside, values, fitted), errors_of(inside, values, held))
    fitted, held = parts([row for row in rows if row["nodes"] > 1])
    values = fit(between, fitted, (1e-4, 0.5, 1e-4, 0.4, 0.9))
    say(("dispatch.nodes_latency_s", "dispatch.forward", "combine.nodes_latency_s", "combine.forward", "deepep.nic"), values,
        shipped, errors_of(between, values, fitted), errors_of(between, values, held))


def shipped_of(text):
    """{name as printed here: value of the device's file}"""
    section = re.search(r"^experts:\n((?:  .*\n)+)", text, re.MULTILINE)[1]
    shipped = {"deepep.nic": float(re.search(r"^    nic: (\S+)", section, re.MULTILINE)[1]),
               **{name: float(re.search(rf"^  {name}: (\S+)", section, re.MULTILINE)[1]) for name in ("permute", "scatter")}}
    for name, keys in re.findall(r"(\w+): \{(.*)\}", section):
        shipped |= {f"{name}.{key}": float(value) for key, value in re.findall(r"(\w+): ([^,]+)", keys)}
    return shipped


def sent_rows(gpu, library, way):
    """Rows of dispatch_blackwell.csv inside an NVLink domain."""
    rows = []
    for row in rows_of("dispatch_blackwell.csv"):
        if row["kind"] == "all-to-all" and (row["gpu"], row["op"]) == (gpu, way) and library in row["library"]:
            ranks, k, tokens, hidden, experts = (int(row[name] or 8) for name in ("ep", "topk", "tokens", "hidden", "experts"))
            bytes_ = tokens * hidden * (2 if row["dtype"] == "bf16" else 1 + 4 / 128)
            rows.append({"held": row["split"] == "open", "s": 1e-6 * (float(row["time_us"]) + float(row["notify_us"])),
                         "sent": bytes_ * places(ranks, experts, k) * (ranks - 1) / ranks})
    return rows


def fit_blackwell(name, library, with_latency):
    """DeepEP has a latency and a share of NVLink, kernels of HybridEP a share alone: they show no latency."""
    device, gpu = numbers_of((TOP / f"model/gpu/{name}.yaml").read_text(encoding="utf-8")), {
        "b200": "B200-SXM", "b300": "B300-SXM", "gb200": "GB200"}[name]

    def seconds(values, row):
        return (values[1] if with_latency else 0) + row["sent"] / (values[0] * device["nvlink_bytes_per_s"])

    print(f"{name}, {library}:")
    for way in ("dispatch", "combine"):
        rows = sent_rows(gpu, library, way)
        fitted, held = ([row for row in rows if row["held"] == wanted] for wanted in (False, True))
        values = fit(seconds, fitted, (0.6, 3e-5) if with_latency else (0.6,))
        say((f"{way}.nvlink", f"{way}.latency_s"), values, {}, errors_of(seconds, values, fitted), errors_of(seconds, values, held))


def fit_blackwell_gemms():
    """The start of a kernel on several streams, on the machine of SimuMax. Its GEMMs alone are as fast, so their
    efficiency is all of the curve's."""
    text = (TOP / "model/gpu/b200-simumax.yaml").read_text(encoding="utf-8")
    curve, memory = numbers_of(text, "gemm"), numbers_of(text, "memory")
    gemm, rows = Gemm(numbers_of(text), curve), []
    for row in rows_of("dispatch_blackwell.csv"):
        if row["gpu"] == "SimuMax":
            m, n, k = (int(row[name]) for name in ("m_per_group", "n", "k"))
            rows.append({"mnk": {"fwd": (m, n, k), "dgrad": (m, k, n), "wgrad": (n, k, m)}[row["pass"]],
                         "groups": int(row["groups"]), "held": row["split"] == "open", "s": 1e-6 * float(row["time_us"])})

    def streams(values, row):
        return row["groups"] * gemm.seconds(row, 1, 1, values[0], memory["copy"], curve["epilogue"])

    print("b200-simumax, several streams:")
    fitted, held = ([row for row in rows if row["held"] == wanted] for wanted in (False, True))
    values = fit(streams, fitted, (2e-6,), ROBUST)
    say(("multi_stream.launch_s",), values, {}, errors_of(streams, values, fitted), errors_of(streams, values, held))


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    text = (TOP / "model/gpu/h100-sxm.yaml").read_text(encoding="utf-8")
    device, memory, shipped = numbers_of(text), numbers_of(text, "memory"), shipped_of(text)
    fit_gemms(device, numbers_of(text, "gemm"), memory, shipped)
    fit_memory(device, memory, shipped)
    fit_dispatch(numbers_of(text, "measured"), shipped)
    fit_blackwell("b200", "DeepEP", True)
    fit_blackwell("b300", "DeepEP", True)
    fit_blackwell("gb200", "HybridEP", False)
    fit_blackwell_gemms()


if __name__ == "__main__":
    exit_with(main)

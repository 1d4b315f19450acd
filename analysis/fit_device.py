#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fit a device's curves (src/scenario/device.h) to measured kernels and collectives, and write them into its YAML.

    fit_device.py --chip h100|h200 KERNELS.csv COLLECTIVES.csv [DEVICE.yaml ...]

Prints parameters and residuals; in each DEVICE.yaml everything below the marker line is replaced. Only rows with
split = calib are fitted. Every form is linear in its unknowns, so a fit is least squares of relative errors with
coefficients >= 0 (all subsets of the few columns are tried). Needs numpy only.
"""
import argparse
import csv
import itertools

import numpy as np

MARKER = "# Fitted values: written by analysis/fit_device.py, not by hand."

# Of the machines the rows were measured on. Data sheets: NVIDIA H100 and H200 SXM (bf16 dense, HBM, NVLink 4 per
# direction), ConnectX-7 (400 Gb/s), PCIe 5.0 x16 (64 GB/s).
PEAK_FLOP_PER_S = 989.4e12
HBM_BYTES_PER_S = {"H100": 3.35e12, "H200": 4.8e12}
NVLINK_BYTES_PER_S, NIC_BYTES_PER_S, PCIE_BYTES_PER_S = 450e9, 50e9, 64e9

# No shape sustained more than 794.5 TFLOP/s in a search over thousands (row K331): faster rows ran on data or clocks
# that a training step does not have. 1% is left for their rounding.
GEMM_LIMIT_TFLOP_PER_S = 794.5 * 1.01

# FlashAttention works in tiles of 128 rows (Dao 2023, arXiv:2307.08691, section 3.3): a slice whose length is no
# multiple wastes half a tile on average. Benchmarks have multiples and queries = keys, so they cannot tell it apart.
HALF_TILE = 64.0


def least_squares(columns, seconds, known_s):
    """Coefficients >= 0 of the columns that make (columns x + known_s) / seconds closest to 1."""
    scaled = columns / seconds[:, None]
    target = 1 - known_s / seconds
    best = None
    for size in range(1, columns.shape[1] + 1):
        for subset in map(list, itertools.combinations(range(columns.shape[1]), size)):
            x = np.linalg.lstsq(scaled[:, subset], target, rcond=None)[0]
            if (x < 0).any():
                continue
            error = ((scaled[:, subset] @ x - target) ** 2).sum()
            if best is None or error < best[0] * (1 - 1e-12):
                full = np.zeros(columns.shape[1])
                full[subset] = x
                best = error, full
    return best[1]


def ids_text(ids):
    """K001 K002 K003 K010 -> K001-K003 K010"""
    numbers = sorted(int(i[1:]) for i in set(ids))
    runs = []
    for n in numbers:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    name = lambda n: f"{ids[0][0]}{n:03d}"
    return " ".join(name(a) if a == b else f"{name(a)}-{name(b)}" for a, b in runs)


class Fit:
    """Parameters of one curve and how well they do."""

    def __init__(self, rows, seconds, predicted, parameters, ranges, note=None):
        error = np.abs(predicted / seconds - 1)
        self.parameters, self.note = parameters, note
        self.error, self.ids = error, [r["id"] for r in rows]
        self.fit = {"rows": ids_text(self.ids), "n": len(rows), "median_error": float(np.median(error)),
                    "max_error": float(error.max()), "worst_row": self.ids[int(error.argmax())], "ranges": ranges}

    def show(self, name):
        text = ", ".join(f"{k} {v:.4g}" for k, v in self.parameters.items())
        print(f"{name}: {text}\n    {self.fit['n']} rows, median error {self.fit['median_error']:.3f}, "
              f"max {self.fit['max_error']:.3f} ({self.fit['worst_row']})")


def span(values):
    return f"{min(values):.6g}..{max(values):.6g}"


def number(row, key):
    return float(row[key]) if row[key] else None


# Memory-bound kernels


def memory_bound_bytes(row):
    """bf16 tensors of m x n: norm reads and writes one (backward: reads two, writes one); SwiGLU reads gate and up."""
    elements = number(row, "m") * number(row, "n")
    if "rms_norm" in row["op"]:
        return elements * (4 if row["pass"] == "fwd" else 6)
    return elements * 6


def memory_bound_fit(kernels):
    """Fused kernels as frameworks run them. The CSV's H100 backward rows are left out: their forward is inside some."""
    h100 = [r for r in kernels if r["op"] in ("megatron_rms_norm", "megatron_swiglu") and r["pass"] == "fwd"
            and r["library"] in ("megatron", "liger")]
    h200 = [r for r in kernels if r["op"] == "rms_norm" and r["library"] == "cudnn" and number(r, "n") >= 1024]
    rows = h100 + h200
    seconds = np.array([number(r, "time_ms") * 1e-3 for r in rows])
    hbm = np.array([HBM_BYTES_PER_S["H200" if "H200" in r["gpu"] else "H100"] for r in rows])
    size = np.array([memory_bound_bytes(r) for r in rows])
    columns = np.stack([size / hbm, np.ones(len(rows))], 1)
    x = least_squares(columns, seconds, np.zeros(len(rows)))
    return Fit(rows, seconds, columns @ x, {"memory_bound_share": 1 / x[0], "launch_s": x[1]}, {"bytes": span(size)})


# GEMM


def gemm_fit(kernels, launch_s):
    rows = [r for r in kernels if r["kind"] == "gemm" and r["m"] and r["n"] and r["k"] and "fp8" not in r["dtype"]
            and "max over" not in r["op"] and number(r, "tflops") <= GEMM_LIMIT_TFLOP_PER_S]
    m, n, k = (np.array([number(r, c) for r in rows]) for c in "mnk")
    flop = 2 * m * n * k
    seconds = np.array([t * 1e-3 if (t := number(r, "time_ms")) else f / number(r, "tflops") * 1e-12
                        for r, f in zip(rows, flop)])
    columns = np.stack([flop, flop / m, flop / n, flop / k], 1) / PEAK_FLOP_PER_S
    x = least_squares(columns, seconds, launch_s)
    parameters = dict(zip(("efficiency", "m_half", "n_half", "k_half"), (1 / x[0], *(x[1:] / x[0]))))
    return Fit(rows, seconds, columns @ x + launch_s, parameters, {"m": span(m), "n": span(n), "k": span(k)})


# Attention


def attention_flop(row, factor):
    """4 per query, key and channel; a causal sample computes half of them."""
    work = number(row, "batch") * number(row, "heads") * number(row, "seq_len") ** 2 * number(row, "head_dim")
    return 4 * work * factor * (0.5 if is_causal(row) else 1)


def is_causal(row):
    return number(row, "causal") == 1


def plain(row):
    """Whole attention of equal head widths; 256-wide heads have other tiles and appear in no model here."""
    return row["kind"].startswith("attention") and "sliding" not in row["op"] and "head_dim_vo" not in row["shape_note"] \
        and number(row, "head_dim") in (64, 128)


def shape_key(row):
    return row["gpu"], number(row, "batch"), number(row, "seq_len"), number(row, "heads"), number(row, "head_dim")


def backward_of_both(both, forward):
    """Rows of 1 + 2.5 times the forward's FLOPs, less the forward of the same shape: rows of the backward alone."""
    of_shape = {shape_key(r): r for r in forward}
    rows = []
    for row in both:
        if (other := of_shape.get(shape_key(row))) is not None:
            rate = 2.5 / (3.5 / number(row, "tflops") - 1 / number(other, "tflops"))
            rows.append(dict(row, tflops=str(rate), **{"pass": "bwd"}))
    return rows


def attention_rows(kernels, chip, library, which):
    """Calibration rows of a chip, kernel and pass; and what was taken where the chip has none of its own."""
    of = lambda gpu, name, passes, causal: [
        r for r in kernels if plain(r) and gpu in r["gpu"] and name in r["library"] and r["pass"] == passes
        and is_causal(r) == causal and r["tflops"] and number(r, "seq_len") >= 512]
    name = {"flash2": ("FlashAttention-2", "FA2"), "flash3": ("FlashAttention-3", "FlashAttention-3"),
            "cudnn": ("cuDNN", "cuDNN")}[library][chip == "h200"]
    if chip == "h200" and library != "flash3":
        return of("H200", name, which, True), "H200, causal"
    if which == "fwd":
        packed = of("H100 (Modal)", "vllm-flash-attn", "fwd", True) if library == "flash2" else []
        return of("H100-80GB", name, "fwd", True) + packed, "H100, causal"
    if library == "flash2":
        rows = backward_of_both(of("H100-80GB-SXM5", name, "fwd+bwd", True), of("H100-80GB-SXM5", name, "fwd", True))
        return rows, "H100, causal: forward + backward (1 + 2.5) less the forward of the same shape"
    rows, note = of("H100-80GB-SXM5", name, "bwd", False), "H100, not causal: s tokens stand for a causal sample of 2 s, " \
        "whose queries see as many keys on average (holds within 4% for flash2, which has both)"
    if library == "cudnn":
        rows, note = rows + of("H200", name, "bwd", True), note + "; H200, causal"
    return rows, note


def attention_fit(kernels, chip, library, which, launch_s, d_half):
    """The forward walks the keys for a tile of queries, the backward the queries for a tile of keys: so the fitted
    half-length is the keys' forward, the queries' backward, and the other is half a tile."""
    rows, note = attention_rows(kernels, chip, library, which)
    factor = 1 if which == "fwd" else 2.5
    flop = np.array([attention_flop(r, factor) for r in rows])
    seconds = flop / np.array([number(r, "tflops") * 1e12 for r in rows])
    length = np.array([number(r, "seq_len") * (1 if is_causal(r) else 2) for r in rows])
    width = np.array([number(r, "head_dim") for r in rows])
    tiles, per_length, per_width = (flop / PEAK_FLOP_PER_S * v for v in (1 + HALF_TILE / length, 1 / length, 1 / width))
    columns = np.stack([tiles, per_length, per_width], 1)
    if d_half is None:
        x = least_squares(columns, seconds, launch_s)
    else:
        x = least_squares(np.stack([tiles + d_half * per_width, per_length], 1), seconds, launch_s)
        x = np.append(x, x[0] * d_half)
    if x[0] < 1:  # nothing is faster than the peak
        x = np.append(1.0, least_squares(columns[:, 1:], seconds, launch_s + tiles))
    halves = (HALF_TILE, x[1] / x[0]) if which == "fwd" else (x[1] / x[0], HALF_TILE)
    parameters = {"efficiency": 1 / x[0], "q_half": halves[0], "k_half": halves[1], "d_half": x[2] / x[0]}
    return Fit(rows, seconds, columns @ x + launch_s, parameters, {"tokens": span(length), "head_dim": span(width)}, note)


# Links


def link_message(row):
    """Bytes one rank sends and messages one after the other: a ring over n ranks has n - 1 steps."""
    n, size = number(row, "n_gpus"), number(row, "size_bytes")
    if row["collective"] == "send_recv":
        return size, 1
    return size * (n - 1) / n, n - 1


def link_fit(rows, bytes_per_s, ramps):
    seconds = np.array([number(r, "time_us") * 1e-6 for r in rows])
    sent, steps = (np.array(v) for v in zip(*map(link_message, rows)))
    best = None
    for ramp in ramps:
        columns = np.stack([steps, (sent + ramp * sent / (sent + ramp)) / bytes_per_s], 1)
        x = least_squares(columns, seconds, np.zeros(len(rows)))
        error = ((columns @ x / seconds - 1) ** 2).sum()
        if best is None or error < best[0]:
            best = error, ramp, x, columns @ x
    _, ramp, x, predicted = best
    parameters = {"latency_s": x[0], "efficiency": 1 / x[1], "ramp_bytes": ramp}
    return Fit(rows, seconds, predicted, parameters, {"bytes_sent": span(sent), "steps": span(steps)})


def nvlink_fit(collectives):
    rows = [r for r in collectives if r["n_nodes"] in ("1", "1.0") and r["time_us"] and r["size_bytes"]
            and r["collective"] in ("all_gather", "reduce_scatter")]
    rows += [r for r in collectives if r["collective"] == "send_recv" and r["topology"].startswith("same node")]
    return link_fit(rows, NVLINK_BYTES_PER_S, np.arange(0, 64.5e6, 0.5e6))


def nic_fit(collectives):
    """Latency from timed messages; their plateau of 35 GB/s is of an unstated NIC, so the efficiency is that of the
    rows that name a 400 Gb/s NIC."""
    timed = [r for r in collectives if r["collective"] == "send_recv" and r["topology"].startswith("two nodes")]
    fit = link_fit(timed, NIC_BYTES_PER_S, [0.0])
    plateau = [r for r in collectives if r["id"] in ("C221", "C226", "C283", "C284")]
    rates = [np.mean([float(v) for v in r["busbw_GBps"].split("-")]) * 1e9 for r in plateau]
    fit.note = f"latency: {fit.fit['rows']} (errors are of their own plateau, {fit.parameters['efficiency']:.3f} of the " \
               f"NIC); efficiency: mean of {ids_text([r['id'] for r in plateau])}"
    fit.parameters["efficiency"] = float(np.mean(rates) / NIC_BYTES_PER_S)
    return fit


def pcie_fit(collectives, latency_s):
    rows = [r for r in collectives if r["id"] in ("C213", "C214")]
    rate = np.array([number(r, "algbw_GBps") * 1e9 for r in rows])
    parameters = {"latency_s": latency_s, "efficiency": float(rate.mean() / PCIE_BYTES_PER_S), "ramp_bytes": 0.0}
    return Fit(rows, 1 / rate, np.full(len(rows), 1 / rate.mean()), parameters, {"bytes": "large copies only"},
               "latency: assumed to be NVLink's, no row has small copies")


# The file


def yaml_number(value):
    text = f"{value:.5g}"
    return text.replace("e+", "e")


def yaml_mapping(name, mapping, depth):
    body = ", ".join(f"{k}: {yaml_number(v) if not isinstance(v, str) else v}" for k, v in mapping.items())
    return f"{'  ' * depth}{name}: {{{body}}}\n"


def yaml_fit(name, fit):
    f = fit.fit
    lines = [f"  {name}:", f'    rows: "{f["rows"]}"', f"    n_rows: {f['n']}",
             f"    median_error: {f['median_error']:.4f}", f"    max_error: {f['max_error']:.4f}",
             f"    worst_row: {f['worst_row']}"]
    lines += [f'    range_{k}: "{v}"' for k, v in f["ranges"].items()]
    if fit.note:
        lines.append(f'    note: "{fit.note}"')
    return "\n".join(lines) + "\n"


def yaml_tail(fits):
    memory = fits["memory_bound"].parameters
    text = f"launch_s: {yaml_number(memory['launch_s'])}\n"
    text += f"memory_bound_share: {yaml_number(memory['memory_bound_share'])}\n"
    text += yaml_mapping("gemm", fits["gemm"].parameters, 0) + "attention:\n"
    for library in ("flash2", "flash3", "cudnn"):
        text += f"  {library}:\n"
        for which in ("forward", "backward"):
            text += yaml_mapping(which, fits[f"{library}_{which}"].parameters, 2)
    for link in ("nvlink", "nic", "pcie"):
        text += yaml_mapping(link, fits[link].parameters, 0)
    return text + "fit:\n" + "".join(yaml_fit(name, fit) for name, fit in fits.items())


def fit_all(chip, kernels, collectives):
    fits = {"memory_bound": memory_bound_fit(kernels)}
    launch_s = fits["memory_bound"].parameters["launch_s"]
    fits["gemm"] = gemm_fit(kernels, launch_s)
    for library in ("flash2", "flash3", "cudnn"):
        for which, name in (("fwd", "forward"), ("bwd", "backward")):
            d_half = None
            if chip == "h200" and library != "flash3":  # its rows have one head width: the H100's dependence
                d_half = attention_fit(kernels, "h100", library, which, launch_s, None).parameters["d_half"]
            fits[f"{library}_{name}"] = attention_fit(kernels, chip, library, which, launch_s, d_half)
    fits["nvlink"], fits["nic"] = nvlink_fit(collectives), nic_fit(collectives)
    fits["pcie"] = pcie_fit(collectives, fits["nvlink"].parameters["latency_s"])
    return fits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chip", choices=("h100", "h200"), required=True, help="whose attention rows are fitted")
    parser.add_argument("kernels")
    parser.add_argument("collectives")
    parser.add_argument("device", nargs="*", help="YAML files to write the curves into")
    arguments = parser.parse_args()
    read = lambda path: [r for r in csv.DictReader(open(path, newline="")) if r["split"] == "calib"]
    fits = fit_all(arguments.chip, read(arguments.kernels), read(arguments.collectives))
    for name, fit in fits.items():
        fit.show(name)
    for path in arguments.device:
        with open(path) as file:
            head, marker, _ = file.read().partition(MARKER)
        if not marker:
            parser.error(f"{path}: the line '{MARKER}' is missing: it says what may be replaced")
        with open(path, "w") as file:
            file.write(head + MARKER + "\n" + yaml_tail(fits))


if __name__ == "__main__":
    main()

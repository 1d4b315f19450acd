#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU the ragged units that recommended plans run, and hold slimsim's costs against them.

Two kinds of units: `packed` holds whole samples of unequal lengths in one kernel of variable-length attention; `prefix`
holds slices behind long prefixes: the forward reads kept keys and values, and the backward returns their gradients. A
unit runs forward and backward through a stack of Llama layers for some seconds, so that clocks are those of lasting
load; times are medians of the second half. Writes ragged.csv. `--predict ragged.csv` needs no GPU: it asks `slimsim
cost` for the same units and prints the errors by kind. Needs PyTorch 2.8 or later to measure.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import time

from output import create, exit_with

COLUMNS = "id kind gpu model tp attention slices forward_ms backward_ms source notes".split()
LAYERS, SECONDS = 4, 2.0
MODELS = {  # file of model/llm: hidden, ffn, heads, groups of keys and values
    "llama2-7b": (4096, 11008, 32, 32), "llama3-8b": (4096, 14336, 32, 8), "llama2-13b": (5120, 13824, 40, 40)}
PACKED = [  # lengths: many short ones and a few long ones, 8Ki to 128Ki tokens in all
    [4096] + [512] * 4 + [128] * 16, [12288] + [1024] * 4 + [300] * 40, [20000, 6000, 3000] + [700] * 4,
    [32768] + [2048] * 8 + [400] * 40, [65536], [65536] + [4096] * 8 + [1000] * 32, [131072]]
PREFIX = [  # begin and end of each slice
    [(8192, 12288)], [(28672, 32768)], [(61440, 65536)], [(122880, 131072)], [(30720, 32768)] + [(0, 300)] * 20,
    [(65536, 69632), (0, 4096)], [(4096, 6144), (8192, 10240), (32768, 34816)], [(126976, 128000)] + [(0, 1000)] * 7]


def units():
    """Kind, model and slices of every unit; the widest model takes the units of at most 64Ki tokens."""
    for model in MODELS:
        for lengths in PACKED:
            if model == "llama3-8b" or sum(lengths) <= 65536:
                yield "packed", model, [(0, length) for length in lengths]
        for slices in PREFIX:
            yield "prefix", model, slices


def text_of(slices):
    return " ".join(f"{begin}:{end}" for begin, end in slices)


def measure(model, slices):
    """Milliseconds of a layer's forward and backward of the unit."""
    from measure_networks import Kept, Layer, torch
    sizes = MODELS[model]
    torch.compiler.reset()
    with torch.device("cuda"):
        layers = [Layer(sizes).bfloat16() for _ in range(LAYERS)]
    kept = [Kept(slices, layer.groups, layer.width) for layer in layers]
    tokens = len(kept[0].own)
    x = torch.randn(tokens, sizes[0], device="cuda", dtype=torch.bfloat16, requires_grad=True)
    angles = [torch.randn(tokens, 1, layers[0].width, device="cuda", dtype=torch.bfloat16) for _ in range(2)]

    def both():
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        for layer in layers:
            layer.zero_grad(set_to_none=True)
        events[0].record()
        out = x
        for layer, of_layer in zip(layers, kept):
            out = layer(out, of_layer, angles)
        events[1].record()
        out.backward(out.detach())
        events[2].record()
        torch.cuda.synchronize()
        return events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2])

    for _ in range(3):
        both()
    samples, begin = [], time.monotonic()
    while time.monotonic() - begin < SECONDS:
        samples.append(both())
    later = samples[len(samples) // 2:]
    return [statistics.median(sample[i] for sample in later) / LAYERS for i in range(2)]


def measure_all(path, most):
    from measure_common import torch
    with create(path) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for number, (kind, model, slices) in enumerate(list(units())[:most], 1):
            torch.cuda.empty_cache()
            try:
                forward_ms, backward_ms = measure(model, slices)
            except (RuntimeError, torch.OutOfMemoryError) as error:
                print(f"not measured: {model} {text_of(slices)}: {str(error)[:300]}", file=sys.stderr)
                continue
            writer.writerow({
                "id": f"R{number:03d}", "kind": kind, "gpu": torch.cuda.get_device_name(), "model": model, "tp": 1,
                "attention": "flash2", "slices": text_of(slices), "forward_ms": f"{forward_ms:.5g}",
                "backward_ms": f"{backward_ms:.5g}", "source": "analysis/measure_ragged.py",
                "notes": f"mean of {LAYERS} layers; PyTorch {torch.__version__}, CUDA {torch.version.cuda}"})
            file.flush()


def predict(program, device, row):
    """Milliseconds of a layer's forward and backward, from slimsim."""
    slices = [word for text in row["slices"].split() for word in ("--slice", text)]
    done = subprocess.run([program, "cost", "--model", row["model"], *slices, "--device", device, "--tp", row["tp"],
                           "--attention", row["attention"], "--kernels", "compiled", "--layers", "1", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{row['id']}: {done.stderr.strip()}")
    cost = json.loads(done.stdout)
    return [1e3 * cost[which]["layers_s"] for which in ("forward", "backward")]


def compare(path, program, device):
    errors = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            predicted = predict(program, device, row)
            for which, time_ms in zip(("forward", "backward"), predicted):
                error = time_ms / float(row[f"{which}_ms"]) - 1
                errors.setdefault((row["kind"], which), []).append(error)
                print(f"{row['id']} {row['kind']:6} {row['model']:10} {which:8} measured {float(row[f'{which}_ms']):8.3f} ms, "
                      f"predicted {time_ms:8.3f} ms, {100 * error:+6.1f}%  {row['slices'][:60]}")
    for (kind, which), values in sorted(errors.items()):
        print(f"{kind} {which}: {len(values)} units, mean error {100 * statistics.fmean(map(abs, values)):.1f}%, "
              f"bias {100 * statistics.fmean(values):+.1f}%, worst {100 * max(values, key=abs):+.1f}%")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for ragged.csv")
    parser.add_argument("--most", type=int, metavar="N", help="the first N units alone")
    parser.add_argument("--predict", type=pathlib.Path, metavar="FILE", help="compare a measured ragged.csv with slimsim")
    parser.add_argument("--program", default="slimsim", help="with --predict (%(default)s)")
    parser.add_argument("--device", default="h100-sxm", help="with --predict: the file of the measured GPU (%(default)s)")
    options = parser.parse_args()
    if options.predict:
        compare(options.predict, options.program, options.device)
    else:
        measure_all(options.output / "ragged.csv", options.most)


if __name__ == "__main__":
    exit_with(main)

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


def attention_class(torch):
    """Causal attention of a unit by flash-attention 2 as PyTorch has it."""

    class UnitAttention(torch.autograd.Function):
        """Keys and values of a unit are written behind the kept ones of each sample, gradients of the latter returned."""

        @staticmethod
        def forward(context, query, key, value, kept):
            keys, values = kept.keys.clone(), kept.values.clone()
            keys[kept.own], values[kept.own] = key, value
            out, lse, seed, offset, _ = torch.ops.aten._flash_attention_forward(
                query, keys, values, kept.query_ends, kept.key_ends, kept.most_queries, kept.most_keys, 0.0, True, False)
            context.save_for_backward(query, keys, values, out, lse, seed, offset)
            context.kept = kept
            return out

        @staticmethod
        def backward(context, gradient):
            kept = context.kept
            query, keys, values, out, lse, seed, offset = context.saved_tensors
            of_query, of_keys, of_values = torch.ops.aten._flash_attention_backward(
                gradient.contiguous(), query, keys, values, out, lse, kept.query_ends, kept.key_ends, kept.most_queries,
                kept.most_keys, 0.0, True, seed, offset)
            if kept.has_prefix:  # the earlier slices' backwards take these
                kept.key_gradients += of_keys
                kept.value_gradients += of_values
            return of_query, of_keys[kept.own], of_values[kept.own], None

    return UnitAttention


class Kept:
    """Keys and values of a unit's samples up to the ends of its slices, and which rows of them the unit computes."""

    def __init__(self, torch, slices, groups, width):
        tokens = sum(end for _, end in slices)
        noise = lambda: torch.randn(tokens, groups, width, device="cuda", dtype=torch.bfloat16)
        self.keys, self.values = noise(), noise()
        self.has_prefix = any(begin > 0 for begin, _ in slices)
        if self.has_prefix:
            self.key_gradients, self.value_gradients = torch.zeros_like(self.keys), torch.zeros_like(self.values)
        starts = [sum(end for _, end in slices[:i]) for i in range(len(slices))]
        self.own = torch.cat([torch.arange(start + begin, start + end, device="cuda")
                              for start, (begin, end) in zip(starts, slices)])
        self.query_ends = self.ends(torch, [end - begin for begin, end in slices])
        self.key_ends = self.ends(torch, [end for _, end in slices])
        self.most_queries = max(end - begin for begin, end in slices)
        self.most_keys = max(end for _, end in slices)

    @staticmethod
    def ends(torch, lengths):
        return torch.tensor([0] + lengths, device="cuda").cumsum(0).to(torch.int32)


def layer_class(torch):
    functional = torch.nn.functional
    Attention = attention_class(torch)

    def rotate(x, cosine, sine):
        left, right = x.chunk(2, -1)
        return x * cosine + torch.cat((-right, left), -1) * sine

    rotation = torch.compile(rotate, dynamic=False)
    swiglu = torch.compile(lambda both: functional.silu(both.chunk(2, -1)[0]) * both.chunk(2, -1)[1], dynamic=False)

    class Layer(torch.nn.Module):
        """A Llama layer with joint QKV and joint up projections."""

        def __init__(self, sizes):
            super().__init__()
            hidden, ffn, self.heads, self.groups = sizes
            self.width = hidden // self.heads
            linear = lambda inputs, outputs: torch.nn.Linear(inputs, outputs, bias=False)
            self.qkv = linear(hidden, hidden + 2 * self.groups * self.width)
            self.projection, self.up, self.down = linear(hidden, hidden), linear(hidden, 2 * ffn), linear(ffn, hidden)
            self.norms = torch.nn.ParameterList(torch.ones(hidden) for _ in range(2))

        def forward(self, x, kept, angles):
            qkv = self.qkv(functional.rms_norm(x, x.shape[-1:], self.norms[0]))
            query, key, value = qkv.view(len(x), -1, self.width).split((self.heads, self.groups, self.groups), 1)
            query, key = rotation(query, *angles), rotation(key, *angles)
            seen = Attention.apply(query, key, value.contiguous(), kept)
            x = x + self.projection(seen.reshape(len(x), -1))
            return x + self.down(swiglu(self.up(functional.rms_norm(x, x.shape[-1:], self.norms[1]))))

    return Layer


def measure(torch, model, slices):
    """Milliseconds of a layer's forward and backward of the unit."""
    sizes = MODELS[model]
    torch.compiler.reset()
    with torch.device("cuda"):
        layers = [layer_class(torch)(sizes).bfloat16() for _ in range(LAYERS)]
    kept = [Kept(torch, slices, layer.groups, layer.width) for layer in layers]
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
    try:
        import torch
    except ImportError:
        print(f"{__file__}: {sys.executable} has no torch: install PyTorch for CUDA, 2.8 or later", file=sys.stderr)
        sys.exit(2)
    with create(path) as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for number, (kind, model, slices) in enumerate(list(units())[:most], 1):
            torch.cuda.empty_cache()
            try:
                forward_ms, backward_ms = measure(torch, model, slices)
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

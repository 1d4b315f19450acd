#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU the forward and the backward of whole transformer layers, as they run in training: Llama's of
Hugging Face Transformers and a GPT of plain PyTorch modules, eager and compiled, with flash-attention 2 and cuDNN.
Writes layers.csv, a raw table: model/validation/normalise.py makes rows for `slimsim validate` of it.

A stack of layers runs forward and backward again and again for some seconds, so that clocks are those of lasting load;
times are medians of the second half. Needs PyTorch 2.8 or later and Transformers 5.
"""
import argparse
import csv
import pathlib
import statistics
import sys
import time

from measure_networks import GptLayer
from output import create, exit_with

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
except ImportError as error:
    print(f"{__file__}: {sys.executable} has no {error.name}: install PyTorch for CUDA, 2.8 or later, and Transformers 5",
          file=sys.stderr)
    sys.exit(2)

COLUMNS = ("id trust split gpu fabric framework model hidden layers heads kv_groups ffn vocab activation seq_len n_gpus tp sp pp "
           "mbs recompute precision attn_kernel metric value_ms source notes").split()
GPU = "H100-SXM-80GB"  # a text of model/validation/dictionary.csv
LAYERS = 4
SECONDS = 2.0
KERNELS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
LLAMA = {  # hidden, ffn, heads, groups of keys and values
    "Llama-2 7B": (4096, 11008, 32, 32), "Llama-3 8B": (4096, 14336, 32, 8), "Llama-2 13B": (5120, 13824, 40, 40),
    "Llama-3 70B": (8192, 28672, 64, 8)}
GPT = {"GPT 1.3B": (2048, 8192, 16, 16), "GPT 6.7B": (4096, 16384, 32, 32), "GPT 13B": (5120, 20480, 40, 40)}
CASES = [("Llama-2 7B", 2048, 1), ("Llama-2 7B", 4096, 1), ("Llama-2 7B", 4096, 4), ("Llama-2 7B", 32768, 1),
         ("Llama-3 8B", 8192, 1), ("Llama-2 13B", 4096, 1), ("Llama-3 70B", 4096, 1), ("Llama-3 70B", 8192, 1),
         ("GPT 1.3B", 2048, 8), ("GPT 6.7B", 2048, 4), ("GPT 13B", 4096, 1)]


def llama_stack(sizes, tokens):
    hidden, ffn, heads, groups = sizes
    config = LlamaConfig(hidden_size=hidden, intermediate_size=ffn, num_attention_heads=heads, num_key_value_heads=groups,
                         max_position_embeddings=tokens, attn_implementation="sdpa")
    with torch.device("cuda"):
        layers = torch.nn.ModuleList(LlamaDecoderLayer(config, i) for i in range(LAYERS)).bfloat16()
    positions = torch.arange(tokens, device="cuda")[None]
    rotary = LlamaRotaryEmbedding(config).cuda()
    angles = rotary(torch.zeros(1, 1, hidden, device="cuda", dtype=torch.bfloat16), positions)

    def call(layer, x):
        out = layer(x, attention_mask=None, position_ids=positions, position_embeddings=angles)
        return out[0] if isinstance(out, tuple) else out

    return layers, call


def gpt_stack(sizes, _tokens):
    hidden, ffn, heads, _ = sizes
    with torch.device("cuda"):
        layers = torch.nn.ModuleList(GptLayer(hidden, ffn, heads) for _ in range(LAYERS)).bfloat16()
    return layers, lambda layer, x: layer(x)


def timed(layers, call, x):
    """One forward and backward of the stack [ms each], and what it holds between them [bytes]."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    for parameter in layers.parameters():
        parameter.grad = None
    held = torch.cuda.memory_allocated()
    events[0].record()
    out = x
    for layer in layers:
        out = call(layer, out)
    events[1].record()
    held = torch.cuda.memory_allocated() - held
    out.backward(out.detach())
    events[2].record()
    torch.cuda.synchronize()
    return events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2]), held


def measure(model, tokens, batch, kernel, compiled):
    """Milliseconds of a layer, forward and backward, and the bytes it holds for the backward."""
    sizes = LLAMA.get(model) or GPT[model]
    torch.compiler.reset()
    layers, call = (llama_stack if model in LLAMA else gpt_stack)(sizes, tokens)
    if compiled:
        for layer in layers:
            layer.compile(dynamic=False)
    x = torch.randn(batch, tokens, sizes[0], device="cuda", dtype=torch.bfloat16, requires_grad=True)
    with sdpa_kernel(KERNELS[kernel]):
        for _ in range(3):
            timed(layers, call, x)
        samples, begin = [], time.monotonic()
        while time.monotonic() - begin < SECONDS:
            samples.append(timed(layers, call, x))
    later = samples[len(samples) // 2:]
    return [statistics.median(sample[i] for sample in later) / LAYERS for i in range(3)]


def rows_of(number, model, tokens, batch, kernel, compiled, result):
    sizes = LLAMA.get(model) or GPT[model]
    framework = "Transformers" if model in LLAMA else "PyTorch modules"
    shared = {
        "trust": "A", "split": "open", "gpu": GPU, "framework": framework + (" (torch.compile)" if compiled else " (eager)"),
        "model": f"{model}, ONE transformer layer", "hidden": sizes[0], "layers": 1,
        "heads": sizes[2], "kv_groups": sizes[3], "ffn": sizes[1], "vocab": 32000,
        "activation": "swiglu" if model in LLAMA else "gelu", "seq_len": tokens, "n_gpus": 1, "tp": 1, "sp": 0, "pp": 1,
        "mbs": batch, "recompute": "none", "precision": "bf16", "attn_kernel": kernel, "source": "analysis/measure_layers.py",
        "notes": f"mean of {LAYERS} layers; PyTorch {torch.__version__}; {result[2]:.0f} bytes held for the backward"}
    for letter, name, value in (("f", "forward", result[0]), ("b", "backward", result[1])):
        yield {"id": f"L{number:03d}{letter}", "metric": f"layer {name}", "value_ms": f"{value:.5g}", **shared}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for layers.csv")
    parser.add_argument("--eager", action="store_true", help="nothing compiled, which saves most of the time")
    options = parser.parse_args()
    number = 0
    with create(options.output / "layers.csv") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for compiled in (False,) if options.eager else (False, True):
            for model, tokens, batch in CASES:
                for kernel in KERNELS:
                    if compiled and kernel != "cuDNN":
                        continue
                    number += 1
                    torch.cuda.empty_cache()
                    try:
                        result = measure(model, tokens, batch, kernel, compiled)
                    except (RuntimeError, TypeError, torch.OutOfMemoryError) as error:
                        print(f"not measured: {model} {tokens} x {batch} {kernel}: {str(error)[:300]}", file=sys.stderr)
                        continue
                    writer.writerows(rows_of(number, model, tokens, batch, kernel, compiled, result))
                    file.flush()


if __name__ == "__main__":
    exit_with(main)

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU whole training steps of small Llamas of Hugging Face Transformers: bf16 weights and gradients, Adam
with fp32 states and weights, one micro-batch a step. Writes training.csv and memory.csv, raw tables:
model/validation/normalise.py makes rows for `slimsim validate` of them.

A step is repeated for some seconds, so that clocks are those of lasting load; its time is the median of the second half.
Needs PyTorch 2.8 or later and Transformers 5.
"""
import argparse
import csv
import math
import multiprocessing
import pathlib
import statistics
import sys
import time

from measure_networks import Adam
from output import create, exit_with

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(f"{__file__}: {sys.executable} has no {error.name}: install PyTorch for CUDA, 2.8 or later, and Transformers 5",
          file=sys.stderr)
    sys.exit(2)

TRAINING = ("id trust split gpu fabric framework model params_b hidden layers heads kv_groups ffn vocab activation seq_len "
            "n_gpus tp sp pp vpp cp dp sharding mbs gbs n_microbatch recompute offload precision attn_kernel tp_comm_overlap "
            "step_time_s tokens_per_s tps_per_gpu tps_origin tflops_per_gpu mfu_pct flops_formula source notes").split()
MEMORY = ("id trust split gpu framework model hidden layers heads kv_groups ffn vocab activation norm seq_len n_gpus tp sp pp "
          "vpp cp dp sharding mbs gbs n_microbatch recompute offload precision attn_backend metric value_bytes value_printed "
          "ranks source notes").split()
GPU = "H100-SXM-80GB"  # a text of model/validation/dictionary.csv
SECONDS = 4.0
KERNELS = {"FlashAttention-2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}
MODELS = {  # hidden, layers, heads, groups of keys and values, ffn, vocabulary, tied
    "Llama-3.2 1B": (2048, 16, 32, 8, 8192, 128256, True), "TinyLlama 1.1B": (2048, 22, 32, 4, 5632, 32000, False),
    "Llama-2 7B of 8 layers": (4096, 8, 32, 32, 11008, 32000, False),
    "Llama-2 13B of 5 layers": (5120, 5, 40, 40, 13824, 32000, False)}
CASES = [  # model, tokens, micro-batch, recomputation, kernel, compiled
    ("Llama-3.2 1B", 8192, 1, "none", "cuDNN", False), ("TinyLlama 1.1B", 2048, 8, "none", "FlashAttention-2", False),
    ("TinyLlama 1.1B", 2048, 8, "none", "cuDNN", True), ("Llama-2 7B of 8 layers", 4096, 2, "none", "FlashAttention-2", False),
    ("Llama-2 7B of 8 layers", 4096, 2, "none", "cuDNN", False), ("Llama-2 7B of 8 layers", 4096, 2, "none", "cuDNN", True),
    ("Llama-2 7B of 8 layers", 4096, 4, "full", "cuDNN", False), ("Llama-2 7B of 8 layers", 16384, 1, "full", "cuDNN", False),
    ("Llama-2 13B of 5 layers", 4096, 2, "none", "cuDNN", False), ("Llama-2 13B of 5 layers", 4096, 2, "none", "cuDNN", True)]


def causal_attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, **_):
    """Causal by the kernel's own flag. Transformers' "sdpa" compiled as a whole passes a mask instead, with which the
    kernel computes the whole square; for a function of another name it makes none."""
    assert attention_mask is None
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                                           enable_gqa=query.shape[1] > key.shape[1])
    return out.transpose(1, 2).contiguous(), None


def measure(model, tokens, batch, recompute, kernel, compiled):
    """Seconds of a step and the peak of allocated memory [bytes]."""
    hidden, layers, heads, groups, ffn, vocabulary, tied = MODELS[model]
    torch.compiler.reset()
    AttentionInterface.register("causal", causal_attention)
    config = LlamaConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups,
                         intermediate_size=ffn, vocab_size=vocabulary, tie_word_embeddings=tied, attn_implementation="causal",
                         max_position_embeddings=tokens, use_cache=False)
    with torch.device("cuda"):
        network = LlamaForCausalLM(config).bfloat16().train()
    if recompute == "full":
        network.gradient_checkpointing_enable({"use_reentrant": False})
    if compiled:
        network.compile(dynamic=False)
    adam = Adam(network.parameters())
    ids = torch.randint(0, vocabulary, (batch, tokens), device="cuda")

    def step():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        loss = network(input_ids=ids, labels=ids).loss
        loss.backward()
        adam.step()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3, loss.item()

    with sdpa_kernel(KERNELS[kernel]):
        for _ in range(3):
            step()
        torch.cuda.reset_peak_memory_stats()
        samples, begin = [], time.monotonic()
        while time.monotonic() - begin < SECONDS:
            samples.append(step())
    if not math.isfinite(samples[-1][1]):
        raise RuntimeError("the loss is not finite: such values take less power, and clocks are higher than in training")
    later = [seconds for seconds, _ in samples[len(samples) // 2:]]
    return statistics.median(later), torch.cuda.max_memory_allocated()


def rows_of(number, case, seconds, peak_bytes):
    model, tokens, batch, recompute, kernel, compiled = case
    hidden, layers, heads, groups, ffn, vocabulary, tied = MODELS[model]
    shared = {
        "trust": "A", "split": "open", "gpu": GPU, "framework": "Transformers" + (" (torch.compile)" if compiled else " (eager)"),
        "model": model, "hidden": hidden, "layers": layers, "heads": heads, "kv_groups": groups, "ffn": ffn,
        "vocab": vocabulary, "activation": "swiglu", "norm": "rmsnorm", "seq_len": tokens, "n_gpus": 1, "tp": 1, "sp": 0, "pp": 1,
        "vpp": 1, "cp": 1, "dp": 1, "sharding": "ZeRO-0, bf16 gradients", "mbs": batch, "gbs": batch, "n_microbatch": 1,
        "recompute": "full (use_reentrant=False)" if recompute == "full" else recompute, "precision": "bf16",
        "attn_kernel": kernel, "attn_backend": kernel, "source": "analysis/measure_training.py",
        "notes": f"{'tied' if tied else 'untied'} embeddings; PyTorch {torch.__version__}"}
    training = {"id": f"T{number:03d}", "tps_per_gpu": f"{tokens * batch / seconds:.1f}", **shared}
    memory = {"id": f"T{number:03d}m", "metric": "max_memory_allocated", "value_bytes": peak_bytes, "ranks": "the only one",
              **shared}
    return training, memory


def attempt(case):
    try:
        return measure(*case)
    except (AssertionError, RuntimeError, TypeError, torch.OutOfMemoryError) as error:
        print(f"not measured: {case}: {str(error)[:300]}", file=sys.stderr)
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for the two files")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", choices=range(1, len(CASES) + 1),
                        help=f"numbers of cases, 1 to {len(CASES)}")
    options = parser.parse_args()
    files = [create(options.output / name) for name in ("training.csv", "memory.csv")]
    writers = [csv.DictWriter(file, columns, lineterminator="\n", extrasaction="ignore")
               for file, columns in zip(files, (TRAINING, MEMORY))]
    for writer in writers:
        writer.writeheader()
    # A process for each case: what compiled before keeps its parameters, which would count in the next peak.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        numbers = options.only or range(1, len(CASES) + 1)
        for number, result in zip(numbers, pool.imap(attempt, [CASES[number - 1] for number in numbers])):
            if result:
                for writer, file, row in zip(writers, files, rows_of(number, CASES[number - 1], *result)):
                    writer.writerow(row)
                    file.flush()


if __name__ == "__main__":
    exit_with(main)

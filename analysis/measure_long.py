#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU causal attention of 8Ki to 256Ki tokens under lasting load: the kernel alone in a loop, and the same
kernel between the GEMMs of Llama-3 8B's layers, which are timed too. Writes long.csv, which has the columns of
model/validation/kernels.csv; clock and power are in shape_note.

A time is a median over the second half of a loop that runs for a second or more. Needs PyTorch 2.8 or later.
"""
import sys

from measure_common import KERNEL_COLUMNS, attempt, begin, gemm_shape, lasting, noise, seconds_of, torch
from output import exit_with
from torch.nn.attention import SDPBackend, sdpa_kernel

KERNELS = {"FlashAttention-2 (PyTorch)": SDPBackend.FLASH_ATTENTION, "cuDNN (PyTorch)": SDPBackend.CUDNN_ATTENTION}
WEIGHTS = {"QKV": (6144, 4096), "projection": (4096, 4096), "up": (28672, 4096), "down": (4096, 14336)}  # Llama-3 8B, N and K
TOKENS = (32768, 131072, 8192, 65536, 16384, 262144)  # first what matters most
COOL_TOKENS = (32768, 8192)
HEADS, KV_HEADS, WIDTH = 32, 8, 128
ALONE_S, LAYERS_S = 1.0, 2.0
ROUND_S, ASSUMED_FLOP_PER_S = 0.05, 4e14  # a round of the loop; only for how many calls make one
ROUND_TOKENS = 32768  # tokens of all layers of a round


def attention_flop(tokens, backward):
    return 4 * HEADS * WIDTH * tokens * tokens / 2 * (2.5 if backward else 1)


def attend(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=k.shape[1] < q.shape[1])


def heads_of(tokens, kv_heads):
    return [noise(1, tokens, heads, WIDTH).transpose(1, 2).requires_grad_() for heads in (HEADS, kv_heads, kv_heads)]


def alone(tokens, kv_heads, backward):
    q, k, v = heads_of(tokens, kv_heads)
    calls = max(1, round(ROUND_S * ASSUMED_FLOP_PER_S / attention_flop(tokens, backward)))
    if backward:
        out = attend(q, k, v)
        gradient = torch.randn_like(out)
        call = lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True)
    else:
        call = lambda: attend(q, k, v)

    def once(mark):
        mark("")
        for _ in range(calls):
            call()
        mark("attention")

    spans, state = lasting(once, ALONE_S, warm=tokens < max(TOKENS))  # the longest ran in layers before
    return spans["attention"] / calls, state


def gemm_buffers(tokens):
    """Weights, their gradients, and what the GEMMs of a layer read and write."""
    outs, ins = zip(*WEIGHTS.values())
    return {"weights": {op: noise(n, k) * 0.02 for op, (n, k) in WEIGHTS.items()},
            "gradients": {op: noise(n, k) for op, (n, k) in WEIGHTS.items()}, "in": {k: noise(tokens, k) for k in set(ins)},
            "back": {k: noise(tokens, k) for k in set(ins)}, "out": {n: noise(tokens, n) for n in set(outs)}}


def gemm(buffers, op, which):
    n, k = WEIGHTS[op]
    x, y, weight = buffers["in"][k], buffers["out"][n], buffers["weights"][op]
    if which == "fwd":
        torch.mm(x, weight.t(), out=y)
    elif which == "wgrad":
        torch.mm(y.t(), x, out=buffers["gradients"][op])
    else:
        torch.mm(y, weight, out=buffers["back"][k])  # not x: values would grow from layer to layer


def in_layers(tokens):
    """Seconds of spans of a layer's forward and backward."""
    q, k, v = heads_of(tokens, KV_HEADS)
    gradient = noise(1, tokens, HEADS, WIDTH).transpose(1, 2)
    buffers = gemm_buffers(tokens)
    layers = max(1, ROUND_TOKENS // tokens)

    def layer(mark):
        def gemms(op, *passes):
            for which in passes:
                gemm(buffers, op, which)
                mark(f"{op} {which}")

        gemms("QKV", "fwd")
        out = attend(q, k, v)
        mark("attention fwd")
        for op in ("projection", "up", "down"):
            gemms(op, "fwd")
        for op in ("down", "up", "projection"):
            gemms(op, "wgrad", "dgrad")
        torch.autograd.grad(out, (q, k, v), gradient)
        mark("attention bwd")
        gemms("QKV", "wgrad", "dgrad")

    def once(mark):
        mark("")
        for _ in range(layers):
            layer(mark)

    spans, state = lasting(once, LAYERS_S)
    return {name: seconds / layers for name, seconds in spans.items()}, state


def add_attention(rows, kind, library, tokens, kv_heads, backward, seconds, state):
    rows.add(kind=kind, split="open", dtype="bf16", library=library, op="attention", **{"pass": "bwd" if backward else "fwd"},
             batch=1, seq_len=tokens, keys=tokens, heads=HEADS, kv_heads=kv_heads, head_dim=WIDTH, causal=1, shape_note=state,
             time_ms=f"{seconds * 1e3:.6g}", tflops=f"{attention_flop(tokens, backward) / seconds * 1e-12:.1f}")


def add_gemm(rows, kind, tokens, op, which, seconds, state):
    n, k = WEIGHTS[op]
    m, columns, depth = gemm_shape(which, tokens, n, k)
    rows.add(kind=kind, split="open", dtype="bf16", library="cuBLAS (PyTorch)", op=f"linear {which}",
             **{"pass": "fwd" if which == "fwd" else "bwd"}, m=m, n=columns, k=depth, shape_note=f"Llama-3 8B {op}; {state}",
             time_ms=f"{seconds * 1e3:.6g}", tflops=f"{2 * tokens * n * k / seconds * 1e-12:.1f}")


def measure(rows, library, tokens):
    """The kernel in layers, then alone with as many heads of keys, and for every second length with as many as queries."""
    with sdpa_kernel(KERNELS[library]):
        result = attempt(f"{library} {tokens} in layers", in_layers, tokens)
        torch.cuda.empty_cache()
        for name, seconds in (result[0] if result else {}).items():
            op, which = name.split()
            note = f"between attention of {library}, {tokens} tokens; {result[1]}"
            if op == "attention":
                add_attention(rows, "attention-in-layers", library, tokens, KV_HEADS, which == "bwd", seconds, result[1])
            else:
                add_gemm(rows, "gemm-in-layers", tokens, op, which, seconds, note)
        for kv_heads in (KV_HEADS, HEADS) if tokens in TOKENS[:3] else (KV_HEADS,):
            for backward in (False, True):
                result = attempt(f"{library} {tokens} alone", alone, tokens, kv_heads, backward)
                if result:
                    add_attention(rows, "attention-lasting", library, tokens, kv_heads, backward, *result)


def measure_cool(rows, tokens):
    """The same GEMMs with pauses between, each replayed in a graph."""
    buffers = gemm_buffers(tokens)
    for op in WEIGHTS:
        for which in ("fwd", "wgrad", "dgrad"):
            seconds = attempt(f"{op} {which}", lambda: seconds_of([lambda: gemm(buffers, op, which)] * 2, samples=5))
            if seconds:
                add_gemm(rows, "gemm", tokens, op, which, seconds, "with pauses")


def main():
    rows, budget = begin(__doc__, "long", KERNEL_COLUMNS, "A{:04d}")
    for tokens, library in budget.within([(tokens, library) for tokens in TOKENS[:-1] for library in KERNELS], "lengths"):
        measure(rows, library, tokens)
    for tokens in budget.within(COOL_TOKENS, "lengths of GEMMs with pauses"):
        attempt(f"GEMMs of {tokens} tokens", measure_cool, rows, tokens)
    for library in budget.within(KERNELS, "kernels of the longest"):
        measure(rows, library, TOKENS[-1])
    print(f"{rows.count} rows", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU the kernels of a mixture of experts: grouped GEMMs forward and backward, as one kernel of PyTorch and as
cuBLAS products one by one and on four streams, the router, permute, unpermute and SwiGLU. Writes experts.csv.

A time is that of a kernel in a full queue, on buffers that the cache cannot hold; all but long grouped GEMMs are replayed in
a CUDA graph, so that no launch counts. Needs PyTorch 2.10 or later.
"""
import functools
import math
import random
import sys

from measure_common import DEVICE, attempt, begin, brief_seconds_of, gradients_of, n_sets, noise, torch
from measure_networks import FUSED, swiglu
from output import exit_with

COLUMNS = ("id kind trust gpu dtype library op pass groups m_per_group n k tokens hidden topk experts time_ms tflops gbps source "
           "notes").split()
MODELS = {  # hidden, width of an expert, experts, chosen ones of a token
    "Qwen3-30B-A3B": (2048, 768, 128, 8), "DeepSeek-V3": (7168, 2048, 256, 8), "Mixtral 8x7B": (4096, 14336, 8, 2)}
PASSES = ("fwd", "dgrad", "wgrad")
TOKENS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)  # of an expert
EXPERTS = (8, 32, 128, 16, 64)  # on the rank, first what matters most
MOST_TOKENS, MOST_FLOP, MOST_BYTES = 1 << 18, 2e13, 8 << 30  # of all experts; FLOP of a call; bytes of weights
GROUPED, LOOP, STREAMS = "torch._grouped_mm", "cuBLAS (PyTorch), one by one", "cuBLAS (PyTorch), four streams"
SHORT_FLOP = 1e11  # of a call, below which the host may be slower than the kernel
UNEQUAL = (64, 1024, (0.5, 1.0))  # experts, mean of tokens, sigmas of a lognormal law
ROUTED_TOKENS = (4096, 16384)


def widths(model, gemm):
    """N and K of an expert's weight; gate and up are one."""
    hidden, width = MODELS[model][:2]
    return (2 * width, hidden) if gemm == "up" else (hidden, width)


@functools.lru_cache(maxsize=1)
def operands(model, gemm):
    """Inputs, gradients and weights, which all cases of a GEMM share."""
    n, k = widths(model, gemm)
    torch.cuda.empty_cache()
    tokens = int(min(MOST_TOKENS, MOST_FLOP / (2 * n * k))) // 64 * 64
    experts = min(max(EXPERTS), MOST_BYTES // (2 * n * k))
    return noise(tokens, k), noise(tokens, n), noise(experts, n, k) * 0.02


def grouped(kind, x, gradient, weights, counts):
    """A call of the product of all experts."""
    ends = torch.tensor(counts, device=DEVICE).cumsum(0).to(torch.int32)
    return {"fwd": lambda: torch._grouped_mm(x, weights.transpose(-2, -1), offs=ends),
            "dgrad": lambda: torch._grouped_mm(gradient, weights, offs=ends),
            "wgrad": lambda: torch._grouped_mm(gradient.t(), x, offs=ends)}[kind]


def products(kind, x, gradient, weights, counts, streams=()):
    """The same by cuBLAS, an expert at a time, on the streams in turn if there are any."""
    parts = list(zip(x.split(counts), gradient.split(counts), weights))
    if kind == "wgrad":
        outs = torch.empty_like(weights)
        calls = [functools.partial(torch.mm, g.t(), a, out=out) for (a, g, _), out in zip(parts, outs)]
    elif kind == "fwd":
        outs = torch.empty_like(gradient)
        calls = [functools.partial(torch.mm, a, w.t(), out=out) for (a, _, w), out in zip(parts, outs.split(counts))]
    else:
        outs = torch.empty_like(x)
        calls = [functools.partial(torch.mm, g, w, out=out) for (_, g, w), out in zip(parts, outs.split(counts))]

    def one_by_one():
        for call in calls:
            call()
        return outs

    def in_turn():
        current = torch.cuda.current_stream()
        for stream in streams:
            stream.wait_stream(current)
        for i, call in enumerate(calls):
            with torch.cuda.stream(streams[i % len(streams)]):
                call()
        for stream in streams:
            current.wait_stream(stream)
        return outs

    return in_turn if streams else one_by_one


@functools.cache
def four_streams():
    return [torch.cuda.Stream() for _ in range(4)]


@functools.cache
def captures():
    """Whether a CUDA graph can hold a grouped GEMM."""
    call = grouped("fwd", noise(128, 64), noise(128, 64), noise(2, 64, 64), [64, 64])
    return attempt("a grouped GEMM in a graph", brief_seconds_of, [call]) is not None


def gemm_seconds(library, model, gemm, kind, counts):
    x, gradient, weights = operands(model, gemm)
    total, experts = sum(counts), len(counts)
    calls = []
    for i in range(min(8, len(x) // total, len(weights) // experts)):
        rows, own = slice(i * total, (i + 1) * total), slice(i * experts, (i + 1) * experts)
        case = kind, x[rows], gradient[rows], weights[own], counts
        calls.append(grouped(*case) if library == GROUPED else products(*case, four_streams() if library == STREAMS else ()))
    long = 2 * total * math.prod(widths(model, gemm)) > SHORT_FLOP
    return brief_seconds_of(calls, graphed=library != GROUPED or (captures() and not long))


def check_products():
    """All libraries compute the same."""
    counts = [64, 8, 192, 120]
    case = noise(384, 128), noise(384, 256), noise(4, 256, 128) * 0.02, counts
    for kind in PASSES:
        expected = products(kind, *case)().float()
        for found in (grouped(kind, *case)(), products(kind, *case, four_streams())()):
            torch.cuda.synchronize()
            error = ((found.float() - expected).norm() / expected.norm()).item()
            if not error < 1e-2:
                raise RuntimeError(f"{kind}: products differ by {error:.3g}")


def add_gemm(rows, library, model, gemm, kind, counts):
    n, k = widths(model, gemm)
    seconds = attempt(f"{library} {model} {gemm} {kind} {len(counts)} experts, {sum(counts)} tokens", gemm_seconds, library, model,
                      gemm, kind, counts)
    if seconds:
        equal = min(counts) == max(counts)
        rows.add(kind="grouped-gemm", dtype="bf16", library=library, op=f"{model} {gemm}", **{"pass": kind}, groups=len(counts),
                 m_per_group=counts[0] if equal else f"{sum(counts) / len(counts):.1f}", n=n, k=k, tokens=sum(counts),
                 hidden=MODELS[model][0], experts=len(counts), time_ms=f"{seconds * 1e3:.6g}",
                 tflops=f"{2 * sum(counts) * n * k / seconds * 1e-12:.1f}",
                 notes=rows.shared["notes"] + ("" if equal else "; tokens of the experts: " + " ".join(map(str, counts))))


def equal_cases(library, expert_counts=EXPERTS, token_counts=TOKENS):
    """Order: experts, then model and GEMM, whose operands are kept."""
    for experts in expert_counts:
        for model in MODELS:
            for gemm in ("up", "down"):
                n, k = widths(model, gemm)
                if 2 * experts * n * k > MOST_BYTES:
                    continue
                for tokens in token_counts:
                    if experts * tokens <= MOST_TOKENS and 2 * experts * tokens * n * k <= MOST_FLOP:
                        for kind in PASSES:
                            yield library, model, gemm, kind, [tokens] * experts


def unequal_cases():
    experts, mean, sigmas = UNEQUAL
    for sigma in sigmas:
        draw = random.Random(1)
        raw = [draw.lognormvariate(0, sigma) for _ in range(experts)]
        counts = [max(1, round(mean * experts * value / sum(raw))) for value in raw]
        print(f"lognormal, sigma {sigma}: {counts}", file=sys.stderr)
        for model in ("Qwen3-30B-A3B", "DeepSeek-V3"):
            for gemm in ("up", "down"):
                for kind in PASSES:
                    for library in (GROUPED, STREAMS):
                        yield library, model, gemm, kind, counts


# Kernels around the experts


def weighted_sum(permuted, back, weights):
    return (permuted.index_select(0, back).view(len(weights), -1, permuted.shape[1]) * weights[:, :, None]).sum(1)


def routing(tokens, experts, topk):
    """Experts of the tokens, drawn alike; the token of each permuted row, and the row of each chosen expert."""
    chosen = torch.rand(tokens, experts, device=DEVICE).topk(topk).indices
    order = chosen.flatten().argsort(stable=True)
    return chosen, order // topk, order.argsort()


def kernels_of(model, tokens):
    """Name, pass, bytes that have to move, and what makes one call."""
    hidden, width, experts, topk = MODELS[model]
    rows = tokens * topk
    chosen, source, back = routing(tokens, experts, topk)
    functional = torch.nn.functional
    router = noise(experts, hidden, dtype=torch.float32) * 0.02
    probabilities = torch.rand(tokens, topk, device=DEVICE, dtype=torch.bfloat16)
    flat = probabilities.flatten()[back.argsort()]
    route = lambda x, w: functional.linear(x.float(), w).softmax(-1).topk(topk).values
    add = lambda y, p: y.new_zeros(tokens, hidden).index_add_(0, source, y * p[:, None])
    scatter = lambda y: y.new_zeros(tokens, hidden).scatter_add_(0, source[:, None].expand(-1, hidden), y * flat[:, None])
    of = lambda function, *shapes: lambda: (lambda args: lambda: function(*args))([noise(*shape) for shape in shapes])
    back_of = lambda function, make: lambda: gradients_of(function, make())
    permuted, both = (rows, hidden), (rows, 2 * width)
    one, many = 2 * tokens * hidden, 2 * rows * hidden
    yield "router GEMM, fp32", "fwd", one, of(lambda x: functional.linear(x.float(), router), (tokens, hidden))
    yield "router softmax and top-k", "fwd", 4 * tokens * experts, lambda: (
        lambda x: lambda: x.softmax(-1).topk(topk))(noise(tokens, experts, dtype=torch.float32))
    yield "router", "fwd", one, of(lambda x: route(x, router), (tokens, hidden))
    yield "router", "bwd", 2 * one, back_of(route, lambda: [noise(tokens, hidden), router.clone()])
    yield "sort of expert ids", "fwd", 16 * rows, lambda: lambda: chosen.flatten().argsort(stable=True)
    yield "permute", "fwd", one + many, of(lambda x: x.index_select(0, source), (tokens, hidden))
    yield "permute", "bwd", one + many, back_of(lambda x: x.index_select(0, source), lambda: [noise(tokens, hidden)])
    yield "unpermute, scatter_add", "fwd", one + many, of(scatter, permuted)
    yield "unpermute, index_add", "fwd", one + many, of(lambda y: add(y, flat), permuted)
    yield "unpermute, index_add", "bwd", one + 2 * many, back_of(add, lambda: [noise(*permuted), flat.clone()])
    yield "unpermute, sum over top-k", "fwd", one + many, of(lambda y: weighted_sum(y, back, probabilities), permuted)
    yield "swiglu", "fwd", 6 * rows * width, of(swiglu, both)
    yield "swiglu", "bwd", 10 * rows * width, back_of(swiglu, lambda: [noise(*both)])


def compiled_kernels_of(model, tokens):
    hidden, width, experts, topk = MODELS[model]
    rows = tokens * topk
    _, _, back = routing(tokens, experts, topk)
    probabilities = torch.rand(tokens, topk, device=DEVICE, dtype=torch.bfloat16)
    total = torch.compile(weighted_sum, dynamic=False)
    once = lambda function, *shape: lambda: (lambda x: lambda: function(x))(noise(*shape))
    yield "compiled swiglu", "fwd", 6 * rows * width, once(FUSED[1], rows, 2 * width)
    yield "compiled swiglu", "bwd", 10 * rows * width, lambda: gradients_of(FUSED[1], [noise(rows, 2 * width)])
    yield "compiled unpermute, sum over top-k", "fwd", 2 * (tokens + rows) * hidden, once(
        lambda y: total(y, back, probabilities), rows, hidden)


def add_kernels(rows, kernels, model, tokens):
    hidden, _, experts, topk = MODELS[model]
    for op, which, n_bytes, make in kernels(model, tokens):
        seconds = attempt(f"{op} {which} {model} {tokens}",
                          lambda: brief_seconds_of([make() for _ in range(n_sets(n_bytes, 16, 1))]))
        if seconds:
            rows.add(kind="memory-bound", dtype="bf16", library="PyTorch", op=f"{op}: {model}", **{"pass": which}, tokens=tokens,
                     hidden=hidden, topk=topk, experts=experts, time_ms=f"{seconds * 1e3:.6g}",
                     gbps=f"{n_bytes / seconds * 1e-9:.1f}")


def main():
    rows, budget = begin(__doc__, "experts", COLUMNS, "E{:04d}")
    attempt("check of the products", check_products)
    routed = [(model, tokens) for tokens in ROUTED_TOKENS for model in MODELS]
    for model, tokens in budget.within(routed, "eager kernels"):
        attempt(f"kernels of {model}", add_kernels, rows, kernels_of, model, tokens)
    for cases in (equal_cases(GROUPED), unequal_cases(), equal_cases(STREAMS, EXPERTS[:3], TOKENS[::2])):
        for case in budget.within(cases, "GEMMs"):
            add_gemm(rows, *case)
    operands.cache_clear()
    for model, tokens in budget.within(routed[len(MODELS):], "compiled kernels"):
        attempt(f"compiled kernels of {model}", add_kernels, rows, compiled_kernels_of, model, tokens)
    for case in budget.within(equal_cases(LOOP, EXPERTS[:3], TOKENS[::2]), "GEMMs"):
        add_gemm(rows, *case)
    print(f"{rows.count} rows", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU what FP8 training adds: GEMMs by torch._scaled_mm with scales of a tensor, of rows and of blocks beside
those in bf16, and casts with and without a transposed copy. Writes precision.csv, which has the columns of
model/validation/kernels.csv.

Shapes are those of the linear layers of Llama-3 8B and 70B. The GEMM's operands are cast before. A time is that of a kernel
in a full queue, of casts in a CUDA graph, on buffers that the cache cannot hold. Needs PyTorch 2.10 or later and Triton.
"""
import sys

from measure_common import DEVICE, KERNEL_COLUMNS, attempt, begin, brief_seconds_of, gemm_shape, n_sets, noise, torch
from output import exit_with

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MODELS = {"Llama-3 8B": (4096, 14336, 32, 8), "Llama-3 70B": (8192, 28672, 64, 8)}  # hidden, ffn, heads, groups; heads of 128
TP = (1, 8, 4, 2)
TOKENS = (8192, 4096)
OTHER_TOKENS = (1024, 2048, 16384)  # with TP 1, last
CAST_SHAPES = ((8192, 4096), (8192, 14336), (4096, 8192))
FP8, LARGEST = torch.float8_e4m3fn, 448.0
TILE = 64


def weights(model, tp):
    """N and K of a layer's linear operations on a rank."""
    hidden, ffn, heads, groups = MODELS[model]
    return {"QKV": (128 * (heads + 2 * groups) // tp, hidden), "projection": (hidden, 128 * heads // tp),
            "up": (2 * ffn // tp, hidden), "down": (hidden, ffn // tp)}


def fp8_calls(m, n, k, scaling, fast):
    """A (M x K) by B (K x N), both with K innermost, as Hopper wants them in every pass."""
    one = lambda *shape: torch.ones(shape, device=DEVICE)
    scales = {"tensor": lambda: (one(), one()), "rows": lambda: (one(m, 1), one(1, n)),
              "blocks": lambda: (one(k // 128, m).t(), one(n // 128, k // 128).t())}[scaling]()

    def call():
        a, b = noise(m, k).to(FP8), noise(n, k).to(FP8).t()
        return lambda: torch._scaled_mm(a, b, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16, use_fast_accum=fast)

    return [call() for _ in range(n_sets(m * k + n * k + 2 * m * n, 8, 2))]


def bf16_calls(m, n, k):
    def call():
        a, b, out = noise(m, k), noise(n, k).t(), noise(m, n)
        return lambda: torch.mm(a, b, out=out)

    return [call() for _ in range(n_sets(2 * (m * k + n * k + m * n), 8, 2))]


KINDS = {  # dtype, library, what makes the calls
    "bf16": ("bf16", "cuBLAS (PyTorch)", bf16_calls),
    "tensor, fast": ("fp8", "torch._scaled_mm, scale of a tensor", lambda *shape: fp8_calls(*shape, "tensor", True)),
    "tensor": ("fp8", "torch._scaled_mm, scale of a tensor, split accumulation",
               lambda *shape: fp8_calls(*shape, "tensor", False)),
    "rows": ("fp8", "torch._scaled_mm, scales of rows", lambda *shape: fp8_calls(*shape, "rows", True)),
    "blocks": ("fp8", "torch._scaled_mm, scales of 1x128 and 128x128", lambda *shape: fp8_calls(*shape, "blocks", False))}


def gemm_cases(which, tokens, tps):
    """Forwards are measured with fast accumulation, gradients without it, as Transformer Engine does."""
    kinds = ("bf16", "tensor, fast" if which == "fwd" else "tensor", "rows")
    for tp in tps:
        for model in MODELS:
            for op, (n, k) in weights(model, tp).items():
                for count in tokens:
                    for kind in kinds:
                        yield kind, which, f"{model} TP{tp} {op}", gemm_shape(which, count, n, k)


def other_cases():
    for model in MODELS:
        for op, (n, k) in weights(model, 1).items():
            for kind in ("tensor", "blocks"):
                yield kind, "fwd", f"{model} TP1 {op}", (8192, n, k)


def add_gemm(rows, kind, which, note, shape):
    dtype, library, calls = KINDS[kind]
    seconds = attempt(f"{library} {which} {note} {shape}", lambda: brief_seconds_of(calls(*shape), graphed=False))
    if seconds:
        m, n, k = shape
        rows.add(kind="gemm", split="open", dtype=dtype, library=library, op=f"linear {which}",
                 **{"pass": "fwd" if which == "fwd" else "bwd"}, m=m, n=n, k=k, shape_note=note, time_ms=f"{seconds * 1e3:.6g}",
                 tflops=f"{2 * m * n * k / seconds * 1e-12:.1f}")


# Casts

if triton:
    @triton.jit
    def cast_transpose_kernel(x, y, turned, scale, rows, columns, tile: tl.constexpr):
        i = tl.program_id(0) * tile + tl.arange(0, tile)
        j = tl.program_id(1) * tile + tl.arange(0, tile)
        value = tl.load(x + i[:, None] * columns + j[None, :]).to(tl.float32) * tl.load(scale)
        value = tl.minimum(tl.maximum(value, -448.0), 448.0)
        tl.store(y + i[:, None] * columns + j[None, :], value.to(tl.float8e4nv))
        tl.store(turned + j[:, None] * rows + i[None, :], tl.trans(value).to(tl.float8e4nv))


def fused_cast_transpose(x, scale):
    y, turned = torch.empty_like(x, dtype=FP8), torch.empty(x.shape[1], x.shape[0], device=x.device, dtype=FP8)
    cast_transpose_kernel[(x.shape[0] // TILE, x.shape[1] // TILE)](x, y, turned, scale, *x.shape, TILE)
    return y, turned


def cast(x, scale):
    return (x.float() * scale).clamp(-LARGEST, LARGEST).to(FP8)


def cast_transpose(x, scale):
    y = cast(x, scale)
    return y, y.t().contiguous()


def scale_of(amax):
    return LARGEST / amax.float().clamp(min=1e-12)


def amax(x, _scale):
    return x.abs().amax()


def cast_measured(x, _scale):
    scale = scale_of(x.abs().amax())
    return cast(x, scale), scale


def cast_rows(x, _scale):
    scale = scale_of(x.abs().amax(-1, keepdim=True))
    return cast(x, scale), scale


def cast_blocks(x, _scale):
    """Blocks of 1 x 128."""
    parts = x.view(len(x), -1, 128)
    scale = scale_of(parts.abs().amax(-1, keepdim=True))
    return cast(parts, scale).view(x.shape), scale


def cast_squares(x, _scale):
    """Blocks of 128 x 128, as weights have them."""
    parts = x.view(len(x) // 128, 128, -1, 128)
    scale = scale_of(parts.abs().amax((1, 3), keepdim=True))
    return cast(parts, scale).view(x.shape), scale


def cast_both_ways(x, scale):
    """Blocks of 1 x 128 of the tensor and of its transposed copy."""
    return *cast_blocks(x, scale), *cast_blocks(x.t().contiguous(), scale)


def turn(y, _scale):
    return y.t().contiguous()


CASTS = [  # name, bytes an element that have to move, function, whether it is compiled
    ("cast to fp8", 3, cast, False), ("cast to fp8 and transpose", 4, cast_transpose, False), ("amax", 2, amax, False),
    ("amax by a norm", 2, lambda x, _: torch.linalg.vector_norm(x, float("inf")), False),
    ("transpose of fp8", 2, turn, False), ("Triton cast to fp8 and transpose", 4, fused_cast_transpose, False),
    ("cast to fp8", 3, cast, True), ("cast to fp8 and transpose", 4, cast_transpose, True), ("amax", 2, amax, True),
    ("amax and cast to fp8", 5, cast_measured, True), ("cast to fp8 by rows", 3, cast_rows, True),
    ("cast to fp8 by 1x128", 3, cast_blocks, True), ("cast to fp8 by 128x128", 3, cast_squares, True),
    ("cast to fp8 by 1x128 both ways", 4, cast_both_ways, True)]


def add_cast(rows, op, bytes_each, function, compiled, shape):
    if compiled:
        op, function = f"compiled {op}", torch.compile(function, dynamic=False)
    scale = torch.full((), 0.5, device=DEVICE)
    n_bytes = bytes_each * shape[0] * shape[1]

    def call():
        x = noise(*shape).to(FP8) if bytes_each == 2 and function is turn else noise(*shape)
        return lambda: function(x, scale)

    seconds = attempt(f"{op} {shape}", lambda: brief_seconds_of([call() for _ in range(n_sets(n_bytes, 12, 2))]))
    if seconds:
        rows.add(kind="memory-bound", split="open", dtype="fp8", library="PyTorch", op=op, **{"pass": "fwd"}, m=shape[0],
                 n=shape[1], shape_note=f"{bytes_each} bytes an element", time_ms=f"{seconds * 1e3:.6g}",
                 gbps=f"{n_bytes / seconds * 1e-9:.1f}")


def check_casts():
    """The Triton kernel writes what PyTorch does."""
    x, scale = noise(256, 128), torch.full((), 0.5, device=DEVICE)
    for found, expected in zip(fused_cast_transpose(x, scale), cast_transpose(x, scale)):
        if not torch.equal(found.float(), expected.float()):
            raise RuntimeError("the Triton cast writes something else")


def main():
    rows, budget = begin(__doc__, "precision", KERNEL_COLUMNS, "F{:04d}")
    attempt("check of casts", check_casts)
    for case in budget.within(gemm_cases("fwd", TOKENS, TP), "forward GEMMs"):
        add_gemm(rows, *case)
    casts = [(*one, shape) for shape in CAST_SHAPES for one in CASTS]
    for case in budget.within([one for one in casts if not one[3]], "eager casts"):
        add_cast(rows, *case)
    for case in budget.within(other_cases(), "GEMMs with other scales"):
        add_gemm(rows, *case)
    for which in ("wgrad", "dgrad"):
        for case in budget.within(gemm_cases(which, TOKENS[:1], TP), f"GEMMs {which}"):
            add_gemm(rows, *case)
    for case in budget.within([one for one in casts if one[3]], "compiled casts"):
        add_cast(rows, *case)
    for which in ("wgrad", "dgrad"):
        for case in budget.within(gemm_cases(which, TOKENS[1:], TP), f"GEMMs {which}"):
            add_gemm(rows, *case)
    for case in budget.within(gemm_cases("fwd", OTHER_TOKENS, TP[:1]), "forward GEMMs"):
        add_gemm(rows, *case)
    print(f"{rows.count} rows", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)

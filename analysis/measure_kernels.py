#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU, with PyTorch, what published tables of kernels lack: attention of slices behind a prefix, GEMMs of
few and of very many tokens, single passes of memory-bound kernels, copies to and from the host, GEMMs beside a kernel
that holds multiprocessors, and GEMMs under lasting load. Writes kernels.csv and copies.csv, rows for `slimsim
calibrate`; both have the columns of model/validation/kernels.csv and collectives.csv.

A time is that of a kernel in a full queue: a CUDA graph holds calls over several sets of buffers, more than the cache
holds in all, and is replayed between two events; the median of some replays over the calls in it. Needs PyTorch 2.8
or later; CuPy for the held multiprocessors.
"""
import argparse
import ctypes
import functools
import pathlib
import statistics
import sys
import time

from measure_common import (KERNEL_COLUMNS, SAMPLES, Rows, attempt, gemm_shape, gradients_of, n_sets, noise, seconds_of,
                            shared_cells, start, state_text, torch)
from output import exit_with

COPY_COLUMNS = ("id trust split gpu topology n_gpus n_nodes collective algo size_bytes time_us algbw_GBps busbw_GBps "
                "nic_per_gpu_Gbps source notes").split()
SOURCE = "analysis/measure_kernels.py"


def split_of(fitted):
    return "calib" if fitted else "open"


# Attention


def flash2_calls(slices, heads, width, backward, causal=True):
    """flash-attention 2 as PyTorch has it, one packed kernel of slices (queries, prefix), causal from the lower right."""
    queries = torch.tensor([0] + [s[0] for s in slices], device="cuda", dtype=torch.int32).cumsum(0, dtype=torch.int32)
    keys = torch.tensor([0] + [sum(s) for s in slices], device="cuda", dtype=torch.int32).cumsum(0, dtype=torch.int32)
    most = max(s[0] for s in slices), max(sum(s) for s in slices)
    total = int(queries[-1]), int(keys[-1])

    def one():
        q, k, v = noise(total[0], heads, width), noise(total[1], heads, width), noise(total[1], heads, width)
        forward = lambda: torch.ops.aten._flash_attention_forward(q, k, v, queries, keys, *most, 0.0, causal, False)
        if not backward:
            return forward
        out, lse, seed, offset, _ = forward()
        gradient = noise(*out.shape)
        return lambda: torch.ops.aten._flash_attention_backward(
            gradient, q, k, v, out, lse, queries, keys, *most, 0.0, causal, seed, offset)

    return [one() for _ in range(n_sets(2 * heads * width * (total[0] + 2 * total[1]), 8))]


def cudnn_calls(queries, keys, heads, width, causal, backward):
    def one():
        q, k, v = (noise(1, n, heads, width).transpose(1, 2) for n in (queries, keys, keys))
        forward = lambda: torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True, 0.0, causal, False)
        if not backward:
            return forward
        out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = forward()
        gradient = torch.randn_like(out)
        return lambda: torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
            gradient, q, k, v, out, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, causal)

    return [one() for _ in range(n_sets(2 * heads * width * (queries + 2 * keys), 8))]


BLOCKS = {  # kernels of queries that see keys, one sample of heads 128 wide
    "cuDNN (PyTorch)": lambda queries, keys, heads, causal, backward: cudnn_calls(queries, keys, heads, 128, causal, backward),
    "FlashAttention-2 (PyTorch)": lambda queries, keys, heads, causal, backward: flash2_calls(
        [(queries, keys - queries)], heads, 128, backward, causal),
}


def add_attention(rows, library, backward, shape, causal, seconds, fitted=True):
    queries, keys, heads, kv_heads, width = shape
    whole = causal and keys == queries
    pairs = queries * (keys - queries / 2 if causal else keys)
    flop = 4 * heads * width * pairs * (2.5 if backward else 1)
    rows.add(kind="attention" if whole else "attention-slice", split=split_of(fitted and not whole), dtype="bf16",
             library=library, op="attention", **{"pass": "bwd" if backward else "fwd"}, batch=1, seq_len=queries, keys=keys,
             heads=heads, kv_heads=kv_heads, head_dim=width, causal=int(causal), time_ms=f"{seconds * 1e3:.6g}",
             tflops=f"{flop / seconds * 1e-12:.1f}")


SLICES = [(q, p) for q in (256, 512, 1024, 2048, 4096, 8192) for p in (0, 2048, 8192, 32768, 65536, 126976)]
PACKS = {  # units of slices (queries, prefix) beside whole samples
    "2048+30720 300x20": [(2048, 30720)] + [(300, 0)] * 20,
    "1024+65536 4096 2048": [(1024, 65536), (4096, 0), (2048, 0)],
    "512+4096 512+8192 512+16384 512+32768": [(512, 4096 << i) for i in range(4)],
    "8192 200x40": [(8192, 0)] + [(200, 0)] * 40,
    "4096+4096 1000x8": [(4096, 4096)] + [(1000, 0)] * 8,
    **{f"{n}x12": [(n, 0)] * 12 for n in (640, 700, 704, 768, 1000, 1024)},
}


def measure_attention(rows, quick):
    for queries, prefix in SLICES[:8:3] if quick else SLICES:
        for heads, width in ((32, 128), (8, 128)) + (((16, 64),) if queries == 2048 else ()):
            if heads * queries * (prefix + queries) <= 32 * 8192 * 70000:
                measure_slice(rows, queries, prefix, heads, width)
    for note, slices in list(PACKS.items())[: 1 if quick else None]:
        for heads in (32, 8):
            for backward in (False, True):
                seconds = attempt(note, lambda: seconds_of(flash2_calls(slices, heads, 128, backward)))
                if seconds:
                    rows.add(kind="attention-pack", split="open", dtype="bf16", library="FlashAttention-2 (PyTorch)",
                             op="packed slices", **{"pass": "bwd" if backward else "fwd"}, heads=heads, kv_heads=heads,
                             head_dim=128, causal=1, shape_note=note, time_ms=f"{seconds * 1e3:.6g}")


def measure_slice(rows, queries, prefix, heads, width):
    """With cuDNN, whose mask as PyTorch sets it begins at the upper left, the prefix alone: all queries see all its keys."""
    what = f"attention {queries}+{prefix} x {heads} x {width}"
    for backward in (False, True):
        seconds = attempt(f"flash2 {what}", lambda: seconds_of(flash2_calls([(queries, prefix)], heads, width, backward)))
        if seconds:
            add_attention(rows, "FlashAttention-2 (PyTorch)", backward, (queries, queries + prefix, heads, heads, width), True,
                          seconds)
        shape = (queries, prefix or queries, heads, width)
        seconds = attempt(f"cudnn {what}", lambda: seconds_of(cudnn_calls(*shape, prefix == 0, backward)))
        if seconds:
            add_attention(rows, "cuDNN (PyTorch)", backward, (*shape[:3], heads, width), prefix == 0, seconds)


def measure_rings(rows, quick):
    """Blocks of a context ring except a rank's own, one sample. Zigzag shards: all queries with half the keys, or half
    with all keys. Contiguous shards: all queries with all keys."""
    for tokens in (1024,) if quick else (512, 1024, 2048, 4096, 8192, 16384):
        for heads in (4, 8, 16, 32):
            for queries, keys in ((tokens, tokens // 2), (tokens // 2, tokens), (tokens, tokens)):
                for backward in (False, True):
                    for library, calls in BLOCKS.items():
                        seconds = attempt(f"ring {queries} x {keys} x {heads}",
                                          lambda: seconds_of(calls(queries, keys, heads, False, backward)))
                        if seconds:
                            add_attention(rows, library, backward, (queries, keys, heads, heads, 128), False, seconds, False)


def ring_calls(block_calls, tokens, queries, keys, heads, n_others):
    """Forwards of a rank's blocks, its own first, on two streams in turn: Transformer Engine's context_parallel.py."""
    own = block_calls(tokens, tokens, heads, True, False)
    others = block_calls(queries, keys, heads, False, False)
    side = torch.cuda.Stream()

    def ring(i):
        streams = torch.cuda.current_stream(), side
        side.wait_stream(streams[0])
        for block in range(1 + n_others):
            with torch.cuda.stream(streams[block % 2]):
                (others[(i * n_others + block) % len(others)] if block else own[i])()
        streams[0].wait_stream(side)

    return [functools.partial(ring, i) for i in range(len(own))]


def measure_whole_rings(rows, quick):
    """A rank's forward of a ring whose other blocks all have one shape. The first and the last rank of zigzag shards have
    such blocks, and the last rank of contiguous ones."""
    for tokens in (1024,) if quick else (1024, 2048, 4096, 8192):
        for heads in (4, 8, 32):
            for queries, keys in ((tokens, tokens // 2), (tokens // 2, tokens), (tokens, tokens)):
                for ranks in (2, 4, 8, 16):
                    for library, calls in BLOCKS.items():
                        note = f"{ranks} blocks on two streams: the own one of {tokens} tokens, others alike"
                        seconds = attempt(note, lambda: seconds_of(ring_calls(calls, tokens, queries, keys, heads, ranks - 1)))
                        if seconds:
                            rows.add(kind="attention-ring", split="open", dtype="bf16", library=library, op="attention",
                                     **{"pass": "fwd"}, batch=1, seq_len=queries, keys=keys, heads=heads, kv_heads=heads,
                                     head_dim=128, shape_note=note, time_ms=f"{seconds * 1e3:.6g}")


def correct(total, partial, weight):
    return total + partial * weight


def measure_ring_sums(rows, quick):
    """Copies and sums beside a ring's blocks (queries of `width`): half of them copied, a partial output added."""
    compiled = torch.compile(correct, dynamic=False)
    for tokens in (2048,) if quick else (1024, 4096, 16384):
        for width in (1024, 4096):
            def copy():
                x = noise(2, tokens // 2, width)
                return lambda: x[1].clone()

            def add():
                total, partial = noise(tokens // 2, width), noise(tokens // 2, width)
                weight = noise(tokens // 2, 1, dtype=torch.float32)
                return lambda: compiled(total, partial, weight)

            for op, bytes_each, make in (("ring's copy of half", 4, copy), ("ring's sum of outputs", 6, add)):
                one_bytes = bytes_each * tokens // 2 * width
                seconds = attempt(op, lambda: seconds_of([make() for _ in range(n_sets(one_bytes, 24))]))
                if seconds:
                    rows.add(kind="memory-bound", split="open", dtype="bf16", library="PyTorch", op=op, **{"pass": "fwd"},
                             m=tokens // 2, n=width, shape_note=f"{bytes_each} bytes an element",
                             time_ms=f"{seconds * 1e3:.6g}", gbps=f"{one_bytes / seconds * 1e-9:.1f}")


# GEMM

WEIGHTS = {  # N x K of a layer's weights: model, TP
    "7B TP1": [(12288, 4096), (4096, 4096), (22016, 4096), (4096, 11008)],
    "13B TP2": [(7680, 5120), (5120, 2560), (13824, 5120), (5120, 6912)],
    "70B TP8": [(1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584)],
}
TOKENS = (64, 256, 512, 1000, 2048, 4096, 16384, 65536)
FITTED_TOKENS = (64, 256, 16384, 65536)  # fewest and most, which published tables lack
FITTED_SUM_TOKENS = (256, 1000, 4096, 16384)
FITTED_OPS = ("layer_norm", "gelu", "compiled swiglu")  # what no published row has; others are held back


def accumulate_product(gradient, inputs, total):
    """total += gradient^T inputs by the very call that Megatron-LM's gradient accumulation makes (csrc of NVIDIA/apex,
    fused_weight_gradient_dense): cublasGemmEx on bf16 with sums in `total`, beta 1."""
    bf16, fp32, compute_fp32, tensor_op = 14, 0, 68, 99
    one = ctypes.c_float(1)
    kind = fp32 if total.dtype == torch.float32 else bf16
    pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
    status = cublas().cublasGemmEx(
        ctypes.c_void_p(torch.cuda.current_blas_handle()), 0, 1, inputs.shape[1], gradient.shape[1], gradient.shape[0],
        ctypes.byref(one), pointer(inputs), bf16, inputs.shape[1], pointer(gradient), bf16, gradient.shape[1],
        ctypes.byref(one), pointer(total), kind, inputs.shape[1], compute_fp32, tensor_op)
    if status:
        raise RuntimeError(f"cublasGemmEx returned {status}")


@functools.cache
def cublas():
    return ctypes.CDLL(f"libcublas.so.{torch.version.cuda.split('.')[0]}")


def check_accumulate():
    x, gradient, total = noise(256, 128), noise(256, 64), noise(64, 128, dtype=torch.float32)
    expected = total + gradient.float().t() @ x.float()
    accumulate_product(gradient, x, total)
    assert torch.allclose(total, expected, rtol=1e-2, atol=1e-2), "cublasGemmEx computes something else"


def gemm_calls(kind, tokens, n, k):
    """x W^T, dy W or dy^T x of a linear layer with K inputs and N outputs."""
    shapes = {"fwd": ((tokens, k), (n, k)), "dgrad": ((tokens, n), (n, k)), "wgrad": ((tokens, n), (tokens, k))}[kind[:5]]
    product = {"fwd": lambda a, b, out: torch.mm(a, b.t(), out=out), "dgrad": lambda a, b, out: torch.mm(a, b, out=out),
               "wgrad": lambda a, b, out: torch.mm(a.t(), b, out=out),
               "wgrad to fp32": lambda a, b, out: accumulate_product(a, b, out),
               "wgrad to bf16": lambda a, b, out: accumulate_product(a, b, out)}[kind]
    result = {"fwd": (tokens, n), "dgrad": (tokens, k), "wgrad": (n, k)}[kind[:5]]
    dtype = torch.float32 if kind == "wgrad to fp32" else torch.bfloat16

    def one():
        a, b, out = noise(*shapes[0]), noise(*shapes[1]) * 0.02, torch.zeros(result, device="cuda", dtype=dtype)
        return lambda: product(a, b, out)

    return [one() for _ in range(n_sets(2 * (n * k + tokens * (n + k)), 12))]


def measure_gemm(rows, quick):
    check_accumulate()
    for model, weights in WEIGHTS.items():
        for n, k in weights[:1] if quick else weights:
            for tokens in TOKENS[::6] if quick else TOKENS:
                for kind in ("fwd", "dgrad", "wgrad", "wgrad to fp32", "wgrad to bf16"):
                    fitted = FITTED_SUM_TOKENS if " to " in kind else FITTED_TOKENS
                    m_n_k = gemm_shape(kind, tokens, n, k)
                    seconds = attempt(f"gemm {m_n_k}", lambda: seconds_of(gemm_calls(kind, tokens, n, k)))
                    if seconds:
                        flop = 2 * m_n_k[0] * m_n_k[1] * m_n_k[2]
                        rows.add(kind="gemm", split=split_of(tokens in fitted), dtype="bf16",
                                 library="cuBLAS (PyTorch)", op=f"linear {kind}", **{"pass": "fwd" if kind == "fwd" else "bwd"},
                                 m=m_n_k[0], n=m_n_k[1], k=m_n_k[2], shape_note=model, time_ms=f"{seconds * 1e3:.6g}",
                                 tflops=f"{flop / seconds * 1e-12:.1f}")


# Memory-bound kernels


def rotate(x, cosine, sine):
    left, right = x.chunk(2, -1)
    return x * cosine + torch.cat((-right, left), -1) * sine


def cast(tokens, width):
    x = noise(tokens, width)
    return lambda: x.float()


def accumulate(tokens, width):
    main, x = noise(tokens, width, dtype=torch.float32), noise(tokens, width)
    return lambda: main.add_(x)


def memory_kernels():
    """name, pass, bytes an element that the cost model counts, function of tokens and width that makes one call."""
    functional = torch.nn.functional
    swiglu = torch.compile(lambda g, u: functional.silu(g) * u, dynamic=False)
    rotation = torch.compile(rotate, dynamic=False)
    weight = lambda width: noise(width)
    gelu = lambda x: functional.gelu(x, approximate="tanh")

    def of(function, *extra_of_width):
        return lambda t, w: (lambda args: lambda: function(*args))([noise(t, w)] + [f(w) for f in extra_of_width])

    def back(function, n_inputs=1):
        return lambda t, w: gradients_of(function, [noise(t, w) for _ in range(n_inputs)])

    def norm_back(function):
        return lambda t, w: gradients_of(lambda x, g: function(x, (w,), g), [noise(t, w), noise(w)])

    def two(function):
        return lambda t, w: (lambda a, b: lambda: function(a, b))(noise(t, w), noise(t, w))

    def turn(t, w):
        x, angle = noise(t, w // 128, 128), noise(t, 1, 128)
        return lambda: rotation(x, angle, angle)

    return [("rms_norm", "fwd", 4, lambda t, w: of(lambda x, g: functional.rms_norm(x, (w,), g), weight)(t, w)),
            ("rms_norm", "bwd", 6, norm_back(functional.rms_norm)),
            ("layer_norm", "fwd", 4, lambda t, w: of(lambda x, g: functional.layer_norm(x, (w,), g), weight)(t, w)),
            ("layer_norm", "bwd", 10, norm_back(functional.layer_norm)),
            ("gelu", "fwd", 4, of(gelu)), ("gelu", "bwd", 6, back(gelu)),
            ("silu", "fwd", 4, of(functional.silu)),
            ("compiled swiglu", "fwd", 6, two(swiglu)), ("compiled swiglu", "bwd", 10, back(swiglu, 2)),
            ("add", "fwd", 6, two(torch.add)), ("compiled rotation", "fwd", 4, turn), ("cast to fp32", "fwd", 6, cast),
            ("add to fp32", "bwd", 10, accumulate)]


def measure_ends(rows, quick):
    """Embedding and loss as eager PyTorch has them: no family of their own, so for comparison alone."""
    functional = torch.nn.functional
    for vocab, width, tokens in ((32000, 4096, 8192), (128256, 4096, 8192))[: 1 if quick else None]:
        table = [noise(vocab, width) for _ in range(2)]
        ids = torch.randint(0, vocab, (tokens,), device="cuda")
        logits = [noise(tokens, vocab, dtype=torch.float32) for _ in range(2)]
        compiled = torch.compile(functional.cross_entropy, dynamic=False)
        loss = lambda function: [lambda x=x: function(x, ids) for x in logits]
        back = lambda function: [gradients_of(lambda x: function(x, ids), [x]) for x in logits]
        dense = lambda t: torch.ops.aten.embedding_dense_backward(noise_out, ids, vocab, -1, False)
        noise_out = noise(tokens, width)
        for op, which, calls in (("embedding", "fwd", lambda: [lambda t=t: functional.embedding(ids, t) for t in table]),
                                 ("embedding", "bwd", lambda: [lambda t=t: dense(t) for t in table]),
                                 ("cross_entropy of fp32", "fwd", lambda: loss(functional.cross_entropy)),
                                 ("cross_entropy of fp32", "bwd", lambda: back(functional.cross_entropy)),
                                 ("compiled cross_entropy of fp32", "fwd", lambda: loss(compiled)),
                                 ("compiled cross_entropy of fp32", "bwd", lambda: back(compiled))):
            seconds = attempt(f"{op} {which}", lambda: seconds_of(calls()))
            if seconds:
                rows.add(kind="memory-bound", split="open", dtype="bf16", library="PyTorch", op=op, **{"pass": which}, m=tokens,
                         n=vocab, k=width, time_ms=f"{seconds * 1e3:.6g}")


def measure_memory(rows, quick):
    sizes = ((4096, 4096),) if quick else tuple((t, w) for t in (512, 2048, 8192, 32768) for w in (4096, 8192, 14336))
    for op, which, bytes_each, make in memory_kernels():
        for tokens, width in sizes:
            one_bytes = bytes_each * tokens * width
            calls = lambda: [make(tokens, width) for _ in range(n_sets(one_bytes, 24))]
            seconds = attempt(f"{op} {which} {tokens} x {width}", lambda: seconds_of(calls()))
            if seconds:
                rows.add(kind="memory-bound", split=split_of(op in FITTED_OPS), dtype="bf16", library="PyTorch", op=op,
                         **{"pass": which}, m=tokens, n=width, shape_note=f"{bytes_each} bytes an element",
                         time_ms=f"{seconds * 1e3:.6g}", gbps=f"{one_bytes / seconds * 1e-9:.1f}")


def measure_adam(rows, quick):
    """Fused Adam with fp32 states: gradient, weight and both moments read, the latter three written."""
    for elements in (1 << 22,) if quick else (1 << 20, 1 << 24, 1 << 28):
        states = [noise(elements, dtype=torch.float32).abs() for _ in range(4)]
        step = torch.ones((), device="cuda")
        call = lambda: torch._fused_adamw_([states[0]], [states[1]], [states[2]], [states[3]], [], [step], lr=1e-4, beta1=0.9,
                                           beta2=0.95, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)
        seconds = attempt(f"adam {elements}", lambda: seconds_of([call] * 4))
        if seconds:
            rows.add(kind="memory-bound", split="open", dtype="fp32", library="PyTorch", op="fused adam", **{"pass": "step"},
                     m=elements, n=1, shape_note="28 bytes an element", time_ms=f"{seconds * 1e3:.6g}",
                     gbps=f"{28 * elements / seconds * 1e-9:.1f}")


# Copies to and from the host


def copy_seconds(pairs, repeats):
    """Seconds of one copy of each pair (target, source), all pairs at once, each on a stream of its own."""
    streams = [torch.cuda.Stream() for _ in pairs]
    samples = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        begin = torch.cuda.Event(enable_timing=True)
        ends = [torch.cuda.Event(enable_timing=True) for _ in pairs]
        begin.record()
        for stream, (target, source), end in zip(streams, pairs, ends):
            stream.wait_event(begin)
            with torch.cuda.stream(stream):
                for _ in range(repeats):
                    target.copy_(source, non_blocking=True)
                end.record()
        torch.cuda.synchronize()
        samples.append(max(begin.elapsed_time(end) for end in ends) * 1e-3 / repeats)
    return statistics.median(samples)


def measure_copies(rows, quick):
    for power in range(12, 31, 6 if quick else 2):
        size = 1 << power
        host = [torch.empty(size, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        gpu = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
        repeats = max(4, min(200, (1 << 30) // size))
        for name, pairs in (("H2D copy (PCIe5 x16, pinned)", [(gpu[0], host[0])]),
                            ("D2H copy (PCIe5 x16, pinned)", [(host[0], gpu[0])]),
                            ("H2D and D2H at once", [(gpu[0], host[0]), (host[1], gpu[1])])):
            copy_seconds(pairs, 1)
            seconds = copy_seconds(pairs, repeats)
            rows.add(split="calib" if "PCIe" in name else "open", topology="1 GPU of a virtual machine", n_gpus=1,
                     n_nodes=1, collective=name, size_bytes=size, time_us=f"{seconds * 1e6:.6g}",
                     algbw_GBps=f"{size / seconds * 1e-9:.4g}")


# GEMMs beside a kernel that holds multiprocessors, and under lasting load

SPIN = r"""extern "C" __global__ void spin(volatile int *stop) {
    extern __shared__ char hold[];
    hold[0] = 1;
    while (*stop == 0) { __nanosleep(200); }
}"""
HELD_SHAPES = ((12288, 4096, 4096), (4096, 4096, 4096), (22016, 4096, 8192), (8192, 3584, 8192), (4096, 11008, 2048))


def measure_held(rows, quick):
    """Blocks hold a GPU as a collective's channels do: they hold a multiprocessor each with all of its shared memory."""
    import cupy
    kernel = cupy.RawKernel(SPIN, "spin")
    shared = 227 * 1024
    kernel.max_dynamic_shared_size_bytes = shared

    def beside(calls, **cells):
        for held in (0, 16, 24, 32):
            seconds = attempt(f"{cells} beside {held}", held_seconds, cupy, kernel, shared, held, calls)
            if seconds:
                rows.add(split="open", dtype="bf16", shape_note=f"{held} multiprocessors held by another kernel",
                         time_ms=f"{seconds * 1e3:.6g}", **cells)

    for n, k, tokens in HELD_SHAPES[: 1 if quick else None]:
        for kind in ("fwd", "dgrad", "wgrad"):
            m, columns, depth = gemm_shape(kind, tokens, n, k)
            beside(gemm_calls(kind, tokens, n, k), kind="gemm-beside", library="cuBLAS (PyTorch)", op=f"linear {kind}", m=m,
                   n=columns, k=depth)
    for backward in (False, True):
        cells = {"kind": "attention-beside", "pass": "bwd" if backward else "fwd", "batch": 1, "seq_len": 4096, "keys": 4096,
                 "heads": 32, "kv_heads": 32, "head_dim": 128, "causal": 1}
        beside(flash2_calls([(4096, 0)], 32, 128, backward), library="FlashAttention-2 (PyTorch)", **cells)
        beside(cudnn_calls(4096, 4096, 32, 128, True, backward), library="cuDNN (PyTorch)", **cells)


def held_seconds(cupy, kernel, shared, held, calls):
    for call in calls:
        call()
    stop = cupy.zeros(1, dtype=cupy.int32)
    release = torch.cuda.Stream()
    beside = torch.cuda.Stream()
    torch.cuda.synchronize()
    if held:
        with cupy.cuda.Stream.from_external(beside):
            kernel((held,), (32,), (stop,), shared_mem=shared)
        time.sleep(0.01)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    work = torch.cuda.Stream()
    with torch.cuda.stream(work):
        for call in calls:
            call()
        begin.record()
        for _ in range(4):
            for call in calls:
                call()
        end.record()
    end.synchronize()
    with cupy.cuda.Stream.from_external(release):
        stop.fill(1)
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e-3 / 4 / len(calls)


def measure_lasting(rows, quick):
    """Products of a 7B layer, forward and both backwards, one after the other for some seconds."""
    shapes = [(kind, n, k) for n, k in WEIGHTS["7B TP1"] for kind in ("fwd", "dgrad", "wgrad")]
    calls = [gemm_calls(kind, 8192, n, k)[0] for kind, n, k in shapes]
    flop = sum(2 * 8192 * n * k for _, n, k in shapes)
    begin, written = time.monotonic(), -1.0
    while (at := time.monotonic() - begin) < (2 if quick else 20):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(20):
            for call in calls:
                call()
        end.record()
        torch.cuda.synchronize()
        if at < written + 1:  # a row a second
            continue
        written = at
        seconds = start.elapsed_time(end) * 1e-3 / 20
        rows.add(kind="gemm-lasting", split="open", dtype="bf16", library="cuBLAS (PyTorch)", op="products of a layer", m=8192,
                 shape_note=f"7B TP1 forward and backward, {at:.2f} s after the start; {state_text()}",
                 time_ms=f"{seconds * 1e3:.6g}", tflops=f"{flop / seconds * 1e-12:.1f}")


def context_bytes():
    """Memory of the GPU that this process holds outside PyTorch's allocator."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


FAMILIES = {"attention": measure_attention, "rings": measure_rings, "whole-rings": measure_whole_rings,
            "ring-sums": measure_ring_sums, "gemm": measure_gemm, "memory": measure_memory, "ends": measure_ends,
            "adam": measure_adam, "held": measure_held, "lasting": measure_lasting}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for the two files")
    parser.add_argument("--only", nargs="*", choices=[*FAMILIES, "copies"], help="some families alone")
    parser.add_argument("--quick", action="store_true", help="a few shapes of each, to see that they run")
    options = parser.parse_args()
    start()
    print(f"context: {context_bytes()} bytes after the start", file=sys.stderr)
    shared = shared_cells(SOURCE)
    rows = Rows(options.output / "kernels.csv", KERNEL_COLUMNS, "P{:04d}", shared)
    for name, measure in FAMILIES.items():
        if not options.only or name in options.only:
            begin = time.monotonic()
            attempt(name, measure, rows, options.quick)
            torch.cuda.empty_cache()
            print(f"{name}: {rows.count} rows in all, {time.monotonic() - begin:.0f} s; context {context_bytes()} bytes",
                  file=sys.stderr)
    if not options.only or "copies" in options.only:
        copies = Rows(options.output / "copies.csv", COPY_COLUMNS, "Q{:03d}", shared)
        measure_copies(copies, options.quick)
        print(f"copies: {copies.count} rows", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)

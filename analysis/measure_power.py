#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the power of one GPU while it is idle, waits for other ranks, and computes.

A rank that waits in a collective runs a kernel of NCCL that polls a flag. This script has such a kernel with NCCL's
numbers of blocks and threads: `wait one` polls with one thread a block, while the others stand at a barrier (protocol
Simple); `wait all` polls with all threads (LL128). `train` runs forward and backward of Llama layers; `gemm` and `copy`
run only one kernel. The script writes power.csv. It needs PyTorch, CuPy and nvidia-smi.
"""
import argparse
import csv
import statistics
import subprocess
import sys
import time

from output import create, exit_with

BLOCKS, THREADS = 24, 544  # NCCL inside a node of H100: 24 channels; 16 warps and a warp for synchronisation
SECONDS, SETTLE_SECONDS, PAUSE_SECONDS = 10, 4, 0.1
HIDDEN, FFN, HEADS, TOKENS, LAYERS = 8192, 28672, 64, 8192, 2  # of Llama-2 70B

KERNEL = """
extern "C" __global__ void wait_for(volatile int *flag, int all)
{
    if (all || threadIdx.x == 0)
        while (*flag == 0) { }
    __syncthreads();
}
"""


def read_power():
    """Read power [W], SM clock [MHz] and temperature [C] of the first GPU."""
    text = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=power.draw.instant,clocks.sm,temperature.gpu",
                           "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True).stdout
    return [float(field) for field in text.split(",")]


def sample(level, step, writer, name):
    """Call `step` once, then for SECONDS, and write the mean of the readings after SETTLE_SECONDS."""
    step()
    rows, begin = [], time.monotonic()
    while (now := time.monotonic() - begin) < SECONDS:
        step()
        reading = read_power()
        if now > SETTLE_SECONDS:
            rows.append(reading)
    watts, clocks, degrees = zip(*rows)
    row = [name, level, f"{statistics.mean(watts):.1f}", f"{statistics.stdev(watts):.1f}",
           f"{statistics.mean(clocks):.0f}", f"{statistics.mean(degrees):.0f}", len(rows)]
    writer.writerow(row)
    print(*row, flush=True)


def wait_level(cupy, all_threads, write):
    """Sample while the polling kernel runs."""
    kernel = cupy.RawKernel(KERNEL, "wait_for")
    flag, done = cupy.zeros(1, dtype=cupy.int32), cupy.cuda.Stream(non_blocking=True)
    with done:
        flag += 1  # loads its kernel, which would wait for a running one
        flag -= 1
    done.synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        kernel((BLOCKS,), (THREADS,), (flag, int(all_threads)))
        write(lambda: time.sleep(PAUSE_SECONDS))
        with done:
            flag += 1
        stream.synchronize()


def layer(torch):
    """Make a function that runs forward and backward of LAYERS Llama layers with random weights."""
    def weight(n_out, n_in):
        return (torch.randn(n_out, n_in, device="cuda", dtype=torch.bfloat16) * n_in ** -0.5).requires_grad_()
    weights = [[weight(HIDDEN + 2 * HIDDEN // 8, HIDDEN), weight(HIDDEN, HIDDEN), weight(2 * FFN, HIDDEN),
                weight(HIDDEN, FFN)] for _ in range(LAYERS)]
    dim = HIDDEN // HEADS

    def forward(x):
        for qkv, out, up, down in weights:
            y = torch.nn.functional.rms_norm(x, (HIDDEN,)) @ qkv.T
            query, key, value = y.split([HIDDEN, HIDDEN // 8, HIDDEN // 8], dim=-1)
            heads = [t.view(1, TOKENS, -1, dim).transpose(1, 2) for t in (query, key, value)]
            y = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
            x = x + y.transpose(1, 2).reshape(1, TOKENS, HIDDEN) @ out.T
            gate, linear = (torch.nn.functional.rms_norm(x, (HIDDEN,)) @ up.T).chunk(2, dim=-1)
            x = x + (torch.nn.functional.silu(gate) * linear) @ down.T
        return x

    compiled, x = torch.compile(forward), torch.randn(1, TOKENS, HIDDEN, device="cuda", dtype=torch.bfloat16)
    return lambda: compiled(x).sum().backward()


def repeat(torch, call):
    """Keep the queue of the GPU full for a while, so that a reading falls into the work."""
    def step():
        torch.cuda.synchronize()
        begin = time.monotonic()
        call()
        torch.cuda.synchronize()
        for _ in range(int(0.5 / max(time.monotonic() - begin, 1e-3)) + 1):
            call()
    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="power.csv", help="file that is written")
    arguments = parser.parse_args()
    try:
        import torch
        import cupy
    except ImportError as error:
        print(f"{__file__}: {sys.executable} has no {error.name}: install PyTorch and CuPy for CUDA", file=sys.stderr)
        sys.exit(2)
    with create(arguments.output) as file:
        writer = csv.writer(file)
        writer.writerow("gpu level watts deviation_watts sm_mhz celsius readings".split())
        name = subprocess.run(["nvidia-smi", "-i", "0", "--query-gpu=name", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout.strip()

        def pause():
            time.sleep(PAUSE_SECONDS)

        sample("idle", pause, writer, name)
        torch.zeros(1, device="cuda")
        time.sleep(20)
        sample("idle context", pause, writer, name)
        for all_threads in (False, True):
            wait_level(cupy, all_threads,
                       lambda step, level=f"wait {'all' if all_threads else 'one'}": sample(level, step, writer, name))
        sample("train", repeat(torch, layer(torch)), writer, name)
        matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        sample("gemm", repeat(torch, lambda: matrix @ matrix), writer, name)
        large = torch.randn(1 << 30, device="cuda")
        other = torch.empty_like(large)
        sample("copy", repeat(torch, lambda: other.copy_(large)), writer, name)


if __name__ == "__main__":
    exit_with(main)

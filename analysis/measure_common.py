# SPDX-License-Identifier: GPL-3.0-or-later
"""The measuring scripts share this module: PyTorch, files of rows, seconds of a kernel in a full queue and of spans under lasting
load, and a budget of time."""
import argparse
import csv
import importlib.metadata
import math
import pathlib
import statistics
import sys
import time

from output import create

try:
    import torch
    import torch._dynamo
except ImportError:
    sys.exit(print(f"{sys.argv[0]}: {sys.executable} has no torch: install PyTorch for CUDA, 2.8 or later", file=sys.stderr) or 2)

KERNEL_COLUMNS = ("id kind trust split gpu dtype library op pass m n k batch seq_len keys heads kv_heads head_dim causal "
                  "shape_note time_ms tflops gbps source notes").split()
torch._dynamo.config.recompile_limit = 1000
DEVICE = "cuda"
CACHE_BYTES = 50 << 20  # L2 of an H100 (NVIDIA H100 Tensor Core GPU Architecture)
SAMPLE_S = 8e-3  # of one timed stretch: long against the events, short against the power limit's reaction
SAMPLES = 7
FILL_CYCLES = 4_000_000  # of a kernel that waits some 2 ms, while the queue fills
STATE_S = 0.25  # between two readings of the clock


class Rows:
    """Rows of one file; a measurement that fails is named on stderr and left out."""

    def __init__(self, path, columns, number, shared):
        self.file = create(path)
        self.writer = csv.DictWriter(self.file, columns, lineterminator="\n")
        self.writer.writeheader()
        self.number, self.shared, self.count = number, shared, 0

    def add(self, **cells):
        self.count += 1
        self.writer.writerow({"id": self.number.format(self.count), **self.shared, **cells})
        self.file.flush()


class Budget:
    """Cases are measured in their order until the seconds are over."""

    def __init__(self, seconds):
        self.end = time.monotonic() + (seconds or math.inf)

    def within(self, cases, what):
        cases = list(cases)
        for done, case in enumerate(cases):
            if time.monotonic() > self.end:
                print(f"out of time: {len(cases) - done} of {len(cases)} {what} left out", file=sys.stderr)
                return
            yield case


def attempt(what, measure, *arguments):
    """Return what `measure` does. Whatever fails is told, and the next measurement is tried."""
    try:
        return measure(*arguments)
    except Exception as error:
        print(f"not measured: {what}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:300]}", file=sys.stderr)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return None


def seconds_of(calls, graphed=True, samples=SAMPLES, sample_s=SAMPLE_S):
    """Seconds of one of `calls`, which do the same work on different buffers. Without a graph each call should be one
    kernel or few long ones, which the host queues faster than they run."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    if graphed:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):  # autograd runs where the forward ran
            for call in calls:
                call()

    def stretch(replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if not graphed:
            torch.cuda._sleep(FILL_CYCLES)
        begin.record()
        for _ in range(replays):
            if graphed:
                graph.replay()
            else:
                for call in calls:
                    call()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3

    stretch(1)
    replays = max(1, round(sample_s / stretch(1)))
    times = []
    for _ in range(samples):
        times.append(stretch(replays) / replays / len(calls))
        time.sleep(sample_s)  # the card cools between stretches, as it does between kernels of other kinds
    return statistics.median(times)


def brief_seconds_of(calls, graphed=True):
    """The same as seconds_of, in less of a lent GPU's time."""
    return seconds_of(calls, graphed, samples=3 if graphed else 5, sample_s=SAMPLE_S / 2)


def lasting(once, seconds, warm=True):
    """Medians [s] of the spans of `once` under lasting load, and what the card said of itself. `once` takes a function
    that ends a span of some name, the first of them none; spans of one name add up. The second half of all rounds counts."""
    if warm:
        once(lambda name: None)
        torch.cuda.synchronize()
    rounds, state, begin, read = [], "", time.monotonic(), -math.inf
    while not rounds or time.monotonic() - begin < seconds:
        marks = []

        def mark(name):
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            marks.append((name, event))

        once(mark)
        if time.monotonic() - read > STATE_S:  # the queue is full
            state, read = state_text(), time.monotonic()
        torch.cuda.synchronize()
        spans = {}
        for (_, earlier), (name, event) in zip(marks, marks[1:]):
            spans[name] = spans.get(name, 0.0) + earlier.elapsed_time(event) * 1e-3
        rounds.append(spans)
    later = rounds[len(rounds) // 2:]
    return {name: statistics.median(spans[name] for spans in later) for name in later[0]}, f"{state}; {len(rounds)} rounds"


def n_sets(bytes_of_one, most=64, least=4):
    """Sets of buffers that the cache cannot hold; at least 4, so that a graph's start does not count."""
    return int(max(least, min(most, 3 * CACHE_BYTES // max(1, bytes_of_one) + 1)))


def noise(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


def gradients_of(function, inputs):
    """A call of the backward alone."""
    leaves = [x.requires_grad_() for x in inputs]
    out = function(*leaves)
    gradient = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, leaves, gradient, retain_graph=True)


def gemm_shape(which, tokens, n, k):
    """M, N and K of a pass of a linear layer with K inputs and N outputs."""
    return {"fwd": (tokens, n, k), "dgrad": (tokens, k, n), "wgrad": (n, k, tokens)}[which[:5]]


def state_text():
    """Clock, power and temperature, read only."""
    try:
        return f"{torch.cuda.clock_rate()} MHz, {torch.cuda.power_draw() / 1000:.0f} W, {torch.cuda.temperature()} C"
    except Exception as error:  # no NVML
        return f"clock not read: {type(error).__name__}"


def software():
    try:
        cublas = importlib.metadata.version("nvidia-cublas")
    except importlib.metadata.PackageNotFoundError:
        cublas = "unknown"
    return (f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}, "
            f"cuBLAS {cublas}")


def shared_cells(source):
    return {"trust": "A", "gpu": torch.cuda.get_device_name(), "source": source, "notes": software()}


def start():
    """The stream that all work runs on. Graphs cannot be captured on the default one."""
    torch.manual_seed(0)
    torch.cuda.set_stream(torch.cuda.Stream())
    noise(16)


def begin(description, name, columns, number):
    """Rows of the file NAME.csv in the folder of the command line, and its budget."""
    parser = argparse.ArgumentParser(description=description.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help=f"folder for {name}.csv")
    parser.add_argument("--budget-s", type=float, help="seconds, after which no case begins")
    options = parser.parse_args()
    budget = Budget(options.budget_s)
    start()
    return Rows(options.output / f"{name}.csv", columns, number, shared_cells(f"analysis/measure_{name}.py")), budget

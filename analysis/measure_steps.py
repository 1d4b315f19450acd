#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU whole training steps. Families: `modes` runs small networks eager, compiled and in a CUDA graph, and
counts their kernels; `offload` copies a share of the saved activations of eight layers to the host and back; `ragged` trains
eight layers of Llama-2 7B on packed documents, on the same ones padded, and on one long document. Writes a file a family, and
copies.csv beside offload.csv.

A step is repeated under lasting load; times are medians of the second half. Floors are those of a step of few tokens, whose
kernels wait for the host. Needs PyTorch 2.10 or later.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

from measure_common import DEVICE, Budget, Rows, attempt, lasting, noise, shared_cells, start, torch
from measure_kernels import COPY_COLUMNS, measure_copies
from measure_networks import EAGER, Adam, Documents, Equal, FusedLoss, GptLayer, Layer, Network
from output import exit_with
from torch.nn.attention import SDPBackend, sdpa_kernel

COLUMNS = ("id kind trust gpu model hidden layers heads kv_heads head_dim ffn vocab mode tokens micro_batches recompute "
           "offload_ratio forward_ms backward_ms optimizer_ms step_ms floor_forward_ms floor_backward_ms kernels_forward "
           "kernels_backward kernels_layer_forward kernels_layer_backward kernels_ms peak_allocated_bytes peak_reserved_bytes "
           "saved_bytes offloaded_bytes state source notes").split()
SHAPE = ("hidden", "layers", "heads", "kv_heads", "head_dim", "ffn", "vocab")
MODELS = {"GPT 126M": (768, 12, 12, 12, 64, 3072, 51200), "Qwen3 0.6B": (1024, 28, 16, 8, 128, 3072, 151936),
          "Llama-2 7B of 8 layers": (4096, 8, 32, 32, 128, 11008, 32000)}
CONTEXT, FEW_TOKENS = 2048, 16
STEPS_A_ROUND = 4
LAYERS_7B = (4096, 11008, 32, 32)
RATIOS = (0.0, 1.0, 0.5, 0.25, 0.75)
OFFLOAD_TOKENS = (8192, 16384)
BLOCK_BYTES, LEAST_BYTES = 1 << 30, 1 << 20  # of pinned memory, in one piece; of a storage that is copied
TOTALS = (8192, 32768, 131072, 16384, 65536)  # tokens of a step
MOST_KEPT = 16384  # tokens, above which layers are recomputed


def network_of(model, operators=EAGER):
    """Weights in bf16, tied for the small ones."""
    hidden, layers, heads, groups, width, ffn, vocabulary = MODELS[model]
    is_gpt = model.startswith("GPT")
    with torch.device(DEVICE):
        blocks = [GptLayer(hidden, ffn, heads) if is_gpt else Layer((hidden, ffn, heads, groups), width, operators)
                  for _ in range(layers)]
        return Network(blocks, hidden, vocabulary, "7B" not in model, CONTEXT if is_gpt else 0).bfloat16()


def inputs_of(model, samples, length, unit=None):
    """Ids, and what the layers take beside them."""
    shape = (samples, length) if model.startswith("GPT") else (samples * length,)
    ids = torch.randint(0, MODELS[model][6], shape, device=DEVICE)
    if model.startswith("GPT"):
        return (ids,)
    angles = [noise(samples * length, 1, MODELS[model][4]) for _ in range(2)]
    return ids, unit or Equal(samples, length), angles


def step_cells(forward, optimizer, seconds, steps=1, inputs=((),)):
    """Cells of a step: a forward and backward of each of `inputs`, then the optimizer, if any. `forward` gives the loss, or
    None if it runs the backward too."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()

    def once(mark):
        mark("")
        for _ in range(steps):
            for arguments in inputs:
                loss = forward(*arguments)
                mark("forward")
                if loss is not None:
                    loss.backward()
                mark("backward")
            if optimizer:
                optimizer()
            mark("optimizer")

    once(lambda name: None)  # the optimizer's states, and what compiles
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    spans, state = lasting(once, seconds, warm=False)
    cells = {f"{name}_ms": f"{spans[name] * 1e3 / steps:.5g}" for name in ("forward", "backward", "optimizer")}
    return {**cells, "step_ms": f"{sum(spans.values()) * 1e3 / steps:.5g}", "state": state,
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(), "peak_reserved_bytes": torch.cuda.max_memory_reserved()}


def shape_cells(model):
    return {"model": model, **dict(zip(SHAPE, MODELS[model]))}


# Modes


def kernels_of(call):
    """Kernels, copies and fills of one call, and their milliseconds in all, from the profiler's trace."""
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        call()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    durations = [event["dur"] for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    return len(durations), sum(durations) * 1e-3


def count_kernels(network, arguments):
    """Times of a whole step, and of a layer: the difference to a step of half the layers."""
    layers, counts = network.layers, {}
    for part in (layers, layers[: len(layers) // 2]):
        network.layers = part
        network(*arguments).backward()
        losses = []
        forward = kernels_of(lambda: losses.append(network(*arguments)))
        counts[len(part)] = forward, kernels_of(losses[0].backward)
        network.zero_grad(set_to_none=True)
    network.layers = layers
    whole, half = counts[len(layers)], counts[len(layers) // 2]
    more = len(layers) - len(layers) // 2
    cells = {"kernels_ms": f"{whole[0][1] + whole[1][1]:.5g}"}
    for which, all_of, half_of in zip(("forward", "backward"), whole, half):
        cells |= {f"kernels_{which}": all_of[0], f"kernels_layer_{which}": f"{(all_of[0] - half_of[0]) / more:.4g}"}
    return cells


def floor_cells(network, model):
    """Times of a step whose kernels are so short that they wait for the host."""
    few = inputs_of(model, 1, FEW_TOKENS)
    cells = step_cells(network, lambda: network.zero_grad(set_to_none=True), 0.5, STEPS_A_ROUND, [few])
    return {f"floor_{which}_ms": cells[f"{which}_ms"] for which in ("forward", "backward")}


def measure_eager(network, model, samples, counted):
    """The cells of steps without a graph."""
    arguments = inputs_of(model, samples, CONTEXT)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5, fused=True)

    def update():
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    cells = step_cells(network, update, 1.0, STEPS_A_ROUND, [arguments])
    if counted:
        cells |= attempt(f"floor of {model}", floor_cells, network, model) or {}
        cells |= attempt(f"kernels of {model}", count_kernels, network, arguments) or {}
    return cells


def measure_graph(network, model, samples, counted):
    """Forward and backward are one graph; the optimizer runs behind it."""
    arguments = inputs_of(model, samples, CONTEXT)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5, fused=True)
    for _ in range(2):
        network.zero_grad(set_to_none=True)
        network(*arguments).backward()
    network.zero_grad(set_to_none=True)  # so that the graph writes gradients and adds to none
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        network(*arguments).backward()
    cells = step_cells(graph.replay, optimizer.step, 1.0, STEPS_A_ROUND)
    if counted:
        found = attempt(f"kernels of {model} in a graph", kernels_of, graph.replay)
        if found:
            cells |= {"kernels_forward": found[0], "kernels_ms": f"{found[1]:.5g}"}
    network.zero_grad(set_to_none=True)
    return cells


def reduce_overhead(network, model, samples, _counted):
    """The whole network compiled, with the graphs that torch.compile makes."""
    compiled = torch.compile(network, mode="reduce-overhead", dynamic=False)

    def forward(*arguments):
        torch.compiler.cudagraph_mark_step_begin()
        return compiled(*arguments)

    return step_cells(forward, lambda: network.zero_grad(set_to_none=True), 1.0, 1, [inputs_of(model, samples, CONTEXT)])


def measure_modes(rows, budget):
    small = list(MODELS)[:2]
    networks = {}

    def run(model, mode, samples):
        if (model, "compiled" in mode) not in networks:
            networks.clear()
            torch.cuda.empty_cache()
            network = network_of(model)
            if mode.startswith("compiled layers"):
                for layer in network.layers:
                    layer.compile(dynamic=False)
            networks[model, "compiled" in mode] = network
        measure = reduce_overhead if "reduce" in mode else measure_graph if "graph" in mode else measure_eager
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return measure(networks[model, "compiled" in mode], model, samples, samples == 1)

    modes = ("eager", "eager in a graph", "compiled layers", "compiled layers in a graph")
    cases = [(model, mode, samples) for model in small for half in (modes[:2], modes[2:]) for samples in (1, 4) for mode in half]
    cases.append((small[0], "compiled with reduce-overhead", 1))
    for model, mode, samples in budget.within(cases, "modes"):
        cells = attempt(f"{model} {mode} {samples}", run, model, mode, samples)
        if cells:
            rows.add(kind="mode", **shape_cells(model), mode=mode, tokens=samples * CONTEXT,
                     micro_batches=" ".join([str(CONTEXT)] * samples), recompute="none", **cells)


# Offload


class Boundary(torch.autograd.Function):
    """Behind a layer: its backward tells that the layer's backward begins."""

    @staticmethod
    def forward(context, x, begins, layer):
        context.begins, context.layer = begins, layer
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        context.begins(context.layer)
        return gradient, None, None


class Saved:
    """A storage that autograd saved, its place in pinned memory, and what came back."""

    def __init__(self, tensor, place):
        self.tensor, self.place, self.back, self.ready = tensor, place, None, None


class Offload:
    """Copies storages that the layers save to the host on a stream of its own, up to a ratio of their bytes, and back one
    layer ahead of the backward. A layer waits at its end for the copies of the layer before, whose storages are then free.
    The last layer's stay."""

    def __init__(self, layers, ratio, weights, pinned):
        self.layers, self.ratio, self.pinned = layers, ratio, pinned
        self.stays = {weight.untyped_storage().data_ptr() for weight in weights}
        self.stream = torch.cuda.Stream()

    def begin(self):
        self.layer, self.saved_bytes, self.offloaded_bytes, self.used = 0, 0, 0, 0
        self.entries = [{} for _ in range(self.layers)]
        self.copied = [None] * self.layers

    def place(self, n_bytes):
        """So many bytes of pinned memory, inside one block."""
        first = self.used if self.used % BLOCK_BYTES + n_bytes <= BLOCK_BYTES else -(-self.used // BLOCK_BYTES) * BLOCK_BYTES
        self.used = first + -(-n_bytes // 512) * 512
        while self.used > len(self.pinned) * BLOCK_BYTES:
            self.pinned.append(torch.empty(BLOCK_BYTES, dtype=torch.uint8, pin_memory=True))
        return self.pinned[first // BLOCK_BYTES][first % BLOCK_BYTES:][:n_bytes]

    def entry_of(self, tensor):
        storage = tensor.untyped_storage()
        entries, address, n_bytes = self.entries[self.layer], storage.data_ptr(), storage.nbytes()
        if address not in entries:
            self.saved_bytes += n_bytes
            moves = self.offloaded_bytes + n_bytes <= self.ratio * self.saved_bytes
            flat = torch.empty(0, dtype=torch.uint8, device=DEVICE).set_(storage, 0, (n_bytes,), (1,))
            entries[address] = Saved(flat, self.place(n_bytes) if moves else None)
            if moves:
                self.offloaded_bytes += n_bytes
                self.stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.stream):
                    entries[address].place.copy_(flat, non_blocking=True)
        return entries[address]

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage.nbytes() < LEAST_BYTES or storage.data_ptr() in self.stays or self.layer >= self.layers - 1:
            return tensor.detach()
        entry = self.entry_of(tensor)
        if entry.place is None:
            return tensor.detach()
        return entry, tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()

    def unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        entry, dtype, *view = packed
        torch.cuda.current_stream().wait_event(entry.ready)
        return torch.empty(0, dtype=dtype, device=DEVICE).set_(entry.back.untyped_storage(), *view)

    def end_layer(self):
        self.copied[self.layer] = self.stream.record_event()
        if self.layer:
            torch.cuda.current_stream().wait_event(self.copied[self.layer - 1])
            self.release(self.layer - 1)
        self.layer += 1

    def release(self, layer):
        for entry in self.entries[layer].values():
            entry.tensor = entry.back = None

    def begin_backward(self, layer):
        if layer + 1 < self.layers:
            self.release(layer + 1)
        if layer:
            self.fetch(layer - 1)

    def fetch(self, layer):
        entries = [entry for entry in self.entries[layer].values() if entry.place is not None]
        for entry in entries:
            entry.back = torch.empty(len(entry.place), dtype=torch.uint8, device=DEVICE)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for entry in entries:
                entry.back.copy_(entry.place, non_blocking=True)
        ready = self.stream.record_event()
        for entry in entries:
            entry.ready = ready


def offload_cells(layers, x, arguments, ratio, pinned):
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    offload = Offload(len(layers), ratio or 0.0, parameters + list(arguments[1]), pinned)

    def forward():
        for parameter in parameters:
            parameter.grad = None
        offload.begin()
        out = x
        for i, layer in enumerate(layers):
            out = Boundary.apply(layer(out, *arguments), offload.begin_backward, i)
            offload.end_layer()
        return (out * out.detach()).sum()

    def hooked():
        with torch.autograd.graph.saved_tensors_hooks(offload.pack, offload.unpack):
            return forward()

    cells = step_cells(hooked if ratio is not None else forward, None, 1.5, 2)
    return {**cells, "saved_bytes": offload.saved_bytes, "offloaded_bytes": offload.offloaded_bytes}


def check_offload(layers, x, arguments, pinned):
    """Gradients are those of a run without copies."""
    found = []
    for ratio in (None, 1.0):
        offload_cells(layers, x, arguments, ratio, pinned)
        found.append(layers[0].up.weight.grad.float())
    error = ((found[0] - found[1]).norm() / found[0].norm()).item()
    if not error < 1e-2:
        raise RuntimeError(f"gradients differ by {error:.3g}")


def measure_offload(rows, budget):
    model = "Llama-2 7B of 8 layers"
    copies = Rows(pathlib.Path(rows.file.name).with_name("copies.csv"), COPY_COLUMNS, "Q{:03d}",
                  {**rows.shared, "source": "analysis/measure_kernels.py"})
    attempt("copies", measure_copies, copies, True)
    pinned = []
    with torch.device(DEVICE):
        layers = [Layer(LAYERS_7B, operators=EAGER).bfloat16() for _ in range(MODELS[model][1])]
    case = {}
    for tokens in OFFLOAD_TOKENS:
        for ratio in budget.within([None, *RATIOS], f"ratios of {tokens} tokens"):
            if case.get("tokens") != tokens:
                case.clear()
                torch.cuda.empty_cache()
                case.update(tokens=tokens, x=noise(tokens, LAYERS_7B[0]).requires_grad_(),
                            arguments=(Equal(1, tokens), [noise(tokens, 1, 128) for _ in range(2)]))
                if tokens == OFFLOAD_TOKENS[0]:
                    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                        attempt("check of offload", check_offload, layers, case["x"], case["arguments"], pinned)
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                cells = attempt(f"offload {tokens} {ratio}", offload_cells, layers, case["x"], case["arguments"], ratio, pinned)
            if cells:
                shape = {**shape_cells(model), "vocab": ""}
                rows.add(kind="offload", **shape, mode="eager" if ratio is None else "eager, saved tensors by hooks",
                         tokens=tokens, micro_batches=tokens, recompute="none", offload_ratio="" if ratio is None else ratio,
                         **cells, notes=rows.shared["notes"] + "; saved bytes are those of all layers but the last")


# Ragged steps


def documents_of(total):
    """Lengths of documents, most of them short, in the order of a draw; none is longer than half of all tokens."""
    draw, lengths = random.Random(total), []
    while sum(lengths) < total:
        length = min(max(64, int(draw.lognormvariate(6.9, 1.2))), total // 2, total - sum(lengths))
        lengths.append(length)
    if total >= 32768:  # a few long ones, as in data for long context
        lengths = [total // 4, *lengths]
        while sum(lengths) > total:
            lengths[-1] -= min(lengths[-1], sum(lengths) - total)
            lengths = [length for length in lengths if length]
    draw.shuffle(lengths)
    return lengths


def padded(lengths, total):
    """Micro-batches of documents in their order, as many as fit in `total` tokens when padded to the longest."""
    batches = [[]]
    for length in lengths:
        if (len(batches[-1]) + 1) * max([length, *batches[-1]]) > total:
            batches.append([])
        batches[-1].append(length)
    return [(len(batch), max(batch)) for batch in batches]


def layouts(total):
    """Name, tokens of the step as the GPU computes them, a text, and the inputs of its micro-batches."""
    model = "Llama-2 7B of 8 layers"
    lengths = documents_of(total)
    yield "packed documents", total, " ".join(map(str, lengths)), lambda: [inputs_of(model, 1, total, Documents(lengths))]
    batches = padded(lengths, total)
    yield ("padded documents", sum(n * longest for n, longest in batches), " ".join(f"{n}x{longest}" for n, longest in batches),
           lambda: [inputs_of(model, n, longest) for n, longest in batches])
    yield "one document", total, str(total), lambda: [inputs_of(model, 1, total)]


def measure_ragged(rows, budget):
    model = "Llama-2 7B of 8 layers"
    compiled = [torch.compile(function) for function in EAGER]  # for any number of tokens
    network = network_of(model, compiled)
    network.loss = FusedLoss.apply
    adam = Adam(network.parameters())
    cases = [(total, *layout) for total in TOTALS for layout in layouts(total)]
    cases.sort(key=lambda case: case[:2] == (131072, "one document"))  # which takes longest
    for total, name, tokens, text, make in budget.within(cases, "layouts"):
        network.recompute = total > MOST_KEPT
        for operators, what in ((compiled, "compiled SwiGLU and rotation"), (EAGER, "eager")):  # the latter if the former fails
            for layer in network.layers:
                layer.rotate, layer.swiglu = operators
            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                cells = attempt(f"{name} of {total}, {what}", lambda: step_cells(network, adam.step, 1.0, 1, make()))
            network.zero_grad(set_to_none=True)
            if cells:
                break
        if cells:
            rows.add(kind="ragged step", **shape_cells(model), mode=f"{name}, {what}", tokens=tokens,
                     micro_batches=text, recompute="full" if network.recompute else "none", **cells,
                     notes=rows.shared["notes"] + f"; documents of {total} tokens; fp32 Adam, one kernel a weight")


FAMILIES = {"modes": (measure_modes, "M{:03d}"), "offload": (measure_offload, "O{:03d}"), "ragged": (measure_ragged, "W{:03d}")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for the file FAMILY_steps.csv")
    parser.add_argument("--budget-s", type=float, help="seconds, after which no case begins")
    options = parser.parse_args()
    budget = Budget(options.budget_s)
    start()
    measure, number = FAMILIES[options.family]
    rows = Rows(options.output / f"{options.family}_steps.csv", COLUMNS, number, shared_cells("analysis/measure_steps.py"))
    measure(rows, budget)
    print(f"{rows.count} rows", file=sys.stderr)


if __name__ == "__main__":
    exit_with(main)

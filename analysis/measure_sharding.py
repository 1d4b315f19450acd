#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure on one GPU the memory of one rank of sharded training (PyTorch's FSDP, versions 1 and 2) of MPT and Llama. Writes
memory.csv, a raw table of which model/validation/normalise.py makes rows for `slimsim validate`, and live.json, what is
allocated at each peak and where from.

PyTorch's fake process group stands for the other ranks: collectives allocate what they do, send nothing and leave values as
they are, so weights are not trained, and times are no rank's. Layers are Composer's MPT (llm-foundry), and Llama by single
operations as Transformers computes it. Three steps; the peak is the second's, when the optimizer's states exist. Needs
PyTorch 2.8 or later; memory of 79 GiB.
"""
import argparse
import collections
import csv
import functools
import json
import multiprocessing
import pathlib
import sys
import time
import traceback
import typing

from measure_networks import FusedLoss
from output import create, exit_with

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError as error:
    print(f"{__file__}: {sys.executable} has no {error.name}: install PyTorch for CUDA, 2.8 or later", file=sys.stderr)
    sys.exit(2)

MEMORY = ("id trust split gpu framework model hidden layers heads kv_groups ffn vocab activation norm seq_len n_gpus tp sp pp "
          "vpp cp dp sharding mbs gbs n_microbatch recompute offload precision attn_backend metric value_bytes value_printed "
          "ranks source notes").split()
GPU = "H100-SXM-80GB"  # a text of model/validation/dictionary.csv
GIB = 2**30
N_LIVE = 24  # kinds of live tensors told
MODELS = {  # hidden, layers, heads, groups of keys and values, ffn, vocabulary
    "MPT-760M": (1536, 24, 12, 12, 6144, 50368), "MPT-1B": (2048, 24, 16, 16, 8192, 50368),
    "MPT-3B": (2560, 32, 20, 20, 10240, 50368), "MPT-7B": (4096, 32, 32, 32, 16384, 50368),
    "MPT-13B": (5120, 40, 40, 40, 20480, 50368), "MPT-30B of 24 layers": (7168, 24, 56, 56, 28672, 50368),
    "MPT-70B of 40 layers": (8192, 40, 64, 64, 32768, 50368), "MPT-70B of 20 layers": (8192, 20, 64, 64, 32768, 50368),
    "Llama-2 7B": (4096, 32, 32, 32, 11008, 32000), "Llama-2 13B": (5120, 40, 40, 40, 13824, 32000),
    "Llama-2 70B of 20 layers": (8192, 20, 64, 8, 28672, 32000), "Llama-3 8B": (4096, 32, 32, 8, 14336, 128256),
    "Llama-3 70B of 20 layers": (8192, 20, 64, 8, 28672, 128256)}


class Case(typing.NamedTuple):
    model: str
    tokens: int
    ranks: int
    batch: int                      # sequences of a micro-batch
    micro_batches: int
    recompute: str                  # full, none
    fsdp: int                       # version
    prefetch: str = "-"             # FSDP1's BackwardPrefetch
    reduce: str = "fp32"            # type in which gradients are reduced
    ends: bool = False              # FSDP2: embedding, and norm with head, in groups of their own
    keeps_weights: bool = False     # zero2: weights stay gathered from forward to backward
    limit_gib: float = 0            # of the allocator; 0: none

    @property
    def is_mpt(self):
        return self.model.startswith("MPT")


POST, PRE = "BACKWARD_POST", "BACKWARD_PRE"
CASES = [
    Case("MPT-13B", 2048, 8, 4, 2, "full", 1, POST, "bf16", limit_gib=38.5),  # O097 of training_a100.csv but for gbs
    Case("MPT-760M", 512, 8, 96, 2, "none", 1, POST, "bf16", limit_gib=78),  # O069
    Case("MPT-1B", 2048, 32, 10, 1, "none", 1, POST, "bf16", limit_gib=38.5),  # O127
    Case("MPT-70B of 40 layers", 2048, 64, 2, 1, "full", 1, POST, "bf16", limit_gib=38.5),
    Case("MPT-70B of 20 layers", 2048, 128, 4, 1, "full", 1, POST, "bf16", limit_gib=38.5),
    Case("MPT-30B of 24 layers", 8192, 8, 1, 2, "full", 1, POST, "bf16", limit_gib=78),
    Case("MPT-7B", 2048, 8, 4, 1, "full", 1, POST, "fp32"),
    Case("MPT-3B", 2048, 16, 8, 1, "none", 1, POST, "bf16"),
    Case("Llama-2 7B", 4096, 32, 2, 1, "none", 1, PRE, "bf16"),
    Case("Llama-2 13B", 4096, 16, 2, 1, "full", 1, PRE, "fp32"),
    Case("Llama-2 70B of 20 layers", 2048, 64, 1, 1, "full", 1, PRE, "bf16"),
    Case("Llama-2 7B", 4096, 16, 1, 1, "full", 1, PRE, "bf16", keeps_weights=True),
    Case("Llama-3 8B", 8192, 8, 1, 1, "full", 2),
    Case("Llama-3 8B", 8192, 64, 1, 1, "full", 2, ends=True),
    Case("Llama-3 70B of 20 layers", 4096, 256, 1, 1, "full", 2, ends=True),
    Case("Llama-2 70B of 20 layers", 2048, 64, 1, 1, "full", 2, ends=True),
    Case("Llama-2 7B", 4096, 32, 1, 1, "none", 2, ends=True),
    Case("Llama-2 7B", 4096, 16, 1, 1, "none", 2, keeps_weights=True)]


class MptLayer(nn.Module):
    def __init__(self, hidden, heads, _groups, ffn):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, tokens, hidden)
        x = x + self.out(mixed)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Mpt(nn.Module):
    """Tied embeddings, learned positions."""

    def __init__(self, sizes, tokens):
        super().__init__()
        hidden, layers, heads, groups, ffn, vocabulary = sizes
        self.wte, self.wpe = nn.Embedding(vocabulary, hidden), nn.Embedding(tokens, hidden)
        self.blocks = nn.ModuleList(MptLayer(hidden, heads, groups, ffn) for _ in range(layers))
        self.norm_f = nn.LayerNorm(hidden)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))[None]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm_f(x), self.wte.weight)
        return FusedLoss.apply(logits.view(-1, logits.shape[-1]), torch.roll(ids, -1, 1).reshape(-1))


class RmsNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * y.to(x.dtype)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class LlamaLayer(nn.Module):
    def __init__(self, hidden, heads, groups, ffn):
        super().__init__()
        self.heads, self.groups, width = heads, groups, hidden // heads
        self.norm_1, self.norm_2 = RmsNorm(hidden), RmsNorm(hidden)
        self.q, self.k = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, groups * width, bias=False)
        self.v, self.out = nn.Linear(hidden, groups * width, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.gate, self.up = nn.Linear(hidden, ffn, bias=False), nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, tokens, hidden = x.shape
        y = self.norm_1(x)
        q = rotated(self.q(y).view(batch, tokens, self.heads, -1), cos, sin)
        k = rotated(self.k(y).view(batch, tokens, self.groups, -1), cos, sin)
        q, k, v = (t.transpose(1, 2) for t in (q, k, self.v(y).view(batch, tokens, self.groups, -1)))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups < self.heads)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, hidden))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, sizes, _tokens):
        super().__init__()
        hidden, layers, heads, groups, ffn, vocabulary = sizes
        self.width = hidden // heads
        self.wte = nn.Embedding(vocabulary, hidden)
        self.blocks = nn.ModuleList(LlamaLayer(hidden, heads, groups, ffn) for _ in range(layers))
        self.norm_f, self.head = RmsNorm(hidden), nn.Linear(hidden, vocabulary, bias=False)

    def forward(self, ids):
        x = self.wte(ids)
        rates = 10000.0 ** (-torch.arange(0, self.width, 2, device=ids.device) / self.width)
        angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * torch.cat((rates, rates))[None]
        cos, sin = (t.to(x.dtype)[None, :, None] for t in (angles.cos(), angles.sin()))
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm_f(x)).float()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), torch.roll(ids, -1, 1).view(-1))


def sharded_1(network, layer, case, wrap):
    """By FullyShardedDataParallel: layers and the rest."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    def fill(module):
        module.to_empty(device="cuda", recurse=False)
        for parameter in module.parameters(recurse=False):
            parameter.data.normal_(0, 0.01)

    types = MixedPrecision(param_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16,
                           reduce_dtype=torch.bfloat16 if case.reduce == "bf16" else torch.float32)
    strategy = ShardingStrategy.SHARD_GRAD_OP if case.keeps_weights else ShardingStrategy.FULL_SHARD
    network = FullyShardedDataParallel(
        network, sharding_strategy=strategy, mixed_precision=types, backward_prefetch=getattr(BackwardPrefetch, case.prefetch),
        limit_all_gathers=True, use_orig_params=True, device_id=0, param_init_fn=fill, auto_wrap_policy=ModuleWrapPolicy({layer}))
    if case.recompute == "full":
        apply_activation_checkpointing(network, checkpoint_wrapper_fn=wrap, check_fn=lambda module: isinstance(module, layer))
    return network


def sharded_2(network, case, wrap):
    """By fully_shard, as torchtitan's apply_fsdp: the last layer's weights stay for its backward."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    layers = len(network.blocks)
    if case.recompute == "full":
        for i, block in enumerate(network.blocks):
            network.blocks[i] = wrap(block)
    types = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                 reduce_dtype=torch.bfloat16 if case.reduce == "bf16" else torch.float32)
    shard = functools.partial(fully_shard, mesh=init_device_mesh("cuda", (case.ranks,)), mp_policy=types)
    for i, block in enumerate(network.blocks):
        shard(block, reshard_after_forward=not case.keeps_weights and i < layers - 1)
    if case.ends:
        shard(network.wte)
        shard([network.norm_f, network.head], reshard_after_forward=False)
    shard(network)
    network.to_empty(device="cuda")
    for parameter in network.parameters():
        parameter.data._local_tensor.normal_(0, 0.01)
    return network


def network_of(case):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
    wrap = functools.partial(checkpoint_wrapper, checkpoint_impl=CheckpointImpl.NO_REENTRANT)
    with torch.device("meta"):
        network = (Mpt if case.is_mpt else Llama)(MODELS[case.model], case.tokens)
    if case.fsdp == 2:
        return sharded_2(network, case, wrap)
    return sharded_1(network, MptLayer if case.is_mpt else LlamaLayer, case, wrap)


def live_at_peak(trace):
    """The memory that a step allocated and holds at its peak: bytes in all, and by size and place; without what stood before."""
    def replay(events):
        live, total = {}, 0
        for index, event in enumerate(events):
            if event["action"] == "alloc":
                live[event["addr"]] = event
                total += event["size"]
            elif event["action"] == "free_requested" and event["addr"] in live:
                total -= live.pop(event["addr"])["size"]
            yield index, total, live

    peak, at = max((total, -index) for index, total, _ in replay(trace))
    for _, _, live in replay(trace[:1 - at]):
        pass
    kinds = collections.Counter()
    for event in live.values():
        places = [f"{pathlib.Path(frame['filename']).name}:{frame['line']}:{frame['name']}" for frame in event.get("frames", [])
                  if "torch/_ops" not in frame["filename"]]
        kinds[event["size"], " < ".join(places[:5])] += 1
    largest = sorted(kinds.items(), key=lambda kind: -kind[0][0] * kind[1])[:N_LIVE]
    return {"bytes": peak, "share_of_events": -at / len(trace),
            "live": [{"n": n, "bytes_each": size, "from": place} for (size, place), n in largest]}


def measure(case):
    """The steps' seconds, peak bytes and retries of the allocator; what lives at the last one's peak."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.cuda.set_device(0)
    if case.limit_gib:
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, case.limit_gib * GIB / total))
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=case.ranks)
    network = network_of(case)
    fused = {"fused": True} if case.fsdp == 2 else {"foreach": False, "fused": False}
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-5, **fused)
    ids = torch.randint(0, MODELS[case.model][5], (case.batch, case.tokens), device="cuda")
    torch.cuda.empty_cache()
    steps, retries = [], 0
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        for step in range(3):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            if step == 2:
                torch.cuda.memory._record_memory_history(max_entries=400000, stacks="python")
            begin = time.monotonic()
            for _ in range(case.micro_batches):
                (network(ids) / case.micro_batches).backward()
            passes = torch.cuda.max_memory_allocated()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            stats = torch.cuda.memory_stats()
            steps.append({"s": round(time.monotonic() - begin, 3), "peak": torch.cuda.max_memory_allocated(), "passes": passes,
                          "after": torch.cuda.memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
                          "retries": stats["num_alloc_retries"] - retries})
            retries = stats["num_alloc_retries"]
    return {"steps": steps, "at_peak": live_at_peak(torch.cuda.memory._snapshot()["device_traces"][0])}


def row_of(number, case, steps):
    hidden, layers, heads, groups, ffn, vocabulary = MODELS[case.model]
    stage = "SHARD_GRAD_OP (ZeRO-2)" if case.keeps_weights else "FULL_SHARD (ZeRO-3)"
    notes = ["tied embeddings" if case.is_mpt else "untied embeddings"]
    if case.ends:
        notes.append("embedding and head in groups of their own")
    if case.limit_gib:
        notes.append(f"under {case.limit_gib:g} GiB {sum(step['retries'] for step in steps)} retries of the allocator")
    return {
        "id": f"S{number:03d}m", "trust": "A", "split": "open", "gpu": GPU,
        "framework": "llm-foundry (PyTorch FSDP)" if case.is_mpt else f"PyTorch FSDP{case.fsdp} (eager)",
        "model": case.model, "hidden": hidden, "layers": layers, "heads": heads, "kv_groups": groups, "ffn": ffn,
        "vocab": vocabulary, "activation": "gelu" if case.is_mpt else "swiglu", "norm": "layernorm" if case.is_mpt else "rmsnorm",
        "seq_len": case.tokens, "n_gpus": case.ranks, "tp": 1, "sp": 0, "pp": 1, "vpp": 1, "cp": 1, "dp": case.ranks,
        "sharding": f"FSDP{case.fsdp} {stage}; {case.reduce} gradients" + (f"; {case.prefetch}" if case.fsdp == 1 else ""),
        "mbs": case.batch, "gbs": case.batch * case.ranks * case.micro_batches, "n_microbatch": case.micro_batches,
        "recompute": "full (use_reentrant=False)" if case.recompute == "full" else "none", "precision": "amp_bf16",
        "attn_backend": "FlashAttention-2", "metric": "max_memory_allocated", "value_bytes": steps[1]["peak"],
        "ranks": "rank 0, the others absent (fake process group)", "source": "analysis/measure_sharding.py",
        "notes": "; ".join(notes) + f"; PyTorch {torch.__version__}"}


def attempt(case):
    try:
        return measure(case)
    except Exception:  # one case must not end the others: it is told and has no row
        return {"error": traceback.format_exc()[-2000:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for the two files")
    options = parser.parse_args()
    with create(options.output / "memory.csv") as rows, create(options.output / "live.json") as live:
        writer = csv.DictWriter(rows, MEMORY, lineterminator="\n")
        writer.writeheader()
        # A process for each case: a process group is of one size.
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            begin = time.monotonic()
            for number, (case, result) in enumerate(zip(CASES, pool.imap(attempt, CASES)), 1):
                live.write(json.dumps({"id": f"S{number:03d}m", "case": case._asdict(), **result}) + "\n")
                if "error" in result:
                    print(f"not measured: {case}: {result['error']}", file=sys.stderr)
                else:
                    writer.writerow(row_of(number, case, result["steps"]))
                    print(f"S{number:03d}m {case.model}: {time.monotonic() - begin:.1f} s, steps "
                          f"{[step['s'] for step in result['steps']]}, {result['steps'][1]['peak'] / GIB:.3f} GiB, retries "
                          f"{[step['retries'] for step in result['steps']]}", flush=True)
                rows.flush()
                live.flush()
                begin = time.monotonic()


if __name__ == "__main__":
    exit_with(main)

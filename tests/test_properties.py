#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run random models and plans of systems with one phase. They compare reports with closed forms and their
own sums."""
import json
import pathlib
import random
import re
import unittest

import h5py

from program import SCRATCH, point_of, run, write

ROOT = pathlib.Path(__file__).resolve().parents[1]

SYSTEMS = ("best-fit", "length-balanced", "flops-balanced", "wlb-llm", "bytescale", "megatron-dynamic-cp",
           "megatron-dp-balanced", "megatron-default-dynamic-cp", "slimpack", "slimpipe", "dynapipe", "distca")
MODEL = ("heads", "kv_heads", "hidden", "layers", "ffn", "vocabulary", "activation", "tied_embeddings", "norm",
         "positions")


def draw(seed):
    """Make a model of 4 layers, a plan, and lengths of one iteration."""
    rng, name = random.Random(seed), SYSTEMS[seed % len(SYSTEMS)]
    heads = rng.choice((8, 16))
    model = dict(zip(MODEL, (heads, rng.choice((8, heads)), 64 * heads, 4, rng.choice((2048, 2816)),
                             rng.choice((1, 32000, 50257)), rng.choice(("swiglu", "gelu")),
                             rng.choice(("true", "false")), rng.choice(("rmsnorm", "layernorm")), rng.choice((0, 4096)))))
    plan = {"tp": rng.choice((1, 2, 4)), "pp": rng.choice((1, 2)), "recompute": rng.choice(("none", "full")),
            "gradients": rng.choice(("fp32", "bf16")), "sequence_parallel": rng.random() < 0.5,
            "sharding": "none" if rng.random() < 0.3 else "zero1"}
    lengths = [rng.choice((1, 17, 500, 4096)) for _ in range(rng.randint(1, 12))]
    model |= rng.choice(({}, {"head_width": 32}, {"head_width": 128}))  # else 64
    return name, model, plan, lengths


def sent_bytes(model, plan, tokens, replicas):
    """Count the collectives of TP, the boundaries and the gradients of all GPUs. A tensor is T x h in bf16, and a rank
    of t sends (t - 1)/t of it. With sequence parallelism layers have 4 forward, 6 backward and 4 for recomputation. The
    head has 1 + 2, the embedding 1 + 1 (learned positions: an all-reduce forward, 2). Without it there are all-reduces,
    twice as much each: 2 + 2 and 2, head 1, embedding 1."""
    h, n, t = model["hidden"], model["layers"], plan["tp"]
    again, parallel = plan["recompute"] == "full", plan["sequence_parallel"]
    tensors = n * (10 + 4 * again) + 5 + (model["positions"] > 0) if parallel else 2 * (n * (4 + 2 * again) + 2)
    d, gelu, norm = model.get("head_width", 64), model["activation"] == "gelu", 1 + (model["norm"] != "rmsnorm")
    layer = (2 * h * d * (model["heads"] + model["kv_heads"]) + (2 if gelu else 3) * h * model["ffn"]) / t + 2 * norm * h
    table = -(-model["vocabulary"] // (128 * t)) * 128 * h
    tables = 1 if model["tied_embeddings"] == "true" and plan["pp"] == 1 else 2
    parameters = t * (n * layer + norm * h + model["positions"] * h + tables * table)
    gradient = 4 if plan["gradients"] == "fp32" else 2
    each = 2 * gradient if plan["sharding"] == "none" else gradient + 2
    tied = 2 * t * replicas * table * gradient if model["tied_embeddings"] == "true" and plan["pp"] > 1 else 0
    return {"sent_tensor_bytes": tensors * (t - 1) * 2 * h * tokens,
            "sent_boundary_bytes": (plan["pp"] - 1) * 2 * (1 if parallel else t) * 2 * h * tokens,
            "sent_sync_bytes": parameters * each * (replicas - 1) + tied}


MEMORY = "states activations kv kv_gradients workspace communication libraries".split()
EQUAL = {"slimpipe": {"slices": 1}, "distca": {"pool": 1, "tolerance": 1, "single_stream": True}, "bytescale": {"capacity": 4096}, "megatron-dynamic-cp": {"max_tokens": 4096},
         "megatron-default-dynamic-cp": {"max_tokens": 4096},
         "slimpack": {"slicing": False, "asymmetric": False, "dp_merge": False, "injection": "just-in-time", "micro_packs": 2}}


def machine(factor):
    """Make two nodes of h800, and of a device and links whose every second takes `factor` times as long."""
    fitted = (ROOT / "model" / "gpu" / "h800.yaml").read_text()
    kept = re.search(r"(?ms)^sources:.*?^(?=\w)", fitted)[0]
    slower = re.sub(r"\b(\w+_s): ([0-9.e+-]+)", lambda found: f"{found[1]}: " + repr(
        float(found[2]) / factor if found[1].endswith("per_s") else float(found[2]) * factor), fitted.replace(kept, ""))
    return {"name": "same", "model": "llama3.2-1b", "framework": "slimpack-paper", "engine": "critical-path",
            "device": str(write(f"slower-{factor}.yaml", slower + kept)),
            "host": {"launch": 38e-6 * factor},
            "platform": {"name": "hopper-2x8", "nvlink": 200e9 / factor, "nic": 50e9 / factor, "pcie": 64e9 / factor},
            "iterations": {"warm_up": 0, "measured": 1}}


class Properties(unittest.TestCase):
    def simulate(self, seed):
        name, model, plan, lengths = draw(seed)
        lines = "".join(f"{key}: {value}\n" for key, value in model.items())
        path = write(f"model-{seed}.yaml", f"name: drawn\nsource: drawn\n{lines}")
        scenario = {"name": "drawn", "model": str(path), "device": "h800", "framework": "slimpack-paper", "platform": "hopper-1x8", "trace": "full",
                    "data": {"lengths": " ".join(map(str, lengths)), "context": 4096, "global_batch": len(lengths)},
                    "iterations": {"warm_up": 0, "measured": 1}, "engine": "critical-path",
                    "systems": [{"name": name, "plan": plan}]}
        done = run("run", write("drawn.yaml", json.dumps(scenario)), "--json", "--quiet", "--output", SCRATCH / "drawn")
        self.assertEqual(done.returncode, 0, f"{name} {plan} {done.stderr}")
        with h5py.File(SCRATCH / "drawn" / "drawn.h5") as file:
            return model, plan, lengths, point_of(done.stdout), file["iterations"][0], file["micro_batches"][:]

    def check(self, seed):
        model, plan, lengths, report, row, units = self.simulate(seed)
        system, replicas = report["systems"][0], 8 // plan["tp"] // plan["pp"]
        waiting = sum(lengths) - row["tokens"]
        self.assertTrue(waiting == 0 or SYSTEMS[seed % len(SYSTEMS)] == "wlb-llm")
        for direction in (0, 1):
            cut = {(u["sample"], u["begin"], u["end"]) for u in units if u["direction"] == direction}
            self.assertEqual(sum(end - begin for _, begin, end in cut), row["tokens"])
        if max(system["recompute_of_micro_batches"].values()) == 1:  # dynapipe chooses
            plan["recompute"] = "full" if system["recompute_of_micro_batches"]["full"] == 1 else "none"
            tokens = float(row["tokens"] + row["padding_tokens"])
            for column, expected in sent_bytes(model, plan, tokens, replicas).items():
                self.assertAlmostEqual(row[column], expected, delta=1e-9 * expected, msg=(seed, column))
        parts = sum(row[f"{part}_s"] for part in "busy ring warm_up imbalance cool_down dp_wait sync reshard".split())
        self.assertAlmostEqual(parts / (8 * row["time_s"]), 1, delta=1e-9)
        self.assertAlmostEqual(sum(system[f"{part}_bytes"] for part in MEMORY) / row["peak_bytes"], 1, delta=1e-12)
        self.assertAlmostEqual(system["tokens_per_s_per_gpu"] * row["time_s"] * 8 / row["tokens"], 1, delta=1e-9)

    def test_what_is_sent_trained_and_idle_adds_up(self):
        for seed in range(18, 18 + len(SYSTEMS)):
            with self.subTest(seed=seed, system=SYSTEMS[seed % len(SYSTEMS)]):
                self.check(seed)

    def test_experts_receive_each_token_as_often_as_top_k_says(self):
        """Random models with experts, for each system that takes them. In each pass of each layer of experts a token goes
        to top_k of them and back, in bf16. A GPU of n keeps 1/n of them. Full recomputation repeats the forward."""
        systems = [name for name in ("padded", "padding-free", *SYSTEMS) if name != "bytescale"]
        for seed, name in enumerate(systems):
            rng = random.Random(seed)
            tp, pp, k, layers = rng.choice((1, 2)), rng.choice((1, 2)), rng.choice((1, 2, 4)), rng.choice((2, 3))
            ep = tp if name in ("slimpack", "slimpipe", "dynapipe") else rng.choice((tp, 8 // pp))
            model = {"name": "drawn", "source": "drawn", "heads": 8, "kv_heads": 8, "hidden": 512, "layers": 2 * layers,
                     "ffn": 1024, "vocabulary": 1000, "activation": "swiglu", "tied_embeddings": False,
                     "mtp_layers": rng.choice((0, 1)), "pattern": [{"kind": "dense", "n": layers}, {"kind": "experts", "n": layers}],
                     "kinds": {"dense": {}, "experts": {"ffn": 256, "experts": 16, "top_k": k, "shared_ffn": rng.choice((0, 512))}}}
            if seed % 2:
                model |= {"head_width": 64, "kv_lora_rank": 128, "q_lora_rank": rng.choice((0, 96)), "rope_width": 32}
            lengths = " ".join(str(rng.choice((1, 17, 500, 4096))) for _ in range(16))
            plan = {"tp": tp, "pp": pp, "ep": ep, "recompute": rng.choice(("none", "full"))}
            plan["recompute"] = "none" if name == "dynapipe" else plan["recompute"]
            scenario = {"name": "same", "model": str(write("experts.yaml", json.dumps(model))), "device": "h800",
                        "framework": "slimpack-paper", "platform": "hopper-1x8", "engine": "both", "fits": "tight",
                        "data": {"lengths": lengths, "context": 4096, "global_batch": 16},
                        "iterations": {"warm_up": 0, "measured": 1}, "systems": [{"name": name, "plan": plan}]}
            with self.subTest(system=name, plan=plan):
                row = self.rows_of(scenario)[0]
                tokens = float(row["tokens"] + row["padding_tokens"])
                passes = 6 if plan["recompute"] == "full" else 4
                sent = passes * (layers + model["mtp_layers"]) * tokens * k * 512 * 2 * (ep - 1) / ep
                if name != "dynapipe":  # it chooses its recomputation
                    self.assertAlmostEqual(row["sent_expert_bytes"], sent, delta=1e-9 * sent)
                self.assertEqual(row["expert_s"] > 0, ep > 1)
                parts = sum(row[f"{part}_s"] for part in "busy ring warm_up imbalance cool_down dp_wait sync reshard".split())
                self.assertAlmostEqual(parts / (8 * row["time_s"]), 1, delta=1e-9)
                self.assertLess(row["critical_path_s"], row["simgrid_s"] * (1 + 1e-9))
                self.assertLess(row["expert_s"] + row["tensor_s"] + row["shard_s"], row["busy_s"])

    def rows_of(self, scenario):
        done = run("run", write("same.yaml", json.dumps(scenario)), "--json", "--quiet", "--output", SCRATCH / "same")
        self.assertEqual(done.returncode, 0, f"{scenario} {done.stderr}")
        with h5py.File(SCRATCH / "same" / "same.h5") as file:
            return file["iterations"][:]

    def test_equal_samples_leave_nothing_to_plan(self):
        """Each pipeline has two samples of the context, uncut. Whatever a system balances, all do the same."""
        for tp, pp, sharding in ((1, 2, "zero1"), (2, 1, "zero3"), (2, 2, "none")):
            systems = [{"name": name, "knobs": EQUAL.get(name, {}), "plan": {"tp": tp, "pp": pp, "sharding": sharding}}
                       for name in SYSTEMS if name != "dynapipe"]
            rows = self.rows_of({**machine(1), "platform": "hopper-1x8", "device": "h800", "systems": systems,
                                 "data": {"lengths": "fixed", "context": 4096, "global_batch": 16 // tp // pp}})
            for row, system in zip(rows, systems, strict=True):
                for column in ("time_s", "peak_bytes", "hardware_flop"):
                    self.assertAlmostEqual(row[column] / rows[0][column], 1, delta=1e-9, msg=(system, column))

    def test_a_context_group_is_no_faster_than_its_bound(self):
        """All kinds of context parallelism have one bound if packs are the same: nothing is left in which they differ."""
        kinds = ("ring", "ring-contiguous", "all-gather", "ulysses")
        for seed, faults in enumerate(([], [{"kind": "gpu", "gpus": 3, "factor": 1.5}], [])):
            rng = random.Random(seed)
            lengths = " ".join(str(rng.randint(1, rng.choice((512, 16384)))) for _ in range(24))
            plan = {"tp": rng.choice((1, 2)), "pp": 2, "cp": rng.choice((2, 4)), "recompute": rng.choice(("none", "full"))}
            plan |= {"sharding": "zero3", "pp": 1} if seed == 2 else {}
            systems = [{"name": "best-fit", "label": kind, "plan": {**plan, "cp_type": kind}} for kind in kinds]
            systems.append({"name": "wlb-llm", "plan": {**plan, "cp_type": "all-gather"}, "knobs": {"sharding": "per-sequence"}})
            systems += [{"name": name, "plan": {"tp": 2, "pp": 1}} for name in ("bytescale", "megatron-dynamic-cp", "slimpack")]
            systems.append({"name": "flexsp", "plan": {"tp": 1, "pp": 1, "sharding": "zero3", "cp_type": "ulysses"}})
            systems.append({"name": "best-fit", "label": "alone", "plan": {"tp": 2, "pp": 2, "cp": 1}})
            rows = self.rows_of({**machine(1), "device": "h800", "systems": systems, "faults": faults, "fits": "tight",
                                 "data": {"lengths": lengths, "context": 16384, "global_batch": 24}})
            for row, system in zip(rows, systems, strict=True):
                name = system.get("label", system["name"])
                self.assertFalse(row["context_bound_s"] > row["critical_path_s"] * (1 + 1e-12), (seed, system))
                if name in kinds:
                    self.assertAlmostEqual(row["context_bound_s"] / rows[0]["context_bound_s"], 1, delta=1e-12, msg=system)
            self.assertTrue(rows[-1]["context_bound_s"] != rows[-1]["context_bound_s"], "it is NaN without context ranks")

    def test_a_machine_half_as_fast_takes_twice_as_long(self):
        """Seconds come from rates and latencies alone, and no system decides by a number of seconds."""
        lengths = " ".join(str(random.Random(length).randint(1, 16384)) for length in range(24))
        systems = [{"name": name, "knobs": {}, "plan": {"tp": 2, "pp": 2}} for name in (*SYSTEMS, "hotspa")]
        systems.append({"name": "flexsp", "plan": {"tp": 1, "pp": 1, "sharding": "zero3", "cp_type": "ulysses"}})
        systems.append({"name": "best-fit", "label": "ring", "plan": {"tp": 2, "pp": 1, "cp": 4, "offload": 0.2}})
        data = {"lengths": lengths, "context": 16384, "global_batch": 24}
        once, twice = (self.rows_of({**machine(factor), "systems": systems, "data": data}) for factor in (1, 2))
        for column in ("time_s", "busy_s", "tensor_s", "sync_s", "reshard_s", "ring_s", "shard_s", "expert_s"):
            for one, two in zip(once, twice, strict=True):
                self.assertAlmostEqual(two[column], 2 * one[column], delta=1e-9 * two["total_s"],
                                       msg=(systems[one["system"]], column))
        for column in ("peak_bytes", "forward_micro_batches", "tokens"):
            self.assertEqual(list(once[column]), list(twice[column]), column)


if __name__ == "__main__":
    unittest.main(verbosity=2)

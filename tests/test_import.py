#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of `slimsim import` of plans: 20 recipes of other tools, plans that come back from an export, and refusals."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

import yaml

from program import SCRATCH, fresh, run, write

RECIPES = pathlib.Path(__file__).resolve().parent / "recipes"
sys.path.insert(0, str(RECIPES.parents[1] / "importing"))
import common
import main
import shell

os.environ.setdefault("SLIMSIM_DATA", str(RECIPES.parents[1]))
common.program = lambda *_: subprocess.CompletedProcess([], 0, "", "x is taken as llama3-8b\n")
ROUND_TRIPS = 116
OWN = ["--set", "model=llama2-7b", "--set", "data.context=4Ki", "--set", "platform.nodes=2"]  # of files without a model
# Recipe, options, exit status, model, nodes, GPUs of a node, context, batch (tokens: of packs), micro-batch, plan.
TABLE = [
    ("megatron-llama3-8b.sh", [], 0, "llama3-8b", 1, 8, 8192, 128, 1, {"tp": 2, "pp": 1, "cp": 2, "sequence_parallel": True, "gradients": "bf16", "sharding": "zero1"}),
    ("megatron-gpt3-175b.sh", [], 0, "gpt3-175b", 128, 8, 2048, 1536, 1,
     {"tp": 8, "pp": 16, "vpp": 3, "sequence_parallel": True, "recompute": ["attention-core"], "sharding": "none"}),
    ("megatron-mixtral-8x7b.sh", [], 0, "mixtral-8x7b", 8, 8, 4096, 256, 1,
     {"tp": 1, "pp": 4, "vpp": 2, "ep": 8, "etp": 1, "sequence_parallel": True, "sharding": "zero1"}),
    ("megatron-mixtral-8x7b.sh", ["NNODES=4"], 0, "mixtral-8x7b", 4, 8, 4096, 256, 1,
     {"tp": 1, "pp": 4, "vpp": 2, "ep": 8, "etp": 1, "sequence_parallel": True, "sharding": "zero1"}),
    ("megatron-deepseek-v3.yaml", ["--set", "device=b200"], 0, "deepseek-v3", 128, 8, 4096, 8192, 1,
     {"tp": 1, "pp": 16, "vpp": 2, "ep": 64, "etp": 1, "sequence_parallel": True, "sharding": "zero1", "layers": [3] + [2] * 29 + [0, 0],
      "recompute": ["mla-up-proj", "moe-act", "norm"]}),
    ("megatron-deepspeed-bloom.slurm", [], 0, "bloom-176b", 48, 8, 2048, 2048, 2,
     {"tp": 4, "pp": 12, "sharding": "none", "count_embedding": True, "count_head": True, "recompute": "full", "sequence_parallel": False}),
    ("nemo1-llama2-70b.yaml", [], 0, "llama2-70b", 8, 8, 4096, 128, 1, {"tp": 4, "pp": 4, "cp": 1, "vpp": 20, "sequence_parallel": True, "gradients": "bf16", "sharding": "zero1"}),
    ("nemo2-llama31-405b.yaml", [], 0, "llama3-405b", 64, 8, 8192, 512, 1,
     {"tp": 8, "pp": 8, "cp": 2, "vpp": 8, "count_embedding": True, "count_head": True, "sequence_parallel": True, "gradients": "bf16", "sharding": "zero1"}),
    ("bridge-qwen3-30b-a3b.yaml", ["TP=4", "--set", "platform.nodes=4"], 0, "qwen3-30b-a3b", 4, 8, 4096, 256, 2,
     {"tp": 4, "pp": 2, "ep": 4, "etp": 1, "sequence_parallel": True, "gradients": "fp32", "sharding": "zero1", "recompute": "full"}),
    ("torchtitan-llama3-8b.toml", [], 0, "llama3-8b", 8, 8, 8192, 128, 2, {"tp": 1, "pp": 1, "cp": 1, "optimizer": "fused", "sharding": "zero3", "recompute": "selective"}),
    ("torchtitan-llama3-405b.toml", [], 0, "llama3-405b", 64, 8, 8192, 512, 1,
     {"tp": 8, "pp": 8, "vpp": 2, "sharding": "zero3", "shard_group": 4, "reshard_after_forward": "never", "count_embedding": True, "count_head": True, "recompute": "full"}),
    ("torchtitan-qwen3-32b.sh", [], 0, "qwen3-32b", 4, 8, 16384, 4, 1, {"tp": 2, "pp": 1, "cp": 4, "sharding": "zero3", "recompute": "full", "recompute_layers": 32}),
    ("torchtitan-deepseek-v3-16b.toml", ["parallelism.expert_parallel_degree=1"], 0, "deepseek-v2-lite", 1, 8, 4096, 32, 4,
     {"tp": 1, "pp": 1, "ep": 1, "sharding": "zero3", "recompute": "none"}),
    ("deepspeed-zero2-offload.json", OWN, 0, "llama2-7b", 2, 8, 4096, 256, 2,
     {"tp": 1, "pp": 1, "sharding": "zero2", "optimizer_offload": 1, "reduce_bucket": 500000000, "recompute": "none", "optimizer": "fused"}),
    ("deepspeed-zero3.json", OWN, 0, "llama2-7b", 2, 8, 4096, 256, 4, {"tp": 1, "pp": 1, "sharding": "zero3", "recompute": "none", "optimizer": "fused"}),
    ("deepspeed-trainer.sh", [], 0, "llama2-13b", 2, 8, 4096, 128, 4, {"tp": 1, "pp": 1, "sharding": "zero3", "recompute": "full", "optimizer": "fused"}),
    ("axolotl-llama31-8b-fsdp.yaml", [], 0, "llama3-8b", 1, 8, 4096, {"tokens": 262144}, 2,
     {"tp": 1, "pp": 1, "sharding": "zero3", "fsdp_prefetch": "backward-pre", "recompute": "full", "early_stop": True, "optimizer": "fused"}),
    ("axolotl-qwen3-32b-fsdp2.yaml", [], 0, "qwen3-32b", 4, 8, 16384, {"tokens": 131072}, 1,
     {"tp": 2, "pp": 1, "cp": 2, "cp_type": "all-gather", "sharding": "zero3", "fsdp": 2, "fsdp_prefetch": "backward-pre", "reshard_after_forward": "always",
      "shard_group": 8, "recompute": "full"}),
    ("axolotl-mistral-7b-zero2.yaml", [], 0, "mistral-7b-v0.3", 1, 8, 8192, 64, 4, {"tp": 1, "pp": 1, "sharding": "zero2", "recompute": "none"}),
    ("llamafactory-llama3-8b-sft.yaml", [], 0, "llama3-8b", 1, 8, 2048, 16, 1, {"tp": 1, "pp": 1, "sharding": "zero3", "recompute": "full", "optimizer": "fused"}),
    ("llamafactory-qwen25-7b-pt.yaml", ["--set", "platform.nodes=4"], 0, "qwen2.5-7b", 4, 8, 4096, {"tokens": 2097152}, 4,
     {"tp": 1, "pp": 1, "sharding": "zero1", "recompute": "none", "optimizer": "fused"}),
    ("accelerate-fsdp2.yaml", [*OWN, "--set", "data.global_batch=64"], 0, "llama2-7b", 2, 8, 4096, 64, 1,
     {"tp": 1, "pp": 1, "sharding": "zero3", "fsdp": 2, "fsdp_prefetch": "backward-pre", "reshard_after_forward": "never", "recompute": "full", "optimizer": "fused"}),
    ("accelerate-hsdp.yaml", [*OWN[:4], "--set", "data.global_batch=64"], 0, "llama2-7b", 4, 8, 4096, 64, 1,
     {"tp": 1, "pp": 1, "sharding": "zero3", "fsdp_prefetch": "backward-pre", "shard_group": 8, "recompute": "none", "optimizer": "fused"}),
]
# Values that a scenario without the key has with framework megatron-core.
ABSENT = {"plan.vpp": 1, "plan.cp": 1, "plan.ep": 1, "plan.etp": 1, "plan.recompute": "none", "plan.recompute_layers": 0, "plan.gradients": "fp32",
          "plan.main_params": "fp32", "plan.moments": "fp32", "plan.optimizer_offload": 0, "plan.shard_group": 0, "plan.first_stage_layers": None,
          "plan.last_stage_layers": None, "plan.count_embedding": False, "plan.count_head": False, "plan.layers": None, "plan.capacity_factor": 0,
          "plan.pad_to_capacity": False, "plan.cp_type": "ring", "communication.tp_overlap": "bulk", "communication.pp_overlap": "interleaved",
          "communication.dispatcher": "all-to-all", "communication.ep_overlap": False, "precision": "bf16", "fp8_scaling": "delayed", "fp8_params": False,
          "bf16_layers_at_start": 0, "bf16_layers_at_end": 0, "loss": "passes", "swiglu": "fused", "gradient_accumulation": "fused", "fused.rotation": True, "cuda_graphs": "none"}
MODULES = ["norm", "attention-core"]


def imported(path, given=None, settings=None):
    """Return what `slimsim import` prints, without its processes and its check of the scenario."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        main.import_file(argparse.Namespace(input=str(path), output=None), given or {}, settings or {})
    return output.getvalue()


def comments(text, head):
    """Return the comments of the head's list."""
    lines = text.splitlines()
    at = next((i for i, line in enumerate(lines) if line.startswith(f"# {head}")), None)
    found = []
    for line in lines[at + 1:] if at is not None else ():
        if not line.startswith("#   "):
            break
        found.append(line.removeprefix("#   "))
    return found


def value(scenario, key):
    at = scenario["systems"][0] if key.startswith(("plan.", "knobs.")) else scenario
    for word in key.split("."):
        if not isinstance(at, dict) or word not in at:
            return ABSENT.get(key)
        at = at[word]
    return sorted(at) if key == "plan.recompute" and isinstance(at, list) else at


def degrees(rng, gpus, layers):
    """Draw degrees that divide the GPUs and layers."""
    while True:
        tp, pp, cp = rng.choice([1, 2, 4, 8]), rng.choice([1, 1, 2, 4, 8]), rng.choice([1, 1, 1, 2, 4])
        if gpus % (tp * pp * cp) == 0 and layers % pp == 0:
            return tp, pp, cp


def random_plan(rng):
    """Return the keys of a random scenario that flags of Megatron-LM can say."""
    model, layers, experts = rng.choice([("llama3-8b", 32, 0), ("llama2-7b", 32, 0), ("gpt3-175b", 96, 0), ("qwen3-8b", 36, 0),
                                         ("mixtral-8x7b", 32, 8), ("deepseek-v2-lite", 27, 64), ("qwen3-30b-a3b", 48, 128)])
    nodes = rng.choice([1, 2, 4, 8, 16])
    tp, pp, cp = degrees(rng, 8 * nodes, layers)
    dp = 8 * nodes // (tp * pp * cp)
    keys = {"model": model, "platform": {"nodes": nodes, "gpus_per_node": 8}, "plan.tp": tp, "plan.pp": pp, "plan.cp": cp,
            "plan.sequence_parallel": tp > 1 and rng.random() < 0.7, "knobs.micro_batch": rng.choice([1, 1, 2, 4]),
            "data.context": rng.choice([1024, 2048]) if model == "gpt3-175b" else rng.choice([2048, 4096, 32768])}
    if cp > 1:
        keys["plan.cp_type"] = rng.choice(["ring", "all-gather", "ulysses"])
    split = rng.choice(["equal", "ends", "counted", "list"]) if pp > 2 else "equal"
    if split == "equal" and pp > 1 and rng.random() < 0.5:
        keys["plan.vpp"] = rng.choice([n for n in (2, 3, 4, 6) if layers % (pp * n) == 0] or [1])
    elif split == "ends":
        keys.update({"plan.first_stage_layers": layers // pp - 1, "plan.last_stage_layers": layers // pp + 1 - (pp - 2) * 0})
    elif split == "counted":
        keys.update({"plan.count_embedding": True, "plan.count_head": True})
    elif split == "list":
        keys["plan.layers"] = [layers // pp + 1, *[layers // pp] * (pp - 2), layers // pp - 1]
    rounds = rng.choice([1, 2, 4]) * (pp if keys.get("plan.vpp", 1) > 1 else 1)
    keys["data.global_batch"] = keys["knobs.micro_batch"] * dp * rounds
    keys["plan.sharding"] = rng.choice(["none", "zero1", "zero1", *(["zero2", "zero3"] if pp == 1 and not experts else [])])
    keys["communication.dp_overlap"] = rng.choice(["none", "gradients", *(["both"] if keys["plan.sharding"] != "none" else [])])
    keys["communication.tp_overlap"] = rng.choice(["bulk", "chunked"]) if keys["plan.sequence_parallel"] else "bulk"
    keys["communication.pp_overlap"] = rng.choice([False, "interleaved"]) if keys.get("plan.vpp", 1) > 1 and pp > 2 else "interleaved"
    keys["plan.gradients"] = rng.choice(["fp32", "bf16"])
    random_states(rng, keys, dp * cp)
    random_recompute(rng, keys, layers // pp, experts)
    random_rest(rng, keys, experts, dp)
    return keys


def random_states(rng, keys, ranks):
    sharded = keys["plan.sharding"] != "none"
    if sharded and rng.random() < 0.2:
        keys["plan.moments"] = "bf16"
        keys["plan.main_params"] = rng.choice(["fp32", "fp16"])
    elif keys["plan.sharding"] in ("zero1", "zero2") and rng.random() < 0.2:
        keys["plan.optimizer_offload"] = rng.choice([0.25, 0.5, 1])
    if keys["plan.sharding"] == "zero1" and ranks % 2 == 0 and rng.random() < 0.2:
        keys["plan.shard_group"] = ranks // 2


def random_recompute(rng, keys, of_stage, experts):
    kind = rng.choice(["none", "full", "block", "modules"])
    if kind == "full":
        keys["plan.recompute"] = "full"
    elif kind == "block":
        keys.update({"plan.recompute": "full", "plan.recompute_layers": rng.randint(1, of_stage // keys.get("plan.vpp", 1)) * keys.get("plan.vpp", 1)})
    elif kind == "modules":
        others = [*MODULES, *(["moe-act", "moe"] if experts else ["mlp"]), *(["mla-up-proj"] if keys["model"] == "deepseek-v2-lite" else [])]
        keys["plan.recompute"] = sorted(rng.sample(others, rng.randint(1, len(others))))


def random_rest(rng, keys, experts, dp):
    keys["loss"] = rng.choice(["passes", "fused"])
    keys["gradient_accumulation"] = rng.choice(["fused", "autograd"])
    if keys["model"] != "gpt3-175b":
        keys["swiglu"] = rng.choice(["fused", "separate"])
        keys["fused.rotation"] = rng.choice([True, False])
    if experts:
        ranks = keys["plan.tp"] * keys["plan.cp"] * dp
        keys["plan.ep"] = rng.choice([n for n in (1, 2, 4, 8) if ranks % n == 0])
        keys["plan.etp"] = rng.choice([n for n in (1, keys["plan.tp"]) if ranks % (n * keys["plan.ep"]) == 0])
        keys["expert_gemms"] = rng.choice(["sequential", "multi-stream"])
        keys["fused.permute"] = rng.choice([True, False])
        keys["communication.dispatcher"] = rng.choice(["all-to-all", "all-gather", "deepep"])
        keys["communication.ep_overlap"] = keys["plan.ep"] > 1 and rng.random() < 0.3
        if rng.random() < 0.3:
            keys["plan.capacity_factor"] = rng.choice([1, 1.25, 2])
            keys["plan.pad_to_capacity"] = rng.choice([True, False])
        if keys["expert_gemms"] == "sequential" and "moe-act" in keys.get("plan.recompute", ()):
            keys["plan.recompute"] = ["norm"]
    elif rng.random() < 0.3:
        keys["precision"] = "fp8-tensor"
        keys["fp8_scaling"] = rng.choice(["delayed", "current"])
        keys["fp8_params"] = rng.choice([True, False])
        if keys["fp8_scaling"] == "current":
            keys["bf16_layers_at_start"], keys["bf16_layers_at_end"] = rng.choice([(0, 0), (1, 1), (2, 0)])


def scenario_of(keys):
    """Return a scenario with these keys."""
    scenario = {"name": "random", "device": "h100-sxm", "iterations": {"warm_up": 0, "measured": 1}, "systems": [{"name": "best-fit"}], "data": {"lengths": "fixed"}}
    for key, entry in keys.items():
        *groups, last = key.split(".")
        at = scenario["systems"][0] if key.startswith(("plan.", "knobs.")) else scenario
        for group in groups:
            at = at.setdefault(group, {})
        at[last] = entry
    return yaml.safe_dump(scenario)


class Recipes(unittest.TestCase):
    def test_recipes__give_plan_model_and_batch(self):
        self.assertGreaterEqual(len({row[0] for row in TABLE}), 20)
        for recipe, options, status, model, nodes, of_a_node, context, batch, micro_batch, plan in TABLE:
            with self.subTest(recipe, options=options):
                done = run("import", RECIPES / recipe, *options)
                self.assertEqual(done.returncode, status, done.stderr)
                scenario = yaml.safe_load(done.stdout)
                key, size = ("global_batch_tokens", batch["tokens"]) if isinstance(batch, dict) else ("global_batch", batch)
                self.assertEqual((scenario["model"], scenario["data"][key]), (model, size))
                self.assertIn(scenario["data"]["context"], (context, "4Ki"))
                self.assertEqual(scenario["platform"], {"nodes": nodes, "gpus_per_node": of_a_node})
                (system,) = scenario["systems"]
                self.assertEqual((system["plan"], system["knobs"]["micro_batch"]), (plan, micro_batch))

    def test_every_setting__stands_in_the_head(self):
        """All flags of the script are in one of the lists, and those without effect in theirs."""
        done = run("import", RECIPES / "megatron-llama3-8b.sh")
        head = "".join(line for line in done.stdout.splitlines(keepends=True) if line.startswith("#"))
        script = (RECIPES / "megatron-llama3-8b.sh").read_text()
        flags = {word.strip('"') for word in script.split() if word.strip('"').startswith("--")}
        self.assertGreater(len(flags), 50)
        for flag in flags:
            self.assertRegex(head, rf"{flag}\b")
        self.assertIn("--lr", " ".join(comments(done.stdout, "Without effect")))
        self.assertIn("--tensor-model-parallel-size 2 -> plan.tp: 2", comments(done.stdout, "Taken"))

    def test_settings__that_are_not_modelled_have_a_reason(self):
        done = run("import", RECIPES / "megatron-gpt3-175b.sh")
        (line,) = comments(done.stdout, "Not modelled")
        self.assertRegex(line, r"^--rampup-batch-size 16 16 5859375: the batch grows")
        self.assertEqual(done.stderr, "slimsim: 1 setting is not modelled; the first lines of the scenario name it\n")

    def test_unknown_settings__are_named(self):
        done = run("import", RECIPES / "megatron-own-30b.args", "--output", fresh("own.yaml").with_name("unknown.yaml"), "--set", "model=llama2-7b")
        self.assertEqual(comments((SCRATCH / "unknown.yaml").read_text(), "Not known"), ["--my-own-flag 3"])
        self.assertIn("1 setting is not known", done.stderr)
        (SCRATCH / "unknown.yaml").unlink()

    def test_precision__follows_format_and_recipe(self):
        for flags, expected in (("--fp8-format hybrid", ("fp8-tensor", "delayed")), ("--fp8-format e4m3 --fp8-recipe tensorwise", ("fp8-tensor", "current")),
                                ("--fp8-format e4m3 --fp8-recipe blockwise", ("fp8-block", None)), ("--fp8-format e4m3 --fp8-recipe mxfp8", ("mxfp8", None)), ("", (None, None))):
            scenario = self.changed(flags, status=None)
            self.assertEqual((scenario.get("precision"), scenario.get("fp8_scaling")), expected)

    def test_precision_plugin_of_nemo__counts_before_ddp(self):
        """NeMo writes the plugin's values over those of ddp. A long configuration of overlap is one line."""
        text = (RECIPES / "nemo2-llama31-405b.yaml").read_text()
        for plugin, ddp in (("false", "true"), ("true", "false")):
            changed = text.replace("grad_reduce_in_fp32: false", f"grad_reduce_in_fp32: {plugin}").replace(
                "    tp_comm_overlap: true\n", "    tp_comm_overlap: true\n    tp_comm_overlap_cfg: {_target_: a.Cfg, qkv_fprop: {method: ring, num_sm: 4}}\n").replace(
                "    context_parallel_size: 2\n", f"    context_parallel_size: 2\n    ddp: {{grad_reduce_in_fp32: {ddp}}}\n")
            done = run("import", write("nemo.yaml", changed))
            self.assertEqual(yaml.safe_load(done.stdout)["systems"][0]["plan"]["gradients"], "fp32" if plugin == "true" else "bf16")
            self.assertEqual(sum("tp_comm_overlap_cfg" in line for line in comments(done.stdout, "Not modelled")), 1)
            self.assertNotIn("Not known", done.stdout)

    def test_texts_that_are_cut_into_blocks__are_packed(self):
        """run_clm.py joins texts and cuts them. A place for states that is not used has no effect."""
        ds = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "none", "pin_memory": True}}}
        write("clm.json", json.dumps(ds))
        script = write("clm.sh", "deepspeed --num_gpus 8 run_clm.py --model_name_or_path Qwen/Qwen2.5-7B --block_size 2048 "
                       "--per_device_train_batch_size 2 --deepspeed clm.json\n")
        done = run("import", script)
        scenario = yaml.safe_load(done.stdout)
        self.assertEqual((scenario["systems"][0]["name"], scenario["data"]["context"], scenario["data"]["global_batch_tokens"]), ("best-fit", 2048, 2 * 8 * 2048))
        self.assertNotIn("Not ", done.stdout)
        write("clm.json", json.dumps(ds).replace("none", "cpu"))
        self.assertEqual(len(comments(run("import", script).stdout, "Not modelled")), 2)

    def changed(self, flags, status=0):
        """Return the scenario of arguments of Llama 2 7B with more flags."""
        done = run("import", "-", input=f"""{LLAMA2_7B} {flags}\n""")
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return yaml.safe_load(done.stdout)


LLAMA2_7B = """--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 --swiglu --normalization RMSNorm
--disable-bias-linear --untie-embeddings-and-output-weights --position-embedding-type rope --attention-dropout 0 --hidden-dropout 0
--vocab-size 32000 --seq-length 4096 --micro-batch-size 1 --global-batch-size 32"""


class Scripts(unittest.TestCase):
    SCRIPT = """\
SIZE=$1
TP=${TP:-2}   # a comment with a 'quote
if [ $SIZE = 7B ]; then LAYERS=28; KV=4
elif [ "$SIZE" = "8B" ]; then LAYERS=32; KV=8
else LAYERS=1; fi
case $SIZE in 7B|70B) SEQ=1024 ;; 8*) SEQ=8192 ;; *) SEQ=1 ;; esac
ARGS=(--num-layers $LAYERS --hidden-size 4096 --ffn-hidden-size 14336)
ARGS+=("--num-attention-heads" 32 --group-query-attention --num-query-groups $KV)
[ -n "$WANDB" ] && ARGS+=(--wandb-project x)
cat > unused.json <<END
{"text": "--num-layers 99"}
END
CMD="torchrun --nproc-per-node 8 --nnodes $((2 * 2)) pretrain_gpt.py ${ARGS[@]} $EXTRA_ARGS --tensor-model-parallel-size ${TP}"
CMD+=" --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights --use-rotary-position-embeddings"
srun -N 9 --label bash -c "$CMD --seq-length ${SEQ} --vocab-size 128256 --attention-dropout 0 --hidden-dropout 0 --global-batch-size=64 $@" > log 2>&1
"""

    def read(self, *settings):
        return run("import", "-", *settings, input=self.SCRIPT)

    def test_variables_tests_and_arrays__are_followed(self):
        done = self.read("1=8B")
        scenario = yaml.safe_load(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual((scenario["model"], scenario["data"]["context"], scenario["data"]["global_batch"]), ("llama3-8b", 8192, 64))
        self.assertEqual((scenario["platform"], scenario["systems"][0]["plan"]["tp"]), ({"nodes": 4, "gpus_per_node": 8}, 2))
        self.assertNotIn("wandb", done.stdout)

    def test_entries_of_arrays__are_taken(self):
        for entry, settings, context in (("1", (), 8192), ("1 - 1", (), 4096), ("$AT", ("AT=1",), 8192), ("$AT", ("SEQS=2048",), 2048)):
            script = f"SEQS=(4096 8192)\ntorchrun pretrain_gpt.py {LLAMA2_7B}".replace("\n--", " --").replace("length 4096", f"length ${{SEQS[{entry}]}}")
            done = run("import", "-", *settings, input=script)
            self.assertEqual(yaml.safe_load(done.stdout)["data"]["context"], context, done.stderr)
        self.assertIn("allowed: SEQS=VALUE", run("import", "-", input=script.replace("$AT", "2")).stderr)

    def test_what_the_user_gives__counts(self):
        scenario = yaml.safe_load(self.read("1=8B", "TP=4", "global_batch_size=128").stdout)
        self.assertEqual((scenario["systems"][0]["plan"]["tp"], scenario["data"]["global_batch"]), (4, 128))
        scenario = yaml.safe_load(run("import", "-", "1=8B", "--set", "platform.nodes=2", "--set", "data.global_batch=32", input=self.SCRIPT).stdout)
        self.assertEqual((scenario["platform"]["nodes"], scenario["data"]["global_batch"]), (2, 32))

    def test_words_that_have_no_value__are_said(self):
        """A variable or command whose flags are not known counts as empty. In place of a value it is an error."""
        words = " $MOE_ARGS $(cat more args) --nproc-per-node 8 --tensor-model-parallel-size 2"
        done = run("import", "-", input=f"torchrun pretrain_gpt.py {LLAMA2_7B} {words} > $LOG\n".replace("\n--", " --"))
        self.assertEqual(done.returncode, 0, done.stderr)
        assumed = comments(done.stdout, "Assumed")
        self.assertEqual([line for line in assumed if "empty" in line], ["$MOE_ARGS is empty, as the script does not say its value",
                                                                        "$(cat more args) is empty, as the script does not say its value"])
        self.assertTrue(any(line.startswith("platform.nodes: 1; nothing says how many nodes") for line in assumed))
        for size, said in (("$(python size.py)", "nothing of a script is run, so this has no value; allowed: the value in its place"),
                           ("$((2 * $TOKENS / DP))", "--seq-length $DP: the file does not set $DP; allowed: DP=VALUE"),
                           ("$((8 / $(nproc)))", "--seq-length $(nproc): nothing of a script is run"), ("$((1 / 0))", "--seq-length $((1 / 0)): nothing")):
            done = run("import", "-", input=f"TOKENS=9\ntorchrun pretrain_gpt.py {LLAMA2_7B}\n".replace("4096\n--", "4096 --").replace(
                "\n--", " --").replace("--seq-length 4096", f"--seq-length {size}"))
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        done = run("import", "-", input='OPTS="$(cat sizes) --seq-length 4096 --micro-batch-size 1"\ntorchrun pretrain_gpt.py $OPTS\n')
        self.assertIn("nothing says the model's sizes or its name, as the script does not say what $(cat sizes) is; allowed", done.stderr)

    def test_gpus_of_slurm__are_named(self):
        for flags, device, gpus in (("--gres=gpu:8", "h100-sxm", 8), ("--gres=nvme:1,gpu:h200:4", "h200", 4), ("--gpus-per-node=H100:8", "h100-sxm", 8),
                                    ("--gres=craynetwork:2 --gpus-per-node=4", "h100-sxm", 4)):
            done = run("import", "-", input=f"#SBATCH {flags} -N 2\ntorchrun pretrain_gpt.py {LLAMA2_7B}\n".replace("\n--", " --"))
            scenario = yaml.safe_load(done.stdout)
            self.assertEqual((scenario["device"], scenario["platform"]), (device, {"nodes": 2, "gpus_per_node": gpus}), done.stderr)
        script = f"#SBATCH --gres=gpu:a100:8 -N 2\ntorchrun pretrain_gpt.py {LLAMA2_7B}\n".replace("\n--", " --")
        done = run("import", "-", input=script)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--gres gpu:a100:8: a100 is no device, or several; allowed: --set device=NAME", done.stderr)
        self.assertEqual(yaml.safe_load(run("import", "-", "--set", "device=a100-80g", input=script).stdout)["device"], "a100-80g")

    def test_wrapper_of_torchtitan__names_a_configuration(self):
        words = f"CONFIG_FILE={RECIPES}/torchtitan-llama3-8b.toml NGPU=8 ./run_train.sh --training.seq_len 4096\n"
        scenario = yaml.safe_load(run("import", "-", input=words).stdout)
        self.assertEqual((scenario["model"], scenario["data"]["context"]), ("llama3-8b", 4096))
        done = run("import", "-", input=words.replace("8b.toml", "9b.toml"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("9b.toml: there is no such configuration; allowed: a path that begins in the script's folder", done.stderr)

    def test_test_that_cannot_be_evaluated__is_said(self):
        done = run("import", "-", "--set", "model=llama3-8b", input=self.SCRIPT.replace("SIZE=$1", ""))
        lines = [line for line in comments(done.stdout, "Assumed") if line.startswith("the test")]
        self.assertEqual(lines, ["the test [ $SIZE = 7B ] holds; it depends on what the script does not set",
                                 "the test case $SIZE in *) holds; it depends on what the script does not set"])
        unheard = "if [ -d $LOG ]; then mkdir x; fi\n[ -f $LOG ] && ls\n"  # nothing depends on it
        self.assertNotIn("$LOG", run("import", "-", "1=8B", input=unheard + self.SCRIPT).stdout)
        heard = "[ -f $LOG ] && SIZE=8B\n"
        self.assertIn("the test [ -f $LOG ] holds", run("import", "-", input=self.SCRIPT.replace("SIZE=$1\n", heard)).stdout)
        heard = heard.replace("&&", "||")
        self.assertIn("the test [ -f $LOG ] does not hold;", run("import", "-", input=self.SCRIPT.replace("SIZE=$1\n", heard)).stdout)

    def test_chains_of_tests__are_followed(self):
        """A is 1 and B is 2, and $U has no value. Where a chain stops, TP=2 stays, and the rest of the script is read."""
        yes, no, unknown = "[ $A = 1 ]", "[ $A = 2 ]", "[ $U = 7B ]"
        for chain, tp, said in ((f"{yes} && [ $B = 2 ] && TP=4", 4, []), (f"{no} && [ $B = 2 ] && TP=4", 2, []), (f"{yes} && {no} && TP=4", 2, []),
                                (f"{no} && {no} && {no} && TP=4", 2, []), (f"{no} || [ $B = 1 ] || TP=4", 4, []), (f"{yes} || {no} || TP=4", 2, []),
                                (f"{yes} || {no} && TP=4", 4, []), (f"{no} && {yes} || TP=4", 4, []), (f"{no} && TP=8 || TP=4", 4, []),
                                (f"{yes} && TP=4 || TP=8", 4, []), (f"{no} &&\n  TP=4", 2, []), (f"{yes} && cat log | grep x && TP=4", 4, []),
                                ("[[ $A = 1 && $B = 1 ]] && TP=4", 2, []), (f"{unknown} && TP=4", 4, [f"{unknown} holds"]),
                                (f"{unknown} || TP=4", 4, [f"{unknown} does not hold"]), (f"{unknown} && {no} && TP=4", 2, []),
                                (f"{unknown} || {no} || TP=4", 4, [f"{unknown} || {no} does not hold"]),
                                (f"{unknown} && TP=4 || TP=8", 4, [f"{unknown} holds"]), (f"{unknown} || {yes} && TP=4", 4, []),
                                (f"if {yes}; then {no} && {no} && TP=8; TP=4; fi", 4, []), (f"if {no}; then {yes} && {no} && TP=8; fi", 2, []),
                                (f"if {yes}; then {no} && {yes} && TP=8; else TP=4; fi", 2, []), (f"if {yes} && {no}; then TP=4; fi", 2, []),
                                (f"if {no} || {yes}; then TP=4; else TP=8; fi", 4, []), (f"if {no} && {yes}; then TP=8; elif {no} || {yes}; then TP=4; fi", 4, []),
                                (f"if {no} || {unknown}; then TP=4; fi", 4, [f"{no} || {unknown} holds"]),
                                ("if cat log | grep x; then TP=4; else TP=8; fi", 4, ["cat log | grep x holds"]),
                                (f"elif {no}; then TP=4", 4, []), (f"if {yes} && fi && {no}; TP=4", 4, []), ("case x in x) esac ;; TP=4", 4, [])):  # no script of bash
            with self.subTest(chain):
                script = shell.Script(f"A=1\nB=2\nTP=2\n{chain}\ntorchrun --tp $TP\n", {})
                self.assertEqual((script.commands[-1], script.unsure, script.branches), (["torchrun", "--tp", str(tp)], said, []))

    def test_variables_of_slurm__are_those_of_its_flags(self):
        script = """\
#SBATCH --nodes=16 --ntasks-per-node 8   # of 32
#SBATCH --gres=gpu:h200:8
case $SLURM_JOB_NUM_NODES in 16) PP=4 ;; *) PP=2 ;; esac
GBS=$((SLURM_NNODES * SLURM_GPUS_ON_NODE + SLURM_NTASKS))
srun python pretrain_gpt.py --global-batch-size $GBS --pipeline-model-parallel-size $PP """ + LLAMA2_7B.replace(
            "--micro-batch-size 1 --global-batch-size 32", "").replace("\n", " ")
        done = run("import", "-", input=script)
        scenario = yaml.safe_load(done.stdout)
        self.assertEqual((scenario["data"]["global_batch"], scenario["systems"][0]["plan"]["pp"]), (256, 4), done.stderr)
        self.assertNotIn("SLURM_", done.stdout)
        self.assertEqual(yaml.safe_load(run("import", "-", "SLURM_JOB_NUM_NODES=8", input=script).stdout)["systems"][0]["plan"]["pp"], 2)


class OwnModels(unittest.TestCase):
    def test_own_model__is_written_beside_the_scenario_and_runs(self):
        for name in ("own.yaml", "own.model.yaml"):
            (SCRATCH / name).unlink(missing_ok=True)
        done = run("import", RECIPES / "megatron-own-30b.args", "--output", SCRATCH / "own.yaml")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        model = yaml.safe_load((SCRATCH / "own.model.yaml").read_text())
        self.assertEqual([model[key] for key in ("hidden", "layers", "heads", "kv_heads", "head_width", "activation", "norm")], [7168, 48, 56, 8, 128, "squared-relu", "layernorm"])
        kinds = [model["kinds"][run["kind"]].get("window", 0) for run in model["pattern"] for _ in range(run["n"])]
        self.assertEqual(kinds, [4096, 4096, 4096, 0])
        done = run("lengths", SCRATCH / "own.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_own_model__needs_a_place(self):
        done = run("import", RECIPES / "megatron-own-30b.args")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no shipped model has its sizes, so the model needs a file of its own", done.stderr)
        done = run("import", "-", input=LLAMA2_7B.replace("--vocab-size 32000", "--vocab-size 40000 --qk-layernorm"))
        self.assertIn("no shipped model has its sizes (qwen1.5-7b differs in vocabulary and qk_norm), so", done.stderr)

    def test_missing_vocabulary__is_that_of_the_tokenizer(self):
        sizes = LLAMA2_7B.replace("--vocab-size 32000", "")
        for flags, options, model in ((" --tokenizer-type Llama2Tokenizer", [], "llama2-7b"), ("", ["vocab_size=151936"], "qwen1.5-7b"),
                                      (" --tokenizer-type HuggingFaceTokenizer --tokenizer-model Qwen/Qwen1.5-7B", [], "qwen1.5-7b")):
            done = run("import", "-", *options, input=sizes + flags)
            self.assertEqual((done.returncode, yaml.safe_load(done.stdout)["model"]), (0, model), done.stderr)
        done = run("import", "-", input=sizes)
        self.assertIn("nothing says the size of the vocabulary", done.stderr)

    def test_own_configuration__takes_the_place_of_a_model_that_is_not_shipped(self):
        done = run("import", "-", input="base_model: someone/unheard-of-9b\nsequence_len: 2048\nmicro_batch_size: 1\n")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--set model=./config.json", done.stderr)


class RoundTrips(unittest.TestCase):
    def test_exported_plans__come_back(self):
        rng, n = random.Random(59), 0
        for _ in range(4 * ROUND_TRIPS):
            keys = random_plan(rng)
            exported = run("export", write("random.yaml", scenario_of(keys)), "--megatron")
            if exported.returncode != 0:  # a plan that slimsim refuses
                continue
            path = write("flags.txt", exported.stdout)
            text = imported(path) if n % 10 else run("import", path).stdout
            scenario = yaml.safe_load(text)
            with self.subTest(n=n, keys=keys, flags=exported.stdout):
                self.assertEqual({key: value(scenario, key) for key in keys}, keys)
                absent = [key for key in ABSENT if key.startswith("plan.") and key not in keys and key not in ("plan.layers", "plan.vpp")]
                self.assertEqual({key: value(scenario, key) for key in absent if key != "plan.etp"}, {key: ABSENT[key] for key in absent if key != "plan.etp"})
                self.assertNotIn("Not known", text)
            n += 1
            if n == ROUND_TRIPS:
                break
        self.assertEqual(n, ROUND_TRIPS)


class Words(unittest.TestCase):
    def test_plan_of_a_verdict__is_printed_as_keys(self):
        for text, expected in (
                ("TP4 PP4 DP16 selective", {"plan": {"tp": 4, "pp": 4, "dp": 16, "recompute": "selective"}}),
                ("TP8 PP4 VPP5 CP2 DP1 interleaved norm+activation", {"plan": {"tp": 8, "pp": 4, "vpp": 5, "cp": 2, "dp": 1, "recompute": "norm+activation"}}),
                ("CP4 EP8 ETP2 DP8 zero3 on-demand full offload 25%",
                 {"plan": {"tp": 1, "pp": 1, "cp": 4, "ep": 8, "etp": 2, "dp": 8, "sharding": "zero3", "shard_communication": "on-demand", "recompute": "full", "offload": 0.25}}),
                ("TP2 DP4 unsharded optimizer offload 50%", {"plan": {"tp": 2, "pp": 1, "dp": 4, "sharding": "none", "optimizer_offload": 0.5}}),
                ("PP2 DP4 zero-bubble offload", {"plan": {"tp": 1, "pp": 2, "dp": 4, "schedule": "zero-bubble"}, "offload": "auto"}),
                ("TP8-PP4-DP2 ZeRO-1 MBS2", {"plan": {"tp": 8, "pp": 4, "dp": 2, "sharding": "zero1"}, "knobs": {"micro_batch": 2}})):
            done = run("import", text)
            self.assertEqual((done.returncode, done.stderr, yaml.safe_load(done.stdout)), (0, "", expected), text)
            self.assertEqual(run("import", *text.split()).stdout, done.stdout)

    def test_plan_that_run_prints__comes_back(self):
        keys = {"model": "llama2-7b", "platform": {"nodes": 2, "gpus_per_node": 8}, "plan.tp": 2, "plan.pp": 4, "plan.recompute": "norm+activation",
                "data.context": 4096, "data.global_batch": 16}
        done = run("run", write("random.yaml", scenario_of(keys)), "--set", "engine=critical-path", "--quiet", "--output", SCRATCH)
        (row,) = [line for line in done.stdout.splitlines() if line.startswith("best-fit ")]
        plan = yaml.safe_load(run("import", row[row.index("TP"):]).stdout)["plan"]
        self.assertEqual(plan, {"tp": 2, "pp": 4, "dp": 2, "recompute": "norm+activation"})


class Refusals(unittest.TestCase):
    def test_bad_input__gets_one_sentence(self):
        scenario = write("scenario.yaml", "systems: []\n")
        toml, broken = write("broken.toml", "[training\n"), write("broken.yaml", "base_model: [\n")
        binary = SCRATCH / "binary.sh"
        binary.write_bytes(b"\xff\xfe--num-layers")
        for words, standard_input, expected in (
                (["TP4 PPx"], "", "'ppx' is no word of a plan; allowed: degrees such as TP4"),
                ([SCRATCH / "none.sh"], "", "none.sh: cannot be read: No such file or directory"),
                ([scenario], "", "is a scenario of slimsim already"),
                ([toml], "", "is no valid TOML"),
                ([broken], "", "is no valid YAML"),
                ([binary], "", "is no text in UTF-8"),
                (["-"], "echo hello\n", "no flags of a known tool were found; allowed: a launch script"),
                (["-"], LLAMA2_7B.replace("--seq-length 4096", "--seq-length $SEQ"), "--seq-length $SEQ: the file does not set $SEQ; allowed: SEQ=VALUE behind the file's name"),
                (["-"], LLAMA2_7B + " --tensor-model-parallel-size two", "--tensor-model-parallel-size two: allowed: a whole number"),
                (["-"], LLAMA2_7B + " --recompute-granularity half", "allowed: full, selective"),
                (["-"], LLAMA2_7B.replace("--seq-length 4096", ""), "nothing says the length of a sequence; allowed: --set data.context=VALUE"),
                (["-"], LLAMA2_7B + " --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout Et*16|t*16L", "it has 2 stages, no multiple of"),
                (["-"], LLAMA2_7B + " --tensor-model-parallel-size 3 --nnodes 1 --nproc-per-node 8", "does not divide 1 nodes of 8 GPUs"),
                (["-"], "base_model: a/b\nadapter: lora\n", "adapter: lora: training of a part of the parameters is not modelled; allowed: full fine-tuning"),
                (["-"], "trainer: {num_nodes: 1}\nmodel: {peft: {peft_scheme: lora}}\n", "model.peft.peft_scheme: lora: training of a part of the parameters"),
                (["-"], "trainer: {num_nodes: 1}\npeft: {_target_: nemo.LoRA, dim: 8}\n", "peft._target_: nemo.LoRA: training of a part of the parameters"),
                (["-"], "model_name_or_path: a/b\nstage: dpo\n", "stage: dpo: models that run beside the trained one are not modelled; allowed: pt, sft"),
                ([RECIPES / "deepspeed-zero3.json"], "", "nothing says the model; allowed: --set model=VALUE"),
                ([RECIPES / "torchtitan-llama3-8b.toml", "model.flavor=debugmodel"], "", "flavor debugmodel: is no shipped model; allowed: --set model=./config.json")):
            done = run("import", *words, input=standard_input)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (words, done.stderr))
            self.assertIn(expected, done.stderr)
            self.assertRegex(done.stderr, r"\Aslimsim: [^\n]*\n\Z")

    def test_damaged_files__get_a_scenario_or_a_sentence(self):
        """Copies of the recipes are damaged."""
        rng, recipes = random.Random(1), sorted(path for path in RECIPES.iterdir() if path.is_file())
        refused = 0
        for i in range(400):
            recipe = rng.choice(recipes)
            words = recipe.read_text().split(" ")
            for _ in range(rng.randint(1, 3)):
                words[rng.randrange(len(words))] = rng.choice(["", "0", "-1", "nan", "[]", "{}", "null", "$X", "${Y:-", "((", "'", "full", "99999999999", "\n"])
            with self.subTest(i, recipe=recipe.name):
                try:
                    imported(write(recipe.name, " ".join(words)), {"model": "llama3-8b", "data.context": 4096, "data.global_batch": 64}, {"TP": "4"})
                except main.Error:
                    refused += 1
        self.assertTrue(40 < refused < 360, refused)

    def test_verbs_that_read_a_scenario__name_import(self):
        """A script or recipe in place of a scenario gets the command that makes one of it, and nothing else."""
        for recipe in sorted(RECIPES.iterdir()):
            done = run("run", recipe)
            self.assertEqual((done.returncode, done.stdout), (2, ""), recipe)
            self.assertEqual(done.stderr, f"slimsim: {recipe}: it is a script or recipe of another tool; `slimsim import {recipe} "
                             "--output mine.yaml` makes a scenario of it\n")
        for verb in (["plan"], ["lengths"], ["sensitivity"], ["capacity"], ["explain"], ["compare", recipe], ["export", "--megatron"],
                     ["max", "data.context", "--to=1Mi"], ["submit", "--shards=2"]):
            self.assertEqual(run(*verb, recipe).stderr, done.stderr, verb)

    def test_output__is_not_replaced(self):
        path = write("kept.yaml", "mine\n")
        done = run("import", "-", "--output", path, input=LLAMA2_7B)
        self.assertEqual((done.returncode, path.read_text()), (2, "mine\n"))
        self.assertIn("kept.yaml: exists; allowed: the name of a new file for --output", done.stderr)

    def test_plan_that_does_not_run__is_printed_and_said(self):
        done = run("import", "-", input=LLAMA2_7B + " --fp8-format e4m3 --fp8-recipe blockwise")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(yaml.safe_load(done.stdout)["precision"], "fp8-block")
        self.assertIn("the scenario is printed, but it does not run yet: precision: fp8-block was not measured on device h100-sxm", done.stderr)

    def test_options__need_no_model_configuration(self):
        path = write("config.json", '{"model_type": "llama"}')
        done = run("import", path, "--set", "device=h200")
        self.assertEqual(done.returncode, 2)
        self.assertIn("is a model's configuration, which takes no options", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what `slimsim export` makes of a scenario: events for a viewer, and flags of Megatron-LM."""
import json
import unittest

import h5py
import program
from program import SCRATCH, run, write

PHASES = {"M": {"name", "pid", "args"}, "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"}, "C": {"name", "pid", "ts", "args"},
          "s": {"name", "cat", "id", "pid", "tid", "ts"}, "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"}}


class Chrome(unittest.TestCase):
    def export(self, *arguments, scenario=program.SMALL):
        done = run("export", write("small.yaml", scenario), "--chrome", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["traceEvents"]

    def test_export__writes_the_iteration_that_a_full_trace_has(self):
        """One iteration is traced, with both engines and warm-up, and its arrows are the boundaries that moved bytes."""
        scenario = program.SMALL.replace("warm_up: 0", "warm_up: 1").replace("critical-path", "both\ntrace: full")
        self.assertEqual(run("run", write("small.yaml", scenario), "--quiet", "--output", SCRATCH).returncode, 0)
        with h5py.File(SCRATCH / "small.h5") as file:
            iteration = int(file.attrs["traced_iterations"][0])
            transfers, names = file["transfers"][:], [name.decode() for name in file["tasks"].attrs["purpose_names"]]
        whole = json.loads(run("export", SCRATCH / "small.h5", "--chrome").stdout)["traceEvents"]
        for system, label in enumerate(("best-fit", "slimpack")):
            events = self.export("--system", label, "--iteration", iteration, scenario=scenario)
            spans = lambda events, first: sorted((e["pid"] - first, e["tid"], e["name"], e["ts"], e["dur"], str(e["args"]))
                                                 for e in events if e["ph"] == "X" and e["pid"] // 16 * 16 == first)
            self.assertEqual(spans(events, 0), spans(whole, 16 * system))
            moved = transfers[(transfers["system"] == system) & (transfers["purpose"] == names.index("boundary"))]
            self.assertEqual(sum(event["ph"] == "s" for event in events), len(moved))
            self.assertGreater(len(moved), 0)

    def test_export__writes_valid_events_whose_arrows_go_forward(self):
        """Each arrow has one begin and one end, inside events of their tracks, and ends where a pass starts.

        A viewer that counts both ends of an event as inside finds no other event on the track.
        """
        events = self.export("--iteration", 1)
        spans, ends = {}, {"s": {}, "f": {}}
        for event in events:
            self.assertLessEqual(PHASES[event["ph"]], set(event))
            self.assertGreaterEqual(event.get("ts", 0), 0)
            if event["ph"] == "X":
                spans.setdefault((event["pid"], event["tid"]), []).append(event)
            if event["ph"] in ends:
                self.assertNotIn(event["id"], ends[event["ph"]])
                ends[event["ph"]][event["id"]] = event
        self.assertEqual(set(ends["s"]), set(ends["f"]))
        for number, begin in ends["s"].items():
            end = ends["f"][number]
            self.assertLess(begin["ts"], end["ts"])
            self.assertNotEqual(begin["pid"], end["pid"])
            sends, receives = ([span for span in spans[at["pid"], at["tid"]]
                                if span["ts"] - 0.0004 < at["ts"] < span["ts"] + span["dur"] + 0.0004] for at in (begin, end))
            self.assertEqual((len(sends), len(receives)), (1, 1))
            self.assertTrue(sends[0]["name"].startswith("boundary "))
            self.assertTrue(receives[0]["cat"].startswith("compute"))
            self.assertAlmostEqual(receives[0]["ts"] + 0.001, end["ts"], places=4)

    def test_export__marks_a_critical_path_without_gaps(self):
        events = [event for event in self.export() if event["ph"] == "X"]
        critical = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["args"].get("critical"))
        self.assertLess(len(critical), len(events))
        reached = 0
        for begin, end in critical:
            self.assertLessEqual(begin, reached + 0.001)
            reached = max(reached, end)
        self.assertAlmostEqual(reached, max(event["ts"] + event["dur"] for event in events), places=2)
        for event in events:
            marks = event["args"].get("critical", False), event["cat"].endswith(",critical"), "cname" in event
            self.assertEqual(len(set(marks)), 1, event)

    def test_export__says_how_to_narrow_much_text(self):
        """64 pipelines on 1,024 GPUs run 64 micro-batches each."""
        big = program.SMALL.replace("hopper-2x8", "hopper-128x8").replace("lengths: github, context: 32Ki, global_batch: 48",
                                                                           "lengths: fixed, context: 1Ki, global_batch: 4Ki")
        systems = big.index("systems:")
        big = big[:systems] + "systems: [{name: best-fit, plan: {tp: 1, pp: 16, recompute: full}, knobs: {micro_batch: 1}}]\n"
        done = run("export", write("big.yaml", big), "--chrome")
        self.assertEqual(done.returncode, 0)
        said = f"about {len(done.stdout) / 1e6:.0f} MB"
        self.assertRegex(done.stderr, "^slimsim: the JSON has about [0-9]* MB, .* a smaller data.global_batch has fewer events\n$")
        self.assertLess(abs(int(done.stderr.split()[5]) / (len(done.stdout) / 1e6) - 1), 0.3, (done.stderr, said))

    def test_export__refuses_options_that_do_not_fit(self):
        path = write("small.yaml", program.SMALL)
        for arguments, said in (((path, "--chrome", "--csv", "tasks"), "exactly one of"), ((path,), "exactly one of"),
                                ((path, "--csv", "tasks"), "--csv takes a trace"), ((path, "--chrome", "--point", "1"), "--point applies"),
                                (("x.h5", "--chrome", "--iteration", "1"), "apply to a scenario"),
                                ((path, "--dag", "dot", "--iteration", "1"), "--iteration needs --chrome")):
            done = run("export", *arguments)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn(said, done.stderr)
        done = run("export", path, "--chrome", "--system", "slim")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("has no system 'slim'; allowed: best-fit, slimpack", done.stderr)


PLAIN = """\
name: plain
model: llama2-70b
device: h100-sxm
platform: h100-32x8
data: {lengths: fixed, context: 4096, global_batch: 1024}
iterations: {warm_up: 0, measured: 1}
engine: critical-path
systems: [{name: best-fit, plan: {tp: 8, pp: 4}, knobs: {micro_batch: 2}}]
"""

# Flags of megatron/training/arguments.py, with the number of values that each takes.
KNOWN = {flag: 1 for flag in """num-layers hidden-size ffn-hidden-size num-attention-heads kv-channels num-query-groups normalization
    position-embedding-type attention-dropout hidden-dropout vocab-size make-vocab-size-divisible-by seq-length max-position-embeddings
    micro-batch-size global-batch-size tensor-model-parallel-size pipeline-model-parallel-size context-parallel-size cp-comm-type
    decoder-first-pipeline-num-layers decoder-last-pipeline-num-layers num-virtual-stages-per-pipeline-rank
    num-layers-per-virtual-pipeline-stage pipeline-model-parallel-layout data-parallel-sharding-strategy ckpt-format num-distributed-optimizer-instances
    recompute-granularity recompute-method recompute-num-layers attention-backend main-params-dtype main-grads-dtype exp-avg-dtype exp-avg-sq-dtype
    optimizer-offload-fraction window-size window-attn-skip-freq num-experts moe-router-topk moe-ffn-hidden-size moe-layer-freq
    moe-shared-expert-intermediate-size moe-token-dispatcher-type moe-expert-capacity-factor expert-model-parallel-size
    expert-tensor-parallel-size moe-router-num-groups moe-router-group-topk moe-flex-dispatcher-backend q-lora-rank kv-lora-rank qk-head-dim qk-pos-emb-head-dim v-head-dim mtp-num-layers
    fp8-format fp8-recipe num-layers-at-start-in-bf16 num-layers-at-end-in-bf16""".split()}
KNOWN |= {flag: 0 for flag in """group-query-attention swiglu disable-bias-linear untie-embeddings-and-output-weights bf16
    account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split sequence-parallel use-tp-pp-dp-mapping
    use-distributed-optimizer use-megatron-fsdp overlap-grad-reduce overlap-param-gather grad-reduce-in-bf16
    no-overlap-p2p-communication tp-comm-overlap cross-entropy-loss-fusion no-bias-swiglu-fusion no-gradient-accumulation-fusion squared-relu
    dynamic-context-parallel qk-layernorm use-precision-aware-optimizer optimizer-cpu-offload moe-router-pre-softmax
    multi-latent-attention moe-grouped-gemm moe-permute-fusion moe-pad-expert-input-to-capacity
    overlap-moe-expert-parallel-comm fp8-param-gather first-last-layers-bf16""".split()}
KNOWN |= {"recompute-modules": None, "sequence-packing-scheduler": 1, "max-seqlen-per-dp-cp-rank": 1}  # None: any number


class Megatron(unittest.TestCase):
    def flags(self, *settings, scenario=PLAIN, arguments=()):
        """Return the flags with their values, and the comments."""
        sets = [word for setting in settings for word in ("--set", setting)]
        done = run("export", write("plain.yaml", scenario), "--megatron", *arguments, *sets)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        flags, comments = {}, []
        for line in done.stdout.splitlines():
            if line.startswith("# slimsim: "):
                comments.append(line[11:])
                continue
            flag, *values = line.split(" ")
            self.assertTrue(flag.startswith("--") and flag not in flags, line)
            self.assertIn(KNOWN[flag[2:]], (len(values), None), line)
            flags[flag] = " ".join(values)
        return flags, comments

    def test_export__prints_the_flags_of_a_plain_plan(self):
        flags, comments = self.flags()
        self.assertEqual(comments, ["These flags mean the plan of best-fit in plain on 32 nodes of 8 GPUs.",
                                    "Tokenizer, data, learning rate and checkpoints need flags of their own."])
        self.assertEqual(flags, {
            "--num-layers": "80", "--hidden-size": "8192", "--ffn-hidden-size": "28672", "--num-attention-heads": "64",
            "--group-query-attention": "", "--num-query-groups": "8", "--swiglu": "", "--normalization": "RMSNorm",
            "--disable-bias-linear": "", "--untie-embeddings-and-output-weights": "", "--position-embedding-type": "rope",
            "--attention-dropout": "0", "--hidden-dropout": "0", "--vocab-size": "32000", "--make-vocab-size-divisible-by": "128",
            "--seq-length": "4096", "--max-position-embeddings": "4096", "--micro-batch-size": "2", "--global-batch-size": "1024",
            "--bf16": "", "--tensor-model-parallel-size": "8", "--pipeline-model-parallel-size": "4", "--context-parallel-size": "1",
            "--sequence-parallel": "", "--use-distributed-optimizer": "", "--overlap-grad-reduce": "", "--overlap-param-gather": "",
            "--attention-backend": flags["--attention-backend"]})
        self.assertIn(flags["--attention-backend"], ("flash", "fused"))

    def test_export__prints_a_flag_for_each_choice(self):
        plain, _ = self.flags()
        plan = "systems.0.plan."
        for settings, added, removed in (
                ([plan + "vpp=5"], {"--num-layers-per-virtual-pipeline-stage": "4"}, []),
                ([plan + "vpp=5", "communication.pp_overlap=false"],
                 {"--num-layers-per-virtual-pipeline-stage": "4", "--no-overlap-p2p-communication": ""}, []),
                ([plan + "layers=[20, 20, 21, 19]"], {"--pipeline-model-parallel-layout": "Et*20|t*20|t*21|t*19L"}, []),
                ([plan + "pp=2", plan + "vpp=2", plan + "layers=[0, 40, 39, 1]"],
                 {"--pipeline-model-parallel-size": "2", "--pipeline-model-parallel-layout": "E|t*40|t*39|t*1L"}, []),
                ([plan + "first_stage_layers=0", plan + "spread=even"],
                 {"--pipeline-model-parallel-layout": "E|t*27|t*27|t*26L"}, []),
                ([plan + "first_stage_layers=17"], {"--decoder-first-pipeline-num-layers": "17"}, []),
                ([plan + "spread=even"], {}, []),
                ([plan + "cp=2", plan + "cp_type=all-gather"], {"--context-parallel-size": "2", "--cp-comm-type": "all_gather"}, []),
                ([plan + "recompute=full"], {"--recompute-granularity": "full", "--recompute-method": "uniform",
                                             "--recompute-num-layers": "1"}, []),
                ([plan + "recompute=full", plan + "recompute_layers=7"], {"--recompute-granularity": "full", "--recompute-method": "block",
                                                                          "--recompute-num-layers": "7"}, []),
                ([plan + "recompute=[norm, attention-core]"], {"--recompute-granularity": "selective",
                                                               "--recompute-modules": "core_attn layernorm"}, []),
                ([plan + "sequence_parallel=false"], {}, ["--sequence-parallel"]),
                ([plan + "sharding=none"], {}, ["--use-distributed-optimizer", "--overlap-param-gather"]),
                ([plan + "gradients=bf16"], {"--grad-reduce-in-bf16": ""}, []),
                ([plan + "shard_group=4"], {"--num-distributed-optimizer-instances": "2"}, []),
                (["communication.dp_overlap=none"], {}, ["--overlap-grad-reduce", "--overlap-param-gather"]),
                (["communication.tp_overlap=chunked"], {"--tp-comm-overlap": ""}, []),
                (["communication.tp_overlap=chunked", plan + "sequence_parallel=false"], {}, ["--sequence-parallel"]),
                ([plan + "vpp=4", plan + "pp=2", "communication.pp_overlap=false"],
                 {"--num-layers-per-virtual-pipeline-stage": "10", "--pipeline-model-parallel-size": "2"}, []),
                (["attention=unfused"], {"--attention-backend": "unfused"}, []),
                (["loss=fused"], {"--cross-entropy-loss-fusion": ""}, []),
                (["data.context=8192", "data.global_batch=64", "systems.0.knobs.micro_batch=1"],
                 {"--seq-length": "8192", "--max-position-embeddings": "8192", "--micro-batch-size": "1", "--global-batch-size": "64"}, [])):
            flags, _ = self.flags(*settings)
            self.assertEqual(flags, {flag: value for flag, value in {**plain, **added}.items() if flag not in removed}, settings)

    def test_export__prints_the_flags_of_a_gpt(self):
        flags, _ = self.flags("model=gpt3-175b", "data.context=2048", "data.global_batch=64", "systems.0.knobs.micro_batch=1",
                              "systems.0.plan.recompute=full")
        for flag in ("--swiglu", "--disable-bias-linear", "--untie-embeddings-and-output-weights", "--attention-dropout",
                     "--group-query-attention"):
            self.assertNotIn(flag, flags)
        self.assertEqual((flags["--normalization"], flags["--position-embedding-type"]), ("LayerNorm", "learned_absolute"))

    def test_export__prints_windows_and_says_what_has_no_flag(self):
        """Megatron counts the tokens before a query. In Gemma 3 every sixth of 26 layers has no window."""
        one = ["systems.0.plan.tp=1", "systems.0.plan.pp=1"]
        flags, comments = self.flags("model=gemma-3-1b", *one)
        self.assertEqual(flags["--window-size"], "511,0")
        self.assertEqual(flags["--window-attn-skip-freq"], str([int(i % 6 != 5) for i in range(26)]).replace(" ", ""))
        self.assertIn("--qk-layernorm", flags)
        self.assertEqual(comments[2:4], ["No flag names the model's GeGLU.",
                                         "No flag names norms behind attention and feed-forward block."])
        flags, _ = self.flags("model=mistral-7b", *one)
        self.assertEqual((flags["--window-size"], "--window-attn-skip-freq" in flags), ("4095,0", False))
        flags, comments = self.flags("model=minitron-8b", *one)
        self.assertIn("--squared-relu", flags)
        _, comments = self.flags("model=olmo-2-7b", *one)
        self.assertIn("No flag names norms of all queries and keys together.", comments)
        _, comments = self.flags("model=falcon-7b", *one)
        self.assertIn("No flag names attention beside the feed-forward block.", comments)

    def test_export__prints_the_flags_of_experts_that_ranks_share(self):
        """Mixtral 8x7B on 256 GPUs: 32 replicas of 8 GPUs, and each rank of the 8 has one of the 8 experts."""
        flags, comments = self.flags("model=mixtral-8x7b", "systems.0.plan.tp=2", "systems.0.plan.ep=8")
        self.assertEqual(comments[2:], [
            "The plan counts balanced routing, which --moe-router-force-load-balancing makes in benchmarks."])
        backend = flags.pop("--attention-backend")
        self.assertIn(backend, ("flash", "fused"))
        self.assertEqual(flags, {
            "--num-layers": "32", "--hidden-size": "4096", "--ffn-hidden-size": "14336", "--num-attention-heads": "32",
            "--group-query-attention": "", "--num-query-groups": "8", "--swiglu": "", "--normalization": "RMSNorm",
            "--disable-bias-linear": "", "--untie-embeddings-and-output-weights": "", "--position-embedding-type": "rope",
            "--attention-dropout": "0", "--hidden-dropout": "0", "--vocab-size": "32000", "--make-vocab-size-divisible-by": "128",
            "--num-experts": "8", "--moe-router-topk": "2", "--moe-ffn-hidden-size": "14336",
            "--moe-token-dispatcher-type": "alltoall", "--moe-grouped-gemm": "", "--moe-permute-fusion": "", "--expert-model-parallel-size": "8", "--expert-tensor-parallel-size": "1",
            "--seq-length": "4096", "--max-position-embeddings": "4096", "--micro-batch-size": "2", "--global-batch-size": "1024",
            "--bf16": "", "--tensor-model-parallel-size": "2", "--pipeline-model-parallel-size": "4", "--context-parallel-size": "1",
            "--sequence-parallel": "", "--use-distributed-optimizer": "", "--overlap-grad-reduce": "", "--overlap-param-gather": ""})

    def test_export__prints_latent_attention_and_layers_that_predict_more_tokens(self):
        """DeepSeek-V3 has 3 dense layers, 58 with experts, and one behind them that predicts one more token."""
        plan = "systems.0.plan."
        flags, comments = self.flags("model=deepseek-v3", plan + "tp=1", plan + "ep=64", plan + "spread=even")
        self.assertEqual(len(comments), 3, comments)
        backend = flags.pop("--attention-backend")
        self.assertIn(backend, ("flash", "fused"))
        self.assertEqual(flags, {
            "--num-layers": "61", "--hidden-size": "7168", "--ffn-hidden-size": "18432", "--num-attention-heads": "128",
            "--kv-channels": "128", "--multi-latent-attention": "", "--q-lora-rank": "1536", "--kv-lora-rank": "512",
            "--qk-head-dim": "128", "--qk-pos-emb-head-dim": "64", "--v-head-dim": "128", "--qk-layernorm": "",
            "--swiglu": "", "--normalization": "RMSNorm", "--disable-bias-linear": "",
            "--untie-embeddings-and-output-weights": "", "--position-embedding-type": "rope",
            "--attention-dropout": "0", "--hidden-dropout": "0", "--mtp-num-layers": "1", "--vocab-size": "129280",
            "--make-vocab-size-divisible-by": "128", "--num-experts": "256", "--moe-router-topk": "8",
            "--moe-ffn-hidden-size": "2048", "--moe-shared-expert-intermediate-size": "2048",
            "--moe-layer-freq": "([0]*3+[1]*58)", "--moe-router-num-groups": "8", "--moe-router-group-topk": "4", "--moe-token-dispatcher-type": "alltoall", "--moe-grouped-gemm": "", "--moe-permute-fusion": "",
            "--expert-model-parallel-size": "64", "--expert-tensor-parallel-size": "1",
            "--seq-length": "4096", "--max-position-embeddings": "4096", "--micro-batch-size": "2", "--global-batch-size": "1024",
            "--bf16": "", "--tensor-model-parallel-size": "1", "--pipeline-model-parallel-size": "4", "--context-parallel-size": "1",
            "--pipeline-model-parallel-layout": "Et*16|t*15|t*15|t*15mL",
            "--use-distributed-optimizer": "", "--overlap-grad-reduce": "", "--overlap-param-gather": ""})
        flags, _ = self.flags("model=deepseek-v2-lite", plan + "tp=1", plan + "pp=1", plan + "ep=8")
        self.assertNotIn("--q-lora-rank", flags)
        self.assertNotIn("--mtp-num-layers", flags)

    def test_export__prints_which_layers_have_experts(self):
        """The list has a digit for each layer. Python computes it, as Megatron-LM does."""
        one = ["systems.0.plan.tp=1", "systems.0.plan.pp=1", "systems.0.plan.ep=8"]
        flags, _ = self.flags("model=llama-4-maverick", *one)
        self.assertEqual(flags["--moe-layer-freq"], "([0]+[1])*24")
        self.assertEqual((flags["--ffn-hidden-size"], flags["--moe-ffn-hidden-size"]), ("16384", "8192"))
        for layers, pattern, digits in ((7, "[{kind: dense, n: 2}, {kind: experts}]", "0010010"), (6, "[{kind: experts}, {kind: dense, n: 2}]", "100100"),
                                        (5, "[{kind: experts, n: 2}, {kind: experts}, {kind: dense}]", "11101"), (4, "[{kind: dense}, {kind: experts, n: 3}]", "0111")):
            model = self.model(layers, "kinds: {experts: {ffn: 2048, experts: 16, top_k: 2}, dense: {}}", f"pattern: {pattern}")
            flags, comments = self.flags(f"model={model}", *one)
            self.assertEqual(eval(flags["--moe-layer-freq"], {}), [int(digit) for digit in digits])
            self.assertEqual((flags["--ffn-hidden-size"], flags["--moe-ffn-hidden-size"]), ("8192", "2048"))
            self.assertFalse([line for line in comments if "Kinds of layers differ" in line])
        for name in ("mixtral-8x7b", "gpt-oss-20b", "qwen3-30b-a3b"):
            flags, comments = self.flags(f"model={name}", *one)
            self.assertNotIn("--moe-layer-freq", flags)
            self.assertFalse([line for line in comments if "Kinds of layers differ" in line])

    def model(self, layers, *more):
        """Write a model of so many layers and more keys, and return its path."""
        return write("layers.yaml", "\n".join(("name: layers", "source: test", "hidden: 2048", f"layers: {layers}", "heads: 16", "kv_heads: 16",
                                               "ffn: 8192", "vocabulary: 32000", "activation: swiglu", "tied_embeddings: false", *more)) + "\n")

    def test_export__says_what_of_experts_and_latent_attention_megatron_cannot_do(self):
        plan, differ = "systems.0.plan.", "Kinds of layers differ in more than having a window or experts"
        one = [plan + "tp=1", plan + "pp=1", plan + "ep=8"]
        latent = ["model=deepseek-v2-lite", plan + "cp=2", "attention=flash3"]
        kinds = "kinds: {a: {experts: 8, top_k: 2}, b: {experts: 16, top_k: 2}}"
        two, ffn = self.model(4, kinds, "pattern: [{kind: a}, {kind: b}]").rename(SCRATCH / "two.yaml"), SCRATCH / "ffn.yaml"
        self.model(4, "kinds: {a: {}, b: {ffn: 4096}, c: {experts: 8, top_k: 2}}", "pattern: [{kind: a}, {kind: b}, {kind: c, n: 2}]").rename(ffn)
        learned = self.model(4, "positions: 4096", "mtp_layers: 1", "experts: 8", "top_k: 2")
        plain = self.flags(*one, "model=qwen3-30b-a3b")[1] + self.flags(*one, *latent)[1]
        for settings, said in ((["model=mixtral-8x7b", "expert_imbalance=1.3"], "No flag names expert_imbalance."),
                               (["model=llama-4-maverick"], "so --moe-router-pre-softmax is set"),
                               (["model=gpt-oss-20b"], "refuses biases of experts, so --no-bias-swiglu-fusion is set"),
                               ([*latent, plan + "cp_type=all-gather"], "context parallelism only by p2p"),
                               ([*latent, "attention=flash2"], "only from flash-attention 3 on"),
                               ([f"model={two}"], differ), ([f"model={ffn}"], differ),
                               ([f"model={learned}"], "predict several tokens beside learned positions")):
            flags, comments = self.flags(*one, *settings)
            self.assertTrue([line for line in comments if said in line], (settings, comments))
            self.assertEqual("--moe-router-pre-softmax" in flags, "model=llama-4-maverick" in settings)
            self.assertEqual("--no-bias-swiglu-fusion" in flags, "model=gpt-oss-20b" in settings)
            self.assertNotIn("--mtp-num-layers", flags)
            self.assertFalse([line for line in plain if said in line])
        flags, comments = self.flags(*one, "model=mixtral-8x7b", plan + "capacity_factor=1.25", plan + "recompute=[norm, attention-core]")
        self.assertEqual((flags["--moe-expert-capacity-factor"], flags["--recompute-modules"]), ("1.25", "core_attn layernorm"))
        flags, comments = self.flags(plan + "tp=2", plan + "pp=1", plan + "ep=4", plan + "etp=2", "model=mixtral-8x7b", plan + "capacity_factor=1",
                                     "communication.dispatcher=deepep", "communication.ep_overlap=true",
                                     "expert_gemms=grouped", "fused.permute=false")
        self.assertEqual({name: flags[f"--{name}"] for name in ("expert-tensor-parallel-size", "moe-token-dispatcher-type", "moe-flex-dispatcher-backend")},
                         {"expert-tensor-parallel-size": "2", "moe-token-dispatcher-type": "flex", "moe-flex-dispatcher-backend": "deepep"})
        self.assertIn("--overlap-moe-expert-parallel-comm", flags)
        self.assertNotIn("--moe-permute-fusion", flags)
        self.assertTrue([line for line in comments if "No flag names expert_gemms grouped" in line])
        self.assertNotIn("--expert-model-parallel-size", self.flags()[0])
        blocks = ("device=b200", "platform={name: b200, nodes: 32}", "model=mixtral-8x7b", "precision=fp8-block", "communication.dispatcher=deepep")
        for value in ("false", "true"):
            comments = self.flags(plan + "tp=2", plan + "pp=1", plan + "ep=4", *blocks, f"communication.fp8_dispatch={value}")[1]
            self.assertEqual(len([line for line in comments if "sends tokens to experts in bf16" in line]), value == "true")
        for other in ("precision=mxfp8", "communication.dispatcher=all-to-all"):
            sets = [word for key in (plan + "tp=2", plan + "pp=1", plan + "ep=4", *blocks, "communication.fp8_dispatch=true", other) for word in ("--set", key)]
            done = run("export", write("plain.yaml", PLAIN), "--megatron", *sets)
            self.assertEqual(done.returncode, 2)
            self.assertIn("communication.fp8_dispatch: true needs precision fp8-block and communication.dispatcher deepep; allowed: ", done.stderr)
        flags, comments = self.flags(*one, "model=mixtral-8x7b", plan + "capacity_factor=1", plan + "pad_to_capacity=true",
                                     plan + "recompute=[moe-act, activation]", "expert_gemms=sequential")
        self.assertIn("--moe-pad-expert-input-to-capacity", flags)
        self.assertFalse({"--recompute-modules", "--moe-grouped-gemm"} & set(flags))
        self.assertTrue([line for line in comments if "takes only with --moe-grouped-gemm" in line])
        self.assertFalse([line for line in comments if "of dense layers" in line])  # mixtral has none

    def test_export__prints_the_flags_of_a_searched_plan(self):
        flags, _ = self.flags("model=llama-7b", "platform=h100-2x8", "data.global_batch=32", "systems.0.plan=auto")
        degrees = [int(flags[f"--{name}-parallel-size"]) for name in ("tensor-model", "pipeline-model", "context")]
        self.assertEqual(16 % (degrees[0] * degrees[1] * degrees[2]), 0)

    def test_export__prints_the_recipe_of_a_precision(self):
        keys = ("--bf16", "--fp8-format", "--fp8-recipe", "--fp8-param-gather")
        for settings, expected in ((("precision=bf16",), ("", None, None, None)),
                                   (("precision=fp8-tensor",), ("", "hybrid", "delayed", None)),
                                   (("precision=fp8-tensor", "fp8_scaling=current", "fp8_params=true"), ("", "hybrid", "tensorwise", "")),
                                   (("precision=mxfp8", "device=b200", "platform={name: b200, nodes: 32}"), ("", "e4m3", "mxfp8", None))):
            flags, _ = self.flags(*settings)
            self.assertEqual(tuple(flags.get(key) for key in keys), expected, settings)

    def test_export__prints_the_layers_that_stay_in_bf16(self):
        keys = ("--first-last-layers-bf16", "--num-layers-at-start-in-bf16", "--num-layers-at-end-in-bf16")
        layers = ("bf16_layers_at_start=1", "bf16_layers_at_end=2")
        done = run("export", write("plain.yaml", PLAIN), "--megatron", "--set", layers[0])
        self.assertEqual((done.returncode, done.stderr), (0, "bf16_layers_at_start has no effect with precision bf16\n"))
        self.assertNotIn(keys[1], done.stdout)
        for settings, expected, refused in ((("precision=fp8-tensor",), (None, None, None), 0),
                                            (("precision=fp8-tensor", "fp8_scaling=current", *layers), ("", "1", "2"), 0),
                                            (("precision=fp8-tensor", *layers), ("", "1", "2"), 1)):
            flags, comments = self.flags(*settings)
            self.assertEqual(tuple(flags.get(key) for key in keys), expected, settings)
            self.assertEqual(len([line for line in comments if "in bf16 with delayed scales" in line]), refused)

    def test_export__prints_the_optimizer(self):
        plan = "systems.0.plan."
        flags, _ = self.flags(plan + "main_params=fp16", plan + "moments=bf16", plan + "gradients=bf16")
        self.assertEqual([flags["--" + name] for name in ("use-precision-aware-optimizer", "main-params-dtype", "exp-avg-dtype",
                                                          "exp-avg-sq-dtype", "main-grads-dtype")], ["", "fp16", "bf16", "bf16", "bf16"])
        flags, _ = self.flags(plan + "optimizer_offload=0.5")
        self.assertEqual((flags["--optimizer-cpu-offload"], flags["--optimizer-offload-fraction"]), ("", "0.5"))
        self.assertNotIn("--exp-avg-dtype", flags)

    def test_export__prints_the_flags_of_megatron_s_schedulers(self):
        """Documents of the context, 2 on 16 ranks each of dp_balanced. default_dynamic_cp gives each two of 32 ranks."""
        for name, keys, flag, tokens in (("megatron-dp-balanced", "tp: 8, pp: 1, cp: 2", "dp_balanced", "2048"),
                                         ("megatron-default-dynamic-cp", "tp: 8, pp: 1", "default_dynamic_cp", "2048")):
            text = PLAIN.replace("name: best-fit, plan: {tp: 8, pp: 4}, knobs: {micro_batch: 2}",
                                 f"name: {name}, plan: {{{keys}, recompute: full}}, knobs: {{max_tokens: 2048}}")
            flags, comments = self.flags("data.global_batch=64", scenario=text)
            self.assertEqual(flags["--sequence-packing-scheduler"], flag)
            self.assertEqual(flags["--max-seqlen-per-dp-cp-rank"], tokens)
            self.assertEqual((flags["--micro-batch-size"], flags["--global-batch-size"]), ("1", "64"))
            self.assertEqual("--dynamic-context-parallel" in flags, flag == "default_dynamic_cp")
            self.assertFalse([line for line in comments if "cannot" in line or "shorter" in line], comments)

    def test_export__says_what_megatron_cannot_do(self):
        plan = "systems.0.plan."
        for settings, said in (([plan + "schedule=zero-bubble"], "is no schedule of Megatron-LM"),
                               ([plan + "cp=2", plan + "cp_type=ring-contiguous"], "no choice of --cp-comm-type"),
                               ([plan + "recompute=activation"], "activation function of dense layers"),
                               ([plan + "sharding=zero3", plan + "pp=1", plan + "recompute=full"], "counts PyTorch's FSDP"),
                               ([plan + "sharding=zero3", plan + "pp=1", plan + "recompute=full", plan + "shard_communication=on-demand"], "exchanges shards on demand"),
                               ([plan + "sharding=zero3", plan + "fsdp=2", plan + "reshard_after_forward=never"], "as PyTorch's stages do"),
                               ([plan + "main_params=none"], "always has main parameters"),
                               ([plan + "moments=bf16"], "keep only 16 bits of each fp32 parameter"),
                               ([plan + "optimizer_offload=1", plan + "sharding=none"], "needs its distributed optimizer"),
                               (["communication.pp_overlap=true"], "only with virtual stages"),
                               (["kernels=eager"], "kernels: is not fused"),
                               (["fused.norm=false"], "RMSNorm is one kernel"),
                               (["cuda_launch_blocking=true", "communication.tp_overlap=none", "communication.pp_overlap=false", "communication.dp_overlap=none"], "set CUDA_LAUNCH_BLOCKING=1"),
                               (["gradient_accumulation=fp32-copy"], "gradient_accumulation: is fp32-copy"),
                               ([plan + "gradient_reduction=all-reduce"], "plan all-reduces gradients"),
                               ([plan + "reduce_precision=bf16"], "plan.reduce_precision: is set"),
                               (["communication.tp_overlap=chunked", plan + "sequence_parallel=false"], "only with sequence parallelism"),
                               ([plan + "vpp=4", plan + "pp=2", "communication.pp_overlap=false"], "always overlaps the transfers"),
                               ([plan + "cp=4", "data.context=4100"], "no multiple of twice the context-parallel degree"),
                               ([plan + "cp=2", "attention=unfused"], "no unfused attention with context parallelism"),
                               ([plan + "vpp=5", "data.global_batch=96"], "filled up with padding of a whole sequence"),
                               (["data.lengths=github"], "documents that are shorter than data.context"),
                               (["data.lengths=github", "systems.0.knobs.pad=false"], "not equal in number or tokens")):
            _, plain = self.flags()
            _, comments = self.flags(*settings)
            self.assertFalse([line for line in plain if said in line])
            self.assertTrue([line for line in comments if said in line], (settings, comments))
        _, comments = self.flags(scenario=program.SMALL, arguments=("--system", "slimpack"))
        self.assertIn("Samples are cut into slices, which Megatron-LM cannot do.", comments)
        text = PLAIN.replace("name: best-fit, plan: {tp: 8, pp: 4}, knobs: {micro_batch: 2}", "name: hotspa, plan: {tp: 8, pp: 1}")
        _, comments = self.flags("data.lengths=github", "data.context=32Ki", "model=llama-7b", "data.global_batch=64", scenario=text)
        self.assertIn("Pipelines have other layouts than plan:, and Megatron-LM has one layout.", comments)


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests read models from configurations of Hugging Face, and models by their names there."""
import json
import re
import unittest

import yaml

from cli_case import SOURCE
from program import SCRATCH, fresh, run, write

MODELS = json.loads((SOURCE / "tests/huggingface_configs.json").read_text())
LLAMA = MODELS[0]["config"]
QWEN3_MOE = {"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512}
SCENARIO = """\
name: own
model: {model}
device: h100-sxm
platform: {{nodes: 1}}
data: {{lengths: github, context: 8Ki, global_batch: 16}}
engine: critical-path
iterations: {{warm_up: 0, measured: 2}}
systems: [{{name: best-fit, plan: {{tp: 2, pp: 1, recompute: full}}}}]
"""


def configuration(name="config.json", **changes):
    """Write the configuration of Llama 3.1 8B with other keys. None takes a key away."""
    config = {key: value for key, value in {**LLAMA, **changes}.items() if value is not None}
    return write(name, json.dumps(config))


def translated(path):
    """Return the keys and the comments that `slimsim import` prints."""
    done = run("import", path)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout), [line[2:] for line in done.stdout.splitlines() if line.startswith("# ")]


class Configurations(unittest.TestCase):
    def test_parameters__equal_the_published_count(self):
        """The largest difference is that of biases or norms that are left out."""
        for model in MODELS:
            folder = SCRATCH / model["hub"].split("/")[1]
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_text(json.dumps(model["config"]))
            keys, comments = translated(folder / "config.json")
            with self.subTest(model["hub"]):
                self.assertEqual(keys["name"], folder.name)
                counted = int(re.match(r"(\d+) parameters$", comments[0])[1])
                self.assertAlmostEqual(counted / model["parameters"], 1, delta=0.0005)

    def test_shipped_models__have_the_same_keys(self):
        """Names, sources, dropout and whether a default is written may differ, nothing else."""
        shipped = {"meta-llama/Llama-3.1-8B": "llama3-8b", "Qwen/Qwen3-8B": "qwen3-8b", "google/gemma-2-9b": "gemma-2-9b",
                   "google/gemma-3-4b-pt": "gemma-3-4b", "tiiuae/falcon-7b": "falcon-7b", "allenai/OLMo-2-1124-7B": "olmo-2-7b",
                   "CohereForAI/c4ai-command-r-v01": "command-r-35b", "bigcode/starcoder2-7b": "starcoder2-7b",
                   "nvidia/Minitron-8B-Base": "minitron-8b", "microsoft/Phi-3-mini-4k-instruct": "phi-3-mini",
                   "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b", "deepseek-ai/DeepSeek-V2-Lite": "deepseek-v2-lite",
                   "deepseek-ai/DeepSeek-V3": "deepseek-v3", "moonshotai/Kimi-K2-Instruct": "kimi-k2",
                   "Qwen/Qwen3-30B-A3B": "qwen3-30b-a3b", "Qwen/Qwen2-57B-A14B": "qwen2-57b-a14b", "openai/gpt-oss-20b": "gpt-oss-20b",
                   "meta-llama/Llama-4-Scout-17B-16E": "llama-4-scout", "meta-llama/Llama-4-Maverick-17B-128E": "llama-4-maverick",
                   "zai-org/GLM-4.5": "glm-4.5", "allenai/OLMoE-1B-7B-0924": "olmoe-1b-7b"}
        self.assertLessEqual(set(shipped), {model["hub"] for model in MODELS})
        defaults = {"head_width": 0, "biases": False, "dropout": False, "norms": 2, "norm": "rmsnorm", "mtp_layers": 0, "router_groups": 1, "top_groups": 1}
        for model in MODELS:
            if model["hub"] not in shipped:
                continue
            with self.subTest(model["hub"]):
                config = write("config.json", json.dumps(model["config"]))
                ours = yaml.safe_load((SOURCE / f"model/llm/{shipped[model['hub']]}.yaml").read_text())
                both = [{**defaults, **keys} for keys in (translated(config)[0], ours)]
                for keys in both:
                    keys["head_width"] = keys["head_width"] or keys["hidden"] // keys["heads"]
                    keys["pattern"] = [(run["kind"], run.get("n", 1)) for run in keys.get("pattern", [])]
                    for free in ("name", "source", "dropout"):
                        del keys[free]
                self.assertEqual(*both)

    def test_windows__follow_layer_types_or_the_pattern(self):
        types = ["full_attention"] + 3 * ["sliding_attention"]
        mistral = {"model_type": "mistral"}
        for changes, pattern in (({"sliding_window": 4096}, None),
                                 ({"sliding_window": 4096, "layer_types": 8 * types}, [("global", 1), ("local", 3)]),
                                 ({"sliding_window": 4096, "sliding_window_pattern": 4}, [("local", 3), ("global", 1)]),
                                 ({"sliding_window": 4096, "max_window_layers": 20}, [("global", 20), ("local", 12)])):
            keys, _ = translated(configuration(**changes, **mistral))
            found = [(run["kind"], run["n"]) for run in keys["pattern"]] if "pattern" in keys else None
            self.assertEqual(found, pattern)
            self.assertEqual(keys["kinds"]["local"]["window"] if pattern else keys["window"], 4096)
        for changes in ({**mistral, "sliding_window": 4096, "use_sliding_window": False}, {**mistral, "sliding_window": 131072},
                        {"sliding_window": 4096}, {"model_type": "qwen2", "sliding_window": 4096}):
            self.assertFalse({"window", "kinds"} & set(translated(configuration(**changes))[0]))

    def test_experts__are_in_the_layers_of_their_rule(self):
        """The rules are those of modeling_TYPE.py in transformers."""
        kind = {"experts": 8, "top_k": 2, "ffn": 512}
        for changes, pattern in (({"decoder_sparse_step": 4}, [("dense", 3), ("experts", 1)]),
                                 ({"mlp_only_layers": [0, 1]}, [("dense", 2), ("experts", 30)]),
                                 ({"decoder_sparse_step": 2, "mlp_only_layers": list(range(1, 30, 2))}, [("dense", 31), ("experts", 1)])):
            keys, _ = translated(configuration(**QWEN3_MOE, **changes))
            self.assertEqual([(run["kind"], run["n"]) for run in keys["pattern"]], pattern)
            self.assertEqual(keys["kinds"], {"dense": {}, "experts": kind})
            self.assertEqual((keys["ffn"], "experts" in keys), (14336, False))
        keys, _ = translated(configuration(**QWEN3_MOE, intermediate_size=None))
        self.assertEqual({key: keys[key] for key in kind}, kind)
        self.assertFalse({"kinds", "experts"} & set(translated(configuration(**{**QWEN3_MOE, "num_experts": 0}))[0]))

    def test_experts__and_windows_make_four_kinds(self):
        """Every 4th layer has no window and every 2nd has experts."""
        types = 3 * ["sliding_attention"] + ["full_attention"]
        keys, _ = translated(configuration(
            model_type="qwen2_moe", num_experts=8, num_experts_per_tok=2, moe_intermediate_size=512, decoder_sparse_step=2,
            shared_expert_intermediate_size=1024, sliding_window=4096, use_sliding_window=True, layer_types=8 * types,
            mlp_only_layers=[7, 15, 23, 31]))
        experts = {"experts": 8, "top_k": 2, "ffn": 512, "shared_ffn": 1024}
        self.assertEqual(keys["kinds"], {"local-dense": {"window": 4096}, "local-experts": {"window": 4096, **experts},
                                         "global-experts": experts, "global-dense": {}})
        self.assertEqual(len(keys["pattern"]), 8)

    def test_lists_of_layers__name_those_with_experts(self):
        scout = next(model["config"] for model in MODELS if model["hub"].endswith("Scout-17B-16E"))
        text = {**scout["text_config"], "layer_types": 12 * (3 * ["chunked_attention"] + ["full_attention"]),
                "moe_layers": list(range(1, 48, 2))}
        keys, comments = translated(write("config.json", json.dumps({**scout, "text_config": text})))
        self.assertEqual([(run["kind"], run["n"]) for run in keys["pattern"]], [("dense", 1), ("experts", 1)])
        self.assertIn("attention inside chunks (attention_chunk_size) is treated as attention to all earlier tokens, which takes longer",
                      comments)

    def test_architecture__stands_for_a_missing_type(self):
        mixtral = next(model["config"] for model in MODELS if model["config"]["model_type"] == "mixtral")
        keys, comments = translated(write("config.json", json.dumps({**mixtral, "model_type": None, "hidden_act": None})))
        self.assertEqual((keys["experts"], keys["top_k"], keys["activation"]), (8, 2, "swiglu"))
        self.assertIn("model_type: is missing, so it is taken from `architectures`", comments)
        for model in MODELS:
            config = {key: value for key, value in model["config"].items() if key != "model_type"}
            if "num_experts_per_tok" in config and "architectures" in config:
                keys, _ = translated(write("config.json", json.dumps(config)))
                self.assertIn({"kimi_k2": "deepseek_v3"}.get(model["config"]["model_type"], model["config"]["model_type"]), keys["source"])

    def test_rules__change_what_their_key_says(self):
        falcon = next(model["config"] for model in MODELS if model["config"]["model_type"] == "falcon")
        newer = {**falcon, "new_decoder_architecture": True, "num_kv_heads": 8, "num_attention_heads": 64, "hidden_size": 4096}
        keys = translated(write("config.json", json.dumps(newer)))[0]
        self.assertEqual((keys["kv_heads"], keys["norms"], keys["parallel_attention"]), (8, 2, True))
        older = {**falcon, "multi_query": False, "parallel_attn": False, "bias": True}
        keys = translated(write("config.json", json.dumps(older)))[0]
        self.assertEqual((keys["kv_heads"], keys["norms"], keys["parallel_attention"], keys["biases"]), (71, 2, False, True))

    def test_what_is_left_out__is_said_key_by_key(self):
        path = configuration(attention_bias=True, final_logit_softcapping=30.0, residual_dropout=0.1, frobnication=1,
                             bias=True, sliding_window=9, num_key_value_heads=None, off=False)
        keys, comments = translated(path)
        self.assertTrue(keys["dropout"])
        self.assertEqual(comments[1:], [
            "attention_bias: biases of some GEMMs only are left out, under 0.1% of the parameters",
            "final_logit_softcapping: caps of logits are left out, which cost attention's kernel a few percent",
            "keys that are not known have no effect: frobnication, bias",
            "residual_dropout: the training has dropout, whose masks are kept",
            "num_key_value_heads: is missing, so each query head has keys and values of its own",
            "sliding_window: has no effect, since transformers has no windows for this type"])
        done = run("run", write("own.yaml", SCENARIO.format(model="./config.json")), "--output", fresh("said"))
        self.assertEqual(done.returncode, 0, done.stderr)
        for comment in comments[1:]:
            self.assertIn(f"model: config.json: {comment}\n", done.stderr)

    def test_mistakes__name_the_file_and_the_key(self):
        for changes, said in (({"num_local_experts": 8}, "num_local_experts: models of this type have no experts here"),
                              ({"kv_lora_rank": 512}, "kv_lora_rank: models of this type have no latent attention here"),
                              ({"model_type": "mixtral", "num_experts_per_tok": 2}, "num_local_experts: is missing"),
                              ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 9},
                               "top_k: experts that compute a token; allowed: 1 to the number of experts"),
                              ({**QWEN3_MOE, "mlp_only_layers": [32]}, "mlp_only_layers: '32' is no layer; allowed: 0 to 31"),
                              ({**QWEN3_MOE, "mlp_only_layers": list(range(0, 10, 2))},
                               "kinds of layers: 10 runs of layers before they repeat; allowed: at most 8"),
                              ({"attention_chunk_size": 8192}, "attention_chunk_size: attention inside chunks is not modelled"),
                              ({"model_type": "mamba"}, "model_type: 'mamba' is not modelled; allowed: baichuan, "),
                              ({"model_type": None, "architectures": None}, "model_type: is missing, so this is no configuration of a model"),
                              ({"hidden_size": None}, "hidden_size: is missing"),
                              ({"intermediate_size": None}, "intermediate_size: is missing"),
                              ({"num_key_value_heads": [8]}, "num_key_value_heads: is a list or mapping; allowed: one value"),
                              ({"text_config": "x"}, "text_config: is no mapping"),
                              ({"position_encoding_2d": True}, "layers of the first GLM models are not modelled"),
                              ({"num_nextn_predict_layers": 1}, "models of this type have no layers that predict several tokens here"),
                              ({"num_hidden_layers": 10**6}, "1000000 layers; at most 4096 are allowed"),
                              ({"hidden_act": "mish"}, "hidden_act: 'mish' is not modelled; allowed: silu, "),
                              ({"max_window_layers": "all"}, "max_window_layers: 'all' is no whole number"),
                              ({"layer_types": ["full_attention"]}, "layer_types: has 1 entries, but there are 32 layers"),
                              ({"layer_types": ["linear_attention"]}, "layer_types: layer 0 is of another kind than "),
                              ({"num_attention_heads": 33}, "heads: 33 does not divide hidden = 4096"),
                              ({"hidden_size": "wide"}, "hidden: 'wide' is not a number")):
            path = configuration(**changes)
            done = run("import", path)
            with self.subTest(said):
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertRegex(done.stderr, f"^slimsim: {path}(:|, as `slimsim import` translates it:)")
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_the_name__is_that_of_the_file_or_folder(self):
        for path, name in (("Llama-3.1-8B/config.json", "Llama-3.1-8B"), ("mine.json", "mine"), ("-.json", "model"),
                           ("null.json", "null"), ("my model.json", "my-model")):
            (SCRATCH / path).parent.mkdir(parents=True, exist_ok=True)
            self.assertEqual(translated(configuration(path))[0]["name"], name)

    def test_other_files__are_refused(self):
        done = run("import", write("own.yaml", "name: own"))
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))

    def test_a_scenario__takes_the_configuration_as_it_takes_the_imported_file(self):
        """Both are 8.030B, and every number of the run is the same."""
        write("mine.yaml", run("import", configuration()).stdout)
        outputs = []
        for model in ("./config.json", "mine.yaml"):
            done = run("run", write("own.yaml", SCENARIO.format(model=model)), "--json", "--quiet", "--output", fresh("own"))
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append(json.loads(done.stdout)["points"][0]["systems"])
        self.assertEqual(*outputs)
        done = run("run", SCRATCH / "own.yaml", "--quiet", "--output", fresh("own"))
        self.assertIn(" (8.03B) on 8 x h100-sxm", done.stdout.splitlines()[0])


class HubNames(unittest.TestCase):
    def test_names_on_the_hub__find_the_shipped_models(self):
        """A line of tests/hub_names.txt has a name there and one here."""
        lines = [line.split() for line in (SOURCE / "tests/hub_names.txt").read_text().splitlines()]
        for hub, ours in lines:
            done = run("plan", write("own.yaml", SCENARIO.format(model=hub)), "--set", "data.global_batch=1")
            self.assertIn(f"model: '{hub}' is taken as {ours}\n", done.stderr)


if __name__ == "__main__":
    unittest.main()

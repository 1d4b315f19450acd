# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads arguments of Megatron-LM, and recipes of NeMo and Megatron-Bridge, which have the same settings."""
import ast
import math
import re

import common
import model
from report import UNSET, is_off

LAYOUT = re.compile(r"\(([^()]*)\)(?:\*(\d+))?")


def layout_counts(report, text, shown):
    """Return the layers of each stage of a layout such as Et*3|(tt|)*29m|L."""
    while LAYOUT.search(text):
        text = LAYOUT.sub(lambda match: match[1] * int(match[2] or 1), text)
    counts = []
    for stage in text.replace(",", "").split("|"):
        if not re.fullmatch(r"(?:[EtmL](?:\*\d+)?)*", stage):
            report.fail(shown, "allowed: stages of E, t, m and L with '|' between them, such as Et*3|(tt|)*29m|L")
        counts.append(sum(int(n or 1) for n in re.findall(r"t(?:\*(\d+))?", stage)))
    return counts


def python_list(text):
    """Return a list of whole numbers that Python's [], + and * write, such as ([0]*3+[1]*58). None: it is none."""
    def evaluated(node):
        if isinstance(node, ast.List):
            return [evaluated(entry) for entry in node.elts]
        if isinstance(node, ast.Constant) and isinstance(node.value, int) and 0 <= node.value <= 1 << 16:
            return node.value
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            left, right = evaluated(node.left), evaluated(node.right)
            return left + right if isinstance(node.op, ast.Add) else left * right
        raise ValueError
    try:
        return evaluated(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def each_layer(report, n_layers, name, rule):
    """Return for each layer whether a setting chooses it: a list has 1 for it, or rule(i, N) holds for a number N. None:
    there is no such setting."""
    value = report.get(name)
    if value is None:
        return None
    if str(value).isdigit():
        every = report.number(name, kind="size")
        return [rule(i, every) for i in range(n_layers)]
    value = python_list(value) if isinstance(value, str) else value
    if not isinstance(value, list) or len(value) != n_layers or not all(entry in (0, 1) for entry in value):
        report.fail(report.present(name)[0].shown, f"allowed: a number, or a list of {n_layers} zeros and ones, one for each layer")
    return [entry == 1 for entry in value]


def _widths(report, sizes):
    """Take attention's widths."""
    if report.on("group_query_attention") or not report.script:
        if report.number("num_query_groups") is not None:
            report.take("model.kv_heads", report.number("num_query_groups"), "num_query_groups")
    sizes.setdefault("kv_heads", sizes["heads"])
    if not report.on("multi_latent_attention"):
        return
    report.take("model.kv_lora_rank", report.number("kv_lora_rank", default=32), "multi_latent_attention", "kv_lora_rank")
    if report.number("q_lora_rank"):
        report.take("model.q_lora_rank", report.number("q_lora_rank"), "q_lora_rank")
    for key, name, default in (("head_width", "qk_head_dim", 128), ("rope_width", "qk_pos_emb_head_dim", 64),
                               ("value_width", "v_head_dim", 128)):
        report.take(f"model.{key}", report.number(name, default=default), name)
    report.without("kv_channels", "num_query_groups", "qk_layernorm")
    sizes["kv_heads"] = sizes["heads"]


def _kinds(report, sizes):
    """Return the keys in which layers differ, for each of them."""
    n, experts, expert_ffn = sizes["layers"], sizes.pop("experts", 0) or 0, sizes.pop("expert_ffn", None)
    own = {key: sizes.pop(key) for key in ("top_k", "shared_ffn") if key in sizes}
    dense = {"ffn": sizes.pop("ffn")}
    with_experts = {"ffn": expert_ffn or dense["ffn"], "experts": experts, "top_k": own.get("top_k", 2)}
    if own.get("shared_ffn"):
        with_experts["shared_ffn"] = own["shared_ffn"]
    chosen = each_layer(report, n, "moe_layer_freq", lambda i, every: i % every == 0) if experts else None
    layers = [dict(with_experts) if experts and (chosen is None or chosen[i]) else dict(dense) for i in range(n)]
    if chosen is not None:
        report.take("model.pattern", "of layers with experts", "moe_layer_freq")
        del sizes["pattern"]
    window = str(report.get("window_size", default="")).strip("()[] ").split(",")[0].strip("' ")
    if window.isdigit():
        chosen = each_layer(report, n, "window_attn_skip_freq", lambda i, every: (i + 1) % every != 0)
        for i, layer in enumerate(layers):
            if chosen is None or chosen[i]:
                layer["window"] = int(window) + 1
        report.take("model.window", int(window) + 1, "window_size", "window_attn_skip_freq")
        del sizes["window"]
    return layers


def _activation(report):
    gated = report.on("swiglu", "gated_linear_unit", "fast_swiglu")
    function = str(report.get("activation_func", "activation", default="")).lower()
    gated = gated or "swiglu" in function or "geglu" in function
    if gated and "gelu" in function.replace("geglu", "gelu"):
        found = "geglu"
    elif gated:
        found = "swiglu"
    else:
        found = "squared-relu" if report.on("squared_relu") or "squared" in function else "gelu"
    report.take("model.activation", found, "swiglu", "gated_linear_unit", "activation_func", "activation", "squared_relu")


def _properties(report, sizes):
    """Take what layers have beside sizes."""
    _activation(report)
    biases = not report.on("disable_bias_linear") and report.get("add_bias_linear", "bias", default=True) not in (False,
                                                                                                                  "false",
                                                                                                                  "False")
    report.take("model.biases", biases, "disable_bias_linear", "add_bias_linear", "bias")
    untied = report.on("untie_embeddings_and_output_weights") or is_off(report.get("share_embeddings_and_output_weights",
                                                                                   default=True))
    report.take("model.tied_embeddings", not untied, "untie_embeddings_and_output_weights",
                "share_embeddings_and_output_weights")
    if report.on("qk_layernorm") and not report.on("multi_latent_attention"):
        report.take("model.qk_norm", "head", "qk_layernorm")
    learned = report.get("position_embedding_type", default="learned_absolute") == "learned_absolute"
    if learned and not report.on("use_rotary_position_embeddings"):
        positions = report.number("max_position_embeddings", default=sizes.get("context"))
        report.take("model.positions", positions, "position_embedding_type", "max_position_embeddings")
    rates = [report.number(name, default=0.1, kind="real") for name in ("attention_dropout", "hidden_dropout")]
    report.take("model.dropout", any(rates), "attention_dropout", "hidden_dropout")
    sizes.setdefault("norm", "layernorm")


def vocabulary(report):
    """Assume the vocabulary that a tokenizer usually has."""
    kind, name = str(report.get("tokenizer_type", default="")), report.settings.get("tokenizer_model")
    size = report.table["tokenizers"].get(kind)
    if size is None and kind == "HuggingFaceTokenizer" and name is not None and UNSET not in str(name.value):
        size = common.models()[common.hub_model(report, str(name.value), name.shown)]["vocabulary"]
    if size is not None:
        report.assume("model.vocabulary", size, f"the usual one of {kind}; vocab_size=NUMBER behind the file's name sets another")


def own_model(report):
    """Return the model of the sizes, without its name. None: there are no sizes."""
    sizes = report.model
    if not all(key in sizes for key in ("layers", "hidden", "heads")):
        return None
    _properties(report, sizes)
    _widths(report, sizes)
    if "vocabulary" not in sizes:
        vocabulary(report)
    if report.present("should_pad_vocab") and not report.on("should_pad_vocab"):
        report.take("model.vocabulary_multiple", 0, "should_pad_vocab", "make_vocab_size_divisible_by")
    if "ffn" not in sizes:
        wide = int(4 * sizes["hidden"] * 2 / 3 / 64) * 64 if sizes["activation"] == "swiglu" else 4 * sizes["hidden"]
        report.take("model.ffn", wide)
    if not sizes.get("mtp_layers"):
        sizes.pop("mtp_layers", None)
    if sizes.get("head_width") in (None, 0):
        sizes.pop("head_width", None)
    return model.with_layers(sizes, _kinds(report, sizes))


def named_model(report):
    """Return the model that a recipe names, and the settings that name it."""
    for name in ("hf_model_id", "hf_model_name_or_path", "pretrained_model_name_or_path"):
        if isinstance(report.get(name), str):
            return report.get(name), (name,)
    for name, setting in report.settings.items():
        last = str(setting.value).replace("pretrain_recipe", "").strip(".").split(".")[-1]
        word = re.sub(r"config|provider|model|pretrain|finetune|recipe|[^a-z0-9]", "", last.lower())
        if name in ("_target_", "target", "recipe", "model_target", "name") and word in report.table["classes"]:
            return report.table["classes"][word], (name,)
    return None, ()


def stages(report):
    """Take what stages hold."""
    n = report.number("num_layers_per_virtual_pipeline_stage", kind="size")
    layout = report.get("pipeline_model_parallel_layout")
    pp = report.values.get("plan.pp", 1)
    if isinstance(layout, str) and layout:
        shown = report.present("pipeline_model_parallel_layout")[0].shown
        counts = layout_counts(report, layout, shown)
        if len(counts) % pp != 0:
            report.fail(shown, f"it has {len(counts)} stages, no multiple of pipeline_model_parallel_size = {pp}")
        report.take("plan.layers", counts, "pipeline_model_parallel_layout")
        report.take("plan.vpp", len(counts) // pp, "num_virtual_stages_per_pipeline_rank",
                    "virtual_pipeline_model_parallel_size")
        for key in ("plan.first_stage_layers", "plan.last_stage_layers", "plan.count_embedding", "plan.count_head"):
            report.values.pop(key, None)
    elif n and report.model.get("layers"):
        layers = report.model["layers"] + sum(report.values.get(f"plan.count_{end}", False) for end in ("embedding", "head"))
        if layers % (pp * n) != 0:
            report.fail(report.present("num_layers_per_virtual_pipeline_stage")[0].shown,
                        f"{pp} stages of such parts do not hold {layers} layers")
        report.take("plan.vpp", layers // (pp * n), "num_layers_per_virtual_pipeline_stage")


def sharding(report):
    """Take who shares the optimizer's states, and when gradients and parameters move."""
    fsdp = report.on("use_megatron_fsdp", "use_custom_fsdp")
    shards = {"no_shard": "none", "optim": "zero1", "optim_grads": "zero2", "optim_grads_params": "zero3"}
    strategy = str(report.get("data_parallel_sharding_strategy", default="no_shard"))
    by_name = report.get("optim_name") in ("distributed_fused_adam", "mcore_distributed_optim")
    distributed = ("use_distributed_optimizer", "use_megatron_fsdp", "use_custom_fsdp", "data_parallel_sharding_strategy",
                   "use_torch_fsdp2", *(("optim_name",) if by_name else ()))
    if fsdp and strategy not in shards:
        report.fail(report.present("data_parallel_sharding_strategy")[0].shown, f"allowed: {', '.join(shards)}")
    zero = report.number("zero_stage")
    if report.on("deepspeed") or zero is not None:
        report.take("framework", "megatron-deepspeed", "deepspeed")
        report.take("plan.sharding", f"zero{zero}" if zero else "none", "zero_stage")
        if "embedding" in str(report.get("pp_partition_method", default="")):
            report.take("plan.count_embedding", True, "pp_partition_method")
            report.take("plan.count_head", True, "pp_partition_method")
    elif report.on("use_torch_fsdp2"):
        report.take("plan.sharding", "zero3", *distributed)
        report.take("plan.fsdp", 2, "use_torch_fsdp2")
    elif fsdp:
        report.take("plan.sharding", shards[strategy], *distributed)
    elif report.on("use_distributed_optimizer") or by_name:
        report.take("plan.sharding", "zero1", *distributed)
    elif report.present("use_distributed_optimizer"):
        report.take("plan.sharding", "none", *distributed)
    overlaps = [["overlap_grad_reduce", "overlap_grad_sync"], ["overlap_param_gather", "overlap_param_sync"]]
    gradients, parameters = (report.on(*names) for names in overlaps)
    if any(setting.value is not None for setting in report.present(*overlaps[0], *overlaps[1])):
        found = "both" if gradients and parameters else "gradients" if gradients else "none"
        report.take("communication.dp_overlap", found, *overlaps[0], *overlaps[1])


def states(report):
    """Take the precision and the place of the optimizer's states."""
    names = ("exp_avg_dtype", "exp_avg_sq_dtype")
    moments = {str(report.get(name, default="fp32")) for name in names}
    if moments == {"bf16"}:
        report.take("plan.moments", "bf16", *names)
    elif moments != {"fp32"}:
        report.drop("both moments have one precision here, fp32 or bf16", *names)
    report.without(*names, "main_grads_dtype")
    if report.on("optimizer_cpu_offload"):
        report.take("plan.optimizer_offload", report.number("optimizer_offload_fraction", default=1, kind="real"),
                    "optimizer_cpu_offload", "optimizer_offload_fraction")


def recompute(report):
    """Take which results are computed again."""
    counts = ("recompute_num_layers", "activations_checkpoint_num_layers", "checkpoint_num_layers")
    names = ("recompute_granularity", "recompute_activations", "activations_checkpoint_granularity", "checkpoint_activations",
             "deepspeed_activation_checkpointing", "recompute_method", "activations_checkpoint_method", *counts)
    granularity = report.get("recompute_granularity", "activations_checkpoint_granularity")
    granularity = "full" if report.on("checkpoint_activations") else granularity  # until 2022
    method = report.get("recompute_method", "activations_checkpoint_method")
    n = report.number(*counts, default=1)
    if granularity == "full":
        report.take("plan.recompute", "full" if method != "block" or n > 0 else "none", *names)
        if method == "block" and n > 0:
            report.take("plan.recompute_layers", n * report.values.get("plan.vpp", 1), "recompute_num_layers",
                        "activations_checkpoint_num_layers")
        elif n > 1:
            report.drop("groups of layers keep one input each; here each layer keeps its input", "recompute_num_layers",
                        "activations_checkpoint_num_layers")
    elif granularity == "selective" or report.on("recompute_activations"):
        modules = report.get("recompute_modules") or ["core_attn"]
        modules = modules if isinstance(modules, list) else str(modules).split()
        found = [report.table["modules"][module] for module in modules if module in report.table["modules"]]
        report.take("plan.recompute", found or "none", *names, "recompute_modules")
        for module in modules:
            if module not in report.table["modules"]:
                report.say("not modelled", f"recompute_modules {module}: this module alone is not computed again")
    elif granularity is not None:
        report.fail(report.present(*names)[0].shown, "allowed: full, selective")


def precision(report):
    """Take the number format of GEMMs."""
    named = report.get("mixed_precision")
    if isinstance(named, str) and named not in report.table["precisions"]:
        report.drop("this precision is not modelled", "mixed_precision")
        return
    recipe = report.table["precisions"][named] if isinstance(named, str) else None
    on = report.get("fp8_format", "fp8")
    if recipe is None and not is_off(on):
        recipe = str(report.get("fp8_recipe", default="delayed"))
    names = ("fp8_format", "fp8", "fp8_recipe", "mixed_precision")
    if recipe is None:
        report.without(*names, "fp8_param_gather", "fp8_param", *(() if report.on("first_last_layers_bf16")
                                                                  else ("num_layers_at_start_in_bf16",
                                                                        "num_layers_at_end_in_bf16")))
        return
    if recipe not in report.table["recipes"]:
        report.drop("this scaling is not modelled", *names)
        return
    name, scaling = report.table["recipes"][recipe]
    report.take("precision", name, *names)
    if scaling is not None:
        report.take("fp8_scaling", scaling, *names)
    if report.script or report.present("fp8_param_gather", "fp8_param"):
        report.take("fp8_params", report.on("fp8_param_gather", "fp8_param"), "fp8_param_gather", "fp8_param")
    for end in ("start", "end"):
        layers = f"num_layers_at_{end}_in_bf16"
        if report.on("first_last_layers_bf16"):
            report.take(f"bf16_layers_at_{end}", report.number(layers, default=1), "first_last_layers_bf16", layers)
        else:
            report.without(layers)


def experts(report):
    """Take how tokens reach experts."""
    kind = report.get("moe_token_dispatcher_type")
    backend = "deepep" if report.on("moe_enable_deepep") else str(report.get("moe_flex_dispatcher_backend",
                                                                             default="deepep"))
    found = {"alltoall": "all-to-all", "alltoall_seq": "all-to-all", "allgather": "all-gather",
             "flex": {"deepep": "deepep", "hybridep": "hybrid-ep"}.get(backend)}
    names = ("moe_token_dispatcher_type", "moe_flex_dispatcher_backend", "moe_enable_deepep")
    if report.model.get("experts") or report.model_has_experts:
        if found.get(str(kind)):
            report.take("communication.dispatcher", found[str(kind)], *names)
        elif kind is not None:
            report.drop("allowed are alltoall, allgather, and flex with deepep or hybridep", *names)
        for key, value in report.table["defaults_of_experts"].items() if report.script else ():
            if key not in report.values:
                report.take(key, value)
        if report.script and "plan.etp" not in report.values:
            report.take("plan.etp", report.values.get("plan.tp", 1))
        common.assume_balance(report)
        return
    for key in ("expert_gemms", "fused.permute", "communication.ep_overlap", "expert_imbalance", "plan.ep", "plan.etp",
                "plan.capacity_factor", "plan.pad_to_capacity"):
        report.values.pop(key, None)
    report.without(*names)


def kernels(report):
    """Take kernels of attention and CUDA graphs."""
    backend = str(report.get("attention_backend", default="")).split(".")[-1].lower()
    names = ("attention_backend", "use_flash_attn")
    if backend in ("unfused", "local"):
        report.take("attention", "unfused", *names)
    elif backend == "fused":
        report.take("attention", "cudnn", *names)
    elif backend not in ("", "auto", "flash"):
        report.drop("this kernel of attention is not modelled", *names)
    elif backend == "flash" or (report.on("use_flash_attn") and not backend):
        device = report.values["device"]
        if device[0] == "h":
            report.take("attention", "flash3", *names)
        elif device.startswith("a"):
            report.take("attention", "flash2", *names)
        else:
            report.drop(f"flash-attention was not measured on {device}; attention: fastest stands", *names)
    implementation = str(report.get("cuda_graph_impl", default="none"))
    if report.on("enable_cuda_graph", "external_cuda_graph") or implementation not in ("none", "None"):
        whole = "full_iteration" in str(report.get("cuda_graph_scope", default=""))
        report.take("cuda_graphs", "full" if whole else "layer", "enable_cuda_graph", "external_cuda_graph",
                    "cuda_graph_impl", *(("cuda_graph_scope",) if whole else ()))
    else:
        report.without("cuda_graph_scope", "cuda_graph_modules", "cuda_graph_impl")
    if report.values.get("swiglu") == "separate" and report.model.get("activation") not in (None, "swiglu", "geglu"):
        del report.values["swiglu"]


def batch(report):
    """Take the batch. Documents fill the context, as the sequences of Megatron-LM's data sets do."""
    dp = report.values["gpus"] // math.prod(report.values.get(f"plan.{key}", 1) for key in ("tp", "pp", "cp"))
    micro = report.number("micro_batch_size", "mbs", default=1, kind="size")
    whole = report.number("global_batch_size", "gbs", kind="size")
    report.take("data.global_batch", micro * dp if whole is None else whole,
                *(("global_batch_size", "gbs") if whole is not None else ()))
    scheduler = report.get("sequence_packing_scheduler")
    systems = {"dp_balanced": "megatron-dp-balanced", "default_dynamic_cp": "megatron-default-dynamic-cp"}
    report.take("data.lengths", "fixed")
    if scheduler in systems:
        report.take("system", systems[scheduler], "sequence_packing_scheduler", "dynamic_context_parallel")
        if report.number("max_seqlen_per_dp_cp_rank"):
            report.take("knobs.max_tokens", report.number("max_seqlen_per_dp_cp_rank") , "max_seqlen_per_dp_cp_rank")
        report.without("micro_batch_size")
        report.say("assumed", "data.lengths: fixed; set those of your documents by --set data.lengths=FILE")
        return
    report.take("system", "best-fit")
    report.take("knobs.micro_batch", micro, "micro_batch_size", "mbs")
    if report.values["data.global_batch"] % (micro * dp) != 0:
        report.say("assumed", f"the last micro-batches are partly padding, since {micro} x {dp} replicas do not divide the batch")


def read(report):
    """Turn settings into keys of a scenario."""
    report.refuse()
    name, names = named_model(report)
    report.apply()
    report.model_has_experts = bool(report.model.get("experts"))
    own = own_model(report)
    if own is None and name is not None:
        report.take("model", common.hub_model(report, name, report.present(*names)[0].shown), *names)
        report.model_has_experts = common.model_has_experts(name)
        report.model.clear()
    sharding(report)
    stages(report)
    states(report)
    recompute(report)
    precision(report)
    experts(report)
    common.platform(report)
    instances = report.number("num_distributed_optimizer_instances", default=1)
    if instances > 1:
        ranks = report.values["gpus"] // (report.values.get("plan.tp", 1) * report.values.get("plan.pp", 1))
        report.take("plan.shard_group", ranks // instances, "num_distributed_optimizer_instances")
    else:
        report.without("num_distributed_optimizer_instances")
    kernels(report)
    batch(report)
    report.rest()
    return own

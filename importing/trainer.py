# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads runs of Hugging Face's Trainer: axolotl, LLaMA-Factory, Accelerate's FSDP, and DeepSpeed's files."""
import math
import pathlib
import re

import common
from report import Error, Setting, is_off

SHARDS = ("dp_shard_size", "parallelism_config_dp_shard_size")
REPLICAS = ("dp_replicate_size", "parallelism_config_dp_replicate_size")


def flat(mapping, prefix=""):
    """Yield the dotted names and values of a mapping. Lists are values."""
    for key, value in mapping.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def settings_of(mapping):
    """Return the settings of a configuration. Settings of FSDP and DeepSpeed have one name each, wherever they stand."""
    for name, value in flat(mapping):
        label, section = name, name.split(".")[0]
        if section in ("fsdp_config", "parallelism_config") and "." in name:
            name = name.split(".", 1)[1]
            name = name if name.startswith(("fsdp_", "parallelism_")) else f"{section.removesuffix('config')}{name}"
        elif section == "deepspeed_config" and "." in name:
            name = "ds." + name.split(".", 1)[1]
        yield Setting(name, value, label)


def deepspeed_settings(mapping, label=""):
    for name, value in flat(mapping):
        yield Setting("ds." + name, value, label + name)


def follow(report):
    """Read the files of DeepSpeed and Accelerate that the configuration names, if they are there."""
    for name in ("deepspeed", "deepspeed_config", "ds.deepspeed_config_file", "config_file"):
        setting = report.settings.get(name)
        if setting is None or not isinstance(setting.value, (str, dict)) or is_off(setting.value):
            continue
        if isinstance(setting.value, dict):
            found = list(deepspeed_settings(setting.value))
        else:
            path = pathlib.Path(report.path).parent / setting.value
            text = path.read_text(encoding="utf-8") if path.is_file() else None
            if text is None:
                _stage_of_name(report, setting)
                continue
            mapping = common.parsed(path, text)
            found = list(deepspeed_settings(mapping, f"{path.name} ") if path.suffix == ".json" else settings_of(mapping))
        for other in found:
            report.settings.setdefault(other.name, other)


def _stage_of_name(report, setting):
    """Take the stage of a DeepSpeed file that is not there from its name: zero3_bf16.json, ds_z2_config.json."""
    name = pathlib.Path(setting.value).name.lower()
    if not name.endswith(".json"):
        return
    found = re.search(r"(?:z|zero|stage)[-_]?(?:stage[-_]?)?([0-3])", name)
    if found is None:
        report.fail(setting.shown, "there is no such file, and its name has no stage of ZeRO; allowed: a path that begins in "
                    "the configuration's folder")
    stage = int(found[1])
    report.settings["ds.zero_optimization.stage"] = Setting("ds.zero_optimization.stage", stage, setting.label, setting.shown)
    report.say("assumed", f"{setting.value}: there is no such file here; its name says stage {stage} of ZeRO, and its "
               "other settings are DeepSpeed's defaults")
    if "offload" in name:
        report.say("not modelled", f"{setting.value}: the offload in its name is not counted")


def _degrees(report):
    """Take the ranks that share a sequence."""
    for names, cp_type in ((("context_parallel_size", "sequence_parallel_degree"),
                            "all-gather" if report.on("sample_packing") else "ring"),
                           (("parallelism_config_cp_size",), "all-gather"),
                           (("sequence_parallel_size", "parallelism_config_sp_size", "ds.sequence_parallel_size"),
                            "ulysses")):
        degree = report.number(*names, default=1, kind="size")
        if degree > 1:
            report.take("plan.cp", degree, *names)
            report.take("plan.cp_type", cp_type, *names)
        else:
            report.without(*names)


def _fsdp(report):
    """Take FSDP: its version and who shares what."""
    words = report.get("fsdp", default=[])
    words = [str(word).lower() for word in (words if isinstance(words, list) else str(words).split())]
    named = next((word for word in words if word in report.table["strategies"]), "full_shard")
    strategy = str(report.get("fsdp_sharding_strategy", default=named)).lower()
    found = report.table["strategies"].get(int(strategy) if strategy.isdigit() else strategy)
    if found is None:
        report.fail(report.present("fsdp_sharding_strategy", "fsdp")[0].shown,
                    "allowed: FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD, HYBRID_SHARD_ZERO2, NO_SHARD")
    version = report.number("fsdp_version", default=1)
    names = ("fsdp", "fsdp_sharding_strategy", "distributed_type")
    report.take("plan.sharding", found if version == 1 else "zero3", *names)
    if version == 2:
        report.take("plan.fsdp", 2, "fsdp_version")
        report.take("plan.fsdp_prefetch", "backward-pre")
        reshard = report.get("fsdp_reshard_after_forward", default=True)
        report.take("plan.reshard_after_forward", "never" if is_off(reshard) else "always", "fsdp_reshard_after_forward")
        report.without("fsdp_backward_prefetch")
    else:
        report.without("fsdp_version", "fsdp_reshard_after_forward")
        prefetch = str(report.get("fsdp_backward_prefetch", default="")).upper()
        if prefetch in ("BACKWARD_PRE", "BACKWARD_POST"):
            report.take("plan.fsdp_prefetch", prefetch.lower().replace("_", "-"), "fsdp_backward_prefetch")
    replicas, shards = report.number(*REPLICAS, default=1), report.number(*SHARDS)
    if strategy.startswith("hybrid"):
        report.take("plan.shard_group", report.values["gpus_per_node"], "fsdp_sharding_strategy", "fsdp")
    elif replicas > 1:
        ranks = common.replicas(report)
        report.take("plan.shard_group", (shards or ranks // replicas) * report.values.get("plan.cp", 1), *REPLICAS, *SHARDS)
    report.without(*REPLICAS, *SHARDS)


def _zero(report):
    """Take a stage of ZeRO, what overlaps, and an optimizer on the host."""
    names = ("ds.zero_optimization.stage", "ds.zero_stage", "deepspeed", "deepspeed_config", "distributed_type")
    stage = report.number(*names[:2], default=0)
    if stage not in (0, 1, 2, 3):
        report.fail(report.present(*names)[0].shown, "allowed: 0, 1, 2, 3")
    report.take("plan.sharding", f"zero{stage}" if stage else "none", *names)
    overlap = report.get("ds.zero_optimization.overlap_comm")
    report.take("communication.dp_overlap", "none" if is_off(overlap) or overlap == "auto" else "gradients",
                "ds.zero_optimization.overlap_comm")
    device = report.get("ds.zero_optimization.offload_optimizer.device", "ds.offload_optimizer_device", default="none")
    offloads = ("ds.zero_optimization.offload_optimizer.device", "ds.offload_optimizer_device")
    if device in ("cpu", "nvme") and stage in (1, 2):
        report.take("plan.optimizer_offload", 1, *offloads)
        report.without("ds.zero_optimization.offload_optimizer.pin_memory")
    elif device in ("none", None):
        report.without(*offloads)
    bucket = report.get("ds.zero_optimization.reduce_bucket_size", default="auto")
    if bucket != "auto" and stage and report.values["framework"] == "deepspeed":
        report.take("plan.reduce_bucket", report.number("ds.zero_optimization.reduce_bucket_size"),
                    "ds.zero_optimization.reduce_bucket_size")
    else:
        report.without("ds.zero_optimization.reduce_bucket_size")
    group = report.number("ds.zero_optimization.mics_shard_size", default=-1)
    if group > 0:
        report.take("plan.shard_group", group, "ds.zero_optimization.mics_shard_size")
    report.without("ds.zero_optimization.mics_shard_size")


def _recompute(report):
    names = ("gradient_checkpointing", "fsdp_activation_checkpointing", "disable_gradient_checkpointing")
    value = report.get("gradient_checkpointing", default=report.tool == "LLaMA-Factory"
                       and not report.on("disable_gradient_checkpointing"))
    on = report.on("fsdp_activation_checkpointing") or (not is_off(value)
                                                        and not report.on("disable_gradient_checkpointing"))
    report.take("plan.recompute", "full" if on else "none", *names)
    if isinstance(value, str) and value.lower() not in ("true", "false"):
        report.say("not modelled", f"gradient_checkpointing {value}: inputs of layers stay on the GPU, and each layer is computed again")
    reentrant = report.get("gradient_checkpointing_kwargs.use_reentrant", "use_reentrant_gc")
    if on and reentrant is not None:
        report.take("plan.early_stop", is_off(reentrant), "gradient_checkpointing_kwargs.use_reentrant", "use_reentrant_gc")


def _liger(report):
    """Take Liger's kernels. LLaMA-Factory and Transformers switch all on at once, axolotl names them."""
    plugins = report.get("plugins", default=[])
    named = any("liger" in str(plugin).lower() for plugin in plugins if isinstance(plugins, list))
    every = report.on("enable_liger_kernel", "use_liger_kernel")
    if not named and not every:
        return
    report.take("framework", "liger", "enable_liger_kernel", "use_liger_kernel",
                *(("plugins",) if named and len(plugins) == 1 else ()))
    if every:
        return
    for name, key, off in (("liger_rope", "fused.rotation", False), ("liger_rms_norm", "fused.norm", False),
                           ("liger_glu_activation", "swiglu", "separate")):
        if report.on(name) or (name == "liger_glu_activation" and report.on("liger_swiglu")):
            report.say("taken", f"{report.present(name, 'liger_swiglu')[0].shown} -> framework: liger")
            report.present(name, "liger_swiglu")[0].used = True
        else:
            report.take(key, off, name)
    if not report.on("liger_fused_linear_cross_entropy"):
        report.take("loss", "fused" if report.on("liger_cross_entropy") else "passes", "liger_fused_linear_cross_entropy",
                    "liger_cross_entropy")
    else:
        report.take("loss", "fused-linear", "liger_fused_linear_cross_entropy")


def _kernels(report):
    """Take attention, the precision and the optimizer."""
    names = ("flash_attn", "attn_implementation", "attention", "flash_attention", "sdp_attention", "eager_attention")
    value = str(report.get(*names[:3], default="")).lower()
    value = value or ("fa2" if report.on("flash_attention") else "sdpa" if report.on("sdp_attention") else "eager"
                      if report.on("eager_attention") else "")
    found = report.table["attention"].get(value)
    if found is not None:
        report.take("attention", found, *names)
    elif value not in ("", "auto"):
        report.drop("this kernel of attention was not measured", *names)
    else:
        report.without(*names)
    if str(report.get("dynamo_config.dynamo_backend", default="")).lower() == "inductor":
        report.take("kernels", "compiled", "dynamo_config.dynamo_backend")
    if report.on("fp8"):
        report.take("precision", "fp8-tensor", "fp8")
        report.take("fp8_scaling", "current")
        report.take("fp8_params", report.on("fp8_enable_fsdp_float8_all_gather"), "fp8_enable_fsdp_float8_all_gather")
    if str(report.get("bf16", default="")).lower() == "full":
        report.take("plan.main_params", "none", "bf16")
    optimizer = ("optim", "optimizer", "ds.optimizer.type")
    word = str(report.get(*optimizer, default="adamw_torch_fused")).lower()
    if word in ("adamw_torch", "adamw_hf"):
        report.drop("kernels of foreach count as one kernel", *optimizer)
    elif word in report.table["fused_optimizers"]:
        report.take("plan.optimizer", "fused", *optimizer)
    else:
        report.drop("the optimizer counts as Adam", *optimizer)


def _batch(report):
    """Take the batch: of a GPU, times steps that are added up, times replicas."""
    names = ("micro_batch_size", "per_device_train_batch_size", "ds.train_micro_batch_size_per_gpu")
    steps = ("gradient_accumulation_steps", "ds.gradient_accumulation_steps")
    for setting in report.present(*names, *steps, "ds.train_batch_size"):
        if setting.value == "auto":
            report.without(setting.name)
            setting.value = None
    dp = common.replicas(report)
    whole = report.number("ds.train_batch_size", kind="size")
    micro = report.number(*names, kind="size")
    accumulated = report.number(*steps, kind="size")
    if micro is None and whole is not None:
        micro = max(1, whole // (dp * (accumulated or 1)))
    if micro is None and accumulated is None and not {"data.global_batch", "data.global_batch_tokens"} & set(report.given):
        raise Error(f"{report.path}: nothing says the batch; allowed: --set data.global_batch=NUMBER of documents")
    micro = micro or 1
    n = whole if whole is not None else micro * (accumulated or 1) * dp
    by = ("ds.train_batch_size",) if whole is not None else (*names, *steps)
    packs = report.on("sample_packing", "packing", "neat_packing")
    if report.tool == "LLaMA-Factory" and report.get("packing") is None and report.get("stage") == "pt":
        packs = True
    packings = ("sample_packing", "packing", "neat_packing")
    if report.get("block_size") is not None:  # run_clm.py joins all texts and cuts them into blocks
        packs, packings = True, (*packings, "block_size")
    if packs:
        report.take("system", "best-fit", *packings)
        if "data.global_batch" not in report.given:
            report.take("data.global_batch_tokens", n * report.values["data.context"], *by)
        if "pad_to_sequence_len" in report.settings and not report.on("pad_to_sequence_len"):
            report.take("knobs.pad", False, "pad_to_sequence_len")
    else:
        report.take("system", "padded", *packings)
        if "data.global_batch_tokens" not in report.given:
            report.take("data.global_batch", n, *by)
    report.take("knobs.micro_batch", micro, *names)
    report.without(*names, *steps, "ds.train_batch_size", "batch_size")
    if "data.lengths" not in report.given:
        report.assume("data.lengths", "fixed", "each document fills the context; those of your documents: --set data.lengths=FILE")


def read(report):
    """Turn settings into keys of a scenario."""
    follow(report)
    report.refuse()
    _liger(report)
    common.take_hub_model(report, "base_model", "model_name_or_path", "model_id")
    report.apply()
    common.need(report, "model", "the model")
    common.need(report, "data.context", "the longest sequence")
    _degrees(report)
    ranks = math.prod(report.number(*names, default=1, kind="size") for names in (SHARDS, REPLICAS))
    common.platform(report, max(8, ranks * report.values.get("plan.tp", 1) * report.values.get("plan.cp", 1)))
    fsdp = any(not is_off(setting.value) for name, setting in report.settings.items() if re.match("fsdp(_|$)", name))
    zero = any(name.startswith("ds.") for name in report.settings)
    if fsdp and str(report.get("distributed_type", default="fsdp")).lower() == "fsdp":
        _fsdp(report)
    elif zero:
        _zero(report)
    else:
        report.take("plan.sharding", "none", "distributed_type")
    _recompute(report)
    _kernels(report)
    _batch(report)
    report.rest()

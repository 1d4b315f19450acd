# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads torchtitan's TOML files."""
import common
from report import Error, is_off


def _model(report):
    name, flavor = str(report.get("model.name", default="llama3")), str(report.get("model.flavor", default="debugmodel"))
    found = report.table["flavors"].get(f"{name} {flavor}")
    if found is None and "model" not in report.given:
        raise Error(f"{report.path}: model {name}, flavor {flavor}: is no shipped model; allowed: --set model=./config.json, "
                    "with the configuration of Hugging Face that has its sizes")
    report.take("model", found or report.given["model"], "model.name", "model.flavor")


def _sharding(report):
    """Take FSDP, HSDP or DDP. Only the degree that shards may be -1: all other ranks."""
    sections = ("parallelism", "training", "experimental")
    replicate, shard = ([f"{section}.data_parallel_{kind}_degree" for section in sections] for kind in ("replicate", "shard"))
    replicas, shards = report.number(*replicate, default=1, kind="size"), report.number(*shard, default=-1)
    ranks = common.replicas(report) * report.values.get("plan.cp", 1)
    shards = ranks // replicas if shards == -1 else shards * report.values.get("plan.cp", 1)
    if shards == 1 and ranks > 1:
        report.take("plan.sharding", "none", *replicate, *shard)
        return
    report.take("plan.sharding", "zero3", *shard)
    if shards < ranks:
        report.take("plan.shard_group", shards, *replicate)
    else:
        report.without(*replicate)


def _pipeline(report):
    schedules = ("parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule")
    if report.values.get("plan.pp", 1) == 1:
        report.without(*schedules, "parallelism.pipeline_parallel_layers_per_stage")
        return
    word = str(report.get(*schedules, default="1F1B")).lower()
    found = report.table["schedules"].get(word)
    if found is None:
        report.drop("this schedule is not modelled; 1f1b stands", *schedules)
    elif found == "interleaved":
        stages = report.number("parallelism.pipeline_parallel_layers_per_stage")
        if stages:
            layers = common.models()[report.values["model"]]["layers"]
            report.take("plan.vpp", max(1, round((layers + 2) / stages / report.values["plan.pp"])), *schedules,
                        "parallelism.pipeline_parallel_layers_per_stage")
        else:
            report.take("plan.vpp", 2, *schedules)
    else:
        report.take("plan.schedule", found, *schedules)
    report.take("plan.count_embedding", True)
    report.take("plan.count_head", True)


def _recompute(report):
    names = ("activation_checkpoint.mode", "activation_checkpoint.selective_ac_option")
    mode = str(report.get(names[0], default="selective"))
    option = str(report.get(names[1], default="2"))
    if mode == "none":
        report.take("plan.recompute", "none", names[0])
        report.without(names[1])
    elif mode == "full":
        report.take("plan.recompute", "full", names[0])
        report.without(names[1])
    elif option == "op":
        report.take("plan.recompute", "selective", *names)
    elif option.isdigit() and int(option) > 0:
        layers = common.models().get(report.values["model"], {}).get("layers")
        if layers is None:
            raise Error(f"{report.path}: {names[1]}: {option}: the layers of this model are not known; allowed: --set plan.recompute=...")
        report.take("plan.recompute", "full", *names)
        report.take("plan.recompute_layers", max(1, layers // report.values.get("plan.pp", 1) // int(option)), names[1])
    else:
        report.fail(report.present(*names)[-1].shown, "allowed: op, or a whole number")


def _precision(report):
    """Take float8, which versions configure in [float8], [quantize.linear.float8] or [quantize.dense.float8]."""
    converters = report.get("model.converters", default=[])
    words = converters if isinstance(converters, list) else str(converters).split(",")
    sections = ("float8.", "quantize.linear.float8.", "quantize.dense.float8.", "mx.", "quantize.linear.mx.")
    if any("mx" in word for word in words):
        report.take("precision", "mxfp8", "model.converters")
    elif any("float8" in word for word in words):
        recipe = str(report.get(*(section + "recipe_name" for section in sections), default="tensorwise"))
        if recipe.startswith("rowwise"):
            report.drop("GEMMs with a scale for each row were not measured; the precision stays bf16",
                        *(section + "recipe_name" for section in sections), "model.converters")
            return
        report.take("precision", "fp8-tensor", "model.converters", *(section + "recipe_name" for section in sections))
        report.take("fp8_scaling", "current")
        gathers = tuple(section + "enable_fsdp_float8_all_gather" for section in sections)
        report.take("fp8_params", report.on(*gathers), *gathers)
    else:
        for name in list(report.settings):
            if name.startswith(sections) or ".float8." in name:
                report.without(name)


def _batch(report):
    """Take the batch. One of a rank is cut into micro-batches by pipelines only."""
    local = report.number("training.local_batch_size", "training.batch_size", default=8, kind="size")
    whole = report.number("training.global_batch_size", default=-1)
    dp = common.replicas(report)
    report.take("data.global_batch", whole if whole > 0 else local * dp,
                *(("training.global_batch_size",) if whole > 0 else ("training.local_batch_size", "training.batch_size")))
    report.take("data.lengths", "fixed")
    report.take("system", "best-fit")
    if report.values.get("plan.pp", 1) > 1:
        sizes = ("parallelism.pipeline_parallel_microbatch_size", "experimental.pipeline_parallel_microbatch_size")
        report.take("knobs.micro_batch", report.number(*sizes, default=1, kind="size"), *sizes)
    else:
        report.take("knobs.micro_batch", local, "training.local_batch_size", "training.batch_size")
    report.without("training.global_batch_size", "training.local_batch_size")


def read(report):
    """Turn settings into keys of a scenario."""
    _model(report)
    report.apply()
    common.need(report, "data.context", "the length of a sequence (training.seq_len)")
    shards = report.number("parallelism.data_parallel_shard_degree", default=-1)
    fixed = shards * report.number("parallelism.data_parallel_replicate_degree", default=1)
    plan = [report.values.get(f"plan.{key}", 1) for key in ("tp", "pp", "cp")]
    common.platform(report, fixed * plan[0] * plan[1] * plan[2] if fixed > 0 else None)
    if not common.model_has_experts(report.values["model"]):
        for key in ("plan.ep", "plan.etp"):
            report.values.pop(key, None)
    else:
        common.assume_balance(report)
    if common.models().get(report.values["model"], {}).get("tied_embeddings"):
        report.take("plan.fsdp_ends", "root")
    _sharding(report)
    _pipeline(report)
    _recompute(report)
    _precision(report)
    compiled = report.get("compile.enable", default=report.get("training.compile", default=False))
    components = report.get("compile.components", default=["model"])
    if not is_off(compiled) and "model" in components:
        report.take("kernels", "compiled", "compile.enable", "training.compile", "compile.components")
    _batch(report)
    report.rest()

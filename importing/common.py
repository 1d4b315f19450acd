# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of tools share this: tables, the program itself, GPUs, and what Hugging Face's names mean."""
import json
import math
import os
import pathlib
import re
import subprocess
import tomllib

import yaml

import model
from report import Error, text_of

FOLDER = pathlib.Path(__file__).resolve().parent
NODES = ("nnodes", "num_nodes", "num_machines", "nodes", "NNODES", "NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
OF_A_NODE = ("nproc_per_node", "devices", "gpus_per_node", "num_gpus_per_node", "num_gpus", "ntasks_per_node",
             "GPUS_PER_NODE",
             "NPROC_PER_NODE", "NUM_GPUS_PER_NODE", "GPUS_PER_NODES", "NGPU", "NUM_GPUS")
ALL = ("num_processes", "world_size", "WORLD_SIZE")
GRES = re.compile(r"\bgpu(?::([A-Za-z][\w.-]*))?:(\d+)")  # of Slurm: gpu:8, gpu:h100:8
SLURM = ("gres", "gpus_per_node")
SIZE = re.compile(r"-(\d+)x(\d+)(?:-free)?$")


def table(name):
    return yaml.load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), model.Loader)


def parsed(path, text):
    """Return the mapping in a text of TOML, JSON or YAML, by the path's ending. Error: there is none."""
    kind = {".toml": "TOML", ".json": "JSON"}.get(pathlib.Path(path).suffix.lower(), "YAML")
    try:
        mapping = tomllib.loads(text) if kind == "TOML" else json.loads(text) if kind == "JSON" else yaml.load(text,
                                                                                                               model.Loader)
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise Error(f"{path}: is no valid {kind}: {' '.join(str(error).split())[:120]}") from None
    if not isinstance(mapping, dict) or not all(isinstance(key, str) for key in mapping):
        raise Error(f"{path}: is no mapping of keys")
    return mapping


def models():
    """Return the shipped models by their names."""
    return model.shipped(pathlib.Path(os.environ["SLIMSIM_DATA"]) / "model/llm")


def model_has_experts(name):
    """Return whether a shipped model has experts. A model that is no shipped one counts as dense."""
    found = models().get(name)
    return found is not None and any(dict(layer)["experts"] for layer in model.normal(found)[1])


def program(arguments, standard_input):
    """Run slimsim and return what it said, as subprocess.CompletedProcess."""
    return subprocess.run([os.environ["SLIMSIM"], *arguments], input=standard_input, capture_output=True, text=True,
                          check=False)


def _count(report, names):
    """Return the number that a setting says, with its name. "gpu" and "auto" are none."""
    for name in names:
        setting = report.settings.get(name)
        text = str(setting.value) if setting is not None else ""
        if re.fullmatch(r"(\d+:)?[1-9]\d{0,6}", text):  # nnodes may be 1:4
            return int(text.split(":")[-1]), (name,)
    gres = next(_gres(report), None) if names is OF_A_NODE else None
    return (gres[2], gres[:1]) if gres else (None, ())


def _gres(report):
    """Yield what Slurm's flags say of a node's GPUs: flag, name of the GPU or None, number."""
    for setting in report.present(*SLURM):
        match = GRES.search(str(setting.value) if setting.name == "gres" else f"gpu:{setting.value}")
        if match is not None:
            yield setting.name, match[1], int(match[2])


def _given(report):
    """Return nodes and GPUs of a node that --set says."""
    named = report.given.get("platform", {})
    keys = named if isinstance(named, dict) else {"name": named}
    size = SIZE.search(str(keys.get("name", "")))
    nodes = report.given.get("platform.nodes", keys.get("nodes", int(size[1]) if size else None))
    of_a_node = report.given.get("platform.gpus_per_node", keys.get("gpus_per_node", int(size[2]) if size else None))
    for key, value in (("platform.nodes", nodes), ("platform.gpus_per_node", of_a_node)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise Error(f"--set {key}: '{value}'; allowed: a whole number from 1 on")
    return nodes, of_a_node


def platform(report, fewest=None):
    """Take nodes and GPUs of a node. If nothing says them, assume the fewest whole nodes that hold the plan.

    fewest: GPUs that the plan needs, if tp x pp x cp does not say it
    """
    given_nodes, given_of_a_node = _given(report)
    nodes, nodes_by = _count(report, NODES)
    of_a_node, of_a_node_by = _count(report, OF_A_NODE)
    every, every_by = _count(report, ALL)
    plan = [report.values.get(f"plan.{key}", 1) for key in ("tp", "pp", "cp")]
    fewest = fewest or math.lcm(math.prod(plan), report.values.get("plan.ep", 1) * report.values.get("plan.etp",
                                                                                                     1) * plan[1])
    if every is not None and (nodes is None or of_a_node is None):
        nodes = nodes or max(1, every // (of_a_node or 8))
        of_a_node, of_a_node_by = max(1, every // nodes), (*of_a_node_by, *every_by)
    by = (*nodes_by, *of_a_node_by)
    of_a_node = given_of_a_node or of_a_node or (8 if fewest % 8 == 0 or given_nodes or nodes else fewest if fewest < 8
                                                 else 8)
    if given_nodes or nodes:
        nodes = given_nodes or nodes
    else:
        nodes = -(-fewest // of_a_node)
        while (nodes * of_a_node) % math.prod(plan) != 0:
            nodes += 1
    said = {"nodes": nodes, "gpus_per_node": of_a_node}
    if given_nodes is None and by:
        report.take("platform", said, *by)
        if not nodes_by and not every_by:
            report.say("assumed", f"platform.nodes: {nodes}; nothing says how many nodes there are, and these are the fewest; "
                       "--set platform.nodes=N")
    elif given_nodes is None:
        report.assume("platform", said, "nothing says how many GPUs there are, and these are the fewest; --set platform.nodes=N")
    else:
        report.without(*by)
        report.values["platform"] = said if "platform" not in report.given else report.given["platform"]
    report.without(*(name for name in (*NODES, *OF_A_NODE, *ALL, *SLURM) if name not in by))
    if nodes * of_a_node % math.prod(plan) != 0:
        raise Error(f"{report.path}: tp x pp x cp = {' x '.join(map(str, plan))} does not divide {nodes} nodes of {of_a_node} GPUs; "
                    "allowed: --set platform.nodes=N")
    report.values["gpus"], report.values["gpus_per_node"] = nodes * of_a_node, of_a_node


def replicas(report):
    """Return the data-parallel degree."""
    return report.values["gpus"] // math.prod(report.values.get(f"plan.{key}", 1) for key in ("tp", "pp", "cp"))


def shipped_name(kind, name):
    """Return the shipped model or device that slimsim takes a name for. None: there is none."""
    scenario = {"model": "llama3-8b", "device": "h100-sxm", "platform": {"nodes": 1}, kind: name,
                "systems": [{"name": "best-fit", "plan": "auto"}], "data": {"lengths": "fixed", "context": 1, "global_batch": 1}}
    done = program(["lengths", "-"], text_of(scenario))
    taken = re.search(r" is taken as (\S+)$", done.stderr, re.MULTILINE)
    return taken[1] if taken else None if f"{kind}:" in done.stderr else name


def hub_model(report, name, shown):
    """Return the shipped model that a name of Hugging Face's hub means. Error: there is none."""
    return shipped_name("model", name) or report.fail(
        shown, "is no shipped model (`slimsim list models`); allowed: --set model=./config.json, with its configuration from "
        "the hub")


def device(report):
    """Take the GPU that Slurm's flags name, or assume one. Error: there is no such device, or there are several."""
    name, gpu = next(((name, gpu) for name, gpu, _ in _gres(report) if gpu), (None, None))
    if name is None or "device" in report.given:
        report.assume("device", "h100-sxm", "the file names no GPU; --set device=NAME, `slimsim list devices`")
        return
    report.take("device", shipped_name("device", gpu) or report.fail(
        report.settings[name].shown, f"{gpu} is no device, or several; allowed: --set device=NAME, `slimsim list devices`"), name)


def take_hub_model(report, *names):
    """Take a name of Hugging Face's hub, or a folder with a config.json."""
    name = report.get(*names)
    if not isinstance(name, str) or "model" in report.given:
        report.without(*names)
        return
    configuration = pathlib.Path(name) / "config.json"
    if not configuration.is_absolute():
        configuration = pathlib.Path(report.path).parent / configuration
    report.take("model", str(configuration) if configuration.is_file()
                else hub_model(report, name, report.present(*names)[0].shown), *names)


def assume_balance(report):
    """Assume that routing to experts is balanced, if nothing says it."""
    if "expert_imbalance" not in report.values:
        report.assume("expert_imbalance", 1, "routing is balanced, as in benchmarks; real routing is not (`slimsim help experts`)")


def need(report, key, what):
    """Check that a key has a value."""
    if key not in report.values:
        unread = f", as the script does not say what {report.unread[0]} is" if report.unread else ""
        raise Error(f"{report.path}: nothing says {what}{unread}; allowed: --set {key}=VALUE")

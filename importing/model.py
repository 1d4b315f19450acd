# SPDX-License-Identifier: GPL-3.0-or-later
"""This module makes a model's file of the sizes that a tool names, or finds the shipped model that has them all."""
import pathlib

import yaml

KINDS = ("heads", "kv_heads", "head_width", "kv_lora_rank", "q_lora_rank", "rope_width", "value_width", "ffn", "experts",
         "top_k", "shared_ffn", "window", "activation", "qk_norm", "biases")  # what a kind of layers may have of its own
DEFAULTS = {"head_width": 0, "kv_lora_rank": 0, "q_lora_rank": 0, "rope_width": 0, "value_width": 0, "experts": 0,
            "top_k": 0, "shared_ffn": 0, "window": 0, "qk_norm": "none", "norms": 2, "parallel_attention": False,
            "norm": "rmsnorm", "biases": False, "dropout": False, "mtp_layers": 0, "router_groups": 1, "top_groups": 1,
            "positions": 0, "vocabulary_multiple": 128}
UNNAMED = ("name", "source", "pattern", "kinds", "layers")
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _layer(model, kind):
    """Return what a layer of a kind is, with defaults and widths filled in."""
    layer = {key: {**DEFAULTS, **model, **kind}.get(key) for key in KINDS}
    layer["head_width"] = layer["head_width"] or model["hidden"] // layer["heads"]
    layer["value_width"] = (layer["value_width"] or layer["head_width"]) if layer["kv_lora_rank"] else 0
    if not layer["experts"]:
        layer["top_k"] = layer["shared_ffn"] = 0
    return tuple(layer.items())


def normal(model):
    """Return a model in a form in which equal models are equal."""
    pattern = model.get("pattern") or [{"kind": None}]
    kinds = [(model.get("kinds") or {}).get(run["kind"], {}) for run in pattern for _ in range(run.get("n", 1))]
    layers = [_layer(model, kinds[i % len(kinds)]) for i in range(model["layers"])]
    whole = {key: value for key, value in {**DEFAULTS, **model}.items() if key not in (*KINDS, *UNNAMED)}
    if not any(dict(layer)["experts"] for layer in layers):
        whole["router_groups"] = whole["top_groups"] = 1
    return whole, layers


def shipped(folder):
    """Return {name: model} of a folder of models."""
    return {path.stem: yaml.load(path.read_text(encoding="utf-8"), Loader)
            for path in sorted(pathlib.Path(folder).glob("*.yaml"))}


def padded(model, tp):
    """Return the model with the vocabulary that embedding and head have on tp GPUs."""
    multiple = max(1, model.get("vocabulary_multiple", 128) * tp)
    return {**model, "vocabulary": -(-model["vocabulary"] // multiple) * multiple, "vocabulary_multiple": 0}


def find(model, models, tp):
    """Return the name of the shipped model that is the same on tp GPUs, or None; of several the last, which is the newest."""
    model, models = padded(model, tp), {name: padded(other, tp) for name, other in models.items()}
    wanted = normal(model)
    alike = {name: other for name, other in models.items() if all(other[key] == model[key]
                                                                  for key in ("layers", "hidden", "vocabulary"))}
    return next((name for name, other in reversed(alike.items()) if normal(other) == wanted), None)


def nearest(model, models, tp):
    """Return the name of the shipped model of as many layers that differs in the fewest keys, and those keys. None: it
    differs in more than three."""
    own = normal(padded(model, tp))
    found = None
    for name, other in models.items():
        whole, layers = normal(padded(other, tp))
        if len(layers) != len(own[1]):
            continue
        keys = [key for key in whole if whole[key] != own[0].get(key)]
        keys += [key for key, value in layers[-1] if value != dict(own[1][-1])[key]]
        if len(keys) <= 3 and (found is None or len(keys) <= len(found[1])):
            found = name, keys
    return found


def with_layers(model, layers):
    """Return the model with these layers, each a mapping of the keys in which layers differ, as kinds and a pattern."""
    kinds, pattern = [], []
    for layer in layers:
        if layer not in kinds:
            kinds.append(layer)
        name = f"kind{kinds.index(layer)}"
        if pattern and pattern[-1]["kind"] == name:
            pattern[-1]["n"] += 1
        else:
            pattern.append({"kind": name, "n": 1})
    if len(kinds) == 1:
        return {**model, **kinds[0]}
    for period in range(1, len(pattern)):  # the shortest part that repeats
        if len(pattern) % period == 0 and pattern == pattern[:period] * (len(pattern) // period):
            pattern = pattern[:period]
            break
    return {**model, "ffn": kinds[0]["ffn"], "pattern": pattern, "kinds": {f"kind{i}": kind for i, kind in enumerate(kinds)}}

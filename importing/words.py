# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads a plan in words, such as verdicts print: TP4 PP4 DP16 selective."""
import re

from report import Error

DEGREES = {"tp": "tp", "pp": "pp", "vpp": "vpp", "vp": "vpp", "cp": "cp", "ep": "ep", "etp": "etp", "dp": "dp"}
WORDS = {"unsharded": ("sharding", "none"), "ddp": ("sharding", "none"), "fsdp": ("sharding", "zero3"),
         "on-demand": ("shard_communication", "on-demand"),
         "interleaved": ("schedule", "interleaved"), "gpipe": ("schedule", "gpipe"),
         "zero-bubble": ("schedule", "zero-bubble"),
         "seq1f1b": ("schedule", "seq1f1b"), "terapipe": ("schedule", "terapipe"), "1f1b": ("schedule", "1f1b"),
         "sp": ("sequence_parallel", True), "ring": ("cp_type", "ring"), "all-gather": ("cp_type", "all-gather"),
         "ulysses": ("cp_type", "ulysses")}
RECOMPUTE = {"none", "norm", "activation", "attention-core", "alternate-gemms", "mla-up-proj", "moe-act", "mlp", "moe",
             "full", "selective"}
SHARE = re.compile(r"\b(optimizer[ _-])?offload\s+([0-9.]+)%", re.IGNORECASE)


def is_plan(text):
    """Return whether a text is a plan in words: it has a degree."""
    return re.search(r"(?i)(?<![a-z])(?:[tpcde]p|vpp?|etp)\s*=?\s*\d", text) is not None


def plan(text):
    """Return the keys of plan and the system's `offload`. Error: a word is not known."""
    keys, entry = {}, {}
    for optimizer, share in SHARE.findall(text):
        keys["optimizer_offload" if optimizer else "offload"] = float(share) / 100
    text = re.sub(r"\s*=\s*", "", SHARE.sub(" ", text)).strip().lower()
    text = re.sub(r"(?<=\d)[-_]?(?=(?:[tpcde]p|vpp?|etp|mbs)[-_:]?\d)", " ", text)  # TP8-PP4 and TP8PP4
    for word in re.split(r"[\s,;/×·|]+", text):
        degree = re.fullmatch(r"([a-z]+?)[-_:]?(\d+)", word)
        stage = re.fullmatch(r"zero[-_]?([0-3])", word)
        if stage:
            keys["sharding"] = f"zero{stage[1]}" if stage[1] != "0" else "none"
        elif degree and degree[1] in DEGREES:
            keys[DEGREES[degree[1]]] = int(degree[2])
        elif degree and degree[1] in ("mbs", "mb", "micro"):
            entry["knobs"] = {"micro_batch": int(degree[2])}
        elif word in WORDS:
            keys[WORDS[word][0]] = WORDS[word][1]
        elif word and set(word.split("+")) <= RECOMPUTE:
            keys["recompute"] = word
        elif word == "offload":
            entry["offload"] = "auto"
        elif word:
            raise Error(f"'{word}' is no word of a plan; allowed: degrees such as TP4 PP2 VPP2 CP2 EP8 ETP2 DP16, a schedule, "
                        "zero1, zero2, zero3 or unsharded, what is recomputed, and offload 50%")
    keys.setdefault("tp", 1)
    keys.setdefault("pp", 1)
    if keys.get("vpp", 1) > 1 and keys.get("schedule") == "interleaved":
        del keys["schedule"]
    order = ("tp", "pp", "vpp", "cp", "cp_type", "ep", "etp", "dp")
    return {key: keys[key] for key in (*order, *sorted(set(keys) - set(order))) if key in keys}, entry

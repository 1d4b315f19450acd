#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waterfalls of `slimsim explain --json`: the steps from the GPUs' peak to MFU, a row per system. Beside each stands how
much faster the system were if one cost were zero. A trace is explained anew from the scenario that it holds.

    slimsim explain SCENARIO.yaml --json > explain.json
    explain.py explain.json --output explain.png explain.svg
"""
import argparse
import json
import pathlib

from common import Trace, add_output, draw, pyplot, slimsim, style
from output import exit_with

GROUPS = {  # colour: keys of steps
    "#4477AA": ("gemms_below_peak", "expert_gemms_below_peak", "casts", "attention_below_peak", "other_kernels"),
    "#CCBB44": ("padding", "recomputation", "uncounted_flop", "host_launches"),
    "#EE6677": ("tensor_collectives", "shard_collectives", "expert_dispatch", "expert_combine", "context", "gradients_parameters",
                "resharding"),
    "#9A9A9A": ("expert_imbalance", "warm_up", "imbalance", "cool_down", "waiting"),
    "#228833": ("fp8_above_bf16_peak", "mfu"),
}
COLOURS = {key: colour for colour, keys in GROUPS.items() for key in keys}
GAIN_NAMES = {"nic": "NIC", "nvlink": "NVLink", "pcie": "PCIe"}
SMALLEST = 0.0005  # steps below it are left out
SYSTEMS_MOST = 12


def explanation_of(path):
    """Read the JSON of slimsim explain, or explain a trace anew: its plans are those that the run found."""
    if path.suffix == ".h5":
        return slimsim.explain(Trace(path).file.filename, verbose=True)
    explanation = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(explanation, dict) or not all("waterfall" in system for system in explanation.get("systems", [{}])):
        raise ValueError("not the JSON of slimsim explain")
    return explanation


def steps_of(system):
    """[(key, name, begin, end)] in percent, from the peak down; MFU begins at 0."""
    steps, rest = [], 100.0
    for step in system["waterfall"]:
        size = 100 * step["share"]
        steps.append((step["key"], step["name"], rest - size, rest))
        rest -= size
    return [step for step in steps if abs(step[3] - step[2]) >= 100 * SMALLEST]


def draw_steps(axes, system):
    steps = steps_of(system)
    for row, (key, _, begin, end) in enumerate(steps):
        axes.barh(row, end - begin, left=begin, color=COLOURS[key], height=0.72)
        inside = key == "mfu"
        axes.text(begin + 0.6 if inside else max(begin, end) + 0.6, row, f"{end - begin:.1f}", va="center", fontsize=8,
                  color="white" if inside else "black")
        if row + 1 < len(steps):
            axes.plot([begin, begin], [row, row + 1], color="#888888", linewidth=0.6)
    axes.set_yticks(range(len(steps)), [name for _, name, _, _ in steps], fontsize=8)
    axes.set_ylim(len(steps) - 0.4, -0.6)
    axes.set_xlim(0, 106)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of the GPUs' peak")
    axes.set_title(f"{system['label']}: MFU {100 * system['mfu']:.1f}%, {system['time_mean_s']:.4g} s an iteration"
                   f"{'' if system['fits'] else ', does not fit'}", loc="left", fontsize=9)
    style(axes, "x")


def draw_gains(axes, system, most):
    gains = [(GAIN_NAMES.get(key, key), 100 * gain) for key, gain in system["gain_if_free"].items()]
    axes.barh(range(len(gains)), [gain for _, gain in gains], color="#66CCEE", height=0.72)
    for row, (_, gain) in enumerate(gains):
        axes.text(max(gain, 0) + 0.01 * most, row, f"{gain:+.1f}", va="center", fontsize=8)
    axes.set_yticks(range(len(gains)), [name for name, _ in gains], fontsize=8)
    axes.set_ylim(len(gains) - 0.4, -0.6)
    axes.set_xlim(min(0, *(gain for _, gain in gains)), 1.3 * most)
    axes.set_xlabel("% more tokens/s\nif the cost were zero")
    style(axes, "x")


def make_figure(explanation):
    systems = explanation["systems"][:SYSTEMS_MOST]
    heights = [max(len(steps_of(system)), 7) for system in systems]
    figure, axes = pyplot.subplots(len(systems), 2, squeeze=False, layout="constrained",
                                   figsize=(11, 0.6 + sum(0.24 * height + 0.75 for height in heights)),
                                   gridspec_kw={"width_ratios": [2.4, 1], "height_ratios": heights})
    most = max(1.0, *(100 * gain for system in systems for gain in system["gain_if_free"].values()))
    for row, system in zip(axes, systems):
        draw_steps(row[0], system)
        draw_gains(row[1], system, most)
    figure.suptitle(f"{explanation['name']}: {explanation['model']} on {explanation['gpus']} {explanation['device']}",
                    x=0.01, ha="left", fontsize=11)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FILE", help="JSON of slimsim explain, or NAME.h5 of slimsim run")
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.source], arguments.output, lambda: make_figure(explanation_of(pathlib.Path(arguments.source))),
         ".explain.png")


if __name__ == "__main__":
    exit_with(main)

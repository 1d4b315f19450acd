# SPDX-License-Identifier: GPL-3.0-or-later
"""This module draws what `slimsim explain` says: the steps from the GPUs' peak to MFU, a row for each system. Beside each
stands how much faster the system were if one cost were zero."""
from __future__ import annotations

from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from slimsim.plot.style import BLUE, GREEN, GREY, ORANGE, SKY, VERMILLION, WIDTH, drawn, style, title

GROUPS = {  # colour: keys of steps
    BLUE: ("gemms_below_peak", "expert_gemms_below_peak", "casts", "attention_below_peak", "other_kernels"),
    ORANGE: ("padding", "recomputation", "uncounted_flop", "host_launches"),
    VERMILLION: ("tensor_collectives", "shard_collectives", "expert_dispatch", "expert_combine", "context", "gradients_parameters",
                "resharding"),
    GREY: ("expert_imbalance", "warm_up", "imbalance", "cool_down", "waiting"),
    GREEN: ("fp8_above_bf16_peak", "mfu"),
}
COLOURS = {key: colour for colour, keys in GROUPS.items() for key in keys}
GAIN_NAMES = {"nic": "NIC", "nvlink": "NVLink", "pcie": "PCIe"}
SMALLEST = 0.0005  # steps below it are left out
SYSTEMS_MOST = 12


def steps_of(system: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    """[(key, name, begin, end)] in percent, from the peak down; MFU begins at 0."""
    steps, rest = [], 100.0
    for step in system["waterfall"]:
        size = 100 * step["share"]
        steps.append((step["key"], step["name"], rest - size, rest))
        rest -= size
    return [step for step in steps if abs(step[3] - step[2]) >= 100 * SMALLEST]


def draw_steps(axes: Axes, system: dict[str, Any]) -> None:
    """The waterfall of a system."""
    steps = steps_of(system)
    for row, (key, _, begin, end) in enumerate(steps):
        axes.barh(row, end - begin, left=begin, color=COLOURS[key], height=0.72)
        inside = key == "mfu"
        axes.text(begin + 0.6 if inside else max(begin, end) + 0.6, row, f"{end - begin:.1f}", va="center", fontsize=8,
                  color="white" if inside else "black")
        if row + 1 < len(steps):
            axes.plot([begin, begin], [row, row + 1], color=GREY, linewidth=0.6)
    axes.set_yticks(range(len(steps)), [name for _, name, _, _ in steps], fontsize=8)
    axes.set_ylim(len(steps) - 0.4, -0.6)
    axes.set_xlim(0, 106)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("% of the GPUs' peak")
    axes.set_title(f"{system['label']}: MFU {100 * system['mfu']:.1f}%, {system['time_mean_s']:.4g} s an iteration"
                   f"{'' if system['fits'] else ', does not fit'}", loc="left", fontsize=9)
    style(axes, "x")


def draw_gains(axes: Axes, system: dict[str, Any], most: float) -> None:
    """How much faster a system were without one cost."""
    gains = [(GAIN_NAMES.get(key, key), 100 * gain) for key, gain in system["gain_if_free"].items()]
    axes.barh(range(len(gains)), [gain for _, gain in gains], color=SKY, height=0.72)
    for row, (_, gain) in enumerate(gains):
        axes.text(max(gain, 0) + 0.01 * most, row, f"{gain:+.1f}", va="center", fontsize=8)
    axes.set_yticks(range(len(gains)), [name for name, _ in gains], fontsize=8)
    axes.set_ylim(len(gains) - 0.4, -0.6)
    axes.set_xlim(min(0, *(gain for _, gain in gains)), 1.3 * most)
    axes.set_xlabel("% more tokens/s\nif the cost were zero")
    style(axes, "x")


@drawn
def make_figure(explanation: dict[str, Any]) -> Figure:
    """The picture of the JSON of slimsim explain. ValueError: it is none"""
    if not isinstance(explanation, dict) or not all("waterfall" in system for system in explanation.get("systems", [{}])):
        raise ValueError("not the JSON of slimsim explain")
    systems = explanation["systems"][:SYSTEMS_MOST]
    heights = [max(len(steps_of(system)), 7) for system in systems]
    figure, axes = pyplot.subplots(len(systems), 2, squeeze=False, layout="constrained",
                                   figsize=(WIDTH, 0.6 + sum(0.24 * height + 0.75 for height in heights)),
                                   gridspec_kw={"width_ratios": [2.4, 1], "height_ratios": heights})
    most = max(1.0, *(100 * gain for system in systems for gain in system["gain_if_free"].values()))
    for row, system in zip(axes, systems):
        draw_steps(row[0], system)
        draw_gains(row[1], system, most)
    title(figure, f"{explanation['name']}: {explanation['model']} on {explanation['gpus']} {explanation['device']}")
    return figure

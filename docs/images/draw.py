#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the pictures of README.md and docs/experts.md into docs/images/, and write the numbers that they show to numbers.txt.

    docs/images/draw.py --program build/release/slimsim
    docs/images/draw.py --program build/release/slimsim --numbers     # print the numbers of today, draw nothing
"""
import argparse
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "analysis"))
from common import COLOURS, Patch, ki, legend_outside, pictures, pyplot, style
from output import Refused, exit_with, write
from slimsim import plot
from slimsim.plot import strips
from slimsim.plot.style import BLACK, BLUE, GREEN, LIGHT_GREY, MARKS, ORANGE, PURPLE, SKY, VERMILLION, line_handle

GEMMS = ("sequential", "multi-stream", "grouped")
EXPERTS = {"qwen3-30b-a3b": (8, 2), "deepseek-v3": (32, 1)}  # GPUs that share experts, tokens of a GPU for one of an expert
TOKENS = [2**i for i in range(3, 14)]  # of an expert
CASES = ("mixture, all-to-all", "mixture, DeepEP beside kernels", "dense 32B", "dense 4B")  # points of scenarios/experts.yaml
PARTS = {  # steps of `slimsim explain` by what docs/experts.md calls them; the rest is one more part
    "MFU": ("mfu",), "GEMMs of experts below peak": ("expert_gemms_below_peak",),
    "other GEMMs, attention below peak": ("gemms_below_peak", "attention_below_peak"), "element-wise kernels": ("other_kernels",),
    "waiting for launches": ("host_launches",), "tokens to experts and back": ("expert_dispatch", "expert_combine")}
PART_COLOURS = (GREEN, BLUE, SKY, PURPLE, ORANGE, VERMILLION, LIGHT_GREY)


def slimsim(program, folder, *arguments):
    return call([program, *arguments], cwd=folder)


def call(command, **options):
    """The text that a command prints. Refused: it fails, or there is none"""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    except OSError as error:
        raise Refused(f"{command[0]}: cannot be run: {error.strerror}", 127) from error
    if done.returncode:
        raise Refused(done.stderr.strip(), done.returncode)
    return done.stdout


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("# source:")))


def waste(program, folder, trace):
    """The systems of the quickstart: speed, waiting, memory."""
    slimsim(program, folder, "run", TOP / "scenarios/quickstart.yaml", "--quiet", "--set", f"trace={trace}")
    for row in rows(folder / "results/quickstart.csv"):
        yield (f"{row['system']}: {float(row['tokens_per_s_per_gpu']):.1f} tokens/s/GPU, bubbles {100 * float(row['bubble_fraction']):.1f}%, "
               f"{float(row['peak_bytes']) / 2**30:.1f} GiB")


def withheld():
    """The blind test, whose rows nobody here has: all training runs, then those of each source."""
    for row in rows(TOP / "model/validation/blind.csv"):
        errors = [float(row[column]) if row[column] else None for column in ("mean_absolute", "bias", "worst")]
        yield plot.Withheld(row["name"], int(row["rows"]), *errors, part=row["part"] == "1")


def errors(program, folder):
    """The strips of measured training runs: rows, mean absolute error, bias and worst, as README.md's table has them."""
    slimsim(program, folder, "validate")
    for row in (*withheld(), *(strip.statistics() for strip in strips.read(folder / "results/validation.h5"))):
        yield " | ".join(filter(None, (row.name, *strips.texts_of(row))))


def buy(program, folder):
    """The sizes of the offers of docs/howto/buy.md: days and cost."""
    page = (HERE.parent / "howto/buy.md").read_text(encoding="utf-8")
    (folder / "buy.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    slimsim(program, folder, "capacity", "buy.yaml")
    for row in rows(folder / "results/buy.capacity.csv"):
        if row["days"]:
            yield f"{row['nodes']} nodes of {row['offer']}: {float(row['days']):.2f} days, ${float(row['usd']):.0f}"


def gemm_rates(program, folder):
    """{(model, way): TFLOP/s of the experts' up GEMM, forward, by TOKENS}"""
    rates = {}
    for model, (ep, tokens) in EXPERTS.items():
        for way in GEMMS:
            for size in TOKENS:
                text = slimsim(program, folder, "cost", "--model", model, "--device", "h100-sxm", "--ep", ep, "--expert-gemms", way,
                               "--json", "--slice", f"0:{size * tokens}")
                kernels = json.loads(text)["forward"]["kernels_of_a_layer"]
                kernels = kernels["experts"] if isinstance(kernels, dict) else kernels
                (gemm,) = (kernel for kernel in kernels if kernel["name"] == "experts' up GEMM")
                rates.setdefault((model, way), []).append(gemm["flop"] / gemm["seconds"] / 1e12)
    return rates


def experts_gemms(rates):
    for model in EXPERTS:
        for i, size in enumerate(TOKENS):
            yield f"{model}, {size} tokens an expert: {', '.join(f'{way} {rates[model, way][i]:.0f}' for way in GEMMS)} TFLOP/s"


def draw_gemms(rates):
    figure, panels = pyplot.subplots(1, 2, figsize=(8, 4), layout="constrained", sharey=True)
    for axes, (model, (ep, _)) in zip(panels, EXPERTS.items()):
        for way, colour, mark in zip(GEMMS, COLOURS, MARKS):
            axes.plot(TOKENS, rates[model, way], color=colour, marker=mark, markersize=5, label=way)
        axes.set_title(f"{model}, {ep} GPUs share", loc="left", fontsize=11)
        axes.set_xscale("log", base=2)
        axes.set_xticks(TOKENS[::2], [ki(size) for size in TOKENS[::2]])
        axes.set_xlabel("tokens an expert")
        style(axes, "both")
    panels[0].set_ylabel("TFLOP/s")
    panels[0].set_ylim(0)
    legend_outside(figure, panels[0].lines, 3)
    return figure


def micro_parts(program, folder):
    """[(name, tokens of a micro-batch, shares of PARTS and the rest)] of the points of scenarios/experts-micro.yaml."""
    slimsim(program, folder, "run", TOP / "scenarios/experts-micro.yaml", "--quiet")
    bars = []
    for point, row in enumerate(rows(folder / "results/experts-micro.csv")):
        (system,) = json.loads(slimsim(program, folder, "explain", f"results/experts-micro.h5#{point}", "--quiet", "--json"))["systems"]
        steps = {step["key"]: 100 * step["share"] for step in system["waterfall"]}
        shares = [sum(steps[key] for key in keys) for keys in PARTS.values()]
        name = row["model"] + (f", {row['expert_gemms']}" if "a3b" in row["model"] else "")
        bars.append((name, int(row["data.context"]), [*shares, 100 - sum(shares)]))
    return bars


def experts_micro(bars):
    for name, tokens, shares in bars:
        yield f"{name}, {ki(tokens)}: {', '.join(f'{part} {share:.1f}%' for part, share in zip((*PARTS, 'rest'), shares))}"


def draw_micro(bars):
    names = list(dict.fromkeys(name for name, _, _ in bars))
    figure, panels = pyplot.subplots(1, len(names), figsize=(8, 5), layout="constrained", sharey=True)
    for axes, name in zip(panels, names):
        own = [(ki(tokens), shares) for of, tokens, shares in bars if of == name]
        for x, (_, shares) in enumerate(own):
            for i, share in enumerate(shares):
                axes.bar(x, share, bottom=sum(shares[:i]), color=PART_COLOURS[i], width=0.8)
            axes.text(x, 1, f"{shares[0]:.0f}", ha="center", fontsize=10, color="white")
        axes.set_xticks(range(len(own)), [tokens for tokens, _ in own])
        axes.set_title(name.replace(", ", "\n"), loc="left", fontsize=11)
        axes.set_ylim(0, 100)
        style(axes)
    panels[0].set_ylabel("% of the GPUs' peak")
    panels[len(names) // 2].set_xlabel("tokens of a micro-batch")
    legend_outside(figure, [Patch(facecolor=colour, label=name) for name, colour in zip((*PARTS, "the rest"), PART_COLOURS)], 2)
    return figure


def experts_speed(program, folder):
    """{(case, system): its row} of scenarios/experts.yaml."""
    slimsim(program, folder, "run", TOP / "scenarios/experts.yaml", "--quiet")
    found = rows(folder / "results/experts.csv")
    return {(CASES[i * len(CASES) // len(found)], row["system"]): row for i, row in enumerate(found)}


def interval_of(row):
    return float(row["speed_up"]), float(row["speed_up_interval"] or 0)


def experts_systems(table):
    for (case, system), row in table.items():
        speed_up, interval = interval_of(row)
        yield (f"{case}, {system}: {float(row['tokens_per_s_per_gpu']):.0f} tokens/s/GPU, MFU {100 * float(row['mfu']):.1f}%, "
               f"{speed_up:.2f}x +/- {interval:.2f}")


def draw_systems(table):
    systems = list(dict.fromkeys(system for _, system in table))[1:]
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.axvline(1, color=BLACK, linewidth=1)
    for i, (case, colour, mark) in enumerate(zip(CASES, COLOURS, MARKS)):
        for y, system in enumerate(systems):
            speed_up, interval = interval_of(table[case, system])
            place = y + (i - 1.5) * 0.19
            axes.errorbar(speed_up, place, xerr=interval, color=colour, marker=mark, markersize=7, capsize=3)
            axes.text(speed_up + interval + 0.006, place, f"{speed_up:.2f}", va="center", fontsize=10,
                      bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.set_yticks(range(len(systems)), [system.replace("-default", "-\ndefault") for system in systems])
    axes.set_ylim(len(systems) - 0.5, -0.5)
    axes.set_xlabel("speed-up over best-fit, with its 95% interval")
    style(axes, "x")
    legend_outside(figure, [line_handle(case, color=colour, marker=mark) for case, colour, mark in zip(CASES, COLOURS, MARKS)], 2)
    return figure


FIGURES = {"experts-gemms.png": (gemm_rates, experts_gemms, draw_gemms), "experts-micro.png": (micro_parts, experts_micro, draw_micro),
           "experts-systems.png": (experts_speed, experts_systems, draw_systems)}  # their data, and its lines and picture


def numbers(program, folder, trace, data):
    parts = {"waste.png": waste(program, folder, trace), "errors.png": errors(program, folder), "buy.png": buy(program, folder),
             **{name: lines(data[name]) for name, (_, lines, _) in FIGURES.items()}}
    return "".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in parts.items())


def draw(folder, data):
    results = folder / "results"
    for name, figure in (("waste.png", plot.waste(results / "quickstart.h5")),
                         ("errors.png", plot.errors(results / "validation.h5", withheld())),
                         ("buy.png", plot.capacity(results / "buy.capacity.h5", "days")),
                         *((name, make(data[name])) for name, (_, _, make) in FIGURES.items())):
        write(*pictures(figure, [HERE / name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=TOP / "build/release/slimsim", help="(default: %(default)s)")
    parser.add_argument("--numbers", action="store_true", help="print the numbers, draw nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program, folder = arguments.program.resolve(), pathlib.Path(folder)
        data = {name: read(program, folder) for name, (read, _, _) in FIGURES.items()}
        text = numbers(program, folder, "summary" if arguments.numbers else "full", data)
        if arguments.numbers:
            print(text, end="")
        else:
            draw(folder, data)
            write((HERE / "numbers.txt", text.encode(), (b"waste.png\n",)))


if __name__ == "__main__":
    exit_with(main)

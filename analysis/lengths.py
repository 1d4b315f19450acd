#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How few samples hold how much of the work: lengths of a trace's samples, beside shipped laws if asked.

Top: histogram and cumulative share of samples by length. Below, a panel per source: the share of samples, of tokens
and of forward FLOPs (layers, without the head) in each power of two of the length.
Reads the HDF5 trace (`trace: full`) and, with --law, files of model/lengths, which are drawn before cutting.

    lengths.py results/quickstart.h5 --law model/lengths/github.yaml --output results/lengths.png results/lengths.svg
    lengths.py --law model/lengths/*.yaml --output laws.png
"""
import argparse
import collections
import pathlib
import statistics
import sys

import h5py
import matplotlib
import numpy

matplotlib.use("Agg")
import matplotlib.pyplot as pyplot  # noqa: E402  after the choice of Agg
import matplotlib.ticker as ticker  # noqa: E402

# Paul Tol's "bright" scheme: told apart by colour-blind readers too.
SOURCE_COLOURS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#9A9A9A", "#222222"]
SHARE_COLOURS = {"samples": "#4477AA", "tokens": "#CCBB44", "forward FLOPs": "#AA3377"}
KI = 1024
LAW_DRAWS = 200_000  # lengths at equal steps of probability that stand for a law
BUCKET_ENDS = KI * 2 ** numpy.arange(12)  # 1Ki, 2Ki, ..., 2Mi; longer ones get a bucket of their own

# tokens: one length a sample. cost: (q, l) of F(x) = q x^2 + l x, None where no model is known.
Source = collections.namedtuple("Source", "name detail tokens cost")


def text_of(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def ki(tokens):
    """1536 -> '1.5Ki'"""
    for unit, name in ((KI * KI, "Mi"), (KI, "Ki")):
        if tokens >= unit:
            return f"{tokens / unit:g}{name}"
    return f"{tokens:g}"


def read_trace(path):
    """All samples of all iterations, after cutting."""
    with h5py.File(path, "r") as file:
        if file.attrs.get("complete", 0) != 1:
            raise ValueError("the trace is not complete")
        if "lengths" not in file or not len(file["lengths"]):
            raise ValueError("the trace holds no lengths: `trace: full` in the scenario writes them")
        tokens = numpy.sort(file["lengths"]["tokens"])
        n_iterations = len(numpy.unique(file["lengths"]["iteration"]))
        cost = None
        if "layer_flop_quadratic" in file.attrs:
            cost = (float(file.attrs["layer_flop_quadratic"]), float(file.attrs["layer_flop_linear"]))
        else:
            print(f"{path}: no attribute layer_flop_quadratic, the shares of FLOPs are left out", file=sys.stderr)
        lengths = pathlib.Path(text_of(file.attrs["lengths"])).name
        detail = (f"{lengths} lengths, context {ki(file.attrs['context'])}, {n_iterations} iterations of "
                  f"{file.attrs['global_batch']} documents, {text_of(file.attrs['model'])}")
        return Source(text_of(file.attrs["name"]), detail, tokens.astype(float), cost)


def tokens_of(value):
    """'14.3Ki' -> 14643.2"""
    text = str(value)
    for name, unit in (("Ki", KI), ("Mi", KI * KI)):
        if text.endswith(name):
            return float(text[:-2]) * unit
    return float(text)


def law_quantiles(law, p):
    """Inverse of the CDF that src/lengths/law.h states."""
    normal = statistics.NormalDist(law["mu"], law["sigma"])
    shortest, join, longest = (tokens_of(law[name]) for name in ("shortest", "join", "longest"))
    low, high = normal.cdf(numpy.log(shortest)), normal.cdf(numpy.log(join))
    body = p <= 1 - law["tail"]
    tokens = numpy.empty_like(p)
    tokens[body] = [numpy.exp(normal.inv_cdf(low + x / (1 - law["tail"]) * (high - low))) for x in p[body]]
    tokens[~body] = numpy.minimum(join * ((1 - p[~body]) / law["tail"]) ** (-1 / law["alpha"]), longest)
    return tokens


def read_law(path, cost):
    """A file of model/lengths as lengths at equal steps of probability."""
    import yaml  # Debian's python3-yaml; traces alone are drawn without it

    with open(path, encoding="utf-8") as file:
        law = yaml.safe_load(file)
    p = (numpy.arange(LAW_DRAWS) + 0.5) / LAW_DRAWS
    if law["kind"] == "law":
        tokens = law_quantiles(law, p)
    else:
        tokens = numpy.exp(numpy.interp(p, law["p"], numpy.log([tokens_of(x) for x in law["tokens"]])))
    return Source(f"{pathlib.Path(path).stem} {law['kind']}", "documents before cutting", tokens, cost)


def shares(source):
    """Share of samples, tokens and FLOPs by bucket, as name -> array."""
    tokens = source.tokens
    bucket = numpy.searchsorted(BUCKET_ENDS, tokens)  # ends belong to the bucket below
    weights = {"samples": numpy.ones_like(tokens), "tokens": tokens}
    if source.cost is not None:
        weights["forward FLOPs"] = source.cost[0] * tokens**2 + source.cost[1] * tokens
    count = len(BUCKET_ENDS) + 1
    return {name: numpy.bincount(bucket, weight, count) / weight.sum() for name, weight in weights.items()}


def tokens_axis(axes):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticker.LogLocator(base=4, numticks=20))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: ki(value)))
    axes.set_xlabel("length of a sample [tokens]")


def style(axes):
    axes.grid(axis="y", linewidth=0.4, color="#DDDDDD")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def draw_histogram(axes, sources):
    first = numpy.floor(numpy.log2(min(source.tokens.min() for source in sources)))
    last = max(numpy.log2(max(source.tokens.max() for source in sources)), first + 0.5)
    edges = 2.0 ** numpy.arange(first, last + 0.5, 0.5)
    for source, colour in zip(sources, SOURCE_COLOURS):
        counts, _ = numpy.histogram(source.tokens, edges)
        axes.stairs(100 * counts / len(source.tokens), edges, color=colour, linewidth=1.6)
        if len(sources) == 1:
            axes.stairs(100 * counts / len(source.tokens), edges, color=colour, alpha=0.12, fill=True)
    tokens_axis(axes)
    axes.set_ylabel("% of samples\n(two bins a doubling)")
    style(axes)


def draw_cumulative(axes, sources):
    for source, colour in zip(sources, SOURCE_COLOURS):
        tokens = numpy.sort(source.tokens)
        at = numpy.unique(numpy.linspace(0, len(tokens) - 1, 4000).astype(int))
        axes.step(tokens[at], 100 * (at + 1) / len(tokens), color=colour, linewidth=1.6, where="post")
    tokens_axis(axes)
    axes.set_ylim(0, 102)
    axes.set_ylabel("% of samples up to the length")
    style(axes)


def percent(share):
    """Three digits at most, none for an empty bucket."""
    if share == 0:
        return ""
    return f"{100 * share:.1f}" if share >= 0.001 else "<0.1"


def draw_shares(axes, source, last):
    by_name = shares(source)
    x = numpy.arange(last + 1)
    width = 0.84 / len(by_name)
    for number, (name, share) in enumerate(by_name.items()):
        at = x + (number - (len(by_name) - 1) / 2) * width
        axes.bar(at, 100 * share[: last + 1], width, color=SHARE_COLOURS[name], label=f"% of {name}")
        for place, value in zip(at, share[: last + 1]):
            axes.text(place, 100 * value, percent(value), ha="center", va="bottom", fontsize=6.5)
    names = [f"≤ {ki(BUCKET_ENDS[0])}"] + [f"{ki(a)}–{ki(b)}" for a, b in zip(BUCKET_ENDS, BUCKET_ENDS[1:])]
    axes.set_xticks(x, (names + [f"> {ki(BUCKET_ENDS[-1])}"])[: last + 1])
    axes.set_ylabel("%", rotation=0, ha="right", va="center")
    axes.set_title(f"{source.name}: {source.detail}", loc="left", fontsize=9)
    axes.legend(frameon=False, fontsize=8, loc="upper center", ncol=len(by_name))
    axes.margins(x=0.01, y=0.15)
    style(axes)


def make_figure(sources):
    height = 3.6 + 2.6 * len(sources)
    figure = pyplot.figure(figsize=(13, height), layout="constrained")
    figure.set_constrained_layout_pads(w_pad=0.1, h_pad=0.1)
    grid = figure.add_gridspec(1 + len(sources), 2, height_ratios=[3.2] + [2.6] * len(sources))
    draw_histogram(figure.add_subplot(grid[0, 0]), sources)
    cumulative = figure.add_subplot(grid[0, 1])
    draw_cumulative(cumulative, sources)
    if len(sources) > 1:
        handles = [pyplot.Line2D([], [], color=colour, linewidth=2, label=source.name)
                   for source, colour in zip(sources, SOURCE_COLOURS)]
        cumulative.legend(handles=handles, loc="lower right", frameon=False, fontsize=8)
    last = max(numpy.searchsorted(BUCKET_ENDS, source.tokens.max()) for source in sources)
    for row, source in enumerate(sources):
        draw_shares(figure.add_subplot(grid[1 + row, :]), source, int(last))
    return figure


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", help="NAME.h5 of slimsim run")
    parser.add_argument("--law", nargs="+", default=[], metavar="FILE", help="files of model/lengths, .yaml")
    parser.add_argument("--output", nargs="+", required=True, metavar="FILE", help="pictures: .png, .svg, .pdf")
    arguments = parser.parse_args()
    if arguments.trace is None and not arguments.law:
        parser.error("a trace or --law is needed")
    if (arguments.trace is not None) + len(arguments.law) > len(SOURCE_COLOURS):
        parser.error(f"at most {len(SOURCE_COLOURS)} sources fit one picture")
    return arguments


def main():
    arguments = read_arguments()
    matplotlib.rcParams["svg.hashsalt"] = "slimsim"  # else ids of SVG elements are random
    sources, path = [], arguments.trace
    try:
        if path is not None:
            sources.append(read_trace(path))
        cost = sources[0].cost if sources else None
        for path in arguments.law:
            sources.append(read_law(path, cost))
    except (OSError, ValueError, KeyError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    figure = make_figure(sources)
    for path in arguments.output:
        metadata = {"Software": None} if path.endswith(".png") else {"Date": None}
        figure.savefig(path, dpi=150, metadata=metadata)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report of a run, of a sweep or of an answer of `slimsim capacity`: one HTML file that any browser opens, without a
network.

The first screen has one large number and up to three options, as the verdict has them. A run then has the ranking, the GPUs' time from peak to MFU, the lanes of all replicas, memory, lengths, the plan search,
assumptions and the scenario. A sweep has its rows as a table and as points over any two columns. An answer has
days against cost, cost and energy by size, the distribution of the date, what would change it, its candidates, and what
each offer assumes. Lanes need a trace with tasks (`trace: full`).

    report.py results/quickstart.h5 --output results/quickstart.html
"""
import argparse
import html
import json
import pathlib
import re

import report_capacity
import report_lanes
import report_run
import report_sweep
from common import COLOURS, Trace, point_of, reading
from output import exit_with, target_of, write
from slimsim.plot.style import BLACK, BLUE

HERE = pathlib.Path(__file__).resolve().parent
ON_DARK = {BLUE: "#3b9bd6", BLACK: "#ffffff"}  # colours that are too dark for a dark page
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<noscript>This page needs JavaScript.</noscript>
<main></main>
<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def source(*names):
    """These files without indents and comments, which would be a tenth of a small page."""
    return re.sub(r"(?m)^ +|^//.*\n|^ */\*(?:.|\n)*?\*/\n", "", "".join((HERE / name).read_text(encoding="utf-8") for name in names))


def palette():
    """The colours of systems and other series, which are those of pictures: rules of the page, and their names for its scripts."""
    names = [f"--series-{i}" for i, _ in enumerate(COLOURS)]
    light, dark = (" ".join(f"{name}: {of.get(colour, colour)};" for name, colour in zip(names, COLOURS)) for of in ({}, ON_DARK))
    return (f":root {{ {light} }}\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n",
            f"const PALETTE = {json.dumps([f'var({name})' for name in names])};\n")


def page_of(path):
    trace = Trace(path)
    if "candidates" in trace.file:
        content = report_capacity.content_of(trace)
    elif "summary" not in trace.file or not len(trace.file["summary"]):
        raise ValueError("it holds no results of a run, of a sweep or of slimsim capacity")
    elif "manifest" in trace.file:
        content = report_sweep.content_of(trace)
    else:
        content = report_run.content_of(trace)
        content["lanes"] = report_lanes.lanes_of(trace, trace.ranking())
    # No text of the data can end the script element or begin another one.
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    rules, names = palette()
    style, script = rules + source("report.css"), source("report_lanes.js") + names + source("report_capacity.js", "report.js")
    return PAGE.format(title=html.escape(f"{content['name']}: slimsim"), style=style, script=script, data=data)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", help="NAME.h5 of slimsim run (#N: point N of a sweep), or NAME.capacity.h5 of slimsim capacity")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page (default: a .html beside the input)")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    marks = (PAGE.split("{title}")[0].encode(),)
    with reading(arguments.trace):
        name, point = point_of(arguments.trace)
        path = arguments.output or pathlib.Path(name).with_suffix(".html" if point is None else f".{point}.html")
    target_of(path, marks)
    with reading(arguments.trace):
        page = page_of(arguments.trace)
    write((path, page.encode(), marks))


if __name__ == "__main__":
    exit_with(main)

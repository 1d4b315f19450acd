#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This program prints a scenario of a plan that another tool's file says. `slimsim import` calls it.

main.py [--set KEY=VALUE]... [--output FILE] FILE|-|PLAN [NAME=VALUE]...
"""
import argparse
import io
import os
import pathlib
import re
import sys
import textwrap

import common
import megatron
import model
import sources
import words
from report import Error, Setting, readable, text_of

HEADS = (("taken", "Taken:"), ("defaults", "Defaults of {tool}, which the file does not change:"), ("assumed", "Assumed:"),
         ("not modelled", "Not modelled:"), ("not known", "Not known:"))
LINE = 120
ORDER = ("name", "model", "device", "platform", "framework", "precision")
LAST = ("data", "iterations", "systems")


def nested(values):
    """Return mappings of dotted keys."""
    found = {}
    for key, value in values.items():
        at = found
        *groups, last = key.split(".")
        for group in groups:
            if not isinstance(at.get(group), dict):
                at[group] = {} if group not in at else {"name": at[group]}
            at = at[group]
        at[last] = value
    return found


def scenario_of(report, name):
    """Return the scenario as nested mappings."""
    values = {"name": name, **{key: value for key, value in report.values.items() if key not in ("gpus", "gpus_per_node")}}
    values.update(report.given)
    if values.get("data.lengths") == "fixed" and "iterations" not in values and "iterations.measured" not in values:
        values["iterations"] = {"warm_up": 0, "measured": 4}
    system = {"name": values.pop("system", "best-fit")}
    if values.get("plan") is None:
        values = {"plan.tp": 1, "plan.pp": 1, **values}
    for key in [key for key in values if key.startswith(("plan.", "knobs.")) or key == "plan"]:
        system[key] = values.pop(key)
    if values.get("data.global_batch_tokens") is not None and "data.global_batch" in values:
        del values["data.global_batch" if "data.global_batch_tokens" in report.given else "data.global_batch_tokens"]
    top = {**nested(values), "systems": [nested(system)]}
    if isinstance(system.get("plan"), str):
        top["systems"][0]["plan"] = system["plan"]
    order = [*ORDER, *sorted(set(top) - set(ORDER) - set(LAST)), *LAST]
    return {key: top[key] for key in order if key in top}


def head_of(report, source):
    """Return the comments that say what became of each setting."""
    lines = [f"# Imported from {source} ({report.tool})."]
    for kind, head in HEADS:
        if report.said.get(kind):
            lines += [f"# {head.format(tool=report.tool)}", *(f"#   {line}" for line in report.said[kind])]
    free = ", ".join(report.said.get("without effect", ()))
    if free:
        lines += ["# Without effect on time and memory:"]
        lines += textwrap.wrap(free, LINE, initial_indent="#   ", subsequent_indent="#   ", break_long_words=False,
                               break_on_hyphens=False)
    return "".join(readable(line) + "\n" for line in lines)


def yaml_text(mapping):
    """Return a mapping as YAML with a line for each of its keys. An entry of systems has a line for each of its own."""
    lines = []
    for key, value in mapping.items():
        if key == "systems":
            lines += ["systems:", *(("  - " if i == 0 else "    ") + f"{name}: {text_of(entry)}" for system in value for i,
                                    (name, entry) in enumerate(system.items()))]
        else:
            lines.append(f"{key}: {text_of(value)}")
    return "".join(line + "\n" for line in lines)


def write(path, text):
    """Write a new file. Error: there is one."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Error(f"{path}: exists; allowed: the name of a new file for --output") from None
    except OSError as error:
        raise Error(f"{path}: cannot be written: {error.strerror}") from None


def place_model(report, own, name, output):
    """Name the shipped model that has these sizes, or write a file of them beside the scenario. Return its path and text."""
    if own is None or "model" in report.given:
        common.need(report, "model", "the model's sizes or its name")
        return None, None
    if "vocabulary" not in own:
        raise Error(f"{report.path}: nothing says the size of the vocabulary, which a tokenizer has; allowed: "
                    "vocab_size=NUMBER behind the file's name")
    found = model.find(own, common.models(), report.values.get("plan.tp", 1))
    if found is not None:
        report.values["model"] = found
        report.say("taken", f"all sizes are those of model {found}")
        return None, None
    like = model.nearest(own, common.models(), report.values.get("plan.tp", 1))
    sizes = "no shipped model has its sizes" + (f" ({like[0]} differs in {' and '.join(like[1])})" if like else "")
    report.say("taken", sizes)
    if output is None:
        raise Error(f"{report.path}: {sizes}, so the model needs a file of its own; allowed: "
                    f"--output {name}.yaml, which also writes {name}.model.yaml, or --set model=NAME")
    path = output.with_name(output.stem + ".model.yaml")
    report.values["model"] = path.name
    return path, yaml_text({"name": name, "source": f"sizes of {pathlib.Path(report.path).name}", **own})


def checked(scenario, folder):
    """Return what the program says against a scenario; "": nothing."""
    at = str(scenario["model"])
    if at.endswith((".yaml", ".json")):
        scenario = {**scenario, "model": str((folder / at).resolve())}
    done = common.program(["lengths", "-"], yaml_text(scenario))
    lines = (re.sub(r"^slimsim: (standard input:\d+:\d+: )?", "", line) for line in done.stderr.splitlines()
             if " is taken as " not in line)
    return "" if done.returncode == 0 else " ".join(lines)


def import_file(options, given, settings):
    """Print or write the scenario of a file. Return the exit status."""
    text = read_text(options.input)
    report, module = sources.report_of(options.input, text, settings)
    for name, value in settings.items():
        if not sources.is_variable(name):
            report.settings[name] = Setting(name, sources.value_of(value), name, f"{name}={value}")
    report.given = given
    report.script = report.tool == "Megatron-LM"
    if not report.script and module is megatron:
        report.table["defaults"] = {}
    report.values.update(given)
    common.device(report)
    own = module.read(report)
    common.need(report, "data.context", "the length of a sequence")
    name = re.sub(r"[^\w.-]", "-", (options.output or pathlib.Path("stdin" if options.input == "-"
                                                                   else options.input)).stem).strip(".")
    path, model_text = place_model(report, own, name, options.output)
    scenario = scenario_of(report, name)
    whole = head_of(report, "standard input" if options.input == "-" else pathlib.Path(options.input).name) + yaml_text(scenario)
    if path is not None:
        write(path, model_text)
    if options.output is not None:
        write(options.output, whole)
    else:
        sys.stdout.write(whole)
        sys.stdout.flush()
    counts = [(len(report.said.get(kind, ())), kind) for kind in ("not modelled", "not known")]
    said = " and ".join(f"{n} setting{'s' * (n > 1)} {'are' if n > 1 else 'is'} {kind}" for n, kind in counts if n)
    if said:
        print(f"slimsim: {said}; the first lines of the scenario name {'them' if sum(n for n, _ in counts) > 1 else 'it'}",
              file=sys.stderr)
    wrong = checked(scenario, options.output.parent if options.output is not None else pathlib.Path())
    if wrong:
        hint = "" if "there is no model" not in wrong else "; with the configuration from the hub it is --set model=./config.json"
        print(f"slimsim: the scenario is {'written' if options.output else 'printed'}, but it does not run yet: {wrong}{hint}", file=sys.stderr)
    return 2 if wrong else 0


def read_text(path):
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise Error(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Error(f"{path}: is no text in UTF-8") from None


def assignments(texts, what):
    """Return {KEY: value} of KEY=VALUE."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Error(f"{what}: '{text}'; allowed: KEY=VALUE")
        found[re.sub(r"^systems\.0\.(?=plan|knobs)", "", key)] = value
    return found


def main():
    parser = argparse.ArgumentParser(prog="slimsim import", add_help=False, allow_abbrev=False)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("input")
    parser.add_argument("settings", nargs="*")
    options = parser.parse_args()
    try:
        if not pathlib.Path(options.input).exists() and words.is_plan(options.input):
            plan, entry = words.plan(" ".join([options.input, *options.settings]))
            print(yaml_text({"plan": plan, **entry}), end="")
            return 0
        return import_file(options, {key: sources.value_of(value) for key, value in assignments(options.set, "--set").items()},
                           assignments(options.settings, "settings"))
    except Error as error:
        print(readable(f"slimsim: {error}"), file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=False)
    sys.exit(main())

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

import yaml

import common
import megatron
import model
import shell
import torchtitan
import trainer
import words
from report import UNSET, Error, Report, Setting, text_of

HEADS = (("taken", "Taken:"), ("defaults", "Defaults of {tool}, which the file does not change:"), ("assumed", "Assumed:"),
         ("not modelled", "Not modelled:"), ("not known", "Not known:"))
LINE = 120
ORDER = ("name", "model", "device", "platform", "framework", "precision")
LAST = ("data", "iterations", "systems")
LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "torch.distributed.run", "torch.distributed.launch", "llamafactory-cli")
OPTIONS = re.compile(rf"{UNSET}\{{?\w*(?:opts?|options?|args?|flags|extra)\w*\}}?",
                     re.IGNORECASE)  # a variable that may be empty
EXPORTED = re.compile(r"^# slimsim: These flags mean the plan of .* on (\d+) nodes of (\d+) GPUs\.$", re.MULTILINE)
SECTIONS = {"dataset": 1, "data": 1, "train": 2, "comm_overlap": 3, "ddp": 4, "mixed_precision": 5}  # the last one counts
BESIDE = ("checkpoint", "logger", "rerun_state_machine", "profiling", "tokenizer", "scheduler", "exp_manager", "dist",
          "ft", "rng",
          "straggler", "nvrx_straggler", "inprocess_restart", "tensor_inspect", "log", "resume", "optim_sched",
          "validation", "ENV_VARS", "env_vars")
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
KEPT_OF_DATA = ("seq_length", "sequence_length", "global_batch_size", "micro_batch_size")
VARIABLE = re.compile(r"\$\{?([A-Z_][A-Z0-9_]*)\}?")


def value_of(text):
    """Return a value of --set or of a command line as YAML reads it."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def flags(command):
    """Yield the settings of a command's flags."""
    at = 0
    while at < len(command):
        word = command[at]
        at += 1
        if word == "-N":
            word = "--nodes"
        if not re.match(r"--[A-Za-z]", word):
            continue
        name, equals, value = word[2:].partition("=")
        values = [value] if equals else []
        while not equals and at < len(command) and not re.match(r"--?[A-Za-z]|[>|<&]|\d>",
                                                                command[at]) and not re.search(r"\.(py|sh)$", command[at]):
            if not OPTIONS.fullmatch(command[at]):
                values.append(command[at])
            at += 1
        found = True if not values else values[0] if len(values) == 1 else values
        shown = " ".join(["--" + name, *map(str, values)]).replace(UNSET, "$")
        yield Setting(name.replace("-", "_"), found, "--" + name, shown)


def _of_gpus(command):
    """Return those flags of Slurm that say how many GPUs there are."""
    return [word for setting in flags(command) if setting.name in (*common.NODES, *common.OF_A_NODE, "gres")
            for word in (setting.label, str(setting.value))]


def _without_srun(command):
    """Return a command without the flags of srun, except those that count GPUs."""
    if command[0] not in ("srun", "mpirun", "salloc"):
        return command
    at = next((i for i, word in enumerate(command) if word in ("bash", "sh", *LAUNCHERS)
               or re.search(r"(^|/)python[0-9.]*$|\.py$", word)), len(command))
    return _of_gpus(command[:at]) + command[at:]


def launch_of(commands):
    """Return the words of the command that launches a training, the one that has most flags."""
    opened = [[part for word in command for part in (word.split() if " --" in word else [word])] for command in commands]
    opened = [_without_srun(command) for command in opened if command]
    launches = [command for command in opened if any(word.endswith(".py") or word in LAUNCHERS for word in command)]
    best = max(launches, key=lambda command: sum(word.startswith("--") for word in command), default=[])
    return [word for command in opened if command[:1] == ["SBATCH"] for word in _of_gpus(command[1:])] + best


def arguments_of(text):
    """Return the words of a list of arguments, whose lines all begin with a flag. None: it is no such list."""
    lines = [line.strip().removesuffix("\\") for line in text.splitlines() if line.strip()
             and not line.strip().startswith("#")]
    if not lines or not all(re.match(r"--[A-Za-z]", line) for line in lines):
        return None
    return [word.strip("'\"") for line in lines for word in line.split()]


def settings_of_script(text, given):
    """Return the settings of a script or a list of arguments, and the tests that could not be evaluated."""
    listed = arguments_of(text)
    script = shell.Script("" if listed else text, {name: value for name,
                                                   value in given.items() if name.isupper() or name.isdigit()})
    found = []
    exported = EXPORTED.search(text)
    if exported:
        shown = exported[0].removeprefix("# slimsim: ")
        found = [Setting("nnodes", exported[1], shown, shown), Setting("nproc_per_node", exported[2], shown, shown)]
    for name in (*common.NODES, *common.OF_A_NODE, *common.ALL):
        value = script.variables.get(name, [])
        if len(value) == 1 and name.isupper():
            found.append(Setting(name, value[0], name, f"{name}={value[0]}"))
    found += flags([replaced(word, given) for word in listed] if listed else launch_of(script.commands))
    return found, script.unsure


def tree(value, path=()):
    """Yield the path and value of each leaf of a configuration. {_target_: x} without arguments is x."""
    if isinstance(value, dict) and set(value) <= {"_target_", "_call_",
                                                  "_partial_"} and "_target_" in value and "_call_" in value:
        last = str(value["_target_"]).rsplit(".", maxsplit=1)[-1]
        yield path, TYPES.get(last, last)
    elif isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from tree(entry, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for i, entry in enumerate(value):
            yield from tree(entry, (*path, str(i)))
    else:
        yield path, value


def settings_of_recipe(mapping):
    """Return the settings of a recipe of NeMo or Megatron-Bridge. Their names do not depend on the section."""
    found = []
    for path, value in tree(mapping.get("ConfigContainer", mapping)):
        section, name = path[0] if len(path) > 1 else "", path[-1]
        sections = set(path[:-1])
        if sections & set(BESIDE) or (sections & {"data", "dataset"} and name not in KEPT_OF_DATA):
            name = "beside." + ".".join(path)
        elif sections & {"optimizer", "optim", "config"} and name in ("name", "optimizer"):
            name = "optim_name" if "config" not in sections else "beside." + name
        elif name == "_target_":
            name = "model_target" if path[0] == "model" and "optim" not in sections and path[-2] in ("model",
                                                                                                     "config") else "beside." + ".".join(path)
        elif name == "name" and path[0] == "run":
            name = "beside.run.name"
        label = ".".join(path)
        found.append((SECTIONS.get(section, 0), Setting(name, value, label)))
    kept = {}
    for _, setting in sorted(found, key=lambda pair: pair[0]):
        if setting.value is not None or setting.name not in kept:
            kept[setting.name] = setting
    return list(kept.values())


def replaced(mapping, given):
    """Replace ${NAME} of a configuration by what the user gives."""
    if isinstance(mapping, dict):
        return {key: replaced(value, given) for key, value in mapping.items()}
    if isinstance(mapping, list):
        return [replaced(value, given) for value in mapping]
    match = VARIABLE.fullmatch(mapping) if isinstance(mapping, str) else None
    return mapping if match is None else value_of(given[match[1]]) if match[1] in given else UNSET + match[1]


def tool_of(path, text):
    """Return the name of the tool whose file this is, and the mapping in it; None for a script."""
    suffix = pathlib.Path(path).suffix.lower()
    try:
        mapping = common.parsed(path, text)
    except Error:
        if suffix in (".toml", ".json", ".yaml", ".yml"):
            raise
        return None, None
    if suffix == ".toml":
        return "torchtitan", mapping
    if "systems" in mapping:
        raise Error(f"{path}: is a scenario of slimsim already; allowed: `slimsim run {path}`")
    if suffix == ".json":
        return "DeepSpeed", mapping
    if isinstance(mapping.get("MODEL_ARGS"), dict):
        return "Megatron-LM", mapping
    if "base_model" in mapping:
        return "axolotl", mapping
    if "model_name_or_path" in mapping:
        return "LLaMA-Factory", mapping
    if "distributed_type" in mapping or "compute_environment" in mapping:
        return "Accelerate", mapping
    if "ConfigContainer" in mapping or isinstance(mapping.get("model"), dict) or isinstance(mapping.get("trainer"),
                                                                                            dict) or "train" in mapping:
        return "NeMo", mapping
    return None, None


def _script(path, text, given):
    """Return the report of a script by the tool whose flags it has."""
    settings, unsure = settings_of_script(text, given)
    names = {setting.name for setting in settings}
    if names & {"model_name_or_path", "per_device_train_batch_size"}:
        report, module = Report(path, "Transformers", common.table("trainer"), settings), trainer
        report.values["framework"] = "transformers"
    elif any(name.startswith(("job.", "training.", "parallelism.")) for name in names):
        report, module = Report(path, "torchtitan", common.table("torchtitan"), _of_toml(path, settings)), torchtitan
        report.values["framework"] = "torchtitan"
    elif names & {"num_layers", "tensor_model_parallel_size", "micro_batch_size", "hidden_size",
                  "pipeline_model_parallel_size"}:
        report, module = Report(path, "Megatron-LM", common.table("megatron"), settings), megatron
        report.values["framework"] = "megatron-core"
    else:
        raise Error(f"{path}: no flags of a known tool were found; allowed: a launch script or a list of arguments of Megatron-LM, a recipe of "
                    "NeMo or Megatron-Bridge (YAML), torchtitan's TOML, DeepSpeed's JSON, YAML of axolotl, LLaMA-Factory or Accelerate, or a plan "
                    "in words (\"TP4 PP4 DP16\")")
    for test in unsure:
        report.say("assumed", f"the test {test} holds; it depends on what the script does not set")
    return report, module


def _of_toml(path, settings):
    """Return the settings of the TOML file that a launch of torchtitan names, and of its flags."""
    named = next((str(setting.value) for setting in settings if setting.name == "job.config_file"), None)
    file = pathlib.Path(path).parent / named if named else None
    found = [Setting(name, value) for name, value in trainer.flat(common.parsed(file,
                                                                                read_text(file)))] if file and file.is_file() else []
    return found + settings


def report_of(path, text, given):
    """Return the report of a file, and the module that reads its settings."""
    tool, mapping = tool_of(path, text)
    if tool is None:
        return _script(path, text, given)
    mapping = replaced(mapping, given)
    if tool == "Megatron-LM":
        words_of = [str(word) for flag, value in mapping["MODEL_ARGS"].items() if value is not False
                    for word in ([flag] if value is True else [flag, *(value if isinstance(value, list)
                                                                       else str(value).split())])]
        settings, module, framework = list(flags(words_of)), megatron, "megatron-core"
    elif tool == "NeMo":
        settings, module, framework = settings_of_recipe(mapping), megatron, "nemo"
    elif tool == "torchtitan":
        settings, module, framework = [Setting(name, value) for name, value in trainer.flat(mapping)], torchtitan, "torchtitan"
    elif tool == "DeepSpeed":
        settings, module, framework = list(trainer.deepspeed_settings(mapping)), trainer, "deepspeed"
    else:
        settings, module, framework = list(trainer.settings_of(mapping)), trainer, "transformers"
    name = {megatron: "megatron", torchtitan: "torchtitan", trainer: "trainer"}[module]
    report = Report(path, "NeMo or Megatron-Bridge" if tool == "NeMo" else tool, common.table(name), settings)
    report.values["framework"] = framework
    return report, module


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
    return "".join(line.replace(UNSET, "$") + "\n" for line in lines)


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
        raise Error(f"{report.path}: nothing says the size of the vocabulary, which a tokenizer has; allowed: vocab_size=NUMBER behind the file's name")
    found = model.find(own, common.models(), report.values.get("plan.tp", 1))
    if found is not None:
        report.values["model"] = found
        report.say("taken", f"all sizes are those of model {found}")
        return None, None
    if output is None:
        raise Error(f"{report.path}: no shipped model has its sizes, so the model needs a file of its own; allowed: --output {name}.yaml, which also "
                    f"writes {name}.model.yaml, or --set model=NAME")
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
    report, module = report_of(options.input, text, settings)
    for name, value in settings.items():
        if not name.isupper() and not name.isdigit():
            report.settings[name] = Setting(name, value_of(value), name, f"{name}={value}")
    report.given = given
    report.script = report.tool == "Megatron-LM"
    if not report.script and module is megatron:
        report.table["defaults"] = {}
    report.values.update(given)
    if "device" not in given:
        report.assume("device", "h100-sxm", "the file names no GPU; --set device=NAME, `slimsim list devices`")
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
        return import_file(options, {key: value_of(value) for key, value in assignments(options.set, "--set").items()},
                           assignments(options.settings, "settings"))
    except Error as error:
        print(f"slimsim: {error}".replace(UNSET, "$"), file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=False)
    sys.exit(main())

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module finds the tool whose file is given, and reads its settings: flags of scripts, or keys of configurations."""
import pathlib
import re

import yaml

import common
import megatron
import shell
import torchtitan
import trainer
from report import UNSET, Error, Report, Setting, readable

LAUNCHERS = ("torchrun", "deepspeed", "accelerate", "torch.distributed.run", "torch.distributed.launch", "llamafactory-cli")
OPTIONS = re.compile(rf"{UNSET}\{{?\w*(?:opts?|options?|args?|flags|extra)\w*\}}?",
                     re.IGNORECASE)  # a variable that may be empty
UNREAD = re.compile(rf"{UNSET}(\{{?\w+\}}?|\(.*\))", re.DOTALL)  # a word that is one variable or command
ENDS_VALUES = re.compile(r"^--?[A-Za-z]|^[>|<&]|^\d>|\.(py|sh)$")  # a word behind the values of a flag
EXPORTED = re.compile(r"^# slimsim: These flags mean the plan of .* on (\d+) nodes of (\d+) GPUs\.$", re.MULTILINE)
SECTIONS = {"dataset": 1, "data": 1, "train": 2, "comm_overlap": 3, "ddp": 4, "mixed_precision": 5, "plugins": 6}  # the last one counts
BESIDE = ("checkpoint", "logger", "rerun_state_machine", "profiling", "tokenizer", "scheduler", "exp_manager", "dist",
          "ft", "rng",
          "straggler", "nvrx_straggler", "inprocess_restart", "tensor_inspect", "log", "resume", "optim_sched",
          "validation", "run", "ENV_VARS")
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
KEPT_OF_DATA = ("seq_length", "sequence_length", "global_batch_size", "micro_batch_size")
VARIABLE = re.compile(r"\$\{?([A-Z_][A-Z0-9_]*)\}?")


def is_variable(name):
    """Return whether a name that a user gives is a variable of a script, such as TP or 1, and no setting."""
    return name.isupper() or name.isdigit()


def value_of(text):
    """Return a value of --set or of a command line as YAML reads it."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def flags(command, unread=None):
    """Yield the settings of a command's flags. unread: takes the words that would be flags if their values were known"""
    at = 0
    while at < len(command):
        word = command[at]
        at += 1
        if word == "-N":
            word = "--nodes"
        if not re.match(r"--[A-Za-z]", word):
            if unread is not None and UNREAD.fullmatch(word) and not re.match(r"\d?[<>]", command[at - 2]):
                unread.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        values = [value] if equals else []
        while not equals and at < len(command) and not ENDS_VALUES.search(command[at]):
            if OPTIONS.fullmatch(command[at]):
                break
            values.append(command[at])
            at += 1
        found = True if not values else values[0] if len(values) == 1 else values
        shown = readable(" ".join(["--" + name, *map(str, values)]))
        yield Setting(name.replace("-", "_"), found, "--" + name, shown)


def _of_gpus(command):
    """Return those flags of Slurm that say how many GPUs there are."""
    return [f"{setting.label}={setting.value}" for setting in flags(command) if setting.name in (*common.NODES, *common.OF_A_NODE, "gres")]


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
    launches = launches or [command for command in opened if command[0].endswith(".sh")]  # torchtitan's run_train.sh
    best = max(launches, key=lambda command: sum(word.startswith("--") for word in command), default=[])
    return [word for command in opened if command[:1] == ["SBATCH"] for word in _of_gpus(command[1:])] + best


def arguments_of(text):
    """Return the words of a list of arguments, whose lines all begin with a flag. None: it is no such list."""
    lines = [line.strip().removesuffix("\\") for line in text.splitlines() if not re.match(r"\s*(#|$)", line)]
    if not lines or not all(re.match(r"--[A-Za-z]", line) for line in lines):
        return None
    return [word.strip("'\"") for line in lines for word in line.split()]


def _of_slurm(text):
    """Return the variables that Slurm sets by a script's #SBATCH lines."""
    words = [word for line in re.findall(r"^#SBATCH\s+(.*)", text, re.MULTILINE) for word in line.split("#")[0].split()]
    said = {setting.name: str(setting.value) for setting in flags(words)}
    nodes, tasks, gpus = (said.get(name, "") for name in ("nodes", "ntasks_per_node", "gpus_per_node"))
    gpus = gpus.split(":")[-1] if gpus else said.get("gres", "").split(":")[-1]
    found = {"SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS_PER_NODE": tasks, "SLURM_GPUS_PER_NODE": gpus,
             "SLURM_GPUS_ON_NODE": gpus, "SLURM_NTASKS": str(int(nodes) * int(tasks)) if nodes.isdigit() and tasks.isdigit() else ""}
    return {name: value for name, value in found.items() if value.isdigit()}


def settings_of_script(text, given):
    """Return the settings of a script or a list of arguments, the tests that could not be evaluated, and unread words."""
    listed = arguments_of(text)
    variables = {name: given[name] for name in given if is_variable(name)}
    script = shell.Script("" if listed else text, {**_of_slurm(text), **variables})
    found = []
    exported = EXPORTED.search(text)
    if exported:
        shown = exported[0].removeprefix("# slimsim: ")
        found = [Setting("nnodes", exported[1], shown, shown), Setting("nproc_per_node", exported[2], shown, shown)]
    for name in (*common.NODES, *common.OF_A_NODE, *common.ALL):
        value = script.variables.get(name, [])
        if len(value) == 1 and name.isupper() and (name in variables or not name.startswith("SLURM_")):
            found.append(Setting(name, value[0], name, f"{name}={value[0]}"))
    unread = []
    if "CONFIG_FILE" in script.variables:  # of torchtitan's run_train.sh
        found.append(Setting("CONFIG_FILE", " ".join(script.variables["CONFIG_FILE"])))
    found += flags([replaced(word, given) for word in listed] if listed else launch_of(script.commands), unread)
    return found, script.unsure, unread


def tree(value, path=()):
    """Yield the path and value of each leaf of a configuration. {_target_: x} without arguments is x."""
    if isinstance(value, dict) and set(value) == {"_target_", "_call_"}:
        last = str(value["_target_"]).rsplit(".", maxsplit=1)[-1]
        yield path, TYPES.get(last, last)
    elif isinstance(value, dict) and path[-1:] == ("tp_comm_overlap_cfg",):
        yield path, str(value.get("_target_", "a mapping"))
    elif isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from tree(entry, (*path, str(key)))
    elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
        for i, entry in enumerate(value):
            yield from tree(entry, (*path, str(i)))
    else:
        yield path, value


def _name_in_recipe(path):
    """Return the name of a setting, which does not depend on its section."""
    sections, name = set(path[:-1]), path[-1]
    if name == "_target_" and path[:-1] in (("model",), ("model", "config")):
        return "model_target"
    if "peft" in sections:
        return ".".join(path[path.index("peft"):])
    if sections & set(BESIDE) or (sections & {"data", "dataset"} and name not in KEPT_OF_DATA) or name == "_target_":
        return "beside." + ".".join(path)
    if sections & {"optimizer", "optim"} and name in ("name", "optimizer"):
        return "optim_name"
    return name


def settings_of_recipe(mapping):
    """Return the settings of a recipe of NeMo or Megatron-Bridge. Their names do not depend on the section."""
    found = []
    for path, value in tree(mapping.get("ConfigContainer", mapping)):
        rank = max((SECTIONS.get(section, 0) for section in path[:-1]), default=0)
        found.append((rank, Setting(_name_in_recipe(path), value, ".".join(path))))
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
    recipe = any(isinstance(mapping.get(section), dict) for section in ("ConfigContainer", "model", "trainer", "train"))
    return ("NeMo", mapping) if recipe else (None, None)


def _script(path, text, given):
    """Return the report of a script by the tool whose flags it has."""
    settings, unsure, unread = settings_of_script(text, given)
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
        raise Error(f"{path}: no flags of a known tool were found; allowed: a launch script or a list of arguments of "
                    "Megatron-LM, a recipe of NeMo or Megatron-Bridge (YAML), torchtitan's TOML, DeepSpeed's JSON, YAML of "
                    "axolotl, LLaMA-Factory or Accelerate, NCCL's topology or Slurm's, or a plan in words (\"TP4 PP4 DP16\")")
    report.unread = unread
    for test in unsure:
        report.say("assumed", f"the test {test}; it depends on what the script does not set")
    for word in unread:
        report.say("assumed", f"{word} is empty, as the script does not say its value")
    return report, module


def _of_toml(path, settings):
    """Return the settings of the TOML file that a launch of torchtitan names, and of its flags."""
    named = next((str(setting.value) for name in ("job.config_file", "CONFIG_FILE") for setting in settings
                  if setting.name == name), None)
    file = pathlib.Path(path).parent / named if named and UNSET not in named else None
    if named and not (file and file.is_file()):
        raise Error(f"{path}: {named}: there is no such configuration; allowed: a path that begins in the script's folder")
    mapping = common.parsed(file, file.read_text(encoding="utf-8")) if file else {}
    return [Setting(name, value) for name, value in trainer.flat(mapping)] + settings


def _words_of(arguments):
    """Return the words of a mapping of flags. True is a switch, and False leaves it out."""
    words = []
    for flag, value in arguments.items():
        values = value if isinstance(value, list) else str(value).split()
        words += [] if value is False else [flag] if value is True else [flag, *map(str, values)]
    return words


def report_of(path, text, given):
    """Return the report of a file, and the module that reads its settings."""
    tool, mapping = tool_of(path, text)
    if tool is None:
        return _script(path, text, given)
    mapping = replaced(mapping, given)
    if tool == "Megatron-LM":
        settings, module, framework = list(flags(_words_of(mapping["MODEL_ARGS"]))), megatron, "megatron-core"
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

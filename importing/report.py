# SPDX-License-Identifier: GPL-3.0-or-later
"""This module sorts the settings of a tool: taken for a key of a scenario, without effect, not modelled, not known.

A table, TOOL.yaml, says of each setting what it means:

- taken: NAME: KEY, or NAME: {key: KEY, ...}. `values` maps words; `is` and `else` are the values of a switch that is on
  and off; `type: real` or `word` is for what is no whole number; `why` is the reason if `values` lacks a word.
- defaults: the tool's own values of keys that no setting gave, where the framework's differ.
- free: patterns of names that change neither times nor memory.
- not_modelled: lists of patterns with the reason. `unless` are values that have no effect. Without one of `needs`, which
  are other settings, there is no effect, either.
- refused: the same, of runs that train in another manner. They are errors.

Settings whose meaning depends on each other are taken by code.
"""
import fnmatch
import math
import re

import yaml

UNSET = "\0"  # it stands before a variable or $(command) that has no value
GAP = "\1"  # a blank of $(command), which does not split the word
OFF = (None, False, "", 0, (), "none", "None", "null", "false", "False", "no", "0")
NUMBERS = {"real": "a number", "whole": "a whole number", "size": "a whole number from 1 on"}
SIZES = ("plan.tp", "plan.pp", "plan.cp", "plan.ep", "plan.etp", "plan.vpp", "data.context", "model.layers",
         "model.hidden", "model.heads",
         "model.ffn", "model.vocabulary")
ON = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


class Error(Exception):
    """The input cannot be imported. The message is one sentence."""


class Setting:
    """It is a setting of the tool: its name, the value, and its name and the whole of it as they stand in the file."""

    def __init__(self, name, value, label=None, shown=None):
        self.name, self.value, self.used = name, value, False
        self.label = label or name
        self.shown = shown or f"{self.label}: {text_of(value)}"


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


def text_of(value):
    """Return a value as YAML on one line."""
    return yaml.dump(value, Dumper=Dumper, default_flow_style=True, width=1 << 20, sort_keys=False,
                     allow_unicode=True).removesuffix("\n").removesuffix("\n...")


def readable(text):
    """Return a text with variables and commands as the file writes them."""
    return text.replace(UNSET, "$").replace(GAP, " ")


def is_off(value):
    return not value if isinstance(value, (dict, list)) else value in OFF


class Report:
    """It holds the settings, and what becomes of them: keys of a scenario, and sentences."""

    def __init__(self, path, tool, table, settings):
        self.path, self.tool, self.table = path, tool, table
        self.settings = {}
        for setting in settings:  # the last one counts
            self.settings[setting.name] = setting
        self.values, self.model, self.said, self.given = {}, {}, {}, {}
        self.unread = []  # words of a script that would be settings if their values were known
        self.script = self.model_has_experts = False

    def say(self, kind, line):
        lines = self.said.setdefault(kind, [])
        if line not in lines:
            lines.append(line)

    def fail(self, shown, sentence):
        raise Error(f"{self.path}: {shown}: {sentence}")

    def present(self, *names):
        """Return the settings of these names that are there."""
        return [self.settings[name] for name in names if name in self.settings]

    def get(self, *names, default=None):
        """Return the value of the first of these settings that is not None."""
        return next((self.known(setting).value for setting in self.present(*names) if setting.value is not None), default)

    def known(self, setting):
        """Return a setting whose value the file says. Error: it is a variable that nothing sets."""
        if isinstance(setting.value, str) and UNSET + "(" in setting.value:
            self.fail(setting.shown, "nothing of a script is run, so this has no value; allowed: the value in its place")
        if isinstance(setting.value, str) and UNSET in setting.value:
            name = (re.findall(UNSET + r"\{?(\w+)", setting.value) or ["NAME"])[0]
            self.fail(setting.shown, f"the file does not set ${name}; allowed: {name}=VALUE behind the file's name")
        return setting

    def number(self, *names, default=None, kind="whole"):
        """Return a number. Error: it is none."""
        for setting in self.present(*names):
            if setting.value is not None:
                return self.converted(setting, kind)
        return default

    def on(self, *names):
        """Return whether a switch is there and on."""
        return any(self.converted(setting, "switch") for setting in self.present(*names) if setting.value is not None)

    def converted(self, setting, kind):
        value = self.known(setting).value
        if kind == "word":
            return value
        if kind == "switch":
            if isinstance(value, bool):
                return value
            found = ON.get(str(value).lower())
            return found if found is not None else self.fail(setting.shown, "allowed: true or false")
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        wrong = isinstance(value, bool) or not math.isfinite(number) or abs(number) > 1 << 53
        if wrong or (kind != "real" and number != int(number)) or (kind == "size" and number < 1):
            self.fail(setting.shown, f"allowed: {NUMBERS[kind]}")
        return int(number) if number == int(number) else number

    def take(self, key, value, *names):
        """Set a key of the scenario, or `model.KEY`. names: the settings that say it; without one it is the tool's default."""
        used = self.present(*names)
        for setting in used:
            setting.used = True
        shown = ("systems.0.name" if key == "system" else key) + f": {text_of(value)}"
        if used:
            replaced = ", replaced by --set" if key in self.given else ""
            self.say("taken", f"{' '.join(dict.fromkeys(setting.shown for setting in used))} -> {shown}{replaced}")
        elif key not in self.given:
            self.say("defaults", shown)
        self._set(key, value)

    def _set(self, key, value):
        if key.startswith("model."):
            self.model[key[len("model."):]] = value
        else:
            self.values[key] = self.given.get(key, value)

    def assume(self, key, value, why):
        self._set(key, value)
        if key not in self.given:
            self.say("assumed", f"{key}: {text_of(value)}; {why}")

    def unused(self, *names):
        """Yield the settings of these names that nothing has used, and use them."""
        for setting in self.present(*names):
            if not setting.used:
                setting.used = True
                yield setting

    def drop(self, why, *names):
        for setting in self.unused(*names):
            self.say("not modelled", f"{setting.shown}: {why}")

    def without(self, *names):
        for setting in self.unused(*names):
            self.say("without effect", setting.label)

    def refuse(self):
        """Refuse runs that train in another manner."""
        for name, setting in self.settings.items():
            for entry in self.table["refused"]:
                if any(fnmatch.fnmatchcase(name, pattern) for pattern in entry["settings"]) and not is_off(setting.value):
                    if str(setting.value).lower() not in entry.get("unless", ()):
                        self.fail(setting.shown, entry["why"])
                    self.without(name)

    def apply(self):
        """Take the settings of the table that mean one key each."""
        for name, entry in self.table["taken"].items():
            setting = self.settings.get(name)
            if setting is not None and setting.value is not None and not setting.used:
                self._apply(setting, {"key": entry} if isinstance(entry, str) else entry)

    def _apply(self, setting, entry):
        key = entry["key"]
        if "is" in entry:
            on = self.converted(setting, "switch")
            if on or "else" in entry:
                self.take(key, entry["is"] if on else entry["else"], setting.name)
        elif "values" in entry:
            words = {str(word).lower(): value for word, value in entry["values"].items()}
            word = str(self.known(setting).value).lower()
            if word in words:
                self.take(key, words[word], setting.name)
            elif "why" in entry:
                self.drop(entry["why"], setting.name)
            else:
                self.fail(setting.shown, f"allowed: {', '.join(map(str, entry['values']))}")
        else:
            self.take(key, self.converted(setting, entry.get("type", "size" if key in SIZES else "whole")), setting.name)

    def _why_not(self, setting):
        """Return why a setting is not modelled. None: nothing says so."""
        for entry in self.table["not_modelled"]:
            if any(fnmatch.fnmatchcase(setting.name, pattern) for pattern in entry["settings"]):
                lacks = "needs" in entry and all(is_off(other.value) for other in self.present(*entry["needs"]))
                return None if lacks or str(setting.value).lower() in entry.get("unless", ()) else entry["why"]
        return None

    def rest(self):
        """Sort what nothing took, and add the tool's defaults."""
        for setting in [setting for setting in self.settings.values() if not setting.used]:
            why = self._why_not(setting)
            named = [pattern for entry in self.table["not_modelled"] for pattern in entry["settings"]] + self.table["free"]
            if why is not None and not is_off(setting.value):
                self.drop(why, setting.name)
            elif is_off(setting.value) or any(fnmatch.fnmatchcase(setting.name, pattern) for pattern in named):
                self.without(setting.name)
            else:
                setting.used = True
                self.say("not known", setting.shown)
        for key, value in self.table.get("defaults", {}).items():
            if key not in self.values:
                self.take(key, value)

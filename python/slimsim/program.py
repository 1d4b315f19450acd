# SPDX-License-Identifier: GPL-3.0-or-later
"""This module finds and runs the program slimsim."""
import os
import subprocess

from slimsim.scenario import text_of


class Error(Exception):
    """The program failed. The message is its own sentence, or several lines of them.

    status: its exit status, such as 2 for invalid input; negative: the signal that ended it
    """

    def __init__(self, message, status):
        super().__init__(message, status)  # both, so that another process can send it
        self.status = status

    def __str__(self):
        return self.args[0]


def option_words(options):
    """Return the words of a command line that these keywords mean.

    fail_fast=True is --fail-fast, jobs=2 is --jobs=2, slice=["0:4Ki", "0:1Ki"] repeats --slice, and so does a mapping
    with a KEY=VALUE for each key: set={"data.context": "64Ki"}. None and False leave the option out.
    """
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, dict):
            words += [f"{option}={key}={_argument(name, entry)}" for key, entry in value.items()]
        elif value is not None and value is not False:
            words += [f"{option}={entry}" for entry in (value if isinstance(value, (list, tuple)) else [value])]
    return words


def _argument(option, value):
    """Return a value of --set or --sweep as text. The program reads KEY=V1,V2 of --sweep as a list, but KEY={...} as one
    mapping, such as {range: [1, 3]}. So a blank stands before a mapping that begins a list.
    """
    text = text_of(value)
    if option != "sweep" or not text.startswith("["):
        return text
    return (" " if text.startswith("[{") else "") + text[1:-1]


def start(command, scenario, options, shown=False):
    """Run `slimsim COMMAND` on a scenario.

    scenario: a dict, which the program reads on standard input; a path; None for a command without a scenario
    shown:    what it prints on stderr, such as progress on a terminal, stands there at once, and not in the result
    @return   what the program printed, as subprocess.CompletedProcess with text
    Error: the program failed, or there is none, or values cannot be given to it
    """
    program = os.environ.get("SLIMSIM", "slimsim")
    words, standard_input = [], None
    if scenario is not None and not isinstance(scenario, dict):
        path = os.fspath(scenario)
        words = ["./" + path if path.startswith("-") else path]
    try:
        if isinstance(scenario, dict):
            words, standard_input = ["-"], text_of(scenario)
        done = subprocess.run([program, command, *option_words(options), *words], input=standard_input or "",
                              stdout=subprocess.PIPE, stderr=None if shown else subprocess.PIPE, encoding="utf-8",
                              errors="replace", check=False)
    except RecursionError:
        raise Error("values are nested too deeply, or hold themselves", 2) from None
    except ValueError as error:  # a text with NUL, or one that is no Unicode
        raise Error(f"the program cannot take these words: {error}", 2) from None
    except OSError as error:
        raise Error(f"{program}: cannot be run: {error.strerror}; put the program into PATH, or its path into the environment "
                    "variable SLIMSIM", 127) from None
    if done.returncode != 0:
        printed = done.stderr or ""
        lines = [line.removeprefix("slimsim: ") for line in printed.splitlines() if line.startswith("slimsim")]
        raise Error("\n".join(lines) or printed.strip() or f"slimsim ended with status {done.returncode}",
                    done.returncode)
    return done

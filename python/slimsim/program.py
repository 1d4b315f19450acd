# SPDX-License-Identifier: GPL-3.0-or-later
"""This module finds and runs the program slimsim."""
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from slimsim.scenario import text_of

File: TypeAlias = str | os.PathLike[str]
Scenario: TypeAlias = Mapping[str, Any] | File  # its keys, the path of its file, or lines of YAML
Settings: TypeAlias = Mapping[str, Any]  # keys of a scenario, as in {"data.context": "64Ki"}
Quantity: TypeAlias = int | float | str  # 65536 or "64Ki"
Json: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Json]


class Error(Exception):
    """The program failed. The message is its own sentence, or several lines of them.

    status: its exit status, such as 2 for invalid input; negative: the signal that ended it
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, status)  # both, so that another process can send it
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Return the words of a command line that these keywords mean.

    fail_fast=True is --fail-fast, jobs=2 is --jobs=2, slice=["0:4Ki", "0:1Ki"] repeats --slice, and so does a mapping
    with a KEY=VALUE for each key: set={"data.context": "64Ki"}. None and False leave the option out.
    """
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, Mapping):
            words += [f"{option}={key}={_argument(name, entry)}" for key, entry in value.items()]
        elif value is not None and value is not False:
            words += [f"{option}={entry}" for entry in (value if isinstance(value, (list, tuple)) else [value])]
    return words


def _argument(option: str, value: Any) -> str:
    """Return a value of --set or --sweep as text. The program reads KEY=V1,V2 of --sweep as a list, but KEY={...} as one
    mapping, such as {range: [1, 3]}. So a blank stands before a mapping that begins a list.
    """
    text = text_of(value)
    if option != "sweep" or not text.startswith("["):
        return text
    return (" " if text.startswith("[{") else "") + text[1:-1]


def _operand_words(operands: Sequence[Scenario], files: contextlib.ExitStack) -> tuple[list[str], str]:
    """Return the words of operands, and the scenario on standard input.

    files: of a second dict or text. They lie in the working folder, since its relative paths start there.
    """
    words: list[str] = []
    standard_input = ""
    for operand in operands:
        if isinstance(operand, Mapping):
            text = text_of({"name": "stdin", **operand})
        elif isinstance(operand, str) and "\n" in operand:
            text = operand
        else:
            path = os.fspath(operand)
            words.append("./" + path if path.startswith("-") else path)
            continue
        if "-" not in words:
            words.append("-")
            standard_input = text
        else:
            try:
                file = files.enter_context(tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=".", prefix="scenario-",
                                                                       suffix=".yaml"))
            except OSError as error:
                raise Error(f"the second scenario cannot be written into the working folder: {error}", 73) from None
            file.write(text)
            file.flush()
            words.append(os.path.relpath(file.name))
    return words, standard_input


def start(command: str, operands: Scenario | Sequence[Scenario] | None, options: Mapping[str, Any],
          shown: bool = False) -> subprocess.CompletedProcess[str]:
    """Run `slimsim COMMAND` on a scenario.

    operands: a dict, which the program reads on standard input; a path; a list of such; None for a command without them
    shown:    what it prints on stderr, such as progress on a terminal, stands there at once, and not in the result
    @return   what the program printed, as subprocess.CompletedProcess with text
    Error: the program failed, or there is none, or values cannot be given to it
    """
    program = os.environ.get("SLIMSIM", "slimsim")
    if operands is None or isinstance(operands, (str, os.PathLike, Mapping)):
        operands = [] if operands is None else [operands]
    try:
        with contextlib.ExitStack() as files:
            words, standard_input = _operand_words(operands, files)
            done = subprocess.run([program, command, *option_words(options), *words], input=standard_input,
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

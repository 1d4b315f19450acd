# SPDX-License-Identifier: GPL-3.0-or-later
"""This module writes a scenario of Python's values as YAML text."""
import json
import os
import re
from collections.abc import Mapping
from typing import Any

PLAIN = re.compile(r"[+-]?[A-Za-z0-9./][A-Za-z0-9 ._+/-]*(?<! )")


def text_of(value: Any) -> str:
    """Return a value as YAML on one line.

    A mapping, list, tuple, text, path, number, bool, None or an array of numpy. Text without signs that mean something
    in YAML is not quoted, since the program reads "32Ki" in quotes as text and 32Ki as a number.
    TypeError: another type
    """
    if hasattr(value, "tolist"):  # of numpy
        value = value.tolist()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{text_of(str(key))}: {text_of(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if value is None:
        return "~"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, (str, os.PathLike)):
        raise TypeError(f"a scenario cannot hold {value!r}, a {type(value).__name__}")
    text = os.fspath(value)
    return text if PLAIN.fullmatch(text) and text not in ("null", "...") else json.dumps(text, ensure_ascii=False)

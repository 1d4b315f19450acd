# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads an HDF5 file of slimsim for pictures: its tables as arrays, and what its scenario says."""
from __future__ import annotations

import os
import pathlib
import re
from typing import Any

import h5py
import numpy

from slimsim.plot.style import ki
from slimsim.result import Result, text_of

PASSES = ("forward", "backward")
Key = tuple[int, int, int, int]  # of a pass or a unit
Rows = Any  # an array of records: numpy's types do not know their columns


def value_of(key: str, scenario: str) -> str:
    """The value of a key in a resolved scenario, as text. A platform of keys is called as the program calls it."""
    if key == "platform":
        block = found(r"^platform:\n((?:  .*\n)+)", scenario)
        keys: dict[str, str] = dict(re.findall(r'^  (\w+): "?([^"\n]*)', block, re.MULTILINE))
        if "nodes" in keys:
            name = pathlib.Path(keys["name"]).name.removesuffix(".yaml") + "-" if keys.get("name") else ""
            free = "-free" if keys["contention"] == "false" else ""
            return f"{name}{keys['nodes']}x{keys['gpus_per_node']}{free}"
        return keys["name"]
    return found(rf'^ *{key}: "?([^"\n]*)', scenario)


def found(pattern: str, scenario: str) -> str:
    """The first group of a pattern in a resolved scenario. ValueError: it has none"""
    match = re.search(pattern, scenario, re.MULTILINE)
    if not match:
        raise ValueError(f"its scenario has no {pattern}")
    return match[1]


def point_of(path: str | os.PathLike[str]) -> tuple[str | os.PathLike[str], int | None]:
    """Split NAME.h5#3 into the file and the number of a point, None without one."""
    name, _, point = str(path).rpartition("#")
    return (name, int(point)) if name and point.isdecimal() else (path, None)


def traced_point(file: h5py.File, point: int) -> h5py.Group:
    """The trace of a point in that of its sweep."""
    if "manifest" not in file or point >= len(file["manifest"]):
        raise ValueError(f"it has no point {point}")
    name = text_of(file["manifest"][point]["id"])
    if name not in file.get("points", ()):
        raise ValueError(f"it holds no trace of point {point}: `trace: full` in the scenario, or --set trace=full, writes it")
    return file["points"][name]


class Trace:
    """An HDF5 file of slimsim: its tables as arrays, names for the numbers in their columns. NAME.h5#3: point 3 of a sweep."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        name, point = point_of(path)
        self.file = Result(name).open()
        if point is not None:
            self.file = traced_point(self.file, point)
        self.attributes = self.file.attrs
        self.tables: dict[str, Rows] = {}

    @property
    def labels(self) -> list[str]:
        """The names of the systems."""
        return [text_of(label) for label in self.file["systems"][:]]

    def texts(self, name: str) -> list[str]:
        """A table of texts; []: the file has none of this name."""
        return [text_of(text) for text in self.file[name][:]] if name in self.file else []

    def text(self, attribute: str) -> str:
        """An attribute of the file."""
        return text_of(self.attributes[attribute])

    def layer_flop(self, tokens: Any, linear: int = 1) -> Any:
        """Forward FLOPs of a layer on samples of so many tokens, under its windows; linear=0: of attention only."""
        flop = float(self.attributes["layer_flop_quadratic"]) * tokens**2
        windows = self.text("layer_flop_windows") if "layer_flop_windows" in self.attributes else ""
        for factor, window in (map(float, pair.split(":")) for pair in windows.split()):
            flop = flop + factor * numpy.where(tokens <= window, tokens**2, (2 * window - 1) * tokens - window * (window - 1))
        return flop + linear * float(self.attributes["layer_flop_linear"]) * tokens

    def shared(self, key: str) -> str | None:
        """The value of a key of the scenario, as text; None: the points of a sweep differ in it."""
        if "scenarios" not in self.file:
            return self.text(key)
        values = {value_of(key, text_of(row)) for row in self.file["scenarios"]["scenario"]}
        return values.pop() if len(values) == 1 else None

    def batch(self, documents: int | str) -> str | None:
        """'512 documents', or of data.global_batch_tokens '16Mi tokens of whole sequences'."""
        if int(documents) > 0:
            return f"{documents} documents"
        tokens = self.shared("global_batch_tokens")
        return f"{ki(int(tokens))} tokens of whole sequences" if tokens else None

    def setting(self) -> str:
        """'llama-13b on 128 x h800 (hopper-16x8), github lengths up to 64Ki tokens, 512 documents', without what is swept."""
        model, device, platform, lengths, context, batch = map(self.shared, ("model", "device", "platform", "lengths", "context",
                                                                            "global_batch"))
        if platform is not None:
            device = f"{self.file['summary'][0]['gpus']} x {device} ({platform})"
        if lengths is not None:
            lengths = "listed" if lengths[:1].isdigit() else pathlib.Path(lengths).name
        parts = [" on ".join(filter(None, (model, device))),
                 " ".join(filter(None, (lengths, "lengths" if lengths or context else None,
                                        f"up to {ki(int(context))} tokens" if context else None))),
                 self.batch(batch) if batch else None]
        return ", ".join(filter(None, parts))

    def table(self, name: str) -> Rows:
        """A table. ValueError: the file has none of this name"""
        if name not in self.tables:
            if name not in self.file or not len(self.file[name]):
                of_sweep = "; of a sweep with `--point N`, in a trace of one point" if "manifest" in self.file else ""
                raise ValueError(f"the trace holds no {name}: `trace: full` in the scenario, or --set trace=full, writes them{of_sweep}")
            self.tables[name] = self.file[name][:]
        return self.tables[name]

    def index(self, table: str, column: str, name: str) -> int:
        """The number a name of a column stands for."""
        return list(self.file[table].attrs[column + "_names"]).index(name.encode())

    def name(self, table: str, column: str, number: int) -> str:
        """The name that a number of a column stands for."""
        return text_of(self.file[table].attrs[column + "_names"][number])

    def first_iteration(self) -> int:
        """The first that was traced in detail."""
        return int(self.table("tasks")["iteration"].min())

    def rows(self, name: str, system: int, iteration: int | None = None) -> Rows:
        """The rows of one system, and of one iteration."""
        table = self.table(name)
        table = table[table["system"] == system]
        return table if iteration is None else table[table["iteration"] == iteration]

    def ranking(self) -> list[int]:
        """The numbers of the systems by their rank, of ties the fastest first; those that do not fit are last."""
        summary = self.table("summary")
        return sorted(range(len(summary)),
                      key=lambda i: (not summary[i]["fits"], summary[i]["rank"], -summary[i]["tokens_per_s_per_gpu"]))

    def passes(self, tasks: Rows) -> list[tuple[Key, float, float]]:
        """[((phase, pipeline, direction, unit), start, finish)] of tasks of one stage, in order of time: a pass may be
        GEMMs, then attention beside a ring; a unit has a pass on each virtual stage."""
        passes: list[tuple[Key, float, float]] = []
        kinds = [self.index("tasks", "kind", name) for name in ("compute", "attention")]
        tasks = tasks[numpy.isin(tasks["kind"], kinds)]
        for task in tasks[numpy.lexsort((tasks["finish_s"], tasks["start_s"]))]:
            key, start_s = unit_key(task), task["start_s"]
            if passes and passes[-1][0] == key:
                start_s = passes.pop()[1]
            passes.append((key, start_s, task["finish_s"]))
        return passes


def unit_key(row: Any) -> Key:
    """(phase, pipeline, direction, micro-batch) of a row"""
    return int(row["phase"]), int(row["pipeline"]), int(row["direction"]), int(row["micro_batch"])

# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads the HDF5 files of slimsim as pandas data frames."""
import contextlib
import errno
import html
import pathlib
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import h5py
import numpy

if TYPE_CHECKING:
    import pandas  # otherwise where a table is made, since it takes half a second, and scripts that read arrays need none

INDEX = re.compile(r"index into the data set (\w+)")
TASKS = ("tasks", "transfers", "memory", "micro_batches", "edges")  # tables that trace: full writes
SHOWN = ["gpus", "plan_text", "tokens_per_s_per_gpu", "tokens_per_s_per_gpu_interval", "mfu", "bubble_fraction", "peak_bytes", "fits"]


def text_of(value: Any) -> str:
    """Return a text of the file, which h5py reads as bytes or str."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _column(file: Any, table: Any, rows: Any, name: str) -> Any:
    """Return a column. Numbers that stand for names become these names, and None if they stand for none."""
    column = rows[name]
    names = table.attrs.get(name + "_names")
    index = INDEX.match(text_of(table.attrs.get(name + "_meaning", "")))
    if names is None and index and index[1] in file:
        names = file[index[1]][:]
    if names is not None:
        names = numpy.array([text_of(entry) for entry in names] + [None], dtype=object)
        return names[numpy.where((column >= 0) & (column < len(names) - 1), column, len(names) - 1)]
    if column.dtype.kind in "SO":
        return numpy.array([text_of(entry) for entry in column], dtype=object)
    return column


def _shown(value: float) -> str:
    """Write a number for a table of HTML: 8,229 or 0.415."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _told(table: Any, columns: Any, suffix: str) -> dict[str, str]:
    """Return an attribute of each column that has it."""
    return {column: text_of(table.attrs[column + suffix]) for column in columns if column + suffix in table.attrs}


class Result(PathLike[str]):
    """The results of a run or a sweep: the file NAME.h5 and what the program printed.

    It stands for its file wherever a command takes a trace, such as explain() and compare(). `scenario` runs it again.

    path:    the file; None if the command wrote none (trace: none, list=True)
    verdict: what the program printed, as text, with arrays of lengths as lengths-HASH.npy. It has the terminal's size:
             of a run, table("verdict") and `summary` have all lines and systems. Result(path) has those of the file
    notes:   what the program said beside it: how it read a name, a model's file or lengths
    answer:  of `capacity` what it prints with --json, else None
    """

    def __init__(self, path: str | PathLike[str] | None, verdict: str = "", notes: Sequence[str] = ()) -> None:
        self.path = None if path is None else pathlib.Path(path)
        self.notes = [self._without_folder(note) for note in notes]
        self._printed = self._without_folder(verdict)
        self.answer: dict[str, Any] | None = None

    @property
    def verdict(self) -> str:
        if self._printed or self.path is None or not self.path.is_file():
            return self._printed
        head, lines = self._stored()
        return "\n".join([head.rstrip(), "", *lines]).strip()

    def _stored(self) -> tuple[str, list[str]]:
        """Return the head and the lines of the verdict in the file; empty: it has none, as that of a sweep."""
        with self.open() as file, self._reading():
            head = self._without_folder(text_of(file.attrs.get("head", "")))
            if "verdict" in file:
                return head, [text_of(line) for line in file["verdict"][:]]
            return head, self._without_folder(text_of(file.attrs.get("verdict", ""))).splitlines()

    def __fspath__(self) -> str:
        return str(self._file())

    def _without_folder(self, text: str) -> str:
        """Return a text in which an array of lengths beside the file has no folder, which may be a temporary one."""
        return text if self.path is None else text.replace(f"{self.path.parent.absolute()}/lengths-", "lengths-")

    def __repr__(self) -> str:
        return self._printed or f"slimsim.Result({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return, as a notebook shows it, a row of the summary for each system, and the verdict. A result of `capacity` or
        without a file is shown as the text that the program printed.
        """
        if self.path is None:
            return f"<pre>{html.escape(self.verdict)}</pre>"
        head, lines = self._stored()
        with self.open() as file:
            summed = "summary" in file
        if not summed:
            return f"<pre>{html.escape(repr(self))}</pre>"
        table = self.summary
        keys = list(table.columns[:table.columns.get_loc("system") + 1])  # of a sweep the swept keys come first
        shown = table[keys + [column for column in SHOWN if column in table]].to_html(index=False, float_format=_shown, max_rows=60)
        wrapped = '<pre style="white-space: pre-wrap">'
        return f"{wrapped}{html.escape(head)}</pre>{shown}{wrapped}{html.escape(chr(10).join(lines))}</pre>"

    def _file(self) -> pathlib.Path:
        if self.path is None:
            raise ValueError("the command wrote no file, as with trace: none or list=True")
        return self.path

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Let an error that does not name the file say that it is damaged, since h5py and numpy know no file."""
        try:
            yield
        except Exception as error:
            if str(self.path) in str(error):
                raise
            raise OSError(errno.EINVAL, f"it is damaged: {error}", str(self.path)) from error

    def open(self) -> h5py.File:
        """Return the file as h5py.File.

        ValueError: the command wrote none; OSError: it is missing, damaged, or no complete file of slimsim
        """
        path = self._file()
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path))
        if not h5py.is_hdf5(path):
            raise OSError(errno.EINVAL, "not an HDF5 file", str(path))
        with self._reading():
            file = h5py.File(path, "r")
            if file.attrs.get("complete", 0) != 1:
                raise OSError(errno.EINVAL, "not a complete trace of slimsim", str(path))
            return file

    def table(self, name: str, point: int | None = None) -> "pandas.DataFrame":
        """Return a table as a data frame. docs/reference/traces.md names the tables; columns have their SI units in
        their names. Its attributes are `units` ("s", "B", "1", "bool") and `meanings`, with an entry for each column. A
        column of names has no unit.

        point: of a sweep with trace: full, the number of a point, whose own tables are then read
        KeyError: the file does not hold the table; OSError: as of open()
        """
        import pandas

        with self.open() as file, self._reading():
            group = file if point is None else self._point(file, point)
            if not isinstance(group.get(name), h5py.Dataset):
                more = '; set={"trace": "full"} writes it' if name in TASKS else ""
                raise KeyError(f"{self.path} has no table {name}; it has {', '.join(sorted(set(group) - {'points'}))}{more}")
            table = group[name]
            if table.dtype.names is None:
                return pandas.DataFrame({name: [text_of(entry) for entry in table[:]]})
            rows = table[:]
            frame = pandas.DataFrame({column: _column(group, table, rows, column) for column in rows.dtype.names})
            frame.attrs["units"] = _told(table, frame.select_dtypes(exclude=object), "_unit")
            frame.attrs["meanings"] = {column: INDEX.sub(r"name in the data set \1", meaning)
                                       for column, meaning in _told(table, frame, "_meaning").items()}
            return frame

    @staticmethod
    def _point(file: Any, point: int) -> Any:
        manifest = file["manifest"][:] if "manifest" in file else numpy.zeros(0, [("point", int), ("id", "S1")])
        found = [text_of(row["id"]) for row in manifest if row["point"] == point]
        if not found or "points" not in file or found[0] not in file["points"]:
            raise KeyError(f"{file.filename} has no trace of point {point}; trace: full writes those of a sweep")
        return file["points"][found[0]]

    @property
    def summary(self) -> "pandas.DataFrame":
        """A row for each system, of a sweep for each point and system."""
        return self.table("summary")

    @property
    def model_range(self) -> "pandas.DataFrame":
        """The tokens/s/GPU of each system of a run from p5 to p95 of the model's error; the attribute `basis` says of
        which runs.

        KeyError: the file does not hold it
        """
        import pandas

        with self.open() as file, self._reading():
            if "model_range" not in file:
                raise KeyError(f"{self.path} has no model_range; a run has it, or a point of a sweep with trace: full")
            rows = [[float(cell) for cell in text_of(row).split("\t")] for row in file["model_range"][:]]
            table = pandas.DataFrame(rows, columns=["p5", "p95"])
            table.insert(0, "system", [text_of(label) for label in file["systems"][:]])
            table.attrs["basis"] = text_of(file.attrs["model_error"])
            table.attrs["units"] = {"p5": "1/s", "p95": "1/s"}
            table.attrs["meanings"] = {name: f"{name} of the model's error: tokens/s/GPU" for name in ("p5", "p95")}
        return table

    @property
    def iterations(self) -> "pandas.DataFrame":
        """A row for each system and iteration."""
        return self.table("iterations")

    @property
    def candidates(self) -> "pandas.DataFrame":
        """All that was looked at: the plans of a search (plan: auto), or the clusters of `capacity`."""
        with self.open() as file, self._reading():
            name = "candidates" if "candidates" in file else "plans"
        return self.table(name)

    @property
    def scenario(self) -> str:
        """The resolved scenario as YAML text, which runs again to the same results. Each point of a sweep has its own, in
        the table `scenarios`.
        """
        with self.open() as file, self._reading():
            if "scenario" not in file.attrs:
                raise ValueError(f"{self.path} holds no single scenario; those of a sweep are in its table scenarios")
            return text_of(file.attrs["scenario"])

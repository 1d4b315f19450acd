# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads the HDF5 files of slimsim as pandas data frames."""
import contextlib
import errno
import pathlib
import re

import h5py
import numpy

INDEX = re.compile(r"index into the data set (\w+)")


def text_of(value):
    """Return a text of the file, which h5py reads as bytes or str."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _column(file, table, rows, name):
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


class Result:
    """The results of a run or a sweep: the file NAME.h5 and what the program printed.

    path:    the file; None if the command wrote none (trace: none, list=True)
    verdict: what the program printed, as text; "" if the file was opened by Result(path)
    answer:  of `capacity` what it prints with --json, else None
    """

    def __init__(self, path, verdict=""):
        self.path, self.verdict, self.answer = None if path is None else pathlib.Path(path), verdict, None

    def __repr__(self):
        return self.verdict or f"slimsim.Result({str(self.path)!r})"

    @contextlib.contextmanager
    def _reading(self):
        """Let an error that does not name the file say that it is damaged, since h5py and numpy know no file."""
        try:
            yield
        except Exception as error:
            if str(self.path) in str(error):
                raise
            raise OSError(errno.EINVAL, f"it is damaged: {error}", str(self.path)) from error

    def open(self):
        """Return the file as h5py.File.

        ValueError: the command wrote none; OSError: it is missing, damaged, or no complete file of slimsim
        """
        if self.path is None:
            raise ValueError("the command wrote no file, as with trace: none or list=True")
        if not self.path.is_file():
            raise FileNotFoundError(errno.ENOENT, "there is no such file", str(self.path))
        if not h5py.is_hdf5(self.path):
            raise OSError(errno.EINVAL, "not an HDF5 file", str(self.path))
        with self._reading():
            file = h5py.File(self.path, "r")
            if file.attrs.get("complete", 0) != 1:
                raise OSError(errno.EINVAL, "not a complete trace of slimsim", str(self.path))
            return file

    def table(self, name, point=None):
        """Return a table as a data frame. docs/reference.md, Traces, names the tables; columns have their SI units in
        their names.

        point: of a sweep with trace: full, the number of a point, whose own tables are then read
        KeyError: the file does not hold the table; OSError: as of open()
        """
        import pandas  # here, since it takes half a second, and scripts that read arrays need none

        with self.open() as file, self._reading():
            group = file if point is None else self._point(file, point)
            if not isinstance(group.get(name), h5py.Dataset):
                raise KeyError(f"{self.path} has no table {name}; it has {', '.join(sorted(set(group) - {'points'}))}")
            table = group[name]
            if table.dtype.names is None:
                return pandas.DataFrame({name: [text_of(entry) for entry in table[:]]})
            rows = table[:]
            return pandas.DataFrame({column: _column(group, table, rows, column) for column in rows.dtype.names})

    @staticmethod
    def _point(file, point):
        manifest = file["manifest"][:] if "manifest" in file else numpy.zeros(0, [("point", int), ("id", "S1")])
        found = [text_of(row["id"]) for row in manifest if row["point"] == point]
        if not found or "points" not in file or found[0] not in file["points"]:
            raise KeyError(f"{file.filename} has no trace of point {point}; trace: full writes those of a sweep")
        return file["points"][found[0]]

    @property
    def summary(self):
        """A row for each system, of a sweep for each point and system."""
        return self.table("summary")

    @property
    def model_range(self):
        """Of a run: tokens/s/GPU of each system from p5 to p95 of the model's error; the attribute `basis` says of what
        runs.

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
        return table

    @property
    def iterations(self):
        """A row for each system and iteration."""
        return self.table("iterations")

    @property
    def candidates(self):
        """What was looked at: the plans of a search (plan: auto), or the clusters of `capacity`."""
        with self.open() as file, self._reading():
            name = "candidates" if "candidates" in file else "plans"
        return self.table(name)

    @property
    def scenario(self):
        """The resolved scenario as YAML text, which runs again to the same results. Of a sweep each point has its own, in
        the table `scenarios`.
        """
        with self.open() as file, self._reading():
            if "scenario" not in file.attrs:
                raise ValueError(f"{self.path} holds no single scenario; those of a sweep are in its table scenarios")
            return text_of(file.attrs["scenario"])

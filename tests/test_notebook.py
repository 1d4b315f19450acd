#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test runs docs/notebook.ipynb as Jupyter does, and compares its outputs with the stored ones.

`SLIMSIM=build/dev/slimsim SLIMSIM_SCRATCH=build/dev/scratch/test_notebook tests/test_notebook.py --write` stores them
anew. A picture is not compared, since each version of matplotlib draws it with other bits.
"""
import os
import pathlib
import sys
import unittest

from program import PROGRAM, fresh

try:
    import ipykernel  # noqa: F401  it runs the cells
    import nbclient
    import nbformat
except ModuleNotFoundError as missing:
    print(f"python3-{missing.name} is missing (./packages.sh test)")
    sys.exit(77)

SOURCE = pathlib.Path(__file__).resolve().parent.parent
NOTEBOOK = SOURCE / "docs/notebook.ipynb"


def executed():
    """Return the notebook with the outputs that its cells have now."""
    folder = fresh("notebook")
    folder.mkdir()
    os.environ.update(SLIMSIM=str(PROGRAM), PYTHONPATH=str(SOURCE / "python"), PYTHONDONTWRITEBYTECODE="1",
                      PYDEVD_DISABLE_FILE_VALIDATION="1")  # the kernel says nothing of debuggers
    os.environ.pop("MPLBACKEND", None)
    notebook = nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)
    client = nbclient.NotebookClient(notebook, kernel_name="python3", record_timing=False, timeout=300,
                                     resources={"metadata": {"path": str(folder)}})
    return client.execute()


def outputs_of(cell):
    """Return the texts and tables of a cell. A picture is its name."""
    return [{kind: "picture" if kind.startswith("image/") else text for kind, text in output["data"].items()} if "data" in output
            else output.get("text", output.get("evalue")) for output in cell["outputs"]]


class Notebook(unittest.TestCase):
    def test_notebook__has_the_outputs_of_its_cells(self):
        stored = [cell for cell in nbformat.read(NOTEBOOK, nbformat.NO_CONVERT)["cells"] if cell["cell_type"] == "code"]
        ran = [cell for cell in executed()["cells"] if cell["cell_type"] == "code"]
        for before, now in zip(stored, ran, strict=True):
            self.assertEqual(outputs_of(before), outputs_of(now), before["source"])
            self.assertEqual(before["execution_count"], now["execution_count"])
        kinds = [kind for cell in stored for output in cell["outputs"] for kind in output.get("data", {})]
        self.assertEqual((kinds.count("image/png"), kinds.count("text/html")), (1, 8))


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        nbformat.write(executed(), NOTEBOOK)
    else:
        unittest.main()

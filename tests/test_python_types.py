#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests let mypy check the types of the Python package, and of scripts that use it. Without mypy they are skipped (77)."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

from program import SCRATCH, write

SOURCE = pathlib.Path(__file__).resolve().parent.parent
MYPY = pathlib.Path("/usr/bin/mypy")
if not MYPY.exists():
    print("mypy is missing (./packages.sh test)")
    sys.exit(77)

# A script of a user.
SCRIPT = """\
import numpy
import slimsim

scenario = {
    "model": "llama3-8b", "device": "h100-sxm", "platform": {"nodes": 2, "gpus_per_node": 8},
    "data": {"lengths": numpy.array([1000, 4000]), "context": "32Ki", "global_batch": 64},
    "systems": [{"name": "best-fit", "plan": {"tp": 4, "pp": 2}}],
}
result = slimsim.run(scenario, set={"engine": "critical-path"}, jobs=2)
print(result.verdict, result.summary["mfu"].max())
swept = slimsim.sweep(scenario, {"platform.nodes": [2, 4]}, output="results")
rows = slimsim.best(swept, where=["gpus<=16"], top=1)
print(rows[0]["system"])
largest = slimsim.max("data.context", scenario, to="1Mi")
print(largest["systems"][0]["largest"])
for model in slimsim.list("models"):
    print(model["model"])
print(" ".join(slimsim.list("values", "model")))
kernels = slimsim.cost(model="llama3-8b", slice="0:4Ki", attention="flash3")
slimsim.plot.waste(result).savefig("waste.png")
print(slimsim.export(result, chrome=True), slimsim.compare(scenario, result, system="best-fit"))
"""


def mypy(*words):
    return subprocess.run([MYPY, "--cache-dir", SCRATCH / "mypy", *words], cwd=SCRATCH, capture_output=True, text=True)


class Typed(unittest.TestCase):
    def test_mypy__takes_the_package(self):
        done = mypy("--config-file", SOURCE / "python/pyproject.toml", *sorted((SOURCE / "python/slimsim").rglob("*.py")))
        self.assertEqual((done.returncode, done.stdout[:7]), (0, "Success"), done.stdout + done.stderr)

    def test_mypy__takes_a_script_and_finds_its_mistakes(self):
        page = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
        blocks = "".join(re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
        os.environ["MYPYPATH"] = str(SOURCE / "python")
        for text, status, said in ((SCRIPT, 0, "Success"), (blocks, 0, "Success"), (SCRIPT.replace("jobs=", "jobz="), 1, 'argument "jobz"'),
                                   (SCRIPT.replace("flash3", "flash9"), 1, "flash9"),
                                   (SCRIPT.replace("slimsim.run", "slimsim.rnu"), 1, '"rnu"'), (SCRIPT.replace('to="1Mi"', ""), 1, '"to"')):
            done = mypy("--strict", "--follow-imports=silent", write("script.py", text))
            self.assertEqual(done.returncode, status, done.stdout)
            self.assertIn(said, done.stdout)


if __name__ == "__main__":
    unittest.main()

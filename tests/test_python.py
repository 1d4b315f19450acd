#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests use the Python package as analysts do: from the tree, installed and as docs/python.md says."""
import ast
import contextlib
import importlib.util
import io
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import h5py
import numpy
import pandas
import yaml

from program import PROGRAM, SCRATCH, SMALL, fresh, point_of, run, write

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python"))

import slimsim  # noqa: E402  the path comes first

SCENARIO = yaml.safe_load(SMALL)
PAGE = (SOURCE / "docs/python.md").read_text(encoding="utf-8")
# The package needs no more of a Python than this.
USE = ("import slimsim; result = slimsim.run('small.yaml'); "
       "print(slimsim.__file__, result.summary['system'].tolist())")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run_cell(text, names):
    """Run a cell as a notebook does. @return the value of its last line, if that is an expression"""
    tree = ast.parse(text)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(last, "cell", "eval"), names) if last else None


class Package(unittest.TestCase):
    def test_run__takes_a_dict_and_a_path(self):
        folder = fresh("path")
        by_path = slimsim.run(write("small.yaml", SMALL), output=folder)
        by_dict = slimsim.run(SCENARIO)
        self.assertEqual(by_path.path, folder / "small.h5")
        self.assertTrue((folder / "small.csv").exists())
        pandas.testing.assert_frame_equal(by_dict.summary, by_path.summary)
        model = by_path.model_range
        told = point_of(run("run", write("small.yaml", SMALL), "--json", "--output", fresh("json")).stdout)
        self.assertEqual(model.to_dict("records"), [{"system": system["label"], **system["model_interval"]} for system in told["systems"]])
        self.assertEqual(model.attrs["basis"], told["model_error"]["basis"])
        self.assertEqual(by_dict.verdict, run("run", folder.parent / "small.yaml", "--output", fresh("cli")).stdout)
        self.assertEqual(slimsim.run(yaml.safe_load(by_dict.scenario)).scenario, by_dict.scenario)
        self.assertEqual(slimsim.run(by_dict.scenario).scenario, by_dict.scenario)
        self.assertIn("\n\nbatch: 48 documents give ", slimsim.Result(folder / "small.h5").verdict)
        pandas.testing.assert_frame_equal(slimsim.Result(folder / "small.h5").iterations, by_path.iterations)

    def test_table__has_the_numbers_of_the_file_and_names_for_indices(self):
        result = slimsim.run({**SCENARIO, "trace": "full"})
        tasks = result.table("tasks")
        with h5py.File(result.path) as file:
            rows, names = file["tasks"][:], [name.decode() for name in file["tasks"].attrs["kind_names"]]
            labels = [label.decode() for label in file["systems"][:]]
        self.assertEqual(tasks["finish_s"].tolist(), rows["finish_s"].tolist())
        self.assertEqual(tasks["kind"].tolist(), [names[kind] for kind in rows["kind"]])
        self.assertEqual(tasks["system"].tolist(), [labels[system] for system in rows["system"]])
        self.assertEqual(result.summary["recompute"].tolist(), ["norm+activation", "norm+activation"])
        self.assertEqual(result.summary["sharding"].tolist(), ["zero1", "zero1"])
        self.assertGreater(len(result.table("assumed")), 5)
        with self.assertRaisesRegex(KeyError, "has no table nothing; it has assumed, "):
            result.table("nothing")

    def test_open__takes_complete_files_and_needs_no_pandas(self):
        folder = fresh("opened")
        slimsim.run(SCENARIO, output=folder)
        code = "import sys; sys.modules['pandas'] = None; import slimsim; print(len(slimsim.Result('small.h5').open()['summary']))"
        done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(SOURCE / "python")})
        self.assertEqual((done.returncode, done.stdout), (0, "2\n"), done.stderr)
        with h5py.File(folder / "small.h5", "a") as file:
            del file.attrs["complete"]
        for name, message in (("small.h5", "not a complete trace of slimsim"), ("small.csv", "not an HDF5 file"),
                              ("none.h5", "there is no such file")):
            with self.assertRaisesRegex(OSError, f"{message}: '{folder / name}'"):
                slimsim.Result(folder / name).open()

    def test_lengths__may_be_an_array_or_a_list(self):
        """Documents of an array are drawn: 1 of 4 has 4,000 tokens. A list is taken in its order."""
        array, folder = numpy.array([1000, 1000, 1000, 4000], dtype="uint16"), fresh("arrays")
        scenario = {**SCENARIO, "data": {"lengths": array, "context": "32Ki", "global_batch": 48}}
        told = slimsim.lengths(scenario)
        self.assertEqual((told["document_mean_tokens"], told["samples"]), (1750, 2 * 48))
        self.assertEqual(told, slimsim.lengths({**SCENARIO, "data": {**scenario["data"], "lengths": pandas.Series(array / 1.0)}}))
        self.assertEqual(told, slimsim.lengths(SCENARIO, set={"data.lengths": array}))
        result = slimsim.run(scenario, output=folder)
        (saved,) = folder.glob("lengths-*.npy")
        self.assertEqual(numpy.load(saved).tolist(), array.tolist())
        self.assertIn(f"lengths: {saved}", result.scenario)
        pandas.testing.assert_frame_equal(slimsim.run(scenario).summary, result.summary)
        listed = slimsim.run({**SCENARIO, "trace": "full", "data": {**scenario["data"], "lengths": array.tolist()}})
        tokens = [int(row["tokens"]) for row in listed.open()["lengths"][:8]]
        self.assertEqual(tokens, 2 * array.tolist())
        with self.assertRaisesRegex(slimsim.Error, r"an array of shape \(2, 2\) is not supported"):
            slimsim.lengths(SCENARIO, set={"data.lengths": array.reshape(2, 2)})
        with self.assertRaisesRegex(slimsim.Error, r"element 0 \(from 0\) is 2.5: a length is a whole number"):
            slimsim.lengths(SCENARIO, set={"data.lengths": numpy.array([2.5])})
        with self.assertRaisesRegex(TypeError, "lengths are whole numbers, but this array has the type <U1"):
            slimsim.lengths(SCENARIO, set={"data.lengths": numpy.array(["a"])})

    def test_lengths__may_be_arrays_in_a_sweep(self):
        """Documents of each array are drawn. A list of numbers of numpy is still one list, taken in its order."""
        arrays, folder = [numpy.array([1000, 1000, 4000]), numpy.array([2000, 3000])], fresh("swept")
        runs = [slimsim.run(SCENARIO, set={"data.lengths": array}).summary["tokens_per_s"].tolist() for array in arrays]
        for scenario, axes in ((SCENARIO, {"data.lengths": arrays}), (SCENARIO, {"data.lengths": tuple(arrays)}),
                               ({**SCENARIO, "sweep": {"data.lengths": arrays}}, None),
                               (SCENARIO, {"zip": [[{"data.lengths": array} for array in arrays]]}),
                               (SCENARIO, {"data": tuple({**SCENARIO["data"], "lengths": array} for array in arrays)})):
            swept = slimsim.sweep(scenario, axes, fresh("swept"))
            self.assertEqual(len(list(folder.glob("lengths-*.npy"))), 2)
            self.assertEqual([rows["tokens_per_s"].tolist() for _, rows in swept.summary.groupby("point")], runs)
        listed = [slimsim.run({**SCENARIO, "data": {**SCENARIO["data"], "lengths": lengths}}).summary["tokens_per_s"].tolist()
                  for lengths in (list(arrays[0]), arrays[0].tolist())]
        self.assertEqual(listed[0], listed[1])
        self.assertNotEqual(listed[0], runs[0])

    def test_result__keeps_its_temporary_files_as_long_as_it_lives(self):
        result = slimsim.run(SCENARIO)
        path = result.path
        self.assertTrue(path.exists())
        del result
        self.assertFalse(path.parent.exists())

    def test_notes__are_what_the_program_says_beside_its_verdict(self):
        listed = slimsim.run(SCENARIO, set={"data.lengths": write("own.csv", "n\n100\n5000\n"), "device": "H100"})
        self.assertEqual(listed.notes[0], "device: 'H100' is taken as h100-sxm")
        self.assertRegex(listed.notes[1], "^data.lengths: column 'n' of .*own.csv: 2 lengths, mean 2550")
        self.assertEqual(len(listed.notes), 2)
        self.assertEqual(slimsim.sweep(SCENARIO, {"seed": [1, 2]}).notes, [])

    def test_candidates__are_the_plans_of_a_search(self):
        result = slimsim.run(SCENARIO, set={"systems.0.plan": "auto", "plan_space": {"tp": [1, 2], "pp": 2}})
        self.assertEqual(set(result.candidates["tp"]), {1, 2})
        self.assertIn("chosen", set(result.candidates["verdict"]))

    def test_sweep__takes_axes_beside_the_keys_of_the_scenario(self):
        swept = slimsim.sweep({**SCENARIO, "sweep": {"seed": [1, 2]}}, {"systems.0.plan": [{"tp": 2, "pp": 2}, {"tp": 4, "pp": 2}]},
                              set={"trace": "full"}, jobs=2)
        summary = swept.summary
        self.assertEqual(summary["point"].tolist(), [0, 0, 1, 1, 2, 2, 3, 3])
        self.assertEqual(sorted(set(zip(summary["seed"], summary["systems.0.plan"]))),
                         [(seed, f"{{tp: {tp}, pp: 2}}") for seed in (1, 2) for tp in (2, 4)])
        self.assertEqual(summary[summary["system"] == "best-fit"].groupby("systems.0.plan")["tp"].unique().tolist(), [[2], [4]])
        tasks = swept.table("tasks", point=3)
        self.assertEqual(set(tasks["system"]), {"best-fit", "slimpack"})
        with self.assertRaisesRegex(KeyError, "no trace of point 4"):
            swept.table("tasks", point=4)
        with self.assertRaisesRegex(ValueError, "table scenarios"):
            swept.scenario  # pylint: disable=pointless-statement
        with self.assertRaisesRegex(ValueError, "no key sweep"):
            slimsim.sweep(SCENARIO)
        ranged = slimsim.sweep(SCENARIO, {"seed": {"range": [1, 3]}})
        self.assertEqual(sorted(set(ranged.summary["seed"])), [1, 2, 3])

    def test_error__is_the_sentence_and_status_of_the_program(self):
        with self.assertRaises(slimsim.Error) as caught:
            slimsim.run({**SCENARIO, "model": "lama"})
        self.assertEqual(caught.exception.status, 2)
        self.assertRegex(str(caught.exception), r"^standard input:1:\d+: model: there is no model 'lama'; available: ")
        copy = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((str(copy), copy.status), (str(caught.exception), 2))
        with self.assertRaises(slimsim.Error) as caught:
            slimsim.submit("small.yaml", shards=None)
        self.assertEqual((caught.exception.status, str(caught.exception)),
                         (64, "slimsim submit: --shards N, the number of parts, is missing"))
        os.environ["SLIMSIM"] = str(SCRATCH / "nowhere")
        try:
            with self.assertRaisesRegex(slimsim.Error, "nowhere: cannot be run: No such file or directory; put the program into PATH"):
                slimsim.run(SCENARIO)
        finally:
            os.environ["SLIMSIM"] = str(PROGRAM)

    def test_error__is_for_values_that_no_command_line_takes(self):
        ring = {}
        ring["ring"] = ring
        for status, message, call in (
                (2, "cannot take these words: .*null byte", lambda: slimsim.run("a\0b.yaml")),
                (2, "cannot take these words: .*surrogates", lambda: slimsim.run(SCENARIO, set={"name": "\ud800"})),
                (2, "hold themselves", lambda: slimsim.run(ring))):
            with self.assertRaisesRegex(slimsim.Error, message) as caught:
                call()
            self.assertEqual(caught.exception.status, status)
        with unittest.mock.patch("tempfile.tempdir", str(SCRATCH / "nowhere")):
            with self.assertRaisesRegex(slimsim.Error, "a temporary folder cannot be made: .*nowhere") as caught:
                slimsim.run(SCENARIO)
        self.assertEqual(caught.exception.status, 73)

    def test_start__shows_what_the_program_says(self):
        code = "import slimsim; slimsim.program.start('run', 'none.yaml', {}, shown=True)"
        done = subprocess.run([sys.executable, "-c", code], cwd=SCRATCH, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(SOURCE / "python")})
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "(?s)^slimsim: none.yaml: .*Error: slimsim ended with status 2\n$")

    def test_sweep__leaves_its_files_if_points_fail(self):
        folder = fresh("failing")
        reason = r"^2 of 2 points failed\npoint 0 \(seed=1\)( and 1 more)?: .*"
        with self.assertRaisesRegex(slimsim.Error, rf"{reason}\n{folder}/small.points.csv has the messages of all points$"):
            slimsim.sweep(SCENARIO, {"seed": [1, 2]}, output=folder, process_memory="1MiB")
        with self.assertRaisesRegex(slimsim.Error, reason) as caught:
            slimsim.sweep(SCENARIO, {"seed": [1, 2]}, process_memory="1MiB")
        self.assertNotIn("points.csv", str(caught.exception))
        self.assertEqual(slimsim.Result(folder / "small.h5").table("manifest")["status"].tolist(), ["failed", "failed"])

    def test_capacity__returns_the_answer_and_its_tables(self):
        question = {**SCENARIO, "platform": "h100", "device": "h100-sxm", "price": {"usd_per_gpu_hour": 2},
                    "iterations": {"warm_up": 0, "measured": 8}, "capacity": {
            "tokens": 1e11, "days": 30, "offers": [{"name": "ours", "nodes": {"from": 2, "to": 4}}]}}
        result = slimsim.capacity(question)
        self.assertEqual(result.path.name, "small.capacity.h5")
        self.assertTrue(result.answer["met"])
        self.assertEqual(result.verdict, run("capacity", write("asked.yaml", slimsim.program.text_of(question)), "--output",
                                             fresh("asked")).stdout)
        candidates = result.candidates
        chosen = candidates[candidates["chosen"] == 1].iloc[0]
        self.assertEqual((chosen["offer"], chosen["system"], chosen["nodes"]),
                         tuple(result.answer["answer"][key] for key in ("offer", "system", "nodes")))
        self.assertTrue(all(isinstance(change, str) for change in result.table("changes")["change"]))
        self.assertFalse(result.table("dates").empty)


class Text(unittest.TestCase):
    def test_scenario__reads_back_to_the_same_values(self):
        values = {"a b": [1, -2.5, 1e-9, True, None], "t": "8Ki 4400", "odd": ["x: y", "#1", "-", "null", "ü\n\"", "", " x "],
                  "m": {"n": (1, 2)}, "path": pathlib.Path("/a/b.yaml"), "array": pandas.Series([1, 2]).to_numpy()}
        read = yaml.safe_load(slimsim.program.text_of(values))
        self.assertEqual(read.pop("path"), "/a/b.yaml")
        self.assertEqual((read.pop("array"), read.pop("m")), ([1, 2], {"n": [1, 2]}))
        self.assertEqual((read["t"], read["odd"]), (values["t"], values["odd"]))
        self.assertEqual([float(value) for value in read["a b"][:3]], values["a b"][:3])
        self.assertIn("context: 32Ki", slimsim.program.text_of({"context": "32Ki"}))  # without quotes, a number
        with self.assertRaisesRegex(TypeError, r"cannot hold \{1\}, a set"):
            slimsim.program.text_of({"a": {1}})


class Installed(unittest.TestCase):
    def check(self, python, folder, **environment):
        """Run a scenario with the package of a folder, outside the tree."""
        write("small.yaml", SMALL)
        done = subprocess.run([python, "-c", USE], cwd=SCRATCH, capture_output=True, text=True,
                              env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"{folder}/slimsim/__init__.py ['best-fit', 'slimpack']\n")
        self.assertTrue((folder / "slimsim/py.typed").exists())  # otherwise mypy ignores the types

    def test_install__puts_the_package_where_python_looks(self):
        looked_in = subprocess.run(["/usr/bin/python3", "-c", "import sys; print(*sys.path)"], capture_output=True, text=True,
                                   env={}).stdout.split()
        root = fresh("root")
        for prefix in ("/usr", "/usr/local", "/opt/slimsim"):
            done = subprocess.run(["cmake", "--install", PROGRAM.parent, "--prefix", prefix], capture_output=True, text=True,
                                  env={**os.environ, "DESTDIR": str(root)})
            self.assertEqual(done.returncode, 0, done.stderr)
            (package,) = (root / prefix[1:] / "lib").rglob("slimsim")
            folder = "/" + str(package.parent.relative_to(root))
            self.assertEqual(folder in looked_in, prefix != "/opt/slimsim", (folder, looked_in))
            self.check("/usr/bin/python3", package.parent, PYTHONPATH=str(package.parent), SLIMSIM=str(root / prefix[1:] / "bin/slimsim"))
        slimsim.run(SCENARIO, output=fresh("drawn"))
        environment = {name: value for name, value in os.environ.items() if name not in ("SLIMSIM", "PYTHONPATH")}
        done = subprocess.run(["/usr/bin/python3", root / "opt/slimsim/share/slimsim/analysis/explain.py", "drawn/small.h5"],
                              cwd=SCRATCH, capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(all(map(importlib.util.find_spec, ("ensurepip", "setuptools", "wheel"))),
                         "python3-venv, python3-setuptools or python3-wheel is missing (./packages.sh test)")
    def test_install__works_as_the_page_says(self):
        folder = fresh("page")
        shutil.copytree(SOURCE / "python", folder / "python", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        (text,) = blocks("sh")
        text = text.replace("build/release", str(PROGRAM.parent))
        done = subprocess.run(["bash", "-euc", text], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        (package,) = (folder / "env/lib").glob("python3*/site-packages")
        (metadata,) = package.glob(f"slimsim-{slimsim.__version__}.dist-info/METADATA")
        self.assertIn("Author: slimsim developers\n", metadata.read_text(encoding="utf-8"))
        self.check(folder / "env/bin/python", package, PATH=f"{PROGRAM.parent}:{os.environ['PATH']}", SLIMSIM="slimsim")


class Shown(unittest.TestCase):
    def test_page__runs_in_its_order(self):
        names, folder = {}, fresh("snippets")
        folder.mkdir()
        before = os.getcwd()
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                for text in blocks("python"):
                    run_cell(text, names)
        finally:
            os.chdir(before)
        self.assertEqual(len(blocks("python")), 4)
        self.assertGreater((folder / "waste.png").stat().st_size, 10_000)
        self.assertIn(names["result"].verdict, printed.getvalue())
        self.assertIn("2 --set 'model=llama3-9b': model: there is no model 'llama3-9b'", printed.getvalue())
        self.assertEqual(sorted(path.name for path in (folder / "results").glob("*.h5")), ["longer.h5"])
        self.assertEqual(names["plans"][0]["label"], "slimpack")
        self.assertTrue(names["kernels"] and names["share"] and names["steps"] and names["graph"])
        self.assertEqual((names["fastest"], names["largest"] >= 32768, names["gain"] != 0), ("slimpack", True, True))


if __name__ == "__main__":
    unittest.main()

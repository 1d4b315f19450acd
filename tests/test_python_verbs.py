#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests hold the Python package to the commands of the program: their options, answers and versions."""
import inspect
import json
import os
import pathlib
import re
import sys
import typing
import unittest
import unittest.mock

import numpy
import yaml

from program import SCRATCH, SMALL, fresh, run, write

SOURCE = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "python"))

import slimsim  # noqa: E402  the path comes first

SCENARIO = yaml.safe_load(SMALL)
# Python has help(), answers in JSON are dicts, and nothing is printed.
NO_KEYWORDS = {"help", "usage", "version", "json", "quiet"}
SAME_JSON = {("sensitivity", "verbose"), ("validate", "verbose")}  # the JSON has every number without it, too
VERBS = [verb for verb in re.findall(r"^  ([a-z]+) +\S", run("--help").stdout, re.MULTILINE) if verb != "help"]
OPTION = re.compile(r"^  (?:-\w, |    )--([a-z-]+)(?:=(\S+))?((?:.*\n(?!  (?:-\w, |    --)| \w|\n))*.*)", re.MULTILINE)
WORDS = re.compile(r"[\w-]+(?:\|[\w-]+)+|(?:[\w-]+, )*[\w-]+ or [\w-]+")
# This program prints its own words as JSON, also as the text of an answer.
ECHO = """#!/usr/bin/python3
import json, sys
print(json.dumps({"words": sys.argv[1:], "rows": sys.argv[1:], "systems": sys.argv[1:]}))
"""


def function_of(verb):
    """Return the function of a command. `import` is a keyword of Python, so its function is import_."""
    return getattr(slimsim, verb + "_" if verb == "import" else verb)


def options_of(verb):
    """Return the options of a command from its help, {keyword: (argument or None, text)}."""
    found = {name.replace("-", "_"): (argument or None, " ".join((argument + text).split()))
             for name, argument, text in OPTION.findall(run(verb, "--help").stdout)}
    return {name: entry for name, entry in found.items() if name not in NO_KEYWORDS and (verb, name) not in SAME_JSON}


def literals_of(annotation):
    if typing.get_origin(annotation) is typing.Literal:
        return set(typing.get_args(annotation))
    return set().union(*map(literals_of, typing.get_args(annotation)))


class Keywords(unittest.TestCase):
    def test_verbs__have_a_keyword_for_each_option_and_no_other(self):
        self.assertGreater(len(VERBS), 15)
        for verb in VERBS:
            parameters = inspect.signature(function_of(verb)).parameters
            options = options_of(verb)
            operands = {name for name, parameter in parameters.items()
                        if parameter.kind is not parameter.KEYWORD_ONLY and name not in options}
            self.assertEqual(set(parameters) - operands, set(options), verb)
            for name, (argument, text) in options.items():
                annotation = parameters[name].annotation
                self.assertEqual(annotation is bool, argument is None, (verb, name))
                literals = literals_of(annotation)
                told = {word for match in WORDS.findall(text) for word in re.split(r"\||, | or ", match)}
                self.assertEqual(literals, told if literals else set(), (verb, name))

    def test_list__takes_the_kinds_of_the_program(self):
        kinds = set().union(*(literals_of(inspect.signature(function).parameters["kind"].annotation)
                              for function in typing.get_overloads(slimsim.list)))
        self.assertEqual(kinds, {*WORDS.search(run("list", "--help").stdout)[0].split("|"), "values"})

    def test_verbs__say_what_their_keywords_mean(self):
        for verb in [*VERBS, "sweep"]:
            function = function_of(verb)
            told = {name for names in re.findall(r"^    ([a-z_]+(?:, [a-z_]+)*): ", function.__doc__, re.MULTILINE)
                    for name in names.split(", ")}
            parameters = set(inspect.signature(function).parameters)
            if verb == "sweep":  # run() says the others
                parameters -= set(inspect.signature(slimsim.run).parameters)
            self.assertLessEqual(parameters - told, {"scenario"}, verb)
            self.assertLessEqual(told - {"ValueError"}, set(inspect.signature(function).parameters), verb)

    def test_verbs__give_each_keyword_to_the_program(self):
        echo = SCRATCH / "echo"
        echo.write_text(ECHO)
        echo.chmod(0o755)
        folder = str(fresh("echoed"))
        for verb in VERBS:
            parameters, options = inspect.signature(function_of(verb)).parameters, options_of(verb)
            operands = [name for name in parameters if name not in options]
            given = {name: {"k": "v"} if name in ("set", "sweep", "filter") else folder if name == "output" else
                     True if parameter.annotation is bool else "x" for name, parameter in parameters.items() if name in options}
            given.pop("dry_run", None)
            with unittest.mock.patch.dict(os.environ, SLIMSIM=str(echo)):
                answer = function_of(verb)(**{name: ["a.yaml"] if verb in ("merge", "validate") else "a.yaml" for name in operands},
                                           **given)
            if isinstance(answer, slimsim.Result):
                answer = answer.verdict
            words = answer if isinstance(answer, list) else (json.loads(answer) if isinstance(answer, str) else answer)["words"]
            expected = [f"--{name.replace('_', '-')}" + ("" if value is True else "=k=v" if isinstance(value, dict) else f"={value}")
                        for name, value in given.items()]
            self.assertEqual(sorted(set(words) - {"--json"}), sorted({verb, *expected, *(["a.yaml"] if operands else [])}), verb)


class Answers(unittest.TestCase):
    def check_json(self, answer, *words):
        printed = run(*words, "--json").stdout
        told = json.loads(printed)
        self.assertEqual({**told, **answer}, told)
        self.assertTrue(answer)
        for name in re.findall(r"`(\w+)`", function_of(words[0]).__doc__.partition("@return")[2]):
            self.assertIn(f'"{name}": ', printed)

    def test_answer__is_the_json_of_the_command(self):
        small, folder = write("small.yaml", SMALL), fresh("answers")
        seed = write("seed.yaml", SMALL.replace("seed: 7", "seed: 8"))
        self.check_json(slimsim.sensitivity(SCENARIO), "sensitivity", small, "--output", folder)
        self.check_json(slimsim.max("data.context", SCENARIO, to="64Ki"), "max", "data.context", small, "--to", "64Ki", "--output", folder)
        rows = write("rows.csv", "".join((SOURCE / "model/validation/training_a100.csv").read_text().splitlines(keepends=True)[:3]))
        self.check_json(slimsim.validate([rows]), "validate", rows, "--output", folder)
        self.check_json({"rows": slimsim.list("keys")}, "list", "keys")
        self.check_json(slimsim.explain(SCENARIO), "explain", small, "--output", folder)
        self.check_json(slimsim.lengths(SCENARIO), "lengths", small)
        self.check_json(slimsim.cost(model="llama-7b", slice=["0:1Ki", "0:2Ki"]), "cost", "--model", "llama-7b", "--slice", "0:1Ki", "--slice", "0:2Ki")
        self.check_json({"systems": slimsim.plan(SCENARIO, system="slimpack")}, "plan", small, "--system", "slimpack")
        self.assertEqual(slimsim.list("values", "engine"), run("list", "values", "engine").stdout.split())
        told = slimsim.compare(SCENARIO, {**SCENARIO, "seed": 8})
        expected = json.loads(run("compare", small, seed, "--json", "--output", folder).stdout)
        self.assertEqual([told[key] for key in ("gain", "differences")], [expected[key] for key in ("gain", "differences")])
        self.assertEqual([entry["key"] for entry in told["differences"]], ["seed"])
        self.assertEqual(list(pathlib.Path().glob("scenario-*.yaml")), [])
        self.assertEqual(slimsim.compare(slimsim.run(SCENARIO), seed)["gain"], told["gain"])

    def test_text__is_that_of_the_command(self):
        small = write("small.yaml", SMALL)
        result = slimsim.run(SCENARIO, set={"trace": "full"})
        for ours, words in ((slimsim.platform("hopper-2x8"), ("platform", "hopper-2x8")),
                            (slimsim.import_("TP4 PP4 DP16 selective"), ("import", "TP4 PP4 DP16 selective")),
                            (slimsim.export(SCENARIO, dag="dot"), ("export", "--dag", "dot", small)),
                            (slimsim.export(result, csv="tasks"), ("export", "--csv", "tasks", result.path)),
                            (slimsim.calibrate(device="h200"), ("calibrate", "--device", "h200"))):
            self.assertEqual(ours, run(*words).stdout)
            self.assertGreater(len(ours), 40)

    def test_best__takes_a_sweep(self):
        swept = slimsim.sweep(SCENARIO, {"systems.0.plan.tp": [2, 4], "seed": [1, 2]})
        best = slimsim.best(swept, top=1, where=["systems.0.plan.tp=4", "seed=2"], by="mfu")
        rows = swept.summary[lambda table: (table["systems.0.plan.tp"] == 4) & (table["seed"] == 2)]
        self.assertEqual([row["mfu"] for row in best], [rows["mfu"].max()])
        self.assertEqual(best, slimsim.best(swept.path.with_suffix(".csv"), top=1, where=["systems.0.plan.tp=4", "seed=2"], by="mfu"))

    def test_merge__joins_the_shards_of_a_run(self):
        folder = fresh("shards")
        parts = [slimsim.run(SCENARIO, folder, sweep={"seed": [1, 2]}, shard=f"{part}/2") for part in (1, 2)]
        self.assertEqual([part.path for part in parts], [None, None])
        merged = slimsim.merge(sorted(folder.glob("*.journal")))
        self.assertEqual((merged.path, merged.summary["seed"].tolist()), (folder / "small.h5", [1, 1, 2, 2]))

    def test_submit__returns_its_scripts(self):
        path = write("small.yaml", SMALL)
        told = slimsim.submit(path, shards=2, sweep={"seed": [1, 2]}, time="1:00:00", output=SCRATCH / "submitted", dry_run=True)
        self.assertIn("--time=1:00:00", told["scripts"])
        with self.assertRaisesRegex(slimsim.Error, "cannot be on standard input; write it to a file"):
            slimsim.submit(SCENARIO, shards=2, sweep={"seed": [1, 2]})

    def test_capacity__takes_a_question_without_a_file(self):
        result = slimsim.capacity(model="llama3-8b", lengths=numpy.array([1000, 4000]), context="8Ki", batch="512Ki", tokens=1e10,
                                  offer=["h100-sxm@2:1-2", "h200@3:1-2"])
        self.assertTrue(result.answer["met"])
        self.assertEqual(set(result.candidates["offer"]), {"h100-sxm", "h200"})
        self.assertIn(result.verdict.splitlines()[0].replace("&", "&amp;"), result._repr_html_())


class Lengths(unittest.TestCase):
    def test_lengths__may_be_an_array_in_each_command_with_a_scenario(self):
        """An array gives the answer of the same lengths in a file."""
        array, folder = numpy.array([1000, 2000, 9000]), fresh("files")
        folder.mkdir()
        numpy.save(folder / "lengths.npy", array)
        ours, theirs = ({**SCENARIO, "data": {**SCENARIO["data"], "lengths": lengths}} for lengths in (array, str(folder / "lengths.npy")))
        calls = {
            "run": lambda scenario: slimsim.run(scenario).summary.to_csv(),
            "sweep": lambda scenario: slimsim.sweep(scenario, {"seed": [1, 2]}).summary.to_csv(),
            "explain": slimsim.explain, "sensitivity": slimsim.sensitivity, "plan": slimsim.plan, "lengths": slimsim.lengths,
            "compare": lambda scenario: slimsim.compare(SCENARIO, scenario)["gain"],
            "max": lambda scenario: slimsim.max("data.context", scenario, to="32Ki"),
            "export": lambda scenario: slimsim.export(scenario, dag="dot"),
            "capacity": lambda scenario: slimsim.capacity(scenario, set={"platform": "h100", "device": "h100-sxm", "capacity": {
                "tokens": 1e9, "offers": [{"name": "ours", "nodes": {"from": 2, "to": 2}}]},
                "price": {"usd_per_gpu_hour": 2}}).candidates.to_csv(),
        }
        for verb, call in calls.items():
            with self.subTest(verb):
                self.assertEqual(self.without_names(call(ours)), self.without_names(call(theirs)))
        without = {"best", "cost", "calibrate", "list", "merge", "platform", "validate"}  # these take no scenario
        self.assertEqual(set(calls) | without | {"import", "submit"}, {*VERBS, "sweep"})
        for verb, call in (("import", lambda lengths: slimsim.import_("TP4 PP4 DP16", set={"data.lengths": lengths}, output=folder / "x.yaml")),
                           ("submit", lambda lengths: slimsim.submit(write("small.yaml", SMALL), shards=2, output=folder, dry_run=True,
                                                                     sweep={"seed": [1, 2]}, set={"data.lengths": lengths})["scripts"])):
            with self.subTest(verb):
                call(array)
                (saved,) = folder.glob("lengths-*.npy")
                saved.unlink()

    @staticmethod
    def without_names(answer):
        return re.sub(r"lengths(-[0-9a-f]+)?\.npy", "", json.dumps(answer))


class Tables(unittest.TestCase):
    def test_table__tells_units_and_meanings(self):
        summary = slimsim.run(SCENARIO).summary
        self.assertEqual([summary.attrs["units"][name] for name in ("peak_bytes", "time_mean_s", "mfu", "fits")], ["B", "s", "1", "bool"])
        self.assertNotIn("system", summary.attrs["units"])
        self.assertEqual(summary.attrs["meanings"]["system"], "name in the data set systems")
        self.assertEqual(summary.attrs["meanings"]["pp"], "pipeline stages")
        self.assertEqual(set(summary.attrs["meanings"]), set(summary))
        self.assertEqual(set(summary.attrs["units"]), set(summary.select_dtypes("number")))
        self.assertEqual(summary[["system", "mfu"]].attrs, summary.attrs)
        swept = slimsim.sweep(SCENARIO, {"seed": [1, 2]}).summary
        self.assertEqual(swept.attrs["meanings"]["seed"], "swept key of the scenario")

    def test_html__is_the_summary_and_the_verdict(self):
        result = slimsim.run({**SCENARIO, "systems": [{**SCENARIO["systems"][0], "label": "a<b"}, SCENARIO["systems"][1]]})
        shown = result._repr_html_()
        self.assertEqual(shown.count("<table"), 1)
        self.assertIn("<td>a&lt;b</td>", shown)
        self.assertNotIn("a<b", shown)
        self.assertIn("\nslimpack and a&lt;b tie\n", shown)
        self.assertEqual(slimsim.Result(result.path)._repr_html_(), shown)
        swept = slimsim.sweep(SCENARIO, {"seed": [1, 2]})
        self.assertRegex(swept._repr_html_(), r"<th>point</th>\s+<th>seed</th>\s+<th>system</th>\s+<th>gpus</th>")
        listed = slimsim.run(SCENARIO, sweep={"seed": [1, 2]}, list=True)
        self.assertEqual(listed._repr_html_(), f"<pre>{listed.verdict}</pre>")


class Version(unittest.TestCase):
    def test_version__is_that_of_the_program(self):
        self.assertEqual(slimsim.__version__, run("--version").stdout.split()[1])


if __name__ == "__main__":
    unittest.main()

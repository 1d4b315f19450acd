#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests hold the reports of analysis/report.py against the program. test_report_browser.py opens them."""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import h5py

from program import PROGRAM, QUESTION, SCRATCH, SMALL, fresh, point_of, rows, run, write

os.environ["PATH"] = f"{PROGRAM.parent}:{os.environ['PATH']}"  # analysis/ calls it
REPORT = pathlib.Path(__file__).resolve().parent.parent / "analysis" / "report.py"
MARKUP = "<img src=x onerror=document.title=1>"
ENDS_SCRIPT = "</script><b id=injected>"

sys.path.insert(0, str(REPORT.parent))

import report_capacity  # noqa: E402  after the path
import report_run  # noqa: E402
import report_sweep  # noqa: E402
from common import Trace  # noqa: E402


@functools.cache
def report_of(name, scenario, *arguments):
    """Run a scenario and write its report. @return the trace and the page"""
    folder = fresh(name)
    done = run("run", write(f"{name}.yaml", scenario), "--output", folder, *arguments)
    assert done.returncode == 0, done.stderr
    trace, page = next(folder.glob("*.h5")), SCRATCH / f"{name}.html"
    subprocess.run([sys.executable, REPORT, trace, "-o", page], check=True)
    return trace, page


def sweep_of():
    return report_of("sweep", SMALL, "--set", "trace=summary", "--sweep", "seed=1,2", "--sweep", "data.context=16Ki,32Ki")


@functools.cache
def capacity_of(name, question):
    """Ask a question and write its report. @return the answer and the page"""
    folder = fresh(name)
    done = run("capacity", write(f"{name}.yaml", question), "--quiet", "--output", folder)
    assert done.returncode == 0, done.stderr
    answer, page = next(folder.glob("*.h5")), SCRATCH / f"{name}.html"
    subprocess.run([sys.executable, REPORT, answer, "-o", page], check=True)
    return answer, page


class Numbers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path, cls.page = report_of("plain", SMALL, "--set", "trace=summary")
        cls.trace = Trace(cls.path)

    def test_point__of_a_sweep_has_the_numbers_of_its_own_run(self):
        path, _ = report_of("swept", SMALL, "--set", "trace=full", "--sweep", "seed=1,2")
        alone, _ = report_of("alone", SMALL, "--set", "trace=full", "--set", "seed=2")
        point, single = (report_run.content_of(Trace(of)) for of in (f"{path}#1", alone))
        for key in ("verdict", "ranking", "time", "memory", "lengths", "setting"):
            self.assertEqual(point[key], single[key], key)
        for number, reason in ((2, "it has no point 2"), (1, "it holds no trace of point 1")):
            with h5py.File(path, "a") as file:
                if number == 1:
                    del file["points"]
            done = subprocess.run([sys.executable, REPORT, f"{path}#{number}"], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, reason in done.stderr), (2, True), done.stderr)

    def test_time__is_that_of_explain(self):
        time = report_run.time_of(self.path)
        explained = json.loads(run("explain", self.path, "--json", "-v").stdout)["systems"]
        self.assertEqual([system["label"] for system in time["systems"]], [system["label"] for system in explained])
        for system, of in zip(time["systems"], explained):
            share = {step["name"]: step["share"] for step in of["waterfall"]}
            self.assertAlmostEqual(system["mfu"], share.pop("MFU"), delta=1e-12)
            self.assertEqual(system["shares"], [share[name] for name in time["names"]])
            self.assertAlmostEqual(sum(system["shares"]) + system["mfu"], 1, delta=0.001)
            self.assertEqual(dict(zip(time["free"], system["gains"])), {report_run.explain.GAIN_NAMES.get(key, key): gain
                                                                        for key, gain in of["gain_if_free"].items()})

    def test_time__says_why_it_is_missing(self):
        lost = SCRATCH / "lost.txt"
        lost.write_text("100\n200\n")
        path, _ = report_of("lost", SMALL.replace("github", str(lost)), "--set", "trace=summary")
        lost.unlink()
        self.assertRegex(report_run.time_of(path)["missing"], r"^slimsim explain cannot run the scenario again: .*lost\.txt")

    def test_verdict__is_that_of_the_run(self):
        """The ranking, its legend, the head and each sentence are those of the terminal."""
        options = write("plain.yaml", SMALL), "--output", fresh("again"), "--set", "trace=summary"
        printed, told = run("run", *options).stdout, point_of(run("run", *options, "--json").stdout)
        content = report_run.content_of(self.trace)
        plain = " ".join(printed.split())
        for row in (content["ranking"]["columns"], *content["ranking"]["rows"]):
            self.assertIn(" ".join(" ".join(row).split()), plain)
        for text in (*content["verdict"], content["ranking"]["note"], content["setting"]):
            self.assertIn(" ".join(text.split()), plain)
        self.assertEqual(content["verdict"], told["verdict"])
        self.assertRegex(content["verdict"][0], r"^batch: 48 documents give a pipeline of best-fit .* 96 documents would give 5\.5;")
        self.assertEqual(content["verdict"][1:3], ["slimpack and best-fit tie", told["reason"]])
        self.assertEqual(told["ties"], ["slimpack", "best-fit"])
        self.assertEqual(content["verdict"][-1], "outside the measured runs: " + ", ".join(told["outside_measured_runs"]))
        fastest = told["faster_settings"][0]
        self.assertIn(f"faster settings (tokens/s): {fastest['key']} {fastest['fastest']} +{100 * fastest['gain']:.0f}% (is {fastest['now']})",
                      " ".join(content["verdict"]))

    def test_first_screen__of_a_run_has_the_numbers_of_the_ranking(self):
        content = report_run.content_of(self.trace)
        first, (_, *rows_) = content["first"], self.trace.texts("ranking")
        self.assertEqual(first["title"], "slimpack and best-fit tie for the first place")
        printed = run("run", write("plain.yaml", SMALL), "--output", fresh("again"), "--set", "trace=summary").stdout
        for option, row in zip(first["options"], rows_, strict=True):
            name, throughput, time, mfu, *_, speed_up, plan = row.split("\t")
            self.assertEqual(f"{option['name']} {option['number']} {option['beside']}".split(), f"{name} {throughput}".split())
            self.assertEqual(option["lines"], [f"{speed_up} as fast as best-fit", f"{time} an iteration, {mfu} of the GPUs' peak (MFU)", plan])
            self.assertIn(throughput, printed)
        self.assertEqual((first["number"], first["beside"]), (first["options"][0]["number"], first["options"][0]["beside"]))
        self.assertIn(f"{first['number']} tokens/s/GPU, batches {first['beside']}, model {first['lines'][-1].split(' with ')[0]} (", " ".join(printed.split()))

    def test_first_screen__of_one_system_has_no_speed_up(self):
        path, _ = report_of("single", SMALL.replace("  - {name: slimpack, plan: {tp: 2, pp: 2, recompute: norm+activation}}\n", ""), "--set", "trace=summary")
        first = report_run.content_of(Trace(path))["first"]
        self.assertEqual((first["title"], len(first["options"]), first["unit"]), ("best-fit", 1, "tokens a second on each GPU"))
        self.assertNotIn("as fast as", " ".join(first["lines"]))

    def test_first_screen__of_a_sweep_has_its_best_points(self):
        path, _ = sweep_of()
        first, table = report_sweep.content_of(Trace(path))["first"], rows(path.with_suffix(".csv"))
        best = {}
        for row in sorted(table, key=lambda row: -float(row["tokens_per_s_per_gpu"])):
            best.setdefault(row["point"], row)
        for option, row in zip(first["options"], list(best.values())[:3], strict=True):
            self.assertEqual((option["name"], option["number"]), (row["system"], f"{float(row['tokens_per_s_per_gpu']):,.0f}"))
            self.assertEqual(option["lines"][0], f"point {row['point']}: seed {row['seed']}, data.context {row['data.context']}")
        self.assertEqual(first["title"], f"{first['options'][0]['name']} at point {next(iter(best))} has the most tokens/s/GPU")

    def test_sweep__has_no_speed_up_over_a_system_that_does_not_fit(self):
        scenario = SMALL.replace("{tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "{tp: 1, pp: 2, cp: 1}")
        path, _ = report_of("sweep_exceeded", scenario, "--set", "trace=summary", "--sweep", "data.global_batch=32,48")
        fitting, _ = sweep_of()
        for trace, has in ((Trace(path), False), (Trace(fitting), True)):
            content = report_sweep.content_of(trace)
            self.assertEqual(["as fast as" in line for option in content["first"]["options"] for line in option["lines"]].count(True) > 0, has)
            column = content["columns"].index("speed-up")
            self.assertEqual({row[column] is not None for row in content["rows"]}, {has})

    def test_first_screen__of_an_answer_has_its_picks(self):
        answer, _ = capacity_of("question", QUESTION)
        first = report_capacity.content_of(Trace(answer))["first"]
        printed = run("capacity", SCRATCH / "question.yaml", "--quiet", "--output", answer.parent).stdout
        self.assertEqual([option["name"] for option in first["options"]], ["cheapest", "fewest GPUs", "safe at 90%"])
        for option in first["options"]:
            (line,) = [line for line in printed.splitlines() if line.startswith(option["name"] + "  ")]
            self.assertIn(f" {option['number']} ", line)
            self.assertRegex(option["beside"], r"^in \S+ days$")
            self.assertIn(f" {option['beside'].split()[1]} ", line)
            self.assertIn(option["lines"][-1].split()[0], line.split())
        self.assertEqual((first["title"], first["number"]), ("The cheapest way that keeps all limits", first["options"][0]["number"]))
        late, _ = capacity_of("late", QUESTION.replace("days: 2", "days: 0.5"))
        self.assertEqual(report_capacity.content_of(Trace(late))["first"]["title"], "Nothing keeps all limits; the fastest way")
        free = QUESTION.replace("  days: 2\n", "").replace("price: {usd_per_gpu_hour: 2, pue: 1.2}\n", "").replace(", price: {usd_per_gpu_hour: 5}", "")
        first = report_capacity.content_of(Trace(capacity_of("free", free)[0]))["first"]
        self.assertEqual(first["title"], "The cheapest way")
        self.assertRegex(first["beside"], r"^GPU-hours in \S+ days$")

    def test_misfit__has_no_throughput_but_its_reason(self):
        scenario = SMALL.replace("{tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "{tp: 1, pp: 2, cp: 1}")
        path, _ = report_of("exceeded_limit", scenario, "--set", "trace=summary")
        told = point_of(run("run", write("exceeded_limit.yaml", scenario), "--json", "--quiet", "--output", fresh("again")).stdout)
        content = report_run.content_of(Trace(path))
        (line,) = [line for line in content["verdict"] if line.startswith("best-fit does not fit: ")]
        self.assertRegex(line, r": stage \d needs [\d.]+ of [\d.]+ GiB, mostly activations; ")
        self.assertTrue(line.endswith("; " + told["systems"][0]["would_fit"]), line)
        self.assertIsNone(told["systems"][1]["would_fit"])
        self.assertEqual(content["ranking"]["rows"][-1][:3], ["best-fit", "does not fit", ""])
        self.assertEqual([system["label"] for system in content["time"]["systems"]], ["slimpack"])
        self.assertEqual(content["first"]["title"], "slimpack")
        self.assertEqual([option["number"] for option in content["first"]["options"]], [content["first"]["number"], "does not fit"])

    def test_verdict__is_missing_in_an_older_trace(self):
        """Without the stored verdict the script says to run again, with status 2."""
        old = shutil.copy(self.path, SCRATCH / "older.h5")
        with h5py.File(old, "a") as file:
            del file["ranking"]
        done = subprocess.run([sys.executable, REPORT, old], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (2, f"{old}: an earlier slimsim wrote it without its verdict: run its scenario again\n"))

    def test_page__takes_nothing_from_a_network(self):
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("default-src 'none'", text)
        self.assertNotRegex(text.replace("http://www.w3.org/2000/svg", ""), r"https?://|@import|src=\"")

    def test_capacity__says_what_the_program_says(self):
        answer, _ = capacity_of("question", QUESTION)
        content = report_capacity.content_of(Trace(answer))
        printed = " ".join(run("capacity", SCRATCH / "question.yaml", "-v", "--quiet", "--output", answer.parent).stdout.split())
        for line in content["verdict"]:
            self.assertIn(" ".join(line.split(" with: ")[0].split()), printed)
        table = rows(answer.with_suffix(".csv"))
        days = content["columns"].index("days")
        self.assertEqual([row[days] for row in content["rows"]], [float(f"{float(row['days']):.8g}") for row in table])
        self.assertEqual([row[0].startswith("answer") for row in content["rows"]], [row["chosen"] == "1" for row in table])
        self.assertEqual(sum(content["date"]["counts"]), content["date"]["draws"])

    def test_capacity__has_assumptions_with_sources(self):
        answer, _ = capacity_of("question", QUESTION)
        first, second = report_capacity.content_of(Trace(answer))["offers"]
        self.assertEqual((first["name"], second["name"]), ("first", "second"))
        self.assertIn("price: usd_per_gpu_hour: 2, pue: 1.2", first["lines"])
        self.assertIn("price: usd_per_gpu_hour: 5", second["lines"])
        self.assertRegex("\n".join(first["lines"]), r"(?s)device: h800\n.*power: h800: a node of 8 GPUs draws \d+ W idle.*reliability: name: llama3.*; Llama 3 \(arXiv")
        self.assertIn("  detect: 600\n", first["values"])
        plain = QUESTION.replace("reliability: llama3\n", "").replace("price: {usd_per_gpu_hour: 2, pue: 1.2}\n", "price: llama2-site\n")
        lines = report_capacity.content_of(Trace(capacity_of("plain_question", plain)[0]))["offers"][0]["lines"]
        self.assertIn("no reliability:, so nothing fails", lines)
        self.assertTrue(any(line.startswith("price: name: llama2-site, kg_co2_per_kwh: 0.4235; carbon: model card of Llama 2") for line in lines), lines)

    def test_capacity__asks_its_question_again(self):
        question = QUESTION.replace("name: first", f"price: {{usd_per_gpu_hour: 2, pue: 1.2, kg_co2_per_kwh: 0.4}}, name: \"{MARKUP}, 'a': b\"")
        answer, _ = capacity_of("again", question)
        text = report_capacity.content_of(Trace(answer))["question"]
        self.assertGreater(len(text.splitlines()), 15)
        printed = [run("capacity", write(f"{name}.yaml", one), "--json", "--quiet", "--output", answer.parent).stdout
                   for name, one in (("again", question), ("block", text))]
        self.assertIn("'a': b", printed[0])
        self.assertEqual(*printed)

    def test_what_has_no_report__is_said(self):
        for trace, message in ((REPORT, "not an HDF5 file"), (SCRATCH / "missing.h5", "there is no such file")):
            done = subprocess.run([sys.executable, REPORT, trace], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (2, f"{trace}: {message}\n"))


if __name__ == "__main__":
    unittest.main()

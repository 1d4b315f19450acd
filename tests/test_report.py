#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests open the reports of analysis/report.py in a headless browser: Debian's chromium-driver, python3-selenium."""
import functools
import hashlib
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
AXE = pathlib.Path(__file__).resolve().parent / "axe"
SCREENS = (1280, 720), (400, 720)
LIMIT_BYTES = 5_000_000
MARKUP = "<img src=x onerror=document.title=1>"
ENDS_SCRIPT = "</script><b id=injected>"

sys.path.insert(0, str(REPORT.parent))

import report_capacity  # noqa: E402  after the path
import report_run  # noqa: E402
import report_sweep  # noqa: E402
from common import Trace  # noqa: E402

try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ModuleNotFoundError:
    webdriver = None
DRIVER = shutil.which("chromedriver")


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


@unittest.skipUnless(webdriver and DRIVER, "no headless browser: ./packages.sh test installs chromium-driver and python3-selenium")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        options = webdriver.ChromeOptions()
        # A container may have no user namespaces, without which the sandbox of a browser cannot start.
        for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={fresh('browser')}",
                         "--no-sandbox"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            cls.driver = webdriver.Chrome(service=webdriver.chrome.service.Service(DRIVER), options=options)
        except WebDriverException as error:
            raise unittest.SkipTest(f"the headless browser does not start here: {error.msg}")
        cls.addClassCleanup(cls.driver.quit)

    def open(self, page, width=1280, height=900, colours="light", media="screen"):
        self.assertLess(page.stat().st_size, LIMIT_BYTES)
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [{"name": "prefers-color-scheme", "value": colours}]})
        self.driver.get(page.as_uri())

    def texts(self, selector):
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def check_page(self):
        self.assertEqual(self.driver.get_log("browser"), [])
        self.assertLessEqual(*(self.driver.execute_script(f"return document.documentElement.{name}") for name in ("scrollWidth", "clientWidth")))

    def scroll_to(self, element):
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)

    def pixels(self, canvas):
        return self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(() => arguments[1](arguments[0].toDataURL())))", canvas)

    def check_zoom(self, canvas):
        """The wheel zooms to the pointer, dragging moves, a button resets."""
        whole, shown = self.pixels(canvas), self.texts(".range")
        self.driver.execute_script("arguments[0].dispatchEvent(new WheelEvent('wheel', {deltaY: -900, clientX: 640, clientY: "
                                   "arguments[0].getBoundingClientRect().top + 20, cancelable: true}))", canvas)
        zoomed, part = self.pixels(canvas), self.texts(".range")
        ActionChains(self.driver).drag_and_drop_by_offset(canvas, 120, 0).perform()
        moved, other_part = self.pixels(canvas), self.texts(".range")
        self.driver.find_element(By.CSS_SELECTOR, "button.reset").click()
        self.assertEqual(len({whole, zoomed, moved}), 3)
        self.assertEqual(len({*shown, *part, *other_part}), 3)
        begin, end = (float(text.split()[0]) for text in part[0].split(" to "))
        self.assertLess(end - begin, 0.3 * float(shown[0].split()[3]))
        self.scroll_to(canvas)
        self.assertEqual((self.pixels(canvas), self.texts(".range")), (whole, shown))


class Everyone(Browser):
    """All three kinds of reports: what a first look, keys, a screen reader and a printer get."""

    def pages(self):
        yield "run", report_of("full", SMALL, "--set", "trace=full")[1]
        yield "sweep", sweep_of()[1]
        yield "capacity", capacity_of("question", QUESTION)[1]

    def bottom(self, selector):
        return self.driver.execute_script("return Math.max(...[...document.querySelectorAll(arguments[0])].map((box) => box.getBoundingClientRect().bottom))", selector)

    def violations(self):
        return self.driver.execute_async_script("axe.run().then((found) => arguments[0](found.violations.map((one) => [one.id, one.nodes.map((node) => node.html)])))")

    def test_axe__finds_no_violation(self):
        script = (AXE / "axe.min.js").read_text(encoding="utf-8")
        self.assertIn(hashlib.sha256(script.encode()).hexdigest(), (AXE / "README.md").read_text())
        for name, page in self.pages():
            for colours in ("light", "dark"):
                for width, height in SCREENS:
                    with self.subTest(name, colours=colours, width=width):
                        self.open(page, width, height, colours)
                        self.driver.execute_script(script)
                        self.assertEqual(self.violations(), [])
        self.driver.execute_script("document.documentElement.removeAttribute('lang'); document.querySelector('.unit').style.color = '#444'")
        self.assertEqual({name for name, _ in self.violations()}, {"html-has-lang", "color-contrast"})

    def test_first_screen__has_the_number_and_the_options(self):
        for name, page in self.pages():
            for width, height in SCREENS:
                with self.subTest(name, width=width):
                    self.open(page, width, height)
                    self.assertEqual(len(self.texts(".number")), 1)
                    self.assertLessEqual(self.bottom(".first > *"), height)
                    size = self.driver.execute_script("return parseFloat(getComputedStyle(document.querySelector('.number')).fontSize)")
                    self.assertGreater(size, 60)
                    self.check_page()

    def test_waterfall__is_at_least_300_pixels_wide(self):
        for width, height in SCREENS:
            self.open(next(self.pages())[1], width, height)
            widths = self.driver.execute_script("return [...document.querySelectorAll('.falls .bar')].map((bar) => bar.clientWidth)")
            self.assertGreater(len(widths), 10)
            self.assertGreaterEqual(min(widths), 300)

    def test_dark__has_light_paper(self):
        look = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
        for name, page in self.pages():
            with self.subTest(name):
                seen = {}
                for key in (("light", "screen"), ("dark", "screen"), ("light", "print"), ("dark", "print")):
                    self.open(page, colours=key[0], media=key[1])
                    seen[key] = self.driver.execute_script(look)
                self.assertEqual(seen["light", "print"], seen["dark", "print"])
                self.assertEqual(seen["light", "screen"], seen["dark", "print"])
                self.assertNotEqual(seen["dark", "screen"], seen["dark", "print"])

    def test_print__has_no_controls_and_clips_nothing(self):
        for name, page in self.pages():
            with self.subTest(name):
                self.open(page, 700, media="print")
                self.driver.execute_script("window.dispatchEvent(new Event('beforeprint'))")
                self.assertEqual("".join(self.texts(".buttons")), "")
                self.assertEqual(self.driver.execute_script("return document.querySelectorAll('details:not([open])').length"), 0)
                clipped = self.driver.execute_script("return [...document.querySelectorAll('main *')].filter((box) => getComputedStyle(box).overflowY !== 'visible' && "
                                                     "!box.matches('.unseen, svg, svg *') && (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth)).map((box) => box.outerHTML.slice(0, 80))")
                self.assertEqual(clipped, [])
                self.check_page()

    def test_keys__move_and_zoom_lanes(self):
        self.open(next(self.pages())[1])
        canvas = self.driver.find_element(By.CSS_SELECTOR, "canvas")
        self.scroll_to(canvas)
        whole, shown, found = self.pixels(canvas), self.texts(".range"), set()
        canvas.send_keys("+++")
        for keys in (Keys.ARROW_RIGHT, Keys.SHIFT + Keys.ARROW_UP, Keys.ARROW_DOWN, "-"):
            canvas.send_keys(keys)
            found.add(self.pixels(canvas))
        self.assertEqual(len(found), 4)
        self.assertRegex(self.texts(".hover")[0], r"best-fit|slimpack")
        self.assertNotEqual(self.texts(".range"), shown)
        self.assertEqual(self.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle"), "solid")
        for key in (Keys.HOME, "+", Keys.ESCAPE):
            canvas.send_keys(key)
        self.assertEqual((self.pixels(canvas), self.texts(".range")), (whole, shown))

    def test_keys__go_from_point_to_point(self):
        for name, page in list(self.pages())[1:]:
            with self.subTest(name):
                self.open(page)
                chart = self.driver.find_element(By.CSS_SELECTOR, "svg.scatter")
                self.scroll_to(chart)
                chart.send_keys(Keys.ARROW_RIGHT)
                first = self.texts(".hover")
                chart.send_keys(Keys.ARROW_RIGHT)
                self.assertEqual(len({*first, *self.texts(".hover")}), 2)
                chart.send_keys(Keys.ESCAPE)
                self.assertEqual(self.texts(".hover:not([hidden])"), [])

    def test_categories__stand_without_jitter(self):
        self.open(sweep_of()[1])
        marks = self.driver.execute_script("return [...document.querySelectorAll('svg.scatter circle, svg.scatter polygon')].map((mark) => "
                                           "{ const box = mark.getBBox(); return Math.round(box.x + box.width / 2); })")
        self.assertEqual((len(marks), len(set(marks))), (8, 2))
        self.assertEqual(len(self.texts("svg.scatter polyline")), 4)  # two systems, two seeds


class Pages(Browser):
    def test_run__has_lanes_to_zoom_and_hover(self):
        _, page = report_of("full", SMALL, "--set", "trace=full")
        for width in (400, 1280):
            self.open(page, width)
            self.assertEqual(len(self.texts("canvas")), 2)
            self.check_page()
        canvas = self.driver.find_element(By.CSS_SELECTOR, "canvas")
        self.scroll_to(canvas)
        found = []
        for x in range(-450, 450, 100):
            ActionChains(self.driver).move_to_element_with_offset(canvas, x, -30).perform()
            found += self.texts(".hover:not([hidden])")
        self.assertTrue(any("waiting" in text for text in found), found)
        self.assertRegex("\n".join(found), r"slimpack: replica \d+, stage 0, \d+ GPUs\ncomputing: (forward|backward) of micro-batch \d+, "
                                           r"[\d,]+ tokens\nsample \d+: [^\n]*tokens[^]]*\n[\d.]+ s to [\d.]+ s: [\d.]+ m?s")
        self.check_zoom(canvas)
        self.check_page()

    def test_texts_of_a_scenario__stay_text(self):
        scenario = SMALL.replace("name: small", f"name: '{MARKUP}'").replace("- {name: best-fit,", f"- {{name: best-fit, label: '{ENDS_SCRIPT}',")
        self.open(report_of("markup", scenario, "--set", "trace=full")[1])
        self.assertEqual(self.texts("h1"), [MARKUP])
        self.assertEqual(self.texts("#injected, img"), [])
        self.assertIn(ENDS_SCRIPT, " ".join(self.texts("th")))
        self.assertIn(MARKUP, self.texts("pre")[0])
        self.assertIn("slimsim", self.driver.title)
        self.check_page()

    def test_summary__says_how_to_get_lanes(self):
        self.open(report_of("plain", SMALL, "--set", "trace=summary")[1])
        self.assertEqual(self.texts("canvas"), [])
        self.assertIn("--set trace=full", self.texts("main")[0])
        self.check_page()

    def test_search__has_all_plans(self):
        trace, page = report_of("search", SMALL.replace("{tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "auto"), "--set", "trace=summary")
        self.open(page)
        circles = self.driver.find_elements(By.CSS_SELECTOR, "circle")
        self.assertEqual(len(circles), sum((row["time_s"] or row["bound_time_s"]) > 0 for row in Trace(trace).table("plans")))
        self.scroll_to(circles[-1])
        ActionChains(self.driver).move_to_element(circles[-1]).perform()
        self.assertRegex(self.texts(".hover")[0], r"(?s)best-fit: .*DP\d.*GiB")
        self.check_page()

    def test_capacity__has_pictures_and_a_table_that_sorts(self):
        answer, page = capacity_of("question", QUESTION)
        for width in (400, 1280):
            self.open(page, width)
            self.check_page()
        table = rows(answer.with_suffix(".csv"))
        marks = self.driver.find_elements(By.CSS_SELECTOR, "svg.scatter")[0].find_elements(By.CSS_SELECTOR, "circle, polygon")
        self.assertEqual(len(marks), len(table))
        self.scroll_to(marks[-1])
        ActionChains(self.driver).move_to_element(marks[-1]).perform()
        chosen = next(row for row in table if row["chosen"] == "1")
        self.assertEqual(self.texts(".hover")[0].splitlines()[:2], [f"{chosen['nodes']} nodes of {chosen['offer']}, {chosen['system']}",
                                                                    f"{float(chosen['days']):.1f} days"])
        self.assertEqual(len(self.texts("svg.date rect")), report_capacity.BINS)
        self.assertIn("NVLink x0.5", self.texts(".changes th"))
        self.assertRegex(self.texts("tr.best")[0], "^answer")
        for ascending in (False, True):  # a column of numbers begins with the largest
            self.driver.find_element(By.XPATH, "//th/button[starts-with(., 'nodes')]").click()
            nodes = [int(text) for text in self.texts(".rows tbody tr td:nth-child(3)")]
            self.assertEqual((len(nodes), nodes), (len(table), sorted(nodes, reverse=not ascending)))
        self.check_page()

    def test_capacity__keeps_names_of_offers_as_text(self):
        question = QUESTION.replace("name: first", f"name: '{MARKUP}'").replace("name: second", f"name: '{ENDS_SCRIPT}'")
        self.open(capacity_of("question_markup", question)[1])
        self.assertEqual(self.texts("#injected, main img"), [])
        self.assertTrue({MARKUP, ENDS_SCRIPT} <= set(self.texts("td.left")))
        self.assertIn("slimsim", self.driver.title)
        self.check_page()

    def test_capacity__has_no_pictures_if_nothing_fits(self):
        _, page = capacity_of("nothing", QUESTION + "memory_limit: 0.05\n")
        self.open(page)
        self.assertIn("no size of any offer trains", self.texts(".number")[0])
        self.assertEqual(self.texts("svg"), [])
        self.check_page()

    def test_sweep__has_points_and_a_table_that_sorts(self):
        _, page = sweep_of()
        for width in (400, 1280):
            self.open(page, width)
            self.check_page()
        self.assertEqual(len(self.texts("svg.scatter circle, svg.scatter polygon")), 8)
        for ascending in (False, True):  # a column of numbers begins with the largest
            self.driver.find_element(By.XPATH, "//th/button[starts-with(., 'point')]").click()
            points = [int(text) for text in self.texts("tbody tr th:first-child")]
            self.assertEqual((len(points), points), (8, sorted(points, reverse=not ascending)))
        lists = self.driver.find_elements(By.CSS_SELECTOR, "select")
        lists[1].send_keys("MFU")
        self.assertIn("MFU [%]", self.texts("svg text"))
        self.check_page()


if __name__ == "__main__":
    unittest.main()

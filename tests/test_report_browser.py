#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests open the reports of analysis/report.py in a headless browser.

They need Debian's chromium-driver and python3-selenium, and are skipped (77) without them."""
import shutil
import sys
import unittest

from program import FP8, QUESTION, SMALL, fresh, rows
from test_report import ENDS_SCRIPT, MARKUP, Trace, capacity_of, report_capacity, report_of, report_run, sweep_of

from common import COLOURS  # the import of test_report makes a path to it
from report import ON_DARK

SKIPPED = 77
DRIVER = shutil.which("chromedriver")
try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ModuleNotFoundError:
    DRIVER = None
if DRIVER is None:
    print("chromium-driver or python3-selenium is missing (./packages.sh test)")
    sys.exit(SKIPPED)

SCREENS = (1280, 720), (400, 720)
LIMIT_BYTES = 5_000_000


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
            print(f"the headless browser does not start here: {error.msg}")
            sys.exit(SKIPPED)
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


def pages():
    """A report of each kind."""
    yield "run", report_of("full", SMALL, "--set", "trace=full")[1]
    yield "sweep", sweep_of()[1]
    yield "capacity", capacity_of("question", QUESTION)[1]


class Everyone(Browser):
    """All three kinds of reports: what a first look, keys and a printer get."""

    def bottom(self, selector):
        return self.driver.execute_script("return Math.max(...[...document.querySelectorAll(arguments[0])].map((box) => box.getBoundingClientRect().bottom))", selector)

    def test_first_screen__has_the_number_and_the_options(self):
        for name, page in pages():
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
            self.open(next(pages())[1], width, height)
            widths = self.driver.execute_script("return [...document.querySelectorAll('.falls .bar')].map((bar) => bar.clientWidth)")
            self.assertGreater(len(widths), 10)
            self.assertGreaterEqual(min(widths), 300)

    def test_waterfall__draws_a_negative_share(self):
        trace, page = report_of("fp8", FP8, "--set", "trace=summary")
        time = report_run.time_of(trace)
        step = time["names"].index("FLOPs in fp8 above the peak of bf16")
        self.open(page)
        for system, fall in zip(time["systems"], self.driver.find_elements(By.CSS_SELECTOR, ".falls > *"), strict=True):
            self.assertLess(system["shares"][step], -0.05)
            ends = [[float(text.rstrip("%")) / 100 for text in part] for part in self.driver.execute_script(
                "return [...arguments[0].querySelectorAll('.bar i')].map((part) => [part.style.left, part.style.width])", fall)]
            rest = 1 - sum(system["shares"][:step])
            self.assertAlmostEqual(ends[step][0], rest, delta=1e-5)
            self.assertAlmostEqual(ends[step][1], -system["shares"][step], delta=1e-5)
            self.assertAlmostEqual(sum(ends[step]), ends[-1][1], delta=0.001)  # it ends at the MFU

    def test_dark__has_light_paper(self):
        look = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
        for name, page in pages():
            with self.subTest(name):
                seen = {}
                for key in (("light", "screen"), ("dark", "screen"), ("light", "print"), ("dark", "print")):
                    self.open(page, colours=key[0], media=key[1])
                    seen[key] = self.driver.execute_script(look)
                self.assertEqual(seen["light", "print"], seen["dark", "print"])
                self.assertEqual(seen["light", "screen"], seen["dark", "print"])
                self.assertNotEqual(seen["dark", "screen"], seen["dark", "print"])

    def test_colours__are_those_of_pictures(self):
        for colours, lighter in (("light", {}), ("dark", ON_DARK)):
            self.open(sweep_of()[1], colours=colours)
            found = self.driver.execute_script("return [...document.querySelectorAll('svg.scatter circle, svg.scatter polygon')].map((mark) => getComputedStyle(mark).fill)")
            wanted = [lighter.get(colour, colour) for colour in COLOURS[:2]]  # of two systems
            self.assertEqual(list(dict.fromkeys(found)), [f"rgb({', '.join(str(int(colour[at:at + 2], 16)) for at in (1, 3, 5))})" for colour in wanted])

    def test_print__has_no_controls_and_clips_nothing(self):
        for name, page in pages():
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
        self.open(next(pages())[1])
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
        for name, page in list(pages())[1:]:
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

    def test_capacity__has_intervals_and_the_nodes_of_the_front(self):
        answer, page = capacity_of("question", QUESTION)
        read = report_capacity.Answer(Trace(answer))
        days, intervals = read.fitting["days"], report_capacity.interval_share(read.fitting)
        self.open(page)
        chart = self.driver.find_elements(By.CSS_SELECTOR, "svg.scatter")[0]
        heights = self.driver.execute_script("return [...arguments[0].querySelectorAll('.interval')].map((bar) => bar.getBBox().height)", chart)
        halves = sorted(days * intervals, reverse=True)
        scale = max(heights) / halves[0]  # pixels of half a day
        self.assertEqual(len(heights), sum(half * scale > 1.2 for half in halves))
        self.assertGreater(len(heights), 4)
        for height, half in zip(sorted(heights, reverse=True), halves):
            self.assertAlmostEqual(height, scale * half, delta=0.1)
        names = [name.text for name in chart.find_elements(By.CSS_SELECTOR, ".name")]
        self.assertEqual(names[0], f"{read.subject['nodes']} {read.offers[read.subject['offer']]} nodes")
        self.assertEqual(set(names), {f"{row['nodes']} {read.offers[row['offer']]} node{'s' if row['nodes'] > 1 else ''}" for row in read.front()})
        self.assertIn("A bar is the 95% interval of the batches", self.texts("main")[0])
        self.open(page, 400)
        self.assertEqual({name.split()[0] for name in names}, set(self.texts("svg.scatter .name")))

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

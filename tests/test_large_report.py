#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test opens the report of a trace of 10 MB, which takes minutes."""
import resource
import unittest

import test_report_browser
from cli_case import SOURCE
from test_report import Trace, report_of
from test_report_browser import By

SETTINGS = ("data.global_batch=8192", "engine=critical-path", "iterations.warm_up=0", "iterations.measured=1", "trace=full")
MOST_BYTES = 1 << 30


class Large(test_report_browser.Browser):
    def test_a_trace_of_10_megabytes__has_a_small_page_with_lanes(self):
        trace, page = report_of("large", (SOURCE / "scenarios/quickstart.yaml").read_text(),
                                *(word for setting in SETTINGS for word in ("--set", setting)))
        self.assertGreater(trace.stat().st_size, 10_000_000)
        self.assertLess(1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, MOST_BYTES)  # of the largest process
        self.open(page)
        canvases = self.driver.find_elements(By.CSS_SELECTOR, "canvas")
        self.assertEqual(len(canvases), len(Trace(trace).labels))
        for canvas in canvases:
            self.scroll_to(canvas)
            colours = self.driver.execute_script("return new Set(new Uint32Array(arguments[0].getContext('2d').getImageData(0, 0, "
                                                 "arguments[0].width, arguments[0].height).data.buffer)).size", canvas)
            self.assertGreater(colours, 5)
        self.check_page()
        trace.unlink()


if __name__ == "__main__":
    unittest.main(verbosity=2)

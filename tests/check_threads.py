#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This test runs the commands that use threads or many processes, built with ThreadSanitizer (the preset tsan). The
sanitizer must be silent. Two systems are searched at once, so two threads run. A forked process of SimGrid forgets that
threads were joined before, so their leaks are not reported."""
import os
import sys
import unittest

from fuzz import mutate
from program import PROGRAM, QUESTION, SCRATCH, fresh, run

SPACE = "plan: auto, plan_space: {tp: [1, 2], pp: [1, 2], vpp: [1], cp: [1, 2]}"
SYSTEMS = "".join(f"  - {{name: {name}, {SPACE}}}\n" for name in ("best-fit", "slimpack"))
SEARCH = mutate.SCENARIO.split("systems:")[0] + "systems:\n" + SYSTEMS
QUESTION = QUESTION.split("systems:")[0] + "systems:\n" + SYSTEMS.replace("[1, 2], pp: [1, 2]", "[2], pp: [2]")
COMMANDS = (("run", "search.yaml", "--set", "trace=full"), ("explain", "search.yaml"), ("compare", "search.yaml", "other.yaml"),
            ("sensitivity", "search.yaml"), ("max", "data.context", "search.yaml", "--to", "64Ki"), ("capacity", "question.yaml", "--jobs", "2"),
            ("run", "search.yaml", "--set", "name=swept", "--sweep", "seed=1,2,3,4", "--jobs", "2"), ("validate", "rows.csv"))


@unittest.skipIf(b"__tsan_init" not in PROGRAM.read_bytes() or os.cpu_count() < 2, "ThreadSanitizer and two cores are needed")
class Threads(unittest.TestCase):
    def test_commands__have_no_data_race(self):
        folder = fresh("threads")
        folder.mkdir(parents=True)
        mutate.make_seeds(folder)
        for name, text in (("search", SEARCH), ("other", SEARCH.replace("global_batch: 6", "global_batch: 7")), ("question", QUESTION)):
            (folder / f"{name}.yaml").write_text(text)
        for command in COMMANDS:
            done = run(*command, cwd=folder, env={**os.environ, "TSAN_OPTIONS": "exitcode=66 history_size=7 report_thread_leaks=0 die_after_fork=0"})
            self.assertEqual((done.returncode, "ThreadSanitizer" in done.stderr), (0, False), f"{command}\n{done.stderr[-5000:]}")


if __name__ == "__main__":
    unittest.main(verbosity=2)

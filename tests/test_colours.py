#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run commands on a terminal. It shows ranks, ties and what does not fit in colours, unless its user asks for none."""
import os
import pty
import re
import subprocess
import unittest

from program import PROGRAM, QUESTION, SMALL, fresh, point_of, run, write

FIRST, MISFIT, END = "\033[1;32m", "\033[31m", "\033[0m"
LARGE = SMALL.replace("  - {name: slimpack", "  - {name: best-fit, label: large, plan: {tp: 1, pp: 2}}\n  - {name: slimpack")


def on_terminal(*arguments, **environment):
    """Run a command on a terminal. Return its output with \\n at the ends of lines."""
    master, terminal = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE, text=True,
                               env={**clean, "TERM": "xterm", **environment})
    os.close(terminal)
    printed = b""
    try:
        while piece := os.read(master, 4096):
            printed += piece
    except OSError:  # the end, on Linux
        pass
    os.close(master)
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    return printed.decode().replace("\r\n", "\n")


def coloured(text, colour):
    """Find the texts in a colour."""
    return re.findall(re.escape(colour) + "(.*?)" + re.escape(END), text)


def plain(text):
    return re.sub("\033\\[[0-9;]*m", "", text)


class Colours(unittest.TestCase):
    def check_alike(self, shown, *arguments):
        """The terminal shows what a pipe gets, which has no colours."""
        piped = run(*arguments, env={**os.environ, "TERM": "xterm"})
        self.assertEqual((piped.returncode, plain(shown)), (0, piped.stdout))
        self.assertNotIn("\033", piped.stdout)

    def test_verdict__has_the_first_system_and_those_that_do_not_fit(self):
        command = ("run", write("large.yaml", LARGE), "--quiet", "--output", fresh("colours"))
        shown = on_terminal(*command)
        misfit, = coloured(shown, MISFIT)
        self.assertTrue(misfit.startswith("large does not fit: "), misfit)
        self.check_alike(shown, *command)
        for without in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            self.assertEqual(on_terminal(*command, **without), plain(shown), without)
        self.assertEqual(on_terminal(*command, NO_COLOR=""), shown)

    def test_verdict__has_all_systems_of_rank_1(self):
        """With few batches both tie, and with more slimpack is first."""
        path, found = write("two.yaml", SMALL), set()
        for measured in (2, 16):
            command = ("run", path, "--set", f"iterations.measured={measured}", "--quiet", "--output", fresh("colours"))
            systems = point_of(run(*command, "--json").stdout)["systems"]
            first = {system["label"] for system in systems if system["rank"] == 1}
            self.assertEqual({line.split()[1] for line in coloured(on_terminal(*command), FIRST) if re.match(r"\d+ ", line)}, first)
            found.add(len(first))
        self.assertEqual(found, {1, 2})

    def test_verdict__has_ties(self):
        """The same system under two names ties with itself. A system alone is no winner."""
        twice = SMALL[:SMALL.index("  - {name: slimpack")] + "  - {name: best-fit, label: again, plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}}\n"
        shown = on_terminal("run", write("twice.yaml", twice), "--quiet", "--output", fresh("colours"))
        self.assertEqual([line.split()[:2] for line in coloured(shown, FIRST)], [["1", "best-fit"], ["1", "again"]])
        alone = on_terminal("run", write("alone.yaml", SMALL[:SMALL.index("  - {name: slimpack")]), "--quiet", "--output", fresh("colours"))
        self.assertNotIn("\033", alone)

    def test_compare__has_the_faster_side(self):
        slow = write("slow.yaml", SMALL.replace("tp: 2, pp: 2, recompute", "tp: 8, pp: 1, recompute"))
        command = ("compare", slow, write("fast.yaml", SMALL), "--system", "slimpack", "--quiet", "--output", fresh("colours"))
        shown = on_terminal(*command)
        self.assertEqual([cell for cell in coloured(shown, FIRST) if cell[0] in "AB"], ["B slimpack"])
        self.assertEqual(coloured(shown, MISFIT), [])
        self.check_alike(shown, *command)
        same = on_terminal("compare", slow, slow, "--quiet", "--output", fresh("colours"))
        self.assertEqual([cell for cell in coloured(same, FIRST) if cell[0] in "AB"], ["A slimpack", "B slimpack"])

    def test_sensitivity__has_the_winner_of_each_change(self):
        command = ("sensitivity", write("large.yaml", LARGE), "--quiet", "--output", fresh("colours"))
        shown = on_terminal(*command)
        now = shown.splitlines()[2]
        self.assertTrue(now.startswith("as it is "), now)
        self.assertEqual([plain(now).split().index(coloured(now, FIRST)[0].strip()), coloured(now, MISFIT)], [3, ["does not fit"]])
        self.check_alike(shown, *command)

    def test_capacity__has_the_answer(self):
        command = ("capacity", write("question.yaml", QUESTION), "--quiet", "--output", fresh("colours"))
        shown = on_terminal(*command)
        self.assertEqual(coloured(shown, FIRST)[0], ">f")
        self.assertEqual(shown.count(FIRST + ">"), 1)
        self.check_alike(shown, *command)


if __name__ == "__main__":
    unittest.main(verbosity=2)

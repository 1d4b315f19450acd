#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests read pages with `slimsim help`: as text, on terminals of several widths, and through a pager."""
import functools
import os
import pathlib
import pty
import re
import shutil
import subprocess
import termios
import unittest

from program import PROGRAM, fresh, run

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
COLUMNS = 60
TABLE = re.compile(r"^ *\|", re.MULTILINE)


@functools.cache
def topics():
    return re.findall(r"^  ([a-z0-9-]+) +(.*)$", run("help").stdout, re.MULTILINE)


@functools.cache
def narrow(topic, columns):
    """Return what a topic prints. Columns of 0 count for nothing."""
    done = run("help", topic, env={**os.environ, "COLUMNS": str(columns)})
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def on_terminal(topic, columns=100, **variables):
    """Run `slimsim help TOPIC` on a terminal. @return what it shows, and its exit status"""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    environment = {name: value for name, value in os.environ.items() if name not in ("PAGER", "COLUMNS", "LESS")}
    with subprocess.Popen([PROGRAM, "help", topic], stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL,
                          env={**environment, "TERM": "dumb", **variables}) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux says so at the end of a terminal
                break
            shown += part
        status = process.wait(timeout=60)
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), status


class Topics(unittest.TestCase):
    def test_help__prints_each_page_that_it_lists(self):
        names = [name for name, _ in topics()]
        self.assertEqual(len(names), len(set(names)))
        self.assertLessEqual({"start", *(page.stem for folder in ("howto", "model", "reference") for page in (DOCS / folder).glob("*.md"))},
                             set(names))
        self.assertLessEqual({"reference", "platforms", "sweeps", "terms", "packages", "python", "model"}, set(names))
        for name, heading in topics():
            self.assertEqual(narrow(name, 0).splitlines()[0], f"# {heading}")
            self.assertNotIn("](", narrow(name, 0))

    def test_help__names_the_nearest_topics(self):
        for word, hint in (("sweps", "did you mean 'sweeps'? "), ("own-mod", "did you mean 'own-model'? "),
                           ("two-", "did you mean 'two-scenarios'? "), ("zzz", ""), ("", "")):
            done = run("help", word)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertEqual(done.stderr, f"slimsim: there is no topic '{word}'; {hint}`slimsim help' lists the topics\n")

    def test_help__of_a_command_is_its_options(self):
        self.assertEqual(run("help", "merge").stdout, run("merge", "--help").stdout)


class Width(unittest.TestCase):
    def test_help__fits_into_the_columns_except_code(self):
        for name, _ in topics():
            for line in BLOCK.sub("", narrow(name, COLUMNS)).splitlines():
                if len(line) > COLUMNS:  # a word that is longer itself, or a heading
                    self.assertTrue(" " not in line.strip() or line.startswith("#"), (name, line))

    def test_help__keeps_words_and_code(self):
        """Tables are left out, since their cells move."""
        whole = 0
        for name, _ in topics():
            text, filled = narrow(name, 0), narrow(name, COLUMNS)
            self.assertEqual(BLOCK.findall(text), BLOCK.findall(filled), name)
            if not TABLE.search(BLOCK.sub("", text)):
                self.assertEqual(text.split(), filled.split(), name)
                whole += 1
        self.assertGreater(whole, 5)

    def test_help__fills_items_behind_their_mark(self):
        lines = narrow("replay", 50).splitlines()
        item = next(i for i, line in enumerate(lines) if line.startswith("- ") and not lines[i + 1].startswith(("- ", "  -")) and lines[i + 1])
        self.assertRegex(lines[item + 1], "^  [^ ]")

    def test_help__shows_a_table_that_fits_in_columns_and_another_row_by_row(self):
        heading = re.compile(r"^group +rows  MAPE +bias$", re.MULTILINE)
        self.assertRegex(narrow("errors", 100), heading)
        narrower = narrow("errors", 40)
        self.assertNotRegex(narrower, heading)
        self.assertIn("\nA100, TP 1\n    rows: 25; MAPE: 11.0%; bias: +8.7%\n", narrower)

    def test_help__takes_40_to_120_columns(self):
        self.assertEqual(narrow("errors", 1), narrow("errors", 40))
        self.assertEqual(narrow("errors", 500), narrow("errors", 120))
        self.assertNotEqual(narrow("errors", 119), narrow("errors", 120))
        self.assertEqual(narrow("errors", "wide"), narrow("errors", 0))


class Pager(unittest.TestCase):
    def test_help__fills_to_the_width_of_the_terminal(self):
        for columns in (COLUMNS, 100):
            self.assertEqual(on_terminal("replay", columns, PAGER="cat"), (narrow("replay", columns), 0))
        self.assertEqual(on_terminal("replay", 100, PAGER="cat", COLUMNS=str(COLUMNS)), (narrow("replay", COLUMNS), 0))

    def test_help__goes_through_the_pager_on_a_terminal_only(self):
        self.assertEqual(on_terminal("replay", PAGER="sed 's/^/> /'")[0],
                         re.sub("^", "> ", narrow("replay", 100), flags=re.MULTILINE).removesuffix("> "))
        self.assertEqual(on_terminal("replay", PAGER=""), (narrow("replay", 100), 0))
        self.assertEqual(run("help", "replay", env={**os.environ, "PAGER": "false"}).stdout, narrow("replay", 0))

    def test_help__without_a_pager_takes_less_where_there_is_one(self):
        folder = fresh("path")
        folder.mkdir(parents=True)
        (folder / "cat").symlink_to(shutil.which("cat"))
        self.assertEqual(on_terminal("replay", PATH=str(folder)), (narrow("replay", 100), 0))
        (folder / "less").write_text('#!/bin/sh\necho "less $*"\ncat\n')
        (folder / "less").chmod(0o755)
        self.assertEqual(on_terminal("replay", PATH=str(folder)), ("less -FRX\n" + narrow("replay", 100), 0))

    def test_help__is_quiet_when_the_pager_ends_early(self):
        self.assertEqual(on_terminal("errors", PAGER="head -n 1"), ("# Errors and limits\n", 0))

    def test_help__refuses_a_pager_that_does_not_exist(self):
        shown, status = on_terminal("replay", PAGER="/no/such/pager")
        self.assertIn("PAGER: no program can be run as '/no/such/pager'; PAGER=cat prints without one", shown)
        self.assertEqual(status, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)

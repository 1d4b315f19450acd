#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests attack the files that scripts write: foreign files, links, pipes, full disks, and what was killed before."""
import os
import re
import shutil
import subprocess
import sys
import unittest

from cli_case import SOURCE
from program import SCRATCH, SMALL, fresh, run, write

ANALYSIS = SOURCE / "analysis"
sys.path.insert(0, str(ANALYSIS))

import output  # noqa: E402  after the path

MARKS = (b"begin", b"slimsim")
OURS = b"begin, by slimsim"
# A call that creates a file, or opens it for writing.
WRITES = re.compile(r"""\.write_text|\.write_bytes|savefig\((?!file|pixels)|File\([^)]*path[^)]*["'][wa+]|open\([^)]*["'][wxa]b?["']|os\.open\(""")


class Scripts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = fresh("scripts")
        done = run("run", write("small.yaml", SMALL), "--quiet", "--output", folder, "--set", "trace=full")
        assert done.returncode == 0, done.stderr
        cls.trace, cls.folder = folder / "small.h5", folder

    def call(self, script, *arguments, wrap=()):
        return subprocess.run([*wrap, sys.executable, ANALYSIS / script, self.trace, *arguments], capture_output=True, text=True, check=False)

    def refused(self, status, sentence, *call, **options):
        done = self.call(*call, **options)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, rf"^[^\n]*{sentence}[^\n]*\n$")

    def test_foreign_files__stay(self):
        """A text, the input, a picture of another program, and a page of another program."""
        before = self.trace.read_bytes()
        thesis = {"thesis.html": b"<!DOCTYPE html>\n<html lang=\"en\">\n<title>mine</title>", "thesis.png": b"\x89PNG\r\n\x1a\nmine",
                  "thesis.svg": b"<?xml version=\"1.0\"?><svg/>", "thesis.pdf": b"%PDF-1.4 mine"}
        for name, data in thesis.items():
            (self.folder / name).write_bytes(data)
            script = "report.py" if name.endswith("html") else "timeline.py"
            self.refused(2, f"{name} is no file of this script", script, "--output", self.folder / name)
            self.assertEqual((self.folder / name).read_bytes(), data)
        self.refused(2, "small.h5 is no file of this script", "report.py", "--output", self.trace)
        self.assertEqual(self.trace.read_bytes(), before)

    def test_own_files__are_replaced_with_the_same_bytes(self):
        for script, names in (("report.py", ["own.html"]), ("timeline.py", ["own.png", "own.svg", "own.pdf"])):
            paths, written = [self.folder / name for name in names], []
            for _ in range(2):
                done = self.call(script, "--output", *paths)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                written.append([path.read_bytes() for path in paths])
            self.assertEqual(*written)

    def test_pictures__are_all_written_or_none(self):
        foreign = self.folder / "last.svg"
        foreign.write_text("mine")
        self.refused(2, "last.svg is no file", "timeline.py", "--output", self.folder / "first.png", foreign)
        self.assertFalse((self.folder / "first.png").exists())

    def test_planted_links__are_not_followed(self):
        """Names that an attacker can guess, and the output itself."""
        victim = self.folder / "victim"
        victim.write_text("precious")
        for name in (".planted.part.html", "planted.html.part", f"planted.html.tmp-{os.getpid()}"):
            (self.folder / name).symlink_to(victim)
        self.assertEqual(self.call("report.py", "--output", self.folder / "planted.html").returncode, 0)
        (self.folder / "link.html").symlink_to(victim)
        self.refused(2, "link.html is no file", "report.py", "--output", self.folder / "link.html")
        self.assertEqual(victim.read_text(), "precious")

    def test_folders_and_devices__are_refused(self):
        for path, sentence in ((self.folder, "Is a directory"), ("/dev/full", "not a regular file"), (self.folder / "no/a", "No such file"),
                               (self.folder / "small.csv/a", "Not a directory"), (self.folder / ("a" * 300), "File name too long")):
            self.refused(73, sentence, "report.py", "--output", path)

    def test_a_full_disk__leaves_the_earlier_page(self):
        page = self.folder / "full.html"
        self.assertEqual(self.call("report.py", "--output", page).returncode, 0)
        before = page.read_bytes()
        self.refused(74, "cannot write .*full.html: File too large", "report.py", "--output", page, wrap=("bash", "-c", 'ulimit -f 4; exec "$@"', ""))
        self.assertEqual((page.read_bytes(), list(self.folder.glob("full.html.*"))), (before, []))


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = fresh("files")
        self.folder.mkdir(parents=True)
        self.path = self.folder / "file"

    def test_a_link_to_an_own_file__is_followed(self):
        """A dangling link is replaced, since its target is another's choice."""
        self.path.write_bytes(OURS)
        (self.folder / "link").symlink_to("file")
        (self.folder / "dangling").symlink_to("nowhere")
        for name in ("link", "dangling"):
            output.write((self.folder / name, OURS + b"!", MARKS))
        self.assertEqual((self.path.read_bytes(), (self.folder / "link").is_symlink()), (OURS + b"!", True))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["dangling", "file", "link"])
        self.assertFalse((self.folder / "dangling").is_symlink())

    def test_a_pipe__is_refused(self):
        os.mkfifo(self.path)
        with self.assertRaisesRegex(output.Refused, "not a regular file"):
            output.write((self.path, OURS, MARKS))

    def test_marks__decide_and_an_empty_file_has_no_owner(self):
        for data, ours in ((b"", True), (OURS, True), (b"begin", False), (b"slimsim begin", False), (b"begin" + bytes(9999) + b"slimsim", True),
                           (b"begin" + bytes(9999) + b"slimsim" + bytes(9999), False)):
            self.path.write_bytes(data)
            self.assertEqual(output.is_ours(self.path, MARKS), ours, data[:20])

    def test_files_of_killed_scripts__go_with_the_next_output(self):
        """The files of a process that still runs stay, and so do names of another form."""
        ended = subprocess.Popen(["true"])
        ended.wait()
        names = [f"file.tmp-{ended.pid}-{'a' * 16}", f"file.tmp-{os.getpid()}-{'a' * 16}", f"file.tmp-{ended.pid}-mine", f"other.tmp-{ended.pid}-{'a' * 16}"]
        for name in names:
            (self.folder / name).touch()
        output.write((self.path, OURS, MARKS))
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), sorted(["file", *names[1:]]))

    def test_measurements__are_never_replaced(self):
        with output.create(self.path) as file:
            file.write("id\n")
        (self.folder / "link").symlink_to("nowhere")
        for path in (self.path, self.folder / "link"):
            with self.assertRaisesRegex(output.Refused, "exists, and no measurement is replaced"):
                output.create(path)
        self.assertEqual(self.path.read_text(), "id\n")

    def test_no_script__writes_in_another_way(self):
        scripts = [path for path in [*ANALYSIS.glob("*.py"), SOURCE / "docs/images/draw.py", *SOURCE.glob("python/slimsim/**/*.py")]
                   if path.name != "output.py"]
        self.assertGreater(len(scripts), 30)
        for path in scripts:
            for line in path.read_text(encoding="utf-8").splitlines():
                if "(folder /" not in line:  # a temporary folder
                    self.assertNotRegex(line, WRITES, path.name)


if __name__ == "__main__":
    unittest.main(verbosity=2)

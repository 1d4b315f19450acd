#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""In these tests each write, sync, rename and creation of a file fails once. They check the program's message and the
files that it leaves."""
import errno
import os
import shutil
import unittest
import unittest.mock

from program import SANITIZED, SMALL, fresh, run, write

TINY = SMALL.replace("global_batch: 48", "global_batch: 16").replace("measured: 2", "measured: 1").split("  - {name: slimpack")[0]


@unittest.skipIf(SANITIZED, "a sanitizer must be the first library")
class WriteFaults(unittest.TestCase):
    def failures(self, *arguments, on=False, before=None, few=False):
        """Run with the first, second, ... call failing until none fails, and give the folder after each. few: some of
        the calls behind the 15th."""
        n = 0
        while True:
            n += 1 + (n // 5 if few and n > 15 else 0)
            folder, mark = fresh("faults"), write("mark", "")
            mark.unlink()
            folder.mkdir()
            if before is not None:
                before(folder)
            settings = {"LD_PRELOAD": os.environ["SLIMSIM_FAIL_NTH"], "FAIL_UNDER": str(folder), "FAIL_NTH": str(n),
                        "FAIL_MARK": str(mark), "FAIL_ERRNO": str(errno.EIO if n % 2 else errno.ENOSPC)}
            if on:
                settings["FAIL_ON"] = "1"
            done = run(*arguments, "--quiet", "--output", folder, env={**os.environ, **settings})
            if not mark.exists():
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertGreater(n, 10)
                return
            with self.subTest(call=n, on=on):
                self.assertIn(done.returncode, (73, 74), done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, r"^slimsim: [^\n]*(Input/output error|No space left on device)\n$")
                yield folder

    def contents(self, folder):
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def test_a_run_writes_both_files_or_none(self):
        scenario, old = write("small.yaml", TINY), fresh("old")
        self.assertEqual(run("run", scenario, "--set", "seed=8", "--quiet", "--output", old).returncode, 0)
        for on in (False, True):
            for folder in self.failures("run", scenario, on=on, few=on):
                self.assertEqual(self.contents(folder), {})
        for folder in self.failures("run", scenario, few=True,
                                    before=lambda folder: shutil.copytree(old, folder, dirs_exist_ok=True)):
            self.assertEqual(self.contents(folder), self.contents(old))

    def test_a_sweep_writes_all_files_or_none(self):
        swept, old = (write("small.yaml", TINY), "--sweep", "seed=1,2"), fresh("old")
        self.assertEqual(run("run", *swept, "--quiet", "--output", old).returncode, 0)
        for folder in self.failures("run", *swept, few=True,
                                    before=lambda folder: shutil.copytree(old, folder, dirs_exist_ok=True)):
            self.assertEqual(self.contents(folder), self.contents(old))

    def test_a_sweep_with_full_traces_leaves_its_journal_alone(self):
        for folder in self.failures("run", write("small.yaml", TINY + "trace: full\n"), "--sweep", "seed=1,2", few=True):
            self.assertLessEqual(set(self.contents(folder)), {"small.journal"})

    def test_submit_writes_both_job_scripts_or_none(self):
        scripts = fresh("scripts")
        scripts.mkdir()
        (scripts / "sbatch").write_text("#!/bin/sh\necho 1\n")
        (scripts / "sbatch").chmod(0o755)
        with unittest.mock.patch.dict(os.environ, PATH=f"{scripts}:{os.environ['PATH']}"):
            for folder in self.failures("submit", write("small.yaml", TINY), "--sweep", "seed=1,2", "--shards", "2"):
                self.assertEqual(self.contents(folder), {})

    def no_memory(self, library, parser, text=TINY):
        """Let allocations of a library fail while it reads the scenario's files: the first, the second, ..., then ever
        fewer of them. The scenario has a mistake, which is met when none fails."""
        scenario, n, mark = write("small.yaml", "unknown: 1\n" + text), 1, write("mark", "")
        while mark.exists():
            mark.unlink()
            settings = {"LD_PRELOAD": os.environ["SLIMSIM_FAIL_NTH"], "FAIL_LIBRARY": library, "FAIL_NTH": str(n),
                        "FAIL_MARK": str(mark)}
            done = run("run", scenario, env={**os.environ, **settings})
            if mark.exists():
                with self.subTest(allocation=n):
                    self.assertEqual((done.returncode, done.stdout), (1, ""))
                    self.assertEqual(done.stderr, f"slimsim: out of memory (a parser of {parser} wanted)\n")
            n += 1 + n // 5
        self.assertEqual(done.returncode, 2)
        return n

    def test_no_memory_for_yaml_is_no_bug(self):
        self.assertGreater(self.no_memory("libyaml", "YAML"), 50)

    def test_no_memory_for_xml_is_no_bug(self):
        platform = write("memory.xml", run("platform", "hopper-2x8").stdout)
        self.assertGreater(self.no_memory("libexpat", "XML", TINY.replace("hopper-2x8", str(platform))), 5)

    def without_memory(self, library, *arguments):
        """Let all allocations of a library fail from the first, the second, ... on, then ever fewer. Yield
        what the program says, unless the library ends the process by itself while it starts."""
        n, mark = 1, write("mark", "")
        while mark.exists():
            mark.unlink()
            settings = {"LD_PRELOAD": os.environ["SLIMSIM_FAIL_NTH"], "FAIL_LIBRARY": library, "FAIL_NTH": str(n),
                        "FAIL_ON": "1", "FAIL_MARK": str(mark)}
            done = run("run", write("small.yaml", TINY), "--quiet", "--output", fresh("memory"), *arguments,
                       env={**os.environ, **settings})
            if mark.exists() and done.stderr.startswith("slimsim: "):
                yield done
            n += 1 + n // 8
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_memory_for_hdf5_is_no_bug_and_no_full_disk(self):
        ends = [done for done in self.without_memory("libhdf5")
                if done.returncode != 74 or "small.h5.tmp-" not in done.stderr]  # it reads its own file for the CSV
        self.assertEqual({(done.returncode, done.stdout, done.stderr) for done in ends},
                         {(1, "", "slimsim: out of memory (HDF5 wanted)\n")})
        self.assertGreater(len(ends), 5)

    def test_no_memory_for_simgrid_is_an_interruption(self):
        ends = [done for done in self.without_memory("libsimgrid", "--set", "engine=simgrid")
                if "it crashed while reading it" not in done.stderr]  # SimGrid's reader of XML does not look in one place
        self.assertEqual({(done.returncode, done.stdout) for done in ends}, {(71, "")}, [done.stderr for done in ends])
        self.assertGreater(len(ends), 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)

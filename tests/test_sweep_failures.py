#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests disturb sweeps, which must write the same bytes whatever happens. SLIMSIM_KILLS: kills of each kind."""
import contextlib
import filecmp
import os
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest

import h5py

from cli_case import SOURCE
from program import AT_ONCE_S, PROGRAM, QUESTION, SANITIZED, SCRATCH, alive, children, fresh, rows, run, write
from sweep_case import BASE, FILES, GRID, Sweep

KILLS = int(os.environ.get("SLIMSIM_KILLS", "10"))


class Failures(Sweep):
    SLOW = BASE + "sweep: {iterations.measured: [2, 100000, 3]}\n"

    def test_a_point_over_the_time_limit_is_marked_and_does_not_stop_the_others(self):
        folder = fresh("slow")
        done = self.sweep(folder, "--quiet", "--time-limit", "1s", "--jobs", "2", scenario=self.SLOW, status=1)
        self.assertRegex(done.stderr, r"^slimsim: 1 of 3 points failed\n"
                         r"slimsim: point 1 \(iterations\.measured=100000\): .*time limit.*\n"
                         rf"slimsim: {folder}/small\.points\.csv has the messages of all points\n$")
        points = rows(folder / "small.points.csv")
        self.assertEqual([row["status"] for row in points], ["done", "time limit", "done"])
        self.assertIn("time limit", points[1]["message"])
        self.assertTrue(points[1]["command"].endswith("--point 1"))
        table = rows(folder / "small.csv")
        self.assertEqual([row["status"] for row in table], ["done", "done", "time limit", "done", "done"])
        self.assertEqual((table[2]["time_mean_s"], table[2]["system"]), ("", ""))
        with h5py.File(folder / "small.h5") as file:
            self.assertEqual(len(file["summary"]), 4)
        again = self.sweep(folder, "--time-limit", "1s", scenario=self.SLOW, status=1)
        self.assertIn("0 computed, 3 kept", again.stderr)
        again = self.sweep(folder, "--time-limit", "1s", "--retry-failed", scenario=self.SLOW, status=1)
        self.assertIn("1 computed, 2 kept", again.stderr)

    def test_shards_with_a_failed_point_are_merged_and_the_status_tells(self):
        folder = fresh("failed-shards")
        for k in (1, 2):
            self.sweep(folder, "--quiet", "--shard", f"{k}/2", "--time-limit", "1s", scenario=self.SLOW, status=k - 1)
        done = run("merge", *folder.iterdir(), "--output", folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"slimsim: 1 of 3 points failed\nslimsim: point 1 \(.*time limit")
        self.assertEqual([row["status"] for row in rows(folder / "small.points.csv")], ["done", "time limit", "done"])

    def test_fail_fast_stops_at_the_first_failure(self):
        folder = fresh("fast")
        done = self.sweep(folder, "--quiet", "--time-limit", "0.5s", "--jobs", "1", "--fail-fast", scenario=self.SLOW,
                          status=1)
        self.assertIn("--point 1", done.stderr)
        self.assertEqual([path.name for path in folder.iterdir()], ["small.journal"])

    @unittest.skipIf(SANITIZED, "the sanitizer maps terabytes of shadow, which RLIMIT_DATA counts: every point fails")
    def test_a_point_over_the_memory_limit_is_a_failed_row(self):
        scenario = BASE + "sweep: {data.global_batch: [48, 9000000]}\n"
        done = self.sweep(fresh("memory"), "--quiet", "--process-memory", "64MiB", scenario=scenario, status=1)
        self.assertIn("1 of 2 points failed", done.stderr)
        message = rows(SCRATCH / "memory" / "small.points.csv")[1]["message"]
        self.assertIn("its process", message)
        self.assertIn("out of memory", message)

    def test_a_single_run_with_limits_stays_one(self):
        alone, free, limited = write("limited.yaml", BASE), fresh("free"), fresh("limited")
        limits = ["--time-limit", "1000s", "--fail-fast", "--retry-failed"] + ["--process-memory", "4GiB"] * (not SANITIZED)
        without, done = run("run", alone, "--quiet", "--output", free), run("run", alone, "--quiet", "--output", limited, *limits)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, without.stdout, ""))
        self.assertEqual(sorted(path.name for path in limited.iterdir()), ["small.csv", "small.h5"])
        self.same(free, limited, ("small.csv", "small.h5"))
        for engine in ("critical-path", "simgrid"):
            long = ("--set", "iterations.measured=100000", "--set", f"engine={engine}", "--output", fresh("late"))
            for arguments in ((), ("--sweep", "seed=1,2", "--point", "1")):
                done = run("run", alone, "--quiet", "--time-limit", "0.5s", *long, *arguments)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertEqual(done.stderr, "slimsim: it did not finish within 0.5 s, the time limit\n")
                self.assertEqual(list((SCRATCH / "late").iterdir()), [])
        if not SANITIZED:
            done = run("run", alone, "--quiet", "--process-memory", "64MiB", "--set", "data.global_batch=9000000", *long[-2:])
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^slimsim: out of memory \(\d+ bytes wanted, the limit of the process is 67108864\)\n$")
            self.assertEqual(list((SCRATCH / "late").iterdir()), [])

    def test_a_folder_in_the_place_of_a_file_is_met_before_anything_runs(self):
        alone = write("alone.yaml", BASE)
        for name, arguments in (("small.h5", ()), ("small.csv", ()), ("small.points.csv", ("--sweep", "seed=1,2"))):
            folder = fresh("occupied")
            (folder / name).mkdir(parents=True)
            done = run("run", alone, "--quiet", "--output", folder, *arguments)
            self.assertEqual((done.returncode, done.stdout), (73, ""))
            self.assertEqual(done.stderr, f"slimsim: cannot create {folder}/{name}: Is a directory\n")
            self.assertEqual([path.name for path in folder.iterdir()], [name])

    def test_replace__refuses_files_that_are_not_of_slimsim(self):
        alone, swept, folder = write("alone.yaml", BASE), ("--sweep", "seed=1,2"), fresh("foreign")
        folder.mkdir()

        def refused(name, what, *arguments):
            before = (folder / name).read_bytes()
            done = run(*arguments, "--quiet", "--output", folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            error = done.stderr.splitlines(keepends=True)[-1]  # a sentence on the lengths that were read may come before
            self.assertRegex(error, rf"^slimsim: {folder}/{name} is no {what} of slimsim, which this command would "
                             r"replace; to keep both choose another folder \(--output DIR\)( or name \(--set name=NAME\))?\n$")
            self.assertEqual((folder / name).read_bytes(), before)
            self.assertEqual([path.name for path in folder.iterdir()], [name])
            (folder / name).unlink()

        with h5py.File(folder / "small.h5", "w") as file:
            file["lengths"] = [4096, 8192, 1024] * 100
        refused("small.h5", "trace", "run", alone, "--set", f"data.lengths={folder}/small.h5")
        for name, what, *arguments in (
                ("small.h5", "trace", "run", alone), ("small.h5", "trace", "run", alone, *swept),
                ("small.csv", "table", "run", alone), ("small.points.csv", "table", "run", alone, *swept),
                ("small.shards.sbatch", "job script", "submit", alone, *swept, "--shards", "2"),
                ("validation.h5", "trace", "validate", "--filter", "source=nothing")):
            (folder / name).write_text("of somebody else\n")
            refused(name, what, *arguments)

    def test_a_pipe_in_the_place_of_a_table_is_refused_at_once(self):
        alone = write("alone.yaml", BASE)
        for name, arguments in (("small.csv", ()), ("small.csv", ("--sweep", "seed=1,2")),
                                ("small.points.csv", ("--sweep", "seed=1,2")), ("small.h5", ())):
            folder = fresh("pipes")
            folder.mkdir()
            os.mkfifo(folder / name)
            done = subprocess.run([PROGRAM, "run", alone, "--quiet", "--output", folder, *arguments], capture_output=True,
                                  text=True, timeout=20)
            self.assertEqual((done.returncode, done.stdout), (73, ""))
            self.assertEqual(done.stderr, f"slimsim: cannot create {folder}/{name}: it is not a regular file\n")

    def test_outputs_that_cannot_be_written(self):
        write("file", "")
        self.sweep(SCRATCH / "file" / "below", status=73)
        self.sweep("/dev/full", status=73)
        folder = fresh("blocked")
        (folder / "small.journal").mkdir(parents=True)
        self.sweep(folder, status=73)
        (folder / "small.journal").rmdir()
        (folder / "small.journal").symlink_to("/dev/full")
        self.assertIn("not a regular file", self.sweep(folder, status=73).stderr)

    @contextlib.contextmanager
    def disk(self, kib):
        """Makes an empty file system of this size."""
        folder = fresh("disk")
        folder.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder],
                          capture_output=True).returncode != 0:
            self.skipTest("a file system cannot be mounted here")
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)

    def remount(self, folder, how):
        subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)

    def test_a_folder_that_is_read_only(self):
        with self.disk(4096) as folder:
            for used in (False, True):
                if used:
                    self.sweep(folder, "--quiet")
                self.remount(folder, "ro")
                self.assertIn("Read-only file system", self.sweep(folder, "--quiet", status=73).stderr)
                self.assertIn("Read-only file system", self.sweep(folder, "--quiet", "--point", "1", status=73).stderr)
                self.assertEqual(bool(list(folder.iterdir())), used)
                self.remount(folder, "rw")
            self.same(self.whole, folder)

    def test_a_full_disk_leaves_nothing_under_the_final_names(self):
        """At these sizes the journal, the tables, the traces of points or nothing meets the end of the disk."""
        traced = BASE + "trace: full\nsweep: {replicates: 2}\n"
        plenty = fresh("plenty")
        self.sweep(plenty, "--quiet", scenario=traced)
        cases = [(GRID, self.whole, 8, 74), (traced, plenty, 4096, 0)]
        for scenario, whole in ((GRID, self.whole), (traced, plenty)):
            journal, tables = ((whole / name).stat().st_size // 1024 for name in ("small.journal", "small.h5"))
            cases += [(scenario, whole, kib, 74) for kib in (journal // 2, journal + tables // 2)]
        for scenario, whole, kib, status in cases:
            with self.disk(kib) as folder:
                done = self.sweep(folder, "--quiet", scenario=scenario, status=status)
                if status == 74:
                    self.assertIn("No space left on device", done.stderr)
                    self.assertLessEqual({path.name for path in folder.iterdir()}, {"small.journal"})
                    self.remount(folder, "size=16m")
                    self.sweep(folder, "--quiet", scenario=scenario)
                self.same(whole, folder)

    def test_a_full_disk_under_a_single_run(self):
        with self.disk(64) as folder:
            done = self.sweep(folder, "--quiet", "--point", "0", scenario=BASE + "trace: full\n", status=74)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual(list(folder.iterdir()), [])

    def test_a_full_disk_under_a_trace_of_simgrid(self):
        with self.disk(8) as folder:
            done = self.sweep(folder, "--quiet", "--point", "0", "--set", "trace=none", "--set", "engine=simgrid",
                              "--simgrid-trace", folder / "t.paje", scenario=BASE, status=74)
            self.assertIn("SimGrid could not write the whole file", done.stderr)
            self.assertEqual(list(folder.iterdir()), [])

    def test_a_forged_trace_in_a_journal__is_refused(self):
        """The last record is a result, and its last field is the trace. A foreign file replaces it."""
        scenario, folder, stranger = BASE + "trace: full\nsweep: {replicates: 1}\n", fresh("forged"), SCRATCH / "stranger.h5"
        self.sweep(folder, "--quiet", scenario=scenario)
        with h5py.File(stranger, "w") as file:
            file["secret"] = [1, 2, 3]
        journal, at, last = (folder / "small.journal").read_bytes(), 16, 0
        while at < len(journal):
            last, at = at, at + 24 + struct.unpack_from("<Q", journal, at + 8)[0]
        image = journal.index(b"\x89HDF\r\n", last)
        forged = journal[last + 24:image - 8] + struct.pack("<q", stranger.stat().st_size) + stranger.read_bytes()
        head, mark = journal[last:last + 8] + struct.pack("<Q", len(forged)), 0xcbf29ce484222325
        for byte in head + forged:
            mark = (mark ^ byte) * 0x100000001b3 % 2**64
        (folder / "small.journal").write_bytes(journal[:last] + head + struct.pack("<Q", mark) + forged)
        before = (folder / "small.h5").read_bytes()
        done = self.sweep(folder, "--quiet", scenario=scenario, status=2)
        self.assertRegex(done.stderr, r"small.journal: the result at byte \d+ is damaged; remove this file")
        self.assertEqual((folder / "small.h5").read_bytes(), before)

    def test_a_run_and_two_sweeps_of_one_name_do_not_replace_each_other(self):
        alone, swept, folder = write("kept.yaml", BASE), ("--sweep", "seed=1,2", "--jobs", "1", "--quiet"), fresh("kept")

        def journals(seeds):
            shards = fresh("kept-shards")
            self.assertEqual(run("run", alone, "--sweep", seeds, "--shard", "1/1", "--output", shards).returncode, 0)
            return shards.glob("*.journal")

        def refused(what, *arguments):
            before = {path: path.read_bytes() for path in folder.iterdir()}
            done = run(*arguments, "--output", folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"^slimsim: .*kept/small.csv is {what}, which this .* would replace; .*--output DIR.*--set name=")
            self.assertEqual({path: path.read_bytes() for path in folder.iterdir()}, before)

        for _ in range(2):
            self.assertEqual(run("run", alone, "--quiet", "--output", folder).returncode, 0)
        refused("the table of a single run", "run", alone, *swept)
        refused("the table of a single run", "submit", alone, "--sweep", "seed=1,2", "--shards", "2", "--dry-run")
        refused("the table of a single run", "merge", *journals("seed=1,2"))
        self.assertEqual(run("run", alone, *swept, "--set", "name=seeds", "--output", folder).returncode, 0)
        folder = fresh("kept")
        for _ in range(2):
            self.assertEqual(run("run", alone, *swept, "--output", folder).returncode, 0)
        refused("the table of a sweep", "run", alone)
        other = (*swept[:1], "seed=2,3", *swept[2:])
        refused("the table of another sweep", "run", alone, *other)
        refused("the table of another sweep", "submit", alone, *other[:2], "--shards", "2", "--dry-run")
        refused("the table of another sweep", "merge", *journals("seed=2,3"))
        self.assertIn("1 computed, 2 kept", run("run", alone, "--sweep", "seed=3,1,2", "--output", folder).stderr)
        refused("the table of another sweep", "run", alone, *swept)
        self.assertEqual(run("run", alone, "--quiet", "--set", "trace=none", "--output", folder).returncode, 0)
        self.assertEqual(run("run", alone, *swept, "--point", "1", "--output", folder).returncode, 0)
        (folder / "small.csv").write_text("tokens\n4096\n")
        refused("no table of slimsim", "run", alone)
        refused("no table of slimsim", "run", alone, *swept)

    def test_what_has_no_sweep_has_no_shards(self):
        for arguments in (("run", "--shard", "2/2"), ("submit", "--shards", "1"), ("submit", "--shards", "3", "--sweep", "seed=1,2")):
            done = run(arguments[0], write("alone.yaml", BASE), "--output", fresh("shardless"), *arguments[1:])
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, "one point has no parts|3 parts, but there are 2 points")
            self.assertFalse((SCRATCH / "shardless").exists())

    def test_a_size_or_time_that_sbatch_does_not_take_is_refused(self):
        """The good and the bad values were tried on sbatch 22.05."""
        small = write("small.yaml", GRID)

        def submit(option):
            return run("submit", small, "--shards", "2", "--dry-run", "--output", SCRATCH / "never", option)

        for option in ("--mem=8G", "--mem=8gb", "--mem=500", "--mem=0", "--time=5", "--time=5:30", "--time=2:00:00",
                       "--time=1-0", "--time=1-12:30:00", "--time=unlimited", "--sbatch=--mem=8G", "--sbatch=--mem-per-cpu=2G"):
            done = submit(option)
            self.assertEqual((done.returncode, done.stderr), (0, ""), option)
            self.assertEqual(done.stdout.count(f"#SBATCH {option.removeprefix('--sbatch=')}\n"), 2)
        for name, wrong in (("mem", ("8GiB", "1.5G", "-1", "G", "8 G", "lots")), ("time", ("2h", "90s", "1:2:3:4", "1.5", "5:", "-5"))):
            for value in wrong:
                for option in (f"--{name}={value}", f"--sbatch=--{name}={value}"):
                    done = submit(option)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), option)
                    self.assertRegex(done.stderr, rf"^slimsim: --{name}: '{value}' is not a (size|time) such as .*\n$")

    def test_closed_standard_files_change_nothing_but_what_is_printed(self):
        """Pipes and journals do not take the descriptors of standard files."""
        folder = fresh("closed")
        command = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', PROGRAM, "run", write("small.yaml", GRID), "--output", folder]
        self.assertEqual(subprocess.run(command, timeout=300).returncode, 74)
        self.same(self.whole, folder)

    def test_a_full_standard_output_is_an_error(self):
        small = write("small.yaml", GRID)
        for arguments in (("run", small, "--output", self.whole, "--quiet"), ("run", small, "--list"),
                          ("run", small, "--point", "1", "--output", fresh("alone"), "--quiet"),
                          ("best", self.whole / "small.csv"), ("submit", small, "--shards", "2", "--dry-run")):
            with open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300)
            self.assertEqual(done.returncode, 74, (arguments, done.stderr))

    def test_a_reader_that_has_enough_ends_it_silently(self):
        """The program ends by SIGPIPE, as Unix tools do. It still writes its files."""
        folder, alone = fresh("enough"), write("enough.yaml", BASE)
        for arguments in (("run", alone, "--output", folder, "--quiet"), ("run", write("small.yaml", GRID), "--list"),
                          ("best", self.whole / "small.csv", "--json", "--quiet"), ("list", "keys"), ("--version",),
                          ("export", alone, "--dag", "dot", "--quiet", "--set", "data.global_batch=512")):
            read, end = os.pipe()
            os.close(read)
            done = subprocess.run([PROGRAM, *arguments], stdout=end, stderr=subprocess.PIPE, text=True, timeout=300)
            os.close(end)
            self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""), arguments)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["small.csv", "small.h5"])


class Resume(Sweep):
    LONG = GRID.replace("measured: 2", "measured: 6").replace("replicates: 2", "replicates: 3")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = fresh("undisturbed")
        done = run("run", write("long.yaml", cls.LONG), "--output", cls.undisturbed, "--quiet")
        assert done.returncode == 0, done.stderr

    def start(self, folder, *arguments):
        return subprocess.Popen([PROGRAM, "run", SCRATCH / "long.yaml", "--output", folder, "--jobs", "3", *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, folder):
        done = run("run", SCRATCH / "long.yaml", "--output", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.same(self.undisturbed, folder)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), sorted((*FILES, "small.journal")))
        return done.stderr

    def test_a_new_value_computes_its_points_only(self):
        folder = fresh("longer")
        short = GRID.replace("{log2: [16Ki, 64Ki]}", "[16Ki, 64Ki]")
        self.assertIn("12 computed, 0 kept", self.sweep(folder, scenario=short).stderr)
        self.assertIn("8 computed, 12 kept", self.sweep(folder).stderr)
        self.same(self.whole, folder)
        self.assertIn("0 computed, 20 kept", self.sweep(folder).stderr)
        self.assertIn("0 computed, 12 kept", self.sweep(folder, scenario=short).stderr)

    def test_a_second_driver_is_refused(self):
        folder = fresh("twice")
        first = self.start(folder)
        while not (folder / "small.journal").exists() or (folder / "small.journal").stat().st_size == 0:
            time.sleep(0.005)
        first.send_signal(signal.SIGSTOP)  # otherwise it may end before the second one comes to its files
        second = run("run", SCRATCH / "long.yaml", "--output", folder)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(second.returncode, 75, second.stderr)
        self.assertEqual(first.wait(timeout=120), 0)
        first.communicate()
        self.same(self.undisturbed, folder)

    def test_single_runs_of_one_name_exclude_each_other_and_sweeps(self):
        folder, alone = fresh("alone-twice"), write("alone.yaml", BASE)
        first = subprocess.Popen([PROGRAM, "run", alone, "--quiet", "--output", folder, "--set", "iterations.measured=100000"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(first.kill)
        while not list(folder.glob("*.tmp-*")):
            time.sleep(0.005)
        for arguments in ((), ("--sweep", "seed=1,2")):
            done = run("run", alone, "--quiet", "--output", folder, *arguments)
            self.assertEqual((done.returncode, done.stdout), (75, ""))
            self.assertIn("small.journal: another slimsim writes results of this name", done.stderr)
        for arguments in (("--set", "name=other"), ("--set", "trace=none")):
            self.assertEqual(run("run", alone, "--quiet", "--output", folder, *arguments).returncode, 0)
        first.kill()
        first.communicate(timeout=60)
        self.assertEqual(len(list(folder.glob("small.*"))), 2)  # files of a killed run do not hinder the next one
        self.assertEqual(run("run", alone, "--quiet", "--output", folder).returncode, 0)
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["other.csv", "other.h5", "small.csv", "small.h5"])

    def test_the_next_command_of_a_name_removes_what_a_killed_one_left(self):
        folder, alone, gone = fresh("left"), write("alone.yaml", BASE), subprocess.Popen(["true"])
        gone.wait()
        for number in (signal.SIGUSR1, signal.SIGQUIT):
            killed = subprocess.Popen([PROGRAM, "run", alone, "--quiet", "--output", folder, "--set", "iterations.measured=100000"],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(killed.kill)
            while not list(folder.glob("*.tmp-*")):
                time.sleep(0.005)
            killed.send_signal(number)
            killed.communicate(timeout=60)
            self.assertEqual(len(list(folder.glob("*.tmp-*"))), 1)
            self.assertEqual(run("run", alone, "--quiet", "--output", folder).returncode, 0)
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["small.csv", "small.h5"])
        shards, question = fresh("left-shards"), write("question.yaml", QUESTION)
        self.assertEqual(run("run", alone, "--sweep", "seed=1,2", "--shard", "1/1", "--output", shards).returncode, 0)
        for names, *command in ((("small.h5", "small.csv", "small.points.csv"), "merge", *shards.glob("*.journal")),
                                (("question.capacity.h5", "question.capacity.csv"), "capacity", question),
                                (("question.sensitivity.csv",), "sensitivity", question, "--set", "capacity=~"),
                                (("validation.h5",), "validate", "--filter", "model.name=MPT-7B")):
            folder = fresh("left")
            folder.mkdir()
            for name in names:
                (folder / f"{name}.tmp-{gone.pid}-0123456789abcdef").write_text("half a file")
            done = run(*command, "--quiet", "--output", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(all((folder / name).is_file() for name in names))
            self.assertEqual(list(folder.glob("*.tmp-*")), [], command[0])

    def test_a_single_run_leaves_a_journal_as_it_is(self):
        folder, alone = fresh("beside"), write("alone.yaml", BASE)
        folder.mkdir()
        journal = shutil.copy(self.whole / "small.journal", folder)
        self.assertEqual(run("run", alone, "--quiet", "--output", folder).returncode, 0)
        self.assertTrue(filecmp.cmp(journal, self.whole / "small.journal", shallow=False))

    def test_signals_end_it_at_once_and_keep_what_is_finished(self):
        folder, enough = fresh("stopped"), 10000
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            driver = self.start(folder, "--quiet")
            while not (folder / "small.journal").exists() or (folder / "small.journal").stat().st_size < enough:
                time.sleep(0.005)
            below = children(driver.pid)
            begin = time.monotonic()
            driver.send_signal(number)
            output, errors = driver.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, AT_ONCE_S)
            self.assertEqual((driver.returncode, output), (128 + number, ""), errors)
            self.assertIn("the same command continues", errors)
            self.assertFalse(alive(below))
            self.assertEqual([path.name for path in folder.iterdir()], ["small.journal"])
            enough = (folder / "small.journal").stat().st_size + 6000  # room for at least one more point, so the next one runs
        self.assertNotIn(" 0 kept", self.finish(folder))

    def test_killed_runs_leave_nothing_in_the_way(self):
        """A run that is killed anywhere and started again writes the same bytes as an undisturbed run."""
        alone, undisturbed, folder = write("alone.yaml", BASE.replace("measured: 2", "measured: 10")), fresh("calm"), fresh("killed-run")
        command = ("run", alone, "--quiet", "--output")
        begin = time.monotonic()
        self.assertEqual(run(*command, undisturbed).returncode, 0)
        took_s, killed = time.monotonic() - begin, 0
        random.seed(5)
        while killed < KILLS:
            process = subprocess.Popen([PROGRAM, *command, folder], stdout=subprocess.DEVNULL)
            time.sleep(random.uniform(0, took_s))
            process.kill()
            killed += process.wait(timeout=60) == -signal.SIGKILL
            if random.random() < 0.5:
                continue  # the next one finds what two of them left
            done = run(*command, folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.same(undisturbed, folder, ("small.csv", "small.h5"))
            self.assertEqual(sorted(path.name for path in folder.iterdir()), ["small.csv", "small.h5"])
            if random.random() < 0.5:
                shutil.rmtree(folder)
        self.assertEqual(run(*command, folder).returncode, 0)
        self.same(undisturbed, folder, ("small.csv", "small.h5"))

    def test_killed_drivers_lose_nothing(self):
        folder = fresh("killed")
        random.seed(3)
        last = 0
        for _ in range(KILLS):
            driver = self.start(folder, "--quiet")
            time.sleep(random.uniform(0.02, 0.5))
            below = children(driver.pid)
            driver.kill()
            driver.communicate(timeout=60)
            self.assertFalse(alive(below))
            journal = folder / "small.journal"
            size = journal.stat().st_size if journal.exists() else 0
            self.assertGreater(size, last - 30000)  # except a torn frame
            last = size
            if (folder / "small.h5").exists():
                self.finish(folder)
                shutil.rmtree(folder)
                last = 0
        self.finish(folder)

    def test_killed_workers_lose_nothing(self):
        folder = fresh("workers")
        random.seed(4)
        killed = 0
        while killed < KILLS:
            driver = self.start(folder, "--quiet")
            while driver.poll() is None and killed < KILLS:
                time.sleep(random.uniform(0.01, 0.2))
                below = sorted(children(driver.pid))
                if below:
                    try:
                        os.kill(random.choice(below), signal.SIGKILL)
                        killed += 1
                    except ProcessLookupError:
                        pass
            output, errors = driver.communicate(timeout=120)
            self.assertIn(driver.returncode, (0, 1), errors)  # 1: some point was killed three times
            self.finish(folder)
            shutil.rmtree(folder)

    def test_results_of_another_build_are_not_used(self):
        folder, other = fresh("builds"), SCRATCH / "another-slimsim"
        shutil.copy(PROGRAM, other)
        with open(other, "ab") as program:
            program.write(b"\0")
        small = write("small.yaml", GRID)
        for options in (["--shard", "1/2"], ["--shard", "2/2"], []):
            done = subprocess.run([other, "run", small, "--output", folder, "--quiet", *options], capture_output=True,
                                  env={**os.environ, "SLIMSIM_DATA": str(SOURCE)})
            self.assertEqual(done.returncode, 0, done.stderr)
        done = run("merge", *folder.glob("*.shard-*"), "--output", folder)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"20 of 20 points are missing: they were computed by slimsim .*, and this is slimsim ")
        told = self.sweep(folder).stderr
        self.assertIn("20 points in ", told)
        self.assertRegex(told, r"^another build of slimsim computed 20 points in .*small.journal; they are computed again\n")
        self.assertIn("20 computed, 0 kept", told)
        self.same(self.whole, folder)
        self.assertNotIn("another build", self.sweep(folder).stderr)

    def test_a_torn_end_is_dropped(self):
        folder = fresh("torn")
        self.sweep(folder, "--quiet")
        journal = folder / "small.journal"
        journal.write_bytes(journal.read_bytes()[:-7])
        self.assertIn("1 computed, 19 kept", self.sweep(folder).stderr)
        self.same(self.whole, folder)

if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests stop answers that run a scenario again and again, go on from their journals, and read their progress."""
import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from program import PROGRAM, SANITIZED, SCRATCH, SMALL, children, fresh, run, write

SEARCHED = SMALL.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}",
                         "plan: auto, plan_space: {tp: [2, 4], pp: [1, 2]}").replace("measured: 2", "measured: 6")
LONG = SEARCHED.replace("name: small", "name: long").replace("global_batch: 48", "global_batch: 6144")
OTHER = LONG.replace("32Ki", "64Ki")
SIZES = LONG.replace("platform: hopper-2x8", "platform: hopper") + """\
capacity: {tokens: 2e10, offers: [{name: first, nodes: {from: 1, to: 4}}]}
"""
WITHIN_S = 8 if SANITIZED else 2


def counts(done):
    """Read how many runs there are, and how many of them were computed and kept."""
    return [int(n) for n in re.search(r"^(\d+) runs?: (\d+) computed, (\d+) found in ", done.stderr, re.MULTILINE).groups()]


def begin(*arguments, stderr=subprocess.DEVNULL):
    return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=stderr)


class Journal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = write("small.yaml", SEARCHED)
        cls.whole = fresh("whole")
        cls.done = run("sensitivity", cls.path, "--json", "--output", cls.whole)
        assert cls.done.returncode == 0, cls.done.stderr
        cls.n = counts(cls.done)[0]

    def same(self, folder, done):
        self.assertEqual((done.returncode, done.stdout), (0, self.done.stdout), done.stderr)
        name = "small.sensitivity.csv"
        self.assertEqual((folder / name).read_bytes(), (self.whole / name).read_bytes())

    def stop(self, number, folder):
        """Stop an answer in the middle."""
        journal, size = folder / "small.sensitivity.journal", (self.whole / "small.sensitivity.journal").stat().st_size
        with begin("sensitivity", self.path, "--output", folder) as process:
            while not journal.exists() or journal.stat().st_size < size / 2:
                self.assertIsNone(process.poll())
                time.sleep(0.001)
            process.send_signal(number)
        return process.returncode

    def test_a_stopped_answer_goes_on_and_computes_no_change_again(self):
        for number, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 128 + signal.SIGINT)):
            folder = fresh("stopped")
            self.assertEqual(self.stop(number, folder), status)
            self.assertFalse((folder / "small.sensitivity.csv").exists())
            done = run("sensitivity", self.path, "--json", "--output", folder)
            n, n_computed, n_kept = counts(done)
            self.assertEqual((n, n_computed + n_kept), (self.n, self.n))
            self.assertGreaterEqual(n_kept, self.n // 4)
            self.assertGreater(n_computed, 0)
            self.same(folder, done)

    def test_explain_goes_on_after_each_of_its_two_stages(self):
        """The systems run first. The first of their ranking then runs once more, with each cost at zero."""
        path, whole, folder = write("small.yaml", SEARCHED), fresh("explained"), fresh("stopped")
        done = run("explain", path, "--json", "--output", whole)
        self.assertEqual(counts(done), [3, 3, 0])
        journal, size = folder / "small.explain.journal", (whole / "small.explain.journal").stat().st_size
        for number, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 128 + signal.SIGINT)):
            shutil.rmtree(folder, ignore_errors=True)
            with begin("explain", path, "--output", folder) as process:
                while not journal.exists() or journal.stat().st_size < size / 2:
                    self.assertIsNone(process.poll())
                    time.sleep(0.001)
                process.send_signal(number)
            self.assertEqual(process.returncode, status)
            again = run("explain", path, "--json", "--output", folder)
            self.assertEqual((again.returncode, again.stdout), (0, done.stdout), again.stderr)
            n, n_computed, n_kept = counts(again)
            self.assertEqual((n, n_computed + n_kept), (3, 3))
            self.assertIn(n_kept, (1, 2))

    def test_results_do_not_depend_on_the_number_of_workers(self):
        folder, cores = fresh("one"), sorted(os.sched_getaffinity(0))
        done = subprocess.run(["taskset", "-c", str(cores[0]), PROGRAM, "sensitivity", self.path, "--json", "--output", folder],
                              capture_output=True, text=True, check=False)
        self.assertEqual(counts(done), [self.n, self.n, 0])
        self.same(folder, done)

    def test_the_same_answer_again_computes_nothing_and_another_scenario_all(self):
        folder = fresh("again")
        for options, n_kept in (((), 0), ((), self.n), (("--set", "seed=8"), 0), ((), self.n)):
            done = run("sensitivity", self.path, "--json", "--output", folder, *options)
            self.assertEqual(counts(done), [self.n, self.n - n_kept, n_kept], options)
        self.same(folder, done)

    def test_a_refused_change_is_a_result(self):
        """The first plan needs 16 GPUs, so its second node cannot be taken away alone."""
        plan = "plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}"
        one = write("one.yaml", SMALL.replace(plan, "plan: {tp: 2, pp: 8}"))
        other = write("other.yaml", SMALL.replace(plan, "plan: {tp: 2, pp: 4}").replace("hopper-2x8", "hopper-1x8"))
        shutil.rmtree(SCRATCH / "refused", ignore_errors=True)
        for n_kept in (0, 1):
            done = run("compare", one, other, "--system", "best-fit", "--json", "--output", SCRATCH / "refused")
            self.assertEqual(done.returncode, 0, done.stderr)
            refused = [row["key"] for row in json.loads(done.stdout)["differences"] if "refused" in row]
            self.assertEqual(refused, ["platform.nodes"])
            self.assertEqual(counts(done)[2] > 0, bool(n_kept))

    def test_a_file_of_others_is_kept(self):
        folder = fresh("foreign")
        folder.mkdir()
        (folder / "small.sensitivity.journal").write_text("mine\n")
        done = run("sensitivity", self.path, "--output", folder)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("small.sensitivity.journal", done.stderr)
        self.assertEqual((folder / "small.sensitivity.journal").read_text(), "mine\n")


def kill_workers(process, number):
    """Kill each worker of an answer as soon as it is seen."""
    while process.poll() is None:
        for worker in children(process.pid) - {process.pid}:
            try:
                os.kill(worker, number)
            except ProcessLookupError:
                pass


class Failures(unittest.TestCase):
    def test_a_worker_that_dies_ends_each_answer_and_is_no_result(self):
        small, other = write("small.yaml", SEARCHED), write("other.yaml", SEARCHED.replace("32Ki", "16Ki"))
        sizes = write("sizes.yaml", SIZES.replace("global_batch: 1536", "global_batch: 48"))
        said = {signal.SIGKILL: r"its process died of signal 9 \(Killed\), three times: out of memory\?",
                signal.SIGABRT: r"its process died of signal 6 \(Aborted\)"}
        for arguments in (("sensitivity", small), ("compare", small, other), ("max", "data.context", small, "--to", "64Ki"),
                          ("capacity", sizes), ("explain", small)):
            folder, whole = fresh("died"), run(*arguments, "--json", "--output", fresh("alive"))
            self.assertEqual(whole.returncode, 0, whole.stderr)
            for number, reason in said.items():
                with self.subTest(arguments[0], number=number):
                    errors = SCRATCH / "killed.txt"
                    with errors.open("w") as file, begin(*arguments, "--quiet", "--output", folder, stderr=file) as process:
                        kill_workers(process, number)
                    self.assertEqual(process.returncode, 1)
                    self.assertRegex(errors.read_text(), rf"^slimsim: .+: {reason}; the same command computes it again\n$")
            done = run(*arguments, "--json", "--output", folder)
            self.assertEqual((done.returncode, done.stdout), (0, whole.stdout), done.stderr)
            self.assertEqual(counts(done)[0], counts(whole)[0])

    def test_a_dead_worker_leaves_the_finished_runs(self):
        path, folder = write("small.yaml", SEARCHED), fresh("half")
        whole = run("sensitivity", path, "--json", "--output", fresh("alive"))
        size = (SCRATCH / "alive" / "small.sensitivity.journal").stat().st_size
        journal = folder / "small.sensitivity.journal"
        with begin("sensitivity", path, "--output", folder) as process:
            while not journal.exists() or journal.stat().st_size < size / 2:
                self.assertIsNone(process.poll())
                time.sleep(0.001)
            kill_workers(process, signal.SIGABRT)
        self.assertEqual(process.returncode, 1)
        done = run("sensitivity", path, "--json", "--output", folder)
        self.assertEqual((done.returncode, done.stdout), (0, whole.stdout), done.stderr)
        self.assertGreaterEqual(counts(done)[2], counts(done)[0] // 4)

    def test_a_second_command_leaves_the_first_alone(self):
        path, folder = write("small.yaml", SEARCHED), fresh("both")
        whole = run("max", "data.context", path, "--to", "64Ki", "--json", "--output", fresh("alive"))
        command = [PROGRAM, "max", "data.context", path, "--to", "64Ki", "--json", "--output", folder]
        lock = folder / "small.max-data.context.answer"
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as first:
            while not lock.exists():
                self.assertIsNone(first.poll())
                time.sleep(0.001)
            first.send_signal(signal.SIGSTOP)
            second = run(*command[1:], "--set", "seed=8")
            first.send_signal(signal.SIGCONT)
            stdout, stderr = first.communicate()
        self.assertEqual((second.returncode, second.stdout), (75, ""))
        self.assertIn("small.max-data.context.answer: another slimsim writes results of this name", second.stderr)
        self.assertEqual((first.returncode, stdout), (0, whole.stdout), stderr)
        self.assertEqual([file.name for file in folder.iterdir()], ["small.max-data.context.journal"])


class Progress(unittest.TestCase):
    def first_line(self, *arguments):
        """Read the first line that a command shows in a file, and stop the command."""
        errors = SCRATCH / "progress.txt"
        with errors.open("w") as file, begin(*arguments, "--output", fresh("progress"), stderr=file) as process:
            begin_s = time.monotonic()
            while "\n" not in errors.read_text() and time.monotonic() - begin_s < WITHIN_S:
                self.assertIsNone(process.poll(), errors.read_text())
                time.sleep(0.01)
            process.kill()
        return errors.read_text().partition("\n")[0]

    def test_each_answer_says_within_two_seconds_what_runs(self):
        long, other, sizes = write("long.yaml", LONG), write("other.yaml", OTHER), write("sizes.yaml", SIZES)
        runs = r"(: \d+ of \d+ runs( and about \d+ later)?(, \d+:\d\d:\d\d left)?; now .*|: reads the scenarios)$"
        for arguments, said in ((("sensitivity", long), "^sensitivity" + runs), (("compare", long, other), "^compare" + runs),
                                (("max", "data.context", long, "--to", "1Mi"), "^max" + runs), (("capacity", sizes), "^capacity" + runs),
                                (("run", long, "--sweep", "seed=1,2,3"), "^run" + runs),
                                (("run", long), r"^plan search: (1 to do|\d+ of \d+ plans settled.*)$"),
                                (("explain", long), "^explain" + runs)):
            with self.subTest(arguments[0]):
                self.assertRegex(self.first_line(*arguments), said)

    def test_quiet__shows_nothing(self):
        done = run("sensitivity", write("small.yaml", SEARCHED), "--quiet", "--output", fresh("quiet"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)

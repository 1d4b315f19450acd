#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run `slimsim submit` with a real Slurm: slurmctld and two slurmd on loopback, in namespaces of their own.
So nothing of it can be reached from outside or outlives the test. They need root and Debian's slurm-wlm. Without them,
or if slurmd needs cgroups that are not there, they are skipped (77)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import unittest

from program import PROGRAM, SCRATCH, SMALL, rows

INSIDE = "SLIMSIM_TEST_SLURM_INSIDE"
NAMESPACES = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
SKIPPED = 77
HOST = "simtest"
FOLDER = SCRATCH / "a user's folder"  # where the user works: a shell would split and unquote this
WAIT_S = 120

CONFIGURATION = """\
ClusterName=simtest
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort=16817
SlurmdSpoolDir={run}/spool.%n
SlurmdPidFile={run}/slurmd.%n.pid
SlurmdLogFile={run}/slurmd.%n.log
SlurmctldPidFile={run}/slurmctld.pid
SlurmctldLogFile={run}/slurmctld.log
StateSaveLocation={run}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
KillWait=2
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=17001 CPUs=4 RealMemory=2000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port=17002 CPUs=4 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
CGROUPS = "CgroupPlugin=cgroup/v1\n"  # nothing here uses cgroups; to find out a version slurmd needs them mounted
SWEEP = SMALL.replace("name: small", "name: 50% of it") + "sweep: {iterations.measured: [2, 3], replicates: 5}\n"
ENDLESS = SWEEP.replace("[2, 3]", "[2, 1000000]")  # the first five points are those of SWEEP
QUESTION = SMALL.replace("name: small", "name: ask") + """\
capacity:
  tokens: 1e9
  offers:
    - {name: mine, nodes: {from: 1, to: 4}}
"""
FILES = ("50% of it.h5", "50% of it.csv", "50% of it.points.csv")


def call(*arguments):
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=300, cwd=FOLDER)


def wait_for(what, condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{WAIT_S} s are over: {what}\n{call('squeue').stdout}")
        time.sleep(0.1)


def queued(job):
    """Find the states of the tasks of a job that have not ended."""
    return call("squeue", "--noheader", "--array", "--states=all", f"--jobs={job}", "--format=%T").stdout.split()


def ended(job):
    return not {"PENDING", "RUNNING", "COMPLETING", "CONFIGURING"} & set(queued(job))


def commands():
    """Find the command lines of all processes. There are only those of this test."""
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            pass


class NoSlurm(Exception):
    """Slurm cannot run on this machine, for this reason."""


def start(command):
    if subprocess.run(command).returncode == 0:
        return
    for log in SCRATCH.glob("slurm/slurmd.*.log"):
        for line in log.read_text().splitlines():
            if "error: " in line and "cgroup" in line:
                raise NoSlurm(f"slurmd needs cgroups: {line.split('error: ')[1]}")
    raise AssertionError(f"{command} failed")


def start_slurm():
    """The daemons know one another by 127.0.0.1. Without the second address Slurm cannot resolve even that one."""
    run = SCRATCH / "slurm"
    for folder in (run, run / "state"):
        folder.mkdir()
    (run / "hosts").write_text(f"127.0.0.1 localhost {HOST}\n")
    (run / "cgroup.conf").write_text(CGROUPS)
    (run / "slurm.conf").write_text(CONFIGURATION.format(host=HOST, run=run))
    os.environ["SLURM_CONF"] = str(run / "slurm.conf")
    for command in (["hostname", HOST], ["ip", "link", "set", "lo", "up"], ["ip", "addr", "add", "127.0.0.2/32", "dev", "lo"],
                    ["mount", "--bind", run / "hosts", "/etc/hosts"], ["slurmctld", "-c"], ["slurmd", "-N", "n1"],
                    ["slurmd", "-N", "n2"]):
        start(command)
    wait_for("both nodes are idle", lambda: call("sinfo", "--noheader", "--states=idle", "--format=%D").stdout.strip() == "2")


class Submit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        (FOLDER / "sweep.yaml").write_text(SWEEP)
        (FOLDER / "endless.yaml").write_text(ENDLESS)
        done = call(PROGRAM, "run", "sweep.yaml", "--quiet", "--output", "whole")
        assert done.returncode == 0, done.stderr

    def submit(self, scenario, output, *arguments):
        """Submit both jobs: the array and the merge."""
        done = call(PROGRAM, "submit", scenario, "--shards", 3, "--partition", "main", "--time", "5", "--mem", "200M",
                    "--output", output, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        jobs = re.findall(r"^job (\d+):", done.stdout, re.MULTILINE)
        self.assertEqual(len(jobs), 2, done.stdout)
        return jobs

    def same(self, output):
        for name in FILES:
            self.assertEqual((FOLDER / "whole" / name).read_bytes(), (FOLDER / output / name).read_bytes(), name)

    def finish(self, output, *arguments):
        shards, merge = self.submit("sweep.yaml", output, *arguments)
        wait_for(f"merge of {output}", lambda: ended(merge))
        self.assertTrue(ended(shards))
        self.same(output)

    def test_the_merged_files_are_the_bytes_of_the_whole(self):
        self.finish("100% mine", "--jobs", 2)
        logs = sorted(path.name for path in (FOLDER / "100% mine").glob("*.log"))
        self.assertEqual(logs, ["50% of it.merge.log", *(f"50% of it.shard-{k}-of-3.log" for k in (1, 2, 3))])

    def test_a_cancelled_task_is_missing_until_the_sweep_is_submitted_again(self):
        shards, merge = self.submit("sweep.yaml", "cancelled", "--sbatch=--hold")
        call("scancel", f"{shards}_2")
        call("scontrol", "release", shards, merge)
        wait_for("merge of cancelled", lambda: ended(merge))
        self.assertIn("3 of 10 points are missing (1, 4, 7), of shard 2 of 3",
                      (FOLDER / "cancelled" / "50% of it.merge.log").read_text())
        self.assertFalse((FOLDER / "cancelled" / FILES[0]).exists())
        self.finish("cancelled")
        self.assertIn("4 points: 0 computed, 4 kept", (FOLDER / "cancelled" / "50% of it.shard-1-of-3.log").read_text())

    def test_tasks_cancelled_while_they_run_keep_their_points_and_leave_no_process(self):
        shards, merge = self.submit("endless.yaml", "stopped")
        logs = [FOLDER / "stopped" / f"50% of it.shard-{k}-of-3.log" for k in (1, 2, 3)]
        for log, done in zip(logs, ("2 of 4", "2 of 3", "1 of 3")):
            wait_for("a running task", lambda: log.exists() and done in log.read_text())
        call("scancel", shards)
        wait_for("merge of stopped", lambda: ended(merge))
        for log in logs:
            self.assertIn("stopped by signal 15; the same command continues", log.read_text())
        self.assertIn("5 of 10 points are missing", (FOLDER / "stopped" / "50% of it.merge.log").read_text())
        self.assertEqual([line for line in commands() if b"endless.yaml" in line], [])
        self.finish("stopped")
        self.assertIn("4 points: 2 computed, 2 kept", logs[0].read_text())

    def test_a_point_over_the_time_limit_is_marked(self):
        shards, merge = self.submit("endless.yaml", "marked", "--time-limit", "2s")
        wait_for("merge of marked", lambda: ended(merge))
        self.assertEqual([row["status"] for row in rows(FOLDER / "marked" / "50% of it.points.csv")],
                         ["done"] * 5 + ["time limit"] * 5)

    def test_a_question_of_capacity_is_answered_from_its_parts(self):
        (FOLDER / "ask.yaml").write_text(QUESTION)
        done = call(PROGRAM, "capacity", "ask.yaml", "--quiet", "--output", "asked")
        self.assertEqual(done.returncode, 0, done.stderr)
        shards, job = self.submit("ask.yaml", "parts")
        wait_for("answer of parts", lambda: ended(job))
        self.assertTrue(ended(shards))
        self.assertRegex((FOLDER / "parts" / "ask.sizes.shard-2-of-3.log").read_text(), r"\bruns?: 1 computed, ")
        self.assertIn("ask: train ", (FOLDER / "parts" / "ask.sizes.answer.log").read_text())
        for name in ("ask.capacity.csv", "ask.capacity.h5"):
            self.assertEqual((FOLDER / "asked" / name).read_bytes(), (FOLDER / "parts" / name).read_bytes(), name)

    def test_srun_says_which_part_a_process_computes(self):
        done = call("srun", "--ntasks=2", PROGRAM, "run", "sweep.yaml", "--shard", "auto", "--jobs", "1", "--quiet",
                    "--output", "srun")
        self.assertEqual(done.returncode, 0, done.stderr)
        journals = sorted((FOLDER / "srun").iterdir())
        self.assertEqual([path.name for path in journals], [f"50% of it.shard-{k}-of-2.journal" for k in (1, 2)])
        self.assertEqual(call(PROGRAM, "merge", *journals, "--output", "srun").returncode, 0)
        self.same("srun")

    def test_json_tells_both_jobs(self):
        done = call(PROGRAM, "submit", "sweep.yaml", "--shards", 3, "--sbatch=--hold", "--json", "--output", "json")
        told = json.loads(done.stdout)
        self.assertEqual((told["points"], told["shards"]), (10, 3))
        self.assertEqual(queued(told["job"]) + queued(told["merge_job"]), ["PENDING"] * 4)
        call("scancel", told["job"], told["merge_job"])

    def test_without_sbatch_it_says_so(self):
        done = subprocess.run([PROGRAM, "submit", "sweep.yaml", "--shards", "2", "--output", "nowhere"], cwd=FOLDER,
                              env={"PATH": "/nowhere"}, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^slimsim: nothing is submitted: there is no sbatch in PATH.*\n$")

    def test_what_sbatch_refuses_is_said(self):
        done = call(PROGRAM, "submit", "sweep.yaml", "--shards", 3, "--partition", "nowhere", "--output", "refused")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("invalid partition specified: nowhere", done.stderr)
        self.assertIn("slimsim: nothing is submitted", done.stderr)


def inside():
    """Run the tests, once Slurm runs."""
    shutil.rmtree(SCRATCH)
    FOLDER.mkdir(parents=True)
    try:
        start_slurm()
    except NoSlurm as why:
        print(f"skipped: {why}")
        return SKIPPED
    return 0 if unittest.main(verbosity=2, exit=False).result.wasSuccessful() else 1


def missing():
    """Give the reason why this test cannot run here, or nothing."""
    if os.geteuid() != 0:
        return "not root"
    for program in ("slurmctld", "slurmd", "sbatch", "unshare", "ip"):
        if shutil.which(program) is None:
            return f"no {program}"
    return "" if subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode == 0 else "unshare is not allowed"


if __name__ == "__main__":
    if INSIDE in os.environ:
        sys.exit(inside())
    if missing():
        print(f"skipped: {missing()}; ./packages.sh test installs Slurm, which this test starts as root in namespaces")
        sys.exit(SKIPPED)
    sys.exit(subprocess.run([*NAMESPACES, sys.executable, *sys.argv], env=os.environ | {INSIDE: "1"}).returncode)

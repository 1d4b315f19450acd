#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests compare SimGrid with the critical path for every training system. They also check SimGrid's options and
traces, and a child that is killed."""
import os
import pathlib
import re
import resource
import subprocess
import sys
import unittest

import h5py
import numpy as np

from program import PROGRAM, SANITIZED, fresh, point_of, rows, run, write

ROOT = pathlib.Path(__file__).resolve().parents[1]

SCENARIO = """\
name: {name}
model: llama-7b
device: h800
framework: slimpack-paper
platform: {platform}
data: {{lengths: github, context: 32Ki, global_batch: 48}}
iterations: {{warm_up: 1, measured: 2}}
engine: both
systems:
"""
PLANS = {  # of systems that do not take {tp: 2, pp: 2, recompute: norm+activation}
    "best-fit": "{tp: 2, pp: 2, cp: 2, recompute: norm+activation}",
    "flexsp": "{tp: 1, pp: 1, cp_type: ulysses, sharding: zero3, recompute: full}",
    "hotspa": "{tp: 4, pp: 2, recompute: full}",
    "odc": "{tp: 1, pp: 1, sharding: zero3, shard_communication: on-demand, recompute: full}",
}


def systems():
    return re.findall(r"^(\S+): ", run("list", "systems").stdout, flags=re.M)


def scenario(name, platform, labels):
    entries = "".join(f"  - {{name: {label}, plan: {PLANS.get(label, '{tp: 2, pp: 2, recompute: norm+activation}')}}}\n"
                      for label in labels)
    return write(f"{name}.yaml", SCENARIO.format(name=name, platform=platform) + entries)


class Engines(unittest.TestCase):
    def test_simgrid_equals_the_critical_path_of_every_system_without_contention(self):
        folder = fresh("free")
        done = run("run", scenario("free", "hopper-2x8-free", systems()), "-o", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(folder / "free.h5") as file:
            iterations = file["iterations"][()]
        self.assertEqual(len(iterations), 3 * len(systems()))
        self.assertTrue(all(np.isnan(row["simgrid_s"]) != row["measured"] for row in iterations))
        for row in iterations[iterations["measured"] != 0]:
            self.assertAlmostEqual(row["simgrid_s"] / row["critical_path_s"], 1, delta=1e-9, msg=str(row))

    def test_simgrid_equals_the_critical_path_on_other_nodes_without_contention(self):
        """The nodes are a domain of two, share NICs, or have no NVLink. XML of `slimsim platform` gives the same."""
        for i, keys in enumerate(("nvlink_domain: 8\nnodes: 4\ngpus_per_node: 4\nnvlink: 200GBps", "nics_per_node: 2\nnodes: 2\nnvlink: 200GBps",
                                  "nics_per_node: 2\nnodes: 2\nnvlink: none\nnuma: 22GBps")):
            file = write(f"node{i}.yaml", f"{keys}\nnic: 400Gbps\npcie: 64GBps\nhost_memory: 1TB\ncontention: false\nsource: a test\n")
            results = []
            for platform in (file, write(f"node{i}.xml", run("platform", file).stdout)):
                done = run("run", scenario("node", platform, systems()), "-o", fresh("node"), "--json", "--set", "iterations.measured=1")
                self.assertEqual(done.returncode, 0, done.stderr)
                results.append(point_of(done.stdout)["systems"])
                for system in results[-1]:
                    self.assertAlmostEqual(system["simgrid_mean_s"] / system["critical_path_mean_s"], 1, delta=1e-9, msg=str(system))
            self.assertEqual([system["simgrid_mean_s"] for system in results[0]], [system["simgrid_mean_s"] for system in results[1]])

    def test_options_of_simgrid_stand_in_the_trace(self):
        folder, path = fresh("cfg"), scenario("cfg", "hopper-2x8", ["best-fit"])
        done = run("run", path, "-v", "-o", folder, "--simgrid-cfg", "network/bandwidth-factor:0.5", "--simgrid-cfg",
                   "network/crosstraffic:yes")
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(folder / "cfg.h5") as file:
            self.assertIn('simgrid_cfg: "network/bandwidth-factor:0.5 network/crosstraffic:yes"',
                          str(file.attrs["scenario"]))
            measured = file["iterations"][()]
            measured = measured[measured["measured"] != 0]
            self.assertGreater(measured["simgrid_s"].min(), 1.01 * measured["critical_path_s"].min())
        self.assertIn("SimGrid's options network/bandwidth-factor:0.5", done.stdout)
        done = run("run", path, "-o", folder, "--simgrid-cfg", "cpu/optim:Full", "--set", "engine=critical-path")
        self.assertEqual(done.returncode, 2)
        self.assertIn("SimGrid does not run with engine critical-path", done.stderr)
        for wrong, status in (("nonsense", 64), ("nonsense:1", 2)):
            done = run("run", path, "-o", folder, "--simgrid-cfg", wrong)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn("nonsense", done.stderr)

    def test_options_of_simgrid_name_no_file(self):
        victim, folder = write("victim", "precious\n"), fresh("cfg-files")
        for option in (f"tracing/filename:{victim}", f"tracing/comment-file:{victim}", "contexts/nthreads:2", "cpu/model:help"):
            text = scenario("cfg-files", "hopper-2x8", ["best-fit"]).read_text() + f'simgrid_cfg: "cpu/optim:Full {option}"\n'
            done = run("run", write("cfg-files.yaml", text), "-o", folder)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"^slimsim: .*cfg-files.yaml:\d+:\d+: simgrid_cfg: '{option}' is no option that only "
                             r"changes models; allowed: bmf/max-iterations .* network/model .* surf/precision\n$")
            self.assertEqual((victim.read_text(), folder.exists()), ("precious\n", False))
        xml = run("platform", "hopper-2x8").stdout.replace("<zone", '<config><prop id="tracing" value="yes"/><prop '
                                                           f'id="tracing/filename" value="{victim}"/></config><zone', 1)
        done = run("run", scenario("cfg-xml", write("cfg.xml", xml), ["best-fit"]), "-o", folder)
        self.assertEqual((done.returncode, done.stdout, victim.read_text()), (2, "", "precious\n"))
        self.assertIn("<config>: 'tracing:yes' is no option that only changes models", done.stderr)

    def test_faster_options_are_no_bug(self):
        done = run("run", scenario("fast", "hopper-2x8", ["best-fit"]), "-o", fresh("fast"), "--json", "--simgrid-cfg",
                   "network/bandwidth-factor:100")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = point_of(done.stdout)["systems"][0]
        self.assertLess(result["simgrid_mean_s"], result["critical_path_mean_s"])

    def test_each_system_has_a_paje_file(self):
        folder = fresh("paje")
        folder.mkdir()
        path = scenario("paje", "hopper-2x8", ["best-fit", "slimpack"])
        done = run("run", path, "-o", folder, "--simgrid-trace", folder / "t.paje")
        self.assertEqual(done.returncode, 0, done.stderr)
        for label in ("best-fit", "slimpack"):
            self.assertIn("PajePushState", (folder / f"t-{label}.paje").read_text())
        for more, sentence in ((["--set", "engine=critical-path"], "SimGrid does not run with engine: critical-path"),
                               (["--sweep", "seed=1,2"], "--point INDEX")):
            done = run("run", path, "-o", folder, "--simgrid-trace", folder / "t.paje", *more)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(sentence, done.stderr)

    def test_simgrid_trace__replaces_nothing_but_its_like(self):
        folder = fresh("paje-before")
        folder.mkdir()
        path, trace = scenario("paje", "hopper-2x8", ["best-fit"]), folder / "t.paje"
        trace.write_text("of somebody else\n")
        (folder / "link.paje").symlink_to(trace)
        (folder / "dangling.paje").symlink_to(folder / "nothing")
        os.mkfifo(folder / "pipe.paje")

        def refused(name, status, sentence):
            before = sorted(folder.iterdir())
            done = run("run", path, "--set", "trace=none", "-o", folder, "--simgrid-trace", folder / name)
            self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertEqual((sorted(folder.iterdir()), trace.read_text()), (before, "of somebody else\n"))

        refused("t.paje", 2, "t.paje is no SimGrid trace of slimsim, which this command would replace; to keep both choose another --simgrid-trace")
        for name in ("link.paje", "dangling.paje", "pipe.paje", "/dev/full"):
            refused(name, 73, f"{name}: it is not a regular file")
        refused("", 73, "Is a directory")
        refused("nowhere/t.paje", 73, "No such file or directory")
        trace.unlink()
        for _ in range(2):
            self.assertEqual(run("run", path, "--set", "trace=none", "-o", folder, "--simgrid-trace", trace).returncode, 0)
            self.assertIn("PajePushState", trace.read_text())
        self.assertEqual({file.name for file in folder.iterdir()}, {"t.paje", "link.paje", "dangling.paje", "pipe.paje"})

    @unittest.skipIf(SANITIZED, "sanitizers want all memory")
    def test_too_little_memory_for_simgrid_interrupts(self):
        done = run("run", ROOT / "bench/scale.yaml", "-o", fresh("memory"), "--process-memory", "60MiB", "--set",
                   "platform=hopper-512x8", "--set", "data.global_batch=64", "--set", "engine=simgrid")
        self.assertEqual(done.returncode, 71, done.stderr)
        self.assertIn("interrupted: SimGrid's process was killed twice", done.stderr)

    @unittest.skipIf(SANITIZED, "the program itself would reach the limit")
    def test_a_point_whose_simgrid_is_killed_is_interrupted_and_computed_again(self):
        """A second of CPU time is too little for SimGrid with 4096 GPUs, and the kernel kills it. slimsim needs
        less."""
        folder = fresh("killed")
        command = [PROGRAM, "run", ROOT / "bench/scale.yaml", "-o", folder, "--set", "platform=hopper-512x8", "--set",
                   "data.global_batch=4096", "--set", "engine=simgrid", "--sweep", "seed=1"]

        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (1, 1))

        done = subprocess.run(command, capture_output=True, text=True, timeout=300, preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stderr)
        row = rows(folder / "scale.points.csv")[0]
        self.assertEqual(row["status"], "killed")
        self.assertIn("interrupted: SimGrid's process was killed twice", row["message"])
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows(folder / "scale.points.csv")[0]["status"], "done")


if __name__ == "__main__":
    sys.exit(unittest.main())

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Events for Holistic Trace Analysis: its rules, replayed here, give what the trace's tables say. HTA itself is not packaged."""
import json
import re
import unittest

import h5py

from cli_case import SMALL, simulate
from program import SCRATCH, fresh, run, write

SCENARIO = SMALL.replace("cp: 2, recompute: norm+activation", "cp: 2, recompute: norm+activation, offload: 0.5")
# How versions of HTA know a communication kernel: utils.py before and after its issue 122, and straggler.py.
COMMUNICATION = (lambda name: "ncclKernel" in name, re.compile("^nccl.*Kernel").match, lambda name: name.startswith("ncclKernel"))
NEEDED = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"}


def kernel_type(name):
    """Sort a kernel as HTA's get_kernel_type does. All versions must agree."""
    answers = {bool(rule(name)) for rule in COMMUNICATION}
    assert len(answers) == 1, name
    return "COMMUNICATION" if answers.pop() else "MEMORY" if "Memcpy" in name or "Memset" in name else "COMPUTATION"


def covered(spans):
    """Add up the time that at least one span covers."""
    total, reached = 0, 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def read_folder(folder):
    """Map ranks to their events, as HTA finds them in a folder."""
    ranks = {}
    for path in folder.iterdir():
        assert path.name.endswith(".json")
        trace = json.loads(path.read_text())
        rank = trace["distributedInfo"]["rank"]
        assert isinstance(rank, int) and rank >= 0 and rank not in ranks
        ranks[rank] = trace
    return ranks


class Hta(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = simulate("hta", scenario=SCENARIO)
        assert done.returncode == 0, done.stderr
        cls.trace = SCRATCH / "hta/small.h5"
        with h5py.File(cls.trace) as file:
            cls.tasks, cls.kind, cls.purpose = file["tasks"][:], *(
                [text.decode() for text in file["tasks"].attrs[name]] for name in ("kind_names", "purpose_names"))
            cls.gpus = int(file["summary"]["gpus"][0])

    def expected(self, system):
        """Take the spans of each rank and type from the table `tasks`."""
        types = {}
        for task in self.tasks[self.tasks["system"] == system]:
            kind, purpose = self.kind[task["kind"]], self.purpose[task["purpose"]]
            name = ("COMPUTATION" if kind in ("compute", "attention", "optimizer") else
                    "MEMORY" if purpose in ("offload", "prefetch") else "COMMUNICATION")
            types.setdefault(int(task["rank"]), {}).setdefault(name, []).append((task["start_s"], task["finish_s"]))
        return types

    def test_hta__its_rules_give_the_times_of_the_trace(self):
        for system, label in enumerate(("best-fit", "slimpack")):
            folder = fresh(f"hta-{label}")
            done = run("export", self.trace, "--hta", folder, "--system", label)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            ranks, expected = read_folder(folder), self.expected(system)
            self.assertEqual(set(ranks), set(expected))
            self.assertEqual("MEMORY" in expected[0], label == "best-fit")
            for rank, trace in ranks.items():
                self.assertEqual(trace["distributedInfo"], {"backend": "nccl", "rank": rank, "world_size": self.gpus})
                spans = {}
                for event in (event for event in trace["traceEvents"] if event["ph"] == "X"):
                    self.assertLessEqual(NEEDED, set(event))
                    self.assertGreater(event["args"]["stream"], 0)
                    name = kernel_type(event["name"])
                    self.assertEqual(event["cat"], "gpu_memcpy" if name == "MEMORY" else "kernel")
                    spans.setdefault(name, []).append((event["ts"] / 1e6, (event["ts"] + event["dur"]) / 1e6))
                self.assertEqual(set(spans), set(expected[rank]))
                for name, times in spans.items():
                    self.assertAlmostEqual(covered(times), covered(expected[rank][name]), places=5)

    def test_hta__a_scenario_gives_the_files_of_its_trace(self):
        """The trace has the iteration that is nearest to the means; here both systems have the same one."""
        with h5py.File(self.trace) as file:
            iteration = int(file.attrs["traced_iterations"][0])
        scenario = write("hta.yaml", SCENARIO)
        texts = []
        for arguments in ((self.trace,), (scenario, "--iteration", iteration)):
            folder = fresh("hta-same")
            self.assertEqual(run("export", *arguments, "--hta", folder).returncode, 0)
            texts.append({path.name: path.read_text() for path in folder.iterdir()})
        self.assertEqual(*texts)

    def test_hta__options_that_do_not_fit_are_refused(self):
        for arguments, status, said in ((("--hta", SCRATCH / "x", "--chrome"), 64, "exactly one of"),
                                        (("--chrome", "--system", "slimpack"), 64, "--hta takes a trace's --system"),
                                        (("--hta", SCRATCH / "x", "--system", "slim"), 2, "has no system 'slim'; allowed: best-fit, slimpack"),
                                        (("--hta", SCRATCH), 73, "the folder holds files"),
                                        (("--hta", self.trace), 73, "cannot make this output folder")):
            done = run("export", self.trace, *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""), arguments)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what `slimsim export` makes of a scenario: events for a viewer, and flags of Megatron-LM."""
import json
import unittest

import h5py
import program
from program import SCRATCH, run, write

PHASES = {"M": {"name", "pid", "args"}, "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"}, "C": {"name", "pid", "ts", "args"},
          "s": {"name", "cat", "id", "pid", "tid", "ts"}, "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"}}


class Chrome(unittest.TestCase):
    def export(self, *arguments, scenario=program.SMALL):
        done = run("export", write("small.yaml", scenario), "--chrome", *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["traceEvents"]

    def test_export__writes_the_iteration_that_a_full_trace_has(self):
        """One iteration is traced, with both engines and warm-up, and its arrows are the boundaries that moved bytes."""
        scenario = program.SMALL.replace("warm_up: 0", "warm_up: 1").replace("critical-path", "both\ntrace: full")
        self.assertEqual(run("run", write("small.yaml", scenario), "--quiet", "--output", SCRATCH).returncode, 0)
        with h5py.File(SCRATCH / "small.h5") as file:
            iteration = int(file.attrs["traced_iterations"][0])
            transfers, names = file["transfers"][:], [name.decode() for name in file["tasks"].attrs["purpose_names"]]
        whole = json.loads(run("export", SCRATCH / "small.h5", "--chrome").stdout)["traceEvents"]
        for system, label in enumerate(("best-fit", "slimpack")):
            events = self.export("--system", label, "--iteration", iteration, scenario=scenario)
            spans = lambda events, first: sorted((e["pid"] - first, e["tid"], e["name"], e["ts"], e["dur"], str(e["args"]))
                                                 for e in events if e["ph"] == "X" and e["pid"] // 16 * 16 == first)
            self.assertEqual(spans(events, 0), spans(whole, 16 * system))
            moved = transfers[(transfers["system"] == system) & (transfers["purpose"] == names.index("boundary"))]
            self.assertEqual(sum(event["ph"] == "s" for event in events), len(moved))
            self.assertGreater(len(moved), 0)

    def test_export__writes_valid_events_whose_arrows_go_forward(self):
        """Each arrow has one begin and one end, inside events of their tracks, and ends where a pass starts."""
        events = self.export("--iteration", 1)
        spans, ends = {}, {"s": {}, "f": {}}
        for event in events:
            self.assertLessEqual(PHASES[event["ph"]], set(event))
            self.assertGreaterEqual(event.get("ts", 0), 0)
            if event["ph"] == "X":
                spans.setdefault((event["pid"], event["tid"]), []).append(event)
            if event["ph"] in ends:
                self.assertNotIn(event["id"], ends[event["ph"]])
                ends[event["ph"]][event["id"]] = event
        self.assertEqual(set(ends["s"]), set(ends["f"]))
        for number, begin in ends["s"].items():
            end = ends["f"][number]
            self.assertLess(begin["ts"], end["ts"])
            self.assertNotEqual(begin["pid"], end["pid"])
            sends = [span for span in spans[begin["pid"], begin["tid"]] if span["ts"] == begin["ts"]]
            receives = [span for span in spans[end["pid"], end["tid"]] if span["ts"] == end["ts"]]
            self.assertTrue(any(span["name"].startswith("boundary ") for span in sends))
            self.assertTrue(any(span["cat"].startswith("compute") for span in receives))

    def test_export__marks_a_critical_path_without_gaps(self):
        events = [event for event in self.export() if event["ph"] == "X"]
        critical = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["args"].get("critical"))
        self.assertLess(len(critical), len(events))
        reached = 0
        for begin, end in critical:
            self.assertLessEqual(begin, reached + 0.001)
            reached = max(reached, end)
        self.assertAlmostEqual(reached, max(event["ts"] + event["dur"] for event in events), places=2)
        for event in events:
            marks = event["args"].get("critical", False), event["cat"].endswith(",critical"), "cname" in event
            self.assertEqual(len(set(marks)), 1, event)

    def test_export__says_how_to_narrow_much_text(self):
        """64 pipelines on 1,024 GPUs run 64 micro-batches each."""
        big = program.SMALL.replace("hopper-2x8", "hopper-128x8").replace("lengths: github, context: 32Ki, global_batch: 48",
                                                                           "lengths: fixed, context: 1Ki, global_batch: 4Ki")
        systems = big.index("systems:")
        big = big[:systems] + "systems: [{name: best-fit, plan: {tp: 1, pp: 16, recompute: full}, knobs: {micro_batch: 1}}]\n"
        done = run("export", write("big.yaml", big), "--chrome")
        self.assertEqual(done.returncode, 0)
        said = f"about {len(done.stdout) / 1e6:.0f} MB"
        self.assertRegex(done.stderr, "^slimsim: the JSON has about [0-9]* MB, .* a smaller data.global_batch has fewer events\n$")
        self.assertLess(abs(int(done.stderr.split()[5]) / (len(done.stdout) / 1e6) - 1), 0.3, (done.stderr, said))

    def test_export__refuses_options_that_do_not_fit(self):
        path = write("small.yaml", program.SMALL)
        for arguments, said in (((path, "--chrome", "--csv", "tasks"), "exactly one of"), ((path,), "exactly one of"),
                                ((path, "--csv", "tasks"), "--csv takes a trace"), ((path, "--chrome", "--point", "1"), "--point applies"),
                                (("x.h5", "--chrome", "--iteration", "1"), "apply to a scenario"),
                                ((path, "--dag", "dot", "--iteration", "1"), "--iteration needs --chrome")):
            done = run("export", *arguments)
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn(said, done.stderr)
        done = run("export", path, "--chrome", "--system", "slim")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no system has the label 'slim'; allowed: best-fit, slimpack", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

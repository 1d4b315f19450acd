#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests read the trace that test_record wrote with other programs: h5py, pandas.read_hdf, the timeline."""
import json
import os
import pathlib
import subprocess
import sys
import unittest
import warnings

import h5py
import numpy
import pandas

SCRATCH = pathlib.Path(os.environ["SLIMSIM_SCRATCH"])
TRACE = SCRATCH.parent / "sample.h5"
TIMELINE = pathlib.Path(__file__).resolve().parent.parent / "analysis" / "timeline.py"
sys.path.insert(0, str(TIMELINE.parent))

from common import Trace, text_of  # noqa: E402  after the path
from slimsim.plot import spans, timeline  # noqa: E402

TABLES = ["edges", "iterations", "lengths", "memory", "stages", "summary", "tasks", "transfers", "micro_batches"]


def fractions_of_spans(of_ranks):
    """{what: share of all GPUs' time} by the spans of all ranks."""
    sums = dict.fromkeys((spans.COMPUTE, *spans.COLUMNS), 0.0)
    for rank, of_rank in of_ranks.items():
        for span in of_rank:
            sums[spans.COMPUTE if span.what == spans.OPTIMIZER else span.what] += rank.gpus * (span.finish_s - span.start_s)
    return {what: seconds / sum(sums.values()) for what, seconds in sums.items()}


class Reading(unittest.TestCase):
    def setUp(self):
        self.file = h5py.File(TRACE)
        self.addCleanup(self.file.close)

    def test_tables_hold_plain_scalars_whose_columns_are_explained(self):
        self.assertEqual(sorted(self.file), sorted(TABLES + ["assumed", "systems"]))
        for table in TABLES:
            data = self.file[table]
            rows = 8192 if data.dtype.itemsize > 512 else 16384  # a chunk has at most 8 MiB
            self.assertEqual((data.chunks, data.compression, data.compression_opts), ((rows,), "gzip", 4))
            self.assertTrue(data.shuffle and data.fletcher32)
            for column in data.dtype.names:
                self.assertIn(data.dtype[column].kind, "S" if column == "plan_text" else "if", column)
                self.assertTrue(data.attrs[column + "_unit"] and data.attrs[column + "_meaning"])

    def test_root_says_what_ran(self):
        attributes = self.file.attrs
        self.assertEqual(attributes["complete"], 1)
        self.assertEqual(attributes["format_version"], 2)
        self.assertEqual(attributes["scenario"].decode(), "name: sample\n")
        self.assertEqual(list(attributes["traced_iterations"]), [3])
        self.assertIn(b"varying lengths, context 262,144 (measured to ", attributes["outside_measured_runs"])
        self.assertEqual(list(self.file["systems"]), [b"best-fit", b'slim, "packed"'])
        self.assertTrue(self.file["assumed"][0].startswith(b"engine: "))
        self.assertEqual(self.file["tasks"].attrs["kind_names"][2], b"send")

    def test_a_number_that_a_row_lacks_is_nan(self):
        """The second system has no intervals, as if it had one iteration."""
        summary = self.file["summary"]
        self.assertEqual(summary["tokens_per_s_per_gpu_interval"][0], 51.5)
        self.assertTrue(numpy.isnan(summary["tokens_per_s_per_gpu_interval"][1]))
        self.assertIn("NaN: one iteration", text_of(summary.attrs["tokens_per_s_per_gpu_interval_meaning"]))
        self.assertTrue(pandas.read_hdf(TRACE, "summary")["speed_up_interval"].isna()[1])
        self.assertEqual(list(summary["first_exceeds_limit"]), [0, 1])

    def test_pandas_reads_every_table_at_once(self):
        for table in TABLES:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                frame = pandas.read_hdf(TRACE, table)
            rows = self.file[table][:]
            self.assertEqual(list(frame.columns), list(rows.dtype.names))
            for column in frame.columns:
                text = rows.dtype[column].kind == "S"
                numpy.testing.assert_array_equal(frame[column].to_numpy(), numpy.char.decode(rows[column]) if text else rows[column])


class Chrome(unittest.TestCase):
    def test_events_of_a_track_never_overlap(self):
        done = subprocess.run([os.environ["SLIMSIM"], "export", TRACE, "--chrome"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        events, tracks = json.loads(done.stdout)["traceEvents"], {}
        for event in events:
            if event["ph"] == "X":
                begin = round(event["ts"] * 1000)
                tracks.setdefault((event["pid"], event["tid"]), []).append((begin, begin + round(event["dur"] * 1000)))
        with h5py.File(TRACE) as file:
            self.assertEqual(sum(map(len, tracks.values())), len(file["tasks"]))
        for spans in tracks.values():
            spans.sort()
            for (_, end), (begin, _) in zip(spans, spans[1:]):
                self.assertLessEqual(end, begin)


class Timeline(unittest.TestCase):
    def draw(self, *arguments):
        return subprocess.run([sys.executable, TIMELINE, *map(str, arguments)], capture_output=True, text=True)

    def test_same_trace_gives_the_same_pictures(self):
        pictures = []
        for name in ("first", "second"):
            outputs = [SCRATCH / f"{name}.png", SCRATCH / f"{name}.svg"]
            done = self.draw(TRACE, "--output", *outputs)
            self.assertEqual(done.returncode, 0, done.stderr)
            pictures.append([path.read_bytes() for path in outputs])
        self.assertEqual(pictures[0], pictures[1])
        self.assertTrue(pictures[0][0].startswith(b"\x89PNG") and b"<svg" in pictures[0][1])

    def test_each_virtual_stage_has_a_pass_and_none_is_beside_another(self):
        """A pipeline has 8 micro-batches, so each virtual stage has 8 passes each way. A split backward has two
        parts."""
        scenario = SCRATCH / "virtual.yaml"
        plans = "[{name: best-fit, plan: {tp: 2, pp: 2, vpp: 2}}, {name: best-fit, label: zb, plan: {tp: 2, pp: 2, schedule: zero-bubble}}]"
        scenario.write_text("{model: llama-7b, device: h800, framework: slimpack-paper, platform: hopper-1x8, seed: 1, engine: critical-path, trace: full, "
                            "data: {lengths: fixed, context: 4Ki, global_batch: 16}, iterations: {warm_up: 0, measured: 1}, "
                            f"systems: {plans}}}")
        done = subprocess.run([os.environ["SLIMSIM"], "run", scenario, "--output", SCRATCH, "--quiet"], capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        trace = Trace(SCRATCH / "virtual.h5")
        for system, n in ((0, [16, 16]), (1, [8, 8, 8])):
            tasks = trace.rows("tasks", system)
            for stage in (0, 1):
                passes = trace.passes(tasks[(tasks["stage"] == stage) & (tasks["pipeline"] == 1)])
                self.assertEqual(list(numpy.bincount([key[2] for key, _, _ in passes])), n)
                for (_, _, finish_s), (_, start_s, _) in zip(passes, passes[1:]):
                    self.assertLessEqual(finish_s, start_s)
        self.assertEqual(self.draw(SCRATCH / "virtual.h5", "--output", SCRATCH / "virtual.svg", "--pipeline", 1).returncode, 0)

    def run_scenario(self, name, keys, systems):
        scenario = SCRATCH / f"{name}.yaml"
        scenario.write_text("{model: llama-7b, device: h800, platform: hopper-2x8, seed: 1, trace: full, "
                            f"data: {{lengths: github, context: 64Ki, global_batch: 64}}, {keys}, systems: {systems}}}")
        done = subprocess.run([os.environ["SLIMSIM"], "run", scenario, "--output", SCRATCH, "--quiet"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Trace(SCRATCH / f"{name}.h5")

    def test_shares_are_those_of_the_iterations_table(self):
        """Spans of all ranks add up to the columns of the iteration, whatever is exposed."""
        systems = ("[{name: best-fit, plan: {tp: 2, pp: 2, cp: 2, vpp: 2}}, {name: slimpack, plan: {tp: 2, pp: 4}}, "
                   "{name: best-fit, label: zb, plan: {tp: 2, pp: 2, cp: 4, schedule: zero-bubble}}, "
                   "{name: flexsp, plan: {tp: 1, pp: 1, sharding: zero3, cp_type: ulysses}}, {name: hotspa, plan: {tp: 8, pp: 1}}]")
        faults = "[{kind: gpu, gpus: 3, factor: 1.5}]"
        for name, keys, entries in (("shares", "engine: both, iterations: {warm_up: 1, measured: 4}", systems),
                                    ("shares-faults", f"engine: simgrid, iterations: {{warm_up: 0, measured: 1}}, faults: {faults}",
                                     systems.split(", {name: flexsp")[0] + "]")):
            trace = self.run_scenario(name, keys, entries)
            for number, label in enumerate(trace.labels):
                system = timeline.read_system(trace, number, trace.first_iteration())
                of_table, of_spans = spans.fractions_of(system.iteration), fractions_of_spans(system.spans)
                for what, share in of_table.items():
                    self.assertAlmostEqual(share, of_spans[what], places=12, msg=f"{label}: {spans.COLUMNS.get(what)}")
                for rank, of_rank in system.spans.items():
                    for before, after in zip(of_rank, of_rank[1:]):
                        self.assertLess(abs(before.finish_s - after.start_s), 1e-9, rank)
            self.assertEqual(self.draw(SCRATCH / f"{name}.h5", "--output", SCRATCH / f"{name}.png").returncode, 0)
        rows = Trace(SCRATCH / "shares.h5").table("iterations")
        for column in ("tensor_s", "shard_s", "ring_s", "sync_s", "warm_up_s", "dp_wait_s", "reshard_s"):
            self.assertGreater(rows[column].max(), 0, column)  # else the test would compare zeros

    def test_the_iteration_of_the_tasks_is_the_nearest_to_the_means(self):
        """wlb-llm holds a state, so it must plan the iterations before it again."""
        trace = self.run_scenario("nearest", "engine: critical-path, iterations: {warm_up: 2, measured: 6}",
                                  "[{name: best-fit, plan: {tp: 2, pp: 2}}, {name: wlb-llm, plan: {tp: 2, pp: 2}}]")
        rows = trace.table("iterations")
        times = numpy.array([rows["time_s"][(rows["system"] == system) & (rows["measured"] == 1)] for system in (0, 1)])
        distance = abs(times / times.mean(axis=1, keepdims=True) - 1).sum(axis=0)
        self.assertEqual(list(trace.attributes["traced_iterations"]), [2 + distance.argmin()])
        for system in (0, 1):
            tasks = trace.rows("tasks", system, 2 + distance.argmin())
            self.assertEqual(len(tasks), len(trace.rows("tasks", system)))
            self.assertAlmostEqual(tasks["finish_s"].max(), times[system][distance.argmin()], places=12)

    def test_a_picture_that_cannot_be_written_is_one_sentence(self):
        for path, status, reason in ((SCRATCH / "no" / "such.png", 73, f"cannot create {SCRATCH}/no/such.png: No such file"),
                                     (SCRATCH / "picture.txt", 2, "no picture of .png, .svg or .pdf")):
            done = self.draw(TRACE, "--output", path)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_trace_without_tasks_is_one_sentence(self):
        with h5py.File(SCRATCH / "no-tasks.h5", "w") as file:
            file.attrs["complete"] = 1
        done = self.draw(SCRATCH / "no-tasks.h5", "--output", SCRATCH / "none.png")
        self.assertEqual(done.returncode, 2)
        self.assertIn("trace: full", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()

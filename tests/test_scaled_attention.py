#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run a chip whose attention nobody measured, and look for both ends of its rate in every answer."""
import csv
import json
import re
import unittest

from cli_case import SOURCE
from program import fresh, point_of, run, write

# The data sheet of a B200: that of an H200 with other sizes, as docs/howto/own-device.md tells.
B200 = {
    "name": "b200",
    "peak_flop_per_s": "2250e12",
    "hbm_bytes_per_s": "8e12",
    "nvlink_bytes_per_s": "900e9",
    "memory_bytes": "192e9",
    "multiprocessors": "148",
    "tensor_flop_per_clock": "8192\ncompute_capability: 10.0",
}
SHEET = (SOURCE / "model/gpu/h200.yaml").read_text().split("# Fitted values")[0]
for key, value in B200.items():
    SHEET = re.sub(rf"^{key}: .*", f"{key}: {value}", SHEET, count=1, flags=re.M)
SCENARIO = """\
name: chips
model: qwen3-32b
device: DEVICE
platform: {nodes: 8, gpus_per_node: 8, nic: 400Gbps}
data: {lengths: github, context: 128Ki, global_batch: 256}
iterations: {warm_up: 0, measured: 1}
engine: critical-path
systems:
  - {name: best-fit, plan: {tp: 4, pp: 1, cp: 4, recompute: norm+activation}}
"""
CAPACITY = """\
capacity:
  tokens: 1e11
  days: 60
  offers:
    - name: b200
      device: DEVICE
      platform: {gpus_per_node: 8, nic: 400Gbps, pcie: 64GBps, host_memory: 2TB}
      price: {usd_per_gpu_hour: 5}
      nodes: {from: 8, to: 8}
"""


class ScaledAttention(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sheet, cls.device = write("sheet.yaml", SHEET), write("b200.yaml", "")
        cls.device.unlink()
        done = run("calibrate", "--device", sheet, "--output", cls.device)
        assert done.returncode == 0, done.stderr
        cls.path = write("chips.yaml", SCENARIO.replace("DEVICE", str(cls.device)))

    def simulate(self, *sets):
        words = [word for option in sets for word in ("--set", option)]
        done = run("run", self.path, *words, "--json", "--quiet", "--output", fresh("runs"))
        self.assertEqual(done.returncode, 0, done.stderr)
        return point_of(done.stdout)["systems"][0]

    def test_both_ends__are_runs_with_either_kernel(self):
        """The second end is the run with flash2 named. An H100 is slower than both, and has one end."""
        both, low, high = self.simulate(), self.simulate("attention=flash2"), self.simulate("attention=flash3")
        self.assertEqual(both["tokens_per_s_per_gpu"], high["tokens_per_s_per_gpu"])
        self.assertAlmostEqual(both["tokens_per_s_per_gpu_flash2"] / low["tokens_per_s_per_gpu"], 1, delta=1e-12)
        self.assertIsNone(low["tokens_per_s_per_gpu_flash2"])
        h100 = self.simulate("device=h100-sxm")
        self.assertIsNone(h100["tokens_per_s_per_gpu_flash2"])
        self.assertLess(h100["tokens_per_s_per_gpu"], both["tokens_per_s_per_gpu"])

    def said(self, text):
        """Find the sentence, which may be wrapped."""
        found = re.search(r"attention of b200 is not measured: h100-sxm's [a-z0-9 ]+ curve, scaled to its peak; [^:]+: ([0-9,]+) tokens/s/GPU, "
                          r"with flash2's curve and the same plan ([0-9,]+)", re.sub(r"\n +", " ", text))
        self.assertIsNotNone(found, text)
        return [int(number.replace(",", "")) for number in found.groups()]

    def test_answers__name_both_ends(self):
        both = self.simulate()
        ends = [round(both["tokens_per_s_per_gpu"]), round(both["tokens_per_s_per_gpu_flash2"])]
        for command in (("run",), ("run", "-v"), ("sensitivity",)):
            done = run(*command, self.path, "--quiet", "--output", fresh("said"))
            self.assertEqual(self.said(done.stdout), ends)
        capacity = write("capacity.yaml", self.path.read_text() + CAPACITY.replace("DEVICE", str(self.device)))
        done = run("capacity", capacity, "--quiet", "--output", fresh("said"))
        self.assertEqual(done.returncode, 0, done.stderr)
        high, low = self.said(done.stdout)
        self.assertLess(low, high)
        self.assertIn("attention flash2", done.stdout)

    def test_sensitivity__changes_the_kernel(self):
        done = run("sensitivity", self.path, "--json", "--quiet", "--output", fresh("changes"))
        changes = {change["name"]: change["systems"][0] for change in json.loads(done.stdout)["changes"]}
        both = self.simulate()
        self.assertAlmostEqual(changes["attention flash2"]["gain"],
                               both["tokens_per_s_per_gpu_flash2"] / both["tokens_per_s_per_gpu"] - 1, delta=1e-12)

    def test_sweep__has_a_column_for_the_other_end(self):
        folder = fresh("sweep")
        done = run("run", self.path, "--sweep", f"device=h100-sxm,{self.device}", "--quiet", "--output", folder)
        self.assertIn("flash2: tokens/s/GPU with flash2's curve and the same plan; attention of these chips is not measured", done.stdout)
        with open(folder / "chips.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(rows[0]["tokens_per_s_per_gpu_flash2"], "")
        self.assertAlmostEqual(float(rows[1]["tokens_per_s_per_gpu_flash2"]), self.simulate()["tokens_per_s_per_gpu_flash2"], delta=1e-6)
        done = run("run", self.path, "--sweep", "device=h100-sxm,h200", "--quiet", "--output", fresh("measured"))
        self.assertNotIn("flash2", done.stdout)


if __name__ == "__main__":
    unittest.main()

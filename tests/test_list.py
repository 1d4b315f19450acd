#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests read the tables of `slimsim list`."""
import json
import math
import os
import re
import shutil
import unittest

import yaml

from cli_case import SOURCE
from program import SCRATCH, fresh, run

FOLDERS = {"models": "model/llm", "devices": "model/gpu", "platforms": "platforms", "lengths": "model/lengths",
           "frameworks": "model/framework"}


def read(path):
    return yaml.safe_load((SOURCE / path).read_text())


class Lists(unittest.TestCase):
    def table(self, name, **options):
        """The rows of a table, by their first cell. Cells are separated by two blanks."""
        done = run("list", name, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.split("\n\n")[0].splitlines()
        self.assertLessEqual(max(map(len, lines)), 100, name)
        head, *rows = [re.split(r"  +", line.strip()) for line in lines]
        self.assertEqual({len(row) for row in rows}, {len(head)}, name)
        return {row[0]: dict(zip(head, row)) for row in rows}

    def test_list__has_a_row_for_each_file(self):
        for name, folder in FOLDERS.items():
            self.assertEqual(list(self.table(name)), sorted(path.stem for path in (SOURCE / folder).glob("*.yaml")))

    def test_list_json__has_the_rows_in_si_units(self):
        told = {name: json.loads(run("list", name, "--json").stdout) for name in (*FOLDERS, "systems", "keys")}
        self.assertEqual({(name, of["format_version"], of["list"] == name) for name, of in told.items()}, {(name, 1, True) for name in told})
        for name in FOLDERS:
            self.assertEqual([next(iter(row.values())) for row in told[name]["rows"]], list(self.table(name)))
        (model,) = [row for row in told["models"]["rows"] if row["model"] == "llama2-70b"]
        self.assertEqual((model["parameters"], model["kv_heads"]), (68976648192, 8))
        (nic,) = {row["nic_bytes_per_s"] for row in told["platforms"]["rows"] if row["platform"] == "h100"}
        self.assertEqual(nic, 50e9)
        keys = {row["key"]: row for row in told["keys"]["rows"]}
        self.assertEqual(keys["data.context"]["unit"], "tokens")
        self.assertIn("capacity.tokens", keys)
        (slimpack,) = [row for row in told["systems"]["rows"] if row["system"] == "slimpack"]
        self.assertIn("knobs.slicing", [knob["key"] for knob in slimpack["knobs"]])

    def test_list_models__counts_parameters(self):
        """Llama-2 70B has 68,976,648,192 parameters, Llama-3 8B 8,030,261,248, as Hugging Face counts them."""
        rows = self.table("models")
        self.assertEqual(rows["llama2-70b"], {"model": "llama2-70b", "parameters [B]": "68.98", "layers": "80", "hidden": "8192",
                                              "ffn": "28672", "heads": "64", "kv heads": "8", "head width": "128", "vocabulary": "32000"})
        self.assertEqual(rows["llama3-8b"]["parameters [B]"], "8.03")
        (deepseek,) = [row for row in json.loads(run("list", "models", "--json").stdout)["rows"] if row["model"] == "deepseek-v3"]
        self.assertAlmostEqual(deepseek["parameters"] / 671.03e9, 1, delta=1e-5)
        self.assertAlmostEqual(deepseek["active_parameters"] / 37.55e9, 1, delta=1e-4)

    def test_list_models__says_windows_and_kinds_of_layers(self):
        """Every sixth of the 34 layers of Gemma 3 4B is global."""
        below = run("list", "models").stdout.split("\n\n")[1].splitlines()
        self.assertIn("  gemma-3-4b: 29 local (window 1024), 5 global", below)
        self.assertIn("  mistral-7b: all (window 4096)", below)
        self.assertIn("  mixtral-8x7b: all (8 experts, top 2); 12.88B active", below)
        self.assertIn("  deepseek-v3: 3 dense (kv_lora_rank 512), 58 experts (ffn 2048, 256 experts, top 8, shared ffn 2048); 37.55B active, 1 predict ahead",
                      below)
        self.assertLessEqual(max(map(len, below)), 140)
        (model,) = [row for row in json.loads(run("list", "models", "--json").stdout)["rows"] if row["model"] == "gemma-3-4b"]
        self.assertEqual(model["kinds"], "29 local (window 1024), 5 global")

    def test_list_devices__says_what_is_copied_from_where(self):
        rows = self.table("devices")
        own = dict(re.findall(r"^  (\S+): (.*)$", run("list", "devices").stdout.partition("own curves beside copied ones:\n")[2], re.M))
        self.assertEqual((rows["h200"]["memory [GiB]"], rows["h200"]["HBM [TB/s]"], rows["h200"]["TFLOP/s"]), ("139.8", "4.80", "989"))
        for name, row in rows.items():
            sheet = read(f"model/gpu/{name}.yaml")
            self.assertEqual(row["NVLink [GB/s]"], f"{float(sheet['nvlink_bytes_per_s']) / 1e9:.0f}")
            measured = {curve.split(".")[0] for curve, of in sheet["fit"].items() if "copied_from" not in of}
            if "like" not in sheet:
                self.assertEqual(row["curves of kernels and links"], "measured")
            else:
                self.assertTrue(row["curves of kernels and links"].startswith(f"of {sheet['like']}, "))
                self.assertEqual(set(filter(None, own.get(name, "").split(", "))), measured)
        self.assertEqual({name: row["curves of kernels and links"] for name, row in rows.items()},
                         {"a100-40g": "of a100-80g, another chip", "a100-80g": "of h100-sxm, another chip",
                          "b200": "of gb200, another chip", "b200-simumax": "of b200, another chip", "b300": "of gb300, another chip", "gb200": "of h100-sxm, b200, another chip",
                          "gb300": "of gb200, another chip", "h100-96g": "of h100-sxm, same chip", "h100-nvl": "of h100-sxm, same chip",
                          "h100-pcie": "of h100-sxm, another chip", "h100-sxm": "measured", "h20": "of h100-sxm, another chip",
                          "h200": "of h100-sxm, same chip", "h800": "of h100-sxm, same chip"})

    def test_list_devices__says_formats_with_peak_and_curve(self):
        formats = {row["device"]: row["fp8"] for row in json.loads(run("list", "devices", "--json").stdout)["rows"]}
        self.assertEqual((formats["a100-80g"], formats["h20"], formats["b200"]), ("", "fp8-tensor", "fp8-tensor, fp8-block, mxfp8"))
        self.assertIn("precisions beside bf16:\n  b200: fp8-tensor, fp8-block, mxfp8\n", run("list", "devices").stdout)

    def test_list_platforms__says_nodes_and_links(self):
        for name, row in self.table("platforms").items():
            keys = read(f"platforms/{name}.yaml")
            self.assertEqual(row["nodes x GPUs"], f"{keys['nodes']} x {keys['gpus_per_node']}")
            self.assertEqual((row["NVLink [GB/s]"] + "GBps", row["NIC [Gb/s]"] + "Gbps"), (keys["nvlink"], keys["nic"]))
            self.assertTrue(row["topology"].startswith(keys["topology"]))
        self.assertIn("nodes joined by NVLink:\n  gb200-nvl64: 64 GPUs, 16 nodes\n  gb200-nvl72: 72 GPUs, 18 nodes\n", run("list", "platforms").stdout)
        domains = {row["platform"]: row["nvlink_domain"] for row in json.loads(run("list", "platforms", "--json").stdout)["rows"]}
        self.assertEqual((domains["h100"], domains["gb300-nvl72"]), (8, 72))

    def test_list_lengths__has_the_means_of_the_data(self):
        """Notes have the mean of each table. One of 40 quantiles has that of its data within 1%."""
        rows, n_known = self.table("lengths"), 0
        for path in (SOURCE / "model/lengths").glob("*.yaml"):
            file = yaml.safe_load(path.read_text())
            known = re.search(r"Mean of this table ([0-9.]+) tokens, of the data ([0-9.]+)\.", file.get("notes", "").replace("\n", " "))
            if known is None:
                continue
            self.assertAlmostEqual(float(rows[path.stem]["mean"]), float(known[1]), delta=0.51)
            if len(file["p"]) > 40:
                n_known += 1
                self.assertAlmostEqual(float(known[1]) / float(known[2]), 1, delta=0.01, msg=path.stem)
        self.assertGreaterEqual(n_known, 5)

    def test_list_lengths__tells_how_heavy_the_tail_is(self):
        """An exact table of one document in 16 of 64Ki tokens beside 1Ki: the longest 5% are 0.8 of the long ones."""
        shutil.copytree(SOURCE / "model", fresh("data") / "model")
        shutil.copytree(SOURCE / "platforms", SCRATCH / "data/platforms")
        (SCRATCH / "data/model/lengths/steps.yaml").write_text(
            "kind: table\np: [0, 0.9375, 0.93750001, 1]\ntokens: [1024, 1024, 65536, 65536]\nsource: a test\n")
        row = self.table("lengths", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})["steps"]
        model = read("model/llm/llama2-7b.yaml")
        h, f = model["hidden"], model["ffn"]
        flop = lambda tokens: 2 * h * tokens**2 + (2 * (4 * h * h + 3 * h * f) + 2 * h) * tokens
        share = 0.05 * flop(65536) / (0.0625 * flop(65536) + 0.9375 * flop(1024))
        self.assertEqual(row, {"lengths": "steps", "mean": f"{1024 * 0.9375 + 65536 / 16:.0f}", "median": "1024", "95%": "65536",
                               "longest": "65536", "FLOPs in the longest 5% [%]": f"{100 * share:.1f}"})
        github = self.table("lengths")["github"]
        law = read("model/lengths/github.yaml")
        mean = float(re.search(r"mean (\S+) tokens", law["notes"])[1])
        self.assertEqual((github["mean"], github["longest"]), (f"{mean:.0f}", f"{2048 * 1024}"))
        self.assertTrue(math.isclose(float(github["median"]), math.exp(law["mu"]), rel_tol=0.05))

    def test_list_frameworks__fills_in_what_a_framework_leaves_out(self):
        rows, base = self.table("frameworks"), read("model/framework/slimpack-paper.yaml")
        for name, row in rows.items():
            own = read(f"model/framework/{name}.yaml")
            for head, group in (("kernels", None), ("loss", None), ("tp_overlap", "communication"), ("sharding", "plan"), ("gradients", "plan")):
                value = lambda of: (of.get(group, {}) if group else of).get(head)
                self.assertEqual(row[head], value(own) or value(base), (name, head))

    def test_list_systems__says_what_each_takes_and_decides(self):
        rows, text = self.table("systems"), run("list", "systems").stdout
        self.assertEqual(list(rows), re.findall(r"(?m)^(\S+): ", text))
        self.assertEqual(rows["flexsp"]["degrees"], "DP only")
        self.assertEqual((rows["best-fit"]["degrees"], rows["best-fit"]["decides itself"]), ("TP PP CP EP", "-"))
        self.assertEqual(rows["slimpack"]["decides itself"], "offload")
        self.assertEqual(rows["slimpack"]["meaning"], "slices of equal FLOPs in MicroPacks")
        self.assertIn("\nslimpack: slices of equal FLOPs in MicroPacks, cut anew", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)

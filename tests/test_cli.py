#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests check validation, calibration, messages and exit statuses."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import h5py
import yaml

from cli_case import SMALL, SOURCE, simulate
from program import AT_ONCE_S, PROGRAM, SANITIZED, SCRATCH, alive, children, fresh, run, write


class Validation(unittest.TestCase):
    def validate(self, *arguments, **options):
        return run("validate", "--quiet", "--output", SCRATCH / "validation", *arguments, **options)

    def test_rows_statistics_file_and_picture_agree(self):
        done = self.validate("--json", "--filter", "framework=nemo")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        rows = [row for row in report["rows"] if row["quantity"] == "tokens/s/GPU"]
        errors = [abs(row["predicted"] / row["measured"] - 1) for row in rows]
        self.assertEqual(errors, sorted(errors, reverse=True))
        counted = [error for row, error in zip(rows, errors) if not row["calib"] and not {"group", "experts", "fp8", "blackwell"} & set(row)]
        (all_rows,) = [entry for entry in report["statistics"] if entry["quantity"] == "tokens/s/GPU" and
                       entry["source"] == entry["device"] == "all" and not entry["full_plan"] and
                       not entry["calib"]]
        self.assertEqual(all_rows["rows"], len(counted))
        self.assertAlmostEqual(all_rows["mape"], sum(counted) / len(counted), delta=1e-12)
        apart = [entry["rows"] for entry in report["statistics"] if entry["quantity"] == "tokens/s/GPU" and entry["calib"]]
        self.assertEqual(apart, [sum(row["calib"] for row in rows)])
        self.assertTrue(all("attention" in row["assumed"] for row in rows if row["model"] == "Llama-3.1-8B"))
        self.assertTrue(report["skipped"] and all(row["skipped"] for row in report["skipped"]))
        path = SCRATCH / "validation" / "validation.h5"
        with h5py.File(path) as file:
            table = file["validation"][:]
            ids = [file["rows"][row["row"]].decode() for row in table if row["quantity"] == 0]
            self.assertEqual(sorted(ids), sorted(row["row"] for row in rows))
        pictures = [SCRATCH / "validation" / name for name in ("validation.png", "validation.svg")]
        subprocess.run([sys.executable, SOURCE / "analysis" / "validation.py", path, "--output", *pictures], check=True)
        self.assertTrue(all(picture.stat().st_size > 1000 for picture in pictures))

    def test_validate__ends_with_a_table_by_framework_and_gpu(self):
        """The table fits a screen. Its figures follow from the rows of --json, and -v prints it behind all rows."""
        report, short, long = (self.validate(*form, "--filter", "device=h100-sxm") for form in (["--json"], [], ["-v"]))
        lines = short.stdout.splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertTrue(long.stdout.endswith("\n\n" + short.stdout))
        self.assertGreater(len(long.stdout.splitlines()), 5 * len(lines))
        every = [row for row in json.loads(report.stdout)["rows"] if not row["calib"]]
        rows = [row for row in every if not {"group", "experts", "fp8", "blackwell"} & set(row)]
        told = {}
        of = r" \d+ of \d+"
        self.assertRegex(" ".join(line.strip() for line in lines[-2:]),
                         f"^fit as predicted:{of} runs,{of} of groups,{of} with fp8,{of} with experts,{of} with experts in fp8; not counted: ")
        self.assertRegex(" ".join(lines[-4:-2]), r"^pairs: .* points in the median$")
        for line in lines[1:-4]:
            name, n, mean, bias, worst, row, near, of = re.fullmatch(
                r"(.*?) +(\d+) +(\S+)% +(\S+)% +(\S+)%  (\S+) +(\d+) of (\d+)", line).groups()
            self.assertEqual(n, of)
            told[name] = (int(n), mean, bias, worst, row, int(near))
        for name, quantity in (("all", "tokens/s/GPU"), ("max_memory_allocated",) * 2, ("layer backward",) * 2):
            errors = {row["row"]: row["error"] for row in rows if row["quantity"] == quantity}
            n, worst = len(errors), max(errors, key=lambda row: abs(errors[row]))
            self.assertEqual(told[name], (n, f"{100 * sum(map(abs, errors.values())) / n:.1f}", f"{100 * sum(errors.values()) / n:.1f}",
                                          f"{100 * abs(errors[worst]):.1f}", worst, sum(abs(error) <= 0.1 for error in errors.values())))
        known = sum(row["quantity"] == "tokens/s/GPU" and row["trust"].startswith("A") for row in rows)
        self.assertEqual(told["all of known settings (trust A, A-)"][0], known)
        self.assertEqual(told["settings known in part (trust B)"][0], told["all"][0] - known)
        experts = [("fp8" in row, row["trust"][0], row.get("group")) for row in every if "experts" in row]
        for name, fp8, trust, group in (("h100-sxm", False, "A", None), ("trust B", False, "B", None),
                                        ("trust B, real-routing", False, "B", "real-routing"),
                                        ("h100-sxm", True, "A", None), ("trust B", True, "B", None)):
            n = experts.count((fp8, trust, group))
            self.assertGreater(n, 0)
            self.assertEqual(told[f"experts{' in fp8' * fp8}, {name}"][0], n)
        groups = {name: of[0] for name, of in told.items() if name.endswith((", h100-sxm", "(trust B)")) and not name.startswith(("experts", "fp8", "blackwell"))}
        self.assertEqual(sum(groups.values()), told["all"][0])
        self.assertEqual(list(groups.values()), sorted(groups.values(), reverse=True))
        self.assertIn("nemo, h100-sxm", groups)

    def test_validate__prints_kinds_of_runs_of_the_shipped_rows(self):
        """The shipped files are cut to few rows. The shares held are those of model_error.yaml."""
        data = fresh("shipped")
        for folder in ("model", "platforms"):
            shutil.copytree(SOURCE / folder, data / folder)
        for path in (data / "model/validation").glob("*.csv"):
            if path.stem.startswith("replay_"):
                continue
            head = [line for line in path.read_text().splitlines() if not line.startswith("#")][:8]
            path.write_text("\n".join(head) + "\n")
        report, short = (self.validate(*form, env={**os.environ, "SLIMSIM_DATA": str(data)}) for form in (["--json"], []))
        lines = short.stdout.splitlines()
        self.assertLessEqual(len(lines), 24)
        self.assertLessEqual(max(map(len, lines)), 100)
        rows = [row for row in json.loads(report.stdout)["rows"] if row["quantity"] == "tokens/s/GPU" and row["trust"][0] == "A" and not row["calib"]]
        fp8 = [row for row in rows if "fp8" in row and not {"group", "experts", "blackwell"} & set(row)]
        held = yaml.safe_load((SOURCE / "model/model_error.yaml").read_text())["held_fp8"]["p5_to_p95"]
        (line,) = [line.split() for line in lines if line.startswith("fp8 ")]
        self.assertEqual((line[1], line[-1]), (str(len(fp8)), f"{100 * held:.0f}%"))
        self.assertIn("-v adds frameworks", short.stdout)
        self.assertNotIn("held is not known", short.stdout)
        (data / "model/model_error.yaml").unlink()
        done = self.validate(env={**os.environ, "SLIMSIM_DATA": str(data)})
        (line,) = [line.split() for line in done.stdout.splitlines() if line.startswith("fp8 ")]
        self.assertEqual((done.returncode, line[-1]), (0, "-"))
        self.assertRegex(done.stdout, "(?m)^held is not known: .*/model_error.yaml: cannot be read: No such file or directory$")

    def test_validate__joins_the_smallest_groups(self):
        rows = self.validate("--filter", "id=E001", "--json")
        self.assertEqual(len(json.loads(rows.stdout)["rows"]), 1)
        lines = [line for line in (SOURCE / "model/validation/training_h100.csv").read_text().splitlines() if line.startswith(("id,", "E001,"))]
        self.assertIn(",h100-sxm,nemo,", lines[1])
        path = write("many.csv", "\n".join(lines[:1] + [lines[1].replace("E001", f"E{n}").replace(",nemo,", f",{name},")
                     for n, name in enumerate(["nemo"] * 3 + 2 * ["megatron-core", "composer", "deepspeed", "fsdp1", "fsdp2"])]) + "\n")
        names = lambda: [line.split("  ")[0] for line in self.validate(path).stdout.splitlines()]
        self.assertEqual(names()[1:3], ["nemo, h100-sxm", "megatron-core, h100-sxm"])
        text = path.read_text()
        path.write_text(text + "".join(line.replace(",h100-sxm,", ",h200,") + "\n" for line in text.splitlines()[1:]))
        self.assertEqual((len(names()), names()[10:12]), (14, ["others", "all of known settings (trust A, A-)"]))

    def test_the_worst_rows_come_with_a_cause_where_one_is_known(self):
        """A line on the cause is under each of the ten worst rows that has one, and under no other."""
        report, done = (self.validate(*form, "--filter", "model.name=MPT-13B") for form in (["--json"], ["-v"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [row for row in json.loads(report.stdout)["rows"] if row["quantity"] == "tokens/s/GPU"]
        self.assertGreater(len(rows), 10)
        expected = []
        for number, row in enumerate(rows):
            expected += [row["row"]] + (["why:"] if number < 10 and "cause" in row else [])
        self.assertIn("why:", expected)
        self.assertNotEqual(expected.count("why:"), 10)
        lines = done.stdout.splitlines()[2:]
        self.assertEqual([line.split()[0] for line in lines[:len(expected)]], expected)
        said = [line.removeprefix("      why: ") for line in lines if line.startswith("      why: ")]
        self.assertEqual(said, [row["cause"] for row in rows[:10] if "cause" in row])

    def test_what_a_row_does_not_say_is_stated_behind_it(self):
        report = self.validate("-v", "--filter", "model.name=InternLM-7B")
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertRegex(report.stdout, "assumed: .*missing sizes of model/llm/internlm-7b.yaml")

    def test_published_runs_fit_and_say_how_full_they_are(self):
        """350M has 16 bytes of each parameter over 8 GPUs, 0.7 GB. 32768 tokens of 24 layers x 32 x 1024 bytes take
        25.8 GB. Their logits of 50368 and their gradient, 2 bytes each, take 6.6 GB. Together they take 33.1 GB of the
        39.46 that a rank may use."""
        done, report = (self.validate(*form, "--filter", "model.name=MPT-350M") for form in (["-v"], ["--json"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(report.stdout)["rows"]
        self.assertTrue(all(row["fits"] for row in rows))
        self.assertIn(f"predicted not to fit, though they ran: 0 of {len(rows)} runs\n", done.stdout)
        self.assertRegex(done.stdout, r"predicted to fit tightly, trust A and A-: \d+ runs, \d+ of them")
        (row,) = [row for row in rows if row["row"] == "O151"]
        self.assertAlmostEqual(row["peak_bytes"] / 33.1e9, 1, delta=0.02)
        share = 100 * row["peak_bytes"] / row["memory_bytes"]
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("O151")]
        self.assertIn(f"{share:8.1f}%", line)
        with h5py.File(SCRATCH / "validation" / "validation.h5") as file:
            table = file["validation"][:]
            self.assertEqual(set(table["exceeded_limit"]), {0})
            self.assertIn(row["peak_bytes"], table["peak_bytes"])

    def test_runs_that_only_fitted_or_not_are_counted(self):
        """One sequence a GPU of a small model fits, 256 do not (128 GiB). Two rows say so, two say otherwise. A row
        with a throughput did fit. One with a reason to be skipped does not count."""
        head = ("id,skip,device,platform.nodes,platform.gpus_per_node,platform.nvlink,platform.nic,platform.pcie,"
                "platform.host_memory,kernels,model.name,model.hidden,model.layers,model.heads,model.kv_heads,model.ffn,"
                "model.vocabulary,model.activation,model.tied_embeddings,data.context,plan.tp,plan.pp,micro_batch,"
                "data.global_batch,fitted,tps_per_gpu,plan.recompute\n")
        row = ("%s,%s,h100-sxm,1,8,450GBps,400Gbps,64GBps,2TB,eager,tiny,1024,4,8,8,4096,32000,gelu,false,2048,1,1,%d,2048,"
               "%s,%s,none\n")
        cells = [("A", "", 1, "yes", ""), ("B", "", 256, "no", ""), ("C", "", 1, "no", ""), ("D", "", 256, "yes", ""),
                 ("E", "", 1, "", "100"), ("F", "its plan is a guess", 1, "no", "100")]
        path = write("fitted.csv", head + "".join(row % cell for cell in cells))
        report = json.loads(self.validate("--json", path).stdout)
        self.assertEqual(report["outcomes"], {"rows": 5, "right": 3, "ran_out_of_memory": 2, "fitted_predicted_not_to": 1,
                                              "ran_out_predicted_to_fit": 1, "ran_out_predicted_tight": 0,
                                              "fitted_predicted_tight": 0})
        told = [(one["row"], one["measured"], one["predicted"], one["error"]) for one in report["rows"]
                if one["quantity"] == "fitted"]
        self.assertEqual(told, [("C", 0, 1, 1), ("D", 1, 0, -1), ("A", 1, 1, 0), ("B", 0, 0, 0)])
        self.assertEqual({one["quantity"] for one in report["statistics"]}, {"tokens/s/GPU"})
        self.assertEqual({one["row"]: one["skipped"] for one in report["skipped"]},
                         {"F": "its plan is a guess"})
        self.assertNotIn("unread_columns", report)
        lines = self.validate("-v", path).stdout.splitlines()
        for line in ("whether runs fit: 3 of 5 predicted right", "predicted not to fit, though they ran: 1 of 3 runs: D",
                     "predicted to fit, though they ran out of memory: 1 of 2 runs, 0 of them tightly: C"):
            self.assertIn(line, lines)
        (line,) = [line for line in lines if line.startswith("C ")]
        self.assertRegex(line, r" yes +no +wrong +\d+\.\d%  FITS, THOUGH IT RAN OUT OF MEMORY")

    def test_a_row_that_lacks_something_is_invalid(self):
        path = write("own.csv", "id,data.context,plan.tp,step_time_s\nX1,4096,two,2.5\n")
        done = self.validate(path)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("own.csv:2: plan.tp: 'two' is not a number; allowed: a whole number [GPUs], 1 to 32768\n", done.stderr)
        self.assertIn("own.csv:2: micro_batch: is required", done.stderr)

    def test_wrong_files_and_filters_are_invalid(self):
        done = self.validate(write("other.csv", "id,x\n1,2\n"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("other.csv: has no column 'data.context', so it is no table of measured rows; model/validation/normalise.py", done.stderr)
        for text in ("id,x\n1\n", "id,x\n1,\"2\n"):
            done = self.validate(write("wrong.csv", text))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn("wrong.csv:2: ", done.stderr)
        self.assertIn("did you mean 'model.name'", self.validate("--filter", "modle.name=x").stderr)
        self.assertEqual(self.validate(SCRATCH / "nowhere.csv").returncode, 2)

    def test_a_cause_that_is_too_long_or_for_no_number_is_refused(self):
        shutil.copytree(SOURCE / "model", fresh("data") / "model")
        causes = SCRATCH / "data/model/validation/causes.csv"
        text = causes.read_text()
        causes.write_text(text + "X1,,,,,,," + "x" * 256 + "\n")
        done = run("validate", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"causes.csv:{text.count(chr(10)) + 1}: cause has 256 bytes; allowed: at most 255", done.stderr)
        causes.write_text(text + "X1,,,,,,64k,long\n")
        done = run("validate", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertIn(f"causes.csv:{text.count(chr(10)) + 1}: context_from: '64k' is not a number", done.stderr)

    def test_a_broken_device_stops_all_rows(self):
        shutil.copytree(SOURCE / "model", fresh("data") / "model")
        device = SCRATCH / "data/model/gpu/h100-sxm.yaml"
        device.write_text(device.read_text().replace(", persistent_gemms: true", ""))
        done = run("validate", "--filter", "model.name=Llama-3.1-8B", env={**os.environ, "SLIMSIM_DATA": str(SCRATCH / "data")})
        self.assertEqual(done.returncode, 2, done.stdout[-300:])
        self.assertIn("training.persistent_gemms: is required", done.stderr)


class Calibrate(unittest.TestCase):
    """Fitting itself is checked in test_calibrate.c."""

    HEADER = "id,kind,split,gpu,dtype,library,op,pass,m,n,k,batch,seq_len,heads,head_dim,causal,shape_note,time_ms,tflops,gbps\n"

    def test_a_device_without_rows_is_a_copy_that_can_be_used(self):
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        device = SCRATCH / "calibrated.yaml"
        done = run("calibrate", kernels, "--device", "h800", "--output", device)
        self.assertEqual((done.returncode, done.stderr),
                         (0, "h800 names no rows, so nothing is fitted and all curves are those of h100-sxm\n"))
        self.assertIn("gemm                       copied from h100-sxm", done.stdout)
        printed = run("calibrate", kernels, "--device", "h800")
        self.assertEqual(printed.stdout, device.read_text())
        again = run("calibrate", kernels, "--device", device)
        self.assertEqual(again.stdout, printed.stdout)
        cost = lambda name: run("cost", "--model", "llama-7b", "--device", name, "--platform", "hopper-2x8", "--slice", "0:4Ki")
        self.assertEqual(cost(device).stdout, cost("h800").stdout)

    def test_a_data_sheet_of_another_chip_takes_curves_as_shares_of_its_peaks(self):
        """Such a device needs no rows. A sheet copied with the rows of its model would be fitted to that chip."""
        sheet = (SOURCE / "model/gpu/h200.yaml").read_text().split("# Fitted values")[0]
        sheet = sheet.replace("name: h200", "name: new").replace("peak_flop_per_s: 989.4e12", "peak_flop_per_s: 2000e12")
        new, fitted = write("new.yaml", sheet), SCRATCH / "fitted.yaml"
        cost = ("cost", "--model", "llama-7b", "--slice", "0:4Ki", "--platform", "h100-1x8", "--json", "--device")
        done = run(*cost, new)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"only a data sheet; `slimsim calibrate --device {new} --output FILE` writes", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        runs = SOURCE / "model/validation/training_h100.csv"
        for training in ((), ("--training", runs)):
            done = run("calibrate", "--device", new, "--output", fitted, *training)
            self.assertEqual(done.returncode, 0, done.stderr)
            products = [[kernel["seconds"] for kernel in json.loads(run(*cost, name).stdout)["forward"]["kernels_of_a_layer"]
                         if kernel["name"] == "up GEMM"][0] for name in (fitted, "h200")]
            self.assertAlmostEqual(products[1] / products[0], 2000 / 989.4, delta=0.1)
        copied = write("copied.yaml", sheet.replace("like:", 'rows: "H100 H200@4.8e12"\nlike:', 1))
        done = run("calibrate", SOURCE / "model/validation/kernels.csv", "--device", copied)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("are the rows of h100-sxm, another chip", done.stderr)
        self.assertIn("KERNELS.csv is needed", run("calibrate", "--device", "h100-sxm").stderr)

    def test_rows_that_no_curve_takes_are_named(self):
        """The rows are a GEMM by a misspelt kind, one without a time, and a norm whose curve needs more rows than
        one."""
        own = write("own.yaml", (SOURCE / "model/gpu/h800.yaml").read_text().replace("like:", 'rows: "H800"\nlike:', 1))
        gemms = [f"K{m},gemm,calib,H800,bf16,,gemm,,{m},4096,4096,,,,,,,{m / 4096},,\n" for m in range(1024, 1034)]
        others = ["L1,gem,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,1,,\n", "L2,gemm,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,,,\n",
                  "L5,memory-bound,calib,H800,bf16,cudnn,rms_norm,fwd,4096,4096,,,,,,,,0.1,,\n",
                  "L6,gemm,open,H800,bf16,,gemm,,4096,4096,4096,,,,,,,,,\n"]
        kernels = write("kernels.csv", self.HEADER + "".join(gemms + others))
        done = run("calibrate", kernels, "--device", own, "--output", SCRATCH / "left.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, f"{kernels}: 3 of the device's 13 rows of split calib are in no curve: L1-L2 L5; rows "
                                      "that count: docs/model/measurements.md, Calibrate\n")
        self.assertIn("memory.norm                copied from h100-sxm: 1 of at least 2 rows\n", done.stdout)
        self.assertRegex(done.stdout, r"\ngemm  .*, scaled from h100-sxm\n")
        self.assertIn("  gemm:\n    scaled_from: h100-sxm\n", (SCRATCH / "left.yaml").read_text())

    def test_rows_without_an_identifier_are_named_by_their_line(self):
        """A thousand has its comma. A cell with letters behind its number is none."""
        own = write("own.yaml", (SOURCE / "model/gpu/h800.yaml").read_text().replace("like:", 'rows: "H800"\nlike:', 1))
        gemms = [f'gemm,calib,H800,"{m:,}",4096,4096,{m / 4096}\n' for m in range(1024, 1044)]  # enough for a shape
        kernels = write("kernels.csv", "kind,split,gpu,m,n,k,time_ms\n" + "".join(gemms) + "gemm,calib,H800,64x,4096,4096,1\n")
        done = run("calibrate", kernels, "--device", own, "--output", SCRATCH / "left.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 of the device's 21 rows of split calib are in no curve: line 22; rows that count", done.stderr)
        self.assertIn("m_min: 1024\n", (SCRATCH / "left.yaml").read_text())

    def test_shipped_rows_give_the_shipped_devices(self):
        """The rows in model/validation give each device's file, byte for byte. docs/model/measurements.md has the command. Blackwell has
        files of its own."""
        rows = SOURCE / "model" / "validation"
        training = ",".join(str(rows / name) for name in ("training_h100.csv", "training_a100.csv", "layers.csv"))
        devices = sorted((SOURCE / "model" / "gpu").glob("*.yaml"))
        self.assertGreaterEqual(len(devices), 5)
        for device in devices:
            output = SCRATCH / device.name
            chip = "_blackwell" if re.match("g?b[23]00", device.name) else ""
            done = run("calibrate", rows / f"kernels{chip}.csv", rows / f"collectives{chip}.csv", "--training", training,
                       "--device", device.stem, "--output", output)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(output.read_text(), device.read_text(), device.name)

    def test_wrong_files_and_devices_are_refused(self):
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        own = write("own.yaml", (SOURCE / "model/gpu/h800.yaml").read_text().replace("like:", 'rows: "H800"\nlike:', 1))
        lone = write("lone.yaml", own.read_text().replace("like: h100-sxm", "like_collective: h200", 1))
        alone = write("alone.yaml", own.read_text().replace("like: h100-sxm", "like_gemm: h200", 1))
        fast = write("fast.csv", self.HEADER + "K1,gemm,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,0.1,,\n")
        collectives = SOURCE / "model/validation/collectives.csv"
        misspelt = write("misspelt.csv", self.HEADER + "K1,gem,calib,H800,bf16,,gemm,,4096,4096,4096,,,,,,,1,,\n")
        for arguments, status, message in [
            ((kernels, "--device", "h801"), 2, "there is no device 'h801'; available: "),
            ((SCRATCH / "nowhere.csv", "--device", "h800"), 2, "nowhere.csv: cannot be read"),
            ((kernels, "--device", own), 2, "kernels.csv: no row belongs to this device; a row counts if split is calib"),
            ((fast, "--device", own), 2, "fast.csv:2: K1: 1374 TFLOP/s is more than the peak of h800, 989.4 TFLOP/s"),
            ((misspelt, "--device", own), 2, "no curve can be fitted to the 1 rows of this device"),
            ((kernels, "--device", lone), 2, "h800: like_collective: needs like; name a device there, too"),
            ((kernels, "--device", alone), 2, "h800: like_gemm: needs like; name a device there, too"),
            ((kernels,), 64, "--device NAME"),
            ((kernels, "--device", "h800", "--output", ""), 64, "--output needs the name of a file"),
            ((kernels, "--device", "h800", "--output", SCRATCH), 73, "Is a directory"),
            ((kernels, "--device", "h800", "--output", "/dev/full"), 73, "it is not a regular file"),
            (("/dev/full", "--device", "h800"), 2, "/dev/full:1: the line has more than 1048576 bytes"),
            ((collectives, "--device", "h800"), 2, "collectives.csv: it has no column 'kind', so it is no table of measured kernels"),
            ((kernels, kernels, "--device", "h800"), 2, "kernels.csv: it has no column 'collective'"),
            ((kernels, "--device", "h800", "--training", kernels), 2, "kernels.csv: it has no column 'data.context'"),
            ((kernels, "--device", "h800", "--training", ","), 2, "--training: no file is named"),
            ((kernels, "--device", "h100-sxm"), 2, "h100-sxm: memory.norm: 0 rows of split calib are of this device"),
            ((kernels, "--device", "h800", "--output", SCRATCH / "no" / "such" / "folder"), 73, "cannot create"),
        ]:
            done = run("calibrate", *arguments)
            self.assertEqual((done.returncode, done.stdout), (status, ""))
            self.assertIn(message, done.stderr)


    def test_only_devices_that_it_wrote_and_the_sheet_itself_are_replaced(self):
        """The rows that it reads are refused, also behind a link, and so is another sheet. An empty file is nobody's."""
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        sheet = (SOURCE / "model/gpu/h800.yaml").read_text().split("# Fitted values")[0]
        link, own, other, empty = SCRATCH / "rows.yaml", write("sheet.yaml", sheet), write("other.yaml", sheet), write("empty.yaml", "")
        link.unlink(missing_ok=True)
        link.symlink_to(kernels)
        for output in (kernels, link, other):
            before = output.read_bytes()
            done = run("calibrate", kernels, "--device", own, "--output", output)
            self.assertEqual((done.returncode, done.stdout, output.read_bytes()), (2, "", before))
            self.assertIn(f"{output} is no calibrated device of slimsim, which this command would replace; to keep both choose another --output",
                          done.stderr)
        for output in (own, own, empty):
            done = run("calibrate", kernels, "--device", own, "--output", output)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(output.read_text().startswith(sheet))

    def test_a_device_that_cannot_be_written_is_as_before(self):
        """A file may have 4 KiB only. A link is followed."""
        kernels = write("kernels.csv", self.HEADER + "K1,gemm,calib,H100,bf16,,gemm,,4096,4096,4096,,,,,,,,700,\n")
        text = (SOURCE / "model/gpu/h800.yaml").read_text()
        own, link = write("kept.yaml", "# mine\n" + text), SCRATCH / "link.yaml"
        link.unlink(missing_ok=True)
        link.symlink_to(own)
        small = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$@"', "", PROGRAM, "calibrate", kernels, "--device", own,
                                "--output", link], capture_output=True, text=True, timeout=60)
        self.assertEqual((small.returncode, small.stdout), (74, ""), small.stderr)
        self.assertIn("File too large", small.stderr)
        self.assertEqual((own.read_text(), list(SCRATCH.glob("kept.yaml.*"))), ("# mine\n" + text, []))
        self.assertEqual(run("calibrate", kernels, "--device", own, "--output", link).returncode, 0)
        self.assertTrue(link.is_symlink() and own.read_text().startswith("# mine\n") and own.read_text() != "# mine\n" + text)


class Messages(unittest.TestCase):
    def refuse(self, expected, scenario=SMALL, *arguments):
        done = simulate("refused", *arguments, scenario=scenario)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        for part in expected:
            self.assertIn(part, done.stderr)
        return done.stderr

    def test_all_mistakes_are_named_in_one_pass_with_their_places(self):
        text = SMALL.replace("seed: 7", "sed: 7").replace("global_batch: 48", "global_batch: many")
        self.refuse(["small.yaml:7:", "sed", "seed", "small.yaml:5:", "many"], text)

    def test_a_file_of_another_kind_is_one_sentence(self):
        model, device, scenario = SOURCE / "model/llm/llama-7b.yaml", SOURCE / "model/gpu/h800.yaml", write("other.yaml", SMALL)
        for arguments, named in ((("cost", "--slice", "0:8", "--model", device), device),
                                 (("run", scenario, "--set", f"model={scenario}"), scenario),
                                 (("run", scenario, "--set", f"device={model}"), model)):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"{named}:", done.stderr)
            self.assertIn("a file of another kind, since ", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for other in (model, device):  # platform and systems, which are read by themselves, are missing, too
            done = run("run", other)
            self.assertIn(f"{other}:2:1: a file of another kind, since ", done.stderr)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 3), done.stderr)

    def test_a_pipe_in_place_of_a_file_is_named_and_not_waited_for(self):
        pipes = {ending: SCRATCH / f"pipe{ending}" for ending in (".yaml", ".xml", ".txt", ".csv", ".npy", ".h5", ".journal")}
        for pipe in pipes.values():
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
        scenario = write("waits.yaml", SMALL)
        for ending, *arguments in ((".yaml", "run", pipes[".yaml"]), (".yaml", "run", scenario, "--set", f"model={pipes['.yaml']}"),
                                   (".xml", "run", scenario, "--set", f"platform={pipes['.xml']}"),
                                   (".h5", "export", pipes[".h5"], "--chrome"), (".journal", "merge", pipes[".journal"]),
                                   *((ending, "lengths", scenario, "--set", f"data.lengths={pipes[ending]}")
                                     for ending in (".txt", ".csv", ".npy", ".h5"))):
            done = run(*arguments)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(f"{pipes[ending]}: is not a regular file", done.stderr)
        done = subprocess.run([PROGRAM, "run", "/dev/stdin"], input=SMALL, capture_output=True, text=True, timeout=300)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("/dev/stdin: is not a regular file", done.stderr)

    def test_control_characters_of_a_file_do_not_reach_the_terminal(self):
        lengths = write("escape.csv", "tokens\n12\x1b[2J\r\x08\n")
        done = run("lengths", write("escape.yaml", SMALL), "--set", f"data.lengths={lengths}")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^slimsim: [^\n]*escape.csv:2: '12\?\[2J[^\n]*\n$")
        self.assertNotRegex(done.stderr, "[\x00-\x09\x0b-\x1f\x7f]")
        done = run("run", write("escape.yaml", SMALL.replace("best-fit,", r'best-fit, label: "a\x9b31mRED",')))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^slimsim: [^\n]*label: 'a\?31mRED' contains a line end or control character; [^\n]*\n$")

    def test_a_platform_on_which_simgrid_crashes_is_invalid(self):
        """SimGrid 3.32 dies of SIGSEGV if there is a zoneRoute twice."""
        text = run("platform", "hopper-2x8").stdout
        route = re.search(r" *<zoneRoute .*\n", text)[0]
        path = write("twice.xml", text.replace(route, 2 * route, 1))
        done = run("run", write("twice.yaml", SMALL), "--output", fresh("twice"), "--set", f"platform={path}")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^slimsim: \S+twice.xml: SimGrid cannot use this platform: .*\n$")

    def test_a_name_from_the_file_is_whole_or_refused(self):
        text = SMALL.replace("name: small\n", "")
        for stem, status in (("n" * 63, 0), ("n" * 64, 2)):
            done = run("lengths", write(f"{stem}.yaml", text))
            self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(f"{stem}.yaml: name: is required if the file's own name is longer than 63 bytes", done.stderr)

    def test_faults_name_what_exists(self):
        for fault, expected in (("{kind: gpu, factor: 2}", ["one of gpus, nodes and share"]),
                                ("{kind: gpu, gpus: 1, nodes: 0, factor: 2}", ["one of gpus, nodes and share"]),
                                ("{kind: gpu, gpus: [3, 16], factor: 2}", ["GPU 16", "0 to 15"]),
                                ("{kind: nic, nodes: 2, factor: 2}", ["node 2", "0 to 1"]),
                                ("{kind: nic, gpus: 2, factor: 0.5}", ["factor", "0.5", "1 to 1000000"]),
                                ("{kind: disk, gpus: 2, factor: 2}", ["disk", "gpu, nvlink, nic, pcie"]),
                                ("{kind: gpu, share: 0.01, factor: 2}", ["0.01", "0.03125 to 1"]),
                                ("{kind: gpu, gpus: 2, seed: 1, factor: 2}", ["seed", "share"]),
                                ("{kind: gpu, gpus: 2}", ["factor"]),
                                ("{kind: gpu, leaves: 0, factor: 2}", ["kind gpu", "one of gpus, nodes and share"]),
                                ("{kind: uplink, gpus: 2, factor: 2}", ["kind uplink", "one of nodes and share"]),
                                ("{kind: uplink, nodes: 2, factor: 2}", ["node 2", "0 to 1"]),
                                ("{kind: spine, leaves: 0, factor: 2}", ["hopper-2x8", "up<leaf>_u", "spine"]),
                                ("{kind: uplink, nodes: 1, factor: 2}", ["all_tensor_ranks: true"])):
            self.refuse(["small.yaml:", *expected], SMALL + f"faults:\n  - {fault}\n")
        self.refuse(["faults", "list"], SMALL + "faults: {kind: gpu}\n")
        uplink = "faults: [{kind: uplink, nodes: 1, factor: 2}]\n"
        self.refuse(["uplink", "simgrid or both"], SMALL.replace("engine: both", "engine: critical-path") + uplink)

    def test_an_unknown_name_suggests_the_nearest(self):
        self.refuse(["small.yaml:5:17: data.lengths", "'4x'"], SMALL.replace("lengths: github", "lengths: 8Ki 4x"))
        self.refuse(["best-fat", "best-fit"], SMALL.replace("name: best-fit", "name: best-fat"))
        self.refuse(["small.yaml:5:12: framework", "did you mean 'megatron-core'"],
                    SMALL.replace("framework: slimpack-paper\n", "").replace("data:", "framework: megatron-cor\ndata:"))
        self.refuse(["asymetric", "asymmetric"], SMALL.replace("slimpack, ", "slimpack, knobs: {asymetric: no}, "))
        auto = re.sub(r"plan: \{.*\}\}", "plan: auto}", SMALL) + "plan_space: {name: fre}\n"
        said = self.refuse(["plan_space.name", "did you mean 'free'"], auto)
        self.assertEqual(said.count("plan_space.name"), 1, "a mistake of both systems is told once")

    def test_systems_are_checked_before_any_of_them_runs(self):
        text = SMALL.replace("name: best-fit", "name: best-fat").replace("norm+activation}}\n", "norm+activation}, knobs: {x: 1}}\n")
        self.refuse(["small.yaml:12:", "best-fat", "small.yaml:13:", "knobs.x: unknown key"], text, "--set", "systems.0.knobs={}")
        self.refuse(["small.yaml:13:", "plan.cp: 2"], SMALL.replace("slimpack, plan: {", "slimpack, plan: {cp: 2, "))
        self.refuse(["small.yaml:13:", "plan.vpp: 2"], SMALL.replace("slimpack, plan: {", "slimpack, plan: {vpp: 2, "))
        self.refuse(["small.yaml:13:", "plan.schedule: slimpack has an order of its own"],
                    SMALL.replace("slimpack, plan: {", "slimpack, plan: {schedule: gpipe, "))
        offload = SMALL.replace("slimpack, plan: {", "slimpack, plan: {offload: 0.5, ")
        self.refuse(["small.yaml:13:", "plan.offload: 0.5, but slimpack takes only 0"], offload)
        self.assertEqual(run("plan", write("small.yaml", offload), "--set", "systems.1.offload=plan").returncode, 0)

    HUGE = SMALL.replace("global_batch: 48", "global_batch: 65536")
    LONG = (  # one iteration takes minutes: on SimGrid; in the plan of a system; while plans are searched
        HUGE.replace("both", "simgrid"),
        HUGE.replace("both", "critical-path").replace("slimpack,", "wlb-llm,"),
        HUGE.replace("plan: {tp: 2, pp: 2, cp: 2, recompute: norm+activation}", "plan: auto").replace("2x8", "512x8"))

    def test_signals_end_a_run_at_once_and_leave_nothing(self):
        for case, (number, text) in enumerate(zip((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self.LONG)):
            folder = fresh(f"stopped-{case}")
            process = subprocess.Popen([PROGRAM, "run", write("long.yaml", text), "--output", folder],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(process.kill)
            begin = time.monotonic()
            while (time.monotonic() - begin < 1 or (case == 0 and not children(process.pid)) or
                   (case < 2 and not list(folder.glob("*.tmp-*")))):
                self.assertIsNone(process.poll(), case)
                time.sleep(0.01)
            self.assertEqual(len(list(folder.glob("*.tmp-*"))), case < 2)  # a search comes before the files
            below, begin = children(process.pid), time.monotonic()
            process.send_signal(number)
            output, errors = process.communicate(timeout=60)
            self.assertLess(time.monotonic() - begin, AT_ONCE_S, case)
            self.assertEqual((process.returncode, output), (128 + number, ""), errors)
            self.assertIn(f"stopped by signal {number}\n", errors)
            self.assertFalse(alive(below))
            self.assertEqual(list(folder.iterdir()) if folder.exists() else [], [])

    @unittest.skipIf(SANITIZED, "a sanitizer needs a larger stack")
    def test_a_stack_that_is_too_small_is_said(self):
        for kib, status, said in ((128, 1, "slimsim: the limit of the stack is 128 KiB; allowed: at least 512 KiB (ulimit -s)\n"),
                                  (512, 0, "")):
            limit = (kib * 1024, kib * 1024)
            done = run("run", write("small.yaml", SMALL), "--quiet", "--output", fresh("stack"),
                       preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_STACK, limit))
            self.assertEqual((done.returncode, done.stderr), (status, said))

    @unittest.skipIf(SANITIZED, "the moment would come later")
    def test_a_folder_that_is_removed_during_a_run_is_no_bad_input(self):
        folder = fresh("removed")
        process = subprocess.Popen([PROGRAM, "run", write("small.yaml", SMALL), "--quiet", "--output", folder, "--set",
                                    "iterations.measured=50"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        while not list(folder.glob("small.h5.tmp-*")):
            time.sleep(0.005)
        shutil.rmtree(folder)
        output, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, output), (74, ""), errors)
        self.assertIn("No such file or directory", errors)

    def test_bad_set_is_invalid_and_unknown_option_is_usage(self):
        self.refuse(["sede"], SMALL, "--set", "sede=1")
        self.refuse(["nonsense"], SMALL, "--set", "nonsense")
        self.assertEqual(run("run", write("small.yaml", SMALL), "--frobnicate").returncode, 64)
        done = run("frobnicate")
        self.assertEqual(done.returncode, 64)
        self.assertIn("slimsim: unknown command 'frobnicate'; allowed: run, explain, compare, ", done.stderr)
        self.assertIn("did you mean 'validate'?", run("vaildate").stderr)

    def test_every_command_has_help_and_version_and_takes_no_option_that_it_does_not_read(self):
        version = run("--version").stdout
        listed = re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.MULTILINE)
        self.assertGreater(len(listed), 10)
        for command in listed:
            self.assertEqual(run(command, "--version").stdout, version)
            done = run(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.startswith(f"Usage: slimsim {command} [OPTION...]"), done.stdout)
            for option in ("--set=seed=1", "--output=x", "--json"):
                if option.rsplit("=", 1)[0].split("=")[0] not in done.stdout:
                    refused = run(command, option, "x")
                    self.assertEqual((refused.returncode, refused.stdout), (64, ""), (command, option))

    def test_an_installed_program_takes_the_data_beside_it(self):
        prefix = fresh("installed")
        (prefix / "bin").mkdir(parents=True)
        (prefix / "share/slimsim/model/llm").mkdir(parents=True)
        (prefix / "share/slimsim/model/llm/only-here.yaml").write_text((SOURCE / "model/llm/llama-7b.yaml").read_text())
        shutil.copy(PROGRAM, prefix / "bin/slimsim")
        done = subprocess.run([prefix / "bin/slimsim", "list", "models"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["model", "only-here"])

    def test_the_manual_is_made_of_the_help(self):
        folder = SOURCE / "src/cli"
        page = subprocess.run([folder / "manual.sh", PROGRAM], capture_output=True, text=True, timeout=60)
        self.assertEqual((page.returncode, page.stderr), (0, ""))
        for part in ("slimsim \\- A discrete\\-event simulator", ".SH SLIMSIM merge", "\\-\\-fail\\-fast", "Exit status: 0", ".SH TOPICS", "own\\-lengths"):
            self.assertIn(part, page.stdout)

    def test_what_is_no_table_is_told(self):
        simulate("tables", "--set", "trace=summary")
        done = run("export", SCRATCH / "tables" / "small.h5", "--csv", "iteration")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("did you mean 'iterations'? allowed: summary, iterations, stages, plans,", done.stderr)
        done = run("best", SCRATCH / "tables" / "small.csv")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("not the table of a sweep, which has the columns status", done.stderr)
        done = run("best", SCRATCH / "tables" / "small.h5")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("give the table beside it", done.stderr)
        done = run("export", SCRATCH / "tables" / "small.h5", "--dag", "dot")
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertIn("--dag and --megatron take a scenario", done.stderr)

    def test_output_that_cannot_be_made_names_its_folder(self):
        write("file", "")
        done = simulate("file/below")
        self.assertEqual(done.returncode, 73, done.stderr)
        reasons = [simulate(f"/sys{below}").stderr.rpartition(": ")[2] for below in ("/new", "/new/below")]
        self.assertEqual(reasons[0], reasons[1])  # that of the folder that could not be made, not of those below it


if __name__ == "__main__":
    unittest.main(verbosity=2)

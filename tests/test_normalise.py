# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests make rows of `slimsim validate` of raw tables by model/validation/normalise.py."""
import csv
import io
import json
import pathlib
import subprocess
import sys
import unittest

from program import SCRATCH, run, write

VALIDATION = pathlib.Path(__file__).resolve().parent.parent / "model" / "validation"
RAW = {"id": "X1", "gpu": "H100-SXM-80GB", "fabric": "", "framework": "Megatron-LM", "model": "Llama-7B", "hidden": "4096",
       "layers": "32", "heads": "32", "kv_groups": "32", "ffn": "11008", "vocab": "32000", "activation": "swiglu",
       "seq_len": "4096", "n_gpus": "16", "tp": "2", "sp": "1", "pp": "2", "vpp": "", "cp": "", "dp": "4",
       "sharding": "distributed optimizer", "mbs": "1", "gbs": "64", "n_microbatch": "", "recompute": "none",
       "precision": "bf16", "attn_kernel": "FlashAttention-2", "step_time_s": "2.5", "notes": ""}

HEADER = "column,text,framework,when,keys,assumed,skip,source\n"


def normalise(path, *arguments):
    return subprocess.run([sys.executable, VALIDATION / "normalise.py", path, *arguments], capture_output=True, text=True)


def table(*changes):
    """A raw table of one row for each of the changes."""
    rows = [RAW | change for change in changes]
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval="")
    writer.writeheader()
    writer.writerows(rows)
    return write("raw.csv", file.getvalue())


class Normalise(unittest.TestCase):
    def rows(self, *changes, dictionary=None):
        more = ["--dictionary", write("more.csv", HEADER + dictionary)] if dictionary else []
        done = normalise(table(*changes), *more)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def test_shipped_tables__are_what_their_printed_cells_become(self):
        for name in ("training_h100.csv", "training_a100.csv", "layers.csv", "memory.csv"):
            done = normalise(VALIDATION / name)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, (VALIDATION / name).read_text(), name)

    def test_public_rows__are_graded_by_the_lines_and_can_be_had_as_delivered(self):
        path = VALIDATION / "public.csv"
        done = subprocess.run([sys.executable, VALIDATION / "regrade.py", path], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), (path.read_text(), ""))
        delivered = subprocess.run([sys.executable, VALIDATION / "regrade.py", "--delivered", path], capture_output=True, text=True)
        old, new = ({row["id"]: row for row in csv.DictReader(io.StringIO(text.partition("\n")[2]))}
                    for text in (delivered.stdout, done.stdout))
        self.assertEqual((old.keys(), "group" in old["G080"]), (new.keys(), False))
        self.assertEqual((old["G080"]["framework"], new["G080"]["framework"]), ("deepspeed", "megatron-deepspeed"))
        self.assertIn("framework=deepspeed", new["G080"]["delivered"])
        self.assertEqual({row["split"] for row in new.values()}, {"open"})
        self.assertEqual([row for row in new.values() if not row["group"] or (row["delivered"] and not row["graded"])], [])

    def test_dictionary__has_a_source_for_what_holds_in_every_row(self):
        """Such lines are conventions that somebody wrote down, or are said to be assumed."""
        lines = (VALIDATION / "dictionary.csv").read_text().splitlines(keepends=True)
        always = [line for line in csv.DictReader(lines[1:]) if not line["column"] and not line["framework"]]
        self.assertGreater(len(always), 5)
        self.assertEqual([line for line in always if not line["source"] and not line["assumed"]], [])

    def test_row__is_a_scenario_with_its_raw_cells(self):
        (row,) = self.rows({})
        for key, value in {"model.name": "Llama-7B", "model.hidden": "4096", "model.kv_heads": "32", "device": "h100-sxm",
                           "plan.tp": "2", "plan.pp": "2", "plan.dp": "4", "communication.dp_overlap": "none", "attention": "flash2",
                           "platform.nodes": "2", "platform.gpus_per_node": "8", "data.context": "4096", "data.global_batch": "64", "micro_batch": "1",
                           "model.activation": "swiglu", "model.vocabulary_multiple": "128", "step_time_s": "2.5",
                           "assumed": "fp32 gradients; untied embeddings; NICs of the device's data sheet"}.items():
            self.assertEqual(row[key], value, key)
        printed = dict(part.split("=", 1) for part in row["printed"].split(" | "))
        self.assertEqual(printed, {name: cell for name, cell in RAW.items() if cell and name not in ("id", "step_time_s")})

    def test_row__is_predicted_by_validate(self):
        done = normalise(table({}, {"id": "X2", "precision": "fp8 (rowwise)"}))
        path = write("rows.csv", done.stdout)
        report = json.loads(run("validate", "--json", "--quiet", "--output", SCRATCH / "validation", path).stdout)
        self.assertEqual([row["row"] for row in report["rows"]], ["X1"])
        self.assertGreater(report["rows"][0]["predicted"], 0)
        self.assertEqual([(row["row"], row["skipped"]) for row in report["skipped"]],
                         [("X2", "precision 'fp8 (rowwise)': no curve of GEMMs with a scale for each row")])

    def test_framework__is_read_as_the_longest_text_that_it_begins_with(self):
        rows = self.rows({"id": "A", "framework": "Megatron-LM core_r0.12"}, {"id": "B", "framework": "NeMo 2 (25.04)"},
                         {"id": "C", "framework": "Megatron-LM"})
        self.assertEqual([row["framework"] for row in rows], ["megatron-core", "nemo", "megatron-core"])
        self.assertIn("framework Megatron-LM core_r0.12 as Megatron-LM", rows[0]["assumed"])
        self.assertIn("framework NeMo 2 (25.04) as NeMo 2", rows[1]["assumed"])
        self.assertNotIn("as Megatron-LM", rows[2]["assumed"])
        done = normalise(table({"id": "D", "framework": "Megatron-LMX"}))
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_model__needs_no_line_if_all_sizes_are_given(self):
        (row,) = self.rows({"model": "Our own 7B"})
        self.assertEqual(row["model.name"], "Our own 7B")
        done = normalise(table({"model": "Our own 7B", "vocab": ""}))
        self.assertEqual((done.returncode, done.stdout), (1, ""))

    def test_unknown_text__is_listed_with_its_rows_and_nothing_is_written(self):
        path = table({"id": "A", "sharding": "ZeRO-9"}, {"id": "B"}, {"id": "C", "sharding": "ZeRO-9"},
                     {"id": "D", "seq_len": "8K"}, {"id": "E", "checkpointing": "on"}, {"id": "", "framework": "mine"})
        done = normalise(path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr.splitlines(), [
            f"{path}: column sharding: 'ZeRO-9' (framework 'Megatron-LM') is not in the dictionary; rows A C",
            f"{path}: column seq_len: '8K' (framework 'Megatron-LM') is not in the dictionary; rows D",
            f"{path}: column checkpointing: 'on' (framework 'Megatron-LM') is not in the dictionary; rows E",
            f"{path}: column framework: 'mine' (framework 'mine') is not in the dictionary; rows line 7"])

    def test_added_lines__make_unknown_texts_known(self):
        lines = ("framework,mine,,,framework=composer,,,\nseq_len,{n}K,,,seq_len={n}*1024,,,\n"
                 "sharding,groups of {n},composer,,plan.sharding=zero2 plan.shard_group={n},groups as they stand,,\n"
                 "checkpointing,on,,,plan.recompute=full,,,\ngpu,Hopper,,,device=h100-sxm,,,\n")
        (row,) = self.rows({"framework": "mine", "seq_len": "8K", "sharding": "groups of 2", "checkpointing": "on", "gpu": "Hopper"},
                           dictionary=lines)
        for key, value in {"framework": "composer", "attention": "flash1", "data.context": "8192",
                           "plan.sharding": "zero2", "plan.shard_group": "2", "plan.recompute": "full",
                           "device": "h100-sxm"}.items():
            self.assertEqual(row[key], value, key)
        self.assertIn("groups as they stand", row["assumed"])

    def test_added_lines__win_and_take_the_sentence_of_the_line_before(self):
        (row,) = self.rows({}, dictionary="notes,never,,,plan.gradients=bf16,,,\nsharding,distributed optimizer,,,plan.gradients=bf16,,,\n")
        self.assertEqual(row["plan.gradients"], "bf16")
        self.assertEqual(row["assumed"], "untied embeddings; NICs of the device's data sheet")

    def test_presets__leave_to_the_row_what_they_do_not_say(self):
        """Composer's preset shards as FSDP does and reduces in bf16; InternEvo has no preset."""
        rows = self.rows({"framework": "llm-foundry (PyTorch FSDP)", "sharding": "FSDP FULL_SHARD (ZeRO-3)", "tp": "1", "pp": "1",
                          "dp": "16"},
                         {"framework": "llm-foundry (PyTorch FSDP)", "sharding": "FSDP SHARD_GRAD_OP (ZeRO-2)", "tp": "1",
                          "pp": "1", "dp": "16"}, {"framework": "InternEvo", "sharding": "ZeRO-1 over DP"})
        keys = ("framework", "plan.sharding", "plan.gradients", "kernels", "plan.gradient_buffers")
        self.assertEqual([tuple(row[key] for key in keys) for row in rows],
                         [("composer", "", "", "", ""), ("composer", "zero2", "", "", ""), ("", "zero1", "bf16", "fused", "freed")])
        self.assertTrue(all(row["assumed"].startswith("gradients of 2 bytes; ") for row in rows))

    def test_notes__are_read_by_their_parts(self):
        (row,) = self.rows({"notes": "no data parallelism; tied embeddings; step 3 of 7"})
        self.assertEqual((row["model.tied_embeddings"], row["notes"]), ("true", "no data parallelism; tied embeddings; step 3 of 7"))
        self.assertNotIn("embeddings", row["assumed"])

    def test_degrees_and_batches__follow_from_the_others(self):
        rows = self.rows({"tp": ""}, {"pp": ""}, {"dp": ""}, {"mbs": "", "n_microbatch": "4"}, {"gbs": "", "n_microbatch": "4"},
                         {"n_gpus": "4", "tp": "1", "pp": "1"}, {"layers": "30", "pp": "4", "dp": "2"})
        keys = ("plan.tp", "plan.pp", "plan.dp", "micro_batch", "data.global_batch", "platform.nodes", "platform.gpus_per_node", "skip")
        told = [tuple(row.get(key, "") for key in keys) for row in rows]
        self.assertEqual(told[:3], [("2", "2", "4", "1", "64", "2", "8", "")] * 3)
        self.assertEqual(told[3], ("2", "2", "4", "4", "64", "2", "8", ""))
        self.assertEqual(told[4], ("2", "2", "4", "1", "16", "2", "8", ""))
        self.assertEqual(told[5], ("1", "1", "4", "1", "64", "1", "4", ""))
        self.assertEqual((rows[6]["plan.count_embedding"], rows[6]["plan.count_head"]), ("true", "true"))

    def test_skipped_rows__say_what_they_lack(self):
        lacks = {"hidden": "hidden is missing", "seq_len": "seq_len is missing", "n_gpus": "n_gpus is missing", "mbs": "mbs is missing",
                 "gbs": "gbs is missing", "precision": "precision is missing", "sharding": "sharding is missing", "gpu": "gpu is missing",
                 "step_time_s": "no tps_per_gpu, tokens_per_s, step_time_s, nor tflops_per_gpu of a known formula"}
        rows = self.rows(*({"id": name, name: ""} for name in lacks), {"id": "nodes", "n_gpus": "12", "tp": "1", "pp": "3"},
                         {"id": "batch", "n_microbatch": "5"})
        self.assertEqual({row["id"]: row["skip"] for row in rows},
                         lacks | {"nodes": "n_gpus are not whole nodes", "batch": "n_microbatch is not gbs / (mbs x dp)"})

    def test_scenario_rows__of_a_normalised_table_stay_as_they_are(self):
        path = write("mixed.csv", normalise(table({})).stdout)
        row = dict(next(csv.DictReader(io.StringIO(path.read_text()))), id="own", printed="", **{"plan.tp": "1"})
        with path.open("a", newline="") as file:
            csv.DictWriter(file, list(row), lineterminator="\n").writerow(row)
        self.assertEqual(normalise(path).stdout, path.read_text())

    def test_wrong_files__are_refused(self):
        path, head = table({}), "column,text,framework,when,keys,assumed,skip\n"
        for arguments, message in [
            ((SCRATCH / "nowhere.csv",), "No such file or directory"),
            ((write("empty.csv", "# x\n"),), "empty.csv: holds no rows"),
            ((write("short.csv", "id,gpu\n1,2\n3\n"),), "short.csv:3: 1 fields; the header has 2 columns"),
            ((write("quote.csv", 'id,gpu\n1,"2\n'),), "unexpected end of data"),
            ((path, "--dictionary", write("d1.csv", "column,text\na,b\n")), "d1.csv: has no column 'framework'"),
            ((path, "--dictionary", write("d2.csv", head + "gpu,x,,,device,,\n")), "d2.csv:2: '' and 'device' are not allowed"),
            ((path, "--dictionary", write("d3.csv", head + "gpu,x,,tp<2,device=y,,\n")), "d3.csv:2: 'tp<2' and"),
        ]:
            done = normalise(*arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)

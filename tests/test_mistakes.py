# SPDX-License-Identifier: GPL-3.0-or-later
"""Mistakes at the command line (mistakes.txt): each answer says what, where and what is allowed."""
import re
import shlex
import unittest

from cli_case import SOURCE
from program import SCRATCH, run, write

SMALL = """\
name: small
model: llama3-8b
device: h100-sxm
platform: {nodes: 2, gpus_per_node: 8, nic: 400Gbps}
data: {lengths: fixed, context: 4Ki, global_batch: 16}
engine: critical-path
iterations: {warm_up: 0, measured: 1}
systems:
  - {name: best-fit, plan: {tp: 2, pp: 1}}
"""
QUESTION = SMALL.replace("small", "question").replace("device: h100-sxm\n", "").replace(
    "platform: {nodes: 2, gpus_per_node: 8, nic: 400Gbps}\n", "") + """\
capacity:
  tokens: 1e12
  days: 30
  offers:
    - {name: h100, device: h100-sxm, platform: h100, nodes: {from: 1, to: 2}, price: {usd_per_gpu_hour: 2}}
"""
MODEL = """\
name: mine
source: a test
hidden: 4096
layers: 32
heads: 32
ffn: 14336
kv_heads: 8
vocabulary: 128256
tied_embeddings: false
activation: swiglu
"""


def cases():
    for line in (SOURCE / "tests/mistakes.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            status, arguments, *parts = (field.strip() for field in line.split(" | "))
            yield int(status), shlex.split(arguments), parts


class Mistakes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        write("small.yaml", SMALL)
        write("question.yaml", QUESTION)
        write("relu2.yaml", MODEL.replace("swiglu", "relu2"))
        write("experts.yaml", MODEL.replace("ffn: 14336", "num_local_experts: 8\nmoe_layer_freq: 1\nffn: 14336"))
        write("hf.yaml", MODEL.replace("kv_heads", "num_key_value_heads"))

    def test_each_answer_says_what_where_and_what_is_allowed(self):
        self.assertGreaterEqual(len(list(cases())), 100)
        for status, arguments, parts in cases():
            with self.subTest(arguments=arguments):
                output = ["--output", "results"] if "-h" not in arguments and arguments[0] in ("run", "capacity") else []
                done = run(*arguments, *output, cwd=SCRATCH)
                self.assertEqual(done.returncode, status, done.stderr)
                if status != 0:
                    self.assertEqual(done.stdout, "")
                    self.assertRegex(done.stderr, r"^slimsim")
                said = " ".join((done.stderr + done.stdout).split())
                for part in parts:
                    (self.assertNotIn if part[0] == "!" else self.assertIn)(part.lstrip("!"), said)

    def test_the_table_names_what_there_is(self):
        text = (SOURCE / "src/base/unmodelled.def").read_text()
        keys = run("list", "values").stdout.split() + re.findall(r"^  (\w+)  ", run("list", "keys").stdout, re.MULTILINE)
        for kind, name in re.findall(r'^ALSO_CALLED\("([^"]+)", "[^"]+", "([^"]+)"\)$', text, re.MULTILINE):
            folder = {"model": "model/llm", "device": "model/gpu", "framework": "model/framework"}.get(kind)
            if folder is not None:
                self.assertTrue((SOURCE / folder / f"{name}.yaml").exists(), name)
            elif kind == "key" and not name.startswith("systems.0.knobs."):
                self.assertIn(re.split(r"[, ]", name)[0], keys)
            elif kind != "key":
                words = run("list", "values", kind if kind in ("attention", "precision") else f"systems.0.plan.{kind}").stdout.split()
                if kind == "activation":  # a key of models
                    words = re.search(r"^  activation +choice +- +(\S+)", run("list", "keys").stdout, re.MULTILINE)[1].split("|")
                self.assertIn(re.split(r"[, ]", name)[0], words, (kind, name))


if __name__ == "__main__":
    unittest.main(verbosity=2)

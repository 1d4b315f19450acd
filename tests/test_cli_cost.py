#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests print the costs of single units."""
import json
import unittest

from program import run


class Costs(unittest.TestCase):
    def test_the_embedding_follows_sequence_parallelism(self):
        """h is 4096, V 32000, TP 2, with 1024 tokens. Forward a token has rows of 4h, and half of them are set to zero,
        2h/2. Backward it has 3h, and each of V/2 h parameters 12 bytes. If it is off, each TP rank sends all 2h bytes a
        token to the next stage."""
        arguments = ("cost", "--model", "llama-7b", "--slice", "0:1Ki", "--tp", "2", "--json")
        both = [json.loads(run(*arguments, "--sequence-parallel", state).stdout) for state in ("on", "off")]
        self.assertEqual([cost["sequence_parallel"] for cost in both], [True, False])
        for cost in both:
            moved = [sum(kernel["hbm_bytes"] for kernel in cost[name]["kernels_of_the_embedding"])
                     for name in ("forward", "backward")]
            self.assertEqual(moved, [1024 * 5 * 4096, 1024 * 3 * 4096 + 12 * 16000 * 4096])
        self.assertEqual([cost["forward"]["boundary_bytes"] for cost in both], [1024 * 4096, 1024 * 2 * 4096])
        self.assertEqual(json.loads(run(*arguments).stdout), both[0])
        self.assertIn("must be one of off|on", run(*arguments, "--sequence-parallel", "maybe").stderr)

    def test_context_parallelism_is_that_of_the_type(self):
        """4096 tokens run on two ranks with 32 layers and q = k = h = 4096. Ring and all-gather send half of 4k L bytes
        a layer. ulysses sends half of (2q + 2k) x 2 bytes of each of L/2 tokens. A contiguous ring brings all gradients
        home in fp32, 8k L. Rings' transfers are tasks of their own, not seconds here."""
        arguments = ("cost", "--model", "llama-7b", "--slice", "0:4Ki", "--cp", "2", "--json")
        costs = {kind: json.loads(run(*arguments, "--cp-type", kind).stdout)
                 for kind in ("ring", "all-gather", "ulysses", "ring-contiguous")}
        self.assertEqual({kind: cost["cp_type"] for kind, cost in costs.items()}, {kind: kind for kind in costs})
        sent = 32 * 4096 * 4 * 4096 // 2
        self.assertEqual([cost["forward"]["ring_bytes"] for cost in costs.values()], [sent, sent, sent, sent])
        self.assertEqual([cost["backward"]["ring_bytes"] for cost in costs.values()], [2 * sent, 2 * sent, sent, 5 * sent])
        self.assertEqual([cost["forward"]["context_s"] > 0 for cost in costs.values()], [False, True, True, False])
        slower = [costs[kind]["forward"]["attention_s"] for kind in ("ring", "ring-contiguous")]
        self.assertAlmostEqual(slower[1] / slower[0], 2 - 1 / 2, delta=0.15)
        self.assertEqual(json.loads(run(*arguments).stdout), costs["ring"])
        self.assertIn("CP 2 (ulysses)", run(*arguments[:-1], "--cp-type", "ulysses").stdout)
        self.assertIn("--cp-type must be one of ring|", run(*arguments, "--cp-type", "star").stderr)
        for more, told in ((("--cp-type", "ulysses", "--cp", "64"), "ulysses needs tp x cp = 1 x 64 to divide the 32 heads"),
                           (("--tp", "16"), "--tp: 16 does not divide the 8 GPUs of a node of hopper-16x8")):
            done = run(*arguments, *more)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(told, done.stderr)

    def test_experts_are_those_of_the_plan(self):
        """Mixtral has h 4096 and sends a token to 2 experts in each of 32 layers. 7/8 of 4096 tokens' copies leave a GPU of
        8, and half of those of 2048 leave one of 2. The backward repeats the forward's two all-to-alls under `full`."""
        arguments = ("cost", "--model", "mixtral-8x7b", "--slice", "0:4Ki", "--json")
        for degrees, sent in ((("--ep", "8"), 4096 * 2 * 4096 * 2 * 7 // 8), (("--tp", "2", "--ep", "2"), 2048 * 2 * 4096 * 2 // 2),
                              (("--cp", "2"), 0)):
            cost = json.loads(run(*arguments, *degrees).stdout)
            self.assertEqual(cost["ep"], int(degrees[-1]) if "--ep" in degrees else 1)
            for name, number in (("forward", 2), ("backward", 2), ("input", 2), ("weight", 0)):
                exchanges = cost[name]["all_to_alls_of_a_layer"]
                self.assertEqual([exchange["sent_bytes"] for exchange in exchanges], number * [sent], (degrees, name))
                self.assertEqual(cost[name]["expert_bytes"], 32 * number * sent)
                self.assertAlmostEqual(cost[name]["expert_s"], 32 * sum(exchange["seconds"] for exchange in exchanges), delta=1e-12)
            full = json.loads(run(*arguments, *degrees, "--recompute", "full").stdout)
            self.assertEqual(full["backward"]["expert_bytes"], 2 * cost["backward"]["expert_bytes"])
        by_kind = json.loads(run("cost", "--model", "deepseek-v2-lite", "--slice", "0:4Ki", "--ep", "8", "--json").stdout)
        self.assertEqual({name: len(listed) for name, listed in by_kind["forward"]["all_to_alls_of_a_layer"].items()},
                         {"dense": 0, "experts": 2})
        text = run("cost", "--model", "deepseek-v2-lite", "--slice", "0:4Ki", "--ep", "8").stdout
        self.assertIn(", EP 8, 27 layers", text.splitlines()[0])
        for line in ("all-to-alls of one experts layer on one rank +bytes sent +seconds", r"tokens to experts +\d+ +\d\.\d+e-\d+",
                     r"gradients of experts back +\d+ +\d\.\d+e-\d+"):
            self.assertRegex(text, f"\n  {line}\n")
        self.assertNotIn("all-to-alls of one dense layer", text)

    def test_gemms_of_experts_are_those_of_the_kind(self):
        """The default is sequential. With 1,024 tokens an expert a shared kernel is the fastest. Other GEMMs stay."""
        def seconds(*options):
            done = run("cost", "--model", "qwen3-30b-a3b", "--device", "h100-sxm", "--ep", "8", "--slice", "0:2Ki", "--json", *options)
            return {kernel["name"]: kernel["seconds"] for kernel in json.loads(done.stdout)["forward"]["kernels_of_a_layer"]}

        of = {kind: seconds("--expert-gemms", kind) for kind in ("sequential", "multi-stream", "grouped")}
        self.assertEqual(of["sequential"], seconds())
        times = [of[kind]["experts' up GEMM"] for kind in of]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertEqual(len(set(times)), 3)
        self.assertEqual(len({of[kind]["QKV GEMM"] for kind in of}), 1)

    def test_experts_of_no_plan_are_refused(self):
        """`plan.ep` has the same rules. Its default is 1, too."""
        for model, degrees, told in (
                ("llama-7b", ("--ep", "2"), "--ep: 2, but model llama-7b has no experts; allowed: 1"),
                ("mixtral-8x7b", ("--tp", "2", "--ep", "2", "--sequence-parallel", "off"), "--sequence-parallel: off, but with experts"),
                ("mixtral-8x7b", ("--ep", "16"), "--ep: 16; allowed: divisors of the experts of each layer of mixtral-8x7b"),
                ("mixtral-8x7b", ("--cp", "3", "--ep", "4"), "multiples or divisors of --tp = 1 and of --tp x --cp = 3"),
                ("deepseek-v3", ("--ep", "256"), "--ep: 256 exceeds the 128 GPUs of hopper-16x8")):
            done = run("cost", "--model", model, "--slice", "0:1Ki", *degrees)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(told, done.stderr)

    def test_the_kernels_of_every_pass_are_its_seconds(self):
        cost = json.loads(run("cost", "--model", "gpt3-175b", "--slice", "0:1Ki", "--layers", "1", "--json").stdout)
        for name in ("forward", "backward", "input", "weight"):
            for kernels, seconds in (("of_a_layer", "layers_s"), ("of_the_embedding", "embedding_s"), ("of_the_head", "head_s")):
                listed_s = sum(kernel["seconds"] for kernel in cost[name][f"kernels_{kernels}"])
                self.assertAlmostEqual(listed_s, cost[name][seconds], delta=1e-9 * listed_s, msg=(name, kernels))

    def test_precision_is_that_of_gemms(self):
        """A GEMM in fp8 moves a byte an operand and has the same FLOPs. Inputs that norms do not write are cast."""
        arguments = ("cost", "--model", "llama3-8b", "--device", "h100-sxm", "--slice", "0:8Ki", "--layers", "1")
        half, fp8 = (json.loads(run(*arguments, "--precision", name, "--json").stdout) for name in ("bf16", "fp8-tensor"))
        kernels = [{kernel["name"]: kernel for kernel in cost["forward"]["kernels_of_a_layer"]} for cost in (half, fp8)]
        self.assertEqual(set(kernels[1]) - set(kernels[0]), {"casts to fp8"})
        self.assertLess(kernels[1]["up GEMM"]["seconds"], 0.7 * kernels[0]["up GEMM"]["seconds"])
        self.assertEqual((half["flop"], half["precision"], fp8["precision"]), (fp8["flop"], "bf16", "fp8-tensor"))
        self.assertEqual(json.loads(run(*arguments, "--json").stdout), half)
        done = run(*arguments, "--precision", "mxfp8")
        self.assertEqual((done.returncode, done.stderr), (2, "slimsim: --precision: mxfp8 was not measured on device h100-sxm; allowed: bf16, fp8-tensor\n"))
        self.assertEqual(run(*arguments, "--device", "a100-80g", "--precision", "fp8-tensor").stderr,
                         "slimsim: --precision: fp8-tensor: device a100-80g has no fp8 tensor cores; allowed: bf16\n")
        self.assertIn("--expert-gemms grouped was not measured in fp8",
                      run(*arguments, "--model", "mixtral-8x7b", "--expert-gemms", "grouped", "--precision", "fp8-tensor").stderr)

    def test_several_slices_are_one_unit(self):
        """Model FLOPs add up. A GEMM of all tokens is one kernel, and takes the time of as many tokens in one slice."""
        def cost(*slices, kernels="fused"):
            named = [word for text in slices for word in ("--slice", text)]
            return json.loads(run("cost", "--model", "llama-7b", *named, "--kernels", kernels, "--json").stdout)

        def gemm_s(result):
            return [kernel["seconds"] for kernel in result["forward"]["kernels_of_a_layer"] if "GEMM" in kernel["name"]]

        first, second, unit = cost("0:1Ki"), cost("8Ki:9Ki"), cost("0:1Ki", "8Ki:9Ki")
        self.assertEqual(unit["slices"], [[0, 1024], [8192, 9216]])
        for name, flop in unit["flop"].items():
            self.assertEqual(flop, first["flop"][name] + second["flop"][name], name)
        self.assertEqual(gemm_s(unit), gemm_s(cost("0:2Ki")))
        self.assertGreater(cost("0:1Ki", kernels="eager")["forward"]["layers_s"], first["forward"]["layers_s"])
        self.assertIn("tokens [0, 1024), [8192, 9216) of 2 samples",
                      run("cost", "--model", "llama-7b", "--slice", "0:1Ki", "--slice", "8Ki:9Ki").stdout)
        self.assertEqual(run("cost", "--model", "gpt3-175b", "--slice", "0:1Ki", "--slice", "1Ki:2049").returncode, 2)

    def test_the_first_line_says_what_is_a_default(self):
        cost = ("cost", "--model", "llama-7b", "--slice", "0:1Ki", "--layers", "1")
        for options, ending in (((), "on h800 (default) with links of hopper-16x8 (default)"),
                                (("--device", "h100-sxm"), "on h100-sxm with links of hopper-16x8 (default)"),
                                (("--platform", "h100-1x8", "--device", "h100-sxm"), "on h100-sxm with links of h100-1x8")):
            self.assertTrue(run(*cost, *options).stdout.splitlines()[0].endswith(f", 1 layers, {ending}"))

    def test_what_is_not_exact_is_not_printed(self):
        done = run("cost", "--model", "gpt3-175b", "--slice", "1Ki:2049")
        self.assertEqual(done.returncode, 2)
        self.assertIn("learned positions for 2048 tokens, fewer than END, 2049", done.stderr)
        done = run("cost", "--model", "llama-7b", "--slice", "0:4Mi")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--layers", done.stderr)
        self.assertEqual(run("cost", "--model", "llama-7b", "--slice", "0:8Mi", "--layers", "1").returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)

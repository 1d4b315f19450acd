#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests take lengths of the user's own through the program: each kind of file, what is said of it, and results."""
import json
import unittest

import h5py

from cli_case import SMALL, simulate
from program import QUESTION, SCRATCH, run, write

HISTOGRAM = "length,count\n128,900\n512,80\n2048,15\n8192,5\n"
FILES = {  # name: (text, mean of its documents [tokens], how the sentence on stderr begins)
    "float.csv": ("length\n2274.0\n1079.0\n4804.0\n", 2719, "column 'length' of "),
    "histogram.csv": (HISTOGRAM, 227.84, "column 'length' weighted by 'count' of "),
    "lengths.tsv": ("doc\tlength\nd0\t2274\nd1\t1079\n", 1676.5, "column 'length' of "),
    "savetxt.txt": ("2.274000000000000000e+03\n1.079000000000000000e+03\n", 1676.5, ""),
    "lengths.jsonl": ('{"id": 0, "num_tokens": 2274}\n{"id": 1, "num_tokens": 1079}\n', 1676.5, "field 'num_tokens' of "),
    "thousands.csv": ('tokens\n"2,274"\n"1,079"\n"4,804"\n', 2719, "column 'tokens' of "),
}
REFUSED = {  # name: (text, part of the sentence)
    "several.csv": ("Timestamp,Model,Request tokens,Total tokens\n0,ChatGPT,2274,3032\n1,ChatGPT,1079,1438\n",
                    ":1: 2 columns hold numbers: 'Request tokens', 'Total tokens'; data.column names the one of lengths"),
    "of.parquet": ("PAR1", "to_csv('lengths.csv', index=False)"),
}


def lengths_of(data, *arguments):
    """Run `slimsim lengths` on a scenario with these data."""
    path = write("own.yaml", SMALL.replace("lengths: github", data))
    return run("lengths", path, "--json", *arguments)


class OwnLengths(unittest.TestCase):
    def test_file__of_each_kind_gives_its_documents_and_says_so(self):
        for name, (text, mean, said) in FILES.items():
            path = write(name, text)
            done = lengths_of(f"lengths: {path}")
            with self.subTest(name):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertAlmostEqual(json.loads(done.stdout)["document_mean_tokens"], mean, 9)
                self.assertTrue(done.stderr.startswith(f"data.lengths: {said}{path}: "), done.stderr)
                self.assertIn(f" mean {mean:.1f}, median ", done.stderr)

    def test_file__that_is_unclear_is_refused_with_a_way_out(self):
        for name, (text, part) in REFUSED.items():
            done = lengths_of(f"lengths: {write(name, text)}")
            with self.subTest(name):
                self.assertEqual(done.returncode, 2)
                self.assertIn(part, done.stderr)

    def test_weights__of_another_name_are_named(self):
        path = write("bins.csv", "bin,documents\n10,1\n40,3\n")
        for weights, mean in (("documents", 32.5), ("none", 25)):
            done = lengths_of(f"lengths: {path}, column: bin, weights: {weights}")
            self.assertEqual(json.loads(done.stdout)["document_mean_tokens"], mean)
        done = lengths_of("lengths: github, weights: documents")
        self.assertIn("data.weights: 'documents' is for ", done.stderr)

    def test_list__is_the_same_as_its_text(self):
        printed = [lengths_of(f"lengths: {lengths}").stdout for lengths in ("8Ki 4400 900", "[8Ki, 4.4k, 900.0]")]
        self.assertIn('"document_mean_tokens": 4497.', printed[0])
        self.assertEqual(*printed)
        for lengths, part in (("[8Ki, a.csv]", "'a.csv' is no length; a list holds"), ("[]", "the list is empty"),
                              ("[[1]]", "'a list or mapping' is no length"), (str([10000] * 99), "a list of over 511")):
            done = lengths_of(f"lengths: {lengths}")
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)

    def test_mix__runs_again_to_the_same(self):
        """Half of the tokens are in documents of 1,000, half in those of 4,000. So 4 of 5 documents have 1,000."""
        long = write("long.csv", "id,n,count\n7,4000,2\n9,9000,0\n")
        parts = [f"{{lengths: {write('short.txt', '1000')}, share: 0.5}}", f"{{lengths: {long}, column: n, share: 50%}}"]
        done = lengths_of(f"mix: [{', '.join(parts)}]")
        self.assertEqual(json.loads(done.stdout)["document_mean_tokens"], 1600, done.stderr)
        self.assertIn("of documents: 80.0% ", done.stderr)
        scenario = SMALL.replace("lengths: github", f"mix: [{', '.join(parts)}]")
        self.check_runs_again("mix", scenario)
        done = run("run", write("mixed.yaml", scenario), "--quiet", "--output", SCRATCH / "mixed")
        self.assertIn(" mixed documents up to ", done.stdout.replace("\n  ", " ").splitlines()[0])

    def test_schedule__divides_the_measured_iterations(self):
        """After the warm-up 6 of 8 iterations have documents of 1,000 tokens, and 2 have documents of 32Ki."""
        data = (f"data: {{schedule: [{{lengths: {write('short.txt', '1000')}, share: 0.75}}, {{lengths: fixed, share: 0.25}}], "
                "context: 32Ki, global_batch_tokens: 256Ki}")
        scenario = SMALL.replace("data: {lengths: github, context: 32Ki, global_batch: 48}", data).replace("measured: 2", "measured: 8")
        rows = self.check_runs_again("schedule", scenario)
        documents = {int(row["iteration"]): int(row["documents"]) for row in rows}
        self.assertEqual([documents[i] for i in range(9)], 7 * [256] + 2 * [8])

    def test_answers__say_what_they_read(self):
        path = write("read.csv", "length\n1000\n4000\n")
        question = write("question.yaml", QUESTION.replace("lengths: github", f"lengths: {path}"))
        scenario = write("read.yaml", SMALL.replace("lengths: github", f"lengths: {path}").replace("engine: both", "engine: critical-path"))
        said = f"data.lengths: column 'length' of {path}: 2 lengths, mean 2500.0, median 1000, longest 4000 tokens\n"
        for command in (("capacity", question), ("compare", scenario, scenario), ("plan", scenario), ("run", scenario, "--sweep", "seed=1,2")):
            done = run(*command, *(() if command[0] == "plan" else ("--output", SCRATCH / "read")))
            with self.subTest(command[0]):
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stderr.count(said), 1, done.stderr)

    def check_runs_again(self, folder, scenario):
        """Run a scenario and the resolved one of its results. @return the rows of iterations"""
        first = simulate(folder, scenario=scenario)
        self.assertEqual(first.returncode, 0, first.stderr)
        with h5py.File(SCRATCH / folder / "small.h5") as file:
            resolved, rows = file.attrs["scenario"].decode(), file["iterations"][:]
        again = simulate(f"{folder}-again", scenario=resolved)
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout), again.stderr)
        self.assertEqual((SCRATCH / folder / "small.h5").read_bytes(), (SCRATCH / f"{folder}-again/small.h5").read_bytes())
        return rows

    def test_parts__that_are_wrong_are_refused_with_their_place(self):
        part = "{lengths: github, share: 0.5}"
        cases = {
            f"mix: [{part}]": "data.mix: the shares sum to 0.5; allowed: shares of all tokens, which sum to 1",
            f"mix: [{part}, {part}], lengths: github": "data.mix: data.lengths is 'github', too; allowed: one of them",
            f"mix: [{part}, {part}], schedule: [{part}]": "data.schedule: data.mix is given, too",
            "mix: github": "data.mix: expected a list of {lengths: ..., share: ...}",
            "mix: [{lengths: gthub, share: 1}]": "own.yaml:5:24: data.mix.0.lengths: there is no law or table 'gthub'",
            "mix: [{lengths: 8Ki 4400, share: 1}]": "data.mix: a list is taken in its order, and a mix draws",
            "mix: [{lengths: mix, share: 1}]": "data.mix: a part cannot be 'mix' itself",
            f"mix: {str([1] * 9)}": "data.mix: allowed: at most 8 parts",
            f"mix: [{part}, {{lengths: ./absent.csv, share: 0.5}}]": "absent.csv",
            f"schedule: [{part}, {part}]": "data.schedule: needs data.global_batch_tokens",
            "lengths: mix": "data.lengths: 'mix' needs data.mix",
        }
        for data, sentence in cases.items():
            done = lengths_of(data)
            with self.subTest(data):
                self.assertEqual(done.returncode, 2)
                self.assertIn(sentence, done.stderr)
        done = lengths_of("schedule: [{lengths: github, share: 0.99}, {lengths: fixed, share: 0.01}]", "--set",
                          "data.global_batch=0", "--set", "data.global_batch_tokens=1Mi")
        self.assertIn("data.schedule: share 0.01 of 2 measured iterations is none; allowed: a larger share, or at least 100",
                      done.stderr)

    def test_results__tell_what_was_read_and_run_again_to_the_same(self):
        data = f"lengths: {write('histogram.csv', HISTOGRAM)}"
        self.check_runs_again("first", SMALL.replace("lengths: github", data))
        with h5py.File(SCRATCH / "first/small.h5") as file:
            self.assertIn("4 lengths, mean 227.8, median 128, longest 8192 tokens", file.attrs["lengths_read"].decode())


if __name__ == "__main__":
    unittest.main()

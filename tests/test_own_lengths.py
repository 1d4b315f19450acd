#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests take lengths of the user's own through the program: each kind of file, what is said of it, and results."""
import json
import unittest

import h5py

from cli_case import SMALL, simulate
from program import SCRATCH, run, write

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

    def test_results__tell_what_was_read_and_run_again_to_the_same(self):
        data = f"lengths: {write('histogram.csv', HISTOGRAM)}"
        first = simulate("first", scenario=SMALL.replace("lengths: github", data))
        self.assertEqual(first.returncode, 0, first.stderr)
        with h5py.File(SCRATCH / "first/small.h5") as file:
            self.assertIn("4 lengths, mean 227.8, median 128, longest 8192 tokens", file.attrs["lengths_read"].decode())
            resolved = file.attrs["scenario"].decode()
        again = simulate("again", scenario=resolved)
        self.assertEqual((again.returncode, again.stdout), (0, first.stdout), again.stderr)
        self.assertEqual((SCRATCH / "again/small.h5").read_bytes(), (SCRATCH / "first/small.h5").read_bytes())


if __name__ == "__main__":
    unittest.main()

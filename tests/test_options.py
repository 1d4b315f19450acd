# SPDX-License-Identifier: GPL-3.0-or-later
"""Options: a letter has one meaning in all verbs, a former option says its new name, and -h helps everywhere."""
import re
import unittest

from cli_case import SOURCE
from program import run

TABLE = (SOURCE / "src/cli/options.def").read_text()
VERBS = re.findall(r"^COMMAND\((\w+),", (SOURCE / "src/cli/commands.def").read_text(), re.MULTILINE)


def table(name, *fields):
    return re.findall(rf"^{name}\({', '.join(fields)}\)$", TABLE, re.MULTILINE)


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.letters = dict(table("LETTER", "'(.)'", '"([a-z-]+)"'))
        cls.options = {}  # (verb, long name): letter, or "" for none
        for verb in VERBS:
            done = run(verb, "--help")
            assert (done.returncode, done.stderr) == (0, ""), (verb, done.stderr)
            for letter, name in re.findall(r"^ +(?:-(.), )? *--([a-z-]+)", done.stdout, re.MULTILINE):
                cls.options[verb, name] = letter

    def test_a_letter_means_the_same_in_every_verb(self):
        self.assertEqual(len(set(self.letters.values())), len(self.letters))
        used = set()
        for (verb, name), letter in self.options.items():
            expected = next((key for key, long in self.letters.items() if long == name), "")
            self.assertEqual(letter, expected, (verb, name))
            used.add(letter)
        self.assertEqual(used - {""}, set(self.letters))  # no letter of the table is left over

    def test_every_verb_and_the_program_help_with_h(self):
        for words in ([], *([verb] for verb in VERBS)):
            short, long = run(*words, "-h"), run(*words, "--help")
            self.assertEqual((short.returncode, short.stdout, short.stderr), (0, long.stdout, ""), words)
            version = run(*words, "-V")
            self.assertEqual((version.returncode, version.stdout), (0, run("--version").stdout), words)

    def test_a_letter_that_changed_says_its_new_name(self):
        moved = table("MOVED", r'"(\w+)"', "'(.)'", '"([a-z-]+)"')
        self.assertGreaterEqual(len(moved), 15)
        for verb, letter, now in moved:
            short = self.options[verb, now]
            done = run(verb, f"-{letter}", "x", "y")
            self.assertEqual((done.returncode, done.stdout), (64, ""), (verb, letter))
            self.assertEqual(done.stderr.splitlines()[0],
                             f"slimsim {verb}: -{letter} is --{self.letters[letter]} everywhere; use --{now}"
                             f"{f' (-{short})' * bool(short)}")

    def test_a_long_name_that_changed_says_its_new_name(self):
        for verb, name, now in table("RENAMED", r'"(\w+)"', '"([a-z-]+)"', '"([a-z-]+)"'):
            for words in ([f"--{name}", "4GiB"], [f"--{name}=4GiB"]):
                done = run(verb, *words, "x.yaml")
                self.assertEqual((done.returncode, done.stdout), (64, ""), words)
                self.assertIn(f"--{name}: has a new name; use --{now} (-{self.options[verb, now]})\n", done.stderr)

    def test_an_option_that_is_a_key_says_how_to_set_it(self):
        for name, key in table("KEY_OPTION", '"([a-z-]+)"', '"([a-z0-9_.]+)"'):
            done = run("run", f"--{name}", "x", "y.yaml")
            self.assertEqual((done.returncode, done.stdout), (64, ""), name)
            self.assertIn(f"--{name}: is a key of the scenario; use --set {key}=VALUE\n", done.stderr)
        self.assertIn("unrecognized option '--model'", run("merge", "--model", "x").stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

# SPDX-License-Identifier: GPL-3.0-or-later
"""Completion: bash and zsh offer the commands, options, keys and values that the program lists."""
import os
import pty
import select
import shutil
import signal
import subprocess
import unittest

from cli_case import SOURCE
from program import PROGRAM, fresh, run

ENVIRONMENT = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
QWEN3 = sorted(path.stem for path in (SOURCE / "model/llm").glob("qwen3-*.yaml"))


def bash(*words):
    """The answers for the last word, as bash asks for them."""
    script = ('source src/cli/completion.bash; compopt() { :; }; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _slimsim; '
              'echo ${COMPREPLY[*]}')
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, timeout=60,
                          env=ENVIRONMENT, cwd=SOURCE)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


def read(terminal, seconds):
    """Return what appears on a terminal until nothing more has come for so long."""
    text = b""
    while select.select([terminal], [], [], seconds)[0]:
        text += os.read(terminal, 65536)
    return text.decode(errors="replace")


def zsh(lines):
    """Return what zsh makes of each line and a TAB, in a terminal of its own."""
    folder = fresh("zsh")
    folder.mkdir()
    shutil.copy(SOURCE / "src/cli/completion.zsh", folder / "_slimsim")
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(SOURCE)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**ENVIRONMENT, "TERM": "dumb", "COLUMNS": "200"})
    setup = f"PS1='> '; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {folder}/dump\n"
    answers = []
    try:
        os.write(terminal, setup.encode())
        read(terminal, 5)
        for line in lines:
            os.write(terminal, line.encode() + b"\t")
            answers.append(read(terminal, 2))
            os.write(terminal, b"\x15")  # it clears the line
            read(terminal, 0.3)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)
    return answers


class Values(unittest.TestCase):
    def test_list_values_gives_names_and_words(self):
        for key, expected in (("device", sorted(path.stem for path in (SOURCE / "model/gpu").glob("*.yaml"))),
                              ("engine", ["simgrid", "critical-path", "both"]), ("data.context", []),
                              ("systems.3.plan.sequence_parallel", ["true", "false"]), ("systems.0.plan", ["auto"]),
                              ("plan_space.recompute", ["none", "norm+activation", "full", "selective"]),
                              ("capacity.offers.1.framework", run("list", "values", "framework").stdout.split())):
            self.assertEqual(run("list", "values", key).stdout.split(), expected, key)
        keys = run("list", "values").stdout.split()
        self.assertEqual(len(set(keys)), len(keys))
        for key in ("model", "platform.nic", "systems.0.plan.tp", "faults.0.factor", "capacity.offers.0.nodes.from"):
            self.assertIn(key, keys)
        self.assertEqual((run("list", "values", "modle").returncode, run("list", "values", "a", "b").returncode), (2, 64))


class Bash(unittest.TestCase):
    def test_values_follow_the_key(self):
        for option in ("--set", "-s", "--sweep"):
            self.assertEqual(bash("slimsim", "run", option, "model", "=", "qwen3-"), QWEN3)
        self.assertEqual(bash("slimsim", "run", "-s", "model=qwen3-"), [f"model={name}" for name in QWEN3])
        self.assertEqual(bash("slimsim", "run", "--set", "=", "engine", "=", "s"), ["simgrid"])
        self.assertEqual(bash("slimsim", "run", "-s", "device", "="), run("list", "values", "device").stdout.split())
        self.assertEqual(bash("slimsim", "run", "-w", "device", "=", "h200,h8"), ["h200,h800"])
        self.assertEqual(bash("slimsim", "cost", "-m", "yi-"), ["yi-34b", "yi-6b"])
        self.assertEqual(bash("slimsim", "cost", "--platform", "a8"), ["a800"])
        self.assertEqual(bash("slimsim", "cost", "--platform", "=", "a8"), ["a800"])
        self.assertEqual(bash("slimsim", "cost", "--model", "=", "yi-"), ["yi-34b", "yi-6b"])
        self.assertEqual(bash("slimsim", "cost", "--attention", "="), run("list", "values", "attention").stdout.split())
        self.assertEqual(bash("slimsim", "calibrate", "--device", "="), run("list", "values", "device").stdout.split())
        self.assertEqual(bash("slimsim", "run", "--output", "=", "scenarios/qui"), ["scenarios/quickstart.yaml"])
        self.assertEqual(bash("slimsim", "platform", "ho"), ["hopper"])
        self.assertEqual(bash("slimsim", "run", "-s", "nope", "=", "x"), [])

    def test_keys_commands_options_and_files(self):
        for words, expected in (("ru", ["run"]), ("run --js", ["--json"]), ("list mo", ["models"]), ("list v", ["values"]),
                                ("list values eng", ["engine"]), ("submit --ti", ["--time=", "--time-limit="]),
                                ("submit --a", []), ("run --set k", ["kernels="]), ("run -s platform.ni", ["platform.nic=", "platform.nics_per_node="]),
                                ("help slow", ["slow-gpus", "slow-gpus-and-links"]), ("help fp", ["fp8"]), ("run scenarios/qui", ["scenarios/quickstart.yaml"]),
                                ("run --set data.l", ["data.lengths=", "data.length_scale=", "data.long_documents="])):
            self.assertEqual(bash("slimsim", *words.split()), expected, words)


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(unittest.TestCase):
    def test_values_keys_and_commands(self):
        expected = {"slimsim run -s model=qwen3-": QWEN3[-1],
                    "slimsim valid": "slimsim validate ", "slimsim run --set=engine=sim": "--set=engine=simgrid ",
                    "slimsim cost -m gpt-n": "-m gpt-neox-20b ", "slimsim run -w device=h200,h8": "device=h200,h800 ",
                    "slimsim run -s iterations.w": "iterations.warm_up=", "slimsim run --verb": "--verbose ",
                    "slimsim list val": "list values ", "slimsim run scenarios/quick": "scenarios/quickstart.yaml "}
        for (line, part), answer in zip(expected.items(), zsh(expected)):
            self.assertIn(part, answer, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run what README.md and docs/ show.

All blocks of a page share a folder, which has links to scenarios/, analysis/, model/ and tests/.

- `console`: commands behind `$ ` with their standard output. A line `...` of the output stands for any lines, and
  /home/me for the folder.
- `yaml`, if its first line is `# NAME.yaml`: that file.
- `c`: it must compile.
- `python`: all of a page are one script. It must run.
- `sh`: it does not run, but its commands and options must exist.

    SLIMSIM=build/dev/slimsim SLIMSIM_SCRATCH=build/dev/scratch/test_docs tests/test_docs.py --write docs/start.md

fills in the outputs of a page that differ.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from program import PROGRAM, fresh, run

TOP = pathlib.Path(__file__).resolve().parent.parent
PAGES = [TOP / "README.md", *sorted((TOP / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED_FILE = re.compile(r"# (\w+\.yaml)\n")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*\n)", re.MULTILINE)
USE = re.compile(r"(?<![\w/.-])slimsim ([a-z]+)\b([^`|\n]*)")
SHIPPED = re.compile(r"slimsim run scenarios/[^|<>;&]+\n")
TESTED_ELSEWHERE = {"python.md"}  # tests/test_python.py runs its scripts
LINES_OF_A_PAGE = 60  # of a page that answers one question
LEFT_OUT = "..."
HOME = "/home/me"  # stands for the folder of a page in its output


def matches(shown, lines):
    """Whether the lines are those shown, with any lines for each `...`."""
    if not shown:
        return not lines
    if shown[0] == LEFT_OUT:
        return any(matches(shown[1:], lines[skipped:]) for skipped in range(len(lines) + 1))
    return bool(lines) and shown[0] == lines[0] and matches(shown[1:], lines[1:])


def execute(command, folder):
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "PYTHONPATH": str(TOP / "python")}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
                          timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"$ {command}ends with status {done.returncode}: {done.stderr}")
    return re.sub(r" +$", "", done.stdout.replace(str(folder), HOME), flags=re.MULTILINE)


@functools.cache
def shipped_run(command):
    """Run a scenario that is shipped, once for all pages. @return its output and the folder of its results"""
    folder = folder_of("shipped-" + re.sub(r"\W+", "-", command).strip("-"))
    return execute(command, folder), folder / "results"


def run_command(command, folder):
    if not SHIPPED.fullmatch(command):
        return execute(command, folder)
    output, results = shipped_run(command)
    shutil.copytree(results, folder / "results", dirs_exist_ok=True)
    return output


def run_console(block, folder):
    """Run the commands of a block. @return the block with the output of today where it differs"""
    parts = COMMAND.split(block)
    for i in range(1, len(parts), 2):
        output = run_command(parts[i], folder)
        if not matches(parts[i + 1].splitlines(), output.splitlines()):
            parts[i + 1] = output
        parts[i] = "$ " + parts[i]
    return "".join(parts)


def folder_of(name):
    """Make a folder with links to what pages name."""
    folder = fresh(name)
    folder.mkdir(parents=True)
    for linked in ("scenarios", "analysis", "model", "tests"):
        (folder / linked).symlink_to(TOP / linked)
    return folder


def run_page(page):
    """Run a page. @return its text with the outputs of today where they differ"""
    folder = folder_of(page.relative_to(TOP).with_suffix("").as_posix().replace("/", "-"))

    def block(match):
        kind, text = match.groups()
        if kind == "yaml" and NAMED_FILE.match(text):
            (folder / NAMED_FILE.match(text)[1]).write_text(text)
        if kind == "c":
            (folder / "system.c").write_text(text)
            execute(f"cc -std=gnu17 -D_GNU_SOURCE -Wall -Werror -fsyntax-only -I {TOP}/src system.c\n", folder)
        return f"```{kind}\n{run_console(text, folder) if kind == 'console' else text}```"
    text = BLOCK.sub(block, page.read_text(encoding="utf-8"))
    script = "".join(match[2] for match in BLOCK.finditer(text) if match[1] == "python")
    if script and page.name not in TESTED_ELSEWHERE:
        (folder / "script.py").write_text(script)
        execute(f"{sys.executable} script.py\n", folder)
    return text


@functools.cache
def help_of(verb):
    return run(verb, "--help").stdout


class Pages(unittest.TestCase):
    def test_pages__show_what_the_program_prints(self):
        for page in PAGES:
            with self.subTest(page.name):
                self.assertMultiLineEqual(run_page(page), page.read_text(encoding="utf-8"))

    def test_pages__name_commands_and_options_that_exist(self):
        verbs = set(re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.MULTILINE))
        self.assertGreater(len(verbs), 15)
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            code = [match[2] for match in BLOCK.finditer(text) if match[1] in ("sh", "console")]
            code += re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))
            for verb, rest in USE.findall("\n".join(line for line in "\n".join(code).split("\n") if "cmake" not in line)):
                self.assertIn(verb, verbs, page)
                for option in re.findall(r"(?<=\s)--[a-z-]+", rest):
                    self.assertRegex(help_of(verb), option + "(?![a-z-])", (page, verb))

    def test_security__names_presets_that_exist(self):
        presets = {preset["name"] for preset in json.loads((TOP / "CMakePresets.json").read_text())["testPresets"]}
        text = (TOP / "SECURITY.md").read_text(encoding="utf-8")
        named = set(re.findall("`([a-z]+)`", text.split("repeat these tests:")[1].split("\n")[0]))
        self.assertLess({"asan", "tsan"}, named)
        self.assertLessEqual(named, presets)

    def test_howto__is_short(self):
        for page in (TOP / "docs/howto").glob("*.md"):
            self.assertLessEqual(page.read_text(encoding="utf-8").count("\n"), LINES_OF_A_PAGE, page)

    def test_howto__is_in_the_index(self):
        index = "".join((TOP / "docs" / name).read_text(encoding="utf-8") for name in ("README.md", "reference.md", "model.md"))
        for page in PAGES[1:]:
            if page.name != "README.md":
                self.assertIn(f"({page.relative_to(TOP / 'docs')})", index)

    def test_keys__are_those_of_the_program(self):
        script = TOP / "docs/keys.py"
        page = subprocess.run([script], input=run("list", "keys", "--json").stdout, capture_output=True, text=True, check=True).stdout
        self.assertEqual((TOP / "docs/reference/keys.md").read_text(encoding="utf-8"), page,
                         f"run slimsim list keys --json | {script} > docs/reference/keys.md")


def write(paths):
    for path in paths:
        page = pathlib.Path(path).resolve()
        page.write_text(run_page(page), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2:])
    else:
        unittest.main(argv=[sys.argv[0], "-v"])

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This check holds the rules of words that a script can hold: starts of sentences, opening sentences, names of tests."""
import io
import pathlib
import re
import sys
import tokenize

# These tests need several modules, such as the costs on shipped devices and the shipped kernels of attention.
TESTS_OF_NO_MODULE = {"cost_limits", "experts", "measured_attention", "measured_blackwell", "measured_experts", "recompute_experts", "slimpack_plans"}
LINES_OF_A_TEST_FILE = 800
COMMENT = re.compile(r"/\*(.*?)\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
START = re.compile(r"(Of|What|Those|That|As)\b")
TWO_DOCS = re.compile(r"^[ \t]*/\*\*(?:(?!\*/).)*\*/\s*\n[ \t]*/\*\*", re.DOTALL | re.MULTILINE)
TEST = re.compile(r"^TEST\((\w*)\)", re.MULTILINE)
TEST_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*__[a-z0-9]+(_[a-z0-9]+)*")


def comments_of_c(text):
    """Each comment with its line. A string in quotes is none."""
    for match in COMMENT.finditer(text):
        if match[1] is not None and "SPDX" not in match[1]:
            yield text.count("\n", 0, match.start()) + 1, re.sub(r"(?m)^[ \t]*\*[ \t]?", "", match[1]).strip("*! \n")


def comments_of_python(text):
    """Each comment and each docstring with its line."""
    first_of_line = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith(("#!", "# SPDX")):
            yield token.start[0], token.string.strip("# ")
        if token.type == tokenize.STRING and first_of_line:
            yield token.start[0], token.string.strip("\"' \n")
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            first_of_line = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def check_starts(comments):
    for line, comment in comments:
        for paragraph in re.split(r"\n\s*\n", comment):
            for sentence in re.split(r"(?<=[.?!])\s+", paragraph.strip()):
                if START.match(sentence):
                    yield line, f"a sentence begins with {START.match(sentence)[1]}: '{' '.join(sentence.split())[:60]}'"


def check_opening(path, comments):
    if path.suffix == ".c" and path.with_suffix(".h").exists():
        return
    line, comment = comments[0] if comments else (0, "")
    last = 3 if path.suffix == ".py" else 2  # behind the licence line, in Python also behind "#!"
    if not (1 <= line <= last and re.match(r"[A-Z]", comment) and comment.split("\n\n")[0].endswith(".")):
        yield 2, "the file does not open with a sentence that says what it is for"


def check_doc_comments(text):
    for match in TWO_DOCS.finditer(text):
        yield text.count("\n", 0, match.end()) + 1, "a second doc comment documents the same thing"


def check_tests(name, text, modules):
    for match in TEST.finditer(text):
        if not TEST_NAME.fullmatch(match[1]):
            yield text.count("\n", 0, match.start()) + 1, f"the test {match[1]} is not named feature__statement"
    module = re.fullmatch(r"tests/test_(\w+)\.c", name)
    if module and module[1] not in modules | TESTS_OF_NO_MODULE:
        yield 1, f"there is no module {module[1]} in src/"
    if text.count("\n") > LINES_OF_A_TEST_FILE:
        yield LINES_OF_A_TEST_FILE, f"a test file of {text.count(chr(10))} lines, at most {LINES_OF_A_TEST_FILE}"


def check(top):
    headers_and_sources = list((top / "src").glob("*/*.[ch]"))
    modules = {path.stem for path in headers_and_sources} | {f"{path.parent.name}_{path.stem}" for path in headers_and_sources}
    for path in sorted(path for folder in ("analysis", "importing", "python", "src", "tests") for path in (top / folder).rglob("*.*")):
        name = path.relative_to(top).as_posix()
        if path.suffix not in (".c", ".h", ".py"):
            continue
        text = path.read_text(encoding="utf-8")
        comments = list((comments_of_python if path.suffix == ".py" else comments_of_c)(text))
        findings = [*check_starts(comments), *check_opening(path, comments)]
        if path.suffix in (".c", ".h"):
            findings += check_doc_comments(text)
        if name.startswith("tests/"):
            findings += check_tests(name, text, modules)
        for line, finding in findings:
            yield f"{name}:{line}: {finding}"


def main():
    top = pathlib.Path(__file__).resolve().parent.parent
    findings = list(check(top))
    print("\n".join(findings) if findings else "words: nothing to complain about")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This check holds the rules of the source tree. It knows the order of folders and of modules inside them, the homes of
foreign headers, and one struct of a name. It also checks the licence line, the length of functions and the links of
pages."""
import pathlib
import re
import sys

FOLDERS = "base document scenario lengths cost operation plan dag bounds packing system search execute trace simulate sweep capacity validate answer cli".split()
HOMES = {  # foreign header: where in src/ it may be included
    r"(simgrid|xbt)/": ["execute/"],
    r"igraph": ["dag/", "bounds/"],
    r"hdf5|H5": ["trace/", "lengths/"],
    r"glpk": ["packing/", "system/"],
    r"yaml": ["document/"],
    r"expat": ["scenario/"],
    r"jansson": ["lengths/", "trace/", "answer/", "cli/"],
    r"zlib": ["base/"],
    r"csv\.h": ["base/"],
    r"gsl/": ["base/", "lengths/", "cost/", "operation/", "bounds/", "simulate/", "sweep/", "capacity/", "validate/"],
}
REWRITTEN = {"dag/builder"}  # cycles that go with their modules
LICENCE = "SPDX-License-Identifier: GPL-3.0-or-later"
LICENSED = {".c", ".h", ".def", ".py", ".sh", ".cmake"}
LINES_OF_A_FUNCTION = 60
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
STRUCT = re.compile(r"^\s*(?:typedef\s+|static\s+|const\s+)*struct (\w+)\s*\{", re.MULTILINE)


def files(top):
    """Find our own files: nothing that was built, and no hidden folders except .ci."""
    for path in sorted(top.rglob("*")):
        parts = path.relative_to(top).parts
        if path.is_file() and parts[0] not in ("build", "results") and not parts[0].startswith("build-"):
            if not parts[0].startswith(".") or parts[0] == ".ci":
                yield path


def check_licence(path, text):
    first = "\n".join(text.split("\n")[:3])
    needed = path.suffix in LICENSED or path.name in ("CMakeLists.txt", "run") or text.startswith("#!")
    if needed and LICENCE not in first:
        yield 1, f"no line '{LICENCE}' among the first three"


def check_include(folder, kind, header):
    """Find the fault of one include of a file of src/folder/, or None."""
    for pattern, homes in HOMES.items():
        if re.match(pattern, header) and folder + "/" not in homes:
            return f"<{header}> belongs to {' '.join(homes)}"
    if kind == '"':
        other = header.split("/")[0]
        if other not in FOLDERS or "/" not in header:
            return f'"{header}" is not "folder/file.h"'
        if FOLDERS.index(other) > FOLDERS.index(folder):
            return f'{folder}/ may not include "{header}": {other}/ lies to its right'
    return None


def check_includes(folder, text):
    if folder not in FOLDERS:
        yield 1, f"folder {folder}/ is not in the order: {' '.join(FOLDERS)}"
        return
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        wrong = check_include(folder, *match.groups()) if match else None
        if wrong:
            yield number, wrong


def check_functions(text):
    """A function's body starts with '{' and ends with '}' in the first column: the format guarantees it."""
    begin = None
    for number, line in enumerate(text.split("\n"), 1):
        if line == "{":
            begin = number
        elif line == "}" and begin is not None:
            if number - begin - 1 > LINES_OF_A_FUNCTION:
                yield begin, f"function of {number - begin - 1} lines, at most {LINES_OF_A_FUNCTION}"
            begin = None


def anchors(page):
    """Find the names of a page's headings in links."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_links(path, text):
    for number, line in enumerate(text.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            name, _, anchor = target.partition("#")
            page = path.parent / name if name else path
            if not re.match("https?:", target) and not (page.exists() and (not anchor or anchor in anchors(page))):
                yield number, f"the link {target} leads nowhere"


def check_cycles(sources):
    """Find modules of one folder that include each other. x.c and x.h are one module. sources: {path in src/: text}."""
    includes = {}
    for path, text in sources.items():
        headers = (match[2] for match in map(INCLUDE.match, text.split("\n")) if match and match[2].endswith(".h"))
        others = {header[:-2] for header in headers if header.split("/")[0] == path.parts[0]}
        includes.setdefault(str(path.with_suffix("")), set()).update(others - {str(path.with_suffix(""))})
    reached = {}
    for module in includes:
        reached[module], to_visit = set(), [module]
        while to_visit:
            new = includes.get(to_visit.pop(), set()) - reached[module]
            reached[module] |= new
            to_visit += new
    cycles = {frozenset(other for other in reached[module] if module in reached.get(other, ())) for module in includes}
    for cycle in sorted(map(sorted, filter(None, cycles))):
        if cycle[0] not in REWRITTEN:
            yield f"src/{cycle[0]}.h:1: modules that include each other: {' '.join(cycle)}"


def check_structs(sources):
    """No two headers give a struct the same name."""
    defined = {}
    for path, text in sources.items():
        for match in STRUCT.finditer(text if path.suffix == ".h" else ""):
            place = f"src/{path}:{text.count(chr(10), 0, match.start(1)) + 1}"
            if defined.setdefault(match[1], place) != place:
                yield f"{place}: struct {match[1]} is defined in {defined[match[1]]}, too"


def check(top):
    sources = {path.relative_to(top / "src"): path.read_text(encoding="utf-8")
               for path in sorted((top / "src").rglob("*.[ch]"))}
    yield from check_cycles(sources)
    yield from check_structs(sources)
    for path in files(top):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # a picture or a test's binary input
        findings = list(check_licence(path, text))
        name = path.relative_to(top)
        if path.suffix == ".md":
            findings += check_links(path, text)
        if path.suffix in (".c", ".h", ".def"):
            findings += check_functions(text)
            if name.parts[0] == "src":
                findings += check_includes(name.parts[1], text)
        for line, finding in findings:
            yield f"{name}:{line}: {finding}"


def main():
    top = pathlib.Path(__file__).resolve().parent.parent
    findings = list(check(top))
    print("\n".join(findings) if findings else "structure: nothing to complain about")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

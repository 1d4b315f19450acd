#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file of model/ says where its numbers come from: `source:` in YAML, `# source:` at the head of a CSV;
a preset of a framework or of reliability each of its values."""
import pathlib
import sys

import yaml


def empty_sources(node, place=""):
    """Find the places of `source:` keys that say nothing."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        if key == "source":
            texts = child if isinstance(child, list) else [child]
            if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
                yield f"{place}source"
        yield from empty_sources(child, f"{place}{key}.")


def dotted(node, place=""):
    """The keys of nested mappings, joined by dots."""
    for key, child in node.items():
        yield from dotted(child, f"{place}{key}.") if isinstance(child, dict) else (f"{place}{key}",)


def check_sources(root):
    """A preset has a source for each of its values, or for the mapping that holds it."""
    sources = set(dotted(root.get("sources", {})))
    values = dotted({key: child for key, child in root.items() if key not in ("name", "source", "sources")})
    return [f"no source of `{key}` below `sources:`" for key in values if not any(f"{key}.".startswith(f"{source}.") for source in sources)]


def check_yaml(path):
    try:
        root = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        return [str(error)]
    if not isinstance(root, dict) or "source" not in root:
        return ["no `source:` at the top level"]
    findings = check_sources(root) if path.parent.name in ("framework", "reliability") else []
    return findings + [f"`{place}:` is empty" for place in empty_sources(root)]


def check_csv(path):
    first = path.read_text(encoding="utf-8").split("\n")[0]
    return [] if first.startswith("# source:") and first[9:].strip() else ["the first line is not `# source: ...`"]


def main():
    top = pathlib.Path(__file__).resolve().parent.parent
    checks = {".yaml": check_yaml, ".csv": check_csv, ".md": lambda path: [], ".py": lambda path: []}
    paths = [path for path in sorted((top / "model").rglob("*")) if path.is_file()]
    findings = [
        f"{path.relative_to(top)}: {finding}"
        for path in paths
        for finding in checks.get(path.suffix, lambda path: ["neither YAML nor CSV"])(path)
    ]
    if not paths:
        findings.append("model/ is empty")
    print("\n".join(findings) if findings else f"model sources: {len(paths)} files, each with its source")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

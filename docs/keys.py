#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This script prints docs/reference/keys.md, the index of all keys, from what `slimsim list keys --json` prints.

    slimsim list keys --json | docs/keys.py > docs/reference/keys.md
"""
import json
import sys

# The page of a key is that of the longest of these that it begins with. "  " begins a key of a model's file.
PAGES = {
    "": "keys-of-a-scenario.md", "  ": "models.md", "bf16_layers": "keys-of-a-scenario.md#gemms-in-fp8", "capacity.": "what-to-buy.md",
    "data.column": "keys-of-a-scenario.md#lengths-of-your-own", "data.global": "keys-of-a-scenario.md#batches",
    "data.lengths": "keys-of-a-scenario.md#lengths-of-your-own", "data.mix": "keys-of-a-scenario.md#lengths-of-your-own",
    "data.weights": "keys-of-a-scenario.md#lengths-of-your-own", "faults.": "slow-gpus-and-links.md",
    "fp8_": "keys-of-a-scenario.md#gemms-in-fp8", "framework": "frameworks.md", "jitter.": "passes-that-differ.md",
    "plan_space.": "plan-search.md", "platform.": "platforms.md", "power": "energy-and-money.md",
    "precision": "keys-of-a-scenario.md#gemms-in-fp8", "price.": "energy-and-money.md", "reliability.": "failures-and-checkpoints.md",
    "replay.": "times-of-passes-from-a-file.md", **dict.fromkeys(
        ("systems.N.offload", *(f"systems.N.plan.{key}" for key in ("count_", "first_stage", "last_stage", "layers", "offload",
                                                                    "optimizer_offload", "spread"))),
        "keys-of-a-scenario.md#offload-and-stages"),
}
HEAD = """\
# Index of keys

`docs/keys.py` prints this page from `slimsim list keys --json`. `slimsim list keys` also says what values a key may have.
`-` stands for no unit or no default. N counts the entries of a list. Knobs of systems are in `slimsim list systems`.

| key | meaning | unit | default | more |
|---|---|---|---|---|
"""


def line_of(row):
    page = PAGES[max((start for start in PAGES if row["key"].startswith(start)), key=len)]
    key = row["key"].strip() + ("` of a model's file" if row["key"].startswith("  ") else "`")
    cells = [f"`{key}", row["meaning"], row["unit"], row["default"], f"[{page.partition('.md')[0]}]({page})"]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def main():
    rows = json.load(sys.stdin)["rows"]
    print(HEAD + "\n".join(line_of(row) for row in sorted(rows, key=lambda row: row["key"].strip())))


if __name__ == "__main__":
    main()

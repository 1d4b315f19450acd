#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make rows of `slimsim validate` of a raw table of measurements.

    normalise.py RAW.csv [--dictionary MORE.csv ...] > FILE.csv

A raw table says in its source's words what ran: gpu, fabric, framework, sharding, recompute and so on. dictionary.csv
says which scenario keys each of these texts sets. Lines of MORE.csv come behind its own of their column, and win. A
framework's text that no line has is read as the longest one that it begins with. A row need not repeat the values of
its framework's preset. Degrees, batches and nodes that a row leaves out follow from the others. A model with all sizes
needs no line. A text that no line knows is listed with its rows, and nothing is written. The raw cells stay in the column
`printed`. A table that has this column is read by it, so that a changed dictionary can be applied again. Rows without
`printed` stay as they are.
"""
import argparse
import csv
import pathlib
import re
import sys

# Raw columns of whole numbers, and the keys that they are; the last three only help to find others.
NUMBERS = {"hidden": "model.hidden", "layers": "model.layers", "heads": "model.heads", "kv_groups": "model.kv_heads",
           "ffn": "model.ffn", "vocab": "model.vocabulary", "seq_len": "data.context", "tp": "plan.tp", "pp": "plan.pp",
           "vpp": "plan.vpp", "cp": "plan.cp", "ep": "plan.ep", "mbs": "micro_batch", "gbs": "data.global_batch",
           "n_gpus": None, "dp": None, "n_microbatch": None, "n_experts": None, "topk": None, "etp": None, "moe_ffn": None,
           "shared_experts": None, "dense_layers": None, "head_dim": None}
# Columns that stay as they are.
FIRST = ("id", "trust", "split", "skip")
MEASURED = ("metric", "ranks", "value_bytes", "value_ms", "value_printed", "fitted", "step_time_s", "tokens_per_s",
            "tps_per_gpu", "tps_origin", "tflops_per_gpu", "flops_formula", "mfu_pct", "hfu_pct", "layer_fwd_ms",
            "layer_bwd_ms", "params_b")
TRANSLATED = ("metric", "ranks", "flops_formula")  # of these, texts that the dictionary has words for
LAST = ("source", "notes", "assumed", "printed")
KEYS = ("model", "model.name", "model.hidden", "model.layers", "model.heads", "model.kv_heads", "model.ffn",
        "model.vocabulary", "device", "framework", "plan.tp", "plan.pp", "plan.vpp", "plan.cp", "plan.dp", "data.context",
        "micro_batch", "data.global_batch", "platform.nodes", "platform.gpus_per_node")  # then the others, by name
COLUMNS = ("column", "text", "framework", "when", "keys", "assumed", "skip")  # of a dictionary
ALIASES = {"attn_backend": "attn_kernel"}
REMARKS = ("notes", "source")  # a part of them that no line knows is a remark
SIZES = ("hidden", "layers", "heads", "kv_groups", "ffn", "vocab", "activation")
NODE_GPUS = {"GB200": 4, "GB300": 4}  # others have 8
FRAMEWORKS = pathlib.Path(__file__).resolve().parent.parent / "framework"
NUMBER = r"\d+(?:\.\d+)?"
CONDITION = re.compile(r"([\w.]+)([=>])(\S*)")
PAIR = re.compile(r"([\w.]+)=(\S*)")  # an empty value takes the preset's away


class Line:
    """A line of a dictionary."""

    def __init__(self, fields):
        self.column, self.text, self.assumed, self.skip = (fields[name] for name in ("column", "text", "assumed", "skip"))
        self.frameworks = fields["framework"].split()
        self.when = [CONDITION.fullmatch(condition).groups() for condition in fields["when"].split()]
        self.keys = dict(PAIR.fullmatch(pair).groups() for pair in fields["keys"].split())
        self.pattern = re.compile(re.escape(self.text).replace(re.escape("{n}"), f"({NUMBER})"))

    def match(self, cell):
        """The numbers in a cell that is this line's text, None: it is another one."""
        match = self.pattern.fullmatch(cell)
        return match and match.groups()


def read_table(path):
    """The comments before the header, the names of columns, and (line, row) of each row."""
    with open(path, newline="", encoding="utf-8") as file:
        lines = file.readlines()
    n_comments = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    reader = csv.reader(lines[n_comments:], strict=True)
    rows = [(n_comments + reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    if not rows:
        raise ValueError(f"{path}: holds no rows")
    names = rows[0][1]
    for line, row in rows:
        if len(row) != len(names):
            raise ValueError(f"{path}:{line}: {len(row)} fields; the header has {len(names)} columns")
    return lines[:n_comments], names, [(line, dict(zip(names, row))) for line, row in rows[1:]]


def read_lines(path):
    _, names, rows = read_table(path)
    for name in COLUMNS:
        if name not in names:
            raise ValueError(f"{path}: has no column '{name}'; a dictionary has {', '.join(COLUMNS)}")
    lines = []
    for number, row in rows:
        try:
            lines.append(Line(row))
        except AttributeError:
            raise ValueError(f"{path}:{number}: '{row['when']}' and '{row['keys']}' are not allowed; allowed in `when`: "
                             "NAME=TEXT or NAME>NUMBER, in `keys`: KEY=VALUE, with blanks between") from None
    return lines


def read_dictionary(path, more):
    """The lines of a dictionary; each of more stands behind the last one of its column, before what depends on it."""
    lines = read_lines(path)
    for line in [line for other in more for line in read_lines(other)]:
        same = [i for i, old in enumerate(lines) if old.column == line.column]
        lines.insert(same[-1] + 1 if same else len(lines), line)
    return lines


def evaluate(text, known):
    """A value of a line: {name} is a cell or key, products and quotients are worked out."""
    text = re.sub(r"\{(\w+)\}", lambda match: str(known.get(match[1]) or 1), text)
    match = re.fullmatch(rf"({NUMBER}(?:[*/]{NUMBER})+)(\D*)", text)
    if not match:
        return text
    value = 1.0
    for operator, number in re.findall(rf"([*/]?)({NUMBER})", match[1]):
        value = value / float(number) if operator == "/" else value * float(number)
    return f"{value:.15g}{match[2]}"


def whole(text):
    """A whole number; 0 where a text is none."""
    return int(text) if text and str(text).isdigit() else 0


def read_preset(name):
    """The keys that a framework of model/framework sets; none where it has no file."""
    path = FRAMEWORKS / f"{name}.yaml"
    keys, group = {}, ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        indent, key, value = re.fullmatch(r"( *)(?:(\w+):)? ?(.*)", line).groups()
        if not indent:
            group = f"{key}." if key in ("communication", "fused", "plan") else ""
        if value.startswith("{"):
            keys.update((group + pair.split(": ")[0], pair.split(": ")[1]) for pair in value.strip("{}").split(", "))
        elif value and (group or (key in ("attention", "kernels", "logits", "loss", "swiglu", "gradient_accumulation") and not indent)):
            keys[group + key] = value
        elif key == "sources":
            break
    return keys


class Row:
    """A raw row on its way to keys."""

    def __init__(self, raw):
        self.raw = {ALIASES.get(name, name): cell for name, cell in raw.items() if cell}
        self.keys, self.owner, self.assumed, self.skip, self.unknown = {}, {}, [], "", []
        self.preset = {}

    def number(self, column):
        return whole(self.raw.get(column))

    def holds(self, condition):
        name, sign, wanted = condition
        have = str(self.keys.get(name, self.raw.get(name, "")))
        return have == wanted if sign == "=" else whole(have) > whole(wanted)

    def refuse(self, reason):
        self.skip = self.skip or reason

    def read_number(self, column, cell, dictionary):
        """The number that a line of the dictionary makes of a text, in the raw column, too."""
        for line in dictionary:
            numbers = line.match(cell) if line.column == column else None
            if numbers is not None:
                self.raw[column] = evaluate(line.keys.get(column, ""), dict(zip("n", numbers)))
                return self.raw[column]
        self.unknown.append((column, cell))
        return ""

    def fill_degrees(self):
        """n_gpus = tp x pp x cp x dp; nodes of 8 GPUs, or of 4."""
        n, degrees = self.number("n_gpus"), {name: self.number(name) for name in ("tp", "pp", "cp", "dp")}
        degrees["cp"] = degrees["cp"] or 1
        if degrees["dp"] == n and not degrees["pp"]:
            degrees["pp"] = 1
        missing = [name for name in degrees if not degrees[name]]
        if len(missing) == 1:
            others = 1
            for degree in degrees.values():
                others *= degree or 1
            degrees[missing[0]] = n // others if n % others == 0 else 0
        self.raw.update({name: str(degree) for name, degree in degrees.items() if degree})
        self.keys.update({f"plan.{name}": degrees[name] for name in ("tp", "pp", "dp") if degrees[name]})
        if n:
            each = min(n, NODE_GPUS.get(self.raw.get("gpu"), 8))
            self.keys["platform.gpus_per_node"] = each
            self.keys["platform.nodes"] = n // each
            self.raw["nodes"] = str(self.keys["platform.nodes"])

    def apply(self, line, numbers):
        known = dict(self.raw, **{"n" if i == 0 else f"n{i + 1}": number for i, number in enumerate(numbers)})
        for key, value in line.keys.items():
            self.keys[key] = evaluate(value, known)
            self.owner[key] = line
        if "framework" in line.keys:
            self.preset = read_preset(line.keys["framework"])
            self.keys = self.preset | self.keys
        if line.skip:
            self.refuse(line.skip)
        if line.assumed:
            self.assumed.append(line)

    def read_framework(self, dictionary):
        """Take a framework's text that no line has as the longest one that it begins with."""
        cell, texts = self.raw.get("framework", ""), {line.text for line in dictionary if line.column == "framework"}
        begins = [text for text in texts if text and re.match(rf"{re.escape(text)}(?!\w)", cell)]
        if cell not in texts and begins:
            self.raw["framework"] = max(begins, key=len)
            self.assume(f"framework {cell} as {self.raw['framework']}")

    def translate(self, dictionary):
        """Apply all lines that fit, in their order, and find the texts that none fits."""
        known = {"model"} if all(self.raw.get(name) for name in SIZES) else set()
        self.read_framework(dictionary)
        for line in dictionary:
            cell = self.raw.get(line.column, "")
            framework = self.keys.get("framework", "")
            if line.frameworks and framework not in line.frameworks:
                continue
            for part in cell.split("; ") if line.column == "notes" else [cell]:
                numbers = line.match(part)
                if numbers is None:
                    continue
                known.add(line.column)
                if all(map(self.holds, line.when)):
                    self.apply(line, numbers)
        columns = {line.column for line in dictionary} - known - set(NUMBERS) - set(REMARKS)
        self.unknown += [(column, self.raw[column]) for column in sorted(columns) if column in self.raw]

    def fill_batch(self):
        """gbs = mbs x dp x n_microbatch; a formula or a layer needs no batch."""
        n, dp = self.number("n_microbatch"), self.number("dp")
        batch = whole(self.keys.get("data.global_batch")) or self.number("mbs") * n * dp
        micro_batch = self.number("mbs")
        if not micro_batch and n and batch % (n * dp) == 0:
            micro_batch = batch // (n * dp)
        if not micro_batch and not n and batch and batch == dp:
            micro_batch = 1
        if not batch and self.keys.get("metric", "").endswith(("formula", "forward", "backward", "static-state")):
            batch = micro_batch * dp * self.number("pp")
        if n and batch and micro_batch and batch != micro_batch * n * dp:
            self.refuse("n_microbatch is not gbs / (mbs x dp)")
        self.keys.update({"data.global_batch": batch, "micro_batch": micro_batch})

    def fill_stages(self):
        """Embedding and head count as layers where stages are equal only so (Megatron-Core's options; arXiv:2407.21783)."""
        layers, n_virtual = self.number("layers"), self.number("pp") * (self.number("vpp") or 1)
        if layers and n_virtual and layers % n_virtual and (layers + 2) % n_virtual == 0:
            self.keys.update({"plan.count_embedding": "true", "plan.count_head": "true"})
            self.assume("embedding and head counted as layers of the pipeline")

    def fill_groups(self):
        """A group of all ranks is no group."""
        if whole(self.keys.get("plan.shard_group")) >= self.number("dp") * self.number("cp"):
            self.keys.pop("plan.shard_group", None)

    def assume(self, sentence):
        self.assumed.append(Line(dict.fromkeys(COLUMNS, "") | {"assumed": sentence}))

    def refuse_incomplete(self):
        for column in SIZES + ("seq_len", "n_gpus", "tp", "pp", "gpu", "sharding"):
            key = NUMBERS.get(column) or {"n_gpus": "platform.nodes", "gpu": "device"}.get(column, f"plan.{column}")
            key = "model.activation" if column == "activation" else key
            if not self.keys.get(key) and not (column in SIZES and "model" in self.keys):
                self.refuse(f"{column} is missing")
        for key, column in (("micro_batch", "mbs"), ("data.global_batch", "gbs")):
            if not self.keys[key]:
                self.refuse(f"{column} is missing")
        if self.keys.get("platform.nodes", 0) * self.keys.get("platform.gpus_per_node", 0) != self.number("n_gpus"):
            self.refuse("n_gpus are not whole nodes")
        if not any(self.raw.get(name) for name in ("value_bytes", "value_ms", "fitted", "tps_per_gpu", "tokens_per_s",
                                                   "step_time_s")) and not (
                self.raw.get("tflops_per_gpu") and "flops_formula" in self.keys):
            self.refuse("no tps_per_gpu, tokens_per_s, step_time_s, nor tflops_per_gpu of a known formula")

    def normalise(self, dictionary):
        for column, key in NUMBERS.items():
            cell = self.raw.get(column, "")
            if cell and not cell.isdigit():
                cell = self.read_number(column, cell, dictionary)
            if cell and key:
                self.keys[key] = cell
        self.fill_degrees()
        self.translate(dictionary)
        self.fill_batch()
        self.fill_stages()
        self.fill_groups()
        self.refuse_incomplete()
        if "platform.nic" not in self.keys and self.number("nodes") > 1:
            self.assume("NICs of the device's data sheet")
        self.keys["model.name"] = self.raw.get("model", "")

    def cells(self, raw):
        """The cells of the row that is written."""
        sentences = [line.assumed for line in self.assumed
                     if not line.keys or any(self.owner.get(key) is line for key in line.keys)]
        cells = {name: raw.get(name, "") for name in FIRST + MEASURED + LAST}
        cells.update({key: str(value) for key, value in self.keys.items()
                      if value != 0 and value != self.preset.get(key)})
        if not self.preset:
            cells["framework"] = ""
        for name in TRANSLATED:
            cells[name] = str(self.keys.get(name, ""))
        cells.update(skip=self.skip, assumed="; ".join(dict.fromkeys(sentences)))
        return cells


def raw_of(row):
    """A row of a normalised table as its raw table had it."""
    if "printed" not in row:
        return row
    printed = dict(part.split("=", 1) for part in row["printed"].split(" | "))
    return {name: row.get(name, "") for name in FIRST + MEASURED + LAST[:2] if name not in TRANSLATED} | printed


def printed_of(raw):
    """Cells that do not stand in a column of their own."""
    return " | ".join(f"{name}={cell}" for name, cell in raw.items()
                      if cell and (name in TRANSLATED or name not in FIRST + MEASURED + LAST))


def normalise(path, dictionary):
    """Comments, rows as cells, and the texts that the dictionary does not know: (column, text, framework) and ids."""
    comments, _, rows = read_table(path)
    known = set(NUMBERS) | set(FIRST + MEASURED + LAST) | set(ALIASES) | {line.column for line in dictionary}
    out, unknown = [], {}
    for number, cells in rows:
        if cells.get("printed") == "":
            out.append(cells)
            continue
        raw = raw_of(cells)
        row = Row(raw)
        row.unknown = [(name, cell) for name, cell in raw.items() if cell and name not in known]
        row.normalise(dictionary)
        for column, text in row.unknown:
            unknown.setdefault((column, text, row.raw.get("framework", "")), []).append(raw.get("id") or f"line {number}")
        out.append(row.cells(raw) | {"printed": printed_of(raw)})
    return comments, out, unknown


def write(comments, rows, file):
    """Columns in which nothing stands are left out."""
    filled = {name for row in rows for name, cell in row.items() if cell}
    others = sorted(filled - set(FIRST + KEYS + MEASURED + LAST))
    names = [name for name in (*FIRST, *KEYS, *others, *MEASURED, *LAST) if name in filled]
    file.writelines(comments)
    writer = csv.DictWriter(file, names, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", help="a raw table, or one that this program has written")
    parser.add_argument("--dictionary", action="append", default=[], metavar="MORE.csv", help="lines of your own")
    arguments = parser.parse_args()
    shipped = pathlib.Path(__file__).resolve().parent / "dictionary.csv"
    try:
        comments, rows, unknown = normalise(arguments.raw, read_dictionary(shipped, arguments.dictionary))
    except (OSError, ValueError, csv.Error) as error:
        print(f"normalise.py: {error}", file=sys.stderr)
        return 2
    for (column, text, framework), ids in unknown.items():
        print(f"{arguments.raw}: column {column}: '{text}' (framework '{framework}') is not in the dictionary; rows "
              f"{' '.join(ids)}", file=sys.stderr)
    if unknown:
        return 1
    write(comments, rows, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

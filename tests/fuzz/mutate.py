# SPDX-License-Identifier: GPL-3.0-or-later
"""These functions write small valid inputs of every kind that slimsim reads, and mutate them by a seed."""
import io
import pathlib
import re
import shutil
import struct

import h5py
import numpy

from program import run

ROOT = pathlib.Path(__file__).resolve().parents[2]

SCENARIO = """\
name: tiny
model: model.yaml
device: h800
framework: slimpack-paper
platform: platform.xml
data: {lengths: 4Ki 1000 300, context: 8Ki, global_batch: 6}
iterations: {warm_up: 0, measured: 1}
seed: 7
engine: both
systems:
  - {name: best-fit, plan: {tp: 2, pp: 2}}
  - {name: slimpack, plan: {tp: 2, pp: 2, recompute: [norm, activation]}, knobs: {max_factor: 4}}
"""
SEARCH = SCENARIO.split("systems:")[0].replace("both", "critical-path") + """\
systems:
  - {name: best-fit, plan: auto, plan_space: {name: space.yaml}}
"""
FAULTS = SCENARIO + """\
communication: {tp_overlap: chunked, dp_overlap: both}
faults:
  - {kind: gpu, gpus: [1], factor: 1.5}
  - {kind: nic, share: 0.5, seed: 3, factor: 2}
"""
SYSTEMS = ("best-fit", "length-balanced", "flops-balanced", "wlb-llm", "bytescale", "megatron-dynamic-cp", "megatron-dp-balanced",
           "megatron-default-dynamic-cp", "slimpack", "slimpipe", "dynapipe", "distca", "flexsp", "hotspa")
OWN = {"flexsp": ", sharding: zero3, cp_type: ulysses"}
OTHERS = SCENARIO.split("systems:")[0] + "systems:\n" + "".join(
    f"  - {{name: {name}, plan: {{tp: 1, pp: 1{OWN.get(name, '')}}}}}\n" for name in SYSTEMS)
SWEEP = SCENARIO.replace("both", "critical-path").replace("tiny", "swept") + """\
sweep:
  data.context: {log2: [4Ki, 8Ki]}
  zip:
    - {data.global_batch: [4, 6], systems.0.plan.pp: [1, 2]}
  each: {memory_limit: [0.9]}
  exclude:
    - {where: {data.context: "<=4Ki", data.global_batch: 6}, reason: small}
  replicates: 2
"""
MODEL = """\
name: mini
source: of a test
hidden: 512
layers: 4
heads: 8
kv_heads: 4
ffn: 1024
vocabulary: 32000
activation: swiglu
tied_embeddings: false
norm: rmsnorm
"""
PLATFORM = "nodes: 2\ngpus_per_node: 2\nnvlink: 200GBps\nnic: 400Gbps\nleaf: 1\noversubscription: 2\ntopology: rail\n"
SPACE = "tp: [1, 2]\npp: [1, 2]\nrecompute: [none, norm+activation]\noffload: [0, 0.5]\non_demand: [cp, offload]\nsource: of a test\n"
JSON = """\
{"name": "tiny", "model": "model.yaml", "device": "h800", "platform": "platform.xml",
 "data": {"lengths": "4Ki 1000 300", "context": 8192, "global_batch": 6},
 "iterations": {"warm_up": 0, "measured": 1}, "engine": "critical-path",
 "systems": [{"name": "slimpack", "plan": {"tp": 2, "pp": 2}, "knobs": {"slicing": true}}]}
"""


def rows_of(name, n):
    """Take the head and some rows of a shipped file of measurements."""
    lines = (ROOT / "model" / "validation" / name).read_text().splitlines(keepends=True)
    rows = lines[2:]
    return "".join(lines[:2] + rows[::max(1, len(rows) // n)])


def make_seeds(folder):
    """Write all inputs to a folder. The program makes traces, tables and journals."""
    texts = {"base.yaml": SCENARIO, "search.yaml": SEARCH, "faults.yaml": FAULTS, "others.yaml": OTHERS,
             "sweep.yaml": SWEEP, "base.json": JSON, "model.yaml": MODEL, "space.yaml": SPACE,
             "lengths.csv": 'id,tokens\n1,4096\n2,"300"\n3,17\n', "lengths.txt": "4096 300\n17\n", "platform.yaml": PLATFORM,
             "lengths.jsonl": '{"id": 3, "tokens": 4096, "count": 2}\n{"id": 1, "tokens": [5, 6, 7], "count": 0.5}\n',
             "rows.csv": rows_of("training_h100.csv", 6), "layers.csv": rows_of("layers.csv", 6),
             "kernels.csv": rows_of("kernels.csv", 400), "collectives.csv": rows_of("collectives.csv", 60),
             "simai": "8 2 2 2 4 H100\n4 5 6 7 \n0 4 2880Gbps 0.000025ms 0\n0 6 200Gbps 0.0005ms 0\n1 4 2880Gbps 0.000025ms 0\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "platform.xml").write_text(run("platform", "hopper-2x2").stdout)
    for name, shipped in (("nccl.xml", "h200.xml"), ("topology.conf", "topology.conf"), ("astra.yml", "c46-astra.yml")):
        shutil.copy(ROOT / "tests" / "clusters" / shipped, folder / name)
    for kind, name in (("gpu", "h800"), ("framework", "composer"), ("reliability", "llama3"), ("lengths", "github"),
                       ("lengths", "wikipedia-quantiles")):
        shutil.copy(ROOT / "model" / kind / f"{name}.yaml", folder)
    numpy.save(folder / "lengths.npy", numpy.array([4096, 300, 17], dtype="<i8"))
    (folder / "lengths.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ3i3q3q", 1, 8, 3, 3, 4096, 300, 17, 0, 8, 16, 0, 2, 3))
    with h5py.File(folder / "lengths.h5", "w") as file:
        file.create_dataset("a/tokens", data=numpy.arange(1, 3000, dtype="<i4"), chunks=(1000,), compression="gzip")
    for arguments in (("base.yaml", "--set", "trace=full"), ("sweep.yaml", "--set", "trace=full"),
                      ("sweep.yaml", "--set", "name=parts", "--shard", "1/2"), ("sweep.yaml", "--set", "name=parts", "--shard", "2/2")):
        done = run("run", *arguments, "--quiet", "--output", folder, cwd=folder)
        assert done.returncode == 0, done.stderr


NUMBERS = ("0", "-1", "1", "2", "3", "7", "255", "256", "65536", "1e6", "2147483647", "2147483648", "-2147483648", "4294967296",
           "9007199254740993", "9223372036854775807", "9223372036854775808", "18446744073709551616", "1e19", "1e24", "1e308",
           "1e309", "-1e308", "1e-308", "5e-324", "-0", "0.5", "0.999999", "1.0000001", "nan", "-nan", ".nan", "NaN", "inf",
           "-inf", ".inf", "0x10", "0b1", "010", "1_000", "1,5", "1Ki", "1Ti", "8Ei", "1e", "1..2", "+1", " 1", "1 ")
TEXTS = ("", "~", "null", "true", "no", "[]", "{}", "[[]]", "{a: b}", "[1, [2]]", "''", '""', "a" * 300, "b" * 70000,
         "../../etc/passwd", "/dev/zero", "/dev/null", ".", "/", "%s%n%d", "\u00e9\u4e2d", "\\x00", "\x00", "\x1b[2J", "!!binary aGk=",
         "&a 1", "*a", "&a [*a]", "? x", "- x", "|", ">", "@", "`", "#", "<<: {a: 1}", "auto", "none", "fixed", "a: b: c", "\t",
         "model.yaml", "platform.xml", "platform.yaml", "lengths.h5", "base.yaml", "'", '"', ",", "=", "\ufeff", "\r", "\u2028")
DEEP = ("[" * 2000 + "]" * 2000, "{a: " * 300 + "1" + "}" * 300, "[" * 100000, "<a>" * 5000, "<zone>" * 300 + "</zone>" * 300, "(" * 5000)
HEADS = ("<!DOCTYPE a [<!ENTITY b 'cccccccccc'><!ENTITY d '&b;&b;&b;&b;&b;&b;&b;&b;'><!ENTITY e '&d;&d;&d;&d;&d;&d;&d;&d;'>]>\n",
         "%YAML 9.9\n---\n", "---\na: 1\n---\n", "\ufeff", "a: &a [1,1,1,1]\nb: &b [*a,*a,*a,*a]\nc: [*b,*b,*b]\n", "# x\n", "\n\n")


def any_value(rng):
    return rng.choice(rng.choice((NUMBERS, NUMBERS, TEXTS, TEXTS, DEEP[:2])))


def flip(rng, data):
    """Change bits, ranges and whole words of bytes, whatever they mean."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        at = rng.randrange(len(data) + 1)
        if rng.random() < 0.5:  # most of what decides stands in front
            at = min(at, rng.randrange(1, 600))
        how, n = rng.randrange(7), rng.choice((1, 2, 8, 100))
        if how <= 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            data[at:at + n] = rng.randbytes(n)
        elif how == 3:
            del data[at:at + n]
        elif how == 4:
            data[at:at] = data[at:at + n]
        elif how == 5:
            word = struct.pack("<q", rng.choice((0, -1, 1, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 48, -(1 << 63), (1 << 63) - 1)))
            data[at:at + rng.choice((2, 4, 8))] = word[:rng.choice((2, 4, 8))]
        elif rng.random() < 0.3:
            del data[at:]
    return bytes(data)


WORD = re.compile(r"[A-Za-z0-9_.+-]+|\"[^\"]*\"")


def numbers(rng, text):
    """Change one or two numbers of a text to others of the list, or by some orders of magnitude."""
    for _ in range(rng.choice((1, 1, 2))):
        found = list(re.finditer(r"(?<![\w.])-?[0-9.]+(?:e[-+]?[0-9]+)?", text))
        if not found:
            return text
        number = rng.choice(found)
        scaled = number[0] + "0" * rng.choice((1, 3, 6, 12)) if rng.random() < 0.3 else rng.choice(NUMBERS)
        text = text[:number.start()] + scaled + text[number.end():]
    return text


def lines(rng, text):
    """Drop, double, exchange or replace lines and words of a text."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        rows = text.splitlines(keepends=True) or [""]
        i, how = rng.randrange(len(rows)), rng.randrange(12)
        words = list(WORD.finditer(rows[i]))
        if how == 0:
            del rows[i]
        elif how == 1:
            rows.insert(rng.randrange(len(rows)), rows[i])
        elif how == 2:
            rows[i] = rows[i][:rng.randrange(len(rows[i]) + 1)]
        elif how == 3 and rng.random() < 0.5:
            rows = rows[:i]
        elif how == 4:
            rows.insert(0, rng.choice(HEADS))
        elif how == 5:
            at = rng.randrange(len(rows[i]) + 1)
            rows[i] = rows[i][:at] + rng.choice((*TEXTS, *DEEP)) + rows[i][at:]
        elif words:
            word = rng.choice(words)
            rows[i] = rows[i][:word.start()] + any_value(rng) + rows[i][word.end():]
        text = "".join(rows)
    return text


def text(rng, data):
    if rng.random() < 0.15:
        return flip(rng, data)
    return rng.choice((numbers, lines, lines))(rng, data.decode()).encode("utf-8", "surrogatepass")


def npy(rng, data):
    if rng.random() < 0.5:
        return flip(rng, data)
    file, shape = io.BytesIO(), rng.choice(("(3,)", "()", "(3,1)", "(-3,)", "(0,)", f"({rng.choice(NUMBERS)},)", "(3", "3"))
    kind = rng.choice(("<i8", "<i4", ">i8", "<u8", "<f8", "|O", "<U3", rng.choice(TEXTS)))
    head = f"{{'descr': '{kind}', 'fortran_order': {rng.choice(('False', 'True', ''))}, 'shape': {shape}, }}\n".encode("utf-8", "replace")
    file.write(b"\x93NUMPY" + bytes((rng.choice((1, 1, 2, 3)), 0)) + struct.pack("<H", rng.choice((len(head), len(head), 0, 65535))) + head)
    file.write(rng.choice((data[-24:], rng.randbytes(24), b"", data[-23:])))
    return file.getvalue()


def hdf5(rng, path):
    """Change bytes, or objects: values out of range, other types and shapes, missing ones."""
    if rng.random() < 0.4:
        path.write_bytes(flip(rng, path.read_bytes()))
        return
    with h5py.File(path, "r+") as file:
        names = []
        file.visit(names.append)
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice(names)
            item, how = file.get(name), rng.randrange(8)
            if item is None:
                continue
            attributes = rng.choice((file, item)).attrs
            if how <= 2 and isinstance(item, h5py.Dataset) and item.size:
                change_value(rng, item)
            elif how == 3:
                del file[name]
            elif how == 4:
                del file[name]
                file[name] = rng.choice((1, [1.5, 2], ["text"], numpy.zeros((0,)), numpy.zeros((2, 2)), numpy.arange(-3, 3), "text"))
            elif how == 5 and isinstance(item, h5py.Dataset) and item.dtype.names:
                rows, drop = item[:], rng.choice(item.dtype.names)
                del file[name]
                file[name] = rows[[one for one in rows.dtype.names if one != drop]].copy()
            elif how == 6 and len(attributes):
                one = rng.choice(sorted(attributes))
                attributes[one] = rng.choice((-1, 1e308, float("nan"), "text", "", [1, 2, 3], ["a"], "x" * 5000))
            elif how == 7 and len(attributes):
                del attributes[rng.choice(sorted(attributes))]


def change_value(rng, item):
    if item.ndim != 1:
        return
    rows, i = item[:], rng.randrange(item.shape[0])
    column = rng.choice(rows.dtype.names) if rows.dtype.names else None
    cells = rows[column] if column else rows
    if cells.dtype.kind in "iu":
        cells[i] = rng.choice((0, -1, 1, 100, numpy.iinfo(cells.dtype).max, numpy.iinfo(cells.dtype).min))
    elif cells.dtype.kind == "f":
        cells[i] = rng.choice((0, -1, 1e308, -1e308, 5e-324, numpy.inf, numpy.nan))
    elif cells.dtype.kind == "S":
        cells[i] = rng.choice((b"", b"x", b"\x1b[2J\n", b"\xff\xff", b"a,\"b"))
    item[:] = rows


def frame_hash(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & (1 << 64) - 1
    return value


def journal(rng, data):
    """Change bytes, or write whole frames with a right checksum over wrong bytes."""
    if rng.random() < 0.3:
        return flip(rng, data)
    frames, at = [], 16
    while at + 24 <= len(data):
        kind, form, n, _ = struct.unpack_from("<IIQQ", data, at)
        frames.append((kind, form, data[at + 24:at + 24 + n]))
        at += 24 + n
    for _ in range(rng.choice((1, 1, 2))):
        i, how = rng.randrange(len(frames)), rng.randrange(8)
        kind, form, payload = frames[i]
        if how == 0 and len(frames) > 1:
            del frames[i]
        elif how == 1:
            frames.insert(rng.randrange(len(frames)), frames[i])
        elif how == 2:
            frames[i] = (rng.choice((0, 1, 2, 3)), rng.choice((1, 1, 2)), payload)
        else:
            frames[i] = (kind, form, flip(rng, payload))
    out = data[:16]
    for kind, form, payload in frames:
        head = struct.pack("<IIQ", kind, form, len(payload))
        out += head + struct.pack("<Q", frame_hash(head + payload)) + payload
    return out

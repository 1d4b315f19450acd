# SPDX-License-Identifier: GPL-3.0-or-later
"""What the scripts of this folder share: numpy and matplotlib, colours, axes, reading traces, writing pictures. They
import these libraries from here alone, so that one sentence tells which of them a Python lacks."""
import argparse
import contextlib
import io
import os
import pathlib
import re
import sys
import traceback
import warnings

try:
    import h5py
    import matplotlib
    import numpy

    matplotlib.use("Agg")
    import matplotlib.pyplot as pyplot  # after the choice of Agg
    import matplotlib.collections
    import matplotlib.patheffects
    import matplotlib.ticker as ticker
    from matplotlib.patches import Patch
    from PIL import Image, PngImagePlugin
except ModuleNotFoundError as missing:
    print(f"{sys.argv[0]}: {sys.executable} has no {missing.name}: install python3-{missing.name} (Debian's package) and run "
          f"this with /usr/bin/python3, or install {missing.name} for this Python", file=sys.stderr)
    sys.exit(2)

TOP = pathlib.Path(__file__).resolve().parent.parent
# The package is that of the tree, or is installed beside these scripts.
sys.path.insert(1, str(TOP / "python" if (TOP / "python").is_dir() else TOP.parent.parent / "lib/python3/dist-packages"))
import slimsim
from output import Refused, target_of, write
from slimsim.result import text_of

matplotlib.rcParams["svg.hashsalt"] = "slimsim"  # else ids of SVG elements are random
# Paul Tol's "bright" scheme: told apart by colour-blind readers too.
COLOURS = ["#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#9A9A9A", "#222222"]
LIMIT_COLOUR = "#BB2222"
KI = 1024
GIB = 2**30
PASSES = ("forward", "backward")
DRAWN = "drawn by a script of slimsim"  # in each picture, by which the next one knows that it may replace it
PICTURES = {suffix: (head, DRAWN.encode()) for suffix, head in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"))}
# The program is the user's $SLIMSIM, the built one, the one installed beside these scripts, or that of PATH.
PROGRAM = os.environ.setdefault("SLIMSIM", str(next(
    (path for path in (TOP / "build/release/slimsim", TOP.parent.parent / "bin/slimsim") if path.exists()), "slimsim")))


def ki(tokens):
    """1536 -> '1.5Ki'"""
    for unit, name in ((KI * KI, "Mi"), (KI, "Ki")):
        if tokens >= unit:
            return f"{tokens / unit:g}{name}"
    return f"{tokens:g}"


def shade(colour, towards, share):
    """A colour mixed with another one."""
    rgb, other = (numpy.array(matplotlib.colors.to_rgb(c)) for c in (colour, towards))
    return tuple((1 - share) * rgb + share * other)


def style(axes, grid="y"):
    axes.grid(axis=grid, linewidth=0.4, color="#DDDDDD")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def tokens_axis(axes, label):
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(ticker.LogLocator(base=4 if axes.figure.get_figwidth() > 10 else 16, numticks=20))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: ki(value)))
    axes.set_xlabel(label)


def legend_outside(figure, handles, columns, top=False, title=None):
    """A legend of the whole figure above or below its panels (constrained layout)."""
    lines = -(-len(handles) // columns) + (title is not None)
    share = (0.1 + 0.15 * lines) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, 0 if top else share, 1, 1 - share))
    figure.legend(handles=handles, loc=f"{'upper' if top else 'lower'} center", ncol=columns, frameon=False, title=title)


def value_of(key, scenario):
    """What a key of a resolved scenario says, as text. A platform of keys is called as the program calls it."""
    if key == "platform":
        keys = dict(re.findall(r'^  (\w+): "?([^"\n]*)', re.search(r"^platform:\n((?:  .*\n)+)", scenario, re.MULTILINE)[1],
                               re.MULTILINE))
        if "nodes" in keys:
            name = pathlib.Path(keys["name"]).name.removesuffix(".yaml") + "-" if keys.get("name") else ""
            free = "-free" if keys["contention"] == "false" else ""
            return f"{name}{keys['nodes']}x{keys['gpus_per_node']}{free}"
        return keys["name"]
    return re.search(rf'^ *{key}: "?([^"\n]*)', scenario, re.MULTILINE)[1]


def point_of(path):
    """Split NAME.h5#3 into the file and the number of a point, None without one."""
    name, _, point = str(path).rpartition("#")
    return (name, int(point)) if name and point.isdecimal() else (path, None)


def traced_point(file, point):
    """The trace of a point in that of its sweep."""
    if "manifest" not in file or point >= len(file["manifest"]):
        raise ValueError(f"it has no point {point}")
    name = text_of(file["manifest"][point]["id"])
    if name not in file.get("points", ()):
        raise ValueError(f"it holds no trace of point {point}: `trace: full` in the scenario, or --set trace=full, writes it")
    return file["points"][name]


class Trace:
    """An HDF5 file of slimsim: its tables as arrays, names for the numbers in their columns. NAME.h5#3: point 3 of a sweep."""

    def __init__(self, path):
        self.path = path
        name, point = point_of(path)
        self.file = slimsim.Result(name).open()
        if point is not None:
            self.file = traced_point(self.file, point)
        self.attributes = self.file.attrs
        self.tables = {}

    @property
    def labels(self):
        return [text_of(label) for label in self.file["systems"][:]]

    def texts(self, name):
        """A table of texts; []: the file has none of this name."""
        return [text_of(text) for text in self.file[name][:]] if name in self.file else []

    def text(self, attribute):
        return text_of(self.attributes[attribute])

    def layer_flop(self, tokens, linear=1):
        """Forward FLOPs of a layer on samples of so many tokens, under its windows; linear=0: of attention only."""
        flop = float(self.attributes["layer_flop_quadratic"]) * tokens**2
        windows = self.text("layer_flop_windows") if "layer_flop_windows" in self.attributes else ""
        for factor, window in (map(float, pair.split(":")) for pair in windows.split()):
            flop = flop + factor * numpy.where(tokens <= window, tokens**2, (2 * window - 1) * tokens - window * (window - 1))
        return flop + linear * float(self.attributes["layer_flop_linear"]) * tokens

    def shared(self, key):
        """What a key of the scenario says, as text; of a sweep None, where it says other things at other points."""
        if "scenarios" not in self.file:
            return self.text(key)
        found = {value_of(key, text_of(row)) for row in self.file["scenarios"]["scenario"]}
        return found.pop() if len(found) == 1 else None

    def batch(self, documents):
        """'512 documents', or of data.global_batch_tokens '16Mi tokens of whole sequences'."""
        if int(documents) > 0:
            return f"{documents} documents"
        tokens = self.shared("global_batch_tokens")
        return f"{ki(int(tokens))} tokens of whole sequences" if tokens else None

    def setting(self):
        """'llama-13b on 128 x h800 (hopper-16x8), github lengths up to 64Ki tokens, 512 documents', without what is swept."""
        model, device, platform, lengths, context, batch = map(self.shared, ("model", "device", "platform", "lengths", "context",
                                                                            "global_batch"))
        if platform is not None:
            device = f"{self.file['summary'][0]['gpus']} x {device} ({platform})"
        if lengths is not None:
            lengths = "listed" if lengths[:1].isdigit() else pathlib.Path(lengths).name
        parts = [" on ".join(filter(None, (model, device))),
                 " ".join(filter(None, (lengths, "lengths" if lengths or context else None,
                                        f"up to {ki(int(context))} tokens" if context else None))),
                 self.batch(batch) if batch else None]
        return ", ".join(filter(None, parts))

    def table(self, name):
        if name not in self.tables:
            if name not in self.file or not len(self.file[name]):
                of_sweep = "; of a sweep with `--point N`, in a trace of one point" if "manifest" in self.file else ""
                raise ValueError(f"the trace holds no {name}: `trace: full` in the scenario, or --set trace=full, writes them{of_sweep}")
            self.tables[name] = self.file[name][:]
        return self.tables[name]

    def index(self, table, column, name):
        """The number a name of a column stands for."""
        return list(self.file[table].attrs[column + "_names"]).index(name.encode())

    def name(self, table, column, number):
        return text_of(self.file[table].attrs[column + "_names"][number])

    def first_iteration(self):
        """The first that was traced in detail."""
        return int(self.table("tasks")["iteration"].min())

    def rows(self, name, system, iteration=None):
        """Of one system, and of one iteration."""
        table = self.table(name)
        table = table[table["system"] == system]
        return table if iteration is None else table[table["iteration"] == iteration]

    def passes(self, tasks):
        """[((phase, pipeline, direction, unit), start, finish)] of tasks of one stage, in order of time: a pass may be
        GEMMs, then attention beside a ring; a unit has a pass on each virtual stage."""
        passes = []
        kinds = [self.index("tasks", "kind", name) for name in ("compute", "attention")]
        tasks = tasks[numpy.isin(tasks["kind"], kinds)]
        for task in tasks[numpy.lexsort((tasks["finish_s"], tasks["start_s"]))]:
            key, start_s = unit_key(task), task["start_s"]
            if passes and passes[-1][0] == key:
                start_s = passes.pop()[1]
            passes.append((key, start_s, task["finish_s"]))
        return passes


def unit_key(row):
    return int(row["phase"]), int(row["pipeline"]), int(row["direction"]), int(row["micro_batch"])


def save_png(figure, file):
    """With a palette of 256 colours, which makes the file three times smaller."""
    pixels, text = io.BytesIO(), PngImagePlugin.PngInfo()
    figure.savefig(pixels, format="png", dpi=200)
    picture = Image.open(pixels).convert("RGB").quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    picture.putpalette([255 if level == 254 else level for level in picture.getpalette()])  # white stays white
    text.add_text("Software", DRAWN)
    picture.save(file, format="PNG", optimize=True, pnginfo=text)


def pictures(figure, paths):
    """The files of a picture, for write(): the same ones, byte for byte, from the same numbers."""
    files = []
    for path in map(pathlib.Path, paths):
        file = io.BytesIO()
        if path.suffix == ".png":
            save_png(figure, file)
        else:
            date = "CreationDate" if path.suffix == ".pdf" else "Date"
            figure.savefig(file, format=path.suffix[1:], dpi=200, metadata={"Creator": DRAWN, date: None})
        files.append((path, file.getvalue(), PICTURES[path.suffix]))
    pyplot.close(figure)
    return files


def picture_path(text):
    if pathlib.Path(text).suffix not in (".png", ".svg", ".pdf"):
        raise argparse.ArgumentTypeError(f"{text}: no picture of .png, .svg or .pdf")
    return pathlib.Path(text)


def add_output(parser):
    """The option --output; without it a picture stands beside the first file that is read."""
    parser.add_argument("--output", nargs="+", metavar="FILE", type=picture_path,
                        help="pictures: .png, .svg, .pdf (default: a .png beside the input)")


def reason(error):
    """What is wrong, without the name of the file, which stands before it. Only damage has an error of another kind."""
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    if not isinstance(error, (OSError, ValueError, slimsim.Error)):
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = (f"it is damaged, or of another version of slimsim: {type(error).__name__} in {pathlib.Path(place.filename).name}, "
                f"line {place.lineno}: {text}")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@contextlib.contextmanager
def reading(*paths):
    """Whatever fails inside is the fault of these files. Refused: one sentence that names them"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the sentence is enough
            yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{' '.join(map(str, paths))}: {reason(error)}", 2) from error


def write_text(path, text):
    """Write a page or a table. An earlier one is known by its title, or by its first column."""
    write((path, text.encode(), (re.match("[^,\n]*[,\n]", text)[0].encode(),)))


def write_page(path, text, missing):
    """Write a page of Markdown, and say what is missing in it."""
    make_folder(path.parent)
    write_text(path, text)
    if missing:
        print(f"{path}: says 'not run' of {', '.join(missing)}", file=sys.stderr)


def make_folder(path):
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot create {path}: {error.strerror}", 73) from None


def draw(sources, paths, make, suffix=".png"):
    """The picture of make() to all paths (None: beside the first source, with this suffix)."""
    with reading(*sources):
        paths = paths or [pathlib.Path(sources[0]).with_suffix(suffix)]
    for path in paths:
        target_of(path, PICTURES[path.suffix])
    with reading(*sources):
        files = pictures(make(), paths)
    write(*files)

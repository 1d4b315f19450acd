# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of this folder share this module: numpy and matplotlib, writing pictures, and the names of slimsim.plot.
They import these libraries from here alone, so that one sentence tells which of them a Python lacks."""
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
from slimsim.plot.style import BLUE, COLOURS, GIB, GREEN, GREY, KI, LIMIT_COLOUR, VERMILLION, ki, legend_outside, shade, style
from slimsim.plot.trace import PASSES, Trace, point_of, unit_key
from slimsim.result import text_of

matplotlib.rcParams["svg.hashsalt"] = "slimsim"  # else ids of SVG elements are random
DRAWN = "drawn by a script of slimsim"  # in each picture, by which the next one knows that it may replace it
PICTURES = {suffix: (head, DRAWN.encode()) for suffix, head in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"))}
# The program is the user's $SLIMSIM, the built one, the one installed beside these scripts, or that of PATH.
PROGRAM = os.environ.setdefault("SLIMSIM", str(next(
    (path for path in (TOP / "build/release/slimsim", TOP.parent.parent / "bin/slimsim") if path.exists()), "slimsim")))


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


def draw_one(description, metavar, read, make, suffix=".png"):
    """The whole of a script that draws one file: read says in its help what it is, make() draws its path."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar=metavar, help=read)
    add_output(parser)
    arguments = parser.parse_args()
    draw([arguments.source], arguments.output, lambda: make(arguments.source), suffix)


def reason(error):
    """The fault, without the name of the file, which stands before it. Only damage has an error of another kind."""
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

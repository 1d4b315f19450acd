#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the pictures of README.md into docs/images/, and write the numbers that they show to numbers.txt.

    docs/images/draw.py --program build/release/slimsim
    docs/images/draw.py --program build/release/slimsim --numbers     # print the numbers of today, draw nothing
"""
import argparse
import csv
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
sys.path.insert(0, str(TOP / "analysis"))
from output import Refused, exit_with, write


def slimsim(program, folder, *arguments):
    return call([program, *arguments], cwd=folder)


def call(command, **options):
    """What a command prints. Refused: it fails, or there is none"""
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    except OSError as error:
        raise Refused(f"{command[0]}: cannot be run: {error.strerror}", 127) from error
    if done.returncode:
        raise Refused(done.stderr.strip(), done.returncode)
    return done.stdout


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def waste(program, folder, trace):
    """The systems of the quickstart: speed, waiting, memory."""
    slimsim(program, folder, "run", TOP / "scenarios/quickstart.yaml", "--quiet", "--set", f"trace={trace}")
    for row in rows(folder / "results/quickstart.csv"):
        yield (f"{row['system']}: {float(row['tokens_per_s_per_gpu']):.1f} tokens/s/GPU, bubbles {100 * float(row['bubble_fraction']):.1f}%, "
               f"{float(row['peak_bytes']) / 2**30:.1f} GiB")


def errors(program, folder):
    """The measured training runs by framework and GPU: the first part of the table that the program prints."""
    for line in slimsim(program, folder, "validate").splitlines()[1:]:
        yield re.sub(r"  +", "  ", line)
        if line.startswith("all  "):
            break


def buy(program, folder):
    """The sizes of the offers of docs/howto/buy.md: days and cost."""
    page = (HERE.parent / "howto/buy.md").read_text(encoding="utf-8")
    (folder / "buy.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    slimsim(program, folder, "capacity", "buy.yaml")
    for row in rows(folder / "results/buy.capacity.csv"):
        if row["days"]:
            yield f"{row['nodes']} nodes of {row['offer']}: {float(row['days']):.2f} days, ${float(row['usd']):.0f}"


def numbers(program, folder, trace):
    parts = {"waste.png": waste(program, folder, trace), "errors.png": errors(program, folder), "buy.png": buy(program, folder)}
    return "".join(f"{name}\n" + "".join(f"  {line}\n" for line in lines) for name, lines in parts.items())


def draw(folder):
    results = folder / "results"
    for script, *arguments, name in (("timeline.py", results / "quickstart.h5", "waste.png"),
                                     ("validation.py", results / "validation.h5", "errors.png"),
                                     ("capacity.py", results / "buy.capacity.h5", "--panel", "days", "buy.png")):
        call([sys.executable, TOP / "analysis" / script, *arguments, "--output", HERE / name])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=TOP / "build/release/slimsim", help="(default: %(default)s)")
    parser.add_argument("--numbers", action="store_true", help="print the numbers, draw nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = numbers(arguments.program.resolve(), pathlib.Path(folder), "summary" if arguments.numbers else "full")
        if arguments.numbers:
            print(text, end="")
        else:
            draw(pathlib.Path(folder))
            write((HERE / "numbers.txt", text.encode(), (b"waste.png\n",)))


if __name__ == "__main__":
    exit_with(main)

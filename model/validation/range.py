#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""This script prints model/validated_range.yaml: the range of the measured training runs that `slimsim validate`
compares by their throughput. With the predictions of these runs and of public.csv it prints model/model_error.yaml: how
far predictions are off, from errors by source (docs/model/errors.md, "How sure", has the steps). Runs in fp8, those with
experts, those with experts in fp8, and those on Blackwell without and with experts are apart in both.

    slimsim validate --json | range.py > model/validated_range.yaml
    slimsim validate --json | range.py --errors > model/model_error.yaml
    range.py --routing > model/expert_routing.yaml                        pairs of one plan with balanced and real routing
    slimsim validate --json | range.py --varying                          runs with varying lengths, by group and source
    range.py --reserve                                                    reserve_most of model/memory_pressure.yaml
"""
import argparse
import csv
import json
import pathlib
import re
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
MEASURED = ("tps_per_gpu", "tokens_per_s", "step_time_s", "tflops_per_gpu")
DENSE, FP8, EXPERTS, EXPERTS_FP8, BLACKWELL, EXPERTS_BLACKWELL = (
    "training_?100.csv", "training_fp8.csv", "training_experts.csv", "training_experts_fp8.csv", "training_blackwell.csv",
    "training_experts_blackwell.csv")
REAL = "real-routing"  # the group of runs whose router was not forced to balance
DEGREES = {"tp": "plan.tp", "pp": "plan.pp", "vpp": "plan.vpp", "cp": "plan.cp", "context": "data.context"}
TRUSTED = ("A", "A-")
NAMES = ("bias", "between", "within", "deviation")
P95 = statistics.NormalDist().inv_cdf(0.95)
ERRORS_HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# Errors of predictions, predicted / measured - 1, by model/validation/range.py --errors. docs/model/errors.md, "How sure",
# has the steps. held: shares of the rows within p5 to p95, and within one deviation, with their own source left out.
source: >-
  throughput of the runs of model/validation/training_a100.csv, training_h100.csv and public.csv of trust A and A-,
  without the calibration rows, as `slimsim validate` predicts it. varying: the same of the runs of varying.csv, of any
  trust. fp8: the same of the runs of training_fp8.csv, of trust A and A-. experts: the same of the runs of
  training_experts.csv with balanced routing, of trust A and A-. experts_fp8: likewise of training_experts_fp8.csv.
  blackwell: the same of the runs of training_blackwell.csv, of trust A and A-. experts_blackwell: likewise of
  training_experts_blackwell.csv
"""
HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# The range of the measured runs, by model/validation/range.py from `slimsim validate --json`. A report names what lies outside.
source: >-
  {} training runs of model/validation/training_a100.csv and training_h100.csv whose throughput `slimsim validate`
  compares; their sequences all have the same length, and best-fit packs whole ones. The other systems, and varying
  lengths, are those of {} runs of varying.csv. fp8: {} rows of training_fp8.csv. experts: {} of training_experts.csv, in
  bf16. experts_fp8: {} of training_experts_fp8.csv. blackwell: {} of training_blackwell.csv. experts_blackwell: {} of
  training_experts_blackwell.csv
"""
ROUTING_HEAD = """\
# SPDX-License-Identifier: GPL-3.0-or-later
# The cost of routing that is not forced to balance, by model/validation/range.py --routing. A verdict says it. least and
# most: throughput with real routing over that of the same plan with balanced routing.
source: >-
  {}:
  pairs {} of model/validation/training_experts.csv, whose experts an
  untrained router chose
"""


def compared(names=DENSE):
    rows = []
    for path in sorted(HERE.glob(names)):
        with open(path, newline="") as file:
            rows += csv.DictReader(line for line in file if not line.startswith("#"))
    return [row for row in rows if not row.get("skip") and any(row.get(column) for column in MEASURED)]


def varying():
    """The runs of varying lengths that are compared by themselves."""
    return [row for row in compared("varying.csv") if row["system"] and row["compared"] != "ratio"]


def degrees_of(rows):
    """The devices, frameworks and largest degrees of some rows, a line each, and the GPUs of a rack with NVLink."""
    gpus = max(int(row["platform.nodes"]) * int(row["platform.gpus_per_node"]) for row in rows)
    domain = max((int(rack) for row in rows for rack in re.findall(r"fabric=NVL(\d+)", row["printed"])), default=0)
    frameworks = sorted({row["framework"] for row in rows} - {""})  # others are described key by key
    return [f"devices: {' '.join(sorted({row['device'] for row in rows}))}", f"frameworks: {' '.join(frameworks)}",
            f"gpus: {gpus}"] + [f"{key}: {max(int(row[column] or 1) for row in rows)}" for key, column in DEGREES.items()] + [
                f"nvlink_domain: {domain}"] * (domain > 0)


def sizes_of(rows):
    """Whether a model of these rows has windows, and the most experts, top_k and ep."""
    models = [(HERE.parent / "llm" / f"{name}.yaml").read_text() for name in sorted({row["model"] for row in rows})]
    most = {key: max(int(size) for model in models for size in re.findall(rf"\b{key}: (\d+)", model))
            for key in ("experts", "top_k")} | {"ep": max(int(row["plan.ep"] or 1) for row in rows)}
    windows = any(re.search(r"\bwindow: ", model) for model in models)
    return [f"windows: {str(windows).lower()}"] + [f"{key}: {size}" for key, size in most.items()]


def text(report):
    """validated_range.yaml of the output of `slimsim validate --json`, which leaves out rows that it cannot predict."""
    known = {row["row"] for row in report["rows"] if row["quantity"] == "tokens/s/GPU"}
    rows, others, fp8, experts, experts_fp8, blackwell, on_blackwell = (
        [row for row in found if row["id"] in known] for found in (
            compared(), varying(), compared(FP8), compared(EXPERTS), compared(EXPERTS_FP8), compared(BLACKWELL),
            compared(EXPERTS_BLACKWELL)))
    devices, frameworks, *degrees = degrees_of(rows)
    lines = [devices, frameworks,
             f"systems: best-fit {' '.join(sorted({row['system'] for row in others} - {'best-fit'}))}",
             f"varying_lengths: {' '.join(sorted({row['plan.sharding'] for row in others} - {''}))}", *degrees, "fp8:"]
    lines += [f"  {line}" for line in (f"precisions: {' '.join(sorted({row['precision'] for row in fp8}))}",
                                       "systems: best-fit", *degrees_of(fp8))] + ["experts:"]
    lines += [f"  {line}" for line in ("systems: best-fit", *degrees_of(experts), *sizes_of(experts))] + ["experts_fp8:"]
    lines += [f"  {line}" for line in (f"precisions: {' '.join(sorted({row['precision'] for row in experts_fp8}))}",
                                       "systems: best-fit", *degrees_of(experts_fp8), *sizes_of(experts_fp8))] + ["blackwell:"]
    lines += [f"  {line}" for line in (f"precisions: {' '.join(sorted({row['precision'] or 'bf16' for row in blackwell}))}",
                                       "systems: best-fit", *degrees_of(blackwell))] + ["experts_blackwell:"]
    lines += [f"  {line}" for line in (f"precisions: {' '.join(sorted({row['precision'] or 'bf16' for row in on_blackwell}))}",
                                       "systems: best-fit", *degrees_of(on_blackwell), *sizes_of(on_blackwell))]
    return HEAD.format(*map(len, (rows, others, fp8, experts, experts_fp8, blackwell, on_blackwell))) + "\n".join(lines) + "\n"


def plan_of(row):
    """All that a row says about its run, without its result and the routing."""
    return [cell for column, cell in row.items() if column.startswith(("model", "plan.", "data.", "platform.", "micro_batch", "device"))]


def pairs():
    """Pairs of runs of one plan and source, with balanced and with real routing."""
    rows = compared(EXPERTS)
    return [(one, other) for other in rows for one in rows if other["group"] == REAL and one["group"] != REAL and
            plan_of(one) == plan_of(other) and one["source"] == other["source"]]


def routing_text():
    """model/expert_routing.yaml."""
    found = pairs()
    ratios = [float(other["tflops_per_gpu"]) / float(one["tflops_per_gpu"]) for one, other in found]
    names = ", ".join(f"{one['id']} {other['id']}" for one, other in found)
    (source,) = {one["source"] for one, _ in found}
    return (ROUTING_HEAD.format(source, names) +
            f"pairs: {len(found)}\nleast: {min(ratios):.3f}\nmost: {max(ratios):.3f}\n")


def source_of(text):
    """The repository or paper of a row's `source`: the first part of a path with one slash, or arXiv:NUMBER."""
    return re.match(r"arXiv:[\d.]+|[\w.-]+/[\w.-]+", text)[0]


def sources_of(report, *names):
    """Runs of each source: (error, framework, device, context, cp). The source with most runs comes first."""
    rows = {row["id"]: row for name in names for row in compared(name) if row.get("group") != REAL}
    sources = {}
    for found in report["rows"]:
        row = rows.get(found["row"])
        if row and found["quantity"] == "tokens/s/GPU" and found["trust"] in TRUSTED and not found["calib"]:
            run = (found["error"], row["framework"], found["device"], int(row["data.context"]), int(row["plan.cp"] or 1))
            sources.setdefault(source_of(row["source"]), []).append(run)
    return dict(sorted(sources.items(), key=lambda item: (-len(item[1]), item[0])))


def varying_of(report):
    """Errors of the runs with varying lengths, by source."""
    rows, sources = {row["id"]: row for row in varying()}, {}
    for found in report["rows"]:
        if found["row"] in rows and found["quantity"] == "tokens/s/GPU":
            sources.setdefault(source_of(rows[found["row"]]["source"]), []).append(found["error"])
    return sources


def model_of(sources):
    """(bias, between, within, deviation) of a random-effects model of the lists of errors, in which each source counts
    once."""
    means = [statistics.mean(errors) for errors in sources]
    spread = statistics.variance(means)
    within = statistics.mean(statistics.variance(errors) for errors in sources if len(errors) > 1)
    between = max(0, spread - statistics.mean(within / len(errors) for errors in sources))
    bias = statistics.mean(means)
    pooled = statistics.mean(statistics.mean((error - bias) ** 2 for error in errors) for errors in sources)
    return bias, between ** 0.5, within ** 0.5, max(between + within + spread / len(sources), pooled) ** 0.5


def outside(run, others):
    """The number of respects in which a run lies outside other runs: framework, device, context, cp."""
    return sum(run[i] not in {other[i] for other in others} for i in (1, 2)) + \
        sum(run[i] > max(other[i] for other in others) for i in (3, 4))


def distances(sources):
    """Distance of each run from the bias of the other sources, in deviations of these, widened as a scenario's is."""
    found = []
    for name, runs in sources.items():
        others = {other: own for other, own in sources.items() if other != name}
        bias, between, _, deviation = model_of([[run[0] for run in own] for own in others.values()])
        flat = [run for own in others.values() for run in own]
        found += [(run[0] - bias) / (deviation ** 2 + outside(run, flat) * between ** 2) ** 0.5 for run in runs]
    return found


def errors_of(sources):
    """The errors of each source, without the rest of its runs."""
    return {name: [run[0] for run in runs] for name, runs in sources.items()}


def numbers_of(lists):
    """The numbers of model_error.yaml of the lists of errors of sources."""
    return [f"rows: {sum(map(len, lists.values()))}", f"sources: {len(lists)}",
            *(f"{name}: {value:.4f}" for name, value in zip(NAMES, model_of(lists.values())))]


def held_text(sources):
    """The shares of runs within p5 to p95, and within one deviation, with their own source left out."""
    far = distances(sources)
    held = [sum(abs(distance) < limit for distance in far) / len(far) for limit in (P95, 1)]
    return f"{{p5_to_p95: {held[0]:.3f}, one_deviation: {held[1]:.3f}}}"


def source_lines(lists):
    """A line for each source."""
    for name, errors in lists.items():
        spread = f", deviation: {statistics.stdev(errors):.4f}" if len(errors) > 1 else ""
        yield f'  - {{source: "{name}", rows: {len(errors)}, mean: {statistics.mean(errors):.4f}{spread}}}'


def errors_text(report):
    """model_error.yaml of the output of `slimsim validate --json`."""
    dense, fp8, experts = sources_of(report, DENSE, "public.csv"), sources_of(report, FP8), sources_of(report, EXPERTS)
    experts_fp8 = sources_of(report, EXPERTS_FP8)  # two sources: without one the other has none to be held against
    blackwell, on_blackwell = sources_of(report, BLACKWELL), sources_of(report, EXPERTS_BLACKWELL)
    lines = [*numbers_of(errors_of(dense)),
             f"varying: {{{', '.join(numbers_of(varying_of(report)))}}}",
             f"fp8: {{{', '.join(numbers_of(errors_of(fp8)))}}}",
             f"experts: {{{', '.join(numbers_of(errors_of(experts)))}}}",
             f"experts_fp8: {{{', '.join(numbers_of(errors_of(experts_fp8)))}}}",
             f"blackwell: {{{', '.join(numbers_of(errors_of(blackwell)))}}}",
             f"experts_blackwell: {{{', '.join(numbers_of(errors_of(on_blackwell)))}}}",
             f"held: {held_text(dense)}", f"held_fp8: {held_text(fp8)}", f"held_experts: {held_text(experts)}",
             f"held_blackwell: {held_text(blackwell)}", f"held_experts_blackwell: {held_text(on_blackwell)}",
             "errors:", *source_lines(errors_of(dense)), "errors_fp8:", *source_lines(errors_of(fp8)),
             "errors_experts:", *source_lines(errors_of(experts)),
             "errors_experts_fp8:", *source_lines(errors_of(experts_fp8)),
             "errors_blackwell:", *source_lines(errors_of(blackwell)),
             "errors_experts_blackwell:", *source_lines(errors_of(on_blackwell))]
    return ERRORS_HEAD + "\n".join(lines) + "\n"


def varying_text(report):
    """A line for each group and source of varying.csv: errors of its runs, and how far gains of its pairs are off."""
    with open(HERE / "varying.csv", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(line for line in file if not line.startswith("#"))}
    place = {name: (row["group"], source_of(row["source"])) for name, row in rows.items()}
    alone = {row["id"] for row in varying()}
    text = ""
    for key in dict.fromkeys(place.values()):
        found = [row for row in report["rows"] if place.get(row["row"]) == key]
        runs = [abs(row["error"]) for row in found if row["row"] in alone]
        peaks = [abs(row["error"]) for row in found if row["quantity"] == "max_memory_allocated"]
        gains = [(pair["measured_gain"], pair["predicted_gain"]) for pair in report["pairs"] if place.get(pair["row"]) == key]
        text += "; ".join((*key, *(f"{len(errors)} {name}, mean error {100 * statistics.mean(errors):.1f}%"
                                   for name, errors in (("runs", runs), ("peaks", peaks)) if errors)))
        if gains:
            off = statistics.median(abs(measured - predicted) for measured, predicted in gains)
            right = sum(measured * predicted > 0 for measured, predicted in gains)
            text += f"; {right} of {len(gains)} pairs right, gains off by {100 * off:.1f} points"
        text += "\n"
    return text


def fp8_text(report):
    """A line for dense models, experts and each device: speed-ups of fp8 over bf16 in pairs of one release, model and plan."""
    files, pairs = [path.name for path in sorted(HERE.glob("training_*.csv"))], {}
    rows = {row["id"]: row for name in files for row in csv.DictReader(line for line in (HERE / name).open(newline="")
                                                                        if not line.startswith("#"))}
    for row in report["rows"]:
        printed = rows.get(row["row"])
        if printed and row["quantity"] == "tokens/s/GPU":
            key = (printed["source"].split(":")[0].split(" ")[0], row["model"], row["gpus"], row["plan"], row["device"], "experts" in row)
            pairs.setdefault(key, {}).setdefault((printed.get("precision") or "bf16") == "bf16", row)  # the first of each
    off = {}
    for (*_, device, experts), pair in pairs.items():
        if len(pair) == 2:
            measured, predicted = (pair[False][key] / pair[True][key] for key in ("measured", "predicted"))
            off.setdefault(("experts" if experts else "dense", device), []).append(100 * (predicted - measured))
    return "".join(f"{kind}, {device}: {sum(abs(points) <= 6 for points in found)} of {len(found)} pairs within 6 points, "
                   f"{min(found):+.1f} to {max(found):+.1f}\n" for (kind, device), found in sorted(off.items()))


def reserves():
    """Reserved over allocated memory, less 1, of the measured steps that are not padded and in no CUDA graph, sorted."""
    with open(HERE / "steps.csv", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return sorted(float(row["peak_reserved_bytes"]) / float(row["peak_allocated_bytes"]) - 1 for row in rows
                  if row["peak_allocated_bytes"] and not re.search("graph|reduce-overhead|padded", row["mode"]))


def reserve_text():
    """The number of steps, their least and largest reserve, the median, and the 90th percentile: reserve_most."""
    found = reserves()
    return (f"{len(found)} steps, {found[0]:.3f} to {found[-1]:.3f}, median {statistics.median(found):.3f}\n"
            f"reserve_most: {statistics.quantiles(found, n=10, method='inclusive')[-1]:.3f}\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--errors", action="store_true", help="read `slimsim validate --json` and print model_error.yaml")
    parser.add_argument("--routing", action="store_true", help="print expert_routing.yaml: what real routing of experts costs")
    parser.add_argument("--reserve", action="store_true", help="print what PyTorch's allocator reserved in measured steps")
    parser.add_argument("--varying", action="store_true", help="read `slimsim validate --json`, print runs with varying lengths by source")
    parser.add_argument("--fp8", action="store_true", help="read `slimsim validate --json`, print speed-ups of fp8 over bf16")
    asked = parser.parse_args()
    sys.stdout.write(varying_text(json.load(sys.stdin)) if asked.varying else fp8_text(json.load(sys.stdin)) if asked.fp8 else
                     errors_text(json.load(sys.stdin)) if asked.errors else routing_text() if asked.routing else
                     reserve_text() if asked.reserve else text(json.load(sys.stdin)))

# SPDX-License-Identifier: GPL-3.0-or-later
"""Each function of this module is a command of slimsim, and its keywords are the options of the command.

A scenario is a dict of its keys (docs/reference.md), the path of a .yaml file, or a text of YAML with several lines.
Relative paths in a dict start at the working folder. Lengths of documents may be an array of numpy or a column of
pandas, whose documents are drawn at random, as those of a file are. A list of up to 511 characters is taken in its order.

A quantity is a number or a text with a unit, such as "64Ki". Numbers of an answer have SI units, or the unit in their
name. Without `output` the files of a call go away with its answer. If the program fails, each function raises
slimsim.Error with the sentence and the exit status of the program.
"""
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Literal, overload

from slimsim import calls, program
from slimsim.program import File, Json, Quantity, Rows, Scenario, Settings
from slimsim.result import Result


def run(scenario: Scenario, output: File | None = None, *, set: Settings | None = None, verbose: bool = False,
        simgrid_cfg: str | Sequence[str] | None = None, simgrid_trace: File | None = None,
        sweep: Settings | None = None, jobs: int | None = None, point: int | None = None, list: bool = False,
        fail_fast: bool = False, retry_failed: bool = False, process_memory: Quantity | None = None,
        time_limit: Quantity | None = None, shard: str | None = None) -> Result:
    """Simulate a scenario, or a sweep if it has `sweep:`, and compare its training systems.

    output:         folder of NAME.h5 and NAME.csv; None: a temporary folder, which goes away with the result
    set:            keys and values that take the place of the scenario's, {"data.context": "64Ki"}
    verbose:        the verdict has every number and assumption
    simgrid_cfg:    options of SimGrid, "KEY:VALUE"
    simgrid_trace:  file (.paje) of SimGrid's own trace of the first measured iteration
    sweep:          keys and the values that they take, one point for each combination
    jobs:           points that run at a time; None: number of cores
    point:          run only this point of the sweep
    list:           list the points in the verdict, and run nothing
    fail_fast:      stop at the first point that fails
    retry_failed:   compute failed points of the output folder again
    process_memory: memory limit of the process of a point, "4GiB"
    time_limit:     time limit of a point, "90s"
    shard:          compute this part of the sweep, "2/8"; merge() joins them
    @return slimsim.Result
    """
    return calls.files("run", locals(), "scenario")


def sweep(scenario: Scenario, axes: Settings | None = None, output: File | None = None, *, set: Settings | None = None,
          verbose: bool = False, jobs: int | None = None, fail_fast: bool = False, retry_failed: bool = False,
          process_memory: Quantity | None = None, time_limit: Quantity | None = None) -> Result:
    """Run every point of a sweep. Its other keywords mean what they mean in run().

    axes: keys and the values they take, beside those of the scenario's `sweep:` {"platform.nodes": [2, 4]}
    @return slimsim.Result, in whose tables the swept keys come first
    ValueError: the scenario is a dict that sweeps nothing, and there are no axes
    """
    if axes is None and isinstance(scenario, Mapping) and "sweep" not in scenario:
        raise ValueError("the scenario has no key sweep, and no axes are given")
    return run(scenario, output, sweep=axes, set=set, verbose=verbose, jobs=jobs, fail_fast=fail_fast,
               retry_failed=retry_failed, process_memory=process_memory, time_limit=time_limit)


def explain(scenario: Scenario, *, system: str | None = None, set: Settings | None = None, verbose: bool = False,
            output: File | None = None) -> Json:
    """Return where the time of a system's GPUs goes, its critical path, and gains if one cost were zero.

    scenario: a slimsim.Result or "SWEEP.h5#POINT", too, whose scenario runs again
    system:   label; None: the first of the ranking
    set:      keys and values that take the place of the scenario's
    verbose:  explain all systems
    output:   folder that keeps the runs
    @return `systems`, each with `waterfall` (shares of the peak), `critical_path_s` and `gain_if_free` (0.1 for 10%)
    """
    return calls.answer("explain", locals(), "scenario")


def compare(a: Scenario, b: Scenario, *, system: str | None = None, output: File | None = None) -> Json:
    """Return how much each difference between two scenarios or results gives.

    a, b:   slimsim.Result or "SWEEP.h5#POINT", too, whose scenario runs again
    system: label; None: the first of each ranking
    output: folder that keeps the runs
    @return `a` and `b`, rows of the summary; `gain` of b over a, 0.1 for 10%; `differences` and `pairs` of systems
    """
    return calls.answer("compare", locals(), "a", "b")


def submit(scenario: File, *, shards: int, output: File | None = None, set: Settings | None = None,
           sweep: Settings | None = None, jobs: int | None = None, fail_fast: bool = False, retry_failed: bool = False,
           process_memory: Quantity | None = None, time_limit: Quantity | None = None, time: str | None = None,
           mem: str | None = None, partition: str | None = None, sbatch: str | Sequence[str] | None = None,
           dry_run: bool = False) -> Json:
    """Submit a sweep to Slurm as a job array, and a job that merges its parts.

    scenario:       path of a file, which each task reads again
    shards:         number of parts
    output:         folder that all machines share; None: results
    set:            keys and values that take the place of the scenario's
    sweep:          keys and the values that they take
    jobs:           points that a part computes at a time; None: 1
    fail_fast:      stop at the first point that fails
    retry_failed:   compute failed points again
    process_memory: memory limit of the process of a point, "4GiB"
    time_limit:     time limit of a point, "90s"
    time:           time limit of a part, "2:00:00"
    mem:            memory of a part, "8G"
    partition:      Slurm's partition
    sbatch:         further options of sbatch, "--account=NAME"
    dry_run:        submit nothing
    @return the numbers of the jobs; with dry_run the text of the job scripts as `scripts`
    """
    printed = calls.text("submit", {**locals(), "json": not dry_run}, "scenario", folder=output or "results")
    told: Json = {"scripts": printed} if dry_run else json.loads(printed)
    return told


def merge(journals: Sequence[File], output: File | None = None) -> Result:
    """Check the shards of a sweep and write its files.

    journals: files NAME.shard-K-of-N.journal of the parts
    output:   folder of the files; None: that of the journals
    @return slimsim.Result
    """
    done = program.start("merge", journals, {"output": output})
    return calls.written(done.stdout, done.stderr)


def best(table: File, *, by: str | None = None, least: bool = False, top: int | None = None, all: bool = False,
         where: str | Sequence[str] | None = None, pareto: str | None = None) -> Rows:
    """Return the first rows of a sweep, in which seeds are joined to means and 95% intervals.

    table:  NAME.csv of a sweep, or its slimsim.Result
    by:     column of the order; None: tokens_per_s_per_gpu
    least:  smallest first
    top:    largest number of rows; None: 10
    all:    with rows that do not fit into memory, too
    where:  conditions of rows, "gpus<=64"
    pareto: two columns "a,b": only rows that no other row beats in both
    """
    if isinstance(table, Result):
        table = pathlib.Path(table).with_suffix(".csv")
    rows: Rows = calls.answer("best", locals(), "table")["rows"]
    return rows


def capacity(scenario: Scenario | None = None, output: File | None = None, *, set: Settings | None = None,
             verbose: bool = False, jobs: int | None = None, shard: str | None = None, model: str | None = None,
             lengths: object = None, context: Quantity | None = None, batch: Quantity | None = None,
             tokens: Quantity | None = None, days: float | None = None,
             offer: str | Sequence[str] | None = None) -> Result:
    """Ask which cluster a training needs: offer, nodes, system, plan, days, cost and energy.

    scenario: with `capacity:`; None: the question stands in model, lengths, context, batch, tokens and offer
    output:   folder of NAME.capacity.h5, which keeps the sizes that were computed
    set:      keys and values that take the place of the scenario's
    verbose:  the verdict has every number and assumption
    jobs:     sizes that are computed at a time; None: number of cores
    shard:    compute only this part of the first sizes, "2/8"
    model:    model to train
    lengths:  lengths of its documents: a name, a file or an array
    context:  longest document in tokens
    batch:    tokens of a global batch
    tokens:   tokens of the whole training
    days:     longest time that it may take
    offer:    GPUs and their price for an hour, "h100-sxm@2:2-16" for 2 to 16 nodes
    @return slimsim.Result: verdict is the text of the command, answer its JSON (answer, date, changes, candidates), and
            tables are candidates, changes, dates
    """
    given = locals()
    result = calls.files("capacity", given, "scenario")
    if result.path is not None:  # the folder keeps the sizes that were computed, so the second call takes no time
        result.answer = calls.answer("capacity", {**given, "output": result.path.parent}, "scenario")
    return result


def max(key: Literal["data.context", "data.global_batch"], scenario: Scenario, *, to: Quantity,
        set: Settings | None = None, output: File | None = None) -> Json:
    """Return the largest context in tokens, or global batch in samples, with which each system fits into memory.

    key:    data.context or data.global_batch
    to:     largest value that is tried, "1Mi"
    set:    keys and values that take the place of the scenario's
    output: folder that keeps the runs
    @return `systems`, each with `largest`, `largest_tight` and `trials`
    """
    return calls.answer("max", locals(), "key", "scenario")


def sensitivity(scenario: Scenario, *, set: Settings | None = None, output: File | None = None) -> Json:
    """Return how much each system gains or loses if one assumption changes, and whether the winner does.

    set:    keys and values that take the place of the scenario's
    output: folder of NAME.sensitivity.csv
    @return `changes`, the largest effect on the first system first
    """
    return calls.answer("sensitivity", locals(), "scenario")


def plan(scenario: Scenario, *, iteration: int | None = None, system: str | None = None,
         set: Settings | None = None) -> Rows:
    """Return what each system decides for an iteration, as a list with a dict for each system.

    iteration: from 0; None: the first
    system:    only the system of this label
    set:       keys and values that take the place of the scenario's
    @return slices are [sample, begin, end, cp] in tokens
    """
    systems: Rows = calls.answer("plan", locals(), "scenario")["systems"]
    return systems


def cost(*, model: str, slice: str | Sequence[str], device: str | None = None, platform: File | None = None,
         layers: int | None = None, tp: int | None = None, cp: int | None = None, ep: int | None = None,
         cp_type: Literal["ring", "all-gather", "ulysses", "ring-contiguous"] | None = None,
         sequence_parallel: Literal["on", "off"] | None = None,
         attention: Literal["flash2", "flash3", "cudnn", "flash1", "unfused"] | None = None,
         kernels: Literal["fused", "eager", "compiled"] | None = None,
         precision: Literal["bf16", "fp8-tensor", "fp8-block", "mxfp8"] | None = None,
         recompute: str | None = None,
         expert_gemms: Literal["sequential", "multi-stream", "grouped"] | None = None,
         gradient_accumulation: Literal["fused", "autograd", "fp32-copy"] | None = None) -> Json:
    """Return FLOPs, bytes and seconds of a micro-batch of slices, kernel by kernel.

    model:                 name of a model
    slice:                 tokens of a sample, "0:4096"; several are one micro-batch
    device:                GPU; None: h800
    platform:              cluster whose links are used; None: hopper-16x8
    layers:                layers of the stage; None: all
    tp, cp, ep:            degrees of tensor, context and expert parallelism; None: 1
    cp_type:               kind of context parallelism; None: ring
    sequence_parallel:     sequence parallelism beside tensor parallelism; None: on
    attention:             kernel of attention; None: flash2
    kernels:               element-wise kernels; None: fused
    precision:             format of the layers' GEMMs; None: bf16
    recompute:             "full", or entries joined by +, "norm+activation"; None: none
    expert_gemms:          GEMMs of experts; None: sequential
    gradient_accumulation: sum of gradients; None: fused
    @return `forward` and `backward` passes, with `kernels_of_a_layer`
    """
    return calls.answer("cost", locals())


def calibrate(kernels: File | None = None, collectives: File | None = None, *, device: File,
              training: str | None = None, output: File | None = None) -> str:
    """Fit the curves of a device to measured kernels, collectives and training runs.

    kernels, collectives: .csv files of measurements; None: those that the device names
    device:   name or file whose data sheet is used
    training: .csv files of training runs, joined by commas
    output:   file of the device
    @return the device as YAML, with output the residuals as text
    """
    return calls.text("calibrate", locals(), "kernels", "collectives")


def lengths(scenario: Scenario, *, set: Settings | None = None) -> Json:
    """Return how few samples hold how much of the tokens and FLOPs.

    set: keys and values that take the place of the scenario's
    @return `buckets` of lengths, each with its shares of samples, tokens and FLOPs
    """
    return calls.answer("lengths", locals(), "scenario")


def validate(files: Sequence[File] = (), *, filter: Mapping[str, str] | None = None,
             output: File | None = None) -> Json:
    """Compare predictions with published measurements.

    files:  .csv files of measured runs; none: those of slimsim
    filter: columns and the texts that rows must have in them, {"device": "h100-sxm"}
    output: folder of validation.h5
    @return `rows`, each with `measured`, `predicted` and `error` (0.1 for 10%)
    """
    return calls.answer("validate", locals(), "files")


def platform(name: File, *, device: str | None = None) -> str:
    """Return a platform as SimGrid's XML.

    name:   name of a platform, or a file with its keys
    device: GPU whose data sheet gives values that the platform lacks; None: h800
    """
    return calls.text("platform", locals(), "name")


@overload
def list(kind: Literal["values"], key: str | None = None) -> Sequence[str]: ...


@overload
def list(kind: Literal["models", "devices", "platforms", "frameworks", "lengths", "systems", "keys"]) -> Rows: ...


def list(kind: str, key: str | None = None) -> Rows | Sequence[str]:
    """Return what a scenario can name, as a list with a dict for each; pandas.DataFrame makes a table.

    kind: models, devices, platforms, frameworks, lengths, systems, keys; values: the names that a key may have
    key:  of values; None: all keys that have some
    """
    if kind == "values":
        return calls.text("list", locals(), "kind", "key").splitlines()
    rows: Rows = calls.answer("list", locals(), "kind", "key")["rows"]
    return rows


def import_(words: str | File | Sequence[str | File], *, output: File | None = None, set: Settings | None = None,
            nodes: int | None = None) -> str:
    """Return what another tool's plan, model or cluster means, as YAML. `import` alone is a keyword of Python.

    words:  a file and NAME=VALUE of its variables, or a plan, "TP4 PP4 DP16 selective"
    output: file of the scenario; what was not taken stands in its first lines
    set:    keys and values of the scenario; arrays of lengths are saved beside it
    nodes:  nodes of a cluster; None: those of Slurm's file, otherwise 1
    """
    return calls.text("import", locals(), "words", folder=os.path.dirname(output or "") or ".")


def export(source: Scenario, *, csv: str | None = None, chrome: bool = False, hta: File | None = None,
           dag: Literal["dot", "graphml"] | None = None, megatron: bool = False, iteration: int | None = None,
           point: int | None = None, system: str | None = None, set: Settings | None = None) -> str:
    """Return a trace, a task graph or a plan in another tool's format, as text.

    source:    slimsim.Result or RUN.h5; with dag, megatron, chrome and hta a scenario
    csv:       table of a trace, as CSV
    chrome:    JSON of trace events for ui.perfetto.dev
    hta:       folder of the traces for Holistic Trace Analysis, a file for each GPU
    dag:       format of the task graph of the first iteration
    megatron:  flags of Megatron-LM that the plan of a system means
    iteration: of a scenario, from 0; None: the first
    point:     full trace of this point of a sweep
    system:    label; None: the first
    set:       keys and values that take the place of the scenario's
    """
    return calls.text("export", locals(), "source")

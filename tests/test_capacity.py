#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests ask `slimsim capacity` small questions. They compare answers with a sweep of every plan, with each other,
and after a kill."""
import filecmp
import json
import math
import pathlib
import re
import signal
import subprocess
import time
import unittest

import yaml

from program import PROGRAM, SCRATCH, fresh, rows, run, write

MODEL = pathlib.Path(__file__).resolve().parent.parent / "model"
DEVICES = {"h100": "h100-sxm", "h200": "h200"}
PRICES = {"h100": 2, "h200": 2.8}
DEGREES = {"tp": [1, 2], "pp": [1, 2], "cp": [1, 2]}
RECOMPUTE = ["none", "full"]
BASE = """\
name: ask
model: llama3.2-1b
device: h100-sxm
platform: h100
data: {lengths: fixed, context: 4Ki, global_batch: 64}
iterations: {warm_up: 0, measured: 2}
engine: critical-path
seed: 7
"""
QUESTION = BASE + """\
plan_space: {tp: [1, 2], pp: [1, 2], cp: [1, 2], recompute: [none, full], offload: 0}
reliability:
  name: llama3
  load: 60
  spares: 1
  repair: 0
  checkpoint: {interval: 3600, blocked: 10, storage_bandwidth: 1e18}
price: {usd_per_gpu_hour: 2, pue: 1.2, kg_co2_per_kwh: 0.4}
capacity:
  tokens: 1e12
  days: 8
  offers:
    - {name: h100, nodes: {from: 1, to: 8}}
    - {name: h200, device: h200, platform: h100, price: {usd_per_gpu_hour: 2.8, pue: 1.2}, nodes: {from: 1, to: 6}}
systems:
  - {name: best-fit, plan: auto}
  - {name: slimpack, plan: auto}
"""
VARIED = QUESTION.replace("lengths: fixed, context: 4Ki, global_batch: 64",
                          "lengths: github, context: 8Ki, global_batch_tokens: 512Ki").replace("name: ask", "name: mix")
VARIED = VARIED.replace("  - {name: best-fit, plan: auto}\n", "").replace("slimpack, plan: auto",
                                                                          "slimpack, plan: {tp: 1, pp: 1}")
VARIED = "".join(line for line in VARIED.splitlines(keepends=True) if not line.startswith("plan_space"))
SHORT = QUESTION.replace("to: 8}", "to: 4}").replace("to: 6}", "to: 3}")
FILES = ("ask.capacity.csv", "ask.capacity.h5")
ONE = "capacity.offers=[{name: h100, nodes: {from: 1, to: 8}}]"


def settings(sets):
    return [word for one in sets for word in ("--set", one)]


def ask(folder, *sets, arguments=(), question=QUESTION, status=0):
    """Ask the question with these --set."""
    done = run("capacity", write("ask.yaml", question), "--output", folder, *arguments, *settings(sets))
    assert done.returncode == status, (sets, done.stdout, done.stderr)
    return done


def answer(*sets, question=QUESTION):
    """Give the JSON of an answer. The folder is the same for all, so that each size runs once."""
    return json.loads(ask(SCRATCH / "shared", *sets, arguments=("--quiet", "--json"), question=question).stdout)


def n_computed(done):
    """Count the points that a run has computed."""
    return int(re.search(r"^\d+ runs?: (\d+) computed, ", done.stderr, re.MULTILINE)[1])


def sweep_of(sizes):
    """Make a sweep of every plan of both systems on these sizes."""
    points = [f"{{device: {DEVICES[offer]}, platform.nodes: {nodes}}}" for offer, nodes in sizes]
    axes = "".join(f"  systems.0.plan.{degree}: {values}\n" for degree, values in DEGREES.items())
    return (BASE + "systems: [{name: best-fit, plan: {tp: 1, pp: 1, cp: 1, recompute: none}}]\nsweep:\n"
            "  systems.0.name: [best-fit, slimpack]\n" + f"  zip: [[{', '.join(points)}]]\n" + axes +
            f"  systems.0.plan.recompute: [{', '.join(RECOMPUTE)}]\n"
            "  exclude: [{where: {systems.0.name: slimpack, systems.0.plan.cp: 2}, reason: it takes one}]\n")


def price_of(point):
    """Compute days, money and energy of a point of the sweep by the formulas of docs/model/systems.md."""
    offer = next(offer for offer, device in DEVICES.items() if device == point["device"])
    nodes, gpus = int(point["platform.nodes"]), int(point["gpus"])
    rates = yaml.safe_load((MODEL / "reliability" / "llama3.yaml").read_text())["failures"]
    mttf = 86400 * 1000 / (nodes * sum(rates.values()))
    interval, blocked, restart = 3600, 10, 600 + 0 + 5 + 60
    ettr = interval / (mttf * math.exp(restart / mttf) * math.expm1((interval + blocked) / mttf))
    time = 1e12 / (float(point["tokens_per_s_per_gpu"]) * gpus * ettr)
    restarting = nodes * sum(rates.values()) / 86400 / 1000 * restart
    power = yaml.safe_load((MODEL / "power" / f"{offer}.yaml").read_text())["node"]
    busy = (float(point["busy_s"]) - float(point["tensor_s"]) - float(point["shard_s"]) - float(point["expert_s"])) / float(point["total_s"])
    running = power["waiting_w"] + (power["busy_w"] - power["waiting_w"]) * busy
    watts = nodes * ((1 - restarting) * running + restarting * power["idle_w"]) + power["idle_w"]
    hours = (gpus + 8) * time / 3600
    return {"offer": offer, "system": point["system"], "nodes": nodes, "days": time / 86400, "gpu_hours": hours,
            "usd": PRICES[offer] * hours, "mwh": watts * 1.2 * time / 3.6e9,
            "plan": tuple(int(point[degree]) for degree in DEGREES) + (point["recompute"],)}


def beats(one, other):
    pairs = [(one[key], other[key]) for key in ("days", "usd", "mwh")]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


class Enumeration(unittest.TestCase):
    def test_every_plan_of_every_size_gives_the_same_frontier_and_answer(self):
        """Energy is close alone, since blocked and restarting GPUs are counted to first order here."""
        folder = fresh("enumeration")
        ask(folder, arguments=("--quiet",))
        found = {(row["offer"], row["system"], int(row["nodes"])): row for row in rows(folder / "ask.capacity.csv")}
        sizes = sorted({(offer, nodes) for offer, _, nodes in found})
        done = run("run", write("every.yaml", sweep_of(sizes)), "--output", folder, "--quiet")
        points = [point for point in rows(folder / "ask.csv") if point["fits"] == "1"]
        self.assertGreaterEqual(len(points), 200, done.stderr)
        best = {}
        for point in map(price_of, points):
            key = point["offer"], point["system"], point["nodes"]
            if key not in best or point["days"] < best[key]["days"]:
                best[key] = point
        self.assertEqual(set(best), set(found))
        for key, point in best.items():
            for column in ("days", "gpu_hours", "usd"):
                self.assertAlmostEqual(point[column] / float(found[key][column]), 1, delta=1e-9, msg=(key, column))
            self.assertAlmostEqual(point["mwh"] / float(found[key]["mwh"]), 1, delta=3e-3, msg=key)
        frontier = {key for key, one in best.items() if not any(beats(other, one) for other in best.values())}
        self.assertEqual(frontier, {key for key, row in found.items() if row["frontier"] == "1"})
        cheapest = min((key for key, point in best.items() if point["days"] <= 8), key=lambda key: best[key]["usd"])
        chosen = [key for key, row in found.items() if row["chosen"] == "1"]
        self.assertEqual(chosen, [cheapest])
        row = found[cheapest]
        plan = tuple(int(row[degree]) for degree in DEGREES) + (row["recompute"],)
        self.assertEqual(plan, best[cheapest]["plan"])


class Relations(unittest.TestCase):
    def test_a_stricter_deadline_is_never_cheaper_and_never_smaller(self):
        last_usd, last_nodes = 0, 0
        for days in (40, 20, 8, 6, 4.3):
            got = answer(f"capacity.days={days}", ONE)
            least = min(row["nodes"] for row in got["candidates"] if row["meets"])
            self.assertTrue(got["met"])
            self.assertGreaterEqual(got["answer"]["usd"], last_usd)
            self.assertGreaterEqual(least, last_nodes)
            last_usd, last_nodes = got["answer"]["usd"], least

    def test_twice_the_price_moves_no_plan_and_no_days(self):
        once = answer()
        twice = answer("price.usd_per_gpu_hour=4", "capacity.offers.1.price.usd_per_gpu_hour=5.6")
        money = {"usd", "usd_per_1t_tokens", "added_usd"}
        for one, other in zip(once["candidates"], twice["candidates"], strict=True):
            self.assertAlmostEqual(other["usd"] / one["usd"], 2, delta=1e-12)
            self.assertEqual({key: value for key, value in one.items() if key not in money},
                             {key: value for key, value in other.items() if key not in money})
        self.assertEqual(once["date"], twice["date"])

    def test_a_second_offer_never_makes_the_answer_dearer(self):
        for days in (40, 6):
            self.assertLessEqual(answer(f"capacity.days={days}")["answer"]["usd"],
                                 answer(f"capacity.days={days}", ONE)["answer"]["usd"])

    def test_more_failures_and_more_tokens_never_end_earlier(self):
        def ends(*sets):
            got = answer("capacity.days=none", *sets)
            days = {(row["offer"], row["nodes"], row["system"]): row["days"] for row in got["candidates"]}
            return days, got["date"]["failures"], got["answer"]["usd"]

        size = ONE.replace("from: 1, to: 8", "from: 4, to: 4")
        first = ends(size)
        for change in ("reliability.failures.other=50", "reliability.failures.gpu=300", "capacity.tokens=1.1e12"):
            then = ends(size, change)
            for key in first[0].keys() & then[0].keys():
                self.assertGreater(then[0][key], first[0][key])
            for percentile in ("p5", "p50"):  # a training in which nothing fails ends on the same day
                self.assertGreaterEqual(then[1][percentile], first[1][percentile])
            self.assertGreater(then[1]["p95"], first[1]["p95"])
            self.assertGreater(then[2], first[2])

    def test_a_budget_and_a_deadline_that_only_a_size_between_others_keeps(self):
        """The grid of sizes has 4 and 8 nodes. One of 5 to 7 nodes keeps both limits alone."""
        every = {row["nodes"]: row for nodes in range(4, 9)
                 for row in answer("capacity.days=none", ONE.replace("from: 1, to: 8", f"from: {nodes}, to: {nodes}"),
                                   question=VARIED)["candidates"]}
        cheapest = min(every.values(), key=lambda row: row["usd"])
        self.assertIn(cheapest["nodes"], (5, 6, 7))
        got = answer(f"capacity.days={cheapest['days'] * 1.0001}", f"capacity.usd={cheapest['usd'] * 1.0001}", ONE,
                     question=VARIED)
        self.assertEqual((got["met"], got["answer"]["nodes"]), (True, cheapest["nodes"]))


class Words(unittest.TestCase):
    def test_bad_input_is_one_sentence_with_what_is_allowed(self):
        for wrong, message in (
                ("capacity.days=-1", "capacity.days: '-1' is out of range; allowed: a number [days], 0.001 to"),
                ("capacity.usd=0", "capacity.usd: '0' is out of range; allowed: a number [$], 0.001 to"),
                ("capacity.offers.0.nodes.from=9", "nodes: from 9 to 8 is no size; allowed: from <= to"),
                ("capacity.offers.1.name=h100", "two offers have the name 'h100'"),
                ("capacity.offers.1.nodez=8", "nodez: unknown key; did you mean 'nodes'? allowed: name, nodes"),
                ("capacity.offers=[]", "capacity.offers: expected a list of at least one"),
                ("reliability.failures.gpu=-1", "reliability.failures.gpu: '-1' is out of range; allowed: a number"),
                ("reliability.checkpoint.storage_bandwidth=0", "storage_bandwidth: '0' is out of range; allowed: a"),
                ("reliability=llama4", "there is no reliability preset 'llama4'; available: llama3"),
                ("capacity.offers.0.reliability=nope", "'nope'; available: llama3, rsc1, rsc2, or the path of a file"),
                ("capacity.offers.0.power=h300", "there is no power 'h300'; available: "),
                ("price=nope", "b200-example, deepseek-v3-rent, gb200-example, llama2-site, llama3.1-site"),
                ("capacity.offers.0.device=h101", "there is no device 'h101'"),
                ("platform={name: h100, nic: -1GBps}", "platform.nic: '-1GBps' is out of range; allowed: a number"),
                ("sweep={seed: [1, 2]}", "sweep: is not allowed beside `capacity:`")):
            with self.subTest(wrong):
                done = ask(fresh("wrong"), wrong, status=2)
                self.assertIn(message, done.stderr)
                self.assertEqual((done.stderr.count("\n"), done.stdout), (1, ""))
                self.assertFalse((SCRATCH / "wrong").exists())
        done = run("capacity", write("plain.yaml", BASE + "systems: [{name: best-fit, plan: auto}]\n"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("capacity: is required; allowed: {tokens: 2e12, days: 30, offers:", done.stderr)

    def test_lengths_are_those_of_the_scenario_without_its_question(self):
        """Only the offers have devices and platforms. Lengths need neither."""
        asked = VARIED.replace("device: h100-sxm\nplatform: h100\n", "")
        asked = asked.replace("name: h100, ", "name: h100, device: h100-sxm, platform: h100, ")
        plain = VARIED[:VARIED.index("capacity:")].replace("platform: h100", "platform: h100-1x8")
        plain += VARIED[VARIED.index("systems:"):]
        want = run("lengths", write("plain.yaml", plain), "--json")
        self.assertEqual(want.returncode, 0, want.stderr)
        self.assertEqual(run("lengths", write("asked.yaml", asked), "--json").stdout, want.stdout)
        self.assertEqual(run("lengths", "-", "--json", input=asked).stdout, want.stdout)

    def test_a_deadline_that_nothing_meets_says_the_best_and_what_would_meet_it(self):
        """The status is 0, since this is an answer."""
        text = ask(SCRATCH / "shared", "capacity.days=2").stdout
        got = answer("capacity.days=2")
        self.assertFalse(got["met"])
        days = got["answer"]["days"]
        self.assertEqual(days, min(row["days"] for row in got["candidates"] if row["fits"]))
        self.assertIn("\nnothing keeps all limits; the fastest (days as computed; p5..p95, and miss of a limit, ", text)
        self.assertRegex(text, r"\nfastest +h100 +8 \+ 1 spare = 9 +72 ")
        self.assertRegex(ask(SCRATCH / "shared", "capacity.days=none", "capacity.gpus=40", ONE).stdout, r"\nfastest +h100 +[45] ")
        few = ask(SCRATCH / "shared", "capacity.days=2", "capacity.gpus=40").stdout
        self.assertRegex(few, r"\nfastest +h200 +4 \+ 1 spare = 5 +40 ")
        self.assertIn("tokens, or allow more GPUs, or enlarge the batch (global batch x2: ", " ".join(few.split()))
        self.assertIn(f"it needs {days:.2f} days: allow these, or train {1000 * 2 / days:.0f}G tokens, or offer more "
                      "than 8 nodes", " ".join(text.split()))
        again = answer(f"capacity.days={days * 1.0001}")
        self.assertTrue(again["met"])
        self.assertTrue(answer("capacity.days=2", f"capacity.tokens={1e12 * 1.9999 / days}")["met"])

    def test_a_budget_that_nothing_keeps_says_how_much_would_do(self):
        """The amount is enough, and a hundredth less is not."""
        text = " ".join(ask(SCRATCH / "shared", "capacity.usd=5").stdout.split())
        found = re.search(r"it would do to allow \$([0-9.]+)k \((\d+) nodes? of (h\d00)\)", text)
        self.assertIsNotNone(found, text)
        usd = float(found[1]) * 1e3
        enough = answer(f"capacity.usd={usd}")
        self.assertEqual((enough["met"], enough["answer"]["nodes"], enough["answer"]["offer"]),
                         (True, int(found[2]), found[3]))
        self.assertFalse(answer(f"capacity.usd={0.99 * usd}")["met"])
        sets = ("capacity.days=1000", "capacity.tokens=1e10", ONE)
        energy = answer(*sets)["answer"]["mwh"]
        self.assertLess(energy, 1)
        self.assertIn(f", {energy:.2f} MWh", ask(SCRATCH / "shared", *sets).stdout)

    def test_a_change_of_spare_nodes_says_what_it_costs(self):
        text = " ".join(ask(SCRATCH / "shared", "reliability.repair=86400", "capacity.days=1000", ONE).stdout.split())
        got = answer("reliability.repair=86400", "capacity.days=1000", ONE)
        none = next(change for change in got["changes"] if change["change"] == "0 spare nodes")
        cost = 100 * (none["usd"] / got["answer"]["usd"] - 1)
        self.assertIn(f"0 spare nodes +{100 * (none['days'] / got['answer']['days'] - 1):.1f}% (cost {cost:.1f}%)", text)

    def test_a_larger_batch_is_among_what_binds_and_a_worse_part_never_is(self):
        """Four nodes share 64 samples, so a batch of 128 has less waiting."""
        sets = ("capacity.days=1000", "capacity.offers=[{name: h100, nodes: {from: 4, to: 4}}]")
        text = ask(SCRATCH / "shared", *sets, arguments=("--quiet", "-v")).stdout
        binds, risks = (re.search(rf"^{word} \(days if \w+\): (.*?)\n(?! )", text, re.MULTILINE | re.DOTALL).group(1)
                        for word in ("binds", "risks"))
        got = answer(*sets)
        batch = next(change for change in got["changes"] if change["change"] == "global batch x2")
        self.assertLess(batch["days"], got["answer"]["days"])
        self.assertIn(f"global batch x2 {100 * (batch['days'] / got['answer']['days'] - 1):.1f}%", " ".join(binds.split()))
        self.assertNotRegex(binds, r"x0\.9|lengths|flash2|(NIC|NVLink|storage) x0\.5|(failures|restart) x2|0 spare")
        self.assertNotRegex(risks, r"all memory|batch|(NIC|NVLink|storage) x2|(failures|restart) x0\.5|2 spare")

    def test_sizes_of_about_the_same_cost_are_named(self):
        """Their costs differ by less than the interval over batches. Equal batches have none, so only equal costs count."""
        said = r"costs about the same \(± ([\d.]+)%, 95% interval of batches\): (\d+) nodes? of h100 in [\d.]+ days, (\d+) in [\d.]+ "
        sets = ("capacity.days=1000", "reliability=~", "fits=tight", "capacity.offers=[{name: h100, nodes: {from: 1, to: 8}}]")
        documents = VARIED.replace("global_batch_tokens: 512Ki", "global_batch: 256")
        for question, expected in ((documents, True), (QUESTION, False)):
            found = re.search(said, " ".join(ask(SCRATCH / "shared", *sets, question=question).stdout.split()))
            self.assertEqual(found is not None, expected)
            if found:
                got = answer(*sets, question=question)
                error = got["answer"]["tokens_per_s_per_gpu_interval"] / got["answer"]["tokens_per_s_per_gpu"]
                near = [row["nodes"] for row in got["candidates"] if row["meets"] and abs(row["usd"] / got["answer"]["usd"] - 1) <= error]
                self.assertEqual((f"{100 * error:.1f}", int(found[2]), int(found[3])), (found[1], min(near), max(near)))

    def test_a_fastest_answer_does_not_cost_the_same_as_cheaper_sizes(self):
        text = ask(SCRATCH / "shared", "capacity.days=none", "capacity.usd=1e6", ONE).stdout
        self.assertRegex(text, r"\nrent one of these .*\n.*\nfastest +h100 +8 \+ 1 spare")
        self.assertNotIn("costs about the same", text)

    def test_keys_of_set_may_be_among_the_changes(self):
        sets = ("data.global_batch=32", "memory_limit=0.8", "attention=flash3", "data.length_scale=1.1", "platform={nodes: 1, gpus_per_node: 8, nic: 400Gbps}")
        names = {change["change"] for change in answer("capacity.days=1000", ONE.replace("to: 8", "to: 1"), *sets)["changes"]}
        self.assertTrue({"global batch x2", "usable memory x0.9", "attention flash2", "lengths x1.2", "NIC x2"} < names, names)

    def test_an_offer_without_price_gives_hours(self):
        done = ask(SCRATCH / "shared", "price=~", ONE)
        got = answer("price=~", ONE)
        verdict = done.stdout.split("\n\n")[0]
        self.assertIn("GPU-hours", verdict)
        self.assertNotIn("$", done.stdout)
        self.assertIsNone(got["answer"]["usd"])
        self.assertEqual(got["answer"]["gpu_hours"], min(row["gpu_hours"] for row in got["candidates"] if row["meets"]))
        mixed = " ".join(ask(SCRATCH / "shared", "price=~").stdout.split())
        self.assertIn("; GPU-hours stand for cost, since the money of an offer is unknown", mixed)
        done = ask(SCRATCH / "shared", "price=~", "capacity.usd=1e6", ONE, status=2)
        self.assertIn("capacity.usd: the offer h100 has no price", done.stderr)

    def test_an_own_node_without_tariff_is_without_energy(self):
        """A rent has energy in it."""
        said = "its money is without energy, since its price has no usd_per_kwh"
        own = ("capacity.offers=[{name: h100, price: {own: {usd_per_node: 3e5, years: 4, utilisation: 0.8}}, "
               "nodes: {from: 1, to: 8}}]")
        for sets, expected in (((own,), True), ((own, "capacity.offers.0.price.usd_per_kwh=0.1"), False), ((ONE,), False)):
            text = " ".join(ask(SCRATCH / "shared", *sets).stdout.split())
            self.assertEqual(said in text, expected, text)

    def test_an_interval_of_dates_needs_eight_iterations(self):
        """Two iterations of varying lengths do not say how much batches differ. With fixed lengths they are alike."""
        said = "no interval of dates from {} measured iteration{}, which do not say how much batches differ: 8 are needed"
        for n, plural, question, expected in ((1, "", VARIED, True), (7, "s", VARIED, True), (8, "s", VARIED, False),
                                              (1, "", QUESTION, False)):
            sets = (f"iterations.measured={n}", "capacity.days=1000", ONE.replace("to: 8", "to: 2"))
            text = " ".join(ask(SCRATCH / "shared", *sets, question=question).stdout.split())
            got = answer(*sets, question=question)
            self.assertEqual(said.format(n, plural) in text, expected, text)
            self.assertEqual(got["date"]["days"]["p95"] is None, expected)
            self.assertEqual(got["date"]["late"] is None, expected)
            self.assertEqual(got["safe"] is None, expected)
            self.assertEqual("drawn trainings" in text, not expected)

    def test_three_answers_stand_side_by_side(self):
        """Money grows with the days, and the safe answer may miss its limit in a tenth of the draws."""
        got, other = answer(), answer("capacity.confidence=0.5")
        rows_of = [row for row in got["candidates"] if row["meets"]]
        self.assertEqual(got["answer"]["usd"], min(row["usd"] for row in rows_of))
        self.assertEqual(got["fewest"]["gpus"], min(row["gpus"] for row in rows_of))
        self.assertGreater(got["answer"]["days"], got["safe"]["days"])
        self.assertLessEqual(got["safe"]["date"]["late"], 0.1)
        self.assertLess(0.1, got["date"]["late"])
        self.assertLessEqual(other["safe"]["usd"], got["safe"]["usd"])
        for percentile in ("p5", "p50", "p95"):
            self.assertAlmostEqual(got["safe"]["usd_interval"][percentile] / got["safe"]["usd"],
                                   got["safe"]["date"]["days"][percentile] / got["safe"]["days"], delta=1e-12)
        self.assertEqual({row["offer"] for row in got["other_offers"]}, {"h100", "h200"} - {got["answer"]["offer"]})
        text = ask(SCRATCH / "shared", "capacity.confidence=0.95").stdout
        self.assertRegex(text, r"\nfewest GPUs +h\d00 +\d \+ 1 spare = \d +\d+ ")
        self.assertRegex(text, r"\nsafe at 95% +h\d00 +\d \+ 1 spare = \d +\d+ ")
        self.assertIn(f"the cheapest keeps the limits as computed; {100 * got['date']['late']:.0f}% of the draws miss them\n", text)

    def test_an_own_node_is_bought_and_a_rented_one_is_rented(self):
        own = ONE.replace("name: h100,", "name: h100, price: {own: {usd_per_node: 3e5, years: 4, utilisation: 0.8}},")
        for sets, word in ((ONE, "rent"), (own, "buy")):
            self.assertIn(f"\n{word} one of these (days as computed; p5..p95", ask(SCRATCH / "shared", sets).stdout)

    def test_faults_hold_for_each_size(self):
        """GPU 20 is on the third node. A slow GPU is slow in all sizes that have it, and a smaller size has a reason."""
        size = ONE.replace("from: 1", "from: 2")
        healthy, slow = (answer("capacity.days=1000", size, *more) for more in ((), ("faults=[{kind: gpu, gpus: [20], factor: 2}]",)))
        rates = [{row["nodes"]: row for row in got["candidates"] if row["system"] == "best-fit"} for got in (healthy, slow)]
        self.assertIn("faults: GPU 20 is not on the platform; allowed: 0 to 15", rates[1][2]["refused"])
        for nodes in (4, 8):
            self.assertLess(rates[1][nodes]["tokens_per_s_per_gpu"], 0.8 * rates[0][nodes]["tokens_per_s_per_gpu"])
        self.assertIn("faults: each size has them, and plans do not know of them", slow["notes"])

    def test_options_ask_without_a_file(self):
        """They give the answer of the file that says the same. Its first lines say what was assumed."""
        options = ("--model", "llama3.2-1b", "--lengths", "github", "--context", "8Ki", "--batch", "512Ki", "--tokens", "1T",
                   "--days", "20", "--offer", "h100-sxm@2:1-4", "--offer", "h200@2.8:1-3")
        done = run("capacity", "--output", fresh("options"), *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        question, *assumed = done.stdout.split("\nrent one of these")[0].replace("\n  ", " ").splitlines()
        self.assertEqual(question, "question: train llama3.2-1b on 1.00T tokens of github up to 8,192, in 20 days at most")
        self.assertRegex(assumed[0], r"^assumed: h100-sxm: 1 to 4 nodes of 8 GPUs, .*; h200: 1 to 3 such$")
        self.assertRegex(assumed[1], r"^assumed: failures as in llama3; best-fit .* plan of the space free, over 8 batches on the")
        file = write("options.yaml", """\
name: question
model: llama3.2-1b
data: {lengths: github, context: 8Ki, global_batch_tokens: 512Ki}
iterations: {warm_up: 0, measured: 8}
engine: critical-path
plan_space: {name: free}
reliability: llama3
capacity:
  tokens: 1e12
  days: 20
  offers:
    - {name: h100-sxm, device: h100-sxm, price: {usd_per_gpu_hour: 2}, nodes: {from: 1, to: 4}}
    - {name: h200, device: h200, price: {usd_per_gpu_hour: 2.8}, nodes: {from: 1, to: 3}}
systems: [{name: best-fit, plan: auto}]
""")
        same = run("capacity", file, "--output", SCRATCH / "options", "--quiet", "--json")
        got = run("capacity", *options, "--output", SCRATCH / "options", "--quiet", "--json")
        same, got = json.loads(same.stdout), json.loads(got.stdout)
        self.assertEqual(same["candidates"], got["candidates"])
        self.assertEqual((same["assumed"], ["assumed: " + line for line in got["assumed"]]), ([], assumed))
        for change, message in ((("--model", "llama"), "--model: model: there is no model 'llama'"),
                                (("--offer", "h200"), "--offer 'h200': is no offer; allowed: DEVICE@USD_PER_GPU_HOUR, such as"),
                                (("--offer", "h200:fp8-tensor"), "--offer 'h200:fp8-tensor': is no offer; allowed: DEVICE@USD_PER_GPU_HOUR, such as"),
                                (("--offer", "h200:@3"), "with a precision as b200:fp8-tensor@4"),
                                (("--offer", "a100-80g:fp8-tensor@3"), "device a100-80g has no fp8 tensor cores; allowed: bf16"),
                                (("--offer", "h200@3"), "--offer 'h200@3': its device and precision stand in another --offer"),
                                (("--offer", "h101@2"), "--offer: device: there is no device 'h101'"),
                                (("--tokens", "many"), "--tokens: capacity.tokens: 'many' is not a number"),
                                (("ask.yaml",), "ask.yaml: a file has keys of its own")):
            done = run("capacity", "--output", fresh("wrong"), *options, *change)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
            self.assertIn(message, done.stderr)
        done = run("capacity", *options[2:])
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1))
        self.assertIn("--model is missing: without a file a question needs it, such as --model llama3-70b", done.stderr)

    def test_samples_that_wait_are_said(self):
        """Long samples wait until some are together. The samples that ran before the end then have other lengths."""
        sets = ("systems=[{name: wlb-llm, plan: {tp: 2, pp: 1, cp: 1}}]", "data.context=32Ki", ONE.replace("to: 8", "to: 1"))
        text = " ".join(ask(SCRATCH / "shared", *sets, question=VARIED).stdout.split())
        self.assertRegex(text, r"; tokens wait \d\.\d\d iterations, so tokens/s are those of other samples")
        self.assertNotIn("tokens wait", ask(SCRATCH / "shared", ONE).stdout)

    def test_keys_without_effect_are_said(self):
        none = "platform.nodes has no effect: each offer has nodes of its own"
        above = "has no effect on the critical path, which has no contention: use SimGrid"
        slow = "reliability.slow.factor has no effect: reliability.slow.share is 0"
        share = "reliability.slow.share has no effect: reliability.slow.factor is 1"
        self.assertEqual(answer(ONE)["notes"], [])
        for sets, notes in ((["platform.nodes=7"], [none]),
                            (["platform=hopper-7x8"], [none.replace("platform.nodes", "the number of nodes in platform hopper-7x8")]),
                            (["platform.leaf=4"], [f"platform.leaf {above}"]),
                            (["platform.topology=rail"], [f"platform.topology {above}"]),
                            (["platform.leaf=4", "platform.oversubscription=2"], [f"platform.leaf {above}", f"oversubscription {above}"]),
                            (["platform.oversubscription=2"], ["oversubscription has no effect: all 8 nodes are on one leaf (platform.leaf 32)"]),
                            (["reliability.slow={share: 0, factor: 3}"], [slow]),
                            (["reliability.slow={share: 0.1, factor: 1}"], [share]),
                            (["capacity.offers.0.platform={name: h100, nodes: 3}"], [none])):
            self.assertEqual(answer(ONE, *sets)["notes"], notes)
        self.assertIn(f"\n{none}\n{slow}\n", ask(SCRATCH / "shared", ONE, "platform.nodes=7", "reliability.slow={share: 0, factor: 3}").stdout)

    def test_a_huge_size_is_said_before_it_is_computed(self):
        done = ask(fresh("huge"), "capacity.offers=[{name: huge, nodes: {from: 1, to: 1000000}}]", "capacity.gpus=8")
        self.assertIn("huge, 64 documents on 8,000,000 GPUs: an iteration of a system takes at least about 480 s of one "
                      "core and 8.0 GB\n", done.stderr)
        self.assertNotIn("an iteration of a system", ask(SCRATCH / "shared", ONE).stderr)

    def test_changes_with_which_the_answer_would_miss_a_limit_are_said(self):
        days = answer("capacity.days=1000", ONE)["answer"]["days"]
        got = answer(f"capacity.days={days * 1.03}", ONE)
        late = [change for change in got["changes"] if (change["days"] or 0) > days * 1.03]
        text = " ".join(ask(SCRATCH / "shared", f"capacity.days={days * 1.03}", ONE).stdout.split())
        self.assertGreater(len(late), 0)
        self.assertIn("the cheapest would miss a limit with " + ", ".join(
            f"{change['change']} ({change['days']:.3g} days, ${change['usd'] / 1e3:.3g}k)" for change in late) + " plan: ", text)
        self.assertNotIn("would miss a limit", ask(SCRATCH / "shared", "capacity.days=1000", ONE).stdout)

    def test_the_verdict_has_at_most_22_lines_and_4_for_a_second_offer(self):
        for sets in ((), ("capacity.days=2",), ("price=~", ONE), ("capacity.days=none", "capacity.usd=2e4"),
                     ("capacity.days=1", "capacity.usd=1", "capacity.mwh=1", "capacity.gpus=3")):
            verdict = ask(SCRATCH / "shared", *sets).stdout.split("\n\n")[0]
            self.assertLessEqual(len(verdict.splitlines()), 22 if ONE in sets else 26, verdict)
            self.assertRegex(verdict, r"\n\d+ sizes on the critical path")

    def test_sizes_that_cannot_train_say_why(self):
        """A node fails each 7 minutes, and a checkpoint comes each hour."""
        sets = ("reliability.failures.other=1e5", "reliability.failures.gpu=1e5", "capacity.days=none", ONE)
        text = ask(SCRATCH / "shared", *sets).stdout
        self.assertIn("no size of any offer trains; the table says why", text)
        self.assertEqual(text.count("failures come so fast that less than 1% of the time trains"), 4)
        self.assertIn("-v shows 4 more rows", text)
        got = answer(*sets)
        self.assertEqual((got["met"], got["answer"], got["date"]), (False, None, None))
        text = ask(SCRATCH / "shared", "model=llama3-70b", "capacity.days=none", ONE.replace("to: 8", "to: 1"),
                   "plan_space.recompute=none").stdout
        self.assertIn("does not fit in memory", text)

    def test_a_size_that_the_scenario_refuses_is_a_result(self):
        """The plan takes an even number of nodes. Rounds after the first have only odd ones."""
        question = re.sub("plan_space: .*\n", "", QUESTION)
        sets = ("model=llama-7b", "systems=[{name: best-fit, plan: {tp: 8, pp: 1, cp: 2, recompute: norm+activation}}]", "capacity.days=none")
        candidates = answer(*sets, ONE.replace("from: 1, to: 8", "from: 2, to: 32"), question=question)["candidates"]
        self.assertTrue({2, 4, 7, 8, 16, 32} <= {row["nodes"] for row in candidates}, candidates)
        for row in candidates:
            self.assertEqual(row["days"] is None, row["nodes"] % 2 == 1, row)
        done = ask(SCRATCH / "shared", *sets, ONE.replace("from: 1, to: 8", "from: 3, to: 3"), question=question, status=2)
        self.assertIn("does not divide the 24 GPUs", done.stderr)

    def test_a_date_that_never_comes_is_null(self):
        """Each 30 minutes a failure comes, at nearly equal times. The first checkpoint would come after an hour."""
        sets = ("reliability.failures.other=48000", "reliability.weibull_shape=10", "capacity.days=1000",
                ONE.replace("to: 8", "to: 1"))
        got = answer(*sets)
        self.assertEqual((got["date"]["days"]["p50"], got["date"]["late"]), (None, 1))

    def test_the_answers_run_on_simgrid(self):
        """All sizes have the critical path's time, but for the answers."""
        path, both = answer(ONE), answer("engine=both", ONE)
        picked = {(both[kind]["nodes"], both[kind]["system"]) for kind in ("answer", "fewest", "safe")}
        self.assertIsNone(path["contention"])
        self.assertGreaterEqual(both["contention"], 0)
        for one, other in zip(path["candidates"], both["candidates"], strict=True):
            ratio = one["tokens_per_s_per_gpu"] / other["tokens_per_s_per_gpu"]
            if other["chosen"]:
                self.assertAlmostEqual(ratio, 1 + both["contention"], delta=1e-12)
            elif (other["nodes"], other["system"]) not in picked:
                self.assertAlmostEqual(ratio, 1, delta=1e-12)
        self.assertEqual(sum(row["chosen"] for row in both["candidates"]), 1)


class Restarts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.whole = fresh("whole")
        cls.n_points = n_computed(ask(cls.whole, arguments=("--jobs", "1"), question=SHORT))

    def same(self, folder):
        for name in FILES:
            self.assertTrue(filecmp.cmp(self.whole / name, folder / name, shallow=False), folder / name)

    def test_equal_questions_give_equal_bytes(self):
        self.assertGreater(self.n_points, 10)
        folder = fresh("jobs")
        self.assertEqual(n_computed(ask(folder, arguments=("--jobs", "2"), question=SHORT)), self.n_points)
        self.same(folder)

    def test_a_killed_search_goes_on_from_there(self):
        size = (self.whole / "ask.sizes.journal").stat().st_size
        for share in (0.1, 0.5):
            folder = fresh("killed")
            journal = folder / "ask.sizes.journal"
            with subprocess.Popen([PROGRAM, "capacity", write("short.yaml", SHORT), "--output", folder, "--jobs", "1"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                while not journal.exists() or journal.stat().st_size < share * size:
                    time.sleep(0.001)
                process.send_signal(signal.SIGKILL)
            self.assertEqual(process.returncode, -signal.SIGKILL)
            self.assertFalse((folder / FILES[0]).exists())
            again = n_computed(ask(folder, question=SHORT))
            self.assertTrue(0 < again < self.n_points, again)
            self.same(folder)

    def test_shards_give_the_same_bytes(self):
        folder = fresh("shards")
        done = [ask(folder, arguments=("--shard", f"{k}/2"), question=SHORT) for k in (1, 2)]
        n = [n_computed(one) for one in done]
        self.assertIn(f" found in {folder}/ask.sizes.shard-2-of-2.journal\n", done[1].stderr)
        self.assertFalse((folder / FILES[0]).exists())
        self.assertTrue(min(n) > 0 and sum(n) < self.n_points)
        self.assertEqual(n_computed(ask(folder, question=SHORT)), self.n_points - sum(n))
        self.same(folder)

    def test_another_question_about_the_same_sizes_computes_nothing(self):
        folder = fresh("others")
        ask(folder, question=SHORT)
        self.assertLess(n_computed(ask(folder, "capacity.days=14", question=SHORT)), self.n_points)
        for sets in ((), ("price.usd_per_gpu_hour=2.1",), ("capacity.days=14",), ("reliability.detect=300",),
                     ("capacity.tokens=1.01e12",), ()):
            self.assertEqual(n_computed(ask(folder, *sets, question=SHORT)), 0, sets)
        self.same(folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)

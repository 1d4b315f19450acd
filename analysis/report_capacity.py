# SPDX-License-Identifier: GPL-3.0-or-later
"""This module reads what the report of an answer of `slimsim capacity` shows: texts and numbers for report_capacity.js."""
import re

from common import TOP, numpy, text_of
from report_run import BESIDE
from report_sweep import plain
from slimsim.plot.tradeoff import COST_NAMES, Answer, interval_share

BINS = 40
INDENT = 2  # of YAML
LINE = 90  # characters of YAML before a mapping or list takes several lines
MISSES = "would miss a limit with"  # of a line of the verdict about the answer
# A row of the verdict's first table, whose columns are apart by two spaces or more.
PICK = re.compile(r"(cheapest|fastest|fewest GPUs|other offer|safe at \S+)  +(.+?)  +(\d+) \+ (\d+) spares? = \d+ +(\d+) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+)")


def split_flow(text):
    """The entries of a mapping or list of YAML's flow style, without its brackets: split at commas that no quotes or
    brackets enclose."""
    entries, depth, quote, begin = [], 0, "", 1
    for i, letter in enumerate(text[:-1]):
        if quote:
            quote = "" if letter == quote and not (quote == '"' and text[i - 1] == "\\") else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 1:
            entries.append(text[begin:i].strip())
            begin = i + 1
    return entries + [text[begin:-1].strip()]


def block(text, indent=0):
    """The lines of YAML's flow text; whatever is longer than a line, and the root, takes several."""
    pad, lines = " " * indent, []
    for entry in split_flow(text):
        key, value = ("-", entry) if text[0] == "[" else entry.split(" ", 1) if ": " in entry else (entry, "")
        if len(entry) + indent > LINE and value[:1] in ("{", "["):
            below = block(value, indent + INDENT)
            lines += [f"{pad}- {below[0].strip()}", *below[1:]] if key == "-" else [pad + key, *below]
        else:
            lines.append(f"{pad}{key} {value}".rstrip())
    return lines


def section_of(scenario, key):
    """The lines of a top key of a resolved scenario; "": it has none."""
    found = re.search(rf"^{key}:.*\n(?: .*\n)*", scenario, re.MULTILINE)
    return found[0] if found else ""


def source_of(folder, section):
    """The source of the preset that a section of a scenario names; "": it names none of model/."""
    name = re.search(r'^  name: "?([\w.-]+)"?$', section, re.MULTILINE)
    path = TOP / "model" / folder / f"{name[1]}.yaml" if name else None
    found = re.search(r'^source: "(.*)"$', path.read_text(encoding="utf-8"), re.MULTILINE) if path and path.is_file() else None
    return found[1] if found else ""


def sentence_of(key, section):
    """The words at the top of a section of a scenario, with the source of its preset; "": there is no section."""
    values = re.findall(r"^  (\w+: .+)$", section, re.MULTILINE)
    return f"{key}: " + "; ".join(filter(None, (", ".join(values), source_of(key, section)))) if section else ""


def offers_of(answer):
    """The assumptions of each offer: [{name, lines, values}]."""
    offers = []
    for name, scenario, power in zip(answer.offers, answer.trace.texts("offer_scenarios"), answer.trace.texts("offer_power")):
        price, reliability = section_of(scenario, "price"), section_of(scenario, "reliability")
        price = re.sub(r"^ .*: none\n|^  own:\n(?=(?:    .*: none\n)+)", "", price, flags=re.MULTILINE)
        lines = [f"device: {section_of(scenario, 'device').split(': ', 1)[1].strip()}", f"power: {power}",
                 sentence_of("price", price) or "no price:, so cost is GPU-hours",
                 sentence_of("reliability", reliability) or "no reliability:, so nothing fails"]
        offers.append({"name": name, "lines": lines, "values": section_of(scenario, "platform") + price + reliability})
    return offers


def plan_of(answer, row):
    if not row["ran"]:
        return "cannot run; the CSV file says why"
    plan = text_of(row["plan_text"])
    fits = "" if row["fits"] and not row["tight"] else "fits only tightly" if row["tight"] else "does not fit in memory"
    return f"{plan}: {fits}" if fits else plan


def mark_of(row):
    words = ("answer" if row["chosen"] else "keeps limits" if row["meets"] else "", "frontier" if row["frontier"] else "")
    return ", ".join(filter(None, words))


def rows_of(answer):
    names = ["mark", "offer", "nodes", "spare nodes", "system", "days", "cost [$]", "GPU-hours", "energy [MWh]", "CO2 [t]",
             "goodput [%]", "MFU [%]", "tokens/s/GPU", "plan"]
    rows = []
    for row in answer.candidates:
        results = [row["days"], row["usd"], row["gpu_hours"], row["mwh"], row["co2_t"], 100 * row["goodput"], 100 * row["mfu"],
                   row["tokens_per_s_per_gpu"]]
        rows.append([mark_of(row), answer.offers[row["offer"]], int(row["nodes"]), int(row["spare_nodes"]),
                     answer.systems[row["system"]], *(plain(value) if row["fits"] else None for value in results), plan_of(answer, row)])
    known = [i for i, _ in enumerate(names) if i == 0 or any(row[i] is not None for row in rows)]
    return [names[i] for i in known], [[row[i] for i in known] for row in rows]


def points_of(answer):
    """Marks of days against cost: [cost, days, offer, system, nodes, whether it is the subject, half of the interval of days]."""
    return [[plain(row[answer.cost]), plain(row["days"]), int(row["offer"]), int(row["system"]), int(row["nodes"]),
             answer.is_subject(row), plain(row["days"] * interval_share(row))] for row in answer.fitting]


def sizes_of(answer):
    """Lines of cost and energy over nodes: [{name, limit, lines: [of each offer [[nodes, value, half of its interval]]]}]."""
    columns = [(answer.cost, COST_NAMES[answer.cost], answer.budget), ("mwh", "energy [MWh]", answer.limit("mwh"))]
    return [{"name": name, "limit": limit,
             "lines": [[[int(row["nodes"]), plain(row[column]), plain(row[column] * interval_share(row))] for row in answer.fastest_of_sizes(offer)
                        if numpy.isfinite(row[column])] for offer, _ in enumerate(answer.offers)]}
            for column, name, limit in columns if numpy.isfinite(answer.fitting[column]).any()]


def date_of(answer):
    days, deadline = answer.dates["days"], answer.limit("days")
    ended = days[numpy.isfinite(days)]
    if not len(ended):
        return None
    counts, edges = numpy.histogram(ended, BINS)
    return {"counts": counts.tolist(), "edges": edges.tolist(), "percentiles": answer.percentiles(), "deadline": deadline,
            "draws": len(days), "endless": len(days) - len(ended),
            "late": None if deadline is None else int(len(days) - (days <= deadline).sum())}


def option_of(match, unit):
    """A row of the verdict in words: {name, number, beside, lines}."""
    label, offer, nodes, spares, gpus, days, days_range, cost, cost_range, missed = match.groups()
    spare = f" and {spares} spare" if spares != "0" else ""
    lines = [f"{nodes} node{'s' * (nodes != '1')} of {offer}{spare}, {gpus} GPUs"]
    if days_range != "-":
        lines.append(f"90% of the drawn trainings: {f'{cost_range} {unit}'.strip()}, {days_range} days".replace("..", " to "))
    if missed != "-":
        lines.append(f"{missed} of the drawn trainings miss a limit")
    return {"name": label, "number": cost, "beside": f"{unit} in {days} days".strip(), "lines": lines}


def first_of(answer, verdict):
    """The first screen: cost and days of the first answer in large, and up to three answers beside it."""
    unit = "" if answer.cost == "usd" else "GPU-hours"
    options = [option_of(match, unit) for match in map(PICK.fullmatch, verdict) if match][:BESIDE]
    if not options:
        return {"title": "", "number": verdict[0], "lines": verdict[1:], "options": []}
    limits = " that keeps all limits" if any(name.startswith("limit_") for name in answer.trace.attributes) else ""
    title = f"The {options[0]['name']} way{limits}" if answer.chosen else "Nothing keeps all limits; the fastest way"
    options[0]["lines"] += ["it " + line[line.index(MISSES):] for line in verdict if MISSES in line]
    return options[0] | {"title": title, "unit": "for the whole training", "options": options}


def content_of(trace):
    answer = Answer(trace)
    question, *verdict = (line.rstrip() for line in answer.verdict)
    columns, rows = rows_of(answer)
    name = trace.text("name")
    content = {"kind": "capacity", "name": name, "setting": question.removeprefix(f"{name}: "), "head": trace.text("program"),
               "first": first_of(answer, verdict), "verdict": verdict, "columns": columns, "rows": rows, "offers": offers_of(answer),
               "question": "\n".join(block(trace.text("question"))) + "\n"}
    if len(answer.fitting):
        content |= {"subject": f"{answer.subject_role()}: {answer.subject_name()}", "cost": COST_NAMES[answer.cost],
                    "labels": answer.systems, "points": points_of(answer), "front": [[plain(row[answer.cost]), plain(row["days"])]
                                                                                     for row in answer.front()],
                    "deadline": answer.limit("days"), "budget": answer.budget, "sizes": sizes_of(answer), "date": date_of(answer),
                    "changes": [[name, None if numpy.isnan(share) else float(share)] for name, share in answer.change_shares()]}
    return content

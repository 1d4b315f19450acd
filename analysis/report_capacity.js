// SPDX-License-Identifier: GPL-3.0-or-later
// This part of the page shows an answer of slimsim capacity: four pictures, the candidates, and what each offer assumes.

const SHAPE_NAMES = ["circles", "squares", "diamonds", "triangles"];
const FEWER = PALETTE[0], MORE = PALETTE[1], EVEN = 0.0005;

/** The sentence about bars, where there are any. */
function intervalNote(halves) {
  return halves.some((half) => half > 0) ? " A bar is the 95% interval of the batches, where it is wider than a line." : "";
}

function daysSection({ offers, labels, points, front, cost, deadline, budget, subject }) {
  const labelOf = (offer, nodes) => (window.innerWidth < 640 ? `${nodes}`
    : `${nodes} ${offers.length > 1 ? `${clip(offers[offer].name, 16)} ` : ""}node${nodes === 1 ? "" : "s"}`);
  const marks = points.map(([x, y, offer, system, nodes, large, half]) => ({ x, y, half, large, shape: system, colour: PALETTE[offer % PALETTE.length],
    label: large || front.some((at) => at[0] === x && at[1] === y) ? labelOf(offer, nodes) : "",
    text: `${nodes} nodes of ${offers[offer].name}, ${labels[system]}\n${y.toFixed(1)} days\n${cost}: ${count(Math.round(x))}` }));
  marks.sort((a, b) => Boolean(a.large) - Boolean(b.large));
  const shapes = labels.map((label, i) => `${SHAPE_NAMES[i % SHAPE_NAMES.length]}: ${label}`).join("; ");
  const limits = [deadline === null ? "" : ` The line across is the deadline of ${deadline} days.`, budget === null ? "" : ` The line upwards is the budget of $${count(budget)}.`];
  return add(section("Days against cost"), make("p", {}, `The large mark: ${subject}.`),
    make("p", { className: "small" }, `A mark is a number of nodes; ${shapes}. The line joins the fewest days for the cost.${limits.join("")}${intervalNote(points.map((point) => point[6]))}`),
    legend(offers.map(({ name }, i) => [name, PALETTE[i % PALETTE.length]])),
    scatter(marks, cost, "days", { limit: deadline, xLimit: budget, lines: [{ points: front, colour: INK }], pads: [0.18, 0.1] }));
}

function sizesSection({ offers, sizes }) {
  const box = section("Cost and energy by size");
  add(box, make("p", { className: "small" }, "The whole training, with the fastest system of each offer and size. A dashed line is a limit." +
    intervalNote(sizes.flatMap(({ lines }) => lines.flat().map((point) => point[2])))),
    legend(offers.map(({ name }, i) => [name, PALETTE[i % PALETTE.length], i])));
  for (const { name, limit, lines } of sizes) {
    const coloured = lines.map((points, i) => ({ points, colour: PALETTE[i % PALETTE.length] }));
    const marks = coloured.flatMap(({ points, colour }, i) => points.map(([x, y, half]) => ({ x, y, half, ink: colour, colour, shape: i,
      text: `${x} nodes of ${offers[i].name}\n${name}: ${count(Math.round(y))}` })));
    add(box, scatter(marks, "nodes that train", name, { limit, categories: true, lines: coloured }));
  }
  return box;
}

/** A histogram of the simulated trainings. */
function dateSection({ counts, edges, percentiles, deadline, draws, endless, late }) {
  const narrow = window.innerWidth < 640, width = narrow ? 400 : 820, height = 260, left = 40, right = 14, top = 40, bottom = 40;
  const first = edges[0], last = edges[edges.length - 1], wide = last - first || 1;
  const near = deadline !== null && deadline > first - wide && deadline < last + wide;
  const low = Math.min(first, near ? deadline : first) - 0.04 * wide, high = Math.max(last, near ? deadline : last) + 0.04 * wide;
  const most = Math.max(...counts), x = (days) => left + ((days - low) / (high - low)) * (width - left - right), y = (n) => height - bottom - (n / most) * (height - top - bottom);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "date", "aria-label": "Histogram of the days of the simulated trainings" });
  const upright = (days, colour, dashes) => drawn("line", { x1: x(days), x2: x(days), y1: top - 8, y2: y(0), style: `stroke: ${colour}`, "stroke-dasharray": dashes });
  ticksOf(0, most, 4).filter((n) => n <= most).forEach((n) => add(picture, drawn("line", { x1: left, x2: width - right, y1: y(n), y2: y(n), style: `stroke: ${RULE}` }),
    drawn("text", { x: left - 5, y: y(n) + 4, "text-anchor": "end" }, `${n}`)));
  ticksOf(low, high, narrow ? 4 : 8).forEach((days) => add(picture, drawn("text", { x: x(days), y: height - bottom + 16, "text-anchor": "middle" }, `${Number(days.toPrecision(6))}`)));
  counts.forEach((n, i) => add(picture, add(drawn("rect", { x: x(edges[i]), y: y(n), width: Math.max(x(edges[i + 1]) - x(edges[i]) - 1, 0.5), height: y(0) - y(n), style: `fill: ${FEWER}` }),
    drawn("title", {}, `${edges[i].toFixed(2)} to ${edges[i + 1].toFixed(2)} days: ${n} trainings`))));
  for (const [share, days] of percentiles) add(picture, upright(days, INK, share === 50 ? "none" : "4 3"));
  if (near) add(picture, upright(deadline, LIMIT, "5 3"), drawn("text", { x: x(deadline), y: top - 14, "text-anchor": x(deadline) > width / 2 ? "end" : "start" }, "deadline"));
  add(picture, drawn("text", { x: width - right, y: height - 6, "text-anchor": "end" }, "days"), drawn("text", { x: 4, y: 12 }, "trainings"));
  const sentences = [`${percentiles.map(([share, days]) => `p${share}: ${days.toFixed(1)} days`).join(", ")}, of ${count(draws)} simulated trainings.`,
    late === null ? "" : ` ${percent(late / draws)} of them miss the deadline of ${deadline} days.`, endless > 0 ? ` ${percent(endless / draws)} never end.` : ""];
  return add(section("When it ends"), make("p", {}, sentences.join("")), picture);
}

/** A bar to the left for fewer days, to the right for more. */
function changesSection({ changes }) {
  const shares = changes.map(([, share]) => share ?? 0), low = Math.min(0, ...shares), high = Math.max(0.01, ...shares), at = (share) => (share - low) / (high - low);
  const rows = changes.map(([name, share]) => {
    const even = share !== null && Math.abs(share) < EVEN, text = share === null ? "does not fit in memory" : even ? "0" : `${share > 0 ? "+" : "−"}${percent(Math.abs(share))}`;
    const parts = share === null ? [] : [[at(Math.min(share, 0)), at(Math.max(share, 0)), share > 0 ? MORE : FEWER, text]];
    return rowOf([name, text, bar([...parts, [at(0), at(0) + 0.005, INK, ""]])], [0]);
  });
  return add(section("What would change the days"), make("p", { className: "small" }, "One change at a time, at the same prices."),
    add(make("table", { className: "stages changes" }), captionOf("What would change the days"), headOf(["change", "days", "fewer, more"], [0, 2]), add(make("tbody"), ...rows)));
}

function candidatesSection({ columns, rows }) {
  const note = "A candidate is on the frontier if no other one is as good in days, cost and energy and better in one. A button in its head sorts by a column.";
  return add(section("Candidates"), make("p", { className: "small" }, note), sortedTable("Candidates", columns, rows, "days", 1, (row) => (row[0].startsWith("answer") ? "best" : "")));
}

function offersSection({ offers }) {
  const box = section("Assumptions of the offers");
  for (const { name, lines, values } of offers)
    add(box, make("h3", {}, name), add(make("ul"), ...lines.map((line) => make("li", {}, line))),
      add(make("details"), make("summary", { className: "small" }, "values"), named(make("pre", { tabIndex: 0 }, values), "region", `Values of ${name}`)));
  return box;
}

function showCapacity(main, data) {
  if (data.first.options.length > 0) add(main, verdictSection(data.verdict));
  if (data.points) add(main, daysSection(data), sizesSection(data), data.date && dateSection(data.date), data.changes.length > 0 ? changesSection(data) : null);
  add(main, candidatesSection(data), offersSection(data), add(section("The question to ask again"), scenarioBox(data.question)));
}

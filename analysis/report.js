// SPDX-License-Identifier: GPL-3.0-or-later
// This part of the page shows the data of report.py. All texts go through textContent, so none of them is markup.
"use strict";

const PALETTE = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#9a9a9a", "#222222"];
const SHOWN_ROWS = 500, CATEGORIES = 12;
const DIGITS = { "tokens/s/GPU": 0, "speed-up": 2, "time [s]": 3, "MFU [%]": 1, "compute [%]": 1, "idle [%]": 1, "comm [%]": 1, "peak [GiB]": 1,
  days: 1, "cost [$]": 0, "GPU-hours": 0, "energy [MWh]": 1, "CO2 [t]": 1, "goodput [%]": 1 };

function make(name, properties = {}, text = null) {
  const element = Object.assign(document.createElement(name), properties);
  if (text !== null) element.textContent = text;
  return element;
}

function add(parent, ...children) {
  parent.append(...children.filter((child) => child !== null));
  return parent;
}

function drawn(name, attributes, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function section(title) {
  return add(make("section"), make("h2", {}, title));
}

function count(number) {
  return number.toLocaleString("en-US");
}

function seconds(value) {
  return value >= 1 ? `${value.toFixed(3)} s` : value >= 1e-3 ? `${(1e3 * value).toFixed(2)} ms` : `${(1e6 * value).toFixed(1)} µs`;
}

function percent(share) {
  return `${(100 * share).toFixed(1)}%`;
}

function ki(tokens) {
  return tokens >= 1 << 20 ? `${tokens / (1 << 20)}Mi` : `${tokens / 1024}Ki`;
}

function legend(entries) {
  return add(make("ul", { className: "legend" }), ...entries.map(([name, colour]) => {
    const swatch = make("span", { className: "swatch" });
    swatch.style.background = colour;
    return add(make("li"), swatch, name);
  }));
}

/** A bar from one share of its width to another. */
function bar(parts) {
  const box = make("span", { className: "bar" });
  for (const [from, until, colour, title] of parts) {
    const part = make("i", { title });
    Object.assign(part.style, { left: `${100 * from}%`, width: `${100 * (until - from)}%`, background: colour });
    box.append(part);
  }
  return box;
}

const hoverBox = make("div", { className: "hover", hidden: true });

function showHover(text, event) {
  hoverBox.hidden = text === "";
  hoverBox.textContent = text;
  const { width, height } = hoverBox.getBoundingClientRect();
  hoverBox.style.left = `${Math.max(4, Math.min(event.clientX + 14, window.innerWidth - width - 6))}px`;
  hoverBox.style.top = `${event.clientY + height + 24 > window.innerHeight ? event.clientY - height - 10 : event.clientY + 16}px`;
}

function hideHover() {
  hoverBox.hidden = true;
}

/** A table of texts. `left`: the columns that are no numbers. */
function table(columns, rows, left, mark = () => "") {
  const cell = (name, text, i) => make(name, { className: left.includes(i) ? "left" : "" }, text);
  const head = add(make("tr"), ...columns.map((text, i) => cell("th", text, i)));
  const body = rows.map((row) => add(make("tr", { className: mark(row) }), ...row.map((text, i) => cell("td", text, i))));
  return add(make("div", { className: "wide" }), add(make("table"), add(make("thead"), head), add(make("tbody"), ...body)));
}

function scenarioBox(text) {
  const button = make("button", {}, "copy"), box = make("pre", { className: "scenario" }, text);
  button.onclick = () => {
    window.getSelection().selectAllChildren(box);
    button.textContent = document.execCommand("copy") ? "copied" : "selected: copy it with your keyboard";
  };
  return add(make("div"), add(make("div", { className: "buttons" }), button), box);
}

function verdictLines(lines) {
  return lines.map((line, i) => make("p", { className: i === 0 ? "verdict" : / {2}/.test(line) ? "columns" : "" }, line));
}

function rankingSection({ verdict, ranking }) {
  return add(make("section"), ...verdictLines(verdict), table(ranking.columns, ranking.rows, [0, ranking.columns.length - 1], (row) => (/^ ?1 /.test(row[0]) ? "best" : "")), make("p", { className: "small lines" }, ranking.note));
}

/** A waterfall a system: each loss begins where the one above it ends. */
function timeSection({ missing, names, colours, mfu_colour, free, systems }) {
  const box = section("Where the GPUs' time goes, from peak to MFU");
  if (missing) return add(box, make("p", {}, missing));
  const head = add(make("tr"), make("th", { className: "left" }, "% of the GPUs' peak"), ...systems.map(({ label }) => make("th", { className: "left" }, label)));
  const row = (name, parts, numbers, className) => add(make("tr"), make("td", { className: `left ${className}` }, name),
    ...parts.map((part, i) => add(make("td", { className }), make("span", { className: "number" }, numbers[i]), " ", bar(part))));
  const rows = names.map((name, loss) => {
    const ends = systems.map(({ shares }) => 1 - shares.slice(0, loss).reduce((sum, share) => sum + share, 0));
    const parts = systems.map(({ shares }, i) => [[ends[i] - shares[loss], ends[i], colours[loss], percent(shares[loss])]]);
    return row(name, parts, systems.map(({ shares }) => percent(shares[loss])), "");
  });
  rows.push(row("MFU", systems.map(({ mfu }) => [[0, mfu, mfu_colour, percent(mfu)]]), systems.map(({ mfu }) => percent(mfu)), "total"));
  const all = add(make("table", { className: systems.length > 4 ? "time many" : "time" }), add(make("thead"), head), add(make("tbody"), ...rows));
  return add(box, make("p", { className: "small" }, "Means of the measured iterations. The losses and the MFU of a system add up to 100%."),
    add(make("div", { className: "wide" }), all),
    make("p", { className: "small" }, "How many more tokens a second each system would have with the same plans if one cost were zero:"),
    freeTable(free, systems));
}

/** How much faster each system were if one cost were zero. */
function freeTable(free, systems) {
  const signed = (gain) => `${gain > -0.0005 ? "+" : "-"}${Math.abs(100 * gain).toFixed(1)}%`;
  const rows = free.map((name, i) => [name, ...systems.map(({ gains }) => signed(gains[i]))]);
  return table(["without", ...systems.map(({ label }) => label)], rows, [0]);
}

function memorySection({ classes, systems }) {
  const box = section("Memory of the fullest GPU of each stage");
  const end = 1.04 * Math.max(...systems.flatMap(({ limit, stages }) => [limit, ...stages.map((stage) => stage.reduce((sum, part) => sum + part, 0))]));
  add(box, legend([...classes.map((name, i) => [name, PALETTE[i]]), ["limit of a plan", "#bb2222"]]));
  const columns = make("div", { className: "columns" });
  for (const { label, limit, stages } of systems) {
    const rows = stages.map((stage, number) => {
      let sum = 0;
      const parts = stage.map((part, i) => [sum / end, (sum += part) / end, PALETTE[i], `${classes[i]}: ${part.toFixed(1)} GiB`]);
      parts.push([limit / end, limit / end + 0.008, "#bb2222", `limit: ${limit.toFixed(1)} GiB`]);
      return add(make("tr"), make("td", { className: "left" }, `stage ${number}`), add(make("td"), bar(parts)), make("td", {}, `${sum.toFixed(1)} GiB`));
    });
    add(columns, add(make("div"), make("h3", {}, label), add(make("table", { className: "stages" }), ...rows)));
  }
  return add(box, columns);
}

/** Columns of shares in groups, one a range of lengths. */
function lengthsSection({ detail, samples, shares, ends, tail }) {
  const narrow = window.innerWidth < 640, width = narrow ? 400 : 820, height = 240, left = 34, bottom = 34;
  const box = section("Lengths of the samples");
  const colours = { samples: "#4477aa", tokens: "#ccbb44", "forward FLOPs": "#aa3377" }, names = Object.keys(shares);
  const top = Math.max(...names.flatMap((name) => shares[name])), step = (width - left) / shares.samples.length, one = (0.84 * step) / names.length;
  const y = (share) => 14 + (1 - share / top) * (height - bottom - 14);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  for (const share of ticksOf(0, top, 4).filter((value) => value <= top))
    add(picture, drawn("line", { x1: left, x2: width, y1: y(share), y2: y(share), stroke: "#e2e2e2" }),
      drawn("text", { x: left - 5, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(100 * share)}%`));
  shares.samples.forEach((unused, bucket) => {
    const name = bucket >= ends.length ? `> ${ki(ends[ends.length - 1])}` : `≤ ${ki(ends[bucket])}`;
    names.forEach((of, i) => {
      const share = shares[of][bucket], x = left + (bucket + 0.08) * step + i * one;
      const column = drawn("rect", { x, y: y(share), width: one - 1, height: y(0) - y(share), fill: colours[of] });
      add(picture, add(column, drawn("title", {}, `${name}: ${percent(share)} of ${of}`)));
    });
    if (!narrow || bucket % 2 === 0)
      add(picture, drawn("text", { x: left + (bucket + 0.5) * step, y: height - 16, "text-anchor": "middle" }, name));
  });
  add(picture, drawn("text", { x: left + (width - left) / 2, y: height - 2, "text-anchor": "middle" }, "tokens of a sample"));
  return add(box, make("p", {}, `The longest ${percent(tail[0])} of the samples, from ${count(tail[3])} tokens on, have ${percent(tail[1])} of the tokens ` +
    `and ${percent(tail[2])} of the FLOPs.`), make("p", { className: "small" }, `${count(samples)} samples: ${detail}`),
  legend(names.map((name) => [`% of ${name}`, colours[name]])), picture);
}

/** Round numbers between two others. */
function ticksOf(low, high, n) {
  const raw = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) ticks.push(i * step);
  return ticks;
}

/** An axis of numbers, or of texts or few swept numbers, which have equal distances. */
function axisOf(values, swept = false) {
  const found = [...new Set(values)].sort(compare);
  if (values.some((value) => typeof value === "string") || (swept && found.length <= CATEGORIES))
    return { of: (value) => (found.indexOf(value) + 0.5) / found.length, apart: 1 / found.length,
      ticks: found.map((value, i) => [(i + 0.5) / found.length, textOfCell(value)]) };
  let low = Math.min(...values), high = Math.max(...values);
  const pad = 0.05 * (high - low || Math.abs(high) || 1);
  [low, high] = [low - pad, high + pad];
  const share = (value) => (value - low) / (high - low);
  return { of: share, apart: 0, ticks: ticksOf(low, high, 5).map((value) => [share(value), count(Number(value.toPrecision(6)))]) };
}

/** A circle, square, diamond or triangle. */
function markOf(shape, x, y, size, look) {
  const corners = [null, [[-1, -1], [1, -1], [1, 1], [-1, 1]], [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]], [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]]][shape % 4];
  return corners === null ? drawn("circle", { cx: x, cy: y, r: size, ...look })
    : drawn("polygon", { points: corners.map((corner) => `${x + size * corner[0]},${y + size * corner[1]}`).join(" "), ...look });
}

/** Points over two axes. points: {x, y, colour, hollow, text, side, shape}. limit: a line across, at a y. xLimit: a line
 * upwards. swept: x is a swept key. lines: {points: [[x, y]], colour}. */
function scatter(points, xName, yName, { limit = null, xLimit = null, swept = false, lines = [] } = {}) {
  const narrow = window.innerWidth < 640, width = narrow ? 400 : 820, height = narrow ? 320 : 380, left = 76, right = 40, top = 22, bottom = 42;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "scatter" });
  if (points.length === 0) return make("p", {}, "No row has both columns.");
  const xAxis = axisOf([...points.map(({ x }) => x), ...(xLimit === null ? [] : [xLimit])], swept), yAxis = axisOf([...points.map(({ y }) => y), ...(limit === null ? [] : [limit])]);
  const x = (share) => left + share * (width - left - right), y = (share) => height - bottom - share * (height - top - bottom);
  const clip = (name, size) => (name.length > size ? `${name.slice(0, size - 1)}…` : name);
  const sparse = Math.ceil(xAxis.ticks.length / (narrow ? 4 : 9));
  xAxis.ticks.filter((tick, i) => i % sparse === 0).forEach(([at, name]) => add(picture,
    drawn("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, stroke: "#e8e8e8" }),
    drawn("text", { x: x(at), y: height - bottom + 16, "text-anchor": "middle" }, clip(name, 14))));
  yAxis.ticks.forEach(([at, name]) => add(picture, drawn("line", { x1: left, x2: width - right, y1: y(at), y2: y(at), stroke: "#e8e8e8" }),
    drawn("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, clip(name, 9))));
  if (limit !== null) add(picture, drawn("line", { x1: left, x2: width - right, y1: y(yAxis.of(limit)), y2: y(yAxis.of(limit)), stroke: "#bb2222", "stroke-dasharray": "5 3" }));
  if (xLimit !== null) add(picture, drawn("line", { x1: x(xAxis.of(xLimit)), x2: x(xAxis.of(xLimit)), y1: top, y2: height - bottom, stroke: "#bb2222", "stroke-dasharray": "5 3" }));
  for (const line of lines)
    add(picture, drawn("polyline", { points: line.points.map((at) => `${x(xAxis.of(at[0]))},${y(yAxis.of(at[1]))}`).join(" "), fill: "none", stroke: line.colour }));
  for (const point of points) {
    const look = point.hollow ? { fill: "none", stroke: point.colour } : { fill: point.colour, stroke: "#fff", "stroke-width": 0.6 };
    const mark = markOf(point.shape || 0, x(xAxis.of(point.x) + 0.6 * xAxis.apart * (point.side || 0)), y(yAxis.of(point.y)), point.large ? 7 : 4, look);
    mark.addEventListener("pointermove", (event) => showHover(point.text, event));
    mark.addEventListener("pointerleave", hideHover);
    picture.append(mark);
  }
  return add(picture, drawn("text", { x: width - right, y: height - 6, "text-anchor": "end" }, xName), drawn("text", { x: 4, y: 12 }, yName));
}

function plansSection({ labels, points, limit }) {
  const box = section("The plan search"), systems = [...new Set(points.map(([system]) => system))];
  const colour = (system) => PALETTE[systems.indexOf(system) % PALETTE.length];
  const resolved = points.filter((point) => point[3]).length;
  const marks = points.map(([system, time, peak, whole, verdict, plan]) => ({ x: time, y: peak, colour: colour(system), hollow: !whole, large: verdict === "chosen",
    text: `${labels[system]}: ${plan}\n${verdict}\n${whole ? "" : "at least "}${seconds(time)}, ${peak.toFixed(1)} GiB` }));
  marks.sort((a, b) => b.hollow - a.hollow || a.large - b.large);
  return add(box, make("p", { className: "small" }, `${points.length} plans as points, of which ${resolved} were simulated. Hollow points were excluded: their ` +
    "plans take at least this time and this memory. A large point is the chosen plan. The dashed line is the limit of the memory."),
  legend(systems.map((system) => [labels[system], colour(system)])), scatter(marks, "time of an iteration [s]", "peak [GiB]", { limit }));
}

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
}

function textOfCell(value, column = "") {
  if (value === null) return "–";
  if (typeof value !== "number") return value;
  const digits = DIGITS[column];
  return digits === undefined ? count(value) : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A table whose heads sort it. It begins sorted by a column, up (1) or down (-1). */
function sortedTable(columns, rows, first, up, mark) {
  const place = make("div"), left = columns.map((name, i) => i).filter((i) => rows.some((row) => typeof row[i] === "string"));
  let by = columns.indexOf(first), sign = up;
  const show = () => {
    const sorted = [...rows].sort((a, b) => (a[by] === null || b[by] === null ? compare(a[by], b[by]) : sign * compare(a[by], b[by])));
    const result = table(columns, sorted.slice(0, SHOWN_ROWS).map((row) => row.map((value, i) => textOfCell(value, columns[i]))), left, mark);
    result.querySelectorAll("th").forEach((head, i) => {
      const button = make("button", {}, columns[i] + (i === by ? (sign < 0 ? " ▼" : " ▲") : ""));
      button.onclick = () => {
        [by, sign] = [i, i === by ? -sign : typeof rows[0][i] === "number" ? -1 : 1];
        show();
      };
      head.replaceChildren(button);
    });
    result.className = "rows";
    place.replaceChildren(result);
  };
  show();
  return place;
}

function rowsSection({ columns, rows, points }) {
  const note = rows.length > SHOWN_ROWS ? ` The first ${SHOWN_ROWS} of the order are shown.` : "";
  return add(section("Rows"), make("p", { className: "small" }, `${points} points, ${rows.length} rows. A click on a head sorts.${note}`),
    sortedTable(columns, rows, "tokens/s/GPU", -1));
}

function chooser(columns, chosen, changed) {
  const list = make("select", { onchange: changed });
  columns.forEach((name, i) => list.append(make("option", { value: i, selected: i === chosen }, name)));
  return list;
}

function pointsSection({ columns, rows, swept }) {
  const box = section("Points over two columns"), place = make("div"), system = columns.indexOf("system");
  const many = swept.map((name, i) => i + 1).filter((i) => new Set(rows.map((row) => row[i])).size > 1 && columns[i] !== "seed");
  const show = () => {
    const [x, y, colour] = lists.map((list) => Number(list.value)), groups = [...new Set(rows.map((row) => row[colour]))];
    const marks = rows.filter((row) => row[x] !== null && row[y] !== null).map((row) => ({ x: row[x], y: row[y],
      side: groups.indexOf(row[colour]) / groups.length - 0.5 + 0.5 / groups.length,
      colour: PALETTE[groups.indexOf(row[colour]) % PALETTE.length], text: columns.map((name, i) => `${name}: ${textOfCell(row[i], name)}`).join("\n") }));
    place.replaceChildren(legend(groups.slice(0, 24).map((name, i) => [textOfCell(name, columns[colour]), PALETTE[i % PALETTE.length]])), scatter(marks, columns[x], columns[y], { swept: 1 <= x && x <= swept.length }));
  };
  const lists = [many.length > 0 ? many[0] : columns.indexOf("time [s]"), columns.indexOf("tokens/s/GPU"), system].map((chosen) => chooser(columns, chosen, show));
  show();
  const label = (text, list) => add(make("label"), `${text} `, list);
  return add(box, add(make("div", { className: "buttons" }), label("x", lists[0]), label("y", lists[1]), label("colour", lists[2])), place);
}

function scenariosSection({ scenarios, command, points }) {
  const box = section("The scenarios to run again"), place = make("div"), numbers = Object.keys(scenarios);
  const list = make("select", { onchange: () => place.replaceChildren(scenarioBox(scenarios[list.value])) });
  for (const number of numbers) list.append(make("option", { value: number }, `point ${number}`));
  if (numbers.length > 0) list.onchange();
  const note = numbers.length === 1 && points > 1 ? " The page holds one scenario, since all would be too large." : "";
  return add(box, make("p", { className: "small" }, `${command}.${note}`), list, place);
}

function listSection(title, lines) {
  return add(section(title), add(make("ul"), ...lines.map((line) => make("li", {}, line))));
}

function showRun(main, data) {
  add(main, rankingSection(data), data.time && timeSection(data.time), lanesSection(data.lanes), data.memory && memorySection(data.memory),
    data.lengths && lengthsSection(data.lengths), data.plans && plansSection(data.plans),
    listSection("Assumptions", data.assumptions),
    add(section("The scenario to run again"), scenarioBox(data.scenario)));
}

function showSweep(main, data) {
  add(main, ...verdictLines(data.verdict), pointsSection(data), rowsSection(data),
    data.failed.length > 0 ? add(section("Points without a result"), table(["point", "status", "message"], data.failed.map((row) => row.map(String)), [1, 2])) : null,
    data.excluded.length > 0 ? listSection("Excluded", data.excluded) : null, scenariosSection(data));
}

function showPage() {
  const data = JSON.parse(document.getElementById("data").textContent), main = document.querySelector("main");
  document.body.append(hoverBox);
  add(main, make("h1", {}, data.name), make("p", {}, data.setting), make("p", { className: "small lines" }, data.head));
  ({ run: showRun, sweep: showSweep, capacity: showCapacity })[data.kind](main, data);
}

showPage();

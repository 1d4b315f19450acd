// SPDX-License-Identifier: GPL-3.0-or-later
// This part of the page shows the data of report.py. All texts go through textContent, so none of them is markup.
"use strict";

const LIMIT = "var(--limit)", RULE = "var(--rule)", INK = "var(--ink)";
const SHOWN_ROWS = 500, CATEGORIES = 12;
const LINE = 1.2, LETTER = 6; // pixels: the width of a line, and of a letter of a name
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

function named(element, role, label) {
  element.setAttribute("role", role);
  element.setAttribute("aria-label", label);
  return element;
}

/** A box that scrolls, by keys too. */
function scroller(className, label, ...children) {
  return add(named(make("div", { className, tabIndex: 0 }), "region", label), ...children);
}

function section(title) {
  return add(make("section"), make("h2", {}, title));
}

function clip(name, size) {
  return name.length > size ? `${name.slice(0, size - 1)}…` : name;
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

/** Names with their colours; with a shape too, they have its mark. */
function legend(entries) {
  return add(make("ul", { className: "legend" }), ...entries.map(([name, colour, shape]) => {
    const swatch = make("span", { className: "swatch" });
    if (shape === undefined) swatch.style.background = colour;
    else {
      const mark = drawn("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" });
      swatch.append(add(mark, markOf(shape, 7, 7, 5, { style: `fill: ${colour}` })));
    }
    return add(make("li"), swatch, name);
  }));
}

/** A bar from one share of its width to another. Its numbers stand beside it, so it says nothing to a screen reader. */
function bar(parts) {
  const box = make("span", { className: "bar" });
  box.setAttribute("aria-hidden", "true");
  for (const [from, until, colour, title] of parts) {
    const part = make("i", { title });
    Object.assign(part.style, { left: `${100 * from}%`, width: `${100 * (until - from)}%`, background: colour });
    box.append(part);
  }
  return box;
}

const hoverBox = make("div", { className: "hover", hidden: true });
hoverBox.setAttribute("role", "status");

/** Show a text beside a place of the window: {clientX, clientY}. */
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

function captionOf(text) {
  return make("caption", { className: "unseen" }, text);
}

/** A row of a table whose first cell names it. `left`: the columns that are no numbers. */
function rowOf(cells, left, className = "") {
  return add(make("tr", { className }), ...cells.map((cell, i) => add(i === 0 && cell !== "" ? make("th", { scope: "row", className: left.includes(0) ? "left" : "" })
    : make("td", { className: left.includes(i) ? "left" : "" }), cell)));
}

function headOf(columns, left) {
  return add(make("thead"), add(make("tr"), ...columns.map((text, i) => make("th", { scope: "col", className: left.includes(i) ? "left" : "" }, text))));
}

/** A table of texts. */
function table(caption, columns, rows, left, mark = () => "") {
  const body = rows.map((row) => rowOf(row, left, mark(row)));
  return scroller("wide", caption, add(make("table"), captionOf(caption), headOf(columns, left), add(make("tbody"), ...body)));
}

function scenarioBox(text) {
  const button = make("button", {}, "copy"), box = make("pre", { className: "scenario" }, text);
  button.onclick = () => {
    window.getSelection().selectAllChildren(box);
    button.textContent = document.execCommand("copy") ? "copied" : "selected: copy it with your keyboard";
  };
  box.tabIndex = 0;
  return add(make("div"), add(make("div", { className: "buttons" }), button), named(box, "region", "YAML to run again"));
}

/** One large number and up to three options: what a manager reads. */
function firstScreen({ title, number, beside = "", unit = "", lines, options }) {
  const large = add(make("p", { className: /[0-9]/.test(number) ? "number" : "number words" }, number), beside ? make("small", {}, ` ${beside}`) : null);
  const left = add(make("div"), title ? make("h2", {}, title) : make("h2", { className: "unseen" }, "Answer"), large,
    make("p", { className: "unit" }, unit), ...lines.map((line) => make("p", { className: options.length > 0 && options[0].lines.includes(line) ? "twice" : "" }, line)));
  const items = options.map((option) => add(make("li"), add(make("div", { className: "option" }), make("b", {}, option.name),
    add(make("span"), make("b", {}, option.number), ` ${[option.beside, option.unit].filter(Boolean).join(" ")}`)), ...option.lines.map((line) => make("div", {}, line))));
  return add(make("section", { className: "first" }), left, items.length > 0 ? add(named(make("ol", { className: "options" }), "list", "Options"), ...items) : null);
}

/** Sentences. Lines of a table, which have runs of spaces, keep them. */
function verdictSection(lines, ...children) {
  const box = section("The verdict in words");
  let rows = [];
  const flush = () => {
    if (rows.length > 0) box.append(scroller("columns", "Answers side by side", rows.join("\n")));
    rows = [];
  };
  for (const line of lines) {
    if (/ {2}/.test(line)) rows.push(line);
    else {
      flush();
      box.append(make("p", {}, line));
    }
  }
  flush();
  return add(box, ...children);
}

function rankingSection({ ranking }) {
  return add(section("The ranking"), table("Ranking of the systems", ranking.columns, ranking.rows, [0, ranking.columns.length - 1],
    (row) => (/^ ?1 /.test(row[0]) ? "best" : "")), make("p", { className: "small lines" }, ranking.note));
}

/** A waterfall a system: each loss begins where the one above it ends. A negative share goes back up. */
function timeSection({ missing, names, colours, mfu_colour, free, systems }) {
  const box = section("Where the GPUs' time goes, from peak to MFU");
  if (missing) return add(box, make("p", {}, missing));
  const falls = systems.map(({ label, mfu, shares }) => {
    let end = 1;
    const rows = shares.map((share, loss) => {
      const part = [Math.min(end - share, end), Math.max(end - share, end), colours[loss], percent(share)];
      end -= share;
      return rowOf([names[loss], percent(share), bar([part])], [0]);
    });
    rows.push(rowOf(["MFU", percent(mfu), bar([[0, mfu, mfu_colour, percent(mfu)]])], [0], "total"));
    const scale = add(make("span", { className: "ends" }), ...["0", "25%", "50%", "75%", "100%"].map((text) => make("span", {}, text)));
    const head = headOf(["loss", "share", ""], [0]);
    head.querySelector("th:last-child").append(make("span", { className: "unseen" }, "share of the GPUs' peak "), scale);
    return add(make("div"), make("h3", {}, label), add(make("table"), captionOf(`From peak to MFU: ${label}`), head, add(make("tbody"), ...rows)));
  });
  return add(box, make("p", { className: "small" }, "Shares of the GPUs' peak, means of the measured iterations. The losses and the MFU of a system add up to 100%."),
    add(make("div", { className: "falls" }), ...falls),
    make("p", { className: "small" }, "How many more tokens a second each system would have with the same plans if one cost were zero:"),
    freeTable(free, systems));
}

/** How much faster each system were if one cost were zero. */
function freeTable(free, systems) {
  const signed = (gain) => `${gain > -0.0005 ? "+" : "-"}${Math.abs(100 * gain).toFixed(1)}%`;
  const rows = free.map((name, i) => [name, ...systems.map(({ gains }) => signed(gains[i]))]);
  return table("Gains if one cost were zero", ["without", ...systems.map(({ label }) => label)], rows, [0]);
}

function memorySection({ classes, systems }) {
  const box = section("Memory of the fullest GPU of each stage");
  const end = 1.04 * Math.max(...systems.flatMap(({ limit, stages }) => [limit, ...stages.map((stage) => stage.reduce((sum, part) => sum + part, 0))]));
  add(box, legend([...classes.map((name, i) => [name, PALETTE[i]]), ["limit of a plan", LIMIT]]));
  const columns = make("div", { className: "memory" });
  for (const { label, limit, stages } of systems) {
    const rows = stages.map((stage, number) => {
      let sum = 0;
      const parts = stage.map((part, i) => [sum / end, (sum += part) / end, PALETTE[i], `${classes[i]}: ${part.toFixed(1)} GiB`]);
      parts.push([limit / end, limit / end + 0.012, LIMIT, `limit: ${limit.toFixed(1)} GiB`]);
      return rowOf([`stage ${number}`, bar(parts), `${sum.toFixed(1)} GiB`], [0]);
    });
    add(columns, add(make("div"), make("h3", {}, label), add(make("table", { className: "stages" }), captionOf(`Memory: ${label}`), ...rows)));
  }
  return add(box, columns);
}

/** Columns of shares in groups, one a range of lengths. */
function lengthsSection({ detail, samples, shares, ends, tail }) {
  const narrow = window.innerWidth < 640, width = narrow ? 400 : 820, height = 240, left = 34, bottom = 34;
  const box = section("Lengths of the samples");
  const colours = { samples: PALETTE[0], tokens: PALETTE[1], "forward FLOPs": PALETTE[2] }, names = Object.keys(shares);
  const top = Math.max(...names.flatMap((name) => shares[name])), step = (width - left) / shares.samples.length, one = (0.84 * step) / names.length;
  const y = (share) => 14 + (1 - share / top) * (height - bottom - 14);
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Shares by length: ${names.join(", ")}` });
  for (const share of ticksOf(0, top, 4).filter((value) => value <= top))
    add(picture, drawn("line", { x1: left, x2: width, y1: y(share), y2: y(share), style: `stroke: ${RULE}` }),
      drawn("text", { x: left - 5, y: y(share) + 4, "text-anchor": "end" }, `${Math.round(100 * share)}%`));
  shares.samples.forEach((unused, bucket) => {
    const name = bucket >= ends.length ? `> ${ki(ends[ends.length - 1])}` : `≤ ${ki(ends[bucket])}`;
    names.forEach((of, i) => {
      const share = shares[of][bucket], x = left + (bucket + 0.08) * step + i * one;
      const column = drawn("rect", { x, y: y(share), width: one - 1, height: y(0) - y(share), style: `fill: ${colours[of]}` });
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

/** An axis of numbers, or of categories at equal distances: texts, or few numbers if `few`. part: what is free at its ends. */
function axisOf(values, few = false, part = 0.05) {
  const found = [...new Set(values)].sort(compare);
  if (values.some((value) => typeof value === "string") || (few && found.length <= CATEGORIES))
    return { of: (value) => (found.indexOf(value) + 0.5) / found.length, ticks: found.map((value, i) => [(i + 0.5) / found.length, textOfCell(value)]) };
  let low = Math.min(...values), high = Math.max(...values);
  const pad = part * (high - low || Math.abs(high) || 1);
  [low, high] = [low - pad, high + pad];
  const share = (value) => (value - low) / (high - low);
  return { of: share, ticks: ticksOf(low, high, 5).map((value) => [share(value), count(Number(value.toPrecision(6)))]) };
}

/** A circle, square, diamond or triangle. */
function markOf(shape, x, y, size, look) {
  const corners = [null, [[-1, -1], [1, -1], [1, 1], [-1, 1]], [[0, -1.4], [1.4, 0], [0, 1.4], [-1.4, 0]], [[0, -1.3], [1.2, 0.9], [-1.2, 0.9]]][shape % 4];
  return corners === null ? drawn("circle", { cx: x, cy: y, r: size, ...look })
    : drawn("polygon", { points: corners.map((corner) => `${x + size * corner[0]},${y + size * corner[1]}`).join(" "), ...look });
}

/** Let arrows go from mark to mark of a picture. Each says its text as under the pointer. */
function walkable(picture, marks, label) {
  let at = -1;
  named(picture, "application", `${label}: ${marks.length} points. Arrow keys go from point to point.`);
  picture.setAttribute("tabindex", 0);
  const leave = () => {
    if (at >= 0) marks[at].mark.classList.remove("chosen");
    hideHover();
  };
  picture.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, Home: -marks.length, End: marks.length };
    if (event.key === "Escape") leave();
    if (!(event.key in steps)) return;
    event.preventDefault();
    leave();
    at = Math.max(0, Math.min(marks.length - 1, at + steps[event.key]));
    const { mark, text } = marks[at], box = mark.getBoundingClientRect();
    mark.classList.add("chosen");
    showHover(text, { clientX: box.right, clientY: box.bottom });
  });
  picture.addEventListener("blur", leave);
}

/** Names left of and below their marks, the large one's first, without those that would cover another one. */
function labelsOf(marks, left) {
  const taken = [];
  return marks.filter(({ point }) => point.label).sort((a, b) => Boolean(b.point.large) - Boolean(a.point.large) || a.y - b.y).flatMap(({ point, x, y }) => {
    const end = Math.max(x - 7, left + LETTER * point.label.length), begin = end - LETTER * point.label.length;
    if (taken.some((other) => Math.abs(y - other.y) < 14 && begin < other.end && other.begin < end)) return [];
    taken.push({ begin, end, y });
    return [drawn("text", { x: end, y: y + 15, "text-anchor": "end", class: "name" }, point.label)];
  });
}

/** A bar of an interval with its caps, if it is wider than a line. */
function intervalBar(x, high, low, colour) {
  if (low - high <= LINE) return null;
  return drawn("path", { d: `M${x - 3},${high}h6m-3,0V${low}m-3,0h6`, class: "interval", style: `fill: none; stroke: ${colour}; stroke-width: ${LINE}` });
}

/** Points over two axes. points: {x, y, colour, hollow, text, shape, label, half: of the interval of y, ink: its colour}.
 * limit: a line across, at a y. xLimit: a line upwards. categories: few numbers of x stand at equal distances.
 * lines: {points: [[x, y]], colour}. pads: what is free at the ends of both axes. */
function scatter(points, xName, yName, { limit = null, xLimit = null, categories = false, lines = [], pads = [] } = {}) {
  const narrow = window.innerWidth < 640, width = narrow ? 400 : 820, height = narrow ? 320 : 380, left = 76, right = 40, top = 22, bottom = 42;
  const picture = drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "scatter" });
  if (points.length === 0) return make("p", {}, "No row has both columns.");
  const xAxis = axisOf([...points.map(({ x }) => x), ...(xLimit === null ? [] : [xLimit])], categories, pads[0]);
  const yAxis = axisOf([...points.flatMap(({ y, half }) => (half ? [y - half, y + half] : [y])), ...(limit === null ? [] : [limit])], false, pads[1]);
  const x = (share) => left + share * (width - left - right), y = (share) => height - bottom - share * (height - top - bottom);
  const line = (x1, x2, y1, y2, colour, dashes = "none") => drawn("line", { x1, x2, y1, y2, style: `stroke: ${colour}`, "stroke-dasharray": dashes });
  const sparse = Math.ceil(xAxis.ticks.length / (narrow ? 4 : 9));
  xAxis.ticks.filter((tick, i) => i % sparse === 0).forEach(([at, name]) => add(picture, line(x(at), x(at), top, height - bottom, RULE),
    drawn("text", { x: x(at), y: height - bottom + 16, "text-anchor": "middle" }, clip(name, 14))));
  yAxis.ticks.forEach(([at, name]) => add(picture, line(left, width - right, y(at), y(at), RULE),
    drawn("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, clip(name, 9))));
  if (limit !== null) add(picture, line(left, width - right, y(yAxis.of(limit)), y(yAxis.of(limit)), LIMIT, "5 3"));
  if (xLimit !== null) add(picture, line(x(xAxis.of(xLimit)), x(xAxis.of(xLimit)), top, height - bottom, LIMIT, "5 3"));
  for (const { points: joined, colour } of lines)
    add(picture, drawn("polyline", { points: joined.map((at) => `${x(xAxis.of(at[0]))},${y(yAxis.of(at[1]))}`).join(" "), style: `fill: none; stroke: ${colour}` }));
  for (const { x: at, y: value, half, ink = INK } of points.filter((point) => point.half))
    add(picture, intervalBar(x(xAxis.of(at)), y(yAxis.of(value + half)), y(yAxis.of(value - half)), ink));
  const marks = points.map((point) => {
    const look = { style: point.hollow ? `fill: none; stroke: ${point.colour}` : `fill: ${point.colour}` };
    const mark = markOf(point.shape || 0, x(xAxis.of(point.x)), y(yAxis.of(point.y)), point.large ? 8 : 4.5, look);
    mark.addEventListener("pointermove", (event) => showHover(point.text, event));
    mark.addEventListener("pointerleave", hideHover);
    picture.append(mark);
    return { mark, text: point.text, at: [xAxis.of(point.x), yAxis.of(point.y)], point, x: x(xAxis.of(point.x)), y: y(yAxis.of(point.y)) };
  });
  add(picture, ...labelsOf(marks, left));
  walkable(picture, marks.sort((a, b) => a.at[0] - b.at[0] || a.at[1] - b.at[1]), `${yName} over ${xName}`);
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
function sortedTable(caption, columns, rows, first, up, mark) {
  const place = scroller("rows", caption), left = columns.map((name, i) => i).filter((i) => rows.some((row) => typeof row[i] === "string"));
  let by = columns.indexOf(first), sign = up;
  const show = () => {
    const sorted = [...rows].sort((a, b) => (a[by] === null || b[by] === null ? compare(a[by], b[by]) : sign * compare(a[by], b[by])));
    const result = table(caption, columns, sorted.slice(0, SHOWN_ROWS).map((row) => row.map((value, i) => textOfCell(value, columns[i]))), left, mark);
    result.querySelectorAll("thead th").forEach((head, i) => {
      const button = make("button", {}, columns[i] + (i === by ? (sign < 0 ? " ▼" : " ▲") : ""));
      if (i === by) head.ariaSort = sign < 0 ? "descending" : "ascending";
      button.onclick = () => {
        [by, sign] = [i, i === by ? -sign : typeof rows[0][i] === "number" ? -1 : 1];
        show();
        place.querySelectorAll("th button")[i].focus();
      };
      head.replaceChildren(button);
    });
    place.replaceChildren(result.firstChild);
  };
  show();
  return place;
}

function rowsSection({ columns, rows, points }) {
  const note = rows.length > SHOWN_ROWS ? ` The first ${SHOWN_ROWS} of the order are shown.` : "";
  return add(section("Rows"), make("p", { className: "small" }, `${points} points, ${rows.length} rows. A button in its head sorts by a column.${note}`),
    sortedTable("Rows of all points", columns, rows, "tokens/s/GPU", -1));
}

function chooser(columns, chosen, changed) {
  const list = make("select", { ariaLabel: "point", onchange: changed });
  columns.forEach((name, i) => list.append(make("option", { value: i, selected: i === chosen }, name)));
  return list;
}

/** Points over two columns. Over a swept number, lines join rows that differ in it alone. */
function pointsSection({ columns, rows, swept }) {
  const box = section("Points over two columns"), place = make("div"), system = columns.indexOf("system");
  const many = swept.map((name, i) => i + 1).filter((i) => new Set(rows.map((row) => row[i])).size > 1 && columns[i] !== "seed");
  const show = () => {
    const [x, y, colour] = lists.map((list) => Number(list.value)), groups = [...new Set(rows.map((row) => row[colour]))], lines = new Map();
    const look = (row) => PALETTE[groups.indexOf(row[colour]) % PALETTE.length], isSwept = 1 <= x && x <= swept.length;
    const shown = rows.filter((row) => row[x] !== null && row[y] !== null).sort((a, b) => compare(a[x], b[x]));
    const marks = shown.map((row) => ({ x: row[x], y: row[y], shape: groups.indexOf(row[colour]), colour: look(row),
      text: columns.map((name, i) => `${name}: ${textOfCell(row[i], name)}`).join("\n") }));
    if (isSwept && shown.every((row) => typeof row[x] === "number"))
      for (const row of shown) {
        const others = JSON.stringify([row[system], ...swept.map((name, i) => (i + 1 === x ? null : row[i + 1]))]);
        if (!lines.has(others)) lines.set(others, { points: [], colour: look(row) });
        lines.get(others).points.push([row[x], row[y]]);
      }
    place.replaceChildren(legend(groups.slice(0, 24).map((name, i) => [textOfCell(name, columns[colour]), PALETTE[i % PALETTE.length], i])),
      scatter(marks, columns[x], columns[y], { categories: isSwept, lines: [...lines.values()] }));
  };
  const lists = [many.length > 0 ? many[0] : columns.indexOf("time [s]"), columns.indexOf("tokens/s/GPU"), system].map((chosen) => chooser(columns, chosen, show));
  show();
  const label = (text, list) => add(make("label"), `${text} `, list);
  return add(box, add(make("div", { className: "buttons" }), label("x", lists[0]), label("y", lists[1]), label("colour", lists[2])),
    make("p", { className: "small" }, "Lines join rows that differ in a swept number alone."), place);
}

function scenariosSection({ scenarios, command, points }) {
  const box = section("The scenarios to run again"), place = make("div"), numbers = Object.keys(scenarios);
  const list = make("select", { ariaLabel: "point", onchange: () => place.replaceChildren(scenarioBox(scenarios[list.value])) });
  for (const number of numbers) list.append(make("option", { value: number }, `point ${number}`));
  if (numbers.length > 0) list.onchange();
  const note = numbers.length === 1 && points > 1 ? " The page holds one scenario, since all would be too large." : "";
  return add(box, make("p", { className: "small" }, `${command}.${note}`), add(make("div", { className: "buttons" }), list), place);
}

function listSection(title, lines) {
  return add(section(title), add(make("ul"), ...lines.map((line) => make("li", {}, line))));
}

function showRun(main, data) {
  add(main, rankingSection(data), verdictSection(data.verdict), data.time && timeSection(data.time), lanesSection(data.lanes), data.memory && memorySection(data.memory),
    data.lengths && lengthsSection(data.lengths), data.plans && plansSection(data.plans),
    listSection("Assumptions", data.assumptions),
    add(section("The scenario to run again"), scenarioBox(data.scenario)));
}

function showSweep(main, data) {
  add(main, ...data.verdict.map((line) => make("p", {}, line)), pointsSection(data), rowsSection(data),
    data.failed.length > 0 ? add(section("Points without a result"), table("Points without a result", ["point", "status", "message"], data.failed.map((row) => row.map(String)), [1, 2])) : null,
    data.excluded.length > 0 ? listSection("Excluded", data.excluded) : null, scenariosSection(data));
}

/** Paper has no closed boxes. */
function openForPrint() {
  const closed = [...document.querySelectorAll("details:not([open])")];
  for (const box of closed) box.open = true;
  window.addEventListener("afterprint", () => closed.forEach((box) => { box.open = false; }), { once: true });
}

function showPage() {
  const data = JSON.parse(document.getElementById("data").textContent), main = document.querySelector("main");
  document.body.append(hoverBox);
  window.addEventListener("beforeprint", openForPrint);
  add(main, make("h1", {}, data.name), make("p", {}, data.setting), firstScreen(data.first), make("p", { className: "small lines" }, data.head));
  ({ run: showRun, sweep: showSweep, capacity: showCapacity })[data.kind](main, data);
}

showPage();

// SPDX-License-Identifier: GPL-3.0-or-later
// This part of the page draws the lanes of report_lanes.py on canvases: one a system, all on one axis of time.
"use strict";

const AXIS = 16, LONG = 64, NO_SPAN = 15, NO_UNIT = 0xffff;
const DIRECTIONS = ["forward", "backward", "gradients of weights"];

/** Decode base64 to an array of numbers. The bytes are little-endian, as all browsers' machines are. */
function unpack(text, Kind) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Kind(bytes.buffer);
}

const darkScreen = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;

function greyOf(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return { grey: red === green && green === blue ? red : null, light: 0.3 * red + 0.59 * green + 0.11 * blue > 140 };
}

/** A colour as the page shows it: on a dark screen pale greys are dark and dark ones are pale. */
function toned(colour) {
  const { grey } = greyOf(colour);
  return grey === null || printing || !darkScreen.matches ? colour : `#${Math.round(235 - 0.8 * grey).toString(16).padStart(2, "0").repeat(3)}`;
}

/** One system's lanes on a canvas. */
class Lanes {
  constructor(system, data, view) {
    Object.assign(this, { system, data, view });
    this.ends = unpack(system.ends, Float32Array);
    this.codes = unpack(system.codes, Uint8Array);
    this.unitOf = unpack(system.span_units, Uint16Array);
    this.first = [0];
    this.top = []; // of lanes, in GPUs; every phase begins at the top again
    this.rows = 0;
    let before = 0, below = 0;
    for (const [phase, , , gpus, n] of system.places) {
      if (phase !== before) [before, below] = [phase, 0];
      this.first.push(this.first[this.first.length - 1] + n);
      this.top.push(below);
      below += gpus;
      this.rows = Math.max(this.rows, below);
    }
    this.low = 0;
    this.high = this.rows;
    this.cross = false; // at the middle, whose span is named: the lanes are read by keys
    this.canvas = named(make("canvas", { tabIndex: 0 }), "application", `Lanes of ${system.label}. Left and right move in time, plus and minus ` +
      "zoom it; up and down move the lanes, with Shift they zoom them; Home or Escape shows all. The middle is named.");
    this.canvas.style.height = `${AXIS + Math.max(110, Math.min(420, 7 * this.top.filter((top, lane) => system.places[lane][0] === 0).length))}px`;
    this.listen();
  }

  /** Names and widths depend on the page's width. */
  resize() {
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    this.height = this.canvas.clientHeight - AXIS; // of the lanes
    this.gutter = this.width < 600 ? 30 : 78;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    this.context = this.canvas.getContext("2d");
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  x(time) {
    return this.gutter + ((time - this.view.from) / (this.view.until - this.view.from)) * (this.width - this.gutter);
  }

  timeAt(x) {
    return this.view.from + ((x - this.gutter) / (this.width - this.gutter)) * (this.view.until - this.view.from);
  }

  y(row) {
    return ((row - this.low) / (this.high - this.low)) * this.height;
  }

  /** The first span of a lane that ends after a time. */
  search(lane, time) {
    let low = this.first[lane], high = this.first[lane + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  colour(span) {
    const code = this.codes[span], what = code & 15, looks = this.data.looks;
    return this.tones.get(what === looks.compute ? looks.passes[code & LONG ? 1 : 0][(code >> 4) & 3 ? 1 : 0] : looks.what[what][1]);
  }

  draw() {
    const { context, system } = this;
    this.tones = new Map([...this.data.looks.what.map(([, colour]) => colour), ...this.data.looks.passes.flat()].map((colour) => [colour, toned(colour)]));
    context.clearRect(0, 0, this.width, this.height + AXIS);
    system.places.forEach((place, lane) => {
      const top = this.y(this.top[lane]), bottom = this.y(this.top[lane] + place[3]);
      if (bottom > 0 && top < this.height) this.drawLane(lane, top, bottom - top > 4 ? bottom - 1 : bottom);
    });
    context.clearRect(0, 0, this.gutter, this.height);
    context.clearRect(0, this.height, this.width, AXIS);
    this.drawNames();
    this.drawAxis();
    if (this.cross) {
      const [x, y] = this.middle();
      Object.assign(context, { strokeStyle: toned("#000000"), lineWidth: 2 });
      context.strokeRect(x - 6, y - 6, 12, 12);
    }
  }

  middle() {
    return [(this.gutter + this.width) / 2, this.height / 2];
  }

  drawAxis() {
    const { from, until } = this.view, times = ticksOf(from, until, this.width < 600 ? 4 : 8);
    const digits = Math.max(0, Math.ceil(-Math.log10(times.length > 1 ? times[1] - times[0] : 1)));
    for (const time of times) {
      this.context.fillStyle = toned("#888888");
      this.context.fillRect(this.x(time), this.height, 1, 3);
      this.write(`${time.toFixed(digits)} s`, Math.max(this.gutter + 10, Math.min(this.width - 14, this.x(time))), this.height + 10, "center", toned("#666666"));
    }
  }

  /** Spans narrower than half a pixel are drawn together. */
  drawLane(lane, top, bottom) {
    const { context } = this, last = this.first[lane + 1];
    let from = this.gutter, span = this.search(lane, this.view.from);
    for (; span < last && from < this.width; span++) {
      const until = Math.min(this.x(this.ends[span]), this.width);
      if (until - from < 0.5) continue;
      if ((this.codes[span] & 15) === NO_SPAN) {
        from = until;
        continue;
      }
      context.fillStyle = this.colour(span);
      context.fillRect(from, top, until - from - (until - from > 4 ? 0.6 : 0), bottom - top);
      if (until - from > 26 && bottom - top > 11 && this.unitOf[span] !== NO_UNIT)
        this.write(String(this.unitOf[span]), (from + until) / 2, (top + bottom) / 2, "center", greyOf(context.fillStyle).light ? "#111111" : "#ffffff");
      from = until;
    }
  }

  write(text, x, y, align, colour) {
    Object.assign(this.context, { font: "10px sans-serif", textAlign: align, textBaseline: "middle", fillStyle: colour });
    this.context.fillText(text, x, y);
  }

  /** The replicas, and their stages if there is room. */
  drawNames() {
    const blocks = new Map();
    this.system.places.forEach(([phase, pipeline, stage, gpus], lane) => {
      for (const name of phase > 0 ? [] : [`${pipeline}`, `${pipeline},${stage}`]) {
        const block = blocks.get(name) || { pipeline, stage, one: name.includes(","), top: this.top[lane] };
        blocks.set(name, Object.assign(block, { bottom: this.top[lane] + gpus }));
      }
    });
    const narrow = this.width < 600, free = [-99, -99];
    for (const block of blocks.values()) {
      const top = Math.max(0, this.y(block.top)), bottom = Math.min(this.height, this.y(block.bottom));
      const middle = Math.max(6, Math.min(this.height - 6, (top + bottom) / 2));
      if (bottom <= top || middle - free[+block.one] < 11 || (block.one && bottom - top < 10)) continue;
      free[+block.one] = middle;
      if (block.one) this.write(narrow ? "" : `s${block.stage}`, this.gutter - 4, middle, "right", toned("#666666"));
      else this.write(`${narrow ? "" : "replica "}${block.pipeline}`, 0, middle, "left", toned("#222222"));
    }
  }

  /** What stands under a point of the canvas, as text. */
  textAt(x, y) {
    const row = this.low + (y / this.height) * (this.high - this.low), time = this.timeAt(x);
    const lane = this.top.findIndex((top, i) => {
      const span = this.search(i, time);
      return top <= row && row < top + this.system.places[i][3] && span < this.first[i + 1] && (this.codes[span] & 15) !== NO_SPAN;
    });
    if (x < this.gutter || lane < 0) return "";
    const span = this.search(lane, time);
    const [phase, pipeline, stage, gpus, , contexts] = this.system.places[lane];
    const begin = span > this.first[lane] ? this.ends[span - 1] : 0, end = this.ends[span];
    const ranks = contexts.length > 1 ? `, CP ranks ${contexts[0]} to ${contexts[contexts.length - 1]}` : "";
    const phases = this.system.places.some((place) => place[0] > 0) ? `phase ${phase}, ` : "";
    return [`${this.system.label}: ${phases}replica ${pipeline}, stage ${stage}${ranks}, ${gpus} GPUs`, ...this.textOfSpan(span, phase, pipeline),
      `${begin.toFixed(4)} s to ${end.toFixed(4)} s: ${seconds(end - begin)}`].join("\n");
  }

  textOfSpan(span, phase, pipeline) {
    const code = this.codes[span], unit = this.unitOf[span], [what] = this.data.looks.what[code & 15];
    if (unit === NO_UNIT) return [what];
    const direction = (code >> 4) & 3;
    const entry = [direction, Math.min(direction, 1), 0].map((of) => this.system.micro_batches[[phase, pipeline, of, unit]]).find(Boolean);
    const lines = [`${what}: ${DIRECTIONS[direction]} of micro-batch ${unit}`];
    if (!entry) return lines;
    const slices = [];
    for (let i = 2; i < entry.length; i += 3) slices.push(entry.slice(i, i + 3));
    const tokens = slices.reduce((sum, [, begin, end]) => sum + end - begin, 0);
    lines[0] += `, ${count(tokens)} tokens`;
    if (entry[1] >= 0) lines.push("replicas share this merged micro-batch");
    slices.sort((a, b) => b[2] - b[1] - a[2] + a[1]);
    for (const [sample, begin, end] of slices.slice(0, 4)) {
      const whole = this.data.lengthOf[sample];
      const part = whole === undefined || end - begin === whole ? `${count(end - begin)} tokens` : `tokens ${count(begin)} to ${count(end)} of ${count(whole)}`;
      lines.push(`sample ${sample}: ${part}`);
    }
    if (slices.length > 4) lines.push(`and ${slices.length - 4} more samples`);
    return lines;
  }

  listen() {
    const { canvas, view } = this;
    let last = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const factor = Math.exp((event.deltaY || event.deltaX) * 0.0015), box = canvas.getBoundingClientRect();
      if (event.shiftKey) this.zoomRows(factor, event.clientY - box.top);
      else view.zoom(factor, this.timeAt(event.clientX - box.left));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.press(event));
    canvas.addEventListener("blur", () => this.leave());
    canvas.addEventListener("pointerdown", (event) => {
      this.leave();
      last = [event.clientX, event.clientY];
      canvas.setPointerCapture(event.pointerId);
      this.hover(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (last) {
        view.move(((last[0] - event.clientX) / (this.width - this.gutter)) * (view.until - view.from));
        this.moveRows(((last[1] - event.clientY) / this.height) * (this.high - this.low));
        last = [event.clientX, event.clientY];
      }
      this.hover(event);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = null; });
    canvas.addEventListener("pointerleave", () => hideHover());
    canvas.addEventListener("dblclick", () => view.reset());
  }

  press(event) {
    const { view } = this, time = (view.from + view.until) / 2, [x, y] = this.middle(), rows = this.high - this.low;
    const along = (sign) => view.move((sign * (view.until - view.from)) / 8), zoom = (factor) => view.zoom(factor, time);
    const across = (sign) => (event.shiftKey ? this.zoomRows(sign > 0 ? 1.4 : 1 / 1.4, y) : this.moveRows((sign * rows) / 8));
    const act = { ArrowLeft: () => along(-1), ArrowRight: () => along(1), ArrowUp: () => across(-1), ArrowDown: () => across(1), "+": () => zoom(0.7),
      "=": () => zoom(0.7), "-": () => zoom(1 / 0.7), Home: () => view.reset(), Escape: () => view.reset() }[event.key];
    if (!act || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    act();
    this.cross = !["Home", "Escape"].includes(event.key);
    const box = this.canvas.getBoundingClientRect();
    showHover(this.cross ? this.textAt(x, y) : "", { clientX: box.left + x, clientY: box.top + y });
  }

  leave() {
    this.cross = false;
    hideHover();
    this.view.redraw();
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    showHover(this.textAt(event.clientX - box.left, event.clientY - box.top), event);
  }

  zoomRows(factor, y) {
    const at = this.low + (y / this.height) * (this.high - this.low);
    const size = Math.min(this.rows, Math.max(Math.min(8, this.rows), (this.high - this.low) * factor));
    const share = (at - this.low) / (this.high - this.low);
    this.low = Math.max(0, Math.min(this.rows - size, at - share * size));
    this.high = this.low + size;
    this.view.redraw();
  }

  moveRows(by) {
    const size = this.high - this.low;
    this.low = Math.max(0, Math.min(this.rows - size, this.low + by));
    this.high = this.low + size;
    this.view.redraw();
  }
}

/** The part of the iteration that all canvases show. */
class View {
  constructor(end) {
    Object.assign(this, { end, from: 0, until: end, panels: [], waiting: false });
  }

  zoom(factor, at) {
    const size = Math.min(this.end, Math.max(this.end / 20000, (this.until - this.from) * factor));
    const share = (at - this.from) / (this.until - this.from);
    this.from = Math.max(0, Math.min(this.end - size, at - share * size));
    this.until = this.from + size;
    this.redraw();
  }

  move(by) {
    const size = this.until - this.from;
    this.from = Math.max(0, Math.min(this.end - size, this.from + by));
    this.until = this.from + size;
    this.redraw();
  }

  reset() {
    Object.assign(this, { from: 0, until: this.end });
    for (const panel of this.panels) Object.assign(panel, { low: 0, high: panel.rows });
    this.redraw();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    window.requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
      this.range.textContent = `${this.from.toFixed(3)} s to ${this.until.toFixed(3)} s`;
    });
  }

  draw() {
    for (const panel of this.panels) panel.draw();
  }

  resize() {
    for (const panel of this.panels) panel.resize();
    this.redraw();
  }
}

function lanesLegend(data) {
  const { looks } = data, [short, long] = looks.passes, kilo = `${Math.round(data.half / 1024)}Ki`;
  const entries = [["forward", short[0]], ["backward", short[1]]];
  if (data.systems.some((system) => unpack(system.codes, Uint8Array).some((code) => code & LONG)))
    entries.push([`forward of a sample over ${kilo} tokens (attention outweighs the rest)`, long[0]], ["its backward", long[1]]);
  const used = new Set(data.systems.flatMap((system) => [...new Set(unpack(system.codes, Uint8Array).map((code) => code & 15))]));
  looks.what.forEach(([name, colour], what) => {
    if (what !== looks.compute && used.has(what)) entries.push([name, toned(colour)]);
  });
  return legend(entries);
}

function lanesSection(data) {
  const box = section("What all GPUs do in one iteration");
  if (data.missing) return add(box, make("p", {}, data.missing));
  data.lengthOf = unpack(data.tokens, Uint32Array);
  const view = new View(Math.max(...data.systems.map((system) => system.time_s)));
  view.range = make("span", { className: "range" });
  view.range.setAttribute("role", "status");
  const names = add(make("div"), lanesLegend(data));
  const recolour = () => {
    names.replaceChildren(lanesLegend(data));
    view.draw();
  };
  const middle = () => (view.from + view.until) / 2;
  const buttons = add(make("div", { className: "buttons" }),
    make("button", { onclick: () => view.zoom(0.5, middle()) }, "zoom in"), make("button", { onclick: () => view.zoom(2, middle()) }, "zoom out"),
    make("button", { onclick: () => view.move(-(view.until - view.from) / 3) }, "← earlier"),
    make("button", { onclick: () => view.move((view.until - view.from) / 3) }, "later →"),
    make("button", { className: "reset", onclick: () => view.reset() }, "reset"), view.range);
  add(box, make("p", { className: "small" }, `Iteration ${data.iteration}, the measured one nearest to the means. A lane is a stage of a data-parallel ` +
    "replica, as high as its GPUs are many. Numbers are micro-batches." +
    (data.joined ? " All context-parallel ranks of a stage have the lane of the first." : "")),
  make("p", { className: "small scroll-help" }, "The wheel zooms time, with Shift the lanes; dragging moves; hovering names. " +
    "Keys do the same on a focused panel: arrows, + and -, Shift with up and down, Home or Escape."), names, buttons);
  for (const system of data.systems) {
    const panel = new Lanes(system, data, view);
    view.panels.push(panel);
    add(box, make("h3", {}, system.label + (system.fits ? `: ${system.time_s.toFixed(2)} s` : ", does not fit")), add(make("div", { className: "lanes" }), panel.canvas));
  }
  darkScreen.addEventListener("change", recolour);
  for (const [name, now] of [["beforeprint", true], ["afterprint", false]]) window.addEventListener(name, () => {
    printing = now;
    recolour();
  });
  window.addEventListener("resize", () => view.resize());
  window.requestAnimationFrame(() => view.resize());
  return box;
}

// Edits: gestures that select, a histogram, and actions on the selection. The server owns all state: the page sends
// requests, and shows the state that it receives.
// @ts-check
import { isTaken } from "./panel.js";

/** @typedef {[number, number]} Point */
/** @typedef {{gaussians: number, selected: number, hidden: number, undo: number, redo: number,
 *   saves_to: string, said: string}} EditState */
/** @typedef {{property: string, low: number, high: number, all: number[], selected: number[]}} Histogram */
/** @typedef {{width: number, height: number}} Look size of the frame, in the view request */

/** Most points of a line in a message, which has at most 8 kB. */
const MOST_POINTS = 300;
/** Least length of a drag, pixels of the page. */
const LEAST = 3;

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => /** @type {T} */ (document.getElementById(id));

/** Thins a line to the most points of a message, the last point included. @param {Point[]} points @returns {Point[]} */
function thinned(points) {
  const every = Math.max(1, Math.ceil(points.length / MOST_POINTS));
  return points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

/** Rounds to tenths of a pixel, which are enough. @param {number} v */
const tenth = (v) => Math.round(v * 10) / 10;

export class Edits {
  /** Effect of a drag: "" moves the camera. */
  tool = "";
  /** @type {Point[]} */ points = [];
  /** @type {number | null} */ pointer = null;
  /** True if there is something to edit. */ can = false;
  /** @type {Histogram | null} */ histogram = null;
  /** Ends of the range dragged over the histogram, 0 to 1. @type {Point | null} */ range = null;

  /**
   * @param {HTMLElement} view
   * @param {(message: unknown) => void} send
   * @param {() => Look} look the view request, of the full size
   */
  constructor(view, send, look) {
    this.view = view;
    this.tell = (/** @type {unknown} */ edit) => send({ type: "edit", edit });
    this.look = look;
    /** @type {HTMLCanvasElement} */ this.sketch = find("sketch");
    /** @type {HTMLCanvasElement} */ this.bars = find("bars");
    /** @type {HTMLInputElement} */ this.brush = find("brush");
    this.listenToSketch();
    this.listenToBars();
    this.listenToButtons();
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows the tools, or why there is nothing to edit. @param {boolean} can @param {string} why */
  allow(can, why) {
    find("edits").hidden = !can && why === "";
    find("edit-tools").hidden = !can;
    find("no-edits").hidden = can;
    find("no-edits").textContent = why === "" ? "" : `No edits: ${why}.`;
    this.can = can;
    if (!can) this.choose("");
  }

  /** @param {EditState} state */
  set(state) {
    const spaced = (/** @type {number} */ n) => `${n}`.replace(/\B(?=(\d{3})+$)/g, "\u202f");
    const hidden = state.hidden > 0 ? `, ${spaced(state.hidden)} hidden` : "";
    find("edit-told").textContent = `${spaced(state.selected)} of ${spaced(state.gaussians)} selected${hidden}`;
    find("edit-said").textContent = state.said;
    const ready = { "edit-undo": state.undo, "edit-redo": state.redo, "edit-save": state.undo, "edit-show": state.hidden };
    for (const [id, count] of Object.entries(ready)) {
      /** @type {HTMLButtonElement} */ (find(id)).disabled = count === 0;
    }
    for (const id of ["edit-delete", "edit-crop", "edit-hide", "edit-none"]) {
      /** @type {HTMLButtonElement} */ (find(id)).disabled = state.selected === 0;
    }
    find("edit-save").textContent = state.saves_to === "" ? "Save" : `Save as ${state.saves_to}`;
    find("edit-moves").textContent = state.selected > 0 ? "Moves what is selected" : "Moves all";
    this.view.dataset.edited = `${Number(this.view.dataset.edited ?? 0) + 1}`;
    this.askHistogram();
  }

  askHistogram() {
    const open = /** @type {HTMLDetailsElement} */ (find("histogram")).open;
    if (open) this.tell({ histogram: { property: /** @type {HTMLSelectElement} */ (find("property")).value } });
  }

  /** @param {string} tool */
  choose(tool) {
    this.tool = this.tool === tool ? "" : tool;
    this.sketch.hidden = this.tool === "";
    this.points = [];
    for (const button of document.querySelectorAll("#edit-tool button")) {
      button.setAttribute("aria-pressed", `${/** @type {HTMLElement} */ (button).dataset.tool === this.tool}`);
    }
    find("brush-row").hidden = this.tool !== "brush";
    this.draw();
  }

  /** Set operation of a gesture with the previous selection. @param {MouseEvent} event */
  mode(event) {
    if (event.shiftKey) return "add";
    if (event.altKey) return "subtract";
    return /** @type {HTMLSelectElement} */ (find("edit-how")).value;
  }

  listenToSketch() {
    const sketch = this.sketch;
    sketch.addEventListener("pointerdown", (event) => {
      // Other buttons move the camera, as without a tool.
      if (event.button !== 0 || this.tool === "" || this.pointer !== null) return;
      event.stopPropagation();
      this.view.focus();
      sketch.setPointerCapture(event.pointerId);
      this.pointer = event.pointerId;
      this.points = [this.at(event)];
      this.draw();
    });
    sketch.addEventListener("pointermove", (event) => {
      if (event.pointerId !== this.pointer) return;
      event.stopPropagation();
      this.points.push(this.at(event));
      this.draw();
    });
    sketch.addEventListener("pointerup", (event) => {
      if (event.pointerId !== this.pointer) return;
      event.stopPropagation();
      this.pointer = null;
      this.finish(this.mode(event));
    });
    sketch.addEventListener("pointercancel", () => {
      this.pointer = null;
      this.points = [];
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.view);
  }

  /** @param {PointerEvent} event @returns {Point} pixels of the view */
  at(event) {
    const box = this.view.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** Outline of a gesture, pixels of the view. @returns {Point[]} */
  outline() {
    const [first, last] = [this.points[0], this.points[this.points.length - 1]];
    if (this.tool === "box") return [first, [last[0], first[1]], last, [first[0], last[1]]];
    return this.points;
  }

  /** Sends a finished gesture to the server. @param {string} how */
  finish(how) {
    const outline = this.points.length > 0 ? this.outline() : [];
    this.points = [];
    this.draw();
    if (outline.length === 0) return;
    const look = this.look();
    // The frame is in the middle of the view, as large as fits.
    const [width, height] = [this.view.clientWidth, this.view.clientHeight];
    const size = Math.min(width / look.width, height / look.height);
    const [left, top] = [(width - look.width * size) / 2, (height - look.height * size) / 2];
    const points = thinned(outline).map(([x, y]) => [tenth((x - left) / size), tenth((y - top) / size)]);
    if (this.tool === "brush") {
      const radius = tenth(Number(this.brush.value) / size);
      this.tell({ select: { how, by: { stroke: { look, points, radius } } } });
      return;
    }
    const far = (/** @type {0 | 1} */ k) => Math.max(...outline.map((p) => p[k])) - Math.min(...outline.map((p) => p[k]));
    if (outline.length < 3 || far(0) < LEAST || far(1) < LEAST) {
      // A gesture this small is a click: it clears the selection.
      if (how === "new") this.tell("deselect");
      return;
    }
    this.tell({ select: { how, by: { polygon: { look, points } } } });
  }

  /** Draws the gesture so far. */
  draw() {
    const canvas = this.sketch;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = this.view.clientWidth * ratio;
    canvas.height = this.view.clientHeight * ratio;
    const context = canvas.getContext("2d");
    if (!context || this.points.length === 0) return;
    context.scale(ratio, ratio);
    const accent = getComputedStyle(this.view).getPropertyValue("--accent");
    context.beginPath();
    for (const point of this.outline()) context.lineTo(...point);
    context.lineJoin = "round";
    context.lineCap = "round";
    if (this.tool === "brush") {
      context.strokeStyle = accent;
      context.globalAlpha = 0.35;
      context.lineWidth = 2 * Number(this.brush.value);
      if (this.points.length === 1) context.lineTo(...this.points[0]);
      context.stroke();
      return;
    }
    context.closePath();
    context.fillStyle = accent;
    context.globalAlpha = 0.15;
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = accent;
    context.lineWidth = 1.5;
    context.stroke();
  }

  /** @param {Histogram} histogram */
  setHistogram(histogram) {
    this.histogram = histogram;
    const text = (/** @type {number} */ v) => Number(v.toPrecision(3)).toString();
    find("low").textContent = text(histogram.low);
    find("high").textContent = text(histogram.high);
    this.view.dataset.histogram = histogram.property;
    this.drawBars();
  }

  drawBars() {
    const [canvas, histogram] = [this.bars, this.histogram];
    const context = canvas.getContext("2d");
    if (!context || !histogram) return;
    const { width, height } = canvas;
    context.clearRect(0, 0, width, height);
    const style = getComputedStyle(canvas);
    // Square roots of the counts: small bins are visible next to large ones.
    const most = Math.sqrt(Math.max(1, ...histogram.all));
    const bars = (/** @type {number[]} */ counts, /** @type {string} */ colour) => {
      context.fillStyle = colour;
      counts.forEach((count, i) => {
        const high = count === 0 ? 0 : Math.max(1, (Math.sqrt(count) / most) * (height - 2));
        const [from, to] = [(i * width) / counts.length, ((i + 1) * width) / counts.length];
        context.fillRect(from, height - high, to - from - 0.5, high);
      });
    };
    bars(histogram.all, style.getPropertyValue("--dim"));
    bars(histogram.selected, "#ff7a00");
    if (this.range) {
      const [from, to] = this.range.map((v) => v * width);
      context.globalAlpha = 0.3;
      context.fillStyle = style.getPropertyValue("--accent");
      context.fillRect(Math.min(from, to), 0, Math.abs(to - from), height);
      context.globalAlpha = 1;
    }
  }

  listenToBars() {
    const bars = this.bars;
    const at = (/** @type {PointerEvent} */ event) => {
      const box = bars.getBoundingClientRect();
      return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    };
    bars.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      bars.setPointerCapture(event.pointerId);
      this.range = [at(event), at(event)];
    });
    bars.addEventListener("pointermove", (event) => {
      if (!this.range) return;
      this.range = [this.range[0], at(event)];
      this.drawBars();
    });
    bars.addEventListener("pointerup", (event) => {
      const [range, histogram] = [this.range, this.histogram];
      this.range = null;
      if (!range || !histogram) return;
      const [from, to] = [Math.min(...range), Math.max(...range)];
      const value = (/** @type {number} */ part) => histogram.low + part * (histogram.high - histogram.low);
      // The outermost bins also count values beyond them, so a range that ends there has no bound.
      if (from <= 0 && to >= 1) {
        this.tell({ select: { how: this.mode(event), by: "all" } });
        return;
      }
      const ends = { from: from <= 0 ? null : value(from), to: to >= 1 ? null : value(to) };
      this.tell({ select: { how: this.mode(event), by: { range: { property: histogram.property, ...ends } } } });
    });
  }

  listenToButtons() {
    for (const button of document.querySelectorAll("#edit-tool button")) {
      button.addEventListener("click", () => this.choose(/** @type {HTMLElement} */ (button).dataset.tool ?? ""));
    }
    for (const [id, edit] of Object.entries({
      "edit-all": { select: { how: "new", by: "all" } },
      "edit-invert": { select: { how: "toggle", by: "all" } },
      "edit-none": "deselect",
      "edit-delete": "delete",
      "edit-crop": "crop",
      "edit-hide": "hide",
      "edit-show": "show-all",
      "edit-undo": "undo",
      "edit-redo": "redo",
      "edit-save": "save",
    })) find(id).addEventListener("click", () => this.tell(edit));
    find("edit-apply").addEventListener("click", () => {
      const value = (/** @type {string} */ id) => Number(/** @type {HTMLInputElement} */ (find(id)).value) || 0;
      const three = (/** @type {string} */ id) => ["x", "y", "z"].map((axis) => value(`${id}-${axis}`));
      this.tell({ transform: { by: three("move"), degrees: three("turn"), factor: value("factor") } });
    });
    find("histogram").addEventListener("toggle", () => this.askHistogram());
    find("property").addEventListener("change", () => this.askHistogram());
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (!this.can || isTaken(event)) return;
    const key = event.key.toLowerCase();
    const click = (/** @type {string} */ id) => {
      event.preventDefault();
      find(id).click();
    };
    if (event.ctrlKey || event.metaKey) {
      if (key === "z") click(event.shiftKey ? "edit-redo" : "edit-undo");
      else if (key === "y") click("edit-redo");
      else if (key === "s") click("edit-save");
      return;
    }
    if (event.altKey) return;
    if (key === "b") this.choose("box");
    else if (key === "l") this.choose("lasso");
    else if (key === "o") this.choose("brush");
    else if (key === "i") click("edit-invert");
    else if (key === "h") click(event.shiftKey ? "edit-show" : "edit-hide");
    else if (key === "x" || key === "delete") click("edit-delete");
    else if (key === "escape") {
      if (this.tool !== "") this.choose("");
      else click("edit-none");
    }
  }
}

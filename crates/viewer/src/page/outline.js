// Outline of the region of interest, over the frame.
// @ts-check
import { add, dot, rowsOf, scale, sub } from "./vectors.js";

/** @typedef {import("./vectors.js").Vec} Vec */
/** @typedef {import("./vectors.js").Quat} Quat */
/** Size and camera of a frame, in its pixels. @typedef {{width: number, height: number, position: Vec, rotation: Quat,
 *   pinhole: [number, number, number, number]}} Framing */

/** Least depth of a projected point, in distances of the camera to the point. */
const NEAR = 1e-3;

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => /** @type {T} */ (document.getElementById(id));

/**
 * Returns the ends of a part of a line in pixels, cut where it passes the camera; null behind the camera.
 * @param {Framing} framing @param {Vec} from @param {Vec} to @returns {[number, number][] | null}
 */
export function projected(framing, from, to) {
  const rows = rowsOf(framing.rotation);
  /** @type {Vec[]} */
  const ends = [from, to].map((point) => {
    const away = sub(point, framing.position);
    return [dot(rows[0], away), dot(rows[1], away), dot(rows[2], away)];
  });
  const near = NEAR * Math.max(...ends.map((end) => Math.hypot(...end)));
  const [a, b] = ends;
  if (a[2] < near && b[2] < near) return null;
  const cut = add(a, scale(sub(b, a), (near - a[2]) / (b[2] - a[2] || 1)));
  const [fx, fy, cx, cy] = framing.pinhole;
  return ends.map((end) => {
    const [x, y, z] = end[2] < near ? cut : end;
    return [(fx * x) / z + cx, (fy * y) / z + cy];
  });
}

export class Outline {
  /** @type {HTMLCanvasElement} */ canvas = find("outline");
  /** @type {HTMLInputElement} */ toggle = find("outline-on");
  /** @type {Vec[][]} */ lines = [];
  /** @type {Framing | null} */ framing = null;

  /** @param {HTMLElement} view */
  constructor(view) {
    this.view = view;
    this.toggle.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(view);
  }

  /** @param {Vec[][]} lines polylines; none without a region */
  set(lines) {
    this.lines = lines;
    find("outline-row").hidden = lines.length === 0;
    this.draw();
  }

  /** Follows a frame; null if its camera is no pinhole, or if two frames are shown. @param {Framing | null} framing */
  follow(framing) {
    this.framing = framing;
    this.draw();
  }

  draw() {
    const { canvas, framing, view } = this;
    canvas.hidden = this.lines.length === 0 || !this.toggle.checked || framing === null;
    canvas.dataset.parts = "0";
    if (canvas.hidden || framing === null) return;
    const ratio = window.devicePixelRatio || 1;
    [canvas.width, canvas.height] = [view.clientWidth * ratio, view.clientHeight * ratio];
    const context = canvas.getContext("2d");
    if (!context) return;
    // Frames are centred in the view, as large as fits.
    const fit = Math.min(canvas.width / framing.width, canvas.height / framing.height);
    context.setTransform(
      fit, 0, 0, fit,
      (canvas.width - framing.width * fit) / 2, (canvas.height - framing.height * fit) / 2,
    );
    context.beginPath();
    context.rect(0, 0, framing.width, framing.height);
    context.clip();
    context.beginPath();
    let parts = 0;
    for (const line of this.lines) {
      line.slice(1).forEach((point, i) => {
        const ends = projected(framing, line[i], point);
        if (ends === null) return;
        context.moveTo(...ends[0]);
        context.lineTo(...ends[1]);
        parts += 1;
      });
    }
    context.strokeStyle = getComputedStyle(view).getPropertyValue("--accent");
    context.lineWidth = (1.5 * ratio) / fit;
    context.stroke();
    canvas.dataset.parts = `${parts}`;
  }
}

// Progress of a run: its steps, its time, its curves.
// @ts-check
import { Plot } from "./plots.js";

/** @typedef {{step: number, steps: number, loss: number, psnr: number | null, gaussians: number,
 *   steps_per_second: number, elapsed_seconds: number, eta_seconds: number | null,
 *   memory_bytes: number | null, paused: boolean, note: string | null, train_on: number | null}} Status */
/** @typedef {{loss: [number, number][], psnr: [number, number][], gaussians: [number, number][]}} Curves */

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => /** @type {T} */ (document.getElementById(id));

/** @param {number} n */
export function count(n) {
  if (n >= 999_500) return `${(n / 1e6).toFixed(2)} M`;
  return n >= 1000 ? `${(n / 1000).toFixed(0)} k` : `${n}`;
}

/** Seconds as 4:05 or 1:02:03. @param {number} seconds */
function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const two = (/** @type {number} */ n) => `${n}`.padStart(2, "0");
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export class Run {
  paused = false;
  /** Note about the end of the run, or empty. */
  ended = "";
  plots = {
    loss: new Plot(find("plot-loss"), "loss", (v) => v.toFixed(4)),
    psnr: new Plot(find("plot-psnr"), "PSNR, held out", (v) => `${v.toFixed(2)} dB`),
    gaussians: new Plot(find("plot-gaussians"), "Gaussians", count),
    speed: new Plot(find("plot-speed"), "steps a second", (v) => v.toFixed(1)),
    memory: new Plot(find("plot-memory"), "memory", (v) => `${(v / 2 ** 20).toFixed(0)} MiB`),
  };

  constructor() {
    // A phone shows the photos first.
    /** @type {HTMLDetailsElement} */ const curves = find("curves");
    curves.open = !matchMedia("(max-width: 760px)").matches;
    curves.addEventListener("toggle", () => Object.values(this.plots).forEach((plot) => plot.draw()));
  }

  /** Shows the curves of the run before this page, and where its parts begin. @param {Curves} curves @param {number[]} marks */
  begin(curves, marks) {
    for (const plot of Object.values(this.plots)) plot.marks = marks;
    this.plots.loss.seed(curves.loss);
    this.plots.psnr.seed(curves.psnr);
    this.plots.gaussians.seed(curves.gaussians);
  }

  /** @param {Status} status */
  set(status) {
    this.paused = status.paused;
    this.ended = status.note ?? "";
    const part = status.step / Math.max(1, status.steps);
    /** @type {HTMLProgressElement} */ (find("progress-bar")).value = part;
    find("pause").textContent = this.paused ? "Resume" : "Pause";
    const percent = `${Math.floor(100 * part)} %`;
    find("progress").textContent = `step ${status.step} of ${status.steps}, ${percent}${this.paused ? ", paused" : ""}`;
    const eta = status.eta_seconds === null ? "" : `, ETA ${clock(status.eta_seconds)}`;
    find("clock").textContent = `elapsed ${clock(status.elapsed_seconds)}${this.ended ? "" : eta}`;
    this.plots.loss.push(status.step, status.loss);
    this.plots.psnr.push(status.step, status.psnr);
    this.plots.gaussians.push(status.step, status.gaussians);
    this.plots.speed.push(status.step, this.paused ? null : status.steps_per_second);
    this.plots.memory.push(status.step, status.memory_bytes);
  }
}

// Draws Gaussians in a browser: with the engine's kernels in WebGPU, else with the formulas in WebGL2, which needs them
// sorted. Exported pages draw with it, and so does the viewer's page if the user selects it.
// @ts-check
import { dot, rowsOf } from "../vectors.js";
import { Renderer } from "./draw.js";
import { Sorter } from "./sorter.js";
import { EngineRenderer } from "./webgpu.js";

/** @typedef {import("../path.js").Key} Key */
/** @typedef {import("./spz.js").Gaussians} Gaussians */
/** Renderer, as named in a page's address: `?renderer=webgl2`. @typedef {"webgpu" | "webgl2"} Way */

/** Most pixels of an image: tiles are numbered in 16 bits. */
const MOST_PIXELS = 16e6;

/** Camera z of a position: an axis and an offset. @param {Key} key */
const depth = (key) => {
  const forward = rowsOf(key.rotation)[2];
  return [...forward, -dot(forward, key.position)];
};

export class Painter {
  /** Called when there is something new to draw: a new order, or enlarged buffers. */
  again = () => {};
  /** Called when the device is lost: the canvas gives no other context. @type {(why: string) => void} */
  lost = () => {};
  /** @type {HTMLCanvasElement} */ #canvas;
  /** @type {Renderer | EngineRenderer} */ #renderer;
  /** For WebGL2 only. @type {Sorter | null} */ #sorter = null;
  #fresh = false;
  /** Set while `picture` waits, first for its order. @type {((axis: number[]) => void) | null} */ #waiting = null;

  /**
   * @param {HTMLCanvasElement} canvas @param {{background: number[], near: number}} scene
   * @param {string | null | undefined} kernels of the engine, as JSON @param {string | null} wanted a [`Way`], or nothing
   */
  static async open(canvas, scene, kernels, wanted) {
    const { background, near } = scene;
    if (kernels && wanted !== "webgl2") {
      try {
        const asked = wanted === "webgpu";
        const made = await EngineRenderer.open(canvas, JSON.parse(kernels), background, near, asked);
        if (made) return new Painter(canvas, made);
      } catch (error) {
        console.warn(`WebGPU does not draw this scene: ${error instanceof Error ? error.message : error}`);
      }
    }
    return new Painter(canvas, new Renderer(canvas, background, near));
  }

  /** @param {HTMLCanvasElement} canvas @param {Renderer | EngineRenderer} renderer */
  constructor(canvas, renderer) {
    [this.#canvas, this.#renderer] = [canvas, renderer];
    if (renderer instanceof EngineRenderer) {
      renderer.again = () => this.again();
      renderer.lost = (why) => this.lost(why);
      return;
    }
    this.#sorter = new Sorter((order, axis) => {
      renderer.sorted(order);
      this.#fresh = order.length > 0;
      // `picture` waits for its own order, not for an earlier one.
      if (this.#waiting && order.length === renderer.count) this.#waiting(axis);
      this.again();
    });
  }

  /** @returns {Way} */
  get name() {
    return this.#sorter ? "webgl2" : "webgpu";
  }

  /** Number of Gaussians so far. */
  get count() {
    return this.#renderer.count;
  }

  /** True if there is something to draw and no render is pending. */
  get ready() {
    return this.#fresh && !this.#waiting;
  }

  /** Adds Gaussians; all have one SH degree. @param {Gaussians} part */
  add(part) {
    if (this.#sorter) this.#sorter.add(part.positions);
    else this.#fresh = true;
    this.#renderer.add(part);
  }

  /** Sorts again: called after the camera has moved or Gaussians were added. @param {Key} key */
  moved(key) {
    this.#sorter?.sort(depth(key));
  }

  /**
   * Sets the canvas size to its place on the page, at the screen's resolution. Returns true if it has changed.
   * @param {number} width @param {number} height
   */
  resize(width, height) {
    const sharp = Math.min(devicePixelRatio, 2, Math.sqrt(MOST_PIXELS / Math.max(width * height, 1)));
    const [across, down] = [width, height].map((side) => Math.max(1, Math.round(side * sharp)));
    if (this.#canvas.width === across && this.#canvas.height === down) return false;
    [this.#canvas.width, this.#canvas.height] = [across, down];
    return true;
  }

  /** @param {Key} key */
  draw(key) {
    this.#renderer.draw(key);
  }

  /**
   * Returns the bytes of an image of this size from the upper left corner: red, green, blue, 255. The canvas stays in
   * that size. Rejects if the device is lost.
   * @param {Key} key @param {number} width @param {number} height @returns {Promise<Uint8Array>}
   */
  async picture(key, width, height) {
    const drawn = this.#renderer;
    try {
      if (drawn instanceof Renderer) {
        await new Promise((done) => {
          this.#waiting = done;
          this.moved(key);
        });
      }
      this.#waiting = () => {};
      [this.#canvas.width, this.#canvas.height] = [width, height];
      return drawn instanceof Renderer ? (drawn.draw(key), drawn.pixels()) : await drawn.pixels(key);
    } finally {
      // Also if the device was lost during the render: the page continues, and the caller gets the error.
      this.#waiting = null;
    }
  }

  /** Releases the device: browsers allow few. */
  close() {
    [this.again, this.lost] = [() => {}, () => {}];
    this.#sorter?.close();
    this.#renderer.close();
  }
}

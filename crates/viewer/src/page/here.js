// Draws the splats in this browser with the renderer of exported pages, instead of requesting frames.
// 1. The server sends them packed, with the engine's kernels: `/drawn`.
// 2. The page may draw the colours of a free view. The engine renders everything else: main.js decides.
// 3. When the splats have changed, the engine's frames are shown until the new splats have arrived.
// @ts-check
import { Painter } from "./export/painter.js";
import { parse, unzip } from "./export/spz.js";

/** @typedef {import("./path.js").Key} Key */

/** Milliseconds without a change after which the splats are fetched again. */
const REST_MS = 300;

export class Here {
  /** @type {HTMLElement} */ #view;
  /** @type {HTMLElement} */ #under;
  /** @type {() => void} */ #again;
  /** @type {(text: string) => void} */ #say;
  #on = false;
  /** Renderer named in the page's address, if any. */ #wanted;
  /** @type {HTMLCanvasElement} */ #canvas = document.createElement("canvas");
  /** @type {Painter | null} */ #painter = null;
  /** Camera to draw; null: the engine's frame is shown. @type {Key | null} */ #key = null;
  #asked = false;
  /** Number of loads; only the newest one counts. */ #loads = 0;
  /** @type {number | undefined} */ #timer;

  /**
   * @param {HTMLElement} view @param {HTMLElement} under the element below the canvas
   * @param {() => void} again called when it can draw, or no longer can @param {(text: string) => void} say
   */
  constructor(view, under, again, say) {
    [this.#view, this.#under, this.#again, this.#say] = [view, under, again, say];
    this.#wanted = new URLSearchParams(location.search).get("renderer");
  }

  /** Renderer in use; empty without one. */
  get way() {
    return this.#painter?.name ?? "";
  }

  /** Switches drawing in this browser on or off. @param {boolean} on */
  set(on) {
    this.#on = on;
    this.#drop();
    if (on) this.#load();
    else this.#again();
  }

  /** Called when the splats have changed. */
  changed() {
    if (!this.#on) return;
    this.#drop();
    this.#timer = setTimeout(() => this.#load(), REST_MS);
  }

  /** Draws this view if possible; null: shows the engine's frame. @param {Key | null} key */
  show(key) {
    this.#key = this.#painter && key;
    this.#canvas.hidden ||= !this.#key;
    this.#view.dataset.drawn = this.#key ? this.way : "";
    if (!this.#painter || !this.#key) return false;
    this.#painter.resize(this.#view.clientWidth, this.#view.clientHeight);
    this.#painter.moved(this.#key);
    this.#frame();
    return true;
  }

  /** For programs that embed the page, as in exported pages: returns the bytes of an image. */
  async picture(/** @type {Key} */ key, /** @type {number} */ width, /** @type {number} */ height) {
    if (!this.#painter) throw new Error("the splats are not drawn here");
    try {
      return await this.#painter.picture(key, width, height);
    } finally {
      this.#again();
    }
  }

  #drop() {
    clearTimeout(this.#timer);
    this.#loads++;
    this.#painter?.close();
    this.#painter = null;
    this.#canvas.remove();
    this.show(null);
  }

  /** Draws once per frame of the browser, for any number of calls. */
  #frame() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      if (!this.#painter?.ready || !this.#key) return;
      this.#painter.draw(this.#key);
      this.#canvas.hidden = false;
    });
  }

  async #load() {
    const mine = ++this.#loads;
    const wanted = () => mine === this.#loads;
    // A canvas that has a context gives no other.
    const canvas = document.createElement("canvas");
    [canvas.id, canvas.hidden] = ["drawn", true];
    try {
      const answer = await fetch("/drawn");
      if (!answer.ok) throw new Error(await answer.text());
      const bytes = new Uint8Array(await answer.arrayBuffer());
      const head = 4 + new DataView(bytes.buffer).getUint32(0, true);
      const scene = JSON.parse(new TextDecoder().decode(bytes.subarray(4, head)));
      const part = parse(await unzip(bytes.subarray(head)));
      if (!wanted()) return;
      const painter = await Painter.open(canvas, scene, scene.kernels, this.#wanted);
      if (!wanted()) {
        painter.close();
        return;
      }
      painter.again = () => this.#frame();
      painter.lost = () => {
        this.#wanted = "webgl2";
        this.changed();
        this.#again();
      };
      painter.add(part);
      [this.#painter, this.#canvas] = [painter, canvas];
      this.#under.after(canvas);
    } catch (error) {
      if (wanted()) this.#say(`The splats cannot be drawn here: ${error instanceof Error ? error.message : error}`);
    }
    if (wanted()) this.#again();
  }
}

// The mesh beside or over the splats, drawn in this browser (export/mesh.js).
// @ts-check
import { MeshPainter } from "./export/mesh.js";

/** @typedef {import("./outline.js").Framing} Framing */
/** @typedef {import("./export/mesh.js").Style} Style */
/** @typedef {"off" | "over" | "slider" | "beside"} Place */

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => /** @type {T} */ (document.getElementById(id));

export class Surface {
  /** @type {HTMLCanvasElement} */ canvas = find("surface");
  /** @type {HTMLSelectElement} */ place = find("mesh");
  /** @type {HTMLSelectElement} */ style = find("mesh-style");
  /** @type {MeshPainter | null} */ painter = null;
  /** @type {Framing | null} */ framing = null;
  #loads = false;
  /** @type {() => void} */ #changed;
  /** @type {(text: string) => void} */ #say;

  /**
   * @param {HTMLElement} view @param {() => void} changed called when the mesh goes to another place
   * @param {(text: string) => void} say
   */
  constructor(view, changed, say) {
    [this.#changed, this.#say] = [changed, say];
    this.place.addEventListener("change", () => this.#placed());
    this.style.addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(view);
  }

  /** Where the mesh is shown. */
  get at() {
    return /** @type {Place} */ (this.offered ? this.place.value : "off");
  }

  /** True if there is a mesh. */
  get offered() {
    return !find("mesh-row").hidden;
  }

  /** @param {boolean} there */
  offer(there) {
    find("mesh-row").hidden = !there;
    if (!there) this.hide();
  }

  /** Shows the mesh in another place. @param {Place} place */
  put(place) {
    this.place.value = place;
    this.#placed();
  }

  /** Removes the mesh from the view. */
  hide() {
    if (this.place.value !== "off") this.put("off");
  }

  /** Follows a frame; null if its camera is no pinhole, or if two frames are shown. @param {Framing | null} framing */
  follow(framing) {
    this.framing = framing;
    this.draw();
  }

  #placed() {
    this.canvas.className = this.at;
    find("mesh-style-row").hidden = this.at === "off";
    this.#changed();
    this.draw();
    if (this.at !== "off" && !this.painter && !this.#loads) this.#load();
  }

  async #load() {
    this.#loads = true;
    this.#say("The mesh is loading.");
    try {
      const answer = await fetch("/mesh");
      if (!answer.ok) throw new Error(await answer.text());
      this.painter = await MeshPainter.open(this.canvas, new Uint8Array(await answer.arrayBuffer()));
      const errors = this.style.namedItem("mesh-errors");
      if (errors) errors.disabled = !this.painter.hasErrors;
      if (this.painter.hasErrors) this.painter.describe(find("mesh-scale"));
      this.#say("");
    } catch (error) {
      this.#say(`The mesh cannot be shown: ${error instanceof Error ? error.message : error}`);
    }
    this.#loads = false;
    this.draw();
  }

  draw() {
    const { canvas, framing, painter } = this;
    const style = /** @type {Style} */ (this.style.value);
    find("mesh-scale").hidden = this.at === "off" || style !== "errors" || painter === null;
    canvas.hidden = this.at === "off" || framing === null || painter === null;
    canvas.dataset.drawn = "";
    if (canvas.hidden || framing === null || painter === null) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio].map(Math.round);
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    painter.draw(framing, style);
    canvas.dataset.drawn = style;
  }
}

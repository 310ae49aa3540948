// Scale of counts and of errors, in the server's colours.
// @ts-check

/** Turbo's polynomials of red, green and blue, from the constant up. Equal to dapple_engine::score::TURBO. */
const TURBO = [
  [0.13572, 4.61539, -42.66032, 132.13108, -152.94239, 59.28638],
  [0.0914, 2.19419, 4.84297, -14.18503, 4.2773, 2.82957],
  [0.10667, 12.64195, -60.58205, 110.36277, -89.90311, 27.34825],
];

/** Draws the colours from the first to the last, left to right. @param {HTMLCanvasElement} canvas */
export function drawScale(canvas) {
  const context = canvas.getContext("2d");
  if (!context) return;
  for (let x = 0; x < canvas.width; x += 1) {
    const at = (x + 1) / canvas.width;
    const bytes = TURBO.map((c) => {
      const value = c.reduceRight((sum, each) => sum * at + each, 0);
      return Math.round(255 * Math.min(1, Math.max(0, value)));
    });
    context.fillStyle = `rgb(${bytes.join(" ")})`;
    context.fillRect(x, 0, 1, canvas.height);
  }
}

/** Colour scale of the shown frame, with the numbers at its ends. */
export class Scale {
  #find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

  constructor() {
    drawScale(/** @type {HTMLCanvasElement} */ (this.#find("scale-bar")));
  }

  /**
   * @param {number} most Gaussians of a pixel, 0 where counts are not shown
   * @param {string} channel the frame's channel @param {number} fullError the error of the last colour, of 1
   */
  show(most, channel, fullError) {
    const shows = most > 0 || channel === "error";
    this.#find("scale").hidden = !shows;
    if (!shows) return;
    const bytes = Math.round(255 * fullError);
    const ends = most > 0 ? ["1", `${most} Gaussians`] : ["error 0", `${bytes} of 255 or more`];
    ["scale-least", "scale-most"].forEach((id, i) => (this.#find(id).textContent = ends[i]));
  }
}

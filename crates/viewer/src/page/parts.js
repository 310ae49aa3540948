// Parts of a run that was trained on, and the field to train it on.
// @ts-check

/** @typedef {{after: number, steps: number, psnr: number | null, ssim: number | null, changes: string[]}} Part */

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => /** @type {T} */ (document.getElementById(id));

/** A number with spaces between thousands. @param {number} n */
export const spaced = (n) => `${n}`.replace(/\B(?=(\d{3})+$)/g, "\u202f");

/** Scores of a part, or the reason for none. @param {Part} part @param {boolean} isLast @param {boolean} trains */
function scores(part, isLast, trains) {
  if (part.psnr === null) return isLast && trains ? "not scored yet" : "not scored at its end";
  return `${part.psnr.toFixed(2)} dB${part.ssim === null ? "" : `, SSIM ${part.ssim.toFixed(4)}`}`;
}

/** @param {string} text @param {string} [kind] */
function line(text, kind = "") {
  const element = document.createElement("p");
  [element.textContent, element.className] = [text, kind];
  return element;
}

/** Steps after which a further part begins. @param {Part[]} parts */
export const beginnings = (parts) => parts.slice(1).map((part) => part.after);

/** Number of the part that a step belongs to, from 1; 0 for a run with one part. @param {Part[]} parts @param {number} step */
export const partOf = (parts, step) => parts.filter((part) => part.after < step).length;

/**
 * Shows the parts of a run, and what the present one does.
 * @param {Part[]} parts @param {string[]} plan @param {boolean} trains
 */
export function showParts(parts, plan, trains) {
  find("parts").hidden = parts.length === 0;
  find("parts-list").replaceChildren(...parts.map((part, i) => {
    const item = document.createElement("li");
    const last = i === parts.length - 1;
    item.append(
      line(`${i + 1}: steps ${spaced(part.after + 1)} to ${spaced(part.steps)}`, "part-steps"),
      line(scores(part, last, trains), "part-scores"),
      ...part.changes.map((change) => line(change)),
    );
    return item;
  }));
  find("plan").hidden = plan.length === 0;
  find("plan-lines").replaceChildren(...plan.map((text) => line(text.trim().replace(/\s{2,}/g, ": "))));
}

/**
 * Draws ticks at these fractions of a bar.
 * @param {string} id @param {number[]} fractions
 */
export function showTicks(id, fractions) {
  find(id).hidden = fractions.length === 0;
  find(id).replaceChildren(...fractions.map((at, i) => {
    const tick = document.createElement("span");
    tick.textContent = `${i + 2}`;
    tick.style.left = `${100 * at}%`;
    return tick;
  }));
}

/** Field and button that train a finished run on. */
export class TrainOn {
  /** @type {HTMLInputElement} */ #field = find("train-on-steps");
  /** @type {number | null} */ #offered = null;

  /** @param {(steps: number) => void} send */
  constructor(send) {
    find("train-on-form").addEventListener("submit", (event) => {
      event.preventDefault();
      send(this.#field.valueAsNumber);
    });
  }

  /** Offers a number of further steps; null while the run trains. @param {number | null} steps */
  offer(steps) {
    find("train-on").hidden = steps === null;
    find("run-buttons").hidden = steps !== null;
    // An entered number stays when the offer is repeated.
    if (steps !== null && steps !== this.#offered) this.#field.value = `${steps}`;
    this.#offered = steps;
  }
}

// Sorts Gaussians by depth, far ones first, in a thread of its own.
// @ts-check

/** Runs in a worker, which receives only the text of this function. */
function work() {
  const port = /** @type {any} */ (self);
  const positions = [/** @type {Float32Array} */ (new Float32Array(0))];
  let count = 0;
  let [keys, other] = [new Uint32Array(0), new Uint32Array(0)];
  let [order, swap] = [new Uint32Array(0), new Uint32Array(0)];

  /** Depths as integers in the same order: the bits of non-negative floats. @param {number[]} axis */
  function depths(axis) {
    const [x, y, z, rest] = axis;
    const floats = new Float32Array(keys.buffer, 0, count);
    let at = 0;
    for (const part of positions) {
      for (let i = 0; i < part.length; i += 3) {
        // Gaussians behind the camera are not drawn.
        floats[at++] = Math.max(x * part[i] + y * part[i + 1] + z * part[i + 2] + rest, 0);
      }
    }
  }

  /** Radix sort from the least significant digit, so that equal depths keep their order. */
  function sort() {
    for (let i = 0; i < count; i++) order[i] = i;
    for (const shift of [0, 11, 22]) {
      const places = new Uint32Array(2049);
      for (let i = 0; i < count; i++) places[((keys[i] >>> shift) & 2047) + 1]++;
      for (let digit = 0; digit < 2048; digit++) places[digit + 1] += places[digit];
      for (let i = 0; i < count; i++) {
        const to = places[(keys[i] >>> shift) & 2047]++;
        other[to] = keys[i];
        swap[to] = order[i];
      }
      [keys, other, order, swap] = [other, keys, swap, order];
    }
  }

  port.onmessage = (/** @type {MessageEvent} */ event) => {
    const { more, axis } = event.data;
    if (more) {
      positions.push(more);
      count += more.length / 3;
      [keys, other, order, swap] = [0, 0, 0, 0].map(() => new Uint32Array(count));
      return;
    }
    depths(axis);
    sort();
    // Among equal depths the first in the list is in front.
    const farFirst = order.slice().reverse();
    port.postMessage({ axis, order: farFirst }, [farFirst.buffer]);
  };
}

/** Sorts in a worker by the newest camera, one order at a time. */
export class Sorter {
  /** @type {number[] | null} */ #next = null;
  #busy = false;
  #worker;

  /** @param {(order: Uint32Array<ArrayBuffer>, axis: number[]) => void} sorted */
  constructor(sorted) {
    const text = new Blob([`(${work})()`], { type: "text/javascript" });
    this.#worker = new Worker(URL.createObjectURL(text));
    this.#worker.onmessage = ({ data }) => {
      this.#busy = false;
      sorted(data.order, data.axis);
      if (this.#next) this.sort(this.#next);
    };
  }

  /** Adds Gaussians. @param {Float32Array} positions */
  add(positions) {
    this.#worker.postMessage({ more: positions });
  }

  /** Sorts by camera z: the third row of the rotation and an offset. @param {number[]} axis */
  sort(axis) {
    this.#next = this.#busy ? axis : null;
    if (this.#busy) return;
    this.#busy = true;
    this.#worker.postMessage({ axis });
  }

  /** Ends the thread. */
  close() {
    this.#worker.terminate();
  }
}

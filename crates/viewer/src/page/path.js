// Path of cameras through keys. `dapple render --path FILE` renders the same curve.
// @ts-check

/** @typedef {import("./vectors.js").Vec} Vec */
/** @typedef {import("./vectors.js").Quat} Quat */
/** @typedef {{position: Vec, rotation: Quat, focal: number}} Key */

/** Default time between two keys, seconds. */
const SECONDS_A_KEY = 2;

/** Weights of four neighbours, `t` from the second to the third (Catmull and Rom, 1974). @param {number} t */
const weights = (t) => {
  const [t2, t3] = [t * t, t * t * t];
  return [
    0.5 * (-t3 + 2 * t2 - t),
    0.5 * (3 * t3 - 5 * t2 + 2),
    0.5 * (-3 * t3 + 4 * t2 + t),
    0.5 * (t3 - t2),
  ];
};

/** @param {Quat} a @param {Quat} b */
const dot4 = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];

export class Path {
  /** @type {Key[]} */ keys = [];
  closed = false;
  seconds = 0;

  /** @param {Key} key */
  add(key) {
    this.keys.push(structuredClone(key));
    this.seconds = SECONDS_A_KEY * Math.max(1, this.keys.length - (this.closed ? 0 : 1));
  }

  clear() {
    this.keys = [];
    this.seconds = 0;
  }

  /** Camera at `part` of the path, 0 to 1. @param {number} part @returns {Key | null} */
  at(part) {
    const count = this.keys.length;
    if (count === 0) return null;
    const gaps = this.closed ? count : Math.max(count, 2) - 1;
    const place = Math.min(Math.max(part, 0), 1) * gaps;
    const first = Math.min(Math.floor(place), gaps - 1);
    const index = (/** @type {number} */ offset) => {
      const i = first + offset;
      return this.closed ? ((i % count) + count) % count : Math.min(Math.max(i, 0), count - 1);
    };
    const near = [-1, 0, 1, 2].map((offset) => this.keys[index(offset)]);
    const w = weights(place - first);
    /** @type {Vec} */ const position = [0, 0, 0];
    /** @type {Quat} */ const rotation = [0, 0, 0, 0];
    let focal = 0;
    near.forEach((key, i) => {
      const sign = dot4(key.rotation, near[1].rotation) < 0 ? -1 : 1;
      for (let k = 0; k < 3; k++) position[k] += w[i] * key.position[k];
      for (let k = 0; k < 4; k++) rotation[k] += sign * w[i] * key.rotation[k];
      focal += w[i] * Math.log(key.focal);
    });
    const length = Math.sqrt(dot4(rotation, rotation)) || 1;
    return {
      position,
      rotation: /** @type {Quat} */ (rotation.map((v) => v / length)),
      focal: Math.exp(focal),
    };
  }

  /** Text of the path's file. */
  text() {
    const file = { dapple_path: 1, seconds: this.seconds, closed: this.closed, keys: this.keys };
    return JSON.stringify(file, null, 1);
  }

  /** @param {string} text */
  read(text) {
    const file = JSON.parse(text);
    if (file.dapple_path !== 1 || !Array.isArray(file.keys) || file.keys.length === 0) {
      throw new Error("this is no path of cameras that this page has saved");
    }
    this.keys = file.keys;
    this.seconds = file.seconds;
    this.closed = Boolean(file.closed);
  }
}

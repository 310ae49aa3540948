// Vectors of three numbers and quaternions [w, x, y, z], as arrays.
// @ts-check

/** @typedef {[number, number, number]} Vec */
/** @typedef {[number, number, number, number]} Quat */

/** @param {Vec} a @param {Vec} b @returns {Vec} */
export const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];

/** @param {Vec} a @param {Vec} b @returns {Vec} */
export const sub = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];

/** @param {Vec} a @param {number} s @returns {Vec} */
export const scale = (a, s) => [a[0] * s, a[1] * s, a[2] * s];

/** @param {Vec} a @param {Vec} b */
export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

/** @param {Vec} a @param {Vec} b @returns {Vec} */
export const cross = (a, b) => [
  a[1] * b[2] - a[2] * b[1],
  a[2] * b[0] - a[0] * b[2],
  a[0] * b[1] - a[1] * b[0],
];

/** @param {Vec} a */
export const length = (a) => Math.hypot(a[0], a[1], a[2]);

/** @param {Vec} a @returns {Vec} */
export const unit = (a) => scale(a, 1 / (length(a) || 1));

/**
 * Turns `v` by `angle` about the unit vector `axis` (Rodrigues).
 * @param {Vec} v @param {Vec} axis @param {number} angle @returns {Vec}
 */
export const turned = (v, axis, angle) => {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  return add(add(scale(v, c), scale(cross(axis, v), s)), scale(axis, dot(axis, v) * (1 - c)));
};

/**
 * The rotation from world to camera whose rows are right, down and forward.
 * @param {Vec} right @param {Vec} down @param {Vec} forward @returns {Quat}
 */
export const rotationOf = (right, down, forward) => {
  const [m00, m01, m02] = right;
  const [m10, m11, m12] = down;
  const [m20, m21, m22] = forward;
  const trace = m00 + m11 + m22;
  if (trace > 0) {
    const s = 2 * Math.sqrt(1 + trace);
    return [s / 4, (m21 - m12) / s, (m02 - m20) / s, (m10 - m01) / s];
  }
  if (m00 > m11 && m00 > m22) {
    const s = 2 * Math.sqrt(1 + m00 - m11 - m22);
    return [(m21 - m12) / s, s / 4, (m01 + m10) / s, (m02 + m20) / s];
  }
  if (m11 > m22) {
    const s = 2 * Math.sqrt(1 + m11 - m00 - m22);
    return [(m02 - m20) / s, (m01 + m10) / s, s / 4, (m12 + m21) / s];
  }
  const s = 2 * Math.sqrt(1 + m22 - m00 - m11);
  return [(m10 - m01) / s, (m02 + m20) / s, (m12 + m21) / s, s / 4];
};

/**
 * The rows of a rotation from world to camera: right, down, forward.
 * @param {Quat} q @returns {[Vec, Vec, Vec]}
 */
export const rowsOf = ([w, x, y, z]) => [
  [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
  [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
  [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
];

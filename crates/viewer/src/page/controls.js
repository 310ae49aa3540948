// Camera controlled by the user: it turns around a point, or flies.
// @ts-check
import { add, cross, dot, length, rotationOf, rowsOf, scale, sub, turned, unit } from "./vectors.js";

/** @typedef {import("./vectors.js").Vec} Vec */
/** @typedef {import("./vectors.js").Quat} Quat */

/** Turn of a drag over the whole width, radians. */
const TURN = Math.PI * 1.5;
/** Fraction of the distance per notch of the wheel. */
const ZOOM = 0.0015;
/** Fraction of the distance to the centre per second. */
const SPEED = 0.8;

export class Orbit {
  /** @type {Vec} */ up = [0, -1, 0];
  /** @type {Vec} */ centre = [0, 0, 0];
  /** @type {Vec} */ position = [0, 0, -4];
  /** @type {Vec} */ forward = [0, 0, 1];
  focal = 1;
  /** Distance of a position from the camera's bounds; 0 = within. @type {(place: Vec) => number} */
  outside = () => 0;

  /** @param {Vec} up @param {Vec} centre @param {number} distance */
  reset(up, centre, distance) {
    this.up = unit(up);
    this.centre = centre;
    const side = Math.abs(this.up[0]) < 0.9 ? /** @type {Vec} */ ([1, 0, 0]) : /** @type {Vec} */ ([0, 0, 1]);
    const level = unit(cross(side, this.up));
    this.position = add(centre, scale(unit(add(scale(level, -1), scale(this.up, 0.35))), distance));
    this.forward = unit(sub(centre, this.position));
    this.focal = 1;
  }

  /** Moves to a camera of the capture. @param {Vec} position @param {Quat} rotation @param {number} focal */
  stand(position, rotation, focal) {
    const distance = Math.max(length(sub(this.centre, position)), 1e-6);
    this.position = position;
    this.forward = unit(rowsOf(rotation)[2]);
    this.centre = add(position, scale(this.forward, distance));
    this.focal = focal;
  }

  /** @returns {[Vec, Vec, Vec]} right, down, forward */
  axes() {
    let right = cross(this.forward, this.up);
    if (length(right) < 1e-6) right = cross(this.forward, [1, 0, 0]);
    right = unit(right);
    return [right, cross(this.forward, right), this.forward];
  }

  /** Turns about the centre. @param {number} dx @param {number} dy of the width */
  orbit(dx, dy) {
    const arm = sub(this.position, this.centre);
    const round = turned(arm, this.up, -dx * TURN);
    const right = unit(cross(scale(round, -1), this.up));
    const over = turned(round, right, -dy * TURN);
    // The camera does not pass the pole: up stays up.
    const steepness = (/** @type {Vec} */ way) => Math.abs(dot(unit(way), this.up));
    const steep = steepness(over) > Math.max(0.995, steepness(arm));
    const across = add(this.centre, round);
    this.go(steep ? [across] : [add(this.centre, over), across, add(this.centre, turned(arm, right, -dy * TURN))]);
    this.forward = unit(sub(this.centre, this.position));
  }

  /** Turns about the camera's own position. @param {number} dx @param {number} dy */
  look(dx, dy) {
    const distance = length(sub(this.centre, this.position));
    const round = turned(this.forward, this.up, -dx * TURN);
    const right = unit(cross(round, this.up));
    const over = turned(round, right, -dy * TURN);
    this.forward = unit(Math.abs(dot(over, this.up)) > 0.995 ? round : over);
    this.centre = add(this.position, scale(this.forward, distance));
  }

  /** Moves the camera and its centre along the image plane. @param {number} dx @param {number} dy of the height */
  pan(dx, dy) {
    const [right, down] = this.axes();
    const reach = length(sub(this.centre, this.position)) / this.focal;
    const move = add(scale(right, -dx * reach), scale(down, -dy * reach));
    this.position = add(this.position, move);
    this.centre = add(this.centre, move);
  }

  /** @param {number} amount more than 0: nearer */
  zoom(amount) {
    const arm = sub(this.position, this.centre);
    this.go([add(this.centre, scale(arm, Math.exp(-amount)))]);
  }

  /** Moves to the first of these places that is no farther outside than the present one. @param {Vec[]} places */
  go(places) {
    const now = this.outside(this.position);
    this.position = places.find((place) => this.outside(place) <= now) ?? this.position;
  }

  /** Flies by the pressed keys. @param {Set<string>} keys @param {number} seconds */
  fly(keys, seconds) {
    const [right, down, forward] = this.axes();
    const reach = length(sub(this.centre, this.position)) * SPEED * seconds * (keys.has("shift") ? 4 : 1);
    /** @type {[string, Vec, number][]} */
    const ways = [
      ["w", forward, 1], ["s", forward, -1], ["d", right, 1],
      ["a", right, -1], ["e", down, -1], ["q", down, 1],
    ];
    for (const [key, axis, sign] of ways) {
      if (!keys.has(key)) continue;
      const move = scale(axis, sign * reach);
      this.position = add(this.position, move);
      this.centre = add(this.centre, move);
    }
  }

  /** @returns {{position: Vec, rotation: Quat, focal: number}} */
  camera() {
    return { position: this.position, rotation: rotationOf(...this.axes()), focal: this.focal };
  }
}

/**
 * Moves `orbit` by mouse, touch and keys over `element`; calls `moved` after each move.
 * @param {HTMLElement} element @param {Orbit} orbit @param {() => void} moved
 */
export function listen(element, orbit, moved) {
  /** @type {Map<number, {x: number, y: number}>} */
  const pointers = new Map();
  /** @type {Set<string>} */
  const keys = new Set();
  let last = 0;

  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    element.focus();
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    const [width, height] = [element.clientWidth, element.clientHeight];
    const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
    if (others.length > 0) {
      // Two fingers: apart is nearer, together along is along.
      const apart = (/** @type {{x: number, y: number}} */ at) => Math.hypot(at.x - others[0].x, at.y - others[0].y);
      const now = apart({ x: event.clientX, y: event.clientY });
      orbit.zoom(Math.log(Math.max(now, 1) / Math.max(apart(before), 1)));
      orbit.pan(dx / 2 / height, dy / 2 / height);
    } else if (event.shiftKey || event.buttons & 4) {
      orbit.pan(dx / height, dy / height);
    } else if (event.buttons & 2) {
      orbit.look(dx / width, dy / width);
    } else {
      orbit.orbit(dx / width, dy / width);
    }
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved();
  });
  const up = (/** @type {PointerEvent} */ event) => pointers.delete(event.pointerId);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("contextmenu", (event) => event.preventDefault());
  element.addEventListener("wheel", (event) => {
    event.preventDefault();
    orbit.zoom(-event.deltaY * ZOOM * (event.deltaMode === 1 ? 16 : 1));
    moved();
  }, { passive: false });

  const frame = (/** @type {number} */ now) => {
    const seconds = Math.min((now - last) / 1000, 0.1);
    last = now;
    if (![..."wasdqe"].some((key) => keys.has(key))) return;
    orbit.fly(keys, seconds);
    moved();
    requestAnimationFrame(frame);
  };
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    if (!"wasdqe".includes(key) && key !== "shift") return;
    const moves = [..."wasdqe"].some((k) => keys.has(k));
    keys.add(key);
    if (!moves && key !== "shift") {
      last = performance.now();
      requestAnimationFrame(frame);
    }
  });
  element.addEventListener("keyup", (event) => keys.delete(event.key.toLowerCase()));
  element.addEventListener("blur", () => keys.clear());
}

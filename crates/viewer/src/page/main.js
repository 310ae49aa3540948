// The page: requests frames of its camera's view, one at a time, and shows them.
// @ts-check
import { Orbit, listen } from "./controls.js";
import { Edits } from "./edit.js";
import { Here } from "./here.js";
import { Outline } from "./outline.js";
import { listenToPanel, listenToTyping } from "./panel.js";
import { TrainOn, beginnings, partOf, showParts, showTicks, spaced } from "./parts.js";
import { Path } from "./path.js";
import { Run, count } from "./run.js";
import { Scale } from "./scale.js";
import { Surface } from "./surface.js";

/** @typedef {import("./vectors.js").Vec} Vec */
/** @typedef {import("./vectors.js").Quat} Quat */
/** @typedef {{name: string, width: number, height: number, position: Vec, rotation: Quat, focal: number,
 *   pinhole: [number, number, number, number] | null, photo: boolean, held_out: boolean, psnr: number | null}} Camera */
/** @typedef {{title: string, gaussians: number, device: string, up: Vec, centre: Vec, distance: number,
 *   trains: boolean, settings: string, models: string[], snapshots: number[], steps: number,
 *   parts: import("./parts.js").Part[], outline: Vec[][], plan: string[], curves: import("./run.js").Curves,
 *   edits: boolean, no_edits: string, mesh: boolean, draws: boolean, no_draws: string, full_error: number,
 *   cameras: Camera[]}} Stage */

/** Time without a move after which a view is at rest, milliseconds. */
const REST_MS = 160;
/** Fraction of the full size, while moving. */
const MOVING_SIZE = 0.5;
/** The longest side of a requested frame, pixels. */
const MOST_PIXELS = 1920;

/** @template {HTMLElement} T @param {string} id @returns {T} */
const find = (id) => {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no ${id}`);
  return /** @type {T} */ (element);
};
const view = find("view");
/** @type {HTMLCanvasElement} */ const picture = find("picture");
/** @type {HTMLImageElement} */ const photo = find("photo");
/** @type {HTMLSelectElement} */ const show = find("show");
/** @type {HTMLSelectElement} */ const compare = find("compare");
/** @type {HTMLSelectElement} */ const sort = find("sort");
/** @type {HTMLCanvasElement} */ const other = find("other");
/** @type {HTMLSelectElement} */ const mode = find("mode");
/** @type {HTMLInputElement} */ const moment = find("moment");
/** @type {HTMLInputElement} */ const drawsHere = find("here");
/** @type {HTMLSelectElement} */ const gain = find("gain");
const notice = find("notice");
const divider = find("divider");

const orbit = new Orbit();
const path = new Path();
/** Time when the path began to play, milliseconds. @type {number | null} */ let playing = null;
/** @type {Stage | null} */ let stage = null;
/** Camera of the capture that the page looks through. @type {number | null} */ let through = null;
/** @type {WebSocket | null} */ let socket = null;
let look = 0;
let movedAt = -Infinity;
let over = false;
/** Step of the shown snapshot; null: the current splats. @type {number | null} */ let snapshot = null;
/** Frame that is being decoded. @type {Promise<void> | null} */ let decoding = null;
/** @type {number | undefined} */ let restTimer;
/** Times when view requests were sent, by number, milliseconds. @type {Map<number, number>} */ const sent = new Map();
/** Channels of view requests without a frame yet. @type {Map<number, string>} */ const kinds = new Map();
/** Cameras of these view requests. @type {Map<number, import("./outline.js").Framing | null>} */ const framings = new Map();

const edits = new Edits(
  view,
  (message) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  },
  () => ({ id: 0, ...looked(size(true), orbit.camera()) }),
);

const outline = new Outline(view);
const here = new Here(view, picture, askSoon, say);
const surface = new Surface(view, placeMesh, say);

const run = new Run();
const trainOn = new TrainOn((steps) => socket?.send(JSON.stringify({ type: "train-on", steps: steps || 0 })));
const scale = new Scale();

/** Selects the next option. @param {HTMLSelectElement} select */
function next(select) {
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  select.dispatchEvent(new Event("change"));
}

/** @param {string} text */
function say(text) {
  notice.textContent = text;
  notice.hidden = text === "";
}

/** Size of a frame: that of the view, or of the camera that the page looks through, within bounds. */
function size(resting = false) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const part = view.classList.contains("beside") ? 0.5 : 1;
  let [width, height] = [view.clientWidth * ratio * part, view.clientHeight * ratio];
  const camera = through === null ? null : stage?.cameras[through];
  if (camera) {
    const fit = Math.min(width / camera.width, height / camera.height);
    [width, height] = [camera.width * fit, camera.height * fit];
  }
  const moving = !resting && performance.now() - movedAt < REST_MS;
  const factor = Math.min(1, MOST_PIXELS / Math.max(width, height, 1)) * (moving ? MOVING_SIZE : 1);
  const side = (/** @type {number} */ v) => Math.max(16, Math.round(v * factor));
  return { width: side(width), height: side(height), moving };
}

/**
 * Requests a frame of the camera's present view. The server discards earlier view requests.
 * @param {import("./path.js").Key} camera
 */
function ask(camera = orbit.camera()) {
  if (!stage) return;
  // The engine renders lenses, other channels, two models and snapshots.
  const free = show.value === "rgb" && through === null && snapshot === null;
  if (here.show(free ? camera : null)) {
    const how = here.way === "webgpu" ? "WebGPU, by the engine's kernels" : "WebGL2";
    find("timing").textContent = `drawn in this browser (${how})`;
    follow(framing(size(), camera));
    if (!over && !run.ended) say("");
    return;
  }
  if (socket?.readyState !== WebSocket.OPEN) return;
  look = (look + 1) >>> 0;
  const asked = size();
  socket.send(JSON.stringify({ type: "look", id: look, ...looked(asked, camera) }));
  framings.set(look, framing(asked, camera));
  view.dataset.asked = `${look}`;
  sent.set(look, performance.now());
  kinds.set(look, show.value);
  if (sent.size > 200) [sent, kinds, framings].forEach((each) => each.clear());
}

/**
 * Fields of a view request.
 * @template T @param {T} size @param {import("./path.js").Key} camera
 */
function looked(size, camera) {
  return { ...size, ...camera, show: show.value, through, snapshot, models: models() };
}

/**
 * Camera of a frame of this size, in its pixels; null if no pinhole describes the camera, or for two frames.
 * @param {{width: number, height: number}} size @param {import("./path.js").Key} camera
 * @returns {import("./outline.js").Framing | null}
 */
function framing({ width, height }, { position, rotation, focal }) {
  if (models() === "both") return null;
  const photo = through === null ? null : stage?.cameras[through];
  if (!photo) {
    const far = focal * height;
    return { width, height, position, rotation, pinhole: [far, far, width / 2, height / 2] };
  }
  if (!photo.pinhole) return null;
  const [fx, fy, cx, cy] = photo.pinhole;
  const [x, y] = [width / photo.width, height / photo.height];
  return { width, height, position, rotation, pinhole: [fx * x, fy * y, cx * x, cy * y] };
}

/** Draws outline and mesh over a frame. @param {import("./outline.js").Framing | null} frame */
function follow(frame) {
  outline.follow(frame);
  surface.follow(frame);
}

/** Lays out the mesh in its new place. */
function placeMesh() {
  if (surface.at !== "off" && surface.at !== "over") compare.value = "off";
  layOut();
  askSoon();
}

/** Models in the view request: "first", "second" or "both". */
function models() {
  if (!stage || stage.models.length < 2) return "first";
  return mode.value === "first" || mode.value === "second" ? mode.value : "both";
}

/** Lays out one frame, or two that are compared. */
function layOut() {
  const both = models() === "both";
  view.classList.toggle("beside", (both && mode.value === "beside") || surface.at === "beside");
  other.className = both ? mode.value : "";
  other.hidden = !both;
  for (const [id, at] of /** @type {[string, number][]} */ ([["name-first", 0], ["name-second", 1]])) {
    find(id).hidden = !both || mode.value === "difference";
    find(id).textContent = stage?.models[at] ?? "";
  }
  showPhoto();
}

let asking = false;
/** Requests one frame per frame of the browser, for any number of calls. */
function askSoon() {
  if (asking) return;
  asking = true;
  requestAnimationFrame(() => {
    asking = false;
    ask();
  });
}

function moved() {
  playing = null;
  if (through !== null) leaveCamera();
  movedAt = performance.now();
  askSoon();
  clearTimeout(restTimer);
  restTimer = setTimeout(askSoon, REST_MS + 10);
}

function leaveCamera() {
  through = null;
  compare.value = "off";
  if (show.value === "error") show.value = "rgb";
  showPhoto();
  mark();
}

/** @param {number} index */
function lookThrough(index) {
  const camera = stage?.cameras[index];
  if (!camera) return;
  through = index;
  orbit.stand(camera.position, camera.rotation, camera.focal);
  showPhoto();
  mark();
  askSoon();
}

function showPhoto() {
  const camera = through === null ? null : stage?.cameras[through];
  const how = camera?.photo ? compare.value : "off";
  photo.hidden = how === "off";
  divider.hidden = how !== "slider" && surface.at !== "slider" && (other.hidden || mode.value !== "slider");
  photo.className = how;
  if (how !== "off") photo.src = `/photo/${through}`;
  const differs = how === "difference" || (!other.hidden && mode.value === "difference");
  find("gain-row").hidden = !differs;
  view.style.setProperty("--gain", differs ? gain.value : "1");
}

/** @param {MessageEvent} event */
async function receive(event) {
  if (typeof event.data === "string") {
    const message = JSON.parse(event.data);
    if (message.type === "stage") setStage(message);
    else if (message.type === "status") setStatus(message);
    else if (message.type === "edit") setEdit(message);
    else if (message.type === "histogram") edits.setHistogram(message);
    else if (message.type === "error") say([message.what, message.hint].filter(Boolean).join("\n"));
    return;
  }
  const id = new DataView(event.data).getUint32(0, true);
  // The next frame is rendered while this one is decoded. No further frame waits here.
  const before = decoding;
  const said = before === null;
  if (said) socket?.send(JSON.stringify({ type: "shown", id }));
  const mine = (before ?? Promise.resolve()).then(() => draw(event.data));
  decoding = mine;
  await mine;
  if (decoding === mine) decoding = null;
  if (!said) socket?.send(JSON.stringify({ type: "shown", id }));
}

/** Decodes the frames of a message and shows them. @param {ArrayBuffer} data */
async function draw(data) {
  const head = new DataView(data);
  const [id, width, height, rendering, coding, most, pictures, count] =
    Array.from({ length: 8 }, (_, i) => head.getUint32(4 * i, true));
  let begin = 4 * (8 + pictures * count);
  const bands = Array.from({ length: pictures * count }, (_, i) => {
    const bytes = new Uint8Array(data, begin, head.getUint32(4 * (8 + i), true));
    begin += bytes.length;
    return createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
  });
  const bitmaps = await Promise.all(bands);
  for (const [at, canvas] of [picture, other].slice(0, pictures).entries()) {
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    let row = 0;
    for (const bitmap of bitmaps.slice(at * count, (at + 1) * count)) {
      canvas.getContext("2d")?.drawImage(bitmap, 0, row);
      row += bitmap.height;
      bitmap.close();
    }
  }
  const asked = sent.get(id);
  sent.delete(id);
  const round = asked === undefined ? "" : `, ${(performance.now() - asked).toFixed(0)} ms from asking to showing`;
  find("timing").textContent =
    `${width}x${height}, rendered in ${((rendering + coding) / 1000).toFixed(1)} ms${round}`;
  scale.show(most, kinds.get(id) ?? "", stage?.full_error ?? 1);
  kinds.delete(id);
  // During a run, a view request has further frames.
  const frame = framings.get(id);
  if (frame !== undefined) follow(frame);
  framings.delete(id);
  picture.dataset.most = `${most}`;
  picture.dataset.look = `${id}`;
  if (!over && !run.ended) say("");
}

/** @param {Stage} next */
function setStage(next) {
  const first = stage?.title !== next.title;
  stage = next;
  document.title = `${next.title} - Dapple`;
  find("title").textContent = next.title;
  // With two models, each shows its own count.
  const size = next.models.length > 1 ? "" : `${count(next.gaussians)} Gaussians, `;
  find("facts").textContent = size + next.device;
  find("run").hidden = !next.trains;
  find("curves").hidden = !next.trains && next.curves.loss.length === 0;
  showParts(next.parts, next.plan, next.trains);
  outline.set(next.outline);
  surface.offer(next.mesh);
  run.begin(next.curves, beginnings(next.parts));
  const whole = next.parts.at(-1)?.steps ?? 1;
  showTicks("progress-ticks", beginnings(next.parts).map((step) => step / whole));
  find("cameras").hidden = next.cameras.length === 0;
  find("settings").hidden = next.settings === "";
  find("config").textContent = next.settings;
  find("models").hidden = next.models.length < 2;
  edits.allow(next.edits, next.no_edits);
  drawsHere.disabled = !next.draws;
  if (!next.draws) drawsHere.labels?.[0]?.setAttribute("title", next.no_draws);
  here.changed();
  layOut();
  tellTime();
  list();
  if (first) reset();
  else askSoon();
}

/** @param {import("./run.js").Status} status */
function setStatus(status) {
  run.set(status);
  trainOn.offer(status.train_on);
  if (stage) find("facts").textContent = `${count(status.gaussians)} Gaussians, ${stage.device}`;
  if (run.ended) say(run.ended);
}

/** @param {import("./edit.js").EditState} state */
function setEdit(state) {
  edits.set(state);
  here.changed();
  if (stage) find("facts").textContent = `${count(state.gaussians)} Gaussians, ${stage.device}`;
}

/** Sets up the time slider: a place for each snapshot, and one for the current splats. */
function tellTime() {
  const steps = stage?.snapshots ?? [];
  find("time").hidden = steps.length === 0;
  moment.max = `${steps.length}`;
  const at = snapshot === null ? -1 : steps.indexOf(snapshot);
  if (at < 0) snapshot = null;
  moment.value = `${at < 0 ? steps.length : at}`;
  const whole = stage?.steps ? ` of ${spaced(stage.steps)}` : "";
  const parts = stage?.parts ?? [];
  const part = snapshot !== null && parts.length > 0 ? `, part ${partOf(parts, snapshot)}` : "";
  find("moment-told").textContent = snapshot === null ? "now" : `step ${spaced(snapshot)}${whole}${part}`;
  // Between the snapshots before and after the beginning.
  const place = (/** @type {number} */ step) => steps.filter((each) => each <= step).length - 0.5;
  showTicks("moment-ticks", beginnings(parts).map((step) => Math.max(0, place(step)) / Math.max(1, steps.length)));
  view.dataset.snapshot = `${snapshot ?? "now"}`;
}

/** Shows a snapshot by its place, or beyond the last to the current splats. @param {number} place */
function travel(place) {
  const steps = stage?.snapshots ?? [];
  snapshot = steps[Math.max(0, place)] ?? null;
  tellTime();
  askSoon();
}

function list() {
  if (!stage) return;
  const cameras = stage.cameras.map((camera, index) => ({ camera, index }));
  if (sort.value === "worst") {
    const rank = (/** @type {Camera} */ c) => c.psnr ?? (c.held_out ? 998 : 999);
    cameras.sort((a, b) => rank(a.camera) - rank(b.camera) || a.index - b.index);
  }
  find("list").replaceChildren(...cameras.map(({ camera, index }) => {
    const button = document.createElement("button");
    const [name, score] = [document.createElement("span"), document.createElement("span")];
    name.textContent = camera.name;
    score.textContent = camera.psnr === null ? (camera.held_out ? "held out" : "") : `${camera.psnr.toFixed(2)} dB`;
    button.append(name, score);
    button.dataset.index = `${index}`;
    button.addEventListener("click", () => lookThrough(index));
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
  mark();
}

function mark() {
  const camera = through === null ? null : stage?.cameras[through];
  find("stepper").hidden = !stage?.cameras.length;
  find("photo-name").textContent = camera?.name ?? "Photos";
  for (const button of find("list").querySelectorAll("button")) {
    button.setAttribute("aria-current", `${button.dataset.index === `${through}`}`);
  }
}

function reset() {
  if (!stage) return;
  through = null;
  orbit.reset(stage.up, stage.centre, stage.distance);
  showPhoto();
  mark();
  if (stage.cameras.length > 0) lookThrough(0);
  else askSoon();
}

function tellPath() {
  const count = path.keys.length;
  find("keys-told").textContent = count === 0
    ? "Camera path: no keys yet"
    : `Camera path: ${count} ${count === 1 ? "key" : "keys"}, ${path.seconds.toFixed(0)} s`;
  for (const id of ["play", "clear", "path-save"]) {
    /** @type {HTMLButtonElement} */ (find(id)).disabled = count === 0;
  }
  /** @type {HTMLInputElement} */ (find("closed")).checked = path.closed;
}

/** Plays the path from its beginning; any move of the user ends it. */
function play() {
  if (path.keys.length === 0) return;
  if (through !== null) leaveCamera();
  playing = performance.now();
  const frame = (/** @type {number} */ now) => {
    if (playing === null) return;
    const part = Math.max(0, (now - playing) / 1000 / Math.max(path.seconds, 1e-3));
    const key = path.at(part);
    if (!key) return;
    orbit.stand(key.position, key.rotation, key.focal);
    movedAt = now;
    // The camera of the key, its tilt included.
    ask(key);
    if (part >= 1) {
      playing = null;
      clearTimeout(restTimer);
      restTimer = setTimeout(askSoon, REST_MS + 10);
    } else requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

function savePath() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([path.text()], { type: "application/json" }));
  link.download = "path.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Looks through the camera of a photo before or after the present one. @param {number} by */
function stepPhoto(by) {
  const cameras = stage?.cameras.length ?? 0;
  if (cameras) lookThrough(((through ?? (by > 0 ? -1 : 0)) + by + cameras) % cameras);
}

const pause = () => tell(run.paused ? "resume" : "pause");

/** @param {string} command */
const tell = (command) => socket?.send(JSON.stringify({ type: "run", command }));

function connect() {
  socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
  socket.binaryType = "arraybuffer";
  socket.addEventListener("open", () => {
    over = false;
    run.ended = "";
    say("");
    askSoon();
  });
  socket.addEventListener("message", receive);
  socket.addEventListener("close", () => {
    over = true;
    const why = run.ended || "The connection has ended: dapple has stopped, or too many pages are open.";
    say(`${why} This is the last picture.`);
    setTimeout(connect, 2000);
  });
}

show.addEventListener("change", () => {
  if (show.value === "error" && through === null && stage?.cameras.length) lookThrough(0);
  askSoon();
});
compare.addEventListener("change", () => {
  if (compare.value !== "off" && through === null && stage?.cameras.length) lookThrough(0);
  // With two models, one is compared with the photo.
  if (compare.value !== "off" && models() === "both") mode.value = "first";
  if (compare.value !== "off" && surface.at !== "over") surface.hide();
  layOut();
  askSoon();
});
mode.addEventListener("change", () => {
  compare.value = "off";
  layOut();
  askSoon();
});
drawsHere.addEventListener("change", () => here.set(drawsHere.checked));
moment.addEventListener("input", () => travel(Number(moment.value)));
sort.addEventListener("change", list);
find("reset").addEventListener("click", reset);
gain.addEventListener("change", showPhoto);
find("photo-before").addEventListener("click", () => stepPhoto(-1));
find("photo-next").addEventListener("click", () => stepPhoto(1));
find("photo-name").addEventListener("click", () => {
  showPanel(true);
  find("cameras").scrollIntoView({ block: "nearest" });
  /** @type {HTMLElement | null} */ (find("list").querySelector("[aria-current=true]"))?.scrollIntoView({ block: "nearest" });
});
find("pause").addEventListener("click", pause);
find("step").addEventListener("click", () => tell("step"));
find("save").addEventListener("click", () => tell("save"));
find("key").addEventListener("click", () => {
  path.add(orbit.camera());
  tellPath();
});
find("play").addEventListener("click", play);
find("clear").addEventListener("click", () => {
  path.clear();
  tellPath();
});
find("closed").addEventListener("change", (event) => {
  path.closed = /** @type {HTMLInputElement} */ (event.target).checked;
});
find("path-save").addEventListener("click", savePath);
/** @type {HTMLInputElement} */ const file = find("path-file");
find("path-load").addEventListener("click", () => file.click());
file.addEventListener("change", async () => {
  try {
    path.read(await (file.files?.[0]?.text() ?? ""));
    say("");
  } catch (error) {
    say(`The path cannot be read: ${error instanceof Error ? error.message : error}`);
  }
  file.value = "";
  tellPath();
});
find("path-photos").addEventListener("click", () => {
  const cameras = stage?.cameras ?? [];
  path.clear();
  // Enough keys for the route, not for every shake of the hand.
  const every = Math.max(1, Math.ceil(cameras.length / 24));
  cameras.filter((_, i) => i % every === 0).forEach((camera) => path.add(camera));
  path.keys = path.keys.map(({ position, rotation, focal }) => ({ position, rotation, focal }));
  tellPath();
});
/** @type {HTMLDialogElement} */ const help = find("help");
find("keys").addEventListener("click", () => help.showModal());
const showPanel = listenToPanel(view);
new ResizeObserver(askSoon).observe(view);
divider.addEventListener("pointerdown", (event) => {
  divider.setPointerCapture(event.pointerId);
  event.stopPropagation();
});
divider.addEventListener("pointermove", (event) => {
  if (event.buttons === 0) return;
  const box = view.getBoundingClientRect();
  const cut = Math.min(100, Math.max(0, (100 * (event.clientX - box.left)) / box.width));
  view.style.setProperty("--cut", `${cut}%`);
});
listenToTyping((key) => {
  if (key >= "1" && key <= String(show.options.length)) {
    show.selectedIndex = Number(key) - 1;
    show.dispatchEvent(new Event("change"));
  } else if (key === "k") find("key").click();
  else if (key === "p") play();
  else if (key === "r") reset();
  else if (key === "f") showPanel();
  else if (key === "c") next(compare);
  else if (key === "m" && stage && stage.models.length > 1) next(mode);
  else if (key === "v") drawsHere.click();
  else if (key === "t" && surface.offered) next(surface.place);
  else if (key === "[") travel(Number(moment.value) - 1);
  else if (key === "]") travel(Number(moment.value) + 1);
  else if (key === "?") help.showModal();
  else if (key === " ") pause();
  else if (key === ".") tell("step");
  else if (key === "ArrowRight") stepPhoto(1);
  else if (key === "ArrowLeft") stepPhoto(-1);
});
// As on exported pages, for programs that embed this one.
const embedded = { picture: here.picture.bind(here), camera: () => orbit.camera() };
Object.assign(globalThis, { dapple: embedded });
listen(view, orbit, moved);
connect();

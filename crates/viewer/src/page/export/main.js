// Page that shows a scene: its data are in the page, or in files next to it on a web server.
// @ts-check
import { Orbit, listen } from "../controls.js";
import { Path } from "../path.js";
import { MeshPainter } from "./mesh.js";
import { Painter } from "./painter.js";
import { parse, unzip } from "./spz.js";
import { dot, length, rowsOf, sub, unit } from "../vectors.js";

/** @typedef {import("../vectors.js").Vec} Vec */
/** @typedef {import("../path.js").Key} Key */
/** @typedef {{position: Vec, text: string, view?: Key}} Note */
/** @typedef {{centre: Vec, inward: boolean, places: Vec[], reach: number, far: number}} Bounds */
/**
 * @typedef {{title: string, up: Vec, centre: Vec, distance: number, background: Vec, near: number, gaussians: number,
 *   parts: (string | null)[], mesh: string | null, view: Key | null, bounds: Bounds | null, path: object | null, notes: Note[]}} Scene
 */

const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const canvas = /** @type {HTMLCanvasElement} */ (element("picture"));
/** @type {Scene} */
const scene = JSON.parse(element("scene").textContent ?? "");

/** Views of the mesh, and the text of the button. @type {[import("./mesh.js").Style, string][]} */
const MESH_VIEWS = [["colours", "Mesh"], ["edges", "Edges"], ["errors", "Distances"]];

/** Duration of a move to a note, seconds. */
const TRAVEL = 1.2;

const orbit = new Orbit();
orbit.outside = outside;
const path = new Path();
/** @type {Painter} */ let painter;
/** @type {Promise<MeshPainter> | null} */ let meshed = null;
/** @type {MeshPainter | null} */ let mesh = null;
/** How the mesh is shown; null: not at all. @type {import("./mesh.js").Style | null} */ let shown = null;
let stale = true;
/** @type {{from: number, seconds: number, again: boolean, along: Path} | null} */ let travel = null;

/** Distance of a position from the bounds of the photos' cameras; 0 = within. @param {Vec} place */
function outside(place) {
  const bounds = scene.bounds;
  if (!bounds) return 0;
  const arm = sub(place, bounds.centre);
  const beyond = Math.max(0, Math.log(length(arm) / bounds.far));
  if (!bounds.inward) {
    const nearest = Math.min(...bounds.places.map((other) => length(sub(other, place))));
    return beyond + Math.max(0, nearest / bounds.reach - 1);
  }
  const way = unit(arm);
  const nearest = Math.acos(Math.min(1, Math.max(...bounds.places.map((other) => dot(other, way)))));
  return beyond + Math.max(0, nearest - bounds.reach);
}

function home() {
  orbit.reset(scene.up, scene.centre, scene.distance);
  if (scene.view) orbit.stand(scene.view.position, scene.view.rotation, scene.view.focal);
}

/** @param {Key} key @param {Vec} place @returns {[number, number] | null} fractions of the image's width and height */
function project(key, place) {
  const rows = rowsOf(key.rotation);
  const [x, y, z] = rows.map((row) => dot(row, sub(place, key.position)));
  if (z <= 0) return null;
  const wide = canvas.clientWidth / canvas.clientHeight;
  return [0.5 + (key.focal * x) / z / wide, 0.5 + (key.focal * y) / z];
}

function moved() {
  stale = true;
  painter.moved(orbit.camera());
}

function resize() {
  stale = painter.resize(canvas.clientWidth, canvas.clientHeight) || stale;
}

/** @param {number} now */
function frame(now) {
  requestAnimationFrame(frame);
  if (travel) {
    const { from, seconds, again, along } = travel;
    const part = (now - from) / 1000 / seconds;
    // At its end it is at the end of the path, whatever happened between two frames.
    const key = along.at(again ? part % 1 : part);
    if (key) orbit.stand(key.position, key.rotation, key.focal);
    if (part >= 1 && !again) stop();
    moved();
  }
  if (!stale || !painter.ready) return;
  stale = false;
  painter.draw(orbit.camera());
  drawMesh();
  const poster = document.getElementById("poster");
  if (poster) poster.remove();
  place();
}

function drawMesh() {
  const surface = /** @type {HTMLCanvasElement} */ (element("surface"));
  surface.hidden = !shown || !mesh;
  element("mesh-scale").hidden = surface.hidden || shown !== "errors";
  if (!shown || !mesh) return;
  const { width, height } = canvas;
  if (surface.width !== width || surface.height !== height) [surface.width, surface.height] = [width, height];
  surface.style.background = shown === "edges" ? "" : `rgb(${scene.background.map((v) => 255 * v).join(" ")})`;
  const { position, rotation, focal } = orbit.camera();
  const far = focal * height;
  mesh.draw({ width, height, position, rotation, pinhole: [far, far, width / 2, height / 2] }, shown);
}

/** Shows the next view of the mesh, after the last no mesh. */
async function nextMesh() {
  meshed ??= data(scene.mesh, "mesh-data").then((bytes) => MeshPainter.open(/** @type {HTMLCanvasElement} */ (element("surface")), bytes));
  mesh ??= await meshed;
  const { hasErrors } = mesh;
  if (hasErrors) mesh.describe(element("mesh-scale"));
  const views = MESH_VIEWS.filter(([style]) => style !== "errors" || hasErrors);
  const next = views[views.findIndex(([style]) => style === shown) + 1];
  shown = next?.[0] ?? null;
  element("mesh").setAttribute("aria-pressed", String(shown !== null));
  element("mesh").textContent = next?.[1] ?? "Mesh";
  moved();
}

function prepareMesh() {
  const button = element("mesh");
  button.hidden = scene.mesh === null && !document.getElementById("mesh-data");
  button.addEventListener("click", () => nextMesh().catch(fail));
}

/** Moves the numbers of notes to their positions in the image. */
function place() {
  const key = orbit.camera();
  scene.notes.forEach((note, i) => {
    const mark = element(`note-${i}`);
    const at = project(key, note.position);
    const inside = at !== null && at[0] > 0 && at[0] < 1 && at[1] > 0 && at[1] < 1;
    mark.hidden = !inside;
    if (inside) [mark.style.left, mark.style.top] = [`${100 * at[0]}%`, `${100 * at[1]}%`];
  });
}

function stop() {
  travel = null;
  element("play").textContent = "▶ Path";
}

/** Starts a move along a path of cameras. @param {Path} along @param {number} seconds @param {boolean} again */
function go(along, seconds, again) {
  travel = { from: performance.now(), seconds, again, along };
}

/** @param {Note} note @param {HTMLElement} mark */
function visit(note, mark) {
  const open = element("note");
  const same = !open.hidden && open.textContent === note.text;
  open.hidden = same;
  open.textContent = note.text;
  for (const other of document.querySelectorAll("#notes button")) other.setAttribute("aria-pressed", "false");
  mark.setAttribute("aria-pressed", String(!same));
  if (same || !note.view) return;
  const there = new Path();
  there.add(orbit.camera());
  there.add(note.view);
  go(there, TRAVEL, false);
}

function prepareNotes() {
  scene.notes.forEach((note, i) => {
    const mark = document.createElement("button");
    [mark.id, mark.textContent, mark.title] = [`note-${i}`, String(i + 1), note.text];
    mark.addEventListener("click", () => visit(note, mark));
    element("notes").append(mark);
  });
}

function preparePath() {
  const button = element("play");
  button.hidden = !scene.path;
  if (scene.path) path.read(JSON.stringify(scene.path));
  button.addEventListener("click", () => {
    if (travel) return stop();
    go(path, path.seconds, path.closed);
    button.textContent = "■ Path";
  });
}

/** Returns the bytes of a file, or without one of an element. @param {string | null} url @param {string} id @returns {Promise<Uint8Array>} */
async function data(url, id) {
  if (url !== null) {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    return new Uint8Array(await answer.arrayBuffer());
  }
  const holder = element(id);
  const text = atob((holder.textContent ?? "").trim());
  holder.remove();
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

async function load() {
  const bar = element("progress");
  for (let i = 0; i < scene.parts.length; i++) {
    const part = parse(await unzip(await data(scene.parts[i], `part-${i}`)));
    painter.add(part);
    const share = painter.count / scene.gaussians;
    bar.style.width = `${100 * share}%`;
    moved();
  }
  bar.hidden = true;
}

/**
 * For programs that embed the page: `await dapple.picture(camera, width, height)` returns the bytes
 * of an image, `dapple.look(camera)` moves there, and `dapple.loaded` is a promise. `picture`
 * rejects if the device is lost.
 */
function offer(/** @type {Promise<void>} */ loaded) {
  const look = (/** @type {Key} */ key) => {
    stop();
    orbit.stand(key.position, key.rotation, key.focal);
    moved();
  };
  const picture = async (/** @type {Key} */ key, /** @type {number} */ width, /** @type {number} */ height) => {
    await loaded;
    try {
      return await painter.picture(key, width, height);
    } finally {
      resize();
      moved();
    }
  };
  Object.assign(globalThis, { dapple: { loaded, look, picture, camera: () => orbit.camera(), scene, renderer: painter.name } });
}

function start() {
  document.title = scene.title;
  element("title").textContent = scene.title;
  element("drawn").textContent =
    painter.name === "webgpu" ? "Drawn by the engine's kernels (WebGPU)." : "Drawn with WebGL2.";
  painter.again = () => (stale = true);
  // The canvas gives no other context: the page reloads with WebGL2.
  painter.lost = () => location.replace(`${location.pathname}?renderer=webgl2`);
  home();
  prepareNotes();
  preparePath();
  prepareMesh();
  listen(canvas, orbit, () => {
    stop();
    moved();
  });
  addEventListener("resize", resize);
  element("home").addEventListener("click", () => {
    stop();
    home();
    moved();
  });
  element("whole").addEventListener("click", () => {
    if (document.fullscreenElement) document.exitFullscreen();
    else document.documentElement.requestFullscreen();
  });
  const help = /** @type {HTMLDialogElement} */ (element("help"));
  element("ask").addEventListener("click", () => help.showModal());
  addEventListener("keydown", (event) => {
    if (event.key === "?") help.showModal();
    if (event.key === "r") element("home").click();
    if (event.key === "m" && !element("mesh").hidden) element("mesh").click();
  });
  resize();
  requestAnimationFrame(frame);
}

async function begin() {
  const wanted = new URLSearchParams(location.search).get("renderer");
  painter = await Painter.open(canvas, scene, document.getElementById("webgpu")?.textContent, wanted);
  start();
  const loaded = load();
  offer(loaded);
  await loaded;
}

begin().catch(fail);

/** @param {unknown} error */
function fail(error) {
  const told = element("wrong");
  told.hidden = false;
  told.textContent = `This scene cannot be shown: ${error instanceof Error ? error.message : error}`;
}

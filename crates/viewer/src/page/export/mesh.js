// Draws a mesh over the splats with WebGL2: its colours, its shape, its edges, or its errors.
// 1. The data (mesh.rs) are unpacked, and every triangle gets three vertices of its own, so that the shader has its
//    edges.
// 2. Edges hide what is behind the mesh: a first pass writes depths only.
// @ts-check
import { rowsOf } from "../vectors.js";
import { linked, uniforms } from "./draw.js";
import { unzip } from "./spz.js";

/** @typedef {import("../vectors.js").Vec} Vec */
/** @typedef {import("../vectors.js").Quat} Quat */
/** Size and camera of an image, in its pixels. @typedef {{width: number, height: number, position: Vec, rotation: Quat,
 *   pinhole: [number, number, number, number]}} Framed */
/** @typedef {"colours" | "shape" | "edges" | "errors"} Style */

/** @type {Style[]} */
const STYLES = ["colours", "shape", "edges", "errors"];

/** Colours of errors from 0 to the largest, evenly spread: red, green, blue from 0 to 1. @type {Vec[]} */
const RAMP = [[0.17, 0.35, 0.80], [0.20, 0.72, 0.45], [0.98, 0.85, 0.25], [0.85, 0.15, 0.15]];

/** Byte of an unknown error (mesh.rs). */
const UNKNOWN_ERROR = 255;

/** Floats of a vertex: position, place in the picture, error (of the largest; negative: unknown), colour. */
const VERTEX = 7;

const MESH_VERTICES = `#version 300 es
precision highp float;
uniform mat3 rotation;
uniform vec3 eye;
uniform vec4 pinhole;
uniform vec2 size;
uniform vec2 range;
in vec3 place;
in vec2 spot;
in float error;
in vec4 tint;
out vec2 where;
out vec3 colour;
out float wrong;
out vec3 seen;
out vec3 corner;

void main() {
  vec3 p = rotation * (place - eye);
  vec2 at = (pinhole.xy * p.xy + pinhole.zw * p.z) / size * 2.0 - p.z;
  float span = range.y - range.x;
  gl_Position = vec4(at.x, -at.y, ((range.y + range.x) * p.z - 2.0 * range.y * range.x) / span, p.z);
  seen = p;
  where = spot;
  colour = tint.rgb;
  wrong = error;
  int k = gl_VertexID % 3;
  corner = vec3(k == 0, k == 1, k == 2);
}`;

const MESH_PIXELS = `#version 300 es
precision highp float;
uniform int style;
uniform bool textured;
uniform bool tinted;
uniform sampler2D picture;
in vec2 where;
in vec3 colour;
in float wrong;
in vec3 seen;
in vec3 corner;
out vec4 shown;

const vec3 RAMP[STOPS] = vec3[](COLOURS);

vec3 ramp(float t) {
  float at = clamp(t, 0.0, 1.0) * float(STOPS - 1);
  int i = min(int(at), STOPS - 2);
  return mix(RAMP[i], RAMP[i + 1], at - float(i));
}

void main() {
  vec3 normal = normalize(cross(dFdx(seen), dFdy(seen)));
  float facing = abs(dot(normal, normalize(seen)));
  vec3 shape = vec3(0.12 + 0.78 * facing);
  vec3 texel = texture(picture, where).rgb;
  vec3 widths = fwidth(corner);
  if (style == 2) {
    vec3 away = smoothstep(vec3(0.0), 1.4 * widths, corner);
    float edge = 1.0 - min(away.x, min(away.y, away.z));
    if (edge < 0.03) discard;
    shown = vec4(vec3(0.37, 0.70, 0.98), 1.0) * edge;
    return;
  }
  if (style == 0) shape = textured ? texel : tinted ? colour : shape;
  if (style == 3) shape = (wrong < 0.0 ? vec3(0.55) : ramp(wrong)) * (0.45 + 0.55 * facing);
  shown = vec4(shape, 1.0);
}`.replaceAll("STOPS", String(RAMP.length)).replace("COLOURS", RAMP.map((rgb) => `vec3(${rgb.join(", ")})`).join(", "));

/**
 * Data of a mesh, with three vertices for each triangle.
 * @typedef {{triangles: number, vertices: Float32Array<ArrayBuffer>, centre: Vec, radius: number,
 *   errors: number | null, colours: boolean, repeats: boolean, picture: Blob | null}} Unpacked
 */

/** @param {Uint8Array} packed @returns {Promise<Unpacked>} */
async function unpackMesh(packed) {
  const bytes = await unzip(packed);
  const head = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(bytes.subarray(4, head)));
  let end = Math.ceil(head / 4) * 4;
  /** @param {number} words */
  const take = (words) => {
    const begin = end;
    end += 4 * words;
    if (end > bytes.length) throw new Error("the mesh ends in the middle of its data");
    return begin;
  };
  const count = about.vertices;
  const floats = (/** @type {number} */ words) => new Float32Array(bytes.buffer, take(words), words);
  const places = floats(3 * count);
  const spots = about.places ? floats(2 * count) : null;
  const errors = about.errors === null ? null : new Uint8Array(bytes.buffer, take(Math.ceil(count / 4)), count);
  const tints = about.colours ? new Uint32Array(bytes.buffer, take(count), count) : null;
  const indices = new Uint32Array(bytes.buffer, take(3 * about.triangles), 3 * about.triangles);
  const vertices = new Float32Array(VERTEX * indices.length);
  const words = new Uint32Array(vertices.buffer);
  const [low, high] = [[Infinity, Infinity, Infinity], [-Infinity, -Infinity, -Infinity]];
  indices.forEach((index, i) => {
    for (let k = 0; k < 3; k++) {
      const value = places[3 * index + k];
      vertices[VERTEX * i + k] = value;
      [low[k], high[k]] = [Math.min(low[k], value), Math.max(high[k], value)];
    }
    if (spots) [vertices[VERTEX * i + 3], vertices[VERTEX * i + 4]] = [spots[2 * index], spots[2 * index + 1]];
    const error = errors ? errors[index] : UNKNOWN_ERROR;
    vertices[VERTEX * i + 5] = error === UNKNOWN_ERROR ? -1 : error / (UNKNOWN_ERROR - 1);
    words[VERTEX * i + 6] = tints ? tints[index] : 0;
  });
  const centre = /** @type {Vec} */ (low.map((least, k) => (least + high[k]) / 2));
  const radius = Math.hypot(...low.map((least, k) => high[k] - least)) / 2;
  const picture = about.picture ? new Blob([bytes.subarray(end)], { type: about.picture }) : null;
  const repeats = spots?.some((v) => v < 0 || v > 1) ?? false;
  return { triangles: about.triangles, vertices, centre, radius, errors: about.errors, colours: tints !== null, repeats, picture };
}

export class MeshPainter {
  /** @type {WebGL2RenderingContext} */ #gl;
  /** @type {HTMLCanvasElement} */ #canvas;
  /** @type {Unpacked} */ #mesh;
  /** @type {WebGLProgram} */ #program;
  #places;
  #textured = false;

  /** @param {HTMLCanvasElement} canvas @param {Uint8Array} packed */
  static async open(canvas, packed) {
    const mesh = await unpackMesh(packed);
    const painter = new MeshPainter(canvas, mesh);
    if (mesh.picture) painter.#texture(await createImageBitmap(mesh.picture));
    return painter;
  }

  /** @param {HTMLCanvasElement} canvas @param {Unpacked} mesh */
  constructor(canvas, mesh) {
    const gl = canvas.getContext("webgl2", { alpha: true, antialias: true, depth: true, preserveDrawingBuffer: true });
    if (!gl) throw new Error("this browser has no WebGL2");
    [this.#gl, this.#canvas, this.#mesh] = [gl, canvas, mesh];
    this.#program = linked(gl, MESH_VERTICES, MESH_PIXELS);
    this.#places = uniforms(gl, this.#program);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, mesh.vertices, gl.STATIC_DRAW);
    const bytes = 4 * VERTEX;
    /** @type {[string, number, number, number][]} */
    const inputs = [["place", 3, gl.FLOAT, 0], ["spot", 2, gl.FLOAT, 12], ["error", 1, gl.FLOAT, 20], ["tint", 4, gl.UNSIGNED_BYTE, 24]];
    for (const [name, parts, kind, offset] of inputs) {
      const at = gl.getAttribLocation(this.#program, name);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, parts, kind, kind === gl.UNSIGNED_BYTE, bytes, offset);
    }
    // The array is on the device now.
    mesh.vertices = new Float32Array(0);
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
  }

  /** True if the mesh has errors. */
  get hasErrors() {
    return this.#mesh.errors !== null;
  }

  /** Fills the legend of the errors. @param {HTMLElement} legend */
  describe(legend) {
    const part = (/** @type {string} */ kind, /** @type {string} */ name, /** @type {(Node | string)[]} */ ...content) => {
      const element = document.createElement(kind);
      element.className = name;
      element.append(...content);
      return element;
    };
    const bar = part("div", "ramp");
    const colours = RAMP.map((rgb) => `rgb(${rgb.map((v) => Math.round(255 * v)).join(" ")})`);
    bar.style.background = `linear-gradient(90deg, ${colours.join(", ")})`;
    const ends = part("div", "ends", part("span", "", "0 pixels"), part("span", "", `${this.#mesh.errors} pixels or more`));
    legend.replaceChildren(bar, ends, part("p", "", "Grey: no sparse point near."));
  }

  /** @param {ImageBitmap} bitmap */
  #texture(bitmap) {
    const gl = this.#gl;
    const most = gl.getParameter(gl.MAX_TEXTURE_SIZE);
    if (bitmap.width > most || bitmap.height > most) throw new Error(`the texture is larger than ${most} pixels`);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
    gl.generateMipmap(gl.TEXTURE_2D);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR_MIPMAP_LINEAR);
    const wrap = this.#mesh.repeats ? gl.REPEAT : gl.CLAMP_TO_EDGE;
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, wrap);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_T, wrap);
    bitmap.close();
    this.#textured = true;
  }

  /**
   * Draws an image of this camera as large as fits in the canvas, in its middle. The rest stays clear.
   * @param {Framed} framed @param {Style} style
   */
  draw(framed, style) {
    const [gl, mesh, canvas] = [this.#gl, this.#mesh, this.#canvas];
    const fit = Math.min(canvas.width / framed.width, canvas.height / framed.height);
    const [wide, high] = [framed.width * fit, framed.height * fit].map(Math.round);
    gl.viewport(Math.ceil((canvas.width - wide) / 2), Math.ceil((canvas.height - high) / 2), wide, high);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.#program);
    const at = (/** @type {string} */ name) => this.#places[name] ?? null;
    const rows = rowsOf(framed.rotation);
    gl.uniformMatrix3fv(at("rotation"), true, rows.flat());
    gl.uniform3fv(at("eye"), framed.position);
    gl.uniform4fv(at("pinhole"), framed.pinhole);
    gl.uniform2f(at("size"), framed.width, framed.height);
    // The sphere around the mesh.
    const far = Math.hypot(...mesh.centre.map((v, k) => v - framed.position[k])) + mesh.radius;
    gl.uniform2f(at("range"), Math.max(far - 2 * mesh.radius, 1e-4 * far), 1.01 * far);
    gl.uniform1i(at("style"), STYLES.indexOf(style));
    gl.uniform1i(at("textured"), Number(this.#textured));
    gl.uniform1i(at("tinted"), Number(mesh.colours));
    const count = 3 * mesh.triangles;
    if (style === "edges") {
      gl.uniform1i(at("style"), STYLES.indexOf("shape"));
      gl.colorMask(false, false, false, false);
      gl.enable(gl.POLYGON_OFFSET_FILL);
      gl.polygonOffset(1, 1);
      gl.drawArrays(gl.TRIANGLES, 0, count);
      gl.disable(gl.POLYGON_OFFSET_FILL);
      gl.colorMask(true, true, true, true);
      gl.uniform1i(at("style"), STYLES.indexOf("edges"));
    }
    gl.drawArrays(gl.TRIANGLES, 0, count);
  }
}

// Draws Gaussians with WebGL2 by the engine's formulas (EWA splatting, Zwicker et al. 2001; 3DGS, Kerbl et al. 2023):
// 1. a vertex shader unpacks a Gaussian, projects its covariance, adds the dilation, sees its harmonics along the ray,
//    and spans a rectangle where its alpha is at least 1/255;
// 2. a fragment shader weighs a pixel, and the GPU blends far to near in half floats;
// 3. a last pass adds the rest of the background and rounds the image to bytes.
// @ts-check
import { rowsOf } from "../vectors.js";
import { HARMONICS } from "./spz.js";

/** @typedef {import("../path.js").Key} Key */
/** @typedef {import("./spz.js").Gaussians} Gaussians */

/** Width of the textures, texels. */
const ROW = 2048;

const GAUSSIANS = `#version 300 es
precision highp float;
precision highp int;
precision highp usampler2D;
uniform usampler2D geometry;
uniform usampler2D harmonics;
uniform mat3 rotation;
uniform vec3 eye;
uniform vec2 size;
uniform float focal;
uniform float near;
uniform int degree;
uniform bool antialiased;
in uint index;
flat out vec3 colour;
flat out float opacity;
flat out vec3 conic;
flat out vec2 centre;

uvec4 texel(usampler2D of, uint at) {
  return texelFetch(of, ivec2(int(at % ${ROW}u), int(at / ${ROW}u)), 0);
}

float harmonic(uint first, int k) {
  uint at = first + uint(k);
  uint word = texel(harmonics, at / 16u)[int(at / 4u % 4u)];
  return (float(word >> (at % 4u * 8u) & 255u) - 128.0) / 128.0;
}

vec3 seen(uint which, vec3 base, vec3 d) {
  vec3 sum = base * 0.28209479177387814 + 0.5;
  if (degree < 1) return sum;
  float basis[15];
  float x = d.x, y = d.y, z = d.z, xx = x * x, yy = y * y, zz = z * z;
  basis[0] = -0.4886025119029199 * y;
  basis[1] = 0.4886025119029199 * z;
  basis[2] = -0.4886025119029199 * x;
  int count = 3;
  if (degree > 1) {
    basis[3] = 1.0925484305920792 * x * y;
    basis[4] = -1.0925484305920792 * y * z;
    basis[5] = 0.31539156525252005 * (2.0 * zz - xx - yy);
    basis[6] = -1.0925484305920792 * x * z;
    basis[7] = 0.5462742152960396 * (xx - yy);
    count = 8;
  }
  if (degree > 2) {
    basis[8] = -0.5900435899266435 * y * (3.0 * xx - yy);
    basis[9] = 2.890611442640554 * x * y * z;
    basis[10] = -0.4570457994644658 * y * (4.0 * zz - xx - yy);
    basis[11] = 0.3731763325901154 * z * (2.0 * zz - 3.0 * xx - 3.0 * yy);
    basis[12] = -0.4570457994644658 * x * (4.0 * zz - xx - yy);
    basis[13] = 1.445305721320277 * z * (xx - yy);
    basis[14] = -0.5900435899266435 * x * (xx - 3.0 * yy);
    count = 15;
  }
  uint first = which * uint(3 * count);
  for (int k = 0; k < 15; k++) {
    if (k >= count) break;
    sum += basis[k] * vec3(harmonic(first, 3 * k), harmonic(first, 3 * k + 1), harmonic(first, 3 * k + 2));
  }
  return sum;
}

/* x, y, z, w: the top bits hold the index of the largest, the rest sign and magnitude of the others. */
vec4 turn(uint word) {
  uint largest = word >> 30;
  vec4 q = vec4(0.0);
  float others = 0.0;
  for (int at = 3; at >= 0; at--) {
    if (uint(at) == largest) continue;
    float magnitude = 0.7071067811865476 * float(word & 511u) / 511.0;
    q[at] = (word & 512u) != 0u ? -magnitude : magnitude;
    others += magnitude * magnitude;
    word >>= 10;
  }
  q[int(largest)] = sqrt(max(0.0, 1.0 - others));
  return normalize(q);
}

void main() {
  gl_Position = vec4(0.0, 0.0, 2.0, 1.0);
  uvec4 first = texel(geometry, 2u * index), second = texel(geometry, 2u * index + 1u);
  vec3 mean = uintBitsToFloat(first.xyz);
  vec3 p = rotation * (mean - eye);
  opacity = max(float(first.w >> 24), 0.5) / 255.0;
  if (p.z < near) return;
  vec4 q = turn(second.x);
  float x = q.x, y = q.y, z = q.z, w = q.w;
  mat3 own = mat3(
    1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y),
    2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x),
    2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y));
  vec3 sigma = exp(vec3(uvec3(second.y, second.y >> 8, second.y >> 16) & 255u) / 16.0 - 10.0);
  mat3 m = rotation * own;
  m[0] *= sigma.x;
  m[1] *= sigma.y;
  m[2] *= sigma.z;
  // The Jacobian is taken at most 0.3 of the half field of view outside.
  vec2 most = 1.3 * 0.5 * size / focal;
  vec2 slope = clamp(p.xy / p.z, -most, most);
  float scale = focal / p.z;
  vec3 u = vec3(scale, 0.0, -scale * slope.x) * m, v = vec3(0.0, scale, -scale * slope.y) * m;
  float dilation = antialiased ? 0.1 : 0.3;
  float a = dot(u, u) + dilation, b = dot(u, v), c = dot(v, v) + dilation;
  float determinant = a * c - b * b;
  vec3 across = cross(u, v);
  if (antialiased) opacity *= sqrt(dot(across, across) / determinant);
  if (opacity < 1.0 / 255.0 || !(determinant > 0.0)) return;
  conic = vec3(c, -b, a) / determinant;
  centre = focal * p.xy / p.z + 0.5 * size;
  // Axes of the ellipse of alpha 1/255, plus one pixel.
  float reach = sqrt(2.0 * log(255.0 * opacity));
  float middle = 0.5 * (a + c), spread = sqrt(max(0.25 * (a - c) * (a - c) + b * b, 0.0));
  float large = middle + spread, small = max(middle - spread, 0.0);
  vec2 axis = abs(b) > 1e-6 * large ? normalize(vec2(large - c, b)) : a >= c ? vec2(1.0, 0.0) : vec2(0.0, 1.0);
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0 - 1.0;
  vec2 along = axis * (reach * sqrt(large) + 1.0) * corner.x;
  vec2 aside = vec2(-axis.y, axis.x) * (reach * sqrt(small) + 1.0) * corner.y;
  vec2 at = (centre + along + aside) / size * 2.0 - 1.0;
  gl_Position = vec4(at.x, -at.y, 0.0, 1.0);
  vec3 base = (vec3(uvec3(first.w, first.w >> 8, first.w >> 16) & 255u) / 255.0 - 0.5) / 0.15;
  colour = max(seen(index, base, normalize(mean - eye)), 0.0);
}`;

const PIXELS = `#version 300 es
precision highp float;
uniform vec2 size;
flat in vec3 colour;
flat in float opacity;
flat in vec3 conic;
flat in vec2 centre;
out vec4 blended;
void main() {
  vec2 d = vec2(gl_FragCoord.x, size.y - gl_FragCoord.y) - centre;
  float alpha = min(0.999, opacity * exp(-0.5 * (conic.x * d.x * d.x + conic.z * d.y * d.y) - conic.y * d.x * d.y));
  if (!(alpha >= 1.0 / 255.0)) discard;
  blended = vec4(colour * alpha, alpha);
}`;

const WHOLE = `#version 300 es
void main() {
  gl_Position = vec4(vec2(gl_VertexID & 1, gl_VertexID >> 1) * 4.0 - 1.0, 0.0, 1.0);
}`;

const FINISH = `#version 300 es
precision highp float;
uniform sampler2D blended;
uniform vec3 background;
out vec4 shown;
void main() {
  vec4 sum = texelFetch(blended, ivec2(gl_FragCoord.xy), 0);
  shown = vec4(sum.rgb + (1.0 - sum.a) * background, 1.0);
}`;

export class Renderer {
  /** @type {WebGL2RenderingContext} */ gl;
  /** @type {number[]} */ background;
  /** @type {number} */ near;
  count = 0;
  #degree = 0;
  #antialiased = false;
  /** @type {WebGLProgram} */ #gaussians;
  /** @type {WebGLProgram} */ #finish;
  #indices;
  #index;
  /** @type {Record<string, WebGLUniformLocation>} */ #places = {};
  #sorted = 0;
  /** @type {Gaussians[]} */ #parts = [];
  /** @type {WebGLFramebuffer | null} */ #frame = null;
  /** @type {WebGLTexture | null} */ #sum = null;
  /** @type {[WebGLTexture | null, WebGLTexture | null]} */ #data = [null, null];
  #size = [0, 0];

  /** @param {HTMLCanvasElement} canvas @param {number[]} background @param {number} near */
  constructor(canvas, background, near) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, preserveDrawingBuffer: true });
    if (!gl) throw new Error("this browser has no WebGL2");
    this.gl = gl;
    [this.background, this.near] = [background, near];
    // Half floats blend thousands of faint Gaussians without visible steps. Without float targets, bytes are used.
    if (gl.getExtension("EXT_color_buffer_float") || gl.getExtension("EXT_color_buffer_half_float")) {
      this.#frame = gl.createFramebuffer();
    }
    this.#gaussians = linked(gl, GAUSSIANS, PIXELS);
    this.#finish = linked(gl, WHOLE, FINISH);
    this.#places = { ...uniforms(gl, this.#gaussians), ...uniforms(gl, this.#finish) };
    this.#index = gl.getAttribLocation(this.#gaussians, "index");
    this.#indices = gl.createBuffer();
  }

  /** Takes more Gaussians; all are of one degree. @param {Gaussians} part */
  add(part) {
    this.#parts.push(part);
    this.count += part.count;
    [this.#degree, this.#antialiased] = [part.degree, part.antialiased];
    const words = new Uint32Array(texels(2 * this.count) * 4);
    const bytes = new Uint8Array(texels(Math.ceil((HARMONICS[part.degree] * this.count) / 16)) * 16);
    let at = 0;
    for (const { count, words: some, harmonics } of this.#parts) {
      words.set(some, 8 * at);
      bytes.set(harmonics, HARMONICS[part.degree] * at);
      at += count;
    }
    // All parts become one array from here on, so that nothing is held twice.
    const harmonics = bytes.subarray(0, HARMONICS[part.degree] * at);
    this.#parts = [{ ...part, count: at, words: words.subarray(0, 8 * at), harmonics, positions: new Float32Array(0) }];
    this.#data = [this.#texture(this.#data[0], words), this.#texture(this.#data[1], new Uint32Array(bytes.buffer))];
  }

  /** @param {WebGLTexture | null} before @param {Uint32Array} words */
  #texture(before, words) {
    const gl = this.gl;
    if (before) gl.deleteTexture(before);
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    const height = Math.max(words.length / 4 / ROW, 1);
    if (height > gl.getParameter(gl.MAX_TEXTURE_SIZE)) throw new Error("these are more Gaussians than this device holds");
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32UI, ROW, height);
    if (words.length > 0) gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, ROW, height, gl.RGBA_INTEGER, gl.UNSIGNED_INT, words);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    return texture;
  }

  /** Sets the order of drawing, far Gaussians first. @param {Uint32Array<ArrayBuffer>} order */
  sorted(order) {
    const gl = this.gl;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#indices);
    gl.bufferData(gl.ARRAY_BUFFER, order, gl.DYNAMIC_DRAW);
    this.#sorted = order.length;
  }

  #resize() {
    const gl = this.gl;
    const [width, height] = [gl.canvas.width, gl.canvas.height];
    if (!this.#frame || (this.#size[0] === width && this.#size[1] === height)) return;
    this.#size = [width, height];
    if (this.#sum) gl.deleteTexture(this.#sum);
    this.#sum = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, this.#sum);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA16F, width, height);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.#frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, this.#sum, 0);
    if (gl.checkFramebufferStatus(gl.FRAMEBUFFER) !== gl.FRAMEBUFFER_COMPLETE) this.#frame = null;
  }

  /** @param {Key} key */
  draw(key) {
    const gl = this.gl;
    this.#resize();
    const [width, height] = [gl.canvas.width, gl.canvas.height];
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.#frame);
    gl.viewport(0, 0, width, height);
    const [r, g, b] = this.#frame ? [0, 0, 0] : this.background;
    gl.clearColor(r, g, b, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const use = this.#gaussians;
    gl.useProgram(use);
    const at = (/** @type {string} */ name) => this.#places[name] ?? null;
    const [right, down, forward] = rowsOf(key.rotation);
    gl.uniformMatrix3fv(at("rotation"), true, [...right, ...down, ...forward]);
    gl.uniform3fv(at("eye"), key.position);
    gl.uniform2f(at("size"), width, height);
    gl.uniform1f(at("focal"), key.focal * height);
    gl.uniform1f(at("near"), this.near);
    gl.uniform1i(at("degree"), this.#degree);
    gl.uniform1i(at("antialiased"), Number(this.#antialiased));
    this.#data.forEach((texture, unit) => {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, texture);
    });
    gl.uniform1i(at("geometry"), 0);
    gl.uniform1i(at("harmonics"), 1);
    const index = this.#index;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.#indices);
    gl.enableVertexAttribArray(index);
    gl.vertexAttribIPointer(index, 1, gl.UNSIGNED_INT, 0, 0);
    gl.vertexAttribDivisor(index, 1);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.#sorted);
    gl.disable(gl.BLEND);
    gl.disableVertexAttribArray(index);
    if (!this.#frame) return;
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.useProgram(this.#finish);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.#sum);
    gl.uniform1i(at("blended"), 0);
    gl.uniform3fv(at("background"), this.background);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  /** Returns the image's bytes from the upper left corner: red, green, blue, 255. */
  pixels() {
    const gl = this.gl;
    const [width, height] = [gl.canvas.width, gl.canvas.height];
    const upward = new Uint8Array(4 * width * height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, upward);
    const bytes = new Uint8Array(upward.length);
    for (let y = 0; y < height; y++) {
      bytes.set(upward.subarray(4 * width * (height - 1 - y), 4 * width * (height - y)), 4 * width * y);
    }
    return bytes;
  }

  /** Releases the WebGL context: browsers allow few. */
  close() {
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }
}

/** Number of texels in whole rows. @param {number} count */
const texels = (count) => Math.ceil(count / ROW) * ROW;

/** Compiles and links a program. @param {WebGL2RenderingContext} gl @param {string} vertices @param {string} fragments */
export function linked(gl, vertices, fragments) {
  const made = gl.createProgram();
  for (const [kind, text] of /** @type {const} */ ([[gl.VERTEX_SHADER, vertices], [gl.FRAGMENT_SHADER, fragments]])) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error("the graphics driver was lost");
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader) ?? "no shader");
    gl.attachShader(made, shader);
  }
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(made) ?? "no program");
  return made;
}

/**
 * Returns the uniforms of a program by name. A request for their locations waits for the driver: once, not with every
 * frame.
 * @param {WebGL2RenderingContext} gl @param {WebGLProgram} made @returns {Record<string, WebGLUniformLocation>}
 */
export function uniforms(gl, made) {
  /** @type {Record<string, WebGLUniformLocation>} */ const places = {};
  const count = gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS);
  for (let i = 0; i < count; i++) {
    const name = gl.getActiveUniform(made, i)?.name ?? "";
    const place = gl.getUniformLocation(made, name);
    if (place) places[name] = place;
  }
  return places;
}

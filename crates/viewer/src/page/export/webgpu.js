// Draws with the engine's own WGSL: runs the dispatch list that `dapple export` takes from the engine
// (gpu/src/browser.rs).
// 1. Gaussians are laid out as the engine uploads them: planes of floats, harmonics as half floats, which represent the
//    values of a page exactly.
// 2. For a render the camera is written and every dispatch of the list runs, sized by the GPU itself. If a dispatch
//    binds too many arrays, they are copied into one array before it and out of it after it.
// 3. The GPU reports whether the buffers held all instances. If not, the buffers are enlarged, and the frame is drawn
//    again.
// @ts-check
import { rowsOf } from "../vectors.js";
import { HARMONICS } from "./spz.js";

/** @typedef {import("../path.js").Key} Key */
/** @typedef {import("./spz.js").Gaussians} Gaussians */
/** @typedef {{words: number, at: [string, number][]}} Places */
/** @typedef {{group: number, binding: number, kind: GPUBufferBindingType, buffer: string}} Bound */
/** @typedef {{direct: number[]} | {counted: number} | {tiles: number}} Workgroups */
/** @typedef {{name: string, item_bytes: number, members: [string, boolean][]}} Joined */
/**
 * @typedef {{label: string, shader: number, entry: string, bindings: Bound[], groups: Workgroups, joined: Joined[],
 *   constant: number[] | null}} Command
 */
/**
 * @typedef {{shaders: string[], commands: Command[], buffers: {name: string, axis: string, words: number, spare: number}[],
 *   tile: number, bucket: number, workgroup: number, radix_block: number, state: Places, step: Places, view: Places,
 *   halt_instances: number}} Script
 */

/** Buffers that hold the Gaussians: they stay when the image size changes. */
const KEPT = ["geometry", "sh_rest", "filter_3d"];
/** Numbers of a Gaussian's geometry: mean, scales, rotation, opacity, colour. */
const PLANES = 14;
/** Largest first dimension of a dispatch, workgroups. */
const WIDEST = 32768;
/** Members of joined arrays begin at whole multiples of these bytes. */
const ALIGNMENT = 16;

const PRESENT = `
@group(0) @binding(0) var<storage, read> pixels: array<u32>;
@group(0) @binding(1) var<uniform> size: vec4u;
@vertex fn corner(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
  return vec4f(f32(i & 1u) * 4.0 - 1.0, f32(i >> 1u) * 4.0 - 1.0, 0.0, 1.0);
}
@fragment fn pixel(@builtin(position) at: vec4f) -> @location(0) vec4f {
  let word = pixels[u32(at.y) * size.x + u32(at.x)];
  return vec4f(unpack4x8unorm(word).rgb, 1.0);
}`;

export class EngineRenderer {
  count = 0;
  /** Called when a frame has to be drawn again. */
  again = () => {};
  /** Called when the device is lost. @type {(why: string) => void} */
  lost = () => {};
  /** @type {GPUDevice} */ #device;
  /** @type {HTMLCanvasElement} */ #canvas;
  /** @type {GPUCanvasContext} */ #context;
  /** @type {Script} */ #script;
  /** @type {number[]} */ #background;
  /** @type {number} */ #near;
  /** @type {GPUComputePipeline[]} */ #pipelines = [];
  /** @type {GPURenderPipeline} */ #present;
  /** @type {Map<string, GPUBuffer>} */ #buffers = new Map();
  /** @type {{groups: GPUBindGroup[], joined: {buffer: GPUBuffer, parts: [GPUBuffer, number, number, boolean][]}[]}[]} */
  #bound = [];
  /** @type {GPUBindGroup | null} */ #shown = null;
  /** @type {Gaussians[]} */ #parts = [];
  #degree = 0;
  #instances = 1 << 20;
  #size = [0, 0];
  #made = "";
  #asking = false;
  /** Rejects when the device is lost, since pending reads then never end. @type {Promise<never>} */ #gone;

  /**
   * Returns null without WebGPU, or on a CPU adapter (which compiles for seconds) unless `asked`.
   * @param {HTMLCanvasElement} canvas @param {Script} script @param {number[]} background @param {number} near
   * @param {boolean} asked
   */
  static async open(canvas, script, background, near, asked) {
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter || (adapter.info?.isFallbackAdapter && !asked)) return null;
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    const device = await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
    device.pushErrorScope("validation");
    const renderer = new EngineRenderer(canvas, device, script, background, near);
    await renderer.#compile();
    const error = await device.popErrorScope();
    if (error) throw new Error(error.message);
    // The context comes last: a canvas with this context gives no other.
    const context = /** @type {any} */ (canvas.getContext("webgpu"));
    if (!context) throw new Error("this canvas has no WebGPU");
    context.configure({ device, format: navigator.gpu.getPreferredCanvasFormat(), alphaMode: "opaque" });
    renderer.#context = context;
    device.addEventListener("uncapturederror", (/** @type {any} */ event) => renderer.lost(event.error.message));
    device.lost.then((/** @type {{reason: string, message: string}} */ gone) => {
      if (gone.reason !== "destroyed") renderer.lost(gone.message);
    });
    return renderer;
  }

  /**
   * @param {HTMLCanvasElement} canvas @param {GPUDevice} device @param {Script} script @param {number[]} background
   * @param {number} near
   */
  constructor(canvas, device, script, background, near) {
    [this.#canvas, this.#device, this.#script] = [canvas, device, script];
    [this.#background, this.#near] = [background, near];
    this.#gone = device.lost.then((/** @type {{message: string}} */ gone) => {
      throw new Error(`the device was lost: ${gone.message}`);
    });
    // There may be no pending read.
    this.#gone.catch(() => {});
    const module = device.createShaderModule({ code: PRESENT });
    this.#present = device.createRenderPipeline({
      layout: "auto",
      vertex: { module },
      fragment: { module, targets: [{ format: navigator.gpu.getPreferredCanvasFormat() }] },
    });
  }

  async #compile() {
    const device = this.#device;
    const modules = this.#script.shaders.map((code) => device.createShaderModule({ code }));
    // The passes of a sort share kernels.
    /** @type {Map<string, Promise<GPUComputePipeline>>} */
    const made = new Map();
    const wanted = this.#script.commands.map(({ label, shader, entry, bindings }) => {
      const groups = [0, 1].map((group) => {
        const own = bindings.filter((bound) => bound.group === group);
        return own.map(({ binding, kind }) => ({ binding, visibility: 4, buffer: { type: kind } }));
      });
      const name = JSON.stringify([shader, entry, groups]);
      const pipeline = made.get(name) ?? device.createComputePipelineAsync({
        label,
        layout: device.createPipelineLayout({
          bindGroupLayouts: groups.map((entries) => device.createBindGroupLayout({ entries })),
        }),
        compute: { module: modules[shader], entryPoint: entry },
      });
      made.set(name, pipeline);
      return pipeline;
    });
    this.#pipelines = await Promise.all(wanted);
  }

  /** Adds Gaussians; all have one SH degree. @param {Gaussians} part */
  add(part) {
    this.#parts.push(part);
    this.count += part.count;
    this.#degree = part.degree;
    // The buffers are created again with the next frame.
    for (const name of KEPT) this.#drop(name);
    this.#made = "";
  }

  /** @param {string} name */
  #drop(name) {
    this.#buffers.get(name)?.destroy();
    this.#buffers.delete(name);
  }

  /** Number of items of an axis. @param {string} axis */
  #items(axis) {
    const { tile, bucket, workgroup, radix_block } = this.#script;
    const [width, height] = this.#size;
    const tiles = Math.ceil(width / tile) * Math.ceil(height / tile);
    const most = Math.max(this.#instances, this.count);
    switch (axis) {
      case "Gaussian":
      case "Visible":
        return this.count;
      case "GaussianGroup":
        return Math.ceil(this.count / workgroup);
      case "Instance":
        return this.#instances;
      case "Bucket":
        return Math.ceil(this.#instances / bucket) + tiles;
      case "Pixel":
        return width * height;
      case "Tile":
        return tiles;
      case "TilePixel":
        return tiles * tile * tile;
      case "SortBlock":
        return Math.ceil(most / radix_block);
      default:
        return 1;
    }
  }

  /** Creates the buffers that the frame needs, in their sizes. */
  #fit() {
    const wanted = JSON.stringify([this.#size, this.#instances, this.count]);
    if (wanted === this.#made) return;
    this.#made = wanted;
    const device = this.#device;
    let emptied = false;
    for (const { name, axis, words, spare } of this.#script.buffers) {
      const size = Math.max(16, 4 * words * (this.#items(axis) + spare));
      if (this.#buffers.get(name)?.size === size) continue;
      this.#drop(name);
      emptied ||= KEPT.includes(name);
      const uses = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM | GPUBufferUsage.INDIRECT;
      const usage = uses | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
      this.#buffers.set(name, device.createBuffer({ label: name, size, usage }));
    }
    if (!this.#buffers.has("step")) {
      const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
      this.#buffers.set("step", device.createBuffer({ size: 4 * this.#script.step.words, usage }));
      this.#buffers.set("size", device.createBuffer({ size: 16, usage }));
    }
    if (emptied) this.#upload();
    this.#bind();
  }

  /** @param {string} name */
  #buffer(name) {
    const found = this.#buffers.get(name);
    if (!found) throw new Error(`there is no ${name}`);
    return found;
  }

  /** @param {ArrayBufferView<ArrayBuffer>} data */
  #uniform(data) {
    const usage = GPUBufferUsage.UNIFORM | GPUBufferUsage.COPY_DST;
    const buffer = this.#device.createBuffer({ size: data.byteLength, usage });
    this.#device.queue.writeBuffer(buffer, 0, data);
    return buffer;
  }

  /** Binds the buffers of every dispatch. */
  #bind() {
    const device = this.#device;
    for (const { joined } of this.#bound) for (const { buffer } of joined) buffer.destroy();
    this.#bound = this.#script.commands.map((command, number) => {
      /** @type {Map<string, GPUBuffer>} */
      const own = new Map();
      if (command.constant) own.set("radix_pass", this.#uniform(new Uint32Array(command.constant)));
      /** @type {number[]} */
      const begins = [];
      const joined = command.joined.map(({ name, item_bytes, members }) => {
        let end = 0;
        const parts = members.map(([member, writes]) => {
          const [from, begin] = [this.#buffer(member), end];
          begins.push(begin / item_bytes);
          end += Math.ceil(from.size / ALIGNMENT) * ALIGNMENT;
          return /** @type {[GPUBuffer, number, number, boolean]} */ ([from, begin, from.size, writes]);
        });
        const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
        const buffer = device.createBuffer({ label: name, size: end, usage });
        own.set(name, buffer);
        return { buffer, parts };
      });
      if (begins.length > 0) {
        const rows = new Uint32Array(4 * Math.ceil(begins.length / 4));
        rows.set(begins);
        own.set("joined_at", this.#uniform(rows));
      }
      const groups = [0, 1].map((group) => {
        const bindings = command.bindings.filter((bound) => bound.group === group);
        const entries = bindings.map(({ binding, buffer }) => {
          return { binding, resource: { buffer: own.get(buffer) ?? this.#buffer(buffer) } };
        });
        return device.createBindGroup({ layout: this.#pipelines[number].getBindGroupLayout(group), entries });
      });
      return { groups, joined };
    });
    this.#shown = device.createBindGroup({
      layout: this.#present.getBindGroupLayout(0),
      entries: [
        { binding: 0, resource: { buffer: this.#buffer("image_bytes") } },
        { binding: 1, resource: { buffer: this.#buffer("size") } },
      ],
    });
  }

  /** Uploads the Gaussians in the engine's layout. */
  #upload() {
    const [n, coefficients] = [this.count, HARMONICS[this.#degree]];
    const geometry = new Float32Array(PLANES * n);
    const harmonics = new Uint32Array(Math.ceil(coefficients / 2) * n);
    let i = 0;
    for (const part of this.#parts) {
      const floats = new Float32Array(part.words.buffer, part.words.byteOffset, part.words.length);
      for (let from = 0; from < part.count; from++, i++) {
        const at = 8 * from;
        const [tone, turn, extent] = [part.words[at + 3], part.words[at + 4], part.words[at + 5]];
        const [w, x, y, z] = turnOf(turn);
        const alpha = (tone >>> 24) / 255;
        const logit = Math.min(Math.max(Math.log(alpha / (1 - alpha)), -18), 18);
        const numbers = [
          floats[at], floats[at + 1], floats[at + 2],
          (extent & 255) / 16 - 10, ((extent >> 8) & 255) / 16 - 10, ((extent >> 16) & 255) / 16 - 10,
          w, x, y, z, logit,
          ((tone & 255) / 255 - 0.5) / 0.15, (((tone >> 8) & 255) / 255 - 0.5) / 0.15, (((tone >> 16) & 255) / 255 - 0.5) / 0.15,
        ];
        for (let plane = 0; plane < PLANES; plane++) geometry[plane * n + i] = numbers[plane];
        const first = coefficients * from;
        for (let k = 0; k < coefficients; k += 2) {
          const high = k + 1 < coefficients ? HALF[part.harmonics[first + k + 1]] : 0;
          harmonics[(k / 2) * n + i] = HALF[part.harmonics[first + k]] | (high << 16);
        }
      }
    }
    this.#device.queue.writeBuffer(this.#buffer("geometry"), 0, geometry);
    if (harmonics.length > 0) this.#device.queue.writeBuffer(this.#buffer("sh_rest"), 0, harmonics);
  }

  /** @param {Key} key */
  #write(key) {
    const { state, step, view, tile, bucket } = this.#script;
    const [width, height] = this.#size;
    const queue = this.#device.queue;
    const counts = new Uint32Array(state.words);
    const tiles = [Math.ceil(width / tile), Math.ceil(height / tile)];
    const buckets = Math.ceil(this.#instances / bucket) + tiles[0] * tiles[1];
    const set = { gaussians: this.count, capacity: this.count, visible_capacity: this.count,
      instance_capacity: this.#instances, bucket_capacity: buckets };
    for (const [name, value] of Object.entries(set)) counts[wordOf(state, name)] = value;
    queue.writeBuffer(this.#buffer("state"), 0, counts);
    const numbers = new Float32Array(step.words);
    new Uint32Array(numbers.buffer)[wordOf(step, "sh_degree")] = this.#degree;
    numbers.set(this.#background, wordOf(step, "background"));
    numbers[wordOf(step, "near")] = this.#near;
    queue.writeBuffer(this.#buffer("step"), 0, numbers);
    const camera = new Float32Array(view.words);
    const whole = new Uint32Array(camera.buffer);
    const rows = rowsOf(key.rotation);
    const focal = key.focal * height;
    // The Jacobian is taken at most 0.3 of the half field of view outside.
    const most = [(1.3 * 0.5 * width) / focal, (1.3 * 0.5 * height) / focal];
    rows.forEach((row, k) => {
      // The rest of the camera's position that a float cannot hold comes last.
      const rest = key.position[k] - Math.fround(key.position[k]);
      camera.set([...row, rest], wordOf(view, "rows") + 4 * k);
    });
    camera.set(key.position, wordOf(view, "centre"));
    camera.set([focal, focal], wordOf(view, "focal"));
    camera.set([width / 2, height / 2], wordOf(view, "principal"));
    camera.set([-most[0], -most[1]], wordOf(view, "jacobian_min"));
    camera.set(most, wordOf(view, "jacobian_max"));
    whole.set([width, height], wordOf(view, "size"));
    whole.set(tiles, wordOf(view, "tiles"));
    queue.writeBuffer(this.#buffer("views"), 0, camera);
    queue.writeBuffer(this.#buffer("size"), 0, new Uint32Array([width, height, 0, 0]));
  }

  /** @param {GPUCommandEncoder} encoder */
  #play(encoder) {
    const tiles = this.#items("Tile");
    /** @type {GPUComputePassEncoder | null} */
    let pass = null;
    this.#script.commands.forEach(({ groups }, number) => {
      const bound = this.#bound[number];
      if (bound.joined.length > 0) {
        pass?.end();
        pass = null;
        for (const { buffer, parts } of bound.joined) {
          for (const [from, begin, size] of parts) encoder.copyBufferToBuffer(from, 0, buffer, begin, size);
        }
      }
      pass ??= encoder.beginComputePass();
      pass.setPipeline(this.#pipelines[number]);
      bound.groups.forEach((group, i) => pass?.setBindGroup(i, group));
      if ("counted" in groups) pass.dispatchWorkgroupsIndirect(this.#buffer("groups"), groups.counted);
      else if ("direct" in groups) pass.dispatchWorkgroups(groups.direct[0], groups.direct[1], groups.direct[2]);
      else {
        const count = Math.ceil((tiles + 1) / groups.tiles);
        const across = Math.min(count, WIDEST);
        pass.dispatchWorkgroups(across, Math.ceil(count / across));
      }
      if (bound.joined.length > 0) {
        pass.end();
        pass = null;
        for (const { buffer, parts } of bound.joined) {
          for (const [to, begin, size, writes] of parts) {
            if (writes) encoder.copyBufferToBuffer(buffer, begin, to, 0, size);
          }
        }
      }
    });
    /** @type {GPUComputePassEncoder | null} */ (pass)?.end();
  }

  /** Draws one frame. @param {Key} key @param {boolean} presents */
  #render(key, presents) {
    this.#size = [this.#canvas.width, this.#canvas.height];
    this.#fit();
    this.#write(key);
    const device = this.#device;
    const encoder = device.createCommandEncoder();
    this.#play(encoder);
    if (presents) {
      const view = this.#context.getCurrentTexture().createView();
      const pass = encoder.beginRenderPass({ colorAttachments: [{ view, loadOp: "clear", storeOp: "store" }] });
      pass.setPipeline(this.#present);
      pass.setBindGroup(0, this.#shown);
      pass.draw(3);
      pass.end();
    }
    device.queue.submit([encoder.finish()]);
  }

  /** Returns a buffer's bytes, once the GPU is done. @param {string} name */
  async #read(name) {
    const from = this.#buffer(name);
    const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
    const to = this.#device.createBuffer({ size: from.size, usage });
    const encoder = this.#device.createCommandEncoder();
    encoder.copyBufferToBuffer(from, 0, to, 0, from.size);
    this.#device.queue.submit([encoder.finish()]);
    await Promise.race([to.mapAsync(GPUMapMode.READ), this.#gone]);
    const bytes = to.getMappedRange().slice(0);
    to.destroy();
    return bytes;
  }

  /** Enlarges the instance buffers if they were too small; returns true if they were large enough. */
  async #had() {
    const { state, halt_instances, buffers } = this.#script;
    const counts = new Uint32Array(await this.#read("state"));
    const halted = counts[wordOf(state, "halted")];
    if (halted === 0) return true;
    const wanted = counts[wordOf(state, "wanted")];
    const each = buffers.filter((buffer) => buffer.axis === "Instance").map((buffer) => 4 * buffer.words);
    const most = Math.floor(this.#device.limits.maxStorageBufferBindingSize / Math.max(...each)) - 2;
    if (halted !== halt_instances || wanted > most) throw new Error("this device cannot hold all instances");
    this.#instances = Math.min(most, Math.ceil(1.2 * wanted));
    return false;
  }

  /** @param {Key} key */
  draw(key) {
    if (this.count === 0) return;
    this.#render(key, true);
    // The check whether the frame was whole runs while the next frames draw, one check at a time.
    if (this.#asking) return;
    this.#asking = true;
    this.#had()
      .then((whole) => whole || this.again(), (error) => this.lost(String(error)))
      .finally(() => (this.#asking = false));
  }

  /** Returns an image's bytes from the upper left corner: red, green, blue, 255. @param {Key} key */
  async pixels(key) {
    do this.#render(key, true);
    while (!(await this.#had()));
    const bytes = new Uint8Array(await this.#read("image_bytes")).slice(0, 4 * this.#size[0] * this.#size[1]);
    for (let i = 3; i < bytes.length; i += 4) bytes[i] = 255;
    return bytes;
  }

  /** Releases the device. */
  close() {
    this.lost = () => {};
    this.#device.destroy();
  }
}

/** @param {Places} of @param {string} name */
const wordOf = (of, name) => {
  const found = of.at.find(([known]) => known === name);
  if (!found) throw new Error(`there is no ${name}`);
  return found[1];
};

/** Half floats of (byte - 128) / 128. */
const HALF = Uint16Array.from({ length: 256 }, (_, byte) => {
  const value = (byte - 128) / 128;
  if (value === 0) return 0;
  const power = Math.floor(Math.log2(Math.abs(value)));
  const fraction = (Math.abs(value) / 2 ** power - 1) * 1024;
  return (value < 0 ? 0x8000 : 0) | ((power + 15) << 10) | fraction;
});

/** [w, x, y, z]: the top bits hold the index of the largest, the rest sign and magnitude. @param {number} word */
function turnOf(word) {
  const largest = word >>> 30;
  const q = [0, 0, 0, 0];
  let others = 0;
  for (let at = 3; at >= 0; at--) {
    if (at === largest) continue;
    const magnitude = (Math.SQRT1_2 * (word & 511)) / 511;
    q[at] = word & 512 ? -magnitude : magnitude;
    others += magnitude * magnitude;
    word >>>= 10;
  }
  q[largest] = Math.sqrt(Math.max(0, 1 - others));
  return [q[3], q[0], q[1], q[2]];
}

// Reads SPZ of version 2 and 3 as stored in a page: one gzip member, unpacked by the browser itself.
// @ts-check

/**
 * Gaussians in GPU layout: eight words each (position, colour and opacity; rotation, scales), and the bytes of
 * the harmonics beyond degree 0.
 * @typedef {{count: number, degree: number, antialiased: boolean, positions: Float32Array, words: Uint32Array, harmonics: Uint8Array}} Gaussians
 */

const MAGIC = 0x5053474e;
/** Harmonics beyond degree 0, by degree. */
export const HARMONICS = [0, 9, 24, 45];

/** @param {Uint8Array} packed */
export async function unzip(packed) {
  const stream = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (packed)]).stream();
  return new Uint8Array(await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}

/** @param {Uint8Array} bytes unpacked @returns {Gaussians} */
export function parse(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 16 || view.getUint32(0, true) !== MAGIC) throw new Error("the data of this page is no SPZ");
  const [version, count, degree] = [view.getUint32(4, true), view.getUint32(8, true), bytes[12]];
  if (version !== 3 || degree > 3) throw new Error(`SPZ version ${version}, degree ${degree} is not for this page`);
  const [fraction, antialiased] = [2 ** -bytes[13], (bytes[14] & 1) !== 0];
  const sizes = [9, 1, 3, 3, 4, HARMONICS[degree]];
  let end = 16;
  const planes = sizes.map((size) => bytes.subarray(end, (end += size * count)));
  if (end !== bytes.length) throw new Error(`the data of this page has ${bytes.length} bytes of ${end}`);
  const [places, alphas, colours, scales, rotations, harmonics] = planes;
  const positions = new Float32Array(3 * count);
  const words = new Uint32Array(8 * count);
  const floats = new Float32Array(words.buffer);
  for (let i = 0; i < count; i++) {
    for (let k = 0; k < 3; k++) {
      const at = 9 * i + 3 * k;
      // The third byte holds the sign.
      const whole = ((places[at] | (places[at + 1] << 8) | (places[at + 2] << 16)) << 8) >> 8;
      positions[3 * i + k] = floats[8 * i + k] = whole * fraction;
    }
    const three = 3 * i;
    words[8 * i + 3] = colours[three] | (colours[three + 1] << 8) | (colours[three + 2] << 16) | (alphas[i] << 24);
    const four = 4 * i;
    words[8 * i + 4] =
      rotations[four] | (rotations[four + 1] << 8) | (rotations[four + 2] << 16) | (rotations[four + 3] << 24);
    words[8 * i + 5] = scales[three] | (scales[three + 1] << 8) | (scales[three + 2] << 16);
  }
  return { count, degree, antialiased, positions, words, harmonics };
}

//! A writer of lossless WebP for images that hold data, by its specification (RFC 9649).
//!
//! The channels of SOG's textures have little to do with each other, and many texels look like noise. Therefore the
//! writer omits the methods for photos. It uses no repeats and no colour cache, and takes the smallest of these
//! encodings:
//!
//! 1. Each tile's texels as differences from a prediction, the tile's best of 14, or unchanged.
//! 2. Green subtracted from red and blue, or not.
//! 3. Then a Huffman code for each channel.

use super::huffman::{Bits, Code, write_code};

/// Tiles of 2^4 texels per side select their prediction.
const TILE_BITS: usize = 4;

/// Symbols of the green code: 256 values and 24 lengths of repeats, which are not used.
const GREEN_SYMBOLS: usize = 280;
const DISTANCE_SYMBOLS: usize = 40;

const OPAQUE_BLACK: [u8; 4] = [0, 0, 0, 255];

type Texel = [u8; 4];

/// Encodes an image of at most 16 383 texels per side.
pub(super) fn encode(texels: &[Texel], width: usize, height: usize) -> Vec<u8> {
    let modes = choose_modes(texels, width, height);
    let predicted = residuals(texels, width, &modes);
    let has_alpha = texels.iter().any(|t| t[3] != 255);
    let mut smallest: Option<Vec<u8>> = None;
    for (modes, texels) in [(None, texels), (Some(&modes), &predicted[..])] {
        for less_green in [false, true] {
            let turned: Vec<Texel>;
            let texels = match less_green {
                true => {
                    let less = |&[r, g, b, a]: &Texel| [r.wrapping_sub(g), g, b.wrapping_sub(g), a];
                    turned = texels.iter().map(less).collect();
                    &turned[..]
                }
                false => texels,
            };
            let mut bits = Bits::default();
            bits.put(0x2f, 8);
            bits.put(width as u32 - 1, 14);
            bits.put(height as u32 - 1, 14);
            bits.put(u32::from(has_alpha), 1);
            bits.put(0, 3);
            if let Some(modes) = modes {
                // A transform follows: prediction, with its tiles' modes as an image of their own.
                bits.put(1, 1);
                bits.put(0, 2);
                bits.put(TILE_BITS as u32 - 2, 3);
                bits.put(0, 1);
                let modes: Vec<Texel> = modes.iter().map(|&mode| [0, mode, 0, 255]).collect();
                put_texels(&mut bits, &modes);
            }
            if less_green {
                bits.put(1, 1);
                bits.put(2, 2);
            }
            // No more transforms, no colour cache, one group of codes.
            bits.put(0, 3);
            put_texels(&mut bits, texels);
            let bytes = bits.finish();
            if smallest
                .as_ref()
                .is_none_or(|best| bytes.len() < best.len())
            {
                smallest = Some(bytes);
            }
        }
    }
    container(smallest.unwrap_or_default())
}

/// Wraps the chunk in its RIFF file.
fn container(mut chunk: Vec<u8>) -> Vec<u8> {
    let size = chunk.len() as u32;
    if chunk.len() % 2 == 1 {
        chunk.push(0);
    }
    let mut out = b"RIFF".to_vec();
    out.extend((chunk.len() as u32 + 12).to_le_bytes());
    out.extend(b"WEBPVP8L");
    out.extend(size.to_le_bytes());
    out.extend(chunk);
    out
}

/// Writes five codes, of which the last, of distances, is empty; and the texels in them.
fn put_texels(bits: &mut Bits, texels: &[Texel]) {
    // In the file's order: green, red, blue, alpha.
    let channels = [1usize, 0, 2, 3];
    let codes = channels.map(|channel| {
        let symbols = if channel == 1 { GREEN_SYMBOLS } else { 256 };
        let mut counts = vec![0u32; symbols];
        texels
            .iter()
            .for_each(|t| counts[usize::from(t[channel])] += 1);
        Code::from_counts(&counts, 15)
    });
    for code in &codes {
        write_code(bits, code);
    }
    write_code(bits, &Code::from_counts(&[0; DISTANCE_SYMBOLS], 15));
    for texel in texels {
        for (code, channel) in codes.iter().zip(channels) {
            let (word, length) = code.words[usize::from(texel[channel])];
            bits.put(word.into(), length.into());
        }
    }
}

fn tiles(side: usize) -> usize {
    side.div_ceil(1 << TILE_BITS)
}

/// Chooses, for each tile, the prediction whose differences need the fewest bits.
fn choose_modes(texels: &[Texel], width: usize, height: usize) -> Vec<u8> {
    use rayon::prelude::*;
    // Cost of a difference: more the further from 0; the constant minimum is not counted.
    let cost = |difference: u8| 9 - (difference as i8).unsigned_abs().leading_zeros();
    let (across, down) = (tiles(width), tiles(height));
    (0..across * down)
        .into_par_iter()
        .map(|tile| {
            let (left, top) = ((tile % across) << TILE_BITS, (tile / across) << TILE_BITS);
            let mut best = (u32::MAX, 0u8);
            for mode in 0..14u8 {
                let mut sum = 0;
                for y in top..(top + (1 << TILE_BITS)).min(height) {
                    for x in left..(left + (1 << TILE_BITS)).min(width) {
                        let predicted = predict(texels, width, x, y, mode);
                        let texel = texels[y * width + x];
                        sum += (0..4)
                            .map(|k| cost(texel[k].wrapping_sub(predicted[k])))
                            .sum::<u32>();
                    }
                }
                if sum < best.0 {
                    best = (sum, mode);
                }
            }
            best.1
        })
        .collect()
}

fn residuals(texels: &[Texel], width: usize, modes: &[u8]) -> Vec<Texel> {
    let across = tiles(width);
    let at = |i: usize| {
        let (x, y) = (i % width, i / width);
        let mode = modes[(y >> TILE_BITS) * across + (x >> TILE_BITS)];
        let predicted = predict(texels, width, x, y, mode);
        [0, 1, 2, 3].map(|k| texels[i][k].wrapping_sub(predicted[k]))
    };
    (0..texels.len()).map(at).collect()
}

/// Predicts a texel: the specification's fourteen modes, and its exceptions at the rim.
fn predict(texels: &[Texel], width: usize, x: usize, y: usize, mode: u8) -> Texel {
    let i = y * width + x;
    match (x, y) {
        (0, 0) => return OPAQUE_BLACK,
        (_, 0) => return texels[i - 1],
        (0, _) => return texels[i - width],
        _ => {}
    }
    let (left, top, top_left) = (texels[i - 1], texels[i - width], texels[i - width - 1]);
    // At the right rim this is the row's own first texel.
    let top_right = texels[i - width + 1];
    let mean =
        |a: Texel, b: Texel| [0, 1, 2, 3].map(|k| ((u16::from(a[k]) + u16::from(b[k])) / 2) as u8);
    match mode {
        1 => left,
        2 => top,
        3 => top_right,
        4 => top_left,
        5 => mean(mean(left, top_right), top),
        6 => mean(left, top_left),
        7 => mean(left, top),
        8 => mean(top_left, top),
        9 => mean(top, top_right),
        10 => mean(mean(left, top_left), mean(top, top_right)),
        11 => {
            let off = |a: Texel, b: Texel| -> i32 {
                (0..4)
                    .map(|k| (i32::from(a[k]) - i32::from(b[k])).abs())
                    .sum()
            };
            // The gradient's prediction is left + top - top_left: nearer to left if top and top_left are similar.
            if off(top, top_left) < off(left, top_left) {
                left
            } else {
                top
            }
        }
        12 => [0, 1, 2, 3].map(|k| {
            let guess = i32::from(left[k]) + i32::from(top[k]) - i32::from(top_left[k]);
            guess.clamp(0, 255) as u8
        }),
        13 => {
            let middle = mean(left, top);
            [0, 1, 2, 3].map(|k| {
                let (m, t) = (i32::from(middle[k]), i32::from(top_left[k]));
                (m + (m - t) / 2).clamp(0, 255) as u8
            })
        }
        _ => OPAQUE_BLACK,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn back(bytes: &[u8]) -> Vec<Texel> {
        let mut decoder = image_webp::WebPDecoder::new(std::io::Cursor::new(bytes)).unwrap();
        let (w, h) = decoder.dimensions();
        let channels = if decoder.has_alpha() { 4 } else { 3 };
        let mut flat = vec![0u8; (w * h) as usize * channels];
        decoder.read_image(&mut flat).unwrap();
        flat.chunks_exact(channels)
            .map(|t| [t[0], t[1], t[2], t.get(3).copied().unwrap_or(255)])
            .collect()
    }

    #[test]
    fn pictures_of_every_kind_come_back() {
        let mut state = 5u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for (width, height) in [(1, 1), (4, 4), (37, 21), (64, 40)] {
            let count = width * height;
            let random: Vec<Texel> = (0..count)
                .map(|_| [noise(), noise(), noise(), noise()])
                .collect();
            let smooth: Vec<Texel> = (0..count)
                .map(|i| {
                    let (x, y) = (i % width, i / width);
                    [
                        (3 * x + y) as u8,
                        (x * y / 8) as u8,
                        (255 - x - y) as u8,
                        255 - (noise() & 3),
                    ]
                })
                .collect();
            let rare: Vec<Texel> = (0..count)
                .map(|i| [u8::from(i == 7), 3, noise() & 1, 255])
                .collect();
            for texels in [vec![[1, 2, 3, 255]; count], random, smooth, rare] {
                assert_eq!(
                    back(&encode(&texels, width, height)),
                    texels,
                    "{width} x {height}"
                );
            }
        }
        // Steep counts would make codes longer than 15 bits.
        let steep: Vec<Texel> = (0..1 << 18)
            .map(|i: u32| {
                [
                    i.trailing_zeros() as u8,
                    (i.trailing_zeros() * 7) as u8,
                    0,
                    255,
                ]
            })
            .collect();
        assert!(back(&encode(&steep, 512, 512)) == steep);
    }
}

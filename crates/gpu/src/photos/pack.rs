//! A photo in the format of the shaders: RGBA per pixel, a word each (alpha 255 if the photo has none), then, if it has
//! a mask, one bit per pixel, 1 = counts. See `shaders/shared/photo.wgsl`.
//!
//! 1. Four pixels are three words of the file's bytes and four of the device's. Whole words are read and shifted into
//!    place, a quarter of the loads that bytes would take.
//! 2. The highest bit of a mask's byte decides (128 and more counts). Eight of them are one word. Multiplied by 2^7 +
//!    2^14 + ... + 2^56, the bit of byte i moves to 56 + i, and no two products meet.
//! 3. Words are passed on in blocks, in order: their destination is written once, from front to back.

use dapple_scene::Photo;

/// Words in a block.
const BLOCK: usize = 1024;

/// The highest bit of each byte.
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Factor that gathers the lowest bits of eight bytes in the highest byte.
const GATHER: u64 = 0x0102_0408_1020_4080;

/// Returns the bytes of a photo with this number of pixels.
pub fn packed_bytes(pixels: u64, masked: bool) -> u64 {
    let mask = if masked { pixels.div_ceil(32) } else { 0 };
    4 * (pixels + mask)
}

/// Passes the words of a photo to `put`, block by block.
pub fn pack(photo: &Photo, put: &mut dyn FnMut(&[u32])) {
    let mut block = [0u32; BLOCK];
    let colours = photo.rgb.chunks(3 * BLOCK);
    for (i, rgb) in colours.enumerate() {
        let words = &mut block[..rgb.len() / 3];
        fill_colours(rgb, words);
        match &photo.alpha {
            Some(alpha) => {
                let alpha = &alpha[i * BLOCK..];
                for (word, &a) in words.iter_mut().zip(alpha) {
                    *word |= u32::from(a) << 24;
                }
            }
            None => words.iter_mut().for_each(|word| *word |= 0xff00_0000),
        }
        put(words);
    }
    let mask = photo.mask.iter().flat_map(|mask| mask.chunks(32 * BLOCK));
    for values in mask {
        let words = &mut block[..values.len().div_ceil(32)];
        for (word, values) in words.iter_mut().zip(values.chunks(32)) {
            *word = mask_word(values);
        }
        put(words);
    }
}

/// Writes the colours of pixels, with highest bytes of zero.
fn fill_colours(rgb: &[u8], words: &mut [u32]) {
    let (fours, rest) = rgb.as_chunks::<12>();
    let (places, last) = words.as_chunks_mut::<4>();
    for (place, four) in places.iter_mut().zip(fours) {
        let at = |i: usize| u32::from_le_bytes([four[i], four[i + 1], four[i + 2], four[i + 3]]);
        let [a, b, c] = [at(0), at(4), at(8)];
        *place = [a, a >> 24 | b << 8, b >> 16 | c << 16, c >> 8].map(|word| word & 0x00ff_ffff);
    }
    for (word, &[r, g, b]) in last.iter_mut().zip(rest.as_chunks::<3>().0) {
        *word = u32::from_le_bytes([r, g, b, 0]);
    }
}

/// Returns up to 32 values of a mask as bits.
fn mask_word(values: &[u8]) -> u32 {
    let (eights, rest) = values.as_chunks::<8>();
    let byte = |eight: &[u8; 8]| {
        let low = (u64::from_le_bytes(*eight) & HIGH_BITS) >> 7;
        (low.wrapping_mul(GATHER) >> 56) as u32
    };
    let whole = (0..).zip(eights);
    let mut word = whole.fold(0, |word, (i, eight)| word | byte(eight) << (8 * i));
    let first = 8 * eights.len();
    for (i, &value) in (first..).zip(rest) {
        word |= u32::from(value >> 7) << i;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_reference as reference;

    /// Packs pixel by pixel, with the mask as the reference reads it.
    fn expected(photo: &Photo) -> Vec<u32> {
        let pixels = photo.rgb.chunks_exact(3).enumerate();
        let alpha = |i: usize| photo.alpha.as_ref().map_or(255, |alpha| alpha[i]);
        let mut words: Vec<u32> = pixels
            .map(|(i, p)| u32::from_le_bytes([p[0], p[1], p[2], alpha(i)]))
            .collect();
        if let Some(mask) = reference::photo_mask(photo) {
            let bit = |(i, &counts): (usize, &bool)| u32::from(counts) << i;
            let word = |chunk: &[bool]| chunk.iter().enumerate().map(bit).sum::<u32>();
            words.extend(mask.chunks(32).map(word));
        }
        words
    }

    #[test]
    fn words_are_those_of_each_pixel_and_the_reference_s_mask() {
        let byte = |seed: usize, i: usize| (i * (2 * seed + 1) * 37 + (i >> 5) * 11 + seed) as u8;
        // More than a block of pixels and of a mask's words; ends inside of fours, eights and words.
        for (width, height) in [(1, 1), (7, 5), (33, 3), (401, 83), (32, BLOCK + 1)] {
            let n = width * height;
            let plane = |seed: usize| (0..n).map(|i| byte(seed, i)).collect::<Vec<u8>>();
            let rgb = (0..3 * n).map(|i| byte(1, i)).collect();
            let mut photo = Photo::from_rgb(width as u32, height as u32, rgb);
            for (alpha, mask) in [(false, false), (true, false), (false, true), (true, true)] {
                photo.alpha = alpha.then(|| plane(2));
                photo.mask = mask.then(|| plane(3));
                let mut words = Vec::new();
                pack(&photo, &mut |block| words.extend_from_slice(block));
                assert!(words == expected(&photo), "{width} x {height}");
                let bytes = packed_bytes(n as u64, mask);
                assert_eq!(4 * words.len() as u64, bytes);
            }
        }
    }
}

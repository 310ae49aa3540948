//! Lossless WebP images whose bytes are data: exact, alpha included.

use super::{DAMAGED, lossless};
use crate::{Error, Result};
use image_webp::WebPDecoder;
use std::io::Cursor;
use std::ops::RangeInclusive;

/// Longest side of a WebP image.
pub(super) const LONGEST_SIDE: usize = 16_383;

/// RGBA texels, rows from the top.
pub(super) struct Picture {
    pub width: usize,
    pub height: usize,
    pub texels: Vec<[u8; 4]>,
}

impl Picture {
    /// Builds an opaque black image, nearly square for `count` texels, with sides that are multiples of 4.
    pub(super) fn for_count(count: usize) -> Self {
        let width = ((count as f64).sqrt() / 4.0).ceil() as usize * 4;
        let height = count.div_ceil(width.max(1)).div_ceil(4) * 4;
        Self::new(width, height)
    }

    pub(super) fn new(width: usize, height: usize) -> Self {
        Self {
            width,
            height,
            texels: vec![[0, 0, 0, 255]; width * height],
        }
    }

    /// Encodes the image as a file.
    pub(super) fn encode(&self) -> Vec<u8> {
        lossless::encode(&self.texels, self.width, self.height)
    }

    /// Reads a texture of at least `needed` texels. A limit on further texels bounds the memory that a small damaged
    /// file can cost.
    pub(super) fn decode(bytes: &[u8], needed: usize, name: &str) -> Result<Self> {
        Self::decode_within(bytes, needed..=4 * needed + (1 << 16), name)
    }

    /// Reads a texture with this number of texels.
    pub(super) fn decode_within(
        bytes: &[u8],
        texels: RangeInclusive<usize>,
        name: &str,
    ) -> Result<Self> {
        let fails = |what: String| Error::input(what).at(name.to_owned()).hint(DAMAGED);
        let failed = |e: image_webp::DecodingError| {
            fails(format!(
                "the texture {name} is damaged: {}",
                dapple_base::decoder_fault(&e)
            ))
            .caused_by(e)
        };
        let mut decoder = WebPDecoder::new(Cursor::new(bytes)).map_err(failed)?;
        let (width, height) = decoder.dimensions();
        let (width, height) = (width as usize, height as usize);
        if !texels.contains(&(width * height)) {
            return Err(fails(format!(
                "the texture {name} has {width} times {height} texels, and {} are needed",
                texels.start()
            )));
        }
        decoder.set_memory_limit(64 * (width * height) + (1 << 20));
        let channels = if decoder.has_alpha() { 4 } else { 3 };
        let mut flat = vec![0u8; width * height * channels];
        decoder.read_image(&mut flat).map_err(failed)?;
        let texels = match channels {
            4 => flat.as_chunks::<4>().0.to_vec(),
            _ => {
                let opaque = |&[r, g, b]: &[u8; 3]| [r, g, b, 255];
                flat.as_chunks::<3>().0.iter().map(opaque).collect()
            }
        };
        Ok(Self {
            width,
            height,
            texels,
        })
    }
}

//! Encoding of rendered frames.

use crate::pixels::{Pixels, Seen, shown};
use crate::request::Request;
use dapple_engine::{Engine, RenderSettings};
use dapple_scene::{Error, Result};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rayon::prelude::*;
use std::time::{Duration, Instant};

/// Least rows of a band of a frame.
const BAND_ROWS: usize = 64;

/// Frames as JPEG files of their bands, from the top. A frame has as many bands as are encoded at once.
#[derive(Debug, Clone)]
pub struct Encoded {
    width: u32,
    height: u32,
    rendering: Duration,
    coding: Duration,
    most: u32,
    /// Bands by frame.
    bands: Vec<Vec<Vec<u8>>>,
}

impl Encoded {
    /// Returns the message to a page: see the module `protocol`.
    pub(crate) fn message(&self, id: u32) -> Vec<u8> {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let head = [
            id,
            self.width,
            self.height,
            micros(self.rendering),
            micros(self.coding),
            self.most,
            self.bands.len() as u32,
            self.bands.first().map_or(0, Vec::len) as u32,
        ];
        let bands = || self.bands.iter().flatten();
        let sizes = bands().map(|band| band.len() as u32);
        let bytes: usize = bands().map(Vec::len).sum();
        let mut message = Vec::with_capacity(4 * (head.len() + bands().count()) + bytes);
        message.extend(head.into_iter().chain(sizes).flat_map(u32::to_le_bytes));
        bands().for_each(|band| message.extend_from_slice(band));
        message
    }

    /// Returns the JPEG files of the first frame's bands, from the top.
    pub fn bands(&self) -> &[Vec<u8>] {
        self.bands.first().map_or(&[], Vec::as_slice)
    }
}

impl Request {
    /// Renders the view request with the engine's present splats. Changes no bit of the engine's state.
    ///
    /// # Errors
    /// Errors of the engine, a photo that cannot be read, no photo to compare with.
    pub fn picture(&self, engine: &mut dyn Engine, settings: &RenderSettings) -> Result<Encoded> {
        self.pictures(&mut [(engine, settings)])
    }

    /// Renders the view request with each of these engines, on one scale if the channel has one: for
    /// [`Models::Both`](crate::Models::Both).
    ///
    /// # Errors
    /// The errors of [`Self::picture`].
    pub fn pictures(&self, engines: &mut [(&mut dyn Engine, &RenderSettings)]) -> Result<Encoded> {
        let started = Instant::now();
        let mut size = [self.camera.width, self.camera.height];
        let mut all: Vec<Seen> = Vec::with_capacity(engines.len());
        for (engine, settings) in engines {
            let (found, seen) = self.seen(&mut **engine, settings)?;
            size = found;
            all.push(seen);
        }
        let rendering = started.elapsed();
        let [width, height] = size;
        let (pixels, most) = shown(all);
        let quality = self.look.quality();
        let bands = pixels.iter().map(|p| bands(width, height, p, quality));
        let bands = bands.collect::<Result<_>>()?;
        Ok(Encoded {
            width,
            height,
            rendering,
            coding: started.elapsed() - rendering,
            most,
            bands,
        })
    }
}

/// Encodes the bands of a frame on all cores: at 1080p one core takes 40 ms.
fn bands(width: u32, height: u32, pixels: &Pixels, quality: u8) -> Result<Vec<Vec<u8>>> {
    let count = (height as usize / BAND_ROWS).clamp(1, rayon::current_num_threads());
    // Bands consist of whole JPEG blocks, with chroma at half the size.
    let rows = (height as usize).div_ceil(count).next_multiple_of(16);
    let row_bytes = pixels.size * width as usize;
    let code = |band: &[u8]| {
        let rows = (band.len() / row_bytes) as u32;
        coded(width, rows, band, pixels.kind, quality)
    };
    let bands = pixels.bytes.par_chunks(rows * row_bytes);
    bands.with_max_len(1).map(code).collect()
}

/// # Errors
/// Only invalid sizes.
pub(crate) fn jpeg(width: u32, height: u32, rgb: &[u8], quality: u8) -> Result<Vec<u8>> {
    coded(width, height, rgb, ColorType::Rgb, quality)
}

fn coded(width: u32, height: u32, bytes: &[u8], kind: ColorType, quality: u8) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len() / 8);
    let side =
        |v: u32| u16::try_from(v).map_err(|_| Error::internal("a picture is too large for JPEG"));
    let mut encoder = Encoder::new(&mut out, quality);
    // Frames at rest keep full chroma resolution.
    encoder.set_sampling_factor(match quality > 80 {
        true => SamplingFactor::R_4_4_4,
        false => SamplingFactor::R_4_2_0,
    });
    encoder
        .encode(bytes, side(width)?, side(height)?, kind)
        .map_err(|e| Error::internal(format!("a picture cannot be encoded: {e}")))?;
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]
mod tests {
    use super::*;

    #[test]
    fn bands_make_up_the_picture() {
        let (width, height) = (40, 350);
        let colour = |i: usize| [(i / 40 / 2) as u8, 100, 50];
        for (kind, size) in [
            (ColorType::Rgb, 3),
            (ColorType::Rgba, 4),
            (ColorType::Luma, 1),
        ] {
            let pixels = (0..height as usize * 40).map(colour);
            let rgb: Vec<u8> = match size {
                1 => pixels.clone().flat_map(|c| [c[0]; 3]).collect(),
                _ => pixels.clone().flatten().collect(),
            };
            let bytes = pixels.flat_map(|[r, g, b]| [r, g, b, 7].into_iter().take(size));
            let pixels = Pixels {
                kind,
                size,
                bytes: bytes.collect(),
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3);
            let pool = pool.build().unwrap();
            let bands = pool.install(|| bands(width, height, &pixels, 92)).unwrap();
            assert_eq!(bands.len(), 3);
            let decode = |band: &Vec<u8>| image::load_from_memory(band).unwrap().into_rgb8();
            let rows = bands.iter().flat_map(|band| decode(band).into_raw());
            let rows: Vec<u8> = rows.collect();
            assert_eq!(rows.len(), rgb.len());
            let off = |(a, b): (&u8, &u8)| u64::from(a.abs_diff(*b));
            let error: u64 = rows.iter().zip(&rgb).map(off).sum();
            assert!(error < 3 * rgb.len() as u64, "{error}");
        }
    }
}

//! From a render to the bytes that a page is sent.

use crate::hub::Request;
use crate::protocol::Channel;
use dapple_engine::score::to_byte;
use dapple_engine::{Engine, RenderSettings, Rendered, depth};
use dapple_scene::{Error, Photo, Result};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use rayon::prelude::*;
use std::time::Instant;

/// Depth and normals are shown where at least this much is there: below, they are of a haze.
const LEAST_ALPHA: f32 = 0.5;

/// An error of colours that is shown as the hottest: a quarter of the range.
const HOT: f32 = 0.25;

/// Depths that the range of a picture is found from, about.
const SAMPLE: usize = 10_000;

/// Rows of a band of a picture, at least.
const BAND_ROWS: usize = 128;

/// A picture as JPEG files of its bands, from above: as many as are coded at once.
#[derive(Debug, Clone)]
pub struct Encoded {
    width: u32,
    height: u32,
    micros: u32,
    bands: Vec<Vec<u8>>,
}

impl Encoded {
    /// The message to a page: see the module `protocol`.
    pub(crate) fn message(&self, id: u32) -> Vec<u8> {
        let sizes = self.bands.iter().map(|band| band.len() as u32);
        let head = [
            id,
            self.width,
            self.height,
            self.micros,
            self.bands.len() as u32,
        ];
        let numbers = head.into_iter().chain(sizes);
        let mut bytes: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
        for band in &self.bands {
            bytes.extend(band);
        }
        bytes
    }

    /// The JPEG files of its bands, from above.
    pub fn bands(&self) -> &[Vec<u8>] {
        &self.bands
    }
}

impl Request {
    /// Renders what was asked for, as the engine stands. Changes no bit of what the engine holds.
    ///
    /// # Errors
    /// What the engine cannot do; a photo that cannot be read; no photo to compare with.
    pub fn picture(&self, engine: &mut dyn Engine, settings: &RenderSettings) -> Result<Encoded> {
        let started = Instant::now();
        let settings = RenderSettings {
            depth: self.look.show.needs_depth(),
            ..*settings
        };
        let rendered = engine.render(&self.camera, &settings)?;
        let (width, height) = (rendered.width, rendered.height);
        let pixels = self.pixels(&rendered, settings.background)?;
        let bands = bands(width, height, &pixels, self.look.quality())?;
        Ok(Encoded {
            width,
            height,
            micros: u32::try_from(started.elapsed().as_micros()).unwrap_or(u32::MAX),
            bands,
        })
    }

    /// The picture's bytes, `[height, width, 3]`.
    fn pixels(&self, rendered: &Rendered, background: [f32; 3]) -> Result<Vec<u8>> {
        Ok(match self.look.show {
            Channel::Rgb => bytes(&rendered.rgb),
            Channel::Alpha => grey(&rendered.alpha),
            Channel::Depth => grey(&nearness(&expected(rendered)?)),
            Channel::Normals => {
                let normals = depth::normals(&self.camera, &expected(rendered)?);
                let shown = normals
                    .par_iter()
                    .flat_map_iter(|&[x, y, z]| match [x, y, z] {
                        [0.0, 0.0, 0.0] => [0; 3],
                        _ => [x, -y, -z].map(|v| to_byte(0.5 + 0.5 * v)),
                    });
                shown.collect()
            }
            Channel::Error => {
                let photo = self.photo.as_ref().ok_or_else(|| {
                    Error::input("there is no photo to compare with")
                        .hint("choose a photo from the list first")
                })?;
                errors(rendered, photo.read()?.as_ref(), background)
            }
        })
    }
}

/// Expected depths, 0 where less than half of a pixel is covered.
fn expected(rendered: &Rendered) -> Result<Vec<f32>> {
    let depths = rendered
        .depth
        .as_ref()
        .ok_or_else(|| Error::internal("a render came without the depths asked for"))?;
    let mut expected = depths.expected(&rendered.alpha);
    for (depth, &alpha) in expected.iter_mut().zip(&rendered.alpha) {
        if alpha < LEAST_ALPHA {
            *depth = 0.0;
        }
    }
    Ok(expected)
}

/// Depths as 1 (near) to 0.1 (far), by their inverses; 0 where there is none. Between the hundredth and the
/// ninety-ninth of a hundred depths of the picture.
fn nearness(depths: &[f32]) -> Vec<f32> {
    let every = (depths.len() / SAMPLE).max(1);
    let there = depths.iter().copied().filter(|&d| d > 0.0);
    let mut sample: Vec<f32> = there.step_by(every).collect();
    if sample.is_empty() {
        return vec![0.0; depths.len()];
    }
    sample.sort_by(f32::total_cmp);
    let at = |part: f64| sample[((sample.len() - 1) as f64 * part) as usize];
    let (near, far) = (1.0 / at(0.01), 1.0 / at(0.99));
    let span = (near - far).max(1e-12);
    let shown = depths.par_iter().map(|&d| match d > 0.0 {
        true => 0.1 + 0.9 * ((1.0 / d - far) / span).clamp(0.0, 1.0),
        false => 0.0,
    });
    shown.collect()
}

/// Mean absolute error of colours, blue (none) over green to red.
fn errors(rendered: &Rendered, photo: &Photo, background: [f32; 3]) -> Vec<u8> {
    let (width, height) = (rendered.width as usize, rendered.height as usize);
    let (pw, ph) = (photo.width as usize, photo.height as usize);
    let rows = (0..height).into_par_iter().flat_map_iter(|y| {
        let from = y * ph / height;
        (0..width).flat_map(move |x| {
            let p = from * pw + x * pw / width;
            let alpha = photo
                .alpha
                .as_ref()
                .map_or(1.0, |a| f32::from(a[p]) / 255.0);
            let i = 3 * (y * width + x);
            let error: f32 = (0..3)
                .map(|c| {
                    let seen = alpha * f32::from(photo.rgb[3 * p + c]) / 255.0
                        + (1.0 - alpha) * background[c];
                    (rendered.rgb[i + c].clamp(0.0, 1.0) - seen).abs()
                })
                .sum();
            heat(error / 3.0 / HOT)
        })
    });
    rows.collect()
}

/// Blue at 0, green at a half, red at 1.
fn heat(value: f32) -> [u8; 3] {
    let v = value.clamp(0.0, 1.0);
    [2.0 * v - 1.0, 1.0 - (2.0 * v - 1.0).abs(), 1.0 - 2.0 * v].map(to_byte)
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.par_iter().map(|&v| to_byte(v)).collect()
}

fn grey(values: &[f32]) -> Vec<u8> {
    values
        .par_iter()
        .flat_map_iter(|&v| [to_byte(v); 3])
        .collect()
}

/// Codes bands of a picture on all cores: at 1080p one core takes 40 ms.
fn bands(width: u32, height: u32, rgb: &[u8], quality: u8) -> Result<Vec<Vec<u8>>> {
    let count = (height as usize / BAND_ROWS).clamp(1, rayon::current_num_threads());
    // Whole blocks of JPEG, colours of half the size included.
    let rows = (height as usize).div_ceil(count).next_multiple_of(16);
    let row_bytes = 3 * width as usize;
    let code = |band: &[u8]| jpeg(width, (band.len() / row_bytes) as u32, band, quality);
    rgb.par_chunks(rows * row_bytes).map(code).collect()
}

/// # Errors
/// None but of sizes that no picture has.
pub(crate) fn jpeg(width: u32, height: u32, rgb: &[u8], quality: u8) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(rgb.len() / 8);
    let side =
        |v: u32| u16::try_from(v).map_err(|_| Error::internal("a picture is too large for JPEG"));
    let mut encoder = Encoder::new(&mut out, quality);
    // At rest colours keep their sharpness.
    encoder.set_sampling_factor(match quality > 80 {
        true => SamplingFactor::R_4_4_4,
        false => SamplingFactor::R_4_2_0,
    });
    encoder
        .encode(rgb, side(width)?, side(height)?, ColorType::Rgb)
        .map_err(|e| Error::internal(format!("a picture cannot be encoded: {e}")))?;
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
mod tests {
    use super::*;

    #[test]
    fn heat_goes_from_blue_to_red() {
        assert_eq!(heat(0.0), [0, 0, 255]);
        assert_eq!(heat(0.5), [0, 255, 0]);
        assert_eq!(heat(7.0), [255, 0, 0]);
        assert_eq!(heat(0.25), [0, 128, 128]);
    }

    #[test]
    fn bands_make_up_the_picture() {
        let (width, height) = (40, 700);
        let rgb: Vec<u8> = (0..height as usize * 40)
            .flat_map(|i| [(i / 40 / 4) as u8, 100, 50])
            .collect();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap();
        let bands = pool.install(|| bands(width, height, &rgb, 92)).unwrap();
        assert_eq!(bands.len(), 3);
        let decode = |band: &Vec<u8>| image::load_from_memory(band).unwrap().into_rgb8();
        let rows: Vec<u8> = bands
            .iter()
            .flat_map(|band| decode(band).into_raw())
            .collect();
        assert_eq!(rows.len(), rgb.len());
        let off = |(a, b): (&u8, &u8)| u64::from(a.abs_diff(*b));
        let error: u64 = rows.iter().zip(&rgb).map(off).sum();
        assert!(error < 3 * rgb.len() as u64, "{error}");
    }

    #[test]
    fn near_is_bright() {
        let shown = nearness(&[1.0, 2.0, 4.0, 0.0, 1.0, 1.0, 1.0, 1.0, 4.0]);
        assert_eq!(shown[3], 0.0);
        assert!(
            shown[0] > shown[1] && shown[1] >= shown[2] && shown[2] > 0.0,
            "{shown:?}"
        );
    }
}

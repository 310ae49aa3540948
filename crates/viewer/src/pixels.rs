//! Conversion of a rendered channel to the bytes that are encoded.
//!
//! 1. [`Seen`] holds the engine's output. Colours come as bytes from the device, other channels as numbers.
//! 2. [`shown`] makes bytes of one frame, or of two that are compared: those share their scales.

use crate::request::Request;
use dapple_engine::channel::{Channel, Values};
use dapple_engine::score::{error_map, to_byte, turbo};
use dapple_engine::{Engine, EngineExt, RenderSettings, ScoreAsks, depth};
use dapple_scene::{Error, Result};
use jpeg_encoder::ColorType;
use rayon::prelude::*;

/// Approximate number of depths that set the range of a frame.
const SAMPLE: usize = 10_000;

/// Least pixels per core.
const CHUNK: usize = 1 << 12;

/// A channel of a view, before its scale is known.
pub(crate) enum Seen {
    /// Bytes that need no conversion.
    Ready(Pixels),
    /// Depths, 0 where the splats have no depth.
    Depths(Vec<f32>),
    /// Gaussians blended per pixel.
    Counts(Vec<u32>),
}

/// Bytes of a frame, row by row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pixels {
    pub(crate) kind: ColorType,
    /// Bytes per pixel.
    pub(crate) size: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Pixels {
    fn rgb(bytes: Vec<u8>) -> Self {
        Self {
            kind: ColorType::Rgb,
            size: 3,
            bytes,
        }
    }

    fn grey(bytes: Vec<u8>) -> Self {
        Self {
            kind: ColorType::Luma,
            size: 1,
            bytes,
        }
    }

    /// The fourth byte is alpha, which is not shown.
    fn rgba(bytes: Vec<u8>) -> Self {
        Self {
            kind: ColorType::Rgba,
            size: 4,
            bytes,
        }
    }
}

impl Request {
    /// Renders the channel of the view request with the engine.
    pub(crate) fn seen(
        &self,
        engine: &mut dyn Engine,
        settings: &RenderSettings,
    ) -> Result<([u32; 2], Seen)> {
        let camera = &self.camera;
        let show = self.look.show;
        let seen = match show.values() {
            _ if show == Channel::Error => Seen::Ready(Pixels::rgb(self.errors(engine, settings)?)),
            Values::Colours => {
                Seen::Ready(Pixels::rgba(engine.render_bytes(camera, settings)?.rgba))
            }
            Values::Share => {
                let rgba = engine.render_bytes(camera, settings)?.rgba;
                let alphas = rgba.par_chunks_exact(4).with_min_len(CHUNK).map(|p| p[3]);
                Seen::Ready(Pixels::grey(alphas.collect()))
            }
            Values::Depths => Seen::Depths(show.render(engine, camera, settings)?.1),
            Values::Normals => {
                let (_, values) = show.render(engine, camera, settings)?;
                Seen::Ready(coloured(values.as_chunks().0))
            }
            Values::Counts => Seen::Counts(engine.blend_counts(camera, settings)?.blended),
        };
        Ok(([camera.width, camera.height], seen))
    }

    /// Computes the error map against the photo: on the device if the engine renders at the photo's size.
    fn errors(&self, engine: &mut dyn Engine, settings: &RenderSettings) -> Result<Vec<u8>> {
        let source = self.photo.as_ref().ok_or_else(|| {
            Error::input("there is no photo to compare with")
                .hint("choose a photo from the list first")
        })?;
        let photo = source.read()?;
        if [photo.width, photo.height] == [self.camera.width, self.camera.height] {
            let asks = ScoreAsks { pictures: true };
            let scored = engine.score(&self.camera, settings, &photo, asks)?;
            if let Some(pictures) = scored.and_then(|scored| scored.pictures) {
                return Ok(pictures.errors);
            }
        }
        let rendered = engine.render(&self.camera, settings)?;
        Ok(error_map(&rendered, &photo, settings.background))
    }
}

/// Returns the conventional colours of normals.
fn coloured(normals: &[[f32; 3]]) -> Pixels {
    let colours = normals.par_iter().with_min_len(CHUNK);
    let colours: Vec<[u8; 3]> = colours.map(|&n| depth::normal_colour(n)).collect();
    Pixels::rgb(colours.into_flattened())
}

/// Converts the channels of frames that are compared to bytes. Also returns the most Gaussians that a pixel blends, if
/// the channel shows this.
pub(crate) fn shown(seen: Vec<Seen>) -> (Vec<Pixels>, u32) {
    let range = Range::from_depths(seen.iter().filter_map(|seen| match seen {
        Seen::Depths(depths) => Some(depths.as_slice()),
        _ => None,
    }));
    let counts = seen.iter().filter_map(|seen| match seen {
        Seen::Counts(counts) => counts.par_iter().copied().max(),
        _ => None,
    });
    let most = counts.max().unwrap_or(0);
    let pixels = seen.into_iter().map(|seen| match seen {
        Seen::Ready(pixels) => pixels,
        Seen::Depths(depths) => {
            let near = depths.par_iter().with_min_len(CHUNK);
            Pixels::grey(near.map(|&d| to_byte(range.nearness(d))).collect())
        }
        Seen::Counts(counts) => Pixels::rgb(heat(&counts, most)),
    });
    (pixels.collect(), most)
}

/// Maps counts to the Turbo colour map, with `most` at its end; 0 is black.
fn heat(counts: &[u32], most: u32) -> Vec<u8> {
    let colour = |&count: &u32| match count {
        0 => [0; 3],
        _ => turbo(count as f32 / most.max(1) as f32),
    };
    let colours = counts.par_iter().with_min_len(CHUNK).map(colour);
    colours.collect::<Vec<[u8; 3]>>().into_flattened()
}

/// Range of inverse depths that maps to brightness.
#[derive(Debug, Clone, Copy)]
struct Range {
    far: f32,
    span: f32,
}

impl Range {
    /// Computes the range from the 1st to the 99th percentile of the depths.
    fn from_depths<'a>(pictures: impl Iterator<Item = &'a [f32]>) -> Self {
        let sample = |depths: &'a [f32]| {
            let every = (depths.len() / SAMPLE).max(1);
            depths.iter().step_by(every).copied().filter(|&d| d > 0.0)
        };
        let mut sample: Vec<f32> = pictures.flat_map(sample).collect();
        sample.sort_by(f32::total_cmp);
        let last = sample.len().saturating_sub(1) as f64;
        let at = |part: f64| sample.get((last * part) as usize).copied().unwrap_or(1.0);
        let (near, far) = (1.0 / at(0.01), 1.0 / at(0.99));
        Self {
            far,
            span: (near - far).max(1e-12),
        }
    }

    /// Maps a depth to 1 (near) to 0.1 (far), by its inverse; 0 without a depth.
    fn nearness(self, depth: f32) -> f32 {
        match depth > 0.0 {
            true => 0.1 + 0.9 * ((1.0 / depth - self.far) / self.span).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_bright_on_one_scale() {
        let near = vec![1.0, 2.0, 4.0, 0.0];
        let (pixels, most) = shown(vec![Seen::Depths(near), Seen::Depths(vec![2.0, 8.0])]);
        let [first, second] = [&pixels[0].bytes, &pixels[1].bytes];
        assert_eq!(first[3], 0);
        assert!(first[0] > first[1] && first[1] > first[2], "{first:?}");
        assert_eq!(first[1], second[0], "two scales");
        assert!(first[2] >= second[1] && second[1] > 0, "{second:?}");
        assert_eq!(most, 0);
        assert_eq!(
            shown(vec![Seen::Depths(vec![0.0; 2])]).0[0].bytes,
            vec![0; 2]
        );
    }

    #[test]
    fn counts_have_one_scale() {
        let counts = [vec![0, 4], vec![8, 2]].map(Seen::Counts);
        let (pixels, most) = shown(counts.into());
        assert_eq!(most, 8);
        assert_eq!(pixels[0].bytes, [[0; 3], turbo(0.5)].concat());
        assert_eq!(pixels[1].bytes, [turbo(1.0), turbo(0.25)].concat());
    }
}

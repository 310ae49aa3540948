//! Photos brought to the exposure of the splats.
//!
//! A run with a model of appearance learns splats of one exposure from photos of several. Their renders show it, whatever
//! the model: the colours of a photo are mapped to those of the render from its camera.
//!
//! 1. Render and photo are reduced to a grid ([`Reduced`]), so that noise and small shifts do not count.
//! 2. The map is affine in red, green and blue, by weighted least squares, drawn a little to the identity. Cells that fit
//!    badly count less in the next solutions (weights of Cauchy): a mirror, or what moves.

use crate::view::PhotoSource;
use dapple_base::Result;
use dapple_scene::{Camera, Photo};
use glam::{DMat4, DVec3, DVec4, Vec3};
use rayon::prelude::*;
use std::sync::Arc;

/// Cells of a grid along the longer side.
const CELLS: usize = 64;

/// Least coverage of a cell, and its least and largest colour, 0 to 1: clipped colours have lost their exposure.
const LEAST_ALPHA: f32 = 0.9;
const BOUNDS: [f32; 2] = [0.03, 0.97];

/// Least number of usable cells.
const LEAST_CELLS: usize = 24;

/// Weight of the identity, as a share of the sum of weights.
const TO_IDENTITY: f64 = 1e-3;

/// Difference of colours that halves the weight of a cell, 0 to 1.
const SPREAD: f64 = 0.05;

/// Solutions, each with weights by the one before.
const ROUNDS: usize = 12;

/// Mean colours and alphas of a grid of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    /// Colour, 0 to 1, and alpha of each cell, row by row.
    cells: Vec<([f32; 3], f32)>,
}

impl Reduced {
    /// Reduces a render: colours `[height, width, 3]`, 0 to 1, and alphas `[height, width]`.
    pub fn of_render(size: [usize; 2], rgb: &[f32], alpha: &[f32]) -> Self {
        let colour = |pixel: usize| [0, 1, 2].map(|k| rgb[3 * pixel + k].clamp(0.0, 1.0));
        Self::of(size, |pixel| (colour(pixel), alpha[pixel]))
    }

    /// Reduces a photo. Masked pixels have an alpha of 0.
    pub fn of_photo(photo: &Photo) -> Self {
        let size = [photo.width as usize, photo.height as usize];
        Self::of(size, |pixel| {
            let colour = [0, 1, 2].map(|k| f32::from(photo.rgb[3 * pixel + k]) / 255.0);
            let is_masked = photo.mask.as_ref().is_some_and(|mask| mask[pixel] == 0);
            (colour, if is_masked { 0.0 } else { 1.0 })
        })
    }

    fn of([width, height]: [usize; 2], pixel: impl Fn(usize) -> ([f32; 3], f32) + Sync) -> Self {
        let longer = width.max(height).max(1);
        let side = |pixels: usize| (pixels * CELLS).div_ceil(longer).clamp(1, pixels.max(1));
        let (columns, rows) = (side(width), side(height));
        let cell = |i: usize| {
            let (x, y) = (i % columns, i / columns);
            let (mut sum, mut alphas, mut count) = ([0.0f32; 3], 0.0f32, 0.0f32);
            for y in y * height / rows..(y + 1) * height / rows {
                for x in x * width / columns..(x + 1) * width / columns {
                    let (colour, alpha) = pixel(y * width + x);
                    for (sum, colour) in sum.iter_mut().zip(colour) {
                        *sum += colour;
                    }
                    alphas += alpha;
                    count += 1.0;
                }
            }
            let count = count.max(1.0);
            (sum.map(|s| s / count), alphas / count)
        };
        Self {
            cells: (0..columns * rows).into_par_iter().map(cell).collect(),
        }
    }
}

/// Affine map of colours, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColourMap {
    /// Red, green and blue of the result, as products with red, green, blue and one.
    rows: [DVec4; 3],
}

impl ColourMap {
    /// Map that changes nothing.
    pub const IDENTITY: Self = Self {
        rows: [DVec4::X, DVec4::Y, DVec4::Z],
    };

    /// Returns the map from the colours of a photo to those of a render of the same size; the identity if they have too
    /// little in common.
    pub fn between(photo: &Reduced, render: &Reduced) -> Self {
        let is_inside = |colour: &[f32; 3]| {
            let [low, high] = BOUNDS;
            colour.iter().all(|v| (low..=high).contains(v))
        };
        let pairs = photo.cells.iter().zip(&render.cells);
        let usable = pairs.filter(|((from, seen), (to, alpha))| {
            seen.min(*alpha) >= LEAST_ALPHA && is_inside(from) && is_inside(to)
        });
        let vector = |&[r, g, b]: &[f32; 3]| DVec3::new(r.into(), g.into(), b.into());
        let cells: Vec<(DVec3, DVec3)> = usable
            .map(|((from, _), (to, _))| (vector(from), vector(to)))
            .collect();
        if cells.len() < LEAST_CELLS {
            return Self::IDENTITY;
        }
        let mut map = Self::IDENTITY;
        for round in 0..ROUNDS {
            let weight = |&(from, to): &(DVec3, DVec3)| match round {
                // The first solution has no residuals yet.
                0 => 1.0,
                _ => 1.0 / (1.0 + (map.of(from) - to).length_squared() / (SPREAD * SPREAD)),
            };
            map = Self::solved(&cells, weight);
        }
        map
    }

    /// Solves the weighted least squares.
    fn solved(cells: &[(DVec3, DVec3)], weight: impl Fn(&(DVec3, DVec3)) -> f64) -> Self {
        let mut products = DMat4::ZERO;
        let mut targets = [DVec4::ZERO; 3];
        let mut total = 0.0;
        for cell in cells {
            let (weight, from) = (weight(cell), cell.0.extend(1.0));
            products += DMat4::from_cols(
                from * (weight * from.x),
                from * (weight * from.y),
                from * (weight * from.z),
                from * weight,
            );
            for (target, to) in targets.iter_mut().zip(cell.1.to_array()) {
                *target += from * (weight * to);
            }
            total += weight;
        }
        let pull = TO_IDENTITY * total;
        let inverse = (products + DMat4::from_diagonal(DVec4::splat(pull))).inverse();
        let mut rows = Self::IDENTITY.rows;
        for (row, target) in rows.iter_mut().zip(targets) {
            *row = inverse * (target + *row * pull);
        }
        let is_finite = rows.iter().all(|row| row.is_finite());
        if is_finite {
            Self { rows }
        } else {
            Self::IDENTITY
        }
    }

    /// Maps a colour.
    pub fn of(&self, colour: DVec3) -> DVec3 {
        let colour = colour.extend(1.0);
        DVec3::from_array(self.rows.map(|row| row.dot(colour)))
    }

    /// Maps the colours of a photo.
    pub fn photo(&self, photo: &Photo) -> Photo {
        let rows = self.rows.map(|row| row.as_vec4());
        let mut rgb = photo.rgb.clone();
        rgb.par_chunks_mut(3 << 14).for_each(|pixels| {
            for pixel in pixels.as_chunks_mut::<3>().0 {
                let colour = Vec3::from_array(pixel.map(f32::from)).extend(255.0);
                *pixel = super::to_bytes(Vec3::from_array(rows.map(|row| row.dot(colour))));
            }
        });
        Photo {
            rgb,
            ..photo.clone()
        }
    }
}

/// Photos in the colours of renders from their cameras.
pub struct Matched<'a> {
    photos: &'a dyn PhotoSource,
    /// Render of each photo.
    renders: Vec<&'a Reduced>,
}

impl<'a> Matched<'a> {
    /// Matches each photo to its render.
    pub fn new(photos: &'a dyn PhotoSource, renders: Vec<&'a Reduced>) -> Self {
        Self { photos, renders }
    }
}

impl PhotoSource for Matched<'_> {
    fn count(&self) -> usize {
        self.photos.count()
    }

    fn photo(&self, index: usize) -> Result<(Camera, Arc<Photo>)> {
        let (camera, photo) = self.photos.photo(index)?;
        let Some(render) = self.renders.get(index) else {
            return Ok((camera, photo));
        };
        let map = ColourMap::between(&Reduced::of_photo(&photo), render);
        Ok((camera, Arc::new(map.photo(&photo))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Colours that differ from cell to cell.
    fn picture(width: usize, height: usize) -> Vec<f32> {
        let wave = |i: usize, k: usize| 0.5 + 0.3 * ((0.013 * (k + 1) as f64 * i as f64).sin());
        (0..3 * width * height)
            .map(|i| wave(i / 3, i % 3) as f32)
            .collect()
    }

    /// A photo of the picture under another exposure and white balance, with a share of wrong pixels.
    fn exposed(rgb: &[f32], width: usize, height: usize, wrong: usize) -> Photo {
        let byte = |(i, v): (usize, &f32)| {
            let gain = [0.7, 0.8, 0.6][i % 3];
            match i / 3 < wrong {
                true => 230,
                false => ((gain * v + 0.05) * 255.0).round() as u8,
            }
        };
        let bytes = rgb.iter().enumerate().map(byte).collect();
        Photo::from_rgb(width as u32, height as u32, bytes)
    }

    #[test]
    fn photos_get_the_exposure_of_renders() {
        let (width, height) = (160, 120);
        let rgb = picture(width, height);
        let alpha = vec![1.0; width * height];
        let render = Reduced::of_render([width, height], &rgb, &alpha);
        // A tenth of the photo shows something else.
        for wrong in [0, width * height / 10] {
            let photo = exposed(&rgb, width, height, wrong);
            let map = ColourMap::between(&Reduced::of_photo(&photo), &render);
            let mapped = map.photo(&photo);
            let off = |i: usize| (f32::from(mapped.rgb[i]) - 255.0 * rgb[i]).abs();
            let mean =
                (3 * wrong..rgb.len()).map(off).sum::<f32>() / (rgb.len() - 3 * wrong) as f32;
            assert!(mean < 4.0, "{mean} of 255, {wrong} wrong pixels");
            let before = |i: usize| (f32::from(photo.rgb[i]) - 255.0 * rgb[i]).abs();
            let before = (3 * wrong..rgb.len()).map(before).sum::<f32>() / rgb.len() as f32;
            assert!(before > 20.0, "{before}");
        }
    }

    #[test]
    fn too_little_in_common_changes_nothing() {
        let (width, height) = (64, 48);
        let rgb = picture(width, height);
        let photo = exposed(&rgb, width, height, 0);
        let reduced = Reduced::of_photo(&photo);
        let empty = Reduced::of_render([width, height], &rgb, &vec![0.2; width * height]);
        assert_eq!(ColourMap::between(&reduced, &empty), ColourMap::IDENTITY);
        assert_eq!(ColourMap::IDENTITY.photo(&photo), photo);
    }
}

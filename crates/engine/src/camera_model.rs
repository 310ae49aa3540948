//! Camera models: how points of a camera's space become pixels, and what their depth is. One row a model.
//!
//! | model | pixel | depth | reference, CPU, GPU |
//! |---|---|---|---|
//! | [`CameraModel::Pinhole`] | (x/z, y/z) | z | `oracle/lens.rs`, `cameras/pinhole.rs`, `shared/pinhole.wgsl` |
//! | [`CameraModel::Lens`] | the same, distorted: [`crate::LensForm`] | z | `oracle/lens.rs`, `cameras/lens.rs`, `shared/lens.wgsl` |
//! | [`Panorama::Equirectangular`] | longitude atan2(x, z), latitude atan2(y, h) | distance | `oracle/panoramas/equirectangular.rs`, `cameras/equirectangular.rs`, `shared/equirectangular.wgsl` |
//! | [`Panorama::Cylindrical`] | longitude atan2(x, z), slope y / h | h | `oracle/panoramas/cylindrical.rs`, `cameras/cylindrical.rs`, `shared/cylindrical.wgsl` |
//!
//! For an equirectangular panorama, with r = (x^2 + y^2 + z^2)^1/2 and h = (x^2 + z^2)^1/2:
//! 1. In the orthonormal frame of the point, e_lon = (z, 0, -x) / h, e_lat = (h e_y - y e_h) / r with e_h = (x, 0, z) / h,
//!    and e_r = p / r, the rows of the Jacobian are `focal_x e_lon / b` and `focal_y e_lat / r`.
//! 2. b is h, but at least `c r`, c = [`least_cosine`]: the cosine of the latitude is bounded half a pixel before a pole.
//!    The bound holds for everything that moves with the longitude, so that no derivative exceeds `focal_x / (c r)`.
//! 3. Nothing is behind: the near plane is a sphere, and Gaussians are sorted by r.
//!
//! For a cylindrical panorama, with t = y / h: the rows of the Jacobian are `focal_x e_lon / h` and
//! `focal_y (e_y - t' e_h) / h`, with t' the slope within the limits of [`crate::slope_range`]. The near plane is a
//! cylinder: h is at least its radius, which bounds all derivatives at the vertical axis.
//!
//! The image of every panorama is a ring. A tile sees the copy of an ellipse that is nearest to the middle of the tile: [`nearest`]. A
//! tile sees one copy, so a Gaussian covers the whole width at most once: [`copies`].

use crate::constants::TILE_SIZE;
use dapple_scene::{Lens, Panorama};

/// Camera model of a view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum CameraModel {
    /// Perspective without distortion.
    #[default]
    Pinhole,
    /// Perspective through a lens that distorts.
    Lens,
    /// Panorama.
    Panorama(Panorama),
}

impl CameraModel {
    /// Returns the model of cameras with this lens.
    pub fn of(lens: &Lens) -> Self {
        match lens {
            Lens::Panorama(panorama) => Self::Panorama(*panorama),
            lens if lens.is_identity() => Self::Pinhole,
            _ => Self::Lens,
        }
    }

    /// Returns all models.
    pub fn all() -> impl Iterator<Item = Self> {
        let panoramas = Panorama::ALL.into_iter().map(Self::Panorama);
        [Self::Pinhole, Self::Lens].into_iter().chain(panoramas)
    }

    /// Returns true if the image is a ring: its left and right edges meet.
    pub fn is_ring(self) -> bool {
        matches!(self, Self::Panorama(_))
    }

    /// Returns [`Panorama::depth_height`] of a panorama, 0 of others.
    pub fn depth_height(self) -> f32 {
        match self {
            Self::Panorama(panorama) => panorama.depth_height(),
            _ => 0.0,
        }
    }
}

/// Returns the bound of the cosine of the latitude, from the vertical focal length: the angle of half a pixel.
pub fn least_cosine(focal_y: f32) -> f32 {
    0.5 / focal_y
}

/// Returns the column of an ellipse's centre, 0 to `width`, as seen from the tile whose first column is `corner`.
pub fn nearest(x: f32, corner: f32, width: f32) -> f32 {
    let (ahead, half) = (corner + 0.5 * TILE_SIZE as f32 - x, 0.5 * width);
    if ahead > half {
        x + width
    } else if ahead <= -half {
        x - width
    } else {
        x
    }
}

/// Returns the two columns at which tiles see an ellipse, and the number of tiles, from the left, that see the first.
pub fn copies(x: f32, width: f32, tiles_across: u32) -> ([f32; 2], u32) {
    let half = 0.5 * width;
    let first = if x < half { x } else { x - width };
    let tile = TILE_SIZE as f32;
    let count = ((first + half - 0.5 * tile) / tile).floor() + 1.0;
    (
        [first, first + width],
        (count.max(0.0) as u32).min(tiles_across),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tile_sees_the_nearest_copy() {
        for width in [64u32, 72, 250, 16] {
            let (tiles, size) = (width.div_ceil(TILE_SIZE), width as f32);
            for step in 0..=200u8 {
                let x = size * f32::from(step) / 200.0;
                let (columns, count) = copies(x, size, tiles);
                for tile in 0..tiles {
                    let corner = (tile * TILE_SIZE) as f32;
                    let copy = columns[usize::from(tile >= count)];
                    let off = (copy - nearest(x, corner, size)).abs();
                    assert!(off < 1e-3 * size, "{width} {x} {tile}");
                    let middle = corner + 0.5 * TILE_SIZE as f32;
                    assert!((middle - copy).abs() <= 0.5 * size + 8.0);
                }
            }
        }
    }

    #[test]
    fn lenses_have_their_models() {
        assert_eq!(
            CameraModel::of(&Lens::OpenCv([0.0; 4])),
            CameraModel::Pinhole
        );
        assert_eq!(CameraModel::of(&Lens::Fisheye([0.0; 4])), CameraModel::Lens);
        for panorama in Panorama::ALL {
            assert!(CameraModel::of(&Lens::Panorama(panorama)).is_ring());
        }
    }
}

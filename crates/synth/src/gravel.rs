//! [`SceneKind::Gravel`](super::SceneKind::Gravel): pebbles and sand, and a texture that makes toys as rough.
//!
//! Stones are placed from large to small: each size covers a part of the free area, and the finest all of the rest.
//! Each has a shade of its own, is darker towards its edge, and has a dark gap around it.

use super::material::{Material, srgb};
use super::noise::{cell, hash, noise};
use super::shapes::around;
use glam::{Vec2, Vec3A};

/// Distance between stones of a size, units, and the share of places that have one.
const SIZES: [(f32, f32); 4] = [(0.15, 0.45), (0.085, 0.6), (0.045, 0.75), (0.022, 1.0)];

/// Radius of a stone, and of the gap around it, as parts of that distance.
const STONE: f32 = 0.42;
const GAP: f32 = 0.5;
/// Half the gap between neighbours, as a fraction of that distance.
const JOINT: f32 = 0.1;

/// Paints the table. Its sides count as unrolled.
pub(super) fn table(p: Vec3A, top: bool) -> Material {
    let at = if top {
        Vec2::new(p.x, p.z)
    } else {
        Vec2::new(p.z.atan2(p.x) * around(p), p.y)
    };
    stones(at, srgb(0.34, 0.3, 0.28), srgb(0.92, 0.88, 0.82))
}

/// Paints the floor, which is further away: larger stones.
pub(super) fn floor(p: Vec3A) -> Material {
    let at = Vec2::new(p.x, p.z) / 1.6;
    stones(at, srgb(0.4, 0.3, 0.22), srgb(0.86, 0.76, 0.64))
}

/// Factor on the colour of a toy at a point.
pub(super) fn speckle(p: Vec3A) -> f32 {
    let grain = 0.5 * noise(p * 26.0) + 0.5 * noise(p * 58.0);
    // The mean of several random numbers is rarely far from 0.5.
    (0.8 + 2.2 * (grain - 0.5)).clamp(0.2, 1.4)
}

/// Paints stones of all sizes between two colours.
fn stones(at: Vec2, dark: Vec3A, light: Vec3A) -> Material {
    let gap = Material::matt(dark * 0.35);
    for (key, (size, share)) in (1..).zip(SIZES) {
        let found = cell(at / size, key);
        let [x, z] = found.square;
        if hash(x, z, 20 + key) > share || found.distance > GAP {
            continue;
        }
        if found.distance > STONE || found.second - found.distance < JOINT {
            return gap;
        }
        let shade = dark.lerp(light, hash(x, z, 30 + key));
        let tint = Vec3A::new(1.0, 0.9, 0.8).lerp(Vec3A::new(0.9, 0.98, 1.0), hash(x, z, 40 + key));
        let round = 1.0 - 0.5 * (found.distance / STONE).powi(2);
        return Material::matt(shade * tint * round);
    }
    gap
}

//! [`SceneKind::Plain`](super::SceneKind::Plain): the table and its toys, each in one even colour.

use super::material::{Material, srgb};
use super::shapes::{self, Object, Paint};
use glam::Vec3A;

/// Colours of the objects that are patterned in other scenes, sRGB.
const COLOURS: [[f32; 3]; 6] = [
    [0.86, 0.42, 0.36],
    [0.88, 0.74, 0.56],
    [0.45, 0.6, 0.74],
    [0.72, 0.64, 0.54],
    [0.56, 0.7, 0.56],
    [0.62, 0.54, 0.74],
];

/// Returns the toys; the pearls are unchanged.
pub(super) fn objects() -> Vec<Object> {
    let mut all = shapes::objects();
    for (object, [r, g, b]) in all.iter_mut().zip(COLOURS) {
        object.paint = Paint::Matt(srgb(r, g, b));
    }
    all
}

/// Paints the table's top, its rim and leg.
pub(super) fn table(top: bool) -> Material {
    Material::matt(if top {
        srgb(0.86, 0.84, 0.8)
    } else {
        srgb(0.6, 0.55, 0.5)
    })
}

pub(super) fn floor() -> Material {
    Material::matt(srgb(0.66, 0.64, 0.62))
}

/// Paints walls that grow lighter upwards. `p` is in units of the dome's radius.
pub(super) fn dome(p: Vec3A) -> Vec3A {
    srgb(0.7, 0.68, 0.66).lerp(srgb(0.8, 0.86, 0.92), 0.5 + 0.5 * p.y)
}

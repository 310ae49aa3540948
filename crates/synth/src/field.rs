//! [`SceneKind::Field`](super::SceneKind::Field): a meadow with houses, silos, trees and bushes.
//!
//! 1. Spots are on a spiral of golden angles, so that no two are close together. Some are inside the ring of the
//!    cameras, the others outside it.
//! 2. A fixed hash of a spot's number selects its object. Objects further out are larger, so that they remain visible.
//! 3. Paint: the ground's finer patterns end where the nearest cameras no longer resolve them. Further out they would
//!    flicker from photo to photo.

use super::material::{Material, srgb};
use super::noise::{fbm, hash, noise};
use super::setting::FLOOR;
use super::shapes::{Object, Paint, Shape, around};
use glam::{Mat3A, Vec2, Vec3A};
use std::f32::consts::{FRAC_PI_4, SQRT_2, TAU};

/// Number of spots inside the cameras' ring and beyond it, with their distances from the middle.
const NEAR: (usize, f32, f32) = (16, 2.0, 5.0);
const FAR: (usize, f32, f32) = (60, 12.0, 40.0);

/// Angle between a spot and the next, radians (Vogel 1979).
const GOLDEN_ANGLE: f32 = 2.399_963;

/// All objects of the field.
pub(super) fn objects() -> Vec<Object> {
    let rings = [(0, NEAR), (NEAR.0, FAR)];
    let spots = rings.into_iter().flat_map(|(first, (count, from, to))| {
        (0..count).map(move |i| {
            // Fewer per area further out.
            let t = (i as f32 + 0.5) / count as f32;
            (first + i, from + (to - from) * t.powf(0.65))
        })
    });
    spots
        .flat_map(|(index, distance)| build(index, distance))
        .collect()
}

/// Builds the objects on spot number `index`, at this distance from the middle.
fn build(index: usize, distance: f32) -> Vec<Object> {
    let random = |k: i32| hash(index as i32, k, 77);
    let size = (0.5 + 0.045 * distance) * (0.8 + 0.4 * random(1));
    let (turn, tint) = (random(2) * TAU, random(3));
    let parts = match random(4) {
        0.0..0.25 => house(size, tint),
        0.25..0.4 => silo(size, tint),
        0.4..0.75 => tree(size, tint),
        _ => bushes(size, tint),
    };
    let (z, x) = (index as f32 * GOLDEN_ANGLE).sin_cos();
    let spot = Vec3A::new(x * distance, FLOOR, z * distance);
    let stand = |Part(place, shape, paint): Part| {
        let place = Mat3A::from_rotation_y(turn) * Vec3A::from(place) * size;
        // The corners of the roof are above those of the walls.
        let corner = matches!(shape, Shape::Gem { .. });
        let turn = if corner { turn + FRAC_PI_4 } else { turn };
        // Rotation from scene to object coordinates, hence the opposite sign.
        let turn = Mat3A::from_rotation_y(-turn);
        Object::new((spot + place).to_array(), turn, shape, paint)
    };
    parts.into_iter().map(stand).collect()
}

/// A part of an object on a spot: its position relative to the spot, in units of the object's size, y up.
struct Part([f32; 3], Shape, Paint);

/// Builds a house, sunk into the ground by a quarter; the roof is the upper half of a flat octahedron.
fn house(size: f32, tint: f32) -> Vec<Part> {
    const HALF: f32 = 0.75;
    const EAVES: f32 = 1.15;
    let half = HALF * size;
    let walls = Shape::Block {
        half,
        round: 0.02 * size,
    };
    let roof = Shape::Gem {
        radius: SQRT_2 * EAVES * half,
        squash: 1.7,
    };
    let colour = srgb(0.9, 0.84, 0.7).lerp(srgb(0.7, 0.35, 0.3), tint);
    let tiles = srgb(0.66, 0.3, 0.22).lerp(srgb(0.35, 0.37, 0.42), (tint * 7.0).fract());
    vec![
        Part(
            [0.0, 0.5 * HALF, 0.0],
            walls,
            Paint::Boards { colour, half },
        ),
        Part([0.0, 1.5 * HALF, 0.0], roof, Paint::Tiles(tiles)),
    ]
}

/// Builds a can with a ball on it.
fn silo(size: f32, tint: f32) -> Vec<Part> {
    let can = Shape::Can {
        radius: 0.45 * size,
        half_height: size,
        round: 0.02 * size,
    };
    let lid = Shape::Ball(0.44 * size);
    let colour = srgb(0.8, 0.82, 0.84).lerp(srgb(0.8, 0.6, 0.4), tint);
    vec![
        Part([0.0, 0.9, 0.0], can, Paint::Sheet(colour)),
        Part([0.0, 1.88, 0.0], lid, Paint::Pearl(colour * 0.6)),
    ]
}

/// Builds a trunk with a large and a small crown.
fn tree(size: f32, tint: f32) -> Vec<Part> {
    let trunk = Shape::Can {
        radius: 0.14 * size,
        half_height: 0.75 * size,
        round: 0.03 * size,
    };
    let crown = |radius: f32| Shape::Ball(radius * size);
    let leaves = Paint::Leaves(srgb(0.3, 0.5, 0.2).lerp(srgb(0.75, 0.55, 0.15), tint * tint));
    vec![
        Part([0.0, 0.7, 0.0], trunk, Paint::Bark),
        Part([0.0, 1.85, 0.0], crown(0.75), leaves),
        Part([0.4, 1.4, 0.0], crown(0.5), leaves),
    ]
}

/// Builds two bushes and a pearl.
fn bushes(size: f32, tint: f32) -> Vec<Part> {
    let ball = |radius: f32| Shape::Ball(radius * size);
    let leaves = Paint::Leaves(srgb(0.22, 0.42, 0.24).lerp(srgb(0.5, 0.6, 0.25), tint));
    let pearl = srgb(0.85, 0.2, 0.15).lerp(srgb(0.2, 0.35, 0.8), (tint * 5.0).fract());
    vec![
        Part([0.0, 0.35, 0.0], ball(0.6), leaves),
        Part([0.75, 0.15, 0.0], ball(0.4), leaves),
        Part([0.0, 0.26, 0.9], ball(0.26), Paint::Pearl(pearl)),
    ]
}

/// Paints boards of different shades, with as many windows as fit, on walls of half that width. `p` is in the house's
/// own coordinates, as below.
pub(super) fn boards(p: Vec3A, colour: Vec3A, half: f32) -> Material {
    let (along, side) = if p.x.abs() > p.z.abs() {
        (p.z, p.x.signum())
    } else {
        (p.x, 2.0 * p.z.signum())
    };
    // A quarter of the height is below the ground.
    let wall = Vec2::new(2.0, 1.5) * half;
    let count = (wall / 0.8).round().max(Vec2::ONE);
    let place = (Vec2::new(along, p.y) + half - Vec2::new(0.0, 0.5 * half)) / wall * count;
    let reach = (place - place.floor() - 0.5).abs().max_element();
    if reach < 0.2 {
        return Material {
            albedo: srgb(0.16, 0.2, 0.28),
            gloss: 0.4,
            shininess: 40.0,
        };
    }
    if reach < 0.27 {
        return Material::matt(srgb(0.92, 0.9, 0.86));
    }
    let row = (p.y / 0.16).floor();
    let board = hash(row as i32, side as i32, 5);
    let joint = if p.y / 0.16 - row < 0.15 { 0.55 } else { 1.0 };
    Material::matt(colour * joint * (0.7 + 0.35 * board + 0.2 * (noise(p * 5.0) - 0.5)))
}

/// Paints rows of roof tiles.
pub(super) fn tiles(p: Vec3A, colour: Vec3A) -> Material {
    let row = (p.y / 0.12).floor();
    let along = (p.x.abs() - p.z.abs()) / 0.3 + 0.5 * row;
    let shade = hash(row as i32, along.floor() as i32, 3);
    let edge = if p.y / 0.12 - row < 0.25 { 0.5 } else { 1.0 };
    Material::matt(colour * edge * (0.6 + 0.7 * shade))
}

/// Paints sheet metal in rings, with rust.
pub(super) fn sheet(p: Vec3A, colour: Vec3A) -> Material {
    let angle = p.z.atan2(p.x);
    let ring = (p.y / 0.4).floor();
    let plate = hash(ring as i32, (angle * 1.5 + ring).floor() as i32, 9);
    let seam = if p.y / 0.4 - ring < 0.1 { 0.6 } else { 1.0 };
    let rust = ((fbm(p * Vec3A::new(4.0, 1.2, 4.0)) - 0.5) * 5.0).clamp(0.0, 1.0);
    let clean = colour * seam * (0.8 + 0.25 * plate);
    Material {
        albedo: clean.lerp(srgb(0.5, 0.28, 0.16), 0.7 * rust),
        gloss: 0.25,
        shininess: 18.0,
    }
}

/// Paints furrows along a trunk.
pub(super) fn bark(p: Vec3A) -> Material {
    let furrow = fbm(p * Vec3A::new(9.0, 1.5, 9.0));
    Material::matt(srgb(0.22, 0.17, 0.14).lerp(srgb(0.55, 0.45, 0.36), furrow))
}

/// Paints tufts of leaves with dark gaps.
pub(super) fn leaves(p: Vec3A, colour: Vec3A) -> Material {
    let tuft = ((fbm(p * 7.0) - 0.3) * 2.5).clamp(0.0, 1.0);
    let patch = 0.8 + 0.4 * noise(p * 1.1);
    Material::matt(colour * patch * (0.3 + 0.9 * tuft))
}

/// Paints grass: patches, tufts and blades, each only within the distance at which cameras resolve it.
pub(super) fn ground(p: Vec3A) -> Material {
    let r = around(p);
    // In photos 1000 pixels wide a pixel covers about r^2 / 2500 units of the ground along the line of
    // sight: waves fade out between 2.5 and 1.25 of those.
    let fine = |wave: f32, strength: f32, key: f32| {
        let seen = (2.0 - r * r / (1000.0 * wave)).clamp(0.0, 1.0);
        if seen == 0.0 {
            return 0.0;
        }
        let at = Vec3A::new(p.x / wave, key, p.z / wave);
        strength * seen * (noise(at) - 0.5)
    };
    let patch = ((noise(Vec3A::new(p.x / 5.0, 40.5, p.z / 5.0)) - 0.35) * 2.5).clamp(0.0, 1.0);
    let grass = srgb(0.36, 0.5, 0.2).lerp(srgb(0.66, 0.62, 0.34), patch);
    let shade = 1.0
        + fine(1.6, 0.7, 10.5)
        + fine(0.6, 0.7, 20.5)
        + fine(0.22, 0.9, 30.5)
        + fine(0.09, 0.9, 50.5)
        + fine(0.045, 0.9, 60.5);
    Material::matt(grass * shade.max(0.15))
}

//! [`SceneKind::City`](super::SceneKind::City): blocks of houses with streets between them. A unit is a metre.
//!
//! 1. Streets are at multiples of [`PITCH`] along both axes. A block has three by three lots with a house on most, or is
//!    a park. Trees stand at the kerbs and in parks, cars are parked along streets. A fixed hash of a lot's place selects
//!    everything, so that a larger city has the blocks of a smaller one.
//! 2. Houses and cars are boxes, crowns are balls: both are intersected exactly.
//! 3. A pattern fades to its mean where a pixel covers a part of its wave: see [`seen`].
//! 4. Half of the cameras follow the streets, half survey the city from above: [`pose`].

mod cameras;

pub(super) use cameras::pose;

use super::material::{Material, srgb};
use super::noise::{hash, noise};
use super::setting::FLOOR;
use super::shapes::{Object, Paint, Shape};
use glam::{Mat3A, Vec2, Vec3A};

/// Distance of one street's middle to the next.
pub(super) const PITCH: f32 = 32.0;

/// Half the width of a street, and of the street with its pavements.
const STREET: f32 = 4.0;
const PAVEMENT: f32 = 6.0;

/// Edge of a lot; three make the inner part of a block.
const LOT: f32 = (PITCH - 2.0 * PAVEMENT) / 3.0;

/// Height of a storey.
const STOREY: f32 = 3.2;

/// Most storeys of a house.
const MOST_STOREYS: f32 = 11.0;

/// Top of the highest thing.
pub(super) const HIGHEST: f32 = MOST_STOREYS * STOREY + 3.0;

/// Returns the corners of the city, x and z, between its outer streets.
pub(super) fn extent(blocks: u32) -> [f32; 2] {
    let before = (blocks / 2) as f32;
    [-before * PITCH, (blocks as f32 - before) * PITCH]
}

/// All objects of a city of `blocks` by `blocks` blocks.
pub(super) fn objects(blocks: u32) -> Vec<Object> {
    let first = -((blocks / 2) as i32);
    let all = first..first + blocks as i32;
    let mut objects = Vec::new();
    for z in all.clone() {
        for x in all.clone() {
            block(x, z, &mut objects);
        }
    }
    objects
}

/// Adds a block: its houses or its park, and trees and cars along its kerbs.
fn block(x: i32, z: i32, to: &mut Vec<Object>) {
    let corner = Vec2::new(x as f32, z as f32) * PITCH;
    let is_park = hash(x, z, 401) < 0.12;
    for i in 0..9 {
        let lot = [i % 3, i / 3];
        let place = Vec2::new(lot[0] as f32 + 0.5, lot[1] as f32 + 0.5) * LOT + PAVEMENT;
        let random = Hash(3 * x + lot[0], 3 * z + lot[1]);
        match is_park || random.of(1) < 0.1 {
            true => trees(corner + place, random, to),
            false => house(corner + place, random, to),
        }
    }
    for side in 0..4 {
        kerb(corner, side, Hash(7 * x + side, 11 * z + side), to);
    }
}

/// Fixed random numbers of a place.
#[derive(Clone, Copy)]
struct Hash(i32, i32);

impl Hash {
    /// Returns number `key`, 0 to 1.
    fn of(self, key: i32) -> f32 {
        hash(self.0, self.1, 500 + key)
    }

    fn between(self, key: i32, from: f32, to: f32) -> f32 {
        from + (to - from) * self.of(key)
    }
}

/// Adds a box whose lower side is at a height above the ground.
fn stand(at: Vec2, above: f32, half: [f32; 3], paint: Paint, to: &mut Vec<Object>) {
    let centre = [at.x, FLOOR + above + half[1], at.y];
    let shape = Shape::Box(Vec3A::from(half));
    to.push(Object::new(centre, Mat3A::IDENTITY, shape, paint));
}

fn house(at: Vec2, random: Hash, to: &mut Vec<Object>) {
    let storeys = 2.0 + (random.of(2) * random.of(3) * (MOST_STOREYS - 1.0)).floor();
    let half = [
        LOT * random.between(4, 0.42, 0.5),
        0.5 * STOREY * storeys,
        LOT * random.between(5, 0.42, 0.5),
    ];
    let walls = match random.of(6) {
        0.0..0.35 => srgb(0.72, 0.38, 0.28).lerp(srgb(0.55, 0.3, 0.25), random.of(7)),
        0.35..0.7 => srgb(0.9, 0.84, 0.7).lerp(srgb(0.75, 0.78, 0.8), random.of(7)),
        _ => srgb(0.62, 0.66, 0.7).lerp(srgb(0.8, 0.62, 0.42), random.of(7)),
    };
    let key = (random.of(8) * 4096.0) as i32;
    let paint = Paint::Facade { walls, half, key };
    stand(at, 0.0, half, paint, to);
    // Stairs or a machine on the roof.
    let room = Vec2::new(half[0], half[2]) - 1.3;
    let spot = Vec2::new(random.between(9, -1.0, 1.0), random.between(10, -1.0, 1.0));
    let roof = [
        random.between(11, 0.5, 1.1),
        random.between(12, 0.4, 1.2),
        0.8,
    ];
    let grey = Paint::Matt(srgb(0.7, 0.7, 0.68) * random.between(13, 0.5, 1.0));
    stand(at + spot * room, 2.0 * half[1], roof, grey, to);
}

/// Adds one or two trees on a lot.
fn trees(at: Vec2, random: Hash, to: &mut Vec<Object>) {
    let count = 1 + usize::from(random.of(20) < 0.6);
    for i in 0..count {
        let key = 30 * (i as i32 + 1);
        let shift = Vec2::new(
            random.between(key, -2.0, 2.0),
            random.between(key + 1, -2.0, 2.0),
        );
        tree(
            at + shift,
            random.between(key + 2, 0.9, 1.7),
            random.of(key + 3),
            to,
        );
    }
}

fn tree(at: Vec2, size: f32, tint: f32, to: &mut Vec<Object>) {
    let trunk = [0.12 * size, 1.1 * size, 0.12 * size];
    stand(at, 0.0, trunk, Paint::Bark, to);
    let leaves = Paint::Leaves(srgb(0.26, 0.46, 0.18).lerp(srgb(0.62, 0.55, 0.2), tint * tint));
    let crown = |x: f32, y: f32, radius: f32| {
        let centre = [at.x + x * size, FLOOR + y * size, at.y];
        Object::new(centre, Mat3A::IDENTITY, Shape::Ball(radius * size), leaves)
    };
    to.push(crown(0.0, 2.7, 1.1));
    to.push(crown(0.5, 2.1, 0.75));
}

/// Adds trees and parked cars along one side of a block.
fn kerb(corner: Vec2, side: i32, random: Hash, to: &mut Vec<Object>) {
    let (along, across) = match side % 2 {
        0 => (Vec2::X, Vec2::Y),
        _ => (Vec2::Y, Vec2::X),
    };
    let far = side >= 2;
    let at = |along_it: f32, from_street: f32| {
        let off = if far {
            PITCH - from_street
        } else {
            from_street
        };
        corner + along * along_it + across * off
    };
    for i in 0..2 {
        if random.of(40 + i) < 0.55 {
            let place = at(
                random.between(42 + i, 9.0, 14.0) + 9.0 * i as f32,
                STREET + 0.7,
            );
            tree(
                place,
                random.between(44 + i, 0.8, 1.1),
                random.of(46 + i),
                to,
            );
        }
        if random.of(50 + i) < 0.6 {
            let place = at(
                random.between(52 + i, 8.0, 13.0) + 10.0 * i as f32,
                STREET - 1.1,
            );
            car(place, along, random.of(54 + i), to);
        }
    }
}

fn car(at: Vec2, along: Vec2, tint: f32, to: &mut Vec<Object>) {
    let colour = match tint {
        0.0..0.3 => srgb(0.75, 0.12, 0.1),
        0.3..0.55 => srgb(0.12, 0.25, 0.6),
        0.55..0.8 => srgb(0.85, 0.85, 0.82),
        _ => srgb(0.15, 0.16, 0.17),
    };
    let half = |length: f32, height: f32, width: f32| {
        let flat = along * length + along.perp().abs() * width;
        [flat.x, height, flat.y]
    };
    stand(at, 0.25, half(2.0, 0.3, 0.85), Paint::Pearl(colour), to);
    let cabin = Paint::Pearl(srgb(0.1, 0.12, 0.15));
    stand(at, 0.85, half(1.1, 0.25, 0.75), cabin, to);
}

/// Returns the part of a pattern's contrast, 0 to 1, that is left where a pixel covers `footprint` units: all of it from
/// four pixels a wave on, nothing below two.
fn seen(wave: f32, footprint: f32) -> f32 {
    (0.5 * (wave / footprint.max(1e-6) - 2.0)).clamp(0.0, 1.0)
}

/// Paints walls with windows, shops below, and a roof. `p` is in the house's own coordinates.
pub(super) fn facade(
    p: Vec3A,
    (walls, half, key): (Vec3A, [f32; 3], i32),
    footprint: f32,
) -> Material {
    let half = Vec3A::from(half);
    let to_face = half - p.abs();
    if to_face.y < to_face.x.min(to_face.z) {
        return roof(p, half, key, footprint);
    }
    let (along, edge, side) = match to_face.x < to_face.z {
        true => (p.z, half.z, if p.x > 0.0 { 0 } else { 1 }),
        false => (p.x, half.x, if p.z > 0.0 { 2 } else { 3 }),
    };
    let above = p.y + half.y;
    let count = (2.0 * edge / 2.1).round().max(1.0);
    let column = (along / edge + 1.0) * 0.5 * count;
    let row = above / STOREY;
    let (in_column, in_row) = (column.fract() - 0.5, row.fract());
    let (column, row) = (column as i32, row as i32);
    // Bricks or boards, and stains.
    let grain = noise(Vec3A::new(p.x * 9.0, p.y * 14.0, p.z * 9.0)) - 0.5;
    let stain = noise(p * 0.7 + key as f32) - 0.5;
    let plain = 1.0 + 0.3 * grain * seen(0.2, footprint) + 0.25 * stain;
    let ledge = in_row < 0.06 && row > 0;
    let wall = walls
        * plain
        * if ledge {
            1.0 + 0.35 * seen(0.4, footprint)
        } else {
            1.0
        };
    let is_shop = row == 0;
    let (wide, low, high) = match is_shop {
        true => (0.42, 0.04, 0.8),
        false => (0.24 + 0.1 * hash(key, 1, 61), 0.28, 0.82),
    };
    let is_glass = in_column.abs() < wide && (low..high).contains(&in_row);
    let contrast = seen(1.3, footprint);
    let pane = hash(key + 31 * side, column, 63 + row);
    let glass = match (is_shop, pane) {
        (true, _) => srgb(0.25, 0.28, 0.3).lerp(srgb(0.8, 0.6, 0.3), pane * pane),
        (false, 0.75..) => srgb(0.75, 0.72, 0.62),
        (false, _) => srgb(0.1, 0.13, 0.18) * (0.6 + pane),
    };
    if !is_glass {
        let rim = in_column.abs() < wide + 0.05 && (low - 0.04..high + 0.03).contains(&in_row);
        let frame = srgb(0.9, 0.88, 0.84);
        let albedo = match rim {
            true => wall.lerp(frame, seen(0.3, footprint)),
            false => wall,
        };
        return Material::matt(albedo);
    }
    // The mean of wall and glass where a pixel covers whole windows.
    let mean = wall.lerp(srgb(0.22, 0.24, 0.27), 0.35);
    Material {
        albedo: mean.lerp(glass, contrast),
        gloss: 0.45 * contrast,
        shininess: 40.0,
    }
}

fn roof(p: Vec3A, half: Vec3A, key: i32, footprint: f32) -> Material {
    let rim = (half.x - p.x.abs()).min(half.z - p.z.abs());
    if rim < 0.3 {
        return Material::matt(srgb(0.82, 0.8, 0.76));
    }
    let tint = hash(key, 2, 67);
    let base = srgb(0.45, 0.42, 0.4).lerp(srgb(0.66, 0.36, 0.28), (tint * 3.0).floor() * 0.5);
    let felt = (p.x / 0.9).floor();
    let sheet = hash(felt as i32, key, 69) - 0.5;
    let grain = noise(Vec3A::new(p.x * 6.0, 3.0, p.z * 6.0)) - 0.5;
    let shade = 1.0 + 0.3 * sheet * seen(0.9, footprint) + 0.4 * grain * seen(0.3, footprint);
    Material::matt(base * shade)
}

/// Paints streets with their markings, pavements, yards, and grass around the city.
pub(super) fn ground(p: Vec3A, blocks: u32, footprint: f32) -> Material {
    let [low, high] = extent(blocks);
    let at = Vec2::new(p.x, p.z);
    // Distances from the middles of the nearest streets along z and along x.
    let off = at - (at / PITCH).round() * PITCH;
    let from = off.abs();
    let edge = low - STREET..high + STREET;
    if !(edge.contains(&at.x) && edge.contains(&at.y)) {
        let patch = noise(Vec3A::new(p.x / 9.0, 70.5, p.z / 9.0));
        let tuft = noise(Vec3A::new(p.x / 1.1, 71.5, p.z / 1.1)) - 0.5;
        let grass = srgb(0.34, 0.47, 0.2).lerp(srgb(0.6, 0.58, 0.32), patch);
        return Material::matt(grass * (1.0 + 0.6 * tuft * seen(1.1, footprint)));
    }
    if from.min_element() < STREET {
        return Material::matt(street(p, off, footprint));
    }
    if from.min_element() < PAVEMENT {
        let slab = (at / 0.8).floor();
        let shade = hash(slab.x as i32, slab.y as i32, 73) - 0.5;
        let joint = (at / 0.8 - slab).min_element() < 0.06;
        let kerb = if from.min_element() < STREET + 0.18 {
            1.25
        } else {
            1.0
        };
        let lines = if joint { -0.25 } else { 0.0 };
        let fine = seen(0.8, footprint);
        return Material::matt(
            srgb(0.66, 0.64, 0.62) * kerb * (1.0 + fine * (0.25 * shade + lines)),
        );
    }
    let patch = noise(Vec3A::new(p.x / 2.5, 75.5, p.z / 2.5));
    let grain = noise(Vec3A::new(p.x / 0.3, 76.5, p.z / 0.3)) - 0.5;
    let yard = srgb(0.5, 0.46, 0.38).lerp(
        srgb(0.33, 0.46, 0.22),
        ((patch - 0.3) * 3.0).clamp(0.0, 1.0),
    );
    Material::matt(yard * (1.0 + 0.5 * grain * seen(0.3, footprint)))
}

/// Paints asphalt, dashed middle lines and crossings. `off` are the places from the middles of the nearest streets.
fn street(p: Vec3A, off: Vec2, footprint: f32) -> Vec3A {
    let from = off.abs();
    let grain = noise(Vec3A::new(p.x / 0.12, 77.5, p.z / 0.12)) - 0.5;
    let patch = noise(Vec3A::new(p.x / 4.0, 78.5, p.z / 4.0)) - 0.5;
    let asphalt =
        srgb(0.36, 0.36, 0.38) * (1.0 + 0.35 * grain * seen(0.12, footprint) + 0.35 * patch);
    let white = srgb(0.92, 0.92, 0.9);
    // Across and along the street that this place is on.
    let (across, along, place) = match from.x < from.y {
        true => (off.x, from.y, p.z),
        false => (off.y, from.x, p.x),
    };
    if along < STREET {
        return asphalt;
    }
    let mark = |is_marked: bool, wave: f32| match is_marked {
        true => asphalt.lerp(white, 0.85 * seen(wave, footprint)),
        false => asphalt,
    };
    if along < STREET + 2.4 {
        let is_stripe = (across - 0.25).rem_euclid(1.0) < 0.5 && across.abs() < 3.5;
        return mark(is_stripe && along > STREET + 0.5, 0.5);
    }
    mark(
        across.abs() < 0.1 && (place / 4.0).rem_euclid(1.0) < 0.5,
        0.2,
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::light::Light;
    use super::super::random::Random;
    use super::super::scene::Scene;
    use super::super::setting::Site;
    use super::*;
    use crate::SceneKind;

    /// A random place in or above a city of three blocks, and a random direction.
    fn ray(random: &mut Random) -> (Vec3A, Vec3A) {
        let mut between = |from: f64, to: f64| random.uniform(from, to) as f32;
        let origin = Vec3A::new(
            between(-50.0, 80.0),
            between(-1.4, 60.0),
            between(-50.0, 80.0),
        );
        let along = Vec3A::new(between(-1.0, 1.0), between(-1.0, 0.4), between(-1.0, 1.0));
        (origin, along.normalize())
    }

    /// The lowest sun of [`LightKind::Sun`](crate::LightKind::Sun).
    fn low_sun() -> Light {
        let (y, level) = 0.6f32.sin_cos();
        Light {
            sun: Vec3A::new(0.6 * level, y, 0.8 * level),
            ..Light::default()
        }
    }

    #[test]
    fn rays_meet_the_same_with_and_without_the_grid() {
        let site = Site {
            kind: SceneKind::City,
            blocks: 3,
        };
        for light in [Light::default(), low_sun()] {
            let with = Scene::new(site, light);
            let without = Scene::new(site, light).without_grid();
            let mut random = Random::new(1, 2, 3);
            let (mut objects, mut shadows, mut corners) = (0, 0, 0);
            for _ in 0..4000 {
                let (origin, along) = ray(&mut random);
                let (hit, other) = (with.hit(origin, along), without.hit(origin, along));
                assert_eq!(format!("{hit:?}"), format!("{other:?}"), "{origin} {along}");
                objects += i32::from(!hit.is_surrounding());
                let p = origin + along * hit.distance;
                let normal = with.normal(p, hit);
                let (light, full) = (with.find_light(p, normal), without.find_light(p, normal));
                let apart = (light[0] - full[0]).abs();
                assert!(apart < 1e-3, "{light:?}, not {full:?} at {p}");
                assert_eq!(light[1], full[1], "openness at {p}");
                shadows += i32::from(light[0] < 0.5);
                corners += i32::from(light[1] < 0.9);
            }
            assert!(
                objects > 600 && shadows > 500 && corners > 50,
                "{objects} {shadows} {corners}"
            );
        }
    }

    #[test]
    fn a_larger_city_has_the_blocks_of_a_smaller_one() {
        let all = objects(4);
        let some = objects(2);
        assert!(some.len() > 100 && all.len() > 3 * some.len());
        let name = |object: &Object| format!("{object:?}");
        let all: std::collections::BTreeSet<String> = all.iter().map(name).collect();
        assert!(some.iter().all(|object| all.contains(&name(object))));
    }

    #[test]
    fn patterns_fade_where_pixels_are_large() {
        assert_eq!((seen(1.0, 0.1), seen(1.0, 0.6)), (1.0, 0.0));
        let half = [3.0, 8.0, 3.0];
        let paint = |x: f32, footprint: f32| {
            let walls = srgb(0.8, 0.4, 0.3);
            facade(Vec3A::new(x, 2.9, half[2]), (walls, half, 7), footprint).albedo
        };
        let spread = |footprint: f32| {
            let shades = (0..200).map(|i| paint(i as f32 * 0.025 - 2.5, footprint).x);
            let (low, high) =
                shades.fold((1.0f32, 0.0f32), |(low, high), v| (low.min(v), high.max(v)));
            high - low
        };
        assert!(spread(0.01) > 0.3 && spread(5.0) < 0.35 * spread(0.01));
    }
}

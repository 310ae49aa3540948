//! Random patterns of the textures, equal for all seeds.

use glam::{Vec2, Vec3A};

/// Sums three octaves of [`noise`], in 0..1.
pub(super) fn fbm(p: Vec3A) -> f32 {
    (noise(p) * 4.0 + noise(p * 2.03 + 17.0) * 2.0 + noise(p * 4.1 + 31.0)) / 7.0
}

/// Computes value noise in 0..1: random values at integer places, blended smoothly between them.
pub(super) fn noise(p: Vec3A) -> f32 {
    let cell = p.floor();
    let t = p - cell;
    let s = t * t * (Vec3A::splat(3.0) - 2.0 * t);
    let (x, y, z) = (cell.x as i32, cell.y as i32, cell.z as i32);
    let along_x = |dy: i32, dz: i32| {
        let (a, b) = (hash(x, y + dy, z + dz), hash(x + 1, y + dy, z + dz));
        a + (b - a) * s.x
    };
    let (a, b) = (along_x(0, 0), along_x(1, 0));
    let (c, d) = (along_x(0, 1), along_x(1, 1));
    let (near, far) = (a + (b - a) * s.y, c + (d - c) * s.y);
    near + (far - near) * s.z
}

/// Seed points nearest to a place (cell noise, Worley 1996).
pub(super) struct Cell {
    /// Distance to the nearest seed, and to the next one.
    pub(super) distance: f32,
    pub(super) second: f32,
    /// The square that contains the nearest seed.
    pub(super) square: [i32; 2],
}

/// Finds the nearest seeds. There is one seed at random in the inner part of each square of side 1; each `key` has
/// another pattern.
pub(super) fn cell(at: Vec2, key: i32) -> Cell {
    let home = at.floor();
    let mut found = Cell {
        distance: f32::INFINITY,
        second: f32::INFINITY,
        square: [0; 2],
    };
    for step in 0..9 {
        let corner = home + Vec2::new((step % 3) as f32 - 1.0, (step / 3) as f32 - 1.0);
        let square = [corner.x as i32, corner.y as i32];
        let [x, y] = [0, 1].map(|axis| 0.15 + 0.7 * hash(square[0], square[1], 2 * key + axis));
        let distance = at.distance(corner + Vec2::new(x, y));
        if distance < found.distance {
            found = Cell {
                distance,
                second: found.distance,
                square,
            };
        } else {
            found.second = found.second.min(distance);
        }
    }
    found
}

/// Returns a random number in 0..1 for a place.
pub(super) fn hash(x: i32, y: i32, z: i32) -> f32 {
    let mut h = (x as u32)
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add((y as u32).wrapping_mul(0x85eb_ca77))
        .wrapping_add((z as u32).wrapping_mul(0xc2b2_ae3d));
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    ((h ^ (h >> 15)) >> 8) as f32 / (1u32 << 24) as f32
}

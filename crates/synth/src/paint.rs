//! Procedural textures: the colour of a surface at a point, in linear light.
//!
//! This module has the textures of the table; `plain`, `gravel` and `field` have the others.
//!
//! Patterns have different frequencies and sharp and soft edges, so that a training run shows its resolution. The
//! finest regular ones are about 0.1 units: six pixels in a photo 320 pixels wide, so that photos do not alias.

use super::material::{Material, srgb};
use super::noise::{fbm, hash, noise};
use super::setting::Site;
use super::shapes::{Paint, around};
use super::{SceneKind, city, field, gravel, plain};
use glam::{Vec2, Vec3A};
use std::f32::consts::{PI, TAU};

/// Radius of the cloth on the table.
const CLOTH_RADIUS: f32 = 2.1;

/// Returns the material of an object at `p`, in its own coordinates. `footprint`: what a pixel covers, units; only the
/// patterns of a city fade with it.
pub(super) fn object(kind: SceneKind, paint: Paint, p: Vec3A, footprint: f32) -> Material {
    let material = pattern(paint, p, footprint);
    match kind {
        SceneKind::Gravel => Material {
            albedo: material.albedo * gravel::speckle(p),
            ..material
        },
        SceneKind::Table | SceneKind::Plain | SceneKind::Field | SceneKind::City => material,
    }
}

/// Paints the table at `p`; `top` is its upper side.
pub(super) fn table(kind: SceneKind, p: Vec3A, top: bool) -> Material {
    match kind {
        SceneKind::Table | SceneKind::Field | SceneKind::City => cloth(p, top),
        SceneKind::Plain => plain::table(top),
        SceneKind::Gravel => gravel::table(p, top),
    }
}

/// Paints the floor; `footprint` as in [`object`].
pub(super) fn floor(site: Site, p: Vec3A, footprint: f32) -> Material {
    match site.kind {
        SceneKind::Table => yard(p),
        SceneKind::Plain => plain::floor(),
        SceneKind::Gravel => gravel::floor(p),
        SceneKind::Field => field::ground(p),
        SceneKind::City => city::ground(p, site.blocks, footprint),
    }
}

/// Paints the inside of the dome. `p` is in units of its radius. Light, not reflectance.
pub(super) fn dome(kind: SceneKind, p: Vec3A) -> Vec3A {
    match kind {
        SceneKind::Table | SceneKind::Gravel => landscape(p, 1.0),
        SceneKind::Plain => plain::dome(p),
        SceneKind::Field => landscape(p, 0.4),
        SceneKind::City => landscape(p, 0.25),
    }
}

fn pattern(paint: Paint, p: Vec3A, footprint: f32) -> Material {
    match paint {
        Paint::BeachBall => beach_ball(p),
        Paint::Doughnut => doughnut(p),
        Paint::Block => block(p),
        Paint::Wood => Material {
            albedo: wood(p),
            gloss: 0.15,
            shininess: 20.0,
        },
        Paint::Spiral => spiral(p),
        Paint::Gem => {
            let bands = 0.5 + 0.5 * (14.0 * p.y + 5.0 * fbm(p * 3.0)).sin();
            let albedo = srgb(0.45, 0.2, 0.75).lerp(srgb(0.3, 0.75, 0.85), bands);
            Material {
                albedo,
                gloss: 0.6,
                shininess: 30.0,
            }
        }
        Paint::Pearl(albedo) => Material {
            albedo,
            gloss: 0.5,
            shininess: 40.0,
        },
        Paint::Matt(albedo) => Material::matt(albedo),
        Paint::Boards { colour, half } => field::boards(p, colour, half),
        Paint::Tiles(colour) => field::tiles(p, colour),
        Paint::Sheet(colour) => field::sheet(p, colour),
        Paint::Bark => field::bark(p),
        Paint::Leaves(colour) => field::leaves(p, colour),
        Paint::Facade { walls, half, key } => city::facade(p, (walls, half, key), footprint),
    }
}

/// Paints six coloured gores between white caps.
fn beach_ball(p: Vec3A) -> Material {
    const GORES: [[f32; 3]; 6] = [
        [0.93, 0.22, 0.2],
        [0.97, 0.95, 0.9],
        [0.98, 0.75, 0.15],
        [0.15, 0.55, 0.85],
        [0.97, 0.95, 0.9],
        [0.25, 0.7, 0.35],
    ];
    let turn = (p.z.atan2(p.x) / TAU).rem_euclid(1.0) * 6.0;
    let [r, g, b] = GORES[(turn as usize).min(5)];
    let seam = (turn.fract() - 0.5).abs() > 0.485;
    let latitude = p.normalize_or(Vec3A::Y).y.abs();
    let albedo = if latitude > 0.93 {
        srgb(0.97, 0.95, 0.9)
    } else if seam {
        srgb(0.6, 0.58, 0.55)
    } else {
        srgb(r, g, b)
    };
    Material {
        albedo: albedo * (0.92 + 0.08 * noise(p * 9.0)),
        gloss: 0.45,
        shininess: 36.0,
    }
}

/// Paints dough with a wavy icing and sprinkles.
fn doughnut(p: Vec3A) -> Material {
    let angle = p.z.atan2(p.x);
    let edge = 0.03 + 0.05 * (angle * 7.0).sin() + 0.03 * (angle * 3.0 + 1.0).sin();
    if p.y < edge {
        let crumb = 0.75 + 0.4 * noise(p * 9.0);
        return Material::matt(srgb(0.82, 0.56, 0.3) * crumb);
    }
    let icing = Material {
        albedo: srgb(0.95, 0.5, 0.65) * (0.9 + 0.15 * noise(p * 6.0)),
        gloss: 0.5,
        shininess: 32.0,
    };
    // One sprinkle in each cell of a grid around the ring, turned at random.
    let tube = p.y.atan2(around(p) - 0.5);
    let at = Vec2::new(angle * 0.5, tube * 0.27) / 0.105;
    let cell = at.floor();
    let random = |k: i32| hash(cell.x as i32, cell.y as i32, k);
    let turn = Vec2::from_angle(random(1) * PI);
    let centre = Vec2::splat(0.5) + 0.18 * (Vec2::new(random(2), random(3)) - 0.5);
    let local = turn.rotate(at - cell - centre);
    let capsule = Vec2::new((local.x.abs() - 0.2).max(0.0), local.y).length();
    if capsule > 0.13 || random(4) > 0.85 {
        return icing;
    }
    const SPRINKLES: [[f32; 3]; 4] = [
        [0.98, 0.95, 0.85],
        [0.25, 0.6, 0.9],
        [0.98, 0.85, 0.2],
        [0.35, 0.75, 0.4],
    ];
    let [r, g, b] = SPRINKLES[(random(5) * 4.0) as usize & 3];
    Material {
        albedo: srgb(r, g, b),
        ..icing
    }
}

/// Paints a toy block: another pattern on each pair of faces, inside a frame.
fn block(p: Vec3A) -> Material {
    let a = p.abs();
    let wood = srgb(0.85, 0.7, 0.48) * (0.85 + 0.2 * noise(p * Vec3A::new(3.0, 12.0, 3.0)));
    let (u, v, side) = if a.x >= a.y && a.x >= a.z {
        (p.y, p.z, 0)
    } else if a.y >= a.z {
        (p.x, p.z, 1)
    } else {
        (p.x, p.y, 2)
    };
    if u.abs().max(v.abs()) > 0.29 {
        return Material::matt(wood);
    }
    let albedo = match side {
        0 => {
            let odd = ((u / 0.145).floor() + (v / 0.145).floor()).rem_euclid(2.0) > 0.5;
            if odd {
                srgb(0.12, 0.35, 0.6)
            } else {
                srgb(0.92, 0.9, 0.82)
            }
        }
        1 => {
            let rings = (u.hypot(v) / 0.09).floor().rem_euclid(2.0) > 0.5;
            if rings {
                srgb(0.9, 0.88, 0.8)
            } else {
                srgb(0.85, 0.2, 0.2)
            }
        }
        _ => {
            let stripes = ((u + v) / 0.1).floor().rem_euclid(2.0) > 0.5;
            if stripes {
                srgb(0.95, 0.75, 0.2)
            } else {
                srgb(0.2, 0.5, 0.35)
            }
        }
    };
    Material::matt(albedo * (0.9 + 0.1 * noise(p * 12.0)))
}

/// Paints growth rings about an axis outside the piece.
fn wood(p: Vec3A) -> Vec3A {
    let r = Vec2::new(p.x + 0.15, p.z - 0.1).length() + 0.03 * fbm(p * 4.0);
    let ring = 0.5 + 0.5 * (r * 70.0).sin();
    let grain = noise(p * Vec3A::new(10.0, 2.5, 10.0));
    srgb(0.5, 0.28, 0.14).lerp(srgb(0.8, 0.55, 0.32), 0.6 * ring + 0.4 * grain)
}

/// Paints blue and white stripes that climb around a can; its lid shows a star of wedges.
fn spiral(p: Vec3A) -> Material {
    let angle = p.z.atan2(p.x) / TAU;
    let lid = p.y > 0.44;
    let turn = if lid {
        angle * 12.0
    } else {
        angle * 3.0 + p.y * 4.5
    };
    let stripe = turn.rem_euclid(1.0);
    let white = srgb(0.95, 0.94, 0.9);
    let albedo = match (stripe < 0.5, lid, stripe < 0.08) {
        (true, _, true) => srgb(0.85, 0.65, 0.2),
        (true, false, _) => srgb(0.15, 0.3, 0.65),
        (true, true, _) => srgb(0.15, 0.5, 0.5),
        (false, ..) => white,
    };
    Material {
        albedo: albedo * (0.88 + 0.12 * noise(p * 14.0)),
        gloss: 0.2,
        shininess: 24.0,
    }
}

/// Paints a gingham cloth with a border; the table's rim beyond it, its sides and leg are of wood.
fn cloth(p: Vec3A, top: bool) -> Material {
    let r = around(p);
    if r > CLOTH_RADIUS || !top {
        let along = Vec3A::new(p.x * 1.3, p.y * 8.0, p.z * 4.0);
        let grain = fbm(along);
        return Material::matt(srgb(0.42, 0.25, 0.14).lerp(srgb(0.66, 0.44, 0.26), grain));
    }
    let thread = |t: f32| {
        if (t / 0.36).rem_euclid(1.0) < 0.5 {
            1.0
        } else {
            0.0
        }
    };
    let weave = 0.86 + 0.2 * noise(p * 8.0);
    let inner = CLOTH_RADIUS - 0.22;
    if r > inner {
        let angle = p.z.atan2(p.x);
        let wave = inner + 0.11 + 0.05 * (angle * 26.0).sin();
        let near = (r - wave).abs() < 0.025;
        let hem = if near {
            srgb(0.95, 0.9, 0.8)
        } else {
            srgb(0.13, 0.25, 0.45)
        };
        return Material::matt(hem * weave);
    }
    let share = 0.5 * (thread(p.x) + thread(p.z));
    let cloth = srgb(0.95, 0.92, 0.86).lerp(srgb(0.78, 0.13, 0.15), share);
    Material::matt(cloth * weave)
}

/// Paints square tiles of different shades with joints between them.
fn yard(p: Vec3A) -> Material {
    let at = Vec2::new(p.x, p.z) / 1.3;
    let cell = at.floor();
    let inside = (at - cell - 0.5).abs().max_element() < 0.46;
    if !inside {
        return Material::matt(srgb(0.42, 0.4, 0.37));
    }
    let shade = hash(cell.x as i32, cell.y as i32, 7);
    let tile = srgb(0.62, 0.55, 0.46).lerp(srgb(0.42, 0.46, 0.48), shade);
    let marble = 0.75 + 0.5 * fbm(p * 1.2 + Vec3A::splat(9.0 * shade));
    Material::matt(tile * marble)
}

/// Paints sky, clouds, two ranges of hills, `height` times as high as around the table.
fn landscape(p: Vec3A, height: f32) -> Vec3A {
    let around = Vec2::new(p.x, p.z).normalize_or(Vec2::X);
    let ridge = |scale: f32, shift: f32| {
        let at = Vec3A::new(around.x * scale, shift, around.y * scale);
        0.7 * noise(at) + 0.3 * noise(at * 2.6)
    };
    let near = height * (-0.14 + 0.3 * ridge(2.5, 3.0));
    if p.y < near {
        let trees = fbm(p * Vec3A::new(22.0, 30.0, 22.0));
        return srgb(0.2, 0.33, 0.2).lerp(srgb(0.42, 0.55, 0.3), trees);
    }
    // Above the highest ridge there is only sky.
    if p.y < 0.34 * height && p.y < height * (-0.02 + 0.36 * ridge(4.0, 8.0)) {
        let rock = fbm(p * Vec3A::new(14.0, 9.0, 14.0));
        return srgb(0.4, 0.48, 0.6).lerp(srgb(0.62, 0.66, 0.72), rock);
    }
    let blue = (p.y * 1.6).clamp(0.0, 1.0).sqrt();
    let sky = srgb(0.98, 0.84, 0.68).lerp(srgb(0.4, 0.62, 0.88), blue);
    let cloud = ((fbm(p * Vec3A::new(4.0, 11.0, 4.0)) - 0.45) * 3.5).clamp(0.0, 1.0);
    sky.lerp(Vec3A::splat(0.93), 0.75 * cloud)
}

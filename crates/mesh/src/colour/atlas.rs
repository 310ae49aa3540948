//! Texture: charts packed into a page, colours of its texels.

use super::charts::{Chart, charts, each_texel};
use super::paint::{Spot, paint, to_bytes};
use super::unseen::Unseen;
use crate::mesh::{Mesh, Texture};
use crate::view::PhotoSource;
use crate::volume::ByLevel;
use dapple_base::{Error, Progress, Result};
use glam::{Vec2, Vec3};
use rayon::prelude::*;

/// Texels between charts, on each side.
const MARGIN: f32 = 2.0;

/// Steps of colours into the gaps between charts.
const DILATION: usize = 4;

/// Options of a texture.
#[derive(Debug, Clone, PartialEq)]
pub struct TextureOptions {
    /// Largest width and height, texels.
    pub most: u32,
    /// World units of a texel, unless the page is too small.
    pub texel: ByLevel,
    /// See [`paint`].
    pub tolerance: ByLevel,
}

/// Texture of a mesh, and facts about it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Textured {
    /// Charts.
    pub charts: usize,
    /// World units of a texel in the finest level.
    pub texel: f32,
    /// Share of the texels that a photo shows.
    pub seen: f32,
}

/// Gives a mesh a texture. The mesh needs normals.
///
/// # Errors
/// A page without place for all charts; see [`paint`].
pub fn texture(
    mesh: &mut Mesh,
    photos: &dyn PhotoSource,
    unseen: &Unseen,
    options: &TextureOptions,
    progress: &dyn Progress,
) -> Result<Textured> {
    let charts = charts(mesh, &options.texel);
    let (side, scale, places) = packed(&charts, options.most)?;
    let mut corners = vec![[Vec2::ZERO; 3]; mesh.triangles.len()];
    for (chart, place) in charts.iter().zip(&places) {
        for (&t, flat) in chart.triangles.iter().zip(&chart.corners) {
            corners[t as usize] = flat.map(|p| p * scale + *place + MARGIN);
        }
    }
    let texels = (side * side) as usize;
    let mut owner = vec![u32::MAX; texels];
    let mut owned = Vec::new();
    // Middles inside triangles first, then a rim for interpolation.
    for margin in [0.0, 0.35] {
        let found = texels_of(&corners, side, margin, &owner);
        for (texel, place) in found.into_iter().flatten() {
            if owner[texel as usize] == u32::MAX {
                owner[texel as usize] = owned.len() as u32;
                owned.push(place);
            }
        }
    }
    let spots = owned.par_iter();
    let spots: Vec<Spot> = spots
        .map(|&(t, weights)| spot(mesh, t as usize, weights))
        .collect();
    let (colours, seen) = paint(&spots, mesh, photos, &options.tolerance, progress)?;
    let mut rgb = vec![0u8; 3 * texels];
    let texels = rgb.as_chunks_mut::<3>().0.par_iter_mut().zip(&owner);
    texels
        .filter(|(_, spot)| **spot != u32::MAX)
        .for_each(|(texel, &spot)| {
            let spot = spot as usize;
            *texel = match seen[spot] {
                true => to_bytes(colours[spot]),
                false => unseen.at(spots[spot].position),
            };
        });
    let known: Vec<bool> = owner.iter().map(|&spot| spot != u32::MAX).collect();
    dilate(&mut rgb, known, side as usize);
    let size = side as f32;
    mesh.texture = Some(Texture {
        size: [side; 2],
        rgb,
        corners: corners.iter().map(|t| t.map(|p| p / size)).collect(),
    });
    let count = seen.iter().filter(|&&seen| seen).count();
    Ok(Textured {
        charts: charts.len(),
        texel: options.texel.finest() / scale,
        seen: count as f32 / spots.len().max(1) as f32,
    })
}

/// Triangles of one task.
const CHUNK: usize = 1 << 12;

/// Texel of a page, and the place that it shows: a triangle and barycentric coordinates.
type Texel = (u32, (u32, Vec3));

/// Lists the texels without an owner of all triangles on a page, in the order of the triangles.
fn texels_of(corners: &[[Vec2; 3]], side: u32, margin: f32, owner: &[u32]) -> Vec<Vec<Texel>> {
    let chunks = corners.par_chunks(CHUNK).enumerate();
    let found = chunks.map(|(chunk, corners)| {
        let mut found = Vec::new();
        for (t, flat) in (chunk * CHUNK..).zip(corners) {
            each_texel(flat, margin, |x, y, weights| {
                let is_inside = |v: i32| u32::try_from(v).is_ok_and(|v| v < side);
                if !is_inside(x) || !is_inside(y) {
                    return;
                }
                let texel = y as u32 * side + x as u32;
                if owner[texel as usize] == u32::MAX && is_near(flat, x, y, margin) {
                    found.push((texel, (t as u32, weights)));
                }
            });
        }
        found
    });
    found.collect()
}

/// Returns true if the middle of a texel is inside a triangle or, with a margin, within a texel and a half of it.
fn is_near(corners: &[Vec2; 3], x: i32, y: i32, margin: f32) -> bool {
    if margin <= 0.0 {
        return true;
    }
    let p = Vec2::new(x as f32 + 0.5, y as f32 + 0.5);
    let to_edge = |a: Vec2, b: Vec2| {
        let along = b - a;
        let share = ((p - a).dot(along) / along.length_squared().max(1e-12)).clamp(0.0, 1.0);
        p.distance(a + along * share)
    };
    let [a, b, c] = *corners;
    to_edge(a, b).min(to_edge(b, c)).min(to_edge(c, a)) <= 1.5
}

/// Returns the point of a triangle at barycentric coordinates, which are moved into the triangle.
fn spot(mesh: &Mesh, triangle: usize, weights: Vec3) -> Spot {
    let inside = weights.max(Vec3::ZERO);
    let inside = inside / inside.element_sum();
    let [a, b, c] = mesh.corners(triangle);
    let [n, m, o] = mesh.triangles[triangle].map(|i| mesh.normals[i as usize]);
    Spot {
        position: a * inside.x + b * inside.y + c * inside.z,
        normal: (n * inside.x + m * inside.y + o * inside.z).normalize_or(Vec3::Z),
    }
}

/// Packs charts in shelves. Returns the side of the page, the factor on the size of the charts, and the place of each.
fn packed(charts: &[Chart], most: u32) -> Result<(u32, f32, Vec<Vec2>)> {
    let mut order: Vec<usize> = (0..charts.len()).collect();
    order.sort_by(|&a, &b| {
        charts[b]
            .size
            .y
            .total_cmp(&charts[a].size.y)
            .then(a.cmp(&b))
    });
    let mut side = 256.min(most);
    while side < most {
        if let Some(places) = shelves(charts, &order, side, 1.0) {
            return Ok((side, 1.0, places));
        }
        side *= 2;
    }
    let mut scale = 1.0;
    while scale > 0.01 {
        if let Some(places) = shelves(charts, &order, most, scale) {
            return Ok((most, scale, places));
        }
        scale *= 0.96;
    }
    Err(Error::input(format!(
        "{} parts of the mesh do not fit a texture",
        charts.len()
    ))
    .at(format!("--texture-size {most}"))
    .hint("choose a larger texture, or fewer triangles: --triangles"))
}

fn shelves(charts: &[Chart], order: &[usize], side: u32, scale: f32) -> Option<Vec<Vec2>> {
    let mut places = vec![Vec2::ZERO; charts.len()];
    let (mut x, mut y, mut height) = (0.0, 0.0, 0.0f32);
    let side = side as f32;
    for &i in order {
        let size = (charts[i].size * scale).ceil() + 2.0 * MARGIN + 1.0;
        if x + size.x > side {
            (x, y, height) = (0.0, y + height, 0.0);
        }
        if size.x > side || y + size.y > side {
            return None;
        }
        places[i] = Vec2::new(x, y);
        x += size.x;
        height = height.max(size.y);
    }
    Some(places)
}

/// Spreads colours into unknown texels, a step of one texel at a time.
fn dilate(rgb: &mut [u8], mut known: Vec<bool>, side: usize) {
    let sides = |i: usize| {
        let (x, y) = (i % side, i / side);
        let sides = [
            (x > 0).then(|| i - 1),
            (x + 1 < side).then_some(i + 1),
            (y > 0).then(|| i - side),
            (y + 1 < side).then_some(i + side),
        ];
        sides.into_iter().flatten()
    };
    let all = (0..known.len()).into_par_iter();
    let mut rim: Vec<usize> = all.filter(|&i| !known[i]).collect();
    for _ in 0..DILATION {
        let colour = |&i: &usize| {
            let near = || sides(i).filter(|&j| known[j]);
            let count = near().count();
            let mean = |k: usize| {
                let sum: usize = near().map(|j| usize::from(rgb[3 * j + k])).sum();
                (sum / count) as u8
            };
            (count > 0).then(|| (i, [mean(0), mean(1), mean(2)]))
        };
        let found: Vec<(usize, [u8; 3])> = rim.par_iter().filter_map(colour).collect();
        for (i, colour) in found {
            rgb[3 * i..3 * i + 3].copy_from_slice(&colour);
            known[i] = true;
        }
        rim = rim.into_par_iter().filter(|&i| !known[i]).collect();
    }
}

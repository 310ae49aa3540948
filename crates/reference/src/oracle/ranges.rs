//! `ranges`: the Gaussians that a tile may blend. Only this part of the reference uses tiles,
//! because `max_gaussians_per_tile` is counted in them.
//!
//! The rule, exactly:
//! 1. The image is cut into tiles of 16 x 16 pixels from its top left corner.
//! 2. A Gaussian's ellipse is where its unclamped alpha is at least `ALPHA_MIN`:
//!    `power(p) <= ln(opacity / ALPHA_MIN)`.
//! 3. A tile's area is the rectangle of its pixel **centres**, `[x0 + 0.5, x1 - 0.5] x [y0 + 0.5,
//!    y1 - 0.5]`, where `x1`, `y1` are clipped to the image.
//! 4. A Gaussian is in the tile's list iff ellipse and area intersect (touching counts).
//! 5. The list is in depth order. Its first `max_gaussians_per_tile` Gaussians are blended in the
//!    tile's pixels, visible in a given pixel or not; 0 means all.
//!
//! Without a limit, the lists change nothing: a Gaussian that a pixel sees is in the list of its
//! tile.

use super::project::Projected;
use dapple_engine::constants::{ALPHA_MIN, TILE_SIZE};
use dapple_scene::Camera;
use glam::DVec2;

/// Closed rectangle of pixel coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PixelRect {
    /// Left, top.
    pub min: DVec2,
    /// Right, bottom.
    pub max: DVec2,
}

impl PixelRect {
    /// Returns the rectangle of pixel centres of a tile.
    pub fn of_tile(tile_x: u32, tile_y: u32, camera: &Camera) -> Self {
        let first = |tile: u32| f64::from(tile * TILE_SIZE) + 0.5;
        let last = |tile: u32, size: u32| f64::from(((tile + 1) * TILE_SIZE).min(size)) - 0.5;
        Self {
            min: DVec2::new(first(tile_x), first(tile_y)),
            max: DVec2::new(last(tile_x, camera.width), last(tile_y, camera.height)),
        }
    }
}

/// Returns the least `0.5 d^T conic d` over a rectangle. It is zero if the centre is inside. Else
/// the minimum is on the boundary (the form is convex), where it is a parabola along each edge.
pub fn least_power_in_rect(projected: &Projected, rect: PixelRect) -> f64 {
    let centre = projected.centre_from(rect.min.x);
    if centre.cmpge(rect.min).all() && centre.cmple(rect.max).all() {
        return 0.0;
    }
    let [a, b, c] = projected.conic;
    let (min, max) = (rect.min - centre, rect.max - centre);
    let power = |dx: f64, dy: f64| 0.5 * (a * dx * dx + c * dy * dy) + b * dx * dy;
    let mut least = f64::INFINITY;
    for dx in [min.x, max.x] {
        least = least.min(power(dx, (-b * dx / c).clamp(min.y, max.y)));
    }
    for dy in [min.y, max.y] {
        least = least.min(power((-b * dy / a).clamp(min.x, max.x), dy));
    }
    least
}

/// Returns true if the ellipse alpha = `ALPHA_MIN` and a rectangle intersect.
pub fn ellipse_touches_rect(projected: &Projected, rect: PixelRect) -> bool {
    least_power_in_rect(projected, rect) <= (projected.opacity / f64::from(ALPHA_MIN)).ln()
}

/// Lists of the visible Gaussians that the pixels of each tile may blend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TileLists {
    /// Number of tiles per row.
    pub tiles_x: u32,
    /// Number of tiles per column.
    pub tiles_y: u32,
    /// Positions in depth order, `[tiles_y, tiles_x]`.
    pub lists: Vec<Vec<usize>>,
}

impl TileLists {
    /// Returns the Gaussians that touch each tile, by the rule of this module, before any limit.
    pub fn touching(visible: &[Projected], camera: &Camera) -> Self {
        Self::with(camera, |rect| {
            (0..visible.len())
                .filter(|&i| ellipse_touches_rect(&visible[i], rect))
                .collect()
        })
    }

    /// Creates a list for each tile.
    fn with(camera: &Camera, list: impl Fn(PixelRect) -> Vec<usize>) -> Self {
        let tiles_x = camera.width.div_ceil(TILE_SIZE);
        let tiles_y = camera.height.div_ceil(TILE_SIZE);
        let tiles = (0..tiles_y).flat_map(|y| (0..tiles_x).map(move |x| (x, y)));
        Self {
            tiles_x,
            tiles_y,
            lists: tiles
                .map(|(x, y)| list(PixelRect::of_tile(x, y, camera)))
                .collect(),
        }
    }

    /// Returns the list of the tile that contains a pixel.
    pub fn at(&self, x: u32, y: u32) -> &[usize] {
        &self.lists[((y / TILE_SIZE) * self.tiles_x + x / TILE_SIZE) as usize]
    }
}

/// Returns the visible Gaussians that each tile may blend, in depth order: the first `cap` that
/// touch it, or all Gaussians if `cap` is 0.
pub fn ranges(visible: &[Projected], camera: &Camera, cap: u32) -> TileLists {
    if cap == 0 {
        return TileLists::with(camera, |_| (0..visible.len()).collect());
    }
    let mut tiles = TileLists::touching(visible, camera);
    for list in &mut tiles.lists {
        list.truncate(cap as usize);
    }
    tiles
}

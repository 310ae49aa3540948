// The tiles that a projected Gaussian touches: tiles whose rectangle of pixel centres meets the ellipse where alpha =
// ALPHA_MIN. Reference: dapple_reference::ranges. CPU version: cpu/src/stages/project.rs.
//
// For each tile row, the ellipse cut by the row's band of pixel centres is convex, so its projection to x is an
// interval, and the row's tiles are a span:
// 1. The chord at height dy from the centre has its middle at skew_x dy and half the width chord sqrt(1 - (dy /
//    radius.y)^2), where chord = sqrt(reach / -a).
// 2. Its right end is rightmost at dy = tip, where |x| = radius.x; within the band, at the height nearest to that. Its
//    left end mirrors it.
//
// In permutation RING the image is a ring: the tiles from the left see one copy of the ellipse, the others the next
// one (engine::camera_model), and each copy is listed among its tiles.
//
// In permutation CHOSEN_TILES a render has only some tiles: `project` counts and `emit` lists only these. The including
// shader binds tiles_before, the number of chosen tiles before each tile, total last.
//
// `project` counts with the functions that `emit` lists with, over numbers that splats2d holds exactly. Every sum of
// products is an explicit fma, so that no compiler contracts it in only one of the two. `emit` tolerates a difference
// nevertheless: see emit.wgsl.

// Sizes in tiles: 1 / TILE_SIZE, and the pixel centres next to a tile's edges.
const TILES_PER_PIXEL: f32 = 1.0 / f32(TILE_SIZE);
const FIRST_CENTRE: f32 = 0.5;
const LAST_CENTRE: f32 = f32(TILE_SIZE) - 0.5;

// Least -a and -c: the value of an ellipse 1e18 pixels wide. Keeps quotients finite.
const FORM_MIN: f32 = 1e-36;

struct Ellipse {
    mean: vec2f,
    radius: vec2f,
    skew: f32,
    chord: f32,
    tip: f32,
    // 1 / radius.y.
    inverse_height: f32,
    // Last pixel centre of the image, and its last tile column.
    last: vec2f,
    last_column: f32,
#if RING
    // First tile column that sees this copy.
    first_column: f32,
#endif
    // Tile rows that the ellipse may touch: first, and one past the last.
    first_row: u32,
    end_row: u32,
}

// Returns the first tile whose last pixel centre is not before `low`. Tile numbers are f32, not yet clamped.
fn first_tile(low: f32) -> f32 {
    return ceil((low - LAST_CENTRE) * TILES_PER_PIXEL);
}

// Returns the last tile whose first pixel centre is not beyond `high`.
fn last_tile(high: f32) -> f32 {
    return floor((high - FIRST_CENTRE) * TILES_PER_PIXEL);
}

// Returns the ellipse of a Gaussian, from the fields of its splat. `first_row == end_row` if it is off the image.
fn ellipse_of(
    mean: vec2f,
    a: f32,
    b: f32,
    c: f32,
    log2_opacity: f32,
    radius: vec2f,
    view: View,
) -> Ellipse {
    var e: Ellipse;
    e.mean = mean;
    e.radius = radius;
    let xx = max(-a, FORM_MIN);
    let yy = max(-c, FORM_MIN);
    e.skew = 0.5 * b / xx;
    e.chord = sqrt(reach(log2_opacity) / xx);
    e.tip = 0.5 * b / yy * radius.x;
    e.inverse_height = 1.0 / radius.y;
    let last = vec2f(view.size) - FIRST_CENTRE;
    e.last = last;
    e.last_column = f32(view.tiles.x - 1u);
#if RING
    let on_image = mean.y + radius.y >= FIRST_CENTRE && mean.y - radius.y <= last.y;
#else
    let on_image = all(mean + radius >= vec2f(FIRST_CENTRE)) && all(mean - radius <= last);
#endif
    let rows = f32(view.tiles.y);
    let first = clamp(first_tile(mean.y - radius.y), 0.0, rows);
    let end = clamp(last_tile(mean.y + radius.y) + 1.0, first, rows);
    e.first_row = select(0u, u32(first), on_image);
    e.end_row = select(0u, u32(end), on_image);
    return e;
}

// Returns half of the chord at a height.
fn half_chord(e: Ellipse, dy: f32) -> f32 {
    let t = dy * e.inverse_height;
    // 1 - t^2 in factors, because the difference cancels near the ends of the ellipse.
    return e.chord * sqrt(max((1.0 - t) * (1.0 + t), 0.0));
}

// Returns the first tile of the ellipse in a tile row, and the number of tiles.
fn row_span(e: Ellipse, row: u32) -> vec2u {
    let edge = f32(row * TILE_SIZE);
    let top = max(edge + FIRST_CENTRE - e.mean.y, -e.radius.y);
    let bottom = min(min(edge + LAST_CENTRE, e.last.y) - e.mean.y, e.radius.y);
    let right_at = clamp(e.tip, top, max(top, bottom));
    let left_at = clamp(-e.tip, top, max(top, bottom));
    let right = e.mean.x + fma(e.skew, right_at, half_chord(e, right_at));
    let left = e.mean.x + fma(e.skew, left_at, -half_chord(e, left_at));
#if RING
    let least = e.first_column;
#else
    let least = 0.0;
#endif
    let first = clamp(first_tile(left), least, e.last_column + 1.0);
    // -1 where the row's part is left of the image: the span is empty.
    let last = clamp(last_tile(right), least - 1.0, e.last_column);
    let is_there = bottom >= top && left <= e.last.x;
    let count = select(0.0, max(last - first + 1.0, 0.0), is_there);
    return vec2u(u32(first), u32(count));
}

#if RING
// Returns a copy of the ellipse: 0 = that of the tiles from the left, 1 = that of the others.
fn copy_of(e: Ellipse, copy: u32, view: View) -> Ellipse {
    let width = f32(view.size.x);
    let first = e.mean.x - select(width, 0.0, e.mean.x < 0.5 * width);
    let tiles = f32(view.tiles.x);
    let side = f32(TILE_SIZE);
    let count = clamp(floor((first + 0.5 * width - 0.5 * side) / side) + 1.0, 0.0, tiles);
    var out = e;
    out.mean.x = first + select(0.0, width, copy == 1u);
    out.first_column = select(0.0, count, copy == 1u);
    out.last_column = select(count, tiles, copy == 1u) - 1.0;
    return out;
}

fn count_tiles(e: Ellipse, view: View) -> u32 {
    return count_rows(copy_of(e, 0u, view)) + count_rows(copy_of(e, 1u, view));
}
#else
fn count_tiles(e: Ellipse, view: View) -> u32 {
    return count_rows(e);
}
#endif

#if CHOSEN_TILES
// Returns the number of chosen tiles of a row's span.
fn chosen_in(row: u32, span: vec2u) -> u32 {
    let first = row * views[step.view].tiles.x + span.x;
    return tiles_before[first + span.y] - tiles_before[first];
}
#endif

fn count_rows(e: Ellipse) -> u32 {
    var count = 0u;
    for (var row = e.first_row; row < e.end_row; row++) {
#if CHOSEN_TILES
        count += chosen_in(row, row_span(e, row));
#else
        count += row_span(e, row).y;
#endif
    }
    return count;
}

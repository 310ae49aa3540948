// The eight pixel blocks of a tile, 8 wide and 4 high: block b has its first pixel at x = 8 (b % 2), y = 4 (b / 2) of
// the tile, and lane l of it is the pixel (l % 8, l / 8) from there.
//
// `blend` and `blend_backward` skip a block that the ellipse of an instance does not reach. An instance reaches about
// three of a tile's eight blocks, so this saves most of the work. Both kernels compute the blocks and alpha with these
// functions. Every product that is added to something is an explicit fma, so that no compiler contracts it in only one
// of the kernels. The backward pass therefore has bit-identical alphas and the same ends as the forward pass.

const BLOCK_WIDTH: u32 = 8u;
const BLOCK_HEIGHT: u32 = 4u;
const BLOCK_PIXELS: u32 = BLOCK_WIDTH * BLOCK_HEIGHT;
const TILE_PIXELS: u32 = TILE_SIZE * TILE_SIZE;

// Pixel of a block, relative to the first pixel of the tile.
fn block_pixel(block: u32, lane: u32) -> vec2u {
    return vec2u(
        block % 2u * BLOCK_WIDTH + lane % BLOCK_WIDTH,
        block / 2u * BLOCK_HEIGHT + lane / BLOCK_WIDTH,
    );
}

// First pixel of a tile.
fn tile_corner(tile: u32, tiles_across: u32) -> vec2u {
    return vec2u(tile % tiles_across, tile / tiles_across) * TILE_SIZE;
}

// Terms of log2 of an instance's alpha that are constant along a column of pixels.
struct Column {
    dx: f32,
    // a dx^2 + log2_opacity.
    constant: f32,
    // b dx.
    slope: f32,
}

fn column_of(dx: f32, a: f32, b: f32, log2_opacity: f32) -> Column {
    return Column(dx, fma(a * dx, dx, log2_opacity), b * dx);
}

// Returns log2 of alpha before it is clamped: log2_opacity + a dx^2 + b dx dy + c dy^2.
fn exponent_at(column: Column, dy: f32, c: f32) -> f32 {
    return fma(fma(c, dy, column.slope), dy, column.constant);
}

// Returns alpha from its exponent, clamped; zero below ALPHA_MIN, and for NaN.
fn alpha_of(unclamped: f32, exponent: f32) -> f32 {
    return select(0.0, min(unclamped, ALPHA_MAX), exponent >= -LOG2_255);
}

// Least -a and -c, as in shared/tiles: keeps quotients finite.
const CURVATURE_MIN: f32 = 1e-36;

// Rounding error of the exponent per pixel. Its terms are at most 2 (|a| dx^2 + |c| dy^2) together. Each is off by less
// than 8 * 2^-24 of that: three roundings of its own, two of dx or dy each, and those of the sum.
const EXPONENT_ROUNDING: f32 = 1e-6;

// Error of the ends of chords, pixels: 1e-3, and a few roundings of their terms.
const CHORD_MARGIN: f32 = 1e-3;
const CHORD_ROUNDING: f32 = 1e-6;

// Returns a bit for each block of the tile that the ellipse alpha = ALPHA_MIN reaches, from the fields of a splat.
// Blocks are rectangles of pixel centres. A block too many costs time. A block too few loses pixels that the test per
// pixel would accept, so the ellipse is enlarged by the rounding error of that test. NaN reaches every block.
//
// For each of the four rows of blocks: the ellipse cut by the row's band is convex, so its projection to x is an
// interval (as in shared/tiles), and the interval meets the left block, the right block, both or neither. With the form
// A dx^2 - b dx dy + C dy^2 <= level, A = -a, C = -c:
// 1. The chord at height dy has its middle at skew dy, skew = b / 2A, and half its width is sqrt((level - D dy^2) / A),
//    where D = level / radius.y^2 does not cancel for needles.
// 2. Its right end is rightmost at dy = tip = (b / 2C) radius.x; in the band, at the height nearest to that. Its left
//    end mirrors it.
fn touched_blocks(
    mean: vec2f,
    form: vec3f,
    log2_opacity: f32,
    radius: vec2f,
    corner: vec2f,
) -> u32 {
    let curvature = max(-form.xz, vec2f(CURVATURE_MIN));
    // First and farthest pixel centre of the tile, relative to the centre of the Gaussian.
    let first = corner + 0.5 - mean;
    let far = max(abs(first), abs(first + f32(TILE_SIZE - 1u)));
    let level = reach(log2_opacity);
    let enlarged = fma(EXPONENT_ROUNDING, dot(curvature, far * far), level);
    let extent = radius * sqrt(enlarged / level);
    let margin = fma(vec2f(CHORD_ROUNDING), far + extent, vec2f(CHORD_MARGIN));

    let inverse = 1.0 / curvature.x;
    let skew = 0.5 * form.y * inverse;
    let tip = 0.5 * form.y / curvature.y * extent.x;
    let width2 = enlarged * inverse;
    let narrowing = level * inverse / (radius.y * radius.y);
    let height = extent.y + margin.y;

    var touched = 0u;
    for (var row = 0u; row < TILE_SIZE / BLOCK_HEIGHT; row++) {
        let edge = first.y + f32(row * BLOCK_HEIGHT);
        let top = max(edge, -height);
        let bottom = min(edge + f32(BLOCK_HEIGHT - 1u), height);
        let right_at = max(min(tip, bottom), top);
        let left_at = max(min(-tip, bottom), top);
        let right_half = sqrt(max(fma(-narrowing * right_at, right_at, width2), 0.0));
        let left_half = sqrt(max(fma(-narrowing * left_at, left_at, width2), 0.0));
        let right = fma(skew, right_at, right_half) + margin.x;
        let left = fma(skew, left_at, -left_half) - margin.x;
        // The comparison is negated so that NaN gives true.
        let is_reached = !(top > bottom);
        let last_left = first.x + f32(BLOCK_WIDTH - 1u);
        let first_right = first.x + f32(BLOCK_WIDTH);
        let last_right = first.x + f32(TILE_SIZE - 1u);
        let is_left = is_reached & !(right < first.x) & !(left > last_left);
        let is_right = is_reached & !(right < first_right) & !(left > last_right);
        touched |= select(0u, 1u, is_left) << (2u * row);
        touched |= select(0u, 2u, is_right) << (2u * row);
    }
    return touched;
}

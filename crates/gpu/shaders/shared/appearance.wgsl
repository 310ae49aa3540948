// Position of a pixel in the bilateral grid of its photo. Reference: dapple_reference::appearance.
//
// The grid has GRID_X x GRID_Y x GRID_L cells, [y][x][luminance], each an affine map of colours: three rows of (red,
// green, blue, 1). Constants GRID_* and LUMA_*: see features/appearance.rs.

const LUMA: vec3f = vec3f(LUMA_R, LUMA_G, LUMA_B);
const GRID_COLUMNS: u32 = GRID_X * GRID_Y;
// Rows of a view's grid.
const GRID_ROWS: u32 = 3u * GRID_COLUMNS * GRID_L;

// The two cells around a coordinate, and the fraction of the distance from the first to the next.
struct Place {
    first: u32,
    next: u32,
    part: f32,
}

fn place(at: f32, cells: u32) -> Place {
    let first = min(u32(max(at, 0.0)), max(cells, 2u) - 2u);
    return Place(first, min(first + 1u, cells - 1u), at - f32(first));
}

// Returns the coordinate of a pixel along an axis of the image, in cells.
fn along_image(pixel: u32, pixels: u32, cells: u32) -> f32 {
    return (f32(pixel) + 0.5) / f32(pixels) * f32(cells - 1u);
}

fn place_of_luminance(luminance: f32) -> Place {
    return place(clamp(luminance, 0.0, 1.0) * f32(GRID_L - 1u), GRID_L);
}

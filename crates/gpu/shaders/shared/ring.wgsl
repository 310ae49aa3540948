// In permutation RING the image is a ring: its left and right edges meet. A tile sees the copy of an ellipse that is nearest to
// its middle. CPU version: engine::camera_model.

// Returns a splat's first vector, with the column of its centre as seen from the tile whose first column is `corner`.
fn nearest_copy(s0: vec4f, corner: f32) -> vec4f {
    let width = f32(views[step.view].size.x);
    let ahead = corner + 0.5 * f32(TILE_SIZE) - s0.x;
    let shift = select(0.0, width, ahead > 0.5 * width) - select(0.0, width, ahead <= -0.5 * width);
    return vec4f(s0.x + shift, s0.yzw);
}

// Functions of a pinhole and of a camera with a lens that distorts: depth along z, and slopes.

fn camera_depth(point: vec3f) -> f32 {
    return point.z;
}

// Returns the derivative of the depth by the point in the world.
fn depth_row(point: vec3f, view: View) -> vec3f {
    return view.row2.xyz;
}

// Adds the derivative by the depth to `d_point`, that by the point in camera coordinates.
fn with_depth(d_point: vec3f, by_depth: f32, point: vec3f) -> vec3f {
    return vec3f(d_point.xy, d_point.z + by_depth);
}

// Computes the slopes of `p`'s point.
fn slopes_of(p: ptr<function, Projection>, view: View) {
    (*p).inverse_z = 1.0 / (*p).point.z;
    (*p).uv = (*p).point.xy * (*p).inverse_z;
    (*p).uv_clamped = clamp((*p).uv, view.jacobian_min, view.jacobian_max);
}

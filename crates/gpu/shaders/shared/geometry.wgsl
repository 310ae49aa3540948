// Parameters of a Gaussian. The importing shader declares `geometry: array<f32>`, and imports shared/planes.

fn geometry_at(plane: u32, i: u32, capacity: u32) -> f32 {
    return geometry[plane * capacity + i];
}

fn geometry3(plane: u32, i: u32, capacity: u32) -> vec3f {
    let at = plane * capacity + i;
    return vec3f(geometry[at], geometry[at + capacity], geometry[at + 2u * capacity]);
}

// Returns the matrix of a unit quaternion (w, x, y, z), by columns.
fn rotation_of(quat: vec4f) -> mat3x3f {
    let w = quat.x;
    let x = quat.y;
    let y = quat.z;
    let z = quat.w;
    return mat3x3f(
        vec3f(1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)),
        vec3f(2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)),
        vec3f(2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)),
    );
}

// Returns 1 for the axis along which a Gaussian is thinnest, the first of equal axes.
fn thinnest(log_scales: vec3f) -> vec3f {
    let first = min(log_scales.x, log_scales.y);
    if log_scales.z < first {
        return vec3f(0.0, 0.0, 1.0);
    }
    return select(vec3f(1.0, 0.0, 0.0), vec3f(0.0, 1.0, 0.0), log_scales.y < log_scales.x);
}

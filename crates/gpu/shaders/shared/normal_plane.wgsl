// The plane that a Gaussian stands for in the loss of normals: engine::features::normals.

struct NormalPlane {
    // Number of the shortest axis, and -1 if the axis points away from the camera, else 1.
    axis: u32,
    direction: f32,
    // Towards the camera, camera coordinates.
    normal: vec3f,
}

// `rotation` is that of the Gaussian, by columns; `point` its centre in camera coordinates.
fn normal_plane(log_scales: vec3f, rotation: mat3x3f, point: vec3f, view: View) -> NormalPlane {
    var axis = select(0u, 1u, log_scales.y < log_scales.x);
    axis = select(axis, 2u, log_scales.z < min(log_scales.x, log_scales.y));
    let world = rotation[axis];
    let along = vec3f(
        dot(view.row0.xyz, world),
        dot(view.row1.xyz, world),
        dot(view.row2.xyz, world),
    );
    let direction = select(1.0, -1.0, dot(along, point) > 0.0);
    return NormalPlane(axis, direction, direction * along);
}

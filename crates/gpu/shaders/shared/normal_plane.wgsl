// The plane that a Gaussian stands for in the loss of normals: engine::features::normals. The importing shader imports
// shared/centre and shared/geometry.

struct NormalPlane {
    // The thinnest axis: 1 for it, or -1 if it points away from the camera; 0 for the others.
    axis: vec3f,
    // Towards the camera, camera coordinates.
    normal: vec3f,
}

// `rotation` is that of the Gaussian, by columns; `point` its centre in camera coordinates.
fn normal_plane(log_scales: vec3f, rotation: mat3x3f, point: vec3f, view: View) -> NormalPlane {
    let axis = thinnest(log_scales);
    let along = row_in_camera(rotation * axis, view);
    let direction = select(1.0, -1.0, dot(along, point) > 0.0);
    return NormalPlane(direction * axis, direction * along);
}

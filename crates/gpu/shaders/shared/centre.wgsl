// Coordinates of the world and of a camera.

// Returns a row in the world of a row in camera coordinates.
fn row_in_world(row: vec3f, view: View) -> vec3f {
    return row.x * view.row0.xyz + (row.y * view.row1.xyz + row.z * view.row2.xyz);
}

// Returns a row in camera coordinates of a row in the world.
fn row_in_camera(row: vec3f, view: View) -> vec3f {
    return vec3f(dot(view.row0.xyz, row), dot(view.row1.xyz, row), dot(view.row2.xyz, row));
}

// Returns the centre of a Gaussian in camera coordinates: step 1 of shared/projection.
fn to_camera(mean: vec3f, view: View) -> vec3f {
    let centre_rest = vec3f(view.row0.w, view.row1.w, view.row2.w);
    return row_in_camera((mean - view.centre.xyz) - centre_rest, view);
}

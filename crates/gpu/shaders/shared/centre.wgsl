// Returns the centre of a Gaussian in camera coordinates: step 1 of shared/projection.

fn to_camera(mean: vec3f, view: View) -> vec3f {
    let centre_rest = vec3f(view.row0.w, view.row1.w, view.row2.w);
    let from_camera = (mean - view.centre.xyz) - centre_rest;
    return vec3f(
        dot(view.row0.xyz, from_camera),
        dot(view.row1.xyz, from_camera),
        dot(view.row2.xyz, from_camera),
    );
}

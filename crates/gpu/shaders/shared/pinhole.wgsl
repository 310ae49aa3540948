// Pinhole: u = x / z, v = y / z; centre = (fx u + cx, fy v + cy); T's rows are focal / z (R_a - uv_a R_2). See
// engine::camera_model. CPU version: cpu/src/cameras/pinhole.rs. Reference: dapple_reference::Pinhole.
#import shared/perspective

// Returns true if the camera shows a point of positive depth.
fn camera_shows(point: vec3f) -> bool {
    return true;
}

// From `p`'s point: its centre on the image and the rows of T.
fn camera_project(p: ptr<function, Projection>, view: View) {
    slopes_of(p, view);
    (*p).mean2d = fma((*p).uv, view.focal, view.principal);
    let factor = view.focal * (*p).inverse_z;
    (*p).t0 = (view.row0.xyz - (*p).uv_clamped.x * view.row2.xyz) * factor.x;
    (*p).t1 = (view.row1.xyz - (*p).uv_clamped.y * view.row2.xyz) * factor.y;
}

// The chain rule through `camera_project`, from dL/dcentre and dL/dT.
fn camera_backward(p: Projection, view: View, d_mean2d: vec2f, dt0: vec3f, dt1: vec3f) -> CameraGradient {
    let factor = view.focal * p.inverse_z;
    // A clamped position of the Jacobian has no derivative.
    let inside = (p.uv >= view.jacobian_min) & (p.uv <= view.jacobian_max);
    let through_jacobian = -vec2f(dot(view.row2.xyz, dt0), dot(view.row2.xyz, dt1)) * factor;
    let duv = d_mean2d * view.focal + select(vec2f(0.0), through_jacobian, inside);
    let dz = -(dot(p.t0, dt0) + dot(p.t1, dt1)) - dot(duv, p.uv);

    // By R's rows; turned, row 0 becomes omega_y R_2 - omega_z R_1, and cyclic.
    let d0 = dt0 * factor.x;
    let d1 = dt1 * factor.y;
    let d2 = -(p.uv_clamped.x * d0 + p.uv_clamped.y * d1);
    return CameraGradient(
        vec3f(duv, dz) * p.inverse_z,
        vec3f(
            dot(d2, view.row1.xyz) - dot(d1, view.row2.xyz),
            dot(d0, view.row2.xyz) - dot(d2, view.row0.xyz),
            dot(d1, view.row0.xyz) - dot(d0, view.row1.xyz),
        ),
    );
}

// Projection through a lens that distorts, forward and backward: permutation LENS. shared/lens_jet has the place of a ray
// and its derivatives.
// 5. centre = focal place(a, b) + principal; T = focal D (R_k - c_k R_2) / z, where D is the derivative of the place at
//    the clamped slopes c.
// CPU version: cpu/src/cameras/lens.rs. Reference: dapple_reference::distort.
//
// The importing shader declares `lenses: array<Lens>`, an entry a view.
#import shared/lens_jet
#import shared/perspective

// Returns true if the lens shows a point before the camera.
fn camera_shows(point: vec3f) -> bool {
    let slope = point.xy * (1.0 / point.z);
    return dot(slope, slope) <= lenses[view_number()].reach;
}

// Step 5, from `p`'s point: its centre and the rows of T.
fn camera_project(p: ptr<function, Projection>, view: View) {
    slopes_of(p, view);
    let lens = lenses[view_number()];
    let shape = lens_jet(lens, (*p).uv_clamped);
    let ra = (view.row0.xyz - (*p).uv_clamped.x * view.row2.xyz) * (*p).inverse_z;
    let rb = (view.row1.xyz - (*p).uv_clamped.y * view.row2.xyz) * (*p).inverse_z;
    (*p).mean2d = fma(lens_jet(lens, (*p).uv).place, view.focal, view.principal);
    (*p).t0 = view.focal.x * (shape.da.x * ra + shape.db.x * rb);
    (*p).t1 = view.focal.y * (shape.da.y * ra + shape.db.y * rb);
}

// The chain rule through step 5, from dL/dcentre and dL/dT.
fn camera_backward(p: Projection, view: View, d_mean2d: vec2f, dt0: vec3f, dt1: vec3f) -> CameraGradient {
    let lens = lenses[view_number()];
    let at = lens_jet(lens, p.uv);
    let shape = lens_jet(lens, p.uv_clamped);
    let ra = (view.row0.xyz - p.uv_clamped.x * view.row2.xyz) * p.inverse_z;
    let rb = (view.row1.xyz - p.uv_clamped.y * view.row2.xyz) * p.inverse_z;
    let ft0 = view.focal.x * dt0;
    let ft1 = view.focal.y * dt1;
    // To the rows, and to D: T_i = f_i (D_ia P_a + D_ib P_b).
    let dra = shape.da.x * ft0 + shape.da.y * ft1;
    let drb = shape.db.x * ft0 + shape.db.y * ft1;
    let d_da = vec2f(dot(ft0, ra), dot(ft1, ra));
    let d_db = vec2f(dot(ft0, rb), dot(ft1, rb));
    // To the slopes that D and the rows are taken at; clamped ones do not move.
    let through_shape = vec2f(
        dot(d_da, shape.daa) + dot(d_db, shape.dab),
        dot(d_da, shape.dab) + dot(d_db, shape.dbb),
    );
    let through_rows = -vec2f(dot(view.row2.xyz, dra), dot(view.row2.xyz, drb)) * p.inverse_z;
    let inside = (p.uv >= view.jacobian_min) & (p.uv <= view.jacobian_max);
    // And to the slopes of the centre.
    let fc = d_mean2d * view.focal;
    let duv = select(vec2f(0.0), through_shape + through_rows, inside)
        + vec2f(dot(fc, at.da), dot(fc, at.db));
    let dz = -(dot(ra, dra) + dot(rb, drb) + dot(duv, p.uv));

    // By R's rows; turned, row 0 becomes omega_y R_2 - omega_z R_1, and cyclic.
    let d0 = dra * p.inverse_z;
    let d1 = drb * p.inverse_z;
    let d2 = -(p.uv_clamped.x * d0 + p.uv_clamped.y * d1);
    return CameraGradient(
        vec3f(duv * p.inverse_z, dz * p.inverse_z),
        vec3f(
            dot(d2, view.row1.xyz) - dot(d1, view.row2.xyz),
            dot(d0, view.row2.xyz) - dot(d2, view.row0.xyz),
            dot(d1, view.row0.xyz) - dot(d0, view.row1.xyz),
        ),
    );
}

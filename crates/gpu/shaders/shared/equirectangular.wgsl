// Panorama of all directions: longitude across, latitude down. Formulas: engine::camera_model. CPU version:
// cpu/src/cameras/equirectangular.rs. Reference: panoramas/equirectangular.rs.
// 1. Angles: shared/angle.
// 2. Rows of J: focal_x e_lon / b and focal_y e_lat / r, b = max(h, c r). T = J R.
// 3. Backward, with G the derivatives by the rows of J: the frame turns with longitude and latitude, and b and r move.
#import shared/angle

// Frame of a point: unit vectors, and the lengths of step 2.
struct Frame {
    e_lon: vec3f,
    e_lat: vec3f,
    e_r: vec3f,
    // Direction of the longitude, level.
    e_h: vec3f,
    h: f32,
    // Sine of the latitude.
    sine: f32,
    inverse_r: f32,
    inverse_b: f32,
    // Derivative of b by the point.
    b_gradient: vec3f,
}

fn frame_of(point: vec3f, view: View) -> Frame {
    let least_cosine = 0.5 / view.focal.y;
    let h2 = fma(point.x, point.x, point.z * point.z);
    let r = sqrt(fma(point.y, point.y, h2));
    let h = sqrt(h2);
    let inverse_r = 1.0 / max(r, LENGTH_MIN);
    let inverse_h = 1.0 / max(h, LENGTH_MIN);
    let sin_lon = select(0.0, point.x * inverse_h, LENGTH_MIN < h);
    let cos_lon = select(1.0, point.z * inverse_h, LENGTH_MIN < h);
    let sine = point.y * inverse_r;
    let bound = least_cosine * r;
    let e_r = point * inverse_r;
    let e_h = vec3f(sin_lon, 0.0, cos_lon);
    return Frame(
        vec3f(cos_lon, 0.0, -sin_lon),
        vec3f(-(sine * sin_lon), h * inverse_r, -(sine * cos_lon)),
        e_r,
        e_h,
        h,
        sine,
        inverse_r,
        1.0 / max(max(h, bound), LENGTH_MIN),
        select(least_cosine * e_r, e_h, bound < h),
    );
}

fn camera_depth(point: vec3f) -> f32 {
    return sqrt(dot(point, point));
}

// Returns the derivative of the depth by the point in the world.
fn depth_row(point: vec3f, view: View) -> vec3f {
    return row_in_world(point / camera_depth(point), view);
}

// Adds the derivative by the depth to `d_point`, that by the point in camera coordinates.
fn with_depth(d_point: vec3f, by_depth: f32, point: vec3f) -> vec3f {
    return d_point + by_depth / camera_depth(point) * point;
}

// Returns true if the camera shows a point of positive depth.
fn camera_shows(point: vec3f) -> bool {
    return true;
}

// From `p`'s point: its centre on the image and the rows of T.
fn camera_project(p: ptr<function, Projection>, view: View) {
    let point = (*p).point;
    let f = frame_of(point, view);
    let place = vec2f(angle_of(point.x, point.z), angle_of(point.y, f.h));
    (*p).mean2d = fma(place, view.focal, view.principal);
    (*p).t0 = row_in_world(f.e_lon * (view.focal.x * f.inverse_b), view);
    (*p).t1 = row_in_world(f.e_lat * (view.focal.y * f.inverse_r), view);
}

// The chain rule through `camera_project`, from dL/dcentre and dL/dT.
fn camera_backward(p: Projection, view: View, d_mean2d: vec2f, dt0: vec3f, dt1: vec3f) -> CameraGradient {
    let f = frame_of(p.point, view);
    let j0 = f.e_lon * (view.focal.x * f.inverse_b);
    let j1 = f.e_lat * (view.focal.y * f.inverse_r);
    let g0 = row_in_camera(dt0, view);
    let g1 = row_in_camera(dt1, view);
    // Factors of e_lon, e_lat, e_r and the derivative of b.
    let across = view.focal.x * f.inverse_b * f.inverse_b;
    let down = view.focal.y * f.inverse_r;
    let lon = -(dot(g0, f.e_h) * across) - down * f.sine * dot(g1, f.e_lon) * f.inverse_b;
    let lat = -(dot(g1, f.e_r) * down * f.inverse_r);
    let radial = -(dot(g1, f.e_lat) * down * f.inverse_r);
    let bound = -(dot(g0, f.e_lon) * across);
    let centre = d_mean2d.x * j0 + d_mean2d.y * j1;
    let turn = lon * f.e_lon + lat * f.e_lat;
    let stretch = radial * f.e_r + bound * f.b_gradient;
    // T turns with the camera: the sum of G x J over the rows.
    return CameraGradient(centre + (turn + stretch), cross(g0, j0) + cross(g1, j1));
}

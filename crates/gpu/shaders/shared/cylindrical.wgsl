// Cylindrical panorama: longitude across, the slope of the height down. Formulas: engine::camera_model. CPU version:
// cpu/src/cameras/cylindrical.rs. Reference: panoramas/cylindrical.rs.
// 1. A camera that turns to each longitude is a pinhole: depth h, slope t = y / h, clamped to t' in the rows of J.
// 2. Rows of J: focal_x e_lon / h and focal_y (e_y - t' e_h) / h. T = J R.
// 3. Backward, with G the derivatives by the rows of J: the frame turns with the longitude, and h and t move.
#import shared/angle

// Frame of a point.
struct Frame {
    e_lon: vec3f,
    // Direction of the longitude, level.
    e_h: vec3f,
    inverse_h: f32,
    // y / h, and the slope of step 1.
    slope: f32,
    clamped: f32,
}

fn frame_of(point: vec3f, view: View) -> Frame {
    let inverse_h = 1.0 / max(camera_depth(point), LENGTH_MIN);
    let sin_lon = point.x * inverse_h;
    let cos_lon = point.z * inverse_h;
    let slope = point.y * inverse_h;
    return Frame(
        vec3f(cos_lon, 0.0, -sin_lon),
        vec3f(sin_lon, 0.0, cos_lon),
        inverse_h,
        slope,
        clamp(slope, view.jacobian_min.y, view.jacobian_max.y),
    );
}

// Returns e_y - slope e_h.
fn e_down(f: Frame, slope: f32) -> vec3f {
    return vec3f(-(slope * f.e_h.x), 1.0, -(slope * f.e_h.z));
}

fn camera_depth(point: vec3f) -> f32 {
    return sqrt(fma(point.x, point.x, point.z * point.z));
}

// Returns the derivative of the depth by the point in the world.
fn depth_row(point: vec3f, view: View) -> vec3f {
    return row_in_world(vec3f(point.x, 0.0, point.z) / camera_depth(point), view);
}

// Adds the derivative by the depth to `d_point`, that by the point in camera coordinates.
fn with_depth(d_point: vec3f, by_depth: f32, point: vec3f) -> vec3f {
    return d_point + by_depth / camera_depth(point) * vec3f(point.x, 0.0, point.z);
}

// Returns true if the camera shows a point of positive depth.
fn camera_shows(point: vec3f) -> bool {
    return true;
}

// From `p`'s point: its centre on the image and the rows of T.
fn camera_project(p: ptr<function, Projection>, view: View) {
    let point = (*p).point;
    let f = frame_of(point, view);
    let place = vec2f(angle_of(point.x, point.z), f.slope);
    (*p).mean2d = fma(place, view.focal, view.principal);
    (*p).t0 = row_in_world(f.e_lon * (view.focal.x * f.inverse_h), view);
    (*p).t1 = row_in_world(e_down(f, f.clamped) * (view.focal.y * f.inverse_h), view);
}

// The chain rule through `camera_project`, from dL/dcentre and dL/dT.
fn camera_backward(p: Projection, view: View, d_mean2d: vec2f, dt0: vec3f, dt1: vec3f) -> CameraGradient {
    let f = frame_of(p.point, view);
    let scale = view.focal * f.inverse_h;
    let down = e_down(f, f.clamped);
    let g0 = row_in_camera(dt0, view);
    let g1 = row_in_camera(dt1, view);
    // A clamped slope has no derivative in J.
    let tilt = select(0.0, -dot(g1, f.e_h) * scale.y, f.slope == f.clamped);
    // Factors of e_lon, e_h and the derivative of the slope, times h.
    let lon = d_mean2d.x * view.focal.x - dot(g0, f.e_h) * scale.x - f.clamped * dot(g1, f.e_lon) * scale.y;
    let level = -dot(g0, f.e_lon) * scale.x - dot(g1, down) * scale.y;
    let slope = d_mean2d.y * view.focal.y + tilt;
    let point = (lon * f.e_lon + level * f.e_h + slope * e_down(f, f.slope)) * f.inverse_h;
    // T turns with the camera: the sum of G x J over the rows.
    let omega = cross(g0, f.e_lon * scale.x) + cross(g1, down * scale.y);
    return CameraGradient(point, omega);
}

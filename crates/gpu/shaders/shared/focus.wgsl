// Region of interest of density control. CPU version: engine::DensityFocus.
//
// The importing shader imports shared/finite and shared/planes, and defines focus_head, focus_row and focus_view, which
// return these fields of its Focus.

// CPU version: engine::FocusView.
struct FocusView {
    centre: vec3f,
    least_cosine: f32,
    axis: vec3f,
    pad: u32,
}

// Same layout as `stages::densify::focus::Focus`.
struct Focus {
    // Rows of the map to the unit ball or cube: factors of x, y, z, and an offset.
    rows: array<vec4f, 3>,
    // FOCUS_*, the share of Gaussians outside (0 to 256), the number of cameras.
    head: vec4u,
    views: array<FocusView, 32>,
}

const FOCUS_NONE: u32 = 0u;
const FOCUS_BOX: u32 = 2u;
// Share of Gaussians inside.
const FOCUS_WHOLE: u32 = 256u;

// Returns a point in the coordinates of the region.
fn focus_place(at: vec3f) -> vec3f {
    let rows = array<vec4f, 3>(focus_row(0u), focus_row(1u), focus_row(2u));
    return vec3f(
        dot(rows[0].xyz, at) + rows[0].w,
        dot(rows[1].xyz, at) + rows[1].w,
        dot(rows[2].xyz, at) + rows[2].w,
    );
}

// Returns true if the ray from `start` along `ray`, in the coordinates of the region, meets it.
fn meets_focus(kind: u32, start: vec3f, ray: vec3f) -> bool {
    if kind == FOCUS_BOX {
        // Separating axes: those of the cube, and their cross products with the ray.
        let leaves = any((abs(start) > vec3f(1.0)) & (start * ray >= vec3f()));
        let reach = abs(ray).yzx + abs(ray).zxy;
        return !leaves && all(abs(cross(start, ray)) <= reach);
    }
    let ahead = -dot(start, ray);
    let beyond = dot(start, start) - 1.0;
    return beyond <= 0.0 || (ahead > 0.0 && ahead * ahead >= dot(ray, ray) * beyond);
}

// Returns how much Gaussian i counts, of 256. CPU version: engine::DensityFocus::share.
fn focus_share(i: u32) -> u32 {
    let head = focus_head();
    let kind = head.x;
    if kind == FOCUS_NONE {
        return FOCUS_WHOLE;
    }
    let mean = vec3f(number(PLANE_MEAN, i), number(PLANE_MEAN + 1u, i), number(PLANE_MEAN + 2u, i));
    let place = focus_place(mean);
    if select(dot(place, place) <= 1.0, all(abs(place) <= vec3f(1.0)), kind == FOCUS_BOX) {
        return FOCUS_WHOLE;
    }
    var seen = 0u;
    var meeting = 0u;
    for (var k = 0u; k < head.z; k++) {
        let view = focus_view(k);
        let ray = mean - view.centre;
        let far = length(ray);
        if far > 0.0 && dot(ray, view.axis) >= view.least_cosine * far {
            let start = focus_place(view.centre);
            seen += 1u;
            meeting += u32(meets_focus(kind, start, place - start));
        }
    }
    return head.y + (FOCUS_WHOLE - head.y) * meeting / max(seen, 1u);
}

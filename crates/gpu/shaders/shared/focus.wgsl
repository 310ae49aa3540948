// Region of interest of density control. CPU version: engine::DensityFocus. Same layout as `stages::densify::Focus`.
//
// The importing shader imports shared/finite and shared/planes.

struct Focus {
    // Rows of the map to the unit ball or cube: factors of x, y, z, and an offset.
    rows: array<vec4f, 3>,
    // FOCUS_*.
    kind: u32,
    // Share of Gaussians outside, 0 to 256.
    outside: u32,
    pad0: u32,
    pad1: u32,
}

const FOCUS_NONE: u32 = 0u;
const FOCUS_BOX: u32 = 2u;

// Returns true if Gaussian i counts as much as without a region.
fn is_in_focus(focus: Focus, i: u32) -> bool {
    if focus.kind == FOCUS_NONE {
        return true;
    }
    let mean = vec3f(number(PLANE_MEAN, i), number(PLANE_MEAN + 1u, i), number(PLANE_MEAN + 2u, i));
    let place = vec3f(
        dot(focus.rows[0].xyz, mean) + focus.rows[0].w,
        dot(focus.rows[1].xyz, mean) + focus.rows[1].w,
        dot(focus.rows[2].xyz, mean) + focus.rows[2].w,
    );
    if focus.kind == FOCUS_BOX {
        return all(abs(place) <= vec3f(1.0));
    }
    return dot(place, place) <= 1.0;
}

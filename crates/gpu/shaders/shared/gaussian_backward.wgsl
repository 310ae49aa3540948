// Shared by `update` and `gradients`: from the sums of a Gaussian's slots to the gradients of its parameters. Gradients
// of SH rest go through shared/sh_backward's sh_take, the others are returned.
// 1. Colour: to the SH coefficients and the viewing direction.
// 2. Geometry: the projection once more, and backward through it.
//
// A visible Gaussian was found finite by `project`; nothing of another is computed with, so that parameters which are
// not finite give gradients of zero.
//
// In permutation NORMALS the sums of the second blend are added: the importing shader declares `normal_gradients:
// array<f32>`, like splat_gradients, with the derivatives by distances as tenth field.
//
// The importing shader imports shared/slot_sums or shared/shipped_sums.
//
// In permutation DEPTH the importing shader declares `extra_gradients: array<f32>`, in permutation MLP `looked:
// array<vec4f>`, of which it reads the gains of the colour. The offsets of the appearance MLP do not matter here.
#import shared/clamped_colour
#import shared/extra_slots
#import shared/projection_backward
#import shared/sh_backward
#if NORMALS
#import shared/normal_plane
#endif

#import shared/gaussian_gradient

#if NORMALS
// Sums of the second blend: the third part of `sums` is by the normal.
struct NormalSums {
    sums: SlotSums,
    by_distance: f32,
}

fn load_normal_three(field: u32, c: u32) -> vec3f {
    let stride = state.visible_capacity;
    let at = field * stride + c;
    return vec3f(
        normal_gradients[at], normal_gradients[at + stride], normal_gradients[at + 2u * stride],
    );
}

fn load_normal_sums(c: u32) -> NormalSums {
    return NormalSums(
        SlotSums(load_normal_three(0u, c), load_normal_three(3u, c), load_normal_three(6u, c)),
        normal_gradients[SLOT_FLOATS * state.visible_capacity + c],
    );
}

// Returns the gradient with the derivatives through the plane of the Gaussian: the normal turns with the Gaussian and
// with the camera, and the distance is that of the centre along the normal.
fn with_normal(
    gradient: GeometryGradient,
    p: Projection,
    log_scales: vec3f,
    sums: NormalSums,
    view: View,
) -> GeometryGradient {
    let plane = normal_plane(log_scales, p.rotation, p.point, view);
    let by_normal = sums.sums.colour + sums.by_distance * p.point;
    let by_point = sums.by_distance * plane.normal;
    let turned = row_in_world(by_normal, view);
    let by_rotation = mat3x3f(turned * plane.axis.x, turned * plane.axis.y, turned * plane.axis.z);
    var g = gradient;
    g.point += by_point;
    g.mean += row_in_world(by_point, view);
    g.quat += quat_backward(p, by_rotation);
    g.omega += cross(plane.normal, by_normal);
    return g;
}

#endif

// Gaussian i; `place`: 0 = invisible, or one more than its place among the visible ones.
fn gaussian_backward(i: u32, place: u32, old: Gaussian, view: View) -> GaussianGradient {
    let visible = place > 0u;
    var sums = SlotSums();
    var g = GaussianGradient();
    var d = vec4f(0.0, 0.0, 1.0, 0.0);
    var d_rgb = vec3f(0.0);
    if visible {
        let c = place - 1u;
        sums = load_sums(c);
        d = view_direction(old.mean, view.centre.xyz);
        d_rgb = unclamped_gradient(sums.colour, load_colour(c));
#if MLP
        d_rgb *= looked[2u * c].xyz;
#endif
        g.sh0 = SH_C0 * d_rgb;
    }
    let through_direction = sh_backward(i, step.sh_degree, d, d_rgb);
    if visible {
        let p = project_gaussian(old, to_camera(old.mean, view), view);
        let screen = screen_gradient(p, sums.linear, sums.quadratic);
        // Density control uses the gradients of the image only.
        g.mean2d = screen.mean2d;
#if NORMALS
        let normals = load_normal_sums(place - 1u);
        sums.linear += normals.sums.linear;
        let both = screen_gradient(p, sums.linear, sums.quadratic + normals.sums.quadratic);
        g.geometry = with_normal(
            project_backward(p, view, both), p, old.log_scales, normals, view,
        );
#else
        g.geometry = project_backward(p, view, screen);
#endif
#if DEPTH
        let by_depth = extra_gradients[EXTRA_DEPTH * state.visible_capacity + place - 1u];
        g.geometry.point = with_depth(g.geometry.point, by_depth, p.point);
        g.geometry.mean += by_depth * depth_row(p.point, view);
#endif
        g.geometry.mean += through_direction;
        g.through_direction = through_direction;
        g.logit = logit_gradient(sums.linear.x, old.logit);
    }
    return g;
}

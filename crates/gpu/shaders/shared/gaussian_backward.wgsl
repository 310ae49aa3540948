// Shared by `update` and `gradients`: from the sums of a Gaussian's slots to the gradients of its parameters. Gradients
// of SH rest go through shared/sh_backward's sh_take, the others are returned.
// 1. Colour: to the SH coefficients and the viewing direction.
// 2. Geometry: the projection once more, and backward through it.
//
// A visible Gaussian was found finite by `project`; nothing of another is computed with, so that parameters which are
// not finite give gradients of zero.
//
// In permutation DEPTH the importing shader declares `extra_gradients: array<f32>`, in permutation MLP `looked:
// array<vec4f>`, of which it reads the gains of the colour. The offsets of the appearance MLP do not matter here.
#import shared/clamped_colour
#import shared/slot_sums
#import shared/extra_slots
#import shared/projection_backward
#import shared/sh_backward

struct GaussianGradient {
    geometry: GeometryGradient,
    logit: f32,
    // By the coefficients of SH 0.
    sh0: vec3f,
    // By the centre, pixels.
    mean2d: vec2f,
    // The centre's, through the viewing direction; counted in `geometry.mean` too.
    through_direction: vec3f,
}

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
        let rgb = vec3f(splats2d[3u * c + 1u].zw, splats2d[3u * c + 2u].x);
        d_rgb = unclamped_gradient(sums.colour, rgb);
#if MLP
        d_rgb *= looked[2u * c].xyz;
#endif
        g.sh0 = SH_C0 * d_rgb;
    }
    let through_direction = sh_backward(i, step.sh_degree, d, d_rgb);
    if visible {
        let p = project_gaussian(old, to_camera(old.mean, view), view);
        let screen = screen_gradient(p, sums.linear, sums.quadratic);
        g.geometry = project_backward(p, view, screen);
#if DEPTH
        let by_depth = extra_gradients[EXTRA_DEPTH * state.visible_capacity + place - 1u];
        g.geometry.point = with_depth(g.geometry.point, by_depth, p.point);
        g.geometry.mean += by_depth * depth_row(p.point, view);
#endif
        g.geometry.mean += through_direction;
        g.through_direction = through_direction;
        g.logit = logit_gradient(sums.linear.x, old.logit);
        g.mean2d = screen.mean2d;
    }
    return g;
}

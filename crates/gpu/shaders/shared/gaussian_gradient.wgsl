// Gradients of a Gaussian's parameters, without SH rest.
#import shared/projection_backward

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

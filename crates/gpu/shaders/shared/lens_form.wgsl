// All lenses in one form; see `engine::LensForm`. Same layout as `layout::Lens`.
struct Lens {
    bend: f32,
    // The largest (x/z)^2 + (y/z)^2 that the lens shows.
    reach: f32,
    // Not 0 = tangential and prism terms are those of the distorted point.
    decentres_distorted: u32,
    pad: u32,
    // Coefficients of u^0 to u^3, and of u^4 to u^6.
    numerator_low: vec4f,
    numerator_high: vec4f,
    // 1, and the coefficients of u^1 to u^3.
    denominator: vec4f,
    // Coefficients of rho and rho^2: two for x, two for y.
    prism: vec4f,
    tangential: vec2f,
    // alpha and beta of EUCM; alpha 0 = another lens.
    root: vec2f,
}

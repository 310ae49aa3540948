// Where a lens that distorts shows a ray, with derivatives.
// With (a, b) = (x/z, y/z) and t = a^2 + b^2:
// 1. A(t) = atan(sqrt(m t)) / sqrt(m t), m = bend, with A' and A'': by its series where m t is small and the closed
//    form would cancel. The arctangent is four times that of the tangent of a quarter of the angle, which the same
//    series covers: devices' own may be off by 4096 units in the last place.
//    For EUCM, A(t) = 1 / (alpha sqrt(1 + beta t) + 1 - alpha).
// 2. s(t) = A N(u) / D(u), u = t A^2, with s' and s'': the chain rule.
// 3. Tangential and prism terms: G(t) Q(a, b) + P(t), where G = w^2, Q is quadratic and P the prism.
// 4. The place is (a, b) s + G Q + P; its first and second derivatives follow from the above.
// CPU version: cpu/src/cameras/lens.rs. Reference: dapple_reference::distort.
#import shared/lens_form

// Where a ray lands, in units of the focal length, with the derivatives by the slopes (a, b).
struct Jet {
    place: vec2f,
    da: vec2f,
    db: vec2f,
    daa: vec2f,
    dab: vec2f,
    dbb: vec2f,
}

// Below this m t the series is taken: there its tenth term is 3e-6 of the second derivative.
const SERIES_END: f32 = 0.15;

// Least argument of EUCM's root.
const ROOT_MIN: f32 = 1e-12;

// Horner's scheme with first and second derivative.
fn horner(sums: vec3f, t: f32, coefficient: f32) -> vec3f {
    return fma(sums, vec3f(t), vec3f(coefficient, sums.x, 2.0 * sums.y));
}

fn angle_series(t: f32) -> vec3f {
    var sums = vec3f(-1.0 / 19.0, 0.0, 0.0);
    sums = horner(sums, t, 1.0 / 17.0);
    sums = horner(sums, t, -1.0 / 15.0);
    sums = horner(sums, t, 1.0 / 13.0);
    sums = horner(sums, t, -1.0 / 11.0);
    sums = horner(sums, t, 1.0 / 9.0);
    sums = horner(sums, t, -1.0 / 7.0);
    sums = horner(sums, t, 1.0 / 5.0);
    sums = horner(sums, t, -1.0 / 3.0);
    return horner(sums, t, 1.0);
}

// Step 1, with cos2 = 1 / (1 + x).
fn angle_over_slope(x: f32, cos2: f32) -> vec3f {
    if x < SERIES_END {
        return angle_series(x);
    }
    // Tangents of the half and of the quarter, over the whole one.
    let half = 1.0 / (1.0 + sqrt(1.0 + x));
    let quarter = half / (1.0 + sqrt(1.0 + x * half * half));
    let value = 4.0 * quarter * angle_series(x * quarter * quarter).x;
    let first = (cos2 - value) / (2.0 * x);
    return vec3f(value, first, -(cos2 * cos2 + 3.0 * first) / (2.0 * x));
}

// Step 1 for EUCM. Beyond the reach the root's argument may be negative; nothing is shown there.
fn root_jet(root: vec2f, t: f32) -> vec3f {
    let s = sqrt(max(fma(root.y, t, 1.0), ROOT_MIN));
    let inverse = 1.0 / fma(root.x, s, 1.0 - root.x);
    let slope = 0.5 * root.x * root.y / s;
    let first = -slope * inverse * inverse;
    let bend = slope * root.y / (2.0 * s * s);
    return vec3f(inverse, first, inverse * (bend * inverse - 2.0 * slope * first));
}

// Steps 1 to 4.
fn lens_jet(lens: Lens, slope: vec2f) -> Jet {
    let a = slope.x;
    let b = slope.y;
    let t = dot(slope, slope);
    let m = lens.bend;
    let cos2 = 1.0 / (1.0 + m * t);
    var angle = angle_over_slope(m * t, cos2) * vec3f(1.0, m, m * m);
    if lens.root.x != 0.0 {
        angle = root_jet(lens.root, t);
    }

    // Step 2.
    let u = t * angle.x * angle.x;
    let u1 = angle.x * cos2;
    let u2 = angle.y * cos2 - angle.x * m * cos2 * cos2;
    var n = vec3f(lens.numerator_high.z, 0.0, 0.0);
    n = horner(n, u, lens.numerator_high.y);
    n = horner(n, u, lens.numerator_high.x);
    n = horner(n, u, lens.numerator_low.w);
    n = horner(n, u, lens.numerator_low.z);
    n = horner(n, u, lens.numerator_low.y);
    n = horner(n, u, lens.numerator_low.x);
    var d = vec3f(lens.denominator.w, 0.0, 0.0);
    d = horner(d, u, lens.denominator.z);
    d = horner(d, u, lens.denominator.y);
    d = horner(d, u, lens.denominator.x);
    let q = n.x / d.x;
    let q1 = (n.y - q * d.y) / d.x;
    let q2 = (n.z - 2.0 * q1 * d.y - q * d.z) / d.x;
    let s = vec3f(
        angle.x * q,
        angle.y * q + angle.x * q1 * u1,
        angle.z * q + 2.0 * angle.y * q1 * u1 + angle.x * (q2 * u1 * u1 + q1 * u2),
    );

    // Step 3; by x and y.
    let w = select(angle, s, lens.decentres_distorted != 0u);
    let g = w.x * w.x;
    let g1 = 2.0 * w.x * w.y;
    let g2 = 2.0 * (w.y * w.y + w.x * w.z);
    let rho = t * g;
    let rho1 = g + t * g1;
    let rho2 = 2.0 * g1 + t * g2;
    let linear = lens.prism.xz;
    let quadratic = lens.prism.yw;
    let along = linear + 2.0 * quadratic * rho;
    let prism = rho * (linear + quadratic * rho);
    let prism1 = along * rho1;
    let prism2 = 2.0 * quadratic * rho1 * rho1 + along * rho2;
    let p1 = lens.tangential.x;
    let p2 = lens.tangential.y;
    let mixed = 2.0 * (p1 * a + p2 * b);
    let quad = vec2f(
        2.0 * p1 * a * b + p2 * (3.0 * a * a + b * b),
        p1 * (a * a + 3.0 * b * b) + 2.0 * p2 * a * b,
    );
    let quad_a = vec2f(2.0 * p1 * b + 6.0 * p2 * a, mixed);
    let quad_b = vec2f(mixed, 6.0 * p1 * b + 2.0 * p2 * a);

    // Step 4: `f` and `e` are the factors of (2a, 2b) in the first and second derivatives.
    let f = slope * s.y + g1 * quad + prism1;
    let e = slope * s.z + g2 * quad + prism2;
    return Jet(
        slope * s.x + g * quad + prism,
        2.0 * a * f + g * quad_a + vec2f(s.x, 0.0),
        2.0 * b * f + g * quad_b + vec2f(0.0, s.x),
        2.0 * f + 4.0 * a * (a * e + g1 * quad_a) + g * vec2f(6.0 * p2, 2.0 * p1)
            + vec2f(4.0 * a * s.y, 0.0),
        4.0 * a * b * e + 2.0 * g1 * (a * quad_b + b * quad_a) + g * vec2f(2.0 * p1, 2.0 * p2)
            + 2.0 * s.y * slope.yx,
        2.0 * f + 4.0 * b * (b * e + g1 * quad_b) + g * vec2f(2.0 * p2, 6.0 * p1)
            + vec2f(0.0, 4.0 * b * s.y),
    );
}

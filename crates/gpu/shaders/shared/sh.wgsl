// Real spherical harmonics up to degree 3, in the order and signs of the 3DGS paper's code: within a degree m runs from
// -l to l. Polynomials in the unit direction d. CPU version: cpu/src/sh.rs. dapple_reference::sh derives the constants.

const SH_C0: f32 = 0.2820948;
const SH_C1: f32 = 0.4886025;
const SH_C2_XY: f32 = 1.0925484;
const SH_C2_ZZ: f32 = 0.31539157;
const SH_C2_XX: f32 = 0.5462742;
const SH_C3_0: f32 = 0.5900436;
const SH_C3_1: f32 = 2.8906114;
const SH_C3_2: f32 = 0.4570458;
const SH_C3_3: f32 = 0.37317634;
const SH_C3_5: f32 = 1.4453057;

// Basis functions 1 to 3.
fn sh_basis1(d: vec3f) -> array<f32, 3> {
    return array<f32, 3>(-SH_C1 * d.y, SH_C1 * d.z, -SH_C1 * d.x);
}

// Basis functions 4 to 8.
fn sh_basis2(d: vec3f) -> array<f32, 5> {
    return array<f32, 5>(
        SH_C2_XY * d.x * d.y,
        -SH_C2_XY * d.y * d.z,
        SH_C2_ZZ * (3.0 * d.z * d.z - 1.0),
        -SH_C2_XY * d.x * d.z,
        SH_C2_XX * (d.x * d.x - d.y * d.y),
    );
}

// Basis functions 9 to 15.
fn sh_basis3(d: vec3f) -> array<f32, 7> {
    let xx = d.x * d.x;
    let yy = d.y * d.y;
    let zz = d.z * d.z;
    return array<f32, 7>(
        -SH_C3_0 * d.y * (3.0 * xx - yy),
        SH_C3_1 * d.x * d.y * d.z,
        -SH_C3_2 * d.y * (5.0 * zz - 1.0),
        SH_C3_3 * d.z * (5.0 * zz - 3.0),
        -SH_C3_2 * d.x * (5.0 * zz - 1.0),
        SH_C3_5 * d.z * (xx - yy),
        -SH_C3_0 * d.x * (xx - 3.0 * yy),
    );
}

// Least square of a distance that is a divisor, f32's smallest normal number.
const DISTANCE2_MIN: f32 = 1.17549435e-38;

// Returns the unit direction from the camera's centre to a Gaussian, and the inverse of the distance.
fn view_direction(mean: vec3f, centre: vec3f) -> vec4f {
    let offset = mean - centre;
    let inverse = 1.0 / sqrt(max(dot(offset, offset), DISTANCE2_MIN));
    return vec4f(offset * inverse, inverse);
}

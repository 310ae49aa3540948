// The chain rule through the colour, pair by pair of SH coefficients. CPU version: `colour_backward` in
// cpu/src/stages/update.rs, and cpu/src/sh.rs. Reference: dapple_reference::sh.
// 1. dL/dcoefficient k = basis_k dL/drgb.
// 2. dL/ddirection = sum over k of (coefficient_k . dL/drgb) grad basis_k.
// 3. The direction is (mean - centre) / |mean - centre|: only motion across it changes the colour.
//
// The importing shader defines the data that is loaded for a pair of coefficients (2j + 1, 2j + 2) and the use of its
// gradients:
//   struct or alias ShUnit
//   fn sh_load(j: u32, i: u32) -> ShUnit, sh_load_odd (only coefficient 2j + 1)
//   fn sh_coefficients(unit: ShUnit) -> ShPair
//   fn sh_take(j: u32, i: u32, unit: ShUnit, odd: vec3f, even: vec3f), sh_take_odd
// Each pair is loaded before the pair before it is stored: loads cannot pass stores to the same buffer, and the loads
// of one pair do not fill the memory's pipeline.
#import shared/sh
#import shared/storage

// Basis functions 2j + 1 and 2j + 2: gradient in xyz, value in w. The gradients are those of polynomials in free
// coordinates; step 3 removes their part along the direction.
struct ShTerms {
    odd: vec4f,
    even: vec4f,
}

fn sh_terms0(d: vec3f) -> ShTerms {
    return ShTerms(SH_C1 * vec4f(0.0, -1.0, 0.0, -d.y), SH_C1 * vec4f(0.0, 0.0, 1.0, d.z));
}

fn sh_terms1(d: vec3f) -> ShTerms {
    return ShTerms(
        SH_C1 * vec4f(-1.0, 0.0, 0.0, -d.x),
        SH_C2_XY * vec4f(d.y, d.x, 0.0, d.x * d.y),
    );
}

fn sh_terms2(d: vec3f) -> ShTerms {
    return ShTerms(
        -SH_C2_XY * vec4f(0.0, d.z, d.y, d.y * d.z),
        SH_C2_ZZ * vec4f(0.0, 0.0, 6.0 * d.z, 3.0 * d.z * d.z - 1.0),
    );
}

fn sh_terms3(d: vec3f) -> ShTerms {
    return ShTerms(
        -SH_C2_XY * vec4f(d.z, 0.0, d.x, d.x * d.z),
        SH_C2_XX * vec4f(2.0 * d.x, -2.0 * d.y, 0.0, d.x * d.x - d.y * d.y),
    );
}

fn sh_terms4(d: vec3f) -> ShTerms {
    let xx = d.x * d.x;
    let yy = d.y * d.y;
    return ShTerms(
        -SH_C3_0 * vec4f(6.0 * d.x * d.y, 3.0 * (xx - yy), 0.0, d.y * (3.0 * xx - yy)),
        SH_C3_1 * vec4f(d.y * d.z, d.x * d.z, d.x * d.y, d.x * d.y * d.z),
    );
}

fn sh_terms5(d: vec3f) -> ShTerms {
    let zz5 = 5.0 * d.z * d.z;
    return ShTerms(
        -SH_C3_2 * vec4f(0.0, zz5 - 1.0, 10.0 * d.y * d.z, d.y * (zz5 - 1.0)),
        SH_C3_3 * vec4f(0.0, 0.0, 3.0 * zz5 - 3.0, d.z * (zz5 - 3.0)),
    );
}

fn sh_terms6(d: vec3f) -> ShTerms {
    let zz5 = 5.0 * d.z * d.z;
    let difference = d.x * d.x - d.y * d.y;
    return ShTerms(
        -SH_C3_2 * vec4f(zz5 - 1.0, 0.0, 10.0 * d.x * d.z, d.x * (zz5 - 1.0)),
        SH_C3_5 * vec4f(2.0 * d.x * d.z, -2.0 * d.y * d.z, difference, d.z * difference),
    );
}

fn sh_term15(d: vec3f) -> vec4f {
    let xx = d.x * d.x;
    let yy = d.y * d.y;
    return -SH_C3_0 * vec4f(3.0 * (xx - yy), -6.0 * d.x * d.y, 0.0, d.x * (xx - 3.0 * yy));
}

// Steps 1 and 2 for a pair, and for its first coefficient only.
fn sh_pass(j: u32, i: u32, unit: ShUnit, terms: ShTerms, d_rgb: vec3f) -> vec3f {
    let coefficients = sh_coefficients(unit);
    sh_take(j, i, unit, terms.odd.w * d_rgb, terms.even.w * d_rgb);
    return dot(coefficients.odd, d_rgb) * terms.odd.xyz
        + dot(coefficients.even, d_rgb) * terms.even.xyz;
}

fn sh_pass_odd(j: u32, i: u32, unit: ShUnit, term: vec4f, d_rgb: vec3f) -> vec3f {
    let coefficients = sh_coefficients(unit);
    sh_take_odd(j, i, unit, term.w * d_rgb);
    return dot(coefficients.odd, d_rgb) * term.xyz;
}

// Runs all steps: passes each coefficient up to `degree` to sh_take, and returns dL/dmean. `d` is the direction and the
// inverse distance; see view_direction.
fn sh_backward(i: u32, degree: u32, d: vec4f, d_rgb: vec3f) -> vec3f {
    var sum = vec3f(0.0);
    if degree == 1u {
        let unit0 = sh_load(0u, i);
        let unit1 = sh_load_odd(1u, i);
        sum += sh_pass(0u, i, unit0, sh_terms0(d.xyz), d_rgb);
        sum += sh_pass_odd(1u, i, unit1, sh_terms1(d.xyz).odd, d_rgb);
    }
    if degree >= 2u {
        let unit0 = sh_load(0u, i);
        let unit1 = sh_load(1u, i);
        sum += sh_pass(0u, i, unit0, sh_terms0(d.xyz), d_rgb);
        let unit2 = sh_load(2u, i);
        sum += sh_pass(1u, i, unit1, sh_terms1(d.xyz), d_rgb);
        let unit3 = sh_load(3u, i);
        sum += sh_pass(2u, i, unit2, sh_terms2(d.xyz), d_rgb);
        if degree == 2u {
            sum += sh_pass(3u, i, unit3, sh_terms3(d.xyz), d_rgb);
        } else {
            let unit4 = sh_load(4u, i);
            sum += sh_pass(3u, i, unit3, sh_terms3(d.xyz), d_rgb);
            let unit5 = sh_load(5u, i);
            sum += sh_pass(4u, i, unit4, sh_terms4(d.xyz), d_rgb);
            let unit6 = sh_load(6u, i);
            sum += sh_pass(5u, i, unit5, sh_terms5(d.xyz), d_rgb);
            let unit7 = sh_load_odd(7u, i);
            sum += sh_pass(6u, i, unit6, sh_terms6(d.xyz), d_rgb);
            sum += sh_pass_odd(7u, i, unit7, sh_term15(d.xyz), d_rgb);
        }
    }
    return (sum - d.xyz * dot(sum, d.xyz)) * d.w;
}

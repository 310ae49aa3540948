// The colour of a Gaussian: 0.5 + SH(direction), before it is clamped at zero. Reference:
// dapple_reference::project::raw_colour.
//
// The importing shader declares `geometry` and `sh_rest` and has the imports that shared/projection needs.

#import shared/storage
#import shared/sh

fn raw_colour(i: u32, capacity: u32, degree: u32, d: vec3f) -> vec3f {
    var rgb = fma(vec3f(SH_C0), geometry3(PLANE_SH0, i, capacity), vec3f(0.5));
    if degree >= 1u {
        let b = sh_basis1(d);
        let first = sh_rest_pair(0u, i, capacity);
        rgb += b[0] * first.odd + b[1] * first.even + b[2] * sh_rest_odd(1u, i, capacity);
    }
    if degree >= 2u {
        let b = sh_basis2(d);
        let second = sh_rest_pair(2u, i, capacity);
        let third = sh_rest_pair(3u, i, capacity);
        rgb += b[0] * sh_rest_even(1u, i, capacity) + b[1] * second.odd + b[2] * second.even
            + b[3] * third.odd + b[4] * third.even;
    }
    if degree >= 3u {
        let b = sh_basis3(d);
        let fourth = sh_rest_pair(4u, i, capacity);
        let fifth = sh_rest_pair(5u, i, capacity);
        let sixth = sh_rest_pair(6u, i, capacity);
        rgb += b[0] * fourth.odd + b[1] * fourth.even + b[2] * fifth.odd + b[3] * fifth.even
            + b[4] * sixth.odd + b[5] * sixth.even + b[6] * sh_rest_odd(7u, i, capacity);
    }
    return rgb;
}

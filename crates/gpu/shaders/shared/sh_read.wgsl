// Half of the functions that shared/sh_backward needs, for shaders that read coefficients and do not step them. The
// importing shader defines sh_take and sh_take_odd, which receive the derivatives.
alias ShUnit = ShPair;

fn sh_load(j: u32, i: u32) -> ShPair {
    return sh_rest_pair(j, i, state.capacity);
}

fn sh_load_odd(j: u32, i: u32) -> ShPair {
    return ShPair(sh_rest_odd(j, i, state.capacity), vec3f(0.0));
}

fn sh_coefficients(unit: ShPair) -> ShPair {
    return unit;
}

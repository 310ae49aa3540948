// Sums of the slots of a Gaussian, as `layout::SLOT_FLOATS` has them: of s, s dx, s dy | s dx^2, s dx dy, s dy^2 | w dL/d(r, g, b).
struct SlotSums {
    linear: vec3f,
    quadratic: vec3f,
    colour: vec3f,
}

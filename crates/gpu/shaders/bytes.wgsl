// `bytes`: converts a render from `f32` to 8 bits per channel, so that the host copies 4 bytes per pixel, not 16. Runs
// after `blend`, in renders only. One invocation per pixel.
//
// Red, green, blue and alpha (one minus the transmittance) are clamped to 0..1 and rounded; NaN becomes 0. Red is the
// lowest byte.
//
// The host rounds `value * 255 + 0.5` in two steps. A device may round it in one, and then a value within rounding
// error of two bytes becomes the other byte. `value * 256` is exact, so every device rounds `value * 256 - value` once,
// like the host's product.
//
// Bindings: views[0], the view of the render; image, colour over the background and transmittance, in; image_bytes,
// out.
// CPU version: engine::shown.

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> image_bytes: array<u32>;

const PIXELS_PER_GROUP: u32 = TILE_SIZE * TILE_SIZE;

// Tests bits: WGSL lets compilers assume that comparisons meet no NaN.
fn are_nan(values: vec4f) -> vec4<bool> {
    return (bitcast<vec4u>(values) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
}

// One workgroup per tile: the tiles have at least as many pixels as the image.
@compute @workgroup_size(PIXELS_PER_GROUP)
fn bytes(
    @builtin(workgroup_id) group: vec3u,
    @builtin(num_workgroups) groups: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let size = views[step.view].size;
    let pixel = group_number(group, groups) * PIXELS_PER_GROUP + lane;
    if pixel >= size.x * size.y {
        return;
    }
    let found = image[pixel];
    let values = vec4f(found.rgb, 1.0 - found.w);
    let clamped = select(clamp(values, vec4f(0.0), vec4f(1.0)), vec4f(0.0), are_nan(values));
    let rounded = vec4u((clamped * 256.0 - clamped) + 0.5);
    image_bytes[pixel] = rounded.r | (rounded.g << 8u) | (rounded.b << 16u) | (rounded.a << 24u);
}

// `bytes`: a render as bytes, for eyes, so that 4 bytes of a pixel leave the device instead of 16. Runs after
// `blend`, for renders alone.
//
// An invocation a pixel: red, green, blue and alpha (one minus the transmittance), each clamped to 0..1, NaN to
// 0, and rounded, red in the lowest byte.
//
// The host rounds `value * 255 + 0.5` in two steps, and a device may do it in one: then a value that stands
// within rounding of two bytes becomes the other. `value * 256` is exact, so that `value * 256 - value` is
// rounded once, as the host's product is, on every device.
//
// Bindings: views: entry 0 is the render's. image: colour over the background, transmittance. image_bytes out.
// Twin: engine::shown.

#import shared/step
#import shared/groups

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> image_bytes: array<u32>;

const PIXELS_PER_GROUP: u32 = TILE_SIZE * TILE_SIZE;

// By bits: WGSL lets compilers assume that comparisons meet no NaN.
fn are_nan(values: vec4f) -> vec4<bool> {
    return (bitcast<vec4u>(values) & vec4u(0x7fffffffu)) > vec4u(0x7f800000u);
}

// As many workgroups as tiles, which have no fewer pixels than the image.
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

// `crops`, part of the stage `loss` where a step has a loss of a crop: it is cut out of what the loss compares, and what that
// loss says of the render's crop is added to the image's gradient. One invocation a pixel of the crop.
// 1. cut: the render's and the photo's colours; of masked pixels the photo's twice.
// 2. Between the two somebody else's kernels make of both the derivative by the first.
// 3. paste: times the weight, onto image_gradient, which the loss of the image has filled; not where pixels are masked.
// Twin: cpu/src/stages/crops.rs.
//
// Bindings: views; image, the render that the loss compares; photo; crop_render, crop_photo (out of cut) and
// crop_derivative (into paste), [side, side, 3]; image_gradient, in and out. Where the crop lies are parameters.

#import shared/step
#import shared/groups
#import shared/parameters
#import shared/photo

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read> photo: array<u32>;
@group(0) @binding(3) var<storage, read_write> crop_render: array<f32>;
@group(0) @binding(4) var<storage, read_write> crop_photo: array<f32>;
@group(0) @binding(5) var<storage, read> crop_derivative: array<f32>;
@group(0) @binding(6) var<storage, read_write> image_gradient: array<vec4f>;

// The image's pixel of the crop's.
fn place(k: u32) -> u32 {
    let side = parameters.crop_side;
    let at = parameters.crop + vec2u(k % side, k / side);
    return at.y * views[step.view].size.x + at.x;
}

fn counts(pixel: u32) -> bool {
    let size = views[step.view].size;
    return photo_counts(pixel, size.x * size.y);
}

@compute @workgroup_size(256)
fn cut(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let k = group_number(id, dispatched) * 256u + local;
    if k >= parameters.crop_side * parameters.crop_side {
        return;
    }
    let pixel = place(k);
    let target_colour = photo_target(photo[pixel]);
    let render = select(target_colour, image[pixel].rgb, counts(pixel));
    for (var c = 0u; c < 3u; c++) {
        crop_render[3u * k + c] = render[c];
        crop_photo[3u * k + c] = target_colour[c];
    }
}

@compute @workgroup_size(256)
fn paste(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let k = group_number(id, dispatched) * 256u + local;
    if k >= parameters.crop_side * parameters.crop_side {
        return;
    }
    let pixel = place(k);
    if !counts(pixel) {
        return;
    }
    let slope = vec3f(
        crop_derivative[3u * k],
        crop_derivative[3u * k + 1u],
        crop_derivative[3u * k + 2u],
    );
    let before = image_gradient[pixel];
    image_gradient[pixel] = vec4f(before.xyz + loss_weight(LOSS_PERCEPTUAL) * slope, before.w);
}

// `crops`, part of the stage `loss` in steps whose loss has a term for a crop. It cuts the crop out of the images that
// the loss compares, and adds the term's gradient by the render's crop to the image's gradient. One invocation per
// pixel of the crop.
// 1. cut: writes the render's and the photo's colours; for masked pixels the photo's colour to both.
// 2. Between the two dispatches the caller's kernels compute the derivative by the render's crop.
// 3. paste: adds the derivative, times the weight, to image_gradient, which the loss of the image has filled; not where
//    pixels are masked.
// CPU version: cpu/src/features/perceptual/kernels.rs.
//
// Bindings: views; image, the render that the loss compares; photo; crop_render, crop_photo (out of cut) and
// crop_derivative (into paste), [side, side, 3]; image_gradient, in and out. The crop's position is in the parameters.

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

// Returns the pixel of the image for a pixel of the crop.
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

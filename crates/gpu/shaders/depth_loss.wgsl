// `depth_loss`, part of the stage `loss` where a view has samples of known depth: the derivative of depth_weight sum_k
// c_k |D / t_k - alpha|, D the blended depth. One invocation per sample; a pixel has at most one sample.
// 1. `residual = D / t - alpha`.
// 2. dL/dD = c sign / t, next to D: `blend` has written zero there, which remains at pixels without a sample.
// 3. dL/dalpha = -c sign: the derivative by transmittance, one minus alpha, is c sign. The loss of the image has
//    written zero there.
// CPU version: cpu/src/features/depth/kernels.rs. Reference: dapple_reference::depth_loss.
//
// Bindings: depth_samples, the view's, with spare capacity; image, from blend.wgsl; depth_pixels and image_gradient, in
// and out. The number of samples is a parameter.

#import shared/step
#import shared/groups
#import shared/parameters
#import shared/struct_depth_sample

@group(0) @binding(0) var<storage, read> depth_samples: array<DepthSample>;
@group(0) @binding(1) var<storage, read> image: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> depth_pixels: array<vec2f>;
@group(0) @binding(3) var<storage, read_write> image_gradient: array<vec4f>;

@compute @workgroup_size(256)
fn depth_loss(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let k = group_number(id, dispatched) * 256u + local;
    if k >= parameters.depth_samples {
        return;
    }
    let known = depth_samples[k];
    let blended = depth_pixels[known.pixel].x;
    let residual = blended * known.inverse_depth - (1.0 - image[known.pixel].w);
    let slope = loss_weight(LOSS_DEPTH) * known.weight * sign(residual);
    depth_pixels[known.pixel] = vec2f(blended, slope * known.inverse_depth);
    image_gradient[known.pixel] = vec4f(image_gradient[known.pixel].xyz, slope);
}

// A projected Gaussian. Alpha at a pixel d away from the mean is
// 2^(log2_opacity + a dx^2 + b dx dy + c dy^2). Three vec4f of the buffer splats2d, by place
// among the visible Gaussians (see project.wgsl):
//   [0] mean.x, mean.y, a, b   [1] c, log2_opacity, red, green   [2] blue, depth, radius.x, radius.y
// with a, b, c the conic times -log2(e)/2 (b: the off-diagonal counted twice), radius half the
// width and height in pixels of the ellipse where alpha falls to ALPHA_MIN.

// Limit of the ellipse where alpha = ALPHA_MIN: a dx^2 + b dx dy + c dy^2 >= -(log2_opacity - log2(ALPHA_MIN)). A small
// margin keeps pixels that the test per pixel would accept, in spite of rounding here.
fn reach(log2_opacity: f32) -> f32 {
    return (log2_opacity + LOG2_255) * 1.00001 + 1e-5;
}

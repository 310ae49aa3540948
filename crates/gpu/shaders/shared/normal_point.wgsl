// The point of a pixel in the losses of planes: engine::features::normals. The importing shader has the binding
// `normal_image`, and imports shared/step and shared/ray.

// Returns the blended normal without the background.
fn blended_normal(index: u32) -> vec3f {
    let pixel = normal_image[index];
    return pixel.xyz - pixel.w * step.background;
}

// Returns the factor of a pixel's ray at its point; 0 if the pixel has none.
fn normal_factor(ray: Ray, normal: vec3f, distance: f32, alpha: f32) -> f32 {
    let slope = dot(normal, ray.along);
    let is_seen = ray.is_known
        && alpha >= LEAST_ALPHA
        && -slope >= LEAST_COSINE * alpha * sqrt(dot(ray.along, ray.along));
    return max(select(0.0, distance / slope, is_seen), 0.0);
}

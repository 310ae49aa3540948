// The loss of normals, between the second `blend` and the second `blend_backward`. One invocation per pixel, one
// workgroup per tile. Formulas: engine::features::normals.
//
// `normal_points_of`: from the blended normal and distance of each pixel to its point X, and the factor of its ray; a
// factor of 0 if the pixel has no point.
// `normal_loss`: the derivatives by the blended normal, the transmittance and the blended distance of each pixel. The
// point of a pixel is a side of its four neighbours' cross products, which are computed again here: each pixel has one
// writer.
//
// Bindings: views (and lenses); normal_image: blended normal over the background of the step, transmittance;
// normal_depths: blended distance, and out: the derivative by it; normal_points; image_gradient out: dL/d(normal) and
// dL/dT. CPU version: cpu/src/features/normals/kernels.rs. Reference: dapple_reference::normal_loss.

#import shared/step
#import shared/groups
#import shared/parameters
#import shared/tile_pixel

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> normal_image: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> normal_depths: array<vec2f>;
@group(0) @binding(3) var<storage, read_write> normal_points: array<vec4f>;
@group(0) @binding(4) var<storage, read_write> image_gradient: array<vec4f>;
#if LENS
@group(0) @binding(5) var<storage, read> lenses: array<Lens>;
#endif

#import shared/ray
#import shared/normal_point

const THREADS: u32 = TILE_SIZE * TILE_SIZE;

@compute @workgroup_size(THREADS)
fn normal_points_of(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = tile_pixel(id, dispatched, lane);
    if !pixel.inside {
        return;
    }
    let alpha = 1.0 - normal_image[pixel.index].w;
    let ray = ray_of(pixel.at, views[step.view]);
    let normal = blended_normal(pixel.index);
    let factor = normal_factor(ray, normal, normal_depths[pixel.index].x, alpha);
    normal_points[pixel.index] = select(vec4f(0.0), vec4f(factor * ray.along, factor), factor > 0.0);
}

// The surface at a pixel: its normal, zero if there is none, and the derivatives by the two sides of the cross product.
struct Sides {
    normal: vec3f,
    by_across: vec3f,
    by_down: vec3f,
}

fn is_near(point: vec4f, factor: f32) -> bool {
    return point.w > 0.0 && abs(point.w - factor) <= MOST_STEP * factor;
}

// `share` is that of a pixel in the loss.
fn sides_at(at: vec2u, size: vec2u, share: f32) -> Sides {
    let none = Sides();
    if size.x < 3u || size.y < 3u || any(at - 1u >= size - 2u) {
        return none;
    }
    let index = at.y * size.x + at.x;
    let factor = normal_points[index].w;
    let left = normal_points[index - 1u];
    let right = normal_points[index + 1u];
    let above = normal_points[index - size.x];
    let below = normal_points[index + size.x];
    let is_surface = factor > 0.0
        && is_near(left, factor)
        && is_near(right, factor)
        && is_near(above, factor)
        && is_near(below, factor);
    if !is_surface {
        return none;
    }
    let across = right.xyz - left.xyz;
    let down = below.xyz - above.xyz;
    let area = cross(down, across);
    let length2 = dot(area, area);
    if length2 < 1.17549435e-38 {
        return none;
    }
    let inverse = 1.0 / sqrt(length2);
    let normal = area * inverse;
    let blended = share * blended_normal(index);
    let by_area = (normal * dot(normal, blended) - blended) * inverse;
    return Sides(normal, cross(by_area, down), cross(across, by_area));
}

@compute @workgroup_size(THREADS)
fn normal_loss(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let pixel = tile_pixel(id, dispatched, lane);
    if !pixel.inside {
        return;
    }
    let view = views[step.view];
    let size = view.size;
    let share = loss_weight(LOSS_NORMALS) / f32(size.x * size.y);
    let own = sides_at(pixel.at, size, share);
    var by_normal = -share * own.normal;
    // Alpha is one minus the transmittance.
    let by_transmittance = select(0.0, -share, any(own.normal != vec3f(0.0)));
    var by_distance = 0.0;
    let point = normal_points[pixel.index];
    if point.w > 0.0 {
        // A pixel beyond the edge of the image wraps to a number that has no sides.
        var by_place = sides_at(pixel.at - vec2u(1u, 0u), size, share).by_across;
        by_place -= sides_at(pixel.at + vec2u(1u, 0u), size, share).by_across;
        by_place += sides_at(pixel.at - vec2u(0u, 1u), size, share).by_down;
        by_place -= sides_at(pixel.at + vec2u(0u, 1u), size, share).by_down;
        let ray = point.xyz / point.w;
        by_distance = dot(by_place, ray) / dot(blended_normal(pixel.index), ray);
        by_normal -= by_distance * point.xyz;
    }
    // The blended normal in the image is over the background.
    image_gradient[pixel.index] =
        vec4f(by_normal, by_transmittance - dot(by_normal, step.background));
    normal_depths[pixel.index] = vec2f(normal_depths[pixel.index].x, by_distance);
}

// The loss of matching photos, between `normal_loss` and the second `blend_backward`: adds the derivatives by the blended
// normal and distance of the pixels that are compared. One workgroup per tile, LANES invocations per patch. Formulas:
// engine::features::normals::matching.
//
// 1. Each invocation sums every LANES-th sample of its patch. Shades are relative to those at the centre, so that
//    variances do not cancel.
// 2. The first invocation of a patch adds the sums in order, and writes to its pixel.
//
// Bindings: views (and lenses); normal_image: blended normal over the background of the step, transmittance;
// normal_depths: blended distance, and in and out: the derivative by it; matching_photos: a byte a pixel, 0 = does not
// count; image_gradient in and out. CPU version: cpu/src/features/normals/matching.rs. Reference:
// dapple_reference::matching_loss.

#import shared/step
#import shared/groups
#import shared/parameters
#import shared/tile_pixel

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> normal_image: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> normal_depths: array<vec2f>;
@group(0) @binding(3) var<storage, read_write> image_gradient: array<vec4f>;
@group(0) @binding(4) var<storage, read> matching_photos: array<u32>;
#if LENS
@group(0) @binding(5) var<storage, read> lenses: array<Lens>;
#endif

#import shared/ray
#import shared/normal_point

const LANES: u32 = 4u;
// Patches of a tile along its side.
const ACROSS: u32 = TILE_SIZE / MATCH_GRID;
const THREADS: u32 = ACROSS * ACROSS * LANES;
const SAMPLES: u32 = MATCH_SIDE * MATCH_SIDE;
const PATCH_REACH: f32 = f32(MATCH_SIDE / 2u);

// `a` are shades of the step's photo, `b` those of the neighbour, `by` the derivatives of b by normal and distance.
struct Sums {
    a: f32,
    b: f32,
    aa: f32,
    ab: f32,
    bb: f32,
    // Samples that are in both photos.
    count: u32,
    by: vec4f,
    a_by: vec4f,
    b_by: vec4f,
}

var<workgroup> sums_of: array<Sums, THREADS>;

struct Shade {
    is_known: bool,
    value: f32,
    gradient: vec2f,
}

fn shade_byte(index: u32) -> f32 {
    return f32((matching_photos[index / 4u] >> (8u * (index % 4u))) & 255u);
}

// The shade at a place, counted from the middle of the first pixel.
fn shade_at(first: u32, size: vec2u, place: vec2f) -> Shade {
    let most = vec2f(size - 1u);
    if !(all(place >= vec2f(0.0)) && all(place <= most)) {
        return Shade();
    }
    let corner = min(floor(place), most - 1.0);
    let f = place - corner;
    let start = first + u32(corner.y) * size.x + u32(corner.x);
    let shades = vec4f(
        shade_byte(start),
        shade_byte(start + 1u),
        shade_byte(start + size.x),
        shade_byte(start + size.x + 1u),
    );
    if any(shades == vec4f(0.0)) {
        return Shade();
    }
    let s = shades * (1.0 / 255.0);
    let above = s.x + (s.y - s.x) * f.x;
    let below = s.z + (s.w - s.z) * f.x;
    let across = (s.y - s.x) * (1.0 - f.y) + (s.w - s.z) * f.y;
    return Shade(true, above + (below - above) * f.y, vec2f(across, below - above));
}

struct Seen {
    is_known: bool,
    shade: f32,
    by: vec4f,
}

// The shade of the neighbour at a ray that meets the plane.
fn seen_at(ray: vec3f, normal: vec3f, distance: f32) -> Seen {
    let slope = dot(normal, ray);
    let factor = distance / slope;
    let rotation = transpose(mat3x3f(
        parameters.match_row0.xyz,
        parameters.match_row1.xyz,
        parameters.match_row2.xyz,
    ));
    let shift = vec3f(parameters.match_row0.w, parameters.match_row1.w, parameters.match_row2.w);
    let point = rotation * (factor * ray) + shift;
    if !(factor > 0.0 && point.z > 0.0) {
        return Seen();
    }
    let inverse = 1.0 / point.z;
    let slopes = inverse * point.xy;
#if LENS
    let lens = lenses[parameters.match_view];
    if dot(slopes, slopes) > lens.reach {
        return Seen();
    }
    let jet = lens_jet(lens, slopes);
    let place = jet.place;
#else
    let place = slopes;
#endif
    let found = shade_at(
        parameters.match_other,
        parameters.match_other_size,
        place * parameters.match_focal + parameters.match_principal,
    );
    if !found.is_known {
        return Seen();
    }
    let gradient = found.gradient * parameters.match_focal;
#if LENS
    let by_slopes = vec2f(dot(gradient, jet.da), dot(gradient, jet.db));
#else
    let by_slopes = gradient;
#endif
    let by_point = inverse * vec3f(by_slopes, -dot(by_slopes, slopes));
    let by_distance = dot(by_point * rotation, ray) / slope;
    return Seen(true, found.value, vec4f(-by_distance * factor * ray, by_distance));
}

// Change of the ray along one pixel of the photo, by columns and by rows.
fn ray_steps(at: vec2u, view: View) -> mat2x3f {
#if LENS
    let across = ray_of(at + vec2u(1u, 0u), view).along - ray_of(at - vec2u(1u, 0u), view).along;
    let down = ray_of(at + vec2u(0u, 1u), view).along - ray_of(at - vec2u(0u, 1u), view).along;
    let each = 0.5 / parameters.match_scale;
    return mat2x3f(across * each.x, down * each.y);
#else
    let each = 1.0 / (view.focal * parameters.match_scale);
    return mat2x3f(vec3f(each.x, 0.0, 0.0), vec3f(0.0, each.y, 0.0));
#endif
}

fn sums_at(at: vec2u, index: u32, view: View, lane: u32) -> Sums {
    var sums = Sums();
    let place = (vec2f(at) + 0.5) * parameters.match_scale - 0.5;
    let most = vec2f(parameters.match_own_size - 1u);
    if any(place - PATCH_REACH < vec2f(0.0)) || any(place + PATCH_REACH > most) {
        return sums;
    }
    let normal = blended_normal(index);
    let distance = normal_depths[index].x;
    let ray = ray_of(at, view);
    if normal_factor(ray, normal, distance, 1.0 - normal_image[index].w) <= 0.0 {
        return sums;
    }
    let own = shade_at(parameters.match_own, parameters.match_own_size, place);
    let other = seen_at(ray.along, normal, distance);
    if !own.is_known || !other.is_known {
        return sums;
    }
    let steps = ray_steps(at, view);
    for (var i = lane; i < SAMPLES; i += LANES) {
        let off = vec2f(f32(i % MATCH_SIDE), f32(i / MATCH_SIDE)) - PATCH_REACH;
        let shade = shade_at(parameters.match_own, parameters.match_own_size, place + off);
        let seen = seen_at(ray.along + steps * off, normal, distance);
        if !shade.is_known || !seen.is_known {
            return sums;
        }
        let a = shade.value - own.value;
        let b = seen.shade - other.shade;
        sums.a += a;
        sums.b += b;
        sums.aa += a * a;
        sums.ab += a * b;
        sums.bb += b * b;
        sums.count += 1u;
        sums.by += seen.by;
        sums.a_by += a * seen.by;
        sums.b_by += b * seen.by;
    }
    return sums;
}

@compute @workgroup_size(THREADS)
fn matching(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) lane: u32,
) {
    let view = views[step.view];
    let patch_number = lane / LANES;
    let local = vec2u(patch_number % ACROSS, patch_number / ACROSS) * MATCH_GRID + parameters.match_first;
    let pixel = tile_pixel(id, dispatched, local.y * TILE_SIZE + local.x);
    let places = view.size / MATCH_GRID;
    let is_inside = pixel.inside && all(pixel.at / MATCH_GRID < places);
    let index = pixel.index;
    if is_inside {
        sums_of[lane] = sums_at(pixel.at, index, view, lane % LANES);
    }
    workgroupBarrier();
    if !is_inside || lane % LANES != 0u {
        return;
    }
    var sums = sums_of[lane];
    for (var i = 1u; i < LANES; i++) {
        let more = sums_of[lane + i];
        sums.a += more.a;
        sums.b += more.b;
        sums.aa += more.aa;
        sums.ab += more.ab;
        sums.bb += more.bb;
        sums.count += more.count;
        sums.by += more.by;
        sums.a_by += more.a_by;
        sums.b_by += more.b_by;
    }
    if sums.count != SAMPLES {
        return;
    }
    let each = 1.0 / f32(SAMPLES);
    let a = sums.a * each;
    let b = sums.b * each;
    let own = sums.aa * each - a * a;
    let other = sums.bb * each - b * b;
    if own < LEAST_VARIANCE || other < LEAST_VARIANCE {
        return;
    }
    let inverse = 1.0 / sqrt(own * other);
    let correlation = (sums.ab * each - a * b) * inverse;
    if correlation < LEAST_MATCH {
        return;
    }
    let by_own = (sums.a_by - a * sums.by) * inverse;
    let by_other = (sums.b_by - b * sums.by) * (correlation / other);
    let share = loss_weight(LOSS_MATCHING) / f32(places.x * places.y);
    let by = (by_other - by_own) * (each * share);
    // The blended normal in the image is over the background.
    image_gradient[index] += vec4f(by.xyz, -dot(by.xyz, step.background));
    normal_depths[index].y += by.w;
}

// `blend_backward`: writes each instance's gradient, summed over its tile's pixels, to the gradient slot of the
// instance. A workgroup of 32 invocations takes a bucket: BUCKET consecutive instances of one tile.
//
// With w = alpha T the weight of an instance, g = dL/d(pixel) and g.c the scalar product of g and the instance's
// colour, dL/dalpha = T (g.c) - R / (1 - alpha), where R is the scalar product of g and the colour behind the instance.
// So:
// 1. An invocation holds one pixel of each of the tile's eight blocks, in registers. T comes from the bucket's
//    checkpoint, and R = g . (rendered - already blended) + dL/dT T_end, which includes everything behind and the
//    background. T decreases bit-identically to `blend`, R by w (g.c) an instance: one scalar per pixel replaces four.
//    The only divisor is the new T:
//    s = alpha dL/dalpha = w (g.c) - R alpha / (1 - alpha), alpha / (1 - alpha) = w / T_behind.
// 2. 32 instances at a time: lane i loads instance i and finds the blocks that it reaches, less those that are
//    finished. Instances that reach at least one block are moved together in shared memory.
// 3. All lanes take one such instance after another, block after block of those it reaches: a branch for each block,
//    uniform across lanes. A lane sums s, s dy, s dy^2 and w g over its pixels, s and s dy separately for the left and
//    the right blocks: eight numbers, two vectors.
// 4. Lanes are added up for four instances at once, always in the same order. All pixels of a column have one dx. So an
//    invocation per instance and column adds up the column's four lanes, weights s by dx and dx^2 and s dy by dx. Then
//    an invocation per instance and field adds up the eight columns and writes to the gradient slot. The ninth field,
//    blue, waits until all 32 instances are done and is added up by an invocation per instance. (By count, about 22
//    instructions an instance; a butterfly of shuffles over nine rows 40, rows of 32 in shared memory, a lane a row,
//    38.)
// 5. Gradient slots of instances that reach no block get zeros. The slots of instances beyond the per-tile limit also
//    get zeros: they belong to no bucket, and the tile's last bucket writes them.
//
// In permutation ABSOLUTE the sums of |s d(exponent)/dx| and |s d(exponent)/dy| go to extra slots, for density
// statistics that do not cancel (AbsGS, Ye et al. 2024, arXiv:2404.10484). In permutation DEPTH depths are a fourth
// channel in step 1, and the sum of w dL/d(blended depth) goes to an extra slot: shared/extra_slots. This permutation
// reads the number of buckets from bucket_start, because 16 buffers is the most that every device binds.
//
// A gradient slot has one writer and `update` adds a Gaussian's slots in order, without atomics: the result is
// deterministic.
//
// Bindings: views; state.buckets; splats2d; tile_start, bucket_start, bucket_tile; sorted_gaussian and sorted_slot,
// nearest first; image, checkpoints, pixel_end and block_end, from `blend`; image_gradient: dL/d(red, green, blue) and
// dL/dT; slots out, SLOT_FLOATS each. With DEPTH, depth_pixels: blended depth and dL/d(blended depth);
// depth_checkpoints, from `blend`.
//
// Reference: dapple_reference::blend_backward (arXiv:2312.02121, section 3). CPU version:
// cpu/src/stages/blend_backward.rs. Buckets: after Mallick et al. 2024, "Taming 3DGS".

#import shared/step
#import shared/groups
#import shared/splat2d
#import shared/blocks
#if RING
#import shared/ring
#endif
#import shared/extra_slots

@group(0) @binding(0) var<storage, read> views: array<View>;
#if DEPTH
@group(0) @binding(1) var<storage, read> depth_pixels: array<vec2f>;
#else
@group(0) @binding(1) var<storage, read> state: State;
#endif
@group(0) @binding(2) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(3) var<storage, read> tile_start: array<u32>;
@group(0) @binding(4) var<storage, read> bucket_start: array<u32>;
@group(0) @binding(5) var<storage, read> bucket_tile: array<u32>;
@group(0) @binding(6) var<storage, read> sorted_gaussian: array<u32>;
@group(0) @binding(7) var<storage, read> sorted_slot: array<u32>;
@group(0) @binding(8) var<storage, read> image: array<vec4f>;
@group(0) @binding(9) var<storage, read> image_gradient: array<vec4f>;
@group(0) @binding(10) var<storage, read> checkpoints: array<vec4f>;
@group(0) @binding(11) var<storage, read> pixel_end: array<u32>;
// Two vectors per tile.
@group(0) @binding(12) var<storage, read> block_end: array<vec4u>;
@group(0) @binding(13) var<storage, read_write> slots: array<f32>;
#if EXTRA_SLOTS
@group(0) @binding(14) var<storage, read_write> extra_slots: array<f32>;
#endif
#if DEPTH
@group(0) @binding(15) var<storage, read> depth_checkpoints: array<f32>;

// Depths of the instances that reach at least one block.
var<workgroup> depths: array<f32, LANES>;
// [instance][lane], and [instance and column].
var<workgroup> lane_depth: array<f32, TOGETHER * LANES>;
var<workgroup> column_depth: array<f32, LANES>;
#endif
#if ABSOLUTE
// [instance][lane], and [instance and column].
var<workgroup> lane_absolute: array<vec2f, TOGETHER * LANES>;
var<workgroup> column_absolute: array<vec2f, LANES>;
#endif

const LANES: u32 = BLOCK_PIXELS;

// Blocks of the left and of the right half of a tile.
const LEFT_BLOCKS: u32 = 0x55u;
const RIGHT_BLOCKS: u32 = 0xaau;

// Instances that are added up at once.
const TOGETHER: u32 = LANES / BLOCK_WIDTH;
// Fields that are added up in the first half of step 4: all except blue.
const FIELDS: u32 = SLOT_FLOATS - 1u;
// Distances between rows in shared memory: odd, so that lanes that read a row each use different banks.
const FIELD_STRIDE: u32 = LANES + 1u;
const BLUE_STRIDE: u32 = BLOCK_WIDTH + 1u;

// The instances that reach at least one block: mean and a, b; c, log2_opacity and red, green; the bits of blue, and the
// blocks; the gradient slot.
var<workgroup> shapes: array<vec4f, LANES>;
var<workgroup> tones: array<vec4f, LANES>;
var<workgroup> tails: array<vec2u, LANES>;
var<workgroup> places: array<u32, LANES>;
// A bit for each instance that reaches at least one block.
var<workgroup> reaching: atomic<u32>;
// [instance][half][lane]: s and s dy, left and right; s dy^2 and w g.
var<workgroup> lane_sums: array<vec4f, TOGETHER * 2u * LANES>;
// [field][instance and column].
var<workgroup> column_sums: array<f32, FIELDS * FIELD_STRIDE>;
// Blue, [instance][column].
var<workgroup> blue_sums: array<f32, LANES * BLUE_STRIDE>;

// State of a pixel during blending.
struct Ray {
    // Below TRANSMITTANCE_MIN: finished. The transmittance never rises.
    transmittance: f32,
    // R: scalar product of the gradient and the colour behind.
    behind: f32,
    gradient: vec3f,
#if DEPTH
    // dL/d(blended depth).
    by_depth: f32,
#endif
}

// Values that are constant for all pixels that an instance meets in a column of blocks.
struct Layer {
    column: Column,
    c: f32,
    colour: vec3f,
#if ABSOLUTE
    // (2 a, b) dx, and b.
    slopes: vec2f,
    b: f32,
#endif
#if DEPTH
    depth: f32,
#endif
}

// Sums over a lane's pixels, right and left.
struct Sums {
    syy: f32,
    colour: vec3f,
#if ABSOLUTE
    absolute: vec2f,
#endif
#if DEPTH
    depth: f32,
#endif
}

// Runs step 3 for one pixel.
// `side`: sums of s and s dy over the lane's pixels in this column of blocks.
fn blend_pixel(
    ray: ptr<function, Ray>,
    side: ptr<function, vec2f>,
    sums: ptr<function, Sums>,
    layer: Layer,
    dy: f32,
) {
    let exponent = exponent_at(layer.column, dy, layer.c);
    let unclamped = exp2(exponent);
    let alpha = alpha_of(unclamped, exponent);
    let in_front = (*ray).transmittance;
    let transmittance = fma(-alpha, in_front, in_front);
    let is_open = transmittance >= TRANSMITTANCE_MIN;
    let weight = select(0.0, alpha * in_front, is_open);
    let gradient = (*ray).gradient;
    let dot_xy = fma(gradient.y, layer.colour.y, gradient.x * layer.colour.x);
#if DEPTH
    let dot_xyd = fma((*ray).by_depth, layer.depth, dot_xy);
    let seen = weight * fma(gradient.z, layer.colour.z, dot_xyd);
    (*sums).depth = fma(weight, (*ray).by_depth, (*sums).depth);
#else
    let seen = weight * fma(gradient.z, layer.colour.z, dot_xy);
#endif
    let behind = (*ray).behind - seen;
    // A clamped alpha has no derivative. Behind the end nothing counts: transmittance continues to fall there, to zero,
    // and must not be a divisor.
    let moves = is_open & (unclamped <= ALPHA_MAX);
    let s = select(0.0, fma(-behind, weight / transmittance, seen), moves);
    let sy = s * dy;
    *side += vec2f(s, sy);
    (*sums).syy = fma(sy, dy, (*sums).syy);
    (*sums).colour = fma(vec3f(weight), gradient, (*sums).colour);
#if ABSOLUTE
    (*sums).absolute += abs(s * fma(vec2f(layer.b, 2.0 * layer.c), vec2f(dy), layer.slopes));
#endif
    (*ray).behind = behind;
    (*ray).transmittance = transmittance;
}

// Position of a workgroup's pixels.
struct Place {
    corner: vec2u,
    size: vec2u,
    // First of the tile's pixels in `pixel_end`, of the bucket's in `checkpoints`.
    tile_pixels: u32,
    bucket_pixels: u32,
    // The bucket's first instance, in the tile's list.
    first: u32,
}

// Runs step 1 for one of a lane's pixels. Pixels outside the image have an end of 0.
fn load_ray(place: Place, block: u32, lane: u32) -> Ray {
    let pixel = min(place.corner + block_pixel(block, lane), place.size - 1u);
    let at = pixel.y * place.size.x + pixel.x;
    let gradient = image_gradient[at];
    let rendered = image[at];
    var blended = vec4f(0.0, 0.0, 0.0, 1.0);
    if place.first > 0u {
        blended = checkpoints[place.bucket_pixels + block * BLOCK_PIXELS + lane];
    }
    let is_live = pixel_end[place.tile_pixels + block * BLOCK_PIXELS + lane] > place.first;
#if DEPTH
    let depth = depth_pixels[at];
    var depth_blended = 0.0;
    if place.first > 0u {
        depth_blended = depth_checkpoints[place.bucket_pixels + block * BLOCK_PIXELS + lane];
    }
    let seen_depth = depth.y * (depth.x - depth_blended);
    let seen = dot(gradient.xyz, rendered.xyz - blended.xyz) + seen_depth;
#else
    let seen = dot(gradient.xyz, rendered.xyz - blended.xyz);
#endif
    // A finished pixel wrote no checkpoint: the values in its place are undefined.
    return Ray(
        select(0.0, blended.w, is_live),
        select(0.0, fma(gradient.w, rendered.w, seen), is_live),
        gradient.xyz,
#if DEPTH
        depth.y,
#endif
    );
}

// Returns the blocks that have a pixel which blends instance `first` of the tile's list or a later one.
fn live_blocks(tile: u32, first: u32) -> u32 {
    let low = vec4u(block_end[2u * tile] > vec4u(first)) << vec4u(0u, 1u, 2u, 3u);
    let high = vec4u(block_end[2u * tile + 1u] > vec4u(first)) << vec4u(4u, 5u, 6u, 7u);
    let both = low | high;
    return both.x | both.y | both.z | both.w;
}

// Runs step 5: writes zeros for `count` instances from place `first` on, except for those with a bit in `kept`.
fn clear_slots(first: u32, count: u32, kept: u32, lane: u32) {
    for (var i = lane; i < count * SLOT_FLOATS; i += LANES) {
        let instance = i / SLOT_FLOATS;
        if instance >= LANES || (kept >> instance & 1u) == 0u {
            slots[sorted_slot[first + instance] * SLOT_FLOATS + i % SLOT_FLOATS] = 0.0;
        }
    }
#if EXTRA_SLOTS
    for (var i = lane; i < count * EXTRA_FLOATS; i += LANES) {
        let instance = i / EXTRA_FLOATS;
        if instance >= LANES || (kept >> instance & 1u) == 0u {
            extra_slots[sorted_slot[first + instance] * EXTRA_FLOATS + i % EXTRA_FLOATS] = 0.0;
        }
    }
#endif
}

// ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)).
fn sum8(low: vec4f, high: vec4f) -> f32 {
    return ((low.x + low.y) + (low.z + low.w)) + ((high.x + high.y) + (high.z + high.w));
}

// Runs step 4 for instances `first` .. `end` of those moved together.
fn add_lanes(first: u32, end: u32, lane: u32, corner_x: u32) {
    workgroupBarrier();
    let column = lane % BLOCK_WIDTH;
    let instance = first + lane / BLOCK_WIDTH;
    if instance < end {
        let at = lane / BLOCK_WIDTH * (2u * LANES) + column;
        let sides = (lane_sums[at] + lane_sums[at + 8u])
            + (lane_sums[at + 16u] + lane_sums[at + 24u]);
        let rest = (lane_sums[at + 32u] + lane_sums[at + 40u])
            + (lane_sums[at + 48u] + lane_sums[at + 56u]);
        let x = f32(corner_x + column) + 0.5;
        let dx = vec2f(x, x + f32(BLOCK_WIDTH)) - shapes[instance].x;
        let sx = sides.xz * dx;
        column_sums[lane] = sides.x + sides.z;
        column_sums[FIELD_STRIDE + lane] = sx.x + sx.y;
        column_sums[2u * FIELD_STRIDE + lane] = sides.y + sides.w;
        column_sums[3u * FIELD_STRIDE + lane] = fma(sx.x, dx.x, sx.y * dx.y);
        column_sums[4u * FIELD_STRIDE + lane] = fma(sides.y, dx.x, sides.w * dx.y);
        column_sums[5u * FIELD_STRIDE + lane] = rest.x;
        column_sums[6u * FIELD_STRIDE + lane] = rest.y;
        column_sums[7u * FIELD_STRIDE + lane] = rest.z;
        blue_sums[instance * BLUE_STRIDE + column] = rest.w;
#if ABSOLUTE
        let own = lane / BLOCK_WIDTH * LANES + column;
        column_absolute[lane] = (lane_absolute[own] + lane_absolute[own + 8u])
            + (lane_absolute[own + 16u] + lane_absolute[own + 24u]);
#endif
#if DEPTH
        let of_depth = lane / BLOCK_WIDTH * LANES + column;
        column_depth[lane] = (lane_depth[of_depth] + lane_depth[of_depth + 8u])
            + (lane_depth[of_depth + 16u] + lane_depth[of_depth + 24u]);
#endif
    }
    // After this barrier no invocation reads lane_sums, and column_sums is not written before the next call's first
    // barrier.
    workgroupBarrier();
    if instance < end {
#if EXTRA_SLOTS
        if column == 0u {
            add_extra(instance, lane);
        }
#endif
        // The number of fields equals the number of columns.
        let at = column * FIELD_STRIDE + lane / BLOCK_WIDTH * BLOCK_WIDTH;
        slots[places[instance] * SLOT_FLOATS + column] = sum8(
            vec4f(column_sums[at], column_sums[at + 1u], column_sums[at + 2u], column_sums[at + 3u]),
            vec4f(
                column_sums[at + 4u],
                column_sums[at + 5u],
                column_sums[at + 6u],
                column_sums[at + 7u],
            ),
        );
    }
}

#if EXTRA_SLOTS
// Runs the second half of step 4 for these sums, all of them in one invocation per instance.
fn add_extra(instance: u32, first_column: u32) {
    let to = places[instance] * EXTRA_FLOATS;
#if ABSOLUTE
    var sum = vec2f();
    for (var k = 0u; k < BLOCK_WIDTH; k++) {
        sum += column_absolute[first_column + k];
    }
    extra_slots[to] = sum.x;
    extra_slots[to + 1u] = sum.y;
#endif
#if DEPTH
    var depth = 0.0;
    for (var k = 0u; k < BLOCK_WIDTH; k++) {
        depth += column_depth[first_column + k];
    }
    extra_slots[to + EXTRA_DEPTH] = depth;
#endif
}
#endif

fn add_blue(instance: u32) {
    let at = instance * BLUE_STRIDE;
    slots[places[instance] * SLOT_FLOATS + FIELDS] = sum8(
        vec4f(blue_sums[at], blue_sums[at + 1u], blue_sums[at + 2u], blue_sums[at + 3u]),
        vec4f(blue_sums[at + 4u], blue_sums[at + 5u], blue_sums[at + 6u], blue_sums[at + 7u]),
    );
}

@compute @workgroup_size(LANES)
fn blend_backward(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
#if SUBGROUPS
    @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
#else
    @builtin(local_invocation_index) lane: u32,
#endif
) {
#if SUBGROUPS
    let lane = group * SUBGROUP_SIZE + subgroup_lane;
#endif
#if PARTS
    let bucket = group_number(id, dispatched) * DISPATCH_PARTS + PART;
#else
    let bucket = group_number(id, dispatched);
#endif
#if DEPTH
    let tiles = views[step.view].tiles;
    let buckets = bucket_start[tiles.x * tiles.y];
#else
    let buckets = state.buckets;
#endif
    if bucket >= buckets {
        return;
    }
    let tile = bucket_tile[bucket];
    let start = tile_start[tile];
    let whole = tile_start[tile + 1u] - start;
    let count = select(whole, min(whole, step.cap), step.cap > 0u);
    let first = min((bucket - bucket_start[tile]) * BUCKET, count);
    let end = min(first + BUCKET, count);
    if end == count {
        clear_slots(start + count, whole - count, 0u, lane);
    }
    if live_blocks(tile, first) == 0u {
        clear_slots(start + first, end - first, 0u, lane);
        return;
    }

    let view = views[step.view];
    let corner = tile_corner(tile, view.tiles.x);
    let place = Place(
        corner,
        view.size,
        tile * TILE_PIXELS,
        bucket * TILE_PIXELS,
        first,
    );
    var ray0 = load_ray(place, 0u, lane);
    var ray1 = load_ray(place, 1u, lane);
    var ray2 = load_ray(place, 2u, lane);
    var ray3 = load_ray(place, 3u, lane);
    var ray4 = load_ray(place, 4u, lane);
    var ray5 = load_ray(place, 5u, lane);
    var ray6 = load_ray(place, 6u, lane);
    var ray7 = load_ray(place, 7u, lane);
    // Centres of a lane's pixels: left and right; four rows of blocks.
    let left_x = f32(corner.x + lane % BLOCK_WIDTH) + 0.5;
    let right_x = left_x + f32(BLOCK_WIDTH);
    let y0 = f32(corner.y + lane / BLOCK_WIDTH) + 0.5;
    let y1 = y0 + f32(BLOCK_HEIGHT);
    let y2 = y0 + f32(2u * BLOCK_HEIGHT);
    let y3 = y0 + f32(3u * BLOCK_HEIGHT);

    for (var batch = first; batch < end; batch += LANES) {
        // Step 2.
        var s0 = vec4f();
        var s1 = vec4f();
        var s2 = vec4f();
        var touched = 0u;
        if batch + lane < end {
            let gaussian = sorted_gaussian[start + batch + lane];
            s0 = splats2d[3u * gaussian];
#if RING
            s0 = nearest_copy(s0, f32(corner.x));
#endif
            s1 = splats2d[3u * gaussian + 1u];
            s2 = splats2d[3u * gaussian + 2u];
            touched = live_blocks(tile, batch)
                & touched_blocks(s0.xy, vec3f(s0.zw, s1.x), s1.y, s2.zw, vec2f(corner));
        }
        if lane == 0u {
            atomicStore(&reaching, 0u);
        }
        workgroupBarrier();
#if SUBGROUPS
        let ballot = subgroupBallot(touched != 0u).x;
        if subgroup_lane == 0u {
            atomicOr(&reaching, ballot << lane);
        }
#else
        if touched != 0u {
            atomicOr(&reaching, 1u << lane);
        }
#endif
        let kept = workgroupUniformLoad(&reaching);
        if touched != 0u {
            let to = countOneBits(kept & ((1u << lane) - 1u));
            shapes[to] = s0;
            tones[to] = s1;
            tails[to] = vec2u(bitcast<u32>(s2.x), touched);
            places[to] = sorted_slot[start + batch + lane];
#if DEPTH
            depths[to] = s2.y;
#endif
        }
        workgroupBarrier();
        let in_batch = min(end - batch, LANES);
        let instances = countOneBits(kept);
        if instances < in_batch {
            clear_slots(start + batch, in_batch, kept, lane);
        }

        // Step 3.
        for (var together = 0u; together < instances; together += TOGETHER) {
            let last = min(together + TOGETHER, instances);
            for (var i = together; i < last; i++) {
                let shape = shapes[i];
                let tone = tones[i];
                let tail = tails[i];
                let blocks = tail.y;
                let colour = vec3f(tone.zw, bitcast<f32>(tail.x));
                var left = vec2f();
                var right = vec2f();
                var sums = Sums();
                if (blocks & LEFT_BLOCKS) != 0u {
                    let column = column_of(left_x - shape.x, shape.z, shape.w, tone.y);
                    let layer = Layer(
                        column,
                        tone.x,
                        colour,
#if ABSOLUTE
                        column.dx * vec2f(2.0 * shape.z, shape.w),
                        shape.w,
#endif
#if DEPTH
                        depths[i],
#endif
                    );
                    if (blocks & 1u) != 0u {
                        blend_pixel(&ray0, &left, &sums, layer, y0 - shape.y);
                    }
                    if (blocks & 4u) != 0u {
                        blend_pixel(&ray2, &left, &sums, layer, y1 - shape.y);
                    }
                    if (blocks & 16u) != 0u {
                        blend_pixel(&ray4, &left, &sums, layer, y2 - shape.y);
                    }
                    if (blocks & 64u) != 0u {
                        blend_pixel(&ray6, &left, &sums, layer, y3 - shape.y);
                    }
                }
                if (blocks & RIGHT_BLOCKS) != 0u {
                    let column = column_of(right_x - shape.x, shape.z, shape.w, tone.y);
                    let layer = Layer(
                        column,
                        tone.x,
                        colour,
#if ABSOLUTE
                        column.dx * vec2f(2.0 * shape.z, shape.w),
                        shape.w,
#endif
#if DEPTH
                        depths[i],
#endif
                    );
                    if (blocks & 2u) != 0u {
                        blend_pixel(&ray1, &right, &sums, layer, y0 - shape.y);
                    }
                    if (blocks & 8u) != 0u {
                        blend_pixel(&ray3, &right, &sums, layer, y1 - shape.y);
                    }
                    if (blocks & 32u) != 0u {
                        blend_pixel(&ray5, &right, &sums, layer, y2 - shape.y);
                    }
                    if (blocks & 128u) != 0u {
                        blend_pixel(&ray7, &right, &sums, layer, y3 - shape.y);
                    }
                }
                let to = (i - together) * (2u * LANES) + lane;
                lane_sums[to] = vec4f(left, right);
                lane_sums[to + LANES] = vec4f(sums.syy, sums.colour);
#if ABSOLUTE
                lane_absolute[(i - together) * LANES + lane] = sums.absolute;
#endif
#if DEPTH
                lane_depth[(i - together) * LANES + lane] = sums.depth;
#endif
            }
            add_lanes(together, last, lane, corner.x);
        }
        if lane < instances {
            add_blue(lane);
        }
    }
}

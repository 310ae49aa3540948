// `blend`: blends front to back, tile by tile. A workgroup per tile, an invocation per pixel; 32 consecutive
// invocations are a block of 8 x 4 pixels. 256 instances at a time:
// 1. Each invocation loads one instance's splat into shared memory and finds the blocks that it reaches
//    (shared/blocks). For each block and each 32 instances, that makes a word of 32 bits.
// 2. Each pixel walks over the set bits of its block's words: alpha, its share of the colour, the transmittance behind.
//    A pixel is finished before its transmittance would fall below TRANSMITTANCE_MIN. Four instances are computed at a
//    time and then blended in order: at the end, when few tiles are left, the time is that of their arithmetic, one
//    instruction after the other.
// 3. At each start of a bucket, a pixel that is not finished writes colour and transmittance to `checkpoints`, where
//    `blend_backward` starts. The first bucket of a tile needs no checkpoint.
// 4. When all pixels are finished, the rest of the list is not read.
//
// Reason for a workgroup per tile instead of per block (by count, not measured): eight blocks would fetch each splat
// eight times, 64 bytes each from the second-level cache: at 5 million instances 2.5 GB. Reason for bits instead of
// lists of survivors: a bit costs five instructions to find, a list needs one more barrier and its own writing. Pixels
// exit the loop when they are finished, so the loop needs no data of a neighbour. 32-wide subgroups skip the instances
// that do not reach their block; wider subgroups do more work.
//
// Workgroups take tiles in the order of `tile_order`, full tiles first: the last to begin are short.
//
// Bindings: views; splats2d; tile_start; tile_order; sorted_gaussian, nearest first; image out (colour over the
// background, transmittance); state.lost_transmittance. For `blend_backward` (not with IMAGE_ONLY): bucket_start;
// checkpoints, by bucket, block and lane; pixel_end (by tile, block and lane) and block_end. An end is the number of
// instances of the tile's list up to the last that a pixel, or any pixel of a block, blends. Ends are in units of whole
// words: a finer unit would cost two instructions an instance.
//
// In permutation DEPTH, depths are blended like a colour, over zero. depth_pixels out: the blended depth and a second
// number. With IMAGE_ONLY this is the depth of the instance behind which the transmittance is first at most
// MEDIAN_TRANSMITTANCE. Otherwise it is zero, and depth_loss.wgsl replaces it by a derivative. depth_checkpoints out,
// like checkpoints.
//
// In permutation COUNTS, pixel_blended out: the number of instances that each pixel blends.
//
// In permutation FRAMES several views are rendered at once, with the images one after the other.
//
// Reference: dapple_reference::blend (Kerbl et al. 2023, eq. 3). CPU version: cpu/src/stages/blend.rs.

#import shared/step
#import shared/groups
#import shared/splat2d
#import shared/blocks
#if RING
#import shared/ring
#endif

@group(0) @binding(0) var<storage, read> views: array<View>;
@group(0) @binding(1) var<storage, read> splats2d: array<vec4f>;
@group(0) @binding(2) var<storage, read> tile_start: array<u32>;
@group(0) @binding(3) var<storage, read> sorted_gaussian: array<u32>;
@group(0) @binding(4) var<storage, read_write> image: array<vec4f>;
// The words of `State`: one of them is written from many workgroups.
// `State` as words: LOST_TRANSMITTANCE is the index of that word.
@group(0) @binding(5) var<storage, read_write> state: array<atomic<u32>>;
#if FRAMES
// The words of `FrameCounts`, by view.
@group(0) @binding(14) var<storage, read_write> frame_counts: array<atomic<u32>>;
#endif
@group(0) @binding(10) var<storage, read> tile_order: array<u32>;
#if !IMAGE_ONLY
@group(0) @binding(6) var<storage, read> bucket_start: array<u32>;
@group(0) @binding(7) var<storage, read_write> checkpoints: array<vec4f>;
@group(0) @binding(8) var<storage, read_write> pixel_end: array<u32>;
@group(0) @binding(9) var<storage, read_write> block_end: array<u32>;
#endif
#if DEPTH
@group(0) @binding(11) var<storage, read_write> depth_pixels: array<vec2f>;
#if !IMAGE_ONLY
@group(0) @binding(12) var<storage, read_write> depth_checkpoints: array<f32>;
#endif
#endif

#if COUNTS
@group(0) @binding(13) var<storage, read_write> pixel_blended: array<u32>;
#endif

// Instances of a word of bits, and words of a batch.
const WORD: u32 = 32u;
const WORDS: u32 = TILE_PIXELS / WORD;

// The batch's splats: mean and a, b; c, log2_opacity and red, green; blue.
var<workgroup> shapes: array<vec4f, TILE_PIXELS>;
var<workgroup> tones: array<vec4f, TILE_PIXELS>;
var<workgroup> blues: array<f32, TILE_PIXELS>;
#if DEPTH
var<workgroup> depths: array<f32, TILE_PIXELS>;
#endif
// [parity of the batch][block][word]: the instances that reach the block, the nearest in the highest bit, which is the
// quickest to find. One parity is cleared while the other is read.
var<workgroup> reached: array<atomic<u32>, 2u * BLOCKS_PER_TILE * WORDS>;
// Not zero: a pixel is not finished.
var<workgroup> live: atomic<u32>;
// Bits of the largest transmittance among the pixels that the per-tile limit kept from finishing.
var<workgroup> lost: atomic<u32>;
var<workgroup> ends: array<atomic<u32>, BLOCKS_PER_TILE>;

// State of a pixel during blending.
struct Ray {
    centre: vec2f,
    colour: vec3f,
    transmittance: f32,
    is_finished: bool,
    // See `pixel_end`.
    end: u32,
#if DEPTH
    // Depth blended so far, and the median depth or zero.
    depth: f32,
    median: f32,
#endif
#if COUNTS
    blended: u32,
#endif
}

// Runs step 1 for instance `local` of a batch: stores its splat, returns the blocks it reaches.
fn fetch(local: u32, gaussian: u32, corner: vec2f) -> u32 {
#if RING
    let s0 = nearest_copy(splats2d[3u * gaussian], corner.x);
#else
    let s0 = splats2d[3u * gaussian];
#endif
    let s1 = splats2d[3u * gaussian + 1u];
    let s2 = splats2d[3u * gaussian + 2u];
    shapes[local] = s0;
    tones[local] = s1;
    blues[local] = s2.x;
#if DEPTH
    depths[local] = s2.y;
#endif
    return touched_blocks(s0.xy, vec3f(s0.zw, s1.x), s1.y, s2.zw, corner);
}

// An instance at a pixel.
struct Layer {
    alpha: f32,
    colour: vec3f,
#if DEPTH
    depth: f32,
#endif
}

// Takes the highest bit of a word, whose lowest is instance `last` of the batch, and returns that instance at a pixel.
// Without a bit it returns the first instance of the word, whose numbers are finite, with alpha 0.
fn take_layer(bits: ptr<function, u32>, last: u32, centre: vec2f) -> Layer {
    let is_there = *bits != 0u;
    let bit = firstLeadingBit(*bits) & (WORD - 1u);
    *bits &= ~(1u << bit);
    let shape = shapes[last - bit];
    let tone = tones[last - bit];
    let d = centre - shape.xy;
    let exponent = exponent_at(column_of(d.x, shape.z, shape.w, tone.y), d.y, tone.x);
    let alpha = select(0.0, alpha_of(exp2(exponent), exponent), is_there);
#if DEPTH
    return Layer(alpha, vec3f(tone.zw, blues[last - bit]), depths[last - bit]);
#else
    return Layer(alpha, vec3f(tone.zw, blues[last - bit]));
#endif
}

// Returns the transmittance behind a layer.
fn behind(layer: Layer, in_front: f32) -> f32 {
    return fma(-layer.alpha, in_front, in_front);
}

// Blends a layer; `rest` is the transmittance behind it.
fn put_layer(ray: ptr<function, Ray>, layer: Layer, rest: f32) {
    let in_front = (*ray).transmittance;
    let weight = layer.alpha * in_front;
    (*ray).colour = fma(vec3f(weight), layer.colour, (*ray).colour);
    (*ray).transmittance = rest;
#if COUNTS
    (*ray).blended += select(0u, 1u, layer.alpha > 0.0);
#endif
#if DEPTH
    (*ray).depth = fma(weight, layer.depth, (*ray).depth);
#if IMAGE_ONLY
    if in_front > MEDIAN_TRANSMITTANCE && rest <= MEDIAN_TRANSMITTANCE {
        (*ray).median = layer.depth;
    }
#endif
#endif
}

// Blends a layer, or finishes the pixel. Does nothing to a finished one.
fn put_or_finish(ray: ptr<function, Ray>, layer: Layer) {
    let rest = behind(layer, (*ray).transmittance);
    if rest < TRANSMITTANCE_MIN {
        (*ray).is_finished = true;
    }
    if !(*ray).is_finished {
        put_layer(ray, layer, rest);
    }
}

// Runs step 2 for the bits of a word, four layers at a time.
fn blend_word(ray: ptr<function, Ray>, word: u32, last: u32) {
    var bits = word;
    while (bits != 0u) & !(*ray).is_finished {
        let a = take_layer(&bits, last, (*ray).centre);
        let b = take_layer(&bits, last, (*ray).centre);
        let c = take_layer(&bits, last, (*ray).centre);
        let d = take_layer(&bits, last, (*ray).centre);
        let behind_a = behind(a, (*ray).transmittance);
        let behind_b = behind(b, behind_a);
        let behind_c = behind(c, behind_b);
        let behind_d = behind(d, behind_c);
        if behind_d >= TRANSMITTANCE_MIN {
            put_layer(ray, a, behind_a);
            put_layer(ray, b, behind_b);
            put_layer(ray, c, behind_c);
            put_layer(ray, d, behind_d);
        } else {
            put_or_finish(ray, a);
            put_or_finish(ray, b);
            put_or_finish(ray, c);
            put_or_finish(ray, d);
        }
    }
}

// Runs steps 2 and 3 for the instances from `first` on, whose words begin at `words`.
fn walk(ray: ptr<function, Ray>, first: u32, count: u32, words: u32, checkpoint: u32) {
    for (var word = 0u; word < WORDS && first + word * WORD < count; word++) {
        if (*ray).is_finished {
            break;
        }
        let at = first + word * WORD;
        let in_front = (*ray).transmittance;
#if !IMAGE_ONLY
        if at % BUCKET == 0u && at > 0u {
            checkpoints[checkpoint + at / BUCKET * TILE_PIXELS] =
                vec4f((*ray).colour, (*ray).transmittance);
#if DEPTH
            depth_checkpoints[checkpoint + at / BUCKET * TILE_PIXELS] = (*ray).depth;
#endif
        }
#endif
        let last = word * WORD + WORD - 1u;
        blend_word(ray, atomicLoad(&reached[words + word]), last);
        // Every blended instance reduces the transmittance.
        (*ray).end = select((*ray).end, at + WORD, (*ray).transmittance < in_front);
    }
}

@compute @workgroup_size(TILE_PIXELS)
fn blend(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
#if SUBGROUPS
    @builtin(subgroup_id) group: u32,
    @builtin(subgroup_invocation_id) subgroup_lane: u32,
#else
    @builtin(local_invocation_index) t: u32,
#endif
) {
#if SUBGROUPS
    let t = group * SUBGROUP_SIZE + subgroup_lane;
#endif
#if PARTS
    let turn = group_number(id, dispatched) * DISPATCH_PARTS + PART;
#else
    let turn = group_number(id, dispatched);
#endif
    let view = views[step.view];
    let tiles = view.tiles.x * view.tiles.y;
#if FRAMES
    let turns = tiles * step.frames;
#else
    let turns = tiles;
#endif
    if turn >= turns {
        return;
    }
    let tile = tile_order[turn];
    let block = t / BLOCK_PIXELS;
#if FRAMES
    let corner = tile_corner(tile % tiles, view.tiles.x);
#else
    let corner = tile_corner(tile, view.tiles.x);
#endif
    let pixel = corner + block_pixel(block, t % BLOCK_PIXELS);
    let is_inside = all(pixel < view.size);
#if COUNTS
    var ray: Ray;
    ray.centre = vec2f(pixel) + 0.5;
    ray.transmittance = 1.0;
    ray.is_finished = !is_inside;
#else
#if DEPTH
    var ray = Ray(vec2f(pixel) + 0.5, vec3f(), 1.0, !is_inside, 0u, 0.0, 0.0);
#else
    var ray = Ray(vec2f(pixel) + 0.5, vec3f(), 1.0, !is_inside, 0u);
#endif
#endif

    let start = tile_start[tile];
    let whole = tile_start[tile + 1u] - start;
    let count = select(whole, min(whole, step.cap), step.cap > 0u);
#if IMAGE_ONLY
    let checkpoint = 0u;
#else
    let checkpoint = bucket_start[tile] * TILE_PIXELS + t;
#endif
    for (var word = t; word < 2u * BLOCKS_PER_TILE * WORDS; word += TILE_PIXELS) {
        atomicStore(&reached[word], 0u);
    }
    if t < BLOCKS_PER_TILE {
        atomicStore(&ends[t], 0u);
    }
    if t == 0u {
        atomicStore(&lost, 0u);
    }
    workgroupBarrier();

    var parity = 0u;
    for (var first = 0u; first < count; first += TILE_PIXELS) {
        var touched = 0u;
        if first + t < count {
            touched = fetch(t, sorted_gaussian[start + first + t], vec2f(corner));
        }
        let word = parity + t / WORD;
#if SUBGROUPS
        // Lane b takes the bits of block b: a subgroup has at least eight lanes.
        var bits = 0u;
        for (var b = 0u; b < BLOCKS_PER_TILE; b++) {
            let ballot = subgroupBallot((touched >> b & 1u) != 0u);
            // A subgroup of 64 fills two words.
            let half = select(ballot.x, ballot.y, subgroup_lane >= WORD);
            bits = select(bits, half, subgroup_lane % WORD == b);
        }
        if subgroup_lane % WORD < BLOCKS_PER_TILE {
            let mine = bits << (t % WORD - subgroup_lane % WORD);
            atomicOr(&reached[word + subgroup_lane % WORD * WORDS], reverseBits(mine));
        }
#else
        for (var rest = touched; rest != 0u; rest &= rest - 1u) {
            atomicOr(&reached[word + firstTrailingBit(rest) * WORDS], 0x80000000u >> (t % WORD));
        }
#endif
        if t == 0u {
            atomicStore(&live, 0u);
        }
        workgroupBarrier();

        walk(&ray, first, count, parity + block * WORDS, checkpoint);
        if !ray.is_finished {
            atomicStore(&live, 1u);
        }
        parity = BLOCKS_PER_TILE * WORDS - parity;
        if t < BLOCKS_PER_TILE * WORDS {
            atomicStore(&reached[parity + t], 0u);
        }
        if workgroupUniformLoad(&live) == 0u {
            break;
        }
    }

    if is_inside {
        let background = ray.transmittance * step.background;
#if FRAMES
        let index = (tile / tiles * view.size.y + pixel.y) * view.size.x + pixel.x;
#else
        let index = pixel.y * view.size.x + pixel.x;
#endif
        image[index] = vec4f(ray.colour + background, ray.transmittance);
#if DEPTH
        depth_pixels[index] = vec2f(ray.depth, ray.median);
#endif
#if COUNTS
        pixel_blended[index] = ray.blended;
#endif
    }
    if whole > count && !ray.is_finished {
        atomicMax(&lost, bitcast<u32>(ray.transmittance));
    }
#if !IMAGE_ONLY
    pixel_end[tile * TILE_PIXELS + t] = ray.end;
    atomicMax(&ends[block], ray.end);
#endif
    workgroupBarrier();
#if !IMAGE_ONLY
    if t < BLOCKS_PER_TILE {
        block_end[tile * BLOCKS_PER_TILE + t] = atomicLoad(&ends[t]);
    }
#endif
    if whole > count && t == 0u {
#if FRAMES
        let counts = tile / tiles * FRAME_COUNTS;
        atomicMax(&frame_counts[counts + FRAME_LOST_TRANSMITTANCE], atomicLoad(&lost));
#else
        atomicMax(&state[LOST_TRANSMITTANCE], atomicLoad(&lost));
#endif
    }
}

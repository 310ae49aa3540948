// `nearest`: finds for each row the nearest of its group's centres, the first of equals. One workgroup per block of 64
// rows:
// 1. Rows go to workgroup memory, all columns of them, four rows to a vector.
// 2. Tiles of 64 centres, 12 columns at a time: each of 16 x 16 invocations has the products of 4 rows with 4 centres.
// 3. |c|^2 - 2 x.c. All numbers are whole and below 2^24, so that every sum is exact, in any order and with or without
//    fused operations: the labels are those of the CPU.
// 4. An invocation keeps the nearest of its centres for each of its rows; then the results of 16 invocations are
//    compared.
// Reference: dapple_scene::splat_file::nearest, which gives the reason for whole numbers.
//
// Bindings: span, the blocks of this dispatch (first, end) and words of a row; blocks (first row, rows, first centre,
// centres); rows, centres, `[n, words]`, two columns a word; norms, |c|^2; labels, `[rows]`.

#import shared/flat_groups

@group(0) @binding(0) var<uniform> span: vec4u;
@group(0) @binding(1) var<storage, read> blocks: array<vec4u>;
@group(0) @binding(2) var<storage, read> rows: array<u32>;
@group(0) @binding(3) var<storage, read> centres: array<u32>;
@group(0) @binding(4) var<storage, read> norms: array<f32>;
@group(0) @binding(5) var<storage, read_write> labels: array<u32>;

// Rows and centres of a tile, by fours.
const QUADS: u32 = 16u;
// Columns of centres at a time, and words that they take.
const COLUMNS: u32 = 12u;
const COLUMN_WORDS: u32 = 6u;
// Most columns of rows: 45 of harmonics of degree 3, padded.
const MOST_COLUMNS: u32 = 48u;
// Larger than any distance.
const FAR: f32 = 3e38;

// [column][quad] of four rows each, and later the results of each invocation.
var<workgroup> row_tile: array<vec4f, 768>;
// [column][quad] of four centres each.
var<workgroup> centre_tile: array<vec4f, 192>;

// The first and the second column of words.
fn first(words: vec4u) -> vec4f {
    return vec4f(bitcast<vec4i>(words << vec4u(16u)) >> vec4u(16u));
}

fn second(words: vec4u) -> vec4f {
    return vec4f(bitcast<vec4i>(words) >> vec4u(16u));
}

// Returns a word of a row or a centre, or zeros beyond the last.
fn row_word(block: vec4u, row: u32, word: u32) -> u32 {
    if row < block.y {
        return rows[(block.x + row) * span.z + word];
    }
    return 0u;
}

fn centre_word(block: vec4u, centre: u32, word: u32) -> u32 {
    if centre < block.w {
        return centres[(block.z + centre) * span.z + word];
    }
    return 0u;
}

fn norm(block: vec4u, centre: u32) -> f32 {
    if centre < block.w {
        return norms[block.z + centre];
    }
    return FAR;
}

fn load_rows(block: vec4u, local: u32) {
    for (var i = local; i < QUADS * span.z; i += 256u) {
        let quad = i / span.z;
        let word = i % span.z;
        let words = vec4u(
            row_word(block, 4u * quad, word),
            row_word(block, 4u * quad + 1u, word),
            row_word(block, 4u * quad + 2u, word),
            row_word(block, 4u * quad + 3u, word),
        );
        row_tile[2u * word * QUADS + quad] = first(words);
        row_tile[(2u * word + 1u) * QUADS + quad] = second(words);
    }
}

// Loads the columns from word `from_word` on of 64 centres.
fn load_centres(block: vec4u, tile: u32, from_word: u32, local: u32) {
    if local < QUADS * COLUMN_WORDS {
        let quad = local % QUADS;
        let word = local / QUADS;
        let centre = tile + 4u * quad;
        let words = vec4u(
            centre_word(block, centre, from_word + word),
            centre_word(block, centre + 1u, from_word + word),
            centre_word(block, centre + 2u, from_word + word),
            centre_word(block, centre + 3u, from_word + word),
        );
        centre_tile[2u * word * QUADS + quad] = first(words);
        centre_tile[(2u * word + 1u) * QUADS + quad] = second(words);
    }
}

// The nearest centre so far, for each of four rows.
struct Best {
    distance: vec4f,
    centre: vec4u,
}

fn nearer(best: Best, distance: vec4f, centre: u32) -> Best {
    let less = distance < best.distance;
    return Best(
        select(best.distance, distance, less),
        select(best.centre, vec4u(centre), less),
    );
}

// Returns the nearest among the results of the 16 invocations that had other centres for a row.
fn label(row: u32) -> u32 {
    let quad = row / 4u;
    let lane = row % 4u;
    var least = row_tile[quad][lane];
    var centre = row_tile[256u + quad][lane];
    for (var other = 1u; other < 16u; other++) {
        let distance = row_tile[other * QUADS + quad][lane];
        let candidate = row_tile[256u + other * QUADS + quad][lane];
        if distance < least || (distance == least && candidate < centre) {
            least = distance;
            centre = candidate;
        }
    }
    return u32(centre);
}

@compute @workgroup_size(256)
fn nearest(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let number = span.x + group_number(id, dispatched);
    if number >= span.y {
        return;
    }
    let block = blocks[number];
    let words = min(span.z, MOST_COLUMNS / 2u);
    let row_quad = local / 16u;
    let centre_quad = local % 16u;
    load_rows(block, local);
    var best = Best(vec4f(FAR), vec4u(0u));
    for (var tile = 0u; tile < block.w; tile += 4u * QUADS) {
        var a = vec4f();
        var b = vec4f();
        var c = vec4f();
        var d = vec4f();
        for (var word = 0u; word < words; word += COLUMN_WORDS) {
            workgroupBarrier();
            load_centres(block, tile, word, local);
            workgroupBarrier();
            for (var column = 0u; column < COLUMNS; column++) {
                let x = row_tile[(2u * word + column) * QUADS + row_quad];
                let y = centre_tile[column * QUADS + centre_quad];
                a += x * y.x;
                b += x * y.y;
                c += x * y.z;
                d += x * y.w;
            }
        }
        let centre = tile + 4u * centre_quad;
        best = nearer(best, norm(block, centre) - 2.0 * a, centre);
        best = nearer(best, norm(block, centre + 1u) - 2.0 * b, centre + 1u);
        best = nearer(best, norm(block, centre + 2u) - 2.0 * c, centre + 2u);
        best = nearer(best, norm(block, centre + 3u) - 2.0 * d, centre + 3u);
    }
    workgroupBarrier();
    row_tile[centre_quad * QUADS + row_quad] = best.distance;
    // Exact as floats: fewer than 2^24 centres.
    row_tile[256u + centre_quad * QUADS + row_quad] = vec4f(best.centre);
    workgroupBarrier();
    if local < block.y {
        labels[block.x + local] = label(local);
    }
}

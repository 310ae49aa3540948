// `copy_words`: copies a range of words from one buffer to another. Commands of the driver that copy buffers reach a
// twentieth of the bandwidth of the memory on some devices. One invocation per four words, a workgroup's words apart, so
// that neighbours read neighbours.
//
// Bindings: range (first word of the source, first word of the target, words); source; target_words.

#import shared/flat_groups

@group(0) @binding(0) var<uniform> range: vec4u;
@group(0) @binding(1) var<storage, read> source: array<u32>;
@group(0) @binding(2) var<storage, read_write> target_words: array<u32>;

const THREADS: u32 = 256u;
const EACH: u32 = 4u;

@compute @workgroup_size(THREADS)
fn copy_words(
    @builtin(workgroup_id) id: vec3u,
    @builtin(num_workgroups) dispatched: vec3u,
    @builtin(local_invocation_index) local: u32,
) {
    let first = group_number(id, dispatched) * THREADS * EACH + local;
    for (var k = 0u; k < EACH; k++) {
        let word = first + k * THREADS;
        if word < range.z {
            target_words[range.y + word] = source[range.x + word];
        }
    }
}

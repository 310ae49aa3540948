// Six sums over a workgroup of 256 by a fixed tree: the same bits in every run.

// [component][invocation].
var<workgroup> six_sums: array<f32, 6u * 256u>;

// Writes sum c to [256 c], where all invocations can read it.
fn sum_six(local: u32, a: vec3f, b: vec3f) {
    six_sums[local] = a.x;
    six_sums[256u + local] = a.y;
    six_sums[512u + local] = a.z;
    six_sums[768u + local] = b.x;
    six_sums[1024u + local] = b.y;
    six_sums[1280u + local] = b.z;
    for (var half = 128u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if local < half {
            for (var c = 0u; c < 6u; c++) {
                six_sums[256u * c + local] += six_sums[256u * c + local + half];
            }
        }
    }
    workgroupBarrier();
}

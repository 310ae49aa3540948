// Random numbers: a hash of the place that uses them, not a stream. CPU version: engine::noise.

// PCG's output permutation as a hash (Jarzynski & Olano, "Hash Functions for GPU Rendering", JCGT
// 2020).
fn pcg(input: u32) -> u32 {
    let state = input * 747796405u + 2891336453u;
    let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (word >> 22u) ^ word;
}

// Returns the common key of a Gaussian's random numbers in one step: `pcg(noise_key(..) ^ which)`
// is `noise::hash(seed, step, index, which)`.
fn noise_key(seed: vec2u, number: u32, index: u32) -> u32 {
    return pcg(pcg(pcg(pcg(seed.x) ^ seed.y) ^ number) ^ index);
}

// CPU version: `noise::uniform`.
fn uniform_number(key: u32, which: u32) -> f32 {
    return (f32(pcg(key ^ which) >> 9u) + 0.5) * (1.0 / 8388608.0);
}

// Appearance MLP: a small network of a Gaussian's position and features gives its colour in a photo. CPU version, and
// the meaning of the numbers: dapple_engine::appearance_mlp. Reference: dapple_reference::appearance_mlp.
//
// `mlp`: the frame (middle of the scene, one over its size); W1, 32 rows of 36; W2, 6 rows of 32; then, by view, 32
// numbers that multiply the units and 32 that are added to them. The importing shader declares it as `array<vec4f>`,
// `array<f32>` where it writes it.

const MLP_HIDDEN: u32 = 32u;
const MLP_ENCODED: u32 = 36u;
const MLP_WAVES: u32 = 28u;
const MLP_FEATURES: u32 = 8u;
const MLP_NETWORK: u32 = 1344u;
const MLP_CODE: u32 = 64u;
// Offsets, in vectors of four.
const MLP_W1: u32 = 1u;
const MLP_W2: u32 = 289u;
const MLP_CODES: u32 = 337u;

// Encoded position, by fours, then the features.
struct MlpPlace {
    e0: vec4f,
    e1: vec4f,
    e2: vec4f,
    e3: vec4f,
    e4: vec4f,
    e5: vec4f,
    e6: vec4f,
    f0: vec4f,
    f1: vec4f,
}

struct MlpWaves {
    s: vec3f,
    c: vec3f,
}

// Returns sine and cosine of twice the angle.
fn mlp_twice(w: MlpWaves) -> MlpWaves {
    return MlpWaves(2.0 * w.s * w.c, 1.0 - 2.0 * w.s * w.s);
}

fn mlp_encode(mean: vec3f, f0: vec4f, f1: vec4f, frame: vec4f) -> MlpPlace {
    var x = (mean - frame.xyz) * frame.w;
    let square = dot(x, x);
    if square > 1.0 {
        let inverse = 1.0 / sqrt(square);
        x *= (2.0 - inverse) * inverse;
    }
    let a = x * 0.78539816;
    let q = a * a;
    let s = a * (1.0 + q * (-1.0 / 6.0 + q * (1.0 / 120.0
        + q * (-1.0 / 5040.0 + q * (1.0 / 362880.0 - q * (1.0 / 39916800.0))))));
    let c = 1.0 + q * (-0.5 + q * (1.0 / 24.0
        + q * (-1.0 / 720.0 + q * (1.0 / 40320.0 - q * (1.0 / 3628800.0)))));
    let w0 = mlp_twice(MlpWaves(s, c));
    let w1 = mlp_twice(w0);
    let w2 = mlp_twice(w1);
    let w3 = mlp_twice(w2);
    return MlpPlace(
        vec4f(1.0, x),
        vec4f(w0.s, w0.c.x),
        vec4f(w0.c.yz, w1.s.xy),
        vec4f(w1.s.z, w1.c),
        vec4f(w2.s, w2.c.x),
        vec4f(w2.c.yz, w3.s.xy),
        vec4f(w3.s.z, w3.c),
        f0,
        f1,
    );
}

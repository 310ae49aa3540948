// Optional parts of `update`, in steps that enable them: loss terms of Gaussians, opacity and scale, and noise on
// centres that follows a Gaussian's shape (Kheradmand et al. 2024, arXiv:2404.09591, eq. 10). CPU version:
// cpu/src/stages/{regularisers/, noise.rs}. Reference: dapple_reference::{regularisers_backward, perturbation}.
//
// The importing shader declares `geometry: array<f32>` for writing and `state`, and imports shared/projection.
#import shared/normal
#import shared/parameters

// First of the three normal numbers: engine::relocation::NOISE_NORMAL.
const NOISE_NORMAL: u32 = 16u;
// Logit of opacity 0.2. Above it, the noise is less than 6e-9 of the noise at opacity zero.
const STILL_LOGIT: f32 = -1.3862944;
// Steepness of the decay around opacity 0.005.
const STEEPNESS: f32 = 100.0;
const STILL_OPACITY: f32 = 0.005;

fn logistic(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-clamp(x, LOGIT_MIN, -LOGIT_MIN)));
}

// Returns the number of Gaussians of the model.
fn gaussian_count() -> f32 {
    return f32(state.gaussians + state.others);
}

// Returns the derivative of the weight of opacity times the mean opacity by a logit.
fn opacity_slope(logit: f32) -> f32 {
    let opacity = logistic(logit);
    return loss_weight(LOSS_OPACITY) / gaussian_count() * opacity * (1.0 - opacity);
}

// Returns the part of the size regularisers in the derivatives by a Gaussian's logarithms of scales: of the weight of
// scale times the mean standard deviation, and of the weight of flatness times the mean smallest one.
fn scale_slopes(log_scales: vec3f) -> vec3f {
    let each = loss_weight(LOSS_SCALE) / (3.0 * gaussian_count());
    let scales = exp(min(log_scales, vec3f(-LOGIT_MIN)));
    let flatness = loss_weight(LOSS_FLATNESS);
    if flatness == 0.0 {
        return each * scales;
    }
    return each * scales + flatness / gaussian_count() * scales * thinnest(log_scales);
}

// Adds noise to the centre. Runs after the step, on its result.
fn perturb(i: u32, capacity: u32) {
    let now = load_gaussian(i, capacity);
    if step.noise == 0.0 || !(now.logit < STILL_LOGIT) {
        return;
    }
    let key = noise_key(step.seed, step.number, model_index(i));
    let eta = vec3f(
        normal_number(key, NOISE_NORMAL),
        normal_number(key, NOISE_NORMAL + 1u),
        normal_number(key, NOISE_NORMAL + 2u),
    );
    let norm2 = dot(now.quat, now.quat);
    let q = select(vec4f(1.0, 0.0, 0.0, 0.0), now.quat * inverseSqrt(norm2), norm2 >= QUAT_NORM2_MIN);
    let turn = rotation_of(q);
    let scales = exp(now.log_scales);
    let along = (eta * turn) * scales * scales;
    let still = logistic(-STEEPNESS * (logistic(now.logit) - STILL_OPACITY));
    let to = now.mean + (turn * along) * (still * step.noise);
    geometry[PLANE_MEAN * capacity + i] = to.x;
    geometry[(PLANE_MEAN + 1u) * capacity + i] = to.y;
    geometry[(PLANE_MEAN + 2u) * capacity + i] = to.z;
}

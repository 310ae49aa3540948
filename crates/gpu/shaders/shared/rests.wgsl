// Adam for moments that are not updated in every step: a view's own moments between two steps on it, a Gaussian's
// features where it is not visible. The bias correction counts the steps in which the moments were updated.

#import shared/is_number

// As in shared/adam.
const FLUSH: f32 = 1e-30;

struct Rested {
    // First and second moment, and the change of the number.
    m: f32,
    v: f32,
    change: f32,
}

// Runs a step for one number. A non-finite derivative changes nothing.
fn adam_rested(m: f32, v: f32, derivative: f32, rate: f32, inverse2: f32) -> Rested {
    let by = select(0.0, derivative, is_number(derivative));
    var out = Rested(
        step.beta1 * m + (1.0 - step.beta1) * by,
        step.beta2 * v + (1.0 - step.beta2) * by * by,
        0.0,
    );
    out.m = select(out.m, 0.0, abs(out.m) < FLUSH);
    out.v = select(out.v, 0.0, out.v < FLUSH);
    out.change = rate * out.m / (sqrt(out.v * inverse2) + step.epsilon);
    return out;
}

// Returns 1 - beta^count. A product of numbers near one would lose its digits. For two such numbers a and b, the
// product's complement is a + b - a b.
fn correction(beta: f32, count: u32) -> f32 {
    var sum = 0.0;
    var power = 1.0 - beta;
    for (var left = count; left > 0u; left >>= 1u) {
        if (left & 1u) != 0u {
            sum = sum + power - sum * power;
        }
        power = power * (2.0 - power);
    }
    return sum;
}

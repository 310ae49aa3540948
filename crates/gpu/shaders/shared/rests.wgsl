// Adam where moments rest: a view's own between two steps on it, a Gaussian's features where it is not seen. The bias
// correction counts the steps that there were.

#import shared/is_number

// As in shared/adam.
const FLUSH: f32 = 1e-30;

struct Rested {
    // First and second moment, and how far the number moves.
    m: f32,
    v: f32,
    change: f32,
}

// A step for one number. A derivative that is not finite moves nothing.
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

// 1 - beta^count. As products of what is near one it would lose its digits: of two such numbers a and b
// the product's is a + b - a b.
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

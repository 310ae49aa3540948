// Adam where moments rest: a view's own, between two steps on it. Its bias correction counts the steps that it has seen.

// As in shared/adam.
const FLUSH: f32 = 1e-30;

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

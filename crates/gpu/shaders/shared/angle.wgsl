// Angles of panoramas. The arctangent of the ratio of the smaller to the larger leg is twice that of the tangent of half
// the angle, from a series: devices' own may be off by 4096 units in the last place.

// The smallest normal number: keeps quotients finite.
const LENGTH_MIN: f32 = 1.17549435e-38;

// Returns atan2(y, x), 0 at (0, 0).
fn angle_of(y: f32, x: f32) -> f32 {
    let a = abs(y);
    let b = abs(x);
    let ratio = min(a, b) / max(max(a, b), LENGTH_MIN);
    let half = ratio / (1.0 + sqrt(fma(ratio, ratio, 1.0)));
    let t = half * half;
    var sum = -1.0 / 19.0;
    sum = fma(sum, t, 1.0 / 17.0);
    sum = fma(sum, t, -1.0 / 15.0);
    sum = fma(sum, t, 1.0 / 13.0);
    sum = fma(sum, t, -1.0 / 11.0);
    sum = fma(sum, t, 1.0 / 9.0);
    sum = fma(sum, t, -1.0 / 7.0);
    sum = fma(sum, t, 1.0 / 5.0);
    sum = fma(sum, t, -1.0 / 3.0);
    sum = fma(sum, t, 1.0);
    var angle = 2.0 * half * sum;
    angle = select(angle, 1.5707963267948966 - angle, b < a);
    angle = select(angle, 3.141592653589793 - angle, x < 0.0);
    return select(angle, -angle, y < 0.0);
}

//! [`ElementOp`]: all elementwise operations with their name, WGSL and CPU version. Derivatives are in `autograd.rs`.
//!
//! Arithmetic is `f32`. NaN propagates through maxima, minima and activations. Functions that drivers may round badly
//! (`tanh`, `sin`) are written out.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// An elementwise operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ElementOp {
    /// Copy of the value: a copy of a view, a widened value.
    Copy,
    /// Rounding to 16 bits.
    Round16,
    Neg,
    Abs,
    Sign,
    Exp,
    Log,
    Sqrt,
    Sin,
    Cos,
    Tan,
    Sigmoid,
    Tanh,
    Relu,
    Gelu,
    GeluSlope,
    GeluErf,
    GeluErfSlope,
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    Pow,
    /// 1 if the first is greater, else 0.
    Greater,
    /// 1 if both are equal, else 0.
    Equal,
    /// The second if the first is greater than 0, else 0: the derivative of ReLU.
    Gate,
    /// The second if the first is not 0, else the third.
    Select,
}

use ElementOp as E;

impl ElementOp {
    /// Returns the name in errors, labels and WGSL.
    pub fn name(self) -> &'static str {
        match self {
            E::Copy => "copy",
            E::Round16 => "to_f16",
            E::Neg => "neg",
            E::Abs => "abs_",
            E::Sign => "sign_",
            E::Exp => "exp_",
            E::Log => "log_",
            E::Sqrt => "sqrt_",
            E::Sin => "sin_",
            E::Cos => "cos_",
            E::Tan => "tan_",
            E::Sigmoid => "sigmoid",
            E::Tanh => "tanh_",
            E::Relu => "relu",
            E::Gelu => "gelu",
            E::GeluSlope => "gelu_slope",
            E::GeluErf => "gelu_erf",
            E::GeluErfSlope => "gelu_erf_slope",
            E::Add => "add",
            E::Sub => "sub",
            E::Mul => "mul",
            E::Div => "div",
            E::Max => "max_",
            E::Min => "min_",
            E::Pow => "pow_",
            E::Greater => "greater",
            E::Equal => "equal",
            E::Gate => "gate",
            E::Select => "select_",
        }
    }

    /// Returns the name for people.
    pub fn title(self) -> &'static str {
        self.name().trim_end_matches('_')
    }

    pub fn arity(self) -> usize {
        match self {
            E::Select => 3,
            E::Add
            | E::Sub
            | E::Mul
            | E::Div
            | E::Max
            | E::Min
            | E::Pow
            | E::Greater
            | E::Equal
            | E::Gate => 2,
            _ => 1,
        }
    }

    /// Returns the operations per element, by the formula that tables of throughput use: 1, but 8 for GELU.
    pub fn flops(self) -> f64 {
        match self {
            E::Copy | E::Round16 => 0.0,
            E::Gelu | E::GeluErf => 8.0,
            _ => 1.0,
        }
    }

    /// Returns WGSL for one element: a function's body over `a`, `b`, `c`.
    pub fn wgsl(self) -> &'static str {
        match self {
            E::Copy => "return a;",
            // `Source::operation` writes it as `rounded_1` and `rounded_4`, which need `zero`.
            E::Round16 => "return a;",
            E::Neg => "return -a;",
            E::Abs => "return abs(a);",
            E::Sign => {
                "return select(select(select(0.0, -1.0, a < 0.0), 1.0, a > 0.0), a, is_nan(a));"
            }
            E::Exp => "return exp(a);",
            E::Log => "return log(a);",
            E::Sqrt => "return sqrt(a);",
            E::Sin => "return sine(a, 0.0);",
            E::Cos => "return sine(a, 1.0);",
            E::Tan => "return sine(a, 0.0) / sine(a, 1.0);",
            E::Sigmoid => "return 1.0 / (1.0 + exp(-a));",
            E::Tanh => "return hyperbolic(a);",
            // By bits, -0 to minus infinity: drivers make a comparison a maximum, which loses NaN.
            E::Relu => "return select(a, 0.0, bitcast<u32>(a) - 0x80000000u <= 0x7f800000u);",
            // 0.5 a (1 + tanh(u)) is a / (1 + exp(-2 u)).
            E::Gelu => {
                "return select(a / (1.0 + exp(-1.5957691216 * (a + 0.044715 * a * a * a))), 0.0, a < -10.0);"
            }
            E::GeluSlope => {
                "if a > 10.0 { return 1.0; } if a < -10.0 { return 0.0; }
    let s = 1.0 / (1.0 + exp(-1.5957691216 * (a + 0.044715 * a * a * a)));
    return s + 1.5957691216 * a * s * (1.0 - s) * (1.0 + 0.134145 * a * a);"
            }
            E::GeluErf => {
                "if a > 10.0 { return a; } if a < -10.0 { return 0.0; }
    return 0.5 * a * (1.0 + error_function(0.70710678 * a));"
            }
            E::GeluErfSlope => {
                "if a > 10.0 { return 1.0; } if a < -10.0 { return 0.0; }
    return 0.5 * (1.0 + error_function(0.70710678 * a)) + 0.39894228 * a * exp(-0.5 * a * a);"
            }
            E::Add => "return a + b;",
            E::Sub => "return a - b;",
            E::Mul => "return a * b;",
            E::Div => "return a / b;",
            E::Max => "return select(b, a, a > b || is_nan(a));",
            E::Min => "return select(b, a, a < b || is_nan(a));",
            E::Pow => "return power(a, b);",
            E::Greater => "return select(0.0, 1.0, a > b);",
            E::Equal => "return select(0.0, 1.0, a == b);",
            E::Gate => "return select(0.0, b, a > 0.0);",
            E::Select => "return select(b, c, a == 0.0);",
        }
    }

    /// Returns WGSL for four elements at once, if it is not four times one.
    pub fn wgsl_vector(self) -> Option<&'static str> {
        Some(match self {
            E::Gelu => {
                "return select(a / (1.0 + exp(-1.5957691216 * (a + 0.044715 * a * a * a))), vec4f(0.0), a < vec4f(-10.0));"
            }
            E::Sigmoid => "return 1.0 / (1.0 + exp(-a));",
            E::Copy | E::Round16 | E::Neg | E::Abs | E::Exp | E::Log | E::Sqrt => self.wgsl(),
            E::Add | E::Sub | E::Mul | E::Div => self.wgsl(),
            _ => return None,
        })
    }

    /// Computes `out[i] = op(a[i], b[i], c[i])`, with the widest vectors of the CPU. Each element is computed
    /// independently, so results do not depend on the width.
    pub fn apply(self, out: &mut [f32], operands: [&[f32]; 3]) {
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || self.apply_plain(out, operands),
        );
    }

    #[inline(always)]
    fn apply_plain(self, out: &mut [f32], [a, b, c]: [&[f32]; 3]) {
        #[inline(always)]
        fn one(out: &mut [f32], a: &[f32], f: impl Fn(f32) -> f32) {
            out.iter_mut().zip(a).for_each(|(out, a)| *out = f(*a));
        }
        #[inline(always)]
        fn two(out: &mut [f32], a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) {
            let pairs = a.iter().zip(b);
            out.iter_mut()
                .zip(pairs)
                .for_each(|(out, (a, b))| *out = f(*a, *b));
        }
        match self {
            E::Copy => out.copy_from_slice(a),
            E::Round16 => {
                let mut rounded = [f16::ZERO; 256];
                for (out, a) in out.chunks_mut(256).zip(a.chunks(256)) {
                    let rounded = &mut rounded[..a.len()];
                    rounded.convert_from_f32_slice(a);
                    rounded.convert_to_f32_slice(out);
                }
            }
            E::Neg => one(out, a, |a| -a),
            E::Abs => one(out, a, f32::abs),
            E::Sign => one(out, a, |a| match a {
                a if a > 0.0 => 1.0,
                a if a < 0.0 => -1.0,
                a if a.is_nan() => a,
                _ => 0.0,
            }),
            E::Exp => one(out, a, exponential),
            E::Log => one(out, a, f32::ln),
            E::Sqrt => one(out, a, f32::sqrt),
            E::Sin => one(out, a, f32::sin),
            E::Cos => one(out, a, f32::cos),
            E::Tan => one(out, a, f32::tan),
            E::Sigmoid => one(out, a, |a| 1.0 / (1.0 + exponential(-a))),
            E::Tanh => one(out, a, hyperbolic),
            E::Relu => one(out, a, |a| if a <= 0.0 { 0.0 } else { a }),
            E::Gelu => one(out, a, gelu),
            E::GeluSlope => one(out, a, gelu_slope),
            E::GeluErf => one(out, a, |a| {
                let y = 0.5 * a * (1.0 + error_function(std::f32::consts::FRAC_1_SQRT_2 * a));
                ends(a, y, a)
            }),
            E::GeluErfSlope => one(out, a, |a| {
                let below = 0.5 * (1.0 + error_function(std::f32::consts::FRAC_1_SQRT_2 * a));
                ends(a, below + 0.398_942_3 * a * exponential(-0.5 * a * a), 1.0)
            }),
            E::Add => two(out, a, b, |a, b| a + b),
            E::Sub => two(out, a, b, |a, b| a - b),
            E::Mul => two(out, a, b, |a, b| a * b),
            E::Div => two(out, a, b, |a, b| a / b),
            E::Max => two(out, a, b, |a, b| if a > b || a.is_nan() { a } else { b }),
            E::Min => two(out, a, b, |a, b| if a < b || a.is_nan() { a } else { b }),
            E::Pow => two(out, a, b, f32::powf),
            E::Greater => two(out, a, b, |a, b| f32::from(u8::from(a > b))),
            E::Equal => two(out, a, b, |a, b| f32::from(u8::from(a == b))),
            E::Gate => two(out, a, b, |a, b| if a > 0.0 { b } else { 0.0 }),
            E::Select => {
                let from = a.iter().zip(b).zip(c);
                for (out, ((a, b), c)) in out.iter_mut().zip(from) {
                    *out = if *a == 0.0 { *c } else { *b };
                }
            }
        }
    }
}

/// sqrt(2 / pi).
const SQRT_2_PI: f32 = 0.797_884_6;

/// Limit of GELU beyond 10, where GELU equals it.
#[inline(always)]
fn ends(a: f32, y: f32, above: f32) -> f32 {
    let y = if a > 10.0 { above } else { y };
    if a < -10.0 { 0.0 } else { y }
}

#[inline(always)]
fn gelu(a: f32) -> f32 {
    let y = 0.5 * a * (1.0 + hyperbolic(SQRT_2_PI * (a + 0.044_715 * a * a * a)));
    ends(a, y, a)
}

#[inline(always)]
fn gelu_slope(a: f32) -> f32 {
    let t = hyperbolic(SQRT_2_PI * (a + 0.044_715 * a * a * a));
    let inner = SQRT_2_PI * (1.0 + 0.134_145 * a * a);
    ends(a, 0.5 * (1.0 + t) + 0.5 * a * (1.0 - t * t) * inner, 1.0)
}

/// e^x without branches: whole powers of two through the exponent's bits, the rest by the polynomial of Cephes' `expf`
/// (Moshier 1989). Off by two units in the last place.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    // Adding and subtracting this number rounds to a whole number, which is in the low bits in between.
    const ROUND: f32 = 12_582_912.0;
    // Beyond these limits the result is 0 and infinity. NaN remains.
    let y = x.clamp(-104.0, 89.0);
    let rounded = y * std::f32::consts::LOG2_E + ROUND;
    let k = rounded - ROUND;
    let r = y - k * 0.693_359_4 + k * 2.121_944_4e-4;
    let series = [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];
    let p = series.iter().fold(1.987_569_1e-4, |p, term| p * r + term);
    let e = p * r * r + r + 1.0;
    // In two halves: neither exceeds the range.
    let n = (rounded.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    e * power(half) * power(n.wrapping_sub(half))
}

/// tanh without overflow and, near 0, without cancellation.
#[inline(always)]
fn hyperbolic(x: f32) -> f32 {
    let s = x * x;
    let near =
        x + x * s * (-0.333_333_34 + s * (0.133_333_34 + s * (-0.053_968_254 + s * 0.021_869_488)));
    let t = exponential(-2.0 * x.abs());
    let far = ((1.0 - t) / (1.0 + t)).copysign(x);
    if x.abs() < 0.25 { near } else { far }
}

/// Abramowitz and Stegun 7.1.26: off by 1.5e-7 at most.
#[inline(always)]
fn error_function(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [
        1.061_405_4,
        -1.453_152,
        1.421_413_7,
        -0.284_496_74,
        0.254_829_6,
    ];
    let sum = series.iter().fold(0.0, |sum, term| (sum + term) * t);
    (1.0 - sum * exponential(-x * x)).copysign(x)
}

/// Functions that the operations' WGSL calls: names, and code.
pub(crate) const HELPERS: [(&str, &str); 10] = [
    (
        "halves",
        "fn halves(w: vec2u) -> vec4f { return vec4f(unpack2x16float(w.x), unpack2x16float(w.y)); }\n",
    ),
    (
        "is_nan",
        "fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }\n",
    ),
    (
        "exact_1",
        "// Mixed with `zero`, which no compiler knows to be 0, a value stays as it was and is not contracted with what follows.
fn exact_1(x: f32, zero: u32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | zero); }\n",
    ),
    (
        "exact_4",
        "// As exact_1.
fn exact_4(x: vec4f, zero: u32) -> vec4f { return bitcast<vec4f>(bitcast<vec4u>(x) | vec4u(zero)); }\n",
    ),
    (
        "rounded_1",
        "// To 16 bits and back: mixed with `zero`, or drivers leave it out.
fn rounded_1(x: f32, zero: u32) -> f32 { return unpack2x16float(pack2x16float(vec2f(x, 0.0)) | zero).x; }\n",
    ),
    (
        "rounded_4",
        "// As rounded_1.
fn rounded_4(x: vec4f, zero: u32) -> vec4f {
    return vec4f(unpack2x16float(pack2x16float(x.xy) | zero), unpack2x16float(pack2x16float(x.zw) | zero));
}\n",
    ),
    (
        "hyperbolic",
        "// tanh without overflow and, near 0, without cancellation.
fn hyperbolic(x: f32) -> f32 {
    let y = abs(x);
    if y < 0.25 {
        let s = x * x;
        return x + x * s * (-0.33333333 + s * (0.13333333 + s * (-0.053968254 + s * 0.021869488)));
    }
    if is_nan(x) { return x; }
    let t = exp(-2.0 * y);
    return sign(x) * ((1.0 - t) / (1.0 + t));
}\n",
    ),
    (
        "sine",
        "// sin(x + quarters pi / 2): x less whole quarters in three parts, then series.
fn sine(x: f32, quarters: f32) -> f32 {
    let k = round(x * 0.63661977);
    var r = fma(k, -1.5703125, x);
    r = fma(k, -4.83751297e-4, r);
    r = fma(k, -7.54978995e-8, r);
    let n = i32(k) + i32(quarters);
    let s = r * r;
    let odd = r + r * s * (-0.16666667 + s * (8.3333333e-3 + s * (-1.9841270e-4 + s * 2.7557319e-6)));
    let even = 1.0 + s * (-0.5 + s * (4.1666667e-2 + s * (-1.3888889e-3 + s * 2.4801587e-5)));
    let y = select(odd, even, (n & 1) == 1);
    return select(y, -y, (n & 2) == 2);
}\n",
    ),
    (
        "error_function",
        "// Abramowitz and Stegun 7.1.26: off by 1.5e-7 at most.
fn error_function(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.3275911 * abs(x));
    let p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    let y = 1.0 - p * exp(-x * x);
    return select(y, -y, x < 0.0);
}\n",
    ),
    (
        "power",
        "// Negative bases have powers of whole exponents.
fn power(a: f32, b: f32) -> f32 {
    if b == 0.0 { return 1.0; }
    if a == 0.0 && b > 0.0 { return 0.0; }
    let whole = floor(b) == b;
    let p = pow(abs(a), b);
    if a >= 0.0 { return p; }
    if !whole { return sqrt(a); }
    return select(p, -p, abs(b) % 2.0 == 1.0);
}\n",
    ),
];

//! Vectors of `f32` for every instruction set: AVX-512, AVX2 + FMA, NEON, or one scalar.
//!
//! The kernels are written once, generic over [`pulp::Simd`], and dispatched at run time. Data is
//! stored in rows of 16 floats (a row of a tile, or 16 Gaussians of one block), which is one AVX-512
//! register, two of AVX2, four of NEON. [`parts`] is the number of vectors per row.

use bytemuck::{Pod, Zeroable};
use pulp::Simd;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Floats in a [`Row`]: the edge of a tile, and the Gaussians in a block.
pub const ROW: usize = 16;

/// Row of 16 floats on a cache line of its own.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Row(pub [f32; ROW]);

impl Row {
    /// Row of zeros.
    pub const ZERO: Self = Self([0.0; ROW]);

    /// Returns a row with the same value in every lane.
    pub const fn splat(value: f32) -> Self {
        Self([value; ROW])
    }
}

/// Returns the number of vectors in a [`Row`].
#[inline(always)]
pub const fn parts<S: Simd>() -> usize {
    ROW / S::F32_LANES
}

/// Vector of floats; arithmetic is lane by lane.
#[derive(Clone, Copy)]
pub struct V<S: Simd>(pub S, pub S::f32s);

/// Mask over the lanes of [`V`].
#[derive(Clone, Copy)]
pub struct M<S: Simd>(pub S, pub S::m32s);

impl<S: Simd> V<S> {
    /// Returns `value` in every lane.
    #[inline(always)]
    pub fn splat(s: S, value: f32) -> Self {
        Self(s, s.splat_f32s(value))
    }

    /// Loads part `part` of a row.
    #[inline(always)]
    pub fn load(s: S, row: &Row, part: usize) -> Self {
        Self(s, S::as_simd_f32s(&row.0).0[part])
    }

    /// Loads the first lanes of a slice, which must hold at least one vector.
    #[inline(always)]
    pub fn from_slice(s: S, slice: &[f32]) -> Self {
        Self(s, S::as_simd_f32s(&slice[..S::F32_LANES]).0[0])
    }

    /// Writes the first lanes of a slice, which must hold at least one vector.
    #[inline(always)]
    pub fn to_slice(self, slice: &mut [f32]) {
        S::as_mut_simd_f32s(&mut slice[..S::F32_LANES]).0[0] = self.1;
    }

    /// Writes part `part` of a row.
    #[inline(always)]
    pub fn store(self, row: &mut Row, part: usize) {
        S::as_mut_simd_f32s(&mut row.0).0[part] = self.1;
    }

    /// Returns `self * b + c`, fused if the CPU has the instruction.
    #[inline(always)]
    pub fn mul_add(self, b: Self, c: Self) -> Self {
        Self(self.0, self.0.mul_add_e_f32s(self.1, b.1, c.1))
    }

    /// Returns `c - self * b`, fused if the CPU has the instruction.
    #[inline(always)]
    pub fn neg_mul_add(self, b: Self, c: Self) -> Self {
        Self(self.0, self.0.negate_mul_add_e_f32s(self.1, b.1, c.1))
    }

    /// Returns the lane-wise minimum.
    #[inline(always)]
    pub fn min(self, b: Self) -> Self {
        Self(self.0, self.0.min_f32s(self.1, b.1))
    }

    /// Returns the lane-wise maximum.
    #[inline(always)]
    pub fn max(self, b: Self) -> Self {
        Self(self.0, self.0.max_f32s(self.1, b.1))
    }

    /// Returns the lane-wise square root.
    #[inline(always)]
    pub fn sqrt(self) -> Self {
        Self(self.0, self.0.sqrt_f32s(self.1))
    }

    /// Returns the lane-wise absolute value.
    #[inline(always)]
    pub fn abs(self) -> Self {
        Self(self.0, self.0.abs_f32s(self.1))
    }

    /// Returns 1 / x for positive normal x, with a relative error below 1.2e-6, at a third of a
    /// division's cost.
    ///
    /// 1. Subtracting the bits of x from a constant negates the exponent and approximates the
    ///    mantissa's reciprocal by linear segments: t = x y lies between 0.707 and 0.729. The idea is
    ///    from Moroz et al. 2021, arXiv:1908.06298.
    /// 2. The quadratic nearest to 1 / t over that range (minimax, 8.4e-7) corrects the result.
    #[inline(always)]
    pub fn reciprocal(self) -> Self {
        let s = self.0;
        let bits = s.transmute_u32s_f32s(self.1);
        let guess = s.sub_u32s(s.splat_u32s(0x7eb5_0000), bits);
        let y = Self(s, s.transmute_f32s_u32s(guess));
        let t = self * y;
        let inverse = s.k(2.704_798_2).mul_add(t, s.k(-5.824_188_7));
        y * inverse.mul_add(t, s.k(4.180_136_7))
    }

    /// Returns `self < b`; false for NaN.
    #[inline(always)]
    pub fn lt(self, b: Self) -> M<S> {
        M(self.0, self.0.less_than_f32s(self.1, b.1))
    }

    /// Returns `self >= b`; false for NaN.
    #[inline(always)]
    pub fn ge(self, b: Self) -> M<S> {
        M(self.0, self.0.greater_than_or_equal_f32s(self.1, b.1))
    }

    /// Returns the sum over the lanes, in a fixed order.
    #[inline(always)]
    pub fn sum(self) -> f32 {
        self.0.reduce_sum_f32s(self.1)
    }

    /// Returns 2^x, with x clamped to -126..126; relative error below 3e-7.
    ///
    /// 1. Round x to an integer i by adding 1.5 * 2^23: the sum's low mantissa bits are i.
    /// 2. Evaluate 2^(x - i) on [-1/2, 1/2] by the degree-5 polynomial through the Chebyshev nodes
    ///    (relative error 1e-7).
    /// 3. Add i to the exponent bits.
    #[inline(always)]
    pub fn exp2(self) -> Self {
        const C: [f32; 6] = [
            1.000_000_1,
            // The interpolation's own second coefficient is ln 2 to all digits of f32.
            std::f32::consts::LN_2,
            0.240_221_07,
            0.055_503_57,
            0.009_676_032,
            0.001_339_086_3,
        ];
        let s = self.0;
        let magic = s.k(12_582_912.0);
        let x = self.min(s.k(126.0)).max(s.k(-126.0));
        let shifted = x + magic;
        let f = x - (shifted - magic);
        let mut poly = s.k(C[5]);
        for i in (0..5).rev() {
            poly = poly.mul_add(f, s.k(C[i]));
        }
        let exponent = s.wrapping_dyn_shl_u32s(s.transmute_u32s_f32s(shifted.1), s.splat_u32s(23));
        let bits = s.add_u32s(s.transmute_u32s_f32s(poly.1), exponent);
        Self(s, s.transmute_f32s_u32s(bits))
    }

    /// Returns 2^x for x from -8 to 0, with a relative error below 3e-6. Below that range, the result
    /// is unspecified, but neither NaN nor negative.
    ///
    /// The function is 2^(x / 8) by the degree-5 polynomial nearest to it (minimax of the relative
    /// error, 7.5e-8), squared three times. It has fewer steps than [`Self::exp2`], which handles the
    /// exponent separately. The polynomial uses Estrin's scheme: one more product than Horner's, but
    /// two thirds of its latency.
    #[inline(always)]
    pub fn exp2_from_minus_8(self) -> Self {
        const C: [f32; 6] = [
            0.999_999_9,
            0.693_142_25 / 8.0,
            0.240_172_19 / 64.0,
            0.055_279_72 / 512.0,
            0.009_188_612 / 4096.0,
            0.000_938_788_34 / 32768.0,
        ];
        let s = self.0;
        let z = self * self;
        let low = self.mul_add(s.k(C[1]), s.k(C[0]));
        let middle = self.mul_add(s.k(C[3]), s.k(C[2]));
        let high = self.mul_add(s.k(C[5]), s.k(C[4]));
        let poly = high.mul_add(z, middle).mul_add(z, low);
        let square = poly * poly;
        let fourth = square * square;
        fourth * fourth
    }

    /// Returns e^x, clamped to the range of finite floats.
    #[inline(always)]
    pub fn exp(self) -> Self {
        (self * Self::splat(self.0, std::f32::consts::LOG2_E)).exp2()
    }

    /// Returns `1 / (1 + e^-x)`.
    #[inline(always)]
    pub fn sigmoid(self) -> Self {
        let one = Self::splat(self.0, 1.0);
        one / (one + (-self).exp())
    }

    /// Returns log2(x) for positive normal x, with an absolute error below 2e-7 plus rounding of the
    /// result.
    ///
    /// 1. Split x = 2^e m with m in [sqrt(1/2), sqrt(2)) on the bits.
    /// 2. log2(m) = 2/ln 2 * atanh(r), r = (m - 1) / (m + 1), by its series to r^9.
    #[inline(always)]
    pub fn log2(self) -> Self {
        let s = self.0;
        let bits = s.transmute_u32s_f32s(self.1);
        // After subtracting the bits of sqrt(1/2), e is in the exponent field, biased by 0.
        let offset = s.sub_u32s(bits, s.splat_u32s(0x3f35_04f3));
        // Biased so that the sign bit is clear for the logical shift below.
        let biased = s.add_u32s(offset, s.splat_u32s(128 << 23));
        let e_biased = s.wrapping_dyn_shr_u32s(biased, s.splat_u32s(23));
        // 2^23 + n as a float has n in its low bits.
        let e_float = Self(
            s,
            s.transmute_f32s_u32s(s.or_u32s(e_biased, s.splat_u32s(0x4b00_0000))),
        ) - s.k(8_388_608.0 + 128.0);
        let e_bits = s.wrapping_dyn_shl_u32s(e_biased, s.splat_u32s(23));
        let m = Self(
            s,
            s.transmute_f32s_u32s(s.add_u32s(s.sub_u32s(bits, e_bits), s.splat_u32s(128 << 23))),
        );
        let r = (m - s.k(1.0)) / (m + s.k(1.0));
        let r2 = r * r;
        let series = s
            .k(1.0 / 9.0)
            .mul_add(r2, s.k(1.0 / 7.0))
            .mul_add(r2, s.k(1.0 / 5.0))
            .mul_add(r2, s.k(1.0 / 3.0))
            .mul_add(r2, s.k(1.0));
        (r * s.k(2.0 * std::f32::consts::LOG2_E)).mul_add(series, e_float)
    }
}

impl<S: Simd> M<S> {
    /// Returns the intersection of both masks.
    #[inline(always)]
    pub fn and(self, b: Self) -> Self {
        Self(self.0, self.0.and_m32s(self.1, b.1))
    }

    /// Returns `a` in lanes that are set, else `b`.
    #[inline(always)]
    pub fn select(self, a: V<S>, b: V<S>) -> V<S> {
        V(self.0, self.0.select_f32s(self.1, a.1, b.1))
    }

    /// Returns true if any lane is set.
    #[inline(always)]
    pub fn any(self) -> bool {
        self.0.first_true_m32s(self.1) < S::F32_LANES
    }
}

macro_rules! lanewise {
    ($op:ident, $method:ident, $f:ident) => {
        impl<S: Simd> $op for V<S> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, b: Self) -> Self {
                Self(self.0, self.0.$f(self.1, b.1))
            }
        }
    };
}
lanewise!(Add, add, add_f32s);
lanewise!(Sub, sub, sub_f32s);
lanewise!(Mul, mul, mul_f32s);
lanewise!(Div, div, div_f32s);

impl<S: Simd> AddAssign for V<S> {
    #[inline(always)]
    fn add_assign(&mut self, b: Self) {
        *self = *self + b;
    }
}

impl<S: Simd> Neg for V<S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0, self.0.neg_f32s(self.1))
    }
}

/// Evaluates `[f(0), f(1), ...]` with the body repeated for each index.
///
/// Kernels use this macro and plain loops instead of `array::map` and other closures. A closure is a
/// separate function, compiled without the CPU features of the kernel around it, and a vector
/// instruction in it becomes a call.
macro_rules! each {
    (2, |$i:ident| $e:expr) => {
        [each!(@ 0, $i, $e), each!(@ 1, $i, $e)]
    };
    (3, |$i:ident| $e:expr) => {
        [each!(@ 0, $i, $e), each!(@ 1, $i, $e), each!(@ 2, $i, $e)]
    };
    (4, |$i:ident| $e:expr) => {
        [each!(@ 0, $i, $e), each!(@ 1, $i, $e), each!(@ 2, $i, $e), each!(@ 3, $i, $e)]
    };
    (6, |$i:ident| $e:expr) => {
        [
            each!(@ 0, $i, $e), each!(@ 1, $i, $e), each!(@ 2, $i, $e),
            each!(@ 3, $i, $e), each!(@ 4, $i, $e), each!(@ 5, $i, $e),
        ]
    };
    (@ $value:literal, $i:ident, $e:expr) => {{
        let $i: usize = $value;
        $e
    }};
}
pub(crate) use each;

/// Extension for constants in every lane: `s.k(0.5)`.
pub trait Splat: Simd {
    /// Returns `value` in every lane.
    #[inline(always)]
    fn k(self, value: f32) -> V<Self> {
        V::splat(self, value)
    }
}
impl<S: Simd> Splat for S {}

/// Returns the name of the instruction set that `pulp` detected on this CPU, for messages.
pub fn level_name() -> &'static str {
    struct Name;
    impl pulp::WithSimd for Name {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            S::F32_LANES
        }
    }
    match (
        pulp::Arch::new().dispatch(Name),
        cfg!(target_arch = "aarch64"),
    ) {
        (16, _) => "AVX-512",
        (8, _) => "AVX2",
        (4, true) => "NEON",
        (4, false) => "128-bit SIMD",
        _ => "scalar",
    }
}

/// Three vectors: x, y, z.
pub type V3<S> = [V<S>; 3];

/// Returns the dot product.
#[inline(always)]
pub fn dot<S: Simd>(a: V3<S>, b: V3<S>) -> V<S> {
    a[0].mul_add(b[0], a[1].mul_add(b[1], a[2] * b[2]))
}

/// Returns the cross product.
#[inline(always)]
pub fn cross<S: Simd>(a: V3<S>, b: V3<S>) -> V3<S> {
    [
        a[1].mul_add(b[2], -(a[2] * b[1])),
        a[2].mul_add(b[0], -(a[0] * b[2])),
        a[0].mul_add(b[1], -(a[1] * b[0])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Apply<'a, F>(&'a [f32], F);
    trait Function {
        fn call<S: Simd>(&self, x: V<S>) -> V<S>;
    }
    impl<F: Function> pulp::WithSimd for Apply<'_, F> {
        type Output = Vec<f32>;
        #[inline(always)]
        fn with_simd<S: Simd>(self, s: S) -> Vec<f32> {
            let mut out = Vec::new();
            for &x in self.0 {
                let mut row = Row::ZERO;
                self.1.call(V::splat(s, x)).store(&mut row, 0);
                out.push(row.0[0]);
            }
            out
        }
    }
    macro_rules! function {
        ($name:ident, $method:ident) => {
            #[derive(Clone, Copy)]
            struct $name;
            impl Function for $name {
                #[inline(always)]
                fn call<S: Simd>(&self, x: V<S>) -> V<S> {
                    x.$method()
                }
            }
        };
    }
    function!(Exp2, exp2);
    function!(Exp2FromMinus8, exp2_from_minus_8);
    function!(Log2, log2);
    function!(Reciprocal, reciprocal);

    fn on_every_level<F: Function + Copy>(xs: &[f32], f: F) -> Vec<Vec<f32>> {
        vec![
            pulp::Arch::new().dispatch(Apply(xs, f)),
            pulp::Arch::Scalar.dispatch(Apply(xs, f)),
        ]
    }
    #[test]
    fn exp2_is_accurate() {
        let xs: Vec<f32> = (-12_000..12_000).map(|i| i as f32 * 0.01).collect();
        for ys in on_every_level(&xs, Exp2) {
            for (x, y) in xs.iter().zip(ys) {
                let truth = f64::from(*x).exp2();
                assert!((f64::from(y) / truth - 1.0).abs() < 3e-7, "2^{x} = {y}");
            }
        }
    }

    #[test]
    fn exp2_from_minus_8_is_accurate_and_harmless_below() {
        let xs: Vec<f32> = (-8_000..=0).map(|i| i as f32 * 0.001).collect();
        for ys in on_every_level(&xs, Exp2FromMinus8) {
            for (x, y) in xs.iter().zip(ys) {
                let truth = f64::from(*x).exp2();
                assert!((f64::from(y) / truth - 1.0).abs() < 3e-6, "2^{x} = {y}");
            }
        }
        let below: Vec<f32> = (0..1000).map(|i| -8.0 - (i as f32 * 0.13).exp2()).collect();
        assert!(below.contains(&f32::NEG_INFINITY));
        for ys in on_every_level(&below, Exp2FromMinus8) {
            assert!(ys.iter().all(|y| *y >= 0.0), "{ys:?}");
        }
    }

    #[test]
    fn reciprocal_is_accurate() {
        let xs: Vec<f32> = (1..20_000).map(|i| i as f32 * 1e-4).collect();
        for ys in on_every_level(&xs, Reciprocal) {
            for (x, y) in xs.iter().zip(ys) {
                let error = (f64::from(y) * f64::from(*x) - 1.0).abs();
                assert!(error < 1.2e-6, "1 / {x} = {y}");
            }
        }
    }

    #[test]
    fn log2_is_accurate() {
        let xs: Vec<f32> = (-900..900).map(|i| (i as f32 * 0.1371).exp2()).collect();
        for ys in on_every_level(&xs, Log2) {
            for (x, y) in xs.iter().zip(ys) {
                let truth = f64::from(*x).log2();
                let tolerance = 2.5e-7 + 1.2e-7 * truth.abs();
                assert!((f64::from(y) - truth).abs() < tolerance, "log2 {x} = {y}");
            }
        }
    }
}

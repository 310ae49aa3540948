//! Moments in 16 bits, for the state of a finished run: the upper half of an `f32` (bfloat16), rounded to nearest, ties to
//! even. The exponent is whole, so that small second moments stay above zero.

/// Bits that are dropped.
const DROPPED: u32 = 16;

/// Returns the number in 16 bits.
fn pack(value: f32) -> u16 {
    let bits = value.to_bits();
    let half = (1 << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1);
    match value.is_finite() {
        // The largest finite numbers become infinite in rounding; they are cut instead.
        true => match (bits + half) >> DROPPED {
            upper if f32::from_bits(upper << DROPPED).is_finite() => upper as u16,
            _ => (bits >> DROPPED) as u16,
        },
        false => (bits >> DROPPED) as u16,
    }
}

/// Returns the numbers in 16 bits.
pub(super) fn packed(values: &[f32]) -> Vec<u16> {
    values.iter().map(|&value| pack(value)).collect()
}

/// Returns the numbers of 16 bits as `f32`.
pub(super) fn unpacked(values: &[u16]) -> Vec<f32> {
    let wide = |&value: &u16| f32::from_bits(u32::from(value) << DROPPED);
    values.iter().map(wide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_sign_size_and_eight_bits() {
        for value in [
            0.0,
            -0.0,
            1.0,
            -2.5,
            1e-30,
            3e-38,
            -7.1e-12,
            f32::MAX,
            f32::MIN,
        ] {
            let again = unpacked(&packed(&[value]))[0];
            assert!(again.is_finite() && again.is_sign_positive() == value.is_sign_positive());
            assert!(
                (again - value).abs() <= value.abs() / 128.0,
                "{value} {again}"
            );
        }
        // Ties go to the even neighbour.
        let tie = |upper: u32| f32::from_bits(upper << 16 | 0x8000);
        assert_eq!(packed(&[tie(0x3f80), tie(0x3f81)]), [0x3f80, 0x3f82]);
        // Packed numbers are packed to themselves.
        let once = unpacked(&packed(&[0.1234, 5.4e-9]));
        assert_eq!(unpacked(&packed(&once)), once);
    }
}

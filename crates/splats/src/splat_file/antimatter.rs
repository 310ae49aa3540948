//! `.splat`: 32 bytes per Gaussian and nothing else, the layout of antimatter15's web viewer (its `convert.py`, MIT).
//!
//! Little endian: centre, 3 `f32`; standard deviations, 3 `f32`; red, green, blue, 255 times the colour without view
//! dependence; opacity, 255 times; rotation `w x y z`, 128 + 128 times. The Gaussians with the largest coverage come
//! first, so that a partly loaded file shows as much as possible.

use super::packed::{alpha, linear_scale, logit, unit};
use super::{NON_FINITE_HINT, ReadOptions, SplatMetadata};
use crate::{Error, Result, SH_C0, Splats};
use std::io::{self, Write};

/// Bytes of a Gaussian.
const BYTES: usize = 32;

pub(super) fn parse(bytes: &[u8], options: &ReadOptions) -> Result<(Splats, SplatMetadata)> {
    let (records, rest) = bytes.as_chunks::<BYTES>();
    if !rest.is_empty() || records.is_empty() {
        let what = format!(
            "a .splat file is a multiple of {BYTES} bytes, and this one has {}",
            bytes.len()
        );
        return Err(Error::input(what)
            .at(format!("byte {}", records.len() * BYTES))
            .hint("copy the file again: it is cut, more follows its last Gaussian, or it is another format under this name"));
    }
    let mut splats = Splats::empty(0);
    for (i, record) in records.iter().enumerate() {
        let (floats, packed) = record.split_at(24);
        let float = |k: usize| {
            let bytes = floats[4 * k..4 * k + 4].try_into().unwrap_or_default();
            f32::from_le_bytes(bytes)
        };
        let (mean, scale) = ([0, 1, 2].map(float), [3, 4, 5].map(float));
        if let Some(bad) = mean.iter().chain(&scale).position(|v| !v.is_finite())
            && !options.keeps_non_finite()
        {
            return Err(Error::input("a centre or a scale is not finite")
                .at(format!("Gaussian {i}, byte {}", i * BYTES + 4 * bad))
                .hint(format!(
                    "it may be another format under this name; {NON_FINITE_HINT}"
                )));
        }
        let share = |k: usize| f32::from(packed[k]) / 255.0;
        let quat = [4, 5, 6, 7].map(|k| (f32::from(packed[k]) - 128.0) / 128.0);
        splats.means.push(mean);
        splats.scales.push(scale.map(linear_scale));
        splats.quats.push(unit(quat));
        splats.opacities.push(logit(share(3)));
        splats.sh0.push([0, 1, 2].map(|k| (share(k) - 0.5) / SH_C0));
    }
    Ok((splats, SplatMetadata::default()))
}

pub(super) fn write_to(out: &mut dyn Write, splats: &Splats) -> io::Result<()> {
    let opacity = |i: usize| alpha(splats.opacities[i]);
    let covers = |i: usize| splats.scales[i].iter().sum::<f32>().exp() * opacity(i);
    let mut order: Vec<(f32, usize)> = (0..splats.len()).map(|i| (covers(i), i)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, i) in order {
        let mut record = [0u8; BYTES];
        let floats = splats.means[i]
            .into_iter()
            .chain(splats.scales[i].map(f32::exp));
        for (place, value) in record.as_chunks_mut::<4>().0.iter_mut().zip(floats) {
            *place = value.to_le_bytes();
        }
        // `as` saturates.
        let byte = |unit: f32| (255.0 * unit).round() as u8;
        let colour = splats.sh0[i].map(|c| byte(0.5 + SH_C0 * c));
        record[24..27].copy_from_slice(&colour);
        record[27] = byte(opacity(i));
        record[28..]
            .copy_from_slice(&unit(splats.quats[i]).map(|q| (128.0 * q + 128.0).round() as u8));
        out.write_all(&record)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::super::packed::LEAST_SCALE;
    use super::*;

    /// Two Gaussians written by hand: the first is grey, a quarter turn about x, half seen.
    fn by_hand() -> Vec<u8> {
        let mut bytes = Vec::new();
        for (floats, packed) in [
            (
                [1.0f32, -2.0, 3.5, 0.5, 0.25, 2.0],
                [128u8, 128, 128, 128, 219, 219, 128, 128],
            ),
            (
                [0.0, 0.0, 0.0, 0.0, 1.0, 1.0],
                [255, 0, 51, 255, 128, 128, 128, 128],
            ),
        ] {
            bytes.extend(floats.iter().flat_map(|f| f.to_le_bytes()));
            bytes.extend(packed);
        }
        bytes
    }

    #[test]
    fn bytes_by_hand_are_read() {
        let (splats, _) = parse(&by_hand(), &ReadOptions::default()).unwrap();
        assert_eq!(splats.means, [[1.0, -2.0, 3.5], [0.0; 3]]);
        assert_eq!(splats.scales[0], [0.5f32.ln(), 0.25f32.ln(), 2.0f32.ln()]);
        assert_eq!(splats.scales[1], [LEAST_SCALE, 0.0, 0.0]);
        let half = 0.5f32.sqrt();
        assert!(
            (splats.quats[0][0] - half).abs() < 1e-6 && (splats.quats[0][1] - half).abs() < 1e-6
        );
        assert_eq!(splats.quats[1], [1.0, 0.0, 0.0, 0.0]);
        assert!((splats.opacities[0] - (128.0f32 / 127.0).ln()).abs() < 1e-5);
        assert_eq!(alpha(splats.opacities[1]), 1.0);
        let seen = |i: usize, k: usize| 0.5 + SH_C0 * splats.sh0[i][k];
        assert!((seen(0, 0) - 128.0 / 255.0).abs() < 1e-6);
        assert!((seen(1, 2) - 0.2).abs() < 1e-6);
    }

    #[test]
    fn what_is_read_is_written_back_the_largest_first() {
        let bytes = by_hand();
        let (splats, _) = parse(&bytes, &ReadOptions::default()).unwrap();
        let mut again = Vec::new();
        write_to(&mut again, &splats).unwrap();
        // The second has zero thickness: it comes last, and its rotation is the identity now.
        assert_eq!(again[..BYTES], bytes[..BYTES]);
        assert_eq!(again[BYTES + 24..BYTES + 28], bytes[BYTES + 24..BYTES + 28]);
        assert_eq!(again[BYTES + 28..], [255, 128, 128, 128]);
        // The order follows the coverage, not the position.
        let mut turned = splats.clone();
        turned.means.swap(0, 1);
        turned.scales.swap(0, 1);
        turned.quats.swap(0, 1);
        turned.opacities.swap(0, 1);
        turned.sh0.swap(0, 1);
        let mut sorted = Vec::new();
        write_to(&mut sorted, &turned).unwrap();
        assert_eq!(sorted, again);
    }

    #[test]
    fn cut_files_and_broken_numbers_are_refused_with_their_place() {
        let bytes = by_hand();
        for end in (0..bytes.len()).filter(|end| end % BYTES != 0 || *end == 0) {
            let error = parse(&bytes[..end], &ReadOptions::default()).unwrap_err();
            assert!(
                error.place().is_some() && error.hint_text().is_some(),
                "{end}"
            );
        }
        let mut bad = bytes;
        bad[BYTES + 4..BYTES + 8].copy_from_slice(&f32::NAN.to_le_bytes());
        let error = parse(&bad, &ReadOptions::default()).unwrap_err();
        assert_eq!(error.place(), Some("Gaussian 1, byte 36"));
    }
}

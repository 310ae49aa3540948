//! `.ksplat`, bytes by hand: the test needs no other writer.

use crate::formats::support::{Noise, Steps, assert_near, crowd};
use dapple_splats::splat_file::{Format, parse};
use dapple_splats::{SH_C0, Splats};
use half::f16;

const RANGE: f32 = 32_767.0;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Builds a file of one section in the layout of `SplatBuffer.js`: a full bucket of 4, and partial ones of 3.
pub fn file(splats: &Splats, level: u16) -> Vec<u8> {
    let count = splats.len() as u32;
    let mut bytes = vec![0u8; 4096 + 2 * 1024];
    bytes[1] = 1;
    // Capacity for two sections, of which one is used.
    put(&mut bytes, 4, &2u32.to_le_bytes());
    put(&mut bytes, 8, &1u32.to_le_bytes());
    put(&mut bytes, 12, &count.to_le_bytes());
    put(&mut bytes, 16, &count.to_le_bytes());
    put(&mut bytes, 20, &level.to_le_bytes());
    put(&mut bytes, 36, &(-1f32).to_le_bytes());
    put(&mut bytes, 40, &1f32.to_le_bytes());
    let mut lengths = Vec::new();
    let mut left = splats.len() - 4;
    while left > 0 {
        lengths.push(left.min(3) as u32);
        left -= left.min(3);
    }
    let buckets = if level == 0 { 0 } else { 1 + lengths.len() };
    let block = 64.0f32;
    let mut head = |at: usize, word: u32| put(&mut bytes, 4096 + at, &word.to_le_bytes());
    head(0, count);
    // And one more could be.
    head(4, count + 1);
    head(8, 4);
    head(12, buckets as u32);
    head(16, block.to_bits());
    head(20, 12);
    if level > 0 {
        head(32, 1);
        head(36, lengths.len() as u32);
        lengths.iter().for_each(|l| bytes.extend(l.to_le_bytes()));
    }
    put(
        &mut bytes,
        4096 + 40,
        &u16::from(splats.sh_degree).to_le_bytes(),
    );
    let centre = |b: usize| [b as f32 * 0.25, 1.0, -2.0];
    for b in 0..buckets {
        centre(b).iter().for_each(|c| bytes.extend(c.to_le_bytes()));
    }
    let mut half = Vec::new();
    for i in 0..splats.len() {
        let bucket = if i < 4 { 0 } else { 1 + (i - 4) / 3 };
        let scale = splats.scales[i].map(f32::exp);
        half.clear();
        if level == 0 {
            let values = splats.means[i]
                .into_iter()
                .chain(scale)
                .chain(splats.quats[i]);
            values.for_each(|v| bytes.extend(v.to_le_bytes()));
        } else {
            for k in 0..3 {
                let steps =
                    (splats.means[i][k] - centre(bucket)[k]) / (block / 2.0) * RANGE + RANGE;
                bytes.extend((steps.round() as u16).to_le_bytes());
            }
            half.extend(scale.into_iter().chain(splats.quats[i]));
            half.iter()
                .for_each(|&v| bytes.extend(f16::from_f32(v).to_le_bytes()));
        }
        let byte = |v: f32| (v * 255.0).round() as u8;
        bytes.extend(splats.sh0[i].map(|c| byte(0.5 + SH_C0 * c)));
        bytes.push(byte(1.0 / (1.0 + (-splats.opacities[i]).exp())));
        let stride = splats.sh_rest_stride();
        let rest = &splats.sh_rest[i * stride..(i + 1) * stride];
        for (first, width) in [(0, 3), (3, 5), (8, 7)] {
            if first * 3 >= stride {
                break;
            }
            for channel in 0..3 {
                for k in first..first + width {
                    let value = rest[k * 3 + channel];
                    match level {
                        0 => bytes.extend(value.to_le_bytes()),
                        1 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                        _ => bytes.push(byte((value + 1.0) / 2.0)),
                    }
                }
            }
        }
    }
    // Capacity for the second section.
    let row =
        if level == 0 { 44 } else { 24 } + splats.sh_rest_stride() * [4, 2, 1][level as usize];
    bytes.resize(bytes.len() + row, 0);
    bytes
}

#[test]
fn every_level_and_degree_is_read() {
    for degree in 0..=3 {
        let splats = crowd(15, degree);
        for level in 0..=2 {
            let (read, metadata) = parse(&file(&splats, level), Format::Ksplat).unwrap();
            assert!(metadata.notes.is_empty());
            let coarse = f32::from(u8::from(level > 0));
            let steps = Steps {
                mean: 1e-5 + coarse * 0.5 * 32.0 / RANGE,
                scale: 1e-5 + coarse * 1e-3,
                quat: 1e-5 + coarse * 1e-3,
                alpha: 0.51 / 255.0,
                sh0: 0.51 / 255.0 / SH_C0,
                rest: [1e-6, 1e-3, 0.51 * 2.0 / 255.0][level as usize],
            };
            assert_near(
                &read,
                &splats,
                steps,
                &format!("level {level}, degree {degree}"),
            );
        }
    }
}

#[test]
fn damage_is_refused_with_its_place() {
    for level in 0..=2 {
        let whole = file(&crowd(15, 1), level);
        let row = (if level == 0 { 44 } else { 24 }) + 9 * [4, 2, 1][level as usize];
        for end in (0..whole.len() - row).step_by(64) {
            let error = parse(&whole[..end], Format::Ksplat).unwrap_err();
            assert!(
                error.place().is_some() && error.hint_text().is_some(),
                "{error}"
            );
        }
        for at in [4, 8, 4096, 4100, 4108, 4128, 4132] {
            let mut bytes = whole.clone();
            put(&mut bytes, at, &u32::MAX.to_le_bytes());
            match parse(&bytes, Format::Ksplat) {
                Ok((splats, _)) => assert!(splats.check_lengths().is_ok()),
                Err(error) => assert!(error.place().is_some(), "{error}"),
            }
        }
        let mut noise = Noise(3);
        for i in 0..whole.len() / 4 {
            let mut bytes = whole.clone();
            let at = ((noise.next() + 1.0) / 2.0 * (whole.len() - 1) as f32) as usize;
            bytes[at] ^= 1 << (i % 8);
            let _ = parse(&bytes, Format::Ksplat);
        }
    }
}

/// Overwrites counts of the header and of a section's header.
fn counted(splats: &Splats, level: u16, at: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = file(splats, level);
    for &(at, count) in at {
        put(&mut bytes, at, &count.to_le_bytes());
    }
    bytes
}

#[test]
fn counts_that_differ_are_told_and_what_is_there_is_read() {
    let splats = crowd(15, 1);
    for level in 0..=2 {
        let whole = parse(&file(&splats, level), Format::Ksplat).unwrap().0;
        for (at, word) in [
            // No sections, no Gaussians, neither, another number; none and few in the section's header.
            (&[(8, 0)][..], "0 sections"),
            (&[(16, 0)], "promises 0 Gaussians"),
            (&[(8, 0), (16, 0)], "0 sections"),
            (&[(16, 99)], "promises 99 Gaussians"),
            (&[(4096, 0)], "promise 0 Gaussians, and 15"),
            (&[(4096, 7)], "promise 7 Gaussians, and 15"),
        ] {
            let (read, metadata) = parse(&counted(&splats, level, at), Format::Ksplat).unwrap();
            assert_eq!(read, whole, "level {level}, {at:?}");
            let found = metadata.notes.iter().any(|note| note.contains(word));
            assert!(found, "level {level}, {at:?}: {:?}", metadata.notes);
        }
        // More sections than the capacity, and no capacity at all.
        for at in [&[(4096, 17)][..], &[(8, 3)], &[(4, 0), (8, 0)]] {
            let error = parse(&counted(&splats, level, at), Format::Ksplat).unwrap_err();
            assert!(error.place().is_some() && error.hint_text().is_some());
        }
        let mut longer = file(&splats, level);
        longer.extend(b"more");
        let (read, metadata) = parse(&longer, Format::Ksplat).unwrap();
        assert_eq!(read, whole);
        assert!(
            metadata.notes[0].starts_with("4 bytes follow"),
            "{:?}",
            metadata.notes
        );
    }
}

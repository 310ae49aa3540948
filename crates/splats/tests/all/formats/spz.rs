//! SPZ, bytes by hand.

use crate::formats::support::{Steps, assert_near, crowd};
use dapple_splats::origin::middle_of;
use dapple_splats::splat_file::{
    self, Axes, Format, ReadOptions, SpzVersion, WriteOptions, parse, parse_with,
};
use dapple_splats::{ErrorKind, Splats};
use flate2::read::GzEncoder;
use std::io::Read;

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = GzEncoder::new(bytes, flate2::Compression::default());
    encoder.read_to_end(&mut out).unwrap();
    out
}

/// Builds two Gaussians of degree 1 by the format's description, before gzip.
pub fn by_hand(version: u32) -> Vec<u8> {
    let mut bytes = b"NGSP".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(2u32.to_le_bytes());
    // Degree 1, 8 bits after the point, anti-aliased.
    bytes.extend([1, 8, 1, 0]);
    match version {
        // Halves: 1, -2, 0.5; 0, 0, 0.
        1 => bytes.extend([0x00, 0x3c, 0x00, 0xc0, 0x00, 0x38, 0, 0, 0, 0, 0, 0]),
        // In steps of 1/256: 256, -512, 128; 0, -1, 2^23 - 1.
        _ => bytes.extend([
            0, 1, 0, 0, 0xfe, 0xff, 0x80, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
        ]),
    }
    bytes.extend([51, 255]); // opacities 0.2 and 1
    bytes.extend([0, 255, 51, 128, 128, 128]);
    bytes.extend([0, 160, 255, 16, 32, 48]);
    match version {
        1 | 2 => bytes.extend([0, 255, 0, 128, 128, 128]),
        // The largest is w (3); x -511 of 511, y 0, z 1. The largest is x (0); y, z, w 0.
        _ => {
            bytes.extend((3u32 << 30 | (1 << 9 | 511) << 20 | 1).to_le_bytes());
            bytes.extend(0u32.to_le_bytes());
        }
    }
    bytes.extend([0, 128, 255, 64, 192, 136, 120, 130, 126]);
    bytes.extend([128; 9]);
    bytes
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let off = (f64::from(*found) - expected).abs();
        assert!(
            off < 1e-5 * expected.abs().max(1.0),
            "{found} is not {expected}"
        );
    }
}

#[test]
fn bytes_mean_what_the_description_says() {
    for version in 1..=3 {
        let (splats, metadata) = parse(&gzip(&by_hand(version)), Format::Spz).unwrap();
        assert_eq!((splats.len(), splats.sh_degree), (2, 1));
        assert!(metadata.antialiased && metadata.notes.is_empty() && metadata.axes.is_none());
        // Right, up, back in the file; right, down, forward in Dapple.
        assert_close(&splats.means[0], &[1.0, 2.0, -0.5]);
        if version > 1 {
            assert_close(&splats.means[1], &[0.0, 1.0 / 256.0, -8_388_607.0 / 256.0]);
        }
        assert_close(&splats.opacities[..1], &[(0.25f64).ln()]);
        // A byte of 255 is an opacity of 1 in `f32`.
        assert_eq!(1.0 / (1.0 + (-splats.opacities[1]).exp()), 1.0);
        assert_close(&splats.sh0[0], &[-0.5 / 0.15, 0.5 / 0.15, -0.3 / 0.15]);
        assert_close(&splats.scales[0], &[-10.0, 0.0, 255.0 / 16.0 - 10.0]);
        assert_close(&splats.scales[1], &[-9.0, -8.0, -7.0]);
        let half = 0.5f64.sqrt();
        if version == 3 {
            let z = half / 511.0;
            assert_close(&splats.quats[0], &[(0.5 - z * z).sqrt(), -half, 0.0, -z]);
            assert_close(&splats.quats[1], &[0.0, 1.0, 0.0, 0.0]);
        } else {
            // Longer than 1 without w, as in damaged or coarse files: w is 0.
            assert_close(&splats.quats[0], &[0.0, -1.0, -1.0, 1.0]);
        }
        let rest = [
            -1.0,
            0.0,
            127.0 / 128.0,
            -0.5,
            0.5,
            0.0625,
            -0.0625,
            2.0 / 128.0,
            -2.0 / 128.0,
        ];
        // Coefficients of y and z change sign, those of x do not.
        let signs = [-1.0, -1.0, 1.0];
        let rest: Vec<f64> = (0..9).map(|k| rest[k] * signs[k / 3]).collect();
        assert_close(&splats.sh_rest[..9], &rest);
    }
}

#[test]
fn axes_are_those_that_are_declared_or_named() {
    let splats = crowd(50, 3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spz");
    let turned = |axes, version| WriteOptions {
        axes,
        spz_version: version,
        // Equal bits for all Gaussians, because the test compares signs.
        spz_sh_bits: Some([6, 5]),
        antialiased: true,
        ..WriteOptions::default()
    };
    for axes in Axes::ALL {
        // Version 4 declares its axes.
        splat_file::write_with(&path, &splats, Format::Spz, &turned(axes, SpzVersion::V4)).unwrap();
        let (read, metadata) = splat_file::read(&path).unwrap();
        assert_eq!((metadata.axes, metadata.antialiased), (Some(axes), true));
        assert_near(&read, &splats, Steps::for_format(Format::Spz), axes.name());
        // Version 3 does not: the caller must know them.
        splat_file::write_with(&path, &splats, Format::Spz, &turned(axes, SpzVersion::V3)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let options = ReadOptions {
            undeclared_axes: axes,
            ..ReadOptions::default()
        };
        let (read, metadata) = parse_with(&bytes, Format::Spz, &options).unwrap();
        assert_eq!(metadata.axes, None);
        assert_near(&read, &splats, Steps::for_format(Format::Spz), axes.name());
        let (raw, _) = parse(&bytes, Format::Spz).unwrap();
        assert_eq!(raw.means[7] == read.means[7], axes == Axes::Rub);
    }
}

#[test]
fn positions_have_the_bits_that_the_scene_needs() {
    let at = |scale: f32| {
        let mut splats = crowd(200, 0);
        splats
            .means
            .iter_mut()
            .for_each(|m| *m = m.map(|v| v * scale));
        splats
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spz");
    // The scene is 14 units long; a step is at most a 16384th of that, or a 4096th of a unit.
    for (scale, step) in [
        (1.0, 1.0 / 4096.0),
        (0.01, 0.14 / 16_384.0),
        (1000.0, 1.0 / 512.0),
        (1e-6, 1.0 / 8_388_608.0),
    ] {
        let splats = at(scale);
        splat_file::write(&path, &splats, Format::Spz).unwrap();
        let (read, _) = splat_file::read(&path).unwrap();
        for (a, b) in read
            .means
            .as_flattened()
            .iter()
            .zip(splats.means.as_flattened())
        {
            assert!((a - b).abs() <= 0.51 * step, "{scale}: {a} {b}");
        }
    }
    let error = splat_file::write(&path, &at(1e7), Format::Spz).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.hint_text().is_some());
    let error = splat_file::write(&path, &Splats::empty(0), Format::Spz).unwrap_err();
    assert!(error.to_string().contains("at least one"), "{error}");
}

#[test]
fn distant_gaussians_do_not_cost_the_scene_its_detail() {
    let mut splats = crowd(200, 0);
    let far = [2e6, -1e7, 3e5];
    splats.means[50] = far;
    splats.scales[50] = [12.0, 11.5, 11.0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.spz");
    splat_file::write(&path, &splats, Format::Spz).unwrap();
    let (read, _) = splat_file::read(&path).unwrap();
    for (i, (a, b)) in read.means.iter().zip(&splats.means).enumerate() {
        let near = a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1.0 / 512.0);
        assert_eq!(near, i != 50, "{i}: {a:?} {b:?}");
    }
    // The distant one looks the same from the scene: its direction, and its size for its distance.
    let middle = middle_of(&splats);
    let ray = |p: [f32; 3]| glam::DVec3::from(p.map(f64::from)) - middle;
    let (before, after) = (ray(far), ray(read.means[50]));
    let (from, to) = (before.length(), after.length());
    for k in 0..3 {
        let (a, b) = (before[k] / from, after[k] / to);
        assert!((a - b).abs() < 1e-5, "{k}: {a} {b}");
        let size = |scale: f32, distance: f64| f64::from(scale) - distance.ln();
        let off = size(read.scales[50][k], to) - size(splats.scales[50][k], from);
        assert!(off.abs() < 0.04, "{k}: {off}");
    }
}

#[test]
fn what_contradicts_itself_is_refused_with_its_place() {
    let refused = |bytes: &[u8], word: &str| {
        let error = parse(bytes, Format::Spz).unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert!(
            error.place().is_some() && error.hint_text().is_some(),
            "{error}"
        );
    };
    let with = |at: usize, byte: u8| {
        let mut bytes = by_hand(3);
        bytes[at] = byte;
        gzip(&bytes)
    };
    refused(&with(0, 0), "does not begin with NGSP");
    refused(&with(4, 5), "version 5");
    refused(&with(12, 5), "degree 5");
    refused(&with(13, 24), "24 bits");
    refused(&with(11, 1), "cannot hold");
    refused(&with(8, 3), "ends or is damaged within its rotations");
    refused(&gzip(b"NGSP"), "within its header");
    let mut long = by_hand(3);
    long.push(0);
    let (_, metadata) = parse(&gzip(&long), Format::Spz).unwrap();
    assert!(
        metadata.notes[0].starts_with("1 bytes follow"),
        "{metadata:?}"
    );
    // A record of axes behind the harmonics of version 3, as its flag says.
    let mut declared = by_hand(3);
    declared[14] |= 2;
    for word in [0xADBE_0002u32, 4, 0, 0xADBE_0003, 4, 6] {
        declared.extend(word.to_le_bytes());
    }
    let (splats, metadata) = parse(&gzip(&declared), Format::Spz).unwrap();
    assert_eq!(metadata.axes, Some(Axes::Rdf));
    assert_eq!(splats.means[0], [1.0, -2.0, 0.5]);
}

/// Returns one SPZ file of each version, and its splats.
fn versions() -> Vec<(Vec<u8>, Splats)> {
    let mut files: Vec<Vec<u8>> = (1..=3).map(|version| gzip(&by_hand(version))).collect();
    let options = WriteOptions {
        spz_version: SpzVersion::V4,
        ..WriteOptions::default()
    };
    files.push(splat_file::encode(&crowd(20, 1), Format::Spz, &options).unwrap());
    let read = |bytes: Vec<u8>| {
        let (splats, metadata) = parse(&bytes, Format::Spz).unwrap();
        assert!(metadata.notes.is_empty());
        (bytes, splats)
    };
    files.into_iter().map(read).collect()
}

#[test]
fn files_that_stand_end_to_end_are_all_read() {
    let all = versions();
    for (first, a) in &all {
        for (second, b) in &all {
            let (read, metadata) = parse(&[&first[..], second].concat(), Format::Spz).unwrap();
            assert_eq!(read.len(), a.len() + b.len());
            assert_eq!(read.means[..a.len()], a.means[..]);
            assert_eq!(read.means[a.len()..], b.means[..]);
            assert!(
                metadata.notes[0].starts_with("2 SPZ files"),
                "{:?}",
                metadata.notes
            );
        }
        // Foreign bytes, and a second file that is truncated: noted, and the first file is read.
        for tail in [&b"these bytes"[..], &first[..first.len() / 2]] {
            let (read, metadata) = parse(&[&first[..], tail].concat(), Format::Spz).unwrap();
            assert_eq!(read, *a);
            let said = format!("{} bytes follow", tail.len());
            assert!(metadata.notes[0].starts_with(&said), "{:?}", metadata.notes);
        }
    }
}

#[test]
fn files_without_gzip_or_with_too_much_of_it_are_read() {
    for version in 1..=3 {
        let (packed, _) = parse(&gzip(&by_hand(version)), Format::Spz).unwrap();
        let (bare, metadata) = parse(&by_hand(version), Format::Spz).unwrap();
        assert_eq!(bare, packed);
        assert!(metadata.notes[0].contains("gzip"), "{:?}", metadata.notes);
        // Members of a gzip file are one stream, for any cut.
        let whole = by_hand(version);
        for cut in [4, 20, 40] {
            let members = [gzip(&whole[..cut]), gzip(&whole[cut..])].concat();
            let (read, metadata) = parse(&members, Format::Spz).unwrap();
            assert_eq!(read, packed);
            assert!(metadata.notes.is_empty());
        }
        let cut = &whole[..whole.len() - 1];
        let error = parse(cut, Format::Spz).unwrap_err();
        assert!(error.place().is_some() && error.hint_text().is_some());
        let longer = [&whole[..], b"more"].concat();
        let (read, metadata) = parse(&longer, Format::Spz).unwrap();
        assert_eq!(read, packed);
        assert!(
            metadata
                .notes
                .iter()
                .any(|n| n.starts_with("4 bytes follow"))
        );
    }
    let (four, splats) = versions().pop().unwrap();
    let (read, metadata) = parse(&gzip(&four), Format::Spz).unwrap();
    assert_eq!(read, splats);
    assert!(
        metadata.notes[0].contains("gzip is around"),
        "{:?}",
        metadata.notes
    );
}

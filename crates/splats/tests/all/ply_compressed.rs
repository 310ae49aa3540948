//! SuperSplat's compressed PLY: values known by hand, every encoding, and every kind of damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_splats::{ErrorKind, ply};
use proptest::prelude::*;

/// Changes that a test makes to a valid file.
struct File {
    format: &'static str,
    chunks: Vec<Vec<f32>>,
    vertices: Vec<[u32; 4]>,
    harmonics: Vec<Vec<u8>>,
    /// Replacements in the header.
    edits: Vec<(&'static str, &'static str)>,
}

const RANGES: [&str; 18] = [
    "min_x",
    "min_y",
    "min_z",
    "max_x",
    "max_y",
    "max_z",
    "min_scale_x",
    "min_scale_y",
    "min_scale_z",
    "max_scale_x",
    "max_scale_y",
    "max_scale_z",
    "min_r",
    "min_g",
    "min_b",
    "max_r",
    "max_g",
    "max_b",
];

impl File {
    /// Builds two chunks, the second of one Gaussian, degree 1; every range is different.
    fn good() -> Self {
        let ranges = |shift: f32| {
            let low = [-1.0, -2.0, -3.0, 1.0, 3.0, 5.0, -9.0, -8.0, -7.0, -4.0];
            let high = [-2.0, 0.0, -0.5, 0.0, 0.25, 1.5, 1.0, 0.75];
            low.iter().chain(&high).map(|v| v + shift).collect()
        };
        let word = |i: u32| [i * 7919, (i * 104_729) ^ 0x8123_4567, i * 1_299_709, i * 7];
        Self {
            format: "binary_little_endian",
            chunks: vec![ranges(0.0), ranges(2.0)],
            vertices: (0..257).map(word).collect(),
            harmonics: (0..257u16)
                .map(|i| (0..9).map(|k| (i * 9 + k) as u8).collect())
                .collect(),
            edits: Vec::new(),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut header = format!(
            "ply\nformat {} 1.0\ncomment by hand\nelement chunk {}\n",
            self.format,
            self.chunks.len()
        );
        let width = self.chunks.first().map_or(18, Vec::len);
        for name in &RANGES[..width] {
            header += &format!("property float {name}\n");
        }
        header += &format!("element vertex {}\n", self.vertices.len());
        for name in ["position", "rotation", "scale", "color"] {
            header += &format!("property uint packed_{name}\n");
        }
        if let Some(first) = self.harmonics.first() {
            header += &format!("element sh {}\n", self.harmonics.len());
            for i in 0..first.len() {
                header += &format!("property uchar f_rest_{i}\n");
            }
        }
        header += "end_header\n";
        for (from, to) in &self.edits {
            assert!(header.contains(from), "{from:?} is not in {header}");
            header = header.replace(from, to);
        }
        let mut file = header.into_bytes();
        for row in &self.chunks {
            self.append(&mut file, row, |v| v.to_le_bytes(), |v| v.to_be_bytes());
        }
        for row in &self.vertices {
            self.append(&mut file, row, |v| v.to_le_bytes(), |v| v.to_be_bytes());
        }
        for row in &self.harmonics {
            self.append(&mut file, row, |v| [v], |v| [v]);
        }
        file
    }

    fn append<T: Copy + std::fmt::Display, const N: usize>(
        &self,
        file: &mut Vec<u8>,
        row: &[T],
        little: fn(T) -> [u8; N],
        big: fn(T) -> [u8; N],
    ) {
        match self.format {
            "ascii" => {
                let words: Vec<String> = row.iter().map(T::to_string).collect();
                file.extend((words.join(" ") + "\n").as_bytes());
            }
            "binary_big_endian" => file.extend(row.iter().flat_map(|&v| big(v))),
            _ => file.extend(row.iter().flat_map(|&v| little(v))),
        }
    }
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (f64::from(*found) - expected).abs() < 1e-6,
            "{found} is not {expected}"
        );
    }
}

#[test]
fn words_mean_what_the_description_says() {
    let mut file = File::good();
    // x 2047 of 2047, y 0, z 1; scales 0, 1023 of 1023, 2047 of 2047; the largest is y (index 2),
    // the others 1023, 0 and 512; red 255, green 0, blue 51, opacity 204.
    file.vertices[3] = [
        2047 << 21 | 1,
        2 << 30 | 1023 << 20 | 512,
        1023 << 11 | 2047,
        0xff00_33cc,
    ];
    file.harmonics[3] = vec![0, 1, 127, 128, 254, 255, 3, 4, 5];
    let splats = ply::parse(&file.bytes()).unwrap();
    assert_eq!((splats.len(), splats.sh_degree), (257, 1));
    assert_close(&splats.means[3], &[1.0, -2.0, -3.0 + 8.0 / 2047.0]);
    assert_close(&splats.scales[3], &[-9.0, -2.0, 0.0]);
    let half = 0.5f64.sqrt();
    // w 1/sqrt 2 and x -1/sqrt 2 give y = 0.
    let z = (512.0 / 1023.0 - 0.5) * 2.0 * half;
    assert_close(&splats.quats[3], &[half, -half, 0.0, z]);
    let colour = [1.5, 0.0, 0.25 + 0.2 * 0.5];
    assert_close(&splats.sh0[3], &colour.map(|c| (c - 0.5) / 0.282_094_8));
    assert_close(&[splats.opacities[3]], &[4.0f64.ln()]);
    // f_rest holds channel by channel: red's three coefficients first.
    let value = |byte: f64| (byte + 0.5) / 32.0 - 4.0;
    let expected = [
        -4.0,
        value(128.0),
        value(3.0),
        value(1.0),
        value(254.0),
        value(4.0),
        value(127.0),
        4.0,
        value(5.0),
    ];
    assert_close(&splats.sh_rest[27..36], &expected);
    // The largest component follows from the others; the test covers each index.
    for largest in 0..4 {
        let mut file = File::good();
        file.vertices[0][1] = (largest as u32) << 30 | 700 << 20 | 400 << 10 | 511;
        let quat = ply::parse(&file.bytes()).unwrap().quats[0];
        let small = [700.0, 400.0, 511.0].map(|v| (v / 1023.0 - 0.5) * 2.0 * half);
        let mut expected = small.to_vec();
        let length: f64 = small.iter().map(|v| v * v).sum();
        expected.insert(largest, (1.0 - length).sqrt());
        assert_close(&quat, &expected);
    }
    // The 257th Gaussian is in the second chunk, whose ranges are shifted by 2.
    file.vertices[256] = [0, 0, 0, 0xff00_0000];
    let splats = ply::parse(&file.bytes()).unwrap();
    assert_close(&splats.means[256], &[1.0, 0.0, -1.0]);
    assert_close(&splats.scales[256], &[-7.0, -6.0, -5.0]);
    // A byte of 255 is an opacity of 1, one of 0 an opacity of 0: sigmoids rounded to `f32`.
    let sigmoid = |logit: f32| 1.0 / (1.0 + (-logit).exp());
    assert!(sigmoid(splats.opacities[256]) < 1e-7);
}

#[test]
fn older_files_without_colour_ranges_or_harmonics_are_read() {
    let mut file = File::good();
    for chunk in &mut file.chunks {
        chunk.truncate(12);
    }
    file.harmonics.clear();
    file.vertices[1][3] = 0x00ff_80ff;
    let splats = ply::parse(&file.bytes()).unwrap();
    assert_eq!((splats.sh_degree, splats.sh_rest.len()), (0, 0));
    let colour = [0.0, 1.0, 128.0 / 255.0];
    assert_close(&splats.sh0[1], &colour.map(|c| (c - 0.5) / 0.282_094_8));
    let sigmoid = |logit: f32| 1.0 / (1.0 + (-logit).exp());
    assert_eq!(sigmoid(splats.opacities[1]), 1.0);
    // As points: centres and the same colours.
    let points = ply::parse_points(&file.bytes()).unwrap();
    assert_eq!((points.len(), points[1].rgb), (257, [0, 255, 128]));
    assert_eq!(points[1].position, splats.means[1]);
}

#[test]
fn every_encoding_and_order_of_elements_gives_the_same() {
    let mut file = File::good();
    let expected = ply::parse(&file.bytes()).unwrap();
    for format in ["ascii", "binary_big_endian"] {
        file.format = format;
        assert_eq!(ply::parse(&file.bytes()).unwrap(), expected, "{format}");
    }
    file.format = "binary_little_endian";
    file.edits = vec![("property uint", "property int")];
    assert_eq!(ply::parse(&file.bytes()).unwrap(), expected);
    // A file without Gaussians is valid too.
    let mut none = File::good();
    (none.chunks, none.vertices, none.harmonics) = (vec![], vec![], vec![]);
    assert!(ply::parse(&none.bytes()).unwrap().is_empty());
}

#[track_caller]
fn assert_refused(file: &[u8], words: &[&str]) {
    let error = ply::parse(file).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    for word in words {
        let shown = error.to_string();
        assert!(shown.contains(word), "{word:?} is not in: {shown}");
    }
    assert!(error.hint_text().is_some(), "{error}");
}

#[test]
fn broken_files_say_why() {
    let with = |change: &dyn Fn(&mut File)| {
        let mut file = File::good();
        change(&mut file);
        file.bytes()
    };
    let edited = |from, to| with(&|file| file.edits.push((from, to)));
    assert_refused(
        &with(&|f| drop(f.chunks.pop())),
        &["has 1 chunks", "257 Gaussians need 2"],
    );
    assert_refused(
        &with(&|f| f.chunks.push(f.chunks[0].clone())),
        &["has 3 chunks"],
    );
    assert_refused(
        &with(&|f| drop(f.harmonics.pop())),
        &["of 256 Gaussians", "257 Gaussians"],
    );
    for bad in [f32::NAN, f32::INFINITY] {
        let file = with(&|f| f.chunks[1][16] = bad);
        assert_refused(&file, &["property max_g of chunk 1", &bad.to_string()]);
    }
    assert_refused(
        &edited("element chunk", "element box"),
        &["no element \"chunk\""],
    );
    assert_refused(&edited("max_scale_y", "other"), &["lacks max_scale_y"]);
    assert_refused(&edited("max_b", "other"), &["lacks max_b"]);
    assert_refused(&edited("packed_scale", "other"), &["lacks packed_scale"]);
    assert_refused(
        &edited("uint packed_rotation", "float packed_rotation"),
        &["packed_rotation", "uint"],
    );
    assert_refused(
        &edited("uchar f_rest_4", "char f_rest_4"),
        &["f_rest_4", "uchar"],
    );
    for count in ["258", "123456789012", "18446744073709551615"] {
        for element in ["chunk 2", "vertex 257", "sh 257"] {
            let name = element.split(' ').next().unwrap();
            let mut file = File::good();
            let to: &'static str = format!("element {name} {count}").leak();
            let from: &'static str = format!("element {element}").leak();
            file.edits.push((from, to));
            // One row more than the data has shifts the elements after it.
            let words: &[&str] = if count == "258" { &[] } else { &[count] };
            assert_refused(&file.bytes(), words);
        }
    }
    let whole = File::good().bytes();
    for length in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        assert_refused(&whole[..length], &[]);
    }
}

proptest! {
    /// For all words and ranges, the splats are finite, and their rotations have length 1 or (damaged) more.
    #[test]
    fn any_words_in_any_ranges_are_read(
        words in proptest::array::uniform4(any::<u32>()),
        ranges in proptest::collection::vec(-f32::MAX..=f32::MAX, 18),
        harmonics in proptest::collection::vec(any::<u8>(), 9),
    ) {
        let file = File {
            chunks: vec![ranges],
            vertices: vec![words],
            harmonics: vec![harmonics],
            ..File::good()
        };
        let splats = ply::parse(&file.bytes()).unwrap();
        let values = (splats.means[0].iter())
            .chain(&splats.scales[0])
            .chain(&splats.sh0[0])
            .chain(&splats.opacities)
            .chain(&splats.sh_rest);
        prop_assert!(values.clone().all(|v| v.is_finite()), "{splats:?}");
        let length: f32 = splats.quats[0].iter().map(|q| q * q).sum();
        prop_assert!((0.999..1.6).contains(&length), "{splats:?}");
    }

    #[test]
    fn damaged_files_never_panic(at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut file = File::good().bytes();
        let at = at.index(1200);
        file[at] = with;
        let _ = ply::parse(&file);
        let _ = ply::parse_points(&file);
        file.remove(at);
        let _ = ply::parse(&file);
    }
}

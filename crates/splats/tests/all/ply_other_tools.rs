//! PLY files as other trainers and converters write them.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_splats::{ErrorKind, Splats, ply};

/// Builds an ASCII file of one Gaussian with these columns.
fn file(columns: &[(&str, &str)]) -> Vec<u8> {
    let mut text = "ply\nformat ascii 1.0\nelement vertex 1\n".to_owned();
    for (property, _) in columns {
        text += &format!("property {property}\n");
    }
    let values: Vec<&str> = columns.iter().map(|(_, value)| *value).collect();
    (text + "end_header\n" + &values.join(" ") + "\n").into_bytes()
}

const POSITION: [(&str, &str); 3] = [("float x", "1"), ("float y", "2"), ("float z", "3")];
const COLOUR: [(&str, &str); 3] = [
    ("float f_dc_0", "0.1"),
    ("float f_dc_1", "0.2"),
    ("float f_dc_2", "0.3"),
];
const SCALE: [(&str, &str); 3] = [
    ("float scale_0", "-1"),
    ("float scale_1", "-2"),
    ("float scale_2", "-3"),
];
const REST: [(&str, &str); 5] = [
    ("float opacity", "0.5"),
    ("float rot_0", "1"),
    ("float rot_1", "0"),
    ("float rot_2", "0"),
    ("float rot_3", "0"),
];

fn read(parts: &[&[(&str, &str)]]) -> Splats {
    ply::parse(&file(&parts.concat())).unwrap()
}

#[test]
fn colours_may_stand_for_harmonics() {
    let rgb = |kind: &str, values: [&str; 3]| {
        let names = ["red", "green", "blue"].map(|name| format!("{kind} {name}"));
        let columns: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
        read(&[&POSITION, &columns, &SCALE, &REST]).sh0[0]
    };
    for sh0 in [
        rgb("uchar", ["255", "0", "51"]),
        rgb("float", ["1", "0", "0.2"]),
    ] {
        let shown = sh0.map(|c| 0.5 + dapple_splats::SH_C0 * c);
        let expected = [1.0, 0.0, 0.2];
        for (shown, expected) in shown.iter().zip(expected) {
            assert!((shown - expected).abs() < 1e-6, "{shown} {expected}");
        }
    }
    // If both exist, harmonics count.
    let also = [
        ("uchar red", "9"),
        ("uchar green", "9"),
        ("uchar blue", "9"),
    ];
    let splats = read(&[&POSITION, &also, &COLOUR, &SCALE, &REST]);
    assert_eq!(splats.sh0[0], [0.1, 0.2, 0.3]);
    // An incomplete set of harmonics is refused.
    let error = ply::parse(&file(
        &[&POSITION[..], &also, &COLOUR[..2], &SCALE, &REST].concat(),
    ))
    .unwrap_err();
    assert!(error.what().contains("lacks f_dc_2"), "{error}");
}

#[test]
fn flat_gaussians_get_a_thin_third_axis() {
    let splats = read(&[&POSITION, &COLOUR, &SCALE[..2], &REST]);
    let [first, second, third] = splats.scales[0];
    assert_eq!((first, second), (-1.0, -2.0));
    assert!((third.exp() / second.exp() - 1e-3).abs() < 1e-6, "{third}");
}

/// Mip-Splatting's covariance gets f^2 on its diagonal, its opacity the ratio of the volumes.
#[test]
fn a_separate_filter_is_put_into_scales_and_opacity() {
    let splats = read(&[
        &POSITION,
        &COLOUR,
        &SCALE,
        &[("float filter_3D", "0.2")],
        &REST,
    ]);
    let before = [-1.0f64, -2.0, -3.0].map(f64::exp);
    let after = before.map(|s| (s * s + 0.04).sqrt());
    for (found, expected) in splats.scales[0].iter().zip(after) {
        assert!((f64::from(*found).exp() - expected).abs() < 1e-6);
    }
    let volume = |s: [f64; 3]| s.iter().product::<f64>();
    let alpha = volume(before) / volume(after) / (1.0 + (-0.5f64).exp());
    let found = 1.0 / (1.0 + (-f64::from(splats.opacities[0])).exp());
    assert!((found - alpha).abs() < 1e-6, "{found} {alpha}");
    // A filter of 0 changes nothing; a huge one reduces the opacity to the minimum, not to NaN.
    let none = read(&[
        &POSITION,
        &COLOUR,
        &SCALE,
        &[("float filter_3D", "0")],
        &REST,
    ]);
    assert_eq!(
        (none.scales[0], none.opacities[0]),
        ([-1.0, -2.0, -3.0], 0.5)
    );
    let huge = read(&[
        &POSITION,
        &COLOUR,
        &SCALE,
        &[("float filter_3D", "1e30")],
        &REST,
    ]);
    assert_eq!(huge.opacities[0], -16.0);
    assert!((huge.scales[0][0] - 30.0 * 10.0f32.ln()).abs() < 1e-3);
}

#[test]
fn logarithms_of_zero_are_taken_for_the_least() {
    for (shown, expected) in [("inf", 16.0), ("-inf", -16.0)] {
        let rest = [&[("float opacity", shown)], &REST[1..]].concat();
        let splats = read(&[&POSITION, &COLOUR, &SCALE, &rest]);
        assert_eq!(splats.opacities[0], expected);
    }
    let scale = [SCALE[0], ("float scale_1", "-inf"), SCALE[2]];
    let splats = read(&[&POSITION, &COLOUR, &scale, &REST]);
    assert_eq!(splats.scales[0], [-1.0, -20.0, -3.0]);
    // An infinite extent and NaN have no meaning.
    for (column, value) in [("scale_1", "inf"), ("scale_1", "nan"), ("opacity", "nan")] {
        let mut columns = [&POSITION[..], &COLOUR, &SCALE, &REST].concat();
        let at = columns.iter().position(|(name, _)| name.ends_with(column));
        columns[at.unwrap()].1 = value;
        let error = ply::parse(&file(&columns)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input);
        let expected = format!("property {column} of vertex 0");
        assert!(error.what().contains(&expected), "{error}");
    }
}

#[test]
fn other_elements_are_named_where_vertices_are_missing() {
    let text = "ply\nformat ascii 1.0\nelement vertex_0 0\nproperty float x\n\
                element codebook_centers 0\nproperty float opacity\nend_header\n";
    let error = ply::parse(text.as_bytes()).unwrap_err();
    let hint = error.hint_text().unwrap();
    assert!(hint.contains("vertex_0, codebook_centers"), "{hint}");
}

/// Brush's and Postshot's comments for Mip-Splatting's filters, of which the last counts; and Dapple's.
#[test]
fn anti_aliased_files_say_so_and_are_known() {
    use dapple_splats::splat_file::{self, Format, WriteOptions};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ply");
    let mut splats = dapple_splats::Splats::empty(0);
    splats.means.push([0.0; 3]);
    splats.scales.push([0.0; 3]);
    splats.quats.push([1.0, 0.0, 0.0, 0.0]);
    splats.opacities.push(0.0);
    splats.sh0.push([0.0; 3]);
    for format in [Format::Ply, Format::CompressedPly] {
        for antialiased in [false, true] {
            let options = WriteOptions {
                antialiased,
                ..WriteOptions::default()
            };
            splat_file::write_with(&path, &splats, format, &options).unwrap();
            assert_eq!(
                splat_file::read(&path).unwrap().1.antialiased,
                antialiased,
                "{format:?}"
            );
        }
    }
    let bytes = std::fs::read(&path).unwrap();
    for (lines, expected) in [
        ("comment SplatRenderMode: default", false),
        ("comment splatrendermode: MIP", true),
        ("comment antialiased 1", true),
        (
            "comment antialiased 1\ncomment SplatRenderMode: default",
            false,
        ),
        ("comment SplatRenderMode: 2dgs\ncomment antialiased 1", true),
        ("comment antialiased", false),
    ] {
        let at = b"ply\nformat binary_little_endian 1.0\ncomment SplatRenderMode: mip\n".len();
        let head = format!("ply\nformat binary_little_endian 1.0\n{lines}\n");
        let file = [head.as_bytes(), &bytes[at..]].concat();
        assert_eq!(
            dapple_splats::ply::metadata(&file).unwrap().antialiased,
            expected,
            "{lines}"
        );
    }
}

/// Harmonics above degree 3 are cut, channel by channel, with a note.
#[test]
fn higher_degrees_are_cut_to_the_third() {
    use dapple_splats::splat_file::{Format, parse};
    for degree in [4usize, 5] {
        let count = (degree + 1) * (degree + 1) - 1;
        let names: Vec<String> = (0..3 * count)
            .map(|k| format!("float f_rest_{k}"))
            .collect();
        let values: Vec<String> = (0..3 * count).map(|k| k.to_string()).collect();
        let pairs = names
            .iter()
            .map(String::as_str)
            .zip(values.iter().map(String::as_str));
        let rest: Vec<(&str, &str)> = pairs.collect();
        let bytes = file(&[&POSITION[..], &COLOUR, &rest, &SCALE, &REST].concat());
        let (splats, metadata) = parse(&bytes, Format::Ply).unwrap();
        assert_eq!(splats.sh_degree, 3);
        for k in 0..15 {
            for channel in 0..3 {
                let found = splats.sh_rest[3 * k + channel];
                assert_eq!(found, (channel * count + k) as f32);
            }
        }
        let word = format!("degree {degree} are dropped");
        assert!(metadata.notes[0].contains(&word), "{:?}", metadata.notes);
    }
    let error = ply::parse(&file(
        &[
            &POSITION[..],
            &COLOUR,
            &[("float f_rest_0", "0")],
            &SCALE,
            &REST,
        ]
        .concat(),
    ));
    assert!(error.unwrap_err().what().contains("no degree"));
}

/// Opacities and lengths instead of logits and logarithms, with two scales or three.
#[test]
fn activated_numbers_are_read_as_such_and_told() {
    use dapple_splats::splat_file::{Format, parse};
    let file = |axes: usize, opacity: fn(f32) -> f32, scale: fn(f32) -> f32| {
        let mut text = "ply\nformat ascii 1.0\nelement vertex 100\n".to_owned();
        let scales = (0..axes).map(|k| format!("scale_{k}"));
        let names = ["x", "y", "z", "f_dc_0", "f_dc_1", "f_dc_2", "opacity"].map(str::to_owned);
        let rotation = (0..4).map(|k| format!("rot_{k}"));
        for name in names.into_iter().chain(scales).chain(rotation) {
            text += &format!("property float {name}\n");
        }
        text += "end_header\n";
        for i in 0..100 {
            let i = i as f32;
            let o = opacity((0.7 * i).sin() * 4.0);
            let scales = (0..axes).map(|k| scale(-4.0 + (0.3 * i + k as f32).sin()).to_string());
            let scales = scales.collect::<Vec<_>>().join(" ");
            text += &format!(
                "{} {} {} 0 0 0 {o} {scales} 1 0 0 0\n",
                i.sin(),
                i.cos(),
                0.01 * i
            );
        }
        text.into_bytes()
    };
    let sigmoid = |x: f32| 1.0 / (1.0 + (-x).exp());
    for axes in [2, 3] {
        let (plain, metadata) = parse(&file(axes, |o| o, |s| s), Format::Ply).unwrap();
        assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
        let (read, metadata) = parse(&file(axes, sigmoid, f32::exp), Format::Ply).unwrap();
        assert!(
            metadata.notes[0].contains("not as logits"),
            "{:?}",
            metadata.notes
        );
        assert!(metadata.notes[0].contains("not as logarithms"));
        for (a, b) in read
            .scales
            .as_flattened()
            .iter()
            .zip(plain.scales.as_flattened())
        {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
        for (a, b) in read.opacities.iter().zip(&plain.opacities) {
            assert!((a - b).abs() < 1e-3, "{a} {b}");
        }
        let (_, metadata) = parse(&file(axes, sigmoid, |s| s), Format::Ply).unwrap();
        assert!(
            metadata.notes[0].contains("not as logits")
                && !metadata.notes[0].contains("logarithms")
        );
    }
}

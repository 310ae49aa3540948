//! PLY files: exact layout, every encoding, and every kind of damage.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dapple_splats::splat_file::{self, Format, NonFinite, WriteOptions};
use dapple_splats::{ErrorKind, Splats, ply, sh_coefficient_count};
use glam::DVec3;
use proptest::prelude::*;
use std::path::Path;

/// Builds splats whose values all differ, so that a swap is detected.
fn numbered(count: usize, sh_degree: u8) -> Splats {
    let mut next = 0.0f32;
    let mut value = || {
        next += 0.37;
        next.sin() * 3.0
    };
    let mut splats = Splats::empty(sh_degree);
    for _ in 0..count {
        splats.means.push([value(), value(), value()]);
        splats.scales.push([value(), value(), value()]);
        splats.quats.push([value(), value(), value(), value()]);
        splats.opacities.push(value());
        splats.sh0.push([value(), value(), value()]);
        let rest = (sh_coefficient_count(sh_degree) - 1) * 3;
        splats.sh_rest.extend((0..rest).map(|_| value()));
    }
    splats
}

fn written(splats: &Splats) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("splats.ply");
    ply::write(&path, splats).unwrap();
    assert_eq!(&ply::read(&path).unwrap(), splats);
    std::fs::read(&path).unwrap()
}

fn body(file: &[u8]) -> &[u8] {
    let end = b"end_header\n";
    let at = file.windows(end.len()).position(|w| w == end).unwrap();
    &file[at + end.len()..]
}

#[test]
fn the_layout_is_the_ecosystems_byte_by_byte() {
    let splats = numbered(2, 1);
    let file = written(&splats);
    let header = "ply\nformat binary_little_endian 1.0\nelement vertex 2\n\
        property float x\nproperty float y\nproperty float z\n\
        property float nx\nproperty float ny\nproperty float nz\n\
        property float f_dc_0\nproperty float f_dc_1\nproperty float f_dc_2\n\
        property float f_rest_0\nproperty float f_rest_1\nproperty float f_rest_2\n\
        property float f_rest_3\nproperty float f_rest_4\nproperty float f_rest_5\n\
        property float f_rest_6\nproperty float f_rest_7\nproperty float f_rest_8\n\
        property float opacity\n\
        property float scale_0\nproperty float scale_1\nproperty float scale_2\n\
        property float rot_0\nproperty float rot_1\nproperty float rot_2\nproperty float rot_3\n\
        end_header\n";
    assert!(file.starts_with(header.as_bytes()));
    // The second Gaussian, f_rest: three coefficients of red, then of green, then of blue.
    let rest = &splats.sh_rest[9..];
    let (m, s, q) = (splats.means[1], splats.scales[1], splats.quats[1]);
    let c = splats.sh0[1];
    let row = [
        [m[0], m[1], m[2], 0.0, 0.0, 0.0, c[0], c[1], c[2]],
        [
            rest[0], rest[3], rest[6], rest[1], rest[4], rest[7], rest[2], rest[5], rest[8],
        ],
    ]
    .concat();
    let row = [row, vec![splats.opacities[1]], s.to_vec(), q.to_vec()].concat();
    let bytes: Vec<u8> = row.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(&body(&file)[bytes.len()..], &bytes);
}

#[test]
fn rows_follow_each_other_however_many_are_encoded_together() {
    for count in [(1 << 16) - 1, 1 << 16, (1 << 17) + 3] {
        let splats = numbered(count, 0);
        assert_eq!(body(&written(&splats)).len(), count * 17 * 4);
    }
}

#[test]
fn round_trips_are_bit_exact_at_every_degree() {
    for degree in 0..=3 {
        // More than one block of rows.
        written(&numbered(2500, degree));
        written(&numbered(1, degree));
        written(&numbered(0, degree));
    }
    let mut odd = numbered(1, 0);
    odd.means[0] = [-0.0, f32::MIN_POSITIVE / 8.0, f32::MAX];
    let file = written(&odd);
    let back = ply::parse(&file).unwrap();
    assert_eq!(
        back.means[0].map(f32::to_bits),
        odd.means[0].map(f32::to_bits)
    );
}

/// Builds this Gaussian in any encoding, with properties in odd order and others between them.
fn handmade(format: &str, line_end: &str) -> (Vec<u8>, Splats) {
    let columns = [
        ("rot_3", "float", 0.5),
        ("label", "uchar", 200.0),
        ("x", "double", 1.25),
        ("opacity", "float", -2.0),
        ("y", "short", -300.0),
        ("z", "int", 70_000.0),
        ("rot_0", "float32", 0.125),
        ("rot_1", "float", 0.25),
        ("rot_2", "float", 0.375),
        ("f_dc_2", "uchar", 3.0),
        ("f_dc_0", "char", -1.0),
        ("f_dc_1", "ushort", 40_000.0),
        ("scale_1", "float64", -1.5),
        ("scale_0", "float", -2.5),
        ("scale_2", "uint", 5.0),
    ];
    let mut header = vec![
        "ply".to_owned(),
        format!("format {format} 1.0"),
        "comment a comment with \u{fc}mlauts".to_owned(),
        "obj_info none".to_owned(),
        "element camera 2".to_owned(),
        "property ushort id".to_owned(),
        "element vertex 1".to_owned(),
    ];
    header.extend(
        columns
            .iter()
            .map(|(name, kind, _)| format!("property {kind} {name}")),
    );
    header.push("element face 9".to_owned());
    header.push("property list uchar int vertex_indices".to_owned());
    header.push("end_header".to_owned());
    let mut file = header.join(line_end).into_bytes();
    file.extend(line_end.as_bytes());
    if format == "ascii" {
        let values: Vec<String> = columns.iter().map(|c| c.2.to_string()).collect();
        let lines = ["7".to_owned(), "8".to_owned(), values.join(" ")].join(line_end);
        file.extend(lines.as_bytes());
        file.extend(line_end.as_bytes());
    } else {
        let mut put = |kind: &str, value: f64| {
            let mut bytes = match kind {
                "char" => (value as i8).to_le_bytes().to_vec(),
                "uchar" => (value as u8).to_le_bytes().to_vec(),
                "short" => (value as i16).to_le_bytes().to_vec(),
                "ushort" => (value as u16).to_le_bytes().to_vec(),
                "int" => (value as i32).to_le_bytes().to_vec(),
                "uint" => (value as u32).to_le_bytes().to_vec(),
                "double" | "float64" => value.to_le_bytes().to_vec(),
                _ => (value as f32).to_le_bytes().to_vec(),
            };
            if format == "binary_big_endian" {
                bytes.reverse();
            }
            file.extend(bytes);
        };
        put("ushort", 7.0);
        put("ushort", 8.0);
        for (_, kind, value) in columns {
            put(kind, value);
        }
    }
    let expected = Splats {
        means: vec![[1.25, -300.0, 70_000.0]],
        scales: vec![[-2.5, -1.5, 5.0]],
        quats: vec![[0.125, 0.25, 0.375, 0.5]],
        opacities: vec![-2.0],
        sh0: vec![[-1.0, 40_000.0, 3.0]],
        sh_rest: vec![],
        sh_degree: 0,
    };
    (file, expected)
}

#[test]
fn any_encoding_order_and_type_is_read() {
    for format in ["ascii", "binary_little_endian", "binary_big_endian"] {
        for line_end in ["\n", "\r\n"] {
            let (file, expected) = handmade(format, line_end);
            assert_eq!(
                ply::parse(&file).unwrap(),
                expected,
                "{format} {line_end:?}"
            );
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = written(&numbered(2, 1));
    for length in 0..whole.len() {
        let error = ply::parse(&whole[..length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{length}: {error}");
        assert!(error.hint_text().is_some(), "{length}: {error}");
    }
    let (ascii, _) = handmade("ascii", "\n");
    // Up to the last number's last digit, because a shorter number is a number too.
    for length in 0..ascii.len() - 2 {
        assert!(ply::parse(&ascii[..length]).is_err(), "{length}");
    }
}

#[track_caller]
fn assert_refused(file: &[u8], kind: ErrorKind, words: &[&str]) {
    let error = ply::parse(file).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(
            error.to_string().contains(word),
            "{word:?} is not in: {error}"
        );
    }
    assert!(error.hint_text().is_some(), "{error}");
}

/// A header for `vertices` rows of the required floats, except `without`.
fn header(vertices: &str, without: &[&str], more: &[&str]) -> String {
    let required =
        "x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    let mut text = format!("ply\nformat binary_little_endian 1.0\nelement vertex {vertices}\n");
    for name in required.split(' ').chain(more.iter().copied()) {
        if !without.contains(&name) {
            text.push_str(&format!("property float {name}\n"));
        }
    }
    text + "end_header\n"
}

#[test]
fn counts_beyond_the_file_are_refused_before_allocation() {
    for count in ["1", "123456789012", "18446744073709551615"] {
        let file = header(count, &[], &[]);
        assert_refused(file.as_bytes(), ErrorKind::Input, &["shorter", count]);
        let ascii = file.replace("binary_little_endian", "ascii");
        assert_refused(ascii.as_bytes(), ErrorKind::Input, &["shorter", count]);
    }
    // A table before the vertices whose size overflows.
    let file = header("1", &[], &[]).replace(
        "element vertex",
        "element first 9223372036854775807\nproperty double d\nelement vertex",
    );
    assert_refused(file.as_bytes(), ErrorKind::Input, &["first"]);
}

#[test]
fn unusable_files_say_why() {
    let input = ErrorKind::Input;
    assert_refused(b"", input, &["not a PLY"]);
    assert_refused(b"\x89PNG\r\n\x1a\n", input, &["not a PLY"]);
    let lacking = header("0", &["opacity", "rot_2"], &[]);
    assert_refused(lacking.as_bytes(), input, &["opacity, rot_2", "scale_1"]);
    let gap = header("0", &[], &["f_rest_0", "f_rest_1"]);
    assert_refused(gap.as_bytes(), ErrorKind::Unsupported, &["2 f_rest_*"]);
    let nine: Vec<String> = (0..10)
        .filter(|i| *i != 4)
        .map(|i| format!("f_rest_{i}"))
        .collect();
    let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
    assert_refused(header("0", &[], &nine).as_bytes(), input, &["f_rest_4"]);
    let twice = header("0", &[], &["opacity"]);
    assert_refused(twice.as_bytes(), input, &["twice", "opacity", "line 18"]);
    let odd = header("0", &[], &[]).replace("property float y", "property quad y");
    assert_refused(odd.as_bytes(), input, &["property quad y", "line 5"]);
    let version = header("0", &[], &[]).replace("1.0", "2.0");
    assert_refused(version.as_bytes(), input, &["2.0"]);
    let other = header("0", &[], &[]).replace("vertex", "point");
    assert_refused(other.as_bytes(), input, &["no element \"vertex\""]);
    let list = header("0", &[], &[]).replace("float opacity", "list uchar float opacity");
    assert_refused(list.as_bytes(), ErrorKind::Unsupported, &["lists"]);
    let words = header("1", &[], &[]).replace("binary_little_endian", "ascii");
    let words = words + "1 2 3 4 5 6 7 8 9 10 11 twelve 13 14\n";
    assert_refused(words.as_bytes(), input, &["vertex 0", "14 numbers"]);
}

#[test]
fn values_that_are_not_finite_are_named_by_property_and_vertex() {
    for (bad, shown) in [(f32::NAN, "NaN"), (f32::NEG_INFINITY, "-inf")] {
        let mut splats = numbered(6000, 2);
        splats.scales[5000][2] = bad;
        splats.sh_rest[24 * 4999 + 3 * 7 + 1] = bad;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.ply");
        let as_it_is = WriteOptions {
            non_finite: NonFinite::Keep,
            ..WriteOptions::default()
        };
        splat_file::write_with(&path, &splats, Format::Ply, &as_it_is).unwrap();
        let error = ply::read(&path).unwrap_err();
        // Coefficient 7 (of 8) of green is f_rest_15.
        let expected = format!("f_rest_15 of vertex 4999 is {shown}");
        assert!(error.what().contains(&expected), "{error}");
        assert!(error.place().unwrap().contains("bad.ply"));
    }
    // A double outside the range of floats.
    let file = header("1", &[], &[]).replace("binary_little_endian", "ascii");
    let file = file + "1 2 1e300 4 5 6 7 8 9 10 11 12 13 14\n";
    assert_refused(
        file.as_bytes(),
        ErrorKind::Input,
        &["property z of vertex 0"],
    );
}

#[test]
fn a_zero_quaternion_becomes_the_identity() {
    let mut splats = numbered(3, 0);
    splats.quats[1] = [0.0; 4];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("splats.ply");
    ply::write(&path, &splats).unwrap();
    let back = ply::read(&path).unwrap();
    assert_eq!(back.quats[1], [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(back.quats[2], splats.quats[2]);
}

#[test]
fn missing_files_and_folders_are_named() {
    let error = ply::read(Path::new("no/such/splats.ply")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.place(), Some("no/such/splats.ply"));
    assert!(ply::read(Path::new(".")).is_err());
    let mut uneven = numbered(3, 1);
    uneven.quats.pop();
    let folder = tempfile::tempdir().unwrap();
    let error = ply::write(&folder.path().join("a.ply"), &uneven).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn point_clouds_take_bytes_floats_splats_and_none() {
    let file = |colours: &str, row: &str| {
        format!(
            "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n\
             property float z\n{colours}end_header\n1 2 3 {row}\n"
        )
    };
    let rgb = |kind: &str| {
        ["red", "green", "blue"]
            .map(|c| format!("property {kind} {c}\n"))
            .concat()
    };
    // ASCII rows are stored as doubles: the declared type must still decide the meaning of 1.
    let cases = [
        (file(&rgb("uchar"), "1 128 255"), [1, 128, 255]),
        (file(&rgb("float"), "1 0.5 -1"), [255, 128, 0]),
        (file("", ""), [128, 128, 128]),
        (
            file(
                &rgb("float")
                    .replace("red", "f_dc_0")
                    .replace("green", "f_dc_1")
                    .replace("blue", "f_dc_2"),
                "0 9 -9",
            ),
            [128, 255, 0],
        ),
    ];
    for (file, rgb) in cases {
        let points = ply::parse_points(file.as_bytes()).unwrap();
        assert_eq!((points.len(), points[0].position), (1, [1.0, 2.0, 3.0]));
        assert_eq!(points[0].rgb, rgb, "{file}");
    }
    // Bytes and 16-bit colours as floats: the largest number of all points determines white.
    let two = file(&rgb("float"), "0 0.5 1").replace("vertex 1", "vertex 2");
    for (second, want) in [
        ("255 127.4 0", [1, 255]),
        ("65535 32767 0", [0, 255]),
        ("1.2 0.5 0", [255, 255]),
    ] {
        let points = ply::parse_points(format!("{two}4 5 6 {second}\n").as_bytes()).unwrap();
        assert_eq!([points[0].rgb[2], points[1].rgb[0]], want, "{second}");
    }
    // A point without a position is dropped.
    let names = rgb("uchar")
        .replace("red", "r")
        .replace("green", "g")
        .replace("blue", "b");
    let two = file(&names, "7 8 9").replace("vertex 1", "vertex 2");
    for bad in ["nan 2 3", "1 inf 3", "1 2 -inf"] {
        let points = ply::parse_points(format!("{two}{bad} 4 5 6\n").as_bytes()).unwrap();
        assert_eq!((points.len(), points[0].rgb), (1, [7, 8, 9]), "{bad}");
    }
}

#[test]
fn the_local_origin_goes_through_files() {
    let folder = tempfile::tempdir().unwrap();
    let splats = numbered(30, 1);
    let origin = DVec3::new(448_213.0, 5_411_972.0, -12.25);
    for format in [Format::Ply, Format::CompressedPly] {
        let path = folder.path().join(format.file_name("a"));
        let options = WriteOptions {
            origin,
            ..WriteOptions::default()
        };
        splat_file::write_with(&path, &splats, format, &options).unwrap();
        let (read, metadata) = splat_file::read(&path).unwrap();
        assert_eq!(metadata.origin, origin);
        if format == Format::Ply {
            assert_eq!(read, splats);
            // As sparse points they are in the frame of the capture.
            let (points, metadata) = ply::read_all_points(&path).unwrap();
            for ((point, rest), mean) in points.iter().zip(&metadata.remainders).zip(&splats.means)
            {
                for k in 0..3 {
                    let exact = f64::from(point.position[k]) + f64::from(rest[k]);
                    assert!((exact - origin[k] - f64::from(mean[k])).abs() < 1e-8);
                }
            }
            assert_eq!(metadata.origin, DVec3::ZERO);
        }
        assert!(format.holds_origin());
        // Without an origin, files are byte-identical to those of older versions.
        let plain = folder.path().join(format.file_name("plain"));
        splat_file::write(&plain, &splats, format).unwrap();
        let text = String::from_utf8_lossy(&std::fs::read(&plain).unwrap()).to_lowercase();
        assert!(!text.contains("origin"));
        assert_eq!(splat_file::read(&plain).unwrap().1.origin, DVec3::ZERO);
    }
    for wrong in [
        "Origin: 1 2",
        "Origin: 1 2 3 4",
        "Origin: 1 2 inf",
        "Origin 1 2 3",
        "Origin: a b c",
    ] {
        let text =
            format!("ply\nformat ascii 1.0\ncomment {wrong}\nelement vertex 0\nend_header\n");
        assert_eq!(
            ply::metadata(text.as_bytes()).unwrap().origin,
            DVec3::ZERO,
            "{wrong}"
        );
    }
}

#[test]
fn doubles_far_from_the_origin_are_counted_from_one_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let splats = numbered(30, 1);
    for (origin, is_far) in [
        (DVec3::new(448_213.0, 5_411_972.0, -12.25), true),
        (DVec3::new(0.0, 1e4, 0.0), true),
        (DVec3::new(5.0, -8.0, 1.0), false),
        (DVec3::ZERO, false),
    ] {
        let path = folder.path().join("world.ply");
        let options = WriteOptions {
            origin,
            world: true,
            ..WriteOptions::default()
        };
        splat_file::write_with(&path, &splats, Format::Ply, &options).unwrap();
        let (read, metadata) = splat_file::read(&path).unwrap();
        assert_eq!(
            metadata.origin != DVec3::ZERO,
            is_far,
            "{origin} {}",
            metadata.origin
        );
        assert_eq!(
            (&read.scales, &read.sh_rest),
            (&splats.scales, &splats.sh_rest)
        );
        for (read, mean) in read.means.iter().zip(&splats.means) {
            for k in 0..3 {
                let place = f64::from(read[k]) + metadata.origin[k];
                assert!(
                    (place - f64::from(mean[k]) - origin[k]).abs() < 1e-6,
                    "{origin}"
                );
            }
        }
        // A caller that reads only splats gets them at the file's positions, rounded to floats.
        let alone = ply::read(&path).unwrap();
        assert_eq!(
            alone.means[3][1],
            (f64::from(splats.means[3][1]) + origin.y) as f32
        );
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = ply::parse(&bytes);
        for format in ["ascii", "binary_little_endian", "binary_big_endian"] {
            let start = header("2", &[], &[]).replace("binary_little_endian", format);
            let file = [start.as_bytes(), &bytes].concat();
            if let Ok(splats) = ply::parse(&file) {
                prop_assert_eq!(splats.len(), 2);
            }
            let _ = ply::parse_points(&file);
        }
    }

    #[test]
    fn damaged_files_never_panic(
        at in 0usize..1200,
        with in any::<u8>(),
        ascii in any::<bool>(),
        crlf in any::<bool>(),
    ) {
        let format = if ascii { "ascii" } else { "binary_big_endian" };
        let (mut file, _) = handmade(format, if crlf { "\r\n" } else { "\n" });
        let at = at % file.len();
        file[at] = with;
        let _ = ply::parse(&file);
        file.remove(at);
        let _ = ply::parse(&file);
    }
}

//! The parsers of COLMAP's files and of `transforms.json` against damage.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::load_support;

use dapple_scene::colmap::{
    parse_cameras_bin, parse_cameras_txt, parse_images_bin, parse_images_txt, parse_points_bin,
    parse_points_txt,
};
use dapple_scene::nerfstudio::parse_transforms;
use load_support::{Bytes, Tiny, data};
use proptest::prelude::*;
use std::fs;

/// A file name and whether its parser accepts these bytes.
type Parser = (&'static str, fn(&[u8]) -> bool);

const PARSERS: [Parser; 7] = [
    ("cameras.bin", |b| parse_cameras_bin(b, "f").is_ok()),
    ("images.bin", |b| parse_images_bin(b, "f").is_ok()),
    ("points3D.bin", |b| parse_points_bin(b, "f").is_ok()),
    ("cameras.txt", |b| parse_cameras_txt(b, "f").is_ok()),
    ("images.txt", |b| parse_images_txt(b, "f").is_ok()),
    ("points3D.txt", |b| parse_points_txt(b, "f").is_ok()),
    ("transforms.json", |b| parse_transforms(b, "f").is_ok()),
];

const CAMERAS_TXT: &str = "# Camera list\n1 OPENCV 640 480 500 501 320 240 0.1 -0.01 1e-3 0\n\
                           2 SIMPLE_PINHOLE 64 48 50 32 24\n";
const IMAGES_TXT: &str = "# Image list\n1 1 0 0 0 0.5 0 2 1 a b.png\n1.5 2.5 -1 3 4 7\n\
                          2 0.8 0 0.6 0 0 0 0 2 sub/c.png\n\n";
const POINTS_TXT: &str = "1 0.5 -1 2e0 255 0 7 0.3 1 0 2 5\n2 1 2 3 0 0 0 1\n";
const TRANSFORMS: &str = r#"{"fl_x": 50, "w": 64, "h": 48, "ply_file_path": "p.ply", "frames": [
    {"file_path": "images/a.png", "transform_matrix": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}]}"#;

fn valid_files() -> Vec<(&'static str, Vec<u8>)> {
    let tiny = Tiny::default();
    vec![
        ("cameras.bin", tiny.cameras_bin()),
        ("images.bin", tiny.images_bin()),
        ("points3D.bin", tiny.points_bin()),
        ("cameras.txt", CAMERAS_TXT.into()),
        ("images.txt", IMAGES_TXT.into()),
        ("points3D.txt", POINTS_TXT.into()),
        ("transforms.json", TRANSFORMS.into()),
    ]
}

fn accepts(name: &str, bytes: &[u8]) -> bool {
    let (_, parser) = PARSERS.iter().find(|p| p.0 == name).unwrap();
    parser(bytes)
}

#[test]
fn valid_files_are_accepted_and_every_cut_of_a_counted_one_is_not() {
    for (name, bytes) in valid_files() {
        assert!(accepts(name, &bytes), "{name}");
        for length in 0..bytes.len() {
            let accepted = accepts(name, &bytes[..length]);
            // Text files have no count: truncation between records, or in a number, cannot be detected.
            assert!(!accepted || name.ends_with("txt"), "{name} cut at {length}");
        }
        if name.ends_with("bin") {
            let longer = [&bytes[..], &[0]].concat();
            assert!(!accepts(name, &longer), "{name} with a byte too many");
        }
    }
}

#[test]
fn text_and_binary_say_the_same() {
    let cameras = parse_cameras_txt(CAMERAS_TXT.as_bytes(), "f").unwrap();
    let binary = Bytes::count(2)
        .u32(1)
        .u32(4)
        .u64(640)
        .u64(480)
        .f64s(&[500.0, 501.0, 320.0, 240.0, 0.1, -0.01, 1e-3, 0.0])
        .u32(2)
        .u32(0)
        .u64(64)
        .u64(48)
        .f64s(&[50.0, 32.0, 24.0]);
    assert_eq!(cameras, parse_cameras_bin(&binary.0, "f").unwrap());
    let images = parse_images_txt(IMAGES_TXT.as_bytes(), "f").unwrap();
    let names: Vec<&str> = images.iter().map(|i| i.name.as_str()).collect();
    assert_eq!(names, ["a b.png", "sub/c.png"]);
    let points = parse_points_txt(POINTS_TXT.as_bytes(), "f").unwrap();
    assert_eq!(points.points[0].position, [0.5, -1.0, 2.0]);
    assert_eq!(points.points[0].rgb, [255, 0, 7]);
}

#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    for count in [3, 1 << 40, u64::MAX / 8, u64::MAX] {
        let lie = Bytes::count(count).raw(&[0; 90]).0;
        for (name, error) in [
            ("cameras", parse_cameras_bin(&lie, "x.bin").unwrap_err()),
            ("images", parse_images_bin(&lie, "x.bin").unwrap_err()),
            ("points", parse_points_bin(&lie, "x.bin").unwrap_err()),
        ] {
            let text = error.to_string();
            assert!(text.contains(&format!("{count} {name}")), "{text}");
            assert!(
                text.contains("x.bin, byte 0") && text.contains("hint:"),
                "{text}"
            );
        }
    }
    // Inside a record: an image with too many observations, a point with too long a track.
    let image = Bytes::count(1)
        .u32(1)
        .f64s(&[1.0; 7])
        .u32(1)
        .raw(b"a\0")
        .u64(1 << 60);
    assert!(
        parse_images_bin(&image.0, "f")
            .unwrap_err()
            .what()
            .contains("observations")
    );
    let point = Bytes::count(1)
        .u64(1)
        .f64s(&[1.0; 3])
        .raw(&[0; 3])
        .f64s(&[0.0])
        .u64(1 << 61);
    assert!(
        parse_points_bin(&point.0, "f")
            .unwrap_err()
            .what()
            .contains("observations")
    );
}

#[test]
fn damaged_text_names_file_and_line() {
    type Parse = fn(&[u8]) -> dapple_scene::Error;
    let cameras: Parse = |b| parse_cameras_txt(b, "cameras.txt").unwrap_err();
    let images: Parse = |b| parse_images_txt(b, "images.txt").unwrap_err();
    let points: Parse = |b| parse_points_txt(b, "points3D.txt").unwrap_err();
    let cases: [(Parse, &str, &str, &str); 8] = [
        (
            cameras,
            "#\n1 PINHOLE 64 48 50 50 32\n",
            "line 2",
            "missing",
        ),
        (cameras, "1 PINHOLE 64 48 50 50 32 24 9\n", "line 1", "more"),
        (cameras, "1 MAGIC 64 48 50\n", "line 1", "MAGIC"),
        (cameras, "1 PINHOLE 64 -48 50 50 32 24\n", "line 1", "-48"),
        (
            images,
            "1 1 0 0 0 0 0 0 1 a.png\n1 2\n",
            "line 2",
            "triples",
        ),
        (images, "1 1 0 0 0 0 nan 0 1 a.png\n\n", "line 1", "a.png"),
        (points, "1 0 0 0 256 0 0 0.1\n", "line 1", "256"),
        (points, "\n1 0 0 0 1 0 0 0.1 5\n", "line 2", "pairs"),
    ];
    for (parse, text, line, word) in cases {
        let error = parse(text.as_bytes()).to_string();
        assert!(
            error.contains(line) && error.contains(word),
            "{text:?}: {error}"
        );
    }
}

fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xfeff).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

/// Variants of this text as other programs save it.
fn saved_otherwise(text: &str) -> Vec<(&'static str, Vec<u8>)> {
    let spaced = |separator: &str| text.replace(' ', separator).into_bytes();
    vec![
        ("mark", [b"\xef\xbb\xbf", text.as_bytes()].concat()),
        ("UTF-16", utf16(text)),
        ("CRLF", text.replace('\n', "\r\n").into_bytes()),
        ("CR", text.replace('\n', "\r").into_bytes()),
        ("tabs", spaced("\t")),
        ("commas and spaces", spaced(", ")),
        ("commas", spaced(",")),
        ("comments", format!("# one\n{text}# two\n").into_bytes()),
    ]
}

#[test]
fn text_that_other_programs_saved_says_the_same() {
    let cameras = "1 OPENCV 640 480 500 501 320 240 0.1 -0.01 0.001 0\n";
    let images = "1 1 0 0 0 0 0 1 1 a.png\n1.5 2 7 3 4 -1\n2 1 0 0 0 0 0 2 1 b.png\n\n";
    let points = "7 0.5 -1 2 255 0 7 0.5 1 0 2 0\n";
    for (how, bytes) in saved_otherwise(cameras) {
        let want = parse_cameras_txt(cameras.as_bytes(), "f").unwrap();
        assert_eq!(parse_cameras_txt(&bytes, "f").unwrap(), want, "{how}");
    }
    for (how, bytes) in saved_otherwise(images) {
        let want = parse_images_txt(images.as_bytes(), "f").unwrap();
        assert_eq!(parse_images_txt(&bytes, "f").unwrap(), want, "{how}");
    }
    for (how, bytes) in saved_otherwise(points) {
        let want = parse_points_txt(points.as_bytes(), "f").unwrap();
        assert_eq!(parse_points_txt(&bytes, "f").unwrap(), want, "{how}");
    }
    // A decimal comma is not a separator.
    let error = parse_points_txt(b"7 0,5 -1 2 255 0 7 0.5\n", "f").unwrap_err();
    assert!(error.what().contains("0,5"), "{error}");
}

#[test]
fn images_without_lines_of_observations_are_read() {
    let line = |id: u32, name: &str| format!("{id} 1 0 0 0 0 0 {id} 1 {name}\n");
    let names = |text: &str| -> Vec<String> {
        let images = parse_images_txt(text.as_bytes(), "f").unwrap();
        images.into_iter().map(|image| image.name).collect()
    };
    let all = ["a.png", "b c.png", "00017", "\"d.png\""];
    let bare: String = all
        .iter()
        .zip(1..)
        .map(|(name, id)| line(id, name))
        .collect();
    let want = ["a.png", "b c.png", "00017", "d.png"];
    assert_eq!(names(&bare), want);
    assert_eq!(names(&bare.replace('\n', "\n\n")), want);
    // Some with, some without, and observations of twelve numbers.
    let mixed = [
        line(1, "a.png"),
        "1 1 -1 2 2 -1 3 3 -1 4 4 -1\n".to_owned(),
        line(2, "b c.png"),
        line(3, "00017"),
        "# a remark\n".to_owned(),
        line(4, "d.png"),
        "\n".to_owned(),
    ];
    assert_eq!(names(&mixed.concat()), want);
}

#[test]
fn parameters_that_lack_are_named_and_zeros_that_opencv_leaves_out_are_read() {
    let full = |rest: &str| {
        let text = format!("3 FULL_OPENCV 640 480 500 501 320 240{rest}\n");
        parse_cameras_txt(text.as_bytes(), "cameras.txt")
    };
    let five = full(" 0.1 0.2 0.3 0.4 0.5").unwrap().remove(0).parameters;
    assert_eq!(five[4..], [0.1, 0.2, 0.3, 0.4, 0.5, 0.0, 0.0, 0.0]);
    let four = full(" 0.1 0.2 0.3 0.4").unwrap().remove(0).parameters;
    assert_eq!(four[4..], [0.1, 0.2, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0]);
    for (rest, words) in [
        (
            " 0.1 0.2",
            &[
                "6 of the 12",
                "p1, p2, k3, k4, k5, k6 are missing",
                "line 1",
            ][..],
        ),
        (" 1 2 3 4 5 6", &["10 of the 12", "k5, k6 are missing"]),
        (" 1 2 3 4 5 6 7 8 9", &["1 more", "k6"]),
    ] {
        let text = full(rest).unwrap_err().to_string();
        for word in words {
            assert!(text.contains(word), "no {word:?} in {text}");
        }
    }
}

#[test]
fn colours_may_be_floats() {
    let rgb = |text: &str| -> Vec<[u8; 3]> {
        let read = parse_points_txt(text.as_bytes(), "f").unwrap();
        read.points.into_iter().map(|point| point.rgb).collect()
    };
    let two = |a: &str, b: &str| rgb(&format!("1 0 0 0 {a} 0.1\n2 0 0 0 {b} 0.1\n"));
    assert_eq!(two("255.0 127.6 0", "1 2 3"), [[255, 128, 0], [1, 2, 3]]);
    assert_eq!(two("1 0 0", "0.5 1.0 0.25"), [[255, 0, 0], [128, 255, 64]]);
    assert_eq!(two("1 0 0", "1 1 0"), [[1, 0, 0], [1, 1, 0]]);
}

#[test]
fn names_in_another_code_page_keep_their_bytes() {
    let name = b"\xdcbung.jpg";
    let text = [
        b"1 1 0 0 0 0 0 0 1 ",
        &name[..],
        b"\n\n2 1 0 0 0 0 0 0 1 b.jpg\n\n",
    ]
    .concat();
    let record = |id: u32, name: &[u8]| {
        let head = Bytes::default()
            .u32(id)
            .f64s(&[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        head.u32(1).raw(name).raw(&[0]).u64(0).0
    };
    let binary = Bytes::count(2)
        .raw(&record(1, name))
        .raw(&record(2, b"b.jpg"));
    for images in [
        parse_images_txt(&text, "f").unwrap(),
        parse_images_bin(&binary.0, "f").unwrap(),
    ] {
        assert_eq!(images[0].name_bytes.as_deref(), Some(&name[..]));
        assert_eq!(images[0].name, "Übung.jpg");
        assert_eq!(
            (images[1].name_bytes.clone(), &*images[1].name),
            (None, "b.jpg")
        );
    }
}

/// A valid file with some bytes changed and perhaps its end truncated: it passes more checks than random bytes.
fn damaged() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let cut = prop::option::of(any::<prop::sample::Index>());
    (0..valid_files().len(), edits, cut).prop_map(|(which, edits, cut)| {
        let (name, mut bytes) = valid_files().swap_remove(which);
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        (name, bytes)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (_, parser) in PARSERS {
            parser(&bytes);
        }
    }

    #[test]
    fn damaged_files_never_panic((name, bytes) in damaged()) {
        accepts(name, &bytes);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[ 0-9.eE+\\-#\nnaif]{0,300}") {
        for (_, parser) in PARSERS {
            parser(text.as_bytes());
        }
    }
}

#[test]
fn the_banana_model_is_the_same_in_binary_and_text() {
    let Some(root) = data("banana") else { return };
    let binary = |name: &str| fs::read(root.join("sparse/0").join(name)).unwrap();
    let text = |name: &str| fs::read(root.join("sparse_txt").join(name)).unwrap();
    assert_eq!(
        parse_cameras_bin(&binary("cameras.bin"), "b").unwrap(),
        parse_cameras_txt(&text("cameras.txt"), "t").unwrap()
    );
    let mut from_binary = parse_images_bin(&binary("images.bin"), "b").unwrap();
    let mut from_text = parse_images_txt(&text("images.txt"), "t").unwrap();
    from_binary.sort_by_key(|i| i.id);
    from_text.sort_by_key(|i| i.id);
    assert_eq!(from_binary.len(), 16);
    assert_eq!(from_binary.len(), from_text.len());
    for (b, t) in from_binary.iter().zip(&from_text) {
        assert_eq!((b.id, &b.name, b.camera_id), (t.id, &t.name, t.camera_id));
        let (b, t) = (b.camera_from_world, t.camera_from_world);
        assert!(b.rotation.abs_diff_eq(t.rotation, 1e-14));
        assert!(b.translation.abs_diff_eq(t.translation, 1e-14));
    }
    // Records are in different orders and rounded to 1e-6 in the text: each binary point must have
    // its own text point nearby, of the same colour.
    let b = parse_points_bin(&binary("points3D.bin"), "b")
        .unwrap()
        .points;
    let mut t = parse_points_txt(&text("points3D.txt"), "t").unwrap().points;
    assert_eq!((b.len(), t.len()), (19_492, 19_492));
    t.sort_by(|p, q| p.position[0].total_cmp(&q.position[0]));
    let mut taken = vec![false; t.len()];
    for point in &b {
        let slack = |v: f32| 2e-6 + 1e-6 * v.abs();
        let first =
            t.partition_point(|p| p.position[0] < point.position[0] - slack(point.position[0]));
        let twin = (first..t.len())
            .take_while(|&i| t[i].position[0] <= point.position[0] + slack(point.position[0]))
            .find(|&i| {
                !taken[i]
                    && t[i].rgb == point.rgb
                    && (1..3).all(|axis| {
                        let (p, q) = (point.position[axis], t[i].position[axis]);
                        (p - q).abs() <= slack(p)
                    })
            });
        taken[twin.unwrap_or_else(|| panic!("{point:?} is not in the text"))] = true;
    }
}

//! Up axis, scale and position of a capture.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support::{Bench, HEIGHT, WIDTH, model, photo, row, sound, wall};
use dapple_base::NoProgress;
use dapple_photos::model::{Model, NO_POINT};
use dapple_photos::{Distance, Options, make};
use dapple_scene::edit::Similarity;
use exif::experimental::Writer;
use exif::{Field, In, Rational, Tag, Value};
use glam::DVec3;
use std::io::Cursor;
use std::path::Path;

/// Writes a JPEG with EXIF fields.
fn with_exif(path: &Path, seed: u32, fields: &[(Tag, Value)]) {
    let mut jpeg = Vec::new();
    photo(seed, WIDTH, HEIGHT)
        .write_to(&mut Cursor::new(&mut jpeg), image::ImageFormat::Jpeg)
        .unwrap();
    let fields: Vec<Field> = fields
        .iter()
        .map(|(tag, value)| Field {
            tag: *tag,
            ifd_num: In::PRIMARY,
            value: value.clone(),
        })
        .collect();
    let mut writer = Writer::new();
    fields.iter().for_each(|field| writer.push_field(field));
    let mut tiff = Cursor::new(Vec::new());
    writer.write(&mut tiff, false).unwrap();
    let tiff = tiff.into_inner();
    let mut out = jpeg[..2].to_vec();
    out.extend(b"\xff\xe1");
    out.extend((tiff.len() as u16 + 8).to_be_bytes());
    out.extend(b"Exif\0\0");
    out.extend(tiff);
    out.extend(&jpeg[2..]);
    std::fs::write(path, out).unwrap();
}

fn degrees(value: f64) -> Value {
    let parts = [
        (value.floor(), 1),
        (((value.fract() * 3600.0) * 1e4).round(), 10_000),
    ];
    Value::Rational(vec![
        Rational {
            num: parts[0].0 as u32,
            denom: 1,
        },
        Rational { num: 0, denom: 1 },
        Rational {
            num: parts[1].0 as u32,
            denom: parts[1].1,
        },
    ])
}

fn gps(east: f64, up: f64, north: f64) -> Vec<(Tag, Value)> {
    vec![
        (Tag::GPSLatitudeRef, Value::Ascii(vec![b"N".to_vec()])),
        (Tag::GPSLatitude, degrees(48.0 + north / 111_200.0)),
        (Tag::GPSLongitudeRef, Value::Ascii(vec![b"E".to_vec()])),
        (Tag::GPSLongitude, degrees(11.0 + east / 74_630.0)),
        (
            Tag::GPSAltitude,
            Value::Rational(vec![Rational {
                num: (100.0 * (500.0 + up)) as u32,
                denom: 100,
            }]),
        ),
    ]
}

fn written(bench: &Bench) -> Model {
    Model::read(&bench.capture().join("sparse/0")).unwrap()
}

#[test]
fn gps_gives_metres_with_a_residual() {
    let Some(bench) = Bench::new() else { return };
    // A grid of cameras 20 m apart, in a model of another scale and direction.
    let mut views = row(0, 9);
    for (index, view) in views.iter_mut().enumerate() {
        view.1 = DVec3::new((index % 3) as f64, 0.0, (index / 3) as f64);
        view.2 = view.1 + DVec3::new(0.0, 0.3, 10.0);
        let north = 20.0 * (index / 3) as f64 + if index == 4 { 1.0 } else { 0.0 };
        with_exif(
            &bench.photos().join(&view.0),
            index as u32,
            &gps(20.0 * (index % 3) as f64, 0.0, north),
        );
    }
    let mut found = model(&views, &wall(600, -6.0, 10.0, 1), |_, _| true);
    found.transform(&Similarity {
        scale: 0.37,
        translation: [5.0, -2.0, 1.0],
        ..Similarity::from_degrees([30.0, 110.0, -50.0])
    });
    bench.add_model(0, &found);
    let done = bench.make().unwrap();
    assert_eq!(
        (done.frame.unit, done.frame.scale_from),
        (Some("metre"), Some("gps"))
    );
    assert_eq!(done.frame.axes, "x east, y down, z north");
    let residual = done.frame.gps_residual.unwrap();
    assert!((0.05..0.5).contains(&residual), "{residual}");
    let model = written(&bench);
    let centre = |index: usize| model.images[index].pose.centre();
    let east = centre(1) - centre(0);
    assert!((east - DVec3::new(20.0, 0.0, 0.0)).length() < 0.5, "{east}");
    let north = centre(6) - centre(0);
    assert!(
        (north - DVec3::new(0.0, 0.0, 40.0)).length() < 0.5,
        "{north}"
    );
    make(
        &Options {
            gps: false,
            ..bench.options()
        },
        &NoProgress,
    )
    .unwrap();
    assert!(
        (written(&bench).images[0].pose.centre() - written(&bench).images[1].pose.centre())
            .length()
            < 0.5
    );
}

#[test]
fn a_known_distance_gives_the_scale() {
    let Some(bench) = Bench::new() else { return };
    bench.add_photos(6);
    let found = sound(6);
    bench.add_model(0, &found);
    // Two points that photos 0 and 4 both observe.
    let seen = |photo: usize| &found.images[photo].observations;
    let common: Vec<u64> = seen(0)
        .iter()
        .map(|o| o.1)
        .filter(|&id| id != NO_POINT && seen(4).iter().any(|o| o.1 == id))
        .collect();
    let [first, second] = [common[0], common[common.len() - 1]];
    let pixel = |photo: usize, id: u64| {
        let at = seen(photo).iter().find(|o| o.1 == id).unwrap().0;
        format!("{photo}.jpg:{:.3},{:.3}", at.x, at.y)
    };
    let ends = [
        vec![pixel(0, first), pixel(0, second), "240cm".to_owned()],
        vec![
            pixel(0, first),
            pixel(4, first),
            pixel(0, second),
            pixel(4, second),
            "2.4m".to_owned(),
        ],
    ];
    for values in ends {
        let distance = Some(Distance::parse(&values).unwrap());
        let done = make(
            &Options {
                distance,
                ..bench.options()
            },
            &NoProgress,
        )
        .unwrap();
        assert_eq!(done.frame.scale_from, Some("distance"));
        let model = written(&bench);
        let place = |id: u64| {
            model
                .points
                .iter()
                .find(|point| point.id == id)
                .unwrap()
                .position
        };
        let length = place(first).distance(place(second));
        assert!((length - 2.4).abs() < 0.01, "{values:?}: {length}");
    }
    for (values, words) in [
        ("x.jpg:1,2 0.jpg:3,4 2m", "no photo with a pose"),
        ("0.jpg:900,4 0.jpg:1,2 2m", "outside the photo"),
    ] {
        let values: Vec<String> = values.split(' ').map(str::to_owned).collect();
        let distance = Some(Distance::parse(&values).unwrap());
        let error = make(
            &Options {
                distance,
                ..bench.options()
            },
            &NoProgress,
        )
        .unwrap_err();
        assert!(
            error.what().contains(words) && error.hint_text().is_some(),
            "{error}"
        );
    }
}

#[test]
fn turned_photos_stay_as_stored_and_do_not_turn_the_up_axis() {
    let Some(bench) = Bench::new() else { return };
    let mut found = sound(6);
    // Photos taken upright and stored sideways: EXIF 6 says that display turns them by 90 degrees clockwise.
    let stored_from_shown = Similarity::from_degrees([0.0, 0.0, -90.0]).quat();
    for (index, image) in found.images.iter_mut().enumerate() {
        with_exif(
            &bench.photos().join(&image.name),
            index as u32,
            &[(Tag::Orientation, Value::Short(vec![6]))],
        );
        image.pose.rotation = stored_from_shown * image.pose.rotation;
        image.pose.translation = stored_from_shown * image.pose.translation;
        for (pixel, _) in &mut image.observations {
            let (x, y) = (pixel.x - 80.0, pixel.y - 60.0);
            (pixel.x, pixel.y) = (y + 80.0, 60.0 - x);
        }
    }
    found.transform(&Similarity::from_degrees([0.0, 0.0, 40.0]));
    bench.add_model(0, &found);
    let done = bench.make().unwrap();
    let notes = done.notes.join("\n");
    assert!(
        notes.contains("6 photos are turned by their EXIF data"),
        "{notes}"
    );
    let copy = std::fs::read(bench.capture().join("images/0.jpg")).unwrap();
    let found = exif::Reader::new()
        .read_from_container(&mut Cursor::new(&copy))
        .unwrap();
    let orientation = found
        .get_field(Tag::Orientation, In::PRIMARY)
        .unwrap()
        .value
        .get_uint(0);
    assert_eq!(orientation, Some(1));
    // The wall is upright again: its points spread by 8 along y, and by 0.5 in depth.
    let model = written(&bench);
    let pose = model.images[0].pose;
    let right_when_shown = pose.rotation.conjugate() * DVec3::NEG_Y;
    assert!(right_when_shown.y.abs() < 1e-6, "{right_when_shown}");
    let down_when_shown = pose.rotation.conjugate() * DVec3::X;
    assert!(down_when_shown.y > 0.99, "{down_when_shown}");
}

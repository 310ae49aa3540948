//! The motion of splats since training, which files record.

use crate::formats::support::crowd;
use dapple_splats::edit::Similarity;
use dapple_splats::splat_file::{
    Format, WriteOptions, encode, encode_files, parse, parse_files, write_with,
};
use glam::DVec3;

fn motion() -> Similarity {
    Similarity::from_degrees([10.0, -20.0, 33.3])
        .then(&Similarity::scale(1.7))
        .then(&Similarity::translation([-1.0, 0.5, 2.25]))
}

fn apart(a: &Similarity, b: &Similarity) -> f64 {
    let pairs = a.numbers().into_iter().zip(b.numbers());
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn formats_record_the_motion_since_training() {
    let splats = crowd(300, 1);
    for format in Format::ALL.into_iter().filter(|format| format.is_written()) {
        let read = |moved| {
            let options = WriteOptions {
                moved,
                ..WriteOptions::default()
            };
            let read = match format.is_folder() {
                true => parse_files(&encode_files(&splats, format, &options).unwrap(), format),
                false => parse(&encode(&splats, format, &options).unwrap(), format),
            };
            read.unwrap().1.moved
        };
        let wanted = match format.holds_motion() {
            true => motion(),
            false => Similarity::IDENTITY,
        };
        let off = apart(&read(motion()), &wanted);
        assert!(off < 1e-12, "{format:?}: {off}");
        assert_eq!(read(Similarity::IDENTITY), Similarity::IDENTITY);
    }
}

#[test]
fn a_motion_stays_the_same_where_positions_count_from_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("world.ply");
    let options = WriteOptions {
        moved: motion(),
        origin: DVec3::new(448_000.0, 5_411_000.0, 300.0),
        world: true,
        ..WriteOptions::default()
    };
    write_with(&path, &crowd(300, 0), Format::Ply, &options).unwrap();
    let (_, metadata) = dapple_splats::splat_file::read(&path).unwrap();
    // The place of a point of the capture, before and after.
    let p = options.origin + DVec3::new(0.1, 0.2, -0.3);
    let place = |moved: &Similarity, origin: DVec3| moved.point(p - origin) + origin;
    let off =
        place(&metadata.moved, metadata.origin).distance(place(&options.moved, options.origin));
    assert!(off < 1e-6, "{off}");
    for bad in ["", "1 2 3", "0 0 0 0 1 0 0 0", "1 0 0 0 nan 0 0 0"] {
        let text = format!(
            "ply\nformat ascii 1.0\ncomment Moved: {bad}\nelement vertex 0\nproperty float x\nend_header\n"
        );
        let metadata = dapple_splats::ply::metadata(text.as_bytes()).unwrap();
        assert_eq!(metadata.moved, Similarity::IDENTITY, "{bad}");
    }
}

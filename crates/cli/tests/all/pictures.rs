//! Pictures of `dapple render`: their size, their field of view, their colours.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::{TRAIN, ok_in, refused, small_capture};

/// Reads the bytes of a picture.
fn rgb(path: &std::path::Path) -> image::RgbImage {
    image::open(path).unwrap().into_rgb8()
}

#[test]
fn a_field_of_view_and_a_size_are_those_named() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let orbit = ["render", "out", "--path", "orbit", "--frames", "2"];
    let said = ok_in(path, &[&orbit[..], &["-o", "plain"]].concat()).stderr;
    assert!(said.contains("size: 48x36 pixels"), "{said}");
    let wide = [
        "--fov", "120", "--width", "64", "--height", "48", "-o", "wide",
    ];
    let said = ok_in(path, &[&orbit[..], &wide].concat()).stderr;
    assert!(!said.contains("size: "), "{said}");
    let narrow = [
        "--fov", "20", "--width", "64", "--height", "48", "-o", "narrow",
    ];
    ok_in(path, &[&orbit[..], &narrow].concat());
    let first = |folder: &str| {
        let mut files = common::files(&path.join(folder));
        files.retain(|file| file.extension().is_some_and(|end| end == "png"));
        path.join(folder).join(&files[0])
    };
    let (wide, narrow) = (rgb(&first("wide")), rgb(&first("narrow")));
    assert_eq!(
        (wide.dimensions(), narrow.dimensions()),
        ((64, 48), (64, 48))
    );
    let off: u64 = wide
        .as_raw()
        .iter()
        .zip(narrow.as_raw())
        .map(|(a, b)| u64::from(a.abs_diff(*b)))
        .sum();
    assert!(
        off > 5 * wide.as_raw().len() as u64,
        "{off}: as wide as before"
    );
    for degrees in ["0", "180", "nan"] {
        let args = [&orbit[..], &["-o", "none", "--fov", degrees]].concat();
        refused(path, &args, 3, &["field of view"]);
    }
}

#[test]
fn depths_and_counts_are_seen_and_their_range_is_printed() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let views = [
        "render",
        "out",
        "--scene",
        "capture",
        "--views",
        "held-out",
        "--channel",
    ];
    for (channel, unit) in [("depth", "world units"), ("count", "Gaussians in a pixel")] {
        let said = ok_in(path, &[&views[..], &[channel, "-o", channel]].concat()).stderr;
        assert!(
            said.contains("turbo: colours from ") && said.contains(unit),
            "{said}"
        );
        let image = rgb(&path.join(channel).join("000.png"));
        let brightest = image.pixels().map(|p| p.0.into_iter().max().unwrap()).max();
        assert!(brightest > Some(200), "{channel}: {brightest:?}");
        let coloured = image.pixels().filter(|p| p.0[0] != p.0[1]).count();
        assert!(coloured > 100, "{channel}: {coloured}");
    }
    let grey = [&views[..], &["depth", "--colormap", "grey", "-o", "grey"]].concat();
    ok_in(path, &grey);
    let image = rgb(&path.join("grey/000.png"));
    assert!(image.pixels().all(|p| p.0[0] == p.0[1]));
    for more in [
        &["rgb", "--colormap", "turbo", "-o", "x"][..],
        &["depth", "--colormap", "turbo", "-o", "x.exr"],
    ] {
        let args = [
            "render",
            "out",
            "--path",
            "orbit",
            "--frames",
            "1",
            "--channel",
        ];
        refused(path, &[&args[..], more].concat(), 3, &["--colormap"]);
    }
}

//! COLMAP's binary files: the first byte chooses the parser.
#![no_main]

use dapple_scene::colmap::{parse_cameras_bin, parse_images_bin, parse_points_bin};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    match which % 3 {
        0 => drop(parse_cameras_bin(bytes, "cameras.bin")),
        1 => drop(parse_images_bin(bytes, "images.bin")),
        _ => drop(parse_points_bin(bytes, "points3D.bin")),
    }
});

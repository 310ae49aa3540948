//! COLMAP's text files: the first byte chooses the parser.
#![no_main]

use dapple_scene::colmap::{parse_cameras_txt, parse_images_txt, parse_points_txt};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    match which % 3 {
        0 => drop(parse_cameras_txt(bytes, "cameras.txt")),
        1 => drop(parse_images_txt(bytes, "images.txt")),
        _ => drop(parse_points_txt(bytes, "points3D.txt")),
    }
});

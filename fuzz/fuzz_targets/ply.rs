//! PLY, as splats and as a point cloud.
#![no_main]

use dapple_scene::ply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(ply::parse(data));
    drop(ply::parse_points(data));
});

//! OpenEXR files of depths.
#![no_main]

use dapple_scene::exr_file::FloatImage;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(FloatImage::from_exr(data));
});

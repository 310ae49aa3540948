//! Nerfstudio's and Blender's JSON.
#![no_main]

use dapple_scene::nerfstudio::parse_transforms;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(parse_transforms(data, "transforms.json"));
});

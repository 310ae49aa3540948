//! Files of named cameras: Dapple's and Nerfstudio's, and that of the 3DGS paper's trainer.
#![no_main]

use dapple_scene::parse_cameras;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(parse_cameras(data, "cameras.json"));
});

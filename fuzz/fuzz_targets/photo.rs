//! Photos: JPEG and PNG.
#![no_main]

use dapple_scene::Photo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(Photo::from_bytes(data));
});

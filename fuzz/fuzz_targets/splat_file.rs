//! Files of splats in every format that the door knows; PLY has a target of its own too.
#![no_main]

use dapple_scene::splat_file::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for format in Format::ALL {
        drop(parse(data, format));
    }
});

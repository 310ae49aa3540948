//! Splat files in every format that `splat_file` reads; PLY also has a target of its own.
#![no_main]

use dapple_splats::splat_file::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    for format in Format::ALL {
        drop(parse(data, format));
    }
});

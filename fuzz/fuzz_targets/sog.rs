//! SOG archives: the ZIP directory, meta.json and WebP textures.
#![no_main]

use dapple_splats::splat_file::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(parse(data, Format::Sog)));

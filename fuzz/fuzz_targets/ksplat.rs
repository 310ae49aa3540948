//! `.ksplat` buffers.
#![no_main]

use dapple_scene::splat_file::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| drop(parse(data, Format::Ksplat)));

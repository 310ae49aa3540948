//! SPZ: the bytes as a file, and as the content of a gzip member, so that mutations reach the attributes.
#![no_main]

use dapple_splats::splat_file::{Format, parse};
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use std::io::Write;

fuzz_target!(|data: &[u8]| {
    drop(parse(data, Format::Spz));
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    if packed.write_all(data).is_ok()
        && let Ok(packed) = packed.finish()
    {
        drop(parse(&packed, Format::Spz));
    }
});

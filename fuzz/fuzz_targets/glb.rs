//! glTF, binary and as text. Bytes that are not such a file become the JSON of one with a few numbers.
#![no_main]

use dapple_splats::splat_file::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(parse(data, Format::Glb));
    drop(parse(data, Format::Gltf));
    let mut file = b"glTF\x02\0\0\0\0\0\0\0".to_vec();
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(b"JSON");
    file.extend(data);
    file.extend(64u32.to_le_bytes());
    file.extend(b"BIN\0");
    file.extend([0x3f; 64]);
    drop(parse(&file, Format::Glb));
});

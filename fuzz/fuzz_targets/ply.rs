//! PLY, as splats and as a point cloud. Also the data of a compressed PLY behind a valid header, which random bytes do
//! not produce.
#![no_main]

use dapple_splats::ply;
use libfuzzer_sys::fuzz_target;

const RANGES: [&str; 6] = ["x", "y", "z", "scale_x", "scale_y", "scale_z"];

/// Returns a file with as many Gaussians as the data has bytes for, in one chunk.
fn compressed(data: &[u8]) -> Vec<u8> {
    let (chunk, vertex) = (RANGES.len() * 2 * 4, 4 * 4 + 9);
    let count = (data.len().saturating_sub(chunk) / vertex).min(256);
    let mut file = String::from("ply\nformat binary_little_endian 1.0\n");
    file += &format!("element chunk {}\n", count.min(1));
    for end in ["min", "max"] {
        for name in RANGES {
            file += &format!("property float {end}_{name}\n");
        }
    }
    file += &format!("element vertex {count}\n");
    for name in ["position", "rotation", "scale", "color"] {
        file += &format!("property uint packed_{name}\n");
    }
    file += &format!("element sh {count}\n");
    for i in 0..9 {
        file += &format!("property uchar f_rest_{i}\n");
    }
    file += "end_header\n";
    [file.as_bytes(), data].concat()
}

fuzz_target!(|data: &[u8]| {
    drop(ply::parse(data));
    drop(ply::parse_points(data));
    drop(ply::parse(&compressed(data)));
});

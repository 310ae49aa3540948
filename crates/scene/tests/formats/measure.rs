//! Bytes and seconds of every format: `DAPPLE_MEASURE=a.ply cargo test --release -p dapple-scene --test formats
//! measure -- --ignored --nocapture`. Prints, and judges nothing: times belong to no test. What is read back goes into
//! the folder `DAPPLE_MEASURE_BACK`, as PLY, for `dapple eval`.

use dapple_scene::splat_file::{self, Format, SpzVersion, WriteOptions};
use std::time::Instant;

#[test]
#[ignore = "a measurement"]
fn measure() {
    let Some(path) = std::env::var_os("DAPPLE_MEASURE") else {
        return;
    };
    let (splats, _) = splat_file::read(path.as_ref()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    println!("{} Gaussians, degree {}", splats.len(), splats.sh_degree);
    for format in Format::ALL.into_iter().filter(|f| f.is_written()) {
        for version in [SpzVersion::V3, SpzVersion::V4] {
            if format != Format::Spz && version == SpzVersion::V4 {
                continue;
            }
            if format == Format::SogFolder {
                continue;
            }
            let out = folder.path().join(format.file_name("a"));
            let options = WriteOptions {
                spz_version: version,
                spz_sh_bits: if version == SpzVersion::V4 {
                    [5, 4]
                } else {
                    [6, 5]
                },
                ..WriteOptions::default()
            };
            let began = Instant::now();
            splat_file::write_with(&out, &splats, format, &options).unwrap();
            let wrote = began.elapsed();
            let began = Instant::now();
            let (back, _) = splat_file::read(&out).unwrap();
            println!(
                "{format:?} {version:?}: {} bytes, written in {:.2} s, read in {:.2} s",
                splat_file::size_bytes(&out, format),
                wrote.as_secs_f64(),
                began.elapsed().as_secs_f64()
            );
            if let Some(folder) = std::env::var_os("DAPPLE_MEASURE_BACK") {
                let name = format!("{format:?}_{version:?}.ply");
                dapple_scene::ply::write(&std::path::Path::new(&folder).join(name), &back).unwrap();
            }
        }
    }
}

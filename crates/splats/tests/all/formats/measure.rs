//! Bytes and seconds of every format:
//! `DAPPLE_MEASURE=a.ply cargo test --release -p dapple-scene --test formats measure -- --ignored --nocapture`. Prints
//! times and checks none. The splats are read again and written into the folder `DAPPLE_MEASURE_BACK`, as PLY, for
//! `dapple eval`. `DAPPLE_MEASURE_ONLY=Sog` measures one format. Next to wall seconds are CPU seconds on all cores, if
//! the system reports them, including other work of this process.

use dapple_splats::splat_file::{self, Format, SpzVersion, WriteOptions};
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
            let only = std::env::var("DAPPLE_MEASURE_ONLY");
            let is_other = only.is_ok_and(|only| format!("{format:?}") != only);
            if format == Format::SogFolder || is_other {
                continue;
            }
            let out = folder.path().join(format.file_name("a"));
            let options = WriteOptions {
                spz_version: version,
                spz_sh_bits: if version == SpzVersion::V4 {
                    Some([5, 4])
                } else {
                    None
                },
                ..WriteOptions::default()
            };
            let (began, cpu) = (Instant::now(), cpu_seconds());
            splat_file::write_with(&out, &splats, format, &options).unwrap();
            let (wrote, wrote_cpu) = (began.elapsed(), cpu_seconds() - cpu);
            let (began, cpu) = (Instant::now(), cpu_seconds());
            let (back, _) = splat_file::read(&out).unwrap();
            println!(
                "{format:?} {version:?}: {} bytes, written in {:.2} s ({wrote_cpu:.2} of processors), read in {:.2} s \
                 ({:.2})",
                splat_file::size_bytes(&out, format),
                wrote.as_secs_f64(),
                began.elapsed().as_secs_f64(),
                cpu_seconds() - cpu
            );
            if let Some(folder) = std::env::var_os("DAPPLE_MEASURE_BACK") {
                let name = format!("{format:?}_{version:?}.ply");
                dapple_splats::ply::write(&std::path::Path::new(&folder).join(name), &back)
                    .unwrap();
            }
        }
    }
}

/// CPU seconds of this process since its start, on Linux; 0 elsewhere.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name in parentheses: the 12th and 13th are ticks of a hundredth of a second.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = fields.split(' ').skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

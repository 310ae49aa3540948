//! Streamed SOG: the tree of `lod-meta.json` over two small folders of textures. The last bytes of the input damage one
//! of their files.
#![no_main]

use dapple_splats::Splats;
use dapple_splats::splat_file::{Format, WriteOptions, encode_files, parse_files};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

type Files = Vec<(String, Vec<u8>)>;

/// Files of the two folders, and of the folder `env`.
static FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut splats = Splats::empty(1);
    for i in 0..40 {
        let at = i as f32;
        splats.means.push([at, -at, 0.5 * at]);
        splats.scales.push([-3.0, -2.0, -0.1 * at]);
        splats.quats.push([1.0, 0.1 * at, 0.0, 0.0]);
        splats.opacities.push(at - 20.0);
        splats.sh0.push([0.01 * at; 3]);
        splats.sh_rest.extend([0.02 * at; 9]);
    }
    let textures =
        encode_files(&splats, Format::SogFolder, &WriteOptions::default()).unwrap_or_default();
    let folders = ["0_0", "1_0", "env"].into_iter();
    let files = folders.flat_map(|folder| {
        textures
            .iter()
            .map(move |(name, bytes)| (format!("{folder}/{name}"), bytes.clone()))
    });
    files.collect()
});

fuzz_target!(|data: &[u8]| {
    // The tree, then the file, the position and the new value of the damaged byte.
    let (text, damage) =
        data.split_at(data.len() - data.len().min(4) * usize::from(data.len() % 2));
    let mut files = FILES.clone();
    if let &[file, at, to, by] = damage {
        let count = files.len();
        let bytes = &mut files[usize::from(file) % count].1;
        let place = (usize::from(at) << 4 | usize::from(by & 15)) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(place) {
            *byte = to;
        }
    }
    files.push(("lod-meta.json".to_owned(), text.to_vec()));
    drop(parse_files(&files, Format::StreamedSog));
});

//! Damaged files of every format: an error that says where, never a panic, and no memory for what is not there.

use crate::support::{Noise, crowd};
use dapple_scene::splat_file::{self, Format, SpzVersion, WriteOptions, parse};

/// A file of every kind that is written.
fn files() -> Vec<(String, Format, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for format in Format::ALL {
        for version in [SpzVersion::V3, SpzVersion::V4] {
            if !format.is_written() || (format != Format::Spz && version == SpzVersion::V4) {
                continue;
            }
            let path = folder.path().join(format!("a.{}", format.extension()));
            let options = WriteOptions {
                spz_version: version,
                ..WriteOptions::default()
            };
            splat_file::write_with(&path, &crowd(300, 1), format, &options).unwrap();
            let name = format!("{format:?} {version:?}");
            files.push((name, format, std::fs::read(&path).unwrap()));
        }
    }
    files
}

#[test]
fn cut_files_say_where() {
    for (name, format, bytes) in files() {
        for end in (0..bytes.len()).step_by(64).chain([bytes.len() - 1]) {
            // Thirty-two bytes are a Gaussian of .splat: a shorter file is one too.
            if format == Format::Splat && end % 32 == 0 && end > 0 {
                continue;
            }
            match parse(&bytes[..end], format) {
                // The end of a gzip member is no part of the splats: a note is enough.
                Ok((_, aside)) => assert!(!aside.notes.is_empty(), "{name} cut at {end}"),
                Err(error) => assert!(error.hint_text().is_some(), "{name} cut at {end}: {error}"),
            }
        }
    }
}

#[test]
fn flipped_bits_are_read_or_refused() {
    for (name, format, bytes) in files() {
        let mut noise = Noise(7);
        let head = (0..bytes.len().min(600)).step_by(3);
        let anywhere: Vec<usize> = (0..300)
            .map(|_| ((noise.next() + 1.0) / 2.0 * (bytes.len() - 1) as f32) as usize)
            .collect();
        for (i, at) in head.chain(anywhere).enumerate() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (i % 8);
            match parse(&bytes, format) {
                Ok((splats, _)) => assert!(splats.check_lengths().is_ok(), "{name}, byte {at}"),
                Err(error) => assert!(error.hint_text().is_some(), "{name}, byte {at}: {error}"),
            }
        }
    }
}

//! Damaged files of every format: an error that names the place, never a panic, and no memory for missing data.

use crate::formats::support::{Noise, crowd};
use dapple_splats::splat_file::{
    self, Format, SpzVersion, WriteOptions, encode_files, parse, parse_files,
};

/// Returns a file of every format that can be written.
fn files() -> Vec<(String, Format, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for format in Format::ALL {
        for version in [SpzVersion::V3, SpzVersion::V4] {
            if !format.is_written()
                || format.is_folder()
                || (format != Format::Spz && version == SpzVersion::V4)
            {
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
    // Files of other writers.
    let splats = crowd(300, 1);
    for level in 0..=2 {
        let bytes = crate::formats::ksplat::file(&splats, level);
        // Capacity for one more is no part of the splats.
        let row = [44 + 36, 24 + 18, 24 + 9][usize::from(level)];
        let bytes = bytes[..bytes.len() - row].to_vec();
        files.push((format!("ksplat of level {level}"), Format::Ksplat, bytes));
    }
    files.push((
        "bare SPZ".to_owned(),
        Format::Spz,
        crate::formats::spz::by_hand(3),
    ));
    let (name, bytes) = (
        "glTF with its numbers",
        crate::formats::gltf::with_base64(&splats),
    );
    files.push((name.to_owned(), Format::Gltf, bytes));
    let (name, bytes) = ("glTF with SPZ", crate::formats::gltf::with_spz(&splats));
    files.push((name.to_owned(), Format::Glb, bytes));
    files
}

#[test]
fn cut_files_say_where() {
    for (name, format, bytes) in files() {
        for end in (0..bytes.len()).step_by(64).chain([bytes.len() - 1]) {
            // 32 bytes are one Gaussian of .splat: a shorter file is valid too.
            if format == Format::Splat && end % 32 == 0 && end > 0 {
                continue;
            }
            match parse(&bytes[..end], format) {
                // The end of a gzip member is not part of the splats: a note is sufficient.
                Ok((_, metadata)) => assert!(!metadata.notes.is_empty(), "{name} cut at {end}"),
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

/// Each file of a folder format is damaged separately.
#[test]
fn folders_with_a_damaged_file_are_read_or_refused() {
    let of = |format| encode_files(&crowd(300, 1), format, &WriteOptions::default()).unwrap();
    for (format, files) in [
        (Format::SogFolder, of(Format::SogFolder)),
        (Format::StreamedSog, of(Format::StreamedSog)),
        (Format::SogFolder, crate::formats::sog::first_version(1).0),
    ] {
        assert!(parse_files(&files, format).is_ok());
        let mut noise = Noise(9);
        for k in 0..files.len() {
            let (name, whole) = files[k].clone();
            let attempt = |bytes: Vec<u8>, what: String, must_fail: bool| {
                let mut files = files.clone();
                files[k].1 = bytes;
                match parse_files(&files, format) {
                    Ok((splats, _)) => {
                        assert!(!must_fail, "{format:?}, {name}, {what}");
                        assert!(splats.check_lengths().is_ok());
                    }
                    Err(e) => assert!(
                        e.place().is_some() && e.hint_text().is_some(),
                        "{format:?}, {name}, {what}: {e}"
                    ),
                }
            };
            // Coarser levels are not read.
            let is_read = !name.starts_with("1_");
            for end in (0..whole.len()).step_by(64).chain([whole.len() - 1]) {
                // The last bytes of an image may be padding.
                let must_fail = is_read && (name.ends_with("json") || end + 64 < whole.len());
                attempt(whole[..end].to_vec(), format!("cut at {end}"), must_fail);
            }
            for i in 0..120 {
                let at = ((noise.next() + 1.0) / 2.0 * (whole.len() - 1) as f32) as usize;
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << (i % 8);
                attempt(bytes, format!("byte {at}"), false);
            }
        }
        // Absurd counts, in every key that has a count.
        let (_, meta) = files.last().unwrap();
        let text = String::from_utf8(meta.clone()).unwrap();
        for (from, to) in [
            ("\"count\":300", "\"count\":4294967295"),
            ("\"count\":300", "\"count\":99999999999999999999"),
            ("\"offset\":0", "\"offset\":18446744073709551615"),
            ("\"file\":0", "\"file\":4000000000"),
        ] {
            if text.contains(from) {
                let mut files = files.clone();
                let last = files.len() - 1;
                files[last].1 = text.replace(from, to).into_bytes();
                assert!(parse_files(&files, format).is_err(), "{format:?}: {to}");
            }
        }
    }
}

#[track_caller]
fn refused(bytes: &[u8], format: Format, word: &str) {
    let error = parse(bytes, format).unwrap_err();
    assert!(error.to_string().contains(word), "{error}");
    assert!(
        error.place().is_some() && error.hint_text().is_some(),
        "{error}"
    );
}

/// Files that declare far more than they hold are refused before memory is allocated. No declared size here fits into
/// the memory of a test machine.
#[test]
fn bombs_do_not_go_off() {
    // Four thousand million Gaussians in a gzip member of a kilobyte, and in a Zstandard frame.
    let mut spz = crate::formats::spz::by_hand(3);
    spz[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    spz.resize(1 << 20, 0);
    refused(&crate::formats::spz::gzip(&spz), Format::Spz, "cannot hold");
    let mut four = b"NGSP".to_vec();
    four.extend(4u32.to_le_bytes());
    four.extend(u32::MAX.to_le_bytes());
    four.extend([0, 12, 0, 5]);
    four.extend(32u32.to_le_bytes());
    four.resize(200, 0);
    refused(&four, Format::Spz, "cannot hold");
    // Endless zeros: unpacking stops at the size in the header.
    let mut long = crate::formats::spz::by_hand(3);
    long.resize(64 << 20, 0);
    let (splats, metadata) = parse(&crate::formats::spz::gzip(&long), Format::Spz).unwrap();
    assert_eq!((splats.len(), metadata.notes.len()), (2, 1));

    // An archive whose meta.json declares more than textures of its size can hold.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sog");
    splat_file::write(&path, &crowd(300, 0), Format::Sog).unwrap();
    let meta = folder.path().join("meta.json");
    splat_file::write(&meta, &crowd(300, 0), Format::SogFolder).unwrap();
    let text = std::fs::read_to_string(&meta).unwrap();
    assert!(text.contains("\"count\":300"));
    let with = |to: &str| {
        std::fs::write(&meta, text.replace("\"count\":300", to)).unwrap();
        splat_file::read(&meta).unwrap_err().to_string()
    };
    assert!(with("\"count\":99999999999").contains("cannot hold"));
    assert!(with("\"count\":1000000").contains("1000000 are needed"));
    assert!(with("\"count\":-1").contains("no meta.json"));
    std::fs::write(&meta, text.replace("means_l.webp", "../means_l.webp")).unwrap();
    let error = splat_file::read(&meta).unwrap_err().to_string();
    assert!(error.contains("not next to it"), "{error}");
    // Its directory declares entries beyond the file.
    let mut zip = std::fs::read(&path).unwrap();
    let end = zip.len() - 22;
    let directory = u32::from_le_bytes(zip[end + 16..end + 20].try_into().unwrap()) as usize;
    zip[directory + 20..directory + 28].fill(0xff);
    refused(&zip, Format::Sog, "ends within its means_l.webp");
}

/// Gaussians with non-finite numbers are named, and read unchanged if an edit removes them.
#[test]
fn what_is_not_finite_is_refused_or_kept() {
    use dapple_splats::edit::condition::is_finite;
    use dapple_splats::splat_file::{NonFinite, ReadOptions, encode, parse_with};
    let keep = ReadOptions {
        non_finite: NonFinite::Keep,
        ..ReadOptions::default()
    };
    let as_it_is = WriteOptions {
        non_finite: NonFinite::Keep,
        ..WriteOptions::default()
    };
    let spoils: [fn(&mut dapple_splats::Splats); 6] = [
        |s| s.means[7][1] = f32::NAN,
        |s| s.scales[7][2] = f32::NAN,
        |s| s.quats[7][0] = f32::NAN,
        |s| s.opacities[7] = f32::NAN,
        |s| s.sh0[7][1] = f32::NAN,
        |s| s.sh_rest[9 * 7 + 4] = f32::NAN,
    ];
    for (k, spoil) in spoils.into_iter().enumerate() {
        let mut splats = crowd(300, 1);
        spoil(&mut splats);
        let mut files = vec![];
        for format in [Format::Ply, Format::Glb] {
            files.push((format, encode(&splats, format, &as_it_is)));
        }
        if k < 2 {
            // Linear scales: NaN remains NaN; all other numbers are bytes.
            files.push((Format::Splat, encode(&splats, Format::Splat, &as_it_is)));
        }
        files.push((Format::Ksplat, Ok(crate::formats::ksplat::file(&splats, 0))));
        for (format, bytes) in files {
            let bytes = bytes.unwrap();
            // Bytes, and numbers that the writer of .glb converts to unit quaternions.
            if matches!((format, k), (Format::Ksplat, 3 | 4) | (Format::Glb, 2)) {
                continue;
            }
            let what = format!("{format:?}, {k}");
            let refused = parse(&bytes, format).err().map(|e| e.to_string());
            let error = refused.unwrap_or_else(|| panic!("{what} is read"));
            assert!(error.contains("--keep finite"), "{what}: {error}");
            let (read, _) = parse_with(&bytes, format, &keep).unwrap();
            let bad: Vec<usize> = (0..300).filter(|&i| !is_finite(&read, i)).collect();
            // .splat is sorted.
            assert_eq!(bad.len(), 1, "{what}");
            assert!(bad == [7] || format == Format::Splat, "{what}: {bad:?}");
        }
    }
    // A chunk of compressed PLY whose range is not finite has only non-finite Gaussians.
    let whole = encode(
        &crowd(300, 1),
        Format::CompressedPly,
        &WriteOptions::default(),
    )
    .unwrap();
    let data = whole
        .windows(11)
        .position(|w| w == b"end_header\n")
        .unwrap()
        + 11;
    for bad in [f32::NAN, f32::INFINITY] {
        let mut bytes = whole.clone();
        bytes[data + 4 * 10..data + 4 * 11].copy_from_slice(&bad.to_le_bytes());
        assert!(parse(&bytes, Format::CompressedPly).is_err());
        let (read, _) = parse_with(&bytes, Format::CompressedPly, &keep).unwrap();
        assert!((0..300).all(|i| is_finite(&read, i) == (i >= 256)), "{bad}");
    }
}

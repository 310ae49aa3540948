//! SOG: its options, its first version, and files that contradict their metadata.

use crate::formats::support::crowd;
use dapple_splats::splat_file::{
    Format, WriteOptions, describes_splats, encode, encode_files, parse, parse_files, read,
};
use serde_json::{Value, json};

#[test]
fn a_larger_palette_loses_less_and_takes_more_bytes() {
    let splats = crowd(3000, 3);
    let with = |sog_palette| {
        let options = WriteOptions {
            sog_palette,
            ..WriteOptions::default()
        };
        encode(&splats, Format::Sog, &options).unwrap()
    };
    let rest = |bytes: &[u8]| parse(bytes, Format::Sog).unwrap().0.sh_rest;
    // One entry per ten Gaussians would be fewer than the minimum.
    assert!(with(None) == with(Some(1024)));
    // One entry per Gaussian, in the order of the others.
    let whole = with(Some(usize::MAX));
    let apart = |bytes: &[u8]| {
        let pairs = rest(bytes).into_iter().zip(rest(&whole));
        pairs.map(|(a, b)| (a - b).powi(2)).sum::<f32>()
    };
    let (small, usual) = (with(Some(64)), with(None));
    assert!(small.len() < usual.len() && usual.len() < whole.len());
    assert!(apart(&small) > 1.2 * apart(&usual) && apart(&usual) > 0.0);
}

/// Files with their names.
type NamedFiles = Vec<(String, Vec<u8>)>;

/// Replaces the `meta.json` among files of a folder.
fn with_meta(files: &[(String, Vec<u8>)], meta: &Value) -> NamedFiles {
    let mut files = files.to_vec();
    let last = files.last_mut().unwrap();
    last.1 = meta.to_string().into_bytes();
    files
}

fn folder_of(count: usize, degree: u8) -> (NamedFiles, Value) {
    let options = WriteOptions::default();
    let files = encode_files(&crowd(count, degree), Format::SogFolder, &options).unwrap();
    let meta = serde_json::from_slice(&files.last().unwrap().1).unwrap();
    (files, meta)
}

/// Returns the first writer's description of textures, and one of version 2 with equal values for their bytes.
pub fn first_version(degree: u8) -> (NamedFiles, NamedFiles) {
    let (files, mut second) = folder_of(300, degree);
    let ramp = |low: f64, high: f64| {
        let steps = (0..256).map(|i| low + (high - low) * f64::from(i) / 255.0);
        json!(steps.collect::<Vec<_>>())
    };
    second["scales"]["codebook"] = ramp(-6.0, -2.0);
    second["sh0"]["codebook"] = ramp(-1.5, 1.5);
    let mut first = json!({
        "means": second["means"], "quats": second["quats"],
        "scales": {"mins": [-6.0, -6.0, -6.0], "maxs": [-2.0, -2.0, -2.0], "files": second["scales"]["files"]},
        "sh0": {"shape": [300, 1, 4], "mins": [-1.5, -1.5, -1.5, -4.0], "maxs": [1.5, 1.5, 1.5, 5.0],
            "files": second["sh0"]["files"]},
    });
    first["means"]["shape"] = json!([300, 3]);
    first["quats"]["encoding"] = json!("quaternion_packed");
    if degree > 0 {
        second["shN"]["codebook"] = ramp(-0.5, 0.5);
        first["shN"] =
            json!({"mins": -0.5, "maxs": 0.5, "quantization": 8, "files": second["shN"]["files"]});
    }
    (with_meta(&files, &first), with_meta(&files, &second))
}

#[test]
fn the_first_version_is_read() {
    for degree in 0..=3 {
        let (first, second) = first_version(degree);
        let (read, metadata) = parse_files(&first, Format::SogFolder).unwrap();
        assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
        let (mut same, _) = parse_files(&second, Format::SogFolder).unwrap();
        assert_eq!(read.sh_degree, degree);
        let off = |a: &[f32], b: &[f32]| {
            let pairs = a.iter().zip(b);
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max)
        };
        assert!(off(read.scales.as_flattened(), same.scales.as_flattened()) < 1e-5);
        assert!(off(read.sh0.as_flattened(), same.sh0.as_flattened()) < 1e-5);
        assert!(off(&read.sh_rest, &same.sh_rest) < 1e-5);
        // Opacities are logits between limits in version 1, bytes of 0 to 1 in version 2.
        for (logit, alpha) in read.opacities.iter().zip(&same.opacities) {
            let byte = 255.0 / (1.0 + (-alpha).exp());
            assert!(
                (logit + 4.0 - 9.0 * byte.round() / 255.0).abs() < 0.02,
                "{logit} {byte}"
            );
        }
        (same.scales, same.sh0, same.opacities, same.sh_rest) = (
            read.scales.clone(),
            read.sh0.clone(),
            read.opacities.clone(),
            read.sh_rest.clone(),
        );
        assert!(read == same, "centres and rotations");
    }
    // Missing and wrong values are refused.
    let (files, _) = first_version(1);
    let meta: Value = serde_json::from_slice(&files.last().unwrap().1).unwrap();
    for (path, value, word) in [
        ("/means/shape", json!([]), "how many Gaussians"),
        ("/means/shape", json!([99_999_999_999u64, 3]), "cannot hold"),
        ("/means/files", json!(["means_l.webp"]), "lacks the name"),
        ("/sh0/mins", json!([0.0, 0.0, 0.0]), "limits for 3 and 4"),
        ("/sh0/maxs", json!([0.0, 0.0, 0.0, 1e39]), "meta.json"),
        (
            "/shN/files",
            json!(["quats.webp", "shN_labels.webp"]),
            "texels wide",
        ),
        ("/shN/mins", json!([0.0, 1.0]), "no meta.json"),
    ] {
        let mut meta = meta.clone();
        *meta.pointer_mut(path).unwrap() = value;
        let error = parse_files(&with_meta(&files, &meta), Format::SogFolder).unwrap_err();
        assert!(error.to_string().contains(word), "{path}: {error}");
        assert!(error.place().is_some() && error.hint_text().is_some());
    }
}

#[test]
fn textures_that_hold_more_than_is_promised_are_told() {
    let (files, mut meta) = folder_of(300, 0);
    let clean = parse_files(&files, Format::SogFolder).unwrap();
    assert!(clean.1.notes.is_empty());
    meta["count"] = json!(299);
    let (read, metadata) = parse_files(&with_meta(&files, &meta), Format::SogFolder).unwrap();
    assert_eq!(read.len(), 299);
    assert!(
        metadata.notes[0].contains("the textures hold 300"),
        "{:?}",
        metadata.notes
    );
    meta["count"] = json!(303);
    let (read, metadata) = parse_files(&with_meta(&files, &meta), Format::SogFolder).unwrap();
    assert_eq!(read.len(), 303);
    assert!(
        metadata.notes[0].contains("the textures hold 300"),
        "{:?}",
        metadata.notes
    );
}

#[test]
fn what_follows_an_archive_is_told() {
    let splats = crowd(100, 0);
    let whole = encode(&splats, Format::Sog, &WriteOptions::default()).unwrap();
    let plain = parse(&whole, Format::Sog).unwrap();
    assert!(plain.1.notes.is_empty());
    for tail in [&b"x"[..], &[0; 70_000], &whole] {
        let (read, metadata) = parse(&[&whole[..], tail].concat(), Format::Sog).unwrap();
        assert!(read == plain.0);
        let said = format!("{} bytes follow", tail.len());
        assert!(metadata.notes[0].starts_with(&said), "{:?}", metadata.notes);
    }
    // A comment belongs to the archive.
    let mut commented = whole.clone();
    let end = commented.len() - 2;
    commented[end..].copy_from_slice(&5u16.to_le_bytes());
    commented.extend(b"hello");
    assert!(parse(&commented, Format::Sog).unwrap().1.notes.is_empty());
}

#[test]
fn a_folder_without_a_texture_is_one_and_the_texture_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (files, _) = folder_of(80, 0);
    for (name, bytes) in &files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let meta = folder.path().join("meta.json");
    // Another name for the meta.json, with equal content.
    let other = folder.path().join("garden.json");
    std::fs::copy(&meta, &other).unwrap();
    assert!(describes_splats(&meta) && describes_splats(&other));
    assert_eq!(read(&other).unwrap().0, read(&meta).unwrap().0);
    for (k, name) in ["means_l.webp", "quats.webp"].iter().enumerate() {
        std::fs::remove_file(folder.path().join(name)).unwrap();
        assert!(describes_splats(&meta), "{name}");
        let error = read(&meta).unwrap_err();
        assert!(error.what().contains(name), "{error}");
        assert_eq!(error.what().contains("are missing"), k == 1, "{error}");
        assert!(error.place().unwrap().contains("means_l.webp"), "{error}");
    }
    // A pointer file instead of a texture.
    for name in ["means_l.webp", "quats.webp"] {
        std::fs::write(folder.path().join(name), "version https://git-lfs").unwrap();
    }
    assert!(read(&meta).unwrap_err().what().contains("Git LFS"));
    // Damaged JSON, next to a texture; and a capture's file.
    std::fs::write(&meta, "{\"version\":2,\"mea").unwrap();
    assert!(describes_splats(&meta));
    std::fs::write(&other, "{\"frames\":[],\"meshes\":1}").unwrap();
    assert!(!describes_splats(&other));
}

/// For an archive of levels of detail, the finest is read, not the first folder.
#[test]
fn levels_of_detail_in_an_archive_are_read() {
    let options = WriteOptions::default();
    let files = encode_files(&crowd(400, 0), Format::StreamedSog, &options).unwrap();
    let (plain, _) = parse_files(&files, Format::StreamedSog).unwrap();
    assert!(files.len() > 7, "two levels");
    let mut archive = zip(&files);
    let (read, metadata) = parse(&archive, Format::Sog).unwrap();
    assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
    assert!(read == plain);
    // The error for another archive names its content.
    archive = zip(&[("a/garden.ply".to_owned(), b"ply".to_vec())]);
    let error = parse(&archive, Format::Sog).unwrap_err();
    assert!(error.hint_text().unwrap().contains("name a/garden.ply"));
    archive = zip(&[("x/data.pkl".to_owned(), vec![128])]);
    let error = parse(&archive, Format::Sog).unwrap_err();
    assert!(error.what().contains("PyTorch"));
}

/// Builds a ZIP archive of stored files.
fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let at = out.len() as u32;
        let mut fields = [20u16, 0, 0, 0, 0x21].map(u16::to_le_bytes).concat();
        let size = bytes.len() as u32;
        for word in [crc32fast::hash(bytes), size, size] {
            fields.extend(word.to_le_bytes());
        }
        fields.extend((name.len() as u32).to_le_bytes());
        out.extend([&b"PK\x03\x04"[..], &fields[..], name.as_bytes(), bytes].concat());
        directory.extend([&b"PK\x01\x02\x14\0"[..], &fields[..], &[0; 10]].concat());
        directory.extend(at.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let at = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([(files.len() as u16).to_le_bytes(); 2].concat());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(at.to_le_bytes());
    out.extend([0, 0]);
    out
}

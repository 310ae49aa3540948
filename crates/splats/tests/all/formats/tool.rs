//! `splat-transform` reads Dapple's files as Dapple does, and Dapple reads the tool's files as the tool does.
//!
//! Needs `DAPPLE_SPLAT_TRANSFORM`, as `ply_splat_transform.rs`.

use crate::formats::support::{Steps, assert_near, crowd};
use crate::splat_transform::{convert, tool};
use dapple_splats::splat_file::{self, Format, SpzVersion, WriteOptions};
use dapple_splats::{Splats, ply};
use std::path::Path;

/// The tool and Dapple read Dapple's file equally, and both results are near the input.
#[track_caller]
fn ours_is_theirs(
    tool: &Path,
    splats: &Splats,
    name: &str,
    format: Format,
    options: &WriteOptions,
) {
    let folder = tempfile::tempdir().unwrap();
    let [ours, back] = [name, "back.ply"].map(|n| folder.path().join(n));
    splat_file::write_with(&ours, splats, format, options).unwrap();
    convert(tool, &[], &ours, &[], &back);
    let what = format!("{name}, degree {}, {options:?}", splats.sh_degree);
    let (read, _) = splat_file::read(&ours).unwrap();
    assert_near(&read, splats, Steps::for_format(format), &what);
    assert_near(&ply::read(&back).unwrap(), &read, Steps::NONE, &what);
}

/// Dapple reads the tool's file as the tool itself does.
#[track_caller]
fn theirs_is_ours(tool: &Path, splats: &Splats, name: &str, format: Format, options: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let [ply, theirs, back] = ["ours.ply", name, "back.ply"].map(|n| folder.path().join(n));
    ply::write(&ply, splats).unwrap();
    convert(tool, options, &ply, &[], &theirs);
    let what = format!("their {name}, degree {}, {options:?}", splats.sh_degree);
    let (read, _) = splat_file::read(&theirs).unwrap();
    let mut steps = Steps::for_format(format);
    if format == Format::Sog || format == Format::SogFolder {
        // The tool's palette does not find every vector, even with enough entries.
        steps.rest = 1.0;
    }
    assert_near(&read, splats, steps, &what);
    convert(tool, &[], &theirs, &[], &back);
    assert_near(&read, &ply::read(&back).unwrap(), Steps::NONE, &what);
}

#[test]
fn spz_of_both_versions() {
    let Some(tool) = tool() else { return };
    for degree in 0..=3 {
        let splats = crowd(700, degree);
        for (version, number) in [(SpzVersion::V3, "3"), (SpzVersion::V4, "4")] {
            // Equal bits for all Gaussians, so that one bound holds for all.
            let options = WriteOptions {
                spz_version: version,
                spz_sh_bits: Some([6, 5]),
                ..WriteOptions::default()
            };
            ours_is_theirs(&tool, &splats, "a.spz", Format::Spz, &options);
            theirs_is_ours(
                &tool,
                &splats,
                "a.spz",
                Format::Spz,
                &["--spz-version", number],
            );
        }
    }
}

#[test]
fn sog_in_an_archive_and_in_a_folder() {
    let Some(tool) = tool() else { return };
    for degree in 0..=3 {
        let splats = crowd(500, degree);
        let ours =
            |name, format| ours_is_theirs(&tool, &splats, name, format, &WriteOptions::default());
        ours("a.sog", Format::Sog);
        ours("meta.json", Format::SogFolder);
    }
    // The tool's palettes are slow.
    for (degree, name, format) in [
        (0, "meta.json", Format::SogFolder),
        (2, "a.sog", Format::Sog),
    ] {
        theirs_is_ours(&tool, &crowd(200, degree), name, format, &["--gpu", "cpu"]);
    }
}

#[test]
fn compressed_ply_both_ways() {
    let Some(tool) = tool() else { return };
    for degree in 0..=3 {
        let splats = crowd(700, degree);
        let (name, format) = ("a.compressed.ply", Format::CompressedPly);
        ours_is_theirs(&tool, &splats, name, format, &WriteOptions::default());
        theirs_is_ours(&tool, &splats, name, format, &[]);
    }
}

/// The tool writes .glb and does not read it.
#[test]
fn glb_that_the_tool_writes_is_read() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    for degree in 0..=3 {
        let splats = crowd(300, degree);
        let [ply, glb] = ["a.ply", "a.glb"].map(|n| folder.path().join(n));
        ply::write(&ply, &splats).unwrap();
        convert(&tool, &[], &ply, &[], &glb);
        let (read, _) = splat_file::read(&glb).unwrap();
        assert_near(&read, &splats, Steps::NONE, "their glb");
    }
}

/// The tool writes `lod-meta.json` and does not read it. Therefore it reads each file that Dapple's `lod-meta.json`
/// names; together, run by run, these are the splats that Dapple reads.
#[test]
fn streamed_sog_both_ways() {
    let Some(tool) = tool() else { return };
    let folder = tempfile::tempdir().unwrap();
    for degree in [0, 2] {
        let splats = crowd(600, degree);
        let files = splat_file::encode_files(
            &splats,
            Format::StreamedSog,
            &WriteOptions {
                lod_levels: 2,
                ..WriteOptions::default()
            },
        )
        .unwrap();
        let ours = folder.path().join(format!("ours{degree}/lod-meta.json"));
        let options = WriteOptions {
            lod_levels: 2,
            ..WriteOptions::default()
        };
        splat_file::write_with(&ours, &splats, Format::StreamedSog, &options).unwrap();
        let (read, _) = splat_file::read(&ours).unwrap();
        let mut back = Splats::empty(degree);
        for (name, _) in files
            .iter()
            .filter(|(name, _)| name.ends_with("/meta.json"))
        {
            let ply = folder.path().join("back.ply");
            convert(&tool, &[], &ours.with_file_name(name), &[], &ply);
            let part = ply::read(&ply).unwrap();
            match name.as_str() {
                "0_0/meta.json" => back = part,
                _ => assert_eq!((name.as_str(), part.len()), ("1_0/meta.json", 150)),
            }
        }
        assert_near(&back, &read, Steps::NONE, "files of our lod-meta.json");
        assert_near(
            &read,
            &splats,
            Steps::for_format(Format::StreamedSog),
            "ours",
        );
    }
    // Two levels of the tool, the finer with more Gaussians; small leaves, so that there are several.
    let (fine, coarse) = (crowd(2500, 0), crowd(400, 0));
    let [a, b] = ["a.ply", "b.ply"].map(|name| folder.path().join(name));
    let theirs = folder.path().join("theirs/lod-meta.json");
    ply::write(&a, &fine).unwrap();
    ply::write(&b, &coarse).unwrap();
    std::fs::create_dir(folder.path().join("theirs")).unwrap();
    let actions = ["-l", "0", b.to_str().unwrap(), "-l", "1"];
    convert(&tool, &["--gpu", "cpu", "-C", "1"], &a, &actions, &theirs);
    let (read, metadata) = splat_file::read(&theirs).unwrap();
    assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
    assert!(folder.path().join("theirs/0_1/meta.json").is_file());
    assert_near(
        &read,
        &fine,
        Steps::for_format(Format::StreamedSog),
        "theirs",
    );
}

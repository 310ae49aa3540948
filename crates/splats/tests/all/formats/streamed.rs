//! Streamed SOG: levels of detail, their files and their tree.

use crate::formats::support::{Steps, assert_near, crowd};
use dapple_splats::splat_file::{
    self, Format, WriteOptions, detail_levels, encode, encode_files, parse_files, read_detail_level,
};
use dapple_splats::{NoProgress, Splats};
use serde_json::Value;

const FORMAT: Format = Format::StreamedSog;

/// Builds a crowd that is wide enough for several leaves.
fn wide(count: usize, sh_degree: u8) -> Splats {
    let mut splats = crowd(count, sh_degree);
    for (i, mean) in splats.means.iter_mut().enumerate() {
        mean[0] = mean[0] * 0.25 + (i % 97) as f32;
    }
    splats
}

fn options(lod_levels: u32) -> WriteOptions {
    WriteOptions {
        lod_levels,
        ..WriteOptions::default()
    }
}

fn meta(files: &[(String, Vec<u8>)]) -> Value {
    let (name, bytes) = files.last().unwrap();
    assert_eq!(name, "lod-meta.json");
    serde_json::from_slice(bytes).unwrap()
}

fn leaves<'a>(node: &'a Value, into: &mut Vec<&'a Value>) {
    match node["children"].as_array() {
        Some(children) => {
            assert_eq!(children.len(), 2);
            assert!(node["lods"].is_null());
            for child in children {
                for k in 0..3 {
                    let end = |node: &Value, end: &str| node["bound"][end][k].as_f64().unwrap();
                    assert!(end(child, "min") >= end(node, "min"));
                    assert!(end(child, "max") <= end(node, "max"));
                }
                leaves(child, into);
            }
        }
        None => into.push(node),
    }
}

#[test]
fn what_is_written_is_read_and_levels_tile_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lod-meta.json");
    for (degree, count) in [(0, 20_000), (2, 500)] {
        let splats = wide(count, degree);
        splat_file::write_with(&path, &splats, FORMAT, &options(3)).unwrap();
        let (read, metadata) = splat_file::read(&path).unwrap();
        assert!(metadata.notes.is_empty() && !metadata.antialiased);
        let steps = Steps {
            // The range is seven times that of the crowd.
            mean: 1.02 * 4.6 / 65_535.0 * 98.0,
            ..Steps::for_format(FORMAT)
        };
        assert_eq!(read.len(), count);
        if count < 1000 {
            assert_near(&read, &splats, steps, "streamed");
        }
        let files = encode_files(&splats, FORMAT, &options(3)).unwrap();
        let (again, _) = parse_files(&files, FORMAT).unwrap();
        assert!(again == read, "in memory as on the disk");
        let all: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(splat_file::size_bytes(&path, FORMAT), all as u64);

        let meta = meta(&files);
        let counts: Vec<usize> = serde_json::from_value(meta["counts"].clone()).unwrap();
        let expected: Vec<usize> = match count {
            // A level of 31 would be too small.
            500 => vec![500, 125],
            _ => vec![20_000, 5000, 1250],
        };
        assert_eq!(counts, expected);
        assert_eq!(meta["lodLevels"], counts.len());
        assert_eq!(meta["count"], counts.iter().sum::<usize>());
        assert_eq!(meta["version"], 1);
        let mut found = Vec::new();
        leaves(&meta["tree"], &mut found);
        // 26 250 Gaussians on 97 units: quarters still have 6562 and are 24 wide, and that is few enough.
        assert_eq!(found.len(), if count < 1000 { 1 } else { 4 });
        // Runs of a file follow one another without a gap, to its end.
        let mut ends = vec![0; meta["filenames"].as_array().unwrap().len()];
        for leaf in &found {
            for (level, run) in leaf["lods"].as_object().unwrap() {
                let number = |key: &str| run[key].as_u64().unwrap() as usize;
                let name = meta["filenames"][number("file")].as_str().unwrap();
                assert!(name.starts_with(&format!("{level}_")), "{name}");
                assert_eq!(number("offset"), ends[number("file")]);
                ends[number("file")] += number("count");
            }
        }
        for (name, end) in meta["filenames"].as_array().unwrap().iter().zip(ends) {
            let file = folder.path().join(name.as_str().unwrap());
            assert_eq!(splat_file::read(&file).unwrap().0.len(), end);
        }
    }
}

#[test]
fn bytes_do_not_depend_on_threads_and_marks_stay() {
    let splats = wide(9000, 1);
    let of = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let options = WriteOptions {
            antialiased: true,
            ..options(2)
        };
        let encode = || encode_files(&splats, FORMAT, &options).unwrap();
        pool.build().unwrap().install(encode)
    };
    let one = of(1);
    assert!(one == of(3));
    assert!(parse_files(&one, FORMAT).unwrap().1.antialiased);
}

/// A `lod-meta.json` by hand, with properties of other writers: levels that not all leaves have, an environment, runs
/// in another order, no counts.
#[test]
fn bytes_by_hand_are_read() {
    let folder = |name: &str, splats: &Splats| {
        let files = encode_files(splats, Format::SogFolder, &WriteOptions::default()).unwrap();
        let named = files.into_iter();
        named
            .map(move |(file, bytes)| (format!("{name}/{file}"), bytes))
            .collect::<Vec<_>>()
    };
    let (fine, sky) = (crowd(300, 0), crowd(100, 0));
    let mut files = [folder("a", &fine), folder("b/c", &sky)].concat();
    let bound = r#""bound":{"min":[0,0,0],"max":[1,1,1]}"#;
    let text = |first: &str, second: &str, more: &str| {
        format!(
            r#"{{"lodLevels":3,{more}"filenames":["a/meta.json","x/meta.json"],"tree":{{{bound},"children":[
            {{{bound},"lods":{{"2":{{"file":1,"offset":0,"count":9}},"1":{first}}},"errors":[0,1]}},
            {{{bound},"lods":{{"1":{second}}}}}]}}}}"#
        )
    };
    let mut read = |text: String| {
        files.retain(|(name, _)| name != "lod-meta.json");
        files.push(("lod-meta.json".to_owned(), text.into_bytes()));
        parse_files(&files, FORMAT)
    };
    let back = r#"{"file":0,"offset":200,"count":100}"#;
    let front = r#"{"file":0,"offset":0,"count":200}"#;
    // Level 1 is the finest; the coarser file may be missing.
    let (splats, metadata) = read(text(back, front, "")).unwrap();
    assert_near(&splats, &fine, Steps::for_format(FORMAT), "by hand");
    assert_eq!(metadata.notes.len(), 1);
    let (splats, metadata) = read(text(back, front, r#""environment":"b/c/meta.json","#)).unwrap();
    assert_eq!((splats.len(), metadata.notes.len()), (400, 2));
    // A part of a file.
    let (splats, _) = read(text(back, r#"{"file":0,"offset":7,"count":3}"#, "")).unwrap();
    assert_eq!(splats.len(), 103);

    for (first, second, more, word) in [
        (
            back,
            r#"{"file":0,"offset":0,"count":201}"#,
            "",
            "in two leaves",
        ),
        (back, r#"{"file":7,"offset":0,"count":1}"#, "", "file 7"),
        (
            front,
            r#"{"file":0,"offset":299,"count":2}"#,
            "",
            "there are 300",
        ),
        (
            front,
            r#"{"file":0,"offset":200,"count":18446744073709551615}"#,
            "",
            "there are 300",
        ),
        (
            front,
            r#"{"file":1,"offset":0,"count":1}"#,
            "",
            "x/meta.json",
        ),
        (
            front,
            back,
            r#""environment":"../a/meta.json","#,
            "no meta.json in a folder",
        ),
        (
            front,
            back,
            r#""environment":"/etc/passwd","#,
            "no meta.json in a folder",
        ),
        (
            front,
            back,
            r#""environment":"b/c/no/meta.json","#,
            "b/c/no/meta.json",
        ),
        (front, back, r#""version":2,"#, "version 2"),
        (front, back, r#""version":true,"#, "no lod-meta.json"),
        (
            r#"{"file":0,"offset":0,"count":0}"#,
            r#"{"file":0,"offset":0,"count":0}"#,
            "",
            "x/meta.json",
        ),
        (
            front,
            r#"{"file":-1,"offset":0,"count":0}"#,
            "",
            "no lod-meta.json",
        ),
    ] {
        let refused = read(text(first, second, more)).err();
        let error = refused.unwrap_or_else(|| panic!("{word}: it is read"));
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert!(
            error.place().is_some() && error.hint_text().is_some(),
            "{error}"
        );
    }
    let twice = text(front, back, "").replace("x/meta.json", "a/meta.json");
    assert!(read(twice).unwrap_err().to_string().contains("named twice"));
    let empty = format!(r#"{{"lodLevels":0,"filenames":[],"tree":{{{bound}}}}}"#);
    assert!(read(empty).unwrap_err().to_string().contains("no level"));
}

#[test]
fn trees_without_end_are_refused() {
    let bound = r#""bound":{"min":[0,0,0],"max":[1,1,1]}"#;
    let deep = format!(r#"{{{bound},"children":["#).repeat(100_000);
    let ends = "]}".repeat(100_000);
    let text = format!(r#"{{"lodLevels":1,"filenames":[],"tree":{deep}{ends}}}"#);
    let files = [("lod-meta.json".to_owned(), text.into_bytes())];
    let error = parse_files(&files, FORMAT).unwrap_err().to_string();
    assert!(error.contains("recursion limit"), "{error}");
}

#[test]
fn bundles_are_read_as_folders_are() {
    let folder = |degree| {
        let options = WriteOptions::default();
        encode_files(&crowd(300, degree), FORMAT, &options).unwrap()
    };
    for degree in [0, 1] {
        let mut files = folder(degree);
        let (plain, _) = parse_files(&files, FORMAT).unwrap();
        let mut meta = meta(&files);
        let names = meta["filenames"].as_array().unwrap().clone();
        for (k, name) in names.iter().enumerate() {
            let level = name.as_str().unwrap().split('/').next().unwrap();
            let inside = |(path, bytes): &(String, Vec<u8>)| {
                let name = path.strip_prefix(&format!("{level}/"))?;
                Some((name.to_owned(), bytes.clone()))
            };
            let inside: Vec<_> = files.iter().filter_map(inside).collect();
            let (splats, _) = parse_files(&inside, Format::SogFolder).unwrap();
            // Bundles that are packed again have another order and other codebooks.
            let bundle = encode(&splats, Format::Sog, &WriteOptions::default()).unwrap();
            files.push((format!("{level}.sog"), bundle));
            let dot = ["", "./"][k % 2];
            meta["filenames"][k] = format!("{dot}{level}.sog").into();
        }
        let last = files
            .iter()
            .position(|(name, _)| name == "lod-meta.json")
            .unwrap();
        files[last].1 = meta.to_string().into_bytes();
        let (read, metadata) = parse_files(&files, FORMAT).unwrap();
        assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
        assert_near(&read, &plain, Steps::for_format(FORMAT), "bundles");
        // Counts that differ from those of the tree, and Gaussians in no leaf.
        meta["counts"][0] = 7.into();
        files[last].1 = meta.to_string().into_bytes();
        let (_, metadata) = parse_files(&files, FORMAT).unwrap();
        assert!(
            metadata.notes[0].contains("promises 7 Gaussians"),
            "{:?}",
            metadata.notes
        );
        let text = meta.to_string().replace("\"count\":300", "\"count\":250");
        files[last].1 = text.into_bytes();
        let (read, metadata) = parse_files(&files, FORMAT).unwrap();
        assert_eq!(read.len(), 250);
        assert!(
            metadata.notes[1].contains("50 Gaussians of its files are in no leaf"),
            "{:?}",
            metadata.notes
        );
        let text = meta.to_string().replace("0_0.sog", "0_0.ply");
        files[last].1 = text.into_bytes();
        let error = parse_files(&files, FORMAT).unwrap_err();
        assert!(error.what().contains("neither a meta.json"), "{error}");
    }
}

#[test]
fn each_level_is_read_from_its_files_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lod-meta.json");
    splat_file::write_with(&path, &wide(20_000, 1), FORMAT, &options(3)).unwrap();
    let levels = detail_levels(&path).unwrap();
    let counts: Vec<u64> = levels.iter().map(|level| level.gaussians).collect();
    assert_eq!(counts, [20_000, 5000, 1250]);
    let meta_bytes = std::fs::metadata(&path).unwrap().len();
    let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
    assert_eq!(splat_file::size_bytes(&path, FORMAT), meta_bytes + bytes);
    for level in &levels {
        let number = level.level;
        let (splats, metadata) = read_detail_level(&path, number, &NoProgress).unwrap();
        assert!(metadata.notes.is_empty(), "{:?}", metadata.notes);
        let own = folder.path().join(format!("{number}_0/meta.json"));
        let (alone, _) = splat_file::read(&own).unwrap();
        assert!(splats == alone, "level {number}");
        assert_eq!(splats.len() as u64, level.gaussians);
    }
    let error = read_detail_level(&path, 3, &NoProgress).unwrap_err();
    assert!(error.what().contains("level 3 has no Gaussians"));
    // A level whose file is gone is an error; the others are read.
    std::fs::remove_dir_all(folder.path().join("1_0")).unwrap();
    assert!(read_detail_level(&path, 1, &NoProgress).is_err());
    read_detail_level(&path, 2, &NoProgress).unwrap();
    assert_eq!(detail_levels(&path).unwrap()[1].bytes, 0);
}

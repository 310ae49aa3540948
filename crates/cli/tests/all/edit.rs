//! `dapple edit`: chains of actions, recipes, and refused input.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::INPUT;
use common::{TRAIN, files, json, ok_in, refused, run_in, small_capture};
use std::path::Path;
use tempfile::TempDir;

/// Makes a small capture and a run on it.
fn trained() -> TempDir {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    folder
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

/// Writes splats in ASCII: x, opacity (a logit).
fn write_splats(path: &Path, rows: &[(&str, &str)]) {
    let names =
        "x y z f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 rot_0 rot_1 rot_2 rot_3";
    let properties: String = names
        .split(' ')
        .map(|name| format!("property float {name}\n"))
        .collect();
    let rows: String = rows
        .iter()
        .map(|(x, opacity)| format!("{x} 0 0 0.1 0.2 0.3 {opacity} -2 -2 -2 1 0 0 0\n"))
        .collect();
    let count = rows.lines().count();
    let text =
        format!("ply\nformat ascii 1.0\nelement vertex {count}\n{properties}end_header\n{rows}");
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_saved_recipe_replays_to_the_same_bytes_on_any_number_of_threads() {
    let folder = trained();
    let path = folder.path();
    ok_in(path, &["edit", "out", "other.ply", "--scale", "0.5"]);
    let first = json(&ok_in(
        path,
        &[
            "edit",
            "out",
            "a.ply",
            "--json",
            "--capture",
            "capture",
            "--orient",
            "auto",
            "--rotate",
            "10,-20,33.3",
            "--scale",
            "1.7",
            "--translate",
            "-1,0.5,2",
            "--drop",
            "opacity<0.02",
            "--merge",
            "other.ply",
            "--order",
            "morton",
            "--prune",
            "0",
            "--sh-degree",
            "1",
            "--decimate",
            "50%",
            "--save-recipe",
            "recipe.json",
        ],
    ));
    let actions = first["actions"].as_array().unwrap();
    assert_eq!(actions.len(), 10);
    let count = |i: usize| actions[i]["gaussians"].as_u64().unwrap();
    assert_eq!(count(9), (count(8) as f64 / 2.0).round() as u64);
    assert_eq!(first["gaussians"].as_u64().unwrap(), count(9));
    assert_eq!(first["sh_degree"], 1);
    // The recipe records the loss, against renders and against the photos.
    let loss = &actions[9]["loss"];
    assert!(loss["renders_psnr"].as_f64().unwrap() > 10.0, "{loss}");
    assert_eq!(loss["views"], 2);
    assert_eq!(loss["photos_psnr"].as_array().unwrap().len(), 2);
    for threads in ["1", "3"] {
        let replay = [
            "edit",
            "out",
            "b.ply",
            "--overwrite",
            "--capture",
            "capture",
            "--recipe",
            "recipe.json",
            "--threads",
            threads,
        ];
        ok_in(path, &replay);
        assert!(
            bytes(path, "a.ply") == bytes(path, "b.ply"),
            "{threads} threads"
        );
    }
    // A recipe in the middle of a chain inserts all of its actions there.
    ok_in(
        path,
        &[
            "edit",
            "out",
            "x.ply",
            "--translate",
            "1,0,0",
            "--save-recipe",
            "move.json",
        ],
    );
    ok_in(
        path,
        &[
            "edit",
            "out",
            "y.ply",
            "--scale",
            "2",
            "--recipe",
            "move.json",
        ],
    );
    ok_in(
        path,
        &[
            "edit",
            "out",
            "z.ply",
            "--scale",
            "2",
            "--translate",
            "1,0,0",
        ],
    );
    assert!(bytes(path, "y.ply") == bytes(path, "z.ply"));
    let kept = bytes(path, "move.json");
    refused(
        path,
        &[
            "edit",
            "out",
            "w.ply",
            "--scale",
            "2",
            "--save-recipe",
            "move.json",
        ],
        INPUT,
        &["overwrite"],
    );
    assert_eq!(kept, bytes(path, "move.json"));
}

#[test]
fn the_order_of_actions_counts_and_each_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(
        &path.join("in.ply"),
        &[("0", "3"), ("1", "-3"), ("2", "3"), ("50", "3")],
    );
    let left = |args: &[&str]| {
        let args = [
            &["edit", "in.ply", "o.ply", "--json", "-q", "--overwrite"],
            args,
        ]
        .concat();
        json(&ok_in(path, &args))["gaussians"].as_u64().unwrap()
    };
    assert_eq!(left(&["--crop", "sphere:0,0,0,1.5"]), 2);
    assert_eq!(
        left(&["--translate", "-2,0,0", "--crop", "sphere:0,0,0,1.5"]),
        2
    );
    assert_eq!(
        left(&["--translate", "-50,0,0", "--crop", "sphere:0,0,0,1.5"]),
        1
    );
    assert_eq!(
        left(&["--crop", "sphere:0,0,0,1.5", "--translate", "-50,0,0"]),
        2
    );
    assert_eq!(left(&["--cut", "box:50,0,0,1,1,1"]), 3);
    assert_eq!(left(&["--keep", "opacity>0.5"]), 3);
    assert_eq!(left(&["--drop", "x,gte,2", "--drop", "opacity<0.5"]), 1);
    assert_eq!(left(&["--floaters=40,5"]), 3);
    assert_eq!(left(&["--clusters", "1,5"]), 3);
    assert_eq!(left(&["--merge", "in.ply", "--decimate", "5"]), 5);
    assert_eq!(left(&["--decimate", "25%", "--ring"]), 1);
    // The output's extension selects another format.
    ok_in(path, &["edit", "in.ply", "o.splat", "--order", "morton"]);
    assert_eq!(bytes(path, "o.splat").len(), 4 * 32);
}

#[test]
fn splats_that_were_turned_look_the_same_from_cameras_that_turned_with_them() {
    let folder = trained();
    let path = folder.path();
    // Pruned after a rotation: the capture's cameras have rotated too, so the same Gaussians show.
    let left = |args: &[&str]| {
        let line = [
            "edit",
            "out",
            "o.ply",
            "--json",
            "-q",
            "--overwrite",
            "--capture",
            "capture",
        ];
        json(&ok_in(path, &[&line, args].concat()))
    };
    let plain = left(&["--prune", "5"]);
    let turned = left(&[
        "--rotate",
        "40,50,60",
        "--scale",
        "3",
        "--translate",
        "1,2,3",
        "--prune",
        "5",
    ]);
    let of = |run: &serde_json::Value, i: usize| {
        (
            run["gaussians"].as_f64().unwrap(),
            run["actions"][i]["loss"]["photos_psnr"][0]
                .as_f64()
                .unwrap(),
        )
    };
    let ((a, before), (b, moved)) = (of(&plain, 0), of(&turned, 3));
    assert!((a - b).abs() <= 0.01 * a, "{a} {b}");
    assert!((before - moved).abs() < 0.02, "{before} {moved}");
    // A fit after a decimation restores part of the quality.
    let rough = left(&["--decimate", "20%", "--refit", "0"]);
    let fitted = left(&["--decimate", "20%", "--refit", "40"]);
    // Without `--refit`, a fit follows if few Gaussians remain and cameras are known.
    let asked = |to: &str| {
        let run = left(&["--decimate", to]);
        run["actions"][0]["action"]["decimate"]["refit"].as_u64()
    };
    assert_eq!((asked("50%"), asked("51%")), (Some(300), Some(0)));
    let after =
        |run: &serde_json::Value| run["actions"][0]["loss"]["renders_psnr"].as_f64().unwrap();
    assert!(
        after(&fitted) > after(&rough),
        "{} {}",
        after(&fitted),
        after(&rough)
    );
}

#[test]
fn what_cannot_be_done_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), &[("0", "3"), ("1", "-3")]);
    std::fs::write(
        path.join("bad.json"),
        "{\"dapple_recipe\": 7, \"actions\": []}",
    )
    .unwrap();
    let before = files(path);
    for (args, code, words) in [
        (
            &["--crop", "sphere:9,9,9,1"][..],
            INPUT,
            &["leaves no Gaussian of 2"][..],
        ),
        (
            &["--keep", "size>100"],
            INPUT,
            &["size>100", "leaves no Gaussian"],
        ),
        (&["--prune", "1"], INPUT, &["--capture"]),
        (&["--orient", "auto"], INPUT, &["cameras", "--capture"]),
        (&["--drop", "contribution<1"], INPUT, &["--capture"]),
        (&["--decimate", "1", "--refit", "5"], INPUT, &["--capture"]),
        (&["--merge", "nowhere.ply"], 4, &["nowhere.ply"]),
        (&["--recipe", "bad.json"], 5, &["version 7", "bad.json"]),
        (&["--recipe", "none.json"], 4, &["none.json"]),
        (&[], INPUT, &["no action"]),
    ] {
        let args = [&["edit", "in.ply", "new/o.ply"], args].concat();
        refused(path, &args, code, words);
    }
    refused(
        path,
        &["edit", "in.ply", "in.ply", "--scale", "2"],
        INPUT,
        &["--overwrite"],
    );
    refused(
        path,
        &["edit", "in.ply", "o.txt", "--scale", "2"],
        5,
        &["ends so"],
    );
    for (option, value, word) in [
        ("--translate", "1,nan,0", "finite"),
        ("--scale", "0", "scaled by 0"),
        ("--rotate", "0,0,0,0", "rotation"),
        ("--keep", "weight>1", "no property"),
        ("--decimate", "0", "number of Gaussians"),
        ("--crop", "sphere:0,0,0,-1", "above 0"),
        ("--sh-degree", "4", "choose"),
    ] {
        let ran = run_in(path, &["edit", "in.ply", "o.ply", option, value]);
        assert_eq!(ran.code, 2, "{option} {value}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(word) && ran.stderr.contains("hint: "),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(files(path), before);
}

#[test]
fn gaussians_that_are_not_finite_are_read_where_the_chain_takes_them_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let rows = [
        ("0", "3"),
        ("nan", "3"),
        ("1", "nan"),
        ("inf", "0"),
        ("2", "1"),
    ];
    write_splats(&path.join("broken.ply"), &rows);
    write_splats(&path.join("sound.ply"), &[("0", "3"), ("2", "1")]);
    // By default, and if an action needs the numbers first, the file is refused with a hint.
    for chain in [
        &["--scale", "1"][..],
        &["--floaters", "--keep", "finite"],
        &["--drop", "contribution<1", "--keep", "finite"],
        &["--drop", "finite"],
    ] {
        let args = [&["edit", "broken.ply", "o.ply"], chain].concat();
        refused(path, &args, INPUT, &["vertex 1", "--keep finite"]);
    }
    // The order of moving and removing changes nothing.
    for (name, chain) in [
        ("a.ply", &["--keep", "finite", "--rotate", "0,90,0"][..]),
        (
            "b.ply",
            &[
                "--rotate",
                "0,90,0",
                "--drop",
                "opacity<0.1",
                "--keep",
                "finite",
            ],
        ),
    ] {
        let args = [&["edit", "broken.ply", name], chain].concat();
        let ran = ok_in(path, &args);
        assert!(ran.stderr.contains("keep: 5 -> 2"), "{}", ran.stderr);
    }
    // Non-finite Gaussians of a merged file are read too if the chain removes them after the merge.
    let merge = ["edit", "sound.ply", "m.ply", "--merge", "broken.ply"];
    let ran = ok_in(path, &[&merge[..], &["--keep", "finite"]].concat());
    assert!(ran.stderr.contains("keep: 7 -> 4"), "{}", ran.stderr);
    for chain in [
        &["--merge", "broken.ply"][..],
        &["--keep", "finite", "--merge", "broken.ply"],
    ] {
        let args = [&["edit", "sound.ply", "o.ply"], chain].concat();
        refused(path, &args, INPUT, &["vertex 1", "--keep finite"]);
    }
    ok_in(path, &["edit", "sound.ply", "c.ply", "--rotate", "0,90,0"]);
    assert!(bytes(path, "a.ply") == bytes(path, "c.ply"));
    assert!(bytes(path, "b.ply") == bytes(path, "c.ply"));
}

/// The anti-aliasing mark is preserved, from the file and from the run's settings.
#[test]
fn the_mark_of_anti_aliasing_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("plain.ply"), &[("0", "3"), ("1", "3")]);
    let text = std::fs::read_to_string(path.join("plain.ply")).unwrap();
    let marked = text.replace("1.0\n", "1.0\ncomment SplatRenderMode: mip\n");
    std::fs::write(path.join("marked.ply"), marked).unwrap();
    let mark = |name: &str| {
        let (_, metadata) = dapple::scene::splat_file::read(&path.join(name)).unwrap();
        metadata.antialiased
    };
    for (name, is_marked) in [("plain.ply", false), ("marked.ply", true)] {
        for out in ["o.ply", "o.compressed.ply", "o.spz", "o.sog"] {
            ok_in(path, &["edit", name, out, "--scale", "2", "--overwrite"]);
            assert_eq!(mark(out), is_marked, "{name} {out}");
        }
    }
    // Splat files of older runs have no mark: the run's settings have it.
    std::fs::create_dir(path.join("run")).unwrap();
    std::fs::copy(path.join("plain.ply"), path.join("run/splats.ply")).unwrap();
    std::fs::write(path.join("run/config.toml"), "antialias = true\n").unwrap();
    ok_in(
        path,
        &["edit", "run", "o.ply", "--scale", "2", "--overwrite"],
    );
    assert!(mark("o.ply"));
}

/// A recipe never overwrites splats, neither its input nor earlier results.
#[test]
fn a_recipe_takes_no_splats_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("in.ply"), &[("0", "1"), ("1", "1")]);
    let before = bytes(path, "in.ply");
    for name in ["in.ply", "out.ply", "./out.ply"] {
        let args = [
            "edit",
            "in.ply",
            "out.ply",
            "--scale",
            "2",
            "--overwrite",
            "--save-recipe",
            name,
        ];
        refused(path, &args, INPUT, &[name, "--save-recipe, mine.json"]);
    }
    assert_eq!(bytes(path, "in.ply"), before);
    assert!(!path.join("out.ply").exists());
}

/// If a Gaussian is too far for a format, the error names it and the remedy. Small shares are printed in digits.
#[test]
fn conversions_that_cannot_be_say_why_and_convert_follows_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_splats(&path.join("far.ply"), &[("0", "1"), ("1e9", "1")]);
    let said = ["Gaussian 1", "1e9 units", "--crop sphere:0,0,0,1000000"];
    for args in [
        &["convert", "far.ply", "far.spz"][..],
        &["export", "far.ply", "far.html", "--no-poster"],
    ] {
        refused(path, args, 5, &said);
    }
    let crop = [
        "edit",
        "far.ply",
        "near.ply",
        "--crop",
        "sphere:0,0,0,1000000",
    ];
    ok_in(path, &crop);
    // The mark comes from the run's settings, and from the option.
    let plain = ["convert", "near.ply", "a.ply"];
    ok_in(path, &plain);
    ok_in(path, &["convert", "near.ply", "b.ply", "--antialias"]);
    std::fs::write(path.join("config.toml"), "antialias = true\n").unwrap();
    ok_in(path, &["convert", "near.ply", "c.ply"]);
    assert_ne!(bytes(path, "a.ply"), bytes(path, "b.ply"));
    assert_eq!(bytes(path, "b.ply"), bytes(path, "c.ply"));
    let mark = b"SplatRenderMode: mip";
    let has_mark = |name| bytes(path, name).windows(mark.len()).any(|w| w == mark);
    assert!(has_mark("b.ply") && !has_mark("a.ply"));
}

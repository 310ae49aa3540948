//! Problems of new users: missing photos, runs named by their folder, paths of cameras, runs that got worse.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::INPUT;
use common::{TRAIN, json, ok_in, refused, run_in, small_capture};
use image::{ImageReader, codecs::jpeg::JpegEncoder};
use std::path::Path;

/// Returns the names of the photos of a small capture.
fn photos(path: &Path) -> Vec<String> {
    let images = std::fs::read_dir(path.join("capture/images")).unwrap();
    let mut names: Vec<String> = images
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_missing_photo_can_be_skipped_and_is_counted() {
    let folder = small_capture();
    let path = folder.path();
    let gone = &photos(path)[3];
    std::fs::remove_file(path.join("capture/images").join(gone)).unwrap();
    refused(path, &TRAIN, INPUT, &[gone, "missing", "--skip-missing"]);
    refused(path, &["info", "capture"], INPUT, &[gone, "--skip-missing"]);

    let skip = [&TRAIN[..], &["--skip-missing"]].concat();
    let done = json(&ok_in(path, &[&skip[..], &["--json"]].concat()));
    assert_eq!(done["skipped_photos"], 1);
    let loud = |args: &[&'static str]| -> Vec<&'static str> {
        args.iter().copied().filter(|&arg| arg != "-q").collect()
    };
    let text = ok_in(path, &loud(&[&skip[..], &["--overwrite"]].concat())).stdout;
    assert!(
        text.contains("missing   1 photo of the capture was skipped"),
        "{text}"
    );
    let metrics = std::fs::read_to_string(path.join("out/metrics.json")).unwrap();
    let metrics: serde_json::Value = serde_json::from_str(&metrics).unwrap();
    assert_eq!(metrics["skipped_photos"], 1);
    // Every eighth photo of eight is held out.
    assert_eq!(
        (&metrics["train_views"], &metrics["eval_views"]),
        (&7.into(), &1.into())
    );
    // The run's configuration records this: its photos are scored without another option.
    let scores = json(&ok_in(path, &["eval", "capture", "out", "--json"]));
    assert_eq!(scores["psnr"], metrics["psnr"]);
    let info = json(&ok_in(
        path,
        &["info", "capture", "--skip-missing", "--json", "--check"],
    ));
    assert_eq!((&info["photos"], &info["skipped"]), (&8.into(), &1.into()));
    let text = ok_in(path, &["info", "capture", "--skip-missing"]).stdout;
    assert!(text.contains("1 missing and skipped"), "{text}");
    for name in photos(path) {
        std::fs::remove_file(path.join("capture/images").join(name)).unwrap();
    }
    let none = [&skip[..], &["--overwrite"]].concat();
    refused(path, &none, INPUT, &["all 9 photos are missing"]);
}

#[test]
fn a_transforms_file_beside_a_model_is_told_with_what_it_lacks() {
    let folder = small_capture();
    let path = folder.path();
    let frames = |names: &[&str]| {
        let frame = |(i, name): (usize, &&str)| {
            format!(
                r#"{{"file_path": "images/{name}", "transform_matrix": [[1,0,0,{i}],[0,1,0,0],[0,0,1,4],[0,0,0,1]]}}"#
            )
        };
        let frames: Vec<String> = names.iter().enumerate().map(frame).collect();
        let text = format!(r#"{{"fl_x": 40, "frames": [{}]}}"#, frames.join(","));
        std::fs::write(path.join("capture/transforms.json"), text).unwrap();
    };
    let photos = photos(path);
    let note = || ok_in(path, &["info", "capture"]).stdout;
    frames(&[&photos[0], &photos[1]]);
    assert!(note().contains("name the file to use it"), "{}", note());
    frames(&[&photos[0], "gone.png", &photos[1], "lost.png"]);
    let said = note();
    assert!(
        said.contains("of the 4 photos that the file names 2 are missing"),
        "{said}"
    );
    assert!(said.contains("--skip-missing"), "{said}");
    let named = ["info", "capture/transforms.json"];
    refused(path, &named, INPUT, &["missing", "--skip-missing"]);
    let skipped = ok_in(path, &[&named[..], &["--skip-missing", "--json"]].concat());
    assert_eq!(json(&skipped)["photos"], 2);
    assert_eq!(json(&skipped)["skipped"], 2);
    std::fs::write(path.join("capture/transforms.json"), "{}").unwrap();
    assert!(note().contains("no transforms file"), "{}", note());
}

#[test]
fn a_runs_folder_stands_for_its_splats() {
    let folder = small_capture();
    let path = folder.path();
    let trained = json(&ok_in(path, &[&TRAIN[..], &["--json"]].concat()));
    // A missing output folder is made, and removed again if the command writes nothing.
    ok_in(
        path,
        &["convert", "out", "small/phone/a.ply", "--sh-degree", "0"],
    );
    assert!(path.join("small/phone/a.ply").is_file());
    ok_in(
        path,
        &[
            "render", "out", "--path", "orbit", "--frames", "2", "-o", "ring",
        ],
    );
    assert!(path.join("ring/00001.png").is_file());
    let view = [
        "render", "out", "--scene", "capture", "--views", "held-out", "-o", "views",
    ];
    ok_in(path, &view);
    assert_eq!(std::fs::read_dir(path.join("views")).unwrap().count(), 2);

    let info = json(&ok_in(path, &["info", "out", "--json"]));
    assert_eq!(info["kind"], "splats");
    let run = &info["run"];
    assert_eq!(run["steps"], 12);
    assert_eq!(
        (&run["psnr"], &run["finished"]),
        (&trained["psnr"], &true.into())
    );
    assert!(run["seconds"].as_f64().unwrap() > 0.0);
    let text = ok_in(path, &["info", "out"]).stdout;
    for word in ["steps ", "PSNR", "device ", "gaussians"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    // An unfinished run has splats only in its checkpoint at first.
    ok_in(
        path,
        &[&TRAIN[..], &["--overwrite", "--stop-at", "5"]].concat(),
    );
    for file in ["splats.ply", "metrics.json"] {
        std::fs::remove_file(path.join("out").join(file)).unwrap();
    }
    let text = ok_in(path, &["info", "out"]).stdout;
    assert!(
        text.contains("--resume out") && text.contains("5 in "),
        "{text}"
    );
    for args in [
        &["convert", "out", "b.ply"][..],
        &["render", "out", "--path", "orbit", "-o", "b"],
        &["eval", "capture", "out"],
    ] {
        refused(path, args, INPUT, &["holds no splats", "--resume out"]);
    }
    refused(
        path,
        &["convert", "capture", "new/b.ply"],
        INPUT,
        &["holds no splats"],
    );
    assert!(!path.join("new").exists());
}

#[test]
fn paths_go_where_photos_were_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let all_round = ["synth", "capture", "-q", "--photos", "24", "--width", "48"];
    ok_in(
        path,
        &[&all_round[..], &["--height", "36", "--points", "200"]].concat(),
    );
    ok_in(path, &TRAIN);
    // The cameras are stored next to the splats: nothing else is needed.
    let path_of = |more: &[&str]| {
        let args = [
            "render", "out", "--frames", "3", "--width", "32", "-o", "pictures",
        ];
        ok_in(path, &[&args[..], more].concat()).stderr
    };
    let said = path_of(&["--path"]);
    assert!(
        said.contains("path: orbit, since the cameras are all around"),
        "{said}"
    );
    let read = |name: &str| std::fs::read(path.join("pictures").join(name)).unwrap();
    let auto = read("00001.png");
    path_of(&["--path", "orbit"]);
    assert!(auto == read("00001.png"));
    path_of(&["--path", "capture"]);
    assert!(auto != read("00001.png"));
    // The path if only one side was photographed.
    let text = std::fs::read_to_string(path.join("out/cameras.json")).unwrap();
    let mut cameras: serde_json::Value = serde_json::from_str(&text).unwrap();
    let frames = cameras["frames"].as_array_mut().unwrap();
    assert_eq!(frames.len(), 21, "those trained on");
    let angle = |frame: &serde_json::Value| {
        let row = |i: usize| frame["transform_matrix"][i][3].as_f64().unwrap();
        row(0).atan2(row(2))
    };
    frames.sort_by(|a, b| angle(a).total_cmp(&angle(b)));
    frames.truncate(6);
    std::fs::write(path.join("out/cameras.json"), cameras.to_string()).unwrap();
    let said = path_of(&["--path", "auto"]);
    assert!(
        said.contains("path: arc, since the cameras cover"),
        "{said}"
    );
    let arc = read("00001.png");
    path_of(&["--path", "arc"]);
    assert!(arc == read("00001.png"));
    // A foreign file of that name does not stop the command.
    std::fs::write(path.join("out/cameras.json"), "[]").unwrap();
    let said = path_of(&["--path"]);
    assert!(
        said.contains("not used") && said.contains("up direction is not known"),
        "{said}"
    );
    std::fs::remove_file(path.join("out/cameras.json")).unwrap();
    let free = read("00001.png");
    assert!(!path_of(&["--path", "orbit", "--up", "-y"]).contains("up direction is not known"));
    assert!(free == read("00001.png"));
    path_of(&["--path", "orbit", "--up", "z"]);
    assert!(free != read("00001.png"));
    let z = read("00001.png");
    let arc = ["render", "out", "--path", "arc", "-o", "none"];
    refused(path, &arc, INPUT, &["--capture"]);
    // Nerfstudio's exporter writes the up direction to its file.
    let ply = std::fs::read(path.join("out/splats.ply")).unwrap();
    let at = ply.windows(7).position(|w| w == b"element").unwrap();
    let told = [&ply[..at], b"comment Vertical Axis: z\n", &ply[at..]].concat();
    std::fs::write(path.join("out/splats.ply"), told).unwrap();
    assert!(!path_of(&["--path", "orbit"]).contains("up direction is not known"));
    assert!(z == read("00001.png"));
}

#[test]
fn a_run_that_got_worse_says_so() {
    let folder = small_capture();
    let path = folder.path();
    // Centres that begin to jump at the end of the run.
    let config = "[eval]\nsteps = [20]\n[learning_rates]\nmeans_final = 0.5\n";
    std::fs::write(path.join("wild.toml"), config).unwrap();
    let wild = ["--steps=40", "--config", "wild.toml"];
    let loud = TRAIN[..7].iter().copied().filter(|&arg| arg != "-q");
    let loud: Vec<&str> = loud.collect();
    let train = [&loud[..], &wild].concat();
    let text = ok_in(path, &train).stdout;
    assert!(
        text.contains("worse     the held-out photos scored best after step 20"),
        "{text}"
    );
    assert!(
        ok_in(path, &["info", "out"])
            .stdout
            .contains("after step 20")
    );
    let told = json(&ok_in(
        path,
        &[&train[..], &["--overwrite", "--json"]].concat(),
    ));
    assert_eq!(told["got_worse"]["best"]["step"], 20);
    let calm = ok_in(path, &[&loud[..], &["--steps=12", "--overwrite"]].concat()).stdout;
    assert!(calm.contains("scores "), "{calm}");
    assert!(!calm.contains("worse "), "{calm}");
}

#[test]
fn bytes_after_a_ply_are_told() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let ply = std::fs::read(path.join("out/splats.ply")).unwrap();
    std::fs::write(path.join("long.ply"), [&ply[..], b"x"].concat()).unwrap();
    let said = ok_in(path, &["info", "long.ply"]).stdout;
    assert!(said.contains("1 byte that no row"), "{said}");
    let said = ok_in(path, &["convert", "long.ply", "short.ply"]).stderr;
    assert!(said.contains("1 byte that no row"), "{said}");
    assert!(std::fs::read(path.join("short.ply")).unwrap() == ply);
    assert!(
        !ok_in(path, &["info", "short.ply"])
            .stdout
            .contains("byte that")
    );
}

#[test]
fn a_damaged_jpeg_does_not_pass_the_check() {
    let folder = small_capture();
    let path = folder.path();
    let names = photos(path);
    let png = path.join("capture/images").join(&names[0]);
    let pixels = ImageReader::open(&png)
        .unwrap()
        .decode()
        .unwrap()
        .into_rgb8();
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, 95)
        .encode_image(&pixels)
        .unwrap();
    std::fs::write(&png, &jpeg).unwrap();
    ok_in(path, &["info", "capture", "--check"]);
    jpeg.truncate(jpeg.len() * 2 / 3);
    jpeg.extend([0xff, 0xd9]);
    std::fs::write(&png, &jpeg).unwrap();
    let check = ["info", "capture", "--check"];
    refused(path, &check, INPUT, &["is damaged", &names[0]]);
}

#[test]
fn options_of_other_programs_name_ours() {
    let folder = small_capture();
    for (args, ours) in [
        (&["train", "capture", "--iterations", "9"][..], "`--steps`"),
        (&["train", "capture", "--max-steps=9"], "`--steps`"),
        (
            &["train", "capture", "--resolution", "2"],
            "`--downscale` and `--max-resolution`",
        ),
        (&["render", "out", "--resolution", "9"], "`--width`"),
        (
            &["export", "out", "a.html", "--fov", "9"],
            "`dapple render` has `--fov`",
        ),
    ] {
        let ran = run_in(folder.path(), args);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(ours), "{ours}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("hint: ").count(), 2, "{}", ran.stderr);
        assert!(!ran.stderr.contains("as a value"), "{}", ran.stderr);
    }
}

#[test]
fn quiet_commands_print_nothing() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    for args in [
        &[
            "train", "capture", "-q", "--preset", "m8-smoke", "-o", "again",
        ][..],
        &["convert", "-q", "out/splats.ply", "a.splat"],
        &["edit", "-q", "out/splats.ply", "b.ply", "--scale", "2"],
        &[
            "synth", "-q", "another", "--photos", "4", "--width", "32", "--height", "24",
        ],
    ] {
        let ran = ok_in(path, args);
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str()),
            ("", ""),
            "{args:?}"
        );
    }
}

#[test]
fn counts_and_sizes_read_well() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let merged = [
        "edit",
        "out/splats.ply",
        "two.ply",
        "--merge",
        "out/splats.ply",
    ];
    let text = ok_in(path, &merged).stdout;
    assert!(
        text.contains("two.ply: 400 Gaussians, 200 before"),
        "{text}"
    );
    let plain = ok_in(path, &["convert", "out/splats.ply", "plain.ply"]).stdout;
    assert!(
        plain.contains("1.00 times plain PLY") || plain.contains("1.0"),
        "{plain}"
    );
    let none = [
        "convert",
        "out/splats.ply",
        "none.ply",
        "--min-opacity",
        "1",
    ];
    let text = ok_in(path, &none).stdout;
    assert!(text.contains("none.ply: 0 of 200 Gaussians"), "{text}");
    let text = ok_in(path, &["convert", "none.ply", "again.ply"]).stdout;
    assert!(
        text.contains("0 of 0 Gaussians") && !text.contains("times"),
        "{text}"
    );
    // The older extension `.htm` is accepted too.
    let page = ["export", "out", "page.htm", "--no-poster"];
    ok_in(path, &page);
    assert!(path.join("page.htm").is_file());
}

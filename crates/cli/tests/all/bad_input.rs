//! Faults of the input, one by one. Each must give a clear error, the right exit code, and no
//! partial output.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;

use common::exit::{INPUT, IO, UNSUPPORTED, USAGE};
use common::{TRAIN, files, json, ok_in, refused, run_in, small_capture};
use image::{ImageBuffer, Rgb, RgbImage};
use std::path::Path;
use tempfile::TempDir;

/// A capture as text with three photos, which tests damage.
struct TextCapture {
    folder: TempDir,
}

impl TextCapture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let capture = Self { folder };
        std::fs::create_dir_all(capture.path("images")).unwrap();
        std::fs::create_dir_all(capture.path("sparse/0")).unwrap();
        capture.write("sparse/0/cameras.txt", "1 PINHOLE 32 24 40 40 16 12\n");
        capture.write(
            "sparse/0/images.txt",
            "1 1 0 0 0 0 0 4 1 a.png\n\n2 1 0 0 0 0.5 0 4 1 b.png\n\n3 1 0 0 0 -0.5 0 4 1 c.png\n\n",
        );
        let points: String = (0..30)
            .map(|i| format!("{i} {} {} 0 200 100 50 0.5\n", i % 6, i / 6))
            .collect();
        capture.write("sparse/0/points3D.txt", &points);
        for name in ["a.png", "b.png", "c.png"] {
            RgbImage::from_pixel(32, 24, Rgb([90, 120, 150]))
                .save(capture.path("images").join(name))
                .unwrap();
        }
        capture
    }

    fn path(&self, inner: &str) -> std::path::PathBuf {
        self.folder.path().join("capture").join(inner)
    }

    fn write(&self, inner: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(inner), content).unwrap();
    }

    fn replace(&self, inner: &str, old: &str, new: &str) {
        let text = std::fs::read_to_string(self.path(inner)).unwrap();
        assert!(text.contains(old), "{old:?} is not in {inner}");
        self.write(inner, text.replacen(old, new, 1));
    }

    /// Checks that training refuses the capture and writes nothing.
    #[track_caller]
    fn refused(&self, code: i32, words: &[&str]) {
        let before = files(self.folder.path());
        refused(self.folder.path(), &TRAIN, code, words);
        assert_eq!(
            files(self.folder.path()),
            before,
            "something was left behind"
        );
        assert!(
            !self.folder.path().join("out").exists(),
            "an empty folder was left behind"
        );
    }
}

/// Cuts a file to a share of its length.
fn cut(path: &Path, share: f64) {
    let bytes = std::fs::read(path).unwrap();
    std::fs::write(path, &bytes[..(bytes.len() as f64 * share) as usize]).unwrap();
}

#[test]
fn the_capture_they_spoil_is_good() {
    let capture = TextCapture::new();
    ok_in(capture.folder.path(), &TRAIN);
}

#[test]
fn paths_that_do_not_exist() {
    let folder = small_capture();
    let path = folder.path();
    for args in [
        &["train", "nowhere", "-o", "out"][..],
        &["train", "nowhere"],
        &["train", "capture", "--config", "nowhere.toml", "-o", "out"],
        &["eval", "capture", "nowhere.ply"],
        &["render", "nowhere.ply", "--path", "orbit", "-o", "out"],
        &["info", "nowhere"],
        &["convert", "nowhere.ply", "out.ply"],
    ] {
        refused(path, args, IO, &["nowhere", "nothing is there"]);
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 1, "{args:?}");
    }
}

#[test]
fn truncated_models() {
    for name in ["cameras.bin", "images.bin", "points3D.bin"] {
        for share in [0.0, 0.3, 0.9] {
            let folder = small_capture();
            let path = folder.path();
            cut(&path.join("capture/sparse/0").join(name), share);
            refused(path, &TRAIN, INPUT, &[name]);
            assert!(!path.join("out").exists());
        }
    }
}

#[test]
fn counts_that_would_need_terabytes() {
    let folder = small_capture();
    let model = folder.path().join("capture/sparse/0");
    for name in ["cameras.bin", "images.bin", "points3D.bin"] {
        let good = std::fs::read(model.join(name)).unwrap();
        let mut bad = good.clone();
        bad[..8].copy_from_slice(&(1u64 << 60).to_le_bytes());
        std::fs::write(model.join(name), bad).unwrap();
        refused(folder.path(), &TRAIN, INPUT, &[name]);
        std::fs::write(model.join(name), good).unwrap();
    }
    let header = "ply\nformat binary_little_endian 1.0\nelement vertex 99999999999999\n\
        property float x\nproperty float y\nproperty float z\nend_header\n";
    std::fs::write(folder.path().join("huge.ply"), header).unwrap();
    refused(folder.path(), &["info", "huge.ply"], INPUT, &["huge.ply"]);
}

#[test]
fn damaged_splats() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let good = std::fs::read(path.join("out/splats.ply")).unwrap();
    let verbs = [
        &["info", "bad.ply"][..],
        &["convert", "bad.ply", "new.ply"],
        &["eval", "capture", "bad.ply", "-o", "new"],
        &["render", "bad.ply", "--path", "orbit", "-o", "new"],
    ];
    let header = good.windows(11).position(|w| w == b"end_header\n").unwrap() + 11;
    let mut not_finite = good.clone();
    not_finite[header..header + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    for bad in [
        &good[..good.len() / 2],
        &good[..good.len() - 1],
        &good[..40],
        &[][..],
        b"not a ply file at all",
        &not_finite,
    ] {
        std::fs::write(path.join("bad.ply"), bad).unwrap();
        for args in verbs {
            refused(path, args, INPUT, &["bad.ply"]);
            assert!(!path.join("new").exists() && !path.join("new.ply").exists());
        }
    }
}

#[test]
fn damaged_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::create_dir(path.join("capture")).unwrap();
    let frame = |matrix: &str| {
        format!(
            r#"{{"fl_x": 40, "fl_y": 40, "cx": 16, "cy": 12, "w": 32, "h": 24,
                "frames": [{{"file_path": "a.png", "transform_matrix": {matrix}}}]}}"#
        )
    };
    let identity = "[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]";
    let good = frame(identity);
    for bad in [
        &good[..good.len() / 2],
        "",
        "[]",
        r#"{"frames": 7}"#,
        &frame("[[1,0],[0,1]]"),
        &frame(&identity.replacen('1', "1e999", 1)),
        &frame(&identity.replace('1', "0")),
        &good.replace("\"w\": 32", "\"w\": 0"),
    ] {
        std::fs::write(path.join("capture/transforms.json"), bad).unwrap();
        refused(path, &TRAIN, INPUT, &["transforms.json"]);
        assert!(!path.join("out").exists(), "{bad}");
    }
    for camera in [
        "{",
        r#"{"width": 0, "height": 9, "eye": [0,0,1], "target": [0,0,0]}"#,
    ] {
        let folder = small_capture();
        ok_in(folder.path(), &TRAIN);
        std::fs::write(folder.path().join("camera.json"), camera).unwrap();
        let args = [
            "render",
            "out/splats.ply",
            "--camera",
            "camera.json",
            "-o",
            "a.png",
        ];
        refused(folder.path(), &args, INPUT, &["camera.json"]);
    }
}

#[test]
fn photos_that_cannot_be_used() {
    let capture = TextCapture::new();
    let good = std::fs::read(capture.path("images/b.png")).unwrap();
    std::fs::remove_file(capture.path("images/b.png")).unwrap();
    capture.refused(INPUT, &["b.png", "missing"]);
    capture.write("images/b.png", "this is no picture");
    capture.refused(INPUT, &["b.png"]);
    capture.write("images/b.png", &good[..good.len() / 2]);
    capture.refused(INPUT, &["b.png", "decoded"]);
    RgbImage::new(40, 24)
        .save(capture.path("images/b.png"))
        .unwrap();
    capture.refused(INPUT, &["b.png", "40x24", "32x24"]);
    // A JPEG of four components: the program reads its frame header only.
    let mut jpeg = std::io::Cursor::new(Vec::new());
    RgbImage::new(32, 24)
        .write_to(&mut jpeg, image::ImageFormat::Jpeg)
        .unwrap();
    let mut jpeg = jpeg.into_inner();
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    jpeg[frame + 9] = 4;
    capture.write("images/b.png", &jpeg);
    capture.refused(UNSUPPORTED, &["b.png", "CMYK"]);
}

#[test]
fn sixteen_bit_photos_are_rounded_and_it_is_said() {
    let capture = TextCapture::new();
    let deep: ImageBuffer<Rgb<u16>, Vec<u16>> = ImageBuffer::from_pixel(32, 24, Rgb([30_000; 3]));
    deep.save(capture.path("images/b.png")).unwrap();
    let mut args: Vec<&str> = TRAIN.to_vec();
    args.retain(|arg| *arg != "-q");
    let ran = ok_in(capture.folder.path(), &args);
    assert!(ran.stderr.contains("16 bits"), "{}", ran.stderr);
}

#[test]
fn captures_with_too_little_in_them() {
    let capture = TextCapture::new();
    capture.write("sparse/0/images.txt", "1 1 0 0 0 0 0 4 1 a.png\n\n");
    capture.refused(INPUT, &["a.png", "single"]);
    capture.write("sparse/0/images.txt", "# nothing\n");
    capture.refused(INPUT, &[]);

    let capture = TextCapture::new();
    let eval = ["--eval-every", "1"];
    refused(
        capture.folder.path(),
        &[&TRAIN[..], &eval].concat(),
        INPUT,
        &["eval_every"],
    );
    ok_in(capture.folder.path(), &TRAIN);
    let eval = ["eval", "capture", "out/splats.ply", "--eval-every", "0"];
    refused(capture.folder.path(), &eval, INPUT, &["--eval-every"]);
}

#[test]
fn colmap_captures_without_points() {
    let capture = TextCapture::new();
    let path = capture.folder.path();
    let bad = ["points3D.txt", "no sparse points", "--initial-gaussians"];
    for rest in ["", "# none\n", "1 nan 0 0 200 100 50 0.5\n"] {
        capture.write("sparse/0/points3D.txt", rest);
        capture.refused(INPUT, &bad);
    }
    std::fs::remove_file(capture.path("sparse/0/points3D.txt")).unwrap();
    capture.refused(INPUT, &bad);
    // A preset that sets the initial number of Gaussians does not request random ones.
    let micro = ["train", "capture", "-q", "-o", "out", "--preset", "micro"];
    refused(path, &micro, INPUT, &bad);
    refused(path, &["bench", "train", "capture", "-q"], INPUT, &bad);
    // `info` on such a capture is no error.
    let info = json(&ok_in(path, &["info", "capture", "--json"]));
    assert_eq!(info["points"], 0);

    // On request, by an option or in a file, training starts from random points and prints a note.
    let mut train: Vec<&str> = TRAIN.to_vec();
    train.retain(|arg| *arg != "-q");
    let number = "initial_gaussians = 70\n";
    let wish = "random_start = true\nmax_gaussians = 80\n";
    std::fs::write(path.join("number.toml"), number).unwrap();
    std::fs::write(path.join("wish.toml"), wish).unwrap();
    for (more, number) in [
        (["--initial-gaussians", "60"], "60"),
        (["--config", "number.toml"], "70"),
        (["--config", "wish.toml"], "80"),
    ] {
        let ran = ok_in(path, &[&train[..], &more, &["--overwrite"]].concat());
        let note = format!("no sparse points: training starts from {number} random ones");
        assert!(ran.stderr.contains(&note), "{}", ran.stderr);
    }
}

#[test]
fn numbers_that_are_none() {
    for bad in ["nan", "inf"] {
        let capture = TextCapture::new();
        capture.replace(
            "sparse/0/images.txt",
            "1 0 0 0 0 0 4",
            &format!("1 0 0 0 {bad} 0 4"),
        );
        capture.refused(INPUT, &["images.txt"]);
        let capture = TextCapture::new();
        capture.replace(
            "sparse/0/images.txt",
            "1 0 0 0 0 0 4",
            &format!("{bad} 0 0 0 0 0 4"),
        );
        capture.refused(INPUT, &["images.txt"]);
        let capture = TextCapture::new();
        capture.replace("sparse/0/cameras.txt", "40 40", &format!("{bad} 40"));
        capture.refused(INPUT, &["cameras.txt"]);
    }
    let capture = TextCapture::new();
    capture.replace("sparse/0/images.txt", "1 0 0 0 0 0 4", "0 0 0 0 0 0 4");
    capture.refused(INPUT, &["images.txt"]);
}

#[test]
fn cameras_without_an_area() {
    for (old, new) in [
        ("32 24", "0 24"),
        ("32 24", "32 0"),
        ("40 40", "0 40"),
        ("40 40", "40 -1"),
    ] {
        let capture = TextCapture::new();
        capture.replace("sparse/0/cameras.txt", old, new);
        capture.refused(INPUT, &["cameras.txt"]);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = small_capture();
    let path = folder.path();
    std::fs::write(path.join("file"), "mine").unwrap();
    let train = [
        "train", "capture", "-q", "--preset", "m8-smoke", "--steps", "1", "-o",
    ];
    refused(path, &[&train[..], &["file"]].concat(), IO, &["file"]);
    refused(
        path,
        &[&train[..], &["file/inner"]].concat(),
        IO,
        &["file/inner"],
    );
    refused(path, &["synth", "file/inner"], IO, &["file"]);
    if cfg!(target_os = "linux") {
        refused(
            path,
            &[&train[..], &["/proc/dapple"]].concat(),
            IO,
            &["/proc/dapple"],
        );
    }
    ok_in(path, &TRAIN);
    refused(
        path,
        &["convert", "out/splats.ply", "file/new.ply"],
        IO,
        &["file"],
    );
    let render = [
        "render",
        "out/splats.ply",
        "--path",
        "orbit",
        "--frames",
        "1",
        "-o",
        "file",
    ];
    refused(path, &render, IO, &["file"]);
    assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "mine");
}

/// A limit on file sizes simulates a full disk: writing fails in the middle of a file.
#[cfg(unix)]
#[test]
fn a_disk_that_fills_up() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let before = files(path);
    let script = format!(
        "trap '' XFSZ; ulimit -f 8; exec {} convert out/splats.ply new.ply",
        env!("CARGO_BIN_EXE_dapple")
    );
    let limited = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(path)
        .output()
        .unwrap();
    let ran = common::Ran::from(limited);
    assert_eq!(ran.code, IO, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error: ") && ran.stderr.contains("new.ply"),
        "{}",
        ran.stderr
    );
    assert_eq!(files(path), before, "something was left behind");
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_stream_on_a_full_disk() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = common::dapple()
        .args(["doctor", "--json"])
        .stdout(full)
        .output()
        .unwrap();
    let ran = common::Ran::from(output);
    assert_eq!(ran.code, IO, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("standard output") && ran.stderr.contains("hint: the disk is full")
    );
}

#[test]
fn mistakes_in_settings() {
    let folder = small_capture();
    let path = folder.path();
    // Unknown keys and values that contradict each other.
    for (toml, words) in [
        (
            "stepz = 5",
            &["mine.toml, line 1", "did you mean `steps`?"][..],
        ),
        (
            "steps = 5\n[densify]\nstrat = 1",
            &["mine.toml, line 3", "`start`"],
        ),
        ("steps = \"many\"", &["mine.toml, line 1"]),
        ("steps = [", &["mine.toml, line 1"]),
        ("preset = \"m11\"", &["mine.toml, line 1", "m11"]),
    ] {
        std::fs::write(path.join("mine.toml"), toml).unwrap();
        let args = ["train", "capture", "-o", "out", "--config", "mine.toml"];
        refused(path, &args, INPUT, words);
        assert!(!path.join("out").exists());
    }
    refused(
        path,
        &[&TRAIN[..], &["--device", "gpu:no such device"]].concat(),
        UNSUPPORTED,
        &["--device gpu:no such device"],
    );
    refused(
        path,
        &[&TRAIN[..], &["--device", "gpu:0", "--threads", "2"]].concat(),
        INPUT,
        &["--device gpu:0 --threads 2", "omit --threads"],
    );
    let of_gpu = ["--device", "cpu", "--gpu-memory", "1GiB"];
    refused(
        path,
        &[&TRAIN[..], &of_gpu].concat(),
        INPUT,
        &["--device cpu --gpu-memory", "omit --gpu-memory"],
    );
    refused(
        path,
        &[&TRAIN[..], &["--threads", "0"]].concat(),
        INPUT,
        &["--threads"],
    );
    refused(
        path,
        &["convert", "a.ply", "b.ksplat"],
        UNSUPPORTED,
        &["b.ksplat"],
    );
    refused(
        path,
        &[&TRAIN[..], &["--strategy", "mcmc"]].concat(),
        INPUT,
        &["densify.enabled = false", "choose a preset that densifies"],
    );
    let mcmc = ["train", "capture", "-q", "-o", "out", "--strategy", "mcmc"];
    refused(
        path,
        &[&mcmc[..], &["--absgrad"]].concat(),
        INPUT,
        &["densify.absgrad", "remove absgrad"],
    );
    for (mode, words) in [
        (&["--mask-mode", "segment"][..], "no photo has a mask"),
        (&["--invert-masks"], "inverted, but no photo has one"),
    ] {
        let args = [&["train", "capture", "-q", "-o", "out"], mode].concat();
        refused(path, &args, INPUT, &[words, "masks/"]);
    }
    // Errors of the command-line parser: they state the place and the remedy in the parser's own
    // words.
    for (args, words) in [
        (
            &["train", "capture", "--preset", "m11"][..],
            &["'m11'", "--preset", "possible values", "hint:"][..],
        ),
        (
            &["train", "capture", "--device", "cuda"],
            &["'cuda'", "--device", "gpu:N", "hint:"],
        ),
        (
            &["train", "capture", "--strategy", "mcmd"],
            &["'mcmd'", "--strategy", "possible values", "hint:"],
        ),
        (
            &["train", "capture", "--stepz", "3"],
            &["--stepz", "hint:", "--steps"],
        ),
        (
            &["train", "capture", "--background", "1,2"],
            &["--background", "between 0 and 1"],
        ),
        (&["train"], &["CAPTURE", "hint:"]),
        (&["paint"], &["paint", "hint:"]),
        (&["render", "a.ply", "-o", "b"], &["--path", "hint:"]),
    ] {
        let ran = run_in(path, args);
        assert_eq!(ran.code, USAGE, "{args:?}: {}", ran.stderr);
        for word in words {
            assert!(
                ran.stderr.contains(word),
                "{word:?} is missing: {}",
                ran.stderr
            );
        }
    }
    assert!(!path.join("out").exists());
}

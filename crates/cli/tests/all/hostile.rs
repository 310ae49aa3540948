//! Hostile conditions: folders that another program replaces, pipes, full disks, two writers of one file, and values
//! that mean nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use crate::common;

use common::{Ran, TRAIN, dapple, ok_in, refused, run_in, small_capture, synth};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Most time that a command may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the condition.
#[track_caller]
fn wait_for(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits for the end of a process, and kills it if it hangs.
#[track_caller]
fn ended(mut child: Child) -> Ran {
    let read = |mut pipe: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("the command hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ran {
        code: status.code().unwrap_or(-1),
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = dapple();
    command.args(args).current_dir(folder);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs a script of the shell, in which `"$DAPPLE"` is the binary.
#[cfg(unix)]
fn shell(folder: &Path, program: &[&str], script: &str) -> Ran {
    let output = Command::new(program[0])
        .args(&program[1..])
        .args(["sh", "-c", script])
        .env("DAPPLE", env!("CARGO_BIN_EXE_dapple"))
        .env("DAPPLE_DEVICE", "cpu")
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    output.unwrap().into()
}

#[cfg(unix)]
fn interrupt(child: &Child) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status().unwrap();
    assert!(sent.success());
}

const ENDLESS: [&str; 8] = [
    "train",
    "capture",
    "--preset=m9",
    "-o",
    "out",
    "--steps=10000000",
    "--eval-every=8",
    "--checkpoint-every=20",
];

#[cfg(unix)]
#[test]
fn results_are_not_written_into_a_folder_that_took_the_place_of_the_output() {
    let folder = small_capture();
    let path = folder.path();
    let elsewhere = path.join("tmp");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut command = dapple();
    command
        .args(ENDLESS)
        .current_dir(path)
        .env("TMPDIR", &elsewhere);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let run = command.spawn().unwrap();
    wait_for("a checkpoint", || {
        path.join("out/checkpoint.safetensors").exists()
    });
    std::fs::rename(path.join("out"), path.join("moved")).unwrap();
    std::fs::create_dir(path.join("out")).unwrap();
    for name in ["splats.ply", "config.toml", "notes.txt"] {
        std::fs::write(path.join("out").join(name), "mine").unwrap();
    }
    interrupt(&run);
    let ran = ended(run);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    for words in [
        "another folder has the name",
        "saved in another place",
        "  hint: ",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    for name in ["splats.ply", "config.toml", "notes.txt"] {
        assert_eq!(std::fs::read(path.join("out").join(name)).unwrap(), b"mine");
    }
    assert_eq!(std::fs::read_dir(path.join("out")).unwrap().count(), 3);
    let saved = elsewhere.join("dapple-out-splats.ply");
    assert!(
        ran.stderr.contains(saved.to_str().unwrap()),
        "{}",
        ran.stderr
    );
    ok_in(path, &["info", saved.to_str().unwrap()]);
}

#[cfg(unix)]
#[test]
fn an_output_folder_that_was_removed_is_made_again_with_a_note() {
    let folder = small_capture();
    let path = folder.path();
    let run = start(path, &ENDLESS);
    wait_for("a checkpoint", || {
        path.join("out/checkpoint.safetensors").exists()
    });
    std::fs::rename(path.join("out"), path.join("moved")).unwrap();
    interrupt(&run);
    let ran = ended(run);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("removed or moved out"),
        "{}",
        ran.stderr
    );
    for name in [
        "splats.ply",
        "config.toml",
        "capture.json",
        "checkpoint.safetensors",
    ] {
        assert!(path.join("out").join(name).is_file(), "{name}");
    }
}

#[test]
fn depths_that_a_png_does_not_hold_are_counted() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let render = |unit: &str, more: &[&str]| {
        let args = [
            "render",
            "out",
            "--views",
            "held-out",
            "--channel",
            "depth",
            "-o",
            "d",
        ];
        ok_in(
            path,
            &[&args[..], &["--overwrite", "--depth-unit", unit], more].concat(),
        )
        .stderr
    };
    let stderr = render("1e-6", &[]);
    assert!(
        stderr.contains("are deeper than 0.065535 world units"),
        "{stderr}"
    );
    assert!(stderr.contains("hint: `--depth-unit "), "{stderr}");
    let stderr = render("1000", &[]);
    assert!(stderr.contains("0 was written"), "{stderr}");
    let stderr = render("0.001", &[]);
    assert!(!stderr.contains("deeper"), "{stderr}");
    let stderr = render("1e-6", &["--format", "exr"]);
    assert!(!stderr.contains("deeper"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn pipes_in_the_place_of_files_are_refused_and_not_waited_for() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let pipe = |name: &str| {
        let file = path.join(name);
        let _ = std::fs::remove_file(&file);
        let made = Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
    };
    let is_refused = |args: &[&str]| {
        let ran = ended(start(path, args));
        assert_eq!(ran.code, 3, "{args:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("it is a named pipe"),
            "{args:?}: {}",
            ran.stderr
        );
    };
    for name in ["a.ply", "a.spz", "a.glb"] {
        pipe(name);
        is_refused(&["info", name]);
    }
    is_refused(&["edit", "out", "b.ply", "--merge", "a.ply"]);
    pipe("out/checkpoint.safetensors");
    is_refused(&["train", "--resume", "out"]);
    let train = ["train", "capture", "-o", "new", "--preset", "m8-smoke"];
    for name in ["sparse/0/points3D.bin", "sparse/0/cameras.bin"] {
        pipe(&format!("capture/{name}"));
        is_refused(&train);
    }
    std::fs::remove_dir_all(path.join("capture")).unwrap();
    synth(path, &[]);
    // A pipe is no photo.
    pipe("capture/images/000.png");
    let ran = ended(start(path, &train));
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("000.png"), "{}", ran.stderr);
    // The pipe of a shell has a writer.
    let ran = shell(
        path,
        &["env"],
        "cat out/splats.ply | \"$DAPPLE\" info /dev/stdin",
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_file_to_save_edits_to_is_refused_before_the_viewer_starts() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    for name in ["b.ply", "c.recipe.json"] {
        std::fs::write(path.join(name), "mine").unwrap();
    }
    for (name, there) in [("b.ply", "b.ply"), ("c.ply", "c.recipe.json")] {
        let view = ["view", "out", "--port=0", "--save", name];
        let ran = ended(start(path, &view));
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        assert!(
            ran.stderr.contains("the output exists already"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stderr.contains(&format!("at: {there}")),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn outputs_that_exist_are_refused_before_a_loss_is_measured() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let convert = [
        "convert",
        "out",
        "new",
        "--max-loss=50dB",
        "--capture=capture",
    ];
    for name in ["new.sog", "new.spz", "new.compressed.ply"] {
        std::fs::write(path.join(name), "mine").unwrap();
    }
    let ran = ok_in(path, &convert);
    assert!(
        ran.stderr
            .contains("note: .sog is not tried: new.sog exists"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stderr.contains("tried .sog"), "{}", ran.stderr);
    assert!(path.join("new.ply").is_file());
    let ran = refused(path, &convert, 3, &["exists already"]);
    assert!(!ran.stderr.contains("tried ."), "{}", ran.stderr);
    assert_eq!(std::fs::read(path.join("new.sog")).unwrap(), b"mine");
}

#[test]
fn a_configuration_edited_by_hand_is_not_replaced_without_a_word() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&TRAIN[..], &["--stop-at=6"]].concat());
    let config = path.join("out/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let edited = text.replace("\nseed = 0\n", "\nseed = 7\n");
    assert_ne!(edited, text);
    std::fs::write(&config, &edited).unwrap();
    let resume = ["train", "-q", "--resume", "out"];
    refused(
        path,
        &resume,
        3,
        &[
            "changed by hand",
            "seed = 7, and the run has 0",
            "config.toml",
        ],
    );
    assert_eq!(std::fs::read_to_string(&config).unwrap(), edited);
    // A comment changes no setting.
    std::fs::write(&config, format!("{text}\n# mine\n")).unwrap();
    ok_in(path, &resume);
}

#[test]
fn options_that_a_resumed_run_has_anyway_are_accepted() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&TRAIN[..], &["--stop-at=6"]].concat());
    let resume = |more: &'static str| ["train", "-q", "--resume", "out", more];
    refused(
        path,
        &resume("--stop-at=13"),
        3,
        &["after the last step, 12", "omit --stop-at"],
    );
    assert!(
        !run_in(path, &resume("--stop-at=13"))
            .stderr
            .contains("raise --steps")
    );
    refused(
        path,
        &resume("--eval-every=3"),
        3,
        &["contradict", "eval_every = 3"],
    );
    ok_in(
        path,
        &[
            "train",
            "-q",
            "--resume",
            "out",
            "--eval-every=8",
            "--stop-at=8",
        ],
    );
    // A capture with its own split.
    std::fs::write(path.join("capture/test.txt"), "000.png\n004.png\n").unwrap();
    ok_in(
        path,
        &[&TRAIN[..], &["--stop-at=6", "--overwrite"]].concat(),
    );
    refused(path, &resume("--eval-every=8"), 3, &["own split"]);
}

#[test]
fn numbers_of_threads_in_the_environment_are_bounded() {
    let folder = small_capture();
    for (number, is_used) in [
        ("99999999", false),
        ("0", false),
        ("abc", false),
        ("", false),
        ("1", true),
    ] {
        let ran: Ran = dapple()
            .args(["info", "capture"])
            .env("RAYON_NUM_THREADS", number)
            .current_dir(folder.path())
            .output()
            .unwrap()
            .into();
        assert_eq!(ran.code, 0, "{number}: {}", ran.stderr);
        let note = format!("note: RAYON_NUM_THREADS={number} is not used");
        assert_eq!(
            ran.stderr.contains(&note),
            !is_used,
            "{number}: {}",
            ran.stderr
        );
    }
}

#[test]
fn of_two_commands_that_write_one_output_one_is_refused() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let both = |first: &[&str], second: &[&str]| {
        let runs = [first, second].map(|args| start(path, args));
        let ran = runs.map(ended);
        let mut codes = ran.each_ref().map(|ran| ran.code);
        codes.sort_unstable();
        assert_eq!(codes, [0, 3], "{}\n{}", ran[0].stderr, ran[1].stderr);
        let loser = &ran[usize::from(ran[0].code == 0)];
        assert!(loser.stderr.contains("  hint: "), "{}", loser.stderr);
        usize::from(ran[0].code != 0)
    };
    for round in 0..3 {
        let name = format!("{round}.ply");
        let convert = |degree| ["convert", "out", &*name, "--no-loss", "--sh-degree", degree];
        let winner = both(&convert("0"), &convert("1"));
        let info = ok_in(path, &["info", &name]).stdout;
        assert!(
            info.contains(&format!("SH degree    {winner}")),
            "{winner}: {info}"
        );
        let made = format!("made{round}");
        let synth = |points| {
            let size = ["--photos=3", "--width=32", "--height=24"];
            [&["synth", &*made, "--points", points][..], &size].concat()
        };
        let winner = both(&synth("50"), &synth("60"));
        let info = ok_in(path, &["info", &made]).stdout;
        let points = format!("points       {}", [50, 60][winner]);
        assert!(info.contains(&points), "{winner}: {info}");
    }
}

#[test]
fn a_start_that_has_fewer_gaussians_than_named_is_noted() {
    let folder = small_capture();
    let train = [
        "train",
        "capture",
        "-o",
        "out",
        "--preset",
        "m8-smoke",
        "--steps=2",
    ];
    let ran = ok_in(
        folder.path(),
        &[&train[..], &["--initial-gaussians=500"]].concat(),
    );
    let note = "initial_gaussians = 500, and the 200 sparse points give 200";
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
}

#[test]
fn lenses_that_show_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    synth(path, &["--lens", "simple-radial"]);
    ok_in(path, &["info", "capture"]);
    let file = path.join("capture/sparse/0/cameras.bin");
    let cameras = std::fs::read(&file).unwrap();
    for k in [1e10_f64, -1e10] {
        let mut changed = cameras.clone();
        let at = changed.len() - 8;
        changed[at..].copy_from_slice(&k.to_le_bytes());
        std::fs::write(&file, changed).unwrap();
        refused(
            path,
            &["info", "capture"],
            3,
            &["is impossible: SIMPLE_RADIAL", "e10"],
        );
    }
}

#[test]
fn messages_name_the_fault_and_the_remedy() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let check_message = |args: &[&str], code: i32, words: &[&str], not: &[&str]| {
        let ran = run_in(path, args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        for word in words {
            assert!(
                ran.stderr.contains(word),
                "{args:?}: {word}: {}",
                ran.stderr
            );
        }
        for word in not {
            assert!(
                !ran.stderr.contains(word),
                "{args:?}: {word}: {}",
                ran.stderr
            );
        }
    };
    check_message(
        &["resume", "out"],
        2,
        &["`dapple train --resume OUT`"],
        &["dapple resume --help"],
    );
    check_message(&["fly"], 2, &["`dapple --help` lists"], &["dapple fly"]);
    let red = ["train", "capture", "--background", "red"];
    check_message(&red, 2, &["1,0,0 for red"], &["float literal"]);
    let edit = |more: &[&'static str]| [&["edit", "out", "new.ply"][..], more].concat();
    check_message(
        &edit(&["--prune", "abc"]),
        2,
        &["a share in percent"],
        &["separated by commas"],
    );
    check_message(
        &edit(&["--scale", "1e308"]),
        2,
        &["scaled by 1e308"],
        &["0000000000"],
    );
    check_message(
        &edit(&["--translate", "1e308,0,0"]),
        2,
        &["moved by 1e308"],
        &[],
    );
    let images = edit(&["--merge", "capture/images/000.png"]);
    check_message(
        &images,
        3,
        &["no file of splats", "000.png", ".spz"],
        &["not a PLY file"],
    );
    for action in [r#"{"keep": "weight>1"}"#, r#"{"decimate": {"to": "x"}}"#] {
        let recipe = format!(r#"{{"dapple_recipe": 1, "actions": [{action}]}}"#);
        std::fs::write(path.join("r.json"), recipe).unwrap();
        check_message(
            &edit(&["--recipe", "r.json"]),
            3,
            &["at: r.json, line 1", "\n  hint: "],
            &["\\n"],
        );
    }
    let camera = |more: &str| {
        let text = format!(r#"{{"width": 9, "height": 9, "eye": [1, 2, 3], {more}}}"#);
        std::fs::write(path.join("camera.json"), text).unwrap();
        ["render", "out", "--camera", "camera.json", "-o", "c.png"]
    };
    check_message(
        &camera(r#""target": [1, 2, 3]"#),
        3,
        &["are one point", "camera.json"],
        &[],
    );
    let wide = camera(r#""target": [0, 0, 0], "field_of_view": 180"#);
    check_message(&wide, 3, &["field_of_view 180 is not"], &[]);
    let file = path.join("capture/sparse/0/points3D.bin");
    let mut points = std::fs::read(&file).unwrap();
    points[..8].fill(0xff);
    std::fs::write(&file, points).unwrap();
    check_message(
        &["info", "capture"],
        3,
        &["18446744073709551615 points"],
        &["not text"],
    );
}

#[test]
fn a_merged_file_that_was_moved_is_noted() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    ok_in(
        path,
        &["edit", "out", "moved.ply", "-q", "--translate", "1,0,0"],
    );
    let note = "moved since training, and not as";
    let merge = |input: &str, more: &[&str]| {
        let edit = ["edit", input, "both.ply", "--overwrite"];
        ok_in(path, &[&edit[..], more].concat()).stderr
    };
    let stderr = merge("out", &["--merge", "moved.ply"]);
    assert!(stderr.contains(note), "{stderr}");
    let stderr = merge("out", &["--translate", "1,0,0", "--merge", "moved.ply"]);
    assert!(!stderr.contains(note), "{stderr}");
    let stderr = merge("moved.ply", &["--merge", "moved.ply"]);
    assert!(!stderr.contains(note), "{stderr}");
}

/// The checkpoints of this run do not fit, and the splats do.
#[cfg(unix)]
#[test]
fn a_run_continues_if_only_its_checkpoints_do_not_fit() {
    let folder = small_capture();
    let train = "trap '' XFSZ; ulimit -f 200; exec \"$DAPPLE\" train capture -o out --preset m9 --steps 30 \
                 --checkpoint-every 10";
    let ran = shell(folder.path(), &["env"], train);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("no checkpoint after"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ulimit -f"), "{}", ran.stderr);
    ok_in(folder.path(), &["info", "out/splats.ply"]);
}

/// Neither fits into a small file system: the splats are saved in another place. Skipped where no file system can be
/// mounted.
#[cfg(target_os = "linux")]
#[test]
fn splats_that_do_not_fit_are_saved_in_another_place() {
    let folder = small_capture();
    let path = folder.path();
    std::fs::create_dir(path.join("tmp")).unwrap();
    std::fs::create_dir(path.join("out")).unwrap();
    let private = ["unshare", "-rm"];
    let mount = "mount -t tmpfs -o size=24k none out";
    let mut tried = Command::new("unshare");
    tried.args(["-rm", "sh", "-c", mount]);
    let can_mount = tried
        .current_dir(path)
        .output()
        .is_ok_and(|ran| ran.status.success());
    if !can_mount {
        return;
    }
    let train = format!(
        "{mount} && TMPDIR=\"$PWD/tmp\" exec \"$DAPPLE\" train capture -o out --preset m9 --steps 30 --checkpoint-every 10"
    );
    let ran = shell(path, &private, &train);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let saved = path.join("tmp/dapple-out-splats.ply");
    for words in [
        "no checkpoint after",
        "saved in another place",
        saved.to_str().unwrap(),
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    ok_in(path, &["info", saved.to_str().unwrap()]);
}

/// A terminal that closes ends the run as Ctrl-C does, and the summary that has no terminal is no error. Skipped
/// without the program `script`, which opens a terminal.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_terminal_closes_ends_as_an_interrupted_one() {
    let folder = small_capture();
    let path = folder.path();
    let train = "trap : HUP; \"$DAPPLE\" train capture --preset=m9 -o out --steps=10000000 --checkpoint-every=20; \
                 echo $? > code.part; mv code.part code";
    std::fs::write(path.join("train.sh"), train).unwrap();
    let mut command = Command::new("script");
    command
        .args(["-qc", "sh train.sh", "/dev/null"])
        .env("DAPPLE", env!("CARGO_BIN_EXE_dapple"))
        .env("DAPPLE_DEVICE", "cpu")
        .current_dir(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let Ok(mut terminal) = command.spawn() else {
        return;
    };
    wait_for("a checkpoint", || {
        path.join("out/checkpoint.safetensors").exists()
    });
    let lock = std::fs::read_to_string(path.join("out/.dapple.lock")).unwrap();
    // The second line: `process 7 on HOST, since TIME`.
    let holder = lock.lines().nth(1).unwrap();
    let process = holder.split_whitespace().nth(1).unwrap();
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    // The kernel may have sent the signal already.
    let _ = Command::new("kill").args(["-HUP", process]).status();
    wait_for("the end of the run", || path.join("code").exists());
    let code = std::fs::read_to_string(path.join("code")).unwrap();
    assert_eq!(code.trim(), "130");
    assert!(path.join("out/splats.ply").is_file());
}

//! `dapple view`, and training runs in a viewer: the served content, and that it changes nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use common::{TRAIN, dapple, ok_in, refused, small_capture};
use page::{Browser, Served, chromium};
use serde_json::json;
use std::path::Path;

/// A run that densifies, with enough steps to be viewed for some seconds.
const LONG: [&str; 6] = ["train", "capture", "--preset", "m9", "--view", "--port=0"];

fn splats(folder: &Path, out: &str) -> Vec<u8> {
    std::fs::read(folder.join(out).join("splats.ply")).unwrap()
}

#[test]
fn a_run_has_the_same_bytes_whoever_looks() {
    let folder = small_capture();
    let alone = [
        "train",
        "capture",
        "-q",
        "--preset",
        "m9",
        "--steps=400",
        "-o",
        "alone",
    ];
    ok_in(folder.path(), &alone);
    let served = Served::start(
        dapple()
            .args(LONG)
            .args(["-o", "seen", "--steps=400", "--view-share", "0.8"])
            .current_dir(folder.path()),
    );
    let mut page = served.page();
    let mut pictures = 0;
    let mut paused = false;
    let mut last_note = String::new();
    let ended = std::cell::Cell::new(false);
    let mut hear = |said: serde_json::Value| {
        ended.set(ended.get() || !said["train_on"].is_null());
        paused |= said["paused"] == true;
        if let Some(note) = said["note"].as_str() {
            last_note = note.to_owned();
        }
    };
    // The page moves all the time, pauses the run, makes single steps, and requests a checkpoint.
    for id in 0.. {
        if ended.get() || !page.look(id, f64::from(id) * 0.1) {
            break;
        }
        let command = match id {
            3 => "pause",
            5 => "step",
            7 => "save",
            14 => "resume",
            _ => "",
        };
        if !command.is_empty() {
            page.say(&json!({"type": "run", "command": command}));
        }
        match page.picture(&mut hear) {
            Some(_) => pictures += 1,
            None => break,
        }
    }
    // The run waits for its page, which closes.
    drop(page);
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(pictures > 10, "only {pictures} pictures: {said}");
    assert!(paused, "it was never paused");
    assert!(
        last_note.contains("finished after 400 steps"),
        "{last_note}"
    );
    assert_eq!(
        splats(folder.path(), "alone"),
        splats(folder.path(), "seen")
    );
}

#[test]
fn a_page_that_never_reads_and_one_that_vanishes_end_no_run() {
    let folder = small_capture();
    let served = Served::start(
        dapple()
            .args(LONG)
            .args(["-o", "out", "--steps=400"])
            .current_dir(folder.path()),
    );
    let mut stuck = served.page();
    let mut lost = served.page();
    for id in 0..300 {
        stuck.look(id, 0.1);
        lost.look(id, 0.2);
    }
    drop(lost);
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(!splats(folder.path(), "out").is_empty());
}

#[cfg(unix)]
#[test]
fn connections_without_a_token_cost_a_run_no_file() {
    let folder = small_capture();
    let run = "ulimit -n 256; exec \"$DAPPLE\" train capture -v --preset m9 --view --port=0 -o out --steps=1000 \
               --checkpoint-every 100";
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", run])
        .env("DAPPLE", dapple().get_program())
        .env("DAPPLE_DEVICE", "cpu")
        .current_dir(folder.path());
    let served = Served::start(&mut shell);
    let address = served.host().parse().unwrap();
    let mut open = std::collections::VecDeque::new();
    let (mut opened, mut refused) = (0, 0);
    // Without a free descriptor the server lets connections wait. The run may end before all are
    // made.
    while opened < 2000 && refused < 5 {
        let patience = std::time::Duration::from_secs(2);
        match std::net::TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                opened += 1;
                open.push_back(stream);
            }
            Err(_) => refused += 1,
        }
        // The limit of this process is unknown.
        if open.len() > 400 {
            open.pop_front();
        }
    }
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(opened > 256, "{opened} connections: {said}");
    for step in (100..1000).step_by(100) {
        let wanted = format!("step {step}: checkpoint\n");
        assert!(said.contains(&wanted), "{wanted}{said}");
    }
    assert!(!splats(folder.path(), "out").is_empty());
    assert!(folder.path().join("out/metrics.json").exists());
}

#[cfg(unix)]
#[test]
fn a_page_that_pauses_a_run_and_vanishes_is_reported_and_the_run_stays_paused() {
    let folder = small_capture();
    let mut served = Served::start(
        dapple()
            .args(LONG)
            .args(["-o", "out", "--steps=1000000"])
            .current_dir(folder.path()),
    );
    let mut page = served.page();
    // Commands that arrive before the run is shown are dropped.
    page.told(|said| said["type"] == "stage");
    page.say(&json!({"type": "run", "command": "pause"}));
    page.told(|said| said["paused"] == true);
    drop(page);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert!(served.child.try_wait().unwrap().is_none(), "it is paused");
    let mut page = served.page();
    page.told(|said| said["paused"] == true);
    let process = served.child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &process])
        .status();
    assert!(sent.unwrap().success());
    let (code, said) = served.end();
    assert_eq!(code, 130, "{said}");
    assert!(folder.path().join("out/checkpoint.safetensors").exists());
    assert_eq!(
        said.matches("page that paused it has gone").count(),
        1,
        "{said}"
    );
    assert!(said.contains("press Resume"), "{said}");
}

#[test]
fn a_video_without_ffmpeg_says_what_is_missing() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let film = [
        "render", "out", "--path", "orbit", "--frames", "2", "--width", "32", "-o", "film.mp4",
    ];
    let ran = dapple()
        .args(film)
        .current_dir(folder.path())
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(5), "{said}");
    assert!(said.contains("hint: install ffmpeg"), "{said}");
    assert!(!folder.path().join("film.mp4").exists());
    refused(
        folder.path(),
        &["render", "out", "--path", "none.json", "-o", "x"],
        4,
        &["none.json"],
    );
    std::fs::write(folder.path().join("bad.json"), "{}").unwrap();
    refused(
        folder.path(),
        &["render", "out", "--path", "bad.json", "-o", "x"],
        3,
        &["not a camera path"],
    );
}

#[cfg(unix)]
#[test]
fn a_video_is_made_by_ffmpeg_from_numbered_pictures() {
    use std::os::unix::fs::PermissionsExt;
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    // Substitute for the real `ffmpeg`, which counts the frames it receives.
    let tool = folder.path().join("ffmpeg");
    let script = "#!/bin/sh\n[ \"$1\" = -version ] && exit 0\nfor last; do :; done\n\
                  while [ \"$1\" != -i ]; do shift; done\nls \"$(dirname \"$2\")\" | grep -c png > \"$last\"\n";
    std::fs::write(&tool, script).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let film = [
        "render", "out", "--path", "orbit", "--frames", "4", "--width", "32", "-o", "film.mp4",
    ];
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let ran = dapple()
        .args(film)
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let made = std::fs::read_to_string(folder.path().join("film.mp4")).unwrap();
    assert_eq!(made.trim(), "4");
    let left = common::files(folder.path());
    assert!(
        !left
            .iter()
            .any(|f| f.to_string_lossy().contains(".dapple-")),
        "{left:?}"
    );
    refused(folder.path(), &film, 3, &["exists already"]);
}

#[test]
fn a_port_that_is_taken_is_refused_before_anything_is_made() {
    let folder = small_capture();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let view = ["train", "capture", "-o", "out", "--view", "--port", &port];
    refused(folder.path(), &view, 5, &["another program listens"]);
    assert!(!folder.path().join("out").exists());
    ok_in(folder.path(), &TRAIN);
    refused(
        folder.path(),
        &["view", "out", "--port", &port],
        5,
        &["another program"],
    );
    let share = [
        "train",
        "capture",
        "-o",
        "new",
        "--view",
        "--view-share",
        "7",
    ];
    refused(folder.path(), &share, 3, &["--view-share"]);
    refused(folder.path(), &["view", "nothing"], 4, &["nothing"]);
}

#[test]
fn a_browser_shows_a_training_and_steers_it() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    let served = Served::start(
        dapple()
            .args(LONG)
            .args(["-o", "out", "--steps=3000", "--view-share", "0.9"])
            .current_dir(folder.path()),
    );
    let mut browser = Browser::open(&chromium, &folder.path().join("profile"));
    browser.call("Page.navigate", &json!({"url": served.url}));
    let shown = "Number(document.getElementById('picture')?.dataset.look)";
    browser.wait_for(&format!("{shown} > 0"));
    // The token is not in the address that people copy.
    assert_eq!(browser.value("location.search"), json!(""));
    assert_eq!(
        browser.value("document.querySelectorAll('#list button').length"),
        json!(9)
    );
    browser.value("document.getElementById('pause').click()");
    browser.wait_for("document.getElementById('progress').textContent.includes('paused')");
    let step = "Number(document.getElementById('progress').textContent.match(/step (\\d+)/)[1])";
    let before = browser.value(step).as_i64().unwrap();
    browser.value("document.getElementById('step').click()");
    browser.wait_for(&format!("{step} === {}", before + 1));
    browser.value("document.getElementById('save').click()");
    let checkpoint = folder.path().join("out/checkpoint.safetensors");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !checkpoint.exists() {
        assert!(std::time::Instant::now() < until, "no checkpoint");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(
        browser.value(step).as_i64().unwrap(),
        before + 1,
        "it rests on"
    );

    // A photo's camera, its comparisons, and every channel: each gives another frame.
    browser.value("document.querySelectorAll('#list button')[2].click()");
    let frames =
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))";
    let mut pictures = Vec::new();
    for channel in ["rgb", "depth", "normals", "alpha", "error"] {
        // All earlier requests are answered, so that the next frame is of this channel.
        browser.value(frames);
        browser.wait_for(&format!(
            "{shown} === Number(document.getElementById('view').dataset.asked)"
        ));
        let last = browser.value(shown).as_i64().unwrap();
        browser.choose("show", channel);
        browser.wait_for(&format!("{shown} > {last}"));
        pictures.push(browser.value("document.getElementById('picture').toDataURL()"));
    }
    for (i, picture) in pictures.iter().enumerate() {
        assert!(
            pictures[..i].iter().all(|other| other != picture),
            "channel {i}"
        );
    }
    for mode in ["slider", "difference"] {
        browser.choose("compare", mode);
        browser.wait_for("document.getElementById('photo').naturalWidth === 48");
        assert_eq!(
            browser.value("document.getElementById('photo').className"),
            json!(mode)
        );
    }
    // A drag ends the view through the photo's camera and turns.
    let last = browser.value(shown).as_i64().unwrap();
    browser.drag([300.0, 300.0], [400.0, 320.0]);
    browser.wait_for(&format!("{shown} > {last}"));
    assert_eq!(
        browser.value("document.getElementById('photo').hidden"),
        json!(true)
    );
    browser.key("1");
    // A path of two views: played, saved, and rendered by the binary.
    browser.value("document.getElementById('key').click()");
    browser.drag([300.0, 300.0], [500.0, 320.0]);
    browser.key("k");
    let told = "document.getElementById('keys-told').textContent";
    browser.wait_for(&format!("{told}.includes('2 keys')"));
    let last = browser.value(shown).as_i64().unwrap();
    browser.key("p");
    browser.wait_for(&format!("{shown} > {}", last + 3));
    browser.value("URL.createObjectURL = (blob) => { window.saved = blob; return 'blob:none'; }");
    browser.value("HTMLAnchorElement.prototype.click = () => {}");
    browser.value("document.getElementById('path-save').click()");
    let saved = browser.value("window.saved.text()");
    std::fs::write(folder.path().join("tour.json"), saved.as_str().unwrap()).unwrap();
    // Phone width: the panel goes below.
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        &json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}),
    );
    browser.wait_for("document.getElementById('view').clientWidth === 390");
    assert_eq!(browser.value("document.body.scrollWidth"), json!(390));
    browser.value("document.getElementById('pause').click()");
    browser.wait_for(&format!("{step} > {}", before + 1));
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
    ok_in(
        folder.path(),
        &TRAIN.map(|arg| if arg == "out" { "flown" } else { arg }),
    );
    let fly = [
        "render",
        "flown",
        "--path",
        "tour.json",
        "--width",
        "64",
        "--height",
        "48",
    ];
    ok_in(
        folder.path(),
        &[&fly[..], &["--frames", "3", "-o", "film"]].concat(),
    );
    assert_eq!(
        common::files(&folder.path().join("film"))
            .iter()
            .filter(|f| f.extension().is_some_and(|e| e == "png"))
            .count(),
        3
    );
    // The page reports the end of the run, and the last frame stays.
    drop(served);
    browser
        .wait_for("document.getElementById('notice').textContent.includes('connection has ended')");
}

#[test]
fn a_browser_looks_at_a_run_and_at_a_capture() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    for (what, is_run) in [
        (vec!["view", "out", "--port=0"], true),
        (vec!["view", "out", "--scene", "capture", "--port=0"], true),
        (vec!["view", "capture", "--port=0"], false),
        (vec!["view", "out/splats.ply", "--port=0"], false),
    ] {
        let served = Served::start(dapple().args(&what).current_dir(folder.path()));
        let mut browser = Browser::open(&chromium, &folder.path().join("profile"));
        browser.call("Page.navigate", &json!({"url": served.url}));
        browser.wait_for("Number(document.getElementById('picture')?.dataset.look) > 0");
        let buttons = browser.value("document.querySelectorAll('#list button').length");
        assert_eq!(buttons, json!(9), "{what:?}");
        // A run can be trained on, and nothing can be paused.
        let hidden = |id: &str| format!("document.getElementById('{id}').hidden");
        assert_eq!(browser.value(&hidden("run")), json!(!is_run), "{what:?}");
        if is_run {
            browser.wait_for(&hidden("run-buttons"));
            browser.wait_for(&format!("!{}", hidden("train-on")));
        }
        assert!(browser.wrong.is_empty(), "{what:?}: {:?}", browser.wrong);
    }
}

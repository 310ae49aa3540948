//! Frames of the viewer's page: the pictures of `dapple render`, two models of one camera, a run at an earlier step.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use common::{SNAPPED, TRAIN, dapple, ok_in, refused, small_capture};
use page::{Browser, Served, chromium};
use serde_json::{Value, json};
use std::path::Path;

/// Limits for JPEG of quality 92: the mean difference of a value, of 255, and the share of values that are more than
/// [`FAR`] off.
const MEAN: f64 = 1.0;
const FAR: u8 = 16;
const SHARE_FAR: f64 = 0.002;

/// Limit of the mean where a frame is all edges, as for normals.
const MEAN_OF_NORMALS: f64 = 4.0;

const SHOWN: &str = "Number(document.getElementById('picture')?.dataset.look)";

/// Opens the served page in a small window.
fn open(chromium: &Path, folder: &Path, served: &Served) -> Browser {
    let mut browser = Browser::open(chromium, &folder.join("profile"));
    show(&mut browser, served);
    browser
}

/// [`open`], in an open browser.
fn show(browser: &mut Browser, served: &Served) {
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        &json!({"width": 820, "height": 360, "deviceScaleFactor": 1, "mobile": false}),
    );
    browser.call("Page.navigate", &json!({"url": served.url}));
    browser.wait_for(&format!("{SHOWN} > 0"));
}

/// Changes a control of the page, and waits for the frame that follows.
fn set(browser: &mut Browser, control: &str, value: &str, event: &str) {
    settle(browser);
    let last = browser.value(SHOWN).as_i64().unwrap();
    browser.value(&format!(
        "(() => {{ const c = document.getElementById('{control}'); c.value = '{value}'; \
         c.dispatchEvent(new Event('{event}')); }})()"
    ));
    browser.wait_for(&format!("{SHOWN} > {last}"));
    settle(browser);
}

/// Waits until the last request is answered.
fn settle(browser: &mut Browser) {
    browser.value(
        "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))",
    );
    browser.wait_for(&format!(
        "{SHOWN} === Number(document.getElementById('view').dataset.asked)"
    ));
}

/// Returns width, height and colours of a canvas of the page.
fn pixels(browser: &mut Browser, canvas: &str) -> (u32, u32, Vec<u8>) {
    let found = browser.value(&format!(
        "(() => {{ const c = document.getElementById('{canvas}'); \
         const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
         return [c.width, c.height, Array.from(data.filter((_, i) => i % 4 < 3))]; }})()"
    ));
    let side = |i: usize| found[i].as_u64().unwrap() as u32;
    let values = found[2].as_array().unwrap().iter();
    let bytes = values.map(|v: &Value| v.as_u64().unwrap() as u8).collect();
    (side(0), side(1), bytes)
}

/// Distance of a canvas from a picture of `dapple render`: the mean, and the share that is far off.
fn distance(shown: &[u8], rendered: &[u8]) -> (f64, f64) {
    assert_eq!(shown.len(), rendered.len());
    let off: Vec<u8> = shown
        .iter()
        .zip(rendered)
        .map(|(a, b)| a.abs_diff(*b))
        .collect();
    let count = off.len() as f64;
    let mean = off.iter().map(|&d| f64::from(d)).sum::<f64>() / count;
    (
        mean,
        off.iter().filter(|&&d| d > FAR).count() as f64 / count,
    )
}

/// Renders the same view as the page, and compares.
fn same_as_rendered(browser: &mut Browser, folder: &Path, what: &str, view: &[&str]) {
    let (most, share) = match what {
        "normals" => (MEAN_OF_NORMALS, 5.0 * SHARE_FAR),
        _ => (MEAN, SHARE_FAR),
    };
    let (width, height, shown) = pixels(browser, "picture");
    let (w, h) = (width.to_string(), height.to_string());
    let size = [
        "--width",
        &w,
        "--height",
        &h,
        "-o",
        "rendered",
        "--overwrite",
    ];
    ok_in(folder, &[&["render", "out", "-q"], view, &size].concat());
    let files = common::files(&folder.join("rendered"));
    let first = files
        .iter()
        .find(|f| f.extension().is_some_and(|e| e == "png"));
    let picture = image::open(folder.join("rendered").join(first.unwrap()))
        .unwrap()
        .into_rgb8();
    assert_eq!(
        (picture.width(), picture.height()),
        (width, height),
        "{what}"
    );
    let (mean, far) = distance(&shown, picture.as_raw());
    println!("{what}: {width}x{height}, mean {mean:.2}, {far:.4} of values more than {FAR} off");
    assert!(mean < most && far < share, "{what}: mean {mean}, far {far}");
    // The check can fail: the frame moved by a few pixels differs.
    let moved = &shown[3 * 12..];
    let (mean, _) = distance(moved, &picture.as_raw()[..moved.len()]);
    assert!(
        mean > 2.0 * most,
        "{what}: a picture that was moved is as near, {mean}"
    );
    std::fs::remove_dir_all(folder.join("rendered")).unwrap();
}

#[test]
fn the_page_shows_what_dapple_render_writes() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let view = ["view", "out", "--scene", "capture", "--port=0"];
    let served = Served::start(dapple().args(view).current_dir(folder.path()));
    let mut browser = open(&chromium, folder.path(), &served);
    let name =
        browser.value("document.querySelector('#list [aria-current=true] span').textContent");
    let name = name.as_str().unwrap().to_owned();
    for channel in ["rgb", "alpha", "normals"] {
        if channel != "rgb" {
            set(&mut browser, "show", channel, "change");
        }
        let of_photo = ["--scene", "capture", "--views", &name, "--channel", channel];
        same_as_rendered(&mut browser, folder.path(), channel, &of_photo);
    }
    // From a free view, with the key that the page saves.
    set(&mut browser, "show", "rgb", "change");
    browser.drag([200.0, 180.0], [320.0, 200.0]);
    browser.wait_for("document.querySelectorAll('#list [aria-current=true]').length === 0");
    // The last frame has the full size: at rest.
    browser.wait_for(
        "document.getElementById('picture').width === document.getElementById('view').clientWidth",
    );
    settle(&mut browser);
    browser.value("document.getElementById('key').click()");
    browser.value("URL.createObjectURL = (blob) => { window.saved = blob; return 'blob:none'; }");
    browser.value("HTMLAnchorElement.prototype.click = () => {}");
    browser.value("document.getElementById('path-save').click()");
    let saved = browser.value("window.saved.text()");
    std::fs::write(folder.path().join("tour.json"), saved.as_str().unwrap()).unwrap();
    let of_path = ["--path", "tour.json", "--frames", "1"];
    same_as_rendered(&mut browser, folder.path(), "a free view", &of_path);
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn the_page_counts_gaussians_and_says_the_most() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let served = Served::start(
        dapple()
            .args(["view", "out", "--scene", "capture", "--port=0"])
            .current_dir(folder.path()),
    );
    let mut browser = open(&chromium, folder.path(), &served);
    assert_eq!(
        browser.value("document.getElementById('scale').hidden"),
        json!(true)
    );
    let name =
        browser.value("document.querySelector('#list [aria-current=true] span').textContent");
    set(&mut browser, "show", "count", "change");
    let (width, height, _) = pixels(&mut browser, "picture");
    let most = browser.value("Number(document.getElementById('picture').dataset.most)");
    assert_eq!(
        browser.value("document.getElementById('scale-most').textContent"),
        json!(format!("{most} Gaussians"))
    );
    assert_eq!(
        browser.value("document.getElementById('scale').hidden"),
        json!(false)
    );
    let (w, h) = (width.to_string(), height.to_string());
    let render = [
        "render",
        "out",
        "-q",
        "--scene",
        "capture",
        "--views",
        name.as_str().unwrap(),
        "--channel",
        "count",
        "--colormap",
        "none",
        "--width",
        &w,
        "--height",
        &h,
        "-o",
        "counts.png",
    ];
    ok_in(folder.path(), &render);
    let counts = image::open(folder.path().join("counts.png"))
        .unwrap()
        .into_luma16();
    let largest = counts.as_raw().iter().copied().max().unwrap();
    assert_eq!(most, json!(largest));
    // Colours of the page's scale, within JPEG's error.
    let (_, _, shown) = pixels(&mut browser, "picture");
    let scale = |count: u16| match count {
        0 => [0; 3],
        _ => dapple::contract::score::turbo(f32::from(count) / f32::from(largest)),
    };
    let coloured: Vec<u8> = counts
        .as_raw()
        .iter()
        .flat_map(|&count| scale(count))
        .collect();
    let (mean, _) = distance(&shown, &coloured);
    println!("counts: mean {mean:.2}");
    assert!(mean < 6.0, "{mean}");
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn two_models_are_compared_and_no_more() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let short = [
        "train", "capture", "-q", "--preset", "micro", "--steps", "4", "-o", "short",
    ];
    ok_in(folder.path(), &short);
    refused(
        folder.path(),
        &["view", "out", "short", "out"],
        3,
        &["3 models are named", "a page compares two"],
    );
    refused(
        folder.path(),
        &["view", "out", "capture"],
        3,
        &["no splats to compare"],
    );
    refused(folder.path(), &["view", "out", "nothing"], 4, &["nothing"]);
    let Some(chromium) = chromium() else { return };
    let view = ["view", "out", "short", "--scene", "capture", "--port=0"];
    let served = Served::start(dapple().args(view).current_dir(folder.path()));
    let mut browser = open(&chromium, folder.path(), &served);
    assert_eq!(
        browser.value("document.getElementById('models').hidden"),
        json!(false)
    );
    assert_eq!(
        browser.value("document.getElementById('time').hidden"),
        json!(true)
    );
    for (name, model) in [("name-first", "out: "), ("name-second", "short: ")] {
        let told = browser.value(&format!("document.getElementById('{name}').textContent"));
        assert!(told.as_str().unwrap().starts_with(model), "{told}");
    }
    // First the slider: both are shown, each equal to its own frame.
    let slid = pixels(&mut browser, "picture");
    let other = pixels(&mut browser, "other");
    assert_ne!(slid, other);
    assert_eq!(
        browser.value("document.getElementById('divider').hidden"),
        json!(false)
    );
    set(&mut browser, "mode", "first", "change");
    assert_eq!(pixels(&mut browser, "picture"), slid);
    assert_eq!(
        browser.value("document.getElementById('other').hidden"),
        json!(true)
    );
    set(&mut browser, "mode", "second", "change");
    assert_eq!(pixels(&mut browser, "picture"), other);
    set(&mut browser, "mode", "difference", "change");
    assert_eq!(
        browser.value("getComputedStyle(document.getElementById('other')).mixBlendMode"),
        json!("difference")
    );
    // Side by side each has half of the width.
    set(&mut browser, "mode", "beside", "change");
    let (width, height, _) = pixels(&mut browser, "picture");
    assert!(width <= 300 && height > 100, "{width}x{height}");
    let left = "document.getElementById('other').getBoundingClientRect().left";
    assert!(browser.value(left).as_f64().unwrap() > 200.0);
    // Counts share one scale.
    set(&mut browser, "show", "count", "change");
    let both = browser.value("Number(document.getElementById('picture').dataset.most)");
    let mut alone = Vec::new();
    for mode in ["first", "second"] {
        set(&mut browser, "mode", mode, "change");
        set(&mut browser, "mode", "beside", "change");
        set(&mut browser, "mode", mode, "change");
        let most = browser.value("Number(document.getElementById('picture').dataset.most)");
        alone.push(most.as_i64().unwrap());
    }
    // At half the width a pixel covers other Gaussians, but about as many.
    let most = alone.iter().max().unwrap();
    assert!(both.as_i64().unwrap() * 3 > most * 2, "{both}, {alone:?}");
    browser.key("m");
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn the_page_goes_back_in_time() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    ok_in(
        folder.path(),
        &[&SNAPPED[..], &["out", "--steps", "40"]].concat(),
    );
    let path = |name: &str| folder.path().join("out/snapshots").join(name);
    std::fs::write(
        path("20.ply"),
        "ply\nformat binary_little_endian 1.0\nelement vertex 9\nend_header\n",
    )
    .unwrap();
    let served = Served::start(
        dapple()
            .args(["view", "out", "--scene", "capture", "--port=0"])
            .current_dir(folder.path()),
    );
    let mut browser = open(&chromium, folder.path(), &served);
    let told = "document.getElementById('moment-told').textContent";
    assert_eq!(browser.value(told), json!("now"));
    let now = pixels(&mut browser, "picture");
    set(&mut browser, "moment", "0", "input");
    assert_eq!(browser.value(told), json!("step 10 of 40"));
    let then = pixels(&mut browser, "picture");
    assert_ne!(now, then);
    // Render of that file from the same view.
    let (w, h) = (then.0.to_string(), then.1.to_string());
    let name =
        browser.value("document.querySelector('#list [aria-current=true] span').textContent");
    let render = [
        "render",
        "out/snapshots/10.ply",
        "-q",
        "--scene",
        "capture",
        "--views",
        name.as_str().unwrap(),
        "--width",
        &w,
        "--height",
        &h,
        "-o",
        "then.png",
    ];
    ok_in(folder.path(), &render);
    let rendered = image::open(folder.path().join("then.png"))
        .unwrap()
        .into_rgb8();
    let (mean, far) = distance(&then.2, rendered.as_raw());
    println!("then: mean {mean:.2}, {far:.4}");
    assert!(mean < MEAN && far < SHARE_FAR, "mean {mean}, far {far}");
    // A damaged snapshot, and one that was deleted during the run: the page shows an error, and continues.
    let notice = "document.getElementById('notice').textContent";
    let go = |place: u32| {
        format!(
            "(() => {{ const c = document.getElementById('moment'); c.value = '{place}'; \
             c.dispatchEvent(new Event('input')); }})()"
        )
    };
    browser.value(&go(1));
    browser.wait_for(&format!("{notice} !== ''"));
    let said = browser.value(notice);
    std::fs::remove_file(path("30.ply")).unwrap();
    browser.value(&go(2));
    browser.wait_for(&format!("{notice} !== '' && {notice} !== {said}"));
    browser.value(&go(3));
    settle(&mut browser);
    assert_eq!(browser.value(told), json!("now"));
    assert_eq!(pixels(&mut browser, "picture"), now);
    assert_eq!(browser.value(notice), json!(""));
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn the_page_says_how_a_run_ended_and_keeps_its_last_picture() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    for (steps, kill, says) in [
        ("900", false, "The run has finished after 900 steps"),
        ("100000", true, "The connection has ended"),
    ] {
        let out = format!("out{steps}");
        // Starts before the run, which does not wait for it: a browser takes seconds to start next to other programs.
        let mut browser = Browser::open(&chromium, &folder.path().join("profile"));
        let mut served = Served::start(
            dapple()
                .args([
                    "train", "capture", "--preset", "m9", "--view", "--port=0", "-o", &out,
                ])
                .args(["--steps", steps, "--view-share", "0.8"])
                .current_dir(folder.path()),
        );
        show(&mut browser, &served);
        browser.wait_for("document.getElementById('progress').textContent.includes('step')");
        if kill {
            served.child.kill().unwrap();
        }
        let notice = "document.getElementById('notice').textContent";
        browser.wait_for(&format!("{notice}.includes('{says}')"));
        if !kill {
            // The run waits for its page.
            served.interrupt();
        }
        let _ = served.child.wait();
        browser.wait_for(&format!("{notice}.includes('This is the last picture')"));
        let told = browser.value(notice);
        assert!(told.as_str().unwrap().contains(says), "{told}");
        // The last frame is a real image, and the page shows the last step.
        let (_, _, shown) = pixels(&mut browser, "picture");
        assert!(shown.iter().any(|&v| v > 60) && shown.iter().any(|v| v != &shown[0]));
        let progress = browser.value("document.getElementById('progress').textContent");
        assert!(progress.as_str().unwrap().contains(steps), "{progress}");
        std::fs::remove_dir_all(folder.path().join("profile")).ok();
    }
}

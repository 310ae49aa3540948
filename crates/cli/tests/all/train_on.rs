//! "Train on" from the page of a finished run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use common::{dapple, json, ok_in, small_capture};
use page::{Browser, Page, Served, chromium};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

const RUN: [&str; 7] = [
    "train",
    "capture",
    "--device=cpu",
    "--preset=m9",
    "--sh-degree=1",
    "--steps=200",
    "-q",
];

fn file(path: &Path, run: &str, name: &str) -> Vec<u8> {
    std::fs::read(path.join(run).join(name)).unwrap()
}

/// Returns the tensors of a state by name, without measured speeds. The metadata has times too.
fn tensors(path: &Path, run: &str) -> BTreeMap<String, Vec<u8>> {
    let bytes = file(path, run, "state.safetensors");
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(length);
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).unwrap();
    let timed = ["__metadata__", "history.steps_per_second"];
    let tensors = header
        .into_iter()
        .filter(|(name, _)| !timed.contains(&name.as_str()));
    let tensors = tensors.map(|(name, tensor)| {
        let at = |end: usize| tensor["data_offsets"][end].as_u64().unwrap() as usize;
        (name, data[at(0)..at(1)].to_vec())
    });
    tensors.collect()
}

/// Starts the run with a viewer, and returns it with a page after its last step.
fn at_its_end(path: &Path, out: &str) -> (Served, Page) {
    let view = ["--view", "--port=0", "-o", out];
    let served = Served::start(dapple().args(RUN).args(view).current_dir(path));
    let mut page = served.page();
    let status = page.told(|said| !said["train_on"].is_null());
    assert_eq!(status["train_on"], 100, "half of its steps");
    assert!(
        path.join(out).join("metrics.json").is_file(),
        "all is saved before the wait"
    );
    (served, page)
}

#[test]
fn a_run_trained_on_from_the_page_has_the_bytes_of_the_command() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&RUN[..], &["-o=a"]].concat());
    let said = ok_in(path, &["train", "--continue", "a", "--steps=+150"]).stderr;
    let (served, mut page) = at_its_end(path, "b");
    page.say(&json!({"type": "train-on", "steps": 150}));
    let stage = page.told(|said| said["plan"].as_array().is_some_and(|plan| !plan.is_empty()));
    // The page shows the lines of the command; the first names the folder.
    for line in stage["plan"].as_array().unwrap() {
        let line = line
            .as_str()
            .unwrap()
            .replace("continues b ", "continues a ");
        assert!(said.contains(&line), "{line}: {said}");
    }
    page.told(|said| said["step"] == 350 && !said["train_on"].is_null());
    served.interrupt();
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
    assert!(file(path, "a", "splats.ply") == file(path, "b", "splats.ply"));
    let state = tensors(path, "a");
    assert!(state.len() > 10 && state == tensors(path, "b"), "the state");
    let parts = |run| json(&ok_in(path, &["info", run, "--json"]))["run"]["parts"].clone();
    assert_eq!(parts("a"), parts("b"));
    let shown = stage["parts"].as_array().unwrap();
    assert_eq!(
        (&shown[1]["after"], &shown[1]["steps"]),
        (&json!(200), &json!(350))
    );
    assert_eq!(shown[0]["psnr"], parts("a")[0]["psnr"]);
}

#[test]
fn faults_come_back_to_the_page_and_the_run_stays_as_it_is() {
    let folder = small_capture();
    let path = folder.path();
    let (served, mut page) = at_its_end(path, "out");
    let before = file(path, "out", "splats.ply");
    page.say(&json!({"type": "train-on", "steps": 0}));
    let error = page.told(|said| said["type"] == "error");
    assert!(
        error["what"]
            .as_str()
            .unwrap()
            .contains("cannot be trained"),
        "{error}"
    );
    // The capture is gone; then it is back.
    std::fs::rename(path.join("capture"), path.join("gone")).unwrap();
    page.say(&json!({"type": "train-on", "steps": 10}));
    let status = page.told(|said| {
        said["note"]
            .as_str()
            .is_some_and(|n| n.contains("not trained on"))
    });
    let note = status["note"].as_str().unwrap();
    assert!(
        note.contains("does not exist any more") && note.contains("hint:"),
        "{note}"
    );
    assert_eq!(status["train_on"], 100);
    assert!(file(path, "out", "splats.ply") == before);
    std::fs::rename(path.join("gone"), path.join("capture")).unwrap();
    page.say(&json!({"type": "train-on", "steps": 10}));
    page.told(|said| said["step"] == 210 && !said["train_on"].is_null());
    assert!(file(path, "out", "splats.ply") != before);
    // The wait ends with its last page.
    drop(page);
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn dapple_view_trains_a_run_on_and_shows_the_new_results() {
    let folder = small_capture();
    let path = folder.path();
    for run in ["-o=a", "-o=b"] {
        ok_in(path, &[&RUN[..], &[run]].concat());
    }
    ok_in(path, &["train", "--continue", "a", "--steps=+50"]);
    let served = Served::start(dapple().args(["view", "b", "--port=0"]).current_dir(path));
    let mut page = served.page();
    let status = page.told(|said| !said["train_on"].is_null());
    assert_eq!(
        (&status["step"], &status["train_on"]),
        (&json!(200), &json!(100))
    );
    // Unsaved edits belong to the splats that a part replaces.
    let before = file(path, "b", "splats.ply");
    let right = json!({"range": {"property": "x", "from": 0.0}});
    page.say(&json!({"type": "edit", "edit": {"select": {"how": "new", "by": right}}}));
    page.say(&json!({"type": "edit", "edit": "delete"}));
    page.told(|said| said["undo"] == 1);
    page.say(&json!({"type": "train-on", "steps": 50}));
    let status = page.told(|said| said["note"].is_string());
    assert!(
        status["note"].as_str().unwrap().contains("not saved"),
        "{status}"
    );
    assert!(file(path, "b", "splats.ply") == before);
    page.say(&json!({"type": "edit", "edit": "undo"}));
    page.told(|said| said["undo"] == 0);
    page.say(&json!({"type": "train-on", "steps": 50}));
    let stage = page.told(|said| {
        said["parts"]
            .as_array()
            .is_some_and(|parts| parts.len() == 2)
    });
    assert_eq!(stage["trains"], true);
    let status = page.told(|said| said["step"] == 250 && !said["train_on"].is_null());
    assert_eq!(status["train_on"], 125);
    assert!(file(path, "b", "splats.ply") == file(path, "a", "splats.ply"));
    // The new results are trained on again.
    page.say(&json!({"type": "train-on", "steps": 10}));
    page.told(|said| said["step"] == 260 && !said["train_on"].is_null());
    served.interrupt();
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn what_is_no_finished_run_or_open_to_others_is_not_trained_on_from_dapple_view() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &[&RUN[..], &["-o=out"]].concat());
    let views: [&[&str]; 3] = [
        &["out", "--host=0.0.0.0"],
        &["out/splats.ply"],
        &["out", "out/splats.ply"],
    ];
    for view in views {
        let args = [&["view", "--port=0", "--device=cpu"], view].concat();
        let served = Served::start(dapple().args(args).current_dir(path));
        let mut page = served.page();
        let stage = page.told(|said| said["type"] == "stage");
        assert_eq!(stage["trains"], false, "{view:?}");
        page.say(&json!({"type": "train-on", "steps": 10}));
        let error = page.told(|said| said["type"] == "error");
        let what = error["what"].as_str().unwrap();
        assert!(what.contains("no run is shown here"), "{view:?}: {error}");
    }
}

#[test]
fn a_browser_trains_a_run_on_and_shows_its_parts() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    let path = folder.path();
    let mut browser = Browser::open(&chromium, &path.join("profile"));
    let (served, page) = at_its_end(path, "out");
    browser.call("Page.navigate", &json!({"url": served.url}));
    let seen = |id: &str| format!("document.getElementById('{id}')?.getClientRects().length > 0");
    browser.wait_for(&seen("train-on"));
    drop(page);
    assert_eq!(
        browser.value("document.getElementById('train-on-steps').value"),
        json!("100")
    );
    browser.wait_for("Number(document.getElementById('picture').dataset.look) > 0");
    let enter = |steps: u32| {
        format!(
            "(() => {{ document.getElementById('train-on-steps').value = '{steps}'; \
             document.getElementById('train-on-go').click(); }})()"
        )
    };
    browser.value(&enter(0));
    browser.wait_for("document.getElementById('notice').textContent.includes('1 or more')");
    browser.value(&enter(60));
    browser.wait_for("document.getElementById('plan-lines').textContent.includes('learning rate')");
    browser.wait_for(&format!(
        "({}) && document.getElementById('progress').textContent.includes('260 of 260')",
        seen("train-on")
    ));
    let parts = "document.getElementById('parts-list').textContent";
    for words in ["1: steps 1 to 200", "2: steps 201 to 260", " dB, SSIM "] {
        browser.wait_for(&format!("{parts}.includes('{words}')"));
    }
    browser
        .wait_for("document.querySelector('#progress-ticks span').style.left.startsWith('76.9')");
    for (width, height) in [(1280, 720), (390, 844)] {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        browser.wait_for(&format!("innerWidth === {width}"));
        assert_eq!(
            browser.value("document.documentElement.scrollWidth"),
            json!(width)
        );
    }
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
    served.interrupt();
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
    // `dapple view` shows the parts of the finished run.
    let served = Served::start(dapple().args(["view", "out", "--port=0"]).current_dir(path));
    browser.call("Page.navigate", &json!({"url": served.url}));
    browser.wait_for(
        "document.getElementById('parts-list')?.textContent.includes('2: steps 201 to 260')",
    );
    browser.wait_for(&seen("plot-loss"));
}

//! Splats edited on the viewer's page, in Chromium. The saved file equals the output of `dapple edit --recipe`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use common::{TRAIN, dapple, ok_in, refused, small_capture};
use page::{Browser, Served, chromium};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

const EDITED: &str = "Number(document.getElementById('view').dataset.edited ?? 0)";

/// The page's text for the selected count and the total.
const TOLD: &str = "document.getElementById('edit-told').textContent.replace(/\\u202f/g, '')";

fn open(chromium: &Path, profile: &Path, served: &Served) -> Browser {
    let mut browser = Browser::open(chromium, profile);
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        &json!({"width": 1000, "height": 900, "deviceScaleFactor": 1, "mobile": false}),
    );
    browser.call("Page.navigate", &json!({"url": served.url}));
    browser.wait_for("Number(document.getElementById('picture')?.dataset.look) > 0");
    browser.wait_for(&format!("{EDITED} > 0"));
    browser
}

/// Does something on the page, waits for the edit state that follows, and returns its counts: selected, total, hidden.
fn after(browser: &mut Browser, act: impl FnOnce(&mut Browser)) -> (u64, u64, u64) {
    let before = browser.value(EDITED);
    act(browser);
    browser.wait_for(&format!("{EDITED} > {before}"));
    told(browser)
}

/// Returns the counts that the page shows now.
fn told(browser: &mut Browser) -> (u64, u64, u64) {
    let told = browser.value(TOLD);
    let numbers: Vec<u64> = told
        .as_str()
        .unwrap()
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    (numbers[0], numbers[1], numbers.get(2).copied().unwrap_or(0))
}

/// Does something on the page, and waits for the expected counts: selected, total, hidden. The act may be several
/// edits, each with its own state message.
fn becomes(browser: &mut Browser, expected: (u64, u64, u64), act: impl FnOnce(&mut Browser)) {
    act(browser);
    let until = Instant::now() + Duration::from_secs(60);
    while told(browser) != expected {
        assert!(
            Instant::now() < until,
            "{:?}, not {expected:?}",
            told(browser)
        );
    }
}

fn click(browser: &mut Browser, id: &str) {
    browser.value(&format!("document.getElementById('{id}').click()"));
}

/// Selects a tool by its key; another tool was selected before.
fn tool(browser: &mut Browser, key: &str, name: &str) {
    browser.key(key);
    browser.wait_for(&format!(
        "document.querySelector('[data-tool={name}]').getAttribute('aria-pressed') === 'true'"
    ));
}

/// Returns the amount of orange in the frame.
fn orange(browser: &mut Browser) -> f64 {
    let sum = browser.value(
        "(() => { const c = document.getElementById('picture'); \
         const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; \
         let sum = 0; for (let i = 0; i < d.length; i += 4) sum += Math.max(0, d[i] - 2 * d[i + 2]); \
         return sum / (c.width * c.height); })()",
    );
    sum.as_f64().unwrap()
}

#[test]
fn what_is_selected_deleted_and_saved_on_the_page_replays_to_the_same_bytes() {
    let Some(chromium) = chromium() else { return };
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let view = ["view", "out", "--port=0", "--device", "cpu"];
    let served = Served::start(dapple().args(view).current_dir(folder.path()));
    let mut browser = open(&chromium, &folder.path().join("profile"), &served);
    let plain = orange(&mut browser);

    // A rectangle over the left half.
    tool(&mut browser, "b", "box");
    let (selected, all, _) = after(&mut browser, |b| b.drag([2.0, 2.0], [340.0, 898.0]));
    assert!(0 < selected && selected < all, "{selected} of {all}");
    browser.wait_for(&format!(
        "document.getElementById('picture').dataset.look === document.getElementById('view').dataset.asked && {EDITED} > 0"
    ));
    let until = Instant::now() + Duration::from_secs(60);
    while orange(&mut browser) < plain + 1.0 {
        assert!(Instant::now() < until, "what is selected is not seen");
    }
    // Delete, undo, redo: by the keyboard and by the buttons.
    let deleted = (0, all - selected, 0);
    becomes(&mut browser, deleted, |b| b.key("x"));
    let before = (selected, all, 0);
    becomes(&mut browser, before, |b| click(b, "edit-undo"));
    becomes(&mut browser, deleted, |b| click(b, "edit-redo"));
    let all = all - selected;
    // A lasso, which a drag draws as a line: it contains nothing and changes nothing. A brush, whose selection is
    // hidden.
    tool(&mut browser, "l", "lasso");
    tool(&mut browser, "o", "brush");
    let (painted, _, _) = after(&mut browser, |b| b.drag([420.0, 450.0], [560.0, 450.0]));
    assert!(0 < painted && painted < all, "{painted} of {all}");
    let hidden = (0, all, painted);
    becomes(&mut browser, hidden, |b| click(b, "edit-hide"));
    // The lower half of a histogram, without hidden Gaussians. They are moved, and the others turned around.
    browser.key("Escape");
    browser.value("document.getElementById('histogram').open = true");
    browser.wait_for("document.getElementById('view').dataset.histogram === 'opacity'");
    browser.value("document.getElementById('bars').scrollIntoView({block: 'center'})");
    let bars = browser.value(
        "(() => { const b = document.getElementById('bars').getBoundingClientRect(); \
         return [b.left, b.top, b.width, b.height]; })()",
    );
    let [left, top, width, height] = [0, 1, 2, 3].map(|i: usize| bars[i].as_f64().unwrap());
    let (low, _, _) = after(&mut browser, |b| {
        b.drag(
            [left + 1.0, top + height / 2.0],
            [left + width / 2.0, top + height / 2.0],
        );
    });
    assert!(0 < low && low < all - painted, "{low} of {all}");
    browser.wait_for("document.querySelector('#edit-moves').textContent.includes('selected')");
    browser.value("document.getElementById('move-x').value = '0.3'");
    browser.value("document.getElementById('turn-y').value = '20'");
    let moved = (low, all, painted);
    becomes(&mut browser, moved, |b| click(b, "edit-apply"));
    becomes(&mut browser, (0, all, 0), |b| click(b, "edit-show"));
    click(&mut browser, "edit-save");
    browser.wait_for(
        "document.getElementById('edit-said').textContent === \
         'saved splats-edited.ply and splats-edited.recipe.json'",
    );
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
    drop((browser, served));

    let recipe = ["--recipe", "out/splats-edited.recipe.json"];
    ok_in(
        folder.path(),
        &[&["edit", "out", "again.ply", "-q"][..], &recipe].concat(),
    );
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("again.ply"), bytes("out/splats-edited.ply"));
    assert_ne!(bytes("again.ply"), bytes("out/splats.ply"));
}

#[test]
fn files_that_are_there_are_not_replaced_and_what_has_no_file_is_not_edited() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let path = |name: &str| folder.path().join(name);
    std::fs::copy(path("out/splats.ply"), path("a.ply")).unwrap();
    std::fs::write(path("a-edited.ply"), "mine").unwrap();
    let select_all_but_some = json!({"type": "edit", "edit": {"select": {"how": "new",
        "by": {"range": {"property": "x", "from": 0.0}}}}});
    let edit = |what: &str| json!({"type": "edit", "edit": what});
    let save = |more: &[&str]| {
        let view = [&["view", "a.ply", "--port=0", "--device", "cpu"], more].concat();
        let served = Served::start(dapple().args(view).current_dir(folder.path()));
        let mut page = served.page();
        // Before the stage is sent there is nothing to edit.
        page.told(|text| text["type"] == "stage" && text["edits"] == true);
        page.say(&select_all_but_some);
        page.say(&edit("delete"));
        page.say(&edit("save"));
        // An error, or the message that it was saved.
        page.told(|text| {
            text["type"] == "error" || text["said"].as_str().is_some_and(|s| s.contains("saved"))
        })
    };
    let refusal = save(&[]);
    assert!(
        refusal["what"]
            .as_str()
            .unwrap()
            .contains("a-edited.ply exists"),
        "{refusal}"
    );
    assert_eq!(std::fs::read(path("a-edited.ply")).unwrap(), b"mine");
    // A viewer on a network may not write, unless the user names a file.
    let refusal = save(&["--host", "0.0.0.0"]);
    assert!(
        refusal["what"].as_str().unwrap().contains("--save"),
        "{refusal}"
    );
    let saved = save(&["--save", "b.ply"]);
    assert_eq!(saved["said"], "saved b.ply and b.recipe.json");
    let saved = save(&["--overwrite"]);
    assert_eq!(saved["said"], "saved a-edited.ply and a-edited.recipe.json");
    // The input is never written, and a capture has nothing to edit.
    refused(
        folder.path(),
        &["view", "a.ply", "--save", "a.ply", "--overwrite"],
        3,
        &["not replaced"],
    );
    refused(
        folder.path(),
        &["view", "capture", "--save", "c.ply"],
        3,
        &["--save", "no file of splats"],
    );
    refused(
        folder.path(),
        &["view", "a.ply", "b.ply", "--save", "c.ply"],
        3,
        &["two models"],
    );
}

#[cfg(unix)]
#[test]
fn edits_that_are_not_saved_become_a_recipe_when_the_program_ends() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let path = |name: &str| folder.path().join(name);
    std::fs::copy(path("out/splats.ply"), path("a.ply")).unwrap();
    // The first name is taken.
    std::fs::write(path("a-edited-unsaved.recipe.json"), "mine").unwrap();
    let (left, right) = (json!({"from": 0.3}), json!({"to": -0.3}));
    let select = |range: &serde_json::Value| {
        let by = json!({"range": {"property": "x", "from": range["from"], "to": range["to"]}});
        json!({"type": "edit", "edit": {"select": {"how": "new", "by": by}}})
    };
    let edit = |what: &str| json!({"type": "edit", "edit": what});
    let ended = |save: bool| {
        let view = ["view", "a.ply", "--port=0", "--device", "cpu"];
        let served = Served::start(dapple().args(view).current_dir(folder.path()));
        let mut page = served.page();
        page.told(|text| text["type"] == "stage" && text["edits"] == true);
        page.say(&select(&left));
        page.say(&edit("delete"));
        page.say(&select(&right));
        page.say(&edit("delete"));
        page.told(|text| text["undo"] == 2);
        if save {
            page.say(&edit("save"));
            page.told(|text| text["said"].as_str().is_some_and(|s| s.contains("saved")));
        }
        let process = served.child.id().to_string();
        let sent = std::process::Command::new("kill")
            .args(["-INT", &process])
            .status();
        assert!(sent.unwrap().success());
        served.end()
    };
    let (code, said) = ended(false);
    assert_eq!(code, 0, "{said}");
    let recipe = "a-edited-unsaved-2.recipe.json";
    assert!(said.contains("2 edits are not saved"), "{said}");
    assert!(said.contains(recipe), "{said}");
    let (code, said) = ended(true);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("not saved"), "{said}");
    ok_in(
        folder.path(),
        &["edit", "a.ply", "again.ply", "-q", "--recipe", recipe],
    );
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    assert_eq!(bytes("again.ply"), bytes("a-edited.ply"));
    assert_eq!(bytes("a-edited-unsaved.recipe.json"), b"mine");
}

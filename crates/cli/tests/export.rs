//! `dapple export`: pages that open from disk and draw what the engine does, and folders for web servers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[path = "common/page.rs"]
mod page;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{ok_in, refused};
use dapple::contract::{Engine, RenderSettings};
use dapple::scene::Splats;
use dapple::scene::splat_file::{self, Axes, Format, ReadOptions};
use dapple_viewer::export::PageCamera;
use page::{Browser, chromium};
use serde_json::{Value, json};
use std::path::Path;

const SIZE: [u32; 2] = [320, 240];

/// At most so far from the engine's bytes, in at least this share of the values.
const NEAR: u8 = 3;
const SHARE_NEAR: f64 = 0.995;

/// A browser with the page, loaded.
fn open(chromium: &Path, folder: &Path, url: &str) -> Browser {
    let mut browser = Browser::open_drawing(chromium, &folder.join("profile"));
    browser.call("Page.navigate", &json!({"url": url}));
    browser.wait_for("document.readyState === 'complete' && Boolean(globalThis.dapple)");
    browser.value("dapple.loaded.then(() => true)");
    browser
}

fn picture(browser: &mut Browser, camera: &PageCamera) -> Vec<u8> {
    let [width, height] = SIZE;
    let camera = serde_json::to_string(camera).unwrap();
    let found = browser.value(&format!(
        "dapple.picture({camera}, {width}, {height}).then((bytes) => Array.from(bytes.filter((_, i) => i % 4 < 3)))"
    ));
    let values = found.as_array().unwrap().iter();
    values.map(|v: &Value| v.as_u64().unwrap() as u8).collect()
}

/// The splats that are in a page.
fn splats_of(page: &Path) -> Splats {
    let html = std::fs::read_to_string(page).unwrap();
    let data = html.split("id=\"part-0\">").nth(1).unwrap();
    let bytes = STANDARD.decode(data.split('<').next().unwrap()).unwrap();
    let options = ReadOptions {
        undeclared_axes: Axes::Rdf,
        ..ReadOptions::default()
    };
    splat_file::parse_with(&bytes, Format::Spz, &options)
        .unwrap()
        .0
}

/// The engine's picture of splats, as the page shows it.
fn rendered(splats: &Splats, camera: &PageCamera) -> Vec<u8> {
    let mut engine = dapple::cpu::CpuEngine::new(dapple::cpu::CpuOptions::default()).unwrap();
    engine.upload(splats, None).unwrap();
    let [width, height] = SIZE;
    let settings = RenderSettings {
        sh_degree: splats.sh_degree,
        ..RenderSettings::default()
    };
    let bytes = engine
        .render_bytes(&camera.camera(width, height), &settings)
        .unwrap();
    let rgb = bytes.rgba.chunks_exact(4).flat_map(|pixel| &pixel[..3]);
    rgb.copied().collect()
}

/// A few Gaussians around the origin.
fn small_splats(file: &Path) {
    let mut splats = Splats::empty(0);
    for i in 0..5 {
        splats.means.push([0.3 * (i as f32 - 2.0), 0.1, 0.0]);
        splats.scales.push([-2.0; 3]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(2.0);
        splats.sh0.push([1.0, 0.5, 0.0]);
    }
    splat_file::write(file, &splats, Format::Ply).unwrap();
}

fn share_near(a: &[u8], b: &[u8]) -> f64 {
    assert_eq!(a.len(), b.len());
    let near = a.iter().zip(b).filter(|(a, b)| a.abs_diff(**b) <= NEAR);
    near.count() as f64 / a.len() as f64
}

fn url(file: &Path) -> String {
    format!("file://{}", file.display())
}

#[test]
fn a_page_from_disk_draws_what_the_engine_does() {
    let Some(chromium) = chromium() else { return };
    let Some(guitar) =
        dapple::scene::lacking::capture(env!("CARGO_MANIFEST_DIR"), "guitar/guitar.ply")
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // Degree 3, so that harmonics are drawn as well: those of a guitar that shines in places of its own.
    let (mut splats, _) = splat_file::read(&guitar).unwrap();
    splats = splats.with_sh_degree(3);
    for (i, value) in splats.sh_rest.iter_mut().enumerate() {
        *value = 0.3 * ((i % 101) as f32 / 50.0 - 1.0);
    }
    splat_file::write(&at("shining.ply"), &splats, Format::Ply).unwrap();
    let said = ok_in(
        folder.path(),
        &[
            "export",
            "shining.ply",
            "page.html",
            "--device",
            "cpu",
            "--json",
        ],
    );
    let said = common::json(&said);
    assert!(said["page_bytes"].as_u64().unwrap() < 300_000, "{said}");
    let packed = splats_of(&at("page.html"));
    let mut browser = open(&chromium, folder.path(), &url(&at("page.html")));
    let scene = browser.value("dapple.scene");
    let number = |v: &Value| v.as_f64().unwrap();
    let three = |v: &Value| [0, 1, 2].map(|i| number(&v[i]));
    let first = PageCamera::around(
        three(&scene["up"]),
        three(&scene["centre"]),
        number(&scene["distance"]),
    );
    for (what, distance) in [("far", 1.0), ("near", 0.35)] {
        let camera = PageCamera::around(
            three(&scene["up"]),
            three(&scene["centre"]),
            distance * number(&scene["distance"]),
        );
        let (shown, engine) = (picture(&mut browser, &camera), rendered(&packed, &camera));
        let share = share_near(&shown, &engine);
        println!("{what}: {share:.5} of the values within {NEAR} of 255");
        assert!(share >= SHARE_NEAR, "{what}: {share}");
        // It can fail: moved by a pixel it is another picture.
        let moved = share_near(&shown[3..], &engine[..engine.len() - 3]);
        assert!(moved < SHARE_NEAR, "{what}: {moved}");
    }
    // The poster makes room for the scene, whose first view is the one that was promised.
    browser.wait_for("document.getElementById('poster') === null");
    let stands = browser.value("dapple.camera().position");
    for k in 0..3 {
        assert!(
            (number(&stands[k]) - first.position[k]).abs() < 1e-6,
            "{stands}"
        );
    }
    browser.drag([400.0, 300.0], [500.0, 320.0]);
    let turned = browser.value("dapple.camera().position");
    assert_ne!(turned, stands, "a drag turns it");
    browser.key("r");
    browser.wait_for(&format!("dapple.camera().position[0] === {}", stands[0]));
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

/// Notes lead to their views, and the path that was given plays.
#[test]
fn notes_and_paths_are_on_the_page() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    small_splats(&at("a.ply"));
    std::fs::write(
        at("notes.json"),
        r#"[{"position": [0, 0, 0], "text": "<b>here</b>", "view": {"position": [0, 0, -9], "rotation": [1, 0, 0, 0], "focal": 1}}]"#,
    )
    .unwrap();
    std::fs::write(
        at("path.json"),
        r#"{"dapple_path": 1, "seconds": 0.5, "closed": false, "keys": [
            {"position": [0, 0, -5], "rotation": [1, 0, 0, 0], "focal": 1},
            {"position": [0, 0, -7], "rotation": [1, 0, 0, 0], "focal": 1}]}"#,
    )
    .unwrap();
    ok_in(
        folder.path(),
        &[
            "export",
            "a.ply",
            "a.html",
            "--notes",
            "notes.json",
            "--path",
            "path.json",
            "--no-poster",
            "-q",
        ],
    );
    let mut browser = open(&chromium, folder.path(), &url(&at("a.html")));
    browser.value("document.getElementById('note-0').click()");
    browser.wait_for("document.getElementById('note').textContent === '<b>here</b>'");
    browser.wait_for("Math.abs(dapple.camera().position[2] + 9) < 1e-6");
    browser.value("document.getElementById('play').click()");
    browser.wait_for("Math.abs(dapple.camera().position[2] + 7) < 1e-2");
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn a_folder_has_its_parts_beside_the_page() {
    let folder = tempfile::tempdir().unwrap();
    small_splats(&folder.path().join("a.ply"));
    ok_in(
        folder.path(),
        &["export", "a.ply", "www", "--no-poster", "-q"],
    );
    assert!(folder.path().join("www/index.html").is_file());
    assert!(folder.path().join("www/splats-0.spz").is_file());
}

#[test]
fn what_cannot_be_exported_is_told() {
    let folder = tempfile::tempdir().unwrap();
    small_splats(&folder.path().join("a.ply"));
    let path = folder.path().join("n.json");
    for (text, words) in [
        ("{}", "these are no notes"),
        (r#"[{"position": [0, 0, 1e12], "text": ""}]"#, "note 1"),
        ("[", "this is not JSON"),
    ] {
        std::fs::write(&path, text).unwrap();
        let asked = [
            "export",
            "a.ply",
            "a.html",
            "--notes",
            "n.json",
            "--no-poster",
        ];
        refused(folder.path(), &asked, 3, &[words]);
    }
    assert!(!folder.path().join("a.html").exists());
    refused(
        folder.path(),
        &["export", "none.ply", "a.html"],
        4,
        &["none.ply"],
    );
}

//! `dapple export`: pages that open from disk and draw the same as the engine, and folders for web servers. Also the
//! viewer's page, where it draws with the same module.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{dapple, ok_in, refused};
use dapple::contract::{Engine, EngineExt, RenderSettings};
use dapple::scene::Splats;
use dapple::scene::splat_file::{self, Axes, Format, ReadOptions};
use dapple_viewer::export::PageCamera;
use page::{Browser, Served, chromium};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZE: [u32; 2] = [320, 240];

/// A renderer: its name, and the least share of values within `near` of the engine's bytes.
struct Drawn {
    by: &'static str,
    near: u8,
    share: f64,
    /// True if the engine uses the Mip-Splatting filters.
    antialias: bool,
}
const WEBGL2: Drawn = Drawn {
    by: "webgl2",
    near: 3,
    share: 0.995,
    antialias: false,
};
/// The engine's own kernels in WebGPU.
const WEBGPU: Drawn = Drawn {
    by: "webgpu",
    near: 2,
    share: 0.999,
    antialias: false,
};

/// Opens the page in a browser and waits until it is loaded.
fn open(chromium: &Path, folder: &Path, url: &str) -> Browser {
    let browser = Browser::open_drawing(chromium, &folder.join("profile"));
    loaded(browser, url)
}

fn loaded(mut browser: Browser, url: &str) -> Browser {
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

/// Returns the splats in a page.
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

/// Renders splats with the engine, as the page shows them.
fn rendered(splats: &Splats, camera: &PageCamera, antialias: bool) -> Vec<u8> {
    let mut engine = dapple::cpu::CpuEngine::new(dapple::cpu::CpuOptions::default()).unwrap();
    engine.upload(splats, None).unwrap();
    let [width, height] = SIZE;
    let settings = RenderSettings {
        sh_degree: splats.sh_degree,
        antialias,
        ..RenderSettings::default()
    };
    let bytes = engine
        .render_bytes(&camera.camera(width, height), &settings)
        .unwrap();
    let rgb = bytes.rgba.chunks_exact(4).flat_map(|pixel| &pixel[..3]);
    rgb.copied().collect()
}

/// Writes a few Gaussians around the origin.
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

fn share_near(a: &[u8], b: &[u8], most: u8) -> f64 {
    assert_eq!(a.len(), b.len());
    let near = a.iter().zip(b).filter(|(a, b)| a.abs_diff(**b) <= most);
    near.count() as f64 / a.len() as f64
}

fn url(file: &Path) -> String {
    format!("file://{}", file.display())
}

/// Exports a page of a guitar with highlights: degree 3, so that harmonics are drawn as well.
fn shining_page(folder: &Path, more: &[&str]) -> Option<PathBuf> {
    let guitar =
        dapple::scene::test_requirements::capture(env!("CARGO_MANIFEST_DIR"), "guitar/guitar.ply")?;
    let (mut splats, _) = splat_file::read(&guitar).unwrap();
    splats = splats.with_sh_degree(3);
    for (i, value) in splats.sh_rest.iter_mut().enumerate() {
        *value = 0.3 * ((i % 101) as f32 / 50.0 - 1.0);
    }
    splat_file::write(&folder.join("shining.ply"), &splats, Format::Ply).unwrap();
    let export = [
        "export",
        "shining.ply",
        "page.html",
        "--device",
        "cpu",
        "--json",
    ];
    let said = common::json(&ok_in(folder, &[&export[..], more].concat()));
    assert!(said["page_bytes"].as_u64().unwrap() < 300_000, "{said}");
    Some(folder.join("page.html"))
}

fn three(v: &Value) -> [f64; 3] {
    [0, 1, 2].map(|i| v[i].as_f64().unwrap())
}

/// Returns the first view of a page, from a share of its distance.
fn first_view(browser: &mut Browser, share: f64) -> PageCamera {
    let scene = browser.value("dapple.scene");
    let distance = scene["distance"].as_f64().unwrap();
    PageCamera::around(
        three(&scene["up"]),
        three(&scene["centre"]),
        share * distance,
    )
}

/// Checks from far and near that the page shows the engine's render.
fn compare(browser: &mut Browser, page: &Path, drawn: &Drawn) {
    assert_eq!(browser.value("dapple.renderer"), drawn.by);
    let packed = splats_of(page);
    for (what, distance) in [("far", 1.0), ("near", 0.35)] {
        let camera = first_view(browser, distance);
        let (shown, engine) = (
            picture(browser, &camera),
            rendered(&packed, &camera, drawn.antialias),
        );
        let share = share_near(&shown, &engine, drawn.near);
        println!(
            "{}, {what}: {share:.5} of the values within {} of 255",
            drawn.by, drawn.near
        );
        assert!(share >= drawn.share, "{what}: {share}");
        // The check can fail: moved by a pixel the picture differs.
        let moved = share_near(&shown[3..], &engine[..engine.len() - 3], drawn.near);
        assert!(moved < drawn.share, "{what}: {moved}");
    }
}

/// Splats trained with the Mip-Splatting filters are drawn with them, by WebGPU and by WebGL 2. With WebGPU the engine's
/// own kernels draw; if the buffers cannot hold all instances, they are enlarged. The viewer's page draws without the
/// filters.
#[test]
fn a_page_with_webgpu_plays_the_engines_kernels() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.toml"), "antialias = true\n").unwrap();
    let Some(page) = shining_page(folder.path(), &[]) else {
        return;
    };
    let browser = Browser::open_computing(&chromium, &folder.path().join("profile"));
    // A CPU adapter runs the kernels if the address requests it.
    let mut browser = loaded(browser, &format!("{}?renderer=webgpu", url(&page)));
    // Without the filters the picture differs.
    let (far, packed) = (first_view(&mut browser, 1.0), splats_of(&page));
    let [with, without] = [true, false].map(|antialias| rendered(&packed, &far, antialias));
    assert!(share_near(&with, &without, WEBGPU.near) < WEBGPU.share);
    let filtered = |drawn: Drawn| Drawn {
        antialias: true,
        ..drawn
    };
    compare(&mut browser, &page, &filtered(WEBGPU));
    // Near enough that some Gaussians cover the whole frame.
    let inside = first_view(&mut browser, 0.05);
    let (shown, engine) = (
        picture(&mut browser, &inside),
        rendered(&packed, &inside, true),
    );
    let share = share_near(&shown, &engine, WEBGPU.near);
    assert!(share >= WEBGPU.share, "inside: {share}");
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
    // The device is lost while a frame is in flight, whose bytes then never come: the page reloads with the other
    // renderer, which draws.
    let camera = serde_json::to_string(&inside).unwrap();
    browser.value(&format!(
        "(() => {{
            const make = GPUDevice.prototype.createBuffer;
            GPUDevice.prototype.createBuffer = function (wanted) {{
                const buffer = make.call(this, wanted);
                if (wanted.usage & GPUBufferUsage.MAP_READ) {{
                    buffer.mapAsync = () => new Promise(() => {{}});
                    this.destroy();
                }}
                return buffer;
            }};
            dapple.picture({camera}, 64, 64).catch(() => {{}});
        }})()"
    ));
    std::thread::sleep(Duration::from_secs(2));
    browser.wait_for(
        "location.search === '?renderer=webgl2' && globalThis.dapple?.renderer === 'webgl2'",
    );
    browser.value("dapple.loaded.then(() => true)");
    compare(&mut browser, &page, &filtered(WEBGL2));
    // The address selects the renderer too. Without a selection, a CPU adapter runs no kernels.
    for address in [format!("{}?renderer=webgl2", url(&page)), url(&page)] {
        browser.call("Page.navigate", &json!({"url": address}));
        browser.wait_for(
            "document.readyState === 'complete' && globalThis.dapple?.renderer === 'webgl2'",
        );
    }
}

#[test]
fn a_page_from_disk_draws_what_the_engine_does() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(page) = shining_page(folder.path(), &[]) else {
        return;
    };
    let mut browser = open(&chromium, folder.path(), &url(&page));
    compare(&mut browser, &page, &WEBGL2);
    let number = |v: &Value| v.as_f64().unwrap();
    let first = first_view(&mut browser, 1.0);
    // The scene replaces the poster. Its first view is the one that was promised.
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

/// The viewer's page draws free views by itself if the user selects it, and follows edits. The engine renders all other
/// views.
#[test]
fn the_viewers_page_draws_with_the_same_module() {
    let Some(chromium) = chromium() else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(page) = shining_page(folder.path(), &["--no-poster"]) else {
        return;
    };
    let served = Served::start(
        dapple()
            .args(["view", "shining.ply", "--device", "cpu"])
            .current_dir(folder.path()),
    );
    let mut browser = Browser::open_computing(&chromium, &folder.path().join("profile"));
    browser.call("Page.navigate", &json!({"url": served.url}));
    let shown = "Number(document.getElementById('picture')?.dataset.look)";
    browser.wait_for(&format!("{shown} > 0"));
    let (address, packed) = (browser.value("location.origin"), splats_of(&page));
    let by = "document.getElementById('view').dataset.drawn";
    for drawn in [WEBGPU, WEBGL2] {
        let url = format!("{}/?renderer={}", address.as_str().unwrap(), drawn.by);
        browser.call("Page.navigate", &json!({"url": url}));
        browser.wait_for(&format!(
            "document.readyState === 'complete' && {shown} > 0 && !{by}"
        ));
        browser.key("v");
        browser.wait_for(&format!("{by} === '{}'", drawn.by));
        browser.wait_for("document.getElementById('drawn').hidden === false");
        let at = browser.value("dapple.camera()");
        let camera = PageCamera {
            position: three(&at["position"]),
            rotation: [0, 1, 2, 3].map(|i| at["rotation"][i].as_f64().unwrap()),
            focal: at["focal"].as_f64().unwrap(),
        };
        let seen = picture(&mut browser, &camera);
        let share = share_near(&seen, &rendered(&packed, &camera, false), drawn.near);
        println!("{}: {share:.5} within {} of 255", drawn.by, drawn.near);
        assert!(share >= drawn.share, "{}: {share}", drawn.by);
        if drawn.by == WEBGPU.by {
            // A second compilation of its kernels takes the CPU half a minute.
            continue;
        }
        // The engine renders another channel, and the page draws colours again.
        let before = browser.value(shown).as_u64().unwrap();
        browser.key("2");
        browser.wait_for(&format!(
            "!{by} && {shown} > {before} && document.getElementById('drawn').hidden"
        ));
        browser.key("1");
        browser.wait_for(&format!("{by} === '{}'", drawn.by));
        // Selected Gaussians are orange here too.
        browser.value("globalThis.before = document.getElementById('drawn'); true");
        browser.value("document.getElementById('edit-all').click()");
        browser.wait_for("!document.getElementById('edit-none').disabled");
        browser.wait_for(&format!(
            "{by} === '{}' && document.getElementById('drawn') !== before",
            drawn.by
        ));
        let selected = picture(&mut browser, &camera);
        assert!(share_near(&seen, &selected, 9) < 0.99, "{}", drawn.by);
        browser.key("v");
        browser.wait_for(&format!("{by} === '' && !document.getElementById('drawn')"));
    }
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

/// Notes lead to their views, and the given path plays.
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
        ("{}", "the notes cannot be read"),
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

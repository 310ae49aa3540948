//! Meshes on pages: `dapple view --mesh` and `dapple export --mesh`.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use crate::common;
use crate::page;

use common::{TRAIN, dapple, ok_in, refused, small_capture};
use dapple::glam::Vec3;
use dapple_mesh::files::{About, glb, ply};
use dapple_mesh::judge::picture;
use dapple_mesh::{Mesh, Pinhole};
use dapple_viewer::export::PageCamera;
use page::{Browser, Served, chromium};
use serde_json::{Value, json};
use std::path::Path;

const INPUT: i32 = 3;

/// Writes a coloured box in the middle of the scene, as a PLY and a GLB file.
fn write_box(path: &Path) -> Mesh {
    let corner = |i: u32| Vec3::new((i & 1) as f32, (i >> 1 & 1) as f32, (i >> 2) as f32) - 0.5;
    let sides: [[u32; 4]; 6] = [
        [0, 4, 6, 2],
        [1, 3, 7, 5],
        [0, 1, 5, 4],
        [2, 6, 7, 3],
        [0, 2, 3, 1],
        [4, 5, 7, 6],
    ];
    let mut mesh = Mesh::default();
    for (side, corners) in (0..).zip(sides) {
        let first = mesh.positions.len() as u32;
        mesh.positions
            .extend(corners.map(|i| corner(i) * Vec3::new(1.0, 0.6, 1.4)));
        mesh.colours
            .extend([[40 * side + 20, 200 - 30 * side, 120]; 4]);
        mesh.triangles
            .extend([[0, 1, 2], [0, 2, 3]].map(|t| t.map(|i| i + first)));
    }
    let about = About {
        voxel: 0.1,
        up: Some(Vec3::NEG_Y),
        ..About::default()
    };
    std::fs::write(path.join("box.ply"), ply(&mesh, &about)).unwrap();
    std::fs::write(path.join("box.glb"), glb(&mesh, &about, None).unwrap()).unwrap();
    mesh
}

/// Returns size and pixels (red, green, blue, alpha) of the canvas with the mesh.
fn drawn(browser: &mut Browser) -> ([u32; 2], Vec<u8>) {
    let found = browser.value(
        "(() => { const from = document.getElementById('surface'); const to = document.createElement('canvas'); \
         [to.width, to.height] = [from.width, from.height]; const context = to.getContext('2d'); \
         context.drawImage(from, 0, 0); \
         return [to.width, to.height, ...context.getImageData(0, 0, to.width, to.height).data]; })()",
    );
    let numbers: Vec<u32> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|v: &Value| v.as_u64().unwrap() as u32)
        .collect();
    (
        [numbers[0], numbers[1]],
        numbers[2..].iter().map(|&v| v as u8).collect(),
    )
}

/// Compares the canvas with the rasterizer of `dapple mesh --score`; returns the share of pixels with the mesh.
fn compare(browser: &mut Browser, mesh: &Mesh) -> f64 {
    let camera = browser.value("dapple.camera()");
    let of = |key: &str| serde_json::from_value::<Vec<f64>>(camera[key].clone()).unwrap();
    let camera = PageCamera {
        position: of("position").try_into().unwrap(),
        rotation: of("rotation").try_into().unwrap(),
        focal: camera["focal"].as_f64().unwrap(),
    };
    // Frames are in the middle of the view, as large as fits.
    let ([width, height], pixels) = drawn(browser);
    let frame = browser.value(
        "[document.getElementById('picture').width, document.getElementById('picture').height]",
    );
    let [across, down] = [0, 1].map(|k| frame[k].as_f64().unwrap());
    let fit = (f64::from(width) / across).min(f64::from(height) / down);
    let [across, down] = [across * fit, down * fit].map(|side| side.round() as u32);
    let (truth, covered) = picture(mesh, &Pinhole::new(&camera.camera(across, down)), [0; 3]);
    let [left, top] = [(width - across) / 2, (height - down) / 2].map(|side| side as usize);
    let rows = pixels
        .chunks_exact(4 * width as usize)
        .skip(top)
        .take(down as usize);
    let inner = rows.flat_map(|row| &row.as_chunks::<4>().0[left..left + across as usize]);
    let (mut same, mut inside) = (0, 0);
    for (i, pixel) in inner.enumerate() {
        let wanted = &truth.rgb[3 * i..3 * i + 3];
        let near = |k: usize| pixel[k].abs_diff(wanted[k]) <= 4;
        let is_there = pixel[3] > 127;
        inside += usize::from(is_there);
        same += usize::from(is_there == covered[i] && (!is_there || (0..3).all(near)));
    }
    let count = covered.len() as f64;
    assert!(
        same as f64 > 0.985 * count,
        "{same} of {count} pixels agree"
    );
    inside as f64 / count
}

#[test]
fn a_mesh_is_drawn_where_it_is_over_the_splats_and_beside_them() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let mesh = write_box(path);
    let Some(chromium) = chromium() else { return };
    for file in ["box.ply", "box.glb"] {
        let view = ["view", "out", "--scene=capture", "--port=0", "--mesh", file];
        let served = Served::start(dapple().args(view).current_dir(path));
        let mut browser = Browser::open_drawing(&chromium, &path.join("profile"));
        browser.call("Page.navigate", &json!({"url": served.url}));
        browser.wait_for("Number(document.getElementById('picture')?.dataset.look) > 0");
        browser.choose("mesh", "over");
        browser.wait_for("document.getElementById('surface').dataset.drawn === 'colours'");
        let covered = compare(&mut browser, &mesh);
        assert!((0.02..0.9).contains(&covered), "{file}: {covered}");
        let opaque = |browser: &mut Browser| {
            let (_, pixels) = drawn(browser);
            let pixels = pixels.as_chunks::<4>().0.iter();
            pixels.filter(|pixel| pixel[3] > 127).count()
        };
        let faces = opaque(&mut browser);
        browser.choose("mesh-style", "errors");
        let errors = browser.value("document.getElementById('mesh-errors').disabled");
        assert_eq!(errors, json!(false), "the capture has sparse points");
        assert_eq!(opaque(&mut browser), faces);
        // Edges cover less than the faces between them.
        browser.choose("mesh-style", "edges");
        let edges = opaque(&mut browser);
        assert!(edges > 100 && 10 * edges < 3 * faces, "{edges} of {faces}");
        // By its key: slider, then side by side.
        browser.key("t");
        browser.wait_for("!document.getElementById('divider').hidden");
        browser.key("t");
        let half = "document.getElementById('surface').clientWidth * 2 === document.getElementById('view').clientWidth";
        browser.wait_for(half);
        browser.key("t");
        browser.wait_for("document.getElementById('surface').hidden");
        assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
    }
}

#[test]
fn an_exported_page_shows_its_mesh() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    let mesh = write_box(path);
    ok_in(path, &["export", "out", "page.html", "--mesh", "box.glb"]);
    ok_in(path, &["export", "out", "plain.html"]);
    ok_in(path, &["export", "out", "www", "--mesh", "box.glb"]);
    assert!(path.join("www/mesh.bin").is_file());
    let Some(chromium) = chromium() else { return };
    let mut browser = Browser::open_drawing(&chromium, &path.join("profile"));
    for (page, has_mesh) in [("page.html", true), ("plain.html", false)] {
        let url = format!("file://{}", path.join(page).display());
        browser.call("Page.navigate", &json!({"url": url}));
        browser.wait_for("document.readyState === 'complete' && Boolean(globalThis.dapple)");
        browser.value("dapple.loaded.then(() => true)");
        let hidden = browser.value("document.getElementById('mesh').hidden");
        assert_eq!(hidden, json!(!has_mesh), "{page}");
        if has_mesh {
            browser.key("m");
            browser.wait_for("!document.getElementById('surface').hidden");
            assert!(compare(&mut browser, &mesh) > 0.02);
            browser.key("m");
            browser.wait_for("document.getElementById('mesh').textContent === 'Edges'");
            browser.key("m");
            browser.wait_for("document.getElementById('surface').hidden");
        }
    }
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn meshes_that_cannot_be_shown_are_refused_with_the_reason() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    write_box(path);
    std::fs::write(
        path.join("empty.ply"),
        ply(&Mesh::default(), &About::default()),
    )
    .unwrap();
    std::fs::write(
        path.join("cut.glb"),
        &std::fs::read(path.join("box.glb")).unwrap()[..400],
    )
    .unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["out", "--mesh=empty.ply"], "--triangles"),
        (&["out", "--mesh=cut.glb"], "cannot be read"),
        (&["out", "--mesh=out/metrics.json"], "no PLY file"),
        (&["out", "out", "--mesh=box.ply"], "one model"),
    ];
    for (args, word) in cases {
        refused(path, &[&["view"], args].concat(), INPUT, &[word, "hint: "]);
    }
}

//! Meshes on pages: `dapple view --mesh` and `dapple export --mesh`.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use crate::common;
use crate::page;

use common::exit::INPUT;
use common::{TRAIN, dapple, ok_in, refused, small_capture};
use dapple::glam::Vec3;
use dapple::scene::{LoadOptions, load};
use dapple_mesh::files::{About, glb, obj, ply};
use dapple_mesh::judge::picture;
use dapple_mesh::{Mesh, Pinhole};
use dapple_viewer::export::PageCamera;
use page::{Browser, Served, chromium};
use serde_json::{Value, json};
use std::path::Path;

/// Writes a coloured box in the middle of the scene, as a PLY, a GLB and an OBJ file.
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
    let (text, _) = obj(&mesh, &about, "box");
    std::fs::write(path.join("box.obj"), text.replace('\n', "\r\n")).unwrap();
    mesh
}

/// Writes a mesh with a small triangle near each sparse point of the capture, as an OBJ file.
fn write_flakes(path: &Path) {
    let capture = load::open(&path.join("capture"), &LoadOptions::default()).unwrap();
    let mut mesh = Mesh::default();
    for (i, point) in (0..).zip(&capture.points) {
        let middle = Vec3::from(point.position) + Vec3::Z * 0.01 * (i % 5) as f32;
        let first = mesh.positions.len() as u32;
        let corners = [Vec3::X, Vec3::Y, Vec3::NEG_X - Vec3::Y];
        mesh.positions.extend(corners.map(|to| middle + 0.06 * to));
        mesh.triangles.push([first, first + 1, first + 2]);
    }
    let (text, _) = obj(&mesh, &About::default(), "flakes");
    std::fs::write(path.join("flakes.obj"), text).unwrap();
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
    for file in ["box.ply", "box.glb", "box.obj"] {
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
            browser.wait_for("document.getElementById('mesh').textContent === 'Distances'");
            browser.key("m");
            browser.wait_for("document.getElementById('surface').hidden");
        }
    }
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

/// Opens an exported page, and loads its scene.
fn open_page(browser: &mut Browser, page: &Path) {
    let url = format!("file://{}", page.display());
    browser.call("Page.navigate", &json!({"url": url}));
    browser.wait_for("document.readyState === 'complete' && Boolean(globalThis.dapple)");
    browser.value("dapple.loaded.then(() => true)");
}

#[test]
fn an_exported_page_shows_the_distances_of_the_live_viewer() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    write_flakes(path);
    let mesh = ["--mesh", "flakes.obj"];
    let ran = ok_in(path, &[&["export", "out", "page.html"], &mesh[..]].concat());
    assert!(ran.stderr.contains("median distance of"), "{}", ran.stderr);
    ok_in(path, &[&["export", "out", "www"], &mesh[..]].concat());
    let Some(chromium) = chromium() else { return };
    let mut browser = Browser::open_drawing(&chromium, &path.join("profile"));
    let view = [&["view", "out", "--port=0"], &mesh[..]].concat();
    let served = Served::start(dapple().args(view).current_dir(path));
    browser.call("Page.navigate", &json!({"url": served.url}));
    browser.wait_for("Number(document.getElementById('picture')?.dataset.look) > 0");
    let live = browser
        .value("fetch('/mesh').then((m) => m.arrayBuffer()).then((b) => [...new Uint8Array(b)])");
    let live: Vec<u8> = serde_json::from_value(live).unwrap();
    assert!(live == std::fs::read(path.join("www/mesh.bin")).unwrap());
    browser.choose("mesh", "over");
    browser.choose("mesh-style", "errors");
    browser.wait_for("document.getElementById('surface').dataset.drawn === 'errors'");
    let legend = "document.getElementById('mesh-scale').innerText.replace(/\\s+/g, ' ')";
    let words = browser.value(legend);
    assert_eq!(
        words,
        json!("0 pixels 4 pixels or more Grey: no sparse point near.")
    );
    open_page(&mut browser, &path.join("page.html"));
    let hidden = "document.getElementById('mesh-scale').hidden";
    for text in ["Mesh", "Edges", "Distances"] {
        assert_eq!(browser.value(hidden), json!(true), "{text}");
        browser.key("m");
        browser.wait_for(&format!(
            "document.getElementById('mesh').textContent === '{text}' && !document.getElementById('surface').hidden"
        ));
    }
    browser.wait_for(&format!("!{hidden}"));
    assert_eq!(browser.value(legend), words);
    // Each triangle has a sparse point near, and so a colour.
    let (_, pixels) = drawn(&mut browser);
    let is_there = |pixel: &&[u8; 4]| pixel[3] == 255;
    let pixels = pixels.as_chunks::<4>().0.iter().filter(is_there);
    let is_grey =
        |pixel: &[u8; 4]| pixel[0].abs_diff(pixel[1]) < 3 && pixel[1].abs_diff(pixel[2]) < 3;
    let (grey, colours): (Vec<&[u8; 4]>, Vec<&[u8; 4]>) = pixels.partition(|pixel| is_grey(pixel));
    assert!(
        colours.len() > 500,
        "{} of {} are grey",
        grey.len(),
        colours.len()
    );
    assert!(
        grey.len() * 50 < colours.len(),
        "{} of {} are grey",
        grey.len(),
        colours.len()
    );
    browser.key("m");
    browser.wait_for("document.getElementById('surface').hidden");
    assert_eq!(browser.value(hidden), json!(true));
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn a_page_without_a_capture_offers_no_distances() {
    let folder = small_capture();
    let path = folder.path();
    ok_in(path, &TRAIN);
    write_box(path);
    std::fs::copy(path.join("out/splats.ply"), path.join("alone.ply")).unwrap();
    let page = ["export", "alone.ply", "page.html", "--mesh", "box.obj"];
    let ran = ok_in(path, &page);
    let note = "does not show the distances of the mesh to the sparse points";
    assert!(
        ran.stderr.contains(note) && ran.stderr.contains("--capture"),
        "{}",
        ran.stderr
    );
    let ran = ok_in(
        path,
        &[
            "export",
            "alone.ply",
            "named.html",
            "--mesh=box.obj",
            "--capture=capture",
        ],
    );
    assert!(!ran.stderr.contains(note), "{}", ran.stderr);
    // Points that are not in the box of the mesh.
    let far = "v 90 0 0\nv 91 0 0\nv 90 1 0\nf 1 2 3\n";
    std::fs::write(path.join("far.obj"), far).unwrap();
    let ran = ok_in(path, &["export", "out", "far.html", "--mesh=far.obj"]);
    assert!(
        ran.stderr.contains("no sparse point in the box"),
        "{}",
        ran.stderr
    );
    // The capture has been moved since.
    std::fs::rename(path.join("capture"), path.join("moved")).unwrap();
    let ran = ok_in(path, &["export", "out", "moved.html", "--mesh=box.obj"]);
    assert!(ran.stderr.contains(note), "{}", ran.stderr);
    let Some(chromium) = chromium() else { return };
    let mut browser = Browser::open_drawing(&chromium, &path.join("profile"));
    for page in ["page.html", "moved.html"] {
        open_page(&mut browser, &path.join(page));
        for text in ["Mesh", "Edges"] {
            browser.key("m");
            browser.wait_for(&format!(
                "document.getElementById('mesh').textContent === '{text}' && !document.getElementById('surface').hidden"
            ));
        }
        browser.key("m");
        browser.wait_for("document.getElementById('surface').hidden");
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
        (&["out", "--mesh=empty.ply"], "no triangle"),
        (&["out", "--mesh=cut.glb"], "cannot be read"),
        (&["out", "--mesh=out/metrics.json"], "no PLY file"),
        (&["out", "out", "--mesh=box.ply"], "one model"),
    ];
    for (args, word) in cases {
        refused(path, &[&["view"], args].concat(), INPUT, &[word, "hint: "]);
    }
    std::fs::write(path.join("bad.obj"), "v 0 0 0\nf 1 2 3\n").unwrap();
    let words = ["vertex 2", "bad.obj, line 2"];
    for args in [
        &["view", "out", "--mesh=bad.obj"][..],
        &["export", "out", "page.html", "--mesh=bad.obj"],
        &["mesh", "bad.obj", "--compare", "box.ply"],
        &["mesh", "box.ply", "--compare", "bad.obj"],
    ] {
        refused(path, args, INPUT, &words);
    }
}

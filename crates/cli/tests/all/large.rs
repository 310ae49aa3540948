//! Commands on splats that one engine does not hold, with buffers that are made small by DAPPLE_BUFFER_BYTES.

#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use crate::common;
use crate::page;

use common::exit::UNSUPPORTED;
use common::{Ran, TRAIN, dapple, json, ok_in, small_capture};
use dapple::Splats;
use dapple::runtime::adapters;
use dapple::scene::splat_file::{self, Format};
use page::Served;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

/// Gaussians of the splats; a buffer of 3 MiB holds 17 476.
const GAUSSIANS: usize = 20_000;

/// Writes small, opaque Gaussians with harmonics of degree 3 near the origin.
fn write_splats(path: &Path) {
    let mut state = 1u32;
    let mut noise = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let mut splats = Splats::empty(3);
    for _ in 0..GAUSSIANS {
        splats.means.push([0; 3].map(|_| 5.0 * noise()));
        splats.scales.push([-3.5 + noise(); 3]);
        splats.quats.push([1.0, noise(), noise(), noise()]);
        splats.opacities.push(3.0);
        splats.sh0.push([noise(), noise(), noise()]);
        splats.sh_rest.extend((0..45).map(|_| noise()));
    }
    splat_file::write(path, &splats, Format::Ply).unwrap();
}

/// Returns the folder of a capture and a run whose splats are replaced by large ones; `None` without a software GPU.
fn large_run() -> Option<TempDir> {
    if !adapters().iter().any(|a| a.name.contains("llvmpipe")) {
        let why = "splats of several engines are NOT tested: Mesa's software Vulkan driver is not installed (apt \
                   install mesa-vulkan-drivers)";
        dapple::scene::test_requirements::skipped("gpu", why);
        return None;
    }
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    write_splats(&folder.path().join("out/splats.ply"));
    Some(folder)
}

fn on_gpu(folder: &Path, args: &[&str]) -> Command {
    let mut command = dapple();
    command.args(args).arg("--device=gpu:llvmpipe");
    command.current_dir(folder);
    command
}

/// Runs a command with buffers that hold all splats.
fn whole(folder: &Path, args: &[&str]) -> Ran {
    let ran: Ran = on_gpu(folder, args).output().unwrap().into();
    assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
    assert!(!ran.stderr.contains("share them"), "{}", ran.stderr);
    ran
}

/// Runs a command with buffers that do not hold all splats.
fn shared(folder: &Path, args: &[&str], code: i32) -> Ran {
    let mut command = on_gpu(folder, args);
    command.env("DAPPLE_BUFFER_BYTES", "3MiB");
    let ran: Ran = command.output().unwrap().into();
    assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
    for words in [
        "note: 20,000 Gaussians do not fit one buffer of gpu (llvmpipe",
        ": 2 engines share them",
        "device: 2 ranks: gpu (llvmpipe",
    ] {
        assert!(ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
    ran
}

fn assert_equal_files(folder: &Path, a: &str, b: &str) {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(read(a) == read(b), "{a} and {b}");
}

#[test]
fn splats_that_one_engine_does_not_hold_have_the_results_of_one_engine() {
    let Some(folder) = large_run() else { return };
    let path = folder.path();
    let render = ["render", "out", "--views=held-out", "--format=exr", "-o"];
    whole(path, &[&render[..], &["one"]].concat());
    shared(path, &[&render[..], &["two"]].concat(), 0);
    assert_equal_files(path, "one/000.exr", "two/000.exr");
    let eval = ["eval", "out", "--json"];
    let one = json(&whole(path, &eval));
    assert_eq!(json(&shared(path, &eval, 0)), one);
    assert!(one["psnr"].as_f64().unwrap() > 1.0, "{one}");

    let mesh = ["mesh", "out", "--texture-size=0", "-o"];
    whole(path, &[&mesh[..], &["one.ply", "--depth=median"]].concat());
    let said = shared(path, &[&mesh[..], &["two.ply"]].concat(), 0).stderr;
    assert!(said.contains("the mesh is made of median depths"), "{said}");
    assert_equal_files(path, "one.ply", "two.ply");
}

#[test]
fn results_that_need_one_engine_are_refused_with_the_way_to_them() {
    let Some(folder) = large_run() else { return };
    let path = folder.path();
    let args = [
        "render",
        "out",
        "--views=held-out",
        "-o=x",
        "--channel=surface-depth",
    ];
    let said = shared(path, &args, UNSUPPORTED).stderr;
    assert!(said.contains("engines that share splats"), "{said}");
    assert!(said.contains("hint: use --device cpu"), "{said}");
    assert!(!path.join("x").exists());
    let said = shared(path, &["eval", "out", "--align-poses"], UNSUPPORTED).stderr;
    assert!(said.contains("no gradients to fit poses"), "{said}");
    assert!(said.contains("hint: use --device cpu"), "{said}");
    // More than a process has.
    let mut command = on_gpu(path, &["eval", "out"]);
    let ran = command.env("DAPPLE_BUFFER_BYTES", "40KiB").output();
    let ran: Ran = ran.unwrap().into();
    assert_eq!(ran.code, UNSUPPORTED, "{}", ran.stderr);
    let words = "20000 Gaussians do not fit 64 engines";
    assert!(ran.stderr.contains(words), "{}", ran.stderr);
}

#[test]
fn the_viewer_shows_splats_that_one_engine_does_not_hold() {
    let Some(folder) = large_run() else { return };
    let mut command = on_gpu(folder.path(), &["view", "out", "--port=0"]);
    let served = Served::start(command.env("DAPPLE_BUFFER_BYTES", "3MiB"));
    let mut page = served.page();
    for id in 0..2 {
        assert!(page.look(id, 0.1));
        assert!(page.picture(&mut |_| {}).is_some(), "frame {id}");
    }
}

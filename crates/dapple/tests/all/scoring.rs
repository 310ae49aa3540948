//! Scores computed on the device of the splats equal the host's scores, which are the reference, for all
//! kinds of photos. Requested images do not change the scores.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::BoxedEngine;
use dapple::contract::{Pictures, RenderSettings};
use dapple::prelude::*;
use dapple::scene::test_requirements;
use dapple::train::evaluate::{Scoring, evaluate};
use dapple::train::{ImageScore, init};

/// Returns held-out photos with a trained appearance: masked, transparent, both, one fully masked, one too
/// small for a window of SSIM.
fn views() -> (Splats, Vec<View>) {
    let options = |width, height| SynthOptions {
        photos: 6,
        width,
        height,
        points: 2000,
        ..SynthOptions::default()
    };
    let capture = synth::dataset(&options(83, 57)).unwrap();
    let small = synth::dataset(&options(30, 9)).unwrap();
    let config = Preset::M8.config_for(1);
    let train: Vec<usize> = (0..capture.views.len()).collect();
    let splats = init::initial_splats(&capture, &train, capture.extent(&train), &config).unwrap();
    let mut views = capture.views;
    views[5] = small.views[0].clone();
    let pixels = 83 * 57;
    for (i, view) in views[..5].iter_mut().enumerate() {
        let mut photo = (*view.photo.read().unwrap()).clone();
        if matches!(i, 1 | 3) {
            let shown = |p: usize| !(p % 83 / 9 + p / 83 / 7).is_multiple_of(3);
            let value = |p| if shown(p) { 255 } else { 0 };
            photo.mask = Some((0..pixels).map(value).collect());
        }
        if matches!(i, 2 | 3) {
            photo.alpha = Some((0..pixels).map(|p| (p * 7 % 256) as u8).collect());
        }
        if i == 4 {
            photo.mask = Some(vec![0; pixels]);
        }
        view.photo = photo.into();
    }
    (splats, views)
}

type Shown = Vec<Option<Pictures>>;

fn scored(
    engine: &mut BoxedEngine,
    views: &[View],
    scoring: &Scoring<'_>,
) -> (Vec<ImageScore>, Shown) {
    let settings = RenderSettings {
        background: [0.1, 0.5, 0.9],
        ..RenderSettings::default()
    };
    let views: Vec<&View> = views.iter().collect();
    let mut shown = Vec::new();
    let report = evaluate(engine, &views, &settings, scoring, &mut |_, pictures| {
        shown.push(pictures);
        Ok(())
    });
    (report.unwrap().images, shown)
}

fn check(engine: &mut BoxedEngine) {
    let (splats, views) = views();
    engine.upload(&splats, None).unwrap();
    let with = Scoring {
        pictures: true,
        ..Scoring::default()
    };
    // Colour-corrected scores need the render's floats: the host computes all of them.
    let on_host = Scoring {
        fitted: true,
        ..with
    };
    let (plain, nothing) = scored(engine, &views, &Scoring::default());
    let (here, shown) = scored(engine, &views, &with);
    let (there, expected) = scored(engine, &views, &on_host);
    assert_eq!(plain, here);
    assert!(nothing.iter().all(Option::is_none));
    // All except the fully masked photo.
    assert_eq!((here.len(), there.len(), shown.len()), (5, 5, 6));
    for (a, b) in here.iter().zip(&there) {
        let off = (a.psnr - b.psnr, a.ssim - b.ssim);
        println!(
            "{}: {:.3} dB, {:.4}, off by {:.1e}, {:.1e}",
            a.name, a.psnr, a.ssim, off.0, off.1
        );
        assert_eq!(a.name, b.name);
        assert!(off.0.abs() < 1e-4 && off.1.abs() < 1e-5, "{a:?} {b:?}");
        assert!(a.cc_psnr.is_none() && b.cc_psnr.is_some());
    }
    for (a, b) in shown.iter().zip(&expected) {
        let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
        assert_eq!((a.width, a.height), (b.width, b.height));
        let near = |a: &[u8], b: &[u8]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.abs_diff(*b) <= 1)
        };
        assert!(near(&a.rendered, &b.rendered));
        assert!(near(&a.errors, &b.errors));
    }
}

#[test]
fn the_cpu_engine_s_scores_are_the_host_s() {
    check(&mut dapple::engine(Device::Cpu).unwrap());
}

#[test]
fn a_gpu_s_scores_are_the_host_s() {
    match dapple::engine(test_requirements::test_gpu().parse().unwrap()) {
        Ok(mut engine) => check(&mut engine),
        Err(error) => test_requirements::skipped("gpu", &error.to_string()),
    }
}

//! Appearance MLP adapted to photos with unknown light: a LoRA fits light that an embedding cannot.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::contract::AppearanceMlp;
use dapple::contract::appearance_mlp::{self, EMBEDDING, ENCODED, FEATURES, HIDDEN};
use dapple::prelude::*;
use dapple::train::config::AppearancePatch;
use dapple::train::{AppearanceModel, ConfigPatch, Halves, evaluate_halves};

/// Creates a ball of Gaussians whose colours differ from every side.
fn ball() -> Splats {
    let mut splats = Splats::empty(3);
    for i in 0..300 {
        let t = (i as f32 + 0.5) / 300.0;
        let (z, angle) = (1.0 - 2.0 * t, 2.399_963_2 * i as f32);
        let r = (1.0 - z * z).sqrt();
        splats.means.push([r * angle.cos(), r * angle.sin(), z]);
        splats.scales.push([-2.2; 3]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(3.0);
        splats.sh0.push([0.4, 0.2, 0.0]);
    }
    let rest = drawn(300 * splats.sh_rest_stride(), 9.0);
    splats.sh_rest = rest.iter().map(|v| 0.15 * v).collect();
    splats
}

/// Returns numbers between -1 and 1, by their index.
fn drawn(count: usize, seed: f32) -> Vec<f32> {
    let number = |i: usize| (1.0 + i as f32).mul_add(12.9898, seed * 78.233).sin() * 43_758.547;
    (0..count)
        .map(|i| 2.0 * number(i).rem_euclid(1.0) - 1.0)
        .collect()
}

#[test]
fn a_lora_adapts_looks_to_light_that_the_network_has_not_learnt() {
    let (splats, mut engine) = (ball(), dapple::engine(Device::Cpu).unwrap());
    let mut known = AppearanceMlp::new([0.0; 3], 1.0, 1, splats.len(), 7);
    known.features = drawn(splats.len() * FEATURES, 1.0);
    // The light of the photos: other weights of the hidden units than the learnt ones.
    let mut changed = known.clone();
    let (by_unit, by_input) = (drawn(HIDDEN, 2.0), drawn(ENCODED, 3.0));
    for (k, row) in changed.network[..HIDDEN * ENCODED]
        .chunks_exact_mut(ENCODED)
        .enumerate()
    {
        for (w, v) in row.iter_mut().zip(&by_input) {
            *w += 1.5 * by_unit[k] * v;
        }
    }
    let settings = RenderSettings::default();
    let views: Vec<View> = (0..2)
        .map(|i| {
            let code: [f32; EMBEDDING] = drawn(EMBEDDING, 4.0 + i as f32)
                .iter()
                .map(|v| 0.2 * v)
                .collect::<Vec<_>>()
                .try_into()
                .unwrap();
            let mut lit = splats.clone();
            appearance_mlp::bake(&mut lit, &changed, &code);
            engine.upload(&lit, None).unwrap();
            let angle = 0.4 + 2.0 * f64::from(i);
            let eye = DVec3::new(3.0 * angle.cos(), 0.4, 3.0 * angle.sin());
            let camera = Camera::pinhole(48, 40, 44.0, Pose::look_at(eye, DVec3::ZERO, DVec3::Y));
            let rendered = engine.render(&camera, &settings).unwrap();
            View::new(format!("{i}.png"), camera, rendered.photo())
        })
        .collect();
    let patch = ConfigPatch {
        appearance: AppearancePatch {
            model: Some(AppearanceModel::Mlp),
            ..AppearancePatch::default()
        },
        ..ConfigPatch::default()
    };
    let config = TrainConfig::resolve(None, None, patch).unwrap();
    let score = |lora: Option<usize>| {
        let mut engine = dapple::engine(Device::Cpu).unwrap();
        let how = Halves {
            appearance: &config.appearance,
            appearance_mlp: Some(&known),
            lora,
            ssim_weight: 0.2,
            settings,
        };
        let all: Vec<&View> = views.iter().collect();
        evaluate_halves(&mut engine, &splats, &all, &how, &dapple::NoProgress).unwrap()
    };
    let (by_code, by_lora) = (score(None), score(Some(4)));
    println!("code {:.2} dB, LoRA {:.2} dB", by_code.psnr, by_lora.psnr);
    assert!(by_lora.psnr > by_code.psnr + 1.0);
    assert_eq!(score(Some(4)).psnr, by_lora.psnr, "the same each time");
}

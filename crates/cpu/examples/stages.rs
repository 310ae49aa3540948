//! Times the stages of a training step on synthetic Gaussians.
use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::*;
use dapple_scene::Photo;
use std::collections::BTreeMap;
use std::sync::Arc;

fn main() {
    let arg = |i: usize, d: u32| {
        std::env::args()
            .nth(i)
            .and_then(|a| a.parse().ok())
            .unwrap_or(d)
    };
    let (n, w, h, steps) = (arg(1, 165_000), arg(2, 516), arg(3, 344), arg(4, 30));
    let mut r = dapple_engine::scenes::Random::new(1);
    let camera = dapple_scene::Camera::pinhole(w, h, w as f64, dapple_scene::Pose::IDENTITY);
    let mut splats = dapple_scene::Splats::empty(3);
    let size = std::env::args()
        .nth(5)
        .and_then(|a| a.parse().ok())
        .unwrap_or(-5.0f64);
    for _ in 0..n {
        let z = r.uniform(2.0, 8.0);
        splats.means.push([
            (r.uniform(-0.55, 0.55) * z) as f32,
            (r.uniform(-0.4, 0.4) * z) as f32,
            z as f32,
        ]);
        let base = size + 0.7 * (r.uniform(-1.0, 1.0) + r.uniform(-1.0, 1.0));
        splats
            .scales
            .push([0, 1, 2].map(|_| (base + r.uniform(-1.2, 0.6) + (z / 4.0).ln()) as f32));
        splats
            .quats
            .push([0, 1, 2, 3].map(|_| r.uniform(-1.0, 1.0) as f32));
        splats.opacities.push(r.uniform(-4.0, 4.0) as f32);
        splats
            .sh0
            .push([0, 1, 2].map(|_| r.uniform(-1.0, 1.0) as f32));
        for _ in 0..45 {
            splats.sh_rest.push(r.uniform(-0.1, 0.1) as f32);
        }
    }
    let mut engine = CpuEngine::new(CpuOptions::default()).unwrap();
    println!("{}", engine.description());
    engine.upload(&splats, None).unwrap();
    let mut img = engine
        .render(&camera, &RenderSettings::default())
        .unwrap()
        .rgb;
    for (i, v) in img.iter_mut().enumerate() {
        *v = (*v * 0.8 + 0.1 * ((i / 3 % 64) as f32 / 64.0)).clamp(0.0, 1.0);
    }
    let photo = Photo::from_rgb(w, h, img.iter().map(|v| (v * 255.0) as u8).collect());
    let ids = engine
        .add_views(vec![TrainView {
            camera,
            photo: Arc::new(photo),
        }])
        .unwrap();
    let mut times: BTreeMap<Stage, Vec<f64>> = BTreeMap::new();
    let mut totals = vec![];
    for step in 1..=steps {
        let settings = StepSettings {
            step,
            render: RenderSettings::default(),
            learning_rates: LearningRates {
                means: 1e-6,
                scales: 1e-5,
                quats: 1e-5,
                opacities: 1e-5,
                sh0: 1e-5,
                sh_rest: 1e-6,
            },
            adam: Adam::default(),
            ssim_weight: 0.2,
            accumulate_density: true,
        };
        let t = std::time::Instant::now();
        engine.step(ids[0], &settings).unwrap();
        totals.push(t.elapsed().as_secs_f64() * 1e3);
        for r in engine.poll().unwrap() {
            if let Report::Step(s) = r {
                if step == steps {
                    println!("{:?} loss {}", s.counts, s.loss);
                }
                for st in s.stages {
                    times
                        .entry(st.stage)
                        .or_default()
                        .push(st.duration_ns as f64 * 1e-6);
                }
            }
        }
    }
    let med = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    for (stage, mut v) in times {
        println!("{:16} {:8.2} ms", stage.name(), med(&mut v));
    }
    println!("step {:.2} ms", med(&mut totals));
}

//! Purpose of masks, on captures with known ground truth. A masked distractor costs almost nothing, a
//! distractor without a mask costs several dB, and segmented parts stay empty.
#![allow(clippy::unwrap_used, reason = "tests")]

use dapple::MaskMode;
use dapple::prelude::*;
use dapple::train::config::Background;

const WIDTH: u32 = 72;
const HEIGHT: u32 = 54;

fn capture() -> Dataset {
    let options = SynthOptions {
        photos: 28,
        width: WIDTH,
        height: HEIGHT,
        points: 3000,
        ..SynthOptions::default()
    };
    synth::dataset(&options).unwrap()
}

/// Changes the training photos.
fn with_photos(capture: &Dataset, change: impl Fn(usize, &mut Photo)) -> Dataset {
    let mut changed = capture.clone();
    for index in changed.split(8).train {
        let view = &mut changed.views[index];
        let mut photo = (*view.photo.read().unwrap()).clone();
        change(index, &mut photo);
        view.photo = photo.into();
    }
    changed
}

fn config() -> TrainConfig {
    Preset::M8.config_for(600)
}

fn trained(capture: &Dataset, config: TrainConfig) -> Trainer {
    let engine = dapple::engine(Device::Cpu).unwrap();
    let mut trainer = Trainer::new(capture, config, engine).unwrap();
    trainer.run(&mut Silent).unwrap();
    trainer
}

/// Returns a magenta box of a fifth of the photo, at another place in each.
fn distractor(index: usize) -> impl Fn(u32, u32) -> bool {
    let (w, h) = (WIDTH * 2 / 5, HEIGHT / 2);
    let left = (index as u32 * 37) % (WIDTH - w);
    let top = (index as u32 * 23) % (HEIGHT - h);
    move |x, y| (left..left + w).contains(&x) && (top..top + h).contains(&y)
}

fn pixels() -> impl Iterator<Item = (usize, u32, u32)> {
    (0..WIDTH * HEIGHT).map(|i| (i as usize, i % WIDTH, i / WIDTH))
}

#[test]
fn a_masked_distractor_costs_next_to_nothing() {
    let clean = capture();
    let spoilt = with_photos(&clean, |index, photo| {
        let hit = distractor(index);
        for (i, _, _) in pixels().filter(|&(_, x, y)| hit(x, y)) {
            photo.rgb[3 * i..3 * i + 3].copy_from_slice(&[255, 0, 255]);
        }
    });
    let masked = with_photos(&spoilt, |index, photo| {
        let hit = distractor(index);
        let mask = pixels().map(|(_, x, y)| if hit(x, y) { 0 } else { 255 });
        photo.mask = Some(mask.collect());
    });
    let psnr = |capture| trained(capture, config()).evaluate().unwrap().psnr;
    let [clean, spoilt, masked] = [&clean, &spoilt, &masked].map(psnr);
    println!("clean {clean:.2} dB, distractor {spoilt:.2} dB, masked {masked:.2} dB");
    assert!(masked > spoilt + 2.0, "{masked} against {spoilt}");
    assert!(masked > clean - 1.0, "{masked} against {clean}");
}

/// Creates a ball, half of it black, before a transparent background. Sparse points are on it, and
/// dark points around it, as in a dark room.
fn ball() -> Dataset {
    let sphere = |i: usize, radius: f32| {
        let t = (i as f32 + 0.5) / 300.0;
        let (z, angle) = (1.0 - 2.0 * t, 2.399_963_2 * i as f32);
        let r = (1.0 - z * z).sqrt();
        [r * angle.cos(), r * angle.sin(), z].map(|v| v * radius)
    };
    let colour = |i: usize| [if i.is_multiple_of(2) { 0.0 } else { 0.8 }; 3];
    let mut truth = Splats::empty(0);
    for i in 0..300 {
        truth.means.push(sphere(i, 1.0));
        truth.scales.push([-2.3; 3]);
        truth.quats.push([1.0, 0.0, 0.0, 0.0]);
        truth.opacities.push(4.0);
        truth.sh0.push(colour(i).map(|v| (v - 0.5) / SH_C0));
    }
    let mut engine = dapple::engine(Device::Cpu).unwrap();
    engine.upload(&truth, None).unwrap();
    let view = |i: usize| {
        let angle = i as f64 * 0.5;
        let eye = DVec3::new(4.0 * angle.cos(), (i % 3) as f64 - 1.0, 4.0 * angle.sin());
        let camera = Camera::pinhole(64, 48, 56.0, Pose::look_at(eye, DVec3::ZERO, DVec3::Y));
        let seen = engine.render(&camera, &RenderSettings::default()).unwrap();
        let byte = |v: f32| (v * 255.0 + 0.5) as u8;
        let straight = |(i, v): (usize, &f32)| byte(v / seen.alpha[i / 3].max(1e-3));
        let rgb = seen.rgb.iter().enumerate().map(straight).collect();
        let mut photo = Photo::from_rgb(64, 48, rgb);
        photo.alpha = Some(seen.alpha.iter().map(|&a| byte(a)).collect());
        View::new(format!("{i:02}.png"), camera, photo)
    };
    let views = (0..25).map(view).collect();
    let on = (0..300).step_by(2).map(|i| (sphere(i, 1.02), [120; 3]));
    let around = (0..300).step_by(3).map(|i| (sphere(i, 1.7), [0; 3]));
    let points = on.chain(around);
    let points = points.map(|(position, rgb)| dapple::Point { position, rgb });
    Dataset {
        points: points.collect(),
        views,
        ..Dataset::default()
    }
}

/// Returns the mean opacity of held-out renders in transparent and in opaque parts of the photos.
fn alpha_outside_and_inside(capture: &Dataset, background: Background) -> [f64; 2] {
    let config = TrainConfig {
        background,
        ..config()
    };
    let mut trainer = trained(capture, config);
    let (mut sums, mut counts) = ([0.0; 2], [0.0; 2]);
    for view in trainer.eval_views().to_vec() {
        let rendered = trainer.render(&view.camera).unwrap();
        let photo = view.photo.read().unwrap();
        let photo = photo.alpha.as_ref().unwrap();
        for (alpha, &truth) in rendered.alpha.iter().zip(photo) {
            if truth == 0 || truth > 250 {
                sums[usize::from(truth > 0)] += f64::from(*alpha);
                counts[usize::from(truth > 0)] += 1.0;
            }
        }
    }
    assert!(counts[0] > 1000.0 && counts[1] > 300.0, "{counts:?}");
    [sums[0] / counts[0], sums[1] / counts[1]]
}

#[test]
fn what_is_segmented_away_stays_empty() {
    let capture = ball();
    let random = alpha_outside_and_inside(&capture, Background::Random);
    let black = alpha_outside_and_inside(&capture, Background::BLACK);
    println!("mean opacity outside and inside: random {random:.3?}, black {black:.3?}");
    assert!(random[0] < 0.02, "{random:?}");
    assert!(random[1] > 0.95, "{random:?}");
    // Over black, black splats are free and black parts need none.
    assert!(black[0] > 4.0 * random[0] + 0.05, "{black:?}");
}

#[test]
fn the_background_of_a_step_depends_on_seed_and_step_alone() {
    let schedule = |seed, background| {
        let config = TrainConfig {
            seed,
            background,
            ..config()
        };
        dapple::train::Schedule::new(config, 1.0)
    };
    let of = |seed| {
        let schedule = schedule(seed, Background::Random);
        move |step| schedule.step_settings(step).render.background
    };
    let (first, again, other) = (of(1), of(1), of(2));
    assert_eq!(first(7), again(7));
    assert_ne!(first(7), first(8));
    assert_ne!(first(7), other(7));
    let mean: f32 = (1..=300).flat_map(first).sum::<f32>() / 900.0;
    assert!((mean - 0.5).abs() < 0.05, "{mean}");
    let fixed = schedule(1, Background::Random).render_settings();
    assert_eq!(fixed.background, [0.0; 3]);
}

#[test]
fn segmenting_makes_the_background_random_unless_another_is_named() {
    let parsed = |text: &str| TrainConfig::parse(text, "mine.toml");
    let segment = "[data]\nmask_mode = \"segment\"\n";
    let config = parsed(segment).unwrap();
    assert_eq!(config.background, Background::Random);
    assert_eq!(config.data.mask_mode, MaskMode::Segment);
    assert_eq!(parsed(&config.to_toml().unwrap()).unwrap(), config);
    let white = parsed(&format!("background = \"white\"\n{segment}")).unwrap();
    assert_eq!(white.background, Background::Colour([1.0; 3]));
    let black = parsed(&format!("background = [0, 0.0, 0]\n{segment}")).unwrap();
    assert_eq!(black.background, Background::BLACK);
    assert_eq!(parsed("").unwrap().background, Background::BLACK);
    for bad in ["\"pink\"", "[0, 1]", "[0, 1, 0, 1]", "3"] {
        let error = parsed(&format!("background = {bad}")).unwrap_err();
        assert!(error.to_string().contains("white"), "{error}");
    }
}

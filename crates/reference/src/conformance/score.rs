//! Scores that an engine computes, against the `f64` reference on the engine's render.

use super::engines::{Make, with_splats};
use crate::oracle::{loss, photo_mask, photo_target};
use crate::scenes;
use dapple_engine::score::{HIDDEN, error_colour, to_byte};
use dapple_engine::{EngineExt, Pictures, RenderSettings, Rendered, ScoreAsks, ScoredView, noise};
use dapple_scene::{Camera, Photo};

/// Maximum relative error of sums: 2e-5 of the squared error is 1e-4 dB.
const OF_SUMS: f64 = 2e-5;

/// Maximum error of mean SSIM.
const OF_SSIM: f64 = 1e-5;

/// Pixels that a mask hides.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mask {
    None,
    /// Discs across the image.
    Holes,
    /// All pixels more than 5 from the border: no window of SSIM is left.
    Inside,
    All,
}

/// Checks scores on views of every awkward size, with masks and transparency, against the reference's
/// result for the render. PSNR is within 1e-4 dB, SSIM within 1e-5 and images within a level; the sums
/// are equal without images. An engine scores every view that has a window of SSIM, or leaves all to the host.
pub fn scores_match_the_reference(make: Make<'_>) {
    let scene = scenes::named("random_sh3");
    let mut engine = with_splats(make, &scene.splats);
    let settings = RenderSettings {
        background: [0.2, 0.9, 0.4],
        ..scene.settings
    };
    let mut compared = 0;
    // Large, small, large again: results of one view must not appear in the next.
    let sizes = [
        (75, 41),
        (11, 11),
        (33, 17),
        (64, 48),
        (81, 50),
        (30, 10),
        (5, 5),
    ];
    for (width, height) in sizes {
        let pose = scene.camera.camera_from_world;
        let camera = Camera::pinhole(width, height, 0.9 * f64::from(width), pose);
        let rendered = engine.render(&camera, &settings).unwrap();
        for mask in [Mask::None, Mask::Holes, Mask::Inside, Mask::All] {
            for has_alpha in [false, true] {
                let what = format!("{width} x {height}, mask {mask:?}, alpha {has_alpha}");
                let photo = photo(&rendered, mask, has_alpha);
                let mut score = |pictures| {
                    engine
                        .score(&camera, &settings, &photo, ScoreAsks { pictures })
                        .unwrap()
                };
                let (plain, shown) = (score(false), score(true));
                let Some(shown) = shown else {
                    assert_eq!(plain, None, "{what}");
                    continue;
                };
                compared += 1;
                check_sums(&what, &shown, &rendered, &photo, settings.background);
                let pictures = shown.pictures.as_ref().expect("images were requested");
                check_pictures(&what, pictures, &rendered, &photo, settings.background);
                let without = ScoredView {
                    pictures: None,
                    ..shown
                };
                assert_eq!(plain, Some(without), "{what}");
            }
        }
    }
    // Five sizes have windows, with a mask's holes four.
    assert!(
        [0, 2 * (5 + 4)].contains(&compared),
        "{compared} views were scored"
    );
}

/// Returns a photo near the render, as after some training.
fn photo(rendered: &Rendered, mask: Mask, has_alpha: bool) -> Photo {
    let (width, height) = (rendered.width, rendered.height);
    let uniform = |seed: u32, i: usize| (noise::pcg(noise::pcg(seed) ^ i as u32) >> 24) as u8;
    let bytes = rendered.rgb.iter().enumerate();
    let bytes = bytes.map(|(i, &value)| to_byte(value + f32::from(uniform(1, i)) / 1000.0 - 0.1));
    let mut photo = Photo::from_rgb(width, height, bytes.collect());
    let pixels = (width * height) as usize;
    photo.alpha = has_alpha.then(|| (0..pixels).map(|i| uniform(2, i)).collect());
    let shown = |i: usize| {
        let (x, y) = (i as u32 % width, i as u32 / width);
        let (dx, dy) = (x as i32 % 20 - 9, y as i32 % 15 - 6);
        match mask {
            Mask::None => true,
            Mask::Holes => dx * dx + dy * dy > 20,
            Mask::Inside => x.min(width - 1 - x) < 5 || y.min(height - 1 - y) < 5,
            Mask::All => false,
        }
    };
    // Values on both sides of the threshold.
    let value = |i: usize| if shown(i) { 128 } else { 127 };
    photo.mask = (mask != Mask::None).then(|| (0..pixels).map(value).collect());
    photo
}

fn check_sums(
    what: &str,
    scored: &ScoredView,
    rendered: &Rendered,
    photo: &Photo,
    background: [f32; 3],
) {
    let (width, height) = (rendered.width as usize, rendered.height as usize);
    let target = photo_target(photo, background);
    let mask = photo_mask(photo);
    let counts = |pixel: usize| mask.as_ref().is_none_or(|mask| mask[pixel]);
    let (mut values, mut squared, mut absolute) = (0, 0.0, 0.0);
    let clamped: Vec<f64> = rendered
        .rgb
        .iter()
        .map(|&v| f64::from(v).clamp(0.0, 1.0))
        .collect();
    for (i, target) in target.iter().enumerate().filter(|(i, _)| counts(i / 3)) {
        values += 1;
        squared += (clamped[i] - target).powi(2);
        absolute += (f64::from(rendered.rgb[i]) - target).abs();
    }
    let inside = |x: usize, size: usize| x >= 5 && x + 5 < size;
    let centre = |i: &usize| inside(i % width, width) && inside(i / width, height) && counts(*i);
    let windows = 3 * (0..width * height).filter(centre).count() as u64;
    assert_eq!((scored.values, scored.windows), (values, windows), "{what}");
    assert!(windows > 0, "{what}: scored without a window");
    let (dissimilarity, _) = loss(&clamped, &target, width, height, mask.as_deref(), 1.0);
    let off = |actual: f64, expected: f64| (actual / expected - 1.0).abs();
    let ssim = scored.similarity / windows as f64;
    println!(
        "{what}: squared {:.1e}, absolute {:.1e}, SSIM {:.1e}",
        off(scored.squared_error, squared),
        off(scored.absolute_error, absolute),
        ssim - (1.0 - dissimilarity)
    );
    assert!(off(scored.squared_error, squared) < OF_SUMS, "{what}");
    assert!(off(scored.absolute_error, absolute) < OF_SUMS, "{what}");
    assert!((ssim - (1.0 - dissimilarity)).abs() < OF_SSIM, "{what}");
    assert_eq!(scored.counts, rendered.counts, "{what}");
}

fn check_pictures(
    what: &str,
    pictures: &Pictures,
    rendered: &Rendered,
    photo: &Photo,
    background: [f32; 3],
) {
    assert_eq!(
        (pictures.width, pictures.height),
        (photo.width, photo.height)
    );
    let target = photo_target(photo, background);
    let mask = photo_mask(photo);
    let near = |a: &[u8], b: [u8; 3]| a.iter().zip(b).all(|(a, b)| a.abs_diff(b) <= 1);
    assert_eq!(pictures.rendered.len(), rendered.rgb.len(), "{what}");
    assert_eq!(pictures.errors.len(), rendered.rgb.len(), "{what}");
    for (i, colour) in rendered.rgb.as_chunks::<3>().0.iter().enumerate() {
        let place = 3 * i..3 * i + 3;
        let byte = &pictures.rendered[place.clone()];
        assert!(near(byte, colour.map(to_byte)), "{what}: pixel {i}");
        let expected = match mask.as_ref().is_none_or(|mask| mask[i]) {
            true => error_colour([0, 1, 2].map(|c| target[3 * i + c] as f32), *colour),
            false => HIDDEN,
        };
        let error = &pictures.errors[place];
        assert!(
            near(error, expected),
            "{what}: error of pixel {i}, {error:?} {expected:?}"
        );
    }
}

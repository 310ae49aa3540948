//! Loss, SSIM, PSNR and Adam against independently known values, and finite differences.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_engine::Adam;
use dapple_reference::finite_differences::{assert_close, central_difference};
use dapple_reference::scenes::Random;
use dapple_reference::{adam, loss, photo_mask, photo_target, psnr, ssim, ssim_window};
use dapple_scene::Photo;

const W: usize = 17;
const H: usize = 14;

fn images(seed: u64) -> (Vec<f64>, Vec<f64>, Vec<bool>) {
    let mut random = Random::new(seed);
    let target: Vec<f64> = (0..W * H * 3).map(|_| random.uniform(0.0, 1.0)).collect();
    let prediction = target
        .iter()
        .map(|t| {
            t + random.uniform(0.01, 0.3)
                * if random.uniform(0.0, 1.0) < 0.5 {
                    1.0
                } else {
                    -1.0
                }
        })
        .collect();
    let mask = (0..W * H)
        .map(|_| random.uniform(0.0, 1.0) < 0.75)
        .collect();
    (prediction, target, mask)
}

#[test]
fn gradient_agrees_with_finite_differences_with_and_without_mask() {
    let (prediction, target, mask) = images(1);
    for mask in [None, Some(mask.as_slice())] {
        for weight in [0.0, 0.2, 1.0] {
            let value = |p: &[f64]| loss(p, &target, W, H, mask, weight);
            let (_, analytic) = value(&prediction);
            let numeric: Vec<f64> = (0..prediction.len())
                .map(|i| {
                    central_difference(|by| {
                        let mut moved = prediction.clone();
                        moved[i] += by;
                        // Scaled: means over pixels are small.
                        1e3 * value(&moved).0
                    })
                })
                .collect();
            let scaled: Vec<f64> = analytic.iter().map(|g| 1e3 * g).collect();
            assert_close("loss", &scaled, &numeric);
        }
    }
}

/// SSIM from its definition: one window, weighted means, variances about them.
#[test]
fn ssim_agrees_with_its_definition() {
    let (a, b, _) = images(2);
    let window = ssim_window();
    let (mut sum, mut count) = (0.0, 0.0);
    for channel in 0..3 {
        for y in 5..H - 5 {
            for x in 5..W - 5 {
                let each = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
                    let mut total = 0.0;
                    for j in 0..11 {
                        for i in 0..11 {
                            let at = ((y + j - 5) * W + x + i - 5) * 3 + channel;
                            total += window[i] * window[j] * f(a[at], b[at]);
                        }
                    }
                    total
                };
                let (ma, mb) = (each(&|a, _| a), each(&|_, b| b));
                let va = each(&|a, _| (a - ma).powi(2));
                let vb = each(&|_, b| (b - mb).powi(2));
                let cov = each(&|a, b| (a - ma) * (b - mb));
                sum += (2.0 * ma * mb + 1e-4) * (2.0 * cov + 9e-4)
                    / ((ma * ma + mb * mb + 1e-4) * (va + vb + 9e-4));
                count += 1.0;
            }
        }
    }
    let value = ssim(&a, &b, W, H).unwrap();
    assert!(
        (value - sum / count).abs() < 1e-12,
        "{value} {}",
        sum / count
    );
    assert!((ssim(&a, &a, W, H).unwrap() - 1.0).abs() < 1e-12);
    // The window: exp(-1 / 4.5) between neighbours of the centre, sum 1.
    assert!((window[6] / window[5] - (-1.0f64 / 4.5).exp()).abs() < 1e-12);
    assert!((window.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn loss_mixes_l1_and_ssim() {
    let (a, b, _) = images(3);
    let l1 = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).sum::<f64>() / a.len() as f64;
    let expected = 0.8 * l1 + 0.2 * (1.0 - ssim(&a, &b, W, H).unwrap());
    let (value, _) = loss(&a, &b, W, H, None, 0.2);
    assert!((value - expected).abs() < 1e-12);
    let (value, gradient) = loss(&b, &b, W, H, None, 0.2);
    assert!(value.abs() < 1e-12);
    assert!(gradient.iter().all(|g| g.abs() < 1e-12));
}

#[test]
fn masked_pixels_change_nothing_and_get_no_gradient() {
    let (mut a, b, mask) = images(4);
    let (before, gradient) = loss(&a, &b, W, H, Some(&mask), 0.2);
    for (i, counts) in mask.iter().enumerate() {
        if !counts {
            assert_eq!(gradient[3 * i..3 * i + 3], [0.0; 3]);
            a[3 * i] += 5.0;
        }
    }
    assert_eq!(loss(&a, &b, W, H, Some(&mask), 0.2).0, before);
    let none = vec![false; W * H];
    let (value, gradient) = loss(&a, &b, W, H, Some(&none), 0.2);
    assert_eq!(value, 0.0);
    assert!(gradient.iter().all(|&g| g == 0.0));
}

#[test]
fn an_image_smaller_than_the_window_is_scored_by_l1_alone() {
    let (a, b) = (vec![0.75; 10 * 30 * 3], vec![0.5; 10 * 30 * 3]);
    assert_eq!(ssim(&a, &b, 10, 30), None);
    let (value, gradient) = loss(&a, &b, 10, 30, None, 0.2);
    assert!((value - 0.25).abs() < 1e-12);
    assert!((gradient[17] - 1.0 / 900.0).abs() < 1e-12);
}

#[test]
fn psnr_of_known_errors() {
    assert!((psnr(&[0.6; 12], &[0.5; 12]) - 20.0).abs() < 1e-9);
    assert_eq!(psnr(&[0.5; 12], &[0.5; 12]), f64::INFINITY);
}

#[test]
fn a_photo_with_alpha_is_laid_over_the_background() {
    let mut photo = Photo::from_rgb(3, 1, vec![255, 0, 51, 255, 0, 51, 255, 0, 51]);
    photo.alpha = Some(vec![255, 0, 51]);
    photo.mask = Some(vec![255, 0, 255]);
    let target = photo_target(&photo, [0.0, 1.0, 0.5]);
    let expected = [1.0, 0.0, 0.2, 0.0, 1.0, 0.5, 0.2, 0.8, 0.44];
    for (value, expected) in target.iter().zip(expected) {
        assert!((value - expected).abs() < 1e-7, "{value} {expected}");
    }
    assert_eq!(photo_mask(&photo), Some(vec![true, false, true]));
}

/// The first step of Adam is the learning rate for any gradient; with constant gradients, later
/// steps are too.
#[test]
fn adam_steps_by_the_learning_rate_at_first() {
    let mut state = [1.0, 0.0, 0.0];
    for step in 1..=3 {
        state = adam(state, -1e-7, 0.01, &Adam::default(), step);
        assert!((state[0] - (1.0 + 0.01 * f64::from(step))).abs() < 1e-8);
    }
    // Two different gradients, by hand: m = 0.9 * 0.1 * 2 + 0.1 * -1 = 0.08, v = 0.999 * 0.004 +
    // 0.001 = 0.004996, corrected by 0.19 and 0.001999.
    let state = adam([0.0; 3], 2.0, 0.0, &Adam::default(), 1);
    let state = adam(state, -1.0, 1.0, &Adam::default(), 2);
    let expected = -(0.08 / 0.19) / (0.004996f64 / 0.001999).sqrt();
    assert!(
        (state[0] - expected).abs() < 1e-6,
        "{} {expected}",
        state[0]
    );
}

//! PSNR and SSIM, compared with the f64 reference and with values known without it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use dapple_engine::Rendered;
use dapple_reference as reference;
use dapple_scene::Photo;
use dapple_train::evaluate::{PSNR_MAX, Paired, flat_psnr, psnr, score, ssim};
use dapple_train::{EvalReport, ImageScore};

/// Two images that resemble each other, with flat parts.
fn pair(width: usize, height: usize) -> (Vec<f32>, Vec<f32>) {
    let mut state = 12345u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let mut a = vec![0.0; width * height * 3];
    let mut b = a.clone();
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let i = (y * width + x) * 3 + c;
                let smooth = 0.5 + 0.5 * ((x * (c + 1) + 2 * y) as f32 * 0.05).sin();
                a[i] = if x < width / 3 { 0.9 } else { smooth };
                b[i] = (a[i] + 0.2 * (noise() - 0.5)).clamp(0.0, 1.0);
            }
        }
    }
    (a, b)
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

#[test]
fn ssim_and_psnr_agree_with_the_reference() {
    for (width, height) in [(75, 40), (11, 11), (16, 33)] {
        let (a, b) = pair(width, height);
        let expected = reference::ssim(&widen(&a), &widen(&b), width, height).unwrap();
        let actual = ssim(&a, &b, width, height, None);
        assert!(
            (actual - expected).abs() < 2e-6,
            "{width}x{height}: {actual} {expected}"
        );
        let expected = reference::psnr(&widen(&a), &widen(&b));
        let actual = psnr(&a, &b, width, None);
        assert!((actual - expected).abs() < 1e-6, "{actual} {expected}");
    }
}

#[test]
fn known_values() {
    let (a, _) = pair(40, 30);
    assert_eq!(psnr(&a, &a, 40, None), PSNR_MAX);
    assert!((ssim(&a, &a, 40, 30, None) - 1.0).abs() < 1e-6);
    // Off by 0.1 everywhere: 20 dB. Flat images: only the luminance term is left.
    let (dark, light) = (vec![0.4f32; 40 * 30 * 3], vec![0.5f32; 40 * 30 * 3]);
    assert!((psnr(&dark, &light, 40, None) - 20.0).abs() < 1e-4);
    let luminance = (2.0 * 0.4 * 0.5 + 1e-4) / (0.16 + 0.25 + 1e-4);
    assert!((ssim(&dark, &light, 40, 30, None) - luminance).abs() < 1e-5);
    // Narrower than a window: still a number between 0 and 1.
    let small = ssim(&dark[..5 * 5 * 3], &light[..5 * 5 * 3], 5, 5, None);
    assert!((small - luminance).abs() < 1e-5, "{small}");
}

#[test]
fn masked_pixels_count_nowhere() {
    let (width, height) = (40, 30);
    let (clean, target) = pair(width, height);
    let mut mask = vec![255u8; width * height];
    let mut broken = clean.clone();
    for y in 5..12 {
        for x in 20..29 {
            mask[y * width + x] = 0;
            broken[(y * width + x) * 3] = 1.0 - broken[(y * width + x) * 3];
        }
    }
    let masked = |image: &[f32]| {
        (
            psnr(image, &target, width, Some(&mask)),
            ssim(image, &target, width, height, Some(&mask)),
        )
    };
    assert_eq!(masked(&clean), masked(&broken));
    let whole = |image: &[f32]| psnr(image, &target, width, None);
    assert!(whole(&broken) < whole(&clean) - 1.0);
}

/// `1 - SSIM` is what the loss minimises: a score is one minus the loss with nothing but SSIM in it.
#[test]
fn masked_ssim_is_that_of_the_loss() {
    let (width, height) = (40, 30);
    let (a, b) = pair(width, height);
    let holes = |i: usize| !(i % width / 9 + i / width / 7).is_multiple_of(3);
    let half = |i: usize| i % width >= 20;
    let masks: [&dyn Fn(usize) -> bool; 2] = [&holes, &half];
    for counts in masks {
        let counts: Vec<bool> = (0..width * height).map(counts).collect();
        let mask: Vec<u8> = counts.iter().map(|&c| if c { 255 } else { 0 }).collect();
        let (loss, _) = reference::loss(&widen(&a), &widen(&b), width, height, Some(&counts), 1.0);
        let actual = ssim(&a, &b, width, height, Some(&mask));
        assert!((actual - (1.0 - loss)).abs() < 2e-6, "{actual} {loss}");
    }
    // No window has its centre on the rim, so windows are cut to the shown pixels.
    let rim: Vec<u8> = (0..width * height)
        .map(|i| if i % width < 5 { 255 } else { 0 })
        .collect();
    assert!(ssim(&a, &a, width, height, Some(&rim)) > 0.999_999);
    let of_rim = ssim(&a, &b, width, height, Some(&rim));
    assert!(of_rim < 0.99);
    // Hidden pixels are not in the windows.
    let mut other = b.clone();
    for (value, hidden) in other.chunks_exact_mut(3).zip(&rim) {
        if *hidden == 0 {
            value.fill(0.1);
        }
    }
    assert_eq!(ssim(&a, &other, width, height, Some(&rim)), of_rim);
}

/// Three photos, of which the run `a` shows two better than `b` and one worse; LPIPS falls where PSNR
/// rises.
fn report(psnr: [f64; 3]) -> EvalReport {
    let image = |(i, psnr): (usize, f64)| ImageScore {
        name: format!("{i}.png"),
        psnr,
        ssim: psnr / 100.0,
        lpips: Some(1.0 - psnr / 50.0),
        cc_psnr: None,
        cc_ssim: None,
    };
    EvalReport {
        psnr: psnr.iter().sum::<f64>() / 3.0,
        ssim: 0.0,
        lpips: None,
        cc_psnr: None,
        cc_ssim: None,
        focus: None,
        gaussians: 1,
        background: [0.0; 3],
        images: psnr.into_iter().enumerate().map(image).collect(),
        notes: Vec::new(),
    }
}

#[test]
fn the_worst_image_comes_first() {
    let report = report([24.0, 21.0, 27.0]);
    let names = |count| -> Vec<&str> {
        let worst = report.worst(count);
        worst.into_iter().map(|image| image.name.as_str()).collect()
    };
    assert_eq!(names(2), ["1.png", "0.png"]);
    assert_eq!(names(9).len(), 3);
}

#[test]
fn a_comparison_is_the_first_run_less_the_second() {
    let (a, b) = (report([24.0, 21.0, 27.0]), report([22.0, 20.0, 28.0]));
    let paired = Paired::new(&a, &b).unwrap();
    assert_eq!(paired.psnr.images, [2.0, 1.0, -1.0]);
    let lpips = paired.lpips.unwrap();
    for (difference, sign) in [(&paired.psnr, 1.0), (&paired.ssim, 1.0), (&lpips, -1.0)] {
        assert!(difference.mean * sign > 0.0, "{difference:?}");
        assert_eq!((difference.better, difference.worse), (2, 1));
    }
    let mut renamed = b;
    renamed.images[2].name = "other.png".to_owned();
    let error = Paired::new(&a, &renamed).unwrap_err();
    assert!(error.hint_text().is_some(), "{error}");
}

#[test]
fn transparent_photos_are_seen_over_the_background() {
    let photo = Photo {
        alpha: Some(vec![0, 255]),
        ..Photo::from_rgb(2, 1, vec![255, 0, 0, 0, 0, 255])
    };
    let rendered = |r, g, b| Rendered {
        width: 2,
        height: 1,
        rgb: vec![0.0, 1.0, 0.0, r, g, b],
        ..Rendered::default()
    };
    // Not clamped: values above white count. One at a time, since a non-finite value would hide the others.
    for (r, g, b) in [(0.0, 0.0, 7.0), (-3.0, 0.0, 1.0), (0.0, f32::NAN, 1.0)] {
        let scores = score(&rendered(r, g, b), &photo, [0.0, 1.0, 0.0], None);
        assert_eq!(scores.unwrap().unwrap().psnr, PSNR_MAX, "{r} {g} {b}");
    }
    let broken = score(&rendered(0.0, 0.0, f32::NAN), &photo, [0.0, 1.0, 0.0], None);
    assert!(
        broken.unwrap().unwrap().psnr < 10.0,
        "it costs a whole value"
    );
    let rendered = rendered(0.0, 0.0, 1.0);
    let hidden = Photo {
        mask: Some(vec![0, 0]),
        ..photo.clone()
    };
    assert_eq!(score(&rendered, &hidden, [0.0; 3], None).unwrap(), None);
    let other = Photo::from_rgb(1, 1, vec![0; 3]);
    assert!(score(&rendered, &other, [0.0; 3], None).is_err());
}

#[test]
fn a_picture_of_one_colour_scores_what_a_photo_varies() {
    // Half black, half white: the mean is grey, off by a half everywhere.
    let rgb = [[0; 3], [255; 3]].concat();
    let mut photo = Photo::from_rgb(2, 1, rgb);
    let score = flat_psnr(&photo, [0.0; 3]).unwrap();
    assert!((score - 10.0 * 4.0f64.log10()).abs() < 1e-6, "{score}");
    // Masked pixels do not vary.
    photo.mask = Some(vec![255, 0]);
    assert!((flat_psnr(&photo, [0.0; 3]).unwrap() - 60.0).abs() < 1e-9);
    photo.mask = Some(vec![0, 0]);
    assert_eq!(flat_psnr(&photo, [0.0; 3]), None);
}

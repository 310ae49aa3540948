//! Compares convolutions and pooling with `f64` formulas and their differences: in 16 bits, fused, and refused.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_tensor::layers::Conv2d;
use dapple_tensor::{Context, DType, Plan, PlanOptions, Tensor, Windows};
use support::gradients::{Case, case, check};
use support::{close, contexts, numbers, wide};

/// Sizes of a convolution: image `[n, c, h, w]`, weights `[o, c, kh, kw]`, stride, padding.
#[derive(Clone, Copy)]
struct Shape {
    image: [usize; 4],
    weight: [usize; 4],
    windows: Windows,
}

fn shape(image: [usize; 4], (o, kh, kw): (usize, usize, usize), windows: Windows) -> Shape {
    Shape {
        image,
        weight: [o, image[1], kh, kw],
        windows,
    }
}

/// Returns the rows or columns of a result.
fn out(shape: &Shape, axis: usize) -> usize {
    let Windows { stride, padding } = shape.windows;
    (shape.image[2 + axis] + 2 * padding[axis] - shape.weight[2 + axis]) / stride[axis] + 1
}

/// Calls `each` for each result with its position and the taps inside: image's index, weight's.
fn taps(s: &Shape, mut each: impl FnMut([usize; 4], Vec<(usize, usize)>)) {
    let ([n, c, h, w], [o, _, kh, kw]) = (s.image, s.weight);
    let Windows { stride, padding } = s.windows;
    for place in 0..n * o * out(s, 0) * out(s, 1) {
        let (x, rest) = (place % out(s, 1), place / out(s, 1));
        let (y, rest) = (rest % out(s, 0), rest / out(s, 0));
        let (filter, image) = (rest % o, rest / o);
        let mut inside = Vec::new();
        for tap in 0..c * kh * kw {
            let (kx, ky, channel) = (tap % kw, tap / kw % kh, tap / (kw * kh));
            let (py, px) = (y * stride[0] + ky, x * stride[1] + kx);
            let (Some(py), Some(px)) = (py.checked_sub(padding[0]), px.checked_sub(padding[1]))
            else {
                continue;
            };
            if py < h && px < w {
                let pixel = ((image * c + channel) * h + py) * w + px;
                inside.push((pixel, filter * c * kh * kw + tap));
            }
        }
        each([image, filter, y, x], inside);
    }
}

fn convolved(s: &Shape, image: &[f64], weight: &[f64]) -> Vec<f64> {
    let mut all = Vec::new();
    taps(s, |_, inside| {
        all.push(inside.iter().map(|(i, w)| image[*i] * weight[*w]).sum());
    });
    all
}

/// Maximum of the inside taps of each window, with one filter for each channel by itself: `[n * c, 1, h, w]`.
fn pooled(s: &Shape, image: &[f64]) -> Vec<f64> {
    let mut all = Vec::new();
    taps(s, |_, inside| {
        let values = inside.iter().map(|(i, _)| image[*i]);
        all.push(values.fold(f64::NEG_INFINITY, f64::max));
    });
    all
}

fn shapes() -> Vec<Shape> {
    vec![
        shape([1, 1, 5, 4], (2, 3, 3), Windows::default()),
        shape([2, 3, 6, 5], (4, 3, 3), Windows::new(1, 1)),
        shape([1, 2, 7, 9], (5, 3, 3), Windows::new(2, 1)),
        // Steps with a remainder, different for each axis.
        shape(
            [2, 2, 8, 7],
            (3, 4, 2),
            Windows {
                stride: [3, 2],
                padding: [2, 0],
            },
        ),
        // Like the first layer of AlexNet: steps larger than the padding.
        shape([1, 3, 15, 15], (2, 11, 11), Windows::new(4, 2)),
        // A product of pixels.
        shape([3, 4, 3, 3], (2, 1, 1), Windows::default()),
        // More padding than the kernel reaches.
        shape([1, 1, 3, 3], (3, 1, 1), Windows::new(1, 2)),
        // One window; one column.
        shape([2, 3, 4, 4], (3, 4, 4), Windows::default()),
        shape([1, 2, 6, 1], (2, 3, 1), Windows::new(1, 0)),
    ]
}

fn conv_case(s: Shape) -> Case {
    case(
        "conv2d",
        &[&s.image, &s.weight, &[s.weight[0]]],
        [-1.0, 1.0],
        move |x| {
            let layer = Conv2d {
                weight: x[1].clone(),
                bias: Some(x[2].clone()),
                windows: s.windows,
            };
            layer.forward(&x[0]).tanh()
        },
        move |x| {
            let plain = convolved(&s, &x[0], &x[1]);
            let each = out(&s, 0) * out(&s, 1);
            let biased = plain.iter().enumerate().map(|(i, y)| {
                let filter = i / each % s.weight[0];
                (y + x[2][filter]).tanh()
            });
            biased.collect()
        },
    )
}

#[test]
fn convolutions_have_the_values_and_gradients_of_their_formula() {
    for context in contexts() {
        for s in shapes() {
            check(&context, &conv_case(s));
        }
    }
}

#[test]
fn pooling_has_the_values_and_gradients_of_its_formula() {
    let all = [
        ([2, 3, 6, 8], [2, 2], Windows::new(2, 0)),
        ([1, 2, 7, 9], [3, 3], Windows::new(2, 0)),
        ([1, 2, 5, 5], [3, 3], Windows::new(1, 1)),
        (
            [1, 1, 9, 6],
            [3, 2],
            Windows {
                stride: [2, 3],
                padding: [1, 0],
            },
        ),
    ];
    for context in contexts() {
        for (image, kernel, windows) in all {
            let [n, c, h, w] = image;
            let s = shape([n * c, 1, h, w], (1, kernel[0], kernel[1]), windows);
            let pool = case(
                "max_pool2d",
                &[&image],
                [-1.0, 1.0],
                move |x| x[0].max_pool2d(kernel, windows),
                move |x| pooled(&s, &x[0]),
            );
            check(&context, &pool);
        }
    }
}

/// All elements are equal: they share the gradient.
#[test]
fn equal_pixels_share_a_pools_gradient() {
    for context in contexts() {
        let x = context.tensor(&[1, 1, 2, 4], &[1.0, 1.0, 0.0, 5.0, 1.0, 1.0, 5.0, 2.0]);
        let y = x.max_pool2d([2, 2], Windows::new(2, 0));
        assert_eq!(y.read().unwrap(), [1.0, 5.0]);
        let gradient = y.sum().gradients(&[&x])[0].read().unwrap();
        assert_eq!(gradient, [0.25, 0.25, 0.0, 0.5, 0.25, 0.25, 0.5, 0.0]);
    }
}

#[test]
fn halves_are_near_and_sums_are_wide() {
    // Sums of 64 * 9 terms: in 16 bits only, the error would exceed the bound.
    let s = shape([1, 64, 12, 16], (8, 3, 3), Windows::new(1, 1));
    for context in contexts() {
        let (image, weight) = (numbers(1, 64 * 12 * 16), numbers(2, 8 * 64 * 9));
        let x = context.tensor_of(DType::F16, &s.image, &image);
        let w = context.tensor_of(DType::F16, &s.weight, &weight);
        let y = x.conv2d(&w, s.windows).relu();
        assert_eq!(y.dtype(), DType::F16);
        let rounded = [&x, &w].map(|t| wide(&t.read().unwrap()));
        let expected: Vec<f64> = convolved(&s, &rounded[0], &rounded[1])
            .iter()
            .map(|y| y.max(0.0))
            .collect();
        close("conv2d of halves", &y.read().unwrap(), &expected, 2e-3);
        let pool = x.max_pool2d([2, 2], Windows::new(2, 0));
        assert_eq!(
            (pool.dtype(), pool.shape()),
            (DType::F16, &[1, 64, 6, 8][..])
        );
        let s = shape([64, 1, 12, 16], (1, 2, 2), Windows::new(2, 0));
        close(
            "pool of halves",
            &pool.read().unwrap(),
            &pooled(&s, &rounded[0]),
            0.0,
        );
        let gradients = y.to(DType::F32).sum().gradients(&[&x, &w]);
        assert!(gradients.iter().all(|g| g.dtype() == DType::F16));
        let exact = [&x, &w].map(|t| t.to(DType::F32));
        let same = exact[0].conv2d(&exact[1], Windows::new(1, 1)).relu().sum();
        let expected = same.gradients(&[&exact[0], &exact[1]]);
        for (found, expected) in gradients.iter().zip(&expected) {
            let expected = wide(&expected.read().unwrap());
            close(
                "gradient of halves",
                &found.read().unwrap(),
                &expected,
                2e-3,
            );
        }
    }
}

/// Returns the kernels of a plan.
fn kernels(tensors: &[&Tensor], fuse: bool) -> usize {
    let options = PlanOptions {
        fuse,
        ..PlanOptions::default()
    };
    Plan::compile_with(tensors, &options)
        .unwrap()
        .work()
        .kernels
}

#[test]
fn bias_and_activation_are_done_as_it_is_stored() {
    for context in contexts() {
        let x = context.tensor(&[1, 3, 8, 8], &numbers(1, 192));
        let layer = Conv2d::new(&context, [3, 4, 3], Windows::new(1, 1), 7);
        let y = layer.forward(&x).relu();
        assert_eq!(kernels(&[&y], true), 1, "{context:?}");
        assert_eq!(kernels(&[&y], false), 3);
        let pool = y.max_pool2d([2, 2], Windows::new(2, 0));
        assert_eq!(kernels(&[&pool], true), 2);
        // No buffer is as large as all windows together.
        let plan = Plan::compile(&[&pool]).unwrap();
        assert!(
            plan.work().buffer_bytes <= 4 * (4 * 64 + 4 * 16) + 64,
            "{plan:?}"
        );
    }
}

#[test]
fn products_in_parts_are_those_of_the_whole() {
    // Enough windows that the gradient of the weights is cut.
    let s = shape([1, 2, 64, 80], (3, 3, 3), Windows::new(1, 1));
    for context in contexts() {
        let image = numbers(1, 2 * 64 * 80);
        let x = context.tensor(&s.image, &image);
        let w = context.tensor(&s.weight, &numbers(2, 54));
        let g = numbers(3, 3 * 64 * 80);
        let y = x.conv2d(&w, s.windows);
        let gradient = y.gradients_from(&context.tensor(y.shape(), &g), &[&w]);
        let mut expected = vec![0.0; 54];
        let mut i = 0;
        taps(&s, |_, inside| {
            for (pixel, weight) in inside {
                expected[weight] += f64::from(image[pixel]) * f64::from(g[i]);
            }
            i += 1;
        });
        close("weights", &gradient[0].read().unwrap(), &expected, 1e-5);
    }
}

#[test]
fn mistakes_name_both_operands() {
    let refused = |tensor: Tensor, words: &[&str]| {
        let error = tensor.read().unwrap_err();
        let text = format!("{error} {}", error.hint_text().unwrap_or_default());
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    };
    let context = Context::cpu();
    let of = |shape: &[usize]| context.zeros(DType::F32, shape);
    let (x, w) = (
        of(&[1, 3, 8, 8]).named("photo"),
        of(&[4, 2, 3, 3]).named("filters"),
    );
    let plain = Windows::default();
    refused(
        x.conv2d(&w, plain),
        &["conv2d", "photo", "filters", "[4, 2, 3, 3]", "channels"],
    );
    refused(
        x.conv2d(&of(&[3, 3]), plain),
        &["photo", "[3, 3]", "unsqueeze"],
    );
    refused(
        x.conv2d(&of(&[4, 3, 9, 3]), plain),
        &["photo", "[4, 3, 9, 3]", "fits"],
    );
    refused(x.conv2d(&of(&[4, 3, 0, 3]), plain), &["1 or more"]);
    refused(
        x.conv2d(&of(&[4, 3, 3, 3]), Windows::new(0, 0)),
        &["stride [0, 0]", "1 or more"],
    );
    let ids = context.indices(&[1, 3, 8, 8], &[0; 192]);
    refused(x.conv2d(&ids, plain), &["conv2d", "indices"]);
    let elsewhere = Context::cpu().zeros(DType::F32, &[4, 3, 3, 3]);
    refused(x.conv2d(&elsewhere, plain), &["photo", "from one context"]);
    refused(
        of(&[3, 8, 8]).max_pool2d([2, 2], plain),
        &["max_pool2d", "[3, 8, 8]"],
    );
    refused(x.max_pool2d([9, 2], plain), &["photo", "[9, 2]", "fits"]);
    refused(x.max_pool2d([2, 2], Windows::new(1, 2)), &["padding alone"]);
    let y = x.conv2d(&of(&[4, 3, 3, 3]), plain).sum();
    let once = y.gradients(&[&x])[0].sum();
    // The gradient by the image does not depend on it.
    assert_eq!(once.gradients(&[&x])[0].read().unwrap(), vec![0.0; 192]);
}

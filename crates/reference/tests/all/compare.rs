//! Tests that the comparison with the reference can fail.

use dapple_engine::{Gradients, Rendered};
use dapple_reference::Image;
use dapple_reference::compare::{
    TOLERANCE, ZERO, compare_gradients, compare_images, compare_pose, relative_l2, stray_gradients,
};
use dapple_reference::scenes;

/// Returns gradients with a different, exactly representable number everywhere, in both precisions.
fn counting() -> (Gradients<f32>, Gradients<f64>) {
    let mut actual = Gradients::<f32>::zeros(3, 9);
    let mut expected = Gradients::<f64>::zeros(3, 9);
    let mut count = 0u8;
    let mut next = || {
        count += 1;
        f32::from(count)
    };
    let mut set = |a: &mut f32, e: &mut f64| {
        *a = next();
        *e = f64::from(*a);
    };
    fn rows<'a, const K: usize>(
        a: &'a mut [[f32; K]],
        e: &'a mut [[f64; K]],
    ) -> impl Iterator<Item = (&'a mut f32, &'a mut f64)> {
        a.as_flattened_mut().iter_mut().zip(e.as_flattened_mut())
    }
    rows(&mut actual.means, &mut expected.means).for_each(|(a, e)| set(a, e));
    rows(&mut actual.scales, &mut expected.scales).for_each(|(a, e)| set(a, e));
    rows(&mut actual.quats, &mut expected.quats).for_each(|(a, e)| set(a, e));
    rows(&mut actual.sh0, &mut expected.sh0).for_each(|(a, e)| set(a, e));
    rows(&mut actual.means2d, &mut expected.means2d).for_each(|(a, e)| set(a, e));
    let flat = actual.opacities.iter_mut().zip(&mut expected.opacities);
    flat.for_each(|(a, e)| set(a, e));
    let flat = actual.sh_rest.iter_mut().zip(&mut expected.sh_rest);
    flat.for_each(|(a, e)| set(a, e));
    actual.pose = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    expected.pose = actual.pose;
    (actual, expected)
}

#[test]
fn equal_gradients_have_no_distance() {
    let (actual, expected) = counting();
    for (name, distance) in compare_gradients(&actual, &expected) {
        assert_eq!(distance, 0.0, "{name}");
    }
    assert_eq!(compare_pose(&actual, &expected), 0.0);
}

#[test]
fn one_perturbed_value_is_noticed_in_its_tensor_and_no_other() {
    type Perturb = fn(&mut Gradients<f32>, f32);
    let perturbations: [(&str, Perturb); 7] = [
        ("means", |g, by| g.means[2][1] += by),
        ("scales", |g, by| g.scales[0][2] += by),
        ("quats", |g, by| g.quats[1][3] += by),
        ("opacities", |g, by| g.opacities[2] += by),
        ("sh0", |g, by| g.sh0[1][0] += by),
        ("sh_rest", |g, by| g.sh_rest[26] += by),
        ("means2d", |g, by| g.means2d[0][1] += by),
    ];
    for (perturbed, perturb) in perturbations {
        for by in [0.1, f32::NAN, f32::INFINITY] {
            let (mut actual, expected) = counting();
            perturb(&mut actual, by);
            for (name, distance) in compare_gradients(&actual, &expected) {
                assert_eq!(distance > TOLERANCE, name == perturbed, "{name} {distance}");
            }
        }
    }
    let (mut actual, expected) = counting();
    actual.pose[5] += 0.1;
    assert!(compare_pose(&actual, &expected) > TOLERANCE);
}

#[test]
fn zero_must_be_met_by_zero() {
    assert_eq!(relative_l2(&[0.0, 0.0], &[0.0, 0.0]), 0.0);
    assert_eq!(relative_l2(&[0.1 * ZERO, 0.0], &[0.0, 0.0]), 0.0);
    assert_eq!(relative_l2(&[1e-6, 0.0], &[0.0, 0.0]), f64::INFINITY);
    assert_eq!(relative_l2(&[1.0], &[1.0, 0.0]), f64::INFINITY);
    assert_eq!(relative_l2(&[1.0], &[f64::NAN]), f64::INFINITY);
    assert_eq!(relative_l2(&[], &[]), 0.0);
}

#[test]
fn images_are_compared_by_size_colour_and_alpha() {
    let actual = Rendered {
        width: 2,
        height: 1,
        rgb: vec![0.5; 6],
        alpha: vec![1.0; 2],
        ..Rendered::default()
    };
    let expected = Image {
        width: 2,
        height: 1,
        rgb: vec![0.5; 6],
        alpha: vec![1.0; 2],
        ..Image::default()
    };
    let worst = |actual: &Rendered| {
        let distances = compare_images(actual, &expected);
        distances.into_iter().map(|(_, d)| d).fold(0.0, f64::max)
    };
    assert_eq!(worst(&actual), 0.0);
    let mut other = actual.clone();
    other.rgb[4] = 0.501;
    assert!(worst(&other) > TOLERANCE);
    let mut other = actual.clone();
    other.alpha[1] = 0.999;
    assert!(worst(&other) > TOLERANCE);
    let mut other = actual;
    (other.width, other.height) = (1, 2);
    assert_eq!(worst(&other), f64::INFINITY);
}

#[test]
fn a_gradient_of_an_absent_gaussian_is_found() {
    let mut actual = Gradients::<f32>::zeros(3, 9);
    assert!(stray_gradients(&actual, &[0, 1, 2]).is_empty());
    actual.sh_rest[9] = f32::NAN;
    assert_eq!(stray_gradients(&actual, &[0, 1]), [1]);
    assert!(stray_gradients(&actual, &[0, 2]).is_empty());
}

#[test]
fn scenes_have_consistent_shapes_and_unique_names() {
    let scenes = scenes::all();
    for (i, scene) in scenes.iter().enumerate() {
        let splats = &scene.splats;
        let n = splats.len();
        assert_eq!(splats.scales.len(), n, "{}", scene.name);
        assert_eq!(splats.quats.len(), n, "{}", scene.name);
        assert_eq!(splats.opacities.len(), n, "{}", scene.name);
        assert_eq!(splats.sh0.len(), n, "{}", scene.name);
        assert_eq!(splats.sh_rest.len(), n * splats.sh_rest_stride());
        assert!(scenes[..i].iter().all(|other| other.name != scene.name));
    }
}

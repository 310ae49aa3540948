//! Dropout: steps that drop Gaussians at random.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a suite of tests that engines share"
)]

use crate as reference;
use crate::Gaussian;
use crate::conformance::engines::{Make, with_splats};
use crate::conformance::training::{check_moments, photo, settings, step_with};
use crate::scenes;
use dapple_engine::features::dropout;
use dapple_engine::{EngineExt, LossTerm, StepFeatures, StepSettings};
use dapple_scene::Splats;

/// Checks loss and first moments of a step that drops a third of the Gaussians; dropped Gaussians have moments
/// of zero. A later step without dropout, and a render after it, are not affected.
pub fn dropout_matches_the_reference(make: Make<'_>) {
    for name in [
        "random_sh3",
        "crowd",
        "deep_stack",
        "lens_opencv",
        "tile_cap",
    ] {
        let scene = scenes::named(name);
        let photo = photo(&scene);
        let plain = settings(&scene, 7);
        let thinned = StepSettings {
            seed: 0x2_0000_0005,
            features: StepFeatures {
                dropout: dropout::Step { rate: 0.3 },
                ..StepFeatures::default()
            },
            ..plain
        };
        let mut gaussians = Gaussian::all(&scene.splats);
        reference::leave_out(&mut gaussians, 0.3, thinned.seed, 7);
        let (width, height) = (photo.width as usize, photo.height as usize);
        let image =
            reference::render_gaussians(&gaussians, &scene.camera, &scene.settings).unwrap();
        let target = reference::photo_target(&photo, scene.settings.background);
        let weight = thinned.losses[LossTerm::Ssim].into();
        let (expected_loss, d_rgb) =
            reference::loss(&image.rgb, &target, width, height, None, weight);
        let stride = scene.splats.sh_rest_stride();
        let (camera, render) = (&scene.camera, &scene.settings);
        let expected =
            reference::gradients_of_gaussians(&gaussians, stride, camera, render, &d_rgb, None)
                .unwrap();

        let mut engine = with_splats(make, &scene.splats);
        let before = engine.render(&scene.camera, &scene.settings).unwrap();
        let loss = step_with(engine.as_mut(), &scene, &photo, &thinned);
        let relative = (f64::from(loss) / expected_loss - 1.0).abs();
        assert!(relative < 1e-5, "{name}: {loss} for {expected_loss}");
        let moments = engine.download().unwrap().1.first_moments;
        check_moments(&moments, &expected, name);
        let left_out = gaussians.iter().enumerate().filter(|(_, g)| g.shown == 0.0);
        let mut count = 0;
        for (i, _) in left_out {
            assert!(
                is_still(&moments, i),
                "{name}: {i} was dropped and has moments"
            );
            count += 1;
        }
        assert!(count * 5 > gaussians.len(), "{name}: {count} were dropped");

        engine.upload(&scene.splats, None).unwrap();
        let whole = step_with(engine.as_mut(), &scene, &photo, &plain);
        assert_ne!(whole, loss, "{name}: nothing was dropped");
        engine.upload(&scene.splats, None).unwrap();
        let after = engine.render(&scene.camera, &scene.settings).unwrap();
        assert!(before.rgb == after.rgb, "{name}: a render drops some");
    }
}

/// Returns true if these moments of Gaussian `i` are all zero.
fn is_still(moments: &Splats, i: usize) -> bool {
    moments.means[i] == [0.0; 3] && moments.opacities[i] == 0.0 && moments.sh0[i] == [0.0; 3]
}

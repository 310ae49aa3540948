//! Pose refinement: the addition to `update` for the camera of a step's view, if training requests
//! it.
//!
//! 1. Before `update` changes the Gaussians, the derivative by the camera's motion is summed over
//!    them, block by block in order: `update::pose_gradient_of_all`.
//! 2. After `update`, Adam steps the view's pose: [`step`]. Numbers are stored in `f32`, as on a
//!    GPU, and computed in `f64`. A non-finite derivative moves nothing.
//!
//! Pose refinement is a separate pass, so that `update` has the same machine code with and without
//! it. It runs the backward pass of the visible Gaussians a second time.
//!
//! GPU version: `shaders/poses.wgsl`. Reference: `reference::refine_pose`.

use dapple_engine::{Adam, PoseRates, RefinedPose};
use glam::{DMat3, DQuat, DVec3};

/// Computes step 2.
pub fn step(pose: &mut RefinedPose, gradient: &[f64; 6], rates: &PoseRates, adam: &Adam) {
    if gradient.iter().any(|v| !v.is_finite()) {
        return;
    }
    let (beta1, beta2) = (f64::from(adam.beta1), f64::from(adam.beta2));
    // The weights of the moments accumulate as the moments do, with a gradient of one.
    for (weight, beta) in pose.weights.iter_mut().zip([beta1, beta2]) {
        *weight = (beta * f64::from(*weight) + (1.0 - beta)) as f32;
    }
    let [weight1, weight2] = pose.weights.map(f64::from);
    let motion: [f64; 6] = std::array::from_fn(|k| {
        let g = gradient[k];
        let first = beta1 * f64::from(pose.first[k]) + (1.0 - beta1) * g;
        let second = beta2 * f64::from(pose.second[k]) + (1.0 - beta2) * g * g;
        (pose.first[k], pose.second[k]) = (first as f32, second as f32);
        let rate = if k < 3 {
            rates.rotation
        } else {
            rates.translation
        };
        let size = (second / weight2).sqrt() + f64::from(adam.epsilon);
        -f64::from(rate) * (first / weight1) / size
    });
    let omega = DVec3::new(motion[0], motion[1], motion[2]);
    let shift = DVec3::new(motion[3], motion[4], motion[5]);
    let rows = pose.rotation.map(|row| row.map(f64::from));
    let old = DMat3::from_cols_array_2d(&rows).transpose();
    let turned = DMat3::from_quat(DQuat::from_scaled_axis(omega)) * old;
    // Rows that are not exactly orthonormal would drift further with every step.
    let r0 = turned.row(0).normalize();
    let r1 = (turned.row(1) - r0 * r0.dot(turned.row(1))).normalize();
    let r2 = r0.cross(r1);
    pose.rotation = [r0, r1, r2].map(|row| row.to_array().map(|v| v as f32));
    // The camera's centre is -R^T t.
    let moved = r0 * shift.x + r1 * shift.y + r2 * shift.z;
    for (k, by) in moved.to_array().into_iter().enumerate() {
        let exact = f64::from(pose.centre[k]) + f64::from(pose.centre_rest[k]) - by;
        pose.centre[k] = exact as f32;
        pose.centre_rest[k] = (exact - f64::from(pose.centre[k])) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple_engine::PosedCamera;
    use dapple_scene::{Camera, Pose};

    /// Checks that the centre keeps steps smaller than the resolution of `f32` far from the origin.
    #[test]
    fn small_steps_add_up_far_from_the_origin() {
        let eye = DVec3::new(3000.0, -2000.0, 1000.0);
        let pose = Pose::look_at(eye, eye + DVec3::Z, DVec3::NEG_Y);
        let camera = Camera::pinhole(8, 8, 9.0, pose);
        let Ok(posed) = PosedCamera::new(&camera) else {
            panic!("a sound camera")
        };
        let mut refined = RefinedPose::new(&posed);
        let rates = PoseRates {
            rotation: 0.0,
            translation: 1e-5,
        };
        let along_x = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        for _ in 0..100 {
            step(&mut refined, &along_x, &rates, &Adam::default());
        }
        // All points move by -t, the camera by the opposite.
        let moved = refined.pose(&camera).centre() - eye;
        let expected = pose.rotation.conjugate() * DVec3::X * 1e-3;
        assert!(moved.distance(expected) < 1e-6, "{moved} {expected}");
    }
}

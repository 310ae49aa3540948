// The derivative by the camera's small motion p -> p + omega x p + t, over the Gaussians of a
// workgroup of 256. See engine's `Gradients::pose`.
#import shared/gaussian_backward

struct PoseGradient {
    omega: vec3f,
    shift: vec3f,
}

// Returns the part of one visible Gaussian. The camera's centre moves by -R^T t and does not depend
// on omega: the viewing direction depends on t only.
fn pose_gradient(old: Gaussian, g: GaussianGradient, view: View) -> PoseGradient {
    let point = to_camera(old.mean, view);
    return PoseGradient(
        g.geometry.omega + cross(point, g.geometry.point),
        g.geometry.point + vec3f(
            dot(view.row0.xyz, g.through_direction),
            dot(view.row1.xyz, g.through_direction),
            dot(view.row2.xyz, g.through_direction),
        ),
    );
}

#import shared/tree_sum

//! Checks of the inputs of every engine.

use crate::{ImageDerivative, OptimizerState, PARAM_GROUPS, PosedCamera, STATISTICS};
use dapple_scene::{Error, Photo, Result, Splats};

/// Checks splats, and that a state belongs to them.
///
/// # Errors
/// Array lengths that differ, an unsupported SH degree, or a state of other splats.
pub fn check_upload(splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
    check_splats(splats, "the splats")?;
    let Some(state) = state else {
        return Ok(());
    };
    check_splats(&state.first_moments, "the first moments")?;
    check_splats(&state.second_moments, "the second moments")?;
    state.views.check()?;
    let n = splats.len();
    let fits = [&state.first_moments, &state.second_moments]
        .iter()
        .all(|m| m.len() == n && m.sh_degree == splats.sh_degree)
        && state.frozen <= n
        && state.sky <= n - state.frozen
        && STATISTICS.iter().all(|each| each.fits(state, n))
        && (state.views.appearance_mlp.is_empty() || state.views.appearance_mlp.gaussians() == n);
    if fits {
        Ok(())
    } else {
        Err(Error::input("the optimizer state belongs to other splats")
            .hint("upload the state that was downloaded with these splats"))
    }
}

fn check_splats(splats: &Splats, what: &str) -> Result<()> {
    if splats.sh_degree > dapple_scene::MAX_SH_DEGREE {
        return Err(
            Error::input(format!("{what} have SH degree {}", splats.sh_degree))
                .hint("degrees 0 to 3 are supported"),
        );
    }
    let n = splats.len();
    if !PARAM_GROUPS.iter().all(|group| group.fits(splats, n)) {
        return Err(
            Error::input(format!("the arrays of {what} have different lengths"))
                .hint("every array needs one entry per Gaussian"),
        );
    }
    Ok(())
}

/// Checks that a state has poses for `views` views or for none.
///
/// # Errors
/// Another number of poses.
pub fn check_views(state: Option<&OptimizerState>, views: usize) -> Result<()> {
    let poses = state.map_or(0, |state| state.views.poses.len());
    if poses == 0 || poses == views {
        return Ok(());
    }
    Err(Error::input(format!(
        "the state holds poses of {poses} views, and the engine has {views}"
    ))
    .hint("hand over the views first, all that the state was downloaded with"))
}

/// Checks that a photo has the size of its camera.
///
/// # Errors
/// Another size.
pub fn check_photo(camera: &PosedCamera, photo: &Photo) -> Result<()> {
    if [photo.width, photo.height] == camera.size {
        return Ok(());
    }
    Err(Error::input(format!(
        "a photo of {} x {} pixels has a camera of {} x {}",
        photo.width, photo.height, camera.size[0], camera.size[1]
    )))
}

/// Checks the array sizes of an image gradient.
///
/// # Errors
/// Sizes that differ from those of the camera's image.
pub fn check_image_gradient(
    camera: &PosedCamera,
    derivative: &ImageDerivative<'_, f32>,
) -> Result<()> {
    let pixels = camera.pixel_count();
    let fits = |plane: Option<&[f32]>| plane.is_none_or(|values| values.len() == pixels);
    if derivative.rgb.len() == 3 * pixels && fits(derivative.alpha) && fits(derivative.depth) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the image gradient does not fit a camera of {} x {} pixels",
        camera.size[0], camera.size[1]
    ))
    .hint("colours need height * width * 3 values, alpha and depth height * width"))
}

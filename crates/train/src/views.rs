//! Selects the views of a capture for a run, and checks that they can be trained on.

use crate::config::Background;
use crate::{TrainConfig, focus, init};
use dapple_engine::LensForm;
use dapple_scene::{Dataset, Error, Result, Split, View};

/// Returns notes for the user about unexpected properties of a run. `gaussians` is the number of Gaussians
/// from the capture's points; `None` for a run from splats.
pub(crate) fn notes_on(
    dataset: &Dataset,
    config: &TrainConfig,
    eval_views: usize,
    gaussians: Option<usize>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if config.background == Background::Random {
        notes.push(
            "the background is another colour each step; renders and scores are over black"
                .to_owned(),
        );
    }
    if !config.focus.region.is_on() && !config.focus.is_default() {
        notes.push("focus.outside and focus.gaussians have no effect without --focus".to_owned());
    }
    // The sparse points have no effect on a run from splats.
    if let Some(gaussians) = gaussians {
        notes.extend(focus::note(config, dataset));
        notes.extend(notes_on_points(dataset, config, gaussians));
    }
    if eval_views == 0 {
        notes.push("no photo is held out: nothing will be scored".to_owned());
    }
    notes
}

/// Returns notes about the sparse points that a run with this number of Gaussians starts from.
fn notes_on_points(dataset: &Dataset, config: &TrainConfig, gaussians: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if dataset.points.is_empty() {
        notes.push(format!(
            "the capture has no sparse points: training starts from {gaussians} random ones"
        ));
    }
    let is_named = config.random_start && !dataset.points.is_empty();
    if is_named && gaussians < config.initial_gaussians {
        notes.push(format!(
            "initial_gaussians = {}, and the {} sparse points give {gaussians}: the run starts from that number",
            config.initial_gaussians,
            dataset.points.len()
        ));
    }
    if init::colours_are_lost(&dataset.points) {
        notes.push(
            "the sparse points are black, as where no colour was recorded: Gaussians start with the colours \
             of the photos"
                .to_owned(),
        );
    }
    notes
}

/// Views of a capture that a run uses.
pub(crate) struct Chosen {
    /// Indices of the training views.
    pub(crate) train: Vec<usize>,
    /// Indices of the held-out views.
    pub(crate) eval: Vec<usize>,
    /// Indices of the views that are withheld for validation in the whole run.
    pub(crate) watch: Vec<usize>,
    /// Local extent of the scene by the training photos of the first part, world units: training scales with it.
    pub(crate) extent: f64,
    /// Extent of the cameras of these photos, world units.
    pub(crate) cameras_extent: f64,
}

impl Chosen {
    /// Selects the views, and checks each of them.
    pub(crate) fn new(dataset: &Dataset, config: &TrainConfig) -> Result<Self> {
        let (mut train, eval) = choose_views(dataset, config)?;
        let joined = &config.data.joined;
        let is_new = |view: &usize| joined.has_new(&dataset.views[*view].name);
        let first = train.iter().position(is_new).unwrap_or(train.len());
        let new = train.split_off(first);
        let watch = set_withheld(&mut train, config.data.validate_every);
        for &index in train.iter().chain(&new).chain(&eval).chain(&watch) {
            check_view(&dataset.views[index])?;
        }
        let (extent, cameras_extent) = (dataset.local_extent(&train), dataset.extent(&train));
        train.extend(new);
        if !extent.is_finite() {
            return Err(Error::input("the cameras are not all at finite positions")
                .hint("the poses of this capture are broken: make them again"));
        }
        Ok(Self {
            train,
            eval,
            watch,
            extent,
            cameras_extent,
        })
    }
}

/// Returns the training views and the held-out views, within the configured numbers.
pub(crate) fn choose_views(
    dataset: &Dataset,
    config: &TrainConfig,
) -> Result<(Vec<usize>, Vec<usize>)> {
    match dataset.views.as_slice() {
        [] => {
            return Err(Error::input("the capture has no photos")
                .hint("check that the folder of the photos is complete"));
        }
        [only] => {
            return Err(Error::input(
                "the capture has a single photo: depth cannot be seen from one",
            )
            .at(only.name.clone())
            .hint("take at least 2, better 20 or more, from different places"));
        }
        _ => {}
    }
    let Split { train, eval } = config.data.split_views(dataset);
    if train.is_empty() {
        return Err(
            Error::input("every photo is held out: none is left to train on")
                .hint("raise data.eval_every, or set it to 0 to hold out none"),
        );
    }
    Ok((train, eval))
}

/// Removes every `every`-th of the views, from the middle of the first `every` on, so that validation photos are
/// between the held-out photos. Removes at least one; none if fewer than two would remain.
fn set_withheld(train: &mut Vec<usize>, every: usize) -> Vec<usize> {
    if every == 0 || train.len() < 3 {
        return Vec::new();
    }
    let first = (every / 2).min(train.len() / 2);
    let is_watched = |place: usize| place % every == first % every && place >= first;
    let (watch, rest): (Vec<_>, Vec<_>) = (0..train.len()).partition(|&place| is_watched(place));
    let of = |places: Vec<usize>| places.into_iter().map(|place| train[place]).collect();
    let (watch, rest) = (of(watch), of(rest));
    *train = rest;
    watch
}

/// Checks a view: engines need cameras of the photo's size with a supported lens.
fn check_view(view: &View) -> Result<()> {
    let (camera, [width, height]) = (&view.camera, view.photo.size());
    LensForm::from_lens(&camera.lens).map_err(|e| e.at(view.name.clone()))?;
    if [camera.width, camera.height] != [width, height] {
        return Err(Error::input(format!(
            "the photo is {width}x{height} and its camera {}x{}",
            camera.width, camera.height
        ))
        .at(view.name.clone())
        .hint("resize the photo, or its camera with Camera::resized"));
    }
    let sound = camera.camera_from_world.is_finite()
        && [camera.cx, camera.cy].iter().all(|v| v.is_finite())
        && [camera.fx, camera.fy]
            .iter()
            .all(|v| v.is_finite() && *v > 0.0)
        && width > 0
        && height > 0;
    if !sound {
        return Err(Error::input(
            "this photo's camera is broken: a pose or focal length that is not finite, or no area",
        )
        .at(view.name.clone())
        .hint("remove the photo, or compute its pose again"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::set_withheld;

    #[test]
    fn photos_are_set_aside_evenly_and_never_all() {
        let withheld = |photos: usize, every| {
            let mut train: Vec<usize> = (0..photos).collect();
            let watch = set_withheld(&mut train, every);
            assert_eq!(train.len() + watch.len(), photos);
            watch
        };
        assert_eq!(withheld(40, 16), [8, 24]);
        assert_eq!(withheld(14, 16), [7]);
        assert_eq!(withheld(4, 2), [1, 3]);
        assert!(withheld(2, 16).is_empty() && withheld(40, 0).is_empty());
    }
}

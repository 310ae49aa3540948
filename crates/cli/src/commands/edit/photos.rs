//! Inputs of edits other than splats: the photos' cameras, an engine, and the loss of an action.
//!
//! 1. Cameras are those of the capture (`--capture`): training cameras to weigh and to fit, held-out cameras to
//!    score. Without a capture they are those of the `cameras.json` next to the splats. With `--orbit`, scores use an
//!    orbit around the splats.
//! 2. Cameras move with the splats, and the near plane is scaled with them.

use super::Args;
use crate::camera_paths::CameraOrbit;
use crate::cameras;
use crate::console::Console;
use crate::known_capture;
use crate::photo_memory;
use crate::viewing::shown_settings;
use dapple::BoxedEngine;
use dapple::contract::RenderSettings;
use dapple::glam::DVec3;
use dapple::scene::edit::{Similarity, Surroundings};
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::{Camera, Error, Result, Splats, View, extent_of, load};
use dapple::train::{Refit, Scoring, TrainConfig, contributions, evaluate, floaters, refit};
use serde::Serialize;
use std::path::Path;

/// Renders along an orbit.
const RING: u32 = 24;

/// Without photos, one in this many cameras is used for scores.
const EVERY: usize = 8;

/// Loss of an action.
#[derive(Debug, Clone, Serialize)]
pub struct Loss {
    /// Views rendered before and after.
    views: usize,
    /// Mean PSNR between both, dB; identical renders count as 100.
    renders_psnr: f64,
    /// Mean PSNR against the held-out photos before and after, dB.
    #[serde(skip_serializing_if = "Option::is_none")]
    photos_psnr: Option<[f64; 2]>,
}

/// Largest loss of a removal of floaters without a warning, dB.
const MOST_LOST: f64 = 0.5;

/// Least PSNR between renders before and after at which photos of 30 dB lose less than [`MOST_LOST`].
const LEAST_RENDERS: f64 = 39.0;

impl Loss {
    /// Returns a warning if a removal of floaters has removed parts of the scene.
    pub fn warning(&self) -> Option<String> {
        let lost = match self.photos_psnr {
            Some([before, after]) if before - after > MOST_LOST => {
                format!("the held-out photos lost {:.2} dB", before - after)
            }
            None if self.renders_psnr < LEAST_RENDERS => {
                format!(
                    "renders before and after are {:.2} dB apart",
                    self.renders_psnr
                )
            }
            _ => return None,
        };
        let hint = match self.photos_psnr {
            Some(_) => "a smaller share, --floaters=0.001, removes less",
            None => {
                "with --capture, the photos distinguish floaters from the scene; a smaller share, --floaters=0.001, removes less"
            }
        };
        Some(format!(
            "warning: {lost}: parts of the scene may have gone; {hint}"
        ))
    }

    /// Returns the loss as text.
    pub fn line(&self) -> String {
        let renders = format!(
            "renders of {} views are {:.2} dB from those before",
            self.views, self.renders_psnr
        );
        match self.photos_psnr {
            None => renders,
            Some([before, after]) => format!(
                "held-out photos {before:.2} -> {after:.2} dB, {:.2} dB lost; {renders}",
                before - after
            ),
        }
    }
}

/// Known cameras, in the frame of the file.
struct Known {
    trained: Vec<Camera>,
    /// Training views with photos, if there is a capture.
    photos: Vec<View>,
    /// Held-out views with photos, if there is a capture.
    held_out: Vec<View>,
    scored: Vec<Camera>,
    /// Extent of the training cameras, as in training.
    extent: f64,
}

impl Known {
    /// Returns the extent, if there are cameras.
    fn extent(&self) -> Option<f64> {
        (!self.trained.is_empty()).then_some(self.extent)
    }
}

fn centres(cameras: &[Camera]) -> Vec<DVec3> {
    let centre = |camera: &Camera| camera.camera_from_world.centre();
    cameras.iter().map(centre).collect()
}

/// Cameras and engine for the actions of an edit; the module documents their sources.
pub struct Photos<'a> {
    args: &'a Args,
    splats: &'a Path,
    /// Frame of the splats relative to their capture, from the file, and their centre.
    frame: Frame,
    middle: DVec3,
    config: TrainConfig,
    console: &'a Console,
    known: Option<Option<Known>>,
    engine: Option<BoxedEngine>,
}

impl<'a> Photos<'a> {
    pub fn new(
        args: &'a Args,
        (file, splats, frame): (&'a Path, &Splats, Frame),
        config: TrainConfig,
        console: &'a Console,
    ) -> Self {
        Self {
            args,
            splats: file,
            middle: middle_of(splats),
            frame,
            config,
            console,
            known: None,
            engine: None,
        }
    }

    /// Returns true if cameras are known.
    ///
    /// # Errors
    /// Errors of reading the capture.
    pub fn are_known(&mut self) -> Result<bool> {
        Ok(self.known()?.is_some())
    }

    /// Returns the known cameras, if any; loaded once.
    fn known(&mut self) -> Result<Option<&Known>> {
        if self.known.is_none() {
            self.known = Some(self.find()?);
        }
        Ok(self.known.as_ref().and_then(Option::as_ref))
    }

    fn find(&self) -> Result<Option<Known>> {
        let recorded = || known_capture::find_if_there(self.splats, self.console);
        let Some(scene) = self.args.capture.clone().or_else(recorded) else {
            let Some((file, mut cameras)) = cameras::beside(self.splats)? else {
                return Ok(None);
            };
            for camera in &mut cameras {
                *camera = self.frame.camera(camera, DVec3::ZERO);
            }
            self.console
                .note(&format!("cameras: those of {}", file.display()));
            let scored = cameras.iter().step_by(EVERY).copied().collect();
            return Ok(Some(Known {
                extent: extent_of(&centres(&cameras), &[]),
                trained: cameras,
                photos: Vec::new(),
                held_out: Vec::new(),
                scored,
            }));
        };
        let options = self.config.load_options();
        let capture = load::open(&scene, &options)?;
        load::refuse_output_file(&self.args.output, &capture)?;
        let split = self.config.data.split(&capture);
        let options = photo_memory::limited(options, None);
        let mut dataset = load::decode(capture, &options, &self.console.progress())?;
        let extent = dataset.local_extent(&split.train) * self.frame.moved.scale;
        let frame = self.frame.beside(self.middle, dataset.origin);
        for view in &mut dataset.views {
            view.camera = frame.camera(&view.camera, dataset.origin);
        }
        let view = |&i: &usize| dataset.views.get(i);
        let held_out: Vec<View> = split.eval.iter().filter_map(view).cloned().collect();
        let photos: Vec<View> = split.train.iter().filter_map(view).cloned().collect();
        Ok(Some(Known {
            // Sizes do not depend on the origin.
            extent,
            trained: photos.iter().map(|view| view.camera).collect(),
            photos,
            scored: held_out.iter().map(|view| view.camera).collect(),
            held_out,
        }))
    }

    fn needed(&mut self) -> Result<&Known> {
        self.known()?.ok_or_else(|| {
            Error::input("this action needs the cameras of the photos, and none are known")
                .at("--capture")
                .hint("name the capture of the splats with --capture, or put a cameras.json next to the splats")
        })
    }

    fn engine(&mut self) -> Result<&mut BoxedEngine> {
        if self.engine.is_none() {
            self.engine = Some(self.args.device.engine(self.console)?);
        }
        match &mut self.engine {
            Some(engine) => Ok(engine),
            None => Err(Error::internal("an opened engine is missing")),
        }
    }

    /// Returns the render settings for splats after this motion. The near plane is a twentieth of the cameras'
    /// extent, as in training, unless the run sets another.
    fn settings(&self, extent: Option<f64>, sh_degree: u8, moved: &Similarity) -> RenderSettings {
        let near = match extent.filter(|_| self.config.near <= 0.0) {
            None => self.config.near_plane() * self.frame.moved.scale as f32,
            Some(extent) => (0.05 * extent) as f32,
        };
        RenderSettings {
            near: near * moved.scale as f32,
            ..shown_settings(&self.config, sh_degree)
        }
    }

    /// Measures the loss of `after` against `before`; `None` without cameras.
    ///
    /// # Errors
    /// Errors of the engine, and photos that cannot be read.
    pub fn loss(
        &mut self,
        before: &Splats,
        after: &Splats,
        moved: &Similarity,
    ) -> Result<Option<Loss>> {
        let ring = self.args.orbit;
        let (mut scored, extent, mut held_out) = match self.known()? {
            Some(known) => (known.scored.clone(), known.extent(), known.held_out.clone()),
            None => (Vec::new(), None, Vec::new()),
        };
        for camera in &mut scored {
            *camera = moved.camera(camera);
        }
        for view in &mut held_out {
            view.camera = moved.camera(&view.camera);
        }
        if scored.is_empty() && ring {
            scored = CameraOrbit::of_splats(before, DVec3::NEG_Y)?.orbit(RING);
        }
        if scored.is_empty() {
            return Ok(None);
        }
        let settings = self.settings(extent, before.sh_degree, moved);
        let engine = self.engine()?;
        let mut reports = Vec::new();
        let mut pictures: Vec<Vec<Vec<f32>>> = Vec::new();
        for splats in [before, after] {
            let settings = RenderSettings {
                sh_degree: splats.sh_degree,
                ..settings
            };
            engine.upload(splats, None)?;
            let render = |camera| {
                engine
                    .render(camera, &settings)
                    .map(|rendered| rendered.rgb)
            };
            pictures.push(scored.iter().map(render).collect::<Result<_>>()?);
            if !held_out.is_empty() {
                let views: Vec<&View> = held_out.iter().collect();
                let report = evaluate(
                    engine,
                    &views,
                    &settings,
                    &Scoring::default(),
                    &mut |_, _| Ok(()),
                )?;
                reports.push(report.psnr);
            }
        }
        let pairs = pictures[0].iter().zip(&pictures[1]);
        let sum: f64 = pairs.map(|(a, b)| psnr(a, b)).sum();
        Ok(Some(Loss {
            views: scored.len(),
            renders_psnr: sum / scored.len() as f64,
            photos_psnr: reports.try_into().ok(),
        }))
    }
}

/// Returns the PSNR of 8-bit renders, dB, at most 100.
fn psnr(a: &[f32], b: &[f32]) -> f64 {
    let shown = |v: f32| f64::from(v.clamp(0.0, 1.0));
    let error: f64 = a
        .iter()
        .zip(b)
        .map(|(a, b)| (shown(*a) - shown(*b)).powi(2))
        .sum();
    -10.0 * (error / a.len().max(1) as f64).max(1e-10).log10()
}

impl Surroundings for Photos<'_> {
    fn cameras(&mut self) -> Result<Vec<Camera>> {
        let known = self.needed()?;
        Ok(known.trained.clone())
    }

    fn contributions(
        &mut self,
        splats: &Splats,
        moved: &Similarity,
        is_needed: bool,
    ) -> Result<Option<Vec<f32>>> {
        if !is_needed && self.known()?.is_none() {
            self.console.note(
                "note: the poses of the photos are not known, so all sides have equal weight; with --capture, \
                 what the photos show is kept best",
            );
            return Ok(None);
        }
        let known = self.needed()?;
        let (trained, extent) = (known.trained.clone(), known.extent());
        let settings = self.settings(extent, 0, moved);
        let cameras: Vec<Camera> = trained.iter().map(|camera| moved.camera(camera)).collect();
        let progress = self.console.progress();
        contributions(
            self.engine()?.as_mut(),
            splats,
            &cameras,
            &settings,
            &progress,
        )
        .map(Some)
    }

    fn floaters(&mut self, splats: &Splats, moved: &Similarity) -> Result<Option<Vec<bool>>> {
        let Some(known) = self.known()? else {
            return Ok(None);
        };
        let (mut views, extent) = (known.photos.clone(), known.extent());
        if views.is_empty() {
            return Ok(None);
        }
        for view in &mut views {
            view.camera = moved.camera(&view.camera);
        }
        let settings = self.settings(extent, splats.sh_degree, moved);
        let progress = self.console.progress();
        floaters(
            self.engine()?.as_mut(),
            splats,
            &views,
            &settings,
            &progress,
        )
        .map(Some)
    }

    fn refit(
        &mut self,
        many: &Splats,
        few: Splats,
        moved: &Similarity,
        steps: u32,
    ) -> Result<Splats> {
        let known = self.needed()?;
        let (trained, extent) = (known.trained.clone(), known.extent);
        let shown = known.extent();
        let how = Refit {
            cameras: &trained
                .iter()
                .map(|camera| moved.camera(camera))
                .collect::<Vec<_>>(),
            settings: self.settings(shown, many.sh_degree, moved),
            extent: extent * moved.scale,
            steps,
        };
        // An engine permanently holds the photos of a fit, so the fit uses an engine of its own.
        let mut engine = self.args.device.open_quietly(false)?.engine.into_engine();
        refit(engine.as_mut(), many, &few, &how, &self.console.progress())
    }
}

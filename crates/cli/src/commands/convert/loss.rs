//! Loss of a conversion: compares renders of the source splats with renders of the file.
//!
//! 1. Cameras: those of a capture's held-out photos (all photos if none is held out), at most [`MOST_VIEWS`]; without
//!    a capture, an orbit around the splats.
//! 2. The source splats are rendered once, and their renders stored.
//! 3. Each file is read back and rendered. The result is PSNR and SSIM between the renders, and the loss of PSNR
//!    against the photos in dB. Without photos this loss is estimated for splats with [`ASSUMED_PSNR`] dB against the
//!    truth and independent errors.

use crate::camera_paths::CameraOrbit;
use crate::console::Console;
use crate::options::config_beside;
use crate::viewing::shown_settings;
use dapple::BoxedEngine;
use dapple::contract::RenderSettings;
use dapple::glam::DVec3;
use dapple::scene::origin::{Frame, middle_of};
use dapple::scene::{Camera, Photo, Result, Splats, load};
use dapple::train::config::DataPatch;
use dapple::train::evaluate::{PSNR_MAX, psnr, score, ssim};
use dapple::train::{ConfigPatch, TrainConfig};
use serde::Serialize;
use std::path::Path;

/// Cameras of an orbit, and the most cameras of a capture.
const RING_VIEWS: u32 = 8;
const MOST_VIEWS: usize = 24;

/// Longer side of renders from a capture's cameras, pixels.
const LONGEST_SIDE: u32 = 960;

/// Assumed PSNR of splats without photos, dB: a usual score of captures.
const ASSUMED_PSNR: f64 = 30.0;

/// Loss of a conversion; means over the views.
#[derive(Debug, Clone, Serialize)]
pub struct Loss {
    /// `capture` or `ring`.
    pub cameras: &'static str,
    pub views: usize,
    /// PSNR between the renders, dB; 100 if they are identical.
    pub psnr: f64,
    pub ssim: f64,
    /// Loss of PSNR against photos, dB: of the capture's photos, or of assumed photos.
    pub lost_db: f64,
}

impl Loss {
    /// Returns the loss as text: "loses 0.12 dB (...)".
    pub fn shown(&self) -> String {
        let of = match self.cameras {
            "capture" => "against the photos".to_owned(),
            _ => format!("of splats that score {ASSUMED_PSNR:.0} dB, estimated from a ring"),
        };
        format!(
            "loses {:.2} dB {of}; renders before and after: PSNR {:.2} dB, SSIM {:.4}, {} views",
            self.lost_db, self.psnr, self.ssim, self.views
        )
    }

    /// Returns the loss of a level of detail as text, in the words of [`Self::shown`].
    pub(super) fn of_level(&self) -> String {
        format!(
            ", PSNR {:.2} dB, SSIM {:.4}, loses {:.2} dB",
            self.psnr, self.ssim, self.lost_db
        )
    }
}

/// View with the render of the source splats.
struct Sight {
    camera: Camera,
    before: Vec<f32>,
    /// Photo, and the PSNR of the first render.
    photo: Option<(Photo, f64)>,
}

/// Renders of the source splats, and the engine for later renders.
pub struct Judge {
    engine: BoxedEngine,
    settings: RenderSettings,
    sights: Vec<Sight>,
    cameras: &'static str,
}

impl Judge {
    /// Returns the render settings for the loss: those next to `input`, changed by `flags`.
    pub fn settings(
        input: &Path,
        capture: Option<&Path>,
        flags: ConfigPatch,
        console: &Console,
    ) -> Result<TrainConfig> {
        let flags = ConfigPatch {
            data: DataPatch {
                max_resolution: capture.map(|_| LONGEST_SIDE),
                ..DataPatch::default()
            },
            ..flags
        };
        config_beside(input, flags, console)
    }

    /// Renders the source splats; `frame`: their frame.
    pub fn new(
        (splats, frame): (&Splats, Frame),
        config: &TrainConfig,
        capture: Option<&Path>,
        engine: BoxedEngine,
        console: &Console,
    ) -> Result<Self> {
        let mut settings = shown_settings(config, splats.sh_degree);
        settings.near *= frame.moved.scale as f32;
        let (views, cameras) = match capture {
            Some(capture) => (
                of_capture(capture, (middle_of(splats), frame), config, console)?,
                "capture",
            ),
            None => {
                let ring = CameraOrbit::of_splats(splats, DVec3::NEG_Y)?.orbit(RING_VIEWS);
                (
                    ring.into_iter().map(|camera| (camera, None)).collect(),
                    "ring",
                )
            }
        };
        let mut judge = Self {
            engine,
            settings,
            sights: Vec::new(),
            cameras,
        };
        judge.engine.upload(splats, None)?;
        let bar = console.bar(
            views.len() as u64,
            "rendering before [{bar:30}] {pos}/{len} {eta}",
        );
        for (camera, photo) in views {
            let rendered = judge.engine.render(&camera, &judge.settings)?;
            bar.inc(1);
            let photo = match photo {
                None => None,
                Some(photo) => match score(&rendered, &photo, judge.settings.background, None)? {
                    Some(scores) => Some((photo, scores.psnr)),
                    // The mask hides the whole photo.
                    None => continue,
                },
            };
            judge.sights.push(Sight {
                camera,
                before: clamped(rendered.rgb),
                photo,
            });
        }
        bar.finish_and_clear();
        Ok(judge)
    }

    /// Measures the loss of these splats against the source splats.
    pub fn loss(&mut self, splats: &Splats, console: &Console) -> Result<Loss> {
        self.engine.upload(splats, None)?;
        let settings = RenderSettings {
            sh_degree: splats.sh_degree,
            ..self.settings
        };
        let (mut sum_psnr, mut sum_ssim, mut lost) = (0.0, 0.0, 0.0);
        let bar = console.bar(
            self.sights.len() as u64,
            "rendering after [{bar:30}] {pos}/{len} {eta}",
        );
        for sight in &self.sights {
            let rendered = self.engine.render(&sight.camera, &settings)?;
            bar.inc(1);
            let (width, height) = (rendered.width as usize, rendered.height as usize);
            lost += match &sight.photo {
                Some((photo, before)) => {
                    let after = score(&rendered, photo, settings.background, None)?;
                    after.map_or(0.0, |after| before - after.psnr)
                }
                None => 0.0,
            };
            let after = clamped(rendered.rgb);
            let difference = psnr(&after, &sight.before, width, None);
            if sight.photo.is_none() && difference < PSNR_MAX {
                let error = |db: f64| 10f64.powf(-db / 10.0);
                lost += 10.0 * (error(difference) / error(ASSUMED_PSNR)).ln_1p()
                    / std::f64::consts::LN_10;
            }
            sum_psnr += difference;
            sum_ssim += ssim(&after, &sight.before, width, height, None);
        }
        bar.finish_and_clear();
        let count = self.sights.len().max(1) as f64;
        Ok(Loss {
            cameras: self.cameras,
            views: self.sights.len(),
            psnr: sum_psnr / count,
            ssim: sum_ssim / count,
            lost_db: lost / count,
        })
    }
}

fn clamped(mut values: Vec<f32>) -> Vec<f32> {
    values.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    values
}

/// Returns the capture's cameras with their photos, relative to the origin of splats with this centre, in whose file
/// `origin` is recorded.
fn of_capture(
    scene: &Path,
    (middle, frame): (DVec3, Frame),
    config: &TrainConfig,
    console: &Console,
) -> Result<Vec<(Camera, Option<Photo>)>> {
    let options = config.load_options();
    let mut capture = load::open(scene, &options)?;
    let held_out = config.data.split(&capture).eval;
    let chosen: Vec<usize> = match held_out.is_empty() {
        true => (0..capture.images.len()).collect(),
        false => held_out,
    };
    let step = chosen.len().div_ceil(MOST_VIEWS).max(1);
    let chosen: Vec<usize> = chosen.into_iter().step_by(step).collect();
    let mut index = 0..;
    let is_chosen = |i: usize| chosen.binary_search(&i).is_ok();
    capture
        .images
        .retain(|_| index.next().is_some_and(is_chosen));
    let options = crate::photo_memory::limited(options, None);
    let dataset = load::decode(capture, &options, &console.progress())?;
    let views = dataset.views.into_iter();
    let (counted, frame) = (dataset.origin, frame.beside(middle, dataset.origin));
    let views = views.map(|view| {
        let photo = view.photo.read()?.as_ref().clone();
        Ok((frame.camera(&view.camera, counted), Some(photo)))
    });
    views.collect()
}

//! 3D Gaussian Splatting as a library: train, render, differentiate.
//!
//! Input is a [`Dataset`] of posed photographs, output are [`Splats`]. An [`Engine`] computes on a [`Device`],
//! and a [`Trainer`] calls the engine. Dapple uses a GPU if there is one, and needs no GPU, CUDA or Python.
//!
//! Render a single Gaussian, and differentiate the image's red by the Gaussian's position:
//!
//! ```
//! use dapple::prelude::*;
//!
//! let mut splats = Splats::empty(0);
//! splats.means.push([0.2, 0.0, 0.0]);
//! splats.scales.push([-1.0; 3]); // logarithms of standard deviations
//! splats.quats.push([1.0, 0.0, 0.0, 0.0]); // w, x, y, z
//! splats.opacities.push(2.0); // logit
//! splats.sh0.push([1.5, 0.0, -1.5]);
//!
//! let pose = Pose::look_at(DVec3::new(0.0, 0.0, -4.0), DVec3::ZERO, DVec3::Y);
//! let camera = Camera::pinhole(64, 48, 60.0, pose);
//! let settings = RenderSettings::default();
//!
//! let mut engine = dapple::engine(Device::Cpu)?;
//! engine.upload(&splats, None)?;
//! let image = engine.render(&camera, &settings)?;
//! assert_eq!(image.rgb.len(), 64 * 48 * 3);
//!
//! // dL/dimage for L = the sum of all red values; the engine gives dL/dparameter.
//! let dl_drgb = [1.0, 0.0, 0.0].repeat(64 * 48);
//! let gradients = engine.gradients(&camera, &settings, &dl_drgb, None)?;
//! assert!(gradients.opacities[0] > 0.0); // more opaque is more red
//! # Ok::<(), dapple::Error>(())
//! ```
//!
//! Train on a capture and write all results of the run (the whole program is `examples/train.rs`;
//! `examples/differentiate.rs` optimises by hand, `examples/strategy.rs` defines a density strategy):
//!
//! ```no_run
//! use dapple::prelude::*;
//! use std::path::Path;
//!
//! let dataset = dapple::load(Path::new("my-capture"), &LoadOptions::default(), &NoProgress)?;
//! let mut trainer = Trainer::new(&dataset, Preset::Quick.config(), dapple::engine(Device::Auto)?)?;
//! let folder = RunFolder::create(Path::new("my-run"))?;
//! let outcome = dapple::train_into(&folder, &mut trainer, &mut Silent)?;
//! println!("{} Gaussians", outcome.gaussians);
//! # Ok::<(), dapple::Error>(())
//! ```
//!
//! # Modules
//! - [`scene`]: cameras, photos, splats, their files.
//! - [`synth`]: synthetic captures.
//! - [`mod@train`]: configuration, schedules, trainer, scores.
//! - [`contract`]: interface of engines, their settings and reports. `dapple-reference` tests an implementation.
//! - [`cpu`]: the CPU engine.
//! - [`gpu`]: the GPU engine, for Vulkan, Metal and DirectX 12.
//! - [`mod@live`]: a run in a browser while it trains.
//! - [`runtime`]: GPUs of this machine, and their features.

mod device;
pub mod live;
mod nearest;
mod ranks;
mod ranks_needed;

// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use device::{AnyEngine, Device, EngineOptions, Opened, best, engine, open};
pub use nearest::nearest;
pub use ranks::{AnyRanks, Launch, MOST_RANKS, open_ranks};
pub use ranks_needed::{RanksNeeded, device_of_one, devices_of, ranks_needed};

#[doc(inline)]
pub use dapple_ranks::RankTimes;

/// Photos and captures (`dapple-scene`); splats, their files and edits (`dapple-splats`).
pub use dapple_scene as scene;

/// Synthetic captures (`dapple-synth`).
pub use dapple_synth as synth;

/// Trainer, schedules, density control and scores (`dapple-train`).
pub use dapple_train as train;

/// Interface of engines (`dapple-engine`). `dapple-reference` defines the results that engines must reproduce.
pub use dapple_engine as contract;

/// CPU engine (`dapple-cpu`).
pub use dapple_cpu as cpu;

/// GPU engine (`dapple-gpu`).
pub use dapple_gpu as gpu;

/// GPUs as devices, and their features (`dapple-runtime`).
pub use dapple_runtime as runtime;

/// Vectors and quaternions of the public types.
pub use glam;

pub use dapple_device::{
    BackwardAsks, BoxedEngine, CropRoutine, DeviceBuffers, GradientBuffers, RowsOf, row_floats,
};
pub use dapple_engine::{Engine, EngineExt, Gradients, RenderSettings, Rendered};
pub use dapple_scene::{
    Camera, Dataset, Error, ErrorKind, Lens, LoadOptions, MaskMode, NoProgress, Panorama, Photo,
    Point, Pose, Progress, Result, Splats, Split, View, load, ply,
};
pub use dapple_train::{
    ConfigPatch, Ending, EvalReport, Event, Next, Outcome, Preset, RunFolder, RunHook, Silent,
    StepProgress, TrainConfig, Trainer, evaluate, train_into,
};

/// Prelude for most programs: `use dapple::prelude::*;`.
pub mod prelude {
    pub use crate::{Device, synth};
    pub use dapple_engine::{Engine, EngineExt, Gradients, RenderSettings, Rendered};
    pub use dapple_scene::{
        Camera, Dataset, LoadOptions, NoProgress, Photo, Point, Pose, SH_C0, Splats, View, ply,
    };
    pub use dapple_synth::SynthOptions;
    pub use dapple_train::{
        EvalReport, Event, Next, Outcome, Preset, RunFolder, RunHook, Silent, StepProgress,
        TrainConfig, Trainer,
    };
    pub use glam::{DQuat, DVec3};
}

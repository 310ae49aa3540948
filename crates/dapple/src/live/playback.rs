//! Snapshot playback: earlier splats of a run, on a separate engine.
//!
//! 1. The engine opens when a page first requests a snapshot, and holds the last requested snapshot.
//! 2. It closes when no page shows a snapshot, to free its memory for the run.
//! 3. A damaged or missing snapshot, or one too large for the device, is an error for the page that requested it.

use dapple_device::BoxedEngine;
use dapple_engine::RenderSettings;
use dapple_scene::{Error, Result, splat_file};
use dapple_train::RunFolder;
use dapple_viewer::{Encoded, Request};
use std::path::{Path, PathBuf};

/// Function that opens an engine.
type Opener = Box<dyn Fn() -> Result<BoxedEngine> + Send>;

/// Snapshot playback of a run; the module documents the engine's lifetime.
pub struct Playback {
    folder: RunFolder,
    open: Opener,
    held: Option<Held>,
}

struct Held {
    engine: BoxedEngine,
    /// File that the engine holds; none after a failed read.
    path: Option<PathBuf>,
    sh_degree: u8,
}

impl Playback {
    /// Creates the playback of a run's snapshots, on an engine that `open` returns.
    pub fn new(folder: RunFolder, open: impl Fn() -> Result<BoxedEngine> + Send + 'static) -> Self {
        Self {
            folder,
            open: Box::new(open),
            held: None,
        }
    }

    /// Returns the steps of the available snapshots.
    pub fn steps(&self) -> Vec<u32> {
        let all = self.folder.snapshots().into_iter();
        all.map(|snapshot| snapshot.step).collect()
    }

    /// Renders the snapshot after `step` with the settings of the run's own splats.
    ///
    /// # Errors
    /// A missing or damaged snapshot, or one too large for the device's memory.
    pub fn picture(
        &mut self,
        step: u32,
        request: &Request,
        settings: &RenderSettings,
    ) -> Result<Encoded> {
        let path = self.folder.snapshot_path(step);
        self.rendered(
            &path,
            &format!("the snapshot after step {step}"),
            request,
            settings,
        )
    }

    /// Renders the splats of the finished run.
    ///
    /// # Errors
    /// As for [`Self::picture`].
    pub fn results(&mut self, request: &Request, settings: &RenderSettings) -> Result<Encoded> {
        let path = self.folder.splats_path();
        self.rendered(&path, "the result", request, settings)
    }

    fn rendered(
        &mut self,
        path: &Path,
        what: &str,
        request: &Request,
        settings: &RenderSettings,
    ) -> Result<Encoded> {
        self.hold(path, what)?;
        let held = self.held.as_mut();
        let held = held.ok_or_else(|| Error::internal("the snapshot is not held"))?;
        let settings = RenderSettings {
            sh_degree: held.sh_degree,
            ..*settings
        };
        request.picture(held.engine.as_mut(), &settings)
    }

    /// Closes the engine.
    pub fn close(&mut self) {
        self.held = None;
    }

    /// Uploads the splats of a file to the engine.
    fn hold(&mut self, path: &Path, what: &str) -> Result<()> {
        if self
            .held
            .as_ref()
            .is_some_and(|held| held.path.as_deref() == Some(path))
        {
            return Ok(());
        }
        let (splats, _) = splat_file::read(path)?;
        let does_not_fit = |error: Error| {
            Error::unsupported(format!(
                "{what} cannot be shown during the run: {}",
                error.what()
            ))
            .hint("show the current splats; `dapple view` shows the snapshot after the run")
        };
        let mut held = match self.held.take() {
            Some(held) => held,
            None => Held {
                engine: (self.open)().map_err(does_not_fit)?,
                path: None,
                sh_degree: 0,
            },
        };
        // Dropped on failure: its contents are then undefined.
        held.engine.upload(&splats, None).map_err(does_not_fit)?;
        held.path = Some(path.to_owned());
        held.sh_degree = splats.sh_degree;
        self.held = Some(held);
        Ok(())
    }
}

impl std::fmt::Debug for Playback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.held.as_ref().and_then(|held| held.path.as_ref());
        f.debug_struct("Playback").field("path", &path).finish()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test may panic")]
mod tests {
    use super::*;
    use crate::Device;
    use dapple_scene::Splats;
    use dapple_scene::splat_file::Format;

    fn playback(folder: &std::path::Path, device: &str) -> Playback {
        let device: Device = device.parse().unwrap();
        Playback::new(RunFolder::open(folder), move || {
            crate::engine(device.clone())
        })
    }

    #[test]
    fn what_cannot_be_shown_is_an_error_and_the_next_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("snapshots");
        std::fs::create_dir(&all).unwrap();
        let mut splats = Splats::empty(0);
        splats.means.push([0.0; 3]);
        splats.scales.push([0.0; 3]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(0.0);
        splats.sh0.push([0.0; 3]);
        splat_file::write(&all.join("5.ply"), &splats, Format::Ply).unwrap();
        let whole = std::fs::read(all.join("5.ply")).unwrap();
        std::fs::write(all.join("7.ply"), &whole[..whole.len() - 3]).unwrap();
        let mut here = playback(folder.path(), "cpu");
        assert_eq!(here.steps(), [5, 7]);
        let path = |step: u32| RunFolder::open(folder.path()).snapshot_path(step);
        let hold = |here: &mut Playback, step| here.hold(&path(step), "the snapshot");
        assert!(hold(&mut here, 7).is_err() && hold(&mut here, 9).is_err());
        hold(&mut here, 5).unwrap();
        // The held snapshot remains if another cannot be read.
        assert!(hold(&mut here, 7).is_err());
        assert_eq!(
            here.held.as_ref().and_then(|held| held.path.clone()),
            Some(path(5))
        );
        here.close();
        assert!(here.held.is_none());
        // A device with too little memory, or a missing device.
        let error = hold(&mut playback(folder.path(), "gpu:no such device"), 5).unwrap_err();
        assert!(
            error.what().contains("cannot be shown during the run"),
            "{error}"
        );
    }
}

//! Snapshots of a run: its splats after some of its steps, for snapshot playback.
//!
//! 1. A run of `steps` steps has `count` evenly spread places: the k-th is after step `steps k / (count + 1)`. The last
//!    step is not a place: its splats are the run's result.
//! 2. After such a step the splats are copied, as files hold them, and written to `snapshots/STEP.ply`. The result of
//!    the run does not change, and the time counts as saving.
//! 3. All snapshots take [`MOST_BYTES`] at most. If they take more, every second one is dropped, and every second place
//!    to come is skipped. One snapshot always remains.
//! 4. A resumed run keeps its snapshots. The skipped places follow from them.

use super::{RunFolder, all_finite};
use crate::{PausedRun, TrainConfig};
use dapple_scene::atomic::remove_old;
use dapple_scene::splat_file::{self, Format, WriteOptions};
use dapple_scene::{Error, Result};
use std::path::PathBuf;

/// Most bytes on disk of a run's snapshots, not counting the one that is being written.
pub const MOST_BYTES: u64 = 4 << 30;

/// An existing snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Steps done.
    pub step: u32,
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file, bytes.
    pub bytes: u64,
}

/// Writes the snapshots of an active run.
#[derive(Debug)]
pub struct Snapshots {
    folder: RunFolder,
    config: TrainConfig,
    count: u32,
    most_bytes: u64,
    /// Every `stride`-th place has a snapshot; `None` until the first is due.
    stride: Option<u64>,
}

/// Result of a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// True if a snapshot was added.
    pub is_new: bool,
    /// Steps whose snapshots were dropped to stay within the limit.
    pub dropped: Vec<u32>,
}

impl Snapshots {
    /// Snapshots of a run into this folder, with `count` places.
    pub fn new(folder: &RunFolder, config: &TrainConfig, count: u32) -> Self {
        Self {
            folder: folder.clone(),
            config: config.clone(),
            count,
            most_bytes: MOST_BYTES,
            stride: None,
        }
    }

    /// Sets another limit, in bytes.
    #[must_use]
    pub fn with_most_bytes(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// Returns the steps with places, in a run of `steps`.
    pub fn places(&self, steps: u32) -> Vec<u32> {
        (1..steps)
            .filter(|&step| self.place(step, steps).is_some())
            .collect()
    }

    /// Returns the number of the place after this step, from 1 on.
    fn place(&self, step: u32, steps: u32) -> Option<u64> {
        let (step, steps, parts) = (u64::from(step), u64::from(steps), u64::from(self.count) + 1);
        let place = (step * parts).div_ceil(steps.max(1));
        let is_one = step > 0 && place < parts && steps * place / parts == step;
        is_one.then_some(place)
    }

    /// Takes a snapshot between two steps if this is a place without one.
    ///
    /// # Errors
    /// The engine has failed. A failure to write is the inner error, and the run may continue.
    pub fn between_steps(&mut self, run: &mut PausedRun<'_>) -> Result<Result<Taken>> {
        let (step, steps) = (run.step(), run.steps());
        let mut batch = run.last_batch();
        let Some(place) = batch.find_map(|step| self.place(step, steps)) else {
            return Ok(Ok(Taken::default()));
        };
        let stride = match self.stride {
            Some(stride) => stride,
            None => self.stride_of(&self.folder.snapshots(), steps),
        };
        self.stride = Some(stride);
        let path = self.folder.snapshot_path(step);
        if !place.is_multiple_of(stride) || path.is_file() {
            return Ok(Ok(Taken::default()));
        }
        let origin = run.origin();
        run.save(|splats| {
            // Non-finite splats end the run, and are not worth a snapshot.
            if !all_finite(&splats) {
                return Ok(Taken::default());
            }
            self.folder.reclaim(&self.config)?;
            let above = self.folder.snapshots_path();
            std::fs::create_dir_all(&above)
                .map_err(|e| Error::io("cannot make the folder of snapshots", &above, e))?;
            let options = WriteOptions {
                antialiased: self.config.antialias,
                origin,
                ..WriteOptions::default()
            };
            splat_file::write_with(&path, &splats, Format::Ply, &options)?;
            Ok(Taken {
                is_new: true,
                dropped: self.thin(steps)?,
            })
        })
    }

    /// Returns the stride of the places with a snapshot, computed from the existing files.
    fn stride_of(&self, there: &[Snapshot], steps: u32) -> u64 {
        let places = there.iter().filter_map(|s| self.place(s.step, steps));
        let places: Vec<u64> = places.collect();
        let last = places.iter().copied().max().unwrap_or(0);
        let mut stride = 1;
        while last >= 2 * stride && places.iter().all(|place| place.is_multiple_of(2 * stride)) {
            stride *= 2;
        }
        stride
    }

    /// Drops every second snapshot until the rest is within the limit. Returns the steps of the dropped ones.
    fn thin(&mut self, steps: u32) -> Result<Vec<u32>> {
        let mut dropped = Vec::new();
        loop {
            let there = self.folder.snapshots();
            let bytes: u64 = there.iter().map(|snapshot| snapshot.bytes).sum();
            if bytes <= self.most_bytes || there.len() < 2 {
                return Ok(dropped);
            }
            let stride = 2 * self.stride.unwrap_or(1);
            self.stride = Some(stride);
            let stays = |(i, snapshot): (usize, &Snapshot)| {
                // For a pace that has changed since: by their order.
                let place = self.place(snapshot.step, steps);
                place.map_or(i % 2 == 1, |place| place.is_multiple_of(stride))
            };
            let mut stay: Vec<bool> = there.iter().enumerate().map(stays).collect();
            if let (false, Some(last)) = (stay.contains(&true), stay.last_mut()) {
                *last = true;
            }
            for (snapshot, _) in there.into_iter().zip(stay).filter(|(_, stays)| !stays) {
                remove_old("cannot remove a snapshot", &snapshot.path)?;
                dropped.push(snapshot.step);
            }
        }
    }
}

impl RunFolder {
    /// Returns the path of the snapshots' folder.
    pub fn snapshots_path(&self) -> PathBuf {
        self.path().join("snapshots")
    }

    /// Returns the path of the snapshot after this step.
    pub fn snapshot_path(&self, step: u32) -> PathBuf {
        self.snapshots_path().join(format!("{step}.ply"))
    }

    /// Returns the existing snapshots, by step. None if the folder cannot be read.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        let entries = std::fs::read_dir(self.snapshots_path());
        let snapshot = |entry: std::fs::DirEntry| {
            let (path, name) = (entry.path(), entry.file_name());
            let step: u32 = name.to_str()?.strip_suffix(".ply")?.parse().ok()?;
            let about = entry.metadata().ok()?;
            // Only names that Dapple writes.
            let ours = about.is_file() && path == self.snapshot_path(step);
            ours.then_some(Snapshot {
                step,
                path,
                bytes: about.len(),
            })
        };
        let entries = entries.into_iter().flatten().flatten();
        let mut all: Vec<Snapshot> = entries.filter_map(snapshot).collect();
        all.sort_by_key(|snapshot| snapshot.step);
        all
    }

    /// Removes the snapshots of another run, and its partial files.
    pub(super) fn remove_snapshots(&self) -> Result<()> {
        let folder = self.snapshots_path();
        dapple_scene::atomic::remove_leftovers(&folder);
        for snapshot in self.snapshots() {
            remove_old("cannot remove another run's snapshot", &snapshot.path)?;
        }
        // The folder stays if it holds other files.
        let _ = std::fs::remove_dir(&folder);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use dapple_scene::Splats;

    fn snapshots(folder: &tempfile::TempDir, count: u32) -> Snapshots {
        let run = RunFolder::open(folder.path());
        std::fs::create_dir_all(run.snapshots_path()).unwrap();
        Snapshots::new(&run, &TrainConfig::default(), count)
    }

    fn steps_of(all: &Snapshots) -> Vec<u32> {
        all.folder.snapshots().iter().map(|s| s.step).collect()
    }

    #[test]
    fn places_are_spread_over_the_run() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(snapshots(&folder, 4).places(1000), [200, 400, 600, 800]);
        assert_eq!(snapshots(&folder, 3).places(10), [2, 5, 7]);
        assert_eq!(snapshots(&folder, 100).places(4), [1, 2, 3]);
        assert_eq!(snapshots(&folder, 0).places(1000), [0; 0]);
        assert_eq!(snapshots(&folder, 12).places(7000).len(), 12);
    }

    #[test]
    fn too_many_bytes_drop_every_second() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = snapshots(&folder, 7);
        let mut gone = Vec::new();
        let mut splats = Splats::empty(0);
        for _ in 0..20 {
            splats.means.push([0.0; 3]);
            splats.scales.push([0.0; 3]);
            splats.quats.push([1.0, 0.0, 0.0, 0.0]);
            splats.opacities.push(0.0);
            splats.sh0.push([0.0; 3]);
        }
        for step in all.places(800) {
            let place = all.place(step, 800).unwrap();
            if !place.is_multiple_of(all.stride.unwrap_or(1)) {
                continue;
            }
            let path = all.folder.snapshot_path(step);
            splat_file::write(&path, &splats, Format::Ply).unwrap();
            let bytes = path.metadata().unwrap().len();
            all.most_bytes = 3 * bytes;
            gone.extend(all.thin(800).unwrap());
        }
        assert_eq!(steps_of(&all), [200, 400, 600]);
        assert_eq!(gone, [100, 300]);
        // Another process computes the stride from the existing files.
        assert_eq!(all.stride_of(&all.folder.snapshots(), 800), 2);
        all.most_bytes = 1;
        all.thin(800).unwrap();
        assert_eq!(steps_of(&all), [400]);
        all.folder.remove_snapshots().unwrap();
        assert!(!all.folder.snapshots_path().exists());
    }

    #[test]
    fn only_names_of_ours_are_snapshots() {
        let folder = tempfile::tempdir().unwrap();
        let all = snapshots(&folder, 3);
        for name in [
            "10.ply",
            "007.ply",
            "x.ply",
            "+5.ply",
            "12.txt",
            "-3.ply",
            "99999999999.ply",
        ] {
            std::fs::write(all.folder.snapshots_path().join(name), "x").unwrap();
        }
        assert_eq!(steps_of(&all), [10]);
        all.folder.remove_snapshots().unwrap();
        assert!(all.folder.snapshots_path().join("x.ply").exists());
    }
}

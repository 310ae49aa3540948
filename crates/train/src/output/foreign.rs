//! Detects files in a folder that Dapple has not written, so that it does not replace them without a request.
//!
//! 1. Pictures name the program that wrote them ([`dapple_scene::provenance`]). Pictures of earlier versions do not;
//!    they are recognised by the scores or metrics next to their folder.
//! 2. The configuration of a run begins with a checksum of itself. `--print-config` writes no checksum, and an edited
//!    file has a wrong one.
//! 3. Metrics and scores are recognised by their fields.
//! 4. All other files exist only if a run has written results.

use super::RunFolder;
use crate::checkpoint::shards;
use dapple_scene::provenance::is_dapples_picture;
use dapple_scene::{Error, Result};
use std::path::{Path, PathBuf};

/// Text before and after the checksum in a configuration's first line.
const SIGNATURE: [&str; 2] = [
    "# Written by a run of dapple, checksum ",
    ": changed by hand, it is no longer replaced.\n",
];

/// The schema of `metrics.json`.
const METRICS: &str = "dapple-metrics";

/// Files that a command is about to write into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All files of a run.
    Run,
    /// Scores, renders and error maps.
    Scores,
}

/// An earlier run in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierRun {
    /// With a checkpoint to resume.
    Unfinished,
    /// With results.
    Finished,
}

/// Refuses to replace `out` if it is a file of a run, in the run's folder or a folder inside it.
///
/// # Errors
/// `out` is a file of a run; the error has its path.
pub fn refuse_run_file(out: &Path) -> Result<()> {
    if !out.is_file() {
        return Ok(());
    }
    let whole = out.canonicalize().unwrap_or_else(|_| out.to_owned());
    let Some(parent) = whole.parent() else {
        return Ok(());
    };
    let run = RunFolder::open(parent);
    let is_own = run.files().contains(&whole) && run.holds_run();
    let is_inner = || {
        let above = RunFolder::open(parent.parent().unwrap_or(parent));
        let inner = [
            above.renders_path(),
            above.errors_path(),
            above.snapshots_path(),
        ];
        inner.iter().any(|folder| folder == parent) && above.holds_run()
    };
    match is_own || is_inner() {
        false => Ok(()),
        true => Err(
            Error::input("the output is a file of a run, which only another run replaces")
                .at_path(out)
                .hint("choose another name"),
        ),
    }
}

impl RunFolder {
    /// Returns true if a run of Dapple has begun or ended here.
    pub fn holds_run(&self) -> bool {
        self.checkpoint_path().is_file() || is_signed(&self.config_path()) || self.holds_metrics()
    }

    /// Returns true if a run wrote the configuration in this folder, and it was not edited since.
    pub fn has_own_config(&self) -> bool {
        is_signed(&self.config_path())
    }

    /// Returns the files of a run, except for those in inner folders.
    fn files(&self) -> [PathBuf; 8] {
        [
            self.splats_path(),
            self.config_path(),
            self.cameras_path(),
            self.appearance_path(),
            self.metrics_path(),
            self.csv_path(),
            self.state_path(),
            self.checkpoint_path(),
        ]
    }

    /// Returns true if a run into this folder writes to `path`, which need not exist yet.
    pub fn writes_to(&self, path: &Path) -> bool {
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folders = [
            self.renders_path(),
            self.errors_path(),
            self.snapshots_path(),
        ];
        let path = whole(path);
        let is_shard = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            path.parent() == Some(&whole(self.path())) && name.is_some_and(shards::is_shard_name)
        };
        self.files().iter().any(|file| whole(file) == path)
            || is_shard(&path)
            || folders.iter().any(|folder| path.starts_with(whole(folder)))
    }

    /// Refuses a folder in which a folder has the name of a file that a run writes, or a file the name of a folder. The
    /// run could not save its results.
    ///
    /// # Errors
    /// Names the first such file or folder.
    pub fn refuse_obstacles(&self) -> Result<()> {
        let folders = [self.renders_path(), self.errors_path()];
        let file = self.files().into_iter().find(|path| path.is_dir());
        let folder = folders.into_iter().find(|path| path.is_file());
        let (what, path) = match (file, folder) {
            (None, None) => return Ok(()),
            (Some(path), _) => ("a folder has the name of a file that a run writes", path),
            (None, Some(path)) => ("a file has the name of a folder that a run writes", path),
        };
        Err(Error::input(what)
            .at_path(path)
            .hint("move it away, or name another folder with --out"))
    }

    /// Refuses a folder for a new run: obstacles ([`Self::refuse_obstacles`]), and unless it may be overwritten, an
    /// earlier run and files that Dapple has not written. `hint` is the advice for an earlier run.
    ///
    /// # Errors
    /// Names the folder, or the first such file.
    pub fn refuse_for_new_run(
        &self,
        overwrite: bool,
        hint: impl Fn(EarlierRun) -> String,
    ) -> Result<()> {
        self.refuse_obstacles()?;
        if overwrite {
            return Ok(());
        }
        let (earlier, what) = if self.checkpoint_path().exists() {
            (EarlierRun::Unfinished, "a run that is not finished")
        } else if self.splats_path().exists() || self.metrics_path().exists() {
            (EarlierRun::Finished, "the results of a run")
        } else {
            return self.refuse_foreign(Writes::Run);
        };
        Err(Error::input(format!("the output folder holds {what}"))
            .at_path(self.path())
            .hint(hint(earlier)))
    }

    /// Returns true if a run of Dapple has written its metrics here.
    pub fn holds_metrics(&self) -> bool {
        let metrics = object(&self.metrics_path());
        metrics.is_some_and(|metrics| metrics.get("schema").is_some_and(|name| name == METRICS))
    }

    /// Refuses a folder with files that Dapple has not written, as far as can be detected, and that would be replaced.
    ///
    /// # Errors
    /// Names the first of these files.
    pub fn refuse_foreign(&self, writes: Writes) -> Result<()> {
        let foreign = match writes {
            Writes::Run => self.foreign_run_file(),
            Writes::Scores => self.foreign_scores(),
        };
        let foreign = match foreign {
            None => self.foreign_picture()?,
            found => found,
        };
        match foreign {
            None => Ok(()),
            Some(path) => Err(Error::input(
                "the output folder holds a file that Dapple has not written, and that would be replaced",
            )
            .at_path(path)
            .hint("name another folder with --out, or give --overwrite to replace it")),
        }
    }

    fn foreign_run_file(&self) -> Option<PathBuf> {
        let config = self.config_path();
        // A write to a link replaces the link and not its target.
        let is_there = config.symlink_metadata().is_ok();
        if is_there && !is_signed(&config) {
            return Some(config);
        }
        // Cameras have no signature; those next to a run's configuration belong to the run.
        let cameras = Some(self.cameras_path()).filter(|_| !is_there);
        let capture = Some(self.capture_path()).filter(|_| !is_there);
        let state = Some(self.state_path()).filter(|_| !is_there);
        // Snapshots have no signature either.
        let snapshots = self.snapshots().into_iter().filter(|_| !is_there);
        [
            self.splats_path(),
            self.appearance_path(),
            self.metrics_path(),
            self.csv_path(),
            self.checkpoint_path(),
        ]
        .into_iter()
        .chain(cameras)
        .chain(capture)
        .chain(state)
        .chain(snapshots.map(|snapshot| snapshot.path))
        .find(|path| path.symlink_metadata().is_ok())
    }

    fn foreign_scores(&self) -> Option<PathBuf> {
        let scores = [self.scores_path(), self.scores_table_path()];
        if self.holds_scores() {
            return None;
        }
        { scores }
            .into_iter()
            .find(|path| path.symlink_metadata().is_ok())
    }

    fn holds_scores(&self) -> bool {
        let scores = object(&self.scores_path());
        scores.is_some_and(|scores| {
            ["scene", "splats", "psnr", "images"]
                .iter()
                .all(|key| scores.contains_key(*key))
        })
    }

    fn foreign_picture(&self) -> Result<Option<PathBuf>> {
        if self.holds_metrics() || self.holds_scores() {
            return Ok(None);
        }
        for folder in [self.renders_path(), self.errors_path()] {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(Error::io("cannot look into the folder", &folder, e)),
            };
            let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            paths.sort();
            let is_png = |path: &PathBuf| path.extension().is_some_and(|e| e == "png");
            let foreign = |path: &PathBuf| is_png(path) && !is_dapples_picture(path);
            if let Some(path) = paths.into_iter().find(foreign) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}

/// Returns a configuration below its checksum.
pub(super) fn signed(config: &str) -> String {
    let sum = crc32fast::hash(config.as_bytes());
    format!("{}{sum:08x}{}{config}", SIGNATURE[0], SIGNATURE[1])
}

/// Returns true if a run wrote this configuration, and it was not edited.
fn is_signed(path: &Path) -> bool {
    // Opening a pipe would wait for its writer.
    path.is_file()
        && std::fs::read_to_string(path).is_ok_and(|text| {
            let rest = text.strip_prefix(SIGNATURE[0]);
            let parts = rest.and_then(|rest| rest.split_once(SIGNATURE[1]));
            parts.is_some_and(|(_, config)| signed(config) == text)
        })
}

fn object(path: &Path) -> Option<serde_json::Map<String, serde_json::Value>> {
    let bytes = path.is_file().then(|| std::fs::read(path))?;
    serde_json::from_slice(&bytes.ok()?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_run_knows_its_own_configuration_until_somebody_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::open(folder.path());
        let config = run.config_path();
        std::fs::write(&config, signed("steps = 3\n")).unwrap();
        run.refuse_foreign(Writes::Run).unwrap();
        for foreign in [
            "steps = 3\n".to_owned(),
            signed("steps = 3\n") + "seed = 1\n",
            signed("steps = 3\n").replace('3', "4"),
        ] {
            std::fs::write(&config, foreign).unwrap();
            let error = run.refuse_foreign(Writes::Run).unwrap_err();
            assert!(error.place().unwrap().ends_with("config.toml"), "{error}");
            // Scores do not replace the file.
            run.refuse_foreign(Writes::Scores).unwrap();
        }
    }

    #[test]
    fn files_of_a_run_are_told_from_others_in_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::open(folder.path());
        std::fs::create_dir(run.renders_path()).unwrap();
        let own = [run.splats_path(), run.renders_path().join("000.png")];
        let free = [folder.path().join("small.ply"), run.scores_path()];
        for path in own.iter().chain(&free) {
            std::fs::write(path, "x").unwrap();
        }
        // No run has left them.
        own.iter().for_each(|path| refuse_run_file(path).unwrap());
        std::fs::write(run.config_path(), signed("steps = 3\n")).unwrap();
        for path in own.iter().chain(&[run.config_path()]) {
            assert!(refuse_run_file(path).is_err(), "{}", path.display());
        }
        free.iter().for_each(|path| refuse_run_file(path).unwrap());
        refuse_run_file(&run.metrics_path()).unwrap();
        // A folder where the splats are to be.
        run.refuse_obstacles().unwrap();
        std::fs::remove_file(run.splats_path()).unwrap();
        std::fs::create_dir(run.splats_path()).unwrap();
        let error = run.refuse_obstacles().unwrap_err();
        assert!(error.place().unwrap().ends_with("splats.ply"), "{error}");
    }

    #[test]
    fn scores_and_pictures_of_earlier_versions_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::open(folder.path());
        let refused = |writes| run.refuse_foreign(writes).unwrap_err();
        std::fs::create_dir(run.renders_path()).unwrap();
        let picture = run.renders_path().join("000.png");
        image::RgbImage::new(2, 2).save(&picture).unwrap();
        for writes in [Writes::Run, Writes::Scores] {
            assert!(refused(writes).place().unwrap().ends_with("000.png"));
        }
        std::fs::write(run.metrics_path(), r#"{"schema": "dapple-metrics"}"#).unwrap();
        run.refuse_foreign(Writes::Scores).unwrap();
        std::fs::remove_file(run.metrics_path()).unwrap();
        let scores = r#"{"scene": "C", "splats": "s.ply", "psnr": 1, "images": []}"#;
        std::fs::write(run.scores_path(), scores).unwrap();
        std::fs::write(run.scores_table_path(), "| a |").unwrap();
        run.refuse_foreign(Writes::Scores).unwrap();
        std::fs::write(run.scores_path(), "{}").unwrap();
        assert!(
            refused(Writes::Scores)
                .place()
                .unwrap()
                .ends_with("scores.json")
        );
    }
}

//! What in a folder Dapple has not written, and so does not replace unless told to.
//!
//! 1. Pictures say themselves who wrote them ([`dapple_scene::provenance`]); those of earlier versions do
//!    not, and are known by the scores or metrics that lie beside their folder.
//! 2. The configuration of a run opens with a checksum of itself: `--print-config` writes none, and
//!    one that somebody has changed since has a wrong one.
//! 3. Metrics and scores are known by their fields.
//! 4. All else is there only where a run has left results.

use super::RunFolder;
use dapple_scene::provenance::is_dapples_picture;
use dapple_scene::{Error, Result};
use std::path::{Path, PathBuf};

/// Before and after the checksum in a configuration's first line.
const SIGNATURE: [&str; 2] = [
    "# Written by a run of dapple, checksum ",
    ": changed by hand, it is no longer replaced.\n",
];

/// The schema of `metrics.json`.
const METRICS: &str = "dapple-metrics";

/// What a verb is about to write into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// All that a run leaves.
    Run,
    /// Scores, renders and maps of errors.
    Scores,
}

impl RunFolder {
    /// Whether a run of Dapple has left its metrics here.
    pub fn holds_metrics(&self) -> bool {
        let metrics = object(&self.metrics_path());
        metrics.is_some_and(|metrics| metrics.get("schema").is_some_and(|name| name == METRICS))
    }

    /// Refuses a folder that holds files which Dapple has not written, as far as that can be told, and
    /// which would be replaced.
    ///
    /// # Errors
    /// Names the first of them.
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
        // Through a link the file would not be written, but the link be replaced.
        let is_there = config.symlink_metadata().is_ok();
        if is_there && !is_signed(&config) {
            return Some(config);
        }
        // Cameras do not say who wrote them; those beside a run's configuration are the run's.
        let cameras = Some(self.cameras_path()).filter(|_| !is_there);
        let capture = Some(self.capture_path()).filter(|_| !is_there);
        // Nor do snapshots.
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

/// A configuration under its checksum.
pub(super) fn signed(config: &str) -> String {
    let sum = crc32fast::hash(config.as_bytes());
    format!("{}{sum:08x}{}{config}", SIGNATURE[0], SIGNATURE[1])
}

/// Whether a run wrote this configuration, and nobody has changed it since.
fn is_signed(path: &Path) -> bool {
    // To open a pipe would wait for its writer.
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
            // Scores leave it alone.
            run.refuse_foreign(Writes::Scores).unwrap();
        }
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

//! Errors of the capture's poses, and of the poses that a run refined, against the true poses.

use super::EvalInput;
use dapple::scene::{Error, Pose, Result, read_poses};
use dapple::train::PoseErrors;
use serde::Serialize;
use std::path::Path;

/// Errors of poses against the true poses.
#[derive(Serialize)]
pub struct PoseReport {
    /// Errors of the capture's poses.
    given: PoseErrors,
    /// Errors of the poses that the run refined.
    refined: Option<PoseErrors>,
}

impl PoseReport {
    /// Returns one line per set of poses.
    pub fn lines(&self) -> String {
        let line = |what: &str, e: &PoseErrors| {
            format!(
                "{what} poses are off by {:.3} degrees and {:.4} world units (mean of {}, aligned)",
                e.degrees, e.distance, e.poses
            )
        };
        let refined = self.refined.as_ref().map(|e| line("refined", e));
        let lines: Vec<String> = [line("given", &self.given)]
            .into_iter()
            .chain(refined)
            .collect();
        lines.join("\n")
    }
}

/// Computes the errors of the given and of the refined poses of the training photos.
pub fn report(truth: &Path, subject: &EvalInput, given: &[(String, Pose)]) -> Result<PoseReport> {
    let true_poses = read_poses(truth)?;
    let Some(given) = PoseErrors::by_name(given, &true_poses) else {
        return Err(
            Error::input("the true cameras are of other photos than the capture's")
                .at_path(truth)
                .hint("name the true_cameras.json in the folder of this capture"),
        );
    };
    let cameras = subject.path.with_file_name("cameras.json");
    let refined = match subject.config.poses.refine && cameras.is_file() {
        true => PoseErrors::by_name(&read_poses(&cameras)?, &true_poses),
        false => None,
    };
    Ok(PoseReport { given, refined })
}

//! How far the capture's poses, and those that a run refined, are from the true ones.

use super::Subject;
use dapple::scene::{Error, Pose, Result, read_poses};
use dapple::train::PoseErrors;
use serde::Serialize;
use std::path::Path;

/// How far poses are from the true ones.
#[derive(Serialize)]
pub struct PoseReport {
    /// Those of the capture.
    given: PoseErrors,
    /// Those that the run refined.
    refined: Option<PoseErrors>,
}

impl PoseReport {
    /// A line for each.
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

/// How far the given poses of the photos trained on are off, and those that the run refined.
pub fn report(truth: &Path, subject: &Subject, given: &[(String, Pose)]) -> Result<PoseReport> {
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

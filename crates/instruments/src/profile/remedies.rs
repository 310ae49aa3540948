//! Advice for each stage of a step on the CPU: the counts that its time follows, and the settings that lower them.

/// Advice by stage.
const REMEDIES: [(&str, &str); 11] = [
    (
        "project",
        "its time follows Gaussians times their harmonics: train with a smaller --max-gaussians, or with a lower \
         --sh-degree",
    ),
    (
        "order",
        "it sorts visible Gaussians by depth: train with a smaller --max-gaussians, or --threads up to the number \
         of cores",
    ),
    (
        "emit",
        "it writes one row for each pair of Gaussian and tile: fewer or smaller Gaussians (--max-gaussians, \
         --scale-reg), or smaller photos (--downscale)",
    ),
    (
        "sort",
        "it moves one row for each pair of Gaussian and tile: fewer or smaller Gaussians (--max-gaussians, \
         --scale-reg), or smaller photos (--downscale)",
    ),
    (
        "ranges",
        "it reads one row for each pair of Gaussian and tile: fewer or smaller Gaussians (--max-gaussians, \
         --scale-reg)",
    ),
    (
        "blend",
        "its time follows pixels times the Gaussians that cover them: smaller photos (--downscale, \
         --max-resolution), a cap (--max-gaussians-per-tile), or Gaussians that overlap less (--scale-reg)",
    ),
    (
        "appearance",
        "its time follows pixels: smaller photos (--downscale), or --appearance exposure, which has one map of \
         colours for each photo",
    ),
    (
        "loss",
        "its time follows pixels alone: smaller photos (--downscale, --max-resolution)",
    ),
    (
        "blend_backward",
        "its time follows pixels times the Gaussians that cover them: a longer part of the run on photos of half the \
         size (data.coarse_until in a file for --config), smaller photos (--downscale), or a cap \
         (--max-gaussians-per-tile)",
    ),
    (
        "update",
        "it reads and writes all parameters and moments: train with a smaller --max-gaussians, or with a lower \
         --sh-degree",
    ),
    (
        "densify",
        "it copies all Gaussians in each round: fewer rounds (densify.every in a file for --config), or a smaller \
         --max-gaussians",
    ),
];

/// Advice for a stage of this name on the CPU.
pub(super) fn on_cpu(stage: &str) -> Option<&'static str> {
    let found = REMEDIES.iter().find(|(name, _)| *name == stage);
    found.map(|(_, remedy)| *remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dapple::contract::Stage;

    #[test]
    fn every_stage_has_advice_and_no_other() {
        assert_eq!(REMEDIES.len(), Stage::ALL.len());
        for stage in Stage::ALL {
            assert!(on_cpu(stage.name()).is_some(), "{stage}");
        }
    }
}

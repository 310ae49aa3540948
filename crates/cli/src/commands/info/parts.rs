//! Parts of a run that was continued, with the scores at their ends.

use crate::training_display::{grouped, joined_photos};
use dapple::train::{Continuation, EvalRow, SettingChange};
use serde::Serialize;

/// A part of a run.
#[derive(Debug, Serialize)]
pub struct Part {
    /// Steps done before it.
    after: u32,
    /// Last step.
    steps: u32,
    /// Mean PSNR of the held-out photos at its end, dB; none if they were not scored there.
    psnr: Option<f64>,
    ssim: Option<f64>,
    /// True if it started with the optimizer state of the part before; none for the first part.
    has_state: Option<bool>,
    /// Settings that differ from those of the part before.
    changes: Vec<SettingChange>,
    /// Description of the photos that joined before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    photos: Option<String>,
}

/// Returns the parts of a run with `steps` steps; empty for a run with one part.
pub fn parts_of(continuations: &[Continuation], evals: &[EvalRow], steps: u32) -> Vec<Part> {
    if continuations.is_empty() {
        return Vec::new();
    }
    let starts = continuations.iter().map(|part| part.after);
    let ends = starts.chain([steps]);
    let begun = std::iter::once(None).chain(continuations.iter().map(Some));
    let part = |(begun, steps): (Option<&Continuation>, u32)| {
        let scored = evals.iter().rfind(|row| row.step == steps);
        Part {
            after: begun.map_or(0, |part| part.after),
            steps,
            psnr: scored.map(|row| row.psnr),
            ssim: scored.map(|row| row.ssim),
            has_state: begun.map(|part| part.has_state),
            changes: begun.map(|part| part.changes.clone()).unwrap_or_default(),
            photos: begun.and_then(joined_photos),
        }
    };
    begun.zip(ends).map(part).collect()
}

/// Returns a line for each part.
pub fn lines_of(parts: &[Part]) -> Vec<(&'static str, String)> {
    let line = |(i, part): (usize, &Part)| {
        let scores = match (part.psnr, part.ssim) {
            (Some(psnr), Some(ssim)) => format!("PSNR {psnr:.2} dB, SSIM {ssim:.4}"),
            _ => "not scored at its end".to_owned(),
        };
        let from = match part.has_state {
            Some(false) => ", from the splats of the part before",
            _ => "",
        };
        let mut text = format!(
            "{}: steps {} to {}{from}, {scores}",
            i + 1,
            grouped((part.after + 1).into()),
            grouped(part.steps.into())
        );
        if let Some(photos) = &part.photos {
            text = format!("{text}; photos: {photos}");
        }
        let changes = part.changes.iter().filter(|change| change.key != "steps");
        let changes = changes.map(|change| {
            let SettingChange { key, before, now } = change;
            format!("{key} = {now} (was {before})")
        });
        let changes: Vec<String> = changes.collect();
        if !changes.is_empty() {
            text = format!("{text}; {}", changes.join(", "));
        }
        ("part", text)
    };
    parts.iter().enumerate().map(line).collect()
}

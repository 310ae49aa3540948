//! Results of scoring, as JSON, tables and text.

use super::Args;
use super::poses::PoseReport;
use crate::console::Console;
use dapple::scene::{Result, printable};
use dapple::train::evaluate::{Difference, LEAST_IMAGES, Paired, paired_table, table};
use dapple::train::{EvalReport, RunFolder};
use serde::Serialize;
use std::path::Path;

/// With fewer images, all are listed.
const WORST_FROM: usize = 6;

/// Scores of the held-out photos.
pub struct Found {
    /// Scores with the given poses.
    pub report: EvalReport,
    /// Scores of the splats to compare with.
    pub second: Option<EvalReport>,
    /// Differences between both, per photo.
    pub paired: Option<Paired>,
    /// Scores with the pose of each photo fitted to the splats.
    pub aligned: Option<EvalReport>,
    /// Scores of right halves, with appearance fitted to the left halves.
    pub halves: Option<EvalReport>,
    /// Errors of the poses of the training photos.
    pub poses: Option<PoseReport>,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Scores<'a> {
    scene: &'a Path,
    splats: &'a Path,
    #[serde(flatten)]
    report: &'a EvalReport,
    worst: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compare: Option<Compared<'a>>,
    /// Scores with the pose of each photo fitted to the splats.
    #[serde(skip_serializing_if = "Option::is_none")]
    aligned: Option<&'a EvalReport>,
    /// Scores of right halves, with appearance fitted to the left halves.
    #[serde(skip_serializing_if = "Option::is_none")]
    halves: Option<&'a EvalReport>,
    /// Errors of the poses of the training photos.
    #[serde(skip_serializing_if = "Option::is_none")]
    poses: Option<&'a PoseReport>,
}

/// Results of the second splats.
#[derive(Serialize)]
struct Compared<'a> {
    splats: &'a Path,
    #[serde(flatten)]
    report: &'a EvalReport,
    difference: &'a Paired,
}

impl Found {
    /// Writes and prints all results; `paths` are those of the splats.
    pub fn tell(
        &self,
        (args, scene): (&Args, &Path),
        paths: (&Path, Option<&Path>),
        folder: Option<&RunFolder>,
        console: &Console,
    ) -> Result<()> {
        let report = &self.report;
        let count = args.worst.unwrap_or(match report.images.len() {
            WORST_FROM.. => 3,
            _ => 0,
        });
        let worst = report.worst(count);
        let compared = paths.1.zip(self.second.as_ref()).zip(self.paired.as_ref());
        let scores = Scores {
            scene,
            splats: paths.0,
            report,
            worst: worst.iter().map(|image| image.name.as_str()).collect(),
            compare: compared.map(|((splats, report), difference)| Compared {
                splats,
                report,
                difference,
            }),
            aligned: self.aligned.as_ref(),
            halves: self.halves.as_ref(),
            poses: self.poses.as_ref(),
        };
        if let Some(folder) = folder {
            folder.write_scores(&scores, &self.table(true))?;
        }
        if args.json {
            return console.json(&scores);
        }
        self.print(args.markdown, console)?;
        for image in worst {
            let below = report.psnr - image.psnr;
            console.note(&format!(
                "worst: {} with {:.2} dB, {below:.2} below the mean",
                printable(&image.name),
                image.psnr
            ));
        }
        let verdict = self.paired.as_ref().map(verdict);
        verdict.map_or(Ok(()), |verdict| console.data(&verdict))
    }

    fn table(&self, markdown: bool) -> String {
        match &self.paired {
            Some(paired) => paired_table(&self.report, paired, markdown),
            None => table(&self.report, markdown),
        }
    }

    fn print(&self, markdown: bool, console: &Console) -> Result<()> {
        console.data(self.table(markdown).trim_end())?;
        if let Some(focus) = &self.report.focus {
            console.data(&format!("\ninside: {focus}"))?;
        }
        if let Some(aligned) = &self.aligned {
            console.data("\naligned: the pose of each photo fitted to the splats")?;
            console.data(table(aligned, markdown).trim_end())?;
        }
        if let Some(halves) = &self.halves {
            console.data("\nright halves, what differs between photos fitted to the left ones")?;
            console.data(table(halves, markdown).trim_end())?;
        }
        match &self.poses {
            Some(poses) => console.data(&poses.lines()),
            None => Ok(()),
        }
    }
}

/// Returns the result of the comparison as a sentence.
fn verdict(paired: &Paired) -> String {
    let line = |name: &str, unit: &str, digits: usize, d: &Difference| {
        let [low, high] = d.interval;
        let photos = d.images.len();
        if photos < LEAST_IMAGES {
            return format!(
                "{name:<6}A - B = {:+.digits$}{unit}, A better on {}, worse on {} (sign test p = {:.2}): too \
                 few photos to tell a difference from noise ({photos}; {LEAST_IMAGES} do)",
                d.mean, d.better, d.worse, d.sign_test
            );
        }
        let leaves_out_zero = low > 0.0 || high < 0.0;
        let says = match (d.is_beyond_noise, d.better > d.worse) {
            (false, _) if leaves_out_zero => {
                "a few photos dominate the mean, and most others contradict it"
            }
            (true, true) => "A is better, beyond the photos' noise",
            (true, false) => "B is better, beyond the photos' noise",
            (false, _) => "no more than the photos' noise",
        };
        format!(
            "{name:<6}A - B = {:+.digits$}{unit} [{low:+.digits$}, {high:+.digits$}], A better on {}, \
             worse on {} (sign test p = {:.2}): {says}",
            d.mean, d.better, d.worse, d.sign_test
        )
    };
    let mut lines = vec![
        line("PSNR", " dB", 3, &paired.psnr),
        line("SSIM", "", 4, &paired.ssim),
    ];
    lines.extend(paired.lpips.as_ref().map(|d| line("LPIPS", "", 4, d)));
    lines.join("\n")
}

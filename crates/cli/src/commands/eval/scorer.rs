//! Scores held-out photos on one engine: with given poses, with fitted poses, by halves.

use super::EvalInput;
use crate::console::Console;
use dapple::BoxedEngine;
use dapple::scene::edit::Region;
use dapple::scene::{Dataset, Error, Result, View};
use dapple::train::evaluate::{Lpips, flat_psnr};
use dapple::train::{
    EvalReport, Halves, PictureWriter, RunFolder, Scoring, evaluate, evaluate_aligned,
    evaluate_focus, evaluate_halves, read_appearance_mlp,
};

/// Inputs shared by the scorings of one command.
pub struct Scorer<'a> {
    /// Engine that renders, and scores if it can.
    pub engine: BoxedEngine,
    /// Held-out photos.
    pub dataset: &'a Dataset,
    /// Background of the scores; the same for both of two splat files.
    pub background: [f32; 3],
    /// LPIPS weights, to score by LPIPS too.
    pub lpips: Option<&'a Lpips>,
    /// True if colour-corrected scores are computed too.
    pub corrects: bool,
    /// Region of interest to score again inside of, relative to the origin of the capture's cameras.
    pub focus: Option<Region>,
    /// Console for bars and notes.
    pub console: &'a Console,
}

impl<'a> Scorer<'a> {
    fn views(&self) -> Vec<&'a View> {
        self.dataset.views.iter().collect()
    }

    /// Scores all views, and writes renders and error maps into `folder`.
    pub fn score(&mut self, subject: &EvalInput, folder: Option<&RunFolder>) -> Result<EvalReport> {
        let (views, console) = (self.views(), self.console);
        let settings = &subject.settings(self.background);
        self.engine.upload(&subject.splats, None)?;
        let bar = console.bar(views.len() as u64, "scoring [{bar:30}] {pos}/{len}");
        let mut pictures = folder.map(|folder| PictureWriter::new(folder, settings.background));
        let scoring = Scoring {
            lpips: self.lpips,
            fitted: self.corrects,
            pictures: pictures.is_some(),
        };
        let mut flat = Vec::new();
        let report = evaluate(
            &mut self.engine,
            &views,
            settings,
            &scoring,
            &mut |view, shown| {
                bar.inc(1);
                flat.extend(flat_psnr(view.photo.read()?.as_ref(), settings.background));
                if let (Some(writer), Some(shown)) = (&mut pictures, shown) {
                    writer.write(&view.name, view.photo.read()?, shown);
                }
                Ok(())
            },
        );
        bar.finish_and_clear();
        let mut report = report?;
        if let Some(region) = self.focus {
            report.focus = evaluate_focus(&mut self.engine, &views, settings, region)?;
            if report.focus.is_none() {
                return Err(Error::input("no held-out photo shows the region of interest")
                    .at(format!("--focus {region}"))
                    .hint("name a region in the coordinates of the capture: `dapple info CAPTURE` shows them"));
            }
        }
        pictures.map_or(Ok(()), PictureWriter::finish)?;
        for note in &report.notes {
            console.note(&format!("note: {note}"));
        }
        let flat = flat.iter().sum::<f64>() / flat.len().max(1) as f64;
        if report.psnr < flat {
            console.note(&format!(
            "warning: pictures of one colour would score better, {flat:.2} dB: are these the splats of another \
             capture, or in another world than its poses?"
        ));
        }
        Ok(report)
    }

    /// Returns true if poses are fitted: if the options select this (`asked`) or the run refined poses, and the engine
    /// returns gradients.
    pub fn aligns(&mut self, asked: bool, refined: bool) -> Result<bool> {
        if self.engine.sharing().is_none() {
            return Ok(asked || refined);
        }
        let what = "engines that share splats return no gradients to fit poses with";
        if asked {
            return Err(Error::unsupported(what)
                .at("--align-poses")
                .hint("use --device cpu, which holds all splats in one engine"));
        }
        if refined {
            self.console.note(&format!(
                "note: {what}: scores with fitted poses need --device cpu"
            ));
        }
        Ok(false)
    }

    /// Scores with the pose of each photo fitted to the splats. `extent`: the local extent of the training photos.
    pub fn aligned(&mut self, subject: &EvalInput, extent: f64) -> Result<EvalReport> {
        let (views, settings) = (self.views(), subject.settings(self.background));
        self.engine.upload(&subject.splats, None)?;
        evaluate_aligned(&mut self.engine, &views, &settings, extent)
    }

    /// Scores right halves, with the appearance fitted to the left halves, and the appearance MLP adapted by a LoRA
    /// of this rank.
    pub fn halves(&mut self, subject: &EvalInput, lora: Option<u8>) -> Result<EvalReport> {
        let appearance = &subject.config.appearance;
        if lora.is_some() && !appearance.has_mlp() {
            return Err(
                Error::input("the run has no appearance MLP that a LoRA could adapt")
                    .at("--lora")
                    .hint("train with --appearance mlp for one"),
            );
        }
        let looks = subject.path.with_file_name("appearance.safetensors");
        let mlp = match appearance.has_mlp() {
            true => Some(read_appearance_mlp(&looks, subject.splats.len())?.0),
            false => None,
        };
        let how = Halves {
            appearance,
            appearance_mlp: mlp.as_ref(),
            lora: lora.map(usize::from),
            ssim_weight: subject.config.ssim_weight,
            settings: subject.settings(self.background),
        };
        let views = self.views();
        evaluate_halves(
            &mut self.engine,
            &subject.splats,
            &views,
            &how,
            &self.console.progress(),
        )
    }
}

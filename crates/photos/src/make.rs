//! The stages, in order.

use crate::database::Database;
use crate::frame::{self, Frame};
use crate::inputs::{self, Inputs, Source};
use crate::model::Model;
use crate::options::{Mapper, Options};
use crate::pairs::Choice;
use crate::photos::{counted, groups, prepare};
use crate::quality::{Evidence, Review};
use crate::report;
use crate::stages::{LEAST_POINTS, Poses, Run, Search};
use crate::tool::{self, Tool};
use crate::video;
use crate::watch::{Snapshot, Watch};
use crate::work::{self, Work};
use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Progress, Result};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Name of the record in the capture.
pub(crate) const RECORD: &str = "photos.json";

/// A capture that was made.
#[derive(Debug, Clone, Serialize)]
pub struct Done {
    /// Folder.
    pub capture: PathBuf,
    /// Name and version of the tool.
    pub tool: String,
    /// Choice of pairs.
    pub pairs: Choice,
    /// Mapper of the model.
    pub mapper: Mapper,
    /// Cameras.
    pub cameras: usize,
    /// Checks.
    pub review: Review,
    /// Up axis, scale, position.
    pub frame: Frame,
    /// Report.
    pub report: PathBuf,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Makes a capture.
///
/// # Errors
/// Inputs without photos, a missing or failing tool, a reconstruction that fails the checks, errors of the operating
/// system, a stop by the caller. After an error the same call continues with the unfinished stage.
pub fn make(options: &Options, progress: &dyn Progress) -> Result<Done> {
    make_watched(options, progress, None)
}

/// Makes a capture, and passes on cameras and points while the mapper finds them, and once more in the frame of the
/// capture. The result has the same bytes.
///
/// # Errors
/// As [`make`].
pub fn make_watched(
    options: &Options,
    progress: &dyn Progress,
    watch: Option<Watch<'_>>,
) -> Result<Done> {
    let camera_model = options.model()?;
    let mut inputs = inputs::find(&options.inputs)?;
    check_out(options)?;
    let tool = match options.install {
        true => tool::install(&options.out, progress)?,
        false => Tool::find(options.tool.as_deref(), &options.out)?,
    };
    let mut work = Work::open(&options.out)?;
    let mut notes = std::mem::take(&mut inputs.notes);
    let is_video = inputs.photos.is_empty();
    notes.extend(add_frames(&mut inputs, options, &mut work, progress)?);
    let images = whole(&options.out)?.join("images");
    let masks = whole(&options.out)?.join("masks");
    let set = prepare(&inputs.photos, &images, &masks, progress)?;
    notes.extend(set.notes);
    enough(set.photos.len(), &options.inputs)?;
    let groups = groups(&set.photos, camera_model);
    let run = Run {
        options,
        tool: &tool,
        photos: &set.photos,
        groups: &groups,
        images: &images,
        search: Search::Usual,
        watch,
        masks: set
            .photos
            .iter()
            .any(|photo| photo.has_mask)
            .then_some(masks),
    };
    let poses = run.poses(&mut work, is_video, progress)?;
    run.finish(&work, &poses, notes, progress)
}

/// Extracts the frames of all videos, and adds them to the photos. Returns notes.
pub(crate) fn add_frames(
    inputs: &mut Inputs,
    options: &Options,
    work: &mut Work,
    progress: &dyn Progress,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (path, name) in &inputs.videos {
        let video = video::Video {
            path: path.clone(),
            name: name.clone(),
            fps: options.fps,
            ffmpeg: options.ffmpeg.clone(),
        };
        let found = frames(work, &video, progress)?;
        notes.push(found.1);
        inputs.photos.extend(found.0);
    }
    Ok(notes)
}

/// Refuses a folder with another capture.
pub(crate) fn check_out(options: &Options) -> Result<()> {
    let out = &options.out;
    for input in &options.inputs {
        let (Ok(input), Ok(place)) = (input.canonicalize(), out.canonicalize()) else {
            continue;
        };
        if place.starts_with(&input) || input.starts_with(&place) {
            return Err(
                Error::input("the capture and the photos are in the same folder")
                    .at_path(out)
                    .hint("name another folder with -o: the photos are copied into it"),
            );
        }
    }
    let is_other = out.is_dir()
        && !out.join(work::FOLDER).exists()
        && std::fs::read_dir(out).is_ok_and(|mut e| e.next().is_some());
    if is_other && !options.overwrite {
        return Err(Error::input("the output folder holds other files")
            .at_path(out)
            .hint("name another folder with -o, or give --overwrite to replace images/ and sparse/ in it"));
    }
    std::fs::create_dir_all(out).map_err(|e| Error::io("cannot create the capture", out, e))?;
    dapple_base::atomic::remove_leftovers(out);
    Ok(())
}

fn whole(path: &Path) -> Result<PathBuf> {
    path.canonicalize()
        .map_err(|e| Error::io("cannot open the folder", path, e))
}

/// Refuses fewer photos than a reconstruction needs.
fn enough(photos: usize, inputs: &[PathBuf]) -> Result<()> {
    if photos >= 3 {
        return Ok(());
    }
    let place = inputs.first().map_or_else(PathBuf::new, Clone::clone);
    Err(Error::input(format!(
        "there {} only {}, and poses need at least three",
        if photos == 1 { "is" } else { "are" },
        counted(photos)
    ))
    .at_path(place)
    .hint(
        "take 30 to 150 photos while walking around, each with two thirds of the last one in view",
    ))
}

/// Extracts the frames of a video, unless that was done before. Returns them with a note.
fn frames(
    work: &mut Work,
    video: &video::Video,
    progress: &dyn Progress,
) -> Result<(Vec<Source>, String)> {
    let (path, fps) = (video.path.as_path(), video.fps);
    let folder = work.path("frames").join(&video.name);
    let meta = std::fs::metadata(path).map_err(|e| Error::io("cannot open the video", path, e))?;
    let settings = format!("{} {} {fps:?}", path.display(), meta.len());
    let list = folder.join("frames.json");
    let stage = format!("video-{:08x}", crc32fast::hash(video.name.as_bytes()));
    work.stage(
        &stage,
        &settings,
        |_| work::remove(&folder),
        |_| {
            // An interrupted extraction starts again.
            work::remove(&folder)?;
            let found = video::frames(video, &folder, progress)?;
            let files: Vec<String> = found
                .sources
                .iter()
                .map(|source| source.name.clone())
                .collect();
            let text = json!({"frames": files, "blurred": found.blurred, "alike": found.alike})
                .to_string();
            write_atomically(&list, |out| out.write_all(text.as_bytes()))
        },
    )?;
    let text =
        std::fs::read(&list).map_err(|e| Error::io("cannot read the list of frames", &list, e))?;
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let names = value["frames"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str());
    let source = |frame: &str| Source {
        path: folder.join(frame.rsplit('/').next().unwrap_or(frame)),
        name: frame.to_owned(),
        mask: None,
        is_frame: true,
    };
    let sources: Vec<Source> = names.map(source).collect();
    let note = format!(
        "{}: {} frames are used, {} are dropped as blurred, {} as the same view",
        path.display(),
        sources.len(),
        value["blurred"],
        value["alike"]
    );
    Ok((sources, note))
}

/// Returns the photos of the other models that the largest one lacks.
fn without(others: Vec<Vec<String>>, model: &Model) -> Vec<Vec<String>> {
    let known: BTreeSet<&str> = model
        .images
        .iter()
        .map(|image| image.name.as_str())
        .collect();
    let rest = |names: Vec<String>| {
        names
            .into_iter()
            .filter(|name| !known.contains(name.as_str()))
            .collect::<Vec<_>>()
    };
    others
        .into_iter()
        .map(rest)
        .filter(|names| !names.is_empty())
        .collect()
}

/// Describes a reconstruction without a model.
fn nothing(review: &Review, work: &Work, report: &Path) -> Error {
    let finding = review.findings.first();
    let why = finding.map_or(String::new(), |finding| format!(": {}", finding.what));
    let remedy = finding.map_or("shoot more photos with more overlap", |finding| {
        &finding.remedy
    });
    Error::input(format!("no photo could be placed{why}"))
        .at_path(report)
        .hint(format!(
            "{remedy}; the log of the tool is in {}",
            work.folder().display()
        ))
}

impl Run<'_> {
    /// Checks the largest model and writes the capture.
    fn finish(
        &self,
        work: &Work,
        poses: &Poses,
        mut notes: Vec<String>,
        progress: &dyn Progress,
    ) -> Result<Done> {
        progress.start("checking the poses", 0);
        let database = Database::read(&poses.database)?;
        let mut model = match poses.models.first() {
            Some((folder, _)) => Model::read(folder)?,
            None => Model::default(),
        };
        model.drop_unsupported(LEAST_POINTS);
        let others: Vec<Vec<String>> = poses
            .models
            .iter()
            .skip(1)
            .map(|(folder, _)| {
                Ok(Model::read(folder)?
                    .images
                    .into_iter()
                    .map(|image| image.name)
                    .collect())
            })
            .collect::<Result<_>>()?;
        let others: Vec<Vec<String>> = without(others, &model);
        let evidence = Evidence::new(&model, self.photos, &database, &others)?;
        let (frame, moved) = match model.images.is_empty() {
            true => (Frame::default(), dapple_scene::edit::Similarity::IDENTITY),
            false => frame::find(&evidence, self.options.distance.as_ref(), self.options.gps)?,
        };
        notes.extend(frame.notes.iter().cloned());
        let review = Review::from_evidence(&evidence);
        model.transform(&moved);
        if let (Some(watch), Ok(snapshot)) = (self.watch, Snapshot::of(&model)) {
            watch(Snapshot {
                is_final: true,
                ..snapshot
            });
        }
        let evidence = Evidence::new(&model, self.photos, &database, &others)?;
        let report = self.options.out.join("report.html");
        report::write(
            &report,
            &evidence,
            &review,
            &frame,
            self.tool.title(),
            &notes,
        )?;
        progress.finish();
        if model.images.is_empty() {
            return Err(nothing(&review, work, &report));
        }
        if !self.options.accept {
            review.check(&report)?;
        }
        let sparse = self.options.out.join("sparse");
        work::remove(&sparse)?;
        model.write(&sparse.join("0"))?;
        let done = Done {
            capture: self.options.out.clone(),
            tool: self.tool.title().to_owned(),
            pairs: poses.pairs,
            mapper: poses.mapper,
            cameras: model.cameras.len(),
            review,
            frame,
            report,
            notes,
        };
        self.record(&done)?;
        Ok(done)
    }

    fn record(&self, done: &Done) -> Result<()> {
        let record = json!({
            "tool": done.tool, "registered": done.review.registered, "photos": done.review.photos,
            "error": done.review.error, "frame": done.frame, "findings": done.review.findings,
            "features": self.options.features, "photo_size": self.options.photo_size, "seed": self.options.seed,
        });
        let text = serde_json::to_string_pretty(&record)
            .map_err(|e| Error::internal(format!("a record cannot be written: {e}")))?;
        write_atomically(&self.options.out.join(RECORD), |out| {
            out.write_all(text.as_bytes())
        })
    }
}

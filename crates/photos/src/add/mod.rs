//! Adds photos to the model of a capture.
//!
//! 1. `base`: cameras, poses and points of the capture, exactly as its files have them.
//! 2. `names`, `cameras`: old and new photos are prepared in the work folder. New photos of a camera of the capture share
//!    its intrinsics.
//! 3. `pairs`, `register`: the tool finds and matches features, triangulates the old photos at their poses, and finds
//!    poses of the new ones.
//! 4. `merge`: new photos, their cameras and the points that they observe are appended to the old model.
//!
//! Nothing is moved, turned or scaled, so splats that were trained on the old capture fit the new one. `images/` and
//! `sparse/0` of the new capture are written at the end.

mod base;
mod cameras;
mod merge;
mod names;
mod pairs;
mod register;
mod text;

pub use base::Base;
use cameras::Cameras;

use crate::files::{place, remove_others};
use crate::frame::{Frame, KEPT};
use crate::inputs;
use crate::make::{RECORD, add_frames, check_out};
use crate::model::Model;
use crate::options::Options;
use crate::photos::{Prepared, PreparedSet, counted, listed, read_all};
use crate::quality::{Evidence, Finding, Kind, PhotoReview, Review};
use crate::report;
use crate::stages::{Run, Search};
use crate::tool::{self, Tool};
use crate::work::{self, Work};
use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Progress, Result};
use register::{Found, Registration};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Stage that marks the work folder of a capture with added photos.
const STAGE: &str = "add";

/// A capture with added photos.
#[derive(Debug, Clone, Serialize)]
pub struct Added {
    /// Folder.
    pub capture: PathBuf,
    /// Capture before.
    pub from: PathBuf,
    /// Name and version of the tool.
    pub tool: String,
    /// New photos with a pose.
    pub placed: usize,
    /// New photos.
    pub photos: usize,
    /// Photos of the capture before.
    pub old_photos: usize,
    /// Points that were added.
    pub new_points: usize,
    /// Findings about the new photos.
    pub findings: Vec<Finding>,
    /// Numbers of each new photo, by name.
    pub by_photo: Vec<PhotoReview>,
    /// Report.
    pub report: PathBuf,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Old and new photos for the tool.
pub struct Photos<'a> {
    /// All photos, by name.
    all: &'a [Prepared],
    /// Index of each photo in the old model; `None` for a new one.
    known: Vec<Option<usize>>,
}

impl Photos<'_> {
    /// Returns the old photos with their indices in the old model.
    fn old(&self) -> impl Iterator<Item = (&Prepared, usize)> {
        let both = self.all.iter().zip(&self.known);
        both.filter_map(|(photo, known)| Some((photo, (*known)?)))
    }

    /// Returns the new photos.
    fn added(&self) -> impl Iterator<Item = &Prepared> {
        let both = self.all.iter().zip(&self.known);
        both.filter_map(|(photo, known)| known.is_none().then_some(photo))
    }
}

/// Returns the default folder of a capture with added photos: `captures/bird-more` for `captures/bird`.
pub fn default_out(capture: &Path) -> PathBuf {
    let whole = match capture.file_name() {
        Some(_) => capture.to_owned(),
        None => capture
            .canonicalize()
            .unwrap_or_else(|_| capture.to_owned()),
    };
    let mut folder = whole.as_path();
    let is_inner = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_file()
            || name == "sparse"
            || path.parent().is_some_and(|above| above.ends_with("sparse"))
    };
    while let Some(above) = folder.parent().filter(|_| is_inner(folder)) {
        folder = above;
    }
    let name = folder
        .file_name()
        .map_or("capture".into(), |name| name.to_string_lossy());
    folder.with_file_name(format!("{name}-more"))
}

/// Adds photos to a capture, as a new capture.
///
/// # Errors
/// The errors of [`crate::make`]; no new photo; no new photo with a pose. After an error the same call continues with the
/// unfinished stage. The old capture is not changed.
pub fn add(options: &Options, base: &Base, progress: &dyn Progress) -> Result<Added> {
    let camera_model = options.model()?;
    let mut found = inputs::find(&options.inputs)?;
    check_places(options, base)?;
    check_out(options)?;
    let tool = match options.install {
        true => tool::install(&options.out, progress)?,
        false => Tool::find(options.tool.as_deref(), &options.out)?,
    };
    let mut work = Work::open(&options.out)?;
    work.stage(STAGE, &key(base), |_| Ok(()), |_| Ok(()))?;
    let mut notes = base.notes.clone();
    notes.append(&mut found.notes);
    notes.extend(add_frames(&mut found, options, &mut work, progress)?);
    let (images, masks) = (work.path("photos"), work.path("masks"));
    let (set, more) = prepare(base, found.photos, (&images, &masks), progress)?;
    notes.extend(more);
    let old: HashMap<&Path, usize> = (0..)
        .zip(&base.files)
        .map(|(i, (file, _))| (file.as_path(), i))
        .collect();
    let known = set
        .photos
        .iter()
        .map(|photo| old.get(photo.path.as_path()).copied());
    let photos = Photos {
        known: known.collect(),
        all: &set.photos,
    };
    if photos.added().next().is_none() {
        return Err(Error::input("the capture holds all these photos already")
            .at_path(
                options
                    .inputs
                    .first()
                    .map_or(Path::new(""), PathBuf::as_path),
            )
            .hint("name photos that are not in the capture"));
    }
    let cameras = cameras::find(&photos, &base.model, camera_model)?;
    let registration = Registration {
        run: Run {
            options,
            tool: &tool,
            photos: &set.photos,
            groups: &cameras.groups,
            images: &images,
            search: Search::Usual,
            watch: None,
            masks: set
                .photos
                .iter()
                .any(|photo| photo.has_mask)
                .then(|| masks.clone()),
        },
        base,
        photos: &photos,
        cameras: &cameras,
    };
    let found = registration.poses(&mut work, progress)?;
    registration.finish(&work, &found, notes, progress)
}

/// Refuses to write among the files of the capture, and over a capture that is not the result of this command.
fn check_places(options: &Options, base: &Base) -> Result<()> {
    let out = resolved(&options.out);
    for folder in &base.folders {
        let folder = match folder.is_file() {
            true => folder.parent().unwrap_or(Path::new(".")),
            false => folder,
        };
        let folder = resolved(folder);
        if out.starts_with(&folder) || folder.starts_with(&out) {
            return Err(Error::input(
                "the new capture and the capture before are in the same folder",
            )
            .at_path(&options.out)
            .hint("name another folder with -o: the capture before is not changed"));
        }
    }
    let work = options.out.join(work::FOLDER);
    if work.is_dir() && !work.join(format!("{STAGE}.begun")).is_file() && !options.overwrite {
        return Err(Error::input("the output folder holds another capture")
            .at_path(&options.out)
            .hint("name another folder with -o, or give --overwrite to replace images/ and sparse/ in it"));
    }
    Ok(())
}

/// Returns the whole path; the part that does not exist yet is kept.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    match existing {
        Some((above, whole)) => match absolute.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => whole,
            Ok(rest) => whole.join(rest),
            Err(_) => whole,
        },
        None => absolute,
    }
}

/// Returns a checksum of cameras and poses.
fn key(base: &Base) -> String {
    let mut sum = crc32fast::Hasher::new();
    for (image, (file, _)) in base.model.images.iter().zip(&base.files) {
        sum.update(file.as_os_str().as_encoded_bytes());
        let (q, t) = (
            image.pose.rotation.to_array(),
            image.pose.translation.to_array(),
        );
        for number in q.iter().chain(&t) {
            sum.update(&number.to_le_bytes());
        }
    }
    for number in base
        .model
        .cameras
        .iter()
        .flat_map(|camera| &camera.parameters)
    {
        sum.update(&number.to_le_bytes());
    }
    format!("{:08x}", sum.finalize())
}

/// Prepares old and new photos for the tool. Returns them with notes on the new ones.
fn prepare(
    base: &Base,
    mut new: Vec<inputs::Source>,
    (images, masks): (&Path, &Path),
    progress: &dyn Progress,
) -> Result<(PreparedSet, Vec<String>)> {
    let names: Vec<String> = base
        .model
        .images
        .iter()
        .map(|image| image.name.clone())
        .collect();
    let mut taken = HashSet::new();
    let mut sources = names::old_sources(&names, &base.files, &mut taken);
    let own: HashMap<PathBuf, String> = new
        .iter()
        .map(|s| (s.path.clone(), s.name.clone()))
        .collect();
    let renamed = names::rename_new(&mut new, &mut taken);
    sources.extend(new);
    let mut set = read_all(&sources, images, masks, progress)?;
    let mut notes = std::mem::take(&mut set.notes);
    let skipped: Vec<&str> = set
        .duplicates
        .iter()
        .filter_map(|(path, _)| own.get(path).map(String::as_str))
        .collect();
    if !skipped.is_empty() {
        let is = if skipped.len() == 1 { "is" } else { "are" };
        notes.push(format!(
            "{} with the pixels of another photo {is} skipped: {}",
            counted(skipped.len()),
            listed(skipped.iter().copied())
        ));
    }
    let there: HashSet<&Path> = set
        .photos
        .iter()
        .map(|photo| photo.path.as_path())
        .collect();
    let moved: Vec<String> = renamed
        .iter()
        .filter(|(path, ..)| there.contains(path.as_path()))
        .map(|(_, was, now)| format!("{was} as {now}"))
        .collect();
    if !moved.is_empty() {
        notes.push(format!(
            "{} with the name of another photo: stored {}",
            counted(moved.len()),
            listed(moved.iter().map(String::as_str))
        ));
    }
    Ok((set, notes))
}

impl Registration<'_> {
    /// Checks the new photos and writes the capture.
    fn finish(
        &self,
        work: &Work,
        found: &Found,
        notes: Vec<String>,
        progress: &dyn Progress,
    ) -> Result<Added> {
        progress.start("checking the poses", 0);
        let new: Vec<Prepared> = self.photos.added().cloned().collect();
        let review = self.review(found, &new, &notes)?;
        progress.finish();
        let options = self.run.options;
        let report = options.out.join("report.html");
        if found.placed() == 0 {
            return Err(nothing(&review, new.len(), work, &report));
        }
        let mut model = self.base.model.clone();
        let new_points = merge::append(&mut model, found);
        self.write(work, &model)?;
        let added = Added {
            capture: options.out.clone(),
            from: self.base.path.clone(),
            tool: self.run.tool.title().to_owned(),
            placed: found.placed(),
            photos: new.len(),
            old_photos: self.base.files.len(),
            new_points,
            findings: review.findings,
            by_photo: review.by_photo,
            report,
            notes,
        };
        self.record(&added)?;
        Ok(added)
    }

    /// Checks the new photos, and writes the report on all photos.
    fn review(&self, found: &Found, new: &[Prepared], notes: &[String]) -> Result<Review> {
        let evidence = Evidence::new(&found.model, new, &found.database, &[])?;
        let mut review = Review::from_evidence(&evidence);
        let is_on_photos = |kind: Kind| {
            matches!(
                kind,
                Kind::Unregistered | Kind::BadPhotos | Kind::FocalLength
            )
        };
        review.findings.retain(|finding| is_on_photos(finding.kind));
        let evidence = Evidence::new(&found.model, self.run.photos, &found.database, &[])?;
        let mut all = Review::from_evidence(&evidence);
        all.findings.clone_from(&review.findings);
        for (photo, known) in all.by_photo.iter_mut().zip(&self.photos.known) {
            if known.is_some() {
                photo.reason = None;
            }
        }
        let frame = Frame {
            axes: KEPT,
            ..Frame::default()
        };
        let report = self.run.options.out.join("report.html");
        let tool = self.run.tool.title();
        report::write(&report, &evidence, &all, &frame, tool, notes)?;
        Ok(review)
    }

    /// Writes photos and masks, then the model: before, the folder is no capture.
    fn write(&self, work: &Work, model: &Model) -> Result<()> {
        let out = &self.run.options.out;
        let (images, masks, sparse) = (out.join("images"), out.join("masks"), out.join("sparse"));
        work::remove(&sparse)?;
        let copy_of: HashMap<usize, &Prepared> = self
            .photos
            .old()
            .map(|(photo, index)| (index, photo))
            .collect();
        let (mut names, mut masked) = (HashSet::new(), HashSet::new());
        let masks_before = work.path("masks");
        for (index, (file, mask)) in self.base.files.iter().enumerate() {
            let name = self.base.model.images[index].name.as_str();
            let prepared = copy_of
                .get(&index)
                .map_or(name, |photo| photo.name.as_str());
            place(file, &self.run.images.join(prepared), &images.join(name))?;
            names.insert(name);
            if let Some(mask) = mask {
                let copy = masks_before.join(format!("{prepared}.png"));
                let from = if copy.is_file() { &copy } else { mask };
                place(from, &copy, &masks.join(format!("{name}.png")))?;
                masked.insert(format!("{name}.png"));
            }
        }
        for photo in self.photos.added() {
            let copy = self.run.images.join(&photo.name);
            place(&copy, &copy, &images.join(&photo.name))?;
            names.insert(photo.name.as_str());
            if photo.has_mask {
                let name = format!("{}.png", photo.name);
                let copy = masks_before.join(&name);
                place(&copy, &copy, &masks.join(&name))?;
                masked.insert(name);
            }
        }
        remove_others(&images, &names);
        remove_others(&masks, &masked.iter().map(String::as_str).collect());
        model.write(&sparse.join("0"))
    }

    fn record(&self, added: &Added) -> Result<()> {
        let options = self.run.options;
        // The frame of the capture before, if it was made here.
        let before = std::fs::read(self.base.path.join(RECORD)).ok();
        let before: Option<Value> = before.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let frame = before.as_ref().and_then(|record| record.get("frame"));
        let record = json!({
            "tool": added.tool, "registered": added.old_photos + added.placed,
            "photos": added.old_photos + added.photos, "added": {"to": added.from, "photos": added.photos,
            "registered": added.placed, "points": added.new_points}, "frame": frame, "findings": added.findings,
            "features": options.features, "photo_size": options.photo_size, "seed": options.seed,
        });
        let text = serde_json::to_string_pretty(&record)
            .map_err(|e| Error::internal(format!("a record cannot be written: {e}")))?;
        write_atomically(&options.out.join(RECORD), |out| {
            out.write_all(text.as_bytes())
        })
    }
}

/// Describes a search that placed no new photo.
fn nothing(review: &Review, photos: usize, work: &Work, report: &Path) -> Error {
    let finding = review.findings.first();
    let why = finding.map_or(String::new(), |finding| format!(": {}", finding.what));
    let remedy = finding.map_or("shoot photos of what the capture shows", |finding| {
        &finding.remedy
    });
    Error::input(format!(
        "none of {} to add could be placed{why}",
        counted(photos)
    ))
    .at_path(report)
    .hint(format!(
        "{remedy}; the logs of the tool are in {}",
        work.folder().display()
    ))
}

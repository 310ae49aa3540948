//! The stages, in order.

use crate::database::{Database, Pair};
use crate::frame::{self, Distance, Frame};
use crate::inputs::{self, Source};
use crate::model::Model;
use crate::pairs::{self, Choice, IndexPair};
use crate::photos::{Prepared, counted, groups, prepare};
use crate::quality::{Evidence, Review};
use crate::report;
use crate::tool::{self, Features, Group, Mapping, Matches, Stage, Tool};
use crate::video;
use crate::work::{self, Work};
use dapple_base::atomic::write_atomically;
use dapple_base::{Error, Progress, Result};
use dapple_scene::colmap::MODELS;
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Name of the record in the capture.
const RECORD: &str = "photos.json";

/// Mapper of the tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mapper {
    /// Incremental up to [`pairs::EXHAUSTIVE`] photos; of more, global first if the tool has it.
    #[default]
    Auto,
    /// One photo after the other.
    Incremental,
    /// All photos at once.
    Global,
}

/// Share of registered photos below which the other mapper is tried too.
const ENOUGH: f64 = 0.9;

/// Features of a coarse match, and the edge of its photos in pixels.
const COARSE: (u32, u32) = (1000, 800);

/// Inputs and settings.
#[derive(Debug, Clone)]
pub struct Options {
    /// Folders, photos, videos.
    pub inputs: Vec<PathBuf>,
    /// Capture to create.
    pub out: PathBuf,
    /// Frames per second of videos.
    pub fps: Option<f64>,
    /// Program that reads videos.
    pub ffmpeg: PathBuf,
    /// Most features of a photo.
    pub features: u32,
    /// Photos are reduced to this edge for the search of features, pixels.
    pub photo_size: u32,
    /// COLMAP's camera model; by default from the number of photos.
    pub camera_model: Option<String>,
    /// Mapper.
    pub mapper: Mapper,
    /// Threads of the mapper; with one, the same photos give the same bytes.
    pub mapper_threads: usize,
    /// True if the tool may use a GPU.
    pub gpu: bool,
    /// Random seed of the tool.
    pub seed: u32,
    /// Program of the tool.
    pub tool: Option<PathBuf>,
    /// True to install pycolmap next to the capture.
    pub install: bool,
    /// True to write a capture of fewer than half of the photos.
    pub accept: bool,
    /// Known distance.
    pub distance: Option<Distance>,
    /// False to ignore GPS positions.
    pub gps: bool,
    /// True to replace a capture.
    pub overwrite: bool,
}

impl Options {
    /// Creates options with the defaults.
    pub fn new(inputs: Vec<PathBuf>, out: PathBuf) -> Self {
        Self {
            inputs,
            out,
            fps: None,
            ffmpeg: video::program(),
            features: 6000,
            photo_size: 1600,
            camera_model: None,
            mapper: Mapper::Auto,
            mapper_threads: 1,
            gpu: false,
            seed: 0,
            tool: None,
            install: false,
            accept: false,
            distance: None,
            gps: true,
            overwrite: false,
        }
    }

    fn model(&self) -> Result<Option<&'static str>> {
        let Some(name) = &self.camera_model else {
            return Ok(None);
        };
        let wanted = name.to_uppercase().replace('-', "_");
        let found = MODELS
            .iter()
            .find(|model| model.name == wanted && model.name != "EQUIRECTANGULAR");
        found.map(|model| Some(model.name)).ok_or_else(|| {
            Error::input(format!("there is no camera model {name}"))
                .at("--camera-model")
                .hint("choose simple-pinhole, pinhole, simple-radial, radial, opencv or opencv-fisheye")
        })
    }
}

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
    for (path, name) in &inputs.videos {
        let video = video::Video {
            path: path.clone(),
            name: name.clone(),
            fps: options.fps,
            ffmpeg: options.ffmpeg.clone(),
        };
        let found = frames(&mut work, &video, progress)?;
        notes.push(found.1);
        inputs.photos.extend(found.0);
    }
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
        masks: set
            .photos
            .iter()
            .any(|photo| photo.has_mask)
            .then_some(masks),
    };
    run.features(&mut work, progress)?;
    let choice = run.matches(&mut work, is_video, progress)?;
    let (models, mapper) = run.map(&mut work, progress)?;
    let mut done = run.finish(&work, models, notes, progress)?;
    (done.pairs, done.mapper) = (choice, mapper);
    Ok(done)
}

/// Refuses a folder with another capture.
fn check_out(options: &Options) -> Result<()> {
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

/// Models of a mapper: folders with their numbers of photos, the largest first.
type Models = Vec<(PathBuf, usize)>;

/// Photos and tool of one call.
struct Run<'a> {
    options: &'a Options,
    tool: &'a Tool,
    photos: &'a [Prepared],
    groups: &'a [Group],
    images: &'a Path,
    masks: Option<PathBuf>,
}

impl Run<'_> {
    fn stage<'b>(&'b self, what: &'b str, work: &'b Path, database: &'b Path) -> Stage<'b> {
        Stage {
            what,
            work,
            database,
            images: self.images,
            gpu: self.options.gpu,
            seed: self.options.seed,
        }
    }

    /// Finds features of all photos.
    fn features(&self, work: &mut Work, progress: &dyn Progress) -> Result<()> {
        let mut settings = format!(
            "{} {} {} {} {}",
            self.tool.title(),
            self.options.features,
            self.options.photo_size,
            self.options.gpu,
            self.masks.is_some()
        );
        for group in self.groups {
            let _ = write!(settings, "\n{} {}", group.model, group.names.join("\t"));
        }
        for photo in self.photos {
            let _ = write!(settings, " {:08x}", photo.sum);
        }
        let database = work.path("database.db");
        work.stage(
            "features",
            &settings,
            |_| remove_database(&database),
            |work| {
                let features = Features {
                    groups: self.groups,
                    masks: self.masks.as_deref(),
                    size: self.options.photo_size,
                    count: self.options.features,
                };
                self.tool.features(
                    &self.stage("finding features", work.folder(), &database),
                    &features,
                    progress,
                )
            },
        )
    }

    /// Chooses and matches pairs.
    fn matches(&self, work: &mut Work, is_video: bool, progress: &dyn Progress) -> Result<Choice> {
        let with_gps = self
            .photos
            .iter()
            .filter(|photo| photo.exif.gps.is_some())
            .count();
        let with_gps = if self.options.gps { with_gps } else { 0 };
        let choice = Choice::of(self.photos.len(), is_video, with_gps);
        let database = work.path("database.db");
        let settings = format!("{choice:?} {}", self.options.seed);
        work.stage(
            "matches",
            &settings,
            // Matches of other pairs are no fault, and the tool skips known pairs.
            |_| Ok(()),
            |work| {
                let pairs = self.pairs(work, choice, progress)?;
                let stage = self.stage("matching photos", work.folder(), &database);
                self.match_pairs(&stage, &pairs, progress)
            },
        )?;
        Ok(choice)
    }

    fn match_pairs(
        &self,
        stage: &Stage<'_>,
        pairs: &BTreeSet<IndexPair>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let list = stage.work.join("pairs.txt");
        let line = |&(a, b): &IndexPair| format!("{} {}", self.photos[a].name, self.photos[b].name);
        tool::write_lines(&list, pairs.iter().map(line))?;
        let matches = Matches {
            list: &list,
            pairs: pairs.len(),
            guided: false,
        };
        self.tool.matches(stage, &matches, progress)
    }

    fn pairs(
        &self,
        work: &Work,
        choice: Choice,
        progress: &dyn Progress,
    ) -> Result<BTreeSet<IndexPair>> {
        let count = self.photos.len();
        let index_of: HashMap<&str, usize> = self
            .photos
            .iter()
            .enumerate()
            .map(|(index, photo)| (photo.name.as_str(), index))
            .collect();
        Ok(match choice {
            Choice::All => pairs::all(count),
            Choice::Gps => {
                let gps: Vec<_> = self
                    .photos
                    .iter()
                    .filter_map(|photo| photo.exif.gps)
                    .collect();
                let positions: Vec<_> = gps.iter().map(|here| here.relative_to(&gps[0])).collect();
                pairs::nearest(&positions)
            }
            Choice::Sequence => {
                let coarse = self.coarse(work, &pairs::loop_frames(count), progress)?;
                let mut found = pairs::sequence(count);
                found.extend(pairs::loops(&coarse, &index_of, count));
                found
            }
            Choice::Coarse => {
                let coarse = self.coarse(work, &(0..count).collect::<Vec<_>>(), progress)?;
                pairs::best_of(&coarse, &index_of, count)
            }
        })
    }

    /// Matches all pairs of some photos with few features.
    fn coarse(&self, work: &Work, chosen: &[usize], progress: &dyn Progress) -> Result<Vec<Pair>> {
        let folder = work.path("coarse");
        std::fs::create_dir_all(&folder)
            .map_err(|e| Error::io("cannot create the folder", &folder, e))?;
        let database = folder.join("database.db");
        let names: BTreeSet<&str> = chosen
            .iter()
            .map(|&index| self.photos[index].name.as_str())
            .collect();
        let groups: Vec<Group> = self
            .groups
            .iter()
            .map(|group| Group {
                names: group
                    .names
                    .iter()
                    .filter(|name| names.contains(name.as_str()))
                    .cloned()
                    .collect(),
                model: group.model,
            })
            .filter(|group| !group.names.is_empty())
            .collect();
        let features = Features {
            groups: &groups,
            masks: self.masks.as_deref(),
            size: COARSE.1,
            count: COARSE.0,
        };
        self.tool.features(
            &self.stage("coarse match: finding features", &folder, &database),
            &features,
            progress,
        )?;
        let every: BTreeSet<IndexPair> = pairs::all(chosen.len())
            .into_iter()
            .map(|(a, b)| (chosen[a], chosen[b]))
            .collect();
        self.match_pairs(
            &self.stage("coarse match: matching photos", &folder, &database),
            &every,
            progress,
        )?;
        Ok(Database::read(&database)?.pairs)
    }

    /// Finds poses. Returns the models of the better mapper.
    fn map(&self, work: &mut Work, progress: &dyn Progress) -> Result<(Models, Mapper)> {
        let has_global = self.tool.has_global();
        let first = match self.options.mapper {
            Mapper::Auto if self.photos.len() > pairs::EXHAUSTIVE && has_global => Mapper::Global,
            Mapper::Auto | Mapper::Incremental => Mapper::Incremental,
            Mapper::Global if has_global => Mapper::Global,
            Mapper::Global => {
                return Err(Error::unsupported(format!(
                    "{} has no global mapper",
                    self.tool.title()
                ))
                .at("--mapper global")
                .hint("omit --mapper, or install COLMAP 4 or pycolmap 4"));
            }
        };
        let found = self.map_with(work, first, progress)?;
        let share = |models: &Models| {
            models.first().map_or(0, |model| model.1) as f64 / self.photos.len() as f64
        };
        if self.options.mapper != Mapper::Auto || share(&found) >= ENOUGH {
            return Ok((found, first));
        }
        let second = match first {
            Mapper::Global => Mapper::Incremental,
            _ if has_global => Mapper::Global,
            _ => return Ok((found, first)),
        };
        // The other mapper is a second chance: its failure does not end the work.
        match self.map_with(work, second, progress) {
            Ok(other) if share(&other) > share(&found) => Ok((other, second)),
            Err(e) if e.kind() == dapple_base::ErrorKind::Interrupted => Err(e),
            _ => Ok((found, first)),
        }
    }

    fn map_with(&self, work: &mut Work, mapper: Mapper, progress: &dyn Progress) -> Result<Models> {
        let (name, what) = match mapper {
            Mapper::Global => ("global", "finding poses, all at once"),
            _ => ("incremental", "finding poses"),
        };
        let out = work.path("models").join(name);
        let database = work.path("database.db");
        let settings = format!("{} {}", self.options.mapper_threads, self.options.seed);
        work.stage(
            &format!("map-{name}"),
            &settings,
            |_| Ok(()),
            |work| {
                work::remove(&out)?;
                std::fs::create_dir_all(&out)
                    .map_err(|e| Error::io("cannot create the folder", &out, e))?;
                let mapping = Mapping {
                    out: &out,
                    global: mapper == Mapper::Global,
                    threads: self.options.mapper_threads,
                    photos: self.photos.len(),
                };
                self.tool.map(
                    &self.stage(what, work.folder(), &database),
                    &mapping,
                    progress,
                )
            },
        )?;
        let mut models = Models::new();
        for entry in std::fs::read_dir(&out).into_iter().flatten().flatten() {
            let folder = entry.path();
            if folder.join("images.bin").is_file() {
                models.push((folder.clone(), Model::read(&folder)?.images.len()));
            }
        }
        models.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(models)
    }

    /// Checks the largest model and writes the capture.
    fn finish(
        &self,
        work: &Work,
        models: Models,
        mut notes: Vec<String>,
        progress: &dyn Progress,
    ) -> Result<Done> {
        progress.start("checking the poses", 0);
        let database = Database::read(&work.path("database.db"))?;
        let mut model = match models.first() {
            Some((folder, _)) => Model::read(folder)?,
            None => Model::default(),
        };
        let others: Vec<Vec<String>> = models
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
        let review = Review::of(&evidence);
        model.transform(&moved);
        let evidence = Evidence::new(&model, self.photos, &database, &others)?;
        let report = self.options.out.join("report.html");
        report::write(&report, &evidence, &review, &frame, self.tool.title())?;
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
            pairs: Choice::All,
            mapper: Mapper::Auto,
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

fn remove_database(database: &Path) -> Result<()> {
    for end in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        work::remove(Path::new(&name))?;
    }
    Ok(())
}

//! Stages that run the tool: features, matches, poses.

use crate::database::{Database, Pair};
use crate::model::Model;
use crate::options::{Mapper, Options};
use crate::pairs::{self, Choice, IndexPair};
use crate::photos::{Prepared, longest_edge};
use crate::tool::{self, Features, Group, Mapping, Matches, Refining, Stage, Tool};
use crate::watch::{self, Watch};
use crate::work::{self, Work};
use dapple_base::{Error, ErrorKind, Progress, Result};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Share of registered photos below which the other mapper is tried too.
const ENOUGH: f64 = 0.9;

/// Photos with a pose from which a camera gets lens parameters beyond one radial coefficient.
const FULL_LENS: usize = 20;

/// The same after a thorough search, which finds more points.
const FULL_LENS_THOROUGH: usize = 12;

/// Mean error of a point beyond which the adjustment after a thorough search drops it, pixels of a photo of 1600 pixels:
/// matches along epipolar lines may be a few pixels off.
const POINT_ERROR: f64 = 1.0;

/// Observed points below which the pose of a photo counts as missing: half of what COLMAP needs to place a photo. The
/// global mapper also returns photos that observe no point.
pub const LEAST_POINTS: usize = 15;

/// Photos that are placed one after the other: of more, the global mapper is faster.
const ONE_BY_ONE: usize = 150;

/// Photos up to which a thorough search follows a search that leaves photos without a pose.
const THOROUGH: usize = 150;

/// Features of a coarse match, and the edge of its photos in pixels.
const COARSE: (u32, u32) = (1000, 800);

/// Models of a mapper: folders with their numbers of photos, the largest first.
pub type Models = Vec<(PathBuf, usize)>;

/// Search for features.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Search {
    /// SIFT.
    #[default]
    Usual,
    /// SIFT of affine shapes over several sizes, and a second match along epipolar lines: it connects photos from more
    /// different directions, and takes four times as long.
    Thorough,
}

/// Poses that were found.
pub struct Poses {
    /// Models, the largest first.
    pub models: Models,
    /// Mapper of these models.
    pub mapper: Mapper,
    /// Choice of pairs.
    pub pairs: Choice,
    /// Database with the features and matches.
    pub database: PathBuf,
}

/// Photos and tool of one call.
#[derive(Clone)]
pub struct Run<'a> {
    /// Settings.
    pub options: &'a Options,
    /// Tool.
    pub tool: &'a Tool,
    /// Photos of the capture.
    pub photos: &'a [Prepared],
    /// Cameras with their photos.
    pub groups: &'a [Group],
    /// Folder of the photos.
    pub images: &'a Path,
    /// Search for features.
    pub search: Search,
    /// Receiver of poses as they come.
    pub watch: Option<Watch<'a>>,
    /// Folder of the masks, if a photo has one.
    pub masks: Option<PathBuf>,
}

impl Run<'_> {
    /// Finds poses. If photos have none that should have one, searches again, thoroughly, and returns the better result.
    pub fn poses(&self, work: &mut Work, is_video: bool, progress: &dyn Progress) -> Result<Poses> {
        let again = Run {
            search: Search::Thorough,
            ..self.clone()
        };
        let mut found = self.attempt(work, is_video, progress)?;
        let mut used = self;
        let placed = found.models.first().map_or(0, |model| model.1);
        let clear = self
            .photos
            .iter()
            .filter(|photo| !photo.is_blurred && !photo.is_dark);
        let is_small = self.photos.len() <= THOROUGH;
        if placed < clear.count() && is_small && self.tool.has_thorough() {
            match again.attempt(work, is_video, progress) {
                Ok(other) if other.models.first().map_or(0, |model| model.1) > placed => {
                    (found, used) = (other, &again);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => return Err(e),
                // A second chance: its failure does not end the work.
                _ => {}
            }
        }
        if let Some((folder, _)) = found.models.first_mut() {
            *folder = used.refine(work, folder, progress)?;
        }
        Ok(found)
    }

    /// Finds poses with the search of this run.
    fn attempt(&self, work: &mut Work, is_video: bool, progress: &dyn Progress) -> Result<Poses> {
        self.features(work, progress)?;
        let pairs = self.matches(work, is_video, progress)?;
        let (models, mapper) = self.map(work, progress)?;
        Ok(Poses {
            models,
            mapper,
            pairs,
            database: self.database(work),
        })
    }

    /// Returns the folder of database, logs and models of the search.
    pub(crate) fn folder(&self, work: &Work) -> PathBuf {
        match self.search {
            Search::Usual => work.folder().to_owned(),
            Search::Thorough => work.path("thorough"),
        }
    }

    pub(crate) fn database(&self, work: &Work) -> PathBuf {
        self.folder(work).join("database.db")
    }

    /// Returns the name of a stage of the search.
    pub(crate) fn named(&self, stage: &str) -> String {
        match self.search {
            Search::Usual => stage.to_owned(),
            Search::Thorough => format!("thorough-{stage}"),
        }
    }

    pub(crate) fn stage<'b>(
        &'b self,
        what: &'b str,
        work: &'b Path,
        database: &'b Path,
    ) -> Stage<'b> {
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
    pub(crate) fn features(&self, work: &mut Work, progress: &dyn Progress) -> Result<()> {
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
            let _ = group
                .parameters
                .iter()
                .try_for_each(|p| write!(settings, " {p}"));
        }
        for photo in self.photos {
            let _ = write!(settings, " {:08x}", photo.sum);
        }
        let (folder, database) = (self.folder(work), self.database(work));
        std::fs::create_dir_all(&folder)
            .map_err(|e| Error::io("cannot create the folder", &folder, e))?;
        let what = match self.search {
            Search::Usual => "finding features",
            Search::Thorough => "finding features again, thoroughly",
        };
        work.stage(
            &self.named("features"),
            &settings,
            |_| remove_database(&database),
            |_| {
                let features = Features {
                    groups: self.groups,
                    masks: self.masks.as_deref(),
                    size: self.options.photo_size,
                    count: self.options.features,
                    is_thorough: self.search == Search::Thorough,
                };
                self.tool
                    .features(&self.stage(what, &folder, &database), &features, progress)
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
        let choice = Choice::for_photos(self.photos.len(), is_video, with_gps);
        let (folder, database) = (self.folder(work), self.database(work));
        let settings = format!("{choice:?} {}", self.options.seed);
        work.stage(
            &self.named("matches"),
            &settings,
            // Matches of other pairs are no fault, and the tool skips known pairs.
            |_| Ok(()),
            |work| {
                let pairs = self.pairs(work, choice, progress)?;
                let stage = self.stage("matching photos", &folder, &database);
                self.match_pairs(&stage, &pairs, progress)
            },
        )?;
        Ok(choice)
    }

    pub(crate) fn match_pairs(
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
            guided: self.search == Search::Thorough,
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
                let coarse =
                    self.coarse(work, &pairs::all_of(&pairs::loop_frames(count)), progress)?;
                let mut found = pairs::sequence(count);
                found.extend(pairs::loops(&coarse, &index_of, count));
                found
            }
            Choice::Coarse => {
                let coarse = self.coarse(work, &pairs::all(count), progress)?;
                pairs::best_of(&coarse, &index_of, count)
            }
        })
    }

    /// Matches some pairs with few features.
    pub(crate) fn coarse(
        &self,
        work: &Work,
        every: &BTreeSet<IndexPair>,
        progress: &dyn Progress,
    ) -> Result<Vec<Pair>> {
        let folder = self.folder(work).join("coarse");
        std::fs::create_dir_all(&folder)
            .map_err(|e| Error::io("cannot create the folder", &folder, e))?;
        let database = folder.join("database.db");
        let names: BTreeSet<&str> = every
            .iter()
            .flat_map(|&(a, b)| [a, b])
            .map(|index| self.photos[index].name.as_str())
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
                parameters: group.parameters.clone(),
            })
            .filter(|group| !group.names.is_empty())
            .collect();
        let features = Features {
            groups: &groups,
            masks: self.masks.as_deref(),
            size: COARSE.1,
            count: COARSE.0,
            is_thorough: false,
        };
        self.tool.features(
            &self.stage("coarse match: finding features", &folder, &database),
            &features,
            progress,
        )?;
        self.match_pairs(
            &self.stage("coarse match: matching photos", &folder, &database),
            every,
            progress,
        )?;
        Ok(Database::read(&database)?.pairs)
    }

    /// Finds poses. Returns the models of the better mapper.
    fn map(&self, work: &mut Work, progress: &dyn Progress) -> Result<(Models, Mapper)> {
        let has_global = self.tool.has_global();
        let first = match self.options.mapper {
            Mapper::Auto if self.photos.len() > ONE_BY_ONE && has_global => Mapper::Global,
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
            Err(e) if e.kind() == ErrorKind::Interrupted => Err(e),
            _ => Ok((found, first)),
        }
    }

    /// Adjusts the largest model with more lens parameters, if enough photos share a camera. Returns the folder of the
    /// better model.
    fn refine(&self, work: &mut Work, model: &Path, progress: &dyn Progress) -> Result<PathBuf> {
        let mut wide = Model::read(model)?;
        let before = wide.error();
        let photos = match self.search {
            Search::Usual => FULL_LENS,
            Search::Thorough => FULL_LENS_THOROUGH,
        };
        if self.options.camera_model.is_some() || wide.widen_lenses(photos) == 0 {
            return Ok(model.to_owned());
        }
        if self.search == Search::Thorough {
            let edge = longest_edge(self.photos);
            wide.drop_far_points(POINT_ERROR * (edge / 1600.0).max(1.0));
        }
        let [start, out] = ["wide", "refined"].map(|name| work.path("models").join(name));
        let settings = format!("{} {}", model.display(), self.options.mapper_threads);
        let database = work.path("database.db");
        let refined = work.stage(
            "refine",
            &settings,
            |_| Ok(()),
            |work| {
                work::remove(&start)?;
                work::remove(&out)?;
                wide.write(&start)?;
                let refining = Refining {
                    model: &start,
                    out: &out,
                    threads: self.options.mapper_threads,
                };
                self.tool.refine(
                    &self.stage("refining lenses", work.folder(), &database),
                    &refining,
                    progress,
                )
            },
        );
        // A lens that does not fit better, or a failed adjustment, does not end the work.
        let error = match refined {
            Err(e) if e.kind() == ErrorKind::Interrupted => return Err(e),
            Err(_) => None,
            Ok(()) => Model::read(&out).ok().and_then(|model| model.error()),
        };
        let is_better = error
            .zip(before)
            .is_some_and(|(after, before)| after <= before);
        Ok(if is_better { out } else { model.to_owned() })
    }

    fn map_with(&self, work: &mut Work, mapper: Mapper, progress: &dyn Progress) -> Result<Models> {
        let (name, what) = match mapper {
            Mapper::Global => ("global", "finding poses, all at once"),
            _ => ("incremental", "finding poses"),
        };
        let folder = self.folder(work);
        let out = folder.join("models").join(name);
        let [database, snapshots] = ["database.db", "snapshots"].map(|name| folder.join(name));
        let settings = format!("{} {}", self.options.mapper_threads, self.options.seed);
        work.stage(
            &self.named(&format!("map-{name}")),
            &settings,
            |_| Ok(()),
            |_| {
                work::remove(&out)?;
                std::fs::create_dir_all(&out)
                    .map_err(|e| Error::io("cannot create the folder", &out, e))?;
                let mapping = Mapping {
                    out: &out,
                    global: mapper == Mapper::Global,
                    threads: self.options.mapper_threads,
                    photos: self.photos.len(),
                    snapshots: self.watch.map(|_| snapshots.as_path()),
                };
                let stage = self.stage(what, &folder, &database);
                let map = || self.tool.map(&stage, &mapping, progress);
                match self.watch {
                    Some(watch) => watch::follow(&snapshots, watch, map),
                    None => map(),
                }
            },
        )?;
        let mut models = Models::new();
        for entry in std::fs::read_dir(&out).into_iter().flatten().flatten() {
            let folder = entry.path();
            if folder.join("images.bin").is_file() {
                let mut model = Model::read(&folder)?;
                model.drop_unsupported(LEAST_POINTS);
                models.push((folder, model.images.len()));
            }
        }
        models.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        Ok(models)
    }
}

fn remove_database(database: &Path) -> Result<()> {
    for end in ["", "-wal", "-shm"] {
        let mut name = database.as_os_str().to_owned();
        name.push(end);
        work::remove(Path::new(&name))?;
    }
    Ok(())
}

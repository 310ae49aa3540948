//! Stages that run the tool: features, matches, poses of new photos.

use super::pairs::{neighbours, with_new};
use super::{Base, Cameras, Photos};
use crate::database::Database;
use crate::model::{Image, Model, NO_POINT};
use crate::pairs::{EXHAUSTIVE, IndexPair, best_of};
use crate::stages::{LEAST_POINTS, Run, Search};
use crate::tool::Registering;
use crate::work::{self, Work};
use dapple_base::{Error, ErrorKind, Progress, Result};
use dapple_scene::Pose;
use dapple_scene::colmap::ColmapCamera;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Inliers of a pair from which COLMAP loads its photos.
const CONNECTED: u64 = 15;

/// Most pairs with a new photo that are matched without a coarse match.
const PAIRS: usize = EXHAUSTIVE * (EXHAUSTIVE - 1) / 2;

/// Photos up to which a thorough search follows a search that leaves new photos without a pose.
const THOROUGH: usize = 150;

/// Model of the tool. Names and ids are those of the database; the old photos have their poses of before.
pub struct Found {
    /// Old photos with matches, and new photos with a pose.
    pub model: Model,
    /// Features and matches.
    pub database: Database,
    /// Indices of the old photos in the old model, by their ids in this one.
    pub old: HashMap<u32, usize>,
    /// Ids of the old cameras in the old model, by their ids in this one.
    pub cameras: HashMap<u32, u32>,
}

impl Found {
    /// Returns the number of new photos with a pose.
    pub fn placed(&self) -> usize {
        let images = self.model.images.iter();
        images
            .filter(|image| !self.old.contains_key(&image.id))
            .count()
    }
}

/// Photos, cameras and tool of one call.
pub struct Registration<'a> {
    /// Run of the tool on all photos.
    pub run: Run<'a>,
    /// Capture before.
    pub base: &'a Base,
    /// Old and new photos.
    pub photos: &'a Photos<'a>,
    /// Cameras.
    pub cameras: &'a Cameras,
}

impl Registration<'_> {
    /// Finds poses of the new photos. If some have none that should have one, searches again, thoroughly, and returns
    /// the better result.
    pub fn poses(&self, work: &mut Work, progress: &dyn Progress) -> Result<Found> {
        let found = self.attempt(&self.run, work, progress)?;
        let clear = self
            .photos
            .added()
            .filter(|p| !p.is_blurred && !p.is_dark)
            .count();
        let is_small = self.run.photos.len() <= THOROUGH;
        if found.placed() >= clear || !is_small || !self.run.tool.has_thorough() {
            return Ok(found);
        }
        let again = Run {
            search: Search::Thorough,
            ..self.run.clone()
        };
        match self.attempt(&again, work, progress) {
            Ok(other) if other.placed() > found.placed() => Ok(other),
            Err(e) if e.kind() == ErrorKind::Interrupted => Err(e),
            // A second chance: its failure does not end the work.
            _ => Ok(found),
        }
    }

    fn attempt(&self, run: &Run<'_>, work: &mut Work, progress: &dyn Progress) -> Result<Found> {
        run.features(work, progress)?;
        let (folder, file) = (run.folder(work), run.database(work));
        work.stage(
            &run.named("matches"),
            &run.options.seed.to_string(),
            |_| Ok(()),
            |work| {
                let pairs = self.pairs(run, work, progress)?;
                let stage = run.stage("matching photos", &folder, &file);
                run.match_pairs(&stage, &pairs, progress)
            },
        )?;
        let database = Database::read(&file)?;
        let (known, old) = self.known(&database);
        let out = folder.join("models");
        self.register(run, work, (&database, &known, &out), progress)?;
        let model = match result(&out.join("registered")) {
            Some(folder) => self.checked(Model::read(&folder)?, &known),
            None => known,
        };
        let ids = self.cameras.groups.iter().zip(&self.cameras.old);
        let cameras = ids
            .filter_map(|(group, old)| Some((database.ids.get(group.names.first()?)?.1, *old)))
            .collect();
        Ok(Found {
            model,
            database,
            old,
            cameras,
        })
    }

    /// Chooses pairs.
    fn pairs(
        &self,
        run: &Run<'_>,
        work: &Work,
        progress: &dyn Progress,
    ) -> Result<BTreeSet<IndexPair>> {
        let is_new: Vec<bool> = self.photos.known.iter().map(Option::is_none).collect();
        let mut pairs = with_new(&is_new);
        if pairs.len() > PAIRS {
            let coarse = run.coarse(work, &pairs, progress)?;
            let names = run.photos.iter().enumerate();
            let index_of = names
                .map(|(index, photo)| (photo.name.as_str(), index))
                .collect();
            pairs = best_of(&coarse, &index_of, run.photos.len());
            pairs.retain(|&(a, b)| is_new[a] || is_new[b]);
        }
        let known = self.photos.known.iter().enumerate();
        let poses: Vec<(usize, Pose)> = known
            .filter_map(|(index, old)| Some((index, unit(self.base.model.images[(*old)?].pose))))
            .collect();
        pairs.extend(neighbours(&poses));
        Ok(pairs)
    }

    /// Returns the old photos that have matches, under the ids of the database, without points.
    fn known(&self, database: &Database) -> (Model, HashMap<u32, usize>) {
        let strong = database
            .pairs
            .iter()
            .filter(|pair| pair.inliers >= CONNECTED);
        let connected: HashSet<&str> = strong
            .flat_map(|pair| pair.names.iter().map(String::as_str))
            .collect();
        let (mut model, mut old) = (Model::default(), HashMap::new());
        for (photo, index) in self.photos.old() {
            let ids = database.ids.get(&photo.name);
            // COLMAP fails on a known photo that it does not load.
            let Some(&(id, camera)) = ids.filter(|_| connected.contains(photo.name.as_str()))
            else {
                continue;
            };
            old.insert(id, index);
            model.images.push(Image {
                id,
                name: photo.name.clone(),
                camera,
                pose: unit(self.base.model.images[index].pose),
                observations: Vec::new(),
            });
        }
        let by_id = self
            .base
            .model
            .cameras
            .iter()
            .map(|camera| (camera.id, camera));
        let by_id: HashMap<u32, &ColmapCamera> = by_id.collect();
        for (group, old) in self.cameras.groups.iter().zip(&self.cameras.old) {
            let name = group.names.first().and_then(|name| database.ids.get(name));
            if let (Some(&(_, id)), Some(&camera)) = (name, by_id.get(old)) {
                model.cameras.push(ColmapCamera {
                    id,
                    ..camera.clone()
                });
            }
        }
        (model, old)
    }

    /// Runs the tool on the old photos with matches, and on the new ones.
    fn register(
        &self,
        run: &Run<'_>,
        work: &mut Work,
        (database, known, out): (&Database, &Model, &Path),
        progress: &dyn Progress,
    ) -> Result<()> {
        let [start, triangulated, registered] =
            ["known", "triangulated", "registered"].map(|name| out.join(name));
        let is_old: HashSet<&str> = known
            .images
            .iter()
            .map(|image| image.name.as_str())
            .collect();
        let is_met = |pair: &crate::database::Pair| {
            let [a, b] =
                [&pair.names[0], &pair.names[1]].map(|name| is_old.contains(name.as_str()));
            pair.inliers >= CONNECTED && a != b
        };
        let is_hopeless = !database.pairs.iter().any(is_met);
        let fixed: Vec<u32> = known.cameras.iter().map(|camera| camera.id).collect();
        let (folder, file) = (run.folder(work), run.database(work));
        let settings = format!(
            "{} {} {is_hopeless}",
            run.options.mapper_threads, run.options.seed
        );
        work.stage(
            &run.named("register"),
            &settings,
            |_| Ok(()),
            |_| {
                for folder in [&start, &triangulated, &registered] {
                    work::remove(folder)?;
                }
                if is_hopeless {
                    return Ok(());
                }
                known.write(&start)?;
                let registering = Registering {
                    known: &start,
                    triangulated: &triangulated,
                    out: &registered,
                    fixed_cameras: &fixed,
                    refines_lenses: self.cameras.groups.len() > self.cameras.old.len(),
                    threads: run.options.mapper_threads,
                    photos: self.photos.added().count(),
                };
                let stage = run.stage("finding poses of the new photos", &folder, &file);
                run.tool.register(&stage, &registering, progress)?;
                match result(&registered) {
                    Some(_) => Ok(()),
                    None => Err(Error::unsupported(format!(
                        "{} wrote no model with the new photos",
                        run.tool.title()
                    ))
                    .at_path(&registered)
                    .hint(
                        "read the logs of the tool next to the folder; a newer pycolmap may help",
                    )),
                }
            },
        )
    }

    /// Returns the tool's model with the poses and cameras of before, and without new photos that observe too little.
    fn checked(&self, mut model: Model, known: &Model) -> Model {
        let poses: HashMap<u32, Pose> = known.images.iter().map(|i| (i.id, i.pose)).collect();
        let names: HashSet<&str> = self
            .photos
            .added()
            .map(|photo| photo.name.as_str())
            .collect();
        model.images.retain_mut(|image| {
            if let Some(pose) = poses.get(&image.id) {
                image.pose = *pose;
                return true;
            }
            let observed = image.observations.iter().filter(|(_, id)| *id != NO_POINT);
            names.contains(image.name.as_str()) && observed.count() >= LEAST_POINTS
        });
        let there: HashSet<u32> = model.images.iter().map(|image| image.id).collect();
        let lost = known
            .images
            .iter()
            .filter(|image| !there.contains(&image.id));
        model.images.extend(lost.cloned());
        model.images.sort_by(|a, b| a.name.cmp(&b.name));
        for camera in &mut model.cameras {
            if let Some(same) = known.cameras.iter().find(|known| known.id == camera.id) {
                *camera = same.clone();
            }
        }
        let kept: HashSet<u32> = model.images.iter().map(|image| image.id).collect();
        for point in &mut model.points {
            point.track.retain(|(image, _)| kept.contains(image));
        }
        model
    }
}

/// Returns the pose with a unit quaternion.
pub fn unit(pose: Pose) -> Pose {
    Pose {
        rotation: pose.rotation.normalize(),
        ..pose
    }
}

/// Returns the folder of the model: the given one, or the numbered one in it.
fn result(folder: &Path) -> Option<PathBuf> {
    let folders = [folder.to_owned(), folder.join("0")];
    folders
        .into_iter()
        .find(|folder| folder.join("images.bin").is_file())
}

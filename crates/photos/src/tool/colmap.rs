//! COLMAP's command line, in the version that is installed.
//!
//! The help of each command lists its options. Their names changed between versions (`SiftExtraction.use_gpu` became
//! `FeatureExtraction.use_gpu`), so each setting has a list of names, and the first name in the help is used.

use super::process::Job;
use super::{Features, Mapping, Matches, Refining, Registering, Stage};
use crate::watch;
use dapple_base::{Error, Progress, Result};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Commands that every version needs.
const NEEDED: [&str; 3] = ["feature_extractor", "matches_importer", "mapper"];

/// Options of a thorough search.
const THOROUGH: [&str; 2] = [
    "SiftExtraction.estimate_affine_shape",
    "SiftExtraction.domain_size_pooling",
];

/// Options that keep the poses of a model that the mapper continues.
const KEEPS_POSES: [&str; 2] = ["Mapper.fix_existing_frames", "Mapper.fix_existing_images"];

/// Oldest version whose commands were compared with the names here.
const OLDEST: (u32, u32) = (3, 7);

/// An installed COLMAP.
#[derive(Debug, Clone)]
pub struct Colmap {
    program: PathBuf,
    /// Name and version: "COLMAP 3.8".
    pub title: String,
    commands: HashSet<String>,
}

impl Colmap {
    /// Reads version and commands of the program; `None` if it is no COLMAP.
    ///
    /// # Errors
    /// A version that is too old, or one without a needed command.
    pub fn open(program: &Path) -> Result<Option<Self>> {
        let Some(help) = output(Command::new(program).arg("help")) else {
            return Ok(None);
        };
        let Some(title) = help.lines().find_map(title_of) else {
            return Ok(None);
        };
        let commands: HashSet<String> = help
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.contains(char::is_whitespace))
            .map(str::to_owned)
            .collect();
        let is_old = version_of(&title).is_some_and(|version| version < OLDEST);
        let missing = NEEDED.iter().find(|name| !commands.contains(**name));
        if is_old || missing.is_some() {
            let why = missing.map_or("its options have other names".to_owned(), |name| {
                format!("it has no command {name}")
            });
            return Err(Error::unsupported(format!("{title} cannot be used: {why}"))
                .at_path(program)
                .hint("install COLMAP 3.8 or newer, or `python3 -m pip install pycolmap`, or give --install"));
        }
        Ok(Some(Self {
            program: program.to_owned(),
            title,
            commands,
        }))
    }

    /// Returns true if the version has a global mapper.
    pub fn has_global(&self) -> bool {
        self.commands.contains("global_mapper")
    }

    /// Returns true if the version can search thoroughly.
    pub fn has_thorough(&self) -> bool {
        let command = self.command("feature_extractor");
        command.is_ok_and(|to| THOROUGH.iter().all(|name| to.options.contains(*name)))
    }

    /// Returns the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    fn command(&self, name: &'static str) -> Result<Arguments> {
        let help = output(Command::new(&self.program).args([name, "--help"])).unwrap_or_default();
        let words = help.split(|c: char| c.is_whitespace() || c == '=' || c == ',');
        let options: HashSet<String> = words
            .filter_map(|word| word.strip_prefix("--"))
            .map(str::to_owned)
            .collect();
        if !options.contains("database_path") {
            return Err(Error::unsupported(format!(
                "`{} {name} --help` lists no option --database_path",
                self.program.display()
            ))
            .at_path(&self.program)
            .hint("install COLMAP 3.8 or newer, or `python3 -m pip install pycolmap`"));
        }
        let mut command = Command::new(&self.program);
        command.arg(name);
        Ok(Arguments { command, options })
    }

    /// Finds features: one command per group, because a command makes one camera.
    pub fn features(
        &self,
        stage: &Stage<'_>,
        features: &Features<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        for (index, group) in features.groups.iter().enumerate() {
            let list = stage.work.join(format!("group-{index}.txt"));
            super::write_lines(&list, group.names.iter().cloned())?;
            let mut to = self.command("feature_extractor")?;
            to.path(&["database_path"], stage.database);
            to.path(&["image_path"], stage.images);
            to.path(&["image_list_path"], &list);
            to.put(&["ImageReader.single_camera"], "1");
            to.put(&["ImageReader.camera_model"], group.model);
            if let Some(list) = group.parameter_list() {
                to.put(&["ImageReader.camera_params"], &list);
            }
            if let Some(masks) = features.masks {
                to.path(&["ImageReader.mask_path"], masks);
            }
            to.put(
                &["FeatureExtraction.use_gpu", "SiftExtraction.use_gpu"],
                flag(stage.gpu),
            );
            let size = features.size.to_string();
            to.put(
                &[
                    "FeatureExtraction.max_image_size",
                    "SiftExtraction.max_image_size",
                ],
                &size,
            );
            to.put(
                &["SiftExtraction.max_num_features"],
                &features.count.to_string(),
            );
            for name in THOROUGH.into_iter().filter(|_| features.is_thorough) {
                to.put(&[name], "1");
            }
            to.put(&["random_seed"], &stage.seed.to_string());
            let log = stage.work.join(format!("features-{index}.log"));
            let job = Job {
                what: stage.what,
                tool: &self.title,
                log: &log,
                total: group.names.len() as u64,
                count: |line, _| position(line, "Processed file ["),
            };
            job.run(&mut to.command, progress)?;
        }
        Ok(())
    }

    /// Matches the listed pairs.
    pub fn matches(
        &self,
        stage: &Stage<'_>,
        matches: &Matches<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut to = self.command("matches_importer")?;
        to.path(&["database_path"], stage.database);
        to.path(&["match_list_path"], matches.list);
        to.put(&["match_type"], "pairs");
        to.put(
            &["FeatureMatching.use_gpu", "SiftMatching.use_gpu"],
            flag(stage.gpu),
        );
        to.put(
            &[
                "FeatureMatching.guided_matching",
                "SiftMatching.guided_matching",
            ],
            flag(matches.guided),
        );
        to.put(&["random_seed"], &stage.seed.to_string());
        let job = Job {
            what: stage.what,
            tool: &self.title,
            log: &stage.work.join("matches.log"),
            // A block has 1225 pairs.
            total: (matches.pairs as u64).div_ceil(1225),
            count: |line, _| position(line, "Matching block ["),
        };
        job.run(&mut to.command, progress)
    }

    /// Finds poses.
    pub fn map(
        &self,
        stage: &Stage<'_>,
        mapping: &Mapping<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let (name, log) = match mapping.global {
            true => ("global_mapper", "global-mapper.log"),
            false => ("mapper", "mapper.log"),
        };
        let mut to = self.command(name)?;
        to.path(&["database_path"], stage.database);
        to.path(&["image_path"], stage.images);
        to.path(&["output_path"], mapping.out);
        let (threads, seed) = (mapping.threads.to_string(), stage.seed.to_string());
        to.put(
            &["GlobalMapper.num_threads", "Mapper.num_threads"],
            &threads,
        );
        to.put(&["GlobalMapper.random_seed", "Mapper.random_seed"], &seed);
        to.put(&["random_seed"], &seed);
        to.put(&["Mapper.ba_use_gpu"], flag(stage.gpu));
        to.put(
            &["GlobalMapper.min_model_size", "Mapper.min_model_size"],
            "3",
        );
        if let Some(snapshots) = mapping.snapshots {
            let interval = watch::interval(mapping.photos).to_string();
            to.path(&["Mapper.snapshot_path"], snapshots);
            to.put(
                &["Mapper.snapshot_frames_freq", "Mapper.snapshot_images_freq"],
                &interval,
            );
        }
        let job = Job {
            what: stage.what,
            tool: &self.title,
            log: &stage.work.join(log),
            total: mapping.photos as u64,
            count: |line, before| line.contains("Registering image").then_some(before + 1),
        };
        job.run(&mut to.command, progress)
    }

    /// Adjusts poses, points and lenses of a model.
    pub fn refine(
        &self,
        stage: &Stage<'_>,
        refining: &Refining<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut command = Command::new(&self.program);
        std::fs::create_dir_all(refining.out)
            .map_err(|e| Error::io("cannot create the folder", refining.out, e))?;
        command
            .arg("bundle_adjuster")
            .arg("--input_path")
            .arg(refining.model);
        command.arg("--output_path").arg(refining.out);
        let job = Job {
            what: stage.what,
            tool: &self.title,
            log: &stage.work.join("refine.log"),
            total: 0,
            count: |_, _| None,
        };
        job.run(&mut command, progress)
    }

    /// Finds poses of photos that are added to a model.
    pub fn register(
        &self,
        stage: &Stage<'_>,
        registering: &Registering<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mut points = self.command("point_triangulator")?;
        let mut mapper = self.command("mapper")?;
        if !KEEPS_POSES
            .iter()
            .any(|name| mapper.options.contains(*name))
        {
            return Err(Error::unsupported(format!(
                "{} cannot add photos: its mapper has no option {}",
                self.title, KEEPS_POSES[0]
            ))
            .at_path(&self.program)
            .hint("install a newer COLMAP, or `python3 -m pip install pycolmap`"));
        }
        let folders = [
            (&mut points, registering.known, registering.triangulated),
            (&mut mapper, registering.triangulated, registering.out),
        ];
        let (threads, seed) = (registering.threads.to_string(), stage.seed.to_string());
        for (to, input, output) in folders {
            to.path(&["database_path"], stage.database);
            to.path(&["image_path"], stage.images);
            to.path(&["input_path"], input);
            to.path(&["output_path"], output);
            to.put(&["Mapper.num_threads"], &threads);
            to.put(&["Mapper.random_seed"], &seed);
            to.put(&["random_seed"], &seed);
            to.put(&["Mapper.ba_use_gpu"], flag(stage.gpu));
        }
        points.put(&["clear_points"], "1");
        mapper.put(&KEEPS_POSES, "1");
        mapper.put(&["Mapper.multiple_models"], "0");
        let cameras: Vec<String> = registering
            .fixed_cameras
            .iter()
            .map(u32::to_string)
            .collect();
        mapper.put(&["Mapper.constant_cameras"], &cameras.join(","));
        if !registering.refines_lenses {
            mapper.put(&["Mapper.ba_refine_focal_length"], "0");
            mapper.put(&["Mapper.ba_refine_extra_params"], "0");
        }
        let job = |log, total| Job {
            what: stage.what,
            tool: &self.title,
            log,
            total,
            count: |line, before| line.contains("Registering image").then_some(before + 1),
        };
        let logs = ["triangulate.log", "register.log"].map(|name| stage.work.join(name));
        job(&logs[0], 0).run(&mut points.command, progress)?;
        job(&logs[1], registering.photos as u64).run(&mut mapper.command, progress)
    }
}

/// Command with the options that its help lists.
struct Arguments {
    command: Command,
    options: HashSet<String>,
}

impl Arguments {
    /// Adds the first of these options that the version has; none if it has none of them.
    fn put(&mut self, names: &[&str], value: &str) {
        if let Some(name) = names.iter().find(|name| self.options.contains(**name)) {
            self.command.arg(format!("--{name}")).arg(value);
        }
    }

    fn path(&mut self, names: &[&str], value: &Path) {
        if let Some(name) = names.iter().find(|name| self.options.contains(**name)) {
            self.command.arg(format!("--{name}")).arg(value);
        }
    }
}

fn flag(on: bool) -> &'static str {
    if on { "1" } else { "0" }
}

/// Returns the number after `sign`: "Processed file [3/12]" is 3.
fn position(line: &str, sign: &str) -> Option<u64> {
    let (_, rest) = line.split_once(sign)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Returns "COLMAP 3.8" from the first line of the help.
fn title_of(line: &str) -> Option<String> {
    let rest = line.trim().strip_prefix("COLMAP ")?;
    let version = rest.split_whitespace().next()?;
    let is_version = version.starts_with(|c: char| c.is_ascii_digit());
    is_version.then(|| format!("COLMAP {version}"))
}

fn version_of(title: &str) -> Option<(u32, u32)> {
    let (_, version) = title.split_once(' ')?;
    let mut parts = version.split(|c: char| !c.is_ascii_digit());
    Some((
        parts.next()?.parse().ok()?,
        parts.next().unwrap_or("0").parse().ok()?,
    ))
}

/// Returns stdout and stderr of a short command; `None` if it does not start.
fn output(command: &mut Command) -> Option<String> {
    let ran = command.stdin(Stdio::null()).output().ok()?;
    let mut text = String::from_utf8_lossy(&ran.stdout).into_owned();
    text.push('\n');
    text.push_str(&String::from_utf8_lossy(&ran.stderr));
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_versions_and_positions_are_read() {
        let line = "COLMAP 3.11.1 -- Structure-from-Motion and Multi-View Stereo";
        assert_eq!(title_of(line).as_deref(), Some("COLMAP 3.11.1"));
        assert_eq!(title_of("usage: something"), None);
        assert_eq!(version_of("COLMAP 3.11.1"), Some((3, 11)));
        assert_eq!(version_of("COLMAP 4.0-dev"), Some((4, 0)));
        assert_eq!(
            position("Processed file [3/12]", "Processed file ["),
            Some(3)
        );
        assert_eq!(position("  Name: a.jpg", "Processed file ["), None);
    }
}

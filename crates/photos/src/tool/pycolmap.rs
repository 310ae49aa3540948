//! pycolmap, driven by an embedded script: `driver.py`.

use super::process::Job;
use super::{Features, Mapping, Matches, Refining, Registering, Stage};
use crate::watch;
use dapple_base::{Error, Progress, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DRIVER: &str = include_str!("driver.py");

/// Prints the version, and the functions of the driver that this version lacks.
const PROBE: &str = "import pycolmap as p; print('pycolmap', p.__version__, *(n for n in ('import_images', \
'match_image_pairs', 'FeatureExtractionOptions', 'ImportedPairingOptions') if not hasattr(p, n)))";

/// A Python with pycolmap.
#[derive(Debug, Clone)]
pub struct Pycolmap {
    python: PathBuf,
    /// Name and version: "pycolmap 4.2.1".
    pub title: String,
}

impl Pycolmap {
    /// Imports pycolmap; `None` if the program is no Python or has no pycolmap.
    ///
    /// # Errors
    /// A version without functions that are needed.
    pub fn open(python: &Path) -> Result<Option<Self>> {
        let mut probe = Command::new(python);
        probe
            .args(["-c", PROBE])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let Ok(ran) = probe.output() else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&ran.stdout);
        let line = text.lines().find(|line| line.starts_with("pycolmap "));
        let Some(line) = line.filter(|_| ran.status.success()) else {
            return Ok(None);
        };
        let mut words = line.split_whitespace().skip(1);
        let title = format!(
            "pycolmap {}",
            words.next().unwrap_or("of an unknown version")
        );
        if let Some(missing) = words.next() {
            return Err(
                Error::unsupported(format!("{title} cannot be used: it has no {missing}"))
                    .at_path(python)
                    .hint(format!(
                        "install a newer version: `{} -m pip install -U pycolmap`",
                        python.display()
                    )),
            );
        }
        Ok(Some(Self {
            python: python.to_owned(),
            title,
        }))
    }

    /// Returns the Python.
    pub fn program(&self) -> &Path {
        &self.python
    }

    /// Finds features.
    pub fn features(
        &self,
        stage: &Stage<'_>,
        features: &Features<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let groups: Vec<Value> = features
            .groups
            .iter()
            .map(|group| json!({"names": group.names, "model": group.model, "parameters": group.parameter_list()}))
            .collect();
        let total = features.groups.iter().map(|group| group.names.len()).sum();
        let settings = json!({
            "database": stage.database, "images": stage.images, "masks": features.masks,
            "groups": groups, "gpu": stage.gpu, "size": features.size, "features": features.count,
            "thorough": features.is_thorough,
        });
        self.run(
            stage,
            ("features", "features.log"),
            total,
            &settings,
            progress,
        )
    }

    /// Matches the listed pairs.
    pub fn matches(
        &self,
        stage: &Stage<'_>,
        matches: &Matches<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let settings = json!({
            "database": stage.database, "pairs": matches.list, "gpu": stage.gpu,
            "guided": matches.guided, "seed": stage.seed,
        });
        self.run(
            stage,
            ("matches", "matches.log"),
            matches.pairs,
            &settings,
            progress,
        )
    }

    /// Finds poses.
    pub fn map(
        &self,
        stage: &Stage<'_>,
        mapping: &Mapping<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let settings = json!({
            "database": stage.database, "images": stage.images, "out": mapping.out, "gpu": stage.gpu,
            "global": mapping.global, "threads": mapping.threads, "seed": stage.seed,
            "snapshots": mapping.snapshots, "interval": watch::interval(mapping.photos),
        });
        let log = match mapping.global {
            true => "global-mapper.log",
            false => "mapper.log",
        };
        self.run(stage, ("map", log), mapping.photos, &settings, progress)
    }

    /// Adjusts poses, points and lenses of a model.
    pub fn refine(
        &self,
        stage: &Stage<'_>,
        refining: &Refining<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let settings = json!({
            "model": refining.model, "out": refining.out, "gpu": stage.gpu, "threads": refining.threads,
        });
        self.run(stage, ("refine", "refine.log"), 0, &settings, progress)
    }

    /// Finds poses of photos that are added to a model.
    pub fn register(
        &self,
        stage: &Stage<'_>,
        registering: &Registering<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let settings = json!({
            "database": stage.database, "images": stage.images, "known": registering.known,
            "triangulated": registering.triangulated, "out": registering.out, "gpu": stage.gpu,
            "fixed_cameras": registering.fixed_cameras, "threads": registering.threads, "seed": stage.seed,
        });
        let log = ("register", "register.log");
        self.run(stage, log, registering.photos, &settings, progress)
    }

    fn run(
        &self,
        stage: &Stage<'_>,
        (name, log): (&str, &str),
        total: usize,
        settings: &Value,
        progress: &dyn Progress,
    ) -> Result<()> {
        let driver = stage.work.join("driver.py");
        let path = stage.work.join(format!("{name}.json"));
        super::write(&driver, DRIVER.as_bytes())?;
        super::write(&path, settings.to_string().as_bytes())?;
        let job = Job {
            what: stage.what,
            tool: &self.title,
            log: &stage.work.join(log),
            total: total as u64,
            count: |line, _| done(line),
        };
        let mut command = Command::new(&self.python);
        command.arg("-u").arg(&driver).arg(name).arg(&path);
        command
            .env("PYTHONIOENCODING", "utf-8")
            .env("PYTHONDONTWRITEBYTECODE", "1");
        job.run(&mut command, progress)
    }
}

/// Returns the count of a line of the driver.
fn done(line: &str) -> Option<u64> {
    let line: Value = serde_json::from_str(line).ok()?;
    line.get("done")?.as_u64()
}

//! The structure-from-motion tool: an installed COLMAP, or a Python with pycolmap.

mod colmap;
mod process;
mod pycolmap;

pub use process::Job;

use colmap::Colmap;
use dapple_base::atomic::write_atomically;
use dapple_base::{Error, ErrorKind, Progress, Result};
use pycolmap::Pycolmap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable that names the tool: COLMAP's program, or a Python.
pub const VARIABLE: &str = "DAPPLE_COLMAP";

/// Version that `--install` installs.
const INSTALLED: &str = "pycolmap==4.2.1";

/// Folder of the virtual environment, next to the capture.
const ENVIRONMENT: &str = "pycolmap-environment";

/// An installed tool.
#[derive(Debug, Clone)]
pub enum Tool {
    /// COLMAP's command line.
    Colmap(Colmap),
    /// A Python with pycolmap.
    Pycolmap(Pycolmap),
}

/// Photos of one camera.
#[derive(Debug, Clone)]
pub struct Group {
    /// Names in the folder of photos.
    pub names: Vec<String>,
    /// COLMAP's name of the camera model.
    pub model: &'static str,
    /// Known parameters in the model's order; empty if the tool finds them.
    pub parameters: Vec<f64>,
}

/// Files and settings of every stage.
pub struct Stage<'a> {
    /// Description for the progress display.
    pub what: &'a str,
    /// Folder for logs and lists.
    pub work: &'a Path,
    /// COLMAP's database.
    pub database: &'a Path,
    /// Folder of the photos.
    pub images: &'a Path,
    /// True if the tool may use a GPU.
    pub gpu: bool,
    /// Random seed.
    pub seed: u32,
}

/// Settings of the features.
pub struct Features<'a> {
    /// Cameras with their photos.
    pub groups: &'a [Group],
    /// Folder of the masks, named as COLMAP names them.
    pub masks: Option<&'a Path>,
    /// Photos are reduced to this edge for the search, pixels.
    pub size: u32,
    /// Most features of a photo.
    pub count: u32,
    /// True for affine shapes, over several sizes.
    pub is_thorough: bool,
}

/// Settings of the matches.
pub struct Matches<'a> {
    /// File with two names per line.
    pub list: &'a Path,
    /// Number of its lines.
    pub pairs: usize,
    /// True to search again along the epipolar lines.
    pub guided: bool,
}

/// Settings of the poses.
pub struct Mapping<'a> {
    /// Folder for the models.
    pub out: &'a Path,
    /// True for the global mapper.
    pub global: bool,
    /// Threads; with one, the same input gives the same bytes.
    pub threads: usize,
    /// Number of photos.
    pub photos: usize,
    /// Folder for snapshots of the model, if they are wanted.
    pub snapshots: Option<&'a Path>,
}

/// Settings of the adjustment of a model.
pub struct Refining<'a> {
    /// Folder of the model.
    pub model: &'a Path,
    /// Folder for the adjusted model.
    pub out: &'a Path,
    /// Threads; see [`Mapping::threads`].
    pub threads: usize,
}

/// Settings of the search for photos to add to a model.
pub struct Registering<'a> {
    /// Folder of the model with the known poses, without points; ids are those of the database.
    pub known: &'a Path,
    /// Folder for the known photos with points.
    pub triangulated: &'a Path,
    /// Folder for the model with the added photos.
    pub out: &'a Path,
    /// Cameras with known parameters, by their ids.
    pub fixed_cameras: &'a [u32],
    /// True if the other photos have cameras of their own, whose parameters are searched.
    pub refines_lenses: bool,
    /// Threads; see [`Mapping::threads`].
    pub threads: usize,
    /// Number of photos to add.
    pub photos: usize,
}

impl Group {
    /// Returns the known parameters as COLMAP reads them; `None` if the tool finds them.
    fn parameter_list(&self) -> Option<String> {
        let numbers: Vec<String> = self.parameters.iter().map(f64::to_string).collect();
        (!numbers.is_empty()).then(|| numbers.join(","))
    }
}

impl Tool {
    /// Finds a tool: the given program, the one of `DAPPLE_COLMAP`, the virtual environment next to the capture,
    /// `colmap`, or a Python with pycolmap.
    ///
    /// # Errors
    /// No tool, or a version that cannot be used; the hint installs one.
    pub fn find(given: Option<&Path>, capture: &Path) -> Result<Self> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let named = given.map(Path::to_owned).or(named.map(PathBuf::from));
        if let Some(program) = named {
            return Self::open(&program)?.ok_or_else(|| {
                Error::input("the named tool is neither COLMAP nor a Python with pycolmap")
                    .at_path(&program)
                    .hint("name COLMAP's program, or a Python in which `import pycolmap` works")
            });
        }
        let mut too_old = None;
        for program in [
            python_in(&environment(capture)),
            "colmap".into(),
            "python3".into(),
            "python".into(),
        ] {
            match Self::open(&program) {
                Ok(Some(tool)) => return Ok(tool),
                Ok(None) => {}
                Err(e) => too_old = too_old.or(Some(e)),
            }
        }
        Err(too_old.unwrap_or_else(missing))
    }

    /// Opens a program; `None` if it is no tool.
    ///
    /// # Errors
    /// A version that cannot be used.
    pub fn open(program: &Path) -> Result<Option<Self>> {
        let name = program
            .file_name()
            .map(|name| name.to_string_lossy().to_lowercase());
        let is_python = name.is_some_and(|name| name.starts_with("python"));
        if !is_python && let Some(found) = Colmap::open(program)? {
            return Ok(Some(Self::Colmap(found)));
        }
        Ok(Pycolmap::open(program)?.map(Self::Pycolmap))
    }

    /// Returns name and version.
    pub fn title(&self) -> &str {
        match self {
            Self::Colmap(tool) => &tool.title,
            Self::Pycolmap(tool) => &tool.title,
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &Path {
        match self {
            Self::Colmap(tool) => tool.program(),
            Self::Pycolmap(tool) => tool.program(),
        }
    }

    /// Returns true if the tool has a global mapper.
    pub fn has_global(&self) -> bool {
        match self {
            Self::Colmap(tool) => tool.has_global(),
            // Since version 4, which the driver needs.
            Self::Pycolmap(_) => true,
        }
    }

    /// Returns true if the tool can search for features thoroughly.
    pub fn has_thorough(&self) -> bool {
        match self {
            Self::Colmap(tool) => tool.has_thorough(),
            Self::Pycolmap(_) => true,
        }
    }

    /// Finds features of all photos, into the database.
    ///
    /// # Errors
    /// A failure of the tool, or a stop by the caller.
    pub fn features(
        &self,
        stage: &Stage<'_>,
        features: &Features<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        match self {
            Self::Colmap(tool) => tool.features(stage, features, progress),
            Self::Pycolmap(tool) => tool.features(stage, features, progress),
        }
    }

    /// Matches pairs of photos, into the database.
    ///
    /// # Errors
    /// A failure of the tool, or a stop by the caller.
    pub fn matches(
        &self,
        stage: &Stage<'_>,
        matches: &Matches<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        match self {
            Self::Colmap(tool) => tool.matches(stage, matches, progress),
            Self::Pycolmap(tool) => tool.matches(stage, matches, progress),
        }
    }

    /// Finds poses, into numbered folders of models.
    ///
    /// # Errors
    /// A failure of the tool, or a stop by the caller.
    pub fn map(
        &self,
        stage: &Stage<'_>,
        mapping: &Mapping<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        let mapped = match self {
            Self::Colmap(tool) => tool.map(stage, mapping, progress),
            Self::Pycolmap(tool) => tool.map(stage, mapping, progress),
        };
        match mapped {
            // Photos that do not match are no failure of the tool: the checks name the reason.
            Err(e) if is_without_model(&e) => Ok(()),
            mapped => mapped,
        }
    }

    /// Adjusts poses, points and lenses of a model.
    ///
    /// # Errors
    /// A failure of the tool, or a stop by the caller.
    pub fn refine(
        &self,
        stage: &Stage<'_>,
        refining: &Refining<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        match self {
            Self::Colmap(tool) => tool.refine(stage, refining, progress),
            Self::Pycolmap(tool) => tool.refine(stage, refining, progress),
        }
    }
}

impl Tool {
    /// Finds points of a model with known poses, then poses of other photos of the database; the known poses are kept.
    ///
    /// # Errors
    /// A failure of the tool, a version that cannot keep poses, or a stop by the caller.
    pub fn register(
        &self,
        stage: &Stage<'_>,
        registering: &Registering<'_>,
        progress: &dyn Progress,
    ) -> Result<()> {
        for folder in [registering.triangulated, registering.out] {
            std::fs::create_dir_all(folder)
                .map_err(|e| Error::io("cannot create the folder", folder, e))?;
        }
        match self {
            Self::Colmap(tool) => tool.register(stage, registering, progress),
            Self::Pycolmap(tool) => tool.register(stage, registering, progress),
        }
    }
}

/// Returns true if the log of a failed mapper shows that it found no model.
fn is_without_model(error: &Error) -> bool {
    let log = error.place().and_then(|log| std::fs::read(log).ok());
    let text = log.map_or(String::new(), |log| {
        String::from_utf8_lossy(&log).to_lowercase()
    });
    let signs = [
        "failed to create sparse model",
        "no good initial image pair",
        "no images with matches",
        "failed to create any sparse model",
    ];
    error.kind() == ErrorKind::Unsupported && signs.iter().any(|sign| text.contains(sign))
}

/// Command that installs a tool on this system.
pub fn install_command() -> &'static str {
    "python3 -m pip install pycolmap"
}

fn missing() -> Error {
    Error::unsupported("no structure-from-motion tool is installed: neither `colmap` nor a Python with pycolmap")
        .at("the programs in PATH")
        .hint(format!(
            "install it with `{}`, or give --install, which installs it into {ENVIRONMENT}/ next to the capture",
            install_command()
        ))
}

/// Returns the folder of the virtual environment for a capture.
fn environment(capture: &Path) -> PathBuf {
    let parent = capture
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).join(ENVIRONMENT)
}

fn python_in(environment: &Path) -> PathBuf {
    match cfg!(windows) {
        true => environment.join("Scripts/python.exe"),
        false => environment.join("bin/python"),
    }
}

/// Installs pycolmap into a virtual environment next to the capture, with uv or else with Python's own pip.
///
/// # Errors
/// No Python, no network, a failed installation; the log has its output.
pub fn install(capture: &Path, progress: &dyn Progress) -> Result<Tool> {
    let folder = environment(capture);
    let python = python_in(&folder);
    if let Ok(Some(tool)) = Tool::open(&python) {
        return Ok(tool);
    }
    std::fs::create_dir_all(&folder)
        .map_err(|e| Error::io("cannot create the folder", &folder, e))?;
    let log = folder.join("install.log");
    let step = |command: &mut Command| {
        let job = Job {
            what: "installing pycolmap",
            tool: "the installation of pycolmap",
            log: &log,
            total: 0,
            count: |_, _| None,
        };
        job.run(command, progress)
    };
    let has_uv = Command::new("uv")
        .arg("--version")
        .output()
        .is_ok_and(|ran| ran.status.success());
    if has_uv {
        step(
            Command::new("uv")
                .args(["venv", "--allow-existing"])
                .arg(&folder),
        )?;
        step(
            Command::new("uv")
                .args(["pip", "install", "--python"])
                .arg(&python)
                .arg(INSTALLED),
        )?;
    } else {
        let base = if cfg!(windows) { "python" } else { "python3" };
        step(Command::new(base).args(["-m", "venv"]).arg(&folder))?;
        step(Command::new(&python).args([
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            INSTALLED,
        ]))?;
    }
    Tool::open(&python)?.ok_or_else(|| {
        Error::unsupported("pycolmap was installed but cannot be imported")
            .at_path(&folder)
            .hint("read install.log in this folder, or install COLMAP instead")
    })
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(path, |out| out.write_all(bytes))
}

/// Writes one line for each item.
pub fn write_lines(path: &Path, lines: impl Iterator<Item = String>) -> Result<()> {
    let mut text = String::new();
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    write(path, text.as_bytes())
}

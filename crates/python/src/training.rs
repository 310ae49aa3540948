//! Runs under the control of Python.

use crate::camera::PyCamera;
use crate::errors::{detached, exception};
use crate::{array, files};
use dapple::train::config::{Kind, Patch, keys};
use dapple::train::{CaptureRecord, EvalReport, PhotoCoverage, PlainBackground, RunOrigin};
use dapple::{
    ConfigPatch, Device, EngineOptions, Error, Event, LoadOptions, NoProgress, Outcome, Result,
    RunFolder, RunHook, TrainConfig, Trainer,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Longest time between two looks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Settings of a run: key of the file, name of the option without dashes ("" = none), kind and help.
#[pyfunction]
pub fn settings() -> Vec<(String, String, String, String)> {
    let rows = keys::<TrainConfig>().into_iter().map(|key| {
        let flag = key.row.flag;
        let name = flag.map_or(String::new(), |flag| flag.long().to_owned());
        let help = match flag {
            Some(flag) => flag.help.to_owned(),
            None => key.row.comment.concat().trim().to_owned(),
        };
        (key.to_string(), name, kind(key.row.kind), help)
    });
    rows.collect()
}

/// Returns the type of a value: "bool", "number", "path", "text", or the names of choices.
fn kind(kind: Kind) -> String {
    match kind {
        Kind::Switch => "bool".to_owned(),
        Kind::Number => "number".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Choices(choices) => {
            let names: Vec<&str> = choices().iter().map(|choice| choice.name).collect();
            names.join("|")
        }
        _ => "text".to_owned(),
    }
}

/// A run: capture, configuration, engine.
#[pyclass(frozen, name = "Trainer", module = "dapple_gs._native")]
pub struct PyTrainer {
    trainer: Mutex<Trainer>,
    capture: PathBuf,
    /// Notes about the capture and the settings.
    #[pyo3(get)]
    notes: Vec<String>,
    /// The configuration as text, which repeats the run.
    #[pyo3(get)]
    config: String,
    /// Steps of the run.
    #[pyo3(get)]
    steps: u32,
    /// Engine and device.
    #[pyo3(get)]
    device: String,
}

#[pymethods]
impl PyTrainer {
    /// Reads a capture and opens a device. `settings` are keys and values as in config.toml.
    #[new]
    fn new(
        py: Python<'_>,
        capture: PathBuf,
        settings: Vec<(String, String)>,
        config: Option<PathBuf>,
        device: &str,
    ) -> PyResult<Self> {
        let device: Device = device.parse().map_err(|e| exception(py, &e))?;
        detached(py, || {
            let patch = patch(&settings)?;
            let (trainer, notes) = begin(&capture, &patch, config.as_deref(), &device)?;
            Ok(Self {
                config: trainer.plan().to_config().to_toml()?,
                steps: trainer.plan().last_step(),
                device: trainer.device(),
                notes,
                trainer: Mutex::new(trainer),
                capture,
            })
        })
    }

    /// Takes steps, and returns the number done since the start. No hook is called and no file is written.
    fn step(&self, py: Python<'_>, count: u32) -> PyResult<u32> {
        let mut left = count;
        loop {
            py.check_signals()?;
            let (done, more) = self.work(py, |trainer| {
                let started = Instant::now();
                while left > 0 && started.elapsed() < SIGNALS_EVERY {
                    if trainer.steps_done() >= trainer.plan().last_step() {
                        left = 0;
                        break;
                    }
                    trainer.step()?;
                    left -= 1;
                }
                if left == 0 {
                    trainer.wait()?;
                }
                Ok((trainer.steps_done(), left))
            })?;
            left = more;
            if left == 0 {
                return Ok(done);
            }
        }
    }

    /// Runs to the end, or until `callback` returns False. With a folder all results are written there.
    #[pyo3(signature = (out, overwrite, callback, every))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        out: Option<PathBuf>,
        overwrite: bool,
        callback: Option<Py<PyAny>>,
        every: u32,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut hook = Callback {
            callback,
            every: every.max(1),
            looked: Instant::now(),
            raised: None,
            stops: false,
        };
        let outcome = self.work(py, |trainer| match &out {
            Some(path) => {
                let folder = folder(path, overwrite)?;
                record(&folder, &self.capture, trainer)?;
                dapple::train_into(&folder, trainer, &mut hook)
            }
            None => trainer.run(&mut hook),
        });
        // The exception of the callback, with its own traceback, precedes the error that it caused here.
        if let Some(raised) = hook.raised {
            return Err(raised);
        }
        summary(py, &outcome?)
    }

    /// Returns the steps done.
    fn steps_done(&self, py: Python<'_>) -> PyResult<u32> {
        self.work(py, |trainer| Ok(trainer.steps_done()))
    }

    /// Returns the current splats as stored parameters.
    fn splats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (splats, origin) =
            self.work(py, |trainer| Ok((trainer.splats()?, trainer.origin())))?;
        let all = files::arrays(py, splats)?;
        all.set_item("origin", origin.to_array())?;
        Ok(all)
    }

    /// Renders the current splats: colours and alpha.
    fn render<'py>(
        &self,
        py: Python<'py>,
        camera: &PyCamera,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let camera = camera.camera;
        let image = self.work(py, |trainer| trainer.render(&camera))?;
        let (height, width) = (camera.height as usize, camera.width as usize);
        Ok((
            array::new(py, image.rgb, &[height, width, 3])?,
            array::new(py, image.alpha, &[height, width])?,
        ))
    }

    /// Scores the held-out photos.
    fn evaluate<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.work(py, Trainer::evaluate)?;
        scores(py, &report)
    }
}

impl PyTrainer {
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Trainer) -> Result<T> + Send,
    ) -> PyResult<T> {
        // try_lock: a callback that calls a method of its own run would wait for itself.
        detached(py, || match self.trainer.try_lock() {
            Ok(mut trainer) => work(&mut trainer),
            Err(TryLockError::Poisoned(poisoned)) => work(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Error::input(
                "the run is busy: another call has not returned",
            )
            .at("Trainer")
            .hint("call `step` and read the splats between calls, not in a callback")),
        })
    }
}

fn patch(settings: &[(String, String)]) -> Result<ConfigPatch> {
    let mut patch = ConfigPatch::default();
    for (key, value) in settings {
        patch
            .set(key, OsStr::new(value))
            .map_err(|what| Error::input(format!("{what}: {value}")).at(key.clone()))?;
    }
    Ok(patch)
}

/// Does what `dapple train` does with the same settings.
fn begin(
    capture: &Path,
    patch: &ConfigPatch,
    file: Option<&Path>,
    device: &Device,
) -> Result<(Trainer, Vec<String>)> {
    let resolve = |seen| TrainConfig::resolve_for(seen, None, file, patch.clone());
    let general = resolve(None)?;
    let options: LoadOptions = general.training_load_options();
    let opened = dapple::scene::load::open(capture, &options)?;
    let train = general.data.split(&opened).train;
    let seen = PhotoCoverage::of_capture(&opened, &train);
    let mut config = resolve(Some(seen))?;
    let engine = dapple::open(device, &EngineOptions::default())?;
    let dataset = dapple::load(capture, &config.training_load_options(), &NoProgress)?;
    let in_file = file.map(ConfigPatch::read).transpose()?.unwrap_or_default();
    if in_file.merged(patch.clone()).background.is_none() {
        PlainBackground::set_in(&mut config, &dataset)?;
    }
    let mut notes = dataset.notes.clone();
    let mut trainer = Trainer::new(&dataset, config, engine.engine.into_engine())?;
    trainer.set_launch(RunOrigin {
        capture: capture.canonicalize().ok(),
        device: Some(device.to_string()),
        precision: Some(EngineOptions::default().precision.to_string()),
        ..RunOrigin::default()
    });
    notes.extend_from_slice(trainer.notes());
    Ok((trainer, notes))
}

/// Returns the folder for the results of a new run.
fn folder(path: &Path, overwrite: bool) -> Result<RunFolder> {
    RunFolder::open(path).refuse_for_new_run(overwrite, |_| {
        "name another folder, or give overwrite=True to replace it".to_owned()
    })?;
    RunFolder::create(path)
}

/// Records the path of the capture, so that other commands find it.
fn record(folder: &RunFolder, capture: &Path, trainer: &Trainer) -> Result<()> {
    let opened = dapple::scene::load::open(capture, &trainer.config().load_options())?;
    match CaptureRecord::new(folder.path(), capture, &opened) {
        Some(record) => folder.write_capture(&record),
        // A path that is not UTF-8 cannot be stored.
        None => Ok(()),
    }
}

fn scores<'py>(py: Python<'py>, report: &EvalReport) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("psnr", report.psnr)?;
    all.set_item("ssim", report.ssim)?;
    all.set_item("lpips", report.lpips)?;
    all.set_item("gaussians", report.gaussians)?;
    let images = PyDict::new(py);
    for image in &report.images {
        images.set_item(&image.name, image.psnr)?;
    }
    all.set_item("images", images)?;
    Ok(all)
}

fn summary<'py>(py: Python<'py>, outcome: &Outcome) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("steps", outcome.steps)?;
    all.set_item("gaussians", outcome.gaussians)?;
    all.set_item("finished", outcome.ending == dapple::Ending::Finished)?;
    let eval = outcome.eval.as_ref().map(|report| scores(py, report));
    all.set_item("eval", eval.transpose()?)?;
    Ok(all)
}

/// Calls a function of Python, and looks for Ctrl-C.
struct Callback {
    callback: Option<Py<PyAny>>,
    every: u32,
    looked: Instant,
    raised: Option<PyErr>,
    stops: bool,
}

impl Callback {
    /// Runs Python code; what it raises stops the run.
    fn python(&mut self, code: impl FnOnce(Python<'_>) -> PyResult<bool>) {
        match Python::attach(code) {
            Ok(goes_on) => self.stops |= !goes_on,
            Err(raised) => {
                self.stops = true;
                self.raised = Some(raised);
            }
        }
    }

    fn call(&mut self, fill: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>) {
        let Some(callback) = self.callback.take() else {
            return;
        };
        self.python(|py| {
            let progress = PyDict::new(py);
            fill(&progress)?;
            let answer = callback.call1(py, (progress,))?;
            Ok(!answer.bind(py).is(pyo3::types::PyBool::new(py, false)))
        });
        self.callback = Some(callback);
    }
}

impl RunHook for Callback {
    fn name(&self) -> &'static str {
        "python"
    }

    fn on(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Step(progress) => {
                if self.looked.elapsed() >= SIGNALS_EVERY {
                    self.looked = Instant::now();
                    self.python(|py| py.check_signals().map(|()| true));
                }
                let is_due = progress.step.is_multiple_of(self.every);
                if !self.stops && (is_due || progress.step == progress.steps) {
                    self.call(|all| {
                        all.set_item("step", progress.step)?;
                        all.set_item("steps", progress.steps)?;
                        all.set_item("loss", progress.smoothed_loss)?;
                        all.set_item("gaussians", progress.gaussians)?;
                        all.set_item("steps_per_second", progress.steps_per_second)?;
                        all.set_item("eta_seconds", progress.eta_seconds)
                    });
                }
            }
            Event::Eval(step, report) if !self.stops => self.call(|all| {
                all.set_item("step", *step)?;
                all.set_item("psnr", report.psnr)?;
                all.set_item("ssim", report.ssim)?;
                all.set_item("lpips", report.lpips)
            }),
            _ => {}
        }
        Ok(())
    }

    fn should_stop(&self) -> bool {
        self.stops
    }
}

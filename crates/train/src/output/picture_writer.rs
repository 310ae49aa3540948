//! Writes pictures of scored views on threads of their own, while the next view is rendered.
//!
//! 1. Each view is two files, and each file is a job: compose it, encode it, write it atomically.
//! 2. There are at most as many threads as cores, each started when a job finds no idle thread.
//! 3. A caller that adds a view waits while [`MOST_BYTES`] are pending.
//! 4. While the splats are being written ([`PictureWriter::hold`]), no picture is written, so that the splats get the
//!    free disk space. If the splats cannot be written, no picture is written after them.
//! 5. The error of the first file that cannot be written, in the order of the calls, is stored. After an error no more
//!    files are written.

use super::{RenderNames, RunFolder};
use crate::pictures::{error_map, side_by_side};
use dapple_engine::Pictures;
use dapple_scene::atomic::write_atomically;
use dapple_scene::{Error, Photo, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Most memory of pending views together, unless a single view needs more.
const MOST_BYTES: u64 = 512 << 20;

/// Bytes per pixel that a pending view takes: both pictures, composed and encoded.
const BYTES_PER_PIXEL: u64 = 24;

/// Writes `renders/` and `errors/` of a run's folder. Dropping it skips files that are not being written yet.
#[derive(Debug)]
pub struct PictureWriter {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    most_threads: usize,
    folders: [PathBuf; 2],
    names: RenderNames,
    background: [f32; 3],
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals that a job was added or done, or that the writer ends.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Jobs that were added.
    added: usize,
    /// Threads that wait for a job.
    idle: usize,
    /// Bytes of jobs that are not done.
    bytes: u64,
    /// First error, with the number of its job.
    failure: Option<(usize, Error)>,
    is_over: bool,
    /// True while no job may begin.
    is_held: bool,
    /// True if jobs are removed without being done.
    is_refused: bool,
}

/// Delays pictures until the value is dropped.
#[derive(Debug)]
pub(super) struct Hold(Arc<Shared>);

impl Hold {
    /// Cancels all further pictures.
    pub(super) fn refuse(&self) {
        self.0.lock().is_refused = true;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.lock().is_held = false;
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct Job {
    number: usize,
    path: PathBuf,
    bytes: u64,
    /// True for the error map, false for the render next to the photo.
    shows_errors: bool,
    photo: Arc<Photo>,
    pictures: Arc<Pictures>,
    background: [f32; 3],
}

impl PictureWriter {
    /// A writer into a run's folder; transparent photos are shown over `background`, 0..1.
    pub fn new(folder: &RunFolder, background: [f32; 3]) -> Self {
        Self {
            shared: Arc::default(),
            threads: Vec::new(),
            most_threads: std::thread::available_parallelism().map_or(1, usize::from),
            folders: [folder.renders_path(), folder.errors_path()],
            names: RenderNames::default(),
            background,
        }
    }

    /// Delays pictures until the returned value is dropped; they wait in memory.
    pub(super) fn hold(&self) -> Hold {
        self.shared.lock().is_held = true;
        Hold(Arc::clone(&self.shared))
    }

    /// Queues the view of the photo `name`. Waits only while too many bytes are pending.
    pub fn write(&mut self, name: &str, photo: Arc<Photo>, pictures: impl Into<Arc<Pictures>>) {
        let file_name = self.names.name(name);
        let pictures = pictures.into();
        let pixels = u64::from(pictures.width) * u64::from(pictures.height);
        let bytes = pixels * BYTES_PER_PIXEL / 2;
        for (folder, shows_errors) in self.folders.clone().into_iter().zip([false, true]) {
            let mut state = self.shared.lock();
            while state.bytes > 0 && state.bytes + bytes > MOST_BYTES {
                state = self.shared.wait(state);
            }
            state.bytes += bytes;
            let job = Job {
                number: state.added,
                path: folder.join(&file_name),
                bytes,
                shows_errors,
                photo: Arc::clone(&photo),
                pictures: Arc::clone(&pictures),
                background: self.background,
            };
            state.added += 1;
            state.jobs.push_back(job);
            let is_short = state.idle < state.jobs.len();
            drop(state);
            self.shared.changed.notify_all();
            if is_short && self.threads.len() < self.most_threads {
                self.start_thread();
            }
        }
    }

    fn start_thread(&mut self) {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("pictures".to_owned());
        match thread.spawn(move || shared.work(true)) {
            Ok(thread) => self.threads.push(thread),
            // No more threads can be started. The existing threads continue, or this thread does the job.
            Err(_) if self.threads.is_empty() => self.shared.work(false),
            Err(_) => self.most_threads = self.threads.len(),
        }
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// The first file that could not be written.
    pub fn finish(mut self) -> Result<()> {
        self.join();
        let failure = self.shared.lock().failure.take();
        failure.map_or(Ok(()), |(_, error)| Err(error))
    }

    fn join(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // Panics of jobs are caught in the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for PictureWriter {
    fn drop(&mut self) {
        self.shared.lock().jobs.clear();
        self.join();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Does jobs: until the end if it `stays`, otherwise while there are jobs.
    fn work(&self, stays: bool) {
        let mut state = self.lock();
        loop {
            let job = match state.is_held {
                true => None,
                false => state.jobs.pop_front(),
            };
            let Some(job) = job else {
                if state.jobs.is_empty() && (state.is_over || !stays) {
                    return;
                }
                state.idle += 1;
                state = self.wait(state);
                state.idle -= 1;
                continue;
            };
            let goes_on = state.failure.is_none() && !state.is_refused;
            drop(state);
            let written = match goes_on {
                true => catch_unwind(AssertUnwindSafe(|| job.write())),
                false => Ok(Ok(())),
            };
            let written = written.unwrap_or_else(|_| {
                Err(
                    Error::internal("a picture cannot be encoded: its encoder failed")
                        .at_path(&job.path),
                )
            });
            state = self.lock();
            state.bytes -= job.bytes;
            if let Err(error) = written
                && state
                    .failure
                    .as_ref()
                    .is_none_or(|(first, _)| job.number < *first)
            {
                state.failure = Some((job.number, error));
            }
            self.changed.notify_all();
        }
    }
}

impl Job {
    fn write(&self) -> Result<()> {
        let png = match self.shows_errors {
            true => error_map(&self.pictures)?,
            false => side_by_side(&self.photo, self.background, &self.pictures)?,
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)
            .map_err(|e| Error::io("cannot make the folder of renders", folder, e))?;
        write_atomically(&self.path, |file| file.write_all(&png))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn view(value: u8) -> (Arc<Photo>, Pictures) {
        let photo = Photo::from_rgb(20, 10, vec![value; 600]);
        let pictures = Pictures {
            width: 20,
            height: 10,
            rendered: vec![value; 600],
            errors: vec![255 - value; 600],
        };
        (Arc::new(photo), pictures)
    }

    #[test]
    fn every_view_is_written_whole_whatever_the_threads() {
        let folder = tempfile::tempdir().unwrap();
        for threads in [1, 3] {
            let run = RunFolder::open(&folder.path().join(threads.to_string()));
            let mut writer = PictureWriter::new(&run, [0.0; 3]);
            writer.most_threads = threads;
            for value in 0..9 {
                let (photo, pictures) = view(value);
                writer.write(&format!("cam/{value}.jpg"), photo, pictures);
            }
            writer.finish().unwrap();
            for value in 0..9 {
                let name = format!("cam_{value}.png");
                for (folder, width, colour) in [
                    (run.renders_path(), 40, value),
                    (run.errors_path(), 20, 255 - value),
                ] {
                    let picture = image::open(folder.join(&name)).unwrap().into_rgb8();
                    assert_eq!((picture.width(), picture.height()), (width, 10));
                    assert!(picture.pixels().all(|pixel| pixel.0 == [colour; 3]));
                }
                assert_eq!(std::fs::read_dir(run.renders_path()).unwrap().count(), 9);
            }
        }
    }

    #[test]
    fn pictures_that_are_held_are_written_afterwards_or_not_at_all() {
        for is_refused in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let run = RunFolder::open(folder.path());
            let mut writer = PictureWriter::new(&run, [0.0; 3]);
            let hold = writer.hold();
            for value in 0..5 {
                let (photo, pictures) = view(value);
                writer.write(&format!("{value}.jpg"), photo, pictures);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!run.renders_path().exists(), "a picture was not held");
            if is_refused {
                hold.refuse();
            }
            drop(hold);
            writer.finish().unwrap();
            assert_eq!(run.renders_path().exists(), !is_refused);
        }
    }

    #[test]
    fn the_first_error_is_told_and_what_is_dropped_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        // A file at the path of a folder.
        std::fs::write(folder.path().join("errors"), "").unwrap();
        let run = RunFolder::open(folder.path());
        let mut writer = PictureWriter::new(&run, [0.0; 3]);
        for value in 0..5 {
            let (photo, pictures) = view(value);
            writer.write(&format!("{value}.jpg"), photo, pictures);
        }
        let error = writer.finish().unwrap_err();
        assert!(error.place().unwrap().ends_with("errors"), "{error}");
        drop(PictureWriter::new(&run, [0.0; 3]));
    }
}

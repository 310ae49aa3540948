//! A thread that packs photos into the device's memory, so that the training thread does not.

use super::pack::pack;
use crate::views::counted;
use dapple_engine::PosedCamera;
use dapple_runtime::Upload;
use dapple_scene::{Error, Photo, Result};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// The thread; started by the first photo.
#[derive(Debug, Default)]
pub struct Packer {
    thread: Option<(Sender<Job>, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Job {
    photo: Arc<Photo>,
    upload: Upload,
    /// Camera of a photo whose pixels are to be counted too.
    camera: Option<PosedCamera>,
    done: SyncSender<Packed>,
}

/// A photo that is ready to upload.
#[derive(Debug)]
pub struct Packed {
    /// Filled upload.
    pub upload: Upload,
    /// Pixels and windows that count, if they were requested.
    pub counted: Option<(u32, u32)>,
}

/// A photo that is being packed.
#[derive(Debug)]
pub struct Arriving(Receiver<Packed>);

impl Packer {
    /// Starts packing `photo` into `upload`. With a camera, the unmasked pixels and windows are
    /// counted as well.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn pack(
        &mut self,
        photo: Arc<Photo>,
        upload: Upload,
        camera: Option<PosedCamera>,
    ) -> Result<Arriving> {
        let (done, arriving) = sync_channel(1);
        let job = Job {
            photo,
            upload,
            camera,
            done,
        };
        let (jobs, _) = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(start()?),
        };
        jobs.send(job).map_err(|_| gone())?;
        Ok(Arriving(arriving))
    }
}

impl Arriving {
    /// Waits until the photo is ready.
    ///
    /// # Errors
    /// The thread has failed.
    pub fn wait(self) -> Result<Packed> {
        self.0.recv().map_err(|_| gone())
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        if let Some((jobs, thread)) = self.thread.take() {
            drop(jobs);
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::internal("the thread that packs photos for the GPU has failed")
}

fn start() -> Result<(Sender<Job>, JoinHandle<()>)> {
    let (jobs, waiting) = channel::<Job>();
    let work = move || {
        for mut job in waiting {
            pack(&job.photo, &mut |words| job.upload.put(words));
            let packed = Packed {
                upload: job.upload,
                counted: job.camera.map(|camera| counted(&camera, Some(&job.photo))),
            };
            // The receiver is gone if the engine is gone.
            let _ = job.done.send(packed);
        }
    };
    let thread = std::thread::Builder::new().name("photos-to-gpu".to_owned());
    let thread = thread.spawn(work).map_err(|e| {
        Error::unsupported(format!(
            "the thread that packs photos for the GPU could not be started: {e}"
        ))
        .hint("raise the limit of threads (ulimit -u), or use --device cpu")
    })?;
    Ok((jobs, thread))
}

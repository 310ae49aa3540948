//! State shared by the server's thread and the thread that owns the engine: requests of pages, and messages to them.
//!
//! 1. Only the newest view request of a page counts. A new one replaces all earlier ones.
//! 2. The server renders one frame per page at a time. It renders the next frame after the page acknowledges the last
//!    one. A page that never acknowledges a frame is sent nothing more, and costs nothing.
//! 3. Pages take turns.
//! 4. When splats change, idle pages are due again.

use crate::edit::{EditCommand, EditRequest, EditState, Effect};
use crate::picture::Encoded;
use crate::protocol::{Command, Models, ViewRequest};
use crate::request::{PageId, Request, TrainOn};
use crate::stage::{Stage, Status};
use axum::body::Bytes;
use dapple_scene::{Camera, Error, PhotoSource, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Largest number of open pages.
pub(crate) const MOST_PAGES: usize = 8;

/// Largest number of waiting run commands. More of them have no further effect.
const MOST_COMMANDS: usize = 64;

/// Largest number of waiting edits.
const MOST_EDITS: usize = 64;

/// Largest number of pages that wait for the splats.
const MOST_WAITING: usize = 2 * MOST_PAGES;

/// Splats as pages draw them ([`crate::export::drawn`]), or the reason why there are none.
pub(crate) type Drawn = std::result::Result<Bytes, String>;

/// Messages that wait to be sent to a page: the newest of each kind.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(crate) stage: Option<String>,
    pub(crate) status: Option<String>,
    pub(crate) edit: Option<String>,
    pub(crate) histogram: Option<String>,
    pub(crate) error: Option<String>,
    pub(crate) picture: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Page {
    look: Option<ViewRequest>,
    /// True if the view request or the splats have changed since the last frame.
    due: bool,
    /// Number of a requested frame that was not shown yet.
    under_way: Option<u32>,
    mail: Mail,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Inner {
    pages: BTreeMap<PageId, Page>,
    next_page: PageId,
    /// Page that was answered last.
    last: PageId,
    stage: Stage,
    stage_text: String,
    status_text: Option<String>,
    commands: Vec<Command>,
    /// True while pages may train the run on.
    may_train_on: bool,
    train_on: Option<TrainOn>,
    edits: VecDeque<EditRequest>,
    edit_text: Option<String>,
    /// True if pages were not sent this state before.
    edit_is_news: bool,
    /// Pages that wait for the splats.
    drawn: Vec<oneshot::Sender<Drawn>>,
}

/// Shared state behind a lock. The module documentation describes the rules.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    inner: Mutex<Inner>,
    asked: Condvar,
}

impl Hub {
    /// Locks the state. A thread that panicked with the lock has left sound data: every change here is whole.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn show(&self, stage: Stage) {
        let text = serde_json::to_string(&stage.told()).unwrap_or_default();
        let mut inner = self.lock();
        if !stage.trains {
            inner.commands.clear();
        }
        inner.stage = stage;
        inner.stage_text.clone_from(&text);
        for page in inner.pages.values_mut() {
            page.mail.stage = Some(text.clone());
            page.due = true;
            page.wake.notify_one();
        }
        drop(inner);
        self.asked.notify_all();
    }

    pub(crate) fn report(&self, status: &Status) {
        let text = told("status", status);
        let mut inner = self.lock();
        inner.may_train_on = status.train_on.is_some();
        if !inner.may_train_on {
            inner.train_on = None;
        }
        inner.status_text = Some(text.clone());
        for page in inner.pages.values_mut() {
            page.mail.status = Some(text.clone());
            page.wake.notify_one();
        }
    }

    pub(crate) fn changed(&self) {
        let mut inner = self.lock();
        for page in inner.pages.values_mut() {
            page.due = true;
        }
        drop(inner);
        self.asked.notify_all();
    }

    pub(crate) fn next(&self, patience: Duration) -> Option<Request> {
        let until = Instant::now() + patience;
        let mut inner = self.lock();
        loop {
            if !inner.edits.is_empty() || !inner.drawn.is_empty() {
                return None;
            }
            if let Some(request) = inner.take() {
                return Some(request);
            }
            let left = until.checked_duration_since(Instant::now())?;
            let waited = self.asked.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    pub(crate) fn answer(&self, request: &Request, picture: Result<Encoded>) {
        let mut inner = self.lock();
        // The page may have closed while the frame was rendered.
        let Some(page) = inner.pages.get_mut(&request.page) else {
            return;
        };
        match picture {
            Ok(encoded) => page.mail.picture = Some(encoded.message(request.look.id)),
            Err(error) => {
                page.under_way = None;
                page.mail.error = Some(error_text(&error));
            }
        }
        page.wake.notify_one();
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        std::mem::take(&mut self.lock().commands)
    }

    /// See [`crate::Viewer::settle`].
    pub(crate) fn settle(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            let waits = |page: &Page| page.mail.status.is_some() || page.mail.picture.is_some();
            if !self.lock().pages.values().any(waits) {
                // The rest is between the server's thread and the network.
                std::thread::sleep(Duration::from_millis(50).min(patience));
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn shows_snapshot(&self) -> bool {
        let back = |page: &Page| page.look.as_ref().is_some_and(|l| l.snapshot.is_some());
        self.lock().pages.values().any(back)
    }

    pub(crate) fn pages(&self) -> usize {
        self.lock().pages.len()
    }

    /// Registers a page; `None` if too many are open.
    pub(crate) fn join(&self) -> Option<(PageId, Arc<Notify>)> {
        let mut inner = self.lock();
        if inner.pages.len() >= MOST_PAGES {
            return None;
        }
        inner.next_page += 1;
        let id = inner.next_page;
        let wake = Arc::new(Notify::new());
        let page = Page {
            mail: Mail {
                stage: Some(inner.stage_text.clone()).filter(|text| !text.is_empty()),
                status: inner.status_text.clone(),
                edit: inner.edit_text.clone(),
                ..Mail::default()
            },
            wake: wake.clone(),
            ..Page::default()
        };
        inner.pages.insert(id, page);
        wake.notify_one();
        Some((id, wake))
    }

    pub(crate) fn leave(&self, id: PageId) {
        self.lock().pages.remove(&id);
    }

    pub(crate) fn request_view(&self, id: PageId, look: ViewRequest) {
        if let Some(page) = self.lock().pages.get_mut(&id) {
            page.look = Some(look);
            page.due = true;
        }
        self.asked.notify_all();
    }

    pub(crate) fn shown(&self, id: PageId, look: u32) {
        if let Some(page) = self.lock().pages.get_mut(&id)
            && page.under_way == Some(look)
        {
            page.under_way = None;
        }
        self.asked.notify_all();
    }

    pub(crate) fn command(&self, command: Command) {
        let mut inner = self.lock();
        // Before the first stage it is unknown whether a run takes commands.
        let may_train = inner.stage.trains || inner.stage_text.is_empty();
        if may_train && inner.commands.len() < MOST_COMMANDS {
            inner.commands.push(command);
        }
        drop(inner);
        self.asked.notify_all();
    }

    /// Stores the request of a page to train on.
    ///
    /// # Errors
    /// No step, too many steps, a run that has not ended, or another request before.
    pub(crate) fn train_on(&self, steps: i64) -> Result<()> {
        let mut inner = self.lock();
        if !inner.may_train_on {
            return Err(match inner.stage.trains {
                true => Error::input("the run has not reached its last step")
                    .hint("wait for its end; the page then offers \"Train on\""),
                false => Error::input("no run is shown here that can be trained on"),
            });
        }
        let steps = u32::try_from(steps).ok().filter(|&steps| steps > 0);
        let Some(steps) = steps else {
            return Err(Error::input("this number of steps cannot be trained")
                .hint("enter a whole number of further steps, 1 or more"));
        };
        if inner.train_on.is_some() {
            return Err(Error::input("another page has pressed \"Train on\" first"));
        }
        inner.train_on = Some(TrainOn { steps });
        Ok(())
    }

    pub(crate) fn take_train_on(&self) -> Option<TrainOn> {
        self.lock().train_on.take()
    }

    /// Queues an edit of a page.
    ///
    /// # Errors
    /// Edits are disabled, numbers are out of bounds, or too many edits wait.
    pub(crate) fn edit(&self, id: PageId, wish: EditCommand) -> Result<()> {
        let mut inner = self.lock();
        if let Err(why) = &inner.stage.edits {
            return Err(Error::input(why.clone()));
        }
        let edit = wish.meant(|look| inner.camera(look))?;
        if inner.edits.len() >= MOST_EDITS {
            return Err(Error::input("too many edits wait already")
                .hint("wait until the picture has followed"));
        }
        inner.edits.push_back(EditRequest { page: id, edit });
        drop(inner);
        self.asked.notify_all();
        Ok(())
    }

    pub(crate) fn take_edits(&self) -> Vec<EditRequest> {
        self.lock().edits.drain(..).collect()
    }

    /// Sends the state of the edit session to pages, unless it is the last state that they were sent. A page responds
    /// with a request for its histogram, and would repeat this without end if the unchanged state were sent too.
    pub(crate) fn edited(&self, state: &EditState) {
        let text = told("edit", state);
        let mut inner = self.lock();
        inner.edit_is_news = inner.edit_text.as_ref() != Some(&text);
        if !inner.edit_is_news {
            return;
        }
        inner.edit_text = Some(text.clone());
        for page in inner.pages.values_mut() {
            page.mail.edit = Some(text.clone());
            page.wake.notify_one();
        }
    }

    pub(crate) fn answer_edit(&self, request: &EditRequest, effect: &Result<Effect>) {
        let mut inner = self.lock();
        // An edit without effect is not sent to all pages. Only the page that requested it receives the state.
        let unheard = match inner.edit_is_news {
            true => None,
            false => inner.edit_text.clone(),
        };
        // The page may have closed while the edit was applied.
        let Some(page) = inner.pages.get_mut(&request.page) else {
            return;
        };
        match effect {
            Ok(Effect::Histogram(found)) => {
                page.mail.histogram = Some(told("histogram", found));
            }
            Ok(Effect::Shown | Effect::Nothing | Effect::Saved) => {
                page.mail.edit = unheard.or(page.mail.edit.take());
            }
            Err(error) => page.mail.error = Some(error_text(error)),
        }
        page.wake.notify_one();
    }

    /// Registers a page that draws by itself and waits for the splats.
    ///
    /// # Errors
    /// Pages may not draw by themselves, or too many wait.
    pub(crate) fn want_drawn(&self) -> std::result::Result<oneshot::Receiver<Drawn>, String> {
        let mut inner = self.lock();
        inner.stage.draws.clone()?;
        // Closed pages do not wait.
        inner.drawn.retain(|page| !page.is_closed());
        if inner.drawn.len() >= MOST_WAITING {
            return Err("too many pages wait for the splats".to_owned());
        }
        let (answer, receiver) = oneshot::channel();
        inner.drawn.push(answer);
        drop(inner);
        self.asked.notify_all();
        Ok(receiver)
    }

    pub(crate) fn wants_drawn(&self) -> bool {
        !self.lock().drawn.is_empty()
    }

    pub(crate) fn answer_drawn(&self, drawn: Result<Vec<u8>>) {
        let drawn = drawn.map(Bytes::from).map_err(|e| e.to_string());
        for page in std::mem::take(&mut self.lock().drawn) {
            // The page may have closed while the splats were encoded.
            let _ = page.send(drawn.clone());
        }
    }

    /// Sends a page the error of its message.
    pub(crate) fn refuse(&self, id: PageId, error: &Error) {
        if let Some(page) = self.lock().pages.get_mut(&id) {
            page.mail.error = Some(error_text(error));
            page.wake.notify_one();
        }
    }

    pub(crate) fn mail(&self, id: PageId) -> Mail {
        let mut inner = self.lock();
        let page = inner.pages.get_mut(&id);
        page.map(|page| std::mem::take(&mut page.mail))
            .unwrap_or_default()
    }

    /// Returns the mesh of the stage.
    pub(crate) fn mesh(&self) -> Option<Arc<[u8]>> {
        self.lock().stage.mesh.clone()
    }

    /// Returns the photo of a camera of the stage.
    pub(crate) fn photo(&self, camera: usize) -> Option<PhotoSource> {
        self.lock().stage.cameras.get(camera)?.photo.clone()
    }
}

impl Inner {
    /// Removes and returns the request of the page whose turn it is.
    fn take(&mut self) -> Option<Request> {
        let is_due = |page: &Page| page.due && page.under_way.is_none() && page.look.is_some();
        let after = self
            .pages
            .range(self.last + 1..)
            .chain(self.pages.range(..=self.last));
        let id = after
            .into_iter()
            .find(|(_, page)| is_due(page))
            .map(|(&id, _)| id)?;
        let page = self.pages.get_mut(&id)?;
        let mut look = page.look.clone()?;
        if self.stage.models.len() < 2 {
            look.models = Models::First;
        }
        page.due = false;
        page.under_way = Some(look.id);
        self.last = id;
        let entry = look.through.and_then(|i| self.stage.cameras.get(i));
        Some(Request {
            page: id,
            camera: self.camera(&look),
            photo: entry.and_then(|entry| entry.photo.clone()),
            look,
        })
    }

    /// Camera of a view request.
    fn camera(&self, look: &ViewRequest) -> Camera {
        match look.through.and_then(|i| self.stage.cameras.get(i)) {
            Some(entry) => entry.camera.resized(look.width, look.height),
            None => look.free_camera(),
        }
    }
}

/// Encodes a message of this kind to pages.
fn told<T: serde::Serialize>(kind: &'static str, what: &T) -> String {
    #[derive(serde::Serialize)]
    struct Told<'a, T> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        what: &'a T,
    }
    serde_json::to_string(&Told { kind, what }).unwrap_or_default()
}

fn error_text(error: &Error) -> String {
    let told = serde_json::json!({
        "type": "error",
        "what": error.what(),
        "hint": error.hint_text(),
    });
    told.to_string()
}

#[cfg(test)]
mod tests;

//! Viewer of splats in a browser: any program that has an engine can attach one.
//!
//! The selected engine renders frames with the kernels of training. The server sends them as JPEG over a WebSocket. The
//! crate never touches an engine by itself: its server runs in a thread of its own and stores the requests of each
//! page. The owner of the engine answers them when it has time.
//!
//! 1. [`Viewer::start`] binds a port and begins to serve the page.
//! 2. [`Viewer::show`] sends the stage: a title, the cameras, the photos.
//! 3. [`Viewer::next`] returns the newest request of the page whose turn it is. [`Request::picture`] renders it, and
//!    [`Viewer::answer`] sends it. A page has at most one frame in flight, so that a page that is slow, stuck or closed
//!    costs nothing more.
//! 4. Pages that draw by themselves request the splats: [`Viewer::answer_drawn`].
//! 5. While a program trains, [`Share`] bounds the share of its time that frames take.
//!
//! ```no_run
//! use dapple_viewer::{Viewer, ViewerOptions};
//! # fn main() -> dapple_scene::Result<()> {
//! # let mut engine: Box<dyn dapple_engine::Engine> = todo!();
//! # let settings = dapple_engine::RenderSettings::default();
//! let viewer = Viewer::start(&ViewerOptions::default())?;
//! println!("{}", viewer.url());
//! loop {
//!     if let Some(request) = viewer.next(std::time::Duration::from_millis(100)) {
//!         let picture = request.picture(engine.as_mut(), &settings);
//!         viewer.answer(&request, picture);
//!     }
//! }
//! # }
//! ```
//!
//! # Safety on a network
//! The server listens on this machine only, unless told otherwise. The address has a random token, which a page
//! exchanges for a cookie; without it nothing is served. Requests for other hosts' names, or from other sites' pages,
//! are refused. No path of a request reads a file. Connections without the token are few and end soon.

mod connections;
pub mod edit;
pub mod export;
mod guard;
mod hub;
pub mod mesh;
mod page;
mod picture;
mod pixels;
mod protocol;
mod request;
mod server;
mod share;
mod stage;

pub use edit::{Edit, EditRequest, EditSession, EditState, Effect, Histogram, SaveTo};
pub use picture::Encoded;
pub use protocol::{Command, MAX_SIDE, Models, ViewRequest};
pub use request::{Request, TrainOn};
pub use share::Share;
pub use stage::{CameraEntry, Curves, Part, Stage, Status};

use dapple_scene::{Error, Result};
use hub::Hub;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Address, port and patience of a viewer.
#[derive(Debug, Clone)]
pub struct ViewerOptions {
    /// The address to listen on; the loopback by default.
    pub host: IpAddr,
    /// The port; `None` selects [`DEFAULT_PORT`], or a free port if that is taken.
    pub port: Option<u16>,
    /// Longest silence of a connection: for the headers of a request, and for the answer to a ping. A connection
    /// without a token is closed after this time.
    pub patience: Duration,
}

/// Port of the viewer, unless another program uses it.
pub const DEFAULT_PORT: u16 = 7410;

impl Default for ViewerOptions {
    fn default() -> Self {
        Self {
            host: Ipv4Addr::LOCALHOST.into(),
            port: None,
            patience: Duration::from_secs(20),
        }
    }
}

/// Viewer: a page in a browser, and the server behind it. The server ends when this and its copies are dropped.
#[derive(Debug, Clone)]
pub struct Viewer {
    hub: Arc<Hub>,
    address: SocketAddr,
    url: String,
    /// Dropping it ends the server.
    _running: Arc<tokio::sync::oneshot::Sender<()>>,
}

impl Viewer {
    /// Starts the server in a thread of its own.
    ///
    /// # Errors
    /// A port that is taken, an address that this machine does not have, no source of randomness.
    pub fn start(options: &ViewerOptions) -> Result<Self> {
        let listener = server::listen(options)?;
        let address = listener
            .local_addr()
            .map_err(|e| Error::unsupported(format!("the viewer's address is not known: {e}")))?;
        let token = guard::token()?;
        // For a server that listens on all addresses, a page on this machine uses the loopback.
        let name = match address.ip() {
            ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) => format!("[{ip}]"),
            ip => ip.to_string(),
        };
        let url = format!("http://{name}:{}/?token={token}", address.port());
        let hub = Arc::new(Hub::default());
        let (running, ended) = tokio::sync::oneshot::channel();
        server::spawn(
            listener,
            hub.clone(),
            guard::Guard::new(token, address.port()),
            options.patience,
            ended,
        )?;
        Ok(Self {
            hub,
            address,
            url,
            _running: Arc::new(running),
        })
    }

    /// Returns the address to open, with the token.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the stage and sends it to open pages.
    pub fn show(&self, stage: Stage) {
        self.hub.show(stage);
    }

    /// Sends the progress of a run to open pages.
    pub fn report(&self, status: &Status) {
        self.hub.report(status);
    }

    /// Marks the splats as changed: idle pages are sent another frame.
    pub fn changed(&self) {
        self.hub.changed();
    }

    /// Returns the newest request of the page whose turn it is, and waits for one up to `patience`. Returns `None` if
    /// there is no request, or while an edit or a page that draws by itself waits.
    pub fn next(&self, patience: Duration) -> Option<Request> {
        self.hub.next(patience)
    }

    /// Sends a frame to the page that requested it, or the reason why there is none.
    pub fn answer(&self, request: &Request, picture: Result<Encoded>) {
        self.hub.answer(request, picture);
    }

    /// Removes and returns the run commands that pages sent since the last call, in order.
    pub fn commands(&self) -> Vec<Command> {
        self.hub.take_commands()
    }

    /// Removes and returns the request of a page to train on. Pages send one only while the last reported status has
    /// [`Status::train_on`]; the first request counts.
    pub fn train_on(&self) -> Option<TrainOn> {
        self.hub.take_train_on()
    }

    /// Removes and returns the edit commands that pages sent since the last call, in order. [`Self::answer_edit`]
    /// answers them. While some wait, [`Self::next`] returns at once.
    pub fn edits(&self) -> Vec<EditRequest> {
        self.hub.take_edits()
    }

    /// Sends the page that requested an edit its histogram or its error. Other results are not sent.
    pub fn answer_edit(&self, request: &EditRequest, effect: &Result<Effect>) {
        self.hub.answer_edit(request, effect);
    }

    /// Sends the state of an edit session to open pages if it has changed.
    pub fn edited(&self, state: &EditState) {
        self.hub.edited(state);
    }

    /// Returns true if a page waits for the splats, to draw them by itself. [`Self::answer_drawn`] answers it. While a
    /// page waits, [`Self::next`] returns at once. Pages request splats only where [`Stage::draws`] allows it.
    pub fn wants_drawn(&self) -> bool {
        self.hub.wants_drawn()
    }

    /// Sends the splats ([`export::drawn`]) to the pages that wait for them, or the reason why there are none. Pages
    /// request the splats again when they receive another stage or edit state.
    pub fn answer_drawn(&self, drawn: Result<Vec<u8>>) {
        self.hub.answer_drawn(drawn);
    }

    /// Waits until all messages to pages are sent, at most for `patience`. Called before a program ends.
    pub fn settle(&self, patience: Duration) {
        self.hub.settle(patience);
    }

    /// Returns true if a page shows a snapshot ([`ViewRequest::snapshot`]).
    pub fn shows_snapshot(&self) -> bool {
        self.hub.shows_snapshot()
    }

    /// Returns the number of connected pages.
    pub fn pages(&self) -> usize {
        self.hub.pages()
    }
}

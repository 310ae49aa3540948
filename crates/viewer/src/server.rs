//! The web server: a page, its modules, photos by number, and a WebSocket.
//!
//! It has one thread, which renders nothing and never blocks on a page or the engine.

use crate::connections::{self, Place};
use crate::guard::Guard;
use crate::hub::{Hub, Mail};
use crate::page;
use crate::picture::jpeg;
use crate::protocol::{FromPage, MAX_MESSAGE_BYTES};
use crate::request::PageId;
use crate::{DEFAULT_PORT, ViewerOptions};
use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use dapple_scene::{Error, Result};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::MissedTickBehavior;

/// Pings per patience: a page counts as closed if it answers none of them.
const PINGS: u32 = 2;

/// Quality of photos, of 100.
const PHOTO_QUALITY: u8 = 92;

#[derive(Clone)]
struct Shared {
    hub: Arc<Hub>,
    guard: Guard,
    /// See [`ViewerOptions::patience`].
    patience: Duration,
}

/// Binds the port.
///
/// # Errors
/// The port is taken, or the address is not this machine's.
pub(crate) fn listen(options: &ViewerOptions) -> Result<TcpListener> {
    let bind = |port| TcpListener::bind(SocketAddr::new(options.host, port));
    let bound = match options.port {
        Some(port) => bind(port),
        None => bind(DEFAULT_PORT).or_else(|_| bind(0)),
    };
    let place = match options.port {
        Some(port) => format!("{}, port {port}", options.host),
        None => options.host.to_string(),
    };
    let listener = bound.map_err(|e| {
        use std::io::ErrorKind as Kind;
        let hint = match e.kind() {
            Kind::AddrInUse => "another program listens there: name another port, or none",
            Kind::AddrNotAvailable => "name an address of this machine, or omit --host",
            Kind::PermissionDenied => "name a port above 1023",
            _ => "name another address or port",
        };
        Error::unsupported(format!("the viewer cannot listen: {e}"))
            .at(place.clone())
            .hint(hint)
    })?;
    listener
        .set_nonblocking(true)
        .map_err(|e| Error::unsupported(format!("the viewer cannot listen: {e}")).at(place))?;
    Ok(listener)
}

/// Serves until `ended` resolves.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn spawn(
    listener: TcpListener,
    hub: Arc<Hub>,
    guard: Guard,
    patience: Duration,
    ended: oneshot::Receiver<()>,
) -> Result<()> {
    let fail = |e: std::io::Error| Error::unsupported(format!("the viewer cannot start: {e}"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .max_blocking_threads(2)
        .build()
        .map_err(fail)?;
    let serve = move || {
        runtime.block_on(async move {
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                return;
            };
            let router = router(Shared {
                hub,
                guard,
                patience,
            });
            tokio::select! {
                () = connections::serve(listener, router, patience) => {}
                // The sender is dropped with the viewer.
                _ = ended => {}
            }
        });
        // The server does not wait for a photo that is being read.
        runtime.shutdown_background();
    };
    let thread = std::thread::Builder::new().name("dapple-viewer".to_owned());
    thread.spawn(serve).map_err(fail)?;
    Ok(())
}

fn router(shared: Shared) -> Router {
    let mut router = Router::new()
        .route("/ws", get(socket))
        .route("/photo/{camera}", get(photo))
        .route("/mesh", get(mesh))
        .route("/drawn", get(drawn));
    for asset in page::ASSETS {
        let serve = move || async move { ([(header::CONTENT_TYPE, asset.kind)], asset.text) };
        router = router.route(asset.path, get(serve));
    }
    router
        .layer(middleware::from_fn_with_state(shared.clone(), admit))
        .with_state(shared)
}

/// Admits requests with the token or its cookie, and sets the page's content security policy.
async fn admit(
    State(shared): State<Shared>,
    Extension(place): Extension<Arc<Place>>,
    request: Request,
    next: Next,
) -> Response {
    let guard = &shared.guard;
    let headers = request.headers();
    let mut response = if !guard.is_for_us(headers) {
        refused(
            StatusCode::MISDIRECTED_REQUEST,
            "this is no name of this machine's\n",
        )
    } else if let Some(token) = token_of(request.uri().query()) {
        match guard.is_token(token) && request.uri().path() == "/" {
            true => {
                place.admit();
                let to = [
                    (header::LOCATION, "/".to_owned()),
                    (header::SET_COOKIE, guard.set_cookie()),
                ];
                (StatusCode::SEE_OTHER, to).into_response()
            }
            false => refused(StatusCode::FORBIDDEN, WRONG),
        }
    } else if !guard.knows(headers) {
        refused(StatusCode::FORBIDDEN, WRONG)
    } else {
        place.admit();
        next.run(request).await
    };
    let sent = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, page::POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        sent.insert(name, HeaderValue::from_static(value));
    }
    response
}

const WRONG: &str =
    "open the address that dapple has printed: it has a token, and this one has none or another\n";

fn refused(status: StatusCode, why: &'static str) -> Response {
    (status, why).into_response()
}

fn token_of(query: Option<&str>) -> Option<&str> {
    query?
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="))
}

/// Returns the photo of a camera, by its number in the stage.
async fn photo(State(shared): State<Shared>, Path(camera): Path<usize>) -> Response {
    let Some(source) = shared.hub.photo(camera) else {
        return refused(StatusCode::NOT_FOUND, "no such photo\n");
    };
    let read = tokio::task::spawn_blocking(move || {
        let photo = source.read()?;
        jpeg(photo.width, photo.height, &photo.rgb, PHOTO_QUALITY)
    });
    match read.await {
        Ok(Ok(bytes)) => ([(header::CONTENT_TYPE, "image/jpeg")], bytes).into_response(),
        Ok(Err(error)) => (StatusCode::GONE, error.to_string()).into_response(),
        Err(_) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the photo cannot be read\n",
        ),
    }
}

/// Returns the mesh of the stage.
async fn mesh(State(shared): State<Shared>) -> Response {
    match shared.hub.mesh() {
        Some(mesh) => {
            let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
            (kind, Bytes::from_owner(mesh)).into_response()
        }
        None => refused(StatusCode::NOT_FOUND, "there is no mesh\n"),
    }
}

/// Returns the splats, for a page that draws them by itself.
async fn drawn(State(shared): State<Shared>) -> Response {
    let receiver = match shared.hub.want_drawn() {
        Ok(receiver) => receiver,
        Err(why) => return (StatusCode::NOT_FOUND, why).into_response(),
    };
    match receiver.await {
        Ok(Ok(bytes)) => {
            let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
            (kind, bytes).into_response()
        }
        Ok(Err(why)) => (StatusCode::CONFLICT, why).into_response(),
        // There is no thread left that answers.
        Err(_) => refused(StatusCode::GONE, "the program has ended\n"),
    }
}

async fn socket(
    State(shared): State<Shared>,
    Extension(place): Extension<Arc<Place>>,
    request: WebSocketUpgrade,
    headers: axum::http::HeaderMap,
) -> Response {
    if !shared.guard.is_from_our_page(&headers) {
        return refused(
            StatusCode::FORBIDDEN,
            "the request comes from a page of another site\n",
        );
    }
    let Some((id, wake)) = shared.hub.join() else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open\n");
    };
    let patience = shared.patience;
    // The seat is also dropped if the upgrade fails.
    let seat = Seat {
        hub: shared.hub,
        id,
        _place: place,
    };
    request
        .max_message_size(MAX_MESSAGE_BYTES)
        .max_frame_size(MAX_MESSAGE_BYTES)
        .on_upgrade(move |socket| async move { serve_page(socket, &seat, &wake, patience).await })
}

/// Place of a page among the connected pages.
struct Seat {
    hub: Arc<Hub>,
    id: PageId,
    /// Place of the connection, held until the page closes.
    _place: Arc<Place>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.leave(self.id);
    }
}

/// Serves a page until it closes, takes longer than `patience` for a message, or answers no ping within `patience`.
async fn serve_page(mut socket: WebSocket, seat: &Seat, wake: &Notify, patience: Duration) {
    let mut pings = tokio::time::interval(patience / PINGS);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unanswered = 0;
    loop {
        let sent = tokio::select! {
            message = socket.recv() => {
                unanswered = 0;
                match message {
                    Some(Ok(Message::Text(text))) => hear(seat, text.as_str()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    // The connection has closed, broke the protocol, or sends a message that the viewer's page never
                    // sends.
                    _ => return,
                }
                continue;
            },
            () = wake.notified() => {
                let mail = seat.hub.mail(seat.id);
                tokio::time::timeout(patience, send(&mut socket, mail)).await
            }
            _ = pings.tick() => {
                if unanswered == PINGS {
                    return;
                }
                unanswered += 1;
                let ping = socket.send(Message::Ping(Bytes::new()));
                tokio::time::timeout(patience, ping).await
            }
        };
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

fn hear(seat: &Seat, text: &str) {
    match FromPage::parse(text) {
        Ok(FromPage::Look(look)) => seat.hub.request_view(seat.id, look),
        Ok(FromPage::Shown { id }) => seat.hub.shown(seat.id, id),
        Ok(FromPage::Run { command }) => seat.hub.command(command),
        Ok(FromPage::TrainOn { steps }) => {
            if let Err(error) = seat.hub.train_on(steps) {
                seat.hub.refuse(seat.id, &error);
            }
        }
        Ok(FromPage::Edit { edit }) => {
            if let Err(error) = seat.hub.edit(seat.id, edit) {
                seat.hub.refuse(seat.id, &error);
            }
        }
        Err(error) => seat.hub.refuse(seat.id, &error),
    }
}

async fn send(socket: &mut WebSocket, mail: Mail) -> Result<(), axum::Error> {
    let texts = [
        mail.stage,
        mail.status,
        mail.edit,
        mail.histogram,
        mail.error,
    ];
    for text in texts.into_iter().flatten() {
        socket.send(Message::Text(text.into())).await?;
    }
    if let Some(picture) = mail.picture {
        socket.send(Message::Binary(picture.into())).await?;
    }
    Ok(())
}

//! Device loss during a run with viewers: the pages receive a message, and the run ends with the last saved state.

use super::{Job, Wall};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::viewing::ViewOptions;
use dapple::contract::{Call, CallListener, Engine};
use dapple::scene::{Error, Result};
use dapple::synth::SynthOptions;
use dapple::train::{Preset, RunFolder, RunOrigin};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tungstenite::Message;
use tungstenite::client::IntoClientRequest;

/// Fails every call once the device is marked as lost.
struct Lossy(Arc<AtomicBool>);

impl CallListener for Lossy {
    fn on_call<E: Engine + ?Sized, R>(
        &self,
        _call: &Call<'_>,
        engine: &mut E,
        run: impl FnOnce(&mut E) -> Result<R>,
    ) -> Result<R> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Error::unsupported("the device is lost").at("a test")),
            false => run(engine),
        }
    }
}

/// Opens a page, marks the device as lost after some frames, and returns the last note that the page received.
fn looks_on(port: u16, token: &str, lost: &AtomicBool) -> String {
    let host = format!("127.0.0.1:{port}");
    let mut request = format!("ws://{host}/ws").into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("Cookie", format!("dapple_{port}={token}").parse().unwrap());
    headers.insert("Origin", format!("http://{host}").parse().unwrap());
    let stream = TcpStream::connect(&host).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let (mut socket, _) = tungstenite::client(request, stream).unwrap();
    let (mut id, mut note) = (0, String::new());
    loop {
        id += 1;
        let look = serde_json::json!({
            "type": "look", "id": id, "width": 32, "height": 24, "position": [0, -1, -3],
            "rotation": [1, 0, 0, 0], "focal": 1,
        });
        let _ = socket.send(Message::Text(look.to_string().into()));
        loop {
            match socket.read() {
                Ok(Message::Binary(bytes)) => {
                    let id = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                    let shown = serde_json::json!({"type": "shown", "id": id});
                    let _ = socket.send(Message::Text(shown.to_string().into()));
                    // Three frames arrived before the loss.
                    lost.store(id >= 3, Ordering::Relaxed);
                    break;
                }
                Ok(Message::Text(text)) => {
                    let said: serde_json::Value = serde_json::from_str(text.as_str()).unwrap();
                    if let Some(told) = said["note"].as_str() {
                        note = told.to_owned();
                    }
                }
                Ok(_) => {}
                Err(_) => return note,
            }
        }
    }
}

#[test]
fn pages_are_told_of_a_lost_device() {
    let folder = tempfile::tempdir().unwrap();
    let (scene, out) = (folder.path().join("capture"), folder.path().join("out"));
    let console = Console::new(true, false);
    let options = SynthOptions {
        photos: 9,
        width: 48,
        height: 36,
        ..SynthOptions::default()
    };
    crate::commands::synth::make(&options, &scene, &console).unwrap();
    let device = DeviceOptions {
        device: Some("cpu".parse().unwrap()),
        ..DeviceOptions::default()
    };
    let lost = Arc::new(AtomicBool::new(false));
    let engine = device.engine(&console).unwrap();
    let engine = engine.observed(Lossy(Arc::clone(&lost)));
    let view = ViewOptions {
        view: true,
        view_share: 0.9,
        host: None,
        port: Some(0),
        snapshots: Some(0),
        kept: std::sync::Arc::default(),
    };
    let viewer = view.start(&console).unwrap().unwrap();
    let token = viewer.url().split("token=").nth(1).unwrap().to_owned();
    let port = viewer.address().port();
    let page = std::thread::spawn({
        let lost = Arc::clone(&lost);
        move || looks_on(port, &token, &lost)
    });
    let mut config = Preset::Micro.config();
    config.steps = 1_000_000;
    let job = Job {
        scene: &scene,
        out: &out,
        overwrite: false,
        stop_at: None,
        photo_memory: None,
        pacer: None,
        from: None,
        background_is_open: false,
        launch: RunOrigin::default(),
        view: &view,
        device: &device,
    };
    let to = (RunFolder::create(&out).unwrap(), Some(viewer));
    let ended = super::train_shown(job, config, engine, to, Wall::start(), &console);
    let error = ended
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(error.contains("the device is lost"), "{error}");
    let note = page.join().unwrap();
    assert!(
        note.contains("The run has ended") && note.contains("the device is lost"),
        "{note}"
    );
}

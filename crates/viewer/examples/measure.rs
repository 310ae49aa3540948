//! Measures a running viewer: `cargo run --release -p dapple-viewer --example measure -- URL [WIDTH HEIGHT SECONDS]`.
//!
//! URL is the address that `dapple view`, or `dapple train --view`, has printed. The program behaves like the page. It
//! prints, for a view at rest, the time from the view request to the last byte of its frame. For a view that moves, at
//! half the size, it prints frames per second. Without an address it serves 2 000 Gaussians itself on the CPU, as a
//! trial.

use dapple_cpu::{CpuEngine, CpuOptions};
use dapple_engine::{Engine, RenderSettings};
use dapple_scene::{Error, Result, Splats};
use dapple_viewer::{Stage, Viewer, ViewerOptions};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// Frames that are not counted: the first ones find buffers too small.
const WARM_UP: u32 = 5;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next();
    let mut number = |default: u32| {
        let given = args.next().and_then(|text| text.parse().ok());
        given.unwrap_or(default)
    };
    let (width, height, seconds) = (number(640), number(360), number(2));
    let url = match url {
        Some(url) => url,
        None => serve()?,
    };
    let mut page = Page::open(&url)?;
    for (name, moving, size) in [
        ("at rest", false, [width, height]),
        ("moving", true, [width / 2, height / 2]),
    ] {
        for _ in 0..WARM_UP {
            page.picture(size, moving)?;
        }
        // Four times: request to last byte; rendering with the copy to the host; coding; the rest, which is waits and
        // sending.
        let mut times: [Vec<f64>; 4] = Default::default();
        let mut bytes = 0;
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(seconds.into()) {
            let asked = Instant::now();
            let came = page.picture(size, moving)?;
            let whole = asked.elapsed().as_secs_f64() * 1e3;
            bytes = came.bytes;
            let rest = whole - came.rendering_ms - came.coding_ms;
            let parts = [whole, came.rendering_ms, came.coding_ms, rest];
            for (times, part) in times.iter_mut().zip(parts) {
                times.push(part);
            }
        }
        let rate = times[0].len() as f64 / started.elapsed().as_secs_f64();
        for times in &mut times {
            times.sort_by(f64::total_cmp);
        }
        let at = |which: usize, part: f64| {
            let times = &times[which];
            times[((times.len() - 1) as f64 * part) as usize]
        };
        println!(
            "{name}: {}x{}, median {:.1} ms, p95 {:.1} ms, {rate:.1} pictures a second, the last of {} kB; \
             rendering {:.1} ms, coding {:.1} ms, waits and sending {:.1} ms",
            size[0],
            size[1],
            at(0, 0.5),
            at(0, 0.95),
            bytes / 1000,
            at(1, 0.5),
            at(2, 0.5),
            at(3, 0.5),
        );
    }
    Ok(())
}

/// Data received with a frame.
struct Came {
    id: u32,
    bytes: usize,
    rendering_ms: f64,
    coding_ms: f64,
}

/// Client that uses the viewer's protocol.
struct Page {
    socket: WebSocket<TcpStream>,
    id: u32,
    /// Stage that the server sent, with the first camera.
    stage: Value,
}

impl Page {
    fn open(url: &str) -> Result<Self> {
        let wrong = || {
            Error::input("this is no address of a viewer").hint("give it as dapple has printed it")
        };
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, token) = rest.split_once("/?token=").ok_or_else(wrong)?;
        let port = host.rsplit(':').next().ok_or_else(wrong)?;
        let broken = |e: &dyn std::fmt::Display| {
            Error::unsupported(format!("the viewer does not answer: {e}"))
        };
        let request = format!("ws://{host}/ws").into_client_request();
        let mut request = request.map_err(|e| broken(&e))?;
        for (name, value) in [
            ("Cookie", format!("dapple_{port}={token}")),
            ("Origin", format!("http://{host}")),
        ] {
            let value = value.parse().map_err(|_| wrong())?;
            request.headers_mut().insert(name, value);
        }
        let stream = TcpStream::connect(host).map_err(|e| broken(&e))?;
        stream.set_nodelay(true).map_err(|e| broken(&e))?;
        let (socket, _) = tungstenite::client(request, stream).map_err(|e| broken(&e))?;
        let mut page = Self {
            socket,
            id: 0,
            stage: Value::Null,
        };
        while page.stage.is_null() {
            page.read()?;
        }
        Ok(page)
    }

    /// Requests a frame of another side of the scene, waits for its last byte and returns it.
    fn picture(&mut self, [width, height]: [u32; 2], moving: bool) -> Result<Came> {
        self.id += 1;
        let turn = f64::from(self.id) * 0.01;
        let half = turn / 2.0;
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let (centre, distance) = (&self.stage["centre"], number(&self.stage["distance"]));
        let look = json!({
            "type": "look", "id": self.id, "width": width, "height": height, "focal": 1.0,
            "moving": moving, "rotation": [half.cos(), 0.0, half.sin(), 0.0],
            "position": [
                number(&centre[0]) + distance * turn.sin(),
                number(&centre[1]),
                number(&centre[2]) - distance * turn.cos(),
            ],
        });
        self.send(look.to_string())?;
        loop {
            if let Some(came) = self.read()? {
                self.send(json!({"type": "shown", "id": came.id}).to_string())?;
                // Other frames are of splats that have changed.
                if came.id == self.id {
                    return Ok(came);
                }
            }
        }
    }

    fn send(&mut self, text: String) -> Result<()> {
        let sent = self.socket.send(Message::Text(text.into()));
        sent.map_err(|e| Error::unsupported(format!("the viewer has gone: {e}")))
    }

    /// Reads a message. For a frame, returns its data.
    fn read(&mut self) -> Result<Option<Came>> {
        let message = self.socket.read();
        let message =
            message.map_err(|e| Error::unsupported(format!("the viewer has gone: {e}")))?;
        match message {
            Message::Binary(bytes) => {
                let number = |i: usize| {
                    let word = bytes.get(4 * i..).and_then(|rest| rest.first_chunk::<4>());
                    u32::from_le_bytes(word.copied().unwrap_or_default())
                };
                Ok(Some(Came {
                    id: number(0),
                    bytes: bytes.len(),
                    rendering_ms: f64::from(number(3)) / 1e3,
                    coding_ms: f64::from(number(4)) / 1e3,
                }))
            }
            Message::Text(text) => {
                let said: Value = serde_json::from_str(text.as_str()).unwrap_or_default();
                if said["type"] == "stage" {
                    self.stage = said;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

/// Serves a ball of Gaussians from a thread of its own.
fn serve() -> Result<String> {
    let viewer = Viewer::start(&ViewerOptions {
        port: Some(0),
        ..ViewerOptions::default()
    })?;
    viewer.show(Stage::titled("a ball"));
    let url = viewer.url().to_owned();
    let mut splats = Splats::empty(0);
    for i in 0..2000 {
        let (turn, height) = (2.4 * i as f32, i as f32 / 1000.0 - 1.0);
        let radius = (1.0 - height * height).max(0.0).sqrt();
        let mean = [radius * turn.cos(), height, radius * turn.sin()];
        splats.means.push(mean);
        splats.scales.push([-3.0; 3]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(2.0);
        splats.sh0.push([height, 0.5, -height]);
    }
    let mut engine = CpuEngine::new(CpuOptions { threads: None })?;
    engine.upload(&splats, None)?;
    std::thread::spawn(move || {
        loop {
            if let Some(request) = viewer.next(Duration::from_secs(1)) {
                let picture = request.picture(&mut engine, &RenderSettings::default());
                viewer.answer(&request, picture);
            }
        }
    });
    Ok(url)
}

//! A viewer with the CPU engine behind it, and pages that speak its protocol over its real socket.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test binary uses its part")]

use dapple_engine::{Engine, EngineExt, RenderSettings};
use dapple_scene::{Camera, Photo, Pose, Splats};
use dapple_viewer::export::{self, PageOptions};
use dapple_viewer::{CameraEntry, EditSession, Effect, SaveTo, Stage, Viewer, ViewerOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// Viewer with a thread that renders frames on a CPU engine.
pub struct Fixture {
    pub viewer: Arc<Viewer>,
    ended: Arc<AtomicBool>,
    answering: Option<JoinHandle<Vec<u8>>>,
}

pub fn splats() -> Splats {
    let mut splats = Splats::empty(0);
    for i in 0..40 {
        let at = i as f32 * 0.05 - 1.0;
        splats.means.push([at, 0.3 * at, 0.2 * (i % 5) as f32]);
        splats.scales.push([-2.5; 3]);
        splats.quats.push([1.0, 0.0, 0.0, 0.0]);
        splats.opacities.push(2.0);
        splats.sh0.push([1.0, 0.1 * (i % 7) as f32, -1.0]);
    }
    splats
}

pub fn one_thread() -> dapple_cpu::CpuOptions {
    dapple_cpu::CpuOptions { threads: Some(1) }
}

pub fn camera() -> Camera {
    let translation = glam::DVec3::new(0.0, 0.0, 4.0);
    Camera::pinhole(
        64,
        48,
        60.0,
        Pose::from_wxyz([1.0, 0.0, 0.0, 0.0], translation),
    )
}

impl Fixture {
    pub fn start() -> Self {
        Self::start_with(None, ViewerOptions::default().patience)
    }

    /// Starts a viewer that closes silent connections after this time.
    pub fn impatient(patience: Duration) -> Self {
        Self::start_with(None, patience)
    }

    /// Starts a viewer with splats that pages may edit and save there.
    pub fn editing(save_to: SaveTo) -> Self {
        Self::start_with(Some(save_to), ViewerOptions::default().patience)
    }

    fn start_with(save_to: Option<SaveTo>, patience: Duration) -> Self {
        // The system chooses the port: tests run at the same time.
        let options = ViewerOptions {
            port: Some(0),
            patience,
            ..ViewerOptions::default()
        };
        let viewer = Arc::new(Viewer::start(&options).unwrap());
        viewer.show(Stage {
            trains: true,
            cameras: vec![CameraEntry {
                name: "<b>one</b>.png".to_owned(),
                camera: camera(),
                photo: Some(Photo::from_rgb(64, 48, vec![100; 64 * 48 * 3]).into()),
                held_out: true,
                psnr: Some(20.0),
            }],
            edits: match &save_to {
                Some(_) => Ok(()),
                None => Stage::default().edits,
            },
            draws: match &save_to {
                Some(_) => Ok(()),
                None => Stage::default().draws,
            },
            ..Stage::titled("test")
        });
        let ended = Arc::new(AtomicBool::new(false));
        let (answers, stop) = (viewer.clone(), ended.clone());
        let answering = std::thread::spawn(move || {
            let mut engine = dapple_cpu::CpuEngine::new(one_thread()).unwrap();
            engine.upload(&splats(), None).unwrap();
            let settings = RenderSettings::default();
            let why = "nowhere".to_owned();
            let mut session = EditSession::new(splats(), save_to.ok_or(why));
            while !stop.load(Ordering::Relaxed) {
                for edit in answers.edits() {
                    let effect = session.apply(&edit.edit);
                    if matches!(effect, Ok(Effect::Shown)) {
                        let shown = session.shown().unwrap_or_else(|| session.splats().clone());
                        engine.upload(&shown, None).unwrap();
                        answers.changed();
                    }
                    answers.edited(&session.state());
                    answers.answer_edit(&edit, &effect);
                }
                if answers.wants_drawn() {
                    let options = PageOptions::default();
                    answers.answer_drawn(export::drawn(session.splats(), &options));
                }
                if let Some(request) = answers.next(Duration::from_millis(20)) {
                    answers.answer(&request, request.picture(&mut engine, &settings));
                }
            }
            let splats = engine.splats().unwrap();
            splats
                .means
                .as_flattened()
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect()
        });
        Self {
            viewer,
            ended,
            answering: Some(answering),
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.viewer.address()
    }

    pub fn token(&self) -> String {
        self.viewer.url().split("token=").nth(1).unwrap().to_owned()
    }

    pub fn cookie(&self) -> String {
        format!("dapple_0={}", self.token()).replace("_0", &format!("_{}", self.address().port()))
    }

    /// Sends a request and returns status line, headers and body.
    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        let mut request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request += &format!("Host: {}\r\n", self.address());
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        stream.write_all((request + "\r\n").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn connect_with(
        &self,
        cookie: &str,
        origin: &str,
        host: &str,
    ) -> Result<WebSocket<TcpStream>, String> {
        let mut request = format!("ws://{}/ws", self.address())
            .into_client_request()
            .unwrap();
        let headers = request.headers_mut();
        headers.insert("Cookie", cookie.parse().unwrap());
        headers.insert("Origin", origin.parse().unwrap());
        headers.insert("Host", host.parse().unwrap());
        let stream = TcpStream::connect(self.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        tungstenite::client(request, stream)
            .map(|(socket, _)| socket)
            .map_err(|e| e.to_string())
    }

    pub fn connect(&self) -> Page {
        let host = self.address().to_string();
        let socket = self.connect_with(&self.cookie(), &format!("http://{host}"), &host);
        Page(socket.unwrap())
    }

    /// Ends the viewer and returns the bytes of the engine's centres.
    pub fn end(mut self) -> Vec<u8> {
        self.ended.store(true, Ordering::Relaxed);
        self.answering.take().unwrap().join().unwrap()
    }
}

pub struct Page(pub WebSocket<TcpStream>);

impl Page {
    pub fn say(&mut self, text: &str) {
        self.0.send(Message::Text(text.into())).unwrap();
    }

    pub fn look(&mut self, id: u32, more: &str) {
        self.say(&format!(
            r#"{{"type":"look","id":{id},"width":64,"height":48,"position":[0,0,-4],"rotation":[1,0,0,0],"focal":1.25{more}}}"#
        ));
    }

    /// Returns the next frame: the number of its view request and its JPEG. Skips texts before it.
    pub fn picture(&mut self) -> (u32, Vec<u8>) {
        loop {
            if let Message::Binary(bytes) = self.0.read().unwrap() {
                let id = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                // Frames as small as these have one band.
                let bands = u32::from_le_bytes(bytes[28..32].try_into().unwrap());
                assert_eq!(bands, 1);
                return (id, bytes[36..].to_vec());
            }
        }
    }

    pub fn shown(&mut self, id: u32) {
        self.say(&format!(r#"{{"type":"shown","id":{id}}}"#));
    }

    /// Returns the next text of this type, and acknowledges frames before it.
    pub fn text(&mut self, kind: &str) -> serde_json::Value {
        loop {
            let value = self.next_text();
            if value["type"] == kind {
                return value;
            }
        }
    }

    /// Returns the next text message of any type.
    pub fn next_text(&mut self) -> serde_json::Value {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
                Message::Binary(bytes) => {
                    self.shown(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
                }
                _ => {}
            }
        }
    }
}

/// Breaks messages, in the same sequence each time (xorshift, Marsaglia 2003).
pub struct Mangler(u64);

impl Default for Mangler {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Mangler {
    fn next(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// Returns an ASCII message with up to `most` of its letters replaced, by characters of JSON or by any.
    pub fn mangled(&mut self, good: &str, most: u64) -> String {
        let mut bytes = good.as_bytes().to_vec();
        for _ in 0..=self.next(most) {
            let at = self.next(bytes.len() as u64) as usize;
            bytes[at] = match self.next(3) {
                0 => b'9',
                1 => b"{}[]\":,-e."[self.next(10) as usize],
                _ => 32 + self.next(95) as u8,
            };
        }
        String::from_utf8(bytes).unwrap()
    }
}

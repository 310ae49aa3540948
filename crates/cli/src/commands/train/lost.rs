//! Device loss during a run with viewers: the pages receive a message, and the run ends with the last saved state.

use super::{Job, Wall};
use crate::console::Console;
use crate::options::DeviceOptions;
use crate::viewing::ViewOptions;
use dapple::contract::{
    DensifyPlan, DepthSample, ImageDerivative, OptimizerState, Rendered, Report, StepSettings,
    TrainView, ViewId, ViewState,
};
use dapple::contract::{Engine, Gradients, RenderSettings};
use dapple::scene::{Camera, Error, Result, Splats};
use dapple::synth::SynthOptions;
use dapple::train::{Preset, RunFolder, RunOrigin};
use std::any::Any;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tungstenite::Message;
use tungstenite::client::IntoClientRequest;

/// CPU engine that fails once its device is marked as lost.
struct Lossy {
    engine: Box<dyn Engine>,
    lost: Arc<AtomicBool>,
}

impl Lossy {
    fn there(&mut self) -> Result<&mut dyn Engine> {
        match self.lost.load(Ordering::Relaxed) {
            true => Err(Error::unsupported("the device is lost").at("a test")),
            false => Ok(self.engine.as_mut()),
        }
    }
}

impl Engine for Lossy {
    fn description(&self) -> String {
        self.engine.description()
    }
    fn device_handle(&self) -> Option<Box<dyn Any>> {
        self.engine.device_handle()
    }
    fn upload(&mut self, splats: &Splats, state: Option<&OptimizerState>) -> Result<()> {
        self.there()?.upload(splats, state)
    }
    fn download(&mut self) -> Result<(Splats, OptimizerState)> {
        self.there()?.download()
    }
    fn view_state(&mut self) -> Result<ViewState> {
        self.there()?.view_state()
    }
    fn add_views(&mut self, views: Vec<TrainView>) -> Result<Vec<ViewId>> {
        self.there()?.add_views(views)
    }
    fn supervise_depth(&mut self, view: ViewId, samples: Vec<DepthSample>) -> Result<()> {
        self.there()?.supervise_depth(view, samples)
    }
    fn render(&mut self, camera: &Camera, settings: &RenderSettings) -> Result<Rendered> {
        self.there()?.render(camera, settings)
    }
    fn step(&mut self, view: ViewId, settings: &StepSettings) -> Result<()> {
        self.there()?.step(view, settings)
    }
    fn densify(&mut self, plan: &DensifyPlan) -> Result<()> {
        self.there()?.densify(plan)
    }
    fn finish(&mut self) -> Result<()> {
        self.there()?.finish()
    }
    fn poll(&mut self) -> Result<Vec<Report>> {
        self.there()?.poll()
    }
    fn differentiate(
        &mut self,
        camera: &Camera,
        settings: &RenderSettings,
        derivative: &ImageDerivative<'_, f32>,
    ) -> Result<Gradients<f32>> {
        self.there()?.differentiate(camera, settings, derivative)
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
    let engine = Lossy {
        engine: device.engine(&console).unwrap(),
        lost: Arc::clone(&lost),
    };
    let view = ViewOptions {
        view: true,
        view_share: 0.9,
        host: None,
        port: Some(0),
        snapshots: Some(0),
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
        background_is_open: false,
        launch: RunOrigin::default(),
        view: &view,
        device: &device,
    };
    let to = (RunFolder::create(&out).unwrap(), Some(viewer));
    let ended = super::train_shown(job, config, Box::new(engine), to, Wall::start(), &console);
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

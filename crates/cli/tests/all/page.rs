//! Pages of the viewer: a client for its protocol, and Chromium driven through its debugging port.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test binary uses its part")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::client::IntoClientRequest;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

#[allow(
    dead_code,
    reason = "of the reports' checks only the browser is found here"
)]
use crate::chromium as browser;

/// A program that serves a page, and its output so far.
pub struct Served {
    pub child: Child,
    pub url: String,
    rest: Option<std::thread::JoinHandle<String>>,
}

impl Served {
    /// Starts a `dapple` command and waits for the address that it prints.
    pub fn start(command: &mut Command) -> Self {
        let mut this = Self {
            child: command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
            url: String::new(),
            rest: None,
        };
        let mut lines = BufReader::new(this.child.stderr.take().unwrap());
        let mut said = String::new();
        while this.url.is_empty() {
            let mut line = String::new();
            let read = lines.read_line(&mut line).unwrap();
            said += &line;
            assert!(read > 0, "it ended without an address:\n{said}");
            if let Some(url) = line.trim().strip_prefix("viewer: open ") {
                this.url = url.to_owned();
            }
        }
        this.rest = Some(std::thread::spawn(move || {
            let mut text = String::new();
            let _ = lines.read_to_string(&mut text);
            said + &text
        }));
        this
    }

    pub fn host(&self) -> String {
        let rest = self.url.strip_prefix("http://").unwrap();
        rest.split('/').next().unwrap().to_owned()
    }

    /// Opens a page that uses the viewer's protocol.
    pub fn page(&self) -> Page {
        let host = self.host();
        let token = self.url.split("token=").nth(1).unwrap();
        let port = host.rsplit(':').next().unwrap();
        let mut request = format!("ws://{host}/ws").into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("Cookie", format!("dapple_{port}={token}").parse().unwrap());
        headers.insert("Origin", format!("http://{host}").parse().unwrap());
        let stream = TcpStream::connect(&host).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        Page(tungstenite::client(request, stream).unwrap().0)
    }

    /// Sends Ctrl-C.
    pub fn interrupt(&self) {
        let process = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &process]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for the end; returns exit code and stderr.
    pub fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, self.rest.take().unwrap().join().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Client for the viewer's protocol.
pub struct Page(WebSocket<TcpStream>);

impl Page {
    pub fn say(&mut self, message: &Value) -> bool {
        let text = message.to_string();
        self.0.send(Message::Text(text.into())).is_ok()
    }

    /// Requests a frame from a position around the scene; returns `false` if the connection has ended.
    pub fn look(&mut self, id: u32, turn: f64) -> bool {
        let half = turn / 2.0;
        let rotation = [half.cos(), 0.0, half.sin(), 0.0];
        self.say(&json!({
            "type": "look", "id": id, "width": 64, "height": 48, "focal": 1.0, "moving": true,
            "position": [3.0 * turn.sin(), -0.5, -3.0 * turn.cos()], "rotation": rotation,
        }))
    }

    /// Returns the number of the next frame, after passing each text before it to `text`; `None` if the connection has
    /// ended.
    pub fn picture(&mut self, mut text: impl FnMut(Value)) -> Option<u32> {
        loop {
            match self.0.read().ok()? {
                Message::Binary(bytes) => {
                    let id = u32::from_le_bytes(bytes[..4].try_into().unwrap());
                    self.say(&json!({"type": "shown", "id": id}));
                    return Some(id);
                }
                Message::Text(said) => text(serde_json::from_str(said.as_str()).unwrap()),
                _ => {}
            }
        }
    }
}

impl Page {
    /// Returns the next text for which the predicate holds.
    #[track_caller]
    pub fn told(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(
                Instant::now() < until,
                "the message has not come in a minute"
            );
            if let Message::Text(said) = self.0.read().unwrap() {
                let value: Value = serde_json::from_str(said.as_str()).unwrap();
                if wanted(&value) {
                    return value;
                }
            }
        }
    }
}

/// Returns the path of Chromium, or prints a note if it is missing.
pub fn chromium() -> Option<PathBuf> {
    let found = browser::find().unwrap();
    if found.is_none() {
        eprintln!(
            "SKIPPED: the page is NOT opened: no Chromium here. Install it, or name it in {}",
            browser::VARIABLE
        );
    }
    found
}

/// Size of the window.
const WINDOW: &str = "--window-size=1000,700";
/// Kernels of a page that run on the CPU take seconds a picture: a small window is drawn sooner.
const SMALL_WINDOW: &str = "--window-size=560,420";

/// Chromium with one page.
pub struct Browser {
    child: Child,
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: String,
    next: u64,
    /// Faults in the page: exceptions, errors of its console and of its requests.
    pub wrong: Vec<String>,
}

impl Browser {
    /// Opens Chromium with a profile in `scratch`.
    pub fn open(chromium: &Path, scratch: &Path) -> Self {
        Self::open_with(chromium, scratch, &["--disable-gpu", WINDOW])
    }

    /// Opens Chromium with WebGL on the CPU, otherwise as [`Self::open`].
    pub fn open_drawing(chromium: &Path, scratch: &Path) -> Self {
        let options = [
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
            WINDOW,
        ];
        Self::open_with(chromium, scratch, &options)
    }

    /// Opens Chromium with WebGL and WebGPU, both on the CPU, otherwise as [`Self::open`].
    pub fn open_computing(chromium: &Path, scratch: &Path) -> Self {
        let options = [
            "--enable-unsafe-webgpu",
            "--use-webgpu-adapter=swiftshader",
            "--use-angle=swiftshader",
            // Without its own Vulkan, Chromium cannot show WebGPU output on a canvas.
            "--enable-features=Vulkan",
            "--use-vulkan=swiftshader",
            "--ignore-gpu-blocklist",
            SMALL_WINDOW,
        ];
        Self::open_with(chromium, scratch, &options)
    }

    fn open_with(chromium: &Path, scratch: &Path, options: &[&str]) -> Self {
        let child = Command::new(chromium)
            .args(["--headless=new", "--no-sandbox", "--no-first-run"])
            .args(options)
            .arg("--remote-debugging-port=0")
            .arg(format!("--user-data-dir={}", scratch.display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = child;
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let browser = loop {
            let mut line = String::new();
            assert!(
                lines.read_line(&mut line).unwrap() > 0,
                "Chromium does not start"
            );
            if let Some(address) = line.trim().strip_prefix("DevTools listening on ") {
                break address.to_owned();
            }
        };
        // Its later output is discarded.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let (socket, _) = tungstenite::connect(browser.as_str()).unwrap();
        let mut this = Self {
            child,
            socket,
            session: String::new(),
            next: 0,
            wrong: Vec::new(),
        };
        let targets = this.call("Target.getTargets", &json!({}));
        let targets = targets["targetInfos"].as_array().unwrap().clone();
        let page = targets.iter().find(|t| t["type"] == "page").unwrap();
        let session = this.call(
            "Target.attachToTarget",
            &json!({"targetId": page["targetId"], "flatten": true}),
        );
        this.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Runtime", "Log", "Page"] {
            this.call(&format!("{domain}.enable"), &json!({}));
        }
        this
    }

    /// Calls a method of the page, or of the browser before a page exists.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket
            .send(Message::Text(message.to_string().into()))
            .unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else {
                continue;
            };
            let answer: Value = serde_json::from_str(text.as_str()).unwrap();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            let is_wrong = match answer["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Log.entryAdded") => answer["params"]["entry"]["level"] == "error",
                Some("Runtime.consoleAPICalled") => answer["params"]["type"] == "error",
                _ => false,
            };
            if is_wrong {
                self.wrong.push(answer["params"].to_string());
            }
        }
    }

    /// Evaluates an expression in the page; waits for a promise's value.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let answer = self.call("Runtime.evaluate", &asked);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn wait_for(&mut self, expression: &str) {
        let until = Instant::now() + Duration::from_secs(90);
        while self.value(expression) != json!(true) {
            assert!(Instant::now() < until, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Selects an option of a list of the page.
    pub fn choose(&mut self, id: &str, value: &str) {
        self.value(&format!(
            "(() => {{ const s = document.getElementById('{id}'); s.value = '{value}'; \
             s.dispatchEvent(new Event('change')); }})()"
        ));
    }

    /// Sends a key press, like a keyboard.
    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key});
            // Keys with names, such as Escape, type no text.
            if kind == "keyDown" && key.chars().count() == 1 {
                event["text"] = json!(key);
            }
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Drags the mouse over the page.
    pub fn drag(&mut self, from: [f64; 2], to: [f64; 2]) {
        let mut mouse = |kind: &str, [x, y]: [f64; 2], buttons: u32| {
            let event = json!({
                "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", &event);
        };
        mouse("mousePressed", from, 1);
        for i in 1..=5 {
            let part = f64::from(i) / 5.0;
            mouse(
                "mouseMoved",
                [0, 1].map(|k| from[k] + part * (to[k] - from[k])),
                1,
            );
        }
        mouse("mouseReleased", to, 0);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

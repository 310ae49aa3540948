//! The server under browsers and other clients: over its real socket, with the CPU engine behind
//! it.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Fixture, Mangler, Page, camera, one_thread, splats};
use dapple_engine::{Engine, RenderSettings};
use dapple_scene::splat_file::NearestBy;
use dapple_viewer::{Command, SaveTo, Viewer, ViewerOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tungstenite::Message;

#[test]
fn the_token_becomes_a_cookie_and_nothing_is_served_without() {
    let fixture = Fixture::start();
    let entered = fixture.get(&format!("/?token={}", fixture.token()), &[]);
    assert!(entered.starts_with("HTTP/1.1 303"), "{entered}");
    assert!(entered.contains("HttpOnly; SameSite=Strict"), "{entered}");
    let cookie = fixture.cookie();
    let with = [("Cookie", cookie.as_str())];
    for path in [
        "/",
        "/style.css",
        "/main.js",
        "/controls.js",
        "/vectors.js",
        "/plots.js",
        "/edit.js",
        "/here.js",
        "/outline.js",
        "/panel.js",
        "/run.js",
        "/export/painter.js",
        "/photo/0",
    ] {
        assert!(fixture.get(path, &[]).starts_with("HTTP/1.1 403"), "{path}");
        let answer = fixture.get(path, &with);
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(
            answer.contains("content-security-policy: default-src 'none'"),
            "{answer}"
        );
    }
    assert!(fixture.get("/?token=0123", &[]).starts_with("HTTP/1.1 403"));
    assert!(
        fixture
            .get("/", &[("Cookie", "dapple_1=0")])
            .starts_with("HTTP/1.1 403")
    );
    fixture.end();
}

#[test]
fn splats_come_to_pages_that_may_draw_them() {
    let fixture = Fixture::start();
    let cookie = fixture.cookie();
    let answer = fixture.get("/drawn", &[("Cookie", &cookie)]);
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(answer.contains("drawn by its engine alone"), "{answer}");
    fixture.end();
    let fixture = Fixture::editing(SaveTo {
        file: "a.ply".into(),
        recipe: "a.recipe.json".into(),
        overwrite: false,
        antialiased: false,
        origin: glam::DVec3::ZERO,
        moved: Default::default(),
        nearest: NearestBy::default(),
    });
    let cookie = fixture.cookie();
    assert!(fixture.get("/drawn", &[]).starts_with("HTTP/1.1 403"));
    let answer = fixture.get("/drawn", &[("Cookie", &cookie)]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let about = r#"{"background":[0.0,0.0,0.0],"kernels":null,"near":0.01}"#;
    assert!(answer.contains(about), "{answer}");
    fixture.end();
}

#[test]
fn no_path_reads_a_file() {
    let fixture = Fixture::start();
    let cookie = fixture.cookie();
    for path in [
        "/../Cargo.toml",
        "/..%2fCargo.toml",
        "/photo/..%2f..%2fetc%2fpasswd",
        "/photo/1",
        "/photo/-1",
        "/photo/99999999999999999999999",
        "//etc/passwd",
        "/etc/passwd",
    ] {
        let answer = fixture.get(path, &[("Cookie", &cookie)]);
        let refused = ["HTTP/1.1 404", "HTTP/1.1 400"]
            .iter()
            .any(|s| answer.starts_with(s));
        assert!(refused, "{path}: {answer}");
        assert!(
            !answer.contains("root:") && !answer.contains("[package]"),
            "{path}"
        );
    }
    fixture.end();
}

#[test]
fn other_hosts_and_other_pages_are_refused() {
    let fixture = Fixture::start();
    let (cookie, host) = (fixture.cookie(), fixture.address().to_string());
    let answer = fixture.get("/", &[("Cookie", &cookie), ("Host", "evil.example")]);
    assert!(answer.starts_with("HTTP/1.1 421"), "{answer}");
    let own = format!("http://{host}");
    assert!(fixture.connect_with(&cookie, &own, &host).is_ok());
    assert!(fixture.connect_with("dapple_1=2", &own, &host).is_err());
    assert!(
        fixture
            .connect_with(&cookie, "http://evil.example", &host)
            .is_err()
    );
    assert!(
        fixture
            .connect_with(&cookie, "http://evil.example", "evil.example")
            .is_err()
    );
    // Through a tunnel with another port.
    assert!(
        fixture
            .connect_with(&cookie, "http://localhost:9", "localhost:9")
            .is_ok()
    );
    fixture.end();
}

#[test]
fn only_pages_with_the_token_train_on() {
    let fixture = common::Fixture::start();
    fixture.viewer.report(&dapple_viewer::Status {
        step: 9,
        steps: 9,
        loss: 0.1,
        psnr: None,
        gaussians: 9,
        steps_per_second: 1.0,
        elapsed_seconds: 1.0,
        eta_seconds: None,
        memory_bytes: None,
        paused: false,
        note: None,
        train_on: Some(5),
    });
    let open = |cookie: Option<String>| {
        use tungstenite::client::IntoClientRequest;
        let host = fixture.address().to_string();
        let mut request = format!("ws://{host}/ws").into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("Origin", format!("http://{host}").parse().unwrap());
        if let Some(cookie) = cookie {
            headers.insert("Cookie", cookie.parse().unwrap());
        }
        let stream = std::net::TcpStream::connect(&host).unwrap();
        tungstenite::client(request, stream)
            .ok()
            .map(|(socket, _)| socket)
    };
    let port = fixture.address().port();
    assert!(open(None).is_none());
    assert!(open(Some(format!("dapple_{port}={}", "0".repeat(32)))).is_none());
    assert_eq!(fixture.viewer.train_on(), None);
    let mut page = open(Some(format!("dapple_{port}={}", fixture.token()))).unwrap();
    let text = r#"{"type":"train-on","steps":7}"#;
    page.send(tungstenite::Message::Text(text.into())).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let request = loop {
        if let Some(request) = fixture.viewer.train_on() {
            break request;
        }
        assert!(std::time::Instant::now() < until, "no request");
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert_eq!(request.steps, 7);
}

#[test]
fn a_port_that_is_taken_is_an_error_with_a_hint() {
    let fixture = Fixture::start();
    let options = ViewerOptions {
        port: Some(fixture.address().port()),
        ..ViewerOptions::default()
    };
    let error = Viewer::start(&options).unwrap_err();
    assert!(
        error.hint_text().unwrap().contains("another program"),
        "{error}"
    );
    fixture.end();
}

#[test]
fn a_look_brings_the_picture_that_the_engine_renders() {
    let fixture = Fixture::start();
    let mut page = fixture.connect();
    let stage = page.text("stage");
    assert_eq!(stage["cameras"][0]["name"], "<b>one</b>.png");
    for (id, more) in [
        (1, ""),
        (2, r#","show":"depth""#),
        (3, r#","show":"normals","moving":true"#),
        (4, r#","show":"alpha""#),
        (5, r#","show":"error","through":0"#),
    ] {
        page.look(id, more);
        let (shown, jpeg) = page.picture();
        assert_eq!(shown, id);
        let image = image::load_from_memory(&jpeg).unwrap().into_rgb8();
        assert_eq!(image.dimensions(), (64, 48));
        let differs = image.pixels().any(|p| p != image.get_pixel(0, 0));
        assert!(differs, "{more}: all pixels are equal");
        page.shown(id);
    }
    // Its colours are those of a render, except for JPEG's error.
    page.look(6, "");
    let image = image::load_from_memory(&page.picture().1)
        .unwrap()
        .into_rgb8();
    let mut engine = dapple_cpu::CpuEngine::new(one_thread()).unwrap();
    engine.upload(&splats(), None).unwrap();
    let rendered = engine
        .render(&camera(), &RenderSettings::default())
        .unwrap();
    let error: f32 = image
        .as_raw()
        .iter()
        .zip(&rendered.rgb)
        .map(|(&a, &b)| (f32::from(a) / 255.0 - b.clamp(0.0, 1.0)).abs())
        .sum::<f32>()
        / rendered.rgb.len() as f32;
    assert!(error < 0.02, "{error}");
    // Without a photo there is nothing to compare with: the page receives an error.
    page.shown(6);
    page.look(7, r#","show":"error""#);
    assert!(
        page.text("error")["hint"]
            .as_str()
            .unwrap()
            .contains("photo")
    );
    page.look(8, "");
    assert_eq!(page.picture().0, 8);
    fixture.end();
}

#[test]
fn hostile_messages_harm_nothing() {
    let fixture = Fixture::start();
    let mut page = fixture.connect();
    page.text("stage");
    let mut mangler = Mangler::default();
    let good = r#"{"type":"look","id":1,"width":64,"height":48,"position":[0,0,-4],"rotation":[1,0,0,0],"focal":1.25}"#;
    for i in 0..1000 {
        page.say(&mangler.mangled(good, 4));
        if i % 100 == 0 {
            page.say(r#"{"type":"run","command":"step"}"#);
            page.say(&"[".repeat(4000));
        }
    }
    drop(page);
    // Too long a message ends the connection, and nothing else.
    let mut long = fixture.connect();
    let _ = long.0.send(Message::Text("x".repeat(100_000).into()));
    let gone = std::iter::repeat_with(|| long.0.read())
        .take(50)
        .any(|read| read.is_err());
    assert!(gone, "a message of 100 kB is let in");
    let mut after = fixture.connect();
    after.look(77, "");
    assert_eq!(after.picture().0, 77);
    assert!(
        fixture
            .viewer
            .commands()
            .iter()
            .all(|&c| c == Command::Step)
    );
    drop(after);
    let means: Vec<u8> = splats()
        .means
        .as_flattened()
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    assert_eq!(fixture.end(), means, "looking has changed the splats");
}

#[test]
fn pages_that_do_not_read_or_vanish_hold_up_no_other() {
    let fixture = Fixture::start();
    let mut stuck = fixture.connect();
    let mut lost = fixture.connect();
    for id in 0..200 {
        stuck.look(id, "");
        lost.look(id, "");
    }
    // One page never reads; the other closes in the middle of a frame.
    drop(lost);
    let mut page = fixture.connect();
    let start = Instant::now();
    for id in 0..20 {
        page.look(id, "");
        assert_eq!(page.picture().0, id);
        page.shown(id);
    }
    assert!(start.elapsed() < Duration::from_secs(20));
    drop(page);
    let until = Instant::now() + Duration::from_secs(10);
    while fixture.viewer.pages() > 1 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        fixture.viewer.pages(),
        1,
        "those that have gone are forgotten"
    );
    drop(stuck);
    fixture.end();
}

#[test]
fn there_are_so_many_pages_and_no_more() {
    let fixture = Fixture::start();
    let pages: Vec<Page> = (0..8).map(|_| fixture.connect()).collect();
    let host = fixture.address().to_string();
    let ninth = fixture.connect_with(&fixture.cookie(), &format!("http://{host}"), &host);
    assert!(ninth.is_err_and(|e| e.contains("503")));
    drop(pages);
    fixture.end();
}

/// Returns true if the server closes the connection within ten seconds.
fn is_closed(stream: &mut TcpStream) -> bool {
    let patience = Some(Duration::from_secs(10));
    stream.set_read_timeout(patience).unwrap();
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn silent_connections_are_closed_and_pages_that_answer_pings_stay() {
    let fixture = Fixture::impatient(Duration::from_millis(400));
    let mut page = fixture.connect();
    let mut dead = fixture.connect();
    dead.text("stage");
    let connect = || TcpStream::connect(fixture.address()).unwrap();
    let (mut silent, mut slow) = (connect(), connect());
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").unwrap();
    // A connection that has a cookie, and is idle after its first request.
    let mut idle = connect();
    let (host, cookie) = (fixture.address(), fixture.cookie());
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n");
    idle.write_all(request.as_bytes()).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        // Reading answers pings. The other page stops reading.
        page.look(start.elapsed().as_millis() as u32, "");
        let (id, _) = page.picture();
        page.shown(id);
        std::thread::sleep(Duration::from_millis(50));
    }
    for (what, stream) in [
        ("silent", &mut silent),
        ("slow", &mut slow),
        ("idle", &mut idle),
    ] {
        assert!(is_closed(stream), "{what}");
    }
    assert_eq!(fixture.viewer.pages(), 1, "one page answers no ping");
    page.look(7, "");
    page.picture();
    drop((page, dead));
    fixture.end();
}

#[test]
fn connections_without_a_token_are_few_and_close_no_page() {
    let fixture = Fixture::start();
    let mut page = fixture.connect();
    page.text("stage");
    let connect = |_| TcpStream::connect(fixture.address()).unwrap();
    let mut strangers: Vec<TcpStream> = (0..200).map(connect).collect();
    // A new request with a cookie is served; the oldest stranger loses its place.
    let cookie = fixture.cookie();
    let answer = fixture.get("/", &[("Cookie", &cookie)]);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for stream in &mut strangers[..100] {
        assert!(is_closed(stream), "the oldest are closed");
    }
    page.look(1, "");
    assert_eq!(page.picture().0, 1);
    drop((page, strangers));
    fixture.end();
}

//! Opens a report in headless Chromium and reads the results that the page reports. Shared by this crate's tests, those
//! of the command line and `cargo xtask page`; needs nothing but `std`.
//!
//! 1. Chromium loads the page, lets its scripts run, and prints the resulting document.
//! 2. That is done for a desktop (1280 px) and for a phone (375 px). A window of Chromium is never narrower than 500
//!    px: the phone is a frame of that size in a page that copies the report's attributes.
//! 3. From the root's attributes: drawn to the end, no script error, no request, no wider than its window, headings in
//!    order. From each section's: filled, or absent with a reason.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Environment variable with the path of Chromium, if it is not on the `PATH`.
pub const VARIABLE: &str = "DAPPLE_CHROMIUM";
/// Environment variable with a list of requirements; with `chromium` in it, a missing browser is a failure.
pub const REQUIRED: &str = "DAPPLE_REQUIRE";

/// Sections that every report has, in order.
pub const SECTIONS: [&str; 16] = [
    "summary",
    "findings",
    "comparison",
    "steps",
    "stages",
    "kernels",
    "host",
    "device",
    "timeline",
    "roofline",
    "heat",
    "flamegraph",
    "counters",
    "tables",
    "configuration",
    "method",
];

/// Widths of the checks: name, pixels across, and true for a frame.
const VIEWS: [(&str, u32, bool); 2] = [("desk", 1280, false), ("phone", 375, true)];
/// Longer than any page takes: only a browser that hangs reaches it.
const PATIENCE: Duration = Duration::from_secs(180);

/// Returns the browser, if there is one: the one named by [`VARIABLE`], or a usual name on the `PATH`.
///
/// # Errors
/// If there is none although [`REQUIRED`] names `chromium`.
pub fn find() -> Result<Option<PathBuf>, String> {
    let named = std::env::var_os(VARIABLE)
        .filter(|name| !name.is_empty())
        .map(PathBuf::from);
    let usual = ["chromium", "chromium-browser", "google-chrome"].map(PathBuf::from);
    let found = named.into_iter().chain(usual).find(|program| {
        let version = Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    });
    if found.is_none() && dapple_base::test_requirements::requires("chromium") {
        return Err(format!(
            "Chromium is not there and {REQUIRED} names it\nhint: install `chromium`, or name it in {VARIABLE}"
        ));
    }
    Ok(found)
}

/// Opens a report and checks it. Returns the sections without data, which show a reason. `scratch` is a folder that the
/// browser may fill.
///
/// # Errors
/// All faults, a line each.
pub fn check(browser: &Path, page: &Path, scratch: &Path) -> Result<Vec<String>, String> {
    let source = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
    let mut wrong = Vec::new();
    if !source.contains("content=\"default-src 'none';") {
        wrong.push("the page does not forbid itself the network".to_owned());
    }
    let mut absent = Vec::new();
    for (view, width, framed) in VIEWS {
        let folder = scratch.join(view);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let opened = if framed {
            let file = folder.join("frame.html");
            std::fs::write(&file, frame(&source, width))
                .map_err(|e| format!("{}: {e}", file.display()))?;
            file
        } else {
            std::path::absolute(page).map_err(|e| format!("{}: {e}", page.display()))?
        };
        let dom = dump(browser, &opened, width, &folder)?;
        absent = judge(&dom, &mut |what| wrong.push(format!("{view}: {what}")));
    }
    if wrong.is_empty() {
        Ok(absent)
    } else {
        Err(format!("{}:\n  {}", page.display(), wrong.join("\n  ")))
    }
}

/// Returns a page with the report in a frame as wide as a phone, which copies the report's attributes.
fn frame(report: &str, width: u32) -> String {
    let quoted = report.replace('&', "&amp;").replace('"', "&quot;");
    format!(
        "<!doctype html><html><head><meta charset=\"utf-8\"></head><body style=\"margin:0\">\
         <iframe style=\"border:0;width:{width}px;height:800px\" srcdoc=\"{quoted}\"></iframe><script>\n\
         const frame = document.querySelector('iframe');\n\
         const look = setInterval(() => {{\n\
           const page = frame.contentDocument;\n\
           if (page?.documentElement?.dataset.ready !== 'true') return;\n\
           clearInterval(look);\n\
           Object.assign(document.documentElement.dataset, page.documentElement.dataset);\n\
           for (const s of page.querySelectorAll('section[data-section]')) {{\n\
             const copy = document.body.appendChild(document.createElement('section'));\n\
             Object.assign(copy.dataset, s.dataset);\n\
           }}\n\
         }}, 50);\n</script></body></html>\n"
    )
}

/// Returns the document after its scripts have run.
fn dump(browser: &Path, page: &Path, width: u32, scratch: &Path) -> Result<String, String> {
    let mut child = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--disable-background-networking"])
        .args(["--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND"])
        // The flamegraph's frame in this page's process: virtual time does not wait for another.
        .arg("--disable-features=IsolateSandboxedIframes")
        .args(["--virtual-time-budget=20000", "--dump-dom"])
        .arg(format!("--window-size={width},800"))
        .arg(format!(
            "--user-data-dir={}",
            scratch.join("user").display()
        ))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", browser.display()))?;
    let mut pipe = child.stdout.take().ok_or("Chromium has no output")?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.read_to_end(&mut bytes);
        // The receiver is gone if it took too long.
        let _ = sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned()));
    });
    let answer = receiver.recv_timeout(PATIENCE);
    if answer.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| format!("Chromium: {e}"))?;
    match answer {
        Ok(Ok(dom)) if status.success() => Ok(dom),
        Ok(Ok(_)) => Err(format!("Chromium failed on {}: {status}", page.display())),
        Ok(Err(e)) => Err(format!("cannot read what Chromium prints: {e}")),
        Err(_) => Err(format!("Chromium hangs on {}", page.display())),
    }
}

/// Passes each fault to `wrong`; returns the sections that are absent.
fn judge(dom: &str, wrong: &mut impl FnMut(String)) -> Vec<String> {
    let root = tag(dom, "<html").unwrap_or_default();
    let root_says = |name: &str| attribute(root, name);
    if root_says("data-ready").as_deref() != Some("true") {
        wrong("the page was not drawn to its end".to_owned());
    }
    match root_says("data-errors").as_deref() {
        Some("[]") => {}
        Some(errors) => wrong(format!("script errors: {errors}")),
        None => wrong("the page does not report script errors".to_owned()),
    }
    if root_says("data-requests").as_deref() != Some("0") {
        wrong(format!("requests: {:?}", root_says("data-requests")));
    }
    if root_says("data-headings").as_deref() != Some("ordered") {
        wrong("headings skip a level".to_owned());
    }
    let number = |name| root_says(name).and_then(|text| text.parse::<f64>().ok());
    match (number("data-width"), number("data-window")) {
        (Some(width), Some(window)) if width <= window => {}
        (width, window) => wrong(format!("{width:?} px wide in a window of {window:?} px")),
    }
    let mut absent = Vec::new();
    for section in SECTIONS {
        let begin = format!("data-section=\"{section}\"");
        let found = dom
            .match_indices("<section")
            .filter_map(|(at, _)| tag(&dom[at..], "<section"))
            .find(|tag| tag.contains(&begin));
        match found
            .and_then(|tag| attribute(tag, "data-filled"))
            .as_deref()
        {
            Some("true") => {}
            Some("absent") => absent.push(section.to_owned()),
            other => wrong(format!("section `{section}`: {other:?} instead of filled")),
        }
    }
    absent
}

/// Returns the first tag that begins like this, up to its `>`.
fn tag<'a>(dom: &'a str, begin: &str) -> Option<&'a str> {
    let from = dom.find(begin)?;
    let mut quoted = false;
    let length = dom[from..].find(|c| {
        quoted ^= c == '"';
        c == '>' && !quoted
    })?;
    Some(&dom[from..from + length])
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    Some(value.replace("&quot;", "\"").replace("&amp;", "&"))
}

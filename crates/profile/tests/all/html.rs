//! Tests of the page as text, and in Chromium.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use dapple_profile::html::{Page, report_html};
use dapple_profile::profile::{Profile, Trace};
use std::path::Path;
use support::chromium;

fn full_page() -> String {
    let profile = support::full();
    let trace = support::full_trace(&profile);
    report_html(&Page {
        profile: &profile,
        trace: &trace,
        heat: Some(&support::heat_map()),
        flamegraph_svg: Some(support::FLAMEGRAPH),
        comparison: Some(&support::comparison()),
    })
}

fn minimal_page() -> String {
    report_html(&Page {
        profile: &support::minimal(),
        trace: &Trace::default(),
        heat: None,
        flamegraph_svg: None,
        comparison: None,
    })
}

fn data_of(html: &str) -> serde_json::Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(json).unwrap()
}

#[test]
fn the_data_comes_back_whole_whatever_names_hold() {
    let html = full_page();
    let data = data_of(&html);
    // Both through text: a number may lose its last bit when it is read.
    let text = serde_json::to_string(&support::full()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(
        data["profile"] == expected,
        "the profile is not the one that went in"
    );
    serde_json::from_value::<Profile>(data["profile"].clone()).unwrap();
    assert_eq!(data["flamegraph"], support::FLAMEGRAPH);
    assert_eq!(
        html.matches("</script>").count(),
        2,
        "a name ended a script"
    );
    assert!(html.contains("<h1>splats &lt;/script&gt;&lt;b&gt;&amp; \"co\" profile</h1>"));
}

#[test]
fn the_timeline_has_the_last_steps_alone() {
    let data = data_of(&full_page());
    let timeline = &data["timeline"];
    let spans = timeline["spans"].as_array().unwrap();
    let profile = support::full();
    let all = support::full_trace(&profile).spans.len();
    assert!(
        !spans.is_empty() && spans.len() < all,
        "{} of {all}",
        spans.len()
    );
    let begin = profile.steps[profile.steps.len() - 4].end_ns
        - profile.steps[profile.steps.len() - 4].duration_ns as i64;
    let origin = timeline["origin_ns"].as_i64().unwrap();
    for span in spans {
        let end = origin + span[3].as_i64().unwrap() + span[4].as_i64().unwrap();
        assert!(end > begin, "{span} ended before the last four steps began");
    }
    assert_eq!(timeline["tracks"][0]["device"], false);
    assert_eq!(timeline["tracks"][1]["device"], true);
}

#[test]
fn the_page_names_nothing_outside_itself() {
    for html in [full_page(), minimal_page()] {
        // Data and flamegraph may name namespaces; markup, style and scripts may not load anything.
        let (head, rest) = html
            .split_once("<script type=\"application/json\"")
            .unwrap();
        let (_, scripts) = rest.split_once("</script>").unwrap();
        for part in [head, scripts] {
            for word in [
                "src=\"",
                "href=\"http",
                "@import",
                "url(",
                "fetch(",
                "XMLHttpRequest",
                "import(",
            ] {
                assert!(!part.contains(word), "{word}");
            }
        }
        assert!(head.contains("default-src 'none'"));
        assert!(head.contains("<html lang=\"en\">"));
    }
}

fn browser() -> Option<std::path::PathBuf> {
    let browser = chromium::find().unwrap();
    if browser.is_none() {
        eprintln!(
            "SKIPPED: report.html is NOT opened: no Chromium here. Install it, or name it in {}",
            chromium::VARIABLE
        );
    }
    browser
}

/// Writes a page, opens it, and returns the sections that are absent.
fn open(browser: &Path, html: &str) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    std::fs::write(&page, html).unwrap();
    chromium::check(browser, &page, folder.path())
}

#[test]
fn chromium_draws_every_section_of_a_full_profile() {
    let Some(browser) = browser() else { return };
    let absent = open(&browser, &full_page()).unwrap();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn chromium_draws_the_least_profile_and_says_what_is_absent() {
    let Some(browser) = browser() else { return };
    let absent = open(&browser, &minimal_page()).unwrap();
    let expected: Vec<&str> = chromium::SECTIONS
        .into_iter()
        .filter(|name| !["summary", "steps", "configuration", "method"].contains(name))
        .collect();
    assert_eq!(absent, expected);
}

/// Each fault must be detected, or the two tests above prove nothing.
#[test]
fn chromium_sees_a_page_that_is_broken() {
    let Some(browser) = browser() else { return };
    let page = minimal_page();
    for (from, to, complaint) in [
        (
            "function drawSteps({ profile }, body) {",
            "function drawSteps() { throw new Error('planted');",
            "planted",
        ),
        (
            "function drawSteps({ profile }, body) {",
            "function drawSteps() { return;",
            "section `steps`: Some(\"empty\")",
        ),
        (
            "function drawSteps({ profile }, body) {",
            "function drawSteps({ profile }, body) { body.append(el('img', { src: 'https://example.org/a.png' }));",
            "forbidden request",
        ),
        (
            "function drawSteps({ profile }, body) {",
            "function drawSteps({ profile }, body) { body.style.width = '2000px';",
            "px wide in a window",
        ),
        ("'use strict';", "'use strict'; )", "not drawn to its end"),
        ("<h2 id=\"steps-title\">", "<h4>", "headings skip a level"),
    ] {
        let broken = page.replacen(from, to, 1);
        assert_ne!(broken, page, "{from}");
        let seen = open(&browser, &broken);
        let seen = seen.err().unwrap_or_default();
        assert!(seen.contains(complaint), "{complaint}: {seen}");
    }
}

/// Uses every control; a control that does not react is reported as a script error.
const EXERCISE: &str = r#"
function exercise() {
  const one = (selector) => document.querySelector(selector);
  const must = (what, holds) => { if (!holds) fail(`no reaction: ${what}`); };
  const canvas = one('#timeline canvas'), seen = () => canvas.toDataURL();
  const press = (name) => one(`#timeline button[aria-label="${name}"]`).click();
  const whole = seen();
  for (const name of ['Zoom in', 'Later', 'Earlier', 'Zoom out', 'Show the last step']) {
    const before = seen();
    press(name);
    must(name, seen() !== before);
  }
  press('Show all');
  must('Show all', seen() === whole);
  for (const key of ['+', '-', '+', 'ArrowRight', 'ArrowLeft', '0']) {
    const before = seen();
    canvas.dispatchEvent(new KeyboardEvent('keydown', { key, cancelable: true }));
    must(`key ${key}`, seen() !== before);
  }
  const box = canvas.getBoundingClientRect();
  const wheel = (ctrlKey) => canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -200, clientX: box.left + 90, ctrlKey, cancelable: true }));
  let before = seen();
  wheel(false);
  must('wheel that only scrolls past', seen() === before);
  wheel(true);
  must('wheel with Ctrl', seen() !== before);
  press('Show all');
  const point = (type, id, x, y, pointerType = 'touch') => {
    canvas.setPointerCapture = () => {};
    canvas.dispatchEvent(new PointerEvent(type, { pointerId: id, clientX: box.left + x, clientY: box.top + y, pointerType }));
  };
  before = seen();
  point('pointerdown', 1, 100, 60); point('pointerdown', 2, 140, 60);
  point('pointermove', 2, 260, 60); point('pointerup', 1, 100, 60); point('pointerup', 2, 260, 60);
  must('pinch', seen() !== before);
  before = seen();
  point('pointerdown', 1, 200, 60); point('pointermove', 1, 120, 60); point('pointerup', 1, 120, 60);
  must('drag', seen() !== before);
  press('Show all');
  const name = () => one('#timeline .reading code')?.textContent;
  for (let x = 2; x < box.width && !name(); x += 3) { point('pointerdown', 1, x, 120); point('pointerup', 1, x, 120); }
  must('tap on a span', name());

  const stages = () => [...document.querySelectorAll('#stages tbody th')].map((th) => th.textContent).join();
  const order = stages(), median = document.querySelectorAll('#stages thead button')[1];
  const by = [];
  for (let i = 0; i < 3; i++) { median.click(); by.push(stages()); }
  must('sort, largest first', by[0].startsWith('blend_backward,update'));
  must('sort, smallest first', by[1].startsWith('ranges,emit'));
  must('sort, as it was', by[2] === order);

  const slider = one('#opacity');
  slider.value = 10;
  slider.dispatchEvent(new Event('input'));
  must('opacity', one('#heat .stage canvas').style.opacity === '0.1');
  dispatchEvent(new Event('beforeprint'));
  must('print opens details', one('#findings details').open);
  dispatchEvent(new Event('afterprint'));
  must('and closes them', !one('#findings details').open);
}
"#;

#[test]
fn controls_do_what_they_say() {
    let Some(browser) = browser() else { return };
    let page = full_page().replacen(
        "root.dataset.ready = 'true';",
        &format!("exercise();\n  root.dataset.ready = 'true';\n{EXERCISE}"),
        1,
    );
    assert!(page.contains("must('pinch'"));
    open(&browser, &page).unwrap();
}

/// For manual checks: `DAPPLE_KEEP_PAGES=FOLDER cargo test --test html keep` writes both pages to that folder.
#[test]
fn keep_the_pages_where_asked() {
    let Some(folder) = std::env::var_os("DAPPLE_KEEP_PAGES") else {
        return;
    };
    let folder = Path::new(&folder);
    std::fs::write(folder.join("full.html"), full_page()).unwrap();
    std::fs::write(folder.join("minimal.html"), minimal_page()).unwrap();
}

//! User interface of the viewer's page: dialogs, the panel, legends, and small screens.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common;
use crate::page;

use common::{TRAIN, dapple, ok_in, small_capture};
use page::{Browser, Served, chromium};
use serde_json::json;

const SHOWN: &str = "Number(document.getElementById('picture')?.dataset.look) > 0";

/// Opens the page in a window of this size.
fn open(served: &Served, folder: &std::path::Path, width: u32, height: u32) -> Option<Browser> {
    let mut browser = Browser::open(&chromium()?, &folder.join(format!("profile-{width}")));
    resize(&mut browser, width, height);
    browser.call("Page.navigate", &json!({"url": served.url}));
    browser.wait_for(SHOWN);
    Some(browser)
}

fn resize(browser: &mut Browser, width: u32, height: u32) {
    let size =
        json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
    browser.call("Emulation.setDeviceMetricsOverride", &size);
}

/// Expression that is true if an element is displayed.
fn is_seen(id: &str) -> String {
    format!("document.getElementById('{id}').getClientRects().length > 0")
}

#[test]
fn keys_act_on_the_dialog_alone_while_it_is_open() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let view = ["view", "out", "--scene", "capture", "--port=0"];
    let served = Served::start(dapple().args(view).current_dir(folder.path()));
    let Some(mut browser) = open(&served, folder.path(), 1000, 700) else {
        return;
    };
    browser.key("?");
    browser.wait_for("document.getElementById('help').open");
    // The keys change neither the channel nor the tool.
    browser.key("2");
    browser.key("b");
    assert_eq!(
        browser.value("document.getElementById('show').value"),
        json!("rgb")
    );
    assert_eq!(
        browser.value("document.getElementById('sketch').hidden"),
        json!(true)
    );
    browser.key("Escape");
    browser.wait_for("!document.getElementById('help').open");
    browser.key("2");
    browser.wait_for("document.getElementById('show').value === 'depth'");
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn the_panel_can_be_hidden_and_photos_are_in_reach_on_small_screens() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let view = ["view", "out", "--scene", "capture", "--port=0"];
    let served = Served::start(dapple().args(view).current_dir(folder.path()));
    let Some(mut browser) = open(&served, folder.path(), 1280, 720) else {
        return;
    };
    for (width, height) in [(1280, 720), (800, 600), (390, 844)] {
        resize(&mut browser, width, height);
        browser.wait_for(&format!("innerWidth === {width}"));
        assert_eq!(
            browser.value("document.documentElement.scrollWidth"),
            json!(width)
        );
        // The list is on the first screen or one screen below it. The stepper over the frame goes through the photos.
        let top = browser.value("document.getElementById('list').getBoundingClientRect().top");
        assert!(
            top.as_f64().unwrap() < f64::from(height) * 1.2,
            "{width}: {top}"
        );
        assert_eq!(browser.value(&is_seen("stepper")), json!(true));
        let name = "document.getElementById('photo-name').textContent";
        let before = browser.value(name);
        browser.value("document.getElementById('photo-next').click()");
        assert_ne!(browser.value(name), before);
        browser.value("document.getElementById('panel-hide').click()");
        assert_eq!(browser.value(&is_seen("panel")), json!(false));
        browser.wait_for(&format!(
            "document.getElementById('view').clientWidth === {width}"
        ));
        browser.wait_for(&format!(
            "document.getElementById('view').clientHeight === {height}"
        ));
        browser.value("document.getElementById('panel-show').click()");
        assert_eq!(browser.value(&is_seen("panel")), json!(true));
        browser.key("f");
        browser.wait_for(&format!("!({})", is_seen("panel")));
        browser.key("f");
        browser.wait_for(&is_seen("panel"));
    }
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn errors_have_a_scale_and_differences_a_gain() {
    let folder = small_capture();
    ok_in(folder.path(), &TRAIN);
    let view = ["view", "out", "--scene", "capture", "--port=0"];
    let served = Served::start(dapple().args(view).current_dir(folder.path()));
    let Some(mut browser) = open(&served, folder.path(), 1000, 700) else {
        return;
    };
    assert_eq!(browser.value(&is_seen("scale")), json!(false));
    browser.choose("show", "error");
    browser.wait_for(&is_seen("scale"));
    let ends = "document.querySelector('#scale .ends').textContent";
    browser.wait_for(&format!("{ends}.includes('64 of 255 or more')"));
    browser.choose("show", "count");
    browser.wait_for(&format!("{ends}.includes('Gaussians')"));
    browser.choose("show", "rgb");
    browser.wait_for(&format!("!({})", is_seen("scale")));

    let filter = "getComputedStyle(document.getElementById('pictures')).filter";
    assert_eq!(browser.value(&is_seen("gain-row")), json!(false));
    browser.choose("compare", "difference");
    browser.wait_for(&is_seen("gain-row"));
    browser.choose("gain", "8");
    browser.wait_for(&format!("{filter} === 'brightness(8)'"));
    browser.choose("compare", "off");
    browser.wait_for(&format!("{filter} === 'brightness(1)'"));
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

#[test]
fn a_run_shows_its_progress_and_its_time() {
    let folder = small_capture();
    let train = [
        "train", "capture", "--preset", "m9", "--view", "--port=0", "-o", "out",
    ];
    let more = ["--steps=3000", "--view-share", "0.9"];
    let served = Served::start(dapple().args(train).args(more).current_dir(folder.path()));
    let Some(mut browser) = open(&served, folder.path(), 1000, 700) else {
        return;
    };
    browser.wait_for("document.getElementById('progress-bar').value > 0");
    let clock = "document.getElementById('clock').textContent";
    browser.wait_for(&format!(
        "/^elapsed \\d+:\\d\\d, ETA \\d+:\\d\\d$/.test({clock})"
    ));
    let button = "document.getElementById('pause').textContent";
    assert_eq!(browser.value(button), json!("Pause"));
    browser.key(" ");
    browser.wait_for(&format!("{button} === 'Resume'"));
    browser.wait_for("document.getElementById('progress').textContent.includes('paused')");
    browser.key(" ");
    browser.wait_for(&format!("{button} === 'Pause'"));
    assert!(browser.wrong.is_empty(), "{:?}", browser.wrong);
}

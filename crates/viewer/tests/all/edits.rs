//! Edits over the viewer's protocol, by well-behaved pages and others.

#![allow(clippy::unwrap_used)]

use crate::common;

use common::{Fixture, Mangler, Page};
use dapple_scene::NoProgress;
use dapple_scene::edit::{Editor, NoCapture, Recipe};
use dapple_scene::splat_file::{self, NearestBy};
use dapple_viewer::SaveTo;
use serde_json::{Value, json};
use std::path::Path;

/// Returns a view request that looks along +z at the row of Gaussians.
fn look() -> Value {
    json!({"id": 0, "width": 64, "height": 48, "position": [0, 0, -4], "rotation": [1, 0, 0, 0], "focal": 1.25})
}

fn save_to(folder: &Path) -> SaveTo {
    SaveTo {
        file: folder.join("new.ply"),
        recipe: folder.join("new.recipe.json"),
        overwrite: false,
        antialiased: false,
        origin: glam::DVec3::ZERO,
        moved: Default::default(),
        nearest: NearestBy::default(),
    }
}

impl Page {
    fn edit(&mut self, edit: &Value) {
        self.say(&json!({"type": "edit", "edit": edit}).to_string());
    }

    /// Sends an edit, and returns the state that follows.
    fn edited(&mut self, edit: &Value) -> Value {
        self.edit(edit);
        self.text("edit")
    }
}

fn polygon(how: &str, points: &Value) -> Value {
    json!({"select": {"how": how, "by": {"polygon": {"look": look(), "points": points}}}})
}

#[test]
fn a_page_selects_deletes_undoes_redoes_and_saves_what_replays_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let to = save_to(folder.path());
    let fixture = Fixture::editing(to.clone());
    let mut page = fixture.connect();
    assert_eq!(page.text("stage")["edits"], json!(true));
    // The left half of the frame: x below 0, twenty of forty.
    let left = json!([[0, 0], [32, 0], [32, 48], [0, 48]]);
    let state = page.edited(&polygon("new", &left));
    assert_eq!(
        (&state["gaussians"], &state["selected"]),
        (&json!(40), &json!(20))
    );
    // Tinted: redder than before, in the frame.
    let redness = |page: &mut Page, id| {
        page.look(id, "");
        let jpeg = loop {
            let (of, jpeg) = page.picture();
            page.shown(of);
            if of == id {
                break jpeg;
            }
        };
        let image = image::load_from_memory(&jpeg).unwrap();
        let pixels = image.into_rgb8();
        pixels
            .pixels()
            .map(|p| f64::from(p[0]) - f64::from(p[2]))
            .sum::<f64>()
    };
    let tinted = redness(&mut page, 1);
    page.edited(&json!("deselect"));
    let plain = redness(&mut page, 2);
    assert!(tinted != plain, "{tinted} {plain}");
    page.edited(&polygon("new", &left));
    let line = json!({"look": look(), "points": [[16, 19.5], [22, 21]], "radius": 2.5});
    page.edited(&json!({"select": {"how": "subtract", "by": {"stroke": line}}}));
    let state = page.edited(&json!("delete"));
    let left = state["gaussians"].as_u64().unwrap();
    assert!((21..40).contains(&left), "{state}");
    assert_eq!((&state["undo"], &state["redo"]), (&json!(1), &json!(0)));
    let state = page.edited(&json!("undo"));
    assert_eq!(state["gaussians"], 40);
    assert_eq!(state["selected"].as_u64().unwrap(), 40 - left);
    assert_eq!(page.edited(&json!("redo"))["gaussians"], left);
    let histogram = json!({"histogram": {"property": "x"}});
    page.edit(&histogram);
    let bins = page.text("histogram");
    // Nothing else is sent: a page requests its histogram after each edit state that it receives.
    for _ in 0..3 {
        page.edit(&histogram);
        assert_eq!(page.next_text(), bins);
    }
    let count: u64 = bins["all"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(count, left);
    let range = json!({"range": {"property": "x", "from": 0.5, "to": null}});
    assert!(
        page.edited(&json!({"select": {"how": "new", "by": range}}))["selected"].as_u64() > Some(5)
    );
    page.edited(&json!({"transform": {"degrees": [0, 0, 30], "factor": 1.1, "by": [0, 0.2, 0]}}));
    let said = page.edited(&json!("save"))["said"].clone();
    assert_eq!(said, "saved new.ply and new.recipe.json");
    // Another page receives the same state.
    assert_eq!(fixture.connect().text("edit")["gaussians"], left);
    let mut editor = Editor::new(common::splats());
    for action in Recipe::read(&to.recipe).unwrap().actions {
        editor.apply(&action, &mut NoCapture, &NoProgress).unwrap();
    }
    let again = folder.path().join("again.ply");
    splat_file::write(&again, editor.splats(), splat_file::Format::Ply).unwrap();
    assert_eq!(
        std::fs::read(&again).unwrap(),
        std::fs::read(&to.file).unwrap()
    );
    fixture.end();
}

#[test]
fn what_trains_is_not_edited() {
    let fixture = Fixture::start();
    let mut page = fixture.connect();
    assert_eq!(page.text("stage")["edits"], json!(false));
    page.edit(&json!("delete"));
    assert!(
        page.text("error")["what"]
            .as_str()
            .unwrap()
            .contains("cannot be edited")
    );
    assert!(fixture.viewer.edits().is_empty());
    fixture.end();
}

#[test]
fn an_edit_that_changes_nothing_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::editing(save_to(folder.path()));
    let mut page = fixture.connect();
    page.text("stage");
    for _ in 0..3 {
        assert_eq!(page.edited(&json!("deselect"))["selected"], json!(0));
    }
    fixture.end();
}

#[test]
fn hostile_edits_harm_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Fixture::editing(save_to(folder.path()));
    let mut page = fixture.connect();
    page.text("stage");
    let with = |change: Value| {
        let mut look = look();
        for (key, value) in change.as_object().unwrap() {
            look[key] = value.clone();
        }
        let points = json!([[0, 0], [64, 0], [64, 48]]);
        json!({"select": {"how": "new", "by": {"polygon": {"look": look, "points": points}}}})
    };
    let stroke = |points: Value, radius: Value| {
        let stroke = json!({"look": look(), "points": points, "radius": radius});
        json!({"select": {"how": "add", "by": {"stroke": stroke}}})
    };
    let moves = |degrees: Value, factor: Value, by: Value| json!({"transform": {"degrees": degrees, "factor": factor, "by": by}});
    let range = |range: Value| json!({"select": {"how": "new", "by": {"range": range}}});
    let bad = [
        polygon("new", &json!([])),
        polygon("new", &json!([[0, 0], [1, 1]])),
        polygon("new", &json!([[0, 0], [1, 1], [1e300, 2]])),
        polygon("new", &json!([[0, 0], [1, 1], [null, 2]])),
        polygon("replace", &json!([[0, 0], [1, 1], [1, 2]])),
        polygon("new", &json!(vec![[0; 2]; 5000])),
        with(json!({"rotation": [0, 0, 0, 0]})),
        with(json!({"position": [1e300, 0, 0]})),
        with(json!({"width": 0})),
        with(json!({"width": 1_000_000})),
        with(json!({"focal": 0})),
        with(json!({"focal": -1})),
        with(json!({"snapshot": 3})),
        with(json!({"path": "/etc/passwd"})),
        stroke(json!([[1, 1]]), json!(-1)),
        stroke(json!([[1, 1]]), json!(0)),
        stroke(json!([[1, 1]]), json!(1e300)),
        stroke(json!([[1, 1]]), json!(null)),
        stroke(json!([]), json!(1)),
        range(json!({"property": "weight", "from": 0})),
        range(json!({"property": "contribution", "from": 0})),
        range(json!({"property": "opacity"})),
        json!({"histogram": {"property": "contribution"}}),
        json!({"histogram": {"property": "../../x"}}),
        moves(json!([0, 0, 0]), json!(0), json!([0, 0, 0])),
        moves(json!([0, 0, 0]), json!(-1), json!([0, 0, 0])),
        moves(json!([0, 0, 0]), json!(1e300), json!([0, 0, 0])),
        moves(json!([0, 1e300, 0]), json!(1), json!([0, 0, 0])),
        moves(json!([0, 0, 0]), json!(1), json!([0, 0, -1e30])),
        moves(json!([0, 0]), json!(1), json!([0, 0, 0])),
        json!({"save": {"file": "/tmp/x.ply"}}),
        json!({"save": "/tmp/x.ply"}),
        json!("overwrite"),
        json!({"select": {"how": "new", "by": "everything"}}),
        json!({"merge": "/etc/passwd"}),
        // Nothing is selected, and nothing changes.
        json!("delete"),
        json!("crop"),
        json!("hide"),
        json!("save"),
    ];
    for edit in &bad {
        let message = json!({"type": "edit", "edit": edit}).to_string();
        if message.len() > 8192 {
            continue;
        }
        page.say(&message);
        let what = page.text("error")["what"].clone();
        assert!(what.as_str().is_some_and(|what| !what.is_empty()), "{edit}");
    }
    // Too long a message ends the connection, and nothing else.
    let mut long = fixture.connect();
    long.edit(&polygon("new", &json!(vec![[0; 2]; 5000])));
    assert!(
        std::iter::repeat_with(|| long.0.read())
            .take(50)
            .any(|read| read.is_err())
    );
    // Broken messages, and more of them than may wait.
    let mut mangler = Mangler::default();
    let good =
        json!({"type": "edit", "edit": stroke(json!([[20, 20], [30, 25]]), json!(3))}).to_string();
    for _ in 0..600 {
        page.say(&mangler.mangled(&good, 3));
    }
    drop(page);
    let mut after = fixture.connect();
    after.look(77, "");
    assert_eq!(after.picture().0, 77);
    assert_eq!(after.edited(&json!("deselect"))["gaussians"], 40);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    fixture.end();
}

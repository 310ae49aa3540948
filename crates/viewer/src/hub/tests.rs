//! Order of the answers, and requests that are discarded.

use super::*;

fn look(id: u32) -> ViewRequest {
    ViewRequest {
        id,
        width: 8,
        height: 6,
        position: [0.0; 3],
        rotation: [1.0, 0.0, 0.0, 0.0],
        focal: 1.0,
        show: Default::default(),
        moving: false,
        through: None,
        models: Default::default(),
        snapshot: None,
    }
}

fn next(hub: &Hub) -> Option<(PageId, u32)> {
    hub.next(Duration::ZERO).map(|r| (r.page, r.look.id))
}

#[test]
fn the_newest_look_counts_and_one_is_under_way() {
    let hub = Hub::default();
    let (page, _) = hub.join().unwrap();
    assert_eq!(next(&hub), None);
    for id in 1..100 {
        hub.request_view(page, look(id));
    }
    assert_eq!(next(&hub), Some((page, 99)));
    hub.request_view(page, look(100));
    hub.changed();
    // The page has not acknowledged the last frame.
    assert_eq!(next(&hub), None);
    hub.shown(page, 42);
    assert_eq!(next(&hub), None);
    hub.shown(page, 99);
    assert_eq!(next(&hub), Some((page, 100)));
    hub.shown(page, 100);
    assert_eq!(next(&hub), None);
    hub.changed();
    assert_eq!(next(&hub), Some((page, 100)));
}

#[test]
fn pages_take_turns_and_a_stuck_one_holds_up_none() {
    let hub = Hub::default();
    let (a, _) = hub.join().unwrap();
    let (b, _) = hub.join().unwrap();
    for round in 0..4 {
        hub.request_view(a, look(round));
        hub.request_view(b, look(round));
        let first = next(&hub);
        let second = next(&hub);
        if round == 0 {
            assert_eq!([first, second], [Some((a, 0)), Some((b, 0))]);
        } else {
            // `a` never acknowledges its first frame.
            assert_eq!([first, second], [Some((b, round)), None]);
        }
        hub.shown(b, round);
    }
    hub.leave(a);
    hub.leave(b);
    assert_eq!(hub.pages(), 0);
    hub.changed();
    assert_eq!(next(&hub), None);
}

#[test]
fn one_model_is_no_two_and_looking_back_is_known() {
    let hub = Hub::default();
    let (page, _) = hub.join().unwrap();
    let asked = ViewRequest {
        models: Models::Both,
        snapshot: Some(3),
        ..look(1)
    };
    assert!(!hub.shows_snapshot());
    hub.request_view(page, asked.clone());
    assert!(hub.shows_snapshot());
    let taken = hub.next(Duration::ZERO).unwrap().look;
    assert_eq!((taken.models, taken.snapshot), (Models::First, Some(3)));
    hub.shown(page, 1);
    hub.show(Stage {
        models: vec!["a".to_owned(), "b".to_owned()],
        ..Stage::default()
    });
    let both = hub.next(Duration::ZERO).unwrap().look.models;
    assert_eq!(both, Models::Both);
    hub.leave(page);
    assert!(!hub.shows_snapshot());
}

#[test]
fn pages_and_commands_are_bounded() {
    let hub = Hub::default();
    let pages: Vec<_> = std::iter::from_fn(|| hub.join()).collect();
    assert_eq!(pages.len(), MOST_PAGES);
    hub.show(Stage::default());
    hub.command(Command::Pause);
    assert!(hub.take_commands().is_empty(), "nothing trains");
    hub.show(Stage {
        trains: true,
        ..Stage::default()
    });
    for _ in 0..1000 {
        hub.command(Command::Step);
    }
    assert_eq!(hub.take_commands().len(), MOST_COMMANDS);
}

#[test]
fn a_command_before_the_first_stage_waits_for_it() {
    for trains in [true, false] {
        let hub = Hub::default();
        hub.command(Command::Pause);
        hub.show(Stage {
            trains,
            ..Stage::default()
        });
        assert_eq!(hub.take_commands().len(), usize::from(trains));
    }
}

fn status(train_on: Option<u32>) -> Status {
    Status {
        step: 400,
        steps: 400,
        loss: 0.1,
        psnr: None,
        gaussians: 9,
        steps_per_second: 1.0,
        elapsed_seconds: 1.0,
        eta_seconds: None,
        memory_bytes: None,
        paused: false,
        note: None,
        train_on,
    }
}

#[test]
fn a_run_is_trained_on_once_and_only_after_its_end() {
    let hub = Hub::default();
    let what = |steps| hub.train_on(steps).unwrap_err().what().to_owned();
    assert!(what(5).contains("no run is shown"));
    hub.show(Stage {
        trains: true,
        ..Stage::default()
    });
    hub.report(&status(None));
    assert!(what(5).contains("has not reached its last step"));
    assert_eq!(hub.take_train_on(), None);
    hub.report(&status(Some(200)));
    for steps in [0, -1, i64::from(u32::MAX) + 1] {
        assert!(what(steps).contains("cannot be trained"), "{steps}");
    }
    hub.train_on(5).unwrap();
    assert!(what(6).contains("another page"));
    assert_eq!(hub.take_train_on(), Some(TrainOn { steps: 5 }));
    assert_eq!(hub.take_train_on(), None);
    // A request that arrives as the wait ends is not for a later end.
    hub.train_on(7).unwrap();
    hub.report(&status(None));
    hub.report(&status(Some(200)));
    assert_eq!(hub.take_train_on(), None);
}

//! Tests of the loader with photos that count how they are read.

use super::*;
use crate::ViewOrder;
use crate::extension::WithheldPhotos;
use crate::plan::Amendment;
use dapple_scene::{LoadOptions, NoProgress, load};
use std::path::Path;

const VIEWS: usize = 12;

/// Photos of two sizes as PNGs in a Nerfstudio capture, described and not decoded.
fn photos(folder: &Path) -> Vec<PhotoSource> {
    let mut frames = Vec::new();
    for i in 0..VIEWS {
        let (width, height) = [(16, 12), (10, 20)][i % 2];
        let name = format!("{i:02}.png");
        let colour = image::Rgb([i as u8, 7, 9]);
        image::RgbImage::from_pixel(width, height, colour)
            .save(folder.join(&name))
            .unwrap();
        frames.push(serde_json::json!({
            "file_path": name, "w": width, "h": height, "fl_x": 16.0, "fl_y": 16.0,
            "cx": f64::from(width) / 2.0, "cy": f64::from(height) / 2.0,
            "transform_matrix": [[1, 0, 0, i], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]],
        }));
    }
    let json = serde_json::json!({ "frames": frames }).to_string();
    std::fs::write(folder.join("transforms.json"), json).unwrap();
    let options = LoadOptions {
        photo_memory_bytes: Some(5 * BYTES),
        ..LoadOptions::default()
    };
    let dataset = load(folder, &options, &NoProgress).unwrap();
    assert_eq!(dataset.photo_memory_bytes, Some(5 * BYTES));
    dataset.views.into_iter().map(|view| view.photo).collect()
}

/// Bytes of a larger photo.
const BYTES: u64 = 10 * 20 * 3;

fn started(folder: &Path, budget: u64, steps: (u32, u32)) -> (PhotoLoader, PhotoOrder) {
    started_without(WithheldPhotos::default(), folder, budget, steps)
}

fn started_without(
    withheld: WithheldPhotos,
    folder: &Path,
    budget: u64,
    steps: (u32, u32),
) -> (PhotoLoader, PhotoOrder) {
    let order = PhotoOrder::new(ViewOrder::new(3, VIEWS).without(withheld), 0);
    let photos = photos(folder);
    let loader = PhotoLoader::start(photos, &order, budget, steps).unwrap();
    (loader, order)
}

#[test]
fn every_step_gets_its_photo_and_memory_stays_within_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    // Reads without a cache: 120. By Belady's rule a third of the photos saves about a third of them.
    for (budget, most_reads) in [(4 * BYTES, 95), (6 * BYTES, 75), (100 * BYTES, 12)] {
        let (loader, mut order) = started(folder.path(), budget, (1, 120));
        for step in 1..=120 {
            let photo = loader.take(step).unwrap();
            assert_eq!(
                usize::from(photo.rgb[0]),
                order.view_at(step),
                "step {step}"
            );
        }
        let traffic = loader.traffic();
        assert!(traffic.peak_bytes <= budget, "{traffic:?}");
        assert_eq!(traffic.ready + traffic.waits, 120);
        assert!((12..=most_reads).contains(&traffic.reads), "{traffic:?}");
    }
}

#[test]
fn a_run_that_goes_on_begins_in_the_middle_of_an_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let (loader, mut order) = started(folder.path(), 4 * BYTES, (31, 40));
    for step in 31..=40 {
        let photo = loader.take(step).unwrap();
        assert_eq!(usize::from(photo.rgb[0]), order.view_at(step));
    }
    // Photos of later steps are not read until the end moves.
    assert!(loader.traffic().reads <= 10);
    loader.follow(&order, 45);
    for step in 41..=45 {
        let photo = loader.take(step).unwrap();
        assert_eq!(usize::from(photo.rgb[0]), order.view_at(step));
    }
}

/// Order of reads without threads: photos of the coming steps, and no others.
#[test]
fn photos_are_read_in_the_order_of_steps_and_only_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let photos = photos(folder.path());
    let mut order = PhotoOrder::new(ViewOrder::new(3, VIEWS), 0);
    let mut state = State::new(VIEWS, &order, 100 * BYTES, (5, 9));
    for step in 5..=9 {
        assert_eq!(state.next_to_read(&photos), Some(order.view_at(step)));
    }
    assert_eq!(state.next_to_read(&photos), None);
    state.last = 10;
    assert_eq!(state.next_to_read(&photos), Some(order.view_at(10)));
}

/// The photo of the current step is in memory even if the loader evicts it, so it counts.
#[test]
fn the_photo_in_use_does_not_give_way() {
    let folder = tempfile::tempdir().unwrap();
    let photos = photos(folder.path());
    let mut order = PhotoOrder::new(ViewOrder::new(3, VIEWS), 0);
    let mut state = State::new(VIEWS, &order, BYTES, (1, 30));
    let first = state.next_to_read(&photos).unwrap();
    state.slots[first] = Slot::Ready(photos[first].read().unwrap());
    state.go_to(1);
    state.taken(first, None);
    // The memory cannot hold a second photo, but training would wait for the next one forever.
    assert_eq!(state.next_to_read(&photos), Some(order.view_at(2)));
    assert!(matches!(state.slots[first], Slot::Ready(_)));
    assert_eq!(state.in_use, Some(first));
}

#[test]
fn photos_that_were_read_ahead_are_there_before_their_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (loader, mut order) = started(folder.path(), 4 * BYTES, (1, 60));
    let mut ahead = order.clone();
    for step in 1..=50 {
        let photo = loader.take(step).unwrap();
        assert_eq!(usize::from(photo.rgb[0]), order.view_at(step));
        for coming in step + 1..=step + 3 {
            // Half of the memory is for coming photos: one or two, and never a third.
            let photo = loader.ready(coming);
            assert!(coming < step + 3 || photo.is_none(), "step {coming}");
            if let Some(photo) = photo {
                assert_eq!(usize::from(photo.rgb[0]), ahead.view_at(coming));
            }
        }
    }
    while loader.ready(51).is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn less_than_one_photo_of_memory_still_trains() {
    let folder = tempfile::tempdir().unwrap();
    let (loader, mut order) = started(folder.path(), 1, (1, 30));
    for step in 1..=30 {
        let photo = loader.take(step).unwrap();
        assert_eq!(usize::from(photo.rgb[0]), order.view_at(step));
    }
}

#[test]
fn a_photo_that_breaks_while_training_is_named_with_its_step() {
    let folder = tempfile::tempdir().unwrap();
    let (loader, mut order) = started(folder.path(), 4 * BYTES, (1, 100));
    loader.take(1).unwrap();
    for i in 0..VIEWS {
        std::fs::write(folder.path().join(format!("{i:02}.png")), b"no photo").unwrap();
    }
    let failed = (2..40).find_map(|step| loader.take(step).err().map(|e| (step, e)));
    let (step, error) = failed.unwrap();
    let name = format!("{:02}.png", order.view_at(step));
    assert!(error.place().unwrap().contains(&name), "{error}");
    assert!(error.what().contains(&format!("step {step}")), "{error}");
    assert!(error.hint_text().unwrap().contains("--resume"), "{error}");
}

#[test]
fn a_photo_of_another_size_is_not_the_one_that_was_described() {
    let folder = tempfile::tempdir().unwrap();
    let photos = photos(folder.path());
    image::RgbImage::new(32, 24)
        .save(folder.path().join("00.png"))
        .unwrap();
    let error = photos[0].read().unwrap_err();
    assert!(error.what().contains("has changed"), "{error}");
}

/// The first steps take the photos `n..2 n`: each is read once and evicted after its last step. The other photos are
/// not read early.
#[test]
fn coarse_photos_come_first_and_give_way_when_they_are_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut photos = photos(folder.path());
    let halves: Vec<PhotoSource> = photos.iter().map(PhotoSource::halved).collect();
    assert_eq!(halves[0].size(), [8, 6]);
    photos.extend(halves);
    let all: u64 = photos.iter().map(PhotoSource::bytes).sum();
    let mut order = PhotoOrder::new(ViewOrder::new(3, VIEWS), 30);
    let loader = PhotoLoader::start(photos, &order, all, (1, 60)).unwrap();
    for step in 1..=60 {
        let photo = loader.take(step).unwrap();
        let view = order.view_at(step);
        let whole = [[16, 12], [10, 20]][view % 2];
        let size = if step <= 30 {
            whole.map(|edge| edge / 2)
        } else {
            whole
        };
        assert_eq!([photo.width, photo.height], size, "step {step}");
        assert_eq!(usize::from(photo.rgb[0]), view);
    }
    assert_eq!(loader.traffic().reads, 2 * VIEWS as u64);

    let mut uses = Uses::new(order.clone());
    let coarse = VIEWS + order.view_at(20);
    assert_eq!(uses.next_use(coarse, 20), 20);
    assert_eq!(uses.next_use(coarse, 31), u32::MAX);
    let fine = order.view_at(20);
    assert!(uses.next_use(fine, 20) > 30);
}

/// Withheld photos are evicted first, and the photos of the steps are available.
#[test]
fn photos_that_are_set_aside_are_not_read_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let config = crate::TrainConfig {
        steps: 400,
        max_extensions: 1,
        ..crate::TrainConfig::default()
    };
    let withheld = WithheldPhotos::new(&config.clone().into(), VIEWS);
    let (loader, mut order) = started_without(withheld, folder.path(), 4 * BYTES, (1, 400));
    for step in 1..=400 {
        let photo = loader.take(step).unwrap();
        let view = order.view_at(step);
        assert_eq!(usize::from(photo.rgb[0]), view, "step {step}");
        assert!(view != 6 || !(221..=300).contains(&step), "step {step}");
    }
    let traffic = loader.traffic();
    assert!(traffic.peak_bytes <= 4 * BYTES, "{traffic:?}");
    let mut uses = Uses::new(order.clone());
    assert_eq!(uses.next_use(6, 240), u32::MAX);
    for from in 1..=380 {
        for view in 0..VIEWS {
            let next = (from..from + 24).find(|&step| order.view_at(step) == view);
            let found = uses.next_use(view, from);
            assert!(
                next.is_none_or(|next| found == next || found == u32::MAX),
                "{view} after {from}"
            );
            // The view is found within two epochs.
            let near = next.filter(|&next| next <= (from - 1) / 12 * 12 + 24);
            assert!(near.is_none_or(|near| found == near), "{view} after {from}");
        }
    }
}

/// A run extension withholds photos again: photos that were read ahead by the previous order are useless then.
#[test]
fn photos_are_read_in_the_order_of_an_extended_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = crate::TrainConfig {
        steps: 40,
        max_extensions: 2,
        ..crate::TrainConfig::default()
    };
    let withheld = WithheldPhotos::new(&config.clone().into(), VIEWS);
    let (loader, mut order) = started_without(withheld, folder.path(), 4 * BYTES, (1, 40));
    let next = |order: &mut PhotoOrder, step| {
        let photo = loader.take(step).unwrap();
        assert_eq!(
            usize::from(photo.rgb[0]),
            order.view_at(step),
            "step {step}"
        );
    };
    for step in 1..=30 {
        next(&mut order, step);
    }
    let before: Vec<usize> = (45..=60).map(|step| order.view_at(step)).collect();
    config.amendments = vec![Amendment::extension(30, 80, 10)].into();
    order.set_withheld(WithheldPhotos::new(&config.into(), VIEWS));
    loader.follow(&order, 80);
    let after: Vec<usize> = (45..=60).map(|step| order.view_at(step)).collect();
    assert!(
        before.contains(&6) && !after.contains(&6),
        "{before:?}, {after:?}"
    );
    for step in 31..=80 {
        next(&mut order, step);
    }
}

//! The checkpoint file: contents are read back unchanged, and broken files are refused.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use crate::fake;

use dapple_device::BoxedEngine;
use dapple_engine::{AppearanceGrids, DensifyReport, OptimizerState, RefinedPose, ViewState};
use dapple_scene::{Error, ErrorKind, Splats};
use dapple_train::config::{AppearanceConfig, AppearanceModel};
use dapple_train::{
    Best, CHECKPOINT_VERSION, CaptureIdentity, Checkpoint, ConfigPatch, Ending, EvalRow,
    ExtensionCheck, ExtensionDecision, History, LossRow, Preset, RunFolder, RunOrigin, Silent,
    TrainConfig, Trainer, ValidationRow, train_into,
};
use fake::{FakeEngine, Listener, capture, fake};
use proptest::prelude::*;
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock};

/// Numbers that differ, beginning with some that get lost if they are handled as numbers.
fn numbers(count: usize, salt: u32) -> Vec<f32> {
    let odd = [0x7fc0_1234, 0xff80_0000, 0x8000_0000, 0x0000_0001];
    (0..count as u32)
        .map(|i| f32::from_bits(odd.get(i as usize).copied().unwrap_or(i * 7919 + salt)))
        .collect()
}

fn splats(n: usize, salt: u32) -> Splats {
    let threes = |salt| numbers(3 * n, salt).as_chunks().0.to_vec();
    Splats {
        means: threes(salt),
        scales: threes(salt + 1),
        quats: numbers(4 * n, salt + 2).as_chunks().0.to_vec(),
        opacities: numbers(n, salt + 3),
        sh0: threes(salt + 4),
        sh_rest: numbers(n * 24, salt + 5),
        sh_degree: 2,
    }
}

fn sample() -> Checkpoint {
    let n = 5;
    Checkpoint {
        strategy: None,
        step: 3,
        config: TrainConfig {
            sh_degree: 2,
            near: 0.1 + 0.2,
            seed: 77,
            appearance: AppearanceConfig {
                model: AppearanceModel::Bilateral,
                grid: [2, 1, 1],
                start: 1,
                ..Preset::Micro.config().appearance
            },
            ..Preset::Micro.config()
        },
        capture: CaptureIdentity::from_dataset(&capture(4)),
        launch: RunOrigin {
            capture: Some("captures/a b".into()),
            device: Some("gpu:0".to_owned()),
            precision: None,
            default_cap: Some(0),
            snapshots: Some(12),
            start: None,
            ranks: Some(3),
        },
        device: "fake".to_owned(),
        history: History {
            losses: (1..=3)
                .map(|step| LossRow {
                    step,
                    loss: 0.1 / step as f32,
                    gaussians: 1 << 40,
                    steps_per_second: 1.0 / 3.0,
                })
                .collect(),
            densify: vec![DensifyReport {
                step: 2,
                cloned: 9,
                ..DensifyReport::default()
            }],
            evals: vec![EvalRow {
                step: 2,
                psnr: 0.1 + 0.7,
                ssim: 2.0 / 3.0,
                lpips: Some(1.0 / 3.0),
                focus_psnr: Some(0.1 + 0.6),
                focus_ssim: None,
                gaussians: 5,
                train_seconds: 1e-300,
            }],
            ..History::default()
        },
        splats: splats(n, 0),
        state: OptimizerState {
            first_moments: splats(n, 100),
            second_moments: splats(n, 200),
            gradient_sums: numbers(n, 300),
            visible_counts: numbers(n, 400),
            filter_3d: Vec::new(),
            frozen: 1,
            sky: 1,
            views: ViewState {
                poses: (0..3)
                    .map(|i| RefinedPose::from_words(&std::array::from_fn(|k| (29 * i + k) as f32)))
                    .collect(),
                appearance: AppearanceGrids {
                    first_moments: numbers(2 * 2 * 12, 500),
                    seen: vec![7, 9],
                    ..AppearanceGrids::identity([2, 1, 1], 2)
                },
                ..ViewState::default()
            },
        },
        extension_checks: vec![ExtensionCheck {
            steps: [1, 2],
            losses: [0.1 + 0.2, 1.0 / 3.0],
            decision: ExtensionDecision::NotShared,
        }],
        loss_before_check: Some(1.0 / 7.0),
        shards: None,
        watched: vec![ValidationRow {
            step: 2,
            loss: 0.1 + 0.2,
            psnr: 1.0 / 3.0,
        }],
        best: Some(Arc::new(Best {
            splats: splats(n - 2, 500),
            views: ViewState {
                poses: Vec::new(),
                appearance: AppearanceGrids {
                    second_moments: numbers(2 * 2 * 12, 600),
                    seen: vec![5, 6],
                    ..AppearanceGrids::identity([2, 1, 1], 2)
                },
                ..ViewState::default()
            },
        })),
    }
}

fn bytes(checkpoint: &Checkpoint) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.safetensors");
    checkpoint.write(&path).unwrap();
    std::fs::read(path).unwrap()
}

static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| bytes(&sample()));

#[track_caller]
fn refused(bytes: &[u8], words: &str) -> Error {
    let error = Checkpoint::parse(bytes).expect_err("accepted");
    let told = error.to_string();
    assert!(told.contains(words), "{words:?}: {told}");
    assert!(error.hint_text().is_some(), "no hint: {told}");
    error
}

/// Returns the sample's file with changed metadata and tensors, written by the `safetensors` crate.
fn rewritten(
    change: impl FnOnce(&mut HashMap<String, String>, &mut BTreeMap<String, TensorView<'_>>),
) -> Vec<u8> {
    let (_, header) = SafeTensors::read_metadata(&WHOLE).unwrap();
    let file = SafeTensors::deserialize(&WHOLE).unwrap();
    let mut metadata = header.metadata().clone().unwrap();
    let mut tensors: BTreeMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    change(&mut metadata, &mut tensors);
    safetensors::serialize(tensors, Some(metadata)).unwrap()
}

/// Returns [`rewritten`] with a matching checksum, and without that of the entries: a file that another program, or an
/// earlier version, might write.
fn forged(
    change: impl FnOnce(&mut HashMap<String, String>, &mut BTreeMap<String, TensorView<'_>>),
) -> Vec<u8> {
    let bytes = rewritten(change);
    let (header_bytes, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let mut metadata: BTreeMap<_, _> = header.metadata().clone().unwrap().into_iter().collect();
    metadata.remove("crc32");
    metadata.remove("crc32_tensors");
    let mut hasher = crc32fast::Hasher::new();
    for (name, value) in &metadata {
        for text in [name, value] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
    }
    hasher.update(&bytes[8 + header_bytes..]);
    let sum = format!("{:08x}", hasher.finalize());
    let file = SafeTensors::deserialize(&bytes).unwrap();
    metadata.insert("crc32".to_owned(), sum);
    safetensors::serialize(file.tensors(), Some(metadata.into_iter().collect())).unwrap()
}

#[test]
fn what_goes_in_comes_out_to_the_last_bit() {
    let read = Checkpoint::parse(&WHOLE).unwrap();
    // Compared as text, because NaN is not equal to itself. Its payload shows in the bytes.
    assert_eq!(format!("{read:?}"), format!("{:?}", sample()));
    assert!(bytes(&read) == *WHOLE, "other bytes");
}

/// The 3D filters of an anti-aliased run are part of it from its first step on.
#[test]
fn filters_against_aliasing_come_out_too() {
    let mut sample = sample();
    sample.config.antialias = true;
    let lost = bytes(&sample);
    refused(&lost, "antialias.smoothing");
    sample.state.filter_3d = numbers(5, 500);
    let whole = bytes(&sample);
    let read = Checkpoint::parse(&whole).unwrap();
    assert_eq!(format!("{:?}", read.state), format!("{:?}", sample.state));
    assert!(bytes(&read) == whole);
}

#[test]
fn the_safetensors_crate_opens_it_and_is_read_in_turn() {
    let file = SafeTensors::deserialize(&WHOLE).unwrap();
    let means = file.tensor("splats.means").unwrap();
    assert_eq!((means.dtype(), means.shape()), (Dtype::F32, &[5, 3][..]));
    assert_eq!(
        means.data(),
        bytemuck::cast_slice::<_, u8>(&sample().splats.means)
    );
    let rest = file.tensor("second_moments.sh_rest").unwrap();
    assert_eq!(rest.shape(), [5, 8, 3]);
    assert_eq!(file.names().len(), 4 + 4 * 6 + 2 + 1 + 2 * 4);
    let grids = file.tensor("appearance.coefficients").unwrap();
    assert_eq!(grids.shape(), [2, 1, 2, 1, 3, 4]);
    let kept = file.tensor("best.appearance.coefficients").unwrap();
    assert_eq!(kept.shape(), grids.shape());
    let theirs = Checkpoint::parse(&forged(|_, _| ())).unwrap();
    assert!(bytes(&theirs) == *WHOLE);
}

/// Best splats without their learned appearance are useless for a run that learns it.
#[test]
fn what_was_learnt_beside_the_best_splats_must_be_there() {
    let lost = forged(|_, tensors| tensors.retain(|name, _| !name.starts_with("best.appearance")));
    refused(&lost, "best.appearance.seen");
    let mut fewer = sample();
    let mut best = (**fewer.best.as_ref().unwrap()).clone();
    best.views.appearance = AppearanceGrids::identity([2, 1, 1], 1);
    fewer.best = Some(Arc::new(best));
    refused(&bytes(&fewer), "other photos");
}

#[test]
fn a_missing_file_is_named() {
    let error = Checkpoint::read(Path::new("nowhere/checkpoint.safetensors")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.place().unwrap().contains("nowhere"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint.safetensors");
    std::fs::write(&path, &WHOLE[..WHOLE.len() - 1]).unwrap();
    let error = Checkpoint::read(&path).unwrap_err();
    assert!(
        error.place().unwrap().contains("checkpoint.safe"),
        "{error}"
    );
}

#[test]
fn every_truncation_is_refused() {
    for length in 0..WHOLE.len() {
        assert!(Checkpoint::parse(&WHOLE[..length]).is_err(), "{length}");
    }
    refused(&WHOLE[..WHOLE.len() - 1], "cut off");
    refused(&WHOLE[..100], "cut off");
    refused(&[], "it has 0 bytes");
    refused(&[&WHOLE[..], b"x"].concat(), "1 bytes follow");
}

#[test]
fn files_of_others_are_refused() {
    refused(
        b"ply\nformat binary_little_endian 1.0\n",
        "not a checkpoint",
    );
    refused(b"\x02\0\0\0\0\0\0\0[]", "its header cannot be read");
    let tensors: [(&str, TensorView<'_>); 0] = [];
    let empty = safetensors::serialize(tensors, None).unwrap();
    refused(&empty, "not a checkpoint of Dapple");
}

#[test]
fn other_versions_say_what_to_do() {
    let version = |number: u32| {
        forged(|metadata, _| {
            metadata.insert("version".to_owned(), number.to_string());
        })
    };
    let newer = refused(&version(CHECKPOINT_VERSION + 1), "a newer Dapple");
    assert!(newer.hint_text().unwrap().contains("update"));
    let older = refused(&version(CHECKPOINT_VERSION - 1), "an older Dapple");
    assert_eq!(older.kind(), ErrorKind::Unsupported);
    refused(
        &forged(|metadata, _| drop(metadata.remove("version"))),
        "no version",
    );
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    for at in (0..WHOLE.len())
        .step_by(7)
        .chain(WHOLE.len() - 9..WHOLE.len())
    {
        let mut damaged = WHOLE.clone();
        damaged[at] ^= 0x10;
        // Unread bytes between the values of the header may differ.
        match Checkpoint::parse(&damaged) {
            Ok(read) => assert!(bytes(&read) == *WHOLE, "byte {at}"),
            Err(error) => assert!(error.hint_text().is_some(), "byte {at}: {error}"),
        }
    }
    let mut damaged = WHOLE.clone();
    *damaged.last_mut().unwrap() ^= 1;
    refused(&damaged, "its checksum does not fit");
}

#[test]
fn exchanged_names_of_tensors_are_found() {
    let header = 8 + u64::from_le_bytes(*WHOLE.first_chunk().unwrap()) as usize;
    let text = std::str::from_utf8(&WHOLE[8..header]).unwrap();
    let exchanged = text
        .replace("\"splats.means\"", "\"*\"")
        .replace("\"splats.scales\"", "\"splats.means\"")
        .replace("\"*\"", "\"splats.scales\"");
    assert_eq!(exchanged.len(), text.len());
    let bytes = [&WHOLE[..8], exchanged.as_bytes(), &WHOLE[header..]].concat();
    refused(&bytes, "its checksum does not fit");
}

#[test]
fn tensors_of_wrong_shape_type_or_number_are_refused() {
    static DATA: [u8; 96] = [0; 96];
    let view = |kind, shape: &[usize]| {
        let size = shape.iter().product::<usize>() * kind_bytes(kind);
        TensorView::new(kind, shape.to_vec(), &DATA[..size]).unwrap()
    };
    let with = |name: &str, kind, shape: &[usize]| {
        forged(|_, tensors| {
            tensors.insert(name.to_owned(), view(kind, shape));
        })
    };
    refused(
        &with("second_moments.means", Dtype::F32, &[4, 3]),
        "second_moments.means",
    );
    refused(
        &with("splats.sh_rest", Dtype::F32, &[5, 0, 3]),
        "splats.sh_rest",
    );
    refused(
        &with("density.gradient_sums", Dtype::F32, &[6]),
        "gradient_sums",
    );
    refused(
        &with("density.visible_counts", Dtype::U32, &[5]),
        "visible_counts",
    );
    refused(
        &with("splats.opacities", Dtype::F16, &[5]),
        "header cannot be read",
    );
    refused(
        &with("splats.means", Dtype::F32, &[15]),
        "no three coordinates",
    );
    refused(&with("splats.means", Dtype::F32, &[0, 3]), "no Gaussian");
    refused(&with("history.steps", Dtype::U32, &[3]), "out of order");
    refused(&with("history.losses", Dtype::F32, &[2]), "history.losses");
    refused(
        &forged(|_, tensors| drop(tensors.remove("first_moments.quats"))),
        "no tensor first_moments.quats",
    );
}

fn kind_bytes(kind: Dtype) -> usize {
    match kind {
        Dtype::F16 => 2,
        Dtype::F64 | Dtype::U64 => 8,
        _ => 4,
    }
}

#[test]
fn descriptions_that_make_no_sense_are_refused() {
    let with = |name: &str, value: &str| {
        forged(|metadata, _| {
            metadata.insert(name.to_owned(), value.to_owned());
        })
    };
    refused(&with("run", "{}"), "description is not valid");
    refused(
        &with("config", "stepz = 3"),
        "the configuration is not valid",
    );
    let short = TrainConfig {
        steps: 2,
        ..sample().config
    };
    refused(
        &with("config", &short.to_toml().unwrap()),
        "beyond the run's last",
    );
    refused(
        &rewritten(|metadata, _| drop(metadata.remove("crc32"))),
        "checksum",
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Checkpoint::parse(&bytes).is_err());
        let mut led = (bytes.len() as u64).to_le_bytes().to_vec();
        led.extend(&bytes);
        prop_assert!(Checkpoint::parse(&led).is_err());
    }

    #[test]
    fn arbitrary_damage_never_panics(
        at in any::<prop::sample::Index>(),
        with in proptest::collection::vec(any::<u8>(), 1..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut damaged = WHOLE.clone();
        let start = at.index(damaged.len());
        for (byte, new) in damaged[start..].iter_mut().zip(&with) {
            *byte = *new;
        }
        let _ = Checkpoint::parse(&damaged);
        let _ = Checkpoint::parse(&damaged[..cut.index(damaged.len())]);
    }
}

#[test]
fn a_run_does_not_go_on_with_another_capture() {
    let dataset = capture(4);
    let config = Preset::Micro.config();
    let mut trainer = Trainer::new(&dataset, config, fake(&Arc::default(), 0, 0)).unwrap();
    let checkpoint = trainer.checkpoint().unwrap();
    let go_on = |dataset: &_| {
        Trainer::resume(dataset, checkpoint.clone(), fake(&Arc::default(), 0, 0)).map(drop)
    };
    go_on(&dataset).unwrap();
    let mut renamed = dataset.clone();
    renamed.views[1].name.push('x');
    let mut moved = dataset.clone();
    moved.views[2].camera.camera_from_world.translation.x += 1e-9;
    for (other, words) in [
        (capture(5), "4 photos, not 5"),
        (renamed, "other names or sizes"),
        (moved, "other camera poses"),
    ] {
        let error = go_on(&other).unwrap_err();
        assert!(error.what().contains(words), "{words}: {error}");
        assert!(error.hint_text().is_some());
    }
}

#[test]
fn a_checkpoint_that_cannot_be_saved_does_not_cost_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(folder.path()).unwrap();
    let config = TrainConfig {
        checkpoint_every: 10,
        ..Preset::M8Smoke.config()
    };
    let engine = || {
        BoxedEngine::host(FakeEngine {
            ..FakeEngine::default()
        })
    };
    let mut run = Trainer::new(&capture(24), config, engine()).unwrap();
    let mut listener = Listener {
        stop_after: Some(20),
        ..Listener::default()
    };
    let outcome = train_into(&folder, &mut run, &mut listener).unwrap();
    assert_eq!(outcome.ending, Ending::Stopped(20));
    // The next ones cannot be written.
    std::fs::remove_file(folder.checkpoint_path()).unwrap();
    std::fs::create_dir(folder.checkpoint_path()).unwrap();
    listener.stop_after = Some(30);
    let error = train_into(&folder, &mut run, &mut listener).unwrap_err();
    assert!(error.place().unwrap().contains("checkpoint"), "{error}");
    assert!(folder.metrics_path().exists());
    std::fs::remove_dir(folder.checkpoint_path()).unwrap();
    let outcome = train_into(&folder, &mut run, &mut Silent).unwrap();
    assert_eq!(outcome.ending, Ending::Finished);
    // A finished run cannot be resumed, and the error states it.
    assert!(!folder.checkpoint_path().exists());
    let error = folder.read_checkpoint().unwrap_err();
    assert!(
        error.what().contains("finished: all of its 50 steps"),
        "{error}"
    );
}

#[test]
fn a_new_run_does_not_keep_the_checkpoint_of_an_old_one() {
    let path = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(path.path()).unwrap();
    sample().write(&folder.checkpoint_path()).unwrap();
    let engine = fake(&Arc::default(), 7, 0);
    let mut run = Trainer::new(&capture(8), Preset::M8Smoke.config(), engine).unwrap();
    train_into(&folder, &mut run, &mut Silent).unwrap_err();
    let error = folder.read_checkpoint().unwrap_err();
    assert!(error.what().contains("no checkpoint"), "{error}");
    std::fs::write(path.path().join(".dapple-x.part"), "").unwrap();
    drop(folder);
    RunFolder::create(path.path()).unwrap();
    assert!(!path.path().join(".dapple-x.part").exists());
}

#[test]
fn options_that_contradict_a_run_are_told() {
    let config = TrainConfig {
        near: 0.25,
        ..TrainConfig::for_steps(300)
    };
    let told = |patch| config.differences(patch).unwrap();
    assert_eq!(told(ConfigPatch::default()), []);
    let same = ConfigPatch {
        steps: Some(300),
        near: Some(0.0),
        checkpoint_every: Some(5),
        ..ConfigPatch::default()
    };
    assert_eq!(told(same), []);
    let other = ConfigPatch {
        seed: Some(3),
        data: dapple_train::config::DataPatch {
            downscale: Some(2),
            ..Default::default()
        },
        ..ConfigPatch::default()
    };
    let row = |key: &str, a: &str, b: &str| (key.to_owned(), a.to_owned(), b.to_owned());
    assert_eq!(
        told(other),
        [row("data.downscale", "1", "2"), row("seed", "0", "3")]
    );
}

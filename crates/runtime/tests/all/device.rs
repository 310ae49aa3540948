//! Tests of devices: their reports, counters, the cache of their kernels, and the loss of a device.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::{
    CommandList, Detail, Gpu, GpuClock, GpuOptions, Groups, Hints, Kernel, Overrides, adapters,
    wgpu,
};
use std::path::Path;
use support::{adapter, gpu, kernel, opened, options, recording};

#[test]
fn reports_are_numbered_and_serialize() {
    let all = adapters();
    for (index, report) in all.iter().enumerate() {
        assert_eq!(report.index, index);
        assert_eq!(report.bounds_dispatches, report.watchdog.is_some());
        assert!(!(report.is_software && report.bounds_dispatches));
        let lacks = |what: &str| report.missing.iter().any(|m| m.starts_with(what));
        assert_eq!(report.timestamps, !lacks("timestamps"));
        assert_eq!(report.pipeline_cache, !lacks("pipeline cache"));
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["name"], report.name.as_str());
        if report.backend == "Vulkan" {
            assert!(report.memory_bytes.unwrap() > 1 << 20, "{report:?}");
        }
        println!("{json:#}");
    }
    let again: Vec<_> = adapters().into_iter().map(|r| r.name).collect();
    assert_eq!(all.into_iter().map(|r| r.name).collect::<Vec<_>>(), again);
}

#[test]
fn a_steady_step_counts_nothing_but_itself() {
    let gpu = gpu();
    let values = gpu.upload("values", &[0_u32; 64]).unwrap();
    let mut step = recording(&gpu, "count", &values, 1);
    step.append(recording(&gpu, "work", &values, 1));
    let work = step.work();
    assert_eq!(
        (work.spans, work.dispatches, work.indirect, work.host_writes),
        (2, 2, 0, 1)
    );
    let before = gpu.counters();
    for _ in 0..10 {
        step.submit(&gpu, &1_u32.to_le_bytes());
    }
    let done = gpu.counters() - before;
    assert_eq!((done.submissions, done.dispatches), (10, 20));
    assert_eq!((done.waits, done.copies, done.buffers_created), (0, 0, 0));
    assert_eq!(done.bindings_created, 0);
    gpu.write(&values, 0, &[1_u32; 3]);
    gpu.read::<u32>(&values, 2).unwrap();
    let done = gpu.counters() - before;
    assert_eq!((done.waits, done.copies), (1, 2));
    assert_eq!((done.bytes_written, done.bytes_read), (12, 8));
}

#[test]
fn what_another_thread_fills_takes_its_turn_in_the_queue() {
    let gpu = gpu();
    let values = gpu.upload("values", &[1_u32, 2, 3, 4]).unwrap();
    let before = gpu.counters();
    let mut upload = gpu.begin_upload(&values, 4, 8).unwrap();
    let filled = std::thread::spawn(move || {
        upload.put(&[7_u32]);
        // The upload has no space for the second of these.
        upload.put(&[8_u32, 9]);
        upload
    });
    let upload = filled.join().unwrap();
    assert_eq!(gpu.read::<u32>(&values, 4).unwrap(), [1, 2, 3, 4]);
    upload.finish();
    assert_eq!(gpu.read::<u32>(&values, 4).unwrap(), [1, 7, 8, 4]);
    let done = gpu.counters() - before;
    assert_eq!((done.bytes_written, done.copies), (8, 3));
    assert!(gpu.begin_upload(&values, 12, 8).is_err(), "beyond its end");
    assert!(gpu.begin_upload(&values, 0, 0).is_err(), "nothing");
}

#[test]
fn values_come_back_when_they_are_there() {
    let gpu = gpu();
    let values = gpu.upload("values", &[5_u32, 6, 7]).unwrap();
    let mut encoder = gpu.encoder();
    let mut readback = gpu.begin_read::<u32>(&mut encoder, &values, 4, 2).unwrap();
    assert!(readback.take().unwrap().is_none(), "not submitted yet");
    gpu.submit(encoder);
    gpu.wait().unwrap();
    assert_eq!(readback.take().unwrap().unwrap(), [6, 7]);
    assert!(readback.take().is_err(), "taken twice");
    // A readback of dropped commands never arrives.
    let mut encoder = gpu.encoder();
    let mut never = gpu.begin_read::<u32>(&mut encoder, &values, 0, 1).unwrap();
    drop(encoder);
    assert!(never.take().is_err());
    let live = gpu.pool().stats().live_bytes;
    drop(never);
    assert!(gpu.pool().stats().live_bytes < live);
}

#[test]
fn a_lost_device_is_an_error_everywhere() {
    let gpu = gpu();
    let values = gpu.upload("values", &[1_u32; 64]).unwrap();
    let kernel = kernel(&gpu, "count");
    let step = recording(&gpu, "count", &values, 1);
    let mut clock = GpuClock::new(&gpu, 2, 2).unwrap();
    let pooled = gpu
        .pool()
        .take("pooled", 64, wgpu::BufferUsages::STORAGE)
        .unwrap();
    step.submit(&gpu, &[]);
    assert!(!gpu.is_lost());
    // A destroyed device is lost after its work is done.
    gpu.wait().unwrap();
    gpu.device().destroy();
    assert!(gpu.is_lost());

    let says_lost = |error: dapple_base::Error| {
        assert!(error.to_string().contains("lost"), "{error}");
    };
    says_lost(gpu.check().unwrap_err());
    says_lost(gpu.check().unwrap_err());
    says_lost(gpu.wait().unwrap_err());
    says_lost(gpu.buffer("buffer", 64).unwrap_err());
    says_lost(gpu.upload("buffer", &[1_u32]).unwrap_err());
    says_lost(gpu.read::<u32>(&values, 1).unwrap_err());
    says_lost(
        gpu.pool()
            .take("pooled", 64, wgpu::BufferUsages::STORAGE)
            .unwrap_err(),
    );
    says_lost(kernel.bind(&gpu, &[("values", &values)]).unwrap_err());
    gpu.write(&values, 0, &[2_u32]);
    step.submit(&gpu, &[]);
    if let Some(clock) = &mut clock {
        says_lost(clock.calibrate().unwrap_err());
        says_lost(clock.submit(&step, &[], 0, Detail::Spans).unwrap_err());
        assert!(clock.poll().is_ok_and(|t| t.is_empty()));
    }
    says_lost(GpuClock::new(&gpu, 2, 2).map(|_| ()).unwrap_err());
    says_lost(gpu.check().unwrap_err());
    assert!(!gpu.save_cache());
    drop(pooled);
    gpu.pool().trim();
}

fn cached(folder: &Path) -> Gpu {
    let options = options();
    let overrides = Overrides {
        cache: Some(folder.to_owned()),
        ..Overrides::new(&options)
    };
    Gpu::open_with(&options, &overrides).unwrap()
}

#[test]
fn kernels_are_kept_on_disk_where_the_backend_can() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("new/folders");
    let runs = |gpu: &Gpu| {
        let values = gpu.upload("values", &[0_u32; 64]).unwrap();
        recording(gpu, "count", &values, 1).submit(gpu, &[]);
        assert_eq!(gpu.read::<u32>(&values, 64).unwrap(), [1; 64]);
    };
    let gpu = cached(&inside);
    if !gpu.report().pipeline_cache {
        assert!(!gpu.save_cache());
        return;
    }
    runs(&gpu);
    assert!(gpu.save_cache());
    assert!(!gpu.save_cache(), "nothing new");
    drop(gpu);
    let files: Vec<_> = inside
        .read_dir()
        .unwrap()
        .map(|f| f.unwrap().path())
        .collect();
    let [file] = files.as_slice() else {
        panic!("{files:?}")
    };
    let whole = std::fs::read(file).unwrap();
    runs(&cached(&inside));

    // Truncated, changed, empty, foreign: the cache is recreated, and rewritten when the device is dropped.
    let mut changed = whole.clone();
    changed[40] ^= 1;
    for wrong in [
        &whole[..whole.len() / 2],
        &changed,
        &[],
        b"something else entirely",
    ] {
        std::fs::write(file, wrong).unwrap();
        runs(&cached(&inside));
        // Drivers store times and similar data in it: two caches of one kernel may differ by some bytes.
        let again = std::fs::read(file).unwrap();
        assert_ne!(again, wrong);
        assert!(again.len().abs_diff(whole.len()) < whole.len() / 8);
    }
    // A folder that cannot be created: no cache, no error.
    let gpu = cached(&file.join("below a file"));
    runs(&gpu);
    assert!(!gpu.save_cache());
}

#[test]
fn tests_leave_the_users_cache_alone() {
    assert!(Overrides::new(&options()).cache.is_none());
    let mut release = options();
    release.validate = false;
    // Then a cache is used, if this user has a folder for it.
    let expected = std::env::var_os("DAPPLE_CACHE_DIR").or_else(|| std::env::var_os("HOME"));
    assert!(Overrides::new(&release).cache.is_some() || expected.is_none_or(|v| v.is_empty()));
}

#[test]
fn a_device_of_somebody_else_works_on_its_own_buffers() {
    let adapter = adapter();
    let (features, limits) = Gpu::needs(&adapter);
    let (adapter, device, queue) = opened(features, limits);
    let theirs = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 64,
        usage: wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    queue.write_buffer(&theirs, 0, &[1; 64]);
    let options = options();
    let gpu = Gpu::from_wgpu(&adapter, device, queue, &options).unwrap();
    let double = "
        @group(0) @binding(0) var<storage, read_write> values: array<u32>;
        @compute @workgroup_size(16)
        fn double(@builtin(local_invocation_index) i: u32) { values[i] *= 2u; }";
    let kernel = Kernel::from_wgsl(&gpu, "double", double, "double").unwrap();
    let mut recording = CommandList::new();
    recording.dispatch(
        kernel.bind(&gpu, &[("values", &theirs)]).unwrap(),
        Groups::Direct([1, 1, 1]),
    );
    recording.submit(&gpu, &[]);
    assert_eq!(gpu.read::<u32>(&theirs, 16).unwrap(), [0x0202_0202; 16]);
}

#[test]
fn a_device_that_was_opened_with_too_little_is_refused_with_what_to_ask_for() {
    let (adapter, device, queue) = opened(wgpu::Features::empty(), wgpu::Limits::default());
    let error = Gpu::from_wgpu(&adapter, device, queue, &options()).unwrap_err();
    assert!(error.what().contains("IMMEDIATES"), "{error}");
    assert!(error.hint_text().unwrap().contains("Gpu::needs"), "{error}");
}

#[test]
fn errors_advise_what_the_program_says() {
    let options = GpuOptions {
        hints: Hints {
            memory: "close a window".into(),
            ..Hints::default()
        },
        ..options()
    };
    let gpu = Gpu::open(&options).unwrap();
    let error = gpu.buffer("everything", u64::MAX).unwrap_err();
    assert_eq!(error.hint_text(), Some("close a window"));
    // The program supplies the words of hints.
    let own = format!("{:?}", Hints::default());
    assert!(!own.contains("--") && !own.contains("aussian"), "{own}");
}

//! Tests of the pool: it reuses buffers, never too early, and frees them when memory is short.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::{Gpu, GpuOptions, Pool, wgpu};
use support::{gpu, keep_busy};

const STORAGE: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST);

#[test]
fn a_buffer_comes_back_within_its_class_and_use() {
    let gpu = gpu();
    let pool = Pool::new(&gpu);
    let first = pool.take("a", 1000, STORAGE).unwrap();
    assert_eq!((first.bytes(), first.size()), (1000, 1024));
    let kept = wgpu::Buffer::clone(&first);
    drop(first);
    assert_eq!(pool.stats().pooled_bytes, 1024);
    // Same class, other use; other class, same use.
    let other_use = pool
        .take("b", 1000, STORAGE | wgpu::BufferUsages::INDIRECT)
        .unwrap();
    let other_class = pool.take("c", 1025, STORAGE).unwrap();
    assert!(*other_use != kept && *other_class != kept);
    gpu.wait().unwrap();
    let again = pool.take("d", 900, STORAGE).unwrap();
    assert_eq!(*again, kept);
    let stats = pool.stats();
    assert_eq!((stats.allocations, stats.reuses), (3, 1));
    assert_eq!(
        (stats.live_bytes, stats.pooled_bytes),
        (1024 + 1024 + 1280, 0)
    );
    assert_eq!(stats.peak_bytes, stats.live_bytes);
}

#[test]
fn a_buffer_of_exact_size_is_let_go_and_counted() {
    let gpu = gpu();
    let pool = gpu.pool();
    let before = pool.stats();
    let values = gpu.upload("values", &[7u32; 1001]).unwrap();
    let zeros = pool.take_exact("zeros", 4004, STORAGE).unwrap();
    assert_eq!((values.size(), zeros.size()), (4004, 4004));
    assert_eq!(gpu.read::<u32>(&zeros, 1001).unwrap(), [0; 1001]);
    let held = pool.stats();
    // Those two, and the staging buffer of the copy to the host.
    assert_eq!(held.allocations - before.allocations, 3);
    assert_eq!(gpu.counters().buffers_created, held.allocations);
    assert_eq!((held.live, held.live_bytes), (2, 2 * 4004));
    let shared = std::sync::Arc::clone(&values);
    drop(values);
    assert_eq!(pool.stats().live, 2, "another handle keeps it");
    let mut recording = dapple_runtime::CommandList::new();
    recording.keep(shared);
    let mut more = dapple_runtime::CommandList::new();
    more.append(recording);
    assert_eq!(pool.stats().live, 2, "and so does a recording");
    drop((zeros, more));
    let after = pool.stats();
    assert_eq!((after.live, after.live_bytes), (0, 0));
    assert_eq!(after.evicted - before.evicted, 2);
    assert_eq!(
        after.pooled_bytes, held.pooled_bytes,
        "nothing is kept free"
    );
}

#[test]
fn a_buffer_in_flight_is_not_handed_out() {
    let gpu = gpu();
    let pool = Pool::new(&gpu);
    let busy = pool.take("busy", 1 << 20, STORAGE).unwrap();
    let kept = wgpu::Buffer::clone(&busy);
    keep_busy(&gpu, &busy);
    drop(busy);
    let meanwhile = pool.take("meanwhile", 1 << 20, STORAGE).unwrap();
    assert!(*meanwhile != kept, "the queue still works with it");
    assert_eq!(pool.stats().reuses, 0);
    gpu.wait().unwrap();
    let after = pool.take("after", 1 << 20, STORAGE).unwrap();
    assert_eq!(*after, kept);
}

#[test]
fn used_buffers_are_zeroed_on_request() {
    let gpu = gpu();
    let pool = Pool::new(&gpu);
    let dirty = pool.take("dirty", 64, STORAGE).unwrap();
    let kept = wgpu::Buffer::clone(&dirty);
    gpu.write(&dirty, 0, &[7_u32; 16]);
    drop(dirty);
    gpu.submit(gpu.encoder());
    gpu.wait().unwrap();
    let mut encoder = gpu.encoder();
    let clean = pool
        .take_zeroed("clean", 64, STORAGE, &mut encoder)
        .unwrap();
    assert_eq!(*clean, kept);
    assert_eq!(
        gpu.read::<u32>(&clean, 16).unwrap(),
        [7; 16],
        "not cleared before its time"
    );
    gpu.submit(encoder);
    assert_eq!(gpu.read::<u32>(&clean, 16).unwrap(), [0; 16]);
}

#[test]
fn free_buffers_of_a_size_are_bounded_oldest_evicted_first() {
    let gpu = gpu();
    let pool = Pool::new(&gpu);
    assert_eq!(pool.stats().max_buffers_per_size, None);
    pool.set_max_buffers_per_size(Some(2));
    let all: Vec<_> = (0..4)
        .map(|_| pool.take("a", 1000, STORAGE).unwrap())
        .collect();
    let other = pool.take("b", 5000, STORAGE).unwrap();
    let raw: Vec<wgpu::Buffer> = all.iter().map(|b| wgpu::Buffer::clone(b)).collect();
    all.into_iter().for_each(drop);
    drop(other);
    gpu.wait().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.pooled, stats.size_classes, stats.evicted), (3, 2, 2));
    assert_eq!(stats.pooled_bytes, 2 * 1024 + 5120);
    assert_eq!(
        (stats.total_bytes(), stats.reuse_rate()),
        (stats.pooled_bytes, 0.0)
    );
    // The two buffers returned last are available.
    let again = [0, 1].map(|_| pool.take("a", 1000, STORAGE).unwrap());
    assert!(
        again
            .iter()
            .all(|buffer| **buffer == raw[2] || **buffer == raw[3])
    );
    assert!((pool.stats().reuse_rate() - 2.0 / 7.0).abs() < 1e-12);
    drop(again);
    // A lower limit takes effect at once.
    pool.set_max_buffers_per_size(Some(0));
    let stats = pool.stats();
    assert_eq!((stats.pooled, stats.pooled_bytes, stats.evicted), (0, 0, 5));
    pool.set_max_buffers_per_size(None);
    drop(pool.take("a", 1000, STORAGE).unwrap());
    assert_eq!(pool.stats().pooled, 1);
}

#[test]
fn trimming_forgets_what_is_free_and_nothing_else() {
    let gpu = gpu();
    let pool = Pool::new(&gpu);
    let live = pool.take("live", 5000, STORAGE).unwrap();
    drop(pool.take("free", 300, STORAGE).unwrap());
    assert_eq!(pool.trim(), 320);
    assert_eq!(pool.trim(), 0);
    let stats = pool.stats();
    assert_eq!((stats.live_bytes, stats.pooled_bytes), (live.size(), 0));
    // The pool's buffers do not depend on its handle.
    drop(pool);
    gpu.write(&live, 0, &[1_u32]);
    assert_eq!(gpu.read::<u32>(&live, 1).unwrap(), [1]);
}

#[test]
fn absurd_sizes_are_errors() {
    let gpu = gpu();
    for bytes in [u64::MAX, 1 << 62, gpu.report().max_buffer_bytes + 1] {
        let error = gpu
            .pool()
            .take("everything", bytes, STORAGE)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("everything") && error.contains("hint:"),
            "{error}"
        );
        gpu.buffer("everything", bytes).unwrap_err();
    }
    // The device has no pending error.
    gpu.check().unwrap();
    gpu.pool().take("a little", 100, STORAGE).unwrap();
}

/// A software renderer takes its memory from the process, whose memory can be limited. This test runs
/// `until_memory_is_full` in such a process.
#[test]
#[cfg(target_os = "linux")]
fn full_memory_is_an_error_and_trims() {
    if !gpu().report().is_software {
        return;
    }
    let test = std::env::current_exe().unwrap();
    let limited = format!("ulimit -v {KIBIBYTES} && exec \"$0\" \"$@\"");
    let output = std::process::Command::new("sh")
        .args(["-c", &limited])
        .arg(test)
        .args([
            "pool::until_memory_is_full",
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{complained}"
    );
}

/// Address space for the driver and a few gigabytes of buffers.
#[cfg(target_os = "linux")]
const KIBIBYTES: u64 = 8 << 20;

#[test]
#[ignore = "needs a process with little memory: full_memory_is_an_error_and_trims"]
fn until_memory_is_full() {
    let gpu = gpu();
    let pool = gpu.pool();
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let large = 1 << 30;
    let mut live = Vec::new();
    let error = loop {
        assert!(
            live.len() < 16,
            "this process has more memory than it was given"
        );
        match pool.take("a gigabyte", large, usage) {
            Ok(buffer) => live.push(buffer),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("no memory left for a gigabyte"), "{error}");
    gpu.check().unwrap();
    assert!(!gpu.is_lost());
    // Another use does not fit the free buffers: the pool releases them.
    assert!(live.len() >= 2);
    drop(live);
    assert!(pool.stats().pooled_bytes >= 2 * large);
    pool.take("for copies", large, usage | wgpu::BufferUsages::INDEX)
        .unwrap();
    assert_eq!(pool.stats().pooled_bytes, large, "the rest was trimmed");
    // For buffers outside of the pool, the pool releases its free buffers too.
    let fill: Vec<_> = std::iter::from_fn(|| gpu.buffer_with("fill", large, usage).ok()).collect();
    assert_eq!(pool.stats().pooled_bytes, 0);
    let error = gpu
        .buffer_with("one more", large, usage)
        .unwrap_err()
        .to_string();
    assert!(error.contains("no memory left for one more"), "{error}");
    drop(fill);
    gpu.poll().unwrap();
    gpu.buffer_with("after all", large, usage).unwrap();
}

#[test]
fn reading_allocates_once() {
    let gpu = gpu();
    let values = gpu.upload("values", &[1_u32, 2, 3]).unwrap();
    gpu.read::<u32>(&values, 3).unwrap();
    let before = gpu.counters();
    for _ in 0..5 {
        assert_eq!(gpu.read::<u32>(&values, 3).unwrap(), [1, 2, 3]);
    }
    let done = gpu.counters() - before;
    assert_eq!(
        (done.buffers_created, done.waits, done.bytes_read),
        (0, 5, 60)
    );
}

#[test]
fn a_limit_of_memory_is_one_of_the_pool_and_of_the_report() {
    let gpu = Gpu::open(&GpuOptions {
        memory_limit: Some(16 << 20),
        ..support::options()
    })
    .unwrap();
    assert_eq!(gpu.report().memory_bytes, Some(16 << 20));
    let pool = gpu.pool();
    let first = pool.take("first", 10 << 20, STORAGE).unwrap();
    let error = pool.take("second", 10 << 20, STORAGE).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no memory left for second"), "{text}");
    assert!(text.contains("the limit of 16 MiB of its memory"), "{text}");
    drop(first);
    // A free buffer that does not fit the request makes place for it.
    let third = pool.take("third", 15 << 20, STORAGE).unwrap();
    assert!(pool.stats().total_bytes() <= 16 << 20);
    drop(third);
}

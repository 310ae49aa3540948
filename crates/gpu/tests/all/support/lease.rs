//! Devices that tests share: opening a software GPU and compiling its kernels takes seconds, and most tests need no
//! device of their own.
//!
//! A test's thread leases a device for each set of options that it uses. The lease is exclusive and ends with the
//! thread. So two tests that run at once never share a queue, and counters of a device are those of one test.

use dapple_gpu::Context;
use dapple_runtime::{Gpu, GpuOptions};
use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

/// Devices that no test uses at present, by the options that they were opened with.
static IDLE: Mutex<Vec<(String, Context)>> = Mutex::new(Vec::new());

thread_local! {
    static LEASED: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

struct Lease {
    options: String,
    context: Context,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // A device on which something failed is not leased again.
        if self.context.gpu.check().is_ok() {
            idle().push((self.options.clone(), self.context.clone()));
        }
    }
}

fn idle() -> std::sync::MutexGuard<'static, Vec<(String, Context)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the device of this test's thread with these options. Its kernels may have been compiled already.
///
/// # Errors
/// If there is no such device.
pub fn device(options: &GpuOptions) -> dapple_scene::Result<Context> {
    let key = format!("{options:?}");
    LEASED.with_borrow_mut(|leased| {
        if let Some(lease) = leased.iter().find(|lease| lease.options == key) {
            return Ok(lease.context.clone());
        }
        let free = {
            let mut idle = idle();
            let found = idle.iter().position(|(options, _)| *options == key);
            found.map(|at| idle.swap_remove(at).1)
        };
        let context = match free {
            Some(context) => context,
            None => Context::new(Gpu::open(options)?),
        };
        leased.push(Lease {
            options: key,
            context: context.clone(),
        });
        Ok(context)
    })
}

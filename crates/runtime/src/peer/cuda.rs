//! Copies between GPUs of NVIDIA by the CUDA driver, which is loaded if it exists.
//!
//! 1. Vulkan exports the memory of a buffer, and the driver imports it on the same GPU.
//! 2. The driver copies between GPUs into memory of its own, over NVLink where there is one, and from there into the
//!    buffer. It has no direct way between GPUs into imported memory: on two H200, such a copy ran at 37 GB/s, and the
//!    two copies together at 210 GB/s.
//!
//! Nothing here is needed at compile time.

use crate::external::ExternalBuffer;
use dapple_base::{Error, Result};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::IntoRawFd;
use std::ptr::null_mut;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

type Code = c_int;
type Context = *mut c_void;
type Stream = *mut c_void;
type Memory = *mut c_void;
type Pointer = c_ulonglong;

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`.
const FILE_DESCRIPTOR: c_uint = 1;
/// `CUDA_EXTERNAL_MEMORY_DEDICATED`.
const DEDICATED: c_uint = 1;
/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ENABLED_BEFORE: Code = 704;

/// `CUDA_EXTERNAL_MEMORY_HANDLE_DESC`, with a file descriptor in its union.
#[repr(C)]
#[derive(Default)]
struct HandleDescription {
    kind: c_uint,
    pad: c_uint,
    descriptor: c_int,
    union_rest: [c_int; 3],
    size: c_ulonglong,
    flags: c_uint,
    reserved: [c_uint; 16],
}

/// `CUDA_EXTERNAL_MEMORY_BUFFER_DESC`.
#[repr(C)]
#[derive(Default)]
struct RangeDescription {
    offset: c_ulonglong,
    size: c_ulonglong,
    flags: c_uint,
    reserved: [c_uint; 16],
}

/// Declares functions of the driver, by their names in its library.
macro_rules! functions {
    ($($name:ident: $symbol:literal ($($argument:ty),*);)*) => {
        /// Functions of the driver.
        struct Driver {
            $($name: unsafe extern "C" fn($($argument),*) -> Code,)*
            _library: Library,
        }

        impl Driver {
            /// Loads the driver; `None` if it is missing.
            fn load() -> Option<Self> {
                // SAFETY: the driver's library has no requirements at loading.
                let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
                // SAFETY: the types are those of the driver's header, `cuda.h`.
                Some(unsafe {
                    Self {
                        $($name: *library.get(concat!($symbol, "\0").as_bytes()).ok()?,)*
                        _library: library,
                    }
                })
            }
        }
    };
}

functions! {
    init: "cuInit" (c_uint);
    device_of: "cuDeviceGetByPCIBusId" (*mut c_int, *const i8);
    retain: "cuDevicePrimaryCtxRetain" (*mut Context, c_int);
    set_current: "cuCtxSetCurrent" (Context);
    can_access: "cuDeviceCanAccessPeer" (*mut c_int, c_int, c_int);
    enable_access: "cuCtxEnablePeerAccess" (Context, c_uint);
    create_stream: "cuStreamCreate" (*mut Stream, c_uint);
    synchronize: "cuStreamSynchronize" (Stream);
    import: "cuImportExternalMemory" (*mut Memory, *const HandleDescription);
    map: "cuExternalMemoryGetMappedBuffer" (*mut Pointer, Memory, *const RangeDescription);
    free: "cuMemFree_v2" (Pointer);
    release: "cuDestroyExternalMemory" (Memory);
    allocate: "cuMemAlloc_v2" (*mut Pointer, usize);
    copy_near: "cuMemcpyDtoDAsync_v2" (Pointer, Pointer, usize, Stream);
    copy: "cuMemcpyPeerAsync" (Pointer, Context, Pointer, Context, usize, Stream);
}

/// A GPU in the driver.
#[derive(Debug)]
struct Device {
    number: c_int,
    context: Context,
    stream: Stream,
    /// Locked during a copy to this GPU.
    between: Mutex<Between>,
}

/// Memory of the driver that copies between GPUs go through.
#[derive(Debug, Default)]
struct Between {
    pointer: Pointer,
    bytes: u64,
}

// SAFETY: contexts and streams of the driver may be used from any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

static DRIVER: LazyLock<Option<Driver>> = LazyLock::new(|| {
    let driver = Driver::load()?;
    // SAFETY: the first call.
    (unsafe { (driver.init)(0) } == 0).then_some(driver)
});

/// Devices by address on the bus. They stay for the life of the process, as the driver's primary contexts do.
static DEVICES: Mutex<Option<HashMap<String, Arc<Device>>>> = Mutex::new(None);

fn check(code: Code, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::unsupported(format!(
            "{what} failed with code {code} of the CUDA driver"
        ))),
    }
}

/// Memory of a buffer in the driver.
#[derive(Debug)]
pub struct Imported {
    device: Arc<Device>,
    memory: Memory,
    pointer: Pointer,
}

// SAFETY: as for the device.
unsafe impl Send for Imported {}
// SAFETY: its fields do not change.
unsafe impl Sync for Imported {}

/// Returns the device at an address on the bus, and lets it and the devices before copy from each other.
fn device_at(driver: &Driver, bus: &str) -> Result<Arc<Device>> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_default();
    if let Some(device) = devices.get(bus) {
        return Ok(Arc::clone(device));
    }
    let address =
        CString::new(bus).map_err(|_| Error::internal("an address on the bus is no text"))?;
    let mut device = Device {
        number: 0,
        context: null_mut(),
        stream: null_mut(),
        between: Mutex::default(),
    };
    // SAFETY: the pointers are valid during the calls, and the context is current before it is used.
    unsafe {
        let named = (driver.device_of)(&mut device.number, address.as_ptr().cast());
        check(named, "looking up a GPU")?;
        check(
            (driver.retain)(&mut device.context, device.number),
            "opening a GPU",
        )?;
        check((driver.set_current)(device.context), "selecting a GPU")?;
        check(
            (driver.create_stream)(&mut device.stream, NON_BLOCKING),
            "a stream",
        )?;
    }
    for other in devices.values() {
        allow(driver, &device, other)?;
        allow(driver, other, &device)?;
    }
    let device = Arc::new(device);
    devices.insert(bus.to_owned(), Arc::clone(&device));
    Ok(device)
}

/// Lets a device copy directly from another device, if it can.
fn allow(driver: &Driver, device: &Device, other: &Device) -> Result<()> {
    let mut can = 0;
    // SAFETY: both devices are open.
    unsafe {
        let asked = (driver.can_access)(&mut can, device.number, other.number);
        check(asked, "a request for access between GPUs")?;
        if can == 0 {
            return Ok(());
        }
        check((driver.set_current)(device.context), "selecting a GPU")?;
        match (driver.enable_access)(other.context, 0) {
            ENABLED_BEFORE => Ok(()),
            code => check(code, "access between GPUs"),
        }
    }
}

impl Imported {
    /// Imports the memory of a buffer of the GPU at this address on the bus; `None` without the driver.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn new(bus: &str, external: ExternalBuffer) -> Result<Option<Self>> {
        let Some(driver) = DRIVER.as_ref() else {
            return Ok(None);
        };
        let device = device_at(driver, bus)?;
        let bytes = external.buffer.size();
        let handle = HandleDescription {
            kind: FILE_DESCRIPTOR,
            descriptor: external.handle.into_raw_fd(),
            size: external.memory_bytes,
            flags: DEDICATED,
            ..HandleDescription::default()
        };
        let range = RangeDescription {
            size: bytes,
            ..RangeDescription::default()
        };
        let mut imported = Self {
            device,
            memory: null_mut(),
            pointer: 0,
        };
        // SAFETY: the structures are valid; the import takes the descriptor.
        unsafe {
            check(
                (driver.set_current)(imported.device.context),
                "selecting a GPU",
            )?;
            check(
                (driver.import)(&mut imported.memory, &handle),
                "the import of memory",
            )?;
            let mapped = (driver.map)(&mut imported.pointer, imported.memory, &range);
            check(mapped, "the mapping of memory")?;
        }
        Ok(Some(imported))
    }

    /// Copies bytes from another buffer, and waits for them. Both ranges are inside their buffers.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn copy_from(&self, at: u64, source: &Self, from: u64, bytes: u64) -> Result<()> {
        let Some(driver) = DRIVER.as_ref() else {
            return Err(Error::internal("the CUDA driver is gone"));
        };
        let to = &self.device;
        let mut between = to.between.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller checked the ranges, and nothing writes them during the copy. The memory between is large
        // enough, and only this copy uses it.
        unsafe {
            check((driver.set_current)(to.context), "selecting a GPU")?;
            between.fit(driver, bytes)?;
            let copied = (driver.copy)(
                between.pointer,
                to.context,
                source.pointer + from,
                source.device.context,
                bytes as usize,
                to.stream,
            );
            check(copied, "a copy between GPUs")?;
            let copied = (driver.copy_near)(
                self.pointer + at,
                between.pointer,
                bytes as usize,
                to.stream,
            );
            check(copied, "a copy on a GPU")?;
            check(
                (driver.synchronize)(to.stream),
                "waiting for a copy between GPUs",
            )
        }
    }
}

impl Between {
    /// Makes the memory large enough.
    ///
    /// # Safety
    /// The context of its device is current, and no copy is in progress.
    unsafe fn fit(&mut self, driver: &Driver, bytes: u64) -> Result<()> {
        if bytes <= self.bytes {
            return Ok(());
        }
        let wanted = bytes + bytes / 2;
        let mut pointer = 0;
        // SAFETY: the caller's contract.
        unsafe {
            if self.bytes > 0 {
                check((driver.free)(self.pointer), "freeing memory of a GPU")?;
                *self = Self::default();
            }
            let allocated = (driver.allocate)(&mut pointer, wanted as usize);
            check(allocated, "memory for copies between GPUs")?;
        }
        *self = Self {
            pointer,
            bytes: wanted,
        };
        Ok(())
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let Some(driver) = DRIVER.as_ref() else {
            return;
        };
        // SAFETY: nothing uses the memory any more; failures at the end have no effect.
        unsafe {
            (driver.set_current)(self.device.context);
            (driver.free)(self.pointer);
            (driver.release)(self.memory);
        }
    }
}

//! Copies between GPUs of NVIDIA by the CUDA driver, which is loaded if it exists.
//!
//! 1. The driver allocates memory ([`Memory`]) and exports it, and Vulkan imports it into a buffer on the same GPU.
//! 2. The driver copies between such memory of two GPUs, over NVLink where there is one.
//!
//! The other way around, with memory that Vulkan exports, copies into it ran at 37 GB/s on two H200, this way at 285.
//! Nothing here is needed at compile time.

use dapple_base::{Error, Result};
use libloading::Library;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint, c_ulonglong, c_void};
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

type Code = c_int;
type Context = *mut c_void;
type Stream = *mut c_void;
type RawEvent = *mut c_void;
type Handle = c_ulonglong;
type Pointer = c_ulonglong;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_DISABLE_TIMING`.
const NO_TIMING: c_uint = 2;
/// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
const ENABLED_BEFORE: Code = 704;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_uint = 1;
/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const FILE_DESCRIPTOR: c_uint = 1;
/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: c_uint = 1;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_AND_WRITE: c_uint = 3;

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Location {
    kind: c_uint,
    number: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
struct AllocationProperties {
    kind: c_uint,
    handles: c_uint,
    location: Location,
    of_windows: *mut c_void,
    flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: c_uint,
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
            /// Loads the driver; `None` if it is missing or old.
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
    create_event: "cuEventCreate" (*mut RawEvent, c_uint);
    record_event: "cuEventRecord" (RawEvent, Stream);
    wait_for_event: "cuEventSynchronize" (RawEvent);
    destroy_event: "cuEventDestroy_v2" (RawEvent);
    granularity: "cuMemGetAllocationGranularity" (*mut usize, *const AllocationProperties, c_uint);
    create: "cuMemCreate" (*mut Handle, usize, *const AllocationProperties, c_ulonglong);
    export: "cuMemExportToShareableHandle" (*mut c_void, Handle, c_uint, c_ulonglong);
    release: "cuMemRelease" (Handle);
    reserve: "cuMemAddressReserve" (*mut Pointer, usize, usize, Pointer, c_ulonglong);
    free_address: "cuMemAddressFree" (Pointer, usize);
    map: "cuMemMap" (Pointer, usize, usize, Handle, c_ulonglong);
    unmap: "cuMemUnmap" (Pointer, usize);
    set_access: "cuMemSetAccess" (Pointer, usize, *const Access, usize);
    copy: "cuMemcpyPeerAsync" (Pointer, Context, Pointer, Context, usize, Stream);
    copy_to_host: "cuMemcpyDtoHAsync_v2" (*mut c_void, Pointer, usize, Stream);
    wait_for_stream: "cuStreamSynchronize" (Stream);
}

/// A GPU in the driver.
#[derive(Debug, Clone, Copy)]
struct Device {
    number: c_int,
    context: Context,
    stream: Stream,
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
static DEVICES: Mutex<Option<HashMap<String, Device>>> = Mutex::new(None);

/// False: GPUs get no access to each other's memory.
static DIRECT: AtomicBool = AtomicBool::new(true);

/// Makes later copies pass through the host.
pub fn copy_through_host() {
    DIRECT.store(false, Ordering::Relaxed);
}

fn check(code: Code, what: &str) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::unsupported(format!(
            "{what} failed with code {code} of the CUDA driver"
        ))),
    }
}

/// Returns the device at an address on the bus, and lets it and the devices before copy from each other.
fn device_at(driver: &Driver, bus: &str) -> Result<Device> {
    let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let devices = devices.get_or_insert_default();
    if let Some(device) = devices.get(bus) {
        return Ok(*device);
    }
    let address =
        CString::new(bus).map_err(|_| Error::internal("an address on the bus is no text"))?;
    let mut device = Device {
        number: 0,
        context: null_mut(),
        stream: null_mut(),
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
    let others = devices.values();
    for other in others.filter(|_| DIRECT.load(Ordering::Relaxed)) {
        allow(driver, &device, other)?;
        allow(driver, other, &device)?;
    }
    devices.insert(bus.to_owned(), device);
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

/// Memory of the driver on a GPU.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    handle: Handle,
    /// 0 = not mapped yet.
    pointer: Pointer,
    bytes: usize,
    /// Numbers of the devices that may read it.
    readers: Mutex<Vec<c_int>>,
}

impl Memory {
    /// Allocates memory of the GPU at this address on the bus, and exports it; `None` without the driver.
    ///
    /// # Errors
    /// No memory, or a driver that cannot export it.
    pub fn allocate(bus: &str, bytes: u64) -> Result<Option<(Self, OwnedFd)>> {
        let Some(driver) = DRIVER.as_ref() else {
            return Ok(None);
        };
        let device = device_at(driver, bus)?;
        let location = Location {
            kind: ON_DEVICE,
            number: device.number,
        };
        let properties = AllocationProperties {
            kind: PINNED,
            handles: FILE_DESCRIPTOR,
            location,
            of_windows: null_mut(),
            flags: [0; 8],
        };
        let mut granularity = 1;
        let mut memory = Self {
            device,
            handle: 0,
            pointer: 0,
            bytes: 0,
            readers: Mutex::new(vec![device.number]),
        };
        let mut descriptor: c_int = -1;
        // SAFETY: the structures are valid during the calls; what exists is freed when `memory` is dropped.
        unsafe {
            check((driver.set_current)(device.context), "selecting a GPU")?;
            let asked = (driver.granularity)(&mut granularity, &properties, 0);
            check(asked, "a request for the size of pages")?;
            let bytes = (bytes as usize).next_multiple_of(granularity.max(1));
            let created = (driver.create)(&mut memory.handle, bytes, &properties, 0);
            check(created, "memory of a GPU")?;
            memory.bytes = bytes;
            let mut pointer = 0;
            let reserved = (driver.reserve)(&mut pointer, bytes, 0, 0, 0);
            check(reserved, "an address of memory")?;
            let mapped = (driver.map)(pointer, bytes, 0, memory.handle, 0);
            if mapped != 0 {
                (driver.free_address)(pointer, bytes);
            }
            check(mapped, "the mapping of memory")?;
            memory.pointer = pointer;
            memory.allow(driver, device.number)?;
            let target = (&raw mut descriptor).cast();
            let exported = (driver.export)(target, memory.handle, FILE_DESCRIPTOR, 0);
            check(exported, "the export of memory")?;
        }
        // SAFETY: a new descriptor, which belongs to this process alone.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Some((memory, descriptor)))
    }

    /// Returns the bytes of the memory, at least those that were requested.
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Lets a device read the memory directly. Without it, copies go through the host.
    fn let_read(&self, driver: &Driver, device: c_int) -> Result<()> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if !readers.contains(&device) && DIRECT.load(Ordering::Relaxed) {
            self.allow(driver, device)?;
            readers.push(device);
        }
        Ok(())
    }

    fn allow(&self, driver: &Driver, device: c_int) -> Result<()> {
        let access = Access {
            location: Location {
                kind: ON_DEVICE,
                number: device,
            },
            flags: READ_AND_WRITE,
        };
        // SAFETY: the memory is mapped.
        let allowed = unsafe { (driver.set_access)(self.pointer, self.bytes, &access, 1) };
        check(allowed, "access to memory")
    }

    /// Copies bytes to the host, and waits for them. The range is inside the memory.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn read(&self, from: u64, out: &mut [u8]) -> Result<()> {
        let driver = driver()?;
        let Device {
            context, stream, ..
        } = self.device;
        // SAFETY: the caller checked the range; `out` exists until the stream is done.
        unsafe {
            check((driver.set_current)(context), "selecting a GPU")?;
            let target = out.as_mut_ptr().cast();
            let copied = (driver.copy_to_host)(target, self.pointer + from, out.len(), stream);
            let waited = (driver.wait_for_stream)(stream);
            check(copied, "a copy to the host")?;
            check(waited, "waiting for a copy to the host")
        }
    }

    /// Begins to copy bytes from other memory. Both ranges are inside their memory, which exists until the copy is done.
    ///
    /// # Errors
    /// The driver refuses it.
    pub fn begin_copy_from(&self, at: u64, source: &Self, from: u64, bytes: u64) -> Result<Event> {
        let driver = driver()?;
        let to = &self.device;
        source.let_read(driver, to.number)?;
        let mut event = Event(null_mut());
        // SAFETY: the caller checked the ranges, and nothing writes them during the copy.
        unsafe {
            check((driver.set_current)(to.context), "selecting a GPU")?;
            check((driver.create_event)(&mut event.0, NO_TIMING), "an event")?;
            let copied = (driver.copy)(
                self.pointer + at,
                to.context,
                source.pointer + from,
                source.device.context,
                bytes as usize,
                to.stream,
            );
            check(copied, "a copy between GPUs")?;
            check((driver.record_event)(event.0, to.stream), "an event")?;
        }
        Ok(event)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Ok(driver) = driver() else {
            return;
        };
        // SAFETY: nothing uses the memory any more; failures at the end have no effect. Vulkan's import keeps it.
        unsafe {
            (driver.set_current)(self.device.context);
            if self.pointer != 0 {
                (driver.unmap)(self.pointer, self.bytes);
                (driver.free_address)(self.pointer, self.bytes);
            }
            if self.bytes != 0 {
                (driver.release)(self.handle);
            }
        }
    }
}

/// End of a copy.
#[derive(Debug)]
pub struct Event(RawEvent);

// SAFETY: events of the driver may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Waits for the copy.
    ///
    /// # Errors
    /// The copy failed.
    pub fn wait(self) -> Result<()> {
        let driver = driver()?;
        // SAFETY: the event exists.
        let waited = unsafe { (driver.wait_for_event)(self.0) };
        check(waited, "waiting for a copy between GPUs")
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(driver) = driver()
            && !self.0.is_null()
        {
            // SAFETY: the event exists; a failure at the end has no effect. The memory of a copy without a wait
            // may be freed next.
            unsafe {
                (driver.wait_for_event)(self.0);
                (driver.destroy_event)(self.0);
            }
        }
    }
}

fn driver() -> Result<&'static Driver> {
    let driver = DRIVER.as_ref();
    driver.ok_or_else(|| Error::internal("the CUDA driver is gone"))
}

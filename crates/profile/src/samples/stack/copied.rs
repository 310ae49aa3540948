//! Registers and stack are copied in the handler and unwound later, by another thread.
//!
//! 1. [`take`] stores four registers and the stack above its pointer, up to [`BYTES`]. One system call copies it, which
//!    stops at missing memory instead of ending the program.
//! 2. [`Unwinder::follow`] copies the unwind tables of every library that was loaded since its last call. It runs
//!    inside the loader's own list, so no library can be unloaded during the copy.
//! 3. [`Unwinder::addresses`] unwinds a copy with `framehop`, which needs only tables and bytes.
//!
//! Code without tables (compiled by a driver) is unwound by its frame pointers, where it has any.

use super::{CUT, MOST_FRAMES};
use crate::samples::SampleError;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder as _, UnwinderNative,
};
use libc::{c_int, c_void, iovec};
use std::collections::BTreeMap;

/// Bytes of a stack that are stored.
pub(in super::super) const BYTES: usize = 64 << 10;
/// Bytes that a system call copies whole or not at all. Pages have this size or more.
const PIECE: usize = 4096;
/// A table starts with the address of `.eh_frame`: four bytes, relative to themselves.
const RELATIVE_I32: u8 = 0x1b;

/// Registers that unwinding starts from.
#[derive(Debug, Clone, Copy, Default)]
pub(in super::super) struct Registers {
    /// Instruction pointer.
    pc: u64,
    /// Stack pointer.
    sp: u64,
    /// Frame pointer.
    fp: u64,
    /// Return address of an innermost function, on CPUs that store it in a register.
    #[cfg(target_arch = "aarch64")]
    lr: u64,
}

impl Registers {
    /// # Safety
    /// `context` is the context that the system passed to a signal handler.
    unsafe fn from_context(context: *mut c_void) -> Self {
        // SAFETY: as above.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        {
            let at = |register: c_int| machine.gregs[register as usize].cast_unsigned();
            Self {
                pc: at(libc::REG_RIP),
                sp: at(libc::REG_RSP),
                fp: at(libc::REG_RBP),
            }
        }
        #[cfg(target_arch = "aarch64")]
        Self {
            pc: machine.pc,
            sp: machine.sp,
            fp: machine.regs[29],
            lr: machine.regs[30],
        }
    }

    fn unwinding(self) -> UnwindRegsNative {
        #[cfg(target_arch = "x86_64")]
        return UnwindRegsNative::new(self.pc, self.sp, self.fp);
        #[cfg(target_arch = "aarch64")]
        return UnwindRegsNative::new(self.lr, self.sp, self.fp);
    }
}

/// Stores the state of the interrupted thread: its registers, its stack in `bytes`, and the number of bytes. Called in
/// a signal handler: takes no lock and no memory.
///
/// # Safety
/// `context` is the context that the system passed to a signal handler.
pub(in super::super) unsafe fn take(
    context: *mut c_void,
    bytes: &mut [u8; BYTES],
) -> (Registers, usize) {
    // SAFETY: as above.
    let registers = unsafe { Registers::from_context(context) };
    (registers, copy(registers.sp, bytes))
}

/// Copies the readable bytes from `from` on; returns their number.
fn copy(from: u64, bytes: &mut [u8; BYTES]) -> usize {
    const PIECES: usize = BYTES / PIECE + 1;
    let mut pieces = [iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    }; PIECES];
    let (mut at, end) = (from as usize, (from as usize).saturating_add(BYTES));
    for piece in &mut pieces {
        // To the end of the page, so that a missing page does not affect the others.
        let next = (at / PIECE + 1).saturating_mul(PIECE).min(end);
        piece.iov_base = at as *mut c_void;
        piece.iov_len = next.saturating_sub(at);
        at = next;
    }
    let to = iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: BYTES,
    };
    // SAFETY: it writes into `bytes` no more than their length, and returns an error where it may not read.
    let copied = unsafe {
        libc::process_vm_readv(
            libc::getpid(),
            &raw const to,
            1,
            pieces.as_ptr(),
            PIECES as libc::c_ulong,
            0,
        )
    };
    usize::try_from(copied).unwrap_or(0)
}

/// Checks that stacks can be copied on this system.
///
/// # Errors
/// A system that forbids a process to read its own memory by this call (a sandbox).
pub(in super::super) fn check() -> Result<(), SampleError> {
    let (mut bytes, here) = (Box::new([0; BYTES]), 0_u64);
    match copy(&raw const here as u64, &mut bytes) {
        0 => Err(SampleError::refused()),
        _ => Ok(()),
    }
}

/// Tables of all libraries that are loaded.
pub(in super::super) struct Unwinder {
    tables: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// First addresses of the known libraries, by their base.
    known: BTreeMap<u64, u64>,
    /// Numbers of loads and unloads so far, by the loader.
    changes: Option<(u64, u64)>,
}

/// A library in the loader's list.
struct Loaded {
    base: u64,
    name: String,
    range: std::ops::Range<u64>,
    tables: Option<ExplicitModuleSectionInfo<Vec<u8>>>,
}

/// State of the walk through the loader's list.
struct Listing<'a> {
    known: &'a BTreeMap<u64, u64>,
    changes: &'a mut Option<(u64, u64)>,
    bases: Vec<u64>,
    new: Vec<Loaded>,
}

impl Unwinder {
    pub(in super::super) fn new() -> Self {
        Self {
            tables: UnwinderNative::new(),
            cache: CacheNative::new(),
            known: BTreeMap::new(),
            changes: None,
        }
    }

    /// Updates the tables for libraries that were loaded or unloaded. Must be called before stacks are unwound.
    pub(in super::super) fn follow(&mut self) {
        let mut listing = Listing {
            known: &self.known,
            changes: &mut self.changes,
            bases: Vec::new(),
            new: Vec::new(),
        };
        // SAFETY: the listing outlives the call, which passes it to no other code.
        let ended = unsafe { libc::dl_iterate_phdr(Some(list), (&raw mut listing).cast()) };
        if ended != 0 {
            return;
        }
        let (bases, new) = (listing.bases, listing.new);
        let tables = &mut self.tables;
        self.known.retain(|base, start| {
            let stays = bases.contains(base);
            if !stays {
                tables.remove_module(*start);
            }
            stays
        });
        for library in new {
            self.known.insert(library.base, library.range.start);
            let sections = library.tables.unwrap_or_default();
            tables.add_module(Module::new(
                library.name,
                library.range,
                library.base,
                sections,
            ));
        }
    }

    /// Returns the addresses of a stack, innermost first: the instruction, then the return address of each function.
    pub(in super::super) fn addresses(&mut self, registers: Registers, stack: &[u8]) -> Vec<usize> {
        let mut ended_early = false;
        let mut read = |address: u64| {
            let at = usize::try_from(address.wrapping_sub(registers.sp)).unwrap_or(usize::MAX);
            let bytes = stack.get(at..at.saturating_add(8));
            ended_early |= bytes.is_none() && stack.len() == BYTES;
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes.map(u64::from_le_bytes).ok_or(())
        };
        let mut frames = self.tables.iter_frames(
            registers.pc,
            registers.unwinding(),
            &mut self.cache,
            &mut read,
        );
        let mut addresses = Vec::new();
        while addresses.len() < MOST_FRAMES
            && let Ok(Some(frame)) = frames.next()
        {
            addresses.push(frame.address() as usize);
        }
        if ended_early || addresses.len() == MOST_FRAMES {
            addresses.push(CUT);
        }
        addresses
    }
}

/// Lists one library; a result other than 0 ends the list.
unsafe extern "C" fn list(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a library, which stays until the function returns, and the listing.
    let (info, listing) = unsafe { (&*info, &mut *data.cast::<Listing<'_>>()) };
    let changes = (info.dlpi_adds, info.dlpi_subs);
    if listing.bases.is_empty() {
        if *listing.changes == Some(changes) {
            return 1;
        }
        *listing.changes = Some(changes);
    }
    listing.bases.push(info.dlpi_addr);
    if !listing.known.contains_key(&info.dlpi_addr) && !info.dlpi_phdr.is_null() {
        // SAFETY: the library has this number of program headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        // SAFETY: the headers are those of a library that is loaded at this address.
        if let Some(loaded) = unsafe { loaded(info.dlpi_addr, headers) } {
            listing.new.push(loaded);
        }
    }
    0
}

/// Returns the addresses of a library, and copies of its tables.
///
/// # Safety
/// The headers are those of a library that is loaded at `base`, and stays.
unsafe fn loaded(base: u64, headers: &[libc::Elf64_Phdr]) -> Option<Loaded> {
    let segments = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    let start = segments().map(|h| h.p_vaddr).min()?;
    let end = segments().map(|h| h.p_vaddr + h.p_memsz).max()?;
    // Bytes from an address of the library to the end of its segment, or `most` of them.
    let bytes = |from: u64, most: u64| {
        let segment = segments().find(|h| (h.p_vaddr..h.p_vaddr + h.p_filesz).contains(&from))?;
        let readable = segment.p_flags & libc::PF_R != 0;
        let count = (segment.p_vaddr + segment.p_filesz - from).min(most);
        // SAFETY: the bytes are in a loaded, readable segment.
        readable.then(|| unsafe {
            let at = base.wrapping_add(from) as *const u8;
            std::slice::from_raw_parts(at, count as usize).to_vec()
        })
    };
    let tables = || {
        let index = headers.iter().find(|h| h.p_type == libc::PT_GNU_EH_FRAME)?;
        let eh_frame_hdr = bytes(index.p_vaddr, index.p_memsz)?;
        let &[_, RELATIVE_I32, _, _, a, b, c, d, ..] = eh_frame_hdr.as_slice() else {
            return None;
        };
        let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
        let at = (index.p_vaddr + 4).checked_add_signed(distance)?;
        let eh_frame = bytes(at, u64::MAX)?;
        Some(ExplicitModuleSectionInfo {
            eh_frame_hdr_svma: Some(index.p_vaddr..index.p_vaddr + eh_frame_hdr.len() as u64),
            eh_frame_svma: Some(at..at + eh_frame.len() as u64),
            eh_frame_hdr: Some(eh_frame_hdr),
            eh_frame: Some(eh_frame),
            ..Default::default()
        })
    };
    Some(Loaded {
        base,
        name: String::new(),
        range: base.wrapping_add(start)..base.wrapping_add(end),
        tables: tables(),
    })
}

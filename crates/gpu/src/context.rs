//! What stages are made with: the device, the shaders, the buffers by name.

use crate::layout;
use crate::optics::Optics;
use dapple_runtime::primitives::RadixSort;
use dapple_runtime::{Bound, Defines, Gpu, Groups, Kernel, ShaderSet, primitives, wgpu};
use dapple_scene::{Error, Result};
use std::collections::BTreeMap;

/// Device and shaders.
#[derive(Debug, Clone)]
pub struct Context {
    /// The device.
    pub gpu: Gpu,
    /// All WGSL.
    pub shaders: ShaderSet,
    /// Constants and flags of this engine's permutations.
    pub defines: Defines,
    /// Whether dispatches are kept short: see [`layout::DISPATCH_PARTS`].
    pub bounds_dispatches: bool,
}

impl Context {
    /// For an open device.
    pub fn new(gpu: Gpu) -> Self {
        Self {
            // SAFETY: all of them index by counts that the host bounds by the sizes of buffers, their loops
            // end, and the tests run each with wgpu's checks.
            shaders: unsafe { layout::shaders().without_checks() },
            defines: primitives::defines(&gpu, layout::defines()),
            bounds_dispatches: gpu.report().bounds_dispatches,
            gpu,
        }
    }

    /// Compiles the dispatches of one that may take long: one kernel, or where dispatches are kept
    /// short one for each part of the work.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn kernel_parts(&self, name: &str, entry: &str, defines: &Defines) -> Result<Vec<Kernel>> {
        let kernel =
            |defines: &Defines| Kernel::new(&self.gpu, &self.shaders, name, entry, defines);
        if !self.bounds_dispatches {
            return Ok(vec![kernel(defines)?]);
        }
        (0..layout::DISPATCH_PARTS)
            .map(|part| kernel(&defines.clone().flag("PARTS", true).u32("PART", part)))
            .collect()
    }

    /// Compiles a sort, without checks as all of this engine's kernels.
    ///
    /// # Errors
    /// See [`RadixSort::new`].
    pub fn radix_sort(&self, bits: u32, numbered: bool) -> Result<RadixSort> {
        RadixSort::with((&self.gpu, &self.shaders), &self.defines, bits, numbered)
    }

    /// Compiles entry point `entry` of `shaders/<name>.wgsl`.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn kernel(&self, name: &str, entry: &str) -> Result<Kernel> {
        Kernel::new(&self.gpu, &self.shaders, name, entry, &self.defines)
    }

    /// [`Self::kernel`] in the permutation for these optics.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn optical_kernel(&self, name: &str, entry: &str, optics: Optics) -> Result<Kernel> {
        let defines = optics.define(self.defines.clone());
        Kernel::new(&self.gpu, &self.shaders, name, entry, &defines)
    }
}

/// Buffers by the names that shaders give them.
#[derive(Debug, Clone, Default)]
pub struct Buffers {
    by_name: BTreeMap<&'static str, wgpu::Buffer>,
}

impl Buffers {
    /// Adds or replaces a buffer.
    pub fn set(&mut self, name: &'static str, buffer: wgpu::Buffer) {
        self.by_name.insert(name, buffer);
    }

    /// Takes a buffer away.
    pub fn remove(&mut self, name: &'static str) {
        self.by_name.remove(name);
    }

    /// A buffer that must be there.
    ///
    /// # Errors
    /// It is not: a mistake of ours.
    pub fn get(&self, name: &str) -> Result<&wgpu::Buffer> {
        self.by_name
            .get(name)
            .ok_or_else(|| Error::internal(format!("there is no buffer \"{name}\"")))
    }

    /// Binds whatever `kernel` names.
    ///
    /// # Errors
    /// A name without a buffer.
    pub fn bind(&self, gpu: &Gpu, kernel: &Kernel) -> Result<Bound> {
        self.bind_with(gpu, kernel, &[])
    }

    /// [`Self::bind`], with some names given here instead.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_with(
        &self,
        gpu: &Gpu,
        kernel: &Kernel,
        over: &[(&str, &wgpu::Buffer)],
    ) -> Result<Bound> {
        let mut list = over.to_vec();
        list.extend(self.by_name.iter().map(|(name, buffer)| (*name, buffer)));
        kernel.bind(gpu, &list)
    }

    /// The indirect dispatch of entry `entry` of the buffer `groups`; see [`layout::groups`].
    ///
    /// # Errors
    /// There is no such buffer.
    pub fn groups(&self, entry: u64) -> Result<Groups> {
        Ok(Groups::Indirect(
            self.get("groups")?.clone(),
            entry * layout::groups::BYTES,
        ))
    }

    /// Bytes of all buffers.
    pub fn bytes(&self) -> u64 {
        self.by_name.values().map(wgpu::Buffer::size).sum()
    }

    /// Names and buffers.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &wgpu::Buffer)> {
        self.by_name.iter().map(|(name, buffer)| (*name, buffer))
    }
}

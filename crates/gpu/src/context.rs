//! [`Context`]: the device, the shaders, and every compiled kernel, with which passes are recorded.

use crate::layout;
use crate::passes::{Bits, Code, Declared};
use dapple_runtime::join::{self, Joins, StorageBinding};
use dapple_runtime::primitives::RadixSort;
use dapple_runtime::{CommandList, Defines, Gpu, Kernel, ShaderSet, primitives};
use dapple_scene::Result;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Device and shaders. Clones share the kernels.
#[derive(Debug, Clone)]
pub struct Context {
    /// The device.
    pub gpu: Gpu,
    /// All WGSL.
    pub shaders: ShaderSet,
    /// Constants and flags of this engine's permutations.
    pub defines: Defines,
    /// Tensors and entries of all passes.
    pub declared: &'static Declared,
    /// True if dispatches are kept short: see [`layout::DISPATCH_PARTS`].
    pub bounds_dispatches: bool,
    /// Kernels of callers that passes append, by name: see [`crate::Recorder::routine`].
    pub routines: BTreeMap<&'static str, CommandList>,
    /// Sizes of dispatches that are settings of a run, by the name of their constants.
    pub sizes: BTreeMap<&'static str, [u32; 3]>,
    /// Constants that are settings of a run, by their name.
    constants: BTreeMap<&'static str, Defines>,
    kernels: Arc<Mutex<Compiled>>,
}

/// Shader, entry point, and the definitions and joins of the compilation.
type KernelKey = (&'static str, &'static str, Defines, Joins);

#[derive(Debug, Default)]
struct Compiled {
    kernels: HashMap<KernelKey, Kernel>,
    sorts: HashMap<(Defines, u32, bool), RadixSort>,
    /// Bindings of entry points, where they may exceed the device's limit.
    bindings: HashMap<KernelKey, Arc<[StorageBinding]>>,
}

impl Context {
    /// Creates the context of an open device, with all WGSL and all declarations.
    pub(crate) fn with(
        gpu: Gpu,
        shaders: ShaderSet,
        declared: &'static Declared,
        defines: Defines,
    ) -> Self {
        Self {
            shaders,
            declared,
            defines: primitives::defines(&gpu, defines).flag(
                "SMALL_WORKGROUPS",
                gpu.granted().workgroup_bytes < layout::WORKGROUP_BYTES,
            ),
            bounds_dispatches: gpu.report().bounds_dispatches,
            routines: BTreeMap::new(),
            sizes: BTreeMap::new(),
            constants: BTreeMap::new(),
            kernels: Arc::default(),
            gpu,
        }
    }

    /// Sets the constants of a run's settings. Returns true if they were different before.
    pub fn set_constants(&mut self, name: &'static str, constants: Defines) -> bool {
        if self.constants.get(name) == Some(&constants) {
            return false;
        }
        self.constants.insert(name, constants);
        true
    }

    /// Returns a kernel in the permutation of those of `bits` that it understands, compiled now if it was not compiled
    /// before. Where dispatches are kept short and the kernel may take long, returns a kernel for each part of the
    /// work.
    ///
    /// # Errors
    /// See [`Kernel::new`].
    pub fn kernels(&self, code: &Code, bits: Bits) -> Result<Vec<Kernel>> {
        self.joined(code, bits, &Joins::default())
    }

    /// Works like [`Self::kernels`], with joined bindings.
    ///
    /// # Errors
    /// See [`Self::kernels`].
    pub fn joined(&self, code: &Code, bits: Bits, joins: &Joins) -> Result<Vec<Kernel>> {
        let defines = self.defines_of(code, bits);
        if !(code.in_parts && self.bounds_dispatches) {
            return Ok(vec![self.compiled(code, defines, joins)?]);
        }
        (0..layout::DISPATCH_PARTS)
            .map(|part| {
                let defines = defines.clone().flag("PARTS", true).u32("PART", part);
                self.compiled(code, defines, joins)
            })
            .collect()
    }

    /// Returns the bindings of a kernel, if they exceed the device's limit.
    ///
    /// # Errors
    /// A shader that does not parse: a bug of this crate.
    pub fn beyond(&self, code: &Code, bits: Bits) -> Result<Option<Arc<[StorageBinding]>>> {
        let most = self.gpu.granted().storage_buffers;
        if most >= layout::STORAGE_BUFFERS {
            return Ok(None);
        }
        let defines = self.defines_of(code, bits);
        let key = (code.shader, code.entry, defines, Joins::default());
        let known = self.lock().bindings.get(&key).cloned();
        let bindings = match known {
            Some(bindings) => bindings,
            None => {
                let wgsl = self.shaders.compose(code.shader, &key.2)?;
                let found: Arc<[_]> = join::storage_bindings(&wgsl, code.entry)?.into();
                self.lock().bindings.insert(key, Arc::clone(&found));
                found
            }
        };
        Ok((bindings.len() > most as usize).then_some(bindings))
    }

    fn defines_of(&self, code: &Code, bits: Bits) -> Defines {
        let defines = (bits & code.bits).define(self.defines.clone());
        match code.constants.and_then(|name| self.constants.get(name)) {
            Some(constants) => defines.and(constants),
            None => defines,
        }
    }

    fn compiled(&self, code: &Code, defines: Defines, joins: &Joins) -> Result<Kernel> {
        let key = (code.shader, code.entry, defines, joins.clone());
        if let Some(kernel) = self.lock().kernels.get(&key) {
            return Ok(kernel.clone());
        }
        // Compiled without holding the lock: other threads compile at the same time.
        let name = (code.shader, code.entry);
        let kernel = Kernel::joined(&self.gpu, &self.shaders, name, &key.2, joins)?;
        self.lock().kernels.insert(key, kernel.clone());
        Ok(kernel)
    }

    /// Returns a sort, without checks like all kernels of this engine; compiled now if it was not compiled before.
    ///
    /// # Errors
    /// See [`RadixSort::new`].
    pub fn radix_sort(&self, bits: u32, numbered: bool) -> Result<RadixSort> {
        let key = (self.defines.clone(), bits, numbered);
        if let Some(sort) = self.lock().sorts.get(&key) {
            return Ok(sort.clone());
        }
        let sort = RadixSort::with((&self.gpu, &self.shaders), &self.defines, bits, numbered)?;
        self.lock().sorts.insert(key, sort.clone());
        Ok(sort)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Compiled> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

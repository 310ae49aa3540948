//! [`Kernel`]: a compute pipeline whose bindings have names.
//!
//! 1. The composed WGSL is parsed; its `@group(0)` variables give the layout, by name.
//! 2. The pipeline is created for one entry point. `cache.rs` stores the driver's compiled code. In release builds,
//!    shaders whose author vouches for them ([`ShaderSet::without_checks`], [`Kernel::from_wgsl_unchecked`]) run
//!    without wgpu's runtime checks. All others keep the checks.
//! 3. [`Kernel::bind`] takes buffers by name and returns an error for a missing or unknown name.

use crate::adapter::IMMEDIATE_BYTES;
use crate::buffer::ByteSlice;
use crate::compile_lock::COMPILING;
use crate::counters::Tally;
use crate::join::Joins;
use crate::parameters::{RingBuffer, Values, without_immediates};
use crate::translate::used_globals;
use crate::{Defines, Gpu, ShaderSet};
use dapple_base::{Error, Result};
use std::sync::Arc;
use wgpu::naga;

/// A compiled entry point.
#[derive(Debug, Clone)]
pub struct Kernel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    label: String,
    pipeline: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    /// Names and numbers of bindings.
    bindings: Vec<(String, u32)>,
    has_immediates: bool,
    /// Ring buffer of the parameters that the kernel takes.
    ring: Option<Arc<RingBuffer>>,
}

/// A kernel with its bound buffers.
#[derive(Debug, Clone)]
pub struct Bound {
    kernel: Arc<Inner>,
    group: wgpu::BindGroup,
    /// Keeps pooled buffers from returning to the pool.
    _held: Arc<[ByteSlice]>,
    pub(crate) tally: Arc<Tally>,
}

impl Bound {
    /// Returns `shader.entry`.
    pub fn label(&self) -> &str {
        &self.kernel.label
    }

    pub(crate) fn has_immediates(&self) -> bool {
        self.kernel.has_immediates
    }

    /// Returns the ring buffer that the kernel takes parameters from, if it takes any.
    pub(crate) fn ring(&self) -> Option<&RingBuffer> {
        self.kernel.ring.as_deref()
    }

    /// Sets the kernel for the next dispatch of `pass`; its parameters are in the ring buffer at `block`.
    pub(crate) fn set(&self, pass: &mut wgpu::ComputePass<'_>, values: Values<'_>, block: u32) {
        pass.set_pipeline(&self.kernel.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        if let Some(ring) = &self.kernel.ring {
            pass.set_bind_group(1, ring.group(), &[block, block]);
        }
        if self.kernel.has_immediates && !values.immediates.is_empty() {
            pass.set_immediates(0, values.immediates);
        }
    }
}

impl Kernel {
    /// Compiles entry point `entry` of shader `name`.
    ///
    /// # Errors
    /// WGSL that does not compile (a bug in Dapple) or a driver that refuses the shader.
    pub fn new(
        gpu: &Gpu,
        set: &ShaderSet,
        name: &str,
        entry: &str,
        defines: &Defines,
    ) -> Result<Self> {
        let wgsl = set.compose(name, defines)?;
        let label = format!("{name}.{entry}");
        Self::compile(gpu, &label, &wgsl, entry, set.is_trusted())
    }

    /// [`Self::new`], with bindings joined: for a device that binds fewer buffers than the shader does.
    ///
    /// # Errors
    /// See [`Self::new`] for the errors.
    pub fn joined(
        gpu: &Gpu,
        set: &ShaderSet,
        (name, entry): (&str, &str),
        defines: &Defines,
        joins: &Joins,
    ) -> Result<Self> {
        let wgsl = joins.apply(&set.compose(name, defines)?);
        let label = format!("{name}.{entry}");
        Self::compile(gpu, &label, &wgsl, entry, set.is_trusted())
    }

    /// [`Self::new`] from finished WGSL, with runtime checks.
    ///
    /// # Errors
    /// See [`Self::new`] for the errors.
    pub fn from_wgsl(gpu: &Gpu, label: &str, wgsl: &str, entry: &str) -> Result<Self> {
        Self::compile(gpu, label, wgsl, entry, false)
    }

    /// [`Self::from_wgsl`] without runtime checks in release builds.
    ///
    /// # Errors
    /// See [`Self::new`] for the errors.
    ///
    /// # Safety
    /// See [`ShaderSet::without_checks`] for the conditions.
    pub unsafe fn from_wgsl_unchecked(
        gpu: &Gpu,
        label: &str,
        wgsl: &str,
        entry: &str,
    ) -> Result<Self> {
        Self::compile(gpu, label, wgsl, entry, true)
    }

    fn compile(gpu: &Gpu, label: &str, wgsl: &str, entry: &str, trusted: bool) -> Result<Self> {
        let substituted = gpu.granted().immediate_bytes == 0;
        let substituted = substituted.then(|| without_immediates(wgsl));
        let wgsl = substituted.as_deref().unwrap_or(wgsl);
        let module = parsed(wgsl).map_err(|e| {
            Error::internal(format!(
                "a shader does not parse: {}",
                e.emit_to_string(wgsl)
            ))
            .at(label)
        })?;
        let used = used_globals(&module, entry).ok_or_else(|| {
            Error::internal(format!("a shader has no entry point {entry}")).at(label)
        })?;
        let mut bindings = Vec::new();
        let mut entries = Vec::new();
        let (mut has_immediates, mut has_parameters) = (false, false);
        for (_, global) in module
            .global_variables
            .iter()
            .filter(|(h, _)| used.contains(h))
        {
            has_immediates |= global.space == naga::AddressSpace::Immediate;
            let Some(binding) = &global.binding else {
                continue;
            };
            if binding.group == 1 {
                has_parameters = true;
                continue;
            }
            let ty = match global.space {
                naga::AddressSpace::Uniform => wgpu::BufferBindingType::Uniform,
                naga::AddressSpace::Storage { access } => wgpu::BufferBindingType::Storage {
                    read_only: !access.contains(naga::StorageAccess::STORE),
                },
                _ => {
                    return Err(
                        Error::internal("a shader binds something else than a buffer").at(label),
                    );
                }
            };
            let name = global.name.clone().unwrap_or_default();
            bindings.push((name, binding.binding));
            entries.push(wgpu::BindGroupLayoutEntry {
                binding: binding.binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty,
                    has_dynamic_offset: false,
                    min_binding_size: None,
                },
                count: None,
            });
        }
        let layout = gpu
            .device()
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: Some(label),
                entries: &entries,
            });
        let checked = !trusted || gpu.validates() || cfg!(debug_assertions);
        let turn = COMPILING.take(gpu.number());
        let shader = shader(gpu, label, wgsl, checked);
        let ring = has_parameters.then(|| gpu.parameters());
        let mut groups = vec![Some(&layout)];
        groups.extend(ring.as_ref().map(|ring| Some(ring.layout())));
        let pipeline = pipeline(gpu, (label, entry), &shader, &groups, has_immediates);
        drop(turn);
        gpu.check().map_err(|e| e.at(label))?;
        Ok(Self {
            inner: Arc::new(Inner {
                label: label.to_owned(),
                pipeline,
                layout,
                bindings,
                has_immediates,
                ring,
            }),
        })
    }

    /// Returns `shader.entry`.
    pub fn label(&self) -> &str {
        &self.inner.label
    }

    /// Returns the names of the bindings that this entry point uses.
    pub fn bindings(&self) -> impl Iterator<Item = &str> {
        self.inner.bindings.iter().map(|(name, _)| name.as_str())
    }

    /// Binds buffers by the names that the shader gives them. Buffers that this entry point does not use are permitted.
    ///
    /// # Errors
    /// A binding without a buffer.
    pub fn bind(&self, gpu: &Gpu, buffers: &[(&str, &wgpu::Buffer)]) -> Result<Bound> {
        let find = |name: &str| {
            let found = buffers.iter().find(|(other, _)| *other == name);
            found.map(|(_, buffer)| buffer.as_entire_binding())
        };
        self.bind_resources(gpu, find, Arc::new([]))
    }

    /// [`Self::bind`] to buffers and ranges of the pool ([`Slice`](crate::Slice)), which the result keeps alive.
    ///
    /// # Errors
    /// A binding without a slice; a slice whose offset violates the device's alignment of bindings.
    pub fn bind_slices(&self, gpu: &Gpu, slices: &[(&str, ByteSlice)]) -> Result<Bound> {
        let alignment = gpu.device().limits().min_storage_buffer_offset_alignment;
        for (name, slice) in slices {
            if !slice.offset().is_multiple_of(alignment.into()) {
                let at = slice.offset();
                let what = format!("\"{name}\" begins at byte {at}, no multiple of {alignment}");
                return Err(Error::internal(what).at(self.inner.label.clone()));
            }
        }
        let find = |name: &str| {
            let found = slices.iter().find(|(other, _)| *other == name);
            found.map(|(_, slice)| slice.binding())
        };
        let held = slices.iter().map(|(_, slice)| slice.clone());
        self.bind_resources(gpu, find, held.collect())
    }

    fn bind_resources<'a>(
        &self,
        gpu: &Gpu,
        find: impl Fn(&str) -> Option<wgpu::BindingResource<'a>>,
        held: Arc<[ByteSlice]>,
    ) -> Result<Bound> {
        let mut entries = Vec::with_capacity(self.inner.bindings.len());
        for (name, binding) in &self.inner.bindings {
            let Some(resource) = find(name) else {
                return Err(
                    Error::internal(format!("no buffer was given for \"{name}\""))
                        .at(self.inner.label.clone()),
                );
            };
            entries.push(wgpu::BindGroupEntry {
                binding: *binding,
                resource,
            });
        }
        let group = gpu.device().create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(&self.inner.label),
            layout: &self.inner.layout,
            entries: &entries,
        });
        gpu.check().map_err(|e| e.at(self.inner.label.clone()))?;
        gpu.link().tally.bound();
        Ok(Bound {
            kernel: Arc::clone(&self.inner),
            group,
            _held: held,
            tally: Arc::clone(&gpu.link().tally),
        })
    }
}

/// A binding of an entry point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelBinding {
    /// Name of the binding.
    pub name: String,
    /// Bind group.
    pub group: u32,
    /// Number within the group.
    pub binding: u32,
    /// True for a uniform block, false for a storage buffer.
    pub is_uniform: bool,
    /// True if the kernel may write it.
    pub writes: bool,
}

/// Parses WGSL with every extension: a device itself refuses the extensions that it lacks.
fn parsed(wgsl: &str) -> std::result::Result<naga::Module, naga::front::wgsl::ParseError> {
    let mut options = naga::front::wgsl::Options::new();
    options.capabilities = naga::valid::Capabilities::all();
    naga::front::wgsl::Frontend::new_with_options(options).parse(wgsl)
}

/// Returns the bindings of an entry point of finished WGSL, for callers that run it without this crate, for example in
/// a browser.
///
/// # Errors
/// WGSL that does not parse, or is without this entry point.
pub fn bindings_of(wgsl: &str, entry: &str) -> Result<Vec<KernelBinding>> {
    let wrong = |what: String| Error::internal(what).at(entry);
    let module = parsed(wgsl).map_err(|e| {
        wrong(format!(
            "a shader does not parse: {}",
            e.emit_to_string(wgsl)
        ))
    })?;
    let used = used_globals(&module, entry)
        .ok_or_else(|| wrong("a shader has no such entry point".to_owned()))?;
    let globals = module.global_variables.iter();
    let bound = globals.filter(|(handle, _)| used.contains(handle));
    let bound = bound.filter_map(|(_, global)| {
        let at = global.binding.as_ref()?;
        let writes = match global.space {
            naga::AddressSpace::Storage { access } => access.contains(naga::StorageAccess::STORE),
            _ => false,
        };
        Some(KernelBinding {
            name: global.name.clone().unwrap_or_default(),
            group: at.group,
            binding: at.binding,
            is_uniform: global.space == naga::AddressSpace::Uniform,
            writes,
        })
    });
    Ok(bound.collect())
}

fn shader(gpu: &Gpu, label: &str, wgsl: &str, checked: bool) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(label),
        source: wgpu::ShaderSource::Wgsl(wgsl.into()),
    };
    if checked {
        gpu.device().create_shader_module(descriptor)
    } else {
        // SAFETY: the caller of an unsafe function has vouched for the shader.
        unsafe {
            gpu.device()
                .create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked())
        }
    }
}

fn pipeline(
    gpu: &Gpu,
    (label, entry): (&str, &str),
    module: &wgpu::ShaderModule,
    groups: &[Option<&wgpu::BindGroupLayout>],
    has_immediates: bool,
) -> wgpu::ComputePipeline {
    let layout = gpu
        .device()
        .create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some(label),
            bind_group_layouts: groups,
            immediate_size: if has_immediates { IMMEDIATE_BYTES } else { 0 },
        });
    gpu.device()
        .create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(label),
            layout: Some(&layout),
            module,
            entry_point: Some(entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: false,
                ..wgpu::PipelineCompilationOptions::default()
            },
            cache: gpu.pipeline_cache(),
        })
}

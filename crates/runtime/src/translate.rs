//! [`translate`]: translates a shader to the languages of the three backends, without their drivers.
//!
//! A shader that runs on this machine may still be refused on other machines. This module parses and validates the
//! shader with only the features that every device has, then writes SPIR-V (Vulkan), MSL (Metal) and HLSL (DX12) with
//! the writers and the language versions that wgpu uses.

use crate::adapter::IMMEDIATE_BYTES;
use dapple_base::{Error, Result};
use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, ValidationFlags, Validator};

/// A shader in the backends' languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Translated {
    /// SPIR-V 1.3 for Vulkan 1.1, the first version with subgroups.
    pub spirv: Vec<u32>,
    /// MSL 2.4, macOS 12.
    pub msl: String,
    /// HLSL for shader model 6.0, the first version with wave intrinsics.
    pub hlsl: String,
    /// Requirements of each entry point.
    pub entries: Vec<EntryNeeds>,
}

/// Requirements of an entry point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryNeeds {
    /// Name of the entry point.
    pub name: String,
    /// Invocations in a workgroup.
    pub invocations: u32,
    /// Storage buffers bound at once.
    pub storage_buffers: u32,
    /// Bytes that a workgroup shares.
    pub workgroup_bytes: u32,
}

/// Features that a shader may use in addition to those of every device. `subgroupBarrier` is never enabled: DX12 does
/// not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShaderFeatures {
    /// Subgroup operations.
    pub subgroups: bool,
    /// `pack2x16float` and its inverse: [`AdapterReport::packs_f16`](crate::AdapterReport).
    pub packs_f16: bool,
}

/// Translates composed WGSL with all of its entry points, all of [`ShaderFeatures`] enabled.
///
/// # Errors
/// WGSL that does not parse or validate, or that a backend cannot express.
pub fn translate(wgsl: &str) -> Result<Translated> {
    let grants = ShaderFeatures {
        subgroups: true,
        packs_f16: true,
    };
    translate_with(wgsl, grants)
}

/// Returns SPIR-V of WGSL that uses cooperative matrices, which the languages of the other backends do not have, or not
/// of this size.
///
/// # Errors
/// WGSL that does not parse or validate.
pub fn translate_cooperative(wgsl: &str) -> Result<Vec<u32>> {
    let refused = |what: &str, why: String| Error::internal(format!("a shader {what}: {why}"));
    let extensions = Capabilities::COOPERATIVE_MATRIX | Capabilities::SHADER_FLOAT16;
    let mut options = naga::front::wgsl::Options::new();
    options.capabilities = extensions;
    let module = naga::front::wgsl::Frontend::new_with_options(options)
        .parse(wgsl)
        .map_err(|e| refused("does not parse", e.emit_to_string(wgsl)))?;
    let capabilities = extensions | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(&module)
        .map_err(|e| refused("is not valid", e.emit_to_string(wgsl)))?;
    spirv(&module, &info).map_err(|e| refused("has no SPIR-V", e.to_string()))
}

/// [`translate`] for devices without some of the features: a use of a missing feature is an error.
///
/// # Errors
/// See [`translate`] for the errors.
pub fn translate_with(wgsl: &str, grants: ShaderFeatures) -> Result<Translated> {
    let mut capabilities = Capabilities::IMMEDIATES;
    capabilities.set(Capabilities::SUBGROUP, grants.subgroups);
    capabilities.set(Capabilities::SHADER_FLOAT16_IN_FLOAT32, grants.packs_f16);
    let refused = |what: &str, why: String| Error::internal(format!("a shader {what}: {why}"));
    let module = naga::front::wgsl::parse_str(wgsl)
        .map_err(|e| refused("does not parse", e.emit_to_string(wgsl)))?;
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    validator
        .subgroup_stages(naga::valid::ShaderStages::COMPUTE)
        .subgroup_operations(naga::valid::SubgroupOperationSet::all());
    let info = validator
        .validate(&module)
        .map_err(|e| refused("is not valid", e.emit_to_string(wgsl)))?;
    if let Some(bytes) = immediate_bytes(&module).filter(|&bytes| bytes > IMMEDIATE_BYTES) {
        let why = format!("{bytes} bytes, of {IMMEDIATE_BYTES}");
        return Err(refused("has too many immediates", why));
    }
    Ok(Translated {
        entries: entries(&module, &info),
        spirv: spirv(&module, &info).map_err(|e| refused("has no SPIR-V", e.to_string()))?,
        msl: msl(&module, &info).map_err(|e| refused("has no MSL", e.to_string()))?,
        hlsl: hlsl(&module, &info).map_err(|e| refused("has no HLSL", e))?,
    })
}

fn entries(module: &naga::Module, info: &naga::valid::ModuleInfo) -> Vec<EntryNeeds> {
    let needs = |(index, entry): (usize, &naga::EntryPoint)| {
        let function = info.get_entry_point(index);
        let used = module.global_variables.iter();
        let used = used.filter(|(handle, _)| !function[*handle].is_empty());
        let (mut storage_buffers, mut workgroup_bytes) = (0, 0);
        for (_, global) in used {
            match global.space {
                naga::AddressSpace::Storage { .. } => storage_buffers += 1,
                naga::AddressSpace::WorkGroup => {
                    workgroup_bytes += module.types[global.ty].inner.size(module.to_ctx());
                }
                _ => {}
            }
        }
        EntryNeeds {
            name: entry.name.clone(),
            invocations: entry.workgroup_size.iter().product(),
            storage_buffers,
            workgroup_bytes,
        }
    };
    module.entry_points.iter().enumerate().map(needs).collect()
}

fn immediate_bytes(module: &naga::Module) -> Option<u32> {
    let immediates =
        |(_, global): &(_, &naga::GlobalVariable)| global.space == naga::AddressSpace::Immediate;
    let (_, global) = module.global_variables.iter().find(immediates)?;
    Some(module.types[global.ty].inner.size(module.to_ctx()))
}

fn spirv(
    module: &naga::Module,
    info: &naga::valid::ModuleInfo,
) -> std::result::Result<Vec<u32>, spv::Error> {
    let options = spv::Options {
        lang_version: (1, 3),
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        ..spv::Options::default()
    };
    spv::write_vec(module, info, &options, None)
}

fn msl(
    module: &naga::Module,
    info: &naga::valid::ModuleInfo,
) -> std::result::Result<String, msl::Error> {
    let options = msl::Options {
        lang_version: (2, 4),
        zero_initialize_workgroup_memory: false,
        ..msl::Options::default()
    };
    let (source, entries) =
        msl::write_string(module, info, &options, &msl::PipelineOptions::default())?;
    // Entry points that could not be written get their own error.
    for name in entries.entry_point_names {
        name.map_err(|e| msl::Error::GenericValidation(e.to_string()))?;
    }
    Ok(source)
}

fn hlsl(
    module: &naga::Module,
    info: &naga::valid::ModuleInfo,
) -> std::result::Result<String, String> {
    let target = |space| hlsl::BindTarget {
        space,
        ..hlsl::BindTarget::default()
    };
    let options = hlsl::Options {
        shader_model: hlsl::ShaderModel::V6_0,
        // Registers of their own: bindings of the shader are in space 0.
        immediates_target: Some(target(1)),
        special_constants_binding: Some(target(2)),
        zero_initialize_workgroup_memory: false,
        ..hlsl::Options::default()
    };
    let mut source = String::new();
    let pipeline = hlsl::PipelineOptions::default();
    let mut writer = hlsl::Writer::new(&mut source, &options, &pipeline);
    let written = writer
        .write(module, info, None)
        .map_err(|e| e.to_string())?;
    for name in written.entry_point_names {
        name.map_err(|e| e.to_string())?;
    }
    Ok(source)
}

/// Returns the globals that an entry point reaches; `None` if there is no such entry point.
pub(crate) fn used_globals(
    module: &naga::Module,
    entry: &str,
) -> Option<Vec<naga::Handle<naga::GlobalVariable>>> {
    let index = module.entry_points.iter().position(|e| e.name == entry)?;
    // Code that does not validate is reported when the pipeline is created, with its source.
    let info = naga::valid::Validator::new(
        naga::valid::ValidationFlags::all(),
        naga::valid::Capabilities::all(),
    )
    .validate(module);
    let all = || module.global_variables.iter().map(|(handle, _)| handle);
    Some(match info {
        Ok(info) => {
            let function = info.get_entry_point(index);
            all()
                .filter(|&handle| !function[handle].is_empty())
                .collect()
        }
        Err(_) => all().collect(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const GOOD: &str = "
        var<workgroup> few: array<u32, 64>;
        @group(0) @binding(1) var<storage> unused: array<u32>;
        struct Step { number: u32 }
        var<immediate> step: Step;
        @group(0) @binding(0) var<storage, read_write> values: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(global_invocation_id) id: vec3u) {
            values[id.x] = subgroupAdd(values[id.x]) + step.number + few[id.x];
        }";

    #[test]
    fn a_shader_has_three_translations() {
        let translated = translate(GOOD).unwrap();
        assert_eq!(translated.spirv[0], 0x0723_0203, "SPIR-V's magic number");
        assert!(
            translated.msl.contains("kernel void main_"),
            "{}",
            translated.msl
        );
        assert!(
            translated.hlsl.contains("WaveActiveSum"),
            "{}",
            translated.hlsl
        );
    }

    #[test]
    fn what_a_device_may_lack_is_refused() {
        let says = |wgsl: &str| translate(wgsl).unwrap_err().to_string();
        assert!(says(&GOOD.replace("step.number", "step.nothing")).contains("does not parse"));
        let half = GOOD.replace("number: u32", "number: f64");
        assert!(says(&half).contains("is not valid"), "{}", says(&half));
        let barrier = GOOD.replace("values[id.x] =", "subgroupBarrier(); values[id.x] =");
        assert!(
            says(&barrier).contains("is not valid"),
            "{}",
            says(&barrier)
        );
        let large = GOOD.replace("number: u32", "number: u32, more: array<vec4u, 8>");
        assert!(says(&large).contains("144 bytes"), "{}", says(&large));
        let none = ShaderFeatures {
            subgroups: false,
            packs_f16: false,
        };
        assert!(translate_with(GOOD, none).is_err());
        assert!(translate_with(&GOOD.replace("subgroupAdd", "u32"), none).is_ok());
        let half = GOOD.replace("subgroupAdd", "pack2x16float(vec2f(1.0)) + u32");
        assert!(translate_with(&half, none).is_err() && translate(&half).is_ok());
    }
}

//! Parameters and gradients in rows, as gsplat has them: [`load_rows`](dapple_device::DeviceBuffers::load_rows) and
//! [`gradient_rows`](dapple_device::DeviceBuffers::gradient_rows). The kernels are in `shaders/rows.wgsl`.

use super::GpuEngine;
use crate::passes::{Bits, Code};
use crate::precision::Storage;
use crate::stages::gradients::{GEOMETRY, MEANS2D, SH};
use dapple_device::{RowsOf, row_floats};
use dapple_runtime::{CommandList, Groups, wgpu};
use dapple_scene::{Error, Result, sh_coefficient_count};

/// The shader of the kernels.
pub const SHADER: (&str, &str) = ("rows", include_str!("../../shaders/rows.wgsl"));

const LOAD: [Code; 2] = [
    Code::new("rows", "load_geometry"),
    Code::new("rows", "load_sh"),
];
const STORE: [Code; 2] = [
    Code::new("rows", "store_geometry"),
    Code::new("rows", "store_sh"),
];
const STORE_MEANS2D: Code = Code::new("rows", "store_means2d");
const STORE_ABSOLUTE2D: Code = Code::new("rows", "store_absolute2d");

/// Gaussians of a workgroup. WGSL: `BLOCK`.
const BLOCK: u32 = 64;

impl GpuEngine {
    /// Submits the kernels that fill the planes of parameters.
    pub(super) fn submit_load(&mut self, rows: &wgpu::Buffer, n: usize) -> Result<()> {
        if self.options.precision.sh != Storage::F32 {
            return Err(Error::unsupported("the engine stores harmonics in 16 bits")
                .hint("open it with 32-bit harmonics"));
        }
        self.settle()?;
        self.ready()?;
        self.kept.clear();
        check_rows(rows, row_floats(n, self.sh_degree))?;
        let geometry = self.buffers.get("geometry")?;
        let rest = match self.sh_degree {
            0 => geometry,
            _ => self.buffers.get("sh_rest")?,
        };
        let bound = [("rows", rows), ("geometry", geometry), ("sh_rest", rest)];
        self.run_rows(&LOAD, (n, 0), &bound)
    }

    /// Submits the kernels that write the gradients of the last backward pass into rows.
    pub(super) fn submit_store(
        &self,
        rows: &wgpu::Buffer,
        n: usize,
        target: &wgpu::Buffer,
        of: RowsOf,
    ) -> Result<()> {
        let floats = row_floats(n, self.sh_degree);
        check_rows(rows, floats)?;
        let last = of.absolute.map_or(of.camera, |place| place.max(of.camera));
        check_rows(target, floats + 2 * n * (last as usize + 1))?;
        let means2d = self.buffers.get(MEANS2D)?;
        if of.absolute.is_some() && !self.asked.has(Bits::ABSOLUTE) {
            return Err(Error::internal("absolute gradients were not requested"));
        }
        let bound = [
            ("rows", rows),
            ("gradient_geometry", self.buffers.get(GEOMETRY)?),
            ("gradient_sh", self.buffers.get(SH)?),
            ("gradient_means2d", means2d),
            ("gradient_rows", target),
        ];
        let [geometry, sh] = STORE;
        let kernels: &[Code] = if of.parameters {
            &[STORE_MEANS2D, geometry, sh]
        } else {
            &[STORE_MEANS2D]
        };
        self.run_rows(kernels, (n, of.camera), &bound)?;
        match of.absolute {
            Some(place) => self.run_rows(&[STORE_ABSOLUTE2D], (n, place), &bound),
            None => Ok(()),
        }
    }

    /// Submits kernels over `n` Gaussians for a camera or a place; those of the other coefficients only if there are any.
    fn run_rows(
        &self,
        kernels: &[Code],
        (n, camera): (usize, u32),
        buffers: &[(&str, &wgpu::Buffer)],
    ) -> Result<()> {
        let capacity = self.capacity.gaussians;
        let n = u32::try_from(n).ok().filter(|&n| n <= capacity);
        let n = n.ok_or_else(|| {
            Error::input(format!("the engine has place for {capacity} Gaussians"))
                .hint("upload as many splats as there are rows")
        })?;
        let gpu = &self.context.gpu;
        let coefficients = sh_coefficient_count(self.sh_degree) as u32;
        let shape = gpu.uniform("shape", [n, capacity, coefficients, camera])?;
        let mut named = vec![("shape", &**shape)];
        named.extend(buffers);
        let mut commands = CommandList::new();
        commands.keep(shape.clone());
        let of_rest = [&LOAD[1], &STORE[1]];
        for code in kernels
            .iter()
            .filter(|code| coefficients > 1 || !of_rest.contains(code))
        {
            for kernel in self.context.kernels(code, Bits::NONE)? {
                let groups = Groups::flat(n.div_ceil(BLOCK));
                commands.dispatch(kernel.bind(gpu, &named)?, groups);
            }
        }
        commands.submit(gpu, &[]);
        gpu.check()
    }
}

/// Checks a caller's buffer of rows.
fn check_rows(buffer: &wgpu::Buffer, floats: usize) -> Result<()> {
    let bytes = (floats * size_of::<f32>()) as u64;
    if buffer.size() >= bytes && buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
        return Ok(());
    }
    Err(Error::input(format!(
        "the buffer has {} bytes and the usages {:?}, and the rows take {bytes} and STORAGE",
        buffer.size(),
        buffer.usage()
    )))
}

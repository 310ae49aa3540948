//! Types of the declarations of stages. The lists of passes are in [`crate::plans`], what follows from the lists in
//! [`crate::catalogue`].
//!
//! 1. A [`Pass`] declares its name, its shaders, its kernels with the [`Bits`] that each understands, and its
//!    [`Tensor`]s. It also declares the [`Entry`]s of indirect dispatches that it counts, the bytes that it moves, and
//!    the function that records it. The WGSL of its kernels declares the data that they read and write: bindings have
//!    the names of tensors, or of tensors that the pass [borrows](Pass::borrows).
//! 2. A [`Plan`](crate::plans::Plan) is a list of passes.
//! 3. These lists determine the shaders and the kernels that are compiled first, and the buffers and their growth
//!    ([`crate::Buffers::fit`]). They also determine the numbers of entries for host and shaders ([`Entries`]), the
//!    parts that permutations share, the dependencies of command lists ([`crate::Recorder`]), and the bytes that a
//!    profiler expects.
//!
//! Context, buffers and recorder are below the passes: they get the declarations of all passes as [`Declared`].

mod bits;
mod code;
mod declared;
mod entry;
mod pass;
mod tensor;

pub use bits::Bits;
pub use code::Code;
pub use declared::Declared;
pub use entry::{ENTRY_BYTES, Entries, Entry};
pub use pass::{Load, Pass};
pub use tensor::{Axis, BufferSizes, Capacity, Kind, Tensor, Use, WORD, Words};

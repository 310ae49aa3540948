//! `shared_struct!`: a struct that host and shaders share, declared once. Its WGSL is a shader include that
//! [`crate::catalogue`] makes from [`wgsl`].
//!
//! Members have the host's order and no padding between them, so each must begin where WGSL's alignment puts it:
//! vectors of two at multiples of 8 bytes, other vectors at multiples of 16. A test compares the offsets with naga's.

use bytemuck::Pod;

/// Member of a struct in WGSL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub ty: &'static str,
    /// Place, bytes from the beginning of the struct.
    pub offset: usize,
    /// Size, bytes.
    pub bytes: usize,
}

/// Type of a member of a shared struct, or a shared struct, whose members belong to the struct that has it.
pub trait Shared: Pod {
    /// Appends the members of a field of this type.
    fn members(name: &'static str, offset: usize, all: &mut Vec<Member>);
}

impl Shared for () {
    fn members(_name: &'static str, _offset: usize, _all: &mut Vec<Member>) {}
}

/// Types of the host, and those of WGSL.
macro_rules! types {
    ($($host:ty = $wgsl:literal,)*) => {
        $(impl Shared for $host {
            fn members(name: &'static str, offset: usize, all: &mut Vec<Member>) {
                let (ty, bytes) = ($wgsl, size_of::<Self>());
                all.push(Member { name, ty, offset, bytes });
            }
        })*
    };
}

types! {
    u32 = "u32",
    f32 = "f32",
    [u32; 2] = "vec2u",
    [f32; 2] = "vec2f",
    [f32; 3] = "vec3f",
    [f32; 4] = "vec4f",
    [[f32; 4]; 2] = "array<vec4f, 2>",
}

/// Appends a member for each item of an array.
pub fn items<T: Shared, const N: usize>(
    names: [&'static str; N],
    offset: usize,
    all: &mut Vec<Member>,
) {
    for (index, name) in names.into_iter().enumerate() {
        T::members(name, offset + index * size_of::<T>(), all);
    }
}

/// Declares a shared struct. `field as [a, b]: [T; 2]` is an array on the host, and a member for each item in WGSL.
macro_rules! shared_struct {
    (@field $all:ident, $offset:expr, $field:ident: $ty:ty) => {
        <$ty as $crate::shared_struct::Shared>::members(stringify!($field), $offset, $all);
    };
    (@field $all:ident, $offset:expr, $field:ident [$($part:ident),+]: $ty:ty) => {
        $crate::shared_struct::items::<<$ty as $crate::shared_struct::Array>::Item, _>(
            [$(stringify!($part)),+],
            $offset,
            $all,
        );
    };
    (
        $(#[$attr:meta])*
        pub struct $name:ident {
            $($(#[$doc:meta])* $field:ident $(as [$($part:ident),+])?: $ty:ty,)*
        }
    ) => {
        $(#[$attr])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
        pub struct $name {
            $($(#[$doc])* pub $field: $ty,)*
        }

        impl $crate::shared_struct::Shared for $name {
            fn members(
                _name: &'static str,
                offset: usize,
                all: &mut Vec<$crate::shared_struct::Member>,
            ) {
                $($crate::shared_struct::shared_struct!(
                    @field all, offset + std::mem::offset_of!(Self, $field),
                    $field $([$($part),+])?: $ty
                );)*
            }
        }
    };
}
pub(crate) use shared_struct;

/// Array whose items are members.
pub trait Array {
    /// Its items.
    type Item: Shared;
}

impl<T: Shared, const N: usize> Array for [T; N] {
    type Item = T;
}

/// Returns the members of a shared struct.
pub fn members<T: Shared>() -> Vec<Member> {
    let mut all = Vec::new();
    T::members("", 0, &mut all);
    all
}

/// Returns the declaration of a shared struct in WGSL.
pub fn wgsl<T: Shared>(name: &str) -> String {
    let members = members::<T>();
    let lines = members
        .iter()
        .map(|m| format!("    {}: {},\n", m.name, m.ty));
    format!("struct {name} {{\n{}}}\n", lines.collect::<String>())
}

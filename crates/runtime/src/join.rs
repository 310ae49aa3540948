//! [`Joins`]: kernels that bind more storage buffers than a device permits.
//!
//! WebGPU guarantees 8 storage buffers per kernel. A kernel with more bindings still runs if several of its arrays are
//! stored in one buffer, one after the other. The shader source remains as written; its text is changed at run time:
//! 1. [`storage_bindings`] lists the bindings of an entry point: names, types of items, and which of them it writes.
//! 2. [`Joins::choose`] joins arrays of one type, those with the fewest bytes first, until the device has enough
//!    bindings. A struct that is only read becomes a uniform block; 12 uniform blocks are guaranteed.
//! 3. [`Joins::apply`] declares one array for each group. A uniform block ([`JOINED_AT`]) holds the begin of each
//!    member, in items. `member[i]` becomes `joined[begin + (i)]`.
//! 4. The caller copies the members into the joined buffer before a dispatch, and copies written members out of the
//!    buffer after it. These copies change no bit. [`Group::layout`] returns the offsets.
//!
//! A member is used by its items only: an array whose length or address a shader takes is never joined.

use dapple_base::{Error, Result};
use wgpu::naga;

/// Name of the uniform block that holds the begins of members: an [`array<vec4u>`](Joins::begins).
pub const JOINED_AT: &str = "joined_at";

/// Binding number of the block: beyond the numbers of any shader.
const AT_BINDING: u32 = 900;

/// Alignment of members in bytes: a multiple of the items of any array.
const ALIGNMENT: u64 = 16;

/// A storage buffer that an entry point binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageBinding {
    /// Name of the binding.
    pub name: String,
    /// WGSL type of an item if the binding is an array of any length; otherwise the type of the whole.
    pub item: String,
    /// Bytes of an item; 0 if the binding is no array.
    pub item_bytes: u64,
    /// True if the kernel may write it.
    pub writes: bool,
    /// True if it is an array that is used by its items only.
    pub joins: bool,
    /// True if it may be a uniform block.
    pub is_uniform: bool,
}

/// Arrays of one type that are joined to one array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Group {
    /// Name in the shader.
    pub name: String,
    /// Names of the members, in order.
    pub members: Vec<String>,
    /// WGSL type of an item.
    item: String,
    item_bytes: u64,
    /// True for members that the kernel may write.
    writes: Vec<bool>,
}

/// Changes to the bindings of an entry point.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Joins {
    /// Groups of joined arrays.
    pub groups: Vec<Group>,
    /// Structs that become uniform blocks.
    pub uniforms: Vec<String>,
}

/// Range of a member in the buffer of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member<'a> {
    /// Name in the shader.
    pub name: &'a str,
    /// Offset in bytes.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// True if the kernel may write it.
    pub writes: bool,
}

impl Group {
    fn from_binding(binding: &StorageBinding) -> Self {
        Self {
            name: String::new(),
            members: vec![binding.name.clone()],
            item: binding.item.clone(),
            item_bytes: binding.item_bytes,
            writes: vec![binding.writes],
        }
    }

    /// Returns the bytes of an item of the arrays.
    pub fn item_bytes(&self) -> u64 {
        self.item_bytes
    }

    /// Returns true if the kernel writes into member `number`.
    pub fn writes(&self, number: usize) -> bool {
        self.writes.get(number).copied().unwrap_or(false)
    }

    /// Returns true if the kernel writes into the group.
    fn is_written(&self) -> bool {
        self.writes.contains(&true)
    }

    /// Returns the ranges of the members in a buffer of the group, from the bytes of each, and the size of the buffer.
    pub fn layout(&self, bytes_of: impl Fn(&str) -> u64) -> (Vec<Member<'_>>, u64) {
        let mut offset = 0;
        let members = self.members.iter().zip(&self.writes);
        let members = members.map(|(name, &writes)| {
            let bytes = bytes_of(name);
            let member = Member {
                name,
                offset,
                bytes,
                writes,
            };
            offset += bytes.next_multiple_of(ALIGNMENT);
            member
        });
        (members.collect(), offset)
    }
}

impl Joins {
    /// Chooses joins so that at most `most` storage buffers are bound; none if the count is already low enough.
    ///
    /// # Errors
    /// Joining cannot reduce the bindings to `most`.
    pub fn choose(
        bindings: &[StorageBinding],
        bytes_of: impl Fn(&str) -> u64,
        most: usize,
    ) -> Result<Self> {
        if bindings.len() <= most {
            return Ok(Self::default());
        }
        let uniforms = bindings.iter().filter(|binding| binding.is_uniform);
        let uniforms: Vec<String> = uniforms.map(|binding| binding.name.clone()).collect();
        let mut groups: Vec<Group> = bindings
            .iter()
            .filter(|binding| binding.joins)
            .map(Group::from_binding)
            .collect();
        let others = bindings.len() - uniforms.len() - groups.len();
        while others + groups.len() > most {
            let Some((first, second)) = cheapest(&groups, &bytes_of) else {
                let left = others + groups.len();
                let what = format!("{left} storage buffers are left, and the device binds {most}");
                return Err(Error::unsupported(what));
            };
            let more = groups.remove(second);
            groups[first].members.extend(more.members);
            groups[first].writes.extend(more.writes);
        }
        groups.retain(|group| group.members.len() > 1);
        for (number, group) in groups.iter_mut().enumerate() {
            group.name = format!("joined_{number}");
        }
        Ok(Self { groups, uniforms })
    }

    /// Returns true if the shader remains unchanged.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.uniforms.is_empty()
    }

    /// Returns each member's begin in its group, in items, four to a vector: the content of [`JOINED_AT`].
    pub fn begins(&self, bytes_of: impl Fn(&str) -> u64) -> Vec<[u32; 4]> {
        let mut begins: Vec<u32> = Vec::new();
        for group in &self.groups {
            let (members, _) = group.layout(&bytes_of);
            let places = members.iter().map(|at| at.offset / group.item_bytes.max(1));
            begins.extend(places.map(|place| u32::try_from(place).unwrap_or(u32::MAX)));
        }
        let rows = begins.chunks(4);
        rows.map(|row| std::array::from_fn(|k| row.get(k).copied().unwrap_or(0)))
            .collect()
    }

    /// Returns the shader with its bindings joined.
    pub fn apply(&self, wgsl: &str) -> String {
        if self.is_empty() {
            return wgsl.to_owned();
        }
        let numbered: Vec<(&str, &Group)> = self
            .groups
            .iter()
            .flat_map(|group| group.members.iter().map(move |name| (name.as_str(), group)))
            .collect();
        let mut bodies = String::new();
        let mut declared = String::new();
        for line in wgsl.lines() {
            let line = line.split("//").next().unwrap_or_default();
            match declaration(line) {
                Some(found) if self.uniforms.iter().any(|name| name == found.name) => {
                    bodies.push_str(&line.replace("var<storage, read>", "var<uniform>"));
                }
                Some(found) => match numbered.iter().find(|(name, _)| *name == found.name) {
                    Some((name, group)) if *name == group.members[0] => {
                        let access = if group.is_written() {
                            "read_write"
                        } else {
                            "read"
                        };
                        declared.push_str(&format!(
                            "@group(0) @binding({}) var<storage, {access}> {}: array<{}>;\n",
                            found.binding, group.name, group.item
                        ));
                    }
                    Some(_) => {}
                    None => bodies.push_str(line),
                },
                None => bodies.push_str(line),
            }
            bodies.push('\n');
        }
        if !numbered.is_empty() {
            declared.push_str(&format!(
                "@group(0) @binding({AT_BINDING}) var<uniform> {JOINED_AT}: array<vec4u, {}>;\n",
                numbered.len().div_ceil(4)
            ));
        }
        declared + &indexed(&bodies, &numbered)
    }
}

/// Returns the two groups of one type whose join moves the fewest bytes. A written and a read-only group are joined
/// only if no other pair is left, since a written array cannot determine which branch is taken.
fn cheapest(groups: &[Group], bytes_of: impl Fn(&str) -> u64) -> Option<(usize, usize)> {
    let bytes = |group: &Group| group.members.iter().map(|name| bytes_of(name)).sum::<u64>();
    let mut best: Option<((bool, u64), (usize, usize))> = None;
    for (first, one) in groups.iter().enumerate() {
        for (second, other) in groups.iter().enumerate().skip(first + 1) {
            if one.item != other.item {
                continue;
            }
            let mixes = one.is_written() != other.is_written();
            // Written bytes move twice.
            let cost = bytes(one) + bytes(other);
            let twice = one.is_written() || other.is_written();
            let cost = (mixes, cost.saturating_mul(1 + u64::from(twice)));
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, (first, second)));
            }
        }
    }
    best.map(|(_, pair)| pair)
}

/// A line that declares a storage buffer.
struct Declaration<'a> {
    binding: u32,
    name: &'a str,
    ty: &'a str,
}

fn declaration(line: &str) -> Option<Declaration<'_>> {
    let line = line.split("//").next().unwrap_or_default();
    let rest = line.trim().strip_prefix("@group(0) @binding(")?;
    let (binding, rest) = rest.split_once(')')?;
    let rest = rest.trim().strip_prefix("var<storage")?;
    let (_, rest) = rest.split_once('>')?;
    let (name, ty) = rest.split_once(':')?;
    Some(Declaration {
        binding: binding.trim().parse().ok()?,
        name: name.trim(),
        ty: ty.trim().trim_end_matches(';').trim(),
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rewrites `member[i]` to `joined[begin + (i)]`, for every member.
fn indexed(wgsl: &str, members: &[(&str, &Group)]) -> String {
    let mut out = String::with_capacity(wgsl.len() + wgsl.len() / 8);
    // For each open bracket, true if it belongs to a member.
    let mut open = Vec::new();
    let mut word = String::new();
    // True if the word is a field of a value.
    let (mut is_field, mut before) = (false, ' ');
    for c in wgsl.chars() {
        if is_word(c) {
            if word.is_empty() {
                is_field = before == '.';
            }
            word.push(c);
            continue;
        }
        let found = members
            .iter()
            .position(|(name, _)| *name == word && !is_field);
        match (c, found) {
            ('[', Some(number)) => {
                let (_, group) = members[number];
                let part = ["x", "y", "z", "w"][number % 4];
                out.push_str(&format!(
                    "{}[{JOINED_AT}[{}].{part} + (",
                    group.name,
                    number / 4
                ));
                open.push(true);
            }
            ('[', None) => {
                out.push_str(&word);
                out.push('[');
                open.push(false);
            }
            (']', _) => {
                out.push_str(&word);
                let is_member = open.pop().unwrap_or(false);
                out.push_str(if is_member { ")]" } else { "]" });
            }
            _ => {
                out.push_str(&word);
                out.push(c);
            }
        }
        before = c;
        word.clear();
    }
    out.push_str(&word);
    out
}

/// Returns true if the text takes the address of a binding, or uses the whole binding instead of an item.
fn takes_whole(wgsl: &str, name: &str) -> bool {
    let mut rest = wgsl;
    while let Some(at) = rest.find(&format!("&{name}")) {
        rest = &rest[at + 1 + name.len()..];
        let next = rest.chars().next().unwrap_or(' ');
        if !is_word(next) && next != '[' {
            return true;
        }
    }
    false
}

/// Returns the storage buffers that an entry point of finished WGSL binds.
///
/// # Errors
/// WGSL that does not parse, or has no such entry point.
pub fn storage_bindings(wgsl: &str, entry: &str) -> Result<Vec<StorageBinding>> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|e| {
        let why = e.emit_to_string(wgsl);
        Error::internal(format!("a shader does not parse: {why}"))
    })?;
    let used = crate::translate::used_globals(&module, entry)
        .ok_or_else(|| Error::internal(format!("a shader has no entry point {entry}")))?;
    let declared: Vec<Declaration<'_>> = wgsl.lines().filter_map(declaration).collect();
    let mut bindings = Vec::new();
    for handle in used {
        let global = &module.global_variables[handle];
        let naga::AddressSpace::Storage { access } = global.space else {
            continue;
        };
        let name = global.name.clone().unwrap_or_default();
        let writes = access.contains(naga::StorageAccess::STORE);
        let stride = match &module.types[global.ty].inner {
            naga::TypeInner::Array {
                size: naga::ArraySize::Dynamic,
                stride,
                ..
            } => Some(u64::from(*stride)),
            _ => None,
        };
        // A declaration in another form than Dapple's remains unchanged.
        let found = declared.iter().find(|found| found.name == name);
        let ty = found.map_or("", |found| found.ty);
        let item = ty
            .strip_prefix("array<")
            .and_then(|ty| ty.strip_suffix('>'));
        let is_struct = matches!(
            module.types[global.ty].inner,
            naga::TypeInner::Struct { .. }
        );
        bindings.push(StorageBinding {
            item: item.unwrap_or(ty).to_owned(),
            item_bytes: stride.unwrap_or(0),
            writes,
            joins: found.is_some()
                && stride.is_some_and(|stride| stride > 0 && ALIGNMENT.is_multiple_of(stride))
                && !takes_whole(wgsl, &name),
            is_uniform: found.is_some() && is_struct && !writes,
            name,
        });
    }
    Ok(bindings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const WGSL: &str = "
struct Counts { items: u32 }
@group(0) @binding(0) var<storage, read> counts: Counts;
@group(0) @binding(1) var<storage, read> order: array<u32>; // [0, items)
@group(0) @binding(2) var<storage, read> places: array<u32>;
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;
@group(0) @binding(4) var<storage, read_write> all: array<f32>;
@group(0) @binding(5) var<storage, read_write> unused: array<f32>;
struct Pair { places: vec2u }
@compute @workgroup_size(1)
fn main() {
    let pair = Pair(vec2u(1u));
    let i = order[places[1u | 2u]] + pair.places[0];
    sums[i] = sums[i + 1u] + f32(arrayLength(&all)) + f32(counts.items);
}";

    fn chosen(most: usize) -> Result<Joins> {
        let bindings = storage_bindings(WGSL, "main").unwrap();
        Joins::choose(&bindings, |_| 20, most)
    }

    #[test]
    fn what_an_entry_point_binds_is_found() {
        let bindings = storage_bindings(WGSL, "main").unwrap();
        let names: Vec<_> = bindings.iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["counts", "order", "places", "sums", "all"]);
        let joins: Vec<bool> = bindings.iter().map(|b| b.joins).collect();
        assert_eq!(
            joins,
            [false, true, true, true, false],
            "all has its length taken"
        );
        assert!(bindings[0].is_uniform && !bindings[1].is_uniform);
        assert!(storage_bindings(WGSL, "other").is_err());
    }

    #[test]
    fn as_few_are_joined_as_need_be() {
        assert!(chosen(5).unwrap().is_empty());
        let four = chosen(4).unwrap();
        assert_eq!((four.uniforms.len(), four.groups.len()), (1, 0));
        let three = chosen(3).unwrap();
        assert_eq!(three.groups[0].members, ["order", "places"]);
        assert!(chosen(2).is_err());
    }

    #[test]
    fn items_are_found_where_their_member_begins() {
        let joins = chosen(3).unwrap();
        let wgsl = joins.apply(WGSL);
        assert!(
            wgsl.contains("let i = joined_0[joined_at[0].x + (joined_0[joined_at[0].y + (1u | 2u)])] + pair.places[0];"),
            "{wgsl}"
        );
        assert!(
            wgsl.contains("@group(0) @binding(0) var<uniform> counts: Counts;"),
            "{wgsl}"
        );
        let after = storage_bindings(&wgsl, "main").unwrap();
        assert_eq!(after.len(), 3, "{wgsl}");
        assert_eq!(joins.begins(|_| 20), [[0, 8, 0, 0]]);
        let (members, bytes) = joins.groups[0].layout(|_| 20);
        assert_eq!((members[1].offset, bytes), (32, 64));
    }
}

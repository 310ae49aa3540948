//! Joins the parts of a kernel to WGSL: extensions, bindings, variables of the workgroup, helpers, operations, functions,
//! `main`.

use super::{Binding, Source, Written};
use crate::graph::element::{ElementOp, HELPERS};
use crate::graph::tensor::DType;

impl Source<'_> {
    /// Returns the finished kernel.
    pub fn finish(self, groups: usize) -> Written {
        let operations = self.operations.iter();
        let operations: String = operations
            .map(|&(op, width)| operation_function(op, width))
            .collect();
        let code = [&operations, &self.functions, &self.body];
        let helpers = helpers_of(&code.map(String::as_str).concat());
        let wgsl = [
            self.extensions,
            &self.binding_lines(),
            &self.shared,
            &helpers,
            &operations,
            &self.functions,
            &self.main(),
        ]
        .concat();
        let bindings = self.bindings.iter().enumerate();
        let bindings = bindings.map(|(at, binding)| (format!("b{at}"), binding.buffer));
        Written {
            wgsl,
            bindings: bindings.collect(),
            groups,
        }
    }

    /// Returns the declarations of all bindings, in order.
    fn binding_lines(&self) -> String {
        let own = self.bindings.iter().enumerate().map(|(at, binding)| {
            let access = match binding.written {
                true => "read_write",
                false => "read",
            };
            let ty = self.element_type(binding);
            format!("@group(0) @binding({at}) var<storage, {access}> b{at}: array<{ty}>;\n")
        });
        let more = self.more.iter().enumerate().map(|(at, name)| {
            let at = self.bindings.len() + at;
            format!("@group(0) @binding({at}) var<storage, read> {name}: array<u32>;\n")
        });
        own.chain(more).collect()
    }

    /// Returns the WGSL type of a binding's elements.
    fn element_type(&self, binding: &Binding) -> &'static str {
        if let Some(other) = binding.of {
            return other;
        }
        match (self.buffers[binding.buffer].dtype, binding.wide) {
            (DType::F32, true) => "vec4f",
            (DType::F32, false) => "f32",
            (DType::F16, true) => "vec2u",
            _ => "u32",
        }
    }

    /// Returns the entry point.
    fn main(&self) -> String {
        format!(
            "@compute @workgroup_size({})\nfn main(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u, \
             @builtin(local_invocation_index) local: u32) {{\n    let zero = group.z;\n    \
             let group_index = group.x + group.y * groups.x;\n{}}}\n",
            self.threads, self.body
        )
    }
}

/// Returns the function of an operation for one element, or for four.
fn operation_function(op: ElementOp, width: usize) -> String {
    let names = &["a", "b", "c"][..op.arity()];
    let ty = Source::type_of(width);
    let arguments: Vec<String> = names.iter().map(|name| format!("{name}: {ty}")).collect();
    let text = match (width, op.wgsl_vector()) {
        (1, _) => op.wgsl().to_owned(),
        (_, Some(text)) => text.to_owned(),
        _ => by_elements(op, names),
    };
    format!(
        "fn {}_{width}({}) -> {ty} {{\n    {text}\n}}\n",
        op.name(),
        arguments.join(", ")
    )
}

/// Returns the body of an operation on four elements that is defined for one.
fn by_elements(op: ElementOp, names: &[&str]) -> String {
    let calls = ["x", "y", "z", "w"].map(|part| {
        let arguments: Vec<String> = names.iter().map(|name| format!("{name}.{part}")).collect();
        format!("{}_1({})", op.name(), arguments.join(", "))
    });
    format!("return vec4f({});", calls.join(", "))
}

/// Returns the helpers that code calls. Helpers may call others, which come before them.
fn helpers_of(code: &str) -> String {
    let mut needed = vec![false; HELPERS.len()];
    for _ in 0..2 {
        for at in 0..HELPERS.len() {
            let call = format!("{}(", HELPERS[at].0);
            let by_helper = (0..HELPERS.len())
                .any(|other| other != at && needed[other] && HELPERS[other].1.contains(&call));
            needed[at] |= code.contains(&call) || by_helper;
        }
    }
    let helpers = HELPERS.iter().zip(needed).filter(|(_, needed)| *needed);
    helpers.map(|((_, text), _)| *text).collect()
}

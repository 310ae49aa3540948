//! [`Source`]: the building blocks of kernels: bindings, loads by linear indices, instructions, stores.
//!
//! Elements are handled four at a time (`width` 4), loaded and stored as 16 bytes of `f32` or 8 of `f16` if strides and
//! padding permit it. 16-bit values are stored two in a word and packed by `pack2x16float`, which every device has.

mod finish;

use crate::graph::element::ElementOp as E;
use crate::graph::tensor::{DType, ReduceOp};
use crate::program::{Body, BufferPlan, KernelPlan, Source as From, Value};
use std::fmt::Write;

/// A kernel in WGSL: its entry point is `main`.
pub(crate) struct Written {
    pub wgsl: String,
    /// Names of bindings, and the buffers bound to them.
    pub bindings: Vec<(String, usize)>,
    pub groups: usize,
}

/// Invocations of a workgroup.
pub(crate) const THREADS: usize = 256;

/// Elements that keep a large device busy even if each invocation has eight, and invocations of a workgroup then.
const MANY: usize = 1 << 20;
const EIGHTS: usize = 128;

/// A binding.
struct Binding {
    buffer: usize,
    /// True if the binding is an array of fours.
    wide: bool,
    written: bool,
    /// Element type of the array, if it is of another type.
    of: Option<&'static str>,
}

/// A kernel that is being written.
pub(crate) struct Source<'a> {
    pub kernel: &'a KernelPlan,
    pub(super) buffers: &'a [BufferPlan],
    pub(super) padded: &'a [bool],
    bindings: Vec<Binding>,
    /// Functions that come before `main`.
    pub(super) functions: String,
    /// Number of load functions.
    pub(super) loads: usize,
    /// Operations whose functions are needed, and for how many elements.
    operations: Vec<(E, usize)>,
    /// Lines of `main`.
    pub body: String,
    /// Variables of the workgroup.
    pub shared: String,
    pub threads: usize,
    /// Extensions of WGSL that the kernel needs, as lines.
    pub extensions: &'static str,
    /// Names of `u32` arrays that the kernel reads and that are not in a buffer of the program.
    pub more: Vec<&'static str>,
}

impl<'a> Source<'a> {
    pub fn new(kernel: &'a KernelPlan, buffers: &'a [BufferPlan], padded: &'a [bool]) -> Self {
        Self {
            kernel,
            buffers,
            padded,
            bindings: Vec::new(),
            functions: String::new(),
            loads: 0,
            operations: Vec::new(),
            body: String::new(),
            shared: String::new(),
            threads: THREADS,
            extensions: "",
            more: Vec::new(),
        }
    }

    /// Appends a line to `main`.
    pub fn line(&mut self, text: impl AsRef<str>) {
        self.body.push_str("    ");
        self.body.push_str(text.as_ref());
        self.body.push('\n');
    }

    /// Appends a function before `main`.
    pub fn function(&mut self, text: &str) {
        self.functions.push_str(text);
    }

    pub fn type_of(width: usize) -> &'static str {
        if width == 4 { "vec4f" } else { "f32" }
    }

    /// Returns a number in exact WGSL syntax.
    fn literal(value: f32) -> String {
        match value {
            // A non-finite value may not be a constant.
            v if !v.is_finite() => format!("bitcast<f32>({:#x}u | zero)", v.to_bits()),
            v => format!("{v:e}f"),
        }
    }

    pub fn literal_of(value: f32, width: usize) -> String {
        let literal = Self::literal(value);
        if width == 4 {
            format!("vec4f({literal})")
        } else {
            literal
        }
    }

    /// Returns the name of a binding.
    pub fn bind(&mut self, buffer: usize, wide: bool, written: bool) -> String {
        let is_output = self.kernel.outputs.contains(&buffer);
        let found = self
            .bindings
            .iter()
            .position(|b| b.buffer == buffer && b.of.is_none() && (b.wide == wide || is_output));
        let at = match found {
            Some(at) => {
                self.bindings[at].written |= written || is_output;
                at
            }
            None => {
                self.bindings.push(Binding {
                    buffer,
                    wide,
                    written: written || is_output,
                    of: None,
                });
                self.bindings.len() - 1
            }
        };
        format!("b{at}")
    }

    /// Returns the name of a binding as an array of another type, only read or only written.
    pub fn bind_as(&mut self, buffer: usize, of: &'static str) -> String {
        let is_same = |b: &Binding| b.buffer == buffer && b.of == Some(of);
        let at = self.bindings.iter().position(is_same).unwrap_or_else(|| {
            self.bindings.push(Binding {
                buffer,
                wide: true,
                written: self.kernel.outputs.contains(&buffer),
                of: Some(of),
            });
            self.bindings.len() - 1
        });
        format!("b{at}")
    }

    /// Returns true if an output is of 16-bit elements.
    pub fn stores_halves(&self) -> bool {
        let mut outputs = self.kernel.outputs.iter();
        outputs.any(|output| self.buffers[*output].dtype == DType::F16)
    }

    pub(super) fn extent(&self) -> usize {
        self.kernel.extent().0
    }

    /// Returns the expression of an instruction that is an operation, over the names of its operands.
    pub fn operation(&mut self, op: E, operands: &[String], width: usize) -> String {
        if op == E::Round16 {
            return format!("rounded_{width}({}, zero)", operands.join(", "));
        }
        if !self.operations.contains(&(op, width)) {
            self.operations.push((op, width));
        }
        if width == 4 && op.wgsl_vector().is_none() && !self.operations.contains(&(op, 1)) {
            self.operations.push((op, 1));
        }
        let call = format!("{}_{width}({})", op.name(), operands.join(", "));
        let is_exact = matches!(
            op,
            E::Copy
                | E::Neg
                | E::Abs
                | E::Sign
                | E::Relu
                | E::Max
                | E::Min
                | E::Greater
                | E::Equal
                | E::Gate
                | E::Select
        );
        if is_exact {
            call
        } else {
            format!("exact_{width}({call}, zero)")
        }
    }

    /// Writes the lines that compute `wanted` instructions per element of a body, at linear index `i`, as `v0`, `v1`,
    /// ..; `known` returns the names of existing values of this width.
    pub fn instructions(
        &mut self,
        body: &Body,
        wanted: &[usize],
        (width, index, suffix): (usize, &str, &str),
        loads: &[String],
        known: &dyn Fn(usize) -> Option<String>,
    ) -> String {
        let mut text = String::new();
        for &at in wanted {
            let name = |operand: usize| match (&body.instructions[operand].value, known(operand)) {
                (_, Some(known)) => known,
                (Value::Constant(value), _) => Self::literal_of(*value, width),
                _ => format!("v{operand}{suffix}"),
            };
            let value = match &body.instructions[at].value {
                Value::Constant(_) | Value::Product | Value::Reduce(..) => continue,
                Value::Input(input) => format!("{}({index})", loads[*input]),
                Value::Element(op, operands) => {
                    let operands: Vec<String> =
                        operands.iter().map(|operand| name(*operand)).collect();
                    self.operation(*op, &operands, width)
                }
            };
            let _ = writeln!(text, "    let v{at}{suffix} = {value};");
        }
        text
    }

    /// Writes the lines that store a value at linear index `i` (for four a multiple of 4) of an output. The index may
    /// be up to three before the end.
    pub fn store(&mut self, output: usize, value: &str, width: usize, index: &str) -> String {
        let buffer = self.kernel.outputs[output];
        let (dtype, count) = (self.buffers[buffer].dtype, self.buffers[buffer].count);
        if width == 1 {
            let name = self.bind(buffer, false, true);
            return format!("    {name}[{index}] = {value};\n");
        }
        if !self.in_fours(buffer) {
            let name = self.bind(buffer, false, true);
            let each = |k: usize| {
                let part = ["x", "y", "z", "w"][k];
                format!(
                    "    if {index} + {k}u < {count}u {{ {name}[{index} + {k}u] = ({value}).{part}; }}\n"
                )
            };
            return (0..4).map(each).collect();
        }
        let name = self.bind(buffer, true, true);
        match dtype {
            DType::F16 => format!(
                "    {name}[({index}) >> 2u] = vec2u(pack2x16float(({value}).xy), pack2x16float(({value}).zw));\n"
            ),
            _ => format!("    {name}[({index}) >> 2u] = {value};\n"),
        }
    }

    /// Returns the name of an instruction's value.
    pub fn named(body: &Body, at: usize, width: usize, suffix: &str) -> String {
        match &body.instructions[at].value {
            Value::Constant(value) => Self::literal_of(*value, width),
            _ => format!("v{at}{suffix}"),
        }
    }

    /// Returns the expression that joins two values of a reduction.
    pub fn joined(&mut self, op: ReduceOp, a: &str, b: &str, width: usize) -> String {
        match op {
            ReduceOp::Sum => format!("{a} + {b}"),
            _ => {
                let call = op.element();
                self.operation(call, &[a.to_owned(), b.to_owned()], width)
            }
        }
    }

    /// Computes elements one by one, four to an invocation, or eight of 16 bits. Returns the number of workgroups.
    pub fn map(&mut self, count: usize) -> usize {
        if self.are_eights(count) {
            return self.map_eights(count);
        }
        let body = &self.kernel.body;
        let quads = count.div_ceil(4);
        let loads: Vec<String> = (0..body.inputs.len())
            .map(|input| self.load(input, 4))
            .collect();
        self.line(format!("let quad = group_index * {THREADS}u + local;"));
        self.line(format!("if quad >= {quads}u {{ return; }}"));
        self.line("let i = quad * 4u;");
        let all: Vec<usize> = (0..body.instructions.len()).collect();
        let text = self.instructions(body, &all, (4, "i", ""), &loads, &|_| None);
        self.body.push_str(&text);
        for (instruction, output) in &body.stores {
            let value = Self::named(body, *instruction, 4, "");
            let text = self.store(*output, &value, 4, "i");
            self.body.push_str(&text);
        }
        quads.div_ceil(THREADS)
    }

    /// Returns true if all loads and stores are of contiguous 16-bit elements, and there are many.
    fn are_eights(&self, count: usize) -> bool {
        let is_plain = |input: &From| match input {
            From::Buffer(access) => {
                access.dtype == DType::F16
                    && access.dims == [(count, 1)]
                    && access.offset.is_multiple_of(8)
                    && self.buffers[access.buffer].count.is_multiple_of(8)
                    && !self.kernel.outputs.contains(&access.buffer)
            }
            _ => false,
        };
        let is_whole = |output: &usize| {
            let buffer = &self.buffers[*output];
            buffer.dtype == DType::F16 && buffer.count == count
        };
        count >= MANY
            && count.is_multiple_of(8 * EIGHTS)
            && self.kernel.body.inputs.iter().all(is_plain)
            && self.kernel.outputs.iter().all(is_whole)
    }

    /// Computes 16 bytes per invocation: with 8 bytes per load the device is not busy.
    fn map_eights(&mut self, count: usize) -> usize {
        let body = &self.kernel.body;
        self.threads = EIGHTS;
        self.line(format!("let eight = group_index * {EIGHTS}u + local;"));
        self.line(format!("if eight >= {}u {{ return; }}", count / 8));
        for (number, input) in body.inputs.iter().enumerate() {
            if let From::Buffer(access) = input {
                let name = self.bind_as(access.buffer, "vec4u");
                let first = access.offset / 8;
                self.line(format!("let all{number} = {name}[eight + {first}u];"));
            }
        }
        let input_of = |at: usize| match &body.instructions[at].value {
            Value::Input(input) => Some(*input),
            _ => None,
        };
        let computed: Vec<usize> = (0..body.instructions.len())
            .filter(|at| input_of(*at).is_none())
            .collect();
        let halves = [("i", "", "xy"), ("j", "_j", "zw")];
        for (at, (index, suffix, part)) in halves.into_iter().enumerate() {
            self.line(format!("let {index} = eight * 8u + {}u;", 4 * at));
            for number in 0..body.inputs.len() {
                self.line(format!(
                    "let in{number}{suffix} = halves(all{number}.{part});"
                ));
            }
            let known = |at: usize| input_of(at).map(|input| format!("in{input}{suffix}"));
            let text = self.instructions(body, &computed, (4, index, suffix), &[], &known);
            self.body.push_str(&text);
        }
        for (instruction, output) in &body.stores {
            let name = self.bind_as(self.kernel.outputs[*output], "vec4u");
            let packed = halves.map(|(_, suffix, _)| {
                let value = match input_of(*instruction) {
                    Some(input) => format!("in{input}{suffix}"),
                    None => Self::named(body, *instruction, 4, suffix),
                };
                format!("pack2x16float(({value}).xy), pack2x16float(({value}).zw)")
            });
            self.line(format!("{name}[eight] = vec4u({});", packed.join(", ")));
        }
        (count / 8).div_ceil(EIGHTS)
    }

    /// Adds up rows by index: each element of the result reads all indices in order.
    pub fn scatter(&mut self, rows: usize, width: usize, numbers: usize) -> usize {
        let body = &self.kernel.body;
        let values = self.load(0, 1);
        let From::Buffer(access) = &body.inputs[1] else {
            return 0;
        };
        let place = self.place(access);
        let name = self.bind(access.buffer, false, false);
        let count = rows * width;
        self.line(format!("let i = group_index * {THREADS}u + local;"));
        self.line(format!("if i >= {count}u {{ return; }}"));
        self.line(format!(
            "let row = i / {width}u;\n    let column = i % {width}u;\n    var sum = 0.0;"
        ));
        self.line(format!("for (var j = 0u; j < {numbers}u; j++) {{"));
        self.line(format!(
            "    if {name}[{place}(j)] == row {{ sum += {values}(j * {width}u + column); }}"
        ));
        self.line("}");
        let text = self.store(0, "sum", 1, "i");
        self.body.push_str(&text);
        count.div_ceil(THREADS)
    }
}

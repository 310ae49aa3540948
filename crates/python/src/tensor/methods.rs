//! Methods of the class `Tensor`: one row for each operation.
#![expect(unsafe_op_in_unsafe_fn, reason = "pyo3 writes the operators")]

use super::arguments::{self, refused};
use super::node::{PyTensor, same_shape, tensor, tensors};
use super::{arrays, images, indexing};
use dapple_tensor::{DType, Tensor};
use pyo3::prelude::*;

/// Number that norms add to a variance by default.
const EPSILON: f32 = 1e-5;

/// Defines the methods: a row is a name and its doc comment, which Python shows too. All methods are here, because a
/// class has one block of them.
macro_rules! methods {
    (
        unary { $($(#[$unary_doc:meta])* $unary:ident)* }
        binary { $($(#[$binary_doc:meta])* $binary:ident)* }
        reductions { $($(#[$reduction_doc:meta])* $reduction:ident $keep:ident)* }
        others { $($others:tt)* }
    ) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$unary_doc])*
                fn $unary(&self, py: Python<'_>) -> PyResult<Self> {
                    self.unary(py, stringify!($unary), Tensor::$unary)
                }
            )*
            $(
                $(#[$binary_doc])*
                fn $binary(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
                    self.binary(other, |a, b| a.$binary(b))
                }
            )*
            $(
                $(#[$reduction_doc])*
                #[pyo3(
                    signature = (axes = None, keep = None),
                    text_signature = "($self, axes=None, keep=False)"
                )]
                fn $reduction(
                    &self,
                    py: Python<'_>,
                    axes: Option<&Bound<'_, PyAny>>,
                    keep: Option<&Bound<'_, PyAny>>,
                ) -> PyResult<Self> {
                    self.reduced(py, axes, keep, Tensor::$keep)
                }
            )*
            $($others)*
        }
    };
}

methods! {
    unary {
        /// Returns -x.
        neg
        /// Returns the absolute value.
        abs
        /// Returns the sign: -1, 0 or 1.
        sign
        /// Returns e to the power of x.
        exp
        /// Returns the natural logarithm.
        log
        /// Returns the square root.
        sqrt
        /// Returns the sine of radians.
        sin
        /// Returns the cosine of radians.
        cos
        /// Returns the tangent of radians.
        tan
        /// Returns 1 / (1 + exp(-x)).
        sigmoid
        /// Returns the hyperbolic tangent.
        tanh
        /// Returns max(x, 0).
        relu
        /// Returns GELU in its tanh form.
        gelu
        /// Returns GELU by the error function.
        gelu_erf
        /// Returns the softmax over the last axis.
        softmax
        /// Returns the logarithm of the softmax over the last axis.
        log_softmax
        /// Exchanges the last two axes: [..., m, n] to [..., n, m], a view.
        t
        /// Returns the same values without a gradient.
        detach
    }
    binary {
        /// Returns the sum; shapes broadcast.
        add
        /// Returns the difference; shapes broadcast.
        sub
        /// Returns the product of elements; shapes broadcast.
        mul
        /// Returns the quotient; shapes broadcast.
        div
        /// Returns the larger of two values; shapes broadcast.
        maximum
        /// Returns the smaller of two values; shapes broadcast.
        minimum
        /// Returns 1 where x is greater, else 0; shapes broadcast.
        greater
        /// Returns 1 where both are equal, else 0; shapes broadcast.
        equal
        /// Returns the matrix product: [..., m, k] by [..., k, n]; axes before the last two broadcast.
        matmul
    }
    reductions {
        /// Returns sums over axes, of all elements without `axes`. With `keep`, axes remain with one element.
        sum sum_keep
        /// Returns means over axes, of all elements without `axes`. With `keep`, axes remain with one element.
        mean mean_keep
        /// Returns maxima over axes, of all elements without `axes`. With `keep`, axes remain with one element.
        max max_keep
        /// Returns minima over axes, of all elements without `axes`. With `keep`, axes remain with one element.
        min min_keep
        /// Returns variances over axes, divided by the number of elements. With `keep`, axes remain with one element.
        variance variance_keep
    }
    others {
        fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.add(other)
        }

        fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.reversed(other, |a, b| a.add(b))
        }

        fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.sub(other)
        }

        fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.reversed(other, |a, b| a.sub(b))
        }

        fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.mul(other)
        }

        fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.reversed(other, |a, b| a.mul(b))
        }

        fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.div(other)
        }

        fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.reversed(other, |a, b| a.div(b))
        }

        fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.matmul(other)
        }

        fn __rmatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Self> {
            self.reversed(other, |a, b| a.matmul(b))
        }

        fn __neg__(&self, py: Python<'_>) -> PyResult<Self> {
            self.unary(py, "neg", Tensor::neg)
        }

        fn __pow__(
            &self,
            exponent: &Bound<'_, PyAny>,
            modulo: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<Self> {
            match modulo {
                Some(_) => {
                    let hint = "use the power alone";
                    Err(refused(exponent.py(), "pow has a modulo", "modulo", hint))
                }
                None => self.pow(exponent),
            }
        }

        /// Returns the power by a number, or by a Tensor element by element.
        fn pow(&self, exponent: &Bound<'_, PyAny>) -> PyResult<Self> {
            let py = exponent.py();
            let x = self.get(py)?;
            let result = match exponent.cast::<Self>() {
                Ok(tensor) => x.power(tensor.get().get(py)?),
                Err(_) => x.pow(arguments::number(exponent, "exponent")?),
            };
            self.result(py, "exponent", result)
        }

        /// Returns `a` where x is not 0, else `b`: tensors or numbers; shapes broadcast.
        fn select(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<Self> {
            let py = a.py();
            let x = self.get(py)?;
            let (first, second) = (self.operand(a, "a")?, self.operand(b, "b")?);
            // A pair cannot exceed the range of sizes, three tensors can.
            let pair = self.result(py, "a", x.mul(&first))?;
            self.result(py, "b", pair.get(py)?.mul(&second))?;
            self.result(py, "a", x.select(first, second))
        }

        /// Clamps to two numbers. The gradient passes between them and at them.
        fn clamp(&self, least: &Bound<'_, PyAny>, most: &Bound<'_, PyAny>) -> PyResult<Self> {
            let (low, high) = (arguments::number(least, "least")?, arguments::number(most, "most")?);
            let x = self.get(least.py())?;
            self.result(least.py(), "clamp", x.clamp(low, high))
        }

        /// Returns (x - mean) / sqrt(variance + epsilon) over the last axis.
        #[pyo3(signature = (epsilon = None), text_signature = "($self, epsilon=1e-05)")]
        fn layer_norm(&self, py: Python<'_>, epsilon: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
            let epsilon = arguments::number_or(epsilon, "epsilon", EPSILON)?;
            self.result(py, "layer_norm", self.get(py)?.layer_norm(epsilon))
        }

        /// Returns x / sqrt(mean(x^2) + epsilon) over the last axis.
        #[pyo3(signature = (epsilon = None), text_signature = "($self, epsilon=1e-05)")]
        fn rms_norm(&self, py: Python<'_>, epsilon: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
            let epsilon = arguments::number_or(epsilon, "epsilon", EPSILON)?;
            self.result(py, "rms_norm", self.get(py)?.rms_norm(epsilon))
        }

        /// Returns the mean over rows of -sum(wanted log softmax): `wanted` has the class of each row, [...] by
        /// `indices`, or the share of each class, [..., classes]. The result has no axes.
        fn cross_entropy(&self, wanted: &Bound<'_, PyAny>) -> PyResult<Self> {
            let py = wanted.py();
            let wanted = tensor(wanted, "wanted")?;
            self.result(py, "wanted", self.get(py)?.cross_entropy(wanted.get().get(py)?))
        }

        /// Returns rows of this table, [rows, width], by `numbers` of `indices`, [...]: [..., width]. A number beyond
        /// the table gives NaN.
        fn embedding(&self, numbers: &Bound<'_, PyAny>) -> PyResult<Self> {
            let py = numbers.py();
            let numbers = tensor(numbers, "numbers")?;
            self.result(py, "numbers", self.get(py)?.embedding(numbers.get().get(py)?))
        }

        /// Returns the convolution of images, [n, channels, rows, columns], with `weight`, [outputs, channels, kernel
        /// rows, kernel columns]: [n, outputs, ...]. Images are zero outside.
        #[pyo3(signature = (weight, stride = None, padding = None), text_signature = "($self, weight, stride=1, padding=0)")]
        fn conv2d(
            &self,
            weight: &Bound<'_, PyAny>,
            stride: Option<&Bound<'_, PyAny>>,
            padding: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<Self> {
            let py = weight.py();
            let weight = tensor(weight, "weight")?;
            let (x, weight) = (self.get(py)?, weight.get().get(py)?);
            let kernel = match weight.shape() {
                &[outputs, _, rows, columns] => [rows.saturating_mul(outputs.max(1)), columns],
                _ => [1, 1],
            };
            let stride = stride.map_or(Ok([1, 1]), |stride| arguments::pair(stride, "stride"))?;
            let padding = padding.map_or(Ok([0, 0]), |padding| arguments::pair(padding, "padding"))?;
            let windows = images::windows(py, [stride, padding, kernel], x)?;
            self.result(py, "weight", x.conv2d(weight, windows))
        }

        /// Returns the maximum of each window of images, [n, channels, rows, columns]. Windows touch without `stride`.
        #[pyo3(signature = (kernel, stride = None, padding = None), text_signature = "($self, kernel, stride=None, padding=0)")]
        fn max_pool2d(
            &self,
            kernel: &Bound<'_, PyAny>,
            stride: Option<&Bound<'_, PyAny>>,
            padding: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<Self> {
            let (py, x) = (kernel.py(), self.get(kernel.py())?);
            let kernel = arguments::pair(kernel, "kernel")?;
            let stride = stride.map_or(Ok(kernel), |stride| arguments::pair(stride, "stride"))?;
            let padding = padding.map_or(Ok([0, 0]), |padding| arguments::pair(padding, "padding"))?;
            let windows = images::windows(py, [stride, padding, kernel], x)?;
            self.result(py, "kernel", x.max_pool2d(kernel, windows))
        }

        /// Returns the same elements in another shape; one size may be -1.
        fn reshape(&self, shape: &Bound<'_, PyAny>) -> PyResult<Self> {
            let (py, x) = (shape.py(), self.get(shape.py())?);
            let shape = arguments::reshaped(shape, x.count())?;
            self.result(py, "shape", x.reshape(&shape))
        }

        /// Broadcasts to a shape, a view.
        fn expand(&self, shape: &Bound<'_, PyAny>) -> PyResult<Self> {
            let (py, x) = (shape.py(), self.get(shape.py())?);
            self.result(py, "shape", x.expand(&arguments::shape(shape)?))
        }

        /// Orders the axes: axis i of the result is axis axes[i], a view.
        fn permute(&self, axes: &Bound<'_, PyAny>) -> PyResult<Self> {
            let (py, x) = (axes.py(), self.get(axes.py())?);
            let axes = arguments::axes(Some(axes), x.rank())?;
            self.result(py, "axes", x.permute(&axes))
        }

        /// Inserts an axis of one element before `axis`, a view; -1 appends it.
        fn unsqueeze(&self, axis: &Bound<'_, PyAny>) -> PyResult<Self> {
            let (py, x) = (axis.py(), self.get(axis.py())?);
            let axis = arguments::axis(axis, "axis", x.rank() + 1)?;
            self.result(py, "axis", x.unsqueeze(axis))
        }

        /// Returns a part by integers, slices of step 1, None and `...`, a view.
        fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
            let part = indexing::part(self.get(index.py())?, index)?;
            self.result(index.py(), "index", part)
        }

        /// Converts to "float32" or "float16", rounded to the nearest.
        fn to(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
            let (py, x) = (dtype.py(), self.get(dtype.py())?);
            self.result(py, "dtype", x.to(arguments::dtype(dtype)?))
        }

        /// Returns the gradients of this tensor by `wrt`, a list of tensors, each of the shape and type of its tensor.
        /// Without `seed` this tensor has one element. With `seed`, of this shape, they are those of sum(x * seed).
        #[pyo3(signature = (wrt, seed = None))]
        fn gradients(
            &self,
            wrt: &Bound<'_, PyAny>,
            seed: Option<&Bound<'_, PyAny>>,
        ) -> PyResult<Vec<Self>> {
            let py = wrt.py();
            let x = self.get(py)?;
            let wanted = tensors(wrt, "wrt")?;
            let wanted = self.mates(py, &wanted, "wrt")?;
            let found = match seed {
                None => x.gradients(&wanted),
                Some(seed) => {
                    let seed = tensor(seed, "seed")?;
                    let seed = self.mates(py, std::slice::from_ref(&seed), "seed")?[0];
                    if seed.shape() != x.shape() {
                        let what = format!("seed has shape {:?}, not {:?}", seed.shape(), x.shape());
                        return Err(refused(py, what, "seed", "give a seed of the shape of the tensor"));
                    }
                    x.gradients_from(seed, &wanted)
                }
            };
            let found = found.into_iter();
            found.map(|gradient| self.result(py, "gradients", gradient)).collect()
        }

        /// Replaces the values of a leaf, by an array of its shape; plans read them from their next run on.
        fn write(&self, array: &Bound<'_, PyAny>) -> PyResult<()> {
            let (py, x) = (array.py(), self.get(array.py())?);
            if x.dtype() == DType::U32 {
                return self.write_indices(array, x);
            }
            let values = arrays::values(array, "array")?;
            same_shape(py, values.shape(), x)?;
            let numbers = values.numbers();
            self.owner().work(py, "Tensor", || x.write(numbers))
        }

        /// Returns a copy of the values as an array of numpy: those of a leaf, or of an operation computed now. A Plan
        /// computes repeatedly at less cost.
        fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
            self.read(py)
        }

        #[pyo3(signature = (dtype = None, copy = None))]
        fn __array__<'py>(
            &self,
            py: Python<'py>,
            dtype: Option<&Bound<'py, PyAny>>,
            copy: Option<&Bound<'py, PyAny>>,
        ) -> PyResult<Bound<'py, PyAny>> {
            let _ = copy;
            let values = self.read(py)?;
            match dtype {
                Some(dtype) => values.call_method1("astype", (dtype,)),
                None => Ok(values),
            }
        }

        /// Numpy leaves operators to this class.
        #[classattr]
        #[pyo3(name = "__array_ufunc__")]
        fn array_ufunc() -> Option<bool> {
            None
        }

        /// Returns the only element as a float.
        fn item(&self, py: Python<'_>) -> PyResult<f32> {
            let x = self.get(py)?;
            self.owner().work(py, "Tensor", || x.item())
        }

        fn __float__(&self, py: Python<'_>) -> PyResult<f32> {
            self.item(py)
        }

        fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
            let hint = "read the values: tensor.item() or tensor.numpy()";
            Err(refused(py, "a Tensor has no truth value", "Tensor", hint))
        }

        fn __iter__(&self, py: Python<'_>) -> PyResult<Self> {
            let hint = "iterate over tensor.numpy(), or take parts by an index";
            Err(refused(py, "a Tensor cannot be iterated over", "Tensor", hint))
        }

        /// Names the tensor for errors; the first name remains. Returns the tensor.
        fn named<'py>(slf: &Bound<'py, Self>, name: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
            let name = arguments::text(name, "name", "give a string")?;
            let _ = slf.get().get(slf.py())?.clone().named(&name);
            Ok(slf.clone())
        }

        /// Sizes of the axes.
        #[getter]
        fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
            pyo3::types::PyTuple::new(py, self.held.peek().shape())
        }

        /// Number of axes.
        #[getter]
        fn ndim(&self) -> usize {
            self.held.peek().rank()
        }

        /// Number of elements.
        #[getter]
        fn size(&self) -> usize {
            self.held.peek().count()
        }

        /// "float32", "float16", or "uint32" for indices.
        #[getter]
        fn dtype(&self) -> &'static str {
            arguments::dtype_name(self.held.peek().dtype())
        }

        /// Name of the device.
        #[getter]
        fn device(&self) -> String {
            self.held.peek().context().name()
        }

        fn __repr__(&self) -> String {
            let x = self.held.peek();
            format!("Tensor({x:?}, on {})", x.context().name())
        }

        fn __str__(&self, py: Python<'_>) -> PyResult<String> {
            let x = self.get(py)?;
            self.owner().work(py, "Tensor", || Ok(x.to_string()))
        }
    }
}

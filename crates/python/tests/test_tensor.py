"""`dapple_gs.tensor`: values and gradients against numpy in float64, and plans."""

import gc
import os
import pathlib
import threading
import unittest

import numpy as np

from dapple_gs import tensor as dt

from .scenes import random


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def erf(x):
    """Integral of the normal density by Simpson's rule."""
    t = np.linspace(0.0, 1.0, 401)
    weights = np.where(np.arange(401) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    return 2 / np.sqrt(np.pi) * (x[..., None] * np.exp(-((x[..., None] * t) ** 2)) * weights).sum(-1) / 1200


def correlate(x, weight, stride, padding):
    """Returns a convolution of images, by loops over taps."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    kh, kw = weight.shape[2:]
    rows, columns = (x.shape[2] - kh) // stride + 1, (x.shape[3] - kw) // stride + 1
    y = np.zeros((x.shape[0], weight.shape[0], rows, columns))
    for i in range(kh):
        for j in range(kw):
            part = x[:, :, i : i + stride * rows : stride, j : j + stride * columns : stride]
            y += np.einsum("nchw,oc->nohw", part, weight[:, :, i, j])
    return y


def pooled(x, kernel):
    n, c, h, w = x.shape
    return x[:, :, : h // kernel * kernel, : w // kernel * kernel].reshape(
        n, c, h // kernel, kernel, w // kernel, kernel).max((3, 5))


ANY, POSITIVE = dict(low=-1.5, high=1.5), dict(low=0.4, high=2.0)

# Name, operation on tensors, formula in float64, shapes of the operands, range of values.
ROWS = [
    ("add", lambda a, b: a + b, lambda a, b: a + b, [(3, 4), (4,)], ANY),
    ("radd", lambda a: 2.5 + a, lambda a: 2.5 + a, [(3, 4)], ANY),
    ("sub", lambda a, b: a - b, lambda a, b: a - b, [(3, 1), (3, 4)], ANY),
    ("rsub", lambda a: 2 - a, lambda a: 2 - a, [(5,)], ANY),
    ("mul", lambda a, b: a * b, lambda a, b: a * b, [(2, 3, 4), (3, 1)], ANY),
    ("div", lambda a, b: a / b, lambda a, b: a / b, [(3, 4), (3, 4)], POSITIVE),
    ("rdiv", lambda a: 2 / a, lambda a: 2 / a, [(3, 4)], POSITIVE),
    ("neg", lambda a: -a, lambda a: -a, [(7,)], ANY),
    ("abs", lambda a: a.abs(), np.abs, [(7,)], ANY),
    ("exp", lambda a: a.exp(), np.exp, [(3, 5)], ANY),
    ("log", lambda a: a.log(), np.log, [(3, 5)], POSITIVE),
    ("sqrt", lambda a: a.sqrt(), np.sqrt, [(3, 5)], POSITIVE),
    ("sin", lambda a: a.sin(), np.sin, [(3, 5)], ANY),
    ("cos", lambda a: a.cos(), np.cos, [(3, 5)], ANY),
    ("tan", lambda a: a.tan(), np.tan, [(3, 5)], dict(low=-1.0, high=1.0)),
    ("sigmoid", lambda a: a.sigmoid(), lambda a: 1 / (1 + np.exp(-a)), [(3, 5)], ANY),
    ("tanh", lambda a: a.tanh(), np.tanh, [(3, 5)], ANY),
    ("relu", lambda a: a.relu(), lambda a: np.maximum(a, 0), [(3, 5)], ANY),
    ("gelu", lambda a: a.gelu(), gelu, [(3, 5)], ANY),
    ("gelu_erf", lambda a: a.gelu_erf(), lambda a: 0.5 * a * (1 + erf(a / np.sqrt(2))), [(3, 5)], ANY),
    ("softmax", lambda a: a.softmax(), softmax, [(3, 5)], ANY),
    ("log_softmax", lambda a: a.log_softmax(), lambda a: np.log(softmax(a)), [(3, 5)], ANY),
    ("layer_norm", lambda a: a.layer_norm(),
     lambda a: (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + 1e-5), [(3, 6)], ANY),
    ("rms_norm", lambda a: a.rms_norm(1e-3), lambda a: a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-3), [(3, 6)], ANY),
    ("pow", lambda a: a**2.5, lambda a: a**2.5, [(3, 5)], POSITIVE),
    ("power", lambda a, b: a.pow(b), lambda a, b: a**b, [(3, 5), (5,)], POSITIVE),
    ("maximum", lambda a, b: a.maximum(b), np.maximum, [(3, 5), (5,)], ANY),
    ("minimum", lambda a: a.minimum(0.25), lambda a: np.minimum(a, 0.25), [(3, 5)], ANY),
    ("clamp", lambda a: a.clamp(-0.5, 0.75), lambda a: np.clip(a, -0.5, 0.75), [(3, 5)], ANY),
    ("select", lambda a, b: a.greater(0.1).select(b, 3.0), lambda a, b: np.where(a > 0.1, b, 3.0), [(4, 5), (5,)], ANY),
    ("sum", lambda a: a.sum([0, -1]), lambda a: a.sum((0, 2)), [(2, 3, 4)], ANY),
    ("sum of all", lambda a: a.sum(), lambda a: a.sum(), [(2, 3, 4)], ANY),
    ("mean", lambda a: a.mean(1, keep=True), lambda a: a.mean(1, keepdims=True), [(2, 3, 4)], ANY),
    ("max", lambda a: a.max(-1), lambda a: a.max(-1), [(3, 6)], ANY),
    ("min", lambda a: a.min(), lambda a: a.min(), [(3, 6)], ANY),
    ("variance", lambda a: a.variance(0), lambda a: a.var(0), [(5, 4)], ANY),
    ("matmul", lambda a, b: a @ b, lambda a, b: a @ b, [(2, 3, 4), (4, 5)], ANY),
    ("matmul of batches", lambda a, b: a.matmul(b), lambda a, b: a @ b, [(2, 3, 4), (2, 4, 5)], ANY),
    ("t", lambda a, b: a.t() @ b, lambda a, b: a.T @ b, [(4, 3), (4, 5)], ANY),
    ("permute", lambda a: a.permute((2, 0, 1)) * 2, lambda a: a.transpose(2, 0, 1) * 2, [(2, 3, 4)], ANY),
    ("reshape", lambda a: a.reshape((-1, 6)).exp(), lambda a: np.exp(a.reshape(-1, 6)), [(2, 3, 4)], ANY),
    ("expand", lambda a: a.unsqueeze(-1).expand((3, 4)) * 1.5, lambda a: np.repeat(a[:, None], 4, 1) * 1.5, [(3,)], ANY),
    ("parts", lambda a: a[1, ..., 1:-1] * a[0, None, :, 2], lambda a: a[1, ..., 1:-1] * a[0, None, :, 2],
     [(2, 3, 5)], ANY),
    ("cat", lambda a, b: dt.cat([a, b, a], 1), lambda a, b: np.concatenate([a, b, a], 1), [(2, 3), (2, 4)], ANY),
    ("conv2d", lambda a, b: a.conv2d(b, 2, (1, 1)), lambda a, b: correlate(a, b, 2, 1), [(2, 3, 7, 7), (4, 3, 3, 3)], ANY),
    ("max_pool2d", lambda a: a.max_pool2d(2), lambda a: pooled(a, 2), [(2, 2, 5, 6)], ANY),
    ("cross_entropy", lambda a, b: a.cross_entropy(b.detach().softmax()),
     lambda a, b: -(softmax(b.copy()) * np.log(softmax(a))).sum() / 3, [(3, 5), (3, 5)], ANY),
]


class Operations(unittest.TestCase):
    def arrays(self, row):
        return [random(*shape, seed=i + 1, **row[4]) for i, shape in enumerate(row[3])]

    def test_values(self):
        for row in ROWS:
            with self.subTest(row[0]):
                arrays = self.arrays(row)
                found = row[1](*map(dt.tensor, arrays))
                expected = np.asarray(row[2](*(array.astype(np.float64) for array in arrays)))
                self.assertEqual(found.shape, expected.shape)
                np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=2e-6)

    def test_gradients(self):
        """Each gradient against central differences in float64."""
        for row in ROWS:
            with self.subTest(row[0]):
                arrays = self.arrays(row)
                tensors = [dt.tensor(array) for array in arrays]
                output = row[1](*tensors)
                weights = random(*output.shape, seed=9)
                found = output.gradients(tensors, seed=dt.tensor(weights))
                wide = [array.astype(np.float64) for array in arrays]
                for i, gradient in enumerate(found):
                    self.assertEqual(gradient.shape, arrays[i].shape)
                    if row[0] == "cross_entropy" and i == 1:
                        # Detached.
                        np.testing.assert_array_equal(gradient.numpy(), 0)
                        continue
                    along = np.random.default_rng(7).normal(size=arrays[i].shape)
                    ends = [row[2](*wide[:i], wide[i] + step * along, *wide[i + 1 :]) for step in (1e-6, -1e-6)]
                    slope = ((ends[0] - ends[1]) * weights).sum() / 2e-6
                    given = float((gradient.numpy().astype(np.float64) * along).sum())
                    self.assertLess(abs(given - slope), 2e-4 * (abs(slope) + 1), row[0])

    def test_embedding_and_classes(self):
        table, numbers = random(6, 3), np.array([[0, 5], [2, 2]])
        leaf = dt.tensor(table)
        rows = leaf.embedding(dt.indices(numbers))
        np.testing.assert_array_equal(rows.numpy(), table[numbers])
        (by_table,) = rows.sum().gradients([leaf])
        np.testing.assert_array_equal(by_table.numpy()[:, 0], [1, 0, 2, 0, 0, 1])
        logits, classes = random(4, 3, seed=2), np.array([0, 2, 1, 1], np.uint8)
        expected = -np.log(softmax(logits.astype(np.float64)))[np.arange(4), classes].mean()
        found = dt.tensor(logits).cross_entropy(dt.indices(classes)).item()
        self.assertAlmostEqual(found, expected, 5)

    def test_gradients_of_a_loss_and_of_an_independent_tensor(self):
        x, other = dt.tensor(random(3)), dt.tensor(random(2))
        by_x, by_other = dt.gradients((x * x).sum(), [x, other])
        np.testing.assert_array_equal(by_x.numpy(), 2 * x.numpy())
        np.testing.assert_array_equal(by_other.numpy(), [0, 0])
        self.assertEqual(len(x.sum().gradients(x)), 1)

    def test_float16_is_storage(self):
        a, b = random(8, 16).astype(np.float16), random(16, 4, seed=1).astype(np.float16)
        x, y = dt.tensor(a), dt.tensor(b)
        self.assertEqual((x.dtype, (x @ y).dtype, x.sum().dtype), ("float16", "float16", "float32"))
        np.testing.assert_array_equal(x.numpy(), a)
        self.assertEqual(x.numpy().dtype, np.float16)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        np.testing.assert_allclose((x @ y).numpy().astype(np.float64), exact, rtol=2e-3, atol=1e-3)
        np.testing.assert_array_equal(x.to("float32").numpy(), a.astype(np.float32))
        np.testing.assert_array_equal(dt.tensor(random(5)).to(np.float16).numpy(), random(5).astype(np.float16))
        np.testing.assert_array_equal(dt.tensor(random(5), "float16").numpy(), random(5).astype(np.float16))
        (by_x,) = (x @ y).sum().gradients([x])
        self.assertEqual(by_x.dtype, "float16")
        np.testing.assert_allclose(by_x.numpy(), np.tile(b.astype(np.float64).sum(1), (8, 1)), rtol=2e-3, atol=1e-3)
        x.write(2 * a)
        np.testing.assert_array_equal(x.numpy(), 2 * a)

    def test_arrays_of_any_order_and_of_other_libraries(self):
        array = random(4, 6)
        for given in (np.asfortranarray(array), array[:, ::-1], array[::2], array.T, array[:0], np.float32(2.5), 3.0, 2):
            np.testing.assert_array_equal(dt.tensor(given).numpy(), given)

        class Exported:
            def __dlpack__(self, **options):
                return array.__dlpack__(**options)

            def __dlpack_device__(self):
                return array.__dlpack_device__()

        np.testing.assert_array_equal(dt.tensor(Exported()).numpy(), array)
        leaf = dt.tensor(array)
        array[:] = 0
        self.assertGreater(abs(leaf.numpy()).sum(), 0)
        leaf.write(np.asfortranarray(array + 1))
        np.testing.assert_array_equal(np.asarray(leaf, np.float64), np.ones((4, 6)))

    def test_empty_tensors(self):
        empty = dt.zeros((0, 3))
        self.assertEqual(((empty @ dt.zeros((3, 2))).numpy().shape, empty.sum().item()), ((0, 2), 0.0))
        np.testing.assert_array_equal((dt.zeros((2, 0)) @ dt.zeros((0, 3))).numpy(), np.zeros((2, 3)))
        for row in ROWS:
            if len(row[3]) == 1 and row[0] not in ("parts", "max_pool2d", "reshape", "expand"):
                with self.subTest(row[0]):
                    shape = (0,) + row[3][0][1:]
                    x = dt.zeros(shape)
                    y = row[1](x)
                    y.numpy()
                    (by_x,) = y.gradients([x], seed=dt.full(y.shape, 1.0))
                    self.assertEqual(by_x.numpy().shape, shape)

    def test_text_shows_values_and_the_representation_does_not(self):
        x = dt.tensor(np.arange(3, dtype=np.float32)).named("x")
        self.assertEqual(str(x * 2), "f32[3] [0.0, 2.0, 4.0]")
        self.assertEqual(repr(x), 'Tensor("x" f32[3], on ' + x.device + ")")
        self.assertEqual((x.ndim, x.size, float(x.sum())), (1, 3, 3.0))


class Plans(unittest.TestCase):
    def test_a_plan_reads_written_leaves_and_reports_its_work(self):
        a, b = random(6, 4), random(4, 3, seed=1)
        x, w = dt.tensor(a), dt.tensor(b)
        y = (x @ w).relu()
        plan = dt.Plan([y, y.sum()])
        plan.run()
        np.testing.assert_allclose(plan.read(0), np.maximum(a @ b, 0), rtol=1e-5, atol=1e-6)
        x.write(-a)
        plan.run(2)
        np.testing.assert_allclose(plan.read(), np.maximum(-a @ b, 0), rtol=1e-5, atol=1e-6)
        self.assertEqual(plan.read(1).shape, ())
        work = plan.work
        self.assertEqual(sorted(work), ["buffer_bytes", "buffers", "bytes", "copies", "flops", "kernels"])
        self.assertEqual(len(plan.kernels()), work["kernels"])
        self.assertGreaterEqual(work["flops"], 2 * 6 * 4 * 3)
        self.assertIn("kernels", plan.explain())
        leaf = plan.output(0)
        np.testing.assert_array_equal((leaf * 2).numpy(), 2 * plan.read(0))

    def test_unfused_plans_have_more_kernels_and_the_same_values(self):
        x = dt.tensor(random(64))
        y = (x * 2 + 1).exp().tanh()
        plans = [dt.Plan(y), dt.Plan(y, fuse=False)]
        for plan in plans:
            plan.run()
        self.assertLess(plans[0].work["kernels"], plans[1].work["kernels"])
        self.assertEqual(plans[0].read().tobytes(), plans[1].read().tobytes())

    def test_updates_descend(self):
        w = dt.tensor(random(5))
        loss = ((w - 3.0) * (w - 3.0)).sum()
        (by_w,) = loss.gradients([w])
        plan = dt.Plan(loss, updates=[(w, w - 0.1 * by_w)])
        plan.run(100)
        np.testing.assert_allclose(w.numpy(), np.full(5, 3.0), rtol=1e-6)

    def test_adam_steps_as_by_hand(self):
        for decay in (0.0, 0.1):
            start, targets = random(4, 3), random(4, 3, seed=3)
            w = dt.tensor(start)
            loss = ((w - dt.tensor(targets)) ** 2).sum()
            make = dt.AdamW if decay else dt.Adam
            adam = make([w], learning_rate=0.05, betas=(0.8, 0.9), weight_decay=decay)
            plan = dt.Plan([loss], updates=adam.step(loss.gradients([w])))
            value, mean, square = start.astype(np.float64), 0.0, 0.0
            for step in range(1, 21):
                plan.run()
                g = 2 * (value - targets)
                mean, square = 0.8 * mean + 0.2 * g, 0.9 * square + 0.1 * g * g
                value = value - 0.05 * decay * value
                value -= 0.05 * mean / (1 - 0.8**step) / (np.sqrt(square / (1 - 0.9**step)) + 1e-8)
            np.testing.assert_allclose(w.numpy(), value, rtol=1e-4, atol=1e-5)
            self.assertEqual(adam.steps.item(), 20)
            np.testing.assert_allclose(adam.moments[0][0].numpy(), mean, rtol=1e-4, atol=1e-5)
            adam.learning_rate.write(0.0)
            before = w.numpy()
            plan.run()
            np.testing.assert_array_equal(w.numpy(), before)

    def test_many_runs_take_no_more_memory(self):
        pages = pathlib.Path("/proc/self/statm")
        if not pages.exists():
            self.skipTest("there is no /proc/self/statm")
        x, w = dt.tensor(random(16, 16)), dt.tensor(random(16, 16, seed=1))
        loss = ((x @ w).relu() ** 2).mean()
        plan = dt.Plan(loss, updates=[(w, w - 1e-3 * loss.gradients([w])[0])])
        values = random(16, 16, seed=2)

        def runs(count):
            for _ in range(count):
                x.write(values)
                plan.run()
                plan.read()
                (x + 1).sum()
            gc.collect()
            return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

        before = runs(1000)
        self.assertLess(runs(10_000) - before, 4 << 20)

    def test_threads_use_one_plan(self):
        x = dt.tensor(random(128, 128))
        y = ((x @ x).softmax() @ x).layer_norm()
        expected, plan, wrong = y.numpy(), dt.Plan(y), []
        plan.run()

        def work():
            try:
                for _ in range(50):
                    plan.run()
                    if not np.array_equal(plan.read(), expected):
                        wrong.append("other values")
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main()

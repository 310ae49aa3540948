"""Mistakes with `dapple_gs.tensor`, other devices, and forked processes."""

import os
import subprocess
import sys
import unittest

import numpy as np

import dapple_gs as dapple
from dapple_gs import tensor as dt

from .scenes import random


class Mistakes(unittest.TestCase):
    """Each mistake is an exception of the package that names the argument."""

    def refused(self, kind, place, call):
        with self.assertRaises(kind) as raised:
            call()
        self.assertIsInstance(raised.exception, dapple.DappleError)
        self.assertEqual(raised.exception.place, place)
        self.assertTrue(raised.exception.hint)

    def setUp(self):
        self.x, self.w = dt.tensor(random(3, 4)), dt.tensor(random(3, 4, seed=1))

    def test_types(self):
        x, wrong = self.x, dapple.ArgumentTypeError
        rows = [
            ("array", lambda: dt.tensor(random(3).astype(np.float64))),
            ("array", lambda: dt.tensor(np.arange(3))),
            ("array", lambda: dt.tensor([1.0, 2.0])),
            ("array", lambda: dt.tensor(np.zeros(3, ">f4"))),
            ("array", lambda: dt.tensor(np.zeros(3, np.complex64))),
            ("array", lambda: dt.tensor(x)),
            ("array", lambda: x.write(random(3, 4).astype(np.float64))),
            ("array", lambda: dt.indices(random(3))),
            ("array", lambda: dt.indices(np.array([True]))),
            ("other", lambda: x + random(3, 4)),
            ("other", lambda: random(3, 4) * x),
            ("other", lambda: x - "1"),
            ("other", lambda: x @ None),
            ("exponent", lambda: x ** "2"),
            ("axes", lambda: x.sum(1.5)),
            ("axes", lambda: x.sum(True)),
            ("keep", lambda: x.sum(0, 1)),
            ("epsilon", lambda: x.layer_norm("a")),
            ("fuse", lambda: dt.Plan(x, fuse=1)),
            ("bias", lambda: dt.Linear(4, 4, bias=x)),
            ("shape", lambda: dt.zeros("ab")),
            ("shape", lambda: x.reshape((3, 4.0))),
            ("index", lambda: x[1.5]),
            ("index", lambda: x[[0, 1]]),
            ("index", lambda: x[np.array([0, 1])]),
            ("wrt", lambda: x.sum().gradients([3])),
            ("loss", lambda: dt.gradients(3, [x])),
            ("outputs", lambda: dt.Plan([x, 1])),
            ("updates", lambda: dt.Plan(x, updates=[(x, 1)])),
            ("device", lambda: dt.zeros(3, device=7)),
            ("dtype", lambda: x.to(16)),
            ("base", lambda: dt.Lora(x)),
            ("rank", lambda: dt.Lora(dt.Linear(4, 4), rank=1.5)),
            ("inputs", lambda: dt.Linear("a", 4)),
            ("x", lambda: dt.Linear(4, 4)(random(3, 4))),
            ("betas", lambda: dt.Adam([x], betas=0.9)),
            ("path", lambda: dt.load(7)),
            ("tensors", lambda: dt.save("x.safetensors", [x])),
            ("tensors", lambda: dt.save("x.safetensors", {1: x})),
            ("tensors", lambda: dt.cat([x, 1])),
            ("name", lambda: x.named(3)),
            ("numbers", lambda: x.embedding(3)),
            ("weight", lambda: x.conv2d(random(1, 1, 3, 3))),
        ]
        for i, (place, call) in enumerate(rows):
            with self.subTest(i, place=place):
                self.refused(wrong, place, call)

    def test_values_and_shapes(self):
        x, w, wrong = self.x, self.w, dapple.InputError
        image = dt.zeros((1, 1, 6, 6))
        plan = dt.Plan(x + 1)
        rows = [
            ("other", lambda: x + dt.zeros((5,))),
            ("other", lambda: x @ w),
            ("other", lambda: x @ dt.zeros(4)),
            ("other", lambda: x * 1e300),
            ("array", lambda: x.write(random(4, 3))),
            ("array", lambda: dt.indices(np.array([-1]))),
            ("Tensor", lambda: (x + 1).write(random(3, 4))),
            ("Tensor", lambda: dt.full((3,), 1.0).write(random(3))),
            ("Tensor", lambda: x.item()),
            ("Tensor", lambda: bool(x.sum())),
            ("Tensor", lambda: list(x)),
            ("axes", lambda: x.sum(2)),
            ("axes", lambda: x.sum((0, 0))),
            ("axes", lambda: x.permute((0,))),
            ("axis", lambda: dt.cat([x, w], 2)),
            ("axis", lambda: x.unsqueeze(4)),
            ("tensors", lambda: dt.cat([])),
            ("tensors", lambda: dt.cat([x, dt.zeros((2, 5))])),
            ("shape", lambda: x.reshape((5, 2))),
            ("shape", lambda: x.reshape((-1, 5))),
            ("shape", lambda: x.reshape((-1, -1))),
            ("shape", lambda: x.expand((2, 4))),
            ("shape", lambda: dt.zeros((-1, 2))),
            ("index", lambda: x[3]),
            ("index", lambda: x[0, 0, 0]),
            ("index", lambda: x[..., ...]),
            ("softmax", lambda: dt.tensor(1.0).softmax()),
            ("relu", lambda: dt.indices(np.arange(3)).relu()),
            ("other", lambda: dt.indices(np.arange(3)) + 1),
            ("numbers", lambda: x.embedding(w)),
            ("wanted", lambda: x.cross_entropy(dt.zeros((3, 5)))),
            ("weight", lambda: image.conv2d(dt.zeros((1, 2, 3, 3)))),
            ("weight", lambda: image.conv2d(dt.zeros((1, 1, 3, 3)), stride=0)),
            ("padding", lambda: image.conv2d(dt.zeros((1, 1, 3, 3)), padding=2**40)),
            ("padding", lambda: image.conv2d(dt.zeros((1, 1, 3, 3)), padding=2**62)),
            ("stride", lambda: image.conv2d(dt.zeros((1, 1, 3, 3)), stride=(1, 2, 3))),
            ("kernel", lambda: image.max_pool2d(9)),
            ("kernel", lambda: image.max_pool2d(0)),
            ("gradients", lambda: x.gradients([x])),
            ("seed", lambda: x.gradients([x], seed=dt.zeros((4, 3)))),
            ("wrt", lambda: x.sum().gradients([dt.indices(np.arange(3))])),
            ("outputs", lambda: dt.Plan([])),
            ("updates", lambda: dt.Plan(x, updates=[(x, w, w)])),
            ("updates", lambda: dt.Plan(x, updates=[(x, w), (x, w)])),
            ("outputs", lambda: dt.Plan(x, updates=[(x + 1, w)])),
            ("outputs", lambda: dt.Plan(x, updates=[(x, w.t())])),
            ("Plan", lambda: plan.read()),
            ("output", lambda: plan.read(1)),
            ("output", lambda: plan.output(-1)),
            ("count", lambda: plan.run(-1)),
            ("rank", lambda: dt.Lora(dt.Linear(4, 4), rank=5)),
            ("alpha", lambda: dt.Lora(dt.Linear(4, 4), rank=2, alpha=0.0)),
            ("dropout", lambda: dt.Lora(dt.Linear(4, 4), rank=2, dropout=1.0)),
            ("weight", lambda: dt.Linear.of(dt.zeros(3))),
            ("bias", lambda: dt.Linear.of(x, dt.zeros(3))),
            ("x", lambda: dt.Linear(4, 4)(dt.zeros((3, 5)))),
            ("parameters", lambda: dt.Adam([])),
            ("learning_rate", lambda: dt.Adam([x], learning_rate=float("nan"))),
            ("betas", lambda: dt.Adam([x], betas=(1.0, 0.9))),
            ("gradients", lambda: dt.Adam([x, w]).step([x])),
            ("gradients", lambda: dt.Adam([x]).step([w.t()])),
            ("tensors", lambda: dt.save("x.safetensors", {})),
        ]
        for i, (place, call) in enumerate(rows):
            with self.subTest(i, place=place):
                self.refused(wrong, place, call)

    def test_unsupported(self):
        x, huge = self.x, dt.full((1 << 14, 1, 1), 1.0)
        rows = [
            ("dtype", lambda: x.to("bfloat16")),
            ("dtype", lambda: dt.zeros(3, np.float64)),
            ("index", lambda: x[::2]),
            ("index", lambda: x[::-1]),
            ("shape", lambda: dt.zeros((1 << 40,))),
            ("shape", lambda: dt.zeros((1 << 31, 1 << 31, 1 << 31))),
            ("shape", lambda: dt.zeros((0, 1 << 62))),
            ("shape", lambda: x[0, 0].expand((1 << 62, 4))),
            ("shape", lambda: dt.zeros((0, 2)).reshape((-1, 1 << 62))),
            ("inputs", lambda: dt.Linear(1 << 30, 1 << 30)),
            ("Tensor", lambda: dt.indices(np.array([1 << 24])).numpy()),
        ]
        for i, (place, call) in enumerate(rows):
            with self.subTest(i, place=place):
                self.refused(dapple.UnsupportedError, place, call)
        with self.assertRaises(dapple.DappleError):
            huge.select(huge.permute((1, 0, 2)), huge.permute((2, 1, 0)))

    @unittest.skipUnless(os.environ["DAPPLE_DEVICE"] == "cpu", "one context is on a GPU already")
    def test_tensors_of_two_devices(self):
        try:
            other = dt.zeros((3, 4), device=os.environ.get("DAPPLE_TEST_GPU", "gpu"))
        except dapple.DappleError:
            self.skipTest("there is no GPU")
        x = self.x
        rows = [
            ("other", lambda: x + other), ("wrt", lambda: x.sum().gradients([other])), ("outputs", lambda: dt.Plan([x, other])),
            ("outputs", lambda: dt.Plan(x, updates=[(x, other)])), ("x", lambda: dt.Linear(4, 4)(other)),
            ("bias", lambda: dt.Linear.of(x, other[0])), ("gradients", lambda: dt.Adam([x]).step([other])),
            ("tensors", lambda: dt.cat([x, other])), ("seed", lambda: x.gradients([x], seed=other)),
        ]
        for i, (place, call) in enumerate(rows):
            with self.subTest(i, place=place):
                self.refused(dapple.InputError, place, call)
        y = ((other + 2) @ (other + 1).t()).relu()
        np.testing.assert_array_equal(y.numpy(), np.full((3, 3), 8.0))
        self.assertIs(dt.context("cpu"), dt.context())

    @unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
    def test_a_forked_process_refuses_tensors_of_its_parent_and_creates_others(self):
        code = """if True:
            import os, signal, sys, numpy as np, dapple_gs as dapple
            dt = dapple.tensor
            x = dt.tensor(np.ones(4, np.float32))
            y = (x + 1).sum()
            plan = dt.Plan(y)
            plan.run()
            # The driver of a GPU does not survive a fork.
            is_gpu = dt.context().is_gpu
            child = os.fork()
            if child == 0:
                signal.alarm(50)
                refused = 0
                for call in (x.numpy, lambda: x + 1, plan.run, plan.read, lambda: dt.Plan(y), lambda: x.write(x.numpy())):
                    try:
                        call()
                    except dapple.InputError:
                        refused += 1
                del plan, y
                if not is_gpu:
                    refused += (dt.tensor(np.ones(4, np.float32)) * 3).sum().item() == 12.0
                os._exit(0 if refused == 7 - is_gpu else 1)
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60)
        self.assertEqual(done.returncode, 0)

    def test_the_module_is_imported_at_its_first_use(self):
        code = """if True:
            import sys, dapple_gs
            assert "dapple_gs.tensor" not in sys.modules
            assert "tensor" in dir(dapple_gs)
            assert dapple_gs.tensor.zeros(3).numpy().sum() == 0
            assert dapple_gs.tensor is sys.modules["dapple_gs.tensor"]
        """
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


if __name__ == "__main__":
    unittest.main()

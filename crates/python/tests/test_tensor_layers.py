"""Layers, files and losses of `dapple_gs.tensor`."""

import pathlib
import tempfile
import unittest

import numpy as np

import dapple_gs as dapple
from dapple_gs import tensor as dt

from .scenes import HEIGHT, WIDTH, random, scene


class Layers(unittest.TestCase):
    def lora(self, dtype="float32", dropout=0.0):
        """Trains a LoRA on a frozen layer, and returns the losses, the layers and the bytes of the parameters."""
        base = dt.Linear.of(dt.tensor(random(24, 16), dtype), dt.tensor(random(16, seed=1), dtype))
        goal = random(24, 16) + 0.3 * random(24, 2, seed=2) @ random(2, 16, seed=3)
        x = random(64, 24, seed=4)
        lora = dt.Lora(base, rank=4, alpha=8.0, dropout=dropout, seed=5)
        inputs, kept = dt.tensor(x), dt.tensor(np.ones((64, 24), np.float32))
        y = lora(inputs, kept) if dropout else lora(inputs)
        loss = ((y - dt.tensor(x @ goal + random(16, seed=1))) ** 2).mean()
        adam = dt.Adam(lora.parameters(), learning_rate=0.01)
        plan = dt.Plan(loss, updates=adam.step(loss.gradients(lora.parameters())))
        losses = []
        for step in range(300):
            if dropout:
                kept.write(lora.mask((64, 24), step))
            plan.run()
            losses.append(float(plan.read()))
        return losses, lora, inputs, b"".join(one.numpy().tobytes() for one in lora.parameters())

    def test_a_lora_learns_and_twice_are_the_same_bytes(self):
        losses, lora, inputs, first = self.lora()
        self.assertLess(losses[-1], 0.01 * losses[0])
        again, *_, second = self.lora()
        self.assertEqual((losses, first), (again, second))
        np.testing.assert_allclose(lora.merged()(inputs).numpy(), lora(inputs).numpy(), rtol=1e-4, atol=1e-5)
        self.assertFalse(np.array_equal(lora.base(inputs).numpy(), lora(inputs).numpy()))

    def test_a_lora_on_float16_and_with_dropout(self):
        for options in (dict(dtype="float16"), dict(dropout=0.2)):
            losses, lora, *_ = self.lora(**options)
            self.assertLess(losses[-1], 0.3 * losses[0], options)
        mask = lora.mask((100, 100), 1)
        self.assertAlmostEqual(float(mask.mean()), 0.8, 1)

    def test_a_lora_is_its_formula(self):
        weight, x = random(6, 5), random(3, 6, seed=1)
        lora = dt.Lora(dt.Linear.of(dt.tensor(weight)), rank=2, alpha=3.0)
        lora.b.write(random(2, 5, seed=2))
        a, b = lora.a.numpy(), lora.b.numpy()
        np.testing.assert_allclose(lora(dt.tensor(x)).numpy(), x @ weight + 1.5 * (x @ a) @ b, rtol=1e-4, atol=1e-5)

    def test_weights_go_through_files(self):
        _, lora, inputs, _ = self.lora()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "lora.safetensors"
            half = dt.tensor(random(3, 2).astype(np.float16))
            dt.save(path, {"a": lora.a, "b": lora.b, "half": half, "twice": lora.b * 2})
            found = dt.load(str(path))
            self.assertEqual(sorted(found), ["a", "b", "half", "twice"])
            np.testing.assert_array_equal(found["half"].numpy(), half.numpy())
            self.assertEqual(found["half"].dtype, "float16")
            other = dt.Lora(lora.base, rank=4, alpha=8.0)
            other.a.write(found["a"].numpy())
            other.b.write(found["b"].numpy())
            np.testing.assert_array_equal(other(inputs).numpy(), lora(inputs).numpy())
            with self.assertRaises(dapple.FileError):
                dt.load(path.with_name("none"))
            path.write_bytes(b"damaged")
            with self.assertRaises(dapple.InputError):
                dt.load(path)

    def test_equal_seeds_are_equal_layers(self):
        layers = [dt.Linear(8, 4, seed=seed) for seed in (1, 1, 2)]
        first, second, third = (layer.weight.numpy() for layer in layers)
        self.assertTrue(np.array_equal(first, second) and not np.array_equal(first, third))
        self.assertEqual((layers[0].bias.shape, dt.Linear(8, 4, bias=False).bias), ((4,), None))
        self.assertAlmostEqual(float(dt.normal((100, 100), 2.0, seed=3).numpy().std()), 2.0, 1)


def window(sigma=1.5, size=11):
    """Returns the window of SSIM, [1, 1, size, size]."""
    line = np.exp(-0.5 * ((np.arange(size) - size // 2) / sigma) ** 2)
    line /= line.sum()
    return np.outer(line, line)[None, None].astype(np.float32)


class Losses(unittest.TestCase):
    def test_a_loss_of_charbonnier_and_windows_trains_splats(self):
        goal = scene(n=40, cameras=1)
        target = dapple.rasterization(**goal, width=WIDTH, height=HEIGHT)[0]
        shape = target.shape
        x, y, kernel = dt.zeros(shape), dt.tensor(target), dt.tensor(window())
        planes = [tensor.permute((0, 3, 1, 2)).reshape((3, 1, HEIGHT, WIDTH)) for tensor in (x, y)]
        blurred = lambda tensor: tensor.conv2d(kernel, padding=5)
        (a, b), (mean_a, mean_b) = planes, map(blurred, planes)
        covariance = blurred(a * b) - mean_a * mean_b
        variances = blurred(a * a) - mean_a**2 + blurred(b * b) - mean_b**2
        ssim = (2 * mean_a * mean_b + 1e-4) * (2 * covariance + 9e-4) / (
            (mean_a**2 + mean_b**2 + 1e-4) * (variances + 9e-4))
        loss = 0.8 * ((x - y) ** 2 + 1e-4).sqrt().mean() + 0.2 * (1 - ssim.mean())
        plan = dt.Plan([loss, *loss.gradients([x])])
        arrays, losses = scene(n=40, cameras=1), []
        arrays["colors"] = arrays["colors"] * np.float32(0.3)

        def loss_of(image):
            x.write(image)
            plan.run()
            return float(plan.read(0))

        for _ in range(40):
            image, _, vjp = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT)
            losses.append(loss_of(image))
            by_image = plan.read(1)
            if len(losses) == 1:
                along = random(*shape, seed=8)
                ends = [loss_of(image + step * along) for step in (np.float32(2e-3), np.float32(-2e-3))]
                slope = float((by_image.astype(np.float64) * along).sum())
                self.assertLess(abs((ends[0] - ends[1]) / 4e-3 - slope), 0.02 * abs(slope) + 1e-5)
            arrays["colors"] = arrays["colors"] - 3.0 * vjp(by_image)["colors"]
        self.assertLess(losses[-1], 0.5 * losses[0])


if __name__ == "__main__":
    unittest.main()

"""Names, shapes and dictionaries on which programs written for gsplat depend."""

import os
import unittest
from unittest import mock

import numpy as np

import dapple_gs as dapple

from .scenes import HEIGHT, WIDTH, scene, torch_or_skip

torch = torch_or_skip()


def render(**options):
    arrays = {name: torch.from_numpy(array) for name, array in scene().items()}
    arrays["means"].requires_grad_()
    return arrays, dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, **options)[2]


class Modules(unittest.TestCase):
    def test_names_have_the_modules_of_gsplat(self):
        from dapple_gs.optimizers import SelectiveAdam
        from dapple_gs.rendering import rasterization
        from dapple_gs.strategy import DefaultStrategy, MCMCStrategy, Strategy

        self.assertIs(rasterization, dapple.rasterization)
        self.assertIs(SelectiveAdam, dapple.SelectiveAdam)
        self.assertTrue(issubclass(DefaultStrategy, Strategy) and issubclass(MCMCStrategy, dapple.Strategy))

    def test_a_strategy_without_methods_changes_nothing(self):
        values = {name: torch.nn.Parameter(torch.rand(4, 3)) for name in ("means", "scales", "quats", "opacities")}
        optimizers = {name: torch.optim.Adam([value]) for name, value in values.items()}
        before = {name: value.detach().clone() for name, value in values.items()}
        strategy = dapple.Strategy()
        strategy.check_sanity(values, optimizers)
        strategy.step_pre_backward(values, optimizers, {}, 0, {})
        strategy.step_post_backward(values, optimizers, {}, 0, {}, packed=False)
        for name, value in values.items():
            self.assertTrue(torch.equal(value, before[name]), name)

    def test_cli_calls_the_function_once(self):
        from dapple_gs.distributed import cli

        calls = []
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "1"}):
            self.assertTrue(cli(lambda *given: calls.append(given), "arguments"))
        self.assertEqual(calls, [(0, 0, 1, "arguments")])
        for name in ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"):
            with mock.patch.dict(os.environ, {name: "2"}), self.assertRaises(dapple.UnsupportedError) as raised:
                cli(lambda *given: calls.append(given), "arguments")
            self.assertEqual(raised.exception.place, name)
        self.assertEqual(len(calls), 1)


class Similarity(unittest.TestCase):
    def test_padding_is_that_of_fused_ssim(self):
        image, target = torch.rand(2, 2, 3, 20, 25, generator=torch.Generator().manual_seed(3)).unbind(0)
        at = torch.arange(11) - 5.0
        line = torch.exp(-(at**2) / 4.5)
        window = (line[:, None] * line / line.sum() ** 2).flatten()

        def means(values, beyond):
            columns = torch.nn.functional.unfold(values, 11, padding=beyond)
            return (columns.reshape(2, 3, 121, -1) * window[:, None]).sum(2)

        for padding, beyond in (("same", 5), ("valid", 0)):
            a, b = means(image, beyond), means(target, beyond)
            aa, bb = means(image**2, beyond) - a * a, means(target**2, beyond) - b * b
            ab = means(image * target, beyond) - a * b
            expected = (2 * a * b + 1e-4) * (2 * ab + 9e-4) / ((a * a + b * b + 1e-4) * (aa + bb + 9e-4))
            self.assertAlmostEqual(float(dapple.ssim(image, target, padding=padding)), float(expected.mean()), 5)
        self.assertEqual(dapple.ssim(image, target), dapple.ssim(image, target, "same"))

    def test_gradients_are_optional(self):
        image, target = torch.rand(1, 3, 16, 16, requires_grad=True), torch.rand(1, 3, 16, 16)
        self.assertTrue(dapple.ssim(image, target).requires_grad)
        self.assertFalse(dapple.ssim(image, target, train=False).requires_grad)

    def test_faults_are_named(self):
        image = torch.rand(1, 3, 8, 30)
        for place, padding in (("padding", "reflect"), ("image", "valid")):
            with self.assertRaises(dapple.InputError) as raised:
                dapple.ssim(image, image, padding=padding)
            self.assertEqual(raised.exception.place, place)


class Export(unittest.TestCase):
    def arrays(self):
        values = np.random.default_rng(8).normal(size=(6, 3 + 3 + 4 + 1 + 3 + 9)).astype(np.float32)
        parts = np.split(values, [3, 6, 10, 11, 14], 1)
        names = ("means", "scales", "quats", "opacities", "sh0", "shN")
        arrays = dict(zip(names, (torch.from_numpy(part.copy()) for part in parts)))
        return {**arrays, "opacities": arrays["opacities"][:, 0], "sh0": arrays["sh0"][:, None],
                "shN": arrays["shN"].reshape(6, 3, 3)}

    def test_gaussians_with_numbers_that_are_not_finite_are_left_out(self):
        whole = self.arrays()
        kept = dapple.export_splats(**{name: array[[0, 5]] for name, array in whole.items()})
        whole["scales"][1, 2] = -np.inf
        whole["opacities"][2] = np.nan
        whole["sh0"][3, 0, 1] = np.nan
        whole["shN"][4, 2, 0] = np.inf
        self.assertEqual(dapple.export_splats(**whole), kept)

    def test_other_shapes_are_named(self):
        for name, shape in (("means", (6, 2)), ("quats", (6, 3)), ("opacities", (6, 1)), ("sh0", (6, 3)), ("shN", (5, 3, 3))):
            with self.assertRaises(dapple.InputError) as raised:
                dapple.export_splats(**{**self.arrays(), name: torch.zeros(shape)})
            self.assertEqual(raised.exception.place, name)


class Dictionary(unittest.TestCase):
    def test_copies_have_the_values(self):
        for read in (dict, lambda info: {**info}, lambda info: info.copy(), lambda info: info | {},
                     lambda info: {name: info.pop(name) for name in list(info)}):
            values = read(render(packed=False)[1])
            for name in ("means2d", "radii", "depths", "conics", "opacities", "tiles_per_gauss"):
                self.assertTrue(torch.is_tensor(values[name]), name)

    def test_text_has_the_values(self):
        self.assertNotIn("None", repr(render()[1]))

    def test_assigned_values_stay(self):
        info = render()[1]
        info["radii"] = 3
        info.update(depths=4)
        del info["conics"]
        self.assertEqual((info["radii"], info["depths"], "conics" in info), (3, 4, False))

    def test_the_keys_of_ids_are_there_without_packed(self):
        info = render(packed=False)[1]
        for name in ("batch_ids", "camera_ids", "gaussian_ids"):
            self.assertIn(name, info)
            self.assertIsNone(info[name])

    def test_opacities_are_those_of_the_render(self):
        arrays = {name: torch.from_numpy(array) for name, array in scene().items()}
        expected = dapple.fully_fused_projection(
            arrays["means"], None, arrays["quats"], arrays["scales"], arrays["viewmats"], arrays["Ks"], WIDTH, HEIGHT,
            calc_compensations=True)[4] * arrays["opacities"]
        self.assertLess(float((expected / arrays["opacities"]).min()), 0.9)
        for packed in (False, True):
            info = render(packed=packed, rasterize_mode="antialiased")[1]
            wanted = expected[info["camera_ids"], info["gaussian_ids"]] if packed else expected
            np.testing.assert_allclose(info["opacities"].detach(), wanted, rtol=1e-5)
        self.assertTrue(torch.equal(render(packed=False)[1]["opacities"][0], arrays["opacities"]))


if __name__ == "__main__":
    unittest.main()

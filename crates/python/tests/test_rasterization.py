"""`rasterization` on arrays of numpy: images against compositing by hand, gradients against finite differences."""

import os
import subprocess
import sys
import threading
import unittest

import numpy as np

import dapple_gs as dapple
from dapple_gs import _projection

from .scenes import HEIGHT, WIDTH, masks, scene


def options_of(**changed):
    """Returns the options of a call."""
    from dapple_gs._arguments import Options

    values = dict(width=WIDTH, height=HEIGHT, near_plane=0.01, far_plane=1e10, radius_clip=0.0, eps2d=0.3, sh_degree=None,
                  render_mode="RGB", antialiased=False, model="pinhole")
    return Options(**{**values, **changed})


def harmonics(degree, directions, coefficients):
    """Evaluates real spherical harmonics of three channels: the polynomials of Sloan 2013."""
    x, y, z = (directions / np.linalg.norm(directions, axis=-1, keepdims=True)).T
    a, b, c = 0.4886025119029199, 1.0925484305920792, 0.31539156525252005
    basis = [0.28209479177387814 + 0 * x, -a * y, a * z, -a * x, b * x * y, -b * y * z, c * (3 * z * z - 1), -b * x * z,
             b / 2 * (x * x - y * y), -0.5900435899266435 * y * (3 * x * x - y * y), 2.890611442640554 * x * y * z,
             -0.4570457994644658 * y * (5 * z * z - 1), 0.3731763325901154 * z * (5 * z * z - 3),
             -0.4570457994644658 * x * (5 * z * z - 1), 1.445305721320277 * z * (x * x - y * y),
             -0.5900435899266435 * x * (x * x - 3 * y * y)]
    count = (degree + 1) ** 2
    return np.einsum("kn,nkc->nc", np.stack(basis[:count]), coefficients[:, :count])


def by_hand(arrays, camera, options=None, decisions=None):
    """Composites the projected Gaussians of one camera in float64: equation 3 of Kerbl et al. 2023.

    `decisions` collects or repeats which Gaussians a pixel blends, in which order, and which colours are positive, so that
    differences of two scenes have no jumps.
    """
    options = options or options_of()
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    viewmat = wide["viewmats"][camera]
    _, centres, depths, conics, shares = _projection.project(
        np, wide["means"], wide["quats"], wide["scales"], wide["opacities"], viewmat, wide["Ks"][camera], options)
    opacities = wide["opacities"] * (shares if options.antialiased else 1.0)
    fixed = decisions is not None and "order" in decisions
    colors = wide["colors"]
    if options.sh_degree is not None:
        colors = 0.5 + harmonics(options.sh_degree, wide["means"] + viewmat[:3, :3].T @ viewmat[:3, 3], colors)
        is_positive = decisions["positive"] if fixed else colors > 0
        colors = np.where(is_positive, colors, 0.0)
    order = decisions["order"] if fixed else np.argsort(depths, kind="stable")
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    through, depth = np.ones((HEIGHT, WIDTH)), np.zeros((HEIGHT, WIDTH))
    image, blended, bounded = np.zeros((HEIGHT, WIDTH, colors.shape[-1])), {}, {}
    for i in order:
        dx, dy = x - centres[i, 0], y - centres[i, 1]
        a, b, c = conics[i]
        alpha = opacities[i] * np.exp(-0.5 * (a * dx * dx + c * dy * dy) - b * dx * dy)
        bounded[i] = decisions["bounded"][i] if fixed else alpha > 0.999
        alpha = np.where(bounded[i], 0.999, alpha)
        blended[i] = decisions["blended"][i] if fixed else (alpha >= 1 / 255) & (through * (1 - alpha) >= 1e-4)
        alpha = np.where(blended[i], alpha, 0.0)
        image += (through * alpha)[..., None] * colors[i]
        depth += through * alpha * depths[i]
        through *= 1 - alpha
    if decisions is not None and not fixed:
        decisions.update(order=order, blended=blended, bounded=bounded)
        if options.sh_degree is not None:
            decisions["positive"] = is_positive
    return image, 1 - through, depth


class Images(unittest.TestCase):
    def test_colours_of_any_number_of_channels_composite_as_by_hand(self):
        for channels in (1, 3, 5):
            arrays = scene(channels=channels)
            arrays["colors"] = arrays["colors"] * 3 - 1  # negative ones too
            image, alpha, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)
            self.assertEqual(image.shape, (2, HEIGHT, WIDTH, channels))
            for camera in range(2):
                expected, covered, _ = by_hand(arrays, camera)
                np.testing.assert_allclose(image[camera], expected, atol=2e-5)
                np.testing.assert_allclose(alpha[camera, ..., 0], covered, atol=2e-5)

    def test_depth_is_the_sum_of_weighted_depths_or_its_share_of_alpha(self):
        arrays = scene()
        depth = {}
        for mode in ("D", "ED", "RGB+D", "RGB+ED"):
            image, alpha, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, render_mode=mode)
            self.assertEqual(image.shape[-1], 4 if "RGB" in mode else 1)
            depth[mode] = image[..., -1]
        np.testing.assert_allclose(depth["D"][0], by_hand(arrays, 0)[2], atol=1e-4)
        np.testing.assert_array_equal(depth["D"], depth["RGB+D"])
        np.testing.assert_array_equal(depth["ED"], depth["RGB+ED"])
        np.testing.assert_allclose(depth["ED"], depth["D"] / np.maximum(alpha[..., 0], 1e-10), rtol=1e-6)

    def test_background_is_behind(self):
        arrays, behind = scene(), np.array([[0.2, 0.4, 0.6], [1, 0, 0]], np.float32)
        plain, alpha, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)
        image, _, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, backgrounds=behind)
        np.testing.assert_allclose(image, plain + (1 - alpha) * behind[:, None, None], atol=1e-6)

    def test_far_plane_and_radius_clip_hide_gaussians(self):
        arrays = scene()
        for limit in ({"far_plane": 4.0}, {"radius_clip": 5.0}):
            _, alpha, info = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, packed=False, **limit)
            shown = (info["radii"][0] > 0).all(-1)
            self.assertTrue(0 < shown.sum() < 60)
            part = {name: array[shown] if len(array) == 60 else array[:1] for name, array in arrays.items()}
            _, expected, _ = dapple.rasterization(**part, width=WIDTH, height=HEIGHT)
            np.testing.assert_allclose(alpha[0], expected[0], atol=1e-6)

    def test_contributors_are_what_pixels_show(self):
        arrays = scene()
        colors = arrays.pop("colors")
        for options in ({}, {"far_plane": 4.0}, {"rasterize_mode": "antialiased"}):
            image, alpha, _ = dapple.rasterization(**arrays, colors=colors, width=WIDTH, height=HEIGHT, **options)
            every, weights = dapple.top_contributing_gaussian_ids(**arrays, width=WIDTH, height=HEIGHT,
                                                                  num_depth_samples=60, **options)
            self.assertEqual((every.shape, every.dtype), ((2, HEIGHT, WIDTH, 60), np.int32))
            np.testing.assert_allclose((weights[..., None] * colors[every]).sum(-2), image, atol=2e-6)
            np.testing.assert_allclose(weights.sum(-1), alpha[..., 0], atol=2e-6)
            np.testing.assert_array_equal(every == -1, weights == 0)
            self.assertGreater((weights > 0).sum(-1).max(), 8)
            self.assertTrue((np.diff(weights) <= 0).all())
            few = dapple.top_contributing_gaussian_ids(**arrays, width=WIDTH, height=HEIGHT, num_depth_samples=5, **options)
            np.testing.assert_array_equal(few[0], every[..., :5])
            np.testing.assert_array_equal(few[1], weights[..., :5])

    def test_contributors_of_chosen_tiles(self):
        arrays = scene()
        arrays.pop("colors")
        masks = np.zeros((2, -(-HEIGHT // 16), -(-WIDTH // 16)), bool)
        masks[0, 0, 1] = masks[1, 1, 0] = True
        sizes = {"width": WIDTH, "height": HEIGHT}
        every, weights = dapple.top_contributing_gaussian_ids(**arrays, **sizes)
        found, some = dapple.top_contributing_gaussian_ids(**arrays, **sizes, masks=masks)
        chosen = masks.repeat(16, 1).repeat(16, 2)[:, :HEIGHT, :WIDTH, None]
        self.assertGreater(np.where(chosen, weights, 0).sum(), 1)
        np.testing.assert_array_equal(found, np.where(chosen, every, -1))
        np.testing.assert_array_equal(some, np.where(chosen, weights, 0))
        with self.assertRaises(dapple.InputError) as raised:
            dapple.top_contributing_gaussian_ids(**arrays, **sizes, masks=masks[:1])
        self.assertEqual(raised.exception.place, "masks")

    def test_contributors_refuse_by_name(self):
        arrays = scene()
        arrays.pop("colors")
        call = lambda **changed: dapple.top_contributing_gaussian_ids(
            **{**arrays, "width": WIDTH, "height": HEIGHT, **changed})
        for place, changed in {
            "num_depth_samples": {"num_depth_samples": 65}, "means": {name: array[None] for name, array in arrays.items()},
            "scales": {"scales": arrays["scales"][:5]}, "Ks": {"Ks": arrays["Ks"][:1]},
        }.items():
            with self.assertRaises(dapple.InputError) as raised:
                call(**changed)
            self.assertEqual(raised.exception.place, place)
        with self.assertRaises(dapple.ArgumentTypeError):
            call(num_depth_samples=2.0)
        nothing = {name: array if len(array) == 2 else array[:0] for name, array in arrays.items()}
        self.assertTrue((call(**nothing)[0] == -1).all())

    def test_batches_are_their_elements(self):
        parts = [scene(seed=i) for i in (1, 2)]
        image, alpha, _ = dapple.rasterization(**{name: np.stack([part[name] for part in parts]) for name in parts[0]},
                                               width=WIDTH, height=HEIGHT)
        for i, part in enumerate(parts):
            np.testing.assert_array_equal(image[i], dapple.rasterization(**part, width=WIDTH, height=HEIGHT)[0])

    def test_many_cameras_are_those_of_single_calls(self):
        # More than an engine renders at once.
        arrays = scene(cameras=19)
        image, alpha, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, render_mode="RGB+D")
        self.assertEqual(image.shape, (19, HEIGHT, WIDTH, 4))
        for i in range(19):
            single = dict(arrays, viewmats=arrays["viewmats"][i : i + 1], Ks=arrays["Ks"][i : i + 1])
            expected = dapple.rasterization(**single, width=WIDTH, height=HEIGHT, render_mode="RGB+D")
            np.testing.assert_array_equal(image[i], expected[0][0])
            np.testing.assert_array_equal(alpha[i], expected[1][0])

    def test_colours_by_camera(self):
        arrays = scene()
        arrays["colors"] = np.stack([arrays["colors"], arrays["colors"] * 0.5])
        image, _, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)
        single = dict(arrays, colors=arrays["colors"][1])
        np.testing.assert_allclose(image[1], dapple.rasterization(**single, width=WIDTH, height=HEIGHT)[0][1], atol=1e-6)

    def test_no_gaussian_and_no_camera(self):
        arrays = scene(n=0)
        image, alpha, _ = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)
        self.assertEqual((image.shape, float(alpha.sum())), ((2, HEIGHT, WIDTH, 3), 0.0))
        arrays = scene(cameras=2)
        arrays["viewmats"], arrays["Ks"] = arrays["viewmats"][:0], arrays["Ks"][:0]
        image, _, info = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)
        self.assertEqual((image.shape, info["n_cameras"]), ((0, HEIGHT, WIDTH, 3), 0))

    def test_gaussians_with_nan_are_not_shown(self):
        arrays = scene()
        alone = {name: array[1:] if len(array) == 60 else array for name, array in arrays.items()}
        for name in ("means", "quats", "scales", "opacities"):
            broken = dict(arrays, **{name: arrays[name].copy()})
            broken[name][0] = np.nan
            image, _, _ = dapple.rasterization(**broken, width=WIDTH, height=HEIGHT)
            np.testing.assert_array_equal(image, dapple.rasterization(**alone, width=WIDTH, height=HEIGHT)[0])

    def test_information_has_a_row_for_each_visible_pair(self):
        arrays = scene()
        _, _, packed = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)
        _, _, info = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, packed=False)
        seen = (info["radii"] > 0).all(-1)
        for name in ("means2d", "depths", "conics", "radii"):
            np.testing.assert_array_equal(packed[name], info[name][seen])
        self.assertEqual((info["width"], info["n_cameras"], info["tile_width"]), (WIDTH, 2, 3))


class Gradients(unittest.TestCase):
    """Every gradient against central differences of compositing in float64."""

    def check(self, tolerance=2e-3, **call):
        arrays = scene(n=25, **{key: call.pop(key) for key in ("degree", "channels") if key in call})
        options = options_of(
            sh_degree=call.get("sh_degree"), render_mode=call.get("render_mode", "RGB"), eps2d=call.get("eps2d", 0.3),
            antialiased=call.get("rasterize_mode") == "antialiased", model=call.get("camera_model", "pinhole"))
        decisions = [{}, {}]

        def outputs(**changed):
            parts = [by_hand({**arrays, **changed}, camera, options, decisions[camera]) for camera in range(2)]
            images, alphas, depths = (np.stack(part) for part in zip(*parts))
            alphas, depths = alphas[..., None], depths[..., None]
            if options.is_expected_depth:
                depths = depths / np.maximum(alphas, 1e-10)
            return np.concatenate([images] * options.has_colors + [depths] * options.has_depth, -1), alphas

        image, alphas, vjp = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, **call)
        expected, _ = outputs()
        # Pixels at a threshold may be decided otherwise in float32.
        same = np.abs(image - expected).max(-1, keepdims=True) < 1e-3
        self.assertGreater(same.mean(), 0.995)
        rng = np.random.default_rng(3)
        weights = [rng.normal(size=array.shape).astype(np.float32) * same for array in (image, alphas)]
        found = vjp(*weights)

        def slope(name, along, step=1e-6):
            ends = [outputs(**{name: arrays[name].astype(np.float64) + sign * step * along}) for sign in (1, -1)]
            return sum(((a - b) * w).sum() for a, b, w in zip(*ends, weights)) / (2 * step)

        for name in ("means", "quats", "scales", "opacities", "colors"):
            along = rng.normal(size=arrays[name].shape)
            expected, given = slope(name, along), float((found[name] * along).sum())
            self.assertLess(abs(given - expected), tolerance * (abs(expected) + 1), name)
        # A motion of the first camera: omega x p + t.
        x, y, z = 0.3, -0.5, 0.4
        along = np.zeros((2, 4, 4))
        along[0, :3] = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ arrays["viewmats"][0, :3]
        along[0, :3, 3] += 0.2, 0.1, -0.3
        expected, given = slope("viewmats", along), float((found["viewmats"] * along).sum())
        self.assertLess(abs(given - expected), tolerance * (abs(expected) + 1), "viewmats")

    def test_colours(self):
        self.check()

    def test_harmonics(self):
        self.check(degree=3, sh_degree=3)
        self.check(degree=3, sh_degree=1)

    def test_many_channels_and_expected_depth(self):
        self.check(channels=5, render_mode="RGB+ED")

    def test_depth_alone(self):
        self.check(render_mode="D")

    def test_fisheye(self):
        self.check(camera_model="fisheye")

    def test_antialiased(self):
        self.check(rasterize_mode="antialiased")
        self.check(rasterize_mode="antialiased", eps2d=0.1)

    def test_dilations(self):
        self.check(eps2d=0.05)
        self.check(eps2d=2.0)

    def test_background(self):
        arrays, behind = scene(), np.full((2, 3), 0.5, np.float32)
        image, alphas, vjp = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, backgrounds=behind)
        found = vjp(np.ones_like(image))
        np.testing.assert_allclose(found["backgrounds"], np.repeat((1 - alphas).sum((1, 2)), 3, 1), rtol=1e-5)

    def test_absolute_gradients_are_sums_over_pixels(self):
        arrays, weights = scene(n=40), np.random.default_rng(5).normal(size=(2, 6, 8, 3)).astype(np.float32)
        arrays["Ks"] = arrays["Ks"] / 6
        arrays["Ks"][:, 2, 2] = 1
        _, _, vjp = dapple.rasterization_vjp(**arrays, width=8, height=6, absgrad=True)
        whole = vjp(weights)
        expected = np.zeros_like(whole["absgrad"])
        for pixel in np.ndindex(6, 8):
            one = np.zeros_like(weights)
            one[(slice(None),) + pixel] = weights[(slice(None),) + pixel]
            expected += abs(vjp(one)["means2d"])
        np.testing.assert_allclose(whole["absgrad"], expected, rtol=1e-3, atol=1e-5 * expected.max())
        self.assertGreater(expected.sum(), 1.5 * abs(whole["means2d"]).sum())
        _, _, vjp = dapple.rasterization_vjp(**arrays, width=8, height=6)
        plain = vjp(weights)
        self.assertNotIn("absgrad", plain)
        np.testing.assert_array_equal(plain["means"], whole["means"])

    def test_gradients_twice_are_the_same_bytes(self):
        arrays = scene(degree=2)
        image, _, vjp = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, sh_degree=2)
        first, second = vjp(np.ones_like(image)), vjp(np.ones_like(image))
        for name, array in first.items():
            self.assertEqual(array.tobytes(), second[name].tobytes(), name)


class Mistakes(unittest.TestCase):
    """Each mistake is an exception that names the argument."""

    def refused(self, kind, place, **changed):
        with self.assertRaises(kind) as raised:
            dapple.rasterization(**{**scene(), "width": WIDTH, "height": HEIGHT, **changed})
        self.assertEqual(raised.exception.place, place)
        self.assertIsInstance(raised.exception, dapple.DappleError)

    def test_shapes(self):
        for name in ("quats", "scales", "opacities", "colors", "Ks"):
            self.refused(dapple.InputError, name, **{name: scene()[name][1:]})
        self.refused(dapple.InputError, "viewmats", viewmats=np.zeros((2, 3, 4), np.float32))
        self.refused(dapple.InputError, "backgrounds", backgrounds=np.zeros((2, 4), np.float32))
        self.refused(dapple.InputError, "colors", sh_degree=1)

    def test_types(self):
        self.refused(dapple.ArgumentTypeError, "means", means=scene()["means"].astype(np.float64))
        self.refused(dapple.ArgumentTypeError, "means", means=scene()["means"].tolist())
        self.refused(dapple.ArgumentTypeError, "width", width=4.5)

    def test_values(self):
        self.refused(dapple.InputError, "width", width=0)
        self.refused(dapple.InputError, "render_mode", render_mode="rgb")
        for value in (0.0, -0.1, float("nan"), float("inf")):
            self.refused(dapple.InputError, "eps2d", eps2d=value)
        self.refused(dapple.InputError, "viewmats", viewmats=np.zeros((2, 4, 4), np.float32))
        self.refused(dapple.InputError, "viewmats", viewmats=np.full((2, 4, 4), np.nan, np.float32))
        self.refused(dapple.UnsupportedError, "sh_degree", sh_degree=4)

    def test_what_is_not_supported_says_so_by_name(self):
        for name, value in (("sparse_grad", True), ("distributed", True), ("covars", 1),
                            ("camera_model", "ortho"), ("tile_size", 8), ("with_eval3d", True)):
            self.refused(dapple.UnsupportedError, name, **{name: value})

    def test_arrays_that_are_not_contiguous_are_copied(self):
        arrays = scene()
        turned = dict(arrays, means=np.asfortranarray(arrays["means"]))
        np.testing.assert_array_equal(dapple.rasterization(**turned, width=WIDTH, height=HEIGHT)[0],
                                      dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)[0])


class ChosenTiles(unittest.TestCase):
    """`masks`: only some tiles are rendered and differentiated."""

    CALLS = (({}, {}), ({"degree": 2}, {"sh_degree": 2}), ({"channels": 5}, {"render_mode": "RGB+ED"}), ({}, {"render_mode": "D"}),
             ({}, {"absgrad": True}), ({}, {"far_plane": 4.2}))

    def test_other_tiles_have_the_background_and_no_gradient(self):
        tiles, pixels = masks()
        self.assertTrue(0 < tiles.sum() < tiles.size)
        for options, call in self.CALLS:
            arrays = scene(**options)
            behind = np.full((2, options.get("channels", 3)), 0.25, np.float32)
            if call.get("render_mode") != "D":
                call = {**call, "backgrounds": behind}
            whole, covered, vjp_whole = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, **call)
            image, alphas, vjp = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, masks=tiles, **call)
            colors = np.zeros(image.shape[-1], np.float32)
            colors[: len(behind[0])] = 0.0 if call.get("render_mode") == "D" else 0.25
            np.testing.assert_array_equal(image, np.where(pixels, whole, colors))
            np.testing.assert_array_equal(alphas, np.where(pixels, covered, np.float32(0)))
            rng = np.random.default_rng(1)
            by_image, by_alphas = (rng.normal(size=out.shape).astype(np.float32) for out in (image, alphas))
            found, expected = vjp(by_image, by_alphas), vjp_whole(by_image * pixels, by_alphas * pixels)
            self.assertEqual(set(found), set(expected))
            for name, gradient in expected.items():
                if name != "backgrounds":
                    scale = abs(gradient).max() + 1e-6
                    np.testing.assert_allclose(found[name] / scale, gradient / scale, atol=1e-5, err_msg=f"{name} {call}")
            if "backgrounds" in call:
                # The background is all of the other tiles.
                share = np.einsum("chwx,chw->cx", by_image[..., : behind.shape[1]], 1 - alphas[..., 0])
                np.testing.assert_allclose(found["backgrounds"], share, rtol=1e-4, atol=1e-4)

    def test_all_tiles_are_no_mask_and_no_tile_is_the_background(self):
        arrays = scene()
        plain = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT)
        every = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, masks=np.ones((2, 3, 3), bool))
        none = dapple.rasterization_vjp(**arrays, width=WIDTH, height=HEIGHT, masks=np.zeros((2, 3, 3), bool))
        weights = np.random.default_rng(2).normal(size=plain[0].shape).astype(np.float32)
        np.testing.assert_array_equal(every[0], plain[0])
        for name, gradient in plain[2](weights).items():
            np.testing.assert_array_equal(every[2](weights)[name], gradient, name)
        self.assertFalse(none[0].any() or none[1].any())
        self.assertFalse(any(gradient.any() for gradient in none[2](weights).values()))
        # The choice ends with its call.
        np.testing.assert_array_equal(dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT)[0], plain[0])

    def test_batches_are_their_elements(self):
        parts, (tiles, _) = [scene(seed=i) for i in range(3)], masks(3)
        image, _, _ = dapple.rasterization(**{name: np.stack([part[name] for part in parts]) for name in parts[0]},
                                           width=WIDTH, height=HEIGHT, masks=tiles)
        for i, part in enumerate(parts):
            np.testing.assert_array_equal(image[i], dapple.rasterization(**part, width=WIDTH, height=HEIGHT, masks=tiles[i])[0])

    def test_masks_are_views(self):
        arrays, (tiles, _) = scene(), masks()
        expected = dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, masks=tiles)[0]
        turned = np.asfortranarray(tiles)
        np.testing.assert_array_equal(dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, masks=turned)[0], expected)

    def test_mistakes_name_the_argument(self):
        tiles, _ = masks()
        for kind, hint, wrong in (
            (dapple.ArgumentTypeError, "astype(bool)", tiles.astype(np.float32)),
            (dapple.ArgumentTypeError, "bool", tiles.tolist()),
            (dapple.InputError, "16 x 16", tiles[:1]),
            (dapple.InputError, "16 x 16", tiles[0]),
            (dapple.InputError, "16 x 16", tiles[:, :2]),
            (dapple.InputError, "16 x 16", np.ones((2, HEIGHT, WIDTH), bool)),
        ):
            with self.assertRaises(kind) as raised:
                dapple.rasterization(**scene(), width=WIDTH, height=HEIGHT, masks=wrong)
            self.assertEqual(raised.exception.place, "masks")
            self.assertIn(hint, str(raised.exception))


class Processes(unittest.TestCase):
    def test_threads_do_not_mix_their_gaussians(self):
        scenes = [scene(seed=i) for i in range(4)]
        expected = [dapple.rasterization(**part, width=WIDTH, height=HEIGHT)[0] for part in scenes]
        wrong = []

        def work(i):
            for _ in range(10):
                if not np.array_equal(dapple.rasterization(**scenes[i], width=WIDTH, height=HEIGHT)[0], expected[i]):
                    wrong.append(i)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    @unittest.skipUnless(hasattr(os, "fork") and os.environ["DAPPLE_DEVICE"] == "cpu", "a GPU does not survive a fork")
    def test_a_forked_process_renders(self):
        code = """if True:
            import os, numpy as np, dapple_gs as dapple
            from tests.scenes import scene
            before = dapple.rasterization(**scene(), width=48, height=40)[0]
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(dapple.rasterization(**scene(), width=48, height=40)[0], before) else 1)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=here, timeout=60)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()

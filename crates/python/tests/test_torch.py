"""`rasterization` with torch, strategies and other functions of gsplat."""

import gc
import resource
import unittest

import numpy as np

import dapple_gs as dapple
from dapple_gs._engines import default_device

from .scenes import HEIGHT, WIDTH, masks, scene, torch_or_skip

torch = torch_or_skip()


def tensors(requires_grad=True, **options):
    arrays = {name: torch.from_numpy(array) for name, array in scene(**options).items()}
    if requires_grad:
        for name in ("means", "quats", "scales", "opacities", "colors", "viewmats"):
            arrays[name].requires_grad_()
    return arrays


def render(arrays, **options):
    return dapple.rasterization(**arrays, width=WIDTH, height=HEIGHT, **options)


class Rasterization(unittest.TestCase):
    def test_images_and_gradients_are_those_of_numpy(self):
        for options, call in (({}, {}), ({"degree": 2}, {"sh_degree": 2}), ({"channels": 5}, {"render_mode": "RGB+ED"})):
            arrays, plain = tensors(**options), scene(**options)
            image, alphas, _ = render(arrays, **call)
            expected, covered, vjp = dapple.rasterization_vjp(**plain, width=WIDTH, height=HEIGHT, **call)
            np.testing.assert_array_equal(image.detach().numpy(), expected)
            weights = torch.from_numpy(np.random.default_rng(1).normal(size=image.shape).astype(np.float32))
            ((image * weights).sum() + alphas.sum()).backward()
            found = vjp(weights.numpy(), np.ones_like(covered))
            for name in ("means", "quats", "scales", "opacities", "colors", "viewmats"):
                np.testing.assert_array_equal(arrays[name].grad.numpy(), found[name], name)

    def test_many_cameras_without_gradients_are_those_with(self):
        arrays = tensors(cameras=19, degree=1)
        with_gradients = render(arrays, sh_degree=1)[0].detach()
        with torch.no_grad():
            self.assertTrue(torch.equal(render(arrays, sh_degree=1)[0], with_gradients))

    def test_contributors_of_tensors_are_those_of_arrays(self):
        plain, arrays = scene(), tensors()
        plain.pop("colors"), arrays.pop("colors")
        expected = dapple.top_contributing_gaussian_ids(**plain, width=WIDTH, height=HEIGHT)
        found = dapple.top_contributing_gaussian_ids(**arrays, width=WIDTH, height=HEIGHT)
        for tensor, array in zip(found, expected):
            np.testing.assert_array_equal(tensor.numpy(), array)
            self.assertFalse(tensor.requires_grad)
        with self.assertRaisesRegex(dapple.ArgumentTypeError, r"scales\.float\(\)"):
            dapple.top_contributing_gaussian_ids(**{**arrays, "scales": arrays["scales"].double()}, width=WIDTH, height=HEIGHT)

    def test_gradients_of_projected_centres_are_kept(self):
        arrays = tensors()
        image, _, info = render(arrays, packed=False)
        info["means2d"].retain_grad()
        image.square().sum().backward()
        whole = info["means2d"].grad
        self.assertEqual(tuple(whole.shape), (2, 60, 2))
        arrays = tensors()
        image, _, info = render(arrays, packed=True)
        info["means2d"].retain_grad()
        image.square().sum().backward()
        where = info["camera_ids"], info["gaussian_ids"]
        np.testing.assert_array_equal(info["means2d"].grad.numpy(), whole[where].numpy())
        self.assertGreater(float(whole.abs().sum()), 0.0)

    def test_absolute_gradients_are_those_of_numpy(self):
        weights = np.random.default_rng(4).normal(size=(2, HEIGHT, WIDTH, 3)).astype(np.float32)
        expected = dapple.rasterization_vjp(**scene(), width=WIDTH, height=HEIGHT, absgrad=True)[2](weights)["absgrad"]
        for packed in (False, True):
            image, _, info = render(tensors(), packed=packed, absgrad=True)
            (image * torch.from_numpy(weights)).sum().backward()
            found = info["means2d"].absgrad
            self.assertEqual(found.shape, info["means2d"].shape)
            where = (info["camera_ids"], info["gaussian_ids"]) if packed else ...
            np.testing.assert_array_equal(found.numpy(), expected[where])
        image, _, info = render(tensors())
        image.sum().backward()
        self.assertFalse(hasattr(info["means2d"], "absgrad"))

    def test_chosen_tiles_are_those_of_numpy(self):
        tiles, _ = masks()
        weights = np.random.default_rng(4).normal(size=(2, HEIGHT, WIDTH, 3)).astype(np.float32)
        expected, _, vjp = dapple.rasterization_vjp(**scene(), width=WIDTH, height=HEIGHT, masks=tiles)
        by = vjp(weights)
        # Masks need not be tensors: they have no gradient.
        for chosen in (torch.from_numpy(tiles.copy()), tiles.copy()):
            arrays = tensors()
            image, _, _ = render(arrays, masks=chosen)
            # The backward pass has the tiles of the render.
            chosen[...] = True
            np.testing.assert_array_equal(image.detach().numpy(), expected)
            (image * torch.from_numpy(weights)).sum().backward()
            for name in ("means", "quats", "scales", "opacities", "colors", "viewmats"):
                np.testing.assert_array_equal(arrays[name].grad.numpy(), by[name], name)
        with torch.no_grad():
            np.testing.assert_array_equal(render(arrays, masks=tiles)[0].numpy(), expected)

    def test_chosen_tiles_of_batches(self):
        parts, (tiles, _) = [scene(seed=i) for i in range(3)], masks(3)
        arrays = {name: torch.from_numpy(np.stack([part[name] for part in parts])) for name in parts[0]}
        image, _, _ = render(arrays, masks=torch.from_numpy(tiles))
        for i, part in enumerate(parts):
            expected = dapple.rasterization(**part, width=WIDTH, height=HEIGHT, masks=tiles[i])[0]
            np.testing.assert_array_equal(image[i].numpy(), expected)

    def test_masks_of_another_type_are_refused(self):
        tiles = torch.from_numpy(masks()[0])
        with self.assertRaisesRegex(dapple.ArgumentTypeError, r"masks\.bool\(\)"):
            render(tensors(), masks=tiles.float())
        with self.assertRaises(dapple.InputError) as raised:
            render(tensors(), masks=tiles[..., :2])
        self.assertEqual(raised.exception.place, "masks")

    def test_without_gradients(self):
        image, _, info = render(tensors(requires_grad=False))
        self.assertFalse(image.requires_grad)
        with torch.no_grad():
            image, _, info = render(tensors())
        self.assertFalse(image.requires_grad)
        self.assertEqual(info["means2d"].shape, info["radii"].shape)

    def test_a_second_derivative_is_refused(self):
        arrays = tensors()
        image, _, _ = render(arrays)
        first = torch.autograd.grad(image.square().sum(), arrays["means"], create_graph=True)[0]
        with self.assertRaises(RuntimeError):
            first.sum().backward()

    def test_a_change_in_place_between_the_passes_is_refused(self):
        arrays = tensors()
        image, _, _ = render(arrays)
        with torch.no_grad():
            arrays["means"].add_(1.0)
        with self.assertRaises(RuntimeError):
            image.sum().backward()

    def test_other_renders_between_the_passes_do_not_matter(self):
        arrays, other = tensors(), tensors(seed=9)
        image, _, _ = render(arrays)
        render(other)
        image.sum().backward()
        again = tensors()
        render(again)[0].sum().backward()
        self.assertTrue(torch.equal(arrays["means"].grad, again["means"].grad))

    def test_mistakes_name_the_argument(self):
        arrays = tensors(requires_grad=False)
        for name, change in (("means", lambda t: t.double()), ("scales", lambda t: t.half()), ("quats", lambda t: t.numpy())):
            with self.assertRaises(dapple.ArgumentTypeError) as raised:
                render({**arrays, name: change(arrays[name])})
            self.assertEqual(raised.exception.place, name)

    def test_views_of_tensors(self):
        arrays = tensors(requires_grad=False)
        strided = torch.stack([arrays["means"]] * 2, 1)[:, 0]
        expanded = arrays["Ks"][:1].expand(2, 3, 3)
        np.testing.assert_array_equal(render({**arrays, "means": strided, "Ks": expanded})[0].numpy(),
                                      render(arrays)[0].numpy())

    def test_calls_do_not_leak(self):
        arrays = tensors(n=2000)

        def calls(count):
            for _ in range(count):
                render(arrays)[0].sum().backward()
                for tensor in arrays.values():
                    tensor.grad = None
            gc.collect()
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        # The threads of an engine take their memory in the first calls.
        before = calls(200)
        self.assertLess(calls(200) - before, 4 << 10)  # KiB; one image for each call is 4.5 MiB

    def test_an_optimizer_goes_downhill(self):
        target = render(tensors(requires_grad=False))[0]
        arrays = tensors(requires_grad=False)
        colors = torch.full_like(arrays["colors"], 0.5).requires_grad_()
        means = (arrays["means"] + 0.02).requires_grad_()
        optimizer = torch.optim.Adam([colors, means], lr=0.02)
        losses = []
        for _ in range(30):
            loss = (render({**arrays, "colors": colors, "means": means})[0] - target).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
        self.assertLess(losses[-1], 0.3 * losses[0])


@unittest.skipUnless(torch.cuda.is_available(), "needs a GPU of NVIDIA with torch for CUDA")
class SharedMemory(unittest.TestCase):
    """Tensors of CUDA and an engine on the same GPU."""

    NAMES = ("means", "quats", "scales", "opacities", "colors", "viewmats")

    def setUp(self):
        self.addCleanup(dapple.set_device, default_device())
        dapple.set_device("gpu")

    def gradients(self, device, weights, options, call, backgrounds=None):
        arrays = {name: tensor.detach().to(device).requires_grad_(name in self.NAMES)
                  for name, tensor in tensors(**options).items()}
        if backgrounds is not None:
            arrays["backgrounds"] = backgrounds.detach().clone().to(device).requires_grad_()
        image, alphas, info = render(arrays, device="gpu", packed=False, **call)
        info["means2d"].retain_grad()
        ((image * weights.to(device)).sum() + alphas.square().sum()).backward()
        found = {name: tensor.grad.cpu() for name, tensor in arrays.items() if tensor.grad is not None}
        found["means2d"] = info["means2d"].grad.cpu()
        if call.get("absgrad"):
            found["absgrad"] = info["means2d"].absgrad.cpu()
        return image.detach().cpu(), found, info["means2d"].detach().cpu()

    def test_images_and_gradients_are_those_of_staged_calls(self):
        backgrounds = torch.tensor([[0.2, 0.7, 0.1], [0.9, 0.0, 0.4]])
        for options, call, behind in (({}, {}, None), ({}, {"absgrad": True}, backgrounds), ({"degree": 3}, {"sh_degree": 3}, None),
                                      ({"degree": 3}, {"sh_degree": 1}, backgrounds), ({}, {"masks": masks()[0]}, backgrounds),
                                      ({"degree": 2}, {"sh_degree": 0}, None)):
            weights = torch.from_numpy(np.random.default_rng(2).normal(size=(2, HEIGHT, WIDTH, 3)).astype(np.float32))
            expected, by, centres = self.gradients("cpu", weights, options, call, behind)
            image, found, own = self.gradients("cuda", weights, options, call, behind)
            self.assertEqual(dapple.backend()["transfer"], "shared")
            np.testing.assert_allclose(image, expected, atol=2e-6)
            np.testing.assert_allclose(own, centres, rtol=1e-5, atol=1e-3)
            self.assertEqual(set(found), set(by))
            for name, gradient in by.items():
                off = float((found[name] - gradient).norm() / gradient.norm())
                self.assertLess(off, 1e-5, f"{name} {options} {call}")

    def test_gradients_stay_when_others_are_computed(self):
        arrays = {name: tensor.detach().cuda().requires_grad_() for name, tensor in tensors(degree=3).items()}
        render(arrays, sh_degree=3, device="gpu")[0].square().sum().backward()
        kept = {name: arrays[name].grad for name in self.NAMES}
        copies = {name: gradient.clone() for name, gradient in kept.items()}
        for tensor in arrays.values():
            tensor.grad = None
        for _ in range(5):
            render(arrays, sh_degree=3, device="gpu")[0].sum().backward()
        for name in self.NAMES:
            self.assertTrue(torch.equal(kept[name], copies[name]), name)

    def test_calls_follow_the_work_of_their_stream(self):
        arrays = {name: tensor.detach().cuda() for name, tensor in tensors(n=20_000, degree=3).items()}

        def gradient():
            # Work that the engine has to wait for: without the semaphores it reads zeros.
            means = torch.zeros_like(arrays["means"])
            for _ in range(200):
                means = means + arrays["means"] / 200
            means = means.detach().requires_grad_()
            image = render({**arrays, "means": means}, sh_degree=3, device="gpu")[0]
            image.square().sum().backward()
            return image.detach(), means.grad * 1

        expected = gradient()
        for stream in (torch.cuda.Stream(), torch.cuda.current_stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                found = gradient()
            torch.cuda.synchronize()
            for one, other in zip(found, expected):
                self.assertTrue(torch.equal(one, other))

    def test_memory_of_gradients_is_used_again(self):
        arrays = {name: tensor.detach().cuda().requires_grad_() for name, tensor in tensors(n=20_000, degree=3).items()}

        def calls(count):
            for _ in range(count):
                render(arrays, sh_degree=3, device="gpu")[0].sum().backward()
                for tensor in arrays.values():
                    tensor.grad = None
            gc.collect()
            return torch.cuda.mem_get_info()[0]

        before = calls(5)
        self.assertLess(before - calls(200), 32 << 20)


class Functions(unittest.TestCase):
    def test_harmonics_are_those_of_renders(self):
        arrays = tensors(requires_grad=False, degree=3, cameras=1)
        viewmat = arrays["viewmats"][0]
        directions = arrays["means"] + viewmat[:3, :3].T @ viewmat[:3, 3]
        for degree in range(4):
            colors = (dapple.spherical_harmonics(degree, directions, arrays["colors"]) + 0.5).clamp(min=0)
            np.testing.assert_allclose(render({**arrays, "colors": colors})[0].numpy(),
                                       render(arrays, sh_degree=degree)[0].numpy(), atol=1e-5)

    def test_projection_differentiates(self):
        arrays = {name: tensor.double().requires_grad_() for name, tensor in tensors(False, n=5).items()}

        def centres(means, quats, scales):
            out = dapple.fully_fused_projection(means, None, quats, scales, arrays["viewmats"], arrays["Ks"], WIDTH, HEIGHT)
            return out[1], out[2], out[3]

        inputs = tuple(arrays[name] for name in ("means", "quats", "scales"))
        self.assertTrue(torch.autograd.gradcheck(centres, inputs, atol=1e-5))

    def test_ssim_of_equal_images_is_one(self):
        image = torch.rand(1, 3, 32, 32)
        self.assertAlmostEqual(float(dapple.ssim(image, image)), 1.0, 5)
        self.assertLess(float(dapple.ssim(image, torch.rand(1, 3, 32, 32))), 0.3)

    def test_selective_adam_changes_visible_rows_alone(self):
        param = torch.nn.Parameter(torch.ones(4, 2))
        optimizer = dapple.SelectiveAdam([{"params": [param], "lr": 0.1}], eps=1e-8, betas=(0.9, 0.999))
        param.sum().backward()
        optimizer.step(torch.tensor([True, False, True, False]))
        self.assertTrue(torch.equal(param[1::2], torch.ones(2, 2)))
        self.assertTrue((param[0::2] < 1).all())


def parameters(n=40, degree=1):
    """Returns parameters and optimizers as gsplat's trainer has them."""
    arrays = tensors(requires_grad=False, n=n, degree=degree)
    values = {
        "means": arrays["means"], "scales": arrays["scales"].log(), "quats": arrays["quats"],
        "opacities": torch.logit(arrays["opacities"]), "sh0": arrays["colors"][:, :1], "shN": arrays["colors"][:, 1:],
    }
    params = torch.nn.ParameterDict({name: torch.nn.Parameter(value.clone()) for name, value in values.items()})
    optimizers = {name: torch.optim.Adam([{"params": [param], "lr": 1e-3}]) for name, param in params.items()}
    return params, optimizers, {name: arrays[name] for name in ("viewmats", "Ks")}


def train(strategy, steps, packed=False, absgrad=False, **state_options):
    params, optimizers, cameras = parameters()
    target = render(tensors(requires_grad=False, n=40, degree=1), sh_degree=1)[0]
    strategy.check_sanity(params, optimizers)
    state, counts = strategy.initialize_state(**state_options), []
    for step in range(steps):
        image, _, info = dapple.rasterization(
            params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
            torch.cat([params["sh0"], params["shN"]], 1), **cameras, width=WIDTH, height=HEIGHT, sh_degree=1, packed=packed,
            absgrad=absgrad)
        strategy.step_pre_backward(params, optimizers, state, step, info)
        (image - target).square().mean().backward()
        for optimizer in optimizers.values():
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        extra = {"lr": 1e-4} if isinstance(strategy, dapple.MCMCStrategy) else {"packed": packed}
        strategy.step_post_backward(params, optimizers, state, step, info, **extra)
        counts.append(len(params["means"]))
        lengths = {len(param) for param in params.values()}
        lengths |= {len(s["exp_avg"]) for o in optimizers.values() for s in o.state.values()}
        assert lengths == {counts[-1]}, lengths
    return params, counts


class Strategies(unittest.TestCase):
    def test_default_strategy_grows_and_prunes(self):
        for packed in (False, True):
            strategy = dapple.DefaultStrategy(refine_start_iter=2, refine_every=5, grow_grad2d=1e-7, prune_opa=0.01)
            _, counts = train(strategy, 12, packed)
            self.assertGreater(counts[6], 40)
        strategy = dapple.DefaultStrategy(refine_start_iter=2, refine_every=5, grow_grad2d=1e9, prune_opa=0.5)
        self.assertLess(train(strategy, 8)[1][-1], 40)

    def test_default_strategy_takes_absolute_gradients(self):
        states = []

        class Kept(dapple.DefaultStrategy):
            def initialize_state(self, **options):
                states.append(super().initialize_state(**options))
                return states[-1]

        for packed in (False, True):
            # The largest mean of plain gradients at the step that refines: devices round it in their own way.
            train(Kept(refine_start_iter=100), 6, packed)
            limit = float((states[-1]["grad2d"] / states[-1]["count"].clamp_min(1)).max())
            options = dict(refine_start_iter=2, refine_every=5, prune_opa=0.0, grow_grad2d=limit)
            plain, absolute = (dapple.DefaultStrategy(**options, absgrad=on) for on in (False, True))
            self.assertEqual(train(plain, 7, packed)[1][-1], 40)
            self.assertGreater(train(absolute, 7, packed, absgrad=True)[1][-1], 40)

    def test_default_strategy_resets_opacities(self):
        strategy = dapple.DefaultStrategy(reset_every=4, refine_start_iter=100)
        params, _ = train(strategy, 5)
        self.assertLessEqual(float(params["opacities"].sigmoid().max()), 0.01 + 1e-5)

    def test_mcmc_strategy_adds_up_to_its_limit_and_moves_the_dead(self):
        params, counts = train(dapple.MCMCStrategy(cap_max=42, refine_start_iter=1, refine_every=3, min_opacity=0.1), 10)
        self.assertEqual(counts[-1], 42)
        self.assertGreaterEqual(float(params["opacities"].sigmoid().min()), 0.09)

    def test_copies_look_like_the_whole(self):
        from dapple_gs.strategy.mcmc import relocation

        opacity = torch.tensor([0.3, 0.9])
        new, factor = relocation(opacity, torch.tensor([1, 3]))
        np.testing.assert_allclose(float(new[0]), 0.3, rtol=1e-6)
        np.testing.assert_allclose(float(factor[0]), 1.0, rtol=1e-6)
        np.testing.assert_allclose(1 - (1 - float(new[1])) ** 3, 0.9, rtol=1e-5)
        self.assertLess(float(factor[1]), 1.0)

    def test_mistakes(self):
        params, optimizers, _ = parameters()
        del optimizers["sh0"]
        with self.assertRaises(dapple.InputError):
            dapple.DefaultStrategy().check_sanity(params, optimizers)
        strategy = dapple.DefaultStrategy(absgrad=True)
        with self.assertRaises(dapple.InputError) as caught:
            train(strategy, 2)
        self.assertIn("absgrad=True", str(caught.exception))


if __name__ == "__main__":
    unittest.main()

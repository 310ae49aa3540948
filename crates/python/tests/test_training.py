"""Captures, runs, files and the program."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import dapple_gs as dapple


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.capture = cls.root / "capture"
        dapple.run("synth", cls.capture, "--photos", 6, "--width", 64, "--height", 48, "--points", 200)
        cls.seen = []
        cls.trained = dapple.train(cls.capture, cls.root / "run", steps=60, seed=3, device="cpu", every=20,
                                   callback=cls.seen.append)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_command_gives_the_same_bytes(self):
        dapple.run("train", self.capture, "-o", self.root / "command", "--steps", 60, "--seed", 3, "--device", "cpu")
        self.assertEqual(digest(self.root / "command/splats.ply"), digest(self.root / "run/splats.ply"))

    def test_steps_of_the_caller_give_the_same_splats(self):
        trainer = dapple.Trainer(self.capture, steps=60, seed=3, device="cpu")
        counts = []
        while trainer.step(25):
            counts.append(trainer.steps_done)
        self.assertEqual((counts, trainer.steps_done), ([25, 50], 60))
        splats = trainer.splats()
        np.testing.assert_array_equal(splats.means, dapple.load(self.root / "run").means)
        self.assertEqual(trainer.evaluate()["psnr"], self.trained.result["eval"]["psnr"])

    def test_files_of_others_are_not_replaced(self):
        folder = self.root / "foreign"
        folder.mkdir()
        (folder / "config.toml").write_text("# by hand\n")
        with self.assertRaisesRegex(dapple.InputError, "has not written"):
            dapple.train(self.capture, folder, steps=2, device="cpu")
        self.assertEqual((folder / "config.toml").read_text(), "# by hand\n")

    def test_callback_sees_the_run(self):
        steps = [state["step"] for state in self.seen if "loss" in state]
        self.assertEqual(steps, [20, 40, 60])
        self.assertTrue(any("psnr" in state for state in self.seen))

    def test_callback_stops_a_run_that_resumes(self):
        result = dapple.train(self.capture, self.root / "stopped", steps=60, seed=3, device="cpu", every=10,
                              callback=lambda state: state["step"] < 30).result
        self.assertEqual((result["steps"], result["finished"]), (30, False))
        dapple.run("train", "--resume", self.root / "stopped", "--device", "cpu")
        self.assertEqual(digest(self.root / "stopped/splats.ply"), digest(self.root / "run/splats.ply"))

    def test_an_exception_of_the_callback_is_raised(self):
        def fails(state):
            raise ZeroDivisionError("of the test")

        with self.assertRaisesRegex(ZeroDivisionError, "of the test"):
            dapple.train(self.capture, steps=60, device="cpu", callback=fails)

    def test_mistakes_name_the_setting(self):
        for settings, place in (({"step": 5}, "step"), ({"steps": "many"}, "steps"), ({"preset": "x"}, "preset"),
                                ({"steps": object()}, "steps")):
            with self.assertRaises(dapple.InputError) as raised:
                dapple.Trainer(self.capture, device="cpu", **settings)
            self.assertEqual(raised.exception.place, place)
        with self.assertRaises(dapple.FileError):
            dapple.Trainer(self.root / "nothing")
        with self.assertRaisesRegex(dapple.InputError, "overwrite"):
            dapple.train(self.capture, self.root / "run", steps=5, device="cpu")

    def test_evaluation_and_rendering_agree_with_the_run(self):
        self.assertAlmostEqual(dapple.evaluate(self.root / "run")["psnr"], self.trained.result["eval"]["psnr"], 2)
        splats = dapple.load(self.root / "run")
        viewmat, K = np.eye(4, dtype=np.float32), np.array([[60, 0, 32], [0, 60, 24], [0, 0, 1]], np.float32)
        viewmat[2, 3] = 3
        image, _, _ = dapple.rasterization(**splats.parameters(), viewmats=viewmat[None], Ks=K[None], width=64, height=48)
        direct, _ = self.trained.render(viewmat, K, 64, 48)
        self.assertGreater(image.std(), 0.01)
        np.testing.assert_allclose(image[0], direct, atol=1e-4)

    def test_files(self):
        splats = dapple.load(self.root / "run/splats.ply")
        splats.save(self.root / "copy.ply")
        np.testing.assert_array_equal(dapple.load(self.root / "copy.ply").sh_rest, splats.sh_rest)
        dapple.convert(self.root / "copy.ply", self.root / "copy.spz")
        self.assertEqual(len(dapple.load(self.root / "copy.spz")), len(splats))
        data = dapple.export_splats(splats.means, splats.scales, splats.quats, splats.opacities, splats.sh0[:, None],
                                    splats.sh_rest, "ply")
        self.assertEqual(data, (self.root / "copy.ply").read_bytes())
        splats.opacities[0] = np.nan
        with self.assertRaises(dapple.InputError):
            splats.save(self.root / "copy.ply")
        self.assertEqual(data, (self.root / "copy.ply").read_bytes())

    def test_errors_of_the_program_are_exceptions(self):
        with self.assertRaises(dapple.UnsupportedError) as raised:
            dapple.convert(self.root / "run/splats.ply", self.root / "x.unknown")
        self.assertTrue(raised.exception.hint)
        with self.assertRaises(dapple.InputError):
            dapple.run("nonsense")

    def test_viewer_shows_itself_in_a_notebook(self):
        with dapple.view(self.root / "run", port=0) as viewer:
            self.assertIn(viewer.url, viewer._repr_html_())
            self.assertIsNone(viewer._process.poll())
        self.assertIsNotNone(viewer._process.poll())


class Settings(unittest.TestCase):
    def test_settings_have_the_names_of_the_options(self):
        names = dapple.settings()
        for name in ("steps", "preset", "sh_degree", "strategy", "dropout", "seed"):
            self.assertIn(name, names)

    def test_the_type_stubs_have_every_public_name(self):
        stubs = (pathlib.Path(dapple.__file__).parent / "__init__.pyi").read_text()
        missing = [name for name in dapple.__all__
                   if not re.search(rf"^(def|class) {name}\b|^{name}:|import .*\b{name}\b", stubs, re.MULTILINE)]
        self.assertEqual(missing, [])

    def test_the_type_stubs_are_current(self):
        stubs = pathlib.Path(__file__).resolve().parent.parent / "stubs.py"
        done = subprocess.run([sys.executable, stubs, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_errors_survive_processes(self):
        import pickle

        error = pickle.loads(pickle.dumps(dapple.InputError("what", "place", "hint")))
        self.assertEqual(str(error), "what\nat: place\nhint: hint")


if __name__ == "__main__":
    unittest.main()

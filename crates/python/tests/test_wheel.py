"""The wheel, installed into an empty folder and used without Rust, a compiler or a Vulkan loader."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

from .scenes import required

HERE = pathlib.Path(__file__).resolve().parent.parent
BUILT = os.environ.get("DAPPLE_BUILT")
MOST_BYTES = 30_000_000

RENDER = """
import sys
import numpy as np
import dapple_gs as dapple
assert "torch" not in sys.modules
image, alpha, _ = dapple.rasterization(
    np.zeros((1, 3), np.float32), np.array([[1, 0, 0, 0]], np.float32), np.full((1, 3), 0.2, np.float32),
    np.array([0.9], np.float32), np.ones((1, 3), np.float32), np.eye(4, dtype=np.float32)[None] + np.float32(
    [[[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2], [0, 0, 0, 0]]]), np.float32([[[40, 0, 20], [0, 40, 20], [0, 0, 1]]]), 40, 40)
assert 0.8 < image[0, 20, 20, 0] < 1.0, image[0, 20, 20]
print(dapple.backend()["device"])
try:
    dapple.set_device("gpu")
except dapple.DappleError as error:
    print(error)
"""


@unittest.skipUnless(BUILT, "DAPPLE_BUILT does not name the folder of compiled files")
@unittest.skipUnless(sys.version_info >= (3, 11), "wheel.py needs Python 3.11")
class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        pack = [sys.executable, HERE / "wheel.py", "--built", BUILT, "-o", cls.root / "dist"]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
        (cls.wheel,) = (cls.root / "dist").glob("*.whl")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_the_same_files_give_the_same_bytes(self):
        pack = [sys.executable, HERE / "wheel.py", "--built", BUILT, "-o", self.root / "again"]
        subprocess.run(pack, check=True, stdout=subprocess.DEVNULL)
        self.assertEqual((self.root / "again" / self.wheel.name).read_bytes(), self.wheel.read_bytes())

    def test_the_record_has_every_file(self):
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
            (record,) = (name for name in names if name.endswith("/RECORD"))
            recorded = {line.split(",")[0] for line in archive.read(record).decode().splitlines()}
        self.assertEqual(names, recorded)
        for name in ("dapple_gs/py.typed", "dapple_gs/__init__.pyi", "dapple_gs/bin/dapple"):
            self.assertIn(name, names)

    def test_an_empty_environment_renders_and_says_what_a_gpu_needs(self):
        site = self.root / "site"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, self.wheel]
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
            if required("pip"):
                self.fail("pip is not installed")
            # What pip does with a wheel of this kind, without its scripts.
            with zipfile.ZipFile(self.wheel) as archive:
                archive.extractall(site)
            (site / "dapple_gs/bin/dapple").chmod(0o755)
        else:
            subprocess.run(pip, check=True)
        import numpy

        numbers = str(pathlib.Path(numpy.__file__).parent.parent)
        bare = {"PYTHONPATH": os.pathsep.join([str(site), numbers]), "PATH": "", "VK_DRIVER_FILES": "/none", "HOME": str(site)}
        done = subprocess.run([sys.executable, "-c", RENDER], env=bare, capture_output=True, text=True, cwd=self.root)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cpu", done.stdout)
        self.assertIn("hint:", done.stdout)
        program = subprocess.run([sys.executable, "-m", "dapple_gs", "--version"], env=bare, capture_output=True, text=True,
                                 cwd=self.root)
        self.assertTrue(program.stdout.startswith("dapple "), program.stderr)

    def test_the_module_beside_another_named_dapple(self):
        other = self.root / "other/dapple"
        other.mkdir(parents=True)
        (other / "__init__.py").write_text("name = 'another project'\n")
        paths = os.pathsep.join([str(self.root / "other"), *filter(None, sys.path)])
        code = "import dapple, dapple_gs; assert dapple.name == 'another project'; print(dapple_gs.__version__)"
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths}, capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()

"""Builds the wheel of dapple-gs: the extension, the program and the Python files. Needs Python 3.11 and cargo, no packages.

    python3 wheel.py                            release build for this machine, into dist/
    python3 wheel.py --built target/debug       packs what cargo has built, for tests
    python3 wheel.py --target x86_64-unknown-linux-gnu.2.28 --platform manylinux_2_28_x86_64
                                                for other Linux systems, by cargo-zigbuild

It is also the build backend of pyproject.toml, so that `pip install ./crates/python` works.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ("dapple-cli", "dapple-python")
# Names of compiled files; those of Linux are the default.
LIBRARIES = {"win32": "dapple_gs_native.dll", "darwin": "libdapple_gs_native.dylib"}
EXTENSIONS = {"win32": "_native.pyd"}
PROGRAMS = {"win32": "dapple.exe"}
# The same bytes for the same files.
TIME = (2020, 1, 1, 0, 0, 0)


def version():
    """Returns the version of the workspace."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def build(target):
    """Compiles extension and program in release, and returns their folder."""
    command = ["cargo", "zigbuild" if target and "." in target else "build", "--release", "--locked"]
    command += [word for package in PACKAGES for word in ("-p", package)]
    subprocess.run(command + (["--target", target] if target else []), cwd=ROOT, check=True)
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return folder / (target.split(".")[0] if target else "") / "release"


def metadata(project):
    """Returns the file METADATA."""
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version()}",
             f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}",
             f"License-Expression: {project['license']}", f"Keywords: {','.join(project['keywords'])}"]
    lines += [f"Classifier: {name}" for name in project["classifiers"]]
    lines += [f"Requires-Dist: {name}" for name in project["dependencies"]]
    lines += [f"Project-URL: {name}, {url}" for name, url in project["urls"].items()]
    readme = (HERE / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", readme])


def pack(built, output, platform):
    """Writes the wheel of compiled files, and returns its path."""
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    name = f"{project['name'].replace('-', '_')}-{version()}"
    tag = f"cp39-abi3-{platform}"
    files = {}
    for file in sorted((HERE / "python").rglob("*")):
        if file.is_file() and file.suffix in (".py", ".pyi", ".typed"):
            files[str(file.relative_to(HERE / "python"))] = (file.read_bytes(), 0o644)
    library = built / LIBRARIES.get(sys.platform, "libdapple_gs_native.so")
    program = built / PROGRAMS.get(sys.platform, "dapple")
    files["dapple_gs/" + EXTENSIONS.get(sys.platform, "_native.abi3.so")] = (stripped(library), 0o755)
    files["dapple_gs/bin/" + program.name] = (stripped(program), 0o755)
    scripts = "".join(f"{key} = {value}\n" for key, value in project["scripts"].items())
    about = f"{name}.dist-info/"
    files[about + "METADATA"] = (metadata(project).encode(), 0o644)
    files[about + "WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: dapple\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)
    files[about + "entry_points.txt"] = (f"[console_scripts]\n{scripts}".encode(), 0o644)
    for licence in sorted(ROOT.glob("LICENSE*")):
        files[f"{about}licenses/{licence.name}"] = (licence.read_bytes(), 0o644)
    record = [f"{path},sha256={digest(data)},{len(data)}" for path, (data, _) in files.items()]
    files[about + "RECORD"] = ("\n".join([*record, f"{about}RECORD,,", ""]).encode(), 0o644)
    output.mkdir(parents=True, exist_ok=True)
    wheel = output / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, (data, mode) in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def stripped(file):
    """Returns a compiled file without its symbols, where the system has `strip`. On macOS that would void the signature."""
    if sys.platform == "darwin":
        return file.read_bytes()
    copy = file.with_name(file.name + ".stripped")
    try:
        subprocess.run(["strip", "-s", "-o", copy, file], check=True)
        return copy.read_bytes()
    except (OSError, subprocess.CalledProcessError):
        return file.read_bytes()
    finally:
        copy.unlink(missing_ok=True)


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def this_platform():
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


# --- the build backend (PEP 517).


def get_requires_for_build_wheel(config_settings=None):
    return []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return pack(build(None), pathlib.Path(wheel_directory), this_platform()).name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--built", type=pathlib.Path, help="folder with compiled files [default: compiles them]")
    parser.add_argument("--target", help="target triple, with a glibc version for cargo-zigbuild")
    parser.add_argument("--platform", default=this_platform(), help="platform tag of the wheel")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=HERE / "dist")
    args = parser.parse_args()
    wheel = pack(args.built or build(args.target), args.output, args.platform)
    print(f"{wheel} ({wheel.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main()

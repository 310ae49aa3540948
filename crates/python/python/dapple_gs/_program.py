"""The program `dapple` inside this package, and functions that run it."""

import os
import subprocess
import sys

from ._errors import DappleError, FileError, InputError, InternalError, UnsupportedError

# Exit codes of the program: see `dapple --help`.
KINDS = {1: InternalError, 2: InputError, 3: InputError, 4: FileError, 5: UnsupportedError}


def program():
    """Returns the path of the program: $DAPPLE_PROGRAM, else the one of this package."""
    name = "dapple.exe" if os.name == "nt" else "dapple"
    return os.environ.get("DAPPLE_PROGRAM") or os.path.join(os.path.dirname(__file__), "bin", name)


def main():
    """Runs the program with the arguments of this process; the commands `dapple` and `dapple-gs`."""
    path = program()
    if not os.path.isfile(path):
        print(f"error: the program is not there\nat: {path}\nhint: install dapple-gs again", file=sys.stderr)
        return 1
    if os.name == "posix":
        os.execv(path, ["dapple", *sys.argv[1:]])
    return subprocess.call([path, *sys.argv[1:]])


def run(*arguments):
    """Runs a command, such as `run("convert", "in.ply", "out.sog")`, and returns its output.

    Raises:
        DappleError: the command failed; the text is that of the program.
        KeyboardInterrupt: Ctrl-C.
    """
    words = [program(), *(os.fspath(a) if hasattr(a, "__fspath__") else str(a) for a in arguments)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise FileError(f"the program cannot run: {error}", words[0], "install dapple-gs again") from error
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    if done.returncode in (130, -2):
        raise KeyboardInterrupt
    raise _exception(done.returncode, done.stderr.decode(errors="replace"))


def _exception(code, text):
    """Returns the exception of an exit code, from the three lines of the program's error."""
    lines = text.strip().splitlines()
    start = max((i for i, line in enumerate(lines) if line.startswith("error: ")), default=None)
    if start is None:
        return KINDS.get(code, DappleError)(text.strip() or f"the program ended with code {code}")
    what, place, hint = lines[start][len("error: "):], None, None
    for line in (line.strip() for line in lines[start + 1:]):
        if line.startswith("at: "):
            place = line[len("at: "):]
        elif line.startswith("hint: "):
            hint = line[len("hint: "):]
        else:
            what += "\n" + line
    return KINDS.get(code, DappleError)(what, place, hint)


def _flags(options):
    """Returns options of the program from keyword arguments."""
    flags = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            flags.append(flag)
        elif value is not None and value is not False:
            flags.append(f"{flag}={os.fspath(value) if hasattr(value, '__fspath__') else value}")
    return flags


def convert(source, target, **options):
    """Converts a splat file; the endings of the names set the formats. Options: those of `dapple convert`."""
    return run("convert", source, target, *_flags(options))


def edit(source, target, **options):
    """Edits splats: `edit("in.ply", "out.ply", floaters=True, capture="captures/bird")`, as `dapple edit`."""
    return run("edit", source, target, *_flags(options))


def mesh(source, output, **options):
    """Makes a mesh of a run or of splats (.glb, .obj, .ply), as `dapple mesh`."""
    return run("mesh", source, "-o", output, *_flags(options))


def photos(*inputs, output, **options):
    """Makes a capture of photos or videos, as `dapple photos`."""
    return run("photos", *inputs, "-o", output, *_flags(options))


def evaluate(capture, splats=None, **options):
    """Scores splats on the held-out photos of a capture, or a run on its own. Returns the dictionary of
    `dapple eval --json`."""
    import json

    arguments = [capture] if splats is None else [capture, splats]
    return json.loads(run("eval", *arguments, "--json", *_flags(options)))


class Viewer:
    """A viewer in a browser, which runs until `close` or the end of the program. In a notebook it shows itself."""

    def __init__(self, path, **options):
        self._process = subprocess.Popen(
            [program(), "view", os.fspath(path), *_flags(options)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.url, lines = None, []
        for line in self._process.stdout:
            lines.append(line)
            words = [word for word in line.split() if word.startswith("http://")]
            if words:
                self.url = words[0]
                break
        if self.url is None:
            raise _exception(self._process.wait(), "".join(lines))

    def _repr_html_(self):
        return f'<iframe src="{self.url}" width="100%" height="600" style="border: 0"></iframe>'

    def close(self):
        """Ends the viewer."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_process", None) is not None:
            self.close()


def view(path, **options):
    """Shows splats or a run in a browser and returns a `Viewer`. Options: those of `dapple view`."""
    return Viewer(path, **options)

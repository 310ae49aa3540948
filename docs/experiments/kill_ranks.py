"""Kills random ranks of short runs at random times, resumes each run on another number of ranks, and compares bytes.

    cargo build -p dapple-cli --features mpi && python3 docs/experiments/kill_ranks.py target/debug/dapple 100 [DEVICE]

DEVICE is the CPU by default. On a GPU, the bytes are those of two ranks in one process, because rounds of `adc` round
differently there. A run that was killed before its first checkpoint begins again. Needs an MPI.
"""

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DAPPLE, RUNS = str(Path(sys.argv[1]).resolve()), int(sys.argv[2])
DEVICE = sys.argv[3] if len(sys.argv) > 3 else "cpu"
TRAIN = f"train capture -q --device={DEVICE} --threads=1 --sh-degree=1 --views-per-step=2 --max-gaussians=2500 --steps=400".split()
TRAIN += ["--checkpoint-every=50"]


def ranks(number, *args):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(number), DAPPLE, *args]


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def digest(out):
    return hashlib.sha256(Path(out, "splats.ply").read_bytes()).hexdigest()


def kill_one(out, longest, draw):
    """Begins a run on three ranks, kills one of them, and returns the exit status and what was printed."""
    launcher = subprocess.Popen(ranks(3, *TRAIN, "-o", out), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(draw.uniform(0.3, longest))
    own = run(["pgrep", "-P", str(launcher.pid)]).stdout.split()
    if len(own) == 3:
        try:
            os.kill(int(draw.choice(own)), signal.SIGKILL)
        except ProcessLookupError:
            pass
    said, _ = launcher.communicate(timeout=120)
    return launcher.returncode, said


os.chdir(tempfile.mkdtemp())
run([DAPPLE, *"synth capture --scene table --photos 12 --width 96 --height 72 --points 400 -q".split()])
WHOLE = [] if DEVICE == "cpu" else ["--ranks-in-process=2"]
run([DAPPLE, *TRAIN, *WHOLE, "-o", "plain"]).check_returncode()
began = time.time()
run(ranks(3, *TRAIN, "-o", "whole")).check_returncode()
longest, expected, draw = time.time() - began, digest("plain"), random.Random(7)
assert digest("whole") == expected
counts = dict(killed=0, named=0, resumed=0, begun_again=0, same_bytes=0)
for number in range(RUNS):
    out = f"run{number}"
    status, said = kill_one(out, longest, draw)
    if status != 0:
        counts["killed"] += 1
        counts["named"] += bool(re.search(r"rank \d", said))
        others = draw.randrange(1, 4)
        resumed = run(ranks(others, "train", "-q", "--resume", out, "--threads=1"))
        counts["resumed"] += resumed.returncode == 0
        if resumed.returncode != 0:
            counts["begun_again"] += 1
            run(ranks(others, *TRAIN, "--overwrite", "-o", out)).check_returncode()
    counts["same_bytes"] += digest(out) == expected
print(f"{RUNS} runs: {counts}")

"""Running programs, one at a time, and where things are kept."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def say(text):
    print(text, file=sys.stderr, flush=True)


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(base) / "tandem" / "versus"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def default_model():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(os.environ.get("TANDEM_MODEL_CACHE") or pathlib.Path(base) / "tandem" / "models")
    model = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not model.exists():
        sys.exit(f"versus: {model} is not there: run deploy/quickstart once, or give --model")
    return str(model)


class Runner:
    """Runs measured commands behind a prefix."""

    def __init__(self, prefix):
        self.prefix = prefix

    def output(self, command, **more):
        """The standard output; ends the program with the command's own words when it fails."""
        done = subprocess.run(self.prefix + [str(part) for part in command], capture_output=True, text=True, **more)
        if done.returncode != 0:
            sys.exit(f"versus: {' '.join(map(str, command))} ended with {done.returncode}:\n"
                     f"{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

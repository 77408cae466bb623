#!/usr/bin/env python3
"""Compile the CUDA sources to the PTX texts that the kernels crate embeds.

    compile.py            write ../ptx/<module>.ptx
    compile.py --check    compile again, compare byte for byte, and assemble each text for every supported architecture;
                          exit 1 on a difference, on a spill, or on a stack in a matrix product or an attention kernel

The texts come from NVRTC 12.0.140: PTX 8.0 for sm_80, which every driver of CUDA 12 or later takes. They depend on the
sources alone, not on paths or dates. NVRTC does not look into inline assembly, so --check runs ptxas over every text.

Both tools come from their wheels, fetched with pip into <target directory>/cuda-compiler, or are given:
--nvrtc PATH or $RUNGWISE_NVRTC (libnvrtc.so.12), --ptxas PATH or $RUNGWISE_PTXAS.
Where the wheels cannot be had, the script says so and exits 0, or 1 with --require; a compiler that is named and cannot be
used is an error. Needs no GPU and no driver.
"""

import argparse
import ctypes
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PTX = HERE.parent / "ptx"
ROOT = HERE.parent.parent
MODULES = ["decoder", "attention", "gemm", "measure"]
# Every text that is embedded; the last is written by hand, for `calibrate --probe-rules`.
TEXTS = {module: PTX / f"{module}.ptx" for module in MODULES} | {"probe": ROOT / "calibrate/src/device/misuse/probe.ptx"}
NVRTC_OPTIONS = ["--gpu-architecture=compute_80", "--std=c++17"]
PTX_HEADER = [".version 8.0", ".target sm_80", ".address_size 64"]
ARCHITECTURES = [80, 86, 89, 90, 100, 120]
NVRTC_WHEEL = ("nvidia-cuda-nvrtc-cu12", "12.0.140", "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
PTXAS_WHEEL = ("nvidia-cuda-nvcc-cu12", "12.9.86", "nvidia/cuda_nvcc/bin/ptxas")


class Missing(Exception):
    """A compiler that cannot be had here."""


def cache():
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "cuda-compiler"


def from_wheel(package, version, file):
    """The path of one file of a wheel, unpacked in the cache, fetched if it is not there yet."""
    folder = cache() / f"{package}-{version}"
    if not (folder / file).exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--retries", "1",
               "--no-deps", "--only-binary=:all:", "--dest", str(cache()), f"{package}=={version}"]
        got = subprocess.run(pip, capture_output=True, text=True)
        if got.returncode != 0:
            lines = got.stderr.strip().splitlines() or ["pip failed"]
            raise Missing(f"{package}=={version}: {lines[-1]}")
        wheels = sorted(cache().glob(f"{package.replace('-', '_')}-{version}-*.whl"))
        if not wheels:
            raise Missing(f"{package}=={version}: pip brought no wheel")
        # The folder appears whole or not at all: half a compiler would be taken for one that cannot be had.
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        zipfile.ZipFile(wheels[0]).extractall(partial)
        if not (partial / file).exists():
            raise Missing(f"{package}=={version} has no {file}")
        (partial / file).chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    return folder / file


class Nvrtc:
    """NVRTC's compiler, through its C functions."""

    def __init__(self, path):
        try:
            self.library = ctypes.CDLL(str(path))
            self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            sys.exit(f"{path} is no NVRTC that can be loaded: {error}")

    def text(self, program, what):
        """One of the texts of a program: its log or its PTX."""
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.value.decode()

    def call(self, function, *arguments):
        result = getattr(self.library, function)(*arguments)
        if result != 0:
            sys.exit(f"{function}: {self.library.nvrtcGetErrorString(result).decode()}")

    def ptx(self, name, source):
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        options = [option.encode() for option in NVRTC_OPTIONS]
        result = self.library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = self.text(program, "ProgramLog").strip()
        if result != 0 or log:
            # Warnings fail too: the texts are compiled again on users' machines.
            sys.exit(f"{name} does not compile cleanly (line numbers count portable.cuh first):\n{log}")
        ptx = self.text(program, "PTX")
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return ptx


def source(module):
    """What `Module::source` gives at run time: one text without an include."""
    return (HERE / "portable.cuh").read_text() + (HERE / f"{module}.cu").read_text()


def compiled(nvrtc):
    """The PTX of every module."""
    texts = {}
    for module in MODULES:
        texts[module] = nvrtc.ptx(f"{module}.cu", source(module))
        for line in PTX_HEADER:
            if not re.search(rf"^{re.escape(line)}\b", texts[module], re.M):
                sys.exit(f"{module}.ptx has no line `{line}`: embed only what NVRTC {NVRTC_WHEEL[1]} gives")
    return texts


def assembled(ptxas, module, architecture):
    """What ptxas says of each kernel of a module: registers, shared bytes, stack bytes, spilled bytes."""
    command = [str(ptxas), "-v", f"-arch=sm_{architecture}", str(TEXTS[module]), "-o", os.devnull]
    try:
        got = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        sys.exit(f"{ptxas} is no ptxas that can be run: {error}")
    if got.returncode != 0:
        sys.exit(f"ptxas refuses {module}.ptx for sm_{architecture}:\n{got.stdout}{got.stderr}")
    kernels = {}
    for part in re.split(r"Compiling entry function '", got.stderr)[1:]:
        stack, stores, loads = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part).groups()
        registers = re.search(r"Used (\d+) registers", part).group(1)
        shared = re.search(r"(\d+) bytes smem", part)
        kernels[part[: part.index("'")]] = (int(registers), int(shared.group(1)) if shared else 0, int(stack), int(stores) + int(loads))
    return kernels


def check_assembly(ptxas):
    """Assembles every text for every architecture, prints one table, and returns what is not allowed."""
    runs = [(module, architecture) for module in TEXTS for architecture in ARCHITECTURES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = dict(zip(runs, pool.map(lambda run: assembled(ptxas, *run), runs)))
    faults = []
    print("registers / static shared bytes / spilled bytes, by ptxas " + PTXAS_WHEEL[1])
    print(f"{'kernel':<28}" + "".join(f"{f'sm_{architecture}':>14}" for architecture in ARCHITECTURES))
    for module in TEXTS:
        for kernel in sorted(results[module, ARCHITECTURES[0]]):
            cells = ""
            for architecture in ARCHITECTURES:
                registers, shared, stack, spilled = results[module, architecture][kernel]
                cells += f"{f'{registers}/{shared}/{spilled}':>14}"
                if spilled:
                    faults.append(f"{kernel} spills {spilled} bytes on sm_{architecture}")
                elif stack and module in ("attention", "gemm"):
                    faults.append(f"{kernel} keeps {stack} bytes in local memory on sm_{architecture}")
            print(f"{kernel:<28}{cells}")
    return faults


def main():
    parser = argparse.ArgumentParser(description="Compile the CUDA sources to embedded PTX.")
    parser.add_argument("--check", action="store_true", help="compare with the committed texts and assemble them")
    parser.add_argument("--require", action="store_true", help="fail where the compilers cannot be had")
    parser.add_argument("--nvrtc", default=os.environ.get("RUNGWISE_NVRTC"), help="libnvrtc.so.12 of version 12.0")
    parser.add_argument("--ptxas", default=os.environ.get("RUNGWISE_PTXAS"), help="ptxas that knows sm_120")
    arguments = parser.parse_args()
    try:
        nvrtc = Nvrtc(arguments.nvrtc or from_wheel(*NVRTC_WHEEL))
        ptxas = (arguments.ptxas or from_wheel(*PTXAS_WHEEL)) if arguments.check else None
    except Missing as missing:
        print(f"skipped: no CUDA compiler wheels ({missing})")
        sys.exit(1 if arguments.require else 0)

    faults = []
    for module, text in compiled(nvrtc).items():
        file = PTX / f"{module}.ptx"
        if not arguments.check:
            file.write_text(text)
            print(f"wrote {file.relative_to(ROOT)}: {len(text)} bytes")
        elif not file.exists() or file.read_text() != text:
            faults.append(f"{file.relative_to(ROOT)} is not what the sources give: run kernels/cuda/compile.py")
        else:
            print(f"{file.relative_to(ROOT)} is what the sources give")
    if arguments.check and not faults:
        faults = check_assembly(ptxas)
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()

"""By hand: the exporter's environment for Linux arm64 in qemu, and whether it gives the same bytes.

`./bazelw run //tests/integration/hosts:linux_arm64 -- --folder=/var/tmp/arm64 [--any_torch]`

Installs Debian's CPython 3.11 for arm64 and the wheels of the exporter's lock for aarch64 into the
folder (1.5 GB), lowers networks of tests/bench in qemu and here, and prints which bytes differ. A
difference of a program in fp32 is an error. It takes about 10 minutes, mostly in qemu.

The lock's torch is a CPU build. Where no index has it, --any_torch takes the registry's build of
that version for CUDA, whose GPU libraries are then fakes: functions that end the process.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", Path(__file__).parents[3]))
sys.path.insert(0, str(ROOT / "toolchains"))

from debian.apt import Apt, unpack  # noqa: E402

NAMES = ["mlp-64-fp32", "conv-32-fp32", "attention-64-fp32", "mlp-96-int4", "conv-64-int8"]
LOCK = ROOT / "toolchains/exporter/locks/exporter_cp311.txt"
_PLATFORMS = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (17, 26, 27, 28)]
_WHEELS = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", *_PLATFORMS]
_DEBIAN = ["python3.11-minimal", "libpython3.11-stdlib", "libstdc++6", "libgomp1"]
# What torch and its libraries ask the kernel about the processor; qemu shows the machine's own.
_PROCESSOR = """\
processor\t: 0
Features\t: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1

"""


def main() -> int:
    """Installs, lowers twice and compares; returns the exit code."""
    parser = argparse.ArgumentParser(prog="linux_arm64", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--any_torch", action="store_true")
    options = parser.parse_args()
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    steps = {
        "sysroot": lambda: install_debian(folder, "sysroot", "arm64", _DEBIAN),
        "qemu": lambda: install_debian(folder, "qemu", "amd64", ["qemu-user-static"]),
        "site": lambda: install_wheels(folder, options.any_torch),
        "fakes": lambda: write_fakes(folder),
    }
    for name, step in steps.items():
        if not (folder / name).exists():
            print(f"installing {name}", flush=True)
            step()
    describe_processor(folder / "sysroot")
    wrap_flatc(folder)
    here, emulated = folder / "here", folder / "emulated"
    for output, command in ((here, [sys.executable]), (emulated, in_qemu(folder))):
        output.mkdir(exist_ok=True)
        script = str(ROOT / "tests/integration/hosts/lower_nets.py")
        subprocess.run([*command, script, str(output), *NAMES], env=environment(), check=True)
    return compare(here, emulated)


def install_debian(folder: Path, name: str, architecture: str, packages: list[str]) -> None:
    """Unpacks packages of Debian 12 and, for a sysroot, all that they depend on."""
    apt = Apt(folder / f"apt-{architecture}", "bookworm", architecture, "Use Debian.")
    apt.update()
    names = sorted(apt.closure(packages)) if name == "sysroot" else packages
    unpack(apt.download(names, folder / f"packages-{architecture}"), folder / name)


def install_wheels(folder: Path, any_torch: bool) -> None:
    """Installs the lock's packages for aarch64, checked against its hashes."""
    lock = folder / "lock.txt"
    lines = requirements(LOCK.read_text(encoding="utf-8"))
    lock.write_text("\n".join(line for line in lines if not any_torch or not is_torch(line)))
    new = folder / "site.new"
    _pip("install", "--require-hashes", "--no-compile", f"--target={new}", f"--requirement={lock}")
    if any_torch:
        [line] = filter(is_torch, lines)
        _pip("download", f"--dest={folder / 'wheels'}", line.split()[0])
        _pip("download", f"--dest={folder / 'wheels'}", "nvidia-cuda-runtime==13.0.*")
        with zipfile.ZipFile(next((folder / "wheels").glob("torch-*.whl"))) as wheel:
            wheel.extractall(new)
    new.rename(folder / "site")


def is_torch(line: str) -> bool:
    return line.startswith("torch==")


def requirements(text: str) -> list[str]:
    """Lines of a lock that count on Linux arm64: "name==version --hash=…"."""
    lines = []
    for block in re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines():
        requirement, _, hashes = block.partition(" --hash=")
        package, _, marker = requirement.partition(";")
        other = marker and "aarch64" not in marker and "platform_machine" in marker
        if hashes and not other:
            lines.append(f"{package.strip()} --hash={hashes.strip()}")
    return lines


def write_fakes(folder: Path) -> None:
    """Libraries that torch's CUDA build names and the folder lacks: each function ends the process.

    They are loaded, never called: without a GPU, nothing in a lowering reaches them.
    """
    fakes = folder / "fakes"
    fakes.mkdir()
    for wheel in (folder / "wheels").glob("nvidia_cuda_runtime-*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            [path] = [name for name in archive.namelist() if "/libcudart.so." in name]
            (fakes / Path(path).name).write_bytes(archive.read(path))
    libraries = sorted((folder / "site/torch/lib").glob("*.so*"))
    present = {path.name for path in [*libraries, *fakes.iterdir()]}
    present |= {path.name for path in (folder / "sysroot").rglob("*.so*")}
    needed, undefined, defined = set(), set(), set()
    for library in libraries:
        for line in _lines("readelf", "-dW", library):
            needed.update(re.findall(r"\(NEEDED\).*\[(.+)\]", line))
        for words in map(str.split, _lines("readelf", "--dyn-syms", "-W", library)):
            if len(words) > 7:
                (undefined if words[6] == "UND" else defined).add(words[7])
    ours = {name.partition("@")[0] for name in defined}
    for name in sorted(needed - present):
        _write_fake(fakes / name, {s for s in undefined if s.partition("@")[0] not in ours})


_PREFIXES = {"libcuda.": "cu", "libcufile.": "cuFile", "libnvshmem_host.": "nvshmem"}


def _write_fake(library: Path, undefined: set[str]) -> None:
    stem = library.name.partition(".so")[0]
    prefix = _PREFIXES.get(stem + ".", stem.removeprefix("lib"))
    pattern = re.compile(prefix + r"[A-Z_]\w*|\w*_?" + prefix + r"\w*", re.IGNORECASE)
    by_version: dict[str, set[str]] = {}
    for symbol in undefined:
        name, _, version = symbol.partition("@")
        if version == library.name or (not version.startswith("lib") and pattern.fullmatch(name)):
            by_version.setdefault(version, set()).add(name)
    source, versions = library.with_suffix(".c"), library.with_suffix(".map")
    names = sorted(set().union(*by_version.values())) if by_version else []
    source.write_text("".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in names))
    named = {version: group for version, group in by_version.items() if version}
    lines = [f"{v} {{ global: {'; '.join(sorted(g))}; }};\n" for v, g in sorted(named.items())]
    versions.write_text("".join(lines))
    command = [
        os.path.realpath(os.environ["ZIG"]),
        "cc",
        "-target",
        "aarch64-linux-gnu.2.28",
        "-w",
        "-fno-builtin",
    ]
    command += ["-shared", "-nostdlib", f"-Wl,-soname,{library.name}", "-o", library, source]
    command += [f"-Wl,--version-script={versions}"] if named else []
    subprocess.run(command, check=True)


def describe_processor(sysroot: Path) -> None:
    """Files that qemu shows in place of the machine's: a Neoverse N1, as `in_qemu` emulates."""
    midr = sysroot / "sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
    for path, text in ((sysroot / "proc/cpuinfo", _PROCESSOR), (midr, "0x00000000413fd0c1\n")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def wrap_flatc(folder: Path) -> None:
    """ExecuTorch starts its flatc for arm64, which the machine can run in qemu only."""
    flatc = folder / "site/executorch/data/bin/flatc"
    real = flatc.with_name("flatc.arm64")
    if not real.exists():
        flatc.rename(real)
    command = f"{folder}/qemu/usr/bin/qemu-aarch64-static -L {folder}/sysroot {real}"
    flatc.write_text(f'#!/bin/sh\nunset LD_LIBRARY_PATH\nexec {command} "$@"\n')
    flatc.chmod(0o755)


def in_qemu(folder: Path) -> list[str]:
    """The command that starts the interpreter for arm64 with the environment's packages."""
    variables = {
        **environment(),
        "ATEN_CPU_CAPABILITY": "default",
        "LD_LIBRARY_PATH": str(folder / "fakes"),
        "PYTHONPATH": f"{ROOT}/tools:{ROOT}/tests/bench:{folder}/site",
    }
    words = [word for item in variables.items() for word in ("-E", "=".join(item))]
    qemu = str(folder / "qemu/usr/bin/qemu-aarch64-static")
    python = str(folder / "sysroot/usr/bin/python3.11")
    return [qemu, "-cpu", "neoverse-n1", "-L", str(folder / "sysroot"), *words, python, "-s", "-B"]


def environment() -> dict[str, str]:
    """As of an action: one thread, one seed of hashes."""
    paths = [f"{ROOT}/tools", f"{ROOT}/tests/bench", *filter(None, sys.path)]
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": ":".join(paths)}
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **fixed}


def compare(here: Path, emulated: Path) -> int:
    """Prints what differs; 1: a program in fp32 does."""
    code = 0
    for name in NAMES:
        one, other = ((folder / f"{name}.pte").read_bytes() for folder in (here, emulated))
        different = sum(a != b for a, b in zip(one, other, strict=False))
        text = "equal" if one == other else f"{different} of {len(one)} bytes differ"
        print(f"{name}: {text}" + ("" if len(one) == len(other) else f", {len(other)} in qemu"))
        code = code or int(one != other and name.endswith("fp32"))
    return code


def _pip(command: str, *arguments: str) -> None:
    python = shutil.which("python3.11") or "python3"
    subprocess.run([python, "-m", "pip", command, *_WHEELS, *arguments], check=True)


def _lines(*command: object) -> list[str]:
    done = subprocess.run([str(w) for w in command], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Stress of the whole: the real binary under everything that an operator's machine does to it.

    stress.py SIM [--seconds N] [--seed S] [--only KIND,KIND]

Each kind runs for about N seconds (default 10) and prints one line of the table: what was tried, how often, how it ended, the
largest memory. Whatever the kind, these must hold:

- no panic, no signal that was not sent, no exit code beyond the documented ones for what was tried;
- what fails says so on standard error;
- a result file is whole or is not there, and no temporary file stays (but after SIGKILL);
- memory stays below 1 GiB, and a run that takes long ends within seconds of SIGINT or SIGTERM.

A broken rule is printed with the command and the seed that repeats it, what it read is kept, and the exit code is 1. Kinds that
need root or Linux say what they lack and are skipped. Needs nothing but Python.
"""

import argparse
import csv
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEMORY_MIB = 1024
# After this long a run of hostile input is asked to end, and after GRACE_S more it counts as hung.
PATIENCE_S = 10
GRACE_S = 10

OK, UNEXPECTED, USAGE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3, 130

HOSTILE = [
    "0", "1", "-1", "2147483647", "4294967295", "4294967296", "9223372036854775807", "9223372036854775808", "-0.0", "1e-300", "1e308",
    "0.1", "nan", "inf", "-inf", '""', '"\\u0000"', '"\\u001b[2J"', '"' + "x" * 5000 + '"', "true", "[]", "{}", "[[]]", "[0]",
    "[1, 1]", "[4294967295]", '"0 s"', '"-1 s"', '"1e30 s"', '"99999999 GiB"', '"0 B"', '"NONE"', '"FULL"', '"../../etc/passwd"', '"/dev/null"',
    "1979-05-27", '"\\n"', "[" + "1," * 3000 + "1]", "'''\nlines\n'''",
]


@dataclass
class Ended:
    """How one command ended."""

    words: list
    code: int
    out: bytes
    err: str
    rss_mib: float
    stopped: bool = False


class Broken(Exception):
    """A rule that does not hold."""


class Stress:
    """What every kind needs: the binary, a folder, random numbers, and the time that is left."""

    def __init__(self, sim, folder, rng, seconds):
        self.sim, self.folder, self.rng = sim, folder, rng
        self.until = time.monotonic() + seconds
        self.ends, self.peak_mib = Counter(), 0.0

    def goes_on(self):
        """Whether there is time for another round."""
        return time.monotonic() < self.until

    def start(self, words, **options):
        """Starts the command in the folder, standard error into a file."""
        err = tempfile.TemporaryFile()
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.folder)
        out = options.pop("stdout", None) or tempfile.TemporaryFile()
        child = subprocess.Popen([self.sim, *map(str, words)], stdout=out, stderr=options.pop("stderr", err), **options)
        child.words, child.files = [str(word) for word in words], (out, err)
        return child

    def wait(self, child, patience_s=PATIENCE_S):
        """Waits for it, and ends it as an operator would after `patience_s`."""
        began, stopped, rss_mib = time.monotonic(), False, 0.0
        while True:
            rss_mib = max(rss_mib, peak_mib(child.pid))
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                break
            waited = time.monotonic() - began
            if not stopped and waited > patience_s:
                stopped = True
                send(child, signal.SIGINT)
            if waited > patience_s + GRACE_S:
                child.kill()
                os.waitpid(child.pid, 0)
                raise Broken(f"hung: {' '.join(child.words)}")
            time.sleep(0.002)
        child.returncode = os.waitstatus_to_exitcode(status)
        out, err = child.files
        err.seek(0)
        text = b""
        if out.readable():
            out.seek(0)
            text = out.read()
        said = err.read().decode(errors="replace")
        return Ended(child.words, child.returncode, text, said, rss_mib, stopped)

    def check(self, ended, allowed):
        """The rules that hold for every command."""
        line = " ".join(ended.words)
        self.ends[ended.code] += 1
        self.peak_mib = max(self.peak_mib, ended.rss_mib)
        if "panicked" in ended.err or "RUST_BACKTRACE" in ended.err:
            raise Broken(f"panic: {line}\n{ended.err[-1500:]}")
        allowed = {*allowed, INTERRUPTED} if ended.stopped else set(allowed)
        if ended.code not in allowed:
            raise Broken(f"exit {ended.code}, expected {sorted(allowed)}: {line}\n{ended.err[-1500:]}")
        if ended.code > 0 and ended.code != INTERRUPTED and not ended.err.strip():
            raise Broken(f"exit {ended.code} without a word: {line}")
        if "\x1b[2J" in ended.err or "\x00" in ended.err:
            raise Broken(f"control characters of the input reach the terminal: {line}")
        if ended.rss_mib > MEMORY_MIB:
            raise Broken(f"{ended.rss_mib:.0f} MiB of memory: {line}")
        return ended

    def run(self, words, allowed=(OK,), **options):
        """One command from start to end, checked."""
        return self.check(self.wait(self.start(words, **options)), allowed)


def peak_mib(pid):
    """The largest memory of a process so far. What `wait4` says begins with that of this script, from before the `exec`."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    peak = re.search(r"^VmHWM:\s*(\d+) kB", status, re.M)
    return int(peak[1]) / 1024 if peak and "\nName:\tpython" not in "\n" + status else 0.0


def send(child, sent):
    """Sends a signal; Popen's own way would take the exit status away."""
    try:
        os.kill(child.pid, sent)
    except ProcessLookupError:
        pass


def whole(folder, killed=False):
    """Every file below the folder can be read to its end, and none is a temporary one."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            continue
        if path.name.startswith(".") or "tmp" in path.name:
            if killed:
                continue
            raise Broken(f"{path.name} stays behind")
        text = path.read_text()
        if path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".jsonl":
            for line in text.splitlines():
                json.loads(line)
        elif path.suffix == ".csv":
            widths = {len(row) for row in csv.reader(text.splitlines())}
            if len(widths) > 1:
                raise Broken(f"{path.name} has rows of {sorted(widths)} cells")


def scenarios():
    """Scenario files of this repository."""
    return sorted((ROOT / "scenarios").glob("*.toml")) + sorted((ROOT / "scenarios" / "field").glob("r*.toml"))


def place(stress, path):
    """The scenarios as they are in the repository, so that what they name is found; changed ones are written among them."""
    copy = stress.folder / "scenarios"
    if not copy.exists():
        shutil.copytree(ROOT / "scenarios", copy)
    return copy / path.relative_to(ROOT / "scenarios")


KEY = re.compile(r"^(\s*[\w.\"]+\s*=\s*)(\S.*)$")


def hostile(rng, text):
    """The text with one to three lines changed for the worse."""
    lines = text.split("\n")
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(lines))
        keys = [number for number, line in enumerate(lines) if KEY.match(line)]
        what = rng.random()
        if what < 0.7 and keys:
            at = rng.choice(keys)
            lines[at] = KEY.match(lines[at])[1] + rng.choice(HOSTILE)
        elif what < 0.8:
            del lines[at]
        elif what < 0.9:
            lines.insert(at, rng.choice(lines))
        elif what < 0.95:
            lines = lines[:at] + [lines[at][: rng.randint(0, len(lines[at]))]]
        else:
            lines.insert(at, rng.choice(["[server.sglang]", "[[candidate]]", "[traffic", "\x00", "\ufeff", "é = 1"]))
        lines = lines or [""]
    return "\n".join(lines)


def hostile_scenarios(stress):
    """scenarios with hostile values"""
    while stress.goes_on():
        source = stress.rng.choice(scenarios())
        path = place(stress, source).with_name("hostile.toml")
        path.write_text(hostile(stress.rng, source.read_text()))
        ended = stress.run(["check", path], (OK, BAD_INPUT))
        command = stress.rng.choice([["run", "--requests", "50"], ["price"], ["ladder"], ["startup"], ["propose", "--seeds", "1", "--check-seeds", "2"]])
        # `check` answers for the scenario alone; a command may still refuse what it is not made for.
        stress.run([command[0], path, *command[1:]], (OK, BAD_INPUT, USAGE) if ended.code == OK else (BAD_INPUT, USAGE))


NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")


def edited_profiles(stress):
    """profiles edited by hand"""
    sources = sorted((ROOT / "scenarios" / "profiles").glob("*.toml"))
    path = stress.folder / "edited.toml"
    while stress.goes_on():
        text = stress.rng.choice(sources).read_text()
        for _ in range(stress.rng.randint(1, 4)):
            number = stress.rng.choice(list(NUMBER.finditer(text)))
            value = stress.rng.choice(["0", "-1", "1e300", "nan", "inf", "", "1e-9", number[0] + "0", number[0][1:], str(2**64), "18446744073709551615"])
            text = text[: number.start()] + value + text[number.end() :]
        path.write_text(text)
        stress.run(["explain", "--decodes", "9", "--context", "1000", "--profile", path], (OK, BAD_INPUT))
        stress.run(["run", ROOT / "scenarios/spec_decode.toml", "--requests", "30", "--profile", path], (OK, BAD_INPUT))


def small_run(stress, *more):
    """Words of a run that takes a second or two."""
    return ["run", ROOT / "scenarios/decode_heavy.toml", "--requests", str(stress.rng.choice([500, 1000, 3000])), *more]


def signals(stress):
    """SIGINT and SIGTERM at random moments, files checked"""
    while stress.goes_on():
        out = stress.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        older = stress.rng.random() < 0.5
        if older:
            stress.run(["run", ROOT / "scenarios/decode_heavy.toml", "--requests", "420", "--out", out, "--steps"])
        child = stress.start(small_run(stress, "--out", out, "--steps", "--trace", stress.folder / "trace.json", "--seeds", "2"))
        time.sleep(stress.rng.choice([0.01, 0.05, 0.3, 1.0]) * stress.rng.random())
        send(child, stress.rng.choice([signal.SIGINT, signal.SIGTERM]))
        ended = stress.wait(child)
        # Both may come before the program can take them.
        stress.check(ended, (OK, INTERRUPTED, -signal.SIGINT, -signal.SIGTERM))
        if out.exists():
            whole(out)
            if (out / "run.json").exists() and ended.code == OK:
                rows = (out / "requests.csv").read_text().count("\n")
                if rows < 20:
                    raise Broken(f"requests.csv ends after {rows} rows")
        trace = stress.folder / "trace.json"
        if trace.exists():
            json.loads(trace.read_text())
            trace.unlink()


def resumed_sweeps(stress):
    """sweeps ended by any signal, SIGKILL too, and gone on with"""
    words = ["sweep", ROOT / "scenarios/decode_heavy.toml", "--vary", "rate=1,2,3", "--vary", "max_num_seqs=16,64", "--threads", "2"]
    reference = stress.folder / "reference"
    stress.run([*words, "--out", reference])
    while stress.goes_on():
        out = stress.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        for _ in range(stress.rng.randint(1, 3)):
            child = stress.start([*words, "--out", out])
            time.sleep(2.0 * stress.rng.random())
            sent = stress.rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
            send(child, sent)
            stress.check(stress.wait(child), (OK, INTERRUPTED, -sent))
            if out.exists():
                whole(out, killed=True)
        ended = stress.run([*words, "--out", out])
        for name in ["figures.csv", "reports.jsonl", "manifest.json"]:
            if (out / name).read_bytes() != (reference / name).read_bytes():
                raise Broken(f"{name} of a sweep gone on with is another one: {' '.join(ended.words)}")


def full_disks(stress):
    """a full disk, and a limit on file sizes"""
    disk = stress.folder / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4k,nr_inodes=64", "tmpfs", str(disk)]
    mounted = False
    try:
        while stress.goes_on():
            size = stress.rng.choice([4, 16, 64, 256, 1024])
            words[4] = f"size={size}k,nr_inodes={stress.rng.choice([2, 4, 64])}"
            if subprocess.run(words, capture_output=True, check=False).returncode != 0:
                raise Skipped("mount -t tmpfs: not permitted")
            mounted = True
            stress.run(small_run(stress, "--out", disk / "out", "--steps", "--trace", disk / "trace.json"), (OK, UNEXPECTED))
            whole(disk)
            for name, command in [("page.html", ["report", "rtx4090-llama-3.1-8b", "--out"])]:
                stress.run([*command, disk / name], (OK, UNEXPECTED))
            stress.run(["propose", ROOT / "scenarios/spec_decode.toml", "--seeds", "1", "--check-seeds", "2", "--kit", disk / "kit"], (OK, UNEXPECTED))
            whole(disk)
            with open("/dev/full", "wb") as full:
                stress.run(["ladder", "--max-num-seqs", "64"], (UNEXPECTED,), stdout=full)
            subprocess.run(["umount", str(disk)], check=True)
            mounted = False
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=False)


def read_only_folders(stress):
    """folders that cannot be written"""
    if os.geteuid() == 0:
        drop = {"user": 65534, "group": 65534, "extra_groups": []}
    else:
        drop = {}
    locked = stress.folder / "locked"
    locked.mkdir()
    for parent in [stress.folder, locked]:
        parent.chmod(0o555)
    try:
        before = sorted(stress.folder.rglob("*"))
        while stress.goes_on():
            target = stress.rng.choice([locked, locked / "new", locked / "new" / "deep"])
            stress.run(small_run(stress, "--out", target, "--steps"), (UNEXPECTED, USAGE, BAD_INPUT), **drop)
            stress.run(["sweep", ROOT / "scenarios/decode_heavy.toml", "--vary", "rate=1", "--out", target], (UNEXPECTED, USAGE, BAD_INPUT), **drop)
            stress.run(["report", "textbook", "--out", locked / "page.html"], (UNEXPECTED, USAGE, BAD_INPUT), **drop)
            if sorted(stress.folder.rglob("*")) != before:
                raise Broken("something was written into a folder that cannot be written")
    finally:
        for parent in [stress.folder, locked]:
            parent.chmod(0o755)


def closed_pipes(stress):
    """pipes closed early, and standard streams that are closed"""
    commands = [["ladder", "--max-num-seqs", "1024", "--format", "csv"], ["explain", "--decodes", "9"], ["--help"], ["propose", "--help"],
                ["run", ROOT / "scenarios/decode_heavy.toml", "--requests", "450", "--format", "json"], ["price", ROOT / "scenarios/practice.toml"]]
    while stress.goes_on():
        words = stress.rng.choice(commands)
        read, write = os.pipe()
        child = stress.start(words, stdout=os.fdopen(write, "wb"))
        child.files[0].close()
        wanted = stress.rng.choice([0, 1, 100, 5000])
        while wanted > 0 and (got := os.read(read, wanted)):
            wanted -= len(got)
        os.close(read)
        out, err = child.files
        child.files = (tempfile.TemporaryFile(), err)
        stress.check(stress.wait(child), (OK,))
        for redirection in [">&-", "2>&-", "<&-", ">&- 2>&- <&-"]:
            shell = f'exec "$0" "$@" {redirection}'
            done = subprocess.run(["sh", "-c", shell, stress.sim, *map(str, words)], capture_output=True, cwd=stress.folder, check=False, timeout=60)
            stress.ends[done.returncode] += 1
            if done.returncode not in (OK, UNEXPECTED) or b"panicked" in done.stderr:
                raise Broken(f"exit {done.returncode} with {redirection}: {' '.join(map(str, words))}\n{done.stderr[-500:]}")


TRACE = """schema = 1
name = "a trace"
[server.vllm]
version = "0.33.0"
max_num_seqs = 256
max_num_batched_tokens = 8192
max_model_len = 16384
[profile]
builtin = "textbook"
[traffic]
seed = 1
[traffic.arrivals.trace]
file = "trace"
{more}
"""


def traces(stress):
    """empty, cut, foreign and huge traces"""
    scenario, path = stress.folder / "trace.toml", stress.folder / "trace"
    header = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
    rows = header + "".join(f"{n / 5},{n % 900 + 1},{n % 7 + 1}\n" for n in range(400))
    while stress.goes_on():
        kind = stress.rng.choice(["empty", "header", "cut", "bytes", "long line", "zeros", "shuffled", "binary"])
        text = {
            "empty": lambda: b"",
            "header": lambda: header.encode(),
            "cut": lambda: rows.encode()[: stress.rng.randrange(len(rows))],
            "bytes": lambda: bytes(stress.rng.choice([byte, stress.rng.randrange(256)]) if stress.rng.random() < 0.01 else byte for byte in rows.encode()),
            "long line": lambda: header.encode() + b"1" * 20_000_000,
            "zeros": lambda: b"\0" * 1_000_000,
            "shuffled": lambda: "\n".join([header.strip(), *stress.rng.sample(rows.splitlines()[1:], 300)]).encode(),
            "binary": lambda: stress.rng.randbytes(10_000),
        }[kind]()
        path.write_bytes(text)
        scenario.write_text(TRACE.format(more=stress.rng.choice(["", 'format = "vidur"', "unsorted = \"sort\"", "bad_rows = \"skip\""])))
        stress.run(["run", scenario], (OK, BAD_INPUT))
    with open(path, "w") as trace:
        trace.write(header)
        trace.writelines(f"{n},1,1\n" for n in range(2_000_000))
    scenario.write_text(TRACE.format(more=""))
    child = stress.start(["run", scenario])
    stress.check(stress.wait(child, patience_s=300), (OK,))


class Skipped(Exception):
    """What a kind lacks on this machine."""


KINDS = [hostile_scenarios, edited_profiles, traces, signals, resumed_sweeps, full_disks, read_only_folders, closed_pipes]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sim", type=Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default=",".join(kind.__name__ for kind in KINDS), metavar="KIND,...", help="of " + ", ".join(kind.__name__ for kind in KINDS))
    given = parser.parse_args()
    sim, broken = given.sim.resolve(), 0
    print(f"seed {given.seed}\n{'what was tried':<56} {'runs':>6}  {'ended with':<34} {'peak':>8}")
    for kind in KINDS:
        if kind.__name__ not in given.only.split(","):
            continue
        folder = Path(tempfile.mkdtemp(prefix="stress-"))
        folder.chmod(0o755)
        stress = Stress(sim, folder, random.Random(f"{given.seed} {kind.__name__}"), given.seconds)
        problem = None
        try:
            kind(stress)
        except Skipped as lacking:
            problem = f"skipped: {lacking}"
        except (Broken, ValueError, UnicodeDecodeError, subprocess.TimeoutExpired) as rule:
            broken, problem = 1, f"BROKEN: {rule}\n    kept: {folder}"
        ends = ", ".join(f"{code}: {count}" for code, count in sorted(stress.ends.items()))
        print(f"{kind.__doc__:<56} {stress.ends.total():>6}  {ends:<34} {stress.peak_mib:>4.0f} MiB", flush=True)
        if problem:
            print(f"    {problem}", flush=True)
        if not broken:
            shutil.rmtree(folder, ignore_errors=True)
    return broken


if __name__ == "__main__":
    sys.exit(main())

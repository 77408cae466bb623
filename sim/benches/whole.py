#!/usr/bin/env python3
"""What whole processes of `sim run` take: python3 sim/benches/whole.py [SIM]

SIM is the binary [default: target/release/sim, or that of CARGO_TARGET_DIR]. One core, metrics on, a named profile, the
fastest of a few runs. Prints a line a run; the workload files are read from RUNGWISE_SHARED (default ../shared), and
what needs them is skipped where they are missing.

Memory is the process's own peak (VmHWM), read while it waits to write its report. Instructions are counted by the processor (`perf stat`), where
the machine lets it, else by valgrind's cachegrind, else not at all.
"""

import fcntl
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / os.environ.get("RUNGWISE_SHARED", "../shared") / "traces/workloads"
ONE_THREAD = {**os.environ, "RAYON_NUM_THREADS": "1"}
# Instructions are not counted by cachegrind where a run would take it longer than a minute or two.
CACHEGRIND_REQUESTS_MAX = 1_000_000

SERVER = """schema = 1
name = "whole"
[server.vllm]
version = "0.33.0"
runner = "v2"
max_num_seqs = {max_num_seqs}
max_num_batched_tokens = {budget}
max_model_len = 8192
enable_prefix_caching = {cache}
async_scheduling = {asynchronous}
{more}
[profile]
builtin = "{profile}"
[slo]
ttft = "1s"
tpot = "50ms"
"""
SYNTHETIC = """[traffic]
seed = 7
requests = {requests}
[traffic.arrivals.poisson]
rate = 33
[traffic.lengths.lognormal]
prompt = {{ mean = 128, sigma = 0.5, max = 1024 }}
output = {{ mean = 128, sigma = 0.5, max = 1024 }}
"""
PREFIXES = """[[traffic.prefixes]]
share = 0.9
tokens = 256
within = [{ tokens = 128, count = 50 }]
"""


def server(profile="a100-llama-3-8b", max_num_seqs=128, budget=4096, asynchronous=True, cache=False, more=""):
    flags = {"asynchronous": str(asynchronous).lower(), "cache": str(cache).lower()}
    return SERVER.format(profile=profile, max_num_seqs=max_num_seqs, budget=budget, more=more, **flags)


def recorded(file, multiplier=1):
    return f'[traffic.arrivals.trace]\nfile = "{WORKLOADS / file}.csv"\nrate_multiplier = {multiplier}\n'


def runs():
    """Name, scenario, repetitions."""
    conversation = "splitwise_conv_clip4096"
    if not WORKLOADS.is_dir():
        print(f"skipped: no {WORKLOADS}")
    else:
        for file in (conversation, "synth_poisson8_2000", "burst_512x128x512"):
            for multiplier in (1, 4) if file != "burst_512x128x512" else (1,):
                for asynchronous in (True, False):
                    name = f"{file} x{multiplier} {'async' if asynchronous else 'sync'}"
                    yield name, server(asynchronous=asynchronous) + recorded(file, multiplier), 7
        for asynchronous in (True, False):
            name = f"{conversation} x1 {'async' if asynchronous else 'sync'}, h200-llama-3.1-8b"
            yield name, server("h200-llama-3.1-8b", asynchronous=asynchronous) + recorded(conversation), 7
        for multiplier in (1, 4):
            name = f"{conversation} x{multiplier} async, h100-llama-2-7b"
            yield name, server("h100-llama-2-7b") + recorded(conversation, multiplier), 7
        bound = server(cache=True, more="num_gpu_blocks_override = 4000")
        yield f"{conversation} x4 async, 4,000 blocks, prefix cache", bound + recorded(conversation, 4) + PREFIXES, 7
    for requests, repetitions in ((1_000_000, 5), (10_000_000, 2)):
        name = f"synthetic, {requests:,} requests"
        yield name, server(max_num_seqs=256, budget=8192) + SYNTHETIC.format(requests=requests), repetitions


def run(command):
    """Seconds, and what was written to standard error."""
    start = time.perf_counter()
    ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ONE_THREAD)
    seconds = time.perf_counter() - start
    check(command, ended.returncode, ended.stderr)
    return seconds, ended.stderr.decode()


def watch(command):
    """Peak memory in bytes, and the report."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=ONE_THREAD)
        # The report is larger than such a pipe: the process waits in the middle of it, with the run behind it.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        select.select([process.stdout], [], [])
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        report = process.stdout.read()
        errors.seek(0)
        check(command, process.wait(), errors.read())
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) * 1024, json.loads(report)


def check(command, status, errors):
    if status:
        sys.exit(f"{' '.join(map(str, command))}: exit {status}\n{errors.decode()}")


def perf_counts():
    """Whether the machine counts instructions."""
    if not shutil.which("perf"):
        return False
    probe = subprocess.run(["perf", "stat", "-e", "instructions:u", "true"], capture_output=True, text=True)
    return probe.returncode == 0 and "not supported" not in probe.stderr and "not counted" not in probe.stderr


def counter():
    """What counts instructions: the command before the process's own, the words it prints, and requests it can bear."""
    if perf_counts():
        return ["perf", "stat", "-e", "instructions:u"], r"([\d,.]+)\s+instructions", 10**9
    if shutil.which("valgrind"):
        options = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        return ["valgrind", *options], r"I\s+refs:\s+([\d,]+)", CACHEGRIND_REQUESTS_MAX
    return None


def instructions(command, count, requests):
    if count is None:
        return "skipped: no perf counter, no valgrind"
    prefix, pattern, requests_max = count
    if requests > requests_max:
        return "skipped: too long for valgrind"
    _, text = run([*prefix, *command])
    found = re.search(pattern, text)
    return f"{int(re.sub(r'[,.]', '', found[1])) / 1e6:,.0f} M" if found else "skipped: nothing counted"


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    sim = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else target / "release/sim"
    if not sim.is_file():
        sys.exit(f"no {sim}: cargo build --release -p sim")
    count = counter()
    print(f"instructions: {'skipped: no perf counter, no valgrind' if count is None else count[0][0]}")
    start_up = min(run([sim, "check", ROOT / "scenarios/chunked.toml"])[0] for _ in range(7))
    print(f"start-up (`sim check` of five candidates): {start_up * 1e3:.1f} ms")
    columns = "{:<62}{:>11}{:>9}{:>11}{:>11}{:>12}{:>9}{:>9}  {}"
    heads = ("steps", "wall s", "M steps/s", "req/s", "sim s/s", "decoding", "MB", "instructions")
    print(columns.format("", *heads))
    with tempfile.TemporaryDirectory() as folder:
        for name, scenario, repetitions in runs():
            file = pathlib.Path(folder) / "whole.toml"
            file.write_text(scenario)
            command = [sim, "run", file, "--format", "json"]
            seconds = min(run(command)[0] for _ in range(repetitions))
            peak, report = watch(command)
            (figures,) = report["candidates"]
            requests, steps = report["scenario"]["requests"], figures["steps"]
            rates = (f"{steps / seconds / 1e6:.2f}", f"{requests / seconds:,.0f}", f"{figures['duration_s'] / seconds:,.0f}")
            memory, counted = f"{peak / 1e6:.1f}", instructions(command, count, requests)
            decoding = f"{figures['median_decode_rows']:g}"
            print(columns.format(name, f"{steps:,}", f"{seconds:.3f}", *rates, decoding, memory, counted), flush=True)
            preempted, hits = figures["preemptions"], figures["prefix_cache"]["hit_tokens"]
            if preempted or hits:
                print(f"    {preempted:,} preemptions, {hits or 0:,} tokens found in the prefix cache")


if __name__ == "__main__":
    main()

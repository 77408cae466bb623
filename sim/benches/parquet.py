#!/usr/bin/env python3
"""What steps.parquet adds to a run: python3 sim/benches/parquet.py [SIM]

SIM is a release build with the feature `frames` [default: target/release/sim, or that of CARGO_TARGET_DIR].

Runs of one and of four million steps, each three times with steps.jsonl and three times with steps.parquet beside it, in
turns; one candidate, so that one core simulates. The fastest of each counts. Prints for each the elapsed and the processor
time, the peak memory of the process (VmHWM, as the system keeps it for a process that has ended) and the size of the
file; then what the table adds to the same run without it.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPETITIONS = 3
# Requests that take about so many steps at this rate.
RUNS = [("1 M steps", 126_000), ("4 M steps", 504_000)]

SCENARIO = """schema = 1
name = "parquet"
[server.vllm]
version = "0.33.0"
runner = "v2"
max_num_seqs = 128
max_num_batched_tokens = 4096
max_model_len = 8192
[profile]
builtin = "a100-llama-3-8b"
[slo]
ttft = "1s"
tpot = "50ms"
[traffic]
seed = 7
requests = {requests}
[traffic.arrivals.poisson]
rate = 10
[traffic.lengths.lognormal]
prompt = {{ mean = 128, sigma = 0.5, max = 1024 }}
output = {{ mean = 128, sigma = 0.5, max = 1024 }}
"""


def measured(sim, folder, options):
    """Seconds elapsed and on the processor, peak memory in MiB, steps, bytes of the table; results are removed."""
    out = folder / "out"
    command = [sim, "run", "scenario.toml", "--out", "out", "--format", "json", *options]
    before = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.monotonic() - before
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}")
    table = out / "steps.parquet"
    size = table.stat().st_size if table.exists() else (out / "steps.jsonl").stat().st_size
    for file in out.iterdir():
        file.unlink()
    steps = int(re.search(rb'"steps": (\d+)', answer).group(1))
    return elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, steps, size


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    sim = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else target / "release/sim").resolve()
    with tempfile.TemporaryDirectory(dir=target) as temporary:
        folder = pathlib.Path(temporary)
        for name, requests in RUNS:
            (folder / "scenario.toml").write_text(SCENARIO.format(requests=requests))
            kinds = [("steps.jsonl", ["--steps"]), ("and steps.parquet", ["--steps", "--parquet"])]
            found = {kind: [] for kind, _ in kinds}
            for _ in range(REPETITIONS):
                for kind, options in kinds:
                    found[kind].append(measured(sim, folder, options))
            best = {}
            for kind, runs in found.items():
                elapsed, processor = min(run[0] for run in runs), min(run[1] for run in runs)
                memory, steps, size = max(run[2] for run in runs), runs[0][3], runs[0][4]
                best[kind] = (elapsed, processor)
                print(f"{name} ({steps}), {kind:17}: {elapsed:6.2f} s elapsed, {processor:6.2f} s of processor time, "
                      f"peak {memory:.0f} MiB, the file {size / 2**20:.0f} MiB")
            plain, both = best.values()
            elapsed, processor = (100 * (with_table / without - 1) for with_table, without in zip(both, plain))
            print(f"{name}: the table adds {elapsed:.1f} % elapsed, {processor:.1f} % of processor time")


if __name__ == "__main__":
    main()

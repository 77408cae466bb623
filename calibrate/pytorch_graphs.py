#!/usr/bin/env python3
"""The same ladder under PyTorch: what its private pool grows by, and what a replay takes.

A cross-check of calibrate's own capture and allocator, run by on-gpu.sh where `import torch` works. A stack of layers of
a Llama's products (norm, QKV, output, gated MLP; no attention, which PyTorch would choose for itself) is captured for each
rung into one shared pool, largest first, then replayed in rounds of random order.

Not yet run on any GPU.
"""

import argparse
import glob
import json
import os
import random
import statistics
import sys

LADDER = [256, 128, 64, 32, 16, 8, 4, 2, 1]
LAYERS = 4
HIDDEN, INTERMEDIATE, QKV, HEADS_OUT = 4096, 14336, 6144, 4096
WARM_UPS = 3
ROUNDS = 12
REPLAYS = 10


def find_cublaslt():
    """cuBLASLt of PyTorch's packages, or nothing."""
    import torch

    version = torch.version.cuda or ""
    site = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__)))
    folders = [os.path.join(site, "nvidia", "cublas", "lib"), os.path.join(site, "torch", "lib")]
    folders[:0] = glob.glob(os.path.join(site, "nvidia", "cu" + version.split(".")[0], "lib"))
    for folder in folders:
        for name in sorted(glob.glob(os.path.join(folder, "libcublasLt.so.*"))):
            return name
    return ""


def layer_weights(torch, device):
    def matrix(outputs, inputs):
        return torch.randn(outputs, inputs, device=device, dtype=torch.bfloat16) * inputs**-0.5

    return {
        "norm": torch.ones(HIDDEN, device=device, dtype=torch.bfloat16),
        "qkv": matrix(QKV, HIDDEN),
        "out": matrix(HIDDEN, HEADS_OUT),
        "gate_up": matrix(2 * INTERMEDIATE, HIDDEN),
        "down": matrix(HIDDEN, INTERMEDIATE),
    }


def step(torch, layers, rows):
    """The dense part of a decoder step; attention's place is taken by a slice of its input."""
    functional = torch.nn.functional
    hidden = rows
    for weights in layers:
        normed = functional.rms_norm(hidden, (HIDDEN,), weights["norm"])
        attended = functional.linear(normed, weights["qkv"])[:, :HEADS_OUT].contiguous()
        hidden = hidden + functional.linear(attended, weights["out"])
        normed = functional.rms_norm(hidden, (HIDDEN,), weights["norm"])
        gate, up = functional.linear(normed, weights["gate_up"]).chunk(2, dim=-1)
        hidden = hidden + functional.linear(functional.silu(gate) * up, weights["down"])
    return hidden


def measure(torch, device):
    layers = [layer_weights(torch, device) for _ in range(LAYERS)]
    inputs = torch.randn(max(LADDER), HIDDEN, device=device, dtype=torch.bfloat16)
    pool = torch.cuda.graph_pool_handle()
    stream = torch.cuda.Stream(device)
    graphs, rungs = {}, {}
    for rows in LADDER:
        static = inputs[:rows]
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                step(torch, layers, static)
        torch.cuda.synchronize(device)
        reserved, free = torch.cuda.memory_reserved(device), torch.cuda.mem_get_info(device)[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            output = step(torch, layers, static)
        torch.cuda.synchronize(device)
        # Held weakly, as engines hold it: the next rung uses its memory again.
        del output
        graphs[rows] = graph
        rungs[rows] = {
            "rows": rows,
            "pool_growth_bytes": torch.cuda.memory_reserved(device) - reserved,
            "driver_growth_bytes": free - torch.cuda.mem_get_info(device)[0],
        }
    times = {rows: [] for rows in LADDER}
    draw = random.Random(5)
    for visit in range(WARM_UPS + ROUNDS):
        for rows in draw.sample(LADDER, len(LADDER)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize(device)
            start.record()
            for _ in range(REPLAYS):
                graphs[rows].replay()
            end.record()
            end.synchronize()
            if visit >= WARM_UPS:
                times[rows].append(start.elapsed_time(end) * 1e3 / REPLAYS)
    for rows, visits in times.items():
        rungs[rows]["replay_us"] = statistics.median(visits)
        rungs[rows]["replay_us_low"], rungs[rows]["replay_us_high"] = min(visits), max(visits)
    return list(rungs.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="0", help="index of the device, as CUDA counts")
    parser.add_argument("--out", help="the JSON file to write")
    parser.add_argument("--find-cublaslt", action="store_true", help="print the path of PyTorch's cuBLASLt, and end")
    options = parser.parse_args()
    import torch

    if options.find_cublaslt:
        print(find_cublaslt())
        return 0
    if not options.out:
        parser.error("--out is missing")
    if not options.device.isdigit():
        print(f"skipped: PyTorch names devices by index, not {options.device!r}")
        return 0
    if not torch.cuda.is_available():
        print("PyTorch sees no CUDA device")
        return 4
    device = torch.device("cuda", int(options.device))
    with torch.no_grad():
        rungs = measure(torch, device)
    document = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "device": torch.cuda.get_device_name(device),
        "layers": LAYERS,
        "hidden": HIDDEN,
        "intermediate": INTERMEDIATE,
        "rungs": rungs,
    }
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    print(f"{'rows':>6} {'pool growth':>14} {'driver growth':>14} {'replay us':>10}")
    for rung in rungs:
        growth, driver = rung["pool_growth_bytes"], rung["driver_growth_bytes"]
        print(f"{rung['rows']:>6} {growth:>14} {driver:>14} {rung['replay_us']:>10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Derive the built-in cost profiles from public tables.

    derive.py            write the profiles beside this script
    derive.py --check    compare them with what the tables give; exit 1 on a difference

The tables are other people's and are not part of this repository. They are read from the folder
$RUNGWISE_SHARED/traces (default: ../shared/traces, seen from the repository root):

    profiles_raw/a100/meta-llama/Meta-Llama-3-8B/mlp.csv       microsoft/vidur (MIT)
    profiles_raw/h100/meta-llama/Llama-2-7b-hf/mlp.csv         microsoft/vidur (MIT)
    profiles_raw/a100/meta-llama/Llama-2-7b-hf/mlp.csv         microsoft/vidur (MIT)
    profiles_raw/a800/meta-llama/Llama-2-7b-hf/attention.csv   NetX-lab/Frontier (MIT)
    profiles_raw/aic_llama3_8b_gemm_ms_vs_m.csv                aiconfigurator-core 0.12.0 (Apache-2.0), sums over shapes
    kernels_rtx4090_llama8b_tp1_{dense,per_sequence,attention}.csv   casys-kaist/LLMServingSim (MIT)

Where the tables are not at hand, only the textbook profiles are written or compared, and the script says so.
Standard library only; the output depends on nothing but the tables.
"""

import bisect
import csv
import os
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean, quantiles

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TRACES = Path(os.environ.get("RUNGWISE_SHARED", ROOT.parent / "shared")) / "traces"
RAW = "profiles_raw/"
A100_8B = RAW + "a100/meta-llama/Meta-Llama-3-8B/mlp.csv"
A100_7B = RAW + "a100/meta-llama/Llama-2-7b-hf/mlp.csv"
H100_7B = RAW + "h100/meta-llama/Llama-2-7b-hf/mlp.csv"
A800_ATTENTION = RAW + "a800/meta-llama/Llama-2-7b-hf/attention.csv"
H200_GEMM = RAW + "aic_llama3_8b_gemm_ms_vs_m.csv"
RTX = "kernels_rtx4090_llama8b_tp1_"
TABLES = [A100_8B, A100_7B, H100_7B, A800_ATTENTION, H200_GEMM] + [
    f"{RTX}{part}.csv" for part in ("dense", "per_sequence", "attention")
]

GIB, MIB, KIB = 1 << 30, 1 << 20, 1 << 10

LLAMA_3_8B = dict(layers=32, hidden=4096, intermediate=14336, query_heads=32, kv_heads=8, head_size=128,
                  vocabulary=128256)
LLAMA_2_7B = dict(layers=32, hidden=4096, intermediate=11008, query_heads=32, kv_heads=32, head_size=128,
                  vocabulary=32000)

VIDUR = "microsoft/vidur at 7d47513, data/profiling/compute/"
FRONTIER = "NetX-lab/Frontier, A800 Llama-2-7b attention.csv (FlashInfer)"
SERVINGSIM = "casys-kaist/LLMServingSim, RTX 4090 Llama-3.1-8B TP1 kernel tables (vLLM 0.19.0, FlashAttention 2)"

# Peak memory bandwidth in 10^9 bytes per second, from the vendor's data sheets.
BANDWIDTH = {"a100": 2039, "a800": 2039, "h100": 3352, "h200": 4800, "rtx4090": 1008}


# ---- reading ----------------------------------------------------------------------------------------------------


def rows_of(table):
    with open(TRACES / table, newline="") as file:
        return list(csv.DictReader(file))


class Curve:
    """A table over one quantity, linear between knots, the mean slope of its upper half beyond the last."""

    def __init__(self, points):
        self.points = dict(sorted(points.items()))
        self.x, self.y = list(self.points), list(self.points.values())

    def slope(self):
        low = bisect.bisect_right(self.x, self.x[-1] / 2) - 1
        return (self.y[-1] - self.y[low]) / (self.x[-1] - self.x[low])

    def at(self, x):
        if x <= self.x[0]:
            return self.y[0]
        if x >= self.x[-1]:
            return self.y[-1] + self.slope() * (x - self.x[-1])
        high = bisect.bisect_left(self.x, x)
        share = (x - self.x[high - 1]) / (self.x[high] - self.x[high - 1])
        return self.y[high - 1] + share * (self.y[high] - self.y[high - 1])


VIDUR_GEMMS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj")
VIDUR_REST = ("input_layernorm", "attn_rope", "post_attention_layernorm", "mlp_act", "add")


def vidur_dense(table, ops=VIDUR_GEMMS + VIDUR_REST, layers=32):
    """Rows -> us of all layers: medians of the linear and elementwise operations of one layer, times the layers."""
    seen = defaultdict(list)
    for row in rows_of(table):
        if row["num_tensor_parallel_workers"] == "1":
            ms = sum(float(row[f"time_stats.{op}.median"]) for op in ops)
            seen[int(row["num_tokens"])].append(ms * layers * 1e3)
    return Curve({rows: mean(us) for rows, us in seen.items()})


def rtx_ops(part, quantity):
    ops = defaultdict(dict)
    for row in rows_of(f"{RTX}{part}.csv"):
        ops[row["layer"]][int(row[quantity])] = float(row["time_us"])
    return {layer: Curve(points) for layer, points in ops.items()}


def rtx_dense(layers=32):
    """Rows -> us of all layers; the layer norm runs twice in a layer."""
    ops = rtx_ops("dense", "tokens")
    counts = dict(qkv_proj=1, o_proj=1, gate_up_proj=1, down_proj=1, rotary_emb=1, act_fn=1, layernorm=2)
    knots = ops["qkv_proj"].x
    return Curve({x: layers * sum(n * ops[op].points[x] for op, n in counts.items()) for x in knots})


# ---- dense ------------------------------------------------------------------------------------------------------


def extended(curve, knots):
    """The curve's knots, then `knots` beyond them on its own upper slope."""
    beyond = {x: curve.at(x) for x in knots if x > curve.x[-1]}
    return {**curve.points, **beyond}


def layer_weights(model):
    """Matrix weights of all decoder layers."""
    qkv = (model["query_heads"] + 2 * model["kv_heads"]) * model["head_size"]
    out = model["query_heads"] * model["head_size"]
    return model["layers"] * model["hidden"] * (qkv + out + 3 * model["intermediate"])


def flops_per_us(curve, model):
    """The rate that the upper half of a dense table sustains."""
    return 2 * layer_weights(model) / curve.slope()


H200_SHARE_OF_PEAK = 0.77


def h200_dense():
    """GEMM shape of the H200, its level set on the share of peak bandwidth that the H100's GEMMs reach, plus the H100's
    elementwise operations with the activation widened to Llama-3's MLP."""
    gemm = {int(row["m"]): float(row["H200 vLLM0.24"]) * 1e3 for row in rows_of(H200_GEMM) if row["H200 vLLM0.24"]}
    floor = 2 * layer_weights(LLAMA_3_8B) / (H200_SHARE_OF_PEAK * BANDWIDTH["h200"] * 1e3)
    shift = mean(us for m, us in gemm.items() if m <= 8) - floor
    widened = LLAMA_3_8B["intermediate"] / LLAMA_2_7B["intermediate"]
    activation = vidur_dense(H100_7B, ("mlp_act",))
    rest = vidur_dense(H100_7B, tuple(op for op in VIDUR_REST if op != "mlp_act"))
    measured = Curve({m: us - shift + rest.at(m) + widened * activation.at(m) for m, us in gemm.items()})
    slope = 2 * layer_weights(LLAMA_3_8B) / flops_per_us(vidur_dense(H100_7B), LLAMA_2_7B)
    last = measured.x[-1]
    beyond = {x: measured.y[-1] + slope * (x - last) for x in (4096, 8192, 16384)}
    return measured, {**measured.points, **beyond}, shift


# ---- head -------------------------------------------------------------------------------------------------------

BEYOND_256 = (384, 512, 768, 1024)


def head(model, card, rate):
    """Sequences -> us: the 4090's LM head carried over by vocabulary and bandwidth, never faster than its flops at the
    dense table's rate; its sampler by vocabulary and bandwidth above the launch floor."""
    ops = rtx_ops("per_sequence", "sequences")
    share = model["vocabulary"] / 128256 * BANDWIDTH["rtx4090"] / BANDWIDTH[card]
    flops = 2 * model["vocabulary"] * model["hidden"]
    lm_head, sampler = ops["lm_head"], ops["sampler"]
    floor = sampler.y[0]
    points = {}
    for n in lm_head.x + list(BEYOND_256):
        within = min(n, lm_head.x[-1])
        matrix = lm_head.at(within) * share
        if card == "rtx4090":
            matrix += (n - within) * flops / rate
        else:
            matrix = max(matrix, n * flops / rate)
        points[n] = matrix + floor + (sampler.at(n) - floor) * share
    return points


# ---- attention --------------------------------------------------------------------------------------------------

# A KV-cache write takes about 3 us per layer at one request (the A800 table's decode rows); its prefill rows show
# 42 us, which is the cost of timing a launch with events and is not used.
KV_WRITE_US = 3.0
MHA_REQUESTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
CONTEXTS = (32, 64, 128, 256, 512, 1024, 2048, 3072, 4032)
BEYOND_CONTEXTS = (8192, 16384, 32768)


def a800_decode():
    """(requests, context) -> us of 32 layers, KV-cache write included: every row of the table."""
    table = {}
    for row in rows_of(A800_ATTENTION):
        if row["is_prefill"] == "False":
            ms = float(row["time_stats.attn_decode.median"]) + float(row["time_stats.attn_kv_cache_save.median"])
            table[int(row["batch_size"]), int(row["kv_cache_size"])] = ms * 32e3
    return table


def thinned_decode():
    """The A800 decode table on its thinned grid, and the thinning's error against all rows of the table."""
    table = a800_decode()
    by_context = {k: Curve({n: table[n, k] for n in MHA_REQUESTS}) for k in CONTEXTS}

    def at(n, k):
        return Curve({context: curve.at(n) for context, curve in by_context.items()}).at(k)

    errors = sorted(abs(at(n, k) / us - 1) for (n, k), us in table.items())
    return at, dict(mean=mean(errors), p95=quantiles(errors, n=20)[-1], most=errors[-1])


def decode_grid(model, card, floor_us):
    """Decode attention of `model` on `card` from the A800's multi-head table.

    A request with a quarter of the KV heads is priced as a quarter of a request: as many bytes, as many blocks of work.
    The part above the floor of one short request then scales with bandwidth.
    """
    at, errors = thinned_decode()
    share = model["kv_heads"] / LLAMA_2_7B["kv_heads"]
    ratio = BANDWIDTH["a800"] / BANDWIDTH[card]
    base = at(1, 32)

    def us(n, k):
        n = n * share
        mha = at(n, k) if n >= 1 else base + n * (at(1, k) - base)
        return floor_us + max(mha - base, 0) * ratio

    group = round(1 / share)
    requests = [n for n in (1, 2) if group > 2] + [n * group for n in MHA_REQUESTS]
    requests += [256] if group == 1 else []
    contexts = [0, *CONTEXTS, *BEYOND_CONTEXTS]
    return dict(x=requests, y=contexts, us=[us(n, max(k, CONTEXTS[0])) for n in requests for k in contexts]), errors


def padded_request_us(model):
    """What a request adds that only fills up a graph: the table's slope over requests at 32 tokens, by KV heads."""
    table = a800_decode()
    slope = (table[128, 32] - table[64, 32]) / 64
    return slope * model["kv_heads"] / LLAMA_2_7B["kv_heads"]


PREFILL_CHUNKS = (64, 128, 256, 512, 1024, 2048, 4096)
PREFILL_CONTEXTS = (0, 512, 1024, 2048, 4096, 8192, 16384, 32768)


def prefill_flops(model, chunk, context):
    """Causal attention of one chunk: scores and values, 2 flops each per query-key pair."""
    width = model["query_heads"] * model["head_size"]
    return 4 * model["layers"] * width * chunk * (context + chunk / 2)


def prefill_grid(model, decode, scale):
    """Prefill attention from the A800's table, beyond it by flops at the rate of its own largest prefills.

    `scale` is the card's dense time over the A100's for the same model and rows.
    """
    table = defaultdict(dict)
    for row in rows_of(A800_ATTENTION):
        if row["is_prefill"] == "True":
            chunk, context = int(row["prefill_chunk_size"]), int(row["kv_cache_size"])
            table[chunk][context] = float(row["time_stats.attn_prefill.median"]) * 32e3
    rates = {}
    for chunk in PREFILL_CHUNKS:
        known = sorted(table[chunk])
        if len(known) > 1:
            low, high = known[len(known) // 2 - 1], known[-1]
            flops = prefill_flops(model, chunk, high) - prefill_flops(model, chunk, low)
            rates[chunk] = flops / (table[chunk][high] - table[chunk][low])
    rates[4096] = rates[2048]
    write = KV_WRITE_US * 32

    def us(chunk, context):
        if chunk > 4096:
            whole = table[4096][0] * prefill_flops(model, chunk, 0) / prefill_flops(model, 4096, 0)
            more = prefill_flops(model, chunk, context) - prefill_flops(model, chunk, 0)
            return whole + more / rates[2048]
        known = Curve(table[chunk]) if len(table[chunk]) > 1 else None
        last = max(table[chunk])
        if context <= last:
            return known.at(context) if known else table[chunk][context]
        more = prefill_flops(model, chunk, context) - prefill_flops(model, chunk, last)
        return table[chunk][last] + more / rates[chunk]

    chunks = [1, *PREFILL_CHUNKS, 8192, 16384]
    one = dict(zip(decode["y"], decode["us"]))
    first = [Curve(one).at(k) for k in PREFILL_CONTEXTS]
    rest = [scale * us(c, k) + write for c in chunks[1:] for k in PREFILL_CONTEXTS]
    return dict(x=chunks, y=list(PREFILL_CONTEXTS), us=first + rest)


RTX_MIXED = dict(
    chunk=(16, 64, 128, 256, 512, 1024, 2048),
    context=(0, 512, 2048, 4096, 16384),
    requests=(1, 2, 4, 8, 16, 32, 64, 128),
    decode_context=(16, 64, 128, 512, 1024, 2048, 4096, 8192, 16384),
)


def rtx_attention():
    """The 4090's own attention tables: decode and prefill whole, mixed thinned, with the error of the thinning."""
    table = {}
    for row in rows_of(f"{RTX}attention.csv"):
        key = tuple(int(row[k]) for k in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode"))
        table[key] = float(row["time_us"]) * 32
    requests = sorted({n for c, _, n, _ in table if c == 0})
    contexts = sorted({k for c, _, _, k in table if c == 0})
    decode = [table[0, 0, n, max(k, 16)] for n in requests for k in [0, *contexts]]
    chunks = sorted({c for c, _, n, _ in table if n == 0})
    prefixes = sorted({k for _, k, n, _ in table if n == 0})
    prefill = [table[max(c, 16), k, 0, 0] for c in [1, *chunks] for k in prefixes]
    axes = [list(axis) for axis in RTX_MIXED.values()]
    mixed = [table[c, k, n, d] for c in axes[0] for k in axes[1] for n in axes[2] for d in axes[3]]
    errors = sorted(
        abs(multilinear(table, axes, key) / us - 1) for key, us in table.items() if key[0] and key[2]
    )
    return dict(
        decode=dict(x=requests, y=[0, *contexts], us=decode),
        prefill=dict(x=[1, *chunks], y=prefixes, us=prefill),
        mixed=dict(axes=[[1, *axes[0]], axes[1], axes[2], [0, *axes[3]]], us=widen(mixed, axes)),
        errors=dict(mean=mean(errors), p95=quantiles(errors, n=20)[-1], most=errors[-1]),
        padded=(table[0, 0, 128, 16] - table[0, 0, 64, 16]) / 64,
    )


def widen(mixed, axes):
    """Repeat the first chunk for chunk 1 and the first decode context for context 0."""
    width = len(axes[3])
    lines = [mixed[i:i + width] for i in range(0, len(mixed), width)]
    lines = [[line[0], *line] for line in lines]
    per_chunk = len(lines) // len(axes[0])
    return [us for line in lines[:per_chunk] + lines for us in line]


def multilinear(table, axes, key):
    """The value at `key` from the eight to sixteen corners of its cell."""
    corners = [((), 1.0)]
    for axis, x in zip(axes, key):
        high = max(bisect.bisect_left(axis, x), 1)
        share = (x - axis[high - 1]) / (axis[high] - axis[high - 1])
        ends = [(axis[high - 1], 1 - share), (axis[high], share)]
        corners = [(at + (k,), w * s) for at, w in corners for k, s in ends if s]
    return sum(table[at] * weight for at, weight in corners)


# ---- groups that are declared everywhere ------------------------------------------------------------------------

PLANNING = "planning figure from public reports; replace it by a calibration run"


def declared(range_, source=PLANNING, **more):
    return dict(kind="declared", source=source, **more, range=range_)


def planning_machine():
    return dict(
        launch=(dict(launch_us=3), declared("1 to 6 us per launch; reports from 1.2 us (sm_89) to 9.1 us")),
        replay=(
            dict(fixed_us=10, node_us=0.58),
            declared("10 to 20 us per replay and 0.01 to 1.0 us per node, by driver and graph topology"),
        ),
        update=(
            dict(update_us=100),
            declared("about 100 us per update reported for one decode graph; grows with nodes"),
        ),
        pool=(
            dict(base_bytes=32 * MIB, bytes_per_row=128 * KIB, full_executable_bytes=24 * MIB,
                 piecewise_executable_bytes=24 * MIB),
            declared("10 to 30 MiB per descriptor (24 to 28 reported for Llama-3.1-8B); pool of the largest rung 30 to"
                     " 500 MiB at 512 rows"),
        ),
        capture=(
            dict(full_s=0.07, piecewise_s=0.07, first_extra_s=0.3),
            declared("0.05 to 0.3 s per descriptor up to 8B on one GPU; the first one several times that"),
        ),
    )


def planning_engine(layers=32):
    return dict(
        ops=(
            dict(eager=11 * layers + 4, compiled=10 * layers + 4, graph_nodes=10 * layers + 4,
                 attention_launches=layers),
            declared("300 to 450 kernels per step for dense models of 4 to 8B",
                     source="operations counted per layer (11 eager, 10 compiled) and 4 outside the layers"),
        ),
        dispatch=(
            dict(eager_us=30, eager_us_range=[7, 56], compiled_us=10, compiled_us_range=[2, 20]),
            declared("7 to 56 us per eager operation and 2 to 20 us per compiled one, by host CPU and framework",
                     source="planning figure from public reports: eager steps come to 24 us (8B, H100), 26 us (8B, SGLang),"
                            " 35 and 36 us (GPT-2, H200, vLLM and SGLang) and 47 us (0.5B, L40) per operation with its"
                            " launch; no compiled step without graphs is public; replace it by a calibration run"),
        ),
        host=(
            dict(step_overhead_us=800, per_request_us=4, padding_bookkeeping_us=20),
            declared("300 to 2,500 us per step, 1 to 15 us per request, 5 to 150 us of bookkeeping"),
        ),
        startup=(
            dict(trace_s=5, compile_cold_s=16, compile_warm_s=4.2, memory_profiling_s=3, graph_sample_s=0.07,
                 kernel_warm_up_s=1, sampler_warm_up_s=0.5, other_s=20),
            declared("trace 3 to 21 s; compile 2 to 100 s cold, 2 to 12 s warm, for each range or size; memory profiling"
                     " 1 to 10 s and 0.05 to 0.3 s a sampled graph; kernel warm-up 0 to 30 s, sampler 0 to 2 s; process and"
                     " weights 5 to 120 s",
                     source="planning figure from start-up logs of 8B models: vllm#11005 (trace 4.6 s, compile 14.8 s,"
                            " profiling and warm-ups 4 to 5 s together), vllm#16848 (warm: trace 5.0 s, load 4.2 s),"
                            " vllm#20264 (trace 7.5 s), LMCache#1740 (trace 7.0 s, compile 16.9 s); the split of the"
                            " warm-ups is assumed; replace it by your own start-up log"),
        ),
    )


def activation(base_bytes, provenance):
    """Live at once in the MLP of Llama-like models: gate and up, their product, residual and hidden rows, bf16."""
    return dict(base_bytes=base_bytes, bytes_per_row=100 * KIB), provenance


PLANNED_ACTIVATION = activation(
    960 * MIB,
    declared("0.5 to 1.5 GiB plus 80 to 200 KiB per row",
             source="live tensors of one MLP; the base as found on an RTX 4090 with vLLM 0.19.0"),
)


def memory(total, range_):
    return dict(total_bytes=total), declared(range_, source="as the driver reports the card")


def bandwidth(card):
    return (
        dict(read_gb_per_s=BANDWIDTH[card]),
        declared("a copy reaches 85 to 93 % of it", source="peak of the vendor's data sheet"),
    )


# ---- profiles ---------------------------------------------------------------------------------------------------


def percent(errors):
    return f"mean {errors['mean']:.1%}, 95th percentile {errors['p95']:.1%}, most {errors['most']:.1%}"


def carried_head(model, card, rate):
    return dict(
        table=dict(sequences=head(model, card, rate)),
        provenance=dict(
            kind="derived", source=SERVINGSIM, licence="MIT",
            method="LM head by vocabulary and peak bandwidth (1008 GB/s there), never below its flops at the sustained"
                   " dense rate; sampler likewise above its launch floor of 25 us",
            valid="1 to 1,024 sequences; from 257 on by flops alone; no tile edges of this card"),
    )


# A padded request of a FULL graph carries no KV and pays about what one more request of the smallest context does.
PADDED_REQUEST = "carries no KV and takes the slope of decode from 64 to 128 requests at the shortest context measured,"


def carried_attention(model, card, scale, floor_us, floor_text, scale_text):
    decode, errors = decode_grid(model, card, floor_us)
    heads = "" if model["kv_heads"] == 32 else ", a request of 8 KV heads priced as a quarter of one with 32"
    last = decode["x"][-1]
    return dict(
        separate_kernels=True,
        padded_request_us=padded_request_us(model) * BANDWIDTH["a800"] / BANDWIDTH[card],
        provenance=dict(
            kind="derived", source=FRONTIER, licence="MIT",
            method=f"decode: KV-cache write included{heads}; above {floor_text} by peak bandwidth"
                   f" (2039 GB/s there); thinned, error against all 10,112 rows {percent(errors)}. prefill:"
                   f" {scale_text}, beyond 4,096 tokens by flops at the rate of the table's largest prefills. padded"
                   f" request: {PADDED_REQUEST} 32 tokens, by KV heads and peak bandwidth",
            valid=f"decode 1 to {last} requests, 0 to 32,768 tokens of context (linear above 4,032); prefill chunks 1 to"
                  " 16,384, context 0 to 32,768"),
        decode=decode,
        prefill=prefill_grid(model, decode, scale),
    )


A800_FLOOR_US = 13.0 * 32  # decode 10 us and KV write 3 us per layer: one request of 32 tokens
H800_FLOOR_US = 9.9 * 32   # decode 7.4 us and KV write 2.5 us per layer, NetX-lab/Frontier H800, kernel time only


def a100():
    dense = vidur_dense(A100_8B)
    model = LLAMA_3_8B
    return dict(
        name="a100-llama-3-8b", device="NVIDIA A100-SXM4-80GB", model_name="meta-llama/Meta-Llama-3-8B", model=model,
        memory=memory(84_987_740_160, "79.1 to 79.4 GiB of an 80 GB card"),
        dense=dict(
            table=dict(rows=dense.points),
            provenance=dict(
                kind="imported", source=VIDUR + "a100/meta-llama/Meta-Llama-3-8B/mlp.csv", licence="MIT",
                method="medians of the operations of one layer, summed, times 32 layers; embedding and final norm (0.1 %"
                       " of a step) left out; sizes measured twice averaged",
                valid="1 to 32,768 rows, no measured size between multiples of 8: an edge lies up to 8 rows below its"
                      " knot"),
        ),
        head=carried_head(model, "a100", flops_per_us(dense, model)),
        bandwidth=bandwidth("a100"),
        attention=carried_attention(
            model, "a100", 1.0, A800_FLOOR_US, "the A800's floor of 13 us per layer", "as on the A800, the same silicon"),
        activation=PLANNED_ACTIVATION,
    )


def hopper_scale():
    """The H100's dense time over the A100's: Llama-2-7b at 4,096 rows."""
    return vidur_dense(H100_7B).points[4096] / vidur_dense(A100_7B).points[4096]


HOPPER_FLOOR = "a floor of 9.9 us per layer (H800, kernel time)"
HOPPER_PREFILL = "the A800's times the dense time of H100 over A100 for Llama-2-7b at 4,096 rows"


def h100():
    dense = vidur_dense(H100_7B)
    model = LLAMA_2_7B
    return dict(
        name="h100-llama-2-7b", device="NVIDIA H100 80GB HBM3", model_name="meta-llama/Llama-2-7b-hf", model=model,
        memory=memory(84_942_979_072, "79.1 to 79.4 GiB of an 80 GB card"),
        dense=dict(
            table=dict(rows=extended(dense, (8192, 16384)), measured_to=dense.x[-1]),
            provenance=dict(
                kind="imported", source=VIDUR + "h100/meta-llama/Llama-2-7b-hf/mlp.csv", licence="MIT",
                method="medians of the operations of one layer, summed, times 32 layers; embedding and final norm (0.1 %"
                       " of a step) left out; beyond 4,096 rows the mean slope from 2,048 to 4,096, derived",
                valid="1 to 4,096 rows as measured, to 16,384 rows as derived; no measured size between multiples of"
                      " 8"),
        ),
        head=carried_head(model, "h100", flops_per_us(dense, model)),
        bandwidth=bandwidth("h100"),
        attention=carried_attention(model, "h100", hopper_scale(), H800_FLOOR_US, HOPPER_FLOOR, HOPPER_PREFILL),
        activation=PLANNED_ACTIVATION,
    )


def h200():
    measured, points, shift = h200_dense()
    model = LLAMA_3_8B
    rate = flops_per_us(vidur_dense(H100_7B), LLAMA_2_7B)
    return dict(
        name="h200-llama-3.1-8b", device="NVIDIA H200", model_name="meta-llama/Llama-3.1-8B", model=model,
        memory=memory(150_117_285_888, "139 to 141 GiB"),
        dense=dict(
            table=dict(rows=points, measured_to=measured.x[-1]),
            provenance=dict(
                kind="derived",
                source="aiconfigurator-core 0.12.0 gemm_perf (H200, vLLM 0.24) for the shape; " + VIDUR
                       + "h100/meta-llama/Llama-2-7b-hf/mlp.csv for elementwise operations and level",
                licence="Apache-2.0 and MIT",
                method=f"GEMM sums of 32 layers, lowered by a constant {shift:.0f} us (64 kernel starts of their"
                       " construction) so that 1 to 8 rows take the weights at 77 % of 4,800 GB/s, the share that the"
                       " H100 reaches; plus the H100's elementwise operations, activation widened to 14,336; beyond"
                       f" {measured.x[-1]:,} rows the H100's sustained rate",
                valid=f"shape to {measured.x[-1]:,} rows (single measurements, +-4 %), level +-15 %; to 16,384 rows by"
                      " rate, without tile edges"),
        ),
        head=carried_head(model, "h200", rate),
        bandwidth=bandwidth("h200"),
        attention=carried_attention(model, "h200", hopper_scale(), H800_FLOOR_US, HOPPER_FLOOR, HOPPER_PREFILL),
        activation=PLANNED_ACTIVATION,
    )


def rtx4090():
    dense = rtx_dense()
    model = LLAMA_3_8B
    attention = rtx_attention()
    errors = attention.pop("errors")
    base = 1_027_897_754
    return dict(
        name="rtx4090-llama-3.1-8b", device="NVIDIA GeForce RTX 4090", engine_version="0.19.0",
        model_name="meta-llama/Llama-3.1-8B", model=model,
        memory=(
            dict(total_bytes=25_250_627_584),
            dict(kind="imported", source=SERVINGSIM + ": run metadata", licence="MIT"),
        ),
        dense=dict(
            table=dict(rows=extended(dense, (4096, 8192, 16384)), measured_to=dense.x[-1]),
            provenance=dict(
                kind="imported", source=SERVINGSIM + ": dense", licence="MIT",
                method="operations of one layer (the norm twice), summed, times 32 layers; embedding and final norm"
                       " (0.03 % of a step) left out; beyond 2,048 rows the mean slope from 1,024 to 2,048, derived",
                valid="1 to 2,048 rows as measured (every row to 16, every fourth to 64, every sixteenth beyond), to"
                      " 16,384 rows as derived"),
        ),
        head=dict(
            table=dict(sequences=head(model, "rtx4090", flops_per_us(dense, model)), measured_to=256),
            provenance=dict(
                kind="imported", source=SERVINGSIM + ": per_sequence", licence="MIT",
                method="LM head and sampler summed; beyond 256 sequences by flops at the sustained dense rate, derived",
                valid="1 to 256 sequences as measured, to 1,024 as derived"),
        ),
        bandwidth=bandwidth("rtx4090"),
        attention=dict(
            separate_kernels=False,
            padded_request_us=attention.pop("padded"),
            provenance=dict(
                kind="imported", source=SERVINGSIM + ": attention", licence="MIT",
                method="one layer times 32; context 0 and chunk 1 take the value of 16 tokens, the first size measured;"
                       f" mixed table thinned from 8,448 points, error against all of them {percent(errors)}; padded"
                       f" request: {PADDED_REQUEST} 16 tokens",
                valid="decode 1 to 256 requests, prefill chunks to 2,048, contexts to 16,384; mixed to 128 decoding"
                      " requests"),
            **attention,
        ),
        activation=activation(base, dict(
            kind="derived", source=SERVINGSIM + ": run metadata", licence="MIT",
            method="0.9 of the device memory, less weights, less 2,588 KV blocks of 16 tokens, less the rows' share at a"
                   " budget of 2,048 tokens",
            valid="vLLM 0.19.0 on one GPU; holds whatever graph memory that version set aside, so KV comes out low by"
                  " as much")),
    )


TEXTBOOK = "declared by the textbook exercise"


def textbook(name, slope_us):
    exact = declared("exact by declaration", source=TEXTBOOK)
    unstated = declared("0: the exercise states no such cost", source=TEXTBOOK)
    one_op = dict(eager=1, compiled=1, graph_nodes=1, attention_launches=0)
    flat = dict(us=0)
    return dict(
        name=name, overlap="additive", device="textbook GPU", model_name="llama-3-8b", model=LLAMA_3_8B,
        memory=(dict(total_bytes=80 * GIB), declared("any; the exercise states no device memory", source=TEXTBOOK)),
        dense=dict(
            line=dict(at_rows=8, us=4000, us_per_row=slope_us, valid_rows=[1, 512]),
            provenance=declared("exact by declaration", source=TEXTBOOK, valid="1 to 512 rows")),
        head=dict(constant=flat, provenance=unstated),
        launch=(dict(launch_us=1100), exact),
        replay=(dict(fixed_us=200, node_us=0), exact),
        update=(dict(update_us=0), unstated),
        pool=(
            dict(base_bytes=2 * GIB, bytes_per_row=0, full_executable_bytes=0, piecewise_executable_bytes=0),
            declared("exact by declaration: 2 GiB for the largest rung, executables not stated", source=TEXTBOOK)),
        capture=(dict(full_s=0.7, piecewise_s=0.7, first_extra_s=0), exact),
        attention=dict(separate_kernels=True, padded_request_us=0, provenance=unstated, decode=flat, prefill=flat),
        ops=(one_op, declared("exact by declaration: the launch figure is that of a whole step", source=TEXTBOOK)),
        dispatch=(
            dict(eager_us=0, compiled_us=0),
            declared("the exercise names a compiled eager step but declares no cost for it: set equal to eager",
                     source=TEXTBOOK)),
        host=(dict(step_overhead_us=0, per_request_us=0, padding_bookkeeping_us=150), exact),
        activation=(dict(base_bytes=0, bytes_per_row=0), unstated),
        startup=(dict(trace_s=0, compile_cold_s=0, compile_warm_s=0, memory_profiling_s=0, graph_sample_s=0,
                      kernel_warm_up_s=0, sampler_warm_up_s=0, other_s=0), unstated),
    )


# ---- writing ----------------------------------------------------------------------------------------------------


def number(value):
    """Shortest text of a number, one decimal for costs: the form that the Rust writer gives back."""
    text = f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class Text:
    def __init__(self):
        self.lines = []

    def value(self, key, value):
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, str):
            assert not set(value) & set('"\\\n'), value
            value = f'"{value}"'
        elif isinstance(value, list):
            return self.array(key, value, 12)
        elif isinstance(value, float):
            value = number(value)
        self.lines.append(f"{key} = {value}")

    def array(self, key, values, width):
        texts = [number(value) for value in values]
        if len(texts) <= width:
            self.lines.append(f"{key} = [{', '.join(texts)}]")
            return
        self.lines.append(f"{key} = [")
        for start in range(0, len(texts), width):
            self.lines.append(f"  {', '.join(texts[start:start + width])},")
        self.lines.append("]")

    def table(self, name, values):
        self.lines += ["", f"[{name}]"]
        for key, value in values.items():
            self.value(key, value)

    def provenance(self, table, provenance):
        order = ("kind", "source", "licence", "method", "valid", "range")
        self.table(f"{table}.provenance", {key: provenance[key] for key in order if key in provenance})

    def group(self, table, group):
        self.table(table, group[0])
        self.provenance(table, group[1])

    def curve(self, table, curve):
        for shape in ("line", "constant"):
            if shape in curve:
                self.table(f"{table}.{shape}", curve[shape])
        if "table" in curve:
            measured_to = curve["table"].get("measured_to")
            [(quantity, points)] = [item for item in curve["table"].items() if item[0] != "measured_to"]
            self.table(f"{table}.table", {f"measured_to_{quantity}": measured_to} if measured_to else {})
            self.array(quantity, list(points), 12)
            self.array("us", list(points.values()), 12)
        self.provenance(table, curve["provenance"])

    def surface(self, table, names, grid):
        if "x" not in grid:
            self.table(f"{table}.constant", grid)
            return
        self.table(f"{table}.table", dict(zip(names, (grid["x"], grid["y"]))))
        self.array("us", grid["us"], len(grid["y"]))

    def attention(self, table, attention):
        self.table(table, {key: attention[key] for key in ("separate_kernels", "padded_request_us")})
        self.provenance(table, attention["provenance"])
        self.surface(f"{table}.decode", ("requests", "context_tokens"), attention["decode"])
        self.surface(f"{table}.prefill", ("chunk_tokens", "context_tokens"), attention["prefill"])
        if "mixed" in attention:
            mixed = attention["mixed"]
            names = ("chunk_tokens", "prefill_context_tokens", "decode_requests", "decode_context_tokens")
            self.table(f"{table}.mixed", dict(zip(names, mixed["axes"])))
            self.array("us", mixed["us"], len(mixed["axes"][3]))


def render(profile):
    text = Text()
    text.lines.append("# Written by derive.py: change that, not this file.")
    text.value("schema", 1)
    text.value("name", profile["name"])
    text.value("overlap", profile.get("overlap", "pipelined"))
    identity = dict(device=profile["device"], engine="vllm")
    if "engine_version" in profile:
        identity["engine_version"] = profile["engine_version"]
    identity["model_name"] = profile["model_name"]
    text.table("identity", identity)
    formats = dict(weight_bits=16, kv_bits=16, tied_embeddings=False, qkv_bias=False, qk_norm=False)
    text.table("identity.model", {**profile["model"], **formats})
    text.group("machine.memory", profile["memory"])
    text.curve("machine.dense", profile["dense"])
    text.curve("machine.head", profile["head"])
    for name in ("launch", "replay", "update", "pool", "capture", "bandwidth"):
        if name in profile:
            text.group(f"machine.{name}", profile[name])
    text.attention("engine.attention", profile["attention"])
    for name in ("ops", "dispatch", "host", "activation", "startup"):
        text.group(f"engine.{name}", profile[name])
    return "\n".join(text.lines) + "\n"


def profiles():
    """Every built-in profile: file name -> text. Those from tables are left out where the tables are not at hand."""
    found = [textbook("textbook", 240), textbook("textbook-weight-bound", 20)]
    missing = [table for table in TABLES if not (TRACES / table).is_file()]
    if missing:
        print(f"skipped: no {TRACES / missing[0]}", file=sys.stderr)
    else:
        defaults = {**planning_machine(), **planning_engine()}
        found += [{**defaults, **card()} for card in (a100, h100, h200, rtx4090)]
    return {f"{profile['name']}.toml": render(profile) for profile in found}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    differing = []
    for name, text in profiles().items():
        path = HERE / name
        if not check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            differing.append(name)
    if differing:
        sys.exit(f"not what derive.py gives: {', '.join(differing)}; run scenarios/profiles/derive.py")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What `sim propose` finds against ladders by rule: python3 sim/benches/proposals.py [SIM]

SIM is the binary [default: target/release/sim, or that of CARGO_TARGET_DIR]. Prints Markdown: for each case the proposal
beside the engine's own ladder and three kinds of ladders by rule, with paired differences on traffic that the search did
not see. No ladder takes more graph memory than the engine's own. Of each kind there are two: up to the engine's own ceiling,
and the longest one; where both are the same or the first takes too much, the second alone.

A scenario's traffic is drawn anew, by other seeds than the search used. A trace draws nothing: the search plays its first
half, and the ladders are compared on windows of its second half. The trace is read from RUNGWISE_SHARED (default
../shared); what needs it is skipped where it is missing.
"""

import json
import math
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / os.environ.get("RUNGWISE_SHARED", "../shared") / "traces/workloads/splitwise_conv_clip4096.csv"
# `sim propose` searches, chooses and checks on a few dozen seeds, from the scenario's own on.
SEEDS = range(1_000, 1_016)
WINDOWS = 8
# Two-sided 95 % quantiles of Student's distribution, by degrees of freedom.
STUDENT = {WINDOWS - 1: 2.365, len(SEEDS) - 1: 2.131}

RECORDED = """schema = 1
name = "Azure conversations of November 2023, {title}"
[server.vllm]
version = "0.33.0"
runner = "v2"
max_num_seqs = {max_num_seqs}
max_num_batched_tokens = {budget}
max_model_len = 8192
[profile]
builtin = "{profile}"
[traffic.arrivals.trace]
file = "{file}"
[slo]
ttft = "{ttft}"
tpot = "{tpot}"
"""
FIGURES = ("goodput, requests/s", "p99 TPOT, ms", "steps of a request, ms")
# What is better: more goodput, less of the others.
SIGNS = (1, -1, -1)


def step_8(last):
    return [1, *range(8, last + 1, 8)]


def powers_of_two(last):
    return [1 << bit for bit in range(last.bit_length())]


def bounded_waste(last):
    """Each size is at most 1/8 above the smallest batch that it pads."""
    sizes = [1]
    while (larger := (sizes[-1] + 1) * 9 // 8) <= last:
        sizes.append(larger)
    return sizes


KINDS = {"step 8": step_8, "powers of two": powers_of_two, "at most 1/8 above": bounded_waste}


class Case:
    """A server and its traffic: what the search sees, and what ladders are compared on."""

    def __init__(self, name, searched, checked, seeds):
        self.name, self.searched, self.checked, self.seeds = name, searched, checked, seeds
        self.is_sglang = "[server.sglang]" in searched


def scenario(file):
    """A scenario of this repository without its candidates and expectations."""
    text = (ROOT / "scenarios" / file).read_text()
    text = re.split(r"^\[\[(?:candidate|expect)\]\]", text, maxsplit=1, flags=re.M)[0]
    text = text.replace('"profiles/', f'"{ROOT}/scenarios/profiles/')
    return Case(f"`{file}`", text, [text] * len(SEEDS), list(SEEDS))


def recorded(folder, title, **server):
    """The trace cut in two halves, and the second one into windows."""
    header, *rows = TRACE.read_text().splitlines()
    half = len(rows) // 2
    edges = [half + (len(rows) - half) * cut // WINDOWS for cut in range(WINDOWS + 1)]

    def played(name, part):
        file = folder / name
        file.write_text("\n".join([header, *part]) + "\n")
        return RECORDED.format(title=title, file=file, **server)

    searched = played("first_half.csv", rows[:half])
    windows = [played(f"window_{cut}.csv", rows[edges[cut] : edges[cut + 1]]) for cut in range(WINDOWS)]
    return Case(f"Azure conversations, {title}", searched, windows, [0] * WINDOWS)


def cases(folder):
    for file in ("chunked.toml", "bursty.toml", "spec_decode.toml", "sglang_ceiling.toml"):
        yield scenario(file)
    if not TRACE.is_file():
        print(f"skipped: no {TRACE}", file=sys.stderr)
        return
    a100 = {"profile": "a100-llama-3-8b", "max_num_seqs": 128, "budget": 4096, "ttft": "1s", "tpot": "50ms"}
    h100 = {"profile": "h100-llama-2-7b", "max_num_seqs": 256, "budget": 2048, "ttft": "200ms", "tpot": "15ms"}
    yield recorded(folder, "an A100 near its limit", **a100)
    yield recorded(folder, "an H100 with room", **h100)


class Sim:
    """The binary, and a folder for what it reads."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder

    def ask(self, command, text, *arguments):
        with tempfile.NamedTemporaryFile("w", suffix=".toml", dir=self.folder) as file:
            file.write(text)
            file.flush()
            asked = [self.binary, command, file.name, *map(str, arguments), "--format", "json"]
            ended = subprocess.run(asked, capture_output=True, text=True)
        if ended.returncode:
            sys.exit(f"{' '.join(map(str, asked))}: exit {ended.returncode}\n{ended.stderr}")
        return json.loads(ended.stdout)

    def graph_memory(self, case, keys):
        """Bytes that the graphs of a candidate take: two requests are enough to ask."""
        text = re.sub(r"^requests = \d+", "requests = 2", case.searched, flags=re.M)
        text = text.replace("[traffic.arrivals.trace]\n", "[traffic.arrivals.trace]\nlimit = 2\n")
        (candidate,) = self.ask("run", text + candidate_table("one", keys))["candidates"]
        return candidate["graph_memory_bytes"]


def candidate_table(name, keys):
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(["", "[[candidate]]", f"name = {json.dumps(name)}", *lines, ""])


def by_rule(case, sizes):
    """A ladder by rule; of SGLang the decode ladder, beside the engine's own for prefill."""
    return {"cuda_graph_bs_decode" if case.is_sglang else "cudagraph_capture_sizes": sizes}


def rivals(sim, case, memory):
    """Ladders by rule that take no more than `memory`, by name."""
    option = "max_running_requests" if case.is_sglang else "max_num_batched_tokens"
    limit = int(re.search(rf"^{option} = (\d+)", case.searched, flags=re.M)[1])
    (own,) = sim.ask("ladder", case.searched)["candidates"]
    ceiling = own["ladders"][0]["sizes"][-1]
    named = {}
    for name, kind in KINDS.items():
        lists = [kind(ceiling), longest(sim, case, kind(limit), memory)]
        if lists[0] == lists[1] or sim.graph_memory(case, by_rule(case, lists[0])) > memory:
            lists = lists[1:]
        named |= {f"{name}, to {sizes[-1]}": by_rule(case, sizes) for sizes in lists}
    return named


def longest(sim, case, sizes, memory):
    """The longest beginning of a ladder whose graphs take no more memory than `memory`."""
    fits, too_long = 1, len(sizes) + 1
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        if sim.graph_memory(case, by_rule(case, sizes[:middle])) <= memory:
            fits = middle
        else:
            too_long = middle
    return sizes[:fits]


def proposed(choice):
    """The keys of a candidate with the proposal's lists."""
    keys = {}
    for ladder in choice["lists"]:
        phase, sizes = ladder["phase"], ladder["sizes"]
        if phase == "all":
            keys.update({"cudagraph_capture_sizes": sizes} if sizes else {"cudagraph_mode": "NONE"})
        else:
            keys.update({f"cuda_graph_bs_{phase}": sizes} if sizes else {f"disable_{phase}_cuda_graph": True})
    return keys


def figures(candidate):
    """The three figures that decide, in their order; nan where one is undefined."""
    undefined = math.nan
    goodput, tpot = candidate["request_goodput"], candidate["p99_tpot_ms"]
    steps_ms = candidate["mean_step_ms"] * candidate["steps"] / candidate["completed"]
    return [undefined if goodput is None else goodput, undefined if tpot is None else tpot, steps_ms]


def difference(left, right):
    """Mean of the paired differences and half of their 95 % interval."""
    paired = [one - other for one, other in zip(left, right)]
    if any(map(math.isnan, paired)):
        return math.nan, math.nan
    half = STUDENT[len(paired) - 1] * statistics.stdev(paired) / math.sqrt(len(paired))
    return statistics.fmean(paired), half


def decided(left, right):
    """The first figure that tells the two apart, and whether the left one is better by it; none where nothing tells."""
    for place, sign in enumerate(SIGNS):
        mean, half = difference(left[place], right[place])
        if abs(mean) > half:
            return FIGURES[place].split(",")[0], sign * mean > 0
    return None


def sizes_of(keys):
    """The lists in short."""

    def short(sizes):
        return " ".join(map(str, sizes)) if len(sizes) <= 12 else f"{sizes[0]} to {sizes[-1]}, {len(sizes)} sizes"

    words = {"cuda_graph_bs_decode": "decode ", "cuda_graph_bs_prefill": "prefill "}
    lists = [words.get(key, "") + (short(value) if isinstance(value, list) else "none") for key, value in keys.items()]
    return "; ".join(lists) or "the engine's own"


def number(value, half=None):
    if math.isnan(value):
        return "-"
    digits = max(0, 3 - math.floor(math.log10(abs(value) or 1)))
    shown = f"{value:,.{digits}f}" if half is None else f"{value:+,.{digits}f} ±{half:,.{digits}f}"
    return shown


def cpu_seconds():
    """Processor time of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def compare(sim, case):
    memory = sim.graph_memory(case, {})
    others = {"engine default": {}} | rivals(sim, case, memory)
    start, used = time.perf_counter(), cpu_seconds()
    answer = sim.ask("propose", case.searched, "--graph-memory", f"{memory}B")
    seconds, used = time.perf_counter() - start, cpu_seconds() - used
    candidates = {"proposal": proposed(answer["proposal"]), **others}
    tables = "".join(candidate_table(name, keys) for name, keys in candidates.items())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = pool.map(lambda text, seed: sim.ask("run", text + tables, "--seed", seed), case.checked, case.seeds)
        by_run = [{run["name"]: run for run in report["candidates"]} for report in runs]
    told = {name: list(zip(*(figures(run[name]) for run in by_run))) for name in candidates}
    print(f"\n### {case.name}\n")
    print(f"{answer['verdict']['sentence']}\n")
    print(f"Graph memory at most {memory / 2**30:.2f} GiB. {seconds:.1f} s ({used:.1f} s of CPU): "
          f"{answer['search']['ladders']} ladders, {answer['search']['runs']} runs.\n")
    print("| ladder | sizes | GiB | " + " | ".join(FIGURES) + " | proposal minus this, by figure | told apart by |")
    print("|---|---|---|" + "---|" * len(FIGURES) + "---|---|")
    worse = []
    for name, keys in candidates.items():
        means = " | ".join(number(statistics.fmean(values)) for values in told[name])
        gibibytes = statistics.fmean(run[name]["graph_memory_bytes"] for run in by_run) / 2**30
        minus, verdict = "", ""
        if name != "proposal":
            pairs = [difference(*values) for values in zip(told["proposal"], told[name])]
            minus = "; ".join(number(*pair) for pair in pairs)
            first = decided(told["proposal"], told[name])
            verdict = "nothing" if first is None else f"{first[0]}: {'better' if first[1] else 'worse'}"
            if first is not None and not first[1]:
                worse.append(name)
        print(f"| {name} | {sizes_of(keys)} | {gibibytes:.2f} | {means} | {minus} | {verdict} |", flush=True)
    print(f"\n{'Worse than: ' + ', '.join(worse) + '.' if worse else 'Not worse than any of them.'}", flush=True)


def main():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else target / "release/sim"
    if not binary.is_file():
        sys.exit(f"no {binary}: cargo build --release -p sim")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        sim = Sim(binary.resolve(), folder)
        for case in cases(folder):
            compare(sim, case)


if __name__ == "__main__":
    main()

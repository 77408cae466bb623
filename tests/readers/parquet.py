#!/usr/bin/env python3
"""Read the Parquet tables of `sim` with a reader that is not polars: pyarrow.

    parquet.py SIM        run SIM, a build with the feature `frames`, on scenarios of this repository and check what it writes

Columns and types are those that reports/SCHEMA.md documents; rows are those of the JSONL and CSV, cell by cell; totals are
those of run.json; the tables of shards put together are those of the whole sweep.

pyarrow comes from its wheel, installed with pip into <target directory>/readers. Where it cannot be had, the script says so and
exits 0, or 1 with --require. Needs nothing else.
"""

import argparse
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYARROW = "pyarrow==26.0.1"
GROUP_ROWS = 65536
# A scenario, and what it is for.
RUNS = [
    ("chunked", ["--requests", "300"], "FULL, PIECEWISE and none, above the ceiling"),
    ("chunked", ["--requests", "60", "--seeds", "3"], "several seeds"),
    ("data_parallel", ["--requests", "200"], "several ranks, which pad steps without a graph"),
    ("decode_heavy", ["--requests", "700"], "a warm-up cut"),
    ("lora", ["--requests", "200"], "adapters"),
    ("sglang_dedup", ["--requests", "200"], "phases, and executables that are updated"),
    ("shared_prefix", ["--requests", "200"], "a prefix cache"),
    ("spec_decode", ["--requests", "200"], "drafts"),
]


class Missing(Exception):
    """A reader that cannot be had here."""


def reader():
    """pyarrow.parquet, from its wheel."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    folder = target / "readers" / PYARROW.replace("==", "-")
    if not folder.exists():
        # The folder appears whole or not at all: half a package would be taken for a broken one.
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1",
               "--no-deps", "--only-binary=:all:", "--target", str(partial), PYARROW]
        got = subprocess.run(pip, capture_output=True, text=True)
        if got.returncode != 0:
            lines = got.stderr.strip().splitlines() or ["pip failed"]
            raise Missing(f"{PYARROW}: {lines[-1]}")
        partial.rename(folder)
    sys.path.insert(0, str(folder))
    import pyarrow.parquet
    return pyarrow.parquet


def must(holds, message):
    if not holds:
        sys.exit(f"{message}")


def documented(title):
    """Name and type of every field below the heading `title` of SCHEMA.md."""
    schema = (ROOT / "reports" / "SCHEMA.md").read_text()
    section = schema.split(f"## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \| ([^|]+) \|", section, re.MULTILINE)
    must(rows, f"SCHEMA.md documents no field of {title}")
    return rows


def typed(field):
    """The type of a column in the words of SCHEMA.md: how strings and offsets are held in memory is the reader's affair."""
    words = {"string_view": "string", "large_string": "string", "large_list<element: uint32>": "list of uint32",
             "large_list<item: uint32>": "list of uint32", "list<element: uint32>": "list of uint32"}
    return words.get(str(field.type), str(field.type))


class Folder:
    """What one run or sweep wrote."""

    def __init__(self, parquet, path):
        self.parquet = parquet
        self.path = path

    def rows(self, name, columns):
        """The rows of one table, once its columns are as documented: name, type, and null only where it may be."""
        file = self.parquet.ParquetFile(self.path / name)
        fields = [(field.name, typed(field)) for field in file.schema_arrow]
        wanted = [(column, kind.removesuffix(" or null")) for column, kind in columns]
        must(fields == wanted, f"{name}: columns {fields}\nare not the documented {wanted}")
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
        must(all(size == GROUP_ROWS for size in sizes[:-1]) and sizes[-1] <= GROUP_ROWS, f"{name}: row groups {sizes}")
        table = file.read()
        for column, kind in columns:
            may = kind.endswith(" or null")
            must(may or table.column(column).null_count == 0, f"{name}: {column} has nulls")
        about = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
        return table.to_pylist(), {key.removeprefix("rungwise."): value for key, value in about.items() if "rungwise." in key}

    def json(self, name):
        return json.loads((self.path / name).read_text())

    def csv(self, name):
        with open(self.path / name, newline="") as file:
            return list(csv.DictReader(file))


def same_rows(name, found, expected):
    must(len(found) == len(expected), f"{name}: {len(found)} rows, {len(expected)} expected")
    for place, (one, other) in enumerate(zip(found, expected)):
        if one != other:
            keys = [key for key in {**one, **other} if one.get(key, "-") != other.get(key, "-")]
            sys.exit(f"{name}: row {place} differs in "
                     + ", ".join(f"{key} ({one.get(key)!r}, expected {other.get(key)!r})" for key in keys))


def from_csv(cells, columns):
    """A row of a CSV with the values that its columns have in a table."""
    convert = {"string": str, "bool": lambda cell: cell == "true", "double": float, "uint32": int, "uint64": int, "int64": int,
               "list of uint32": lambda cell: [int(size) for size in cell.split()]}
    row = {}
    for column, kind in columns:
        cell = cells[column]
        null = cell == "" and kind.endswith(" or null")
        row[column] = None if null else convert[kind.removesuffix(" or null")](cell)
    return row


def from_jsonl(path):
    """The rows of steps.jsonl, flat."""
    graph = [name.removeprefix("descriptor.") for name, _ in documented("`steps.parquet`") if name.startswith("descriptor.")]
    with open(path) as lines:
        for line in map(json.loads, lines):
            if "header" in line:
                header = line["header"]
                continue
            step = line["step"]
            row = {"candidate": header["candidate"], "seed": header["seed"]}
            for key, value in step.items():
                if key == "descriptor":
                    row |= {f"descriptor.{part}": (value or {}).get(part) for part in graph}
                elif key == "cost":
                    row |= {f"cost.{part}": ns for part, ns in value.items()}
                elif key == "prefills":
                    row["prefills.chunk"] = [chunk for chunk, _ in value]
                    row["prefills.context"] = [context for _, context in value]
                else:
                    row[key] = value
            yield row


def near(one, other):
    return one == other or (one is not None and other is not None and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9))


def check_totals(report, figures, steps, requests, rungs):
    """Sums over the tables against the report; over the seeds of each candidate, where the report has means of them."""
    seeds = report.get("seeds", [report["seed"]])
    mean = lambda figure: figure["mean"] if isinstance(figure, dict) else figure
    for candidate in report["candidates"]:
        name = candidate["name"]
        same = lambda what, sum, figure: must(
            near(sum / len(seeds), mean(figure)), f"{name}: {what} {sum / len(seeds)} in the tables, {mean(figure)} in run.json")
        served = [row for row in rungs if row["candidate"] == name]
        ran = [row for row in steps if row["candidate"] == name]
        asked = [row for row in requests if row["candidate"] == name]
        on_rungs = [row for row in served if row["fallback"] is None]
        same("steps of rungs and causes", sum(row["steps"] for row in served), candidate["steps"])
        same("saved ms of rungs", sum(row["saved_ms"] for row in on_rungs), candidate["saved_ms"])
        for cause, figure in candidate["fallbacks"].items():
            same(cause, sum(row["steps"] for row in served if row["fallback"] == cause), figure)
        for place, rung in enumerate(candidate["rungs"]):
            rows = on_rungs[place :: len(candidate["rungs"])]
            must({(row["mode"], row["phase"], row["size"]) for row in rows} == {(rung["mode"], rung["phase"], rung["size"])},
                 f"{name}: rung {place} is not in its place")
            for figure in ("steps", "exact_steps", "real_rows", "padded_rows", "saved_ms"):
                same(f"{figure} of rung {rung['size']}", sum(row[figure] for row in rows), rung[figure])
        same("steps", len(ran), mean(candidate["steps"]) + mean(candidate["cold_start"]["steps"]))
        same("preempted", sum(row["preempted"] for row in ran), sum(row["preemptions"] for row in asked) / len(seeds))
        if mean(candidate["cold_start"]["steps"]) > 0:
            continue  # The figures leave a part of the steps out.
        graph = [row for row in ran if row["descriptor.tokens"] is not None]
        exact = sum(row["padded_rows"] == 0 for row in graph)
        same("exact steps", exact, sum(mean(rung["exact_steps"]) for rung in candidate["rungs"]))
        same("padded rows", sum(row["padded_rows"] for row in graph), sum(mean(rung["padded_rows"]) for rung in candidate["rungs"]))
        same("real rows", sum(row["real_rows"] for row in graph), sum(mean(rung["real_rows"]) for rung in candidate["rungs"]))
        same("saved ms of steps", sum(row["saved_ns"] or 0 for row in ran) / 1e6, candidate["saved_ms"])
        same("completed", sum(row["outcome"] == "finished" for row in asked), candidate["completed"])
        same("refused", sum(row["outcome"] == "refused" for row in asked), candidate["refused"])
        same("preemptions", sum(row["preempted"] for row in ran), candidate["preemptions"])
        for cause, figure in candidate["fallbacks"].items():
            same(f"steps, {cause}", sum(row["fallback"] == cause for row in ran), figure)
        for row in (row for row in figures if row["candidate"] == name):
            good = sum(request["good"] is True for request in asked if request["seed"] == row["seed"])
            goodput = row["request_goodput"]
            must(goodput is None or near(good / row["duration_s"], goodput), f"{name}: {good} good requests, goodput {goodput}")


def check_run(folder):
    """One folder of `sim run --out --steps --parquet`; how many rows its tables have."""
    report = folder.json("run.json")
    columns = {name: documented(f"`{name}.parquet`") for name in ("steps", "requests", "rungs", "figures")}
    figure_names = list(folder.csv("figures.csv")[0])[len(columns["figures"]) :]
    columns["figures"] += [(name, "double or null") for name in figure_names]
    tables = {}
    for name in columns:
        tables[name], about = folder.rows(f"{name}.parquet", columns[name])
        wanted = {"version": report["version"], "scenario": report["scenario"]["name"],
                  "scenario_sha256": report["scenario"]["sha256"], "profile": report["profile"]["name"],
                  "profile_sha256": report["profile"]["sha256"]}
        must(about == wanted, f"{name}.parquet is of {about}, run.json of {wanted}")
    same_rows("steps.parquet", tables["steps"], list(from_jsonl(folder.path / "steps.jsonl")))
    for name in ("requests", "figures"):
        rows = [from_csv(row, columns[name]) for row in folder.csv(f"{name}.csv")]
        same_rows(f"{name}.parquet", tables[name], rows)
    check_totals(report, tables["figures"], tables["steps"], tables["requests"], tables["rungs"])
    return {name: len(rows) for name, rows in tables.items()}


def check_sweep(folder, kinds):
    """One folder of `sim sweep --out --parquet`, whose keys have columns of these types."""
    lines = [json.loads(line) for line in (folder.path / "reports.jsonl").read_text().splitlines()]
    several = "seeds" in lines[0]["report"]
    point = [("point", "uint64"), *kinds.items(), ("candidate", "string")]
    cells = folder.csv("figures.csv")
    for row in cells:
        row["candidate"] = row.pop("name")
    left = [name for name in cells[0] if name not in dict(point)]
    columns = point + [("capture_sizes", "list of uint32"), ("cudagraph_mode", "string")]
    columns += [(name, "double or null") for name in left if name not in dict(columns)]
    rows, _ = folder.rows("figures.parquet", columns)
    same_rows("figures.parquet", rows, [from_csv(row, columns) for row in cells])

    columns = point + [column for column in documented("`rungs.parquet`") if column[0] not in ("candidate", "seed")]
    if several:
        figures = [name for name, _ in columns[-5:]]
        columns = columns[:-5] + [(f"{name}.{part}", "double or null") for name in figures for part in ("mean", "low", "high")]
    rungs, _ = folder.rows("rungs.parquet", columns)
    steps = "steps.mean" if several else "steps"
    for line in lines:
        for candidate in line["report"]["candidates"]:
            served = [row[steps] for row in rungs if (row["point"], row["candidate"]) == (line["point"], candidate["name"])]
            figure = candidate["steps"]["mean"] if several else candidate["steps"]
            must(near(sum(served), figure), f"point {line['point']}, {candidate['name']}: {sum(served)} steps, not {figure}")
    return {"figures": len(rows), "rungs": len(rungs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sim", type=Path, help="the binary")
    parser.add_argument("--require", action="store_true", help="fail where pyarrow cannot be had")
    options = parser.parse_args()
    try:
        parquet = reader()
    except Missing as missing:
        print(f"skipped: {missing}")
        sys.exit(1 if options.require else 0)

    def sim(*words, threads=None):
        environment = {**os.environ, **({"RAYON_NUM_THREADS": str(threads)} if threads else {})}
        done = subprocess.run([options.sim.resolve(), *words], capture_output=True, text=True, env=environment)
        must(done.returncode == 0, f"sim {' '.join(map(str, words))}: {done.stderr}")

    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        for number, (scenario, arguments, why) in enumerate(RUNS):
            out = temporary / str(number)
            words = ["run", ROOT / f"scenarios/{scenario}.toml", *arguments, "--steps", "--parquet", "--out"]
            sim(*words, out)
            rows = check_run(Folder(parquet, out))
            print(f"{scenario} ({why}): {rows['steps']} steps, {rows['requests']} requests, {rows['rungs']} rungs and causes")
            if "--seeds" in arguments:
                sim(*words, temporary / "again", threads=3)
                for table in out.glob("*.parquet"):
                    must((temporary / "again" / table.name).read_bytes() == table.read_bytes(), f"{table.name} on three threads")
        scenario = temporary / "short.toml"
        text = (ROOT / "scenarios/chunked.toml").read_text()
        text, times = re.subn(r"^requests = \d+$", "requests = 40", text, flags=re.MULTILINE)
        must(times == 1, "chunked.toml states its requests otherwise")
        scenario.write_text(text.replace('file = "', f'file = "{ROOT}/scenarios/'))
        vary = ["--vary", "rate=4,5.5", "--vary", "max_num_seqs=64,256", "--vary", "slo.ttft=1s,2s"]
        for seeds in ("1", "3"):
            sweep = ["sweep", scenario, *vary, "--seeds", seeds, "--parquet", "--out"]
            whole = temporary / f"sweep{seeds}"
            sim(*sweep, whole)
            keys = [axis["key"] for axis in json.loads((whole / "manifest.json").read_text())["axes"]]
            rows = check_sweep(Folder(parquet, whole), dict(zip(keys, ["double", "int64", "string"])))
            shards = [temporary / f"shard{seeds}{index}" for index in range(2)]
            for index, shard in enumerate(shards):
                sim(*sweep, shard, "--shard", f"{index}/2")
            sim("merge", *shards, "--parquet", "--out", temporary / f"merged{seeds}")
            for name in ("figures.parquet", "rungs.parquet"):
                merged = (temporary / f"merged{seeds}" / name).read_bytes()
                must(merged == (whole / name).read_bytes(), f"{name} of merged shards is not that of the whole sweep")
            print(f"a sweep of 8 points, seeds {seeds}, whole and in shards: {rows['figures']} rows, {rows['rungs']} rungs and causes")


if __name__ == "__main__":
    main()

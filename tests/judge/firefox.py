# Holds a profile against the rules of the Firefox Profiler's processed format, version 48, and adds up what it has.
import collections
import json
import sys
from fractions import Fraction

# Milliseconds have six decimals, which floating-point numbers would round.
profile = json.load(open(sys.argv[1]), parse_float=Fraction)
meta = profile["meta"]
assert meta["preprocessedProfileVersion"] == 48 and meta["symbolicated"] is True
assert any(category["color"] == "grey" for category in meta["categories"])
schemas = {schema["name"]: {field["key"] for field in schema["data"]} for schema in meta["markerSchema"]}
assert all(lib.keys() >= {"arch", "name", "path", "debugName", "debugPath", "breakpadId", "codeId"} for lib in profile["libs"])
COLUMNS = {
    "samples": {"stack", "time", "weight"},
    "markers": {"data", "name", "startTime", "endTime", "phase", "category"},
    "stackTable": {"frame", "category", "subcategory", "prefix"},
    "frameTable": {"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID", "implementation", "line", "column"},
    "funcTable": {"isJS", "relevantForJS", "name", "resource", "fileName", "lineNumber", "columnNumber"},
    "resourceTable": {"lib", "name", "host", "type"},
    "nativeSymbols": {"libIndex", "address", "name", "functionSize"},
}
sums, leaves, seen = collections.Counter(), collections.Counter(), set()


def nanoseconds(milliseconds):
    value = Fraction(milliseconds) * 1_000_000
    assert value.denominator == 1, milliseconds
    return int(value)


def within(values, limit, free=()):
    for value in values:
        assert value in free or (isinstance(value, int) and 0 <= value < limit), (value, limit)


for thread in profile["threads"]:
    assert isinstance(thread["pid"], str) and thread["processType"] == "default" and isinstance(thread["isMainThread"], bool)
    assert (thread["pid"], thread["tid"]) not in seen
    seen.add((thread["pid"], thread["tid"]))
    for table, columns in COLUMNS.items():
        rows = thread[table]
        assert rows.keys() - {"length", "weightType"} == columns, (table, rows.keys())
        assert all(len(rows[column]) == rows["length"] for column in columns), table
    texts, categories = len(thread["stringArray"]), len(meta["categories"])
    samples, markers, stacks, frames = (thread[name] for name in ["samples", "markers", "stackTable", "frameTable"])
    functions, resources = thread["funcTable"], thread["resourceTable"]
    within(samples["stack"], stacks["length"], [None])
    assert samples["time"] == sorted(samples["time"]) and markers["startTime"] == sorted(markers["startTime"])
    within(stacks["frame"], frames["length"])
    within(stacks["category"] + frames["category"] + markers["category"], categories)
    for place, prefix in enumerate(stacks["prefix"]):
        assert prefix is None or 0 <= prefix < place
    within(frames["func"], functions["length"])
    within(functions["name"] + markers["name"] + resources["name"], texts)
    within(functions["fileName"], texts, [None])
    within(functions["resource"], resources["length"], [-1])
    within(resources["lib"], len(profile["libs"]))
    for stack, weight in zip(samples["stack"], samples["weight"]):
        sums["samples"] += nanoseconds(weight)
        if stack is not None:
            leaves[thread["stringArray"][functions["name"][frames["func"][stacks["frame"][stack]]]]] += nanoseconds(weight)
    for start, end, phase, data in zip(markers["startTime"], markers["endTime"], markers["phase"], markers["data"]):
        assert data.keys() - {"type"} <= schemas[data["type"]], data
        assert (phase == 0 and end is None) or (phase == 1 and end >= start), (phase, start, end)
        sums[data["type"]] += 0 if end is None else nanoseconds(end) - nanoseconds(start)
print(json.dumps({"sums": sums, "leaves": leaves, "libraries": [lib["name"] for lib in profile["libs"]]}))

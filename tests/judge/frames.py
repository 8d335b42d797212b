# Tables by the module rsys, as rows and as frames: python3 frames.py DIR. Says which libraries it found; fails where a value is another one.
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../user/python"))
import rsys

# What SQL can give: numbers that no double holds, both ends of 64 bits, nothing, and texts that other formats would break.
SQL = """select 9007199254740993 as whole, 0.1 as part, 'a
b,";{}' as text, null as missing, 1 as mixed, 'x' as either, 7 as known
union all select 9223372036854775807, null, '', null, 0.5, 2, 8
union all select -9223372036854775808, 1e300, null, null, null, null, 9
union all select null, -2.0, 'ü€', null, 2, 0.5, -1"""
EXPECTED = {
    "whole": [2**53 + 1, 2**63 - 1, -(2**63), None],
    "part": [0.1, None, 1e300, -2.0],
    "text": ['a\nb,";{}', "", None, "ü€"],
    "missing": [None] * 4,
    "mixed": [1, 0.5, None, 2],
    "either": ["x", 2, None, 0.5],
    "known": [7, 8, 9, -1],
}
# Columns of several types: as numbers where all are, else as texts.
FITTING = dict(EXPECTED, mixed=[1.0, 0.5, None, 2.0], either=["x", "2", None, "0.5"])

run = rsys.read(sys.argv[1])
answer = run.query(SQL)
assert answer.columns == list(EXPECTED) and len(answer) == 4, answer.columns
assert answer.rows() == list(answer) == [dict(zip(EXPECTED, row)) for row in zip(*EXPECTED.values())], answer.rows()
assert next(iter(run.samples)) == run.samples.rows()[0]
assert "<td>9007199254740993</td>" in answer._repr_html_()

found = []
try:
    import pandas
except ImportError:
    pass
else:
    found.append("pandas")
    frame = answer.pandas()
    for name, values in FITTING.items():
        told = [None if pandas.isna(value) else value for value in frame[name]]
        assert told == values, (name, told)
    assert (str(frame["whole"].dtype), str(frame["known"].dtype)) == ("Int64", "int64"), frame.dtypes
    by_function = run.samples.pandas().groupby("function")["weight"].sum()
    same = run.query("select function, sum(weight) as weight from samples where function is not null group by function")
    assert {row["function"]: row["weight"] for row in same} == by_function.to_dict()
try:
    import polars
except ImportError:
    pass
else:
    found.append("polars")
    assert answer.polars().to_dict(as_series=False) == FITTING, answer.polars()
    assert run.samples.polars()["weight"].sum() == sum(row["weight"] for row in run.samples)
    # A table without rows has its columns with their types.
    assert run.operations.polars().schema["duration_ns"] == polars.Int64
try:
    import pyarrow
except ImportError:
    pass
else:
    found.append("pyarrow")
    assert answer.arrow().to_pydict() == FITTING, answer.arrow()
    assert run.operations.arrow().schema.field("duration_ns").type == pyarrow.int64()

for ask, error, words in [
    (lambda: run.nonsense, AttributeError, "operations"),
    (lambda: run["nonsense"], KeyError, "operations"),
    (lambda: run.query("select nonsense from samples").rows(), rsys.Error, "nonsense"),
    (lambda: run.ask("gaps", "--nonsense"), rsys.Error, "--nonsense"),
    (lambda: rsys.read("/nonsense"), FileNotFoundError, "/nonsense"),
]:
    try:
        ask()
    except error as caught:
        assert words in str(caught), caught
    else:
        raise AssertionError(words)
functions = run.ask("functions", "--by", "line")
assert "samples" in dir(run) and functions["functions"][0]["function"] in run.summary(), run.summary()
print(json.dumps({"with": found, "weight": sum(row["weight"] for row in run.samples)}), flush=True)
# Threads of libraries that are still there abort the interpreter's end now and then.
os._exit(0)

# Reads a profile of pprof without pprof: what each kind of value adds up to, and whether all that samples refer to is there.
import gzip
import json
import sys


def fields(data):
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise SystemExit(f"wire type {tag & 7}")


def packed(data):
    if isinstance(data, int):
        return [data]
    values, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    return values


def numbers(message, wanted):
    return [one for field, value in fields(message) if field == wanted for one in packed(value)]


profile = list(fields(gzip.open(sys.argv[1]).read()))
texts = [value.decode() for field, value in profile if field == 6]
assert texts[0] == ""
kinds = [texts[numbers(value, 1)[0]] for field, value in profile if field == 1]
functions = {numbers(value, 1)[0]: texts[numbers(value, 2)[0]] for field, value in profile if field == 5}
locations = {}
for field, value in profile:
    if field == 4:
        lines = [line for inner, line in fields(value) if inner == 4]
        locations[numbers(value, 1)[0]] = [functions[numbers(line, 1)[0]] for line in lines]
sums, leaves, labels = dict.fromkeys(kinds, 0), {}, set()
for field, value in profile:
    if field != 2:
        continue
    values = numbers(value, 2)
    assert len(values) == len(kinds), values
    for kind, one in zip(kinds, values):
        sums[kind] += one
    stack = [name for location in numbers(value, 1) for name in locations[location]]
    if stack:
        of = leaves.setdefault(stack[0], dict.fromkeys(kinds, 0))
        for kind, one in zip(kinds, values):
            of[kind] += one
    labels |= {texts[numbers(label, 1)[0]] for inner, label in fields(value) if inner == 3}
print(json.dumps({"sums": sums, "leaves": leaves, "labels": sorted(labels)}))

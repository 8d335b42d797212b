"""Reads a trace by Perfetto's published schema.

`schema.py unknown TRACE` prints, one a line, the fields that it does not know: mistyped numbers, wrong types.
`schema.py order TRACE` prints the process ids in the order that the trace asks for (which viewers heed since v57), one a line.
"""

import collections
import itertools
import sys
import zlib

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackDescriptor

# `Trace.packet`, with a length.
PACKET = 0x0A
ENOUGH = 100_000


def packets(data):
    """The packets of a trace, also of one whose last packet is torn."""
    at = 0
    while at < len(data):
        if data[at] != PACKET:
            raise SystemExit(f"no packet at {at}")
        at += 1
        size = shift = 0
        while at < len(data):
            byte = data[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            return
        if at + size > len(data):
            return
        packet = TracePacket.FromString(data[at : at + size])
        at += size
        if packet.HasField("compressed_packets"):
            yield from packets(zlib.decompress(packet.compressed_packets))
        else:
            yield packet


def unknown(message, path):
    """The fields of a message, and of those in it, that the schema does not have."""
    for field in UnknownFieldSet(message):
        yield f"{path}.{field.field_number}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            inside = f"{path}.{field.name}"
            for one in value if field.is_repeated else [value]:
                yield from unknown(one, inside)


def order(descriptors):
    """The process ids by their ranks among siblings, or nothing when the trace leaves the order to the viewer."""
    asked = any(one.uuid == 0 and one.process_ordering == TrackDescriptor.PROCESS_ORDERING_EXPLICIT for one in descriptors)
    processes = {one.process.pid: one.sibling_order_rank for one in descriptors if one.HasField("process")}
    return sorted(processes, key=processes.get) if asked else []


def main():
    what, path = sys.argv[1:]
    with open(path, "rb") as file:
        every = packets(file.read())
    if what == "order":
        # Those of a rank stand where its records begin.
        lines = order([one.track_descriptor for one in every if one.HasField("track_descriptor")])
    else:
        found = collections.Counter()
        for packet in itertools.islice(every, ENOUGH):
            found.update(unknown(packet, "packet"))
        lines = [f"{path}: {count}" for path, count in found.items()]
    for line in lines:
        print(line)


if __name__ == "__main__":
    main()

"""Reads a trace of `rsys-report export --to perfetto-typed`, or an archive of them, by Perfetto's published schema.

Prints what is in it as JSON. Fails where a number refers to nothing, or a field is unknown other than the two extensions of track events (`gpu_track_event.proto`),
which the published schema leaves out.
"""

import collections
import io
import json
import sys
import tarfile

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from schema import packets, unknown

EXTENSIONS = {".track_event.3000", ".track_event.3001"}


def varints(data):
    """The values of a message whose only field is a list of numbers that is not packed."""
    values, at = [], 0
    while at < len(data):
        assert data[at] == 0x08, data
        at += 1
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        values.append(value)
    return values


def owner(uuid, tracks):
    """The process and thread (0: none) of a track."""
    while True:
        one = tracks[uuid]
        if one.HasField("thread"):
            return one.thread.pid, one.thread.tid
        if one.HasField("process"):
            return one.process.pid, 0
        uuid = one.parent_uuid


def shown(events, tracks):
    """The slices that viewers show: they sort by time, and an end closes what began last on its track."""
    begun, found = collections.defaultdict(list), []
    for time, track, begins in sorted(events, key=lambda event: event[0]):
        if begins:
            begun[track].append((time, *begins))
            continue
        start, name, category = begun[track].pop()
        pid, tid = owner(track, tracks)
        found.append({"name": name, "start_ns": start, "end_ns": time, "process": pid, "thread": tid, "category": category})
    assert not any(begun.values()), "every slice ends"
    return found


def read(data):
    from google.protobuf.unknown_fields import UnknownFieldSet

    names, frames, stacks, queues, contexts, tasks, bases, functions = ({} for _ in range(8))
    tracks, events = {}, []
    operations, samples, counters = [], collections.Counter(), 0
    marks, submitted = 0, []
    for packet in packets(data):
        strange = set(unknown(packet, "")) - EXTENSIONS
        assert not strange, strange
        new = packet.interned_data
        names.update((one.iid, one.name) for one in new.event_names)
        functions.update((one.iid, one.str.decode()) for one in new.function_names)
        frames.update((one.iid, functions[one.function_name_id]) for one in new.frames)
        stacks.update((one.iid, [frames[frame] for frame in one.frame_ids]) for one in new.callstacks)
        queues.update((one.iid, one.name) for one in new.gpu_specifications)
        contexts.update((one.iid, (one.pid, one.api)) for one in new.graphics_contexts)
        tasks.update((one.iid, (one.pid, one.tid)) for one in new.stack_sample_task_contexts)
        bases.update((one.iid, one.name) for one in new.stack_sample_counter_descriptors)
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            assert one.uuid not in tracks
            assert not one.parent_uuid or one.parent_uuid in tracks, one
            tracks[one.uuid] = one
        elif packet.HasField("gpu_render_stage_event"):
            one = packet.gpu_render_stage_event
            pid, api = contexts[one.context]
            assert api == 5, "HIP"
            operations.append(
                {
                    "id": one.event_id, "name": names[one.name_iid], "start_ns": packet.timestamp, "duration_ns": one.duration,
                    "pid": pid, "device": one.gpu_id, "queue": queues[one.hw_queue_iid], "stage": queues[one.stage_iid],
                }
            )
        elif packet.HasField("stack_sample"):
            one = packet.stack_sample
            pid, tid = tasks[one.task_context_iid]
            stack = stacks[one.callstack_iid] if one.callstack_iid else []
            base = bases[one.primary_descriptor_iid]
            samples[base] += one.primary_weight
            if stack:
                samples[f"{base} in {stack[-1]}"] += one.primary_weight
        elif packet.HasField("track_event"):
            one = packet.track_event
            assert one.track_uuid in tracks, one
            if one.type == TrackEvent.TYPE_SLICE_BEGIN:
                (category,) = one.categories
                events.append((packet.timestamp, one.track_uuid, (names[one.name_iid], category)))
                for field in UnknownFieldSet(one):
                    if field.field_number == 3000:
                        submitted += varints(field.data)
            elif one.type == TrackEvent.TYPE_SLICE_END:
                events.append((packet.timestamp, one.track_uuid, None))
            elif one.type == TrackEvent.TYPE_INSTANT:
                marks += 1
            elif one.type == TrackEvent.TYPE_COUNTER:
                counters += 1
    ids = {one["id"] for one in operations}
    assert len(ids) == len(operations), "event ids are unique"
    assert set(submitted) <= ids, "calls refer to operations"
    processes = [one.process.pid for one in tracks.values() if one.HasField("process")]
    return {
        "operations": operations, "slices": shown(events, tracks), "submitted": len(submitted), "samples": samples, "marks": marks, "counters": counters,
        "processes": processes,
    }


data = open(sys.argv[1], "rb").read()
if sys.argv[1].endswith(".tar"):
    archive = tarfile.open(fileobj=io.BytesIO(data))
    files = {member.name: archive.extractfile(member).read() for member in archive}
    manifest = json.loads(files.pop("perfetto_manifest.json"))
    print(json.dumps({"manifest": manifest, "files": {name: read(file) for name, file in files.items()}}))
else:
    print(json.dumps(read(data)))

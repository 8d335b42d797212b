"""Some steps under PyTorch's own profiler, which writes a file.

usage: profile_torch.py FILE     prints operators=N and ranges=N: how many of each the file has
"""

import gzip
import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile, record_function

with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    for step in range(20):
        with record_function("step"):
            images = torch.randn(16, 64)
            loss = torch.relu(images @ images.T).sum()
profiler.export_chrome_trace(sys.argv[1])

with gzip.open(sys.argv[1], "rt") as file:
    trace = json.load(file)
# Builds without Kineto write a bare list, in which ranges are operators as well.
has_kineto = isinstance(trace, dict)
events = trace["traceEvents"] if has_kineto else trace
complete = [event for event in events if event["ph"] == "X"]
ranges = [event for event in complete if event.get("cat") == "user_annotation"]
operators = [event for event in complete if event.get("cat") == "cpu_op"] if has_kineto else complete
print(f"operators={len(operators)} ranges={len(ranges)}")

# HTA's answers on a folder with Kineto files: python3 hta_answers.py FOLDER. HTA rounds times to microseconds; `exact` is without that.
import json
import logging
import os
import sys
import warnings

logging.disable(logging.CRITICAL)
warnings.filterwarnings("ignore")

from hta.trace_analysis import TraceAnalysis


def answers(folder):
    # HTA finds out itself which file is of which rank.
    analysis = TraceAnalysis(trace_dir=folder, include_last_profiler_step=True)
    kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=10_000)
    bandwidths = [table[table["memory_bw_gbps"] > 0] for _, table in sorted(analysis.get_memory_bw_time_series(ranks=[0, 1]).items())]
    records = lambda frame: json.loads(frame.to_json(orient="records", double_precision=15))
    return {
        "temporal": records(analysis.get_temporal_breakdown(visualize=False)),
        "overlap": records(analysis.get_comm_comp_overlap(visualize=False)),
        "kinds": records(kinds),
        "kernels": records(kernels),
        "bandwidths": [{"count": len(table), "most": float(table["memory_bw_gbps"].max())} for table in bandwidths],
        "steps": [int(step) for step in analysis.get_profiler_steps()],
        "hosts": {rank: meta.get("host_name") for rank, meta in analysis.t.meta_data.items()},
        "ranks": {rank: meta["distributedInfo"]["rank"] for rank, meta in analysis.t.meta_data.items()},
    }


folder = os.path.abspath(sys.argv[1])
found = {"rounded": answers(folder)}
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
found["exact"] = answers(folder)
print(json.dumps(found))

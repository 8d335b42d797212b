//! Counters beside the call stacks: of processes, host and GPUs, and of threads.

use super::{Category, Kind, Setting};
use crate::choices::ContextSwitches;

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Counters,
        "USE_PROCESS_SAMPLING",
        Kind::Bool,
        "true",
        "Record counters of processes, host and GPUs",
    )
    .details("They are read by rsys-sample, not in the program. This is the master switch of HOST_SAMPLING and USE_ROCM_SMI.")
    .aliases(&["USE_THREAD_SAMPLING"])
    .option(None, "process-sampling", ""),
    Setting::new(
        Category::Counters,
        "PROCESS_SAMPLING_FREQ",
        Kind::Float {
            min: -1.0,
            max: 1000.0,
            unit: "Hz",
        },
        "10",
        "How often per second these counters are read; 0 means as often as SAMPLING_FREQ, but at most 100 times",
    )
    .aliases(&["ROCM_SMI_FREQ", "AMD_SMI_FREQ"])
    .option(None, "process-freq", "HZ"),
    Setting::new(
        Category::Counters,
        "HOST_SAMPLING",
        Kind::Bool,
        "true",
        "Record counters of the host: load, frequency, memory, pressure, network, temperature",
    )
    .aliases(&["CPU_FREQ_ENABLED"])
    .option(Some('H'), "host", ""),
    Setting::new(
        Category::Counters,
        "SAMPLING_CPUS",
        Kind::Numbers {
            empty_means: "no processor",
        },
        "",
        "Processors with a load and a frequency track of their own: `all`, or numbers and ranges",
    )
    .details("Without it, the tracks of load and frequency are the mean, the lowest and the highest of all processors.")
    .option(None, "cpus", "LIST"),
    Setting::new(
        Category::Counters,
        "USE_ROCM_SMI",
        Kind::Bool,
        "true",
        "Record GPU sensors where there are AMD GPUs; the same as -I rocm-smi",
    )
    .aliases(&["USE_AMD_SMI"])
    .option(Some('D'), "device", ""),
    Setting::new(
        Category::Counters,
        "SAMPLING_GPUS",
        Kind::Numbers {
            empty_means: "every GPU",
        },
        "all",
        "GPUs whose sensors are read: `all`, `none`, or numbers and ranges",
    )
    .details("Numbers are those of rsys-avail. Of them, only GPUs count that ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES leave visible.")
    .aliases(&["ROCM_SMI_DEVICES", "AMD_SMI_DEVICES"])
    .option(None, "gpus", "LIST"),
    Setting::new(
        Category::Counters,
        "GPU_METRICS",
        Kind::Metrics,
        "busy, temp, power, mem_usage",
        "Which sensors of GPUs are read: `all`, `none`, or names",
    )
    .details("docs/counters.md explains them.")
    .aliases(&["ROCM_SMI_METRICS", "AMD_SMI_METRICS"])
    .option(None, "gpu-metrics", "LIST"),
    Setting::new(
        Category::Counters,
        "SMI_LIBRARY",
        Kind::Text,
        "auto",
        "Which library reads the sensors of GPUs that the kernel's files lack: `auto`, `none`, or a path",
    )
    .details(
        "`auto` is librocm_smi64 or libamd_smi, where one is installed. It is loaded only when a sensor of GPU_METRICS is missing, in a \
         process of its own.",
    )
    .advanced()
    .option(None, "smi-library", "FILE"),
    Setting::new(
        Category::Counters,
        "GPU_EVENTS",
        Kind::Text,
        "",
        "Hardware counters of GPUs that are read with their sensors",
    )
    .details(
        "Names of the installed ROCm's definitions (rsys-avail -H), or events as BLOCK:NUMBER, with commas between; each may end with :device=N for one GPU. \
         Naming any switches the backend rocprofiler on. docs/gpu-counters.md explains them.",
    )
    .aliases(&["ROCM_EVENTS", "GPU_PERF_COUNTERS"]),
    Setting::new(
        Category::Counters,
        "GPU_COUNTERS",
        Kind::Text,
        "",
        "Hardware counters that are recorded of each kernel; kernels of a queue run one after the other then",
    )
    .details(
        "Named as those of GPU_EVENTS. Kernels are recorded at the queues of the HSA runtime then, whatever GPU_SOURCE = auto would choose. \
         docs/gpu-counters.md explains them.",
    )
    .option(None, "gpu-counters", "LIST"),
    Setting::new(
        Category::Counters,
        "GPU_COUNTERS_KERNELS",
        Kind::Text,
        "",
        "A regular expression for the kernels of which GPU_COUNTERS are recorded; all when it is empty",
    )
    .details("It is looked for in names as the code object has them: those of C++ are mangled.")
    .option(None, "gpu-counters-kernels", "REGEX"),
    Setting::new(
        Category::Counters,
        "GPU_COUNTERS_EVERY",
        Kind::Int {
            min: 1,
            max: 1_000_000_000,
            unit: "kernels",
        },
        "1",
        "GPU_COUNTERS are recorded of one in so many kernels of each GPU, beginning with the first",
    )
    .option(None, "gpu-counters-every", "N"),
    Setting::new(
        Category::Counters,
        "COUNTER_DEFINITIONS",
        Kind::Text,
        "",
        "The file that defines the names of GPU_EVENTS and GPU_COUNTERS, in place of the installed ROCm's",
    )
    .details("A counter_defs.yaml, or an XML file of an older ROCm.")
    .advanced()
    .option(None, "counter-definitions", "FILE"),
    Setting::new(
        Category::Counters,
        "CPU_EVENTS",
        Kind::Text,
        "",
        "Events that are counted for each thread, with each of its samples",
    )
    .details(
        "Up to 8 names, separated by commas, as rsys-avail -H lists them. They form one group per thread: they are counted at the same \
         time.",
    )
    .aliases(&["PAPI_EVENTS"])
    .option(Some('C'), "cpu-events", "EVENTS"),
    Setting::new(
        Category::Counters,
        "OVERFLOW",
        Kind::Text,
        "",
        "Take a sample each time an event has happened a number of times, instead of by CPU time",
    )
    .details("EVENT or EVENT:PERIOD, such as `page-faults:10`. Without a period it is 1000000 for events of the processor, and 100 for others.")
    .option(None, "overflow", "EVENT[:PERIOD]"),
    Setting::new(
        Category::Counters,
        "OFF_CPU",
        Kind::Bool,
        "false",
        "Show when each thread was off the processor, to the microsecond, and what it waited for",
    )
    .details(
        "By the kernel's records of context switches (perf events), with the stacks that SAMPLING_REALTIME sees: both are switched on. \
         Where perf events are not permitted, the stacks remain.",
    )
    .option(None, "off-cpu", ""),
    Setting::new(
        Category::Counters,
        "OFF_CPU_SHORTEST",
        Kind::Seconds { max: 1.0 },
        "0.0001",
        "Shorter times off the processor are counted but not drawn",
    )
    .option(None, "off-cpu-shortest", "TIME")
    .advanced(),
    Setting::new(
        Category::Counters,
        "CONTEXT_SWITCHES",
        Kind::Choice(ContextSwitches::CHOICES),
        ContextSwitches::Auto.as_str(),
        "Whether the kernel's records of context switches say how long waits were",
    )
    .details(
        "They say to the microsecond when a thread left the processor, when it came back, and whether it could have gone on. OFF_CPU takes and draws \
         them in any case.",
    )
    .option(None, "context-switches", "WHEN")
    .advanced(),
];

//! All tables.

use super::Source::{
    Code, Float, Frames, NonZero, Of, Optional, Place, Row, Since, Sum, Text as Word, Value,
};
use super::{Column, Kind, Source, Table};

const fn column(name: &'static str, kind: Kind, source: Source, about: &'static str) -> Column {
    Column {
        name,
        kind,
        about,
        source,
    }
}

const fn int(name: &'static str, source: Source, about: &'static str) -> Column {
    column(name, Kind::Integer, source, about)
}

const fn id(name: &'static str, source: Source, about: &'static str) -> Column {
    column(name, Kind::Unsigned, source, about)
}

const fn text(name: &'static str, source: Source, about: &'static str) -> Column {
    column(name, Kind::Text, source, about)
}

const PROCESS_ID: Column = int(
    "process_id",
    Value("process"),
    "row of `processes`: tells processes apart whose ids are equal",
);
const PID: Column = int(
    "process",
    Of("process", "processes", "process"),
    "process id",
);
const RANK: Column = int(
    "rank",
    Of("process", "processes", "rank"),
    "rank of the process in its job",
);
const THREAD_ID: Column = int("thread_id", Optional("thread"), "row of `threads`");
const TID: Column = int("thread", Of("thread", "threads", "thread"), "thread id");
const THREAD_NAME: Column = text(
    "thread_name",
    Of("thread", "threads", "name"),
    "name of the thread",
);
const DEVICE: Column = int(
    "device",
    Of("device", "devices", "device"),
    "number of the GPU",
);
const STACK: Column = int(
    "stack_id",
    Optional("stack"),
    "row of `stacks`: the call stack",
);
const PLACE: Column = text(
    "place",
    Of("stack", "stacks", "place"),
    "the place in the program: function, and file and line as far as they are known",
);
const START: Column = int("start_ns", Value("start"), "begin (CLOCK_BOOTTIME)");
const END: Column = int("end_ns", Sum("start", "duration"), "end");
const DURATION: Column = int("duration_ns", Value("duration"), "how long it took");
const DEPTH: Column = int(
    "depth",
    Optional("depth"),
    "how many others of its track it stands in; NULL if the trace does not say",
);
const OPEN: Column = int(
    "is_open",
    Value("open"),
    "1 if it had not ended when the trace ended, which is its end then",
);

/// All tables, in the order in which they are shown.
pub static TABLES: &[Table] = &[
    Table {
        name: "operations",
        about: "operations of GPUs: kernels, copies, fills",
        columns: &[
            int("operation_id", Row, "number of the row"),
            text(
                "kind",
                Code("kind", &["kernel", "copy", "fill", "other"]),
                "`kernel`, `copy`, `fill`, `other` (barriers and the like)",
            ),
            text(
                "activity",
                Code(
                    "activity",
                    &["compute", "communication", "copy", "fill", "none"],
                ),
                "what it counts as in `rsys-report timeline`: `compute`, `communication`, `copy`, `fill`, `none`",
            ),
            text("name", Word("name"), "name of the kernel or operation"),
            START,
            END,
            DURATION,
            int("bytes", NonZero("bytes"), "bytes of a copy or fill"),
            text("direction", Word("direction"), "direction of a copy"),
            text(
                "grid",
                Word("grid"),
                "grid of a kernel, as the trace writes it",
            ),
            PROCESS_ID,
            PID,
            RANK,
            text(
                "host",
                Of("process", "processes", "host"),
                "name of the host",
            ),
            DEVICE,
            text(
                "queue",
                Of("queue", "queues", "name"),
                "stream, or queue of the runtime",
            ),
            id(
                "correlation",
                NonZero("link"),
                "number that the operation shares with its call, within a process",
            ),
            text("call", Word("call"), "name of the call that caused it"),
            int(
                "call_start_ns",
                Optional("call_start"),
                "begin of that call",
            ),
            int(
                "delay_ns",
                Since("call_start", "start"),
                "from the begin of the call to the begin of the operation",
            ),
            THREAD_ID,
            int(
                "thread",
                Of("thread", "threads", "thread"),
                "id of the thread that made the call",
            ),
            int(
                "stack_id",
                Optional("stack"),
                "row of `stacks`: the call stack that launched a kernel",
            ),
            PLACE,
        ],
    },
    Table {
        name: "calls",
        about: "calls of HIP, HSA, RCCL, MPI, OpenSHMEM and UCX",
        columns: &[
            int("call_id", Row, "number of the row"),
            text(
                "runtime",
                Code("kind", &["HIP", "HSA", "RCCL"]),
                "`HIP` (or another runtime that gives work to GPUs), `HSA`, `RCCL` (and MPI, OpenSHMEM and UCX, whose functions begin with `MPI_`, `shmem_` and `ucp_`, and their like)",
            ),
            text("name", Word("name"), "name of the function"),
            START,
            END,
            DURATION,
            PROCESS_ID,
            PID,
            RANK,
            THREAD_ID,
            TID,
            THREAD_NAME,
            DEPTH,
            id(
                "correlation",
                NonZero("link"),
                "number that the call shares with the operations that it caused, within a process",
            ),
            int(
                "bytes",
                NonZero("bytes"),
                "argument: bytes that are copied, made, given back or sent",
            ),
            id(
                "address",
                NonZero("address"),
                "argument: memory that was made or given back, or the event",
            ),
            id(
                "stream",
                NonZero("stream"),
                "argument: handle of the stream, plus one",
            ),
            OPEN,
            STACK,
            PLACE,
        ],
    },
    Table {
        name: "collectives",
        about: "operations of RCCL and MPI that move data between ranks, as their calls or their kernels say it",
        columns: &[
            int("collective_id", Row, "number of the row"),
            text(
                "name",
                Word("name"),
                "name of the function, or of the operation",
            ),
            START,
            END,
            DURATION,
            PROCESS_ID,
            PID,
            RANK,
            THREAD_ID,
            TID,
            id(
                "correlation",
                NonZero("link"),
                "number that it shares with its call, and of operations of a group with the call that ends the group",
            ),
            text(
                "communicator",
                Word("communicator"),
                "names the communicator, equally on all its ranks",
            ),
            int(
                "sequence",
                Optional("sequence"),
                "number in the communicator",
            ),
            text("data_type", Word("data_type"), "type of the elements"),
            int(
                "bytes",
                Value("bytes"),
                "what this rank gives, or gets of a reduce-scatter and of a receive",
            ),
            int(
                "member",
                Optional("member"),
                "rank of the process in the communicator",
            ),
            int(
                "members",
                Optional("members"),
                "how many ranks the communicator has",
            ),
            int(
                "peer",
                Optional("peer"),
                "rank in the communicator that a message is for, or comes from",
            ),
        ],
    },
    Table {
        name: "samples",
        about: "samples of threads",
        columns: &[
            int("sample_id", Row, "number of the row"),
            int(
                "time_ns",
                Value("time"),
                "when it was taken (CLOCK_BOOTTIME)",
            ),
            text(
                "basis",
                Code("basis", &["cpu", "wait", "gpu", "call", "event"]),
                "what the weight is: `cpu` (ns of CPU time), `wait` (ns that the thread waited), `event` (events of a counter)",
            ),
            int("weight", Value("weight"), "what it stands for"),
            PROCESS_ID,
            PID,
            RANK,
            THREAD_ID,
            TID,
            THREAD_NAME,
            STACK,
            text(
                "function",
                Of("stack", "stacks", "function"),
                "innermost function of the stack; of waits what is waited for",
            ),
            text(
                "module",
                Of("stack", "stacks", "module"),
                "file that the function was loaded from",
            ),
            text("source", Of("stack", "stacks", "source"), "its source file"),
            int("line", Of("stack", "stacks", "line"), "its line"),
            PLACE,
        ],
    },
    Table {
        name: "waits",
        about: "waits of threads, by --realtime and --trace-offcpu, or as other profilers have them",
        columns: &[
            int("wait_id", Row, "number of the row"),
            text(
                "kind",
                Code(
                    "kind",
                    &["", "", "", "", "", "", "waiting", "off processor"],
                ),
                "`waiting` or `off processor`",
            ),
            text("name", Word("name"), "what was waited for"),
            START,
            END,
            DURATION,
            PROCESS_ID,
            PID,
            RANK,
            THREAD_ID,
            TID,
            THREAD_NAME,
        ],
    },
    Table {
        name: "ranges",
        about: "ranges that the program marked, operators of frameworks, functions that were recorded",
        columns: &[
            int("range_id", Row, "number of the row"),
            text(
                "kind",
                Code("kind", &["", "", "", "range", "operator", "function"]),
                "`range` (roctx), `operator`, `function`",
            ),
            text("name", Word("name"), "its text"),
            START,
            END,
            DURATION,
            PROCESS_ID,
            PID,
            RANK,
            THREAD_ID,
            TID,
            THREAD_NAME,
            DEPTH,
            OPEN,
        ],
    },
    Table {
        name: "markers",
        about: "points in time that the program marked",
        columns: &[
            int("time_ns", Value("time"), "when (CLOCK_BOOTTIME)"),
            text("name", Word("name"), "its text"),
            PROCESS_ID,
            PID,
            RANK,
            THREAD_ID,
            TID,
        ],
    },
    Table {
        name: "counters",
        about: "values of counters and sensors; each holds until the next one of its track",
        columns: &[
            int("time_ns", Value("time"), "from when on (CLOCK_BOOTTIME)"),
            column(
                "value",
                Kind::Number,
                Float("value"),
                "the value, in its unit",
            ),
            int("track_id", Value("counter"), "tells tracks apart"),
            text(
                "name",
                Of("counter", "counter_tracks", "name"),
                "name of the counter",
            ),
            text(
                "unit",
                Of("counter", "counter_tracks", "unit"),
                "its unit; NULL for plain counts",
            ),
            text(
                "belongs_to",
                Of("counter", "counter_tracks", "belongs_to"),
                "what it is of, such as `Sensors of GPU 0`",
            ),
            int(
                "process_id",
                Of("counter", "counter_tracks", "process_id"),
                "row of `processes`: who read it",
            ),
        ],
    },
    Table {
        name: "counter_tracks",
        about: "tracks of counters and sensors",
        columns: &[
            int("track_id", Row, "number of the row"),
            text("name", Word("name"), "name of the counter"),
            text("unit", Word("unit"), "its unit; NULL for plain counts"),
            text(
                "belongs_to",
                Word("group"),
                "what it is of, such as `Sensors of GPU 0`",
            ),
            PROCESS_ID,
            PID,
            RANK,
        ],
    },
    Table {
        name: "stacks",
        about: "call stacks: each the innermost function of a stack, and the stack that called it",
        columns: &[
            int("stack_id", Row, "number of the row; 0 is the empty stack"),
            int("caller_id", Value("caller"), "row of `stacks`: the caller"),
            int("depth", Value("depth"), "how many functions"),
            text("function", Word("function"), "innermost function"),
            text("module", Word("module"), "file that it was loaded from"),
            text("source", Word("source"), "its source file"),
            int("line", NonZero("line"), "its line"),
            text(
                "place",
                Place,
                "the place in the program: function, and file and line as far as they are known",
            ),
            text(
                "frames",
                Frames,
                "all functions, outermost first, with `;` between them",
            ),
        ],
    },
    Table {
        name: "processes",
        about: "processes",
        columns: &[
            int("process_id", Row, "number of the row"),
            int("process", Value("pid"), "process id"),
            text("name", Word("name"), "name"),
            text("command", Word("command"), "command line"),
            int("rank", Optional("rank"), "rank in its job"),
            text("host", Word("host"), "name of the host"),
            int(
                "start_ns",
                NonZero("start"),
                "when it started (CLOCK_BOOTTIME)",
            ),
            int("end_ns", NonZero("end"), "when its trace ends"),
            int("cpu_ns", NonZero("cpu"), "CPU time that it used"),
            int(
                "samples",
                Optional("samples"),
                "samples that were taken of it",
            ),
            int(
                "events",
                Optional("events"),
                "calls and operations that were recorded",
            ),
            int(
                "lost",
                Optional("lost"),
                "samples and events that were lost",
            ),
            int(
                "sample_period_ns",
                NonZero("sample_period"),
                "CPU time between two samples",
            ),
            text("file", Word("file"), "the trace"),
        ],
    },
    Table {
        name: "threads",
        about: "threads",
        columns: &[
            int("thread_id", Row, "number of the row"),
            int("thread", Value("tid"), "thread id"),
            text("name", Word("name"), "name"),
            PROCESS_ID,
            PID,
            RANK,
        ],
    },
    Table {
        name: "devices",
        about: "GPUs, as each process sees them",
        columns: &[
            int("device_id", Row, "number of the row"),
            int("device", Value("ordinal"), "number of the GPU"),
            text("name", Word("name"), "its model"),
            PROCESS_ID,
            PID,
            RANK,
        ],
    },
    Table {
        name: "queues",
        about: "streams and queues of GPUs",
        columns: &[
            int("queue_id", Row, "number of the row"),
            text(
                "name",
                Word("name"),
                "`stream 1`, `queue 2`, or what the program called it",
            ),
            int("device_id", Value("device"), "row of `devices`"),
            DEVICE,
            int("process", Of("device", "devices", "process"), "process id"),
        ],
    },
];

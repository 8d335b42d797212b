//! The table of components: what this build records, and what stands in the way of the rest.

use rsys_config::backends::{ALL, BACKENDS, Backend};
use rsys_machine::gpu;
use rsys_machine::openmp;
use rsys_machine::perf::{Availability, Event, Machine};
use rsys_machine::rocm::Environment;
use rsys_machine::roots::Roots;

use crate::request::Request;
use crate::table::{Cell, Column, Table};

/// The categories of the table.
pub const CATEGORIES: [&str; 7] = [
    "Stacks", "Clocks", "Counters", "GPU", "Parallel", "Locks", "Program",
];

struct Component {
    name: &'static str,
    also: &'static [&'static str],
    category: &'static str,
    description: &'static str,
    file: &'static str,
    /// Why it is not available, and what to do about that.
    missing: Option<(String, String)>,
}

/// One row per component.
pub fn table(roots: &Roots, request: &Request) -> Table {
    let machine = Machine::of(roots);
    let columns = request.columns;
    let mut components = own(&machine);
    components.push(openmp_runtime(roots));
    components.extend(
        BACKENDS
            .iter()
            .filter(|backend| backend.name != ALL)
            .map(|backend| of_backend(backend, roots)),
    );
    let mut table = Table {
        name: "components",
        title: "Components",
        columns: vec![
            Column::new("name", true),
            Column::new("available", !columns.brief),
            Column::new("reason", !columns.brief),
            Column::new("remedy", false),
            Column::new("also", columns.string),
            Column::new("filename", columns.filename),
            Column::new("category", columns.category),
            Column::new("description", true),
        ],
        ..Table::default()
    };
    table.rows = components
        .into_iter()
        .map(|component| {
            let available = component.missing.is_none();
            let (reason, remedy) = component.missing.unwrap_or_default();
            vec![
                Cell::text(component.name),
                Cell::Flag(available),
                Cell::text(reason),
                Cell::text(remedy),
                Cell::list(component.also.iter().copied()),
                Cell::text(component.file),
                Cell::text(component.category),
                Cell::text(component.description),
            ]
        })
        .collect();
    table
}

/// What is always there, and the clocks.
fn own(machine: &Machine) -> Vec<Component> {
    let clock = machine.probe(&Event::software(0));
    let missing = match &clock {
        Availability::Yes | Availability::UserOnly => None,
        Availability::No(reason) => Some((reason.text(), reason.remedy())),
    };
    vec![
        Component {
            name: "call-stacks",
            also: &["sampling"],
            category: "Stacks",
            description: "Call stacks of every thread of every process, as slices and as samples",
            file: "perfetto-trace.proto",
            missing: None,
        },
        Component {
            name: "cpu-timer",
            also: &["--clock timer"],
            category: "Clocks",
            description: "A CPU-time timer per thread; needs no permission, ticks with the kernel",
            file: "",
            missing: None,
        },
        Component {
            name: "perf-clock",
            also: &["--clock perf"],
            category: "Clocks",
            description: "The perf event cpu-clock per thread: even intervals above the kernel's tick",
            file: "",
            missing: missing.clone(),
        },
        Component {
            name: "process-counters",
            also: &["--process-sampling"],
            category: "Counters",
            description: "Memory, page faults, context switches, CPU time, I/O and threads of each process",
            file: "perfetto-trace.proto",
            missing: None,
        },
        Component {
            name: "host-counters",
            also: &["-H", "--host"],
            category: "Counters",
            description: "Load, frequency, memory, pressure, network and temperature of the host",
            file: "perfetto-trace.proto",
            missing: None,
        },
        Component {
            name: "thread-counters",
            also: &["-C", "--cpu-events"],
            category: "Counters",
            description: "Events counted for each thread, with each of its samples; rsys-avail -H lists them",
            file: "perfetto-trace.proto",
            missing: missing.clone(),
        },
        Component {
            name: "overflow",
            also: &["--overflow"],
            category: "Clocks",
            description: "An event as the clock: a sample each time it has happened a number of times",
            file: "",
            missing: missing.clone(),
        },
        Component {
            name: "off-cpu",
            also: &["--off-cpu"],
            category: "Counters",
            description: "When each thread was off the processor, by the kernel's records of context switches",
            file: "perfetto-trace.proto",
            missing,
        },
    ]
}

/// Whether programs of gcc can run with a runtime of OpenMP that speaks to tools.
fn openmp_runtime(roots: &Roots) -> Component {
    let found = openmp::installed(roots, &Environment::of_this_process());
    Component {
        name: "openmp-runtime",
        also: &["--openmp-runtime libomp"],
        category: "Parallel",
        description: "OpenMP of programs of gcc in full: LLVM's libomp runs them in place of libgomp",
        file: "",
        missing: found.is_empty().then(|| {
            (
                "no libomp is installed".to_owned(),
                openmp::REMEDY.to_owned(),
            )
        }),
    }
}

fn of_backend(backend: &'static Backend, roots: &Roots) -> Component {
    let category = match backend.name {
        "rcclp" | "mpip" | "ompt" | "kokkosp" | "shmem" | "ucx" => "Parallel",
        name if name.ends_with("-locks") => "Locks",
        "regions" | "itt" | "nvtx" | "torch" => "Program",
        _ => "GPU",
    };
    let missing = if !backend.is_built() {
        Some((
            "not part of this build".to_owned(),
            "-I accepts its name, and the run goes on without it.".to_owned(),
        ))
    } else if category == "GPU" && gpu::find(roots).is_empty() {
        Some((gpu::NO_GPU.to_owned(), gpu::no_gpu_remedy(roots)))
    } else {
        None
    };
    Component {
        name: backend.name,
        also: backend.aliases,
        category,
        description: backend.summary,
        file: "",
        missing,
    }
}

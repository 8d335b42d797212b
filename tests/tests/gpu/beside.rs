//! rsys beside another tool in the same process, in each order: the tool has what it has without us, and so have we, or a line says what is
//! missing. The table in `docs/compatibility.md` is of these runs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{Machine, Stack, code_object, hip_program, hsa_program, hsa_tool, ops};
use rsys_tests::{Invocation, Outcome, Run, TestResult, missing_tool, run_plain, skip_if_missing};

const ALLOCATOR: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// Another tool, and how it comes into the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// A tool of rocprofiler-sdk's, on a runtime that registers.
    Registered(Registered),
    /// A tool of the HSA runtime's that intercepts queues.
    Queues(Order),
    /// A tracer of HIP's.
    Tracer(Order),
    /// An allocator.
    Allocator(Order),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Before,
    Behind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registered {
    /// In `ROCP_TOOL_LIBRARIES`, as rocprofv3 does it.
    Listed,
    /// Exported by a library that is loaded before or behind us, as `PyTorch`'s is.
    Loaded(Order),
    /// The user has said that tools of `HSA_TOOLS_LIB` are not loaded then.
    Alone,
}

impl Tool {
    const ALL: [Self; 10] = [
        Self::Registered(Registered::Listed),
        Self::Registered(Registered::Loaded(Order::Before)),
        Self::Registered(Registered::Loaded(Order::Behind)),
        Self::Registered(Registered::Alone),
        Self::Queues(Order::Before),
        Self::Queues(Order::Behind),
        Self::Tracer(Order::Before),
        Self::Tracer(Order::Behind),
        Self::Allocator(Order::Before),
        Self::Allocator(Order::Behind),
    ];

    /// What a shell does to bring it into the program's process.
    fn words(self) -> anyhow::Result<String> {
        let preload = |library: PathBuf, order| {
            let library = library.display();
            match order {
                Order::Before => format!("LD_PRELOAD=\"{library}:$LD_PRELOAD\""),
                Order::Behind => format!("LD_PRELOAD=\"$LD_PRELOAD:{library}\""),
            }
        };
        Ok(match self {
            Self::Registered(how) => {
                let runtime = preload(hsa_tool("registering_runtime")?, Order::Behind);
                let tool = hsa_tool("configured_tool")?;
                let how = match how {
                    Registered::Loaded(order) => preload(tool, order),
                    Registered::Listed | Registered::Alone => {
                        format!("ROCP_TOOL_LIBRARIES=\"{}\"", tool.display())
                    }
                };
                format!("{runtime}; {how}; export LD_PRELOAD ROCP_TOOL_LIBRARIES")
            }
            Self::Queues(order) => {
                let tool = hsa_tool("counting_tool")?;
                let tool = tool.display();
                match order {
                    Order::Before => format!("export HSA_TOOLS_LIB=\"{tool} $HSA_TOOLS_LIB\""),
                    Order::Behind => format!("export HSA_TOOLS_LIB=\"$HSA_TOOLS_LIB {tool}\""),
                }
            }
            Self::Tracer(_) => String::from(":"),
            Self::Allocator(order) => {
                // Where trees of other systems have it as well.
                let copy = rsys_tests::target_dir().join("workloads/libjemalloc.so.2");
                if !copy.exists() {
                    fs::copy(ALLOCATOR, &copy).context("cannot copy the allocator")?;
                }
                format!("export {}", preload(copy, order))
            }
        })
    }

    /// What the tool counts, and prints under this name.
    fn count(self) -> Option<&'static str> {
        match self {
            Self::Registered(_) | Self::Queues(_) => Some("tool_kernels"),
            Self::Tracer(_) => Some("told"),
            Self::Allocator(_) => None,
        }
    }
}

/// What is run beside the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Hip,
    Hsa,
}

const NOT_LOADED: &str = "the HSA runtime did not load rsys as a tool";
const TRACER_TAKEN: &str = "another tool has taken the place for HIP's tracer";
const TRACER_LOST: &str = "a tool of the program took the place for HIP's tracer";
const NO_TIMES: &str = "kernels seem to take no time";

/// How many kernels are in the trace, and which lines say what is missing.
struct Expected {
    traced: usize,
    lines: &'static [&'static str],
}

/// One cell of the table.
#[derive(Debug, Clone, Copy)]
struct Cell {
    stack: Stack,
    tool: Tool,
    program: Program,
}

impl Cell {
    /// The cells of a stack: what each tool can be beside.
    fn all(stack: Stack) -> Vec<Self> {
        Tool::ALL
            .into_iter()
            .flat_map(|tool| {
                [Program::Hip, Program::Hsa].map(|program| Self {
                    stack,
                    tool,
                    program,
                })
            })
            .filter(|cell| match cell.tool {
                // The oldest HIP has no tracer.
                Tool::Tracer(_) => cell.program == Program::Hip && stack != Stack::Debian12,
                // It prints when the runtime is shut down, which HIP does not do.
                Tool::Queues(_) => cell.program == Program::Hsa,
                _ => true,
            })
            .collect()
    }

    fn name(self) -> &'static str {
        match (self.program, self.tool) {
            (Program::Hip, Tool::Tracer(_)) => "hip_rival",
            (Program::Hip, _) => "hip_flood",
            (Program::Hsa, _) => "hsa_flood",
        }
    }

    fn program(self) -> anyhow::Result<Invocation> {
        let hip = || hip_program(self.stack, self.name());
        let program = match (self.program, self.tool) {
            (Program::Hip, Tool::Tracer(Order::Before)) => hip()?.arg("before"),
            (Program::Hip, Tool::Tracer(Order::Behind)) => hip()?.arg("after"),
            (Program::Hip, _) => hip()?.args(["1", "1", "20", "0"]),
            (Program::Hsa, _) => hsa_program(self.name())?
                .arg(code_object("gfx90a")?)
                .args(["reuse", "2", "20", "4"]),
        };
        let words = format!("{}; exec \"$@\"", self.tool.words()?);
        Ok(Invocation::new("sh")
            .args(["-c", &words, "sh"])
            .program(program))
    }

    fn expected(self) -> Expected {
        let all = match self.program {
            Program::Hip => 20,
            Program::Hsa => 40,
        };
        let whole = |lines| Expected { traced: all, lines };
        // Where HIP tells of nothing, the runtime below it does.
        let has_tracer = self.program == Program::Hip && self.stack != Stack::Debian12;
        match self.tool {
            Tool::Registered(Registered::Alone) if has_tracer => whole(&[NOT_LOADED, NO_TIMES]),
            Tool::Registered(Registered::Alone) => Expected {
                traced: 0,
                lines: &[NOT_LOADED],
            },
            Tool::Registered(_) => whole(&[NO_TIMES]),
            Tool::Tracer(Order::Before) => whole(&[TRACER_TAKEN]),
            Tool::Tracer(Order::Behind) => Expected {
                traced: 10,
                lines: &[TRACER_LOST],
            },
            Tool::Queues(_) | Tool::Allocator(_) => whole(&[]),
        }
    }

    fn run(self) -> TestResult {
        let Self { stack, tool, .. } = self;
        let machine = Machine::new(stack)?;
        let program = self.program()?;
        let bare = run_plain(machine.run(program.clone()))?;
        bare.expect_success();
        let mut run = Run::new()
            .options(["-I", "rocm", "--min-samples", "1"])
            .command(machine.run(program));
        if tool == Tool::Registered(Registered::Alone) {
            run = run.env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "0");
        }
        let outcome = run.run()?;
        self.judge(&bare, &outcome, &machine)
            .with_context(|| format!("{self:?}\n{}", outcome.story()))
    }

    fn judge(self, bare: &Outcome, outcome: &Outcome, machine: &Machine) -> TestResult {
        let trace = outcome.expect_success().trace_of(self.name())?;
        if let Some(name) = self.tool.count() {
            let (beside_us, alone) = (outcome.number(name)?, bare.number(name)?);
            ensure!(alone > 0.5, "the tool has nothing without us either");
            ensure!(
                (beside_us - alone).abs() < 0.5,
                "the tool has {beside_us} kernels, {alone} without us"
            );
        }
        let Expected { traced, lines } = self.expected();
        let kernels = ops(&trace, "kernel")?;
        ensure!(
            kernels.len() == traced,
            "{} kernels in the trace, not {traced}",
            kernels.len()
        );
        for line in [NOT_LOADED, TRACER_TAKEN, TRACER_LOST, NO_TIMES] {
            let said = outcome.stderr.matches(line).count();
            let wanted = usize::from(lines.contains(&line));
            ensure!(said == wanted, "`{line}` is there {said} times");
        }
        let truth = machine.truth()?;
        let no_times = lines.contains(&NO_TIMES);
        for kernel in &kernels {
            let found = truth.dispatches().any(|executed| {
                let (start_ns, end_ns) = (executed.start_ns, executed.end_ns);
                // A barrier stands for it, at its end.
                kernel.is_at(if no_times { end_ns } else { start_ns }, end_ns)
            });
            ensure!(found, "{kernel:?} was not executed at that time");
        }
        Ok(())
    }
}

/// Runs each cell of a stack so often, and tells of all that fail.
fn each_cell(stack: Stack, times: usize, wanted: impl Fn(Cell) -> bool) -> TestResult {
    skip_if_missing!(stack.missing_to_build().or_else(|| missing_tool(ALLOCATOR)));
    let mut failed = Vec::new();
    for cell in Cell::all(stack).into_iter().filter(|cell| wanted(*cell)) {
        for time in 0..times {
            if let Err(error) = cell.run() {
                failed.push(format!("run {time}: {error:#}"));
            }
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Cells that no other test runs, on the stack that most programs use.
#[test]
fn registered_tools_and_we_have_everything() -> TestResult {
    each_cell(Stack::Rocm7, 1, |cell| {
        matches!(cell.tool, Tool::Registered(_))
    })
}

#[test]
fn an_allocator_disturbs_no_runtime() -> TestResult {
    each_cell(Stack::Rocm7, 1, |cell| {
        matches!(cell.tool, Tool::Allocator(_)) && cell.program == Program::Hip
    })
}

/// The two that most programs have: `PyTorch`'s profiler from ROCm 7 on, and an allocator. Each start is one that ends.
#[test]
#[ignore = "a thousand starts take some minutes"]
fn a_thousand_starts_beside_the_most_common_end() -> TestResult {
    let stack = Stack::Rocm7;
    skip_if_missing!(stack.missing_to_build().or_else(|| missing_tool(ALLOCATOR)));
    for tool in [
        Tool::Registered(Registered::Loaded(Order::Behind)),
        Tool::Allocator(Order::Before),
    ] {
        let cell = Cell {
            stack,
            tool,
            program: Program::Hip,
        };
        for start in 0..1000 {
            let machine = Machine::new(stack)?;
            let outcome = Run::new()
                .options(["-I", "rocm"])
                .command(machine.run(cell.program()?))
                .run()?;
            ensure!(
                outcome.expect_success().stderr.contains(" 20 kernels"),
                "start {start} beside {tool:?}\n{}",
                outcome.story()
            );
        }
    }
    Ok(())
}

macro_rules! tables {
    ($($name:ident: $stack:ident;)*) => {
        $(
            #[test]
            #[ignore = "each cell twenty times takes some minutes"]
            fn $name() -> TestResult {
                each_cell(Stack::$stack, 20, |_| true)
            }
        )*
    };
}

tables! {
    each_tool_in_each_order_on_debian12: Debian12;
    each_tool_in_each_order_on_wheel54: Wheel54;
    each_tool_in_each_order_on_debian13: Debian13;
    each_tool_in_each_order_on_unstable: Unstable;
    each_tool_in_each_order_on_rocm7: Rocm7;
}

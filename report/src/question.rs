//! The questions that have commands: their options, and what is measured for each.

use clap::{Args, Subcommand, ValueEnum};
use rsys_analysis::advice::further_measures;
use rsys_analysis::measure::gpu::copies::Copies;
use rsys_analysis::measure::gpu::efficiency::Efficiency;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::kernels::{By, Kernels};
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::measure::gpu::memory::Memory;
use rsys_analysis::measure::gpu::sensors::Sensors;
use rsys_analysis::measure::gpu::streams::Streams;
use rsys_analysis::measure::gpu::timeline::Timeline;
use rsys_analysis::measure::host::calls::Calls;
use rsys_analysis::measure::host::functions;
use rsys_analysis::measure::host::functions::Functions;
use rsys_analysis::measure::host::locks::Locks;
use rsys_analysis::measure::job::pop::Pop;
use rsys_analysis::measure::job::stuck::Stuck;
use rsys_analysis::measure::{Named, of_summary};

use crate::efficiency::EfficiencyOptions;
use crate::inputs::Inputs;

/// Options of `kernels`.
#[derive(Debug, Args)]
pub(crate) struct KernelOptions {
    #[command(flatten)]
    inputs: Inputs,
    /// What else tells rows apart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<KernelKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KernelKey {
    /// The grid
    Grid,
    /// The stream or queue
    Stream,
    /// The GPU
    Device,
}

impl KernelOptions {
    /// What tells rows apart.
    fn by(&self) -> By {
        By {
            grid: self.by.contains(&KernelKey::Grid),
            stream: self.by.contains(&KernelKey::Stream),
            device: self.by.contains(&KernelKey::Device),
        }
    }
}

/// Options of `functions`.
#[derive(Debug, Args)]
pub(crate) struct FunctionOptions {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// What else tells rows apart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<FunctionKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FunctionKey {
    /// The line
    Line,
    /// The thread
    Thread,
    /// The process
    Process,
    /// What recorded operators were called with, as PyTorch's profiler writes it with `record_shapes`
    Shapes,
}

impl FunctionOptions {
    /// What tells rows apart.
    pub(crate) fn by(&self) -> functions::By {
        functions::By {
            line: self.by.contains(&FunctionKey::Line),
            thread: self.by.contains(&FunctionKey::Thread),
            process: self.by.contains(&FunctionKey::Process),
            shapes: self.by.contains(&FunctionKey::Shapes),
        }
    }
}

/// Options of `launch`.
#[derive(Debug, Args)]
pub(crate) struct LaunchOptions {
    #[command(flatten)]
    inputs: Inputs,
    /// What else tells operators apart
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    by: Vec<LaunchKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LaunchKey {
    /// What they were called with, as PyTorch's profiler writes it with `record_shapes`
    Shapes,
}

/// The question of how well the time of GPUs was used, which advice judges as well. A summary does not: what operators were called with takes long to read.
pub(crate) const EFFICIENCY: &str = "efficiency";

/// What a summary is made of: each measure under the name of its question.
fn of_summary_and_findings() -> Vec<Named> {
    of_summary().into_iter().chain(further_measures()).collect()
}

/// What advice is made of.
pub(crate) fn of_advice() -> Vec<Named> {
    let mut all = of_summary_and_findings();
    all.push((EFFICIENCY, Box::<Efficiency>::default()));
    all
}

/// The questions: each is a command, and a row of [`Question::measures`].
#[derive(Debug, Subcommand)]
pub(crate) enum Question {
    /// Where the time went: the first lines of all questions (the same as no command)
    Summary(Inputs),
    /// What to look at first: at most ten findings, by the time that they could give back
    Advice(Inputs),
    /// Computation, communication, copies and idleness of each GPU
    Timeline(Inputs),
    /// Why each GPU was idle, by the line of code that kept it waiting
    Gaps(Inputs),
    /// The kernels that took the time of the GPUs, by name
    Kernels(KernelOptions),
    /// How well the busy time of the GPUs was used: operations and bytes of operators, against what the GPUs can do
    Efficiency(EfficiencyOptions),
    /// Copies by direction and size, their bandwidth, and the calls that waited for them
    Copies(Inputs),
    /// Calls of the GPU runtimes, and how long those held their threads
    Calls(Inputs),
    /// The functions that took the CPU time, and what threads waited for
    Functions(FunctionOptions),
    /// Locks: how often they were taken, how long threads waited for them and where, and who held them
    Locks(Inputs),
    /// Memory that programs made and gave back, its peak, and what held it then
    Memory(Inputs),
    /// Power, clock, temperature, memory and load of GPUs, and when clocks were slow
    Sensors(Inputs),
    /// Who launched the kernels: operators, functions, ranges, calls; and how long launches waited
    Launch(LaunchOptions),
    /// Each stream of a GPU: idle time by what it waited for, kernels that follow each other again and again, ranges as the GPU saw them
    Streams(Inputs),
    /// How well the ranks of a job and their GPUs were kept at work: the efficiencies of POP and TALP
    Pop(Inputs),
    /// Of a run that hung: the kernel that never ended, the rank that the others waited for, and where
    /// each process was at the end
    Stuck(Inputs),
}

impl Question {
    pub(crate) fn inputs(&self) -> &Inputs {
        match self {
            Self::Summary(inputs)
            | Self::Advice(inputs)
            | Self::Timeline(inputs)
            | Self::Gaps(inputs)
            | Self::Copies(inputs)
            | Self::Calls(inputs)
            | Self::Locks(inputs)
            | Self::Memory(inputs)
            | Self::Sensors(inputs)
            | Self::Streams(inputs)
            | Self::Pop(inputs)
            | Self::Stuck(inputs) => inputs,
            Self::Launch(options) => &options.inputs,
            Self::Kernels(options) => &options.inputs,
            Self::Efficiency(options) => &options.inputs,
            Self::Functions(options) => &options.inputs,
        }
    }

    /// Whether it is asked without options that change the answer.
    pub(crate) fn is_default(&self) -> bool {
        match self {
            Self::Kernels(options) => options.by.is_empty(),
            Self::Functions(options) => options.by.is_empty(),
            Self::Launch(options) => options.by.is_empty(),
            Self::Efficiency(options) => options.is_default(),
            _ => true,
        }
    }

    /// What is measured for it, each under the name of its question.
    pub(crate) fn measures(&self) -> Vec<Named> {
        match self {
            Self::Summary(_) => of_summary_and_findings(),
            Self::Advice(_) => of_advice(),
            Self::Timeline(_) => vec![("timeline", Box::<Timeline>::default())],
            Self::Gaps(_) => vec![("gaps", Box::<Gaps>::default())],
            Self::Kernels(options) => vec![("kernels", Box::new(Kernels::new(options.by())))],
            Self::Efficiency(options) => {
                vec![(EFFICIENCY, Box::new(Efficiency::new(options.asked())))]
            }
            Self::Copies(_) => vec![("copies", Box::<Copies>::default())],
            Self::Calls(_) => vec![("calls", Box::<Calls>::default())],
            Self::Functions(options) => {
                vec![("functions", Box::new(Functions::new(options.by())))]
            }
            Self::Locks(_) => vec![("locks", Box::<Locks>::default())],
            Self::Memory(_) => vec![("memory", Box::<Memory>::default())],
            Self::Sensors(_) => vec![("sensors", Box::<Sensors>::default())],
            Self::Streams(_) => vec![("streams", Box::<Streams>::default())],
            Self::Pop(_) => vec![("pop", Box::<Pop>::default())],
            Self::Stuck(_) => vec![("stuck", Box::<Stuck>::default())],
            Self::Launch(options) => {
                let by_shapes = options.by.contains(&LaunchKey::Shapes);
                vec![("launch", Box::new(Launch::new(by_shapes)))]
            }
        }
    }
}

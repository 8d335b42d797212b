//! Settings that take one of a few words: each enum is declared once here, and its words, their help
//! and the rows of the table follow from that.

use crate::setting::Choice;

/// Declares an enum from rows `Variant = "word": "help"`; the help is the variant's documentation too.
macro_rules! choices {
    ($(
        $(#[$attribute:meta])*
        $type:ident { $($variant:ident = $word:literal: $help:expr;)+ }
    )+) => { $(
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = concat!("`", $word, "`: ", $help, ".")] $variant,)+
        }

        impl $type {
            /// What the table lists.
            pub(crate) const CHOICES: &'static [Choice] =
                &[$(Choice { name: $word, help: $help }),+];

            /// The word for it in files and on the command line.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// By a word that was checked against the table.
            pub(crate) fn from_word(word: &str) -> Self {
                match word {
                    $($word => Self::$variant,)+
                    other => unreachable!("the table allows {other}, which has no meaning"),
                }
            }
        }
    )+ };
}

choices! {
    /// Which child processes are profiled.
    Follow {
        All = "all": "every child, forked or executed";
        Exec = "exec": "children that execute a program; not those that only fork";
        None = "none": "the command alone";
    }

    /// What the run says when it has ended.
    Closing {
        Full = "full": "a table: the processes, functions and kernels that took most time, how idle the GPUs were, and what to type next; of a parallel job one table of all ranks, by the rank that ends last";
        Lines = "lines": "a line for each trace";
        Off = "off": "warnings alone";
    }

    /// How stacks are walked.
    Unwinder {
        Cfi = "cfi": "our own walker over the full call-frame information";
        Framehop = "framehop": "the framehop library";
        FramePointers = "fp": "frame pointers only: cheapest, for programs built with them";
    }

    /// Which frames of Python programs are shown.
    Python {
        On = "on": "Python functions and lines in the same stack as the C and C++ beneath them";
        Off = "off": "native frames only, the interpreter's among them";
        Only = "only": "Python frames only";
    }

    /// Which clock takes the samples.
    SamplingClock {
        Auto = "auto": "timers, and perf events beside them where they are permitted, once a thread has taken three samples (in the children of the command, which may be many and short, only from 1.5 samples per tick of the kernel on, unless --realtime or GPUs are recorded)";
        Timer = "timer": "one CPU-time timer per thread, which expires when the kernel ticks";
        Perf = "perf": concat!(
            "one perf event `cpu-clock` per thread beside its timer: exact in the code of the program, also where it goes in step with the tick (time in the kernel is sampled at ticks), ",
            "at the price of a file descriptor of the program (its number is random, between half and three ",
            "quarters of `ulimit -n`) and a little more time"
        );
    }

    /// Whether the kernel's records of context switches say how long waits were.
    ContextSwitches {
        Auto = "auto": "with --realtime and where GPUs are recorded, if perf events are permitted, and as long as the target has no more than 20,000 switches a second for each processor";
        Off = "off": "waits are as long as looks at the threads say";
    }

    /// Which runtime reports kernels and copies.
    GpuSource {
        Auto = "auto": "the HIP runtime where it reports its operations, else the HSA runtime";
        Hip = "hip": "the tracer interface of the HIP runtime";
        HipProfiler = "hip-profiler": "experimental: the profiler within the HIP runtime (from 7.14 on; else as auto): no launch stacks, and calls without their threads";
        Hsa = "hsa": "interception of the HSA runtime's queues and copies";
        Off = "off": "calls only, no kernels or copies";
    }

    /// How much the interception of HSA queues may change.
    GpuLevel {
        Lite = "lite": "no packet is changed: only what the program's own signals show";
        Standard = "standard": "kernels without a signal get one of ours";
        Full = "full": "the same as standard";
    }

    /// Whose names the categories in a trace have.
    CategoryNames {
        Rsys = "rsys": "short ones: kernel, copy, fill, hip, hsa, roctx, rccl, openmp, kokkos, mutex, rwlock, spinlock; stacks have none";
        Original = "original": concat!(
            "those of rocprof-sys: rocm_kernel_dispatch, rocm_memory_copy (copies and fills), ",
            "rocm_scratch_memory, rocm_hip_api, rocm_hsa_api, rocm_marker_api, rocm_rccl_api, ompt, pthread (locks); ",
            "stacks have timer_sampling or overflow_sampling"
        );
    }

    /// How calls and what they caused on a GPU refer to each other in a trace.
    Flows {
        Both = "both": "the arrow, and the number as `correlation` on both: a viewer takes twice the memory, for it keeps sets of arguments that are equal once";
        Arrows = "arrows": "an arrow from the call to the operation";
        Numbers = "numbers": "the number alone: no arrows";
    }

    /// The clock of the windows of time.
    WindowClock {
        Realtime = "realtime": "wall-clock time, also while the machine sleeps (CLOCK_BOOTTIME)";
        CpuTime = "cputime": concat!(
            "the CPU time of each process, as its samples show it (counters of host and GPU: ",
            "wall-clock time)"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_is_written() {
        for clock in [
            SamplingClock::Auto,
            SamplingClock::Timer,
            SamplingClock::Perf,
        ] {
            assert_eq!(SamplingClock::from_word(clock.as_str()), clock);
        }
        let words = Unwinder::CHOICES.iter().map(|choice| choice.name);
        assert_eq!(words.collect::<Vec<_>>(), ["cfi", "framehop", "fp"]);
    }
}

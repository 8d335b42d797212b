//! The settings of `rsys`: one table, and everything that is read into it or printed from it.
//!
//! - [`table`] holds the rows: names, types, defaults, help texts, options. Settings of a few words are declared once in `choices`.
//! - [`Settings`] holds the values and where each came from; [`Settings::load`] reads files and environment in the right order,
//!   [`Settings::set`] takes command-line options, [`Settings::resolve`] turns all into plain fields.
//! - [`shorthands`] holds the options that set several settings or other ones than their own, [`presets`] named sets of values.
//! - [`backends`], [`keys`], [`rank`] and [`job`] know the names for `-I`/`-E`, the keys in output paths, the rank of a parallel job,
//!   and the job itself; [`gpu_metrics`] what is recorded of GPUs; [`Numbers`] and [`Nodes`] read lists of ranks and nodes.
//! - [`documents`] prints `default.cfg` and the reference page; [`generate`] writes the current values as a file, in four formats.
//! - `original` holds what serves command lines, files and scripts for rocprof-sys alone.
//!
//! Precedence: command line, then environment (`RSYS_X`, `ROCPROFSYS_X`, `OMNITRACE_X`), then files (a later file wins), then defaults.
//!
//! ```
//! use rsys_config::{Environment, Origin, Settings, Sources};
//!
//! let environment = Environment::from_pairs([("ROCPROFSYS_SAMPLING_FREQ", "100")]);
//! let mut settings = Settings::load(&Sources::without_files(environment))?;
//! settings.set("UNWINDER", "fp", Origin::CommandLine("--unwinder".into()))?;
//!
//! let resolved = settings.resolve();
//! assert_eq!(resolved.sampling_freq_hz, 100.0);
//! assert_eq!(resolved.unwinder, rsys_config::Unwinder::FramePointers);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod backends;
pub mod documents;
pub mod generate;
pub mod gpu_metrics;
pub mod job;
pub mod keys;
pub mod presets;
pub mod rank;
pub mod shorthands;
pub mod table;

mod choices;
mod environment;
mod files;
mod limits;
mod load;
pub mod nearest;
mod nodes;
mod numbers;
mod origin;
mod original;
mod problem;
mod rates;
mod reader;
mod resolved;
mod setting;
mod settings;
mod shorthand;
mod sources;
mod text;
mod value;
mod windows;

pub use choices::{
    CategoryNames, Closing, ContextSwitches, Flows, Follow, GpuLevel, GpuSource, Python,
    SamplingClock, Unwinder, WindowClock,
};
pub use environment::Environment;
pub use limits::FileLimits;
pub use nodes::Nodes;
pub use numbers::Numbers;
pub use origin::Origin;
pub use original::ignored::{IGNORED_SETTINGS, IgnoredSetting};
pub use original::programs::told_of;
pub use problem::{ConfigError, Problem, ProblemKind};
pub use rates::rates;
pub use resolved::{ProfileForms, Resolved, SymbolCache};
pub use settings::{Note, Settings};
pub use sources::{DEFAULT_FILES, FileChoice, Sources};
pub use value::Value;
pub use windows::{Period, Window};

/// Whether a setting of that name is known: one in use, or one of the original that has no effect.
#[must_use]
pub fn is_known(name: &str) -> bool {
    table::find(name).is_some() || original::ignored::find(name).is_some()
}

//! Settings about settings, and the choice of backends.

use super::{Category, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::General,
        "CONFIG_FILE",
        Kind::PathList,
        "",
        "Configuration files to read, in order; a later file wins over an earlier one",
    )
    .details(
        "Several files are separated by `:` or `;`. `none` reads no file at all. Without this setting the files ~/.rsys.cfg, \
         ~/.rocprof-sys.cfg and ~/.rocprofiler-systems.cfg are read where they exist; the first of these wins. Inside a file \
         it includes another file.",
    )
    .option(Some('c'), "config", "FILE"),
    Setting::new(
        Category::General,
        "SUPPRESS_CONFIG",
        Kind::Bool,
        "false",
        "Read no configuration file",
    )
    .details("Counts in the environment only; the same as CONFIG_FILE = none.")
    .advanced(),
    Setting::new(
        Category::General,
        "ENABLED",
        Kind::Bool,
        "true",
        "The master switch: when it is off, the command runs as if rsys-sample were not there",
    ),
];

pub(super) const BACKEND_SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Backends,
        "INCLUDE_BACKENDS",
        Kind::Backends,
        "",
        "Backends to switch on",
    )
    .details(
        "Separated by blanks or commas. Names of all versions of the original are known. A backend that is not part of this \
         build is reported in one line and the run goes on.",
    )
    .option(Some('I'), "include", "BACKEND"),
    Setting::new(
        Category::Backends,
        "EXCLUDE_BACKENDS",
        Kind::Backends,
        "",
        "Backends to switch off, whatever INCLUDE_BACKENDS says",
    )
    .option(Some('E'), "exclude", "BACKEND"),
];

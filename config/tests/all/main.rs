//! Files of configuration, as they are read and written.

mod bad_inputs;
mod originals;
mod written_defaults;

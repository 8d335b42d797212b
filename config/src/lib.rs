//! The table of settings and the parser of configuration files.

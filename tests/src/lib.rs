//! End-to-end tests, as a user would run them, and the workloads that they run.

//! GPUs: the simulated ones themselves, what is recorded of them by each way, and collectives between them.

mod beside;
mod counters;
mod driver;
mod faults;
mod flood;
mod hip;
mod hsa;
mod kernel_counters;
mod kernel_lines;
mod offload;
mod programs;
mod rccl;
mod rccl_proxy;
mod rccl_proxy_report;
mod simulated;
mod simulated_rccl;
mod smi;
mod tools;
mod versions;

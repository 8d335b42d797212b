//! Libraries of parallel programs, and what programs say of themselves.

mod interfaces;
mod kokkos;
mod markers;
mod mpi;
mod openmp;
mod openmp_runtime;
mod regions;
mod ucx_shmem;

//! The efficiencies: each is the product of those below it.
//!
//! With `T` the time of the rank that was in the region longest, `n` ranks of which each was `c` outside of MPI and `u` of that at work of its own, and `m` GPUs of which each was `a` at work and
//! `k` of that in kernels of the program:
//!
//! | efficiency | is |
//! |---|---|
//! | parallel | `Σu / nT`: MPI parallel × device offload |
//! | MPI parallel | `Σc / nT`: load balance × communication |
//! | MPI load balance | `mean c / max c`: within hosts (`max of the hosts' means / max c`) × between hosts (`mean c / max of the hosts' means`) |
//! | MPI communication | `max c / T` |
//! | device offload | `Σu / Σc` |
//! | GPU parallel | `Σk / mT'`: load balance × communication × orchestration |
//! | GPU load balance | `mean k / max k` |
//! | GPU communication | `max k / max a` |
//! | GPU orchestration | `max a / T'` |
//!
//! `T'` is `T`, or the time of the GPU whose ranks together were in the region for longer than each of them.
//!
//! Sources: the multiplicative model of POP, <https://pop-coe.eu/node/69>, and TALP's with GPUs, <https://pm.bsc.es/ftp/dlb/doc/user-guide/> (formulas in
//! <https://github.com/bsc-pm/dlb/blob/main/src/talp/perf_metrics.c>).

use std::collections::BTreeMap;

use super::regions::{NO_MPI, NO_RUNTIME, Region, Regions};
use rsys_traces::model::Model;

/// An efficiency.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factor {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    /// How many it is a factor of.
    pub(super) depth: u64,
    /// 1 where nothing is lost.
    pub(super) value: Option<f64>,
    /// What is missing for it.
    pub(super) why: Option<&'static str>,
}

/// The efficiencies of a region, each behind what it is a factor of.
pub(super) fn factors(region: &Region, regions: &Regions, model: &Model) -> Vec<Factor> {
    let mut factors = host(region, regions, model);
    if !region.gpus.is_empty() {
        factors.extend(gpus(region));
    }
    factors
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn host(region: &Region, regions: &Regions, model: &Model) -> Vec<Factor> {
    let count = region.ranks.len() as f64;
    let elapsed_ns = region.elapsed_ns() as f64;
    let times = || region.ranks.iter().map(|(_, times)| times);
    let outside = |elapsed_ns: u64, mpi_ns: u64| (elapsed_ns - mpi_ns) as f64;
    let sum_outside: f64 = times().map(|one| outside(one.elapsed_ns, one.mpi_ns)).sum();
    let max_outside = times()
        .map(|one| outside(one.elapsed_ns, one.mpi_ns))
        .fold(0.0, f64::max);
    let sum_useful: f64 = times().map(|one| one.useful_ns() as f64).sum();
    // Outside of MPI, by host: how many ranks, and their sum.
    let mut hosts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (process, one) in &region.ranks {
        let host = hosts
            .entry(model.process(*process).host.as_str())
            .or_default();
        host.0 += 1.0;
        host.1 += outside(one.elapsed_ns, one.mpi_ns);
    }
    let max_host = hosts
        .values()
        .map(|(ranks, sum)| sum / ranks)
        .fold(0.0, f64::max);
    let has_gpus = !regions.gpus.is_empty();
    let of_mpi = |key, name, depth, value: Option<f64>| Factor {
        key,
        name,
        depth,
        value: value.filter(|_| regions.has_mpi),
        why: (!regions.has_mpi).then_some(NO_MPI),
    };
    let of_offload = |key, name, depth, value: Option<f64>| Factor {
        key,
        name,
        depth,
        value: value.filter(|_| regions.has_runtime),
        why: (!regions.has_runtime).then_some(NO_RUNTIME),
    };
    let parallel = ratio(sum_useful, count * elapsed_ns);
    let lacks = match (regions.has_mpi, regions.has_runtime || !has_gpus) {
        (false, _) => Some(NO_MPI),
        (true, false) => Some(NO_RUNTIME),
        (true, true) => None,
    };
    let mut factors = vec![
        Factor {
            key: "parallel_efficiency",
            name: "parallel efficiency",
            depth: 0,
            value: parallel.filter(|_| lacks.is_none()),
            why: lacks,
        },
        of_mpi(
            "mpi_parallel_efficiency",
            "MPI parallel efficiency",
            1,
            ratio(sum_outside, count * elapsed_ns),
        ),
        of_mpi(
            "mpi_load_balance",
            "load balance",
            2,
            ratio(sum_outside / count, max_outside),
        ),
    ];
    if hosts.len() > 1 {
        factors.push(of_mpi(
            "mpi_load_balance_in",
            "within hosts",
            3,
            ratio(max_host, max_outside),
        ));
        factors.push(of_mpi(
            "mpi_load_balance_out",
            "between hosts",
            3,
            ratio(sum_outside / count, max_host),
        ));
    }
    factors.push(of_mpi(
        "mpi_communication_efficiency",
        "communication efficiency",
        2,
        ratio(max_outside, elapsed_ns),
    ));
    if has_gpus {
        factors.push(of_offload(
            "device_offload_efficiency",
            "device offload efficiency",
            1,
            ratio(sum_useful, sum_outside),
        ));
    }
    factors
}

fn gpus(region: &Region) -> [Factor; 4] {
    let count = region.gpus.len() as f64;
    let elapsed_ns = region.gpu_elapsed_ns() as f64;
    let times = || region.gpus.iter().map(|(_, times)| times);
    let sum_compute: f64 = times().map(|one| one.compute_ns as f64).sum();
    let max_compute = times().map(|one| one.compute_ns as f64).fold(0.0, f64::max);
    let max_active = times().map(|one| one.active_ns as f64).fold(0.0, f64::max);
    let factor = |key, name, depth, value| Factor {
        key,
        name,
        depth,
        value,
        why: None,
    };
    [
        factor(
            "gpu_parallel_efficiency",
            "GPU parallel efficiency",
            0,
            ratio(sum_compute, count * elapsed_ns),
        ),
        factor(
            "gpu_load_balance",
            "load balance",
            1,
            ratio(sum_compute / count, max_compute),
        ),
        factor(
            "gpu_communication_efficiency",
            "communication efficiency",
            1,
            ratio(max_compute, max_active),
        ),
        factor(
            "gpu_orchestration_efficiency",
            "orchestration efficiency",
            1,
            ratio(max_active, elapsed_ns),
        ),
    ]
}

//! Rules on hardware counters of kernels, on records made by hand.

use crate::common::{self, batch, model};
use rsys_analysis::advice::advise;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::show::json;
use rsys_traces::model::{DeviceId, GpuRecord, KernelCounter};
use serde_json::Value;

const MS: u64 = 1_000_000;

/// What is advised of two kernels in turn, of which `slow` has most of the time and these counters.
fn advised(counters: &[(&str, f64)]) -> Value {
    let mut model = model();
    let [slow, short] = ["slow", "short"].map(|name| model.texts.intern(name));
    let batch = batch(|batch| {
        for number in 0..50 {
            let start_ns = number * 100 * MS;
            let kernel = |name, start_ns, end_ns| GpuRecord {
                start_ns,
                end_ns,
                name,
                device: DeviceId::new(0),
                ..GpuRecord::default()
            };
            let between_ns = start_ns + 80 * MS;
            batch.gpu.push(kernel(slow, start_ns, between_ns));
            batch
                .gpu
                .push(kernel(short, between_ns, start_ns + 100 * MS));
            for (name, value) in counters {
                batch.kernel_counters.push(KernelCounter {
                    start_ns,
                    process: batch.gpu[0].process,
                    device: batch.gpu[0].device,
                    queue: batch.gpu[0].queue,
                    kernel: slow,
                    grid: batch.gpu[0].grid,
                    counter: model
                        .texts
                        .intern(&format!("{}{name}", KernelCounter::PREFIX)),
                    value: *value,
                });
            }
        }
    });
    let mut measures = common::advice_measures();
    let answers: Vec<_> = measures
        .iter_mut()
        .map(|(name, measure)| {
            measure.take(&batch);
            (*name, measure.answer(&model, "run"))
        })
        .collect();
    let value = json(&advise(&answers, &profiling_cost(&model)));
    common::judge(&value);
    value
}

/// The finding of a rule, if there is one.
fn finding<'v>(advised: &'v Value, rule: &str) -> Option<&'v Value> {
    let findings = advised["findings"].as_array()?;
    findings.iter().find(|finding| finding["rule"] == rule)
}

#[test]
fn conflicts_of_shared_memory_are_found() {
    for counters in [
        &[("LDSBankConflict", 25.0)][..],
        &[
            ("SQ_LDS_BANK_CONFLICT_sum", 250.0),
            ("SQ_LDS_IDX_ACTIVE_sum", 1000.0),
        ],
    ] {
        let advised = advised(counters);
        let found = finding(&advised, "lds_bank_conflicts").expect("it is found");
        assert_eq!(found["place"], "slow");
        // A quarter of four seconds.
        assert_eq!(found["saves_ns"], 1_000 * MS);
    }
    for healthy in [
        &[][..],
        &[("LDSBankConflict", 1.0)],
        &[("SQ_LDS_BANK_CONFLICT", 5.0), ("SQ_LDS_IDX_ACTIVE", 1000.0)],
        &[("SQ_LDS_BANK_CONFLICT", 5.0)],
        &[("SQ_LDS_BANK_CONFLICT", 0.0), ("SQ_LDS_IDX_ACTIVE", 0.0)],
    ] {
        assert_eq!(
            finding(&advised(healthy), "lds_bank_conflicts"),
            None,
            "{healthy:?}"
        );
    }
}

#[test]
fn a_cache_that_misses_is_found() {
    for counters in [
        &[("L2CacheHit", 10.0)][..],
        &[("TCC_HIT_sum", 100.0), ("TCC_MISS_sum", 900.0)],
    ] {
        let advised = advised(counters);
        let found = finding(&advised, "low_l2_hit_rate").expect("it is found");
        assert_eq!(found["place"], "slow");
        assert_eq!(found["evidence"]["hits_share"], 0.1);
    }
    for healthy in [
        &[][..],
        &[("L2CacheHit", 85.0)],
        &[("TCC_HIT", 900.0), ("TCC_MISS", 100.0)],
        &[("TCC_HIT", 10.0)],
        &[("TCC_HIT", 0.0), ("TCC_MISS", 0.0)],
    ] {
        assert_eq!(
            finding(&advised(healthy), "low_l2_hit_rate"),
            None,
            "{healthy:?}"
        );
    }
}

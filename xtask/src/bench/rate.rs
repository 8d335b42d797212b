//! Whether as many samples are taken as the rate promises.

use anyhow::Result;

use super::lab::{Lab, Wish};
use super::numbers::median;
use super::table::{Cell, Figures, Table};
use super::tools::FOR_RATE;

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let (seconds, repetitions, threads, rates_hz): (f64, usize, &[u32], &[u32]) = if lab.quick {
        (1.0, 1, &[1, 64], &[1000])
    } else {
        (2.0, 3, &[1, 4, 64, 256], &[100, 300, 1000])
    };
    let mut table = Table::new(
        "Rate: samples / (rate x CPU seconds)",
        &[
            "threads", "Hz", "tool", "CPU s", "samples", "weighted", "ratio",
        ],
    );
    let units_per_s = lab.calibrate(1.0, 2e6, |units| Ok(lab.chain(10, 1, units)))?;
    for &threads in threads {
        // At least ten samples of a thread at 300 Hz, or a thread's first tick decides.
        let total_s = seconds.max(f64::from(threads) * seconds / 60.0);
        for &rate_hz in rates_hz {
            eprintln!("bench: rate: {threads} threads, {rate_hz} Hz");
            let wish = Wish {
                rate_hz,
                ..Wish::default()
            };
            let program = lab.chain(10, threads, total_s * units_per_s);
            for (tool, runs) in lab.rounds(&FOR_RATE, &program, wish, repetitions) {
                let of = |value: &dyn Fn(&super::lab::Run) -> Option<f64>| {
                    let values: Vec<f64> = runs.iter().filter_map(value).collect();
                    median(&values)
                };
                let ratio = of(&|run| {
                    let cpu_s = run.report.get("cpu_total").ok()?;
                    Some(run.harvest.weighted / (f64::from(rate_hz) * cpu_s))
                });
                table.row(vec![
                    threads.to_string().into(),
                    Cell::number(Some(f64::from(rate_hz)), 0),
                    tool.name().into(),
                    Cell::number(of(&|run| run.report.get("cpu_total").ok()), 2),
                    Cell::number(of(&|run| Some(run.harvest.samples)), 0),
                    Cell::number(of(&|run| Some(run.harvest.weighted)), 0),
                    Cell::number(ratio, 4),
                ]);
                if let Some(ratio) = ratio {
                    figures.insert(format!("rate/{threads}/{rate_hz}/{}", tool.name()), ratio);
                }
            }
        }
    }
    table.note(format!(
        "medians of {repetitions} repetitions; perf has no weights"
    ));
    Ok(vec![table])
}

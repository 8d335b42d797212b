//! How many bytes of output a sample takes.

use anyhow::Result;

use super::lab::{Lab, Program, Wish};
use super::numbers::ratio;
use super::table::{Cell, Figures, Table};
use super::tools::{FOR_NATIVE, FOR_PYTHON, Tool, Yield};

/// The rate of all recordings.
const RATE_HZ: u32 = 1000;

/// Runs the measure.
pub fn measure(lab: &Lab, figures: &mut Figures) -> Result<Vec<Table>> {
    let seconds = if lab.quick { 0.4 } else { 1.0 };
    let mut table = Table::new(
        "Size: bytes of output per sample, at 1000 Hz",
        &[
            "program",
            "tool",
            "samples",
            "KB",
            "bytes/sample",
            "marginal",
            "marginal, x ours",
        ],
    );
    let units = lab.calibrate(seconds, 2e6, |units| Ok(lab.chain(30, 1, units)))?;
    let chains = [lab.chain(30, 1, units), lab.chain(30, 1, 4.0 * units)];
    compare(lab, &FOR_NATIVE, &chains, &mut table, figures);
    let python = |units: f64| lab.python("python_work.py", "Python", &[&units.to_string()]);
    let units = lab.calibrate(seconds, 200.0, python)?;
    compare(
        lab,
        &FOR_PYTHON,
        &[python(units)?, python(4.0 * units)?],
        &mut table,
        figures,
    );
    table.note("one long run; marginal: (bytes of the long run - bytes of one a quarter as long) / (samples of both likewise)");
    table.note(
        "perf.data holds addresses without names, samply's file too; rsys and py-spy write names",
    );
    Ok(vec![table])
}

fn compare(
    lab: &Lab,
    tools: &[Tool],
    [short, long]: &[Program; 2],
    table: &mut Table,
    figures: &mut Figures,
) {
    let mut variants: Vec<(Tool, String, &[&str])> = Vec::new();
    for tool in lab.choose(tools) {
        match tool {
            Tool::Bare => {}
            Tool::Rsys => {
                variants.push((tool, tool.name().to_owned(), &[]));
                variants.push((tool, "rsys, uncompressed".to_owned(), &["--compress=false"]));
            }
            _ => variants.push((tool, tool.name().to_owned(), &[])),
        }
    }
    let mut ours = None;
    for (tool, name, options) in variants {
        eprintln!("bench: size: {}, {name}", long.name);
        let wish = Wish {
            rate_hz: RATE_HZ,
            options,
            ..Wish::default()
        };
        let harvest = |program: &Program| -> Option<Yield> {
            match lab.run(tool, program, wish) {
                Ok(run) => Some(run.harvest),
                Err(error) => {
                    eprintln!("bench: {error:#}");
                    None
                }
            }
        };
        let (Some(few), Some(many)) = (harvest(short), harvest(long)) else {
            continue;
        };
        let all = many.bytes / many.samples;
        let marginal = (many.bytes - few.bytes) / (many.samples - few.samples);
        let ours = *ours.get_or_insert(marginal);
        table.row(vec![
            long.name.clone().into(),
            name.clone().into(),
            Cell::number(Some(many.samples), 0),
            Cell::number(Some(many.bytes / 1024.0), 1),
            Cell::number(Some(all), 1),
            Cell::number(Some(marginal), 1),
            Cell::number(ratio(marginal, ours), 2),
        ]);
        figures.insert(format!("size/{}/{name}/bytes_per_sample", long.name), all);
        figures.insert(format!("size/{}/{name}/marginal", long.name), marginal);
    }
}

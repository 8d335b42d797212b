//! Options of `efficiency`, and the file of peaks that a site has measured.

use std::path::Path;

use clap::{Args, ValueEnum};
use rsys_analysis::measure::gpu::efficiency::{By, Options};
use rsys_traces::work::peaks::{Peaks, Rates};
use toml::{Table, Value};

use crate::inputs::Inputs;

/// Options of `efficiency`.
#[derive(Debug, Args)]
pub(crate) struct EfficiencyOptions {
    #[command(flatten)]
    pub(crate) inputs: Inputs,
    /// What tells rows apart
    #[arg(long, value_enum, value_name = "WHAT", default_value = "shapes")]
    by: EfficiencyKey,
    /// Count what could be given back at this share of the roofline; by default the best that each family reached in this run
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    target: Option<f64>,
    /// Peaks of GPUs that count before those that rsys-report knows: a file of TOML
    #[arg(long, value_name = "FILE", value_parser = peaks_of_file)]
    peaks: Option<Site>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EfficiencyKey {
    /// The operator, its shapes and types, and the GPU
    Shapes,
    /// The operator
    Operator,
    /// The family: GEMM, attention, convolution, and so on
    Category,
    /// The kernels that operators ran
    Kernel,
    /// The rank
    Rank,
    /// The modules of PyTorch that called operators, also as a tree; needs with_stack=True
    Module,
    /// The function of Python, outside of PyTorch's own files, that called operators; needs with_stack=True
    Line,
}

/// The peaks of a file.
#[derive(Debug, Clone)]
struct Site(Vec<Peaks>);

impl EfficiencyOptions {
    /// Whether it is asked without options that change the answer.
    pub(crate) fn is_default(&self) -> bool {
        self.by == EfficiencyKey::Shapes && self.target.is_none() && self.peaks.is_none()
    }

    /// The same for the analysis.
    pub(crate) fn asked(&self) -> Options {
        Options {
            by: match self.by {
                EfficiencyKey::Shapes => By::Shapes,
                EfficiencyKey::Operator => By::Operator,
                EfficiencyKey::Category => By::Category,
                EfficiencyKey::Kernel => By::Kernel,
                EfficiencyKey::Rank => By::Rank,
                EfficiencyKey::Module => By::Module,
                EfficiencyKey::Line => By::Line,
            },
            target: self.target,
            peaks: self
                .peaks
                .as_ref()
                .map_or_else(Vec::new, |site| site.0.clone()),
        }
    }
}

/// A share of the roofline in percent, as a part of 1.
fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| "not a number".to_owned())?;
    match number > 0.0 && number <= 100.0 {
        true => Ok(number / 100.0),
        false => Err("not above 0 and at most 100".to_owned()),
    }
}

fn peaks_of_file(path: &str) -> Result<Site, String> {
    let text = std::fs::read_to_string(Path::new(path)).map_err(|error| error.to_string())?;
    peaks_of_text(&text, path).map(Site)
}

/// Reads the tables `[[gpu]]` of a file; what they say is told of by `docs/efficiency.md`.
fn peaks_of_text(text: &str, path: &str) -> Result<Vec<Peaks>, String> {
    let file: Table = text
        .parse()
        .map_err(|error: toml::de::Error| error.to_string())?;
    if let Some(other) = file.keys().find(|key| *key != "gpu") {
        return Err(format!("{other} is not known; GPUs are tables [[gpu]]"));
    }
    let gpus = file
        .get("gpu")
        .and_then(Value::as_array)
        .ok_or("it has no table [[gpu]]")?;
    gpus.iter()
        .map(|gpu| of_table(gpu.as_table().ok_or("gpu is no table")?, path))
        .collect()
}

fn of_table(table: &Table, path: &str) -> Result<Peaks, String> {
    let name = table
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim();
    if name.is_empty() {
        return Err("a [[gpu]] lacks its name: what its name in traces contains".to_owned());
    }
    let mut peaks = Peaks {
        name: name.to_owned(),
        words: vec![name.to_owned()],
        matrix: Rates::default(),
        vector: Rates::default(),
        memory: 0.0,
        cache_mib: 0.0,
        host: 0.0,
        peers: 0.0,
        source: path.to_owned(),
    };
    for (key, value) in table {
        let place = match key.as_str() {
            "name" => continue,
            "matrix_tflop_per_s" => {
                rates(&mut peaks.matrix, value, key)?;
                continue;
            }
            "vector_tflop_per_s" => {
                rates(&mut peaks.vector, value, key)?;
                continue;
            }
            "memory_tb_per_s" => &mut peaks.memory,
            "host_gb_per_s" => &mut peaks.host,
            other => return Err(format!("{other} of {name} is not known")),
        };
        *place = rate(value, key)?;
    }
    peaks.host /= 1e3;
    Ok(peaks)
}

fn rates(rates: &mut Rates, value: &Value, key: &str) -> Result<(), String> {
    let table = value
        .as_table()
        .ok_or_else(|| format!("{key} is no table of types"))?;
    for (name, value) in table {
        let place = rates
            .by_name(name)
            .ok_or_else(|| format!("{name} in {key} is not a type"))?;
        *place = rate(value, name)?;
    }
    Ok(())
}

fn rate(value: &Value, key: &str) -> Result<f64, String> {
    let number = value
        .as_float()
        .or_else(|| value.as_integer().map(|number| number as f64));
    number
        .filter(|number| number.is_finite() && *number > 0.0)
        .ok_or_else(|| format!("{key} is not a number above 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_peaks_is_read() {
        let text = "[[gpu]]\nname = 'MI300X'\nmemory_tb_per_s = 4.2\nhost_gb_per_s = 55\n\
                    matrix_tflop_per_s = { bf16 = 700, fp8 = 1200.5 }\nvector_tflop_per_s = { fp32 = 100 }\n";
        let peaks = peaks_of_text(text, "site.toml").unwrap();
        assert_eq!(peaks.len(), 1);
        assert_eq!((peaks[0].memory, peaks[0].host), (4.2, 0.055));
        assert_eq!(
            (
                peaks[0].matrix.bf16,
                peaks[0].matrix.fp8,
                peaks[0].vector.fp32
            ),
            (700.0, 1200.5, 100.0)
        );
        assert!(peaks[0].are_of("AMD Instinct MI300X VF"));
    }

    #[test]
    fn a_wrong_file_says_what_is_wrong() {
        for (text, words) in [
            ("gpu = 1", "no table [[gpu]]"),
            ("[[gpu]]\nmemory_tb_per_s = 1", "lacks its name"),
            (
                "[[gpu]]\nname = 'x'\nmemory_tb_per_s = -1",
                "not a number above 0",
            ),
            (
                "[[gpu]]\nname = 'x'\nmatrix_tflop_per_s = { bf17 = 1 }",
                "bf17",
            ),
            (
                "[[gpu]]\nname = 'x'\nmemory = 1",
                "memory of x is not known",
            ),
            ("[[gpus]]\nname = 'x'", "gpus is not known"),
            ("[[gpu]", "TOML"),
        ] {
            let error = peaks_of_text(text, "site.toml").unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn shares_are_percents() {
        assert_eq!(percent("80"), Ok(0.8));
        assert_eq!(percent("80 %"), Ok(0.8));
        assert!(percent("0").is_err() && percent("101").is_err() && percent("x").is_err());
    }
}

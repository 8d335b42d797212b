//! What GPUs could do at most: operations, bytes of their memory, bytes over their links.

mod table;

use super::{Engine, Scalar};

pub use table::PEAKS;

/// The peaks of a model of GPU. Rates are 10¹² operations or bytes for each second, without sparsity; 0: it cannot do that, or no source says how fast.
///
/// Of GPUs that are several to the system, as the two dies of an MI250X, it is what each of them can.
#[derive(Debug, Clone, PartialEq)]
pub struct Peaks {
    /// What the GPU is called.
    pub name: String,
    /// What the name of a GPU in a trace has to contain, all of it, in any case.
    pub words: Vec<String>,
    /// Products of matrices, by type.
    pub matrix: Rates,
    /// Element by element, of 32 and 64 bits; narrower types count as 32.
    pub vector: Rates,
    /// The GPU's own memory.
    pub memory: f64,
    /// The last cache in front of it, in MiB.
    pub cache_mib: f64,
    /// To the host, in one direction.
    pub host: f64,
    /// To all other GPUs together, in one direction.
    pub peers: f64,
    /// Where the figures are from.
    pub source: String,
}

/// Rates by type, in 10¹² operations for each second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// IEEE double.
    pub fp64: f64,
    /// IEEE single.
    pub fp32: f64,
    /// Singles whose factors are rounded to 10 bits (TF32, XF32).
    pub tf32: f64,
    /// IEEE half.
    pub fp16: f64,
    /// The upper half of a single.
    pub bf16: f64,
    /// 8 bits.
    pub fp8: f64,
    /// 4 bits.
    pub fp4: f64,
    /// Integers of 8 bits.
    pub int8: f64,
}

impl Rates {
    /// The rate of a type by its name in files; `None` if there is no such type.
    pub fn by_name(&mut self, name: &str) -> Option<&mut f64> {
        Some(match name {
            "fp64" => &mut self.fp64,
            "fp32" => &mut self.fp32,
            "tf32" => &mut self.tf32,
            "fp16" => &mut self.fp16,
            "bf16" => &mut self.bf16,
            "fp8" => &mut self.fp8,
            "fp4" => &mut self.fp4,
            "int8" => &mut self.int8,
            _ => return None,
        })
    }

    fn of(&self, scalar: Scalar, is_rounded: bool) -> f64 {
        match scalar {
            Scalar::F64 | Scalar::C128 => self.fp64,
            Scalar::F32 | Scalar::C64 if is_rounded => self.tf32,
            Scalar::F32 | Scalar::C64 => self.fp32,
            Scalar::F16 | Scalar::C32 => self.fp16,
            Scalar::BF16 => self.bf16,
            Scalar::F8 => self.fp8,
            Scalar::F4 => self.fp4,
            Scalar::I8 | Scalar::U8 => self.int8,
            Scalar::Bool | Scalar::I16 | Scalar::I32 | Scalar::I64 => 0.0,
        }
    }
}

impl Peaks {
    /// Whether these are of a GPU that is called so in a trace: its name has all words, as whole words. Slices of a GPU (NVIDIA's MIG) are none.
    #[must_use]
    pub fn are_of(&self, gpu: &str) -> bool {
        let gpu = gpu.to_ascii_lowercase();
        let has = |word: &str| has_word(&gpu, &word.to_ascii_lowercase());
        !self.words.is_empty() && self.words.iter().all(|word| has(word)) && !has("mig")
    }

    /// Operations for each second in a type; `None` if that is not known. `is_rounded`: singles are multiplied as TF32.
    #[must_use]
    pub fn operations_per_s(
        &self,
        engine: Engine,
        scalar: Scalar,
        is_rounded: bool,
    ) -> Option<f64> {
        let rate = match engine {
            Engine::Matrix => {
                let rate = self.matrix.of(scalar, is_rounded);
                // GPUs without matrix units for a type multiply matrices element by element.
                match scalar {
                    Scalar::F32 | Scalar::F64 if rate == 0.0 && !is_rounded => {
                        self.vector.of(scalar, false)
                    }
                    _ => rate,
                }
            }
            Engine::Vector => match scalar {
                Scalar::F64 | Scalar::C128 => self.vector.fp64,
                _ => self.vector.fp32,
            },
        };
        (rate > 0.0).then_some(rate * 1e12)
    }

    /// Bytes of the GPU's memory for each second.
    #[must_use]
    pub fn bytes_per_s(&self) -> Option<f64> {
        (self.memory > 0.0).then_some(self.memory * 1e12)
    }
}

/// Whether a text has these letters, and no letter or digit beside them.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        let behind = text[at + word.len()..].chars().next();
        !is_part(text[..at].chars().next_back()) && !is_part(behind)
    })
}

/// The first that are of a GPU: those of a site before the table.
#[must_use]
pub fn peaks_of<'p>(gpu: &str, of_site: &'p [Peaks]) -> Option<&'p Peaks> {
    let mut all = of_site.iter().chain(PEAKS.iter());
    all.find(|peaks| peaks.are_of(gpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_found_by_what_traces_call_them() {
        for (gpu, name) in [
            ("AMD Instinct MI300X VF", "MI300X"),
            ("AMD Instinct MI250X/MI250", "MI250X, each die"),
            ("AMD Instinct MI355X", "MI355X"),
            ("NVIDIA H100 80GB HBM3", "H100 SXM"),
            ("NVIDIA H100 PCIe", "H100 PCIe"),
            ("NVIDIA A100-SXM4-40GB", "A100 40 GB"),
            ("NVIDIA A100-SXM4-80GB", "A100 80 GB SXM"),
            ("Tesla V100-SXM2-16GB", "V100 SXM2"),
            ("NVIDIA B200", "B200"),
            ("AMD Radeon RX 7900 XTX", "RX 7900 XTX"),
            ("AMD Radeon RX 7900 XT", "RX 7900 XT"),
            ("NVIDIA GH200 480GB", "GH200, 96 GB"),
            ("NVIDIA H200 NVL", "H200 NVL"),
            ("NVIDIA H200", "H200"),
            ("Tesla V100S-PCIE-32GB", ""),
            ("NVIDIA A100-SXM-64GB", ""),
            ("NVIDIA H100 64GB HBM2", ""),
            ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", ""),
            ("NVIDIA GB200", ""),
            ("NVIDIA H1000", ""),
            ("AMD Radeon Graphics", ""),
            ("", ""),
        ] {
            let found = peaks_of(gpu, &[]).map_or("", |peaks| peaks.name.as_str());
            assert_eq!(found, name, "{gpu}");
        }
    }

    #[test]
    fn figures_are_in_proportion() {
        assert!(PEAKS.len() > 30);
        for peaks in PEAKS.iter() {
            assert!(peaks.source.starts_with("https://"), "{}", peaks.name);
            assert!(peaks.memory > 0.1 && peaks.memory < 20.0, "{}", peaks.name);
            assert!(peaks.vector.fp32 >= peaks.vector.fp64, "{}", peaks.name);
            assert!(peaks.matrix.fp16 >= peaks.vector.fp32, "{}", peaks.name);
            assert!(
                peaks.matrix.fp8 == 0.0 || peaks.matrix.fp8 > peaks.matrix.fp16,
                "{}",
                peaks.name
            );
        }
    }

    #[test]
    fn a_site_comes_first() {
        let mut own = PEAKS
            .iter()
            .find(|peaks| peaks.name == "MI300X")
            .unwrap()
            .clone();
        own.memory = 4.0;
        let found = peaks_of("AMD Instinct MI300X", std::slice::from_ref(&own)).unwrap();
        assert_eq!(found.bytes_per_s(), Some(4e12));
        assert_eq!(
            found.operations_per_s(Engine::Matrix, Scalar::BF16, false),
            Some(1307.4e12)
        );
        assert_eq!(
            found.operations_per_s(Engine::Matrix, Scalar::F32, true),
            Some(653.7e12)
        );
        assert_eq!(
            found.operations_per_s(Engine::Matrix, Scalar::I64, false),
            None
        );
    }
}

//! AMD GPUs as the kernel describes them, and what can be measured on them. No GPU runtime is touched.

pub mod definitions;
pub mod expression;
pub mod sensors;

use std::path::PathBuf;

use crate::roots::{Roots, names, text};

/// Why there is nothing to say about GPUs.
pub const NO_GPU: &str = "no AMD GPU";

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// Its place among the GPUs, as ROCm counts them.
    pub index: usize,
    /// Its instruction set: `gfx942`; empty where KFD has none.
    pub architecture: String,
    /// Its folder below /sys/class/drm: `card0/device`.
    pub device: Option<PathBuf>,
}

impl Gpu {
    /// Its address on PCI, `0000:c1:00.0`, where its card is visible.
    #[must_use]
    pub fn pci_address(&self) -> Option<String> {
        let target = std::fs::read_link(self.device.as_ref()?).ok()?;
        let name = target.file_name()?.to_str()?;
        name.contains(':').then(|| name.to_owned())
    }

    /// Its unique id, as `GPU-` and these digits name it to the runtimes; not every GPU has one.
    #[must_use]
    pub fn unique_id(&self) -> Option<String> {
        let digits = text(&self.device.as_ref()?.join("unique_id"))?;
        (!digits.is_empty()).then_some(digits)
    }

    /// As it is called in lists: `GPU 0 (gfx942)`.
    #[must_use]
    pub fn title(&self) -> String {
        if self.architecture.is_empty() {
            format!("GPU {}", self.index)
        } else {
            format!("GPU {} ({})", self.index, self.architecture)
        }
    }
}

const TOPOLOGY: &str = "sys/class/kfd/kfd/topology/nodes";
const CARDS: &str = "sys/class/drm";

/// The vendor id of AMD on PCI.
const AMD: &str = "0x1002";

/// All GPUs: those that KFD lists, else the cards of the amdgpu driver.
#[must_use]
pub fn find(roots: &Roots) -> Vec<Gpu> {
    let nodes = roots.path(TOPOLOGY);
    let mut gpus = Vec::new();
    for node in names(&nodes) {
        let properties = text(&nodes.join(&node).join("properties")).unwrap_or_default();
        let property = |name: &str| {
            properties.lines().find_map(|line| {
                let (key, value) = line.split_once(' ')?;
                (key == name).then(|| value.trim().parse::<u64>().ok())?
            })
        };
        // A node without vector units is a processor.
        if property("simd_count").unwrap_or(0) == 0 {
            continue;
        }
        let device = property("drm_render_minor")
            .filter(|minor| *minor > 0)
            .map(|minor| roots.path(CARDS).join(format!("renderD{minor}/device")))
            .filter(|device| device.exists());
        gpus.push(Gpu {
            index: gpus.len(),
            architecture: property("gfx_target_version").map_or_else(String::new, architecture),
            device,
        });
    }
    if gpus.is_empty() {
        let folder = roots.path(CARDS);
        let cards = names(&folder).into_iter().filter(|name| {
            name.strip_prefix("card")
                .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        for card in cards {
            let device = folder.join(card).join("device");
            if text(&device.join("vendor")).as_deref() == Some(AMD) {
                gpus.push(Gpu {
                    index: gpus.len(),
                    architecture: String::new(),
                    device: Some(device),
                });
            }
        }
    }
    gpus
}

/// `gfx942` of 90402: major, minor and stepping, the latter two in hexadecimal.
fn architecture(version: u64) -> String {
    match (version / 10_000, version / 100 % 100, version % 100) {
        (0, ..) => String::new(),
        (major, minor, stepping) => format!("gfx{major}{minor:x}{stepping:x}"),
    }
}

/// What to do about a missing GPU.
#[must_use]
pub fn no_gpu_remedy(roots: &Roots) -> String {
    let has_cards = !names(&roots.path(CARDS)).is_empty();
    if has_cards {
        "The driver amdgpu has no card here; other vendors' cards are not read.".to_owned()
    } else {
        "Load the driver (modprobe amdgpu); in a container, pass on the devices: --device /dev/kfd --device /dev/dri.".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_of_versions() {
        let cases = [
            (90402, "gfx942"),
            (90010, "gfx90a"),
            (90008, "gfx908"),
            (110_000, "gfx1100"),
            (100_302, "gfx1032"),
            (90500, "gfx950"),
            (0, ""),
        ];
        for (version, name) in cases {
            assert_eq!(architecture(version), name, "{version}");
        }
    }
}

//! The GPUs that can be simulated.

use anyhow::{Result, bail};

use super::file::File;

const GIB: u64 = 1 << 30;

/// What a model is made of. Sources: the kernel driver's topology of such cards, and the vendor's data sheets.
#[derive(Debug)]
pub struct Model {
    /// The compiler's name of the architecture.
    pub name: &'static str,
    /// The marketing name.
    pub product: &'static str,
    /// Major, minor and step of the architecture, in decimal.
    pub gfx_target_version: u32,
    /// PCI device.
    pub device_id: u32,
    /// The DRM driver's family number.
    pub family: u32,
    /// Compute units.
    pub compute_units: u32,
    /// SIMD units of a compute unit.
    pub simd_per_cu: u32,
    /// Shader arrays, of all dies together.
    pub arrays: u32,
    /// Compute units of an array.
    pub cu_per_array: u32,
    /// Work-items of a wave.
    pub wave_size: u32,
    /// Waves of a SIMD unit.
    pub waves_per_simd: u32,
    /// Device memory.
    pub vram_gib: u64,
    /// Copy engines for the host.
    pub copy_engines: u32,
    /// Copy engines for other GPUs.
    pub peer_copy_engines: u32,
    /// Dies.
    pub dies: u32,
    /// Greatest engine clock.
    pub clock_mhz: u32,
    /// Greatest memory clock.
    pub memory_clock_mhz: u32,
    /// Whether memory corrects errors.
    pub ecc: bool,
    /// Whether GPUs are linked to each other.
    pub linked: bool,
    /// Greatest power.
    pub power_w: u32,
    /// Version of the command processor's firmware. RCCL 7 wants 177 or later of a gfx942.
    pub firmware: u32,
}

const MODELS: &[Model] = &[
    Model {
        name: "gfx90a",
        product: "AMD Instinct MI250X",
        gfx_target_version: 90_010,
        device_id: 0x740c,
        family: 141,
        compute_units: 104,
        simd_per_cu: 4,
        arrays: 8,
        cu_per_array: 14,
        wave_size: 64,
        waves_per_simd: 8,
        vram_gib: 64,
        copy_engines: 2,
        peer_copy_engines: 3,
        dies: 1,
        clock_mhz: 1700,
        memory_clock_mhz: 1600,
        ecc: true,
        linked: true,
        power_w: 500,
        firmware: 78,
    },
    Model {
        name: "gfx942",
        product: "AMD Instinct MI300X",
        gfx_target_version: 90_402,
        device_id: 0x74a1,
        family: 141,
        compute_units: 304,
        simd_per_cu: 4,
        arrays: 32,
        cu_per_array: 10,
        wave_size: 64,
        waves_per_simd: 8,
        vram_gib: 192,
        copy_engines: 2,
        peer_copy_engines: 14,
        dies: 8,
        clock_mhz: 2100,
        memory_clock_mhz: 1300,
        ecc: true,
        linked: true,
        power_w: 750,
        firmware: 192,
    },
    Model {
        name: "gfx908",
        product: "AMD Instinct MI100",
        gfx_target_version: 90_008,
        device_id: 0x738c,
        family: 141,
        compute_units: 120,
        simd_per_cu: 4,
        arrays: 8,
        cu_per_array: 16,
        wave_size: 64,
        waves_per_simd: 10,
        vram_gib: 32,
        copy_engines: 2,
        peer_copy_engines: 6,
        dies: 1,
        clock_mhz: 1502,
        memory_clock_mhz: 1200,
        ecc: true,
        linked: true,
        power_w: 290,
        firmware: 78,
    },
    Model {
        name: "gfx1100",
        product: "AMD Radeon RX 7900 XTX",
        gfx_target_version: 110_000,
        device_id: 0x744c,
        family: 145,
        compute_units: 96,
        simd_per_cu: 2,
        arrays: 12,
        cu_per_array: 8,
        wave_size: 32,
        waves_per_simd: 16,
        vram_gib: 24,
        copy_engines: 2,
        peer_copy_engines: 0,
        dies: 1,
        clock_mhz: 2304,
        memory_clock_mhz: 1249,
        ecc: false,
        linked: false,
        power_w: 327,
        firmware: 78,
    },
];

impl Model {
    /// The model of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> Result<&'static Self> {
        let found = MODELS.iter().find(|model| model.name == name);
        let Some(found) = found else {
            let names: Vec<_> = MODELS.iter().map(|model| model.name).collect();
            bail!("there is no model `{name}`; there are {}", names.join(", "));
        };
        Ok(found)
    }

    /// Device memory, as configured or as usual.
    pub fn vram_bytes(&self, file: &File) -> u64 {
        file.vram_mib.map_or(self.vram_gib * GIB, |mib| mib << 20)
    }
}

//! Machines that are not here, put down as trees of files for `rsys-avail`: what sysfs, procfs and an installed ROCm say there, and
//! how the kernel answers `perf_event_open`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::paths::Scratch;

/// A machine as a tree of files.
#[derive(Debug)]
pub struct Machine {
    root: Scratch,
}

const UNITS: &str = "sys/bus/event_source/devices";

/// A driver's name for a temperature, with its value in thousandths of a degree.
type Temperature<'a> = (&'a str, u32);

impl Machine {
    /// A machine without counters and GPUs.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn new(paranoid_level: i32, capabilities: &str) -> Result<Self> {
        let machine = Self {
            root: Scratch::new("machine")?,
        };
        machine.file(
            "proc/sys/kernel/perf_event_paranoid",
            &paranoid_level.to_string(),
        )?;
        machine.file(
            "proc/self/status",
            &format!("Name:\tx\nCapEff:\t{capabilities}\nSeccomp:\t0\n"),
        )?;
        machine.unit("software", 1, &[])?;
        Ok(machine)
    }

    /// The folder that stands for `/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Writes a file below the root.
    ///
    /// # Errors
    /// When that fails.
    pub fn file(&self, path: &str, text: &str) -> Result<()> {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(&path, format!("{text}\n")).with_context(|| path.display().to_string())
    }

    /// How the kernel answers; see CONTRIBUTING.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kernel(&self, rules: &str) -> Result<()> {
        self.file("perf_event_open", rules)
    }

    /// A processor of this name, in a virtual machine or not.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn processor(&self, name: &str, is_virtual: bool) -> Result<()> {
        let hypervisor = if is_virtual { " hypervisor" } else { "" };
        let text = format!("model name\t: {name}\nflags\t\t: fpu vme{hypervisor} sse");
        self.file("proc/cpuinfo", &text)
    }

    /// A counting unit with files below its folder: `events/NAME`, `format/FIELD`, `cpumask`.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn unit(&self, name: &str, number: u32, files: &[(&str, &str)]) -> Result<()> {
        self.file(&format!("{UNITS}/{name}/type"), &number.to_string())?;
        for (file, text) in files {
            self.file(&format!("{UNITS}/{name}/{file}"), text)?;
        }
        Ok(())
    }

    /// GPU number `index` of KFD, with its card: `version` 90402 is gfx942.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn gpu(
        &self,
        index: u32,
        version: u32,
        power_file: &str,
        temperatures: &[Temperature<'_>],
    ) -> Result<()> {
        let nodes = "sys/class/kfd/kfd/topology/nodes";
        self.file(
            &format!("{nodes}/0/properties"),
            "cpu_cores_count 64\nsimd_count 0",
        )?;
        let minor = 128 + index;
        let node = index + 1;
        self.file(
            &format!("{nodes}/{node}/properties"),
            &format!(
                "cpu_cores_count 0\nsimd_count 1216\ngfx_target_version {version}\ndrm_render_minor {minor}"
            ),
        )?;
        let device = format!("sys/class/drm/renderD{minor}/device");
        for (file, text) in [
            ("vendor", "0x1002"),
            ("gpu_busy_percent", "37"),
            ("mem_info_vram_used", "1073741824"),
            ("mem_info_vram_total", "206141652992"),
            ("pp_dpm_sclk", "0: 132Mhz\n1: 2100Mhz *"),
        ] {
            self.file(&format!("{device}/{file}"), text)?;
        }
        self.file(
            &format!("{device}/hwmon/hwmon{node}/{power_file}"),
            "142000000",
        )?;
        for (number, (label, value)) in temperatures.iter().enumerate() {
            let base = format!("{device}/hwmon/hwmon{node}/temp{}", number + 1);
            self.file(&format!("{base}_label"), label)?;
            self.file(&format!("{base}_input"), &value.to_string())?;
        }
        Ok(())
    }

    /// A bare-metal EPYC as an unprivileged user meets it at level 2: user mode of one's own threads.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn epyc() -> Result<Self> {
        let machine = Self::new(2, "0000000000000000")?;
        machine.processor("AMD EPYC 9654 96-Core Processor", false)?;
        let fields = [
            ("format/event", "config:0-7,32-35"),
            ("format/umask", "config:8-15"),
        ];
        let events = [
            ("events/cpu-cycles", "event=0x76"),
            ("events/instructions", "event=0xc0"),
            ("events/cache-misses", "event=0x64,umask=0x09"),
        ];
        machine.unit("cpu", 4, &[&fields[..], &events[..]].concat())?;
        machine.unit(
            "amd_df",
            12,
            &[("cpumask", "0,96"), ("format/event", "config:0-7,32-37")],
        )?;
        machine.unit("ibs_op", 10, &[("format/cnt_ctl", "config:19")])?;
        machine.unit(
            "power",
            20,
            &[
                ("cpumask", "0,96"),
                ("format/event", "config:0-7"),
                ("events/energy-pkg", "event=0x02"),
                ("events/energy-pkg.unit", "Joules"),
                ("events/energy-pkg.scale", "2.3283064365386962890625e-10"),
            ],
        )?;
        // Zen has no reference cycles among the generic events.
        machine.kernel(
            "* EACCES processor\n10 EINVAL\n* EACCES kernel\n0:9 ENOENT\n3:6 ENOENT\n0 ok\n1 ok\n3 ok\n4 ok",
        )?;
        Ok(machine)
    }

    /// An Intel server as root meets it.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn intel() -> Result<Self> {
        let machine = Self::new(2, "000001ffffffffff")?;
        machine.processor("Intel(R) Xeon(R) Platinum 8480+", false)?;
        machine.unit(
            "cpu",
            4,
            &[
                ("format/event", "config:0-7"),
                ("format/umask", "config:8-15"),
                ("format/ldat", "config1:0-15"),
                ("events/mem-loads", "event=0xcd,umask=0x1,ldat=3"),
                ("events/slots", "event=0x00,umask=0x4"),
                ("events/offcore", "event=0xb7,core=?"),
            ],
        )?;
        for number in 0..8 {
            machine.unit(
                &format!("uncore_imc_{number}"),
                30 + number,
                &[
                    ("cpumask", "0"),
                    ("format/event", "config:0-7"),
                    ("format/umask", "config:8-15"),
                    ("events/cas_count_read", "event=0x05,umask=0xcf"),
                    ("events/cas_count_read.unit", "MiB"),
                    ("events/cas_count_read.scale", "6.103515625e-5"),
                ],
            )?;
        }
        machine.kernel("4:4cd ENOENT\n4:400 EBUSY\n* ok")?;
        Ok(machine)
    }

    /// A virtual machine without a PMU.
    ///
    /// # Errors
    /// When files cannot be written.
    pub fn virtual_machine() -> Result<Self> {
        let machine = Self::new(2, "000001ffffffffff")?;
        machine.processor("AMD EPYC", true)?;
        machine.kernel("1 ok\n2 ok")?;
        Ok(machine)
    }
}

//! The simulated part of `/sys`, `/dev` and `/proc`: files that processes see in place of the real ones.
//!
//! The topology is what the kernel driver (amdkfd) exports: node 0 is the host's processor, the others are the GPUs.
//! The PCI devices are what the graphics driver (amdgpu) and its readers (libdrm, the SMI libraries) know. Values that
//! change with the load are in `sensors`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result};

use super::describe::Plan;
use crate::settings::{FIRST_RENDER_MINOR, Gpu, Machine};

const NODES: &str = "sys/devices/virtual/kfd/kfd/topology/nodes";
/// Types of links, as in the kernel driver.
const PCI_EXPRESS: u32 = 2;
const XGMI: u32 = 11;
/// Number of the group of GPUs that are linked.
const HIVE: u64 = 0x51_6d67_7075;

/// PCI address of a GPU.
pub fn pci_address(index: usize) -> String {
    format!("0000:{:02x}:00.0", pci_bus(index))
}

/// PCI bus of a GPU: from 0x10 to 0x88.
fn pci_bus(index: usize) -> usize {
    0x10 + 8 * index
}

/// Folder of a GPU's PCI device, in the simulated tree.
pub fn pci_folder(root: &Path, index: usize) -> PathBuf {
    root.join("sys/devices/pci0000:00").join(pci_address(index))
}

/// A number that stays with a GPU.
fn unique_id(index: usize) -> u64 {
    0x5253_5953_0000_0000 + index as u64 + 1
}

/// Writes the whole tree below `root`.
///
/// # Errors
/// When it cannot be written.
pub fn build(root: &Path, plan: &Plan, machine: &Machine) -> Result<()> {
    let tree = Tree { root };
    tree.file("sys/devices/virtual/kfd/kfd/topology/generation_id", "2\n")?;
    tree.file(
        "sys/devices/virtual/kfd/kfd/topology/system_properties",
        "platform_oem 0\nplatform_id 0\nplatform_rev 0\n",
    )?;
    tree.folder("sys/devices/virtual/kfd/kfd/proc")?;
    tree.link("sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd")?;
    tree.file("sys/module/amdgpu/initstate", "live\n")?;
    tree.file("sys/module/amdgpu/version", "6.10.5\n")?;
    tree.file("sys/module/amdgpu/refcnt", "0\n")?;
    tree.folder("sys/module/amdgpu/holders")?;
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let modules = modules.lines().filter(|line| !line.starts_with("amdgpu "));
    let mut listed = "amdgpu 13000000 0 - Live 0x0000000000000000\n".to_owned();
    for line in modules {
        writeln!(listed, "{line}")?;
    }
    tree.file("proc/modules", &listed)?;
    tree.file("dev/kfd", "")?;
    processor_node(&tree, plan)?;
    for (index, gpu) in machine.gpus.iter().enumerate() {
        gpu_node(&tree, plan, gpu, index)?;
        pci_device(&tree, plan, gpu, index)?;
    }
    Ok(())
}

/// The host's processor.
fn processor_node(tree: &Tree<'_>, plan: &Plan) -> Result<()> {
    let node = format!("{NODES}/0");
    let cores = thread::available_parallelism().map_or(1, usize::from);
    tree.file(&format!("{node}/gpu_id"), "0\n")?;
    tree.file(&format!("{node}/name"), "\n")?;
    tree.properties(
        &format!("{node}/properties"),
        &[
            ("cpu_cores_count", cores as u64),
            ("simd_count", 0),
            ("mem_banks_count", 1),
            ("caches_count", 0),
            ("io_links_count", plan.gpus as u64),
            ("p2p_links_count", 0),
            ("cpu_core_id_base", 0),
            ("simd_id_base", 0),
            ("max_waves_per_simd", 0),
            ("lds_size_in_kb", 0),
            ("wave_front_size", 0),
            ("max_engine_clk_ccompute", 3000),
        ],
    )?;
    tree.properties(
        &format!("{node}/mem_banks/0/properties"),
        &[
            ("heap_type", 0),
            ("size_in_bytes", host_memory_bytes()),
            ("flags", 0),
            ("width", 64),
            ("mem_clk_max", 3200),
        ],
    )?;
    for gpu in 0..plan.gpus {
        link(tree, &node, "io_links", gpu, (0, gpu + 1), PCI_EXPRESS)?;
    }
    Ok(())
}

fn gpu_node(tree: &Tree<'_>, plan: &Plan, gpu: &Gpu, index: usize) -> Result<()> {
    let model = plan.model;
    let node = format!("{NODES}/{}", index + 1);
    let peers: Vec<usize> = (0..plan.gpus)
        .filter(|peer| *peer != index && model.linked)
        .collect();
    tree.file(&format!("{node}/gpu_id"), &format!("{}\n", gpu.gpu_id))?;
    tree.file(&format!("{node}/name"), &format!("{}\n", model.name))?;
    tree.properties(
        &format!("{node}/properties"),
        &[
            ("cpu_cores_count", 0),
            (
                "simd_count",
                u64::from(model.compute_units * model.simd_per_cu),
            ),
            ("mem_banks_count", 1),
            ("caches_count", 2),
            ("io_links_count", 1 + peers.len() as u64),
            ("p2p_links_count", 0),
            ("cpu_core_id_base", 0),
            ("simd_id_base", 0x8000_0000 + 0x1000 * index as u64),
            ("max_waves_per_simd", model.waves_per_simd.into()),
            ("lds_size_in_kb", 64),
            ("gds_size_in_kb", 0),
            ("num_gws", 64),
            ("wave_front_size", model.wave_size.into()),
            ("array_count", model.arrays.into()),
            ("simd_arrays_per_engine", 1),
            ("cu_per_simd_array", model.cu_per_array.into()),
            ("simd_per_cu", model.simd_per_cu.into()),
            ("max_slots_scratch_cu", 32),
            ("gfx_target_version", model.gfx_target_version.into()),
            ("vendor_id", 0x1002),
            ("device_id", model.device_id.into()),
            ("location_id", (pci_bus(index) << 8) as u64),
            ("domain", 0),
            (
                "drm_render_minor",
                u64::from(FIRST_RENDER_MINOR) + index as u64,
            ),
            ("hive_id", if model.linked { HIVE } else { 0 }),
            ("num_sdma_engines", model.copy_engines.into()),
            ("num_sdma_xgmi_engines", model.peer_copy_engines.into()),
            ("num_sdma_queues_per_engine", 8),
            ("num_cp_queues", 24),
            ("max_engine_clk_fcompute", model.clock_mhz.into()),
            ("local_mem_size", 0),
            ("fw_version", model.firmware.into()),
            ("capability", capability(model.ecc)),
            ("debug_prop", 1495),
            ("sdma_fw_version", 8),
            ("unique_id", unique_id(index)),
            ("num_xcc", model.dies.into()),
            ("max_engine_clk_ccompute", 3000),
        ],
    )?;
    tree.properties(
        &format!("{node}/mem_banks/0/properties"),
        &[
            // All of it can be accessed by the host, as on the machines that have such GPUs.
            ("heap_type", 1),
            ("size_in_bytes", gpu.vram_bytes),
            ("flags", 0),
            ("width", 4096),
            ("mem_clk_max", model.memory_clock_mhz.into()),
        ],
    )?;
    // Level and KiB. The type says: data, of a GPU. The runtimes refuse one with instructions only.
    for (cache, (level, size)) in [(1, 16), (2, 8192)].into_iter().enumerate() {
        let path = format!("{node}/caches/{cache}/properties");
        let mut text = String::new();
        for (key, value) in [
            ("processor_id_low", 0x8000_0000 + 0x1000 * index as u64),
            ("level", level),
            ("size", size),
            ("cache_line_size", 64),
            ("cache_lines_per_tag", 1),
            ("association", 16),
            ("latency", 0),
            ("type", 9),
        ] {
            writeln!(text, "{key} {value}")?;
        }
        text.push_str("sibling_map 1,0,0,0\n");
        tree.file(&path, &text)?;
    }
    link(tree, &node, "io_links", 0, (index + 1, 0), PCI_EXPRESS)?;
    for (number, peer) in peers.into_iter().enumerate() {
        link(
            tree,
            &node,
            "io_links",
            number + 1,
            (index + 1, peer + 1),
            XGMI,
        )?;
    }
    Ok(())
}

/// What the GPU can do, as the kernel driver counts bits.
fn capability(ecc: bool) -> u64 {
    const WATCH_POINTS: u64 = 1 << 7 | 2 << 8;
    const DOORBELLS_OF_64_BITS: u64 = 2 << 12;
    const TRAPS: u64 = 1 << 15;
    const ECC: u64 = 1 << 26;
    const TRAPS_IN_FIRMWARE: u64 = 1 << 29;
    WATCH_POINTS | DOORBELLS_OF_64_BITS | TRAPS | TRAPS_IN_FIRMWARE | if ecc { ECC } else { 0 }
}

fn link(
    tree: &Tree<'_>,
    node: &str,
    kind: &str,
    number: usize,
    (from, to): (usize, usize),
    class: u32,
) -> Result<()> {
    let (weight, bandwidth) = if class == XGMI {
        (15, 50_000)
    } else {
        (20, 32_000)
    };
    tree.properties(
        &format!("{node}/{kind}/{number}/properties"),
        &[
            ("type", class.into()),
            ("version_major", 0),
            ("version_minor", 0),
            ("node_from", from as u64),
            ("node_to", to as u64),
            ("weight", weight),
            ("min_latency", 0),
            ("max_latency", 0),
            ("min_bandwidth", bandwidth),
            ("max_bandwidth", bandwidth),
            ("recommended_transfer_size", 0),
            ("recommended_sdma_engine_id_mask", 0),
            ("flags", 1),
        ],
    )
}

/// The PCI device, its nodes, and the links that lead to them.
fn pci_device(tree: &Tree<'_>, plan: &Plan, gpu: &Gpu, index: usize) -> Result<()> {
    let address = pci_address(index);
    let device = format!("sys/devices/pci0000:00/{address}");
    let minor = FIRST_RENDER_MINOR + index as u32;
    let model = plan.model;
    let device_id = gpu.device_id;
    let uevent = format!(
        "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:{device_id:04X}\nPCI_SUBSYS_ID=1002:0C34\nPCI_SLOT_NAME={address}\n"
    );
    let files = [
        ("vendor", "0x1002\n".to_owned()),
        ("device", format!("{device_id:#06x}\n")),
        ("subsystem_vendor", "0x1002\n".to_owned()),
        ("subsystem_device", "0x0c34\n".to_owned()),
        ("revision", "0x00\n".to_owned()),
        ("class", "0x038000\n".to_owned()),
        ("uevent", uevent),
        ("numa_node", "0\n".to_owned()),
        ("local_cpulist", "0\n".to_owned()),
        ("enable", "1\n".to_owned()),
        ("unique_id", format!("{:016x}\n", unique_id(index))),
        ("product_name", format!("{}\n", model.product)),
        ("product_number", "102-D65201\n".to_owned()),
        ("serial_number", format!("692{index:09}\n")),
        ("vbios_version", "113-D65201-001\n".to_owned()),
        ("current_link_speed", "16.0 GT/s PCIe\n".to_owned()),
        ("current_link_width", "16\n".to_owned()),
        ("max_link_speed", "16.0 GT/s PCIe\n".to_owned()),
        ("max_link_width", "16\n".to_owned()),
        ("pcie_bw", "0 0 256\n".to_owned()),
        ("pcie_replay_count", "0\n".to_owned()),
        ("power_dpm_force_performance_level", "auto\n".to_owned()),
        ("power_dpm_state", "performance\n".to_owned()),
        ("pp_power_profile_mode", String::new()),
        (
            "pp_dpm_pcie",
            "0: 2.5GT/s, x8 \n1: 16.0GT/s, x16 *\n".to_owned(),
        ),
        ("pp_dpm_socclk", "0: 800Mhz *\n1: 1000Mhz \n".to_owned()),
        ("pp_dpm_fclk", "0: 1200Mhz *\n1: 1600Mhz \n".to_owned()),
        ("thermal_throttling_logging", "enabled\n".to_owned()),
        ("mem_info_vram_vendor", "hynix\n".to_owned()),
        ("xgmi_device_id", format!("{:#x}\n", unique_id(index))),
    ];
    for (name, content) in &files {
        tree.file(&format!("{device}/{name}"), content)?;
    }
    for firmware in [
        "asd", "ce", "mec", "mec2", "me", "pfp", "rlc", "sdma", "sdma2", "smc", "sos", "ta_ras",
        "ta_xgmi", "vcn",
    ] {
        tree.file(
            &format!("{device}/fw_version/{firmware}_fw_version"),
            &format!("{:#010x}\n", model.firmware),
        )?;
    }
    tree.link(
        &format!("sys/bus/pci/devices/{address}"),
        &format!("../../../devices/pci0000:00/{address}"),
    )?;
    tree.link(
        &format!("{device}/driver"),
        "../../../bus/pci/drivers/amdgpu",
    )?;
    tree.folder("sys/bus/pci/drivers/amdgpu")?;
    // libdrm asks what kind of bus it is. Without an answer, the SMI library of ROCm 6.1 knows no addresses.
    tree.link(&format!("{device}/subsystem"), "../../../bus/pci")?;
    for (name, number) in [
        (format!("card{index}"), index as u32),
        (format!("renderD{minor}"), minor),
    ] {
        let node = format!("{device}/drm/{name}");
        tree.file(&format!("{node}/dev"), &format!("226:{number}\n"))?;
        tree.file(
            &format!("{node}/uevent"),
            &format!("MAJOR=226\nMINOR={number}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor\n"),
        )?;
        tree.link(&format!("{node}/device"), &format!("../../../{address}"))?;
        tree.link(&format!("{node}/subsystem"), "../../../../../class/drm")?;
        tree.link(
            &format!("sys/class/drm/{name}"),
            &format!("../../devices/pci0000:00/{address}/drm/{name}"),
        )?;
        tree.link(
            &format!("sys/dev/char/226:{number}"),
            &format!("../../devices/pci0000:00/{address}/drm/{name}"),
        )?;
        tree.file(&format!("dev/dri/{name}"), "")?;
    }
    Ok(())
}

fn host_memory_bytes() -> u64 {
    // SAFETY: both questions take a constant and have no other effect.
    let (pages, page) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page).unwrap_or(0)
}

struct Tree<'a> {
    root: &'a Path,
}

impl Tree<'_> {
    fn folder(&self, path: &str) -> Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))
    }

    fn file(&self, path: &str, content: &str) -> Result<()> {
        let path = self.with_parent(path)?;
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))
    }

    fn link(&self, path: &str, target: &str) -> Result<()> {
        let path = self.with_parent(path)?;
        symlink(target, &path).with_context(|| format!("cannot link {}", path.display()))
    }

    fn properties(&self, path: &str, properties: &[(&str, u64)]) -> Result<()> {
        let mut text = String::new();
        for (key, value) in properties {
            writeln!(text, "{key} {value}")?;
        }
        self.file(path, &text)
    }

    fn with_parent(&self, path: &str) -> Result<PathBuf> {
        let path = self.root.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)
                .with_context(|| format!("cannot make {}", parent.display()))?;
        }
        Ok(path)
    }
}

//! The table of peaks, as those say who make the GPUs: without sparsity, at the highest clock. What a program can reach is less (for products of matrices, often
//! two thirds): `--peaks` replaces these by what a site has measured.
//!
//! Each row names its source. The first row counts whose words a GPU's name contains as whole words, so special names stand in front of general ones. What is not
//! exactly one of these is not known.

use std::sync::LazyLock;

use super::{Peaks, Rates};

const AMD: &str = "https://www.amd.com/en/products/accelerators/instinct/";
const RADEON: &str = "https://www.amd.com/en/products/graphics/";
const NVIDIA: &str = "https://www.nvidia.com/en-us/data-center/";

/// A row: the figures of matrices as `[fp64, fp32, tf32, fp16, bf16, fp8, fp4, int8]`, those of vectors as `[fp64, fp32]`, then the memory in TB/s, its cache in MiB, and
/// links to the host and to peers in GB/s.
struct Row {
    name: &'static str,
    words: &'static [&'static str],
    matrix: [f64; 8],
    vector: [f64; 2],
    memory: [f64; 2],
    links: [f64; 2],
    source: (&'static str, &'static str),
}

/// Half of what a card of two dies can, as the system has a GPU for each of them.
const fn half(matrix: [f64; 8]) -> [f64; 8] {
    let [a, b, c, d, e, f, g, h] = matrix;
    [
        a / 2.0,
        b / 2.0,
        c / 2.0,
        d / 2.0,
        e / 2.0,
        f / 2.0,
        g / 2.0,
        h / 2.0,
    ]
}

const ROWS: &[Row] = &[
    // CDNA
    Row {
        name: "MI355X",
        words: &["MI355X"],
        matrix: [78.6, 157.3, 0.0, 2516.6, 2516.6, 5033.2, 10066.3, 5033.2],
        vector: [78.6, 157.3],
        memory: [8.0, 256.0],
        links: [64.0, 537.6],
        source: (AMD, "mi350/mi355x.html"),
    },
    Row {
        name: "MI350X",
        words: &["MI350X"],
        matrix: [72.1, 144.2, 0.0, 2306.9, 2306.9, 4613.7, 9227.5, 4613.7],
        vector: [72.1, 144.2],
        memory: [8.0, 256.0],
        links: [64.0, 537.6],
        source: (AMD, "mi350/mi350x.html"),
    },
    Row {
        name: "MI325X",
        words: &["MI325X"],
        matrix: [163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 0.0, 2614.9],
        vector: [81.7, 163.4],
        memory: [6.0, 256.0],
        links: [64.0, 448.0],
        source: (AMD, "mi300/mi325x.html"),
    },
    Row {
        name: "MI300X",
        words: &["MI300X"],
        matrix: [163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 0.0, 2614.9],
        vector: [81.7, 163.4],
        memory: [5.3, 256.0],
        links: [64.0, 448.0],
        source: (AMD, "mi300/mi300x.html"),
    },
    Row {
        name: "MI300A",
        words: &["MI300A"],
        matrix: [122.6, 122.6, 490.3, 980.6, 980.6, 1961.2, 0.0, 1961.2],
        vector: [61.3, 122.6],
        memory: [5.3, 256.0],
        links: [0.0, 384.0],
        source: (AMD, "mi300/mi300a.html"),
    },
    Row {
        name: "MI250X, each die",
        words: &["MI250X"],
        matrix: half([95.7, 95.7, 0.0, 383.0, 383.0, 0.0, 0.0, 383.0]),
        vector: [23.95, 23.95],
        memory: [1.6384, 8.0],
        links: [36.0, 200.0],
        source: (AMD, "mi200/mi250x.html"),
    },
    Row {
        name: "MI250, each die",
        words: &["MI250"],
        matrix: half([90.5, 90.5, 0.0, 362.1, 362.1, 0.0, 0.0, 362.1]),
        vector: [22.63, 22.63],
        memory: [1.6384, 8.0],
        links: [32.0, 150.0],
        source: (AMD, "mi200/mi250.html"),
    },
    Row {
        name: "MI210",
        words: &["MI210"],
        matrix: [45.3, 45.3, 0.0, 181.0, 181.0, 0.0, 0.0, 181.0],
        vector: [22.6, 22.6],
        memory: [1.6384, 8.0],
        links: [32.0, 150.0],
        source: (AMD, "mi200/mi210.html"),
    },
    Row {
        name: "MI100",
        words: &["MI100"],
        matrix: [0.0, 46.1, 0.0, 184.6, 92.3, 0.0, 0.0, 184.6],
        vector: [11.5, 23.1],
        memory: [1.2288, 8.0],
        links: [32.0, 138.0],
        source: (AMD, "mi100.html"),
    },
    // RDNA 4
    Row {
        name: "RX 9070 XT",
        words: &["9070 XT"],
        matrix: [0.0, 48.7, 0.0, 195.0, 195.0, 389.0, 0.0, 389.0],
        vector: [0.76, 48.7],
        memory: [0.64, 64.0],
        links: [64.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/9000-series/amd-radeon-rx-9070xt.html",
        ),
    },
    Row {
        name: "RX 9070 GRE",
        words: &["9070 GRE"],
        matrix: [0.0, 34.3, 0.0, 137.0, 137.0, 275.0, 0.0, 275.0],
        vector: [0.54, 34.3],
        memory: [0.432, 48.0],
        links: [64.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/9000-series/amd-radeon-rx-9070gre.html",
        ),
    },
    Row {
        name: "RX 9070",
        words: &["9070"],
        matrix: [0.0, 36.1, 0.0, 145.0, 145.0, 289.0, 0.0, 289.0],
        vector: [0.56, 36.1],
        memory: [0.64, 64.0],
        links: [64.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/9000-series/amd-radeon-rx-9070.html",
        ),
    },
    Row {
        name: "RX 9060 XT",
        words: &["9060 XT"],
        matrix: [0.0, 25.6, 0.0, 103.0, 103.0, 205.0, 0.0, 205.0],
        vector: [0.4, 25.6],
        memory: [0.32, 32.0],
        links: [64.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/9000-series/amd-radeon-rx-9060xt.html",
        ),
    },
    Row {
        name: "Radeon AI PRO R9700",
        words: &["R9700"],
        matrix: [0.0, 47.8, 0.0, 191.0, 191.0, 383.0, 0.0, 383.0],
        vector: [0.75, 47.8],
        memory: [0.64, 64.0],
        links: [64.0, 0.0],
        source: (
            RADEON,
            "workstations/radeon-ai-pro/ai-9000-series/amd-radeon-ai-pro-r9700.html",
        ),
    },
    // RDNA 3
    Row {
        name: "RX 7900 XTX",
        words: &["7900 XTX"],
        matrix: [0.0, 61.4, 0.0, 122.8, 122.8, 0.0, 0.0, 122.8],
        vector: [1.92, 61.4],
        memory: [0.96, 96.0],
        links: [32.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/7000-series/amd-radeon-rx-7900xtx.html",
        ),
    },
    Row {
        name: "RX 7900 XT",
        words: &["7900 XT"],
        matrix: [0.0, 51.6, 0.0, 103.0, 103.0, 0.0, 0.0, 103.0],
        vector: [1.61, 51.6],
        memory: [0.8, 80.0],
        links: [32.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/7000-series/amd-radeon-rx-7900xt.html",
        ),
    },
    Row {
        name: "RX 7900 GRE",
        words: &["7900 GRE"],
        matrix: [0.0, 46.0, 0.0, 92.0, 92.0, 0.0, 0.0, 92.0],
        vector: [1.44, 46.0],
        memory: [0.576, 64.0],
        links: [32.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/7000-series/amd-radeon-rx-7900-gre.html",
        ),
    },
    Row {
        name: "RX 7800 XT",
        words: &["7800 XT"],
        matrix: [0.0, 37.3, 0.0, 74.6, 74.6, 0.0, 0.0, 74.6],
        vector: [1.17, 37.3],
        memory: [0.6243, 64.0],
        links: [32.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/7000-series/amd-radeon-rx-7800-xt.html",
        ),
    },
    Row {
        name: "RX 7700 XT",
        words: &["7700 XT"],
        matrix: [0.0, 35.2, 0.0, 70.3, 70.3, 0.0, 0.0, 70.3],
        vector: [1.1, 35.2],
        memory: [0.432, 48.0],
        links: [32.0, 0.0],
        source: (
            RADEON,
            "desktops/radeon/7000-series/amd-radeon-rx-7700-xt.html",
        ),
    },
    Row {
        name: "Radeon PRO W7900",
        words: &["W7900"],
        matrix: [0.0, 61.3, 0.0, 122.6, 122.6, 0.0, 0.0, 122.6],
        vector: [1.92, 61.3],
        memory: [0.864, 96.0],
        links: [32.0, 0.0],
        source: (RADEON, "workstations/radeon-pro/w7900.html"),
    },
    Row {
        name: "Radeon PRO W7800",
        words: &["W7800"],
        matrix: [0.0, 45.2, 0.0, 90.5, 90.5, 0.0, 0.0, 90.5],
        vector: [1.41, 45.2],
        memory: [0.576, 64.0],
        links: [32.0, 0.0],
        source: (RADEON, "workstations/radeon-pro/w7800.html"),
    },
    // NVIDIA
    Row {
        name: "B200",
        words: &["B200"],
        matrix: [37.0, 0.0, 1125.0, 2250.0, 2250.0, 4500.0, 9000.0, 4500.0],
        vector: [37.0, 75.0],
        memory: [7.7, 126.0],
        links: [64.0, 900.0],
        source: (NVIDIA, "hgx/"),
    },
    Row {
        name: "GH200, 96 GB",
        words: &["GH200", "480GB"],
        matrix: [67.0, 0.0, 494.7, 989.4, 989.4, 1978.9, 0.0, 1978.9],
        vector: [34.0, 67.0],
        memory: [4.0, 50.0],
        links: [450.0, 450.0],
        source: (NVIDIA, "grace-hopper-superchip/"),
    },
    Row {
        name: "H200 NVL",
        words: &["H200 NVL"],
        matrix: [60.0, 0.0, 417.5, 835.5, 835.5, 1671.0, 0.0, 1671.0],
        vector: [30.0, 60.0],
        memory: [4.8, 50.0],
        links: [64.0, 450.0],
        source: (NVIDIA, "h200/"),
    },
    Row {
        name: "H200",
        words: &["H200"],
        matrix: [67.0, 0.0, 494.7, 989.4, 989.4, 1978.9, 0.0, 1978.9],
        vector: [34.0, 67.0],
        memory: [4.8, 50.0],
        links: [64.0, 450.0],
        source: (NVIDIA, "h200/"),
    },
    Row {
        name: "H100 NVL",
        words: &["H100 NVL"],
        matrix: [60.0, 0.0, 417.5, 835.5, 835.5, 1671.0, 0.0, 1671.0],
        vector: [30.0, 60.0],
        memory: [3.9, 50.0],
        links: [64.0, 300.0],
        source: (NVIDIA, "h100/"),
    },
    Row {
        name: "H100 PCIe",
        words: &["H100 PCIe"],
        matrix: [51.2, 0.0, 378.0, 756.0, 756.0, 1513.0, 0.0, 1513.0],
        vector: [25.6, 51.2],
        memory: [2.0, 50.0],
        links: [64.0, 300.0],
        source: (NVIDIA, "h100/"),
    },
    Row {
        name: "H100 SXM",
        words: &["H100", "80GB", "HBM3"],
        matrix: [67.0, 0.0, 494.7, 989.4, 989.4, 1978.9, 0.0, 1978.9],
        vector: [34.0, 67.0],
        memory: [3.35, 50.0],
        links: [64.0, 450.0],
        source: (NVIDIA, "h100/"),
    },
    Row {
        name: "A100 80 GB PCIe",
        words: &["A100", "80GB", "PCIe"],
        matrix: [19.5, 0.0, 156.0, 312.0, 312.0, 0.0, 0.0, 624.0],
        vector: [9.7, 19.5],
        memory: [1.935, 40.0],
        links: [32.0, 300.0],
        source: (NVIDIA, "a100/"),
    },
    Row {
        name: "A100 80 GB SXM",
        words: &["A100", "80GB"],
        matrix: [19.5, 0.0, 156.0, 312.0, 312.0, 0.0, 0.0, 624.0],
        vector: [9.7, 19.5],
        memory: [2.039, 40.0],
        links: [32.0, 300.0],
        source: (NVIDIA, "a100/"),
    },
    Row {
        name: "A100 40 GB",
        words: &["A100", "40GB"],
        matrix: [19.5, 0.0, 156.0, 312.0, 312.0, 0.0, 0.0, 624.0],
        vector: [9.7, 19.5],
        memory: [1.555, 40.0],
        links: [32.0, 300.0],
        source: (NVIDIA, "a100/"),
    },
    Row {
        name: "L40S",
        words: &["L40S"],
        matrix: [0.0, 0.0, 183.0, 362.0, 362.0, 733.0, 0.0, 733.0],
        vector: [1.43, 91.6],
        memory: [0.864, 96.0],
        links: [32.0, 0.0],
        source: (NVIDIA, "l40s/"),
    },
    Row {
        name: "A10",
        words: &["A10"],
        matrix: [0.0, 0.0, 62.5, 125.0, 125.0, 0.0, 0.0, 250.0],
        vector: [0.98, 31.2],
        memory: [0.6, 6.0],
        links: [32.0, 0.0],
        source: (NVIDIA, "products/a10-gpu/"),
    },
    Row {
        name: "T4",
        words: &["Tesla T4"],
        matrix: [0.0, 0.0, 0.0, 65.0, 0.0, 0.0, 0.0, 130.0],
        vector: [0.25, 8.1],
        memory: [0.32, 4.0],
        links: [16.0, 0.0],
        source: (NVIDIA, "tesla-t4/"),
    },
    Row {
        name: "V100 SXM2",
        words: &["V100-SXM2"],
        matrix: [0.0, 0.0, 0.0, 125.0, 0.0, 0.0, 0.0, 0.0],
        vector: [7.8, 15.7],
        memory: [0.9, 6.0],
        links: [16.0, 150.0],
        source: (NVIDIA, "v100/"),
    },
    Row {
        name: "V100 PCIe",
        words: &["V100-PCIE"],
        matrix: [0.0, 0.0, 0.0, 112.0, 0.0, 0.0, 0.0, 0.0],
        vector: [7.0, 14.0],
        memory: [0.9, 6.0],
        links: [16.0, 0.0],
        source: (NVIDIA, "v100/"),
    },
];

/// All rows.
pub static PEAKS: LazyLock<Vec<Peaks>> = LazyLock::new(|| ROWS.iter().map(peaks).collect());

fn peaks(row: &Row) -> Peaks {
    let [fp64, fp32, tf32, fp16, bf16, fp8, fp4, int8] = row.matrix;
    let [double, single] = row.vector;
    Peaks {
        name: row.name.to_owned(),
        words: row.words.iter().map(|word| (*word).to_owned()).collect(),
        matrix: Rates {
            fp64,
            fp32,
            tf32,
            fp16,
            bf16,
            fp8,
            fp4,
            int8,
        },
        vector: Rates {
            fp64: double,
            fp32: single,
            ..Rates::default()
        },
        memory: row.memory[0],
        cache_mib: row.memory[1],
        host: row.links[0] / 1e3,
        peers: row.links[1] / 1e3,
        source: [row.source.0, row.source.1].concat(),
    }
}

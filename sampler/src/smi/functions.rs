//! Which function of a library gives which sensor.

use std::ffi::CStr;

/// Memory is shown in MiB.
pub(super) const MIB: f64 = 1.0 / 1_048_576.0;

/// How a sensor's number is asked for. The device comes first, the result is the last parameter, 0
/// is success.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// `f(device, u32 *)`.
    U32,
    /// `f(device, u64 *)`, with the factor to the unit.
    U64(f64),
    /// `f(device, which, u64 *)`.
    U64Of(u32, f64),
    /// `f(device, which, i64 *)`.
    I64Of(u32, f64),
    /// `f(device, which, 0, i64 *)`: the present value of a sensor that also has limits.
    Current(u32, f64),
    /// `f(device, u64 *count, float *microjoules_per_count, u64 *timestamp)`.
    Energy,
    /// `f(device, which, frequencies *)`: see `level_hz`.
    Level(u32),
    /// `f(device, metrics *)`: the 16 bits at this byte of the table of everything; its first 24
    /// bytes are the same in all versions.
    Metrics(usize),
    /// `f(device, u32[16] *)`: shares of time of the engines.
    Activity(usize),
}

use Shape::{Activity, Current, Energy, I64Of, Level, Metrics, U32, U64, U64Of};

/// Sensor, function, shape; units are those of [`rsys_machine::gpu::sensors`]. The first row that
/// answers counts.
pub(super) type Row = (&'static str, &'static CStr, Shape);

#[rustfmt::skip]
pub(super) const ROCM: &[Row] = &[
    ("busy", c"rsmi_dev_busy_percent_get", U32),
    ("mem_busy", c"rsmi_dev_memory_busy_percent_get", U32),
    ("mm_busy", c"rsmi_dev_gpu_metrics_info_get", Metrics(20)),
    ("vram_used", c"rsmi_dev_memory_usage_get", U64Of(0, MIB)),
    ("gtt_used", c"rsmi_dev_memory_usage_get", U64Of(2, MIB)),
    ("power", c"rsmi_dev_power_ave_get", U64Of(0, 1e-6)),
    ("power", c"rsmi_dev_current_socket_power_get", U64(1e-6)),
    ("temp_edge", c"rsmi_dev_temp_metric_get", Current(0, 1e-3)),
    ("temp_junction", c"rsmi_dev_temp_metric_get", Current(1, 1e-3)),
    ("temp_memory", c"rsmi_dev_temp_metric_get", Current(2, 1e-3)),
    ("voltage", c"rsmi_dev_volt_metric_get", Current(0, 1e-3)),
    ("fan", c"rsmi_dev_fan_rpms_get", I64Of(0, 1.0)),
    ("energy", c"rsmi_dev_energy_count_get", Energy),
    ("clock_gfx", c"rsmi_dev_gpu_clk_freq_get", Level(0)),
    ("clock_memory", c"rsmi_dev_gpu_clk_freq_get", Level(4)),
];

#[rustfmt::skip]
pub(super) const AMD: &[Row] = &[
    ("busy", c"amdsmi_get_gpu_activity", Activity(0)),
    ("mem_busy", c"amdsmi_get_gpu_activity", Activity(1)),
    ("mm_busy", c"amdsmi_get_gpu_activity", Activity(2)),
    ("vram_used", c"amdsmi_get_gpu_memory_usage", U64Of(0, MIB)),
    ("gtt_used", c"amdsmi_get_gpu_memory_usage", U64Of(2, MIB)),
    ("power", c"amdsmi_get_gpu_metrics_info", Metrics(22)),
    ("temp_edge", c"amdsmi_get_temp_metric", Current(0, 1.0)),
    ("temp_junction", c"amdsmi_get_temp_metric", Current(1, 1.0)),
    ("temp_memory", c"amdsmi_get_temp_metric", Current(2, 1.0)),
    ("voltage", c"amdsmi_get_gpu_volt_metric", Current(0, 1e-3)),
    ("fan", c"amdsmi_get_gpu_fan_rpms", I64Of(0, 1.0)),
    ("energy", c"amdsmi_get_energy_count", Energy),
    ("clock_gfx", c"amdsmi_get_clk_freq", Level(0)),
    ("clock_memory", c"amdsmi_get_clk_freq", Level(4)),
];

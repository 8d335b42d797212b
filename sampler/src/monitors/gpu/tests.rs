//! GPUs made of files.

use std::fs;
use std::path::{Path, PathBuf};

use rsys_config::Numbers;

use super::*;

fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// GPUs of which the first has an edge sensor, and the others have not.
fn machine(name: &str, gpus: usize) -> PathBuf {
    let root = std::env::temp_dir().join(format!("rsys-gpus-{}-{name}", std::process::id()));
    for index in 0..gpus {
        let node = format!("sys/class/kfd/kfd/topology/nodes/{}", index + 1);
        let minor = 128 + index;
        put(
            &root,
            &format!("{node}/gpu_id"),
            &format!("{}\n", 1000 + index),
        );
        put(
            &root,
            &format!("{node}/properties"),
            &format!("simd_count 416\ngfx_target_version 90402\ndrm_render_minor {minor}\n"),
        );
        let device = format!("sys/class/drm/renderD{minor}/device");
        let files = [
            ("gpu_busy_percent", "37\n"),
            ("mem_info_vram_used", "1048576\n"),
            ("hwmon/hwmon3/power1_input", "123000000\n"),
            ("hwmon/hwmon3/temp2_label", "junction\n"),
            ("hwmon/hwmon3/temp2_input", "61000\n"),
        ];
        for (file, text) in files {
            put(&root, &format!("{device}/{file}"), text);
        }
    }
    let edge = "sys/class/drm/renderD128/device/hwmon/hwmon3/temp1";
    put(&root, &format!("{edge}_label"), "edge\n");
    put(&root, &format!("{edge}_input"), "55000\n");
    root
}

fn choice(gpus: &str, metrics: &str) -> Choice {
    Choice {
        gpus: Numbers::parse(gpus).expect("a list"),
        metrics: metrics.to_owned(),
        ..Choice::default()
    }
}

fn read(gpus: &mut Gpus) -> Vec<(String, f64)> {
    let mut out = Vec::new();
    gpus.read(1, &mut out);
    out.iter()
        .map(|one| (one.counter.name.clone(), one.value))
        .collect()
}

#[test]
fn each_metric_names_sensors_that_there_are() {
    let tracks = METRICS.iter().flat_map(|metric| metric.tracks);
    for name in tracks.flat_map(|track| track.sensors) {
        // Only the SMI libraries have the video engines.
        assert!(
            sensors::find(name).is_some() || *name == "mm_busy",
            "{name}"
        );
    }
    let of_no_gpu = METRICS.iter().filter(|metric| metric.tracks.is_empty());
    assert_eq!(
        of_no_gpu.map(|metric| metric.name).collect::<Vec<_>>(),
        [ENGINES, EVENTS, OCCUPANCY]
    );
}

#[test]
fn what_a_gpu_lacks_does_not_hide_the_rest() {
    let root = machine("lacks", 2);
    let roots = Roots::simulated(root.clone());
    let (gpus, complaints) = prepare(
        &roots,
        &choice("1", "busy, temp, power, fan, mem_usage, xgmi"),
    );
    let named = |name: &str, value| (name.to_owned(), value);
    assert_eq!(
        read(&mut gpus.unwrap()),
        [
            named("GPU Busy [1] (S)", 37.0),
            // No edge sensor: the next one.
            named("GPU Temperature [1] (S)", 61.0),
            named("GPU Power [1] (S)", 123.0),
            named("GPU Memory Usage [1] (S)", 1_048_576.0),
        ]
    );
    assert_eq!(
        complaints,
        [
            "GPU_METRICS: 'xgmi' is not a sensor of this build",
            "GPU 1 (gfx942): no fan (this GPU does not have it)"
        ]
    );
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_sensor_that_goes_is_given_up_alone() {
    let root = machine("goes", 1);
    let roots = Roots::simulated(root.clone());
    let mut gpus = prepare(&roots, &choice("all", "busy temp")).0.unwrap();
    assert_eq!(read(&mut gpus)[1].1, 55.0);
    let device = root.join("sys/class/drm/renderD128/device");
    fs::remove_file(device.join("gpu_busy_percent")).unwrap();
    for degrees in 0..PATIENCE {
        let text = format!("{}000\n", 60 + degrees);
        fs::write(device.join("hwmon/hwmon3/temp1_input"), text).unwrap();
        let expected = f64::from(60 + degrees);
        assert_eq!(
            read(&mut gpus),
            [("GPU Temperature [0] (S)".to_owned(), expected)]
        );
    }
    assert_eq!(gpus.sensors.len(), 1);
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn only_visible_gpus_are_read() {
    let root = machine("visible", 4);
    let roots = Roots::simulated(root.clone());
    for (minor, id) in [(128, "0123456789abcdef"), (130, "fedcba9876543210")] {
        let file = format!("sys/class/drm/renderD{minor}/device/unique_id");
        put(&root, &file, &format!("{id}\n"));
    }
    let cases = [
        (
            "all",
            Some("GPU-FEDCBA9876543210,GPU-0123456789abcdef"),
            None,
            vec![0, 2],
        ),
        ("all", Some("1,GPU-fedcba9876543210"), Some("1"), vec![2]),
        ("all", Some("2,3"), Some("GPU-fedcba9876543210"), vec![2]),
        ("all", Some("3,-1,0"), None, vec![3]),
        ("all", None, None, vec![0, 1, 2, 3]),
        ("none", None, None, vec![]),
        ("0-1,3", None, None, vec![0, 1, 3]),
        ("all", Some("2,3"), None, vec![2, 3]),
        ("all", Some("2,3"), Some("1"), vec![3]),
        ("all", None, Some("0,1"), vec![0, 1]),
        ("0,2", Some("2,3"), None, vec![2]),
        ("all", Some("GPU-0123"), None, vec![0, 1, 2, 3]),
        ("all", Some(""), None, vec![]),
    ];
    for (asked, rocr, hip, expected) in cases {
        let mut choice = choice(asked, "busy");
        choice.visible = [rocr, hip].map(|list| list.map(str::to_owned));
        let gpus = prepare(&roots, &choice).0.unwrap();
        let found: Vec<usize> = gpus.ids.iter().map(|gpu| gpu.index).collect();
        assert_eq!(found, expected, "{asked} {rocr:?} {hip:?}");
        assert_eq!(gpus.sensors.len(), expected.len());
    }
    fs::remove_dir_all(root).unwrap();
    let nothing = Roots::simulated("/nonexistent".into());
    assert!(prepare(&nothing, &choice("all", "")).1.is_empty());
    let wanted = Choice {
        wanted: true,
        ..Choice::default()
    };
    let complaints = prepare(&nothing, &wanted).1;
    assert!(complaints[0].contains("no AMD GPU"), "{complaints:?}");
}

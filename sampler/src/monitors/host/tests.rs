//! A host made of files.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::monitors::file::SCRATCH_BYTES;

fn put(root: &std::path::Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A host with three processors, which were busy for the given number of a thousand ticks in each
/// second.
fn fill(root: &std::path::Path, busy: [u64; 3], second: u64) {
    let mut stat = "cpu  1 2 3 4\n".to_owned();
    for (processor, busy) in busy.iter().enumerate() {
        let (user, system) = (busy * second / 2, busy * second / 2);
        let idle = 1000 * second - user - system;
        stat += &format!(
            "cpu{processor} {user} 0 {system} {} 7 0 0 0 99 0\n",
            idle + 10
        );
    }
    put(root, "proc/stat", &format!("{stat}intr 1 2 3\n"));
    let memory =
        "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\nSwapTotal: 5 kB\nSwapFree: 5 kB\n";
    put(root, "proc/meminfo", memory);
    let total = 250_000 * second;
    let pressure = format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={total}\n");
    put(root, "proc/pressure/io", &pressure);
    let (received, sent) = (1000 * second, 3000 * second);
    put(
        root,
        "proc/net/dev",
        &format!(
            "Inter-| Receive\n face |bytes\n    lo: 9999999 1 0 0 0 0 0 0 9999999 1 0 0 0 0 0 0\n  \
             eth0: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0\n"
        ),
    );
    for (processor, kilohertz) in [(0, 2_000_000), (1, 3_000_000), (2, 2_500_000)] {
        let name = format!("sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_cur_freq");
        put(root, &name, &format!("{kilohertz}\n"));
    }
    put(root, "sys/class/hwmon/hwmon0/name", "nvme\n");
    put(root, "sys/class/hwmon/hwmon0/temp1_input", "99000\n");
    put(root, "sys/class/hwmon/hwmon1/name", "k10temp\n");
    put(root, "sys/class/hwmon/hwmon1/temp1_input", "55500\n");
}

#[test]
fn a_host_of_files() {
    let root = std::env::temp_dir().join(format!("rsys-host-{}", std::process::id()));
    let second = 1_000_000_000;
    fill(&root, [0, 500, 1000], 1);
    let mut host = Host::new(
        &Roots::simulated(root.clone()),
        &Numbers::parse("1-2").unwrap(),
    );
    let mut scratch = vec![0; SCRATCH_BYTES];
    let mut out = Vec::new();
    host.read(second, &mut scratch, &mut out);
    fill(&root, [0, 500, 1000], 2);
    host.read(2 * second, &mut scratch, &mut out);
    let last: BTreeMap<&str, f64> = out
        .iter()
        .map(|one| (one.counter.name.as_str(), one.value))
        .collect();
    let expected = [
        ("CPU Frequency [1] (S)", 3000.0),
        ("CPU Frequency [2] (S)", 2500.0),
        ("CPU Frequency max (S)", 3000.0),
        ("CPU Frequency mean (S)", 2500.0),
        ("CPU Frequency min (S)", 2000.0),
        ("CPU Load [1] (S)", 50.0),
        ("CPU Load [2] (S)", 100.0),
        ("CPU Load max (S)", 100.0),
        ("CPU Load mean (S)", 50.0),
        ("CPU Load min (S)", 0.0),
        ("CPU Temperature (S)", 55.5),
        ("Host Memory Used (S)", 600.0 * 1024.0),
        ("Host Network Received (S)", 1000.0),
        ("Host Network Sent (S)", 3000.0),
        ("Host Pressure io (S)", 25.0),
        ("Host Swap Used (S)", 0.0),
    ];
    assert_eq!(last, BTreeMap::from(expected));
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_host_without_files_says_nothing() {
    let roots = Roots::simulated("/nonexistent".into());
    let mut out = Vec::new();
    Host::new(&roots, &Numbers::Unsaid).read(1, &mut [0; 64], &mut out);
    assert!(out.is_empty());
}

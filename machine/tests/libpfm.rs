//! Names of processors' own events become what the kernel takes, by libpfm4: for processors that are not here, which the library is
//! told to take for this one. Without the library there is nothing to test.

use std::process::Command;

use rsys_machine::events::find;
use rsys_machine::perf::{Event, kind};
use rsys_machine::roots::Roots;

/// Processor as libpfm4 calls it; names of events with `config`, `config1`, as the vendors' manuals have them (event in bits 0 to 7,
/// unit mask in bits 8 to 15; inversion in bit 23, counter mask in bits 24 to 31).
type Case = (&'static str, &'static [(&'static str, u64, u64)]);

const CASES: &[Case] = &[
    (
        "amd64_fam19h_zen3",
        &[
            ("RETIRED_INSTRUCTIONS", 0xc0, 0),
            ("amd64_fam19h_zen3::RETIRED_BRANCH_INSTRUCTIONS", 0xc2, 0),
            ("LS_DISPATCH:LD_DISPATCH", 0x129, 0),
        ],
    ),
    (
        "skx",
        &[
            ("INST_RETIRED:ANY_P", 0xc0, 0),
            ("skx::MEM_LOAD_RETIRED:L3_MISS", 0x20d1, 0),
            ("BR_MISP_RETIRED", 0xc5, 0),
            ("UOPS_ISSUED:ANY:c=1:i", 0x0180_010e, 0),
            (
                "OFFCORE_RESPONSE_0:DMND_DATA_RD:ANY_RESPONSE",
                0x1b7,
                0x1_0001,
            ),
        ],
    ),
];

/// The library's own variable.
const FORCE: &str = "LIBPFM_FORCE_PMU";

#[test]
fn names_become_codes() {
    if let Some(processor) = std::env::var_os(FORCE) {
        return of_processor(&processor.to_string_lossy());
    }
    // The library looks at the variable once, when it is loaded.
    for (processor, _) in CASES {
        let status = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "names_become_codes", "--nocapture"])
            .env(FORCE, processor)
            .status();
        assert!(status.expect("runs").success(), "{processor}");
    }
}

fn of_processor(processor: &str) {
    // SAFETY: the name is terminated; the library's constructors have no requirements.
    if unsafe { libc::dlopen(c"libpfm.so.4".as_ptr(), libc::RTLD_NOW) }.is_null() {
        println!("skipped: libpfm.so.4 is not installed");
        assert!(
            std::env::var_os("RSYS_REQUIRE_ALL").is_none(),
            "Debian's libpfm4 is needed"
        );
        return;
    }
    let (_, events) = CASES
        .iter()
        .find(|(name, _)| *name == processor)
        .expect("a case");
    let roots = Roots::of_this_process();
    for (name, config, config1) in *events {
        let event = Event {
            config: [*config, *config1, 0],
            ..Event::new(kind::RAW, 0)
        };
        assert_eq!(find(&roots, name), Ok(event), "{processor}: {name}");
    }
    assert!(find(&roots, "RETIRED_NOTHING_AT_ALL").is_err());
}

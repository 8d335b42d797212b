//! A configuration file that repeats the defaults changes nothing: what `rsys-avail -G` writes is no list of wishes.

use rsys_config::generate::{Choice, Format, generate};
use rsys_config::{Environment, Origin, Resolved, Settings, backends, table};

/// What a run with these settings does, and which backends are on.
fn meaning(settings: &Settings) -> (Resolved, Vec<&'static str>) {
    let mut resolved = settings.resolve();
    let on = backends::names()
        .filter(|name| {
            // GPU sensors are there without being asked for.
            let by_default = matches!(*name, "rocm-smi" | "amd-smi");
            resolved.backends.is_on(name, by_default)
        })
        .collect();
    // Remembers the place in which each was said.
    resolved.backends = Settings::defaults().resolve().backends;
    (resolved, on)
}

#[test]
fn written_defaults_are_the_defaults() {
    let environment = Environment::default();
    let defaults = meaning(&Settings::defaults());
    for format in Format::ALL {
        for advanced in [false, true] {
            let choice = Choice {
                describe: true,
                advanced,
            };
            let text =
                generate(&Settings::defaults(), format, choice, "heading").expect("defaults");
            let mut settings = Settings::defaults();
            let name = format!("my.{}", format.extension());
            settings
                .read_text(name.as_ref(), &text, &environment)
                .expect("what we write we read");
            assert_eq!(meaning(&settings), defaults, "{name}, advanced: {advanced}");
        }
    }
    // The same in the environment.
    let variables = table::all()
        .filter(|setting| !setting.default.is_empty())
        .map(|setting| {
            (
                format!("ROCPROFSYS_{}", setting.name),
                setting.default.to_owned(),
            )
        });
    let mut settings = Settings::defaults();
    settings
        .load_environment(&Environment::from_pairs(variables))
        .expect("defaults");
    assert_eq!(meaning(&settings), defaults);
}

#[test]
fn who_types_an_option_asks_for_it() {
    for (name, value) in [("USE_ROCM_SMI", "true"), ("INCLUDE_BACKENDS", "amd-smi")] {
        let mut settings = Settings::defaults();
        let origin = Origin::CommandLine("-x".to_owned());
        settings.set(name, value, origin).expect("a good value");
        assert!(settings.resolve().gpu_sensors_wanted, "{name}");
    }
    let mut settings = Settings::defaults();
    let origin = Origin::CommandLine("--process-freq".to_owned());
    settings
        .set("PROCESS_SAMPLING_FREQ", "10", origin)
        .expect("a good value");
    assert!(settings.resolve().process_sampling_freq_chosen);
}

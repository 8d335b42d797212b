use super::*;
use crate::{Environment, Origin, Settings};

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn names_of_all_versions_are_known() {
    let all = "all kokkosp mpip ompt rcclp rocm-smi roctracer rocprofiler roctx mutex-locks spin-locks rw-locks amd-smi rocm \
               rccl hip hsa ROCM_SMI";
    for name in all.split_whitespace() {
        assert!(find(name).is_some(), "{name}");
    }
    assert!(find("cuda").is_none());
    assert_eq!(nearest("roctracr"), Some("roctracer"));
}

/// On the command line.
fn selection(include: &[&str], exclude: &[&str]) -> Selection {
    Selection {
        include: list(include),
        include_rank: 3,
        exclude: list(exclude),
        exclude_rank: 3,
        ..Selection::default()
    }
}

#[test]
fn backends_are_switched_by_all_their_names() {
    type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str], bool);
    let cases: &[Case<'_>] = &[
        ("rocm-smi", &[], &[], false),
        ("rocm-smi", &["amd-smi"], &[], true),
        ("rocm-smi", &["rocm"], &[], true),
        ("rocm-smi", &["all"], &[], true),
        ("rocm-smi", &["roctx"], &[], false),
        ("rocm-smi", &["rocm-smi"], &["amd-smi"], false),
        ("rocm-smi", &["all"], &["rocm"], false),
        ("roctx", &["rocm"], &[], true),
        ("roctracer", &["HIP"], &[], true),
        ("rcclp", &["all"], &[], true),
        ("hsa", &["rocm"], &[], false),
        ("roctx", &["rocm"], &["roctx"], false),
        ("roctx", &["roctx"], &["all"], false),
        ("rocprofiler", &["all"], &[], true),
        ("rocprofiler", &["rocm"], &[], false),
        ("roctracer", &[], &[], false),
    ];
    for (name, include, exclude, on) in cases {
        let selection = selection(include, exclude);
        assert_eq!(
            selection.is_on(name, false),
            *on,
            "{name}: -I {include:?} -E {exclude:?}"
        );
    }
    assert!(Selection::default().is_on("rocm-smi", true));
}

#[test]
fn each_backend_has_the_switch_of_the_original() {
    for backend in BACKENDS.iter().filter(|backend| !backend.switch.is_empty()) {
        let known = crate::table::find(backend.switch).is_some();
        assert_eq!(known, backend.is_built(), "{}", backend.switch);
        let ignored = crate::original::ignored::find(backend.switch).is_some();
        assert_eq!(ignored, !backend.is_built(), "{}", backend.switch);
    }
}

/// Backends are switched by lists and by the settings of the original, in files, in the environment and on the command line.
#[test]
fn backends_are_switched_in_the_strongest_place() {
    // Files, environment, command line; what is on of the backends that are off by default, and whether sensors are.
    type Case<'a> = (
        &'a str,
        &'a [(&'a str, &'a str)],
        &'a [(&'a str, &'a str)],
        &'a str,
        bool,
    );
    let include = |names| ("INCLUDE_BACKENDS", names);
    let exclude = |names| ("EXCLUDE_BACKENDS", names);
    let cases: &[Case<'_>] = &[
        ("", &[], &[], "", true),
        ("ROCPROFSYS_USE_ROCTRACER = ON", &[], &[], "roctracer", true),
        (
            "OMNITRACE_USE_ROCTX yes\nUSE_RCCLP=1",
            &[],
            &[],
            "roctx rcclp",
            true,
        ),
        (
            "use_roctx = true\nUSE_AMD_SMI = OFF",
            &[],
            &[],
            "roctx",
            false,
        ),
        ("USE_ROCM = true", &[], &[], "roctracer roctx rcclp", true),
        (
            "USE_ROCM = true\nUSE_ROCTX = off",
            &[],
            &[],
            "roctracer rcclp",
            true,
        ),
        ("USE_ROCM = off\nUSE_ROCTX = on", &[], &[], "roctx", true),
        (
            "USE_ROCM = on\nROCM_DOMAINS = hip_runtime_api, kernel_dispatch, marker_api",
            &[],
            &[],
            "roctracer roctx",
            true,
        ),
        (
            "USE_ROCM = on\nROCM_DOMAINS = hsa_api",
            &[],
            &[],
            "hsa",
            true,
        ),
        (
            "ROCM_DOMAINS = rccl_api",
            &[],
            &[include("rocm")],
            "rcclp",
            true,
        ),
        // Named domains are wanted.
        ("ROCM_DOMAINS = hsa_api", &[], &[], "hsa", true),
        (
            "",
            &[(
                "ROCPROFSYS_ROCM_DOMAINS",
                "hip_runtime_api,marker_api,kernel_dispatch,memory_copy,scratch_memory",
            )],
            &[],
            "roctracer roctx",
            true,
        ),
        ("ROCM_DOMAINS =", &[], &[], "", true),
        ("USE_ROCM = off\nROCM_DOMAINS = hsa_api", &[], &[], "", true),
        (
            "USE_ROCM = off",
            &[("ROCPROFSYS_ROCM_DOMAINS", "hsa_api")],
            &[],
            "hsa",
            true,
        ),
        (
            "ROCM_DOMAINS = hsa_api",
            &[("ROCPROFSYS_USE_ROCM", "OFF")],
            &[],
            "",
            true,
        ),
        (
            "ROCM_DOMAINS = hip_api, marker_api\nUSE_ROCTX = off",
            &[],
            &[],
            "roctracer",
            true,
        ),
        (
            "ROCM_DOMAINS = hip_api",
            &[],
            &[include("roctx")],
            "roctracer roctx",
            true,
        ),
        ("ROCM_DOMAINS = hip_api", &[], &[exclude("rocm")], "", false),
        // The stronger place.
        (
            "USE_ROCTRACER = off",
            &[],
            &[include("roctracer")],
            "roctracer",
            true,
        ),
        (
            "USE_ROCTRACER = off",
            &[("RSYS_INCLUDE_BACKENDS", "roctracer")],
            &[],
            "roctracer",
            true,
        ),
        (
            "USE_ROCTRACER = on",
            &[("ROCPROFSYS_USE_ROCTRACER", "off")],
            &[],
            "",
            true,
        ),
        ("USE_ROCTRACER = on", &[], &[exclude("all")], "", false),
        (
            "INCLUDE_BACKENDS = rocm",
            &[("OMNITRACE_USE_ROCTX", "0")],
            &[],
            "roctracer rcclp",
            true,
        ),
        (
            "EXCLUDE_BACKENDS = all",
            &[("RSYS_USE_ROCTX", "on")],
            &[],
            "roctx",
            false,
        ),
        // The same place: lists first.
        (
            "USE_ROCTX = off\nINCLUDE_BACKENDS = roctx",
            &[],
            &[],
            "roctx",
            true,
        ),
        (
            "USE_ROCTX = on\nEXCLUDE_BACKENDS = roctx",
            &[],
            &[],
            "",
            true,
        ),
        (
            "",
            &[],
            &[include("rocm"), exclude("roctx")],
            "roctracer rcclp",
            true,
        ),
        ("USE_ROCM = off", &[], &[], "", true),
        ("", &[], &[exclude("rocm")], "", false),
    ];
    for (file, variables, options, on, sensors) in cases {
        let environment = Environment::from_pairs(variables.iter().copied());
        let mut settings = Settings::defaults();
        settings
            .read_text("a.cfg".as_ref(), file, &environment)
            .expect("a good file");
        settings.load_environment(&environment).expect("good");
        for (name, value) in *options {
            let origin = Origin::CommandLine("-x".to_owned());
            settings.set(name, value, origin).expect("good");
        }
        let resolved = settings.resolve();
        let found: Vec<_> = ["roctracer", "hsa", "roctx", "rcclp"]
            .into_iter()
            .filter(|name| resolved.backends.is_on(name, false))
            .collect();
        let story = format!("{file:?} {variables:?} {options:?}");
        assert_eq!(found.join(" "), *on, "{story}");
        assert_eq!(resolved.gpu_sensors, *sensors, "{story}");
        assert!(settings.notes().is_empty(), "{story}");
    }
}

#[test]
fn domains_that_are_not_known_are_told_with_the_nearest() {
    let mut settings = Settings::defaults();
    let file = "\nROCM_DOMAINS = kernel_dispach, hip_api rocdecode_api, xyz, memory_copy";
    settings
        .read_text("a.cfg".as_ref(), file, &Environment::default())
        .expect("a good file");
    let notes = settings.notes();
    let told: Vec<(String, bool)> = notes
        .iter()
        .map(|note| (note.to_string(), note.important))
        .collect();
    let note = |text: &str, important| {
        let text = format!("a.cfg:2:1: ROCM_DOMAINS: {text}");
        (text, important)
    };
    assert_eq!(
        told,
        [
            note(
                "'kernel_dispach' has no effect; did you mean 'kernel_dispatch'?",
                true
            ),
            note(
                "'rocdecode_api' has no effect; it is not part of this build",
                false
            ),
            note(
                &format!(
                    "'xyz' has no effect; known domains: {}",
                    crate::original::domains::DOMAINS.join(" ")
                ),
                true
            ),
        ]
    );
}

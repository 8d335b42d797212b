//! What the target finds in its environment.

use super::*;

use rsys_wire::sources::EventChoice;

#[test]
fn one_tool_of_itt_and_nvtx_is_the_agent_unless_the_user_has_another() {
    let settings = AgentSettings {
        events: EventChoice::default().with(Category::Itt),
        ..AgentSettings::default()
    };
    let agent = Path::new("/x/librsys_agent.so");
    for (existing, expected, is_taken) in [
        (None, "/x/librsys_agent.so", false),
        (Some(""), "/x/librsys_agent.so", false),
        (
            Some("/y/librsys_agent_locks.so"),
            "/x/librsys_agent.so",
            false,
        ),
        (
            Some("/opt/libittnotify_collector.so"),
            "/opt/libittnotify_collector.so",
            true,
        ),
    ] {
        let inherited: Vec<(OsString, OsString)> = existing
            .map(|value| ("INTEL_LIBITTNOTIFY64".into(), value.into()))
            .into_iter()
            .collect();
        assert_eq!(
            taken_by_others(&inherited, &settings).len(),
            usize::from(is_taken)
        );
        let environment = target_environment(inherited, agent, "s", &settings);
        let found: Vec<_> = environment
            .iter()
            .filter(|(name, _)| name == "INTEL_LIBITTNOTIFY64")
            .collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, expected);
        assert!(
            !environment
                .iter()
                .any(|(name, _)| name == "NVTX_INJECTION64_PATH")
        );
    }
}

fn with_preload(existing: Option<&str>) -> String {
    let inherited = existing
        .map(|value| (OsString::from(LD_PRELOAD), OsString::from(value)))
        .into_iter()
        .chain([
            ("A".into(), "1".into()),
            (ENV_SESSION.into(), "outer".into()),
        ]);
    let settings = AgentSettings::default();
    let environment = target_environment(inherited, Path::new("/x/agent.so"), "inner", &settings);
    let get = |key: &str| {
        let mut values = environment.iter().filter(|(name, _)| name == key);
        let value = values
            .next()
            .map(|(_, value)| value.to_str().unwrap().to_owned());
        assert!(values.next().is_none(), "{key} twice");
        value
    };
    assert_eq!(get("A").as_deref(), Some("1"));
    assert_eq!(get(ENV_SESSION).as_deref(), Some("inner"));
    assert_eq!(get(ENV_SETTINGS), Some(settings.to_line()));
    get(LD_PRELOAD).unwrap()
}

#[test]
fn an_existing_preload_is_kept_behind_the_agent() {
    for (existing, expected) in [
        (None, "/x/agent.so"),
        (Some(""), "/x/agent.so"),
        (Some("/a.so"), "/x/agent.so:/a.so"),
        (Some("/a.so /b.so:/c.so"), "/x/agent.so:/a.so:/b.so:/c.so"),
        (Some("/x/agent.so:/a.so"), "/x/agent.so:/a.so"),
    ] {
        assert_eq!(with_preload(existing), expected, "{existing:?}");
    }
}

#[test]
fn a_runtime_of_openmp_comes_between_the_agent_and_what_was_preloaded() {
    let settings = AgentSettings::default();
    for (existing, expected) in [
        (None, "/x/agent.so:/l/libomp.so"),
        (Some("/a.so /l/libomp.so"), "/x/agent.so:/l/libomp.so:/a.so"),
    ] {
        let inherited = existing.map(|value| (LD_PRELOAD.into(), value.into()));
        let with_runtime = preloaded(inherited.into_iter().collect(), Path::new("/l/libomp.so"));
        let environment =
            target_environment(with_runtime, Path::new("/x/agent.so"), "s", &settings);
        let found = environment.iter().find(|(name, _)| name == LD_PRELOAD);
        assert_eq!(found.unwrap().1, expected);
    }
}

#[test]
fn the_hsa_runtime_is_told_of_the_agent_when_events_are_asked_for() {
    let tools = |existing: Option<&str>, hip| {
        let mut settings = AgentSettings::default();
        if hip {
            settings.events = settings.events.with(Category::Hip);
        }
        let inherited = existing.map(|value| (HSA_TOOLS_LIB.into(), value.into()));
        target_environment(inherited, Path::new("/x/agent.so"), "s", &settings)
            .into_iter()
            .filter(|(name, _)| name == HSA_TOOLS_LIB)
            .map(|(_, value)| value.into_string().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(tools(None, false), [""; 0]);
    assert_eq!(tools(Some("/a.so"), false), ["/a.so"]);
    assert_eq!(tools(None, true), ["/x/agent.so"]);
    assert_eq!(
        tools(Some("/a.so /x/agent.so /b.so"), true),
        ["/x/agent.so /a.so /b.so"]
    );
}

#[test]
fn kokkos_finds_the_agent_in_both_variables_and_the_users_tool_behind_it() {
    let tools = |existing: &[(&str, &str)], kokkos| {
        let mut settings = AgentSettings::default();
        if kokkos {
            settings.events = settings.events.with(Category::Kokkos);
        }
        let inherited = existing
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        let environment = target_environment(inherited, Path::new("/x/agent.so"), "s", &settings);
        KOKKOS_TOOLS.map(|name| {
            let mut values = environment.iter().filter(|(known, _)| known == name);
            let value = values
                .next()
                .map(|(_, value)| value.to_str().unwrap().to_owned());
            assert!(values.next().is_none(), "{name} twice");
            value.unwrap_or_default()
        })
    };
    let [new, old] = KOKKOS_TOOLS;
    assert_eq!(tools(&[], false), ["", ""]);
    assert_eq!(tools(&[(old, "/a.so")], false), ["", "/a.so"]);
    assert_eq!(tools(&[], true), ["/x/agent.so"; 2]);
    assert_eq!(tools(&[(old, "/a.so")], true), ["/x/agent.so;/a.so"; 2]);
    assert_eq!(
        tools(&[(new, "/b.so;/c.so")], true),
        ["/x/agent.so;/b.so;/c.so"; 2]
    );
    assert_eq!(
        tools(&[(new, "/x/agent.so;/b.so")], true),
        ["/x/agent.so;/b.so"; 2]
    );
}

#[test]
fn rccl_is_given_the_agent_as_plug_in_unless_the_user_has_another() {
    let plug_ins = |existing: Option<&str>, is_on| {
        let mut settings = AgentSettings::default();
        if is_on {
            settings.events = settings.events.with(Category::RcclProxy);
        }
        let inherited = existing.map(|value| (RCCL_PLUGIN.into(), value.into()));
        let agent = Path::new("/x/librsys_agent.so");
        let environment = target_environment(inherited, agent, "s", &settings);
        let get = |name: &str| -> Vec<String> {
            let found = environment.iter().filter(|(known, _)| known == name);
            found
                .map(|(_, value)| value.to_str().unwrap().to_owned())
                .collect()
        };
        let told = AgentSettings::from_line(&get(ENV_SETTINGS)[0]);
        (get(RCCL_PLUGIN).join(" "), told.rccl_default_plugin)
    };
    let is = |plug_in: &str, has_default| (plug_in.to_owned(), has_default);
    let ours = "/x/librsys_agent.so";
    assert_eq!(plug_ins(None, false), is("", true));
    for kept in ["inspector", "none"] {
        assert_eq!(plug_ins(Some(kept), false), is(kept, true));
    }
    for unnamed in [None, Some(""), Some("/y/librsys_agent.so")] {
        assert_eq!(plug_ins(unnamed, true), is(ours, true), "{unnamed:?}");
    }
    for none in ["none", "None", "NONE"] {
        assert_eq!(plug_ins(Some(none), true), is(ours, false), "{none}");
    }
    for other in ["inspector", "/opt/libnccl-profiler.so", "STATIC_PLUGIN"] {
        assert_eq!(plug_ins(Some(other), true), is(other, true));
    }
}

#[test]
fn tools_are_loaded_beside_registered_ones_unless_the_user_says_otherwise() {
    let beside = |existing: Option<&str>, hip| {
        let mut settings = AgentSettings::default();
        if hip {
            settings.events = settings.events.with(Category::Hip);
        }
        let inherited = existing.map(|value| (HSA_TOOLS_BESIDE_OTHERS.into(), value.into()));
        target_environment(inherited, Path::new("/x/agent.so"), "s", &settings)
            .into_iter()
            .filter(|(name, _)| name == HSA_TOOLS_BESIDE_OTHERS)
            .map(|(_, value)| value.into_string().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(beside(None, false), [""; 0]);
    assert_eq!(beside(None, true), ["1"]);
    assert_eq!(beside(Some("0"), true), ["0"]);
    assert_eq!(beside(Some("0"), false), ["0"]);
}

#[test]
fn a_missing_agent_is_said_with_the_remedy() {
    let error = find_agent(Path::new("/nowhere/bin/rsys-sample"), None).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("/nowhere/bin") && text.contains(ENV_AGENT),
        "{text}"
    );
}

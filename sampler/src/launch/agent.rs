//! Where the agent's library is, and the environment that brings it into the target.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rsys_wire::handshake::{AgentSettings, ENV_SESSION, ENV_SETTINGS};
use rsys_wire::program::{AGENT_FILE, is_agent_file};
use rsys_wire::sources::{Build, Category};

/// Environment variable with the agent's path, for unusual installations.
pub const ENV_AGENT: &str = "RSYS_AGENT_LIBRARY";

const LD_PRELOAD: &str = "LD_PRELOAD";
/// The libraries, separated by blanks, that the HSA runtime loads as tools and hands its functions
/// to.
const HSA_TOOLS_LIB: &str = "HSA_TOOLS_LIB";

/// Where a tool has registered with rocprofiler-register, AMD's builds of the HSA runtime load
/// those of `HSA_TOOLS_LIB` only if this is on. It is used for nothing else (ROCr 6.1 to 7.2).
const HSA_TOOLS_BESIDE_OTHERS: &str = "HSA_TOOLS_ROCPROFILER_V1_TOOLS";

/// The libraries, separated by semicolons, of which Kokkos opens the first as its tool. Kokkos 3.7 and later know both variables and want
/// them to agree; before, the second alone.
const KOKKOS_TOOLS: [&str; 2] = ["KOKKOS_TOOLS_LIBS", "KOKKOS_PROFILE_LIBRARY"];

/// The variables that name the one library which ITT and NVTX hand their calls to.
const ONE_TOOL: [(&str, Category); 2] = [
    ("INTEL_LIBITTNOTIFY64", Category::Itt),
    ("NVTX_INJECTION64_PATH", Category::Nvtx),
];

/// The plug-in of NCCL's and RCCL's profiler interface. One that the user has chosen stays, and the agent stands in front of it.
const RCCL_PLUGIN: &str = "NCCL_PROFILER_PLUGIN";

/// Why the agent cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// It is nowhere.
    #[error(
        "{AGENT_FILE} is not in {looked}; install it beside rsys-sample or set {ENV_AGENT} to its path"
    )]
    NotFound {
        /// Where it was looked for.
        looked: String,
    },
    /// The build that records what was asked for is not beside it.
    #[error("{} is not in {folder}; install it beside {AGENT_FILE}. {} are not recorded", build.file(), what_it_adds(*build))]
    NoBuild {
        /// Where it was looked for.
        folder: String,
        /// Which it is.
        build: Build,
    },
    /// Its path cannot be written into LD_PRELOAD.
    #[error(
        "{0}: LD_PRELOAD cannot name a path with a blank, `:` or `$` in it; move the installation or set {ENV_AGENT}"
    )]
    Path(String),
}

/// What a build of the agent records beside what the plain one does.
fn what_it_adds(build: Build) -> &'static str {
    match build {
        Build::Plain => "Samples",
        Build::Parallel => "MPI, OpenSHMEM, UCX, OpenMP, Kokkos and PyTorch",
        Build::Locks => "Waits for locks, MPI, OpenSHMEM, UCX, OpenMP, Kokkos and PyTorch",
    }
}

/// The agent's path: from [`ENV_AGENT`], else beside the executable, else in `../lib` of it.
///
/// # Errors
/// When it is at none of these places, or at one that LD_PRELOAD cannot name.
pub fn find_agent(executable: &Path, chosen: Option<&OsStr>) -> Result<PathBuf, AgentError> {
    let candidates = match chosen.filter(|path| !path.is_empty()) {
        Some(path) => vec![PathBuf::from(path)],
        None => {
            let beside = executable.parent().unwrap_or(Path::new("/"));
            vec![
                beside.join(AGENT_FILE),
                // Where cargo puts it for tests and benchmarks.
                beside.join("..").join(AGENT_FILE),
                beside.join("../lib").join(AGENT_FILE),
                beside.join("../lib64").join(AGENT_FILE),
            ]
        }
    };
    let found = candidates.iter().find(|path| path.is_file());
    let Some(found) = found.and_then(|path| path.canonicalize().ok()) else {
        let looked: Vec<_> = candidates
            .iter()
            .filter_map(|path| Some(path.parent()?.display().to_string()))
            .collect();
        return Err(AgentError::NotFound {
            looked: looked.join(", "),
        });
    };
    let bytes = found.as_os_str().as_bytes();
    if bytes
        .iter()
        .any(|byte| matches!(byte, b' ' | b'\t' | b':' | b'$'))
    {
        return Err(AgentError::Path(found.display().to_string()));
    }
    Ok(found)
}

/// A build of the agent, beside the one at `agent`.
///
/// # Errors
/// When it is not there.
pub fn beside(agent: &Path, build: Build) -> Result<PathBuf, AgentError> {
    let found = agent.with_file_name(build.file());
    if found.is_file() {
        return Ok(found);
    }
    let folder = agent.parent().unwrap_or(Path::new("/"));
    Err(AgentError::NoBuild {
        folder: folder.display().to_string(),
        build,
    })
}

/// The variables of ITT and NVTX that name another tool, where one of the two is to be recorded: it cannot be.
#[must_use]
pub fn taken_by_others(
    inherited: &[(OsString, OsString)],
    settings: &AgentSettings,
) -> Vec<(&'static str, OsString)> {
    let wanted = ONE_TOOL
        .iter()
        .filter(|(_, category)| settings.events.has(*category));
    let taken = wanted.filter_map(|(name, _)| {
        let (_, value) = inherited.iter().find(|(key, _)| key == name)?;
        is_other_tool(value).then(|| (*name, value.clone()))
    });
    taken.collect()
}

/// Whether a variable of one library names another one than the agent.
fn is_other_tool(value: &OsStr) -> bool {
    let file = Path::new(value).file_name();
    file.is_some_and(|name| !is_agent_file(name.as_bytes()))
}

/// The environment of the target: `inherited`, in its order, with the agent in front of what
/// LD_PRELOAD already held.
#[must_use]
pub fn target_environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    agent: &Path,
    session: &str,
    settings: &AgentSettings,
) -> Vec<(OsString, OsString)> {
    let mut preload = None;
    let mut tools = agent.as_os_str().to_owned();
    let mut beside_others = None;
    let with_kokkos = settings.events.has(Category::Kokkos);
    let mut kokkos_tools = [None, None];
    let mut environment: Vec<_> = inherited
        .into_iter()
        .filter_map(|(name, value)| {
            if name == LD_PRELOAD {
                let value = preload_value(agent, &value);
                preload = Some(());
                Some((name, value))
            } else if name == HSA_TOOLS_LIB && settings.events.any_of_runtimes() {
                // Ours comes first: the others then wrap what is ours, as they would the runtime.
                tools = tools_value(agent, &value);
                None
            } else if let Some(place) = KOKKOS_TOOLS.iter().position(|known| name == *known)
                && with_kokkos
            {
                kokkos_tools[place] = Some(value);
                None
            } else if name == HSA_TOOLS_BESIDE_OTHERS {
                // Whoever has set it knows why.
                beside_others = Some(());
                Some((name, value))
            } else if name == ENV_SESSION || name == ENV_SETTINGS {
                // Of a sampler around us.
                None
            } else {
                Some((name, value))
            }
        })
        .collect();
    if preload.is_none() {
        environment.push((LD_PRELOAD.into(), agent.into()));
    }
    if settings.events.any_of_runtimes() {
        environment.push((HSA_TOOLS_LIB.into(), tools));
        if beside_others.is_none() {
            environment.push((HSA_TOOLS_BESIDE_OTHERS.into(), "1".into()));
        }
    }
    if with_kokkos {
        let [tools, profile] = kokkos_tools;
        let value = kokkos_value(agent, tools.or(profile).as_deref());
        environment.extend(KOKKOS_TOOLS.map(|name| (name.into(), value.clone())));
    }
    for (name, category) in ONE_TOOL {
        let is_taken = |(key, value): &(OsString, OsString)| key == name && is_other_tool(value);
        if settings.events.has(category) && !environment.iter().any(is_taken) {
            environment.retain(|(key, _)| key != name);
            environment.push((name.into(), agent.into()));
        }
    }
    let mut settings = *settings;
    if settings.events.has(Category::RcclProxy) {
        let mut plug_ins = environment.iter().filter(|(key, _)| key == RCCL_PLUGIN);
        let existing = plug_ins.next().map(|(_, value)| value.as_os_str());
        let existing = existing.unwrap_or_default();
        // As the library compares it.
        let is_none = existing.eq_ignore_ascii_case("none");
        if is_none || !is_other_tool(existing) {
            settings.rccl_default_plugin = !is_none;
            environment.retain(|(key, _)| key != RCCL_PLUGIN);
            environment.push((RCCL_PLUGIN.into(), agent.into()));
        }
    }
    environment.push((ENV_SESSION.into(), session.into()));
    environment.push((ENV_SETTINGS.into(), settings.to_line().into()));
    environment
}

/// An environment in which a library comes in front of what LD_PRELOAD already held.
#[must_use]
pub fn preloaded(
    mut environment: Vec<(OsString, OsString)>,
    library: &Path,
) -> Vec<(OsString, OsString)> {
    match environment.iter_mut().find(|(name, _)| name == LD_PRELOAD) {
        Some((_, value)) => *value = preload_value(library, value),
        None => environment.push((LD_PRELOAD.into(), library.into())),
    }
    environment
}

fn tools_value(agent: &Path, existing: &OsStr) -> OsString {
    let mut value = agent.as_os_str().to_owned();
    let others = existing.as_bytes().split(|byte| *byte == b' ');
    for other in others.filter(|other| !other.is_empty() && *other != agent.as_os_str().as_bytes())
    {
        value.push(" ");
        value.push(OsStr::from_bytes(other));
    }
    value
}

/// The agent, and behind it the tool that the user has chosen, which the agent then serves.
fn kokkos_value(agent: &Path, existing: Option<&OsStr>) -> OsString {
    let mut value = agent.as_os_str().to_owned();
    let others = existing
        .unwrap_or_default()
        .as_bytes()
        .split(|byte| *byte == b';');
    for other in others.filter(|other| !other.is_empty() && *other != agent.as_os_str().as_bytes())
    {
        value.push(";");
        value.push(OsStr::from_bytes(other));
    }
    value
}

fn preload_value(agent: &Path, existing: &OsStr) -> OsString {
    let mut value = agent.as_os_str().as_bytes().to_vec();
    let others = existing
        .as_bytes()
        .split(|byte| matches!(byte, b' ' | b':' | b'\t'))
        .filter(|other| !other.is_empty() && *other != agent.as_os_str().as_bytes());
    for other in others {
        value.push(b':');
        value.extend_from_slice(other);
    }
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
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
        let environment =
            target_environment(inherited, Path::new("/x/agent.so"), "inner", &settings);
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
            let with_runtime =
                preloaded(inherited.into_iter().collect(), Path::new("/l/libomp.so"));
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
            let environment =
                target_environment(inherited, Path::new("/x/agent.so"), "s", &settings);
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
}

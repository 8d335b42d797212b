//! Where the agent's library is, and the environment that brings it into the target.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rsys_wire::handshake::{AgentSettings, ENV_SESSION, ENV_SETTINGS};
use rsys_wire::program::{AGENT_FILE, AGENT_FOLDERS, is_agent_file};
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
            AGENT_FOLDERS
                .iter()
                .map(|folder| beside.join(folder).join(AGENT_FILE))
                .collect()
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
mod tests;

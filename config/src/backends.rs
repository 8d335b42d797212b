//! The names for `-I` and `-E`: every backend of every version of the original.
//!
//! Old and new names stand side by side, so that scripts of any age run. Which of them this build holds is said here too.

use rsys_wire::sources::{SOURCES, Source};

/// One backend: a source of data beside the call stacks.
#[derive(Debug, Clone, Copy)]
pub struct Backend {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it records.
    pub summary: &'static str,
    /// The setting of the original that switches it, or an empty text.
    pub switch: &'static str,
    /// Whether this build holds it, other than as a source of events.
    elsewhere: bool,
    /// Whether `rocm` stands for it too, where `ROCM_DOMAINS` says nothing.
    of_rocm: bool,
    /// How the names of its domains of `ROCM_DOMAINS` begin.
    domains: &'static [&'static str],
}

/// The word that stands for all backends.
pub const ALL: &str = "all";

const fn backend(
    name: &'static str,
    aliases: &'static [&'static str],
    summary: &'static str,
) -> Backend {
    Backend {
        name,
        aliases,
        summary,
        switch: "",
        elsewhere: false,
        of_rocm: false,
        domains: &[],
    }
}

impl Backend {
    /// A backend that this build holds, and that is no source of events.
    const fn built(mut self) -> Self {
        self.elsewhere = true;
        self
    }

    /// A part of `rocm`.
    const fn of_rocm(mut self) -> Self {
        self.of_rocm = true;
        self
    }

    /// A backend with domains of `ROCM_DOMAINS`, whose names begin so.
    const fn domains(mut self, beginnings: &'static [&'static str]) -> Self {
        self.domains = beginnings;
        self
    }

    /// Whether this build holds it.
    #[must_use]
    pub fn is_built(&self) -> bool {
        let is_source = |source: &Source| source.backend == Some(self.name);
        self.elsewhere || SOURCES.iter().any(is_source)
    }

    /// A backend with a setting of its own in the original.
    const fn switch(mut self, setting: &'static str) -> Self {
        self.switch = setting;
        self
    }
}

/// All backends.
pub const BACKENDS: &[Backend] = &[
    backend(ALL, &[], "every backend of this build"),
    backend(
        "rocm",
        &[],
        "all of ROCm: roctracer, roctx and rccl together",
    )
    .switch("USE_ROCM")
    .built(),
    backend("roctracer", &["hip"], "HIP calls, kernels and copies")
        .switch("USE_ROCTRACER")
        .of_rocm()
        .domains(&[
            "hip",
            "kernel_dispatch",
            "memory_copy",
            "memory_alloc",
            "scratch_memory",
        ]),
    backend("hsa", &[], "HSA calls, kernels and copies").domains(&["hsa"]),
    backend(
        "rocprofiler",
        &[],
        "GPU hardware counters: the events of GPU_EVENTS",
    )
    .switch("USE_ROCPROFILER")
    .built(),
    backend("roctx", &["marker"], "ROCTx ranges and marks")
        .switch("USE_ROCTX")
        .of_rocm()
        .domains(&["marker", "roctx"]),
    backend(
        "rocm-smi",
        &["amd-smi"],
        "GPU sensors: load, memory, power, temperature",
    )
    .switch("USE_ROCM_SMI")
    .built(),
    backend("rcclp", &["rccl"], "RCCL collectives")
        .switch("USE_RCCLP")
        .of_rocm()
        .domains(&["rccl"]),
    backend(
        "rccl-proxy",
        &[],
        "what RCCL's proxies do: transfers through the network, and what they wait for",
    ),
    backend(
        "regions",
        &[],
        "regions of the program's own: rsys.h, rocprofsys_user_*",
    ),
    backend("itt", &[], "tasks, frames and marks of the program, by ITT"),
    backend("nvtx", &[], "ranges and marks of the program, by NVTX"),
    backend("mpip", &["mpi"], "MPI calls").switch("USE_MPIP"),
    backend(
        "ompt",
        &["openmp"],
        "OpenMP regions, loops, tasks, waits, locks and offloading",
    )
    .switch("USE_OMPT"),
    backend(
        "kokkosp",
        &["kokkos"],
        "Kokkos kernels, regions, fences, copies and allocations",
    )
    .switch("USE_KOKKOSP"),
    backend("shmem", &["openshmem"], "OpenSHMEM calls"),
    backend("ucx", &[], "UCX calls"),
    backend("torch", &["pytorch"], "operators of PyTorch"),
    backend(
        "mutex-locks",
        &[],
        "waiting for mutexes, conditions, semaphores, barriers and the ends of threads",
    )
    .switch("TRACE_THREAD_LOCKS"),
    backend("rw-locks", &[], "waiting for reader-writer locks").switch("TRACE_THREAD_RW_LOCKS"),
    backend("spin-locks", &[], "waiting for spin locks").switch("TRACE_THREAD_SPIN_LOCKS"),
];

/// The name in the form of the table: lower case, hyphens.
#[must_use]
pub fn normalize(name: &str) -> String {
    name.trim().to_ascii_lowercase().replace('_', "-")
}

/// The backend with that name or alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static Backend> {
    let normal = normalize(name);
    BACKENDS
        .iter()
        .find(|backend| backend.name == normal || backend.aliases.contains(&normal.as_str()))
}

/// Which backends are on, and who said so. Of two that disagree, the one counts that is said in the stronger place (command line,
/// environment, files); in the same place, `-E` before `-I` before a backend's own setting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Names to switch on.
    pub(crate) include: Vec<String>,
    /// Where that was said.
    pub(crate) include_rank: u8,
    /// Names to switch off.
    pub(crate) exclude: Vec<String>,
    /// Where that was said.
    pub(crate) exclude_rank: u8,
    /// What the settings of single backends say, where somebody set them: `USE_ROCTX = true`.
    pub(crate) switches: Vec<(&'static str, bool, u8)>,
    /// `ROCM_DOMAINS`: the parts of `rocm`, if somebody named them. That switches these on, as `USE_ROCM` would in the same place.
    pub(crate) domains: Option<Vec<String>>,
    /// Where that was said.
    pub(crate) domains_rank: u8,
}

impl Selection {
    /// Whether a backend of this build is on that is so `by_default`. Its own names count, `all`, and `rocm` for those of ROCm.
    #[must_use]
    pub fn is_on(&self, name: &str, by_default: bool) -> bool {
        let Some(asked) = find(name).filter(|backend| backend.is_built()) else {
            return false;
        };
        let excluded = self.names(&self.exclude, asked, false);
        let included = self.names(&self.include, asked, true);
        let overruled = |rank: u8| {
            excluded && self.exclude_rank >= rank || included && self.include_rank >= rank
        };
        match self.switch(asked) {
            Some((on, rank)) if !overruled(rank) => on,
            _ => !excluded && (by_default || included),
        }
    }

    /// Whether a list names a backend. Who switches ROCm off means all of it, whatever its parts are.
    fn names(&self, list: &[String], asked: &Backend, on: bool) -> bool {
        list.iter().filter_map(|word| find(word)).any(|backend| {
            backend.name == asked.name
                || backend.name == ALL
                || (backend.name == "rocm"
                    && (asked.name == "rocm-smi" || self.is_of_rocm(asked, on)))
        })
    }

    fn is_of_rocm(&self, asked: &Backend, on: bool) -> bool {
        match &self.domains {
            Some(domains) if on => domains
                .iter()
                .any(|domain| of_domain(domain).is_some_and(|backend| backend.name == asked.name)),
            // Switching ROCm off takes away whatever its domains may have switched on.
            Some(_) => !asked.domains.is_empty(),
            None => asked.of_rocm,
        }
    }

    /// The same with those settings of single backends alone that `keep` names.
    pub(crate) fn only_switches(&self, keep: impl Fn(&str) -> bool) -> Self {
        let mut kept = self.clone();
        kept.switches.retain(|(name, ..)| keep(name));
        kept
    }

    /// What a backend's own setting says, else that of ROCm, and where.
    fn switch(&self, asked: &Backend) -> Option<(bool, u8)> {
        let said = |name: &str| {
            let found = self.switches.iter().find(|(switch, ..)| *switch == name)?;
            Some((found.1, found.2))
        };
        let own = said(asked.switch).filter(|_| !asked.switch.is_empty());
        own.or_else(|| {
            let rocm = said("USE_ROCM").filter(|(on, _)| self.is_of_rocm(asked, *on));
            let is_named = self.domains.is_some() && self.is_of_rocm(asked, true);
            match rocm {
                Some((_, rank)) if !is_named || rank >= self.domains_rank => rocm,
                _ => is_named.then_some((true, self.domains_rank)),
            }
        })
    }

    /// Whether the user has said that a backend is to be off.
    #[must_use]
    pub fn is_refused(&self, name: &str) -> bool {
        find(name).is_some_and(|asked| {
            self.names(&self.exclude, asked, false) || self.switch(asked).is_some_and(|(on, _)| !on)
        })
    }

    /// The backends of this build that are on when none is by default.
    #[must_use]
    pub fn in_use(&self) -> Vec<&'static str> {
        BACKENDS
            .iter()
            .filter(|backend| backend.is_built() && backend.name != ALL)
            .map(|backend| backend.name)
            .filter(|name| self.is_on(name, false))
            .collect()
    }
}

/// The backend that holds a domain of `ROCM_DOMAINS`: `hip_runtime_api`, `kernel_dispatch`.
pub(crate) fn of_domain(domain: &str) -> Option<&'static Backend> {
    let domain = domain.to_ascii_lowercase();
    let is_of = |backend: &&Backend| {
        let mut beginnings = backend.domains.iter();
        beginnings.any(|beginning| domain.starts_with(beginning))
    };
    BACKENDS.iter().find(is_of)
}

/// All names and aliases.
pub fn names() -> impl Iterator<Item = &'static str> {
    BACKENDS
        .iter()
        .flat_map(|backend| std::iter::once(backend.name).chain(backend.aliases.iter().copied()))
}

/// The name that `name` was probably meant to be.
#[must_use]
pub fn nearest(name: &str) -> Option<&'static str> {
    crate::nearest::nearest(&normalize(name), names())
}

#[cfg(test)]
#[path = "backends_tests.rs"]
mod tests;

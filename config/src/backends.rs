//! The names for `-I` and `-E`: every backend of every version of the original.
//!
//! Old and new names stand side by side, so that scripts of any age run. Which of them this build holds is said here too.

/// One backend: a source of data beside the call stacks.
#[derive(Debug, Clone, Copy)]
pub struct Backend {
    /// Its name.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What it records.
    pub summary: &'static str,
    /// Whether this build holds it.
    pub built: bool,
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
        built: false,
    }
}

impl Backend {
    const fn built(mut self) -> Self {
        self.built = true;
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
    .built(),
    backend("roctracer", &["hip"], "HIP calls, kernels and copies").built(),
    backend("hsa", &[], "HSA calls, kernels and copies").built(),
    backend("rocprofiler", &[], "GPU hardware counters"),
    backend("roctx", &["marker"], "ROCTx ranges and marks").built(),
    backend(
        "rocm-smi",
        &["amd-smi"],
        "GPU sensors: load, memory, power, temperature",
    ),
    backend("rcclp", &["rccl"], "RCCL collectives").built(),
    backend("mpip", &["mpi"], "MPI calls"),
    backend("ompt", &["openmp"], "OpenMP regions"),
    backend("kokkosp", &["kokkos"], "Kokkos kernels and regions"),
    backend("mutex-locks", &[], "waiting for mutexes"),
    backend("rw-locks", &[], "waiting for reader-writer locks"),
    backend("spin-locks", &[], "waiting for spin locks"),
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

/// Which backend of this build is on.
///
/// One that is named is on, `rocm` brings those of its parts that are built, `all` everything. What is excluded by name or as `all` is off.
#[must_use]
pub fn is_on(name: &str, include: &[String], exclude: &[String]) -> bool {
    const ROCM: [&str; 3] = ["roctracer", "roctx", "rcclp"];
    let Some(asked) = find(name).filter(|backend| backend.built) else {
        return false;
    };
    let holds = |list: &[String]| {
        list.iter().filter_map(|name| find(name)).any(|backend| {
            backend.name == asked.name
                || backend.name == ALL
                || (backend.name == "rocm" && ROCM.contains(&asked.name))
        })
    };
    holds(include) && !holds(exclude)
}

/// The one line to print when backends were asked for that this build does not hold; `None` when there is nothing to say.
///
/// Excluded backends are not missed.
#[must_use]
pub fn missing_warning(include: &[String], exclude: &[String]) -> Option<String> {
    let excluded = |backend: &Backend| {
        exclude
            .iter()
            .filter_map(|name| find(name))
            .any(|other| other.name == backend.name || other.name == ALL)
    };
    let mut missing: Vec<&str> = Vec::new();
    for name in include {
        let Some(backend) = find(name) else { continue };
        let present = backend.built || (backend.name == ALL && BACKENDS.iter().any(|b| b.built));
        if !present && !excluded(backend) && !missing.contains(&name.as_str()) {
            missing.push(name);
        }
    }
    match missing.as_slice() {
        [] => None,
        [name] if *name == ALL => {
            Some("no backend is part of this build; the run goes on with call stacks".to_owned())
        }
        [name] => Some(format!(
            "backend '{name}' is not part of this build; the run goes on without it"
        )),
        names => Some(format!(
            "backends '{}' are not part of this build; the run goes on without them",
            names.join("', '")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn missing_backends_make_one_line() {
        assert_eq!(missing_warning(&list(&["roctracer", "all"]), &[]), None);
        assert_eq!(
            missing_warning(&list(&["mpip"]), &[]).as_deref(),
            Some("backend 'mpip' is not part of this build; the run goes on without it")
        );
        assert_eq!(
            missing_warning(&list(&["roctracer", "mpip", "ompt", "ompt"]), &[]).as_deref(),
            Some(
                "backends 'mpip', 'ompt' are not part of this build; the run goes on without them"
            )
        );
        assert_eq!(missing_warning(&list(&["mpip"]), &list(&["mpi"])), None);
        assert_eq!(missing_warning(&list(&["mpip"]), &list(&["all"])), None);
    }

    #[test]
    fn parts_are_on_with_their_whole() {
        assert!(is_on("roctx", &list(&["rocm"]), &[]));
        assert!(is_on("roctracer", &list(&["HIP"]), &[]));
        assert!(is_on("rcclp", &list(&["all"]), &[]));
        assert!(!is_on("hsa", &list(&["rocm"]), &[]));
        assert!(!is_on("roctx", &list(&["rocm"]), &list(&["roctx"])));
        assert!(!is_on("roctx", &list(&["roctx"]), &list(&["all"])));
        assert!(!is_on("mpip", &list(&["all"]), &[]));
        assert!(!is_on("roctracer", &[], &[]));
    }
}

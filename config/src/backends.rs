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
    /// A backend that this build holds.
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
    )
    .built(),
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

/// Whether `-I` and `-E` leave a backend of this build switched on that is so `by_default`. Its own names count, `all`, and `rocm` for
/// those of ROCm.
#[must_use]
pub fn is_on(name: &str, by_default: bool, include: &[String], exclude: &[String]) -> bool {
    const OF_ROCM: [&str; 4] = ["roctracer", "roctx", "rcclp", "rocm-smi"];
    let Some(asked) = find(name).filter(|backend| backend.built) else {
        return false;
    };
    let names = |list: &[String]| {
        list.iter().filter_map(|word| find(word)).any(|backend| {
            backend.name == asked.name
                || backend.name == ALL
                || (backend.name == "rocm" && OF_ROCM.contains(&asked.name))
        })
    };
    !names(exclude) && (by_default || names(include))
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

/// The backends of this build that a choice leaves switched on, when none is by default.
#[must_use]
pub fn in_use(include: &[String], exclude: &[String]) -> Vec<&'static str> {
    BACKENDS
        .iter()
        .filter(|backend| backend.built && backend.name != ALL)
        .map(|backend| backend.name)
        .filter(|name| is_on(name, false, include, exclude))
        .collect()
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
    fn backends_are_switched_by_all_their_names() {
        let cases: [(&[&str], &[&str], bool); 7] = [
            (&[], &[], false),
            (&["amd-smi"], &[], true),
            (&["rocm"], &[], true),
            (&["all"], &[], true),
            (&["roctx"], &[], false),
            (&["rocm-smi"], &["amd-smi"], false),
            (&["all"], &["rocm"], false),
        ];
        for (include, exclude, on) in cases {
            assert_eq!(
                is_on("rocm-smi", false, &list(include), &list(exclude)),
                on,
                "-I {include:?} -E {exclude:?}"
            );
        }
        assert!(is_on("rocm-smi", true, &[], &[]));
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
        assert!(is_on("roctx", false, &list(&["rocm"]), &[]));
        assert!(is_on("roctracer", false, &list(&["HIP"]), &[]));
        assert!(is_on("rcclp", false, &list(&["all"]), &[]));
        assert!(!is_on("hsa", false, &list(&["rocm"]), &[]));
        assert!(!is_on("roctx", false, &list(&["rocm"]), &list(&["roctx"])));
        assert!(!is_on("roctx", false, &list(&["roctx"]), &list(&["all"])));
        assert!(!is_on("mpip", false, &list(&["all"]), &[]));
        assert!(!is_on("roctracer", false, &[], &[]));
    }
}

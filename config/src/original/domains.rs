//! The original's domains of ROCm, as `ROCM_DOMAINS` names them. Which backend holds one is said in
//! [`crate::backends`].

/// Domains, to guess what a word was meant to be.
pub(crate) const DOMAINS: [&str; 10] = [
    "hip_api",
    "hip_runtime_api",
    "hip_compiler_api",
    "kernel_dispatch",
    "memory_copy",
    "memory_allocation",
    "scratch_memory",
    "hsa_api",
    "marker_api",
    "rccl_api",
];

/// How the domains begin that this build has nothing for.
const ELSEWHERE: [&str; 11] = [
    "code_object",
    "correlation_id",
    "counter",
    "device_counting",
    "intercept_table",
    "kfd",
    "ompt",
    "page_migration",
    "rocdecode",
    "rocjpeg",
    "runtime_init",
];

/// What to say of a word that switches no backend on, and whether the word is new to us: probably
/// misspelt.
pub(crate) fn without_effect(word: &str) -> (String, bool) {
    let lower = word.to_ascii_lowercase();
    let is_known = ELSEWHERE
        .iter()
        .any(|beginning| lower.starts_with(beginning));
    let text = match crate::nearest::nearest(&lower, DOMAINS.into_iter()) {
        _ if is_known => "it is not part of this build".to_owned(),
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None => format!("known domains: {}", DOMAINS.join(" ")),
    };
    let text = format!("ROCM_DOMAINS: '{word}' has no effect; {text}");
    (text, !is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_domain_that_is_offered_has_a_backend() {
        for domain in DOMAINS {
            assert!(crate::backends::of_domain(domain).is_some(), "{domain}");
        }
    }
}

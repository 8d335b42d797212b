//! Which kernels a rule of the machine is about.

use crate::settings::KernelRule;

/// Whether a rule is about kernels of this name.
pub fn matches_name(rule: &KernelRule, name: &str) -> bool {
    matches(format!("*{}*", rule.name).as_bytes(), name.as_bytes())
}

/// Whether a text matches a pattern with `*` and `?`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            matches(rest, text) || (!text.is_empty() && matches(pattern, &text[1..]))
        }
        ([b'?', rest @ ..], [_, others @ ..]) => matches(rest, others),
        ([first, rest @ ..], [other, others @ ..]) => first == other && matches(rest, others),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_anywhere() {
        let rule = |name: &str| KernelRule {
            name: name.to_owned(),
            min_grid: 0,
            time: None,
            fault: None,
            fault_every: 1,
            together: None,
        };
        for (pattern, name, matched) in [
            ("", "anything", true),
            ("add", "_Z6vecaddPfS_i", true),
            ("vec?dd", "_Z6vecaddPfS_i", true),
            ("vec*i", "_Z6vecaddPfS_i", true),
            ("mul", "_Z6vecaddPfS_i", false),
            ("add?", "vecadd", false),
        ] {
            assert_eq!(
                matches_name(&rule(pattern), name),
                matched,
                "{pattern} {name}"
            );
        }
    }
}

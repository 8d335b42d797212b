//! What becomes of repeated measurements.

/// The smallest value: the run that was disturbed least.
pub fn minimum(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

/// The middle value.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// By how many percent each value is above its partner of the same repetition; then the middle one.
pub fn median_excess_percent(values: &[f64], bare: &[f64]) -> Option<f64> {
    let excess: Vec<f64> = values
        .iter()
        .zip(bare)
        .map(|(value, bare)| percent_over(*value, *bare))
        .collect();
    median(&excess)
}

/// By how many percent a value is above another.
pub fn percent_over(value: f64, bare: f64) -> f64 {
    100.0 * (value - bare) / bare
}

/// How many times ours the other value is; nothing where one of them drowned in the noise.
pub fn ratio(other: f64, ours: f64) -> Option<f64> {
    (other > 0.0 && ours > 0.0).then(|| other / ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middle_of_even_and_odd_counts() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(minimum(&[3.0, 1.0]), Some(1.0));
    }

    #[test]
    fn excess_is_taken_within_each_repetition() {
        // The machine became half as fast after the first repetition; the excess is 10 % in both.
        let excess = median_excess_percent(&[1.1, 2.2], &[1.0, 2.0]).unwrap();
        assert!((excess - 10.0).abs() < 1e-9);
    }

    #[test]
    fn no_ratio_of_noise() {
        assert_eq!(ratio(-1.0, 2.0), None);
        assert_eq!(ratio(4.0, 2.0), Some(2.0));
    }
}

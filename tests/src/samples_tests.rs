use super::*;

fn sample(names: &[&str], weight: f64) -> Sample {
    let frame = |name: &&str| Frame {
        function: (*name).to_owned(),
        module: "/x".to_owned(),
        address: 0,
    };
    let stack = names.iter().map(frame).collect();
    Sample {
        time_ns: 0,
        utid: 1,
        tid: 1,
        thread: "t".to_owned(),
        weight,
        stack,
    }
}

#[test]
fn shares_are_weighted_and_recursion_counts_once() {
    let samples = vec![
        sample(&["_start", "main", "f(int)", "f(int)"], 3.0),
        sample(&["_start", "main", "g"], 1.0),
    ];
    let samples = Samples {
        samples,
        entries: HashMap::new(),
    };
    let shares = samples.shares(|_| true).unwrap();
    assert_eq!(
        (
            shares.self_share("f"),
            shares.total_share("f"),
            shares.total_share("main")
        ),
        (0.75, 0.75, 1.0)
    );
    assert_eq!(
        (shares.self_share("main"), shares.self_share("h")),
        (0.0, 0.0)
    );
    assert_eq!(samples.rooted_share(), 1.0);
}

#[test]
fn a_stack_without_a_root_is_told() {
    let samples = Samples {
        samples: vec![sample(&["main", "g"], 2.0)],
        entries: HashMap::new(),
    };
    assert_eq!(samples.rooted_share(), 0.0);
    assert!(samples.unrooted_examples().contains("main > g"));
}

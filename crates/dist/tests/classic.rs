//! The classic algorithms of `examples/classic` find what their data were made from.

#[path = "../examples/classic/algorithms/mod.rs"]
mod algorithms;
#[path = "../examples/classic/job.rs"]
mod job;

use algorithms::{factors, forest, kmeans, lasso, logistic, mixture, regret, topics};

#[test]
fn logistic_regression_separates() {
    for rule in ["bsp", "ssp:2", "async"] {
        let r = logistic::run(rule.parse().unwrap()).unwrap();
        assert!(r.accuracy > 0.9 && r.loss.0 < 0.5 * r.loss.1, "{rule}: {r}");
    }
}

#[test]
fn lasso_finds_what_was_planted() {
    let r = lasso::run().unwrap();
    assert!(r.planted == r.found && r.violation < 0.01, "{r}");
}

#[test]
fn a_mixture_is_taken_apart() {
    let r = mixture::run().unwrap();
    for (found, truth) in r.parts.iter().zip([(0.5, -4.0, 0.7), (0.3, 0.0, 0.5), (0.2, 3.0, 1.0)]) {
        let off = (found.0 - truth.0).abs().max((found.1 - truth.1).abs()).max((found.2 - truth.2).abs());
        assert!(off < 0.15, "{r}");
    }
    let is_rising = r.likelihood.windows(2).all(|w| w[1] > w[0] - 1e-3);
    assert!(is_rising, "{:?}", r.likelihood);
}

#[test]
fn centers_are_found() {
    let r = kmeans::run().unwrap();
    assert!(r.distance < 0.15, "{r}");
    assert!(r.inertia.windows(2).all(|w| w[1] <= w[0] * 1.0001), "{:?}", r.inertia);
}

#[test]
fn ratings_are_explained() {
    let r = factors::run("ssp:2".parse().unwrap()).unwrap();
    assert!(r.errors.1 < 0.1 * r.errors.0 && r.errors.2 < 0.2, "{r}");
}

#[test]
fn regret_stays_below_the_theorys_bound() {
    for staleness in [0, 2, 4] {
        let r = regret::run(staleness).unwrap();
        assert!(r.bound < r.idle, "the bound says nothing: {r}");
        assert!(r.regret <= r.bound, "{r}");
    }
}

#[test]
fn topics_are_told_apart() {
    let r = topics::run("bsp".parse().unwrap()).unwrap();
    assert!(r.purity > 0.95 && r.total == 3000.0, "{r}");
}

#[test]
fn a_forest_reads_digits_better_than_a_tree() {
    let r = forest::run(6).unwrap();
    assert!(r.is_same && r.accuracy.1 > 0.7 && r.accuracy.1 > r.accuracy.0 + 0.05, "{r}");
}

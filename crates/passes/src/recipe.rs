//! The recipe: every stage from the graph as written to regions in launch order, by name and in order.
//!
//! A device adds its own stages through [`Target`]. Each result is verified in debug builds and whenever an
//! observer watches.

use crate::{
    Claims, Eval, Fused, MemoryPlan, Pattern, Target, cancel_permutations, decompose, deduplicate, deduplicate_placed,
    fold, fuse, has_complex, materialize, prune, recognize, recognize_placed, simplify, slice_operands, split_complex,
};
use ir::{Error, Graph, Result};
use std::borrow::Cow;
use std::time::Instant;

/// A named transformation.
pub struct Stage<'a> {
    /// Its name.
    pub name: &'static str,
    run: Run<'a>,
}

enum Run<'a> {
    Graph(Box<dyn Fn(&Graph) -> Result<Option<Graph>> + 'a>),
    Fuse(Box<dyn Fn(Graph) -> Result<Fused> + 'a>),
    Regions(Box<dyn Fn(Fused) -> Fused + 'a>),
}

impl<'a> Stage<'a> {
    /// A stage before fusion.
    pub fn graph(name: &'static str, f: impl Fn(&Graph) -> Result<Graph> + 'a) -> Stage<'a> {
        Stage::graph_if(name, move |g| f(g).map(Some))
    }
    /// A stage before fusion that returns `None` where it has nothing to do.
    pub fn graph_if(name: &'static str, f: impl Fn(&Graph) -> Result<Option<Graph>> + 'a) -> Stage<'a> {
        Stage { name, run: Run::Graph(Box::new(f)) }
    }
    /// The stage that cuts a graph into regions.
    pub fn fuse(name: &'static str, f: impl Fn(Graph) -> Result<Fused> + 'a) -> Stage<'a> {
        Stage { name, run: Run::Fuse(Box::new(f)) }
    }
    /// A stage after fusion.
    pub fn regions(name: &'static str, f: impl Fn(Fused) -> Fused + 'a) -> Stage<'a> {
        Stage { name, run: Run::Regions(Box::new(f)) }
    }

    fn apply<'g>(&self, state: State<'g>) -> Result<(State<'g>, bool)> {
        match (&self.run, state) {
            (Run::Graph(f), State::Graph(g)) => match f(&g)? {
                Some(new) => Ok((State::Graph(Cow::Owned(new)), true)),
                None => Ok((State::Graph(g), false)),
            },
            (Run::Fuse(f), State::Graph(g)) => Ok((State::Regions(f(g.into_owned())?), true)),
            (Run::Regions(f), State::Regions(r)) => Ok((State::Regions(f(r)), true)),
            (Run::Graph(_) | Run::Fuse(_), State::Regions(_)) => Err(Error::bug("a graph stage after fusion")),
            (Run::Regions(_), State::Graph(_)) => Err(Error::bug("a region stage before fusion")),
        }
    }
}

/// A program between two stages.
#[derive(Clone)]
pub enum State<'g> {
    /// Before fusion.
    Graph(Cow<'g, Graph>),
    /// After it.
    Regions(Fused),
}

impl State<'_> {
    /// The graph, before fusion.
    pub fn into_graph(self) -> Result<Graph> {
        match self {
            State::Graph(g) => Ok(g.into_owned()),
            State::Regions(_) => Err(Error::bug("the graph is cut into regions")),
        }
    }
    /// The regions, after fusion.
    pub fn into_regions(self) -> Result<Fused> {
        match self {
            State::Regions(r) => Ok(r),
            State::Graph(_) => Err(Error::bug("the graph is not cut into regions")),
        }
    }
    fn verify(&self) -> Result<()> {
        match self {
            State::Graph(g) => g.verify(),
            State::Regions(r) => r.verify(),
        }
    }
}

/// What a stage left, for an observer.
pub enum Snapshot<'a> {
    /// A graph; the flag says whether the stage changed it.
    Graph(&'a Graph, bool),
    /// Regions.
    Regions(&'a Fused),
    /// The memory of regions.
    Memory(&'a MemoryPlan),
    /// Which device computes what, as text.
    Text(&'a str),
    /// Nothing to show: the result is the device's own.
    Code,
}

/// A stage that ran.
pub struct Report<'a> {
    /// Its name.
    pub stage: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// What it left.
    pub left: Snapshot<'a>,
}

/// Who watches the stages run, if anybody does. Without an observer nothing is timed or copied.
pub struct Watch<'a>(Option<&'a mut dyn FnMut(&Report)>);

impl<'a> Watch<'a> {
    /// No observer.
    pub fn none() -> Watch<'static> {
        Watch(None)
    }
    /// An observer, which is shown each stage after it ran.
    pub fn new(see: &'a mut dyn FnMut(&Report)) -> Watch<'a> {
        Watch(Some(see))
    }
    /// Whether results are verified.
    pub(crate) fn verifies(&self) -> bool {
        cfg!(debug_assertions) || self.0.is_some()
    }
    fn start(&self) -> Option<Instant> {
        self.0.is_some().then(Instant::now)
    }
    fn show(&mut self, stage: &'static str, start: Option<Instant>, left: Snapshot) {
        if let (Some(see), Some(start)) = (&mut self.0, start) {
            see(&Report { stage, seconds: start.elapsed().as_secs_f64(), left });
        }
    }
    /// Runs a step that is not a [`Stage`], under a name.
    pub fn step<R>(
        &mut self,
        stage: &'static str,
        run: impl FnOnce() -> Result<R>,
        left: impl FnOnce(&R) -> Snapshot<'_>,
    ) -> Result<R> {
        let start = self.start();
        let done = run()?;
        self.show(stage, start, left(&done));
        Ok(done)
    }
}

/// Runs stages in order.
pub fn run<'g>(stages: &[Stage], mut state: State<'g>, watch: &mut Watch) -> Result<State<'g>> {
    for stage in stages {
        let start = watch.start();
        let (next, is_changed) = stage.apply(state)?;
        state = next;
        let seen = match &state {
            State::Graph(g) => Snapshot::Graph(g, is_changed),
            State::Regions(r) => Snapshot::Regions(r),
        };
        watch.show(stage.name, start, seen);
        // A stage that breaks a rule is named here, before a later stage fails because of it.
        if is_changed && watch.verifies() {
            state.verify().map_err(|e| Error { message: format!("after {}: {}", stage.name, e.message), ..e })?;
        }
    }
    Ok(state)
}

/// The stages that every device shares: from the graph as written to primitive ops and claimed composites.
pub fn portable_stages<'a>(patterns: &'a [Pattern], claims: Claims<'a>, eval: Eval<'a>) -> Vec<Stage<'a>> {
    vec![
        Stage::graph_if("split_complex", |g| has_complex(g).then(|| split_complex(g)).transpose()),
        // Patterns are matched against the ops as the program wrote them, in one spelling.
        Stage::graph("simplify", simplify),
        Stage::graph("deduplicate", |g| Ok(deduplicate(g))),
        Stage::graph("recognize", move |g| recognize(g, patterns, claims)),
        Stage::graph("decompose", move |g| decompose(g, claims)),
        Stage::graph("prune", |g| Ok(prune(g))),
        Stage::graph("fold", move |g| fold(g, eval)),
        Stage::graph_if("cancel_permutations", cancel_permutations),
        Stage::graph_if("slice_operands", |g| Ok(slice_operands(g))),
        Stage::graph("simplify", simplify),
        Stage::graph("deduplicate", |g| Ok(deduplicate(g))),
        Stage::graph("prune", |g| Ok(prune(g))),
    ]
}

/// The same for a graph whose nodes are to be computed on several devices ([`ir::Site::place`]): nothing is merged across
/// places. A composite stays if any of the devices claims it.
pub fn placed_stages<'a>(patterns: &'a [Pattern], claims: Claims<'a>, eval: Eval<'a>) -> Vec<Stage<'a>> {
    let replace = |stage: Stage<'a>| match stage.name {
        "deduplicate" => Stage::graph("deduplicate", |g| Ok(deduplicate_placed(g))),
        "recognize" => Stage::graph("recognize", move |g| recognize_placed(g, patterns, claims)),
        _ => stage,
    };
    portable_stages(patterns, claims, eval).into_iter().map(replace).collect()
}

/// The stages of one device, from there to its regions.
pub fn target_stages(target: &dyn Target) -> Vec<Stage<'_>> {
    let mut list = target.graph_stages();
    list.push(Stage::graph("materialize", |g| materialize(g, target)));
    // A value without a use has no memory: no region may compute it.
    list.push(Stage::graph("prune", |g| Ok(prune(g))));
    list.push(Stage::fuse("fuse", |g| fuse(g, target)));
    list.extend(target.region_stages());
    list
}

/// The graph after the portable stages, without patterns.
pub fn optimize(graph: &Graph, claims: Claims, eval: Eval) -> Result<Graph> {
    run(&portable_stages(&[], claims, eval), State::Graph(Cow::Borrowed(graph)), &mut Watch::none())?.into_graph()
}

/// The graph after each of the portable stages that has something to do.
pub fn staged_graphs(
    graph: &Graph,
    patterns: &[Pattern],
    claims: Claims,
    eval: Eval,
) -> Result<Vec<(&'static str, Graph)>> {
    let mut all = Vec::new();
    let mut see = |r: &Report| {
        if let Snapshot::Graph(g, true) = r.left {
            all.push((r.stage, g.clone()));
        }
    };
    let start = State::Graph(Cow::Borrowed(graph));
    run(&portable_stages(patterns, claims, eval), start, &mut Watch::new(&mut see))?;
    Ok(all)
}

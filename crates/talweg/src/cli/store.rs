//! `talweg store-server`: a server of the parameter store that runs optimizers as graphs.

use super::Program;
use crate::{Error, Result};
use dist::{Consistency, Rule};
use std::sync::Arc;

/// A consistency rule that is not built in; `unknown` says that it is not.
pub fn found(text: &str, program: &Program, unknown: dist::Error) -> Result<Arc<dyn Consistency>> {
    match program.consistency {
        Some(find) => find(text),
        None if text.rsplit_once(':').is_some_and(|(file, _)| file.ends_with(".py")) => Err(Error::value(
            "a rule in Python needs the `talweg` command of the Python package: pip install talweg, or python -m talweg",
        )),
        None => Err(parallel::error(unknown)),
    }
}

/// Serves until the job is over.
pub fn run(consistency: Option<&str>, program: &Program) -> Result<()> {
    let rule = consistency.map(|text| match text.parse::<Rule>() {
        Ok(rule) => Ok(Arc::new(rule) as Arc<dyn Consistency>),
        Err(e) => found(text, program, e),
    });
    parallel::serve(rule.transpose()?)
}

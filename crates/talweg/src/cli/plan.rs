//! `talweg plan`: how to cut a program's train step over so many ranks, and what that costs on a cluster.

use super::Program;
use super::cluster;
use crate::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensor::{RanksOfMesh, Search};

/// What to plan.
#[derive(clap::Args)]
pub struct Options {
    /// The ranks: their number, as 8, to search their axes as well; or a mesh, as data=4,tensor=2.
    #[arg(long, value_name = "RANKS")]
    mesh: String,
    /// The machines: a100, a100-800g, h100, h200, ethernet, a file that describes others, or local, which is measured.
    #[arg(long, default_value = "local", value_name = "NAME|FILE")]
    cluster: String,
    /// A plan to complete: data, fsdp, megatron or a file. What it states is kept, the rest is searched.
    #[arg(long, default_value = AUTO)]
    plan: String,
    /// Lines of the table.
    #[arg(long, default_value_t = 8)]
    top: usize,
    /// Writes the best plan, for `launch --plan FILE`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Writes what the ranks do in a step of the best plan, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Writes the description of the cluster, for `--cluster FILE`; of this machine, with the regions that were measured.
    #[arg(long, value_name = "FILE")]
    save_cluster: Option<PathBuf>,
    /// The program and its arguments; it runs up to its first train step.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    program: Vec<OsString>,
}

/// The plan that is searched.
pub const AUTO: &str = "auto";

/// What a search answers.
pub struct Planned {
    /// A line for each plan, the fastest first.
    pub table: String,
    /// The best, as a plan file.
    pub plan: String,
    /// What its ranks do, in Chrome's format.
    pub timeline: String,
    /// Seconds of the regions that were measured, a line for each.
    pub kernels: String,
}

/// A program as it is started: Python files under their interpreter.
pub fn command(program: &[OsString], own: &Program) -> Command {
    let is_python = program.first().is_some_and(|p| Path::new(p).extension().is_some_and(|e| e == "py"));
    let mut words = is_python.then_some(&own.python).into_iter().chain(program);
    let mut command = Command::new(words.next().map_or("", |w| w.to_str().unwrap_or_default()));
    command.args(words);
    command
}

/// Runs a program up to its first train step and searches a plan for it.
pub fn planned(
    mesh: &str,
    (name, text): (&str, &str),
    plan: &str,
    top: usize,
    program: &[OsString],
    own: &Program,
) -> Result<Planned> {
    let bad = |e: sim::Error| Error::value(format!("cluster {name}: {e}"));
    let base = if plan == AUTO { None } else { Some(parallel::plan_lines(plan)?) };
    if let Some(lines) = &base {
        tensor::Plan::parse(lines)?;
    }
    let folder = std::env::temp_dir().join(format!("talweg-plan-{}", std::process::id()));
    let io = |e: std::io::Error| Error::value(format!("{}: {e}", folder.display()));
    std::fs::create_dir_all(&folder).map_err(io)?;
    let (ranks, cluster) = (RanksOfMesh::parse(mesh)?, (name.to_string(), text.parse().map_err(bad)?));
    let search = Search { ranks, base, cluster, top, folder: folder.clone() };
    let done = parallel::write_search(&search, text).and_then(|()| {
        let mut command = command(program, own);
        let shown = program.first().map_or("", |p| p.to_str().unwrap_or_default());
        let failed = |e: std::io::Error| Error::value(format!("{shown}: {e}"));
        let done = command.env(parallel::SEARCH, &folder).output().map_err(failed)?;
        let said = String::from_utf8_lossy(&done.stderr);
        let read = |file: &str| std::fs::read_to_string(folder.join(file));
        match (read("table"), read("plan"), read("timeline.json"), read("kernels")) {
            (Ok(table), Ok(plan), Ok(timeline), Ok(kernels)) => Ok(Planned { table, plan, timeline, kernels }),
            _ if said.contains("no plan for ") => Err(Error::value(said.trim().to_string())),
            _ => Err(Error::value(format!("{shown} jits no train step: {said}"))),
        }
    });
    std::fs::remove_dir_all(&folder).map_err(io)?;
    done
}

/// The file of a plan that was searched, removed at the end.
pub struct Searched(PathBuf);

impl Drop for Searched {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The mesh and the plan that options name. A plan file may state its mesh, and `auto` is searched; its plan is then in
/// a file as long as the third value lives.
pub fn resolved(
    (mesh, plan, cluster): (Option<&str>, &str, &str),
    program: &[OsString],
    own: &Program,
) -> Result<(tensor::Mesh, String, Option<Searched>)> {
    let (name, settings) = plan.split_at(plan.find(',').unwrap_or(plan.len()));
    if name != AUTO {
        let stated = parallel::read_plan(plan)?.mesh().cloned();
        let missing = || Error::value(format!("plan {plan} states no mesh: give --mesh AXIS=SIZE,…"));
        let mesh = match mesh {
            Some(text) => tensor::Mesh::parse(text)?,
            None => stated.ok_or_else(missing)?,
        };
        return Ok((mesh, plan.to_string(), None));
    }
    let ranks = mesh.ok_or_else(|| Error::value("--plan auto needs --mesh: a number of ranks, or AXIS=SIZE,…"))?;
    if !settings.is_empty() {
        return Err(Error::value(format!("--plan auto chooses all settings; {settings:?} needs a plan's name")));
    }
    let text = cluster::read(cluster, own)?;
    let found = planned(ranks, (cluster, &text), AUTO, 1, program, own)?;
    let file = std::env::temp_dir().join(format!("talweg-auto-{}.plan", std::process::id()));
    std::fs::write(&file, &found.plan).map_err(|e| Error::value(format!("{}: {e}", file.display())))?;
    let (plan, searched) = (file.display().to_string(), Searched(file));
    let mesh = parallel::read_plan(&plan)?.mesh().cloned();
    let mesh = mesh.ok_or_else(|| Error::bug("a plan that was searched states its mesh"))?;
    eprintln!("plan:\n{}", found.plan.trim_end());
    Ok((mesh, plan, Some(searched)))
}

/// Prints the table and writes what was asked for.
pub fn run(o: &Options, own: &Program) -> Result<()> {
    let text = cluster::read(&o.cluster, own)?;
    let write = |path: &Option<PathBuf>, what: &str| match path {
        Some(p) => std::fs::write(p, what).map_err(|e| Error::value(format!("{}: {e}", p.display()))),
        None => Ok(()),
    };
    let found = planned(&o.mesh, (&o.cluster, &text), &o.plan, o.top, &o.program, own)?;
    let kernels = if found.kernels.is_empty() { String::new() } else { format!("[kernels]\n{}", found.kernels) };
    write(&o.save_cluster, &format!("{text}{kernels}"))?;
    print!("{}", found.table);
    write(&o.out, &found.plan)?;
    write(&o.timeline, &found.timeline)
}

//! Ranks of a job as a mesh: the groups along each axis, for jitted functions that are cut over it.

use crate::group::Group;
use crate::job::current;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensor::{Error, Mesh, MeshScope, Plan, RanksOfMesh, Result, Search};

/// The variable that names the mesh of a job, and the one that names its plan.
pub const MESH: &str = "TALWEG_MESH";
/// See [`MESH`].
pub const PLAN: &str = "TALWEG_PLAN";
/// The variable that names a file for the exchanges of each train step: it is explained, not run.
pub const REPORT: &str = "TALWEG_MESH_REPORT";

/// The variable that names a folder with what to search: a plan for the train step, which is not run.
pub const SEARCH: &str = "TALWEG_MESH_SEARCH";

/// Whether the processes of the job are the ranks of a mesh: a program then sees one device.
pub(crate) fn is_meshed() -> bool {
    std::env::var_os(MESH).is_some() || std::env::var_os(SEARCH).is_some()
}

/// This rank's place in a mesh of the group's ranks.
pub fn mesh_of(group: &Group, mesh: Mesh, plan: Plan) -> Result<Arc<MeshScope>> {
    if mesh.ranks() != group.size() {
        let e = format!("the mesh {mesh} has {} ranks, but {} processes were started", mesh.ranks(), group.size());
        return Err(Error::value(e).in_op("mesh"));
    }
    let rank = group.rank();
    let along = |axis: u8| Ok(group.part(&mesh.group(rank, axis))?.0.clone());
    let groups = (0..mesh.rank() as u8).map(along).collect::<Result<Vec<_>>>()?;
    let pairs = mesh.axis(tensor::PIPE).map_or(Vec::new(), |axis| mesh.group(rank, axis));
    let pair = |&other: &usize| match other == rank {
        true => Ok(None),
        false => Ok(Some(group.part(&[rank.min(other), rank.max(other)])?.0.clone())),
    };
    let pairs = pairs.iter().map(pair).collect::<Result<Vec<_>>>()?;
    MeshScope::new(mesh, rank, groups, pairs, plan)
}

/// All ranks of a mesh as threads of this process, for tests.
pub fn mesh_in_process(mesh: &Mesh, plan: &Plan) -> Result<Vec<Arc<MeshScope>>> {
    Group::in_process(mesh.ranks())?.iter().map(|g| mesh_of(g, mesh.clone(), plan.clone())).collect()
}

/// The mesh that the environment describes, if it describes one: `TALWEG_MESH` and `TALWEG_PLAN`, as
/// `talweg launch --mesh … --plan …` sets them.
pub fn mesh_from_env() -> Result<Option<Arc<MeshScope>>> {
    if let Some(folder) = std::env::var_os(SEARCH) {
        return MeshScope::searching(read_search(PathBuf::from(folder))?).map(Some);
    }
    let Ok(mesh) = std::env::var(MESH) else { return Ok(None) };
    let plan = read_plan(&std::env::var(PLAN).unwrap_or_else(|_| "data".to_string()))?;
    if let Some(file) = std::env::var_os(REPORT) {
        return MeshScope::explaining(Mesh::parse(&mesh)?, plan, PathBuf::from(file)).map(Some);
    }
    let comm = current()?.0.comm.clone();
    let world = Group::of(&comm, &(0..comm.world).collect::<Vec<_>>())?;
    mesh_of(&world, Mesh::parse(&mesh)?, plan).map(Some)
}

/// Writes what to search into a folder: the program that is started with the variable [`SEARCH`] searches there.
pub fn write_search(s: &Search, cluster: &str) -> Result<()> {
    let write = |name: &str, text: &str| {
        let file = s.folder.join(name);
        std::fs::write(&file, text).map_err(|e| Error::value(format!("{}: {e}", file.display())))
    };
    let ranks = match &s.ranks {
        RanksOfMesh::Count(n) => n.to_string(),
        RanksOfMesh::Mesh(m) => m.to_string(),
    };
    write("ranks", &ranks)?;
    write("base", s.base.as_deref().unwrap_or_default())?;
    write("cluster", &format!("{}\n{}\n{cluster}", s.cluster.0, s.top))
}

/// What to search, as [`write_search`] wrote it.
fn read_search(folder: PathBuf) -> Result<Search> {
    let read = |name: &str| {
        let file = folder.join(name);
        std::fs::read_to_string(&file).map_err(|e| Error::value(format!("{}: {e}", file.display())))
    };
    let (ranks, base, cluster) = (RanksOfMesh::parse(&read("ranks")?)?, read("base")?, read("cluster")?);
    let mut lines = cluster.splitn(3, '\n');
    let (name, top) = (lines.next().unwrap_or_default().to_string(), lines.next().and_then(|n| n.parse().ok()));
    let cluster = lines.next().unwrap_or_default().parse().map_err(|e: sim::Error| Error::value(e.0))?;
    let base = Some(base).filter(|b| !b.is_empty());
    Ok(Search { ranks, base, cluster: (name, cluster), top: top.unwrap_or(5), folder })
}

/// A built-in plan, or one from a file, with settings behind a comma each: `data,microbatches=8,schedule=gpipe,strict`.
pub fn read_plan(text: &str) -> Result<Plan> {
    let in_plan = |e: Error| Error { message: format!("plan {text}: {}", e.message), ..e };
    Plan::parse(&plan_lines(text)?).map_err(in_plan)
}

/// The same as the lines of a plan file.
pub fn plan_lines(text: &str) -> Result<String> {
    let (name, settings) = text.split_once(',').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let lines = match Plan::named(name) {
        Some(_) => format!("like: {name}"),
        None => {
            let e = |e: std::io::Error| Error::value(format!("plan {name}: {e}; built in are data, fsdp and megatron"));
            std::fs::read_to_string(Path::new(name)).map_err(e)?
        }
    };
    let line = |s: &str| match s.split_once('=') {
        _ if s == "strict" => Ok("strict: true".to_string()),
        Some((key, value)) => Ok(format!("{key}: {value}")),
        None => Err(Error::value(format!("plan {text}: settings are KEY=VALUE or strict, not {s:?}"))),
    };
    let settings = settings.into_iter().flat_map(|s| s.split(',')).map(line).collect::<Result<Vec<_>>>()?;
    Ok(format!("{lines}\n{}", settings.join("\n")))
}

//! Collectives by NCCL, where there is a GPU: a group of one rank, and what is said when ranks share a
//! GPU or the library is missing. Several GPUs need several processes.

use ir::{
    AttrKind, Attrs, Buffer, Call, DType, DevicePeers, Grad, Graph, Literal, Meaning, Op, Peers, PeersHandle, Site,
    Type, Types,
};
use std::sync::Arc;
use std::time::Duration;
use talweg_cuda as _;

/// A row as the distribution has it, which must not come to the host.
const fn row(name: &'static str, attrs: &'static [(&'static str, AttrKind)]) -> Op {
    Op {
        name,
        doc: "",
        attrs,
        infer: |c: &Call| Ok(Types::from_iter([c.types[0].clone()])),
        meaning: Meaning::Kernel(|_, _| Err(ir::Error::value("it went through the host"))),
        grad: Grad::Zero,
        effect: ir::Effect::Ordered,
        ..Op::DEFAULT
    }
}
static ALL_REDUCE: Op = row("all_reduce", &[("how", AttrKind::Str), ("group", AttrKind::Peers)]);
static REDUCE: Op = row("reduce", &[("how", AttrKind::Str), ("root", AttrKind::Int), ("group", AttrKind::Peers)]);
static REDUCE_SCATTER: Op = row("reduce_scatter", &[("how", AttrKind::Str), ("group", AttrKind::Peers)]);
static BROADCAST: Op = row("broadcast_from", &[("root", AttrKind::Int), ("group", AttrKind::Peers)]);
static ALL_GATHER: Op = row("all_gather", &[("group", AttrKind::Peers)]);
static ALL_TO_ALL: Op = row("all_to_all", &[("group", AttrKind::Peers)]);

/// Group 0 is this process alone; in group 1 there is another that says the same of itself.
struct Fake(usize);
impl Peers for Fake {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        self.0
    }
    fn run(&self, _: &'static str, _: &Call, _: &[Literal]) -> ir::Result<Vec<Literal>> {
        Err(ir::Error::value("it went through the host"))
    }
    fn devices(&self) -> ir::Result<Option<&dyn DevicePeers>> {
        Ok(Some(self))
    }
}
impl DevicePeers for Fake {
    fn gather(&self, mine: &[u8]) -> ir::Result<Vec<Vec<u8>>> {
        Ok(vec![mine.to_vec(); self.0])
    }
    fn agree(&self, _: &str, _: &Call) -> ir::Result<()> {
        Ok(())
    }
    fn timeout(&self) -> Duration {
        Duration::from_secs(20)
    }
}

/// Runs one collective on the GPU.
fn run(device: &Arc<dyn runtime::Device>, op: &'static Op, attrs: Attrs, x: &Literal) -> ir::Result<Literal> {
    let mut g = Graph::new();
    let at = g.input("x", &Type::new(x.dtype(), x.shape().clone()), Site::UNKNOWN);
    let y = g.push(op, &[at], attrs, Site::UNKNOWN)?;
    g.outputs.push(y);
    device.compile(g)?.run(&mut [Buffer::Host(x.clone())])?[0].read()
}

#[test]
fn collectives_stay_on_the_gpu() {
    if runtime::devices().iter().all(|d| d != "cuda:0") {
        return eprintln!("skipped: there is no GPU");
    }
    let groups = [1, 2].map(|size| PeersHandle(Arc::new(Fake(size))));
    let device = runtime::open("cuda:0").unwrap();
    let of = |group: usize| Attrs::new().with("group", groups[group].clone());
    for dtype in [DType::F32, DType::BF16, DType::I64, DType::U8] {
        let x = Literal::from_f64(dtype, [4], &[1.0, 2.0, 3.0, 4.0]);
        for how in ["sum", "max"] {
            let got = run(&device, &ALL_REDUCE, of(0).with("how", how), &x);
            if let Err(e) = &got
                && e.to_string().contains("libnccl.so")
            {
                return eprintln!("skipped: {e}");
            }
            assert_eq!(got.unwrap().to_f64(), [1.0, 2.0, 3.0, 4.0], "{dtype} {how}");
            let rooted = of(0).with("how", how).with("root", 0i64);
            assert_eq!(run(&device, &REDUCE, rooted, &x).unwrap().to_f64(), x.to_f64(), "{dtype} {how}");
            let got = run(&device, &REDUCE_SCATTER, of(0).with("how", how), &x).unwrap();
            assert_eq!(got.to_f64(), x.to_f64(), "{dtype} {how}");
        }
        assert_eq!(run(&device, &BROADCAST, of(0).with("root", 0i64), &x).unwrap().to_f64(), x.to_f64());
        assert_eq!(run(&device, &ALL_GATHER, of(0), &x).unwrap().to_f64(), x.to_f64());
        assert_eq!(run(&device, &ALL_TO_ALL, of(0), &x).unwrap().to_f64(), x.to_f64());
    }
    let x = Literal::from_f64(DType::F32, [4], &[0.0; 4]);
    let e = run(&device, &ALL_REDUCE, of(1).with("how", "sum"), &x).unwrap_err().to_string();
    assert!(e.contains("ranks 0 and 1 use the same GPU"), "{e}");
    // NCCL has no 16-bit integers: those go through the host.
    let x = Literal::from_f64(DType::I16, [4], &[0.0; 4]);
    let e = run(&device, &ALL_REDUCE, of(0).with("how", "sum"), &x).unwrap_err().to_string();
    assert!(e.contains("it went through the host"), "{e}");
    println!("NCCL was used");
}

//! Imperative code, `Session` and `jit` give the same bits for the same results of random programs.

use cpu as _;
use ir::{DType, Literal, Site, Value};
use talweg_testkit::random::{Sample, random_graph, with_gradients};
use tensor::{Fetch, Result, Session, Tensor, jit, placeholder};

const SEEDS: u64 = 60;

fn inlined(s: &Sample, args: &[Tensor]) -> Result<Vec<Tensor>> {
    let args = args.iter().map(|t| t.value().cloned()).collect::<Result<Vec<Value>>>()?;
    Ok(s.graph.inline(&args)?.into_iter().map(Tensor::from).collect())
}

fn values(all: &[Tensor]) -> Result<Vec<Literal>> {
    all.iter().map(|t| t.value()?.buffer().expect("it was computed").read()).collect()
}

fn data(s: &Sample) -> Vec<Tensor> {
    s.inputs.iter().map(|l| Tensor::from(Value::data(l.clone(), false, Site::UNKNOWN))).collect()
}

fn imperative(s: &Sample) -> Result<Vec<Literal>> {
    let all = inlined(s, &data(s))?;
    Tensor::eval_all(&all.iter().collect::<Vec<_>>())?;
    values(&all)
}

fn jitted(s: &Sample) -> Result<Vec<Literal>> {
    let f = jit(|a: &[Tensor]| inlined(s, a));
    values(&f.call(&data(s).iter().collect::<Vec<_>>())?)
}

fn session(s: &Sample) -> Result<Vec<Literal>> {
    let holes: Vec<Tensor> = s.inputs.iter().map(|l| placeholder("x", l.shape(), l.dtype())).collect();
    let all = inlined(s, &holes)?;
    let fetches: Vec<&dyn Fetch> = all.iter().map(|t| t as &dyn Fetch).collect();
    let data = data(s);
    let feeds: Vec<(&Tensor, &Tensor)> = holes.iter().zip(&data).collect();
    values(&Session::new().run(&fetches, &feeds)?)
}

fn bits(all: &[Literal]) -> Vec<(DType, Vec<u8>)> {
    all.iter().map(|l| (l.dtype(), l.bytes().to_vec())).collect()
}

#[test]
fn the_same_results_have_the_same_bits_in_every_face() {
    for seed in 0..SEEDS {
        let plain = random_graph(seed);
        let full = with_gradients(&plain).unwrap();
        for s in [&plain, &full] {
            // A matrix may be singular: in every face.
            let want = match imperative(s) {
                Ok(want) => bits(&want),
                Err(e) => {
                    let others = [jitted(s), session(s)].map(|r| r.unwrap_err().message);
                    assert_eq!(others, [e.message.clone(), e.message], "seed {seed}\n{s}");
                    continue;
                }
            };
            assert_eq!(bits(&jitted(s).unwrap()), want, "jit, seed {seed}\n{s}");
            assert_eq!(bits(&session(s).unwrap()), want, "Session, seed {seed}\n{s}");
        }
    }
}

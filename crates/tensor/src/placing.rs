//! A bound graph on several devices: what is known when it is placed, and where its variables live.

use crate::bind::{Input, current};
use ir::{Buffer, Error, ErrorKind, Graph, Result};
use parking_lot::Mutex;
use passes::Watch;
use passes::place::Holding;
use runtime::{Engine, Origins, Placed, compile_placed, placing};
use std::sync::Arc;

/// Inputs that were captured, by number, in the memory of the device that reads them.
pub(crate) type Captured = Arc<[(usize, Buffer)]>;

/// How a bound graph is placed.
pub(crate) struct Placing {
    /// The values themselves are not kept: a variable whose old value is held is not updated in place.
    from: Origins,
    program: Mutex<Option<(Arc<Placed>, Captured)>>,
}

/// The name of the device that a value lives on.
fn home(b: &Buffer) -> Option<String> {
    match b {
        Buffer::Device(s) if !s.is_spread() => Some(s.device().to_string()),
        _ => None,
    }
}

/// By input: where variables and captured values live.
fn homes(inputs: &[Input]) -> Vec<Option<String>> {
    inputs.iter().map(|i| i.known().as_ref().and_then(home)).collect()
}

impl Placing {
    /// `None` where one device computes everything. On a mesh each rank has one device.
    pub fn new(
        from: Origins,
        graph: &Graph,
        inputs: &[Input],
        engine: &'static Engine,
        is_on_mesh: bool,
    ) -> Result<Option<Placing>> {
        let Some(found) = placing(&from, graph, engine, &homes(inputs))? else { return Ok(None) };
        if is_on_mesh {
            if runtime::is_divided(engine.device().name()) {
                // Ranks that share a machine divide it already.
                return Ok(None);
            }
            let names: Vec<&str> = found.engines.iter().map(|e| e.device().name()).collect();
            let e = format!("a rank of a mesh computes on one device, but this function has {}", names.join(" and "));
            return Err(Error::new(ErrorKind::Device, e).in_op("device"));
        }
        Ok(Some(Placing { from, program: Mutex::default() }))
    }

    /// The program for variables that live where they do now. Those on the host come to the device that uses them.
    pub fn program(&self, graph: &Graph, inputs: &[Input], engine: &'static Engine) -> Result<(Arc<Placed>, Captured)> {
        let homes = homes(inputs);
        let mut kept = self.program.lock();
        if let Some((program, captured)) = kept.as_ref().filter(|(p, _)| p.holds(&homes)) {
            return Ok((program.clone(), captured.clone()));
        }
        let lost = || Error::bug("a graph on several devices is now on one");
        let found = placing(&self.from, graph, engine, &homes)?.ok_or_else(lost)?;
        let number = |h: &Option<String>| found.engines.iter().position(|e| h.as_deref() == Some(e.device().name()));
        let holding = |(i, h): (&Input, &Option<String>)| Holding {
            home: number(h),
            is_variable: matches!(i, Input::Variable(_) | Input::Captured(_)),
        };
        let held: Vec<Holding> = inputs.iter().zip(&homes).map(holding).collect();
        let program = Arc::new(compile_placed(found, &held, &mut Watch::none())?);
        let mut captured = Vec::new();
        for (k, input) in inputs.iter().enumerate() {
            let Some(device) = program.device_of(k) else { continue };
            match input {
                Input::Variable(var) => {
                    let value = current(var)?;
                    if home(&value).as_deref() != Some(device.name()) {
                        var.set_buffer(device.receive(&value)?);
                    }
                }
                Input::Captured(v) => {
                    let value = v.buffer().ok_or_else(|| Error::bug("a captured value was lost"))?;
                    captured.push((k, device.receive(&value)?));
                }
                Input::Feed(_) | Input::Key(_) => {}
            }
        }
        let captured: Captured = captured.into();
        *kept = Some((program.clone(), captured.clone()));
        Ok((program, captured))
    }
}

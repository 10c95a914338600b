//! What the job answers to a run: the only place where a trainer talks to other workers by itself.

use super::report::{Progress, Stop};
use super::run::{Event, Facts, Next, Question, Run, Task};
use crate::parallel;
use std::ops::ControlFlow;
use tensor::Result;

impl Run {
    /// As [`Run::next`], with the job's questions answered: returns the next task of the host language, or why the
    /// run ends.
    pub fn advance(&mut self, mut event: Event) -> Result<ControlFlow<Stop, Task>> {
        loop {
            match self.next(event)? {
                Next::Ask(question) => event = answer(self, question)?,
                Next::Do(task) => return Ok(ControlFlow::Continue(task)),
                Next::End(stop) => return Ok(ControlFlow::Break(stop)),
            }
        }
    }
}

fn answer(run: &Run, question: Question) -> Result<Event> {
    use Question as Q;
    let step = run.at().step;
    Ok(match question {
        Q::Enter(step) => done(parallel::run_begins(step)?),
        Q::Facts => Event::Facts(Facts {
            has_others: parallel::world()? > 1,
            has_store: parallel::has_store()?,
            is_late: parallel::is_late()?,
        }),
        Q::Origin => {
            let begin = parallel::begin(step)?;
            Event::Origin(begin.origin, begin.step)
        }
        Q::WritesFiles => Event::Is(parallel::saves_checkpoints()?),
        Q::StopAll => Event::Is(parallel::ask_to_stop()?),
        Q::GoesOn(step) => Event::Is(parallel::goes_on(step)?),
        Q::Draw(step) => done(parallel::draw_for(step)?),
        Q::Follow(to) => Event::Step(parallel::next_step(to)?),
        Q::Tell(loss, samples) => {
            let (steps, samples) = (run.total().unwrap_or(step), samples as usize);
            done(parallel::tell(&Progress { step, steps, loss, samples, ..Progress::default() })?)
        }
        Q::Settle(has_done_all) => Event::Is(parallel::settle(has_done_all)?),
        Q::Complete => done(parallel::done()?),
    })
}
fn done((): ()) -> Event {
    Event::Done
}

//! Servers that die while another is still to get its copy from them.

use super::{Micros, Trouble, World};

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victims {
    /// Every server that has a complete copy of a partition, while another is to get its own.
    Whole,
    /// All servers that are to leave, while of two that come in their place each partition has a complete copy, but one
    /// of them in the wrong place.
    Leaving,
}

/// When the first server dies or others come, so that copies begin; and how often to look for a victim.
const BEGIN: std::ops::Range<Micros> = 3_000..30_000;
const LOOK: Micros = 20;

impl World {
    pub(super) fn plan_loss(&mut self) {
        let Some(victims) = self.plan.loss else { return };
        let at = self.network.random().within(BEGIN);
        match victims {
            Victims::Whole => self.trouble.push((at, Trouble::KillServer)),
            Victims::Leaving => self.trouble.extend([(at, Trouble::Add), (at, Trouble::Add)]),
        }
        self.trouble.push((at + 1, Trouble::KillSources(victims)));
    }

    /// Servers whose death leaves a partition to one that has no complete copy.
    fn sources(&self, victims: Victims) -> Option<Vec<u32>> {
        let is_whole = |p: usize, s: &u32| self.servers[s][p].is_whole(self.map.epoch);
        let mut lists = self.map.replicas.iter().enumerate();
        match victims {
            Victims::Whole => lists.find_map(|(p, list)| {
                let lives = list.iter().all(|s| !self.dead.contains(s));
                let lacks = list.iter().position(|s| !is_whole(p, s)).is_some_and(|at| at > 0);
                (lives && lacks).then(|| list.iter().copied().filter(|s| is_whole(p, s)).collect())
            }),
            Victims::Leaving => {
                let stay = |list: &Vec<u32>| list.iter().copied().filter(|s| !self.leaving.contains(s)).collect();
                let stay: Vec<Vec<u32>> = lists.map(|(_, list)| stay(list)).collect();
                let is_safe = stay.iter().enumerate().all(|(p, l)| l.iter().any(|s| is_whole(p, s)));
                let is_odd = stay.iter().enumerate().any(|(p, l)| l.first().is_some_and(|s| !is_whole(p, s)));
                (is_safe && is_odd).then(|| self.leaving.iter().copied().collect())
            }
        }
    }
    pub(super) fn kill_sources(&mut self, victims: Victims) {
        let now = self.network.now();
        if victims == Victims::Leaving && self.leaving.is_empty() {
            self.leaving.extend(0..self.plan.servers);
            self.aim();
        }
        let Some(all) = self.sources(victims) else {
            return self.trouble.push((now + LOOK, Trouble::KillSources(victims)));
        };
        for s in all {
            self.network.crash(s);
            self.dead.insert(s);
            let delay = self.network.random().within(500..5_000);
            self.trouble.push((now + delay, Trouble::NoticeDead(s)));
        }
    }

    /// Passes over primaries that have no complete copy, as the controller does.
    pub(super) fn pass_over_unsynced(&mut self) {
        let is_unsynced = |p: u32| {
            let primary = self.map.primary(p).filter(|s| !self.dead.contains(s));
            let partition = primary.and_then(|s| self.servers.get(&s)).map(|l| &l[p as usize]);
            partition.is_some_and(|p| p.epoch() == self.map.epoch && p.is_unsynced())
        };
        let Some(next) = self.map.without_unsynced(is_unsynced) else { return };
        assert!(self.plan.loss.is_some(), "a server has become primary without a copy");
        self.passed += next.replicas.iter().zip(&self.map.replicas).filter(|(new, old)| new != old).count() as u64;
        self.map = next;
        if !self.map.has_lost() {
            self.aim();
        }
    }
    /// Whether something is lost for good.
    pub fn has_lost(&self) -> bool {
        self.map.has_lost()
    }
}

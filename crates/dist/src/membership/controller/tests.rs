//! Jobs whose processes come, die and are replaced, as the controller sees them.

use super::*;
use crate::membership::kv::Request;
use std::time::Duration;

struct Job {
    kv: Kv,
    controller: Controller,
}
impl Job {
    fn does(&mut self, caller: u64, ask: Request<'_>) {
        self.kv.handle(Duration::ZERO, caller, 0, ask).unwrap();
        let changes = self.kv.changes();
        self.controller.react(&mut self.kv, &changes).unwrap();
        self.kv.changes();
    }
    fn dies(&mut self, caller: u64) {
        self.kv.lost(caller);
        let changes = self.kv.changes();
        self.controller.react(&mut self.kv, &changes).unwrap();
    }
    fn group(&self) -> Option<View> {
        self.kv.get(GROUP).1.map(|v| View::decode(&v).unwrap())
    }
    fn news(&self) -> String {
        String::from_utf8(self.kv.get(NEWS).1.unwrap()).unwrap()
    }
}

#[test]
fn a_group_forms_shrinks_and_is_formed_again() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(3, 0, 1) };
    for r in 0..3u32 {
        assert_eq!(job.group(), None);
        job.does(r.into(), Request::Lease(&worker_key(r), format!("at{r}").as_bytes()));
    }
    assert_eq!(job.group().unwrap().workers.len(), 3);
    job.dies(1);
    let two = job.group().unwrap();
    assert_eq!((two.epoch, two.workers), (2, vec![(0, "at0".into()), (2, "at2".into())]));
    job.does(0, Request::Set(BROKEN, b"1"));
    assert_eq!(job.group().unwrap().epoch, 2, "an old epoch's complaint is no news");
    job.does(0, Request::Set(BROKEN, b"2"));
    assert_eq!(job.group().unwrap().epoch, 3);
}

#[test]
fn a_replacement_waits_until_it_is_let_in() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(2, 0, 1) };
    let comes = |job: &mut Job, caller: u64, rank: u32| {
        job.does(caller, Request::Lease(&worker_key(rank), format!("at{caller}").as_bytes()));
    };
    comes(&mut job, 0, 0);
    comes(&mut job, 1, 1);
    job.dies(1);
    comes(&mut job, 2, 1);
    assert_eq!((job.group().unwrap().workers.len(), job.news().as_str()), (1, "2 1 0"));
    job.does(0, Request::Set(BROKEN, b"2"));
    assert_eq!((job.group().unwrap().workers.len(), job.news().as_str()), (1, "3 1 0"));
    job.does(0, Request::Set(ADMIT, b"3"));
    assert_eq!(job.group().unwrap().workers, [(0, "at0".to_string()), (1, "at2".to_string())]);
    assert_eq!(job.news(), "4 0 0");
}

#[test]
fn a_group_does_not_wait_for_workers_that_will_not_come() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(3, 0, 1) };
    job.does(0, Request::Lease(&worker_key(0), b"a"));
    job.does(1, Request::Lease(&worker_key(1), b"b"));
    assert_eq!(job.group(), None);
    job.controller.left(&mut job.kv, 2, false).unwrap();
    assert_eq!(job.group().unwrap().workers.len(), 2);
    // No member with state is left: those that come start from scratch.
    job.dies(0);
    job.dies(1);
    job.does(2, Request::Lease(&worker_key(0), b"c"));
    assert!(job.group().unwrap().workers.is_empty());
    job.does(3, Request::Lease(&worker_key(1), b"d"));
    assert_eq!(job.group().unwrap().workers.len(), 2);
}

#[test]
fn who_comes_when_the_others_are_done_does_not_begin_anew() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(3, 0, 1) };
    job.controller.left(&mut job.kv, 2, true).unwrap();
    job.does(0, Request::Lease(&worker_key(0), b"a"));
    job.does(1, Request::Lease(&worker_key(1), b"b"));
    assert_eq!(job.group().unwrap().workers.len(), 2, "one that is done at once has had no part in it");
    // A worker is killed when it has done everything but end, and the other ends.
    job.dies(1);
    job.dies(0);
    job.controller.left(&mut job.kv, 0, true).unwrap();
    job.does(2, Request::Lease(&worker_key(1), b"c"));
    assert!(job.group().unwrap().workers.is_empty());
}

#[test]
fn a_map_appears_when_all_servers_are_there_and_changes_when_one_dies() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(1, 2, 2) };
    job.does(10, Request::Lease(&server_key(0), b"a"));
    assert_eq!(job.kv.get(MAP).1, None);
    job.does(11, Request::Lease(&server_key(1), b"b"));
    let map = |job: &Job| Map::decode(&job.kv.get(MAP).1.unwrap()).unwrap();
    assert_eq!(map(&job).epoch, 1);
    job.dies(10);
    assert!(map(&job).replicas.iter().all(|l| *l == [1]) && !map(&job).has_lost());
    job.does(12, Request::Lease(&server_key(2), b"c"));
    assert!(map(&job).replicas.iter().all(|l| *l == [1, 2]), "the replacement becomes the backup");
    let whole = "epoch 3: every partition has its 2 copies".to_string();
    assert!(!job.controller.notes().contains(&whole));
    job.does(11, Request::Set(&copied_key(1), b"3 0 1 2 3"));
    assert!(job.controller.notes().contains(&whole));
    let even = map(&job);
    assert_eq!((even.epoch, even.replicas.iter().filter(|l| l[0] == 2).count()), (4, 2), "and has its share");
    let answers = job.controller.left(&mut job.kv, 0, true).unwrap();
    assert!(answers.is_empty() && map(&job).workers == [false]);
    job.dies(11);
    job.dies(12);
    assert!(map(&job).has_lost());
}

/// Both complete copies die while a third server gets its own: it says so, and the launcher sees the loss.
#[test]
fn a_partition_whose_primary_has_no_whole_copy_is_lost() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(1, 2, 2) };
    job.does(10, Request::Lease(&server_key(0), b"a"));
    job.does(11, Request::Lease(&server_key(1), b"b"));
    let map = |job: &Job| Map::decode(&job.kv.get(MAP).1.unwrap()).unwrap();
    job.dies(10);
    job.does(12, Request::Lease(&server_key(2), b"c"));
    job.dies(11);
    let alone = map(&job);
    assert!(alone.replicas.iter().all(|l| *l == [2]) && !alone.has_lost());
    // What was said in another epoch, or by another server, is no news.
    job.does(12, Request::Set(&unsynced_key(2), format!("{} 0 1", alone.epoch - 1).as_bytes()));
    job.does(12, Request::Set(&unsynced_key(3), format!("{} 0 1", alone.epoch).as_bytes()));
    assert_eq!(map(&job), alone);
    job.does(12, Request::Set(&unsynced_key(2), format!("{} 0 1", alone.epoch).as_bytes()));
    assert!(map(&job).has_lost() && map(&job).epoch == alone.epoch + 1);
    assert_eq!(map(&job).replicas.iter().filter(|l| l.is_empty()).count(), 2, "of the others it has a copy");
    assert!(job.controller.notes().iter().any(|n| n.contains("partitions [0, 1] are lost")));
}

/// Of two servers that were to get copies, the one that has got it answers, also if it is the second.
#[test]
fn a_primary_without_a_copy_is_passed_over_and_gets_one() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(1, 1, 3) };
    job.does(10, Request::Lease(&server_key(0), b"a"));
    job.does(11, Request::Lease(&server_key(1), b"b"));
    job.does(12, Request::Lease(&server_key(2), b"c"));
    let map = |job: &Job| Map::decode(&job.kv.get(MAP).1.unwrap()).unwrap();
    assert_eq!(map(&job).replicas, [vec![0, 1, 2]]);
    job.dies(10);
    assert_eq!(map(&job).replicas, [vec![1, 2]]);
    job.does(11, Request::Set(&unsynced_key(1), format!("{} 0", map(&job).epoch).as_bytes()));
    assert_eq!(map(&job).replicas, [vec![2]]);
    // Nothing is whole before the new primary says so.
    let (passed, since) = (map(&job), map(&job).since[0][0]);
    job.does(12, Request::Set(&copied_key(2), format!("{} 0", passed.epoch).as_bytes()));
    let next = map(&job);
    assert_eq!((next.replicas[0].clone(), next.since[0][0]), (vec![2, 1], since));
    assert_eq!(next.since_of(0, 1), Some(next.epoch), "its copy starts over");
}

#[test]
fn a_worker_that_was_given_up_before_the_servers_came_is_not_waited_for() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(2, 1, 1) };
    job.controller.left(&mut job.kv, 1, false).unwrap();
    job.does(10, Request::Lease(&server_key(0), b"a"));
    assert_eq!(Map::decode(&job.kv.get(MAP).1.unwrap()).unwrap().workers, [true, false]);
}

#[test]
fn another_keeper_takes_over_from_what_is_published() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(3, 2, 2) };
    let take_over = |job: &mut Job| {
        let (controller, changes) = Controller::new(3, 2, 2).resume(&job.kv).unwrap();
        job.controller = controller;
        job.controller.react(&mut job.kv, &changes).unwrap();
        job.kv.changes();
    };
    for r in 0..3u32 {
        job.does(r.into(), Request::Lease(&worker_key(r), format!("at{r}").as_bytes()));
    }
    job.does(10, Request::Lease(&server_key(0), b"a"));
    job.does(11, Request::Lease(&server_key(1), b"b"));
    let map = |job: &Job| Map::decode(&job.kv.get(MAP).1.unwrap()).unwrap();
    let (group, before) = (job.group(), map(&job));
    take_over(&mut job);
    assert_eq!((job.group(), map(&job)), (group, before), "nothing has happened meanwhile");
    // A worker and a server die, and another server comes, while no process hosts the store.
    job.kv.lost(1);
    job.kv.lost(10);
    job.kv.handle(Duration::ZERO, 12, 0, Request::Lease(&server_key(2), b"c")).unwrap();
    job.kv.handle(Duration::ZERO, 9, 0, Request::Set(&left_key(1), b"lost")).unwrap();
    job.kv.changes();
    take_over(&mut job);
    let group = job.group().unwrap();
    assert_eq!((group.epoch, group.workers.len()), (2, 2));
    assert!(map(&job).epoch > 1 && map(&job).replicas.iter().all(|l| l[0] == 1));
    assert_eq!(map(&job).workers, [true, false, true]);
}

#[test]
fn servers_come_and_leave_in_two_phases() {
    let mut job = Job { kv: Kv::default(), controller: Controller::new(1, 2, 1) };
    job.does(10, Request::Lease(&server_key(0), b"a"));
    job.does(11, Request::Lease(&server_key(1), b"b"));
    let map = |job: &Job| Map::decode(&job.kv.get(MAP).1.unwrap()).unwrap();
    let copied = |job: &mut Job| {
        let text = format!("{} 0 1 2 3", map(job).epoch);
        for s in 0..3 {
            let text = text.clone();
            job.does(10 + u64::from(s), Request::Set(&copied_key(s), text.as_bytes()));
        }
    };
    let before = map(&job);
    job.does(12, Request::Lease(&server_key(2), b"c"));
    assert_eq!(map(&job), before, "what is not whole stays where it is");
    copied(&mut job);
    let during = map(&job);
    for (old, new) in before.replicas.iter().zip(&during.replicas) {
        assert_eq!(old[0], new[0], "the old primary answers while the new one gets its copy");
    }
    assert!(during.names(2));
    // A report of an older epoch moves nothing.
    job.does(10, Request::Set(&copied_key(0), format!("{} 0 1 2 3", before.epoch).as_bytes()));
    assert_eq!(map(&job), during);
    copied(&mut job);
    assert!(map(&job).replicas.iter().all(|l| l.len() == 1) && map(&job).names(2));
    let leaver = map(&job).replicas[0][0];
    job.does(1, Request::Set(&leave_key(leaver), b"please"));
    assert!(map(&job).names(leaver), "not before the others have it");
    (0..3).for_each(|_| copied(&mut job));
    assert!(!map(&job).names(leaver));
}

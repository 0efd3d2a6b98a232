//! Makes segments ready ahead of their use, and deletes old ones, on a thread of its own.
//!
//! Two empty segments are kept ready under their own numbers: the next one, so that moving on costs nothing, and a
//! spare for removals and reclaiming only. So a full disk is noticed while there is still room to remove messages.
//!
//! Without a thread the call that needs a segment does the same work.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use posthaste_measure::lock;

use super::disk::Disk;
use super::error::LogError;
use super::segment::{FIRST_FRAME, Segment, file_name};
use super::tail::Tail;

/// Segments kept ready: the next and the spare.
const READY: usize = 2;

/// Properties of new segments.
#[derive(Clone, Copy)]
pub(super) struct SegmentSpec {
    pub(super) identity: u64,
    /// Size of a file in bytes.
    pub(super) capacity: u64,
    /// Number of unused files that are kept to be made into segments later.
    pub(super) kept: usize,
}

/// Makes segments ready until it is dropped.
pub(super) struct Preparer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    disk: Arc<dyn Disk>,
    spec: SegmentSpec,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Empty segments in ascending order.
    ready: VecDeque<Segment>,
    /// Number of the next segment to make ready.
    next: u32,
    /// Numbers of unused files.
    retired: Vec<u32>,
    /// Why the last try failed; there is no other until a segment is asked for, a file is retired, or the owner wants
    /// one.
    failure: Option<LogError>,
    /// Why the last segment that was tried could not be made ready; None: [`READY`] have been ready since.
    lack: Option<LogError>,
    stop: bool,
}

/// A wait for segments that are being made ready, which does not hold the log meanwhile.
pub struct Awaited {
    shared: Arc<Shared>,
    count: usize,
}

impl Awaited {
    /// Returns once the segments are ready, or cannot be made ready.
    pub fn wait(self) {
        let mut state = self.shared.lock();
        while state.ready.len() < self.count && state.failure.is_none() && !state.stop {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The next piece of work, with the file to use for it.
enum Chore {
    Create,
    Recycle(u32),
    Delete(u32),
}

impl Preparer {
    /// Starts with the empty segments and unused files that were found; `next` is the first number not in use.
    pub(super) fn start(
        disk: Arc<dyn Disk>,
        spec: SegmentSpec,
        ready: VecDeque<Segment>,
        retired: Vec<u32>,
        next: u32,
        threaded: bool,
    ) -> Self {
        let state = State { ready, next, retired, failure: None, lack: None, stop: false };
        let shared = Arc::new(Shared { disk, spec, state: Mutex::new(state), changed: Condvar::new() });
        let worker = Arc::clone(&shared);
        let thread = threaded.then(|| {
            std::thread::Builder::new().name("log-prepare".to_owned()).spawn(move || worker.run()).ok()
        });
        let preparer = Self { shared, thread: thread.flatten() };
        preparer.nudge();
        preparer
    }

    /// Returns once `count` segments are ready, at most two.
    pub(super) fn wait_for(&self, count: usize) -> Result<(), LogError> {
        self.ready(count).map(drop)
    }

    /// Returns a wait for `count` segments, if the thread is about to make them ready.
    pub(super) fn awaited(&self, count: usize) -> Option<Awaited> {
        self.is_behind(count).then(|| Awaited { shared: Arc::clone(&self.shared), count })
    }

    /// Returns whether the thread is still about to make the last of `count` segments ready.
    pub(super) fn is_behind(&self, count: usize) -> bool {
        let state = self.shared.lock();
        self.thread.is_some() && state.failure.is_none() && state.ready.len() < count
    }

    /// Takes the next segment, grown to at least `size` bytes; `left` others stay ready behind it.
    pub(super) fn take(&self, size: u64, left: usize) -> Result<Segment, LogError> {
        let mut state = self.ready(1 + left)?;
        let next = state.ready.front_mut().filter(|next| next.capacity < size);
        next.map_or(Ok(()), |next| next.grow(size))?;
        let taken = state.ready.pop_front();
        drop(state);
        self.nudge();
        taken.ok_or_else(|| LogError::Full { path: self.shared.disk.path("") })
    }

    /// Takes over the files of these segments, which are not needed any more.
    pub(super) fn retire(&self, numbers: impl Iterator<Item = u32>) {
        let mut numbers = numbers.peekable();
        if numbers.peek().is_none() {
            return; // as after most commits, which should not wake up the thread
        }
        let mut state = self.shared.lock();
        state.retired.extend(numbers);
        state.failure = None;
        drop(state);
        self.nudge();
    }

    /// Size of a new file.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.shared.spec.capacity
    }

    /// Tries once more to make a segment ready, if the last try failed.
    pub(super) fn retry(&self) {
        let failure = self.shared.lock().failure.take();
        if failure.is_some() {
            self.nudge();
        }
    }

    /// Returns why fewer segments are ready than there should be; None: there are enough, or another is on its way.
    pub(super) fn lack(&self) -> Option<LogError> {
        self.shared.lock().lack.clone()
    }

    /// Returns how many bytes of records fit into the next segment, 0 without one; None if another may be made ready.
    pub(super) fn last_space(&self) -> Option<u64> {
        let state = self.shared.lock();
        let used = FIRST_FRAME as u64 + Tail::overhead();
        let is_short = matches!(state.lack, Some(LogError::Full { .. }));
        is_short.then(|| state.ready.front().map_or(0, |next| next.capacity.saturating_sub(used)))
    }

    /// Bytes of files that hold no records: those ready and those kept.
    pub(super) fn idle_bytes(&self) -> u64 {
        let state = self.shared.lock();
        let ready: u64 = state.ready.iter().map(|segment| segment.capacity).sum();
        ready + state.retired.len() as u64 * self.shared.spec.capacity
    }

    /// Returns whether at least `count` segments are ready.
    pub(super) fn has(&self, count: usize) -> bool {
        self.shared.lock().ready.len() >= count
    }

    fn ready(&self, count: usize) -> Result<MutexGuard<'_, State>, LogError> {
        let mut state = self.shared.lock();
        if state.ready.len() >= count {
            return Ok(state);
        }
        state.failure = None;
        self.shared.changed.notify_all();
        while state.ready.len() < count {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = if self.thread.is_some() {
                self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.shared.work(state)
            };
        }
        Ok(state)
    }

    fn nudge(&self) {
        if self.thread.is_some() {
            self.shared.changed.notify_all();
            return;
        }
        let mut state = self.shared.lock();
        while state.has_chore(&self.shared.spec) {
            state = self.shared.work(state);
        }
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there was already printed, and nothing here could handle it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn run(&self) {
        let mut state = self.lock();
        while !state.stop {
            state = if state.has_chore(&self.spec) {
                self.work(state)
            } else {
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
        }
    }

    /// Does one chore without holding the lock meanwhile. Only one thread ever works.
    fn work<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Some(chore) = state.next_chore(&self.spec) else {
            return state;
        };
        let number = state.next;
        drop(state);
        let done = self.perform(chore, number);
        state = self.lock();
        match done {
            Ok(Some(segment)) => {
                state.next = segment.number + 1;
                state.ready.push_back(segment);
            }
            Ok(None) => {}
            Err(failure) => {
                state.lack = Some(failure.clone());
                state.failure = Some(failure);
            }
        }
        if state.ready.len() >= READY {
            state.lack = None;
        }
        self.changed.notify_all();
        state
    }

    fn perform(&self, chore: Chore, number: u32) -> Result<Option<Segment>, LogError> {
        let SegmentSpec { identity, capacity, .. } = self.spec;
        match chore {
            Chore::Create => Segment::create(&*self.disk, identity, number, capacity).map(Some),
            Chore::Recycle(from) => {
                let reused = Segment::recycle(&*self.disk, identity, from, number, capacity).or_else(|_| {
                    // A file that cannot be reused would never be tried again, whichever of its names it has by now;
                    // and its space may be what the new file needs.
                    for name in [from, number].map(file_name) {
                        let _ = self.disk.remove(&name);
                    }
                    Segment::create(&*self.disk, identity, number, capacity)
                });
                reused.map(Some)
            }
            Chore::Delete(number) => {
                let name = file_name(number);
                if let Err(error) = self.disk.remove(&name).and_then(|()| self.disk.sync()) {
                    // Segments can be made ready all the same, and the next start finds the file.
                    tracing::warn!("{}", LogError::io("delete", &self.disk.path(&name), &error));
                }
                Ok(None)
            }
        }
    }
}

impl State {
    fn has_chore(&self, spec: &SegmentSpec) -> bool {
        self.failure.is_none() && (self.ready.len() < READY || self.retired.len() > spec.kept)
    }

    fn next_chore(&mut self, spec: &SegmentSpec) -> Option<Chore> {
        if !self.has_chore(spec) {
            return None;
        }
        if self.ready.len() < READY {
            return Some(self.retired.pop().map_or(Chore::Create, Chore::Recycle));
        }
        self.retired.pop().map(Chore::Delete)
    }
}

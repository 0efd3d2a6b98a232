//! Messages chosen for an answer, and their records, read from the log before anything changes.
//!
//! A message whose body cannot be read must not be lost: so its record is read before anything changes, and a request
//! decides and writes only with what was read. The buffers are kept from one request to the next.

use posthaste_wire::fault::{Fault, Word};

use super::effect::{DeathNote, Written};
use super::log::{Location, Log};
use super::merge::Pick;
use super::message::{Death, Message};
use super::store_fault;
use crate::queue::bounds::ANSWER_BYTES;

/// The messages of one answer.
#[derive(Default)]
pub(super) struct Found {
    picks: Vec<Pick>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Found {
    /// Chooses the first `count` messages, or as many of them as one answer may hold, but at least one.
    pub(super) fn choose(&mut self, candidates: impl Iterator<Item = Pick>, count: u32) {
        self.picks.clear();
        let (mut bytes, mut first) = (0, true);
        let fits = |pick: &Pick| {
            // Body, headers, and what else its record says.
            bytes += pick.entry.home.len as usize;
            std::mem::take(&mut first) || bytes <= ANSWER_BYTES
        };
        self.picks.extend(candidates.take(count as usize).take_while(fits));
    }

    /// Chooses the first `count` messages, even if one answer may not hold them all.
    pub(super) fn choose_from(&mut self, candidates: impl Iterator<Item = Pick>, count: u32) {
        self.picks.clear();
        self.picks.extend(candidates.take(count as usize));
    }

    /// Returns whether the records of the first `count` chosen messages are in memory.
    pub(super) fn is_in_memory(&self, log: &Log, count: usize) -> bool {
        self.picks.iter().take(count).all(|pick| log.holds(pick.entry.home.at, pick.entry.home.len))
    }

    /// Reads the records of the chosen messages. Where one cannot be read, the answer ends before it.
    ///
    /// # Errors
    /// `STORE`: not even the first can be read.
    pub(super) fn load(&mut self, log: &mut Log) -> Result<(), Fault> {
        self.begin();
        let unread = (0..self.picks.len())
            .find_map(|index| Some((index, self.load_one(log, self.picks[index]).err()?)));
        match unread {
            None => Ok(()),
            Some((0, fault)) => Err(fault),
            Some((index, _)) => {
                self.picks.truncate(index);
                Ok(())
            }
        }
    }

    /// Reads the records of the first `count` chosen messages that can be read, or as many as an answer may hold, and
    /// leaves out the others.
    ///
    /// # Errors
    /// `STORE`: none can be read.
    pub(super) fn load_readable(&mut self, log: &mut Log, count: usize) -> Result<(), Fault> {
        self.begin();
        let (mut kept, mut first_fault) = (0, None);
        for index in 0..self.picks.len() {
            let pick = self.picks[index];
            let is_too_much = kept > 0 && self.bytes.len() + pick.entry.home.len as usize > ANSWER_BYTES;
            if kept == count || is_too_much {
                break;
            }
            match self.load_one(log, pick) {
                Ok(()) => {
                    self.picks[kept] = pick;
                    kept += 1;
                }
                Err(fault) => drop(first_fault.get_or_insert(fault)),
            }
        }
        self.picks.truncate(kept);
        first_fault.filter(|_| kept == 0).map_or(Ok(()), Err)
    }

    /// Forgets what was read, and gives back the memory of a very large message.
    fn begin(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(ANSWER_BYTES);
        self.ends.clear();
    }

    /// Leaves out all chosen messages but the first `count`.
    pub(super) fn keep_first(&mut self, count: usize) {
        self.picks.truncate(count);
        self.ends.truncate(count);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    pub(super) fn picks(&self) -> &[Pick] {
        &self.picks
    }

    pub(super) fn len(&self) -> usize {
        self.picks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.picks.is_empty()
    }

    /// Bytes of all records read.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns what the record of the message at `index` says.
    pub(super) fn written(&self, index: usize) -> Written<'_> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Written::read(&self.bytes[start..self.ends[index]]).expect("checked when it was loaded")
    }

    fn load_one(&mut self, log: &mut Log, pick: Pick) -> Result<(), Fault> {
        let Pick { place, entry } = pick;
        let home = entry.home;
        let record = log.read(home.at, home.len).map_err(|error| store_fault(&error))?;
        match Written::read(record) {
            Some(written) if written.place.id() == place.id() => {}
            _ => return Err(foreign(home.at)),
        }
        self.bytes.extend_from_slice(record);
        self.ends.push(self.bytes.len());
        Ok(())
    }
}

impl<'a> Written<'a> {
    /// Returns the message as it is now: what its record says, with what later records changed.
    pub(super) fn as_now(self, message: &'a Message) -> Self {
        Self {
            place: message.place,
            deliveries: message.deliveries,
            expires: message.expires,
            state: message.state,
            death: message.death.as_deref().map(Death::note),
            ..self
        }
    }
}

impl From<DeathNote<'_>> for Death {
    fn from(note: DeathNote<'_>) -> Self {
        Self { first_queue: note.first_queue.into(), reason: note.reason }
    }
}

impl Death {
    /// Returns what a record says of it.
    pub(super) fn note(&self) -> DeathNote<'_> {
        DeathNote { reason: self.reason, first_queue: &self.first_queue }
    }
}

fn foreign(at: Location) -> Fault {
    let Location { segment, offset } = at;
    let text = format!(
        "the record at offset {offset} of log segment {segment} is not the message it should be; check the disk and \
         restore the directory from a copy"
    );
    Fault::about(Word::Store, text)
}

//! Clients at work for a round, and the account of it: afterwards every message is somewhere, once, as it was sent.
//!
//! A round has queues of its own, so that what a fault delays beyond its end is not taken for the next one's. It ends
//! with the queues drained by every account, and with all journals before the checker. Some faults fit into a round:
//! messages must wait through several of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use fastrand::Rng;
use posthaste_history::Journal;

use crate::campaign::Campaign;
use crate::client::Answer;
use crate::kept::Evidence;
use crate::member::{Member, Queues};
use crate::notes::Notes;
use crate::place::Place;
use crate::stalls;
use crate::support::patience::{RECOVERY, wait_within};
use crate::verdict::Tally;
use crate::witness::now;

/// Clients of a round, each an account of its own.
pub(crate) const MEMBERS: u32 = 6;

/// Work between two faults.
const PEACE_MS: std::ops::Range<u64> = 40..200;

/// Answers that clients get between two faults, whatever time that takes.
const SERVED: u64 = 2 * MEMBERS as u64;

/// Long enough for PostgreSQL to roll back what a killed middleware had begun.
const LIMBO: Duration = Duration::from_secs(1);

/// Much longer than a server that runs takes to notice that a lease is over.
const TIMERS_LATE: Duration = Duration::from_secs(1);

/// Longer than anything is held up in a campaign.
const LATE: Duration = Duration::from_secs(3);

/// Does the faults of a campaign, at most `most` in a round, and counts what they leave.
///
/// A fault is over, and the service back, when `fault` returns.
pub(crate) fn rounds(campaign: &mut Campaign, most: u64, setting: &Setting, mut fault: impl FnMut(&mut Rng)) {
    let mut dice = Rng::with_seed(1);
    while let faults @ 1.. = campaign.more_until_judged(most) {
        let mut crew = Crew::start(setting);
        wait_for_answers(setting);
        let mut away = Duration::ZERO;
        for _ in 0..faults {
            sleep(Duration::from_millis(dice.u64(PEACE_MS)));
            let begun = now();
            fault(&mut dice);
            wait_for_answers(setting);
            let healed = now();
            away = away.max(Duration::from_nanos(healed - begun));
            crew.faults.push((begun, healed));
        }
        crew.was_without_service(away);
        campaign.count(faults, &crew.finish());
    }
    campaign.has_judged();
}

fn wait_for_answers(setting: &Setting) {
    let before = setting.answers.load(Ordering::Relaxed);
    wait_within(RECOVERY, "clients get answers", || {
        let answers = setting.answers.load(Ordering::Relaxed) - before;
        if answers >= SERVED { Ok(()) } else { Err(answers) }
    });
}

/// Where clients work, and how.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) place: Place,
    /// How long they wait for an answer until they give it up; `None`: a late one means that the server hangs.
    pub(crate) patience: Option<Duration>,
    /// Whether they lease.
    pub(crate) leases: bool,
    /// For how long, after a pop of an unknown end, the store may hide from others what it took.
    pub(crate) limbo: Duration,
    /// How late a lease may end.
    pub(crate) timers_late: Duration,
    /// How many answers clients have got.
    pub(crate) answers: Arc<AtomicU64>,
}

impl Setting {
    /// Patient clients that do everything, of servers at these addresses.
    pub(crate) fn at(servers: Vec<SocketAddr>) -> Self {
        Self {
            place: Place::of(servers),
            patience: None,
            leases: true,
            limbo: LIMBO,
            timers_late: TIMERS_LATE,
            answers: Arc::default(),
        }
    }

    /// The same for clients that give an answer up after this time. What they gave up may still happen.
    pub(crate) fn hurried(&self, patience: Duration) -> Self {
        Self { patience: Some(patience), limbo: LATE, ..self.clone() }
    }
}

/// A number that no other client of this program has.
pub(crate) fn next_client() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Queues that no other round of this program has.
pub(crate) fn next_queues() -> Queues {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    Queues::of_round(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Clients at work.
pub(crate) struct Crew {
    setting: Setting,
    queues: Queues,
    over: Arc<AtomicBool>,
    members: Vec<JoinHandle<Journal>>,
    /// From when to when faults were done and healed.
    faults: Vec<(u64, u64)>,
}

impl Crew {
    pub(crate) fn start(setting: &Setting) -> Self {
        let (queues, over) = (next_queues(), Arc::new(AtomicBool::new(false)));
        create(setting, &queues);
        let members = (0..MEMBERS).map(|member| {
            let (member, over) = (member_of(setting, &queues, member), Arc::clone(&over));
            thread::spawn(move || journal_of(member.work(&over)))
        });
        let members = members.collect();
        Self { setting: setting.clone(), queues, over, members, faults: Vec::new() }
    }

    /// Clients were without service for at most so long, and nobody let time pass: leases that were over meanwhile end
    /// then.
    fn was_without_service(&mut self, away: Duration) {
        self.setting.timers_late += away;
    }

    /// Lets them finish what they have begun, drains the queues, and has everything judged.
    pub(crate) fn finish(self) -> Tally {
        self.over.store(true, Ordering::SeqCst);
        let journals = self.members.into_iter().map(|member| member.join().expect("a client is done"));
        settle(&self.setting, &self.queues, journals, self.faults)
    }
}

/// One client, its journal in memory.
pub(crate) fn member_of(setting: &Setting, queues: &Queues, account: u32) -> Member {
    let (number, name) = (next_client(), format!("account{account}"));
    let notes = Notes::InMemory(Journal::new(number, &name));
    Member::new(setting, number, account, queues.clone(), notes)
}

/// Makes the queues of a round.
pub(crate) fn create(setting: &Setting, queues: &Queues) {
    stalls::watch();
    let mut setup = member_of(setting, queues, 0);
    for queue in [&queues.exact, &queues.plain] {
        setup.insist(&["QCREATE", queue]);
    }
}

/// Takes what is left, and has everything judged.
pub(crate) fn settle(
    setting: &Setting,
    queues: &Queues,
    journals: impl Iterator<Item = Journal>,
    faults: Vec<(u64, u64)>,
) -> Tally {
    let mut evidence = Evidence { faults, journals: journals.collect(), ..Evidence::default() };
    // What is given up here may still take something when it is too late to find out.
    let setting = &Setting { patience: None, ..setting.clone() };
    wait_for_leases(setting, queues);
    for account in 0..MEMBERS {
        let mut member = member_of(setting, queues, account);
        for queue in [&queues.exact, &queues.plain] {
            member.drain(queue);
            if account == MEMBERS - 1 {
                member.insist(&["QINFO", queue]);
            }
        }
        evidence.drains.push(journal_of(member.notes));
    }
    let mut last = member_of(setting, queues, 0);
    for queue in [&queues.exact, &queues.plain] {
        last.insist(&["QDELETE", queue]);
    }
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).expect("a short time");
    evidence.timers_late = nanoseconds(setting.timers_late);
    evidence.limbo = nanoseconds(setting.limbo);
    evidence.allow_for(&stalls::since(evidence.begun()));
    evidence.judge(&queues.exact)
}

/// Clients that were cut off, or forgot, have leased what comes back when its time is over.
fn wait_for_leases(setting: &Setting, queues: &Queues) {
    let mut looker = member_of(setting, queues, 0);
    wait_within(RECOVERY, "leases end", || {
        let info = looker.insist(&["QINFO", &queues.plain]);
        if info.get("leased") == Some(&Answer::Integer(0)) { Ok(()) } else { Err(format!("{info:?}")) }
    });
}

/// The journal of a client that kept it in memory.
pub(crate) fn journal_of(notes: Notes) -> Journal {
    match notes {
        Notes::InMemory(journal) => journal,
        Notes::OnDisk(_) => unreachable!("members of this process keep theirs in memory"),
    }
}

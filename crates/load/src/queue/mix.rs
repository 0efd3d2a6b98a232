//! Requests drawn by shares, one independent stream per client: the same seed draws the same requests
//! however the answers are timed.
//!
//! Two kinds depend on what the client holds. A `delete` takes the oldest queue the client made; with none
//! it becomes a `create`, and with too many a `create` becomes a `delete`, so that a mix neither fails nor
//! fills the server whatever its shares. A queue whose deletion failed is deleted again later, until the server says
//! that it is gone.

use std::collections::VecDeque;
use std::sync::Arc;

use fastrand::Rng;

use crate::dialogue::Outcome;
use crate::queue::balance::Balance;
use crate::queue::program::{Ask, Expect};
use crate::queue::request::{Account, Queue, Read, Request};
use crate::queue::workload::MixKind;
use crate::seeds::{self, Purpose};

/// Largest number of queues that a client may hold.
const OWN_MAX: usize = 1000;

/// What all clients of a mix have in common.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Kinds with their shares, which add up to 1.
    pub shares: Vec<(MixKind, f64)>,
    /// Number of shared queues, which are `1` to this.
    pub queues: Queue,
    /// Accounts of the clients: the first and the last.
    pub accounts: (Account, Account),
    /// Share of sends to anyone; the others go to a random client.
    pub broadcast_share: f64,
    /// Share of `read` and `read_broadcast` that remove what they read.
    pub remove_share: f64,
    /// Whether the number of messages stays what it was.
    pub constant_size: bool,
}

/// One client's stream.
#[derive(Clone, Debug)]
pub struct Mix {
    recipe: Arc<Recipe>,
    rng: Rng,
    /// Queue from which the second half of a pair pops.
    second: Option<Queue>,
    own: VecDeque<Queue>,
    creating: usize,
    deleting: Vec<Queue>,
    client: Account,
    balance: Balance,
}

impl Mix {
    /// Creates the stream of one client under a seed.
    #[must_use]
    pub fn new(recipe: Arc<Recipe>, seed: u64, client: Account) -> Self {
        Self {
            recipe,
            rng: seeds::stream(seed, Purpose::Mix, client.into()),
            second: None,
            own: VecDeque::new(),
            creating: 0,
            deleting: Vec::new(),
            client,
            balance: Balance::default(),
        }
    }

    /// Returns the next request.
    pub fn next_ask(&mut self) -> Ask {
        let request = match self.second.take() {
            Some(queue) => self.half(false, queue),
            None => self.draw(),
        };
        Ask { request, step: 0, expect: Expect::Any }
    }

    fn draw(&mut self) -> Request {
        match self.kind() {
            MixKind::Send => {
                let anyone = self.rng.f64() < self.recipe.broadcast_share;
                let to = (!anyone).then(|| self.recipient());
                let queue = self.queue();
                self.balanced(Request::Send { queue, to })
            }
            MixKind::Peek => self.read(false, false),
            MixKind::Pop => self.read(true, false),
            MixKind::Read => {
                let remove = self.rng.f64() < self.recipe.remove_share;
                self.read(remove, false)
            }
            MixKind::ReadBroadcast => {
                let remove = self.rng.f64() < self.recipe.remove_share;
                self.read(remove, true)
            }
            MixKind::Pair => {
                let queue = self.queue();
                self.second = Some(queue);
                self.half(true, queue)
            }
            MixKind::Readable => Request::Readable,
            MixKind::Create if self.own.len() + self.creating < OWN_MAX => self.create(),
            MixKind::Create | MixKind::Delete => self.delete(),
            MixKind::Echo => Request::Echo,
        }
    }

    /// Returns one half of a pair.
    fn half(&mut self, puts: bool, queue: Queue) -> Request {
        if self.recipe.constant_size {
            self.balance.paired(puts, queue);
        }
        if puts {
            Request::Send { queue, to: None }
        } else {
            Request::Read(Read { remove: true, queue: Some(queue), ..Read::default() })
        }
    }

    fn kind(&mut self) -> MixKind {
        let mut point = self.rng.f64();
        let shares = &self.recipe.shares;
        for (kind, share) in shares {
            if point < *share {
                return *kind;
            }
            point -= share;
        }
        // Rounding may leave a sliver above the last share.
        shares.last().map_or(MixKind::Echo, |(kind, _)| *kind)
    }

    fn queue(&mut self) -> Queue {
        self.rng.u64(1..=self.recipe.queues)
    }

    fn read(&mut self, remove: bool, broadcast: bool) -> Request {
        let read = Request::Read(Read { remove, queue: Some(self.queue()), from: None, broadcast });
        if remove { self.balanced(read) } else { read }
    }

    /// Draws a recipient; for a constant number of messages the client itself, which is sure to take them.
    fn recipient(&mut self) -> Account {
        if self.recipe.constant_size {
            self.client
        } else {
            self.rng.u32(self.recipe.accounts.0..=self.recipe.accounts.1)
        }
    }

    /// Returns the request that is made for a drawn one: with a constant number of messages the send or removing read
    /// that the client owes, if it owes one.
    fn balanced(&mut self, drawn: Request) -> Request {
        let (puts, queue) = match drawn {
            Request::Send { queue, .. } => (true, queue),
            Request::Read(Read { remove: true, queue: Some(queue), .. }) => (false, queue),
            _ => return drawn,
        };
        if !self.recipe.constant_size {
            return drawn;
        }
        let next = self.balance.next(puts, queue);
        match (drawn, next.puts) {
            (Request::Send { to, .. }, true) => Request::Send { queue: next.queue, to },
            (Request::Read(read), false) => Request::Read(Read { queue: Some(next.queue), ..read }),
            (_, true) => Request::Send { queue: next.queue, to: None },
            (_, false) => Request::Read(Read { remove: true, queue: Some(next.queue), ..Read::default() }),
        }
    }

    fn create(&mut self) -> Request {
        self.creating += 1;
        Request::Create
    }

    fn delete(&mut self) -> Request {
        match self.own.pop_front() {
            Some(queue) => {
                self.deleting.push(queue);
                Request::Delete { queue }
            }
            None => self.create(),
        }
    }

    /// Takes the answer to a request; `number` is that of an integer answer, `error` the first word of an error.
    pub fn answered(&mut self, ask: &Ask, outcome: Outcome, number: Option<i64>, error: Option<&[u8]>) {
        match ask.request {
            Request::Send { .. } | Request::Read(Read { remove: true, .. }) => self.balance.answered(outcome),
            Request::Create => {
                self.creating = self.creating.saturating_sub(1);
                if outcome == Outcome::Ok {
                    self.own.extend(number.and_then(|n| Queue::try_from(n).ok()));
                }
            }
            Request::Delete { queue } => {
                self.deleting.retain(|q| *q != queue);
                // An earlier try may have deleted it, without an answer that said so.
                if outcome == Outcome::Error && error != Some(b"NOQUEUE") {
                    self.own.push_back(queue);
                }
            }
            _ => {}
        }
    }

    /// Returns whether no pair is half sent.
    #[must_use]
    pub const fn is_at_rest(&self) -> bool {
        self.second.is_none()
    }

    /// Returns the queues that the client made and has not deleted.
    #[must_use]
    pub fn leftovers(&self) -> Vec<Queue> {
        self.own.iter().chain(&self.deleting).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::workload::Workload;
    use crate::seeds::tests::{DRAWS, assert_apart};

    fn recipe(text: &str) -> Arc<Recipe> {
        let Ok(Workload::Mix(shares)) = text.parse() else { panic!("{text} is not a mix") };
        Arc::new(Recipe {
            shares,
            queues: 4,
            accounts: (1, 8),
            broadcast_share: 0.1,
            remove_share: 0.9,
            constant_size: false,
        })
    }

    fn stream(text: &str, seed: u64, client: Account, len: usize) -> Vec<Request> {
        let mut mix = Mix::new(recipe(text), seed, client);
        (0..len).map(|_| mix.next_ask().request).collect()
    }

    const EVEN: &str = "mix:send=0.25,peek=0.25,pop=0.25,readable=0.25";

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        assert_eq!(stream(EVEN, 7, 3, 500), stream(EVEN, 7, 3, 500));
        assert_ne!(stream(EVEN, 7, 3, 500), stream(EVEN, 8, 3, 500));
        assert_ne!(stream(EVEN, 7, 3, 500), stream(EVEN, 7, 4, 500));
    }

    #[test]
    fn neighboring_clients_and_seeds_draw_nothing_in_common() {
        let recipe = Arc::new(Recipe { queues: 1_000_000, ..(*recipe("mix:peek=1")).clone() });
        assert_apart(|seed, client| {
            let mut mix = Mix::new(Arc::clone(&recipe), seed, client);
            let mut queue = || match mix.next_ask().request {
                Request::Read(Read { queue: Some(queue), .. }) => queue as f64,
                other => panic!("{other:?} is no peek"),
            };
            (0..DRAWS).map(|_| queue()).collect()
        });
    }

    fn share(requests: &[Request], of: impl Fn(&Request) -> bool) -> f64 {
        requests.iter().filter(|r| of(r)).count() as f64 / requests.len() as f64
    }

    #[test]
    fn shares_are_kept_within_a_percent_or_two() {
        let drawn = stream("mix:send=0.2,read=0.6,read_broadcast=0.2", 1, 1, 50_000);
        let near = |got: f64, want: f64| (got - want).abs() < 0.01;
        assert!(near(share(&drawn, |r| matches!(r, Request::Send { .. })), 0.2));
        assert!(near(share(&drawn, |r| matches!(r, Request::Send { to: None, .. })), 0.02));
        assert!(near(share(&drawn, |r| matches!(r, Request::Read(Read { remove: true, .. }))), 0.72));
        assert!(near(share(&drawn, |r| matches!(r, Request::Read(Read { broadcast: true, .. }))), 0.2));
        assert!(near(share(&drawn, |r| matches!(r, Request::Send { queue: 4, .. })), 0.05));
    }

    #[test]
    fn a_pair_sends_and_then_pops_the_same_queue() {
        let mut mix = Mix::new(recipe("pairs"), 1, 1);
        for _ in 0..100 {
            assert!(mix.is_at_rest());
            let Request::Send { queue, to: None } = mix.next_ask().request else {
                panic!("a send comes first")
            };
            assert!(!mix.is_at_rest());
            let pop = Read { remove: true, queue: Some(queue), ..Read::default() };
            assert_eq!(mix.next_ask().request, Request::Read(pop));
        }
    }

    #[test]
    fn a_constant_size_is_kept_with_pairs_among_requests_under_way() {
        const PIPELINE: usize = 8;
        let balanced = Recipe { constant_size: true, ..(*recipe("mix:send=0.3,pop=0.3,pair=0.4")).clone() };
        let mut mix = Mix::new(Arc::new(balanced), 1, 1);
        let (mut rng, mut queues) = (Rng::with_seed(2), [2_i64; 5]);
        let mut under_way = VecDeque::new();
        for _ in 0..100_000 {
            let ask = mix.next_ask();
            let outcome = match ask.request {
                // What is refused must be made up for.
                _ if rng.u8(..20) == 0 => Outcome::Error,
                Request::Send { queue, .. } => {
                    queues[queue as usize] += 1;
                    Outcome::Ok
                }
                Request::Read(Read { queue: Some(queue), .. }) if queues[queue as usize] > 0 => {
                    queues[queue as usize] -= 1;
                    Outcome::Ok
                }
                _ => Outcome::Null,
            };
            under_way.push_back((ask, outcome));
            if under_way.len() == PIPELINE {
                let (ask, outcome) = under_way.pop_front().expect("some are under way");
                mix.answered(&ask, outcome, None, None);
            }
            let all: i64 = queues.iter().sum();
            assert!((all - 10).abs() <= 2 * PIPELINE as i64, "{queues:?}");
        }
    }

    #[test]
    fn a_delete_takes_the_oldest_own_queue_and_creates_one_when_there_is_none() {
        let mut mix = Mix::new(recipe("mix:delete=1"), 1, 1);
        let ask = mix.next_ask();
        assert_eq!(ask.request, Request::Create);
        mix.answered(&ask, Outcome::Ok, Some(70), None);
        assert_eq!(mix.leftovers(), [70]);
        let ask = mix.next_ask();
        assert_eq!(ask.request, Request::Delete { queue: 70 });
        assert_eq!(mix.leftovers(), [70], "until the answer it may still be there");
        mix.answered(&ask, Outcome::Ok, Some(0), None);
        assert!(mix.leftovers().is_empty());
    }

    #[test]
    fn a_queue_whose_deletion_failed_is_tried_again_until_it_is_gone() {
        let mut mix = Mix::new(recipe("mix:delete=1"), 1, 1);
        let ask = mix.next_ask();
        mix.answered(&ask, Outcome::Ok, Some(70), None);
        // After STORE it may be gone or not.
        for (error, left) in [(&b"BUSY"[..], &[70][..]), (b"STORE", &[70]), (b"NOQUEUE", &[])] {
            let ask = mix.next_ask();
            assert_eq!(ask.request, Request::Delete { queue: 70 });
            mix.answered(&ask, Outcome::Error, None, Some(error));
            assert_eq!(mix.leftovers(), left);
        }
        assert_eq!(mix.next_ask().request, Request::Create);
    }
}

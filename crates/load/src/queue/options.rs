//! The options of `posthaste bench queue`.

use clap::{Args, ValueEnum, value_parser};
use serde::Serialize;

use crate::address::Address;
use crate::error::LoadError;
use crate::numbers::Numbers;
use crate::queue::secret::SecretFile;
use crate::queue::stamp::Stamp;
use crate::queue::workload::{Workload, share_of_one};
use crate::run_options::RunOptions;

/// Put load on a queue tier and measure it.
///
/// A closed loop: each client sends its next request when the answer to one before it has come (and the think time is
/// over). With --rate an open loop: requests are due by the clock. Clients log in as accounts 1, 2, …; they use queues
/// 1, 2, …, which are created when they do not exist. Queues, accounts and what was not popped stay on the server.
#[derive(Args, Clone, Debug, Serialize)]
#[command(after_help = "Examples:
  posthaste bench queue --clients 64 --duration 10s
  posthaste bench queue --workload pairs --clients 16 --pipeline 16 --check
  posthaste bench queue --workload mix:send=0.3,read=0.7 --dataset full --json run.json
  posthaste bench queue --connect 127.0.0.1:7411 --connect 127.0.0.1:7421 --clients 128
  posthaste bench queue --rate 20000 --arrivals poisson --clients 64 --duration 30s
  posthaste bench queue --find-max-rate 'p99<5ms' --clients 64 --duration 10s")]
pub struct QueueBench {
    /// Server, host:port or unix:PATH; repeat it to spread the clients evenly over several
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7411", value_delimiter = ',')]
    pub connect: Vec<Address>,

    /// Those of every run
    #[command(flatten)]
    #[serde(flatten)]
    pub run: RunOptions,

    /// The account of the first client; the others follow. Several processes that load one server must not share accounts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    pub first_client: u32,

    /// Log in with the secret in the first line of this file, where the server keeps accounts
    ///
    /// The clients are the accounts 1, 2, … there, which must all have this secret; --dataset full needs 30 of them.
    #[arg(long, value_name = "FILE", visible_alias = "password-file")]
    pub secret_file: Option<SecretFile>,

    /// Verify every answer and that each message is delivered exactly once; afterwards pop what is left
    ///
    /// Nothing else may use the queues during the run.
    #[arg(long)]
    pub check: bool,

    /// twelve-step, pairs (SEND then POP), or mix:KIND=SHARE,…
    ///
    /// The steps of twelve-step wait for each other's answers: with --pipeline N a client is in N loops at once.
    ///
    /// Kinds of a mix: send, peek, pop, read, read_broadcast, pair, readable, create, delete, echo; the shares
    /// add up to 1, as in mix:send=0.25,peek=0.25,pop=0.25,readable=0.25.
    #[arg(long, value_name = "WORKLOAD", default_value = "twelve-step")]
    pub workload: Workload,

    /// Size of a message body: a number, a range (100-2000) or weighted (200:50,2000:50)
    #[arg(long, value_name = "BYTES", default_value = "200")]
    pub message_bytes: Numbers,

    /// Queues that the sends and reads of a mix choose from at random
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub queues: u32,

    /// In a mix, share of sends to anyone; the others go to a random client
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share_of_one)]
    pub broadcast_share: f64,

    /// In a mix, share of read and read_broadcast that remove what they read
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = share_of_one)]
    pub remove_share: f64,

    /// In a mix with as many sends as pops: the number of messages stays what it was
    ///
    /// A client that has sent one more than it took takes one next, and the other way round. Sends that are not to anyone
    /// are then to the client itself.
    #[arg(long)]
    pub constant_size: bool,

    /// Messages to anyone, sent before the run, spread over the queues
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub preload: u64,

    /// Set up 30 queues and 256 accounts before the run; purges queues 1 to 30
    #[arg(long, value_name = "NAME")]
    pub dataset: Option<Dataset>,
}

/// What the server holds when the run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Dataset {
    /// No messages
    Empty,
    /// 12,000 messages in 10 queues from 30 senders, half of them addressed to their sender
    Full,
}

impl QueueBench {
    /// Returns whether the run has queues: its workload uses some, or they are to hold messages meanwhile.
    pub(crate) fn has_queues(&self) -> bool {
        self.workload.needs_queues() || self.dataset.is_some() || self.preload > 0
    }

    /// Returns whether clients log in: to use queues, and wherever the server keeps accounts, since it closes a
    /// connection that has not logged in within a minute.
    pub(crate) fn logs_in(&self) -> bool {
        self.workload.needs_queues() || self.secret_file.is_some()
    }

    /// Looks for options that contradict each other.
    ///
    /// # Errors
    /// The first contradiction, with what to do.
    pub fn validate(&self) -> Result<(), LoadError> {
        let usage = |text: String| Err(LoadError::Usage(text));
        if self.message_bytes.max() > MESSAGE_BYTES_MAX {
            return usage(format!(
                "--message-bytes {} is too much; {MESSAGE_BYTES_MAX} is the most",
                self.message_bytes
            ));
        }
        if self.constant_size && !self.workload.keeps_its_size(self.remove_share) {
            return usage(format!(
                "--constant-size needs as many sends as pops, and {} has others (of read and read_broadcast, \
                 --remove-share {} are pops)",
                self.workload, self.remove_share
            ));
        }
        if self.check && (self.message_bytes.min() as usize) < Stamp::LEN {
            return usage(format!(
                "--check needs --message-bytes of at least {}, for the stamp in each message",
                Stamp::LEN
            ));
        }
        if self.check && self.first_client > 1 {
            return usage(
                "--check goes only with --first-client 1: it accounts for everything in the queues, and so must be alone"
                    .to_owned(),
            );
        }
        if let Some(Err(error)) = self.secret_file.as_ref().map(SecretFile::read) {
            return usage(format!("--secret-file: {error}"));
        }
        self.run.validate()
    }
}

/// Size of the largest body: it can be held many times over.
const MESSAGE_BYTES_MAX: u32 = 64 << 20;

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: QueueBench,
    }

    /// Returns the bench that these words of a command line ask for.
    pub(crate) fn parse(words: &str) -> QueueBench {
        Line::parse_from(std::iter::once("bench").chain(words.split_whitespace())).bench
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let bench = parse("");
        assert!(bench.validate().is_ok());
        let json = serde_json::to_value(&bench).expect("JSON");
        for (name, value) in [
            ("connect", serde_json::json!(["127.0.0.1:7411"])),
            ("clients", serde_json::json!(16)),
            ("duration_s", serde_json::json!(60.0)),
            ("warmup_s", serde_json::json!(5.0)),
            ("cooldown_s", serde_json::json!(2.0)),
            ("think_ms", serde_json::json!(0.0)),
            ("workload", serde_json::json!("twelve-step")),
            ("message_bytes", serde_json::json!(200)),
        ] {
            assert_eq!(json[name], value, "{name}");
        }
    }

    #[test]
    fn addresses_may_repeat_and_name_unix_sockets() {
        let bench = parse("--connect 10.0.0.1:7411 --connect unix:/tmp/a.sock");
        assert_eq!(
            bench.connect,
            [Address::Tcp("10.0.0.1:7411".into()), Address::Unix("/tmp/a.sock".into())]
        );
    }

    #[test]
    fn contradictions_are_refused_with_a_way_out() {
        for (words, about) in [
            ("--check --message-bytes 10", "at least 58"),
            ("--check --first-client 9", "must be alone"),
            ("--duration 0s", "measures nothing"),
            ("--message-bytes 100000000", "is the most"),
            ("--think 5ms --rate-profile 0s:5", "leave one out"),
            ("--think 5ms --replay x", "leave one out"),
            ("--arrivals poisson --replay x", "as they were recorded"),
            ("--constant-size --workload mix:send=0.5,peek=0.5", "as many sends as pops"),
        ] {
            let refusal = parse(words).validate().expect_err(words);
            assert!(refusal.is_usage());
            assert!(refusal.to_string().contains(about), "{words}: {refusal}");
        }
    }

    #[test]
    fn a_search_goes_by_time_whichever_words_asked_for_a_number_of_requests() {
        let mut bench = parse("--find-max-rate p99<5ms");
        assert!(bench.validate().is_ok());
        bench.run.requests = Some(5);
        let refusal = bench.validate().expect_err("it has no end");
        assert!(refusal.is_usage() && refusal.to_string().contains("--duration"), "{refusal}");
    }

    #[test]
    fn shares_and_counts_have_limits() {
        for words in [
            "--clients 0",
            "--broadcast-share 1.5",
            "--threads 0",
            "--workload mix:send=2",
            "--think 5",
            "--rate-profile 1s:5",
            "--rate-profile 0s:5 --rate 5",
            "--rate-profile 0s:5 --requests 5",
            "--replay x --rate-per-client 5",
            "--replay x --replay-speed 0",
            "--replay-speed 2",
        ] {
            let line = std::iter::once("bench").chain(words.split_whitespace());
            assert!(Line::try_parse_from(line).is_err(), "{words}");
        }
    }
}
